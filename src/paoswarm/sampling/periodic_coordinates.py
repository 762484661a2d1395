r"""Periodic coordinates, and densities wrapped on them.

A density :math:`\varphi` on the line becomes one on the circle by adding up its images,
:math:`\sum_s \varphi(z + s)`. Only the present turn and the two beside it have images. What is drawn on other turns
counts as drawn outside: the sum is then exactly the density of what is drawn on the circle, and integrates to the
probability of the turns that have images.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from paoswarm.core.arrays import Floats
from paoswarm.sampling.mixture import Density


class Circle(NamedTuple):
    r"""Periodic coordinates, centred at zero.

    Attributes
    ----------
    width : array (d,)
        Circumference of each coordinate; infinite where it is a line.
    shifts : array (r, d)
        The images, r = 3 to the number of circles.
    """

    width: Floats
    shifts: Floats

    @classmethod
    def of(cls, width: Floats) -> Circle:
        """Circles with the given circumferences (d,)."""
        turns = [(-w, 0.0, w) if np.isfinite(w) else (0.0,) for w in width]
        return cls(np.asarray(width), np.stack(np.meshgrid(*turns, indexing="ij"), axis=-1).reshape(-1, len(width)))

    def wrap(self, y: Floats) -> Floats:
        """The points on the circle; NaN for those on a turn that has no image, which the reference does not know of."""
        return np.where(self.knows(y)[:, None], self.nearest(y), np.nan)

    def knows(self, y: Floats) -> NDArray[np.bool_]:
        """Whether the points lie on turns that have images, ``(n,)``."""
        known: NDArray[np.bool_] = np.all(np.abs(self._turns(y)) <= 1, axis=1)
        return known

    def nearest(self, y: Floats) -> Floats:
        """The points on the circle, whatever their turn."""
        return y - self._turns(y) * np.where(np.isfinite(self.width), self.width, 0.0)

    def gathered(self, z: Floats, weights: Floats) -> Floats:
        """The points with every periodic coordinate within half a turn of its weighted mean on the circle."""
        is_round = np.isfinite(self.width)
        angle = 2 * np.pi / np.where(is_round, self.width, 1.0)
        centre = np.where(is_round, np.angle(weights @ np.exp(1j * angle * z)) / angle, 0.0)
        return self.nearest(z - centre) + centre

    def _turns(self, y: Floats) -> Floats:
        """How often each coordinate goes round; zero on lines."""
        is_round = np.isfinite(self.width)
        return np.where(is_round, np.round(y / np.where(is_round, self.width, 1.0)), 0.0)


class Wrapped(NamedTuple):
    """A density wrapped on a circle.

    Draws on turns without images stay where they are, off the circle, where a prior is zero and so is their weight.
    """

    density: Density
    circle: Circle

    def log_density(self, z: Floats) -> Floats:
        """Log density at points of the circle."""
        total = np.full(len(z), -np.inf)
        for shift in self.circle.shifts:
            total = np.logaddexp(total, self.density.log_density(z + shift))
        return total

    def sample(self, n: int, rng: np.random.Generator, stratified: bool = False) -> Floats:
        """``n`` draws, those on turns without images off the circle."""
        y = self.density.sample(n, rng, stratified)
        return np.where(self.circle.knows(y)[:, None], self.circle.nearest(y), y)
