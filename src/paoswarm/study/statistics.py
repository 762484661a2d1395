"""Statistics of a study: summaries with intervals, paired comparisons, ranks, and running times.

SciPy computes them. This module chooses the tests, and handles the cases that they do not cover. Errors may be zero, or
infinite if a run never saw a finite value; no function warns about either.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from paoswarm.study.results import Floats, Results, Task

FLOOR = 1e-50  # errors below it count as equal: they are zero for every practical purpose
CEILING = 1e50  # errors above it, infinite ones included, count as equal: the run has failed
TARGETS: Floats = np.logspace(2, -8, 51)  # the target errors of COCO, from easy to hard

Verdict = Literal["better", "worse", "not significant"]
_VERDICTS: dict[int, Verdict] = {1: "better", -1: "worse", 0: "not significant"}

_RESAMPLES = 1999  # 160 cells of 100 runs take about a second
_DECIMALS = 9  # of a decade; smaller differences are rounding, for example in the same local minimum
_STAND_IN = 1e300  # replaces infinity before subtractions, because inf - inf is NaN
_INFINITE = 1e250  # averages that contain the stand-in are above it, all meaningful errors below


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
    """Return location and spread of the final errors of one cell.

    Intervals are 95 % bootstrap intervals with a fixed seed. They are BCa intervals, or percentile intervals where BCa
    is undefined, for example with many equal or infinite errors. If all errors are equal, both ends are that value. A
    mean or quantile that includes an infinite error is infinite. The lower end of its interval may still be finite,
    because some resamples do not contain the failed runs.
    """
    final = results.final(problem, dim, method)
    low, high = _quantiles(final).tolist()
    return Summary(
        float(_mean(final)),
        float(_median(final)),
        low,
        high,
        float(final.min()),
        float(final.max()),
        *_intervals(final),
    )


def _intervals(sample: Floats) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return 95 % bootstrap intervals of mean and median, from the same resamples."""
    first = float(sample[0])
    if (sample == first).all():
        return (first, first), (first, first)
    finite = bool(np.isfinite(sample).all())
    scale = float(sample.max()) if finite else 1.0  # BCa takes third powers, which must not overflow or underflow
    data = (np.minimum(sample, _STAND_IN) / scale,)
    options: dict[str, Any] = {"statistic": _centres, "vectorized": True, "rng": 1}
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore", stats.DegenerateDataWarning)
        plain = stats.bootstrap(data, n_resamples=_RESAMPLES, method="percentile", **options)
        ends = np.stack(plain.confidence_interval, axis=-1)
        if finite:  # the stand-in for infinity would distort the correction
            bca = stats.bootstrap(data, n_resamples=0, method="BCa", bootstrap_result=plain, **options)
            corrected = np.stack(bca.confidence_interval, axis=-1)
            ends = np.where(np.isnan(corrected), ends, corrected)
    (mean_low, mean_high), (median_low, median_high) = _uncapped(ends * scale).tolist()
    return (mean_low, mean_high), (median_low, median_high)


def _centres(sample: Floats, axis: int) -> Floats:
    return np.stack([np.mean(sample, axis=axis), np.median(sample, axis=axis)])


class Band(NamedTuple):
    """Statistics of the error of one cell against evaluations, each an array ``(g,)``."""

    evaluations: NDArray[np.int64]
    mean: Floats
    median: Floats
    low: Floats  # 10 % quantile
    high: Floats  # 90 % quantile


def band(results: Results, problem: str, dim: int, method: str) -> Band:
    """Return mean, median, 10 % and 90 % quantile over the runs; infinite where they include an infinite error."""
    trace = results.trace(problem, dim, method)
    return Band(trace.evaluations, _mean(trace.error), _median(trace.error), *_quantiles(trace.error))


class Comparison(NamedTuple):
    """The reference against another method on one task."""

    problem: str
    dim: int
    method: str
    decades: float  # median of log10(error of the method / error of the reference); positive: reference better
    p: float  # paired two-sided Wilcoxon signed-rank test
    p_holm: float  # corrected for all comparisons of the group
    verdict: Verdict  # of the reference

    @property
    def task(self) -> Task:
        """Problem and dimension."""
        return self.problem, self.dim


