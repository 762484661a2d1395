"""Speed of adaptive searches in batches: the numba engine, NumPy's, and CMA-ES of fcmaes (C++) and pycma.

Each search goes on until it has reached 1e-8 or spent 10,000 evaluations for each unknown. The objective is compiled by
numba for all; NumPy's engine gets whole generations of points, the others one point at a time. CMA-ES is started again
with twice the population when it stops (IPOP), or by pycma's own rule (BIPOP). All take turns in one process, run by
run, so that times of the same machine in the same state are compared. Times are CPU times of one thread.
``ARGS="4 rosenbrock rastrigin"`` gives each search four seconds on each of two problems.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import cma
import numba
import numpy as np
from fcmaes import cmaescpp
from scipy.optimize import Bounds

import paoswarm as ps
from paoswarm.engines import fast

TARGET, EACH = 1e-8, 10_000
LOW, HIGH = -4.0, 5.0
cosine = fast.cos


@numba.njit
def ellipsoid(x: np.ndarray) -> float:
    total = 0.0
    for j in range(len(x)):
        total += 10 ** (6 * j / (len(x) - 1)) * (x[j] - 0.7) ** 2
    return total


@numba.njit
def rosenbrock(x: np.ndarray) -> float:
    total = 0.0
    for j in range(len(x) - 1):
        total += 100 * (x[j + 1] - x[j] * x[j]) ** 2 + (1 - x[j]) ** 2
    return total


@numba.njit
def rastrigin(x: np.ndarray) -> float:
    total = 0.0
    for j in range(len(x)):
        total += x[j] * x[j] - 10 * cosine(2 * math.pi * x[j]) + 10
    return total


@cache
def rows(fun: Callable[[np.ndarray], float]) -> Callable[[np.ndarray], np.ndarray]:
    @numba.njit
    def values(x: np.ndarray) -> np.ndarray:
        found = np.empty(len(x))
        for i in range(len(x)):
            found[i] = fun(x[i])
        return found

    return values


class Done(Exception):
    """The target is reached, or the budget is spent."""


class Counted:
    """An objective that counts, and stops a search that is done."""

    def __init__(self, fun: Callable[[np.ndarray], float], budget: int) -> None:
        self.fun, self.budget, self.count, self.best = fun, budget, 0, math.inf

    def __call__(self, x: np.ndarray) -> float:
        """The value at a point."""
        if self.best <= TARGET or self.count >= self.budget:
            raise Done
        self.count += 1
        value = self.fun(np.asarray(x))
        self.best = min(self.best, value)
        return value


def ours(engine: object, together: int, model: bool = True) -> Callable[..., tuple[int, int, int]]:
    def search(fun, d, first):
        several = max(1, together // d)
        batch = rows(fun) if engine == "numpy" else fun
        many = ps.minimize_many(
            batch, [(LOW, HIGH)] * d, runs=several, target=TARGET, maxfev=EACH * d, tol=0, engine=engine,
            vectorized=engine == "numpy", rng=first, method=ps.AdaptivePAO(model=model),
        )  # fmt: skip
        return several, int(many.nfev.sum()), int((many.fun <= TARGET).sum())

    return search


def fcmaes(fun, d, first):
    """IPOP-CMA-ES with the C++ code of fcmaes; it stops by itself at the target."""
    rng, population, spent, best = np.random.default_rng(first), 4 + int(3 * math.log(d)), 0, math.inf
    while spent < EACH * d and best > TARGET:
        result = cmaescpp.minimize(
            fun, Bounds([LOW] * d, [HIGH] * d), x0=rng.uniform(LOW, HIGH, d), input_sigma=0.2, popsize=population,
            max_evaluations=EACH * d - spent, stop_fitness=TARGET, rg=rng,
        )  # fmt: skip
        spent, best, population = spent + int(result.nfev), min(best, float(result.fun)), 2 * population
    return 1, spent, int(best <= TARGET)


def pycma(fun, d, first):
    """BIPOP-CMA-ES of pycma."""
    counted, rng = Counted(lambda u: fun(LOW + u * (HIGH - LOW)), EACH * d), np.random.default_rng(first)
    options = {"verbose": -9, "bounds": [0, 1], "maxfevals": np.inf, "maxiter": np.inf, "seed": first + 1}
    try:
        while True:
            cma.fmin2(counted, lambda: rng.uniform(0.1, 0.9, d), 0.2, options, restarts=9, bipop=True)
    except Done:
        return 1, counted.count, int(counted.best <= TARGET)


class Tally(NamedTuple):
    """What the runs of one search have come to."""

    runs: int = 0
    evaluations: int = 0
    solved: int = 0
    seconds: float = 0.0


def main() -> None:
    allowed = float(sys.argv[1]) if len(sys.argv) > 1 else 10.0
    searches = {
        "numba": ours(ps.engines.Numba(threads=1), 100),
        "numba, no model": ours(ps.engines.Numba(threads=1), 100, model=False),
        "numpy": ours("numpy", 1),
        "fcmaes": fcmaes,
        "pycma": pycma,
    }
    print("| problem | unknowns | search | runs | solved | evaluations / solved run | ms / run | us / evaluation |")
    print("|---|---|---|---|---|---|---|---|")
    for fun in (ellipsoid, rosenbrock, rastrigin):
        if sys.argv[2:] and fun.__name__ not in sys.argv[2:]:
            continue
        for d in (2, 5, 10, 20):
            for search in searches.values():  # compile everything before any clock starts
                search(fun, d, 10**6)
            tallies = dict.fromkeys(searches, Tally())
            for number in range(400):
                for name, search in searches.items():
                    one = tallies[name]
                    if one.seconds < allowed:
                        began = time.process_time()
                        runs, evaluations, solved = search(fun, d, number)
                        seconds = time.process_time() - began
                        tallies[name] = Tally(*map(sum, zip(one, (runs, evaluations, solved, seconds), strict=True)))
            for name, one in tallies.items():
                each = f"{one.evaluations / one.solved:.0f}" if one.solved else ""
                times = f"{1e3 * one.seconds / one.runs:.2f} | {1e6 * one.seconds / one.evaluations:.2f}"
                solved = f"{100 * one.solved / one.runs:.0f} %"
                print(f"| {fun.__name__} | {d} | {name} | {one.runs} | {solved} | {each} | {times} |", flush=True)


if __name__ == "__main__":
    main()
