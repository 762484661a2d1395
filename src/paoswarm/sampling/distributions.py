"""Distributions of single parameters, and helpers that recognise those of `scipy.stats`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from paoswarm.core.arrays import Array, Floats, namespace


class Uniform:
    """Uniform distribution on a finite interval; faster than that of `scipy.stats`."""

    def __init__(self, low: float, high: float) -> None:
        self.low, self.high = low, high

    def support(self) -> tuple[float, float]:
        """Lower and upper end."""
        return self.low, self.high

    def cdf(self, x: Floats) -> Floats:
        """Probability of a smaller value."""
        return np.clip((x - self.low) / (self.high - self.low), 0.0, 1.0)

    def sf(self, x: Floats) -> Floats:
        """Probability of a larger value."""
        return np.clip((self.high - x) / (self.high - self.low), 0.0, 1.0)

    def ppf(self, u: Array) -> Array:
        """Inverse of `cdf`."""
        return self.low + (self.high - self.low) * u

    def isf(self, u: Array) -> Array:
        """Inverse of `sf`."""
        return self.high - (self.high - self.low) * u

    def logpdf(self, x: Floats) -> Floats:
        """Log density."""
        return np.where((x >= self.low) & (x <= self.high), -math.log(self.high - self.low), -np.inf)


class LogUniform:
    """Distribution of a number whose logarithm is uniform, the law of ``Real(log=True)``."""

    def __init__(self, low: float, high: float) -> None:
        self.low, self.high = low, high
        self._log = Uniform(math.log(low), math.log(high))

    def support(self) -> tuple[float, float]:
        """Lower and upper end."""
        return self.low, self.high

    def cdf(self, x: Floats) -> Floats:
        """Probability of a smaller value."""
        return self._log.cdf(np.log(np.clip(x, self.low, self.high)))

    def sf(self, x: Floats) -> Floats:
        """Probability of a larger value."""
        return self._log.sf(np.log(np.clip(x, self.low, self.high)))

    def ppf(self, u: Array) -> Array:
        """Inverse of `cdf`."""
        xp = namespace(u)
        return xp.clip(xp.exp(self._log.ppf(u)), self.low, self.high)

    def isf(self, u: Array) -> Array:
        """Inverse of `sf`."""
        xp = namespace(u)
        return xp.clip(xp.exp(self._log.isf(u)), self.low, self.high)

    def logpdf(self, x: Floats) -> Floats:
        """Log density: that of the logarithm, with the Jacobian 1 / x."""
        inside = (x >= self.low) & (x <= self.high)
        log = np.log(np.where(inside, x, self.low))
        return np.where(inside, self._log.logpdf(log) - log, -np.inf)


class Ring(Uniform):
    """Uniform distribution on a circle, the law of a `Periodic` parameter."""

    def logpdf(self, x: Floats) -> Floats:
        """Log density, the same on every turn."""
        return np.full(np.shape(x), -math.log(self.high - self.low))


def finite_ends(what: str, low: float, high: float) -> tuple[float, float]:
    """Return both ends of a uniform distribution as floats; raise if they are not finite and in order."""
    low, high = float(low), float(high)
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ValueError(
            f"{what}({low}, {high}): a uniform prior needs finite ends (otherwise it is improper), the lower one first"
        )
    return low, high


def inner_ends(low: Floats, high: Floats, least: Floats | float) -> tuple[Floats, Floats]:
    """The outermost values that a parameter takes: inside its ends by ``least`` or more, never on them.

    Many likelihoods divide by a scale or take the logarithm of a share; at the very end they would fail.
    """
    inner_low = np.maximum(np.nextafter(low, high), low + least)
    inner_high = np.minimum(np.nextafter(high, low), high - least)
    is_gap = inner_low <= inner_high  # not between neighbouring numbers
    return np.where(is_gap, inner_low, low), np.where(is_gap, inner_high, high)


def is_normal(law: Any) -> bool:
    """Whether it is SciPy's normal distribution."""
    return getattr(getattr(law, "dist", None), "name", "") == "norm"


def uniform_ends(law: Any) -> tuple[float, float] | None:
    """The ends of a uniform distribution, ours or SciPy's; None for any other."""
    if isinstance(law, Uniform):
        return law.low, law.high
    if getattr(getattr(law, "dist", None), "name", "") == "uniform":
        low, high = map(float, law.support())
        return low, high
    return None
