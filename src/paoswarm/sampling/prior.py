r"""Priors, and the coordinates in which the sampler works.

Where every parameter is uniform on a finite interval, the coordinates ``z`` are the box scaled to :math:`[-1, 1]^d`.
Otherwise :math:`z_i = \Phi^{-1}(F_i(x_i))` with the prior's distribution functions (or any transform of uniform
deviates), and the prior of ``z`` is exactly :math:`N(0, I)`: no Jacobian is left over. A periodic parameter is
scaled to :math:`[-1, 1]`, a circle of circumference 2, whatever the others are: the prior of ``z`` is then a product.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, ndtri

from paoswarm.core.walled import Floats
from paoswarm.sampling.circle import Circle

_LOG_2PI = math.log(2 * math.pi)
_BEYOND = 37  # where Phi is zero to the last bit
_UPPER = 7.9  # where it is so near to one that few digits are left
_MOST_CIRCLES = 6  # each triples the images that densities are summed over


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

    def logpdf(self, x: Floats) -> Floats:
        return np.where((x >= self.low) & (x <= self.high), -math.log(self.high - self.low), -np.inf)


class Periodic(_Uniform):
    """An angle, a phase, a time of day: a uniform prior on a circle, whose two ends are the same point.

    An entry of the prior in `sample`. The likelihood must be the same at both ends; it is called with values between
    them. For a prior that is not uniform on the circle add the logarithm of its density to the log likelihood.

    Parameters
    ----------
    low, high : float
        Where the circle is cut open; ``high - low`` is the period.

    Examples
    --------
    >>> import numpy as np
    >>> import paoswarm as ps
    >>> prior = {"amplitude": (0, 10), "phase": ps.Periodic(0, 2 * np.pi)}
    """

    def __init__(self, low: float, high: float) -> None:
        super().__init__(*_finite_ends("Periodic", low, high))

    def logpdf(self, x: Floats) -> Floats:
        """The same on every turn."""
        return np.full(np.shape(x), -math.log(self.high - self.low))

    def __repr__(self) -> str:
        return f"Periodic({self.low:g}, {self.high:g})"


class Prior(ABC):
    """A prior in the sampler's coordinates.

    Standard normal there, but uniform on [-1, 1] in those that are periodic; subclasses say what that means.

    Attributes
    ----------
    is_box : bool
        Whether all coordinates are uniform on [-1, 1].
    walled : array (d,) of bool
        Which coordinates end at -1 and 1.
    circle : Circle or None
        Which coordinates are periodic, with the period 2.
    """

    is_box = False

    def __init__(self, names: Sequence[str], periodic: Sequence[bool] | None = None) -> None:
        self.names = list(names)
        self.dim = len(self.names)
        self._round = np.zeros(self.dim, dtype=bool) if periodic is None else np.asarray(periodic, dtype=bool)
        self.walled = np.asarray(~self._round & self.is_box)
        self._reach = np.where(self._round | self.is_box, 1.0, float(_BEYOND))  # where the density is positive
        self.circle = Circle.of(np.where(self._round, 2.0, np.inf)) if self._round.any() else None
        self._period = np.zeros(self.dim)  # of the periodic parameters

    @abstractmethod
    def parameters(self, z: Floats) -> Floats:
        """The user's parameters ``x`` at ``z``."""

    @abstractmethod
    def coordinates(self, x: Floats) -> Floats:
        """Where parameters lie in the sampler's coordinates."""

    @abstractmethod
    def parameter_log_density(self, x: Floats) -> Floats | None:
        """Normalised log density of the parameters ``x``; None where it is not known."""

    def log_density(self, z: Floats) -> Floats:
        """Normalised log density of ``z``; -inf outside a box, and where a distribution function has no digits left."""
        line = z if self.circle is None else z[:, ~self._round]
        density: Floats = -0.5 * (line**2).sum(axis=1) - 0.5 * line.shape[1] * _LOG_2PI
        density -= (self.dim - line.shape[1]) * math.log(2)
        return np.where((np.abs(z) <= self._reach).all(axis=1), density, -np.inf)

    def draw(self, n: int, rng: np.random.Generator) -> Floats:
        """``n`` independent draws of ``z``."""
        z = rng.standard_normal((n, self.dim))
        if self.circle is not None:
            z[:, self._round] = rng.uniform(-1, 1, (n, int(self._round.sum())))
        return z

    def strained(self, z: Floats) -> NDArray[np.bool_]:
        """Whether points lie so far in a tail that the prior's quantiles have hardly any digits left there."""
        return np.asarray(((np.abs(z) > 0.95 * self._reach) & (self._reach > 1)).any(axis=1))

    def pressed(self, z: Floats, weights: Floats) -> list[str]:
        """The names of parameters of which nearly all the weight lies in the last percent before a wall, up to it."""
        near = np.maximum(weights @ (z < -0.98), weights @ (z > 0.98)) > 0.95
        mean = weights @ z
        sd = np.sqrt(weights @ (z - mean) ** 2)
        at_wall = near & (1 - np.abs(mean) < 3 * sd)  # not a peak that only happens to lie there
        return [name for name, is_pressed in zip(self.names, at_wall & self.walled, strict=True) if is_pressed]

    def inside(self, z: Floats) -> Floats:
        """The nearest points of positive density; on a circle the same points."""
        return np.clip(z if self.circle is None else self.circle.nearest(z), -self._reach, self._reach)

    def gathered(self, x: Floats, weights: Floats) -> Floats:
        """The same parameters with every periodic one within half a period of its weighted mean on the circle.

        Where a posterior lies across the seam, means and intervals then are what they look like.
        """
        if self.circle is None:
            return x
        z = self.coordinates(x)
        turns = np.round((self.circle.gathered(z, weights) - z) / 2)
        return x + turns * self._period


