"""The minimum next to a point: which unknowns are free there, the quadratic model of these, and the covariance."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from paoswarm.core.arrays import Floats
from paoswarm.fitting.derivatives import (
    STEP,
    Extrapolated,
    FitFunction,
    LocalFit,
    Meaning,
    Site,
    axis_scales,
    extrapolated,
    measured,
)
from paoswarm.run.read_input import Box

_MOST_PASSES = 6
_NARROWEST = 1e-3  # a direction is lengthened by at most its inverse square root at once
_ALIKE = 1.5  # directions whose lengths are right within this factor need no new basis
_STILL = 0.02  # steps: a shorter Newton step is not taken
_LONGEST = 2.0  # standard errors: a longer Newton step is shortened
_SHARES = np.array([1.0, 0.5, 0.2, 0.05, 0.01])  # of a Newton step, all of them tried
_ON = 1e-9  # widths of the bounds: an unknown this close to a bound lies on it
_CLOSE = 1e-3  # widths: an unknown closer than this lies on its bound, if that is also
_SHORT = 0.02  # standard errors
_LONGER = 1e7  # how much longer than along an axis a direction may be
_AROUND = 1e6  # widths: how far away to look for an effect, if there are no bounds
_AFFECTED = 0.1  # standard errors
_WEAK, _FLAT = 4e-4, 1e-10  # curvatures: worth a doubt; cannot be told from zero
_MOST_ROUNDS, _PATIENT_ROUNDS = 10, 5  # with any step, and with the first one


def settle(fit: LocalFit, x: Floats, at: float, basis: Floats, *, moves: bool) -> tuple[Site, Extrapolated | None]:
    """Alternate between a better basis and Newton steps, until neither changes anything; then extrapolate.

    The columns of ``basis`` are the directions to begin with, of about one standard error each.
    If a Newton step ends on a bound, there is no model: the unknown is not free any more.
    """
    place, h = Site(x, at, basis, fit.rise(at)), STEP
    for left in reversed(range(_MOST_PASSES)):
        place, first = _even_out(fit, place, h, moves=moves)
        if first is None:
            return place, None
        found = extrapolated(fit, place, first)
        h = found.step
        moved = _move(fit, place, newton_step(found.m, found.g), h) if moves and left else place
        if not left or (moved is place and not found.is_halved):
            break
        place = moved
    return place, found


def _move(fit: LocalFit, place: Site, step: Floats, h: float) -> Site:
    """The lowest point along a Newton step, or the same place if none is lower.

    A step is not worth it if it is short compared with that of the differences, ``h``.
    """
    length = float(np.linalg.norm(step))
    if length <= _STILL * h:
        return place
    shares = _SHARES[:, None] * min(1.0, _LONGEST / length)
    points = np.clip(place.x + shares * (place.basis @ step), *fit.box)
    tried = fit.fun(points)
    values = np.where(np.isnan(tried), np.inf, tried)
    best = int(values.argmin())
    if not values[best] < place.at:
        return place
    at = float(values[best])
    rise = fit.rise(at)
    return Site(points[best], at, place.basis * np.sqrt(rise / place.rise), rise)


def _even_out(fit: LocalFit, place: Site, h: float, *, moves: bool) -> tuple[Site, tuple[Floats, float] | None]:
    """Change the basis and take Newton steps until neither helps; return the last derivatives, and their step.

    None if a step has ended on a bound. If it takes long, the function is far from a parabola: shorter steps follow.
    """
    for left in reversed(range(_MOST_ROUNDS)):
        room = fit.room(place.x)
        if (room <= 0)[np.abs(place.basis).max(axis=1) > 0].any():
            return place, None
        place = place._replace(basis=place.basis * np.minimum(1.0, _reach(place.basis, room)))
        first = measured(fit, place, h)
        m, g = first[0][:-1], first[0][-1]
        curvatures, turn = np.linalg.eigh(m)
        turned = place.basis @ turn
        factors = np.minimum(np.maximum(np.abs(curvatures), _NARROWEST) ** -0.5, _reach(turned, room))
        is_even = bool((np.maximum(factors, 1 / factors) < _ALIKE).all())
        moved = _move(fit, place, newton_step(m, g), first[1]) if moves and left else place
        if not left or (is_even and moved is place):
            break
        if not is_even:
            moved = moved._replace(basis=turned * factors * np.sqrt(moved.rise / place.rise))
        place = moved
        if left < _MOST_ROUNDS - _PATIENT_ROUNDS:
            h /= 2
    return place, first


def newton_step(m: Floats, g: Floats) -> Floats:
    """The step to the model's minimum; along directions that curve downwards, downhill."""
    curvatures, axes = np.linalg.eigh(m)
    step: Floats = -axes @ ((axes.T @ g) / np.maximum(np.abs(curvatures), _NARROWEST))
    return step


def _reach(basis: Floats, room: Floats) -> Floats:
    """How many times each direction can be followed until it leaves the room."""
    with np.errstate(divide="ignore", invalid="ignore"):
        times = np.where(basis == 0, np.inf, room[:, None] / np.abs(basis))
    shortest: Floats = times.min(axis=0)
    return shortest


class Minimum(NamedTuple):
    """A minimum; without directions and model if no unknown is free."""

    x: Floats
    at: float
    free: NDArray[np.bool_]
    on_bound: NDArray[np.bool_]
    noise: float = 0.0  # standard deviation of the values, if that matters
    place: Site | None = None
    model: Extrapolated | None = None


