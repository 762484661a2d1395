"""The quadratic model of a dense swarm for numba, and whether it is to be trusted.

The formulas are those of `paoswarm.algorithms.quadratic_model` and `paoswarm.algorithms.model_trust`. Every function of
``lanes`` is about the search in lane ``k``.
"""

from __future__ import annotations

import math

import numba
import numpy as np

from paoswarm.algorithms import model_trust, quadratic_model
from paoswarm.compiled.numba_lanes import AXES, CENTRE, COEFFICIENTS, FIT_AXES, FIT_CENTRE, LENGTHS
from paoswarm.compiled.numba_linear import dot, gram, ranked, smallest, solve_positive

_POINTS, _LEAST_WEIGHT, _RIDGE = quadratic_model.POINTS, quadratic_model.LEAST_WEIGHT, quadratic_model.RIDGE
_FLATTEST, _SHORTENINGS, _MANY = quadratic_model.FLATTEST, quadratic_model.SHORTENINGS, quadratic_model.MANY
_QUICK = quadratic_model.QUICK
_ENOUGH, _MEMORY, _LONGEST_WAIT = model_trust.ENOUGH, model_trust.MEMORY, model_trust.LONGEST_WAIT
_TINY = float(np.finfo(float).tiny)

_compiled = numba.njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract"})


@_compiled
def points_for(coefficients):
    """How many points a fit of so many coefficients takes."""
    return math.ceil(_POINTS * coefficients) + 2


@_compiled
def n_coefficients(d):
    """Coefficients of the largest model."""
    return 1 + d + d * (d + 1) // 2 if d <= _MANY else 1 + 2 * d


@_compiled
def generations_between_fits(d):
    """For how many generations a model is used."""
    return 1 + n_coefficients(d) // _QUICK


