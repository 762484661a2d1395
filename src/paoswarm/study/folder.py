"""Write the report, figures and tables of a study to its folder."""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from paoswarm.study import figures, report, statistics
from paoswarm.study.results import Results, whole_file

Table = tuple[Sequence[str], Sequence[Sequence[str]]]  # header and rows


def publish(results: Results, folder: str | os.PathLike[str], *, sections: Sequence[report.Section] = ()) -> Path:
    """Write ``report.html``, ``figures/*.png`` and ``tables/*.csv``, and return the path of the report.

    The same results give the same bytes. Every file appears whole or not at all.
    """
    folder = Path(folder)
    (folder / "figures").mkdir(parents=True, exist_ok=True)
    drawn = set()

    def draw(figure: Any, name: str) -> None:
        path = folder / "figures" / f"{name}.png"
        figures.save(figure, path)
        drawn.add(path)

    for dim in results.dims:
        for number, members in enumerate(results.groups.values()):
            suffix = f"{dim}d" + (f"-{number + 1}" if len(results.groups) > 1 else "")
            draw(figures.convergence_grid(results, dim, members), f"convergence-{suffix}")
        draw(figures.ecdf_plot(results, dim), f"runtimes-{dim}d")
    for number, members in enumerate(results.groups.values()):
        draw(figures.rank_plot(results, members), f"ranks-{number + 1}")
    for kind in ("convergence", "runtimes", "ranks"):
        for old in set((folder / "figures").glob(f"{kind}-*.png")) - drawn:  # of a study with other dimensions
            old.unlink()
    (folder / "tables").mkdir(exist_ok=True)
    tables = _tables(results)
    for section in sections:
        plain = re.sub(r"[^a-z0-9]+", "-", section.title.lower().replace("'", "")).strip("-")
        name = next(name for name in (plain, *(f"{plain}-{i}" for i in range(2, 99))) if name and name not in tables)
        tables[name] = section.header, section.rows
    for name, (header, rows) in tables.items():
        _write_table(folder / "tables" / f"{name}.csv", header, rows)
    return report.write(results, folder / "report.html", sections=sections)


def _tables(results: Results) -> dict[str, Table]:
    """Return all tables of the report by file name."""
    tasks = [(*task, method) for task in results.tasks() for method in results.methods]
    summary = []
    for problem, dim, method in tasks:
        one = statistics.summary(results, problem, dim, method)
        centre = _short(one.mean, *one.mean_interval, one.median, *one.median_interval)
        runs = str(len(results.final(problem, dim, method)))
        summary.append([problem, str(dim), method, runs, *centre, *_short(one.low, one.high, one.best, one.worst)])
    success = [
        [problem, str(dim), method, f"{target:g}", *_short(*statistics.success(results, problem, dim, method, target))]
        for problem, dim, method in tasks
        for target in map(float, report.TARGETS)
    ]
    comparisons, ranks = [], []
    for name, members in results.groups.items():
        for c in statistics.compare(results, members):
            numbers = _short(c.decades, c.p, c.p_holm)
            pair = [name, c.problem, str(c.dim), results.reference, c.method]
            comparisons.append([*pair, *numbers, str(c.verdict)])
        for dims in (None, *((dim,) for dim in results.dims)):
            average, p = statistics.average_ranks(results, members, dims)
            where = "all" if dims is None else str(dims[0])
            ranks += [[name, where, method, *_short(average[method], p)] for method in members]
    cell = ["problem", "dim", "method"]
    centre = ["mean", "mean_ci_low", "mean_ci_high", "median", "median_ci_low", "median_ci_high"]
    tests = ["group", "problem", "dim", "reference", "method", "decades", "p", "p_holm", "verdict"]
    return {
        "summary": ([*cell, "runs", *centre, "q10", "q90", "best", "worst"], summary),
        "comparisons": (tests, comparisons),
        "ranks": (["group", "dim", "method", "average_rank", "friedman_p"], ranks),
        "success": ([*cell, "target", "success_rate", "ert"], success),
    }


def _short(*numbers: float) -> list[str]:
    return [f"{number:.6g}" for number in numbers]


def _write_table(path: Path, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    with whole_file(path) as draft, draft.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([_harmless(cell) for cell in row] for row in [header, *rows])


def _harmless(cell: str) -> str:
    """Return a cell that no spreadsheet takes for a formula; numbers stay as they are."""
    if not cell.startswith(("=", "+", "-", "@", "\t", "\r")):
        return cell
    try:
        float(cell)
    except ValueError:
        return f"'{cell}"
    return cell
