r"""What an independent draw costs by Metropolis-Hastings moves: :math:`\tau`, the time that a chain takes to forget.

It is judged from a *pool*, points with log weights that make them posterior draws, and a few trial moves. What
importance sampling costs is predicted by the adaptation itself, without a likelihood call.
"""

from __future__ import annotations

import numpy as np

from paoswarm.core.arrays import Floats
from paoswarm.core.weights import normalise, systematic
from paoswarm.sampling.kernels import RHO, State, Unnormalised, correlated, move
from paoswarm.sampling.mixture import Mixture
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
    r"""Moves per independent posterior draw, from one trial move of `n` pool points for each correlation in `rho`.

    Of a coordinate with variance :math:`s^2` and mean squared jump :math:`J s^2` the correlation after one move is
    :math:`1 - J/2`; an autoregression with it has the time :math:`\tau = 4/J - 1`. The mean over coordinates is
    returned, with steps chosen by their mean squared jump as `tempered` does. At most ``n * len(rho)`` evaluations.

    Notes
    -----
    Too low, since real chains also have slower parts than an autoregression: by up to a half where the reference fits
    tolerably, by a factor of several where the posterior is long and curved.
    """
    rho = RHO if rho is None else rho
    weights = normalise(log_weights)
    rows = rng.permutation(systematic(weights, n * len(rho), rng))
    starts = z[rows]
    state = State(starts, np.zeros_like(starts), target.log_prior(starts), log_likelihood[rows])
    each = np.repeat(np.arange(len(rho)), n)
    far = np.where(rho[each] == 0, 1.0, jump)
    _, did = move(state, target, 1.0, reference, correlated(rho).take(each), rng, jump=far, circle=circle)

    variance = weights @ (z - weights @ z) ** 2
    squared = did.probability[:, None] * (did.proposal.z - starts) ** 2 / variance
    gain = squared.reshape(len(rho), n, -1).mean(axis=1)  # of each correlation, for each coordinate
    score = gain.mean(axis=1)
    jumps = score @ gain / score.sum() if score.any() else np.zeros(1)
    return float(np.mean(np.maximum(4 / jumps - 1, 1.0))) if jumps.all() else float("inf")
