"""From a point near a minimum to the minimum, and to a basis in which the function looks the same in all directions."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from paoswarm.core.arrays import Floats
from paoswarm.fits.fit_function import FitFunction, Meaning, Measured
from paoswarm.fits.local_model import Differences, Extrapolated, Model, extrapolated, measured
from paoswarm.fits.step_lengths import STEP
from paoswarm.optimize.read_input import Box

_MOST_PASSES = 6
_MOST_ROUNDS, _PATIENT_ROUNDS = 10, 5  # with any step, and with the first one
_NARROWEST = 1e-3  # a direction is lengthened by at most its inverse square root at once
_ALIKE = 1.5  # directions whose lengths are right within this factor need no new basis
_STILL = 0.02  # steps: a shorter Newton step is not taken
_LONGEST = 2.0  # standard errors: a longer Newton step is shortened
_SHARES = np.array([1.0, 0.5, 0.2, 0.05, 0.01])  # of a Newton step, all of them tried


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
    step: float  # length within which the model holds, in standard errors

    @property
    def value(self) -> float:
        """The function's value."""
        return float(self.at.values[0])


def settle(
    problem: Problem, x: Floats, at: Measured, basis: Floats, *, moves: bool
) -> Settled | tuple[Floats, Measured]:
    """Alternate between a better basis and Newton steps, until neither changes anything; then extrapolate.

    The columns of ``basis`` are the directions to begin with, of about one standard error each.
    If a Newton step ends on a bound, return that point and what was measured there: the unknown is not free any more.
    """
    place, h = _Place(x, at, basis, problem.rise(at)), STEP
    for left in reversed(range(_MOST_PASSES)):
        first = _even_out(problem, place, h, moves=moves)
        if first is None:
            return place.x, place.at
        found = extrapolated(problem.fun, problem.how, place.x, place.at, place.basis, place.rise, first)
        step, h = newton_step(found.model), first[1] / 2**found.halvings
        has_moved = moves and bool(left) and place.move(problem, step, h)
        if not left or (not has_moved and found.halvings == 0):
            break
    return Settled(place.x, place.at, place.basis, place.rise, found, float(np.linalg.norm(step)), h)


class _Place:
    """A point and a basis there, both of which change."""

    def __init__(self, x: Floats, at: Measured, basis: Floats, rise: float) -> None:
        self.x, self.at, self.basis, self.rise = x, at, basis, rise

    def move(self, problem: Problem, step: Floats, h: float) -> bool:
        """Go to the lowest point along a Newton step; return whether there was a lower one.

        A step is not worth it if it is short compared with that of the differences, ``h``.
        """
        length = float(np.linalg.norm(step))
        if length <= _STILL * h:
            return False
        shares = _SHARES[:, None] * min(1.0, _LONGEST / length)
        points = np.clip(self.x + shares * (self.basis @ step), *problem.box)
        tried = problem.fun(points)
        values = np.where(np.isnan(tried.values), np.inf, tried.values)
        best = int(values.argmin())
        if not values[best] < self.at.values[0]:
            return False
        row, before = slice(best, best + 1), self.rise
        self.x = points[best]
        self.at = Measured(tried.values[row], None if tried.residuals is None else tried.residuals[row])
        self.rise = problem.rise(self.at)
        self.basis = self.basis * np.sqrt(self.rise / before)
        return True


def _even_out(problem: Problem, place: _Place, h: float, *, moves: bool) -> tuple[Floats, float] | None:
    """Change the basis and take Newton steps until neither helps; return the last derivatives, and their step.

    None if a step has ended on a bound. If it takes long, the function is far from a parabola: shorter steps follow.
    """
    for left in reversed(range(_MOST_ROUNDS)):
        room = problem.room(place.x)
        if (room <= 0)[np.abs(place.basis).max(axis=1) > 0].any():
            return None
        place.basis = place.basis * np.minimum(1.0, _reach(place.basis, room))
        first = measured(problem.fun, problem.how, place.x, place.at, place.basis, place.rise, h)
        model = problem.how.model(first[0], place.at, place.rise)
        step, before = newton_step(model), place.rise
        curvatures, turn = np.linalg.eigh(model.m)
        turned = place.basis @ turn
        factors = np.minimum(np.maximum(np.abs(curvatures), _NARROWEST) ** -0.5, _reach(turned, room))
        is_even = bool((np.maximum(factors, 1 / factors) < _ALIKE).all())
        has_moved = moves and bool(left) and place.move(problem, step, first[1])
        if not left or (is_even and not has_moved):
            return first
        if not is_even:
            place.basis = turned * factors * np.sqrt(place.rise / before)
        if left < _MOST_ROUNDS - _PATIENT_ROUNDS:
            h /= 2
    raise AssertionError


def newton_step(model: Model) -> Floats:
    """The step to the model's minimum; along directions that curve downwards, downhill."""
    curvatures, axes = np.linalg.eigh(model.m)
    step: Floats = -axes @ ((axes.T @ model.g) / np.maximum(np.abs(curvatures), _NARROWEST))
    return step


def _reach(basis: Floats, room: Floats) -> Floats:
    """How many times each direction can be followed until it leaves the room."""
    with np.errstate(divide="ignore", invalid="ignore"):
        times = np.where(basis == 0, np.inf, room[:, None] / np.abs(basis))
    shortest: Floats = times.min(axis=0)
    return shortest
