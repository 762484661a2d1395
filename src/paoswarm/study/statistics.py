"""What the runs of a study say: summaries with intervals, paired comparisons, ranks, running times.

SciPy does the statistics; this module decides what to ask it, and what to say where a question has no answer. Errors
may be zero and may be infinite (a run that never saw a finite value); no function warns about either.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from paoswarm.core.arrays import Floats
from paoswarm.study.results import Results

FLOOR = 1e-50  # errors below it count as equal: it is zero in every practical sense
CEILING = 1e50  # errors above it count as equal, infinite ones among them: the run has failed
TARGETS: Floats = np.logspace(2, -8, 51)  # the precisions of COCO, from easy to hard

Verdict = Literal["better", "worse", "not significant"]
_VERDICTS: dict[int, Verdict] = {1: "better", -1: "worse", 0: "not significant"}

_RESAMPLES = 1999  # some 160 cells of 100 runs take about a second
_DECIMALS = 9  # of a decade; what is finer is rounding, as between runs that end in the same local minimum
_STAND_IN = 1e300  # for infinity, where numbers are subtracted and inf - inf would be nothing
_INFINITE = 1e250  # what has a share of the stand-in is larger, every error that means something is smaller


class Summary(NamedTuple):
    """The final errors of one cell."""

    mean: float
    median: float
    low: float  # 10 % quantile
    high: float  # 90 % quantile
    best: float
    worst: float
    mean_interval: tuple[float, float]  # 95 %
    median_interval: tuple[float, float]


def summary(results: Results, problem: str, dim: int, method: str) -> Summary:
    """Location and spread of the final errors of one cell.

    The intervals are 95 % bootstrap intervals, always from the same seed: BCa, or percentile where BCa is undefined, as
    with many equal errors or infinite ones. One run, or runs that all end alike, have no spread to resample: both ends
    are then the value itself. A mean or quantile in which an infinite error takes part is infinite; the lower end of
    its interval may be finite, because some resamples miss the failed runs.
    """
    final = results.final(problem, dim, method)
    low, high = _quantiles(final)
    mean_interval, median_interval = _intervals(final)
    return Summary(
        float(_mean(final)),
        float(_median(final)),
        float(low),
        float(high),
        float(final.min()),
        float(final.max()),
        mean_interval,
        median_interval,
    )


def _intervals(sample: Floats) -> tuple[tuple[float, float], tuple[float, float]]:
    """95 % bootstrap intervals of mean and median, from the same resamples."""
    first = float(sample[0])
    if (sample == first).all():
        return (first, first), (first, first)
    finite = bool(np.isfinite(sample).all())
    scale = float(sample.max()) if finite else 1.0  # BCa takes third powers, which must neither overflow nor vanish
    data = (np.minimum(sample, _STAND_IN) / scale,)
    options: dict[str, Any] = {"statistic": _centres, "vectorized": True, "rng": 1}
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore", stats.DegenerateDataWarning)
        plain = stats.bootstrap(data, n_resamples=_RESAMPLES, method="percentile", **options)
        ends = np.stack(plain.confidence_interval, axis=-1)
        if finite:  # otherwise the correction would be the stand-in's
            bca = stats.bootstrap(data, n_resamples=0, method="BCa", bootstrap_result=plain, **options)
            corrected = np.stack(bca.confidence_interval, axis=-1)
            ends = np.where(np.isnan(corrected), ends, corrected)
    (mean_low, mean_high), (median_low, median_high) = _uncapped(ends * scale).tolist()
    return (mean_low, mean_high), (median_low, median_high)


def _centres(sample: Floats, axis: int) -> Floats:
    return np.stack([np.mean(sample, axis=axis), np.median(sample, axis=axis)])


class Band(NamedTuple):
    """The error of one cell over its evaluations, each array ``(g,)``."""

    evaluations: NDArray[np.int64]
    mean: Floats
    median: Floats
    low: Floats  # 10 % quantile
    high: Floats  # 90 % quantile


def band(results: Results, problem: str, dim: int, method: str) -> Band:
    """Mean, median, 10 % and 90 % quantile over the runs; infinite where an infinite error takes part."""
    trace = results.trace(problem, dim, method)
    return Band(trace.evaluations, _mean(trace.error), _median(trace.error), *_quantiles(trace.error))


class Comparison(NamedTuple):
    """The reference against another method on one task."""

    problem: str
    dim: int
    method: str
    decades: float  # median of log10(error of the method) - log10(error of the reference): positive, reference better
    p: float  # paired two-sided Wilcoxon signed-rank test
    p_holm: float  # corrected for all comparisons of the group
    verdict: Verdict  # on the reference


def compare(results: Results, group: Sequence[str], level: float = 0.05) -> list[Comparison]:
    """The reference against every other method of the group, on every task.

    Run r of one method is paired with run r of the other. Errors are compared as logarithms, cut off at `FLOOR` and
    `CEILING`, so that two exact zeros are equal, and so are two failures. Differences below a billionth of a decade are
    rounding and count as zero. Zeros are left out of the test, as Wilcoxon did; if nothing is left, ``p`` is 1.

    The verdict is "better" or "worse" if the corrected p is at most ``level``, with the direction that the signed ranks
    have; it is "not significant" otherwise, and where the median points the other way than the ranks.
    """
    others = [method for method in known(results, group) if method != results.reference]
    pairs = [(*task, method) for task in results.tasks() for method in others]
    differences = [_difference(results, *pair) for pair in pairs]
    tests = [_signed_rank(difference) for difference in differences]
    corrected = holm([p for p, _ in tests]).tolist()
    found = []
    for pair, difference, (p, direction), p_holm in zip(pairs, differences, tests, corrected, strict=True):
        decades = float(np.median(difference))
        verdict: Verdict = "not significant"
        if p_holm <= level and direction * decades >= 0:
            verdict = _VERDICTS[direction]
        found.append(Comparison(*pair, decades, p, p_holm, verdict))
    return found


def _difference(results: Results, problem: str, dim: int, method: str) -> Floats:
    """How many decades the reference is ahead, run by run."""
    errors, reference = (results.final(problem, dim, name) for name in (method, results.reference))
    if errors.shape != reference.shape:
        raise ValueError(
            f"runs are compared in pairs, but on {problem} in {dim} dimensions {results.reference} has "
            f"{len(reference)} and {method} has {len(errors)}; give every method the same number of runs"
        )
    return np.round(_log(errors) - _log(reference), _DECIMALS)


def _log(error: Floats) -> Floats:
    return np.log10(np.clip(error, FLOOR, CEILING))


def _signed_rank(difference: Floats) -> tuple[float, int]:
    """Two-sided p of Wilcoxon's test, and the sign of the difference between its two rank sums."""
    # SciPy leaves out zeros too, but then may trust the normal approximation however few differences are left.
    nonzero = difference[difference != 0]
    if nonzero.size == 0:
        return 1.0, 0
    direction = np.sign(np.sign(nonzero) @ stats.rankdata(np.abs(nonzero)))
    return float(stats.wilcoxon(nonzero).pvalue), int(direction)


