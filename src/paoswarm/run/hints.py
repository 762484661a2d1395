"""Hints: what a finished swarm shows about its problem, and what to try next."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import OptimizeResult

from paoswarm.core import noise, order
from paoswarm.core.arrays import Floats
from paoswarm.core.blas import on_one_thread
from paoswarm.core.swarm import Swarm
from paoswarm.evaluate.calls import MINUS_INF
from paoswarm.methods.pao import PAO
from paoswarm.run.stopping import Status
from paoswarm.space.names import numbered

_ON, _NEAR = 1e-6, 0.01  # widths of the bounds: the best point is on a wall, the better half of the bests near it
_CONTRACTED = 1e-9  # widths of the bounds
_NAMED = 5  # most unknowns that a hint names
_DENSE = "use method=ps.PAO(noise_scale=ps.noise.covariance); if fun is smooth, add polish=True"


def advice(result: OptimizeResult) -> str:
    """What to try next, in a sentence or two; usually empty."""
    if np.ndim(result.fun):  # several runs
        return ""
    if result.get("failure_kinds", {}).get(MINUS_INF):
        return "fun returned -inf, which counts as failed: if it is a log likelihood, minimise its negative"
    on_the_bounds = _on_the_bounds(result)
    if "feasible" in result:  # at the edge of what is allowed, a swarm looks as in a valley
        return on_the_bounds
    if _is_constant(result):
        return f"all values are {result.fun:.6g}: check that fun uses the unknowns, and that it is the right number"
    return "; ".join(filter(None, (on_the_bounds, _of_the_noise(result, is_free=not on_the_bounds))))


def _is_constant(result: OptimizeResult) -> bool:
    """Whether no value differs from the best, up to the rounding of a mean: a wrong number was read, or x is unused."""
    if 2 * result.get("n_failed", 0) > result.get("nfev", 0):  # too few values to tell
        return False
    mean = result.history.mean
    return len(mean) > 1 and bool(np.all(np.abs(mean - result.fun) <= 1e-12 * abs(result.fun)))


def _on_the_bounds(result: OptimizeResult) -> str:
    """Name the unknowns that ended on a bound: a wider range often has a better point."""
    method, swarm, *_ = result.method.report(result.swarm)
    wall = method.wall
    if wall.unroll is not None or not wall.is_bounded:  # nothing stops a particle there
        return ""
    space = result.get("space")
    x = result.x if space is None else space.coordinates(result.x)
    on = np.flatnonzero(_is_on_bound(x, swarm, wall.has_atoms)).tolist()
    labels = numbered(len(x)) if space is None else space.coordinate_labels()
    if not on:
        return ""
    names = ", ".join(labels[i] for i in on[:_NAMED]) + (f" and {len(on) - _NAMED} more" if len(on) > _NAMED else "")
    lies = "lies on its bound" if len(on) == 1 else "lie on their bounds"
    return f"{names} {lies}: wider bounds, if they make sense, may contain a better point"


def _is_on_bound(x: Floats, swarm: Swarm, is_exact: bool) -> Any:
    """Whether each unknown is on a bound and the swarm is near it: not one lucky point of a swarm on its way.

    In a wide box an unknown of ordinary size is near a bound, too. So some of the better half must be on it to the last
    bit. Where that cannot be, because the wall reflects, a swarm that has contracted must reach to it.
    """
    lower, upper = _reached_ends(swarm)
    width, half = upper - lower, _better_half(swarm)
    away, others = (np.minimum(points - lower, upper - points) for points in (x, half))
    size = half.std(axis=0)
    is_held = (others == 0).any(axis=0) if is_exact else (away <= size) & (size < _CONTRACTED * width)
    return ((away == 0) | (is_held & (away < _ON * width))) & (np.median(others, axis=0) < _NEAR * width)


def _reached_ends(swarm: Swarm) -> tuple[Floats, Floats]:
    """The outermost points that bests can have; infinite where there is no end, or no order."""
    lower, upper, axes = swarm.lower[0], swarm.upper[0], swarm.axes
    if axes is None:
        return lower, upper
    inset = np.where(axes.is_whole & (upper - lower > 2), 0.5, 0.0)  # two values have no order
    has_ends = (axes.is_continuous & ~axes.is_round) | (inset > 0)
    return np.where(has_ends, lower + inset, -np.inf), np.where(has_ends, upper - inset, np.inf)


def _of_the_noise(result: OptimizeResult, is_free: bool) -> str:
    """Advise dense noise in a narrow valley, and enough particles for dense noise; a polished run needs none."""
    method, swarm = result.method, result.swarm
    if not isinstance(method, PAO):
        return ""
    n, d = swarm.n_particles, swarm.n_dimensions
    if method.noise_scale is noise.covariance:
        few = f"noise.covariance needs more than six particles per unknown, for example n_particles={6 * d + 6}"
        return few if n < 6 * d else ""
    if result.get("status") is Status.STALLED:
        return f"the swarm contracted too early: {_DENSE}"
    best = result.history.best
    if (
        is_free
        and swarm.axes is None
        and len(best) > 0
        and result.fun >= best[-1]
        and is_in_a_valley(swarm, float(best[0] - best[-1]))
    ):
        return f"the swarm lies in a narrow valley: {_DENSE}"
    return ""


def _better_half(swarm: Swarm) -> Floats:
    bests: Floats = swarm.best_position[order.ranked(swarm.best_value)[: max(1, swarm.n_particles // 2)]]
    return bests


_NARROW = 0.1  # smallest eigenvalue
_FITS = 0.97  # share of the variance that the quadratic must explain: with several minima it does not
_PER_TERM = 1.5  # points for each term of the quadratic
_LEFT = 3e-8  # of the fall since the first swarm: less to gain is not worth a hint
_ACCURATE = 1e-6  # eigenvalues of a quadratic that fits perfectly


@on_one_thread
def is_in_a_valley(swarm: Swarm, fall: float) -> bool:
    """Whether one swarm lies in a narrow valley whose floor promises a gain, compared with the ``fall`` so far.

    A quadratic is fitted to the points that it knows. The default noise adapts to the scale of each unknown, so a
    valley along an axis does no harm. What does is read off the matrix of second derivatives, scaled to ones on its
    diagonal: its smallest eigenvalue is one if the unknowns do not interact, and small in a valley that is oblique to
    the axes. ``benchmarks/ends.py`` measures how well this predicts that `noise.covariance` does better.

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
