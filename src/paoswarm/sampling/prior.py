r"""Priors, and the coordinates in which the sampler works.

Where every parameter is uniform on a finite interval, the coordinates ``z`` are the box scaled to :math:`[-1, 1]^d`.
Otherwise :math:`z_i = \Phi^{-1}(F_i(x_i))` with the prior's distribution functions (or any transform of uniform
deviates), and the prior of ``z`` is exactly :math:`N(0, I)`: no Jacobian is left over. A periodic parameter is
scaled to :math:`[-1, 1]`, a circle of circumference 2, whatever the others are: the prior of ``z`` is then a product.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, ndtri

from paoswarm.core.arrays import Floats
from paoswarm.sampling.distributions import Periodic, is_normal, uniform_ends
from paoswarm.sampling.periodic_coordinates import Circle

_LOG_2PI = math.log(2 * math.pi)
_AT_WALL = 5.0  # where a parameter is looked for that lies on the very end of its law: just inside
_BEYOND = 37  # where Phi is zero to the last bit
_UPPER = 7.9  # where it is so near to one that few digits are left


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
        self._normal = {i: (float(law.mean()), float(law.std())) for i, law in self._lines if is_normal(law)}
        self._reach[list(self._normal)] = np.inf
        self._ring = box_of([name for name, is_round in zip(names, self._round, strict=True) if is_round], rings)
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
            for end, beside in zip(law.support(), (-_AT_WALL, _AT_WALL), strict=True):
                z[x[:, i] == end, i] = beside
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
        self.parameter_log_density(self.parameters(np.zeros((2, self.dim))))  # raises before any work is done

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
        density = np.asarray(self._log_density(x.copy()), dtype=float)
        if density.ndim == 0 and len(x) == 1:  # SciPy's of a single row
            density = density.reshape(1)
        if density.shape != (len(x),):
            raise ValueError(f"the prior's log density must map {x.shape} to ({len(x)},), it returned {density.shape}")
        return density


def box_of(names: Sequence[str], laws: Sequence[Any]) -> Box:
    """The box of uniform laws."""
    low, high = np.array([uniform_ends(law) for law in laws], dtype=float).reshape(-1, 2).T
    return Box(names, low, high, [isinstance(law, Periodic) for law in laws])