def widths_of(box: Box, x: Floats) -> Floats:
    """The widths of the bounds; where there are none, the size of the unknown, or one if it is zero."""
    size = np.where(x == 0, 1.0, np.abs(x))
    with np.errstate(invalid="ignore"):
        return np.where(np.isfinite(box[0]) & np.isfinite(box[1]), box[1] - box[0], size)


def find_minimum(
    fun: FitFunction, meaning: Meaning, x: Floats, at: float, box: Box, *, moves: bool, known: Floats | None = None
) -> Minimum:
    """Settle, and start again without an unknown whenever it turns out to lie on its bound.

    ``known`` are directions of about one standard error, if there are any.
    """
    widths, noise = widths_of(box, x), 0.0
    fit = LocalFit(fun, meaning, box, widths, _AROUND * widths)
    on_bound = fit.room(x) <= _ON * widths
    if known is not None and not on_bound.any() and (found := _from_known(fit, x, at, known, moves)):
        return found
    while not on_bound.all():
        room = fit.room(x)
        scales, least, noise, at = axis_scales(fit, x, at, ~on_bound)
        moves = moves and not noise  # with noise, a lower value may be luck
        has_effect = np.isfinite(scales)
        pressed = ~on_bound & (room < _SHORT * scales) & (room < _CLOSE * widths)
        on_bound = on_bound | pressed
        free = ~on_bound & has_effect
        if not free.any():
            return Minimum(x, at, free, on_bound, noise)
        shorter = fit._replace(farthest=np.minimum(_LONGER * scales, fit.farthest), least=least)
        place, model = settle(shorter, x, at, np.diag(np.where(free, scales, 0.0))[:, free], moves=moves)
        x, at = place.x, place.at
        if model is None:
            on_bound = on_bound | (fit.room(x) <= 0)
            continue
        pressed = _pressed(place, model, fit) & ~on_bound
        if not pressed.any():
            return Minimum(x, at, free, on_bound, noise, place, model)
        on_bound = on_bound | pressed
    return Minimum(x, at, ~on_bound, on_bound, noise)


def _from_known(fit: LocalFit, x: Floats, at: float, basis: Floats, moves: bool) -> Minimum | None:
    """Settle with directions that are known; None if there is noise, or an unknown comes near its bound."""
    scales = np.linalg.norm(basis, axis=1)
    if (fit.room(x) < scales).any() or fit.is_noisy(x, at):
        return None
    shorter = fit._replace(farthest=np.minimum(_LONGER * scales, fit.farthest))
    place, model = settle(shorter, x, at, basis, moves=moves)
    if model is None or _pressed(place, model, fit).any():
        return None
    free = np.ones(len(x), dtype=bool)
    return Minimum(place.x, place.at, free, ~free, 0.0, place, model)


def _pressed(place: Site, model: Extrapolated, fit: LocalFit) -> NDArray[np.bool_]:
    """Unknowns whose bound is so near, compared with their standard errors, that no step could be taken."""
    room = fit.room(place.x)
    curvatures, axes = np.linalg.eigh(model.m)
    short = place.basis @ axes[:, np.abs(curvatures) < _SHORT**2]  # one standard error is 50 times as long
    is_limited = (np.abs(short) >= 0.5 * room[:, None]).any(axis=1)
    pressed: NDArray[np.bool_] = is_limited & (room < _CLOSE * fit.widths)
    return pressed


class Covariance(NamedTuple):
    """The covariance, and directions in which there is none."""

    matrix: Floats  # (d, d)
    root: Floats  # (d, k): the covariance is this times its transpose
    standard_errors: Floats  # (d,)
    hessian: Floats  # (d, d)
    flat: Floats  # (d, j): directions in which the function does not change
    downhill: Floats  # (d, j): directions in which it falls


def covariance_of(place: Site, model: Extrapolated, unit: float) -> Covariance:
    """The covariance ``B inv(M) B'``, scaled to a function that rises by ``unit`` one standard error away.

    Directions that are flat, or lead downhill, are left out. The unknowns that they move have infinite errors, or none.
    """
    basis, m, apart = place.basis, model.m, model.disagreement
    d = len(basis)
    curvatures, axes = np.linalg.eigh(m)
    doubt = np.einsum("ji,jk,ki->i", np.abs(axes), apart, np.abs(axes))
    is_flat = (np.abs(curvatures) < _WEAK) & (np.abs(curvatures) <= 3 * doubt + _FLAT)
    is_good = ~is_flat & (curvatures > 0)
    unscaled = basis @ axes
    directions = unscaled / np.sqrt(np.maximum(np.abs(curvatures), _FLAT))
    root = directions[:, is_good] * np.sqrt(unit / place.rise)
    matrix = root @ root.T
    errors = np.sqrt(np.diag(matrix))
    free = np.abs(basis).max(axis=1) > 0
    hessian = np.full((d, d), np.nan)
    inverse = np.linalg.inv(basis[free])
    hessian[np.ix_(free, free)] = 2 * place.rise * inverse.T @ m @ inverse
    is_downhill = ~is_flat & ~is_good
    for is_left_out, instead in ((is_downhill, np.nan), (is_flat, np.inf)):
        if is_left_out.any():
            affected = (np.abs(directions[:, is_left_out]) > _AFFECTED * errors[:, None]).any(axis=1) & free
            errors = np.where(affected, instead, errors)
    errors = np.where(free, errors, np.nan)
    known = np.isfinite(errors)
    matrix = np.where(known[:, None] & known, matrix, np.nan)
    np.fill_diagonal(matrix, errors**2)
    return Covariance(matrix, root, errors, (hessian + hessian.T) / 2, unscaled[:, is_flat], unscaled[:, is_downhill])
