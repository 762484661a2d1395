"""One generation of one swarm for numba: the same step as `paoswarm.algorithms.pao_step`, in loops over elements.

Arrays of points are flat, ``(n * d,)``, because loops over all elements become vector instructions even if ``d`` is
small. A loop that touches many arrays does not, because the compiler gives up proving that they do not overlap: so
there are several short loops. Names become numbers: one compiled function serves all swarms, and is kept on disk.
"""

from __future__ import annotations

import numba
import numpy as np

from paoswarm.core.bounds import RESTITUTION

PULLS = (
    *("local_best", "global_best", "average_local_best", "average_particle", "weighted_average_particle"),
    "neighbourhood_best",
)
SCALES = ("spread", "mean_to_best", "covariance")
WALLS = ("clip", "reflect", "periodic", "none")
_LOCAL, _GLOBAL, _AVERAGE_BEST, _AVERAGE, _WEIGHTED, _NEIGHBOURS = range(len(PULLS))
_SPREAD, _MEAN_TO_BEST, _COVARIANCE = range(len(SCALES))
_CLIP, _REFLECT, _PERIODIC, _NONE = range(len(WALLS))
_FLOOR = 1e-13  # smaller eigenvalues of a correlation matrix are rounding errors

_compiled = numba.njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract"})


@_compiled
def unroll(points, leader, low, high):
    """The periodic images of points that are nearest to the leader."""
    for e in range(len(points)):
        width = high[e] - low[e]
        points[e] -= width * np.rint((points[e] - leader[e]) / width)


@_compiled
def pull_together(codes, weights, neighbours, x, value, best, best_value, leader, centre):
    """Fill ``centre`` with the weighted mean of the attractors, equation (3)."""
    n = len(value)
    d = len(x) // n
    centre[:] = 0.0
    for r in range(len(codes)):
        w, code = weights[r], codes[r]
        if code == _LOCAL:
            for e in range(len(x)):
                centre[e] += w * best[e]
        elif code == _GLOBAL:
            for e in range(len(x)):
                centre[e] += w * leader[e]
        elif code == _NEIGHBOURS:
            for p in range(n):
                winner = neighbours[r, p, 0]
                for q in neighbours[r, p]:
                    if best_value[q] < best_value[winner]:
                        winner = q
                for j in range(d):
                    centre[p * d + j] += w * best[winner * d + j]
        else:
            mean = _average(code, x, value, best, best_value, d)
            for p in range(n):
                for j in range(d):
                    centre[p * d + j] += w * mean[j]


@_compiled
def _average(code, x, value, best, best_value, d):
    n = len(value)
    share = np.ones(n, dtype=x.dtype)
    if code == _AVERAGE_BEST:
        share[~np.isfinite(best_value)] = 0.0
    elif code == _WEIGHTED:  # the best of n weighs n, the worst 1, a failed one 0
        ranked = np.argsort(value, kind="mergesort")
        for place in range(n):
            share[ranked[place]] = n - place
        share[~np.isfinite(value)] = 0.0
    total = share.sum()
    if total <= 0:
        share[:] = 1.0
        total = share.sum()
    points = best if code == _AVERAGE_BEST else x
    mean = np.zeros(d, dtype=x.dtype)
    for p in range(n):
        for j in range(d):
            mean[j] += share[p] / total * points[p * d + j]
    return mean


@_compiled
def shake(code, n, x, best, leader, d1, d2, noise1, noise2):
    """Fill ``noise1, noise2`` with the deviates, scaled by the square root of nu."""
    d = len(x) // n
    if code == _SPREAD:
        for e in range(len(x)):
            noise1[e] = abs(best[e] - leader[e])
        for e in range(len(x)):
            noise2[e] = noise1[e] * d2[e]
        for e in range(len(x)):
            noise1[e] *= d1[e]
    elif code == _MEAN_TO_BEST:
        total = 0.0
        for j in range(d):
            mean = 0.0
            for p in range(n):
                mean += x[p * d + j]
            total += (mean / n - leader[j]) ** 2
        scale = np.sqrt(total)
        for e in range(len(x)):
            noise1[e], noise2[e] = scale * d1[e], scale * d2[e]
    else:
        _shake_together(n, d, best, leader, d1, d2, noise1, noise2)


@_compiled
def _shake_together(n, d, best, leader, d1, d2, noise1, noise2):
    """Dense noise shaped like the cloud of bests; see `paoswarm.core.noise.covariance`."""
    apart = np.empty((n, d))
    for p in range(n):
        for j in range(d):
            apart[p, j] = best[p * d + j] - leader[j]
    shape = apart.T @ apart / n
    size = np.sqrt(np.diag(shape))
    safe = np.where(size > 0, size, 1.0)
    values, vectors = np.linalg.eigh(shape / safe / safe.reshape(-1, 1))
    values = np.maximum(values, 0.0)
    root = size.reshape(-1, 1) * ((vectors * np.sqrt(values)) @ np.ascontiguousarray(vectors.T))
    standard = (apart / safe) @ vectors
    for p in range(n):
        distance = 0.0
        for j in range(d):
            if values[j] > _FLOOR:
                distance += standard[p, j] ** 2 / values[j]
        strength = np.sqrt((1.2 + 2.5 * d / n) * distance / d)
        for i in range(d):
            first, second = 0.0, 0.0
            for j in range(d):
                first += root[i, j] * d1[p * d + j]
                second += root[i, j] * d2[p * d + j]
            noise1[p * d + i], noise2[p * d + i] = strength * first, strength * second


@_compiled
def move(row, walls, x, v, centre, noise1, noise2, low, high):
    """Move elements that share the coefficients ``row`` by one exact step, equation (12), then apply the walls.

    ``noise2`` is used up.
    """
    a11, a12, a21, a22, h11, h21, h22 = row
    for e in range(len(x)):
        x[e] -= centre[e]
    for e in range(len(x)):
        noise2[e] = h22 * noise2[e] + h21 * noise1[e] + a21 * x[e]
    for e in range(len(x)):
        x[e] = a11 * x[e] + a12 * v[e] + centre[e] + h11 * noise1[e]
    for e in range(len(x)):
        v[e] = a22 * v[e] + noise2[e]
    if walls == _CLIP:
        back = x.dtype.type(-RESTITUTION)
        for e in range(len(x)):
            at = x[e]
            inside = low[e] if at < low[e] else at
            inside = high[e] if inside > high[e] else inside
            v[e] = back * v[e] if (at - inside) * v[e] > 0 else v[e]
            x[e] = inside
    elif walls == _REFLECT:
        for e in range(len(x)):
            if x[e] < low[e] or x[e] > high[e]:
                width = high[e] - low[e]
                unrolled = (x[e] - low[e]) % (2 * width)
                is_mirrored = unrolled > width
                x[e] = min(max(low[e] + (2 * width - unrolled if is_mirrored else unrolled), low[e]), high[e])
                v[e] = -v[e] if is_mirrored else v[e]
    elif walls == _PERIODIC:
        for e in range(len(x)):
            if x[e] < low[e] or x[e] > high[e]:
                x[e] = min(max(low[e] + (x[e] - low[e]) % (high[e] - low[e]), low[e]), high[e])


@_compiled
def spread(x, leader, low, high, is_periodic):
    """Root mean square distance of the particles from the leader, in widths of the bounds."""
    total = 0.0
    for e in range(len(x)):
        apart = (x[e] - leader[e]) / (high[e] - low[e])
        if is_periodic:
            apart -= np.rint(apart)
        total += apart * apart
    return np.sqrt(total / len(x))
