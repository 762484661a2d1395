"""Steps and derivatives: the quadratic model around a point, in coordinates in which all directions are alike.

With ``x + B z`` and the rise ``u`` of the function one standard error away from the minimum, the model is
``f = f0 + u (z' M z + 2 g' z)``. The basis ``B`` is chosen so that ``M`` is nearly the unit matrix: then a step of one
half is half a standard error in every direction, the narrow and the wide ones, and nothing is lost to rounding however
much the unknowns are correlated. The covariance is ``B inv(M) B'``.

The first basis comes from steps along the axes, chosen by how far the function rises: by too little, and rounding and
noise are all that is seen; by too much, and the function is no parabola any more. Or it comes from points that a run
has evaluated near the minimum. A parabola through those is not good enough for the errors, because points lie where the
search went, but it saves the evaluations that look for step lengths.

All differences are central, so their errors are even powers of the step, and two steps give Richardson's
extrapolation. How far two steps disagree shows kinks and noise.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from paoswarm._checks import positive_number, whole_number
from paoswarm.core.arrays import Floats
from paoswarm.core.blas import on_one_thread
from paoswarm.evaluate.evaluator import Evaluator
from paoswarm.fitting.cube import FittedVariables
from paoswarm.run.read_input import Box

STEP = 0.5  # standard errors

_FIRST = 1e-3  # widths of the bounds
_CLOSE = 4.0  # a rise within this factor of the wanted one will do
_MOST_TRIES = 20
_NOTHING = 1e-9  # of the wanted rise: the unknown has no effect
_PROBE = 1e-10  # widths of the bounds: over this distance a smooth function does not change
_QUIET = 1e-3  # of the rise: less noise does no harm
_ABOVE_NOISE = 100.0  # how many times the noise the function must rise
_EXACT = 1e-10  # of the rise at the first steps: the least rise to look for, if the sum of squares is zero
_NO_ROOM = "the function failed at points next to the minimum, however near (if there is a limit, give bounds)"
_ENOUGH = 2.0  # how many times as many points as a parabola has coefficients
_LEAST = 1e-4  # ratio of curvatures, for points of unit spread: less may be rounding
_ROUNDING = 1e-9  # of the rises: a smaller curvature is that of a plane
_SAME = 1e-9  # relative difference of values that makes the function of the fit another one than that of the run
_MOST_FAILURES = 5  # how often the step is halved because points fail
_MOST_HALVINGS = 6
_AGREE = 0.03  # in units of M, which is about one
ROUGH = 0.1  # the same: more than this is no smooth function
_NEAREST, _FARTHEST = 1e-4, 0.25  # rises of the points that are used, in units of that at one standard error
_LONGER, _SHORTER = 100.0, 1e-3  # most that a step changes at once


class Meaning(NamedTuple):
    """What the value of the function means, which decides how far it rises one standard error from the minimum.

    A negative log likelihood rises by 1/2. A sum of squares rises by the variance of one datum; if that is not known,
    it is estimated by the smallest sum of squares, divided by the degrees of freedom.
    """

    is_likelihood: bool
    variance: float | None = None  # of one datum, if it is known
    degrees_of_freedom: int | None = None  # None if no variance is estimated
    n_data: int | None = None

    @classmethod
    def read(cls, is_likelihood: bool, n_data: Any, variance: Any, d: int) -> Meaning:
        """What a user says about a function of ``d`` unknowns."""
        variance = None if variance is None else positive_number("variance", variance)
        if is_likelihood:
            if n_data is not None or variance is not None:
                raise ValueError("a negative log likelihood needs neither n_data nor variance: it holds both")
            return cls(True)
        if n_data is None:
            if variance is None:
                raise ValueError(
                    "sum_of_squares needs n_data=, the number of squares in the sum, from which the variance of the "
                    "data is estimated; or variance=, if it is known"
                )
            return cls(False, variance)
        count = whole_number("n_data", n_data, 1)
        if variance is not None:
            return cls(False, variance, n_data=count)
        if count <= d:
            raise ValueError(f"{count} data cannot give the variance and {d} unknowns: give variance=, or more data")
        return cls(False, degrees_of_freedom=count - d, n_data=count)

    def rise(self, value: float) -> float:
        """How far the function rises one standard error away from a minimum of this value."""
        if self.degrees_of_freedom is not None:
            return max(value, 0.0) / self.degrees_of_freedom
        return 0.5 if self.variance is None else self.variance


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


class LocalFit(NamedTuple):
    """The function around a point: what it means, and where it may be evaluated."""

    fun: FitFunction
    meaning: Meaning
    box: Box
    widths: Floats  # of the bounds
    farthest: Floats  # (d,): how far directions may reach where there are no bounds
    least: float = 0.0  # unit of the rise: much more than the noise; if a sum of squares is zero, there is no other

    def rise(self, at: float) -> float:
        """How far the function rises one standard error away, if this is its minimum."""
        return max(self.meaning.rise(at), self.least)

    def room(self, x: Floats) -> Floats:
        """How far each unknown may be moved, to both sides."""
        room: Floats = np.minimum(np.minimum(x - self.box[0], self.box[1] - x), self.farthest)
        return room

    def noise(self, x: Floats, at: float) -> tuple[float, float]:
        """Standard deviation of values at points that are hardly different, and the mean of what was measured there.

        Slopes do not matter, because the points are pairs with ``x`` in the middle. That one is not part of the mean:
        it was chosen for its low value.
        """
        hardly = np.where(self.room(x) > _PROBE * self.widths, _PROBE * self.widths, 0.0)
        signs = np.array([np.ones(len(x)), np.where(np.arange(len(x)) % 2, 1, -1)])
        probes = self.fun(np.concatenate([x + hardly * signs, x - hardly * signs]))
        if np.isnan(probes).any():
            return 0.0, at
        second = probes.reshape(2, -1).sum(axis=0) - 2 * at
        return float(np.sqrt((second**2).mean() / 6)), float(probes.mean())

    def is_noisy(self, x: Floats, at: float) -> bool:
        """Whether the values are so noisy that it matters."""
        return self.noise(x, at)[0] > _QUIET * self.rise(at)

    def bend(self, x: Floats, at: float, axes: NDArray[np.intp], h: Floats) -> Floats:
        """The mean rise of both sides along each axis; NaN if one of them failed."""
        steps = np.zeros((len(axes), len(x)))
        steps[np.arange(len(axes)), axes] = h
        values = self.fun(np.concatenate([x + steps, x - steps])).reshape(2, -1)
        bend: Floats = values.mean(axis=0) - at
        return bend


class AxisScales(NamedTuple):
    """Along each axis, how far away the function has risen by its unit; infinite where the unknown has no effect."""

    scales: Floats
    least: float  # unit of the rise
    noise: float  # standard deviation of the values, if it matters, else zero
    at: float  # the value at the point, averaged if there is noise


def axis_scales(fit: LocalFit, x: Floats, at: float, free: NDArray[np.bool_]) -> AxisScales:
    """Find the steps ``h`` at which ``(f(x + h) + f(x - h)) / 2 - f(x)`` is about ``STEP**2`` times the rise.

    The mean of both sides does not depend on the slope. All free axes are probed together, so that workers share the
    points.
    """
    axes, rise, room = np.flatnonzero(free), fit.rise(at), fit.room(x)
    h = np.minimum(_FIRST * fit.widths, room)[axes]
    noise, repeated = fit.noise(x, at)
    bend = fit.bend(x, at, axes, h)
    least = _EXACT * float(np.nanmedian(np.abs(bend))) if np.isfinite(bend).any() else 0.0
    if noise > _QUIET * max(rise, least):
        at, least = repeated, max(least, _ABOVE_NOISE * noise)
        bend = fit.bend(x, at, axes, h)
    else:
        noise = 0.0
    wanted = STEP**2 * max(rise, least, np.finfo(float).tiny)
    room = room[axes]
    found, longest = np.full(len(axes), np.nan), room.copy()  # `longest` shrinks where points fail
    open_ = np.arange(len(axes))
    for left in reversed(range(_MOST_TRIES)):  # change the steps until the function bends by what is wanted
        for k, b in zip(open_.tolist(), bend.tolist(), strict=True):
            if np.isnan(b):  # a point failed: stay nearer
                longest[k] = h[k] / 2
                h[k] /= 10
                continue
            ratio = abs(b) / wanted
            is_last = not left or (ratio < 1 and h[k] >= longest[k])
            if is_last and ratio <= _NOTHING:
                if longest[k] < room[k]:
                    raise fit.fun.explain_failure(_NO_ROOM)
                found[k] = np.inf
            elif is_last or 1 / _CLOSE <= ratio <= _CLOSE:
                found[k] = h[k] / STEP * ratio**-0.5
            else:
                h[k] = min(h[k] * float(np.clip(max(ratio, 1e-300) ** -0.5, _SHORTER, _LONGER)), longest[k])
        open_ = np.flatnonzero(np.isnan(found))
        if not len(open_):
            break
        if not left:
            raise fit.fun.explain_failure(_NO_ROOM)
        bend = fit.bend(x, at, axes[open_], h[open_])
    scales = np.full(len(x), np.inf)
    scales[axes] = found
    return AxisScales(scales, least, noise, at)


def points_of_run(result: Any, value: float, variables: FittedVariables) -> tuple[Floats, Floats] | None:
    """Coordinates ``(m, d)`` and values ``(m,)`` that a run has evaluated; None if they are not those of the fit.

    ``value`` is that of the fitted function at the result: the run may have minimised something else.
    """
    kept = getattr(result, "evaluations", None)
    if kept is None or not kept.is_complete:
        return None
    rows, values = kept.points
    is_same = np.isclose(value, float(result.fun), rtol=_SAME, atol=0.0)
    if not is_same or values.ndim != 1 or len(values) == 0:  # with constraints they are rows
        return None
    is_fitted = variables.is_fitted
    has_held = (rows[:, ~is_fitted] == variables.row[~is_fitted]).all(axis=1)
    return variables.coordinates(rows[has_held][:, is_fitted]), values[has_held]


@on_one_thread
def known_directions(points: Floats, values: Floats, x: Floats, value: float, unit: float) -> Floats | None:
    """A basis ``(d, d)`` of directions of about one standard error at ``x``; None if the points do not show it."""
    d = len(x)
    if not unit > 0:
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        rises = (values - value) / unit
    is_near = (rises > _NEAREST) & (rises < _FARTHEST)
    if is_near.sum() < _ENOUGH * (d + 1) * (d + 2) / 2:
        return None
    apart, rises = points[is_near] - x, rises[is_near]
    sizes = np.abs(apart).max(axis=0)
    if not (sizes > 0).all():
        return None
    spread, axes = np.linalg.eigh((apart / sizes).T @ (apart / sizes) / len(apart))
    if spread[0] <= np.finfo(float).eps * spread[-1]:
        return None
    root = sizes[:, None] * axes * np.sqrt(spread)  # the points have unit spread along its columns
    z = np.linalg.solve(root, apart.T).T
    first, second = np.triu_indices(d)
    columns = np.concatenate([np.ones((len(z), 1)), z, z[:, first] * z[:, second]], axis=1)
    found = np.linalg.lstsq(columns, rises)[0][1 + d :]
    m = np.zeros((d, d))
    m[first, second] = found / 2
    curvatures, turn = np.linalg.eigh(m + m.T)
    if curvatures[0] <= max(_LEAST * curvatures[-1], _ROUNDING * rises.max()):
        return None
    basis: Floats = root @ turn / np.sqrt(curvatures)
    return basis


class Site(NamedTuple):
    """A point, the value there, and a basis of directions of about one standard error."""

    x: Floats
    at: float
    basis: Floats
    rise: float


class Extrapolated(NamedTuple):
    """A model from several steps, and how well they agree."""

    m: Floats
    g: Floats
    disagreement: Floats  # of M, by element, between the two steps that agree best
    growth: float  # of the disagreement when the step is halved: 1/4 if smooth, 2 with a kink, 4 with noise
    is_halved: bool  # whether the first step was too long
    step: float  # within which the model holds, in standard errors


def measured(fit: LocalFit, place: Site, h: float) -> tuple[Floats, float]:
    """``M``, with ``g`` as a last row, with one step; and the step, which is halved as long as points fail.

    The points are steps to both sides along each of the ``k`` directions, and along the sum of each pair. What comes of
    them is linear in the values, so results of different steps can be combined.
    """
    k = place.basis.shape[1]
    first, second = np.triu_indices(k, 1)
    for _ in range(_MOST_FAILURES):
        steps = h * place.basis.T
        moves = np.concatenate([steps, steps[first] + steps[second]])
        found = fit.fun(np.concatenate([place.x + moves, place.x - moves]))
        if np.isfinite(found).all():
            rises = (found.reshape(2, -1) - place.at) / place.rise
            both, difference = rises.sum(axis=0), rises[0] - rises[1]
            m = np.diag(both[:k] / (2 * h * h))
            m[first, second] = m[second, first] = (both[k:] - both[first] - both[second]) / (4 * h * h)
            return np.concatenate([m, difference[None, :k] / (4 * h)]), h
        h /= 2
    raise fit.fun.explain_failure(
        "the function failed within 0.02 standard errors of the minimum (if there is a limit, give bounds)"
    )


def extrapolated(fit: LocalFit, place: Site, first: tuple[Floats, float]) -> Extrapolated:
    """Go on from derivatives with one step: halve it until two agree, or until they agree less and less."""
    levels, h = [first[0]], first[1]
    apart: list[Floats] = []
    sizes: list[float] = []
    for _ in range(_MOST_HALVINGS):
        more, h = measured(fit, place, h / 2)
        levels.append(more)
        apart.append(np.abs(levels[-1] - levels[-2])[:-1])
        sizes.append(float(apart[-1].max()))
        if sizes[-1] <= _AGREE or (len(sizes) > 2 and sizes[-1] > sizes[-2] > sizes[-3]):
            break
    best = int(np.argmin(sizes))
    growth = sizes[-1] / sizes[-2] if len(sizes) > 1 and sizes[-2] > 0 else 0.0
    better = (4 * levels[best + 1] - levels[best]) / 3
    if best == 0 and growth > 1:  # a kink or noise, which the extrapolation would amplify
        better = levels[0]
    return Extrapolated(better[:-1], better[-1], apart[best], growth, best > 0, first[1] / 2**best)
