"""The centre-bias audit: whether a method profits from an optimum at the centre of the box.

Many test functions have theirs there, and a method that drifts to the centre looks better on them than it is. The audit
runs the method on such functions as they are and with the optimum moved elsewhere in the same box.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from paoswarm.algorithms.method import Method
from paoswarm.core.arrays import Floats
from paoswarm.problems import get
from paoswarm.study.adapters import Adapter
from paoswarm.study.results import Key
from paoswarm.study.study import Study, trace_of

PROBLEMS = ("sphere", "rastrigin", "ackley", "griewank")
SHIFTS = 3
LEAST_RUNS = 10
LEVEL = 0.01  # of the tests, so that one honest method in a hundred is accused
FACTOR = 2.0  # what the centre must be worth to count: smaller advantages are the box's, not the method's


class Advantage(NamedTuple):
    """What the centre is worth on one function."""

    problem: str
    factor: float  # median error with the optimum elsewhere / median error with the optimum at the centre
    share: float  # of pairs of runs in which the centred one is better; one half without bias
    p_holm: float  # Mann-Whitney, one-sided, corrected over the functions


class CentreBias(NamedTuple):
    """The verdict of `centre_bias`; ``print`` it."""

    method: str
    profits: bool
    advantages: tuple[Advantage, ...]

    def __str__(self) -> str:
        found = f"{self.method} PROFITS" if self.profits else f"No evidence that {self.method} profits"
        lines = [f"{found} from an optimum at the centre."]
        for one in self.advantages:
            lines.append(
                f"  {one.problem:<12} error grows by a factor {one.factor:.3g} when the optimum is moved; the centred "
                f"run is better in {one.share:.0%} of pairs (p = {one.p_holm:.2g})"
            )
        return "\n".join(lines)


def audit_study(
    methods: dict[str, Method | Adapter], options: Mapping[str, Any], dim: int = 8, problems: Sequence[str] = PROBLEMS
) -> Study:
    """The runs that an audit needs, as a study: each function centred and with its optimum in three other places."""
    names = [name for base in problems for name in (base, *_moved(base))]
    return Study(
        **{"problems": names, "methods": methods, "dims": [dim], "runs": 30, "title": "Centre bias", **options}
    )


def centre_bias(
    method: Method | Adapter, *, dim: int = 8, problems: Sequence[str] = PROBLEMS, **options: Any
) -> CentreBias:
    """Tell whether a method profits from an optimum at the centre of the box.

    Parameters
    ----------
    method : Method or adapter
    dim : int
    problems : sequence of str
        Functions with their optimum at the centre.
    **options
        Of `Study`: ``runs`` (30), ``population`` (100), ``generations`` (100), ``seed`` (1).

    Returns
    -------
    CentreBias
        ``profits`` is true where the centre makes the error at least twice as small on some function, and chance is
        ruled out: one honest method in a hundred would be accused.

    Examples
    --------
    >>> import paoswarm as ps
    >>> ps.centre_bias(ps.PAO(), problems=["sphere", "ackley"]).profits
    False
    """
    made = [get(name, dim) for name in problems]
    for problem in made:
        if not np.allclose(problem.optimum, (problem.lower + problem.upper) / 2, rtol=0, atol=1e-9):
            raise ValueError(f"problems: the optimum of {problem.name} is not at the centre, so it cannot tell")
    check_runs(options.get("runs", LEAST_RUNS))
    names = [problem.name for problem in made]
    study = audit_study({"method": method}, options, dim, names)
    errors = {cell.key: trace_of(cell.run()).final for cell in study.cells()}
    return judge(errors, "method", getattr(method, "__name__", type(method).__name__), names)


def check_runs(runs: int) -> None:
    """Raise for an audit that could not tell anything."""
    if runs < LEAST_RUNS:
        raise ValueError(f"runs must be at least {LEAST_RUNS} for an audit, got {runs}: fewer rule out nothing")


def judge(errors: Any, method: str, title: str, problems: Sequence[str] = PROBLEMS) -> CentreBias:
    """The verdict from final errors by `Key`."""
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
    """The same function with its optimum elsewhere, by name."""
    return [f"{problem}-shifted{seed}" for seed in range(1, SHIFTS + 1)]


def final_errors(results: Any) -> dict[Key, Floats]:
    """Final errors by key of a finished audit study."""
    return {key: trace.final for key, trace in results.traces.items()}
