"""Pictures of a fit: data and predictions, the searches, and the profiles. Matplotlib is imported when one is drawn."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import PchipInterpolator

from paoswarm._checks import choices, probability
from paoswarm._extras import need
from paoswarm.core.arrays import Floats
from paoswarm.least_squares.outputs import Output
from paoswarm.methods.agreement import CONVERGED, KNOWN

if TYPE_CHECKING:
    from paoswarm.fitting.fit_profile import FitProfile, ProfileCurve
    from paoswarm.fitting.fit_result import Fit

_WIDTH, _HEIGHT = 4.8, 4.4  # of the panels of an output, in inches
_IN_A_ROW = 3
_MOST_NAMED = 8  # curves of one output that a legend names
_MANY = 200  # data of a curve: then markers are dots
_DARK, _PALE = 0.35, 0.12  # opacity of the bands of the fit and of new data
_USUAL = 2.0  # standard deviations
_DECADE = 10.0  # values that differ by more than this factor have a logarithmic axis
_TALLEST = 1.5  # times the threshold: where panels of profiles end
_FINE = 400  # points of a line


def plot_fit(fit: Fit, x: Any = None, level: float = 0.95) -> NDArray[Any]:
    """Draw data, predictions and residuals; see `Fit.plot`."""
    solution, outputs = fit.solution, fit._call.comparison.outputs
    level = probability("level", level)
    if outputs is None:
        return _only_residuals(fit)
    places = _places(fit._call.given["xdata"] if x is None else x, outputs.parts, is_asked=x is not None)
    pyplot = need("matplotlib.pyplot", extra="plot", user="fit.plot")
    loss = solution.loss
    pairs = solution.band(level, False), solution.band(level, True)
    bands = [np.where(np.isfinite(high - low), end, np.nan) for low, high in pairs for end in (low, high)]
    shown = np.array([loss.data, loss.predicted(solution.outputs), *bands, solution.deviations()])
    has_bars = {group.name: not group.law.estimates_sigma for group in loss.groups}
    k = len(outputs.parts)
    columns = min(k, _IN_A_ROW)
    rows = math.ceil(k / columns)
    figure = pyplot.figure(figsize=(_WIDTH * columns + 0.2, _HEIGHT * rows), layout="constrained")
    grid = figure.add_gridspec(2 * rows, columns, height_ratios=[3, 1] * rows)
    axes = np.empty((k, 2), dtype=object)
    for i, (part, place) in enumerate(zip(outputs.parts, places, strict=True)):
        row, column = divmod(i, columns)
        top = axes[i, 0] = figure.add_subplot(grid[2 * row, column])
        below = axes[i, 1] = figure.add_subplot(grid[2 * row + 1, column], sharex=top)
        at = np.arange(len(part.columns[0]), dtype=float) if place is None else place
        _draw_output(top, below, part, at, shown, has_bars=has_bars.get(part.name, False))
        top.tick_params(labelbottom=False)
        title = part.name
        if part.name in fit.factors:
            scale, offset = fit.factors[part.name]
            added = f" {'-' if offset < 0 else '+'} {abs(offset):.4g}" if offset else ""
            title += f"{': ' if title else ''}{scale:.4g} * model{added}"
        top.set_title(title, fontsize="medium")
        below.set_xlabel("number" if place is None else "x")
        if column == 0:
            below.set_ylabel("residual /\nstd. dev.")
        if i and 1 < len(part.columns) <= _MOST_NAMED:
            top.legend(fontsize="small")
    figure.align_ylabels()
    _legend(axes[0, 0], level)
    return axes


def _draw_output(top: Any, below: Any, part: Output, x: NDArray[Any], shown: Floats, *, has_bars: bool) -> None:
    """Draw the curves of an output, and their residuals below."""
    _draw_usual(below)
    order = np.argsort(x, kind="stable")
    x = x[order]
    form, size = (".", 3) if len(x) > _MANY else ("o", 4)
    for j, rows in enumerate(part.columns):
        data, centre, low, high, low_of_data, high_of_data, deviation = shown[:, rows[order]]
        look = {"color": f"C{j % 10}"}
        top.fill_between(x, low_of_data, high_of_data, alpha=_PALE, lw=0, **look)
        top.fill_between(x, low, high, alpha=_DARK, lw=0, **look)
        top.plot(x, centre, lw=1.5, **look)
        name, bars = f"column {j}" if len(part.columns) > 1 else "data", deviation if has_bars else None
        top.errorbar(x, data, bars, fmt=form, ms=size, elinewidth=0.8, label=name, **look)
        with np.errstate(divide="ignore", invalid="ignore"):
            below.plot(x, (data - centre) / deviation, form, ms=size, **look)


def _draw_usual(ax: Any) -> None:
    """Draw where residuals usually are."""
    ax.axhspan(-_USUAL, _USUAL, color="0.5", alpha=0.15, linewidth=0)
    ax.axhline(0, color="0.5", lw=0.8)


def _legend(ax: Any, level: float) -> None:
    """Name data, prediction and bands, in grey if there are several curves."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    data = ax.get_legend_handles_labels()[0]
    colour = "C0" if len(data) == 1 else "0.4"
    names = [f"column {j}" for j in range(len(data))] if 1 < len(data) <= _MOST_NAMED else ["data"] * (len(data) == 1)
    keys = [*data[: len(names)], Line2D([], [], color=colour, lw=1.5)]
    keys += [Patch(color=colour, alpha=alpha, lw=0) for alpha in (_DARK, _PALE)]
    percent = f"{100 * level:g} %"
    ax.legend(keys, [*names, "best fit", f"{percent} of the fit", f"{percent} of new data"], fontsize="small")


