r"""Priors, and the coordinates in which the sampler works.

Where every parameter is uniform on a finite interval, the coordinates ``z`` are the box scaled to :math:`[-1, 1]^d`.
Otherwise :math:`z_i = \Phi^{-1}(F_i(x_i))` with the prior's distribution functions (or any transform of uniform
deviates), and the prior of ``z`` is exactly :math:`N(0, I)`: no Jacobian is left over.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri

from paoswarm.core.walled import Floats

_LOG_2PI = math.log(2 * math.pi)
_BEYOND = 37  # where Phi is zero to the last bit


class Prior(ABC):
    """A prior in the sampler's coordinates; this one is standard normal there, subclasses say what that means."""

    is_box = False

    def __init__(self, names: Sequence[str]) -> None:
        self.names = list(names)
        self.dim = len(self.names)

    @abstractmethod
    def parameters(self, z: Floats) -> Floats:
        """The user's parameters ``x`` at ``z``."""

    @abstractmethod
    def coordinates(self, x: Floats) -> Floats:
        """Where parameters lie in the sampler's coordinates."""

    def log_density(self, z: Floats) -> Floats:
        """Normalised log density of ``z``; -inf outside a box, and where a distribution function has no digits left."""
        density: Floats = -0.5 * (z**2).sum(axis=1) - 0.5 * self.dim * _LOG_2PI
        return np.where((np.abs(z) <= _BEYOND).all(axis=1), density, -np.inf)

    def draw(self, n: int, rng: np.random.Generator) -> Floats:
        """``n`` independent draws of ``z``."""
        return rng.standard_normal((n, self.dim))

    def inside(self, z: Floats) -> Floats:
        """The nearest points of positive density."""
        return np.clip(z, -_BEYOND, _BEYOND)


class Box(Prior):
    """Uniform on a finite box."""

    is_box = True

    def __init__(self, names: Sequence[str], low: Floats, high: Floats) -> None:
        super().__init__(names)
        self._low, self._high = low, high
        self._middle, self._half = 0.5 * low + 0.5 * high, 0.5 * high - 0.5 * low

    def parameters(self, z: Floats) -> Floats:
        """The user's parameters; rounding does not leave the box."""
        return np.clip(self._middle + self._half * z, self._low, self._high)

    def coordinates(self, x: Floats) -> Floats:
        """Scaled to [-1, 1]."""
        return (x - self._middle) / self._half

    def log_density(self, z: Floats) -> Floats:
        """``-d log 2`` inside."""
        return np.where((np.abs(z) <= 1).all(axis=1), -self.dim * math.log(2), -np.inf)

    def draw(self, n: int, rng: np.random.Generator) -> Floats:
        """Uniform draws."""
        return rng.uniform(-1, 1, (n, self.dim))

    def inside(self, z: Floats) -> Floats:
        """The nearest points of the box."""
        return np.clip(z, -1, 1)


class Independent(Prior):
    """Parameters with laws of their own."""

    def __init__(self, names: Sequence[str], laws: Sequence[Any]) -> None:
        super().__init__(names)
        self._laws = laws

    def parameters(self, z: Floats) -> Floats:
        """By quantile functions; each half by the tail that keeps its digits."""
        tail = ndtr(-np.abs(z))
        columns = [np.where(z[:, i] < 0, law.ppf(tail[:, i]), law.isf(tail[:, i])) for i, law in enumerate(self._laws)]
        return np.stack(columns, axis=1)

    def coordinates(self, x: Floats) -> Floats:
        """By distribution functions."""
        columns = []
        for i, law in enumerate(self._laws):
            below, above = law.cdf(x[:, i]), law.sf(x[:, i])
            columns.append(np.where(below < above, ndtri(below), -ndtri(above)))
        return np.stack(columns, axis=1)


class Correlated(Prior):
    """A multivariate normal law."""

    def __init__(self, names: Sequence[str], mean: Floats, covariance: Floats) -> None:
        super().__init__(names)
        self._mean = mean
        try:
            self._factor = np.linalg.cholesky(covariance)
        except np.linalg.LinAlgError:
            raise ValueError("the covariance of the prior is not positive definite") from None

    def parameters(self, z: Floats) -> Floats:
        """``mean + L z``."""
        return self._mean + z @ self._factor.T

    def coordinates(self, x: Floats) -> Floats:
        """``L^-1 (x - mean)``."""
        return np.linalg.solve(self._factor, (x - self._mean).T).T


