r"""The slope at the best point of a fit, by differences: what standard errors, predictions and profiles need.

With outputs :math:`y_a, y_b` at offsets :math:`a, b` along an axis, a parabola has the slope

.. math:: y' = \frac{(y_a - y_0)\, b / a - (y_b - y_0)\, a / b}{b - a}                                   \tag{F6}

at its middle. That is a central difference for :math:`b = -a`; next to a wall :math:`b = 2 a`.
"""

from __future__ import annotations

import numpy as np

from paoswarm.core.arrays import Floats
from paoswarm.least_squares.descent import Precision
from paoswarm.least_squares.loss import Loss
from paoswarm.least_squares.pool import Pool
from paoswarm.least_squares.trust_region import Linear

_LENGTH = 1e-4  # of a difference, in widths
_RADIUS = 0.1  # of a last step
_WORTH = 1e-7  # relative gain for which the fit is moved and the slope measured once more
_CHEAP = 1e-10  # the same, if the slope stays: one evaluation, for two more digits of the unknowns
_MOST_ROUNDS = 4


class Finish:
    """Differences around the best point, and more steps while they promise anything.

    Parameters
    ----------
    pool : Pool
    loss : Loss
    centre : int
        Number of the best point in the pool.
    jacobian : array (m, n)
        What is known of the slope; used for columns whose differences fail.
    precision : Precision

    Attributes
    ----------
    centre : int
    jacobian : array (m, n)
        The slope at the centre.
    is_measured : bool
        Whether it was measured there.
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
        linear = Linear.of(around.residuals, self.loss.slope(around, self.jacobian))
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
