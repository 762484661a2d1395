"""The user's objective with its constraints as one function, which can be sent to workers like any other.

Constraints that are functions of the point come first. Where an inequality fails, the objective is not called.
Equalities can only be approached from outside: nearly no point satisfies them, so the objective is called there, too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from paoswarm._checks import counted
from paoswarm._text import describe_error
from paoswarm.core.arrays import Floats
from paoswarm.evaluate.calls import (
    CONSTRAINT,
    Detailed,
    Failed,
    Objective,
    advice_on,
    as_numbers,
    describe_answer,
    one_number_expected,
    to_fingerprint,
)
from paoswarm.evaluate.constraints import ConstraintSet, WrongForm


@dataclass(frozen=True, eq=False)
class ConstrainedFunction:
    """Answers with a `Detailed` value, or with why a point failed; a list of these if ``vectorized``."""

    fun: Objective
    constraints: ConstraintSet
    vectorized: bool

    def __call__(self, x: Any) -> Any:
        """The answer at one point, or at the rows of points."""
        return self._rows(x) if self.vectorized else self._one(x)

    def to_fingerprint(self) -> Any:
        """The objective and the functions of its constraints, as a function that uses them all."""
        return partial(to_fingerprint(self.fun), *(part.fun for part in self.constraints.parts if part.fun is not None))

    def _one(self, x: Any) -> Detailed | Failed:
        numbers = self._numbers(x, None)
        if isinstance(numbers, Failed):
            return numbers
        if self._fails(numbers):
            return Detailed(math.inf, tuple(numbers.tolist()))
        n, which = self.constraints.n_returned, self.constraints.is_returned
        given = self.fun(x)
        answer, more = _parted(given, (n,))
        if more is None:
            said = f"fun must return (value, numbers) with the {counted(n, 'number')} of ps.Returned({n}), but returned"
            return Failed(f"{said} {describe_answer(given)}", wrong_form=True)
        if np.isnan(more).any():
            return self._is_nan(which, more)
        numbers[which] = more
        value = as_numbers(answer)
        if value.size != 1 or value.dtype.kind not in "fiub":
            return one_number_expected(answer)
        return Detailed(float(value.reshape(())[()]), tuple(numbers.tolist()))

    def _rows(self, x: Any) -> list[Detailed | Failed]:
        m = len(next(iter(x.values())) if isinstance(x, dict) else x)
        numbers = self._numbers(x, m)
        if isinstance(numbers, Failed):
            return [numbers] * m
        is_known: Any = ~np.isnan(np.where(self.constraints.is_returned, 0.0, numbers)).any(axis=1)
        called = is_known & ~self._fails(numbers)
        values, wrong = np.full(m, math.inf), None
        if called.any():
            some = {name: column[called] for name, column in x.items()} if isinstance(x, dict) else x[called]
            values[called], wrong = self._call_rows(some, int(called.sum()), numbers, called)
        answers: list[Detailed | Failed] = []
        for row in range(m):
            if not is_known[row]:
                answers.append(self._is_nan(~self.constraints.is_returned, numbers[row][~self.constraints.is_returned]))
            elif called[row] and wrong is not None:
                answers.append(wrong)
            elif called[row] and np.isnan(numbers[row]).any():
                answers.append(self._is_nan(np.ones(self.constraints.count, dtype=bool), numbers[row]))
            else:
                answers.append(Detailed(float(values[row]), tuple(numbers[row].tolist())))
        return answers

    def _call_rows(self, x: Any, m: int, numbers: Floats, called: Any) -> tuple[Floats, Failed | None]:
        """Values at the rows where the objective is called, and what is wrong with their form."""
        n, nothing = self.constraints.n_returned, np.full(m, math.nan)
        given = self.fun(x)
        answer, more = _parted(given, (m, n))
        if more is None:
            reason = f"with vectorized=True fun must return (values, numbers) of shapes ({m},) and ({m}, {n}), "
            return nothing, Failed(f"{reason}but returned {describe_answer(given)}", wrong_form=True)
        numbers[np.ix_(called, self.constraints.is_returned)] = more
        values = as_numbers(answer)
        values = values.reshape(1) if values.ndim == 0 and m == 1 else values
        if values.shape != (m,) or values.dtype.kind not in "fiub":
            reason = f"with vectorized=True fun takes {counted(m, 'point')}, one per row, and must return real numbers "
            said = f"{reason}of shape ({m},), but returned {describe_answer(answer)}{advice_on(answer)}"
            return nothing, Failed(said, wrong_form=True)
        return values.astype(float), None

    def _numbers(self, x: Any, m: int | None) -> Floats | Failed:
        """The numbers of constraints that are functions of the point; NaN for those that the objective returns."""
        shape = (self.constraints.count,) if m is None else (m, self.constraints.count)
        numbers, first = np.full(shape, math.nan), 0
        for part in self.constraints.parts:
            k = len(part.lb)
            if part.fun is not None:
                try:
                    numbers[..., first : first + k] = part.numbers(x, m)
                except WrongForm as error:
                    return Failed(str(error), wrong_form=True)
                except Exception as error:
                    if m is not None and m > 1:
                        raise  # one bad point must not cost the others: they are then called one at a time
                    return Failed(f"{CONSTRAINT}: {part.label} raised {describe_error(error)}", error=error)
            first += k
        if m is None and np.isnan(numbers[~self.constraints.is_returned]).any():
            return self._is_nan(~self.constraints.is_returned, numbers[~self.constraints.is_returned])
        return numbers

    def _fails(self, numbers: Floats) -> Any:
        return (self.constraints.violations(numbers) > 0)[..., ~self.constraints.is_equality].any(axis=-1)

    def _is_nan(self, which: Any, numbers: Floats) -> Failed:
        label = np.array(self.constraints.labels)[which][int(np.argmax(np.isnan(numbers)))]
        return Failed(f"{CONSTRAINT}: {label} returned NaN")


def _parted(given: Any, shape: tuple[int, ...]) -> tuple[Any, Floats | None]:
    """The values in an answer and the numbers that come with them; None if these have another shape."""
    if shape[-1] == 0:
        return given, np.empty(shape)
    try:
        answer, returned = given
        more = as_numbers(returned).astype(float).reshape(*shape[:-1], -1)
    except Exception:
        return given, None
    return answer, more if more.shape == shape else None
