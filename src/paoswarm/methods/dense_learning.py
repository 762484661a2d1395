r"""How a dense swarm learns the law of its next step from the ranks of the last one.

All particles relax completely (a long time step) toward the same point, the mean :math:`a` of the best particles, with
dense noise. So the next positions are draws from :math:`N(a, \sigma^2 C)` (A1). The centre, the scale and the
covariance are learnt as in CMA-ES (Hansen 2016, arXiv:1604.00772), whose letters are used here. What depends on how the
covariance is written down asks for the kind of law: `paoswarm.methods.low_rank` has another one, for many unknowns.

The second half says when a search has ended. The functions are written in the part of NumPy that numba compiles:
compiled engines use the same text.
"""

from __future__ import annotations

import math
from functools import lru_cache, singledispatch
from typing import Any, NamedTuple

import numpy as np

from paoswarm.core.arrays import Floats
from paoswarm.core.order import is_feasible, levelled, ranked

WORST_CONDITION = 1e14  # ratio of the covariance's eigenvalues beyond which rounding decides


class Rates(NamedTuple):
    """Constants of learning for ``n`` particles and ``d`` unknowns."""

    pulls: Floats  # (mu,) stiffnesses k_r / k of the attractors, best particle first
    weights: Floats  # (n,) of all ranks in the covariance; negative for the worse half
    effective: float  # number of particles that the mean of the best is worth
    path_scale: float  # learning rate of the path behind the scale
    damping_scale: float
    path: float  # learning rate of the path behind the covariance
    rank_one: float
    rank_many: float
    length: float  # expected length of a standard normal vector
    patience: int  # generations between two eigendecompositions


@lru_cache(maxsize=64)
def rates(n: int, d: int) -> Rates:
    """The constants of Hansen's tutorial, table 1, negative weights included."""
    raw = math.log((n + 1) / 2) - np.log(np.arange(1, n + 1))
    mu = n // 2
    pulls = raw[:mu] / raw[:mu].sum()
    effective = float(1 / (pulls @ pulls))
    rest = raw[mu:]
    rest_effective = float(rest.sum() ** 2 / (rest @ rest))
    path_scale = (effective + 2) / (d + effective + 5)
    rank_one = 2 / ((d + 1.3) ** 2 + effective)
    rank_many = min(1 - rank_one, 2 * (0.25 + effective + 1 / effective - 2) / ((d + 2) ** 2 + effective))
    negative = min(
        1 + rank_one / rank_many, 1 + 2 * rest_effective / (effective + 2), (1 - rank_one - rank_many) / (d * rank_many)
    )
    return Rates(
        pulls=pulls,
        weights=np.concatenate((pulls, negative * rest / np.abs(rest).sum())),
        effective=effective,
        path_scale=path_scale,
        damping_scale=1 + 2 * max(0.0, math.sqrt((effective - 1) / (d + 1)) - 1) + path_scale,
        path=(4 + effective / d) / (d + 4 + 2 * effective / d),
        rank_one=rank_one,
        rank_many=rank_many,
        length=math.sqrt(d) * (1 - 1 / (4 * d) + 1 / (21 * d * d)),
        patience=max(1, int(1 / (10 * d * (rank_one + rank_many)))),
    )


class DenseLaw(NamedTuple):
    r"""The law :math:`N(a, \sigma^2 C)` of the next position, :math:`C = B D^2 B^T`, and what it is learnt from."""

    centre: Floats  # a, (d,)
    scale: float  # sigma
    covariance: Floats  # C, (d, d)
    axes: Floats  # B, (d, d)
    lengths: Floats  # D, (d,)
    root: Floats  # B D B^T, (d, d): unlike B D, it does not depend on the signs and the order of the axes
    path_scale: Floats  # (d,)
    path: Floats  # (d,)
    generation: int
    is_singular: bool  # the covariance has become too narrow for floating-point numbers

    @property
    def factor(self) -> Floats:
        """A root of the covariance of the next position, ``(d, d)``."""
        return self.scale * self.root


