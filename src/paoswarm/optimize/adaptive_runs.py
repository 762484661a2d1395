"""Adaptive searches on the numba engine, as `minimize` and `minimize_many` return them.

Threads move the runs on. The caller's thread waits; clocks, callbacks and interrupts have their turn there.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import wait
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from paoswarm._extras import ProgressBar, need
from paoswarm.algorithms.agreement import Agreement
from paoswarm.algorithms.method import Method
from paoswarm.compiled.counter import Words
from paoswarm.compiled.engines import Compiled, Numba
from paoswarm.compiled.program import FAILED, RUNNING, NotCompiled
from paoswarm.compiled.search_plan import SearchPlan, read_plan
from paoswarm.core.arrays import Floats
from paoswarm.core.swarm import Swarm
from paoswarm.evaluation.interrupts import interrupted_once
from paoswarm.optimize.callback import Notify, read_callback
from paoswarm.optimize.many_result import ManyResult, together, with_messages
from paoswarm.optimize.result import Result
from paoswarm.optimize.stopping import Limits, Status
from paoswarm.spaces.space import Space

if TYPE_CHECKING:
    from paoswarm.compiled.adaptive_engine import AdaptiveRuns
    from paoswarm.compiled.numba_lanes import Run

NO_VALUE = (
    "the objective raised an error, or was NaN or infinite, at every point of the first swarm of every run. To see "
    "why, call it at one point in Python: it gets one point x (d,), not many"
)
_LOOK = 0.1  # seconds between two looks at the clock, and between two calls of a callback


class Outcome(NamedTuple):
    """How a run ended."""

    x: Floats
    fun: float
    status: int
    rule: int
    nit: int
    nfev: int
    n_failed: int
    history: Floats
    swarm: Swarm
    agreement: Agreement | None


def check_adaptive(engine: Compiled, method: Method, wanted: dict[str, bool]) -> None:
    """Raise if the engine cannot run this search, or if an option is wanted that adaptive runs do not have."""
    if not isinstance(engine, Numba):
        raise NotCompiled(
            f"engine='{type(engine).__name__.lower()}' moves single PAO swarms: give method='PAO'. "
            f"{type(method).__name__} needs engine='numba' or engine='numpy'"
        )
    if engine.precision != "double":
        raise NotCompiled("adaptive searches are in double precision: use ps.compiled.Numba(), or method='PAO'")
    for name, is_wanted in wanted.items():
        if is_wanted:
            raise NotCompiled(f"adaptive searches on numba do not have {name}; engine='numpy' has it")


def minimize_adaptively(
    engine: Compiled,
    fun: Callable[..., Any],
    space: Space,
    method: Method,
    n_particles: int,
    limits: Limits,
    given: Floats | None,
    keys: Words,
    seeds: list[np.random.SeedSequence],
    callback: Callable[..., Any] | None,
    progress: bool,
    is_alone: bool,
) -> ManyResult:
    """All runs from their first swarms to their ends; ``fun`` is a function of the coordinates.

    ``given`` are the first points (n, d) of all runs or (runs, n, d) of each; None for a Latin hypercube.
    """
    assert isinstance(engine, Numba)
    need("numba", extra="numba", user="engine='numba'")
    from paoswarm.compiled.adaptive_engine import AdaptiveRuns, limits_of

    method = method.for_workers(1)
    method.check_swarm((n_particles,))
    plan, box = read_plan(method, len(space.lower)), (space.lower, space.upper)
    limits = limits.starting_with(n_particles)
    ends = limits_of(plan, limits.maxfev, limits.maxiter, limits.target, limits.stagnation, limits.tol)
    first = np.empty((0, len(space.lower))) if given is None else given
    first = np.broadcast_to(first, (len(keys), *first.shape[-2:])) if first.ndim == 2 else first
    is_side_by_side = callback is not None or limits.time_limit is not None
    runs = AdaptiveRuns(plan, fun, *box, n_particles, ends, keys, first, is_side_by_side, engine.threads)
    limits = limits.restarted()  # compiling takes no time of the run

    def so_far(runs: AdaptiveRuns) -> Result:
        return _so_far(runs, space, is_alone)

    notify = read_callback(callback, so_far)
    budget = None if limits.maxfev is None else len(keys) * limits.maxfev
    with interrupted_once(), ProgressBar(progress, budget) as bar:
        outcomes = _run(runs, plan, box, len(keys), limits, notify, bar)
    if not outcomes:
        raise KeyboardInterrupt
    if all(one.status == FAILED for one in outcomes):
        raise ValueError(NO_VALUE)
    return _result(outcomes, space, method, seeds, limits)


def _run(
    runs: AdaptiveRuns,
    plan: SearchPlan,
    box: tuple[Floats, Floats],
    count: int,
    limits: Limits,
    notify: Notify[AdaptiveRuns],
    bar: ProgressBar,
) -> list[Outcome]:
    """All runs to their ends, or until they are stopped; only an interrupt leaves out runs that have not begun."""
    from paoswarm.compiled.search_states import agreement_of, swarm_of

    outcomes: dict[int, Outcome] = {}

    def settle(r: int, run: Run) -> None:
        facts = run.facts[0]
        outcomes[r] = Outcome(
            x=run.x.copy(),
            fun=float(facts["value"]),
            status=int(facts["status"]),
            rule=int(facts["rule"]),
            nit=int(facts["nit"]),
            nfev=int(facts["nfev"]),
            n_failed=int(facts["n_failed"]),
            history=run.history[: int(facts["n_history"])].copy(),
            swarm=swarm_of(run, plan, *box),
            agreement=None if plan.is_single else agreement_of(run),
        )

    ended: Status | None = None
    pool, working = runs.start(settle)
    with pool:
        try:
            while working and ended is None:
                done, _ = wait(working, _LOOK)
                for one in done:
                    one.result()  # an error in a thread is raised here
                working = [one for one in working if one not in done]
                if bar.is_shown and runs.reports:
                    reports = list(runs.reports.values())
                    bar.catch_up(sum(one.nfev for one in reports))
                    bar.show(best=min(one.value for one in reports))
                if len(runs.reports) == count:
                    ended = notify(runs)
                if limits.deadline is not None and time.monotonic() >= limits.deadline:
                    ended = ended or Status.TIME
        except KeyboardInterrupt:
            ended = Status.INTERRUPTED
        finally:
            runs.stop()
    if ended is Status.TIME:
        runs.begin_others()
    for r, run in runs.states.items():
        settle(r, run)
        if outcomes[r].status == RUNNING and ended is not None:
            outcomes[r] = outcomes[r]._replace(status=int(ended))
    return [outcomes[r] for r in sorted(outcomes)]


def _so_far(runs: AdaptiveRuns, space: Space, is_alone: bool) -> Result:
    """What a callback gets to see of all runs, or of the only one."""
    reports = [runs.reports[r] for r in sorted(runs.reports)]
    shown = {} if space.is_plain else {"space": space}
    if is_alone:
        one = reports[0]
        counts = {"nit": one.nit, "nfev": one.nfev, "n_failed": one.n_failed}
        return Result(x=space.rows(one.x), fun=one.value, **counts, **shown)
    x, fun, nit, nfev, n_failed = (np.array(part) for part in zip(*reports, strict=True))
    return ManyResult(x=space.rows(x), fun=fun, nit=nit, nfev=nfev, n_failed=n_failed, **shown)


def _result(
    outcomes: list[Outcome], space: Space, method: Method, seeds: list[np.random.SeedSequence], limits: Limits
) -> ManyResult:
    """All runs as one result."""
    length = max(len(one.history) for one in outcomes)
    history = np.empty((len(outcomes), length))
    for row, one in zip(history, outcomes, strict=True):
        row[: len(one.history)], row[len(one.history) :] = one.history, one.history[-1]
    many = ManyResult(
        x=space.rows(np.stack([one.x for one in outcomes])),
        fun=np.array([one.fun for one in outcomes]),
        fun_error=None,
        status=np.array([one.status for one in outcomes]),
        nit=np.array([one.nit for one in outcomes]),
        nfev=np.array([one.nfev for one in outcomes]),
        n_failed=np.array([one.n_failed for one in outcomes]),
        history=history,
        swarm=together([one.swarm for one in outcomes]),
        method=method,
        engine="numba",
        seeds=seeds[: len(outcomes)],
        failures=[],
        **({} if space.is_plain else {"space": space}),
    )
    return with_messages(many, [one.rule for one in outcomes], limits, [one.agreement for one in outcomes])
