"""`uncertainty`: how sure the unknowns of a fit are, at a minimum of one number."""

from __future__ import annotations

import dataclasses
import numbers
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from scipy.optimize import OptimizeResult

from paoswarm._checks import explains_keywords, flag, probability
from paoswarm.core.arrays import Floats
from paoswarm.evaluate.call_options import CallOptions, Workers
from paoswarm.evaluate.calls import Objective, with_arguments
from paoswarm.evaluate.evaluator import Evaluator
from paoswarm.evaluate.interrupts import delays_interrupts
from paoswarm.fitting.cube import FittedVariables
from paoswarm.fitting.derivatives import FitFunction, Meaning, known_directions, points_of_run
from paoswarm.fitting.describe import StartPoint, describe
from paoswarm.fitting.fit_uncertainty import FitUncertainty
from paoswarm.fitting.minimum import find_minimum
from paoswarm.run.read_input import Box, read_bounds, read_space
from paoswarm.space.lmfit_parameters import are_parameters
from paoswarm.space.names import check_name
from paoswarm.space.space import Fixed, Space
from paoswarm.space.variables import WIDEST, Real, Variable

_FARTHEST = WIDEST / 4


@explains_keywords(
    fun="say what it is: sum_of_squares= or negative_log_likelihood=",
    residuals="ps.fit(residuals, space, x0=...) gives errors from residuals",
    absolute_sigma="give variance=, that of a datum, if it is known",
    sigma="give variance=, that of a datum, if it is known",
)
@delays_interrupts
def uncertainty(
    result: Any,
    *,
    sum_of_squares: Objective | None = None,
    negative_log_likelihood: Objective | None = None,
    n_data: int | None = None,
    variance: float | None = None,
    args: Any = (),
    bounds: Any = None,
    names: Sequence[str] | None = None,
    refine: bool = True,
    profile: float | None = None,
    vectorized: bool = False,
    workers: Any = 1,
) -> FitUncertainty:
    """Standard errors, correlations and intervals of the unknowns at a minimum.

    The function is given by what it is, because that decides what its curvature means. If you have residuals, or a
    simulator and data, use `fit`.

    Parameters
    ----------
    result : Result, array (d,) or dict
        What `minimize` returned, or the minimum itself. It should be a minimum, or close to one: ``polish=True`` helps.
        If the run had a space, or the point has names, the function gets its variables as in `minimize`. The continuous
        ones are the unknowns; the others keep their values. Errors of ``Real(log=True)`` are taken in the logarithm,
        and their intervals are symmetric there.
    sum_of_squares : callable
        ``sum_of_squares(x) -> float``, with ``n_data``. The covariance is ``2 s^2 inv(H)`` with the Hessian ``H`` of
        the sum and ``s^2 = sum / (n_data - d)``. ``H`` also contains the second derivatives of the model, so for curved
        models the errors differ from those of `fit`, by one to twenty per cent on NIST's data sets.
    negative_log_likelihood : callable
        ``negative_log_likelihood(x) -> float``. The covariance is ``inv(H)``. Constants do not matter, factors do: half
        a sum of squares is one only if it is divided by the variance of the data.
    n_data : int, optional
        Number of squares in ``sum_of_squares``.
    variance : float, optional
        Variance of one datum, if it is known; by default it is estimated by ``s^2``.
    args : tuple
        More arguments of the function, as in `minimize`.
    bounds : sequence of (low, high), or variables in a sequence or by name, optional
        The function is not evaluated outside. By default those of the run, if ``result`` is a `Result` of a run whose
        bounds were numbers. Variables, in a sequence or by name, are possible as in `minimize`.
    names : sequence of str, optional
        Names of the unknowns, for the table.
    refine : bool
        Whether to take Newton steps if the point is not quite the minimum, so that the errors are taken there.
        ``shift`` of what is returned says how far that was, in standard errors.
    profile : float, optional
        Level of profile intervals, such as 0.95: the values of each unknown at which the function, minimised over all
        others, has not risen too far. They are right where the function is no parabola, and may be asymmetric. About
        ``25 d^2 + 40 d`` more evaluations.
    vectorized : bool
        Whether the function takes points as rows, ``(k, d) -> (k,)``.
    workers
        As in `minimize`. Points are evaluated in a few large batches.

    Returns
    -------
    FitUncertainty
        Print it for a table. ``standard_errors``, ``covariance``, ``correlations``, ``interval()``, ``predict()``;
        ``warnings`` says in sentences why the errors cannot be trusted, if so.

    Notes
    -----
    Second derivatives come from central differences. The steps are half a standard error in every direction of the
    covariance, whatever the units and however strong the correlations. Halved steps and Richardson's extrapolation make
    them accurate, and show kinks and noise. For ``d`` unknowns this takes about ``3 d^2 + 10 d`` evaluations; more if
    the unknowns are strongly correlated or Newton steps are necessary. About half as many are enough for a result of
    `minimize` whose function was the same: its points near the minimum show where to begin.

    An unknown that lies on its bound is taken as fixed. Standard errors assume that the function is a parabola within
    a few standard errors. ``rises`` checks that. For anything else use `sample`.

    Examples
    --------
    Fit ``y = b1 (1 - exp(-b2 x))`` to measurements of volume against pressure (NIST's data set Misra1a).

    >>> import numpy as np
    >>> import paoswarm as ps
    >>> pressure = [77.6, 114.9, 141.1, 190.8, 239.9, 289, 332.8, 378.4, 434.8, 477.3, 536.8, 593.1, 689.1, 760]
    >>> volume = [10.07, 14.73, 17.94, 23.93, 29.61, 35.18, 40.02, 44.82, 50.76, 55.05, 61.01, 66.4, 75.47, 81.78]
    >>> def squares(b):
    ...     return ((volume - b[0] * (1 - np.exp(-b[1] * np.array(pressure)))) ** 2).sum()
    >>> fit = ps.uncertainty([238.94, 5.5016e-4], sum_of_squares=squares, n_data=14, names=["b1", "b2"])
    >>> print(fit)  # certified: 238.94 +- 2.7070 and 5.5016e-4 +- 7.2669e-6
    Sum of squares 0.124552 of 14 data with 12 degrees of freedom
    Standard deviation of a datum 0.1019
           estimate  std. error  95 % interval
      b1      238.9         2.7  233.0 to 244.8
      b2  0.0005502     7.3e-06  0.0005343 to 0.0005660
    Strong correlations: b1 and b2 -0.999.
    Condition number 1.6e+03.
    It took 35 evaluations.
    """
    given = {"sum_of_squares": sum_of_squares, "negative_log_likelihood": negative_log_likelihood}
    kind, function = _the_one_function(given)
    start = _read_start(result, bounds, names)
    x, variables = start.x, start.variables
    is_constrained = bool(len(getattr(result, "constr", None) or ()))
    refine = flag("refine", refine) and not is_constrained
    level = None if profile is None else probability("profile", profile)
    options = CallOptions(flag("vectorized", vectorized), Workers.of_batches(workers))
    meaning, known = Meaning.read(kind == "negative_log_likelihood", n_data, variance, len(x)), None
    with Evaluator(with_arguments(partial(variables.call, function), args), options) as evaluate:
        fun = FitFunction(evaluate)
        value = float(fun(x[None])[0])
        if np.isnan(value):
            raise fun.explain_failure(f"{kind} has no finite value at the given point")
        if kind == "sum_of_squares" and value < 0:
            raise ValueError(f"sum_of_squares is {value:g} at the given point, but cannot be negative")
        if (seen := points_of_run(result, value, variables)) is not None:
            known = known_directions(*seen, x, value, meaning.rise(value))
        minimum = find_minimum(fun, meaning, x, value, start.box, moves=refine, known=known)
        found = describe(fun, meaning, minimum, start, refine, level)
    if not is_constrained:
        return found
    warning = "the run had constraints, of which nothing is known here: where one is active, the errors are wrong."
    return dataclasses.replace(found, warnings=(*found.warnings, warning))


