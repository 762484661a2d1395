"""Distributions of single parameters: our own, what is known of those of `scipy.stats`, and quantiles for JAX."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtr

from paoswarm.core.arrays import Array, Floats, namespace, special


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


def family_of(law: Any) -> str:
    """The name of a frozen distribution's family in `scipy.stats`; empty for anything else."""
    return str(getattr(getattr(law, "dist", None), "name", ""))


def uniform_ends(law: Any) -> tuple[float, float] | None:
    """The ends of a uniform distribution, ours or SciPy's; None for any other."""
    if isinstance(law, Uniform):
        return law.low, law.high
    if family_of(law) == "uniform":
        low, high = map(float, law.support())
        return low, high
    return None


Quantile = Callable[..., Array]


class Quantiles(NamedTuple):
    """Lower and upper quantiles of a distribution, as functions of the probability of the tail beyond.

    That is at most one half, so quantiles keep their digits, however far in a tail they are.
    """

    ppf: Callable[[Array], Array]
    isf: Callable[[Array], Array]


class NoFormula(TypeError):
    """The quantiles of a distribution cannot be traced."""


def traceable(law: Any) -> Any:
    """The quantile functions of a distribution, for arrays that JAX traces; raise `NoFormula` if they are not known."""
    if isinstance(law, Uniform | LogUniform):
        return law
    family = family_of(law)
    if family not in _FAMILIES:
        raise NoFormula(f"the quantiles of {family or law!r} have no formula")
    shapes, loc, scale = law.dist._parse_args(*law.args, **law.kwds)
    shapes, loc, scale = tuple(map(float, shapes)), float(loc), float(scale)
    ppf, isf = _FAMILIES[family]
    return Quantiles(lambda u: loc + scale * ppf(u, *shapes), lambda u: loc + scale * isf(u, *shapes))


def _normal(u: Array) -> Array:
    return special(u).ndtri(u)


def _log(u: Array) -> Array:
    return namespace(u).log(u)


def _exp(u: Array) -> Array:
    return namespace(u).exp(u)


def _survival(u: Array) -> Array:
    """Minus the logarithm of the other tail, the quantile of the exponential distribution."""
    return -namespace(u).log1p(-u)


def _cotangent(u: Array) -> Array:
    return 1 / namespace(u).tan(math.pi * u)


def _cut_lower(u: Array, a: float, b: float) -> Array:
    """Lower quantile of a normal distribution that is cut off at a and b, by the tail that keeps its digits."""
    if a >= 0:
        above, beyond = ndtr(-a), ndtr(-b)
        return -_normal(above - u * (above - beyond))
    return _normal(ndtr(a) + u * (ndtr(b) - ndtr(a)))


def _cut_upper(u: Array, a: float, b: float) -> Array:
    return -_cut_lower(u, -b, -a)


# Standard form of each family: lower and upper quantile for a tail of probability u, with the shapes of the family.
_FAMILIES: dict[str, tuple[Quantile, Quantile]] = {
    "cauchy": (lambda u: -_cotangent(u), _cotangent),
    "expon": (_survival, lambda u: -_log(u)),
    "gumbel_r": (lambda u: -_log(-_log(u)), lambda u: -_log(_survival(u))),
    "halfcauchy": (lambda u: namespace(u).tan(0.5 * math.pi * u), lambda u: _cotangent(0.5 * u)),
    "halfnorm": (lambda u: math.sqrt(2) * special(u).erfinv(u), lambda u: -_normal(0.5 * u)),
    "laplace": (lambda u: _log(2 * u), lambda u: -_log(2 * u)),
    "logistic": (lambda u: _log(u) + _survival(u), lambda u: -_log(u) - _survival(u)),
    "lognorm": (lambda u, s: _exp(s * _normal(u)), lambda u, s: _exp(-s * _normal(u))),
    "loguniform": (
        lambda u, a, b: _exp(math.log(a) + u * math.log(b / a)),
        lambda u, a, b: _exp(math.log(b) - u * math.log(b / a)),
    ),
    "norm": (_normal, lambda u: -_normal(u)),
    "pareto": (lambda u, b: _exp(_survival(u) / b), lambda u, b: _exp(-_log(u) / b)),
    "rayleigh": (
        lambda u: namespace(u).sqrt(2 * _survival(u)),
        lambda u: namespace(u).sqrt(-2 * _log(u)),
    ),
    "truncnorm": (_cut_lower, _cut_upper),
    "uniform": (lambda u: u, lambda u: 1 - u),
    "weibull_min": (lambda u, c: _survival(u) ** (1 / c), lambda u, c: (-_log(u)) ** (1 / c)),
}
_FAMILIES["reciprocal"] = _FAMILIES["loguniform"]
