r"""A quadratic model of the objective near a swarm, from points that were evaluated anyway.

In coordinates :math:`u` in which the next position is standard normal, the model

.. math:: m(u) = c + g^T u + \tfrac12 u^T H u                                        \tag{A5}

is fitted to the nearest evaluated points by least squares, with more weight on better ones. With few points :math:`H`
is diagonal, with very few it is zero.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from paoswarm.algorithms.dense_learning import DenseLaw
from paoswarm.core import order
from paoswarm.core.arrays import Floats

POINTS = 1.5  # evaluated points for each coefficient
LEAST_WEIGHT = 0.05  # of the worst point; the best one has weight one
RIDGE = 1e-10  # relative to the mean of the squares
FLATTEST = 1e-6  # least curvature, relative to the largest
SHORTENINGS = 8  # iterations for a step that ends on the edge of the data
MANY = 20  # unknowns; with more, a fit of all products would take longer than everything else
QUICK = 60  # coefficients that take so little time that the model is fitted in every generation


def points_for(coefficients: int) -> int:
    """How many points a fit of so many coefficients takes."""
    return int(np.ceil(POINTS * coefficients)) + 2


def n_coefficients(d: int) -> int:
    """Coefficients of the largest model: with all products, or with squares only if there are many unknowns."""
    return 1 + d + d * (d + 1) // 2 if d <= MANY else 1 + 2 * d


def generations_between_fits(d: int) -> int:
    """For how many generations a model is used: with many unknowns, a fit takes longer than the rest."""
    return 1 + n_coefficients(d) // QUICK


class QuadraticModel(NamedTuple):
    """A fitted model; points are given in the coordinates of the law."""

    law: DenseLaw
    pairs: tuple[Any, ...]  # indices of the products u_i u_j in the model
    coefficients: Floats
    lowest: float  # the best value among the points of the fit
    unit: float  # median minus best value
    radius: float  # distance of the farthest point of the fit

    def predict(self, x: Floats) -> Floats:
        """The model at points ``(m, d)``."""
        predicted: Floats = self.lowest + self.unit * (_features(self.law.whitened(x), self.pairs) @ self.coefficients)
        return predicted

    def minimum(self) -> Floats:
        """The point at which the model is lowest, no farther away than the points it was fitted to.

        A direction in which the model curves downwards is taken as if it curved upwards as much.
        """
        d = len(self.law.centre)
        slope = self.coefficients[1 : d + 1]
        hessian = np.zeros((d, d))
        hessian[self.pairs] = self.coefficients[d + 1 :]
        curvature, axes = np.linalg.eigh(hessian + hessian.T)
        u = axes @ _shortened_newton(axes.T @ slope, np.abs(curvature), self.radius)
        lowest: Floats = self.law.centre + (self.law.axes * (self.law.lengths * self.law.scale)) @ u
        return lowest


def _shortened_newton(slope: Floats, curvature: Floats, radius: float) -> Floats:
    """The lowest point of a bowl within a ball, ``-slope / (curvature + shift)`` with the smallest shift that fits.

    In the bowl's axes. Newton's iteration for the shift, on the inverse of the length, converges from below.
    """
    shift = 0.0
    floor = max(FLATTEST * float(curvature.max()), 1e-12 * float(np.abs(slope).max()), float(np.finfo(float).tiny))
    bent = np.maximum(curvature, floor)
    step = -slope / bent
    for _ in range(SHORTENINGS):
        length = math.sqrt(step @ step)
        if length <= radius * (1 + 1e-6):
            break
        shift += (length / radius - 1) * length**2 / float(np.square(step) @ (1 / (bent + shift)))
        step = -slope / (bent + shift)
    return step * min(1.0, radius / max(math.sqrt(step @ step), radius))


def fit(law: DenseLaw, x: Floats, f: Floats) -> QuadraticModel | None:
    """The model of the points ``x`` (m, d) nearest to the law's centre; None if they do not determine one."""
    m, d = x.shape
    pairs = _pairs(m, d)
    if pairs is None:
        return None
    n_fit = points_for(1 + d + len(pairs[0]))
    u = law.whitened(x)
    distance = np.einsum("ij,ij->i", u, u)
    near = np.argpartition(distance, n_fit - 1)[:n_fit] if m > n_fit else np.arange(m)
    near = near[order.ranked(f[near])]
    u, f, radius = u[near], f[near], float(np.sqrt(distance[near].max()))
    unit = float(f[len(f) // 2] - f[0])
    if not (np.isfinite(unit) and unit > 0):
        return None
    rows = _features(u, pairs)
    weighted = rows * np.linspace(1, LEAST_WEIGHT, len(f))[:, None]
    normal = weighted.T @ rows
    normal[np.diag_indices_from(normal)] += RIDGE * np.trace(normal) / len(normal)
    try:
        factor = cho_factor(normal, overwrite_a=True, check_finite=False)
    except np.linalg.LinAlgError:
        return None
    coefficients = cho_solve(factor, weighted.T @ ((f - f[0]) / unit), check_finite=False)
    if not np.isfinite(coefficients).all():
        return None
    return QuadraticModel(law, pairs, coefficients, float(f[0]), unit, radius)


def _pairs(m: int, d: int) -> tuple[Any, ...] | None:
    """The products that ``m`` points can determine: all, the squares, none; None if they are too few for a slope."""
    if d <= MANY and m >= points_for(n_coefficients(d)):
        return np.triu_indices(d)
    if m >= points_for(1 + 2 * d):
        return np.diag_indices(d)
    return None


def _features(u: Floats, pairs: tuple[Any, ...]) -> Floats:
    return np.concatenate([np.ones((len(u), 1)), u, u[:, pairs[0]] * u[:, pairs[1]]], axis=1)
