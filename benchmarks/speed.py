"""Speed against freelunch's PAO and pygmo's C++ PSO: 8-D Rastrigin, 100 particles, 100 generations, one core.

`make bench` allows one thread. All optimisers take turns inside one process, so that each ratio
compares times measured shortly after one another. Times are CPU times. A ratio above one means faster than the peer.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import freelunch
import numpy as np
import pygmo

import paoswarm as ps

N, D, GENERATIONS, RUNS = 100, 8, 100, 100
BOUNDS = [(-5.12, 5.12)] * D


def rastrigin(x: np.ndarray) -> np.ndarray:
    return (x * x - 10.0 * np.cos(2 * np.pi * x) + 10.0).sum(axis=-1)


def many(method: ps.Method) -> Callable[[int], None]:
    def run(seed: int) -> None:
        ps.minimize_many(rastrigin, BOUNDS, runs=RUNS, method=method, vectorized=True, tol=0, rng=seed)

    return run


def single(seed: int) -> None:
    for r in range(10):
        ps.minimize(rastrigin, BOUNDS, method=ps.PAO(), vectorized=True, tol=0, rng=10 * seed + r)


def single_scalar(seed: int) -> None:
    ps.minimize(lambda x: float(rastrigin(x)), BOUNDS, method=ps.PAO(), tol=0, rng=seed)


def freelunch_pao(seed: int) -> None:
    np.random.seed(seed)  # noqa: NPY002 (freelunch takes no other seed)
    freelunch.PAO(obj=lambda x: float(rastrigin(x)), bounds=np.asarray(BOUNDS))(n_return=1, full_output=False)


def pygmo_pso(seed: int) -> None:
    problem = pygmo.problem(pygmo.rastrigin(D))
    for r in range(20):
        population = pygmo.population(problem, N, seed=20 * seed + r)
        pygmo.algorithm(pygmo.pso(gen=GENERATIONS, seed=20 * seed + r)).evolve(population)


# name -> (function, number of runs that one call makes)
ENGINES: dict[str, tuple[Callable[[int], None], int]] = {
    "paoswarm.minimize_many, vectorised": (many(ps.PAO()), RUNS),
    "paoswarm.minimize, vectorised": (single, 10),
    "paoswarm.minimize, one point at a time": (single_scalar, 1),
    "freelunch.PAO": (freelunch_pao, 1),
    "pygmo.pso (C++)": (pygmo_pso, 20),
    "paoswarm.minimize_many, PSO": (many(ps.classic.PSO()), RUNS),
    "paoswarm.minimize_many, QPSO": (many(ps.classic.QPSO()), RUNS),
    "paoswarm.minimize_many, DE": (many(ps.classic.DE()), RUNS),
    "paoswarm.minimize_many, SADE": (many(ps.classic.SADE()), RUNS),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args().rounds
    times: dict[str, list[float]] = {name: [] for name in ENGINES}
    for seed in range(-1, rounds):
        for name, (engine, runs) in ENGINES.items():
            start = time.process_time()
            engine(seed + 1)
            if seed >= 0:  # the first round warms up
                times[name].append((time.process_time() - start) / runs)
    print(f"{'engine':<42}{'ms per run':>12}{'vs freelunch':>14}{'vs pygmo':>10}   (medians of {rounds} rounds)")
    for name in ENGINES:

        def ratio(peer: str, name: str = name) -> float:
            return statistics.median(p / o for p, o in zip(times[peer], times[name], strict=True))

        per_run = 1e3 * statistics.median(times[name])
        print(f"{name:<42}{per_run:>12.2f}{ratio('freelunch.PAO'):>13.1f}x{ratio('pygmo.pso (C++)'):>9.2f}x")


if __name__ == "__main__":
    main()
