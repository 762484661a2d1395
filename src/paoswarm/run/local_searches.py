"""Local searches between the generations of a swarm, for problems with constraints.

Where the functions are smooth, sequential quadratic programming finds the edge of the feasible region in a few dozen
evaluations, which takes a swarm thousands. Where they are not, it brings nothing and is used rarely:

- The first search starts from the best point of the first swarm.
- Later ones start from the best point, if the swarm has found a better one; else, of four, three near the best point
  and one at a random point of the bounds. The distance from the best point grows if searches fall back to it, and
  shrinks if they end at worse ones.
- A search ends early if it approaches the best point and one has converged there, or a minimum that is worse than it.
  A best point at which searches got stuck, on a kink, is no end: to come back to it proves nothing.
- They may use three quarters of the evaluations; half of them if the swarm has found a better point since. They get a
  tenth if three searches after that have found none, or if three in a row have not even come to a minimum. Those that
  were given up because their minimum is worse do not count.

Searches from random points that have converged count as independent searches, see `paoswarm.methods.agreement`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from paoswarm.core import order
from paoswarm.core.arrays import Floats
from paoswarm.core.random import Draw
from paoswarm.core.walls import Axes
from paoswarm.methods.agreement import CONVERGED, CUT_SHORT, HOPELESS, Search
from paoswarm.run import sqp
from paoswarm.run.judge import FeasibleFirst

_SHARE, _MOST, _LEAST = 0.5, 0.75, 0.1  # of the evaluations
_ONE_OF = 4  # searches starts at a random point, if the swarm has found nothing better
_USELESS = 3  # searches in a row without a better point
_LONGEST, _LONGEST_ATTEMPT = 150, 60  # evaluations of a search from the best point and of others, per unknown and two
_FAR, _FARTHEST, _NEAREST = 0.05, 0.5, 0.002  # distances of starts near the best point, in widths of the bounds
_FARTHER, _NEARER = 1.5, 1.2
_ALL, _FEW = 0.5, 1.0  # chance that a start differs from the best point in all coordinates; else in so many and one
_NEGLIGIBLE = 1e-9  # a better value by less, in units of the values, is rounding
SERIES = -1  # of local searches among the searches of a run


class LocalStart(NamedTuple):
    """Where a local search begins."""

    x: Floats
    row: Floats | None  # its value and constraints; None if it has to be evaluated
    is_independent: bool


class LocalSearches:
    """The local searches of one run.

    Attributes
    ----------
    spent : int
        Their evaluations.
    found : tuple of Search
        Those from random points that have converged.
    """

    def __init__(self, judge: FeasibleFirst, lower: Floats, upper: Floats, axes: Axes | None) -> None:
        self._judge = judge
        self._lower, self._upper, self._axes = lower, upper, axes
        self._free = np.arange(len(lower)) if axes is None else np.flatnonzero(axes.is_continuous & ~axes.is_round)
        self.spent = 0
        self.found: tuple[Search, ...] = ()
        self._turn = 0
        self._far = _FAR  # how far from the best point searches begin, in widths of the bounds
        self._is_near = False  # whether the search under way began near the best point
        self._useless = 0  # searches in a row that brought nothing
        self._stuck = 0  # those that did not come to a minimum either: the functions may have kinks
        self._is_end = False  # whether a search has converged at the best point
        self._seen = math.inf  # score of the best point after the last search
        self._swarm_leads = False  # whether the swarm has found the best point

    @property
    def _share(self) -> float:
        if self._stuck >= _USELESS:
            return _LEAST
        if not self._swarm_leads:
            return _MOST
        return _LEAST if self._useless >= _USELESS else _SHARE

    def is_due(self, nfev: int) -> bool:
        """Whether a search should begin now."""
        return len(self._free) > 0 and self._judge.best is not None and self.spent <= self._share * nfev

    def from_best(self) -> LocalStart:
        """The best point as a start."""
        best = self._judge.best
        assert best is not None
        return LocalStart(best.x, np.concatenate([[best.value], best.numbers]), False)

    def start(self, draw: Draw) -> LocalStart:
        """Where the next search begins."""
        best = self._judge.best
        assert best is not None
        has_better = self._is_better(best.score, self._seen)
        if has_better and math.isfinite(self._seen):
            self._swarm_leads = True
        if has_better:
            self._is_end = False
            return self.from_best()
        width = self._upper - self._lower
        chance = draw.uniform(len(best.x))
        x = self._lower + chance * width
        self._is_near = self._turn % _ONE_OF > 0
        if self._is_near:  # along all coordinates, or along one or two
            d = len(best.x)
            chosen = draw.uniform(d + 2)
            moves = (chosen[:d] < _FEW / d) | (np.arange(d) == int(d * chosen[d])) | (chosen[d + 1] < _ALL)
            width = np.where(moves, width, 0.0)
            x = np.clip(best.x + self._far * (2 * chance - 1) * width, self._lower, self._upper)
        self._turn += 1
        if self._axes is not None:
            x = self._axes.snapped(x, self._lower, self._upper)
        return LocalStart(x, None, not self._is_near)

    def _is_better(self, new: float, old: float) -> bool:
        """Whether a score is better than another by more than rounding."""
        if not (order.is_feasible(new) and order.is_feasible(old)):
            return bool(order.is_better(new, old))
        return bool(order.is_better(new, old - _NEGLIGIBLE * max(self._judge.unit, abs(old))))

    def search(self, start: LocalStart, row: Floats) -> sqp.Search:
        """The search from a start, whose value and constraints are known."""
        scales, best = self._judge.scales, self._judge.best
        assert scales is not None
        assert best is not None
        problem = sqp.Smooth(
            self._judge.constraints,
            scales,
            self._judge.unit,
            self._lower,
            self._upper,
            self._free,
            best.value if order.is_feasible(best.score) and start.row is None else math.inf,
            best.x if self._is_end and order.is_feasible(best.score) and start.row is None else None,
        )
        return sqp.search(problem, start.x, row)

    def longest(self, start: LocalStart) -> int:
        """The most evaluations of one search."""
        return (_LONGEST_ATTEMPT if start.row is None else _LONGEST) * (len(self._free) + 2)

    def ended(self, start: LocalStart, before: float, own: Search, is_back: bool) -> None:
        """Take note of a search that has ended at ``own``; before it the best point had the score ``before``."""
        self.spent += own.evaluations
        best = self._judge.best
        assert best is not None
        if self._is_better(best.score, before) or start.row is not None:
            self._is_end = own.ending == CONVERGED
        if self._is_better(best.score, before):
            self._useless, self._stuck, self._swarm_leads = 0, 0, False
        else:
            self._useless += 1
            if own.ending != HOPELESS:  # one that was given up says nothing about where it would have ended
                self._stuck = self._stuck + 1 if own.ending == CUT_SHORT else 0
            if self._is_near:  # farther if it fell back to the best point, nearer if it ended at a worse one
                is_back = is_back or not self._is_better(before, own.value)
                self._far = min(_FARTHEST, self._far * _FARTHER) if is_back else max(_NEAREST, self._far / _NEARER)
        self._is_near = False
        self._seen = best.score
        if is_back:
            own = own._replace(x=best.x, value=best.score)
        if start.is_independent and own.ending != CUT_SHORT and order.is_feasible(own.value):
            self.found = (*self.found, own)
