r"""One Gauss-Newton search without derivatives, in the unit cube, and the slope where it ends.

A search knows a slope :math:`J` of the outputs at its centre, and :math:`K`, the squared error of that slope in units
of the curvature :math:`\kappa`: along a unit vector :math:`v` the slope is wrong by :math:`\kappa \sqrt{v' K v}`. A
point at an offset :math:`s` is predicted with an error of :math:`\kappa |s|^2 / 2`; noise is like curvature over a
length :math:`e`. So every evaluated point, whoever has asked for it, is a measurement of the slope (Kalman's update;
with :math:`K = I` and no errors it is Broyden's):

.. math::

    v = s' K s + |s|^4 / 4 + e^4, \quad J \leftarrow J + (y_s - y - J s) (K s)' / v, \quad
    K \leftarrow K - K s (K s)' / v                                                                     \tag{F4}

:math:`\kappa` cancels. A move of the centre by :math:`s` changes the slope by about :math:`\kappa |s|`, so
:math:`K \leftarrow K + |s|^2 I`. Square roots of eigenvalues of :math:`K` are lengths: a step of that length finds out
as much about the curvature as is known about the slope. Where a step fails and such a length is longer than the step,
the slope is to blame, and one short difference along that direction mends it.

At the best point of all, the slope is measured. With outputs :math:`y_a, y_b` at offsets :math:`a, b` along an axis, a
parabola has there the slope

.. math:: y' = \frac{(y_a - y_0)\, b / a - (y_b - y_0)\, a / b}{b - a}                                   \tag{F6}

That is a central difference for :math:`b = -a`; next to a wall :math:`b = 2 a`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from paoswarm.core.arrays import Floats
from paoswarm.least_squares.loss import Loss
from paoswarm.least_squares.pool import Pool, updated
from paoswarm.least_squares.trust_region import LinearModel

# Lengths are in widths of the box. The radius, the shares of a good and a poor step and the threshold of what is known
# are not delicate: from half to twice these values, nothing changed beyond chance on the development problems.
_FIRST_RADIUS, _LARGEST_RADIUS, _SMALLEST_RADIUS = 0.5, 1.0, 1e-6
_GOOD, _POOR, _BAD = 0.7, 0.3, 0.1  # shares of the predicted gain
_DIFFERENCE = 0.03  # length of a difference, as a share of the step that is planned
_SHORTEST = 1e-5  # the shortest difference
_SHORTEST_SPAN = 2e-4  # over a shorter step than this the slope need not be known better
_UNKNOWN = 1e4  # K of a direction along which nothing was measured
_ROUNDING = 1e-12  # of K, from differences of large numbers; without a floor K loses its sign, and (F4) is wrong
_FAR = 10.0  # an error of the slope over more than this says that it was never measured
_TRIES = (0.25, 4.0)  # other radii to try at the same time, where there are workers
_OTHER_STEP = 0.3  # of its length, by which a step must differ to be worth a worker
_LENGTH = 1e-4  # of a difference at the end, in widths
_RADIUS = 0.1  # of a last step
_WORTH = 1e-7  # relative gain for which the fit is moved and the slope measured once more
_CHEAP = 1e-10  # the same, if the slope stays: one evaluation, for two more digits of the unknowns
_MOST_ROUNDS = 4
LONGEST = 40  # times n + 1 evaluations; the longest search that found something on the development problems took 33
ACTIVE, CONVERGED, KNOWN, HOPELESS, CUT_SHORT = "active", "converged", "known", "hopeless", "cut short"


class Precision(NamedTuple):
    """What the simulator's noise leaves to be found."""

    relative: float = 0.0  # standard deviation of the outputs' noise, relative to the residuals
    floor: float = 0.0  # e: differences over shorter lengths are noise
    tol: float = 1e-8  # a relative gain that is none


class Trial(NamedTuple):
    """A point that a search wants evaluated."""

    point: Floats  # (n,)
    gain: float = math.nan  # that is predicted; NaN for a difference, which is there for the slope


