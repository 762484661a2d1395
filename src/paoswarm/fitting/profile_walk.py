r"""One side of the profile of an unknown: the best fit for each of its values, from the best of all outwards.

With the loss :math:`f` (F2), its minimum :math:`\hat f` at :math:`\hat x`, and the unit :math:`u` of (F9), the profile
of unknown :math:`i` and its signed root are

.. math::

    f_i(v) = \min_{x_i = v} f(x), \qquad
    \tau_i(v) = \operatorname{sign}(v - \hat x_i) \sqrt{(f_i(v) - \hat f) / u}                           \tag{F10}

A walk goes from knot to knot in steps that should raise :math:`\tau` by a quarter of the quantile at which an interval
ends. The others follow by a Gauss-Newton step, and the slope by (F4), in coordinates in which the covariance (F9) is
the identity. What remains to be gained over the others is taken off the value; if it is too much, a step follows. A
step that gains nothing shows that the slope is wrong: then it is measured by differences.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from paoswarm.core.arrays import Floats
from paoswarm.fitting.solution import Solution
from paoswarm.least_squares.pool import Pool, updated
from paoswarm.least_squares.trust_region import LinearModel, bounded_step

_KNOTS = 4  # from the minimum to the end of an interval
_AIM = 1.02  # times q: where the last knot should be, so that the end lies between two
_CLOSE = 0.05  # of q: a knot that is so near the end is the last one
_GAP = 0.45  # of q: knots below and above the end that are farther apart get another one between
_FIRST = 0.25  # of the room: the longest first step
_FARTHER = 2.0  # a step may be so many times as long as the one before
_NEAR = 0.03  # of its distance: how near simulations that fail are approached
# Of tau^2, from one on: what may still be gained over the others. On six models with six data sets each, a side took 5
# simulations, and tau at its end was wrong by 0.2 % in the median and by less than 2 % in 99 of 100. Differences at
# every knot where the slope might be wrong took 9 simulations, and with 10 unknowns 57, for errors of 0.01 and 0.8 %.
_LOW = 0.005
_DIFFERENCE = 0.1  # standard errors
_SHARE = 0.1  # of the largest doubt: smaller ones are not worth a difference
_TALL = 3.0  # times q: a landing that is so high was too far ahead
_PATH = 3  # knots through which the others are extrapolated; without them structural profiles take thrice as long
_WIDEST = 0.5  # widths: what counts as the standard error of what is not determined
_TIED = 0.1  # standard deviations for 0.5 widths: what is not determined stays where it is
_CURVED = 0.1  # the relative curvature at which noise matters
_FLAT = 0.01  # of tau: knots that rise less say nothing about where it does
_ON = 1e-9  # widths: an unknown that is so near a wall lies on it
_MOST_CORRECTIONS, _MOST_HALVINGS, _MOST_KNOTS = 8, 6, 40
GOING, CROSSED, AT_BOUND, LOST, FAILED = "going", "crossed", "at the bound", "lost", "failed"

Answers = list[Floats]  # outputs at points that were asked for, empty where they failed
Asking = Generator[list[Floats], Answers, "Place | None"]


class Knot(NamedTuple):
    """A point of a profile."""

    distance: float  # of the unknown from its best value, in widths
    root: float  # |tau|
    point: Floats  # (n,)


class Optimum:
    """The best point of a fit, with its scales: where profiles start."""

    def __init__(self, pool: Pool, solution: Solution) -> None:
        self.pool, self.loss, self.unit, point = pool, solution.loss, solution.unit, solution.point
        self.value = solution.around.value
        slope = LinearModel.of(solution.around.residuals, solution.slope / math.sqrt(self.unit)).factor
        _, sizes, axes = np.linalg.svd(slope, full_matrices=True)
        scales = np.full(len(point), _WIDEST)
        scales[: len(sizes)] = 1 / np.maximum(sizes, 1 / _WIDEST)
        self.root: Floats = axes.T * scales  # of the covariance
        self.inverse: Floats = axes / scales[:, None]
        determined = np.zeros(len(point))  # how much of each direction the data determine
        determined[: len(sizes)] = (sizes * scales[: len(sizes)]) ** 2
        self.ties: Floats = _TIED * np.sqrt(np.maximum(1 - determined, 0.0))[:, None] * self.inverse
        self.floor = math.sqrt(solution.noise * math.sqrt(self.value / self.unit) / _CURVED)  # e, in standard errors
        doubt = np.eye(len(point)) * (self.floor**2 if solution.is_measured else 1.0)
        self.place = Place(self, point, solution.outputs, solution.jacobian @ self.root, doubt)


class Place:
    """A point on the way, what is known of the slope there, and the height of the loss above its minimum, in units."""

    def __init__(self, optimum: Optimum, point: Floats, outputs: Floats, slope: Floats, doubt: Floats) -> None:
        self.optimum, self.point, self.outputs = optimum, point, outputs
        self.slope, self.doubt = slope, doubt  # of the outputs, in standard errors; K of (F4)
        self._around = optimum.loss.around(outputs)
        self._linear: LinearModel | None = None
        self.height = (self._around.value - optimum.value) / optimum.unit

    def learn(self, point: Floats, outputs: Floats) -> None:
        """Update the slope by one point (F4)."""
        optimum = self.optimum
        step = optimum.inverse @ optimum.pool.apart(point, self.point)
        if len(outputs) == 0 or float(step @ step) < 1e-20:
            return
        self.slope, self.doubt = updated(self.slope, self.doubt, step, outputs - self.outputs, optimum.floor)
        self._linear = None

    def to(self, point: Floats, outputs: Floats) -> Place:
        """Move to another point. Errors of the slope along one way add up."""
        length = float(np.linalg.norm(self.optimum.inverse @ self.optimum.pool.apart(point, self.point)))
        sizes, axes = np.linalg.eigh(self.doubt)
        doubt = (axes * (np.sqrt(np.maximum(sizes, 0.0)) + length) ** 2) @ axes.T
        moved = Place(self.optimum, point, outputs, self.slope, doubt)
        moved.learn(self.point, self.outputs)
        return moved

    def linear(self) -> LinearModel:
        """The residuals around the point, in widths; directions without effect are tied to it."""
        if self._linear is None:
            inverse, unit = self.optimum.inverse, math.sqrt(self.optimum.unit)
            slope = self.optimum.loss.slope(self._around, self.slope @ inverse) / unit
            residuals = np.concatenate([self._around.residuals / unit, np.zeros(len(inverse))])
            self._linear = LinearModel.of(residuals, np.concatenate([slope, self.optimum.ties]))
        return self._linear


class Walk:
    """From the best value of an unknown, the axis, to a side (-1 or 1), as far as ``reach``, the end of its interval.

    It has knots by distance, and a state: going, crossed (the end is known), at the bound (there is none), lost (the
    others could not be followed) or failed (simulations do).
    """

    def __init__(self, optimum: Optimum, axis: int, side: int, reach: float) -> None:
        self.optimum, self.axis, self.side, self.reach = optimum, axis, side, reach
        start = optimum.place
        self.room = float(abs(optimum.pool.room(start.point)[(side + 1) // 2][axis]))
        self.knots = [Knot(0.0, 0.0, start.point)]
        self.state = GOING if self.room > 0 else AT_BOUND
        self._others = np.arange(len(start.point)) != axis
        self._free = np.linalg.svd(optimum.root[axis : axis + 1])[2][1:].T  # directions that leave the unknown as it is
        self._failed_at = math.inf  # where simulations fail
        self._factor = _FARTHER  # by which the next step may be longer than the last one

    def course(self) -> Generator[list[Floats], Answers, None]:
        """Yield points, be sent their outputs, and go to the end."""
        here, low, stride, halvings = self.optimum.place, self.knots[0], _FIRST * self.room, 0
        high: Knot | None = None
        while self.state == GOING:
            ahead = self._ahead(here, low) if high is None else self._between(low, high)
            distance = min(low.distance + min(ahead, stride), self.room, (low.distance + self._failed_at) / 2)
            there = yield from self._at(here, low.distance, distance)
            if there is None:
                stride, halvings = min(self._factor, 0.5) * (distance - low.distance), halvings + 1
                if self._failed_at - low.distance < _NEAR * self._failed_at:
                    self.state = FAILED
                elif halvings > _MOST_HALVINGS:
                    self.state = LOST
                continue
            step, gain = self._gain(there)
            knot = Knot(distance, math.sqrt(max(there.height - gain, 0.0)), there.point + step)
            self.knots = sorted([*self.knots, knot], key=lambda one: one.distance)
            if self._is_inside(knot, low):
                stride, halvings = self._factor * (distance - low.distance), 0
                here, low = there, knot
            else:
                high = knot
            is_near = high is not None and high.distance - low.distance < _NEAR * high.distance
            if high is not None and (high.root - low.root <= _GAP * self.reach or is_near):
                self.state = CROSSED
            elif high is None and distance >= self.room:
                self.state = AT_BOUND
            elif len(self.knots) > _MOST_KNOTS:
                self.state = LOST

    def _between(self, low: Knot, high: Knot) -> float:
        """The step from a knot within the interval towards its end, if there is one at the end or beyond."""
        is_near = high.root < (1 + _GAP) * self.reach
        share = 0.5 if is_near else (_AIM * self.reach - low.root) / (high.root - low.root)
        return min(max(share, 0.1), 0.9) * (high.distance - low.distance)

    def _is_inside(self, knot: Knot, low: Knot) -> bool:
        """Whether a knot is far from the end of the interval, which is so if the profile becomes flat there, too."""
        missing, rise = self.reach - knot.root, knot.root - low.root
        is_flat = missing * (knot.distance - low.distance) > _CLOSE * knot.distance * max(rise, 0.0)
        return missing > 0 and (is_flat or missing > _CLOSE * self.reach)

    def _ahead(self, here: Place, low: Knot) -> float:
        """The step that should raise tau by its share, with the others at their best."""
        target = min(low.root + self.reach / _KNOTS, _AIM * self.reach)
        factor, residuals = here.linear()
        columns = np.column_stack([factor[:, self._others], factor[:, self.axis], residuals])
        triangle = np.asarray(np.linalg.qr(columns, mode="r"))
        k = len(factor.T) - 1
        steep, offset = abs(triangle[k, k]), triangle[k, k + 1] * np.sign(triangle[k, k]) * self.side
        return float((math.sqrt(target**2 - low.root**2 + offset**2) - offset) / steep) if steep > 0 else math.inf

    def _landing(self, here: Place, begin: float, end: float) -> Floats:
        """Where the others should be after a step along the axis: on a parabola through the last knots, in the box."""
        pool, along = self.optimum.pool, self.side * (end - begin)
        knots = [knot for knot in self.knots if knot.distance <= begin][-_PATH:]
        if len(knots) < _PATH:
            return here.point + self._step(here, along)
        weights = _lagrange(np.array([knot.distance for knot in knots]), end)
        way = weights @ np.array([pool.apart(knot.point, here.point) for knot in knots])
        way[self.axis] = along
        landing: Floats = here.point + np.clip(way, *pool.room(here.point))
        return landing

    def _at(self, here: Place, begin: float, end: float) -> Asking:
        """Go along the axis to the best point at another distance; None if that fails."""
        there = yield from self._moved(here, self._landing(here, begin, end))
        if there is None:
            self._factor, self._failed_at = 0.5, end
            return None
        landed = there.height
        self._factor = self._share_of(landed)
        longest, is_measured, has_failed = math.inf, False, False
        for _ in range(_MOST_CORRECTIONS if landed <= (_TALL * self.reach) ** 2 else 0):
            step, gain = self._gain(there)
            if gain <= _LOW * max(1.0, there.height):
                self._factor = self._share_of(landed - there.height + gain)
                return there
            if has_failed and not is_measured:
                is_measured, has_failed = True, False
                points = self._differences(there)
                answers = yield points
                for one, outputs in zip(points, answers, strict=True):
                    there.learn(one, outputs)
                continue
            size = float(np.linalg.norm(self.optimum.inverse @ step))
            moved = yield from self._moved(there, there.point + step * min(1.0, longest / size))
            has_failed = moved is None or moved.height >= there.height
            if moved is not None and not has_failed:
                there, is_measured = moved, False
                continue
            longest = min(longest, size) / 4
            if moved is not None:
                there.learn(moved.point, moved.outputs)
        here.learn(there.point, there.outputs)
        return None

    def _share_of(self, height: float) -> float:
        """How much longer a step may be than one that missed the others by so much: misses grow like its square."""
        return min(math.sqrt(self.reach / math.sqrt(max(height, 1e-9))), _FARTHER)

    def _moved(self, here: Place, point: Floats) -> Asking:
        """Simulate at a point and move there; None if that fails."""
        point = self.optimum.pool.inside(point)
        (outputs,) = yield [point]
        if len(outputs) == 0:
            return None
        return here.to(point, outputs)

    def _step(self, here: Place, along: float) -> Floats:
        """Where the others are best after a step along the axis, in the box and where constraints allow it."""
        linear, (low, high) = here.linear(), self.optimum.pool.room(here.point)
        step = np.full(len(here.point), along)
        if self._others.any():
            residuals = linear.residuals + linear.factor[:, self.axis] * along
            others = LinearModel(linear.factor[:, self._others], residuals)
            step[self._others] = bounded_step(others, low[self._others], high[self._others], math.inf)
        region = self.optimum.pool.region
        if not region.allows(here.point + step):
            low, high = (np.where(self._others, end, along) for end in (low, high))
            found = region.step(linear, here.point, low, high, math.inf)
            step = found if found[self.axis] == along else step
        return step

    def _gain(self, here: Place) -> tuple[Floats, float]:
        """The step of the others to their best values, and what it should gain."""
        step = self._step(here, 0.0)
        return step, max(here.linear().gain(step), 0.0)

    def _differences(self, here: Place) -> list[Floats]:
        """Points beside a place, along directions in which the slope is least known, on the side with more room."""
        sizes, axes = np.linalg.eigh(self._free.T @ here.doubt @ self._free)
        directions = self._free @ axes[:, sizes >= _SHARE * sizes[-1]]
        low, high = self.optimum.pool.room(here.point)
        moves = (self.optimum.root @ directions).T * max(_DIFFERENCE, 2 * self.optimum.floor)
        both = ((np.clip(move, low, high), np.clip(-move, low, high)) for move in moves)
        return [here.point + max(pair, key=lambda one: float(np.linalg.norm(one))) for pair in both]


def crossing(knots: list[Knot], root: float) -> float:
    """The distance at which a profile has risen to a root: a cubic through the nearest knots; NaN if it has not."""
    rising = knots[:1]
    for knot in knots[1:]:
        if knot.root > rising[-1].root:
            is_flat = len(rising) > 1 and knot.root < rising[-1].root + _FLAT
            rising = [*rising[: len(rising) - is_flat], knot]
    roots, distances = (np.array([one[k] for one in rising]) for k in (1, 0))
    if len(rising) < 2 or root > roots[-1] / (1 - _CLOSE):
        return math.nan
    k = min(max(int(np.searchsorted(roots, root)), 1), len(roots) - 1)  # it is between knots k - 1 and k, or beyond
    first = max(0, min(k - 2, len(roots) - 4))
    near = slice(first, first + 4)
    straight = distances[k - 1] + (distances[k] - distances[k - 1]) * (root - roots[k - 1]) / (roots[k] - roots[k - 1])
    ends = (distances[k - 1], distances[k]) if root <= roots[-1] else sorted((distances[-1], straight))
    return float(np.clip(_lagrange(roots[near], root) @ distances[near], *ends))


def _lagrange(x: Floats, at: float) -> Floats:
    """The weights of values at x in the polynomial through them."""
    return np.array([np.prod((at - np.delete(x, j)) / (one - np.delete(x, j))) for j, one in enumerate(x)])


def others_on_wall(knot: Knot, walk: Walk) -> NDArray[np.bool_]:
    """Which other unknowns of a knot lie on a wall of the cube."""
    on_wall: NDArray[np.bool_] = ((knot.point <= _ON) | (knot.point >= 1 - _ON)) & ~walk.optimum.pool.is_round
    on_wall[walk.axis] = False
    return on_wall
