"""How the searches of a run agree, for numba; the rules are those of `paoswarm.algorithms.agreement`.

Searches that have found no feasible point do not count: compiled runs have no constraints.
"""

from __future__ import annotations

import math

import numba
import numpy as np

from paoswarm.algorithms import agreement
from paoswarm.compiled.numba_linear import median, ranked
from paoswarm.core import order

GOES_ON = 0
CONVERGED, KNOWN, HOPELESS, CUT_SHORT = range(1, 5)  # how a search ends
ENDINGS = ("", agreement.CONVERGED, agreement.KNOWN, agreement.HOPELESS, agreement.CUT_SHORT)
_SAME_PLACE, _SAME_VALUE, _ROUNDING = agreement.SAME_PLACE, agreement.SAME_VALUE, agreement.ROUNDING
_FIRST_INFEASIBLE = order.FIRST_INFEASIBLE

_compiled = numba.njit(nogil=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)


@_compiled
def is_same_place(x, y, width):
    """Whether two points are the same place."""
    total = 0.0
    for j in range(len(x)):
        total += ((x[j] - y[j]) / width[j]) ** 2
    return math.sqrt(total / len(x)) < _SAME_PLACE


@_compiled
def agree(facts, searches, ends, width):
    """Count how the searches agree, into the fields of `Agreement` among the facts of a run."""
    facts.n_searches, facts.n_here, facts.n_places = 0, 0, 0
    facts.n_once, facts.n_equal, facts.n_worse = 0, 0, 0
    count = len(searches)
    place, n_places = np.full(count, -1), 0
    firsts, sizes, is_reached = np.empty(count, dtype=np.int64), np.zeros(count), np.zeros(count)
    values, gained = np.empty(count), 0.0
    for i in range(count):
        values[i] = searches[i].value
    for one in ranked(values):
        search = searches[one]
        if search.ending == CUT_SHORT or not search.value < _FIRST_INFEASIBLE:
            continue
        for p in range(n_places):
            if is_same_place(ends[one], ends[firsts[p]], width):
                place[one] = p
                break
        if place[one] < 0:
            place[one], firsts[n_places] = n_places, one
            n_places += 1
        facts.n_searches += 1
        sizes[place[one]] += 1
        if search.ending != HOPELESS:
            is_reached[place[one]] = 1
        if math.isfinite(search.first_value):
            gained = max(gained, search.first_value - search.value)
    if n_places == 0:
        return
    lowest = np.empty(n_places)
    for p in range(n_places):
        lowest[p] = searches[firsts[p]].value
    best = lowest[0]
    same = max(_SAME_VALUE * max(abs(best), median(lowest) - best), _ROUNDING * gained)
    for p in range(n_places):
        is_equal = lowest[p] - best <= same
        if is_equal:
            facts.n_here = max(facts.n_here, int(sizes[p]))
        if is_reached[p]:
            facts.n_places += 1
            facts.n_worse += 0 if is_equal else 1
        facts.n_once += 1 if sizes[p] == 1 else 0
    for one in range(count):
        if place[one] >= 0 and lowest[place[one]] - best <= same and searches[one].value < searches[one].first_value:
            facts.n_equal += 1


@_compiled
def is_unanimous(facts):
    """Whether every search that has ended is at the same place."""
    return facts.n_here > 0 and facts.n_here == facts.n_searches


@_compiled
def is_settled(facts):
    """Whether the minimum is taken as found (A11, A12)."""
    is_unique = facts.n_searches > 0 and facts.n_here >= 2 + math.sqrt(facts.n_places)
    return is_unique or facts.n_equal >= 4 + 2 * math.sqrt(1 + facts.n_worse)
