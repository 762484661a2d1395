"""How far to step along each unknown, so that the function rises by a definite amount.

A step that is short or long compared with the bounds says nothing. What matters is how far the function rises: by too
little, and rounding and noise are all that is seen; by too much, and the function is no parabola any more.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from paoswarm.core.arrays import Floats
from paoswarm.fits.fit_function import FitFunction, Measured

STEP = 0.5  # standard errors

_FIRST = 1e-3  # widths of the bounds
_LONGER, _SHORTER = 100.0, 1e-3  # most that a step changes at once
_CLOSE = 4.0  # a rise within this factor of the wanted one will do
_MOST_TRIES = 20
_NOTHING = 1e-9  # of the wanted rise: the unknown has no effect
_HARDLY = 1e-10  # widths of the bounds: so near, a smooth function does not change
_QUIET = 1e-3  # of the rise: less noise does no harm
_ABOVE_NOISE = 100.0  # how many times the noise the function must rise
_EXACT = 1e-10  # of the rise at the first steps: the least rise to look for, if all residuals are zero

_NO_ROOM = "the function failed at points next to the minimum, however near (if there is a limit, give bounds)"


class AxisScales(NamedTuple):
    """Along each axis, how far away the function has risen by its unit; infinite where the unknown has no effect."""

    scales: Floats
    least: float  # least unit: much more than the noise; if the residuals are all zero, there is no other
    noise: float  # standard deviation of the values, if it matters, else zero
    at: Measured  # what was measured at the point, averaged if there is noise


def axis_scales(
    fun: FitFunction, x: Floats, at: Measured, rise: float, room: Floats, widths: Floats, free: NDArray[np.bool_]
) -> AxisScales:
    """Find the steps ``h`` at which ``(f(x + h) + f(x - h)) / 2 - f(x)`` is about ``STEP**2`` times ``rise``.

    The mean of both sides does not depend on the slope. ``room`` (d,) is how far an unknown may be moved to both sides.
    All free axes are probed together, so that workers share the points.
    """
    axes = np.flatnonzero(free)
    h = np.minimum(_FIRST * widths, room)[axes]
    found, longest = np.full(len(axes), np.nan), room[axes]  # `longest` shrinks where points fail
    noise, repeated = _noise(fun, x, at, room, widths)
    bend = _bend(fun, x, at, axes, h)
    least = _EXACT * float(np.nanmedian(np.abs(bend))) if np.isfinite(bend).any() else 0.0
    if noise > _QUIET * max(rise, least):
        at, least = repeated, max(least, _ABOVE_NOISE * noise)
        bend = _bend(fun, x, at, axes, h)
    else:
        noise = 0.0
    wanted = STEP**2 * max(rise, least, np.finfo(float).tiny)
    for attempt in range(_MOST_TRIES):
        open_ = np.flatnonzero(np.isnan(found))
        if not len(open_):
            break
        bend = bend if attempt == 0 else _bend(fun, x, at, axes[open_], h[open_])
        for k, b in zip(open_.tolist(), bend.tolist(), strict=True):
            if np.isnan(b):  # a point failed: stay nearer
                longest[k] = h[k] / 2
                h[k] /= 10
                continue
            ratio = abs(b) / wanted
            factor = min(max(ratio**-0.5, _SHORTER), _LONGER) if ratio > 0 else _LONGER
            is_last = attempt == _MOST_TRIES - 1 or (ratio < 1 and h[k] >= longest[k])
            if is_last and ratio <= _NOTHING and longest[k] < room[axes[k]]:
                raise fun.explain_failure(_NO_ROOM)
            if 1 / _CLOSE <= ratio <= _CLOSE or is_last:
                found[k] = h[k] / STEP * ratio**-0.5 if ratio > _NOTHING else np.inf
            else:
                h[k] = min(h[k] * factor, longest[k])
    if np.isnan(found).any():
        raise fun.explain_failure(_NO_ROOM)
    scales = np.full(len(x), np.inf)
    scales[axes] = found
    return AxisScales(scales, least, noise, at)


def is_noisy(fun: FitFunction, x: Floats, at: Measured, rise: float, room: Floats, widths: Floats) -> bool:
    """Whether the values are so noisy that it matters."""
    return _noise(fun, x, at, room, widths)[0] > _QUIET * rise


def _noise(fun: FitFunction, x: Floats, at: Measured, room: Floats, widths: Floats) -> tuple[float, Measured]:
    """Standard deviation of values at points that are hardly different, and the mean of what was measured there.

    Slopes do not matter, because the points are pairs with ``x`` in the middle. That one is not part of the mean: it
    was chosen for its low value.
    """
    hardly = np.where(room > _HARDLY * widths, _HARDLY * widths, 0.0)
    signs = np.array([np.ones(len(x)), np.where(np.arange(len(x)) % 2, 1, -1)])
    probes = fun(np.concatenate([x + hardly * signs, x - hardly * signs]))
    if np.isnan(probes.values).any():
        return 0.0, at
    second = probes.values.reshape(2, -1).sum(axis=0) - 2 * at.values[0]
    residuals = None if probes.residuals is None else probes.residuals.mean(axis=0, keepdims=True)
    return float(np.sqrt((second**2).mean() / 6)), Measured(probes.values.mean(keepdims=True), residuals)


def _bend(fun: FitFunction, x: Floats, at: Measured, axes: NDArray[np.int64], h: Floats) -> Floats:
    """The mean rise of both sides along each axis; NaN if one of them failed."""
    steps = np.zeros((len(axes), len(x)))
    steps[np.arange(len(axes)), axes] = h
    values = fun(np.concatenate([x + steps, x - steps])).values.reshape(2, -1)
    bend: Floats = values.mean(axis=0) - at.values[0]
    return bend
