"""What evaluates the batches of runs: all that wait together, or point by point as workers are free.

A point that is known, from the same run or from a store, is not evaluated again.
"""

from __future__ import annotations

import math
import time
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from paoswarm.core.arrays import Floats
from paoswarm.evaluate.caller import End
from paoswarm.evaluate.calls import Detailed, Failed
from paoswarm.evaluate.dispatch import Delivery
from paoswarm.evaluate.engines import EngineDown
from paoswarm.evaluate.evaluator import Evaluator, Numbers
from paoswarm.store.log import DamagedStore

_ATTEMPTS = 3  # evaluations of a point that fails: the first failures may have other reasons than the point
_NOTHING_NEW = 5000  # known points in a row after which a run has seen all that its method finds


class Recalled(NamedTuple):
    """Rows that a run may have, and which of them are new."""

    keys: list[bytes]
    new: list[int]  # numbers of the rows to evaluate, each point once


class KnownPoints:
    """The values of all rows of a run so far: where all variables are discrete, it meets them again and again.

    One that failed is evaluated again, up to three times. Every run has its own, also of many runs with the same
    function: it must not depend on its company.

    Parameters
    ----------
    n_all : int
        How many different rows there are.

    Attributes
    ----------
    n_recalled : int
        Rows of the latest call whose values were known.
    """

    def __init__(self, n_all: int) -> None:
        self._values: dict[bytes, Any] = {}  # a number, or a list with constraints
        self._n_failures: Counter[bytes] = Counter()
        self._n_all = n_all
        self._in_a_row = 0
        self.n_recalled = 0

    @property
    def is_complete(self) -> bool:
        """Whether every row there is has a value, or is known to fail."""
        return len(self._values) >= self._n_all

    @property
    def is_exhausted(self) -> bool:
        """Whether the run cannot be expected to find new rows."""
        return self.is_complete or self._in_a_row >= _NOTHING_NEW

    def recall(self, rows: Floats, most: int | None = None) -> Recalled:
        """Which of the rows ``(m, d)`` are new.

        Only ``most`` of them may be evaluated. With the last of these the run ends, so the rows after it are left out.
        """
        keys = [row.tobytes() for row in rows + 0.0]  # -0.0 is 0.0
        new: dict[bytes, int] = {}
        for i, key in enumerate(keys):
            if key not in self._values:
                new.setdefault(key, i)
        numbers = list(new.values())
        if most is None or len(numbers) < most:
            return Recalled(keys, numbers)
        return Recalled(keys[: numbers[most - 1] + 1], numbers[:most])

    def values(self, asked: Recalled, measured: Floats) -> Floats:
        """Values of all rows, given those of the new ones.

        There may be fewer of these, if time is up. Then the values of the first rows are returned, up to the gap.
        """
        keys, new = asked
        found = dict(zip((keys[i] for i in new), measured.tolist(), strict=False))
        for key, value in found.items():
            has_failed = math.isnan(np.ravel(value)[0])
            self._n_failures[key] += has_failed
            if not has_failed or self._n_failures[key] == _ATTEMPTS:
                self._values[key] = value
        here = [self._values.get(key, found.get(key)) for key in keys]
        done = here.index(None) if None in here else len(here)
        evaluated = [i for i in new if i < done]
        self.n_recalled = done - len(evaluated)
        self._in_a_row = done - 1 - evaluated[-1] if evaluated else self._in_a_row + done
        return np.array(here[:done], dtype=float)


class Batch(NamedTuple):
    """Points that a run wants evaluated."""

    x: Floats  # (m, d)
    is_divisible: bool = True  # whether the values of the first rows alone are of use
    deadline: float | None = None  # after which the other rows are left out
    is_beyond: bool = False  # whether these points follow the last generation of a single run
    numbers: Numbers = None  # of the rows in a store, if several runs share it
    most: int | None = None  # how many may be evaluated; those that are known cost nothing


class Answer(NamedTuple):
    """Values of a batch: of all points, or of the first ones if the limit was reached, time ran out or it ended."""

    values: Floats
    end: End = None
    replayed: bool = False  # all were known from an earlier run
    recalled: int = 0  # those that this run has evaluated before
    known: KnownPoints | None = None  # what the run has evaluated
    number: int = 0  # of a point that was sent alone, in the order of sending
    failed: Mapping[int, str] = {}  # in which way points have failed, by row


