r"""Priors, and the sampler's coordinates ``z``.

- If every parameter is uniform on a finite interval, ``z`` is the box scaled to :math:`[-1, 1]^d`.
- Otherwise the prior's distribution functions :math:`F_i` (or any transform of uniform deviates) define

  .. math:: z_i = \Phi^{-1}(F_i(x_i)). \tag{S11}

  The prior of ``z`` is then exactly :math:`N(0, I)`, and no Jacobian is left over.
- A periodic parameter is always scaled to :math:`[-1, 1]`, a circle of circumference 2.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from paoswarm.core.arrays import Array, Floats, namespace, special
from paoswarm.sampling.densities import Circle, weighted_variance
from paoswarm.sampling.laws import Ring, family_of, inner_ends, traceable, uniform_ends

_LOG_2PI = math.log(2 * math.pi)
_AT_END = 5.0  # |z| given to a parameter that lies exactly on an end of its distribution: just inside
_LARGEST = 37  # |z| beyond which Phi(-|z|) underflows
_INSIDE = 1e-100  # distance kept from an end, in units of that to the median: its inverse can be squared
_PRESSED = 1.5  # standard deviations from mean to bound; 1.3 for half a normal peak at the bound, 1 for an exponential
_UPPER = 7.9  # z beyond which Phi(z) is so close to one that few digits are left
_ADVICE = (
    "It seems to take one vector of deviates, as in dynesty; here it must take rows (m, d). Write "
    "lambda u: np.array([transform(row) for row in u]), or use u[:, 0] where it has u[0]"
)


class Prior(ABC):
    """A prior in the sampler's coordinates.

    It is standard normal there, except for periodic coordinates, which are uniform on [-1, 1]. Subclasses define how
    the coordinates relate to the parameters. `parameters` and `log_density` take arrays of NumPy or JAX.
    """

    is_box = False  # whether all coordinates are uniform on [-1, 1]
    is_ours = True  # whether `parameters` calls no function of the user

    def __init__(self, names: Sequence[str], periodic: Sequence[bool] | None = None) -> None:
        self.names = list(names)
        self.dim = len(self.names)
        self._round = np.zeros(self.dim, dtype=bool) if periodic is None else np.asarray(periodic, dtype=bool)
        self.walled = np.asarray(~self._round & self.is_box)  # which coordinates end at -1 and 1
        self._reach = np.where(self._round | self.is_box, 1.0, float(_LARGEST))  # the density is positive up to here
        self.circle = Circle.of(np.where(self._round, 2.0, np.inf)) if self._round.any() else None
        self._period = np.zeros(self.dim)  # of the periodic parameters

    @abstractmethod
    def parameters(self, z: Array) -> Array:
        """Map coordinates ``z`` to the user's parameters ``x``."""

    @abstractmethod
    def coordinates(self, x: Floats) -> Floats:
        """Map parameters ``x`` to the sampler's coordinates."""

    @abstractmethod
    def parameter_log_density(self, x: Floats) -> Floats | None:
        """Normalised log density of the parameters ``x``; None if it is not known."""

    def log_density(self, z: Array) -> Array:
        """Normalised log density of ``z``; -inf outside a box, and where a distribution function underflows."""
        line = z if self.circle is None else z[:, ~self._round]
        density = -0.5 * (line**2).sum(axis=1) - 0.5 * line.shape[1] * _LOG_2PI
        density -= (self.dim - line.shape[1]) * math.log(2)
        return namespace(z).where((abs(z) <= self._reach).all(axis=1), density, -np.inf)

    def draw(self, n: int, rng: np.random.Generator) -> Floats:
        """``n`` independent draws of ``z``."""
        z = rng.standard_normal((n, self.dim))
        if self.circle is not None:
            z[:, self._round] = rng.uniform(-1, 1, (n, int(self._round.sum())))
        return z

    def strained(self, z: Floats) -> NDArray[np.bool_]:
        """Whether points lie so far in a tail that the prior's quantiles have hardly any digits left, ``(n,)``."""
        return np.asarray(((np.abs(z) > 0.95 * self._reach) & (self._reach > 1)).any(axis=1))

    def pressed(self, z: Floats, weights: Floats) -> list[str]:
        """Names of the parameters whose posterior is cut off by a bound, in the last percent before it."""
        near = np.maximum(weights @ (z < -0.98), weights @ (z > 0.98)) > 0.95
        mean = weights @ z
        sd = np.sqrt(weighted_variance(z, weights))
        at_bound = near & (1 - np.abs(mean) < _PRESSED * sd)  # not a narrow peak that happens to lie there
        return [name for name, is_pressed in zip(self.names, at_bound & self.walled, strict=True) if is_pressed]

    def inside(self, z: Floats) -> Floats:
        """The nearest points of positive density; periodic coordinates are only wrapped."""
        return np.clip(z if self.circle is None else self.circle.nearest(z), -self._reach, self._reach)

    def gathered(self, x: Floats, weights: Floats) -> Floats:
        """Shift periodic parameters by whole periods to within half a period of their weighted circular mean.

        Means and intervals are then meaningful for a posterior that lies across the ends.
        """
        if self.circle is None:
            return x
        z = self.coordinates(x)
        turns = np.round((self.circle.gathered(z, weights) - z) / 2)
        return x + turns * self._period

    def places(self, x: Floats) -> Floats:
        """Parameters, with cosine and sine for those that are periodic: whole periods change nothing."""
        if self.circle is None:
            return x
        angle = 2 * np.pi * x[:, self._round] / self._period[self._round]
        return np.concatenate([x[:, ~self._round], np.cos(angle), np.sin(angle)], axis=1)