def _the_one_function(given: Mapping[str, Any]) -> tuple[str, Objective]:
    """The function that was given, and what it is."""
    found = {name: fun for name, fun in given.items() if fun is not None}
    if len(found) != 1:
        got = " and ".join(found) or "none"
        raise TypeError(f"give one function, by what it is: {', '.join(f'{name}=' for name in given)}; got {got}")
    ((name, fun),) = found.items()
    if not callable(fun):
        raise TypeError(f"{name} must be callable, got {fun!r}")
    return name, fun


def _read_start(result: Any, bounds: Any, names: Sequence[str] | None) -> StartPoint:
    """The point, its bounds and names, from a result or a point."""
    is_space = isinstance(bounds, Mapping) or (
        isinstance(bounds, Sequence) and any(isinstance(one, Variable) for one in bounds)
    )
    variables, has_bounds = _read_variables(result, bounds if is_space else None)
    if not variables.is_fitted.any():
        raise ValueError("no variable of the space is continuous: there is nothing whose error could be told")
    x = variables.x
    d = len(x)
    if bounds is not None and not is_space:
        if _is_by_name(result):
            raise TypeError("the point is given by name, so bounds must be a dict with the same names")
        box = read_bounds(bounds)
        if len(box[0]) != d:
            raise ValueError(f"bounds are for {len(box[0])} unknowns, but the point has {d}")
    elif has_bounds:  # a periodic variable has none
        ends = [(one.low, one.high) if isinstance(one, Real) else (-np.inf, np.inf) for one in variables.fitted]
        lower, upper = np.array(ends, dtype=float).T
        box = lower, upper
    else:
        box = _box_of_run(result, d)
    if len(outside := np.flatnonzero((x < box[0]) | (x > box[1]))):
        i = outside[0]
        raise ValueError(f"x[{i}] is {x[i]}, outside its bounds ({box[0][i]}, {box[1][i]})")
    low, high = map(variables.coordinates, box)
    labels = variables.names if names is None else _read_names(names, d)
    return StartPoint(variables.coordinates(x), (low, high), labels, variables)


