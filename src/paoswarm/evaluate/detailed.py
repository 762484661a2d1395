"""The answer of a function that computes more than its value: a number that carries what else is known of its point.

With constraints these are their numbers. The value is then +inf if the objective was not called there. Of a fit they
are the outputs of the model.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from paoswarm.core.arrays import Floats


class Detailed(float):
    """A value that carries more numbers of its point: constraints, outputs or residuals.

    It is a float, so that whatever handles values can handle it. It can be sent between processes.
    """

    details: Any

    def __new__(cls, value: float, details: Any) -> Detailed:
        """A value with its details."""
        made = super().__new__(cls, value)
        made.details = details
        return made

    def __getnewargs__(self) -> tuple[float, Any]:  # type: ignore[override]
        return float(self), self.details


def size_of_details(answers: Iterable[Any]) -> int:
    """How many numbers answers carry besides their value; zero if none of them says."""
    return next((len(answer.details) for answer in answers if isinstance(answer, Detailed)), 0)


def details_of(answers: Iterable[Any], count: int) -> Floats:
    """The details ``(m, count)`` of answers; NaN where an evaluation failed."""
    nothing = (math.nan,) * count
    rows = [answer.details if isinstance(answer, Detailed) else nothing for answer in answers]
    if (other := next((len(row) for row in rows if len(row) != count), None)) is not None:
        raise ValueError(f"the function returned {count} numbers at one point and {other} at another")
    return np.array(rows, dtype=float).reshape(len(rows), count)


def was_called(answer: Any) -> bool:
    """Whether an answer says something about the objective: not if a constraint failed before it was called."""
    return not (isinstance(answer, Detailed) and answer == math.inf)


def with_details(values: Floats, details: Floats | None) -> Floats:
    """Values ``(m,)``, or rows ``(m, 1 + k)`` of values and details if there are any."""
    return values if details is None else np.concatenate([values[:, None], details], axis=1)
