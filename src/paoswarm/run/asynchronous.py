"""Particles that move one at a time, each as soon as its own value is known, by the exact law of its step."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Generator
from typing import Any, NamedTuple

import numpy as np

from paoswarm.core import order
from paoswarm.core import swarm as swarms
from paoswarm.core.arrays import Floats
from paoswarm.core.swarm import Proposal
from paoswarm.evaluate.engines import EngineDown
from paoswarm.evaluate.queue import Answer, Batch, KnownPoints, PointQueue
from paoswarm.methods import moves
from paoswarm.run.beside import is_worth_it
from paoswarm.run.run import NoFiniteValue, Observe, Run, Steps, StopAll, rule_of, status_of
from paoswarm.run.run_state import RunState
from paoswarm.run.stopping import Limits, Rule, Status

# The share of the first swarm that must be known before a particle moves. If all of it had to be known, one slow
# evaluation would hold up every worker; benchmarks/asynchronous.py measures the effect.
_KNOWN = 0.9


class _Asked(NamedTuple):
    particle: int
    move: Proposal | None  # rows of one particle; None for a point of the first swarm
    again: Floats | None = None  # the best that is measured once more


class Particles:
    """The particles of a run, asked for and told in any order.

    A particle has one evaluation at a time. When its value is told it may be asked again, and then moves from where it
    is, pulled by what the swarm knows at that moment. If several particles may move, the one that has waited longest
    does. No particle moves before most of the first swarm is known: the first values come from regions where
    evaluations are quick, and the swarm would gather there. A generation is as many evaluations as there are particles
    and bests to measure again.

    Everything follows from the order of asks and tells: chance is drawn when a point is asked for, and an ask that
    returns None draws nothing. So a recorded order repeats a run.
    """

    def __init__(self, state: RunState) -> None:
        self._state = state
        self._n, self._n_first = state.n_particles, state.n_to_start
        self._size = self._n + state.n_again  # evaluations of a generation
        self._best_before: Any = None if state.swarm is None else state.incumbent  # at the end of the last generation
        self._boundary = self._n_first or self._size  # evaluations with which a generation is complete
        self.is_complete = True  # no generation has begun since the last one was completed
        self.n_asked = 0
        n_known = self._n - self._n_first
        self._to_start = deque(range(n_known, self._n))  # particles whose first point has not been asked for
        self._free = deque(range(n_known))  # those that may move, by how long they have waited
        self._out: dict[int, _Asked] = {}
        self._n_moves = self._n_again = 0  # asked for so far

    @property
    def n_out(self) -> int:
        """Points that were asked for and not told yet."""
        return len(self._out)

    def may_ask(self, limits: Limits) -> bool:
        """Whether one more point may be asked for; those that turn out to be known cost nothing."""
        most = None if limits.maxiter is None else self._n_first + limits.maxiter * self._size
        is_in_budget = limits.maxfev is None or self.n_asked - self._state.n_recalled < limits.maxfev
        return is_in_budget and (most is None or self.n_asked < most)

    @property
    def _n_told(self) -> int:
        return self._state.nfev + self._state.n_recalled

    @property
    def generations(self) -> float:
        """Moves for each particle so far, on average; schedules depend on them."""
        return max(0, self._n_told - self._n_first) / self._size

    def ask(self, progress: float) -> Floats | None:
        """The next point; None if there is none before something is told."""
        state = self._state
        if state.swarm is None:  # values that are not known yet count as +inf
            state.first_points()
            state.begin(np.full(self._n_first, np.inf), may_fail=True)
            self._best_before = state.incumbent
        swarm = state.swarm
        assert swarm is not None
        if self._to_start:
            i = self._to_start.popleft()
            return self._give(_Asked(i, None), swarm.position[i])
        if not self._free or self._n_told < _KNOWN * self._n_first or swarm.global_value == np.inf:
            return None
        if self._n_moves * state.n_again > self._n_again * self._n:
            i = self._to_measure_again()
            return self._give(_Asked(i, None, swarm.best_position[i]), swarm.best_position[i])
        whole = moves.ask(state.method, swarm, state.draw, progress)
        if len(whole.position) != self._n:
            raise ValueError(
                f"{type(state.method).__name__} says that it moves_singly, but asked for {len(whole.position)} points "
                f"with {self._n} particles: set moves_singly = False"
            )
        i = self._free.popleft()
        self._n_moves += 1
        move = Proposal(*(_rows(part, i, self._n) for part in whole))
        return self._give(_Asked(i, move), whole.position[i])

    def tell(self, answer: Answer) -> bool:
        """The value at a point, NaN where it failed; returns whether that completes a generation."""
        state = self._state
        i, move, again = self._out.pop(answer.number)
        swarm = state.swarm
        assert swarm is not None
        where = again if again is not None else swarm.position[i] if move is None else move.position[i]
        state.note_failures(answer.failed, [0])
        value = float(state.scored(where[None], answer.values)[0])
        if again is not None:
            same = (again == swarm.best_position[i]).all()  # else it was replaced meanwhile
            after = state.judge.remeasured(swarm, np.array([i]), np.array([value if same else np.nan]))
        else:
            mask, values = np.arange(self._n) == i, np.full(self._n, value)
            if move is None:
                after = swarms.record(swarm, Proposal(swarm.position, swarm.velocity), values, mask)
            else:
                if state.judge.is_tolerant:
                    objective: Any = state.judge.objective(swarm.snapped(where)[None], is_all=False)
                    move = move._replace(objective=objective.repeat(self._n))
                after = moves.tell(state.method, swarm, move, values, mask, state.tol)
            self._free.append(i)
        x = swarm.position[i] if move is None else move.position[i]
        state.swarm = after
        state.nfev += not answer.recalled
        state.n_recalled += answer.recalled
        if self._n_told == self._n_first:
            state.swarm = state.judge.tolerant(after, state.method)
        state.improve(x[None], np.array([np.nan if again is not None else value]))
        state.nit = int(self.generations)
        self.is_complete = self._n_told >= self._boundary
        if self.is_complete:
            state.count_stale(self._best_before, generations=int(self._n_told > self._n_first))
            self._best_before = state.incumbent
            self._boundary += self._size
        return self.is_complete

    def cut_short(self) -> None:
        """End the generation that has begun with the values that have arrived."""
        self._state.nit += int(self._n_told > self._n_first)  # the first swarm is not a generation
        self.is_complete = True

    def _give(self, asked: _Asked, x: Floats) -> Floats:
        self._out[self.n_asked] = asked
        self.n_asked += 1
        return np.array(x)

    def _to_measure_again(self) -> int:
        """The best of the bests in turn, by their means, as many as in a generation."""
        assert self._state.swarm is not None
        i = int(order.ranked(self._state.swarm.best_value)[self._n_again % self._state.n_again])
        self._n_again += 1
        return i


def _rows(part: Any, i: int, n: int) -> Any:
    """What belongs to one particle, repeated for all: only its own row counts."""
    if hasattr(part, "_fields"):
        return type(part)(*(_rows(array, i, n) for array in part))
    has_rows = isinstance(part, np.ndarray) and part.ndim > 0 and len(part) == n
    return np.broadcast_to(part[i], part.shape) if has_rows else part


class AsynchronousRun(Run):
    """Take a run to its end whose particles move as soon as their own values are known.

    The clock and the target are checked after every value, other limits after every generation. When time is up, the
    points that are being evaluated are waited for; when the target is reached, they are not.
    """

    def __init__(self, state: RunState, limits: Limits, observe: Observe, queue: PointQueue) -> None:
        super().__init__(state, limits, observe)
        self._queue, self._particles = queue, Particles(state)
        self._known: KnownPoints | None = None

    def _course(self) -> Steps:
        state, particles = self.state, self._particles
        status: Status | None = None
        try:
            if state.n_to_start == 0:  # a run that is continued
                status = self._reached()
            while status is None:
                x = self._ask_one()
                if x is None and particles.n_out == 0:
                    status = Status.TIME
                    break
                answer: Answer | None = yield [] if x is None else [Batch(x[None])]
                if answer is not None:
                    status = self._tell_one(answer)
            if not particles.is_complete and status in (Status.TIME, Status.MAXFEV, Status.TARGET):
                particles.cut_short()
                status = self._after_generation() or status
        except (KeyboardInterrupt, EngineDown, StopAll) as error:
            if state.swarm is None or state.incumbent.value == np.inf:
                raise
            if not particles.is_complete:
                particles.cut_short()
                self._observe(state)
            status, self._why = status_of(error)
        yield from self._finish(status)
        nit, nfev = np.asarray(state.nit), np.asarray(state.nfev)  # values may have come since it has ended
        return self.so_far._replace(nit=nit, nfev=nfev)

    def _finish(self, status: Status) -> Generator[list[Batch], Answer, None]:
        """Give up what is being evaluated, and look around the place where the run has stopped, if it has converged."""
        self._queue.close()
        self._end(status)
        rule = rule_of(self._known) or self.state.has_converged(self.limits.tol)
        self._rule = np.asarray(Rule.NONE if rule is None else rule)
        if status is Status.CONVERGED and is_worth_it(self._rule, self.limits.tol):
            try:
                yield from self._look_around(np.asarray(True))
            except (KeyboardInterrupt, EngineDown, StopAll) as error:
                ended, self._why = status_of(error)
                self._status = np.asarray(ended)

    def _ask_one(self) -> Floats | None:
        """The next point, if there is room, time and budget for one."""
        limits, nfev = self.limits, self.state.nfev
        late = limits.deadline is not None and nfev > 0 and time.monotonic() >= limits.deadline
        may_ask = self._queue.is_replaying or (not late and self._particles.may_ask(limits))
        if not may_ask or self._queue.room <= 0:
            return None
        return self._particles.ask(limits.progress(self._particles.generations, nfev))

    def _tell_one(self, answer: Answer) -> Status | None:
        """Take the value of a point; why the run ends with it, if it does."""
        state = self.state
        self._known = answer.known
        is_generation = self._particles.tell(answer)
        if answer.replayed:  # recorded values take no time of this call
            self.limits = self.limits.restarted()
        if is_generation:
            return self._after_generation()
        if state.swarm is not None and self.limits.is_hit(state.incumbent):
            return Status.TARGET
        return Status.MAXFEV if self.limits.maxfev is not None and state.nfev >= self.limits.maxfev else None

    def _after_generation(self) -> Status | None:
        if self.state.incumbent.value == np.inf:
            raise NoFiniteValue
        self._observe(self.state)
        return self._reached()

    def _reached(self) -> Status | None:
        """The limit that holds now, if any but the clock: when time is up, points under way are waited for."""
        state, rule = self.state, rule_of(self._known)
        converged = np.asarray(rule) if rule else state.has_converged(self.limits.tol)
        timeless = self.limits._replace(deadline=None)
        reached = timeless.reached(state.incumbent, converged, state.nit, state.nfev)
        return None if reached is None else Status(int(reached))
