"""The law of a dense swarm's next step for numba: draws from it, and what it learns from ranks.

The formulas are those of `paoswarm.algorithms.dense_learning`, where they are explained.
"""

from __future__ import annotations

import math

import numba
import numpy as np

from paoswarm.compiled.numba_linear import dot

_WORST_CONDITION = 1e14  # ratio of the covariance's eigenvalues beyond which rounding decides

_compiled = numba.njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract"})


@_compiled
def begin_law(lane, centre, spread):
    """A round cloud, and the constants of learning."""
    own, law = lane.own[0], lane.law
    d = len(centre)
    for i in range(d):
        law.centre[i], law.lengths[i], law.path_scale[i], law.path[i] = centre[i], 1.0, 0.0, 0.0
        for j in range(d):
            same = 1.0 if i == j else 0.0
            law.covariance[i, j], law.axes[i, j], law.root[i, j] = same, same, same
    own.scale, own.law_generation, own.is_singular = spread, 0, 0
    _set_rates(own, lane.swarm.weights, d)


@_compiled
def _set_rates(own, weights, d):
    """The constants of `dense_learning.rates` for ``len(weights)`` particles and ``d`` unknowns."""
    n = len(weights)
    mu = n // 2
    pulls, rest, rest_squares = 0.0, 0.0, 0.0
    for i in range(n):
        weights[i] = math.log((n + 1) / 2) - math.log(i + 1)
        if i < mu:
            pulls += weights[i]
        else:
            rest += weights[i]
            rest_squares += weights[i] ** 2
    squares = 0.0
    for i in range(mu):
        weights[i] /= pulls
        squares += weights[i] ** 2
    effective, rest_effective = 1 / squares, rest * rest / rest_squares
    own.mu, own.effective = mu, effective
    own.path_scale_rate = (effective + 2) / (d + effective + 5)
    own.rank_one = 2 / ((d + 1.3) ** 2 + effective)
    many = 2 * (0.25 + effective + 1 / effective - 2) / ((d + 2) ** 2 + effective)
    own.rank_many = min(1 - own.rank_one, many)
    negative = min(
        1 + own.rank_one / own.rank_many,
        1 + 2 * rest_effective / (effective + 2),
        (1 - own.rank_one - own.rank_many) / (d * own.rank_many),
    )
    own.total_weight = 1 - negative
    for i in range(mu, n):
        weights[i] *= negative / abs(rest)
    own.damping_scale = 1 + 2 * max(0.0, math.sqrt((effective - 1) / (d + 1)) - 1) + own.path_scale_rate
    own.path_rate = (4 + effective / d) / (d + 4 + 2 * effective / d)
    own.length = math.sqrt(d) * (1 - 1 / (4 * d) + 1 / (21 * d * d))
    own.patience = max(1, int(1 / (10 * d * (own.rank_one + own.rank_many))))


@_compiled
def draw(lane, normal):
    """Draw all particles from the law (A1), into ``drawn``; ``normal`` (n, d) are standard deviates."""
    law, drawn = lane.law, lane.swarm.drawn
    scale = lane.own[0].scale
    n, d = drawn.shape
    for i in range(n):
        for j in range(d):
            drawn[i, j] = law.centre[j] + scale * dot(law.root[j], normal[i])


@_compiled
def longest(lane):
    """The largest standard deviation of the next position."""
    return lane.own[0].scale * lane.law.lengths.max()


@_compiled
def whitening(lane, matrix):
    """Fill ``matrix`` (d, d): ``(x - centre) @ matrix`` is standard normal for the next position ``x``."""
    law, scale = lane.law, lane.own[0].scale
    d = len(law.lengths)
    for i in range(d):
        for j in range(d):
            matrix[i, j] = law.axes[i, j] / (law.lengths[j] * scale)


