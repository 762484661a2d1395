"""The bbob suite of COCO: 24 functions, each in any number of instances (shifted, rotated, with another minimum).

It needs cocoex (``pip install "paoswarm[bbob]"``), which is imported when a problem is made. COCO's own logging is not
used.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from paoswarm._checks import whole_number
from paoswarm._extras import need
from paoswarm.core.arrays import Floats
from paoswarm.problems.problem import Problem

DIMS = (2, 3, 5, 10, 20, 40)
_TITLES = (
    "Sphere, Separable ellipsoid, Separable Rastrigin, Büche-Rastrigin, Linear slope, Attractive sector, Step "
    "ellipsoid, Rosenbrock, Rotated Rosenbrock, Ellipsoid, Discus, Bent cigar, Sharp ridge, Different powers, "
    "Rastrigin, Weierstrass, Schaffer F7, Ill-conditioned Schaffer F7, Griewank-Rosenbrock, Schwefel, Gallagher "
    "101 peaks, Gallagher 21 peaks, Katsuura, Lunacek bi-Rastrigin"
)
TITLES = tuple(_TITLES.split(", "))


@dataclass(frozen=True)
class Bbob:
    """One function of the suite in several instances, made by `bbob`.

    Used as a `Problem`, it is its first instance. Each run of a study uses ``instance(run)``.
    """

    number: int
    dim: int
    instances: tuple[int, ...]

    instanced: ClassVar[bool] = True

    def __post_init__(self) -> None:
        put = object.__setattr__.__get__(self)
        put("number", whole_number("the number of a bbob function", self.number, 1))
        put("dim", whole_number("dim", self.dim, 1))
        # The library exits the process if a function does not exist.
        if self.number > len(TITLES):
            raise ValueError(f"the bbob functions are numbered from 1 to {len(TITLES)}, got {self.number}")
        if self.dim not in DIMS:
            raise ValueError(f"dim must be one of {', '.join(map(str, DIMS))} in the bbob suite, got {self.dim}")
        if not self.instances:
            raise ValueError("a bbob problem needs at least one instance, got none")
        put("instances", tuple(whole_number("a bbob instance", one, 1, 2**31 - 1) for one in self.instances))

    @property
    def name(self) -> str:
        """The name, such as ``bbob-f15``."""
        return f"bbob-f{self.number}"

    @property
    def title(self) -> str:
        """The title, such as ``f15 Rastrigin``."""
        return f"f{self.number} {TITLES[self.number - 1]}"

    @property
    def lower(self) -> Floats:
        """The lower bounds, -5."""
        return np.full(self.dim, -5.0)

    @property
    def upper(self) -> Floats:
        """The upper bounds, 5."""
        return np.full(self.dim, 5.0)

    @property
    def bounds(self) -> Floats:
        """The bounds in the form of `minimize`, ``(d, 2)``."""
        return np.stack([self.lower, self.upper], axis=-1)

    @property
    def optimum(self) -> Floats:
        """The optimum of the first instance."""
        return self.instance(0).optimum

    @property
    def minimum(self) -> float:
        """The minimum of the first instance."""
        return self.instance(0).minimum

    def __call__(self, x: ArrayLike) -> Floats:
        """Return the values of the first instance at points ``(..., d)``."""
        return self.instance(0)(x)

    def instance(self, run: int) -> Problem:
        """Return the instance of a run. Runs cycle through the instances."""
        chosen = self.instances[run % len(self.instances)]
        function = _Function(self.number, self.dim, chosen)
        bare = _bare(function)
        return Problem(
            name=f"{self.name}-i{chosen}",
            title=f"{self.title}, instance {chosen}",
            lower=self.lower,
            upper=self.upper,
            optimum=bare.best_parameter(),
            minimum=float(bare.best_value()),
            function=function,
        )


def bbob(function: int, dim: int, instances: Iterable[int] = range(1, 16)) -> Bbob:
    """Return a function of the suite.

    Parameters
    ----------
    function : int
        Its number, 1 to 24.
    dim : int
        2, 3, 5, 10, 20 or 40.
    instances : iterable of int
        The instances that the runs of a study use in turn. COCO itself uses fifteen.
    """
    _coco()  # raise now if it is missing, not in the middle of a study
    return Bbob(function, dim, tuple(instances))


def suite(dims: Iterable[int], functions: Iterable[int] = range(1, 25)) -> list[Bbob]:
    """Return the functions of the suite in each of the given dimensions."""
    functions = tuple(functions)
    return [bbob(function, dim) for dim in dims for function in functions]


@dataclass(frozen=True)
class _Function:
    """A function as three numbers, which can be pickled. The library's object is made in each process."""

    number: int
    dim: int
    instance: int

    def __call__(self, x: Floats) -> Floats:
        rows = np.array(x, order="C").reshape(-1, self.dim)  # it accepts only contiguous arrays that own their memory
        return _bare(self)(rows).reshape(x.shape[:-1])[()]  # a scalar for one point


@lru_cache(maxsize=32)
def _bare(function: _Function) -> Any:
    return _coco().BareProblem("bbob", function.number, function.dim, function.instance)


def _coco() -> Any:
    return need("cocoex", extra="bbob", user="the bbob suite")