class Descent:
    """A search from one point of the pool; ``number`` is its rank among all searches.

    ``centre`` is the number of its best point in the pool, ``value`` that of the loss there, ``spent`` counts its
    evaluations, ``gain`` is what its last step promised, and ``state`` is active, or how it has ended.
    """

    def __init__(self, number: int, pool: Pool, centre: int, loss: Loss, precision: Precision) -> None:
        self.number, self.pool, self.loss, self.precision = number, pool, loss, precision
        self.radius, self.spent, self.state, self.gain = _FIRST_RADIUS, 0, ACTIVE, math.inf
        self._needs_slope, self._failed_in_a_row = True, 0
        self._lengths = np.full(len(pool.is_round), math.inf)
        self._span = _FIRST_RADIUS
        self.jacobian: Floats
        self._doubt: Floats  # K
        self._settle_at(centre)
        self.first_value = self.value
        self.trace = [(0, self.value)]
        self._learn_from_pool()

    @property
    def x(self) -> Floats:
        """The best point."""
        point: Floats = self.pool.points[self.centre]
        return point

    @property
    def outputs(self) -> Floats:
        """The outputs there."""
        return self.pool.outputs[self.centre]

    @property
    def residuals(self) -> Floats:
        """The residuals there, as the loss weighs them."""
        return self._around.residuals

    @property
    def is_known(self) -> bool:
        """Whether the slope is known along all directions, as far as steps go."""
        return bool((self._lengths <= max(self._span, 2 * self.precision.floor)).all())

    def fall(self, window: int) -> float | None:
        """How far the logarithm of the value has fallen over so many evaluations; None if it is not that old."""
        then = next((value for spent, value in reversed(self.trace) if spent <= self.spent - window), None)
        return None if then is None else math.log(max(then, 1e-300) / max(self.value, 1e-300))

    def ask(self, room: int) -> list[Trial]:
        """The next points, at most so many; none if the search has ended."""
        sizes, axes = np.linalg.eigh(self._doubt)
        sizes = np.maximum(sizes, _ROUNDING)
        self._doubt = (axes * sizes) @ axes.T
        self._lengths = np.sqrt(sizes)
        linear = LinearModel.of(self._around.residuals, self.loss.slope(self._around, self.jacobian))
        step = self.pool.step(linear, self.x, self.radius)
        length = float(np.linalg.norm(step))
        is_new = self.spent == 0 or self._lengths[-1] > _FAR
        self._span = self.radius if is_new else min(self.radius, max(2 * length, _SHORTEST_SPAN))
        unknown = axes[:, self._lengths > max(self._span, 2 * self.precision.floor)].T[::-1]
        h = max(_DIFFERENCE * self._span, _SHORTEST, self.precision.floor)
        if self._needs_slope and len(unknown):
            return self._differences(self.x, h, unknown, linear, room)
        self._needs_slope = False
        self.gain = linear.gain(step)
        if self.gain <= self.precision.tol * self.value + 1e-30 or length < 1e-10:
            if len(unknown):
                self._needs_slope = True
                return self._differences(self.x, h, unknown, linear, room)
            self.state = CONVERGED
            return []
        trials = [Trial(self.x + step, self.gain)]
        if room > 1:
            trials += self._ahead(linear, step, h, room - 1)
        return trials

    def tell(self, numbers: list[int], trials: list[Trial]) -> None:
        """Take the points of the pool that were asked for."""
        self.spent += len(numbers)
        values = self.pool.values[numbers]
        before, old = self.value, self.centre
        steps = [k for k, trial in enumerate(trials) if not math.isnan(trial.gain)]
        has_settled = False
        if steps:
            first = min(steps, key=lambda k: values[k])
            length = float(np.linalg.norm(self.pool.apart(self.pool.points[numbers[first]], self.x)))
            has_settled = self._judge(float(values[first]), trials[first].gain, length)
        elif not np.isfinite(values).any():
            self.radius *= 0.5
        self._failed_in_a_row = 0 if np.isfinite(values).any() else self._failed_in_a_row + 1
        best = int(np.argmin(values))
        if values[best] < before:
            moved = self.pool.apart(self.pool.points[numbers[best]], self.x)
            self._settle_at(numbers[best])
            self._doubt = self._doubt + float(moved @ moved) * np.eye(len(moved))
        far = np.linalg.norm(self.pool.apart(self.pool.points[numbers], self.x), axis=1)
        for k in np.argsort(-far, kind="stable").tolist():  # the nearest last: its word counts most
            self._learn(numbers[k])
        if self.centre != old:
            self._learn(old)
        self.trace.append((self.spent, self.value))
        if has_settled or self.radius < max(_SMALLEST_RADIUS, self.precision.floor):
            self.state = CONVERGED
        n = len(self.x)
        if self._failed_in_a_row > 3 * n or self.spent > LONGEST * (n + 1):
            self.state = CUT_SHORT

    def _judge(self, value: float, gain: float, length: float) -> bool:
        """Change the radius after a step; whether the search has converged with it."""
        tol = self.precision.tol
        share = (self.value - value) / max(gain, 1e-300) if math.isfinite(value) else -1.0
        is_known = self.is_known
        if share >= _GOOD:
            self.radius = min(max(self.radius, 2 * length), _LARGEST_RADIUS)
        elif share >= _BAD:
            self.radius = max(0.5 * self.radius, length)
            self._needs_slope |= share < _POOR and not is_known
        else:
            if is_known or share < -1 or not math.isfinite(value):
                self.radius = max(0.25 * self.radius, min(0.5 * self.radius, 0.5 * length))
            self._needs_slope |= not is_known
        is_little = gain <= 10 * tol * self.value and self.value - value <= 10 * tol * self.value
        return share >= 0 and is_known and is_little

    def _ahead(self, linear: LinearModel, step: Floats, h: float, room: int) -> list[Trial]:
        """Other radii, and differences around the point where the step leads: then its slope is known on arrival."""
        n, length = len(step), float(np.linalg.norm(step))
        trials: list[Trial] = []
        for factor in _TRIES:
            if room - len(trials) <= 0 or (len(trials) and room - len(trials) <= n):
                break
            other = self.pool.step(linear, self.x, self.radius * factor)
            if np.linalg.norm(other - step) >= _OTHER_STEP * min(float(np.linalg.norm(other)), length):
                trials.append(Trial(self.x + other, linear.gain(other)))
        there = self.x + step
        return trials + self._differences(there, h, np.eye(n), linear, room - len(trials))

    def _differences(self, centre: Floats, h: float, directions: Floats, linear: LinearModel, room: int) -> list[Trial]:
        """Points beside a centre, on the side on which the value falls; on the other one if a wall is near."""
        trials = []
        for v in directions[:room]:
            sign = -1.0 if float(linear.gradient @ v) > 0 else 1.0
            low, high = self.pool.room(centre)
            ahead, behind = (np.clip(side * h * v, low, high) for side in (sign, -sign))
            is_walled = np.linalg.norm(behind) > 1.5 * np.linalg.norm(ahead)
            is_walled |= not self.pool.region.allows(centre + ahead) and self.pool.region.allows(centre + behind)
            trials.append(Trial(centre + (behind if is_walled else ahead)))
        return trials

    def _settle_at(self, centre: int) -> None:
        self.centre = centre
        self._around = self.loss.around(self.outputs)
        self.value = self._around.value

    def _learn_from_pool(self) -> None:
        """The slope by weighted regression on the nearest points of all searches, with the weights of (F4)."""
        n = len(self.x)
        found, apart = self.pool.near(self.centre, 4 * n + 5)
        self.jacobian, self._doubt = np.zeros((len(self.outputs), n)), _UNKNOWN * np.eye(n)
        if len(found) == 0:
            return
        far = np.einsum("ij,ij->i", apart, apart)
        weights = 1 / np.sqrt(far * far / 4 + self.precision.floor**4)
        design = apart * weights[:, None]
        self._doubt = np.linalg.inv(design.T @ design + np.eye(n) / _UNKNOWN)
        design *= weights[:, None]
        for row, i in zip(design, found.tolist(), strict=True):  # one at a time: there may be many data
            self.jacobian += np.outer(self.pool.outputs[i] - self.outputs, self._doubt @ row)

    def _learn(self, number: int) -> None:
        """Update the slope by one point (F4)."""
        outputs = self.pool.outputs[number]
        step = self.pool.apart(self.pool.points[number], self.x)
        if float(step @ step) < 1e-26 or len(outputs) == 0:
            return
        change = outputs - self.outputs
        self.jacobian, self._doubt = updated(self.jacobian, self._doubt, step, change, self.precision.floor)


