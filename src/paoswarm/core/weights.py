r"""Weighted samples: effective size, resampling, and the shape of the weights' tail.

Weights are given as logarithms and need not be normalised; a weight of zero is ``-inf``. With
:math:`W_i = w_i / \sum_j w_j`, the effective size is :math:`1 / \sum_i W_i^2`.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from paoswarm.core.arrays import Array, Floats, namespace

FEWEST = 20  # effective draws; with fewer, no standard error is reported


def log_sum_exp(a: Array, axis: int | None = None) -> Array:
    r"""Return :math:`\ln \sum \exp(a)` without overflow; ``-inf`` where every term is zero."""
    xp = namespace(a)
    top = xp.max(a, axis=axis, keepdims=True)
    top = xp.where(xp.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        total = xp.log(xp.sum(xp.exp(a - top), axis=axis, keepdims=True)) + top
    return xp.squeeze(total, axis=axis)[()]  # a number if no axis is left


def normalise(log_w: Floats) -> Floats:
    r"""Return the weights :math:`W_i`, which sum to one."""
    top = np.max(log_w)
    if not np.isfinite(top):
        raise ValueError(f"the largest log weight must be finite, got {top} (-inf: no point has a positive weight)")
    w = np.exp(log_w - top)
    return w / w.sum()


def effective_size(log_w: Floats) -> float:
    r"""Return Kish's effective size :math:`1 / \sum_i W_i^2`, from one to the number of weights.

    It is zero if all weights are zero.
    """
    if not np.isfinite(np.max(log_w)):
        return 0.0
    return float(1.0 / np.sum(normalise(log_w) ** 2))


def log_mean(log_w: Floats) -> float:
    """Return the logarithm of the mean weight; ``-inf`` if there are no weights."""
    return float(log_sum_exp(log_w)) - math.log(log_w.size) if log_w.size else -math.inf


def log_mean_weight_error(log_w: Floats) -> float:
    r"""Return the standard error of the logarithm of the mean weight, :math:`\sqrt{(n \sum W_i^2 - 1) / (n - 1)}`.

    By the delta method, for independent weights. Infinite with fewer than two weights, or if none is positive.
    """
    n = len(log_w)
    size = effective_size(log_w)
    return math.sqrt(max(n / size - 1, 0.0) / (n - 1)) if n > 1 and size > 0 else math.inf


def next_temperature(log_l: Floats, log_w: Floats, beta: float, share: float) -> float:
    r"""Return the largest inverse temperature, at most one, that keeps a given share of the effective size.

    Raising :math:`\beta` to :math:`b` multiplies the weights by :math:`L_i^{b - \beta}`. A point with :math:`L_i = 0`
    gets weight zero at any :math:`b`, so the share is relative to the effective size of the other points.

    Parameters
    ----------
    log_l, log_w : array (n,)
        Log likelihoods, and log weights at `beta`.
    beta : float
        The current inverse temperature, in [0, 1).
    share : float
        The share of the effective size to keep, in (0, 1).
    """
    log_w = np.where(log_l > -np.inf, log_w, -np.inf)
    log_l = np.where(log_l > -np.inf, log_l, 0.0)
    wanted = share * effective_size(log_w)
    if effective_size(log_w + (1 - beta) * log_l) >= wanted:
        return 1.0
    # Bisect the increment, not the temperature, so that a first step of 1e-12 has full precision too.
    low, high = 0.0, 1.0 - beta
    while high - low > 1e-13 * high:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if effective_size(log_w + middle * log_l) >= wanted else (low, middle)
    return max(beta + low, float(np.nextafter(beta, 1.0)))


def systematic(weights: Floats, n: int, rng: np.random.Generator) -> NDArray[np.intp]:
    r"""Return the indices of `n` points drawn by systematic resampling.

    Point i is drawn :math:`\lfloor n W_i \rfloor` or :math:`\lceil n W_i \rceil` times, :math:`n W_i` times on average.
    """
    cumulative = np.cumsum(weights)
    ticks = (rng.random() + np.arange(n)) * (cumulative[-1] / n)
    last = np.flatnonzero(weights)[-1]  # rounding may put the last tick at the very end
    return np.minimum(np.searchsorted(cumulative, ticks, side="right"), last)


def pareto_k(log_w: Floats) -> float:
    r"""Return the shape :math:`k` of the generalised Pareto distribution fitted to the largest weights.

    Moments of the weights of order :math:`1/k` and above do not exist. Below 0.5 the variance is finite; above 0.7
    neither the mean weight nor its standard error is reliable. The tail is the largest :math:`\min(n/5, 3\sqrt n)`
    weights. The estimator is that of Zhang and Stephens, with a prior at 0.5 worth ten points, as in Vehtari et al.
    (2024).

    Returns
    -------
    float
        ``-inf`` if the tail weights are all equal, ``inf`` if there are fewer than five of them.
    """
    n = len(log_w)
    size = int(min(0.2 * n, 3 * math.sqrt(n)))
    if size < 5 or not np.isfinite(np.max(log_w)):
        return math.inf
    largest = np.sort(np.partition(log_w, n - size - 1)[n - size - 1 :])  # the tail, and the weight before it
    ordered = np.exp(largest - largest[-1])
    excess = ordered[1:] - ordered[0]
    if excess[-1] <= 0:
        return -math.inf
    excess = excess[excess > 0]
    if len(excess) < 5:
        return math.inf
    shape = _generalised_pareto_shape(excess)
    return (len(excess) * shape + 10 * 0.5) / (len(excess) + 10)


def _generalised_pareto_shape(x: Floats) -> float:
    r"""Zhang and Stephens' (2009) estimate of k from sorted excesses with density :math:`\propto (1+kx/s)^{-1/k-1}`.

    It averages :math:`b = -k / s` over a grid of candidates around the quartile, weighted by profile likelihood.
    """
    n = len(x)
    m = 30 + int(math.sqrt(n))
    quartile = max(x[int(n / 4 + 0.5) - 1], 1e-100 * x[-1])  # tiny if a few weights dominate
    b = 1 / x[-1] + (1 - np.sqrt(m / (np.arange(1, m + 1) - 0.5))) / (3 * quartile)
    k = np.mean(np.log1p(-b[:, None] * x), axis=1)
    log_profile = n * (np.log(-b / k) - k - 1)
    return float(np.mean(np.log1p(-np.dot(normalise(log_profile), b) * x)))
