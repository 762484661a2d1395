"""Which search suits the few trials of a typical study: 50 to 500."""

from __future__ import annotations

import numpy as np
from optuna.distributions import BaseDistribution, CategoricalDistribution

from paoswarm.algorithms.adaptive_pao import AdaptivePAO
from paoswarm.algorithms.method import Method
from paoswarm.algorithms.pao import PAO
from paoswarm.algorithms.restarts import Restarts
from paoswarm.core import noise
from paoswarm.core.arrays import Array
from paoswarm.core.swarm import Swarm

_SIZE = 12
_NARROW = 1e-4  # widths of the bounds
_PATIENCE = 20  # generations in which no particle has improved its best
_GROWTH = 1.5
_JUMP = 0.8  # least noise along categories and whole numbers, where neighbours are one unit apart


def jumping(swarm: Swarm) -> Array:
    """`noise.spread`, but never so little that the swarm forgets the other categories and whole numbers."""
    least = 0.0 if swarm.axes is None else np.where(swarm.axes.is_continuous, 0.0, _JUMP**2)
    return np.maximum(noise.spread(swarm), least)


class SmallPAO(PAO):
    """Twelve particles, which end their search early: in a few hundred trials, there is time for another one."""

    def default_particles(self, n_unknowns: int, maxfev: int | None = None, maxiter: int | None = None) -> int:
        """Twelve, however many parameters there are."""
        return _SIZE

    def has_converged(self, state: Swarm, spread: Array, tol: float) -> Array:
        """Whether the swarm is narrow, or has stopped improving."""
        return np.asarray((spread < _NARROW) | (state.age.min(axis=-1) >= _PATIENCE))


def default_method(distributions: dict[str, BaseDistribution]) -> Method:
    """Small swarms of `PAO` if there is a category, else `AdaptivePAO`.

    `AdaptivePAO` learns most from few values. But along categories its cloud contracts before it has seen them all.
    The small swarms were chosen on functions with one to three categories, with 50 to 500 trials.
    """
    if any(isinstance(one, CategoricalDistribution) for one in distributions.values()):
        return Restarts(SmallPAO(noise_scale=jumping), growth=_GROWTH)
    return AdaptivePAO()