def compare(results: Results, group: Sequence[str], level: float = 0.05) -> list[Comparison]:
    """Compare the reference with every other method of the group, on every task.

    Run r of one method is paired with run r of the other, as far as both have it. Errors are compared as logarithms,
    clipped to `FLOOR` and `CEILING`: two exact zeros are equal, and so are two failures. Differences below a billionth
    of a decade are rounding and count as zero. Zeros are left out of the test, as Wilcoxon did. If nothing is left,
    ``p`` is 1.

    The verdict is "better" or "worse", by the sign of the rank sums, if the corrected p is at most ``level``.
    Otherwise, or if the median has the opposite sign, it is "not significant".
    """
    others = [method for method in known(results, group) if method != results.reference]
    pairs = [(*task, method) for task in results.tasks() for method in others]
    differences = [_difference(results, *pair) for pair in pairs]
    tests = [_signed_rank(difference) for difference in differences]
    corrected = holm([p for p, _ in tests]).tolist()
    found = []
    for pair, difference, (p, direction), p_holm in zip(pairs, differences, tests, corrected, strict=True):
        decades = float(np.median(difference))
        is_clear = p_holm <= level and direction * decades >= 0
        found.append(Comparison(*pair, decades, p, p_holm, _VERDICTS[direction if is_clear else 0]))
    return found


def _difference(results: Results, problem: str, dim: int, method: str) -> Floats:
    """Return by how many decades the reference is ahead in each run."""
    errors, reference = (results.final(problem, dim, name) for name in (method, results.reference))
    pairs = min(len(errors), len(reference))
    return np.round(_log(errors[:pairs]) - _log(reference[:pairs]), _DECIMALS)


def _log(error: Floats) -> Floats:
    return np.log10(np.clip(error, FLOOR, CEILING))


def _signed_rank(difference: Floats) -> tuple[float, int]:
    """Return the two-sided p of Wilcoxon's test, and the sign of the difference between its rank sums."""
    # SciPy drops zeros too, but may then use the normal approximation with very few differences.
    nonzero = difference[difference != 0]
    if nonzero.size == 0:
        return 1.0, 0
    direction = np.sign(np.sign(nonzero) @ stats.rankdata(np.abs(nonzero)))
    return float(stats.wilcoxon(nonzero).pvalue), int(direction)


def holm(p: ArrayLike) -> Floats:
    """Return p-values with Holm's step-down correction, which bounds the chance of any false positive.

    The smallest of m values is multiplied by m, the next by m - 1, and so on. The results never decrease in this order,
    and are at most 1.
    """
    p = np.asarray(p, dtype=float)
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * np.arange(p.size, 0, -1))
    corrected = np.empty_like(p)
    corrected[order] = np.minimum(stepped, 1.0)
    return corrected


class Ranks(NamedTuple):
    """Average ranks of the methods of a group."""

    average: dict[str, float]  # 1: best on every task
    p: float  # Friedman test of the hypothesis that the methods do not differ


def average_ranks(results: Results, group: Sequence[str], dims: Sequence[int] | None = None) -> Ranks:
    """Return ranks by median final error, averaged over the tasks.

    Errors below `FLOOR` count as equal, and so do errors above `CEILING`. Equal methods share the mean of their ranks.
    The Friedman test needs three methods and two tasks; with fewer, ``p`` is NaN. If all methods are equal on all
    tasks, it is 1.
    """
    group = known(results, group)
    medians = [[_median(results.final(*task, method)) for method in group] for task in results.tasks(dims)]
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


def wins(results: Results, group: Sequence[str]) -> dict[str, list[Task]]:
    """Return, for each method, the tasks on which its mean final error is the smallest of the group.

    Means below `FLOOR` count as equal, and all methods with the smallest mean win. If every mean is infinite, none
    wins.
    """
    won: dict[str, list[Task]] = {method: [] for method in known(results, group)}
    for task in results.tasks():
        means = {method: max(float(_mean(results.final(*task, method))), FLOOR) for method in group}
        for method, mean in means.items():
            if mean == min(means.values()) < np.inf:
                won[method].append(task)
    return won


