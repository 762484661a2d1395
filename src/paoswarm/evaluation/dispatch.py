"""Points out to an engine and answers back, whatever happens to workers in between.

Points that were lost with their worker are tried again, one by one, since it is not known which of them did it. Where a
dead worker takes a whole executor with it, everything that was out is sent to a new one; what is out when that one
breaks as well is tried with nothing beside it. A point that ends its worker alone again and again has failed. Of an
engine that may blame bystanders, points that it has given up are tried again one at a time, beside those that nothing
is known against. But a
fault of the engine is no verdict on a point: points are given up only when others are answered. If there are no others,
a point that was answered before is evaluated once more to see whether the engine works at all. When nothing but faults
comes back, that is `EngineDown`. All that was answered is delivered before.
"""

from __future__ import annotations

import time
from collections import deque
from concurrent.futures import BrokenExecutor, CancelledError, Future
from dataclasses import dataclass
from typing import Any, NamedTuple

from paoswarm.core.arrays import Floats
from paoswarm.evaluation.calls import Failed
from paoswarm.evaluation.child import Answered, Unloadable, killed
from paoswarm.evaluation.engines import Engine, EngineDown
from paoswarm.evaluation.worker import Unknown
from paoswarm.storage.log import logger

_SILENCE = 300.0  # seconds
_POINTS_IN_A_ROW = 16  # so many points lost without an answer in between, or two for every slot: the engine is down


@dataclass
class Parcel:
    """Points on their way."""

    number: int  # of the first point
    x: Floats
    losses: int = 0  # when it was alone with its worker
    breaks: int = 0  # of executors, with others beside it
    with_function: bool = False
    is_probe: bool = False  # only to see whether the engine works
    is_suspect: bool = False  # given up once by an engine that may have meant another

    @property
    def alone(self) -> bool:
        """Whether it is to be tried with nothing beside it."""
        return self.breaks > 1


class Delivery(NamedTuple):
    """Answers for consecutive points."""

    number: int  # of the first point
    answers: list[float | Failed]
    seconds: float


