"""How far off `sample` is on problems with known evidence, and whether it knows.

The columns, over the seeds:

- likelihood evaluations,
- root mean square of the error of the log evidence, of the stated error, and of their ratio (one is honest, below one
  is cautious); runs that state no error are left out,
- effective draws,
- numbers of runs: all; right to 0.1; wrong, that is off by more than three stated errors; silent, that is wrong but
  claiming success; and withheld, that is without a stated error,
- processor time per evaluation, including the likelihood's.

The proposals and constants of `sample` were chosen on these problems, with other seeds; ``three6`` was not among them.
``peaks8`` to ``peaks32`` have 8 to 32 equal peaks because signs do not matter there. ``rastrigin3`` to ``schwefel8``
have hundreds to millions of peaks, few of which matter.
"""

from __future__ import annotations

import argparse
import math
import time

import numpy as np
from posterior_problems import IN_SAMPLE, PROBLEMS, Problem, box, load
from scipy import stats

import paoswarm as ps


def equal_peaks(x: np.ndarray) -> np.ndarray:
    """One peak in every orthant: the squares of the parameters are known to 5 %."""
    return stats.norm.logpdf(x**2, 1, 0.05).sum(axis=1)


def rastrigin(x: np.ndarray) -> np.ndarray:
    """Eleven peaks along every axis, on the slopes of a wide hill."""
    return -5 * ((x - 1.3) ** 2 + 10 * (1 - np.cos(2 * np.pi * (x - 1.3)))).sum(axis=1)


def schwefel(x: np.ndarray) -> np.ndarray:
    """Seven peaks along every axis, the highest near the wall and far from the next."""
    return 0.1 * (x * np.sin(np.sqrt(np.abs(x)))).sum(axis=1)


def separable(name: str) -> Problem:
    """A problem whose parameters are independent and alike, so that one quadrature gives the answer."""
    log_likelihood, half, dim = SEPARABLE[name]
    axis = np.linspace(-half, half, 400_001)
    log_density = log_likelihood(axis[:, None])
    weights = np.exp(log_density - log_density.max())
    mean = np.average(axis, weights=weights)
    sd = math.sqrt(np.average((axis - mean) ** 2, weights=weights))
    evidence = dim * (math.log(weights.mean()) + log_density.max())
    return Problem(name, log_likelihood, box(*[(-half, half)] * dim), evidence, np.full(dim, mean), np.full(dim, sd))


SEPARABLE = {
    **{f"peaks{2**dim}": (equal_peaks, 3.0, dim) for dim in (3, 4, 5)},
    **{f"rastrigin{dim}": (rastrigin, 5.12, dim) for dim in (3, 5, 8)},
    **{f"schwefel{dim}": (schwefel, 500.0, dim) for dim in (5, 8)},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--problems", nargs="+", choices=[*PROBLEMS, *SEPARABLE], default=[*IN_SAMPLE, *SEPARABLE])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=500)
    parser.add_argument("--particles", type=int, help="number of first draws; lifts the limit of 60,000 evaluations")
    options = parser.parse_args()
    maxfev = 60_000 if options.particles is None else None
    print(
        f"{'problem':<13}{'evaluations':>12}{'rms error':>11}{'stated':>9}{'ratio':>7}{'draws':>7}"
        f"{'runs':>6}{'right':>7}{'wrong':>7}{'silent':>8}{'withheld':>10}{'ms each':>9}"
    )
    for name in options.problems:
        problem = separable(name) if name in SEPARABLE else load(name)
        rows = []
        for seed in range(options.first_seed, options.first_seed + options.seeds):
            start = time.process_time()
            found = ps.sample(
                problem.log_likelihood,
                problem.prior,
                n_particles=options.particles,
                vectorized=True,
                maxfev=maxfev,
                rng=seed,
            )
            error, stated = found.log_evidence - problem.log_evidence, found.log_evidence_error
            spent = time.process_time() - start
            rows.append(
                (found.n_evaluations, error, stated, error / stated, found.effective_size, found.success, spent)
            )
        count, error, stated, ratio, draws, success, spent = np.array(rows).T
        withheld = ~(stated < np.inf)
        is_wrong = ~withheld & (np.abs(ratio) > 3)
        counts = [len(rows), *(int(each.sum()) for each in (np.abs(error) < 0.1, is_wrong, is_wrong & (success > 0)))]
        rms = [f"{math.sqrt(np.mean(a[~withheld] ** 2)):.4f}" if not withheld.all() else "-" for a in (error, stated)]
        honest = f"{math.sqrt(np.mean(ratio[~withheld] ** 2)):.2f}" if not withheld.all() else "-"
        print(
            f"{name:<13}{count.mean():>12.0f}{rms[0]:>11}{rms[1]:>9}{honest:>7}{draws.mean():>7.0f}"
            f"{counts[0]:>6}{counts[1]:>7}{counts[2]:>7}{counts[3]:>8}{withheld.sum():>10}"
            f"{1e3 * (spent / count).mean():>9.3f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
