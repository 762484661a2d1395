"""The tables of `mixed_constrained.py`, in Markdown, from the runs that are there.

- Suites: the share of 15 targets that are reached, for each number of variables, over all functions and in groups.
- Single problems: in how many runs each problem was solved, and the median number of evaluations that it took.

A search appears with the instances of which it has made all runs. *paoswarm ahead by* is the mean difference of scores
on the instances that both have made, after the evaluations that both had. Functions are given and instances are drawn,
so a standard error is that of a mean over instances: ``sqrt(sum_f var_f / n) / F`` for ``n`` instances of ``F``
functions, where ``var_f`` is the variance among instances of one function.
"""

from __future__ import annotations

import numpy as np
from coco_suites import FUNCTIONS
from mixed_searchers import CAPS, OURS
from mixed_sets import FIGURES, GROUPS, PER_VARIABLE, SETS, TARGETS, problems

UNTOLD = "AdaptivePAO, rounded, NaN"  # ours too: not one of the others
TITLES = {
    "bbob-constrained": "constraints, COCO",
    "cec2006": "constraints, CEC 2006",
    "designs": "engineering designs",
    "bbob-mixint": "integers, COCO",
    "exponentials": "sums of exponentials",
}


def tables(known):
    """All tables by the name of their file: one for each set, and a summary."""
    made = {name: _suite(name, known) if name in FUNCTIONS else _solved(name, known) for name in SETS}
    return made | {"short": _short(known)}


def complete_runs(known, name, dim, search):
    """The runs of a search by instance, for instances of which all problems were run."""
    runs = {}
    for instance in FIGURES:
        rows = [known.get(f"{search}|{label}") for label, _ in problems(name, dim, instance)]
        if all(row is not None for row in rows):
            runs[instance] = rows
    return runs


def hits_of(runs):
    """Evaluations per variable at which targets were reached, ``(instances, problems, targets)``; inf if never."""
    hits = np.full((len(runs), len(next(iter(runs.values()))), len(TARGETS)), np.inf)
    for i, rows in enumerate(runs.values()):
        for j, row in enumerate(rows):
            hits[i, j, : len(row["hits"])] = np.array(row["hits"]) / int(row["key"].split("|")[3])
    return hits


def solved_at(runs):
    """Evaluations after which problems were solved, ``(instances, problems)``; inf if never."""
    return np.array([[np.inf if row["solved"] is None else row["solved"] for row in rows] for rows in runs.values()])


def mean_and_error(scores):
    """The mean of scores ``(instances, problems)`` and its standard error, NaN with one instance."""
    n, count = scores.shape
    error = np.sqrt(scores.var(axis=0, ddof=1).sum() / n) / count if n > 1 else np.nan
    return scores.mean(), error


def ahead_by(name, ours, other, cap=PER_VARIABLE):
    """The instances that both have made; the mean difference of their scores there, and its standard error."""
    both = [instance for instance in ours if instance in other]
    if not both:
        return both, np.nan, np.nan
    pair = [_scores(name, {instance: runs[instance] for instance in both}, cap) for runs in (ours, other)]
    return both, *mean_and_error(pair[0] - pair[1])


def _scores(name, runs, limit=PER_VARIABLE):
    if name in FUNCTIONS:
        return (hits_of(runs) <= limit).mean(axis=2)
    return np.isfinite(solved_at(runs)).astype(float)


def _with_error(mean, error, sign=""):
    known = error > 0  # it is NaN with one instance, and 0 where all instances are alike, which says nothing
    return f"{mean:{sign}.3f}" + (f" ± {error:.3f}" if known else "")


def _markdown(columns, lines):
    head = "| | " + " | ".join(columns) + " |\n|---|" + "---|" * len(columns)
    return "\n".join([head, *(f"| {name} | " + " | ".join(cells) + " |" for name, cells in lines)])


def _bold(search):
    return f"**{search}**" if search == OURS else search


