"""Cost of a store: bytes per evaluation, time to append with and without fsync, time to resume.

Run with ``python benchmarks/storage.py [--evaluations 1000000] [--folder DIR]``. Resuming includes the steps of the
swarm; the same run without a store shows how long they take. Appending is measured in wall-clock time, because it waits
for the disk. All other times are CPU times.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import paoswarm as ps
from paoswarm.store.log import Reader
from paoswarm.store.store import Contents

D, N = 10, 100
BOUNDS = [(-5.12, 5.12)] * D


def rastrigin(x: np.ndarray) -> np.ndarray:
    return (x * x - 10.0 * np.cos(2 * np.pi * x) + 10.0).sum(axis=-1)


def forbidden(x: np.ndarray) -> np.ndarray:
    raise AssertionError("everything is recorded")


def seconds(
    fun: object,
    evaluations: int,
    store: ps.Store | None,
    vectorized: bool,
    clock: Callable[[], float] = time.process_time,
) -> float:
    start = clock()
    options = {"n_particles": N, "maxiter": None, "maxfev": evaluations, "tol": 0.0, "rng": 1}
    ps.minimize(fun, BOUNDS, vectorized=vectorized, store=store, **options)
    return clock() - start


def appending(folder: Path) -> None:
    print(f"{'appending, microseconds':<44} {'per evaluation':>14} {'per write':>10}")
    for vectorized, batch in ((True, N), (False, 1)):
        for fsync, count in (("never", 20_000), ("always", 20_000 if vectorized else 1_000)):
            store = ps.Store(folder / f"append-{batch}-{fsync}", fsync=fsync)
            plain, recorded = (seconds(rastrigin, count, to, vectorized, time.perf_counter) for to in (None, store))
            extra = recorded - plain
            each = 1e6 * extra / count
            print(f"{f'  {batch} per write, fsync={fsync}':<44} {each:>14.1f} {each * batch:>10.0f}")


def resuming(folder: Path, evaluations: int) -> None:
    for vectorized, batch in ((True, N), (False, 1)):
        store = ps.Store(folder / f"resume-{batch}", fsync="never")
        plain = seconds(rastrigin, evaluations, None, vectorized)
        first = seconds(rastrigin, evaluations, store, vectorized)
        size = Path(store.path).stat().st_size
        start = time.process_time()
        Contents.read(Reader(store.path))
        reading = time.process_time() - start
        again = seconds(forbidden, evaluations, store, vectorized)
        print(f"{evaluations} evaluations in {D}-D, {batch} per write: {size / evaluations:.0f} bytes each")
        print(f"  without a store {plain:.2f} s, recorded {first:.2f} s")
        print(f"  resumed {again:.2f} s, of which {reading:.2f} s reading the file")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--evaluations", type=int, default=1_000_000)
    parser.add_argument("--folder", help="where to write (default: the folder for temporary files)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        seconds(rastrigin, N, None, True)  # imports
        appending(Path(folder))
        resuming(Path(folder), options.evaluations)


if __name__ == "__main__":
    main()
