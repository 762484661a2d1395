"""Points one at a time, each with its value as soon as it is there: for swarms that wait for nobody.

With a journal, the order in which values came is recorded with them, and how many points had been asked for by then: so
a run that depends on who was quickest can be repeated exactly, and resumed.
"""

from __future__ import annotations

import math
import time
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from paoswarm.core.arrays import Floats
from paoswarm.evaluation.calls import NAN, Failed
from paoswarm.evaluation.dispatch import Delivery, Dispatcher
from paoswarm.evaluation.engines import EngineDown
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
        self._delivered: list[Delivery] = []  # not recorded yet
        self._arrived: deque[tuple[int, float | Failed]] = deque()  # recorded, and not given out yet
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
        if self._arrived:  # first things first: the record says that they came before
            return 0
        slots = self._dispatcher.slots
        return math.inf if slots is None else slots - self._dispatcher.in_hand - len(self._held)

    @property
    def in_hand(self) -> int:
        """How many points were sent and have not arrived."""
        return len(self._x)

    def close(self) -> None:
        """Points come in batches again; what has arrived is recorded, what is still being evaluated is given up."""
        with suppress(KeyboardInterrupt, EngineDown):
            if not self._recorded and not self._held and self._dispatcher.is_busy:
                self._delivered += self._dispatcher.receive(0.0)
        self._record()
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

    def receive(self, deadline: float | None) -> Arrived | None:
        """The next value to arrive; None if it is late, or if there is room for another point."""
        self._evaluator.replayed = bool(self._recorded)
        if self._recorded:
            known = self._recorded.pop()
            self._held.remove(known.number)
            return self._give_out(known.number, known.value if known.why is None else Failed(known.why))
        if not self._arrived:
            for number in self._held:
                self._dispatcher.send(number, self._x[number][None])
            self._held = []
            left = None if deadline is None else deadline - time.monotonic()
            self._delivered += self._dispatcher.receive(None if left is not None and left <= 0 else left)
            self._record()
        return self._give_out(*self._arrived.popleft()) if self._arrived else None

    def _record(self) -> None:
        """Everything is recorded at once, though it is given out one by one; an interrupt may come in between."""
        while self._delivered:
            number, answers, _ = self._delivered.pop(0)
            answer, x = answers[0], self._x[number]
            self._evaluator.check_form(x, answer)
            if self._journal is not None:
                why = answer.reason if isinstance(answer, Failed) else NAN if math.isnan(answer) else None
                value = math.nan if isinstance(answer, Failed) else answer
                self._journal.complete(number, self._sent, x, value, why)
            self._arrived.append((number, answer))

    def _give_out(self, number: int, answer: float | Failed) -> Arrived:
        return Arrived(number, self._evaluator.note(self._x.pop(number), answer))