@_compiled
def learn(lane, ranking, steps):
    """The law after a generation whose particles have this ``ranking``, best first; ``steps`` (n, d) is space."""
    own, law, drawn, weights = lane.own[0], lane.law, lane.swarm.drawn, lane.swarm.weights
    n, d = drawn.shape
    mean_step, straight = np.zeros(d), np.zeros(d)
    for i in range(n):
        for j in range(d):
            steps[i, j] = (drawn[ranking[i], j] - law.centre[j]) / own.scale
    for i in range(own.mu):
        for j in range(d):
            mean_step[j] += weights[i] * steps[i, j]  # (A2)
    own.law_generation += 1
    for c in range(d):
        along = 0.0
        for j in range(d):
            along += law.axes[j, c] * mean_step[j]
        along /= law.lengths[c]
        for j in range(d):
            straight[j] += law.axes[j, c] * along
    rate = own.path_scale_rate
    gain = math.sqrt(rate * (2 - rate) * own.effective)
    squared = 0.0
    for j in range(d):
        law.path_scale[j] = (1 - rate) * law.path_scale[j] + gain * straight[j]
        squared += law.path_scale[j] ** 2
    length = math.sqrt(squared)
    # While the scale grows fast, the path of the covariance waits.
    settled = math.sqrt(1 - (1 - rate) ** (2 * own.law_generation))
    is_steady = length / settled < (1.4 + 2 / (d + 1)) * own.length
    rate = own.path_rate
    gain = math.sqrt(rate * (2 - rate) * own.effective) if is_steady else 0.0
    for j in range(d):
        law.path[j] = (1 - rate) * law.path[j] + gain * mean_step[j]
    kept = 1 - own.rank_one - own.rank_many * own.total_weight
    if not is_steady:
        kept += own.rank_one * rate * (2 - rate)
    _update_covariance(own, law, weights, steps, kept)
    for j in range(d):
        law.centre[j] += own.scale * mean_step[j]
    own.scale *= math.exp(min(1.0, own.path_scale_rate / own.damping_scale * (length / own.length - 1)))
    if own.law_generation % own.patience == 0:
        decompose(lane)


@_compiled
def _update_covariance(own, law, weights, steps, kept):
    """The rank-one and the rank-many update."""
    covariance, path = law.covariance, law.path
    n, d = steps.shape
    for i in range(d):
        for j in range(d):
            covariance[i, j] = kept * covariance[i, j] + own.rank_one * path[i] * path[j]
    for p in range(n):
        weight = weights[p]
        if weight < 0:  # a worse particle counts as if it were at the distance that is expected
            squared = 0.0
            for c in range(d):
                along = 0.0
                for j in range(d):
                    along += steps[p, j] * law.axes[j, c]
                squared += (along / law.lengths[c]) ** 2
            weight *= d / max(squared, 1e-12)
        for i in range(d):
            share = own.rank_many * weight * steps[p, i]
            for j in range(d):
                covariance[i, j] += share * steps[p, j]


@_compiled
def decompose(lane):
    """Axes and lengths of the covariance, whose mean eigenvalue is made one: only the scale has a size."""
    own, law = lane.own[0], lane.law
    d = len(law.centre)
    size = 0.0
    for i in range(d):
        size += law.covariance[i, i] / d
    for i in range(d):
        for j in range(i + 1):
            mean = (law.covariance[i, j] + law.covariance[j, i]) / 2 / size
            law.covariance[i, j], law.covariance[j, i] = mean, mean
    if not np.isfinite(law.covariance).all():
        own.is_singular = 1
        return
    eigenvalues, axes = np.linalg.eigh(law.covariance)
    root = math.sqrt(size)
    own.scale *= root
    least = eigenvalues[-1] / _WORST_CONDITION
    own.is_singular = 1 if eigenvalues[0] <= least else 0
    for i in range(d):
        law.path[i] /= root
        law.lengths[i] = math.sqrt(max(eigenvalues[i], least))
        for j in range(d):
            law.axes[i, j] = axes[i, j]
    for i in range(d):
        for j in range(i + 1):
            total = 0.0
            for c in range(d):
                total += law.axes[i, c] * law.lengths[c] * law.axes[j, c]
            law.root[i, j], law.root[j, i] = total, total