def _read_names(names: Sequence[str], d: int) -> tuple[str, ...]:
    labels = tuple(names) if np.iterable(names) and not isinstance(names, str) else (names,)
    if len(labels) != d or not all(isinstance(name, str) for name in labels):
        raise ValueError(f"names must be {d} strings, one for each unknown, got {names!r}")
    return labels


def _read_variables(result: Any, space: Any) -> tuple[FittedVariables, bool]:
    """The variables around the point: of a space that is given, of the run, or all numbers; whether these are bounded.

    Of a point by name without a space all numbers are unknowns.
    """
    if are_parameters(result):
        raise TypeError("give the result of minimize(fun, params): lmfit.Parameters alone say nothing about a minimum")
    if space is not None:
        space = read_space(space)
        given = result if _is_by_name(result) else getattr(result, "best", getattr(result, "x", result))
        return FittedVariables(space, space.read("the point", given)[0]), True
    if _is_by_name(result):
        for name in result:
            check_name(name)
        variables = [_unbounded(repr(name), value) for name, value in result.items()]
        if all(isinstance(one, Fixed) for one in variables):
            raise ValueError(f"the point has no number whose error could be told, got {dict(result)!r}")
        space = Space(variables, list(result))
        return FittedVariables(space, space.read("the point", result)[0]), False
    x = _read_point(result)
    if (space := getattr(result, "space", None)) is not None:
        return FittedVariables(space, x), True
    return FittedVariables(Space([_unbounded(f"x[{i}]", one) for i, one in enumerate(x.tolist())]), x), False


def _is_by_name(point: Any) -> bool:
    """Whether a point is given by names; a result is a dict, too."""
    return isinstance(point, Mapping) and not isinstance(point, OptimizeResult)


def _read_point(result: Any) -> Floats:
    """The point of a result, or the point itself."""
    try:
        x = np.array(getattr(result, "x", result), dtype=float)
    except (TypeError, ValueError, OverflowError):
        raise TypeError(f"give a result of minimize, or a point of shape (d,), got {result!r}") from None
    if x.ndim != 1 or x.size == 0:
        hint = "; of minimize_many, give one run: result.run(i)" if x.ndim == 2 else ""
        raise ValueError(f"give a result of minimize, or a point of shape (d,); x has shape {x.shape}{hint}")
    if not np.isfinite(x).all():
        raise ValueError(f"the point must be finite, got {x}")
    return x


def _unbounded(what: str, value: Any) -> Variable:
    """A number that may have any value; anything else is held."""
    if isinstance(value, bool | np.bool_ | str) or not isinstance(value, numbers.Real):
        return Fixed(value)
    if not abs(float(value)) < _FARTHEST:
        raise ValueError(f"{what} is {value!r}; the point must be finite")
    return Real(-_FARTHEST, _FARTHEST)


def _box_of_run(result: Any, d: int) -> Box:
    """The bounds of a run with walls; else none."""
    swarm, wall = getattr(result, "swarm", None), getattr(getattr(result, "method", None), "wall", None)
    if swarm is not None and wall is not None and wall.is_bounded and wall.unroll is None:
        lower, upper = (np.array(end[0], dtype=np.float64) for end in (swarm.lower, swarm.upper))
        if lower.shape == (d,):
            return lower, upper
    return np.full(d, -np.inf), np.full(d, np.inf)
