"""`uncertainty`: how sure the unknowns of a fit are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from paoswarm.checks import flag, positive_number
from paoswarm.core.arrays import Floats
from paoswarm.evaluation.call_options import CallOptions
from paoswarm.evaluation.calls import Objective, with_arguments
from paoswarm.evaluation.evaluator import Evaluator
from paoswarm.fits import remarks
from paoswarm.fits.covariance import Covariance, covariance_of
from paoswarm.fits.fit_function import FitFunction, Meaning, Measured, ResidualEvaluator, SquaredResiduals
from paoswarm.fits.fit_uncertainty import FitUncertainty
from paoswarm.fits.local_model import Differences, ResidualDifferences, SecondDifferences
from paoswarm.fits.minimum import Minimum, find_minimum, widths_of
from paoswarm.fits.read_fit import read_box, read_data, read_names, read_point, the_one_function
from paoswarm.keywords import explains_keywords
from paoswarm.optimize.read_input import Box


_LOUD = 0.05  # of the rise at one standard error: with more noise, that rise cannot be checked


@explains_keywords(
    fun="say what it is: residuals=, sum_of_squares= or negative_log_likelihood=",
    absolute_sigma="give variance=1 if the residuals are divided by their known standard deviations",
    sigma="divide the residuals by it, and give variance=1 if it is known",
)
def uncertainty(
    result: Any,
    *,
    residuals: Objective | None = None,
    sum_of_squares: Objective | None = None,
    negative_log_likelihood: Objective | None = None,
    n_data: int | None = None,
    variance: float | None = None,
    args: Any = (),
    bounds: Any = None,
    names: Sequence[str] | None = None,
    refine: bool = True,
    vectorized: bool = False,
    workers: Any = 1,
    timeout: float | None = None,
    retries: int = 1,
) -> FitUncertainty:
    """TODO"""
    given = {
        "residuals": residuals,
        "sum_of_squares": sum_of_squares,
        "negative_log_likelihood": negative_log_likelihood,
    }
    kind, function = the_one_function(given)
    x = read_point(result)
    d = len(x)
    box = read_box(result, bounds, x)
    labels = read_names(names, d)
    flag("refine", refine)
    options = CallOptions(flag("vectorized", vectorized), workers, timeout, retries)
    variance = None if variance is None else positive_number("variance", variance)
    n_data = read_data(kind, n_data, variance, d)
    with _open(kind, with_arguments(function, args), options) as evaluate:
        fun = FitFunction(evaluate)
        at = fun(x[None])
        if np.isnan(at.values[0]):
            raise fun.explain_failure(f"{kind} has no finite value at the given point")
        if kind == "sum_of_squares" and at.values[0] < 0:
            raise ValueError(f"sum_of_squares is {at.values[0]:g} at the given point, but cannot be negative")
        if at.residuals is not None:
            n_data = read_data(kind, at.residuals.shape[1], variance, d)
        is_likelihood = kind == "negative_log_likelihood"
        df = None if is_likelihood or variance is not None or n_data is None else n_data - d
        meaning = Meaning(is_likelihood, variance, df)
        how: Differences = SecondDifferences() if at.residuals is None else ResidualDifferences()
        minimum = find_minimum(fun, how, meaning, x, at, box, moves=refine)
        return _describe(fun, meaning, minimum, x, box, labels, refine, kind, n_data)


def _open(kind: str, function: Objective, options: CallOptions) -> Evaluator:
    if kind != "residuals":
        return Evaluator(function, options)
    return ResidualEvaluator(SquaredResiduals(function, options.vectorized), options._replace(vectorized=False))


def _describe(
    fun: FitFunction,
    meaning: Meaning,
    minimum: Minimum,
    given: Floats,
    box: Box,
    names: tuple[str, ...],
    refine: bool,
    kind: str,
    n_data: int | None,
) -> FitUncertainty:
    x, value, d = minimum.x, float(minimum.at.values[0]), len(given)
    unit = meaning.rise(value)
    warnings, notes = [], []
    nothing = np.full((d, d), np.nan)
    found = Covariance(nothing, np.zeros((d, 0)), nothing[0], nothing, np.zeros((d, 0)), np.zeros((d, 0)))
    newton, step = 0.0, 1.0
    widths = widths_of(box, x)
    if minimum.settled is not None:
        found = covariance_of(minimum.settled, unit)
        newton, step = minimum.settled.newton, minimum.settled.step
        warnings += remarks.of_roughness(minimum.settled.found)
        if unit == 0:
            notes.append("all residuals are zero, so the variance of the data is unknown.")
    errors = np.where(~minimum.free & ~minimum.on_bound, np.inf, found.standard_errors)
    with np.errstate(divide="ignore", invalid="ignore"):
        shift = (x - given) / errors
    shift = np.where(x == given, 0.0, shift)
    rises = _rises(fun, x, value, unit, found.matrix, errors, box)
    condition, weakest = _condition(found.matrix, errors)
    warnings += remarks.of_directions(found.flat, found.downhill, names, widths)
    warnings += [f"{names[i]} has no effect on the function." for i in np.flatnonzero(np.isinf(errors) & ~minimum.free)]
    more, others = remarks.of_the_point(newton, step, shift, names, may_move=refine)
    notes += [
        f"{names[i]} lies on its {'lower' if x[i] - box[0][i] < box[1][i] - x[i] else 'upper'} bound. It is taken as "
        "fixed: the errors of the others hold if its value is right."
        for i in np.flatnonzero(minimum.on_bound)
    ]
    notes += others + remarks.of_bounds(x, errors, box, names) + remarks.of_noise(minimum.noise, unit)
    notes += remarks.of_shape(rises, names) if minimum.noise < _LOUD * unit else []
    notes += remarks.of_condition(condition, weakest, names, widths)
    return FitUncertainty(
        x=x,
        fun=value,
        names=names,
        standard_errors=errors,
        covariance=found.matrix,
        hessian=found.hessian,
        free=minimum.free,
        variance=None if meaning.is_likelihood else unit,
        n_data=n_data,
        degrees_of_freedom=meaning.degrees_of_freedom,
        condition_number=condition,
        shift=shift,
        rises=rises,
        warnings=tuple(warnings + more),
        notes=tuple(notes),
        n_evaluations=fun.n_evaluations,
        n_failed=fun.n_failed,
        kind="negative log likelihood" if meaning.is_likelihood else "sum of squares",
        _root=found.root,
        _room=np.minimum(x - box[0], box[1] - x),
    )


def _rises(
    fun: FitFunction, x: Floats, value: float, unit: float, covariance: Floats, errors: Floats, box: Box
) -> Floats:
    """How far the function rises one standard error to both sides of each unknown; NaN outside the bounds."""
    rises = np.full((len(x), 2), np.nan)
    sure = np.flatnonzero(np.isfinite(errors) & (errors > 0)).tolist()
    lines = {i: np.where(np.isfinite(covariance[i]), covariance[i], 0.0) / errors[i] for i in sure}
    places = [(i, side, x + sign * lines[i]) for i in sure for side, sign in enumerate((-1, 1))]
    places = [place for place in places if ((place[2] >= box[0]) & (place[2] <= box[1])).all()]
    if places:
        values = fun(np.array([point for _, _, point in places])).values
        for (i, side, _), one in zip(places, values.tolist(), strict=True):
            rises[i, side] = (one - value) / unit
    return rises


def _condition(covariance: Floats, errors: Floats) -> tuple[float, Floats]:
    """Condition number of the correlations, and the least certain direction of about one standard error."""
    sure = np.isfinite(errors) & (errors > 0)
    weakest = np.zeros(len(errors))
    if not sure.any():
        return float("nan"), weakest
    scale = errors[sure]
    sizes, axes = np.linalg.eigh(covariance[np.ix_(sure, sure)] / scale[:, None] / scale)
    weakest[sure] = axes[:, -1] * scale
    return float(sizes[-1] / max(sizes[0], np.finfo(float).tiny)), weakest
