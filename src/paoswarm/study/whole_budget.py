"""Runs of a method that use a budget to its end, one evaluation after the other: what benchmarks of others expect."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from paoswarm._checks import whole_number
from paoswarm.algorithms.method import Method
from paoswarm.algorithms.searches import Searches
from paoswarm.optimize.minimize import minimize


def spend(
    fun: Callable[..., Any],
    bounds: Any,
    method: Method | str | None,
    budget: int,
    *,
    rng: np.random.SeedSequence,
    is_done: Callable[[], bool],
    integrality: Any = None,
    constraints: Any = (),
) -> int:
    """Minimise ``fun`` with exactly ``budget`` evaluations, or until ``is_done()``; return how many there were.

    A method that starts again by itself is not stopped when its searches agree. Any other method is started again,
    independently, whenever it has converged.
    """

    def stop(intermediate_result: Any) -> None:
        if is_done():
            raise StopIteration

    spent = 0
    while spent < budget and not is_done():
        with warnings.catch_warnings():  # the last restart may be short
            warnings.filterwarnings("ignore", message="maxfev=[0-9]+ leaves", category=RuntimeWarning)
            starts_again = method is None or isinstance(method, Searches)
            options: dict[str, Any] = {"tol": 0.0} if starts_again else {}
            result = minimize(
                fun,
                bounds,
                integrality=integrality,
                method=method,
                maxfev=budget - spent,
                constraints=constraints,
                callback=stop,
                rng=rng.spawn(1)[0],
                **options,
            )
        spent += result.nfev
    return spent


def read_budget(budget_multiplier: Any, dimension: int) -> int:
    """Evaluations of a problem."""
    return whole_number("budget_multiplier", budget_multiplier, 1) * dimension


def name_of(method: Method | str | None, name: str | None) -> str:
    """What an algorithm is called in the data."""
    if name is not None:
        return name
    return "AdaptivePAO" if method is None else method if isinstance(method, str) else type(method).__name__