class Queue:
    """Batches in, values out: the batches of all runs that wait are evaluated together.

    Parameters
    ----------
    evaluate : Evaluator
    known : sequence of KnownPoints, optional
        For each run the points that it has evaluated; they are recalled.
    """

    def __init__(self, evaluate: Evaluator, known: Sequence[KnownPoints] | None = None) -> None:
        self._evaluate, self._known = evaluate, known
        self._waiting: list[tuple[int, Batch]] = []

    @property
    def room(self) -> float:
        """How many more points keep workers busy that are idle."""
        return 0

    @property
    def is_replaying(self) -> bool:
        """Whether the latest values were all known from an earlier run."""
        return self._evaluate.replayed

    def send(self, run: int, batch: Batch) -> None:
        """Queue a batch of a run."""
        self._waiting.append((run, batch))

    def receive(self, deadline: float | None = None) -> list[tuple[int, Answer]]:
        """The answers to all batches that wait, each with the number of its run; new points are evaluated together.

        Divisible batches are answered even if evaluation ends early; otherwise what ends it is raised.
        """
        waiting, self._waiting = self._waiting, []
        first = waiting[0][1]
        if first.is_beyond and not self._evaluate.go_beyond():
            return [(waiting[0][0], Answer(np.empty(0)))]
        parts = [(run, *self._recall(run, batch)) for run, batch in waiting]
        points, numbers, end, values = np.concatenate([x for *_, x in parts]), first.numbers, None, np.empty(0)
        if numbers is not None:  # the new points have the first numbers, so that those of a run have no gaps
            pairs = zip(waiting, parts, strict=True)
            numbers = np.concatenate([np.asarray(batch.numbers)[: len(x)] for (_, batch), (*_, x) in pairs])
        failed: Mapping[int, str] = {}
        if len(points):
            values, end = self._evaluate.until(first.deadline if len(waiting) == 1 else None, points, numbers)
            failed = self._evaluate.failed
        if end is not None and not all(batch.is_divisible for _, batch in waiting):
            raise end
        answers, begin = [], 0
        for run, recalled, x in parts:
            stop = begin + len(x)
            own = {row - begin: kind for row, kind in failed.items() if begin <= row < stop}
            answer = Answer(values[begin:stop], end, self._evaluate.replayed, failed=own)
            answers.append((run, self._completed(run, recalled, answer)))
            begin = stop
        return answers

    def _recall(self, run: int, batch: Batch) -> tuple[Recalled | None, Floats]:
        """What the run knows of a batch, None if it keeps nothing, and the points to evaluate."""
        if self._known is None:
            return None, batch.x[: batch.most]
        recalled = self._known[run].recall(self._evaluate.rows(batch.x), batch.most)
        return recalled, batch.x[recalled.new]

    def _completed(self, run: int, recalled: Recalled | None, answer: Answer) -> Answer:
        """The answer for all points, from that for the new ones."""
        if self._known is None or recalled is None:
            return answer
        known = self._known[run]
        values = known.values(recalled, answer.values)
        failed = {recalled.new[row]: kind for row, kind in answer.failed.items()}
        return answer._replace(values=values, recalled=known.n_recalled, known=known, failed=failed)

    def close(self) -> None:
        """Give up points that are still being evaluated."""

    def explain_total_failure(self) -> ValueError:
        """The error for a first swarm without a single finite value."""
        return self._evaluate.explain_total_failure()


