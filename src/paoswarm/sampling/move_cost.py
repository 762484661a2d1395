r"""Cost of an independent draw by Metropolis-Hastings moves: the autocorrelation time :math:`\tau` of a chain.

It is estimated from weighted posterior draws (a *pool*) and a few trial moves. The cost by importance sampling needs no
trial: `Pool.efficiency` predicts it without a likelihood call.
"""

from __future__ import annotations

import numpy as np

from paoswarm.core.arrays import Floats
from paoswarm.core.weights import normalise, systematic
from paoswarm.sampling.kernels import RHO, State, Unnormalised, correlated, move
from paoswarm.sampling.mixture import Mixture
from paoswarm.sampling.moments import weighted_variance
from paoswarm.sampling.periodic_coordinates import Circle


def metropolis_cost(
    target: Unnormalised,
    z: Floats,
    log_likelihood: Floats,
    log_weights: Floats,
    reference: Mixture,
    rng: np.random.Generator,
    *,
    rho: Floats | None = None,
    n: int = 64,
    jump: float = 0.1,
    circle: Circle | None = None,
) -> float:
    r"""Estimate the moves per independent posterior draw, from `n` trial moves for each correlation in `rho`.

    A coordinate with variance :math:`s^2` and mean squared jump :math:`J s^2` has the correlation :math:`1 - J/2` after
    one move. An autoregression with that correlation has the autocorrelation time

    .. math:: \tau = \frac{4}{J} - 1. \tag{S22}

    The result is the mean over coordinates, with steps chosen by their mean squared jump as in `tempered`. It takes at
    most ``n * len(rho)`` likelihood evaluations.

    Notes
    -----
    The estimate is too low, because real chains also have slower components than an autoregression: by up to a half
    if the reference fits moderately well, by a factor of several if the posterior is long and curved.
    """
    rho = RHO if rho is None else rho
    weights = normalise(log_weights)
    rows = rng.permutation(systematic(weights, n * len(rho), rng))
    starts = z[rows]
    state = State(starts, np.zeros_like(starts), target.log_prior(starts), log_likelihood[rows])
    which = np.repeat(np.arange(len(rho)), n)
    jump_chance = np.where(rho[which] == 0, 1.0, jump)
    _, tried = move(state, target, 1.0, reference, correlated(rho).take(which), rng, jump=jump_chance, circle=circle)

    squared = tried.probability[:, None] * (tried.proposal.z - starts) ** 2 / weighted_variance(z, weights)
    by_step = squared.reshape(len(rho), n, -1).mean(axis=1)  # for each correlation and coordinate
    score = by_step.mean(axis=1)
    jumps = score @ by_step / score.sum() if score.any() else np.zeros(1)
    return float(np.mean(np.maximum(4 / jumps - 1, 1.0))) if jumps.all() else float("inf")  # (S22)
