"""Methods over methods: searches that follow each other, and several kinds of search that share the evaluations.

A *search* is one swarm of one method, from its first points to its end. A *series* says how its searches follow each
other. One generation of one search is moved at a time:

- A search ends when its method has converged, when it has used what its series allows, or when it is hopeless: it
  contracts around a value that is worse than that of a finished search.
- The first search is not interrupted. After that, the series that has used least of its share moves next. Shares are
  halved from rank to rank. Series rank by the value that their latest search has reached. One without a finished search
  ranks first; if all finished searches have ended at one place, it ranks last.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from paoswarm.algorithms.agreement import CONVERGED, CUT_SHORT, HOPELESS, Agreement, Search, agreement
from paoswarm.algorithms.method import Method, Step
from paoswarm.algorithms.mover import Mover
from paoswarm.core import order
from paoswarm.core.arrays import Array, Floats
from paoswarm.core.attractors import RandomSource
from paoswarm.core.swarm import Proposal, Swarm, spread

_HOPELESS = 100.0  # a swarm whose values differ by less than a hundredth of what it is behind will not catch up
_HOPELESS_FOR = 10  # generations
_TOL = 1e-12  # spread of a swarm, in widths of the bounds, at which a method without a rule of its own has converged


class Start(NamedTuple):
    """How a search begins."""

    method: Method
    n_particles: int
    most: float = math.inf  # evaluations


class Series(Protocol):
    """How searches follow each other."""

    def following(self, own: tuple[Search, ...], past: tuple[Search, ...], d: int, uniform: Floats) -> Start:
        """The next search, after the finished ones of this series and of all; ``uniform`` (2,) is its chance."""


class Lane(NamedTuple):
    """A series in a run: its search that is under way, and what it has cost."""

    method: Method | None = None  # None: no search is under way
    swarm: Swarm | None = None  # of a search that waits for its turn
    memory: Any = None  # of the search's method, while it moves; then the rest of its swarm is the run's
    spent: int = 0  # evaluations of all searches of the series
    used: int = 0  # those of the search that is under way
    most: float = math.inf  # it may use
    n_particles: int = 0  # of its first swarm
    value: float = math.inf  # the best that it has found
    x: Floats | None = None  # and where
    hopeless: int = 0  # generations for which it has been
    reached: float | None = None  # value of the latest finished search


class Sharing(NamedTuple):
    """What a run of several searches remembers."""

    lanes: tuple[Lane, ...]
    active: int
    searches: tuple[Search, ...] = ()  # that have ended, in order
    agreement: Agreement = Agreement()  # among them

    def with_active(self, lane: Lane) -> Sharing:
        """The same with another state of the active lane."""
        return self._replace(lanes=(*self.lanes[: self.active], lane, *self.lanes[self.active + 1 :]))


class Searches(Method):
    """A method whose run consists of searches by other methods."""

    applies_walls: ClassVar[bool] = True

    @property
    @abstractmethod
    def series(self) -> tuple[Series, ...]:
        """The series that share the evaluations; the first one begins."""

    def default_particles(self, n_unknowns: int, maxfev: int | None = None, maxiter: int | None = None) -> int:
        """As many as the first search has."""
        return self._first(n_unknowns).n_particles

    def default_limits(self, n_unknowns: int) -> tuple[int | None, int | None]:
        """Ten thousand evaluations for each unknown, unless the searches agree before."""
        return None, 10_000 * n_unknowns

    def _first(self, n_dimensions: int) -> Start:
        return self.series[0].following((), (), n_dimensions, np.zeros(2))

    def begin(self, state: Swarm) -> Swarm:
        """Return the first swarm as the start of the first search; unchanged if searches are under way."""
        if isinstance(state.memory, Sharing):
            return state
        return _begun(state, Sharing((Lane(),) * len(self.series), 0), self._first(state.n_dimensions))

    def prepare(self) -> Step:
        """Return `ask` with movers that are made once for each method."""
        return _Prepared(self)

    def ask(self, state: Swarm, draw: RandomSource, progress: float = 0.0) -> Proposal:
        """Propose the next generation of the search whose turn it is, or the first points of a new one."""
        return self.ask_with({}, state, draw, progress)

    def ask_with(self, movers: dict[int, Mover], state: Swarm, draw: RandomSource, progress: float) -> Proposal:
        """`ask` with the movers that were made already."""
        sharing: Sharing = state.memory
        lane = sharing.lanes[sharing.active]
        if lane.method is None:
            own = tuple(one for one in sharing.searches if one.series == sharing.active)
            series = self.series[sharing.active]
            start = series.following(own, sharing.searches, state.n_dimensions, draw.uniform(2))
            x = _latin_hypercube(state, start.n_particles, draw)
            return Proposal(x, np.zeros_like(x), notes=start)
        mover = movers.get(id(lane.method))
        if mover is None or mover.method is not lane.method:
            mover = movers[id(lane.method)] = Mover(lane.method, (state.n_particles,))
        return mover.ask(state._replace(memory=lane.memory), draw, progress)

    def tell(self, state: Swarm, proposal: Proposal, value: Array, evaluated: Array | None = None) -> Swarm:
        """Tell the search, and hand over to the one whose turn is next."""
        if evaluated is not None:  # the budget has ended inside this generation: the driver keeps the best point
            return state
        sharing: Sharing = state.memory
        lane = sharing.lanes[sharing.active]
        if lane.method is None:
            return _handed_over(_begun(state.renewed(proposal.position, value), sharing, proposal.notes))
        inner = lane.method.tell(state._replace(memory=lane.memory), proposal, value)
        lane = _counted(lane, state.snapped(proposal.position), order.failed_last(value))
        return _handed_over(_moved(inner, sharing, lane))

    def has_converged(self, state: Swarm, spread: Array, tol: float) -> Array:
        """Whether the searches agree, so that another one would be a waste; see `paoswarm.algorithms.agreement`."""
        sharing: Sharing = state.memory
        return np.asarray(tol > 0 and sharing.agreement.is_settled)

    def agreement(self, state: Swarm) -> Agreement:
        """How the searches that have ended agree."""
        sharing: Sharing = state.memory
        return sharing.agreement

    def finished_searches(self, state: Swarm) -> tuple[Search, ...]:
        """The searches that have ended, in order."""
        sharing: Sharing = state.memory
        return sharing.searches


class _Prepared:
    """`Searches.ask` with its movers; an object, so that an optimiser can be saved."""

    def __init__(self, searches: Searches) -> None:
        self.searches = searches
        self.movers: dict[int, Mover] = {}

    def __call__(self, state: Swarm, draw: RandomSource, progress: float = 0.0) -> Proposal:
        return self.searches.ask_with(self.movers, state, draw, progress)


def _begun(state: Swarm, sharing: Sharing, start: Start) -> Swarm:
    """The run after the first swarm of a search was evaluated."""
    inner = start.method.begin(state._replace(memory=None))
    lane = Lane(
        method=start.method,
        memory=inner.memory,
        spent=sharing.lanes[sharing.active].spent,
        most=start.most,
        n_particles=state.n_particles,
        reached=sharing.lanes[sharing.active].reached,
    )
    lane = _counted(lane, state.snapped(state.position), state.value)
    return inner._replace(memory=sharing.with_active(lane))


def _moved(inner: Swarm, sharing: Sharing, lane: Lane) -> Swarm:
    """The run after a generation of the active search, which may have ended it."""
    method = lane.method
    assert method is not None
    best_known = min((one.value for one in sharing.searches), default=math.inf)
    lowest, apart = method.outlook(inner)
    is_behind = lowest - _HOPELESS * apart > best_known  # (A9)
    lane = lane._replace(memory=inner.memory, hopeless=lane.hopeless + 1 if is_behind else 0)
    ending = _ending(lane, bool(method.has_converged(inner, spread(inner, method.wall.unroll), _TOL)))
    if ending:
        assert lane.x is not None
        ended = Search(sharing.active, lane.n_particles, lane.used, lane.x, lane.value, ending)
        searches = (*sharing.searches, ended)
        agreed = agreement(searches, inner.lower[0], inner.upper[0], inner.axes)
        sharing = sharing._replace(searches=searches, agreement=agreed)
        lane = lane._replace(method=None, memory=None, reached=lane.value)
    return inner._replace(memory=sharing.with_active(lane))


def _ending(lane: Lane, has_converged: bool) -> str:
    """How a search ends; empty if it goes on."""
    if has_converged:
        return CONVERGED
    if lane.hopeless >= _HOPELESS_FOR:
        return HOPELESS
    return CUT_SHORT if lane.used >= lane.most else ""


def _handed_over(state: Swarm) -> Swarm:
    """The run with the swarm of the search whose turn is next."""
    sharing: Sharing = state.memory
    following = _next(sharing) if sharing.searches else sharing.active
    if following == sharing.active:
        return state
    leaving = sharing.lanes[sharing.active]
    if leaving.method is not None:
        sharing = sharing.with_active(leaving._replace(swarm=state._replace(memory=leaving.memory), memory=None))
    sharing = sharing._replace(active=following)
    entered = sharing.lanes[following]
    if entered.swarm is None:  # it begins with its first points
        return state._replace(memory=sharing)
    lane = entered._replace(swarm=None, memory=entered.swarm.memory)
    return entered.swarm._replace(memory=sharing.with_active(lane))


def _next(sharing: Sharing) -> int:
    """The lane that has used least of its share; shares are halved from rank to rank."""
    agreed = sharing.agreement
    # Another kind of search is the best hope, unless everything that has ended so far has ended at one place.
    untried = math.inf if agreed.n_searches > 1 and agreed.n_places == 1 else -math.inf
    reached = np.array([untried if lane.reached is None else lane.reached for lane in sharing.lanes])
    shares = 2.0 ** (len(reached) - 1 - order.ranks(reached))
    return int(np.argmin(np.array([lane.spent for lane in sharing.lanes]) / shares))  # (A10)


def _counted(lane: Lane, x: Floats, value: Floats) -> Lane:
    """The lane after points of its search were evaluated."""
    first = int(order.best(value))
    spent, used = lane.spent + len(value), lane.used + len(value)
    if lane.x is not None and not order.is_better(value[first], lane.value):
        return lane._replace(spent=spent, used=used)
    return lane._replace(spent=spent, used=used, value=float(value[first]), x=x[first].copy())


def _latin_hypercube(state: Swarm, n: int, draw: RandomSource) -> Floats:
    """Points in the bounds, one in each of ``n`` slices of every axis."""
    low, high = state.lower[0], state.upper[0]
    slices = np.argsort(draw.uniform(len(low), n), axis=-1).T
    share = (slices + draw.uniform(n, len(low))) / n
    points: Floats = np.clip(low + share * (high - low), low, high)
    return points
