"""The report of a study: one self-contained HTML page, which opens without a network.

Jinja2, Plotly and matplotlib are imported when a report is made.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from base64 import b64encode
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from colorsys import hls_to_rgb, rgb_to_hls
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from urllib.parse import urlencode

import numpy as np
from numpy.typing import NDArray

from paoswarm.helpers import counted, need
from paoswarm.study import figures, statistics
from paoswarm.study.results import Floats, Key, Results, Trace, whole_file
from paoswarm.study.sentences import LEVEL, SOLVED, group_findings, listed, short, standings, verdict
from paoswarm.study.statistics import Summary, Verdict

TARGETS = ("1e1", "1e-1", "1e-3", "1e-5", "1e-8")  # target errors to choose from, as they are shown
POINTS = 120  # of a line in a chart; more are not visible
PANEL_POINTS = 60  # of a line in a printed panel 50 mm wide
VERDICTS = {"holds": "good", "partly": "fair", "does not hold": "bad"}
COMPARED: dict[Verdict, str] = {"better": "good", "not significant": "even", "worse": "bad"}


class Section(NamedTuple):
    """A table with paragraphs before it, in plain text.

    In a column named "Verdict", the cells "holds", "partly" and "does not hold" are shown as coloured badges.
    """

    title: str
    paragraphs: Sequence[str]
    header: Sequence[str]
    rows: Sequence[Sequence[str]]


def write(results: Results, path: str | os.PathLike[str], *, sections: Sequence[Section] = ()) -> Path:
    """Write the report of a study to a file. An existing file is replaced in one step, or left unchanged.

    ``sections`` are further tables, placed before the explanations at the end. Missing folders are created.
    """
    page = render(results, sections=sections)
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as draft:
        draft.write_text(page, encoding="utf-8", newline="\n")
    return path


def render(results: Results, *, sections: Sequence[Section] = ()) -> str:
    """Return the report of a study as one HTML page. The same results give the same page."""
    extra = [_section(section) for section in sections]
    jinja2, plotly = (need(name, extra="study", user="a report") for name in ("jinja2", "plotly.offline"))
    from markupsafe import Markup

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("paoswarm.study"), autoescape=True, undefined=jinja2.StrictUndefined
    )
    environment.filters |= {"short": short, "number": _number}
    folder = files("paoswarm.study") / "templates"
    css, js = (Markup(folder.joinpath(name).read_text(encoding="utf-8")) for name in ("report.css", "report.js"))
    plotly_js = Markup(plotly.get_plotlyjs())
    summaries = {key: statistics.summary(results, *key) for key in results.traces}
    first, *others = _grids(results)
    return environment.get_template("report.html.j2").render(
        title=results.title,
        verdict=verdict(results),
        first=first,
        standings=standings(results),
        solved=f"{SOLVED:g}".replace("e-0", "e-"),
        extent=_extent(results),
        facts=results.facts,
        precision=f"{results.precision:g}".replace("e-0", "e-") if results.precision else "",
        reference=results.reference,
        dims=results.dims,
        problems=[results.titles.get(problem, problem) for problem in results.problems],
        groups=list(results.groups),
        methods=_methods(results),
        findings={name: group_findings(results, name) for name in results.groups},
        tasks=_tasks(results, summaries),
        pairwise=[_pairwise(results, name, group) for name, group in results.groups.items()],
        ranks=[_ranks(results, name, group) for name, group in results.groups.items()],
        dimensions=list(_dimensions(results)),
        grids=others,
        sections=extra,
        targets=TARGETS,
        precisions=statistics.TARGETS,
        compared=COMPARED,
        floor=f"{statistics.FLOOR:g}",
        level=f"{100 * LEVEL:g}\u00a0%",
        policy=_policy(plotly_js, js),
        data=Markup(_json(_data(results, summaries))),
        plotly=plotly_js,
        css=css,
        js=js,
    )


def _policy(*scripts: str) -> str:
    """Return a content security policy that forbids the network and all scripts but these.

    Plotly needs inline styles, and images for downloads.
    """
    hashes = (b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts)
    allowed = " ".join(f"'sha256-{digest}'" for digest in hashes)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )


# Text and tables


def _extent(results: Results) -> str:
    """Return a sentence on the number of methods, runs, problems, dimensions and evaluations."""
    runs = sorted({len(trace.error) for trace in results.traces.values()})
    budgets = sorted({int(trace.evaluations[-1]) for trace in results.traces.values()})
    times = "once" if runs == [1] else f"{_span(runs)} times"
    dims = f"{listed(map(str, results.dims))} dimension{'' if results.dims == (1,) else 's'}"
    budget = f"{_span(budgets)} evaluation{'' if budgets == [1] else 's'}"
    return (
        f"{counted(len(results.methods), 'method')} {'was' if len(results.methods) == 1 else 'were'} run {times} on "
        f"{counted(len(results.problems), 'problem')} in {dims}, with {budget} per run."
    )


def _span(numbers: Sequence[int]) -> str:
    low, high = (f"{number:,}".replace(",", "\u202f") for number in (numbers[0], numbers[-1]))
    return low if low == high else f"{low} to {high}"


def _methods(results: Results) -> list[dict[str, Any]]:
    first = next(iter(results.groups.values()), results.methods)
    return [
        {**_line(results, method), "description": results.descriptions.get(method, ""), "first": method in first}
        | {"reference": method == results.reference}
        for method in results.methods
    ]


def _line(results: Results, method: str) -> dict[str, Any]:
    """Return the name of a method and its line style in all charts; on a dark page its colour is lighter."""
    light = figures.colour_of(results, method)
    hue, lightness, saturation = rgb_to_hls(*(int(light[at : at + 2], 16) / 255 for at in (1, 3, 5)))
    channels = hls_to_rgb(hue, max(lightness, 0.62), saturation)
    pattern = figures.DASHES[results.methods.index(method) % len(figures.DASHES)]
    return {
        "name": method,
        "light": light,
        "dark": "#" + "".join(f"{round(255 * channel):02x}" for channel in channels),
        "dash": "" if pattern == "solid" else ",".join(f"{2 * length:g}px" for length in pattern[1]),
        "width": 3 if method == results.reference else 2,
    }


def _task(results: Results, problem: str, dim: int, *more: str) -> dict[str, Any]:
    title = results.titles.get(problem, problem)
    return {
        "title": title,
        "dim": dim,
        "search": " ".join((title, problem, *more)),
        "link": "#" + urlencode({"problem": problem, "dim": dim}),
    }


def _tasks(results: Results, summaries: Mapping[Key, Summary]) -> list[dict[str, Any]]:
    rows = []
    for task in results.tasks():
        cells = [summaries[Key(*task, method)] for method in results.methods]
        best = {name: _best([getattr(cell, name) for cell in cells]) for name in ("mean", "median")}
        marks = [" ".join(f"best-{name}" for name in best if place in best[name]) for place in range(len(cells))]
        rows.append({**_task(results, *task), "cells": list(zip(cells, marks, strict=True))})
    return rows


def _best(values: Sequence[float]) -> set[int]:
    """Return the places of the smallest value. Values below `FLOOR` are equal, and infinity is never the smallest."""
    floored = [max(value, statistics.FLOOR) for value in values]
    return {place for place, value in enumerate(floored) if value == min(floored) < math.inf}


def _pairwise(results: Results, name: str, group: Sequence[str]) -> dict[str, Any]:
    comparisons = statistics.compare(results, group, LEVEL)
    verdicts = Counter((c.method, c.verdict) for c in comparisons)
    others = [method for method in group if method != results.reference]
    return {
        "name": name,
        "counts": [(method, *(verdicts[method, verdict] for verdict in COMPARED)) for method in others],
        "rows": [(_task(results, c.problem, c.dim, c.method, c.verdict), c) for c in comparisons],
    }


def _ranks(results: Results, name: str, group: Sequence[str]) -> dict[str, Any]:
    choices = _dimensions(results)
    ranks = [statistics.average_ranks(results, group, dims) for dims in choices.values()]
    return {
        "name": name,
        "columns": list(choices),
        "rows": [
            (method, [(r.average[method], r.average[method] == min(r.average.values())) for r in ranks])
            for method in group
        ],
        "friedman": [r.p for r in ranks],
        "image": _image(figures.rank_plot(results, group)),
    }


def _dimensions(results: Results) -> dict[str, Sequence[int]]:
    """Return each dimension, then all together, by name."""
    each: dict[str, Sequence[int]] = {counted(dim, "dimension"): [dim] for dim in results.dims}
    return each | ({"all tasks": results.dims} if len(each) > 1 else {})


def _section(section: Section) -> dict[str, Any]:
    for row in section.rows:
        if len(row) != len(section.header):
            raise ValueError(
                f"section {section.title!r}: the row {list(row)} has {len(row)} cells, but the header has "
                f"{len(section.header)}; give every row one cell per column"
            )
    badges = [VERDICTS if name == "Verdict" else {} for name in section.header]
    rows = [
        [{"text": cell, "mark": marks.get(cell)} for cell, marks in zip(row, badges, strict=True)]
        for row in section.rows
    ]
    return {**section._asdict(), "rows": rows}


def _grids(results: Results) -> list[dict[str, str]]:
    """Return the printed figures of all groups and dimensions, the first group in the largest dimension first."""
    traces = {}
    for key, trace in results.traces.items():  # as many points as are visible
        kept = np.unique(np.linspace(0, len(trace.evaluations) - 1, PANEL_POINTS).round().astype(int))
        traces[key] = Trace(trace.evaluations[kept], trace.error[:, kept])
    seen = replace(results, traces=traces)
    return [
        {
            "dimensions": counted(dim, "dimension"),
            "group": name if len(results.groups) > 1 else "",
            "image": _image(figures.convergence_grid(seen, dim, group)),
        }
        for name, group in results.groups.items()
        for dim in sorted(results.dims, reverse=True)
    ]


def _image(figure: Any) -> str:
    """Return a matplotlib figure as a data URI. An image cannot run scripts or clash with the page."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "figure.svg"
        figures.save(figure, path)
        return f"data:image/svg+xml;base64,{b64encode(path.read_bytes()).decode()}"


