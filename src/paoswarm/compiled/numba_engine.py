"""The numba engine: swarms on the cores of this machine, the objective compiled into machine code."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from paoswarm.compiled import counter, numba_runs, numba_step
from paoswarm.compiled.numba_objective import objective
from paoswarm.compiled.program import Program
from paoswarm.compiled.state import State, empty_state
from paoswarm.core.arrays import Floats

_BLOCKS = 4  # of runs for each thread: runs end at different times


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
        self._threads = threads or _cores()
        self._step = numba_step.step_for(program, self._dtype)
        self._how = (
            numba_step.WALLS.index(program.walls),
            numba_step.SCALES.index(program.noise_scale),
            np.array([numba_step.PULLS.index(pull.name) for pull in program.pulls]),
            _neighbours(program),
        )
        self._table = np.ascontiguousarray(program.coefficients, dtype=self._dtype)
        self._is_periodic = program.walls == "periodic"
        rules = program.rules
        self._rules = (rules.target, rules.tol, rules.patience, rules.stagnation, rules.near, rules.same)

    def begin(self, keys: counter.Words, given: Floats | None = None) -> State:
        """The first swarms of runs with these keys, evaluated; ``given`` points (n, d) replace the design."""
        p = self._program
        state = empty_state(p, len(keys), self._dtype)
        points = np.empty(state.x.shape)
        half = counter.half_bits(p.n_particles)

        def work(part: slice) -> None:
            if given is None:
                numba_runs.first_swarms(keys[part], half, p.lower, p.upper, points[part])
            else:
                points[part] = given
            state.x[part] = points[part]
            seen = state.x[part].astype(float)  # rounded, in single precision
            state.value[part] = self._fun(seen.reshape(-1, p.n_dimensions)).reshape(seen.shape[:2])
            state.best[part] = state.x[part]
            is_failed = np.isnan(state.value[part])
            state.best_value[part] = np.where(is_failed, np.inf, state.value[part])
            state.leader_value[part] = state.best_value[part].min(axis=1)
            state.n_failed[part], state.nfev[part] = is_failed.sum(axis=1), p.n_particles
            numba_runs.judge(self._rules, p.lower, p.upper, self._is_periodic, _part(state, part))

        self._share(work, len(keys))
        return state

    def advance(self, state: State, keys: counter.Words, generation: int, count: int) -> tuple[State, Floats]:
        """Move on by ``count`` generations, the first of which has this number, or until runs end.

        Return where the runs stand and their best values after every generation ``(runs, count)``. The arrays of
        ``state`` are changed.
        """
        p = self._program
        history = np.empty((len(keys), count), dtype=self._dtype)
        swarm = (self._fun.pointer, self._step, self._how, self._is_periodic, self._table)
        ends = (p.evaluations, p.lower, p.upper, self._rules)

        def work(part: slice) -> None:
            numba_runs.advance(*swarm, *ends, keys[part], generation, _part(state, part), history[part])

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


def _cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


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


def _part(state: State, part: slice) -> tuple[Any, ...]:
    return tuple(array[part] for array in state)
