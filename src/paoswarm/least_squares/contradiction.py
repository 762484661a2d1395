r"""Whether the residuals of a fit look like noise.

Neighbours in a series of noise are independent, so with ``m`` residuals in series

.. math:: z = \sqrt{m} \; \frac{\sum_i r_i r_{i+1}}{\sum_i r_i^2}                                        \tag{F7}

is about standard normal. Where all noise is normal and known, the value has a distribution of chi-square. Ends at wrong
minima mostly show in one of the two; so do models that do not describe the data.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc

from paoswarm.core.arrays import Floats
from paoswarm.least_squares.loss import Around, Loss

CORRELATED = 3.0  # |z| from which residuals are no noise
IMPROBABLE = 1e-3  # probability of a chi-square from which on it is too large
_SHORTEST = 8  # residuals in series: with fewer, z says nothing


class Contradiction(NamedTuple):
    """What residuals say about a fit.

    Attributes
    ----------
    correlation : float
        z of (F7).
    probability : float
        Of a chi-square that is as large; one if the value is no chi-square.
    """

    correlation: float = 0.0
    probability: float = 1.0

    def __bool__(self) -> bool:
        return bool(abs(self.correlation) > CORRELATED or self.probability < IMPROBABLE)


def contradiction(around: Around, loss: Loss, series: Sequence[NDArray[np.intp]], n_unknowns: int) -> Contradiction:
    """What the residuals around a point say; ``series`` are rows of the outputs whose order means something."""
    residuals = np.full(len(loss.data), np.nan)
    residuals[loss.has_datum] = np.concatenate([score.scored.residuals[0] for score in around.groups])
    freedom = loss.n_data + loss.n_beliefs - loss.n_factors - n_unknowns
    probability = float(chdtrc(freedom, around.value)) if loss.is_chi_square and freedom > 0 else 1.0
    return Contradiction(correlation(residuals, series), probability)


def correlation(residuals: Floats, series: Sequence[NDArray[np.intp]]) -> float:
    """The z of (F7), over all series."""
    products = squares = 0.0
    m = 0
    for rows in series:
        own = residuals[rows]
        own = own[~np.isnan(own)]
        products += float(own[1:] @ own[:-1])
        squares += float(own @ own)
        m += len(own)
    return float(np.sqrt(m)) * products / squares if m >= _SHORTEST and squares > 0 else 0.0
