"""Quantile functions of `scipy.stats` distributions that JAX can trace: those with a formula.

Each is given for the standard form of its family, as a function of a tail probability of at most one half. So lower and
upper quantiles keep their digits, however far in a tail they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtr

from paoswarm.core.arrays import Array, namespace, special
from paoswarm.sampling.distributions import LogUniform, Uniform

Quantile = Callable[..., Array]


class Quantiles(NamedTuple):
    """Lower and upper quantiles of a distribution, as functions of the probability of the tail beyond."""

    ppf: Callable[[Array], Array]
    isf: Callable[[Array], Array]


class NoFormula(TypeError):
    """The quantiles of a distribution cannot be traced."""


def traceable(law: Any) -> Any:
    """The quantile functions of a distribution, for arrays that JAX traces; raise `NoFormula` if they are not known."""
    if isinstance(law, Uniform | LogUniform):
        return law
    family = getattr(getattr(law, "dist", None), "name", "")
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
TRACEABLE = tuple(sorted(np.unique(list(_FAMILIES)).tolist()))
