"""Whether `sample` knows its error on posteriors with necks and bends: hierarchies, funnels, bananas.

The evidence of each is known by a formula or by a sum over a fine grid, and so is the distribution of its first
parameter, the one that sets the scale of the others in a hierarchy or a funnel. The columns, over the seeds:

- likelihood evaluations, and seconds of processor time,
- root mean square of the error of the log evidence over the stated error: one is honest. Runs that state no error are
  counted as withheld, and are left out,
- the same for the true probability below the 5 % quantile that the run reports of the first parameter, over the
  standard error of that probability from its effective draws,
- runs that say that they are a success although the evidence is off by more than three stated errors, or that
  probability by more than four standard errors (it is not a mean of independent draws).
"""

from __future__ import annotations

import argparse
import json
import math
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from posterior_problems import SCHOOLS, Likelihood, box
from scipy import stats
from scipy.special import logsumexp, ndtr
from verdict_problems import chain

import paoswarm as ps

LEVEL = 0.05  # the quantile of the first parameter that is looked at


class Problem(NamedTuple):
    """A log likelihood, a prior, the log evidence, and the distribution of the first parameter on a grid."""

    log_likelihood: Likelihood
    prior: list[Any]
    log_evidence: float
    grid: np.ndarray
    below: np.ndarray  # probability of a smaller first parameter


def of_grid(log_likelihood: Likelihood, prior: list[Any], grid: np.ndarray, log_weights: np.ndarray) -> Problem:
    """``log_weights``, at the points of the grid, add up to the evidence."""
    total = float(logsumexp(log_weights))
    weights = np.exp(log_weights - total)
    return Problem(log_likelihood, prior, total, grid, np.cumsum(weights) - 0.5 * weights)


def hierarchy(y: np.ndarray, error: np.ndarray, *, is_centred: bool, half: float = 100.0) -> Problem:
    """Group means around a common one: their spread ``tau``, the common mean, then means (centred) or deviates.

    Given tau all laws are normal, so one sum over tau is exact. A centred hierarchy has a box for the group means.
    """
    n = len(y)

    def centred(x: np.ndarray) -> np.ndarray:
        tau, mu, theta = x[:, :1], x[:, 1:2], x[:, 2:]
        return stats.norm.logpdf(y, theta, error).sum(axis=1) + stats.norm.logpdf(theta, mu, tau).sum(axis=1)

    def not_centred(x: np.ndarray) -> np.ndarray:
        return stats.norm.logpdf(y, x[:, 1:2] + x[:, :1] * x[:, 2:], error).sum(axis=1)

    u = (np.arange(200_000) + 0.5) / 200_000
    tau = stats.halfcauchy(scale=5).ppf(u)
    variance = error**2 + tau[:, None] ** 2  # of each y, given mu and tau
    precision = 1 / 25 + (1 / variance).sum(axis=1)
    centre = (y / variance).sum(axis=1) / precision
    square = (y**2 / variance).sum(axis=1) - centre**2 * precision
    log_f = -0.5 * (square + np.log(precision * 25) + np.log(2 * math.pi * variance).sum(axis=1)) - math.log(len(u))
    common = [stats.halfcauchy(scale=5), stats.norm(0, 5)]
    if not is_centred:
        return of_grid(not_centred, [*common, *[stats.norm(0, 1)] * n], tau, log_f)
    return of_grid(centred, common + box(*[(-half, half)] * n), tau, log_f - n * math.log(2 * half))


def funnel(d: int, half: float = 100.0) -> Problem:
    """Neal's funnel: a normal v of sd 3, and normal x of variance e^v in a box."""

    def log_likelihood(x: np.ndarray) -> np.ndarray:
        return stats.norm.logpdf(x[:, 0], 0, 3) + stats.norm.logpdf(x[:, 1:], 0, np.exp(x[:, :1] / 2)).sum(axis=1)

    v = np.linspace(-9, 9, 200_001)
    inside = np.log(1 - 2 * ndtr(-half * np.exp(-v / 2))) - math.log(2 * half)
    log_w = stats.norm.logpdf(v, 0, 3) + (d - 1) * inside - math.log(len(v))
    return of_grid(log_likelihood, box((-9, 9), *[(-half, half)] * (d - 1)), v, log_w)


