"""What ``workers=`` may be, each as an engine: something that is sent points and answers later."""

from __future__ import annotations

import functools
import inspect
import math
import os
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from concurrent import futures
from concurrent.futures import Future
from contextlib import ExitStack
from multiprocessing import connection, get_start_method
from typing import Any

from paoswarm.checks import whole_number
from paoswarm.core.walled import Floats
from paoswarm.evaluation import worker
from paoswarm.evaluation.calls import Objective, call_portably
from paoswarm.evaluation.child import Answered, Child, Lost
from paoswarm.evaluation.portable import dump

_COUNT_AGAIN = 1.0  # seconds until the slots of a cluster are counted again
_LOOK = 2.0  # seconds between two looks for cancelled tasks


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
        started = time.perf_counter()
        answers = call_portably(self._fun, x, self._vectorized)
        future.set_result(Answered(answers, time.perf_counter() - started))
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

    @property
    def slots(self) -> int:
        """One task each."""
        return self._count

    def submit(self, x: Floats, *, with_function: bool = False) -> Future[Any]:
        """Give it to an idle process, or a new one."""
        while self._idle:
            child = self._idle.pop()
            if child.is_alive:
                break
            child.kill()
        else:
            child = Child.of_multiprocessing(self._fun, self._blob, self._vectorized)
        child.send(x, self._limit)
        future = self._busy[child] = Future()
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
            answered = child.collect()
        except Lost as loss:
            future = self._busy.pop(child)
            future.set_exception(loss)
            return future
        if answered is None:
            return None
        future = self._busy.pop(child)
        future.set_result(answered)
        if child.is_open:
            self._idle.append(child)
        return future

    def give_up(self, pending: Collection[Future[Any]]) -> None:
        """End those that are busy."""
        for child in self._busy:
            child.kill()
        self._busy = {}

    def close(self, pending: Collection[Future[Any]]) -> None:
        """End them all: an interrupt does not wait for evaluations that may take hours."""
        for child in [*self._idle, *self._busy]:
            child.kill()
        self._idle, self._busy = [], {}


class Foreign(Engine):
    """Anything with the interface of `concurrent.futures.Executor`, or a function without arguments that makes one.

    Of the interface only ``submit`` is used: ``map`` loses good results at the first exception.
    """

    def __init__(
        self, executor: Any, make: Callable[[], Any] | None, fun: Objective, vectorized: bool, patience: worker.Patience
    ) -> None:
        self._make = make
        self._patience = patience
        self._vectorized = vectorized
        self._fun = fun
        self._blob: bytes | None = None
        self._key = uuid.uuid4().hex
        worker.keep(self._key, fun, None)
        self._executor = executor if make is None else self._made()
        self._used = False
        self._counted: tuple[float, int | None] = (-math.inf, None)  # when, and how many slots

    @property
    def slots(self) -> int | None:
        """As many as there were a moment ago: to ask a cluster takes time."""
        when, count = self._counted
        if time.monotonic() > when + _COUNT_AGAIN:
            count = self._count_slots()
            self._counted = time.monotonic(), count
        return count

    def _count_slots(self) -> int | None:
        """By whatever name the executor says so."""
        for name in ("slots", "num_workers", "_max_workers"):
            count = getattr(self._executor, name, None)
            if isinstance(count, int) and count > 0:
                return count
        return None

    @property
    def tries_again(self) -> bool:
        """Our adaptor of Ray says so."""
        return getattr(self._executor, "tries_again", False)

    def submit(self, x: Floats, *, with_function: bool = False) -> Future[Any]:
        """Send a task."""
        if with_function and self._blob is None:
            self._blob = dump(self._fun)
        blob = self._blob if with_function else None
        task = worker.Task(self._key, x, self._vectorized, self._patience, blob)
        try:
            future: Future[Any] = self._executor.submit(worker.evaluate, task)
        except futures.BrokenExecutor:
            raise
        except Exception as error:
            if self._used:
                raise EngineDown(f"the executor takes no more work: {error}") from error
            raise ValueError(f"workers is an executor that takes no work ({error}): make a new one") from error
        self._used = True
        return future

    def restart(self) -> bool:
        """A new executor, where we were told how to make one."""
        if self._make is None:
            return False
        self._end()
        self._executor = self._made()
        return True

    def _made(self) -> Any:
        assert self._make is not None
        self._own = self._make()
        return self._own.get_executor(pure=False) if is_client(self._own) else self._own

    def _end(self) -> None:
        if is_client(self._own):
            self._own.close()
        else:
            end(self._own)

    def close(self, pending: Collection[Future[Any]]) -> None:
        """End the executor if it was made here; otherwise take back what it has not begun."""
        worker.forget(self._key)
        if self._make is not None:
            self._end()
        else:
            self.give_up(pending)


