"""The progress of a dense search: what a generation teaches it, and when it is over.

Like all kernels of the dense swarm, these functions run under NumPy and are compiled by numba as they are.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from paoswarm.core.arrays import Floats
from paoswarm.core.order import is_feasible, levelled, ranked
from paoswarm.methods.dense_learning import DenseLaw, Rates, learn, longest

EVALUATED = 0.34  # share of the particles that is evaluated if the model is trusted
_RECENT = 20  # generations whose spread of values sets the price of leaving the bounds
_ROUNDING = 16 * float(np.finfo(float).eps)  # values that differ by less, relative to their size, are equal
_NARROWEST = 1e-11  # the cloud relative to the first one: positions are known to rounding
_WIDEST = 50.0  # likewise: the swarm has left the bounds, or its first cloud was much too narrow
_EVERY = 20  # generations between two tests of stagnation

# Why a search is over. One whose cloud has grown too wide has not arrived anywhere.
GOES_ON, EQUAL_VALUES, POINT, FLAT, GREW, TOO_LONG, NO_PROGRESS = range(7)


class DenseProgress(NamedTuple):
    """What the generations of a search were like, as far as it decides about the end."""

    bests: Floats  # the best value of each of the last generations
    medians: Floats
    ranges: Floats  # distances between the quartiles
    spread: float  # worst minus best value of the last generation
    negligible: float  # differences that are rounding compared with the first swarm's
    generations: int


def first_progress(values: Floats) -> DenseProgress:
    """The progress of a search that begins with these values."""
    finite = values[is_feasible(values)]
    first = median(finite) - finite.min() if len(finite) else 0.0
    nothing = np.empty(0)
    return DenseProgress(nothing, nothing, nothing, np.inf, 1e-16 * first if math.isfinite(first) else 0.0, 0)


def typical(values: Floats) -> float:
    """The median of the feasible ones of the first values; NaN if there are none."""
    feasible = values[is_feasible(values)]
    return median(feasible) if len(feasible) else np.nan


def median(values: Floats) -> float:
    """The median of numbers, none of which is NaN."""
    ordered, middle = np.sort(values), len(values) // 2
    if len(values) % 2:
        return float(ordered[middle])
    return float((ordered[middle - 1] + ordered[middle]) / 2)


def asked_of(predicted: Floats, count: int, has_scout: bool) -> Floats:
    """Numbers of the ``count`` most promising particles, best first; the scout, the last particle, comes before all."""
    promising = ranked(predicted)
    scout = len(predicted) - 1
    if has_scout:
        promising = np.concatenate((np.array([scout]), promising[promising != scout]))
    return promising[:count]


def completed(values: Floats, predicted: Floats, asked: Floats) -> Floats:
    """Values of all particles: where they were not measured (NaN), predictions corrected by the median error."""
    known = values[asked]
    shift = median(levelled(known) - predicted[asked])
    return np.where(np.isnan(values), np.maximum(predicted + shift, known.min()), values)


def after_generation(
    law: DenseLaw, by: Rates, progress: DenseProgress, x: Floats, values: Floats, outside: Floats
) -> tuple[DenseLaw, DenseProgress]:
    """Law and progress after a generation ``x`` (n, d) with these values, which lay so far ``outside`` the bounds."""
    n, d = x.shape
    ranges = progress.ranges
    ranking = ranked(values)
    if outside.any():
        level = levelled(values)
        ordered = np.sort(level)
        apart = ordered[_nearest(0.75, n)] - ordered[_nearest(0.25, n)]
        ranges = np.concatenate((ranges, np.array([apart if math.isfinite(apart) else 0.0])))[-_RECENT:]
        far = np.square(outside / law.scale) @ (1 / np.diag(law.covariance)) / d
        ranking = ranked(level + median(ranges) * far)  # (A4)
    spread = values.max() - values[ranking[0]]
    done = progress.generations + 1
    kept = window(done, n, d)
    after = DenseProgress(
        np.concatenate((progress.bests, values[ranking[:1]]))[-kept:],
        np.concatenate((progress.medians, values[ranking[n // 2 : n // 2 + 1]]))[-kept:],
        ranges,
        np.inf if math.isnan(spread) else float(spread),
        progress.negligible,
        done,
    )
    return learn(law, by, x[ranking]), after


def _nearest(share: float, n: int) -> int:
    """The rank of a quantile among ``n`` values; of two that are as near, the even one."""
    return int(np.rint(share * (n - 1)))


def end_of(law: DenseLaw, progress: DenseProgress, n: int, first_spread: float) -> int:
    """Why the search is over, or `GOES_ON`."""
    d, done = len(law.centre), progress.generations
    recent = 10 + 30 * d // n
    if done >= recent:
        bests = progress.bests[-recent:]
        apart = max(bests.max() - bests.min(), progress.spread)
        if apart <= max(_ROUNDING * abs(bests[-1]), progress.negligible):
            return EQUAL_VALUES
    widest = longest(law)
    if max(widest, law.scale * np.abs(law.path).max()) < _NARROWEST * first_spread:
        return POINT
    if law.is_singular:
        return FLAT
    if widest > _WIDEST * first_spread:
        return GREW
    if done > 100 + 150 * (d + 3) ** 2 / math.sqrt(n):
        return TOO_LONG
    return NO_PROGRESS if done % _EVERY == 0 and _stagnates(progress, n, d) else GOES_ON


def window(generations: int, n: int, d: int) -> int:
    """How many generations are compared to see whether a search still makes progress: Hansen's rule."""
    return int(120 + 30 * d / n + 0.2 * generations)


def _stagnates(progress: DenseProgress, n: int, d: int) -> bool:
    """Whether neither bests nor medians have fallen: the last third is compared with the first."""
    recent = window(progress.generations, n, d)
    if progress.generations <= recent:
        return False
    third = int(0.3 * recent)
    bests, medians = progress.bests, progress.medians
    if median(bests[-third:]) < median(bests[:third]):
        return False
    return median(medians[-third:]) >= median(medians[:third])
