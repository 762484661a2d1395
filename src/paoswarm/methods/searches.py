"""Methods over methods: searches that follow each other, and several kinds of search that share the evaluations.

A *search* is one swarm of one method, from its first points to its end. A *series* says how its searches follow each
other. A *part* is one generation of one search. Usually one part is evaluated at a time. With ``parallel`` workers,
a generation of the run consists of parts of several searches, side by side.
`paoswarm.methods.sharing` decides which search moves and when it ends.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from paoswarm._checks import real_number
from paoswarm.core.arrays import Array, Floats
from paoswarm.core.attractors import RandomSource
from paoswarm.core.random import latin_hypercube
from paoswarm.core.swarm import Proposal, Swarm
from paoswarm.methods import moves
from paoswarm.methods.agreement import CUT_SHORT, Search
from paoswarm.methods.dense_pao import DensePAO, first_points
from paoswarm.methods.method import Method, Report, check_method, check_parallel, for_workers, in_rounds
from paoswarm.methods.model_search import guess_of
from paoswarm.methods.moves import TOL
from paoswarm.methods.sharing import NOBODY, Lane, Part, Sharing, Start, Tally, laid_open, shown


class Series(Protocol):
    """How searches follow each other."""

    @property
    def share(self) -> float:
        """What multiplies the evaluations that its rank gives it."""

    @property
    def waits_for(self) -> tuple[int, int]:
        """A series, and how many searches of it must have ended before this one begins another; not the run's first."""

    def following(self, own: tuple[Search, ...], past: tuple[Search, ...], d: int, uniform: Floats) -> Start:
        """The next search, after the finished ones of this series and of all; ``uniform`` (2,) is its chance."""