class Box(Prior):
    """Uniform on a finite box, of which some pairs of sides may be one."""

    is_box = True

    def __init__(self, names: Sequence[str], low: Floats, high: Floats, periodic: Sequence[bool] | None = None) -> None:
        super().__init__(names, periodic)
        self._low, self._high = low, high
        self._middle, self._half = 0.5 * low + 0.5 * high, 0.5 * high - 0.5 * low
        self._period = 2 * self._half

    def parameters(self, z: Floats) -> Floats:
        """The user's parameters; rounding does not leave the box."""
        z = z if self.circle is None else self.circle.nearest(z)
        return np.clip(self._middle + self._half * z, self._low, self._high)

    def coordinates(self, x: Floats) -> Floats:
        """Scaled to [-1, 1]."""
        z = (x - self._middle) / self._half
        return z if self.circle is None else self.circle.nearest(z)

    def parameter_log_density(self, x: Floats) -> Floats:
        """Minus the logarithm of the volume inside."""
        inside = (self._round | ((x >= self._low) & (x <= self._high))).all(axis=1)
        return np.where(inside, -np.log(2 * self._half).sum(), -np.inf)

    def log_density(self, z: Floats) -> Floats:
        """``-d log 2`` inside."""
        return np.where((np.abs(z) <= 1).all(axis=1), -self.dim * math.log(2), -np.inf)

    def draw(self, n: int, rng: np.random.Generator) -> Floats:
        """Uniform draws."""
        return rng.uniform(-1, 1, (n, self.dim))


class Independent(Prior):
    """Parameters with laws of their own."""

    def __init__(self, names: Sequence[str], laws: Sequence[Any]) -> None:
        super().__init__(names, [isinstance(law, Periodic) for law in laws])
        self._laws = laws
        rings = [law for law in laws if isinstance(law, Periodic)]
        self._lines = [(i, law) for i, law in enumerate(laws) if not isinstance(law, Periodic)]
        self._normal = {i: (float(law.mean()), float(law.std())) for i, law in self._lines if _is_normal(law)}
        self._reach[list(self._normal)] = np.inf
        self._ring = _box([name for name, is_round in zip(names, self._round, strict=True) if is_round], rings)
        self._period[self._round] = self._ring._period

    def parameters(self, z: Floats) -> Floats:
        """By quantile functions; each half by the tail that keeps its digits."""
        x = np.empty_like(z)
        x[:, self._round] = self._ring.parameters(z[:, self._round])
        for i, law in self._lines:
            if i in self._normal:  # keeps its digits however far out
                mean, sd = self._normal[i]
                x[:, i] = mean + sd * z[:, i]
                continue
            tail = ndtr(-np.abs(z[:, i]))
            x[:, i] = np.where(z[:, i] < 0, law.ppf(tail), law.isf(tail))
        return x

    def coordinates(self, x: Floats) -> Floats:
        """By distribution functions."""
        z = np.empty_like(x)
        z[:, self._round] = self._ring.coordinates(x[:, self._round])
        for i, law in self._lines:
            if i in self._normal:
                mean, sd = self._normal[i]
                z[:, i] = (x[:, i] - mean) / sd
                continue
            below, above = law.cdf(x[:, i]), law.sf(x[:, i])
            z[:, i] = np.where(below < above, ndtri(below), -ndtri(above))
        return z

    def parameter_log_density(self, x: Floats) -> Floats | None:
        """The sum of the laws' own, where all have one."""
        if not all(hasattr(law, "logpdf") for law in self._laws):
            return None
        return np.sum([law.logpdf(x[:, i]) for i, law in enumerate(self._laws)], axis=0)


