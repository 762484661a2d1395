r"""The step of Gauss and Newton within a box, a radius and constraints of the unknowns.

.. math:: \min_s |r + J s|^2, \qquad |s| \le D, \quad l \le s \le h                                      \tag{F3}

With a multiplier :math:`\lambda` of the radius (Levenberg 1944, Marquardt 1963) the best step of the unknowns that are
not on a wall is :math:`s = -(J' J + \lambda)^{-1} J' r`. Unknowns that would leave the box are put on its wall; one
whose force :math:`J' (r + J s) + \lambda s` pulls it inside is set free again. Every round makes the sum of squares
smaller, so the last one is the minimum. Functions of the point that must stay below zero are cheap: with them the step
is that of sequential quadratic programming, and points that are not allowed are never simulated.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from paoswarm.core.arrays import Floats
from paoswarm.core.random import generator

Function = Callable[[Floats], Any]

_SMALLEST = 1e-14  # of singular values, relative to the largest: below it there is only rounding
_CLOSE = 1e-9  # relative error of the length
_MOST_ROUNDS = 4  # times n; in ten thousand random problems of 1 to 12 unknowns it took at most 2 n
_NO_FORCE = 1e-12  # relative to the gradient
_MARGIN = 1e-7  # kept from the edge, in units of the constraints: rounding must not make a point infeasible
_ON_EDGE = 1e-4  # the same: nearer ones hold with equality
_DIFFERENCE = 1e-7  # widths
_N_TRIED = 1000  # random points that give the units of constraints, and a way in
_N_SOUGHT = 10  # of these, if none is allowed, from which an allowed one is looked for
_SHORTER = (1.0, 0.999, 0.9, 0.5, 0.1)  # shares of a step that are tried until one is allowed


class LinearModel(NamedTuple):
    """A linear model of residuals: ``|r + J s|^2 = |q + R s|^2 + rest``."""

    factor: Floats  # (k, n), R
    residuals: Floats  # (k,), q

    @classmethod
    def of(cls, residuals: Floats, slope: Floats) -> LinearModel:
        """Reduce residuals ``(m,)`` and their slope ``(m, n)``."""
        joined = np.asarray(np.linalg.qr(np.column_stack([slope, residuals]), mode="r"))
        return cls(joined[:, :-1], joined[:, -1])

    def gain(self, step: Floats) -> float:
        """How far the sum of squares falls along a step."""
        along = self.factor @ step
        return -float(along @ (along + 2 * self.residuals))

    @property
    def gradient(self) -> Floats:
        """Half the gradient of the sum of squares."""
        found: Floats = self.factor.T @ self.residuals
        return found


def bounded_step(linear: LinearModel, low: Floats, high: Floats, radius: float) -> Floats:
    """The best step with ``low <= step <= high`` and a length of at most ``radius``."""
    n = linear.factor.shape[1]
    step, free = np.zeros(n), np.ones(n, dtype=bool)
    least = _NO_FORCE * float(np.abs(linear.gradient).max())  # squares of it may overflow
    for _ in range(_MOST_ROUNDS * n):
        wanted, multiplier = step.copy(), 0.0
        if free.any():
            left = math.sqrt(max(radius**2 - float(step[~free] @ step[~free]), 0.0))
            residuals = linear.residuals + linear.factor[:, ~free] @ step[~free]
            wanted[free], multiplier = _within_radius(linear.factor[:, free], residuals, left)
        tried = np.clip(wanted, low, high)
        out = tried != wanted
        if not out.any():
            step = wanted
            force = linear.factor.T @ (linear.residuals + linear.factor @ step) + multiplier * step
            inward = np.where(free, 0.0, np.where(step <= low, -force, force))
            if not inward.max() > least:
                break
            free[np.argmax(inward)] = True
            continue
        if linear.gain(tried) <= linear.gain(step):  # all at once is too far: go to the wall that comes first
            shares = (tried - step)[out] / (wanted - step)[out]
            out[out] = shares <= shares.min()
            tried = np.where(out, tried, np.clip(step + shares.min() * (wanted - step), low, high))
        step = tried
        free &= ~out
    return step


def _within_radius(factor: Floats, residuals: Floats, radius: float) -> tuple[Floats, float]:
    """The best step of at most this length, and the multiplier of the length."""
    u, sizes, vt = np.linalg.svd(factor, full_matrices=False)
    used = sizes > _SMALLEST * sizes[0]
    sizes, vt = sizes[used], vt[used]
    if radius <= 0 or not len(sizes):
        return np.zeros(factor.shape[1]), 0.0
    squares, g = sizes * sizes, sizes * (u.T[used] @ residuals)
    multiplier = 0.0
    step = -g / squares  # along the axes of vt
    length = math.sqrt(float(step @ step))
    while length > radius * (1 + _CLOSE):  # Newton for 1 / length, which is concave: it never goes too far
        fall = float((step * step / (squares + multiplier)).sum())
        multiplier += (length / radius - 1) * length * length / fall
        step = -g / (squares + multiplier)
        length = math.sqrt(float(step @ step))
    found: Floats = vt.T @ step
    return found * min(1.0, radius / length) if length > 0 else found, multiplier


class Region:
    """The part of the cube of ``n`` unknowns where ``excess(point)`` (k,) has no number above zero or NaN; or all."""

    def __init__(self, excess: Callable[[Floats], Floats] | None, n: int) -> None:
        self._excess = excess or _no_limits
        tried = generator(0).random((_N_TRIED if excess else 1, n))
        numbers = np.array([self._excess(point) for point in tried])
        is_in = (numbers <= 0).all(axis=1)  # not NaN
        self._inside = tried[is_in]
        self._units = np.median(np.nan_to_num(np.abs(numbers)), axis=0) + 1e-300
        if self.is_empty:
            near = np.array([self.nearest(point) for point in tried[:_N_SOUGHT]])
            self._inside = near[[self.allows(point) for point in near]]

    @property
    def is_empty(self) -> bool:
        """Whether no point is known that is allowed."""
        return not len(self._inside)

    def allows(self, point: Floats) -> bool:
        """Whether a point may be simulated."""
        return bool((self._excess(point) <= 0).all())

    def step(self, linear: LinearModel, point: Floats, low: Floats, high: Floats, radius: float) -> Floats:
        """The best step with ``low <= step <= high``, of at most this length, to a point that is allowed."""
        step = bounded_step(linear, low, high, radius)
        if self.allows(point + step):
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
        if self.allows(point):
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
        return np.asarray(np.abs(self._scaled(point)) < _ON_EDGE)

    def _scaled(self, point: Floats) -> Floats:
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


def _no_limits(point: Floats) -> Floats:
    return np.empty(0)
