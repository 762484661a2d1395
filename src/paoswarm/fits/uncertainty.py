"""`uncertainty`: how sure the unknowns of a fit are, and the sentences that say what can be wrong."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paoswarm._checks import explains_keywords, flag, positive_number, probability
from paoswarm.core.arrays import Floats
from paoswarm.evaluation.call_options import CallOptions
from paoswarm.evaluation.calls import Objective, with_arguments
from paoswarm.evaluation.evaluator import Evaluator
from paoswarm.fits.derivatives import (
    ROUGH,
    Differences,
    Extrapolated,
    ResidualDifferences,
    SecondDifferences,
    known_directions,
    points_of_run,
)
from paoswarm.fits.fit_uncertainty import FitUncertainty, reach_of
from paoswarm.fits.minimum import Covariance, Minimum, covariance_of, find_minimum, widths_of
from paoswarm.fits.profile import Around, profile_ends
from paoswarm.fits.read_fit import (
    FitFunction,
    Meaning,
    ResidualEvaluator,
    SquaredResiduals,
    read_box,
    read_data,
    read_names,
    read_point,
    read_variables,
    the_one_function,
)
from paoswarm.optimize.read_input import Box
from paoswarm.spaces.lmfit_parameters import ParametersSpace

_NOISE = 3.0  # growth of the disagreement when the step is halved: 2 for a kink, 4 for noise
_FAR = 0.2  # of the length within which the model holds: too far from the minimum
_SHIFTED = 0.05  # standard errors worth a note
_PARABOLA = 1.5  # the rise at one standard error should be one, within this factor
_NEAR = 2.0  # standard errors from a bound
_ILL = 1e10  # condition number
_NAMED = 4  # unknowns that a direction names


def direction(vector: Floats, names: Sequence[str], widths: Floats) -> str:
    """A direction by its largest components, such as ``b1 by +2.5, b2 by -0.1 together``."""
    share = np.abs(vector) / widths
    largest = [i for i in np.argsort(-share, kind="stable")[:_NAMED] if share[i] > 0.01 * share.max()]
    vector = vector * min(1.0, 1 / share.max())  # not beyond the widths
    return ", ".join(f"{names[i]} by {vector[i]:+.3g}" for i in largest) + (" together" if len(largest) > 1 else "")


def of_roughness(found: Extrapolated) -> list[str]:
    """Whether steps of different lengths disagree: no second derivatives exist, or noise hides them."""
    apart = float(found.disagreement.max())
    if apart <= ROUGH:
        return []
    much = f"differences with two step lengths disagree by {100 * min(apart, 99):.0f} %"
    if found.growth >= _NOISE:
        return [
            f"{much}, and more for shorter steps: the function is noisy. The errors are rough at best. Fix the random "
            "seed of the simulator or tighten its tolerances, or use ps.sample."
        ]
    return [
        f"{much}: the function has a kink or a jump near the minimum, or is far from a parabola within half a standard "
        "error. The errors are rough at best; ps.sample needs no derivatives."
    ]


def of_noise(noise: float, unit: float) -> list[str]:
    """A note that the function is noisy, and what was done about it."""
    if not noise:
        return []
    return [
        f"the function is noisy: values at one point scatter by {noise:.2g}, and one standard error away it rises by "
        f"{unit:.2g}. Steps were lengthened accordingly, and no Newton steps were taken."
    ]


def of_directions(flat: Floats, downhill: Floats, names: Sequence[str], widths: Floats) -> list[str]:
    """Warnings about directions in which the function does not rise."""
    said = [
        f"the data do not determine all unknowns: changing {direction(one, names, widths)} changes nothing."
        for one in flat.T
    ]
    n_down = downhill.shape[1]
    if n_down == len(names):
        said.append("the point is a maximum, not a minimum. Does the function have the wrong sign?")
    elif n_down:
        more = f" So do {n_down - 1} other directions." if n_down > 1 else ""
        said.append(
            f"the point is not a minimum: changing {direction(downhill[:, 0], names, widths)}, or the other way, "
            f"lowers the value.{more} Search again from here."
        )
    return said


def of_the_point(
    newton: float, step: float, shift: Floats, names: Sequence[str], *, may_move: bool
) -> tuple[list[str], list[str]]:
    """Warnings and notes about how far the given point is from the minimum."""
    warnings, notes = [], []
    if newton > _FAR * step:
        why = "Newton steps did not get there" if may_move else "refine=True goes there"
        warnings.append(
            f"the slope is not zero: the minimum should be {newton:.2g} standard errors away, but {why}. "
            "The errors hold at a minimum."
        )
    if np.isfinite(shift).any() and np.nanmax(np.abs(shift)) > _SHIFTED:
        i = int(np.nanargmax(np.abs(shift)))
        notes.append(
            f"the given point was not quite the minimum. The errors are taken at the minimum, {abs(shift[i]):.2g} "
            f"standard errors of {names[i]} away."
        )
    return warnings, notes


def of_bounds(x: Floats, errors: Floats, box: Box, names: Sequence[str]) -> list[str]:
    """Notes about unknowns whose interval crosses a bound."""
    notes = []
    for i, name in enumerate(names):
        if not np.isfinite(errors[i]) or errors[i] == 0:
            continue
        away = min(x[i] - box[0][i], box[1][i] - x[i]) / errors[i]
        if errors[i] > box[1][i] - box[0][i]:
            notes.append(f"the standard error of {name} is larger than its bounds are wide.")
        elif away < _NEAR:
            side = "lower" if x[i] - box[0][i] < box[1][i] - x[i] else "upper"
            notes.append(
                f"{name} is {away:.2g} standard errors from its {side} bound, so a symmetric interval crosses it."
            )
    return notes


def of_shape(rises: Floats, names: Sequence[str], *, has_profile: bool) -> list[str]:
    """A note about unknowns along which the function is no parabola within one standard error."""
    with np.errstate(invalid="ignore"):
        odd = ((rises > _PARABOLA) | (rises < 1 / _PARABOLA)).any(axis=1)
    if not odd.any():
        return []
    shown = ", ".join(
        f"{names[i]} ({_times(rises[i, 0])} and {_times(rises[i, 1])})" for i in np.flatnonzero(odd)[:_NAMED]
    )
    more = f" and {int(odd.sum()) - _NAMED} more" if odd.sum() > _NAMED else ""
    return [
        "the function is no parabola: one standard error below and above the minimum it should rise by 1, but rises by "
        f"other amounts for {shown}{more}. Symmetric intervals are then inexact; "
        + ("use the profile intervals." if has_profile else "profile=0.95 gives better ones.")
    ]


def of_profile(ends: Floats, unknowns: Sequence[int], names: Sequence[str]) -> list[str]:
    """A note about profile intervals that were not found."""
    lost = [names[i] for i in unknowns if np.isnan(ends[i]).any()]
    if not lost:
        return []
    return [f"an end of the profile interval was not found for {', '.join(lost)}: the valley is too narrow and curved."]


def _times(rise: float) -> str:
    return "over 100" if rise > 100 else f"{rise:.2g}"


def of_condition(number: float, weakest: Floats, names: Sequence[str], widths: Floats) -> list[str]:
    """A note about unknowns that are almost exchangeable."""
    if not number > _ILL:
        return []
    return [
        f"the condition number is {number:.1g}: the data hardly tell some unknowns apart. The least certain "
        f"combination changes {direction(weakest, names, widths)}."
    ]


_LOWER = 0.01  # of the same: a value this much lower belongs to another minimum
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
    profile: float | None = None,
    vectorized: bool = False,
    workers: Any = 1,
    timeout: float | None = None,
    retries: int = 1,
) -> FitUncertainty:
    """Standard errors, correlations and intervals of the unknowns of a fit.

    The function is given by what it is, because that decides what its curvature means.

    Parameters
    ----------
    result : Result, array (d,) or dict
        What `minimize` returned, or the minimum itself. It should be a minimum, or close to one: ``polish=True`` helps.
        If the run had a space, or the point has names, the function gets its variables as in `minimize`. The continuous
        ones are the unknowns; the others keep their values. Errors of ``Real(log=True)`` are taken in the logarithm,
        and their intervals are symmetric there.
    residuals : callable
        ``residuals(x) -> array (m,)``, the deviations of the model from the data. Best if you have it: the covariance
        is ``s^2 inv(J' J)`` with the Jacobian ``J`` and ``s^2 = sum(residuals**2) / (m - d)``, which is what textbooks
        and regression programs report (Gauss-Newton). Divide by their standard deviations if these differ.
    sum_of_squares : callable
        ``sum_of_squares(x) -> float``, with ``n_data``. The covariance is ``2 s^2 inv(H)`` with the Hessian ``H`` of
        the sum. ``H`` also contains the second derivatives of the model, so for curved models the errors differ from
        those of ``residuals``, by one to twenty per cent on NIST's data sets.
    negative_log_likelihood : callable
        ``negative_log_likelihood(x) -> float``. The covariance is ``inv(H)``. Constants do not matter, factors do: half
        a sum of squares is one only if it is divided by the variance of the data.
    n_data : int, optional
        Number of squares in ``sum_of_squares``.
    variance : float, optional
        Variance of one datum, if it is known. For residuals that are divided by known standard deviations it is 1. By
        default it is estimated by ``s^2``.
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
        ``25 d^2 + 40 d`` more evaluations. In narrow, curved valleys they need ``residuals``.
    vectorized : bool
        Whether the function takes points as rows, ``(k, d) -> (k,)``; residuals are ``(k, m)``.
    workers, timeout, retries
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
    them accurate, and show kinks and noise. For ``d`` unknowns this takes about ``3 d^2 + 10 d`` evaluations, or
    ``10 d`` with ``residuals``; more if the unknowns are strongly correlated or Newton steps are necessary. About half
    as many are enough for a result of `minimize` whose function was the same: its points near the minimum show where to
    begin.

    An unknown that lies on its bound is taken as fixed. Standard errors assume that the function is a parabola within
    a few standard errors. ``rises`` checks that. For anything else use `sample`.

    Examples
    --------
    Fit ``y = b1 (1 - exp(-b2 x))`` to measurements of volume against pressure (NIST's data set Misra1a).

    >>> import numpy as np
    >>> import paoswarm as ps
    >>> pressure = [77.6, 114.9, 141.1, 190.8, 239.9, 289, 332.8, 378.4, 434.8, 477.3, 536.8, 593.1, 689.1, 760]
    >>> volume = [10.07, 14.73, 17.94, 23.93, 29.61, 35.18, 40.02, 44.82, 50.76, 55.05, 61.01, 66.4, 75.47, 81.78]
    >>> def residuals(b):
    ...     return volume - b[0] * (1 - np.exp(-b[1] * np.array(pressure)))
    >>> fit = ps.uncertainty([238.94, 5.5016e-4], residuals=residuals, names=["b1", "b2"])
    >>> print(fit)  # certified: 238.94 +- 2.7070 and 5.5016e-4 +- 7.2669e-6
    Sum of squares 0.124551 of 14 data with 12 degrees of freedom
    Standard deviation of a datum 0.1019
           estimate  std. error  95 % interval
      b1      238.9         2.7  233.0 to 244.8
      b2  0.0005502     7.3e-06  0.0005343 to 0.0005660
    Strong correlations: b1 and b2 -0.999.
    Condition number 1.6e+03.
    It took 34 evaluations.
    """
    given = {
        "residuals": residuals,
        "sum_of_squares": sum_of_squares,
        "negative_log_likelihood": negative_log_likelihood,
    }
    kind, function = the_one_function(given)
    variables = read_variables(result, bounds)
    x = read_point(result) if variables is None else variables.x
    d = len(x)
    box = read_box(result, bounds, x, variables)
    labels = read_names(names, variables, d)
    if variables is not None:
        x, function = variables.coordinates(x), variables.function(function)
        box = variables.coordinates(box[0]), variables.coordinates(box[1])
    flag("refine", refine)
    is_constrained = bool(len(getattr(result, "constr", None) or ()))
    level = None if profile is None else probability("profile", profile)
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
        refine = refine and not is_constrained
        value, known = float(at.values[0]), None
        if (seen := points_of_run(result, value, variables)) is not None:
            known = known_directions(*seen, x, value, meaning.rise(value))
        minimum = find_minimum(fun, how, meaning, x, at, box, moves=refine, known=known)
        is_log = np.zeros(d, dtype=bool) if variables is None else variables.is_log
        found = _describe(fun, meaning, minimum, x, box, labels, is_log, refine, kind, n_data, level)
    found = found if variables is None else variables.translated(found)
    if variables is not None and isinstance(variables.space, ParametersSpace):
        found = dataclasses.replace(
            found, parameters=variables.space.with_errors(variables.with_fitted(found.x), found.covariance)
        )
    if not is_constrained:
        return found
    warning = "the run had constraints, of which nothing is known here: where one is active, the errors are wrong."
    return dataclasses.replace(found, warnings=(*found.warnings, warning))


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
    is_log: NDArray[np.bool_],
    refine: bool,
    kind: str,
    n_data: int | None,
    level: float | None,
) -> FitUncertainty:
    x, value, d = minimum.x, float(minimum.at.values[0]), len(given)
    unit = meaning.rise(value)
    coordinates = [f"ln {name}" if log else name for name, log in zip(names, is_log, strict=True)]
    warnings, notes = [], []
    nothing = np.full((d, d), np.nan)
    found = Covariance(nothing, np.zeros((d, 0)), nothing[0], nothing, np.zeros((d, 0)), np.zeros((d, 0)))
    newton, step = 0.0, 1.0
    widths = widths_of(box, x)
    if minimum.settled is not None:
        found = covariance_of(minimum.settled, unit)
        newton, step = minimum.settled.newton, minimum.settled.step
        warnings += of_roughness(minimum.settled.found)
        if unit == 0:
            notes.append("all residuals are zero, so the variance of the data is unknown.")
    errors = np.where(~minimum.free & ~minimum.on_bound, np.inf, found.standard_errors)
    with np.errstate(divide="ignore", invalid="ignore"):
        shift = (x - given) / errors
    shift = np.where(x == given, 0.0, shift)
    rises = _rises(fun, x, value, unit, found.matrix, errors, box)
    condition, weakest = _condition(found.matrix, errors)
    warnings += of_directions(found.flat, found.downhill, coordinates, widths)
    warnings += [f"{names[i]} has no effect on the function." for i in np.flatnonzero(np.isinf(errors) & ~minimum.free)]
    more, others = of_the_point(newton, step, shift, names, may_move=refine)
    notes += [
        f"{names[i]} lies on its {'lower' if x[i] - box[0][i] < box[1][i] - x[i] else 'upper'} bound. It is taken as "
        "fixed: the errors of the others hold if its value is right."
        for i in np.flatnonzero(minimum.on_bound)
    ]
    notes += others + of_bounds(x, errors, box, names) + of_noise(minimum.noise, unit)
    notes += of_shape(rises, names, has_profile=level is not None) if minimum.noise < _LOUD * unit else []
    notes += of_condition(condition, weakest, coordinates, widths)
    ends = None
    if level is not None:
        sure = np.flatnonzero(np.isfinite(errors) & (errors > 0)).tolist()
        around = Around(x, value, unit, found.root, box)
        ends, lowest = profile_ends(fun, around, sure, reach_of(level, meaning.degrees_of_freedom))
        notes += of_profile(ends, sure, names)
        if lowest < value - _LOWER * unit:
            warnings.append(
                f"the search for profile intervals found a lower value, {lowest:.6g}: there is a better minimum. "
                "Search again."
            )
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
        profile=ends,
        profile_level=level,
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