def _only_residuals(fit: Fit) -> NDArray[Any]:
    """Draw what the simulator returns, if that are residuals."""
    pyplot = need("matplotlib.pyplot", extra="plot", user="fit.plot")
    ax = pyplot.subplots(figsize=(6.4, 3.2), layout="constrained")[1]
    deviation = fit.solution.deviations()
    _draw_usual(ax)
    ax.plot(np.asarray(fit.residuals) / deviation, "o" if len(deviation) < _MANY else ".", ms=4)
    ax.set(xlabel="number", ylabel="residual / std. dev.")
    return np.array([[ax]], dtype=object)


def _places(given: Any, parts: tuple[Output, ...], *, is_asked: bool) -> list[NDArray[Any] | None]:
    """Where the first axis of each output is drawn; None if that is not known."""
    found: list[NDArray[Any] | None] = []
    if is_asked and isinstance(given, Mapping):
        known = [part.name for part in parts]
        if unknown := [name for name in given if name not in known]:
            advice = choices(str(unknown[0]), known) if any(known) else "the only one has no name: give an array"
            raise ValueError(f"x has {unknown[0]!r}, which is no output; {advice}")
    for part in parts:
        own, length = given.get(part.name) if isinstance(given, Mapping) else given, len(part.columns[0])
        x = None if own is None else np.asarray(own)
        is_right = x is not None and x.size == length and x.dtype.kind in "fiubM"
        if x is not None and is_asked and not is_right:
            raise ValueError(f"x must be {length} numbers for {part.label}, as its data are; got {x.size}")
        dates = x is not None and x.dtype.kind == "M"
        found.append((x if dates else x.astype(float)).ravel() if x is not None and is_right else None)
    return found


