"""One generation of one swarm for numba: the same step as `paoswarm.algorithms.pao_step`, in loops over elements.

Arrays of points are flat, ``(n * d,)``, because loops over all elements become vector instructions even if ``d`` is
small. A loop that writes several arrays does not, because the compiler gives up proving that they do not overlap: so
there are several loops. Names become numbers.

There are three kinds of steps, each compiled when it is first needed and kept on disk: that of the usual swarm, that of
any other, and that of dense noise. Their arguments are the same:

rows (n or 1, r + 7)
    The coefficients of the step.
walls, scale, codes, neighbours
    The wall rule, the noise scale and the attractors, by their numbers.
moved
    How many particles are moved.
at, speed, home, leader, low, high (n * d,)
    Positions and velocities, which are changed; the bests of the particles; the best of all and the box, for each.
known, best_known (n,)
    Values and best values.
d1, d2 (n * d,)
    Normal deviates.
space (5, n * d)
    Room for what is computed on the way.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numba
import numpy as np
from numba import types

from paoswarm.compiled.program import Program
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

_OPTIONS: dict[str, Any] = {"cache": True, "error_model": "numpy", "fastmath": {"contract"}}
_compiled = numba.njit(nogil=True, **_OPTIONS)


def step_for(program: Program, dtype: Any) -> Any:
    """The compiled step of a program's swarms, with arrays of this type."""
    if program.is_usual and program.coefficients.shape[1] == 1:
        return _pointer(_usual_step, dtype)
    return _pointer(_dense_step if program.noise_scale == "covariance" else _any_step, dtype)


@cache
def _pointer(function: Any, dtype: Any) -> Any:
    real = numba.from_dtype(np.dtype(dtype))
    line, table, deviates = real[::1], real[:, ::1], types.float32[::1]
    names = (types.int64, types.int64, types.int64[::1], types.int64[:, :, ::1])
    signature = types.void(table, *names, types.int64, *[line] * 8, deviates, deviates, table)
    return numba.cfunc(signature, **_OPTIONS)(function)