def holm(p: ArrayLike) -> Floats:
    """Holm's step-down correction: the chance of any false alarm among all of these tests stays below the level.

    The smallest of m values is multiplied by m, the next by m - 1, and so on; none may fall below one before it, nor
    rise above 1.
    """
    p = np.asarray(p, dtype=float)
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * np.arange(p.size, 0, -1))
    corrected = np.empty_like(p)
    corrected[order] = np.minimum(stepped, 1.0)
    return corrected


class Ranks(NamedTuple):
    """How the methods of a group rank over tasks."""

    average: dict[str, float]  # 1 is best on every task
    p: float  # Friedman test of "all methods are alike"


def average_ranks(results: Results, group: Sequence[str], dims: Sequence[int] | None = None) -> Ranks:
    """Ranks by median final error (equal below `FLOOR` and above `CEILING`), averaged over the tasks.

    Equal methods share the mean of their ranks. The Friedman test needs three methods and two tasks, with fewer ``p``
    is nan; where all methods are equal on all tasks it is 1.
    """
    medians = [
        [float(_median(results.final(*task, method))) for method in known(results, group)]
        for task in results.tasks(dims)
    ]
    table = np.clip(medians, FLOOR, CEILING)
    ranks = stats.rankdata(table, axis=1)
    tasks, methods = table.shape
    if methods < 3 or tasks < 2:
        p = np.nan
    elif (ranks == ranks[:, :1]).all():
        p = 1.0
    else:
        p = float(stats.friedmanchisquare(*table.T).pvalue)
    return Ranks(dict(zip(group, ranks.mean(axis=0).tolist(), strict=True)), p)


