"""Whole runs for numba: generations, objective, bests and ends in one compiled loop.

The objective comes in as a pointer to compiled code. So these functions are compiled once, for all objectives, and kept
on disk; only the objective itself is compiled anew.
"""

from __future__ import annotations

import numba
import numpy as np

from paoswarm.compiled import numba_noise as noise
from paoswarm.compiled import numba_step as step
from paoswarm.compiled.program import BY_PATIENCE, BY_SPREAD, BY_VALUES, CONVERGED, FAILED, RUNNING, STAGNATED, TARGET

_PERIODIC = step.WALLS.index("periodic")
_compiled = numba.njit(nogil=True, cache=True, error_model="numpy")


@_compiled
def begin(fun, given, keys, half, lower, upper, is_periodic, rules, state):
    """Place and evaluate the first swarms of runs with these keys; ``given`` points (n, d) replace the design."""
    x, v, best, value, best_value, _, leader_value, _, _, nfev, n_failed, status, rule = state
    n, d = x.shape[1:]
    point = np.empty(d)
    for r in range(len(x)):
        first = np.empty((n, d))
        if len(given):
            first[:] = given
        else:
            noise.first_points(keys[r], half, lower, upper, first)
        x[r] = first
        v[r] = 0.0
        for p in range(n):
            point[:] = x[r, p]
            value[r, p] = _measured(fun, point)
            n_failed[r] += np.isnan(value[r, p])
            best_value[r, p] = np.inf if np.isnan(value[r, p]) else value[r, p]
        best[r] = x[r]
        leader_value[r] = best_value[r].min()
        nfev[r] = n
        low, high = _tiled(lower, n, x.dtype), _tiled(upper, n, x.dtype)
        leader = _tiled(best[r, np.argmin(best_value[r])], n, x.dtype)
        status[r], rule[r] = _ended(rules, x[r].ravel(), best_value[r], leader, low, high, is_periodic, 0)
        if leader_value[r] == np.inf:
            status[r] = FAILED


@_compiled
def advance(fun, keys, codes, neighbours, scale, walls, table, budget, lower, upper, rules, generation, state, history):
    """Move runs on by as many generations as ``history`` (runs, k) has columns, or until they end.

    ``table`` (generations or 1, n or 1, r + 7) has the coefficients; ``generation`` is the number of the first one.
    """
    x, v, best, value, best_value, age, leader_value, stale, nit, nfev, n_failed, status, rule = state
    n, d = x.shape[1:]
    size, n_pulls = n * d, len(codes)
    low, high = _tiled(lower, n, x.dtype), _tiled(upper, n, x.dtype)
    first, second = np.empty(size, dtype=np.uint32), np.empty(size, dtype=np.uint32)
    d1, d2 = np.empty(size, dtype=np.float32), np.empty(size, dtype=np.float32)
    centre, noise1, noise2 = np.empty(size, dtype=x.dtype), np.empty(size, dtype=x.dtype), np.empty(size, dtype=x.dtype)
    point = np.empty(d)
    is_periodic = walls == _PERIODIC
    for r in range(len(x)):
        at, speed, home = x[r].ravel(), v[r].ravel(), best[r].ravel()
        known, best_known = value[r], best_value[r]
        leader = _tiled(best[r, np.argmin(best_known)], n, x.dtype)
        for t in range(history.shape[1]):
            if status[r] != RUNNING or nfev[r] >= budget:
                history[r, t] = leader_value[r]
                continue
            moved = min(n, budget - nfev[r])
            rows = table[min(generation + t, len(table)) - 1]
            noise.normals(keys[r], generation + t, first, second, d1, d2)
            seen, homes = at, home
            if is_periodic:  # springs and distances take the short way round
                seen, homes = at.copy(), home.copy()
                step.unroll(seen, leader, low, high)
                step.unroll(homes, leader, low, high)
            if len(rows) == 1:
                step.pull_together(codes, rows[0, :n_pulls], neighbours, seen, known, homes, best_known, leader, centre)
            else:
                _pull_each(codes, rows[:, :n_pulls], neighbours, seen, known, homes, best_known, leader, centre)
            step.shake(scale, n, seen, homes, leader, d1, d2, noise1, noise2)
            end = moved * d
            if is_periodic:
                at[:end] = seen[:end]
            for p in range(1 if len(rows) == 1 else moved):
                part = slice(0, end) if len(rows) == 1 else slice(p * d, (p + 1) * d)
                step.move(
                    _entries(rows[p], n_pulls), walls, at[part], speed[part], centre[part], noise1[part], noise2[part],
                    low[part], high[part],
                )  # fmt: skip
            for p in range(moved):
                for j in range(d):
                    point[j] = at[p * d + j]
                measured = _measured(fun, point)
                n_failed[r] += np.isnan(measured)
                known[p] = measured
                age[r, p] += 1
                if known[p] < best_known[p]:
                    best_known[p] = known[p]
                    age[r, p] = 0
                    for j in range(d):
                        home[p * d + j] = at[p * d + j]
            first_best = np.argmin(best_known)
            for p in range(n):
                for j in range(d):
                    leader[p * d + j] = home[first_best * d + j]
            stale[r] = 0 if best_known[first_best] < leader_value[r] else stale[r] + 1
            leader_value[r] = best_known[first_best]
            history[r, t] = leader_value[r]
            nit[r] += 1
            nfev[r] += moved
            status[r], rule[r] = _ended(rules, at, best_known, leader, low, high, is_periodic, stale[r])


@_compiled
def _measured(fun, point):
    """The objective at a point; NaN where it failed, which -inf is too."""
    found = fun(point)
    return np.nan if found == -np.inf else found


@_compiled
def _pull_each(codes, weights, neighbours, x, value, best, best_value, leader, centre):
    """`pull_together` where every particle has its own weights: the attractors once, then their weighted mean."""
    n = len(value)
    d = len(x) // n
    one, alone = np.empty_like(centre), np.ones(1, dtype=x.dtype)
    centre[:] = 0.0
    for r in range(len(codes)):
        step.pull_together(codes[r : r + 1], alone, neighbours[r : r + 1], x, value, best, best_value, leader, one)
        for p in range(n):
            for j in range(d):
                centre[p * d + j] += weights[p, r] * one[p * d + j]


@_compiled
def _entries(row, n_pulls):
    a11, a12, a21, a22, h11, h21, h22 = row[n_pulls:]
    return a11, a12, a21, a22, h11, h21, h22


@_compiled
def _tiled(point, n, dtype):
    d = len(point)
    tiled = np.empty(n * d, dtype=dtype)
    for p in range(n):
        for j in range(d):
            tiled[p * d + j] = point[j]
    return tiled


@_compiled
def _ended(rules, x, best_value, leader, low, high, is_periodic, stale):
    """What has ended a run, and by which rule it has converged; the first reason that holds counts."""
    target, tol, patience, stagnation, near, same = rules
    lowest = best_value.min()
    rule = 0
    if tol > 0:
        if stale >= patience:
            rule = BY_PATIENCE
        apart = step.spread(x, leader, low, high, is_periodic)
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


@_compiled
def evaluate(fun, points):
    """The objective at points ``(m, d)``."""
    values = np.empty(len(points))
    for i in range(len(points)):
        values[i] = _measured(fun, points[i])
    return values