class UniformBox(Prior):
    """Uniform prior on a finite box; some parameters may be periodic."""

    is_box = True

    def __init__(self, names: Sequence[str], low: Floats, high: Floats, periodic: Sequence[bool] | None = None) -> None:
        super().__init__(names, periodic)
        self.low, self.high = low, high
        self._middle, self._half = 0.5 * low + 0.5 * high, 0.5 * high - 0.5 * low
        self._period = 2 * self._half
        self._inner = inner_ends(low, high, self._half * 2.0**-53)  # coordinates near an end are no finer

    def parameters(self, z: Array) -> Array:
        """Scale from [-1, 1] to the inside of the box, without its ends."""
        z = z if self.circle is None else self.circle.nearest(z)
        return namespace(z).clip(self._middle + self._half * z, *self._inner)

    def coordinates(self, x: Floats) -> Floats:
        """Scale from the box to [-1, 1]."""
        z = (x - self._middle) / self._half
        return z if self.circle is None else self.circle.nearest(z)

    def parameter_log_density(self, x: Floats) -> Floats:
        """Minus the logarithm of the volume inside the box, -inf outside."""
        density = -np.log(2 * self._half).sum()
        if len(x) and (self._round | ((x.min(axis=0) >= self.low) & (x.max(axis=0) <= self.high))).all():
            return np.full(len(x), density)  # the usual case, without large arrays
        inside = (self._round | ((x >= self.low) & (x <= self.high))).all(axis=1)
        return np.where(inside, density, -np.inf)

    def log_density(self, z: Array) -> Array:
        """``-d log 2`` inside the box, -inf outside."""
        return namespace(z).where((abs(z) <= 1).all(axis=1), -self.dim * math.log(2), -np.inf)

    def draw(self, n: int, rng: np.random.Generator) -> Floats:
        """Uniform draws."""
        return rng.uniform(-1, 1, (n, self.dim))


