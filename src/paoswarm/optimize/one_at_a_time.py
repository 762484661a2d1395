"""Optimisers that are asked for one point at a time and told its value whenever it arrives, for asynchronous runs.

Everything follows from the order of asks and tells: chance is drawn when a point is asked for, and an ask that returns
None draws nothing. So a recorded order repeats a run.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from typing import Any, NamedTuple

import numpy as np

from paoswarm.core import order
from paoswarm.core import swarm as swarms
from paoswarm.core.arrays import Floats
from paoswarm.core.swarm import Proposal
from paoswarm.optimize.optimizer import Optimizer
from paoswarm.optimize.stopping import Limits

# The share of the first swarm that must be known before a particle moves. If all of it had to be known, one slow
# evaluation would hold up every worker; benchmarks/asynchronous.py measures the effect.
_KNOWN = 0.9


class Job(NamedTuple):
    """A point to evaluate."""

    number: int  # in the order of asking
    x: Floats


class OneAtATime(Optimizer, ABC):
    """What an asynchronous loop needs from an optimiser."""

    n_asked = 0  # points that were asked for

    def may_ask(self, limits: Limits) -> bool:
        """Whether one more point may be asked for; those that turn out to be known cost nothing."""
        return limits.maxfev is None or self.n_asked - self.n_recalled < limits.maxfev

    @property
    @abstractmethod
    def generations(self) -> float:
        """Generations so far, on which schedules depend."""

    @property
    @abstractmethod
    def is_complete(self) -> bool:
        """Whether no generation has begun since the last one was completed."""

    @abstractmethod
    def ask_one(self, progress: float) -> Job | None:
        """The next point; None if there is none before something is told."""

    @abstractmethod
    def tell_one(self, number: int, value: Any, is_recalled: bool = False) -> bool:
        """The value at the point of a job, NaN where it failed; returns whether that completes a generation.

        With constraints it is a row of value and constraints. A value that ``is_recalled`` was known before.
        """

    @abstractmethod
    def cut_short(self) -> None:
        """End the generation that has begun with the values that have arrived."""

    def _job(self, x: Floats) -> Job:
        self.n_asked += 1
        return Job(self.n_asked - 1, np.array(x))

    def _scored_one(self, x: Floats, answer: Any) -> float:
        """What one point is compared by; with constraints the answer is a row."""
        return answer if self.feasibility is None else float(self.scored(x[None], answer[None])[0])

    def _count_one(self, value: float, is_recalled: bool) -> None:
        self.nfev += not is_recalled
        self.n_recalled += is_recalled
        self.n_failed = self.n_failed + bool(np.isnan(value))


class _Asked(NamedTuple):
    particle: int
    move: Proposal | None  # rows of one particle; None for a point of the first swarm
    again: Floats | None = None  # the best that is measured once more


class ParticleByParticle(OneAtATime):
    """Every particle moves as soon as its own value is known, by the exact law of its step.

    A particle has one evaluation at a time. When its value is told it may be asked again, and then moves from where it
    is, pulled by what the swarm knows at that moment. If several particles may move, the one that has waited longest
    does. No particle moves before most of the first swarm is known: the first values come from regions where
    evaluations are quick, and the swarm would gather there. A generation is as many evaluations as there are particles
    and bests to measure again.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._n, self._n_first = self.n_particles, self.n_to_start
        self._size = self._n + self.n_again  # evaluations of a generation
        self._best_before = self._best  # at the end of the last generation
        self._boundary = self._n_first or self._size  # evaluations with which a generation is complete
        self._is_complete = True
        n_known = self._n - self._n_first
        self._to_start = deque(range(n_known, self._n))  # particles whose first point has not been asked for
        self._free = deque(range(n_known))  # those that may move, by how long they have waited
        self._out: dict[int, _Asked] = {}
        self._n_moves = self._n_again = 0  # asked for so far

    def may_ask(self, limits: Limits) -> bool:
        """Whether one more point may be asked for."""
        most = None if limits.maxiter is None else self._n_first + limits.maxiter * self._size
        return (most is None or self.n_asked < most) and super().may_ask(limits)

    @property
    def _n_told(self) -> int:
        return self.nfev + self.n_recalled

    @property
    def generations(self) -> float:
        """Moves for each particle so far, on average."""
        return max(0, self._n_told - self._n_first) / self._size

    @property
    def is_complete(self) -> bool:
        """Whether no generation has begun since the last one was completed."""
        return self._is_complete

    def ask_one(self, progress: float) -> Job | None:
        """The next point; None if there is none before something is told."""
        if self.swarm is None:
            self._start()
        swarm = self.swarm
        assert swarm is not None
        if self._to_start:
            i = self._to_start.popleft()
            return self._give(_Asked(i, None), swarm.position[i])
        if not self._free or self._n_told < _KNOWN * self._n_first or swarm.global_value == np.inf:
            return None
        if self._n_moves * self.n_again > self._n_again * self._n:
            i = self._to_measure_again()
            return self._give(_Asked(i, None, swarm.best_position[i]), swarm.best_position[i])
        whole = self._mover.ask(swarm, self._draw, progress)
        if len(whole.position) != self._n:
            raise ValueError(
                f"{type(self.method).__name__} says that it moves_singly, but asked for {len(whole.position)} points "
                f"with {self._n} particles: set moves_singly = False"
            )
        self._progress = progress
        i = self._free.popleft()
        self._n_moves += 1
        move = Proposal(*(_rows(part, i, self._n) for part in whole))
        return self._give(_Asked(i, move), whole.position[i])

    def tell_one(self, number: int, value: Any, is_recalled: bool = False) -> bool:
        """The value at the point of a job, NaN where it failed; returns whether that completes a generation."""
        i, move, again = self._out.pop(number)
        swarm = self.swarm
        assert swarm is not None
        where = again if again is not None else swarm.position[i] if move is None else move.position[i]
        value = self._scored_one(where, value)
        if again is not None:
            same = (again == swarm.best_position[i]).all()  # else it was replaced meanwhile
            measured = np.array([value if same else np.nan])
            with np.errstate(over="ignore"):
                if self.feasibility is not None:
                    after = self._remeasured_in_order(swarm, np.array([i]), measured)
                else:
                    after = swarms.remeasure(swarm, np.array([i]), measured)
        else:
            mask, values = np.arange(self._n) == i, np.full(self._n, value)
            if move is None:
                after = swarms.record(swarm, Proposal(swarm.position, swarm.velocity), values, mask)
            else:
                if self.feasibility is not None and self.feasibility.is_tolerant:
                    objective = self.feasibility.objective(swarm.snapped(where)[None], is_all=False)
                    move = move._replace(objective=objective.repeat(self._n))
                after = self._mover.tell(swarm, move, values, mask)
            self._free.append(i)
        x = swarm.position[i] if move is None else move.position[i]
        self.swarm = after
        self._count_one(value, is_recalled)
        if self._n_told == self._n_first:
            self.swarm = self._tolerant(after)
        self._improve(x[None], np.array([np.nan if again is not None else value]))
        self.nit = int(self.generations)
        self._is_complete = self._n_told >= self._boundary
        if self._is_complete:
            assert self._best_before is not None
            self._count_stale(self._best_before, generations=int(self._n_told > self._n_first))
            self._best_before = self.incumbent
            self._boundary += self._size
        return self._is_complete

    def cut_short(self) -> None:
        """End the generation that has begun with the values that have arrived."""
        self.nit += int(self._n_told > self._n_first)  # the first swarm is not a generation
        self._is_complete = True

    def _start(self) -> None:
        """Make the first swarm; values that are not known yet count as +inf."""
        assert self._first is not None
        self._first.points(self._draw.generators, self.batch)
        self._begin(np.full(self._n_first, np.inf), may_fail=True)
        self._best_before = self.incumbent

    def _give(self, asked: _Asked, x: Floats) -> Job:
        job = self._job(x)
        self._out[job.number] = asked
        return job

    def _to_measure_again(self) -> int:
        """The best of the bests in turn, by their means, as many as in a generation."""
        assert self.swarm is not None
        i = int(order.ranked(self.swarm.best_value)[self._n_again % self.n_again])
        self._n_again += 1
        return i


