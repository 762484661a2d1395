"""Engines evaluate points and answer through futures. Here: this process, and worker processes of our own."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Collection
from concurrent.futures import Future
from contextlib import nullcontext
from multiprocessing import connection, current_process, get_start_method
from typing import Any

from paoswarm.core.arrays import Floats
from paoswarm.evaluate.calls import Objective, dump
from paoswarm.evaluate.child import CannotStart, Child, ProcessLost, evaluate_timed
from paoswarm.evaluate.interrupts import interruptible, uninterrupted
from paoswarm.store.log import logger

PATIENCE = 60.0  # seconds for what should take few: to start a process that evaluates, or to answer
POLL_SECONDS = 2.0  # how often to look for cancelled tasks, lost connections and silent deaths
_START_PAUSE = 1.0  # seconds until the next attempt to start a process after a refusal; doubled each time
_MAX_EARLY_DEATHS = 2  # processes that may die before they serve, as long as none has ever served


class EngineDown(RuntimeError):
    """The workers cannot evaluate points any more."""


class NoFurtherWorker(RuntimeError):
    """A task must wait until another one is done, because no further worker can be started."""


class WorkerPool(ABC):
    """Sends points to workers and returns futures.

    The result of a future is an `Answered`, or an object that says why there are no answers.

    Attributes
    ----------
    retries_lost_tasks : bool
        Whether the engine itself sends a task to another worker when its worker is lost.
    may_fail_innocent_tasks : bool
        Whether the engine may fail a task because other tasks killed its worker.
    """

    retries_lost_tasks = False
    may_fail_innocent_tasks = False

    @property
    def slots(self) -> int | None:
        """Number of tasks that can run at once; None if unknown."""
        return 1

    @property
    def longest(self) -> float | None:
        """Seconds in which workers that limit its time answer a task, or they are frozen; None without a limit."""
        return None

    @abstractmethod
    def submit(self, x: Floats, *, with_function: bool = False) -> Future[Any]:
        """Send points ``(k, d)``, together with the function if a worker has asked for it."""

    @abstractmethod
    def wait(self, pending: Collection[Future[Any]], timeout: float | None) -> set[Future[Any]]:
        """Return the futures that are done or cancelled: at least one, unless the timeout has passed.

        An interrupt is raised while nothing is held: `futures.wait` would keep the locks of futures for ever.
        """

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


class InProcessEngine(WorkerPool):
    """Evaluates points in this process, at once."""

    def __init__(self, fun: Objective, vectorized: bool) -> None:
        self._fun, self._vectorized = fun, vectorized

    def submit(self, x: Floats, *, with_function: bool = False) -> Future[Any]:
        """Evaluate the points."""
        future: Future[Any] = Future()
        future.set_result(evaluate_timed(self._fun, x, self._vectorized))
        return future

    def wait(self, pending: Collection[Future[Any]], timeout: float | None) -> set[Future[Any]]:
        """All are done."""
        return set(pending)


class ProcessEngine(WorkerPool):
    """Evaluates points in worker processes of its own.

    Each process has one task at a time, so it is clear which task has ended a process. Dead processes are replaced, and
    those that exceed the time limit are killed. There are no helper threads: all processes are started from the thread
    of the caller.
    """

    def __init__(self, count: int, fun: Objective, vectorized: bool, limit: float | None) -> None:
        self._fun, self._vectorized, self._limit = fun, vectorized, limit
        # A daemon (in a `multiprocessing.Pool`, or a Dask worker) is not allowed to use `multiprocessing` itself.
        self._is_in_daemon = current_process().daemon
        self._pickled = None if get_start_method() == "fork" and not self._is_in_daemon else dump(fun)
        self._count = count
        self._idle: list[Child] = []
        self._busy: dict[Child, Future[Any]] = {}
        self._early_deaths, self._has_served = 0, False
        self._start_pause, self._no_start_before = _START_PAUSE, -math.inf

    @property
    def slots(self) -> int:
        """The number of processes: those there are, after the system has refused to start more."""
        return self._count if time.monotonic() >= self._no_start_before else len(self._idle) + len(self._busy)

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
                child = self._start_child()
            self._busy[child] = future
        child.send(x, self._limit)
        return future

    def _start_child(self) -> Child:
        try:
            if self._is_in_daemon:
                assert self._pickled is not None
                return Child.start_interpreter(self._pickled, self._vectorized, idle=None)
            return Child.start_process(self._fun, self._pickled, self._vectorized)
        except CannotStart as refusal:
            if not self._busy:
                raise EngineDown(
                    f"{refusal}. Free some, raise the limits (ulimit -u for processes, ulimit -n for open files), or "
                    "use fewer workers"
                ) from refusal
            logger.warning("%s; the run goes on with workers: %d", refusal, len(self._busy))
            # Seldom, because `multiprocessing` leaves open files behind when it cannot fork.
            self._no_start_before = time.monotonic() + self._start_pause
            self._start_pause *= 2
            raise NoFurtherWorker(str(refusal)) from refusal

    def wait(self, pending: Collection[Future[Any]], timeout: float | None) -> set[Future[Any]]:
        """Wait for an answer, a death or the time limit of a process."""
        until = time.monotonic() + timeout if timeout is not None else math.inf
        while True:
            # Not every system tells of a death whose victim has left processes behind: look from time to time.
            times = [until, time.monotonic() + POLL_SECONDS]
            times += [child.deadline for child in self._busy if child.deadline is not None]
            is_done = any(future.done() for future in pending)  # an interrupt came before the caller knew
            left = 0.0 if is_done else max(0.0, min(times) - time.monotonic())
            with nullcontext() if timeout == 0 else interruptible():
                connection.wait([handle for child in self._busy for handle in child.handles], left)
            with uninterrupted():
                for child in list(self._busy):
                    self._collect(child)
            done = {future for future in pending if future.done()}
            if done or time.monotonic() >= until:
                return done

    def _collect(self, child: Child) -> None:
        """Set the outcome of a task, if there is one."""
        try:
            answer = child.collect()
        except ProcessLost as loss:
            self._busy.pop(child).set_exception(self._explain_loss(child, loss))
            return
        if answer is None:
            return
        self._has_served = True
        self._busy.pop(child).set_result(answer)
        if child.is_open:
            self._idle.append(child)

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

    def close(self, pending: Collection[Future[Any]]) -> None:
        """Kill all processes: an interrupt does not wait for evaluations that may take hours."""
        self._kill([*self._idle, *self._busy])

    def _kill(self, children: list[Child]) -> None:
        with uninterrupted():
            for child in children:  # first signal all, then wait for all
                child.send_kill()
            for child in children:
                child.kill()
            self._idle = [child for child in self._idle if child.is_open]
            self._busy = {child: future for child, future in self._busy.items() if child.is_open}