class Independent(Prior):
    """Independent parameters, each with its own distribution."""

    def __init__(self, names: Sequence[str], laws: Sequence[Any]) -> None:
        super().__init__(names, [isinstance(law, Ring) for law in laws])
        self._laws = laws
        rings = [law for law in laws if isinstance(law, Ring)]
        self._lines = [(i, law) for i, law in enumerate(laws) if not isinstance(law, Ring)]
        self._normal = {i: (float(law.mean()), float(law.std())) for i, law in self._lines if family_of(law) == "norm"}
        self._reach[list(self._normal)] = np.inf
        self._inner = {i: _inner_support(law) for i, law in self._lines}
        self._ring = box_of([name for name, is_round in zip(names, self._round, strict=True) if is_round], rings)
        self._period[self._round] = self._ring._period

    def parameters(self, z: Array) -> Array:
        """Invert (S11) by quantile functions, using the tail that keeps its digits; never an end of the support."""
        xp = namespace(z)
        rings = self._ring.parameters(z[:, self._round])
        columns = dict(zip(np.flatnonzero(self._round).tolist(), rings.T, strict=True))
        for i, law in self._lines:
            if i in self._normal:  # exact, however far in the tail
                mean, sd = self._normal[i]
                columns[i] = mean + sd * z[:, i]
                continue
            tail = special(z).ndtr(-abs(z[:, i]))
            quantiles = law if xp is np else traceable(law)
            columns[i] = xp.clip(xp.where(z[:, i] < 0, quantiles.ppf(tail), quantiles.isf(tail)), *self._inner[i])
        return xp.stack([columns[i] for i in range(self.dim)], axis=1)

    def coordinates(self, x: Floats) -> Floats:
        """Evaluate (S11) by distribution functions, using the tail that keeps its digits."""
        z = np.empty_like(x)
        z[:, self._round] = self._ring.coordinates(x[:, self._round])
        for i, law in self._lines:
            if i in self._normal:
                mean, sd = self._normal[i]
                z[:, i] = (x[:, i] - mean) / sd
                continue
            below, above = law.cdf(x[:, i]), law.sf(x[:, i])
            z[:, i] = np.where(below < above, ndtri(below), -ndtri(above))
            for end, beside in zip(law.support(), (-_AT_END, _AT_END), strict=True):
                z[x[:, i] == end, i] = beside
        return z

    def parameter_log_density(self, x: Floats) -> Floats | None:
        """Sum of the log densities of all parameters; None if any has no ``logpdf``."""
        if not all(hasattr(law, "logpdf") for law in self._laws):
            return None
        return np.sum([law.logpdf(x[:, i]) for i, law in enumerate(self._laws)], axis=0)


class Correlated(Prior):
    """Multivariate normal prior."""

    def __init__(self, names: Sequence[str], mean: Floats, covariance: Floats) -> None:
        super().__init__(names)
        self._mean = mean
        self._reach = np.full(self.dim, np.inf)  # a linear map keeps its digits everywhere
        try:
            self._factor = np.linalg.cholesky(covariance)
        except np.linalg.LinAlgError:
            raise ValueError("the covariance of the prior is not positive definite") from None

    def parameters(self, z: Array) -> Array:
        """``mean + L z``."""
        return self._mean + z @ self._factor.T

    def coordinates(self, x: Floats) -> Floats:
        """``L^-1 (x - mean)``."""
        return np.linalg.solve(self._factor, (x - self._mean).T).T

    def parameter_log_density(self, x: Floats) -> Floats:
        """Log density of the normal distribution."""
        return self.log_density(self.coordinates(x)) - np.log(np.diagonal(self._factor)).sum()


