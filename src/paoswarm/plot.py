"""Plots of runs, swarms and posteriors. Those of fits are methods: ``fit.plot()`` and others.

Every function takes ``ax=None`` and returns the matplotlib Axes. `corner` makes a new figure and returns all its Axes.
Matplotlib is imported when a plot is drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

import numpy as np

from paoswarm._checks import whole_number
from paoswarm._extras import need
from paoswarm.core.swarm import Swarm
from paoswarm.evaluate.call_options import CallOptions
from paoswarm.evaluate.evaluator import Evaluator
from paoswarm.evaluate.interrupts import delays_interrupts
from paoswarm.fitting.fit_result import Fit
from paoswarm.laws import StepLaw
from paoswarm.methods.agreement import CONVERGED, Search
from paoswarm.methods.behaviour import free_response
from paoswarm.methods.pao import PAO
from paoswarm.methods.schedules import Adaptive
from paoswarm.run.many_result import ManyResult
from paoswarm.run.result import Result, SearchTable
from paoswarm.sampling.views import corner

__all__ = ["convergence", "corner", "element", "searches", "swarm"]

_MOST_PLACES = 10  # that have a row of their own in a plot of searches


def __dir__() -> list[str]:
    """The plots, for tab completion."""
    return __all__


def convergence(results: Result | Mapping[str, Result], *, ax: Any = None, optimum: float = 0.0) -> Any:
    """Plot the best value against the number of generations.

    Parameters
    ----------
    results : Result, ManyResult, or a dict of them by name
        For many runs, the median is drawn with a band from the 10 % to the 90 % quantile.
    ax : matplotlib Axes, optional
    optimum : float
        Known minimum. The distance to it is drawn, on a logarithmic axis if it is positive.

    Examples
    --------
    >>> import paoswarm as ps
    >>> result = ps.minimize(lambda x: (x**2).sum(), [(-5, 5)] * 2, maxiter=30, rng=1)
    >>> axes = ps.plot.convergence({"PAO": result})
    """
    named = results if isinstance(results, Mapping) and not isinstance(results, Result) else {"": results}
    for result in named.values():
        if not isinstance(result, Result):
            raise TypeError(f"plot.convergence takes a result, or a dict of results by name; got {result!r}")
    ax = _axes(ax)
    can_be_logarithmic = [_history(ax, name, result, optimum) for name, result in named.items()]
    if all(can_be_logarithmic):
        ax.set_yscale("log")
    ax.set_xlabel("generation")
    ax.set_ylabel("best value" if optimum == 0 else "best value above the optimum")
    if ax.get_legend_handles_labels()[0]:
        ax.legend()
    return ax


def _history(ax: Any, name: str, result: Result, optimum: float) -> bool:
    """Draw the best values of one result; return whether a logarithmic axis can show them."""
    best = np.atleast_2d(result.history if isinstance(result, ManyResult) else result.history.best) - optimum
    with np.errstate(invalid="ignore"):  # before the first feasible point the best value is infinite
        low, middle, high = np.quantile(best, [0.1, 0.5, 0.9], axis=0)
    generations = np.arange(len(middle))
    label = name + (f" ({len(best)} runs, median and 10-90 %)" if len(best) > 1 else "")
    (line,) = ax.plot(generations, middle, label=label.strip() or None)
    if len(best) > 1:
        ax.fill_between(generations, low, high, color=line.get_color(), alpha=0.2, linewidth=0)
    return bool(np.isfinite(best).all() and (best[:, 0] > 0).all() and (best >= 0).all())


def swarm(
    state: Swarm | Result,
    fun: Callable[..., Any] | None = None,
    *,
    method: PAO | None = None,
    dims: tuple[int, int] = (0, 1),
    vectorized: bool = False,
    points: int = 80,
    ax: Any = None,
) -> Any:
    """Plot a swarm over the contours of its objective, with two-sigma ellipses of the particles' next positions.

    Parameters
    ----------
    state : Swarm or Result
        One swarm, without a batch axis.
    fun : callable, optional
        The objective, for the contours. Unknowns other than ``dims`` are fixed at the best point.
    method : PAO, optional
        The method whose next step the ellipses show. A Result contains its own. Without a method, no ellipses are
        drawn. Of a run of several searches, the swarm is shown that has found the best point.
    dims : pair of int
        Which two unknowns to show. With variables of several kinds: which of the swarm's coordinates.
    vectorized : bool
        As in `minimize`.
    points : int
        Resolution of the contours: the objective is evaluated ``points**2`` times. Failed points are left blank.
    ax : matplotlib Axes, optional
    """
    progress, space = 0.0, None
    if isinstance(state, Result):
        if np.ndim(state.fun):
            raise ValueError("plot.swarm shows one swarm: give one run, many.run(r)")
        space = state.get("space")
        progress = state.get("progress", 0.0)
        report = state.method.report(state.swarm)
        method, state = method or report.method, cast(Swarm, report.swarm)
    if state.position.ndim != 2 or state.n_dimensions < 2:
        raise ValueError(f"plot.swarm shows one swarm with at least two unknowns, got shape {state.position.shape}")
    ax = _axes(ax)
    i, j = dims
    if not {i, j} <= set(range(state.n_dimensions)):
        raise ValueError(f"dims must be two of the unknowns 0 to {state.n_dimensions - 1}, got {dims!r}")
    lower, upper = state.lower[0], state.upper[0]
    if fun is not None:
        _contours(ax, state, fun, dims, CallOptions(vectorized), space, points)
    if method is not None and method.step_law is not None:
        _next_positions(ax, method.step_law(state, progress, rng=0), dims)
    ax.plot(*state.position[:, [i, j]].T, "o", ms=3, color="C0", label="particles")
    ax.plot(*state.best_position[:, [i, j]].T, ".", ms=2.5, color="C1", label="personal bests")
    ax.plot(*state.global_best[0, [i, j]], "*", ms=11, color="C3", mec="white", mew=0.6, label="global best")
    ax.set_xlim(lower[i], upper[i])
    ax.set_ylim(lower[j], upper[j])
    labels = [f"$x_{{{k}}}$" for k in dims] if space is None else [space.axis_label(k) for k in dims]
    ax.set_xlabel(labels[0])
    ax.set_ylabel(labels[1])
    ax.legend(loc="upper right", fontsize="small")
    return ax


@delays_interrupts
def _contours(
    ax: Any, state: Swarm, fun: Callable[..., Any], dims: tuple[int, int], how: CallOptions, space: Any, points: int
) -> None:
    """Shade the objective over two unknowns; the others are fixed at the best point."""
    lower, upper = state.lower[0], state.upper[0]
    across, up = (np.linspace(lower[k], upper[k], points) for k in dims)
    grid = np.tile(state.global_best[0], (points * points, 1))
    for k, values in zip(dims, np.meshgrid(across, up), strict=True):
        grid[:, k] = values.ravel()
    with Evaluator(fun, how, minus_inf_fails=False, space=space) as evaluate:
        values = evaluate(grid).reshape(points, points)
        if not np.isfinite(values).any():
            raise ValueError(f"the function gave no finite value at any point of the plot; {evaluate.first_failure()}")
    finite = np.isfinite(values)
    # Levels at equal shares of the area show deep and flat landscapes alike; darker is worse.
    levels = np.unique(np.quantile(values[finite], np.linspace(0, 1, 25)))
    if len(levels) > 1:
        shade = np.ma.masked_where(~finite, np.searchsorted(levels, values).astype(float))
        ax.contourf(across, up, shade, levels=np.arange(len(levels)), cmap="Greys", vmax=1.8 * len(levels))


def _next_positions(ax: Any, law: StepLaw, dims: tuple[int, int]) -> None:
    """Draw a two-sigma ellipse around each particle's next position."""
    from matplotlib.patches import Ellipse

    for centre, covariance in zip(law.mean_position, law.position_covariance, strict=True):
        variances, axes = np.linalg.eigh(covariance[np.ix_(dims, dims)])
        width, height = 4 * np.sqrt(np.maximum(variances, 0))  # two sigma to either side
        angle = np.degrees(np.arctan2(axes[1, 0], axes[0, 0]))
        ax.add_patch(Ellipse(centre[list(dims)], width, height, angle=angle, fill=False, color="C0", lw=0.6, alpha=0.5))


