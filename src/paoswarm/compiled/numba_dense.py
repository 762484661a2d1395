"""The dense adaptive swarm for numba: its generations and its ends.

It follows `paoswarm.algorithms.dense_pao` and `paoswarm.algorithms.dense_ends` step by step. A function that changes a
swarm changes the arrays of its lane.
"""

from __future__ import annotations

import math

import numba
import numpy as np

from paoswarm.algorithms import dense_ends, dense_pao
from paoswarm.compiled.numba_law import begin_law, draw, learn, longest
from paoswarm.compiled.numba_linear import ranked
from paoswarm.compiled.numba_model import (
    fit,
    generations_between_fits,
    is_due,
    is_trusted,
    minimum,
    n_coefficients,
    points_for,
    predict,
    test,
)
from paoswarm.core import order

GOES_ON, ARRIVED, GREW = range(3)  # how a search stands
_EVALUATED, _RECENT = dense_pao._EVALUATED, dense_pao._RECENT
_ROUNDING, _NARROWEST, _WIDEST, _EVERY = (
    dense_ends._ROUNDING,
    dense_ends._NARROWEST,
    dense_ends._WIDEST,
    dense_ends._EVERY,
)
_FIRST_INFEASIBLE = order._FIRST_INFEASIBLE  # no objective has such values

_compiled = numba.njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract"})


@_compiled
def begin_dense(lane, low, high):
    """A round cloud around the best point of a first swarm."""
    own, swarm = lane.own[0], lane.swarm
    n, d = swarm.position.shape
    swarm.drawn[:] = (swarm.best_position - low) / (high - low)
    begin_law(lane, swarm.drawn[np.argmin(swarm.best_value)], own.spread)
    own.agreeing, own.pairs, own.trust_wait, own.trust_period = 0.0, 0.0, 0, 1
    own.generations, own.n_ranges, own.apart = 0, 0, np.inf
    finite = swarm.best_value[swarm.best_value < _FIRST_INFEASIBLE]
    first = np.median(finite) - finite.min() if len(finite) else 0.0
    own.negligible = 1e-16 * first if np.isfinite(first) else 0.0
    own.n_known, own.first_known, own.is_fitted, own.is_open = 0, 0, 0, 0
    swarm.asked[:] = np.arange(n)
    own.n_asked = n
    _remember(lane, swarm.best_value)


@_compiled
def ask_dense(lane, normal):
    """Draw the particles of a generation, and choose those to evaluate; ``normal`` (n, d) are standard deviates."""
    own, swarm = lane.own[0], lane.swarm
    n, d = swarm.drawn.shape
    draw(lane, normal)
    swarm.measured[:] = np.nan
    own.is_predicted, own.is_led, own.n_asked = 0, 0, n
    for i in range(n):
        swarm.asked[i] = i
    is_new = not own.is_fitted or own.law_generation - own.fit_generation >= generations_between_fits(d)
    if is_new:
        own.is_fitted = 1 if own.has_model and is_due(own) and fit(lane) else 0
    if not own.is_fitted or not is_due(own):
        return
    own.is_predicted = 1
    own.is_led = 1 if is_trusted(own) else 0
    if own.is_led and is_new:
        minimum(lane, swarm.drawn[n - 1])  # the scout
    u, inside = np.empty(d), np.empty(d)
    for i in range(n):
        for j in range(d):
            inside[j] = min(max(swarm.drawn[i, j], 0.0), 1.0)
        swarm.predicted[i] = predict(lane, inside, u)
    if own.is_led:
        promising = ranked(swarm.predicted)
        own.n_asked = min(n, max(2, math.ceil(_EVALUATED * n)))
        filled = 0
        if is_new:
            swarm.asked[0] = n - 1
            filled = 1
        for i in range(n):
            if filled < own.n_asked and not (is_new and promising[i] == n - 1):
                swarm.asked[filled] = promising[i]
                filled += 1


@_compiled
def tell_dense(lane, points, values, steps):
    """Complete the generation, or open it again if the model was wrong; then learn.

    ``points`` (m, d) were asked for and have these ``values`` (m,); ``steps`` (n, d) is space.
    """
    own, swarm = lane.own[0], lane.swarm
    m = own.n_asked
    for i in range(m):
        particle = swarm.asked[i]
        swarm.measured[particle] = np.inf if np.isnan(values[i]) else values[i]
        record(swarm, particle, points[i], values[i])
    _remember(lane, values)
    if not own.is_predicted:
        own.trust_wait = max(0, own.trust_wait - 1)
    elif not own.is_open:
        predicted, measured = np.empty(m), np.empty(m)
        for i in range(m):
            predicted[i], measured[i] = swarm.predicted[swarm.asked[i]], swarm.measured[swarm.asked[i]]
        test(own, predicted, measured)
        if m < len(swarm.measured):
            if not is_trusted(own):
                _open_again(lane)
                return
            _complete(swarm, predicted, measured)
    own.is_fitted = 1 if own.is_predicted and not own.is_open else 0
    own.is_open = 0
    _learn(lane, steps)


