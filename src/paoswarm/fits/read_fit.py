"""Reading what users say about a fit: the point, its bounds, names, and what the function is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from paoswarm.checks import whole_number
from paoswarm.core.arrays import Floats
from paoswarm.evaluation.calls import Objective
from paoswarm.fits.fitted_variables import FittedVariables
from paoswarm.optimize.read_input import Box, read_bounds
from paoswarm.spaces.lmfit_parameters import are_parameters


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


def read_point(result: Any) -> Floats:
    """The point of a result, or the point itself."""
    if are_parameters(result):
        raise TypeError("give the result of minimize(fun, params): lmfit.Parameters alone say nothing about a minimum")
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


def read_variables(result: Any, x: Floats) -> FittedVariables | None:
    """The variables of the run's space; None if it had plain bounds."""
    space = getattr(result, "space", None)
    return None if space is None else FittedVariables(space, x)


def read_box(result: Any, bounds: Any, x: Floats, variables: FittedVariables | None) -> Box:
    """The bounds that are given, else those of the run, else none."""
    d = len(x)
    if bounds is not None:
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
        return tuple(f"x[{i}]" for i in range(d))
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