def searches(result: Result, *, ax: Any = None) -> Any:
    """Plot the searches of a run: when each one moved, what kind it was, and at which place it ended.

    Every place has a row, with the value that was found there; the best place is at the top. Bars reach from the first
    to the last evaluation of a search; bars overlap where searches took turns. Pale bars are searches that were given
    up. If there are many places, the worst ones share a row.

    Parameters
    ----------
    result : Result
        Of a method that starts again, such as `AdaptivePAO`.
    ax : matplotlib Axes, optional

    Examples
    --------
    >>> import paoswarm as ps
    >>> def two_wells(x):
    ...     return ((x**2 - 1) ** 2).sum(axis=1) + 0.1 * x.sum(axis=1)
    >>> result = ps.minimize(two_wells, [(-2, 2)] * 3, method="AdaptivePAO", vectorized=True, rng=1)
    >>> axes = ps.plot.searches(result)
    """
    if isinstance(result, Fit):
        raise TypeError("plot.searches takes the result of minimize; the searches of a fit: fit.plot_searches()")
    if not isinstance(result, Result):
        raise TypeError(f"plot.searches takes the result of minimize, got {result!r}")
    found = result.searches
    if not found:
        name = type(result.method).__name__
        raise ValueError(f"no search of this run has ended, so there is nothing to plot (its method is {name})")
    rows = _rows_of_places(found)
    kinds = list(dict.fromkeys(one.kind for one in found))
    tracks_of = [_tracks(members) for _, members in rows]
    n_tracks = sum(max(tracks) + 1 for tracks in tracks_of)
    ax = _axes(ax, height=min(1.4 + 0.27 * n_tracks, 9.0))
    ticks, top = [], 0.0
    for k, ((_, members), tracks) in enumerate(zip(rows, tracks_of, strict=True)):
        height = max(tracks) + 1
        if k % 2 == 0:
            ax.axhspan(top - 0.5, top + height - 0.5, color="0.5", alpha=0.08, lw=0)
        _bars(ax, members, top + np.array(tracks), kinds)
        ticks.append(top + (height - 1) / 2)
        top += height
    ax.set_yticks(ticks, [label for label, _ in rows])
    if found.places.count(1):  # the first row is the best place, unless all searches were cut short
        ax.get_yticklabels()[0].set_fontweight("bold")
    ax.set_ylim(top - 0.5, -0.5)
    ax.set_xlim(0, max(one.ended for one in found))
    ax.set_xlabel("evaluations")
    ax.set_ylabel("value at the end")
    from matplotlib.patches import Patch

    keys = [Patch(color=f"C{k}", label=kind) for k, kind in enumerate(kinds)]
    if any(one.ending != CONVERGED for one in found):
        keys.append(Patch(color="0.5", alpha=0.35, label="given up"))
    where = {"loc": "lower center", "bbox_to_anchor": (0.4, 1.0), "ncols": len(keys)}
    ax.legend(handles=keys, frameon=False, fontsize="small", **where)
    return ax


