"""From a point near a minimum to the minimum, and to a basis in which the function looks the same in all directions."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from paoswarm.core.arrays import Floats
from paoswarm.fits.fit_function import FitFunction, Meaning, Measured
from paoswarm.fits.local_model import Differences, Extrapolated, Model, extrapolated, measured
from paoswarm.optimize.read_input import Box

_MOST_ROUNDS = 20
_NARROWEST = 1e-3  # a direction is lengthened by at most its inverse square root at once
_ALIKE = 1.5  # directions whose lengths are right within this factor need no new basis
_STILL = 0.01  # standard errors: a shorter Newton step is not taken
_LONGEST = 2.0  # standard errors: a longer Newton step is shortened
_SHARES = np.array([1.0, 0.5, 0.2, 0.05])  # of a Newton step, all of them tried


class Problem(NamedTuple):
    """What stays the same while a point settles."""

    fun: FitFunction
    how: Differences
    meaning: Meaning
    box: Box
    farthest: Floats  # (d,): how far the directions may reach where there are no bounds
    least: float  # least unit of the rise

    def rise(self, at: Measured) -> float:
        """How far the function rises one standard error away, if this is its minimum."""
        return max(self.meaning.rise(float(at.values[0])), self.least)

    def room(self, x: Floats) -> Floats:
        """How far each unknown may be moved, to both sides."""
        room: Floats = np.minimum(np.minimum(x - self.box[0], self.box[1] - x), self.farthest)
        return room


class Settled(NamedTuple):
    """A point, what was measured there, and the quadratic model around it."""

    x: Floats
    at: Measured
    basis: Floats  # (d, k): directions of about one standard error, inside the bounds
    rise: float
    found: Extrapolated
    newton: float  # length of the Newton step that remains, in standard errors

    @property
    def value(self) -> float:
        """The function's value."""
        return float(self.at.values[0])


def settle(
    problem: Problem, x: Floats, at: Measured, scales: Floats, free: NDArray[np.bool_], *, moves: bool
) -> Settled | tuple[Floats, Measured]:
    """Alternate between a better basis and Newton steps, until neither changes anything; then extrapolate.

    If a Newton step ends on a bound, return that point and what was measured there: the unknown is not free any more.
    """
    fun, how = problem.fun, problem.how
    axes = np.flatnonzero(free)
    basis = np.zeros((len(x), len(axes)))
    basis[axes, np.arange(len(axes))] = scales[axes]
    rise = problem.rise(at)
    for left in reversed(range(_MOST_ROUNDS)):
        room = problem.room(x)
        if (room[axes] <= 0).any():
            return x, at
        basis = basis * np.minimum(1.0, _reach(basis, room))
        first = measured(fun, how, x, at, basis, rise)
        model = how.model(first[0], at, rise)
        step = newton_step(model)
        length = float(np.linalg.norm(step))
        lower = _lower_point(problem, x, at, basis @ step, length) if moves and left and length > _STILL else None
        curvatures, turn = np.linalg.eigh(model.m)
        turned = basis @ turn
        factors = np.minimum(np.maximum(np.abs(curvatures), _NARROWEST) ** -0.5, _reach(turned, room))
        is_even = bool((np.maximum(factors, 1 / factors) < _ALIKE).all())
        if not left or (is_even and lower is None):
            break
        if not is_even:
            basis = turned * factors
        if lower is not None:
            x, at = lower
            rise, before = problem.rise(at), rise
            basis = basis * np.sqrt(rise / before)
    return Settled(x, at, basis, rise, extrapolated(fun, how, x, at, basis, rise, first), length)


def newton_step(model: Model) -> Floats:
    """The step to the model's minimum; along directions that curve downwards, downhill."""
    curvatures, axes = np.linalg.eigh(model.m)
    step: Floats = -axes @ ((axes.T @ model.g) / np.maximum(np.abs(curvatures), _NARROWEST))
    return step


def _lower_point(
    problem: Problem, x: Floats, at: Measured, step: Floats, length: float
) -> tuple[Floats, Measured] | None:
    """The lowest point along a Newton step; None if none is lower."""
    points = np.clip(x + _SHARES[:, None] * step * min(1.0, _LONGEST / length), *problem.box)
    tried = problem.fun(points)
    values = np.where(np.isnan(tried.values), np.inf, tried.values)
    best = int(values.argmin())
    if not values[best] < at.values[0]:
        return None
    row = slice(best, best + 1)
    return points[best], Measured(tried.values[row], None if tried.residuals is None else tried.residuals[row])


def _reach(basis: Floats, room: Floats) -> Floats:
    """How many times each direction can be followed until it leaves the room."""
    with np.errstate(divide="ignore", invalid="ignore"):
        times = np.where(basis == 0, np.inf, room[:, None] / np.abs(basis))
    shortest: Floats = times.min(axis=0)
    return shortest
