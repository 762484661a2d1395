"""Send points to an engine and collect the answers, whatever happens to the workers in between.

When a worker is lost:

- Its points are tried again one by one, because nobody knows which of them ended the worker.
- If the dead worker broke the whole executor, every running point is sent to a new executor. The points that run when
  that one breaks too are then tried with nothing beside them.
- A point that ends its worker alone, as often as it may be tried, has failed.
- An engine may fail innocent tasks (see `WorkerPool.may_fail_innocent_tasks`). Their points are suspects and are tried
  once more, one suspect at a time beside the other points.

A fault of the engine says nothing about a point. So a point counts as failed only after another one was answered. If no
other point is left, one that was answered before is evaluated again, to see whether the engine works. If there are only
faults, the dispatcher raises `EngineDown`, after it has delivered all answers.
"""

from __future__ import annotations

import time
from collections import deque
from concurrent.futures import BrokenExecutor, CancelledError, Future
from dataclasses import dataclass
from typing import Any, NamedTuple

from paoswarm._text import describe_error, text_of
from paoswarm.core.arrays import Floats
from paoswarm.evaluate.calls import Failed
from paoswarm.evaluate.child import Answered, CannotStart, Unloadable, died
from paoswarm.evaluate.engines import EngineDown, NoFurtherWorker, WorkerPool
from paoswarm.evaluate.worker import NeedsFunction
from paoswarm.store.log import logger

_REPORT_SECONDS = 300.0  # without an answer, until the log says so
_MAX_LOST_POINTS = 16  # lost one after the other (or two for each slot, if that is more): the engine is down


@dataclass
class Parcel:
    """Points that travel together in one task."""

    number: int  # of the first point
    x: Floats
    losses: int = 0  # of its worker, when it was the only point there
    breaks: int = 0  # of executors, with other points beside it
    with_function: bool = False
    is_probe: bool = False  # only to see whether the engine works
    is_suspect: bool = False  # failed once, perhaps because of another point

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

    def __init__(self, engine: WorkerPool, retries: int) -> None:
        self._engine = engine
        self._retries = 0 if engine.retries_lost_tasks else retries
        self._waiting: deque[Parcel] = deque()
        self._running: dict[Future[Any], Parcel] = {}
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
        self._engine.give_up(list(self._running))
        self._running, self._failed = {}, []

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
        delivered, faults = [], self._faults
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
        """Wait for futures, and log a warning if nothing comes for a long time: some engines wait in silence."""
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            left = _REPORT_SECONDS if until is None else min(_REPORT_SECONDS, max(0.0, until - time.monotonic()))
            done = self._engine.wait(list(self._running), left)
            if done or (until is not None and time.monotonic() >= until):
                return done
            slots = self._engine.slots
            logger.warning("no answer for %g s; tasks running: %d, slots: %s", left, len(self._running), slots)

    def _submit_waiting(self) -> BrokenExecutor | None:
        """Submit waiting parcels while slots are free."""
        slots = self._engine.slots
        is_alone = any(parcel.must_run_alone for parcel in self._running.values())
        has_suspect = any(parcel.is_suspect for parcel in self._running.values())
        while self._accepts_work and (index := self._next_waiting(has_suspect)) is not None:
            parcel = self._waiting[index]
            room = 1 if parcel.must_run_alone or is_alone else slots
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
        self._faults = 0
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
        running, self._running, self._waiting = list(self._running), {}, deque()
        self._engine.close(running)


def _describe_points(parcel: Parcel) -> str:
    if parcel.is_probe:
        return "a point that was evaluated again to test the workers was"
    if len(parcel.x) == 1:
        return f"1 point (number {parcel.number}) was"
    return f"{len(parcel.x)} points (numbers {parcel.number} to {parcel.number + len(parcel.x) - 1}) were"
