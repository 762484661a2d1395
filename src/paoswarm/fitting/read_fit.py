"""What users say about a fit: the function and what it means, the point, its bounds and names, the fitted variables.

Only the continuous variables of a space are fitted; the others keep their values. Errors are taken in the coordinate
that the search sees, of a logarithmic variable in its logarithm. There the function is more nearly a parabola, and no
interval contains a number below zero.
"""

from __future__ import annotations

import dataclasses
import numbers
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import OptimizeResult

from paoswarm._checks import whole_number
from paoswarm.core.arrays import Floats
from paoswarm.evaluate.calls import Objective
from paoswarm.evaluate.evaluator import Evaluator
from paoswarm.fitting.fit_uncertainty import FitUncertainty
from paoswarm.run.read_input import Box, read_bounds, read_space
from paoswarm.space.lmfit_parameters import ParametersSpace, are_parameters
from paoswarm.space.names import check_name, numbered
from paoswarm.space.space import Fixed, Space
from paoswarm.space.variables import WIDEST, Periodic, Real, Variable

_FARTHEST = WIDEST / 4


class Meaning(NamedTuple):
    """What the value of the function means, which decides how far it rises one standard error from the minimum.

    A negative log likelihood rises by 1/2. A sum of squares rises by the variance of one datum; if that is not known,
    it is estimated by the smallest sum of squares, divided by the degrees of freedom.
    """

    is_likelihood: bool
    variance: float | None  # of one datum, if it is known
    degrees_of_freedom: int | None  # None if no variance is estimated
    n_data: int | None = None

    @classmethod
    def of(cls, kind: str, variance: float | None, n_data: int | None, d: int) -> Meaning:
        """The meaning of a kind of function with ``d`` unknowns."""
        is_likelihood = kind == "negative_log_likelihood"
        is_estimated = not is_likelihood and variance is None and n_data is not None
        return cls(is_likelihood, variance, n_data - d if is_estimated and n_data is not None else None, n_data)

    def rise(self, value: float) -> float:
        """How far the function rises one standard error away from a minimum of this value."""
        if self.is_likelihood:
            return 0.5
        if self.variance is not None:
            return self.variance
        assert self.degrees_of_freedom is not None
        return max(value, 0.0) / self.degrees_of_freedom


class FitFunction:
    """Evaluates points of a fit and counts them."""

    def __init__(self, evaluate: Evaluator) -> None:
        self._evaluate = evaluate
        self.n_evaluations = self.n_failed = 0

    def __call__(self, points: Floats) -> Floats:
        """Values at the rows of ``points``; NaN where it has failed."""
        values = self._evaluate(points)
        values = np.where(np.isfinite(values), values, np.nan)
        self.n_evaluations += len(values)
        self.n_failed += int(np.isnan(values).sum())
        return values

    def explain_failure(self, what: str) -> ValueError:
        """The error for points that failed where none may fail."""
        return ValueError(f"{what}; {self._evaluate.first_failure()}")


@dataclass(frozen=True)
class FittedVariables:
    """Which variables of a space are fitted, and the point at which the others stay."""

    space: Space
    row: Floats  # (d,), the whole point
    has_bounds: bool = True  # whether the ends of the variables are bounds: not if a point is given by names alone

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

    def call(self, fun: Objective, u: Floats, *args: Any) -> Any:
        """What the user's function returns at coordinates ``(k,)`` or ``(m, k)``."""
        return fun(self.point(u), *args)

    def translated(self, fit: FitUncertainty) -> FitUncertainty:
        """What was found in coordinates, in the user's numbers."""
        x, space, row = self.numbers(fit.x), self.space, self.row.copy()
        row[self.is_fitted] = x
        slope = np.where(self.is_log, x, 1.0)  # of the number along its coordinate
        covariance = slope[:, None] * slope * fit.covariance
        return dataclasses.replace(
            fit,
            x=x,
            standard_errors=slope * fit.standard_errors,
            covariance=covariance,
            parameters=space.with_errors(row, covariance) if isinstance(space, ParametersSpace) else None,
            hessian=fit.hessian / slope[:, None] / slope,
            profile=None if fit.profile is None else self.numbers(fit.profile.T).T,
            is_log=self.is_log,
            held=self.held,
            _point=self.point,
        )


def the_one_function(given: Mapping[str, Any]) -> tuple[str, Objective]:
    """The function that was given, and what it is."""
    found = {name: fun for name, fun in given.items() if fun is not None}
    if len(found) != 1:
        got = " and ".join(found) or "none"
        raise TypeError(f"give one function, by what it is: {', '.join(f'{name}=' for name in given)}; got {got}")
    ((name, fun),) = found.items()
    if not callable(fun):
        raise TypeError(f"{name} must be callable, got {fun!r}")
    return name, fun


def is_by_name(point: Any) -> bool:
    """Whether a point is given by names; a result is a dict, too."""
    return isinstance(point, Mapping) and not isinstance(point, OptimizeResult)


def read_point(result: Any) -> Floats:
    """The point of a result, or the point itself."""
    try:
        x = np.array(getattr(result, "x", result), dtype=float)
    except (TypeError, ValueError):
        raise TypeError(f"give a result of minimize, or a point of shape (d,), got {result!r}") from None
    if x.ndim != 1 or x.size == 0:
        hint = "; of minimize_many, give one run: result.run(i)" if x.ndim == 2 else ""
        raise ValueError(f"give a result of minimize, or a point of shape (d,); x has shape {x.shape}{hint}")
    if not np.isfinite(x).all():
        raise ValueError(f"the point must be finite, got {x}")
    return x


