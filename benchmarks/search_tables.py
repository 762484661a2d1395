"""The tables of `search.py`, in Markdown.

- bbob: the share of 51 targets, 1e2 to 1e-8 above the minimum, that is reached within so many evaluations for each
  unknown.
- classic, nist, ode: the share of runs that reach the target, and the median of evaluations for each unknown of the
  runs that do.
- paper: the median over runs of how far the value found is above the minimum.

Shares are means over problems with their standard errors; in brackets the difference to the first search, with its own
standard error. The last column says which commit, and which version of a peer's package, the runs come from.
"""

from __future__ import annotations

from bisect import bisect

import numpy as np
from search_sets import BBOB_TARGETS, LIMITS
from searchers import TOLD

MARKS = (5, 10, 20, 50, 100, *LIMITS)  # of bbob: evaluations for each unknown
BBOB_GROUPS = {
    "all functions": range(1, 25),
    "separable": range(1, 6),
    "moderate": range(6, 10),
    "ill-conditioned": range(10, 15),
    "multimodal": range(15, 20),
    "weak structure": range(20, 25),
}
SHORT_ROWS = [*((mark, "all functions") for mark in (50, *LIMITS)), (2000, "multimodal")]
SIZES = {
    "all": range(100),
    "2 unknowns": range(2, 3),
    "3 and 4": range(3, 5),
    "5 to 10": range(5, 11),
    "3 and more": range(3, 100),
}
TINY = 1e-8  # what is closer to the minimum counts as there, in the paper's set


def print_tables(kind, cases, names, known):
    """Print the tables of a set, for the searches that have made all runs of one seed or instance at least."""
    print(f"Made by `python benchmarks/search.py {kind}`.")
    {"bbob": _bbob, "classic": _classic, "nist": _each, "ode": _each, "paper": _paper}[kind](cases, names, known)


def print_short(sets, names, known):
    """Print one table of the sets of cases, by their names: means, and how far the first search is ahead."""
    rows = []
    for dim in sorted({case.dim for case in sets["bbob"]}):
        runs = {name: _runs(sets["bbob"], dim, name, known) for name in names}
        for mark, group in SHORT_ROWS:
            shares = [_reached(runs[name], name, mark, BBOB_GROUPS[group]) for name in names]
            rows.append((f"bbob, {dim} unknowns, {group}, {mark:,} evaluations for each", shares))
    held_out = [case for case in sets["classic"] if case.group == "held out"]
    for title, cases in {
        "classic functions held out": held_out,
        "the same, 3 unknowns and more": [case for case in held_out if case.dim >= 3],
        "NIST's regressions": sets["nist"],
        "calibrations of differential equations": sets["ode"],
    }.items():
        rows.append((title, [_solved(_rows(cases, name, known)) for name in names]))
    shown = [i for i in range(len(names)) if any(shares[i] for _, shares in rows)]
    lines = [(title, _compared([shares[i] for i in shown])) for title, shares in rows]
    title = "Made by `python benchmarks/search.py all`. Targets reached or problems solved, %:"
    _print(title, [*(names[i] for i in shown), "ahead of the best other"], lines)


def _compared(shares):
    """Means, the best in bold, and the difference of the first to the best of the others, on what both have run."""
    gaps = [_gaps(own, shares[0]) for own in shares]
    ahead = [_mean(gap)[0] if gap else -np.inf for gap in gaps]
    cells = [f"{_mean(own)[0]:.1f}" if own else "-" for own in shares]
    best = cells[int(np.argmax(ahead))]
    cells = [f"**{cell}**" if cell == best != "-" else cell for cell in cells]
    return [*cells, _difference(shares[0], shares[1 + int(np.argmax(ahead[1:]))])]


def _print(title, columns, lines):
    print(f"\n{title}\n")
    if not lines:
        print("No search has made all these runs yet.")
        return
    print("| | " + " | ".join(columns) + " |\n|---|" + "---|" * len(columns))
    for name, cells in lines:
        print(f"| {name} | " + " | ".join(cells) + " |")


def _bbob(cases, names, known):
    runs = {dim: [_runs(cases, dim, name, known) for name in names] for dim in sorted({case.dim for case in cases})}
    for group, functions in BBOB_GROUPS.items():
        for dim, own in runs.items():
            shares = [
                [_reached(some, name, mark, functions) for mark in MARKS] for name, some in zip(names, own, strict=True)
            ]
            lines = [
                (name, [*map(_cell, each, shares[0]), *_notes([pair for pairs in some.values() for pair in pairs])])
                for name, some, each in zip(names, own, shares, strict=True)
                if any(each)
            ]
            title = f"{dim} unknowns, {group}: targets reached, %, by evaluations for each unknown"
            _print(title, [*(f"{mark:,}" for mark in MARKS), "instances", "errors", "version"], lines)


