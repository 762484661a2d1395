"""Local searches between the generations of a swarm, for problems with constraints.

Where the functions are smooth, sequential quadratic programming finds the edge of the feasible region in a few dozen
evaluations, which takes a swarm thousands. Where they are not, it brings nothing and is used rarely:

- The first search starts from the best point of the first swarm.
- Later ones start in turn from the best point, if the swarm has found a better one; from a point near the best; and
  from a random point of the bounds.
- They may use half of the evaluations; three quarters while they find the better points; a tenth if they find none
  although the swarm does.

Searches from random points that have converged count as independent searches, see `paoswarm.algorithms.agreement`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from paoswarm.algorithms.agreement import Search
from paoswarm.core import order
from paoswarm.core.arrays import Floats
from paoswarm.core.axes import Axes
from paoswarm.core.random import Draw
from paoswarm.optimize import sqp
from paoswarm.optimize.feasibility import Feasibility

_SHARE, _MOST, _LEAST = 0.5, 0.75, 0.1  # of the evaluations
_USELESS = 3  # searches in a row without a better point
_LONGEST = 150  # evaluations of one search, for each unknown and two more
_FARTHEST = 0.3  # a start near the best point is at most so many widths of the bounds away from it
_NEAREST = 2.0  # powers of ten by which it may be nearer
SERIES = -1  # of local searches among the searches of a run


class Start(NamedTuple):
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

    def __init__(self, feasibility: Feasibility, lower: Floats, upper: Floats, axes: Axes | None) -> None:
        self._feasibility = feasibility
        self._lower, self._upper, self._axes = lower, upper, axes
        self._free = np.arange(len(lower)) if axes is None else np.flatnonzero(axes.is_continuous & ~axes.is_round)
        self.spent = 0
        self.found: tuple[Search, ...] = ()
        self._turn = 0
        self._useless = 0  # searches in a row that brought nothing
        self._seen = math.inf  # score of the best point after the last search
        self._swarm_leads = False  # whether the swarm has found the best point

    @property
    def _share(self) -> float:
        if self._useless >= _USELESS:
            return _LEAST if self._swarm_leads else _SHARE
        return _MOST if self._useless == 0 and not self._swarm_leads else _SHARE

    def is_due(self, nfev: int) -> bool:
        """Whether a search should begin now."""
        return len(self._free) > 0 and self._feasibility.best is not None and self.spent <= self._share * nfev

    def from_best(self) -> Start:
        """The best point as a start."""
        best = self._feasibility.best
        assert best is not None
        return Start(best.x, np.concatenate([[best.value], best.numbers]), False)

    def start(self, draw: Draw) -> Start:
        """Where the next search begins."""
        best = self._feasibility.best
        assert best is not None
        has_better = best.score < self._seen
        if has_better and math.isfinite(self._seen):
            self._swarm_leads = True
        if has_better:
            return self.from_best()
        self._turn += 1
        chance = draw.uniform(len(best.x))
        x = self._lower + chance * (self._upper - self._lower)
        if self._turn % 2:
            far = _FARTHEST * 10 ** (-_NEAREST * float(draw.uniform(1)[0]))
            x = np.clip(best.x + far * (2 * chance - 1) * (self._upper - self._lower), self._lower, self._upper)
        if self._axes is not None:
            x = self._axes.snapped(x, self._lower, self._upper)
        return Start(x, None, self._turn % 2 == 0)

    def search(self, start: Start, row: Floats) -> sqp.Search:
        """The search from a start, whose value and constraints are known."""
        scales = self._feasibility.scales
        assert scales is not None
        problem = sqp.Smooth(
            self._feasibility.constraints, scales, self._feasibility.unit, self._lower, self._upper, self._free
        )
        return sqp.search(problem, start.x, row)

    @property
    def longest(self) -> int:
        """The most evaluations of one search."""
        return _LONGEST * (len(self._free) + 2)

    def ended(self, start: Start, before: float, own: Search, has_converged: bool) -> None:
        """Take note of a search that has ended at ``own``; before it the best point had the score ``before``."""
        self.spent += own.evaluations
        best = self._feasibility.best
        assert best is not None
        if order.is_better(best.score, before):
            self._useless, self._swarm_leads = 0, False
        else:
            self._useless += 1
        self._seen = best.score
        if start.is_independent and has_converged and order.is_feasible(own.value):
            self.found = (*self.found, own)
