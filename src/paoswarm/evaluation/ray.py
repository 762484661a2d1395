"""Ray as an executor: it has none of its own."""

from __future__ import annotations

from concurrent.futures import Executor, Future
from concurrent.futures import wait as wait_for
from typing import Any


class RayExecutor(Executor):
    """Tasks of a Ray cluster with the interface of `concurrent.futures.Executor`, for ``workers=``.

    Connect first, with ``ray.init()`` or ``ray.init(address="auto")``; the cluster stays as it is afterwards.

    Parameters
    ----------
    **options
        Of each task, as ``ray.remote`` takes them: ``num_cpus=4`` for an evaluation that uses four cores, ``num_gpus``,
        ``resources``, ``max_retries``, ``runtime_env``.
    """

    tries_again = True  # a task that was lost with its worker, three times unless told otherwise

    def __init__(self, **options: Any) -> None:
        try:
            import ray
        except ImportError:
            raise ImportError("RayExecutor needs Ray: pip install 'paoswarm[ray]'") from None
        if not ray.is_initialized():
            raise ValueError("there is no connection to a Ray cluster: call ray.init() first")
        self._ray: Any = ray
        self._options = options
        self._tasks: dict[Any, Any] = {}  # the remote form of each function
        self._out: dict[Future[Any], Any] = {}  # a future does not keep its task alive
        self._is_closed = False

    @property
    def slots(self) -> int:
        """Tasks that fit the cluster at present."""
        if not self._ray.is_initialized():
            return 1
        each = {"CPU": self._options.get("num_cpus", 1), "GPU": self._options.get("num_gpus", 0)}
        each |= self._options.get("resources", {})
        there = self._ray.cluster_resources()
        return max(1, min((int(there.get(name, 0) // n) for name, n in each.items() if n), default=1))

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Send a task."""
        if self._is_closed or not self._ray.is_initialized():
            raise RuntimeError("cannot schedule new futures: the connection to Ray is closed")
        if fn not in self._tasks:
            self._tasks[fn] = self._ray.remote(**self._options)(fn) if self._options else self._ray.remote(fn)
        task = self._tasks[fn].remote(*args, **kwargs)
        future: Future[Any] = task.future()
        self._out[future] = task
        future.add_done_callback(lambda done: self._out.pop(done, None))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more tasks; ``cancel_futures`` ends those that are running as well."""
        self._is_closed = True
        out = dict(self._out)
        if cancel_futures:
            for task in out.values():
                self._ray.cancel(task, force=True)
        if wait:
            wait_for(out)
