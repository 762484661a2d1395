"""Draws with weights: moments and quantiles, and draws of equal weight chosen from them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from paoswarm.core.arrays import Floats
from paoswarm.core.random import Seed, generator
from paoswarm.core.weights import effective_size, normalise, systematic
from paoswarm.sampling.densities import scatter_matrix

_PART = 2**20  # draws
_SOME = 2**14  # draws that say about where a quantile of millions lies


@dataclass(frozen=True, eq=False)
class WeightedDraws:
    """Draws with weights, as `sample` made them.

    Moments of the draws need the weights, for example ``np.average(w.draws, axis=0, weights=w.weights)``. For draws
    that can be used without weights, see `Posterior.draws`.

    Attributes
    ----------
    draws : array (n, d)
        Parameters of each draw.
    log_weights : array (n,)
        Logarithms of the weights, up to a constant.
    log_likelihood, log_prior : array (n,), optional
        Log likelihood, and log prior density of the parameters, at the draws. None if not known.
    """

    draws: Floats
    log_weights: Floats
    log_likelihood: Floats | None = None
    log_prior: Floats | None = None

    @cached_property
    def weights(self) -> Floats:
        """Weights of the draws, ``(n,)``; they sum to one."""
        return normalise(self.log_weights)

    @property
    def effective_size(self) -> float:
        """Effective sample size of the weights (Kish): the number of equally weighted draws they are worth."""
        return effective_size(self.log_weights)

    def mean(self) -> Floats:
        """Weighted mean, ``(d,)``."""
        return self.weights @ self.draws

    def covariance(self) -> Floats:
        """Weighted covariance, ``(d, d)``."""
        mean = self.mean()
        parts = range(0, len(self.draws), _PART)  # of millions of draws, so that temporary arrays stay small
        each = (scatter_matrix((self.draws[i : i + _PART] - mean).T, self.weights[i : i + _PART]) for i in parts)
        return np.sum(list(each), axis=0)

    def quantile(self, share: ArrayLike) -> Floats:
        """Value of each parameter below which this share of the weight lies, ``(d,)``; of several shares ``(k, d)``."""
        shares = np.asarray(share)
        if shares.dtype.kind not in "fiu" or shares.ndim > 1 or not ((shares >= 0) & (shares <= 1)).all():
            raise ValueError(f"share must lie between 0 and 1, a number or a list of numbers, got {share!r}")
        found = [[weighted_quantile(column, self.weights, one) for column in self.draws.T] for one in shares.flat]
        return np.reshape(found, (*shares.shape, self.draws.shape[1]))

    def rows(self, n: int, rng: Seed) -> NDArray[np.intp]:
        """Rows of ``n`` draws of equal weight, in random order."""
        source = generator(rng)
        return source.permutation(systematic(self.weights, n, source))


def weighted_quantile(values: Floats, weights: Floats, share: float) -> float:
    """The least of the values up to which this share of the weights lies; the weights sum to one.

    Of very many values only those around the quantile are sorted: some of them say about where it is.
    """
    before = 0.0
    if len(values) > _PART:
        some = slice(None, None, len(values) // _SOME)
        order = np.argsort(values[some])
        below = np.cumsum(weights[some][order])
        size = float(below[-1] ** 2 / np.sum(weights[some] ** 2))  # effective
        margin = 6 * max(share * (1 - share), 1 / size) ** 0.5 / size**0.5
        ends = np.searchsorted(below / below[-1], (share - margin, share + margin))
        low = values[some][order][ends[0] - 1] if ends[0] > 0 else -np.inf
        high = values[some][order][ends[1]] if ends[1] < len(order) else np.inf
        near = (values > low) & (values <= high)
        before = float(weights @ (values <= low))
        if before < share <= before + float(weights[near].sum()):
            values, weights = values[near], weights[near]
        else:
            before = 0.0
    order = np.argsort(values)
    below = before + np.cumsum(weights[order])
    return float(values[order][min(int(np.searchsorted(below, share)), len(values) - 1)])
