"""The element-wise adaptive swarm for numba: its kernels, and the arrays of a lane on which they work.

Every function of ``lanes`` is about the search in lane ``k``, whose arrays it changes.
"""

from __future__ import annotations

import math

import numpy as np

from paoswarm.algorithms.element_pao import PERIODS, TRIES, Chances, Element, ElementSteps
from paoswarm.compiled.numba_dense import record
from paoswarm.compiled.numba_lanes import (
    AGE,
    ASKED,
    BEST,
    BEST_VALUE,
    DRAWN,
    POSITION,
    RATE,
    RATES,
    STEP,
    STEPS,
    VALUE,
    copy,
    copy_rows,
)
from paoswarm.compiled.numba_linear import ranked
from paoswarm.compiled.numba_noise import generation_key, philox
from paoswarm.compiled.one_text import element, inner

_UNIT = 2.0**-32
_U32 = np.uint32


@inner
def _memory_of(lanes, k):
    own, lists = lanes.own[k], lanes.lists[k]
    replaced = lanes.replaced[k, : own.n_replaced]
    counts = own.evaluations, own.n_first, own.stalled
    return Element(lists[STEPS, :PERIODS], lists[RATES, :PERIODS], own.period, replaced, *counts)


@inner
def _keep_memory(lanes, k, now):
    own, lists = lanes.own[k], lanes.lists[k]
    own.period, own.n_replaced = now.period, len(now.replaced)
    own.evaluations, own.n_first, own.stalled = now.evaluations, now.n_first, now.stalled
    copy(now.steps, lists[STEPS])
    copy(now.rates, lists[RATES])
    copy_rows(now.replaced, lanes.replaced[k])


@inner
def begin_element(lanes, k):
    """Nothing is learnt yet."""
    _keep_memory(lanes, k, element.first_memory(lanes.own[k].n, lanes.points.shape[3]))


@inner
def ask_element(lanes, k, key, low, high, normal, uniform):
    """Draw one point for each particle.

    ``normal`` and ``uniform`` (n, d) are deviates; those of particles follow from the ``key`` of the search (E5).
    """
    own, numbers = lanes.own[k], lanes.numbers[k]
    n = len(normal)
    bests = lanes.points[k, BEST, :n]
    ranking = ranked(numbers[BEST_VALUE, :n])
    chances = _chances(key, 4 * own.drawn_generations, normal, uniform)
    x, made = element.proposed(_memory_of(lanes, k), bests, bests[ranking[0]], ranking, chances, own.noise)
    copy_rows(element.brought_inside(x, bests, low, high), lanes.points[k, DRAWN])
    copy(made.step, numbers[STEP])
    copy(made.rate, numbers[RATE])
    own.n_asked = n
    for i in range(n):
        numbers[ASKED, i] = i


@inner
def _chances(key, word, normal, uniform):
    """The random numbers of particles; four pairs for each, and those of its time step."""
    n = len(normal)
    period, rate, always, step = np.empty(n), np.empty(n), np.empty(n), np.empty((TRIES, n))
    which = np.empty((3, n))
    for_particle, for_step = generation_key(key, word + 2), generation_key(key, word + 3)
    for i in range(n):
        a, b = philox(_U32(4 * i), key[0], for_particle)
        period[i], which[0, i] = a * _UNIT, b * _UNIT
        a, b = philox(_U32(4 * i + 1), key[0], for_particle)
        which[1, i], which[2, i] = a * _UNIT, b * _UNIT
        a, b = philox(_U32(4 * i + 2), key[0], for_particle)
        always[i] = a * _UNIT
        a, b = philox(_U32(4 * i + 3), key[0], for_particle)
        rate[i] = math.sqrt(-2 * math.log((a >> _U32(1)) * 2.0**-31 + _UNIT)) * math.cos(2 * math.pi * _UNIT * b)
        for c in range(TRIES):
            step[c, i] = philox(_U32(TRIES * i + c), key[0], for_step)[0] * _UNIT
    return Chances(period, rate, step, which, normal, uniform, always)


@inner
def tell_element(lanes, k, points, values):
    """Keep the better of each pair, learn from the gains, and shrink."""
    own, numbers = lanes.own[k], lanes.numbers[k]
    n, d = points.shape
    before, bests = numbers[BEST_VALUE, :n].copy(), lanes.points[k, BEST, :n].copy()
    for i in range(n):
        record(lanes, k, i, points[i], values[i])
    after = numbers[BEST_VALUE, :n]
    made = ElementSteps(numbers[STEP, :n], numbers[RATE, :n])
    is_better = after.min() < before.min()
    now = element.learnt(_memory_of(lanes, k), made, numbers[AGE, :n] == 0, bests, before, after, is_better)
    remain = element.size(now, own.horizon, d)
    if remain < n:
        _reduce(lanes, k, n, remain)
    _keep_memory(lanes, k, element.shortened(now, own.n))


@inner
def _reduce(lanes, k, n, remain):
    """Keep the best particles only, best first."""
    ranking = ranked(lanes.numbers[k, BEST_VALUE, :n])
    numbers, points = lanes.numbers[k].copy(), lanes.points[k].copy()
    for i in range(remain):
        one = ranking[i]
        for row in (VALUE, BEST_VALUE, AGE):
            lanes.numbers[k, row, i] = numbers[row, one]
        for row in (POSITION, BEST):
            copy(points[row, one], lanes.points[k, row, i])
    lanes.own[k].n = remain


@inner
def leader_of(lanes, k):
    """The number of the particle with the best point."""
    return np.argmin(lanes.numbers[k, BEST_VALUE, : lanes.own[k].n])


@inner
def reach(lanes, k, width):
    """Root mean square distance of the particles from the best point, in widths of the bounds."""
    points, n, d = lanes.points[k], lanes.own[k].n, len(width)
    leader = leader_of(lanes, k)
    total = 0.0
    for i in range(n):
        for j in range(d):
            total += ((points[POSITION, i, j] - points[BEST, leader, j]) / width[j]) ** 2
    return math.sqrt(total / (n * d))


@inner
def is_element_over(lanes, k, width):
    """Whether the bests are equal, or progress has ended."""
    own = lanes.own[k]
    values = lanes.numbers[k, BEST_VALUE, : own.n]
    return element.is_over(_memory_of(lanes, k), values, reach(lanes, k, width), own.horizon, len(width))
