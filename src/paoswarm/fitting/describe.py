"""What is known at a minimum: standard errors, checks of them, and the sentences that say what can be wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from paoswarm.core.arrays import Floats
from paoswarm.fitting.cube import FittedVariables
from paoswarm.fitting.derivatives import ROUGH, Extrapolated, FitFunction, Meaning
from paoswarm.fitting.fit_uncertainty import FitUncertainty, reach_of
from paoswarm.fitting.minimum import Covariance, Minimum, covariance_of, newton_step, widths_of
from paoswarm.fitting.profile_ends import ProfiledMinimum, profile_ends
from paoswarm.run.read_input import Box
from paoswarm.space.lmfit_parameters import ParametersSpace

_NOISE = 3.0  # growth of the disagreement when the step is halved: 2 for a kink, 4 for noise
_FAR = 0.2  # of the length within which the model holds: too far from the minimum
_SHIFTED = 0.05  # standard errors worth a note
_PARABOLA = 1.5  # the rise at one standard error should be one, within this factor
_NEAR = 2.0  # standard errors from a bound
_ILL = 1e10  # condition number
_NAMED = 4  # unknowns that a direction names
_LOWER = 0.01  # of the rise at one standard error: a value this much lower belongs to another minimum
_LOUD = 0.05  # of the same: with more noise, that rise cannot be checked


class StartPoint(NamedTuple):
    """The point that a user gives, in the coordinates in which errors are taken."""

    x: Floats
    box: Box
    names: tuple[str, ...]
    variables: FittedVariables


class Spot(NamedTuple):
    """A point at which errors are taken, in the coordinates of the variables."""

    x: Floats
    fun: float
    box: Box
    names: tuple[str, ...]
    variables: FittedVariables
    widths: Floats
    free: NDArray[np.bool_]
    on_bound: NDArray[np.bool_]

    def described(
        self,
        found: Covariance,
        *,
        what: str,
        warnings: Sequence[str] = (),
        notes: Sequence[str] = (),
        late_notes: Sequence[str] = (),
        is_singular: bool = False,
        profile: Floats | None = None,
        **fields: Any,
    ) -> FitUncertainty:
        """Errors in the user's numbers, with the sentences that belong to any errors; ``what`` depends on unknowns."""
        x, (lower, upper), names, errors = self.x, self.box, self.names, found.standard_errors
        variables, is_log, space = self.variables, self.variables.is_log, self.variables.space
        labels = [f"ln {name}" if log else name for name, log in zip(names, is_log, strict=True)]
        condition, weakest = (1.0, errors) if is_singular else condition_of(found.matrix, errors)
        on_bound = [
            f"{names[i]} lies on its {'lower' if x[i] - lower[i] < upper[i] - x[i] else 'upper'} bound. It is taken as "
            "fixed: the errors of the others hold if its value is right."
            for i in np.flatnonzero(self.on_bound)
        ]
        undetermined = of_directions(found.flat, found.downhill, labels, self.widths)
        without = np.flatnonzero(np.isinf(errors) & ~self.free & ~self.on_bound)
        undetermined += [f"{names[i]} has no effect on the {what}." for i in without]
        of_condition = []
        if condition > _ILL:
            of_condition = [
                f"the condition number is {condition:.1g}: the data hardly tell some unknowns apart. The least certain "
                f"combination changes {direction(weakest, labels, self.widths)}."
            ]
        crossed = of_bounds(x, errors, self.box, names)
        numbers, row = variables.numbers(x), variables.row.copy()
        row[variables.is_fitted] = numbers
        slope = np.where(is_log, numbers, 1.0)  # of the number along its coordinate
        covariance = slope[:, None] * slope * found.matrix
        return FitUncertainty(
            x=numbers,
            fun=self.fun,
            names=names,
            standard_errors=slope * errors,
            covariance=covariance,
            hessian=found.hessian / slope[:, None] / slope,
            free=self.free,
            condition_number=condition,
            warnings=(*undetermined, *warnings),
            notes=(*on_bound, *notes, *crossed, *late_notes, *of_condition),
            profile=None if profile is None else variables.numbers(profile.T).T,
            is_log=is_log,
            held=variables.held,
            parameters=space.with_errors(row, covariance) if isinstance(space, ParametersSpace) else None,
            _root=found.root,
            _room=np.minimum(x - lower, upper - x),
            _point=variables.point,
            **fields,
        )


