r"""Does the proposal cover the posterior? Climbs from the draws that stand out look for places where it does not.

The weights have the variance :math:`\int \gamma^2 / q - Z^2`, with :math:`\gamma = p\,L`. Where the proposal falls
short, :math:`\gamma^2 / q` is large, but if no draw comes there, the weights do not show it. A climb of
:math:`\gamma^2 / q` goes there: along a ridge to where the proposal ends, or from the foot of a narrow peak to its top.
It starts at the draws with the largest weights, and at draws whose weights exceed those of their neighbours. Draws
around the ends of the climbs then measure how much of the posterior is affected.
"""

from __future__ import annotations

import math
from itertools import zip_longest
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import KDTree

from paoswarm.core.arrays import Floats
from paoswarm.core.weights import log_sum_exp, normalise
from paoswarm.sampling.climbs import climb
from paoswarm.sampling.draw_pool import Pool
from paoswarm.sampling.mixture import Density
from paoswarm.sampling.modes import Mode, merge
from paoswarm.sampling.moments import scatter_matrix
from paoswarm.sampling.starts import spread_out, trend
from paoswarm.sampling.target import Target

_HEAVIEST = 2  # starts among the draws with the largest weights
_FARTHEST = 4  # starts among the draws that are farthest out, in one coordinate each
_FAR_WEIGHT = -2.0  # log weight, in mean weights, that a draw far out must have
_SURPRISING = 6  # starts among the draws whose weights exceed those of their neighbours
_EVEN = 1.0  # log of the largest weight, in mean weights, up to which no climb starts at the largest weights
_STANDS_OUT = 8.0  # median deviations by which a surprising draw exceeds its neighbours
_VISIBLE = 0.003  # log height that is added to these deviations: less is not worth a climb
_NEIGHBOURS = 3  # neighbours per dimension
_COMPARED = 8000  # draws that are compared with their neighbours, at most
_RANKED = 200_000  # draws that are looked at, about; there may be millions
_TOP = 1000  # of the heaviest draws, which are always looked at
_BULK = 1e-3  # share of the posterior that may be lower than the draws that are compared
_FIRST_SCALE = 0.3  # scale with which climbs begin, in standard deviations of the posterior
_BUDGET_SHARE = 0.1  # share of the evaluations so far that climbs may cost
_HIGHER = 1.0  # log ratio by which the end of a climb exceeds all draws, if the proposal falls short there
_PLACES = 3  # places to draw around, at most
_DOMINATES = 0.01  # share of all weight above which a single draw would show that the proposal falls short


class Seen(NamedTuple):
    """Draws with their heights (log posterior up to a constant) and log weights."""

    z: Floats
    height: Floats
    log_weight: Floats


class _Shortfall:
    """The hill ``gamma^2 / q`` to be climbed."""

    def __init__(self, target: Target, proposal: Density) -> None:
        self._target, self._proposal = target, proposal
        self.dim, self.is_box, self.circle = target.dim, target.is_box, target.circle

    @property
    def n_evaluations(self) -> int:
        return self._target.n_evaluations

    def inside(self, z: Floats) -> Floats:
        return self._target.inside(z)

    def parameters(self, z: Floats) -> Floats:
        return self._target.parameters(z)

    def height(self, z: Floats) -> Floats:
        z = self.inside(z)
        return 2 * self._target.height(z) - self._proposal.log_density(z)


