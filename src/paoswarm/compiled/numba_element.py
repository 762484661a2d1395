"""The element-wise adaptive swarm for numba; it follows `paoswarm.algorithms.element_pao` step by step."""

from __future__ import annotations

import math

import numba
import numpy as np

from paoswarm.algorithms import element_pao
from paoswarm.compiled.numba_dense import ARRIVED, GOES_ON, record
from paoswarm.compiled.numba_lanes import PERIODS
from paoswarm.compiled.numba_linear import ranked
from paoswarm.compiled.numba_noise import generation_key, philox
from paoswarm.core import dynamics, order

_DAMPING, _FREQUENCY, _LONGEST = element_pao._DAMPING, element_pao._FREQUENCY, element_pao._LONGEST
_FIRST_STEP, _FIRST_RATE = element_pao._FIRST_STEP, element_pao._FIRST_RATE
_STEP_WIDTH, _RATE_WIDTH = element_pao._STEP_WIDTH, element_pao._RATE_WIDTH
_BEST, _REPLACED, _SMALLEST, _TRIES = (
    element_pao._BEST,
    element_pao._REPLACED,
    element_pao._SMALLEST,
    element_pao._TRIES,
)
_NODES, _WEIGHTS = dynamics._NODES, dynamics._WEIGHTS
_DELTA = math.sqrt((1 - _DAMPING) * (1 + _DAMPING))
_FIRST_INFEASIBLE = order._FIRST_INFEASIBLE
_EPS = float(np.finfo(float).eps)
_UNIT = 2.0**-32
_U32 = np.uint32

_compiled = numba.njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract"})


@_compiled
def begin_element(lane):
    """Nothing is learnt yet."""
    own, learnt = lane.own[0], lane.learnt
    learnt.steps[:], learnt.rates[:] = _FIRST_STEP, _FIRST_RATE
    own.period, own.n_replaced, own.evaluations, own.stalled = 0, 0, own.n, 0


@_compiled
def ask_element(lane, key, low, high, normal, uniform):
    """Draw one point for each particle, into ``drawn``.

    ``normal`` and ``uniform`` (n, d) are deviates; those of particles follow from the ``key`` of the search (E5).
    """
    own, swarm, learnt = lane.own[0], lane.swarm, lane.learnt
    n, d = swarm.drawn.shape
    word = 4 * own.drawn_generations
    for_particle, for_step = generation_key(key, word + 2), generation_key(key, word + 3)
    ranking = ranked(swarm.best_value)
    leader = ranking[0]
    n_leaders = max(2, int(np.rint(_BEST * n)))
    own.n_asked = n
    bests = swarm.best_position
    for i in range(n):
        swarm.asked[i] = i
        a, b = philox(_U32(4 * i), key[0], for_particle)
        period, lead = int(a * _UNIT * PERIODS), ranking[int(b * _UNIT * n_leaders)]
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
        rate = min(max(learnt.rates[period] + _RATE_WIDTH * deviate, 0.0), 1.0)
        step = _first_positive(learnt.steps[period], i, key, for_step)
        swarm.rate[i], swarm.step[i] = rate, step
        stays, shaken = law_from_rest(step)
        shaken *= math.sqrt(own.noise)
        for j in range(d):
            x = bests[i, j]
            if j == always or uniform[i, j] < rate:
                away = bests[third, j] if third < n else learnt.replaced[third - n, j]
                attractor = bests[lead, j] + bests[other, j] - away
                x = attractor + stays * (x - attractor)  # (A7)
                x += shaken * abs(bests[i, j] - bests[leader, j]) * normal[i, j]
                # Beyond a bound: halfway between it and the best, so that a bound stays reachable but is no trap.
                if x < low[j]:
                    x = (low[j] + bests[i, j]) / 2
                elif x > high[j]:
                    x = (high[j] + bests[i, j]) / 2
            swarm.drawn[i, j] = x


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
def tell_element(lane, points, values):
    """Keep the better of each pair, learn from the gains, and shrink."""
    own, swarm, learnt = lane.own[0], lane.swarm, lane.learnt
    n, d = swarm.position.shape
    before, old = swarm.best_value.copy(), swarm.best_position.copy()
    for i in range(n):
        record(swarm, i, points[i], values[i])
    own.evaluations += n
    own.stalled = 0 if swarm.best_value.min() < before.min() else own.stalled + 1
    _learn(lane, before, old)
    done = own.evaluations / (own.horizon * d)
    remain = max(_SMALLEST, int(np.rint(own.n_first + (_SMALLEST - own.n_first) * done)))
    if remain < n:
        ranking = ranked(swarm.best_value)
        position, best, value = swarm.position.copy(), swarm.best_position.copy(), swarm.value.copy()
        best_value, age = swarm.best_value.copy(), swarm.age.copy()
        for i in range(remain):
            one = ranking[i]
            swarm.position[i], swarm.best_position[i] = position[one], best[one]
            swarm.value[i], swarm.best_value[i], swarm.age[i] = value[one], best_value[one], age[one]
        own.n = remain
    kept = int(_REPLACED * own.n)
    if own.n_replaced > kept:
        lost = own.n_replaced - kept
        for i in range(kept):
            learnt.replaced[i] = learnt.replaced[i + lost]
        own.n_replaced = kept


