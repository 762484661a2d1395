"""A run as a coroutine, which yields batches of points and is sent their values, and the loop that drives it.

A `Run` moves one swarm, or a batch of them in one array, generation by generation. An `AsynchronousRun` has batches of
one particle, and takes values in any order; compiled runs evaluate inside. `drive` takes all of them to their ends.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from paoswarm.core.blas import ONE_THREAD
from paoswarm.evaluate.caller import End
from paoswarm.evaluate.engines import EngineDown
from paoswarm.evaluate.interrupts import interruptible
from paoswarm.evaluate.queue import Answer, Batch, KnownPoints, Queue
from paoswarm.run.beside import is_worth_it, look_around, search_from
from paoswarm.run.run_state import RunState
from paoswarm.run.stopping import Limits, Rule, Status
from paoswarm.store.log import logger

Observe = Callable[[RunState], None]  # called after every generation


class Ends(NamedTuple):
    """How each run of a batch ended."""

    status: NDArray[np.int64]
    nit: NDArray[np.int64]
    nfev: NDArray[np.int64]
    rule: NDArray[np.int64]  # by which it has converged, a `Rule`
    deadline: float | None = None  # with the clock as it was last started
    why: str = ""  # what the workers said before they were lost


Steps = Generator[list[Batch], Any, Ends]


class StopAll(Exception):
    """The callback wants all runs to end."""


class NoFiniteValue(Exception):
    """The objective failed at every point of the first swarm."""


def status_of(error: BaseException) -> tuple[Status, str]:
    """The status of a run that was interrupted, stopped by a callback or lost its workers, and why."""
    if isinstance(error, StopAll):
        return Status.CALLBACK, ""
    if not isinstance(error, EngineDown):
        return Status.INTERRUPTED, ""
    logger.error("%s", error)
    return Status.CRASHED, str(error)


class Numbering(NamedTuple):
    """Which evaluation is which in a store of many runs: number ``i`` of run ``r`` is ``i * runs + r``.

    So each run has its own sequence, whatever the order in which runs take turns, and limits may change.
    """

    runs: int
    own: NDArray[np.int64]  # the numbers of the runs of a batch (b,), or of a single run ()

    def of(self, first: int, count: int, active: NDArray[np.bool_] | None) -> NDArray[np.int64]:
        """The numbers of the next ``count`` evaluations of each active run, after ``first`` ones."""
        own = self.own if active is None else self.own[active]
        return ((first + np.arange(count)) * self.runs + own[..., None]).reshape(-1)


class Steered:
    """What can be driven: a coroutine that yields the batches it wants and is sent their values.

    Attributes
    ----------
    limits : Limits
    ends : Ends or None
        How it has ended.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.ends: Ends | None = None
        self._steps = self._course()

    def _course(self) -> Steps:
        """Yield batches, take their answers, and return how it has ended."""
        raise NotImplementedError

    def send(self, answer: Answer | None) -> list[Batch]:
        """Take values, and return the next batches; none if it waits for others, or if it has ended (``ends``)."""
        ONE_THREAD.enter()  # while we compute; functions of the user are called elsewhere
        try:
            return self._steps.send(answer)
        except StopIteration as finished:
            self.ends = finished.value
            return []
        finally:
            ONE_THREAD.leave()

    def throw(self, error: BaseException) -> list[Batch]:
        """End the run from outside."""
        try:
            return self._steps.throw(error)
        except StopIteration as finished:
            self.ends = finished.value
            return []


class _Outcome(NamedTuple):
    """What has come of a generation."""

    moved: bool  # it was told
    end: End = None  # what ended its evaluation
    is_cut: bool = False  # time was up, or evaluation ended, before it was complete
    replayed: bool = False
    rule: Rule = Rule.NONE


