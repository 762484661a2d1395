"""Points of a run, asked for and told one at a time in any order: of single particles, or of generations."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from paoswarm.core import order
from paoswarm.core import swarm as swarms
from paoswarm.core.arrays import Floats
from paoswarm.core.swarm import Proposal, Swarm
from paoswarm.evaluate.queue import Answer
from paoswarm.methods import moves
from paoswarm.methods.searches import Alone, Searches
from paoswarm.methods.sharing import Lane, Part, Start
from paoswarm.run.judge import best_of, better_of
from paoswarm.run.run_state import RunState
from paoswarm.run.stopping import Limits

# The share of a first swarm that must be known before its search moves. If all of it had to be known, one slow
# evaluation would hold up every worker; benchmarks/asynchronous.py measures the effect.
KNOWN = 0.9


class SinglePoints(ABC):
    """The points of a run, asked for and told in any order.

    Everything follows from the order of asks and tells: chance is drawn when a point is asked for, and an ask that
    returns None draws nothing. So a recorded order repeats a run.
    """

    def __init__(self, state: RunState) -> None:
        self._state = state
        self._n_first = state.n_to_start
        self._best_before: Any = None if state.swarm is None else state.incumbent  # at the end of the last generation
        self.is_complete = True  # no generation has begun since the last one was completed
        self.n_asked = 0
        self._out: dict[int, Any] = {}

    @property
    def _swarm(self) -> Swarm:
        assert self._state.swarm is not None
        return self._state.swarm

    @property
    def n_out(self) -> int:
        """Points that were asked for and not told yet."""
        return len(self._out)

    @property
    def n_told(self) -> int:
        """Points that were told so far."""
        return self._state.nfev + self._state.n_recalled

    @property
    def generations(self) -> float:
        """How many there were so far; schedules depend on them."""
        return self._state.nit

    def may_ask(self, limits: Limits) -> bool:
        """Whether one more point may be asked for; those that turn out to be known cost nothing."""
        return limits.maxfev is None or self.n_asked - self._state.n_recalled < limits.maxfev

    @abstractmethod
    def ask(self, progress: float) -> Floats | None:
        """The next point; None if there is none before something is told."""

    @abstractmethod
    def tell(self, answer: Answer) -> bool:
        """The value at a point, NaN where it failed; returns whether that completes a generation."""

    def settle(self) -> bool:
        """Begin with a first swarm that is known well enough, as a worker is idle; whether that completes it."""
        return False

    def cut_short(self) -> None:
        """End the generation that has begun with the values that have arrived."""
        self._state.nit += int(self.n_told > self._n_first)  # the first swarm is not a generation
        self.is_complete = True

    def _begin(self) -> Floats:
        """The points of the first swarm; until their values are known these count as +inf."""
        first = self._state.first_points()
        self._state.begin(np.full(self._n_first, np.inf), may_fail=True)
        self._best_before = self._state.incumbent
        return first

    def _give(self, asked: Any, x: Floats) -> Floats:
        self._out[self.n_asked] = asked
        self.n_asked += 1
        return np.array(x)

    def _value(self, x: Floats, answer: Answer) -> float:
        """What a point is compared by, given what was measured there."""
        self._state.note_failures(answer.failed, [0])
        return float(self._state.scored(x[None], answer.values)[0])

    def _count(self, answer: Answer) -> None:
        self._state.nfev += not answer.recalled
        self._state.n_recalled += answer.recalled

    def _complete(self, generations: int) -> None:
        """A generation, or a first swarm, is complete."""
        self.is_complete = True
        self._state.count_stale(self._best_before, generations=generations)
        self._best_before = self._state.incumbent


class _Asked(NamedTuple):
    particle: int
    move: Proposal | None  # rows of one particle; None for a point of the first swarm
    again: Floats | None = None  # the best that is measured once more


class Particles(SinglePoints):
    """The particles of a run, each told by itself.

    A particle has one evaluation at a time. When its value is told it may be asked again, and then moves from where it
    is, pulled by what the swarm knows at that moment. If several particles may move, the one that has waited longest
    does. No particle moves before most of the first swarm is known: the first values come from regions where
    evaluations are quick, and the swarm would gather there. A generation is as many evaluations as there are particles
    and bests to measure again.
    """

    def __init__(self, state: RunState) -> None:
        super().__init__(state)
        self._n = state.n_particles
        self._size = self._n + state.n_again  # evaluations of a generation
        self._boundary = self._n_first or self._size  # evaluations with which a generation is complete
        n_known = self._n - self._n_first
        self._to_start = deque(range(n_known, self._n))  # particles whose first point has not been asked for
        self._free = deque(range(n_known))  # those that may move, by how long they have waited
        self._n_moves = self._n_again = 0  # asked for so far

    def may_ask(self, limits: Limits) -> bool:
        """Whether one more point may be asked for: all of them are in the last generation."""
        most = None if limits.maxiter is None else self._n_first + limits.maxiter * self._size
        return super().may_ask(limits) and (most is None or self.n_asked < most)

    @property
    def generations(self) -> float:
        """Moves for each particle so far, on average."""
        return max(0, self.n_told - self._n_first) / self._size

    def ask(self, progress: float) -> Floats | None:
        """The next point; None if there is none before something is told."""
        state = self._state
        if state.swarm is None:
            self._begin()
        swarm = state.swarm
        assert swarm is not None
        if self._to_start:
            i = self._to_start.popleft()
            return self._give(_Asked(i, None), swarm.position[i])
        if not self._free or self.n_told < KNOWN * self._n_first or swarm.global_value == np.inf:
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
        value = self._value(where, answer)
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
        self._count(answer)
        if self.n_told == self._n_first:
            state.swarm = state.judge.tolerant(after, state.method)
        state.improve(x[None], np.array([np.nan if again is not None else value]))
        state.nit = int(self.generations)
        self.is_complete = self.n_told >= self._boundary
        if self.is_complete:
            self._complete(generations=int(self.n_told > self._n_first))
            self._boundary += self._size
        return self.is_complete

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


@dataclass
class _Search:
    """A search whose points are under way."""

    part: Part  # the latest
    begins: bool  # with these points, none of which was told yet
    is_told: bool = False  # the law of the search is another one now
    rows: list[int] = field(default_factory=list)  # of the part that were not given out yet
    n_out: int = 0
    back: list[tuple[int, Part, int, float]] = field(default_factory=list)  # number of asking, part, row, value


class Generations(SinglePoints):
    """Generations of as many values as come back next, whichever generation their points were drawn in.

    An idle worker gets the next point of the search whose turn it is. If all points of its generation are given out,
    another one is drawn from the same law, without points that were asked for already; at most twice as many points as
    a generation has are under way. As soon as so many values are back as it has points, the search learns from them.
    Points of it that were not given out are dropped. In the long run there are none: each law is drawn from once.

    A search begins when most of its first swarm is known. Later values of the first swarm, and of searches that have
    ended, count only for the best point of the run. A search whose method takes no such generations waits for whole
    ones. With one worker, generations are those of a synchronous run; so they are with as many workers as points, if
    all evaluations take the same time.
    """

    def __init__(self, state: RunState) -> None:
        super().__init__(state)
        self._source = state.method if isinstance(state.method, Searches) else Alone(state.method)
        self._searches: dict[int, _Search] = {}
        self._first: _Search | None = None  # that of the run, until it begins

    def ask(self, progress: float) -> Floats | None:
        """The next point; None if there is none before something is told."""
        if self._state.swarm is None:
            first = self._begin()
            start = Start(self._state.method, self._n_first)
            self._first = self._open(Part(0, 0, Proposal(first, np.zeros_like(first)), start))
        one = self._next(progress)
        if one is None:
            return None
        row, one.n_out = one.rows.pop(0), one.n_out + 1
        return self._give((one.part, row), one.part.proposal.position[row])

    def tell(self, answer: Answer) -> bool:
        """The value at a point, NaN where it failed; returns whether that completes a generation."""
        part, row = self._out.pop(answer.number)
        x, one = part.proposal.position[row], self._searches.get(part.search)
        value = self._value(x, answer)
        self._count(answer)
        found = best_of(self._swarm.snapped(x[None]), np.array([value]))
        self._state.incumbent = better_of(self._state.incumbent, found)
        self.is_complete = False
        if one is not None:
            one.n_out -= 1
            if one.begins or part.start is None:
                one.back.append((answer.number, part, row, value))
            if not one.is_told and len(one.back) >= len(one.part):
                self._tell(one)
        return self.is_complete

    def settle(self) -> bool:
        """Begin with a first swarm that is known well enough, as a worker is idle; whether that completes it."""
        for one in self._searches.values():
            n = len(one.part)
            if one.begins and not one.rows and KNOWN * n <= len(one.back) and self._state.incumbent.value < np.inf:
                self._tell(one)
                return True
        return False

    def cut_short(self) -> None:
        """End the generation that has begun with the values that have arrived."""
        if self._first is not None:
            self._tell(self._first)
        else:
            super().cut_short()

    def _next(self, progress: float) -> _Search | None:
        """The search that gives out the next point."""
        swarm = self._swarm
        for one in self._searches.values():
            if one.begins and one.rows:
                return one
        busy = tuple(one.part for number, one in self._searches.items() if self._is_busy(number, one))
        number = self._source.moving(swarm, busy)
        if number is None and busy:
            return None
        known = None if number is None else self._searches.get(number)
        if known is None or known.is_told or not known.rows:
            return self._open(self._source.next_part(swarm, busy, self._state.draw, progress))
        return known

    def _is_busy(self, number: int, one: _Search) -> bool:
        """Whether a search can give out no point now."""
        if one.begins or moves.joining(self._lane(number).start.method) is None:
            return not one.is_told and not one.rows
        return one.n_out >= 2 * len(one.part)

    def _lane(self, number: int) -> Lane:
        return self._source.lanes(self._swarm)[number]

    def _open(self, part: Part) -> _Search:
        one = self._searches.setdefault(part.search, _Search(part, part.start is not None))
        asked = [(drawn, row) for drawn, row in self._out.values() if drawn.search == part.search]
        asked += [(drawn, row) for _, drawn, row, _ in one.back]
        known = {drawn.proposal.position[row].tobytes() for drawn, row in asked}
        rows = list(range(len(part)))
        one.rows = [row for row in rows if part.proposal.position[row].tobytes() not in known] or rows
        one.part, one.is_told = part, False
        return one

    def _tell(self, one: _Search) -> None:
        """What is back from a search is its next generation, or its first swarm."""
        state, n = self._state, len(one.part)
        back, one.back = sorted(one.back[:n]), one.back[n:]
        part, value = one.part, np.array([value for *_, value in back])
        joined = None if one.begins else moves.joining(self._lane(part.search).start.method)
        if joined is not None:
            came = [(drawn.proposal, row) for _, drawn, row, _ in back]
            proposal, value = joined(self._lane(part.search).swarm, part.proposal, came, value)
            part = Part(part.search, part.series, proposal)
        elif len(back) < n:
            known, value = value, np.full(n, np.nan)
            value[[row for _, _, row, _ in back]] = known
        is_first, self._first = one is self._first, None
        if is_first:
            state.begin(value, may_fail=True)
        else:
            state.swarm = moves.tell(state.method, self._swarm, self._source.whole((part,)), value, None, state.tol)
            state.nit += 1
        one.begins, one.is_told = False, True
        going = self._source.lanes(self._swarm)
        self._searches = {
            number: search for number, search in self._searches.items() if search.begins or number in going
        }
        self._complete(generations=int(not is_first))
