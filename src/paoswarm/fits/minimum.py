"""The minimum next to a given point: which unknowns are free there, and the quadratic model of these."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from paoswarm.core.arrays import Floats
from paoswarm.fits.fit_function import FitFunction, Meaning, Measured
from paoswarm.fits.local_model import Differences
from paoswarm.fits.settle import Problem, Settled, settle
from paoswarm.fits.step_lengths import axis_scales, is_noisy
from paoswarm.optimize.read_input import Box

_ON = 1e-9  # widths of the bounds: an unknown this close to a bound lies on it
_CLOSE = 1e-3  # widths: an unknown closer than this lies on its bound, if that is also
_SHORT = 0.02  # standard errors
_LONGER = 1e7  # how much longer than along an axis a direction may be
_AROUND = 1e6  # widths: how far away to look for an effect, if there are no bounds


class Minimum(NamedTuple):
    """A minimum; ``settled`` is None if no unknown is free."""

    x: Floats
    at: Measured
    free: NDArray[np.bool_]
    on_bound: NDArray[np.bool_]
    settled: Settled | None
    noise: float = 0.0  # standard deviation of the values, if that matters


def widths_of(box: Box, x: Floats) -> Floats:
    """The widths of the bounds; where there are none, the size of the unknown, or one if it is zero."""
    size = np.where(x == 0, 1.0, np.abs(x))
    with np.errstate(invalid="ignore"):
        return np.where(np.isfinite(box[0]) & np.isfinite(box[1]), box[1] - box[0], size)


def find_minimum(
    fun: FitFunction,
    how: Differences,
    meaning: Meaning,
    x: Floats,
    at: Measured,
    box: Box,
    *,
    moves: bool,
    known: Floats | None = None,
) -> Minimum:
    """Settle, and start again without an unknown whenever it turns out to lie on its bound.

    ``known`` are directions of about one standard error, if there are any.
    """
    widths = widths_of(box, x)
    on_bound = _room(x, box, widths) <= _ON * widths
    noise = 0.0
    if known is not None and not on_bound.any():
        found = _from_known(fun, how, meaning, x, at, box, widths, known, moves=moves)
        if found is not None:
            return found
    while not on_bound.all():
        room = _room(x, box, widths)
        scales, least, noise, at = axis_scales(fun, x, at, meaning.rise(float(at.values[0])), room, widths, ~on_bound)
        moves = moves and not noise  # with noise, a lower value may be luck
        has_effect = np.isfinite(scales)
        pressed = ~on_bound & (room < _SHORT * scales) & (room < _CLOSE * widths)
        on_bound = on_bound | pressed
        free = ~on_bound & has_effect
        if not free.any():
            return Minimum(x, at, free, on_bound, None, noise)
        problem = Problem(fun, how, meaning, box, np.minimum(_LONGER * scales, _AROUND * widths), least)
        settled = settle(problem, x, at, np.diag(np.where(free, scales, 0.0))[:, free], moves=moves)
        if not isinstance(settled, Settled):
            x, at = settled
            on_bound = on_bound | (_room(x, box, widths) <= 0)
            continue
        x, at = settled.x, settled.at
        pressed = _pressed(settled, _room(x, box, widths), widths) & ~on_bound
        if not pressed.any():
            return Minimum(x, at, free, on_bound, settled, noise)
        on_bound = on_bound | pressed
    return Minimum(x, at, ~on_bound, on_bound, None, noise)


def _from_known(
    fun: FitFunction,
    how: Differences,
    meaning: Meaning,
    x: Floats,
    at: Measured,
    box: Box,
    widths: Floats,
    basis: Floats,
    *,
    moves: bool,
) -> Minimum | None:
    """Settle with directions that are known; None if there is noise, or an unknown comes near its bound."""
    rise, room, scales = meaning.rise(float(at.values[0])), _room(x, box, widths), np.linalg.norm(basis, axis=1)
    if (room < scales).any() or is_noisy(fun, x, at, rise, room, widths):
        return None
    problem = Problem(fun, how, meaning, box, np.minimum(_LONGER * scales, _AROUND * widths), 0.0)
    settled = settle(problem, x, at, basis, moves=moves)
    if not isinstance(settled, Settled) or _pressed(settled, _room(settled.x, box, widths), widths).any():
        return None
    free = np.ones(len(x), dtype=bool)
    return Minimum(settled.x, settled.at, free, ~free, settled)


def _room(x: Floats, box: Box, widths: Floats) -> Floats:
    room: Floats = np.minimum(np.minimum(x - box[0], box[1] - x), _AROUND * widths)
    return room


def _pressed(settled: Settled, room: Floats, widths: Floats) -> NDArray[np.bool_]:
    """Unknowns whose bound is so near, compared with their standard errors, that no step could be taken."""
    curvatures, axes = np.linalg.eigh(settled.found.model.m)
    short = settled.basis @ axes[:, np.abs(curvatures) < _SHORT**2]  # one standard error is 50 times as long
    is_limited = (np.abs(short) >= 0.5 * room[:, None]).any(axis=1)
    pressed: NDArray[np.bool_] = is_limited & (room < _CLOSE * widths)
    return pressed
