"""Reading what users say about a fit: the point, its bounds, names, and what the function is."""

from __future__ import annotations

import numbers
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.optimize import OptimizeResult

from paoswarm._checks import whole_number
from paoswarm.core.arrays import Floats
from paoswarm.evaluation.calls import Objective
from paoswarm.fits.fitted_variables import FittedVariables
from paoswarm.optimize.read_input import Box, read_bounds
from paoswarm.optimize.read_space import read_space
from paoswarm.spaces.choices import Fixed
from paoswarm.spaces.lmfit_parameters import are_parameters
from paoswarm.spaces.names import check_name, numbered
from paoswarm.spaces.space import Space
from paoswarm.spaces.variables import WIDEST, Real, Variable

_FARTHEST = WIDEST / 4


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
                "is estimated; or variance=, if it is known (1 if residuals are divided by their standard deviations)"
            )
        return None
    count = whole_number("n_data", n_data, 1)
    if variance is None and count <= d:
        raise ValueError(f"{count} data cannot give the variance and {d} unknowns: give variance=, or more data")
    return count
