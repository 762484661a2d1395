"""A swarm in which every particle moves as soon as its own value is known, by the exact law of its step.

There are no generations. A particle has one evaluation at a time; when its value is told it may be asked again, and
then moves from where it is, pulled by what the swarm knows at that moment. Of several particles that may move, the one
that has waited longest does. Nobody moves before most of the first swarm is known: the first to arrive would follow
each other into regions where evaluations are quick. Everything follows from the order of asks and tells: chance is
drawn when a point is asked for.
"""

from __future__ import annotations

from collections import deque
from typing import Any, NamedTuple

import numpy as np

from paoswarm.core import swarm as swarms
from paoswarm.core.arrays import Floats
from paoswarm.core.swarm import Proposal
from paoswarm.optimize.optimizer import Optimizer

# The share of the first swarm that must be known before a particle moves. With all of it one straggler would hold up
# everybody; benchmarks/asynchronous.py measures what it is good for.
_KNOWN = 0.9


class Job(NamedTuple):
    """A point to evaluate."""

    number: int  # in the order of asking
    x: Floats


class _Asked(NamedTuple):
    particle: int
    move: Proposal | None  # rows of one particle; None for a point of the first swarm
    again: Floats | None = None  # the best that is measured once more


class OneAtATime:
    """The particles of an optimiser, asked and told one by one."""

    def __init__(self, optimizer: Optimizer) -> None:
        self._optimizer = optimizer
        self._n = optimizer.n_particles
        self._first: deque[int] = deque()  # particles whose first point has not been asked for
        self._free: deque[int] = deque()  # those that may move, by how long they have waited
        self._out: dict[int, _Asked] = {}
        self._asked = self._moves = self._again = 0
        unknown = optimizer.begin_unevaluated()
        self._n_first = unknown
        self._first.extend(range(self._n - unknown, self._n))
        self._free.extend(range(self._n - unknown))

    @property
    def n_asked(self) -> int:
        """Points that were asked for."""
        return self._asked

    @property
    def generations(self) -> float:
        """Moves for each particle so far, on average."""
        return max(0, self._optimizer.nfev - self._n_first) / (self._n + self._optimizer.n_again)

    def ask(self, progress: float) -> Job | None:
        """The next point; None if there is none before something is told."""
        optimizer = self._optimizer
        swarm = optimizer.swarm
        assert swarm is not None
        if self._first:
            i = self._first.popleft()
            return self._give(_Asked(i, None), swarm.position[i])
        if not self._free or optimizer.nfev < _KNOWN * self._n_first or swarm.global_value == np.inf:
            return None
        if self._moves * optimizer.n_again > self._again * self._n:
            i = self._to_measure_again()
            return self._give(_Asked(i, None, swarm.best_position[i]), swarm.best_position[i])
        i = self._free.popleft()
        whole = optimizer.propose(progress)
        move = Proposal(*(_rows(part, i, self._n) for part in whole))
        self._moves += 1
        return self._give(_Asked(i, move), whole.position[i])

    def tell(self, number: int, value: float) -> None:
        """The value at the point of a job; NaN where it failed."""
        i, move, again = self._out.pop(number)
        optimizer, method = self._optimizer, self._optimizer.method
        swarm = optimizer.swarm
        assert swarm is not None
        values = np.full(self._n, value)
        if again is not None:
            same = (again == swarm.best_position[i]).all()  # else it was replaced meanwhile
            with np.errstate(over="ignore"):
                after = swarms.remeasure(swarm, np.array([i]), np.array([value if same else np.nan]))
        else:
            mask = np.arange(self._n) == i
            if move is None:
                after = swarms.record(swarm, Proposal(swarm.position, swarm.velocity), values, mask)
            else:
                after = method.tell(swarm, move, values, mask)
            self._free.append(i)
        optimizer.adopt(after, failed=bool(np.isnan(value)))
        optimizer.nit = int(self.generations)

    def _give(self, asked: _Asked, x: Floats) -> Job:
        job = Job(self._asked, np.array(x))
        self._out[job.number] = asked
        self._asked += 1
        return job

    def _to_measure_again(self) -> int:
        """The best of the bests in turn, as many as in a generation."""
        assert self._optimizer.swarm is not None
        order = np.argsort(self._optimizer.swarm.best_value, kind="stable")
        i = int(order[self._again % self._optimizer.n_again])
        self._again += 1
        return i


def _rows(part: Any, i: int, n: int) -> Any:
    """What belongs to one particle, as if it were that of all: only its own row is looked at."""
    if isinstance(part, tuple):
        return type(part)(*(_rows(array, i, n) for array in part))
    return part if part is None or np.ndim(part) == 0 or len(part) != n else np.broadcast_to(part[i], part.shape)
