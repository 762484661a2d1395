"""The state of a run of several searches: those that are under way, those that have ended, and whose turn it is.

- A search ends when its method has converged, when it has used what its series allows, when its best point is at the
  end of a finished search and has its value, or when it is hopeless: it contracts around a value that is worse.
- With an accuracy ``tol`` it ends as soon as the values of its swarm have differed from the best one by less than
  ``tol`` times the fall since its first swarm, from the median of that, for three generations.
- Until a search has ended, only the first series has searches. No search is interrupted while all that have ended are
  at one place. After that, the series that has used least of its share moves next. Shares are halved from rank to rank.
  Series rank by the value that their latest search has reached. One without a finished search ranks first; if all
  finished searches have ended at one place, it waits.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from paoswarm.core import order
from paoswarm.core.arrays import Floats
from paoswarm.core.swarm import Proposal, Swarm
from paoswarm.methods import moves
from paoswarm.methods.agreement import (
    CONVERGED,
    CUT_SHORT,
    HOPELESS,
    KNOWN,
    Agreement,
    Search,
    agreement,
    fall,
    is_same_value,
    is_undercut,
    near,
    placed,
    rounds,
)
from paoswarm.methods.dense_learning import typical
from paoswarm.methods.method import Method, Standing
from paoswarm.methods.moves import TOL

HOPELESS_RATIO = 100.0  # a swarm whose values differ by less than a hundredth of what it is behind will not catch up
HOPELESS_FOR = 10  # generations
ACCURATE_FOR = 3  # generations
STALLED, NO_GAIN = 1e-6, 1e-7  # widths of the bounds; share of the gain so far
STALLED_FOR, STALLED_GENERATIONS = 150, 30  # evaluations for each unknown, and at least so many generations
NOBODY = -1


class Start(NamedTuple):
    """How a search begins."""

    method: Method
    n_particles: int
    most: float = math.inf  # evaluations
    kind: str = ""  # of search, for people; empty for the name of the method
    guess: Any = None  # what an earlier search has learnt, as the first memory of the method


class Part(NamedTuple):
    """One generation of one search."""

    search: int  # its number, in the order in which searches begin
    series: int
    proposal: Proposal
    start: Start | None = None  # of a search that begins with these points

    def __len__(self) -> int:
        return len(self.proposal.position)


class Lane(NamedTuple):
    """A search that is under way."""

    search: int  # its number
    series: int
    start: Start
    swarm: Swarm  # as its method knows it; while the run shows it, only its memory is up to date
    began: int  # evaluations of the run before it
    n_particles: int  # of its first swarm
    used: int = 0  # evaluations
    first_value: float = math.inf  # the best of its first swarm
    value: float = math.inf  # the best that it has found
    x: Floats | None = None  # and where
    hopeless: int = 0  # generations for which it has been
    typical: float = math.nan  # the median of its first swarm
    accurate: int = 0  # generations for which its values were as accurate as the user wants
    marked: tuple[int, float, float] = (0, math.inf, math.inf)  # evaluations, value, reach when it was last looked at
    until: int = 0  # evaluations to which a search that has ended goes on, because values are noisy

    def counting(self, x: Floats, value: Floats) -> Lane:
        """The lane after points of its search were evaluated; of noisy values, the best mean counts."""
        value = order.failed_last(value)
        first = int(order.best(value))
        used = self.used + len(value)
        if self.swarm.repeats is not None:
            return self._replace(used=used, value=float(self.swarm.global_value), x=self.swarm.global_best[0].copy())
        if self.x is not None and not order.is_better(value[first], self.value):
            return self._replace(used=used)
        return self._replace(used=used, value=float(value[first]), x=x[first].copy())

    @property
    def score(self) -> float:
        """What it is compared by: its best value, or the score of the best mean."""
        repeats = self.swarm.repeats
        return self.value if repeats is None else float(order.score(self.swarm.best_value, repeats).min())

    @property
    def kind(self) -> str:
        """What sort of search it is, for people."""
        return self.start.kind or type(self.start.method).__name__


class Tally(NamedTuple):
    """What the searches of one series have cost, and the value that the latest finished one has reached."""

    spent: int = 0
    reached: float | None = None
    share: float = 1.0  # of what its rank gives it
    waits_for: tuple[int, int] = (0, 0)  # a series, and how many of its searches must have ended
    is_over: bool = False  # because values are noisy


class Sharing(NamedTuple):
    """What a run of several searches remembers."""

    tallies: tuple[Tally, ...]  # one for each series
    lanes: tuple[Lane, ...] = ()  # searches that are under way, the oldest first
    shown: int = NOBODY  # place of the search whose swarm is the run's, among those that are under way
    n_begun: int = 0
    searches: tuple[Search, ...] = ()  # that have ended, in order
    agreement: Agreement = Agreement()  # among them
    ended_best: Lane | None = None  # of them

    @property
    def spent(self) -> int:
        """Evaluations of all searches."""
        return sum(tally.spent for tally in self.tallies)

    def of_series(self, series: int) -> tuple[Search, ...]:
        """The finished searches of one series."""
        return tuple(one for one in self.searches if one.series == series)

    def begun(self, part: Part, swarm: Swarm) -> tuple[Sharing, Swarm]:
        """After the first swarm of a search was evaluated; and that swarm as its method knows it."""
        assert part.start is not None
        method = part.start.method
        if swarm.tolerance is None:  # the driver has given the first one its own
            length = method.tolerant_for(swarm.n_dimensions, swarm.n_particles)
            swarm = moves.starting(swarm, length, part.proposal.objective)
        inner = moves.begin(method, swarm._replace(memory=part.start.guess))
        lane = Lane(part.search, part.series, part.start, inner, self.spent, swarm.n_particles)
        lane = lane.counting(swarm.snapped(swarm.position), swarm.value)
        lane = lane._replace(first_value=lane.value, typical=typical(swarm.value))
        sharing = self._charged(part.series, swarm.n_particles)
        return sharing._replace(lanes=(*self.lanes, lane), n_begun=max(self.n_begun, part.search + 1)), inner

    def moved(self, part: Part, value: Floats, tol: float) -> tuple[Sharing, Swarm]:
        """After a generation of a search, which may have ended it; and its swarm. ``tol`` is the accuracy wanted."""
        place, lane = self.lane(part.search)
        method = lane.start.method
        inner = moves.tell(method, lane.swarm, part.proposal, value)
        lane = lane._replace(swarm=inner).counting(inner.snapped(part.proposal.position), value)
        sharing = self._charged(lane.series, len(value))
        if lane.until:
            return sharing._refined(place, lane), inner
        best_known = math.inf if self.ended_best is None else self.ended_best.value
        is_tolerant = inner.tolerance is not None
        standing = method.standing(moves.eased(inner) if is_tolerant else inner, TOL)
        is_behind = not is_tolerant and standing.lowest - HOPELESS_RATIO * standing.apart > best_known  # (A9)
        lane = lane._replace(hopeless=lane.hopeless + 1 if is_behind else 0)
        accuracy = tol * (lane.typical - lane.value) if tol > TOL else 0.0
        if accuracy > 0:
            is_accurate = not is_tolerant and max(standing.apart, standing.lowest - lane.value) <= accuracy
            lane = lane._replace(accurate=lane.accurate + 1 if is_accurate else 0)
        known = self._known(lane)
        ending = _ending(lane, standing, is_tolerant, known is not None)
        if _is_due(lane):
            lane = lane._replace(marked=(lane.used, lane.value, standing.reach))
        if ending:
            reach = standing.reach if accuracy > 0 else 0.0
            return sharing._ended(lane, ending, known, max(accuracy, 0.0), reach), inner
        return sharing.with_lane(place, lane), inner

    def _known(self, lane: Lane) -> Search | None:
        """The finished search at whose end the best point of this one is, with the same value.

        The values of a search that passes by are hardly ever so near to each other.
        """
        lower, upper, axes = lane.swarm.lower[0], lane.swarm.upper[0], lane.swarm.axes
        assert lane.x is not None
        fallen, is_round = fall(lane.first_value, lane.value), rounds(axes, len(lower))
        for one in self.searches:
            least = min(fallen, fall(one.first_value, one.value))
            is_equal = one.ending == CONVERGED and is_same_value(one.value, lane.value, least, one.accuracy)
            if is_equal and near(np.atleast_2d((one.x - lane.x) / (upper - lower)), is_round, one.reach)[0]:
                return one
        return None

    def _charged(self, series: int, evaluations: int) -> Sharing:
        tally = self.tallies[series]
        tally = tally._replace(spent=tally.spent + evaluations)
        return self._replace(tallies=(*self.tallies[:series], tally, *self.tallies[series + 1 :]))

    def _ended(self, lane: Lane, ending: str, known: Search | None, accuracy: float, reach: float) -> Sharing:
        x, value = (lane.x, lane.value) if ending != KNOWN or known is None else (known.x, known.value)
        assert x is not None
        found = x, value, ending, lane.first_value, lane.kind, lane.began, self.spent
        ended = Search(lane.series, lane.n_particles, lane.used, *found, accuracy, reach)
        box = lane.swarm.lower[0], lane.swarm.upper[0], lane.swarm.axes
        tally = self.tallies[lane.series]._replace(reached=value)
        searches = (*self.searches, placed(ended, self.searches, *box))
        best = self.ended_best
        if best is None or order.is_better(lane.score, best.score):
            best = lane
        lanes = tuple(one for one in self.lanes if one.search != lane.search and not one.until)
        began = [one.began for one in lanes]
        if self.searches and best.swarm.repeats is not None:  # what another attempt has cost goes into the best mean
            lanes = (*lanes, best._replace(until=best.used + lane.used))
        return self._replace(
            lanes=lanes,
            tallies=(*self.tallies[: lane.series], tally, *self.tallies[lane.series + 1 :]),
            searches=searches,
            agreement=agreement(searches, began),
            ended_best=best,
        )

    def _refined(self, place: int, lane: Lane) -> Sharing:
        """After the best search of a noisy objective has gone on."""
        if lane.used < lane.until:
            return self.with_lane(place, lane)
        assert lane.x is not None
        is_it = [one.began == lane.began for one in self.searches]
        searches = tuple(
            one._replace(x=lane.x, value=lane.value, evaluations=lane.used, ended=self.spent) if own else one
            for own, one in zip(is_it, self.searches, strict=True)
        )
        lanes = tuple(one for one in self.lanes if one.search != lane.search)
        best = lane if self.ended_best is None or lane.search == self.ended_best.search else self.ended_best
        return self._replace(lanes=lanes, searches=searches, ended_best=best)

    def checked_for_noise(self, is_noisy: bool, over: tuple[bool, ...]) -> Sharing:
        """After a point was measured again; lucky values of searches that have ended do not count any more.

        The series that are ``over`` then go on only if there is no other search under way.
        """
        ended = (self.ended_best,) if is_noisy and self.ended_best is not None and not self.lanes else ()
        lanes = tuple(
            lane._replace(swarm=lane.start.method.checked_for_noise(lane.swarm, is_noisy))
            for lane in (*self.lanes, *ended)
        )
        if not is_noisy:
            return self._replace(lanes=lanes)
        left = tuple(lane for lane in lanes if not over[lane.series]) or lanes
        tallies = tuple(
            tally._replace(reached=None, is_over=own) for tally, own in zip(self.tallies, over, strict=True)
        )
        return Sharing(tallies, left, n_begun=self.n_begun)

    def lane(self, search: int) -> tuple[int, Lane]:
        """The place and the lane of the search with this number."""
        place = 0
        while self.lanes[place].search != search:
            place += 1
        return place, self.lanes[place]

    def with_lane(self, place: int, lane: Lane) -> Sharing:
        """After a search has moved."""
        return self._replace(lanes=(*self.lanes[:place], lane, *self.lanes[place + 1 :]))

    def turn(self, out: tuple[Part, ...] = ()) -> tuple[int, Lane | None]:
        """The series that moves next, and its oldest search that can; None if it begins another one.

        ``out`` are parts that are being evaluated: they count as spent, and their searches cannot move.
        """
        free = self.lanes
        if out:
            busy = {part.search for part in out}
            free = tuple(lane for lane in free if lane.search not in busy)
        for lane in free:
            if lane.until:
                return lane.series, lane
        if free and self.agreement.is_unanimous:  # the next end may settle it
            return free[0].series, free[0]
        series = self._next_series(out) if self.searches else self._first_series
        for lane in free:
            if lane.series == series:
                return series, lane
        return series, None

    @property
    def _first_series(self) -> int:
        """The one that begins."""
        return next((i for i, tally in enumerate(self.tallies) if not tally.is_over), 0)

    def _next_series(self, out: tuple[Part, ...]) -> int:
        """The one that has used least of its share; shares are halved from rank to rank."""
        spent = np.array([tally.spent for tally in self.tallies], dtype=float)
        for part in out:
            spent[part.series] += len(part)
        spent[[self._waits(series) for series in range(len(spent))]] = math.inf
        # Another kind of search is the best hope, unless everything that has ended so far has ended at one place.
        untried = -math.inf
        if len(self.searches) > 1 and self.agreement.is_unanimous:
            untried, spent = math.inf, np.where([tally.reached is None for tally in self.tallies], math.inf, spent)
        reached = np.array([untried if tally.reached is None else tally.reached for tally in self.tallies])
        shares = 2.0 ** (len(reached) - 1 - order.ranks(reached)) * [tally.share for tally in self.tallies]
        return int(np.argmin(spent / shares))  # (A10)

    def _waits(self, series: int) -> bool:
        """Whether a series may not begin another search yet."""
        other, count = self.tallies[series].waits_for
        if self.tallies[series].is_over:
            return True
        if len(self.of_series(other)) >= count:
            return False
        return all(lane.series != series for lane in self.lanes)

    def agreed(self) -> Agreement:
        """How searches agree; not at all if a better value is known than their ends', of one under way or cut short."""
        if not self.agreement.is_settled:
            return self.agreement
        end = min((one for one in self.searches if one.ending in (CONVERGED, KNOWN)), key=lambda one: one.value)
        is_best = not is_undercut(end.value, end.accuracy, end.first_value, self.leader.value)
        return self.agreement._replace(is_best=is_best)

    @property
    def leader(self) -> Lane:
        """The search with the best point, under way or ended; of equal ones, one that has ended."""
        ended = () if self.ended_best is None else (self.ended_best,)
        return min((*ended, *self.lanes), key=lambda lane: lane.score)


