"""The tables of `fit.py`, in Markdown.

*Solved*: a point was evaluated whose sum of squares, without noise, is within 1 % (1e-6) of the best known one; in the
set ``wild`` within 1e-5 (1e-9) of the value at the standard start, if that is more. A search that has said that it is
done is over: what it would find later does not count. The mean of a table of what is solved is geometric, and an
unsolved run counts as 1000. *Rounds* are medians; a search without workers takes as many as evaluations. *Own µs* is
the median time that a search itself takes for each evaluation.

`write` makes the tables of the page "How good is it?", from the runs of the first seeds.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from fit_problem import LEVELS
from fit_searchers import NAMES, WITHOUT_CLAIMS

BUDGETS = (5, 10, 20, 50, 100, 200, 500)
UNSOLVED = 1000
TITLES = {
    "ode": "ODE calibrations",
    "nist": "NIST in wide boxes",
    "wild": "Moré-Wild",
    "rugged": "Rugged fits",
    "large": "Large data",
    "noise1e-3": "NIST + ODE, noise 1e-3",
    "noise1e-2": "NIST + ODE, noise 1e-2",
}
HALVES = {"all": (False, True), "development": (False,), "held out": (True,)}


def print_tables(cases, known, searchers, sets, half=None):
    """Print the tables of one half, or of all problems and, of the largest sets, of each half.

    ``known`` are the runs that are there, by the keys of their cases.
    """
    parts = [(TITLES[name], (name,)) for name in sets]
    if {"ode", "nist"} <= set(sets):
        parts.insert(2, ("NIST + ODE", ("ode", "nist")))
    for title, names in parts:
        is_large = len(names) > 1 or names[0] in ("wild", "noise1e-3", "noise1e-2")
        for part in [half] if half else HALVES if is_large else ["all"]:
            own = [case for case in cases if case.set in names and case.held_out in HALVES[part]]
            is_exact = part in ("all", half) and not names[0].startswith("noise")
            if any(case.key in known for case in own):
                _tables(f"{title}, {part}", own, known, searchers, LEVELS if is_exact else LEVELS[:1])


def _tables(title, cases, known, searchers, levels):
    solved, claimed = [[] for _ in levels], []
    for name in searchers:
        wanted = [case.key for case in cases if case.searcher == name]
        if rows := [known[key] for key in wanted if key in known]:
            runs = f"{len(rows)}" + (f" of {len(wanted)}" if len(rows) < len(wanted) else "")
            for level, lines in enumerate(solved):
                lines.append((NAMES[name], [runs, *_solved(rows, level)]))
            claimed.append((NAMES[name], [runs, *_claims(rows, name not in WITHOUT_CLAIMS), *_own(rows)]))
    for about, lines in zip(levels, solved, strict=True):
        _print(f"{title}: solved within {about}, %, by evaluations for each unknown",
               ["runs", *map(str, BUDGETS), "mean"], lines)  # fmt: skip
    columns = ["runs", "claims", "wrong", "median", "mean", "rounds to 1 %", "to the claim"]
    _print(f"{title}: claims to be done, and evaluations for each unknown until then",
           [*columns, "own µs", "time limit", "errors"], claimed)  # fmt: skip


def _hits(rows, level):
    return np.array([np.inf if row["hits"][level] is None else row["hits"][level] / row["n"] for row in rows])


def _solved(rows, level):
    hits = _hits(rows, level)
    mean = np.exp(np.mean(np.log(np.where(hits < UNSOLVED, hits, UNSOLVED))))
    return [*(f"{100 * np.mean(hits <= budget):.0f}" for budget in BUDGETS), f"{mean:.1f}"]


def _claims(rows, can_claim):
    first = [row["hit_rounds"][0] for row in rows if row["hit_rounds"][0] is not None]
    claims = [row for row in rows if "claim" in row]
    wrong = [row["problem"] for row in claims if row["wrong"]]
    efforts = [row["claim"] / row["n"] for row in claims]
    last = [row["claim_rounds"] for row in claims]
    named = f" ({_counted(wrong)})" if wrong else ""
    cells = [str(len(claims)), f"{len(wrong)}{named}"] if can_claim else ["-", "-"]
    numbers = [(np.median, efforts), (np.mean, efforts), (np.median, first), (np.median, last)]
    return [*cells, *(f"{take(some):.0f}" if some else "-" for take, some in numbers)]


def _counted(names):
    return ", ".join(f"{name} {names.count(name)}" if names.count(name) > 1 else name for name in dict.fromkeys(names))


def _own(rows):
    ended = [sum(kind in row for row in rows) for kind in ("timed_out", "error")]
    return [f"{np.median([row['own_us'] for row in rows]):.0f}", *map(str, ended)]


def _print(title, columns, lines):
    if lines:
        print(f"\n{title}\n\n| | " + " | ".join(columns) + " |\n|---|" + "---|" * len(columns))
        for name, cells in lines:
            print(f"| {name} | " + " | ".join(cells) + " |")


COLUMNS = {  # of the page: titles, sets, and which half
    "ODE": (("ode",), "all"),
    "NIST": (("nist",), "all"),
    "both, held out": (("ode", "nist"), "held out"),
    "Moré-Wild": (("wild",), "all"),
    "rugged": (("rugged",), "all"),
    "noise 10<sup>-3</sup>, held out": (("noise1e-3",), "held out"),
}
SERIAL = [name for name in NAMES if not name.startswith("ours-")]
SHORT = ("ODE", "NIST", "both, held out")
PAGES = Path(__file__).parent.parent / "docs" / "how_good"


def write(cases, known):
    """Write the tables of the documentation."""

    def rows_of(name, column):
        sets, half = COLUMNS[column]
        own = [one for one in cases if one.set in sets and one.searcher == name and one.held_out in HALVES[half]]
        is_there = all(one.key in known for one in own if one.seed == 1)  # else a mean would be one of easy problems
        return [known[one.key] for one in own if one.key in known] if is_there else []

    def solved(columns):
        lines = [[NAMES[name], *(_reached(rows_of(name, one)) for one in columns)] for name in SERIAL]
        return _markdown(["", *columns], lines)

    (PAGES / "fits_short.inc").write_text(solved(SHORT) + "\n")
    text = [solved(COLUMNS)]
    claims = []
    for name in SERIAL:
        rows = [known[one.key] for one in cases if one.searcher == name and one.key in known
                and one.set in ("ode", "nist", "wild")]  # fmt: skip
        if name not in WITHOUT_CLAIMS and rows:
            said, wrong, effort = _claims(rows, True)[:3]
            claims.append([NAMES[name], str(len(rows)), said, wrong.split(" ")[0], effort])
    text.append(_markdown(["", "runs", "claims", "wrong", "simulations for each unknown, median"], claims))
    (PAGES / "fits.inc").write_text("\n\n".join(text) + "\n")


def _reached(rows):
    """The mean of simulations for each unknown, and the share of runs that are solved."""
    if not rows:
        return "-"
    *_, solved, mean = _solved(rows, 0)
    mean = float(mean)
    number = f"{mean:.1f}" if mean < 100 else f"{mean:.0f}"
    return f"{number}\u00a0({solved}\u00a0%)"  # on one line


def _markdown(columns, lines):
    rows = [columns, ["---"] * len(columns), *lines]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in rows)


def print_each(runs, searchers):
    """One line for each problem and search: evaluations for each unknown to 1 %, to 1e-6, and to the claim, by seed."""
    cases = {}
    for case, row in runs:
        cases.setdefault((case.set, case.problem, case.searcher), []).append((case.seed, row))
    order = {name: i for i, name in enumerate(searchers)}
    for (group, problem, searcher), rows in sorted(cases.items(), key=lambda one: (*one[0][:2], order[one[0][2]])):
        cells = []
        for _, row in sorted(rows, key=lambda one: one[0]):
            hits = [f"{hit / row['n']:.0f}" if hit else "-" for hit in row["hits"]]
            claim = f"{row['claim'] / row['n']:.0f}{'!' if row['wrong'] else ''}" if "claim" in row else "-"
            ended = "".join(mark for kind, mark in (("timed_out", " time"), ("error", " error")) if kind in row)
            cells.append("/".join([*hits, claim]) + ended)
        print(f"{group:10} {problem:26} {searcher:14} {rows[0][1]['n']:2}  " + "  ".join(cells))


def print_surprises(runs):
    """Say where a run is better than the best known sum of squares, and what broke."""
    for case, row in runs:
        if row["best"] < case.minimum * (1 - 1e-7) - 1e-20:
            print(f"better than known: {case.key}: {row['best']:.12g} instead of {case.minimum:.12g}")
        if "error" in row:
            print(f"error: {case.key}: {row['error']}")
