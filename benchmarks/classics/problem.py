"""What a classic test function is, and the decorators that collect them.

A function takes points as rows, ``(m, d) -> (m,)``. Where the minimum of the literature is at the centre of the box,
the box is moved (`off_centre`), so that no search profits from looking there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

Function = Callable[[np.ndarray], np.ndarray]


class Classic(NamedTuple):
    """A function with its box, its minimum and where that is."""

    name: str
    function: Function
    bounds: np.ndarray  # (d, 2)
    minimum: float
    minimisers: np.ndarray  # (k, d), not always all of them

    @property
    def dim(self) -> int:
        """Number of unknowns."""
        return len(self.bounds)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """The values at points ``(m, d)``."""
        with np.errstate(all="ignore"):
            return self.function(x)


FOUND: list[Classic] = []


def off_centre(half: float, d: int) -> list[tuple[float, float]]:
    """A cube of the given half width whose centre is away from the origin, by another share of it on each axis."""
    shifts = [half * (-1) ** i * (0.25 + 0.35 * (0.618 * i % 1)) for i in range(d)]
    return [(shift - half, shift + half) for shift in shifts]


def classic(bounds: list[tuple[float, float]], minimum: float, *minimisers: tuple[float, ...]):
    """Collect a function of a fixed number of unknowns."""

    def collect(function: Function) -> Function:
        FOUND.append(
            Classic(function.__name__, function, np.array(bounds, float), minimum, np.array(minimisers, float))
        )
        return function

    return collect


def any_size(
    dims: tuple[int, ...],
    box: float | tuple[float, float],
    minimum: float | Callable[[int], float] = 0.0,
    at: float | Callable[[int], np.ndarray] = 0.0,
):
    """Collect a function of any number of unknowns, for some of them.

    A ``box`` that is one number is a half width, moved `off_centre`. ``minimum`` and ``at``, which is the same in all
    coordinates if it is a number, may be functions of the number of unknowns.
    """

    def collect(function: Function) -> Function:
        for d in dims:
            bounds = [box] * d if isinstance(box, tuple) else off_centre(box, d)
            value = minimum(d) if callable(minimum) else minimum
            place = at(d) if callable(at) else np.full(d, at)
            FOUND.append(
                Classic(function.__name__, function, np.array(bounds, float), value, np.atleast_2d(place).astype(float))
            )
        return function

    return collect
