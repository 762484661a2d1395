"""The unknowns of a fit whose variables are described: the continuous ones. The others keep their values.

Errors are taken in the coordinate that the search sees, of a logarithmic variable in its logarithm. There the function
is more nearly a parabola, and no interval contains a number below zero.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paoswarm.core.arrays import Floats
from paoswarm.evaluation.calls import Objective
from paoswarm.fits.fit_uncertainty import FitUncertainty
from paoswarm.optimize.read_input import Box
from paoswarm.spaces.space import Space
from paoswarm.spaces.variables import Periodic, Real


@dataclass(frozen=True)
class FittedVariables:
    """Which variables of a space are fitted, and the point at which the others stay.

    Parameters
    ----------
    space : Space
    row : array (d,)
        The whole point.
    has_bounds : bool
        Whether the ends of the variables are bounds. Those of a point that is given by names alone are not.
    """

    space: Space
    row: Floats
    has_bounds: bool = True

    @property
    def is_fitted(self) -> NDArray[np.bool_]:
        """Whether each variable is continuous."""
        fitted = np.array([isinstance(one, Real | Periodic) for one in self.space.variables])
        if not fitted.any():
            raise ValueError("no variable of the space is continuous: there is nothing whose error could be told")
        return fitted

    @property
    def is_log(self) -> NDArray[np.bool_]:
        """Whether each of the fitted variables is logarithmic."""
        fitted = [one for one in self.space.variables if isinstance(one, Real | Periodic)]
        return np.array([isinstance(one, Real) and one.log for one in fitted])

    @property
    def x(self) -> Floats:
        """The fitted numbers."""
        return self.row[self.is_fitted]

    @property
    def names(self) -> tuple[str, ...]:
        """What they are called."""
        return tuple(np.array(self.space.labels())[self.is_fitted].tolist())

    @property
    def held(self) -> dict[str, Any]:
        """The values of the other variables."""
        values = [one.value(number) for one, number in zip(self.space.variables, self.row.tolist(), strict=True)]
        every = zip(self.space.labels(), values, self.is_fitted, strict=True)
        return {label: value for label, value, fitted in every if not fitted}

    @property
    def box(self) -> Box:
        """Their bounds; a periodic variable has none."""
        ends = [
            (one.low, one.high) if isinstance(one, Real) and self.has_bounds else (-np.inf, np.inf)
            for one in self.space.variables
            if isinstance(one, Real | Periodic)
        ]
        lower, upper = np.array(ends, dtype=float).T
        return lower, upper

    def coordinates(self, x: Floats) -> Floats:
        """Fitted numbers as coordinates: the logarithms of those that are logarithmic."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(self.is_log, np.log(np.maximum(x, 0.0)), x)

    def numbers(self, u: Floats) -> Floats:
        """Fitted numbers ``(..., k)`` of coordinates."""
        with np.errstate(over="ignore"):
            return np.where(self.is_log, np.exp(np.where(self.is_log, u, 0.0)), u)

    def point(self, u: Floats) -> Any:
        """What the user's function gets for coordinates ``(k,)`` or ``(m, k)``: the whole point."""
        rows = np.tile(self.row, (*u.shape[:-1], 1)) if u.ndim > 1 else self.row.copy()
        rows[..., self.is_fitted] = self.numbers(u)
        return self.space.given(rows)

    def with_fitted(self, x: Floats) -> Floats:
        """The whole point with other fitted numbers."""
        row = self.row.copy()
        row[self.is_fitted] = x
        return row

    def function(self, fun: Objective) -> OfFitted:
        """The user's function as one of the coordinates."""
        return OfFitted(fun, self)

    def translated(self, fit: FitUncertainty) -> FitUncertainty:
        """What was found in coordinates, in the user's numbers."""
        x = self.numbers(fit.x)
        slope = np.where(self.is_log, x, 1.0)  # of the number along its coordinate
        return dataclasses.replace(
            fit,
            x=x,
            standard_errors=slope * fit.standard_errors,
            covariance=slope[:, None] * slope * fit.covariance,
            hessian=fit.hessian / slope[:, None] / slope,
            profile=None if fit.profile is None else self.numbers(fit.profile.T).T,
            is_log=self.is_log,
            held=self.held,
            _point=self.point,
        )


@dataclass(frozen=True)
class OfFitted:
    """A function of the user's variables as one of the fitted coordinates. It can be sent between processes."""

    fun: Objective
    variables: FittedVariables

    def __call__(self, u: Floats, *args: Any) -> Any:
        """Return what the function returns at a point ``(k,)`` or at several ``(m, k)``."""
        return self.fun(self.variables.point(u), *args)
