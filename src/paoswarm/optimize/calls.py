"""Calls of the user's function, here or in worker processes: what it answers, and what failed."""

from __future__ import annotations

import multiprocessing
import pickle
import signal
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from paoswarm.core.walled import Floats
from paoswarm.optimize.problem import has_nan

Objective = Callable[..., Any]


class Failed(NamedTuple):
    """Stands in for a value; crosses process boundaries."""

    reason: str
    wrong_form: bool = False
    raised: bool = False
    error: BaseException | None = None


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
            failed[i] = answer if isinstance(answer, Failed) else Failed("returned NaN")
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
        return Failed(f"raised {type(error).__name__}: {error}", raised=True, error=error)
    if isinstance(answer, float):  # includes numpy.float64
        return float(answer)
    try:
        number = np.asarray(answer)
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
            return [Failed(f"raised {type(error).__name__}: {error}", raised=True, error=error)]
        # One bad point must not cost the others: find it by asking one at a time.
        return [answer for row in x for answer in call_vectorized(fun, row[None])]
    try:
        values = np.asarray(answer)
    except Exception:
        values = np.asarray(None)
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


def _describe(answer: Any) -> str:
    if isinstance(answer, np.ndarray):
        return f"an array of shape {answer.shape} and type {answer.dtype}"
    text = repr(answer)
    return f"{text if len(text) < 80 else text[:77] + '...'} ({type(answer).__name__})"


class Row(NamedTuple):
    """Evaluates one row; what a map-like ``workers`` is given."""

    fun: Objective
    vectorized: bool

    def evaluate(self, row: Floats) -> float | Failed:
        """The value at a row."""
        if not self.vectorized:
            return _portable([_call_one(self.fun, row)])[0]
        return _portable(list(call_vectorized(self.fun, row[None])))[0]


def _portable(answers: list[float | Failed]) -> list[float | Failed]:
    """Exceptions stay behind: not all of them survive the journey between processes."""
    return [a._replace(error=None) if isinstance(a, Failed) else float(a) for a in answers]


_worker: tuple[Objective, bool] | None = None  # the function, sent once to each worker process


def _install(fun: Objective, vectorized: bool) -> None:
    global _worker
    _worker = (fun, vectorized)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interrupt means


def call_in_worker(x: Floats) -> list[float | Failed]:
    """Answers for some points, in a worker process."""
    assert _worker is not None
    fun, vectorized = _worker
    return _portable(list(call_vectorized(fun, x) if vectorized else call_rows(fun, x, None)[0]))


def open_pool(count: int, fun: Objective, vectorized: bool) -> Any:
    """Worker processes that have been sent the function."""
    context = multiprocessing.get_context()
    if context.get_start_method() != "fork":
        try:
            pickle.dumps(fun)
        except Exception as error:
            raise TypeError(
                f"fun cannot be sent to worker processes ({error}); define it at the top level of a module, "
                "or pass workers=1 or a map-like that can send it"
            ) from error
    return ProcessPoolExecutor(count, mp_context=context, initializer=_install, initargs=(fun, vectorized))
