r"""The closed-form law of one step of a whole swarm.

Before the walls, every element is Gaussian, :math:`(x, v) \sim N(\text{mean}, s^2 \Sigma)` (5). With dense noise, the
elements of a particle are correlated, :math:`\Sigma \otimes C`. A wall changes this law; the density reported here is
the law after the wall, a sum over the images of `paoswarm.core.bounds`.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from scipy.special import log_ndtr

from paoswarm.core.arrays import Floats
from paoswarm.core.bounds import RESTITUTION, Wall
from paoswarm.core.noise import correlate
from paoswarm.core.random import Seed, generator
from paoswarm.core.walled import WalledNormal


class StepLaw(NamedTuple):
    """Joint law of every particle's next position and velocity, given the swarm and its attractors.

    Attributes
    ----------
    mean_position, mean_velocity : array (..., n, d)
        Means before the walls.
    scale : array (..., n, d)
        Noise amplitude ``s`` of each element.
    cholesky : array (2, 2), or broadcastable to (..., n, 2, 2)
        ``H`` of the transition: the covariance of one element before the walls is ``s**2 H H^T``.
    factor : array (..., n or 1, d, d) or None
        For dense noise: ``factor @ factor^T`` is the covariance between the elements, scale included.
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

    @property
    def position_covariance(self) -> Floats:
        """Covariance between the elements of each particle's next position before the walls, ``(*batch, n, d, d)``."""
        d = self.lower.size
        if self.factor is None:
            return np.square(self.position.sd)[..., None] * np.eye(d)
        dense = self.factor @ np.swapaxes(self.factor, -1, -2)
        h11 = self.cholesky[..., 0, 0]
        return np.broadcast_to(np.square(h11)[..., None, None] * dense, (*self.mean_position.shape, d))

    def log_density(self, position: Floats, velocity: Floats) -> Floats:
        """Return the log density of a next position and velocity of each particle, ``(*batch, n)``.

        An element on a clipping wall contributes the log of the wall's probability times the density of the velocity.
        An element without noise contributes its log probability, 0 or ``-inf``.
        """
        x, v = np.asarray(position, dtype=float), np.asarray(velocity, dtype=float)
        if self.factor is not None:
            return self._dense_log_density(x, v)
        law = self.position.tame()
        mean_position, mean_velocity = self.mean_position, self.mean_velocity
        if not self.wall.has_atoms:  # folding or wrapping the mean does not change the law
            mean_position, mean_velocity = self.wall.apply(mean_position, mean_velocity, self.lower, self.upper)
        h11, h21, h22 = self._cholesky_entries
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
            total = np.where(self.position.sd > law.sd, self._log_density_uniform_position(v, mean_velocity), total)
        if self.wall.is_bounded:
            total = np.where((x < self.lower) | (x > self.upper), -np.inf, total)
        if self.wall.has_atoms:
            for wall_x, side in ((self.lower, 1), (self.upper, -1)):
                total = np.where(x == wall_x, self._log_density_on_wall(v, wall_x, side), total)
        still_x, still_v = self.wall.apply(self.mean_position, self.mean_velocity, self.lower, self.upper)
        still = np.where((x == still_x) & (v == still_v), 0.0, -np.inf)
        return np.where(noisy, total, still).sum(axis=-1)

    def log_density_position(self, position: Floats) -> Floats:
        """Return the log density of a next position of each particle, velocity integrated out, ``(*batch, n)``."""
        x = np.asarray(position, dtype=float)
        if self.factor is None:
            return self.position.log_density(x).sum(axis=-1)
        self._refuse_walls()
        h11, _, _ = self._cholesky_entries
        return dense_log_density(x - self.mean_position, h11[..., None] * self.factor)

    def sample(self, rng: Seed = None, size: int | tuple[int, ...] = ()) -> tuple[Floats, Floats]:
        """Draw independent next positions and velocities, each ``(*size, *batch, n, d)``."""
        size = (size,) if isinstance(size, int) else size
        noise = generator(rng).standard_normal((2, *size, *self.mean_position.shape))
        if self.factor is None:
            d1, d2 = self.scale * noise[0], self.scale * noise[1]
        else:
            d1, d2 = correlate(self.factor, noise[0]), correlate(self.factor, noise[1])
        h11, h21, h22 = self._cholesky_entries
        x, v = self.mean_position + h11 * d1, self.mean_velocity + h21 * d1 + h22 * d2
        return self.wall.apply(x, v, self.lower, self.upper)

    @property
    def _cholesky_entries(self) -> tuple[Floats, Floats, Floats]:
        """``H11, H21, H22``, with an axis for the elements."""
        h11, h21, h22 = (self.cholesky[..., i, j, None] for i, j in ((0, 0), (1, 0), (1, 1)))
        return h11, h21, h22

    def _log_density_uniform_position(self, v: Floats, mean_velocity: Floats) -> Floats:
        """Log density where the noise is so wide that the position is uniform and independent of the velocity."""
        variance = np.where(self.scale > 0, self.covariance[..., 1, 1], 1.0)
        images = {sign for sign, _ in self.wall.images(self.lower, self.upper, 1)}
        total: Any = -np.inf
        for sign in sorted(images):
            total = np.logaddexp(total, _normal_log_density(sign * v - mean_velocity, variance))
        return total - np.log(len(images) * (self.upper - self.lower))

    def _log_density_on_wall(self, v: Floats, wall: Floats, side: int) -> Floats:
        """Log of P(position on a clipping wall) times the density of the velocity there; ``side`` points inside.

        A velocity that points inside is kept. A velocity ``v`` into the wall becomes ``-RESTITUTION * v``.
        """
        covariance = self.covariance
        s11, s12, s22 = covariance[..., 0, 0], covariance[..., 0, 1], covariance[..., 1, 1]
        s22 = np.where(s22 > 0, s22, 1.0)
        rest = np.sqrt(np.maximum(s11 - s12 * s12 / s22, np.finfo(float).tiny))

        def log_beyond(velocity: Floats) -> Floats:
            """Log density of this velocity before the wall, times P(position beyond the wall | velocity)."""
            apart = velocity - self.mean_velocity
            mean = self.mean_position + s12 / s22 * apart
            density: Floats = _normal_log_density(apart, s22) + log_ndtr(side * (wall - mean) / rest)
            return density

        with np.errstate(over="ignore"):
            returned = log_beyond(-v / RESTITUTION) - math.log(RESTITUTION)
            return np.where(side * v > 0, np.logaddexp(log_beyond(v), returned), -np.inf)

    def _dense_log_density(self, x: Floats, v: Floats) -> Floats:
        """Log density of the position, plus that of the velocity given the position."""
        self._refuse_walls()
        assert self.factor is not None
        h11, h21, h22 = self._cholesky_entries
        apart = x - self.mean_position
        conditional_mean = self.mean_velocity + h21 / np.where(h11 > 0, h11, 1.0) * apart
        log_position = dense_log_density(apart, h11[..., None] * self.factor)
        return log_position + dense_log_density(v - conditional_mean, h22[..., None] * self.factor)

    def _refuse_walls(self) -> None:
        refuse_dense_walls(
            self.wall, "walls='none', element-wise noise, or the elements' own laws in step_law(...).position"
        )