class Correlated(Prior):
    """A multivariate normal law."""

    def __init__(self, names: Sequence[str], mean: Floats, covariance: Floats) -> None:
        super().__init__(names)
        self._mean = mean
        self._reach = np.full(self.dim, np.inf)  # a linear map keeps its digits anywhere
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

    def parameter_log_density(self, x: Floats) -> Floats:
        """Of the normal law."""
        return self.log_density(self.coordinates(x)) - np.log(np.diagonal(self._factor)).sum()


class Transformed(Prior):
    """Any law, as a transform ``(m, d) -> (m, d)`` of independent uniform deviates on (0, 1).

    Its log density ``(m, d) -> (m,)`` is not needed to draw from the posterior, only to tell what it is there.
    """

    def __init__(
        self,
        names: Sequence[str],
        transform: Callable[[Floats], ArrayLike],
        log_density: Callable[[Floats], ArrayLike] | None = None,
    ) -> None:
        super().__init__(names)
        self._transform = transform
        self._log_density = log_density
        self.parameter_log_density(self.parameters(np.zeros((1, self.dim))))  # raises before any work is done

    def parameters(self, z: Floats) -> Floats:
        """The transform of ``Phi(z)``."""
        inside = np.clip(ndtr(z), np.finfo(float).tiny, 1 - 2.0**-53)  # quantiles at 0 and 1 are often infinite
        x = np.asarray(self._transform(inside), dtype=float)
        if x.shape != z.shape:
            raise ValueError(f"the prior's transform must map {z.shape} to the same shape, it returned {x.shape}")
        return x

    def strained(self, z: Floats) -> NDArray[np.bool_]:
        """Near one, uniform deviates have fewer digits than near zero."""
        return super().strained(z) | (z > _UPPER).any(axis=1)

    def coordinates(self, x: Floats) -> Floats:
        """Not known: the transform is given in one direction only."""
        raise ValueError("start= needs a prior of distributions: a transform cannot be turned round")

    def parameter_log_density(self, x: Floats) -> Floats | None:
        """As it was given; it does not follow from the transform but by its derivative."""
        if self._log_density is None:
            return None
        density = np.asarray(self._log_density(x), dtype=float)
        if density.shape != (len(x),):
            raise ValueError(f"the prior's log density must map {x.shape} to ({len(x)},), it returned {density.shape}")
        return density