# Data of the charts


def _data(results: Results, summaries: Mapping[Key, Summary]) -> dict[str, Any]:
    grids: dict[tuple[int, ...], int] = {}  # methods with the same budget share their evaluations
    return {
        "cells": [
            [
                [_cell(results, Key(problem, dim, m), summaries, grids) for m in results.methods]
                for problem in results.problems
            ]
            for dim in results.dims
        ],
        "grids": list(grids),
        "methods": [_line(results, method) for method in results.methods],
        "groups": [[results.methods.index(method) for method in group] for group in results.groups.values()],
        "problems": [{"name": problem, "title": results.titles.get(problem, problem)} for problem in results.problems],
        "dims": results.dims,
        "targets": TARGETS,
        "floor": statistics.FLOOR,
        "runtimes": [
            [_curve(results, method, dims) for method in results.methods] for dims in _dimensions(results).values()
        ],
    }


def _cell(
    results: Results, key: Key, summaries: Mapping[Key, Summary], grids: dict[tuple[int, ...], int]
) -> dict[str, Any]:
    band = statistics.band(results, *key)
    kept = _places(band.evaluations)
    summary = summaries[key]
    reached = (statistics.success(results, *key, float(target)) for target in TARGETS)
    return {
        "grid": grids.setdefault(tuple(band.evaluations[kept].tolist()), len(grids)),
        **{name: _rounded(getattr(band, name)[kept]) for name in ("mean", "median", "low", "high")},
        "final": {
            **dict(zip(Summary._fields[:6], _rounded(summary[:6]), strict=True)),
            "interval": _rounded(summary.mean_interval),
        },
        "success": [_rounded(success) for success in reached],
    }


