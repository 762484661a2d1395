"""Searches that follow each other and share a run, and how they agree, for numba.

The rules are those of `paoswarm.methods.sharing`, `searches` and `adaptive_pao`, whose texts work on
objects and tuples of any length, which numba does not have. Series ``k`` has its search in lane ``k``, since one search
of each series at most is under way. Searches that have found no feasible point do not count: compiled runs have no
constraints.
"""

from __future__ import annotations

import math

import numpy as np

from paoswarm.core.order import FIRST_INFEASIBLE
from paoswarm.engines.adaptive_kernels import agreement, inner, law, once, progress, ranked
from paoswarm.engines.adaptive_state import (
    BEST_VALUE,
    BESTS,
    CONVERGED,
    CUT_SHORT,
    FOUND,
    GOES_ON,
    HOPELESS,
    KNOWN,
    copy,
    keep,
)
from paoswarm.engines.adaptive_swarms import end_of_dense, is_element_over, law_of, reach
from paoswarm.engines.search_plan import GROWING, SHRINKING, SMALL
from paoswarm.methods import adaptive_pao, moves, sharing
from paoswarm.methods.agreement import NOWHERE
from paoswarm.methods.dense_learning import GREW


@once
def agree(facts, searches, own):
    """Count how the searches agree, into the fields of `Agreement` among the facts of a run.

    ``own`` are the lanes of searches, of which some may be under way.
    """
    counts, m, n_open, latest = (0, 0, 0, 0, 0), 0, 0, -1
    values, first_values, accuracy = np.empty((3, len(searches)))
    place, is_hopeless = np.empty(len(searches), dtype=np.int64), np.empty(len(searches), dtype=np.bool_)
    for i in range(len(searches)):
        one = searches[i]
        if one.ending != CUT_SHORT and one.value < FIRST_INFEASIBLE:
            values[m], first_values[m], accuracy[m] = one.value, one.first_value, one.accuracy
            place[m], is_hopeless[m] = one.place, one.ending == HOPELESS
            latest = max(latest, one.began)
            m += 1
    if m:
        counts = agreement.counted(place[:m], values[:m], first_values[:m], is_hopeless[:m], accuracy[:m])
    for k in range(len(own)):
        n_open += own[k].is_used and own[k].began < latest
    facts.n_searches, facts.n_here, facts.n_places, facts.n_equal, facts.n_worse = counts
    facts.n_open = n_open


@once
def settle(searches, ends, i, width):
    """Find the place of search ``i``, which has ended after those before it; see `agreement.placed`."""
    one, count = searches[i], 0
    one.place = NOWHERE
    if one.ending == CUT_SHORT:
        return
    for s in range(i):
        if searches[s].place == count:  # the first there
            if _is_near(ends[s], ends[i], width, one.reach):
                one.place = count
                return
            count += 1
    one.place = count


@inner
def _is_near(x, y, width, reach):
    return agreement.near(((x - y) / width).reshape(1, -1), np.zeros(len(x), dtype=np.bool_), reach)[0]


@inner
def is_unanimous(facts):
    """Whether every search that has ended is at the same place."""
    return facts.n_here > 0 and facts.n_here == facts.n_searches


@inner
def is_settled(facts):
    """Whether the minimum is taken as found (A11, A12)."""
    is_unique = facts.n_searches > 0 and facts.n_here >= 2 + math.sqrt(facts.n_places + facts.n_open)
    return is_unique or facts.n_equal >= 4 + 2 * math.sqrt(1 + facts.n_worse + facts.n_open)


@inner
def is_undercut(run):
    """Whether the best point is better than the ends of searches; see `Sharing.agreed`."""
    best, facts = -1, run.facts[0]
    for i in range(facts.n_ended):
        one = run.searches[i]
        has_arrived = one.ending == CONVERGED or one.ending == KNOWN
        if has_arrived and (best < 0 or one.value < run.searches[best].value):
            best = i
    end = run.searches[best]
    return agreement.is_undercut(end.value, end.accuracy, end.first_value, facts.value)


_TOL, _ACCURATE_FOR = moves.TOL, sharing.ACCURATE_FOR
_NARROWEST = adaptive_pao.NARROWEST
_STALLED, _NO_GAIN = sharing.STALLED, sharing.NO_GAIN
_STALLED_FOR, _STALLED_GENERATIONS = sharing.STALLED_FOR, sharing.STALLED_GENERATIONS
_HOPELESS, _HOPELESS_FOR = sharing.HOPELESS_RATIO, sharing.HOPELESS_FOR


