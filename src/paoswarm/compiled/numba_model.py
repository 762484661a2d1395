"""The quadratic model of a dense swarm for numba, and whether it is to be trusted.

The formulas are those of `paoswarm.algorithms.quadratic_model` and `paoswarm.algorithms.model_trust`.
"""

from __future__ import annotations

import math

import numba
import numpy as np

from paoswarm.algorithms import model_trust, quadratic_model
from paoswarm.compiled.numba_law import whitening
from paoswarm.compiled.numba_linear import dot, gram, ranked, solve_positive

_POINTS, _LEAST_WEIGHT, _RIDGE = quadratic_model._POINTS, quadratic_model._LEAST_WEIGHT, quadratic_model._RIDGE
_FLATTEST, _SHORTENINGS, _MANY = quadratic_model._FLATTEST, quadratic_model._SHORTENINGS, quadratic_model._MANY
_QUICK = quadratic_model._QUICK
_ENOUGH, _MEMORY, _LONGEST_WAIT = model_trust._ENOUGH, model_trust._MEMORY, model_trust._LONGEST_WAIT
_TINY = float(np.finfo(float).tiny)

_compiled = numba.njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract"})


@_compiled
def points_for(coefficients):
    """How many points a fit of so many coefficients takes."""
    return int(math.ceil(_POINTS * coefficients)) + 2


@_compiled
def n_coefficients(d):
    """Coefficients of the largest model."""
    return 1 + d + d * (d + 1) // 2 if d <= _MANY else 1 + 2 * d


@_compiled
def generations_between_fits(d):
    """For how many generations a model is used."""
    return 1 + n_coefficients(d) // _QUICK