def read_variables(result: Any, bounds: Any) -> FittedVariables | None:
    """The variables of a fit: those that ``bounds`` describes, of the run, or a point by name; None for plain numbers.

    Of a point by name without bounds all numbers are unknowns.
    """
    if are_parameters(result):
        raise TypeError("give the result of minimize(fun, params): lmfit.Parameters alone say nothing about a minimum")
    space = getattr(result, "space", None)
    if is_space(bounds):
        space = read_space(bounds)
        given = result if is_by_name(result) else getattr(result, "best", getattr(result, "x", result))
        return FittedVariables(space, space.read("the point", given)[0])
    if not is_by_name(result):
        return None if space is None else FittedVariables(space, read_point(result))
    if bounds is not None:
        raise TypeError("the point is given by name, so bounds must be a dict with the same names")
    for name in result:
        check_name(name)
    variables = [_unbounded(repr(name), value) for name, value in result.items()]
    if all(isinstance(one, Fixed) for one in variables):
        raise ValueError(f"the point has no number whose error could be told, got {dict(result)!r}")
    space = Space(variables, list(result))
    return FittedVariables(space, space.read("the point", result)[0], has_bounds=False)


def is_space(bounds: Any) -> bool:
    """Whether bounds describe variables."""
    if isinstance(bounds, Mapping):
        return True
    return isinstance(bounds, Sequence) and any(isinstance(one, Variable) for one in bounds)


def _unbounded(what: str, value: Any) -> Variable:
    """A number that may have any value; anything else is held."""
    if isinstance(value, bool | np.bool_ | str) or not isinstance(value, numbers.Real):
        return Fixed(value)
    if not abs(float(value)) < _FARTHEST:
        raise ValueError(f"{what} is {value!r}; the point must be finite")
    return Real(-_FARTHEST, _FARTHEST)


class FitStart(NamedTuple):
    """Where a fit begins, in the coordinates in which errors are taken."""

    x: Floats
    box: Box
    names: tuple[str, ...]
    is_log: NDArray[np.bool_]
    variables: FittedVariables | None  # None for plain numbers


def read_start(result: Any, bounds: Any, names: Sequence[str] | None) -> FitStart:
    """The point, its bounds and names, from a result or a point."""
    variables = read_variables(result, bounds)
    x = read_point(result) if variables is None else variables.x
    box = read_box(result, bounds, x, variables)
    labels = read_names(names, variables, len(x))
    if variables is None:
        return FitStart(x, box, labels, np.zeros(len(x), dtype=bool), None)
    low, high = map(variables.coordinates, box)
    return FitStart(variables.coordinates(x), (low, high), labels, variables.is_log, variables)


def read_box(result: Any, bounds: Any, x: Floats, variables: FittedVariables | None) -> Box:
    """The bounds that are given, else those of the run, else none; in the user's numbers."""
    d = len(x)
    if bounds is not None and not is_space(bounds):
        box = read_bounds(bounds)
        if len(box[0]) != d:
            raise ValueError(f"bounds are for {len(box[0])} unknowns, but the point has {d}")
    else:
        box = _box_of_run(result, d) if variables is None else variables.box
    if ((x < box[0]) | (x > box[1])).any():
        i = int(np.flatnonzero((x < box[0]) | (x > box[1]))[0])
        raise ValueError(f"x[{i}] is {x[i]}, outside its bounds ({box[0][i]}, {box[1][i]})")
    return box


def _box_of_run(result: Any, d: int) -> Box:
    swarm, wall = getattr(result, "swarm", None), getattr(getattr(result, "method", None), "wall", None)
    if swarm is not None and wall is not None and wall.is_bounded and wall.unroll is None:
        lower, upper = (np.array(end[0], dtype=np.float64) for end in (swarm.lower, swarm.upper))
        if lower.shape == (d,):
            return lower, upper
    return np.full(d, -np.inf), np.full(d, np.inf)


def read_names(names: Sequence[str] | None, variables: FittedVariables | None, d: int) -> tuple[str, ...]:
    """One name for each unknown: those given, else those of the run, else numbers."""
    if names is None and variables is not None:
        return variables.names
    if names is None:
        return tuple(numbered(d))
    labels = (names,) if isinstance(names, str) else tuple(names)
    if len(labels) != d or not all(isinstance(name, str) for name in labels):
        raise ValueError(f"names must be {d} strings, one for each unknown, got {names!r}")
    return labels


def read_data(kind: str, n_data: Any, variance: float | None, d: int) -> int | None:
    """The number of data, checked against what else is known."""
    if kind == "negative_log_likelihood":
        if n_data is not None or variance is not None:
            raise ValueError("a negative log likelihood needs neither n_data nor variance: it holds both")
        return None
    if n_data is None:
        if kind == "sum_of_squares" and variance is None:
            raise ValueError(
                "sum_of_squares needs n_data=, the number of squares in the sum, from which the variance of the data "
                "is estimated; or variance=, if it is known"
            )
        return None
    count = whole_number("n_data", n_data, 1)
    if variance is None and count <= d:
        raise ValueError(f"{count} data cannot give the variance and {d} unknowns: give variance=, or more data")
    return count
