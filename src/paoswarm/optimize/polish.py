"""Polishing: a local search from the best point, inside the bounds and inside the budget."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple, Protocol

import numpy as np
from scipy.optimize import Bounds
from scipy.optimize import minimize as scipy_minimize

from paoswarm._checks import counted
from paoswarm.core import order
from paoswarm.core.arrays import Floats
from paoswarm.core.axes import Axes
from paoswarm.evaluation.caller import End
from paoswarm.evaluation.engines import EngineDown
from paoswarm.evaluation.evaluator import Evaluator
from paoswarm.optimize.exchange import status_of
from paoswarm.optimize.local_searches import LocalSearches
from paoswarm.optimize.loop import Ends, drive
from paoswarm.optimize.many_result import ManyResult
from paoswarm.optimize.optimizer import Optimizer
from paoswarm.optimize.read_input import Box
from paoswarm.optimize.result import Result, message_of
from paoswarm.optimize.side_searches import search_from
from paoswarm.optimize.stopping import Limits, Status
from paoswarm.spaces.space import Space

_ASIDE = 50  # evaluations set aside for it, for each unknown and one more
_MOST = 200  # the same if there is no limit
_ASIDE_TIME = 0.1  # share of the time that is set aside for it
_STEP = 1e-8  # for differences, in widths of the bounds
_WALL = 1e10  # stands for a failed point: finite, so that a line search can turn back from it


class Polished(NamedTuple):
    """The best point, what it cost, and what ended the search early."""

    x: Floats
    fun: float
    spent: int
    failed: int
    end: End
    has_converged: bool  # the local search found its slope or its progress to be small enough


class _Enough(Exception):
    pass


class Measure(Protocol):
    """What evaluates points: an `Evaluator`, or a compiled engine."""

    def until(self, deadline: float | None, x: Floats) -> tuple[Floats, End]:
        """Values of as many points ``(m, d)`` as time allows, and what ended it early."""


def with_reserve(limits: Limits, n_unknowns: int, n_to_start: int) -> Limits:
    """The limits of the swarm if it leaves something for polishing: a part of the evaluations and of the time."""
    if limits.maxfev is not None:
        aside = min(_ASIDE * (n_unknowns + 1), max(0, limits.maxfev - n_to_start) // 4)
        limits = limits._replace(maxfev=limits.maxfev - aside, aside=aside)
    if limits.time_limit is not None:
        seconds = _ASIDE_TIME * limits.time_limit
        limits = limits._replace(time_limit=limits.time_limit - seconds, time_aside=seconds).restarted()
    return limits


def finish(result: Result, evaluate: Measure, space: Space, limits: Limits, ends: Ends, why: str) -> None:
    """Polish a result in place, with what the swarm has left of the limits; ``why`` says why the swarm has ended."""
    budget = None if limits.maxfev is None else limits.maxfev - result.nfev
    deadline = None if ends.deadline is None else ends.deadline + _ASIDE_TIME * (limits.time_limit or 0.0)
    before, bests = result.fun, result.swarm.best_value
    finite = bests[np.isfinite(bests)]
    scale = float(np.median(finite)) - before if len(finite) and np.isfinite(before) else 0.0
    scale = scale if scale > 0 else abs(before) or 1.0  # all bests are the same
    best = space.coordinates(result.x)
    found = polish(evaluate, best, before, scale, (space.lower, space.upper), budget, deadline, space.axes)
    if found.x is not best:
        result.x, result.fun = space.rows(found.x), found.fun
    result["next_step"] = None  # the swarm has not seen the polished point, so its spread says nothing about it
    result.nfev += found.spent
    result.n_failed += found.failed
    result.success = _is_success(result, found.has_converged)
    lost = ""
    if found.end is not None:
        result.status, lost = status_of(found.end)
        result.success, why = False, limits.message(result.status)
    message = message_of(why, result.n_failed, result.nfev, result.get("failure_kinds"))
    result.message = " ".join(filter(None, [message, lost, summary(found.spent, before, found.fun)]))


def finish_constrained(
    result: Result, evaluate: Evaluator, optimizer: Optimizer, limits: Limits, ends: Ends, why: str
) -> None:
    """Polish a result with constraints in place, by sequential quadratic programming from the best point."""
    feasibility = optimizer.feasibility
    assert feasibility is not None
    deadline = None if ends.deadline is None else ends.deadline + _ASIDE_TIME * (limits.time_limit or 0.0)
    local = LocalSearches(feasibility, optimizer.lower, optimizer.upper, optimizer.space.axes)
    before, spent, was_feasible = float(result.fun), optimizer.nfev, bool(result.feasible)
    end: End = None
    has_converged = False
    try:
        found = drive(search_from(optimizer, local, local.from_best(), limits._replace(deadline=deadline)), evaluate)
        end, has_converged = found.end, found.has_converged
    except (KeyboardInterrupt, EngineDown) as error:
        end = error
    status, lost = (result.status, "") if end is None else status_of(end)
    why = why if end is None else limits.message(status)
    polished = optimizer.result_with(status, why, result.progress)
    for name in ("x", "fun", "nfev", "n_failed", "feasible", "constr", "constr_violation", "maxcv", "n_infeasible"):
        result[name] = polished[name]
    result.status, result["next_step"] = status, None
    result.success = bool(result.feasible) and end is None and _is_success(result, has_converged)
    kinds = result.get("failure_kinds")
    said = optimizer.explained(why)
    message = message_of(said, result.n_failed, result.nfev, kinds)
    before = before if was_feasible else math.nan
    said = summary(optimizer.nfev - spent, before, float(result.fun) if result.feasible else math.nan)
    result.message = " ".join(filter(None, [message, lost, said]))


def finish_each(
    many: ManyResult, finish_one: Callable[[Result, int], None], *, is_stored: bool, more: tuple[str, ...] = ()
) -> None:
    """Polish the runs that are over, one after another. What stops one of them stops all.

    ``finish_one`` changes the result of a run, of which ``more`` names further parts that it may change. A recorded run
    that its callback stopped can go on, so it is not polished.
    """
    unfinished = [Status.INTERRUPTED, Status.CRASHED, Status.FAILED, *([Status.CALLBACK] if is_stored else [])]
    for r in np.flatnonzero(~np.isin(many.status, unfinished)).tolist():
        result = many.run(r)
        finish_one(result, r)
        for name in ("x", "fun", "nfev", "n_failed", "status", "success", "message", *more):
            many[name][r] = result[name]
        if result.status in unfinished:
            return


def _is_success(result: Result, has_converged: bool) -> bool:
    """A local minimum is an achievement for one swarm; where several searches must agree, it is none."""
    return bool(result.success or (has_converged and result.agreement is None))


def summary(spent: int, before: float, after: float) -> str:
    """What polishing has changed; NaN stands for the value of an infeasible point."""
    done = f"Polished with {counted(spent, 'evaluation')}"
    if math.isnan(after):
        return f"{done}, which found no feasible point."
    if math.isnan(before):
        return f"{done}, from an infeasible point to {after:.6g}."
    if after == before:
        return f"{done}, which found no better point."
    was, now = f"{before:.6g}", f"{after:.6g}"
    return f"{done}, from {was} to {now}." if was != now else f"{done}, which lowered {was} by {before - after:.2g}."


def polish(
    evaluate: Measure,
    x: Floats,
    fun: float,
    scale: float,
    box: Box,
    budget: int | None,
    deadline: float | None,
    axes: Axes | None = None,
) -> Polished:
    """L-BFGS-B from ``x``.

    It works in widths of the bounds and with values in units of ``scale``, a difference that matters, because its
    tolerances are made for numbers of order one. A point and the neighbours that give its gradient are evaluated
    together, so that workers share them. If a neighbour fails, the slope in its direction counts as zero. Whole numbers
    and choices stay as they are, and round coordinates have no bounds.
    """
    free = np.arange(len(x)) if axes is None else np.flatnonzero(axes.is_continuous)
    is_round = np.zeros(len(free), dtype=bool) if axes is None else axes.is_round[free]
    low, high = (end[free] for end in box)
    width = high - low
    start = (x[free] - low) / width
    budget = _MOST * (len(free) + 1) if budget is None else budget
    best, spent, failed = (x, fun), 0, 0
    end: End = None

    def measure(points: Floats) -> Floats:
        nonlocal best, spent, failed, end
        rows = points[: budget - spent]
        if len(rows) == 0 or (deadline is not None and time.monotonic() >= deadline):
            raise _Enough
        try:
            values, end = evaluate.until(deadline, rows)
        except (KeyboardInterrupt, EngineDown) as error:  # inside a call for several points
            end = error
            raise _Enough from None
        spent += len(values)
        failed += int(np.isnan(values).sum())
        values = order.failed_last(values)
        first = int(order.best(values)) if len(values) else 0
        if len(values) and order.is_better(values[first], best[1]):
            best = points[first].copy(), float(values[first])
        if end is not None or len(values) < len(points):
            raise _Enough
        return values

    def value_and_slope(share: Floats) -> tuple[float, Floats]:
        if not np.isfinite(share).all():
            raise _Enough
        steps = np.where((share + _STEP <= 1) | is_round, _STEP, -_STEP)
        shares = np.concatenate([share[None], share + np.diag(steps)])
        # What was not moved is where the swarm found it, to the last bit: next to it the function may fail.
        moving = np.where(shares == start, x[free], low + shares * width)
        points = np.repeat(x[None], len(shares), axis=0)
        points[:, free] = np.where(is_round, moving, np.clip(moving, low, high))
        is_known = bool((share == start).all())
        values = np.concatenate([[fun], measure(points[1:])]) if is_known else measure(points)
        here = float(values[0])
        if not math.isfinite(here):
            return _WALL, np.zeros(len(free))
        moved = np.diagonal((points[1:] - points[0])[:, free]) / width  # after rounding
        usable = np.isfinite(values[1:]) & (moved != 0)
        rise = np.where(usable, values[1:], here) - here
        return min((here - fun) / scale, _WALL), rise / scale / np.where(usable, moved, 1.0)

    has_converged = False
    ends = Bounds(np.where(is_round, -np.inf, 0.0), np.where(is_round, np.inf, 1.0))
    if math.isfinite(fun):
        with suppress(_Enough):  # the best so far is what is wanted
            found = scipy_minimize(value_and_slope, start, jac=True, method="L-BFGS-B", bounds=ends)
            has_converged = bool(found.success)
    return Polished(*best, spent, failed, end, has_converged)
