r"""Kriging: a quadratic trend, and a Gaussian process for what is left of the values.

The values at points :math:`u_i` are :math:`y = B c + f + e` with the trend's columns :math:`B`, a process :math:`f`
whose covariance is :math:`a^2` times

.. math:: k(u, u') = \exp\Big(-\tfrac12 \sum_j (u_j - u'_j)^2 / \ell_j^2\Big)                                 \tag{E1}

and independent errors :math:`e` of the variance :math:`a^2 \nu` plus what is given for each point. With
:math:`K = k + \nu I`, :math:`A = B^T K^{-1} B` and :math:`P = K^{-1} - K^{-1} B A^{-1} B^T K^{-1}`, lengths and
:math:`\nu` minimise minus the restricted log likelihood, in which trend and amplitude are integrated and profiled out:

.. math:: \tfrac{n - p}2 \ln y^T P y + \tfrac12 \ln |K| + \tfrac12 \ln |A|                                 \tag{E2}

which changes by :math:`\tfrac12 \operatorname{tr} (P\, dK) - \tfrac{n - p}2 (y^T P\, dK\, P y) / (y^T P y)`.

Several outputs share lengths and factors, and have an amplitude each.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_solve, solve_triangular
from scipy.optimize import minimize

from paoswarm.core.arrays import Floats
from paoswarm.core.blas import on_one_thread

_SHORTEST, _LONGEST = math.log(0.3), math.log(60.0)  # lengths, in standard deviations of the posterior
_NUGGETS = (-16.0, 0.0)  # ends of log nu
_USUAL_NUGGET, _NUGGET_SPREAD = -9.0, 4.0  # a normal law of log nu; simulators are usually exact
_ROUNDING = 1e-9  # added to the diagonal
_CHUNK = 2**21  # numbers of the largest array while predicting


class Scales(NamedTuple):
    """What is learnt from the values but the trend: logarithms of lengths ``(d,)`` and of nu."""

    lengths: Floats
    nugget: float

    @classmethod
    def usual(cls, d: int) -> Scales:
        """Where a fit begins: neighbours in ``d`` dimensions are about ``sqrt(d)`` apart."""
        return cls(np.full(d, math.log(2 * math.sqrt(d))), -6.0)


def trend_columns(u: Floats, degree: int) -> Floats:
    """Columns of the trend: 0 linear, 1 with squares, 2 with all products."""
    columns = [np.ones((len(u), 1)), u]
    if degree == 1:
        columns.append(u * u)
    elif degree == 2:
        i, j = np.triu_indices(u.shape[1])
        columns.append(u[:, i] * u[:, j])
    return np.concatenate(columns, axis=1)


class Kriging:
    """Predictions of values ``y`` (n, k) known at ``u`` (n, d); ``variance`` (n,) is that of each point's own error.

    ``iterations`` of the search for lengths and nu start from ``scales``.
    """

    def __init__(
        self, u: Floats, y: Floats, variance: Floats, degree: int, scales: Scales | None = None, iterations: int = 15
    ) -> None:
        self._u, self._degree = u, degree
        n, d = u.shape
        self._middle, spread = y.mean(axis=0), y.std(axis=0)
        self._unit = np.where(spread > 0, spread, 1.0)
        self._y = (y - self._middle) / self._unit
        self._errors = variance / float(np.mean(self._unit)) ** 2 + _ROUNDING
        self._columns = trend_columns(u, degree)
        self._free = max(n - self._columns.shape[1], 1)
        scales = scales or Scales.usual(d)
        if iterations:
            start = np.append(scales.lengths, scales.nugget)
            squares = np.square(u.T[:, :, None] - u.T[:, None, :]).reshape(d, -1)
            found = minimize(
                self._minus_log_likelihood,
                start,
                (squares,),
                "L-BFGS-B",
                jac=True,
                bounds=[(_SHORTEST, _LONGEST)] * d + [_NUGGETS],
                options={"maxiter": iterations, "maxfun": 2 * iterations},
            )
            scales = Scales(found.x[:-1], float(found.x[-1]))
        self.scales = scales
        self._factorise()

    @on_one_thread
    def _minus_log_likelihood(self, theta: Floats, squares: Floats) -> tuple[float, Floats]:
        """(E2) with its slope, and laws of lengths and nu that few points cannot overrule."""
        n, free = len(self._u), self._free
        inner = np.exp(-0.5 * (np.exp(-2 * theta[:-1]) @ squares)).reshape(n, n)
        nugget = math.exp(theta[-1])
        try:
            lower = np.linalg.cholesky(inner + np.diag(nugget + self._errors))
            inverse = cho_solve((lower, True), np.eye(n))
            weighted = inverse @ self._columns
            trend = np.linalg.cholesky(_lifted(self._columns.T @ weighted))
        except np.linalg.LinAlgError:
            return 1e10, np.zeros(len(theta))
        p = inverse - weighted @ cho_solve((trend, True), weighted.T)
        py = p @ self._y
        square = np.maximum((self._y * py).sum(axis=0), 1e-300)
        k = len(square)
        value = 0.5 * free * float(np.log(square).sum())
        value += k * float(np.log(np.diag(lower)).sum() + np.log(np.diag(trend)).sum())
        by_covariance = 0.5 * k * p - 0.5 * free * (py / square) @ py.T
        slope = np.empty(len(theta))
        slope[:-1] = squares @ (by_covariance * inner).ravel() * np.exp(-2 * theta[:-1])
        slope[-1] = nugget * float(np.trace(by_covariance))
        away = theta[:-1] - Scales.usual(self._u.shape[1]).lengths
        odd = (theta[-1] - _USUAL_NUGGET) / _NUGGET_SPREAD
        slope[:-1] += away
        slope[-1] += odd / _NUGGET_SPREAD
        return value + 0.5 * float(away @ away) + 0.5 * odd**2, slope

    @on_one_thread
    def _factorise(self) -> None:
        """Everything that predictions need."""
        self._lower = np.linalg.cholesky(
            self._kernel(self._u, self._u) + np.diag(math.exp(self.scales.nugget) + self._errors)
        )
        self._white_columns = solve_triangular(self._lower, self._columns, lower=True)
        white = solve_triangular(self._lower, self._y, lower=True)
        self._trend = np.linalg.cholesky(_lifted(self._white_columns.T @ self._white_columns))
        self._slopes = cho_solve((self._trend, True), self._white_columns.T @ white)
        left = white - self._white_columns @ self._slopes
        self._weights = solve_triangular(self._lower.T, left, lower=False)
        self.amplitude: Floats = self._unit * np.sqrt((left**2).sum(axis=0) / self._free)  # a of each output

    def _kernel(self, u: Floats, v: Floats) -> Floats:
        """(E1) for all pairs."""
        shorter = np.exp(-self.scales.lengths)
        u, v = u * shorter, v * shorter
        found = u @ v.T
        found -= 0.5 * (u * u).sum(axis=1)[:, None]
        found -= 0.5 * (v * v).sum(axis=1)
        np.minimum(found, 0.0, out=found)
        return np.exp(found, out=found)

    def left_out(self) -> Floats:
        """Errors of predicting every point from all others, ``(n, k)``."""
        inverse = cho_solve((self._lower, True), np.eye(len(self._u)))
        weighted = inverse @ self._columns
        p = inverse - weighted @ cho_solve((self._trend, True), weighted.T)
        found: Floats = (p @ self._y) / np.maximum(np.diag(p), 1e-300)[:, None] * self._unit
        return found

    @on_one_thread
    def predict(self, u: Floats) -> Floats:
        """Means ``(m, k)``."""
        found = np.empty((len(u), self._y.shape[1]))
        for part in self._parts(u):
            found[part] = trend_columns(u[part], self._degree) @ self._slopes
            found[part] += self._kernel(u[part], self._u) @ self._weights
        return self._middle + self._unit * found

    @on_one_thread
    def spread(self, u: Floats) -> Floats:
        """Standard deviations ``(m,)`` in units of the amplitudes."""
        found = np.empty(len(u))
        for part in self._parts(u):
            known, trend = self._roots(u[part])
            variance = 1 - np.einsum("nm,nm->m", known, known) + np.einsum("pm,pm->m", trend, trend)
            found[part] = np.sqrt(np.maximum(variance, 1e-12))
        return found

    @on_one_thread
    def covariance(self, u: Floats) -> Floats:
        """Covariance ``(m, m)`` of the errors at several points, in units of squared amplitudes."""
        known, trend = self._roots(u)
        found: Floats = self._kernel(u, u) - known.T @ known + trend.T @ trend
        return found

    def _parts(self, u: Floats) -> Iterator[slice]:
        """Rows whose kernels are not too large an array."""
        rows = max(1, _CHUNK // len(self._u))
        return (slice(first, first + rows) for first in range(0, len(u), rows))

    def _roots(self, u: Floats) -> tuple[Floats, Floats]:
        """What is known of the process at points, and what is not of the trend, in factors of the covariance."""
        known = solve_triangular(self._lower, self._kernel(self._u, u), lower=True, check_finite=False)
        columns = trend_columns(u, self._degree)
        return known, solve_triangular(self._trend, columns.T - self._white_columns.T @ known, lower=True)


def _lifted(a: Floats) -> Floats:
    """A positive matrix, with what rounding takes away."""
    return a + 1e-10 * float(np.trace(a)) / len(a) * np.eye(len(a))
