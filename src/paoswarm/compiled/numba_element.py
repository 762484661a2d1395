"""The element-wise adaptive swarm for numba; it follows `paoswarm.algorithms.element_pao` step by step.

Every function of ``lanes`` is about the search in lane ``k``, whose arrays it changes.
"""

from __future__ import annotations

import math

import numpy as np

from paoswarm.algorithms import element_pao
from paoswarm.algorithms.dense_progress import GOES_ON
from paoswarm.compiled.numba_dense import record
from paoswarm.compiled.numba_lanes import AGE, ASKED, BEST, BEST_VALUE, DRAWN, POSITION, RATE, RATES, STEP, STEPS, VALUE
from paoswarm.compiled.numba_linear import ranked
from paoswarm.compiled.numba_noise import generation_key, philox
from paoswarm.compiled.one_text import inner
from paoswarm.core import dynamics, order

_DAMPING, _FREQUENCY, _LONGEST = element_pao.DAMPING, element_pao.FREQUENCY, element_pao.LONGEST
_FIRST_STEP, _FIRST_RATE = element_pao.FIRST_STEP, element_pao.FIRST_RATE
_STEP_WIDTH, _RATE_WIDTH = element_pao.STEP_WIDTH, element_pao.RATE_WIDTH
_BEST, _REPLACED, _SMALLEST, _TRIES = (
    element_pao.BEST,
    element_pao.REPLACED,
    element_pao.SMALLEST,
    element_pao.TRIES,
)
_PERIODS = element_pao.PERIODS
_NODES, _WEIGHTS = dynamics.NODES, dynamics.WEIGHTS
_DELTA = math.sqrt((1 - _DAMPING) * (1 + _DAMPING))
_FIRST_INFEASIBLE = order.FIRST_INFEASIBLE
_EPS = float(np.finfo(float).eps)
_UNIT = 2.0**-32
_U32 = np.uint32

_compiled = inner
ARRIVED = -1


@_compiled
def begin_element(lanes, k):
    """Nothing is learnt yet."""
    own = lanes.own[k]
    for period in range(_PERIODS):
        lanes.lists[k, STEPS, period], lanes.lists[k, RATES, period] = _FIRST_STEP, _FIRST_RATE
    own.period, own.n_replaced, own.evaluations, own.stalled = 0, 0, own.n, 0


@_compiled
def ask_element(lanes, k, key, low, high, normal, uniform):
    """Draw one point for each particle.

    ``normal`` and ``uniform`` (n, d) are deviates; those of particles follow from the ``key`` of the search (E5).
    """
    own, numbers, lists = lanes.own[k], lanes.numbers[k], lanes.lists[k]
    bests, drawn, replaced = lanes.points[k, BEST], lanes.points[k, DRAWN], lanes.replaced[k]
    n, d = normal.shape
    word = 4 * own.drawn_generations
    for_particle, for_step = generation_key(key, word + 2), generation_key(key, word + 3)
    ranking = ranked(numbers[BEST_VALUE, :n])
    leader = ranking[0]
    n_leaders = max(2, int(np.rint(_BEST * n)))
    own.n_asked = n
    for i in range(n):
        numbers[ASKED, i] = i
        a, b = philox(_U32(4 * i), key[0], for_particle)
        period, lead = int(a * _UNIT * _PERIODS), ranking[int(b * _UNIT * n_leaders)]
        a, b = philox(_U32(4 * i + 1), key[0], for_particle)
        other = (i + 1 + int(a * _UNIT * (n - 1))) % n
        third = int(b * _UNIT * (n + own.n_replaced - 2))
        # The third is neither the particle nor the second: number those that are left.
        if third >= min(i, other):
            third += 1
        if third >= max(i, other):
            third += 1
        a, b = philox(_U32(4 * i + 2), key[0], for_particle)
        always = int(a * _UNIT * d)
        a, b = philox(_U32(4 * i + 3), key[0], for_particle)
        deviate = math.sqrt(-2 * math.log((a >> _U32(1)) * 2.0**-31 + _UNIT)) * math.cos(2 * math.pi * _UNIT * b)
        rate = min(max(lists[RATES, period] + _RATE_WIDTH * deviate, 0.0), 1.0)
        step = _first_positive(lists[STEPS, period], i, key, for_step)
        numbers[RATE, i], numbers[STEP, i] = rate, step
        stays, shaken = law_from_rest(step)
        shaken *= math.sqrt(own.noise)
        for j in range(d):
            x = bests[i, j]
            if j == always or uniform[i, j] < rate:
                away = bests[third, j] if third < n else replaced[third - n, j]
                attractor = bests[lead, j] + bests[other, j] - away
                x = attractor + stays * (x - attractor)  # (A7)
                x += shaken * abs(bests[i, j] - bests[leader, j]) * normal[i, j]
                # Beyond a bound: halfway between it and the best, so that a bound stays reachable but is no trap.
                if x < low[j]:
                    x = (low[j] + bests[i, j]) / 2
                elif x > high[j]:
                    x = (high[j] + bests[i, j]) / 2
            drawn[i, j] = x


@_compiled
def _first_positive(learnt, i, key, for_step):
    """A time step: the first positive of several draws around what was learnt, no longer than the longest."""
    for c in range(_TRIES):
        word = philox(_U32(_TRIES * i + c), key[0], for_step)[0]
        step = learnt + _STEP_WIDTH * math.tan(math.pi * (word * _UNIT - 0.5))
        if step > 0:
            return min(step, _LONGEST)
    return _FIRST_STEP


