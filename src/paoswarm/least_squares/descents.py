r"""The searches of a fit: where they start, when they are given up, and when the fit is done.

- Searches start where the user says, then each at the better of two points of a Latin hypercube. Another one begins
  when none is under way, or when workers would be idle. While no two have ended at the best place, or when the
  residuals there are no noise, every second one starts at the best point of a swarm (`scout.py`).
- *Known*: a search has come to the end of an earlier one, or to the same fit. *Hopeless*: it is worse than the best
  end, and at its present rate would need more than eight times as long to get there. *Parked*: it hardly falls and
  there is no end to compare it with; another one begins.
- Ends do not agree as long as there is a better point. When they agree but the residuals there are no noise, the search
  goes on for three times as long, on a plateau for longer. It starts at any random points then, because the better of
  two is where the others have begun.
- At last the slope is measured at the best point. If it leads to a better fit, on which searches do not agree yet,
  they go on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from paoswarm.core.arrays import Floats
from paoswarm.core.random import latin_hypercube
from paoswarm.least_squares.descent import ACTIVE, HOPELESS, Descent, Finish, Precision, Trial
from paoswarm.least_squares.ends import Contradiction, End, SearchEnds, contradiction
from paoswarm.least_squares.loss import Loss
from paoswarm.least_squares.pool import Pool
from paoswarm.least_squares.scout import Scout
from paoswarm.least_squares.trust_region import Region
from paoswarm.methods.agreement import Agreement

_BEST_OF = 2  # points at the start of a search: with eight, more searches begin on plateaus and in wrong basins
_MOST_PARKED = 4
# Relative to the best end; and to where searches began, since the minimum may be zero, and to outputs.
_BETTER, _ROUNDING = 1e-2, 1e-12
# Searches before a swarm helps. If it then went on until searches agree, instead of until two have ended at the best
# place, claims would take a quarter more evaluations on the development problems.
_UNAIDED = 3
# How many times as many evaluations there are in all if residuals contradict an agreement. With 2, 4 and 6 on 10 seeds
# of the Lotka-Volterra fit 3, 2 and 1 claims were wrong; 4 costs a tenth more on all development problems.
_DOUBTFUL = 4
# The same if an unknown has no effect there: searches that begin on a plateau agree about it after one step. With 4 and
# 20, 11 and 1 of 20 claims about Nelson's regression were wrong.
_ON_PLATEAU = 20
_FEWEST_SLOPES = 5  # that such an agreement is worth at least: on a plateau a search takes one evaluation
_NO_EFFECT = 1e-2  # of an unknown over its width, relative to the residuals
_NOISE = 1e-5  # relative to the residuals; less does no harm
_BESIDE = 1e-7  # length over which only noise changes outputs
_FLOOR = 0.05  # times the root of the noise; of 0.5, 0.15, 0.1 and 0.05 the last solved most development problems


Steps = Generator[list[Floats], list[int], None]  # yields points, and is sent their numbers in the pool


class Request(NamedTuple):
    """A point of the unit cube to evaluate."""

    point: Floats
    batch: TrialBatch
    place: int  # in the batch


class Warm(NamedTuple):
    """What is known before a search that begins at the best known point, and is the only one."""

    precision: Precision
    cell: int
    is_near: Callable[[Floats, Floats], bool]  # whether the slope at a point with these outputs is known already


class TrialBatch:
    """Points that are asked for together, and what goes on when all are evaluated."""

    def __init__(self, points: list[Floats], steps: Steps) -> None:
        self.points, self.steps = points, steps
        self.n_sent, self.n_back = 0, 0
        self.numbers = [-1] * len(points)  # in the pool


class Descents:
    """All searches of a fit; points are asked for, and outputs told in any order.

    Searches start at ``starts`` first, and at the best of the points that are ``known`` with their outputs, empty where
    they failed. ``series`` are rows of the data whose order means something; by default all are one series. Points
    outside of the region count as failed and are not asked for. With ``warm`` only the search from the best known point
    is made. ``at_once`` points are evaluated side by side. If values come one by one, ``fills`` makes idle workers
    begin further searches. (With whole rounds that saved a tenth of the rounds and took a quarter more simulations.)
    """

    def __init__(
        self,
        loss: Loss,
        is_round: NDArray[np.bool_],
        rng: np.random.Generator,
        at_once: int = 1,
        *,
        fills: bool = False,
        starts: Iterable[Floats] = (),
        known: Iterable[tuple[Floats, Floats]] = (),
        series: Sequence[NDArray[np.intp]] | None = None,
        region: Region | None = None,
        warm: Warm | None = None,
    ) -> None:
        self.loss, self.pool = loss, Pool(is_round, region)
        self.n, self.at_once, self._fills = len(is_round), at_once, fills
        self.precision: Precision | None = None  # until it is measured
        self.is_done = False  # whether nothing is left to ask
        self._series = series
        self._rng = rng
        self._ends = SearchEnds(self.pool)
        self._active: list[Descent] = []
        self._parked: list[Descent] = []
        self._n_begun = 0
        self._begun_at: set[int] = set()  # numbers of points in the pool
        self._slope: tuple[float, Floats | None] = math.inf, None  # at the best end of a search
        self._n_starting = 0  # searches whose first point is not known yet
        self._waiting: list[int] = []  # where they begin as soon as the noise is measured
        self._scout: Scout | None = None
        self._is_scouting = False
        self._busy: set[int] = set()  # searches whose points are under way
        self._queue: list[TrialBatch] = []  # not sent yet
        self._starts = [self.pool.inside(np.asarray(start, dtype=float)) for start in starts]
        self._agreed_after = 0  # points, when searches agreed for the first time
        self._doubt = math.inf, 1  # a value, and how many times as many points it takes to believe in it
        self._finish: Finish | None = None
        self._is_last = False  # whether no search may follow, whatever the slope at the best point promises
        for point, outputs in known:
            self._add(point, outputs)
        has_known = math.isfinite(self.pool.least)
        self._warm = warm if has_known else None
        if self._warm is not None:
            self.precision, self._ends.noise = self._warm.precision, self._warm.precision.relative
        if has_known:
            self._go_on(self._begin(self.pool.best))

    @property
    def ends(self) -> list[End]:
        """How searches have ended."""
        return self._ends.all

    @property
    def agreement(self) -> Agreement:
        """How the ends agree of searches before which all earlier ones have ended."""
        oldest = min((one.number for one in [*self._active, *self._parked]), default=self._n_begun)
        return self._ends.agreement(oldest)

    @property
    def contradiction(self) -> Contradiction:
        """Whether the residuals at the best point are no noise."""
        if not math.isfinite(self.pool.least):
            return Contradiction()
        around = self.loss.around(self.pool.outputs[self.pool.best])
        series = [np.arange(len(self.loss.data))] if self._series is None else self._series
        return contradiction(around, self.loss, series, self.n)

    @property
    def is_settled(self) -> bool:
        """Whether searches agree, and the residuals do not contradict or there was a longer search."""
        if self._warm is not None:
            return bool(self.ends)
        if not self.agreement.is_settled or self._is_undercut:
            return False
        self._agreed_after = self._agreed_after or max(len(self.pool), _FEWEST_SLOPES * (self.n + 1))
        value = self.pool.least
        if value < self._doubt[0] * (1 - _BETTER):
            self._doubt = value, self._doubt_of_best()
        return len(self.pool) >= self._doubt[1] * self._agreed_after

    def _doubt_of_best(self) -> int:
        """How many times as many evaluations as when searches agreed it takes to believe in the best point."""
        if not self.contradiction:
            return 1
        around = self.loss.around(self.pool.outputs[self.pool.best])
        slope = self.rough_jacobian
        if slope is not None:
            effects = np.linalg.norm(self.loss.slope(around, slope), axis=0)
            if np.min(effects) < _NO_EFFECT * math.sqrt(around.value):
                return _ON_PLATEAU
        return _DOUBTFUL

    @property
    def _is_undercut(self) -> bool:
        """Whether there is a better point than the ends of searches."""
        value, ends = self.pool.least, self._ends
        return value < ends.best * (1 - _BETTER) - _ROUNDING * ends.first_value

    @property
    def jacobian(self) -> Floats | None:
        """The slope ``(m, n)`` of the outputs at the best point, in widths; None until it is measured."""
        if self._finish is None:
            return self.rough_jacobian if self.is_done else None
        return self._finish.jacobian if self._finish.is_measured else None

    @property
    def rough_jacobian(self) -> Floats | None:
        """What searches know of that slope before; None if none has one."""
        searches = [one for one in [*self._active, *self._parked] if one.centre == self.pool.best]
        return searches[0].jacobian if searches else self._slope[1]

    def ask(self, room: int) -> list[Request]:
        """The next points, at most so many; fewer if others must be known first, none if it is done."""
        wanted: list[Request] = []
        while len(wanted) < room and (self._queue or self._plan()):
            if not self._queue:
                continue
            batch = self._queue[0]
            request = Request(batch.points[batch.n_sent], batch, batch.n_sent)
            batch.n_sent += 1
            if batch.n_sent == len(batch.points):
                self._queue.pop(0)
            if self.pool.region.allows(request.point):
                wanted.append(request)
            else:
                self.tell(request, np.empty(0))
        return wanted

    def tell(self, request: Request, outputs: Floats) -> None:
        """Take the outputs ``(m,)`` at a point, empty if it failed."""
        point, batch, place = request
        batch.numbers[place] = self._add(point, outputs)
        batch.n_back += 1
        if batch.n_back == len(batch.points):
            self._go_on(batch.steps, batch.numbers)

    def _go_on(self, steps: Steps, numbers: list[int] | None = None) -> None:
        """Queue the points that are wanted next, now that these are evaluated."""
        try:
            points = next(steps) if numbers is None else steps.send(numbers)
        except StopIteration:
            return
        self._queue.append(TrialBatch(points, steps))

    def finish(self) -> None:
        """Begin no more searches: measure the slope at the best point, which takes two evaluations for each unknown."""
        self._is_last = True
        self._conclude()

    def _conclude(self) -> None:
        """Measure the slope at the best point."""
        if self._finish is not None or self.is_done:
            return
        self._queue.clear()
        best = self.pool.best
        is_known = self._warm is not None and self._warm.is_near(self.pool.points[best], self.pool.outputs[best])
        if not math.isfinite(self.pool.least) or is_known:
            self.is_done = True
            return
        known = self.rough_jacobian
        if known is None:
            known = np.zeros((len(self.pool.outputs[best]), self.n))
        self._finish = Finish(self.pool, self.loss, best, known, self.precision or Precision())
        self._go_on(self._measure(self._finish))

    def _add(self, point: Floats, outputs: Floats) -> int:
        value = self.loss.value(outputs) if len(outputs) else math.inf
        return self.pool.add(point, outputs, value)

    def _plan(self) -> bool:
        """Queue the points of a search, of a new one, or of the end; whether there are any."""
        if self._finish is not None or self.is_done:
            return False
        if self.is_settled:
            self._conclude()
            return bool(self._queue)
        self._park()
        side_by_side = math.ceil(self.at_once / (self.n + 1))
        if self._n_begun_or_starting < side_by_side:
            self._go_on(self._start())
            return True
        for one in [one for one in self._active if one.number not in self._busy]:
            if trials := one.ask(max(1, self.at_once // min(len(self._active), side_by_side))):
                self._busy.add(one.number)
                self._go_on(self._move(one, trials))
                return True
            self._end(one)
            return self._plan()
        if self._fills and self._n_begun_or_starting < self.at_once:  # all searches wait for points
            self._go_on(self._start())
            return True
        return False

    @property
    def _n_begun_or_starting(self) -> int:
        return len(self._active) + self._n_starting

    def _measure(self, finish: Finish) -> Steps:
        """Measure the slope at the best point; if searches do not agree on where it leads, they go on."""
        while points := finish.ask():
            finish.tell((yield points))
        if self._is_last or self.is_settled:
            self.is_done = True
        else:
            self._finish = None

    def _start(self) -> Steps:
        """Begin a search where the user says, at the best of all points or of a swarm, or at the better of a few."""
        self._n_starting += 1
        if self._starts:
            numbers = yield [self._starts.pop(0)]
        elif self._ends.places and self.pool.best not in self._begun_at and self._is_undercut:
            numbers = [self.pool.best]
        elif self._needs_scout:
            self._scout, self._is_scouting = self._scout or Scout(self.pool, self._rng), True
            self._scout.tell((yield self._scout.ask()))
            while not self._scout.has_share:
                self._scout.tell((yield self._scout.ask()))
            numbers, self._is_scouting = [self._scout.start()], False
        else:
            count = 1 if self._agreed_after else _BEST_OF
            slices = np.argsort(self._rng.random((self.n, count)), axis=-1).T
            points = latin_hypercube(slices, self._rng.random((count, self.n)))
            numbers = yield [self.pool.region.nearest(point) for point in points]
        centre = min(numbers, key=lambda i: self.pool.values[i])
        if math.isfinite(self.pool.values[centre]):
            yield from self._begin(centre)
        self._n_starting -= 1

    @property
    def _needs_scout(self) -> bool:
        """Whether the next search starts at the best point of the swarm."""
        is_turn = self._n_begun >= _UNAIDED and self._n_begun % 2 == 1 and not self._is_scouting
        return is_turn and (self.agreement.n_here < 2 or bool(self.contradiction))

    def _begin(self, centre: int) -> Steps:
        """Begin a search at a point of the pool; before the first one, measure the noise there.

        Only noise differs at a point so near. Near a good fit the slope differs, too; it cancels with a second point,
        twice as far away.
        """
        self._waiting.append(centre)
        if self.precision is None:
            if len(self._waiting) > 1:  # another one measures it
                return
            way = self._rng.normal(size=self.n)
            beside = yield [self.pool.inside(self.pool.points[centre] + way * _BESIDE / np.linalg.norm(way))]
            relative = self._noise(centre, beside)
            if relative > _NOISE:
                twice = self.pool.inside(2 * self.pool.points[beside[0]] - self.pool.points[centre])
                relative = self._noise(centre, [*beside, *(yield [twice])])
            self.precision = Precision()
            if relative > _NOISE:
                floor = _FLOOR * math.sqrt(relative)
                self.precision = Precision(relative, floor, max(self.precision.tol, relative**2))
                self._ends.noise = relative
        while self._waiting:
            centre = self._waiting.pop(0)
            self._active.append(Descent(self._n_begun, self.pool, centre, self.loss, self.precision))
            self._n_begun += 1
            self._begun_at.add(centre)

    def _noise(self, centre: int, beside: list[int]) -> float:
        """The noise of the residuals, relative to these, from points beside; zero if it is rounding, or unknown."""
        if not np.isfinite(self.pool.values[beside]).all():
            return 0.0
        vectors = [self.pool.outputs[i] for i in (centre, *beside)]
        outputs, residuals = np.nan_to_num(vectors), np.array([self.loss.around(one).residuals for one in vectors])
        weights = np.array([[-1.0, 1.0], [1.0, -2.0, 1.0]][len(beside) - 1])  # of the first or second difference
        size = float(np.linalg.norm(weights)) * float(np.linalg.norm(residuals[0]))
        if np.linalg.norm(weights @ outputs) <= _ROUNDING * np.linalg.norm(outputs[0]) or size == 0:
            return 0.0
        relative = float(np.linalg.norm(weights @ residuals)) / size
        return relative if relative < math.inf else 0.0

    def _move(self, one: Descent, trials: list[Trial]) -> Steps:
        """Tell a search what its trials have given; it may have ended meanwhile."""
        numbers = yield [trial.point for trial in trials]
        self._busy.discard(one.number)
        if one.state != ACTIVE:
            return
        one.tell(numbers, trials)
        if one.state == ACTIVE:
            self._ends.judge(one)
        if one.state != ACTIVE:
            self._end(one)

    def _end(self, one: Descent) -> None:
        """Note the end of a search, and keep the slope there if it is the best one."""
        self._active.remove(one)
        self._ends.note(one)
        if one.value < self._slope[0]:
            self._slope = one.value, one.jacobian

    def _park(self) -> None:
        """Set searches aside that hardly fall: the worse ones for good, the others until there is room."""
        has_end = bool(self._ends.places)
        for one in [one for one in self._active if one.number not in self._busy and self._ends.is_stalled(one)]:
            if has_end and self._ends.is_worse(one):
                one.state = HOPELESS
                self._end(one)
            elif not has_end:
                self._active.remove(one)
                self._parked.append(one)
        if has_end or len(self._parked) > _MOST_PARKED:
            by_value = sorted(self._parked, key=lambda one: one.value)
            for one in by_value if has_end else by_value[:1]:
                self._parked.remove(one)
                self._active.append(one)
                one.trace = [(one.spent, one.value)]
                if has_end and self._ends.is_worse(one):
                    one.state = HOPELESS
                    self._end(one)