def _is_due(lane: Lane) -> bool:
    """Whether it is time to look whether the search has stalled."""
    window = max(STALLED_FOR * lane.swarm.n_dimensions, STALLED_GENERATIONS * lane.swarm.n_particles)
    return lane.used - lane.marked[0] >= window


def _has_stalled(lane: Lane, standing: Standing) -> bool:
    """Whether the swarm is narrow, but contracts no more, and its value hardly falls any more."""
    _, value, reach = lane.marked
    is_still = reach / 2 < standing.reach < STALLED
    return is_still and _is_due(lane) and value - lane.value < NO_GAIN * (lane.typical - lane.value)


def shown(state: Swarm, sharing: Sharing) -> Swarm:
    """The run with the swarm of the search whose turn is next; with that of ``state`` if a search begins next."""
    _, lane = sharing.turn()
    if lane is None:
        return state._replace(memory=sharing._replace(shown=NOBODY))
    place, _ = sharing.lane(lane.search)
    return lane.swarm._replace(memory=sharing._replace(shown=place))


def laid_open(state: Swarm) -> Sharing:
    """What a run remembers, with every search up to date: drivers may have changed the swarm that is shown."""
    sharing: Sharing = state.memory
    if sharing.shown == NOBODY:
        return sharing
    lane = sharing.lanes[sharing.shown]
    return sharing.with_lane(sharing.shown, lane._replace(swarm=state._replace(memory=lane.swarm.memory)))


def _ending(lane: Lane, standing: Standing, is_tolerant: bool, is_known: bool) -> str:
    """How a search ends; empty if it goes on."""
    if standing.is_over:
        return CONVERGED if standing.has_arrived and not is_tolerant else CUT_SHORT
    if lane.accurate >= ACCURATE_FOR:
        return CONVERGED
    if is_known:
        return KNOWN
    if _has_stalled(lane, standing):
        return CUT_SHORT
    if lane.hopeless >= HOPELESS_FOR:
        return HOPELESS
    return CUT_SHORT if lane.used >= lane.start.most else ""