@_compiled
def fit(lane):
    """Fit the model (A5) to the known points nearest to the centre; False if they do not determine one."""
    own, law, model = lane.own[0], lane.law, lane.model
    d = len(law.centre)
    first, m = own.first_known, own.n_known
    own.is_full = 1 if d <= _MANY and m >= points_for(n_coefficients(d)) else 0
    if not own.is_full and m < points_for(1 + 2 * d):
        return False
    c = n_coefficients(d) if own.is_full else 1 + 2 * d
    n_fit = min(m, points_for(c))
    whitening(lane, model.axes)
    for j in range(d):
        model.centre[j] = law.centre[j]
    u, distance = np.empty((m, d)), np.empty(m)
    for i in range(m):
        distance[i] = _whitened(model, lane.known.x[first + i], u[i])
    near = _nearest(distance, n_fit)
    known = np.empty(n_fit)
    for i in range(n_fit):
        known[i] = lane.known.f[first + near[i]]
    order = ranked(known)
    own.lowest, own.unit = known[order[0]], known[order[n_fit // 2]] - known[order[0]]
    if not (own.unit > 0 and own.unit < np.inf):
        return False
    farthest = 0.0
    rows, b, values = np.empty((c, n_fit)), np.empty(c), np.empty(n_fit)
    for i in range(n_fit):
        one = near[order[i]]
        farthest = max(farthest, distance[one])
        weight = math.sqrt(1 + (_LEAST_WEIGHT - 1) * i / (n_fit - 1))
        _set_features(u[one], own.is_full, weight, rows, i)
        values[i] = weight * (known[order[i]] - own.lowest) / own.unit
    own.radius = math.sqrt(farthest)
    normal = np.empty((c, c))
    gram(rows, normal)
    trace = 0.0
    for a in range(c):
        trace += normal[a, a]
        b[a] = dot(rows[a], values)
    for a in range(c):
        normal[a, a] += _RIDGE * trace / c
    if not solve_positive(normal, b):
        return False
    for a in range(c):
        if not np.isfinite(b[a]):
            return False
        model.coefficients[a] = b[a]
    own.fit_generation = own.law_generation
    return True


@_compiled
def _whitened(model, x, u):
    """Fill ``u`` with a point in the coordinates of the model; return its squared distance from the centre."""
    d = len(x)
    for j in range(d):
        u[j] = 0.0
    for i in range(d):
        apart = x[i] - model.centre[i]
        for j in range(d):
            u[j] += apart * model.axes[i, j]
    return dot(u, u)


@_compiled
def _nearest(distance, count):
    """The numbers of the points with the least distances."""
    m = len(distance)
    if m == count:
        return np.arange(m)
    limit = np.partition(distance, count - 1)[count - 1]
    found = np.empty(count, dtype=np.int64)
    filled = 0
    for i in range(m):
        if distance[i] < limit:
            found[filled] = i
            filled += 1
    for i in range(m):
        if distance[i] == limit and filled < count:
            found[filled] = i
            filled += 1
    return found


@_compiled
def _set_features(u, is_full, weight, rows, i):
    """Column ``i`` of the weighted features: one, the coordinates, their products."""
    d = len(u)
    rows[0, i] = weight
    for j in range(d):
        rows[1 + j, i] = weight * u[j]
    at = 1 + d
    for j in range(d):
        for k in range(j, d if is_full else j + 1):
            rows[at, i] = weight * u[j] * u[k]
            at += 1


@_compiled
def predict(lane, x, u):
    """The model at a point ``x`` (d,); ``u`` (d,) is space."""
    own, model = lane.own[0], lane.model
    _whitened(model, x, u)
    c = model.coefficients
    d = len(u)
    total, at = c[0], 1 + d
    for j in range(d):
        slope = c[1 + j]
        for k in range(j, d if own.is_full else j + 1):
            slope += c[at] * u[k]
            at += 1
        total += slope * u[j]
    return own.lowest + own.unit * total


@_compiled
def minimum(lane, x):
    """Fill ``x`` (d,) with the lowest point of the model, no farther away than the points it was fitted to."""
    own, law, model = lane.own[0], lane.law, lane.model
    d = len(x)
    hessian = np.zeros((d, d))
    at = 1 + d
    for j in range(d):
        for k in range(j, d if own.is_full else j + 1):
            hessian[j, k] += model.coefficients[at]
            hessian[k, j] += model.coefficients[at]
            at += 1
    curvature, axes = np.linalg.eigh(hessian)
    slope = np.zeros(d)
    for c in range(d):
        for j in range(d):
            slope[c] += axes[j, c] * model.coefficients[1 + j]
    step = _shortened_newton(slope, np.abs(curvature), own.radius)
    for i in range(d):
        x[i] = law.centre[i]
    for j in range(d):
        along = 0.0
        for c in range(d):
            along += axes[j, c] * step[c]
        along *= law.lengths[j] * own.scale
        for i in range(d):
            x[i] += law.axes[i, j] * along


@_compiled
def _shortened_newton(slope, curvature, radius):
    """The lowest point of a bowl within a ball; see `quadratic_model._shortened_newton`."""
    shift = 0.0
    floor = max(_FLATTEST * curvature.max(), 1e-12 * np.abs(slope).max(), _TINY)
    bent = np.maximum(curvature, floor)
    step = -slope / bent
    for _ in range(_SHORTENINGS):
        length = math.sqrt(dot(step, step))
        if length <= radius * (1 + 1e-6):
            break
        shift += (length / radius - 1) * length**2 / np.sum(step * step / (bent + shift))
        step = -slope / (bent + shift)
    return step * min(1.0, radius / max(math.sqrt(dot(step, step)), radius))


@_compiled
def is_trusted(own):
    """Whether the model has passed its recent tests (A6)."""
    return own.pairs > 0 and own.agreeing >= _ENOUGH * own.pairs


@_compiled
def is_due(own):
    """Whether the model should be fitted in this generation."""
    return own.trust_wait <= 1


@_compiled
def test(own, predicted, measured):
    """The trust after a generation: a model that fails is tested less and less often."""
    m = len(predicted)
    agreeing = 0.0
    for i in range(m):
        for j in range(i):
            agreeing += _sign(predicted[i] - predicted[j]) * _sign(measured[i] - measured[j])
    own.agreeing = _MEMORY * own.agreeing + agreeing
    own.pairs = _MEMORY * own.pairs + m * (m - 1) / 2
    own.trust_period = 1 if is_trusted(own) else min(2 * own.trust_period, _LONGEST_WAIT)
    own.trust_wait = own.trust_period


@_compiled
def _sign(x):
    """The sign; zero between two failed points, which have no order."""
    if x > 0:
        return 1.0
    return -1.0 if x < 0 else 0.0
