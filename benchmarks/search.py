"""How good is the default search? Ours and its peers on five sets of problems, with the same budgets and targets.

    python benchmarks/search.py all              # measures; what is done already is not run again
    python benchmarks/search.py classic --table  # prints the tables of one set

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
import sys
import time
from contextlib import nullcontext, redirect_stdout
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
    """Drop the stored runs of these searches on these problems, whatever their limit."""
    gone = {case.key(name).rpartition("|")[0] for case in cases for name in names}
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(line for line in lines if json.loads(line)["key"].rpartition("|")[0] not in gone))


def source(name):
    """What a run comes from: the commit, with a star if code was changed since, and the version of the peer's package."""

    def git(*words):
        return subprocess.run(["git", *words], cwd=HERE, capture_output=True, text=True, check=True).stdout.strip()

    try:
        changed = git("status", "--porcelain", "--", ":/src", ":/benchmarks/*.py")
        commit = git("rev-parse", "--short", "HEAD") + "*" * bool(changed)
    except (OSError, subprocess.CalledProcessError):
        commit = f"paoswarm {version('paoswarm')}"
    return ", ".join([commit, *(f"{one} {version(one)}" for one in [PACKAGES.get(name)] if one)])


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
    sources = {name: source(name) for name in names}
    limits = {case.limit for case in cases}
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
                "source": sources[name],
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


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("set", choices=["bbob", *SEEDED, "all", "tables"], help="tables: write those of the page")
    parser.add_argument("--dims", type=numbers, default=[2, 3, 5, 10, 20], help="of bbob")
    parser.add_argument("--instances", type=numbers, default=[101, 102, 103], help="of bbob")
    parser.add_argument("--functions", type=numbers, default=list(range(1, 25)), help="of bbob")
    parser.add_argument("--limits", type=numbers, default=LIMITS, help="of bbob: evaluations for each unknown")
    parser.add_argument("--seeds", type=numbers, help="of the other sets")
    parser.add_argument("--half", choices=["tuning", "held out"], help="of the classic functions")
    parser.add_argument("--searches", type=lambda text: text.split(";"), default=list(SEARCHES))
    parser.add_argument("--again", action="store_true", help="drop what these searches have stored of these problems")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--table", action="store_true", help="print what is there")
    given = parser.parse_args()
    for kind in ["bbob", *SEEDED] if given.set in ("all", "tables") else [given.set]:
        if kind == "bbob":
            cases = bbob_cases(given.dims, given.instances, given.functions, given.limits)
        else:
            cases = SEEDED[kind](given.seeds or range(1, 1 + SEEDS[kind]))
            if kind == "classic" and given.half:
                cases = [case for case in cases if case.group == given.half]
        if not given.table and given.set != "tables":
            if given.again:
                forget(cases, given.searches, given.results)
            measure(cases, given.searches, given.results)
        into_page = (PAGES / f"{kind}.inc").open("w") if given.set == "tables" else nullcontext(sys.stdout)
        with into_page as page, redirect_stdout(page):
            search_tables.print_tables(kind, cases, given.searches, read(given.results))
