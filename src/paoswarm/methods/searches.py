"""Methods over methods: searches that follow each other, and several kinds of search that share the evaluations.

A *search* is one swarm of one method, from its first points to its end. A *series* says how its searches follow each
other. A *part* is one generation of one search. Usually one part is evaluated at a time. With ``parallel`` workers,
a generation of the run consists of parts of several searches, side by side.
`paoswarm.methods.sharing` decides which search moves and when it ends.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Any, ClassVar, Protocol, cast

import numpy as np

from paoswarm.core.arrays import Array, Floats
from paoswarm.core.attractors import RandomSource
from paoswarm.core.random import latin_hypercube
from paoswarm.core.swarm import Proposal, Swarm
from paoswarm.methods.agreement import Agreement, Search
from paoswarm.methods.method import Method, in_rounds
from paoswarm.methods.mover import Mover
from paoswarm.methods.sharing import NOBODY, TOL, Part, Sharing, Start, Tally, laid_open, shown


class Series(Protocol):
    """How searches follow each other."""

    def following(self, own: tuple[Search, ...], past: tuple[Search, ...], d: int, uniform: Floats) -> Start:
        """The next search, after the finished ones of this series and of all; ``uniform`` (2,) is its chance."""


class Searches(Method):
    """A method whose run consists of searches by other methods."""

    applies_walls: ClassVar[bool] = True
    applies_tolerance: ClassVar[bool] = True
    parallel: int | None = None

    @property
    @abstractmethod
    def series(self) -> tuple[Series, ...]:
        """The series that share the evaluations; the first one begins."""

    def for_workers(self, count: int) -> Method:
        """The same method for so many workers, unless it says itself for how many it is."""
        if self.parallel is not None:
            return self
        filled: Method = replace(cast(Any, self), parallel=count)  # every kind of searches is a dataclass
        return filled

    def default_particles(self, n_unknowns: int, maxfev: int | None = None, maxiter: int | None = None) -> int:
        """As many as the first search has."""
        return self._first(n_unknowns).n_particles

    def default_limits(self, n_unknowns: int) -> tuple[int | None, int | None]:
        """Ten thousand evaluations for each unknown, unless the searches agree before."""
        return None, 10_000 * n_unknowns

    def tolerant_for(self, n_unknowns: int, n_particles: int) -> float:
        """As long as the first search is; each search has its own tolerance."""
        return self._first(n_unknowns).method.tolerant_for(n_unknowns, n_particles)

    def _first(self, n_dimensions: int) -> Start:
        return self._sized(self.series[0].following((), (), n_dimensions, np.zeros(2)))

    def _sized(self, start: Start) -> Start:
        """A start that keeps the workers busy."""
        if self.parallel is None:
            return start
        method = start.method.for_workers(self.parallel)
        return start._replace(method=method, n_particles=in_rounds(start.n_particles, self.parallel))

    def begin(self, state: Swarm) -> Swarm:
        """Return the first swarm as the start of the first search; unchanged if searches are under way."""
        if isinstance(state.memory, Sharing):
            return state
        part = Part(0, 0, Proposal(state.position, state.velocity), self._first(state.n_dimensions))
        sharing, first = Sharing((Tally(),) * len(self.series)).begun(part, state)
        return shown(first, sharing)

    def ask(self, state: Swarm, draw: RandomSource, progress: float = 0.0) -> Proposal:
        """Propose the next generations of the searches whose turn it is, until there is a point for each worker."""
        return SearchMover(self, ()).ask(state, draw, progress)

    def next_start(self, state: Swarm, series: int, uniform: Floats) -> Start:
        """How the next search of a series begins; ``uniform`` (2,) is its chance."""
        sharing: Sharing = state.memory
        own, d = sharing.of_series(series), state.n_dimensions
        start = self._sized(self.series[series].following(own, sharing.searches, d, uniform))
        if sharing.searches:
            return start
        return start._replace(n_particles=sharing.lanes[0].n_particles)  # the user may have chosen it

    def tell(
        self, state: Swarm, proposal: Proposal, value: Array, evaluated: Array | None = None, tol: float = TOL
    ) -> Swarm:
        """Tell each search its values, which end it at an accuracy ``tol``.

        If the budget has ended inside this generation, searches without all of theirs are not told: they could not go
        on, and the driver keeps the best point.
        """
        begin, told = 0, []
        for part in proposal.notes:
            end = begin + len(part)
            if evaluated is None or evaluated[begin:end].all():
                if proposal.objective is not None:
                    own = part.proposal._replace(objective=proposal.objective[begin:end])
                    part = Part(part.search, part.series, own, part.start)
                told.append((part, value[begin:end]))
            begin = end
        return self.tell_parts(state, told, tol)

    def tell_parts(self, state: Swarm, told: list[tuple[Part, Floats]], tol: float = TOL) -> Swarm:
        """The run after some parts were evaluated."""
        if not told:
            return state
        sharing, latest = laid_open(state), state
        for part, value in told:
            if part.start is None:
                sharing, latest = sharing.moved(part, value, tol)
            else:
                sharing, latest = sharing.begun(part, state.renewed(part.proposal.position, value))
        return shown(latest, sharing)

    def has_converged(self, state: Swarm, spread: Array, tol: float) -> Array:
        """Whether the searches agree, so that another one would be a waste; see `paoswarm.methods.agreement`."""
        sharing: Sharing = state.memory
        return np.asarray(tol > 0 and sharing.agreement.is_settled)

    def leading(self, state: Swarm) -> tuple[Method, Swarm]:
        """The method and the swarm of the search that has found the best point, as it was when it ended."""
        _, method, swarm = laid_open(state).leader
        return method, swarm

    def agreement(self, state: Swarm) -> Agreement:
        """How the searches that have ended agree."""
        sharing: Sharing = state.memory
        return sharing.agreement

    def finished_searches(self, state: Swarm) -> tuple[Search, ...]:
        """The searches that have ended, in order."""
        sharing: Sharing = state.memory
        return sharing.searches


class SearchMover(Mover):
    """Moves the searches of a run, each by the mover of its own method."""

    def __init__(self, searches: Searches, shape: tuple[int, ...]) -> None:
        self.method = self._searches = searches
        self.has_converged = searches.has_converged
        self.decides_its_end, self.keeps_bests = True, False
        self._at_once = searches.parallel or 1
        self._movers: dict[int, Mover] = {}  # what is worked out once for each method

    def begin(self, state: Swarm) -> Swarm:
        """The first swarm as the start of the first search."""
        return self._searches.begin(state)

    def ask(self, state: Swarm, draw: RandomSource, progress: float) -> Proposal:
        """The next generations of the searches whose turn it is, until there is a point for each worker."""
        parts: tuple[Part, ...] = (self.next_part(state, (), draw, progress),)
        while self._at_once > 1 and self._has_room(state, parts):
            parts = (*parts, self.next_part(state, parts, draw, progress))
        if len(parts) == 1:
            return Proposal(*parts[0].proposal[:2], notes=parts)
        position, velocity = (np.concatenate([part.proposal[i] for part in parts]) for i in range(2))
        return Proposal(position, velocity, notes=parts)

    def _has_room(self, state: Swarm, parts: tuple[Part, ...]) -> bool:
        """Whether the search whose turn is next would keep workers busy that are idle otherwise.

        Repeated measurements are those of one swarm: if there are any, searches take turns.
        """
        idle = -sum(map(len, parts)) % self._at_once
        if idle == 0 or state.repeats is not None:
            return False
        sharing: Sharing = state.memory
        _, lane = sharing.turn(parts)
        return lane is not None and lane.swarm.n_particles <= idle

    def next_part(self, state: Swarm, out: tuple[Part, ...], draw: RandomSource, progress: float) -> Part:
        """The next generation of the search whose turn it is, or the first points of a new one.

        ``out`` are the parts that are being evaluated.
        """
        sharing = laid_open(state)
        series, lane = sharing.turn(out) if out or sharing.shown == NOBODY else sharing.shown_lane
        if lane is None:
            start = self._searches.next_start(state._replace(memory=sharing), series, draw.uniform(2))
            x = _latin_hypercube(state, start.n_particles, draw)
            number = max([sharing.n_begun, *(part.search + 1 for part in out)])
            return Part(number, series, Proposal(x, np.zeros_like(x)), start)
        method, swarm = lane.start.method, lane.swarm
        mover = self._movers.get(id(method))
        if mover is None or mover.method is not method:
            mover = self._movers[id(method)] = Mover(method, (swarm.n_particles,))
        return Part(lane.search, series, mover.ask(swarm, draw, progress))

    def tell(self, state: Swarm, proposal: Proposal, value: Array, evaluated: Array | None = None) -> Swarm:
        """The run after its searches were told their values."""
        return self._searches.tell(state, proposal, value, evaluated, self.tol)


Searches.mover = SearchMover


def _latin_hypercube(state: Swarm, n: int, draw: RandomSource) -> Floats:
    """Points in the bounds, one in each of ``n`` slices of every axis."""
    low, high = state.lower[0], state.upper[0]
    slices = np.argsort(draw.uniform(len(low), n), axis=-1).T
    share = latin_hypercube(slices, draw.uniform(n, len(low)))
    points: Floats = np.clip(low + share * (high - low), low, high)
    return points
