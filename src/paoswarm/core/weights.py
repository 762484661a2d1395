r"""Weights of a sample: how much they are worth, how to resample by them, how far their tail can be trusted.

Weights are given by their logarithms and need not be normalised; a weight of zero is ``-inf``. With
:math:`W_i = w_i / \sum_j w_j` the effective size is :math:`1 / \sum_i W_i^2`.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from paoswarm.core.arrays import Floats

FEWEST = 20  # effective draws below which no error is worth stating


def log_sum_exp(a: Floats, axis: int | None = None) -> Floats:
    r"""The logarithm of :math:`\sum \exp(a)`, without overflow; ``-inf`` where every term is zero."""
    top = np.max(a, axis=axis, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        total = np.log(np.sum(np.exp(a - top), axis=axis, keepdims=True)) + top
    return np.squeeze(total, axis=axis)


def normalise(log_w: Floats) -> Floats:
    r"""The weights :math:`W_i`, which sum to one."""
    top = np.max(log_w)
    if not np.isfinite(top):
        raise ValueError(f"the largest log weight must be finite, got {top}: no point has a positive weight")
    w = np.exp(log_w - top)
    return w / w.sum()


def effective_size(log_w: Floats) -> float:
    r"""Kish's effective size :math:`1 / \sum_i W_i^2`: between one and the number of weights, zero if all are zero."""
    if not np.isfinite(np.max(log_w)):
        return 0.0
    return float(1.0 / np.sum(normalise(log_w) ** 2))


def log_mean(log_w: Floats) -> float:
    """Logarithm of the mean weight; -inf of none."""
    return float(log_sum_exp(log_w)) - math.log(log_w.size) if log_w.size else -math.inf


def log_mean_weight_error(log_w: Floats) -> float:
    r"""Standard error of the logarithm of the mean weight, :math:`\sqrt{(n \sum W_i^2 - 1) / (n - 1)}`.

    By the delta method, for independent weights; infinite when there are fewer than two, or none is positive.
    """
    n = len(log_w)
    size = effective_size(log_w)
    return math.sqrt(max(n / size - 1, 0.0) / (n - 1)) if n > 1 and size > 0 else math.inf


def next_temperature(log_l: Floats, log_w: Floats, beta: float, share: float) -> float:
    r"""The largest inverse temperature, at most one, that leaves the wanted share of the effective size.

    Raising :math:`\beta` to :math:`b` multiplies the weights by :math:`L_i^{b - \beta}`. A point with :math:`L_i = 0`
    is lost in any case: the share is counted from the effective size of the others.

    Parameters
    ----------
    log_l, log_w : array (n,)
        Log likelihoods, and log weights at `beta`.
    beta : float
        The present inverse temperature, in [0, 1).
    share : float
        In (0, 1): what is left of the effective size.
    """
    log_w = np.where(log_l > -np.inf, log_w, -np.inf)
    log_l = np.where(log_l > -np.inf, log_l, 0.0)
    wanted = share * effective_size(log_w)
    if effective_size(log_w + (1 - beta) * log_l) >= wanted:
        return 1.0
    # The increment is halved, not the temperature: a first step of 1e-12 is found to full precision too.
    low, high = 0.0, 1.0 - beta
    while high - low > 1e-13 * high:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if effective_size(log_w + middle * log_l) >= wanted else (low, middle)
    return max(beta + low, float(np.nextafter(beta, 1.0)))


def systematic(weights: Floats, n: int, rng: np.random.Generator) -> NDArray[np.intp]:
    r"""Indices of `n` points drawn by systematic resampling.

    Point i comes :math:`\lfloor n W_i \rfloor` or :math:`\lceil n W_i \rceil` times, :math:`n W_i` times on average.
    """
    heap = np.cumsum(weights)
    ticks = (rng.random() + np.arange(n)) * (heap[-1] / n)
    last = np.flatnonzero(weights)[-1]  # rounding may put the last tick on the very end
    return np.minimum(np.searchsorted(heap, ticks, side="right"), last)


def pareto_k(log_w: Floats) -> float:
    r"""Shape of the generalised Pareto law that fits the largest weights.

    Moments of the weights above :math:`1/k` do not exist: below 0.5 the variance is finite, above 0.7 neither the mean
    weight nor its error can be trusted. The tail is the largest :math:`\min(n/5, 3\sqrt n)` weights; the estimator is
    Zhang and Stephens', drawn to 0.5 by the weight of ten points, as Vehtari et al. (2024) do.

    Returns
    -------
    float
        ``-inf`` when the tail weights are all equal, ``inf`` when fewer than five are there to judge by.
    """
    n = len(log_w)
    size = int(min(0.2 * n, 3 * math.sqrt(n)))
    if size < 5 or not np.isfinite(np.max(log_w)):
        return math.inf
    ordered = np.sort(np.exp(log_w - np.max(log_w)))
    excess = ordered[-size:] - ordered[-size - 1]
    if excess[-1] <= 0:
        return -math.inf
    excess = excess[excess > 0]
    if len(excess) < 5:
        return math.inf
    shape = _generalised_pareto_shape(excess)
    return (len(excess) * shape + 10 * 0.5) / (len(excess) + 10)


def _generalised_pareto_shape(x: Floats) -> float:
    r"""Zhang and Stephens' (2009) estimate of k from sorted excesses with density :math:`\propto (1+kx/s)^{-1/k-1}`.

    The profile likelihood of :math:`b = -k / s`, averaged over a grid of candidates around the quartile.
    """
    n = len(x)
    m = 30 + int(math.sqrt(n))
    quartile = max(x[int(n / 4 + 0.5) - 1], 1e-100 * x[-1])  # next to nothing, if few weights have all
    b = 1 / x[-1] + (1 - np.sqrt(m / (np.arange(1, m + 1) - 0.5))) / (3 * quartile)
    k = np.mean(np.log1p(-b[:, None] * x), axis=1)
    log_profile = n * (np.log(-b / k) - k - 1)
    return float(np.mean(np.log1p(-np.dot(normalise(log_profile), b) * x)))
