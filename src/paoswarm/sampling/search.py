"""The search for modes: climbs in rounds, until there were enough and nothing stands out of what they have found."""

from __future__ import annotations

import math
from itertools import chain, zip_longest
from typing import NamedTuple

import numpy as np

from paoswarm.core.arrays import Floats
from paoswarm.core.weights import log_sum_exp
from paoswarm.sampling.modes import Mode, climb_cost, find_modes, is_new, merge, near
from paoswarm.sampling.starts import beyond_valleys, choose_starts, screening_cost, unexplained
from paoswarm.sampling.swarms import STEPS, SWARMS, best_of_swarms, swarms_cost
from paoswarm.sampling.target import Target

_STARTS = 16  # of climbs, in a round
_DOUBTS = 6  # of these starts at most that stand out of what is known: many may lead to the same mode
_AT_RANDOM = 3  # starts anywhere, where no draw stands out
_ROUNDS = 20  # at most
_CANDIDATES = 12 * _STARTS  # draws, the highest and those that exceed the trend
_RICH = 4  # new places in a round, along a ridge, that promise more in another
_ROUNDS_ON_A_RIDGE = 6
_LOOKED_AT = 48  # draws that stand out, and as many as they come, before a later round
_ENOUGH = 4.6  # climbs per mode, known or not: one more of their size is then missed in one search of a hundred
_CLIMBING = 16_000  # evaluations for climbs, and for each peak so many more:
_CLIMBING_EACH = 1000
_ROUNDS_OF_SWARMS = 3  # at most, where the budget is not limited
_STEPS_AT_LEAST = 10  # of swarms, to be worth anything
_TELLING = 8  # climbs to peaks that say something of their number
_OFTEN = 3  # swarms that come to the heaviest of many peaks: not by chance
_SHARED = 1.5  # log of how many times the mass of the heaviest peak others hold, where none is the one to find

_TOO_FEW = (
    "the search for modes made too few climbs for the places it has found (a thin ridge, or the edge of what is "
    "allowed, looks like many): others may be missing"
)
_NOT_LOOKED_FOR = (
    "there are many peaks, and maxfev leaves no room for swarms to look for the heaviest: heavier ones may be missing, "
    "so no error is stated"
)
_HARDLY_FOUND = (
    "there are many peaks, and few of the swarms that looked for the heaviest came to the same: heavier ones may be "
    "missing, so no error is stated"
)


class Search(NamedTuple):
    """What the search has found, and whether more is to be expected."""

    modes: list[Mode]  # heaviest first
    incomplete: str  # why others may be missing; empty if nothing speaks for it
    is_trusted: bool = True  # whether what was found is likely to be most of the posterior


