"""Points one at a time, each with its value as soon as it is there: for swarms that wait for nobody.

With a journal, the order in which values came is recorded with them, and how many points had been asked for by then: so
a run that depends on who was quickest can be repeated exactly, and resumed.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, NamedTuple

from paoswarm.core.walled import Floats
from paoswarm.evaluation.calls import NAN, Failed
from paoswarm.evaluation.dispatch import Dispatcher
from paoswarm.storage.journal import Journal

if TYPE_CHECKING:
    from paoswarm.evaluation.evaluator import Evaluator


class Arrived(NamedTuple):
    """The value of a point."""

    number: int
    value: float  # NaN where it failed


class Stream:
    """Send points, receive values.

    Parameters
    ----------
    evaluator : Evaluator
        Checks the form of answers and counts failures.
    dispatcher : Dispatcher
        Sends points.
    journal : Journal, optional
        Recorded values are given out first, in the recorded order.
    """

    def __init__(self, evaluator: Evaluator, dispatcher: Dispatcher, journal: Journal | None) -> None:
        self._evaluator, self._dispatcher, self._journal = evaluator, dispatcher, journal
        self._x: dict[int, Floats] = {}  # what was sent and has not arrived
        self._sent = 0
        self._recorded = [] if journal is None else journal.completions()[::-1]  # the next one last
        self._held: list[int] = []  # sent while recorded values were given out: they leave when these are used up

    @property
    def is_replaying(self) -> bool:
        """Whether values come from the journal."""
        return bool(self._recorded)

    @property
    def slots(self) -> int | None:
        """How many points can be worked on at once; None where nobody knows."""
        return self._dispatcher.slots

    @property
    def room(self) -> float:
        """How many more points may be sent: as many as workers are idle, or as were sent at this moment before."""
        if self._recorded:
            return self._recorded[-1].asked - self._sent
        slots = self._dispatcher.slots
        return math.inf if slots is None else slots - self._dispatcher.in_hand - len(self._held)

    @property
    def in_hand(self) -> int:
        """How many points were sent and have not arrived."""
        return len(self._x)

    def close(self) -> None:
        """Points come in batches again; what is still being evaluated is given up."""
        self._dispatcher.give_up()
        if self._journal is not None:
            self._journal.go_on_after(self._sent)

    def send(self, number: int, x: Floats) -> None:
        """A point ``(d,)``; numbers count from zero in the order of sending."""
        self._x[number] = x
        self._sent += 1
        if self._journal is not None:
            self._journal.check(number, x)
        if self._recorded:
            self._held.append(number)
        else:
            self._dispatcher.send(number, x[None])

    def receive(self, deadline: float | None) -> list[Arrived]:
        """What has arrived, one at least unless it is late or nothing is in hand."""
        self._evaluator.replayed = bool(self._recorded)
        if self._recorded:
            known = self._recorded.pop()
            self._held.remove(known.number)
            answer = known.value if known.why is None else Failed(known.why)
            return [Arrived(known.number, self._evaluator.note(self._x.pop(known.number), answer))]
        for number in self._held:
            self._dispatcher.send(number, self._x[number][None])
        self._held = []
        timeout = None if deadline is None else max(0.0, deadline - time.monotonic())
        arrived = []
        for number, answers, _ in self._dispatcher.receive(timeout):
            x = self._x.pop(number)
            value = self._evaluator.note(x, answers[0])  # raises where the form is wrong, before that is recorded
            if self._journal is not None:
                why = answers[0].reason if isinstance(answers[0], Failed) else NAN
                self._journal.complete(number, self._sent, x, value, why if math.isnan(value) else None)
            arrived.append(Arrived(number, value))
        return arrived
