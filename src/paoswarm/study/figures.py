"""Figures of a study for print, at most 180 mm wide. Every function returns a matplotlib Figure.

The figure is not registered with pyplot. To show it there, pass one to draw into:
``convergence_grid(results, 8, figure=plt.figure())``.

A method has the same colour and line style in all figures, given by its place in the study. Names are drawn literally:
a dollar sign does not start a formula. Matplotlib is imported when a figure is drawn.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import ceil, isqrt
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from paoswarm.helpers import counted, need
from paoswarm.study import statistics
from paoswarm.study.results import Floats, Results, whole_file

# Any two of these can be told apart, also with three kinds of colour blindness, on white and on dark pages.
PALETTE = ("#0072B2", "#D55E00", "#00A578", "#F078C3", "#694B69", "#A5B400", "#A51E00", "#2DB4FF")
# Their number is coprime to the number of colours but the first, so that pairs repeat only after 35 methods.
DASHES: tuple[Any, ...] = (
    "solid",
    (0, (5, 1.5)),
    (0, (1, 1)),
    (0, (6, 1.5, 1, 1.5)),
    (0, (3, 1, 1, 1, 1, 1)),
)

_SMALL, _NORMAL, _LARGE = 6.5, 7.5, 9.0  # points
_GREY, _PALE = "#555555", "#DDDDDD"
_DPI = 200
_BAND_POINTS = 120  # one every half millimetre; keeps vector files small
_ZERO = ("exactly zero from here on", {"marker": "v", "markersize": 4, "color": _GREY, "linestyle": "none"})


def colour_of(results: Results, method: str) -> str:
    """Return the colour of a method in all figures of this study, as ``#RRGGBB``. No other has the reference's."""
    statistics.known(results, (method,))
    others = [name for name in results.methods if name != results.reference]
    return PALETTE[0] if method == results.reference else PALETTE[1 + others.index(method) % (len(PALETTE) - 1)]


