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

from paoswarm.compiled import numba_record as record
from paoswarm.compiled.numba_options import INNER, inner_loops, loops
from paoswarm.compiled.program import BY_PATIENCE, BY_SPREAD, BY_VALUES, CONVERGED, RUNNING, STAGNATED, TARGET

_BLOCK = 128  # elements whose distances are summed before it is seen whether they are already too large


def make_room(n: int, d: int, reach: int, noise: int, dtype: Any) -> tuple[Any, ...]:
    """Arrays for what `advance` computes on the way; `reach` and `room` of the step say how many elements it needs."""
    words, deviates = np.empty((2, noise), dtype=np.uint32), np.empty((2, noise), dtype=np.float32)
    leader, points, marks = np.empty(reach, dtype=dtype), np.empty(n * d), np.empty(n, dtype=np.int64)
    return leader, points, marks, *words, *deviates, np.empty((5, n * d), dtype=dtype)


@loops
def advance(fun, step, keep, how, is_periodic, table, budget, box, rules, keys, generation, state, history, room):
    """Move runs on by as many generations as ``history`` (runs, k) has columns, or until they end.

    If it has none, see which first swarms have already come to an end. ``how`` are walls, scale, codes and neighbours
    of the step. ``table`` (generations or 1, n or 1, r + 7) has its coefficients; ``generation`` is the number of the
    first one. The ``box`` (3, n * d) has lower and upper bounds and inverse widths, for every particle.
    """
    x, v, best, value, best_value, age, leader_value, stale, nit, nfev, n_failed, status, rule = state
    walls, scale, codes, neighbours = how
    leader, points, marks, first, second, d1, d2, space = room
    low, high, widths = box[0], box[1], box[2]
    n = value.shape[1]
    d = len(points) // n
    for r in range(len(keys)):
        at, speed, home, known, best_known, waited = x[r], v[r], best[r], value[r], best_value[r], age[r]
        top = record.lowest(best_known)
        _tile(home[top * d : (top + 1) * d], leader)
        if history.shape[1] == 0:
            status[r], rule[r] = _ended(rules, at, best_known, leader_value[r], leader, widths, is_periodic, stale[r])
        for t in range(history.shape[1]):
            if status[r] != RUNNING or nfev[r] >= budget:
                history[r, t] = leader_value[r]
                continue
            left, row = budget - nfev[r], generation + t - 1
            moved = n if left > n else left
            rows = table[row if row < len(table) else len(table) - 1]
            step(
                keys[r], generation + t, rows, walls, scale, codes, neighbours, moved, at, speed, home, leader, low,
                high, known, best_known, first, second, d1, d2, space,
            )  # fmt: skip
            fun(_doubled(at, points).ctypes, moved, known.ctypes)
            n_failed[r] += record.compare(known[:moved], best_known[:moved], waited[:moved], marks[:moved])
            keep(marks.ctypes, moved, at.ctypes, home.ctypes)
            before, top = top, record.lowest(best_known)
            is_better = best_known[top] < leader_value[r]
            stale[r] = 0 if is_better else stale[r] + 1
            leader_value[r] = best_known[top]
            if is_better or top != before:
                _tile(home[top * d : (top + 1) * d], leader)
            history[r, t] = leader_value[r]
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


@inner_loops
def _tile(point, tiled):
    """Repeat a point, in copies that become longer and longer."""
    done = len(point)
    _copy(point, tiled[:done])
    while done < len(tiled):
        left = len(tiled) - done
        more = done if done < left else left
        _copy(tiled[:more], tiled[done : done + more])
        done += more


@inner_loops
def _copy(source, target):
    for e in range(len(source)):
        target[e] = source[e]


@inner_loops
def _highest(values):
    highest = values[0]
    for p in range(1, len(values)):
        highest = values[p] if values[p] > highest else highest
    return highest


@inner_loops
def _ended(rules, x, best_value, lowest, leader, widths, is_periodic, stale):
    """What has ended a run, and by which rule it has converged; the first reason that holds counts."""
    target, tol, patience, stagnation, near, same = rules
    rule = 0
    if tol > 0:
        if stale >= patience:
            rule = BY_PATIENCE
        limit = near if near > tol else tol
        apart = _spread(x, leader, widths, len(x) // len(best_value), is_periodic, limit)
        if apart < near and _highest(best_value) - lowest <= same * abs(lowest):
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


@inner_loops
def _spread(x, leader, widths, d, is_periodic, limit):
    """Root mean square distance of the particles from the leader, in widths of the bounds.

    ``widths`` are their inverses. If the distance is above the limit, a number above the limit.
    """
    total, enough = 0.0, 2 * limit * limit * len(x)
    for a in range(0, len(x), _BLOCK):
        b, c = (a + _BLOCK if a + _BLOCK < len(x) else len(x)), a % d
        total += _squares(x[a:b], leader[c : c + b - a], widths[c : c + b - a], is_periodic)
        if total > enough:
            break
    return np.sqrt(total / len(x))


@numba.njit(**(INNER | {"fastmath": {"contract", "reassoc"}}))
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
