"""Speed of the numba engine: 8-D Rastrigin, 100 runs of 100 particles and 100 generations.

All take turns inside one process, so that each ratio compares times measured shortly after one another. Times of one
thread are CPU times; those of two threads are times on the clock. Run with ``make bench-compiled``.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import numba
import numpy as np
import pygmo

import paoswarm as ps
from paoswarm.compiled import fast

N, D, GENERATIONS, RUNS, ROUNDS = 100, 8, 100, 100, 5
BOX = [(-5.12, 5.12)] * D
cosine = fast.cos


@numba.njit
def rastrigin(x: np.ndarray) -> float:
    total = 0.0
    for j in range(len(x)):
        total += x[j] * x[j] - 10 * cosine(2 * math.pi * x[j]) + 10
    return total


@numba.njit
def with_the_library(x: np.ndarray) -> float:
    total = 0.0
    for j in range(len(x)):
        total += x[j] * x[j] - 10 * math.cos(2 * math.pi * x[j]) + 10
    return total


def rows(x: np.ndarray) -> np.ndarray:
    return (x * x - 10 * np.cos(2 * np.pi * x) + 10).sum(axis=-1)


def ours(fun: Callable[..., object], engine: object, **options: object) -> Callable[[], object]:
    limits = {"n_particles": N, "maxiter": GENERATIONS, "tol": 0, "rng": 1, "runs": RUNS}
    return lambda: ps.minimize_many(fun, BOX, method="PAO", engine=engine, **limits, **options)


def pygmo_pso() -> None:
    for r in range(RUNS):
        population = pygmo.population(pygmo.problem(pygmo.rastrigin(D)), N, seed=r)
        pygmo.algorithm(pygmo.pso(gen=GENERATIONS, seed=r)).evolve(population)


def main() -> None:
    engine = ps.compiled.Numba
    one_core = {
        "pygmo PSO": pygmo_pso,
        "numpy": ours(rows, "numpy", vectorized=True),
        "numba": ours(rastrigin, engine(threads=1)),
        "numba, single precision": ours(rastrigin, engine("single", threads=1)),
        "numba, math.cos": ours(with_the_library, engine(threads=1)),
    }
    several = {f"numba, {k} threads": ours(rastrigin, engine(threads=k)) for k in (1, 2)}
    for clock, group in ((time.process_time, one_core), (time.perf_counter, several)):
        best = dict.fromkeys(group, math.inf)
        for call in group.values():
            call()
        for _ in range(ROUNDS):
            for name, call in group.items():
                began = clock()
                call()
                best[name] = min(best[name], clock() - began)
        first = next(iter(best.values()))
        for name, seconds in best.items():
            print(f"{name:28} {seconds:7.4f} s  {first / seconds:5.2f} times {next(iter(best))}")


if __name__ == "__main__":
    main()
