"""The unknowns of a fit whose run had a space: its continuous variables. The others keep the values of the result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paoswarm.core.arrays import Floats
from paoswarm.evaluation.calls import Objective
from paoswarm.optimize.read_input import Box
from paoswarm.spaces.space import Space
from paoswarm.spaces.variables import Periodic, Real


@dataclass(frozen=True)
class OfFitted:
    """A function of the user's variables as one of the fitted numbers alone. It can be sent between processes."""

    fun: Objective
    space: Space
    row: Floats  # the whole point
    is_fitted: NDArray[np.bool_]

    def __call__(self, x: Floats, *args: Any) -> Any:
        """Return what the function returns at a point ``(k,)`` or at several ``(m, k)``."""
        rows = np.tile(self.row, (*x.shape[:-1], 1)) if x.ndim > 1 else self.row.copy()
        rows[..., self.is_fitted] = x
        return self.fun(self.space.given(rows), *args)


@dataclass(frozen=True)
class FittedVariables:
    """Which variables of a space are fitted, and the point at which the others stay."""

    space: Space
    row: Floats

    @property
    def is_fitted(self) -> NDArray[np.bool_]:
        """Whether each variable is continuous."""
        fitted = np.array([isinstance(one, Real | Periodic) for one in self.space.variables])
        if not fitted.any():
            raise ValueError("no variable of the space is continuous: there is nothing whose error could be told")
        return fitted

    @property
    def x(self) -> Floats:
        """The fitted numbers."""
        return self.row[self.is_fitted]

    @property
    def names(self) -> tuple[str, ...]:
        """What they are called."""
        return tuple(np.array(self.space.labels())[self.is_fitted].tolist())

    @property
    def box(self) -> Box:
        """Their bounds; a periodic variable has none."""
        ends = [
            (one.low, one.high) if isinstance(one, Real) else (-np.inf, np.inf)
            for one in self.space.variables
            if isinstance(one, Real | Periodic)
        ]
        lower, upper = np.array(ends, dtype=float).T
        return lower, upper

    def with_fitted(self, x: Floats) -> Floats:
        """The whole point with other fitted numbers."""
        row = self.row.copy()
        row[self.is_fitted] = x
        return row

    def function(self, fun: Objective) -> OfFitted:
        """The user's function as one of the fitted numbers."""
        return OfFitted(fun, self.space, self.row, self.is_fitted)
