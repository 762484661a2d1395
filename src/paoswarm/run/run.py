"""A run as a coroutine: it yields the batches of points that it wants evaluated, and is sent their values.

A `Run` moves one swarm, or a batch of them in one array, generation by generation. An `AsynchronousRun` has batches of
one particle, and takes values in any order. `paoswarm.run.drive` takes either to its end.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from paoswarm.core.arrays import Floats
from paoswarm.core.blas import ONE_THREAD
from paoswarm.evaluate.caller import End
from paoswarm.evaluate.engines import EngineDown
from paoswarm.evaluate.queue import Answer, Batch, KnownPoints, PointQueue
from paoswarm.run.beside import look_around, search_from
from paoswarm.run.look_around import is_worth_it
from paoswarm.run.particles import Particles
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
    """What came of a generation."""

    moved: bool  # it was told
    end: End = None  # what ended its evaluation
    is_cut: bool = False  # time was up, or evaluation ended, before it was complete
    replayed: bool = False
    rule: Rule = Rule.NONE


class Run(Steered):
    """Take a run, or a batch of runs, generation by generation to its end.

    A finished run of a batch is frozen and costs no more evaluations. An interrupt ends the runs that are still going;
    the best of all evaluations is kept.

    Parameters
    ----------
    state : RunState
    limits : Limits
    observe : callable
        Called with the state after every generation.
    may_fail : bool
        Whether a first swarm without a finite value ends the run instead of raising.
    numbering : Numbering, optional
        Of its evaluations in a store.
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
        self._observe, self._may_fail, self._numbering = observe, may_fail, numbering
        self._status, self._nit, self._nfev, self._rule = (np.zeros(state.batch, dtype=np.int64) for _ in range(4))
        self._why = ""
        super().__init__(limits)

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
        return Ends(self._status, self._nit, self._nfev, self._rule, self.limits.deadline, self._why)

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
        if reached is not None:
            self._end(reached)
        if outcome.end is not None:
            ended, self._why = status_of(outcome.end)
            self._end(ended)
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

    def _look_around(self, stopped: NDArray[np.bool_]) -> Generator[list[Batch], Answer, None]:
        """Evaluate a few points around the places where runs have stopped: a better one shows that it is no minimum."""
        seen = yield from look_around(self.state, self.limits, stopped, self._numbering)
        if seen.end is not None:
            ended, self._why = status_of(seen.end)
            self._status = np.where(stopped, ended, self._status)
        self._status = np.where(stopped & seen.is_better, Status.STALLED, self._status)
        self._nfev = self._nfev + np.where(stopped, seen.spent, 0)

    @property
    def _active(self) -> NDArray[np.bool_] | None:
        """Which runs of a batch are still going; None while all are."""
        return self._status == 0 if self._status.any() else None

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
        if not state.batch:  # a single run may stop between two points, and some of them may cost nothing
            numbers = None if self._numbering is None else self._numbering.of(state.nfev, m, None)
            return Batch(x, True, limits.deadline, numbers=numbers, most=most)
        k = m if most is None else min(m, most)
        rows = x[..., :k, :] if active is None else x[active, :k, :]
        numbers = None if self._numbering is None else self._numbering.of(state.nfev, k, active)
        return Batch(rows.reshape(-1, d), False, numbers=numbers)

    def _tell(self, answer: Answer) -> _Outcome:
        """Give the swarm whatever was evaluated, also if time ran out or an interrupt came."""
        state, active, x = self.state, self._active, self.state.points()
        m, is_cut = x.shape[-2], False
        if state.batch:
            values = answer.values.reshape(len(x) if active is None else int(active.sum()), -1)
            k = values.shape[-1]
            self._note_failures(answer, k)
        else:
            k = len(answer.values)
            state.note_failures(answer.failed, np.zeros(m, dtype=int))
            values = state.scored(x[:k], answer.values)
            is_cut = k < m and (self.limits.maxfev is None or state.nfev + k - answer.recalled < self.limits.maxfev)
            if k == 0 and state.swarm is not None:
                return _Outcome(moved=False, end=answer.end, replayed=answer.replayed)
        if state.swarm is None and not state.knows_a_value and not (values < np.inf).any():
            if answer.end is not None:  # nothing is known yet
                raise answer.end
            if not self._may_fail:
                raise NoFiniteValue
        if k == m and active is None:
            state.take(values, may_fail=self._may_fail)
        else:
            f = np.full((*state.batch, m), np.nan)
            f[(..., slice(k)) if active is None else (active, slice(k))] = values
            state.take(f, k, active, self._may_fail)
        state.n_recalled += answer.recalled  # they cost nothing
        state.nfev -= answer.recalled
        return _Outcome(True, answer.end, is_cut, answer.replayed, _rule_of(answer.known))

    def _note_failures(self, answer: Answer, k: int) -> None:
        """Count the points of a batch that have failed, ``k`` of each run that is going."""
        runs = np.arange(len(self.state.failure_kinds))
        self.state.note_failures(answer.failed, np.repeat(runs if self._active is None else runs[self._active], k))


