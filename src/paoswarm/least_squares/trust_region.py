r"""The step of Gauss and Newton within a box and a radius.

.. math:: \min_s |r + J s|^2, \qquad |s| \le D, \quad l \le s \le h                                      \tag{F3}

With a triangular factor of :math:`[J \; r]` it does not matter how many data there are. With a multiplier
:math:`\lambda` of the radius (Levenberg 1944, Marquardt 1963) the best step of the unknowns that are not on a wall is
:math:`s = -(J' J + \lambda)^{-1} J' r`. Unknowns that would leave the box are put on its wall; one whose force
:math:`J' (r + J s) + \lambda s` pulls it inside is set free again. Every round makes the sum of squares smaller, so the
last one is the minimum.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from paoswarm.core.arrays import Floats

_SMALLEST = 1e-14  # of singular values, relative to the largest: below it there is only rounding
_CLOSE = 1e-9  # relative error of the length
_MOST_ROUNDS = 4  # times n; in ten thousand random problems of 1 to 12 unknowns it took at most 2 n
_NO_FORCE = 1e-12  # relative to the gradient


class Linear(NamedTuple):
    """A linear model of residuals: ``|r + J s|^2 = |q + R s|^2 + rest``."""

    factor: Floats  # (k, n), R
    residuals: Floats  # (k,), q

    @classmethod
    def of(cls, residuals: Floats, slope: Floats) -> Linear:
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


def bounded_step(linear: Linear, low: Floats, high: Floats, radius: float) -> Floats:
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