@_compiled
def fit(lanes, k):
    """Fit the model (A5) to the known points nearest to the centre; False if they do not determine one."""
    own, vectors, matrices = lanes.own[k], lanes.vectors[k], lanes.matrices[k]
    d = vectors.shape[1]
    first, m = own.first_known, own.n_known
    known = lanes.known[k, first : first + m]
    own.is_full = 1 if d <= _MANY and m >= points_for(n_coefficients(d)) else 0
    if not own.is_full and m < points_for(1 + 2 * d):
        return False
    c = n_coefficients(d) if own.is_full else 1 + 2 * d
    n_fit = min(m, points_for(c))
    for i in range(d):
        vectors[FIT_CENTRE, i] = vectors[CENTRE, i]
        for j in range(d):
            matrices[FIT_AXES, i, j] = matrices[AXES, i, j] / (vectors[LENGTHS, j] * own.scale)
    u, distance, values = np.empty((m, d)), np.empty(m), np.empty(n_fit)
    for i in range(m):
        distance[i] = _whitened(vectors[FIT_CENTRE], matrices[FIT_AXES], known[i], u[i])
    near = smallest(distance, n_fit)
    for i in range(n_fit):
        values[i] = known[near[i], d]
    order = ranked(values)
    own.lowest, own.unit = values[order[0]], values[order[n_fit // 2]] - values[order[0]]
    if not (own.unit > 0 and own.unit < np.inf):
        return False
    farthest = 0.0
    rows, b, weighted, turned = np.empty((c, n_fit)), np.empty(c), np.empty(n_fit), np.empty((d, n_fit))
    for i in range(n_fit):
        one = near[order[i]]
        farthest = max(farthest, distance[one])
        rows[0, i] = math.sqrt(1 + (_LEAST_WEIGHT - 1) * i / (n_fit - 1))
        weighted[i] = rows[0, i] * (values[order[i]] - own.lowest) / own.unit
        for j in range(d):
            turned[j, i] = u[one, j]
    _fill_features(turned, own.is_full, rows)
    own.radius = math.sqrt(farthest)
    normal = np.empty((c, c))
    gram(rows, normal)
    trace = 0.0
    for a in range(c):
        trace += normal[a, a]
        b[a] = dot(rows[a], weighted)
    for a in range(c):
        normal[a, a] += _RIDGE * trace / c
    if not solve_positive(normal, b):
        return False
    for a in range(c):
        if not math.isfinite(b[a]):
            return False
        lanes.lists[k, COEFFICIENTS, a] = b[a]
    own.fit_generation = own.law_generation
    return True


@_compiled
def _whitened(centre, axes, x, u):
    """Fill ``u`` with a point in the coordinates of the model; return its squared distance from the centre."""
    d = len(u)
    for j in range(d):
        u[j] = 0.0
    for i in range(d):
        apart = x[i] - centre[i]
        for j in range(d):
            u[j] += apart * axes[i, j]
    return dot(u, u)


@_compiled
def _fill_features(u, is_full, rows):
    """The features of points ``u`` (d, m) times their weights, which are in the first row: coordinates, products."""
    d, m = u.shape
    for j in range(d):
        for i in range(m):
            rows[1 + j, i] = rows[0, i] * u[j, i]
    at = 1 + d
    for j in range(d):
        for k in range(j, d if is_full else j + 1):
            for i in range(m):
                rows[at, i] = rows[1 + j, i] * u[k, i]
            at += 1


@_compiled
def predict(lanes, k, x, u):
    """The model at a point ``x`` (d,); ``u`` (d,) is space."""
    own, c = lanes.own[k], lanes.lists[k, COEFFICIENTS]
    _whitened(lanes.vectors[k, FIT_CENTRE], lanes.matrices[k, FIT_AXES], x, u)
    d = len(u)
    total, at = c[0], 1 + d
    for i in range(d):
        slope = c[1 + i]
        for j in range(i, d if own.is_full else i + 1):
            slope += c[at] * u[j]
            at += 1
        total += slope * u[i]
    return own.lowest + own.unit * total


@_compiled
def minimum(lanes, k, x):
    """Fill ``x`` (d,) with the lowest point of the model, no farther away than the points it was fitted to."""
    own, c, vectors = lanes.own[k], lanes.lists[k, COEFFICIENTS], lanes.vectors[k]
    d = len(x)
    hessian, slope, curvature = np.zeros((d, d)), np.zeros(d), np.empty(d)
    at = 1 + d
    for i in range(d):
        for j in range(i, d if own.is_full else i + 1):
            hessian[i, j] += c[at]
            hessian[j, i] += c[at]
            at += 1
    eigenvalues, axes = np.linalg.eigh(hessian)
    for a in range(d):
        curvature[a] = abs(eigenvalues[a])
        for j in range(d):
            slope[a] += axes[j, a] * c[1 + j]
    step = np.empty(d)
    _shortened_newton(slope, curvature, own.radius, step)
    for i in range(d):
        x[i] = vectors[CENTRE, i]
    for j in range(d):
        along = vectors[LENGTHS, j] * own.scale * dot(axes[j], step)
        for i in range(d):
            x[i] += lanes.matrices[k, AXES, i, j] * along


@_compiled
def _shortened_newton(slope, curvature, radius, step):
    """Fill ``step`` with the lowest point of a bowl within a ball; see `quadratic_model._shortened_newton`."""
    d = len(slope)
    bent, steepest, shift = 0.0, 0.0, 0.0
    for a in range(d):
        bent, steepest = max(bent, curvature[a]), max(steepest, abs(slope[a]))
    floor = max(_FLATTEST * bent, max(1e-12 * steepest, _TINY))
    for a in range(d):
        curvature[a] = max(curvature[a], floor)
        step[a] = -slope[a] / curvature[a]
    length = math.sqrt(dot(step, step))
    for _ in range(_SHORTENINGS):
        if length <= radius * (1 + 1e-6):
            break
        fall = 0.0
        for a in range(d):
            fall += step[a] ** 2 / (curvature[a] + shift)
        shift += (length / radius - 1) * length**2 / fall
        for a in range(d):
            step[a] = -slope[a] / (curvature[a] + shift)
        length = math.sqrt(dot(step, step))
    for a in range(d):
        step[a] *= min(1.0, radius / max(length, radius))


@_compiled
def is_trusted(own):
    """Whether the model has passed its recent tests (A6)."""
    return own.pairs > 0 and own.agreeing >= _ENOUGH * own.pairs


@_compiled
def is_due(own):
    """Whether the model should be fitted in this generation."""
    return own.trust_wait <= 1


@_compiled
def after_test(own, predicted, measured):
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
