"""The numba engine: swarms on the cores of this machine, the objective compiled into machine code.

The objective and the step come in as pointers to compiled code. So whole runs, generations, objective, bests and ends
in one loop, are compiled once, for all objectives and swarms, and kept on disk; only the objective is compiled anew.

Whether a particle improves is close to random. A processor that guesses wrong loses more time than copying takes, so
bests, ages and failed points are recorded without branches on values.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numba
import numpy as np
from numba import types
from numba.extending import overload

from paoswarm._extras import cores
from paoswarm.core.arrays import Floats
from paoswarm.engines import counter, numba_noise, numba_step
from paoswarm.engines.engines import ForNumba
from paoswarm.engines.numba_objective import objective
from paoswarm.engines.numba_options import INNER, OPTIONS, Apart, inner_loops, loops
from paoswarm.engines.program import (
    BY_PATIENCE,
    BY_SPREAD,
    BY_VALUES,
    CONVERGED,
    FAILED,
    RUNNING,
    TARGET,
    Program,
    State,
    empty_state,
)

_LONG = 8  # unknowns from which one loop over all elements is faster than one over points


@inner_loops
def compare(values, best_values, ages, marks):
    """Record values (m,), and return how many are NaN.

    ``marks`` become -1, which is all bits set, for the better ones and 0 for the others.
    """
    n_failed = 0
    for p in range(len(values)):
        value, before, age = values[p], best_values[p], ages[p] + 1.0
        is_better = value < before
        best_values[p] = value if is_better else before
        ages[p] = 0.0 if is_better else age
        marks[p] = -1 if is_better else 0
        n_failed += 1 if value != value else 0
    return n_failed


@inner_loops
def lowest(values):
    """The number of the first particle with the lowest value."""
    first, least = 0, values[0]
    for p in range(1, len(values)):
        if values[p] < least:
            first, least = p, values[p]
    return first


@cache
def keeper(d: int, dtype: Any) -> Any:
    """Compiled code ``(marks, m, places, bests)`` that copies the marked ones of m points (m, d) of this type.

    The number of unknowns is a constant in it: then LLVM makes vectors of short points, and divides by it quickly.
    """
    bits = np.int32 if dtype == np.float32 else np.int64

    def keep(marks, m, places, bests):
        mark = numba.carray(marks, (m,), np.int64)
        new, old = numba.carray(places, (m * d,), bits), numba.carray(bests, (m * d,), bits)
        if d < _LONG:
            for p in range(m):
                mask = bits(mark[p])
                for e in range(p * d, (p + 1) * d):
                    old[e] ^= (old[e] ^ new[e]) & mask
        else:
            for e in range(m * d):
                old[e] ^= (old[e] ^ new[e]) & bits(mark[np.uint32(e) // np.uint32(d)])

    pointers = types.voidptr, types.int64, types.voidptr, types.voidptr
    return numba.cfunc(types.void(*pointers), pipeline_class=Apart, **OPTIONS)(keep)


_BLOCK = 128  # elements whose distances are summed before it is seen whether they are already too large


def make_room(n: int, d: int, reach: int, noise: int, dtype: Any) -> tuple[Any, ...]:
    """Arrays for what `advance` computes on the way; `reach` and `room` of the step say how many elements it needs."""
    words, deviates = np.empty((2, noise), dtype=np.uint32), np.empty((2, noise), dtype=np.float32)
    leader, points, marks = np.empty(reach, dtype=dtype), np.empty(n * d), np.empty(n, dtype=np.int64)
    return leader, points, marks, *words, *deviates, np.empty((5, n * d), dtype=dtype)


@loops
def advance(fun, data, step, keep, how, is_periodic, table, budget, box, rules, keys, generation, state, history, room):
    """Move runs on by as many generations as ``history`` (runs, k) has columns, or until they end.

    If it has none, see which first swarms have already come to an end. ``how`` are walls, scale, codes and neighbours
    of the step. ``table`` (generations or 1, n or 1, r + 7) has its coefficients; ``generation`` is the number of the
    first one. The ``box`` (3, n * d) has lower and upper bounds and inverse widths, for every particle.
    """
    x, v, best, value, best_value, age, leader_value, stale, nit, nfev, n_failed, status, rule = state
    walls, scale, codes, neighbours = how
    leader, points, marks, first, second, d1, d2, space = room
    low, high, widths = box[0], box[1], box[2]
    n = value.shape[1]
    d = len(points) // n
    for r in range(len(keys)):
        at, speed, home, known, best_known, waited = x[r], v[r], best[r], value[r], best_value[r], age[r]
        top = lowest(best_known)
        _tile(home[top * d : (top + 1) * d], leader)
        if history.shape[1] == 0:
            status[r], rule[r] = _ended(rules, at, best_known, leader_value[r], leader, widths, is_periodic, stale[r])
        for t in range(history.shape[1]):
            if status[r] != RUNNING or nfev[r] >= budget:
                history[r, t] = leader_value[r]
                continue
            left, row = budget - nfev[r], generation + t - 1
            moved = n if left > n else left
            rows = table[row if row < len(table) else len(table) - 1]
            step(
                keys[r], generation + t, rows, walls, scale, codes, neighbours, moved, at, speed, home, leader, low,
                high, known, best_known, first, second, d1, d2, space,
            )  # fmt: skip
            fun(_doubled(at, points).ctypes, moved, known.ctypes, data)
            n_failed[r] += compare(known[:moved], best_known[:moved], waited[:moved], marks[:moved])
            keep(marks.ctypes, moved, at.ctypes, home.ctypes)
            before, top = top, lowest(best_known)
            is_better = best_known[top] < leader_value[r]
            stale[r] = 0 if is_better else stale[r] + 1
            leader_value[r] = best_known[top]
            if is_better or top != before:
                _tile(home[top * d : (top + 1) * d], leader)
            history[r, t] = leader_value[r]
            nit[r] += 1
            nfev[r] += moved
            status[r], rule[r] = _ended(rules, at, best_known, leader_value[r], leader, widths, is_periodic, stale[r])


def _doubled(at: Any, room: Any) -> Any:
    """Positions in double precision, in the room for them unless they already are."""


@overload(_doubled)
def _doubled_(at, room):
    if at.dtype == types.float64:
        return lambda at, room: at

    def doubled(at, room):
        for e in range(len(at)):
            room[e] = at[e]
        return room

    return doubled


@inner_loops
def _tile(point, tiled):
    """Repeat a point, in copies that become longer and longer."""
    done = len(point)
    _copy(point, tiled[:done])
    while done < len(tiled):
        left = len(tiled) - done
        more = done if done < left else left
        _copy(tiled[:more], tiled[done : done + more])
        done += more


@inner_loops
def _copy(source, target):
    for e in range(len(source)):
        target[e] = source[e]


@inner_loops
def _highest(values):
    highest = values[0]
    for p in range(1, len(values)):
        highest = values[p] if values[p] > highest else highest
    return highest


@inner_loops
def _ended(rules, x, best_value, lowest, leader, widths, is_periodic, stale):
    """What has ended a run, and by which rule it has converged; the first reason that holds counts."""
    target, tol, patience, near, same = rules
    rule = 0
    if tol > 0:
        if stale >= patience:
            rule = BY_PATIENCE
        limit = near if near > tol else tol
        apart = _spread(x, leader, widths, len(x) // len(best_value), is_periodic, limit)
        if apart < near and _highest(best_value) - lowest <= same * abs(lowest):
            rule = BY_VALUES
        if apart < tol:
            rule = BY_SPREAD
    if lowest <= target:
        return TARGET, rule
    if rule:
        return CONVERGED, rule
    return RUNNING, rule


@inner_loops
def _spread(x, leader, widths, d, is_periodic, limit):
    """Root mean square distance of the particles from the leader, in widths of the bounds.

    ``widths`` are their inverses. If the distance is above the limit, a number above the limit.
    """
    total, enough = 0.0, 2 * limit * limit * len(x)
    for a in range(0, len(x), _BLOCK):
        b, c = (a + _BLOCK if a + _BLOCK < len(x) else len(x)), a % d
        total += _squares(x[a:b], leader[c : c + b - a], widths[c : c + b - a], is_periodic)
        if total > enough:
            break
    return np.sqrt(total / len(x))


@numba.njit(**(INNER | {"fastmath": {"contract", "reassoc"}}))
def _squares(x, leader, widths, is_periodic):
    total = 0.0
    if is_periodic:
        for e in range(len(x)):
            apart = (x[e] - leader[e]) * widths[e]
            apart -= np.rint(apart)
            total += apart * apart
    else:
        for e in range(len(x)):
            apart = (x[e] - leader[e]) * widths[e]
            total += apart * apart
    return total


_CACHE_LINE = 64  # bytes
_BLOCKS = 2  # of runs for each thread: runs end at different times


class NumbaEngine:
    """Runs of a program with numba.

    Parameters
    ----------
    program : Program
    fun : callable
        ``fun(x) -> float`` for a point ``x`` (d,), compiled with `numba.njit` or such that it can be.
    precision : {"double", "single"}
        Of the swarms; the objective always sees double precision.
    threads : int, optional
        One per core if not given.
    """

    longest, at_once = 10**9, 16

    def __init__(
        self,
        program: Program,
        fun: Callable[..., Any] | ForNumba,
        precision: str = "double",
        threads: int | None = None,
    ) -> None:
        self._program = program
        self._fun = objective(fun, program.n_dimensions)
        self._dtype = np.float32 if precision == "single" else np.float64
        self._threads = threads or cores()
        self._step = numba_step.step_for(program, self._dtype)
        self._keep = keeper(program.n_dimensions, self._dtype)
        self._how = (
            numba_step.WALLS.index(program.walls),
            numba_step.SCALES.index(program.noise_scale),
            np.array([numba_step.PULLS.index(pull.name) for pull in program.pulls]),
            _neighbours(program),
        )
        room = numba_step.reach(program), numba_step.room(program)
        self._sizes = (program.n_particles, program.n_dimensions, *room)
        self._table = np.ascontiguousarray(program.coefficients, dtype=self._dtype)
        box = program.lower, program.upper, 1 / (program.upper - program.lower)
        self._box = np.stack([np.tile(edge, program.n_particles) for edge in box]).astype(self._dtype)
        self._is_periodic = program.walls == "periodic"
        rules = program.rules
        self._rules = (rules.target, rules.tol, rules.patience, rules.near, rules.same)

    def begin(self, keys: counter.Words, given: Floats | None = None) -> State:
        """The first swarms of runs with these keys, evaluated; ``given`` points (n, d) replace the design."""
        p = self._program
        state = _first_state(p, len(keys), self._dtype)
        half = counter.half_bits(p.n_particles)

        def work(part: slice) -> None:
            x, value = state.x[part], state.value[part]
            points = x if self._dtype == np.float64 else np.empty(x.shape)
            if given is None:
                room = numba_noise.make_room(p.n_particles, p.n_dimensions)
                numba_noise.first_points(keys[part], half, p.lower, p.upper, *room, points)
            else:
                points[:] = given
            x[:] = points  # rounded, in single precision
            state.best[part] = x
            value[:] = self._fun(x.reshape(-1, p.n_dimensions)).reshape(value.shape)
            is_failed = np.isnan(value)
            state.best_value[part] = np.where(is_failed, np.inf, value)
            state.leader_value[part] = state.best_value[part].min(axis=1)
            state.n_failed[part], state.nfev[part] = is_failed.sum(axis=1), p.n_particles

        self._share(work, len(keys))
        self.advance(state, keys, 1, 0)  # some may already have come to an end
        state.status[state.leader_value == np.inf] = FAILED
        return state

    def advance(self, state: State, keys: counter.Words, generation: int, count: int) -> tuple[State, Floats]:
        """Move on by ``count`` generations, the first of which has this number, or until runs end.

        Return where the runs stand and their best values after every generation ``(runs, count)``. The arrays of
        ``state`` are changed.
        """
        history = np.empty((len(keys), count))
        swarm = (self._fun.pointer, self._fun.data, self._step, self._keep, self._how, self._is_periodic, self._table)
        ends = (self._program.evaluations, self._box, self._rules)

        def work(part: slice) -> None:
            room = make_room(*self._sizes, self._dtype)
            advance(*swarm, *ends, keys[part], generation, _part(state, part), history[part], room)

        self._share(work, len(keys))
        return state, history

    def evaluate(self, points: Floats) -> Floats:
        """The objective at points ``(m, d)``."""
        return self._fun(points)

    def _share(self, work: Callable[[slice], None], runs: int) -> None:
        """Do the work for blocks of runs, on several threads if there are several runs."""
        blocks = min(runs, self._threads * _BLOCKS) if self._threads > 1 else 1
        edges = np.linspace(0, runs, blocks + 1).astype(int)
        parts = [slice(int(a), int(b)) for a, b in zip(edges, edges[1:], strict=False)]
        if blocks == 1:
            work(parts[0])
            return
        with ThreadPoolExecutor(self._threads) as pool:
            list(pool.map(work, parts))


def _neighbours(program: Program) -> Any:
    """The neighbours ``(r, n, m)`` of every particle for every attractor; where there are none, itself."""
    known = [pull.neighbours for pull in program.pulls]
    widest = max([1, *(one.shape[1] for one in known if one is not None)])
    found = np.empty((len(known), program.n_particles, widest), dtype=np.int64)
    found[:] = np.arange(program.n_particles)[:, None]
    for r, one in enumerate(known):
        if one is not None:
            found[r, :, : one.shape[1]] = one
    return found


def _first_state(program: Program, runs: int, dtype: Any) -> State:
    """Room for runs. Values are in double precision: the objective returns them so, and they take little memory."""
    shape = runs, program.n_particles, program.n_dimensions
    x, v, best = (_in_cache_lines(shape, dtype) for _ in range(3))
    v[:] = 0
    return empty_state(program, runs, float)._replace(x=x, v=v, best=best)


def _in_cache_lines(shape: tuple[int, ...], dtype: Any) -> Any:
    """An array that begins with a cache line: a vector that lies in two of them takes twice the time."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    room = np.empty(size + _CACHE_LINE, dtype=np.uint8)
    begin = -room.ctypes.data % _CACHE_LINE
    return room[begin : begin + size].view(dtype).reshape(shape)


def _part(state: State, part: slice) -> tuple[Any, ...]:
    """Some runs; of their points all numbers in a row."""
    return tuple(array[part].reshape(len(array[part]), -1) if array.ndim == 3 else array[part] for array in state)
