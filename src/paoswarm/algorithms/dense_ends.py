"""When the search of a dense swarm is over."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from paoswarm.algorithms.dense_learning import DenseLaw
from paoswarm.core import order
from paoswarm.core.arrays import Floats

ROUNDING = 16 * float(np.finfo(float).eps)  # values that differ by less, relative to their size, are equal
NARROWEST = 1e-11  # the cloud relative to the first one: positions are known to rounding
WIDEST = 50.0  # likewise: the swarm has left the bounds, or its first cloud was much too narrow
EVERY = 20  # generations between two tests of stagnation

GREW = "the cloud has grown too wide"  # an end that has not arrived anywhere


class Course(NamedTuple):
    """What a search looked like so far, as far as it decides about the end. Values are those of whole generations."""

    bests: tuple[float, ...]  # the best value of each of the last generations
    medians: tuple[float, ...]
    ranges: tuple[float, ...]  # distances between the quartiles
    spread: float  # worst minus best value of the last generation
    negligible: float  # differences that are rounding compared with the first swarm's
    generations: int = 0

    @classmethod
    def starting_with(cls, values: Floats) -> Course:
        """The course of a search that begins with these values."""
        finite = values[order.is_feasible(values)]
        first = float(np.median(finite) - finite.min()) if len(finite) else 0.0
        return cls((), (), (), math.inf, 1e-16 * first if math.isfinite(first) else 0.0)

    @property
    def range(self) -> float:
        """Median of the recent distances between the quartiles."""
        return float(np.median(self.ranges))

    def with_range(self, values: Floats, recent: int) -> Course:
        """The course with the quartiles of another generation."""
        low, high = np.quantile(values, [0.25, 0.75], method="nearest")
        with np.errstate(invalid="ignore"):  # both are +inf if a whole generation has failed
            apart = float(high - low)
        return self._replace(ranges=(*self.ranges, apart if math.isfinite(apart) else 0.0)[-recent:])


def with_generation(course: Course, ranked: Floats, d: int) -> Course:
    """The course with another generation, whose values are given best first."""
    with np.errstate(invalid="ignore"):
        apart = float(ranked.max() - ranked[0])
    n = len(ranked)
    kept = window(course.generations + 1, n, d)
    return course._replace(
        bests=(*course.bests, float(ranked[0]))[-kept:],
        medians=(*course.medians, float(ranked[n // 2]))[-kept:],
        spread=apart if not math.isnan(apart) else math.inf,
        generations=course.generations + 1,
    )


def end_of(law: DenseLaw, course: Course, n: int, first_spread: float) -> str:
    """Why the search is over; empty if it is not."""
    d, done = len(law.centre), course.generations
    recent = 10 + 30 * d // n
    if done >= recent:
        bests = course.bests[-recent:]
        apart = max(max(bests) - min(bests), course.spread)
        if apart <= max(ROUNDING * abs(bests[-1]), course.negligible):
            return "all values are equal"
    if max(law.longest, law.scale * float(np.abs(law.path).max())) < NARROWEST * first_spread:
        return "the cloud is a point"
    if law.is_singular:
        return "the cloud is flat"
    if law.longest > WIDEST * first_spread:
        return GREW
    if done > 100 + 150 * (d + 3) ** 2 / math.sqrt(n):
        return "too many generations"
    return "no progress" if done % EVERY == 0 and _stagnates(course, n, d) else ""


def window(generations: int, n: int, d: int) -> int:
    """How many generations are compared to see whether a search still makes progress: Hansen's rule."""
    return int(120 + 30 * d / n + 0.2 * generations)


def _stagnates(course: Course, n: int, d: int) -> bool:
    """Whether neither bests nor medians have fallen: the last third is compared with the first."""
    recent = window(course.generations, n, d)
    if course.generations <= recent:
        return False
    third = int(0.3 * recent)

    def has_not_fallen(values: tuple[float, ...]) -> bool:
        return bool(np.median(values[-third:]) >= np.median(values[:third]))

    return has_not_fallen(course.bests) and has_not_fallen(course.medians)
