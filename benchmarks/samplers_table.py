"""The table of ``samplers.py``: errors and cost of each sampler.

Errors are root mean squares over finished runs. If a run of paoswarm reports an infinite error (``stated``), it has
declared itself unreliable. Such runs are counted as withheld and left out of the row ``paoswarm``. The row
``paoswarm, all`` includes them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from posterior_problems import IN_SAMPLE, Problem, load

OURS, ALL = "paoswarm", "paoswarm, all"
KINDS = ("evidence", "mean", "sd")
HEAD = ["problem", "sampler", "finished", "withheld", "evaluations", "log evidence", "ratio", "mean", "sd"]
HEAD += [f"{kind} *" for kind in KINDS]
NOTE = (
    "log evidence: rms error. ratio: rms of error / stated error. mean: rms error of the means, in posterior sd.\n"
    "sd: rms of log(sd / reference). *: multiplied by sqrt(evaluations / paoswarm's evaluations), for equal cost."
)


class Line(NamedTuple):
    """The results of one sampler on one problem."""

    runs: int
    finished: int
    withheld: int
    evaluations: float
    errors: tuple[float, float, float]  # evidence, mean, sd
    ratio: float


known: Callable[[str], Problem] = cache(load)


def rms(values: Any) -> float:
    """Root mean square; NaN for no values."""
    values = np.asarray(values, dtype=float)
    return math.sqrt(np.mean(values**2)) if len(values) else math.nan


def off(row: dict[str, str]) -> tuple[float, float, float]:
    """Return the errors of a run: log evidence, mean, sd."""
    problem = known(row["problem"])
    mean, sd = (np.array(row[key].split(";"), dtype=float) for key in ("mean", "sd"))
    with np.errstate(divide="ignore"):
        moments = rms((mean - problem.mean) / problem.sd), rms(np.log(sd / problem.sd))
    return float(row["log_evidence"]) - problem.log_evidence, *moments


def line(rows: list[dict[str, str]], with_withheld: bool) -> Line:
    finished = [row for row in rows if row["finished"] == "True"]
    trusted = [row for row in finished if float(row["stated"]) != math.inf]
    used = finished if with_withheld else trusted
    stated = [row for row in used if 0 < float(row["stated"]) < math.inf]
    return Line(
        len(rows),
        len(finished),
        len(finished) - len(trusted),
        float(np.mean([float(row["evaluations"]) for row in used])) if used else math.nan,
        tuple(rms([off(row)[i] for row in used]) for i in range(3)),  # type: ignore[arg-type]
        rms([off(row)[0] / float(row["stated"]) for row in stated]),
    )


def scaled(one: Line, ours: Line | None) -> list[float]:
    """Errors scaled to paoswarm's number of evaluations."""
    cost = one.evaluations / ours.evaluations if ours else math.nan
    return [error * math.sqrt(cost) for error in one.errors]


def summary(lines: dict[tuple[str, str], Line], ours: str, peers: list[str], problems: list[str]) -> list[list[str]]:
    """For each peer: on how many problems paoswarm's error at equal cost is smaller, and the median ratio of errors.

    A problem counts if the peer finished at least half of its runs. The last column is the number of other problems.
    """
    table = []
    for peer in peers:
        both = [name for name in problems if (name, ours) in lines and (name, peer) in lines]
        able = [name for name in both if 2 * lines[name, peer].finished >= lines[name, peer].runs]
        cells = [peer]
        for i in range(3):
            pairs = [(lines[n, ours].errors[i], scaled(lines[n, peer], lines[n, ours])[i]) for n in able]
            ratio = np.array([theirs / mine for mine, theirs in pairs if math.isfinite(mine) and math.isfinite(theirs)])
            cells.append(f"{(ratio > 1).sum()} of {len(ratio)} ({number(np.median(ratio))})" if len(ratio) else "-")
        table.append([*cells, str(len(both) - len(able))])
    return table


def number(value: float) -> str:
    return f"{value:.3g}" if math.isfinite(value) else "-"


def lay_out(head: list[str], table: list[list[str]], markdown: bool) -> str:
    if markdown:
        return "\n".join("| " + " | ".join(cells) + " |" for cells in [head, ["---"] * len(head), *table])
    widths = [max(len(cells[i]) for cells in [head, *table]) for i in range(len(head))]
    aligned = [[cells[0].ljust(widths[0]), cells[1].ljust(widths[1])] for cells in [head, *table]]
    rest = [[cell.rjust(width) for cell, width in zip(c[2:], widths[2:], strict=True)] for c in [head, *table]]
    return "\n".join("  ".join(left + right) for left, right in zip(aligned, rest, strict=True))


def cell(one: Line | None) -> str:
    """Evaluations in thousands, error of the log evidence (divided by the stated error), error of the mean."""
    if one is None:
        return ""
    if 2 * one.finished < one.runs or not one.finished:
        return "did not finish"
    evidence = " -" if math.isnan(one.errors[0]) else f" {one.errors[0]:.2g}"
    honest = "" if math.isnan(one.ratio) else f" ({one.ratio:.2g})"
    return f"{one.evaluations / 1000:.0f} k:{evidence}{honest}, {one.errors[1]:.2g}"


def overview(lines: dict[tuple[str, str], Line], samplers: list[str], problems: list[str]) -> str:
    """A Markdown table with a row for each problem and a column for each sampler."""
    most = {
        sampler: max((one.runs for (_, s), one in lines.items() if s == sampler), default=0) for sampler in samplers
    }
    head = ["problem", *[f"{sampler} ({most[sampler]})" for sampler in samplers]]
    cells = [[f"`{name}`", *[cell(lines.get((name, sampler))) for sampler in samplers]] for name in problems]
    return lay_out(head, cells, markdown=True)


def table(rows: list[dict[str, str]], samplers: list[str], problems: list[str], seeds: int, markdown: bool) -> str:
    lines: dict[tuple[str, str], Line] = {}
    for name in problems:
        for sampler in samplers:
            runs = [r for r in rows if (r["problem"], r["sampler"]) == (name, sampler) and int(r["seed"]) < seeds]
            if runs:
                lines[name, sampler] = line(runs, with_withheld=False)
            if runs and sampler == OURS:
                lines[name, ALL] = line(runs, with_withheld=True)
    cells = []
    for (name, sampler), one in lines.items():
        if sampler == ALL and not one.withheld:
            continue
        count = f"{one.evaluations:,.0f}" if one.finished and math.isfinite(one.evaluations) else "-"
        first = [name, sampler, f"{one.finished} of {one.runs}", str(one.withheld), count]
        ours = lines.get((name, ALL if sampler == ALL else OURS))
        values = [one.errors[0], one.ratio, *one.errors[1:], *scaled(one, ours)]
        cells.append(first + [number(value) for value in values])
    parts = [overview(lines, samplers, problems)] if markdown else [lay_out(HEAD, cells, markdown), NOTE]
    peers = [sampler for sampler in samplers if sampler != OURS]
    head = ["peer", *[f"{kind}: paoswarm better (median ratio)" for kind in KINDS], "unfinished"]
    for title, group in (("in sample", True), ("held out", False)):
        chosen = [name for name in problems if (name in IN_SAMPLE) == group]
        for ours in (OURS, ALL):
            if any((name, ours) in lines for name in chosen):
                parts.append(f"{title}, {ours}: problems on which its error at equal cost is smaller")
                parts.append(lay_out(head, summary(lines, ours, peers, chosen), markdown))
    return "\n\n".join(parts)
