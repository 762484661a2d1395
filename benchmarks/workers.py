"""How much sooner `AdaptivePAO` reaches a target with more workers, with generations and asynchronously.

Run with ``python benchmarks/workers.py`` (about ten minutes on one core). Workers are simulated, as in
`asynchronous.py`. First table: rounds of W evaluations until the target, medians. In brackets the evaluations that were
used, relative to one worker. Second table: time until the target if evaluation times are log-normal with mean 1.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from asynchronous import SimulatedWorkers, lognormal

import paoswarm as ps

Floats = np.ndarray


def sphere(x: Floats) -> Floats:
    return np.square(x - 0.3).sum(axis=-1)


def rosenbrock(x: Floats) -> Floats:
    return (100 * (x[..., 1:] - x[..., :-1] ** 2) ** 2 + (1 - x[..., :-1]) ** 2).sum(axis=-1)


def rastrigin(x: Floats) -> Floats:
    return (x**2 - 10 * np.cos(2 * np.pi * x) + 10).sum(axis=-1)


def roots(x: Floats) -> Floats:
    """Not smooth, so that the quadratic model is of no use."""
    return np.sqrt(np.abs(x - 0.3)).sum(axis=-1)


class Problem(NamedTuple):
    """A function with the value that counts as found."""

    fun: Callable[[Floats], Floats]
    d: int
    target: float = 1e-8

    @property
    def name(self) -> str:
        """The function with its number of unknowns."""
        return f"{self.fun.__name__}-{self.d}"

    def solve(self, **more: Any) -> ps.Result:
        """One run."""
        return ps.minimize(self.fun, [(-4.0, 5.0)] * self.d, target=self.target, maxfev=40_000 * self.d, **more)


PROBLEMS = [Problem(sphere, 5), Problem(rosenbrock, 5), Problem(rosenbrock, 10), Problem(rastrigin, 5)]
PROBLEMS += [Problem(roots, 5, 1e-3)]


def rounds(seeds: int) -> None:
    print(f"rounds until the target, medians of {seeds} runs (evaluations relative to one worker)")
    counts = (1, 4, 16, 64)
    print(f"{'':>15}" + "".join(f"{f'W = {count}':>15}" for count in counts))
    for problem in PROBLEMS:
        cells, alone = [], 1.0
        for count in counts:
            method = ps.AdaptivePAO(parallel=count)
            runs = [problem.solve(method=method, vectorized=True, rng=seed) for seed in range(seeds)]
            taken = [
                np.ceil(np.diff(run.history.nfev, prepend=0) / count).sum() if run.fun <= problem.target else np.inf
                for run in runs
            ]
            used = float(np.median([run.nfev for run in runs]))
            alone = used if count == 1 else alone
            cells.append(f"{np.median(taken):.0f} ({used / alone:.1f})")
        print(f"{problem.name:>15}" + "".join(f"{cell:>15}" for cell in cells), flush=True)


def times(seeds: int, count: int = 16) -> None:
    print(f"\ntime until the target with {count} workers, medians of {seeds} runs (share of the time they were busy)")
    print(f"{'':>15}{'sigma':>7}{'generations':>20}{'asynchronous':>20}")
    for problem in (PROBLEMS[1], PROBLEMS[3]):
        for sigma in (0.0, 0.5, 1.0):
            cells = []
            for asynchronous in (False, True):
                clocks, busy = [], []
                for seed in range(seeds):
                    chance = np.random.default_rng([seed, 7])
                    duration = lognormal(sigma)
                    engine = SimulatedWorkers(problem.fun, count, lambda x, c=chance, t=duration: t(c, x))
                    method = ps.AdaptivePAO(parallel=count)
                    found = problem.solve(method=method, workers=engine, asynchronous=asynchronous, rng=seed)
                    clocks.append(engine.clock if found.fun <= problem.target else np.inf)
                    busy.append(engine.busy / (count * engine.clock))
                cells.append(f"{np.median(clocks):.0f} ({np.mean(busy):.0%})")
            print(f"{problem.name:>15}{sigma:>7}" + "".join(f"{cell:>20}" for cell in cells), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=9, help="runs per cell")
    given = parser.parse_args().seeds
    rounds(given)
    times(max(3, given // 2))
