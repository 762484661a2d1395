r"""Coordinates without walls, for posteriors that lean against one.

A normal law fits badly to mass that ends at a wall. On the line :math:`y = \Phi^{-1}\big(\tfrac{1 + z}{2}\big)` the
interval :math:`[-1, 1]` has no ends and a uniform law is normal; a density of :math:`y` is one of :math:`z` after
:math:`dz = 2 \phi(y)\,dy`. Which coordinates are better fitted there is seen from the points, at no cost.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from paoswarm.core.arrays import Floats
from paoswarm.sampling.mixture import Density

Mask = NDArray[np.bool_]

_GAIN = 0.1  # mean log density by which a normal law must fit better on the line
_FARTHEST = 8.2  # beyond, z is 1 to the last bit


class Warped(NamedTuple):
    """A density on the line in some coordinates, as a density of ``z``."""

    density: Density
    which: Mask

    def log_density(self, z: Floats) -> Floats:
        """Log density at the rows of ``z``, zero density outside the walls."""
        inside = np.asarray((np.abs(z[:, self.which]) < 1).all(axis=1))
        y = to_line(np.where(inside[:, None], z, 0.0), self.which)
        return np.where(inside, self.density.log_density(y) - _log_slope(y[:, self.which]).sum(axis=1), -np.inf)

    def sample(self, n: int, rng: np.random.Generator, stratified: bool = False) -> Floats:
        """``n`` draws; what would round to a wall is left outside, where the density is zero as well."""
        z = self.density.sample(n, rng, stratified)
        y = z[:, self.which]
        z[:, self.which] = np.where(np.abs(y) < _FARTHEST, ndtr(y) - ndtr(-y), y)
        return z


def to_line(z: Floats, which: Mask) -> Floats:
    """The points with the coordinates in question mapped from [-1, 1] to the line."""
    y = z.copy()
    nearest = 0.5 * (1 - np.abs(z[:, which]))  # to a wall: the tail that keeps its digits
    y[:, which] = np.clip(-np.sign(z[:, which]) * ndtri(nearest), -_FARTHEST, _FARTHEST)
    return y


def choose_warped(points: Floats, weights: Floats, walled: Mask) -> Mask:
    """The walled coordinates in which one normal law fits the weighted points clearly better on the line."""
    if not walled.any():
        return walled
    share = weights / weights.sum()
    y = to_line(points, walled)
    straight = -np.log(_spread(points, share))
    bent = -np.log(_spread(y, share))
    bent[walled] -= share @ _log_slope(y[:, walled])
    return walled & np.asarray(bent > straight + _GAIN)


def _spread(points: Floats, share: Floats) -> Floats:
    return np.sqrt(share @ (points - share @ points) ** 2) + 1e-300


def _log_slope(y: Floats) -> Floats:
    """Logarithm of dz/dy."""
    return math.log(2) - 0.5 * y**2 - 0.5 * math.log(2 * math.pi)
