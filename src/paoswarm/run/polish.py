"""Polishing: a local search from the best point, inside the bounds and inside the budget."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import Bounds
from scipy.optimize import minimize as scipy_minimize

from paoswarm._checks import counted
from paoswarm.core import order
from paoswarm.core.arrays import Floats
from paoswarm.core.walls import Axes
from paoswarm.evaluate.caller import End
from paoswarm.evaluate.engines import EngineDown
from paoswarm.evaluate.evaluator import Evaluator
from paoswarm.evaluate.queue import Queue
from paoswarm.run.beside import LocalSearches, search_from
from paoswarm.run.judge import FeasibleFirst
from paoswarm.run.many_result import ManyResult
from paoswarm.run.read_input import Box
from paoswarm.run.result import Result, message_of
from paoswarm.run.run import drive_alone, status_of
from paoswarm.run.run_state import RunState
from paoswarm.run.stopping import Limits, Status
from paoswarm.space.space import Space

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
    kinds: Counter[str]  # in which way points have failed
    score: float = math.nan  # of the best point, with constraints


class _Enough(Exception):
    pass


def with_reserve(limits: Limits, n_unknowns: int, n_to_start: int) -> Limits:
    """The limits of the swarm if it leaves something for polishing: a part of the evaluations and of the time."""
    if limits.maxfev is not None:
        aside = min(_ASIDE * (n_unknowns + 1), max(0, limits.maxfev - n_to_start) // 4)
        limits = limits._replace(maxfev=limits.maxfev - aside, aside=aside)
    if limits.time_limit is not None:
        seconds = _ASIDE_TIME * limits.time_limit
        limits = limits._replace(time_limit=limits.time_limit - seconds, time_aside=seconds).restarted()
    return limits


def polish_each(
    many: ManyResult,
    why: list[str],
    evaluate: Any,
    space: Space,
    limits: Limits,
    clock: float | None,
    states: Sequence[RunState] = (),
    *,
    is_stored: bool,
) -> None:
    """Polish the runs that are over, one after another, in place. What stops one of them stops all.

    ``evaluate`` is an `Evaluator` or a compiled engine, ``why`` says why each swarm has ended, and ``clock`` is the
    deadline of the swarms. Runs with constraints need their ``states``. A recorded run that its callback stopped can go
    on, so it is not polished.
    """
    deadline = None if clock is None else clock + _ASIDE_TIME * (limits.time_limit or 0.0)
    unfinished = [Status.INTERRUPTED, Status.CRASHED, Status.FAILED, *([Status.CALLBACK] if is_stored else [])]
    many["polished"] = np.zeros(len(many.status), dtype=bool)
    for r in np.flatnonzero(~np.isin(many.status, unfinished)).tolist():
        before = many.run(r)
        if before.fun_error is not None:  # a local search does not handle the noise that the run has noticed
            continue
        if "feasible" in many:
            assert isinstance(evaluate, Evaluator)
            found, changed = _polish_constrained(states[r], evaluate, limits._replace(deadline=deadline))
        else:
            found, changed = _polish_plain(before, evaluate, space, limits, deadline)
        reason = why[r] if found.end is None else limits.message(status_of(found.end)[0])
        if "feasible" in many:
            reason = " ".join(filter(None, [states[r].judge.sentence(states[r].incumbent.x, found.score), reason]))
        after = _after(before, found, changed, reason)
        for name, value in after.items():
            many[name][r] = value
        many.polished[r] = True
        if after["status"] in unfinished:
            return


def _after(before: Result, found: Polished, changed: dict[str, Any], reason: str) -> dict[str, Any]:
    """The fields of a result that polishing has changed; ``reason`` says why the run has ended."""
    status, lost = (before.status, "") if found.end is None else status_of(found.end)
    nfev, n_failed = before.nfev + found.spent, before.n_failed + found.failed
    kinds = before.failure_kinds + found.kinds
    after = Result(**dict(before) | changed)
    was, now = (float(one.fun) if one.feasible else math.nan for one in (before, after))
    said = [message_of(reason, n_failed, nfev, kinds), lost, summary(found.spent, was, now)]
    # A local minimum is an achievement for one swarm; where several searches must agree, it is none.
    is_success = before.success or (found.has_converged and before.agreement is None)
    counts = {"status": status, "nfev": nfev, "n_failed": n_failed, "failure_kinds": kinds}
    success = bool(is_success and found.end is None and after.feasible)
    return changed | counts | {"message": " ".join(filter(None, said)), "success": success}


def _polish_plain(
    before: Result, evaluate: Any, space: Space, limits: Limits, deadline: float | None
) -> tuple[Polished, dict[str, Any]]:
    """A local search from the best point of a run, and what it changes in its result."""
    budget = None if limits.maxfev is None else limits.maxfev - before.nfev
    bests = before.swarm.best_value
    finite = bests[np.isfinite(bests)]
    scale = float(np.median(finite)) - before.fun if len(finite) and np.isfinite(before.fun) else 0.0
    scale = scale if scale > 0 else abs(before.fun) or 1.0  # all bests are the same
    best = space.coordinates(before.x)
    found = polish(evaluate, best, before.fun, scale, (space.lower, space.upper), budget, deadline, space.axes)
    return found, {} if found.x is best else {"x": space.rows(found.x), "fun": found.fun}


def _polish_constrained(state: RunState, evaluate: Evaluator, limits: Limits) -> tuple[Polished, dict[str, Any]]:
    """Sequential quadratic programming from the best point of a run, and what it changes in its result."""
    judge = state.judge
    assert isinstance(judge, FeasibleFirst)
    local = LocalSearches(judge, state.lower, state.upper, state.space.axes)
    spent, failed, kinds = state.nfev, int(state.n_failed), state.failure_kinds[0].copy()
    end: End = None
    has_converged = False
    try:
        found = drive_alone(search_from(state, local, local.from_best(), limits), Queue(evaluate))
        end, has_converged = found.end, found.has_converged
    except (KeyboardInterrupt, EngineDown) as error:
        end = error
    spent, failed, kinds = state.nfev - spent, int(state.n_failed) - failed, state.failure_kinds[0] - kinds
    x, score = state.best.x.copy(), float(state.incumbent.value)
    value, fields = judge.value(score), judge.fields(state.incumbent.x, score)
    changed = {name: fields[name] for name in ("feasible", "constr", "constr_violation", "maxcv", "n_infeasible")}
    return Polished(x, value, spent, failed, end, has_converged, kinds, score), {"x": x, "fun": value, **changed}


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
    evaluate: Any,
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
    kinds: Counter[str] = Counter()

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
        kinds.update(evaluate.failed.values())
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
    return Polished(*best, spent, failed, end, has_converged, kinds)
