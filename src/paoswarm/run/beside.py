"""What a run evaluates beside its swarm: local searches between generations, and a look around its end.

*Local searches* are for problems with constraints. Where the functions are smooth, sequential quadratic programming
finds the edge of the feasible region in a few dozen evaluations, which takes a swarm thousands. Where they are not, it
brings nothing and is used rarely:

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

*A look around* the point at which a swarm has come to rest shows whether it is a minimum, or a place where it has only
contracted. Two rounds, ``2 d + 4`` points: a step to both sides along every axis, then steps against the slope that
these show. Along a whole number the step is one, and of a choice every entry is tried. Where a valley is so narrow that
every step along an axis leads uphill, both sides rise alike, and what remains in their difference is the slope of the
valley's floor. The steps are long enough that rounding does not matter, and so short that other minima are rarely
reached.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from paoswarm.core import order
from paoswarm.core.arrays import Floats
from paoswarm.core.random import Draw
from paoswarm.core.walls import Axes
from paoswarm.evaluate.caller import End
from paoswarm.evaluate.queue import Answer, Batch
from paoswarm.methods.agreement import CONVERGED, CUT_SHORT, HOPELESS, Search
from paoswarm.run import sqp
from paoswarm.run.judge import FeasibleFirst, best_of
from paoswarm.run.read_input import Box
from paoswarm.run.sqp import Ended
from paoswarm.run.sqp import Search as SqpSearch
from paoswarm.run.stopping import Limits, Rule

if TYPE_CHECKING:
    from paoswarm.run.run_state import RunState


class LocalEnd(NamedTuple):
    """How a local search beside the swarm ended."""

    own: Search  # the best point that it has seen itself
    has_converged: bool = False
    is_back: bool = False  # at the best point that was known before
    end: End = None
    replayed: bool = False


def search_from(
    state: RunState, local: LocalSearches, start: LocalStart, limits: Limits, numbering: Any = None
) -> Generator[list[Batch], Answer, LocalEnd]:
    """A local search from a start; the best point of the run takes part in what it finds."""
    spent, own = 0, (math.inf, start.x)
    course = _course(local, start)
    points = next(course)
    end: End = None
    replayed, ended, ending = True, Ended(start.x, False), CUT_SHORT
    while True:
        room = local.longest(start) - spent
        rows = points[: room if limits.maxfev is None else min(room, limits.maxfev - state.nfev)]
        if not len(rows):
            break
        numbers = None if numbering is None else numbering.of(state.nfev, len(rows), None)
        answer = yield [Batch(rows, deadline=limits.deadline, numbers=numbers)]
        values, end, known, recalled, *_ = answer
        state.note_failures(answer.failed, np.zeros(len(rows), dtype=int))
        replayed = replayed and known
        scores = state.scored(rows[: len(values)], values)
        state.take_extra(rows[None, : len(values)], scores[None], np.asarray(True), len(values), recalled)
        spent += len(values) - recalled
        best = best_of(rows[: len(values)], scores) if len(values) else None
        if best is not None and order.is_better(best.score, own[0]):
            own = float(best.score), best.x.copy()
        if end is not None or len(values) < len(points):
            break
        try:
            points = course.send(values)
        except StopIteration as stop:
            ended = stop.value
            ending = HOPELESS if ended.is_hopeless else CONVERGED if ended.has_converged else CUT_SHORT
            break
    began = state.nfev - spent
    found = Search(SERIES, 1, spent, own[1], own[0], ending, kind="local", began=began, ended=state.nfev)
    return LocalEnd(found, ended.has_converged, ended.is_back, end, replayed)


def _course(local: LocalSearches, start: LocalStart) -> SqpSearch:
    """The points of a local search: first the start, if its value is unknown."""
    row = start.row
    if row is None:
        row = (yield start.x[None])[0]
        if np.isnan(row[0]):
            return Ended(start.x, False)
    return (yield from local.search(start, row))


class Look(NamedTuple):
    """What was seen around the points at which runs have converged."""

    is_better: Any = False  # whether a point near that of each run is clearly better
    spent: int = 0  # evaluations of each of the runs
    end: End = None


def look_around(
    state: RunState, limits: Limits, runs: NDArray[np.bool_], numbering: Any = None
) -> Generator[list[Batch], Answer, Look]:
    """Whether ``runs`` that have converged are at a minimum, as far as a few evaluations show.

    With noise it would be a matter of chance, and half a look is none: then no point is evaluated. Nor is any if a
    store has recorded that the run went on.
    """
    best, d, is_single = state.incumbent, len(state.lower), not state.batch
    axes = state.space.axes
    is_affordable = limits.maxfev is None or limits.maxfev - state.nfev >= cost(d, axes)
    is_feasible = not state.judge.n_constraints or bool(order.is_feasible(best.value))
    if not runs.any() or not is_affordable or best.error is not None or not is_feasible:
        return Look()
    before, spent = state.nfev, 0
    width = state.upper - state.lower
    looking = look(best.x[runs], np.asarray(best.value)[runs], width, state.allowed, axes)
    points = next(looking)
    while True:
        k, m = points.shape[:2]
        rows = points.reshape(-1, d)
        asked = Batch(rows, is_single, limits.deadline if is_single else None, is_beyond=is_single)
        if numbering is not None:  # they follow the run's other evaluations
            numbers = numbering.of(before + spent, m, None if is_single else runs)
            asked = asked._replace(is_beyond=False, numbers=numbers)
        answer = yield [asked]
        values, end, _, recalled, *_ = answer
        state.note_failures(answer.failed, np.repeat(np.flatnonzero(runs), m))
        f = np.full(k * m, np.inf)  # what was not evaluated is no better
        f[: len(values)] = state.scored(rows[: len(values)], values)
        if state.judge.n_constraints:  # nor is what is infeasible, and how much so does not matter
            f = np.where(order.is_feasible(f) | np.isnan(f), f, np.inf)
        state.take_extra(points, f.reshape(k, m), runs, len(values) // k, recalled)
        spent += len(values) // k - recalled
        if end is not None:
            return Look(False, spent, end)
        try:
            points = looking.send(f.reshape(k, m))
        except StopIteration as seen:
            is_better = np.zeros(runs.shape, dtype=bool)
            is_better[runs] = seen.value
            return Look(is_better, spent)


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


_STEP = 1e-4  # widths of the bounds
_DOWNHILL = np.array([0.01, 0.1, 1.0, 10.0])  # steps of that length
_RISE, _ROUNDING = 1e-6, 1e-12  # a gain must be more than these shares of the largest rise and of the value


_FINE = 1e-7  # of a swarm that has stopped farther from the minimum than this, the steps would find better points


def cost(n_unknowns: int, axes: Axes | None = None) -> int:
    """How many evaluations it takes."""
    if axes is None:
        return 2 * n_unknowns + len(_DOWNHILL)
    entries = sum(last - first for first, last in axes.choices)
    return 2 * (n_unknowns - entries) + entries + (len(_DOWNHILL) if axes.is_continuous.any() else 0)


def is_worth_it(rule: Any, tol: float) -> Any:
    """Whether a run that has converged by a `Rule` claims to be close enough to a minimum to be examined."""
    return (rule == Rule.VALUES) | (rule == Rule.PATIENCE) | ((rule == Rule.SPREAD) & (tol <= _FINE))


def look(
    x: Floats, best: Floats, widths: Floats, allowed: Box, axes: Axes | None = None
) -> Generator[Floats, Floats, NDArray[np.bool_]]:
    """Yield points ``(k, m, d)`` around each of the points ``x`` (k, d), be sent their values, and do so again.

    Values that are not known are NaN or infinite. Return whether one around each point is clearly better than ``best``
    (k,), its own value.
    """
    line = _ordered(x.shape[-1], axes)
    points = _along_axes(x, widths, allowed, axes, line)
    values = yield points
    if axes is None or axes.is_continuous.any():
        more = yield _downhill(x, points, values, widths, allowed, axes, line)
        values = np.concatenate([values, more], axis=-1)
    known = np.where(np.isfinite(values), values, best[:, None])
    with np.errstate(over="ignore"):
        rise = known.max(axis=-1) - best
        return best - known.min(axis=-1) > _RISE * rise + _ROUNDING * np.abs(best)


def _ordered(d: int, axes: Axes | None) -> Any:
    """The coordinates along which there are steps: all but those of choices."""
    is_entry = np.zeros(d, dtype=bool)
    for first, last in () if axes is None else axes.choices:
        is_entry[first:last] = True
    return np.flatnonzero(~is_entry)


def _along_axes(x: Floats, widths: Floats, allowed: Box, axes: Axes | None, line: Any) -> Floats:
    """Points ``(k, m, d)`` on both sides of each point along the coordinates ``line``, then other choices."""
    lengths = _STEP * widths
    if axes is not None:
        lengths = np.where(axes.is_whole, 1.0, lengths)
    steps = np.diag(lengths)[line]
    points = _clipped(x[:, None, :] + np.concatenate([steps, -steps]), allowed, axes)
    others = []
    for first, last in () if axes is None else axes.choices:
        chosen = np.repeat(x[:, None, :], last - first, axis=1)
        chosen[:, :, first:last] = np.eye(last - first)
        others.append(chosen)
    return np.concatenate([points, *others], axis=1)


def _downhill(
    x: Floats, points: Floats, values: Floats, widths: Floats, allowed: Box, axes: Axes | None, line: Any
) -> Floats:
    """Points ``(k, 4, d)`` against the slope that the values along the axes show."""
    m = len(line)
    right, left = (np.diagonal(side[..., line], axis1=1, axis2=2) for side in (points[:, :m], points[:, m : 2 * m]))
    slope = np.zeros_like(x)
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        slope[:, line] = (values[:, :m] - values[:, m : 2 * m]) / ((right - left) / widths[line])
    if axes is not None:
        slope = np.where(axes.is_continuous, slope, 0.0)
    slope = np.where(np.isfinite(slope), slope, 0.0)  # nothing is known where a point failed
    slope = slope / np.maximum(np.abs(slope).max(axis=-1, keepdims=True), np.finfo(float).tiny)
    length = np.sqrt((slope * slope).sum(axis=-1, keepdims=True))
    direction = slope / np.where(length > 0, length, 1.0)
    steps = _STEP * _DOWNHILL[:, None] * (direction * widths)[:, None, :]
    return _clipped(x[:, None, :] - steps, allowed, axes)


def _clipped(points: Floats, allowed: Box, axes: Axes | None) -> Floats:
    inside: Floats = np.clip(points, *allowed)
    return inside if axes is None else axes.wrapped(points, inside, *allowed)
