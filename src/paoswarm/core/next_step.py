r"""The next step of a swarm as one distribution: a mixture of the particles' one-step laws, weighted by rank.

.. math:: p(x) = \sum_i w_i \prod_j p_{ij}(x_j), \qquad w_i \propto \max(0, \ln h - \ln r_i), \quad
          h = \max(\tfrac{n+1}2, \min(n, 5) + \tfrac12) \tag{17}

Here :math:`r_i` is the rank of particle i's best value. The weights do not change under increasing transformations of
the objective, such as shifts and positive factors. The mixture describes the disagreement left in the swarm. How often
it contains the minimum depends on the function: from always to never (`benchmarks/coverage.py`).
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from paoswarm._checks import probability
from paoswarm.core import order
from paoswarm.core.arrays import Floats
from paoswarm.core.density import StepLaw, dense_log_density, refuse_dense_walls
from paoswarm.core.noise import correlate
from paoswarm.core.random import Seed, generator
from paoswarm.core.swarm import Swarm
from paoswarm.core.walled import WalledNormal
from paoswarm.core.weights import log_sum_exp


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
