"""Points sent one at a time, of which those that are known come back at once."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np

from paoswarm.core.arrays import Floats
from paoswarm.evaluation.known_points import KnownPoints, Recalled
from paoswarm.evaluation.stream import Arrived, Stream


class RecallingStream:
    """A `Stream` that evaluates no point twice.

    A point that is known is given out before anything else. One that is being evaluated is waited for. So what happens
    follows from the order in which new values arrive, and a stored run is repeated from these alone.
    """

    def __init__(self, stream: Stream, known: KnownPoints) -> None:
        self._stream, self._known = stream, known
        self._n_sent = 0
        self._asked: dict[int, tuple[Recalled, list[int]]] = {}  # by number of sending: who waits for the value
        self._under_way: dict[bytes, int] = {}
        self._ready: deque[Arrived] = deque()

    @property
    def is_replaying(self) -> bool:
        """Whether values come from an earlier run."""
        return self._stream.is_replaying

    @property
    def slots(self) -> int | None:
        """How many points can be worked on at once; None if unknown."""
        return self._stream.slots

    @property
    def room(self) -> float:
        """How many more points may be sent: none before the known values have been given out."""
        return 0 if self._ready else self._stream.room

    @property
    def in_hand(self) -> int:
        """How many points were sent and not given out."""
        return self._stream.in_hand + len(self._ready)

    def send(self, number: int, x: Floats) -> None:
        """Send a point ``(d,)``, unless its value is known."""
        asked = self._known.recall(x[None])
        (key,) = asked.keys
        if not asked.new:
            self._stream.pass_over()
            self._ready.append(Arrived(number, self._known.values(asked, np.empty(0))[0], is_recalled=True))
        elif key in self._under_way:
            self._stream.pass_over()
            self._asked[self._under_way[key]][1].append(number)
        else:
            self._asked[self._n_sent], self._under_way[key] = (asked, [number]), self._n_sent
            self._stream.send(self._n_sent, x)
            self._n_sent += 1

    def receive(self, deadline: float | None) -> Arrived | None:
        """The next value: a known one, or the next to arrive."""
        if self._ready:
            return self._ready.popleft()
        arrived = self._stream.receive(deadline)
        if arrived is None:
            return None
        asked, (first, *others) = self._asked.pop(arrived.number)
        del self._under_way[asked.keys[0]]
        value: Any = self._known.values(asked, np.asarray(arrived.value)[None])[0]
        self._ready.extend(Arrived(number, value, is_recalled=True) for number in others)
        return Arrived(first, value)

    def close(self) -> None:
        """Return to batches."""
        self._stream.close()
