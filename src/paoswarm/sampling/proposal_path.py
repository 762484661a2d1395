r"""Tempering that starts at a proposal instead of the prior.

Tempering may start at any normalised density :math:`q` that can be drawn from:

.. math:: \pi_\beta \propto q \, \Big(\frac{p\,L}{q}\Big)^\beta, \qquad \beta \text{ from 0 to 1.} \tag{S18}

If :math:`q` is the proposal of the adaptation, the swarm starts in the modes that were found, however narrow.
Importance sampling is the special case of a single step.
"""

from __future__ import annotations

import numpy as np

from paoswarm.core.arrays import Floats
from paoswarm.sampling.kernels import State
from paoswarm.sampling.mixture import Density
from paoswarm.sampling.target import Target
from paoswarm.sampling.tempering_stages import Chains, Stage


class Bridge:
    """A target with the proposal as its prior and ``p L / q`` as its likelihood, (S18).

    Their product is ``p L``, so the evidence does not change.
    """

    def __init__(self, target: Target, proposal: Density) -> None:
        self._target, self._proposal = target, proposal
        self.circle = target.circle

    @property
    def n_left(self) -> int:
        """Likelihood evaluations that ``maxfev`` still allows."""
        return self._target.n_left

    def draw_evaluated(self, n: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Draws from the proposal, and the logarithm of ``p L / q``; it is zero outside the prior's support."""
        made = self._target.draw(self._proposal, n, rng)
        if made.cut_short is not None:
            raise made.cut_short
        return made.z, made.log_prior + made.log_likelihood - made.log_proposal  # (S18)

    def log_prior(self, z: Floats) -> Floats:
        """Log density of the proposal."""
        return self._target.log_proposal(self._proposal, z)

    def log_likelihood(self, z: Floats) -> Floats:
        """The logarithm of ``p L / q``; each row costs one likelihood evaluation."""
        log_prior = self._target.log_prior(z)
        inside = np.isfinite(log_prior)
        ratio = np.full(len(z), -np.inf)
        if inside.any():
            z = z[inside]
            ratio[inside] = log_prior[inside] + self._target.log_likelihood(z) - self._proposal.log_density(z)  # (S18)
        return ratio

    def chains(self, state: State, stage: Stage, rng: np.random.Generator) -> Chains | None:
        """Chains that move on a device; None if they move here."""
        return self._target.bridged_chains(self._proposal, state, stage, rng)

    def true_log_likelihood(self, z: Floats, log_ratio: Floats) -> Floats:
        """The target's log likelihood, recovered from the log ratio without an evaluation."""
        return log_ratio + self.log_prior(z) - self._target.log_prior(z)
