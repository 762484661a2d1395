"""Overhead of each kind of workers: time per evaluation, and how much of it `minimize` adds.

The baseline is a bare loop that submits the same points one by one and keeps as many
running. `minimize` also moves a swarm and handles faults. Times are wall-clock times, best of several rounds. Kinds
that are not installed are skipped. All traffic stays on this machine, but Ray listens on all interfaces, so it is only
included with ``--ray``.
"""

from __future__ import annotations

import argparse
import logging
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, ProcessPoolExecutor, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Any

import numpy as np

import paoswarm as ps

D, N, GENERATIONS, ROUNDS, WORKERS = 10, 100, 9, 3, 2
BOUNDS = [(-5.0, 5.0)] * D


def first_element(x: np.ndarray) -> float:
    return float(x[0])


def own_loop(executor: Executor) -> Callable[[], None]:
    points = np.random.default_rng(1).uniform(-5, 5, (N * (GENERATIONS + 1), D))

    def loop() -> None:
        pending: set[Any] = set()
        for x in points:
            if len(pending) == WORKERS:
                pending = wait(pending, return_when=FIRST_COMPLETED).not_done
            pending.add(executor.submit(first_element, x))
        wait(pending)

    return loop


def ours(workers: Any, asynchronous: bool) -> Callable[[], None]:
    how = {"workers": ps.Workers(workers, asynchronous=asynchronous)}
    how |= {"n_particles": N, "maxiter": GENERATIONS, "tol": 0.0, "rng": 1}
    return lambda: ps.minimize(first_element, BOUNDS, **how)


def each(call: Callable[[], None]) -> float:
    """Milliseconds for one evaluation."""
    call()  # starts the workers and sends the function
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return 1e3 * min(times) / (N * (GENERATIONS + 1))


@contextmanager
def dask() -> Iterator[tuple[Any, Any]]:
    from distributed import Client, LocalCluster

    local = {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0", "local_directory": tempfile.mkdtemp()}
    with (
        LocalCluster(n_workers=WORKERS, threads_per_worker=1, silence_logs=logging.CRITICAL, **local) as cluster,
        Client(cluster) as client,
    ):
        yield client.get_executor(pure=False), client


@contextmanager
def loky() -> Iterator[tuple[Any, Any]]:
    from loky import get_reusable_executor

    executor = get_reusable_executor(WORKERS)
    yield executor, executor
    executor.shutdown(kill_workers=True)


@contextmanager
def ray() -> Iterator[tuple[Any, Any]]:
    import ray

    ray.init(num_cpus=WORKERS, include_dashboard=False, _node_ip_address="127.0.0.1", log_to_driver=False)
    executor = ps.RayExecutor()
    yield executor, executor
    ray.shutdown()


@contextmanager
def threads() -> Iterator[tuple[Any, Any]]:
    with ThreadPoolExecutor(WORKERS) as executor:
        yield executor, executor


@contextmanager
def processes() -> Iterator[tuple[Any, Any]]:
    with ProcessPoolExecutor(WORKERS) as executor:
        yield executor, executor


@contextmanager
def our_processes() -> Iterator[tuple[Any, Any]]:
    with ProcessPoolExecutor(WORKERS) as executor:  # for the baseline
        yield executor, WORKERS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ray", action="store_true", help="include Ray, which listens on all interfaces")
    kinds = [our_processes, threads, processes, loky, dask, *([ray] if parser.parse_args().ray else [])]
    print(f"milliseconds for an evaluation that takes no time, {WORKERS} workers, {D} dimensions, {N} particles\n")
    heads = ("bare loop", "asynchronous", "our part", "in generations")
    print(f"{'':<16}" + "".join(f"{head:>16}" for head in heads))
    for kind in kinds:
        try:
            with kind() as (executor, workers):
                own = each(own_loop(executor))
                single, generations = each(ours(workers, True)), each(ours(workers, False))
        except ImportError as error:
            print(f"{kind.__name__.replace('_', ' '):<16} skipped: {error}")
            continue
        numbers = (own, single, single - own, generations)
        print(f"{kind.__name__.replace('_', ' '):<16}" + "".join(f"{number:>16.3f}" for number in numbers), flush=True)


if __name__ == "__main__":
    main()
