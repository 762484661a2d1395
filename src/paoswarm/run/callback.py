"""The user's callback, called after every generation as SciPy does."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from paoswarm.run.result import Result

Notify = Callable[[Callable[[], Result]], bool]  # calls back with what it is given; whether the run should stop


def read_callback(callback: Callable[..., Any] | None) -> Notify | None:
    """The callback as a function of a function that makes the result so far; None if there is none.

    SciPy's contract: a parameter called ``intermediate_result`` receives the whole result, any other the best point.
    """
    if callback is None:
        return None
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

    def notify(so_far: Callable[[], Result]) -> bool:
        result = so_far()
        try:
            wish = callback(intermediate_result=result) if wants_result else callback(result.best)
        except StopIteration:
            return True
        except AttributeError as error:
            if not wants_result:
                error.add_note(
                    "The callback got the best point alone, because its parameter is not called intermediate_result. "
                    "Rename it to get the whole result: def callback(intermediate_result): ..."
                )
            raise
        return wish is True or (isinstance(wish, np.bool_) and bool(wish))

    return notify
