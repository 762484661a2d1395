"""Evaluation with a memory on disk: what is recorded is not evaluated again, what is evaluated is recorded first."""

from __future__ import annotations

import numpy as np

from paoswarm.core.arrays import Floats
from paoswarm.evaluation.call_options import CallOptions
from paoswarm.evaluation.calls import Answers, Failed, Objective, sort_out
from paoswarm.evaluation.evaluator import End, Evaluator
from paoswarm.storage.journal import Journal


def open_evaluator(fun: Objective, journal: Journal | None, calling: CallOptions) -> Evaluator:
    """An evaluator that uses the journal, where there is one."""
    return Evaluator(fun, calling) if journal is None else RecordingEvaluator(fun, journal, calling)


class RecordingEvaluator(Evaluator):
    """Values from the journal of a run where it has them; others are on disk before anybody sees them.

    Points are recorded one at a time as they are finished; with ``workers``, those of one task or what a map-like gives
    out; with ``vectorized``, those of one call.
    """

    is_recorded = True  # the form of answers is then checked here

    def __init__(self, fun: Objective, journal: Journal, calling: CallOptions) -> None:
        super().__init__(fun, calling)
        self._journal = journal

    def explain_total_failure(self) -> ValueError:
        """The error for a first swarm without a single finite value, which would come again."""
        error = super().explain_total_failure()
        again = ValueError(f"{error}; {self._journal.path} has recorded that: remove it once fun is mended")
        again.__cause__ = error.__cause__
        return again

    def _values(self, x: Floats, deadline: float | None) -> tuple[Floats, End]:
        values, known, reasons = self._journal.recall(x)
        failed = {row: Failed(why) for row, why in reasons.items()}
        missing = np.flatnonzero(~known)
        if self.count is not None:
            self.count(len(x) - len(missing))
        self.replayed = len(missing) == 0
        end: End = None
        doubtful: list[tuple[int, Answers]] = []

        def keep(first: int, answers: Answers) -> None:
            some, wrong = sort_out(answers)
            if first == 0 and not self._journal.resumed:
                self._check_form(x[0], answers[0])
            if not self._checked and sum(why.wrong_form for why in wrong.values()) == len(some):
                doubtful.append((first, answers))  # perhaps of another function: wait for an answer of the right form
            else:
                record(first, some, wrong)

        def record(first: int, some: Floats, wrong: dict[int, Failed]) -> None:
            rows = missing[first : first + len(some)]
            self._journal.append(rows, x[rows], some, {row: why.reason for row, why in wrong.items()})
            values[rows], known[rows] = some, True
            failed.update({int(rows[row]): why for row, why in wrong.items()})

        if len(missing):
            end = self._answers(x[missing], deadline, keep)[1]
            for first, answers in doubtful:
                if not known[missing].any() and (len(missing) > 1 or not self._journal.resumed):
                    self._count(x[missing[first:]], sort_out(answers)[1])  # raises
                record(first, *sort_out(answers))
            self._trust(x[missing])
        done = len(x) if known.all() else int(np.argmin(known))  # what comes after a gap is recorded, but not used yet
        self._count(x, {row: why for row, why in failed.items() if row < done})
        return values[:done], end
