"""Posteriors from few simulations: errors, cost and verdicts of `sample` with an emulator, and without one.

    python benchmarks/few_simulations.py                     # runs what is missing, and prints the tables
    python benchmarks/few_simulations.py --problems flu lotka --seeds 2 --again
    python benchmarks/few_simulations.py --table --write     # the tables of the docs

Problems are in ``few_problems.py``. A run has 50 (d + 2) or 200 d simulations. By *outputs* the emulator learns what
the simulator returns (``data=``), by *number* the log likelihood (``emulate=True``); *draws* is ``emulate=False``.

- A result is *wrong* if the log evidence is off by more than 0.05 and by more than four stated errors, or a mean by
  more than 0.3 posterior standard deviations. A *silent failure* is a wrong result with ``success``.
- A *false alarm* is a result without ``success`` whose log evidence is within 0.05, and whose means are within 0.3.

Every run is a line of JSON in ``benchmarks/results/few_simulations.jsonl``.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from few_problems import CALIBRATIONS, HELD_OUT, NAMES, Case, load

import paoswarm as ps

RESULTS = Path(__file__).parent / "results" / "few_simulations.jsonl"
PAGES = Path(__file__).parents[1] / "docs" / "how_good"
BUDGETS = {"50 (d + 2)": lambda d: 50 * (d + 2), "200 d": lambda d: 200 * d}
ROUTES = ("outputs", "number", "draws")
CLOSE, FAR, MANY = 0.05, 0.3, 4.0  # in log evidence, in standard deviations, in stated errors
OUR_CODE = ("core", "methods", "least_squares", "sampling")
HEAD = ("used", "log Z off", "within 0.05", "error / stated", "mean off", "sd off", "success", "silent", "false alarms")
HEAD += ("own ms",)


def version() -> str:
    """The checksum of the code that samples."""
    root, checksum = Path(ps.__file__).parent, hashlib.sha256()
    for path in sorted(path for folder in OUR_CODE for path in (root / folder).rglob("*.py")):
        checksum.update(str(path.relative_to(root)).encode() + path.read_bytes())
    return f"paoswarm {checksum.hexdigest()[:12]}"


class Timed:
    """A function that adds up the CPU time spent in it."""

    def __init__(self, function: Any) -> None:
        self.function, self.seconds = function, 0.0

    def __call__(self, x: np.ndarray) -> Any:
        """The value of the function."""
        began = time.process_time()
        try:
            return self.function(x)
        finally:
            self.seconds += time.process_time() - began


def measure(case: Case, route: str, maxfev: int, seed: int) -> dict[str, Any]:
    """One run."""
    began, one = time.process_time(), case.calibration
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            if route == "outputs" and one is not None:
                fun = Timed(one.simulate)
                found = ps.sample(fun, case.prior, one.data, sigma=one.sigma, maxfev=maxfev, rng=seed)
            else:
                fun, emulate = Timed(case.log_likelihood), route == "number"
                found = ps.sample(fun, case.prior, vectorized=True, maxfev=maxfev, emulate=emulate, rng=seed)
        except Exception as error:
            return {"error": f"{type(error).__name__}: {error}"[:300]}
    own = time.process_time() - began - fun.seconds
    return {
        "evaluations": found.n_evaluations,
        "off": found.log_evidence - case.log_evidence,
        "stated": found.log_evidence_error,
        "mean_off": float(np.abs((found.mean() - case.mean) / case.sd).max()),
        "sd_off": float(np.abs(found.std() / case.sd - 1).max()),
        "success": found.success,
        "method": found.method,
        "own_ms": round(1000 * own / found.n_evaluations, 3),
        "climbs": [int(n) for n in found.diagnostics.get("climbs", [])] if route != "draws" else None,
        "message": found.message,
    }


def is_wrong(row: dict[str, Any]) -> bool:
    return abs(row["off"]) > max(CLOSE, MANY * row["stated"]) or row["mean_off"] > FAR


def is_silent(row: dict[str, Any]) -> bool:
    return row["success"] and is_wrong(row)


def is_false_alarm(row: dict[str, Any]) -> bool:
    return not row["success"] and abs(row["off"]) <= CLOSE and row["mean_off"] <= FAR


def cells(rows: list[dict[str, Any]]) -> list[str]:
    """The columns of ``HEAD`` for some runs; those that broke count as far off."""
    ended = [row for row in rows if "error" not in row]
    broken = len(rows) - len(ended)
    off = np.array([abs(row["off"]) for row in ended] + [math.inf] * broken)
    claimed = [row for row in ended if row["success"]]
    ratio = np.array([row["off"] / row["stated"] for row in claimed if not is_wrong(row)])
    counts = [len(claimed), *(sum(map(kind, ended)) for kind in (is_silent, is_false_alarm))]
    return [
        f"{np.median([row['evaluations'] for row in ended]):.0f}" if ended else "-",
        f"{np.median(off):.2g}",
        f"{np.count_nonzero(off <= CLOSE)} of {len(rows)}",
        f"{math.sqrt(np.mean(ratio**2)):.2f}" if len(ratio) else "-",
        *(f"{max(row[kind] for row in claimed):.2g}" if claimed else "-" for kind in ("mean_off", "sd_off")),
        *(f"{n}" for n in counts),
        f"{np.median([row['own_ms'] for row in ended]):.1f}" if ended else "-",
    ]


def markdown(head: tuple[str, ...], lines: list[list[str]]) -> str:
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [head, ["---"] * len(head), *lines]) + "\n"


def group_of(name: str) -> str:
    """The kind of a problem, and whether it was held out."""
    kind = "calibrations" if name in CALIBRATIONS else "log likelihoods"
    return f"{kind}, held out" if name in HELD_OUT else kind


def tables(rows: list[dict[str, Any]]) -> tuple[str, str]:
    """A table of groups of problems, and one of problems."""
    found: list[list[list[str]]] = [[], []]
    for lines, label in zip(found, (group_of, lambda name: f"{name}{' *' * (name in HELD_OUT)}"), strict=True):
        for title in dict.fromkeys(map(label, NAMES)):
            for route in ROUTES:
                for budget in BUDGETS:
                    some = [r for r in rows if (label(r["problem"]), r["route"], r["budget"]) == (title, route, budget)]
                    if some and (label is group_of or route != "draws"):
                        lines.append([title, route, budget, *cells(some)])
    titles = ("problems", "by", "budget")
    return markdown((*titles, *HEAD), found[0]), markdown(("problem", *titles[1:], *HEAD), found[1])


def wanted(names: list[str], routes: list[str], seeds: int) -> list[tuple[int, str, str, str]]:
    """Seeds, problems, routes and budgets; one seed is enough to show what draws do."""
    return [
        (seed, name, route, budget)
        for seed in range(1, seeds + 1)
        for name in names
        for route in routes
        for budget in BUDGETS
        if (route != "outputs" or name in CALIBRATIONS) and (route != "draws" or seed == 1)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", nargs="+", choices=NAMES, default=NAMES)
    parser.add_argument("--routes", nargs="+", choices=ROUTES, default=list(ROUTES))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--again", action="store_true", help="also run again what another version has run")
    parser.add_argument("--table", action="store_true", help="run nothing")
    parser.add_argument("--write", action="store_true", help="write the tables of the docs")
    parser.add_argument("--results", type=Path, default=RESULTS)
    given = parser.parse_args()
    lines = given.results.read_text().splitlines() if given.results.exists() else []
    known = {row["key"]: row for row in map(json.loads, lines)}
    ours = version()
    for seed, name, route, budget in [] if given.table else wanted(given.problems, given.routes, given.seeds):
        key = f"{name}|{route}|{budget}|{seed}"
        if key in known and not (given.again and known[key]["version"] != ours):
            continue
        case = load(name)
        row = measure(case, route, BUDGETS[budget](len(case.prior)), seed)
        about = {"key": key, "problem": name, "route": route, "budget": budget, "seed": seed, "version": ours}
        known[key] = about | row
        with given.results.open("a") as file:
            file.write(json.dumps(known[key]) + "\n")
        kind = "ERROR" if "error" in row else "SILENT" if is_silent(row) else "wrong" if is_wrong(row) else ""
        shown = {name: value for name, value in row.items() if name not in ("message", "method")}
        print(key, kind, json.dumps(shown), "" if row.get("success") else row.get("message"), flush=True)
    both = tables(list(known.values()))
    if given.write:
        for part, text in zip(("few", "few_problems"), both, strict=True):
            (PAGES / f"{part}.inc").write_text(f"Made by `python benchmarks/few_simulations.py`.\n\n{text}")
    print("\n" + "\n".join(both))


if __name__ == "__main__":
    main()
