"""Finishing touch: a local search from the swarm's best point, inside the box and inside the budget."""

from __future__ import annotations

import time

import numpy as np
from scipy.optimize import Bounds
from scipy.optimize import minimize as scipy_minimize

from paoswarm.core.walled import Floats
from paoswarm.evaluation.engines import EngineDown
from paoswarm.evaluation.evaluator import Evaluator
from paoswarm.optimize.problem import Box

ASIDE = 50  # evaluations per unknown that are set aside for it, and one more unknown's
_MOST = 200  # the same, where nobody has set a limit
ASIDE_TIME = 0.1  # of the time


class _BudgetSpent(Exception):
    pass


def polish(
    evaluate: Evaluator, x: Floats, fun: float, scale: float, box: Box, budget: int | None, deadline: float | None
) -> tuple[Floats, float, int, int]:
    """L-BFGS-B from ``x``; returns the better point, its value, and the evaluations and failures it cost.

    It works in widths of the box and with values in units of ``scale``, a difference that matters: its differences and
    tolerances are made for numbers of order one.
    """
    best_x, best_fun = x, fun
    spent = failed = 0
    low, high = box
    budget = _MOST * (len(x) + 1) if budget is None else budget

    def counted(share: Floats) -> float:
        nonlocal spent, failed, best_x, best_fun
        if spent >= budget or (deadline is not None and time.monotonic() >= deadline):
            raise _BudgetSpent
        point = np.clip(low + share * (high - low), *box)
        value = float(evaluate(point[None])[0])
        spent += 1
        if np.isnan(value):
            failed += 1
            return np.inf
        if value < best_fun:
            best_x, best_fun = point.copy(), value
        return (value - fun) / scale

    try:
        with np.errstate(all="ignore"):  # a failed point makes its finite differences infinite
            start = (x - low) / (high - low)
            scipy_minimize(counted, start, method="L-BFGS-B", bounds=Bounds(0.0, 1.0))
    except (_BudgetSpent, KeyboardInterrupt, EngineDown):
        pass  # the best so far is what is wanted
    return best_x, best_fun, spent, failed