def read_prior(prior: Any) -> Prior:
    """A prior from what users write.

    A dict of names, or a list, of frozen `scipy.stats` distributions, ``(low, high)`` pairs or `Periodic`; a frozen
    ``scipy.stats.multivariate_normal``, or ``(names, law)`` with one; or ``(names, transform)``, where the transform
    maps uniform deviates ``(m, d)``, or ``(names, transform, log_density)``. A number is as good as so many names.
    """
    if isinstance(prior, Prior):
        return prior
    if _is_multivariate_normal(prior):
        return _correlated(prior, None)
    if isinstance(prior, tuple) and len(prior) == 2 and _is_multivariate_normal(prior[1]):
        return _correlated(prior[1], _read_names(prior))
    if isinstance(prior, tuple) and len(prior) in (2, 3) and callable(prior[1]) and not hasattr(prior[1], "ppf"):
        if len(prior) == 3 and not callable(prior[2]):
            raise TypeError(f"the prior's log density must be a function of parameters (m, d), got {prior[2]!r}")
        return Transformed(_read_names(prior), *prior[1:])
    if isinstance(prior, Mapping):
        names, entries = [str(name) for name in prior], list(prior.values())
    elif isinstance(prior, Sequence) and not isinstance(prior, str):
        names, entries = _numbered(len(prior)), list(prior)
    else:
        raise TypeError(
            f"prior must be a dict or list of frozen scipy.stats distributions, a frozen multivariate_normal, or "
            f"(names or their number, transform), got {prior!r}"
        )
    if not entries:
        raise ValueError("prior is empty; give one entry per parameter")
    _check_names(names)
    laws = [_read_law(name, entry) for name, entry in zip(names, entries, strict=True)]
    if sum(isinstance(law, Periodic) for law in laws) > _MOST_CIRCLES:
        raise ValueError(f"prior: no more than {_MOST_CIRCLES} parameters may be Periodic")
    return Independent(names, laws) if any(_uniform_ends(law) is None for law in laws) else _box(names, laws)


def _is_multivariate_normal(law: Any) -> bool:
    return hasattr(law, "mean") and hasattr(law, "cov") and hasattr(law, "logpdf") and not callable(law.mean)


def _correlated(law: Any, names: list[str] | None) -> Correlated:
    mean = np.atleast_1d(np.asarray(law.mean, dtype=float))
    if names is not None and len(names) != len(mean):
        raise ValueError(f"prior: there are {len(names)} names, {names}, for {len(mean)} parameters")
    return Correlated(names or _numbered(len(mean)), mean, np.atleast_2d(np.asarray(law.cov, dtype=float)))


def _read_names(prior: tuple[Any, ...]) -> list[str]:
    """The names of a prior for all parameters at once, from its first entry."""
    first = prior[0]
    if isinstance(first, Integral) and not isinstance(first, bool) and int(first) >= 1:
        return _numbered(int(first))
    if not isinstance(first, list | tuple) or not first or not all(isinstance(name, str) for name in first):
        raise ValueError(
            f"a prior for all parameters at once begins with their names or their number: (number of parameters, "
            f"transform) for example, got {prior!r}"
        )
    _check_names(list(first))
    return list(first)


def _check_names(names: list[str]) -> None:
    if len(set(names)) < len(names):
        raise ValueError(f"prior: names must differ as text, got {names}")


def _box(names: Sequence[str], laws: Sequence[Any]) -> Box:
    """The box of uniform laws."""
    low, high = np.array([_uniform_ends(law) for law in laws], dtype=float).reshape(-1, 2).T
    return Box(names, low, high, [isinstance(law, Periodic) for law in laws])


def _numbered(dim: int) -> list[str]:
    return [f"x{i}" for i in range(dim)]


def _read_law(name: str, entry: Any) -> Any:
    """A frozen distribution; a pair becomes a uniform one."""
    if isinstance(entry, Periodic):
        return entry
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
        if hasattr(entry, "cov") or hasattr(entry, "logpdf"):
            raise TypeError(
                f"prior {name!r} is a multivariate distribution. A multivariate normal stands for all parameters at "
                "once; for others, and where some parameters are independent of it, give (names, transform)"
            ) from None
        raise TypeError(f"prior {name!r} is {entry!r}; give a frozen distribution or a pair (low, high)") from None
    return _Uniform(*_finite_ends(f"prior {name!r} is ", low, high))


def _finite_ends(what: str, low: float, high: float) -> tuple[float, float]:
    low, high = float(low), float(high)
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ValueError(
            f"{what}({low}, {high}): a uniform prior needs finite ends (otherwise it is improper), the lower one first"
        )
    return low, high


def _is_normal(law: Any) -> bool:
    return getattr(getattr(law, "dist", None), "name", "") == "norm"


def _uniform_ends(law: Any) -> tuple[float, float] | None:
    if isinstance(law, _Uniform):
        return law.low, law.high
    if getattr(getattr(law, "dist", None), "name", "") == "uniform":
        low, high = map(float, law.support())
        return low, high
    return None