def _bars(ax: Any, members: list[Search], heights: Any, kinds: list[str]) -> None:
    """Draw a bar for each search, from its first to its last evaluation; pale for those that were given up."""
    for one, height in zip(members, heights, strict=True):
        ax.barh(
            height,
            one.ended - one.began,
            left=one.began,
            height=0.72,
            color=f"C{kinds.index(one.kind)}",
            alpha=1.0 if one.ending == CONVERGED else 0.35,
            edgecolor=ax.get_facecolor(),  # separates searches that follow each other
            linewidth=0.5,
        )


def _rows_of_places(found: SearchTable) -> list[tuple[str, list[Search]]]:
    """Labels and searches of the rows, the best place first."""
    by_place: dict[int, list[Search]] = {}
    for one, place in sorted(zip(found, found.places, strict=True), key=lambda pair: pair[1] or np.inf):
        by_place.setdefault(place, []).append(one)
    cut = by_place.pop(0, [])
    places = list(by_place.values())
    rows = [(f"{min(one.value for one in members):.4g}", members) for members in places[:_MOST_PLACES]]
    rest = places[_MOST_PLACES:]
    if rest:
        worst = max(one.value for members in rest for one in members)
        rows.append((f"{len(rest)} places\nto {worst:.4g}", [one for members in rest for one in members]))
    return [*rows, ("cut short", cut)] if cut else rows