def runtimes(results: Results, problem: str, dim: int, method: str, targets: ArrayLike = TARGETS) -> Floats:
    """Return the evaluations until the error is at most each target, ``(runs, len(targets))``; inf if never reached."""
    trace = results.trace(problem, dim, method)
    when = np.append(trace.evaluations, np.inf)
    # The error of a run never increases, so the reversed trace is sorted.
    missed = [trace.error.shape[1] - np.searchsorted(run[::-1], targets, side="right") for run in trace.error]
    return when[np.stack(missed)]


class Success(NamedTuple):
    """The success rate and the expected running time of one cell for one target."""

    rate: float  # share of the runs that reach it
    ert: float  # expected running time, in evaluations


def success(results: Results, problem: str, dim: int, method: str, target: float) -> Success:
    """Return the share of runs that reach the target, and the expected running time (ERT).

    ERT is the expected number of evaluations if runs are repeated until one reaches the target: the evaluations of all
    runs, with the whole budget for unsuccessful ones, divided by the number of successes. It is inf if there are none.
    """
    needed = runtimes(results, problem, dim, method, [target])[:, 0]
    budget = results.trace(problem, dim, method).evaluations[-1]
    successes = int(np.isfinite(needed).sum())
    ert = float(np.minimum(needed, budget).sum()) / successes if successes else np.inf
    return Success(successes / len(needed), ert)


class Ecdf(NamedTuple):
    """A right-continuous step function: zero before the first of ``evaluations``, constant after the last."""

    evaluations: Floats  # per unknown, strictly increasing
    share: Floats


def ecdf(
    results: Results,
    method: str,
    dims: Sequence[int] | None = None,
    problems: Sequence[str] | None = None,
    targets: ArrayLike = TARGETS,
) -> Ecdf:
    """Return the share of all (run, target) pairs that a method has solved, against evaluations per unknown.

    A pair that a run does not solve counts as unsolved up to the largest budget of all tasks, even if the budget of its
    own task was smaller. Nothing is extrapolated: the last value is the share of pairs that were solved.
    """
    tasks = [(problem, dim) for problem, dim in results.tasks(dims) if problems is None or problem in problems]
    needed = np.concatenate([runtimes(results, *task, method, targets).ravel() / task[1] for task in tasks])
    end = max(results.trace(*task, method).evaluations[-1] / task[1] for task in tasks)
    solved = np.isfinite(needed)
    unsolved = np.full(np.count_nonzero(~solved), end)
    cdf = stats.ecdf(stats.CensoredData(uncensored=needed[solved], right=unsolved)).cdf
    return Ecdf(cdf.quantiles, cdf.probabilities)


def known(results: Results, group: Sequence[str]) -> Sequence[str]:
    """Return the same methods; raise if the study does not have one of them."""
    unknown = [method for method in group if method not in results.methods]
    if unknown:
        raise ValueError(
            f"this study has no method {unknown[0]!r}; choose a list of names from {list(results.methods)}"
        )
    return group


@np.errstate(over="ignore")
def _mean(error: Floats) -> Floats:
    # By rounding, the mean of equal numbers may differ from them, and solved problems would no longer be ties.
    return np.clip(np.mean(error, axis=0), np.min(error, axis=0), np.max(error, axis=0))


@np.errstate(over="ignore")
def _median(error: Floats) -> Floats:
    return np.median(error, axis=0)


def _quantiles(error: Floats) -> Floats:
    """Return the 10 % and 90 % quantiles over the runs, with linear interpolation."""
    return _uncapped(np.quantile(np.minimum(error, _STAND_IN), [0.1, 0.9], axis=0))


def _uncapped(value: Floats) -> Floats:
    return np.where(value > _INFINITE, np.inf, value)
