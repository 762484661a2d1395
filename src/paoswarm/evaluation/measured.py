"""The answer of a function with constraints: a value, and what the constraints were there."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from paoswarm.core.arrays import Floats


class Measured(float):
    """A value that carries the constraints at its point; +inf if the objective was not called there.

    It is a float, so that whatever handles values can handle it. It can be sent between processes.
    """

    constr: tuple[float, ...]

    def __new__(cls, value: float, constr: tuple[float, ...]) -> Measured:
        """A value with constraints."""
        made = super().__new__(cls, value)
        made.constr = constr
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return Measured, (float(self), self.constr)


def constraints_of(answers: Iterable[Any], count: int) -> Floats:
    """The constraints ``(m, count)`` of answers; NaN where an evaluation failed."""
    nothing = (math.nan,) * count
    rows = [answer.constr if isinstance(answer, Measured) else nothing for answer in answers]
    return np.array(rows, dtype=float).reshape(len(rows), count)


def was_called(answer: Any) -> bool:
    """Whether an answer says something about the objective: not if a constraint failed before it was called."""
    return not (isinstance(answer, Measured) and answer == math.inf)


def with_constraints(values: Floats, constr: Floats | None) -> Floats:
    """Values ``(m,)``, or rows ``(m, 1 + k)`` of values and constraints if there are any."""
    return values if constr is None else np.concatenate([values[:, None], constr], axis=1)
