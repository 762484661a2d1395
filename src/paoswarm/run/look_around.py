"""A look around the point at which a swarm has come to rest: a minimum, or a place where it has only contracted.

Two rounds, ``2 d + 4`` points: a step to both sides along every axis, then steps against the slope that these show.
Along a whole number the step is one, and of a choice every entry is tried.
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
from paoswarm.core.walls import Axes
from paoswarm.run.read_input import Box
from paoswarm.run.stopping import Rule

_STEP = 1e-4  # widths of the bounds
_DOWNHILL = np.array([0.01, 0.1, 1.0, 10.0])  # steps of that length
_RISE, _ROUNDING = 1e-6, 1e-12  # a gain must be more than these shares of the largest rise and of the value


_FINE = 1e-7  # of a swarm that has stopped farther from the minimum than this, the steps would find better points


def cost(n_unknowns: int, axes: Axes | None = None) -> int:
    """How many evaluations it takes."""
    if axes is None:
        return 2 * n_unknowns + len(_DOWNHILL)
    entries = sum(last - first for first, last in axes.choices)
    return 2 * (n_unknowns - entries) + entries + (len(_DOWNHILL) if axes.is_continuous.any() else 0)


def is_worth_it(rule: Any, tol: float) -> Any:
    """Whether a run that has converged by a `Rule` claims to be close enough to a minimum to be examined."""
    return (rule == Rule.VALUES) | (rule == Rule.PATIENCE) | ((rule == Rule.SPREAD) & (tol <= _FINE))


def look(
    x: Floats, best: Floats, widths: Floats, allowed: Box, axes: Axes | None = None
) -> Generator[Floats, Floats, NDArray[np.bool_]]:
    """Yield points ``(k, m, d)`` around each of the points ``x`` (k, d), be sent their values, and do so again.

    Values that are not known are NaN or infinite. Return whether one around each point is clearly better than ``best``
    (k,), its own value.
    """
    line = _ordered(x.shape[-1], axes)
    points = _along_axes(x, widths, allowed, axes, line)
    values = yield points
    if axes is None or axes.is_continuous.any():
        more = yield _downhill(x, points, values, widths, allowed, axes, line)
        values = np.concatenate([values, more], axis=-1)
    known = np.where(np.isfinite(values), values, best[:, None])
    with np.errstate(over="ignore"):
        rise = known.max(axis=-1) - best
        return best - known.min(axis=-1) > _RISE * rise + _ROUNDING * np.abs(best)


def _ordered(d: int, axes: Axes | None) -> Any:
    """The coordinates along which there are steps: all but those of choices."""
    is_entry = np.zeros(d, dtype=bool)
    for first, last in () if axes is None else axes.choices:
        is_entry[first:last] = True
    return np.flatnonzero(~is_entry)


def _along_axes(x: Floats, widths: Floats, allowed: Box, axes: Axes | None, line: Any) -> Floats:
    """Points ``(k, m, d)`` on both sides of each point along the coordinates ``line``, then other choices."""
    lengths = _STEP * widths
    if axes is not None:
        lengths = np.where(axes.is_whole, 1.0, lengths)
    steps = np.diag(lengths)[line]
    points = _clipped(x[:, None, :] + np.concatenate([steps, -steps]), allowed, axes)
    others = []
    for first, last in () if axes is None else axes.choices:
        chosen = np.repeat(x[:, None, :], last - first, axis=1)
        chosen[:, :, first:last] = np.eye(last - first)
        others.append(chosen)
    return np.concatenate([points, *others], axis=1)


def _downhill(
    x: Floats, points: Floats, values: Floats, widths: Floats, allowed: Box, axes: Axes | None, line: Any
) -> Floats:
    """Points ``(k, 4, d)`` against the slope that the values along the axes show."""
    m = len(line)
    right, left = (np.diagonal(side[..., line], axis1=1, axis2=2) for side in (points[:, :m], points[:, m : 2 * m]))
    slope = np.zeros_like(x)
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        slope[:, line] = (values[:, :m] - values[:, m : 2 * m]) / ((right - left) / widths[line])
    if axes is not None:
        slope = np.where(axes.is_continuous, slope, 0.0)
    slope = np.where(np.isfinite(slope), slope, 0.0)  # nothing is known where a point failed
    slope = slope / np.maximum(np.abs(slope).max(axis=-1, keepdims=True), np.finfo(float).tiny)
    length = np.sqrt((slope * slope).sum(axis=-1, keepdims=True))
    direction = slope / np.where(length > 0, length, 1.0)
    steps = _STEP * _DOWNHILL[:, None] * (direction * widths)[:, None, :]
    return _clipped(x[:, None, :] - steps, allowed, axes)


def _clipped(points: Floats, allowed: Box, axes: Axes | None) -> Floats:
    inside: Floats = np.clip(points, *allowed)
    return inside if axes is None else axes.wrapped(points, inside, *allowed)
