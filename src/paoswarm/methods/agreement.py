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

If searches end at an accuracy of their values that the user has chosen (`paoswarm.methods.sharing`), values are equal
within this accuracy, and places within ten times the reach of the clouds.

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
from typing import Any, NamedTuple

import numpy as np
from scipy.special import betaln

from paoswarm.core.arrays import Floats
from paoswarm.core.order import is_feasible, ranked
from paoswarm.core.walls import Axes
from paoswarm.methods.dense_learning import median

_REACHES = 10.0  # of clouds, within which ends at an accuracy are at one place
_SAME_PLACE = 1e-3  # root mean square distance in widths of the bounds
_SAME_VALUE = 1e-6  # relative to the larger of the best value and its distance from the median
_ROUNDING = 1e-12  # relative to what searches have gained: the minimum may be zero
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
    accuracy, reach : float
        If it ended at an accuracy that the user has chosen: that of its value, and how far its cloud reached, in widths
        of the bounds. Else zero.
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
    accuracy: float = 0.0
    reach: float = 0.0


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
    is_best : bool
        False if searches would agree, but a better point is known than their ends.
    """

    n_searches: int = 0
    n_here: int = 0
    n_places: int = 0
    n_once: int = 0
    n_equal: int = 0
    n_worse: int = 0
    is_feasible: bool = True
    is_best: bool = True

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
        return self.is_best and (self.is_unique or self.n_equal >= (needed if self.is_feasible else 2 * needed))

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
        if not self.is_best:
            return (
                "Not confirmed: no search has ended at the best point yet. More evaluations may confirm or improve it."
            )
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
    return same_place(apart, _is_round(axes, len(apart)))


def agreement(searches: Sequence[Search], lower: Floats, upper: Floats, axes: Axes | None = None) -> Agreement:
    """How these searches agree; those that were cut short do not count."""
    ended = _ended(searches, True)
    has_feasible = bool(ended)
    ended = ended or _ended(searches, False)
    if not ended:
        return Agreement()
    values, first_values, accuracy = np.array([(one.value, one.first_value, one.accuracy) for one in ended]).T
    place = _places(ended, lower, upper, axes)
    with np.errstate(over="ignore", invalid="ignore"):
        counts = counted(place, values, first_values, np.array([one.ending == HOPELESS for one in ended]), accuracy)
    return Agreement(*counts)._replace(is_feasible=has_feasible)


def places_of(searches: Sequence[Search], lower: Floats, upper: Floats, axes: Axes | None = None) -> list[list[Search]]:
    """The places at which feasible searches have ended, the best first, each with its searches, the best first."""
    ended = _ended(searches, True)
    if not ended:
        return []
    place = _places(ended, lower, upper, axes)
    by_value = sorted(range(len(ended)), key=lambda i: ended[i].value)
    return [[ended[i] for i in by_value if place[i] == p] for p in range(int(place.max()) + 1)]


def _ended(searches: Sequence[Search], feasible: bool) -> list[Search]:
    """Those that were not cut short; the feasible ones, or the others."""
    return [one for one in searches if one.ending != CUT_SHORT and bool(is_feasible(one.value)) is feasible]


def _places(ended: Sequence[Search], lower: Floats, upper: Floats, axes: Axes | None) -> Any:
    values, reach = np.array([(one.value, one.reach) for one in ended]).T
    return places(np.array([one.x for one in ended]), values, upper - lower, _is_round(axes, len(lower)), reach)


def _is_round(axes: Axes | None, d: int) -> Any:
    return np.zeros(d, dtype=bool) if axes is None else axes.is_round


def same_place(apart: Floats, is_round: Any) -> bool:
    """Whether ends that are so far ``apart``, in widths of the bounds, are the same place."""
    return bool(_are_near(apart.reshape(1, -1), is_round, _SAME_PLACE)[0])


def _are_near(apart: Floats, is_round: Any, near: float) -> Any:
    """The same for each row of ``apart``."""
    apart = np.where(is_round, apart - np.rint(apart), apart)  # the short way round
    return np.sqrt(np.sum(apart * apart, axis=1) / apart.shape[1]) < near


def is_undercut(end: float, first: float, value: float) -> bool:
    """Whether a value is better than the best ``end``, of a search that began at ``first``, by more than rounding."""
    gained = first - end if math.isfinite(first) else 0.0
    return end - value > max(_SAME_VALUE * max(abs(end), abs(value)), _ROUNDING * gained)


def places(ends: Floats, values: Floats, width: Floats, is_round: Any, reach: Floats) -> Any:
    """For each search the number of the place at which it has ended; places are numbered by their best values."""
    near = max(_SAME_PLACE, _REACHES * median(reach))
    found, firsts, count = np.zeros(len(values), dtype=np.int64), np.zeros_like(ends), 0
    for one in ranked(values):
        is_here = _are_near((firsts[:count] - ends[one]) / width, is_round, near)
        found[one] = np.argmax(is_here) if is_here.any() else count
        if found[one] == count:
            firsts[count] = ends[one]
            count += 1
    return found


def counted(
    place: Any, values: Floats, first_values: Floats, is_hopeless: Any, accuracy: Floats
) -> tuple[int, int, int, int, int, int]:
    """The fields of `Agreement` for searches at these places."""
    n = place.max() + 1
    lowest, sizes, is_reached = np.full(n, np.inf), np.zeros(n), np.zeros(n)
    for i in range(len(place)):
        lowest[place[i]] = min(lowest[place[i]], values[i])
        sizes[place[i]] += 1
        is_reached[place[i]] += not is_hopeless[i]
    gained = median(np.where(np.isfinite(first_values), first_values - values, 0.0))  # the largest may be near overflow
    # Differences up to this one are none.
    same = max(_SAME_VALUE * max(abs(lowest[0]), median(lowest) - lowest[0]), _ROUNDING * max(gained, 0.0))
    same = max(same, median(accuracy))
    is_equal = lowest - lowest[0] <= same
    n_equal = int((is_equal[place] & (values < first_values)).sum())
    n_places, n_worse = int((is_reached > 0).sum()), int(((is_reached > 0) & ~is_equal).sum())
    n_here, n_once = int(sizes[is_equal].max()), int((sizes == 1).sum())
    return len(place), n_here, n_places, n_once, n_equal, n_worse
