"""Problems with known answers: the nine functions of the study, shifted and rotated at will, and COCO's bbob suite.

>>> import paoswarm as ps
>>> from paoswarm import problems
>>> problem = problems.get("ackley-shifted", 8)
>>> result = ps.minimize(problem, problem.bounds, vectorized=True, rng=1)
>>> bool(abs(result.fun - problem.minimum) < 1e-6)
True

Most of the nine have their optimum at the centre of the box, and six are separable: a method may owe its success to
that. ``problem.shifted(seed).rotated(seed)`` takes both away; in a name that is ``"ackley-shifted2-rotated3"``.

The functions follow the study's table with its misprints put right: Griewank divides by 4000, Rosenbrock's sum ends at
d - 1, and Schwefel has the constant that makes its minimum 0. Boxes are those of the literature where the table rounds
them: 65.536 for 65.54 and 32.768 for 32.77.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from paoswarm.algorithms.registry import choices
from paoswarm.checks import whole_number
from paoswarm.problems import bbob, functions
from paoswarm.problems.bbob import Bbob
from paoswarm.problems.problem import Problem, split_name

__all__ = [
    "Bbob",
    "Problem",
    "ackley",
    "bbob",
    "ellipsoid",
    "functions",
    "get",
    "griewank",
    "names",
    "paper",
    "power_sum",
    "rastrigin",
    "rosenbrock",
    "rotated_ellipsoid",
    "schwefel",
    "sphere",
]


def sphere(dim: int) -> Problem:
    """De Jong's function on [-5.12, 5.12]^d: round and separable."""
    return _problem(functions.sphere, "De Jong (sphere)", dim, 5.12)


def ellipsoid(dim: int) -> Problem:
    """Hyper-ellipsoid on [-5.12, 5.12]^d: separable, axes of different length."""
    return _problem(functions.ellipsoid, "Hyper-ellipsoid", dim, 5.12)


def rotated_ellipsoid(dim: int) -> Problem:
    """Rotated hyper-ellipsoid on [-65.536, 65.536]^d: by its name, but in truth separable, see `functions`."""
    return _problem(functions.rotated_ellipsoid, "Rotated hyper-ellipsoid", dim, 65.536)


def power_sum(dim: int) -> Problem:
    """Sum of different powers on [-1, 1]^d: separable, flatter in every further direction."""
    return _problem(functions.power_sum, "Power sum", dim, 1.0)


def rosenbrock(dim: int) -> Problem:
    """Rosenbrock's curved valley on [-2.048, 2.048]^d, d >= 2; the optimum is at (1, ..., 1)."""
    return _problem(functions.rosenbrock, "Rosenbrock", dim, 2.048, optimum=1.0, least=2)


def griewank(dim: int) -> Problem:
    """Griewank's function on [-600, 600]^d: a wide bowl with many small waves."""
    return _problem(functions.griewank, "Griewank", dim, 600.0)


def rastrigin(dim: int) -> Problem:
    """Rastrigin's function on [-5.12, 5.12]^d: separable, a local minimum near every whole number."""
    return _problem(functions.rastrigin, "Rastrigin", dim, 5.12)


def ackley(dim: int) -> Problem:
    """Ackley's function on [-32.768, 32.768]^d: a steep hole in a rippled plain."""
    return _problem(functions.ackley, "Ackley", dim, 32.768)


def schwefel(dim: int) -> Problem:
    """Schwefel's function on [-500, 500]^d: separable, the optimum (420.97, ...) far from the next best minima."""
    return _problem(functions.schwefel, "Schwefel", dim, 500.0, optimum=functions.SCHWEFEL_OPTIMUM, confined=True)


_MAKERS: dict[str, Callable[[int], Problem]] = {
    make.__name__: make
    for make in (
        sphere,
        ellipsoid,
        rotated_ellipsoid,
        power_sum,
        rosenbrock,
        griewank,
        rastrigin,
        ackley,
        schwefel,
    )
}

names: tuple[str, ...] = tuple(_MAKERS)
"""The nine problems in the order of the study."""


def paper(dim: int) -> list[Problem]:
    """The nine problems of the study, in its order."""
    return [make(dim) for make in _MAKERS.values()]


def get(name: str, dim: int) -> Problem | Bbob:
    """A problem by its name.

    Parameters
    ----------
    name : str
        One of `names`, followed by any number of ``-shifted`` and ``-rotated`` with a seed (1 if there is none), such
        as ``"rastrigin-shifted7-rotated2"``; or ``"bbob-f1"`` to ``"bbob-f24"``.
    dim : int

    Examples
    --------
    >>> get("rastrigin-shifted-rotated2", 8)
    Problem('rastrigin-shifted1-rotated2', dim=8)
    """
    if not isinstance(name, str):
        raise TypeError(f"the name of a problem is a text such as 'rastrigin', got {name!r}")
    if found := re.fullmatch(r"bbob-f(\d+)", name):
        return bbob.bbob(int(found[1]), dim)
    own_name, steps = split_name(name)
    if own_name not in _MAKERS:
        raise ValueError(
            f"unknown problem {name!r}; {choices(own_name, names)}, or bbob-f1 to bbob-f24. The first nine may end in "
            "-shifted and -rotated, each with a seed: rastrigin-shifted7-rotated2"
        )
    problem = _MAKERS[own_name](dim)
    for how, seed in steps:
        problem = problem.shifted(seed) if how == "shifted" else problem.rotated(seed)
    return problem


def _problem(
    function: Callable[[Any], Any],
    title: str,
    dim: int,
    half_width: float,
    *,
    optimum: float = 0.0,
    least: int = 1,
    confined: bool = False,
) -> Problem:
    """A problem on a cube about the origin, its minimum 0."""
    name = function.__name__
    d = whole_number(f"the dim of {name}", dim, least)
    side, place = np.full(d, half_width), np.full(d, optimum)
    return Problem(name, title, -side, side, place, 0.0, function, confined)
