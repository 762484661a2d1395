"""Adaptive searches on the numba engine: threads move the runs on, and the caller's thread waits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from concurrent.futures import wait
from typing import Any

import numpy as np

from paoswarm.core.arrays import Floats
from paoswarm.engines.adaptive_engine import AdaptiveRuns, limits_of
from paoswarm.engines.adaptive_state import AdaptiveRun, agreement_of, swarm_of
from paoswarm.engines.counter import Words
from paoswarm.engines.engines import Compiled, Numba
from paoswarm.engines.program import FAILED, RUNNING
from paoswarm.engines.search_plan import read_plan
from paoswarm.evaluate.calls import NAN
from paoswarm.methods.method import for_workers
from paoswarm.run.call import Call
from paoswarm.run.compiled_runs import NO_VALUE, CompiledRuns
from paoswarm.run.many_result import Found
from paoswarm.run.stopping import Limits, Status

_LOOK = 0.1  # seconds between two looks at the clock, and between two calls of a callback


class AdaptiveSearches(CompiledRuns):
    """Runs of adaptive searches in threads; each thread takes the next run when one has ended.

    Parameters
    ----------
    engine : Compiled
    fun : callable
        A function of the coordinates.
    call : Call
    n_particles : int
        Of the first swarm.
    limits : Limits
    given : array (n, d) or (runs, n, d), or None
        First points of all runs or of each; None for a Latin hypercube.
    keys : array (runs, 2)
    """

    def __init__(
        self,
        engine: Compiled,
        fun: Callable[..., Any],
        call: Call,
        n_particles: int,
        limits: Limits,
        given: Floats | None,
        keys: Words,
    ) -> None:
        assert isinstance(engine, Numba)
        method, space = for_workers(call.method, 1), call.space
        method.check_swarm((n_particles,))
        self._plan, self._box, self._space = read_plan(method, len(space.lower)), (space.lower, space.upper), space
        ends = limits_of(self._plan, limits.maxfev, limits.maxiter, limits.target, limits.tol)
        first = np.empty((0, len(space.lower))) if given is None else given
        first = np.broadcast_to(first, (len(keys), *first.shape[-2:])) if first.ndim == 2 else first
        side_by_side = call.notify is not None or limits.time_limit is not None
        self._runs = AdaptiveRuns(
            self._plan, fun, *self._box, n_particles, ends, keys, first, side_by_side, engine.threads
        )
        super().__init__(limits.restarted())  # compiling takes no time of the run
        self._count = len(keys)
        self._found: dict[int, Found] = {}
        self._pool, self._working = self._runs.start(self._settle)

    @property
    def is_over(self) -> bool:
        """Whether all runs have ended."""
        return not self._working

    def advance(self) -> None:
        """Wait a moment."""
        done, _ = wait(self._working, _LOOK)
        for one in done:
            one.result()  # an error in a thread is raised here
        self._working = [one for one in self._working if one not in done]
        self.is_new = len(self._runs.reports) == self._count

    def close(self) -> None:
        """Stop the threads. A time limit leaves out no run; an interrupt leaves out those that have not begun."""
        super().close()
        self._runs.stop()
        self._pool.shutdown()
        if self.stopped is Status.TIME:
            self._runs.begin_others()
        for r, run in self._runs.states.items():
            self._settle(r, run)
            if self._found[r].status[0] == RUNNING and self.stopped is not None:
                self._found[r] = self._found[r]._replace(status=np.array([int(self.stopped)]))

    def found(self) -> list[Found]:
        """What all runs have found."""
        if not self._found:
            raise KeyboardInterrupt
        if all(one.status[0] == FAILED for one in self._found.values()):
            raise ValueError(NO_VALUE)
        return [self._found[r] for r in sorted(self._found)]

    def so_far(self) -> list[Found]:
        """What a callback gets to see of all runs; their swarms are with the threads."""
        reports = [self._runs.reports[r] for r in sorted(self._runs.reports)]
        x, fun, nit, nfev, n_failed = (np.array(part) for part in zip(*reports, strict=True))
        return [Found(self._space.rows(x), fun, nit, nfev, n_failed, None)]

    def _settle(self, r: int, run: AdaptiveRun) -> None:
        facts = run.facts[0]
        self._found[r] = Found(
            x=self._space.rows(run.x.copy())[None],
            fun=np.array([float(facts["value"])]),
            nit=np.array([int(facts["nit"])]),
            nfev=np.array([int(facts["nfev"])]),
            n_failed=np.array([int(facts["n_failed"])]),
            swarm=swarm_of(run, self._plan, *self._box),
            status=np.array([int(facts["status"])]),
            rule=np.array([int(facts["rule"])]),
            best=run.history[None, : int(facts["n_history"])].copy(),
            failure_kinds=[Counter({NAN: int(facts["n_failed"])} if facts["n_failed"] else {})],
            agreements=[None if self._plan.is_single else agreement_of(run)],
        )