def dense_log_density(difference: Floats, factor: Floats) -> Floats:
    """Return the log density of ``N(0, factor factor^T)``; without noise, the log probability, 0 or ``-inf``."""
    d = difference.shape[-1]
    factor = np.broadcast_to(factor, (*difference.shape, d))
    still: Any = ~factor.any(axis=(-1, -2))
    safe = np.where(still[..., None, None], np.eye(d), factor)
    sign, log_determinant = np.linalg.slogdet(safe)
    if not np.all(sign):
        raise ValueError(
            "the dense noise is singular, so the law has no density: the swarm has collapsed, or noise_scale returned "
            "a singular covariance"
        )
    u = np.linalg.solve(safe, difference[..., None])[..., 0]
    total = -0.5 * (u * u).sum(axis=-1) - 0.5 * d * math.log(2 * math.pi) - log_determinant
    return np.where(still, np.where((difference == 0).all(axis=-1), 0.0, -np.inf), total)


def refuse_dense_walls(wall: Wall, instead: str) -> None:
    """Raise if the wall makes the joint density of dense noise intractable; ``instead`` says what to use."""
    if wall.is_bounded:
        raise ValueError(f"dense noise with walls={wall.name!r} has no closed-form joint density; use {instead}")


def _normal_log_density(apart: Floats, variance: Floats) -> Floats:
    density: Floats = -0.5 * apart * apart / variance - 0.5 * np.log(2 * np.pi * variance)
    return density