Law = Any  # a `DenseLaw`, or a `LowRankLaw` of `paoswarm.methods.low_rank`


@singledispatch
def draws(law: Law, normal: Floats) -> Floats:
    """Positions ``(n, d)`` made of standard normal deviates (A1)."""
    x: Floats = law.centre + normal @ (law.scale * law.root).T
    return x


@singledispatch
def longest(law: Law) -> float:
    """The largest standard deviation of the next position."""
    return float(law.scale * law.lengths.max())


@singledispatch
def variances(law: Law) -> Floats:
    """The variances of the coordinates (d,), in units of the squared scale."""
    return np.diag(law.covariance)


@singledispatch
def whitening(law: Law) -> Floats:
    """The matrix ``W`` that makes ``(x - centre) @ W`` standard normal, in the axes of the covariance."""
    return law.axes / (law.lengths * law.scale)


@singledispatch
def placed(law: Law, u: Floats) -> Floats:
    """The position of the point ``u`` (d,) in the coordinates of `whitening`."""
    position: Floats = law.centre + (law.axes * (law.lengths * law.scale)) @ u
    return position


@singledispatch
def rates_of(law: Law, n: int) -> Rates:
    """The constants with which ``n`` particles teach a law."""
    return rates(n, len(law.centre))


def first_law(centre: Floats, scale: float) -> DenseLaw:
    """The law with which a search begins: a round cloud."""
    d = len(centre)
    nothing = np.zeros(d)
    return DenseLaw(centre, scale, np.eye(d), np.eye(d), np.ones(d), np.eye(d), nothing, nothing, 0, False)


def law_with(centre: Floats, covariance: Floats) -> DenseLaw:
    """The law with which a search begins that knows where, and the shape."""
    law = first_law(centre, 1.0)
    return _decomposed(law._replace(covariance=covariance))


@singledispatch
def learn(law: Law, by: Rates, ranked: Floats) -> Law:
    """The law after a generation; ``ranked`` (n, d) are its particles, best first."""
    steps = (ranked - law.centre) / law.scale
    mean_step = by.pulls @ steps[: len(by.pulls)]  # (A2)
    straight = law.axes @ ((law.axes.T @ mean_step) / law.lengths)
    squared = np.square((steps @ law.axes) / law.lengths).sum(axis=1)
    path_scale, path, weights, kept, growth = followed(law, by, mean_step, straight, squared)
    covariance = (
        kept * law.covariance + by.rank_one * (path[:, None] * path) + by.rank_many * (steps.T * weights) @ steps
    )
    centre, scale, generation = law.centre + law.scale * mean_step, law.scale * math.exp(growth), law.generation + 1
    after = DenseLaw(
        centre, scale, covariance, law.axes, law.lengths, law.root, path_scale, path, generation, law.is_singular
    )
    return _decomposed(after) if generation % by.patience == 0 else after


def followed(
    law: Law, by: Rates, mean_step: Floats, straight: Floats, squared: Floats
) -> tuple[Floats, Floats, Floats, float, float]:
    """Both paths after a step, the weights of the particles, the share of the covariance that stays, and the growth.

    ``straight`` is the step and ``squared`` (n,) are the squared lengths of the particles' steps, where the law is
    standard normal.
    """
    d = len(mean_step)
    rate = by.path_scale
    path_scale = (1 - rate) * law.path_scale + math.sqrt(rate * (2 - rate) * by.effective) * straight
    length = math.sqrt(path_scale @ path_scale)
    # While the scale grows fast, the path of the covariance waits.
    expected = math.sqrt(1 - (1 - rate) ** (2 * (law.generation + 1)))
    is_steady = length / expected < (1.4 + 2 / (d + 1)) * by.length
    rate = by.path
    path = (1 - rate) * law.path + is_steady * math.sqrt(rate * (2 - rate) * by.effective) * mean_step
    weights = np.where(by.weights >= 0, by.weights, by.weights * d / np.maximum(squared, 1e-12))
    kept = 1 - by.rank_one - by.rank_many * by.weights.sum() + (not is_steady) * by.rank_one * rate * (2 - rate)
    growth = min(1.0, by.path_scale / by.damping_scale * (length / by.length - 1))
    return path_scale, path, weights, kept, growth


