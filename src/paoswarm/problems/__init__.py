"""Test problems with known optima: the nine functions of the paper, shifted and rotated, and COCO's bbob suite.

>>> import paoswarm as ps
>>> from paoswarm import problems
>>> problem = problems.get("ackley-shifted", 8)
>>> result = ps.minimize(problem, problem.bounds, vectorized=True, rng=1)
>>> bool(abs(result.fun - problem.minimum) < 1e-6)
True

Most of the nine have their optimum at the centre of the box, and six are separable, which may favour a method.
``problem.shifted(seed).rotated(seed)`` removes both properties. As a name, this is ``"ackley-shifted2-rotated3"``.

The functions follow the table of the paper, with its misprints corrected: Griewank divides by 4000, Rosenbrock's sum
ends at d - 1, and Schwefel has the constant that makes its minimum 0. Where the table rounds the bounds, they are those
of the literature: 65.536 for 65.54 and 32.768 for 32.77.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from paoswarm._checks import choices, whole_number
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
    "split_name",
]


def sphere(dim: int) -> Problem:
    """De Jong's function on [-5.12, 5.12]^d: spherical and separable."""
    return _problem(functions.sphere, "De Jong (sphere)", dim, 5.12)


def ellipsoid(dim: int) -> Problem:
    """Hyper-ellipsoid on [-5.12, 5.12]^d: separable, axes of different length."""
    return _problem(functions.ellipsoid, "Hyper-ellipsoid", dim, 5.12)


def rotated_ellipsoid(dim: int) -> Problem:
    """Rotated hyper-ellipsoid on [-65.536, 65.536]^d: separable in spite of its name, see `functions`."""
    return _problem(functions.rotated_ellipsoid, "Rotated hyper-ellipsoid", dim, 65.536)


def power_sum(dim: int) -> Problem:
    """Sum of different powers on [-1, 1]^d: separable, flatter in each further dimension."""
    return _problem(functions.power_sum, "Power sum", dim, 1.0)


def rosenbrock(dim: int) -> Problem:
    """Rosenbrock's curved valley on [-2.048, 2.048]^d, d >= 2; the optimum is at (1, ..., 1)."""
    return _problem(functions.rosenbrock, "Rosenbrock", dim, 2.048, optimum=1.0, least=2)


def griewank(dim: int) -> Problem:
    """Griewank's function on [-600, 600]^d: a wide bowl with many shallow local minima."""
    return _problem(functions.griewank, "Griewank", dim, 600.0)


def rastrigin(dim: int) -> Problem:
    """Rastrigin's function on [-5.12, 5.12]^d: separable, a local minimum near every integer point."""
    return _problem(functions.rastrigin, "Rastrigin", dim, 5.12)


def ackley(dim: int) -> Problem:
    """Ackley's function on [-32.768, 32.768]^d: a steep funnel in a plain with many local minima."""
    return _problem(functions.ackley, "Ackley", dim, 32.768)


def schwefel(dim: int) -> Problem:
    """Schwefel's function on [-500, 500]^d: separable, the optimum (420.97, ...) is far from the next best minima."""
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
"""The names of the nine problems, in the order of the paper."""


def paper(dim: int) -> list[Problem]:
    """Return the nine problems of the paper, in its order."""
    return [make(dim) for make in _MAKERS.values()]


def get(name: str, dim: int) -> Problem | Bbob:
    """Return a problem by its name.

    Parameters
    ----------
    name : str
        One of `names`, or ``"bbob-f1"`` to ``"bbob-f24"``. One of `names` may be followed by any number of
        ``-shifted`` and ``-rotated``, each with a seed (default 1), as in ``"rastrigin-shifted7-rotated2"``.
    dim : int

    Examples
    --------
    >>> get("rastrigin-shifted-rotated2", 8)
    Problem('rastrigin-shifted1-rotated2', dim=8)
    """
    if not isinstance(name, str):
        raise TypeError(f"the name of a problem must be a string such as 'rastrigin', got {name!r}")
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
    """Return a problem on a cube around the origin, with minimum 0."""
    name = function.__name__
    d = whole_number(f"the dim of {name}", dim, least)
    side, place = np.full(d, half_width), np.full(d, optimum)
    return Problem(name, title, -side, side, place, 0.0, function, confined)
