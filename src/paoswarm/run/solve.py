"""The runs of a call, from their starts to their result."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np

from paoswarm._extras import ProgressBar
from paoswarm._text import warn_user
from paoswarm.engines.program import NotCompiled
from paoswarm.evaluate.calls import to_fingerprint
from paoswarm.evaluate.engines import EngineDown
from paoswarm.evaluate.evaluator import Evaluator
from paoswarm.evaluate.interrupts import delays_interrupts
from paoswarm.evaluate.queue import KnownPoints, PointQueue, Queue
from paoswarm.run.asynchronous import AsynchronousRun
from paoswarm.run.call import Call, describe_run, record_end
from paoswarm.run.many_result import Found, ManyResult, make_result, so_far
from paoswarm.run.observers import Recorder
from paoswarm.run.polish import polish_each, with_reserve
from paoswarm.run.result import Result
from paoswarm.run.run import Ends, Numbering, Observe, Run, drive, naming_the_best
from paoswarm.run.run_state import RunState
from paoswarm.run.stopping import Limits, Status
from paoswarm.space.evaluations import Evaluations
from paoswarm.store.journal import Journal

# Elements (runs x particles x unknowns) moved at once: enough to make the cost of the calls small, not more than the
# caches of a core can hold (measured: 100 runs of 800 elements each are fastest in two blocks).
_BLOCK = 40_000


@delays_interrupts
def solve(call: Call) -> ManyResult:
    """Take all runs of a call to their ends."""
    if call.engine is not None:
        from paoswarm.run.compiled_runs import solve_compiled

        try:
            return solve_compiled(call, call.engine)
        except NotCompiled as lack:
            if not call.may_fall_back:
                raise ValueError(str(lack)) from None
        call = call.on_numpy()
    template = call.states(range(1))[0]
    limits = call.limits.starting_with(template.n_to_start)
    call.warn_if_few_generations(template.n_to_start, template.n_particles + template.n_again)
    for_swarms = with_reserve(limits, len(call.space.lower), template.n_to_start) if call.polish else limits
    journal = None
    if call.store is not None:
        described = describe_run(call, template.n_particles, limits, template.expected_evaluations(limits))
        journal = Journal(call.store, described, to_fingerprint(call.objective, *call.space.expressions))
    n_details = template.judge.n_constraints
    with (
        journal or nullcontext(),
        Evaluator(call.objective, call.options, journal, space=call.space, n_details=n_details) as evaluate,
        ProgressBar(call.progress) as bar,
    ):
        evaluate.count = bar.count if call.progress else None
        evaluate.kept = Evaluations() if call.runs is None else None
        groups = _run_all(call, template, for_swarms, evaluate, bar, is_stored=journal is not None)
        found = [one for group in groups for one in group.found()]
        many, why = make_result(
            found,
            space=call.space,
            method=call.method,
            limits=for_swarms,
            engine="numpy",
            seeds=call.seeds,
            failures=evaluate.log.first,
            evaluations=evaluate.kept,
        )
        if call.polish:
            _polish(call, many, why, groups, evaluate, limits, journal)
        if journal is not None:
            record_end(call, journal, many)
            if call.runs is None:
                many.message[0] += journal.origin(int(many.nfev[0]))
    evaluate.warn()
    if call.runs is None:
        many["histories"] = [groups[0].recorders[0].history()]
    return many


def _polish(
    call: Call,
    many: ManyResult,
    why: list[str],
    groups: list[RunGroup],
    evaluate: Evaluator,
    limits: Limits,
    journal: Journal | None,
) -> None:
    """Finish all runs with a local search."""
    if journal is not None and call.runs is not None:
        journal.go_on_after(call.runs * int(many.nfev.max()))  # above all numbers of the swarms
    evaluate.go_beyond()
    deadlines = [one.deadline for group in groups for one in group.ends if one.deadline is not None]
    states = [state for group in groups for state in group.states]
    clock = max(deadlines, default=None)
    polish_each(many, why, evaluate, call.space, limits, clock, states, is_stored=journal is not None)


def _run_all(
    call: Call, template: RunState, limits: Limits, evaluate: Evaluator, bar: ProgressBar, *, is_stored: bool
) -> list[RunGroup]:
    """All runs, as many at once as the caches hold, to their ends."""
    runs, n_each = call.n_runs, template.expected_evaluations(limits)
    n_together = runs
    # A callback sees all runs; evaluations elsewhere or a common clock matter more than the cache.
    if call.takes_batches and call.notify is None and not evaluate.caller.is_parallel and limits.time_limit is None:
        n_together = max(1, _BLOCK // call.elements)
    bar.expect(None if n_each is None else runs * n_each)
    groups: list[RunGroup] = []
    for first in range(0, runs, n_together):
        numbers = range(first, min(runs, first + n_together))
        states = [template] if call.runs is None else call.states(numbers)
        group = RunGroup(call, states, numbers, groups, bar, evaluate)
        try:
            with naming_the_best(states):
                group.run(limits, is_stored=is_stored)
        except (KeyboardInterrupt, EngineDown):
            if not groups:
                raise
            break  # nothing is known about these runs, but the earlier ones are done
        groups.append(group)
        if n_each is not None and call.runs is not None:
            bar.catch_up(numbers.stop * n_each)
        if group.is_cut_short:
            break
    return groups


class RunGroup:
    """Some of the runs of a call, with one state for all of them or one for each, and everything that looks at them.

    The progress bar also shows ``earlier`` groups, which are done.
    """

    def __init__(
        self,
        call: Call,
        states: list[RunState],
        numbers: range,
        earlier: list[RunGroup],
        bar: ProgressBar,
        evaluate: Evaluator,
    ) -> None:
        self.states = states
        self.recorders = [Recorder(only_best=call.runs is not None) for _ in states]
        self.ends: list[Ends] = []
        self._runs: list[Run] = []
        self._call, self._evaluate, self._bar = call, evaluate, bar
        parts = [np.array(numbers)] if states[0].batch else [np.array(r) for r in numbers]
        self._numberings = [Numbering(call.n_runs, part) for part in parts]
        self._best_before = min((group.lowest for group in earlier), default=np.inf)
        self._failed_before = sum(group.n_failed for group in earlier)
        self._has_moved = False  # since the callback was called

    @property
    def lowest(self) -> float:
        """The best value of all runs."""
        known = [one.shown_value.min() for one in self.states if one.swarm is not None]
        return float(min(known, default=np.inf))

    @property
    def n_failed(self) -> int:
        """Failed evaluations of all runs."""
        return int(sum(one.n_failed.sum() for one in self.states))

    @property
    def is_cut_short(self) -> bool:
        """Whether an interrupt or the loss of the workers ended a run."""
        return any(np.isin(ends.status, [Status.INTERRUPTED, Status.CRASHED]).any() for ends in self.ends)

    def run(self, limits: Limits, *, is_stored: bool) -> None:
        """Run all to their ends."""
        call, n_points = self._call, self._call.n_points
        known = None if n_points is None else [KnownPoints(n_points) for _ in self.states]
        for state, recorder in zip(self.states, self.recorders, strict=True):
            if state.swarm is not None:  # a run that is continued
                recorder.record(state)
        queue: Queue
        if call.takes_single_points:
            queue = points = PointQueue(self._evaluate, known)
            if call.method.moves_singly:
                _warn_if_idle(self.states[0].n_particles, points.slots)
            self._runs = [AsynchronousRun(self.states[0], limits, self._observer(0), points)]
        else:
            queue = Queue(self._evaluate, known)
            may_fail = len(self.states) > 1  # one run may fail as long as others do not
            is_numbered = is_stored and call.runs is not None
            numberings = [one if is_numbered else None for one in self._numberings]
            self._runs = [
                Run(state, limits, self._observer(i), may_fail=may_fail, numbering=numberings[i])
                for i, state in enumerate(self.states)
            ]
        drive(self._runs, queue, self._after_round)
        self.ends = [run.ends for run in self._runs if run.ends is not None]
        if all((ends.status == Status.FAILED).all() for ends in self.ends):
            raise self._evaluate.explain_total_failure()

    def found(self) -> list[Found]:
        """What all runs have found."""
        return [Found.of(*one) for one in zip(self.states, self.recorders, self.ends, strict=True)]

    def _observer(self, i: int) -> Observe:
        def observe(state: RunState) -> None:
            self.recorders[i].record(state)
            self._has_moved = True
            if self._bar.is_shown:
                failed = self._failed_before + self.n_failed
                self._bar.show(best=min(self._best_before, self.lowest), failed=failed or None)

        return observe

    def _after_round(self) -> bool:
        """Call the callback if a generation is new; whether it wants to stop."""
        has_moved, self._has_moved = self._has_moved, False
        notify = self._call.notify
        return notify is not None and has_moved and not self._evaluate.replayed and notify(self._so_far)

    def _so_far(self) -> Result:
        each = zip(self.states, self.recorders, self._runs, strict=True)
        found = [Found.of(state, recorder, run.so_far, is_over=False) for state, recorder, run in each]
        many = so_far(found, self._call.space)
        return many if self._call.runs is not None else many.run(0)


def _warn_if_idle(n_particles: int, slots: int | None) -> None:
    if slots is not None and slots > n_particles:
        warn_user(
            f"{n_particles} particles cannot keep {slots} workers busy, since each has one evaluation at a time: raise "
            "n_particles"
        )
