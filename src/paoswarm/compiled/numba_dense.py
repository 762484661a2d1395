"""The dense adaptive swarm for numba: its generations and its ends.

It follows `paoswarm.algorithms.dense_pao` and `paoswarm.algorithms.dense_ends` step by step. Every function is
about the search in lane ``k``, whose arrays it changes.
"""

from __future__ import annotations

import math

import numba
import numpy as np

from paoswarm.algorithms import dense_ends, dense_pao
from paoswarm.compiled.numba_lanes import (
    AGE,
    ASKED,
    BEST,
    BEST_VALUE,
    BESTS,
    COVARIANCE,
    DRAWN,
    MEASURED,
    MEDIANS,
    PATH,
    POSITION,
    PREDICTED,
    RANGES,
    VALUE,
)
from paoswarm.compiled.numba_law import begin_law, draw, learn, longest
from paoswarm.compiled.numba_linear import median, ranked
from paoswarm.compiled.numba_model import (
    after_test,
    fit,
    generations_between_fits,
    is_due,
    is_trusted,
    minimum,
    n_coefficients,
    points_for,
    predict,
)
from paoswarm.core import order

GOES_ON, ARRIVED, GREW = range(3)  # how a search stands
_EVALUATED, _RECENT = dense_pao.EVALUATED, dense_pao.RECENT
_ROUNDING, _NARROWEST, _WIDEST, _EVERY = (
    dense_ends.ROUNDING,
    dense_ends.NARROWEST,
    dense_ends.WIDEST,
    dense_ends.EVERY,
)
_FIRST_INFEASIBLE = order.FIRST_INFEASIBLE  # no objective has such values

_compiled = numba.njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract"})


@_compiled
def begin_dense(lanes, k, low, high):
    """A round cloud around the best point of a first swarm."""
    own, drawn, bests = lanes.own[k], lanes.points[k, DRAWN], lanes.numbers[k, BEST_VALUE]
    n, d = own.n, len(low)
    leader, n_finite = 0, 0
    finite = np.empty(n)
    for i in range(n):
        lanes.numbers[k, ASKED, i] = i
        for j in range(d):
            drawn[i, j] = (lanes.points[k, BEST, i, j] - low[j]) / (high[j] - low[j])
        if bests[i] < bests[leader]:
            leader = i
        if bests[i] < _FIRST_INFEASIBLE:
            finite[n_finite] = bests[i]
            n_finite += 1
    begin_law(lanes, k, drawn[leader], own.spread)
    own.agreeing, own.pairs, own.trust_wait, own.trust_period = 0.0, 0.0, 0, 1
    own.generations, own.n_ranges, own.apart = 0, 0, np.inf
    first = median(finite[:n_finite]) - bests[leader] if n_finite else 0.0
    own.negligible = 1e-16 * first if math.isfinite(first) else 0.0
    own.n_known, own.first_known, own.is_fitted, own.is_open, own.n_asked = 0, 0, 0, 0, n
    _remember(lanes, k, bests)


@_compiled
def ask_dense(lanes, k, normal):
    """Draw the particles of a generation, and choose those to evaluate; ``normal`` (n, d) are standard deviates."""
    own, drawn, numbers = lanes.own[k], lanes.points[k, DRAWN], lanes.numbers[k]
    n, d = normal.shape
    draw(lanes, k, normal)
    own.is_predicted, own.n_asked = 0, n
    for i in range(n):
        numbers[ASKED, i], numbers[MEASURED, i] = i, np.nan
    is_new = not own.is_fitted or own.law_generation - own.fit_generation >= generations_between_fits(d)
    if is_new:
        own.is_fitted = 1 if own.has_model and is_due(own) and fit(lanes, k) else 0
    if not own.is_fitted or not is_due(own):
        return
    own.is_predicted = 1
    is_led = is_trusted(own)
    has_scout = is_led and is_new
    if has_scout:
        minimum(lanes, k, drawn[n - 1])
    u, inside = np.empty(d), np.empty(d)
    for i in range(n):
        for j in range(d):
            inside[j] = min(max(drawn[i, j], 0.0), 1.0)
        numbers[PREDICTED, i] = predict(lanes, k, inside, u)
    if is_led:
        promising = ranked(numbers[PREDICTED, :n])
        own.n_asked = min(n, max(2, math.ceil(_EVALUATED * n)))
        filled = 0
        if has_scout:
            numbers[ASKED, 0] = n - 1
            filled = 1
        for i in range(n):
            if filled < own.n_asked and not (has_scout and promising[i] == n - 1):
                numbers[ASKED, filled] = promising[i]
                filled += 1


