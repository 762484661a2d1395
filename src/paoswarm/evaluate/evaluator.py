"""From the user's function to one callable, ``(m, d) -> (m,)``; algorithms never know what runs behind it.

The policy, for every way of calling:

- The function gets a copy of the points, so it may overwrite its argument.
- A point has *failed* if the function raises, returns NaN or anything that is not one real number, takes too long or
  kills its process. Its value is NaN here and +inf for the swarm, it is counted, and the run goes on. -inf is a failure
  too, except for log likelihoods: no minimum can be -inf, so it comes from a division by zero or the like.
- But if the answer to the very first point has the wrong form, that is an error at once, before work is lost.
- So is the same mistake in the code at all of the first points; see `paoswarm.evaluate.failures`.
- With a store, recorded values are not evaluated again, and others are on disk before they are used: one at a time as
  they are finished, with ``workers`` those of a task, with a map-like what it yields, with ``vectorized`` one call's.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paoswarm.core.arrays import Floats
from paoswarm.evaluate.call_options import CallOptions
from paoswarm.evaluate.caller import Caller, End, Finished
from paoswarm.evaluate.calls import (
    DIED,
    MINUS_INF,
    TIMED_OUT,
    Answers,
    Failed,
    Objective,
    details_of,
    size_of_details,
    sort_out,
    was_called,
    with_details,
)
from paoswarm.evaluate.failures import FailureLog, FirstAnswers
from paoswarm.space.evaluations import Evaluations
from paoswarm.space.space import Space
from paoswarm.store.journal import Completion, Journal

_NO_VALUE = "the function gave no finite value"
Numbers = NDArray[np.int64] | None


class Evaluator:
    """Evaluate points with the user's function; a context manager, since it may own worker processes.

    Attributes
    ----------
    caller : Caller
        What calls the function.
    log : FailureLog
        What has failed.
    first : FirstAnswers
        Whether the first answers were mistakes in the code.
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
        journal: Journal | None = None,
        *,
        minus_inf_fails: bool = True,
        space: Space | None = None,
        n_details: int | None = 0,
    ) -> None:
        if not callable(fun):
            raise TypeError(f"fun must be callable, got {fun!r}")
        self.journal, self.n_details = journal, n_details
        self.replayed = False
        self.failed: dict[int, str] = {}
        self.count: Callable[[int], None] | None = None
        self.kept: Evaluations | None = None
        self.log = FailureLog() if space is None else FailureLog(space.text)
        self.first = FirstAnswers()
        self._space, self._minus_inf_fails = space, minus_inf_fails
        self._called = False
        self._checked = False  # whether the form of the answers is known to be right
        self.caller = Caller(fun if space is None else space.function(fun), options)

    def __enter__(self) -> Evaluator:
        try:
            if self.journal is not None:
                self.journal.confirm(self._measure_again)
        except BaseException as error:
            self.__exit__(None, None, None)
            if isinstance(error, KeyboardInterrupt):
                why = "interrupted while recorded points were evaluated again to compare them; nothing was lost"
                raise KeyboardInterrupt(why) from None
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.caller.close()

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
        if self.journal is None:
            answers, end = self._answers(rows, deadline)
            values, failed = self._sort_out(answers)
            self._count(rows, failed)
            values = with_details(values, self._details_of(answers))
        else:
            values, end = self._recorded(self.journal, rows, deadline, numbers)
        if self.kept is not None:
            self.kept.add(rows, values)
        return values, end

    def rows(self, x: Floats) -> Floats:
        """Points of a swarm as the user's numbers, one for each variable."""
        return x if self._space is None else self._space.rows(x)

    def go_beyond(self) -> bool:
        """Note that the points that follow come after the last generation: they are set aside if the run goes on later.

        False if the recorded run goes on here, because it had other limits: then there is no place for them.
        """
        if self.journal is None:
            return True
        is_possible = not self.journal.goes_on
        self.journal.polish()
        return is_possible

    # Points that are sent one at a time

    def note(self, x: Floats, answer: float | Failed) -> Any:
        """The value of one answer, or its row of value and details; failures are counted."""
        if self.count is not None:
            self.count(1)
        (value,), failed = sort_out([answer], minus_inf_fails=False)
        self.failed = {}
        self._count(x[None], failed)
        row = with_details(np.array([value]), self._details_of([answer]))
        if self.kept is not None:
            self.kept.add(x[None], row)
        return row[0]

    def judge(self, x: Floats, answer: float | Failed) -> float | Failed:
        """An answer of a stream; raise if the first ones show that the function is wrong."""
        self._check_form(x, answer)
        self._checked = self._checked or was_called(answer)
        self._look_for_mistakes(x, answer)
        return Failed(MINUS_INF) if self._minus_inf_fails and answer == -math.inf else answer

    def record_one(self, number: int, asked: int, x: Floats, answer: float | Failed, recalled: int) -> None:
        """Record the answer at a point, if there is a store, and how many points had been asked for by then."""
        if self.journal is not None:
            (value,), failed = sort_out([answer], minus_inf_fails=False)
            details = self._details_of([answer])
            why, numbers = failed[0].reason if failed else None, None if details is None else details[0]
            self.journal.complete(Completion(number, asked, float(value), why, numbers), x, recalled)

    # What is said of failures

    def explain_total_failure(self) -> ValueError:
        """The error for a first swarm without a single finite value; a recorded run would end in it again."""
        where, whose = _NO_VALUE, "the function"
        if self.log.is_of_constraints:
            where, whose = "the constraints could not be evaluated", "the constraints"
        advice = f"has recorded these failures: delete it after you have fixed {whose}"
        return self._explained(f"{where} at any of the first points; {self.first_failure()}", advice)

    def explain_mistake(self) -> ValueError:
        """The error for a function whose first calls have all raised the same exception; these are not recorded."""
        assert self.first.failure is not None
        self.log.add(*self.first.failure)
        said = (
            f"the function raised the same exception at its first {self.first.n_same} calls, so no more were "
            f"made; {self.first_failure()}; if such points should count as failed, let it return NaN there"
        )
        if self.first.failure[1].wrong_output:
            said = f"{_NO_VALUE} at any of the first points; {self.first_failure()}"
        return self._explained(said, "has not recorded these calls: repeat the run with it")

    def _explained(self, said: str, of_store: str) -> ValueError:
        error = ValueError(said if self.journal is None else f"{said}; {self.journal.path} {of_store}")
        error.__cause__ = self.log.cause
        return error

    def first_failure(self) -> str:
        """Where and how the function failed first, and what may be wrong with it."""
        return self.log.explain(
            vectorized=self.caller.vectorized, names=None if self._space is None else self._space.names
        )

    def warn(self, worth: str = "+inf") -> None:
        """Warn about exceptions that were survived, and about time that was wasted by sending cheap points."""
        self.log.warn(worth)
        if not (self.log.kinds[TIMED_OUT] or self.log.kinds[DIED]):  # new workers take time to start
            self.caller.warn()

    # With a store

    def _measure_again(self, x: Floats) -> list[float | str | None]:
        """Evaluate recorded points again, to compare: values, or why points failed; None if it was not the function."""
        answers, end = self._answers(x, None)
        if end is not None:
            raise end
        values, failed = self._sort_out(answers)
        found: list[float | str | None] = values.tolist()
        for row, why in failed.items():
            self._check_form(x[row], why)
            found[row] = None if why.kind in (TIMED_OUT, DIED) else why.reason
        return found

    def _recorded(self, journal: Journal, x: Floats, deadline: float | None, numbers: Numbers) -> tuple[Floats, End]:
        """`until` with a store."""
        values, known, reasons, details = journal.recall(x, numbers)
        if details is not None:
            self.n_details = details.shape[1]
        elif self.n_details:
            details = np.full((len(x), self.n_details), np.nan)
        failed = {row: Failed(why) for row, why in reasons.items()}
        missing = np.flatnonzero(~known)
        if self.count is not None:
            self.count(len(x) - len(missing))
        self.replayed = len(missing) == 0
        self._called = self._called or bool(known.any())
        # Perhaps of another function, or mistakes in the code: they wait for another answer.
        held: list[tuple[int, Answers]] = []

        def keep(first: int, answers: Answers) -> None:
            held.append((first, answers))
            is_odd = all(isinstance(one, Failed) and one.wrong_form for one in answers) and not self._checked
            if not self.first.is_suspicious and not is_odd:
                record_held()

        def record_held() -> None:
            nonlocal details
            while held:
                first, answers = held.pop(0)
                some, wrong = self._sort_out(answers)
                more, rows = self._details_of(answers), missing[first : first + len(some)]
                journal.append(rows, x[rows], some, {row: why.reason for row, why in wrong.items()}, more)
                values[rows], known[rows] = some, True
                if more is not None:
                    details = np.full((len(x), more.shape[1]), np.nan) if details is None else details
                    details[rows] = more
                failed.update({int(rows[row]): why for row, why in wrong.items()})

        end: End = None
        if len(missing):
            end = self._answers(x[missing], deadline, keep)[1]
            # One point alone may have an answer of the wrong form, several show that the function is wrong.
            if held and not known[missing].any() and (len(missing) > 1 or not journal.resumed):
                self._check_form(x[missing[held[0][0]]], held[0][1][0])
            if end is None:
                record_held()
        done = int(np.argmin(np.append(known, False)))  # what comes after a gap is recorded, but not used yet
        self._count(x, {row: why for row, why in failed.items() if row < done})
        return with_details(values, details)[:done], end

    # How answers come

    def _answers(self, x: Floats, deadline: float | None, keep: Finished | None = None) -> tuple[Answers, End]:
        """The function's answers for as many rows as time allows, and what ended it early.

        ``keep(first, answers)`` is called with consecutive rows as soon as they are known. The first answers are looked
        at before, so that a wrong function shows before work is lost.
        """
        if self._checked and self.first.is_over:
            finished = None if keep is None and self.count is None else self._finished(None, 0, keep)
            return self.caller(x, deadline, finished)
        answers: list[Any] = []
        end: End = None
        is_first, self._called = not self._called, True
        while len(answers) < len(x) and end is None:
            begin, left = len(answers), len(x) - len(answers)
            part = x[begin : begin + self._size_of_part(left, x.shape[1], is_first, begin)]
            some, end = self.caller(part, deadline, self._finished(part, begin, keep))
            # In one call, one point, or as many as unknowns, prove nothing.
            is_right = any(was_called(one) and not (isinstance(one, Failed) and one.wrong_form) for one in some)
            proves = not self.caller.vectorized or len(part) not in (1, part.shape[1])
            self._checked = self._checked or (is_right and proves)
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
        if self.caller.tells_each:
            return left
        goes_alone = (self.caller.is_parallel and self.first.is_suspicious) or (is_first and (begin == 0 or left == d))
        return 1 if goes_alone else left

    def _finished(self, x: Floats | None, begin: int, keep: Finished | None) -> Finished:
        """What is called with answers: they are looked at, if ``x`` are the first points, then kept and counted."""

        def finished(first: int, answers: Answers) -> None:
            if x is not None:
                self._look(x, first, answers)
            if keep is not None:
                keep(begin + first, answers)
            if self.count is not None:
                self.count(len(answers))

        return finished

    def _look(self, x: Floats, first: int, answers: Answers) -> None:
        # If the run is resumed, later answers may have the wrong form at some points.
        if first == 0 and (self.journal is None or not self.journal.resumed):
            self._check_form(x[0], answers[0])
            self._checked = self._checked or (not self.caller.vectorized and was_called(answers[0]))
        for row, answer in enumerate(answers, first):
            if self.first.is_over:
                break
            self._look_for_mistakes(x[row], answer)

    def _look_for_mistakes(self, x: Floats, answer: float | Failed) -> None:
        if was_called(answer) and self.first.look(x, answer):
            raise self.explain_mistake()

    def _check_form(self, x: Floats, answer: float | Failed) -> None:
        if isinstance(answer, Failed) and answer.wrong_form and not self._checked:
            raise TypeError(f"{answer.reason}; at {self.log.text(x)}")

    def _details_of(self, answers: Answers) -> Floats | None:
        """What answers carry besides their values, ``(m, k)``; None if nothing, or if nothing is known yet."""
        if self.n_details is None:
            self.n_details = size_of_details(answers) or None
        return details_of(answers, self.n_details) if self.n_details else None

    def _sort_out(self, answers: Answers) -> tuple[Floats, dict[int, Failed]]:
        return sort_out(answers, minus_inf_fails=self._minus_inf_fails)

    def _count(self, x: Floats, failed: dict[int, Failed]) -> None:
        if not failed:
            return
        self.failed = {row: why.kind for row, why in failed.items()}
        for i in sorted(failed):
            if i == 0:
                self._check_form(x[0], failed[0])
            self.log.add(x[i], failed[i])
