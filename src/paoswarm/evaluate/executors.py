"""Turn the argument ``workers=`` into an engine: a number, an executor, a Dask client, or a function that makes one."""

from __future__ import annotations

import inspect
import math
import os
import signal
import time
import uuid
from collections.abc import Callable, Collection
from concurrent import futures
from concurrent.futures import Executor, Future
from contextlib import ExitStack, suppress
from queue import Empty, SimpleQueue
from typing import Any

from paoswarm._text import text_of
from paoswarm.core.arrays import Floats
from paoswarm.evaluate import worker
from paoswarm.evaluate.call_options import check_workers, is_client, is_executor, makes_executor, size_of, threads_of
from paoswarm.evaluate.calls import Objective, dump
from paoswarm.evaluate.engines import PATIENCE, POLL_SECONDS, EngineDown, ProcessEngine, WorkerPool
from paoswarm.evaluate.interrupts import interruptible

_CUT_OFF = "the connection to the workers is closed: their scheduler has ended or cannot be reached, or you closed it"
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
        self.retries_lost_tasks = getattr(executor, "retries_lost_tasks", False)  # `RayExecutor` does
        self._has_accepted_work = False
        self._counted: tuple[float, int | None] = (-math.inf, None)  # time of counting, number of slots
        self._ended: SimpleQueue[Future[Any]] = SimpleQueue()

    @property
    def longest(self) -> float | None:
        """Seconds in which the worker has made all attempts, and started a process for them."""
        limit, retries = self._policy
        return None if limit is None else (retries + 1) * limit + PATIENCE

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
        future.add_done_callback(self._ended.put)
        return future

    def wait(self, pending: Collection[Future[Any]], timeout: float | None) -> set[Future[Any]]:
        """Wait until a task ends, and look from time to time: an executor may be silent about cancelled ones."""
        until = math.inf if timeout is None else time.monotonic() + timeout
        while True:
            done = {future for future in pending if future.done()}
            left = min(POLL_SECONDS, until - time.monotonic())
            if done or left <= 0:
                return done
            if self.is_cut_off:
                raise EngineDown(_CUT_OFF)
            with suppress(Empty), interruptible():
                self._ended.get(timeout=left)

    @property
    def is_cut_off(self) -> bool:
        """Whether the workers cannot be reached any more, and pending tasks would never end."""
        return False

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

    may_fail_innocent_tasks = True  # Dask counts every worker that died with the task in its queue, if only waiting

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
        self.retries_lost_tasks = True  # up to ``distributed.scheduler.allowed-failures`` times
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
            raise EngineDown(_CUT_OFF)
        return super().submit(x, with_function=with_function)

    @property
    def is_cut_off(self) -> bool:
        """Whether the client is closed; Dask then leaves its futures pending for ever."""
        return self._client.status in ("closing", "closed")

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


def make_one(make: Callable[[], Any]) -> Any:
    """Call the user's function and check that it returns an executor or a Dask client."""
    made = make()
    if not is_executor(made):
        raise TypeError(f"workers is a function that makes {made!r}: it must make an executor or a Dask Client")
    return made


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
        with suppress(ProcessLookupError, AttributeError):  # Windows has no such signal
            os.kill(process.pid, signal.SIGCONT)  # one that is frozen ends when it goes on
    if wait and thread is not None:
        thread.join(10.0)


class RayExecutor(Executor):
    """Run evaluations as tasks of a Ray cluster; for ``workers=``.

    It has the interface of `concurrent.futures.Executor`. Connect first, with ``ray.init()`` or
    ``ray.init(address="auto")``. The cluster stays open afterwards.

    Parameters
    ----------
    **options
        Options of each task, as ``ray.remote`` takes them: ``num_cpus=4`` for an evaluation that uses four cores,
        ``num_gpus``, ``resources``, ``max_retries``, ``runtime_env``.
    """

    retries_lost_tasks = True  # three times, unless max_retries says otherwise

    def __init__(self, **options: Any) -> None:
        try:
            import ray
        except ImportError:
            raise ImportError("RayExecutor needs Ray: pip install 'paoswarm[ray]'") from None
        if not ray.is_initialized():
            raise ValueError("there is no connection to a Ray cluster: call ray.init() first")
        self._ray: Any = ray
        self._options = options
        self._remote_functions: dict[Any, Any] = {}  # by the function that was submitted
        self._running: dict[Future[Any], Any] = {}  # keeps the tasks alive: a future does not
        self._is_closed = False

    @property
    def slots(self) -> int:
        """Number of tasks that fit on the cluster at present."""
        if not self._ray.is_initialized():
            return 1
        needed = {"CPU": self._options.get("num_cpus", 1), "GPU": self._options.get("num_gpus", 0)}
        needed |= self._options.get("resources", {})
        available = self._ray.cluster_resources()
        return max(1, min((int(available.get(name, 0) // n) for name, n in needed.items() if n), default=1))

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Send a task."""
        if self._is_closed or not self._ray.is_initialized():
            raise RuntimeError("cannot schedule new futures: the connection to Ray is closed")
        if fn not in self._remote_functions:
            remote = self._ray.remote(**self._options)(fn) if self._options else self._ray.remote(fn)
            self._remote_functions[fn] = remote
        task = self._remote_functions[fn].remote(*args, **kwargs)
        future: Future[Any] = task.future()
        self._running[future] = task
        future.add_done_callback(lambda done: self._running.pop(done, None))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Accept no more tasks; ``cancel_futures`` also ends the running ones."""
        self._is_closed = True
        running = dict(self._running)
        if cancel_futures:
            for task in running.values():
                self._ray.cancel(task, force=True)
        if wait:
            futures.wait(running)
