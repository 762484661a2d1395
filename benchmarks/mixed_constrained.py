"""How good is the search with integers and constraints? Ours and its peers, with the same budgets and targets.

    python benchmarks/mixed_constrained.py bbob-mixint --dims 5,10 --instances 4-6     # measures, prints the table
    python benchmarks/mixed_constrained.py designs --searches "paoswarm;SciPy DE"     # also: cec2006, exponentials
    python benchmarks/mixed_constrained.py cec2006 --searches paoswarm --again     # again, after a change of the search
    python benchmarks/mixed_constrained.py tables                 # writes the tables of docs/mixed_constrained.md

*An evaluation* is a point: its objective and all its constraints together. A search that asks only for the constraints
of a point has used one evaluation as well, and finite differences count like any other point.
*Score* is the share of 15 targets that a search reaches: 10 to 1e-6 times the interquartile range of the objective at
100 random points, as a gap to the known minimum. Only points count that are feasible: no inequality is positive, not
even by rounding, and no equality is off by more than 1e-4. *Area* is the area under the share reached, over the
logarithm of evaluations per variable from 1 to 1000. *Solved* is a gap of at most 0.1 percent of the best known value.

Choices were made on instances 1 to 3; tables are for others. In the sets of single problems an instance is a seed.
Every run is a line of JSON in ``benchmarks/results/mixed_constrained.jsonl``, those of instances 1 to 3 in
``mixed_constrained_choices.jsonl``. It says which version of a search it was; ours is the checksum of the code that
searches. What is there is not run again. `mixed_sets.py` says what the sets are, `mixed_searchers.py` who takes part,
`mixed_tables.py` how it is judged.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import mixed_tables
import numpy as np
from coco_suites import FUNCTIONS
from constrained_problem import feasible
from mixed_searchers import run, version_of
from mixed_sets import CHOICES, FIGURES, SETS, SOLVED, TARGETS, budget, problems
from search import numbers
from searchers import Done

RESULTS = Path(__file__).parent / "results" / "mixed_constrained.jsonl"
RESULTS_OF_CHOICES = RESULTS.with_stem("mixed_constrained_choices")
PAGES = Path(__file__).parents[1] / "docs" / "mixed_constrained"


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


def read(path):
    """The runs that are there, by key; of several with one key the last one counts."""
    lines = path.read_text().splitlines() if path.exists() else []
    return {row["key"]: row for row in map(json.loads, lines)}


def measure(name, searches, dims, instances, path, again=False):
    """Run what is missing, one instance of all problems and searches after the other.

    With ``again``, runs of other versions of a search are missing too, and the new ones take their place.
    """
    known = read(path)
    path.parent.mkdir(exist_ok=True)
    for instance in instances:
        for dim in dims:
            for search in searches:
                for number, (label, make) in enumerate(problems(name, dim, instance)):
                    key = f"{search}|{label}"
                    if key in known and not (again and known[key].get("version") != version_of(search)):
                        continue
                    row = {"key": key, **_one_run(name, search, make(), instance, 1000 * instance + number)}
                    with path.open("a") as file:
                        file.write(json.dumps(row) + "\n")
                print(f"{name}, instance {instance}, {dim} variables, {search}", flush=True)
    if again and known:
        path.write_text("".join(json.dumps(row) + "\n" for row in read(path).values()))


def _one_run(name, search, problem, instance, seed):
    gap = SOLVED * abs(problem.best_value) if name not in FUNCTIONS else None
    counted = Counted(problem, budget(name, problem.dim, search), gap, seed=instance)
    began = time.process_time()
    error = run(search, counted, seed=seed)
    spent = time.process_time() - began - counted.seconds
    row = {
        "version": version_of(search),
        "hits": counted.hits,
        "evaluations": counted.evaluations,
        "solved": counted.solved,
        "feasible": counted.first_feasible,
        "best": counted.best if np.isfinite(counted.best) else None,
        "microseconds": round(1e6 * spent / max(1, counted.evaluations), 1),
    }
    return row | {"error": error} if error else row  # what it had reached by then counts


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("set", choices=[*SETS, "tables"])
    parser.add_argument("--dims", type=numbers)
    parser.add_argument("--instances", type=numbers, default=list(FIGURES))
    parser.add_argument("--searches", type=lambda text: text.split(";"))
    parser.add_argument("--again", action="store_true", help="also run again what another version has run")
    parser.add_argument("--table", action="store_true", help="only print the table of what is there")
    given = parser.parse_args()
    if given.set != "tables" and not given.table:
        dims, searches = given.dims or SETS[given.set]["dims"], given.searches or SETS[given.set]["searches"]
        choices = [instance for instance in given.instances if instance in CHOICES]
        figures = [instance for instance in given.instances if instance not in CHOICES]
        measure(given.set, searches, dims, choices, RESULTS_OF_CHOICES, given.again)
        measure(given.set, searches, dims, figures, RESULTS, given.again)
    tables = mixed_tables.tables(read(RESULTS))
    if given.set == "tables":
        PAGES.mkdir(exist_ok=True)
        for name, text in tables.items():
            (PAGES / f"{name}.inc").write_text(text)
    else:
        print(tables[given.set])
