r"""What a fit minimises, as least squares around any point.

Outputs :math:`k` with known noise contribute their deviance :math:`Q_k = \sum_i \rho_i` (F1). Outputs with an unknown
:math:`\sigma_k` contribute :math:`G_k = \min_\sigma [n_k \ln \sigma^2 + \sum_i \rho_i] - n_k`, for normal noise
:math:`n_k \ln (S_k / n_k)` with the sum of squares :math:`S_k`. With :math:`N = \sum n_k` over the latter, the value is

.. math:: f = N \exp \frac{\sum_k G_k + \sum_k Q_k}{N}, \qquad f = \sum_k Q_k \text{ if } N = 0           \tag{F2}

Because :math:`\partial G_k / \partial \rho_i = 1` at fixed :math:`\sigma_k`, residuals times :math:`\sqrt{f / N}` have
a sum of squares that changes like :math:`f`. Beside known noise or beliefs, whose deviances have no bounds, :math:`f`
follows its tangent in this sum from where it is :math:`e^3` times that of a constant. Else it would be infinite in most
of a box, and steps would promise more than the whole value.

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

_LARGEST = 700.0  # exponent of (F2): the exponential of more overflows
_STEEP = 3.0  # exponent of (F2) above that of constants from which on the value follows its tangent
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
    factor: tuple[float, float]  # scale and offset
    columns: Floats | None  # (j * n, 1 or 2): slopes with respect to scale and offset


class Around(NamedTuple):
    """The loss at a point, and the residuals whose sum of squares changes like it."""

    value: float
    residuals: Floats  # (k,)
    groups: tuple[GroupScore, ...]
    root: float  # sqrt(f / N), or one


class Loss:
    """The value of vectors of outputs.

    Data (m,) are NaN where outputs do not count. Groups cover all data; a law with a sigma for each datum has none
    where there is no datum, and groups without data are set aside. After the outputs a vector has ``n_beliefs``
    residuals of priors and penalties, with unit variance.
    """

    def __init__(self, data: Floats, groups: tuple[Group, ...], n_beliefs: int = 0) -> None:
        self.data, self.n_beliefs = data, n_beliefs
        self.has_datum = ~np.isnan(data)
        self.groups = tuple(group for group in groups if self.has_datum[group.rows].any())
        self._without = tuple(group for group in groups if not self.has_datum[group.rows].any())
        sizes = [int(self.has_datum[group.rows].sum()) for group in self.groups if group.law.estimates_sigma]
        self.n_data = int(self.has_datum.sum())
        self.n_estimated = sum(sizes)  # data whose sigma is unknown
        self.n_sigmas = len(sizes)
        self._tangent_from = math.inf
        if sizes and (n_beliefs or len(sizes) < len(self.groups)):
            usual = [_usual(one.law, self.own(one, data)) for one in self.groups if one.law.estimates_sigma]
            self._tangent_from = sum(usual) / self.n_estimated + _STEEP
        self.n_factors = sum(group.has_scale + group.has_offset for group in self.groups)

    @property
    def is_chi_square(self) -> bool:
        """Whether the value is distributed like chi-square if the laws are right."""
        return all(group.law.is_chi_square for group in self.groups)

    def part(self, rows: NDArray[np.intp]) -> Loss:
        """The loss of some of the data, for the same vectors."""
        data = np.full(len(self.data), np.nan)
        data[rows] = self.data[rows]
        groups = [group._replace(law=group.law.part(~np.isnan(self.own(group, data)))) for group in self.groups]
        return Loss(data, (*groups, *self._without), self.n_beliefs)

    def value(self, y: Floats) -> float:
        """The value of a vector ``(m,)``; infinite where it makes no sense."""
        return self.around(y).value

    def around(self, y: Floats) -> Around:
        """The value, and the residuals around a vector."""
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            scores = self._scores(y)
            beliefs = y[len(self.data) :]
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
        steep = min(exponent, self._tangent_from)
        if steep >= _LARGEST:
            return math.inf, 1.0
        return self.n_estimated * math.exp(steep) * (1 + exponent - steep), math.exp(steep / 2)

    def slope(self, around: Around, jacobian: Floats) -> Floats:
        """The slope ``(k, n)`` of the residuals, from that of the vector ``(m, n)``."""
        parts = []
        for group, score in zip(self.groups, around.groups, strict=True):
            rows = score.factor[0] * self.own(group, jacobian)
            part = (score.scored.slopes[:, :, None] * rows).reshape(-1, jacobian.shape[1])
            if score.columns is not None:  # what scale and offset take up
                part = part - score.columns @ np.linalg.lstsq(score.columns, part)[0]
            parts.append(part)
        return around.root * np.concatenate([*parts, jacobian[len(self.data) :]])

    def own(self, group: Group, y: Floats) -> Floats:
        """The part of a vector, or of rows, for which a group has data."""
        kept = self.has_datum[group.rows]
        return y[group.rows] if kept.all() else y[group.rows][kept]

    def _scores(self, y: Floats) -> tuple[GroupScore, ...]:
        return tuple(self._score(group, self.own(group, y)) for group in self.groups)

    def _score(self, group: Group, mu: Floats) -> GroupScore:
        data, ((a, b), columns) = self.own(group, self.data), self.factors(group, mu)
        scored = group.law.scored(a * mu + b, data)
        flat = scored.residuals.ravel()
        deviance = float(flat @ flat)
        if group.law.estimates_sigma:  # G_k
            deviance += len(data) * (2 * math.log(scored.sigma[0]) - 1)
        return GroupScore(scored, deviance, (a, b), columns)

    def factors(self, group: Group, mu: Floats) -> tuple[tuple[float, float], Floats | None]:
        """The best scale and offset of a group, and the slopes of its residuals with respect to them, if any."""
        if group.has_scale or group.has_offset:
            return _solved(group, mu, self.own(group, self.data))
        return (1.0, 0.0), None

    def minus_two_log_likelihood(self, y: Floats) -> float:
        """Minus twice the log likelihood of the data, with the estimated sigma where that is unknown."""
        total = 0.0
        for group in self.groups:
            mu = self.own(group, y)
            (a, b), _ = self.factors(group, mu)
            total -= 2 * float(group.law.log_densities(a * mu + b, self.own(group, self.data)).sum())
        return total

    def predicted(self, y: Floats) -> Floats:
        """Predictions ``(m,)`` with scale and offset, also where there is no datum; NaN if these are not known."""
        found = y[: len(self.data)].copy()
        for group, score in zip(self.groups, self._scores(y), strict=True):
            a, b = score.factor
            found[group.rows] = a * y[group.rows] + b
        for group in self._without:
            if group.has_scale or group.has_offset:
                found[group.rows] = np.nan
        return found

    def sigma(self, y: Floats) -> Floats:
        """The standard deviation ``(m,)`` of a datum, also where there is none; NaN where it is not known."""
        found, predicted = np.full(len(self.data), np.nan), self.predicted(y)
        for group, score in zip(self.groups, self._scores(y), strict=True):
            law, own = group.law, score.scored.sigma
            if law.estimates_sigma:
                law = law.with_sigma(float(own[0]))
            if np.ndim(getattr(law, "sigma", 0.0)) == 0:
                found[group.rows] = law.scored(predicted[group.rows], predicted[group.rows]).sigma
            else:
                found[group.rows][self.has_datum[group.rows]] = own
        return found


def _usual(law: Likelihood, data: Floats) -> float:
    """About the G_k of a constant; of data that are all the same, of zero."""
    mean = float(data.mean())
    sigma = float(law.scored(np.full_like(data, mean), data).sigma[0])
    return 2 * len(data) * math.log(sigma if sigma > 1e-6 * abs(mean) + 1e-100 else abs(mean) or 1.0)


def _solved(group: Group, mu: Floats, data: Floats) -> tuple[tuple[float, float], Floats]:
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
    return (a, float(theta[-1]) if group.has_offset else 0.0), columns
