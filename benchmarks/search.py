"""How good is the default search? Ours and its peers on five sets of problems, with the same budgets and targets.

    python benchmarks/search.py all              # measures; what is done already is not run again
    python benchmarks/search.py classic --table  # prints the tables of one set
    python benchmarks/search.py bbob --searches AdaptivePAO --again  # what another version ran is dropped first

- ``bbob``: COCO's 24 functions. Choices were made on instances 1 to 3; tables are for others.
- ``classic``: classic functions of 2 to 10 unknowns. Choices were made on one half.
- ``nist``: regressions in wide boxes.
- ``ode``: calibrations of differential equations.
- ``paper``: the nine functions of the paper in eight dimensions, as printed, moved, and moved and turned.

Every run is a line of JSON in ``benchmarks/results/search.jsonl``. `search_sets.py` says what the sets are,
`search_tables.py` how they are judged, `searchers.py` who takes part.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import time
from contextlib import redirect_stdout
from functools import cache
from importlib.metadata import version
from pathlib import Path

import search_tables
from counted import Counted
from search_sets import LIMITS, SEEDED, bbob_cases
from searchers import PACKAGES, SEARCHES, SLOW, TOLD, run

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "search.jsonl"
PAGES = HERE.parent / "docs" / "how_good"
SEEDS = {"classic": 5, "nist": 10, "ode": 10, "paper": 10}
SEEDS_OF_SLOW = {"classic": 2, "nist": 3, "ode": 3, "paper": 3}  # of searches that take milliseconds for each point
LARGEST_OF_SLOW = 10  # unknowns of bbob


def read(path):
    """The runs that are there, by key."""
    lines = path.read_text().splitlines() if path.exists() else []
    return {row["key"]: row for row in map(json.loads, lines)}


def forget(cases, names, path):
    """Drop what other versions of these searches have stored of these problems, whatever the limit."""
    problems = {case.key(name).rpartition("|")[0]: version_of(name) for name in names for case in cases}

    def is_old(row):
        return problems.get(row["key"].rpartition("|")[0], row["version"]) != row["version"]

    part = path.with_suffix(".part")
    part.write_text("".join(json.dumps(row) + "\n" for row in read(path).values() if not is_old(row)))
    part.replace(path)


@cache
def version_of(name):
    """The last commit that changed the code, with a star if files have changed since, and the peer's package."""

    def git(*words):
        words = ["git", *words, "--", ":/src", ":/benchmarks/*.py"]
        return subprocess.run(words, cwd=HERE, capture_output=True, text=True, check=True).stdout.strip()

    try:
        ours = git("log", "-1", "--format=%h") + "*" * bool(git("status", "--porcelain"))
    except (OSError, subprocess.CalledProcessError):
        ours = f"paoswarm {version('paoswarm')}"
    return f"{ours}, {PACKAGES[name]} {version(PACKAGES[name])}" if name in PACKAGES else ours


def is_wanted(case, name, limits):
    """Whether a search makes this run: slow ones make fewer, and in bbob a run serves smaller limits, unless told."""
    if case.kind != "bbob":
        return name not in SLOW or case.instance <= SEEDS_OF_SLOW[case.kind]
    if name in SLOW:
        return case.limit == min(limits) and case.dim <= LARGEST_OF_SLOW
    return name in TOLD or case.limit == max(limits)


def measure(cases, names, path):
    """Run what is missing, seed by seed."""
    known = read(path)
    path.parent.mkdir(exist_ok=True)
    limits = {case.limit for case in cases if case.kind == "bbob"}
    told = None
    for case in sorted(cases, key=lambda case: (case.kind, case.instance)):
        for name in names:
            if not is_wanted(case, name, limits) or case.run(name, known):
                continue
            objective = Counted(case.make(), case.budget, case.targets)
            began = time.process_time()
            error = run(name, objective, seed=case.seed)
            row = {
                "key": case.key(name),
                "version": version_of(name),
                "hits": objective.hits,
                "evaluations": objective.evaluations,
            }
            if case.kind != "bbob":
                row["excess"] = float(f"{objective.excess:.4g}")
            if error:  # what it had reached by then counts
                row["error"] = error
            row["seconds"] = round(time.process_time() - began, 2)
            with path.open("a") as file:
                file.write(json.dumps(row) + "\n")
        if told != (case.kind, case.instance):
            told = (case.kind, case.instance)
            print(f"{case.kind} {case.instance}", flush=True)


def numbers(text):
    """Numbers such as 1,2,5-7."""
    parts = [part.split("-") for part in text.split(",")]
    return [number for part in parts for number in range(int(part[0]), int(part[-1]) + 1)]


def cases_of(kind, given):
    """The cases of a set that were asked for."""
    if kind == "bbob":
        return bbob_cases(given.dims, given.instances, given.functions, given.limits)
    cases = SEEDED[kind](given.seeds or range(1, 1 + SEEDS[kind]))
    return [case for case in cases if not given.half or kind != "classic" or case.group == given.half]


def write_pages(sets, names, known, folder):
    """Write the tables that the documentation includes."""
    for kind, cases in sets.items():
        with (folder / f"{kind}.inc").open("w") as page, redirect_stdout(page):
            search_tables.print_tables(kind, cases, names, known)
    with (folder / "searches_short.inc").open("w") as page, redirect_stdout(page):
        search_tables.print_short(sets, names, known)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("set", choices=["bbob", *SEEDED, "all", "tables"], help="tables: write those of the page")
    parser.add_argument("--dims", type=numbers, default=[2, 3, 5, 10, 20], help="of bbob")
    parser.add_argument("--instances", type=numbers, default=[101, 102, 103], help="of bbob")
    parser.add_argument("--functions", type=numbers, default=list(range(1, 25)), help="of bbob")
    parser.add_argument("--limits", type=numbers, default=LIMITS, help="of bbob: some of 200,2000,10000")
    parser.add_argument("--seeds", type=numbers, help="of the other sets")
    parser.add_argument("--half", choices=["tuning", "held out"], help="of the classic functions")
    parser.add_argument("--searches", type=lambda text: text.split(";"), default=list(SEARCHES))
    parser.add_argument("--again", action="store_true", help="also run again what another version has run")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--pages", type=Path, default=PAGES, help="where the tables go")
    parser.add_argument("--table", action="store_true", help="print what is there")
    given = parser.parse_args()
    kinds = ["bbob", *SEEDED] if given.set in ("all", "tables") else [given.set]
    sets = {kind: cases_of(kind, given) for kind in kinds}
    if not given.table and given.set != "tables":
        cases = [case for some in sets.values() for case in some]
        if given.again:
            forget(cases, given.searches, given.results)
        measure(cases, given.searches, given.results)
    known = read(given.results)
    if given.set == "tables":
        write_pages(sets, given.searches, known, given.pages)
    else:
        for kind, cases in sets.items():
            search_tables.print_tables(kind, cases, given.searches, known)
