r"""Whether independent searches agree, and how likely a better minimum was missed.

Searches that end within a thousandth of the bounds of each other have found the same *place*. If ``h`` searches have
ended at the best place, and searches have converged at ``m`` places, the minimum is taken as found when

.. math:: h \ge 2 + \sqrt m                                                            \tag{A11}

If ``v`` searches have ended at the best value, wherever that was, and searches have converged at ``w - 1`` places of
worse values, the value is taken as found when

.. math:: v \ge 4 + 2 \sqrt w                                                          \tag{A12}

This is for minima that are not unique: symmetric unknowns, valleys of equal values, parameters that data do not
determine. Places are several times safer evidence than values, so it takes twice as many searches. A search whose first
points were as good as its end has been on a plateau and does not count for it. Searches that were given up as hopeless
have not arrived anywhere: they are no places.

If no search has found a feasible point, the same is asked of their violations. That no point is feasible cannot be
checked, so it takes twice as many searches that have ended at the least violation as (A12) says.

Another place that is as easy to reach as the best one would have been missed by all ``n`` searches with probability

.. math:: p = \frac{B(h + 1, 2n - h + 1)}{B(h + 1, n - h + 1)}                          \tag{A13}

for a uniform prior of the probability to reach it. The next search ends at a new place with a probability of about
:math:`n_1 / n`, where :math:`n_1` places were reached once (Good 1953). Both are statements about this kind of search:
a narrow hole in a wide bowl is missed by all of them. ``docs/adaptive_theory.md`` says how often claims were right.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import betaln

from paoswarm.core import order
from paoswarm.core.arrays import Floats
from paoswarm.core.axes import Axes

SAME_PLACE = 1e-3  # root mean square distance in widths of the bounds
SAME_VALUE = 1e-6  # relative to the larger of the best value and its distance from the median
ROUNDING = 1e-12  # relative to what searches have gained: the minimum may be zero
_LEAST, _LEAST_OF_MANY = (
    0.01,
    0.03,
)  # smallest probabilities that were measured to be true, with one place and with more


CONVERGED, KNOWN, HOPELESS, CUT_SHORT = "converged", "known", "hopeless", "cut short"  # how a search ends


class Search(NamedTuple):
    """A search that has ended.

    Attributes
    ----------
    series : int
        Number of the series of searches to which it belongs.
    n_particles : int
        Size of its first swarm.
    evaluations : int
    x, value : array (d,), float
        The best point that it has found.
    ending : {"converged", "known", "hopeless", "cut short"}
        Known: it contracted around the end of an earlier search. Hopeless: it contracted around a value worse than
        that of an earlier search. Cut short: it was longer than its series allows, or its cloud grew too wide.
    first_value : float
        The best value of its first swarm.
    kind : str
        What sort of search it was, for people.
    began, ended : int
        Evaluations of the run before its first point and after its last one. Searches overlap: they take turns.
    """

    series: int
    n_particles: int
    evaluations: int
    x: Floats
    value: float
    ending: str
    first_value: float = math.inf
    kind: str = ""
    began: int = 0
    ended: int = 0


class Agreement(NamedTuple):
    """How searches agree.

    Attributes
    ----------
    n_searches : int
        Searches that have ended of their own accord.
    n_here : int
        Those that ended at the best place.
    n_places : int
        Places at which searches have converged.
    n_once : int
        Places that one search has reached.
    n_equal : int
        Searches that came down to the best value, wherever that was.
    n_worse : int
        Places at which searches have converged at a worse value.
    is_feasible : bool
        Whether a search has ended at a feasible point. If none has, values are violations.
    """

    n_searches: int = 0
    n_here: int = 0
    n_places: int = 0
    n_once: int = 0
    n_equal: int = 0
    n_worse: int = 0
    is_feasible: bool = True

    @property
    def is_unanimous(self) -> bool:
        """Whether every search that has ended is at the same place."""
        return self.is_feasible and 0 < self.n_here == self.n_searches

    @property
    def is_unique(self) -> bool:
        """Whether the point is taken as found, not only the value."""
        return self.is_feasible and self.n_searches > 0 and self.n_here >= 2 + math.sqrt(self.n_places)

    @property
    def is_settled(self) -> bool:
        """Whether the minimum is taken as found, or the least violation if no point seems to be feasible."""
        needed = 4 + 2 * math.sqrt(1 + self.n_worse)
        return self.is_unique or self.n_equal >= (needed if self.is_feasible else 2 * needed)

    @property
    def missed(self) -> float:
        """Probability that another place, as easy to reach as the best one, was missed."""
        n, h = self.n_searches, self.n_here if self.is_unique else max(self.n_here, self.n_equal)
        if n == 0:
            return 1.0
        p = math.exp(betaln(h + 1, 2 * n - h + 1) - betaln(h + 1, n - h + 1))
        return max(p, _LEAST if self.n_places == 1 else _LEAST_OF_MANY)

    def __str__(self) -> str:
        if self.n_searches == 0:
            return "Not confirmed: no search has converged yet. More evaluations may improve it."
        if not self.is_feasible:
            least = f"{self.n_equal} of {self.n_searches} independent searches ended at this violation"
            why = "the constraints may contradict each other" if self.n_equal > 1 else "more evaluations may find less"
            return f"{least}: {why}."
        here = f"{self.n_here} of {self.n_searches} independent searches ended at this point"
        equal = f"{self.n_equal} of {self.n_searches} independent searches ended at this value"
        if not self.is_settled:
            said = equal if self.n_equal > self.n_here else here
            return f"Not confirmed: {said}. More evaluations may confirm or improve it."
        said = here if self.is_unique else f"{equal}, at different points: the minimum is not unique"
        chance = f"{math.ceil(100 * self.missed)} %"
        return f"{said}. A better minimum that is as easy to find was missed with a probability below {chance}."


def is_same_place(apart: Floats, axes: Axes | None = None) -> bool:
    """Whether ends that are so far ``apart``, in widths of the bounds, are the same place."""
    apart = apart if axes is None else axes.unrolled(apart, np.zeros_like(apart), 1.0)  # the short way round
    return math.sqrt(float(np.mean(apart * apart))) < SAME_PLACE


def agreement(searches: Sequence[Search], lower: Floats, upper: Floats, axes: Axes | None = None) -> Agreement:
    """How these searches agree; those that were cut short do not count."""
    places = places_of(searches, lower, upper, axes)
    is_feasible = bool(places)
    places = places or places_of(searches, lower, upper, axes, feasible=False)
    if not places:
        return Agreement()
    same = _same_value(places)
    best = places[0][0].value
    equal = [place for place in places if place[0].value - best <= same]
    reached = [place for place in places if any(one.ending != HOPELESS for one in place)]
    return Agreement(
        n_searches=sum(map(len, places)),
        n_here=max(map(len, equal)),
        n_places=len(reached),
        n_once=sum(len(place) == 1 for place in places),
        n_equal=sum(one.value < one.first_value for place in equal for one in place),
        n_worse=sum(place[0].value - best > same for place in reached),
        is_feasible=is_feasible,
    )


def places_of(
    searches: Sequence[Search], lower: Floats, upper: Floats, axes: Axes | None = None, *, feasible: bool = True
) -> list[list[Search]]:
    """The places at which searches have ended, the best first, each with its searches; without those cut short.

    Only those that are ``feasible`` count, or only those that are not.
    """
    ended = [one for one in searches if one.ending != CUT_SHORT and bool(order.is_feasible(one.value)) is feasible]
    places: list[list[Search]] = []
    for one in sorted(ended, key=lambda one: one.value):
        for place in places:
            if is_same_place((one.x - place[0].x) / (upper - lower), axes):
                place.append(one)
                break
        else:
            places.append([one])
    return places


def _same_value(places: Sequence[Sequence[Search]]) -> float:
    """Differences up to this one are none, for places that are sorted by their values."""
    values = np.array([place[0].value for place in places])
    best = float(values[int(order.best(values))])
    gained = [one.first_value - one.value for place in places for one in place if math.isfinite(one.first_value)]
    with np.errstate(over="ignore"):
        relative = SAME_VALUE * max(abs(best), float(np.median(values)) - best)
    return max(relative, ROUNDING * max(gained, default=0.0))
