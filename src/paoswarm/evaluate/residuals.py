"""Functions that may return residuals instead of a value, as those written for lmfit do."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from paoswarm.evaluate.calls import Objective, to_fingerprint
from paoswarm.space.space import Space


@dataclass(frozen=True)
class SumOfSquares:
    """The sum of squares of what a function returns, if that is more than one number. It can be sent to processes."""

    fun: Objective
    belonging: tuple[Any, ...] = ()  # what else decides the value, for stores

    def __call__(self, x: Any) -> Any:
        """The value at a point."""
        answer = self.fun(x)
        if isinstance(answer, float | tuple):  # a tuple holds a value and constraints
            return answer
        residuals = np.asarray(answer)
        if residuals.size < 2 or residuals.dtype.kind not in "fiuc":
            return answer
        with np.errstate(over="ignore"):
            return float((residuals.real.astype(float) ** 2 + residuals.imag.astype(float) ** 2).sum())

    def to_fingerprint(self) -> Any:
        """The user's function, and what belongs to it."""
        return partial(to_fingerprint(self.fun), *self.belonging) if self.belonging else to_fingerprint(self.fun)


def as_objective(fun: Objective, space: Space, vectorized: Any) -> Objective:
    """The user's function; its sum of squares in a space whose functions may return residuals."""
    if not space.allows_residuals or not callable(fun):
        return fun
    if vectorized:
        raise ValueError("lmfit.Parameters hold one point: leave out vectorized=True")
    return SumOfSquares(fun, space.expressions)
