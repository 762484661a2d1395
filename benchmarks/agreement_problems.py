"""The problems of `agreement.py`: functions of known minimum, and some that are made to fool a search."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from classics import CLASSICS

from paoswarm.problems.bbob import bbob

ONE_MINIMUM = {*range(1, 3), *range(5, 15)}  # bbob functions; Rosenbrock's second minimum in d > 3 is not counted

MANY_MINIMA = ("any_size_many_minima", "two_many_minima", "several_unknowns")  # modules of the classic functions


class Known(NamedTuple):
    """A function with its minimum."""

    name: str
    family: str  # all problems of a family are for choosing, or all are for reporting
    fun: Callable[[np.ndarray], np.ndarray]
    bounds: np.ndarray
    minimum: float
    is_multimodal: bool


def from_bbob() -> Iterator[Known]:
    """The 24 functions in 2, 3 and 5 unknowns, one instance each."""
    for instance in (1,):
        for d in (2, 3, 5):
            for number in range(1, 25):
                one = bbob(number, d, [instance]).instance(0)
                yield Known(one.name, f"f{number}", one, one.bounds, one.minimum, number not in ONE_MINIMUM)


def from_classics() -> Iterator[Known]:
    """The classic functions."""
    for one in CLASSICS:
        collection = one.function.__module__.rpartition(".")[2]
        yield Known(one.name, one.name, one, one.bounds, one.minimum, collection in MANY_MINIMA)


def _hole(width: float, d: int, seed: int) -> Callable[[np.ndarray], np.ndarray]:
    """A bowl with a deep hole elsewhere, whose standard deviation is ``width`` of the bounds."""
    rng = np.random.default_rng(seed)
    bowl, hole = rng.uniform(0.3, 0.45, d), rng.uniform(0.6, 0.9, d)

    def fun(x: np.ndarray) -> np.ndarray:
        deep = np.exp(-0.5 * np.square((x - hole) / width).sum(axis=-1))
        return np.square(x - bowl).sum(axis=-1) * (1 - deep) - deep

    return fun


def fooling() -> Iterator[Known]:
    """Holes in a bowl."""
    for d in (2, 5):
        for width in (0.01, 0.03, 0.1):
            for seed in range(5):
                name = f"hole {width:g} number {seed}"
                yield Known(name, "hole", _hole(width, d, 10 * d + seed), np.array([(0.0, 1.0)] * d), -1.0, True)


PROBLEMS = {"classics": from_classics, "bbob": from_bbob, "fooling": fooling}
