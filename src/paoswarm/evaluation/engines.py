"""Engines: what is sent points and answers later. The present process, and processes of our own."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Collection
from concurrent import futures
from concurrent.futures import Future
from multiprocessing import connection, get_start_method
from typing import Any

from paoswarm.core.arrays import Floats
from paoswarm.evaluation.calls import Objective
from paoswarm.evaluation.child import Child, Lost, answered, uninterrupted
from paoswarm.evaluation.pickling import dump

_LOOK = 2.0  # seconds between two looks for cancelled tasks
_STILLBORN = 2  # processes that may end before they serve, if none has ever served


class EngineDown(RuntimeError):
    """What evaluates the points does not work any more."""


class Engine(ABC):
    """Sends points to workers; `wait` for the futures, whose results are `Answered` or why there is no answer."""

    @property
    def slots(self) -> int | None:
        """How many tasks can be worked on at once; None where nobody knows."""
        return 1

    @property
    def tries_again(self) -> bool:
        """Whether it sends a task that was lost with its worker to another one by itself."""
        return False

    @property
    def may_fail_innocent_tasks(self) -> bool:
        """Whether it may give up a task because of others that have ended the workers on which it waited."""
        return False

    @abstractmethod
    def submit(self, x: Floats, *, with_function: bool = False) -> Future[Any]:
        """Send points ``(k, d)``, and the function as well to a worker that has asked for it."""

    def wait(self, pending: Collection[Future[Any]], timeout: float | None) -> set[Future[Any]]:
        """Those that are done or cancelled, one at least unless time is up."""
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            left = _LOOK if until is None else min(_LOOK, max(0.0, until - time.monotonic()))
            done = futures.wait(pending, left, return_when=futures.FIRST_COMPLETED).done
            done |= {future for future in pending if future.cancelled()}  # of which nobody may be told
            if done or (until is not None and time.monotonic() >= until):
                return done

    def restart(self) -> bool:
        """Make a broken engine usable again, if possible."""
        return False

    def give_up(self, pending: Collection[Future[Any]]) -> None:
        """Nobody wants these any more; what has begun may go on."""
        for future in pending:
            future.cancel()

    def close(self, pending: Collection[Future[Any]]) -> None:
        """Give up what is pending, and end what was made here; what the user has made is left alone."""
        self.give_up(pending)


class Here(Engine):
    """The present process, one point after the other."""

    def __init__(self, fun: Objective, vectorized: bool) -> None:
        self._fun, self._vectorized = fun, vectorized

    def submit(self, x: Floats, *, with_function: bool = False) -> Future[Any]:
        """Evaluated at once."""
        future: Future[Any] = Future()
        future.set_result(answered(self._fun, x, self._vectorized))
        return future


class Processes(Engine):
    """Processes of our own, each with one task in hand: so it is known which one has ended its process.

    The dead are replaced, and those that take too long are ended. There are no threads here, and all processes are
    started from the thread of the caller.
    """

    def __init__(self, count: int, fun: Objective, vectorized: bool, limit: float | None) -> None:
        self._fun, self._vectorized, self._limit = fun, vectorized, limit
        self._blob = None if get_start_method() == "fork" else dump(fun)
        self._count = count
        self._idle: list[Child] = []
        self._busy: dict[Child, Future[Any]] = {}
        self._stillborn, self._has_served = 0, False

    @property
    def slots(self) -> int:
        """One task each."""
        return self._count

    def submit(self, x: Floats, *, with_function: bool = False) -> Future[Any]:
        """Give it to an idle process, or a new one."""
        future: Future[Any] = Future()
        with uninterrupted():
            while self._idle:
                child = self._idle.pop()
                if child.is_alive:
                    break
                child.kill()
            else:
                child = Child.of_multiprocessing(self._fun, self._blob, self._vectorized)
            self._busy[child] = future
        child.send(x, self._limit)
        return future

    def wait(self, pending: Collection[Future[Any]], timeout: float | None) -> set[Future[Any]]:
        """Listen to all of them, and keep the time."""
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            ends = [child.deadline for child in self._busy if child.deadline is not None]
            ends += [] if until is None else [until]
            left = max(0.0, min(ends) - time.monotonic()) if ends else None
            connection.wait([c for child in self._busy for c in (child.connection, child.sentinel)], left)
            done = {future for child in list(self._busy) if (future := self._collect(child)) is not None}
            if done or (until is not None and time.monotonic() >= until):
                return done

    def _collect(self, child: Child) -> Future[Any] | None:
        try:
            answer = child.collect()
        except Lost as loss:
            future = self._busy.pop(child)
            future.set_exception(self._diagnosis(child, loss))
            return future
        if answer is None:
            return None
        self._has_served = True
        future = self._busy.pop(child)
        future.set_result(answer)
        if child.is_open:
            self._idle.append(child)
        return future

    def _diagnosis(self, child: Child, loss: Lost) -> Exception:
        """Where new interpreters end before they have begun, no point is to blame."""
        if self._blob is None or self._has_served or child.is_ready:
            return loss
        self._stillborn += 1
        if self._stillborn <= _STILLBORN:
            return loss
        return EngineDown(
            f"worker processes end before they can begin ({loss}; what they printed says why): a script that starts "
            'processes needs its main part under if __name__ == "__main__":'
        )

    def give_up(self, pending: Collection[Future[Any]]) -> None:
        """End those that are busy."""
        self._end(list(self._busy))
        self._busy = {}

    def close(self, pending: Collection[Future[Any]]) -> None:
        """End them all: an interrupt does not wait for evaluations that may take hours."""
        self._end([*self._idle, *self._busy])
        self._idle, self._busy = [], {}

    @staticmethod
    def _end(children: list[Child]) -> None:
        with uninterrupted():
            for child in children:
                child.strike()
            for child in children:
                child.kill()