def _suite(name, known):
    parts = []
    for dim in SETS[name]["dims"]:
        runs = {search: complete_runs(known, name, dim, search) for search in SETS[name]["searches"]}
        lines = [(_bold(search), _suite_cells(name, runs, search)) for search in runs if runs[search]]
        columns = ["score", *GROUPS[name], "at 100", "at 300", "area", "feasible", "own μs", "instances"]
        if name == "bbob-mixint":
            columns.remove("feasible")  # there are no constraints
        title = f"{dim} variables, {len(FUNCTIONS[name])} functions"
        parts.append(f"{title}\n\n{_markdown([*columns, f'{OURS} ahead by'], lines)}\n")
    return "\n".join(parts)


def _suite_cells(name, runs, search):
    own, cap = runs[search], CAPS.get(search, PER_VARIABLE)
    hits, numbers = hits_of(own), list(FUNCTIONS[name])
    full = cap == PER_VARIABLE
    cells = [_with_error(*mean_and_error(_scores(name, own))) if full else "-"]
    for group in GROUPS[name].values():
        part = hits[:, [numbers.index(number) for number in group]]
        cells.append(f"{np.isfinite(part).mean():.3f}" if full else "-")
    cells += [f"{(hits <= limit).mean():.3f}" if limit <= cap else "-" for limit in (100, 300)]
    area = np.maximum(1 - np.log10(np.maximum(hits, 1)) / np.log10(PER_VARIABLE), 0)
    cells.append(f"{area.mean():.3f}" if full else "-")
    rows = [row for rows in own.values() for row in rows]
    if name != "bbob-mixint":
        cells.append(f"{np.mean([row['feasible'] is not None for row in rows]):.2f}")
    cells += [f"{np.mean([row['microseconds'] for row in rows]):.0f}", str(len(own))]
    _, *ahead = ahead_by(name, runs.get(OURS, {}), own, cap)
    return [*cells, "" if search == OURS else _with_error(*ahead, sign="+")]


def _solved(name, known):
    searches = SETS[name]["searches"]
    by_problem = {search: {} for search in searches}
    for search in searches:
        for dim in SETS[name]["dims"]:
            for rows in complete_runs(known, name, dim, search).values():
                for row in rows:
                    by_problem[search].setdefault(row["key"].split("|")[2], []).append(row["solved"] or np.inf)
    shown = [search for search in searches if by_problem[search]]
    titles = list(dict.fromkeys(title for search in shown for title in by_problem[search]))
    lines = [
        (f"{title} terms" if name == "exponentials" else title, [_count(by_problem[s].get(title, [])) for s in shown])
        for title in titles
    ]
    everything = [[time for times in by_problem[search].values() for time in times] for search in shown]
    lines.append(("**all**", [f"{np.isfinite(times).sum()}/{len(times)}" for times in everything]))
    capped = CAPS if name == "exponentials" else {}
    heads = [f"{_bold(s)}, at most {capped[s]} for each" if s in capped else _bold(s) for s in shown]
    return _markdown(heads, lines) + "\n"


def _count(times):
    if not times:
        return "-"
    median = np.median(times)
    return f"{np.isfinite(times).sum()}/{len(times)}" + (f" ({median:,.0f})" if np.isfinite(median) else "")


def _short(known):
    """Ours and the best of the others on the instances that both have made, set by set."""
    lines = []
    for name in TITLES:
        others = [s for s in SETS[name]["searches"] if s not in (OURS, UNTOLD, *CAPS)]
        for dim in SETS[name]["dims"]:
            ours = complete_runs(known, name, dim, OURS)
            pairs = []
            for search in others:
                other = complete_runs(known, name, dim, search)
                both, mean, error = ahead_by(name, ours, other)
                if both:
                    pairs.append((mean, np.median(solved_at(other)), error, search, both, other))
            if pairs:  # of equals, the one with the fewest evaluations
                mean, _, error, search, both, other = min(pairs, key=lambda pair: pair[:2])
                own, best = (_scores(name, {i: runs[i] for i in both}).mean() for runs in (ours, other))
                title = TITLES[name] + (f", {dim} variables" if dim else "")
                ahead = _with_error(mean, error, sign="+")
                lines.append((title, [f"{own:.3f}", f"{best:.3f} {search}", ahead, str(len(both))]))
    return _markdown([f"**{OURS}**", "best of the others", "ahead by", "instances"], lines) + "\n"
