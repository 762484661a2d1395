"""Speed of the numba engine: 8-D Rastrigin, 100 runs of 100 particles and 100 generations, whole calls.

All take turns inside one process, so that each ratio compares times measured shortly after one another; the smallest
time of all rounds counts. CPU times compare code on a busy machine. Times on the clock show what threads gain, if
there are free cores. Run with ``make bench NAME=compiled``, or ``make bench NAME=compiled ARGS=20`` for so many rounds.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable

import numba
import numpy as np
import pygmo
import pyswarms

import paoswarm as ps
from paoswarm.engines import fast

N, D, GENERATIONS, RUNS, ROUNDS = 100, 8, 100, 100, 10
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


def pyswarms_pso() -> None:
    options = {"c1": 0.5, "c2": 0.3, "w": 0.9}
    for _ in range(RUNS):
        swarm = pyswarms.single.GlobalBestPSO(N, D, options, (np.full(D, -5.12), np.full(D, 5.12)))
        swarm.optimize(rows, GENERATIONS, verbose=False)


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    calls = {"pygmo PSO": pygmo_pso, "pyswarms PSO": pyswarms_pso, "numpy": ours(rows, "numpy", vectorized=True)}
    for precision in ("double", "single"):
        for threads in (1, 2):
            name = f"numba, {precision}, {threads} thread{'s' if threads > 1 else ''}"
            calls[name] = ours(rastrigin, ps.engines.Numba(precision, threads=threads))
    calls["numba, double, 1 thread, math.cos"] = ours(with_the_library, ps.engines.Numba(threads=1))
    best = {name: np.full(2, math.inf) for name in calls}
    for call in calls.values():
        call()
    for _ in range(rounds):
        for name, call in calls.items():
            began = np.array([time.process_time(), time.perf_counter()])
            call()
            took = np.array([time.process_time(), time.perf_counter()]) - began
            best[name] = np.minimum(best[name], took)
    first = best["pygmo PSO"]
    print(f"{'':34} {'CPU s':>8} {'ratio':>6} {'clock s':>8} {'ratio':>6}")
    for name, seconds in best.items():
        cpu, clock = first / seconds
        print(f"{name:34} {seconds[0]:8.4f} {cpu:6.2f} {seconds[1]:8.4f} {clock:6.2f}")


if __name__ == "__main__":
    main()
