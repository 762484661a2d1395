"""Send points to an engine and collect the answers, whatever happens to the workers in between.

When a worker is lost:

- Its points are tried again one by one, because nobody knows which of them ended the worker.
- If the dead worker broke the whole executor, every running point is sent to a new executor. The points that run when
  that one breaks too are then tried with nothing beside them.
- A point that ends its worker alone, as often as it may be tried, has failed.
- Workers that are frozen say nothing. A point whose time limit has long passed is sent again, elsewhere if there is
  room. Its first answer counts. Without one it has timed out.
- An engine may fail innocent tasks (see `WorkerPool.may_fail_innocent_tasks`). Their points are suspects and are tried
  once more, one suspect at a time beside the other points.

A fault of the engine says nothing about a point. So a point counts as failed only after another one was answered. If no
other point is left, one that was answered before is evaluated again, to see whether the engine works. If there are only
faults, the dispatcher raises `EngineDown`, after it has delivered all answers.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, CancelledError, Future
from dataclasses import dataclass
from typing import Any, NamedTuple

from paoswarm._checks import counted
from paoswarm._text import describe_error, text_of, warn_user
from paoswarm.core.arrays import Floats
from paoswarm.evaluate.calls import TIMED_OUT, Failed
from paoswarm.evaluate.child import Answered, CannotStart, Unloadable, died
from paoswarm.evaluate.engines import PATIENCE, EngineDown, NoFurtherWorker, WorkerPool
from paoswarm.evaluate.worker import NeedsFunction
from paoswarm.store.log import logger

_LOOK_SECONDS = 2.0  # how often to look for answers that are overdue
_SLOW = 3.0  # times the longest evaluation so far: silence that is no reason for a warning
_FROZEN = "workers or their scheduler are frozen or cannot be reached"
_MAX_LOST_POINTS = 16  # lost one after the other (or two for each slot, if that is more): the engine is down


@dataclass(eq=False)
class Parcel:
    """Points that travel together in one task."""

    number: int  # of the first point
    x: Floats
    losses: int = 0  # of its worker, when it was the only point there
    breaks: int = 0  # of executors, with other points beside it
    with_function: bool = False
    is_probe: bool = False  # only to see whether the engine works
    is_suspect: bool = False  # failed once, perhaps because of another point
    is_over: bool = False  # it has an answer; other tasks may still work on it
    began: float = math.inf  # when it was sent first
    sent: float = math.inf  # when it was sent last

    @property
    def must_run_alone(self) -> bool:
        """Whether it must be tried with no other parcel beside it."""
        return self.breaks > 1


class Delivery(NamedTuple):
    """Answers for consecutive points."""

    number: int  # of the first point
    answers: list[float | Failed]
    seconds: float


class Dispatcher:
    """Sends parcels to an engine, at most one for each slot, and returns the answers."""

    def __init__(self, engine: WorkerPool, retries: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._engine, self._clock = engine, clock
        self._retries = 0 if engine.retries_lost_tasks else retries
        self._waiting: deque[Parcel] = deque()
        self._running: dict[Future[Any], Parcel] = {}
        self._overdue: dict[Future[Any], Parcel] = {}  # tasks whose parcels were sent again; they still take slots
        self._answered_at, self._longest = -math.inf, 0.0  # the latest answer, and the longest work for one
        self._silent_since, self._has_warned = clock(), False
        self._faults, self._last_fault = 0, ""  # since the last answer
        self._failed: list[Delivery] = []  # withheld until an answer shows that the engine works
        self._answered_point: Floats | None = None  # any point that was answered
        self._down: EngineDown | None = None  # raised once all answers are delivered
        self._accepts_work = True

    @property
    def is_busy(self) -> bool:
        """Whether there is something to `receive`."""
        return bool(self._waiting or self._running or self._failed or self._down)

    @property
    def in_hand(self) -> int:
        """Number of parcels that are waiting or running."""
        return len(self._waiting) + len(self._running)

    @property
    def slots(self) -> int | None:
        """Number of parcels that can run at once; None if unknown."""
        return self._engine.slots

    def send(self, number: int, x: Floats) -> None:
        """Queue points ``(k, d)``; `receive` submits them as slots become free."""
        self._waiting.append(Parcel(number, x))

    def withdraw(self) -> None:
        """Drop the parcels that have not started."""
        self._waiting.clear()
        if self._engine.slots is None:  # then all were submitted at once
            for future in [future for future in self._running if future.cancel()]:
                del self._running[future]

    def give_up(self) -> None:
        """Drop all parcels; their answers are not needed any more."""
        self._waiting.clear()
        self._engine.give_up([*self._running, *self._overdue])
        self._running, self._overdue, self._failed = {}, {}, []

    def receive(self, timeout: float | None = None) -> list[Delivery]:
        """Return the answers that have arrived, ordered by number.

        The list is empty if the timeout has passed, or if a slot has become free.
        """
        self._raise_if_over()
        if self._failed and not self.in_hand and self._down is None:
            if self._answered_point is None:
                return self._release_failed()
            self._waiting.append(Parcel(-1, self._answered_point, is_probe=True))
        broken = self._submit_waiting()
        done = self._wait(timeout) if self._running else set()
        delivered, faults = self._late_answers(done), self._faults
        known = done & self._running.keys()  # an interrupt may have come between submitting and storing a future
        for future in sorted(known, key=lambda future: self._running[future].number):
            parcel = self._running.pop(future)
            if not future.cancelled() and isinstance(error := future.exception(), BrokenExecutor):
                broken = error
            delivered += self._take_in(parcel, future)
        if broken is not None:
            self._replace_executor(broken, counted=self._faults > faults)
        points = max(_MAX_LOST_POINTS, 2 * (self._engine.slots or 1))
        if self._faults >= points * (self._retries + 2):  # each point may cost all its attempts
            self._down = EngineDown(
                f"workers died {self._faults} times in a row without returning a value; last reason: {self._last_fault}"
            )
        if not delivered:
            self._raise_if_over()
        return delivered + self._release_failed() if self._faults == 0 else delivered

    def _take_in(self, parcel: Parcel, future: Future[Any]) -> list[Delivery]:
        """The answers to a parcel whose task has ended; without any, see to it that the parcel is tried again."""
        if future.cancelled():  # by a restart of the engine: no fault of the point
            self._handle_loss(parcel, CancelledError("the engine has cancelled the task"), blame=False)
        elif (error := future.exception()) is None:
            return self._accept(parcel, future.result())
        elif isinstance(error, BrokenExecutor):
            self._resend_after_break(parcel, error)
        else:
            self._handle_loss(parcel, error, blame=not isinstance(error, CannotStart))
        return []

    def _raise_if_over(self) -> None:
        """Raise if no more answers can come. Workers that only accept no new work still finish what they run."""
        if self._down is not None and (self._accepts_work or not self._running):
            raise self._down

    def _wait(self, timeout: float | None) -> set[Future[Any]]:
        """Wait for futures, until a point is to be sent again, or until the timeout has passed."""
        until = math.inf if timeout is None else self._clock() + timeout
        while True:
            left = min(_LOOK_SECONDS, max(0.0, until - self._clock()))
            done = self._engine.wait([*self._running, *self._overdue], left)
            if done or self._clock() >= until or self._send_overdue_again():
                return done
            self._warn_of_silence()

    def _send_overdue_again(self) -> bool:
        """Queue points again whose answers are overdue; whether there are any."""
        now, longest = self._clock(), self._engine.longest
        if longest is None:
            return False
        late = {future: parcel for future, parcel in self._running.items() if now > parcel.sent + longest}
        if late and self._engine.slots is None and now <= self._answered_at + longest:
            return False  # tasks may wait for one another there
        for future, parcel in late.items():
            self._overdue[future] = self._running.pop(future)
            silent = f"no answer for {now - parcel.began:.0f} s"
            is_first = parcel not in [other for one, other in self._overdue.items() if one is not future]
            if is_first:
                self._waiting.append(parcel)
            elif self._answered_at > parcel.began and not parcel.is_probe:
                parcel.is_over = True
                self._failed.append(Delivery(parcel.number, [Failed(f"{TIMED_OUT}: {silent}, twice")], 0.0))
            else:
                self._down = EngineDown(f"{silent}, although the time of an evaluation is limited: the {_FROZEN}")
            self._count_fault(silent)
        return bool(late)

    def _late_answers(self, done: set[Future[Any]]) -> list[Delivery]:
        """The answers of tasks that were overdue, of points that have none yet."""
        delivered = []
        for future in done & self._overdue.keys():
            parcel = self._overdue.pop(future)
            if not parcel.is_over and not future.cancelled() and future.exception() is None:
                delivered += self._accept(parcel, future.result())
                if parcel in self._waiting:
                    self._waiting.remove(parcel)
                again = [other for other, one in self._running.items() if one is parcel]
                self._overdue |= {other: self._running.pop(other) for other in again}
        return delivered

    def _warn_of_silence(self) -> None:
        """Warn once if nothing has come for long: a user cannot know what the run waits for."""
        silent = self._clock() - self._silent_since
        if self._has_warned or silent < max(PATIENCE, _SLOW * self._longest):
            return
        self._has_warned = True
        slots, limit = self._engine.slots, self._engine.longest
        advice = "with Workers(timeout=...) points are then evaluated elsewhere"
        if limit is not None:
            advice = f"points are sent again {limit:.0f} s after they were sent"
        there = "no workers are left" if slots == 0 else f"slots: {slots}"
        warn_user(
            f"no value for {silent:.0f} s; the run waits for {counted(len(self._running), 'task')} that it has sent to "
            f"the workers ({there}). If evaluations are not that slow, the {_FROZEN}; {advice}"
        )

    def _submit_waiting(self) -> BrokenExecutor | None:
        """Submit waiting parcels while slots are free."""
        slots = self._engine.slots
        is_alone = any(parcel.must_run_alone for parcel in self._running.values())
        has_suspect = any(parcel.is_suspect for parcel in self._running.values())
        while self._accepts_work and (index := self._next_waiting(has_suspect)) is not None:
            parcel = self._waiting[index]
            one_at_a_time = parcel.must_run_alone or is_alone
            room = 1 if one_at_a_time else None if slots is None else slots - len(self._overdue)
            if room is not None and len(self._running) >= max(1, room):
                break
            try:
                future = self._engine.submit(parcel.x, with_function=parcel.with_function)
            except BrokenExecutor as error:
                return error
            except NoFurtherWorker:
                break
            except EngineDown as down:  # running tasks are waited for
                self._down, self._accepts_work = down, False
                break
            del self._waiting[index]
            if not self._running and not self._overdue:
                self._silent_since = self._clock()
            parcel.sent = self._clock()
            parcel.began = min(parcel.began, parcel.sent)
            self._running[future] = parcel
            is_alone, has_suspect = is_alone or parcel.must_run_alone, has_suspect or parcel.is_suspect
        return None

    def _next_waiting(self, has_suspect: bool) -> int | None:
        """Return the index of the next parcel to submit: the first, but only one suspect at a time."""
        return next((i for i, parcel in enumerate(self._waiting) if not (has_suspect and parcel.is_suspect)), None)

    def _accept(self, parcel: Parcel, answer: Any) -> list[Delivery]:
        if isinstance(answer, NeedsFunction):
            parcel.with_function = True
            self._waiting.appendleft(parcel)
            return []
        if isinstance(answer, Unloadable):
            self._down = EngineDown(
                f"the function cannot be loaded on the workers ({answer.reason}). Install there what it imports, or "
                "define it in your script and install cloudpickle, which sends its code as well"
            )
            return []
        assert isinstance(answer, Answered)
        self._faults, parcel.is_over = 0, True
        self._answered_at = self._silent_since = self._clock()
        self._has_warned, self._longest = False, max(self._longest, answer.seconds)
        self._answered_point = parcel.x[:1]
        return [] if parcel.is_probe else [Delivery(parcel.number, answer.answers, answer.seconds)]

    def _release_failed(self) -> list[Delivery]:
        """Return the failed points that were withheld."""
        failed, self._failed = self._failed, []
        return failed

    def _resend_after_break(self, parcel: Parcel, error: BaseException) -> None:
        """Try a parcel again that was running when the executor broke."""
        if parcel.must_run_alone:
            self._handle_loss(parcel, error)
        else:
            self._split(parcel, parcel.breaks + 1)

    def _split(self, parcel: Parcel, breaks: int = 0) -> None:
        """Queue the points of a parcel one by one, because nobody knows which of them is at fault."""
        parts = [
            Parcel(parcel.number + i, row[None], breaks=breaks, is_probe=parcel.is_probe)
            for i, row in enumerate(parcel.x)
        ]
        self._waiting.extendleft(reversed(parts))

    def _handle_loss(self, parcel: Parcel, error: BaseException, blame: bool = True) -> None:
        """Try a lost parcel again, or let its point fail."""
        reason = text_of(error) or type(error).__name__
        if isinstance(error, ImportError):
            self._down = EngineDown(
                f"the workers cannot import what they need ({text_of(error)}): install paoswarm there"
            )
            return
        if isinstance(error, EngineDown):
            self._down = error
            return
        self._count_fault(reason)
        logger.warning("%s lost with the worker: %s", _describe_points(parcel), reason)
        if blame and len(parcel.x) > 1:
            self._split(parcel)
            return
        if blame and self._engine.may_fail_innocent_tasks and not parcel.is_suspect:
            parcel.is_suspect = True
            self._waiting.append(parcel)
            return
        parcel.losses += blame
        if parcel.losses <= self._retries or parcel.is_probe:
            self._waiting.appendleft(parcel)
        else:
            self._failed.append(Delivery(parcel.number, [died(reason, parcel.losses)], 0.0))

    def _replace_executor(self, broken: BrokenExecutor, counted: bool) -> None:
        """Restart a broken executor and send it everything that was running."""
        for future, parcel in list(self._running.items()):
            if not future.done() or future.cancelled() or future.exception() is not None:
                del self._running[future]
                self._resend_after_break(parcel, broken)
        self._overdue = {}
        if not counted:
            self._count_fault(str(broken))
        try:
            restarted = self._engine.restart()
        except Exception as error:
            self._down = EngineDown(
                f"a worker process died, and a new executor could not be made: {describe_error(error)}"
            )
            return
        if not restarted:
            self._down = EngineDown(
                f"a worker process died and broke the executor ({broken}). To survive this, give workers a function "
                "that makes a new executor, for example workers=lambda: ProcessPoolExecutor(4)"
            )

    def _count_fault(self, reason: str) -> None:
        self._faults += 1
        self._last_fault = reason

    def close(self) -> None:
        """Give up running parcels and close the engine."""
        running = [*self._running, *self._overdue]
        self._running, self._overdue, self._waiting = {}, {}, deque()
        self._engine.close(running)


def _describe_points(parcel: Parcel) -> str:
    if parcel.is_probe:
        return "a point that was evaluated again to test the workers was"
    if len(parcel.x) == 1:
        return f"1 point (number {parcel.number}) was"
    return f"{len(parcel.x)} points (numbers {parcel.number} to {parcel.number + len(parcel.x) - 1}) were"
