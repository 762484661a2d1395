r"""Laws of the noise: how far a prediction may be from a datum.

Each law has a *deviance* :math:`\rho(\mu)`, minus twice the log likelihood of a datum but for a constant, that is zero
where prediction and datum agree. Its signed root :math:`r` is a residual, so every law is a least-squares problem:

.. math:: -2 \ln L = \sum_i \rho_i + c, \qquad r_i = \operatorname{sign}(\mu_i - y_i) \sqrt{\rho_i}      \tag{F1}

============  =====================================================
`Normal`      :math:`\rho = (\mu - y)^2 / \sigma^2`
`LogNormal`   :math:`\rho = (\ln \mu - \ln y)^2 / \sigma^2`
`Poisson`     :math:`\rho = 2 (\mu - y + y \ln (y / \mu))`
`StudentT`    :math:`\rho = (\nu + 1) \ln (1 + z^2 / \nu)`, :math:`z = (\mu - y) / \sigma`
`Huber`       :math:`\rho = z^2`, from :math:`|z| = k` on :math:`2 k |z| - k^2`
============  =====================================================

An unknown :math:`\sigma` is estimated at every point: it is where :math:`n \ln \sigma^2 + \sum_i \rho_i` is smallest.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import gammaln, ndtr, ndtri, xlog1py, xlogy

from paoswarm._checks import choices, real_number
from paoswarm.core.arrays import Floats

_STILL = 1e-12  # relative error of the estimate of an unknown sigma
_LONGEST = 200.0  # how far its logarithm may fall; beyond, squares would overflow
_SMALLEST = 1e-150  # of sigma: its square must not underflow


class Scored(NamedTuple):
    """Residuals of some data, and what goes with them."""

    residuals: Floats  # (j, ..., n): most laws have one for each datum
    slopes: Floats  # (j, ..., n), with respect to the prediction
    sigma: Floats  # (..., n), standard deviation or scale of each datum


@dataclass(frozen=True)
class Likelihood:
    """A law of the noise."""

    estimates_sigma: ClassVar[Any] = False  # whether the size of the noise is unknown
    is_chi_square: ClassVar[Any] = False  # whether the deviance of data that have this law has that distribution

    def check(self, data: Floats) -> None:
        """Raise if the law cannot have produced these data."""

    def scored(self, mu: Floats, data: Floats) -> Scored:
        """Residuals of predictions ``mu``, (n,) or (k, n); NaN where the law does not allow a prediction."""
        raise NotImplementedError

    def information(self, mu: Floats, sigma: Floats) -> Floats:
        """Fisher's information of each datum about its prediction; ``sigma`` is that of `scored`."""
        raise NotImplementedError

    def constants(self, data: Floats) -> Floats:
        """What is added to each deviance to make minus twice a log density; without the part of sigma."""
        return np.zeros(len(data))

    def log_densities(self, mu: Floats, data: Floats) -> Floats:
        """Log densities ``(k, n)`` of the data for predictions ``(k, n)``, with the estimated sigma if it is unknown.

        NaN where the law does not allow a prediction.
        """
        scored = self.scored(mu, data)
        base = scored.sigma if self.estimates_sigma else getattr(self, "sigma", 1.0)
        found: Floats = -0.5 * ((scored.residuals**2).sum(axis=0) + self.constants(data)) - np.log(base)
        return found

    def draw(self, mu: Floats, rng: np.random.Generator) -> Floats:
        """Data that the law might have produced for predictions; sigma must be known."""
        raise NotImplementedError

    def part(self, rows: NDArray[Any]) -> Likelihood:
        """The law of some of the data."""
        return self

    def with_sigma(self, sigma: Any) -> Likelihood:
        """The same law with a known size of the noise."""
        raise ValueError(f"{type(self).__name__} has no sigma: leave out sigma=")


