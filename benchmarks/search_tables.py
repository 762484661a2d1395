"""The tables of `search.py`, in Markdown.

- bbob: a search is judged by the evaluations that it takes to come within 51 targets, 1e2 to 1e-8, of the minimum.
  *Solved* is the share of (function, instance, target) reached within the budget. *Area* is the area under the share
  reached, over the logarithm of evaluations per unknown from 1 to the budget. A run with a larger budget is scored at
  smaller ones too.
- classic, nist, ode: the share of runs that reach the target, and the median of evaluations for each unknown of the
  runs that do.
- paper: the median over runs of how far the value found is above the minimum.
"""

from __future__ import annotations

import numpy as np
from search_sets import BBOB_TARGETS

BUDGETS = (100, 2000, 10_000)  # of bbob
BBOB_GROUPS = {
    "all": range(1, 25),
    "separable": range(1, 6),
    "moderate": range(6, 10),
    "ill-conditioned": range(10, 15),
    "multimodal": range(15, 20),
    "weak structure": range(20, 25),
}
SIZES = {"2 unknowns": range(2, 3), "3 and 4": range(3, 5), "5 to 10": range(5, 11)}
TINY = 1e-8  # what is closer to the minimum counts as there, in the paper's set


def print_tables(kind, cases, names, known):
    """Print the tables of a set, for the searches that have made all runs of one seed or instance at least."""
    {"bbob": _bbob, "classic": _classic, "nist": _shares, "ode": _shares, "paper": _paper}[kind](cases, names, known)


def _print(title, columns, lines):
    print(f"\n{title}\n")
    if not lines:
        print("No search has made all these runs yet.")
        return
    print("| | " + " | ".join(columns) + " |\n|---|" + "---|" * len(columns))
    for name, cells in lines:
        print(f"| {name} | " + " | ".join(cells) + " |")


def _bbob(cases, names, known):
    limit = cases[0].limit
    for dim in sorted({case.dim for case in cases}):
        runs = {name: _rows([case for case in cases if case.dim == dim], name, known) for name in names}
        for budget in [one for one in BUDGETS if one < limit] + [limit]:
            lines = []
            for name, pairs in runs.items():
                if pairs:
                    groups = [[row for case, row in pairs if int(case.function) in g] for g in BBOB_GROUPS.values()]
                    lines.append((name, [*(_score(rows, dim, budget) for rows in groups), *_notes(pairs)]))
            title = f"{dim} unknowns, {budget} evaluations for each: solved / area"
            _print(title, [*BBOB_GROUPS, "instances", "errors"], lines)


def _score(rows, dim, budget):
    """Solved and area, in percent."""
    if not rows:
        return "-"
    hits = np.full((len(rows), len(BBOB_TARGETS)), np.inf)
    for line, row in zip(hits, rows, strict=True):
        line[: len(row["hits"])] = row["hits"]
    hits[hits > budget * dim] = np.inf
    area = np.maximum(1 - np.log10(np.maximum(hits / dim, 1)) / np.log10(budget), 0)
    return f"{100 * np.isfinite(hits).mean():.1f} / {100 * area.mean():.1f}"


def _rows(cases, name, known):
    """Pairs of a case and its run, for all cases of the seeds that are complete."""
    seeds = {}
    for case in cases:
        seeds.setdefault(case.instance, []).append((case, known.get(case.key(name))))
    complete = [pairs for pairs in seeds.values() if all(row is not None for _, row in pairs)]
    return [pair for pairs in complete for pair in pairs]


def _share(pairs):
    return f"{100 * np.mean([bool(row['hits']) for _, row in pairs]):.1f}" if pairs else "-"


def _effort(pairs):
    hits = [row["hits"][-1] / case.dim for case, row in pairs if row["hits"]]
    return f"{np.median(hits):.0f}" if hits else "-"


def _notes(pairs):
    """Number of seeds and of runs that ended in an error."""
    return [str(len({case.instance for case, _ in pairs})), str(sum("error" in row for _, row in pairs))]


def _classic(cases, names, known):
    for group in ("held out", "tuning"):
        part = [case for case in cases if case.group == group]
        lines = []
        for name in names:
            if pairs := _rows(part, name, known):
                cells = [_share(pairs)]
                cells += [_share([pair for pair in pairs if pair[0].dim in size]) for size in SIZES.values()]
                cells.append(_share([pair for pair in pairs if pair[0].dim >= 3]))
                lines.append((name, [*cells, _effort(pairs), *_notes(pairs)]))
        n = len({(case.function, case.dim) for case in part})
        columns = ["solved, %", *SIZES, "3 and more", "evaluations for each unknown", "seeds", "errors"]
        _print(f"Classic functions, {group}: {n} problems", columns, lines)


def _shares(cases, names, known):
    groups = list(dict.fromkeys(case.group for case in cases))
    lines = []
    for name in names:
        if pairs := _rows(cases, name, known):
            cells = [_share(pairs)]
            for group in groups:
                own = [pair for pair in pairs if pair[0].group == group]
                cells.append(f"{_share(own)} ({_effort(own)})")
            lines.append((name, [*cells, *_notes(pairs)]))
    _print("Solved, % (evaluations for each unknown)", ["all", *groups, "seeds", "errors"], lines)


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
            f"The paper's functions{group.replace('-', ', ').replace('1', '')}", [*columns, "seeds", "errors"], lines
        )