def _usual_step(
    rows, walls, scale, codes, neighbours, moved, at, speed, home, leader, low, high, known, best_known, d1, d2, space
):
    """Pulled by the own best and the best of all, shaken by their distance, clipped: equations (3) and (12)."""
    count = moved * (len(at) // len(known))
    to_own, to_best = rows[0, 0], rows[0, 1]
    a11, a12, a21, a22, h11, h21, h22 = _entries(rows[0], 2)
    place, kick = space[0], space[1]
    for e in range(count):
        offset = at[e] - (to_own * home[e] + to_best * leader[e])
        kick[e] = a21 * offset + a22 * speed[e] + abs(home[e] - leader[e]) * (h21 * d1[e] + h22 * d2[e])
    for e in range(count):
        centre = to_own * home[e] + to_best * leader[e]
        place[e] = centre + a11 * (at[e] - centre) + a12 * speed[e] + abs(home[e] - leader[e]) * (h11 * d1[e])
    _clip(0, count, place, kick, low, high, at, speed)


def _any_step(
    rows, walls, scale, codes, neighbours, moved, at, speed, home, leader, low, high, known, best_known, d1, d2, space
):
    """Any attractors, the noise scale of a number for each element, any walls."""
    _see(walls, at, home, leader, low, high, space)
    _pull(rows, codes, neighbours, known, best_known, leader, space)
    _shake(scale, len(known), leader, d1, d2, space)
    _move(rows, walls, moved, len(known), at, speed, low, high, space)


def _dense_step(
    rows, walls, scale, codes, neighbours, moved, at, speed, home, leader, low, high, known, best_known, d1, d2, space
):
    """Any attractors and walls, noise with covariances."""
    _see(walls, at, home, leader, low, high, space)
    _pull(rows, codes, neighbours, known, best_known, leader, space)
    _shake_together(len(known), leader, d1, d2, space)
    _move(rows, walls, moved, len(known), at, speed, low, high, space)


@_compiled
def _entries(row, n_pulls):
    k = n_pulls
    return row[k], row[k + 1], row[k + 2], row[k + 3], row[k + 4], row[k + 5], row[k + 6]


@_compiled
def _see(walls, at, home, leader, low, high, space):
    """Positions and bests as springs see them: with periodic walls they take the short way round."""
    seen, homes = space[0], space[1]
    for e in range(len(at)):
        seen[e] = at[e]
    for e in range(len(at)):
        homes[e] = home[e]
    if walls == _PERIODIC:
        for e in range(len(at)):
            width = high[e] - low[e]
            seen[e] -= width * np.rint((seen[e] - leader[e]) / width)
            homes[e] -= width * np.rint((homes[e] - leader[e]) / width)


@_compiled
def _pull(rows, codes, neighbours, known, best_known, leader, space):
    """The weighted mean of the attractors, equation (3)."""
    seen, homes, centre, there = space[0], space[1], space[2], space[3]
    n = len(known)
    d = len(leader) // n
    centre[:] = 0.0
    for r in range(len(codes)):
        code = codes[r]
        if code == _LOCAL:
            there[:] = homes
        elif code == _GLOBAL:
            there[:] = leader
        elif code == _NEIGHBOURS:
            for p in range(n):
                winner = neighbours[r, p, 0]
                for q in neighbours[r, p]:
                    if best_known[q] < best_known[winner]:
                        winner = q
                for j in range(d):
                    there[p * d + j] = homes[winner * d + j]
        else:
            _average(code, seen, known, homes, best_known, there)
        if len(rows) == 1:
            for e in range(len(centre)):
                centre[e] += rows[0, r] * there[e]
        else:
            for p in range(n):
                for j in range(d):
                    centre[p * d + j] += rows[p, r] * there[p * d + j]


@_compiled
def _average(code, seen, known, homes, best_known, there):
    """A weighted mean of positions or bests, at the place of every particle."""
    n = len(known)
    d = len(there) // n
    share = np.ones(n, dtype=there.dtype)
    if code == _WEIGHTED:  # the best of n weighs n, the worst 1, a failed one 0
        ranked = np.argsort(known, kind="mergesort")
        for place in range(n):
            share[ranked[place]] = n - place
    values = best_known if code == _AVERAGE_BEST else known
    points = homes if code == _AVERAGE_BEST else seen
    total = 0.0
    for p in range(n):
        if code != _AVERAGE and not np.isfinite(values[p]):
            share[p] = 0.0
        total += share[p]
    if total <= 0:
        share[:] = 1.0
        total = float(n)
    for j in range(d):
        mean = 0.0
        for p in range(n):
            mean += share[p] / total * points[p * d + j]
        for p in range(n):
            there[p * d + j] = mean


@_compiled
def _shake(code, n, leader, d1, d2, space):
    """The deviates, scaled by the square root of nu."""
    seen, homes, noise1, noise2 = space[0], space[1], space[3], space[4]
    d = len(leader) // n
    if code == _SPREAD:
        for e in range(len(leader)):
            noise1[e] = abs(homes[e] - leader[e]) * d1[e]
        for e in range(len(leader)):
            noise2[e] = abs(homes[e] - leader[e]) * d2[e]
        return
    total = 0.0
    for j in range(d):
        mean = 0.0
        for p in range(n):
            mean += seen[p * d + j]
        total += (mean / n - leader[j]) ** 2
    scale = np.sqrt(total)
    for e in range(len(leader)):
        noise1[e] = scale * d1[e]
    for e in range(len(leader)):
        noise2[e] = scale * d2[e]


@_compiled
def _shake_together(n, leader, d1, d2, space):
    """Dense noise shaped like the cloud of bests; see `paoswarm.core.noise.covariance`."""
    homes, noise1, noise2 = space[1], space[3], space[4]
    d = len(leader) // n
    shape, size, safe, root = np.zeros((d, d)), np.empty(d), np.empty(d), np.zeros((d, d))
    for p in range(n):
        for i in range(d):
            for j in range(d):
                shape[i, j] += (homes[p * d + i] - leader[i]) * (homes[p * d + j] - leader[j])
    for i in range(d):
        size[i] = np.sqrt(shape[i, i] / n)
        safe[i] = size[i] if size[i] > 0 else 1.0
    for i in range(d):
        for j in range(d):
            shape[i, j] /= n * safe[i] * safe[j]
    values, vectors = np.linalg.eigh(shape)
    for i in range(d):
        for j in range(d):
            for c in range(d):
                root[i, j] += size[i] * vectors[i, c] * np.sqrt(max(values[c], 0.0)) * vectors[j, c]
    for p in range(n):
        distance = 0.0
        for c in range(d):
            if values[c] > _FLOOR:
                along = 0.0
                for j in range(d):
                    along += (homes[p * d + j] - leader[j]) / safe[j] * vectors[j, c]
                distance += along * along / values[c]
        strength = np.sqrt((1.2 + 2.5 * d / n) * distance / d)
        for i in range(d):
            first, second = 0.0, 0.0
            for j in range(d):
                first += root[i, j] * d1[p * d + j]
                second += root[i, j] * d2[p * d + j]
            noise1[p * d + i], noise2[p * d + i] = strength * first, strength * second


@_compiled
def _move(rows, walls, moved, n, at, speed, low, high, space):
    """One exact step, equation (12), then the walls; particles that share their coefficients in one loop."""
    d = len(at) // n
    n_pulls = rows.shape[1] - 7
    for p in range(len(rows) if len(rows) == 1 else moved):
        begin, end = (0, moved * d) if len(rows) == 1 else (p * d, (p + 1) * d)
        _drift(begin, end, _entries(rows[p], n_pulls), speed, space)
    place, kick = space[0], space[1]
    count = moved * d
    if walls == _CLIP:
        _clip(0, count, place, kick, low, high, at, speed)
        return
    at[:count], speed[:count] = place[:count], kick[:count]
    if walls == _REFLECT:
        for e in range(count):
            if at[e] < low[e] or at[e] > high[e]:
                width = high[e] - low[e]
                unrolled = (at[e] - low[e]) % (2 * width)
                is_mirrored = unrolled > width
                at[e] = min(max(low[e] + (2 * width - unrolled if is_mirrored else unrolled), low[e]), high[e])
                speed[e] = -speed[e] if is_mirrored else speed[e]
    elif walls == _PERIODIC:
        for e in range(count):
            if at[e] < low[e] or at[e] > high[e]:
                at[e] = min(max(low[e] + (at[e] - low[e]) % (high[e] - low[e]), low[e]), high[e])


@_compiled
def _drift(begin, end, entries, speed, space):
    """The next positions and velocities, in the places of what springs saw."""
    a11, a12, a21, a22, h11, h21, h22 = entries
    seen, kick, centre, noise1, noise2 = space[0], space[1], space[2], space[3], space[4]
    for e in range(begin, end):
        kick[e] = a21 * (seen[e] - centre[e]) + a22 * speed[e] + h21 * noise1[e] + h22 * noise2[e]
    for e in range(begin, end):
        seen[e] = centre[e] + a11 * (seen[e] - centre[e]) + a12 * speed[e] + h11 * noise1[e]


@_compiled
def _clip(begin, end, place, kick, low, high, at, speed):
    """Stop at the walls, which give back a part of the velocity."""
    back = place.dtype.type(-RESTITUTION)
    for e in range(begin, end):
        inside = low[e] if place[e] < low[e] else place[e]
        inside = high[e] if inside > high[e] else inside
        speed[e] = back * kick[e] if (place[e] - inside) * kick[e] > 0 else kick[e]
    for e in range(begin, end):
        inside = low[e] if place[e] < low[e] else place[e]
        at[e] = high[e] if inside > high[e] else inside


@numba.njit(nogil=True, **(_OPTIONS | {"fastmath": {"contract", "reassoc"}}))
def spread(x, leader, width, is_periodic):
    """Root mean square distance of the particles from the leader, in widths of the bounds."""
    total = 0.0
    if is_periodic:
        for e in range(len(x)):
            apart = (x[e] - leader[e]) / width[e]
            apart -= np.rint(apart)
            total += apart * apart
    else:
        for e in range(len(x)):
            apart = (x[e] - leader[e]) / width[e]
            total += apart * apart
    return np.sqrt(total / len(x))
