"""The numba engine for adaptive runs: each run is moved on in slices, by as many threads as there are cores."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

from paoswarm._extras import cores
from paoswarm.algorithms.quadratic_model import n_coefficients, points_for
from paoswarm.compiled import numba_adaptive
from paoswarm.compiled.counter import Words
from paoswarm.compiled.numba_lanes import Run, new_run, with_room
from paoswarm.compiled.numba_objective import objective
from paoswarm.compiled.program import RUNNING
from paoswarm.compiled.search_plan import SearchPlan
from paoswarm.core.arrays import Floats

_SLICE = 0.05  # seconds that a slice may take: an interrupt waits so long
_LONGEST, _LONGEST_SHARED = 100_000, 64  # generations of a slice, at most; if runs move on side by side
_NO_LIMIT = 2**60


class Report(NamedTuple):
    """Where a run stood after a slice. The arrays of a run change while it moves on, so this is a copy."""

    x: Floats
    value: float
    nit: int
    nfev: int
    n_failed: int


class AdaptiveRuns:
    """Many adaptive runs. A run depends on its key and its first points alone, not on slices or threads.

    Parameters
    ----------
    plan : SearchPlan
    fun : callable
        ``fun(x) -> float`` for a point ``x`` (d,), compiled with `numba.njit` or such that it can be.
    lower, upper : arrays (d,)
    n_particles : int
        Size of the first swarm.
    limits : numba_adaptive.Limits
    keys : array (runs, 2)
    given : array (runs, n, d)
        The first points of the runs; with ``n = 0`` they are a Latin hypercube.
    is_side_by_side : bool
        Whether all runs move on together. Otherwise each is finished before another begins, which takes less memory.
    threads : int, optional
        One per core if not given.
    """

    def __init__(
        self,
        plan: SearchPlan,
        fun: Callable[..., Any],
        lower: Floats,
        upper: Floats,
        n_particles: int,
        limits: numba_adaptive.Limits,
        keys: Words,
        given: Floats,
        is_side_by_side: bool,
        threads: int | None = None,
    ) -> None:
        d = len(lower)
        self._sizes = d, n_particles, n_coefficients(d), points_for(n_coefficients(d))
        self._plan, self._keys, self._given = plan, keys, given
        self._fun = objective(fun, d)
        self._problem = self._fun.pointer, lower, upper, limits
        self._is_side_by_side = is_side_by_side
        self._threads = min(threads or cores(), len(keys))
        self._waiting = deque(range(len(keys)))
        self._lock = threading.Lock()
        self._is_stopped = False
        self._advance(self._new(), 0, 0)  # compile before any clock starts
        self.states: dict[int, Run] = {}  # of the runs that have begun and not ended
        self.reports: dict[int, Report] = {}  # of the runs that have begun

    def start(self, ended: Callable[[int, Run], None]) -> tuple[ThreadPoolExecutor, list[Future[None]]]:
        """Let the threads work; ``ended`` is called by them with each run that has ended, which is then forgotten."""
        pool = ThreadPoolExecutor(self._threads, thread_name_prefix="paoswarm")
        return pool, [pool.submit(self._work, ended) for _ in range(self._threads)]

    def stop(self) -> None:
        """Ask the threads to end after their slices."""
        self._is_stopped = True

    def begin_others(self) -> None:
        """Evaluate the first swarms of runs that have not begun, after the threads have ended."""
        for r in range(len(self._keys)):
            if r not in self.reports:
                run = self._new()
                self._advance(run, r, 1)
                self.reports[r], self.states[r] = _report(run), run

    def _work(self, ended: Callable[[int, Run], None]) -> None:
        generations = 1
        while not self._is_stopped:
            with self._lock:
                if not self._waiting:
                    return
                r = self._waiting.popleft()
            run = self.states.get(r) or self._new()
            began = time.monotonic()
            self._advance(run, r, generations)
            seconds = time.monotonic() - began
            self.reports[r] = _report(run)
            if run.facts[0]["status"] != RUNNING:
                self.states.pop(r, None)
                ended(r, run)
                continue
            self.states[r] = with_room(run)
            with self._lock:
                if self._is_side_by_side:
                    self._waiting.append(r)
                else:
                    self._waiting.appendleft(r)
            longest = _LONGEST_SHARED if self._is_side_by_side else _LONGEST
            wanted = min(2 * generations, longest, int(generations * _SLICE / max(seconds, 1e-9)))
            generations = max(1, wanted)

    def _new(self) -> Run:
        return new_run(self._plan.series, *self._sizes)

    def _advance(self, run: Run, r: int, generations: int) -> None:
        numba_adaptive.advance(*self._problem, self._keys[r], self._given[r], self._sizes[1], run, generations)


def _report(run: Run) -> Report:
    facts = run.facts[0]
    counts = (int(facts[name]) for name in ("nit", "nfev", "n_failed"))
    return Report(run.x.copy(), float(facts["value"]), *counts)


def limits_of(
    plan: SearchPlan, maxfev: int | None, maxiter: int | None, target: float | None, stagnation: int | None, tol: float
) -> numba_adaptive.Limits:
    """Limits of runs as numbers."""
    return numba_adaptive.Limits(
        maxfev=_NO_LIMIT if maxfev is None else maxfev,
        maxiter=_NO_LIMIT if maxiter is None else maxiter,
        target=-math.inf if target is None else float(target),
        stagnation=stagnation or 0,
        may_agree=tol > 0,
        is_single=plan.is_single,
    )
