"""How many evaluations does a least-squares fit take? `ps.fit` and its peers on six sets of problems.

    make bench NAME=fit                                      # measures what is missing, prints the tables
    make bench NAME=fit ARGS="--searchers dfols --sets ode --seeds 1-3"
    python -m benchmarks fit --half development --searchers ours --sets ode,nist --seeds 1,2,3 --no-keep

- ``ode``, ``nist``, ``wild``, ``rugged``, ``large``: see `fit_sets.py`. Choices were made on one half of each.
- ``noise1e-3``, ``noise1e-2``: ``ode`` and ``nist``, each residual multiplied by 1 + level * normal.

Every call of the residuals counts as one evaluation, and a run ends when the search says that it is done, or after 500
evaluations for each unknown. `fit_searchers.py` says who takes part, `fit_tables.py` how it is judged, `fit_minima.py`
computes the best known sums of squares. Every run is a line of JSON in ``benchmarks/results/fit.jsonl``.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import time
from functools import partial
from pathlib import Path
from typing import NamedTuple

import fit_tables
from fit_searchers import SEARCHERS, run, version_of
from fit_sets import problems
from search import numbers

RESULTS = Path(__file__).parent / "results" / "fit.jsonl"
SETS = list(fit_tables.TITLES)
SEEDS = (1, 2, 3)
WITH_ONE_SEED = ("lmfit", "gofit", "biteopt", "cma")
NOISE = {"noise1e-3": 1e-3, "noise1e-2": 1e-2}


class Case(NamedTuple):
    """One run."""

    set: str
    searcher: str
    problem: str
    held_out: bool
    seed: int
    budget: int  # for each unknown
    group: str
    minimum: float

    @property
    def key(self):
        """What identifies the run."""
        return f"{self.set}|{self.searcher}|{self.problem}|{self.seed}|{self.budget}"


def cases_of(sets, searchers, seeds, halves, budget, part=""):
    """All runs, seed by seed; without ``seeds`` those that the tables of the documentation show."""
    cases = []
    for seed in seeds or SEEDS:
        for name in sets:
            for searcher in searchers:
                if not seeds and searcher in WITH_ONE_SEED and seed > 1:
                    continue
                for group in ("ode", "nist") if name in NOISE else (name,):
                    for one in problems(group):
                        if one.held_out in halves and part in one.name:
                            case = Case(name, searcher, one.name, one.held_out, seed, budget, group, one.minimum)
                            cases.append(case)
    return cases


def measure(case, limit, options):
    """Run one case."""
    problem = next(one for one in problems(case.group) if one.name == case.problem)
    row = run(case.searcher, problem, case.seed, case.budget, NOISE.get(case.set, 0.0), limit, options)
    return case, {"key": case.key, "problem": case.problem, "version": version_of(case.searcher), **row}


def read(path):
    """The runs that are there, by key; of several with one key the last one counts."""
    lines = path.read_text().splitlines() if path.exists() else []
    return {row["key"]: row for row in map(json.loads, lines)}


def run_all(cases, jobs, limit, options):
    """Run cases, here or in several processes; yields pairs of a case and what it has reached."""
    do = partial(measure, limit=limit, options=options)
    if jobs == 1:
        yield from map(do, cases)
        return
    with multiprocessing.get_context("fork").Pool(jobs) as pool:
        yield from pool.imap_unordered(do, cases)


def names(known):
    """What reads a list of names."""

    def read_names(text):
        for name in text.split(","):
            if name not in known:
                raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(known)}")
        return text.split(",")

    return read_names


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", type=names(SETS), default=SETS)
    parser.add_argument("--searchers", type=names(SEARCHERS), default=list(SEARCHERS))
    parser.add_argument("--seeds", type=numbers, help="such as 1,2,5-7")
    parser.add_argument("--half", choices=["development", "held out", "all"], help="of the problems")
    parser.add_argument("--problems", default="", help="only those with this in their name")
    parser.add_argument("--budget", type=int, default=500, help="evaluations for each unknown")
    parser.add_argument("--limit", type=float, default=120, help="seconds of a run")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--options", type=json.loads, default={}, help="more arguments for the searches, as JSON")
    parser.add_argument("--no-keep", action="store_true", help="run all anew and keep nothing")
    parser.add_argument("--again", action="store_true", help="also run again what another version has run")
    parser.add_argument("--table", action="store_true", help="only print what is there")
    parser.add_argument("--write", action="store_true", help="write the tables of the documentation")
    parser.add_argument("--each", action="store_true", help="a line for each problem instead of tables")
    parser.add_argument("--results", type=Path, default=RESULTS)
    given = parser.parse_args()
    if given.options and not given.no_keep:
        parser.error("--options needs --no-keep: the results do not say with which options they were made")
    held_out = fit_tables.HALVES[given.half or "all"]
    cases = cases_of(given.sets, given.searchers, given.seeds, held_out, given.budget, given.problems)
    known = {} if given.no_keep else read(given.results)
    versions = {name: version_of(name) for name in given.searchers} if given.again else {}
    missing = [case for case in cases if case.key not in known
               or (given.again and known[case.key]["version"] != versions[case.searcher])]  # fmt: skip
    began = time.time()
    if missing and not given.table:
        for count, (case, row) in enumerate(run_all(missing, given.jobs, given.limit, given.options), 1):
            known[case.key] = row
            if not given.no_keep:
                with given.results.open("a") as file:
                    file.write(json.dumps(row) + "\n")
            if count % 25 == 0 or count == len(missing):
                print(f"{count} of {len(missing)} runs, {time.time() - began:.0f} s", file=sys.stderr, flush=True)
    runs = [(case, known[case.key]) for case in cases if case.key in known]
    if given.write:
        fit_tables.write(cases, known)
    elif given.each:
        fit_tables.print_each(runs, given.searchers)
    else:
        fit_tables.print_tables(cases, known, given.searchers, given.sets, given.half)
    fit_tables.print_surprises(runs)


if __name__ == "__main__":
    main()
