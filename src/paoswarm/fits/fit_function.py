"""The function of a fit: a sum of squares, a negative log likelihood, or residuals, and the unit of its rise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from paoswarm.core.arrays import Floats
from paoswarm.evaluation.calls import Answers, Objective
from paoswarm.evaluation.detailed import Detailed
from paoswarm.evaluation.evaluator import Evaluator, Numbers


class Meaning(NamedTuple):
    """What the value of the function means, which decides how far it rises one standard error from the minimum.

    A negative log likelihood rises by 1/2. A sum of squares rises by the variance of one datum; if that is not known,
    it is estimated by the smallest sum of squares, divided by the degrees of freedom.
    """

    is_likelihood: bool
    variance: float | None  # of one datum, if it is known
    degrees_of_freedom: int | None  # None if no variance is estimated

    def rise(self, value: float) -> float:
        """How far the function rises one standard error away from a minimum of this value."""
        if self.is_likelihood:
            return 0.5
        if self.variance is not None:
            return self.variance
        assert self.degrees_of_freedom is not None
        return max(value, 0.0) / self.degrees_of_freedom


class Measured(NamedTuple):
    """Values (k,) at points, and residuals (k, m) if the function returns these; NaN where a point failed."""

    values: Floats
    residuals: Floats | None


@dataclass(frozen=True)
class SquaredResiduals:
    """The sum of squares of a function that returns residuals. The residuals travel with it."""

    residuals: Objective
    takes_rows: bool

    def __call__(self, x: Floats) -> Detailed:
        """The sum of squares at one point."""
        answer = self.residuals(x[None])[0] if self.takes_rows else self.residuals(x)
        found = np.asarray(answer)
        if found.ndim != 1 or found.dtype.kind not in "fiu" or found.size == 0:
            rows = "(k, m) for k points" if self.takes_rows else "(m,) for one point"
            got = f"shape {found.shape[int(self.takes_rows) :]} and type {found.dtype}"
            raise TypeError(f"residuals must return real numbers of shape {rows}, but returned {got}")
        found = found.astype(float)
        with np.errstate(over="ignore", invalid="ignore"):
            return Detailed(float(found @ found), found)


class ResidualEvaluator(Evaluator):
    """An evaluator that keeps the residuals of its last points."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.latest: list[Floats | None] = []

    def _values(self, x: Floats, deadline: float | None, numbers: Numbers) -> Any:
        self.latest = []
        return super()._values(x, deadline, numbers)

    def _sort_out(self, answers: Answers) -> Any:
        self.latest = [answer.details if isinstance(answer, Detailed) else None for answer in answers]
        return super()._sort_out(answers)


class FitFunction:
    """Evaluates points of a fit and counts them."""

    def __init__(self, evaluate: Evaluator) -> None:
        self._evaluate = evaluate
        self.n_evaluations = self.n_failed = 0

    def __call__(self, points: Floats) -> Measured:
        """Measure at the rows of ``points``; whatever is not finite has failed."""
        values = self._evaluate(points)
        values = np.where(np.isfinite(values), values, np.nan)
        self.n_evaluations += len(values)
        self.n_failed += int(np.isnan(values).sum())
        if not isinstance(self._evaluate, ResidualEvaluator):
            return Measured(values, None)
        return Measured(values, _stacked(self._evaluate.latest, values))

    def explain_failure(self, what: str) -> ValueError:
        """The error for points that failed where none may fail."""
        return ValueError(f"{what}; {self._evaluate.first_failure()}")


def _stacked(rows: list[Floats | None], values: Floats) -> Floats:
    sizes = sorted({len(row) for row in rows if row is not None})
    if len(sizes) > 1:
        raise ValueError(
            f"residuals must always return the same number of them, but returned {sizes[0]} and {sizes[1]}"
        )
    nothing = np.full(sizes[0] if sizes else 0, np.nan)
    is_known = np.isfinite(values)
    return np.array([row if ok and row is not None else nothing for row, ok in zip(rows, is_known, strict=True)])
