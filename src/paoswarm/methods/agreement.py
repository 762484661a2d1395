r"""Whether independent searches agree, and how likely a better minimum was missed.

Two searches have ended at the same *place* if their ends are within a thousandth of the bounds, and at the same
*minimum* if their values are equal as well: if the worse one is worse by no more than

.. math:: \max(10^{-8} F, 10^{-12} |f|)                                                \tag{A15}

where :math:`F` is the fall from the best value of a search's first swarm to its end. Of a smooth minimum, which looks
like a parabola, points as near as :math:`10^{-4}` of the bounds have such values. Places alone do not do: in a narrow
valley, or on a function with structure at all scales, searches that got stuck may be close to each other.

If ``h`` searches have ended at the best minimum, and searches have converged at ``m`` places, it is taken as found when

.. math:: h \ge 2 + \sqrt m                                                            \tag{A11}

If ``v`` searches have ended at the best value, wherever that was, and searches have converged at ``w - 1`` places of
worse values, the value is taken as found when

.. math:: v \ge 4 + 2 \sqrt w                                                          \tag{A12}

This is for minima that are not unique: symmetric unknowns, valleys of equal values, parameters that data do not
determine. Places are several times safer evidence than values, so it takes twice as many searches. A search whose first
points were as good as its end has been on a plateau and does not count for it. Searches that were given up as hopeless
have not arrived anywhere: they are no places, and no evidence for one.

Quick searches end first, and the widest basin may have the quickest. So a search that is under way and began before one
that has ended counts as if it had converged at a place of its own.

If searches end at an accuracy of their values that the user has chosen (`paoswarm.methods.sharing`), values are equal
within this accuracy, and places within ten times the reach of the cloud.

If no search has found a feasible point, the same is asked of their violations. That no point is feasible cannot be
checked, so it takes twice as many searches that have ended at the least violation as (A12) says.

Another place that is as easy to reach as the best one would have been missed by all ``n`` searches with probability

.. math:: p = \frac{B(h + 1, 2n - h + 1)}{B(h + 1, n - h + 1)}                          \tag{A13}

for a uniform prior of the probability to reach it. This is a statement about this kind of search, and about places that
are as easy to reach. One that attracts a share of less than

.. math:: s = 1 - 2^{-1/n}                                                              \tag{A14}

of the searches, a narrow hole in a wide bowl for example, is more likely missed than found.
``docs/adaptive_theory.md`` says how often claims were right.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.special import betaln

from paoswarm.core.arrays import Floats
from paoswarm.core.order import is_feasible
from paoswarm.core.walls import Axes
from paoswarm.methods.dense_learning import median

_REACHES = 10.0  # of clouds, within which ends at an accuracy are at one place
_SAME_PLACE = 1e-3  # root mean square distance in widths of the bounds
_SAME_VALUE = 1e-8  # relative to the fall; of 689 recorded searches 1e-6 took two for others, and 1e-8 none
_ROUNDING = 1e-12  # relative to the value
_LEAST, _LEAST_OF_MANY = (
    0.01,
    0.03,
)  # smallest probabilities that were measured to be true, with one place and with more


NOWHERE = -1  # the place of a search that was cut short
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
        The best point that it has found; if it came to the end of an earlier search, that end.
    ending : {"converged", "known", "hopeless", "cut short"}
        Known: it came to the end of an earlier search. Hopeless: it contracted around a value worse than that of an
        earlier search. Cut short: it was longer than its series allows, or its cloud grew too wide.
    first_value : float
        The best value of its first swarm.
    kind : str
        What sort of search it was, for people.
    began, ended : int
        Evaluations of the run before its first point and after its last one. Searches overlap: they take turns.
    accuracy, reach : float
        If it ended at an accuracy that the user has chosen: that of its value, and how far its cloud reached, in widths
        of the bounds. Else zero.
    place : int
        Number of the place at which it ended, in the order in which places were found; -1 if it was cut short.
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
    place: int = NOWHERE


class Agreement(NamedTuple):
    """How searches agree.

    Attributes
    ----------
    n_searches : int
        Searches that have ended of their own accord.
    n_here : int
        Those that ended at the best minimum: at its place and with its value.
    n_places : int
        Places at which searches have converged.
    n_equal : int
        Searches that came down to the best value, wherever that was.
    n_worse : int
        Places at which searches have converged at a worse value.
    n_open : int
        Searches under way that began before one that has ended: they may end elsewhere.
    is_feasible : bool
        Whether a search has ended at a feasible point. If none has, values are violations.
    is_best : bool
        False if searches would agree, but a better point is known than their ends.
    """

    n_searches: int = 0
    n_here: int = 0
    n_places: int = 0
    n_equal: int = 0
    n_worse: int = 0
    n_open: int = 0
    is_feasible: bool = True
    is_best: bool = True

    @property
    def is_unanimous(self) -> bool:
        """Whether every search that has ended is at the same place."""
        return self.is_feasible and 0 < self.n_here == self.n_searches

    @property
    def is_unique(self) -> bool:
        """Whether the point is taken as found, not only the value."""
        return self.is_feasible and self.n_searches > 0 and self.n_here >= 2 + math.sqrt(self.n_places + self.n_open)

    @property
    def is_settled(self) -> bool:
        """Whether the minimum is taken as found, or the least violation if no point seems to be feasible."""
        needed = 4 + 2 * math.sqrt(1 + self.n_worse + self.n_open)
        return self.is_best and (self.is_unique or self.n_equal >= (needed if self.is_feasible else 2 * needed))

    @property
    def missed(self) -> float:
        """Probability that another place, as easy to reach as the best one, was missed."""
        n, h = self.n_searches, self.n_here if self.is_unique else max(self.n_here, self.n_equal)
        if n == 0:
            return 1.0
        p = math.exp(betaln(h + 1, 2 * n - h + 1) - betaln(h + 1, n - h + 1))
        return max(p, _LEAST if self.n_places == 1 else _LEAST_OF_MANY)

    @property
    def least_share(self) -> float:
        """The share of the searches below which a minimum that attracts them is more likely missed than found (A14)."""
        return 1.0 - 0.5 ** (1.0 / max(self.n_searches, 1))

    def __str__(self) -> str:
        if self.n_searches == 0:
            return "Not confirmed: no search has converged yet. More evaluations may improve it."
        if not (self.is_best and self.n_here):
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
        chance, share = (f"{math.ceil(100 * one)} %" for one in (self.missed, self.least_share))
        return (
            f"{said}. A better minimum that is as easy to find was missed with a probability below {chance}. "
            f"Not covered: one that attracts less than {share} of the searches, such as a narrow hole."
        )


def placed(one: Search, earlier: Iterable[Search], lower: Floats, upper: Floats, axes: Axes | None = None) -> Search:
    """A search that has ended with its place: that of ``earlier`` ones, if the first of these ended near it."""
    if one.ending == CUT_SHORT:
        return one
    firsts: dict[int, Floats] = {}
    for other in earlier:
        if other.place != NOWHERE:
            firsts.setdefault(other.place, other.x)
    apart = (np.array([*firsts.values()]).reshape(-1, len(lower)) - one.x) / (upper - lower)
    is_near = near(apart, rounds(axes, len(lower)), one.reach)
    return one._replace(place=next((place for place, here in zip(firsts, is_near, strict=True) if here), len(firsts)))


def all_placed(
    searches: Iterable[Search], lower: Floats, upper: Floats, axes: Axes | None = None
) -> tuple[Search, ...]:
    """Searches, in the order of their ends, with their places."""
    found: list[Search] = []
    for one in searches:
        found.append(placed(one._replace(place=NOWHERE), found, lower, upper, axes))
    return tuple(found)


def agreement(searches: Sequence[Search], still: Iterable[int] = ()) -> Agreement:
    """How these searches, which know their places, agree; those that were cut short do not count.

    ``still`` says when searches began that are under way.
    """
    ended = _ended(searches, True)
    has_feasible = bool(ended)
    ended = ended or _ended(searches, False)
    if not ended:
        return Agreement()
    values, first_values, accuracy = np.array([(one.value, one.first_value, one.accuracy) for one in ended]).T
    place, is_hopeless = np.array([(one.place, one.ending == HOPELESS) for one in ended]).T
    counts = counted(place, values, first_values, is_hopeless > 0, accuracy)
    latest = max(one.began for one in ended)
    return Agreement(*counts, sum(began < latest for began in still), has_feasible)


def places_of(searches: Sequence[Search]) -> list[list[Search]]:
    """The places at which feasible searches have ended, the best first, each with its searches, the best first."""
    found: dict[int, list[Search]] = {}
    for one in sorted(_ended(searches, True), key=lambda one: one.value):
        found.setdefault(one.place, []).append(one)
    return list(found.values())


def _ended(searches: Sequence[Search], feasible: bool) -> list[Search]:
    """Those that were not cut short; the feasible ones, or the others."""
    return [one for one in searches if one.ending != CUT_SHORT and bool(is_feasible(one.value)) is feasible]


def rounds(axes: Axes | None, d: int) -> Any:
    """Which coordinates are round."""
    return np.zeros(d, dtype=bool) if axes is None else axes.is_round


def near(apart: Floats, is_round: Any, reach: float) -> Any:
    """Whether ends that are so far ``apart`` (n, d), in widths of the bounds, are at one place."""
    apart = np.where(is_round, apart - np.rint(apart), apart)  # the short way round
    return np.sqrt(np.sum(apart * apart, axis=1) / apart.shape[1]) < max(_SAME_PLACE, _REACHES * reach)


def fall(first_value: float, value: float) -> float:
    """How far a search came down; its value counts if it began without a feasible point and has found one."""
    is_fall = math.isfinite(first_value) and is_feasible(first_value) == is_feasible(value)
    return first_value - value if is_fall else abs(value)


def is_same_value(value: float, other: float, fallen: float, accuracy: float) -> bool:
    """Whether two ends have the same value (A15), or to the accuracy of one."""
    return abs(value - other) <= max(_SAME_VALUE * fallen, _ROUNDING * abs(value), accuracy)


def is_undercut(end: float, accuracy: float, first_value: float, value: float) -> bool:
    """Whether a value is better than the best ``end``, of a search that began at ``first_value``."""
    return value < end and not is_same_value(end, value, fall(first_value, end), accuracy)


def counted(
    place: Any, values: Floats, first_values: Floats, is_hopeless: Any, accuracy: Floats
) -> tuple[int, int, int, int, int]:
    """The counts of an `Agreement` for searches at these places."""
    if is_hopeless.all():
        return len(place), 0, 1, 0, 1
    best, falls = values[~is_hopeless].min(), np.empty(len(values))
    for i in range(len(values)):
        falls[i] = fall(first_values[i], values[i])
    fallen, is_equal = median(falls), np.zeros(len(values), dtype=np.bool_)  # the largest may be near overflow
    for i in range(len(values)):
        is_equal[i] = is_same_value(best, values[i], fallen, accuracy[i]) and not is_hopeless[i]
    n_equal = int((is_equal & (values < first_values)).sum())
    n_here = int(np.bincount(place[is_equal]).max())
    n_places = len(np.unique(place[~is_hopeless])) + int(is_hopeless.any())
    return len(place), n_here, n_places, n_equal, n_places - len(np.unique(place[is_equal]))
