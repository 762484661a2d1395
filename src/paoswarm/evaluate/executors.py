"""Turn the argument ``workers=`` into an engine: a number, an executor, a Dask client, or a function that makes one."""

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

from paoswarm._text import text_of
from paoswarm.core.arrays import Floats
from paoswarm.evaluate import worker
from paoswarm.evaluate.calls import Objective
from paoswarm.evaluate.engines import CUT_OFF, EngineDown, ProcessEngine, WorkerPool
from paoswarm.evaluate.pickling import dump

_SLOTS_VALID_SECONDS = 1.0  # how long a count of the slots of a cluster is used


class ExecutorEngine(WorkerPool):
    """Evaluates points on an executor of the user, or on one that the user's function makes.

    Anything with the interface of `concurrent.futures.Executor` will do. Only ``submit`` is used, because ``map`` loses
    good results at the first exception.
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
        self._policy = policy
        self._vectorized = vectorized
        self._fun = fun
        self._pickled: bytes | None = None
        self._key = uuid.uuid4().hex
        worker.remember(self._key, fun, None)
        self._executor = executor
        self._has_accepted_work = False
        self._counted: tuple[float, int | None] = (-math.inf, None)  # time of counting, number of slots

    @property
    def slots(self) -> int | None:
        """Number of tasks that can run at once, counted a moment ago: asking a cluster takes time."""
        when, count = self._counted
        if time.monotonic() > when + _SLOTS_VALID_SECONDS:
            count = self._count_slots()
            self._counted = time.monotonic(), count
        return count

    def _count_slots(self) -> int | None:
        return size_of(self._executor)

    @property
    def retries_lost_tasks(self) -> bool:
        """True for `RayExecutor`."""
        return getattr(self._executor, "retries_lost_tasks", False)

    def submit(self, x: Floats, *, with_function: bool = False) -> Future[Any]:
        """Send a task."""
        if with_function and self._pickled is None:
            self._pickled = dump(self._fun)
        pickled = self._pickled if with_function else None
        task = worker.Task(self._key, x, self._vectorized, self._policy, pickled)
        try:
            future: Future[Any] = self._executor.submit(worker.evaluate, task)
        except futures.BrokenExecutor:
            raise
        except Exception as error:
            if self._has_accepted_work:
                raise EngineDown(f"the executor does not accept work any more: {text_of(error)}") from error
            raise ValueError(
                f"workers is an executor that accepts no work ({text_of(error)}): make a new one"
            ) from error
        self._has_accepted_work = True
        return future

    def restart(self) -> bool:
        """Make a new executor, if ``workers`` is a function that makes one."""
        if self._make is None:
            return False
        end(self._executor, wait=True)  # its threads must be gone before the new one forks
        self._executor = make_one(self._make)
        return True

    def close(self, pending: Collection[Future[Any]]) -> None:
        """End the executor if it was made here; otherwise cancel the tasks that have not started."""
        worker.forget(self._key)
        if self._make is not None:
            end(self._executor)
        else:
            self.give_up(pending)


class DaskEngine(ExecutorEngine):
    """Evaluates points on a Dask cluster, through its `Client`."""

    def __init__(
        self, client: Any, made_here: bool, fun: Objective, vectorized: bool, policy: worker.RetryPolicy
    ) -> None:
        import dask

        if client.status != "running":
            raise ValueError(f"workers is a Dask Client whose status is {client.status}: connect a new one")
        self._client, self._made_here = client, made_here
        if not self._count_slots():
            raise ValueError(
                "workers is a Dask Client without workers: scale its cluster, or call client.wait_for_workers(1) first"
            )
        # pure=False: otherwise Dask evaluates a point only once when it should be measured twice.
        super().__init__(client.get_executor(pure=False), None, fun, vectorized, policy)
        self._settings = ExitStack()
        if type(getattr(client, "cluster", None)).__name__ == "LocalCluster":
            # A LocalCluster restarts dead workers, but drops one for good that is not back within this time. Clusters
            # that start jobs must drop theirs, because only then do they start new jobs.
            self._settings.enter_context(dask.config.set({"distributed.deploy.lost-worker-timeout": "1 hour"}))

    def _count_slots(self) -> int:
        return threads_of(self._client)

    def submit(self, x: Floats, *, with_function: bool = False) -> Future[Any]:
        """Send a task."""
        if self.is_cut_off:
            raise EngineDown(CUT_OFF)
        return super().submit(x, with_function=with_function)

    @property
    def is_cut_off(self) -> bool:
        """Whether the client is closed; Dask then leaves its futures pending for ever."""
        return self._client.status in ("closing", "closed")

    @property
    def retries_lost_tasks(self) -> bool:
        """True: up to ``distributed.scheduler.allowed-failures`` times."""
        return True

    @property
    def may_fail_innocent_tasks(self) -> bool:
        """True: Dask counts every worker that died with the task in its queue, even if the task was only waiting."""
        return True

    def close(self, pending: Collection[Future[Any]]) -> None:
        """Give up pending tasks; the client stays open, unless it was made here."""
        super().close(pending)
        self._settings.close()
        if self._client.status == "running":
            self._executor.shutdown(wait=False)
            if self._made_here:
                self._client.close()


def open_engine(workers: Any, fun: Objective, vectorized: bool, policy: worker.RetryPolicy) -> WorkerPool | None:
    """Return the engine for ``workers``; None for one worker without a time limit, and for a map-like."""
    if isinstance(workers, WorkerPool):
        return workers
    make = workers if not is_executor(workers) and callable(workers) and makes_executor(workers) else None
    executor = workers if make is None else make_one(make)
    if is_client(executor):
        return DaskEngine(executor, make is not None, fun, vectorized, policy)
    if is_executor(executor):
        return ExecutorEngine(executor, make, fun, vectorized, policy)
    if callable(workers):
        return None
    check_workers(workers)
    count = os.cpu_count() or 1 if workers == -1 else int(workers)
    if count == 1 and policy.limit is None:
        return None
    return ProcessEngine(count, fun, vectorized, policy.limit)


def check_workers(workers: Any) -> None:
    """Raise unless these can be workers."""
    if isinstance(workers, WorkerPool) or callable(workers) or is_client(workers) or is_executor(workers):
        return
    if isinstance(workers, bool) or not isinstance(workers, numbers.Integral) or (workers < 1 and workers != -1):
        raise ValueError(
            "workers must be a number of processes (at least 1, or -1 for one per core), an executor, a Dask Client, a "
            f"function that makes one of these, or a callable like map, got {workers!r}"
        )


def count_workers(workers: Any) -> int:
    """How many points ``workers`` can evaluate at once; 1 if that is not known before they are used."""
    count: int | None = None
    if is_client(workers):
        count = threads_of(workers)
    elif isinstance(workers, numbers.Integral):
        count = os.cpu_count() if workers == -1 else int(workers)
    else:
        count = size_of(workers)
    return max(1, count or 1)


def size_of(executor: Any) -> int | None:
    """The number of workers of an executor or a map-like, for which there are different names; None if unknown."""
    for name in ("slots", "num_workers", "_max_workers"):
        count = getattr(executor, name, None)
        if isinstance(count, int) and count > 0:
            return count
    return None


def threads_of(client: Any) -> int:
    """The threads of all Dask workers, or those that an adaptive cluster may start if that is more."""
    if client.status != "running":  # it is connecting again, or `submit` reports it
        return 1
    try:
        threads = sum(client.nthreads().values())
    except OSError:  # the scheduler is gone
        return 1
    adaptive = getattr(getattr(client, "cluster", None), "_adaptive", None)
    maximum = getattr(adaptive, "maximum", 0)
    return max(threads, int(maximum) if 0 < maximum < 10_000 else 0)


def make_one(make: Callable[[], Any]) -> Any:
    """Call the user's function and check that it returns an executor or a Dask client."""
    made = make()
    if not is_executor(made):
        raise TypeError(f"workers is a function that makes {made!r}: it must make an executor or a Dask Client")
    return made


def is_client(workers: Any) -> bool:
    """Whether ``workers`` is a Dask client."""
    return type(workers).__module__.startswith("distributed") and hasattr(workers, "get_executor")


def is_executor(workers: Any) -> bool:
    """Whether ``workers`` has the interface of `concurrent.futures.Executor`."""
    return isinstance(workers, futures.Executor) or (hasattr(workers, "submit") and not isinstance(workers, type))


def makes_executor(workers: Any) -> bool:
    """Whether ``workers`` is a function without arguments that makes an executor, rather than a map-like."""
    if isinstance(workers, type):
        return issubclass(workers, futures.Executor)
    try:
        parameters = inspect.signature(workers).parameters.values()
    except (TypeError, ValueError):  # a builtin without a signature
        return isinstance(workers, functools.partial)
    return all(p.default is not p.empty or p.kind is p.VAR_KEYWORD for p in parameters)


def end(executor: Any, wait: bool = False) -> None:
    """End an executor or a Dask client at once, without waiting for evaluations that may take hours."""
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
