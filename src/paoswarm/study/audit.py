"""The centre-bias audit, which tests whether a method profits from an optimum at the centre of the box.

Many test functions have their optimum there. On these, a method that drifts to the centre looks better than it is. The
audit runs the method on such functions, and on copies whose optimum is elsewhere in the same box.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from paoswarm import Method
from paoswarm.problems import get
from paoswarm.study.adapters import Adapter
from paoswarm.study.results import Floats
from paoswarm.study.study import Study, trace_of

PROBLEMS = ("sphere", "rastrigin", "ackley", "griewank")
SHIFTS = 3
LEAST_RUNS = 10
LEVEL = 0.01  # significance level: one unbiased method in a hundred is flagged
FACTOR = 2.0  # smaller advantages come from the box, not from the method


class Advantage(NamedTuple):
    """The advantage of an optimum at the centre, on one function."""

    problem: str
    factor: float  # median error with the optimum elsewhere / median error with the optimum at the centre
    share: float  # share of all pairs of runs in which the centred one is better; one half without bias
    p_holm: float  # one-sided Mann-Whitney test, with Holm's correction over the functions


class CentreBias(NamedTuple):
    """The verdict of `centre_bias`; ``print`` it."""

    method: str
    profits: bool
    advantages: tuple[Advantage, ...]

    def __str__(self) -> str:
        verdict = f"{self.method} PROFITS" if self.profits else f"No evidence that {self.method} profits"
        lines = (
            f"  {one.problem:<12} error grows by a factor of {one.factor:.3g} when the optimum is moved; the "
            f"centred run is better in {one.share:.0%} of pairs (p = {one.p_holm:.2g})"
            for one in self.advantages
        )
        return "\n".join([f"{verdict} from an optimum at the centre.", *lines])


def audit_study(
    methods: Mapping[str, Method | Adapter],
    options: Mapping[str, Any],
    dim: int = 8,
    problems: Sequence[str] = PROBLEMS,
) -> Study:
    """Return the study that an audit needs: each function as it is, and with its optimum in three other places."""
    names = [name for base in problems for name in (base, *_moved(base))]
    own: dict[str, Any] = {"problems": names, "methods": methods, "dims": [dim], "runs": 30, "title": "Centre bias"}
    return Study(**{**own, **options})


def centre_bias(
    method: Method | Adapter, *, dim: int = 8, problems: Sequence[str] = PROBLEMS, **options: Any
) -> CentreBias:
    """Test whether a method profits from an optimum at the centre of the box.

    Parameters
    ----------
    method : Method or adapter
    dim : int
    problems : sequence of str
        Names of functions with their optimum at the centre.
    **options
        Fields of `Study`, such as ``runs`` (30), ``population`` (100), ``generations`` (100) and ``seed`` (1).

    Returns
    -------
    CentreBias
        ``profits`` is true if, on some function, the centre makes the error at least twice as small and the difference
        is significant. One unbiased method in a hundred is flagged by chance.

    Examples
    --------
    >>> import paoswarm as ps
    >>> ps.study.centre_bias(ps.PAO(), problems=["sphere", "ackley"]).profits
    False
    """
    names = _checked(problems, dim, options)
    study = audit_study({"method": method}, options, dim, names)
    errors = {cell.key: trace_of(cell.run()).final for cell in study.cells()}
    return judge(errors, "method", getattr(method, "__name__", type(method).__name__), names)


def centre_biases(
    methods: Mapping[str, Method | Adapter],
    folder: str | os.PathLike[str],
    *,
    dim: int = 8,
    problems: Sequence[str] = PROBLEMS,
    workers: Any = 1,
    progress: bool = False,
    **options: Any,
) -> list[CentreBias]:
    """Test several methods, given by name, as `centre_bias` does; runs are kept in a folder, as by `Study.run`."""
    names = _checked(problems, dim, options)
    results = audit_study(methods, options, dim, names).run(folder, workers=workers, progress=progress)
    errors = {key: trace.final for key, trace in results.traces.items()}
    return [judge(errors, name, name, names) for name in methods]


def _checked(problems: Sequence[str], dim: int, options: Mapping[str, Any]) -> list[str]:
    """Return the full names of problems; raise if an optimum is not at the centre, or if there are too few runs."""
    made = [get(name, dim) for name in problems]
    for problem in made:
        if not np.allclose(problem.optimum, (problem.lower + problem.upper) / 2, rtol=0, atol=1e-9):
            raise ValueError(f"problems: the optimum of {problem.name} is not at the centre; choose another problem")
    if (runs := options.get("runs", LEAST_RUNS)) < LEAST_RUNS:
        raise ValueError(
            f"runs must be at least {LEAST_RUNS} for an audit, got {runs}; with fewer, chance cannot be ruled out"
        )
    return [problem.name for problem in made]


def judge(errors: Any, method: str, title: str, problems: Sequence[str] = PROBLEMS) -> CentreBias:
    """Return the verdict on a method from the final errors by `Key`."""
    from scipy.stats import mannwhitneyu

    from paoswarm.study.statistics import FLOOR, holm

    def logs(name: str) -> Floats:
        (found,) = (error for key, error in errors.items() if (key.problem, key.method) == (name, method))
        return np.log10(np.maximum(found, FLOOR))

    rows = []
    for base in problems:
        centred = logs(base)
        moved = np.concatenate([logs(name) for name in _moved(base)])
        test = mannwhitneyu(centred, moved, alternative="less")
        share = 1.0 - float(test.statistic) / (len(centred) * len(moved))
        rows.append((base, 10 ** float(np.median(moved) - np.median(centred)), share, float(test.pvalue)))
    corrected = holm([row[-1] for row in rows])
    advantages = tuple(Advantage(*row[:3], float(p)) for row, p in zip(rows, corrected, strict=True))
    profits = any(one.p_holm < LEVEL and one.factor >= FACTOR for one in advantages)
    return CentreBias(title, profits, advantages)


def _moved(problem: str) -> list[str]:
    """Return the names of the copies of a function whose optimum is elsewhere."""
    return [f"{problem}-shifted{seed}" for seed in range(1, SHIFTS + 1)]
