"""Evaluation with a store: recorded values are not evaluated again, new ones are recorded before they are used."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from paoswarm.core.arrays import Floats
from paoswarm.evaluate.call_options import CallOptions
from paoswarm.evaluate.caller import End
from paoswarm.evaluate.calls import DIED, NAN, TIMED_OUT, Answers, Failed, Objective
from paoswarm.evaluate.detailed import with_details
from paoswarm.evaluate.evaluator import Evaluator, Numbers
from paoswarm.space.space import Space
from paoswarm.store.journal import Journal


def open_evaluator(
    fun: Objective,
    journal: Journal | None,
    options: CallOptions,
    *,
    minus_inf_fails: bool = True,
    space: Space | None = None,
    n_details: int | None = 0,
) -> Evaluator:
    """An evaluator, with a journal if there is one."""
    how: dict[str, Any] = {"minus_inf_fails": minus_inf_fails, "space": space, "n_details": n_details}
    return Evaluator(fun, options, **how) if journal is None else RecordingEvaluator(fun, journal, options, **how)


class RecordingEvaluator(Evaluator):
    """Values from the journal of a run if it has them; others are on disk before they are used.

    Points are recorded one at a time as they are finished. With ``workers`` the points of one task are recorded
    together, with a map-like whatever it yields, with ``vectorized`` those of one call.
    """

    def __init__(
        self,
        fun: Objective,
        journal: Journal,
        options: CallOptions,
        *,
        minus_inf_fails: bool = True,
        space: Space | None = None,
        n_details: int | None = 0,
    ) -> None:
        how: dict[str, Any] = {"minus_inf_fails": minus_inf_fails, "space": space, "n_details": n_details}
        super().__init__(fun, options, **how)
        self.journal: Journal = journal

    def __enter__(self) -> Evaluator:
        try:
            self.journal.confirm(self._measure_again)
        except BaseException as error:
            self.__exit__(None, None, None)
            if isinstance(error, KeyboardInterrupt):
                why = "interrupted while recorded points were evaluated again to compare them; nothing was lost"
                raise KeyboardInterrupt(why) from None
            raise
        return self

    def _measure_again(self, x: Floats) -> list[float | str | None]:
        """Evaluate recorded points again, to compare: values, or why points failed; None if it was not the function."""
        answers, end = self._answers(x, None)
        if end is not None:
            raise end
        values, failed = self._sort_out(answers)
        found: list[float | str | None] = values.tolist()
        for row, (point, answer) in enumerate(zip(x, answers, strict=True)):
            self._check_form(point, answer)
            if row in failed:
                reason = failed[row].reason
                found[row] = None if reason.startswith((TIMED_OUT, DIED)) else reason
            elif math.isnan(values[row]):
                found[row] = NAN
        return found

    def explain_total_failure(self) -> ValueError:
        """The error for a first swarm without a single finite value; a recorded run would end in it again."""
        error = super().explain_total_failure()
        whose = "the constraints" if self.log.is_of_constraints else "the function"
        advice = f"has recorded these failures: delete it after you have fixed {whose}"
        again = ValueError(f"{error}; {self.journal.path} {advice}")
        again.__cause__ = error.__cause__
        return again

    def explain_mistake(self) -> ValueError:
        """The error for a function whose first calls have all raised the same exception; these are not recorded."""
        error = super().explain_mistake()
        again = ValueError(f"{error}; {self.journal.path} has not recorded these calls: repeat the run with it")
        again.__cause__ = error.__cause__
        return again

    def _check_first_form(self, x: Floats, answer: float | Failed) -> None:
        if not self.journal.resumed:  # later answers may have the wrong form at some points
            super()._check_first_form(x, answer)

    def go_beyond(self) -> bool:
        """The points that follow come after the last generation: they are set aside if the run goes on later.

        False if the recorded run goes on here, because it had other limits: then there is no place for them.
        """
        is_possible = not self.journal.goes_on
        self.journal.polish()
        return is_possible

    def record_one(self, number: int, asked: int, x: Floats, answer: float | Failed, recalled: int) -> None:
        """Record the answer at a point that was sent alone, and how many points had been asked for by then."""
        why = answer.reason if isinstance(answer, Failed) else NAN if math.isnan(answer) else None
        value = math.nan if isinstance(answer, Failed) else float(answer)
        self.journal.complete(number, asked, x, value, why, self._details_of([answer]), recalled)

    def _may_differ(self, count: int) -> bool:
        """Whether ``count`` answers of the wrong form say that the function is wrong, and not one point."""
        return count > 1 or not self.journal.resumed

    def _recorded(self, x: Floats, deadline: float | None, numbers: Numbers) -> tuple[Floats, End]:
        values, known, reasons, recorded = self.journal.recall(x, numbers)
        details = recorded
        if recorded is not None:
            self.n_details = recorded.shape[1]
        elif self.n_details:
            details = np.full((len(x), self.n_details), np.nan)
        failed = {row: Failed(why) for row, why in reasons.items()}
        missing = np.flatnonzero(~known)
        if self.count is not None:
            self.count(len(x) - len(missing))
        self.replayed = len(missing) == 0
        self._called = self._called or bool(known.any())
        end: End = None
        doubtful: list[tuple[int, Answers]] = []  # perhaps of another function: wait for an answer of the right form
        mistaken: list[tuple[int, Answers]] = []  # perhaps mistakes in the code: wait for another answer

        def keep(first: int, answers: Answers) -> None:
            some, wrong = self._sort_out(answers)
            if self.is_suspicious:
                mistaken.append((first, answers))
            elif not self._checked and sum(why.wrong_form for why in wrong.values()) == len(some):
                doubtful.append((first, answers))
            else:
                record_mistakes()
                record(first, some, wrong, answers)

        def record_mistakes() -> None:
            while mistaken:
                first, answers = mistaken.pop(0)
                record(first, *self._sort_out(answers), answers)

        def record(first: int, some: Floats, wrong: dict[int, Failed], answers: Answers) -> None:
            nonlocal details
            rows = missing[first : first + len(some)]
            more = self._details_of(answers)
            self.journal.append(rows, x[rows], some, {row: why.reason for row, why in wrong.items()}, more)
            values[rows], known[rows] = some, True
            if more is not None:
                details = np.full((len(x), more.shape[1]), np.nan) if details is None else details
                details[rows] = more
            failed.update({int(rows[row]): why for row, why in wrong.items()})

        if len(missing):
            end = self._answers(x[missing], deadline, keep)[1]
            if end is None:
                record_mistakes()
            for first, answers in doubtful:
                if not known[missing].any() and self._may_differ(len(missing)):
                    self._count(x[missing[first:]], self._sort_out(answers)[1])  # raises
                record(first, *self._sort_out(answers), answers)
        done = len(x) if known.all() else int(np.argmin(known))  # what comes after a gap is recorded, but not used yet
        self._count(x, {row: why for row, why in failed.items() if row < done})
        return with_details(values[:done], None if details is None else details[:done]), end
