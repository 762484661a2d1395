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


class _BudgetSpent(Exception):
    pass


def polish(
    evaluate: Evaluator, x: Floats, fun: float, box: Box, budget: int | None, deadline: float | None
) -> tuple[Floats, float, int, int]:
    """L-BFGS-B from ``x``; returns the better point, its value, and the evaluations and failures it cost."""
    best_x, best_fun = x, fun
    spent = failed = 0

    def counted(point: Floats) -> float:
        nonlocal spent, failed, best_x, best_fun
        if (budget is not None and spent >= budget) or (deadline is not None and time.monotonic() >= deadline):
            raise _BudgetSpent
        point = np.clip(point, *box)
        value = float(evaluate(point[None])[0])
        spent += 1
        if np.isnan(value):
            failed += 1
            return np.inf
        if value < best_fun:
            best_x, best_fun = point.copy(), value
        return value

    try:
        with np.errstate(all="ignore"):  # a failed point makes its finite differences infinite
            scipy_minimize(counted, x, method="L-BFGS-B", bounds=Bounds(*box))
    except (_BudgetSpent, KeyboardInterrupt, EngineDown):
        pass  # the best so far is what is wanted
    return best_x, best_fun, spent, failed