class AsynchronousRun(Run):
    """Take a run to its end whose particles move as soon as their own values are known.

    The clock and the target are checked after every value, other limits after every generation. When time is up, the
    points that are being evaluated are waited for; when the target is reached, they are not.
    """

    def __init__(self, state: RunState, limits: Limits, observe: Observe, queue: PointQueue) -> None:
        super().__init__(state, limits, observe)
        self._queue, self._particles = queue, Particles(state)
        self._known: KnownPoints | None = None

    def _course(self) -> Steps:
        state, particles = self.state, self._particles
        status: Status | None = None
        try:
            if state.n_to_start == 0:  # a run that is continued
                status = self._reached()
            while status is None:
                x = self._ask_one()
                if x is None and particles.n_out == 0:
                    status = Status.TIME
                    break
                answer: Answer | None = yield [] if x is None else [Batch(x[None])]
                if answer is not None:
                    status = self._tell_one(answer)
            if not particles.is_complete and status in (Status.TIME, Status.MAXFEV, Status.TARGET):
                particles.cut_short()
                status = self._after_generation() or status
        except (KeyboardInterrupt, EngineDown, StopAll) as error:
            if state.swarm is None or state.incumbent.value == np.inf:
                raise
            if not particles.is_complete:
                particles.cut_short()
                self._observe(state)
            status, self._why = status_of(error)
        yield from self._finish(status)
        nit, nfev = np.asarray(state.nit), np.asarray(state.nfev)
        return Ends(np.asarray(self._status), nit, nfev, self._rule, self.limits.deadline, self._why)

    def _finish(self, status: Status) -> Generator[list[Batch], Answer, None]:
        """Give up what is being evaluated, and look around the place where the run has stopped, if it has converged."""
        self._queue.close()
        self._end(status)
        rule = _rule_of(self._known) or self.state.has_converged(self.limits.tol)
        self._rule = np.asarray(Rule.NONE if rule is None else rule)
        if status is Status.CONVERGED and is_worth_it(self._rule, self.limits.tol):
            try:
                yield from self._look_around(np.asarray(True))
            except (KeyboardInterrupt, EngineDown, StopAll) as error:
                ended, self._why = status_of(error)
                self._status = np.asarray(ended)

    def _ask_one(self) -> Floats | None:
        """The next point, if there is room, time and budget for one."""
        limits, nfev = self.limits, self.state.nfev
        late = limits.deadline is not None and nfev > 0 and time.monotonic() >= limits.deadline
        may_ask = self._queue.is_replaying or (not late and self._particles.may_ask(limits))
        if not may_ask or self._queue.room <= 0:
            return None
        return self._particles.ask(limits.progress(self._particles.generations, nfev))

    def _tell_one(self, answer: Answer) -> Status | None:
        """Take the value of a point; why the run ends with it, if it does."""
        state = self.state
        self._known = answer.known
        is_generation = self._particles.tell(answer)
        if answer.replayed:  # recorded values take no time of this call
            self.limits = self.limits.restarted()
        if is_generation:
            return self._after_generation()
        if state.swarm is not None and self.limits.is_hit(state.incumbent):
            return Status.TARGET
        return Status.MAXFEV if self.limits.maxfev is not None and state.nfev >= self.limits.maxfev else None

    def _after_generation(self) -> Status | None:
        if self.state.incumbent.value == np.inf:
            raise NoFiniteValue
        self._observe(self.state)
        return self._reached()

    def _reached(self) -> Status | None:
        """The limit that holds now, if any but the clock: when time is up, points under way are waited for."""
        state, rule = self.state, _rule_of(self._known)
        converged = np.asarray(rule) if rule else state.has_converged(self.limits.tol)
        timeless = self.limits._replace(deadline=None)
        reached = timeless.reached(state.incumbent, converged, state.nit, state.nfev)
        return None if reached is None else Status(int(reached))


def _rule_of(known: KnownPoints | None) -> Rule:
    """The rule that ends a run because there are no new points."""
    if known is None or not known.is_exhausted:
        return Rule.NONE
    return Rule.COMPLETE if known.is_complete else Rule.NOTHING_NEW
