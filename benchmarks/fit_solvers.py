"""Two solvers of differential equations for `fit_odes.py` and `fit_systems.py`, for numba."""

from __future__ import annotations

import sys

import numpy as np

sys.modules.setdefault("coverage", None)  # numba looks for a package of this name and would take ours of the benchmarks
from numba import njit  # noqa: E402

_TOO_LARGE = 1e8


@njit(inline="always")
def rk4(slope, y, p, step, between, n):
    """States ``(n + 1, k)``: the first one and n more, ``between`` steps apart. NaN if a state becomes too large.

    ``slope(t, y, p)``; the method of Runge and Kutta.
    """
    states = np.empty((n + 1, len(y)))
    states[0] = y
    t = 0.0
    for i in range(n):
        for _ in range(between):
            one = slope(t, y, p)
            two = slope(t + step / 2, y + step / 2 * one, p)
            three = slope(t + step / 2, y + step / 2 * two, p)
            four = slope(t + step, y + step * three, p)
            y = y + step / 6 * (one + 2 * two + 2 * three + four)
            t += step
        states[i + 1] = y
        if not np.isfinite(y).all() or np.abs(y).max() > _TOO_LARGE:
            states[:] = np.nan
            return states
    return states


@njit
def _decompose(a):
    """Gauss's elimination in place, with row exchanges: the order of the rows, empty if a pivot is zero."""
    n = len(a)
    order = np.arange(n)
    for j in range(n):
        best = j
        for i in range(j + 1, n):
            if abs(a[i, j]) > abs(a[best, j]):
                best = i
        if a[best, j] == 0 or not np.isfinite(a[best, j]):
            return order[:0]
        if best != j:
            for k in range(n):
                a[j, k], a[best, k] = a[best, k], a[j, k]
            order[j], order[best] = order[best], order[j]
        for i in range(j + 1, n):
            a[i, j] /= a[j, j]
            for k in range(j + 1, n):
                a[i, k] -= a[i, j] * a[j, k]
    return order


@njit
def _solved(a, order, b):
    n = len(a)
    x = b[order]
    for i in range(n):
        for k in range(i):
            x[i] -= a[i, k] * x[k]
    for i in range(n - 1, -1, -1):
        for k in range(i + 1, n):
            x[i] -= a[i, k] * x[k]
        x[i] /= a[i, i]
    return x


@njit(inline="always")
def rodas3(slope, y, p, times, relative, absolute, most):
    """States ``(len(times), k)`` of a stiff system from ``times[0]``. NaN if it takes more than ``most`` steps.

    ``slope(t, y, p)`` must not depend on t; Rosenbrock's method of order 3 with steps that keep to the tolerances
    (Hairer and Wanner 1996, IV.7; coefficients of Sandu et al. 1997).
    """
    k = len(y)
    states = np.full((len(times), k), np.nan)
    t, h, steps = times[0], 1e-4 * (times[1] - times[0]), 0
    y = y.copy()
    jacobian = np.empty((k, k))
    f = slope(t, y, p)
    is_new = True
    for out in range(len(times)):
        while t < times[out]:
            steps += 1
            if steps > most or h < 1e-14 * (times[-1] - times[0]):
                states[:] = np.nan
                return states
            is_last = h >= times[out] - t
            step = times[out] - t if is_last else h
            if is_new:
                for j in range(k):
                    d = 1e-7 * max(abs(y[j]), 1e3 * absolute)
                    moved = y.copy()
                    moved[j] += d
                    jacobian[:, j] = (slope(t, moved, p) - f) / d
            a = -jacobian
            for j in range(k):
                a[j, j] += 2 / step
            order = _decompose(a)
            if len(order) == 0:
                states[:] = np.nan
                return states
            one = _solved(a, order, f)
            two = _solved(a, order, f + 4 / step * one)
            three = _solved(a, order, slope(t, y + 2 * one, p) + (one - two) / step)
            four = _solved(a, order, slope(t, y + 2 * one + three, p) + (one - two - 8 / 3 * three) / step)
            new = y + 2 * one + three + four
            error = 0.0
            for j in range(k):
                error += (four[j] / (absolute + relative * max(abs(y[j]), abs(new[j])))) ** 2
            error = np.sqrt(error / k)
            is_new = error <= 1
            if is_new:
                t, y = (times[out] if is_last else t + step), new
                f = slope(t, y, p)
            factor = 0.2 if not np.isfinite(error) else min(5.0, max(0.2, 0.9 * max(error, 1e-10) ** (-1 / 3)))
            if not is_last or not is_new or factor * step > h:
                h = factor * step
        states[out] = y
        if not np.isfinite(y).all() or np.abs(y).max() > _TOO_LARGE:
            states[:] = np.nan
            return states
    return states
