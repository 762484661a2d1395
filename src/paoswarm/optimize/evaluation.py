"""From the user's function to one callable, ``(m, d) -> (m,)``; algorithms never know what runs behind it.

The policy, for every way of calling:

- the function gets a copy of the points, so it may overwrite its argument;
- a point where it raises, or returns NaN or anything that is not one real number, has *failed*: its value is NaN here,
  +inf for the swarm, it is counted, and the run goes on;
- but an answer of the wrong form on the very first call is an error at once, before work is lost.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import pickle
import signal
import time
import warnings
from collections.abc import Callable, Iterable
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor, as_completed
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np

from paoswarm.core.walled import Floats
from paoswarm.optimize.problem import has_nan, whole_number

Objective = Callable[..., Any]

_REMEMBERED = 10  # failures kept with their message


class WorkerDied(RuntimeError):
    """A worker process is gone, and with it the pool."""


class Failure(NamedTuple):
    """A point whose evaluation failed, and why."""

    x: Floats
    reason: str


class Failed(NamedTuple):
    """Stands in for a value; crosses process boundaries."""

    reason: str
    wrong_form: bool = False
    raised: bool = False
    error: BaseException | None = None


Answers = list[float | Failed] | Floats


class Evaluator:
    """Evaluate points with the user's function; a context manager, since it may own worker processes.

    Attributes
    ----------
    replayed : bool
        Whether the latest values were all known from an earlier run; never so here, see `paoswarm.optimize.recorded`.
    """

    replayed = False

    def __init__(self, fun: Objective, *, vectorized: bool = False, workers: Any = 1) -> None:
        if not callable(fun):
            raise TypeError(f"fun must be callable, got {fun!r}")
        self.failures: list[Failure] = []
        self.n_raised = 0
        self._first_raised: Failure | None = None
        self._fun = fun
        self._vectorized = vectorized
        self._called = False
        self._checked = False  # whether the form of the answers is known to be right
        self._pool: Any = None
        self._map: Callable[[Callable[..., Any], Iterable[Any]], Iterable[Any]] | None = None
        self._processes = 1
        self._cause: BaseException | None = None
        if callable(workers):
            self._map = workers
        else:
            count = os.cpu_count() or 1 if workers == -1 else whole_number("workers", workers, 1)
            self._processes = count
            if count > 1:
                self._pool = _open_pool(count, fun, vectorized)

    @property
    def is_parallel(self) -> bool:
        """Whether points are sent elsewhere, so that large batches are worth while."""
        return self._pool is not None or self._map is not None

    def __enter__(self) -> Evaluator:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pool is not None:
            processes = list((self._pool._processes or {}).values())
            self._pool.shutdown(wait=False, cancel_futures=True)
            for process in processes:  # an interrupt does not wait for evaluations that may take hours
                process.terminate()

    def __call__(self, x: Floats) -> Floats:
        """Values at the rows of ``x``; NaN where a point failed."""
        values, interrupted = self.until(None, x)
        if interrupted:
            raise KeyboardInterrupt
        return values

    def until(self, deadline: float | None, x: Floats) -> tuple[Floats, bool]:
        """Values of as many rows as time allows, and whether an interrupt came; what was evaluated is kept.

        Points that are sent elsewhere or evaluated in one call cannot be cut short; they are all evaluated.
        """
        if self._checked or len(x) == 0:
            return self._values(x, deadline)
        # The first point goes alone: whatever is wrong with the function shows before work is lost. A function written
        # for (d, m) gives itself away as soon as it is handed a number of points other than one and d.
        m, d = x.shape
        cuts = [] if self._called else [1, 2] if m - 1 == d else [1]
        self._called = True
        parts, values, interrupted = [part for part in np.split(x, cuts) if len(part)], [], False
        for part in parts:
            some, interrupted = self._values(part, deadline)
            values.append(some)
            if interrupted:
                break
        return np.concatenate(values), interrupted

    def explain_total_failure(self) -> ValueError:
        """The error for a first swarm without a single finite value."""
        error = ValueError(f"fun gave no finite value at any point of the first swarm; {self.first_failure()}")
        error.__cause__ = self._cause
        return error

    def first_failure(self) -> str:
        """Where and how the function failed first, and what may be wrong with it."""
        why = f"at x = {self.failures[0].x}: {self.failures[0].reason}" if self.failures else "all were +inf"
        form = "; with vectorized=True it is given an array (m, d), one point per row" if self._vectorized else ""
        if not self._vectorized and isinstance(self._cause, IndexError):
            form = "; it is given one point of shape (d,): if it is written for many, one per row, add vectorized=True"
        return why + form

    def warn_of_exceptions(self, worth: str = "+inf") -> None:
        """One warning for exceptions that were survived, so that a bug in ``fun`` cannot hide."""
        if self._first_raised is not None:
            warnings.warn(
                f"fun raised an exception at {self.n_raised} points, which count as {worth}; first at "
                f"x = {self._first_raised.x}: {self._first_raised.reason}",
                RuntimeWarning,
                stacklevel=3,
            )

    def _values(self, x: Floats, deadline: float | None) -> tuple[Floats, bool]:
        answers, interrupted = self._answers(x, deadline)
        values, failed = sort_out(answers)
        self._count(x, failed)
        self._trust(x)
        return values, interrupted

    def _answers(
        self, x: Floats, deadline: float | None, finished: Callable[[int, Answers], None] | None = None
    ) -> tuple[Answers, bool]:
        """What the function says of as many rows as time allows, and whether an interrupt came.

        ``finished(first, answers)`` is told of consecutive rows as soon as they are known: of one row at a time, of
        what a worker process has done, or of what a map-like gives out.
        """
        if self._pool is not None:
            return self._answers_of_pool(x, finished), False
        if self._map is not None:
            answers: Any = []
            for answer in self._map(_Row(self._fun, self._vectorized).evaluate, list(x.copy())):
                answers.append(answer)
                if finished is not None and len(answers) <= len(x):
                    finished(len(answers) - 1, [answer])
            if len(answers) != len(x):
                raise ValueError(f"workers returned {len(answers)} values for {len(x)} points; a map returns one each")
            return answers, False
        if not self._vectorized:
            return _call_rows(self._fun, x, deadline, finished)
        answers = _call_vectorized(self._fun, x)
        if finished is not None:
            finished(0, answers)
        return answers, False

    def _answers_of_pool(self, x: Floats, finished: Callable[[int, Answers], None] | None) -> Answers:
        size = max(1, math.ceil(len(x) / (4 * self._processes)))
        answers: list[Any] = [None] * len(x)
        broken: BaseException | None = None
        try:
            tasks = {self._pool.submit(_call_in_worker, x[i : i + size]): i for i in range(0, len(x), size)}
            for task in as_completed(tasks):
                first = tasks[task]
                if isinstance(task.exception(), BrokenExecutor):
                    broken = task.exception()  # others may be done all the same
                    continue
                answers[first : first + size] = task.result()
                if finished is not None:
                    finished(first, task.result())
        except BrokenExecutor as error:
            broken = error
        if broken is not None:
            raise WorkerDied(
                "a worker process died: fun crashed it, ran out of memory, called os._exit, or could not be "
                "imported there (define it in a module and guard the script with if __name__ == '__main__')"
            ) from broken
        return answers

    def _trust(self, x: Floats) -> None:
        """The form of the answers for ``x`` was right: as many points as unknowns prove nothing of a vectorised one."""
        self._checked = self._checked or not self._vectorized or len(x) not in (1, x.shape[1])

    def _count(self, x: Floats, failed: dict[int, Failed]) -> None:
        for i in sorted(failed):
            self._fail(x[i], failed[i])

    def _fail(self, x: Floats, failed: Failed) -> None:
        if failed.wrong_form and not self._checked:
            raise TypeError(f"{failed.reason}; at x = {x}")
        if failed.raised:
            self._first_raised = self._first_raised or Failure(x.copy(), failed.reason)
            self.n_raised += 1
            self._cause = self._cause or failed.error
        if len(self.failures) < _REMEMBERED:
            self.failures.append(Failure(x.copy(), failed.reason))


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


def _call_rows(
    fun: Objective, x: Floats, deadline: float | None, finished: Callable[[int, Answers], None] | None = None
) -> tuple[list[float | Failed], bool]:
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


def _call_vectorized(fun: Objective, x: Floats) -> Floats | list[float | Failed]:
    try:
        answer = fun(x.copy())
    except Exception as error:
        if len(x) == 1:
            return [Failed(f"raised {type(error).__name__}: {error}", raised=True, error=error)]
        # One bad point must not cost the others: find it by asking one at a time.
        return [answer for row in x for answer in _call_vectorized(fun, row[None])]
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


class _Row(NamedTuple):
    """Evaluates one row; what a map-like ``workers`` is given."""

    fun: Objective
    vectorized: bool

    def evaluate(self, row: Floats) -> float | Failed:
        """The value at a row."""
        if not self.vectorized:
            return _portable([_call_one(self.fun, row)])[0]
        return _portable(list(_call_vectorized(self.fun, row[None])))[0]


def _portable(answers: list[float | Failed]) -> list[float | Failed]:
    """Exceptions stay behind: not all of them survive the journey between processes."""
    return [a._replace(error=None) if isinstance(a, Failed) else float(a) for a in answers]


_worker: tuple[Objective, bool] | None = None  # the function, sent once to each worker process


def _install(fun: Objective, vectorized: bool) -> None:
    global _worker
    _worker = (fun, vectorized)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interrupt means


def _call_in_worker(x: Floats) -> list[float | Failed]:
    assert _worker is not None
    fun, vectorized = _worker
    return _portable(list(_call_vectorized(fun, x) if vectorized else _call_rows(fun, x, None)[0]))


def _open_pool(count: int, fun: Objective, vectorized: bool) -> Any:
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