def _tracks(members: list[Search]) -> list[int]:
    """A track for each search, such that no two on the same track overlap."""
    ends: list[int] = []
    tracks = [0] * len(members)
    for i in sorted(range(len(members)), key=lambda i: (members[i].began, members[i].ended)):
        begin, end = members[i].began, members[i].ended
        free = next((track for track, last in enumerate(ends) if last <= begin), len(ends))
        ends[free:] = [end, *ends[free + 1 :]]
        tracks[i] = free
    return tracks


def element(
    method: PAO | None = None, *, steps: int = 12, start: float = 1.0, scale: float = 1.0, ax: Any = None
) -> Any:
    """Plot mean and two-sigma band of one element over time, with its attractors fixed at zero.

    The plot shows the effect of the hyperparameters.

    Parameters
    ----------
    method : PAO, optional
        Gives mass, damping, stiffness, noise and dt. Schedules are evaluated at the beginning of the run.
    steps : int
        Number of time steps to show. Dots mark the times at which the objective is evaluated.
    start : float
        Where the element starts, at rest.
    scale : float
        Square root of the noise scale nu. With the default noise it is the distance between local and global best.
    ax : matplotlib Axes, optional
    """
    method = PAO() if method is None else method
    if not isinstance(method, PAO):
        raise TypeError(f"plot.element needs a PAO, whose motion has a closed form; got {method!r}")
    steps, method = whole_number("steps", steps, 1), method.at(0.0)
    if any(isinstance(p, Adaptive) or np.ndim(p) > 0 for p in method.hyperparameters):
        raise ValueError("plot.element shows one element: hyperparameters must be numbers or schedules")
    ax = _axes(ax)
    dt = float(method.dt)

    time = np.linspace(0, steps * dt, 50 * steps + 1)
    mean, sd = free_response(method, time, start=start, scale=scale)
    ax.axhline(0, color="0.7", lw=0.8)
    ax.fill_between(time, mean - 2 * sd, mean + 2 * sd, alpha=0.2, linewidth=0, label="two standard deviations")
    ax.plot(time, mean, label="mean")
    evaluated = dt * np.arange(steps + 1)
    ax.plot(evaluated, free_response(method, evaluated, start=start)[0], "o", ms=4, color="C0", label="evaluations")
    rho = method.stationary_spread * scale
    if np.isfinite(rho):
        for side in (-2, 2):
            ax.axhline(side * rho, color="C3", ls=":", lw=1, label="stationary spread, two sigma" if side > 0 else None)
    ax.set_xlabel("time")
    ax.set_ylabel("distance from the attractor")
    ax.legend(fontsize="small", loc="upper right")
    return ax


def _axes(ax: Any, height: float | None = None) -> Any:
    """The Axes to draw on; those of a new figure, of so many inches if given, if there are none."""
    if ax is not None:
        return ax
    plt = need("matplotlib.pyplot", extra="plot", user="a plot")
    return plt.subplots(figsize=None if height is None else (6.4, height), layout="constrained")[1]
