"""The best known sums of squares of the problems of `fit.py`, into ``benchmarks/data/fit_minima.json``.

    python benchmarks/fit_minima.py                     # all sets: what is better than what is known is kept
    python benchmarks/fit_minima.py ode --starts 100

SciPy's `least_squares` with tight tolerances from the truth of made data, the certified values, the best known point,
and random starts, the better half of which is searched twice: with one-sided and with two-sided differences.
"""

from __future__ import annotations

import argparse
import json
import time

import numpy as np
from fit_problem import MINIMA, known_minima
from fit_sets import SETS, problems
from scipy.optimize import least_squares

TIGHT = {"ftol": 1e-15, "xtol": 1e-15, "gtol": 1e-15}


def descend(problem, u, **options):
    """The end of a local search in the unit cube, and its sum of squares."""
    if problem.attempt(problem.point(u)) is None:
        return u, np.inf
    large = np.full(problem.m, np.sqrt(problem.penalty / problem.m))

    def residuals(u):
        r = problem.attempt(problem.point(u))
        return large if r is None else r

    end = least_squares(residuals, np.clip(u, 1e-12, 1 - 1e-12), bounds=(0, 1), x_scale="jac", **options).x
    return end, problem.squares(problem.point(end))


def search(problem, n_starts, seconds, known):
    """The best end, its sum of squares, and how many ends of random starts came within 1 % of it."""
    rng, until = np.random.default_rng(2009), time.monotonic() + seconds
    given = [known["x"]] if known else []
    given += [] if problem.truth is None else [problem.truth]
    sure = [descend(problem, problem.place(np.array(x)), max_nfev=300, **TIGHT) for x in given]
    free = []
    while len(free) < n_starts and time.monotonic() < until:
        free.append(descend(problem, rng.random(problem.n), max_nfev=200))
    ends = sorted([*sure, *free], key=lambda end: end[1])
    polished = [descend(problem, u, jac="3-point", max_nfev=300, **TIGHT) for u, _ in ends[:3]]
    polished += [descend(problem, u, diff_step=1e-5, max_nfev=300, **TIGHT) for u, _ in ends[:2]]
    u, value = min([*ends, *polished], key=lambda end: end[1])
    problem._minimum = value
    return problem.point(u), value, sum(f <= problem.targets[0] for _, f in free), len(free)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*", default=list(SETS))
    parser.add_argument("--starts", type=int, default=40)
    parser.add_argument("--seconds", type=float, default=60, help="for the random starts of each problem")
    parser.add_argument("--only", help="names of problems with this in them")
    given = parser.parse_args()
    for group in given.sets or SETS:
        for problem in problems(group):
            if given.only and given.only not in problem.name:
                continue
            known = known_minima()
            before = known.get(repr(problem))
            x, value, hits, n_starts = search(problem, given.starts, given.seconds, before)
            truth = np.inf if problem.truth is None else problem.squares(problem.truth)
            print(f"{problem!r}: {value:.10g}; {hits} of {n_starts} random starts within 1 %; truth {truth:.6g}"
                  + (f"; known {before['value']:.10g}" if before else ""), flush=True)  # fmt: skip
            if before is None or value < before["value"]:
                known[repr(problem)] = {"value": value, "x": x.tolist()}
                MINIMA.write_text(json.dumps(known, indent=1) + "\n")


if __name__ == "__main__":
    main()