class Dask(Foreign):
    """A Dask cluster through its `Client`."""

    def __init__(self, client: Any, fun: Objective, vectorized: bool, patience: worker.Patience) -> None:
        import dask

        if client.status != "running":
            raise ValueError(f"workers is a Dask Client that is {client.status}: connect a new one")
        self._client = client
        if not self._count_slots():
            raise ValueError(
                "workers is a Dask Client without workers: scale its cluster, or wait with client.wait_for_workers(1)"
            )
        # pure=False: otherwise a point that is measured twice is evaluated once.
        super().__init__(client.get_executor(pure=False), None, fun, vectorized, patience)
        self._settings = ExitStack()
        if type(getattr(client, "cluster", None)).__name__ == "LocalCluster":
            # It drops a worker for good that happens to be restarting so long after it has died. Clusters that start
            # jobs must drop theirs, or they would not replace them.
            self._settings.enter_context(dask.config.set({"distributed.deploy.lost-worker-timeout": "1 hour"}))

    def _count_slots(self) -> int:
        """Threads of all workers at present, or as many as an adaptive cluster may start."""
        adaptive = getattr(getattr(self._client, "cluster", None), "_adaptive", None)
        most = getattr(adaptive, "maximum", 0)
        return max(sum(self._client.nthreads().values()), int(most) if 0 < most < 10_000 else 0)

    @property
    def tries_again(self) -> bool:
        """Up to ``distributed.scheduler.allowed-failures`` times."""
        return True

    def close(self, pending: Collection[Future[Any]]) -> None:
        """Give up what is still out; the client stays as it is."""
        super().close(pending)
        self._settings.close()
        if self._client.status == "running":
            self._executor.shutdown(wait=False)


def open_engine(workers: Any, fun: Objective, vectorized: bool, patience: worker.Patience) -> Engine | None:
    """The engine for ``workers``; None for one worker without a time limit, and for a map-like."""
    if isinstance(workers, Engine):
        return workers
    if is_client(workers):
        return Dask(workers, fun, vectorized, patience)
    if is_executor(workers):
        return Foreign(workers, None, fun, vectorized, patience)
    if callable(workers):
        return Foreign(None, workers, fun, vectorized, patience) if makes_executor(workers) else None
    count = os.cpu_count() or 1 if workers == -1 else whole_number("workers", workers, 1)
    if count == 1 and patience.limit is None:
        return None
    return Processes(count, fun, vectorized, patience.limit)


def is_client(workers: Any) -> bool:
    """Whether it is a Dask client."""
    return type(workers).__module__.startswith("distributed") and hasattr(workers, "get_executor")


def is_executor(workers: Any) -> bool:
    """Whether it has the interface of `concurrent.futures.Executor`."""
    return isinstance(workers, futures.Executor) or (hasattr(workers, "submit") and not isinstance(workers, type))


def makes_executor(workers: Any) -> bool:
    """Whether a callable is a function without arguments that makes an executor, rather than a map-like."""
    if isinstance(workers, type):
        return issubclass(workers, futures.Executor)
    try:
        parameters = inspect.signature(workers).parameters.values()
    except (TypeError, ValueError):  # a builtin without signature
        return isinstance(workers, functools.partial)
    return all(p.default is not p.empty or p.kind is p.VAR_KEYWORD for p in parameters)


def end(executor: Any) -> None:
    """End an executor at once: evaluations that may take hours are not waited for."""
    processes = list((getattr(executor, "_processes", None) or {}).values())
    known = inspect.signature(executor.shutdown).parameters
    executor.shutdown(wait=False, **{name: True for name in ("cancel_futures", "kill_workers") if name in known})
    for process in processes:
        process.terminate()
