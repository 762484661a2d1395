"""How good is the search with integers and constraints? Ours and its peers, with the same budgets and targets.

    python benchmarks/mixed_constrained.py bbob-mixint --dims 5,10           # measures; what is done is not run again
    python benchmarks/mixed_constrained.py bbob-constrained --dims 2,5 --table     # prints the tables
    python benchmarks/mixed_constrained.py designs                          # also: cec2006, exponentials

*An evaluation* is a point: its objective and all its constraints together. A search that asks only for the constraints
of a point has used one evaluation as well, and finite differences count like any other point.
*Score* is the share of 15 targets that a search reaches: 10 to 1e-6 times the interquartile range of the objective at
100 random points, as a gap to the known minimum. Only points count that are feasible: no inequality is positive, not
even by rounding, and no equality is off by more than 1e-4. *Area* is the area under the share reached, over the
logarithm of evaluations per variable from 1 to 1000. *Solved* is a gap of at most 0.1 percent of the best known value.

Choices were made on instances 1 to 3; tables are for others. In the sets of single problems an instance is a seed.
Every run is a line of JSON in ``benchmarks/results/mixed_constrained.jsonl``.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
from cec2006 import CEC2006
from coco_suites import FUNCTIONS, coco
from constrained_problem import feasible
from designs import DESIGNS
from exponentials import exponentials
from mixed_searchers import CAPS, SEARCHES, run
from search import numbers
from searchers import Done

TARGETS = 10.0 ** (1 - 0.5 * np.arange(15))
PER_VARIABLE = 1000  # evaluations, in the suites
IN_ALL = 20_000  # evaluations, for single problems
GROUPS = {
    "bbob-mixint": {
        "separable": range(1, 6),
        "moderate": range(6, 10),
        "ill-conditioned": range(10, 15),
        "multimodal": range(15, 20),
        "weak structure": range(20, 25),
    },
    "bbob-constrained": {
        "sphere, slope": [*range(1, 7), *range(13, 19)],
        "ill-conditioned": [*range(7, 13), *range(19, 43)],
        "Rastrigin": range(43, 55),
    },
}
WITH_CONSTRAINTS = [name for name in SEARCHES if name not in ("CMA-ES with margin", "CatCMA with margin", "pycma")]
WITH_INTEGERS = [name for name in SEARCHES if name not in ("pycma fmin_con2", "SLSQP, restarted", "pymoo ISRES")]
SETS = {
    "bbob-mixint": {"dims": [5, 10, 20], "searches": WITH_INTEGERS},
    "bbob-constrained": {
        "dims": [2, 5, 10],
        "searches": [name for name in WITH_CONSTRAINTS if name not in ("pymoo MixedVariableGA", "Optuna TPE")],
    },
    "designs": {"dims": [0], "searches": [name for name in WITH_CONSTRAINTS if name != "Optuna TPE"]},
    "cec2006": {
        "dims": [0],
        "searches": [name for name in WITH_CONSTRAINTS if name not in ("pymoo MixedVariableGA", "Optuna TPE")],
    },
    "exponentials": {
        "dims": [4, 6, 8],
        "searches": [name for name in SEARCHES if "margin" not in name and "con2" not in name and "GA" not in name],
    },
}
SINGLE = {"designs": DESIGNS, "cec2006": CEC2006}
RESULTS = Path(__file__).parent / "results" / "mixed_constrained.jsonl"


class Counted:
    """A problem that counts evaluations and notes when each target is reached first.

    Variables that are known by their order of magnitude only are searched by their logarithm, which any user would do.
    """

    def __init__(self, problem, budget, solved_gap=None, seed=0):
        self.problem, self.budget = problem, budget
        self.integrality, self.logarithmic = problem.integrality, problem.logarithmic
        self.bounds = np.where(self.logarithmic[:, None], np.log10(np.where(problem.bounds > 0, problem.bounds, 1)),
                               problem.bounds)  # fmt: skip
        points = np.random.default_rng([seed, 1]).uniform(*self.bounds.T, (100, problem.dim))
        values, g, h = self._evaluate(points)
        self.n_inequalities, self.n_equalities = g.shape[1], h.shape[1]
        spread = np.subtract(*np.percentile(values, [75, 25]))
        self.gaps = TARGETS * spread
        self.solved_gap = self.gaps[-1] if solved_gap is None else solved_gap
        self.hits: list[int] = []
        self.evaluations, self.reached = 0, 0
        self.first_feasible, self.solved, self.best = None, None, np.inf
        self.seconds = 0.0  # in the problem itself

    @property
    def left(self):
        """Evaluations that are left."""
        return self.budget - self.evaluations

    def _evaluate(self, rows):
        natural = np.where(self.logarithmic, 10.0 ** np.where(self.logarithmic, rows, 0), rows)
        return self.problem.evaluate(self.problem.rounded(natural))

    def __call__(self, x):
        """Values, inequalities and equalities at points ``(m, d)``."""
        rows = np.asarray(x, float)[: self.left]
        if not len(rows):
            raise Done
        began = time.process_time()
        values, g, h = self._evaluate(rows)
        self.seconds += time.process_time() - began
        self._note(np.where(feasible(g, h), values, np.inf))
        self.evaluations += len(rows)
        if self.left <= 0 or (self.reached == len(TARGETS) and self.solved is not None):
            raise Done
        return values, g, h

    def _note(self, values):
        best = np.fmin.accumulate(values)

        def first(is_so):
            return self.evaluations + 1 + int(np.argmax(is_so))

        if self.first_feasible is None and np.isfinite(best[-1]):
            self.first_feasible = first(np.isfinite(values))
        gap = best - self.problem.best_value
        while self.reached < len(TARGETS) and gap[-1] <= self.gaps[self.reached]:
            self.hits.append(first(gap <= self.gaps[self.reached]))
            self.reached += 1
        if self.solved is None and gap[-1] <= self.solved_gap:
            self.solved = first(gap <= self.solved_gap)
        self.best = min(self.best, float(best[-1]))


def problems(name, dims, instances):
    """Yield ``(label, problem, budget per problem, gap that counts as solved, seed)`` of a set."""
    for instance in instances:
        for dim in dims:
            if name in FUNCTIONS:
                for function in FUNCTIONS[name]:
                    label = f"{name}|{function}|{dim}|{instance}"
                    yield label, lambda f=function, d=dim, i=instance: coco(name, f, d, i), PER_VARIABLE * dim, None
            elif name == "exponentials":
                problem = exponentials(dim // 2, instance)
                yield f"{name}|{dim // 2}|{dim}|{instance}", lambda p=problem: p, PER_VARIABLE * dim, 1e-3
            else:
                for title, problem in SINGLE[name].items():
                    yield f"{name}|{title}|{problem.dim}|{instance}", lambda p=problem: p, IN_ALL, 1e-3


def read():
    lines = RESULTS.read_text().splitlines() if RESULTS.exists() else []
    return {row["key"]: row for row in map(json.loads, lines)}


def measure(name, searches, dims, instances):
    """Run what is missing, one instance of all problems and searches after the other."""
    known = read()
    RESULTS.parent.mkdir(exist_ok=True)
    for instance in instances:
        for dim in dims:
            for search in searches:
                for number, (label, make, budget, share) in enumerate(problems(name, [dim], [instance])):
                    key = f"{search}|{label}"
                    if key in known:
                        continue
                    problem = make()
                    budget = min(budget, CAPS.get(search, PER_VARIABLE) * problem.dim) if name not in SINGLE else budget
                    gap = None if share is None else share * abs(problem.best_value)
                    counted = Counted(problem, budget, gap, seed=instance)
                    began = time.process_time()
                    error = run(search, counted, seed=1000 * instance + number)
                    spent = time.process_time() - began - counted.seconds
                    row = {"key": key, "hits": counted.hits, "evaluations": counted.evaluations}
                    row |= {"solved": counted.solved, "feasible": counted.first_feasible}
                    row |= {"best": counted.best if np.isfinite(counted.best) else None}
                    row |= {"microseconds": round(1e6 * spent / max(1, counted.evaluations), 1)}
                    if error:  # what it had reached by then counts
                        row["error"] = error
                    with RESULTS.open("a") as file:
                        file.write(json.dumps(row) + "\n")
                print(f"{name}, instance {instance}, {dim} variables, {search}", flush=True)


def hits_of(rows):
    """Evaluations per variable at which each target was reached, ``(runs, targets)``; inf where it was not."""
    hits = np.full((len(rows), len(TARGETS)), np.inf)
    for line, row in zip(hits, rows, strict=True):
        line[: len(row["hits"])] = np.array(row["hits"]) / int(row["key"].split("|")[3])
    return hits


def suite_table(name, searches, dims, instances):
    """Print the scores of a suite."""
    known = read()
    columns = {"all": lambda label: True}
    columns |= {f"{dim} variables": lambda label, d=dim: int(label.split("|")[2]) == d for dim in dims}
    columns |= {
        group: lambda label, numbers=numbers: int(label.split("|")[1]) in numbers
        for group, numbers in GROUPS[name].items()
    }
    labels = [label for label, *_ in problems(name, dims, instances)]
    print("| | " + " | ".join(columns) + " | at 100 | at 300 | area | feasible | own μs |")
    print("|---|" + "---|" * (len(columns) + 5))
    for search in searches:
        rows = [known[f"{search}|{label}"] for label in labels if f"{search}|{label}" in known]
        if len(rows) < len(labels):
            if rows:
                print(f"<!-- {search}: {len(rows)} of {len(labels)} runs -->")
            continue
        hits, cap = hits_of(rows), CAPS.get(search, PER_VARIABLE)
        cells = []
        for chosen in columns.values():
            keep = np.array([chosen(label) for label in labels])
            cells.append(f"{np.isfinite(hits[keep]).mean():.3f}" if cap == PER_VARIABLE else "-")
        cells += [f"{(hits <= limit).mean():.3f}" if limit <= cap else "-" for limit in (100, 300)]
        area = np.maximum(1 - np.log10(np.maximum(hits, 1)) / np.log10(PER_VARIABLE), 0)
        cells.append(f"{area.mean():.3f}" if cap == PER_VARIABLE else "-")
        cells.append(f"{np.mean([row['feasible'] is not None for row in rows]):.2f}")
        cells.append(f"{np.mean([row['microseconds'] for row in rows]):.0f}")
        print(f"| {search} | " + " | ".join(cells) + " |")


def solved_table(name, searches, dims, instances):
    """Print in how many runs each problem of a set was solved, and the median number of evaluations that it took."""
    known = read()
    labels = [label for label, *_ in problems(name, dims, instances)]
    titles = list(dict.fromkeys(label.split("|")[1] for label in labels))
    complete = [search for search in searches if all(f"{search}|{label}" in known for label in labels)]
    print(f"| | {' | '.join(complete)} |\n|---|" + "---|" * len(complete))

    def solved(search, title=None):
        rows = [known[f"{search}|{label}"] for label in labels if title in (None, label.split("|")[1])]
        return np.array([np.inf if row["solved"] is None else row["solved"] for row in rows])

    for title in titles:
        cells = []
        for search in complete:
            times = solved(search, title)
            median = f" ({np.median(times):,.0f})" if np.isfinite(np.median(times)) else ""
            cells.append(f"{np.isfinite(times).sum()}/{len(times)}{median}")
        print(f"| {title} | {' | '.join(cells)} |")
    shares = [np.isfinite(solved(search)) for search in complete]
    print(f"| **all** | {' | '.join(f'{share.sum()}/{len(share)}' for share in shares)} |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("set", choices=list(SETS))
    parser.add_argument("--dims", type=numbers)
    parser.add_argument("--instances", type=numbers, default=[4, 5, 6])
    parser.add_argument("--searches", type=lambda text: text.split(";"))
    parser.add_argument("--table", action="store_true", help="print what is there")
    given = parser.parse_args()
    dims, searches = given.dims or SETS[given.set]["dims"], given.searches or SETS[given.set]["searches"]
    if not given.table:
        measure(given.set, searches, dims, given.instances)
    (suite_table if given.set in FUNCTIONS else solved_table)(given.set, searches, dims, given.instances)
