"""From results to what people read: the report, the figures and a table, in the study's folder."""

from __future__ import annotations

import csv
import os
from collections.abc import Sequence
from pathlib import Path

from paoswarm.study import figures, report
from paoswarm.study.results import Results
from paoswarm.study.statistics import summary


def publish(results: Results, folder: str | os.PathLike[str], *, sections: Sequence[report.Section] = ()) -> Path:
    """Write ``report.html``, ``figures/*.png`` and ``summary.csv``; the same results give the same bytes.

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
    _write_summary(results, folder / "summary.csv")
    return report.write(results, folder / "report.html", sections=sections)


def _write_summary(results: Results, path: Path) -> None:
    columns = ("mean", "median", "low", "high", "best", "worst")
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["problem", "dim", "method", *columns, "mean_from", "mean_to"])
        for problem, dim in results.tasks():
            for method in results.methods:
                one = summary(results, problem, dim, method)
                numbers = [getattr(one, name) for name in columns]
                writer.writerow([problem, dim, method, *(f"{x:.6g}" for x in (*numbers, *one.mean_interval))])
