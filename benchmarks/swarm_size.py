"""How many particles a budget deserves: the table of ``docs/hyperparameters.md`` on ``n_particles``.

It takes about three minutes. For each function, dimension and budget the loss of a swarm size is
the mean of log10 of the final error over runs, minus that of the best size. The table shows its mean over functions.
"""

from __future__ import annotations

import sys
import warnings

import numpy as np

import paoswarm as ps
from paoswarm import problems

NAMES = ["sphere-shifted", "rosenbrock-shifted", "ackley-shifted", "rastrigin-shifted-rotated"]
NAMES += ["griewank-shifted-rotated", *(f"bbob-f{number}" for number in (2, 6, 8, 10, 14, 15, 17, 20, 21))]
SIZES = (5, 10, 20, 50, 100)
RUNS = 9


def errors(name: str, dim: int, budget: int, size: int) -> float:
    """Mean log10 error of runs that spend the budget."""
    problem = problems.get(name, dim)
    problem = problem.instance(0) if hasattr(problem, "instance") else problem
    many = ps.minimize_many(
        problem,
        problem.bounds,
        method=ps.PAO(),
        runs=RUNS,
        n_particles=size,
        maxfev=budget,
        maxiter=None,
        tol=0,
        vectorized=True,
        rng=7,
    )
    return float(np.log10(np.maximum(many.fun - problem.minimum, 1e-12)).mean())


def main(dims: tuple[int, ...], budgets: tuple[int, ...]) -> None:
    warnings.simplefilter("ignore")  # most sizes leave few generations
    print("| unknowns | `maxfev` | " + " | ".join(map(str, SIZES)) + " | chosen |\n" + "|---" * (len(SIZES) + 3) + "|")
    for dim in dims:
        for budget in budgets:
            chosen = ps.PAO().default_particles(dim, budget, None)
            sizes = [*(size for size in SIZES if size <= budget), chosen]
            found = np.array([[errors(name, dim, budget, size) for size in sizes] for name in NAMES])
            loss = (found - found.min(axis=1, keepdims=True)).mean(axis=0)
            cells = [f"{value:.2f}" for value in loss[:-1]] + ["-"] * (len(SIZES) + 1 - len(sizes))
            print(f"| {dim} | {budget} | " + " | ".join(cells) + f" | {chosen}: {loss[-1]:.2f} |", flush=True)


if __name__ == "__main__":
    main(*(tuple(map(int, given.split(","))) for given in sys.argv[1:] or ("2,5,20", "100,500,2000")))
