"""The law of a position after a wall: a Gaussian that is clipped, reflected, wrapped or unchanged.

Everything is element-wise and all arrays broadcast. A law may have atoms: the walls under ``clip``, and the end point
of a particle without noise. The "density" at an atom is its probability.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from scipy.special import log_ndtr, ndtr

from paoswarm.core.arrays import Floats
from paoswarm.core.bounds import Wall
from paoswarm.core.random import Seed, generator

_LOG_ROOT_2PI = 0.5 * math.log(2 * math.pi)
_FAR = 9.0  # standard deviations; a Gaussian has 2e-19 of its mass beyond
_WIDE = 8.0  # box widths; a Gaussian with this standard deviation, folded or wrapped, is uniform to 1e-130


class WalledNormal(NamedTuple):
    """``N(mean, sd**2)`` after a wall rule, element-wise."""

    mean: Floats
    sd: Floats
    wall: Wall
    lower: Floats
    upper: Floats

    @np.errstate(under="ignore")
    def log_density(self, x: Floats) -> Floats:
        """Return the log density at ``x``; at an atom, the log probability."""
        x, law = np.asarray(x, dtype=float), self.tame()
        sd = np.where(law.sd > 0, law.sd, 1.0)
        with np.errstate(over="ignore"):
            total: Floats = np.full(np.broadcast_shapes(x.shape, sd.shape, np.shape(law.mean)), -np.inf)
            for sign, offset in law.images():
                standard = (sign * x + offset - law.mean) / sd
                total = np.logaddexp(total, -0.5 * standard * standard - np.log(sd) - _LOG_ROOT_2PI)
        if law.wall.is_bounded:
            total = np.where((x < law.lower) | (x > law.upper), -np.inf, total)
        if law.wall.has_atoms:
            total = np.where(x == law.lower, log_ndtr((law.lower - law.mean) / sd), total)
            total = np.where(x == law.upper, log_ndtr((law.mean - law.upper) / sd), total)
        return np.where(law.sd > 0, total, np.where(x == law._still(), 0.0, -np.inf))

    @np.errstate(under="ignore")
    def cdf(self, x: Floats) -> Floats:
        """Return the probability of a position at or below ``x``."""
        x, law = np.asarray(x, dtype=float), self.tame()
        sd = np.where(law.sd > 0, law.sd, 1.0)
        if not law.wall.is_bounded:
            total: Any = ndtr((x - law.mean) / sd)
        else:
            inside = np.clip(x, law.lower, law.upper)
            total = ndtr((law.lower - law.mean) / sd) if law.wall.has_atoms else 0.0
            for sign, offset in law.images():
                ends = ((sign * end + offset - law.mean) / sd for end in (inside, law.lower))
                total = total + sign * (ndtr(next(ends)) - ndtr(next(ends)))
            total = np.where(x < law.lower, 0.0, np.where(x >= law.upper, 1.0, total))
        return np.where(law.sd > 0, total, x >= law._still())

    @np.errstate(under="ignore")
    def moments(self) -> tuple[Floats, Floats]:
        """Return mean and variance of the position after the wall."""
        if not self.wall.is_bounded:
            return np.asarray(self.mean, dtype=float), np.square(self.sd)
        law = self.tame()
        mean = law._expect(np.zeros_like(law.mean), 1)
        variance = np.maximum(law._expect(mean, 2), 0.0)
        still = self._still()
        return np.where(self.sd > 0, mean, still), np.where(self.sd > 0, variance, 0.0)

    def sample(self, rng: Seed = None, size: int | tuple[int, ...] = ()) -> Floats:
        """Draw positions, ``(*size, *shape of the law)``."""
        size = (size,) if isinstance(size, int) else size
        shape = np.broadcast_shapes(np.shape(self.mean), np.shape(self.sd))
        free = self.mean + self.sd * generator(rng).standard_normal((*size, *shape))
        position: Floats = self.wall.apply(free, np.zeros_like(free), self.lower, self.upper)[0]
        return position

    def tame(self) -> WalledNormal:
        """Return an equivalent law that needs few images: mean inside the box, width at most `_WIDE` boxes."""
        if self.wall.has_atoms or not self.wall.is_bounded:
            return self
        return self._replace(mean=self._still(), sd=np.minimum(self.sd, _WIDE * (self.upper - self.lower)))

    def images(self) -> list[tuple[int, Floats]]:
        """Return the images of the box that a `tame` law reaches."""
        reach = math.ceil(_FAR * np.max(self.sd / (self.upper - self.lower), initial=0.0)) + 1
        return list(self.wall.images(self.lower, self.upper, reach))

    def _expect(self, centre: Floats, power: int) -> Floats:
        """Expectation of ``(x - centre)**power``, power 1 or 2: a sum of truncated Gaussian moments."""
        sd = np.where(self.sd > 0, self.sd, 1.0)
        total: Any = 0.0
        for sign, offset in self.images():
            first, last = (self.lower, self.upper) if sign > 0 else (self.upper, self.lower)
            a, b = ((sign * end + offset - self.mean) / sd for end in (first, last))
            pa, pb = (np.exp(-0.5 * t * t - _LOG_ROOT_2PI) for t in (a, b))
            m0, m1 = np.where(a > 0, ndtr(-a) - ndtr(-b), ndtr(b) - ndtr(a)), pa - pb  # avoids cancellation in a tail
            shift = self.mean - offset - sign * centre  # sign * (x - centre) = shift + sd * t
            if power == 1:
                total = total + sign * (shift * m0 + sd * m1)
            else:
                m2 = m0 + a * pa - b * pb
                total = total + shift * shift * m0 + 2 * shift * sd * m1 + sd * sd * m2
        if self.wall.has_atoms:
            total = total + (self.lower - centre) ** power * ndtr((self.lower - self.mean) / sd)
            total = total + (self.upper - centre) ** power * ndtr((self.mean - self.upper) / sd)
        result: Floats = total
        return result

    def _still(self) -> Floats:
        """Position of a particle without noise."""
        mean = np.asarray(self.mean, dtype=float)
        still: Floats = self.wall.apply(mean, np.zeros_like(mean), self.lower, self.upper)[0]
        return still
