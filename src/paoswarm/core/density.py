r"""The closed-form law of one step of a whole swarm.

Before the walls every element is Gaussian, :math:`(x, v) \sim N(\text{mean}, s^2 \Sigma)` (5); with dense noise the
elements of a particle are correlated, :math:`\Sigma \otimes C`. What the wall does changes the law, and the density
reported here is the law of what is done: the same images serve the position alone and position with velocity.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from scipy.special import log_ndtr

from paoswarm.core.arrays import Floats
from paoswarm.core.bounds import RESTITUTION, Wall
from paoswarm.core.random import Seed, generator
from paoswarm.core.walled import WalledNormal


class StepLaw(NamedTuple):
    """Law of the next position and velocity of every particle, given the swarm and its attractors.

    Attributes
    ----------
    mean_position, mean_velocity : array (..., n, d)
        Means before the walls.
    scale : array (..., n, d)
        Noise amplitude ``s`` of each element.
    cholesky : array (2, 2), or broadcastable to (..., n, 2, 2)
        ``H`` of the transition: the covariance of one element before the walls is ``s**2 H H^T``.
    factor : array (..., n or 1, d, d) or None
        For dense noise, ``factor @ factor^T`` is the covariance ``s_i s_j`` between elements.
    wall : Wall
    lower, upper : array (d,)
    """

    mean_position: Floats
    mean_velocity: Floats
    scale: Floats
    cholesky: Floats
    factor: Floats | None
    wall: Wall
    lower: Floats
    upper: Floats

    @property
    def position(self) -> WalledNormal:
        """Law of each element of the next position, walls included: density, cdf, moments."""
        sd = self.scale * self.cholesky[..., 0, 0, None]
        return WalledNormal(self.mean_position, sd, self.wall, self.lower, self.upper)

    @property
    def covariance(self) -> Floats:
        """Covariance of (position, velocity) of each element before the walls, ``(*batch, n, d, 2, 2)``."""
        sigma = self.cholesky @ np.swapaxes(self.cholesky, -1, -2)
        covariance: Floats = np.square(self.scale)[..., None, None] * sigma[..., None, :, :]
        return covariance

    def log_density(self, position: Floats, velocity: Floats) -> Floats:
        """Log density of a next (position, velocity) of each particle, ``(*batch, n)``.

        For an element on a clipping wall it is the log of the wall's probability times the density of the velocity; for
        an element without noise, the log probability (zero or minus infinity).
        """
        x, v = np.asarray(position, dtype=float), np.asarray(velocity, dtype=float)
        if self.factor is not None:
            return self._dense_log_density(x, v)
        law = self.position.tame()
        mean_position, mean_velocity = self.mean_position, self.mean_velocity
        if not self.wall.has_atoms:  # folding or wrapping the mean leaves the law as it is
            mean_position, mean_velocity = self.wall.apply(mean_position, mean_velocity, self.lower, self.upper)
        h11, h21, h22 = (self.cholesky[..., i, j, None] for i, j in ((0, 0), (1, 0), (1, 1)))
        noisy = law.sd > 0
        s = np.where(noisy, self.scale, 1.0)
        h11, h22 = np.where(h11 > 0, h11, 1.0), np.where(h22 > 0, h22, 1.0)
        constant = -math.log(2 * math.pi) - 2 * np.log(s) - np.log(h11) - np.log(h22)
        total: Any = np.full(np.broadcast_shapes(x.shape, s.shape), -np.inf)
        with np.errstate(over="ignore"):
            for sign, offset in law.images():
                u1 = (sign * x + offset - mean_position) / (s * h11)
                u2 = ((sign * v - mean_velocity) / s - h21 * u1) / h22
                total = np.logaddexp(total, constant - 0.5 * (u1 * u1 + u2 * u2))
        if self.wall.is_bounded and not self.wall.has_atoms:
            total = np.where(self.position.sd > law.sd, self._log_density_of_wide(v, mean_velocity), total)
        if self.wall.is_bounded:
            total = np.where((x < self.lower) | (x > self.upper), -np.inf, total)
        if self.wall.has_atoms:
            for wall_x, side in ((self.lower, 1), (self.upper, -1)):
                total = np.where(x == wall_x, self._log_density_on_wall(v, wall_x, side), total)
        still_x, still_v = self.wall.apply(self.mean_position, self.mean_velocity, self.lower, self.upper)
        still = np.where((x == still_x) & (v == still_v), 0.0, -np.inf)
        return np.where(noisy, total, still).sum(axis=-1)

    def log_density_position(self, position: Floats) -> Floats:
        """Log density of a next position of each particle, velocity integrated out, ``(*batch, n)``."""
        x = np.asarray(position, dtype=float)
        if self.factor is None:
            return self.position.log_density(x).sum(axis=-1)
        self._refuse_walls()
        h11 = self.cholesky[..., 0, 0, None, None]
        return dense_log_density(x - self.mean_position, h11 * self.factor)

    def sample(self, rng: Seed = None, size: int | tuple[int, ...] = ()) -> tuple[Floats, Floats]:
        """Independent next positions and velocities, each ``(*size, *batch, n, d)``."""
        size = (size,) if isinstance(size, int) else size
        noise = generator(rng).standard_normal((2, *size, *self.mean_position.shape))
        if self.factor is None:
            d1, d2 = self.scale * noise[0], self.scale * noise[1]
        else:
            d1, d2 = ((self.factor @ one[..., None])[..., 0] for one in noise)
        h11, h21, h22 = (self.cholesky[..., i, j, None] for i, j in ((0, 0), (1, 0), (1, 1)))
        x, v = self.mean_position + h11 * d1, self.mean_velocity + h21 * d1 + h22 * d2
        return self.wall.apply(x, v, self.lower, self.upper)

    def _log_density_of_wide(self, v: Floats, mean_velocity: Floats) -> Floats:
        """Folded or wrapped many times over, the position is uniform and tells nothing of the velocity."""
        variance = np.where(self.scale > 0, self.covariance[..., 1, 1], 1.0)
        images = {sign for sign, _ in self.wall.images(self.lower, self.upper, 1)}
        total: Any = -np.inf
        for sign in sorted(images):
            apart = sign * v - mean_velocity
            total = np.logaddexp(total, -0.5 * apart * apart / variance - 0.5 * np.log(2 * np.pi * variance))
        return total - np.log(len(images) * (self.upper - self.lower))

    def _log_density_on_wall(self, v: Floats, wall: Floats, side: int) -> Floats:
        """Log of P(position on a clipping wall) times the density of the velocity there; ``side`` points inside.

        A free velocity v > 0 that points inside is kept; one into the wall comes back as -v times the restitution.
        """
        covariance = self.covariance
        s11, s12, s22 = covariance[..., 0, 0], covariance[..., 0, 1], covariance[..., 1, 1]
        s22 = np.where(s22 > 0, s22, 1.0)
        rest = np.sqrt(np.maximum(s11 - s12 * s12 / s22, np.finfo(float).tiny))

        def beyond_with(free: Floats) -> Floats:  # free position beyond the wall, free velocity given
            apart = free - self.mean_velocity
            velocity = -0.5 * apart * apart / s22 - 0.5 * np.log(2 * np.pi * s22)
            mean = self.mean_position + s12 / s22 * apart
            density: Floats = velocity + log_ndtr(side * (wall - mean) / rest)
            return density

        with np.errstate(over="ignore"):
            returned = beyond_with(-v / RESTITUTION) - math.log(RESTITUTION)
            return np.where(side * v > 0, np.logaddexp(beyond_with(v), returned), -np.inf)

    def _dense_log_density(self, x: Floats, v: Floats) -> Floats:
        """Of the position, times that of the velocity given the position."""
        self._refuse_walls()
        assert self.factor is not None
        h11, h21, h22 = (self.cholesky[..., i, j, None] for i, j in ((0, 0), (1, 0), (1, 1)))
        apart = x - self.mean_position
        follows = self.mean_velocity + h21 / np.where(h11 > 0, h11, 1.0) * apart
        first = dense_log_density(apart, h11[..., None] * self.factor)
        return first + dense_log_density(v - follows, h22[..., None] * self.factor)

    def _refuse_walls(self) -> None:
        if self.wall.is_bounded:
            raise ValueError(
                f"dense noise with walls={self.wall.name!r} has no closed-form joint density; use walls='none', "
                "element-wise noise, or the elements' own laws in step_law(...).position"
            )


def dense_log_density(difference: Floats, factor: Floats) -> Floats:
    """Log density of ``N(0, factor factor^T)``; without any noise, the log probability of being exactly there."""
    d = difference.shape[-1]
    factor = np.broadcast_to(factor, (*difference.shape, d))
    still: Any = ~factor.any(axis=(-1, -2))
    sign, log_determinant = np.linalg.slogdet(np.where(still[..., None, None], np.eye(d), factor))
    if not np.all(sign):
        raise ValueError("the dense noise is singular: its law has no density (the swarm has collapsed)")
    u = np.linalg.solve(np.where(still[..., None, None], np.eye(d), factor), difference[..., None])[..., 0]
    total = -0.5 * (u * u).sum(axis=-1) - 0.5 * d * math.log(2 * math.pi) - log_determinant
    return np.where(still, np.where((difference == 0).all(axis=-1), 0.0, -np.inf), total)
