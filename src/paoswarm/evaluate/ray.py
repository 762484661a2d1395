"""An executor for Ray, which has none of its own."""

from __future__ import annotations

from concurrent.futures import Executor, Future
from concurrent.futures import wait as wait_for
from typing import Any


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
            wait_for(running)
