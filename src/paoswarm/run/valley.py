"""Whether a swarm lies in a narrow, oblique valley: a quadratic is fitted to the points that it knows.

The default noise adapts to the scale of each unknown, so a valley along an axis does no harm. What does is read off the
matrix of second derivatives, scaled to ones on its diagonal: its smallest eigenvalue is one if the unknowns do not
interact, and small in a valley that is oblique to the axes. ``benchmarks/ends.py`` measures how well this predicts that
`noise.covariance` does better.
"""

from __future__ import annotations

import numpy as np

from paoswarm.core import order
from paoswarm.core.arrays import Floats
from paoswarm.core.blas import on_one_thread
from paoswarm.core.swarm import Swarm

_NARROW = 0.1  # smallest eigenvalue
_FITS = 0.97  # share of the variance that the quadratic must explain: with several minima it does not
_PER_TERM = 1.5  # points for each term of the quadratic
_LEFT = 3e-8  # of the fall since the first swarm: less to gain is not worth a hint
_ACCURATE = 1e-6  # eigenvalues of a quadratic that fits perfectly


@on_one_thread
def is_in_a_valley(swarm: Swarm, fall: float) -> bool:
    """Whether one swarm lies in a narrow valley whose floor promises a gain, compared with the ``fall`` so far.

    All points may fit, or the lowest quarter of them if the valley is curved. In the latter case several unknowns may
    owe their curvature to chance, so all must curve upwards.
    """
    x, f = _known(swarm)
    d = swarm.n_dimensions
    lowest = order.ranked(f)[: max(len(f) // 4, (d + 1) * (d + 2))]
    wanted = _LEFT * fall
    return d > 1 and (_promised(x, f) > wanted or _promised(x[lowest], f[lowest], must_be_convex=True) > wanted)


def _promised(x: Floats, f: Floats, must_be_convex: bool = False) -> float:
    """What the bottom of a narrow valley gains by a quadratic through points; zero without such a valley."""
    n, d = x.shape
    n_terms = (d + 1) * (d + 2) // 2
    if n < _PER_TERM * n_terms:
        return 0.0
    size, scale = np.sqrt((x * x).mean(axis=0)), float(np.median(f))
    if not (size > 0).all() or not scale > 0:
        return 0.0
    z, y = x / size, f / scale
    weight = 1 / (y + 1)  # low points count most
    rows, columns = np.triu_indices(d)
    terms = np.concatenate([np.ones((n, 1)), z, z[:, rows] * z[:, columns]], axis=1)
    fitted = np.asarray(np.linalg.lstsq(terms * weight[:, None], y * weight, rcond=None)[0], dtype=float)
    middle = np.average(y, weights=weight**2)
    misfit = ((weight * (y - terms @ fitted)) ** 2).sum() / ((weight * (y - middle)) ** 2).sum() * n / (n - n_terms)
    curvature = np.zeros((d, d))
    curvature[rows, columns] = fitted[1 + d :]
    curvature += curvature.T
    own = np.diagonal(curvature)
    if not misfit < 1 - _FITS or not own.max() > 0 or (must_be_convex and not (own > 0).all()):
        return 0.0
    accuracy = max(float(misfit), _ACCURATE)
    unit = np.sqrt(np.maximum(own, accuracy * own.max()))
    values, vectors = np.linalg.eigh(curvature / (unit[:, None] * unit))
    slope = vectors.T @ (fitted[1 : 1 + d] / unit)
    return float(0.5 * scale * (slope**2 / np.maximum(values, accuracy)).sum()) if values[0] < _NARROW else 0.0


def _known(swarm: Swarm) -> tuple[Floats, Floats]:
    """Where the points of the swarm with finite values lie, seen from the best in widths of the bounds; how much worse.

    A position that is the best of its particle once more is left out.
    """
    if not np.isfinite(swarm.global_value):
        return swarm.best_position[:0], swarm.best_value[:0]
    is_new = swarm.value != swarm.best_value
    x = np.concatenate([swarm.best_position, swarm.position[is_new]]) - swarm.global_best[0]
    f = np.concatenate([swarm.best_value, swarm.value[is_new]]) - swarm.global_value
    is_finite = f < np.inf
    return (x / (swarm.upper[0] - swarm.lower[0]))[is_finite], f[is_finite]
