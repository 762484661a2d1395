"""Proposals: what is drawn from next, made of the pool and of the modes.

A proposal may be chosen in any way. What is asked of it is that its density is known and that it covers the posterior.
"""

from __future__ import annotations

import math

import numpy as np

from paoswarm.core.arrays import Floats
from paoswarm.core.weights import normalise, systematic
from paoswarm.sampling.draw_pool import Pool
from paoswarm.sampling.mixture import SIZES, Blend, Density, Mixture, fit
from paoswarm.sampling.modes import Mode
from paoswarm.sampling.periodic_coordinates import Wrapped
from paoswarm.sampling.target import Target
from paoswarm.sampling.unbounded_coordinates import Warped, choose_warped, to_line

_FEW = (1, 2, 4, 8, 16)  # numbers of components where the fit is only a guard
_FIT_POINTS = 2000  # at most; more do not change a fit that a thousand draws are to follow
_TAIL = 4.0  # degrees of freedom of the heavy share
_WIDER = 1.2  # and its scale


def make_ladder(modes: list[Mode], target: Target) -> Density:
    """Student-t laws around every mode, from its own scale to that of the prior: what surrounds a spike is seen too."""
    ratio, width = 1 + 3 / math.sqrt(target.dim), 0.6 if target.is_box else 1.0
    if not modes:  # no budget to climb with
        modes = [Mode(np.zeros(target.dim), width * np.eye(target.dim), 0.0)]
    weight, mean, factor = [], [], []
    for mode in modes:
        size = np.linalg.norm(mode.factor, ord=2)
        levels = 1 + min(6, max(0, math.ceil(math.log(width / size) / math.log(ratio))))
        for level in range(levels):
            part = math.exp(0.25 * (mode.log_mass - modes[0].log_mass))  # Laplace's mass is only a guess
            weight.append(part * (0.5 if level == 0 else 0.5 / (levels - 1)))
            mean.append(mode.z)
            factor.append(ratio**level * mode.factor)
    share = np.array(weight)
    return _wrapped(Mixture(share / share.sum(), np.array(mean), np.array(factor), _TAIL), target)


def _fit(pool: Pool, target: Target, beta: float, rng: np.random.Generator, sizes: tuple[int, ...]) -> Density:
    """Normal mixture with a heavy-tailed share for the pool at ``beta``, in the coordinates that suit it."""
    weight = normalise(pool.log_weight(beta))
    index, count = np.unique(systematic(weight, min(_FIT_POINTS, 400 + 300 * pool.z.shape[1]), rng), return_counts=True)
    points, counts = pool.z[index], count.astype(float)
    if target.circle is not None:
        points = target.circle.gathered(points, counts)
    warped = choose_warped(points, counts, target.walled)
    law = _heavy(_fitted(to_line(points, warped), counts, rng, sizes))
    return _wrapped(Warped(law, warped) if warped.any() else law, target)


def _wrapped(density: Density, target: Target) -> Density:
    return density if target.circle is None else Wrapped(density, target.circle)


def _fitted(points: Floats, counts: Floats, rng: np.random.Generator, sizes: tuple[int, ...]) -> Mixture:
    """The number of components by held-out log density."""
    if len(points) < 4 * (points.shape[1] + 2):  # too few to hold any out
        return fit(points, counts, 1, rng)
    half = rng.permutation(len(points)) % 2 == 0
    best, best_score, worse = 1, -math.inf, 0
    for k in sizes:
        if k > 1 and k * (points.shape[1] + 2) > 0.5 * len(points):
            break
        score = 0.0
        for train in (half, ~half):
            mixture = fit(points[train], counts[train], k, rng)
            score += float(counts[~train] @ _heavy(mixture).log_density(points[~train]))
        if score > best_score:
            best, best_score, worse = k, score, 0
        else:
            worse += 1
            if worse == 2:
                break
    return fit(points, counts, best, rng)


def _heavy(mixture: Mixture) -> Blend:
    return Blend(np.array([0.9, 0.1]), (mixture, mixture.widened(_WIDER, _TAIL)))


def fit_laws(pool: Pool, target: Target, beta: float, front: float, rng: np.random.Generator) -> list[Density]:
    """Fits at ``beta`` and at three milder temperatures, each a step that keeps a quarter of the effective size.

    The last is taken at the front of tempering from the prior where that lies further back.
    """
    laws = [_fit(pool, target, beta, rng, SIZES)]
    for step in range(3):
        beta = pool.milder(beta, 0.25)
        laws.append(_fit(pool, target, min(beta, front) if step == 2 else beta, rng, _FEW))
    return laws


def blend(laws: list[Density], shares: tuple[float, ...], ladder: Density, prior: Density) -> Blend:
    """Fits, and what guards them: the modes at all scales, and the prior."""
    share = np.array([*shares, 0.03, 0.01])
    return Blend(share / share.sum(), (*laws, ladder, prior))