class Transformed(Prior):
    """Any prior, given as a transform ``(m, d) -> (m, d)`` of independent uniform deviates on (0, 1).

    Its log density ``(m, d) -> (m,)`` is optional: it is reported at the draws, but not needed to find them.
    """

    is_ours = False

    def __init__(
        self,
        names: Sequence[str],
        transform: Callable[[Floats], ArrayLike],
        log_density: Callable[[Floats], ArrayLike] | None = None,
    ) -> None:
        super().__init__(names)
        self._transform = transform
        self._log_density = log_density
        check_transform(transform, self.dim)
        self.parameter_log_density(self.parameters(np.zeros((2, self.dim))))  # raises before any work is done

    def parameters(self, z: Array) -> Array:
        """Transform ``Phi(z)``, the inverse of (S11)."""
        xp = namespace(z)
        inside = xp.clip(special(z).ndtr(z), np.finfo(float).tiny, 1 - 2.0**-53)  # quantiles at 0 and 1 may be infinite
        x = xp.asarray(self._transform(inside), dtype=float)
        if x.shape != z.shape:
            raise ValueError(f"the prior's transform must map {z.shape} to the same shape, but it returned {x.shape}")
        return x

    def strained(self, z: Floats) -> NDArray[np.bool_]:
        """As for any prior, and in the upper tail sooner: uniform deviates near one have few digits."""
        return super().strained(z) | (z > _UPPER).any(axis=1)

    def coordinates(self, x: Floats) -> Floats:
        """Raise: the inverse of the transform is not known."""
        raise ValueError("start= needs a prior given by distributions, because a transform cannot be inverted")

    def parameter_log_density(self, x: Floats) -> Floats | None:
        """The log density that the user gave; None if there is none."""
        if self._log_density is None:
            return None
        density = np.asarray(self._log_density(x.copy()), dtype=float)
        if density.ndim == 0 and len(x) == 1:  # SciPy returns a scalar for a single row
            density = density.reshape(1)
        if density.shape != (len(x),):
            raise ValueError(
                f"the prior's log density must map {x.shape} to ({len(x)},), but it returned {density.shape}"
            )
        return density


def _inner_support(law: Any) -> tuple[Floats, Floats]:
    """The support of a distribution without its ends, where quantiles would round to them."""
    low, high = np.array(law.support(), dtype=float)
    finite = [abs(float(law.ppf(np.array(0.5))) - end) for end in (low, high) if math.isfinite(end)]
    return inner_ends(low, high, _INSIDE * min(finite, default=0.0))


def box_of(names: Sequence[str], laws: Sequence[Any]) -> UniformBox:
    """Make a box from uniform distributions."""
    low, high = np.array([uniform_ends(law) for law in laws], dtype=float).reshape(-1, 2).T
    return UniformBox(names, low, high, [isinstance(law, Ring) for law in laws])


def check_transform(transform: Callable[[Floats], ArrayLike], dim: int) -> None:
    """Raise unless the transform maps the rows of ``(m, dim)`` independently, to the same shape.

    A transform of a single vector, as dynesty and other samplers take it, can return an array of the right shape: then
    it has mixed up rows and parameters, and the only symptom would be a wrong prior.
    """
    rows = dim + 1  # an array with as many rows as columns would hide a mix-up of the two
    u = (0.5 + np.arange(rows * dim).reshape(rows, dim)) / (rows * dim)
    try:
        x, alone = (np.asarray(transform(given.copy()), dtype=float) for given in (u, u[-1:]))
    except Exception as error:
        if _takes_one_vector(transform, u[0]):
            raise ValueError(f"the prior's transform raised {error!r} for rows of deviates. {_ADVICE}") from error
        raise
    if x.shape != u.shape:
        problem = f"the prior's transform must map {u.shape} to the same shape, but it returned {x.shape}"
    elif alone.shape != (1, dim) or not np.allclose(x[-1:], alone, rtol=1e-6, equal_nan=True):
        problem = "the prior's transform must map every row by itself, but a row alone gives another value"
    else:
        return
    raise ValueError(f"{problem}. {_ADVICE}" if _takes_one_vector(transform, u[0]) else problem)


def _takes_one_vector(transform: Callable[[Floats], ArrayLike], vector: Floats) -> bool:
    """Whether the transform maps a single vector to as many finite numbers."""
    try:
        x: Any = np.asarray(transform(vector.copy()), dtype=float)
    except Exception:  # whatever goes wrong, it does not take a vector
        return False
    return x.shape == vector.shape and bool(np.isfinite(x).all())