class Searches(Method):
    """A method whose run consists of searches by other methods."""

    applies_tolerance: ClassVar[bool] = True
    parallel: int | None = None

    @property
    @abstractmethod
    def series(self) -> tuple[Series, ...]:
        """The series that share the evaluations; the first one begins."""

    def __init_subclass__(cls, **others: object) -> None:
        super().__init_subclass__(**others)
        cls.applies_walls = True  # each search does

    def check_swarm(self, shape: tuple[int, ...]) -> None:
        """Raise if the first search cannot have such a swarm."""
        super().check_swarm(shape)
        self._first(1).method.check_swarm(shape)

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
        method = for_workers(start.method, self.parallel)
        return start._replace(method=method, n_particles=in_rounds(start.n_particles, self.parallel))

    def begin(self, state: Swarm) -> Swarm:
        """Return the first swarm as the start of the first search; unchanged if searches are under way."""
        if isinstance(state.memory, Sharing):
            return state
        part = Part(0, 0, Proposal(state.position, state.velocity), self._first(state.n_dimensions))
        tallies = (Tally(share=one.share, waits_for=one.waits_for) for one in self.series)
        sharing, first = Sharing(tuple(tallies)).begun(part, state)
        return shown(first, sharing)

    def ask(self, state: Swarm, draw: RandomSource, progress: float = 0.0) -> Proposal:
        """Propose the next generations of the searches whose turn it is, until there is a point for each worker."""
        parts: tuple[Part, ...] = (self.next_part(state, (), draw, progress),)
        while self._has_room(state, parts):
            parts = (*parts, self.next_part(state, parts, draw, progress))
        return self.whole(parts)

    def whole(self, parts: tuple[Part, ...]) -> Proposal:
        """Parts as a generation of the run."""
        if len(parts) == 1:
            return Proposal(*parts[0].proposal[:2], notes=parts)
        position, velocity = (np.concatenate([part.proposal[i] for part in parts]) for i in range(2))
        return Proposal(position, velocity, notes=parts)

    def lanes(self, state: Swarm) -> dict[int, Lane]:
        """The searches that are under way, by number."""
        return {lane.search: lane for lane in laid_open(state).lanes}

    def moving(self, state: Swarm, out: tuple[Part, ...]) -> int | None:
        """The number of the search that `next_part` moves; None if it begins another one."""
        sharing: Sharing = state.memory
        _, lane = sharing.turn(out)
        return None if lane is None else lane.search

    def _has_room(self, state: Swarm, parts: tuple[Part, ...]) -> bool:
        """Whether the search whose turn is next would keep workers busy that are idle otherwise.

        Repeated measurements are those of one swarm: if there are any, searches take turns.
        """
        idle = -sum(map(len, parts)) % (self.parallel or 1)
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
        if out or sharing.shown == NOBODY:
            series, lane = sharing.turn(out)
        else:
            lane = sharing.lanes[sharing.shown]
            series = lane.series
        if lane is not None:
            return Part(lane.search, series, moves.ask(lane.start.method, lane.swarm, draw, progress))
        own, d = sharing.of_series(series), state.n_dimensions
        start = self._sized(self.series[series].following(own, sharing.searches, d, draw.uniform(2)))
        if not sharing.searches:
            start = start._replace(n_particles=sharing.lanes[0].n_particles)  # the user may have chosen it
        elif len(sharing.searches) == 1 and isinstance(start.method, DensePAO):
            start = start._replace(guess=guess_of(sharing.ended_best))
        start.method.check_swarm((start.n_particles,))
        if start.guess is None:
            x = _latin_hypercube(state, start.n_particles, draw)
        else:
            x = first_points(state, start.guess, draw.normal(start.n_particles, d))
        number = max([sharing.n_begun, *(part.search + 1 for part in out)])
        return Part(number, series, Proposal(x, np.zeros_like(x)), start)

    def tell(
        self, state: Swarm, proposal: Proposal, value: Array, evaluated: Array | None = None, tol: float = TOL
    ) -> Swarm:
        """Tell each search its values, which end it at an accuracy ``tol``.

        If the budget has ended inside this generation, searches without all of theirs are not told: they could not go
        on, and the driver keeps the best point.
        """
        sharing, latest, begin = laid_open(state), None, 0
        for part in proposal.notes:
            end = begin + len(part)
            if evaluated is None or evaluated[begin:end].all():
                objective = None if proposal.objective is None else proposal.objective[begin:end]
                own = Part(part.search, part.series, part.proposal._replace(objective=objective), part.start)
                if part.start is None:
                    sharing, latest = sharing.moved(own, value[begin:end], tol)
                else:
                    sharing, latest = sharing.begun(own, state.renewed(own.proposal.position, value[begin:end]))
            begin = end
        return state if latest is None else shown(latest, sharing)

    def has_converged(self, state: Swarm, spread: Array, tol: float) -> Array:
        """Whether the searches agree, so that another one would be a waste; see `paoswarm.methods.agreement`."""
        sharing: Sharing = state.memory
        is_settled = tol > 0 and sharing.agreement.is_settled
        return np.asarray(is_settled and sharing.agreed().is_best)

    def report(self, state: Swarm) -> Report:
        """The searches that have ended, and the one that has found the best point, as it was when it ended."""
        sharing = laid_open(state)
        agreement = sharing.agreed()
        return Report(sharing.leader.start.method, sharing.leader.swarm, sharing.searches, agreement)

    def suspects_noise(self, state: Swarm) -> bool:
        """Whether the search does whose turn is next."""
        sharing: Sharing = state.memory
        if sharing.shown == NOBODY:
            return False
        lane = sharing.lanes[sharing.shown]
        return lane.start.method.suspects_noise(lane.swarm)

    def checked_for_noise(self, state: Swarm, is_noisy: bool) -> Swarm:
        """If it is, lucky values of searches that have ended are forgotten, and kinds that take no noise are over."""
        starts = (one.following((), (), state.n_dimensions, np.zeros(2)) for one in self.series)
        sharing = laid_open(state).checked_for_noise(is_noisy, tuple(not one.method.takes_noise for one in starts))
        return shown(super().checked_for_noise(state, is_noisy), sharing)

    def answering(self, state: Swarm) -> Swarm | None:
        """The swarm of the search with the best mean."""
        return laid_open(state).leader.swarm


