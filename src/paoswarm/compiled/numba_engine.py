"""The numba engine: swarms on the cores of this machine, the objective compiled into machine code."""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from paoswarm._extras import cores
from paoswarm.compiled import counter, numba_noise, numba_record, numba_runs, numba_step
from paoswarm.compiled.numba_objective import objective
from paoswarm.compiled.program import FAILED, Program
from paoswarm.compiled.state import State, empty_state
from paoswarm.core.arrays import Floats

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
        self, program: Program, fun: Callable[..., Any], precision: str = "double", threads: int | None = None
    ) -> None:
        self._program = program
        self._fun = objective(fun, program.n_dimensions)
        self._dtype = np.float32 if precision == "single" else np.float64
        self._threads = threads or cores()
        self._step = numba_step.step_for(program, self._dtype)
        self._keep = numba_record.keeper(program.n_dimensions, self._dtype)
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
        self._rules = (rules.target, rules.tol, rules.patience, rules.stagnation, rules.near, rules.same)

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
        swarm = (self._fun.pointer, self._step, self._keep, self._how, self._is_periodic, self._table)
        ends = (self._program.evaluations, self._box, self._rules)

        def work(part: slice) -> None:
            room = numba_runs.make_room(*self._sizes, self._dtype)
            numba_runs.advance(*swarm, *ends, keys[part], generation, _part(state, part), history[part], room)

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