class GenerationByGeneration(OneAtATime):
    """Points of whole generations, for methods that cannot move particles one at a time.

    The points of a generation are given out one by one; the next generation begins when all their values are there.
    The result does not depend on the order in which they arrive.
    """

    _values: Floats | None = None  # of the generation that has begun; NaN where none has arrived
    _has_arrived: Any = None
    _n_given = 0  # points of this generation that were asked for
    _number = 0  # of its first point

    @property
    def generations(self) -> float:
        """Generations so far."""
        return self.nit

    @property
    def is_complete(self) -> bool:
        """Whether no generation has begun since the last one was completed."""
        return self._values is None or not self._has_arrived.any()

    def ask_one(self, progress: float) -> Job | None:
        """The next point; None if there is none before something is told."""
        if self._values is None:
            points = self.points(progress)
            self._values = np.full(len(points), np.nan)
            self._has_arrived = np.zeros(len(points), dtype=bool)
            self._n_given, self._number = 0, self.n_asked
        assert self._pending is not None
        if self._n_given == len(self._pending):
            return None
        self._n_given += 1
        return self._job(self._pending[self._n_given - 1])

    def tell_one(self, number: int, value: Any, is_recalled: bool = False) -> bool:
        """The value at the point of a job, NaN where it failed; returns whether that completes a generation."""
        assert self._values is not None
        row = number - self._number
        assert self._pending is not None
        value = self._scored_one(self._pending[row], value)
        self._values[row], self._has_arrived[row] = value, True
        self._count_one(value, is_recalled)
        is_complete = bool(self._has_arrived.all())
        if is_complete:
            self.cut_short()
        return is_complete

    def cut_short(self) -> None:
        """End the generation that has begun with the values that have arrived."""
        assert self._values is not None
        assert self._pending is not None
        x, f, before = self._pending, self._values, self.swarm
        self._pending = self._values = None
        if before is None:
            self._begin(f, may_fail=True)
        else:
            self._move_on(before, x, f, None if self._has_arrived.all() else self._has_arrived, None)


def _rows(part: Any, i: int, n: int) -> Any:
    """What belongs to one particle, repeated for all: only its own row counts."""
    if hasattr(part, "_fields"):
        return type(part)(*(_rows(array, i, n) for array in part))
    has_rows = isinstance(part, np.ndarray) and part.ndim > 0 and len(part) == n
    return np.broadcast_to(part[i], part.shape) if has_rows else part
