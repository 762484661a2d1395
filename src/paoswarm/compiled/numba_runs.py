"""Whole runs for numba: generations, objective, bests and ends in one compiled loop.

The objective and the step come in as pointers to compiled code. So these functions are compiled once, for all
objectives and swarms, and kept on disk; only the objective itself is compiled anew.
"""

from __future__ import annotations

import numba
import numpy as np

from paoswarm.compiled import numba_noise as noise
from paoswarm.compiled.numba_step import spread
from paoswarm.compiled.program import BY_PATIENCE, BY_SPREAD, BY_VALUES, CONVERGED, FAILED, RUNNING, STAGNATED, TARGET

_compiled = numba.njit(nogil=True, cache=True, error_model="numpy")


@_compiled
def first_swarms(keys, half, lower, upper, points):
    """Fill ``points`` (runs, n, d) with the first swarms of runs with these keys."""
    for r in range(len(keys)):
        noise.first_points(keys[r], half, lower, upper, points[r])


@_compiled
def judge(rules, lower, upper, is_periodic, state):
    """See which first swarms have already come to an end."""
    x, _, best, _, best_value, _, leader_value, stale, _, _, _, status, rule = state
    n = x.shape[1]
    for r in range(len(x)):
        leader = _tiled(best[r, np.argmin(best_value[r])], n, x.dtype)
        width = _tiled(upper - lower, n, x.dtype)
        status[r], rule[r] = _ended(rules, x[r].ravel(), best_value[r], leader, width, is_periodic, stale[r])
        if leader_value[r] == np.inf:
            status[r] = FAILED


@_compiled
def advance(fun, step, how, is_periodic, table, budget, lower, upper, rules, keys, generation, state, history):
    """Move runs on by as many generations as ``history`` (runs, k) has columns, or until they end.

    ``how`` are walls, scale, codes and neighbours of the step. ``table`` (generations or 1, n or 1, r + 7) has its
    coefficients; ``generation`` is the number of the first one.
    """
    x, v, best, value, best_value, age, leader_value, stale, nit, nfev, n_failed, status, rule = state
    walls, scale, codes, neighbours = how
    n, d = x.shape[1:]
    size = n * d
    low, high, width = _tiled(lower, n, x.dtype), _tiled(upper, n, x.dtype), _tiled(upper - lower, n, x.dtype)
    first, second = np.empty(size, dtype=np.uint32), np.empty(size, dtype=np.uint32)
    d1, d2 = np.empty(size, dtype=np.float32), np.empty(size, dtype=np.float32)
    space = np.empty((5, size), dtype=x.dtype)
    points, found = np.empty(size), np.empty(n)
    for r in range(len(x)):
        at, speed, home = x[r].ravel(), v[r].ravel(), best[r].ravel()
        known, best_known = value[r], best_value[r]
        top = np.argmin(best_known)
        leader = _tiled(best[r, top], n, x.dtype)
        for t in range(history.shape[1]):
            if status[r] != RUNNING or nfev[r] >= budget:
                history[r, t] = leader_value[r]
                continue
            moved = min(n, budget - nfev[r])
            rows = table[min(generation + t, len(table)) - 1]
            noise.normals(keys[r], generation + t, first, second, d1, d2)
            step(
                rows, walls, scale, codes, neighbours, moved, at, speed, home, leader, low, high, known, best_known,
                d1, d2, space,
            )  # fmt: skip
            for e in range(size):
                points[e] = at[e]
            fun(points.ctypes, moved, found.ctypes)
            for p in range(moved):
                known[p] = found[p]
                age[r, p] += 1
                if known[p] < best_known[p]:
                    best_known[p] = known[p]
                    age[r, p] = 0
                    for j in range(d):
                        home[p * d + j] = at[p * d + j]
                elif np.isnan(found[p]):
                    n_failed[r] += 1
            before, top = top, np.argmin(best_known)
            is_better = best_known[top] < leader_value[r]
            stale[r] = 0 if is_better else stale[r] + 1
            leader_value[r] = best_known[top]
            if is_better or top != before:
                for p in range(n):
                    for j in range(d):
                        leader[p * d + j] = home[top * d + j]
            history[r, t] = leader_value[r]
            nit[r] += 1
            nfev[r] += moved
            status[r], rule[r] = _ended(rules, at, best_known, leader, width, is_periodic, stale[r])


@_compiled
def _tiled(point, n, dtype):
    d = len(point)
    tiled = np.empty(n * d, dtype=dtype)
    for p in range(n):
        for j in range(d):
            tiled[p * d + j] = point[j]
    return tiled


@_compiled
def _ended(rules, x, best_value, leader, width, is_periodic, stale):
    """What has ended a run, and by which rule it has converged; the first reason that holds counts."""
    target, tol, patience, stagnation, near, same = rules
    lowest = best_value.min()
    rule = 0
    if tol > 0:
        if stale >= patience:
            rule = BY_PATIENCE
        apart = spread(x, leader, width, is_periodic)
        if apart < near and best_value.max() - lowest <= same * abs(lowest):
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
