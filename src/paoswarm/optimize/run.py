"""A run as a coroutine: it yields the batches of points that it wants evaluated, and is sent their values.

A `Run` moves one swarm, or a batch of them in one array, generation by generation. An `AsynchronousRun` has batches of
one particle, and takes values in any order. `paoswarm.optimize.drive` takes either to its end.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from paoswarm.core.blas import ONE_THREAD
from paoswarm.evaluation.caller import End
from paoswarm.evaluation.engines import EngineDown
from paoswarm.evaluation.known_points import KnownPoints
from paoswarm.evaluation.queue import Answer, Batch, PointQueue
from paoswarm.optimize.beside import look_around, search_from
from paoswarm.optimize.look_around import is_worth_it
from paoswarm.optimize.particles import Particles
from paoswarm.optimize.run_state import RunState
from paoswarm.optimize.stopping import Limits, Rule, Status
from paoswarm.storage.log import logger

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


class _Outcome(NamedTuple):
    """What came of a generation."""

    moved: bool  # it was told
    end: End = None  # what ended its evaluation
    is_cut: bool = False  # time was up, or evaluation ended, before it was complete
    replayed: bool = False
    rule: Rule = Rule.NONE


class Run:
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
        self.state, self.limits = state, limits
        self.ends: Ends | None = None
        self._observe, self._may_fail, self._numbering = observe, may_fail, numbering
        self._steps = self._course()

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

    def _course(self) -> Steps:
        state = self.state
        status, nit, nfev, rule = (np.zeros(state.batch, dtype=np.int64) for _ in range(4))
        active: NDArray[np.bool_] | None = None  # a mask once some runs have ended
        has_begun = state.swarm is not None  # a run that is continued may have reached its limits already
        why = ""
        try:
            while True:
                outcome = _Outcome(moved=False) if has_begun else (yield from self._generation(active))
                has_begun = False
                if outcome.replayed:  # recorded values take no time of this call
                    self.limits = self.limits.restarted()
                if outcome.end is None and state.local is not None and outcome.moved:
                    outcome = yield from self._search_locally(outcome)
                converged = np.asarray(outcome.rule) if outcome.rule else state.has_converged(self.limits.tol)
                done = state.nit - outcome.is_cut
                reached = self.limits.reached(state.incumbent, converged, done, state.nfev)
                if outcome.moved:
                    self._observe(state)
                ended: Any = None
                if outcome.end is not None:
                    ended, why = status_of(outcome.end)
                if reached is None and ended is None:
                    continue
                going = status == 0
                for reason in (reached, ended):
                    if reason is not None:
                        status = np.where(status == 0, reason, status)
                nit, nfev = np.where(going, state.nit, nit), np.where(going, state.nfev, nfev)
                if converged is not None:
                    rule = np.where(going, converged, rule)
                    stopped = going & (status == Status.CONVERGED) & is_worth_it(rule, self.limits.tol)
                    seen = yield from look_around(state, self.limits, stopped, self._numbering)
                    if seen.end is not None:
                        ended, why = status_of(seen.end)
                        status = np.where(stopped, ended, status)
                    status = np.where(stopped & seen.is_better, Status.STALLED, status)
                    nfev = nfev + np.where(stopped, seen.spent, 0)
                if status.all():
                    return Ends(status, nit, nfev, rule, self.limits.deadline, why)
                active = status == 0
        except (KeyboardInterrupt, EngineDown, StopAll) as error:
            if state.swarm is None:
                raise
            going = status == 0
            nit, nfev = np.where(going, state.nit, nit), np.where(going, state.nfev, nfev)
            ended, why = status_of(error)
            return Ends(np.where(going, ended, status), nit, nfev, rule, self.limits.deadline, why)

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

    def _generation(self, active: NDArray[np.bool_] | None) -> Generator[list[Batch], Answer, _Outcome]:
        """Ask, evaluate and tell once; whatever was evaluated when time ran out or an interrupt came is told."""
        state, limits = self.state, self.limits
        x = state.points(limits.progress(state.nit, state.nfev))
        m, d = x.shape[-2:]
        most = None if limits.maxfev is None else limits.maxfev - state.nfev
        is_single = not state.batch  # a single run may stop between two points, and some of them may cost nothing
        k = m if most is None or is_single else min(m, most)
        rows = x[..., :k, :] if active is None else x[active, :k, :]
        numbers = None if self._numbering is None else self._numbering.of(state.nfev, k, active)
        deadline, most = (limits.deadline, most) if is_single else (None, None)
        answer = yield [Batch(rows.reshape(-1, d), is_single, deadline, numbers=numbers, most=most)]
        if answer.failed:
            runs = np.zeros(1, dtype=int) if is_single else np.arange(len(state.failure_kinds))
            state.note_failures(answer.failed, np.repeat(runs if active is None else runs[active], k))
        values = state.scored(rows[: len(answer.values)] if is_single else rows, answer.values)
        is_cut = False
        if is_single:
            k = len(values)
            is_cut = k < m and (most is None or k - answer.recalled < most)
            if k == 0 and state.swarm is not None:
                return _Outcome(moved=False, end=answer.end, replayed=answer.replayed)
        values = values.reshape(rows.shape[:-1]) if state.batch else values
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


class AsynchronousRun(Run):
    """Take a run to its end whose particles move as soon as their own values are known.

    The clock and the target are checked after every value, other limits after every generation. When time is up, the
    points that are being evaluated are waited for; when the target is reached, they are not.
    """

    def __init__(self, state: RunState, limits: Limits, observe: Observe, queue: PointQueue) -> None:
        super().__init__(state, limits, observe)
        self._queue, self._particles = queue, Particles(state)

    def _course(self) -> Steps:
        state, particles, queue = self.state, self._particles, self._queue
        status: Status | None = None
        known: KnownPoints | None = None
        why = ""
        try:
            if state.n_to_start == 0:  # a run that is continued
                status = self._reached(known)
            while status is None:
                late = self.limits.deadline is not None and state.nfev > 0 and time.monotonic() >= self.limits.deadline
                may_ask = queue.is_replaying or (not late and particles.may_ask(self.limits))
                progress = self.limits.progress(particles.generations, state.nfev)
                x = particles.ask(progress) if may_ask and queue.room > 0 else None
                if x is None and particles.n_out == 0:
                    status = Status.TIME
                    break
                answer: Answer | None = yield [] if x is None else [Batch(x[None])]
                if answer is None:
                    continue
                known = answer.known
                is_generation = particles.tell(answer)
                if answer.replayed:  # recorded values take no time of this call
                    self.limits = self.limits.restarted()
                if is_generation:
                    status = self._after_generation(known)
                elif state.swarm is not None and self.limits.is_hit(state.incumbent):
                    status = Status.TARGET
                elif self.limits.maxfev is not None and state.nfev >= self.limits.maxfev:
                    status = Status.MAXFEV
            if not particles.is_complete and status in (Status.TIME, Status.MAXFEV, Status.TARGET):
                particles.cut_short()
                status = self._after_generation(known) or status
        except (KeyboardInterrupt, EngineDown, StopAll) as error:
            if state.swarm is None or state.incumbent.value == np.inf:
                raise
            if not particles.is_complete:
                particles.cut_short()
                self._observe(state)
            status, why = status_of(error)
        queue.close()
        rule = _rule_of(known) or state.has_converged(self.limits.tol)
        rule = np.asarray(Rule.NONE if rule is None else rule)
        if status is Status.CONVERGED and is_worth_it(rule, self.limits.tol):
            try:
                seen = yield from look_around(state, self.limits, np.asarray(True))
                status = Status.STALLED if np.any(seen.is_better) else status
                if seen.end is not None:
                    status, why = status_of(seen.end)
            except (KeyboardInterrupt, EngineDown, StopAll) as error:
                status, why = status_of(error)
        nit, nfev = np.asarray(state.nit), np.asarray(state.nfev)
        return Ends(np.asarray(status), nit, nfev, rule, self.limits.deadline, why)

    def _after_generation(self, known: KnownPoints | None) -> Status | None:
        if self.state.incumbent.value == np.inf:
            raise NoFiniteValue
        self._observe(self.state)
        return self._reached(known)

    def _reached(self, known: KnownPoints | None) -> Status | None:
        """The limit that holds now, if any but the clock: when time is up, points under way are waited for."""
        state, rule = self.state, _rule_of(known)
        converged = np.asarray(rule) if rule else state.has_converged(self.limits.tol)
        timeless = self.limits._replace(deadline=None)
        reached = timeless.reached(state.incumbent, converged, state.nit, state.nfev)
        return None if reached is None else Status(int(reached))


def _rule_of(known: KnownPoints | None) -> Rule:
    """The rule that ends a run because there are no new points."""
    if known is None or not known.is_exhausted:
        return Rule.NONE
    return Rule.COMPLETE if known.is_complete else Rule.NOTHING_NEW