def search(target: Target, z: Floats, value: Floats, known: Floats, n_max: int, rng: np.random.Generator) -> Search:
    """Look for modes from draws ``z`` of heights ``value`` and from points that are ``known`` to lie near some.

    By climbs; and where most of them end each at a peak of its own, by swarms. There the heaviest is still to be found,
    and only an optimiser that comes back to it shows that it was. Climbs spend at most ``n_max`` likelihood
    evaluations, swarms a third more.
    """
    climbed = _climb_in_rounds(target, z, value, known, n_max)
    modes = climbed.modes
    if _is_rugged(climbed.places) and _is_mostly_one(modes):
        modes, doubt = _look_by_swarms(target, z, value, modes, 4 * n_max // 3, rng)
        if doubt:
            return Search(modes, doubt, is_trusted=False)
    return Search(modes, "" if climbed.is_settled else _TOO_FEW)


def _is_rugged(places: list[Mode]) -> bool:
    """Whether most climbs that ended on peaks, light ones too, were the only ones to end there.

    The share of those estimates the chance that the next climb ends at a peak that nobody has seen (Good 1953).
    """
    n_climbs = [mode.n_climbs for mode in places if mode.is_peak]
    return sum(n_climbs) >= _TELLING and 2 * n_climbs.count(1) > sum(n_climbs)


def _is_mostly_one(modes: list[Mode]) -> bool:
    """Whether the heaviest holds much of the mass found: what many peaks share is not lost with a few of them."""
    return bool(log_sum_exp(np.array([mode.log_mass for mode in modes])) < modes[0].log_mass + _SHARED)


def _look_by_swarms(
    target: Target, z: Floats, value: Floats, modes: list[Mode], n_max: int, rng: np.random.Generator
) -> tuple[list[Mode], str]:
    """The modes with those that PAO finds, and a doubt, unless independent swarms have come back to the heaviest."""
    climbing = climb_cost(target.dim)  # from where a swarm has ended
    if target.maxfev is None:
        n_max = _ROUNDS_OF_SWARMS * (swarms_cost(STEPS) + (SWARMS + 1) * climbing)
    end = target.n_evaluations + n_max
    doubt = _NOT_LOOKED_FOR
    ends: list[Mode] = []  # of independent swarms
    while doubt:
        most = end - target.n_evaluations - (SWARMS + 1) * climbing
        if most < swarms_cost(_STEPS_AT_LEAST):
            break
        best = best_of_swarms(target, z, value, most, rng)
        apart = find_modes(target, best[:SWARMS], SWARMS * climbing).modes
        together = find_modes(target, best[SWARMS:], climbing).modes
        ends += apart
        modes = merge(modes + apart + together, target.circle)
        there = [mode for mode in ends if not is_new(mode, modes[:1], target.circle)]
        doubt = "" if sum(mode.n_climbs for mode in there) >= _OFTEN else _HARDLY_FOUND
    return modes, doubt


class Climbed(NamedTuple):
    """What the climbs have found."""

    modes: list[Mode]  # heaviest first
    is_settled: bool  # whether they were enough for what they have found
    places: list[Mode]  # all where climbs have ended, however light


def _climb_in_rounds(target: Target, z: Floats, value: Floats, known: Floats, n_max: int) -> Climbed:
    r"""Climb from draws ``z`` of heights ``value`` until no other mode is to be expected; also whether it came so far.

    With :math:`k` peaks known, one more of their size is missed by :math:`n` climbs with the probability
    :math:`(1 - 1/(k+1))^n < e^{-n/(k+1)}`. A smaller one shows in draws that are higher than the known peaks explain,
    or that a valley separates from them: it is climbed from a few of them, and from a few others, as long as that
    brings something new. What is ``known`` to lie near modes is climbed from too, but tells nothing of what else there
    is. On a ridge every climb may end in another place: there a few rounds have to do, before the draws are compared
    with its peaks, if it has any. Where the budget pays for enough climbs, but not for another look at the draws, that
    has to do, too.
    """
    begun = target.n_evaluations
    modes = _climb_from_known(target, known, min(max(n_max // 2, min(n_max, 2 * climb_cost(target.dim))), _CLIMBING))
    n_max -= target.n_evaluations - begun
    begun = target.n_evaluations
    waiting = choose_starts(z, value, _CANDIDATES).tolist()
    as_they_come = np.flatnonzero(np.isfinite(value)).tolist()
    tops = [mode for mode in modes if mode.is_settled]  # where climbs have arrived
    peaks: list[Mode] = []  # round ones that matter
    places: list[Mode] = []
    on_a_ridge = was_on_a_ridge = False
    is_settled = True
    made = n_climbs = 0
    climbed = set[int]()
    for turn in range(_ROUNDS):
        end = begun + min(n_max, _CLIMBING + _CLIMBING_EACH * len(peaks))
        left = end - target.n_evaluations - climb_cost(target.dim)
        missing = _STARTS if turn == 0 or on_a_ridge else math.ceil(_ENOUGH * (len(peaks) + 1)) - made
        is_enough = missing <= 0
        if turn and left < 0:
            return Climbed(modes, is_enough and is_settled, places)
        climbing: list[int] = []
        if turn and not on_a_ridge and left >= screening_cost(2 * _LOOKED_AT):
            climbing = _doubtful(target, z, value, tops, climbed, as_they_come[:_LOOKED_AT])
            as_they_come = as_they_come[_LOOKED_AT:]
        if is_enough and not climbing:
            return Climbed(modes, is_settled, places)
        climbing += [i for i in waiting if i not in climbing][: max(0, min(missing, _STARTS) - len(climbing))]
        if not climbing:
            return Climbed(modes, False, places)
        climbed.update(climbing)
        waiting = [i for i in waiting if i not in climbed]
        most = end - target.n_evaluations
        if is_enough:
            most = min(most, 2 * len(climbing) * climb_cost(target.dim))
        found, n_ended, ends = find_modes(target, z[climbing], most)
        places = merge(places + ends, target.circle, negligible=math.inf)
        n_climbs += n_ended
        new = [mode for mode in found if is_new(mode, modes, target.circle)]
        modes = merge(modes + found, target.circle)
        tops = merge(tops + [mode for mode in found if mode.is_settled], target.circle)
        peaks = [mode for mode in modes if mode.is_peak and matters(mode, modes)]
        made = n_climbs - sum(mode.n_climbs for mode in modes if not matters(mode, modes))  # light ones do not count
        n_news = sum(mode.is_peak if was_on_a_ridge else matters(mode, modes) for mode in new)
        on_a_ridge = not was_on_a_ridge and 2 * len(peaks) <= sum(matters(mode, modes) for mode in modes)
        if on_a_ridge and (len(new) < _RICH or turn + 1 >= _ROUNDS_ON_A_RIDGE):
            is_settled = made >= 2 * _ENOUGH and (n_news <= 1 or (turn == 0 and len(new) < _RICH))
            on_a_ridge, was_on_a_ridge = False, True  # other modes show in the draws, as ever
        elif is_enough and n_news == 0:
            return Climbed(modes, is_settled, places)
    return Climbed(modes, False, places)


def _doubtful(
    target: Target, z: Floats, value: Floats, tops: list[Mode], climbed: set[int], anywhere: list[int]
) -> list[int]:
    """A few draws that may lead to other modes than those that are known: in turns strange, separated, and any ones.

    Where a mode explains its own slope badly, because most draws are of another kind, many there are strange.
    """
    strange, apart = [], []
    if any(mode.is_peak for mode in tops):
        some, is_strange = unexplained(z, value, tops, _LOOKED_AT, target.circle)
        both = np.concatenate([some, np.array(anywhere, dtype=np.intp)])
        is_apart = beyond_valleys(target, z[both], value[both], tops)
        strange, apart = some[is_strange].tolist(), both[is_apart].tolist()
    in_turns = chain.from_iterable(zip_longest(strange, apart, anywhere))
    chosen = [i for i in dict.fromkeys(in_turns) if i is not None and i not in climbed]
    return chosen[: _DOUBTS if strange or apart else _AT_RANDOM]


def _climb_from_known(target: Target, known: Floats, n_max: int) -> list[Mode]:
    """The modes that points lead to which are said to lie near some; all of them, as long as the budget lasts."""
    end = target.n_evaluations + n_max
    modes: list[Mode] = []
    while len(known) and (not modes or end - target.n_evaluations > climb_cost(target.dim)):
        found = find_modes(target, known[:_STARTS], end - target.n_evaluations).modes
        modes = merge(modes + [mode._replace(n_climbs=0) for mode in found], target.circle)
        there = [mode for mode in modes if mode.is_settled]
        known = np.array([z for z in known[_STARTS:] if not near(z, there, 2.0, target.circle)])
    return modes


def matters(mode: Mode, modes: list[Mode]) -> bool:
    """Whether a mode holds more than a few hundredths of the mass of the heaviest, by Laplace."""
    return mode.log_mass > modes[0].log_mass - 3