class Dispatcher:
    """Sends parcels to an engine, no more at a time than it has slots, and gives out what comes back."""

    def __init__(self, engine: Engine, retries: int) -> None:
        self._engine = engine
        self._retries = 0 if engine.tries_again else retries
        self._waiting: deque[Parcel] = deque()
        self._out: dict[Future[Any], Parcel] = {}
        self._faults, self._reason = 0, ""  # since the last answer
        self._doubtful: list[Delivery] = []  # points given up since then: it may have been the engine
        self._good: Floats | None = None  # a point that was answered
        self._down: EngineDown | None = None  # to be said when all that was answered is delivered
        self._takes_work = True

    @property
    def is_busy(self) -> bool:
        """Whether there is something to `receive`."""
        return bool(self._waiting or self._out or self._doubtful or self._down)

    @property
    def in_hand(self) -> int:
        """Parcels that wait for a slot or have one."""
        return len(self._waiting) + len(self._out)

    @property
    def slots(self) -> int | None:
        """How many parcels the engine works on at once; None if nobody knows."""
        return self._engine.slots

    def send(self, number: int, x: Floats) -> None:
        """Points ``(k, d)``; they leave when a slot is free and somebody calls `receive`."""
        self._waiting.append(Parcel(number, x))

    def withdraw(self) -> None:
        """Drop what has not been begun yet."""
        self._waiting.clear()
        if self._engine.slots is None:  # then everything has left
            for future in [future for future in self._out if future.cancel()]:
                del self._out[future]

    def give_up(self) -> None:
        """Drop everything: nobody wants the answers any more."""
        self._waiting.clear()
        self._engine.give_up(list(self._out))
        self._out, self._doubtful = {}, []

    def receive(self, timeout: float | None = None) -> list[Delivery]:
        """What has arrived, in the order of numbers; nothing if time is up, or when a slot has become free."""
        if self._is_over:
            assert self._down is not None
            raise self._down
        if self._doubtful and not self.in_hand and self._down is None:
            if self._good is None:
                return self._verdicts()
            self._waiting.append(Parcel(-1, self._good, is_probe=True))
        broken = self._fill()
        done = self._wait(timeout) if self._out else set()
        delivered: list[Delivery] = []
        faults = self._faults
        known = done & self._out.keys()  # an interrupt may have come before we knew of one
        for future in sorted(known, key=lambda future: self._out[future].number):
            parcel = self._out.pop(future)
            if future.cancelled():  # the engine was restarted: no fault of the point's
                self._lose(parcel, CancelledError("the engine has cancelled it"), blame=False)
            elif (error := future.exception()) is None:
                delivered += self._accept(parcel, future.result())
            elif isinstance(error, BrokenExecutor):
                broken = error
                self._break(parcel, error)
            else:
                self._lose(parcel, error)
        if broken is not None:
            self._replace(broken, counted=self._faults > faults)
        self._look_at_faults()
        if self._is_over and not delivered:
            assert self._down is not None
            raise self._down
        return delivered + self._verdicts() if self._faults == 0 else delivered

    @property
    def _is_over(self) -> bool:
        """Whether nothing more can come: of an engine that only takes no more work, what has begun will."""
        return self._down is not None and (self._takes_work or not self._out)

    def _wait(self, timeout: float | None) -> set[Future[Any]]:
        """What is done; people are told when nothing is for a long time: some engines wait for ever in silence."""
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            left = _SILENCE if until is None else min(_SILENCE, max(0.0, until - time.monotonic()))
            done = self._engine.wait(list(self._out), left)
            if done or (until is not None and time.monotonic() >= until):
                return done
            slots = self._engine.slots
            logger.warning("nothing has come back for %g s; %d tasks are out, slots: %s", left, len(self._out), slots)

    def _fill(self) -> BrokenExecutor | None:
        """Send what waits, as far as there is room; suspects go alone."""
        slots = self._engine.slots
        while self._takes_work and (index := self._next()) is not None:
            parcel = self._waiting[index]
            room = 1 if parcel.alone or any(out.alone for out in self._out.values()) else slots
            if room is not None and len(self._out) >= max(1, room):
                break
            try:
                future = self._engine.submit(parcel.x, with_function=parcel.with_function)
            except BrokenExecutor as error:
                return error
            except EngineDown as down:  # what has begun is waited for
                self._down, self._takes_work = down, False
                break
            del self._waiting[index]
            self._out[future] = parcel
        return None

    def _next(self) -> int | None:
        """Which of those that wait is to be sent: the first, but of suspects only one at a time."""
        watched = any(parcel.is_suspect for parcel in self._out.values())
        return next((i for i, parcel in enumerate(self._waiting) if not (watched and parcel.is_suspect)), None)

    def _accept(self, parcel: Parcel, answer: Any) -> list[Delivery]:
        if isinstance(answer, Unknown):
            parcel.with_function = True
            self._waiting.appendleft(parcel)
            return []
        if isinstance(answer, Unloadable):
            self._down = EngineDown(
                f"fun cannot be loaded on the workers ({answer.reason}): install there what it imports, or with "
                "cloudpickle define it in your script, which sends it whole"
            )
            return []
        assert isinstance(answer, Answered)
        self._faults = 0
        self._good = parcel.x[:1]
        return [] if parcel.is_probe else [Delivery(parcel.number, answer.answers, answer.seconds)]

    def _verdicts(self) -> list[Delivery]:
        """Points that are given up, once an answer has shown that the engine works."""
        verdicts, self._doubtful = self._doubtful, []
        return verdicts

    def _break(self, parcel: Parcel, error: BaseException) -> None:
        """Of a parcel that was out when the executor broke."""
        if parcel.alone:
            self._lose(parcel, error)
        else:
            self._take_apart(parcel, parcel.breaks + 1)

    def _take_apart(self, parcel: Parcel, breaks: int = 0) -> None:
        """Send the points one by one: the guilty one is not known."""
        parts = [
            Parcel(parcel.number + i, row[None], breaks=breaks, is_probe=parcel.is_probe)
            for i, row in enumerate(parcel.x)
        ]
        self._waiting.extendleft(reversed(parts))

    def _lose(self, parcel: Parcel, error: BaseException, blame: bool = True) -> None:
        """Try again, or give the point up."""
        reason = str(error) or type(error).__name__
        if isinstance(error, ImportError):
            self._down = EngineDown(f"the workers cannot import what they need ({error}): install paoswarm there")
            return
        if isinstance(error, EngineDown):
            self._down = error
            return
        self._fault(reason)
        logger.warning("%d points from number %d were lost with their worker: %s", len(parcel.x), parcel.number, reason)
        if blame and len(parcel.x) > 1:
            self._take_apart(parcel)
            return
        if blame and self._engine.may_fail_innocent_tasks and not parcel.is_suspect:
            parcel.is_suspect = True
            self._waiting.append(parcel)
            return
        parcel.losses += blame
        if parcel.losses <= self._retries or parcel.is_probe:
            self._waiting.appendleft(parcel)
        else:
            self._doubtful.append(Delivery(parcel.number, [killed(reason, parcel.losses)], 0.0))

    def _replace(self, broken: BrokenExecutor, counted: bool) -> None:
        """A broken executor answers nothing any more: all that was out has to be sent to a new one."""
        for future, parcel in list(self._out.items()):
            if not future.done() or future.cancelled() or future.exception() is not None:
                del self._out[future]
                self._break(parcel, broken)
        if not counted:
            self._fault(str(broken))
        try:
            restarted = self._engine.restart()
        except Exception as error:
            self._down = EngineDown(f"a worker process died, and a new executor could not be made: {error!r}")
            return
        if not restarted:
            self._down = EngineDown(
                f"a worker process died and took the executor with it ({broken}); give workers a function that makes "
                "a new one, for example workers=lambda: ProcessPoolExecutor(4), and the run survives"
            )

    def _fault(self, reason: str) -> None:
        self._faults += 1
        self._reason = reason

    def _look_at_faults(self) -> None:
        """Whether they are too many without an answer in between; each point may cost as many as it has attempts."""
        points = max(_POINTS_IN_A_ROW, 2 * (self._engine.slots or 1))
        if self._faults >= points * (self._retries + 2):
            self._down = EngineDown(
                f"{self._faults} times in a row points were lost with their workers and nothing came back; the last "
                f"time: {self._reason}"
            )

    def close(self) -> None:
        """Give up what is out, and end the engine."""
        out, self._out, self._waiting = list(self._out), {}, deque()
        self._engine.close(out)
