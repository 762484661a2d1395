r"""Periodic coordinates, and densities wrapped around them.

A density :math:`\varphi` on the line becomes a density on the circle by summing its images,

.. math:: \sum_s \varphi(z + s), \tag{S12}

over the present turn and its two neighbours. A draw on any other turn counts as a draw outside the circle. The sum is
then exactly the density of the draws on the circle, and it integrates to the probability of the three turns.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from paoswarm.core.arrays import Array, Floats, namespace
from paoswarm.sampling.mixture import Density


class Circle(NamedTuple):
    """Which coordinates are periodic; each circle is centred at zero.

    Attributes
    ----------
    width : array (d,)
        Circumference of each coordinate; infinite if it is not periodic.
    shifts : array (r, d)
        Shifts to the images; r is 3 to the power of the number of circles.
    """

    width: Floats
    shifts: Floats

    @classmethod
    def of(cls, width: Floats) -> Circle:
        """Make circles with the given circumferences (d,)."""
        turns = [(-w, 0.0, w) if np.isfinite(w) else (0.0,) for w in width]
        return cls(np.asarray(width), np.stack(np.meshgrid(*turns, indexing="ij"), axis=-1).reshape(-1, len(width)))

    def wrap(self, y: Array) -> Array:
        """Move points onto the circle; NaN for points on a turn without an image."""
        return namespace(y).where(self.has_image(y)[:, None], self.nearest(y), np.nan)

    def has_image(self, y: Array) -> Array:
        """Whether each point lies on a turn that has an image, ``(n,)``."""
        return namespace(y).all(abs(self._turns(y)) <= 1, axis=1)

    def nearest(self, y: Array) -> Array:
        """Move points onto the circle, from any turn."""
        return y - self._turns(y) * np.where(np.isfinite(self.width), self.width, 0.0)

    def gathered(self, z: Floats, weights: Floats) -> Floats:
        """Shift every periodic coordinate by whole turns to within half a turn of its weighted circular mean."""
        is_round = np.isfinite(self.width)
        angle = 2 * np.pi / np.where(is_round, self.width, 1.0)
        centre = np.where(is_round, np.angle(weights @ np.exp(1j * angle * z)) / angle, 0.0)
        return self.nearest(z - centre) + centre

    def _turns(self, y: Array) -> Array:
        """Number of whole turns of each coordinate; zero if it is not periodic."""
        xp, is_round = namespace(y), np.isfinite(self.width)
        return xp.where(is_round, xp.round(y / np.where(is_round, self.width, 1.0)), 0.0)


class Wrapped(NamedTuple):
    """A density wrapped around a circle.

    Draws on turns without images stay off the circle. The prior is zero there, so their weight is zero.
    """

    density: Density
    circle: Circle

    def log_density(self, z: Array) -> Array:
        """Log density at points of the circle, (S12)."""
        xp = namespace(z)
        total = xp.full(len(z), -np.inf)
        for shift in self.circle.shifts:
            total = xp.logaddexp(total, self.density.log_density(z + shift))
        return total

    def sample(self, n: int, rng: np.random.Generator, stratified: bool = False) -> Floats:
        """``n`` draws; those on turns without images stay off the circle."""
        y = self.density.sample(n, rng, stratified)
        return np.where(self.circle.has_image(y)[:, None], self.circle.nearest(y), y)