def find_uncovered(target: Target, proposal: Density, pool: Pool, made: Seen) -> list[Mode]:
    """Places where the proposal falls far short of the posterior, with the scales of ``gamma^2 / q``; often none.

    ``made`` are draws from the proposal; those of the pool are compared with their neighbours as well.
    """
    rows = np.flatnonzero(np.isfinite(made.log_weight))
    if len(rows) > _RANKED:
        top = np.argpartition(made.log_weight, -_TOP)[-_TOP:]
        rows = np.unique(np.concatenate([rows[:: len(rows) // _RANKED], top]))
    z, weights = made.z[rows], normalise(made.log_weight[rows])
    log_ratio = made.log_weight[rows] - (log_sum_exp(made.log_weight) - math.log(len(made.z)))
    starts = _surprising(target, proposal, pool, made)
    if log_ratio.max() > _EVEN:
        heaviest = z[spread_out(z, log_ratio, _HEAVIEST)]
        starts = np.concatenate([starts, heaviest, _farthest(z[log_ratio > _FAR_WEIGHT], z, weights)])
    budget = int(min(_BUDGET_SHARE * target.n_evaluations, 0.25 * target.n_left))
    if len(starts) == 0 or budget <= len(starts):
        return []
    scatter = scatter_matrix((z - weights @ z).T, weights)
    scale = _FIRST_SCALE * np.linalg.cholesky(scatter + 1e-12 * np.trace(scatter) * np.eye(target.dim))
    found = climb(_Shortfall(target, proposal), starts, budget, scale).ends
    largest = float(np.max(made.log_weight))

    def excess(mode: Mode) -> float:
        return 0.5 * (mode.height - float(proposal.log_density(mode.z[None])[0])) - largest

    short = merge([mode for mode in found if excess(mode) > _HIGHER], target.circle, keep_negligible=True)
    return sorted(short, key=lambda mode: -mode.height)[:_PLACES]


def uncovered_share(pool: Pool, proposal: Density, n: int) -> tuple[float, float]:
    """Shares of the posterior, and of the variance of a coordinate, where ``n`` draws of the proposal are too few.

    There, a single draw would hold 1 % of all weight. The shares are judged by the pool.
    """
    log_w = pool.log_weight(1.0)
    log_ratio = pool.log_prior + pool.log_likelihood - proposal.log_density(pool.z) - log_sum_exp(log_w)
    dominates = log_ratio > math.log(_DOMINATES * n)
    weights = normalise(log_w)
    square = (pool.z - weights @ pool.z) ** 2
    of_variance = (weights * dominates) @ square / np.maximum(weights @ square, 1e-300)
    return float(weights[dominates].sum()), float(of_variance.max())


def _farthest(some: Floats, z: Floats, weights: Floats) -> Floats:
    """Of ``some`` draws, those farthest from the mean of all draws ``z`` in one coordinate, in standard deviations."""
    mean = weights @ z
    away = (some - mean) / np.sqrt(np.maximum(weights @ (z - mean) ** 2, 1e-300))
    both = np.concatenate([away, -away], axis=1)
    sides = np.argsort(-both.max(axis=0))[:_FARTHEST]
    return some[np.unique(both.argmax(axis=0)[sides])]


def _surprising(target: Target, proposal: Density, pool: Pool, made: Seen) -> Floats:
    """Draws ``(m, d)`` in the bulk of the posterior that are far above what their neighbours let expect."""
    made = Seen(*(array[:_RANKED] for array in made))
    z = np.concatenate([made.z, pool.z])
    height = np.concatenate([made.height, pool.log_prior + pool.log_likelihood])
    order = np.argsort(made.height)
    below = np.cumsum(normalise(made.log_weight)[order])
    lowest = made.height[order][np.searchsorted(below, _BULK)]
    kept = np.flatnonzero(height >= lowest)[:_COMPARED]
    z, height = z[kept], height[kept]
    if len(z) < 20 * target.dim:
        return z[:0]
    log_ratio = height - proposal.log_density(z)
    scaled = z / np.maximum(z.std(axis=0), 1e-300)
    nearest = np.asarray(KDTree(scaled).query(scaled, k=_NEIGHBOURS * target.dim + 1, workers=-1)[1])[:, 1:]
    each = [_standing_out(value, nearest) for value in (height - trend(z, height), log_ratio)]
    turns = [i for pair in zip_longest(*each) for i in pair if i is not None]
    return z[list(dict.fromkeys(turns))[:_SURPRISING]]


def _standing_out(value: Floats, nearest: NDArray[np.intp]) -> list[int]:
    """Indices of values far above those of their neighbours, the most striking first."""
    surprise = value - np.median(value[nearest], axis=1)
    usual = np.median(np.abs(surprise[nearest]), axis=1) + _VISIBLE
    score = surprise / usual
    best = np.argsort(-score)[:_SURPRISING]
    return [int(i) for i in best if score[i] > _STANDS_OUT]
