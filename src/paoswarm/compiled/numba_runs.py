"""Whole runs for numba: generations, objective, bests and ends in one compiled loop.

The objective and the step come in as pointers to compiled code. So these functions are compiled once, for all
objectives and swarms, and kept on disk; only the objective itself is compiled anew.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numba import types
from numba.extending import overload

from paoswarm.compiled import numba_noise as noise
from paoswarm.compiled import numba_record as record
from paoswarm.compiled.numba_options import LOOPS, loops, making_arrays
from paoswarm.compiled.program import BY_PATIENCE, BY_SPREAD, BY_VALUES, CONVERGED, FAILED, RUNNING, STAGNATED, TARGET

_BLOCK = 128  # elements whose distances are summed before it is seen whether they are already too large


@making_arrays
def first_swarms(keys, half, lower, upper, points):
    """Fill ``points`` (runs, n, d) with the first swarms of runs with these keys."""
    for r in range(len(keys)):
        noise.first_points(keys[r], half, lower, upper, points[r])


@making_arrays
def judge(rules, box, is_periodic, state):
    """See which first swarms have already come to an end."""
    for r in range(len(state[0])):
        _judge(rules, box, is_periodic, state, r, np.empty_like(state[0][0]))


@making_arrays
def advance(fun, step, keep, how, rooms, is_periodic, table, budget, box, rules, keys, generation, state, history):
    """Move runs on by as many generations as ``history`` (runs, k) has columns, or until they end.

    ``how`` are walls, scale, codes and neighbours of the step, ``rooms`` its `reach` and `room`. ``table``
    (generations or 1, n or 1, r + 7) has its coefficients; ``generation`` is the number of the first one. The ``box``
    (3, n * d) has lower and upper bounds and inverse widths, for every particle.
    """
    size, dtype = box.shape[1], box.dtype
    reach, room = rooms
    words, deviates = np.empty((2, room), dtype=np.uint32), np.empty((2, room), dtype=np.float32)
    leader, space, points = np.empty(reach, dtype=dtype), np.empty((5, size), dtype=dtype), np.empty(size)
    marks = np.empty(state[3].shape[1], dtype=np.int64)
    for r in range(len(keys)):
        _advance(
            fun, step, keep, how, is_periodic, table, budget, box[0], box[1], box[2], rules, keys[r], generation,
            state, r, history[r], leader, points, marks, words[0], words[1], deviates[0], deviates[1], space,
        )  # fmt: skip


@loops
def _judge(rules, box, is_periodic, state, r, leader):
    x, _, best, _, best_value, _, leader_value, stale, _, _, _, status, rule = state
    n = best_value.shape[1]
    d = len(leader) // n
    top = record.lowest(best_value[r])
    _tile(best[r, top * d : (top + 1) * d], leader)
    status[r], rule[r] = _ended(rules, x[r], best_value[r], leader_value[r], leader, box[2], is_periodic, stale[r])
    if leader_value[r] == np.inf:
        status[r] = FAILED


@loops
def _advance(
    fun, step, keep, how, is_periodic, table, budget, low, high, widths, rules, key, generation, state, r, history,
    leader, points, marks, first, second, d1, d2, space,
):  # fmt: skip
    """Move run ``r`` on."""
    x, v, best, value, best_value, age, leader_value, stale, nit, nfev, n_failed, status, rule = state
    walls, scale, codes, neighbours = how
    at, speed, home, known, best_known, waited = x[r], v[r], best[r], value[r], best_value[r], age[r]
    n = len(known)
    d = len(at) // n
    top = record.lowest(best_known)
    _tile(home[top * d : (top + 1) * d], leader)
    for t in range(len(history)):
        if status[r] != RUNNING or nfev[r] >= budget:
            history[t] = leader_value[r]
            continue
        moved = min(n, budget - nfev[r])
        rows = table[min(generation + t, len(table)) - 1]
        step(
            key, generation + t, rows, walls, scale, codes, neighbours, moved, at, speed, home, leader, low, high,
            known, best_known, first, second, d1, d2, space,
        )  # fmt: skip
        fun(_doubled(at, points).ctypes, moved, known.ctypes)
        record.compare(known[:moved], best_known[:moved], waited[:moved], marks[:moved])
        keep(marks.ctypes, moved, at.ctypes, home.ctypes)
        n_failed[r] += record.count_failed(known[:moved])
        before, top = top, record.lowest(best_known)
        is_better = best_known[top] < leader_value[r]
        stale[r] = 0 if is_better else stale[r] + 1
        leader_value[r] = best_known[top]
        if is_better or top != before:
            _tile(home[top * d : (top + 1) * d], leader)
        history[t] = leader_value[r]
        nit[r] += 1
        nfev[r] += moved
        status[r], rule[r] = _ended(rules, at, best_known, leader_value[r], leader, widths, is_periodic, stale[r])


def _doubled(at: Any, room: Any) -> Any:
    """Positions in double precision, in the room for them unless they already are."""


@overload(_doubled)
def _doubled_(at, room):
    if at.dtype == types.float64:
        return lambda at, room: at

    def doubled(at, room):
        for e in range(len(at)):
            room[e] = at[e]
        return room

    return doubled


@loops
def _tile(point, tiled):
    """Repeat a point, in copies that become longer and longer."""
    done = len(point)
    _copy(point, tiled[:done])
    while done < len(tiled):
        more = min(done, len(tiled) - done)
        _copy(tiled[:more], tiled[done : done + more])
        done += more


@loops
def _copy(source, target):
    for e in range(len(source)):
        target[e] = source[e]


@loops
def _are_close(values, lowest, distance):
    for p in range(len(values)):
        if not values[p] - lowest <= distance:
            return False
    return True


@loops
def _ended(rules, x, best_value, lowest, leader, widths, is_periodic, stale):
    """What has ended a run, and by which rule it has converged; the first reason that holds counts."""
    target, tol, patience, stagnation, near, same = rules
    rule = 0
    if tol > 0:
        if stale >= patience:
            rule = BY_PATIENCE
        apart = _spread(x, leader, widths, len(x) // len(best_value), is_periodic, max(near, tol))
        if apart < near and _are_close(best_value, lowest, same * abs(lowest)):
            rule = BY_VALUES
        if apart < tol:
            rule = BY_SPREAD
    if lowest <= target:
        return TARGET, rule
    if rule:
        return CONVERGED, rule
    if stagnation and stale >= stagnation:
        return STAGNATED, rule
    return RUNNING, rule


@loops
def _spread(x, leader, widths, d, is_periodic, limit):
    """Root mean square distance of the particles from the leader, in widths of the bounds.

    ``widths`` are their inverses. If the distance is above the limit, a number above the limit.
    """
    total, enough = 0.0, 2 * limit * limit * len(x)
    for a in range(0, len(x), _BLOCK):
        b, c = min(a + _BLOCK, len(x)), a % d
        total += _squares(x[a:b], leader[c : c + b - a], widths[c : c + b - a], is_periodic)
        if total > enough:
            break
    return np.sqrt(total / len(x))


@numba.njit(nogil=True, **(LOOPS | {"fastmath": {"contract", "reassoc"}}))
def _squares(x, leader, widths, is_periodic):
    total = 0.0
    if is_periodic:
        for e in range(len(x)):
            apart = (x[e] - leader[e]) * widths[e]
            apart -= np.rint(apart)
            total += apart * apart
    else:
        for e in range(len(x)):
            apart = (x[e] - leader[e]) * widths[e]
            total += apart * apart
    return total