class Run(Steered):
    """Take a run, or a batch of runs, generation by generation to its end.

    A finished run of a batch is frozen and costs no more evaluations. An interrupt ends the runs that are still going;
    the best of all evaluations is kept. ``observe`` is called with the state after every generation. With ``may_fail``
    a first swarm without a finite value ends the run instead of raising. Evaluations that go into the store of many
    runs have a ``numbering``.
    """

    def __init__(
        self,
        state: RunState,
        limits: Limits,
        observe: Observe,
        *,
        may_fail: bool = False,
        numbering: Numbering | None = None,
    ) -> None:
        self.state = state
        state.tol = limits.tol
        self._observe, self._may_fail, self._numbering = observe, may_fail, numbering
        self._status, self._nit, self._nfev, self._rule = (np.zeros(state.batch, dtype=np.int64) for _ in range(4))
        self._active: NDArray[np.bool_] | None = None  # which runs of a batch are still going; None while all are
        self._why = ""
        super().__init__(limits)

    @property
    def so_far(self) -> Ends:
        """How the runs have ended, and where the others stand."""
        going, state = self._status == 0, self.state
        nit, nfev = np.where(going, state.nit, self._nit), np.where(going, state.nfev, self._nfev)
        return Ends(self._status, nit, nfev, self._rule, self.limits.deadline, self._why)

    def _course(self) -> Steps:
        state = self.state
        is_new = state.swarm is None  # a run that is continued may have reached its limits already
        try:
            while True:
                outcome = _Outcome(moved=False)
                if is_new:
                    answer = yield [self._ask()]
                    outcome = self._tell(answer)
                is_new = True
                if outcome.replayed:  # recorded values take no time of this call
                    self.limits = self.limits.restarted()
                if outcome.end is None and state.local is not None and outcome.moved:
                    outcome = yield from self._search_locally(outcome)
                stopped = self._judge(outcome)
                if stopped is not None:
                    yield from self._look_around(stopped)
                if self._status.all():
                    break
        except (KeyboardInterrupt, EngineDown, StopAll) as error:
            if state.swarm is None:
                raise
            ended, self._why = status_of(error)
            self._end(ended)
        return self.so_far

    def _judge(self, outcome: _Outcome) -> NDArray[np.bool_] | None:
        """Note which runs have ended after a generation; those whose end is worth a look, None if no run has ended."""
        state = self.state
        converged = np.asarray(outcome.rule) if outcome.rule else state.has_converged(self.limits.tol)
        reached = self.limits.reached(state.incumbent, converged, state.nit - outcome.is_cut, state.nfev)
        if outcome.moved:
            self._observe(state)
        if reached is None and outcome.end is None:
            return None
        going = self._status == 0
        if outcome.end is not None:  # first: an interrupt that comes with the last values is not lost
            ended, self._why = status_of(outcome.end)
            self._end(ended)
        if reached is not None:
            self._end(reached)
        if converged is None:
            return np.zeros(state.batch, dtype=bool)
        self._rule = np.where(going, converged, self._rule)
        stopped: NDArray[np.bool_] = going & (self._status == Status.CONVERGED)
        return stopped & is_worth_it(self._rule, self.limits.tol)

    def _end(self, reason: Any) -> None:
        """Note a reason for those runs that are still going; their counts are those of now if none did before."""
        going = (self._status == 0) & (np.asarray(reason) != 0)
        counting = self._status == 0
        self._nit = np.where(counting, self.state.nit, self._nit)
        self._nfev = np.where(counting, self.state.nfev, self._nfev)
        self._status = np.where(going, reason, self._status)
        self._active = self._status == 0 if self._status.any() else None

    def _look_around(self, stopped: NDArray[np.bool_]) -> Generator[list[Batch], Answer, None]:
        """Evaluate a few points around the places where runs have stopped: a better one shows that it is no minimum."""
        seen = yield from look_around(self.state, self.limits, stopped, self._numbering)
        if seen.end is not None:
            ended, self._why = status_of(seen.end)
            self._status = np.where(stopped, ended, self._status)
        self._status = np.where(stopped & seen.is_better, Status.STALLED, self._status)
        self._nfev = self._nfev + np.where(stopped, seen.spent, 0)

    def _search_locally(self, outcome: _Outcome) -> Generator[list[Batch], Answer, _Outcome]:
        """A local search, if one is due, and what came of the generation together with it."""
        state, local = self.state, self.state.local
        assert local is not None
        if not local.is_due(state.nfev) or self.limits.is_hit(state.incumbent):
            return outcome
        before, start = float(state.incumbent.score), local.start(state.draw)
        found = yield from search_from(state, local, start, self.limits, self._numbering)
        local.ended(start, before, found.own, found.is_back)
        return outcome._replace(end=found.end, replayed=outcome.replayed and found.replayed)

    def _ask(self) -> Batch:
        """The points of the next generation of all runs that are going, as far as the budget allows."""
        state, limits, active = self.state, self.limits, self._active
        x = state.points(limits.progress(state.nit, state.nfev))
        m, d = x.shape[-2:]
        most = None if limits.maxfev is None else limits.maxfev - state.nfev
        k = m if most is None or not state.batch else min(m, most)
        numbers = None if self._numbering is None else self._numbering.of(state.nfev, k, active)
        if not state.batch:  # a single run may stop between two points, and some of them may cost nothing
            return Batch(x, True, limits.deadline, numbers=numbers, most=most)
        rows = x[..., :k, :] if active is None else x[active, :k, :]
        return Batch(rows.reshape(-1, d), False, numbers=numbers)

    def _tell(self, answer: Answer) -> _Outcome:
        """Give the swarm whatever was evaluated, also if time ran out or an interrupt came."""
        state, values, x = self.state, answer.values, self.state.points()
        going = np.flatnonzero(self._status == 0)
        if state.judge.n_constraints:
            values = state.scored(x[: len(values)], values)
        values = values.reshape(len(going), -1)
        m, k = x.shape[-2], values.shape[-1]
        if answer.failed:
            state.note_failures(answer.failed, np.repeat(going, k))
        if k == 0 and state.swarm is not None:
            return _Outcome(moved=False, end=answer.end, replayed=answer.replayed)
        if state.swarm is None and not state.knows_a_value and not (values < np.inf).any():
            if answer.end is not None:  # nothing is known yet
                raise answer.end
            if not self._may_fail:
                raise NoFiniteValue
        f = np.full((self._status.size, m), np.nan)
        f[going, :k] = values
        state.take(f.reshape(*state.batch, m), k, self._active, self._may_fail)
        state.n_recalled += answer.recalled  # they cost nothing
        state.nfev -= answer.recalled
        is_cut = k < m and (self.limits.maxfev is None or state.nfev < self.limits.maxfev)
        return _Outcome(True, answer.end, is_cut, answer.replayed, rule_of(answer.known))


