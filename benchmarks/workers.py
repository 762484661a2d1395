"""How much sooner `AdaptivePAO` reaches a target with more workers.

Run with ``python benchmarks/workers.py`` (two minutes on one core). A round is the time of one evaluation: W workers
make up to W of them. Columns have the rounds until the target, and in brackets the evaluations relative to one worker.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

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

    def solve(self, **more: Any) -> ps.results.Result:
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


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=9, help="runs per cell")
    rounds(parser.parse_args().seeds)
