"""Asynchronous runs of several searches: a search moves as soon as all points of its own generation are known."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from paoswarm.algorithms.mover import Mover
from paoswarm.algorithms.searches import Searches
from paoswarm.algorithms.sharing import Part
from paoswarm.core.arrays import Floats
from paoswarm.optimize.one_at_a_time import Job, OneAtATime
from paoswarm.optimize.stopping import Limits


class _Out:
    """A part whose points are being evaluated."""

    def __init__(self, part: Part | None, x: Floats, first: int) -> None:
        self.part = part  # None for the first swarm of the run
        self.x, self.first = x, first  # number of its first point
        self.n_given = 0
        self.values: Floats = np.full(len(x), np.nan)
        self.has_arrived = np.zeros(len(x), dtype=bool)


class SearchBySearch(OneAtATime):
    """Points of several searches. No search waits for another one, and a free worker gets a point of any of them.

    If the points of all generations that have begun are given out, the next search moves, or another one begins. Each
    completed generation of a search counts as a generation of the run.
    """

    method: Searches

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._out: list[_Out] = []  # in the order in which they were asked for
        self._movers: dict[int, Mover] = {}
        self._best_before = self._best

    @property
    def most_at_once(self) -> float:
        """How many workers it can keep busy: any number, since another search can begin."""
        return math.inf

    def budget(self, limits: Limits) -> int | None:
        """The most points that may be asked for; None if unknown."""
        return limits.maxfev

    @property
    def generations(self) -> float:
        """Generations so far."""
        return self.nit

    @property
    def is_complete(self) -> bool:
        """Whether no value has arrived that its search has not been told."""
        return not any(out.has_arrived.any() for out in self._out)

    def ask_one(self, progress: float) -> Job | None:
        """The next point; None if there is none before something is told."""
        out = next((out for out in self._out if out.n_given < len(out.x)), None)
        if out is None:
            if self.swarm is None:
                if self._out:  # nothing moves before the first swarm is known
                    return None
                out = _Out(None, self.points(progress), self.n_asked)
            else:
                self._progress = progress
                under_way = tuple(one.part for one in self._out if one.part is not None)
                part = self.method.next_part(self.swarm, under_way, self._draw, progress, self._movers)
                out = _Out(part, part.proposal.position, self.n_asked)
            self._out.append(out)
        out.n_given += 1
        return self._job(out.x[out.n_given - 1])

    def tell_one(self, number: int, value: float) -> bool:
        """The value at the point of a job, NaN where it failed; returns whether that completes a generation."""
        out = next(out for out in self._out if out.first <= number < out.first + len(out.x))
        row = number - out.first
        out.values[row], out.has_arrived[row] = value, True
        self._count_one(value)
        if self.swarm is not None:
            self._improve(out.x[row : row + 1], out.values[row : row + 1])
        is_complete = bool(out.has_arrived.all())
        if is_complete:
            self._out.remove(out)
            self._complete(out)
        return is_complete

    def _complete(self, out: _Out) -> None:
        """Tell a search its generation."""
        if out.part is None:
            self._pending = None
            self._begin(out.values, may_fail=True)
        else:
            assert self.swarm is not None
            assert self._best_before is not None
            self.swarm = self.method.tell_parts(self.swarm, [(out.part, out.values)])
            self._count_stale(self._best_before)
            self.nit += 1
        self._best_before = self.best

    def cut_short(self) -> None:
        """End the run with the values that have arrived: of an incomplete generation only the best point counts."""
        out, self._out = self._out, []
        if self.swarm is None and out:
            self._complete(out[0])
        elif any(one.has_arrived.any() for one in out):
            self.nit += 1