@_compiled
def tell_dense(lanes, k, points, values, steps):
    """Complete the generation, or open it again if the model was wrong; then learn.

    ``points`` (m, d) were asked for and have these ``values`` (m,); ``steps`` (n, d) is space.
    """
    own, numbers = lanes.own[k], lanes.numbers[k]
    m = own.n_asked
    for i in range(m):
        particle = int(numbers[ASKED, i])
        numbers[MEASURED, particle] = np.inf if math.isnan(values[i]) else values[i]
        record(lanes, k, particle, points[i], values[i])
    _remember(lanes, k, values)
    if not own.is_predicted:
        own.trust_wait = max(0, own.trust_wait - 1)
    elif not own.is_open:
        predicted, measured = np.empty(m), np.empty(m)
        for i in range(m):
            particle = int(numbers[ASKED, i])
            predicted[i], measured[i] = numbers[PREDICTED, particle], numbers[MEASURED, particle]
        after_test(own, predicted, measured)
        if m < own.n:
            if not is_trusted(own):
                _open_again(own, numbers)
                return
            _complete(numbers, own.n, predicted, measured)
    own.is_fitted = 1 if own.is_predicted and not own.is_open else 0
    own.is_open = 0
    _learn(lanes, k, steps)


@_compiled
def record(lanes, k, particle, x, value):
    """A particle was evaluated: its best moves only if the new point is better."""
    points, numbers = lanes.points[k], lanes.numbers[k]
    is_better = value < numbers[BEST_VALUE, particle]
    numbers[VALUE, particle] = value
    numbers[AGE, particle] = 0 if is_better else numbers[AGE, particle] + 1
    for j in range(len(x)):
        points[POSITION, particle, j] = x[j]
    if is_better:
        numbers[BEST_VALUE, particle] = value
        for j in range(len(x)):
            points[BEST, particle, j] = x[j]


@_compiled
def _remember(lanes, k, values):
    """Keep the points that were asked for, for the model; as many as it needs are kept."""
    own, known, drawn = lanes.own[k], lanes.known[k], lanes.points[k, DRAWN]
    d, m = drawn.shape[1], own.n_asked
    if own.first_known + own.n_known + m > len(known):
        for i in range(own.n_known):
            for j in range(d + 1):
                known[i, j] = known[own.first_known + i, j]
        own.first_known = 0
    for i in range(m):
        if values[i] < _FIRST_INFEASIBLE:
            at, particle = own.first_known + own.n_known, int(lanes.numbers[k, ASKED, i])
            for j in range(d):
                known[at, j] = min(max(drawn[particle, j], 0.0), 1.0)
            known[at, d] = values[i]
            own.n_known += 1
    kept = max(3 * points_for(n_coefficients(d)), 4 * m)
    if own.n_known > kept:
        own.first_known += own.n_known - kept
        own.n_known = kept


@_compiled
def _open_again(own, numbers):
    """Ask for the particles that were left out."""
    own.is_open, own.n_asked = 1, 0
    for i in range(own.n):
        if math.isnan(numbers[MEASURED, i]):
            numbers[ASKED, own.n_asked] = i
            own.n_asked += 1


