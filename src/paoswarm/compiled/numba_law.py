"""The law of a dense swarm's next step for numba: draws from it, and what it learns from ranks.

The formulas are those of `paoswarm.algorithms.dense_learning`, where they are explained. Every function is about the
search in lane ``k``.
"""

from __future__ import annotations

import math

import numba
import numpy as np

from paoswarm.algorithms import dense_learning
from paoswarm.compiled.numba_lanes import AXES, CENTRE, COVARIANCE, DRAWN, LENGTHS, PATH, PATH_SCALE, ROOT, WEIGHTS
from paoswarm.compiled.numba_linear import dot

_WORST_CONDITION = dense_learning.WORST_CONDITION

_compiled = numba.njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract"})


@_compiled
def begin_law(lanes, k, centre, spread):
    """A round cloud, and the constants of learning."""
    own, vectors, matrices = lanes.own[k], lanes.vectors[k], lanes.matrices[k]
    d = len(centre)
    for i in range(d):
        vectors[CENTRE, i], vectors[LENGTHS, i], vectors[PATH_SCALE, i], vectors[PATH, i] = centre[i], 1.0, 0.0, 0.0
        for j in range(d):
            same = 1.0 if i == j else 0.0
            matrices[COVARIANCE, i, j], matrices[AXES, i, j], matrices[ROOT, i, j] = same, same, same
    own.scale, own.law_generation, own.is_singular = spread, 0, 0
    set_rates(own, lanes.numbers[k, WEIGHTS, : own.n], d)


@_compiled
def set_rates(own, weights, d):
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
        min(1 + 2 * rest_effective / (effective + 2), (1 - own.rank_one - own.rank_many) / (d * own.rank_many)),
    )
    own.total_weight = 1 - negative
    for i in range(mu, n):
        weights[i] *= negative / abs(rest)
    own.damping_scale = 1 + 2 * max(0.0, math.sqrt((effective - 1) / (d + 1)) - 1) + own.path_scale_rate
    own.path_rate = (4 + effective / d) / (d + 4 + 2 * effective / d)
    own.length = math.sqrt(d) * (1 - 1 / (4 * d) + 1 / (21 * d * d))
    own.patience = max(1, int(1 / (10 * d * (own.rank_one + own.rank_many))))


@_compiled
def draw(lanes, k, normal):
    """Draw all particles from the law (A1); ``normal`` (n, d) are standard deviates."""
    centre, root, drawn = lanes.vectors[k, CENTRE], lanes.matrices[k, ROOT], lanes.points[k, DRAWN]
    n, d = normal.shape
    scale = lanes.own[k].scale
    for i in range(n):
        for j in range(d):
            drawn[i, j] = centre[j] + scale * dot(root[j], normal[i])


@_compiled
def longest(lanes, k):
    """The largest standard deviation of the next position."""
    most = 0.0
    for length in lanes.vectors[k, LENGTHS]:
        most = max(most, length)
    return lanes.own[k].scale * most


