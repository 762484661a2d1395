r"""What the slopes at the best point of a fit say: covariance of the unknowns, and bands around predictions.

With the slopes :math:`g_i` of predictions with respect to all unknowns, scales and offsets, and Fisher's information
:math:`w_i` of a datum about its prediction, :math:`1 / \sigma_i^2` for normal noise, the covariance of the unknowns is

.. math:: C = c \Big( \sum_i w_i\, g_i g_i' \Big)^{-1}, \qquad
    c = 1 \text{ for known noise, else } \frac{m}{m - n}                                                  \tag{F9}

with :math:`m` data (and beliefs) and :math:`n` directions of unknowns, scales and offsets that they determine.
Predictions have the variances :math:`g_i' C g_i`. Where minus twice the log likelihood, divided by :math:`c`, rises by
one, the value (F2) rises by :math:`u = c f / N`, or by one for known noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import null_space
from scipy.special import chdtr, chdtrc

from paoswarm.core.arrays import Floats
from paoswarm.evaluate.comparison import DataComparison
from paoswarm.fitting.cube import Cube
from paoswarm.fitting.describe import Spot
from paoswarm.fitting.fit_uncertainty import FitUncertainty, reach_of
from paoswarm.fitting.minimum import Covariance
from paoswarm.least_squares.ends import CORRELATED, IMPROBABLE, contradiction
from paoswarm.least_squares.likelihoods import LogNormal, Poisson
from paoswarm.least_squares.loss import Around, Loss
from paoswarm.least_squares.trust_region import LinearModel, bounded_step

_ON = 1e-9  # widths: an unknown that is so near its bound lies on it
_FLAT = 1e-7  # of the largest singular value, for columns of unit length: slopes are known to about 1e-8
_OPEN = 1e-6  # of the change over all widths: a prediction that changes less does not depend on a direction
_MOVED = 0.3  # standard errors that the optimum is away, from which on it is worth a remark
_NO_EFFECT = 1e-10  # relative to the outputs: a slope over the whole width that is rounding


@dataclass(frozen=True, eq=False)
class Solution:
    """The best point of a fit, the outputs there, and their slope."""

    cube: Cube
    comparison: DataComparison
    point: Floats  # (n,), in the unit cube
    cell: int
    outputs: Floats  # (m,)
    jacobian: Floats  # (m, n), slope of the outputs, in widths
    is_measured: bool  # whether the slope was measured at the point itself
    noise: float  # standard deviation of the simulator's own noise, relative to the residuals; zero if it does no harm
    counts: tuple[int, int]  # simulations, and those of them that have failed
    edge: Floats  # (a, n), slopes of the constraints that hold with equality
    edge_names: tuple[str, ...]

    @cached_property
    def loss(self) -> Loss:
        """What was minimised."""
        return self.comparison.loss(len(self.outputs))

    @cached_property
    def around(self) -> Around:
        """The value and the residuals."""
        return self.loss.around(self.outputs)

    @cached_property
    def on_bound(self) -> NDArray[np.bool_]:
        """Which unknowns with an effect lie on a bound."""
        is_at_end = (self.point <= _ON) | (self.point >= 1 - _ON)
        return is_at_end & ~self.cube.is_round & self.has_effect

    @cached_property
    def slope(self) -> Floats:
        """The slope of the weighted residuals, in widths."""
        return self.loss.slope(self.around, self.jacobian)

    @cached_property
    def has_effect(self) -> NDArray[np.bool_]:
        """Which unknowns change the residuals; all, as long as that is not known."""
        if not self.is_measured:
            return np.ones(self.cube.n, dtype=bool)
        sizes = np.linalg.norm(self.slope, axis=0)
        return sizes > _NO_EFFECT * max(float(np.linalg.norm(self.around.residuals)), float(sizes.max()))

    @property
    def free(self) -> NDArray[np.bool_]:
        """Which unknowns were varied and have an effect."""
        return ~self.on_bound & self.has_effect

    @property
    def degrees_of_freedom(self) -> int:
        """Data and beliefs less directions of the unknowns, factors and offsets that these determine."""
        n_known = self._directions[0].shape[1] if self.is_measured else int(self.free.sum()) + self.loss.n_factors
        return self.loss.n_data + self.loss.n_beliefs - n_known

    @property
    def is_noise_known(self) -> bool:
        """Whether the size of all noise was given."""
        return self.loss.n_estimated == 0

    @property
    def unit(self) -> float:
        """The rise u of the value that goes with (F9); NaN if there are too few data."""
        if self.is_noise_known:
            return 1.0
        m, left = self.loss.n_data + self.loss.n_beliefs, self.degrees_of_freedom
        return self.around.root**2 * m / left if left > 0 else np.nan

    @property
    def inflation(self) -> float:
        """By how much an estimated standard deviation is too small because unknowns were fitted to the data."""
        return float(np.sqrt(self.unit)) / self.around.root if self.around.root > 0 else 1.0

    @cached_property
    def _directions(self) -> tuple[Floats, Floats]:
        """A root ``(n, k)`` of the inverse in (F9), along constraints and without columns of zeros; directions without.

        Constraints that hold with equality still do along these directions.
        """
        slope, n = self._slopes[1], self.cube.n
        used = np.flatnonzero(slope.any(axis=0))
        normals = np.zeros((len(self.edge), len(used)))
        normals[:, used < n] = self.edge[:, used[used < n]]
        tangent = np.asarray(null_space(normals)) if normals.any() else np.eye(len(used))
        if not tangent.size:
            return np.zeros((slope.shape[1], 0)), np.zeros((slope.shape[1], 0))
        along = slope[:, used] @ tangent
        sizes = np.linalg.norm(along, axis=0) + 1e-300
        _, values, axes = np.linalg.svd(np.linalg.qr(along / sizes, mode="r"))
        directions = np.zeros((slope.shape[1], len(axes)))
        directions[used] = tangent @ (axes.T / sizes[:, None])
        rank = int((values > _FLAT * values[0]).sum())
        return _across(directions[:, :rank] / values[:rank], directions[:, rank:]), directions[:, rank:]

    @cached_property
    def uncertainty(self) -> FitUncertainty:
        """Standard errors of the unknowns, in the user's numbers."""
        cube, n = self.cube, self.cube.n
        variables = cube.variables(self.point, self.cell)
        still = self._directions[1][:n]  # along which nothing changes
        root, flat = cube.width[:, None] * self._root[:n], cube.width[:, None] * still
        covariance = root @ root.T
        errors = np.sqrt(np.diag(covariance))
        errors = np.where((np.abs(still) > 0.1 * np.abs(still).max(axis=0)).any(axis=1), np.inf, errors)
        errors = errors if self.is_measured else np.where(np.isinf(errors), np.nan, errors)
        is_held = self.on_bound | (self.has_effect & (errors == 0))
        errors = np.where(is_held, np.nan, np.where(self.has_effect, errors, np.inf))
        is_sure = np.isfinite(errors)
        covariance = np.where(is_sure[:, None] & is_sure, covariance, np.nan)
        np.fill_diagonal(covariance, errors**2)
        walls = np.where(cube.is_round, -np.inf, cube.low), np.where(cube.is_round, np.inf, cube.low + cube.width)
        is_one_variance = len(self.loss.groups) == 1 and not self.is_noise_known
        left = self.degrees_of_freedom
        hessian = 2 * self.slope.T @ self.slope / cube.width / cube.width[:, None]
        spot = Spot(
            x=cube.low + self.point * cube.width,
            fun=self.around.value,
            box=walls,
            names=variables.names,
            variables=variables,
            widths=cube.width,
            free=self.free,
            on_bound=self.on_bound,
        )
        edge = [
            f"{name} holds with equality at the best point. The errors are those along it." for name in self.edge_names
        ]
        found = spot.described(
            Covariance(covariance, root, errors, hessian, flat, np.zeros((n, 0))),
            what="outputs",
            notes=edge,
            is_singular=len(self.edge) > 0,  # the covariance along constraints
            variance=self.unit if is_one_variance else None,
            n_data=self.loss.n_data,
            degrees_of_freedom=left if not self.is_noise_known and left > 0 else None,
            shift=np.zeros(n),
            rises=np.full((n, 2), np.nan),
            n_evaluations=self.counts[0],
            n_failed=self.counts[1],
            kind=self.kind,
        )
        return found if self.is_measured else replace(found, warnings=(), notes=())

    @property
    def kind(self) -> str:
        """What the value is."""
        groups = self.loss.groups
        if self.is_noise_known:
            return "chi-square" if self.loss.is_chi_square else "deviance"
        is_plain = len(groups) == 1 and type(groups[0].law).__name__ == "Normal" and not self.loss.n_beliefs
        return "sum of squares" if is_plain else "value"

    @property
    def sigma(self) -> dict[str, float]:
        """Standard deviation of the noise by output, where it was estimated."""
        pairs = zip(self.loss.groups, self.around.groups, strict=True)
        found = {group.name: score.scored.sigma for group, score in pairs if group.law.estimates_sigma}
        return {name: float(sigma[0]) * self.inflation for name, sigma in found.items()}

    @property
    def factors(self) -> dict[str, tuple[float, float]]:
        """Scale and offset of outputs that are `Scaled`."""
        pairs = zip(self.loss.groups, self.around.groups, strict=True)
        return {group.name: score.factor for group, score in pairs if group.has_scale or group.has_offset}

    @property
    def chi_square(self) -> float:
        """Sum of the deviances of all data."""
        return float(sum((score.scored.residuals**2).sum() for score in self.around.groups))

    @property
    def log_likelihood(self) -> float:
        """Log likelihood of the data at the best point."""
        return -0.5 * self.loss.minus_two_log_likelihood(self.outputs)

    @property
    def _n_estimated(self) -> int:
        return int(self.free.sum()) + self.loss.n_factors + self.loss.n_sigmas

    @property
    def aic(self) -> float:
        """Akaike's information criterion: smaller is better among models of the same data."""
        return 2 * self._n_estimated - 2 * self.log_likelihood

    @property
    def bic(self) -> float:
        """The Bayesian information criterion of Schwarz."""
        return self._n_estimated * math.log(self.loss.n_data) - 2 * self.log_likelihood

    def deviations(self) -> Floats:
        """The standard deviation ``(m,)`` of a datum around each prediction; NaN where it is not known."""
        sigma = self.loss.sigma(self.outputs)
        mu = self.loss.predicted(self.outputs)
        for group in self.loss.groups:
            if group.law.estimates_sigma:
                sigma[group.rows] *= self.inflation
            if isinstance(group.law, LogNormal):
                sigma[group.rows] *= mu[group.rows]
        return sigma

    @cached_property
    def _slopes(self) -> tuple[Floats, Floats]:
        """Slopes of predictions and beliefs with respect to unknowns, scales and offsets; and J of (F9)."""
        loss, place = self.loss, self.cube.n
        plain = np.pad(np.where(self.free, self.jacobian, 0.0), [(0, 0), (0, loss.n_factors)])
        weighted = []
        for group, score in zip(loss.groups, self.around.groups, strict=True):
            mu, (a, b) = self.outputs[group.rows], score.factor
            plain[group.rows] *= a
            for column in [mu] * group.has_scale + [np.ones_like(mu)] * group.has_offset:
                plain[group.rows, place] = column
                place += 1
            information = group.law.information(a * loss.own(group, self.outputs) + b, score.scored.sigma)
            weighted.append(np.sqrt(information)[:, None] * loss.own(group, plain))
        return plain, self.around.root * np.concatenate([*weighted, plain[len(loss.data) :]])

    @cached_property
    def _root(self) -> Floats:
        """The covariance of unknowns, scales and offsets, in widths, is this times its transpose."""
        return self._directions[0] * np.sqrt(self.unit)

    @cached_property
    def _is_open(self) -> NDArray[np.bool_]:
        """Which predictions depend on directions that the data do not determine."""
        n, m = self.cube.n, len(self.loss.data)
        if not self.is_measured and np.isnan(self.uncertainty.standard_errors[~self.on_bound]).any():
            return np.ones(m, dtype=bool)
        slopes = self._slopes[0][:m].copy()
        without = np.flatnonzero(~self.has_effect)
        slopes[:, without] = self.jacobian[:m, without]
        still = self._directions[1]
        still = still / np.maximum(np.abs(still[:n]).max(axis=0), 1e-300)  # over whole widths
        still = np.column_stack([still, np.eye(len(still))[:, without]])
        sizes = np.abs(still)
        sizes[:n] = 1.0
        return np.asarray((np.abs(slopes @ still) > _OPEN * (np.abs(slopes) @ sizes)).any(axis=1))

    def band(self, level: float, noise: bool) -> tuple[Floats, Floats]:
        """Ends of the band around the predictions; with ``noise`` that of a new measurement."""
        slopes, centre = self._slopes[0][: len(self.loss.data)], self.loss.predicted(self.outputs)
        errors = np.sqrt(((slopes @ self._root) ** 2).sum(axis=1))  # that come from unknowns, factors and offsets
        errors[self._is_open] = np.inf if self.is_measured else np.nan
        errors = np.hypot(errors, self.deviations()) if noise else errors
        reach = reach_of(level, self.uncertainty.degrees_of_freedom) * errors
        low, high = centre - reach, centre + reach
        for group in self.loss.groups:
            rows = group.rows
            if isinstance(group.law, LogNormal):
                factor = np.exp(reach[rows] / centre[rows])
                low[rows], high[rows] = centre[rows] / factor, centre[rows] * factor
            elif isinstance(group.law, Poisson):
                low[rows] = np.maximum(low[rows], 0.0)
        return low, high

    @property
    def distance(self) -> float:
        """How far the optimum of the linear model is away, in standard errors."""
        if len(self.edge):
            return 0.0
        linear = LinearModel.of(self.around.residuals, np.where(self.has_effect, self.slope, 0.0))
        round_ = self.cube.is_round
        room = np.where(round_, -0.5, -self.point), np.where(round_, 0.5, 1 - self.point)
        gain = linear.gain(bounded_step(linear, *room, 1.0))
        return float(np.sqrt(max(gain, 0.0) / self.unit)) if self.unit > 0 else 0.0

    def remarks(self) -> list[str]:
        """What to doubt."""
        said = []
        series = self.comparison.series(len(self.outputs))
        correlation = contradiction(self.around, self.loss, series, self.cube.n).correlation
        left, value = self.degrees_of_freedom, self.around.value
        if left > 0 and self.kind == "chi-square":
            larger, smaller = float(chdtrc(left, value)), float(chdtr(left, value))
            if larger < IMPROBABLE:
                said.append(
                    f"Chi-square is {value:.4g} with {left} degrees of freedom; noise alone makes it so large with a "
                    f"probability of {larger:.1g}. The model does not describe the data, a better fit exists, or sigma "
                    "is too small."
                )
            elif smaller < IMPROBABLE:
                said.append(
                    f"Chi-square is {value:.4g} with {left} degrees of freedom, less than noise makes it (probability "
                    f"{smaller:.1g}): sigma may be too large."
                )
        if abs(correlation) > CORRELATED:
            said.append(
                f"The residuals are correlated ({correlation:+.1f} standard deviations from what noise "
                "does): a better fit or a better model may exist, and standard errors may be too small."
            )
        if self.is_measured and (far := self.distance) > _MOVED:
            said.append(
                f"The slopes promise a better fit about {far:.2g} standard errors away: allow more simulations."
            )
        if not self.is_measured:
            said.append("The slopes at the best point were not measured: standard errors need more simulations.")
        if self.noise:
            said.append(
                f"The simulator is noisy: its own noise is {100 * self.noise:.2g} % of the residuals. Slopes were "
                "taken over longer steps."
            )
        if not self.is_noise_known and left <= 0:
            data = "1 datum is" if self.loss.n_data == 1 else f"{self.loss.n_data} data are"
            said.append(f"{data} too few for the unknowns and the size of the noise: give sigma.")
        return said


def _across(directions: Floats, still: Floats) -> Floats:
    """Directions less what of them lies along those in which nothing changes."""
    return directions - still @ np.linalg.lstsq(still, directions)[0] if still.size else directions
