"""Finishing touch: a local search from the swarm's best point, inside the box and inside the budget."""

from __future__ import annotations

import math
import time
from contextlib import suppress
from typing import NamedTuple

import numpy as np
from scipy.optimize import Bounds
from scipy.optimize import minimize as scipy_minimize

from paoswarm.core.arrays import Floats
from paoswarm.evaluation.evaluator import End, Evaluator
from paoswarm.optimize.read_input import Box

ASIDE = 50  # evaluations per unknown that are set aside for it, and one more unknown's
_MOST = 200  # the same, where nobody has set a limit
ASIDE_TIME = 0.1  # of the time
_STEP = 1e-8  # of the box, for differences
_WALL = 1e10  # stands for failure: a value that a line search turns back from, and can reckon with


class Polished(NamedTuple):
    """The best point, what it cost, and what has ended it before its time."""

    x: Floats
    fun: float
    spent: int
    failed: int
    end: End


class _Enough(Exception):
    pass


def polish(
    evaluate: Evaluator, x: Floats, fun: float, scale: float, box: Box, budget: int | None, deadline: float | None
) -> Polished:
    """L-BFGS-B from ``x``.

    It works in widths of the box and with values in units of ``scale``, a difference that matters: its tolerances are
    made for numbers of order one. A point and its neighbours, whose differences are the gradient, are evaluated
    together, so that workers share them. Where a neighbour fails, nothing is known of that direction.
    """
    low, high = box
    width = high - low
    start = (x - low) / width
    budget = _MOST * (len(x) + 1) if budget is None else budget
    best, spent, failed = (x, fun), 0, 0
    end: End = None

    def measure(points: Floats) -> Floats:
        nonlocal best, spent, failed, end
        rows = points[: budget - spent]
        if len(rows) == 0 or (deadline is not None and time.monotonic() >= deadline):
            raise _Enough
        values, end = evaluate.until(deadline, rows)
        spent += len(values)
        failed += int(np.isnan(values).sum())
        values = np.where(np.isnan(values), np.inf, values)
        lowest = int(np.argmin(values)) if len(values) else 0
        if len(values) and values[lowest] < best[1]:
            best = points[lowest].copy(), float(values[lowest])
        if end is not None or len(values) < len(points) or best[1] == -np.inf:
            raise _Enough
        return values

    def value_and_slope(share: Floats) -> tuple[float, Floats]:
        if not np.isfinite(share).all():
            raise _Enough
        steps = np.where(share + _STEP <= 1, _STEP, -_STEP)
        shares = np.concatenate([share[None], share + np.diag(steps)])
        # What was not moved is where the swarm found it, to the last bit: next to it the function may fail.
        points = np.clip(np.where(shares == start, x, low + shares * width), low, high)
        is_known = bool((share == start).all())
        values = np.concatenate([[fun], measure(points[1:])]) if is_known else measure(points)
        here = float(values[0])
        if not math.isfinite(here):
            return _WALL, np.zeros(len(x))
        moved = np.diagonal(points[1:] - points[0]) / width  # after rounding
        usable = np.isfinite(values[1:]) & (moved != 0)
        rise = np.where(usable, values[1:], here) - here
        return min((here - fun) / scale, _WALL), rise / scale / np.where(usable, moved, 1.0)

    if math.isfinite(fun):
        with suppress(_Enough):  # the best so far is what is wanted
            scipy_minimize(value_and_slope, start, jac=True, method="L-BFGS-B", bounds=Bounds(0.0, 1.0))
    return Polished(*best, spent, failed, end)
