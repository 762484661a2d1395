r"""Coordinates without bounds, for posteriors that lean against a bound of the prior.

A normal distribution fits badly to mass that ends at a bound. The map
:math:`y = \Phi^{-1}\big(\tfrac{1 + z}{2}\big)` takes the interval :math:`[-1, 1]` to the whole line and a uniform
distribution to a normal one. A density :math:`q_y` on the line becomes a density of :math:`z` by
:math:`dz = 2 \phi(y)\,dy`:

.. math:: q(z) = \frac{q_y(y)}{2 \phi(y)}. \tag{S13}

`choose_warped` decides from the points, without a likelihood call, which coordinates to map.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from paoswarm.core.arrays import Array, Floats, namespace, special, with_columns
from paoswarm.sampling.mixture import Density
from paoswarm.sampling.moments import weighted_variance

Mask = NDArray[np.bool_]

_GAIN = 0.1  # mean log density by which a normal distribution must fit better on the line
FARTHEST = 8.2  # beyond this y, z rounds to 1


class Warped(NamedTuple):
    """A density that lives on the line in some coordinates, as a density of ``z``."""

    density: Density
    which: Mask

    def log_density(self, z: Array) -> Array:
        """Log density at the rows of ``z``, (S13); the density is zero outside the bounds."""
        xp = namespace(z)
        inside = xp.all(abs(z[:, self.which]) < 1, axis=1)
        y = to_line(xp.where(inside[:, None], z, 0.0), self.which)
        return xp.where(inside, self.density.log_density(y) - _log_slope(y[:, self.which]).sum(axis=1), -np.inf)

    def sample(self, n: int, rng: np.random.Generator, stratified: bool = False) -> Floats:
        """``n`` draws; those that would round to a bound stay outside, where the density is zero."""
        z = self.density.sample(n, rng, stratified)
        y = z[:, self.which]
        z[:, self.which] = np.where(np.abs(y) < FARTHEST, ndtr(y) - ndtr(-y), y)
        return z


def to_line(z: Array, which: Mask) -> Array:
    """Map the coordinates selected by ``which`` from [-1, 1] to the line."""
    xp, bounded = namespace(z), z[:, which]
    tail = 0.5 * (1 - abs(bounded))  # the smaller tail: it keeps its digits near a bound
    return with_columns(z, which, xp.clip(-xp.sign(bounded) * special(z).ndtri(tail), -FARTHEST, FARTHEST))


def choose_warped(points: Floats, weights: Floats, walled: Mask) -> Mask:
    """Select the bounded coordinates in which one normal distribution fits clearly better on the line."""
    if not walled.any():
        return walled
    share = weights / weights.sum()
    y = to_line(points, walled)
    in_box = -np.log(_spread(points, share))
    on_line = -np.log(_spread(y, share))
    on_line[walled] -= share @ _log_slope(y[:, walled])
    return walled & np.asarray(on_line > in_box + _GAIN)


def _spread(points: Floats, share: Floats) -> Floats:
    """Standard deviations; never zero."""
    return np.sqrt(weighted_variance(points, share)) + 1e-300


def _log_slope(y: Array) -> Array:
    """Logarithm of dz/dy, the denominator of (S13)."""
    return math.log(2) - 0.5 * y**2 - 0.5 * math.log(2 * math.pi)
