"""A test problem with a known optimum, and its shifted and rotated versions in the same box."""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from paoswarm._checks import number_between, whole_number
from paoswarm.core.arrays import Floats

_SUFFIX = r"-(shifted|rotated)(\d*)"


def split_name(name: str) -> tuple[str, list[tuple[str, int]]]:
    """Return the name of the function, and its transformations with their seeds. Without a number, the seed is 1.

    >>> split_name("rastrigin-shifted7-rotated")
    ('rastrigin', [('shifted', 7), ('rotated', 1)])
    """
    found = re.search(rf"(?:{_SUFFIX})*\Z", name)
    assert found is not None  # the pattern matches an empty end
    return name[: found.start()], [(how, int(seed or 1)) for how, seed in re.findall(_SUFFIX, found[0])]


@dataclass(frozen=True, eq=False)
class Problem:
    """A function on a box, with its known optimum. Call it with points ``(..., d)`` to get values ``(...)``.

    Its value at x is ``function(x)``. For a shifted or rotated problem it is
    ``function(anchor + (x - optimum) @ matrix)``.

    Attributes
    ----------
    name, title : str
        A name for use in code, and one for readers.
    lower, upper : (d,) arrays
        The bounds of the box.
    optimum : (d,) array
        The global minimiser in the box.
    minimum : float
        The value at the optimum.
    function : callable
        The formula, ``(..., d) -> (...)``. It must be a module-level function if the problem is sent to other
        processes.
    confined : bool
        Whether the formula has values below ``minimum`` outside the box, as Schwefel's function has. A shifted or
        rotated problem then uses the value at the nearest point of the original box, plus the squared distance to it,
        so that the optimum remains the global one.
    anchor : (d,) array, optional
        The optimum of the original function, which is mapped to ``optimum``.
    matrix : (d, d) array, optional
        The rotation; points are rows.

    Examples
    --------
    >>> import paoswarm as ps
    >>> from paoswarm.problems import rastrigin
    >>> problem = rastrigin(2).shifted().rotated(7)
    >>> problem
    Problem('rastrigin-shifted1-rotated7', dim=2)
    >>> result = ps.minimize(problem, problem.bounds, vectorized=True, rng=1)
    >>> bool(result.fun - problem.minimum < 1e-8)
    True
    """

    name: str
    title: str
    lower: Floats
    upper: Floats
    optimum: Floats
    minimum: float
    function: Callable[[Any], Any]
    confined: bool = False
    anchor: Floats | None = None
    matrix: Floats | None = None

    instanced: ClassVar[bool] = False

    def __post_init__(self) -> None:
        number_between("minimum, the known smallest value,", self.minimum, -math.inf)
        for field in ("lower", "upper", "optimum"):
            array = np.array(getattr(self, field), dtype=float)
            if array.ndim != 1 or array.shape != np.shape(self.lower):
                raise ValueError(f"lower, upper and optimum must be arrays of shape (d,), got {field} {array.shape}")
            array.flags.writeable = False  # shared by all problems derived from this one
            object.__setattr__(self, field, array)
        if not ((self.lower <= self.optimum) & (self.optimum <= self.upper) & (self.lower < self.upper)).all():
            raise ValueError(f"{self.name}: optimum must lie in the box, and lower must be below upper")

    @property
    def dim(self) -> int:
        """Number of unknowns."""
        return len(self.lower)

    @property
    def bounds(self) -> Floats:
        """The bounds in the form of `minimize`, ``(d, 2)``."""
        return np.stack([self.lower, self.upper], axis=-1)

    def __call__(self, x: ArrayLike) -> Floats:
        """Return the values at points ``(..., d)``. Each value is independent of the other points, to the last bit."""
        points = np.asarray(x, dtype=float)
        if points.shape[-1:] != self.lower.shape:
            raise ValueError(f"{self.name} takes points of shape (..., {self.dim}), got shape {points.shape}")
        if self.anchor is None:
            return self._values(points)
        points = points - self.optimum
        if self.matrix is not None:
            # Row by row: in a product of the whole batch, BLAS rounding may depend on the number of rows.
            points = (points[..., None, :] @ self.matrix)[..., 0, :]
        points += self.anchor
        if not self.confined:
            return self._values(points)
        inside = np.clip(points, self.lower, self.upper)
        points -= inside
        return self._values(inside) + np.vecdot(points, points)

    def _values(self, points: Floats) -> Floats:
        values: Floats = self.function(points)
        if np.shape(values) != points.shape[:-1]:  # for example, a function of one point
            raise ValueError(
                f"the function of {self.name} must take m points (m, {self.dim}) and return m values; for shape "
                f"{points.shape} it returned shape {np.shape(values)}"
            )
        return values

    def instance(self, run: int) -> Problem:
        """Return the problem of a run: always this one. Problems with ``instanced = True`` differ between runs."""
        return self

    def shifted(self, seed: int = 1) -> Problem:
        """Return the problem with its optimum moved to a random place in the middle 80 % of the same box.

        The minimum stays. The place depends on the seed, the name of the function and the dimension only.
        """
        share = 0.1 + 0.8 * self._random("shifted", seed).random(self.dim)
        return self._transformed("shifted", seed, optimum=self.lower + share * (self.upper - self.lower))

    def rotated(self, seed: int = 1) -> Problem:
        """Return the problem rotated about its optimum in the same box, by a uniformly distributed random rotation.

        The minimum stays. The rotation depends on the seed, the name of the function and the dimension only.
        """
        matrix = _rotation(self._random("rotated", seed), self.dim)
        return self._transformed("rotated", seed, matrix=matrix if self.matrix is None else matrix @ self.matrix)

    def _random(self, how: str, seed: int) -> np.random.Generator:
        own_name, _ = split_name(self.name)
        stream = zlib.crc32(f"{own_name} {how}".encode())  # unlike hash(), the same in every process
        return np.random.default_rng([whole_number("seed", seed, 0), stream, self.dim])

    def _transformed(self, how: str, seed: int, **changes: Any) -> Problem:
        return replace(
            self,
            name=f"{self.name}-{how}{seed}",
            title=f"{self.title}, {how} (seed {seed})",
            anchor=self.optimum if self.anchor is None else self.anchor,
            **changes,
        )

    def __repr__(self) -> str:
        return f"Problem({self.name!r}, dim={self.dim})"


def _rotation(rng: np.random.Generator, d: int) -> Floats:
    """Draw a rotation uniformly (Haar measure): orthogonal, with determinant 1."""
    q, r = np.linalg.qr(rng.normal(size=(d, d)))
    q *= np.sign(np.diagonal(r))  # without it, Q depends on LAPACK's choice of signs and is not uniform
    if np.linalg.det(q) < 0:
        q[:, 0] *= -1.0
    return q