class PointQueue(Queue):
    """Points one at a time, each value as soon as it is there, for one run that takes them in any order.

    With a store, recorded values are given out first, in the order in which they came, and when as many points were
    asked for as then. So a run that depends on which worker was quickest can be repeated exactly, and resumed. A point
    that is known is given out before anything else; one that is being evaluated is waited for.
    """

    def __init__(self, evaluate: Evaluator, known: Sequence[KnownPoints] | None = None) -> None:
        super().__init__(evaluate, known)
        self._dispatcher = evaluate.caller.dispatcher()
        self._journal = evaluate.journal
        self._is_open = True
        self._n_asked = self._n_sent = 0  # points; those that were asked for may be known and not sent
        self._x: dict[int, Floats] = {}  # what was sent and not given out, by number of sending
        self._waiters: dict[int, tuple[Recalled | None, list[int]]] = {}  # numbers of asking that wait for these
        self._under_way: dict[bytes, int] = {}  # number of sending, by point
        self._ready: deque[Answer] = deque()  # known, to be given out
        self._recorded = [] if self._journal is None else self._journal.completions()[::-1]  # the next one last
        self._held: list[int] = []  # sent while recorded values are given out; they leave when these are used up
        self._delivered: list[Delivery] = []  # not looked at yet
        self._doubtful: deque[tuple[int, float | Failed]] = deque()  # perhaps mistakes in the code
        self._arrived: deque[tuple[int, float | Failed]] = deque()  # not given out yet

    @property
    def slots(self) -> int | None:
        """How many points can be worked on at once; None if unknown."""
        return self._dispatcher.slots

    @property
    def is_replaying(self) -> bool:
        """Whether values come from an earlier run."""
        return bool(self._recorded) if self._is_open else super().is_replaying

    @property
    def room(self) -> float:
        """How many more points may be sent: as many as were asked for at this moment before, then as workers idle."""
        if self._ready or self._arrived or not self._is_open:
            return 0
        if self._recorded:
            return self._recorded[-1].asked - self._n_asked
        slots = self._dispatcher.slots
        return math.inf if slots is None else slots - self._dispatcher.in_hand - len(self._held)

    def send(self, run: int, batch: Batch) -> None:
        """Send the points of a batch; raise if other ones are recorded in their place."""
        if not self._is_open:
            super().send(run, batch)
            return
        if batch.is_beyond and self._journal is not None:
            self._journal.polish(self._n_sent)
        for row in self._evaluate.rows(batch.x):
            number, self._n_asked = self._n_asked, self._n_asked + 1
            recalled = None if self._known is None else self._known[0].recall(row[None])
            if recalled is None:
                self._send_one(number, row, None)
            elif not recalled.new:
                self._ready.append(self._completed(0, recalled, Answer(np.empty(0), number=number)))
            elif recalled.keys[0] in self._under_way:
                self._waiters[self._under_way[recalled.keys[0]]][1].append(number)
            else:
                self._under_way[recalled.keys[0]] = self._n_sent
                self._send_one(number, row, recalled)

    def _send_one(self, number: int, row: Floats, recalled: Recalled | None) -> None:
        sent, self._n_sent = self._n_sent, self._n_sent + 1
        self._x[sent], self._waiters[sent] = row, (recalled, [number])
        if self._journal is not None and self._journal.check(sent, row):
            self._forget_the_end(sent)
        if self._recorded:
            self._held.append(sent)
        else:
            self._dispatcher.send(sent, row[None])

    def receive(self, deadline: float | None = None) -> list[tuple[int, Answer]]:
        """The next value; nothing if it is late, or if there is room for another point."""
        if not self._is_open:
            return super().receive(deadline)
        if self._ready:
            return [(0, self._ready.popleft())]
        if self._recorded and self._recorded[-1].number not in self._held:
            self._forget_the_end(self._recorded[-1].number)
        if self._recorded:
            return self._give_out(*self._next_recorded(), replayed=True)
        for sent in self._held:
            self._dispatcher.send(sent, self._x[sent][None])
        self._held = []
        self._evaluate.replayed = False
        if self._doubtful and not self._dispatcher.is_busy:  # no other answer will tell
            self._believe()
        if not self._arrived:
            left = None if deadline is None else deadline - time.monotonic()
            self._delivered += self._dispatcher.receive(None if left is not None and left <= 0 else left)
            self._look()
        return self._give_out(*self._arrived.popleft()) if self._arrived else []

    def close(self) -> None:
        """Return to whole batches: what has arrived is kept, points that are still being evaluated are given up."""
        if not self._recorded and not self._held:
            self._dispatcher.withdraw()  # nothing new begins
            with suppress(KeyboardInterrupt, EngineDown):
                if self._dispatcher.is_busy:
                    self._delivered += self._dispatcher.receive(0.0)
            self._look()
            self._believe()
            self._dispatcher.give_up()
        if self._journal is not None:
            self._journal.go_on_after(self._n_sent)
        self._is_open = False

    def _forget_the_end(self, number: int) -> None:
        """Give out no values of polishing that a point is part of: the run had other limits, and goes on here."""
        assert self._journal is not None
        self._journal.set_polishing_aside(number)
        self._recorded = [one for one in self._recorded if one.number < self._journal.n_before_polishing]

    def _next_recorded(self) -> tuple[int, float | Failed]:
        """The value that came next when the run was recorded."""
        assert self._journal is not None
        self._evaluate.replayed = True
        recorded = self._recorded.pop()
        if recorded.number not in self._held:
            raise DamagedStore(
                f"{self._journal.path} is damaged: evaluation {recorded.number} is recorded before the run asked for "
                "it. The file was not changed: choose another store"
            )
        self._held.remove(recorded.number)
        self._journal.n_recalled += 1
        value = recorded.value if recorded.details is None else Detailed(recorded.value, recorded.details)
        return recorded.number, value if recorded.why is None else Failed(recorded.why)

    def _look(self) -> None:
        """Check and keep everything that was delivered; an interrupt in between loses nothing."""
        while self._delivered:
            sent, answers, _ = self._delivered.pop(0)
            self._doubtful.append((sent, self._evaluate.judge(self._x[sent], answers[0])))
            if not self._evaluate.first.is_suspicious:
                self._believe()

    def _believe(self) -> None:
        """Record the answers that were held back because they may show a mistake, and let them be given out."""
        while self._doubtful:
            sent, answer = self._doubtful.popleft()
            self._evaluate.record_one(sent, self._n_asked, self._x[sent], answer, self._n_asked - self._n_sent)
            self._arrived.append((sent, answer))

    def _give_out(self, sent: int, answer: float | Failed, replayed: bool = False) -> list[tuple[int, Answer]]:
        value = np.asarray(self._evaluate.note(self._x.pop(sent), answer))[None]
        recalled, (number, *others) = self._waiters.pop(sent)
        found = Answer(value, None, replayed, number=number, failed=self._evaluate.failed)
        if recalled is not None:
            del self._under_way[recalled.keys[0]]
            found = self._completed(0, recalled, found)
            again = found._replace(recalled=1, replayed=False, failed={})
            self._ready.extend(again._replace(number=other) for other in others)
        return [(0, found)]
