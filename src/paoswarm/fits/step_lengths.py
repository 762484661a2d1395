"""How far to step along each unknown, so that the function rises by a definite amount.

A step that is short or long compared with the bounds says nothing. What matters is how far the function rises: by too
little, and rounding and noise are all that is seen; by too much, and the function is no parabola any more.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from paoswarm.core.arrays import Floats
from paoswarm.fits.fit_function import FitFunction

STEP = 0.5  # standard errors

_FIRST = 1e-3  # widths of the bounds
_LONGER, _SHORTER = 100.0, 1e-3  # most that a step changes at once
_CLOSE = 4.0  # a rise within this factor of the wanted one will do
_MOST_TRIES = 20
_NOTHING = 1e-9  # of the wanted rise: the unknown has no effect
_EXACT = 1e-10  # of the rise at the first steps: the least rise to look for, if all residuals are zero


class AxisScales(NamedTuple):
    """Along each axis, how far away the function has risen by its unit; infinite where the unknown has no effect."""

    scales: Floats
    least: float  # least unit: if the residuals are all zero, there is no other


def axis_scales(
    fun: FitFunction, x: Floats, value: float, rise: float, room: Floats, widths: Floats, free: NDArray[np.bool_]
) -> AxisScales:
    """Find the steps ``h`` at which ``(f(x + h) + f(x - h)) / 2 - f(x)`` is about ``STEP**2`` times ``rise``.

    The mean of both sides does not depend on the slope. ``room`` (d,) is how far an unknown may be moved to both sides.
    All free axes are probed together, so that workers share the points.
    """
    axes = np.flatnonzero(free)
    h = np.minimum(_FIRST * widths, room)[axes]
    least = 0.0
    found, longest = np.full(len(axes), np.nan), room[axes]  # `longest` shrinks where points fail
    for attempt in range(_MOST_TRIES):
        open_ = np.flatnonzero(np.isnan(found))
        if not len(open_):
            break
        bend = _bend(fun, x, value, axes[open_], h[open_])
        if attempt == 0 and np.isfinite(bend).any():
            least = _EXACT * float(np.nanmedian(np.abs(bend)))
        wanted = STEP**2 * max(rise, least, np.finfo(float).tiny)
        for k, b in zip(open_.tolist(), bend.tolist(), strict=True):
            if np.isnan(b):  # a point failed: stay nearer
                longest[k] = h[k] / 2
                h[k] /= 10
                continue
            ratio = abs(b) / wanted
            factor = min(max(ratio**-0.5, _SHORTER), _LONGER) if ratio > 0 else _LONGER
            is_last = attempt == _MOST_TRIES - 1 or (ratio < 1 and h[k] >= longest[k])
            if 1 / _CLOSE <= ratio <= _CLOSE or is_last:
                found[k] = h[k] / STEP * ratio**-0.5 if ratio > _NOTHING else np.inf
            else:
                h[k] = min(h[k] * factor, longest[k])
    if np.isnan(found).any():
        raise fun.explain_failure("the function failed at points next to the minimum, however near")
    scales = np.full(len(x), np.inf)
    scales[axes] = found
    return AxisScales(scales, least)


def _bend(fun: FitFunction, x: Floats, value: float, axes: NDArray[np.int64], h: Floats) -> Floats:
    """The mean rise of both sides along each axis; NaN if one of them failed."""
    steps = np.zeros((len(axes), len(x)))
    steps[np.arange(len(axes)), axes] = h
    values = fun(np.concatenate([x + steps, x - steps])).values.reshape(2, -1)
    bend: Floats = values.mean(axis=0) - value
    return bend