@_compiled
def _complete(numbers, n, predicted, measured):
    """Particles that were not measured get predictions, corrected by the median error."""
    error, least = np.empty(len(measured)), np.inf
    for i in range(len(measured)):
        error[i], least = measured[i] - predicted[i], min(least, measured[i])
    shift = median(error)
    for i in range(n):
        if math.isnan(numbers[MEASURED, i]):
            numbers[MEASURED, i] = max(numbers[PREDICTED, i] + shift, least)


@_compiled
def _learn(lanes, k, steps):
    """The law after a generation all of whose particles have a value, measured or predicted."""
    own, lists, drawn = lanes.own[k], lanes.lists[k], lanes.points[k, DRAWN]
    n, d = steps.shape
    values = lanes.numbers[k, MEASURED, :n]
    ranking = ranked(values)
    worst = values[ranking[n - 1]]
    far, is_outside = np.zeros(n), False
    for i in range(n):
        for j in range(d):
            x = drawn[i, j]
            outside = x if x < 0 else x - 1 if x > 1 else 0.0
            if outside != 0:
                is_outside = True
                far[i] += (outside / own.scale) ** 2 / lanes.matrices[k, COVARIANCE, j, j] / d
    if is_outside:
        apart = values[ranking[_nearest_rank(0.75, n)]] - values[ranking[_nearest_rank(0.25, n)]]
        lists[RANGES, own.n_ranges % _RECENT] = apart if math.isfinite(apart) else 0.0
        own.n_ranges += 1
        usual = median(lists[RANGES, : min(own.n_ranges, _RECENT)])
        for i in range(n):
            far[i] = values[i] + usual * far[i]
        ranking = ranked(far)  # (A4)
    own.apart = worst - values[ranking[0]]
    if math.isnan(own.apart):
        own.apart = np.inf
    lists[BESTS, own.generations] = values[ranking[0]]
    lists[MEDIANS, own.generations] = values[ranking[n // 2]]
    own.generations += 1
    learn(lanes, k, ranking, steps)


@_compiled
def _nearest_rank(share, n):
    """The rank of a quantile; of two that are as near, the even one."""
    return int(np.rint(share * (n - 1)))


@_compiled
def end_of_dense(lanes, k):
    """Whether the search is over: it goes on, has arrived, or its cloud has grown too wide."""
    own, lists = lanes.own[k], lanes.lists[k]
    n, d, done = own.n, lanes.vectors.shape[2], own.generations
    recent = 10 + 30 * d // n
    if done >= recent:
        lowest, highest = np.inf, -np.inf
        for g in range(done - recent, done):
            lowest, highest = min(lowest, lists[BESTS, g]), max(highest, lists[BESTS, g])
        apart = max(highest - lowest, own.apart)
        if apart <= max(_ROUNDING * abs(lists[BESTS, done - 1]), own.negligible):
            return ARRIVED
    widest, drift = longest(lanes, k), 0.0
    for along in lanes.vectors[k, PATH]:
        drift = max(drift, own.scale * abs(along))
    if max(widest, drift) < _NARROWEST * own.spread:
        return ARRIVED
    if own.is_singular:
        return ARRIVED
    if widest > _WIDEST * own.spread:
        return GREW
    if done > 100 + 150 * (d + 3) ** 2 / math.sqrt(n):
        return ARRIVED
    return ARRIVED if done % _EVERY == 0 and _stagnates(lists, done, n, d) else GOES_ON


@_compiled
def _stagnates(lists, done, n, d):
    """Whether neither bests nor medians have fallen: the last third is compared with the first."""
    window = int(120 + 30 * d / n + 0.2 * done)
    if done <= window:
        return False
    third = int(0.3 * window)
    for row in (BESTS, MEDIANS):
        now, before = lists[row, done - third : done], lists[row, done - window : done - window + third]
        if median(now) < median(before):
            return False
    return True
