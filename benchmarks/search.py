"""How good is the default search? Ours and its peers on COCO's bbob suite, with the same budgets and targets.

    python benchmarks/search.py bbob --dims 2,3,5 --budget 2000      # measures; what is done already is not run again
    python benchmarks/search.py bbob --budget 2000 --table           # prints the tables

A search is judged by the evaluations that it takes to come within 51 targets, 1e2 to 1e-8, of the minimum. *Solved* is
the share of (function, instance, target) reached within the budget. *Area* is the area under the share reached, over
the logarithm of evaluations per unknown from 1 to the budget. Choices were made on instances 1 to 3; tables are for
others.
Every run is a line of JSON in ``benchmarks/results/search.jsonl``.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
from searchers import SEARCHES, Done, run

from paoswarm.problems.bbob import bbob

TARGETS = 10.0 ** (2 - 0.2 * np.arange(51))
GROUPS = {
    "separable": range(1, 6),
    "moderate": range(6, 10),
    "ill-conditioned": range(10, 15),
    "multimodal": range(15, 20),
    "weak structure": range(20, 25),
}
RESULTS = Path(__file__).parent / "results" / "search.jsonl"


class Counted:
    """An objective ``(m, d) -> (m,)`` that notes when each target is reached first."""

    def __init__(self, problem, budget):
        self.problem, self.bounds, self.budget = problem, np.asarray(problem.bounds), budget
        self.minimum = problem.minimum
        self.evaluations, self.reached = 0, 0
        self.hits: list[int] = []

    @property
    def left(self):
        """Evaluations that are left."""
        return self.budget - self.evaluations

    @property
    def is_done(self):
        """Whether nothing is left to do."""
        return self.left <= 0 or self.reached == len(TARGETS)

    def __call__(self, x):
        """The values at points ``(m, d)``."""
        if self.is_done:
            raise Done
        rows = x[: self.left]
        values = self.problem(rows)
        best = np.minimum.accumulate(values) - self.minimum
        while self.reached < len(TARGETS) and best[-1] <= TARGETS[self.reached]:
            self.hits.append(self.evaluations + 1 + int(np.argmax(best <= TARGETS[self.reached])))
            self.reached += 1
        self.evaluations += len(rows)
        if self.is_done:
            raise Done
        return values


def key(name, function, dim, instance, budget):
    return f"{name}|{function}|{dim}|{instance}|{budget}"


def read():
    lines = RESULTS.read_text().splitlines() if RESULTS.exists() else []
    return {row["key"]: row for row in map(json.loads, lines)}


def measure(names, dims, instances, functions, budget):
    """Run what is missing, one instance of all functions and searches after the other."""
    known = read()
    RESULTS.parent.mkdir(exist_ok=True)
    for instance in instances:
        for dim in dims:
            for name in names:
                for function in functions:
                    label = key(name, function, dim, instance, budget)
                    if label in known:
                        continue
                    objective = Counted(bbob(function, dim, [instance]).instance(0), budget * dim)
                    began = time.process_time()
                    error = run(name, objective, seed=1000 * instance + function)
                    row = {"key": label, "hits": objective.hits, "evaluations": objective.evaluations}
                    if error:  # what it had reached by then counts
                        row["error"] = error
                    row["seconds"] = round(time.process_time() - began, 2)
                    with RESULTS.open("a") as file:
                        file.write(json.dumps(row) + "\n")
                print(f"instance {instance}, {dim} unknowns, {name}", flush=True)


def score(rows, dim, budget):
    """Solved and area, in percent."""
    hits = np.full((len(rows), len(TARGETS)), np.inf)
    for line, row in zip(hits, rows, strict=True):
        line[: len(row["hits"])] = row["hits"]
    area = np.maximum(1 - np.log10(np.maximum(hits / dim, 1)) / np.log10(budget), 0)
    return 100 * np.isfinite(hits).mean(), 100 * area.mean()


def table(names, dims, instances, functions, budget):
    """Print a table for each number of unknowns: solved / area for all functions and for each group."""
    known = read()
    for dim in dims:
        print(f"\n{dim} unknowns, {budget} evaluations for each\n")
        print("| | all | " + " | ".join(GROUPS) + " |\n|---|" + "---|" * (1 + len(GROUPS)))
        for name in names:
            cells = []
            for group in (functions, *GROUPS.values()):
                keys = [key(name, f, dim, i, budget) for f in group if f in functions for i in instances]
                rows = [known[one] for one in keys if one in known]
                complete = rows and len(rows) == len(keys)
                cells.append("{:.1f} / {:.1f}".format(*score(rows, dim, budget)) if complete else "-")
            if any(cell != "-" for cell in cells):
                print(f"| {name} | " + " | ".join(cells) + " |")


def numbers(text):
    """Numbers such as 1,2,5-7."""
    parts = [part.split("-") for part in text.split(",")]
    return [number for part in parts for number in range(int(part[0]), int(part[-1]) + 1)]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("set", choices=["bbob"])
    parser.add_argument("--dims", type=numbers, default=[2, 3, 5, 10])
    parser.add_argument("--instances", type=numbers, default=[101, 102, 103])
    parser.add_argument("--functions", type=numbers, default=list(range(1, 25)))
    parser.add_argument("--budget", type=int, default=2000, help="evaluations for each unknown")
    parser.add_argument("--searches", type=lambda text: text.split(";"), default=list(SEARCHES))
    parser.add_argument("--table", action="store_true", help="print what is there")
    given = parser.parse_args()
    if not given.table:
        measure(given.searches, given.dims, given.instances, given.functions, given.budget)
    table(given.searches, given.dims, given.instances, given.functions, given.budget)