def _runs(cases, dim, name, known):
    """Pairs of a case and its run in so many dimensions, by limit."""
    return {
        limit: _rows([one for one in cases if (one.dim, one.limit) == (dim, limit)], name, known) for limit in LIMITS
    }


def _reached(runs, name, mark, functions):
    """Shares of targets reached within so many evaluations for each unknown, by problem and instance."""
    limit = next(one for one in LIMITS if one >= mark)
    pairs = [] if name in TOLD and mark != limit else runs[limit]
    return {
        _problem(case): 100 * bisect(row["hits"], mark * case.dim) / len(BBOB_TARGETS)
        for case, row in pairs
        if int(case.function) in functions
    }


def _solved(pairs):
    """100 for each run that reached its target, 0 for the others."""
    return {_problem(case): 100 * bool(row["hits"]) for case, row in pairs}


def _problem(case):
    return case.function, case.dim, case.instance


def _rows(cases, name, known):
    """Pairs of a case and its run, for all cases of the seeds that are complete."""
    seeds = {}
    for case in cases:
        seeds.setdefault(case.instance, []).append((case, case.run(name, known)))
    complete = [pairs for pairs in seeds.values() if all(row is not None for _, row in pairs)]
    return [pair for pairs in complete for pair in pairs]


def _mean(shares):
    """Mean over problems, each a mean over its runs, and its standard error."""
    problems = {}
    for (*problem, _), share in shares.items():
        problems.setdefault(tuple(problem), []).append(share)
    means = [np.mean(runs) for runs in problems.values()]
    return np.mean(means), np.std(means, ddof=1) / len(means) ** 0.5 if len(means) > 1 else np.nan


def _gaps(shares, first):
    """Differences to the first search, of what both have run."""
    return {key: share - first[key] for key, share in shares.items() if key in first}


def _difference(shares, first):
    gaps = _gaps(shares, first)
    return "{:+.1f} ± {:.1f}".format(*_mean(gaps)) if gaps else "-"


def _cell(shares, first):
    """Mean, standard error, and the difference to the first search."""
    if not shares:
        return "-"
    text = "{:.1f} ± {:.1f}".format(*_mean(shares))
    return text if shares is first else f"{text} ({_difference(shares, first)})"


def _effort(pairs):
    hits = [row["hits"][-1] / case.dim for case, row in pairs if row["hits"]]
    return f"{np.median(hits):.0f}" if hits else "-"


def _notes(pairs):
    """Number of seeds, of runs that ended in an error, and their versions."""
    rows = {id(row): row for _, row in pairs}.values()
    versions = sorted({row["version"] for row in rows})
    return [
        str(len({case.instance for case, _ in pairs})),
        str(sum("error" in row for row in rows)),
        "; ".join(versions),
    ]


def _classic(cases, names, known):
    for group in ("held out", "tuning"):
        part = [case for case in cases if case.group == group]
        runs = {name: pairs for name in names if (pairs := _rows(part, name, known))}
        shares = [
            [_solved([pair for pair in pairs if pair[0].dim in size]) for size in SIZES.values()]
            for pairs in runs.values()
        ]
        lines = [
            (name, [*map(_cell, own, shares[0]), _effort(pairs), *_notes(pairs)])
            for (name, pairs), own in zip(runs.items(), shares, strict=True)
        ]
        n = len({(case.function, case.dim) for case in part})
        columns = [*SIZES, "evaluations for each unknown", "seeds", "errors", "version"]
        _print(f"Classic functions, {group}, {n} problems: solved, %", columns, lines)


def _each(cases, names, known):
    groups = list(dict.fromkeys(case.group for case in cases))
    runs = {name: pairs for name in names if (pairs := _rows(cases, name, known))}
    shares = [_solved(pairs) for pairs in runs.values()]
    lines = []
    for (name, pairs), own in zip(runs.items(), shares, strict=True):
        cells = [_cell(own, shares[0])]
        for group in groups:
            some = [pair for pair in pairs if pair[0].group == group]
            cells.append(f"{_mean(_solved(some))[0]:.1f} ({_effort(some)})")
        lines.append((name, [*cells, *_notes(pairs)]))
    _print("Solved, % (evaluations for each unknown)", ["all", *groups, "seeds", "errors", "version"], lines)


def _paper(cases, names, known):
    for group in dict.fromkeys(case.group for case in cases):
        part = [case for case in cases if case.group == group]
        functions = list(dict.fromkeys(case.function for case in part))
        lines = []
        for name in names:
            if pairs := _rows(part, name, known):
                cells = []
                for function in functions:
                    excess = np.median([row["excess"] for case, row in pairs if case.function == function])
                    cells.append("0" if excess <= TINY else f"{excess:.1e}")
                lines.append((name, [*cells, *_notes(pairs)]))
        columns = [function.removesuffix(group) for function in functions]
        _print(
            f"The paper's functions{group.replace('-', ', ').replace('1', '')}",
            [*columns, "seeds", "errors", "version"],
            lines,
        )
