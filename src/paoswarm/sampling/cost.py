r"""What an independent draw will cost: importance sampling against Metropolis-Hastings moves.

Importance sampling from q is worth :math:`e = Z^2 / E_q[(\gamma/q)^2] = Z / E_\pi[\gamma/q]` independent draws per
evaluation, with :math:`\gamma = p L` and :math:`\pi = \gamma / Z`. A chain is worth :math:`1/\tau`. Both are judged
from a *pool*, points with log weights that make them posterior draws; the first needs no likelihood call at all.
"""

from __future__ import annotations

import numpy as np

from paoswarm.core.weights import Floats, log_sum_exp, normalise, systematic
from paoswarm.sampling.kernels import Density, State, correlated, move
from paoswarm.sampling.mixture import Mixture


def importance_cost(log_weights: Floats, log_ratio: Floats) -> float:
    r"""Draws from q per independent posterior draw, :math:`1/e = E_\pi[\gamma/q] / Z`.

    Parameters
    ----------
    log_weights : array (n,)
        Log of :math:`\gamma / (n r)` at pool points drawn from a density r, so that their sum estimates Z.
    log_ratio : array (n,)
        Log of :math:`\gamma / q` at the same points.

    Notes
    -----
    Far too low where q was fitted to these very points: fit on one half of the pool and judge by the other. Blind to
    what the pool has not seen.
    """
    known = log_weights > -np.inf
    log_weights, log_ratio = log_weights[known], log_ratio[known]
    cost = float(np.exp(log_sum_exp(log_weights + log_ratio) - 2 * log_sum_exp(log_weights)))
    return max(cost, 1.0)  # less is the pool's error of Z


def metropolis_cost(
    target: Density,
    z: Floats,
    log_likelihood: Floats,
    log_weights: Floats,
    reference: Mixture,
    rng: np.random.Generator,
    *,
    rho: Floats | None = None,
    n: int = 64,
    jump: float = 0.1,
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
    rho = np.array([0.0, 0.5, 0.8, 0.92, 0.97, 0.99]) if rho is None else rho
    weights = normalise(log_weights)
    rows = rng.permutation(systematic(weights, n * len(rho), rng))
    starts = z[rows]
    state = State(starts, np.zeros_like(starts), target.log_prior(starts), log_likelihood[rows])
    step = correlated(rho).take(np.repeat(np.arange(len(rho)), n))
    _, did = move(state, target, 1.0, reference, step, rng, jump=jump)

    variance = weights @ (z - weights @ z) ** 2
    squared = did.probability[:, None] * (did.proposal.z - starts) ** 2 / variance
    gain = squared.reshape(len(rho), n, -1).mean(axis=1)  # of each correlation, for each coordinate
    score = gain.mean(axis=1)
    jumps = score @ gain / score.sum() if score.any() else np.zeros(1)
    return float(np.mean(np.maximum(4 / jumps - 1, 1.0))) if jumps.all() else float("inf")