@_compiled
def learn(lanes, k, ranking, steps):
    """The law after a generation whose particles have this ``ranking``, best first; ``steps`` (n, d) is space."""
    own, weights, drawn = lanes.own[k], lanes.numbers[k, WEIGHTS], lanes.points[k, DRAWN]
    vectors, axes = lanes.vectors[k], lanes.matrices[k, AXES]
    centre, lengths, path_scale, path = vectors[CENTRE], vectors[LENGTHS], vectors[PATH_SCALE], vectors[PATH]
    n, d = steps.shape
    mean_step, straight = np.zeros(d), np.empty(d)
    for i in range(n):
        for j in range(d):
            steps[i, j] = (drawn[ranking[i], j] - centre[j]) / own.scale
    for i in range(own.mu):
        for j in range(d):
            mean_step[j] += weights[i] * steps[i, j]  # (A2)
    own.law_generation += 1
    along = np.empty(d)
    _in_axes(mean_step, axes, lengths, along)
    for j in range(d):
        straight[j] = dot(axes[j], along)
    rate = own.path_scale_rate
    gain = math.sqrt(rate * (2 - rate) * own.effective)
    squared = 0.0
    for j in range(d):
        path_scale[j] = (1 - rate) * path_scale[j] + gain * straight[j]
        squared += path_scale[j] ** 2
    length = math.sqrt(squared)
    # While the scale grows fast, the path of the covariance waits.
    settled = math.sqrt(1 - (1 - rate) ** (2 * own.law_generation))
    is_steady = length / settled < (1.4 + 2 / (d + 1)) * own.length
    rate = own.path_rate
    gain = math.sqrt(rate * (2 - rate) * own.effective) if is_steady else 0.0
    for j in range(d):
        path[j] = (1 - rate) * path[j] + gain * mean_step[j]
    kept = 1 - own.rank_one - own.rank_many * own.total_weight
    if not is_steady:
        kept += own.rank_one * rate * (2 - rate)
    _update_covariance(own, lanes.matrices[k, COVARIANCE], path, axes, lengths, weights, steps, kept)
    for j in range(d):
        centre[j] += own.scale * mean_step[j]
    own.scale *= math.exp(min(1.0, own.path_scale_rate / own.damping_scale * (length / own.length - 1)))
    if own.law_generation % own.patience == 0:
        decompose(lanes, k)


@_compiled
def _in_axes(step, axes, lengths, along):
    """Fill ``along`` with a step in the axes of the covariance, in their lengths."""
    d = len(step)
    for c in range(d):
        along[c] = 0.0
    for j in range(d):
        for c in range(d):
            along[c] += step[j] * axes[j, c]
    for c in range(d):
        along[c] /= lengths[c]


@_compiled
def _update_covariance(own, covariance, path, axes, lengths, weights, steps, kept):
    """The rank-one and the rank-many update."""
    n, d = steps.shape
    along = np.empty(d)
    for i in range(d):
        for j in range(d):
            covariance[i, j] = kept * covariance[i, j] + own.rank_one * path[i] * path[j]
    for p in range(n):
        weight = weights[p]
        if weight < 0:  # a worse particle counts as if it were at the distance that is expected
            _in_axes(steps[p], axes, lengths, along)
            weight *= d / max(dot(along, along), 1e-12)
        for i in range(d):
            share = own.rank_many * weight * steps[p, i]
            for j in range(d):
                covariance[i, j] += share * steps[p, j]


@_compiled
def decompose(lanes, k):
    """Axes and lengths of the covariance, whose mean eigenvalue is made one: only the scale has a size."""
    own, path, lengths = lanes.own[k], lanes.vectors[k, PATH], lanes.vectors[k, LENGTHS]
    covariance, axes, root = lanes.matrices[k, COVARIANCE], lanes.matrices[k, AXES], lanes.matrices[k, ROOT]
    d = len(path)
    size = 0.0
    for i in range(d):
        size += covariance[i, i] / d
    is_finite = True
    for i in range(d):
        for j in range(i + 1):
            mean = (covariance[i, j] + covariance[j, i]) / 2 / size
            covariance[i, j], covariance[j, i] = mean, mean
            is_finite = is_finite and math.isfinite(mean)
    if not is_finite:
        own.is_singular = 1
        return
    eigenvalues, turned = np.linalg.eigh(covariance)
    shrunk = math.sqrt(size)
    own.scale *= shrunk
    least = eigenvalues[d - 1] / _WORST_CONDITION
    own.is_singular = 1 if eigenvalues[0] <= least else 0
    for i in range(d):
        path[i] /= shrunk
        lengths[i] = math.sqrt(max(eigenvalues[i], least))
        for j in range(d):
            axes[i, j] = turned[i, j]
    stretched = np.empty(d)
    for i in range(d):
        for c in range(d):
            stretched[c] = axes[i, c] * lengths[c]
        for j in range(i + 1):
            root[i, j] = dot(stretched, axes[j])
            root[j, i] = root[i, j]
