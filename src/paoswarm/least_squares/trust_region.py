r"""The step of Gauss and Newton within a box and a radius.

.. math:: \min_s |r + J s|^2, \qquad |s| \le D, \quad l \le s \le h                                      \tag{F3}

With a triangular factor of :math:`[J \; r]` it does not matter how many data there are. The multiplier of the radius is
found by bisection (Levenberg 1944, Marquardt 1963); unknowns that leave the box are put on its wall, and the others are
solved for again.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from paoswarm.core.arrays import Floats

_SMALLEST = 1e-14  # of singular values, relative to the largest: below it there is only rounding
_CLOSE = 1.05  # factor within which the multiplier is found


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
    step, free, left = np.zeros(n), np.ones(n, dtype=bool), radius
    for _ in range(n + 1):
        if not free.any() or left <= 0:
            break
        residuals = linear.residuals + linear.factor[:, ~free] @ step[~free]
        part = _within_radius(linear.factor[:, free], residuals, left)
        if part is None:
            break
        step[free] = part
        out = free & ((step < low) | (step > high))
        if not out.any():
            break
        step[out] = np.clip(step[out], low[out], high[out])
        free &= ~out
        left = math.sqrt(max(radius**2 - float((step[~free] ** 2).sum()), 0.0))
        step[free] = 0
    return step


def _within_radius(factor: Floats, residuals: Floats, radius: float) -> Floats | None:
    """The best step of at most this length; None if nothing changes along any."""
    u, sizes, vt = np.linalg.svd(factor, full_matrices=False)
    if not sizes[0] > 0:
        return None
    sizes = np.maximum(sizes, _SMALLEST * sizes[0])
    g = sizes * (u.T @ residuals)

    def at(multiplier: float) -> Floats:
        return -(g / (sizes * sizes + multiplier))  # along the axes of vt

    step = at(0.0)
    if np.linalg.norm(step) > radius:
        high = float(np.linalg.norm(g)) / radius + 1e-300
        low = high * 1e-20
        while high > low * _CLOSE:
            middle = math.sqrt(low * high)
            low, high = (middle, high) if np.linalg.norm(at(middle)) > radius else (low, middle)
        step = at(high)
    found: Floats = vt.T @ step
    return found
