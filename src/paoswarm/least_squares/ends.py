r"""How searches of a fit have ended: at which places, whether they agree, and whether the residuals contradict.

Two ends are one *place* if they are next to each other, or if they are the same fit: residuals :math:`r, r'` with

.. math:: |r - r'|^2 \le \max(10^{-4}, e) \min(|r|^2, |r'|^2)                                            \tag{F5}

with the simulator's own noise :math:`e`, relative to the residuals: a search cannot see a fall of the value that is
smaller. Data that do not determine the unknowns give many ends with the same residuals; these are one place.

The ends agree by (A11) and (A12) of `paoswarm.methods.agreement`. They are counted in the order of starts: quick
searches end first, so with workers wrong minima would agree first. An end that is hardly better than where its search
began may be on a plateau and does not count.

Neighbours in a series of noise are independent, so with ``m`` residuals in series

.. math:: z = \sqrt{m} \; \frac{\sum_i r_i r_{i+1}}{\sum_i r_i^2}                                        \tag{F7}

is about standard normal. Where all noise is normal and known, the value has a distribution of chi-square. Ends at wrong
minima mostly show in one of the two; so do models that do not describe the data.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc

from paoswarm.core.arrays import Floats
from paoswarm.least_squares.descent import CONVERGED, CUT_SHORT, HOPELESS, KNOWN, Descent
from paoswarm.least_squares.loss import Around, Loss
from paoswarm.least_squares.pool import Pool
from paoswarm.methods.agreement import Agreement, Search, agreement, placed

_SAME_FIT = 1e-4  # of (F5)
_SAME_VALUE, _SAME_END = 1e-3, 1e-5  # relative; on the way, and at the end
_SAME_PLACE, _VERY_NEAR = 1e-3, 1e-4  # root mean square distance in widths
_WINDOW, _PATIENCE = 3, 8  # times n + 1 evaluations; how many such windows a search may need to catch up
_STALLED = 0.05  # fall of the logarithm over a window
_PROMISING = 1e-2  # relative gain that the next step promises
_NOT_WORSE = 1e-6  # relative
_PLATEAU = 1.5  # an end that is not better than its start by this factor may be on a plateau
CORRELATED = 3.0  # |z| from which residuals are no noise
IMPROBABLE = 1e-3  # probability of a chi-square from which on it is too large
_SHORTEST = 8  # residuals in series: with fewer, z says nothing


class End(NamedTuple):
    """How a search has ended."""

    number: int  # of the search
    x: Floats  # (n,), its best point; if it came to the end of an earlier search, that end
    value: float
    state: str  # as in `paoswarm.methods.agreement`
    first_value: float  # where it began
    spent: int  # evaluations
    residuals: Floats  # (k,)


class SearchEnds:
    """The ends of searches, in the order in which they came."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self.noise = 0.0  # relative standard deviation of residuals that only noise makes
        self.all: list[End] = []
        self._placed: list[Search] = []  # the same as searches
        self.places: list[End] = []  # the first end at each place
        self.best = math.inf  # the least value at which a search has arrived
        self._agreement = 0, Agreement()  # the latest, and how many ends were counted

    @property
    def first_value(self) -> float:
        """The median value at which searches began; the largest may be near overflow."""
        return float(np.median([end.first_value for end in self.all])) if self.all else 0.0

    def note(self, one: Descent) -> None:
        """Note the end of a search."""
        x, value, state, residuals = one.x.copy(), one.value, one.state, one.residuals
        if state in (CONVERGED, KNOWN):
            if one.first_value < _PLATEAU * value and self.all:
                state = CUT_SHORT
            elif (known := self._place_of(one, _SAME_END if state == CONVERGED else _SAME_VALUE)) is not None:
                x, value, state, residuals = known.x, min(known.value, value), KNOWN, known.residuals
        end = End(one.number, x, value, state, one.first_value, one.spent, residuals)
        self.all.append(end)
        search, n = Search(0, 1, end.spent, x, value, state, end.first_value), len(x)
        self._placed.append(placed(search, self._placed, np.zeros(n), np.ones(n)))
        if state in (CONVERGED, KNOWN):
            self.best = min(self.best, value)
        if state == CONVERGED:
            self.places.append(end)

    def judge(self, one: Descent) -> None:
        """Recognise that an active search is at a known place, or that it will not win."""
        if not self.places:
            return
        if self.is_worse(one):
            fall = one.fall(_WINDOW * (len(one.x) + 1))
            need = math.log(one.value / self.best) if self.best > 0 else math.inf
            if fall is not None and need > fall * _PATIENCE:
                one.state = HOPELESS
        if self._place_of(one, _SAME_VALUE) is not None:
            one.state = KNOWN

    def is_worse(self, one: Descent) -> bool:
        """Whether a search is worse than the best end."""
        return one.value > self.best * (1 + _NOT_WORSE)

    def is_stalled(self, one: Descent) -> bool:
        """Whether a search hardly falls, although its steps promise that it does."""
        fall = one.fall(_WINDOW * (len(one.x) + 1))
        return fall is not None and fall < _STALLED and one.gain > _PROMISING * one.value

    def agreement(self, oldest: int) -> Agreement:
        """How the ends of the searches agree that began before number ``oldest``."""
        counted = [one for end, one in zip(self.all, self._placed, strict=True) if end.number < oldest]
        if len(counted) != self._agreement[0]:
            self._agreement = len(counted), agreement(counted)
        return self._agreement[1]

    def _place_of(self, one: Descent, same: float) -> End | None:
        """The end at which a search is, or the same fit; None if it is at a new place."""
        residuals, same = one.residuals, max(same, 4 * self.noise)
        size = float(residuals @ residuals)
        for end in self.places:
            apart = math.sqrt(float(np.mean(self._pool.apart(one.x, end.x) ** 2)))
            if apart < _VERY_NEAR or (apart < _SAME_PLACE and one.value <= end.value * (1 + _SAME_VALUE) + 1e-30):
                return end
            change = residuals - end.residuals
            least = min(size, float(end.residuals @ end.residuals))
            if float(change @ change) <= max(_SAME_FIT, self.noise) * least and one.value <= end.value * (1 + same):
                return end
        return None


class Contradiction(NamedTuple):
    """What residuals say about a fit."""

    correlation: float = 0.0  # z of (F7)
    probability: float = 1.0  # of a chi-square that is as large; one if the value is no chi-square

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
