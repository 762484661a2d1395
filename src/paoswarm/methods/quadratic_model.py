r"""A quadratic model of the objective near a swarm, from points that were evaluated anyway.

In coordinates :math:`u` in which the next position is standard normal, the model

.. math:: m(u) = c + g^T u + \tfrac12 u^T H u                                        \tag{A5}

is fitted to the nearest evaluated points by least squares, with more weight on better ones. With few points :math:`H`
is diagonal. The model is trusted as long as it puts new points into the right order.

The functions are written in the part of NumPy that numba compiles, but for three:
`paoswarm.engines.adaptive_kernels` has its own.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs

from paoswarm.core.arrays import Floats
from paoswarm.core.order import ranked
from paoswarm.methods.dense_learning import Law, placed, whitening

_POINTS = 1.5  # evaluated points for each coefficient
LEAST_WEIGHT = 0.05  # of the worst point; the best one has weight one
RIDGE = 1e-10  # relative to the mean of the squares
_FLATTEST = 1e-6  # least curvature, relative to the largest
_SHORTENINGS = 8  # iterations for a step that ends on the edge of the data
_MANY = 20  # unknowns; with more, a fit of all products would take longer than everything else
_QUICK = 60  # coefficients that take so little time that the model is fitted in every generation
_TINY = float(np.finfo(float).tiny)
_ENOUGH = 0.7  # Kendall's tau between predicted and measured order
_MEMORY = 0.7  # weight of the past in it, per test
_LONGEST_WAIT = 8  # generations between two tests of a model that failed


@lru_cache(maxsize=64)
def points_for(coefficients: int) -> int:
    """How many points a fit of so many coefficients takes."""
    return int(np.ceil(_POINTS * coefficients)) + 2


@lru_cache(maxsize=64)
def n_coefficients(d: int) -> int:
    """Coefficients of the largest model: with all products, or with squares only if there are many unknowns."""
    return 1 + d + d * (d + 1) // 2 if d <= _MANY else 1 + 2 * d


@lru_cache(maxsize=64)
def generations_between_fits(d: int) -> int:
    """For how many generations a model is used: with many unknowns, a fit takes longer than the rest."""
    return 1 + n_coefficients(d) // _QUICK


class QuadraticModel(NamedTuple):
    """A fitted model; without coefficients if the points do not determine one."""

    centre: Floats  # (d,) of its coordinates u
    whitening: Floats  # (d, d), or (d,) if the coordinates are only scaled
    generation: int  # of the law in which it was fitted
    is_full: bool  # whether it has all products u_i u_j, or squares only
    coefficients: Floats
    lowest: float  # the best value among the points of the fit
    unit: float  # median minus best value
    radius: float  # distance of the farthest point of the fit


def predict(model: QuadraticModel, x: Floats) -> Floats:
    """The model at points ``(m, d)``."""
    u = seen(x, model.centre, model.whitening)
    return model.lowest + model.unit * (features(u, model.is_full) @ model.coefficients)


def seen(x: Floats, centre: Floats, whitening: Floats) -> Floats:
    """Points ``(m, d)`` in the coordinates of a model."""
    u: Floats = (x - centre) * whitening if whitening.ndim == 1 else (x - centre) @ whitening
    return u


def minimum(model: QuadraticModel, law: Law) -> Floats:
    """The point at which a model of this law is lowest, no farther away than the points it was fitted to.

    A direction in which the model curves downwards is taken as if it curved upwards as much.
    """
    d = len(law.centre)
    first, second = pairs(d, model.is_full)
    hessian = np.zeros(d * d)
    hessian[first * d + second] = model.coefficients[d + 1 :]
    square = hessian.reshape((d, d))
    curvature, axes = np.linalg.eigh(square + square.T)
    axes = np.ascontiguousarray(axes)
    u = axes @ shortened_newton(axes.T @ model.coefficients[1 : d + 1], np.abs(curvature), model.radius)
    return placed(law, u)


def shortened_newton(slope: Floats, curvature: Floats, radius: float) -> Floats:
    """The lowest point of a bowl within a ball, ``-slope / (curvature + shift)`` with the smallest shift that fits.

    In the bowl's axes. Newton's iteration for the shift, on the inverse of the length, converges from below.
    """
    shift = 0.0
    bent = np.maximum(curvature, max(_FLATTEST * curvature.max(), max(1e-12 * np.abs(slope).max(), _TINY)))
    step = -slope / bent
    for _ in range(_SHORTENINGS):
        length = math.sqrt(step @ step)
        if length <= radius * (1 + 1e-6):
            break
        shift += (length / radius - 1) * length**2 / float(np.square(step) @ (1 / (bent + shift)))
        step = -slope / (bent + shift)
    return step * min(1.0, radius / max(math.sqrt(step @ step), radius))


def fit(law: Law, x: Floats, f: Floats) -> QuadraticModel:
    """The model of the points ``x`` (m, d) nearest to the law's centre."""
    m, d = x.shape
    fewest, most = points_for(1 + 2 * d), points_for(n_coefficients(d))
    is_full = d <= _MANY and m >= most
    to_u = whitening(law)
    none = QuadraticModel(law.centre, to_u, law.generation, is_full, np.empty(0), 0.0, 0.0, 0.0)
    if m < fewest:
        return none
    u = seen(x, law.centre, to_u)
    distance = squared_lengths(u)
    near = smallest(distance, most if is_full else fewest)
    near = near[ranked(f[near])]
    u, f, radius = u[near], f[near], math.sqrt(distance[near].max())
    unit = f[len(f) // 2] - f[0]
    if not (math.isfinite(unit) and unit > 0):
        return none
    coefficients = least_squares(features(u, is_full), (f - f[0]) / unit)
    return QuadraticModel(law.centre, to_u, law.generation, is_full, coefficients, float(f[0]), float(unit), radius)


def least_squares(rows: Floats, values: Floats) -> Floats:
    """Coefficients for the features of points, best first, with more weight on better ones; empty if singular."""
    weighted = rows * np.linspace(1, LEAST_WEIGHT, len(rows))[:, None]
    normal = weighted.T @ rows
    normal.flat[:: len(normal) + 1] += RIDGE * np.trace(normal) / len(normal)
    factor, failed = dpotrf(normal, overwrite_a=True, clean=False)
    if failed:
        return np.empty(0)
    found: Floats = dpotrs(factor, weighted.T @ values)[0]
    return found if np.isfinite(found).all() else np.empty(0)


def squared_lengths(u: Floats) -> Floats:
    """Squared distances of points ``(m, d)`` from the origin."""
    lengths: Floats = np.einsum("ij,ij->i", u, u)
    return lengths


def smallest(values: Floats, count: int) -> Any:
    """Indices of the ``count`` smallest values, in any order."""
    return np.argpartition(values, count - 1)[:count] if len(values) > count else np.arange(count)


@lru_cache(maxsize=64)
def pairs(d: int, is_full: bool) -> tuple[Any, Any]:
    """Indices of the products in a model: of all, or of the squares."""
    return np.triu_indices(d) if is_full else (np.arange(d), np.arange(d))


def features(u: Floats, is_full: bool) -> Floats:
    """What the coefficients of the model multiply at points ``(m, d)``: one, coordinates, products."""
    first, second = pairs(u.shape[1], is_full)
    return np.concatenate((np.ones((len(u), 1)), u, u[:, first] * u[:, second]), axis=1)


class Trust(NamedTuple):
    """Running comparison of predicted and measured orders."""

    agreeing: float = 0.0  # pairs in the right order minus pairs in the wrong one
    pairs: float = 0.0
    wait: int = 0  # generations until the next test
    period: int = 1


def is_trusted(trust: Trust) -> bool:
    """Whether the model has passed its recent tests (A6)."""
    return trust.pairs > 0 and trust.agreeing >= _ENOUGH * trust.pairs


def is_due(trust: Trust) -> bool:
    """Whether the model should be fitted in this generation."""
    return trust.wait <= 1


def untested(trust: Trust) -> Trust:
    """A generation later, without a test."""
    return Trust(trust.agreeing, trust.pairs, max(0, trust.wait - 1), trust.period)


def after_test(trust: Trust, predicted: Floats, measured: Floats) -> Trust:
    """The trust after a generation: a model that fails is tested less and less often."""
    n = len(predicted)
    higher, first = predicted[:, None] > predicted, measured[:, None]
    pairs = np.count_nonzero(higher & (first > measured)) - np.count_nonzero(higher & (first < measured))
    agreeing = _MEMORY * trust.agreeing + pairs
    tested = Trust(agreeing, _MEMORY * trust.pairs + n * (n - 1) / 2, trust.wait, trust.period)
    period = 1 if is_trusted(tested) else min(2 * trust.period, _LONGEST_WAIT)
    return Trust(tested.agreeing, tested.pairs, period, period)