@once
def turn(run):
    """The series that moves next."""
    own, facts = run.lanes.own, run.facts[0]
    if facts.n_ended == 0:
        return 0
    if is_unanimous(facts):  # the next end may settle it
        oldest = -1
        for k in range(len(run.series)):
            if own[k].is_used and (oldest < 0 or own[k].search < own[oldest].search):
                oldest = k
        if oldest >= 0:
            return oldest
    return next_series(run)


@once
def next_series(run):
    """The one that has used least of its share; shares are halved from rank to rank."""
    tallies, facts = run.tallies, run.facts[0]
    count = len(tallies)
    # Another kind of search is the best hope, unless everything that has ended so far has ended at one place.
    untried = np.inf if facts.n_ended > 1 and is_unanimous(facts) else -np.inf
    reached = np.empty(count)
    for k in range(count):
        reached[k] = tallies[k].reached if tallies[k].has_reached else untried
    ranking = ranked(reached)
    chosen, least = 0, np.inf
    ranks = np.empty(count, dtype=np.int64)
    for rank in range(count):
        ranks[ranking[rank]] = rank
    for k in range(count):
        is_waiting = untried == np.inf and not tallies[k].has_reached
        share = run.series[k].share * 2.0 ** (count - 1 - ranks[k])  # (A10)
        used = np.inf if is_waiting or _waits(run, k) else tallies[k].spent / share
        if used < least:
            chosen, least = k, used
    return chosen


@inner
def _waits(run, k):
    """Whether a series may not begin another search yet."""
    if run.lanes.own[k].is_used:
        return False
    ended = 0
    for s in range(run.facts[0].n_ended):
        ended += run.searches[s].series == run.series[k].large
    return ended < run.series[k].waits_for


@once
def follow(run, k, d, uniform, n_first):
    """Describe the next search of series ``k`` in its lane, which is free, and return how many particles it has.

    ``uniform`` are its two chance numbers. The first search of a run has ``n_first`` particles.
    """
    own, series, facts = run.lanes.own[k], run.series[k], run.facts[0]
    finished, first, latest, evaluations = 0, series.smallest, series.smallest, 0
    if series.rule == GROWING and facts.n_ended:  # the user may have chosen a larger one
        first = max(first, run.searches[0].n_particles)
    for s in range(facts.n_ended):
        one = run.searches[s]
        if one.series == k:
            first = one.n_particles if finished == 0 else first
            finished += 1
        if one.series == series.large:
            latest = one.n_particles
            evaluations = one.evaluations if one.ending != KNOWN else evaluations
    own.search, own.series = facts.n_begun, k
    own.is_dense, own.has_model = series.is_dense, series.has_model
    own.spread, own.horizon, own.noise, own.most = series.spread, series.horizon, series.noise, np.inf
    n = max(int(first * series.growth**finished), series.least)
    if series.rule == SMALL:
        own.spread = series.spread * 10 ** (-_NARROWEST * uniform[0])
        own.most = 2.0 * evaluations
        n = int(series.smallest * max(1.0, latest / series.smallest) ** (uniform[1] ** 2))
    elif series.rule == SHRINKING:
        own.horizon = series.horizon * 2.0**finished
        n = series.smallest * 2**finished
    if facts.n_begun == 0:
        n = n_first
    own.used, own.hopeless, own.accurate, own.drawn_generations = 0, 0, 0, 0
    own.marked_used, own.marked_value, own.marked_reach = 0, np.inf, np.inf
    own.began = _spent(run)
    return n


@inner
def _spent(run):
    total = 0
    for k in range(len(run.tallies)):
        total += run.tallies[k].spent
    return total


@once
def charge(run, k, points, values):
    """Count the evaluations of a search, and keep its best point."""
    own, found = run.lanes.own[k], run.lanes.vectors[k, FOUND]
    is_first = own.used == 0
    best, lowest = 0, np.inf
    for i in range(len(values)):
        if values[i] < lowest:
            best, lowest = i, values[i]
    if is_first or lowest < own.value:
        own.value = lowest
        copy(points[best], found)
    if is_first:
        own.first_value, own.typical = lowest, progress.typical(values)
    own.used += len(values)
    run.tallies[k].spent += len(values)