def convergence_grid(results: Results, dim: int, methods: Sequence[str] | None = None, *, figure: Any = None) -> Any:
    """Draw the error against evaluations in one dimension, with one panel per problem.

    Lines are means over the runs, bands reach from the 10 % to the 90 % quantile. The error axis is logarithmic, so it
    has no zero: a line that reaches exactly zero drops through the bottom of its panel, where a triangle of its colour
    marks the place. No axis goes below `FLOOR` or above `CEILING`. Infinite means are not drawn, and a band with an
    infinite quantile is open at the top.
    """
    _check_dims(results, [dim])
    methods = _chosen(results, methods)
    problems = results.problems
    columns = len(problems) if len(problems) <= 3 else min(isqrt(len(problems) - 1) + 1, 4)
    rows = ceil(len(problems) / columns)
    zero = any((results.final(problem, dim, method) == 0).all() for problem in problems for method in methods)
    entries = [(method, _style(results, method)) for method in methods] + [_ZERO] * zero
    width = min(30 + 75 * columns, 180)
    across = max(1, min(len(entries), width * 7 // 10 // (7 + max(len(name) for name, _ in entries))))
    figure = _figure(width, 20 + 4 * ceil(len(entries) / across) + 44 * rows, figure)
    grid = figure.add_gridspec(rows, columns)
    for place, problem in enumerate(problems):
        ax = figure.add_subplot(grid[divmod(place, columns)])
        _convergence(ax, results, problem, dim, methods)
        ax.set_title(_literal(results.titles.get(problem, problem)), fontsize=_NORMAL)
        ax.tick_params(labelbottom=place + columns >= len(problems))
    runs = sorted({len(results.final(problems[0], dim, method)) for method in methods})
    figure.supxlabel("Evaluations", fontsize=_NORMAL)
    figure.supylabel("Error: mean and 10 % to 90 % band", fontsize=_NORMAL)
    fewest = f"{runs[0]} to " if len(runs) > 1 else ""
    title = f"{counted(dim, 'dimension')}, {fewest}{counted(runs[-1], 'run')}"
    _legend(figure, entries, loc="outside upper center", ncols=across, title=title, title_fontsize=_LARGE)
    return _laid_out(figure)


def _convergence(ax: Any, results: Results, problem: str, dim: int, methods: Sequence[str]) -> None:
    bands = {method: statistics.band(results, problem, dim, method) for method in methods}
    bottom, top = _limits(values for band in bands.values() for values in (band.mean, band.low, band.high))
    ax.set_yscale("log", nonpositive="clip")  # lines fall steeply to zero, far below the panel
    ax.set_ylim(bottom, top)
    ax.set_xlim(0, max(band.evaluations[-1] for band in bands.values()))
    for method, band in bands.items():
        style = _style(results, method)
        some = np.unique(np.linspace(0, len(band.evaluations) - 1, _BAND_POINTS).round().astype(int))
        low, high = (np.clip(values[some], bottom / 10, top * 10) for values in (band.low, band.high))
        ax.fill_between(band.evaluations[some], low, high, color=style["color"], alpha=0.13, linewidth=0)
        ax.plot(band.evaluations, band.mean, label=_literal(method), **style)
        if band.mean[-1] == 0:
            first = band.evaluations[np.argmin(band.mean)]
            edge = {"transform": ax.get_xaxis_transform(), "clip_on": False, "zorder": 5}
            ax.plot([first], [0], **_ZERO[1] | edge | {"color": style["color"]})
    if not any(np.isfinite(band.mean).any() for band in bands.values()):
        ax.text(0.5, 0.5, "no finite mean", transform=ax.transAxes, ha="center", va="center", fontsize=_NORMAL)
    ax.grid(axis="y", color=_PALE, linewidth=0.5)
    _tidy(ax)
    ax.xaxis.set_major_locator(_ticker().MaxNLocator(4, steps=[1, 2, 2.5, 5, 10]))
    ax.xaxis.set_major_formatter(_ticker().StrMethodFormatter("{x:,.0f}"))
    ax.yaxis.set_minor_locator(_ticker().NullLocator())
    ax.set_yticks(*_error_ticks(bottom, top))


def _limits(arrays: Iterable[Floats]) -> tuple[float, float]:
    """Return limits around all positive numbers, with a margin; if there are none, a decade to either side of 1."""
    values = np.concatenate(list(arrays))
    positive = values[(values >= statistics.FLOOR) & (values <= statistics.CEILING)]
    if positive.size == 0:
        return 0.1, 10.0
    low, high = np.log10([positive.min(), positive.max()])
    margin = max(0.05 * (high - low), 0.05)
    return float(10 ** (low - margin)), float(10 ** (high + margin))


def _error_ticks(bottom: float, top: float) -> tuple[list[float], list[str]]:
    """Return a few round ticks and their labels: powers of ten, and others if the axis is below two decades."""
    low, high = np.log10([bottom, top])
    if high - low >= 2:
        stride = next(stride for stride in (1, 2, 5, 10, 20) if (high - low) / stride < 6)
        powers = [power for power in range(ceil(low), int(np.floor(high)) + 1) if power % stride == 0]
        return [10.0**power for power in powers], [f"$10^{{{power}}}$" for power in powers]
    decades = 10.0 ** np.arange(int(np.floor(low)), ceil(high))
    round_ones = np.outer(decades, (1.0, 2.0, 5.0)).ravel()
    if np.count_nonzero((bottom <= round_ones) & (round_ones <= top)) < 2:
        round_ones = np.asarray(_ticker().MaxNLocator(4).tick_values(bottom, top))
    ticks = round_ones[(bottom <= round_ones) & (round_ones <= top)].tolist()
    return ticks, [f"{tick:.12g}" for tick in ticks]


def ecdf_plot(
    results: Results, dim: int | None = None, methods: Sequence[str] | None = None, *, figure: Any = None
) -> Any:
    """Draw runtime distributions: the share of all (run, target) pairs solved, against evaluations per unknown.

    They are taken over all problems, in one dimension or in all. The legend lists the most successful method first.
    """
    _check_dims(results, [] if dim is None else [dim])
    methods = _chosen(results, methods)
    curves = {method: statistics.ecdf(results, method, None if dim is None else (dim,)) for method in methods}
    start = min(curve.evaluations[0] for curve in curves.values())
    end = max(curve.evaluations[-1] for curve in curves.values())
    figure = _figure(160 if len(methods) <= 22 else 180, 90, figure)
    ax = figure.add_subplot()
    for method, (evaluations, share) in curves.items():
        x, y = np.concatenate([evaluations[:1], evaluations, [end]]), np.concatenate([[0.0], share, share[-1:]])
        ax.step(x, y, where="post", label=_literal(method), **_style(results, method))
    ax.set_xscale("log")
    ax.set_xlim(start if start < end else end / 10, end)
    ax.set_ylim(0, 1.01)
    ax.yaxis.set_major_formatter(_ticker().PercentFormatter(1))
    ax.set_xlabel("Evaluations per unknown", fontsize=_NORMAL)
    ax.set_ylabel("Share of (run, target) pairs solved", fontsize=_NORMAL)
    powers = np.log10(statistics.TARGETS[[0, -1]]).round().astype(int)
    targets = f"{len(statistics.TARGETS)} targets from $10^{{{powers[0]}}}$ to $10^{{{powers[1]}}}$"
    ax.set_title(f"{_dimensions(None if dim is None else [dim])}, {targets}", fontsize=_LARGE)
    ax.grid(color=_PALE, linewidth=0.5)
    _tidy(ax)
    best_first = sorted(methods, key=lambda method: -curves[method].share[-1])
    entries = [(method, _style(results, method)) for method in best_first]
    _legend(figure, entries, loc="outside right upper", ncols=ceil(len(entries) / 22))
    return _laid_out(figure)


def rank_plot(results: Results, group: Sequence[str], dims: Sequence[int] | None = None, *, figure: Any = None) -> Any:
    """Draw the average ranks of a group of methods, with the best at the top."""
    _check_dims(results, dims or [])
    ranks = statistics.average_ranks(results, group, dims)
    ordered = sorted(group, key=lambda method: ranks.average[method])
    figure = _figure(125, 20 + 5.5 * len(ordered), figure)
    ax = figure.add_subplot()
    for place, method in enumerate(ordered):
        value, colour = ranks.average[method], colour_of(results, method)
        ax.plot([1, value], [place, place], color=_PALE, linewidth=1.2, zorder=1)
        ax.plot([value], [place], marker="o", markersize=6, color=colour, linestyle="none", zorder=2)
        words = {"va": "center", "fontsize": _NORMAL, "bbox": {"facecolor": "white", "edgecolor": "none", "pad": 1}}
        ax.annotate(f"{value:.2f}", (value, place), (7, 0), textcoords="offset points", **words)
    ax.set_yticks(range(len(ordered)), [_literal(method) for method in ordered], fontsize=_NORMAL)
    for label, method in zip(ax.get_yticklabels(), ordered, strict=True):
        label.set_fontweight("bold" if method == results.reference else "normal")
    ax.set_ylim(len(ordered) - 0.5, -0.5)
    ax.set_xlim(0.9, max(len(ordered), 2) * 1.06)
    ax.xaxis.set_major_locator(_ticker().MaxNLocator(integer=True, nbins=8, min_n_ticks=1))
    tasks = sum(1 for _ in results.tasks(dims))
    friedman = "" if np.isnan(ranks.p) else f"; Friedman p {'< 0.0001' if ranks.p < 1e-4 else f'= {ranks.p:.2g}'}"
    ax.set_xlabel(f"Average rank over {counted(tasks, 'task')} (1 is best{friedman})", fontsize=_NORMAL)
    ax.set_title(_dimensions(dims), fontsize=_LARGE)
    ax.grid(axis="x", color=_PALE, linewidth=0.5)
    _tidy(ax)
    ax.tick_params(axis="y", length=0, labelsize=_NORMAL)
    return _laid_out(figure)


def save(figure: Any, path: str | PathLike[str]) -> None:
    """Write a figure as SVG or PNG, depending on the suffix of the path. The same figure gives the same bytes."""
    matplotlib = need("matplotlib", extra="study", user="a figure")
    path = Path(path)
    metadata = {".svg": {"Date": None, "Creator": None}, ".png": {"Software": None}}.get(path.suffix.lower())
    if metadata is None:
        raise ValueError(f"cannot save a figure as {path.name!r}; use a file name that ends in .svg or .png")
    settings = {"svg.hashsalt": "paoswarm", "svg.fonttype": "path", "savefig.bbox": None, "savefig.facecolor": "auto"}
    with matplotlib.rc_context(settings), whole_file(path) as draft:
        figure.savefig(draft, dpi="figure", metadata=metadata, format=path.suffix[1:].lower())


def _figure(width: float, height: float, given: Any) -> Any:
    """Return an empty figure; its size is given in millimetres."""
    if given is None:
        need("matplotlib", extra="study", user="a figure")
        from matplotlib.figure import Figure

        # The width of letters depends on the resolution, so the layout uses the resolution of the saved file.
        given = Figure(dpi=_DPI)
    given.set_size_inches(width / 25.4, height / 25.4)
    given.set_layout_engine("constrained")
    given.set_facecolor("white")
    return given


def _laid_out(figure: Any) -> Any:
    """Return the figure with its layout fixed.

    Otherwise every further drawing would move things a little. Positions are rounded, because the last digits of a
    layout are not reproducible.
    """
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    for ax in figure.axes:
        ax.set_position(np.round(ax.get_position().bounds, 5))
    for text in figure.texts:
        text.set_position(np.round(text.get_position(), 5))
    return figure


def _tidy(ax: Any) -> None:
    ax.spines[["top", "right"]].set_visible(False)
    for spine in ax.spines.values():
        spine.set(color=_GREY, linewidth=0.6)
    ax.set_axisbelow(True)
    ax.tick_params(labelsize=_SMALL, color=_GREY, width=0.6, length=2.5)


def _legend(figure: Any, entries: Sequence[tuple[str, dict[str, Any]]], **options: Any) -> None:
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], **style) for _, style in entries]
    legend = figure.legend(handles, ["-"] * len(handles), fontsize=_NORMAL, frameon=False, handlelength=3, **options)
    for text, (name, _) in zip(legend.get_texts(), entries, strict=True):
        text.set_text(_literal(name))  # as a label, a name that starts with an underscore would be ignored


def _style(results: Results, method: str) -> dict[str, Any]:
    place, leads = results.methods.index(method), method == results.reference
    return {
        "color": colour_of(results, method),
        "linestyle": DASHES[place % len(DASHES)],
        "linewidth": 1.8 if leads else 1.1,
        "zorder": 4 if leads else 3,
    }


def _chosen(results: Results, methods: Sequence[str] | None) -> Sequence[str]:
    return results.methods if methods is None else statistics.known(results, methods)


def _check_dims(results: Results, dims: Sequence[int]) -> None:
    for dim in dims:
        if dim not in results.dims:
            raise ValueError(f"this study has no dimension {dim!r}; choose from {list(results.dims)}")


def _literal(text: str) -> str:
    return text.replace("$", r"\$")


def _dimensions(dims: Sequence[int] | None) -> str:
    if dims is None:
        return "All dimensions"
    return f"{', '.join(map(str, dims))} dimension{'s' * (list(dims) != [1])}"


def _ticker() -> Any:
    from matplotlib import ticker

    return ticker