def bananas(pairs: int) -> Problem:
    """Pairs of parameters, each on a parabola of width 0.2."""
    one = chain(2, -6, 6, lambda x: -0.5 * x**2, lambda x: x**2 - 2, 0.2)

    def log_likelihood(x: np.ndarray) -> np.ndarray:
        return one.log_likelihood(x.reshape(-1, 2)).reshape(len(x), pairs).sum(axis=1)

    x = np.linspace(-6, 6, 100_001)
    ends = (np.array([[-6.0], [6.0]]) - (x**2 - 2)) / 0.2
    log_w = -0.5 * x**2 + np.log(np.maximum(ndtr(ends[1]) - ndtr(ends[0]), 1e-300))
    made = of_grid(log_likelihood, box(*[(-6, 6)] * 2 * pairs), x, log_w)
    return made._replace(log_evidence=pairs * one.log_evidence)


def simulated(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Measurements of group means, with errors that leave their spread uncertain."""
    rng = np.random.default_rng(n)
    error = rng.uniform(0.5, 2.0, n)
    return rng.normal(1.0, np.sqrt(error**2 + 0.7**2)), error


PROBLEMS: dict[str, Callable[[], Problem]] = {
    "schools_centred": lambda: hierarchy(*SCHOOLS, is_centred=True),
    "schools": lambda: hierarchy(*SCHOOLS, is_centred=False),
    "funnel5": lambda: funnel(5),
    "funnel10": lambda: funnel(10),
    "hierarchy5": lambda: hierarchy(*simulated(5), is_centred=True, half=30),
    "bananas2": lambda: bananas(1),
    "bananas4": lambda: bananas(2),
}
HARD: dict[str, Callable[[], Problem]] = {
    "hierarchy23": lambda: hierarchy(*simulated(23), is_centred=True, half=30),
    "hierarchy23_not_centred": lambda: hierarchy(*simulated(23), is_centred=False),
    "bananas10": lambda: bananas(5),
}


def measure(problem: Problem, seed: int) -> dict[str, Any]:
    begun = time.process_time()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = ps.sample(problem.log_likelihood, problem.prior, vectorized=True, rng=seed)
    first, weights = found.weighted.draws[:, 0], found.weighted.weights
    order = np.argsort(first)
    quantile = first[order][np.searchsorted(np.cumsum(weights[order]), LEVEL)]
    below = float(np.interp(quantile, problem.grid, problem.below))
    return {
        "evaluations": found.n_evaluations,
        "seconds": round(time.process_time() - begun, 2),
        "off": found.log_evidence - problem.log_evidence,
        "error": found.log_evidence_error,
        "below": below,
        "size": found.effective_size,
        "success": found.success,
        "method": found.method,
        "pareto_k": found.diagnostics["pareto_k"],
        "message": found.message,
        "warnings": [str(one.message) for one in caught],
    }


def tail_off(row: dict[str, Any]) -> float:
    """The error of the probability below the reported quantile, in standard errors of independent draws."""
    return (row["below"] - LEVEL) / math.sqrt(LEVEL * (1 - LEVEL) / row["size"])


def summary(name: str, rows: list[dict[str, Any]]) -> str:
    stated = [row for row in rows if math.isfinite(row["error"])]
    ratios = np.array([row["off"] / row["error"] for row in stated])
    tails = np.array([tail_off(row) for row in stated])
    both = zip(stated, ratios, tails, strict=True)
    silent = sum(row["success"] and bool(abs(ratio) > 3 or abs(tail) > 4) for row, ratio, tail in both)
    rms = [f"{math.sqrt(np.mean(each**2)):.2f}" if len(each) else "-" for each in (ratios, tails)]
    cost, seconds = (np.mean([row[key] for row in rows]) for key in ("evaluations", "seconds"))
    error = np.median([row["error"] for row in stated]) if stated else math.nan
    return (
        f"{name:<24}{len(rows):>5}{cost:>12.0f}{seconds:>9.1f}{error:>9.4f}{rms[0]:>7}{rms[1]:>7}{silent:>8}"
        f"{len(rows) - len(stated):>10}{sum(row['method'] == 'tempered' for row in rows):>7}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", nargs="+", choices=[*PROBLEMS, *HARD], default=[*PROBLEMS])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="a file of JSON lines, one for each run")
    options = parser.parse_args()
    print(
        f"{'problem':<24}{'runs':>5}{'evaluations':>12}{'seconds':>9}{'stated':>9}{'ratio':>7}{'tail':>7}{'silent':>8}"
        f"{'withheld':>10}{'moves':>7}"
    )
    for name in options.problems:
        problem, rows = {**PROBLEMS, **HARD}[name](), []
        for seed in range(options.first_seed, options.first_seed + options.seeds):
            rows.append(measure(problem, seed))
            if options.out is not None:
                with options.out.open("a") as file:
                    file.write(json.dumps({"problem": name, "seed": seed, **rows[-1]}) + "\n")
        print(summary(name, rows), flush=True)


if __name__ == "__main__":
    main()
