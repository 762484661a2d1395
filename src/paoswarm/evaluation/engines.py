"""Engines evaluate points and answer through futures. Here: this process, and worker processes of our own."""

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
from paoswarm.evaluation.child import Child, ProcessLost, evaluate_timed, uninterrupted
from paoswarm.evaluation.pickling import dump

_POLL_SECONDS = 2.0  # how often to look for cancelled tasks
_MAX_EARLY_DEATHS = 2  # processes that may die before they serve, as long as none has ever served


class EngineDown(RuntimeError):
    """The workers cannot evaluate points any more."""


class Engine(ABC):
    """Sends points to workers and returns futures.

    The result of a future is an `Answered`, or an object that says why there are no answers.
    """

    @property
    def slots(self) -> int | None:
        """Number of tasks that can run at once; None if unknown."""
        return 1

    @property
    def retries_lost_tasks(self) -> bool:
        """Whether the engine itself sends a task to another worker when its worker is lost."""
        return False

    @property
    def may_fail_innocent_tasks(self) -> bool:
        """Whether the engine may fail a task because other tasks killed its worker."""
        return False

    @abstractmethod
    def submit(self, x: Floats, *, with_function: bool = False) -> Future[Any]:
        """Send points ``(k, d)``, together with the function if a worker has asked for it."""

    def wait(self, pending: Collection[Future[Any]], timeout: float | None) -> set[Future[Any]]:
        """Return the futures that are done or cancelled: at least one, unless the timeout has passed."""
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            left = _POLL_SECONDS if until is None else min(_POLL_SECONDS, max(0.0, until - time.monotonic()))
            done = futures.wait(pending, left, return_when=futures.FIRST_COMPLETED).done
            done |= {future for future in pending if future.cancelled()}  # `futures.wait` may not report these
            if done or (until is not None and time.monotonic() >= until):
                return done

    def restart(self) -> bool:
        """Make a broken engine usable again; return whether that was possible."""
        return False

    def give_up(self, pending: Collection[Future[Any]]) -> None:
        """Cancel futures whose results are not needed; tasks that have started may go on."""
        for future in pending:
            future.cancel()

    def close(self, pending: Collection[Future[Any]]) -> None:
        """Give up pending tasks and end workers that this engine has started, but not those of the user."""
        self.give_up(pending)


class InProcessEngine(Engine):
    """Evaluates points in this process, one after the other."""

    def __init__(self, fun: Objective, vectorized: bool) -> None:
        self._fun, self._vectorized = fun, vectorized

    def submit(self, x: Floats, *, with_function: bool = False) -> Future[Any]:
        """Evaluate the points at once."""
        future: Future[Any] = Future()
        future.set_result(evaluate_timed(self._fun, x, self._vectorized))
        return future


class ProcessEngine(Engine):
    """Evaluates points in worker processes of its own.

    Each process has one task at a time, so it is clear which task has ended a process. Dead processes are replaced, and
    those that exceed the time limit are killed. There are no helper threads: all processes are started from the thread
    of the caller.
    """

    def __init__(self, count: int, fun: Objective, vectorized: bool, limit: float | None) -> None:
        self._fun, self._vectorized, self._limit = fun, vectorized, limit
        self._pickled = None if get_start_method() == "fork" else dump(fun)
        self._count = count
        self._idle: list[Child] = []
        self._busy: dict[Child, Future[Any]] = {}
        self._early_deaths, self._has_served = 0, False

    @property
    def slots(self) -> int:
        """The number of processes."""
        return self._count

    def submit(self, x: Floats, *, with_function: bool = False) -> Future[Any]:
        """Give the points to an idle process or start a new one."""
        future: Future[Any] = Future()
        with uninterrupted():
            while self._idle:
                child = self._idle.pop()
                if child.is_alive:
                    break
                child.kill()
            else:
                child = Child.start_process(self._fun, self._pickled, self._vectorized)
            self._busy[child] = future
        child.send(x, self._limit)
        return future

    def wait(self, pending: Collection[Future[Any]], timeout: float | None) -> set[Future[Any]]:
        """Wait for an answer, a death or the time limit of a process."""
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            deadlines = [child.deadline for child in self._busy if child.deadline is not None]
            deadlines += [] if until is None else [until]
            left = max(0.0, min(deadlines) - time.monotonic()) if deadlines else None
            connection.wait([c for child in self._busy for c in (child.connection, child.sentinel)], left)
            done = {future for child in list(self._busy) if (future := self._collect(child)) is not None}
            if done or (until is not None and time.monotonic() >= until):
                return done

    def _collect(self, child: Child) -> Future[Any] | None:
        try:
            answer = child.collect()
        except ProcessLost as loss:
            future = self._busy.pop(child)
            future.set_exception(self._explain_loss(child, loss))
            return future
        if answer is None:
            return None
        self._has_served = True
        future = self._busy.pop(child)
        future.set_result(answer)
        if child.is_open:
            self._idle.append(child)
        return future

    def _explain_loss(self, child: Child, loss: ProcessLost) -> Exception:
        """Return `EngineDown` if new interpreters die before they serve: then the script is at fault, not a point."""
        if self._pickled is None or self._has_served or child.is_ready:
            return loss
        self._early_deaths += 1
        if self._early_deaths <= _MAX_EARLY_DEATHS:
            return loss
        return EngineDown(
            f"worker processes die before they can start work ({loss}; their output above shows the reason). A script "
            'that starts processes needs its main part under if __name__ == "__main__":'
        )

    def give_up(self, pending: Collection[Future[Any]]) -> None:
        """Kill the busy processes."""
        self._kill(list(self._busy))
        self._busy = {}

    def close(self, pending: Collection[Future[Any]]) -> None:
        """Kill all processes: an interrupt does not wait for evaluations that may take hours."""
        self._kill([*self._idle, *self._busy])
        self._idle, self._busy = [], {}

    @staticmethod
    def _kill(children: list[Child]) -> None:
        with uninterrupted():
            for child in children:  # first signal all, then wait for all
                child.send_kill()
            for child in children:
                child.kill()
