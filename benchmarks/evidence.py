"""Problems whose evidence is known: how far off is `sample`, and does it know.

Run with ``make bench-evidence``. For each problem, over the seeds: likelihood evaluations, root mean square error of
the log evidence, of the stated error, and of their ratio (one is honest, below one is cautious), effective draws, and
two counts of runs: wrong, that is off by more than three stated errors, and those that withheld an error (they are left
out of the first three); in the end processor time per evaluation, of which the likelihood's is a part. The proposals
and constants of `sample` were chosen on these problems (with other seeds); ``three6`` was not among them. ``peaks8`` to
``peaks32`` have so many equal peaks, since signs do not matter there; the search for modes was chosen on them.
"""

from __future__ import annotations

import argparse
import math
import time

import numpy as np
from posterior_problems import IN_SAMPLE, PROBLEMS, Problem, box, load
from scipy import stats

import paoswarm as ps


def equal_peaks(dim: int) -> Problem:
    """One peak in every orthant: the squares of the parameters are known to 5 %."""

    def log_likelihood(x: np.ndarray) -> np.ndarray:
        return stats.norm.logpdf(x**2, 1, 0.05).sum(axis=1)

    axis = np.linspace(-3, 3, 200_001)[:, None]
    density = np.exp(log_likelihood(axis))
    sd = math.sqrt(np.average(axis[:, 0] ** 2, weights=density))
    evidence = dim * math.log(density.mean())
    return Problem(f"peaks{2**dim}", log_likelihood, box(*[(-3, 3)] * dim), evidence, np.zeros(dim), np.full(dim, sd))


PEAKS = {f"peaks{2**dim}": dim for dim in (3, 4, 5)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--problems", nargs="+", choices=[*PROBLEMS, *PEAKS], default=[*IN_SAMPLE, *PEAKS])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=500)
    parser.add_argument("--particles", type=int, help="first draws, of which more than usual lift the limit of 60,000")
    options = parser.parse_args()
    maxfev = 60_000 if options.particles is None else None
    print(
        f"{'problem':<13}{'evaluations':>12}{'rms error':>11}{'stated':>9}{'ratio':>7}{'draws':>7}{'wrong':>9}"
        f"{'withheld':>12}{'ms each':>9}"
    )
    for name in options.problems:
        problem = equal_peaks(PEAKS[name]) if name in PEAKS else load(name)
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
            rows.append((found.n_evaluations, error, stated, error / stated, found.effective_size, spent))
        count, error, stated, ratio, draws, spent = np.array(rows).T
        withheld = ~(stated < np.inf)
        wrong = int(np.sum(np.abs(ratio[~withheld]) > 3))
        rms = [math.sqrt(np.mean(column[~withheld] ** 2)) for column in (error, stated, ratio)]
        print(
            f"{name:<13}{count.mean():>12.0f}{rms[0]:>11.4f}{rms[1]:>9.4f}{rms[2]:>7.2f}{draws.mean():>7.0f}"
            f"{wrong:>4} of {len(rows):<2}{withheld.sum():>7} of {len(rows):<2}{1e3 * (spent / count).mean():>9.3f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
