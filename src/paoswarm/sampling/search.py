r"""The search for modes, as a state machine.

============  =====================================================  =============================================
phase         what it does                                           next
============  =====================================================  =============================================
``KNOWN``     climbs from points that the caller knows               ``FIRST``
``FIRST``     climbs from the most promising draws                   ``RIDGE``, ``BESIDE``, ``DOUBTFUL``, or the end
``RIDGE``     the same again, while climbs end at new places         ``RIDGE``, ``BESIDE``, ``DOUBTFUL``, or the end
``DOUBTFUL``  climbs from draws that the modes do not explain        ``RIDGE``, ``BESIDE``, ``DOUBTFUL``, or the end
``BESIDE``    the same beside a ridge, where only peaks are news     ``BESIDE``, or the end of the climbs
``SWARMS``    sends independent swarms to look for the highest peak  ``SWARMS``, ``DONE``
============  =====================================================  =============================================

The climbs end when there were enough and the last ones found nothing new. They also end, with a doubt, when the budget
or the draws to start from are used up. After them comes ``SWARMS`` on rugged ground, else ``DONE``.

**When climbs are enough.** With :math:`k` peaks known, :math:`n` climbs miss one more of their size with probability
:math:`(1 - 1/(k+1))^n < e^{-n/(k+1)}`. So :math:`n = 4.6\,(k + 1)` climbs miss it in one search out of a hundred.

**When swarms are needed.** The share of climbs that ended alone at a peak estimates the probability that the next one
ends at an unseen peak (Good 1953). If it is above one half, the heaviest peak is probably not found yet. Independent
PAO swarms then look for it, each from its own share of the draws, and a last one from the best points of the others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from enum import Enum, auto
from typing import NamedTuple

import numpy as np

from paoswarm.core import order
from paoswarm.core.arrays import Floats
from paoswarm.core.weights import log_sum_exp
from paoswarm.methods.pao import PAO
from paoswarm.run.optimizer import Optimizer
from paoswarm.sampling.climbs import Mode, climb, climb_cost, is_near, is_new, matters, merge
from paoswarm.sampling.starts import EXAMINED, Draws, choose_starts, doubtful_cost, find_doubtful
from paoswarm.sampling.target import Target

_PER_MODE = 4.6  # climbs that are enough, per mode, counting an unknown one
_RIDGE = 0.5  # share of peaks among the modes that matter, up to which these are taken for a ridge
_TELLING = 8  # climbs to peaks from which on the number of unseen peaks is estimated
_ALONE = 0.5  # share of these climbs that ended alone, above which the ground is rugged
_SHARED = 1.5  # log ratio of all mass to that of the heaviest mode, above which no swarms are sent
_STARTS = 16  # climbs in a round, at most
_CANDIDATES = 192  # promising draws chosen as starts
_ROUNDS = 20  # rounds of climbs, at most
_BUDGET = 16_000  # likelihood evaluations for climbs, at most
_BUDGET_PER_PEAK = 1000  # further evaluations for climbs, for each peak found
_KNOWN_SHARE = 0.5  # share of the budget for climbs from known points
_KNOWN_CLIMBS = 2  # short climbs from known points that even a small budget pays for
_LAST_CLIMBS = 2.0  # short climbs that the budget allows per start, once there were enough climbs
_RICH = 4  # new modes in a round on a ridge that make another round worth it
_RIDGE_NEWS = 1  # new modes that matter in the last round on a ridge, above which there is a doubt
_RIDGE_ROUNDS = 6  # rounds of climbs before a ridge is left, at most
_SWARM_SHARE = 4 / 3  # budget for swarms, in budgets for climbs
_SWARM_ROUNDS = 3  # rounds of swarms where maxfev is not given, at most
_OFTEN = 3  # independent swarms that must come to the heaviest peak
_TOO_FEW = (
    "the search for modes made too few climbs for the number of peaks where they ended: other modes may be missing"
)
NO_STARTS = f"{_TOO_FEW}, and no draws were left to climb from"
RIDGE = "most climbs ended at different places on a ridge, so other modes may be hidden: look at plot()"
_NO_ROOM = (
    "there are many peaks, and maxfev is too small to search for the heaviest one: heavier peaks may be missing, so no "
    "standard error is given"
)
_DISAGREE = (
    "there are many peaks, and the swarms that searched for the heaviest one did not agree: heavier peaks may be "
    "missing, so no standard error is given"
)
SWARMS = 8  # independent swarms
_PARTICLES = 20  # particles of a swarm
_STEPS = 50  # steps of a swarm, at most
_STEPS_AT_LEAST = 10  # steps below which swarms are not worth their cost
_REMEMBERED = 5  # best points of each swarm with which the last swarm begins


class Phase(Enum):
    """What a search does next; see the top of this file."""

    KNOWN = auto()
    FIRST = auto()
    RIDGE = auto()
    DOUBTFUL = auto()
    BESIDE = auto()
    SWARMS = auto()
    DONE = auto()


class SearchTask(NamedTuple):
    """What does not change during a search."""

    target: Target
    draws: Draws
    known: Floats  # (m, d) points near modes
    budget: int  # likelihood evaluations for climbs
    end: int  # count of evaluations at which this budget is spent
    rng: np.random.Generator
    candidates: list[int]  # promising draws, the best first
    finite: list[int]  # draws with a finite height


class SearchState(NamedTuple):
    """What a search has done and found."""

    phase: Phase
    begun: int  # count of evaluations when the climbs, or later the swarms, began
    modes: list[Mode]  # heaviest first, none negligible
    places: list[Mode]  # ends of all climbs from draws, the negligible ones too
    climbed: frozenset[int]  # draws that were climbed from
    n_examined: int  # finite draws that were examined, in the order in which they were drawn
    n_rounds: int  # of climbs
    swarm_ends: list[Mode]  # modes that independent swarms have come to
    doubt: str  # why other modes may be missing; empty if there is no sign of any

    @property
    def settled(self) -> list[Mode]:
        """Modes where a climb has arrived."""
        return [mode for mode in self.modes if mode.is_settled]

    @property
    def n_peaks(self) -> int:
        """Number of peaks that matter."""
        return sum(mode.is_peak and matters(mode, self.modes) for mode in self.modes)

    @property
    def n_climbs(self) -> int:
        """Number of climbs from draws that have ended, except those at light peaks: these say little about others."""
        n_light = sum(mode.n_climbs for mode in self.modes if mode.is_peak and not matters(mode, self.modes))
        return sum(place.n_climbs for place in self.places) - n_light

    @property
    def n_missing(self) -> int:
        """Number of climbs that are still to be made; zero or less if there were enough."""
        return climbs_for(self.n_peaks) - self.n_climbs

    @property
    def is_ridge(self) -> bool:
        """Whether so few of the modes are peaks that they seem to lie on a ridge."""
        return self.n_peaks <= _RIDGE * sum(matters(mode, self.modes) for mode in self.modes)

    @property
    def needs_swarms(self) -> bool:
        """Whether the ground is rugged, but one mode holds much of the mass found.

        Where many peaks share the mass, little is lost with a few of them.
        """
        return is_rugged(self.places) and bool(
            log_sum_exp(np.array([mode.log_mass for mode in self.modes])) < self.modes[0].log_mass + _SHARED
        )


def climbs_for(n_modes: int) -> int:
    """Number of climbs that are enough to find one more mode than are known."""
    return math.ceil(_PER_MODE * (n_modes + 1))


def is_rugged(places: list[Mode]) -> bool:
    """Whether most climbs that ended at peaks, light ones too, were the only ones to end there."""
    n_climbs = [place.n_climbs for place in places if place.is_peak]
    return sum(n_climbs) >= _TELLING and n_climbs.count(1) > _ALONE * sum(n_climbs)


class FoundModes(NamedTuple):
    """The result of a search for modes."""

    modes: list[Mode]  # heaviest first
    incomplete: str  # why other modes may be missing; empty if there is no sign of any
    is_trusted: bool  # whether the modes found are likely to hold most of the posterior


def explore(target: Target, draws: Draws, known: Floats, budget: int, rng: np.random.Generator) -> FoundModes:
    """Search for the modes of a posterior from draws of the prior, with a budget of likelihood evaluations for climbs.

    The ``known`` points near modes are climbed from as well, but say nothing about how many modes there are. Swarms,
    where they are needed, may spend 4/3 of the budget in addition; only they use ``rng``.
    """
    *_, last = states(target, draws, known, budget, rng)
    return FoundModes(last.modes, last.doubt, is_trusted=last.doubt not in (_NO_ROOM, _DISAGREE))


def explore_again(target: Target, modes: list[Mode], starts: Floats, budget: int) -> tuple[list[Mode], bool]:
    """Climb from starts that turned up after a search. Return all modes, and whether a new one matters."""
    found = climb(target, starts, budget, known=modes).modes
    merged = merge(modes + found, target.circle)
    return merged, any(matters(mode, merged) and is_new(mode, modes, target.circle) for mode in found)


def states(target: Target, draws: Draws, known: Floats, budget: int, rng: np.random.Generator) -> Iterator[SearchState]:
    """Yield the state of a search before each phase, and at the end; its last state is the result."""
    steps: dict[Phase, Callable[[SearchTask, SearchState], SearchState]] = {
        Phase.KNOWN: _climb_from_known,
        Phase.FIRST: _climb_from_best,
        Phase.RIDGE: _climb_from_best,
        Phase.DOUBTFUL: _climb_from_doubtful,
        Phase.BESIDE: _climb_from_doubtful,
        Phase.SWARMS: _send_swarms,
    }
    begun = target.n_evaluations
    candidates = choose_starts(draws, _CANDIDATES).tolist()
    finite = np.flatnonzero(np.isfinite(draws.height)).tolist()
    task = SearchTask(target, draws, known, budget, begun + budget, rng, candidates, finite)
    state = SearchState(Phase.KNOWN, begun, [], [], frozenset(), 0, 0, [], "")
    while state.phase is not Phase.DONE:
        yield state
        state = steps[state.phase](task, state)
    yield state


def _climb_from_known(task: SearchTask, state: SearchState) -> SearchState:
    """Climb from all known points, as long as the budget lasts."""
    target, points, per_climb = task.target, task.known, climb_cost(task.target.dim)
    share = max(int(_KNOWN_SHARE * task.budget), min(task.budget, _KNOWN_CLIMBS * per_climb))
    end = state.begun + min(share, _BUDGET)
    while len(points) and (not state.modes or end - target.n_evaluations > per_climb):
        found = climb(target, points[:_STARTS], end - target.n_evaluations).modes
        uncounted = [mode._replace(n_climbs=0) for mode in found]
        state = state._replace(modes=merge(state.modes + uncounted, target.circle))
        points = np.array([z for z in points[_STARTS:] if not is_near(z, state.settled, target.circle)])
    return state._replace(phase=Phase.FIRST, begun=target.n_evaluations)


def _climb_from_best(task: SearchTask, state: SearchState) -> SearchState:
    """Climb from the most promising draws that are left, in the first round or on a ridge."""
    starts = _waiting(task, state)[:_STARTS]
    is_spent = state.phase is Phase.RIDGE and _left(task, state) < climb_cost(task.target.dim)
    if is_spent or not starts:
        return _end_climbs(task, state, _TOO_FEW if starts else NO_STARTS)
    return _climb(task, state, starts, _left(task, state))


def _climb_from_doubtful(task: SearchTask, state: SearchState) -> SearchState:
    """Climb from draws that the modes do not explain, and from promising ones while there were too few climbs."""
    target, per_climb, n_missing = task.target, climb_cost(task.target.dim), state.n_missing
    if _left(task, state) < per_climb:
        return _end_climbs(task, state, _TOO_FEW if n_missing > 0 else "")
    starts: list[int] = []
    if _left(task, state) >= per_climb + doubtful_cost():
        first, last = state.n_examined, state.n_examined + EXAMINED
        starts = find_doubtful(target, task.draws, state.settled, state.climbed, task.finite[first:last])
        state = state._replace(n_examined=last)
    if n_missing <= 0 and not starts:
        return _end_climbs(task, state)
    waiting = [i for i in _waiting(task, state) if i not in starts]
    starts += waiting[: max(0, min(n_missing, _STARTS) - len(starts))]
    if not starts:
        return _end_climbs(task, state, NO_STARTS)
    budget = _left(task, state)
    if n_missing <= 0:
        budget = min(budget, int(_LAST_CLIMBS * len(starts) * per_climb))
    return _climb(task, state, starts, budget)


def _send_swarms(task: SearchTask, state: SearchState) -> SearchState:
    """Send swarms; done if enough of them have come to the heaviest peak, or the budget is spent."""
    target = task.target
    budget = _SWARM_ROUNDS * full_cost(target.dim) if target.maxfev is None else int(_SWARM_SHARE * task.budget)
    left = state.begun + budget - target.n_evaluations
    if left < least_cost(target.dim):
        return state._replace(phase=Phase.DONE, doubt=_DISAGREE if state.swarm_ends else _NO_ROOM)
    apart, together = send_swarms(target, task.draws, left, task.rng)
    state = state._replace(
        modes=merge(state.modes + apart + together, target.circle), swarm_ends=state.swarm_ends + apart
    )
    at_heaviest = [mode for mode in state.swarm_ends if not is_new(mode, state.modes[:1], target.circle)]
    is_found = sum(mode.n_climbs for mode in at_heaviest) >= _OFTEN
    return state._replace(phase=Phase.DONE if is_found else Phase.SWARMS)


def _climb(task: SearchTask, state: SearchState, starts: list[int], budget: int) -> SearchState:
    """Make one round of climbs."""
    circle = task.target.circle
    found = climb(task.target, task.draws.z[starts], budget, known=state.modes)
    new = [mode for mode in found.modes if is_new(mode, state.modes, circle)]
    after = state._replace(
        modes=merge(state.modes + found.modes, circle),
        places=merge(state.places + found.ends, circle, keep_negligible=True),
        climbed=state.climbed | set(starts),
        n_rounds=state.n_rounds + 1,
    )
    return _choose_next(task, state, after, new)


def _choose_next(task: SearchTask, before: SearchState, after: SearchState, new: list[Mode]) -> SearchState:
    """Return the state after a round of climbs, which has found ``new`` modes, with its next phase."""
    n_that_matter = sum(matters(mode, after.modes) for mode in new)
    is_beside = before.phase is Phase.BESIDE
    if not is_beside and after.is_ridge:
        after = _on_ridge(after, len(new) >= _RICH, n_that_matter)
        if after.phase is Phase.RIDGE:
            return after
    else:
        n_news = sum(mode.is_peak for mode in new) if is_beside else n_that_matter
        if (is_beside or before.phase is Phase.DOUBTFUL) and before.n_missing <= 0 and n_news == 0:
            return _end_climbs(task, after)
        after = after._replace(phase=Phase.BESIDE if is_beside else Phase.DOUBTFUL)
    return _end_climbs(task, after, _TOO_FEW) if after.n_rounds >= _ROUNDS else after


def _on_ridge(state: SearchState, is_rich: bool, n_that_matter: int) -> SearchState:
    """Go on along a ridge while climbs find many new places, or leave it, perhaps with a doubt."""
    if is_rich and state.n_rounds < _RIDGE_ROUNDS:
        return state._replace(phase=Phase.RIDGE)
    is_seen = n_that_matter <= _RIDGE_NEWS or (state.n_rounds == 1 and not is_rich)
    is_enough = is_seen and state.n_climbs >= climbs_for(1)
    return state._replace(phase=Phase.BESIDE, doubt="" if is_enough else RIDGE)


def _end_climbs(task: SearchTask, state: SearchState, doubt: str = "") -> SearchState:
    """Go to the swarms, or end the search; a doubt that was there before stays."""
    phase = Phase.SWARMS if state.needs_swarms else Phase.DONE
    if doubt in (_TOO_FEW, NO_STARTS) and (state.doubt == RIDGE or (state.modes and state.is_ridge)):
        doubt = RIDGE
    return state._replace(phase=phase, begun=task.target.n_evaluations, doubt=doubt or state.doubt)


def _left(task: SearchTask, state: SearchState) -> int:
    """Likelihood evaluations that are left for climbs."""
    end = min(task.end, state.begun + _BUDGET + _BUDGET_PER_PEAK * state.n_peaks)
    return end - task.target.n_evaluations


def _waiting(task: SearchTask, state: SearchState) -> list[int]:
    """Promising draws that were not climbed from yet."""
    return [i for i in task.candidates if i not in state.climbed]


def send_swarms(target: Target, draws: Draws, n_max: int, rng: np.random.Generator) -> tuple[list[Mode], list[Mode]]:
    """Modes to which climbs from the ends of independent swarms lead, and from the end of a last swarm.

    The last swarm begins with the best points of the others. At most ``n_max`` likelihood evaluations are spent.
    """
    per_climb = climb_cost(target.dim)
    best = best_of_swarms(target, draws, n_max - (SWARMS + 1) * per_climb, rng)
    apart = climb(target, best[:SWARMS], SWARMS * per_climb).modes
    return apart, climb(target, best[SWARMS:], per_climb).modes


def least_cost(dim: int) -> int:
    """Likelihood evaluations of the shortest `send_swarms` that is worth it."""
    return _moves_cost(_STEPS_AT_LEAST) + (SWARMS + 1) * climb_cost(dim)


def full_cost(dim: int) -> int:
    """Likelihood evaluations of the longest `send_swarms`."""
    return _moves_cost(_STEPS) + (SWARMS + 1) * climb_cost(dim)


def _moves_cost(n_steps: int) -> int:
    return n_steps * SWARMS * (_PARTICLES + _REMEMBERED)


def best_of_swarms(target: Target, draws: Draws, n_max: int, rng: np.random.Generator) -> Floats:
    """The highest points that swarms find, ``(SWARMS + 1, d)``, with at most ``n_max`` likelihood evaluations.

    All but the last are independent: each begins with the highest of its own share of the draws. At least as many draws
    as there are swarms must be finite. The last swarm begins with the best points of the others.
    """
    n_steps = min(_STEPS, n_max // _moves_cost(1))
    box = np.stack([draws.z.min(axis=0), draws.z.max(axis=0)], axis=1)
    *sources, last = rng.spawn(SWARMS + 1)
    finite = np.flatnonzero(np.isfinite(draws.height))
    shares = [finite[i::SWARMS] for i in range(SWARMS)]
    firsts = [share[np.argsort(-draws.height[share], kind="stable")[:_PARTICLES]] for share in shares]
    apart = [
        Optimizer(box, method=PAO(), n_particles=_PARTICLES, x0=(draws.z[first], -draws.height[first]), rng=source)
        for first, source in zip(firsts, sources, strict=True)
    ]
    _move(target, apart, n_steps)
    points, values = zip(*map(_remembered, apart), strict=True)
    n = SWARMS * _REMEMBERED
    together = Optimizer(
        box, method=PAO(), n_particles=n, x0=(np.concatenate(points), np.concatenate(values)), rng=last
    )
    _move(target, [together], n_steps)
    return np.stack([swarm.result.x for swarm in (*apart, together)])


def _move(target: Target, swarms: Sequence[Optimizer], n_steps: int) -> None:
    """Move all swarms, with one call of the likelihood per step."""
    for _ in range(n_steps):
        asked = [swarm.ask() for swarm in swarms]
        told = np.split(-target.height(np.concatenate(asked)), np.cumsum([len(points) for points in asked])[:-1])
        for swarm, values in zip(swarms, told, strict=True):
            swarm.tell(values)


def _remembered(optimizer: Optimizer) -> tuple[Floats, Floats]:
    """The best points that a swarm has found, and their values."""
    found = optimizer.result.swarm
    best = order.ranked(found.best_value)[:_REMEMBERED]
    return found.best_position[best], found.best_value[best]
