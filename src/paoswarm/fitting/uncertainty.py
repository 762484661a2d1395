"""`uncertainty`: how sure the unknowns of a fit are."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from paoswarm._checks import explains_keywords, flag, positive_number, probability
from paoswarm.core.arrays import Floats
from paoswarm.evaluate.call_options import CallOptions, Workers
from paoswarm.evaluate.calls import Objective, with_arguments
from paoswarm.evaluate.evaluator import Evaluator
from paoswarm.fitting.derivatives import known_directions, points_of_run
from paoswarm.fitting.describe import describe
from paoswarm.fitting.fit_uncertainty import FitUncertainty
from paoswarm.fitting.minimum import find_minimum
from paoswarm.fitting.read_fit import (
    FitFunction,
    Meaning,
    read_data,
    read_start,
    the_one_function,
)


@explains_keywords(
    fun="say what it is: sum_of_squares= or negative_log_likelihood=",
    residuals="ps.fit(residuals, space, x0=...) gives errors from residuals",
    absolute_sigma="give variance=, that of a datum, if it is known",
    sigma="give variance=, that of a datum, if it is known",
)
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
    given = {
        "sum_of_squares": sum_of_squares,
        "negative_log_likelihood": negative_log_likelihood,
    }
    kind, function = the_one_function(given)
    start = read_start(result, bounds, names)
    x, variables, d = start.x, start.variables, len(start.x)
    function = function if variables is None else partial(variables.call, function)
    is_constrained = bool(len(getattr(result, "constr", None) or ()))
    refine = flag("refine", refine) and not is_constrained
    level = None if profile is None else probability("profile", profile)
    options = CallOptions(flag("vectorized", vectorized), Workers.of_batches(workers))
    variance = None if variance is None else positive_number("variance", variance)
    meaning, known = Meaning.of(kind, variance, read_data(kind, n_data, variance, d), d), None
    with Evaluator(with_arguments(function, args), options) as evaluate:
        fun = FitFunction(evaluate)
        value = _first_value(fun, kind, x)
        if (seen := points_of_run(result, value, variables)) is not None:
            known = known_directions(*seen, x, value, meaning.rise(value))
        minimum = find_minimum(fun, meaning, x, value, start.box, moves=refine, known=known)
        found = describe(fun, meaning, minimum, start, refine, level)
    found = found if variables is None else variables.translated(found)
    if not is_constrained:
        return found
    warning = "the run had constraints, of which nothing is known here: where one is active, the errors are wrong."
    return dataclasses.replace(found, warnings=(*found.warnings, warning))


def _first_value(fun: FitFunction, kind: str, x: Floats) -> float:
    """The value at the given point; raise if it cannot be a minimum."""
    value = float(fun(x[None])[0])
    if np.isnan(value):
        raise fun.explain_failure(f"{kind} has no finite value at the given point")
    if kind == "sum_of_squares" and value < 0:
        raise ValueError(f"sum_of_squares is {value:g} at the given point, but cannot be negative")
    return value