@dataclass(frozen=True)
class _LocationScale(Likelihood):
    """Laws of ``z = (mu - y) / sigma``."""

    sigma: Any = None

    def __post_init__(self) -> None:
        if self.sigma is not None:
            sigma = np.asarray(self.sigma)
            if sigma.dtype.kind not in "fiu" or not (np.isfinite(sigma) & (sigma > 0)).all():
                raise ValueError(f"sigma must be above zero, a number or one for each datum, got {self.sigma!r}")

    @property
    def estimates_sigma(self) -> bool:
        """Whether sigma was not given."""
        return self.sigma is None

    def part(self, rows: NDArray[Any]) -> Likelihood:
        """The law of some of the data."""
        return self if np.ndim(self.sigma) == 0 else replace(self, sigma=np.ravel(self.sigma)[rows])

    def with_sigma(self, sigma: Any) -> Likelihood:
        """The same law with a known standard deviation."""
        if self.sigma is not None:
            raise ValueError(f"{self!r} has a sigma already: leave out sigma=")
        return replace(self, sigma=sigma)

    def rho(self, z: Floats) -> tuple[Floats, Floats]:
        """The deviance and half of its derivative."""
        return z * z, z

    def apart(self, mu: Floats, data: Floats) -> tuple[Floats, Floats | float]:
        """How far predictions are from the data, and the slope of that."""
        return mu - data, 1.0

    def scored(self, mu: Floats, data: Floats) -> Scored:
        """Residuals, with the estimated or the given sigma."""
        apart, slope = self.apart(mu, data)
        sigma = np.broadcast_to(self._estimated(apart) if self.sigma is None else self.sigma, apart.shape)
        z = apart / sigma
        rho, half = self.rho(z)
        root = np.sqrt(rho)
        with np.errstate(divide="ignore", invalid="ignore"):
            at_zero = float(self.rho(np.array([1e-6]))[1][0] / 1e-6)  # slope of ``half``
            steep = np.where(root > 1e-9, half * np.sign(z) / root, math.sqrt(at_zero))
        return Scored((np.sign(z) * root)[None], (steep / sigma * slope)[None], sigma)

    def information(self, mu: Floats, sigma: Floats) -> Floats:
        """That about the location of z, over the squared scale of the prediction."""
        return self._information * np.square(self.apart(mu, mu)[1] / sigma)

    @property
    def _information(self) -> float:
        """Information of a datum about the location of z."""
        return 1.0

    def _estimated(self, apart: Floats) -> Floats:
        """The sigma ``(..., 1)`` at which the likelihood of deviations ``(..., n)`` is largest.

        There the mean of ``z rho'(z) / 2`` is one.
        """
        largest = np.sqrt(np.mean(apart * apart, axis=-1, keepdims=True))  # rho grows at most like z**2
        found: Floats = np.maximum(np.where(np.isfinite(largest), largest, np.nan), _SMALLEST)
        z = apart / found
        is_less = (np.mean(z * self.rho(z)[1], axis=-1, keepdims=True) - 1 <= -_STILL) & (found > _SMALLEST)
        for row in map(tuple, np.argwhere(is_less)):
            found[row] = self._estimated_below(float(found[row]), apart[row[:-1]])
        return found

    def _estimated_below(self, largest: float, apart: Floats) -> float:
        """The same for deviations ``(n,)``, if it is known to be less than a number."""

        def excess(log_sigma: float) -> float:
            z = apart / math.exp(log_sigma)
            return float(np.mean(z * self.rho(z)[1])) - 1

        high = math.log(largest)
        low = high - 1
        while excess(low) < 0:
            high, low = low, 3 * low - 2 * high
            if low < math.log(largest) - _LONGEST:  # most data are hit, and the likelihood has no maximum
                return max(math.exp(low), _SMALLEST)
        return max(math.exp(brentq(excess, low, high, xtol=_STILL)), _SMALLEST)

    @property
    def _area(self) -> float:
        """The integral of ``exp(-rho / 2)`` over z."""
        return math.sqrt(2 * math.pi)

    def constants(self, data: Floats) -> Floats:
        """Twice the log of the area below the density."""
        return np.full(len(data), 2 * math.log(self._area))

    def draw(self, mu: Floats, rng: np.random.Generator) -> Floats:
        """Predictions and noise."""
        return mu + self.scored(mu, mu).sigma * self.deviates(mu.shape, rng)

    def deviates(self, shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
        """Draws of z."""
        return rng.standard_normal(shape)


@dataclass(frozen=True)
class Normal(_LocationScale):
    """Normal noise.

    Parameters
    ----------
    sigma : float or array, optional
        Standard deviation of each datum. None: one unknown number for the output, which is estimated.
    relative : float
        A part of the noise that is proportional to the prediction: ``sqrt(sigma**2 + (relative * prediction)**2)``.
    """

    relative: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        real_number("relative", self.relative, 0.0, may_equal=True)
        if self.relative and self.sigma is None:
            raise ValueError(
                "Normal(relative=...) needs sigma itself, the part of the noise that does not depend on the size: "
                f"write Normal(0.01, relative={self.relative:g}) if that is 0.01, and leave out sigma="
            )

    @property
    def is_chi_square(self) -> bool:
        """Whether sigma is known and does not depend on the prediction."""
        return self.sigma is not None and not self.relative

    def scored(self, mu: Floats, data: Floats) -> Scored:
        """Residuals; with a relative part, the logarithm of its growth is a second residual."""
        if not self.relative:
            return super().scored(mu, data)
        share = self.relative / np.broadcast_to(self.sigma, mu.shape)
        growth = 1 + (share * mu) ** 2  # of the variance
        sigma = self.sigma * np.sqrt(growth)
        z = (mu - data) / sigma
        root = np.sqrt(np.log1p((share * mu) ** 2)) * np.sign(mu)  # odd, and smooth at zero
        inner = share**2 * mu / growth  # half the slope of the logarithm
        with np.errstate(divide="ignore", invalid="ignore"):
            steep = np.where(np.abs(root) > 1e-9, inner / root, share)
        return Scored(np.array([z, root]), np.array([1 / sigma - z * inner, steep]), sigma)

    def information(self, mu: Floats, sigma: Floats) -> Floats:
        """That about the location, and about the variance if it grows with the prediction."""
        return 1 / sigma**2 + 2 * (self.relative**2 * mu / sigma**2) ** 2


@dataclass(frozen=True)
class LogNormal(_LocationScale):
    """Normal noise of the logarithm: errors are factors. Data and predictions are above zero.

    Parameters
    ----------
    sigma : float or array, optional
        Standard deviation of the natural logarithm of each datum. None: one unknown number, which is estimated.
    """

    @property
    def is_chi_square(self) -> bool:
        """Whether sigma is known."""
        return self.sigma is not None

    def check(self, data: Floats) -> None:
        """Raise unless the data are above zero."""
        if not (data > 0).all():
            raise ValueError(f"log-normal data must be above zero, got {data[~(data > 0)][0]}")

    def apart(self, mu: Floats, data: Floats) -> tuple[Floats, Floats | float]:
        """Logarithms of the ratio."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(mu > 0, np.log(mu / data), np.nan), 1 / mu

    def constants(self, data: Floats) -> Floats:
        """That of the normal law, and the logarithms of the data."""
        return super().constants(data) + 2 * np.log(data)

    def draw(self, mu: Floats, rng: np.random.Generator) -> Floats:
        """Predictions times the exponential of normal noise."""
        found: Floats = mu * np.exp(self.sigma * self.deviates(mu.shape, rng))
        return found


@dataclass(frozen=True)
class Poisson(Likelihood):
    """Counts; predictions are their expectations and above zero."""

    def check(self, data: Floats) -> None:
        """Raise unless the data are counts."""
        wrong = ~((data >= 0) & (data == np.rint(data)))
        if wrong.any():
            raise ValueError(f"Poisson data must be whole numbers from zero on, got {data[wrong][0]}")

    def scored(self, mu: Floats, data: Floats) -> Scored:
        """Roots of the deviance."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            mu = np.where(mu > 0, mu, np.nan)
            apart = mu - data
            share = apart / data
            # Near the datum the formula cancels; this is the start of its series.
            near = apart * share * (1 - 2 * share / 3 + share**2 / 2)
            rho = np.where(np.abs(share) < 1e-4, near, 2 * (apart - xlog1py(data, share)))
            root = np.sqrt(np.maximum(rho, 0.0))
            steep = np.where(apart == 0, 1 / np.sqrt(mu), np.abs(apart) / mu / root)
        return Scored((np.sign(apart) * root)[None], steep[None], np.sqrt(mu))

    def information(self, mu: Floats, sigma: Floats) -> Floats:
        """One over the variance."""
        return 1 / mu

    def constants(self, data: Floats) -> Floats:
        """What the deviance leaves out."""
        found: Floats = 2 * (gammaln(data + 1) + data - xlogy(data, data))
        return found

    def draw(self, mu: Floats, rng: np.random.Generator) -> Floats:
        """Counts; NaN where a prediction is not above zero."""
        return np.where(mu > 0, rng.poisson(np.where(mu > 0, mu, 0.0)), np.nan)


@dataclass(frozen=True)
class StudentT(_LocationScale):
    """Student's t: noise with outliers.

    Parameters
    ----------
    sigma : float or array, optional
        Scale of each datum. None: one unknown number, which is estimated.
    df : float
        Degrees of freedom. With fewer, outliers matter less.
    """

    df: float = 4.0

    def __post_init__(self) -> None:
        super().__post_init__()
        real_number("df", self.df, 0.0, may_equal=False)

    def rho(self, z: Floats) -> tuple[Floats, Floats]:
        """The deviance and half of its derivative."""
        return (self.df + 1) * np.log1p(z * z / self.df), (self.df + 1) * z / (self.df + z * z)

    def deviates(self, shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
        """Draws of Student's law."""
        return rng.standard_t(self.df, shape)

    @property
    def _information(self) -> float:
        return (self.df + 1) / (self.df + 3)

    @property
    def _area(self) -> float:
        v = self.df
        return math.sqrt(v * math.pi) * math.exp(math.lgamma(v / 2) - math.lgamma((v + 1) / 2))


@dataclass(frozen=True)
class Huber(_LocationScale):
    """Normal noise in the middle, exponential tails: outliers pull with a limited force.

    Parameters
    ----------
    sigma : float or array, optional
        Scale of each datum. None: one unknown number, which is estimated.
    k : float
        From how many sigma on a datum is an outlier. With 1.345, normal data lose 5 % of their information.
    """

    k: float = 1.345

    def __post_init__(self) -> None:
        super().__post_init__()
        real_number("k", self.k, 0.0, may_equal=False)

    def rho(self, z: Floats) -> tuple[Floats, Floats]:
        """The deviance and half of its derivative."""
        size = np.abs(z)
        inside = size <= self.k
        return np.where(inside, z * z, 2 * self.k * size - self.k**2), np.where(inside, z, self.k * np.sign(z))

    def deviates(self, shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
        """Draws of the normal law between -k and k, and of the exponential law beyond."""
        middle = ndtri(rng.uniform(ndtr(-self.k), ndtr(self.k), shape))
        tail = rng.choice([-1.0, 1.0], shape) * (self.k + rng.exponential(1 / self.k, shape))
        return np.where(rng.random(shape) < self._information, middle, tail)

    @property
    def _information(self) -> float:
        return self._middle / self._area  # the probability of the middle

    @property
    def _area(self) -> float:
        return self._middle + 2 / self.k * math.exp(-(self.k**2) / 2)

    @property
    def _middle(self) -> float:
        return math.sqrt(2 * math.pi) * float(ndtr(self.k) - ndtr(-self.k))


BY_NAME: dict[str, type[Likelihood]] = {
    "normal": Normal,
    "lognormal": LogNormal,
    "poisson": Poisson,
    "student-t": StudentT,
    "huber": Huber,
}


def read_likelihood(given: Any) -> Likelihood:
    """A law, by itself or by its name."""
    if isinstance(given, Likelihood):
        return given
    if isinstance(given, str):
        if given not in BY_NAME:
            raise ValueError(f"there is no likelihood {given!r}; {choices(given, tuple(BY_NAME))}")
        return BY_NAME[given]()
    raise TypeError(f"likelihood must be one of paoswarm.likelihoods, such as Poisson(), or its name, got {given!r}")
