"""The runs of a call on a compiled engine, which moves them by many generations in one call.

Between calls, clocks, callbacks, stores and interrupts have their turn.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import Counter
from concurrent.futures import wait
from contextlib import nullcontext
from typing import Any

import numpy as np
from scipy.optimize import OptimizeResult

from paoswarm._extras import ProgressBar, need
from paoswarm.core.arrays import Floats
from paoswarm.core.random import generator
from paoswarm.core.swarm import Swarm
from paoswarm.engines import counter
from paoswarm.engines.engines import Compiled, Numba, check_space, to_compile
from paoswarm.engines.program import FAILED, RUNNING, NotCompiled, Rules, read_program
from paoswarm.engines.search_plan import is_adaptive, read_plan
from paoswarm.evaluate.caller import End
from paoswarm.evaluate.calls import NAN, to_fingerprint, with_arguments
from paoswarm.evaluate.engines import EngineDown
from paoswarm.evaluate.interrupts import interruptible
from paoswarm.methods.method import for_workers
from paoswarm.run import stopping
from paoswarm.run.call import Call, describe_run, record_end
from paoswarm.run.first_swarm import FirstSwarm, design_name
from paoswarm.run.many_result import Found, ManyResult, make_result, so_far
from paoswarm.run.polish import polish_each, with_reserve
from paoswarm.run.python_value import compare_with_python
from paoswarm.run.run import Ends, Steered, Steps, StopAll, drive, status_of
from paoswarm.run.stopping import Limits, Status
from paoswarm.store.journal import Journal

NO_VALUE = (
    "the objective raised an error, or was NaN or infinite, at every point of the first swarm of every run. To see "
    "why, call it at one point in Python: it gets one point x (d,), not many"
)
_LOOK = 0.1  # seconds between two looks at the clock, and between two calls of a callback
_SUPPORTED = "A compiled engine takes bounds, a first swarm of points or by design, and limits."


class CompiledRuns(Steered, ABC):
    """All runs of a call inside an engine: for the loop they are one run, and the queue that evaluates it.

    Attributes
    ----------
    is_new : bool
        Whether there is something that a callback has not seen.
    stopped : Status or None
        What ended the runs from outside.
    came_from : int or None
        The generation that the store held.
    """

    room = 0  # for points beside those inside
    is_new = False
    stopped: Status | None = None
    came_from: int | None = None

    @property
    @abstractmethod
    def is_over(self) -> bool:
        """Whether all runs have ended."""

    @abstractmethod
    def advance(self) -> None:
        """Move the runs on for a moment."""

    @abstractmethod
    def found(self) -> list[Found]:
        """What all runs have found."""

    @abstractmethod
    def so_far(self) -> list[Found]:
        """The same for a callback."""

    def _course(self) -> Steps:
        try:
            while not self.is_over and self.stopped is None:
                yield []
                if self.limits.deadline is not None and time.monotonic() >= self.limits.deadline:
                    self.stopped = Status.TIME
        except (KeyboardInterrupt, EngineDown, StopAll) as error:
            self.stopped, _ = status_of(error)
        self.close()
        return Ends(*np.zeros((4, 0), dtype=np.int64))  # what runs have found says how they ended

    @abstractmethod
    def evaluate(self, points: Floats) -> Floats:
        """The compiled objective at points ``(m, d)``."""

    def close(self) -> None:
        """Note that no run moves any more."""

    def keep(self) -> None:
        """Record where the runs stand, if there is a store."""

    def receive(self, deadline: float | None) -> list[tuple[int, Any]]:
        """Move the runs on; what they want is evaluated inside."""
        self.advance()
        interruptible().check()  # here all runs stand somewhere
        return [(0, None)]

    def explain_total_failure(self) -> ValueError:
        """The error for first swarms without a single finite value."""
        return ValueError(NO_VALUE)


def solve_compiled(call: Call, engine: Compiled) -> ManyResult:
    """Take all runs of a call to their ends."""
    _refuse(call, engine)
    from paoswarm.run.compiled_swarms import SwarmsOnEngine

    space, d = call.space, len(call.space.lower)
    keys, seeds = _seeds_of(call.rng, call.runs)
    box = space.lower, space.upper
    n, given = _first_points(call, engine, seeds)
    limits = call.limits.starting_with(n)
    for_swarms = with_reserve(limits, d, n) if call.polish else limits
    fun = to_compile(engine, call.fun, call.args, space)
    call.warn_if_few_generations(n, n)
    journal: Journal | None = None
    runs: CompiledRuns
    if is_adaptive(call.method):
        check_adaptive(engine, call)
        budget = for_swarms.maxfev
        runs = AdaptiveSearches(engine, fun, call, n, for_swarms, given, keys)
    else:
        budget = for_swarms.evaluations(n, n)
        program = read_program(
            call.method, n, *box, _rules(limits, d), maxiter=limits.maxiter, maxfev=for_swarms.maxfev
        )
        if call.store is not None:
            described = describe_run(call, n, limits, limits.evaluations(n, n))
            journal = Journal(call.store, described, to_fingerprint(with_arguments(call.fun, call.args)))
        runs = SwarmsOnEngine(engine.make(program, fun), program, call, for_swarms, keys, given, journal)
    with (
        journal or nullcontext(),
        ProgressBar(call.progress, None if budget is None else len(keys) * budget) as bar,
    ):
        try:
            drive([runs], runs, lambda: _after_round(runs, call, bar))
        finally:
            runs.keep()
        found = runs.found()
        many, why = make_result(
            found,
            space=space,
            method=call.method,
            limits=for_swarms,
            engine=type(engine).__name__.lower(),
            seeds=seeds,
            failures=[],
        )
        if call.polish:
            polish_each(many, why, _Inside(runs), space, limits, for_swarms.deadline, is_stored=journal is not None)
        if journal is not None:
            record_end(call, journal, many)
    if isinstance(engine, Numba) and runs.stopped is not Status.INTERRUPTED and many.fun.min() < np.inf:
        best = many.fun.argmin()
        compare_with_python(call, runs.evaluate, many.x[best], many.fun[best])
    if runs.came_from is not None and call.runs is None:
        many.message[0] += f" Generations 0 to {min(runs.came_from, int(many.nit[0]))} came from the store."
    return many


def _refuse(call: Call, engine: Compiled) -> None:
    """Raise if the call asks for something that compiled engines do not have."""
    workers = call.options.workers
    asked = {
        "values of x0": call.f0 is not None,
        "vectorized": call.options.vectorized,
        "workers": not (isinstance(workers.workers, int) and workers.workers == 1),
        "timeout": workers.timeout is not None,
        "reevaluate": bool(call.reevaluate),
        "constraints": call.constraints is not None,
        "asynchronous": workers.asynchronous,
    }
    for name, is_asked in asked.items():
        if is_asked:
            raise NotCompiled(f"compiled engines do not have {name}; engine='numpy' has it. {_SUPPORTED}")
    check_space(engine, call.space)
    if isinstance(call.init, OptimizeResult | Swarm):
        raise NotCompiled(
            "compiled engines cannot continue from an earlier result, engine='numpy' can. To start from its points, "
            "give init=result.swarm.best_position"
        )
    if call.store is not None and not engine.takes_states:
        raise NotCompiled("engine='cuda' does not have store: its swarms stay on the device. engine='jax' has it")


def check_adaptive(engine: Compiled, call: Call) -> None:
    """Raise unless the engine can run adaptive searches with all that is asked for."""
    if not isinstance(engine, Numba):
        raise NotCompiled(
            f"engine='{type(engine).__name__.lower()}' moves single PAO swarms: give method='PAO'. "
            f"{type(call.method).__name__} needs engine='numba' or engine='numpy'"
        )
    if engine.precision != "double":
        raise NotCompiled("adaptive searches are in double precision: use ps.engines.Numba(), or method='PAO'")
    for name, is_asked in {"store": call.store is not None, "polish": call.polish}.items():
        if is_asked:
            raise NotCompiled(f"adaptive searches on numba do not have {name}; engine='numpy' has it")
    need("numba", extra="numba", user="engine='numba'")


def _seeds_of(rng: Any, runs: int | None) -> tuple[counter.Words, list[np.random.SeedSequence]]:
    """Keys ``(runs, 2)`` and seeds of runs; of one run alone if ``runs`` is None."""
    root: Any = rng if isinstance(rng, np.random.SeedSequence) else generator(rng).bit_generator.seed_seq
    root = _copy(root)
    if runs is None:
        return counter.run_key(root)[None], [root]
    return counter.run_keys(root, runs), root.spawn(runs)


def _copy(seed: np.random.SeedSequence) -> np.random.SeedSequence:
    """The same seed, as it was before it had children."""
    return np.random.SeedSequence(seed.entropy, spawn_key=seed.spawn_key, pool_size=seed.pool_size)


def _first_points(call: Call, engine: Compiled, seeds: list[np.random.SeedSequence]) -> tuple[int, Floats | None]:
    """How many particles each run has, and the first points ``(n, d)`` of all runs or ``(runs, n, d)`` of each.

    None stands for the engine's own design.
    """
    space = call.space
    box = space.lower, space.upper
    x0, init = (
        points if space.is_plain or points is None or isinstance(points, str) else space.coordinates(points)
        for points in (call.x0, call.init)
    )
    first = FirstSwarm(box, call.n_particles, x0, None, init, box)
    if not isinstance(init, str):
        return first.n_particles, first.points([generator(0)], ())
    if x0 is None and design_name(init) == "latinhypercube":
        return first.n_particles, None
    if len(seeds) > 1 and not engine.takes_states:
        raise NotCompiled(
            "engine='cuda' begins with a Latin hypercube, or with the points of init; engine='jax' has x0"
        )
    return first.n_particles, first.points([generator(_copy(seed)) for seed in seeds], (len(seeds),))


def _after_round(runs: CompiledRuns, call: Call, bar: ProgressBar) -> bool:
    """Show how far the runs are, and call the callback; whether it wants to stop."""
    if not runs.is_new:
        return False
    if bar.is_shown:
        found = runs.so_far()
        bar.catch_up(int(sum(one.nfev.sum() for one in found)))
        bar.show(best=min(float(one.fun.min()) for one in found))
    if call.notify is None:
        return False
    runs.is_new = False
    many = so_far(runs.so_far(), call.space)
    return call.notify(lambda: many if call.runs is not None else many.run(0))


def _rules(limits: Limits, d: int) -> Rules:
    return Rules(
        target=-np.inf if limits.target is None else limits.target,
        tol=limits.tol,
        patience=stopping.patience(d),
        near=stopping.NEAR,
        same=stopping.SAME,
    )


class AdaptiveSearches(CompiledRuns):
    """Runs of adaptive searches on numba, in threads; each takes the next run when one has ended."""

    def __init__(
        self,
        engine: Compiled,
        fun: Any,
        call: Call,
        n_particles: int,
        limits: Limits,
        given: Floats | None,
        keys: counter.Words,
    ) -> None:
        from paoswarm.engines.adaptive_engine import AdaptiveRuns, limits_of  # needs numba

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

    def evaluate(self, points: Floats) -> Floats:
        """The compiled objective at points ``(m, d)``."""
        return self._runs.evaluate(points)

    def close(self) -> None:
        """Stop the threads. A time limit leaves out no run; an interrupt leaves out those that have not begun."""
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

    def _settle(self, r: int, run: Any) -> None:
        from paoswarm.engines.adaptive_state import agreement_of, swarm_of  # needs numba

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


class _Inside:
    """Points straight to the engine, for polishing."""

    def __init__(self, runs: CompiledRuns) -> None:
        self._runs = runs
        self.failed: dict[int, str] = {}

    def until(self, deadline: float | None, x: Floats) -> tuple[Floats, End]:
        """The values of all points: compiled functions take no time worth a look at the clock."""
        values = self._runs.evaluate(x)
        self.failed = dict.fromkeys(np.flatnonzero(np.isnan(values)).tolist(), NAN)
        return values, None
