"""Whole adaptive runs for numba: one run is one program, with the objective inside.

The objective comes in as a pointer to compiled code, so these functions are compiled once and kept on disk. `advance`
moves a run on by some generations. So a run can be looked at, and stopped, between calls.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numba
import numpy as np

from paoswarm.compiled import numba_noise as noise
from paoswarm.compiled.numba_agreement import is_settled
from paoswarm.compiled.numba_dense import ask_dense, begin_dense, end_of_dense, tell_dense
from paoswarm.compiled.numba_element import ask_element, begin_element, is_element_over, tell_element
from paoswarm.compiled.numba_lanes import (
    AGE,
    ASKED,
    BEST,
    BEST_VALUE,
    DRAWN,
    POSITION,
    VALUE,
    copy,
    is_full,
)
from paoswarm.compiled.numba_searches import charge, follow, judge, turn
from paoswarm.compiled.program import CONVERGED, FAILED, RUNNING, STAGNATED, TARGET

MAXFEV, MAXITER = 4, 5  # as in `Status`
BY_ITS_OWN_RULE = 4  # as in `Rule`
_U32 = np.uint32
_UNIT = 2.0**-32

_compiled = numba.njit(nogil=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)


class Limits(NamedTuple):
    """What ends a run; zero or infinity for what does not."""

    maxfev: int
    maxiter: int
    target: float
    stagnation: int
    may_agree: bool  # whether it ends when its searches agree
    is_single: bool  # one search that is not started again


class Room(NamedTuple):
    """Space for one generation."""

    words: Any  # (2, n d)
    deviates: Any  # (2, n d) in single precision
    normal: Any  # (n, d)
    uniform: Any  # (n, d)
    points: Any  # (n, d)
    values: Any  # (n,)


@numba.njit(nogil=True, cache=True, error_model="numpy")
def advance(fun, low, high, limits, key, given, n_first, run, generations):
    """Move a run on by so many generations, or to its end, or until it wants more room (`numba_lanes.with_room`).

    ``given`` are the first points (n, d); if there are none, the first ``n_first`` are a Latin hypercube.
    """
    lanes, facts, width = run.lanes, run.facts[0], high - low
    room = _room(lanes.numbers.shape[2], len(low))
    for _ in range(generations):
        if facts.status != RUNNING or is_full(run):
            break
        k = turn(run)
        is_new, is_first = not lanes.own[k].is_used, facts.n_begun == 0
        left = limits.maxfev - facts.nfev
        if is_new:
            own_key = search_key(key, facts.n_begun)
            n_asked = follow(run, k, len(low), _chances(own_key), n_first)
            m = min(n_asked, left)
            if m > len(room.values):
                facts.wanted = max(m, 2 * len(room.values))
                break
            lanes.own[k].is_used = 1
            facts.n_begun += 1
            if is_first and len(given):
                for i in range(m):
                    copy(given[i], room.points[i])
            else:
                first_points(own_key, n_asked, low, high, room.points[:m])
        else:
            n_asked = ask(lanes, k, search_key(key, lanes.own[k].search), low, high, room)
            m = min(n_asked, left)
        points, values = room.points[:m], room.values[:m]
        fun(points.ctypes, m, values.ctypes)
        _count(run, points, values, is_first)
        if m == n_asked:
            charge(run, k, points, values)
            if is_new:
                begin(lanes, k, points, values, low, high)
            else:
                tell(lanes, k, points, values, room)
                if not limits.is_single:
                    judge(run, k, low, width)
        _see_whether_it_ends(run, k, width, limits)


@_compiled
def _room(n, d):
    size = n * d
    return Room(
        np.empty((2, size), dtype=np.uint32), np.empty((2, size), dtype=np.float32), np.empty((n, d)),
        np.empty((n, d)), np.empty((n, d)), np.empty(n),
    )  # fmt: skip


@_compiled
def search_key(key, search):
    """The key of a search (E4)."""
    own = np.empty(2, dtype=np.uint32)
    own[0] = key[0]
    own[1] = noise.hashed(_U32(key[1] ^ noise.hashed(_U32(search + 1))))
    return own


@_compiled
def _chances(key):
    """Two uniform numbers that say how a search begins."""
    a, b = noise.philox(_U32(0), key[0], noise.generation_key(key, 1))
    return a * _UNIT, b * _UNIT


@_compiled
def first_points(key, n, low, high, points):
    """The first of ``n`` points of a Latin hypercube (E3), as many as ``points`` has rows."""
    half = 1
    while 4**half < n:
        half += 1
    words, numbers = np.empty((2, n * len(low)), dtype=np.uint32), np.empty((2, n), dtype=np.uint32)
    whole, keys = np.empty((1, n, len(low))), np.empty((1, 2), dtype=np.uint32)
    copy(key, keys[0])
    cipher = np.empty(4**half, dtype=np.uint32)
    noise.first_points(keys, half, low, high, words[0], words[1], numbers[0], numbers[1], cipher, whole)
    for i in range(len(points)):
        copy(whole[0, i], points[i])


@_compiled
def begin(lanes, k, points, values, low, high):
    """Make the first swarm of a search from evaluated points."""
    own, numbers = lanes.own[k], lanes.numbers[k]
    own.n, own.n_first, own.is_open = len(values), len(values), 0
    for i in range(own.n):
        value = np.inf if math.isnan(values[i]) else values[i]
        numbers[VALUE, i], numbers[BEST_VALUE, i], numbers[AGE, i] = value, value, 0
        copy(points[i], lanes.points[k, POSITION, i])
        copy(points[i], lanes.points[k, BEST, i])
    if own.is_dense:
        begin_dense(lanes, k, low, high)
    else:
        begin_element(lanes, k)


@_compiled
def ask(lanes, k, key, low, high, room):
    """Fill the first points of the room with those that a search wants evaluated; return how many."""
    own = lanes.own[k]
    if not own.is_open:
        normal, uniform = room.normal[: own.n], room.uniform[: own.n]
        own.drawn_generations += 1
        word = 4 * own.drawn_generations
        _draw_normals(key, word, room, normal)
        if own.is_dense:
            ask_dense(lanes, k, normal)
        else:
            _draw_uniforms(key, word + 1, uniform)
            ask_element(lanes, k, key, low, high, normal, uniform)
    for i in range(own.n_asked):
        x = lanes.points[k, DRAWN, int(lanes.numbers[k, ASKED, i])]
        for j in range(len(low)):
            place = low[j] + x[j] * (high[j] - low[j]) if own.is_dense else x[j]
            room.points[i, j] = min(max(place, low[j]), high[j])
    return own.n_asked


@_compiled
def _draw_normals(key, word, room, normal):
    """Normal deviates: the first of all pairs, then the second (E5)."""
    n, d = normal.shape
    pairs = (n * d + 1) // 2
    first, second = room.deviates[0, :pairs], room.deviates[1, :pairs]
    noise.normals(key, word, 0, room.words[0, :pairs], room.words[1, :pairs], first, second)
    for i in range(n):
        for j in range(d):
            e = i * d + j
            normal[i, j] = first[e] if e < pairs else second[e - pairs]


@_compiled
def _draw_uniforms(key, word, uniform):
    """Uniform deviates in the same order."""
    n, d = uniform.shape
    pairs = (n * d + 1) // 2
    mixed = noise.generation_key(key, word)
    for e in range(pairs):
        a, b = noise.philox(_U32(e), key[0], mixed)
        uniform[e // d, e % d] = a * _UNIT
        if e + pairs < n * d:
            uniform[(e + pairs) // d, (e + pairs) % d] = b * _UNIT


@_compiled
def tell(lanes, k, points, values, room):
    """The search after its points were evaluated."""
    own = lanes.own[k]
    if own.is_dense:
        tell_dense(lanes, k, points, values)
    else:
        tell_element(lanes, k, points, values)


@_compiled
def _count(run, points, values, is_first):
    """The best point, the counts and the history after points were evaluated."""
    facts = run.facts[0]
    if is_first:
        copy(points[0], run.x)
    else:
        facts.stale += 1
        facts.nit += 1
    facts.nfev += len(values)
    for i in range(len(values)):
        if values[i] < facts.value:
            facts.value, facts.stale = values[i], 0
            copy(points[i], run.x)
        elif math.isnan(values[i]):
            facts.n_failed += 1
    run.history[facts.n_history] = facts.value
    facts.n_history += 1


@_compiled
def _see_whether_it_ends(run, k, width, limits):
    """What ends the run, if anything; the first reason that holds counts, in the order of `Status`."""
    facts = run.facts[0]
    if limits.is_single:
        is_dense = run.lanes.own[k].is_dense
        stands = end_of_dense(run.lanes, k) if is_dense else is_element_over(run.lanes, k, width)
        has_converged = stands != 0
    else:
        has_converged = limits.may_agree and is_settled(facts)
    facts.rule = BY_ITS_OWN_RULE if has_converged else 0
    if facts.nit == 0 and facts.value == np.inf:
        facts.status = FAILED
    elif facts.value <= limits.target:
        facts.status = TARGET
    elif has_converged:
        facts.status = CONVERGED
    elif limits.stagnation and facts.stale >= limits.stagnation:
        facts.status = STAGNATED
    elif facts.nfev >= limits.maxfev:
        facts.status = MAXFEV
    elif facts.nit >= limits.maxiter:
        facts.status = MAXITER
