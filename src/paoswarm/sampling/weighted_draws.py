"""`WeightedDraws`: draws with unequal weights, and the moments that they give."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from paoswarm.core.arrays import Floats
from paoswarm.core.random import Seed, generator
from paoswarm.core.weights import effective_size, normalise, systematic
from paoswarm.sampling.moments import scatter_matrix


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
        return scatter_matrix((self.draws - self.mean()).T, self.weights)

    def quantile(self, share: float) -> Floats:
        """Value of each parameter below which this share of the weight lies, ``(d,)``."""
        if not 0 <= share <= 1:
            raise ValueError(f"share must lie between 0 and 1, got {share!r}")
        found = []
        for column in self.draws.T:
            order = np.argsort(column)
            below = np.cumsum(self.weights[order])
            found.append(column[order][min(int(np.searchsorted(below, share)), len(column) - 1)])
        return np.array(found)

    def rows(self, n: int, rng: Seed) -> NDArray[np.intp]:
        """Rows of ``n`` draws of equal weight, in random order."""
        source = generator(rng)
        return source.permutation(systematic(self.weights, n, source))
