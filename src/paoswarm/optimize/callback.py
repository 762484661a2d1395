"""The user's callback, called after every generation as SciPy does."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from paoswarm.core.swarm import read_only
from paoswarm.optimize.optimizer import Optimizer
from paoswarm.optimize.result import Result
from paoswarm.optimize.stopping import Status

State = TypeVar("State")
Notify = Callable[[State], Status | None]


def read_callback(callback: Callable[..., Any] | None, so_far: Callable[[State], Result]) -> Notify[State]:
    """A function of a run's state that calls back and tells whether the run should stop.

    SciPy's contract: a parameter called ``intermediate_result`` receives the whole result, any other the best point.
    """
    if callback is None:
        return lambda state: None
    if not callable(callback):
        raise TypeError(f"callback must be callable, got {callback!r}")
    try:
        signature = inspect.signature(callback)
    except (TypeError, ValueError):  # a builtin without signature
        signature = inspect.signature(lambda x: None)
    wants_result = "intermediate_result" in signature.parameters
    try:
        signature.bind(intermediate_result=None) if wants_result else signature.bind(None)
    except TypeError as error:
        raise TypeError(
            "callback must take one argument. Name it intermediate_result to get the whole result; any other name gets "
            f"the best point. {callback!r} cannot be called so: {error}"
        ) from None

    def call(state: State) -> Status | None:
        result = so_far(state)
        try:
            wish = callback(intermediate_result=result) if wants_result else callback(result.best)
        except StopIteration:
            return Status.CALLBACK
        except AttributeError as error:
            if not wants_result:
                error.add_note(
                    "The callback got the best point alone, because its parameter is not called intermediate_result. "
                    "Rename it to get the whole result: def callback(intermediate_result): ..."
                )
            raise
        return Status.CALLBACK if wish is True or (isinstance(wish, np.bool_) and bool(wish)) else None

    return call


def so_far(optimizer: Optimizer) -> Result:
    """What a callback gets to see of a run."""
    assert optimizer.swarm is not None
    best = optimizer.incumbent
    return Result(
        x=optimizer.best.x.copy(),
        fun=optimizer.best_value,
        nit=optimizer.nit,
        nfev=optimizer.nfev,
        n_failed=int(optimizer.n_failed),
        swarm=read_only(optimizer.swarm),
        **optimizer.shown,
        **({} if optimizer.feasibility is None else optimizer.feasibility.fields(best.x, float(best.value))),
    )
