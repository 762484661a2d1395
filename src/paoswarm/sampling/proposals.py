"""Proposals: densities to draw from next, made from the pool and the modes.

A proposal may be chosen in any way, as long as its density is known and it covers the posterior.
"""

from __future__ import annotations

import math

import numpy as np

from paoswarm.core.arrays import Floats
from paoswarm.core.weights import normalise
from paoswarm.sampling.draw_pool import Pool
from paoswarm.sampling.mixture import SIZES, Blend, Density, Mixture, distinct_draws, fit
from paoswarm.sampling.modes import Mode
from paoswarm.sampling.periodic_coordinates import Wrapped
from paoswarm.sampling.target import Target
from paoswarm.sampling.unbounded_coordinates import Warped, choose_warped, to_line

_FEW = (1, 2, 4, 8, 16)  # numbers of components to try for a wider fit, which is only a safeguard
_FIT_POINTS = 2000  # at most; more hardly change a fit
_TAIL = 4.0  # degrees of freedom of the heavy-tailed share
_WIDER = 1.2  # scale of the heavy-tailed share


def make_ladder(modes: list[Mode], target: Target) -> Density:
    """Student-t components around every mode at several scales, from its own to that of the prior."""
    ratio, width = 1 + 3 / math.sqrt(target.dim), 0.6 if target.is_box else 1.0
    if not modes:  # no budget to climb with
        modes = [Mode(np.zeros(target.dim), width * np.eye(target.dim), 0.0)]
    weight, mean, factor = [], [], []
    for mode in modes:
        size = np.linalg.norm(mode.factor, ord=2)
        levels = 1 + min(6, max(0, math.ceil(math.log(width / size) / math.log(ratio))))
        for level in range(levels):
            part = math.exp(0.25 * (mode.log_mass - modes[0].log_mass))  # the Laplace estimate is rough
            weight.append(part * (0.5 if level == 0 else 0.5 / (levels - 1)))
            mean.append(mode.z)
            factor.append(ratio**level * mode.factor)
    share = np.array(weight)
    return _wrapped(Mixture(share / share.sum(), np.array(mean), np.array(factor), _TAIL), target)


def _fit(pool: Pool, target: Target, beta: float, rng: np.random.Generator, sizes: tuple[int, ...]) -> Density:
    """Fit a normal mixture with a heavy-tailed share to the pool at ``beta``, in suitable coordinates."""
    n = min(_FIT_POINTS, 400 + 300 * pool.z.shape[1])
    points, counts = distinct_draws(pool.z, normalise(pool.log_weight(beta)), n, rng)
    if target.circle is not None:
        points = target.circle.gathered(points, counts)
    warped = choose_warped(points, counts, target.walled)
    fitted = _with_heavy_tail(_fit_mixture(to_line(points, warped), counts, rng, sizes))
    return _wrapped(Warped(fitted, warped) if warped.any() else fitted, target)


def _wrapped(density: Density, target: Target) -> Density:
    return density if target.circle is None else Wrapped(density, target.circle)


def _fit_mixture(points: Floats, counts: Floats, rng: np.random.Generator, sizes: tuple[int, ...]) -> Mixture:
    """Fit a mixture; two-fold cross-validation chooses the number of components."""
    if len(points) < 4 * (points.shape[1] + 2):  # too few for cross-validation
        return fit(points, counts, 1, rng)
    half = rng.permutation(len(points)) % 2 == 0
    best, best_score, worse = 1, -math.inf, 0
    for k in sizes:
        if k > 1 and k * (points.shape[1] + 2) > 0.5 * len(points):
            break
        score = 0.0
        for train in (half, ~half):
            mixture = fit(points[train], counts[train], k, rng)
            score += float(counts[~train] @ _with_heavy_tail(mixture).log_density(points[~train]))
        if score > best_score:
            best, best_score, worse = k, score, 0
        else:
            worse += 1
            if worse == 2:
                break
    return fit(points, counts, best, rng)


def _with_heavy_tail(mixture: Mixture) -> Blend:
    return Blend(np.array([0.9, 0.1]), (mixture, mixture.widened(_WIDER, _TAIL)))


def fit_laws(pool: Pool, target: Target, beta: float, front: float, rng: np.random.Generator) -> list[Density]:
    """Fit the pool at ``beta`` and at three smaller inverse temperatures.

    Each step back keeps a quarter of the effective size. The last is taken at ``front`` if that is smaller.
    """
    laws = [_fit(pool, target, beta, rng, SIZES)]
    for step in range(3):
        beta = pool.milder(beta, 0.25)
        laws.append(_fit(pool, target, min(beta, front) if step == 2 else beta, rng, _FEW))
    return laws


def blend(laws: list[Density], shares: tuple[float, ...], ladder: Density, prior: Density) -> Blend:
    """Mix the fits with two safeguards: the modes at all scales, and the prior."""
    share = np.array([*shares, 0.03, 0.01])
    return Blend(share / share.sum(), (*laws, ladder, prior))
