"""How the user's function is called: what `minimize`, `minimize_many`, `sample`, `fit` and `uncertainty` share."""

from __future__ import annotations

import functools
import inspect
import math
import numbers
import os
from concurrent import futures
from dataclasses import KW_ONLY, dataclass
from typing import Any, NamedTuple

import numpy as np

from paoswarm._checks import explains_arguments, flag, real_number, whole_number
from paoswarm.evaluate.engines import WorkerPool
from paoswarm.evaluate.worker import RetryPolicy
from paoswarm.store.store import RecordedRun

_ANSWERS = 5.0  # seconds in which a scheduler answers, or it is frozen


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
        threads = sum(client.nthreads(callback_timeout=_ANSWERS).values())
    except OSError:  # the scheduler is gone, or says nothing
        return 1
    adaptive = getattr(getattr(client, "cluster", None), "_adaptive", None)
    maximum = getattr(adaptive, "maximum", 0)
    return max(threads, int(maximum) if 0 < maximum < 10_000 else 0)


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


@explains_arguments("ps.Workers(8, timeout=60)")
@dataclass(frozen=True)
class Workers:
    """What evaluates points, and what becomes of slow and lost ones.

    It is given as ``workers`` wherever a number or an executor alone is not enough:
    ``minimize(fun, bounds, workers=ps.Workers(16, timeout=60, asynchronous=True))``.

    Parameters
    ----------
    workers : int, Executor, Dask Client, function that makes one, or map-like
        - a number of processes; -1 means one per core;
        - anything with the interface of `concurrent.futures.Executor`: threads, loky, MPI, `RayExecutor`;
        - a Dask ``Client``;
        - a function without arguments that makes one of these, so that a broken one can be replaced;
        - a callable like the builtin ``map``; a whole number ``slots`` on it says how many points it takes at once.
    timeout : float or None
        Seconds that one evaluation may take. After that it is killed, with all processes it has started, and counts as
        failed. Points are then evaluated one by one in a process that can be killed, even with ``vectorized=True``.
    retries : int
        How often to evaluate a point again if its process crashed, ran out of memory or was killed. After that the
        point counts as failed, and the run goes on.
    asynchronous : bool
        For `minimize` and `fit`: no worker waits for another. Every particle moves as soon as its own value is known;
        `AdaptivePAO` learns from the values that come back next, whichever generation they belong to. Use it if
        evaluations take seconds or more and not all the same time. A single swarm (`PAO`) needs at least twice as many
        particles as workers. The result depends on the order in which values arrive; a ``store`` records that order
        and repeats it.
        `SADE`, most methods of your own, and runs with constraints or ``reevaluate`` complete each generation first.

    Examples
    --------
    >>> import paoswarm as ps
    >>> found = ps.minimize(lambda x: (x**2).sum(), [(-5, 5)] * 2, workers=ps.Workers(asynchronous=True), rng=1)
    >>> found.success
    True
    """

    workers: Any = 1
    _: KW_ONLY
    timeout: float | None = None
    retries: int = 1
    asynchronous: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.workers, int | np.integer) and self.workers != -1:
            whole_number("workers", self.workers, 1)
        check_workers(self.workers)
        if self.timeout is not None:
            real_number("timeout", self.timeout, 0.0, may_equal=False)
        whole_number("retries", self.retries, 0)
        flag("asynchronous", self.asynchronous)

    @classmethod
    def of(cls, given: Any) -> Workers:
        """The workers that a user has given, described or as they are."""
        return given if isinstance(given, Workers) else cls(given)

    @classmethod
    def of_batches(cls, given: Any) -> Workers:
        """The same for functions that evaluate whole batches."""
        workers = cls.of(given)
        if workers.asynchronous:
            raise ValueError("asynchronous=True is for minimize and fit: everything else evaluates whole batches")
        return workers

    @classmethod
    def recorded(cls, run: RecordedRun) -> Workers:
        """Those of a stored run (`Store.run`); one process if that was an executor or a map-like."""
        entries = run.problem | run.how
        names = ("workers", "timeout", "retries", "asynchronous")
        return cls(**{name: entries[name] for name in names if entries.get(name) is not None})

    @property
    def count(self) -> int:
        """How many points can be evaluated at once; 1 if that is not known before they are used."""
        return count_workers(self.workers)

    @property
    def retry_policy(self) -> RetryPolicy:
        """The time limit and the retries of a point."""
        limit = None if self.timeout is None or self.timeout == math.inf else float(self.timeout)
        return RetryPolicy(limit, int(self.retries))


class CallOptions(NamedTuple):
    """How the function is called; see the arguments of the same names of `minimize`."""

    vectorized: bool = False
    workers: Workers = Workers()

    @property
    def described(self) -> dict[str, Any]:
        """These options as JSON, without an executor or a map-like: a resumed run must be given that again."""
        count = self.workers.workers
        limit, retries = self.workers.retry_policy
        workers = int(count) if isinstance(count, int | np.integer) else None
        return {"vectorized": bool(self.vectorized), "workers": workers, "timeout": limit, "retries": retries}
