"""A look around the point at which a swarm has come to rest: a minimum, or a place where it has only contracted.

Two rounds, ``2 d + 4`` points: a step to both sides along every axis, then steps against the slope that these show.
Where a valley is so narrow that every step along an axis leads uphill, both sides rise alike, and what remains in their
difference is the slope of the valley's floor. The steps are long enough that rounding does not matter, and so short
that other minima are rarely reached.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paoswarm.core.arrays import Floats
from paoswarm.optimize.convergence import Rule
from paoswarm.optimize.read_input import Box

_STEP = 1e-4  # widths of the bounds
_DOWNHILL = np.array([0.01, 0.1, 1.0, 10.0])  # steps of that length
_RISE, _ROUNDING = 1e-6, 1e-12  # a gain must be more than these shares of the largest rise and of the value


_FINE = 1e-7  # of a swarm that has stopped farther from the minimum than this, the steps would find better points


def cost(n_unknowns: int) -> int:
    """How many evaluations it takes."""
    return 2 * n_unknowns + len(_DOWNHILL)


def is_worth_it(rule: Any, tol: float) -> Any:
    """Whether a run that has converged by a `Rule` claims to be close enough to a minimum to be examined."""
    return (rule == Rule.VALUES) | (rule == Rule.PATIENCE) | ((rule == Rule.SPREAD) & (tol <= _FINE))


def look(x: Floats, best: Floats, widths: Floats, allowed: Box) -> Generator[Floats, Floats, NDArray[np.bool_]]:
    """Yield points ``(k, m, d)`` around each of the points ``x`` (k, d), be sent their values, and do so again.

    Values that are not known are NaN or infinite. Return whether one around each point is clearly better than ``best``
    (k,), its own value.
    """
    points = _along_axes(x, widths, allowed)
    values = yield points
    more = yield _downhill(x, points, values, widths, allowed)
    values = np.concatenate([values, more], axis=-1)
    known = np.where(np.isfinite(values), values, best[:, None])
    with np.errstate(over="ignore"):
        rise = known.max(axis=-1) - best
        return best - known.min(axis=-1) > _RISE * rise + _ROUNDING * np.abs(best)


def _along_axes(x: Floats, widths: Floats, allowed: Box) -> Floats:
    """Points ``(k, 2 d, d)`` on both sides of each point."""
    steps = np.diag(_STEP * widths)
    return np.clip(x[:, None, :] + np.concatenate([steps, -steps]), *allowed)


def _downhill(x: Floats, points: Floats, values: Floats, widths: Floats, allowed: Box) -> Floats:
    """Points ``(k, 4, d)`` against the slope that the values along the axes show."""
    d = x.shape[-1]
    right, left = (np.diagonal(side, axis1=1, axis2=2) for side in (points[:, :d], points[:, d:]))
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        slope = (values[:, :d] - values[:, d:]) / ((right - left) / widths)
    slope = np.where(np.isfinite(slope), slope, 0.0)  # nothing is known where a point failed
    slope = slope / np.maximum(np.abs(slope).max(axis=-1, keepdims=True), np.finfo(float).tiny)
    length = np.sqrt((slope * slope).sum(axis=-1, keepdims=True))
    direction = slope / np.where(length > 0, length, 1.0)
    return np.clip(x[:, None, :] - _STEP * _DOWNHILL[:, None] * (direction * widths)[:, None, :], *allowed)
