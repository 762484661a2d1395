r"""What a fit minimises, as least squares around any point.

Outputs :math:`k` with known noise contribute their deviance :math:`Q_k = \sum_i \rho_i` (F1). Outputs with an unknown
:math:`\sigma_k` contribute :math:`G_k = \min_\sigma [n_k \ln \sigma^2 + \sum_i \rho_i] - n_k`, for normal noise
:math:`n_k \ln (S_k / n_k)` with the sum of squares :math:`S_k`. With :math:`N = \sum n_k` over the latter, the value is

.. math:: f = N \exp \frac{\sum_k G_k + \sum_k Q_k}{N}, \qquad f = \sum_k Q_k \text{ if } N = 0           \tag{F2}

It grows with minus twice the log likelihood, and it is the plain sum of squares for one output with normal noise of
unknown size. Because :math:`\partial G_k / \partial \rho_i = 1` at fixed :math:`\sigma_k`, residuals times
:math:`\sqrt{f / N}` have a sum of squares that changes like :math:`f`: that is all that Gauss-Newton steps need.

An output that is `Scaled` is :math:`a \mu + b` with unknown :math:`a, b`. They are solved for at every point, and the
slope of the residuals is taken with its part along their columns removed (Kaufman 1975).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from paoswarm.core.arrays import Floats
from paoswarm.least_squares.likelihoods import Likelihood, Scored

_MOST_ROUNDS = 30  # of Gauss-Newton steps for scale and offset; one is enough for normal noise
_STILL = 1e-12  # relative fall of the deviance that ends them


@dataclass(frozen=True)
class Scaled:
    """Data whose unit is unknown: the model's output times a factor, which is fitted, too.

    Factor and offset take no simulations: they are solved for at every point.

    Parameters
    ----------
    data : array
        The data of an output.
    offset : bool
        Whether an unknown number is added, too.
    scale : bool
        Whether there is an unknown factor.

    Examples
    --------
    >>> import numpy as np
    >>> import paoswarm as ps
    >>> t = np.arange(6.0)
    >>> fluorescence = ps.Scaled(250 * np.exp(-0.7 * t) + 40, offset=True)
    >>> fit = ps.fit(lambda p: np.exp(-p["rate"] * t), {"rate": (0.1, 5)}, fluorescence, rng=1)
    >>> fit.best  # doctest: +NUMBER
    {'rate': 0.7000}
    """

    data: Any
    offset: bool = False
    scale: bool = True

    def __post_init__(self) -> None:
        if not (self.offset or self.scale):
            raise ValueError("Scaled(offset=False, scale=False) leaves nothing unknown: give the data alone")


class Factor(NamedTuple):
    """How an output is scaled: ``a * mu + b``."""

    a: float = 1.0
    b: float = 0.0


class Group(NamedTuple):
    """Some of the data, with their law."""

    name: str
    rows: slice
    law: Likelihood
    has_scale: bool = False
    has_offset: bool = False


class GroupScore(NamedTuple):
    """What one group contributes."""

    scored: Scored
    deviance: float
    factor: Factor
    columns: Floats | None  # (j * n, 1 or 2): slopes with respect to scale and offset


class Around(NamedTuple):
    """The loss at a point, and the residuals whose sum of squares changes like it."""

    value: float
    residuals: Floats  # (k,)
    groups: tuple[GroupScore, ...]
    root: float  # sqrt(f / N), or one


class Loss:
    """The value of vectors of outputs.

    Parameters
    ----------
    data : array (m,)
    groups : sequence of Group
        They cover all data.
    n_beliefs : int
        How many numbers follow the data in a vector: residuals of priors and penalties, with unit variance.
    """

    def __init__(self, data: Floats, groups: tuple[Group, ...], n_beliefs: int = 0) -> None:
        self.data, self.groups, self.n_beliefs = data, groups, n_beliefs
        sizes = [group.rows.stop - group.rows.start for group in groups if group.law.estimates_sigma]
        self.n_estimated = sum(sizes)  # data whose sigma is unknown
        self.n_sigmas = len(sizes)
        self.n_factors = sum(group.has_scale + group.has_offset for group in groups)

    @property
    def n_data(self) -> int:
        """How many data there are."""
        return len(self.data)

    def part(self, rows: NDArray[np.intp]) -> PartialLoss:
        """The loss of some of the data, in ascending order."""
        groups, first = [], 0
        for group in self.groups:
            own = rows[(rows >= group.rows.start) & (rows < group.rows.stop)] - group.rows.start
            if len(own):
                groups.append(group._replace(rows=slice(first, first + len(own)), law=group.law.part(own)))
                first += len(own)
        kept = np.concatenate([rows, np.arange(self.n_data, self.n_data + self.n_beliefs)])
        return PartialLoss(Loss(self.data[rows], tuple(groups), self.n_beliefs), kept)

    def value(self, y: Floats) -> float:
        """The value of a vector ``(m,)``; infinite where it makes no sense."""
        return self.around(y).value

    def values(self, rows: Floats) -> Floats:
        """The values of several."""
        return np.array([self.value(y) for y in rows])

    def around(self, y: Floats) -> Around:
        """The value, and the residuals around a vector."""
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            scores = tuple(self._score(group, y[group.rows]) for group in self.groups)
            beliefs = y[self.n_data :]
            total = sum(score.deviance for score in scores) + float(beliefs @ beliefs)
        if not math.isfinite(total):
            return Around(math.inf, np.full(0, np.nan), scores, 1.0)
        value, root = self._joined(total)
        parts = [score.scored.residuals.ravel() for score in scores]
        return Around(value, root * np.concatenate([*parts, beliefs]), scores, root)

    def _joined(self, total: float) -> tuple[float, float]:
        """The value (F2) of a sum of deviances, and the factor of the residuals."""
        if not self.n_estimated:
            return total, 1.0
        exponent = total / self.n_estimated
        value = self.n_estimated * math.exp(exponent) if exponent < 700 else math.inf
        return value, math.sqrt(value / self.n_estimated)

    def slope(self, around: Around, jacobian: Floats) -> Floats:
        """The slope ``(k, n)`` of the residuals, from that of the vector ``(m, n)``."""
        parts = []
        for group, score in zip(self.groups, around.groups, strict=True):
            rows = score.factor.a * jacobian[group.rows]
            part = (score.scored.slopes[:, :, None] * rows).reshape(-1, jacobian.shape[1])
            if score.columns is not None:  # what scale and offset take up
                part = part - score.columns @ np.linalg.lstsq(score.columns, part)[0]
            parts.append(part)
        return around.root * np.concatenate([*parts, jacobian[self.n_data :]])

    def _score(self, group: Group, mu: Floats) -> GroupScore:
        data, factor, columns = self.data[group.rows], Factor(), None
        if group.has_scale or group.has_offset:
            factor, columns = _solved(group, mu, data)
        scored = group.law.scored(factor.a * mu + factor.b, data)
        flat = scored.residuals.ravel()
        deviance = float(flat @ flat)
        if group.law.estimates_sigma:  # G_k
            deviance += len(data) * (2 * math.log(scored.sigma[0]) - 1)
        return GroupScore(scored, deviance, factor, columns)

    def minus_two_log_likelihood(self, y: Floats) -> float:
        """Minus twice the log likelihood of the data, with the estimated sigma where that is unknown."""
        total = 0.0
        for group in self.groups:
            data, score = self.data[group.rows], self._score(group, y[group.rows])
            flat, sigma = score.scored.residuals.ravel(), score.scored.sigma
            total += float(flat @ flat) + group.law.constant(data)
            if hasattr(group.law, "sigma"):
                base = sigma if group.law.estimates_sigma else np.broadcast_to(group.law.sigma, data.shape)
                total += 2 * float(np.log(base).sum())
        return total

    def predicted(self, y: Floats) -> Floats:
        """Predictions of the data: with scale and offset."""
        found = y[: self.n_data].copy()
        for group in self.groups:
            factor = self._score(group, y[group.rows]).factor
            found[group.rows] = factor.a * y[group.rows] + factor.b
        return found

    def sigma(self, y: Floats) -> Floats:
        """The standard deviation of each datum."""
        return np.concatenate([self._score(group, y[group.rows]).scored.sigma for group in self.groups])


class PartialLoss(NamedTuple):
    """The loss of some of the data, for vectors of all."""

    loss: Loss
    rows: NDArray[np.intp]

    def value(self, y: Floats) -> float:
        """The value of a vector ``(m,)``."""
        return self.loss.value(y[self.rows])

    def around(self, y: Floats) -> Around:
        """The value, and the residuals around a vector."""
        return self.loss.around(y[self.rows])

    def slope(self, around: Around, jacobian: Floats) -> Floats:
        """The slope of the residuals, from that of the vector."""
        return self.loss.slope(around, jacobian[self.rows])


def _solved(group: Group, mu: Floats, data: Floats) -> tuple[Factor, Floats]:
    """Scale and offset that fit best, and the slopes of the residuals with respect to them."""
    design = np.stack([mu] * group.has_scale + [np.ones_like(mu)] * group.has_offset, axis=1)
    base = np.zeros_like(mu) if group.has_scale else mu

    def scored(theta: Floats) -> tuple[Scored, float]:
        found = group.law.scored(base + design @ theta, data)
        deviance = float((found.residuals**2).sum())
        if group.law.estimates_sigma:
            deviance += 2 * len(data) * math.log(found.sigma[0])
        return found, deviance

    theta: Floats = np.full(design.shape[1], np.nan)
    if np.isfinite(design).all():
        theta = np.asarray(np.linalg.lstsq(design, data - base)[0])
    found, deviance = scored(theta)
    if not math.isfinite(deviance):  # where predictions must be above zero
        theta = np.zeros(design.shape[1])
        theta[0] = data.mean() / mu.mean() if group.has_scale else 0.0
        found, deviance = scored(theta)
    for _ in range(_MOST_ROUNDS):
        columns = (found.slopes[:, :, None] * design).reshape(-1, design.shape[1])
        if not np.isfinite(columns).all() or not math.isfinite(deviance):
            break
        step = -np.linalg.lstsq(columns, found.residuals.ravel())[0]
        share = 1.0
        while share > 1e-3:
            tried, value = scored(theta + share * step)
            if value <= deviance:
                break
            share /= 2
        else:
            break
        fall, theta, found, deviance = deviance - value, theta + share * step, tried, value
        if fall <= _STILL * abs(deviance):
            break
    columns = (found.slopes[:, :, None] * design).reshape(-1, design.shape[1])
    a = float(theta[0]) if group.has_scale else 1.0
    return Factor(a, float(theta[-1]) if group.has_offset else 0.0), columns
