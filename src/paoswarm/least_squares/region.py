"""The part of the unit cube where a search may go, if functions of the point alone must stay below zero.

Such functions are cheap, so the step of Gauss and Newton (F3) is the solution of a problem with these constraints, by
sequential quadratic programming. Points that are not allowed are never simulated.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from paoswarm.core.arrays import Floats
from paoswarm.core.random import generator
from paoswarm.least_squares.trust_region import Linear, bounded_step

Function = Callable[[Floats], Any]

_MARGIN = 1e-7  # kept from the edge, in units of the constraints: rounding must not make a point infeasible
_ON_EDGE = 1e-4  # the same: nearer ones hold with equality
_DIFFERENCE = 1e-7  # widths
_N_TRIED = 1000  # random points that give the units of constraints, and a way in
_N_SOUGHT = 10  # of these, if none is allowed, from which an allowed one is looked for
_SHORTER = (1.0, 0.999, 0.9, 0.5, 0.1)  # shares of a step that are tried until one is allowed


class Region:
    """All of the cube, or where ``excess(point)`` returns no number above zero.

    Parameters
    ----------
    excess : callable or None
        Returns an array ``(k,)`` at a point of the cube; NaN where it is not known, which is not allowed.
    n : int
        How many unknowns there are.
    """

    def __init__(self, excess: Callable[[Floats], Floats] | None, n: int) -> None:
        self._excess = excess
        if excess is None:
            return
        tried = generator(0).random((_N_TRIED, n))
        numbers = np.array([excess(point) for point in tried])
        is_in = (numbers <= 0).all(axis=1)  # not NaN
        self._inside = tried[is_in]
        self._units = np.median(np.nan_to_num(np.abs(numbers)), axis=0) + 1e-300
        if self.is_empty:
            near = np.array([self.nearest(point) for point in tried[:_N_SOUGHT]])
            self._inside = near[[self.allows(point) for point in near]]

    @property
    def is_empty(self) -> bool:
        """Whether no point is known that is allowed."""
        return self._excess is not None and not len(self._inside)

    def allows(self, point: Floats) -> bool:
        """Whether a point may be simulated."""
        return self._excess is None or bool((self._excess(point) <= 0).all())

    def step(self, linear: Linear, point: Floats, low: Floats, high: Floats, radius: float) -> Floats:
        """The best step with ``low <= step <= high``, of at most this length, to a point that is allowed."""
        step = bounded_step(linear, low, high, radius)
        if self._excess is None or self.allows(point + step):
            return step
        unit = float(linear.residuals @ linear.residuals) + 1e-300
        found = self._best(
            lambda s: -linear.gain(s) / unit,
            lambda s: 2 * (linear.gradient + linear.factor.T @ (linear.factor @ s)) / unit,
            np.zeros_like(step),
            (np.maximum(low, -radius), np.minimum(high, radius)),
            lambda s: np.append(-self._scaled(point + s) - _MARGIN, 1 - s @ s / radius**2),
        )
        return self._shortened(point, found)

    def nearest(self, point: Floats) -> Floats:
        """A point that is allowed, near this one; the same one if none is known."""
        if self._excess is None or self.allows(point):
            return point
        near = self._best(
            lambda x: float((x - point) @ (x - point)),
            lambda x: 2 * (x - point),
            point,
            (np.zeros_like(point), np.ones_like(point)),
            lambda x: -self._scaled(x) - _MARGIN,
        )
        if self.allows(near) or self.is_empty:
            return near
        inner: Floats = self._inside[np.argmin(((self._inside - point) ** 2).sum(axis=1))]
        return inner

    def normals(self, point: Floats) -> Floats:
        """Slopes ``(a, n)`` of the constraints that hold with equality at a point."""
        if self._excess is None:
            return np.empty((0, len(point)))
        here = self._scaled(point)
        slopes = np.empty((len(here), len(point)))
        for i in range(len(point)):
            h = -_DIFFERENCE if point[i] > 0.5 else _DIFFERENCE
            beside = point.copy()
            beside[i] += h
            slopes[:, i] = (self._scaled(beside) - here) / h
        return slopes[self.is_on_edge(point) & np.isfinite(slopes).all(axis=1) & slopes.any(axis=1)]

    def is_on_edge(self, point: Floats) -> NDArray[np.bool_]:
        """Which constraints hold with equality at a point."""
        if self._excess is None:
            return np.zeros(0, dtype=bool)
        return np.asarray(np.abs(self._scaled(point)) < _ON_EDGE)

    def _scaled(self, point: Floats) -> Floats:
        assert self._excess is not None
        found: Floats = self._excess(point) / self._units
        return found

    @staticmethod
    def _best(fun: Function, slope: Function, start: Floats, box: tuple[Floats, Floats], room: Function) -> Floats:
        """The minimum of a function in a box where ``room`` is nowhere below zero."""
        limits: dict[str, Any] = {"bounds": list(zip(*box, strict=True)), "constraints": {"type": "ineq", "fun": room}}
        with np.errstate(invalid="ignore"):
            found = minimize(fun, start, jac=slope, method="SLSQP", **limits)
        return np.clip(np.nan_to_num(found.x), *box)

    def _shortened(self, point: Floats, step: Floats) -> Floats:
        """The step, or the largest of a few shares of it that leads to a point that is allowed."""
        for share in _SHORTER:
            if self.allows(point + share * step):
                return share * step
        return np.zeros_like(step)
