"""The numba engine: swarms on the cores of this machine, the objective compiled into machine code."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numba
import numpy as np
from numba import types
from numba.core.errors import NumbaError

from paoswarm.compiled import counter, numba_runs, numba_step
from paoswarm.compiled.program import Program
from paoswarm.compiled.state import State, empty_state
from paoswarm.core.arrays import Floats

_POINT = types.Array(types.float64, 1, "C")
_BLOCKS = 4  # of runs for each thread: runs end at different times
# Sums may be taken in any order, so that they become vector instructions. NaN and infinities keep their meaning.
_FASTMATH = {"contract", "reassoc", "nsz", "arcp"}


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

    longest = 10**9  # generations in one call

    def __init__(
        self, program: Program, fun: Callable[..., Any], precision: str = "double", threads: int | None = None
    ) -> None:
        self._program = program
        self._fun = compiled_objective(fun)
        self._dtype = np.float32 if precision == "single" else np.float64
        self._threads = threads or _cores()
        p = program
        self._box = p.lower.astype(self._dtype), p.upper.astype(self._dtype)
        self._rules = (p.rules.target, p.rules.tol, p.rules.patience, p.rules.stagnation, p.rules.near, p.rules.same)
        widest = max([1, *(pull.neighbours.shape[1] for pull in p.pulls if pull.neighbours is not None)])
        itself = np.repeat(np.arange(p.n_particles)[:, None], widest, axis=1)
        self._neighbours = np.stack([itself] * len(p.pulls))
        for r, pull in enumerate(p.pulls):
            if pull.neighbours is not None:
                self._neighbours[r, :, : pull.neighbours.shape[1]] = pull.neighbours
        self._how = (
            np.array([numba_step.PULLS.index(pull.name) for pull in p.pulls]),
            self._neighbours,
            numba_step.SCALES.index(p.noise_scale),
            numba_step.WALLS.index(p.walls),
            np.ascontiguousarray(p.coefficients, dtype=self._dtype),
            p.evaluations,
        )

    def begin(self, keys: counter.Words, given: Floats | None = None) -> State:
        """The first swarms of runs with these keys, evaluated; ``given`` points (n, d) replace the design."""
        state = empty_state(self._program, len(keys), self._dtype)
        points = np.empty((0, self._program.n_dimensions)) if given is None else np.ascontiguousarray(given, float)
        p, half = self._program, counter.half_bits(self._program.n_particles)

        def work(part: slice) -> None:
            numba_runs.begin(
                self._fun,
                points,
                keys[part],
                half,
                *self._double_box,
                p.walls == "periodic",
                self._rules,
                _part(state, part),
            )

        self._share(work, len(keys))
        return state

    def advance(self, state: State, keys: counter.Words, generation: int, count: int) -> tuple[State, Floats]:
        """Move on by ``count`` generations, the first of which has this number, or until runs end.

        Return where the runs stand and their best values after every generation ``(runs, count)``. The arrays of
        ``state`` are changed.
        """
        history = np.empty((len(keys), count), dtype=self._dtype)

        def work(part: slice) -> None:
            numba_runs.advance(
                self._fun, keys[part], *self._how, *self._box, self._rules, generation, _part(state, part),
                history[part],
            )  # fmt: skip

        self._share(work, len(keys))
        return state, history

    def evaluate(self, points: Floats) -> Floats:
        """The objective at points ``(m, d)``."""
        return numba_runs.evaluate(self._fun, np.ascontiguousarray(points, dtype=float))

    @property
    def _double_box(self) -> tuple[Floats, Floats]:
        return self._program.lower, self._program.upper

    def _share(self, work: Callable[[slice], None], runs: int) -> None:
        """Do the work for blocks of runs, on several threads if there are several runs."""
        blocks = min(runs, self._threads * _BLOCKS)
        edges = np.linspace(0, runs, blocks + 1).astype(int)
        parts = [slice(int(a), int(b)) for a, b in zip(edges, edges[1:], strict=False)]
        if self._threads == 1 or blocks == 1:
            for part in parts:
                work(part)
            return
        with ThreadPoolExecutor(self._threads) as pool:
            list(pool.map(work, parts))


def _cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def compiled_objective(fun: Callable[..., Any]) -> Any:
    """The objective as a pointer to compiled code; an error with numba's reason if it cannot be compiled."""
    python = getattr(fun, "py_func", fun)
    options = getattr(fun, "targetoptions", {})
    fastmath = options.get("fastmath") or _FASTMATH
    try:
        return numba.cfunc(types.float64(_POINT), nopython=True, fastmath=fastmath)(python)
    except NumbaError as error:
        name = getattr(fun, "__name__", repr(fun))
        reason = str(error).strip().splitlines()
        raise TypeError(
            f"numba cannot compile {name}, which must take one point x (d,) and return a number: {reason[0]} "
            "Use engine='numpy' for a function that is not compiled"
        ) from error


def _part(state: State, part: slice) -> tuple[Any, ...]:
    return tuple(array[part] for array in state)