class Alone:
    """A method as the only search of its run, with what asynchronous runs need of `Searches`."""

    def __init__(self, method: Method) -> None:
        self._method = method

    def lanes(self, state: Swarm) -> dict[int, Lane]:
        """The one search."""
        return {0: Lane(0, 0, Start(self._method, state.n_particles), state, 0, state.n_particles)}

    def moving(self, state: Swarm, out: tuple[Part, ...]) -> int | None:
        """The one search, unless its points are under way."""
        return None if out else 0

    def next_part(self, state: Swarm, out: tuple[Part, ...], draw: RandomSource, progress: float) -> Part:
        """Its next generation."""
        return Part(0, 0, moves.ask(self._method, state, draw, progress))

    def whole(self, parts: tuple[Part, ...]) -> Proposal:
        """The generation."""
        return parts[0].proposal


def _latin_hypercube(state: Swarm, n: int, draw: RandomSource) -> Floats:
    """Points in the bounds, one in each of ``n`` slices of every axis."""
    low, high = state.lower[0], state.upper[0]
    slices = np.argsort(draw.uniform(len(low), n), axis=-1).T
    share = latin_hypercube(slices, draw.uniform(n, len(low)))
    points: Floats = np.clip(low + share * (high - low), low, high)
    return points


@dataclass(frozen=True)
class Growing:
    """The same method again and again, with more particles each time.

    The first search takes at most ``longest`` evaluations for each unknown. After one that was cut short, the next one
    has as many particles and may last twice as long.
    """

    method: Method
    growth: float = 2.0
    kind: str = ""
    longest: float = math.inf
    share: float = 1.0
    waits_for: tuple[int, int] = (0, 0)

    def following(self, own: tuple[Search, ...], past: tuple[Search, ...], d: int, uniform: Floats) -> Start:
        """The next search."""
        is_limited = math.isfinite(self.longest)
        n_cut = sum(one.ending == CUT_SHORT for one in own) if is_limited else 0
        larger = self.growth ** (len(own) - n_cut)
        budget = int(self.longest * d) if is_limited else None
        first = own[0].n_particles if own else self.method.default_particles(d, budget)
        if past and not own:  # the user may have chosen a larger one
            first = max(first, past[0].n_particles)
        n_particles = max(int(first * larger), self.method.smallest_swarm)
        return Start(self.method, n_particles, self.longest * d * larger * 2.0**n_cut, self.kind)


@dataclass(frozen=True)
class Restarts(Searches):
    """Start a method again whenever it has converged, with more particles each time.

    Parameters
    ----------
    method : Method
        Any method: `PAO`, `DE`, `DensePAO`, your own.
    growth : float
        Factor of the number of particles from search to search; 1 keeps it.
    parallel : int or None
        How many points are evaluated at once; see `AdaptivePAO`.

    Examples
    --------
    >>> import paoswarm as ps
    >>> def two_wells(x):
    ...     return ((x**2 - 1) ** 2).sum(axis=1) + 0.1 * x.sum(axis=1)
    >>> method = ps.Restarts(ps.DensePAO())
    >>> result = ps.minimize(two_wells, [(-2, 2)] * 3, method=method, vectorized=True, rng=1)
    >>> [round(float(x), 2) for x in result.x]
    [-1.01, -1.01, -1.01]
    """

    method: Method
    growth: float = 2.0
    parallel: int | None = None

    def __post_init__(self) -> None:
        check_method(self.method)
        real_number("growth", self.growth, 1.0, may_equal=True)
        check_parallel(self.parallel)

    @property
    def series(self) -> tuple[Series, ...]:
        """One series."""
        return (Growing(self.method, self.growth),)


@dataclass(frozen=True)
class Portfolio(Searches):
    """Let several methods share the evaluations of a run; each is started again when it has converged.

    Methods whose latest search has reached better values get more evaluations: shares are halved from rank to rank.

    Parameters
    ----------
    methods : sequence of Method
        The first one begins, and its first search is not interrupted.
    growth : float
        Factor of the number of particles from search to search of the same method.
    parallel : int or None
        How many points are evaluated at once; see `AdaptivePAO`.
    """

    methods: tuple[Method, ...]
    growth: float = 2.0
    parallel: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "methods", tuple(self.methods))
        for method in self.methods:
            check_method(method)
        if not self.methods:
            raise ValueError("methods is empty: give at least one")
        real_number("growth", self.growth, 1.0, may_equal=True)
        check_parallel(self.parallel)

    @property
    def series(self) -> tuple[Series, ...]:
        """One series for each method."""
        return tuple(Growing(method, self.growth) for method in self.methods)