class Finish:
    """Differences around the best point, and more steps while they promise anything.

    What is known of the slope, ``jacobian`` (m, n), stays in columns whose differences fail. ``is_measured`` says
    whether the slope was measured at the ``centre``.
    """

    def __init__(self, pool: Pool, loss: Loss, centre: int, jacobian: Floats, precision: Precision) -> None:
        self.pool, self.loss, self.centre, self.jacobian = pool, loss, centre, jacobian.copy()
        self._length = max(_LENGTH, precision.floor)
        self._noise = precision.tol if precision.relative else 0.0
        self._n_rounds = 0
        self.is_measured = False
        self._step: Floats | None = None

    def ask(self) -> list[Floats]:
        """The points that are needed next; none at the end."""
        if self._n_rounds == _MOST_ROUNDS:
            return []
        x = self.pool.points[self.centre]
        if self._step is not None:
            return [x + self._step]
        return list(x + np.concatenate(self._offsets))

    def tell(self, numbers: list[int]) -> None:
        """Take the points of the pool that were asked for."""
        if self._step is None:
            self._learn(numbers)
            self.is_measured = True
            self._plan()
            return
        is_better = self.pool.values[numbers[0]] < self.pool.values[self.centre]
        if is_better:
            self.centre = numbers[0]
        is_known = float(np.linalg.norm(self._step)) <= 1.001 * self._length  # the slope is the same
        self._step, self.is_measured = None, is_known or not is_better
        self._n_rounds = self._n_rounds + 1 if is_better and not is_known else _MOST_ROUNDS

    def _plan(self) -> None:
        """A step of Gauss and Newton if it promises anything."""
        around = self.loss.around(self.pool.outputs[self.centre])
        linear = LinearModel.of(around.residuals, self.loss.slope(around, self.jacobian))
        near, far = (self.pool.step(linear, self.pool.points[self.centre], r) for r in (self._length, _RADIUS))
        is_worth = linear.gain(far) - linear.gain(near) > max(_WORTH, self._noise) * around.value
        step, least = (far, _WORTH) if is_worth else (near, _CHEAP)
        if linear.gain(step) > max(least, self._noise) * around.value and self._n_rounds < _MOST_ROUNDS - 1:
            self._step = step
        else:
            self._n_rounds = _MOST_ROUNDS

    @property
    def _offsets(self) -> tuple[Floats, Floats]:
        """Two offsets along each axis, in the order of the axes."""
        x, h = self.pool.points[self.centre], self._length
        low, high = self.pool.room(x)
        axes = np.eye(len(x))

        def are_allowed(i: int, pair: tuple[float, float]) -> bool:
            return all(low[i] <= a <= high[i] and self.pool.region.allows(x + a * axes[i]) for a in pair)

        pairs = ((h, -h), (h, 2 * h), (-h, -2 * h))
        found = np.array([next((pair for pair in pairs if are_allowed(i, pair)), pairs[0]) for i in range(len(x))])
        return np.diag(found[:, 0]), np.diag(found[:, 1])

    def _learn(self, numbers: list[int]) -> None:
        """The slope by (F6); by one difference where the other point has failed."""
        y, n = self.pool.outputs[self.centre], len(numbers) // 2
        first, second = (np.diag(one) for one in self._offsets)
        for i in range(n):
            ya, yb = self.pool.outputs[numbers[i]], self.pool.outputs[numbers[n + i]]
            a, b = float(first[i]), float(second[i])
            if len(ya) and len(yb):
                self.jacobian[:, i] = ((ya - y) * (b / a) - (yb - y) * (a / b)) / (b - a)
            elif len(ya):
                self.jacobian[:, i] = (ya - y) / a
            elif len(yb):
                self.jacobian[:, i] = (yb - y) / b