def _decomposed(law: DenseLaw) -> DenseLaw:
    """The law with the eigenvectors of its covariance, scaled to a mean eigenvalue of 1."""
    covariance = (law.covariance + law.covariance.T) / 2
    size = float(np.trace(covariance)) / len(covariance)
    covariance, root = covariance / size, math.sqrt(size)
    if not math.isfinite(covariance.sum()):
        path_scale, path = law.path_scale, law.path
        return DenseLaw(
            law.centre, law.scale, covariance, law.axes, law.lengths, law.root, path_scale, path, law.generation, True
        )
    eigenvalues, axes = np.linalg.eigh(covariance)
    axes = np.ascontiguousarray(axes)
    least = eigenvalues[-1] / WORST_CONDITION
    lengths = np.sqrt(np.maximum(eigenvalues, least))
    return DenseLaw(
        law.centre,
        law.scale * root,
        covariance,
        axes,
        lengths,
        (axes * lengths) @ axes.T,  # unlike B D, it does not depend on the signs and the order of the axes
        law.path_scale,
        law.path / root,
        law.generation,
        bool(eigenvalues[0] <= least),
    )


EVALUATED = 0.34  # share of the particles that is evaluated if the model is trusted
_RECENT = 20  # generations whose spread of values sets the price of leaving the bounds
_ROUNDING = 16 * float(np.finfo(float).eps)  # values that differ by less, relative to their size, are equal
_NARROWEST = 1e-11  # the cloud relative to the first one: positions are known to rounding
_WIDEST = 50.0  # likewise: the swarm has left the bounds, or its first cloud was much too narrow
_AGAIN = 5  # generations in which a model must come to the same minimum as in as many before
_SLOWER = 1e-4  # of what is negligible: in bent valleys a model may advance by little in a few generations
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
    law: Law, by: Rates, progress: DenseProgress, x: Floats, values: Floats, outside: Floats
) -> tuple[Law, DenseProgress]:
    """Law and progress after a generation ``x`` (n, d) with these values, which lay so far ``outside`` the bounds."""
    n, d = x.shape
    ranges = progress.ranges
    ranking = ranked(values)
    if outside.any():
        level = levelled(values)
        ordered = np.sort(level)
        apart = ordered[_nearest(0.75, n)] - ordered[_nearest(0.25, n)]
        ranges = np.concatenate((ranges, np.array([apart if math.isfinite(apart) else 0.0])))[-_RECENT:]
        far = np.square(outside / law.scale) @ (1 / variances(law)) / d
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


def end_of(law: Law, progress: DenseProgress, n: int, first_spread: float, is_led: bool) -> int:
    """Why the search is over, or `GOES_ON`; ``is_led``: by a model whose minimum is measured in each generation."""
    d, done = len(law.centre), progress.generations
    if _are_equal(progress, n, d) or (is_led and _is_found_again(progress)):
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


def is_rounding(apart: float, progress: DenseProgress) -> bool:
    """Whether values that are so far apart are equal but for rounding."""
    return apart <= max(_ROUNDING * abs(progress.bests[-1]), progress.negligible)


def _are_equal(progress: DenseProgress, n: int, d: int) -> bool:
    """Whether the bests of the last generations, and all values of the last one, are equal."""
    recent = 10 + 30 * d // n
    if progress.generations < recent:
        return False
    bests = progress.bests[-recent:]
    return is_rounding(max(bests.max() - bests.min(), progress.spread), progress)


def _is_found_again(progress: DenseProgress) -> bool:
    """Whether the last generations have come to the same best value as the ones before."""
    if progress.generations < 2 * _AGAIN:
        return False
    best = progress.bests[-_AGAIN:].min()
    apart = abs(best - progress.bests[-2 * _AGAIN : -_AGAIN].min())
    return bool(apart <= max(_ROUNDING * abs(best), _SLOWER * progress.negligible))


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