@_compiled
def record(swarm, particle, x, value):
    """A particle was evaluated: its best moves only if the new point is better."""
    swarm.position[particle] = x
    swarm.value[particle] = value
    swarm.age[particle] += 1
    if value < swarm.best_value[particle]:
        swarm.best_position[particle] = x
        swarm.best_value[particle] = value
        swarm.age[particle] = 0


@_compiled
def _remember(lane, values):
    """Keep the points that were asked for, for the model; as many as it needs are kept."""
    own, swarm, known = lane.own[0], lane.swarm, lane.known
    d = swarm.drawn.shape[1]
    m = own.n_asked
    if own.first_known + own.n_known + m > len(known.f):
        for i in range(own.n_known):
            known.x[i], known.f[i] = known.x[own.first_known + i], known.f[own.first_known + i]
        own.first_known = 0
    for i in range(m):
        if values[i] < _FIRST_INFEASIBLE:
            at = own.first_known + own.n_known
            for j in range(d):
                known.x[at, j] = min(max(swarm.drawn[swarm.asked[i], j], 0.0), 1.0)
            known.f[at] = values[i]
            own.n_known += 1
    kept = max(3 * points_for(n_coefficients(d)), 4 * m)
    if own.n_known > kept:
        own.first_known += own.n_known - kept
        own.n_known = kept


@_compiled
def _open_again(lane):
    """Ask for the particles that were left out."""
    own, swarm = lane.own[0], lane.swarm
    own.is_open, own.n_asked = 1, 0
    for i in range(len(swarm.measured)):
        if np.isnan(swarm.measured[i]):
            swarm.asked[own.n_asked] = i
            own.n_asked += 1


@_compiled
def _complete(swarm, predicted, measured):
    """Particles that were not measured get predictions, corrected by the median error."""
    shift = np.median(measured - predicted)
    least = measured.min()
    for i in range(len(swarm.measured)):
        if np.isnan(swarm.measured[i]):
            swarm.measured[i] = max(swarm.predicted[i] + shift, least)


@_compiled
def _learn(lane, steps):
    """The law after a generation all of whose particles have a value, measured or predicted."""
    own, swarm, course, values = lane.own[0], lane.swarm, lane.course, lane.swarm.measured
    n, d = swarm.drawn.shape
    ranking = ranked(values)
    far = np.zeros(n)
    is_outside = False
    for i in range(n):
        for j in range(d):
            x = swarm.drawn[i, j]
            outside = x if x < 0 else x - 1 if x > 1 else 0.0
            if outside != 0:
                is_outside = True
                far[i] += (outside / own.scale) ** 2 / lane.law.covariance[j, j] / d
    if is_outside:
        low, high = values[ranking[_nearest_rank(0.25, n)]], values[ranking[_nearest_rank(0.75, n)]]
        course.ranges[own.n_ranges % _RECENT] = high - low if np.isfinite(high - low) else 0.0
        own.n_ranges += 1
        usual = np.median(course.ranges[: min(own.n_ranges, _RECENT)])
        ranking = ranked(values + usual * far)  # (A4)
    course.bests[own.generations] = values[ranking[0]]
    course.medians[own.generations] = values[ranking[n // 2]]
    own.apart = values.max() - values[ranking[0]]
    if np.isnan(own.apart):
        own.apart = np.inf
    own.generations += 1
    learn(lane, ranking, steps)


@_compiled
def _nearest_rank(share, n):
    """The rank of a quantile, of two that are as near the even one."""
    return int(np.rint(share * (n - 1)))


@_compiled
def end_of_dense(lane):
    """Whether the search is over: it goes on, has arrived, or its cloud has grown too wide."""
    own, law, course = lane.own[0], lane.law, lane.course
    n, d, done = own.n, len(law.centre), own.generations
    recent = 10 + 30 * d // n
    if done >= recent:
        bests = course.bests[done - recent : done]
        apart = max(bests.max() - bests.min(), own.apart)
        if apart <= max(_ROUNDING * abs(bests[-1]), own.negligible):
            return ARRIVED
    widest = longest(lane)
    if max(widest, own.scale * np.abs(law.path).max()) < _NARROWEST * own.spread:
        return ARRIVED
    if own.is_singular:
        return ARRIVED
    if widest > _WIDEST * own.spread:
        return GREW
    if done > 100 + 150 * (d + 3) ** 2 / math.sqrt(n):
        return ARRIVED
    return ARRIVED if done % _EVERY == 0 and _stagnates(course, done, n, d) else GOES_ON


@_compiled
def _stagnates(course, done, n, d):
    """Whether neither bests nor medians have fallen: the last third is compared with the first."""
    window = int(120 + 30 * d / n + 0.2 * done)
    if done <= window:
        return False
    third = int(0.3 * window)
    for values in (course.bests, course.medians):
        if np.median(values[done - third : done]) < np.median(values[done - window : done - window + third]):
            return False
    return True
