"""Calls of the user's function: what it answers, and what failed."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from paoswarm.checks import has_nan, unmasked
from paoswarm.core.arrays import Floats

Objective = Callable[..., Any]

# How an evaluation fails, as the first words of the reason: so a recorded reason tells its kind.
RAISED, NAN, TIMED_OUT, DIED = "raised", "returned NaN", "timed out", "died"
NO_NUMBER = "no number"  # any other reason


class Failed(NamedTuple):
    """Stands in for a value; crosses process boundaries."""

    reason: str
    wrong_form: bool = False
    error: BaseException | None = None

    @property
    def kind(self) -> str:
        """What happened, in a word or two."""
        return next((kind for kind in (RAISED, NAN, TIMED_OUT, DIED) if self.reason.startswith(kind)), NO_NUMBER)


Answers = list[float | Failed] | Floats


def sort_out(answers: Answers) -> tuple[Floats, dict[int, Failed]]:
    """Values, NaN where a point failed, and how."""
    failed: dict[int, Failed] = {}
    if isinstance(answers, np.ndarray):
        values: Floats = answers
    else:
        values = np.array([np.nan if isinstance(a, Failed) else a for a in answers], dtype=float)
    if has_nan(values):
        for i in np.flatnonzero(np.isnan(values)).tolist():
            answer = answers[i]
            failed[i] = answer if isinstance(answer, Failed) else Failed(NAN)
    return values, failed


def call_rows(
    fun: Objective, x: Floats, deadline: float | None, finished: Callable[[int, Answers], None] | None = None
) -> tuple[list[float | Failed], bool]:
    """Answers for one point after another, as many as time allows, and whether an interrupt came."""
    answers: list[float | Failed] = []
    try:
        for row in x.copy():
            if deadline is not None and answers and time.monotonic() >= deadline:
                break
            answers.append(_call_one(fun, row))
            if finished is not None:
                finished(len(answers) - 1, answers[-1:])
    except KeyboardInterrupt:
        return answers, True
    return answers, False


def _call_one(fun: Objective, row: Floats) -> float | Failed:
    try:
        answer = fun(row)
    except Exception as error:
        return _raised(error)
    if isinstance(answer, float):  # includes numpy.float64
        return float(answer)
    try:
        number = np.asarray(unmasked(answer))
    except Exception:
        number = np.asarray(None)
    if number.size == 1 and number.dtype.kind in "fiub":  # not an int too large for a float
        return float(number.reshape(())[()])
    return Failed(f"fun must return one real number for a point, but returned {_describe(answer)}", wrong_form=True)


def call_vectorized(fun: Objective, x: Floats) -> Floats | list[float | Failed]:
    """Answers for all points in one call."""
    try:
        answer = fun(x.copy())
    except Exception as error:
        if len(x) == 1:
            return [_raised(error)]
        # One bad point must not cost the others: find it by asking one at a time.
        return [answer for row in x for answer in call_vectorized(fun, row[None])]
    try:
        values = np.asarray(unmasked(answer))
    except Exception:
        values = np.asarray(None)
    if values.ndim == 0 and len(x) == 1:  # what SciPy's multivariate densities make of a single row
        values = values.reshape(1)
    if values.shape == (len(x),) and values.dtype.kind in "fiub":
        return values.astype(float)  # a copy: the function may use its buffer again
    m, d = x.shape
    reason = f"with vectorized=True fun takes points of shape ({m}, {d}) and must return {m} real numbers, "
    reason += f"shape ({m},), but returned {_describe(answer)}"
    if values.shape[:1] == (d,):
        reason += f"; is it written for shape ({d}, {m}), one point per column? Rows are points here: use x.T inside"
    elif values.ndim == 0 and values.dtype.kind in "fiub":
        reason += "; is it written for a single point? Then leave out vectorized=True"
    return [Failed(reason, wrong_form=True)] * len(x)


def call_portably(fun: Objective, x: Floats, vectorized: bool) -> list[float | Failed]:
    """Answers that can be sent to another process: exceptions stay behind, since not all survive the journey."""

    def stays(points: Floats) -> Any:
        try:
            return fun(points)
        except SystemExit as wish:  # to end a worker would be no help
            raise RuntimeError(f"fun called sys.exit({wish.code!r})") from wish

    answers, interrupted = (call_vectorized(stays, x), False) if vectorized else call_rows(stays, x, None)
    if interrupted:
        raise KeyboardInterrupt
    return [a._replace(error=None) if isinstance(a, Failed) else float(a) for a in answers]


class Row(NamedTuple):
    """Evaluates one row; what a map-like ``workers`` is given."""

    fun: Objective
    vectorized: bool

    def evaluate(self, row: Floats) -> float | Failed:
        """The value at a row."""
        return call_portably(self.fun, row[None], self.vectorized)[0]


def _raised(error: BaseException) -> Failed:
    return Failed(f"{RAISED} {type(error).__name__}: {error}", error=error)


def _describe(answer: Any) -> str:
    if isinstance(answer, np.ndarray):
        return f"an array of shape {answer.shape} and type {answer.dtype}"
    text = repr(answer)
    return f"{text if len(text) < 80 else text[:77] + '...'} ({type(answer).__name__})"