def plot_searches(fit: Fit) -> NDArray[Any]:
    """Draw the ends of the searches and the course of the best value; see `Fit.plot_searches`."""
    pyplot = need("matplotlib.pyplot", extra="plot", user="fit.plot_searches")
    figure, axes = pyplot.subplots(1, 2, figsize=(9.0, 3.6), layout="constrained")
    table = fit.searches
    pairs = sorted(zip(table, table.places, strict=True), key=lambda pair: pair[0].value)
    kinds = [
        "given up"
        if one.ending not in (CONVERGED, KNOWN)
        else "at the best place"
        if place == 1
        else "at another place"
        for one, place in pairs
    ]
    values = np.array([one.value for one, _ in pairs])
    for label, colour in (("at the best place", "C0"), ("at another place", "C1"), ("given up", "0.5")):
        if which := [i for i, kind in enumerate(kinds) if kind == label]:
            look = {"mec": colour, "mfc": "none" if label == "given up" else colour, "ms": 6}
            axes[0].plot(np.array(which) + 1, values[which], "o", label=f"{label} ({len(which)})", **look)
    axes[0].plot(np.arange(len(values)) + 1, values, color="0.7", lw=0.8, zorder=0)
    axes[0].set(xlabel="searches, the best first", ylabel=f"{fit.solution.kind} at the end")
    if len(values):
        axes[0].legend(fontsize="small")
        axes[0].xaxis.get_major_locator().set_params(integer=True)
    else:
        axes[0].text(0.5, 0.5, "no search has ended", ha="center", transform=axes[0].transAxes)
    best = np.asarray(fit.history.best)
    axes[1].step(fit.history.nfev, best, where="post")
    axes[1].set(xlabel="simulations", ylabel=f"best {fit.solution.kind}")
    for ax, shown in zip(axes, (values, best[np.isfinite(best)]), strict=True):
        if len(shown) and shown.min() > 0 and shown.max() > _DECADE * shown.min():
            ax.set_yscale("log")
    figure.align_ylabels()
    return np.asarray(axes)


def plot_profiles(profile: FitProfile) -> NDArray[Any]:
    """Draw the rise along each profile; see `FitProfile.plot`."""
    pyplot = need("matplotlib.pyplot", extra="plot", user="a plot of profiles")
    columns = min(len(profile), 4 if len(profile) > _IN_A_ROW else len(profile))
    rows = math.ceil(len(profile) / columns)
    size = (2.7 * columns + 0.6, 2.5 * rows + 0.3)
    axes = pyplot.subplots(rows, columns, figsize=size, squeeze=False, sharey=True, layout="constrained")[1]
    threshold = profile.reach() ** 2
    errors = profile.standard_errors
    for ax, (name, curve), low, high in zip(axes.flat, profile.items(), *profile.interval(), strict=False):
        _draw_profile(ax, curve, errors[name], threshold)
        ends = " to ".join(f"{one:.4g}" if np.isfinite(one) else "?" for one in (low, high))
        ax.set_title(f"{name}: {ends}", fontsize="small")
        if np.isfinite([low, high]).all():
            ax.axvspan(low, high, color="C0", alpha=0.1, lw=0)
        ax.axhline(threshold, color="C3", lw=1, ls="--")
        ax.set_ylim(0, _TALLEST * threshold)
        ax.tick_params(labelsize="small")
    for ax in axes.flat[len(profile) :]:
        ax.set_axis_off()
    for ax in axes[:, 0]:
        ax.set_ylabel("rise of the loss", fontsize="small")
    axes[0, 0].annotate(
        f"{100 * profile.level:g} %", (1, threshold), xycoords=("axes fraction", "data"), color="C3",
        ha="right", va="bottom", fontsize="small",
    )  # fmt: skip
    return np.asarray(axes)


def _draw_profile(ax: Any, curve: ProfileCurve, error: float, threshold: float) -> None:
    """Draw the knots of a profile, a line through them, and the parabola of the standard error."""
    to, back = (np.log, np.exp) if curve.is_log else (np.array, np.array)
    u = to(curve.values)
    fine = np.linspace(u[0], u[-1], _FINE)
    line = PchipInterpolator(u, curve.roots)(fine) if len(u) > 1 else np.zeros(_FINE)
    if 0 < error < math.inf:
        own = error / curve.estimate if curve.is_log else error
        ax.plot(back(fine), ((fine - to(curve.estimate)) / own) ** 2, color="0.6", lw=1, ls=":", zorder=1)
    ax.plot(back(fine), line**2, color="C0", lw=1.6, zorder=2)
    is_shown = curve.roots**2 < _TALLEST * threshold
    ax.plot(curve.values[is_shown], curve.roots[is_shown] ** 2, "o", color="C0", ms=3.5, zorder=3)
    ax.axvline(curve.estimate, color="0.3", lw=0.8, zorder=1)
    if curve.is_log and curve.values[-1] > _DECADE * curve.values[0]:
        ax.set_xscale("log")