def describe(
    fun: FitFunction, meaning: Meaning, minimum: Minimum, start: StartPoint, refine: bool, level: float | None
) -> FitUncertainty:
    """Standard errors at a minimum, with all that is to know of them; at a level, profile intervals too."""
    x, value, d = minimum.x, minimum.at, len(start.x)
    box, names = start.box, start.names
    unit = meaning.rise(value)
    nothing, none = np.full((d, d), np.nan), np.zeros((d, 0))
    found = Covariance(nothing, none, nothing[0], nothing, none, none)
    warnings, notes, late_notes, of_the_slope = [], [], [], []
    if minimum.place is not None and minimum.model is not None:
        found = covariance_of(minimum.place, minimum.model, unit)
        warnings, of_the_slope = of_roughness(minimum.model), of_slope(minimum.model, refine)
        if unit == 0:
            notes.append("the sum of squares is zero, so the variance of the data is unknown.")
    errors = np.where(~minimum.free & ~minimum.on_bound, np.inf, found.standard_errors)
    with np.errstate(divide="ignore", invalid="ignore"):
        shift = np.where(x == start.x, 0.0, (x - start.x) / errors)
    rises = _rises(fun, x, value, unit, found.matrix, errors, box)
    if np.isfinite(shift).any() and np.nanmax(np.abs(shift)) > _SHIFTED:
        i = int(np.nanargmax(np.abs(shift)))
        notes.append(
            f"the given point was not quite the minimum. The errors are taken at the minimum, {abs(shift[i]):.2g} "
            f"standard errors of {names[i]} away."
        )
    if minimum.noise:
        late_notes.append(
            f"the function is noisy: values at one point scatter by {minimum.noise:.2g}, and one standard error away "
            f"it rises by {unit:.2g}. Steps were lengthened accordingly, and no Newton steps were taken."
        )
    if minimum.noise < _LOUD * unit:
        late_notes += of_shape(rises, names, has_profile=level is not None)
    ends = None
    if level is not None:
        sure = np.flatnonzero(np.isfinite(errors) & (errors > 0)).tolist()
        around = ProfiledMinimum(x, value, unit, found.root, box)
        ends, lowest = profile_ends(fun, around, sure, reach_of(level, meaning.degrees_of_freedom))
        if lost := [names[i] for i in sure if np.isnan(ends[i]).any()]:
            late_notes.append(
                f"an end of the profile interval was not found for {', '.join(lost)}: the valley is too narrow and "
                "curved."
            )
        if lowest < value - _LOWER * unit:
            warnings.append(
                f"the search for profile intervals found a lower value, {lowest:.6g}: there is a better minimum. "
                "Search again."
            )
    spot = Spot(x, value, box, names, start.variables, widths_of(box, x), minimum.free, minimum.on_bound)
    return spot.described(
        found._replace(standard_errors=errors),
        what="function",
        warnings=[*warnings, *of_the_slope],
        notes=notes,
        late_notes=late_notes,
        variance=None if meaning.is_likelihood else unit,
        n_data=meaning.n_data,
        degrees_of_freedom=meaning.degrees_of_freedom,
        shift=shift,
        rises=rises,
        n_evaluations=fun.n_evaluations,
        n_failed=fun.n_failed,
        kind="negative log likelihood" if meaning.is_likelihood else "sum of squares",
        profile=ends,
        profile_level=level,
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
        values = fun(np.array([point for _, _, point in places]))
        for (i, side, _), one in zip(places, values.tolist(), strict=True):
            rises[i, side] = (one - value) / unit
    return rises


def condition_of(covariance: Floats, errors: Floats) -> tuple[float, Floats]:
    """Condition number of the correlations, and the least certain direction of about one standard error."""
    sure = np.isfinite(errors) & (errors > 0)
    weakest = np.zeros(len(errors))
    if not sure.any():
        return float("nan"), weakest
    scale = errors[sure]
    sizes, axes = np.linalg.eigh(covariance[np.ix_(sure, sure)] / scale[:, None] / scale)
    weakest[sure] = axes[:, -1] * scale
    return float(sizes[-1] / max(sizes[0], np.finfo(float).tiny)), weakest


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


def of_slope(found: Extrapolated, refine: bool) -> list[str]:
    """A warning if the model's minimum is elsewhere."""
    away = float(np.linalg.norm(newton_step(found.m, found.g)))
    if not away > _FAR * found.step:
        return []
    why = "Newton steps did not get there" if refine else "refine=True goes there"
    return [
        f"the slope is not zero: the minimum should be {away:.2g} standard errors away, but {why}. "
        "The errors hold at a minimum."
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
            number = f"{away:.2g}"
            far = "1 standard error" if number == "1" else f"{number} standard errors"
            notes.append(f"{name} is {far} from its {side} bound, so a symmetric interval crosses it.")
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


def _times(rise: float) -> str:
    return "over 100" if rise > 100 else f"{rise:.2g}"