def wins(results: Results, group: Sequence[str]) -> dict[str, list[tuple[str, int]]]:
    """For each method the tasks on which its mean final error is the smallest of the group.

    Means below `FLOOR` are equal, and all that are equal win. Where every mean is infinite, nobody does.
    """
    won: dict[str, list[tuple[str, int]]] = {method: [] for method in known(results, group)}
    for task in results.tasks():
        means = {method: max(float(_mean(results.final(*task, method))), FLOOR) for method in group}
        smallest = min(means.values())
        for method, mean in means.items():
            if mean == smallest < np.inf:
                won[method].append(task)
    return won


def runtimes(results: Results, problem: str, dim: int, method: str, targets: ArrayLike = TARGETS) -> Floats:
    """Evaluations until the error is at most each target, ``(runs, len(targets))``; inf where it never is."""
    trace = results.trace(problem, dim, method)
    when = np.append(trace.evaluations, np.inf)
    # A run's error never rises: what it has reached is the tail of the trace.
    missed = [trace.error.shape[1] - np.searchsorted(run[::-1], targets, side="right") for run in trace.error]
    return when[np.stack(missed)]


class Success(NamedTuple):
    """How surely and how fast one cell reaches a target."""

    rate: float  # share of the runs
    ert: float  # expected running time in evaluations


def success(results: Results, problem: str, dim: int, method: str, target: float) -> Success:
    """Share of runs that reach the target, and the expected evaluations until one does if runs are repeated.

    That is the evaluations of all runs, unsuccessful ones with their whole budget, over the number of successes; inf
    without any.
    """
    needed = runtimes(results, problem, dim, method, [target])[:, 0]
    budget = results.trace(problem, dim, method).evaluations[-1]
    successes = int(np.isfinite(needed).sum())
    ert = float(np.minimum(needed, budget).sum()) / successes if successes else np.inf
    return Success(successes / len(needed), ert)


class Ecdf(NamedTuple):
    """A step function, continuous from the right: zero before the first of ``evaluations``, constant after the last."""

    evaluations: Floats  # per unknown, strictly increasing
    share: Floats


def ecdf(
    results: Results,
    method: str,
    dims: Sequence[int] | None = None,
    problems: Sequence[str] | None = None,
    targets: ArrayLike = TARGETS,
) -> Ecdf:
    """Share of all (run, target) pairs that a method has solved after so many evaluations per unknown.

    A pair that a run does not solve counts as unsolved up to the largest budget of all tasks, also where its own budget
    was smaller: nothing is extrapolated, and the last value is the share of all pairs that were solved.
    """
    tasks = [(problem, dim) for problem, dim in results.tasks(dims) if problems is None or problem in problems]
    needed = np.concatenate([runtimes(results, *task, method, targets).ravel() / task[1] for task in tasks])
    end = max(results.trace(*task, method).evaluations[-1] / task[1] for task in tasks)
    solved = np.isfinite(needed)
    unsolved = np.full(np.count_nonzero(~solved), end)
    cdf = stats.ecdf(stats.CensoredData(uncensored=needed[solved], right=unsolved)).cdf
    return Ecdf(cdf.quantiles, cdf.probabilities)


def known(results: Results, group: Sequence[str]) -> Sequence[str]:
    """The same methods, if the study has them all; an error that names the first that it has not otherwise."""
    unknown = [method for method in group if method not in results.methods]
    if unknown:
        raise ValueError(
            f"unknown method {unknown[0]!r} in the group; a group is a sequence of names out of {list(results.methods)}"
        )
    return group


@np.errstate(over="ignore")
def _mean(error: Floats) -> Floats:
    return np.mean(error, axis=0)


@np.errstate(over="ignore")
def _median(error: Floats) -> Floats:
    return np.median(error, axis=0)


def _quantiles(error: Floats) -> Floats:
    """10 % and 90 % quantile over the runs, linear between neighbours."""
    return _uncapped(np.quantile(np.minimum(error, _STAND_IN), [0.1, 0.9], axis=0))


def _uncapped(value: Floats) -> Floats:
    return np.where(value > _INFINITE, np.inf, value)
