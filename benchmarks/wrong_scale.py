"""How often `sample` points out a likelihood or a wrong sign, and how often it doubts a log likelihood.

Run: python benchmarks/wrong_scale.py
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import modes
import numpy as np
import posterior_problems

from paoswarm.sampling.read_prior import read_prior
from paoswarm.sampling.target import looks_like_likelihood, looks_like_negative_log_likelihood

RUNS = 60  # random posteriors of each family
FAMILIES = ("normal", "bent", "tails")


def verdicts(log_likelihood: Callable[[np.ndarray], np.ndarray], prior: Any, seed: int) -> list[bool]:
    """Whether the log likelihood is doubted, and whether its exponential and its negative are recognised."""
    law = read_prior(prior)
    z = law.draw(1000 * min(law.dim, 10), np.random.default_rng(seed))
    with np.errstate(all="ignore"):
        right = log_likelihood(law.parameters(z))
    known = np.isfinite(right) & (right > -1e100)
    z, right = z[known], right[known]
    return [
        looks_like_likelihood(right) or looks_like_negative_log_likelihood(z, right),
        looks_like_likelihood(np.exp(right)),
        looks_like_negative_log_likelihood(z, -right),
    ]


def main() -> None:
    """Print the counts for the posteriors of the benchmarks, and for random ones with several modes."""
    problems = [posterior_problems.load(n) for n in (*posterior_problems.IN_SAMPLE, *posterior_problems.HELD_OUT)]
    found = {"benchmarks": [verdicts(p.log_likelihood, p.prior, 0) for p in problems]}
    for family in FAMILIES:
        posed = [modes.pose(family, np.random.default_rng(seed)) for seed in range(RUNS)]
        found[family] = [
            verdicts(
                lambda x, parts=one.log_parts: np.logaddexp.reduce(parts(x), axis=1),
                [(-modes.HALF, modes.HALF)] * one.dim,
                seed,
            )
            for seed, one in enumerate(posed)
        ]
    for name, rows in found.items():
        doubted, likelihood, sign = np.sum(rows, axis=0)
        print(f"{name}: of {len(rows)}, doubted {doubted}; recognised: likelihood {likelihood}, wrong sign {sign}")


if __name__ == "__main__":
    main()