class Transformed(Prior):
    """Any law, as a transform ``(m, d) -> (m, d)`` of independent uniform deviates on (0, 1)."""

    def __init__(self, names: Sequence[str], transform: Callable[[Floats], ArrayLike]) -> None:
        super().__init__(names)
        self._transform = transform

    def parameters(self, z: Floats) -> Floats:
        """The transform of ``Phi(z)``."""
        inside = np.clip(ndtr(z), np.finfo(float).tiny, 1 - 2.0**-53)  # quantiles at 0 and 1 are often infinite
        x = np.asarray(self._transform(inside), dtype=float)
        if x.shape != z.shape:
            raise ValueError(f"the prior's transform must map {z.shape} to the same shape, it returned {x.shape}")
        return x

    def coordinates(self, x: Floats) -> Floats:
        """Not known: the transform is given in one direction only."""
        raise ValueError("start= needs a prior of distributions: a transform cannot be turned round")


def read_prior(prior: Any) -> Prior:
    """A prior from what users write.

    A dict of names, or a list, of frozen `scipy.stats` distributions or ``(low, high)`` pairs; a frozen
    ``scipy.stats.multivariate_normal``; or ``(d, transform)``, where the transform maps uniform deviates ``(m, d)``.
    """
    if isinstance(prior, Prior):
        return prior
    if hasattr(prior, "mean") and hasattr(prior, "cov") and hasattr(prior, "logpdf"):
        mean = np.atleast_1d(np.asarray(prior.mean, dtype=float))
        return Correlated(_numbered(len(mean)), mean, np.atleast_2d(np.asarray(prior.cov, dtype=float)))
    if isinstance(prior, tuple) and len(prior) == 2 and callable(prior[1]) and not hasattr(prior[1], "ppf"):
        dim, transform = prior
        if isinstance(dim, bool) or not isinstance(dim, Integral) or dim < 1:
            raise ValueError(f"a prior by transform is (number of parameters, transform), got {prior!r}")
        return Transformed(_numbered(int(dim)), transform)
    if isinstance(prior, Mapping):
        names, entries = [str(name) for name in prior], list(prior.values())
    elif isinstance(prior, Sequence) and not isinstance(prior, str):
        names, entries = _numbered(len(prior)), list(prior)
    else:
        raise TypeError(
            f"prior must be a dict or list of frozen scipy.stats distributions, a frozen multivariate_normal, or "
            f"(number of parameters, transform), got {prior!r}"
        )
    if not entries:
        raise ValueError("prior is empty; give one entry per parameter")
    if len(set(names)) < len(names):
        raise ValueError(f"prior: names must differ as text, got {names}")
    laws = [_read_law(name, entry) for name, entry in zip(names, entries, strict=True)]
    ends = [_uniform_ends(law) for law in laws]
    if all(end is not None for end in ends):
        low, high = np.array(ends, dtype=float).T
        return Box(names, low, high)
    return Independent(names, laws)


def _numbered(dim: int) -> list[str]:
    return [f"x{i}" for i in range(dim)]


def _read_law(name: str, entry: Any) -> Any:
    """A frozen distribution; a pair becomes a uniform one."""
    if all(hasattr(entry, method) for method in ("cdf", "sf", "ppf", "isf", "support")):
        if getattr(entry, "pmf", None) is not None and not hasattr(getattr(entry, "dist", None), "pdf"):
            raise ValueError(f"prior {name!r} is discrete; parameters must be continuous")
        with np.errstate(invalid="ignore"):
            middle = np.asarray(entry.ppf(0.5), dtype=float)
        if middle.ndim or not np.isfinite(middle):
            raise ValueError(f"prior {name!r} must be one proper distribution; its median is {middle}")
        return entry
    try:
        low, high = map(float, entry)
    except (TypeError, ValueError):
        raise TypeError(f"prior {name!r} is {entry!r}; give a frozen distribution or a pair (low, high)") from None
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ValueError(
            f"prior {name!r} is ({low}, {high}): a uniform prior needs finite ends, low below high; without them it "
            "would be improper"
        )
    return _Uniform(low, high)


class _Uniform:
    """Uniform on a finite interval, without the cost of `scipy.stats`."""

    def __init__(self, low: float, high: float) -> None:
        self.low, self.high = low, high

    def cdf(self, x: Floats) -> Floats:
        return np.clip((x - self.low) / (self.high - self.low), 0.0, 1.0)

    def sf(self, x: Floats) -> Floats:
        return np.clip((self.high - x) / (self.high - self.low), 0.0, 1.0)

    def ppf(self, u: Floats) -> Floats:
        return self.low + (self.high - self.low) * u

    def isf(self, u: Floats) -> Floats:
        return self.high - (self.high - self.low) * u


def _uniform_ends(law: Any) -> tuple[float, float] | None:
    if isinstance(law, _Uniform):
        return law.low, law.high
    if getattr(getattr(law, "dist", None), "name", "") == "uniform":
        low, high = map(float, law.support())
        return low, high
    return None
