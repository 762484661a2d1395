"""Evaluation with a store: recorded values are not evaluated again, new ones are recorded before they are used.

For batches of points there is the `RecordingEvaluator`, for points sent one at a time its `RecordingStream`. With the
latter the order in which values came is recorded too, and how many points had been asked for by then: so a run that
depends on which worker was quickest can be repeated exactly, and resumed.
"""

from __future__ import annotations

import math

import numpy as np

from paoswarm.core.arrays import Floats
from paoswarm.evaluation.call_options import CallOptions
from paoswarm.evaluation.calls import NAN, Answers, Failed, Objective, sort_out
from paoswarm.evaluation.dispatch import Dispatcher
from paoswarm.evaluation.evaluator import End, Evaluator
from paoswarm.evaluation.stream import Arrived, Stream
from paoswarm.storage.journal import Journal


def open_evaluator(fun: Objective, journal: Journal | None, options: CallOptions) -> Evaluator:
    """An evaluator, with a journal if there is one."""
    return Evaluator(fun, options) if journal is None else RecordingEvaluator(fun, journal, options)


class RecordingEvaluator(Evaluator):
    """Values from the journal of a run if it has them; others are on disk before they are used.

    Points are recorded one at a time as they are finished. With ``workers`` the points of one task are recorded
    together, with a map-like whatever it yields, with ``vectorized`` those of one call.
    """

    is_recorded = True  # the form of answers is checked here

    def __init__(self, fun: Objective, journal: Journal, options: CallOptions) -> None:
        super().__init__(fun, options)
        self._journal = journal

    def explain_total_failure(self) -> ValueError:
        """The error for a first swarm without a single finite value; a recorded run would end in it again."""
        error = super().explain_total_failure()
        advice = "has recorded these failures: delete it after you have fixed fun"
        again = ValueError(f"{error}; {self._journal.path} {advice}")
        again.__cause__ = error.__cause__
        return again

    def _make_stream(self, dispatcher: Dispatcher) -> Stream:
        return RecordingStream(self, dispatcher, self._journal)

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


class RecordingStream(Stream):
    """Points one at a time with a journal: recorded values are given out first, in the recorded order."""

    def __init__(self, evaluator: Evaluator, dispatcher: Dispatcher, journal: Journal) -> None:
        super().__init__(evaluator, dispatcher)
        self._journal = journal
        self._sent = 0
        self._recorded = journal.completions()[::-1]  # the next one last
        self._held: list[int] = []  # sent while recorded values are given out; they leave when these are used up

    @property
    def is_replaying(self) -> bool:
        """Whether values come from the journal."""
        return bool(self._recorded)

    @property
    def room(self) -> float:
        """How many more points may be sent: as many as were sent at this moment before, then as workers are idle."""
        if self._recorded:
            return self._recorded[-1].asked - self._sent
        return super().room - len(self._held)

    def send(self, number: int, x: Floats) -> None:
        """Send a point ``(d,)``; raise if another one is recorded under this number."""
        self._sent += 1
        self._journal.check(number, x)
        if self._recorded:
            self._x[number] = x
            self._held.append(number)
        else:
            super().send(number, x)

    def receive(self, deadline: float | None) -> Arrived | None:
        """The next value: a recorded one, or the next to arrive."""
        if self._recorded:
            self._evaluator.replayed = True
            known = self._recorded.pop()
            self._held.remove(known.number)
            return self._give_out(known.number, known.value if known.why is None else Failed(known.why))
        for number in self._held:
            super().send(number, self._x[number])
        self._held = []
        return super().receive(deadline)

    def close(self) -> None:
        """Return to batches: what has arrived is recorded, what is still being evaluated is given up."""
        if not self.is_replaying and not self._held:
            super().close()
        self._journal.go_on_after(self._sent)

    def _keep(self, number: int, x: Floats, answer: float | Failed) -> None:
        why = answer.reason if isinstance(answer, Failed) else NAN if math.isnan(answer) else None
        value = math.nan if isinstance(answer, Failed) else answer
        self._journal.complete(number, self._sent, x, value, why)
