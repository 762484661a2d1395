"""From the user's function to one callable, ``(m, d) -> (m,)``; algorithms never know what runs behind it.

The policy, for every way of calling:

- The function gets a copy of the points, so it may overwrite its argument.
- A point has *failed* if the function raises, returns NaN or anything that is not one real number, takes too long or
  kills its process. Its value is NaN here and +inf for the swarm, it is counted, and the run goes on. -inf is a failure
  too, except for log likelihoods: no minimum can be -inf, so it comes from a division by zero or the like.
- But if the answer to the very first point has the wrong form, that is an error at once, before work is lost.
- So is the same mistake in the code at all of the first points; see `paoswarm.evaluate.first_answers`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paoswarm.core.arrays import Floats
from paoswarm.evaluate.call_options import CallOptions
from paoswarm.evaluate.caller import Caller, End
from paoswarm.evaluate.calls import (
    DIED,
    MINUS_INF,
    NAN,
    TIMED_OUT,
    Answers,
    Failed,
    Objective,
    sort_out,
)
from paoswarm.evaluate.detailed import details_of, size_of_details, was_called, with_details
from paoswarm.evaluate.dispatch import Dispatcher
from paoswarm.evaluate.failures import Failure, FailureLog
from paoswarm.evaluate.first_answers import FirstAnswers
from paoswarm.evaluate.interrupts import interrupted_once
from paoswarm.space.evaluations import Evaluations
from paoswarm.space.space import Space
from paoswarm.store.journal import Journal

Numbers = NDArray[np.int64] | None


class Evaluator:
    """Evaluate points with the user's function; a context manager, since it may own worker processes.

    Attributes
    ----------
    log : FailureLog
        What has failed.
    count : callable or None
        Called with the number of evaluations that were finished since the last call.
    replayed : bool
        Whether the latest values were all known from an earlier run, with a store.
    n_details : int or None
        How many numbers the answers carry besides their value. If there are any, values are rows ``(m, 1 + k)``. None
        until an answer says.
    failed : dict
        In which way points of the latest call have failed, by row.
    kept : Evaluations or None
        Where all points and values are kept; None if they are not.
    """

    def __init__(
        self,
        fun: Objective,
        options: CallOptions = CallOptions(),  # noqa: B008 (immutable)
        *,
        minus_inf_fails: bool = True,
        space: Space | None = None,
        n_details: int | None = 0,
    ) -> None:
        if not callable(fun):
            raise TypeError(f"fun must be callable, got {fun!r}")
        self.journal: Journal | None = None
        self.replayed = False
        self.failed: dict[int, str] = {}
        self.count: Callable[[int], None] | None = None
        self._space = space
        self.kept: Evaluations | None = None
        self.log = FailureLog() if space is None else FailureLog(space.text)
        self._on_exit = ExitStack()
        fun = fun if space is None else space.function(fun)
        self._called = False
        self._checked = False  # whether the form of the answers is known to be right
        self._first_answers = FirstAnswers()
        self._minus_inf_fails = minus_inf_fails
        self.n_details = n_details
        self._caller = Caller(fun, options)

    @property
    def failures(self) -> list[Failure]:
        """The first ten failed points."""
        return self.log.first

    @property
    def kinds(self) -> Counter[str]:
        """How many points failed in which way."""
        return self.log.kinds

    @property
    def is_parallel(self) -> bool:
        """Whether points are sent elsewhere, so that large batches pay."""
        return self._caller.is_parallel

    def __enter__(self) -> Evaluator:
        self._on_exit.enter_context(interrupted_once())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._on_exit:
            self._caller.close()

    def __call__(self, x: Floats, numbers: Numbers = None) -> Floats:
        """Values at the rows of ``x``, or rows of values and details; NaN where a point failed."""
        values, end = self.until(None, x, numbers)
        if end is not None:
            raise end
        return values

    def until(self, deadline: float | None, x: Floats, numbers: Numbers = None) -> tuple[Floats, End]:
        """Values of as many rows as time allows, and what ended it early: an interrupt, or the loss of the workers.

        Points that are being evaluated, those of one vectorised call and those given to a map-like are finished.
        ``numbers`` are those of the rows in a store, if they are not evaluated in the order of their numbers.
        """
        rows, self.failed = self.rows(x), {}
        if self.journal is not None:
            values, end = self._recorded(rows, deadline, numbers)
        else:
            if self._checked and self._first_answers.is_over:
                counted = None if self.count is None else self._counting(self.count, None)
                answers, end = self._caller(rows, deadline, counted)
            else:
                answers, end = self._answers(rows, deadline)
            values, failed = sort_out(answers, minus_inf_fails=self._minus_inf_fails)
            if failed:
                self._count(rows, failed)
            values = with_details(values, self._details_of(answers))
        if self.kept is not None:
            self.kept.add(rows, values)
        return values, end

    def rows(self, x: Floats) -> Floats:
        """Points of a swarm as the user's numbers, one for each variable."""
        return x if self._space is None else self._space.rows(x)

    def go_beyond(self) -> bool:
        """Note that the points that follow come after the last generation; whether a look around is possible there."""
        return True

    def dispatcher(self) -> Dispatcher:
        """What sends points one at a time."""
        return self._caller.dispatcher()

    def record_one(self, number: int, asked: int, x: Floats, answer: float | Failed, recalled: int) -> None:
        """Record the answer at a point that was sent alone; nothing to do without a store."""

    def note(self, x: Floats, answer: float | Failed) -> Any:
        """The value of one answer, or its row of value and details; failures are counted."""
        if self.count is not None:
            self.count(1)
        value = math.nan if isinstance(answer, Failed) else float(answer)
        self.failed = {}
        if math.isnan(value):
            why = answer if isinstance(answer, Failed) else Failed(NAN)
            self.log.add(x, why)
            self.failed = {0: why.kind}
        row = with_details(np.array([value]), self._details_of([answer]))
        if self.kept is not None:
            self.kept.add(x[None], row)
        return row[0] if self.n_details else value

    def judge(self, x: Floats, answer: float | Failed) -> float | Failed:
        """An answer of a stream; raise if the first ones show that the function is wrong."""
        self._check_form(x, answer)
        self._checked = self._checked or was_called(answer)
        self._look_for_mistakes(x, answer)
        is_lowest = self._minus_inf_fails and answer == -math.inf
        return Failed(MINUS_INF) if is_lowest else answer

    @property
    def is_suspicious(self) -> bool:
        """Whether all answers so far were the same mistake in the code, but too few to be sure."""
        return self._first_answers.is_suspicious

    def explain_total_failure(self) -> ValueError:
        """The error for a first swarm without a single finite value."""
        what = (
            "the constraints could not be evaluated"
            if self.log.is_of_constraints
            else "the function gave no finite value"
        )
        error = ValueError(f"{what} at any of the first points; {self.first_failure()}")
        error.__cause__ = self.log.cause
        return error

    def explain_mistake(self) -> ValueError:
        """The error for a function whose first calls have all raised the same exception."""
        assert self._first_answers.first is not None
        self.log.add(*self._first_answers.first)
        error = ValueError(
            f"the function raised the same exception at its first {self._first_answers.n_same} calls, so no more were "
            f"made; {self.first_failure()}; if such points should count as failed, let it return NaN there"
        )
        error.__cause__ = self.log.cause
        return error

    def first_failure(self) -> str:
        """Where and how the function failed first, and what may be wrong with it."""
        return self.log.explain(
            vectorized=self._caller.vectorized, names=None if self._space is None else self._space.names
        )

    def warn(self, worth: str = "+inf") -> None:
        """Warn about exceptions that were survived, and about time that was wasted by sending cheap points."""
        self.log.warn(worth)
        has_lost_workers = self.kinds[TIMED_OUT] or self.kinds[DIED]  # new ones take time to start
        if not has_lost_workers:
            self._caller.warn()

    def _recorded(self, x: Floats, deadline: float | None, numbers: Numbers) -> tuple[Floats, End]:
        """`until` with a store."""
        raise RuntimeError("there is no store")

    def _details_of(self, answers: Answers) -> Floats | None:
        """What answers carry besides their values, ``(m, k)``; None if nothing, or if nothing is known yet."""
        if self.n_details is None:
            self.n_details = size_of_details(answers) or None
        return details_of(answers, self.n_details) if self.n_details else None

    def _sort_out(self, answers: Answers) -> tuple[Floats, dict[int, Failed]]:
        return sort_out(answers, minus_inf_fails=self._minus_inf_fails)

    def _answers(
        self, x: Floats, deadline: float | None, finished: Callable[[int, Answers], None] | None = None
    ) -> tuple[Answers, End]:
        """The function's answers for as many rows as time allows, and what ended it early.

        ``finished(first, answers)`` is called with consecutive rows as soon as they are known: one at a time, those of
        a task, or those that a map-like yields. The first answers are looked at before, so that a wrong function shows
        before work is lost.
        """
        if self._checked and self._first_answers.is_over:
            return self._call(x, deadline, finished)
        answers: list[Any] = []
        end: End = None
        is_first, self._called = not self._called, True
        while len(answers) < len(x) and end is None:
            begin, left = len(answers), len(x) - len(answers)
            part = x[begin : begin + self._size_of_part(left, x.shape[1], is_first, begin)]
            some, end = self._call(part, deadline, self._looking(part, begin, finished))
            self._trust(part, some)
            answers.extend(some)
            if len(some) < len(part):
                break
        return answers, end

    def _size_of_part(self, left: int, d: int, is_first: bool, begin: int) -> int:
        """How many points to evaluate before answers are looked at.

        Answers that come one at a time are looked at in any case. Of others the first comes alone, and so do more from
        elsewhere that are suspicious. A function written for (d, m) is recognised by a number of points other than one
        and d.
        """
        if self._caller.tells_each:
            return left
        goes_alone = (self.is_parallel and self.is_suspicious) or (is_first and (begin == 0 or left == d))
        return 1 if goes_alone else left

    def _looking(
        self, x: Floats, begin: int, finished: Callable[[int, Answers], None] | None
    ) -> Callable[[int, Answers], None]:
        def look(first: int, answers: Answers) -> None:
            if first == 0:
                self._check_first_form(x[0], answers[0])
            for row, answer in enumerate(answers, first):
                if self._first_answers.is_over:
                    break
                self._look_for_mistakes(x[row], answer)
            if finished is not None:
                finished(begin + first, answers)

        return look

    def _look_for_mistakes(self, x: Floats, answer: float | Failed) -> None:
        if was_called(answer) and self._first_answers.look(x, answer):
            raise self.explain_mistake()

    def _check_first_form(self, x: Floats, answer: float | Failed) -> None:
        """Raise if the very first answer has the wrong form."""
        self._check_form(x, answer)
        self._checked = self._checked or (not self._caller.vectorized and was_called(answer))

    def _call(
        self, x: Floats, deadline: float | None, finished: Callable[[int, Answers], None] | None
    ) -> tuple[Answers, End]:
        """Call the function at as many rows as time allows, and count them."""
        return self._caller(x, deadline, finished if self.count is None else self._counting(self.count, finished))

    @staticmethod
    def _counting(
        count: Callable[[int], None], finished: Callable[[int, Answers], None] | None
    ) -> Callable[[int, Answers], None]:
        def counted(first: int, answers: Answers) -> None:
            if finished is not None:
                finished(first, answers)
            count(len(answers))

        return counted

    def _trust(self, x: Floats, answers: Answers) -> None:
        """Note if answers had the right form; in one call, one point, or as many as unknowns, prove nothing."""
        is_right = any(was_called(one) and not (isinstance(one, Failed) and one.wrong_form) for one in answers)
        proves = not self._caller.vectorized or len(x) not in (1, x.shape[1])
        self._checked = self._checked or (is_right and proves)

    def _check_form(self, x: Floats, answer: float | Failed) -> None:
        if isinstance(answer, Failed) and answer.wrong_form and not self._checked:
            raise TypeError(f"{answer.reason}; at {self.log.text(x)}")

    def _count(self, x: Floats, failed: dict[int, Failed]) -> None:
        self.failed = {row: why.kind for row, why in failed.items()}
        for i in sorted(failed):
            if i == 0:
                self._check_form(x[0], failed[0])
            self.log.add(x[i], failed[i])
