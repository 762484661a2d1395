"""One generation of one swarm for numba: the same step as `paoswarm.methods.pao_step`, in loops over elements.

Arrays of points are flat, ``(n * d,)``, because loops over all elements become vector instructions even if ``d`` is
small. Names become numbers.

There are three kinds of steps, each compiled when it is first needed and kept on disk: that of the usual swarm, that of
any other, and that of dense noise. Their arguments are the same:

key, generation
    The key of the run and the number of the generation, for the noise.
rows (n or 1, r + 7)
    The coefficients of the step.
walls, scale, codes, neighbours
    The wall rule, the noise scale and the attractors, by their numbers.
moved
    How many particles are moved.
at, speed, home, low, high (n * d,)
    Positions and velocities, which are changed; the bests of the particles; the box, for each.
leader (reach,)
    The best of all, again and again; see `reach`.
known, best_known (n,)
    Values and best values.
first, second, d1, d2 (room,)
    Room for random words and normal deviates; see `room`.
space (5, n * d)
    Room for what is computed on the way.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numba
import numpy as np
from numba import types

from paoswarm.core.walls import RESTITUTION
from paoswarm.engines import numba_noise as noise
from paoswarm.engines.numba_options import LOOPS, inner_loops, making_arrays
from paoswarm.engines.program import Program

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

_BLOCK = 512  # elements that the usual step moves at a time: what is computed on the way stays in the fastest cache
_LANES = 32  # a multiple of the elements that vector instructions take at a time


def step_for(program: Program, dtype: Any) -> Any:
    """The compiled step of a program's swarms, with arrays of this type."""
    if _is_usual(program):
        return _pointer(_usual_step, dtype)
    return _pointer(_dense_step if program.noise_scale == "covariance" else _any_step, dtype)


def reach(program: Program) -> int:
    """How many elements the repetitions of the best point must have for the step."""
    size = program.n_particles * program.n_dimensions
    return min(size, _BLOCK + program.n_dimensions) if _is_usual(program) else size