@_compiled
def _learn(lane, before, old):
    """Gain-weighted Lehmer means (A8) of what succeeded; ``before`` and ``old`` are the bests before the step."""
    own, swarm, learnt = lane.own[0], lane.swarm, lane.learnt
    n = len(before)
    gain = np.zeros(n)
    largest, count = 0.0, 0
    for i in range(n):
        if swarm.age[i] == 0:
            count += 1
            gained = before[i] - swarm.best_value[i]
            gain[i] = gained if np.isfinite(gained) else 0.0
            if before[i] < _FIRST_INFEASIBLE:
                largest = max(largest, gain[i])
    if count == 0:
        return
    for i in range(n):  # a first finite value counts as nothing, a smaller violation as the largest gain
        if swarm.age[i] == 0 and gain[i] != 0 and not before[i] < _FIRST_INFEASIBLE:
            gain[i] = largest if largest > 0 else 1.0
    total = gain.sum()
    sums = np.zeros(4)
    for i in range(n):
        if swarm.age[i] == 0:
            weight = gain[i] / total if total > 0 else 1 / count
            sums[0] += weight * swarm.step[i]
            sums[1] += weight * swarm.step[i] ** 2
            sums[2] += weight * swarm.rate[i]
            sums[3] += weight * swarm.rate[i] ** 2
            learnt.replaced[own.n_replaced] = old[i]
            own.n_replaced += 1
    learnt.steps[own.period] = sums[1] / sums[0] if sums[0] > 0 else 0.0
    learnt.rates[own.period] = sums[3] / sums[2] if sums[2] > 0 else 0.0
    own.period = (own.period + 1) % PERIODS


@_compiled
def reach(lane, width):
    """Root mean square distance of the particles from the best point, in widths of the bounds."""
    swarm = lane.swarm
    n, d = swarm.position.shape
    leader = np.argmin(swarm.best_value)
    total = 0.0
    for i in range(n):
        for j in range(d):
            total += ((swarm.position[i, j] - swarm.best_position[leader, j]) / width[j]) ** 2
    return math.sqrt(total / (n * d))


@_compiled
def end_of_element(lane, width):
    """Whether the bests are equal, or progress has ended."""
    own, bests = lane.own[0], lane.swarm.best_value
    d = len(width)
    lowest = bests.min()
    is_flat = bests.max() - lowest <= 16 * _EPS * abs(lowest)
    is_over = own.evaluations > 1.1 * own.horizon * d
    if is_flat or is_over or own.stalled > 100 + 10 * d or reach(lane, width) < 1e-11:
        return ARRIVED
    return GOES_ON
