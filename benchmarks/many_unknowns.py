"""Many unknowns: the default search beside sep-CMA-ES, VkD-CMA-ES and L-BFGS-B on COCO's large-scale suite.

    python benchmarks/many_unknowns.py            # measures; what is done already is not run again
    python benchmarks/many_unknowns.py --table    # prints the tables

Twelve of bbob's functions, turned block by block, with 40 to 320 unknowns. Choices were made on instances 1 to 3;
tables are for others. Every run is a line of JSON in ``benchmarks/results/many_unknowns.jsonl``: the evaluations at
which each target was reached, and the time of the search itself, without that of the function.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
from coco_suites import best_point, suite
from counted import Counted
from searchers import OURS, SEARCHES, run_silently

RESULTS = Path(__file__).parent / "results" / "many_unknowns.jsonl"
TARGETS = 10.0 ** (6 - 0.2 * np.arange(71))
FUNCTIONS = {
    1: "sphere",
    2: "ellipsoid",
    3: "Rastrigin",
    6: "attractive sector, turned",
    8: "Rosenbrock",
    10: "ellipsoid, turned",
    11: "discus, turned",
    12: "bent cigar, turned",
    13: "sharp ridge, turned",
    14: "sum of powers, turned",
    17: "Schaffer, turned",
    21: "Gallagher's 101 peaks",
}


class Large:
    """One instance of a function, which adds up the time that it takes."""

    def __init__(self, function, dim, instance):
        problems = suite("bbob-largescale", dim, instance)
        self.problem = problems.get_problem_by_function_dimension_instance(function, dim, instance)
        self.bounds = np.stack([self.problem.lower_bounds, self.problem.upper_bounds], axis=1)
        self.minimum = float(self.problem(best_point(self.problem)))
        self.seconds = 0.0

    def __call__(self, x):
        """The values at points ``(m, d)``."""
        began = time.process_time()
        values = np.array([self.problem(np.array(row, order="C")) for row in x])
        self.seconds += time.process_time() - began
        return values


def _cma(more):
    """CMA-ES of pycma with further options, started again when it stops; in widths of the bounds."""

    def search(f, seed):
        import cma

        rng = np.random.default_rng(seed)
        low, width = f.bounds[:, 0], f.bounds[:, 1] - f.bounds[:, 0]
        while True:
            options = {"verbose": -9, "bounds": [0, 1], "seed": int(rng.integers(1, 2**31)), **more(cma)}
            strategy = cma.CMAEvolutionStrategy(rng.uniform(0.1, 0.9, len(low)), 0.2, options)
            while not strategy.stop():
                points = strategy.ask()
                strategy.tell(points, f(low + np.array(points) * width))

    return search


def _vkd(cma):
    from cma.restricted_gaussian_sampler import GaussVkDSampler

    return GaussVkDSampler.extend_cma_options()


def l_bfgs_b(f, seed):
    """SciPy's L-BFGS-B from random points, with gradients by differences."""
    from scipy.optimize import minimize

    rng = np.random.default_rng(seed)
    while True:
        start = rng.uniform(f.bounds[:, 0], f.bounds[:, 1])
        minimize(lambda x: float(f(x[None])[0]), start, method="L-BFGS-B", bounds=f.bounds, options={"maxfun": 10**9})


SEARCHES_OF_MANY = {
    OURS: SEARCHES[OURS],
    "sep-CMA-ES": _cma(lambda cma: {"CMA_diagonal": True}),
    "VkD-CMA-ES": _cma(_vkd),
    "L-BFGS-B": l_bfgs_b,
}


def read(path):
    """The runs that are there, by key."""
    lines = path.read_text().splitlines() if path.exists() else []
    return {row["key"]: row for row in map(json.loads, lines)}


def measure(cells, names, budget, path):
    """Run what is missing."""
    known = read(path)
    path.parent.mkdir(exist_ok=True)
    for function, dim, instance in cells:
        for name in names:
            key = f"{name}|{function}|{dim}|{instance}|{budget}"
            if key in known:
                continue
            problem = Large(function, dim, instance)
            objective = Counted(problem, budget * dim, TARGETS)
            began = time.process_time()
            error = run_silently(SEARCHES_OF_MANY[name], objective, 1000 * instance + function, may_break=name != OURS)
            seconds = time.process_time() - began - problem.seconds
            row = {"key": key, "hits": objective.hits, "evaluations": objective.evaluations}
            row |= {"excess": float(f"{objective.excess:.4g}"), "own": round(1e6 * seconds / objective.evaluations, 1)}
            if error:
                row["error"] = error
            with path.open("a") as file:
                file.write(json.dumps(row) + "\n")


def distance(row, evaluations):
    """The last target that was reached by then, as a power of ten; one step above the first if there is none."""
    return 6.2 - 0.2 * sum(hit <= evaluations for hit in row["hits"])


def print_tables(known, dims, functions, instances, budget, names):
    """For each number of unknowns: how far from the minimum each search has come, and its own time."""
    for dim in dims:
        rows = np.array(
            [[[known[f"{name}|{f}|{dim}|{i}|{budget}"] for i in instances] for name in names] for f in functions]
        )
        last, early = (np.vectorize(distance)(rows, share * budget * dim).mean(axis=2) for share in (1, 0.1))
        own = np.median(np.vectorize(lambda row: row["own"])(rows), axis=(0, 2))
        lines = [(FUNCTIONS.get(f, f), one) for f, one in zip(functions, last, strict=True)]
        lines += [("*mean*", last.mean(axis=0)), (f"*mean after {budget // 10} for each*", early.mean(axis=0))]
        print(f"**{dim} unknowns**, {budget} evaluations for each:\n")
        print("| |", " | ".join(names), "|\n|---|" + "---|" * len(names))
        for label, numbers_of_line in lines:
            cells = (f"**{x:.1f}**" if x < min(numbers_of_line) + 0.05 else f"{x:.1f}" for x in numbers_of_line)
            print(f"| {label} |", " | ".join(cells), "|")
        print("| *own μs* |", " | ".join(f"{x:.0f}" for x in own), "|\n")


def numbers(text):
    """Numbers such as 1,2,5-7."""
    parts = [part.split("-") for part in text.split(",")]
    return [number for part in parts for number in range(int(part[0]), int(part[-1]) + 1)]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dims", type=numbers, default=[40, 80, 160, 320], help="the table of the page has 40 and 80")
    parser.add_argument("--instances", type=numbers, default=[101])
    parser.add_argument("--functions", type=numbers, default=list(FUNCTIONS))
    parser.add_argument("--budget", type=int, default=100, help="evaluations for each unknown")
    parser.add_argument("--searches", type=lambda text: text.split(";"), default=list(SEARCHES_OF_MANY))
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--table", action="store_true", help="print what is there")
    given = parser.parse_args()
    cells = [(f, d, i) for i in given.instances for d in given.dims for f in given.functions]
    if not given.table:
        measure(cells, given.searches, given.budget, given.results)
    print_tables(read(given.results), given.dims, given.functions, given.instances, given.budget, given.searches)
