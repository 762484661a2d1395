r"""From a proposal to the posterior: where a tempered swarm starts.

Tempering may begin at any normalised density :math:`q` that is known and can be drawn from, not only at the prior:

.. math:: \pi_\beta \propto q \, \Big(\frac{p\,L}{q}\Big)^\beta, \qquad \beta \text{ from 0 to 1.}

With the proposal of the adaptation for :math:`q` the swarm begins in the modes that were found, however narrow, and
importance sampling is the path with a single step.
"""

from __future__ import annotations

import numpy as np

from paoswarm.core.arrays import Floats
from paoswarm.sampling.mixture import Density
from paoswarm.sampling.target import Target


class Bridge:
    """A target whose prior is the proposal and whose likelihood is the ratio of the posterior to it.

    The product of the two is that of the target, so the evidence is the same.
    """

    def __init__(self, target: Target, proposal: Density) -> None:
        self._target, self._proposal = target, proposal
        self.circle = target.circle

    @property
    def n_left(self) -> int:
        """Likelihood evaluations that ``maxfev`` still allows."""
        return self._target.n_left

    def draw_prior(self, n: int, rng: np.random.Generator) -> Floats:
        """Draws from the proposal; those outside the prior's support have the ratio zero."""
        return self._proposal.sample(n, rng)

    def log_prior(self, z: Floats) -> Floats:
        """Log density of the proposal."""
        return self._proposal.log_density(z)

    def log_likelihood(self, z: Floats) -> Floats:
        """Log ratio of prior times likelihood to the proposal; counted as one evaluation of the likelihood."""
        log_prior = self._target.log_prior(z)
        inside = np.isfinite(log_prior)
        ratio = np.full(len(z), -np.inf)
        if inside.any():
            z = z[inside]
            ratio[inside] = log_prior[inside] + self._target.log_likelihood(z) - self._proposal.log_density(z)
        return ratio

    def true_log_likelihood(self, z: Floats, log_ratio: Floats) -> Floats:
        """The target's log likelihood where the ratio is known; no evaluation."""
        return log_ratio + self._proposal.log_density(z) - self._target.log_prior(z)
