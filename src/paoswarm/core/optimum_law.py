r"""Where the optimum may be: the swarm's one-step laws, weighted by score, as one distribution.

.. math:: p(x) = \sum_i w_i \prod_j p_{ij}(x_j), \qquad w_i \propto \max(0, \ln h - \ln r_i), \quad h =
\max(\tfrac{n+1}2, \min(n, 5) + \tfrac12)

with :math:`r_i` the rank of particle i's best value, so that the weights do not change when the objective is shifted,
scaled or otherwise transformed monotonically. It describes the disagreement that is left in the swarm. It is not a
posterior: it knows nothing of a likelihood.
"""

from __future__ import annotations

import numbers
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from paoswarm.core.arrays import Floats
from paoswarm.core.density import StepLaw, dense_log_density
from paoswarm.core.order import score
from paoswarm.core.random import Seed, generator
from paoswarm.core.swarm import Swarm
from paoswarm.core.walled import WalledNormal


class OptimumLaw:
    """Distribution of the optimum's position, the mixture of all particles' next positions.

    It says how far the swarm still disagrees, not how far the optimum is from the truth: a swarm that has converged
    is sure of itself, rightly or wrongly. With fewer than about twenty particles it has little to go by.

    Behind periodic walls numbers are counted from the best point, half a box to either side: where they leave the box,
    the place is the one a width away.

    Parameters
    ----------
    law : StepLaw
        Law of the next step, of one swarm (no batch axis).
    swarm : Swarm
        The swarm it belongs to; its best values give the weights.

    Examples
    --------
    >>> import paoswarm as ps
    >>> result = ps.minimize(lambda x: ((x - 1) ** 2).sum(), [(-5, 5)] * 2, maxiter=30, rng=1)
    >>> lower, upper = result.optimum.interval(0.95)
    >>> bool((lower < 1).all() and (upper > 1).all())
    True
    """

    def __init__(self, law: StepLaw, swarm: Swarm) -> None:
        n = swarm.n_particles
        rank = np.argsort(np.argsort(score(swarm.best_value, swarm.repeats), kind="stable"), kind="stable") + 1
        half = max((n + 1) / 2, min(n, 5) + 0.5)  # the better half, but five at least
        raw = np.maximum(np.log(half) - np.log(rank), 0.0)
        known = swarm.best_value < np.inf  # a particle that has only failed knows nothing
        raw = np.where(known, raw, 0.0) if known.any() else raw
        self.weights: Floats = raw / raw.sum()
        lower, upper = law.lower, law.upper
        self._around: Floats | None = None
        if law.wall.unroll is not None:  # on a circle, count from the point opposite the best one
            self._around = swarm.global_best[0]
            lower, upper = self._around - 0.5 * (upper - lower), self._around + 0.5 * (upper - lower)
        # Two bests that agree to the last bit leave an element without noise; a density needs some width,
        # and the honest smallest one is the resolution of the numbers themselves.
        resolution = 4 * np.spacing(np.maximum(np.abs(law.lower), np.abs(law.upper)))
        free = law.position
        self.components = WalledNormal(free.mean, np.maximum(free.sd, resolution), law.wall, lower, upper)
        self._factor: Floats | None = None  # of the position's covariance, where the noise is dense
        if law.factor is not None:
            shape = law.cholesky[..., 0, 0, None, None] * law.factor
            variances, axes = np.linalg.eigh(shape @ np.swapaxes(shape, -1, -2))
            factor = axes * np.sqrt(np.maximum(variances, resolution.max() ** 2))[..., None, :]
            self._factor = np.broadcast_to(factor, (*free.mean.shape, free.mean.shape[-1]))

    def __repr__(self) -> str:
        return f"OptimumLaw(mean={self.mean}, std={self.std})"

    @cached_property
    @np.errstate(under="ignore")
    def _moments(self) -> tuple[Floats, Floats]:
        mean, variance = self.components.moments()
        centre: Floats = self.weights @ mean
        apart = mean - centre
        within = np.diag(self.weights @ variance)
        if self._factor is not None:  # correlations as they are away from the walls, deviations as they are
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
        """Marginal distribution function of each unknown at ``x``, shape ``(..., d)``."""
        each = self.components.cdf(self._unrolled(x)[..., None, :])
        total: Floats = np.einsum("i,...ij->...j", self.weights, each)
        return total

    def quantile(self, p: float) -> Floats:
        """Smallest ``x`` with ``cdf(x) >= p``, for each unknown."""
        if not (isinstance(p, numbers.Real) and 0 < p < 1):
            raise ValueError(f"p must be one number that lies strictly between 0 and 1, got {p!r}")
        parts = self.components
        low, high = (parts.mean - 40 * parts.sd).min(axis=0), (parts.mean + 40 * parts.sd).max(axis=0)
        if parts.wall.is_bounded:
            low, high = np.broadcast_to(parts.lower, low.shape), np.broadcast_to(parts.upper, high.shape)
        done = self.cdf(low) >= p  # an atom on the lower wall may hold the quantile
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
        """Central interval of each unknown that holds the probability ``level``: two ``(d,)`` arrays."""
        if not (isinstance(level, numbers.Real) and 0 < level < 1):
            raise ValueError(f"level must be one number that lies strictly between 0 and 1, got {level!r}")
        return self.quantile((1 - level) / 2), self.quantile((1 + level) / 2)

    @np.errstate(under="ignore")
    def log_density(self, x: ArrayLike) -> Floats:
        """Log density at points ``(..., d)``; on a clipping wall, of the atom there."""
        x = self._unrolled(x)
        if self._factor is None:
            each = self.components.log_density(x[..., None, :]).sum(axis=-1)
        elif self.components.wall.is_bounded:
            raise ValueError(
                f"dense noise with walls={self.components.wall.name!r} has no closed-form joint density; "
                "use cdf, interval or sample"
            )
        else:
            each = dense_log_density(x[..., None, :] - self.components.mean, self._factor)
        total: Floats = logsumexp(each, b=self.weights, axis=-1)
        return total

    def sample(self, size: int, rng: Seed = None) -> Floats:
        """Draws ``(size, d)``."""
        rng = generator(rng)
        chosen = rng.choice(len(self.weights), size=size, p=self.weights)
        parts = self.components
        noise = rng.standard_normal((size, parts.mean.shape[-1]))
        if self._factor is None:
            free = parts.mean[chosen] + parts.sd[chosen] * noise
        else:
            free = parts.mean[chosen] + (self._factor[chosen] @ noise[..., None])[..., 0]
        draws: Floats = parts.wall.apply(free, np.zeros_like(free), parts.lower, parts.upper)[0]
        return draws

    def _unrolled(self, x: ArrayLike) -> Floats:
        """On a circle, the image of a point nearest to the best one."""
        points = np.asarray(x, dtype=float)
        if self._around is None:
            return points
        width = self.components.upper - self.components.lower
        return points - width * np.round((points - self._around) / width)
