"""From the user's function to one callable, ``(m, d) -> (m,)``; algorithms never know what runs behind it.

The policy, for every way of calling:

- the function gets a copy of the points, so it may overwrite its argument;
- a point where it raises, or returns NaN or anything that is not one real number, has *failed*: its value is NaN here,
  +inf for the swarm, it is counted, and the run goes on;
- but an answer of the wrong form on the very first call is an error at once, before work is lost.
"""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Iterable
from concurrent.futures import BrokenExecutor, as_completed
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np

from paoswarm.core.walled import Floats
from paoswarm.optimize.calls import (
    Answers,
    Failed,
    Objective,
    Row,
    call_in_worker,
    call_rows,
    call_vectorized,
    open_pool,
    sort_out,
)
from paoswarm.optimize.problem import whole_number

_REMEMBERED = 10  # failures kept with their message


class WorkerDied(RuntimeError):
    """A worker process is gone, and with it the pool."""


class Failure(NamedTuple):
    """A point whose evaluation failed, and why."""

    x: Floats
    reason: str


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
                self._pool = open_pool(count, fun, vectorized)

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
            for answer in self._map(Row(self._fun, self._vectorized).evaluate, list(x.copy())):
                answers.append(answer)
                if finished is not None and len(answers) <= len(x):
                    finished(len(answers) - 1, [answer])
            if len(answers) != len(x):
                raise ValueError(f"workers returned {len(answers)} values for {len(x)} points; a map returns one each")
            return answers, False
        if not self._vectorized:
            return call_rows(self._fun, x, deadline, finished)
        answers = call_vectorized(self._fun, x)
        if finished is not None:
            finished(0, answers)
        return answers, False

    def _answers_of_pool(self, x: Floats, finished: Callable[[int, Answers], None] | None) -> Answers:
        size = max(1, math.ceil(len(x) / (4 * self._processes)))
        answers: list[Any] = [None] * len(x)
        broken: BaseException | None = None
        try:
            tasks = {self._pool.submit(call_in_worker, x[i : i + size]): i for i in range(0, len(x), size)}
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
