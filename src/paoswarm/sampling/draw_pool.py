r"""All draws of the adaptation, weighted by the mixture of the densities that they came from.

With :math:`n_s` draws from each density :math:`q_s`, a point has the weight

.. math:: w_i(\beta) = \frac{p(z_i)\, L(z_i)^\beta}{\sum_s n_s\, q_s(z_i)} \tag{S21}

at the inverse temperature :math:`\beta`.
"""

from __future__ import annotations

import math

import numpy as np

from paoswarm.core.arrays import Floats
from paoswarm.core.weights import effective_size, log_sum_exp
from paoswarm.sampling.kernels import tempered_density
from paoswarm.sampling.mixture import Density

_LARGEST = 30.0  # log efficiency; only a useless pool gives more


class Pool:
    """Points drawn from known densities, with their log prior and log likelihood."""

    def __init__(self, dim: int) -> None:
        self.z: Floats = np.empty((0, dim))
        self.log_prior: Floats = np.empty(0)
        self.log_likelihood: Floats = np.empty(0)
        self._log_mixed: Floats = np.empty(0)  # log sum_s n_s q_s
        self._sources: list[tuple[int, Density]] = []

    def add(self, source: Density, z: Floats, log_prior: Floats, log_likelihood: Floats) -> None:
        """Add points drawn from ``source``. Points of zero prior count as drawn but are not kept."""
        n = len(z)
        kept = np.isfinite(log_prior)
        z, log_prior, log_likelihood = z[kept], log_prior[kept], log_likelihood[kept]
        if len(self.z):
            self._log_mixed = np.logaddexp(self._log_mixed, math.log(n) + source.log_density(self.z))
        self._sources.append((n, source))
        mixed = [math.log(m) + q.log_density(z) for m, q in self._sources]
        self.z = np.concatenate([self.z, z])
        self.log_prior = np.concatenate([self.log_prior, log_prior])
        self.log_likelihood = np.concatenate([self.log_likelihood, log_likelihood])
        self._log_mixed = np.concatenate([self._log_mixed, np.logaddexp.reduce(mixed, axis=0)])

    def log_weight(self, beta: float) -> Floats:
        """Log weights, (S21); the weights' sum estimates the integral of ``p L^beta``."""
        return tempered_density(self.log_prior, self.log_likelihood, beta) - self._log_mixed

    def front(self, size: float) -> float:
        """The largest inverse temperature up to which the effective size is at least ``size`` throughout."""
        reached = 0.0
        for beta in np.concatenate([np.geomspace(1e-12, 0.1, 111), np.linspace(0.1, 1, 31)[1:]]).tolist():
            if effective_size(self.log_weight(beta)) < size:
                break
            reached = beta
        return reached

    def milder(self, beta: float, keep: float) -> float:
        """The inverse temperature from which a step up to ``beta`` keeps the share ``keep`` of the effective size."""
        top = self.log_weight(beta)
        low, high = 0.0, beta
        for _ in range(30):
            middle = 0.5 * (low + high)
            base = self.log_weight(middle)
            with np.errstate(invalid="ignore"):
                ratio = np.where(np.isfinite(top), 2 * top - base, -np.inf)
            left = math.exp(min(float(2 * log_sum_exp(top) - log_sum_exp(ratio) - log_sum_exp(base)), _LARGEST))
            low, high = (middle, high) if left < keep else (low, middle)
        return 0.5 * (low + high)

    def efficiency(self, proposal: Density, first: int = 0, log_w: Floats | None = None) -> float:
        r"""Effective draws per draw from ``proposal``, :math:`Z / E_\pi[\gamma / q]` of (S20); no likelihood call.

        The expectation is over the pool, or over its points from ``first`` on with log weights ``log_w``.
        """
        whole = self.log_weight(1.0)
        if not np.isfinite(whole).any():
            return 0.0
        log_w = whole if log_w is None else log_w
        if not np.isfinite(log_w).any():
            return 0.0
        log_ratio = self.log_prior[first:] + self.log_likelihood[first:] - proposal.log_density(self.z[first:])
        log_efficiency = float(log_sum_exp(whole) + log_sum_exp(log_w) - log_sum_exp(log_w + log_ratio))
        return math.exp(min(log_efficiency, _LARGEST))
