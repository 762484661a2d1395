r"""The state of a search for modes, and what it says about modes that are still missing.

**When climbs are enough.** With :math:`k` peaks known, :math:`n` climbs miss one more of their size with probability
:math:`(1 - 1/(k+1))^n < e^{-n/(k+1)}`. So :math:`n = 4.6\,(k + 1)` climbs miss it in one search out of a hundred.

**When swarms are needed.** The share of climbs that ended alone at a peak estimates the probability that the next climb
ends at an unseen peak (Good 1953). If it is above one half, the heaviest peak is probably not found yet.
"""

from __future__ import annotations

import math
from enum import Enum, auto
from typing import NamedTuple

import numpy as np

from paoswarm.core.arrays import Floats
from paoswarm.core.weights import log_sum_exp
from paoswarm.sampling.modes import Mode, matters
from paoswarm.sampling.starts import Draws
from paoswarm.sampling.target import Target

_PER_MODE = 4.6  # climbs that are enough, per mode, counting an unknown one
_RIDGE = 0.5  # share of peaks among the modes that matter, up to which these are taken for a ridge
_TELLING = 8  # climbs to peaks from which on the number of unseen peaks is estimated
_ALONE = 0.5  # share of these climbs that ended alone, above which the ground is rugged
_SHARED = 1.5  # log ratio of all mass to that of the heaviest mode, above which no swarms are sent


class Phase(Enum):
    """What a search does next; see `paoswarm.sampling.explore`."""

    KNOWN = auto()
    FIRST = auto()
    RIDGE = auto()
    DOUBTFUL = auto()
    BESIDE = auto()
    SWARMS = auto()
    DONE = auto()


class Task(NamedTuple):
    """What does not change during a search."""

    target: Target
    draws: Draws
    known: Floats  # (m, d) points near modes
    budget: int  # likelihood evaluations for climbs
    end: int  # count of evaluations at which this budget is spent
    rng: np.random.Generator
    candidates: list[int]  # promising draws, the best first
    finite: list[int]  # draws with a finite height


class State(NamedTuple):
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
        """Number of climbs from draws that have ended, except those at light modes."""
        n_light = sum(mode.n_climbs for mode in self.modes if not matters(mode, self.modes))
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