@once
def judge(run, k, width, tol):
    """End the search of lane ``k`` if it is over, or as accurate as ``tol`` says."""
    lanes, own, facts = run.lanes, run.lanes.own[k], run.facts[0]
    best_known = np.inf
    for s in range(facts.n_ended):
        best_known = min(best_known, run.searches[s].value)
    lowest, apart = _outlook(lanes, k)
    is_behind = lowest - _HOPELESS * apart > best_known  # (A9)
    own.hopeless = own.hopeless + 1 if is_behind else 0
    stands = end_of_dense(lanes, k) if own.is_dense else is_element_over(lanes, k, width)
    accuracy = tol * (own.typical - own.value) if tol > _TOL else 0.0
    own.accurate = own.accurate + 1 if accuracy > 0 and max(apart, lowest - own.value) <= accuracy else 0
    ending, known = GOES_ON, _known(run, k, width)
    if stands:
        ending = CUT_SHORT if stands == GREW else CONVERGED
    elif own.accurate >= _ACCURATE_FOR:
        ending = CONVERGED
    elif known >= 0:
        ending = KNOWN
    elif _has_stalled(own, lanes, k, width):
        ending = CUT_SHORT
    elif own.hopeless >= _HOPELESS_FOR:
        ending = HOPELESS
    elif own.used >= own.most:
        ending = CUT_SHORT
    if _is_due(own, len(width)):
        own.marked_used, own.marked_value, own.marked_reach = own.used, own.value, _reach(lanes, k, width)
    if ending:
        _end(run, k, ending, known, width, accuracy)


@inner
def _is_due(own, d):
    """Whether it is time to look whether the search has stalled."""
    return own.used - own.marked_used >= max(_STALLED_FOR * d, _STALLED_GENERATIONS * own.n)


@inner
def _has_stalled(own, lanes, k, width):
    """Whether the swarm is narrow, but contracts no more, and its value hardly falls any more."""
    if not _is_due(own, len(width)):
        return False
    is_still = own.marked_reach / 2 < _reach(lanes, k, width) < _STALLED
    return is_still and own.marked_value - own.value < _NO_GAIN * (own.typical - own.value)


@once
def _outlook(lanes, k):
    """The best value that a swarm holds, and how far its values are apart."""
    own = lanes.own[k]
    if own.is_dense:
        return (lanes.lists[k, BESTS, own.n_bests - 1], own.apart) if own.generations else (np.inf, np.inf)
    lowest, highest = np.inf, -np.inf
    for value in lanes.numbers[k, BEST_VALUE, : own.n]:
        lowest, highest = min(lowest, value), max(highest, value)
    return lowest, highest - lowest if math.isfinite(lowest) else np.inf


@inner
def _reach(lanes, k, width):
    return law.longest(law_of(lanes, k)) if lanes.own[k].is_dense else reach(lanes, k, width)


@once
def _known(run, k, width):
    """The number of the finished search at whose end the best point of this one is, with the same value; -1 if none."""
    own, found = run.lanes.own[k], run.lanes.vectors[k, FOUND]
    fallen = agreement.fall(own.first_value, own.value)
    for s in range(run.facts[0].n_ended):
        one = run.searches[s]
        least = min(fallen, agreement.fall(one.first_value, one.value))
        is_equal = one.ending == CONVERGED and agreement.is_same_value(one.value, own.value, least, one.accuracy)
        if is_equal and _is_near(run.ends[s], found, width, one.reach):
            return s
    return -1


@once
def _end(run, k, ending, known, width, accuracy):
    """Write down a search that has ended, and see how all of them agree."""
    own, facts = run.lanes.own[k], run.facts[0]
    i = facts.n_ended
    one = run.searches[i]
    one.series, one.n_particles, one.evaluations, one.ending = k, own.n_first, own.used, ending
    one.began, one.ended, one.value, one.first_value = own.began, _spent(run), own.value, own.first_value
    one.accuracy, one.reach = max(accuracy, 0.0), _reach(run.lanes, k, width) if accuracy > 0 else 0.0
    copy(run.lanes.vectors[k, FOUND], run.ends[i])
    if ending == KNOWN:
        one.value = run.searches[known].value
        copy(run.ends[known], run.ends[i])
    settle(run.searches, run.ends, i, width)
    facts.n_ended += 1
    run.tallies[k].reached, run.tallies[k].has_reached = one.value, 1
    last = run.lanes.own[len(run.series)]
    if not last.is_used or own.value < last.value:
        keep(run.lanes, k)
    own.is_used = 0
    agree(facts, run.searches[: facts.n_ended], run.lanes.own[: len(run.series)])