def _curve(results: Results, method: str, dims: Sequence[int]) -> dict[str, Any]:
    ecdf = statistics.ecdf(results, method, dims)
    kept = _places(ecdf.evaluations)
    return {"x": _rounded(ecdf.evaluations[kept]), "y": _rounded(ecdf.share[kept])}


def _places(x: NDArray[Any]) -> NDArray[np.intp]:
    """Return at most `POINTS` indices, evenly spread on a logarithmic axis, including both ends."""
    if len(x) <= POINTS:
        return np.arange(len(x))
    wanted = np.geomspace(max(x[0], 1e-9 * x[-1]), x[-1], POINTS)[1:-1]
    return np.unique(np.concatenate([[0], np.searchsorted(x, wanted), [len(x) - 1]]))


def _rounded(values: Floats | Iterable[float]) -> list[float | str]:
    """Return values rounded to five digits; JSON has no infinity or NaN, so these become strings."""
    return [float(f"{value:.5g}") if math.isfinite(value) else _number(value) for value in values]


def _number(value: float) -> str:
    """Return a number as text that JavaScript's Number() reads."""
    return repr(float(value)).replace("inf", "Infinity").replace("nan", "NaN")


def _json(data: Any) -> str:
    """Return JSON that cannot end its script element or be parsed as markup."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text