def room(program: Program) -> int:
    """Elements for which the step draws noise at a time."""
    elements = _BLOCK if _is_usual(program) else program.n_particles * program.n_dimensions
    return -(-elements // _LANES) * _LANES


def _is_usual(program: Program) -> bool:
    return program.is_usual and program.coefficients.shape[1] == 1


@cache
def _pointer(function: Any, dtype: Any) -> Any:
    real = numba.from_dtype(np.dtype(dtype))
    line, table, words, deviates = real[::1], real[:, ::1], types.uint32[::1], types.float32[::1]
    names = (types.int64, types.int64, types.int64[::1], types.int64[:, :, ::1])
    values = (types.float64[::1],) * 2
    room = (words, words, deviates, deviates, table)
    signature = types.void(words, types.int64, table, *names, types.int64, *[line] * 6, *values, *room)
    return numba.cfunc(signature, **LOOPS)(function)


def _usual_step(
    key, generation, rows, walls, scale, codes, neighbours, moved, at, speed, home, leader, low, high, known,
    best_known, first, second, d1, d2, space,
):  # fmt: skip
    """Pulled by the own best and the best of all, shaken by their distance, clipped: equations (3) and (12)."""
    d = len(at) // len(known)
    count = moved * d
    for a in range(0, count, _BLOCK):
        b = a + _BLOCK if a + _BLOCK < count else count
        m, padded = b - a, -(-(b - a) // _LANES) * _LANES
        noise.normals(key, generation, a, first[:padded], second[:padded], d1[:padded], d2[:padded])
        c = a % d  # the unknown of the first element
        box = low[c : c + m], high[c : c + m]
        _usual_move(rows[0], at[a:b], speed[a:b], home[a:b], leader[c : c + m], *box, d1[:m], d2[:m])


@inner_loops
def _usual_move(row, at, speed, home, leader, low, high, d1, d2):
    to_own = row[0]  # and 1 - to_own to the best of all
    back = at.dtype.type(-RESTITUTION)
    a11, a12, a21, a22, h11, h21, h22 = _entries(row, 2)
    for e in range(len(at)):
        apart = home[e] - leader[e]
        centre = leader[e] + to_own * apart
        offset, strength = at[e] - centre, abs(apart)
        kick = a21 * offset + a22 * speed[e] + strength * (h21 * d1[e] + h22 * d2[e])
        place = centre + a11 * offset + a12 * speed[e] + strength * (h11 * d1[e])
        at[e], speed[e] = _clipped(place, kick, low[e], high[e], back)


def _any_step(
    key, generation, rows, walls, scale, codes, neighbours, moved, at, speed, home, leader, low, high, known,
    best_known, first, second, d1, d2, space,
):  # fmt: skip
    """Any attractors, the noise scale of a number for each element, any walls."""
    noise.normals(key, generation, 0, first, second, d1, d2)
    seen, homes, centre, noise1, noise2 = space[0], space[1], space[2], space[3], space[4]
    _see(walls, at, home, leader, low, high, seen, homes)
    _pull(rows, codes, neighbours, known, best_known, leader, seen, homes, centre, noise1)
    _shake(scale, len(known), leader, d1, d2, seen, homes, noise1, noise2)
    _move(rows, walls, moved, len(known), at, speed, low, high, seen, centre, noise1, noise2)


def _dense_step(
    key, generation, rows, walls, scale, codes, neighbours, moved, at, speed, home, leader, low, high, known,
    best_known, first, second, d1, d2, space,
):  # fmt: skip
    """Any attractors and walls, noise with covariances."""
    noise.normals(key, generation, 0, first, second, d1, d2)
    seen, homes, centre, noise1, noise2 = space[0], space[1], space[2], space[3], space[4]
    _see(walls, at, home, leader, low, high, seen, homes)
    _pull(rows, codes, neighbours, known, best_known, leader, seen, homes, centre, noise1)
    _shake_together(len(known), leader, d1, d2, homes, noise1, noise2)
    _move(rows, walls, moved, len(known), at, speed, low, high, seen, centre, noise1, noise2)


@numba.njit(inline="always")
def _entries(row, k):
    return row[k], row[k + 1], row[k + 2], row[k + 3], row[k + 4], row[k + 5], row[k + 6]


@inner_loops
def _see(walls, at, home, leader, low, high, seen, homes):
    """Positions and bests as springs see them: with periodic walls they take the short way round."""
    if walls == _PERIODIC:
        for e in range(len(at)):
            width = high[e] - low[e]
            seen[e] = at[e] - width * np.rint((at[e] - leader[e]) / width)
            homes[e] = home[e] - width * np.rint((home[e] - leader[e]) / width)
    else:
        for e in range(len(at)):
            seen[e], homes[e] = at[e], home[e]


@inner_loops
def _pull(rows, codes, neighbours, known, best_known, leader, seen, homes, centre, there):
    """The weighted mean of the attractors, equation (3), seen from the best of all; ``there`` is room for one.

    So a particle at rest at the best of all stays there to the last bit.
    """
    n = len(known)
    d = len(leader) // n
    for e in range(len(leader)):
        centre[e] = leader[e]
    for r in range(len(codes)):
        code = codes[r]
        if code == _LOCAL:
            _add(rows, r, homes, leader, centre)
        elif code == _NEIGHBOURS:
            for p in range(n):
                winner = neighbours[r, p, 0]
                for q in neighbours[r, p]:
                    if best_known[q] < best_known[winner]:
                        winner = q
                for j in range(d):
                    there[p * d + j] = homes[winner * d + j]
            _add(rows, r, there, leader, centre)
        elif code != _GLOBAL:
            if code == _AVERAGE_BEST:
                _average(code, homes, best_known, there)
            else:
                _average(code, seen, known, there)
            _add(rows, r, there, leader, centre)


@inner_loops
def _add(rows, r, there, leader, centre):
    """Add an attractor with its weight, which may differ from particle to particle."""
    d = len(centre) // len(rows)
    for p in range(len(rows)):
        for e in range(p * d, (p + 1) * d):
            centre[e] += rows[p, r] * (there[e] - leader[e])


@making_arrays
def _average(code, points, values, there):
    """A weighted mean of positions or bests, at the place of every particle."""
    n = len(values)
    d = len(there) // n
    share = np.ones(n, dtype=there.dtype)
    if code == _WEIGHTED:  # the best of n weighs n, the worst 1, a failed one 0
        ranked = np.argsort(values, kind="mergesort")
        for place in range(n):
            share[ranked[place]] = n - place
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


@inner_loops
def _shake(code, n, leader, d1, d2, seen, homes, noise1, noise2):
    """The deviates, scaled by the square root of nu."""
    d = len(leader) // n
    if code == _SPREAD:
        for e in range(len(leader)):
            strength = abs(homes[e] - leader[e])
            noise1[e], noise2[e] = strength * d1[e], strength * d2[e]
        return
    total = 0.0
    for j in range(d):
        mean = 0.0
        for p in range(n):
            mean += seen[p * d + j]
        total += (mean / n - leader[j]) ** 2
    scale = np.sqrt(total)
    for e in range(len(leader)):
        noise1[e], noise2[e] = scale * d1[e], scale * d2[e]


@making_arrays
def _shake_together(n, leader, d1, d2, homes, noise1, noise2):
    """Dense noise shaped like the cloud of bests; see `paoswarm.core.noise.covariance`."""
    d = len(leader) // n
    shape, size, safe, root = np.zeros((d, d)), np.empty(d), np.empty(d), np.zeros((d, d))
    _correlate(n, leader, homes, shape, size, safe)
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


@making_arrays
def _correlate(n, leader, homes, shape, size, safe):
    """The correlations of bests around the best of all, and their sizes; ``safe`` sizes are not zero."""
    d = len(size)
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


@inner_loops
def _move(rows, walls, moved, n, at, speed, low, high, seen, centre, noise1, noise2):
    """One exact step, equation (12), then the walls; particles that share their coefficients in one loop."""
    d = len(at) // n
    n_pulls = rows.shape[1] - 7
    for p in range(1 if len(rows) == 1 else moved):
        a, b = (0, moved * d) if len(rows) == 1 else (p * d, (p + 1) * d)
        _drift(_entries(rows[p], n_pulls), at[a:b], speed[a:b], seen[a:b], centre[a:b], noise1[a:b], noise2[a:b])
    _stay_inside(walls, moved * d, at, speed, low, high)


@inner_loops
def _stay_inside(walls, count, at, speed, low, high):
    back = at.dtype.type(-RESTITUTION)
    if walls == _CLIP:
        for e in range(count):
            at[e], speed[e] = _clipped(at[e], speed[e], low[e], high[e], back)
    elif walls == _REFLECT:
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


@inner_loops
def _drift(entries, at, speed, seen, centre, noise1, noise2):
    """The next positions and velocities."""
    a11, a12, a21, a22, h11, h21, h22 = entries
    for e in range(len(at)):
        offset, kick = seen[e] - centre[e], speed[e]
        at[e] = centre[e] + a11 * offset + a12 * kick + h11 * noise1[e]
        speed[e] = a21 * offset + a22 * kick + h21 * noise1[e] + h22 * noise2[e]


@numba.njit(inline="always")
def _clipped(place, kick, low, high, back):
    """Stop at a wall, which turns the velocity into ``back`` times what it was."""
    inside = low if place < low else place
    inside = high if inside > high else inside
    return inside, back * kick if (place - inside) * kick > 0 else kick
