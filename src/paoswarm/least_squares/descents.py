r"""The searches of a fit: where they start, when they are given up, and when their ends agree.

- A search starts at the better of two points of a Latin hypercube. Another one begins when none is under way, or when
  there are idle workers.
- *Known*: it has come to the end of an earlier search, or to the same fit: residuals that differ by less than a
  hundredth of their size. Places with the same residuals are one place, whatever the unknowns are.
- *Hopeless*: it is worse than the best end, and at its present rate would need more than eight times as long to get
  there. *Parked*: it hardly falls and there is no end to compare it with; another one begins.
- The ends agree by (A11) and (A12) of `paoswarm.methods.agreement`. They are counted in the order of starts: quick
  searches end first, so wrong minima would agree first.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from paoswarm.core.arrays import Floats
from paoswarm.core.random import latin_hypercube
from paoswarm.least_squares.descent import ACTIVE, CONVERGED, CUT_SHORT, HOPELESS, KNOWN, Descent, Precision, Trial
from paoswarm.least_squares.loss import Loss
from paoswarm.least_squares.pool import Pool
from paoswarm.least_squares.trust_region import Linear, bounded_step
from paoswarm.methods.agreement import Agreement, Search, agreement

_BEST_OF = 2  # points at the start of a search: with eight, more searches begin on plateaus and in wrong basins
_SAME_FIT = 1e-4  # squared difference of residuals, relative to their squares
_SAME_VALUE, _SAME_END = 1e-3, 1e-5  # relative; on the way, and at the end
_SAME_PLACE, _VERY_NEAR = 1e-3, 1e-4  # root mean square distance in widths
_WINDOW, _PATIENCE = 3, 8  # times n + 1 evaluations; how many such windows a search may need to catch up
_STALLED = 0.05  # fall of the logarithm over a window
_PROMISING = 1e-2  # relative gain that the next step promises
_MOST_PARKED = 4
_PLATEAU = 1.5  # an end that is not better than its start by this factor may be on one
_NOISE = 1e-5  # relative to the residuals; less does no harm
_BESIDE = 1e-7  # length over which only noise changes outputs
_FLOOR = 0.05  # times the root of the noise; of 0.5, 0.15, 0.1 and 0.05 the last solved most development problems


class End(NamedTuple):
    """How a search has ended."""

    number: int  # of the search
    x: Floats
    value: float
    state: str
    first_value: float
    spent: int
    residuals: Floats


class Request(NamedTuple):
    """A point to evaluate."""

    number: int  # of the request
    point: Floats


class _Group:
    """Points that were asked for together; what they are for is done when all are there."""

    def __init__(self, points: list[Floats], then: Callable[[list[int]], None]) -> None:
        self.points, self.then = points, then
        self.n_sent, self.n_back = 0, 0
        self.numbers = [-1] * len(points)  # in the pool


class Descents:
    """All searches of a fit; points are asked for, and outputs told in any order.

    Parameters
    ----------
    loss : Loss
    is_round : array of bool (n,)
        Axes that are circles.
    rng : Generator
    at_once : int
        How many points are evaluated side by side.
    """

    def __init__(self, loss: Loss, is_round: Floats, rng: np.random.Generator, at_once: int, series=None, mode='none', first=0.25, factor=1.6, loose=1e-2) -> None:
        self.series=series if series is not None else [np.arange(loss.n_data)]; self.mode, self.first, self.factor, self.loose = mode, first, factor, loose; self.share={}
        self.loss, self.pool = loss, Pool(is_round)
        self.n, self.at_once = len(is_round), at_once
        self.ends: list[End] = []
        self.precision: Precision | None = None  # until it is measured
        self._rng = rng
        self._active: list[Descent] = []
        self._parked: list[Descent] = []
        self._n_begun = 0
        self._groups: dict[int, _Group] = {}
        self._busy: set[int] = set()  # searches whose points are under way
        self._is_starting = False
        self._next_request = 0
        self._queue: list[_Group] = []  # not sent yet

    # Asking and telling

    def ask(self, room: int) -> list[Request]:
        """The next points, at most so many; fewer if others must be known first."""
        wanted: list[Request] = []
        while len(wanted) < room:
            if not self._queue and not self._plan(room - len(wanted)):
                break
            group = self._queue[0]
            wanted.append(Request(self._next_request, group.points[group.n_sent]))
            self._groups[self._next_request] = group
            self._next_request += 1
            group.n_sent += 1
            if group.n_sent == len(group.points):
                self._queue.pop(0)
        return wanted

    def tell(self, request: Request, outputs: Floats) -> None:
        """Take the outputs at a point, empty if it failed."""
        value = self.loss.value(outputs) if len(outputs) else math.inf
        outputs = outputs if math.isfinite(value) else np.empty(0)
        number = self.pool.add(request.point, outputs, value)
        group = self._groups.pop(request.number)
        group.numbers[next(i for i, p in enumerate(group.points) if p is request.point)] = number
        group.n_back += 1
        if group.n_back == len(group.points):
            group.then(group.numbers)

    def _send(self, points: list[Floats], then: Callable[[list[int]], None]) -> None:
        self._queue.append(_Group(points, then))

    # What to do next

    def _plan(self, room: int) -> bool:
        """Queue the points of a search, or of a new one; whether there are any."""
        self._park()
        wanted = max(1, math.ceil(self.at_once / (self.n + 1))) if self.at_once > 1 else 1
        if len(self._active) < wanted and not self._is_starting:
            self._start()
            return True
        idle = [one for one in self._active if one.number not in self._busy]
        for one in idle:
            trials = one.ask(max(1, room // len(idle)))
            if trials:
                self._busy.add(one.number)
                self._send([trial.point for trial in trials], self._moving(one, trials))
                return True
            if one.number in self.share: self._widen(one)
            else: self._ended(one)
            return self._plan(room)
        return False

    def _start(self) -> None:
        """Begin a search at the better one of a few points."""
        self._is_starting = True
        slices = np.argsort(self._rng.random((self.n, _BEST_OF)), axis=-1).T
        self._send(list(latin_hypercube(slices, self._rng.random((_BEST_OF, self.n)))), self._begin)

    def _begin(self, numbers: list[int]) -> None:
        centre = min(numbers, key=lambda i: self.pool.values[i])
        if not math.isfinite(self.pool.values[centre]):
            self._is_starting = False
            return
        if self.precision is None:
            beside = self._rng.normal(size=self.n)
            point = self.pool.points[centre] + beside * _BESIDE / np.linalg.norm(beside)
            point = np.where(self.pool.is_round, point, np.clip(point, 0, 1))
            self._send([point], lambda found: self._measured(centre, found[0]))
            return
        self._is_starting = False
        loss, precision = self.loss, self.precision
        if self._is_windowed():
            self.share[self._n_begun] = self.first
            loss = self._window(self.first)
            precision = precision._replace(tol=self.loose)
        self._active.append(Descent(self._n_begun, self.pool, centre, loss, precision))
        self._n_begun += 1

    def _is_windowed(self):
        k = self._n_begun
        if self.mode == 'all': return True
        if self.mode == 'odd': return k % 2 == 1
        if self.mode == 'even': return k % 2 == 0
        if self.mode == 'dis':
            a = self._arrived
            return k % 2 == 1 and k >= 2 and len({round(math.log(max(e.value,1e-300)), 2) for e in a}) != 1
        return False

    def _window(self, share):
        rows = np.sort(np.concatenate([s[:max(math.ceil(share * len(s)), min(len(s), 2))] for s in self.series]))
        if len(rows) <= self.n: rows = np.sort(np.concatenate([s[:math.ceil((self.n+1)/len(self.series))] for s in self.series]))
        return self.loss.part(rows)

    def _widen(self, one):
        share = self.share[one.number] * self.factor
        if share >= 0.95:
            del self.share[one.number]
            one.precision = self.precision
            one.turn_to(self.loss)
            one.first_value = math.inf
        else:
            self.share[one.number] = share
            one.turn_to(self._window(share))

    def _measured(self, centre: int, beside: int) -> None:
        """Learn the noise from a point where only noise differs, and begin the first search."""
        self.precision = Precision()
        if math.isfinite(self.pool.values[beside]):
            around = self.loss.around(self.pool.outputs[centre])
            other = self.loss.around(self.pool.outputs[beside])
            size = float(np.linalg.norm(around.residuals))
            relative = float(np.linalg.norm(other.residuals - around.residuals)) / (math.sqrt(2) * size + 1e-300)
            if _NOISE < relative < math.inf:
                floor = _FLOOR * math.sqrt(relative)
                self.precision = Precision(relative, floor, max(self.precision.tol, relative**2))
        self._begin([centre])

    def _moving(self, one: Descent, trials: list[Trial]) -> Callable[[list[int]], None]:
        def moved(numbers: list[int]) -> None:
            self._busy.discard(one.number)
            if one.state != ACTIVE:
                return
            one.tell(numbers, trials)
            if one.number in self.share:
                if one.state == CONVERGED: self._widen(one)
            else: self._judge(one)
            if one.state != ACTIVE:
                self._ended(one)

        return moved

    # Judging searches

    @property
    def _arrived(self) -> list[End]:
        """The ends at which searches have arrived."""
        return [end for end in self.ends if end.state in (CONVERGED, KNOWN)]

    def _judge(self, one: Descent) -> None:
        """Recognise a known place, and give up a search that will not win."""
        arrived = self._arrived
        if one.state != ACTIVE or not arrived:
            return
        best = min(end.value for end in arrived)
        if one.value > best * (1 + 1e-6):
            fall = one.fall(_WINDOW * (self.n + 1))
            need = math.log(one.value / max(best, 1e-300)) if best > 0 else 50.0
            if fall is not None and need > fall * _PATIENCE:
                one.state = HOPELESS
        if self._end_of(one, _SAME_VALUE) is not None:
            one.state = KNOWN

    def _end_of(self, one: Descent, same: float) -> End | None:
        """The end at which a search is, or the same fit; None if it is at a new place."""
        residuals = self._residuals(one)
        assert self.precision is not None
        same = max(same, 4 * self.precision.relative)
        for end in self._arrived:
            apart = math.sqrt(float(np.mean(self.pool.apart(one.x, end.x) ** 2)))
            is_there = (apart < _SAME_PLACE and one.value <= end.value * (1 + _SAME_VALUE) + 1e-30) or apart < _VERY_NEAR
            if is_there or self._is_same_fit(residuals, one.value, end, same):
                return end
        return None

    @staticmethod
    def _is_same_fit(residuals: Floats, value: float, end: End, same: float) -> bool:
        apart = residuals - end.residuals
        size = min(float(residuals @ residuals), float(end.residuals @ end.residuals))
        return float(apart @ apart) <= _SAME_FIT * size and value <= end.value * (1 + same)

    def _residuals(self, one: Descent) -> Floats:
        return self.loss.around(one.outputs).residuals

    def _park(self) -> None:
        """Set searches aside that hardly fall: the worse ones for good, the others until there is room."""
        ended = [end.value for end in self._arrived]
        best = min(ended, default=math.inf)
        for one in list(self._active):
            fall = one.fall(_WINDOW * (self.n + 1))
            is_stalled = fall is not None and fall < _STALLED and one.gain > _PROMISING * one.value
            if one.number in self._busy or one.number in self.share or not is_stalled or one.value < best:
                continue
            if math.isfinite(best) and one.value > best * (1 + 1e-6):
                one.state = HOPELESS
                self._ended(one)
            elif not ended:
                self._active.remove(one)
                self._parked.append(one)
        if ended or len(self._parked) > _MOST_PARKED:
            again = sorted(self._parked, key=lambda one: one.value)
            for one in again if ended else again[:1]:
                self._parked.remove(one)
                if ended and one.value > best * (1 + 1e-6):
                    one.state = HOPELESS
                    self._note(one)
                else:
                    one.trace = [(one.spent, one.value)]
                    self._active.append(one)

    def _ended(self, one: Descent) -> None:
        self._active.remove(one)
        self._note(one)

    def _note(self, one: Descent) -> None:
        """Note the end of a search."""
        if one.state in (CONVERGED, KNOWN) and one.first_value < _PLATEAU * one.value and self._n_begun > 1:
            one.state = CUT_SHORT
        x, value, state, residuals = one.x.copy(), one.value, one.state, self._residuals(one)
        known = self._end_of(one, _SAME_END if state == CONVERGED else _SAME_VALUE) if state in (CONVERGED, KNOWN) else None
        if known is not None:
            x, value, state, residuals = known.x, min(known.value, value), KNOWN, known.residuals
        self.ends.append(End(one.number, x, value, state, one.first_value, one.spent, residuals))

    @property
    def counted(self) -> list[End]:
        """The ends of searches before which all earlier ones have ended."""
        oldest = min((one.number for one in [*self._active, *self._parked]), default=self._n_begun)
        return [end for end in self.ends if end.number < oldest]

    @property
    def agreement(self) -> Agreement:
        """How the ends agree."""
        searches = [Search(0, 1, end.spent, end.x, end.value, end.state, end.first_value) for end in self.counted]
        return agreement(searches, np.zeros(self.n), np.ones(self.n))