@_compiled
def law_from_rest(step):
    """A11 and the root of Sigma11 of the exact transition of this length; see `paoswarm.core.dynamics`."""
    tau = _FREQUENCY * step
    x = _DELTA * tau
    swing = math.sin(x) / x if x != 0 else 1.0
    stays = math.exp(-_DAMPING * tau) * (math.cos(x) + _DAMPING * tau * swing)
    total = 0.0
    for k in range(len(_NODES)):
        t = tau * _NODES[k]
        reach = math.exp(-_DAMPING * t) * math.sin(_DELTA * t) / _DELTA
        total += _WEIGHTS[k] * reach * reach
    return stays, math.sqrt(tau * total / _FREQUENCY**3)


@_compiled
def tell_element(lanes, k, points, values):
    """Keep the better of each pair, learn from the gains, and shrink."""
    own, numbers, replaced = lanes.own[k], lanes.numbers[k], lanes.replaced[k]
    n, d = points.shape
    before, old = numbers[BEST_VALUE, :n].copy(), lanes.points[k, BEST, :n].copy()
    for i in range(n):
        record(lanes, k, i, points[i], values[i])
    own.evaluations += n
    own.stalled = 0 if _lowest(numbers[BEST_VALUE, :n]) < _lowest(before) else own.stalled + 1
    _learn(lanes, k, before, old)
    done = own.evaluations / (own.horizon * d)
    remain = max(_SMALLEST, int(np.rint(own.n_first + (_SMALLEST - own.n_first) * done)))
    if remain < n:
        _reduce(lanes, k, n, remain)
    kept = int(_REPLACED * own.n)
    if own.n_replaced > kept:
        lost = own.n_replaced - kept
        for i in range(kept):
            for j in range(d):
                replaced[i, j] = replaced[i + lost, j]
        own.n_replaced = kept


@_compiled
def _lowest(values):
    lowest = np.inf
    for value in values:
        lowest = min(lowest, value)
    return lowest


@_compiled
def _reduce(lanes, k, n, remain):
    """Keep the best particles only, best first."""
    ranking = ranked(lanes.numbers[k, BEST_VALUE, :n])
    numbers, points = lanes.numbers[k].copy(), lanes.points[k].copy()
    for i in range(remain):
        one = ranking[i]
        for row in (VALUE, BEST_VALUE, AGE):
            lanes.numbers[k, row, i] = numbers[row, one]
        for row in (POSITION, BEST):
            for j in range(points.shape[2]):
                lanes.points[k, row, i, j] = points[row, one, j]
    lanes.own[k].n = remain


@_compiled
def _learn(lanes, k, before, old):
    """Gain-weighted Lehmer means (A8) of what succeeded; ``before`` and ``old`` are the bests before the step."""
    own, numbers, lists = lanes.own[k], lanes.numbers[k], lanes.lists[k]
    n, d = old.shape
    gain = np.zeros(n)
    largest, count = 0.0, 0
    for i in range(n):
        if numbers[AGE, i] == 0:
            count += 1
            gained = before[i] - numbers[BEST_VALUE, i]
            gain[i] = gained if math.isfinite(gained) else 0.0
            if before[i] < _FIRST_INFEASIBLE:
                largest = max(largest, gain[i])
    if count == 0:
        return
    total = 0.0
    for i in range(n):
        if gain[i] != 0 and not before[i] < _FIRST_INFEASIBLE:
            gain[i] = largest if largest > 0 else 1.0
        total += gain[i]
    step, step_squared, rate, rate_squared = 0.0, 0.0, 0.0, 0.0
    for i in range(n):
        if numbers[AGE, i] == 0:
            weight = gain[i] / total if total > 0 else 1 / count
            step += weight * numbers[STEP, i]
            step_squared += weight * numbers[STEP, i] ** 2
            rate += weight * numbers[RATE, i]
            rate_squared += weight * numbers[RATE, i] ** 2
            for j in range(d):
                lanes.replaced[k, own.n_replaced, j] = old[i, j]
            own.n_replaced += 1
    lists[STEPS, own.period] = step_squared / step if step > 0 else 0.0
    lists[RATES, own.period] = rate_squared / rate if rate > 0 else 0.0
    own.period = (own.period + 1) % _PERIODS


@_compiled
def leader_of(lanes, k):
    """The number of the particle with the best point."""
    bests, leader = lanes.numbers[k, BEST_VALUE], 0
    for i in range(lanes.own[k].n):
        if bests[i] < bests[leader]:
            leader = i
    return leader


@_compiled
def reach(lanes, k, width):
    """Root mean square distance of the particles from the best point, in widths of the bounds."""
    points, n, d = lanes.points[k], lanes.own[k].n, len(width)
    leader = leader_of(lanes, k)
    total = 0.0
    for i in range(n):
        for j in range(d):
            total += ((points[POSITION, i, j] - points[BEST, leader, j]) / width[j]) ** 2
    return math.sqrt(total / (n * d))


@_compiled
def end_of_element(lanes, k, width):
    """Whether the bests are equal, or progress has ended."""
    own, d = lanes.own[k], len(width)
    lowest, highest = np.inf, -np.inf
    for value in lanes.numbers[k, BEST_VALUE, : own.n]:
        lowest, highest = min(lowest, value), max(highest, value)
    is_flat = highest - lowest <= 16 * _EPS * abs(lowest)
    is_over = own.evaluations > 1.1 * own.horizon * d
    if is_flat or is_over or own.stalled > 100 + 10 * d or reach(lanes, k, width) < 1e-11:
        return ARRIVED
    return GOES_ON
