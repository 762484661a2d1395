"""The bbob suite of COCO: 24 functions, each in as many instances (shifted, rotated, with another minimum) as wanted.

Needs cocoex (``pip install "paoswarm[bbob]"``), which is imported when a problem is made. Nothing is observed or
written by it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from paoswarm.checks import whole_number
from paoswarm.core.arrays import Floats
from paoswarm.problems.problem import Problem

DIMS = (2, 3, 5, 10, 20, 40)
TITLES = (
    "Sphere",
    "Separable ellipsoid",
    "Separable Rastrigin",
    "Büche-Rastrigin",
    "Linear slope",
    "Attractive sector",
    "Step ellipsoid",
    "Rosenbrock",
    "Rotated Rosenbrock",
    "Ellipsoid",
    "Discus",
    "Bent cigar",
    "Sharp ridge",
    "Different powers",
    "Rastrigin",
    "Weierstrass",
    "Schaffer F7",
    "Ill-conditioned Schaffer F7",
    "Griewank-Rosenbrock",
    "Schwefel",
    "Gallagher 101 peaks",
    "Gallagher 21 peaks",
    "Katsuura",
    "Lunacek bi-Rastrigin",
)


@dataclass(frozen=True)
class Bbob:
    """One function of the suite in several instances; made by `bbob`.

    Used like a `Problem` it is the first of its instances; a run of a study takes ``instance(run)``.
    """

    number: int
    dim: int
    instances: tuple[int, ...]

    instanced: ClassVar[bool] = True

    def __post_init__(self) -> None:
        # The library ends the whole process when it is asked for a function that it does not have.
        if whole_number("the number of a bbob function", self.number, 1) > len(TITLES):
            raise ValueError(f"the bbob functions are numbered from 1 to {len(TITLES)}, got {self.number}")
        if whole_number("dim", self.dim, 1) not in DIMS:
            raise ValueError(f"the bbob suite has the dimensions {', '.join(map(str, DIMS))}, got {self.dim}")
        if not self.instances:
            raise ValueError("a bbob problem needs one instance at least, got none")
        for instance in self.instances:
            if whole_number("a bbob instance", instance, 1) >= 2**31:
                raise ValueError(f"a bbob instance must be less than 2**31, got {instance}")

    @property
    def name(self) -> str:
        """Such as ``bbob-f15``."""
        return f"bbob-f{self.number}"

    @property
    def title(self) -> str:
        """Such as ``f15 Rastrigin``."""
        return f"f{self.number} {TITLES[self.number - 1]}"

    @property
    def lower(self) -> Floats:
        """The box is [-5, 5] in every direction."""
        return np.full(self.dim, -5.0)

    @property
    def upper(self) -> Floats:
        """The box is [-5, 5] in every direction."""
        return np.full(self.dim, 5.0)

    @property
    def bounds(self) -> Floats:
        """The box as `minimize` takes it, ``(d, 2)``."""
        return np.stack([self.lower, self.upper], axis=-1)

    @property
    def optimum(self) -> Floats:
        """That of the first instance."""
        return self.instance(0).optimum

    @property
    def minimum(self) -> float:
        """That of the first instance."""
        return self.instance(0).minimum

    def __call__(self, x: ArrayLike) -> Floats:
        """Values of the first instance at points ``(..., d)``."""
        return self.instance(0)(x)

    def instance(self, run: int) -> Problem:
        """The instance of a run; after the last comes the first again."""
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
    """A function of the suite by its number, 1 to 24, in 2, 3, 5, 10, 20 or 40 dimensions.

    Parameters
    ----------
    function, dim : int
    instances : iterable of int
        Which instances the runs of a study take in turn; COCO itself uses fifteen.
    """
    _coco()  # if it is missing, say so now and not in the middle of a study
    return Bbob(function, dim, tuple(instances))


def suite(dims: Iterable[int], functions: Iterable[int] = range(1, 25)) -> list[Bbob]:
    """The functions of the suite in the given dimensions, one dimension after the other."""
    functions = tuple(functions)
    return [bbob(function, dim) for dim in dims for function in functions]


@dataclass(frozen=True)
class _Function:
    """A formula as three numbers: it can be sent to another process, which builds the library's object itself."""

    number: int
    dim: int
    instance: int

    def __call__(self, x: Floats) -> Floats:
        rows = np.array(x, order="C").reshape(-1, self.dim)  # it takes nothing but contiguous memory of our own
        return _bare(self)(rows).reshape(x.shape[:-1])[()]  # a number for one point


@lru_cache(maxsize=32)
def _bare(function: _Function) -> Any:
    return _coco().BareProblem("bbob", function.number, function.dim, function.instance)


def _coco() -> Any:
    try:
        return import_module("cocoex")
    except ImportError as error:
        raise ImportError("bbob problems need cocoex; install it with: pip install 'paoswarm[bbob]'") from error
