r"""The closed-form law of one step of a whole swarm, particle by particle and as one distribution.

Before the walls, every element is Gaussian, :math:`(x, v) \sim N(\text{mean}, s^2 \Sigma)` (5). With dense noise, the
elements of a particle are correlated, :math:`\Sigma \otimes C`. A wall changes this law; the density reported here is
the law after the wall, a sum over the images of `paoswarm.core.walls`.

The next step of the swarm is a mixture of the laws of its particles, weighted by rank:

.. math:: p(x) = \sum_i w_i \prod_j p_{ij}(x_j), \qquad w_i \propto \max(0, \ln h - \ln r_i), \quad
          h = \max(\tfrac{n+1}2, \min(n, 5) + \tfrac12) \tag{17}

Here :math:`r_i` is the rank of particle i's best value. The weights do not change under increasing transformations of
the objective, such as shifts and positive factors. The mixture describes the disagreement left in the swarm. How often
it contains the minimum depends on the function: from always to never (`benchmarks/coverage.py`).
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_ndtr

from paoswarm._checks import probability
from paoswarm.core import order
from paoswarm.core.arrays import Floats
from paoswarm.core.noise import correlate
from paoswarm.core.random import Seed, generator
from paoswarm.core.swarm import Swarm
from paoswarm.core.walls import RESTITUTION, Wall, WalledNormal
from paoswarm.core.weights import log_sum_exp


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


class NextStep:
    """Where the particles will be after one more step; the better half of them, weighted by rank.

    It measures how much the particles still disagree. It is not a confidence interval: it does not say how far the
    minimum is. In a narrow valley the particles agree long before they arrive, and the minimum lies outside. With fewer
    than about twenty particles the distribution is rough.

    With periodic walls, positions extend half a box to either side of the best point. A number outside the box stands
    for the point one box width away, inside.

    Parameters
    ----------
    law : StepLaw
        Law of the next step of one swarm (no batch axis).
    swarm : Swarm
        The same swarm; its best values give the weights.

    Examples
    --------
    >>> import paoswarm as ps
    >>> result = ps.minimize(lambda x: ((x - 1) ** 2).sum(), [(-5, 5)] * 2, method="PAO", maxiter=30, rng=1)
    >>> print(result.next_step.std.round(5))  # how far apart the particles still are
    [1.2e-04 9.0e-05]
    """

    def __init__(self, law: StepLaw, swarm: Swarm) -> None:
        n = swarm.n_particles
        rank = order.ranks(order.score(swarm.best_value, swarm.repeats)) + 1
        half = max((n + 1) / 2, min(n, 5) + 0.5)  # the better half, but at least five
        raw = np.maximum(np.log(half) - np.log(rank), 0.0)
        known = swarm.best_value < np.inf  # particles without any valid evaluation get no weight
        raw = np.where(known, raw, 0.0) if known.any() else raw
        self.weights: Floats = raw / raw.sum()
        lower, upper = law.lower, law.upper
        self._around: Floats | None = None
        if law.wall.unroll is not None:  # put the seam of the circle opposite the best point
            self._around = swarm.global_best[0]
            lower, upper = self._around - 0.5 * (upper - lower), self._around + 0.5 * (upper - lower)
        # If two bests agree to the last bit, an element has no noise. A density needs some width; the smallest
        # sensible one is the resolution of floating-point numbers.
        resolution = 4 * np.spacing(np.maximum(np.abs(law.lower), np.abs(law.upper)))
        free = law.position
        self.components = WalledNormal(free.mean, np.maximum(free.sd, resolution), law.wall, lower, upper)
        self._factor: Floats | None = None  # of the position's covariance, if the noise is dense
        if law.factor is not None:
            shape = law.cholesky[..., 0, 0, None, None] * law.factor
            variances, axes = np.linalg.eigh(shape @ np.swapaxes(shape, -1, -2))
            factor = axes * np.sqrt(np.maximum(variances, resolution.max() ** 2))[..., None, :]
            self._factor = np.broadcast_to(factor, (*free.mean.shape, free.mean.shape[-1]))

    def __repr__(self) -> str:
        return f"NextStep(mean={self.mean}, std={self.std})"

    @cached_property
    @np.errstate(under="ignore")
    def _moments(self) -> tuple[Floats, Floats]:
        mean, variance = self.components.moments()
        centre: Floats = self.weights @ mean
        apart = mean - centre
        within = np.diag(self.weights @ variance)
        if self._factor is not None:  # standard deviations after the walls, correlations before them
            free = self._factor @ np.swapaxes(self._factor, -1, -2)
            shrunk = np.sqrt(variance / np.diagonal(free, axis1=-2, axis2=-1))
            within = np.einsum("i,ijk,ij,ik->jk", self.weights, free, shrunk, shrunk)
        covariance: Floats = within + np.einsum("i,ij,ik->jk", self.weights, apart, apart)
        return centre, covariance

    @property
    def mean(self) -> Floats:
        """Mean position, ``(d,)``."""
        return self._moments[0]

    @property
    def covariance(self) -> Floats:
        """Covariance, ``(d, d)``."""
        return self._moments[1]

    @property
    def std(self) -> Floats:
        """Standard deviation of each unknown, ``(d,)``."""
        deviation: Floats = np.sqrt(np.diag(self.covariance))
        return deviation

    @np.errstate(under="ignore")
    def cdf(self, x: ArrayLike) -> Floats:
        """Return the marginal distribution function of each unknown at ``x``, shape ``(..., d)``."""
        each = self.components.cdf(self._unrolled(x)[..., None, :])
        total: Floats = np.einsum("i,...ij->...j", self.weights, each)
        return total

    def quantile(self, p: float) -> Floats:
        """Return the smallest ``x`` with ``cdf(x) >= p``, for each unknown."""
        p = probability("p", p)
        parts = self.components
        low, high = (parts.mean - 40 * parts.sd).min(axis=0), (parts.mean + 40 * parts.sd).max(axis=0)
        if parts.wall.is_bounded:
            low, high = np.broadcast_to(parts.lower, low.shape), np.broadcast_to(parts.upper, high.shape)
        done = self.cdf(low) >= p  # the quantile may be an atom on the lower wall
        for _ in range(200):
            middle = 0.5 * (low + high)
            above = self.cdf(middle) >= p
            low, high = np.where(above, low, middle), np.where(above, middle, high)
            if np.all((middle == low) | (middle == high)) and np.all(high - low <= np.spacing(np.abs(high)) * 2):
                break
        bottom = np.broadcast_to(parts.lower, high.shape)
        quantile: Floats = np.where(done & parts.wall.is_bounded, bottom, high)
        return quantile

    def interval(self, level: float = 0.95) -> tuple[Floats, Floats]:
        """Return the central interval that holds a share ``level`` of the next positions, as two ``(d,)`` arrays."""
        level = probability("level", level)
        return self.quantile((1 - level) / 2), self.quantile((1 + level) / 2)

    @np.errstate(under="ignore")
    def log_density(self, x: ArrayLike) -> Floats:
        """Return the log density at points ``(..., d)``; on a clipping wall, the log probability of the atom."""
        x = self._unrolled(x)
        if self._factor is None:
            each = self.components.log_density(x[..., None, :]).sum(axis=-1)
        else:
            refuse_dense_walls(self.components.wall, "cdf, interval or sample")
            each = dense_log_density(x[..., None, :] - self.components.mean, self._factor)
        with np.errstate(divide="ignore"):  # many weights are zero
            log_weights = np.log(self.weights)
        return log_sum_exp(each + log_weights, axis=-1)

    def sample(self, size: int, rng: Seed = None) -> Floats:
        """Draw points, ``(size, d)``."""
        rng = generator(rng)
        chosen = rng.choice(len(self.weights), size=size, p=self.weights)
        parts = self.components
        noise = rng.standard_normal((size, parts.mean.shape[-1]))
        if self._factor is None:
            free = parts.mean[chosen] + parts.sd[chosen] * noise
        else:
            free = parts.mean[chosen] + correlate(self._factor[chosen], noise)
        draws: Floats = parts.wall.apply(free, np.zeros_like(free), parts.lower, parts.upper)[0]
        return draws

    def _unrolled(self, x: ArrayLike) -> Floats:
        """With periodic walls, the image of a point that is nearest to the best point."""
        points, parts = np.asarray(x, dtype=float), self.components
        if self._around is None or parts.wall.unroll is None:
            return points
        nearest: Floats = parts.wall.unroll(points, self._around, parts.lower, parts.upper)
        return nearest