def rule_of(known: KnownPoints | None) -> Rule:
    """The rule that ends a run because there are no new points."""
    if known is None or not known.is_exhausted:
        return Rule.NONE
    return Rule.COMPLETE if known.is_complete else Rule.NOTHING_NEW


Returned = TypeVar("Returned")
_MORE: list[tuple[int, Answer | None]] = [(0, None)]  # there is room for more points of the first run


def drive(runs: Sequence[Steered], queue: Any, after_round: Callable[[], bool] = lambda: False) -> None:
    """Take runs to their ends (``run.ends``).

    ``queue`` evaluates batches: a `Queue`, or compiled runs, which do it inside. ``after_round`` is called when runs
    have had values, and may end them all by returning True. An interrupt, or the loss of the workers, ends them too;
    each keeps the best of its evaluations.
    """
    n_going = len(runs)

    def deliver(answers: Sequence[tuple[int, Answer | None]]) -> bool:
        """Give runs their values, and queue the batches that they want next; whether there are any."""
        nonlocal n_going
        wants_more = was_interrupted = False
        for number, answer in answers:
            run = runs[number]
            for batch in run.send(answer):
                queue.send(number, batch)
                wants_more = True
            if run.ends is not None:
                n_going -= 1
                was_interrupted |= bool((run.ends.status == Status.INTERRUPTED).any())
        if was_interrupted and n_going:
            raise KeyboardInterrupt  # it came while one swarm was moved: the other runs end, too
        return wants_more

    try:
        deliver([(number, None) for number in range(len(runs))])
        while n_going:
            while n_going and queue.room > 0 and deliver(_MORE):  # a run that takes values in any order is alone
                pass
            if not n_going:
                break
            answers = queue.receive(runs[0].limits.deadline)
            deliver(answers)
            if answers and after_round():
                raise StopAll
    except (KeyboardInterrupt, EngineDown, StopAll) as error:
        going = [run for run in runs if run.ends is None]
        for run in going:
            run.throw(error)
        if not going and isinstance(error, KeyboardInterrupt):
            interruptible().note()  # too late to end anything
    except NoFiniteValue:
        failure = queue.explain_total_failure()
        raise failure from failure.__cause__


def drive_alone(steps: Generator[list[Batch], Any, Returned], queue: Queue) -> Returned:
    """Take one search to its end that is not part of a run."""
    try:
        batches = next(steps)
        while True:
            for batch in batches:
                queue.send(0, batch)
            batches = steps.send(queue.receive()[0][1])
    except StopIteration as finished:
        returned: Returned = finished.value
        return returned


@contextmanager
def naming_the_best(states: Sequence[RunState]) -> Iterator[None]:
    """Add the best point so far to an error that ends runs, in a user's attractor for example."""
    try:
        yield
    except Exception as error:
        known = [one for one in states if one.swarm is not None and one.nfev and np.isfinite(one.incumbent.value).any()]
        if len(known) == 1 and not known[0].batch:
            (state,) = known
            best = f"{state.incumbent.value} at {state.space.text(state.best.x)}"
            error.add_note(f"The best of the {state.nfev} evaluations before this error: {best}")
        raise
