"""What ``workers=`` may be, and executors that are not ours as engines: of `concurrent.futures`, Dask, Ray, MPI."""

from __future__ import annotations

import functools
import inspect
import math
import numbers
import os
import time
import uuid
from collections.abc import Callable, Collection
from concurrent import futures
from concurrent.futures import Future
from contextlib import ExitStack
from typing import Any

from paoswarm.core.arrays import Floats
from paoswarm.evaluation import worker
from paoswarm.evaluation.calls import Objective
from paoswarm.evaluation.engines import Engine, EngineDown, Processes
from paoswarm.evaluation.pickling import dump

_COUNT_AGAIN = 1.0  # seconds until the slots of a cluster are counted again


class Foreign(Engine):
    """Anything with the interface of `concurrent.futures.Executor`, or a function without arguments that makes one.

    Of the interface only ``submit`` is used: ``map`` loses good results at the first exception.
    """

    def __init__(
        self,
        executor: Any,
        make: Callable[[], Any] | None,
        fun: Objective,
        vectorized: bool,
        policy: worker.RetryPolicy,
    ) -> None:
        self._make = make
        self._patience = policy
        self._vectorized = vectorized
        self._fun = fun
        self._blob: bytes | None = None
        self._key = uuid.uuid4().hex
        worker.keep(self._key, fun, None)
        self._executor = executor
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
        end(self._executor, wait=True)  # its threads must be gone before a new one may fork
        self._executor = make_one(self._make)
        return True

    def close(self, pending: Collection[Future[Any]]) -> None:
        """End the executor if it was made here; otherwise take back what it has not begun."""
        worker.forget(self._key)
        if self._make is not None:
            end(self._executor)
        else:
            self.give_up(pending)


class Dask(Foreign):
    """A Dask cluster through its `Client`."""

    def __init__(
        self, client: Any, is_ours: bool, fun: Objective, vectorized: bool, policy: worker.RetryPolicy
    ) -> None:
        import dask

        if client.status != "running":
            raise ValueError(f"workers is a Dask Client that is {client.status}: connect a new one")
        self._client, self._is_ours = client, is_ours
        if not self._count_slots():
            raise ValueError(
                "workers is a Dask Client without workers: scale its cluster, or wait with client.wait_for_workers(1)"
            )
        # pure=False: otherwise a point that is measured twice is evaluated once.
        super().__init__(client.get_executor(pure=False), None, fun, vectorized, policy)
        self._settings = ExitStack()
        if type(getattr(client, "cluster", None)).__name__ == "LocalCluster":
            # It drops a worker for good that happens to be restarting so long after it has died. Clusters that start
            # jobs must drop theirs, or they would not replace them.
            self._settings.enter_context(dask.config.set({"distributed.deploy.lost-worker-timeout": "1 hour"}))

    def _count_slots(self) -> int:
        """Threads of all workers at present, or as many as an adaptive cluster may start."""
        if self._client.status != "running":  # `submit` will say so
            return 1
        adaptive = getattr(getattr(self._client, "cluster", None), "_adaptive", None)
        most = getattr(adaptive, "maximum", 0)
        return max(sum(self._client.nthreads().values()), int(most) if 0 < most < 10_000 else 0)

    @property
    def tries_again(self) -> bool:
        """Up to ``distributed.scheduler.allowed-failures`` times."""
        return True

    @property
    def may_fail_innocent_tasks(self) -> bool:
        """It counts every worker that has died with the task in its queue."""
        return True

    def close(self, pending: Collection[Future[Any]]) -> None:
        """Give up what is still out; the client stays as it is, unless it was made here."""
        super().close(pending)
        self._settings.close()
        if self._client.status == "running":
            self._executor.shutdown(wait=False)
            if self._is_ours:
                self._client.close()


def open_engine(workers: Any, fun: Objective, vectorized: bool, policy: worker.RetryPolicy) -> Engine | None:
    """The engine for ``workers``; None for one worker without a time limit, and for a map-like."""
    if isinstance(workers, Engine):
        return workers
    make = workers if not is_executor(workers) and callable(workers) and makes_executor(workers) else None
    executor = workers if make is None else make_one(make)
    if is_client(executor):
        return Dask(executor, make is not None, fun, vectorized, policy)
    if is_executor(executor):
        return Foreign(executor, make, fun, vectorized, policy)
    if callable(workers):
        return None
    if isinstance(workers, bool) or not isinstance(workers, numbers.Integral) or (workers < 1 and workers != -1):
        raise ValueError(
            "workers must be a number of processes (-1: one per core), an executor, a Dask Client, a function that "
            f"makes one of these, or a map-like, got {workers!r}"
        )
    count = os.cpu_count() or 1 if workers == -1 else int(workers)
    if count == 1 and policy.limit is None:
        return None
    return Processes(count, fun, vectorized, policy.limit)


def make_one(make: Callable[[], Any]) -> Any:
    """What a user's function makes, checked."""
    made = make()
    if not is_executor(made):
        raise TypeError(f"workers is a function that makes {made!r}: it must make an executor or a Dask Client")
    return made


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


def end(executor: Any, wait: bool = False) -> None:
    """End an executor or a client at once: evaluations that may take hours are not waited for."""
    if is_client(executor):
        executor.close()
        return
    processes = list((getattr(executor, "_processes", None) or {}).values())
    thread = getattr(executor, "_executor_manager_thread", None)
    known = inspect.signature(executor.shutdown).parameters
    executor.shutdown(wait=False, **{name: True for name in ("cancel_futures", "kill_workers") if name in known})
    for process in processes:
        process.terminate()
    if wait and thread is not None:
        thread.join(10.0)
