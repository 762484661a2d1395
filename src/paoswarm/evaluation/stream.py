"""Points sent one at a time, each value received as soon as it is there: for asynchronous runs."""

from __future__ import annotations

import math
import time
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from paoswarm.core.arrays import Floats
from paoswarm.evaluation.calls import Failed
from paoswarm.evaluation.dispatch import Delivery, Dispatcher
from paoswarm.evaluation.engines import EngineDown

if TYPE_CHECKING:
    from paoswarm.evaluation.evaluator import Evaluator


class Arrived(NamedTuple):
    """The value of a point."""

    number: int
    value: Any  # NaN where it failed; a row of value and constraints if there are any
    is_recalled: bool = False  # it was known, and has cost no evaluation


class Stream:
    """Points out, values in.

    Parameters
    ----------
    evaluator : Evaluator
        Checks the form of answers and counts failures.
    dispatcher : Dispatcher
        Sends points.
    """

    def __init__(self, evaluator: Evaluator, dispatcher: Dispatcher) -> None:
        self._evaluator, self._dispatcher = evaluator, dispatcher
        self._x: dict[int, Floats] = {}  # what was sent and not given out
        self._delivered: list[Delivery] = []  # not looked at yet
        self._doubtful: deque[tuple[int, float | Failed]] = deque()  # perhaps mistakes in the code
        self._arrived: deque[tuple[int, float | Failed]] = deque()  # not given out yet

    @property
    def is_replaying(self) -> bool:
        """Whether values come from an earlier run."""
        return False

    @property
    def slots(self) -> int | None:
        """How many points can be worked on at once; None if unknown."""
        return self._dispatcher.slots

    @property
    def room(self) -> float:
        """How many more points may be sent: as many as workers are idle, once all values have been given out."""
        if self._arrived:
            return 0
        slots = self._dispatcher.slots
        return math.inf if slots is None else slots - self._dispatcher.in_hand

    @property
    def in_hand(self) -> int:
        """How many points were sent and not given out."""
        return len(self._x)

    def send(self, number: int, x: Floats) -> None:
        """Send a point ``(d,)``; numbers count from zero in the order of sending."""
        self._x[number] = x
        self._dispatcher.send(number, x[None])

    def pass_over(self) -> None:
        """Note that a point was asked for that is not sent, because its value is known."""

    def receive(self, deadline: float | None) -> Arrived | None:
        """The next value to arrive; None if it is late, or if there is room for another point."""
        self._evaluator.replayed = False
        if self._doubtful and not self._dispatcher.is_busy:  # no other answer will tell
            self._believe()
        if not self._arrived:
            left = None if deadline is None else deadline - time.monotonic()
            self._delivered += self._dispatcher.receive(None if left is not None and left <= 0 else left)
            self._look()
        return self._give_out(*self._arrived.popleft()) if self._arrived else None

    def close(self) -> None:
        """Return to batches: points that are still being evaluated are given up."""
        self._dispatcher.withdraw()  # nothing new begins
        with suppress(KeyboardInterrupt, EngineDown):
            if self._dispatcher.is_busy:
                self._delivered += self._dispatcher.receive(0.0)
        self._look()
        self._believe()
        self._dispatcher.give_up()

    def _look(self) -> None:
        """Check and keep everything that was delivered; an interrupt in between loses nothing."""
        while self._delivered:
            number, answers, _ = self._delivered.pop(0)
            self._doubtful.append((number, self._evaluator.judge(self._x[number], answers[0])))
            if not self._evaluator.is_suspicious:
                self._believe()

    def _believe(self) -> None:
        """Keep and give out what was held back."""
        while self._doubtful:
            number, answer = self._doubtful.popleft()
            self._keep(number, self._x[number], answer)
            self._arrived.append((number, answer))

    def _keep(self, number: int, x: Floats, answer: float | Failed) -> None:
        """Keep an answer before it is used; nothing to do without a store."""

    def _give_out(self, number: int, answer: float | Failed) -> Arrived:
        return Arrived(number, self._evaluator.note(self._x.pop(number), answer))
