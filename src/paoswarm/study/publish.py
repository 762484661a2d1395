"""From results to what people read: the report, the figures and a table, in the study's folder."""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Sequence
from pathlib import Path

from paoswarm.study import figures, report
from paoswarm.study.results import Results
from paoswarm.study.statistics import summary


def publish(results: Results, folder: str | os.PathLike[str], *, sections: Sequence[report.Section] = ()) -> Path:
    """Write ``report.html``, ``figures/*.png`` and ``tables/*.csv``; the same results give the same bytes.

    Returns the path of the report.
    """
    folder = Path(folder)
    (folder / "figures").mkdir(parents=True, exist_ok=True)
    for dim in results.dims:
        for number, members in enumerate(results.groups.values()):
            suffix = f"{dim}d" + (f"-{number + 1}" if len(results.groups) > 1 else "")
            figures.save(
                figures.convergence_grid(results, dim, members), folder / "figures" / f"convergence-{suffix}.png"
            )
        figures.save(figures.ecdf_plot(results, dim), folder / "figures" / f"runtimes-{dim}d.png")
    for number, members in enumerate(results.groups.values()):
        figures.save(figures.rank_plot(results, members), folder / "figures" / f"ranks-{number + 1}.png")
    (folder / "tables").mkdir(exist_ok=True)
    _write_table(folder / "tables" / "summary.csv", *_summary(results))
    taken = {"summary"}
    for section in sections:
        plain = re.sub(r"[^a-z0-9]+", "-", section.title.lower().replace("'", "")).strip("-")
        name = next(name for name in (plain, *(f"{plain}-{i}" for i in range(2, 99))) if name and name not in taken)
        taken.add(name)
        _write_table(folder / "tables" / f"{name}.csv", section.header, section.rows)
    return report.write(results, folder / "report.html", sections=sections)


def _summary(results: Results) -> tuple[list[str], list[list[str]]]:
    columns = ("mean", "median", "low", "high", "best", "worst")
    rows = []
    for problem, dim in results.tasks():
        for method in results.methods:
            one = summary(results, problem, dim, method)
            numbers = (*(getattr(one, name) for name in columns), *one.mean_interval)
            rows.append([problem, str(dim), method, *(f"{number:.6g}" for number in numbers)])
    return ["problem", "dim", "method", *columns, "mean_from", "mean_to"], rows


def _write_table(path: Path, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([header, *rows])
