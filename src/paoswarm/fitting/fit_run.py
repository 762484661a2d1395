"""Runs of a fit: its searches in every combination of whole numbers and choices, and the walks along its profiles.

Most fits have one cell. With more, each is searched until two searches have ended there, and the best one until its
searches agree. So the claim of a fit is that of its best cell.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Generator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from paoswarm.core.arrays import Floats
from paoswarm.core.random import generator
from paoswarm.evaluate.engines import EngineDown
from paoswarm.evaluate.queue import Answer, Batch
from paoswarm.fitting.fit_call import FitCall, Known
from paoswarm.fitting.profile_walk import Optimum, Walk
from paoswarm.fitting.solution import Solution
from paoswarm.least_squares.descents import Descents, Request, Warm
from paoswarm.least_squares.pool import Pool
from paoswarm.run.run import Ends, NoFiniteValue, Steered, Steps, StopAll, status_of
from paoswarm.run.stopping import Limits, Rule, Status

if TYPE_CHECKING:
    from paoswarm.fitting.fit_result import Fit

_LEAST = 2  # searches that must have ended in a cell that is not the best
_MOST_FAILURES = 100  # first points that may all fail
_BETTER = 0.05  # units: a fit that is so much better is another one; it would change tau = 2 by a hundredth
_MOST_STARTS = 4  # of profiles, each from a better fit than the last

Simulating = Generator[list[Batch], Answer, list[Floats]]


class Cells:
    """Searches in all cells of a cube. What they ask for are pairs of a cell and a request.

    A simulation gives ``n_numbers``; None until one has. With ``warm`` each cell that has known points is searched from
    the best one, and no more.
    """

    def __init__(self, call: FitCall, n_numbers: int | None, known: Known, warm: Warm | None) -> None:
        self.cube, self.at_once = call.cube, call.at_once
        self._comparison, self._n_numbers = call.comparison, n_numbers
        count, rng = len(self.cube.cells), generator(call.rng)
        self.all = [
            Descents(
                call.comparison.loss(n_numbers or 0),
                self.cube.is_round,
                own,
                call.at_once,
                fills=bool(call.options.workers.asynchronous),
                starts=[point for point, cell in call.starts if cell == c],
                known=[(point, outputs) for point, cell, outputs in known if cell == c],
                series=None if n_numbers is None else call.comparison.series(n_numbers),
                region=call.regions[c],
                warm=warm if warm is None or warm.cell == c else warm._replace(is_near=lambda *_: False),
            )
            for c, own in enumerate([rng] if count == 1 else rng.spawn(count))
        ]
        self._least = _LEAST if warm is None else 1
        self._searched = [c for c, one in enumerate(self.all) if warm is None or math.isfinite(one.pool.least)]
        self._last = -1  # the cell that was asked last
        self.is_finishing = False  # whether no search may begin

    @property
    def best_cell(self) -> int:
        """The cell of the best point."""
        return int(np.argmin([one.pool.least for one in self.all]))

    @property
    def best(self) -> Descents:
        """The searches there."""
        return self.all[self.best_cell]

    @property
    def value(self) -> float:
        """The best value; infinite before the first simulation that does not fail."""
        return self.best.pool.least

    @property
    def is_settled(self) -> bool:
        """Whether searches agree in the best cell, and enough have ended in the others."""
        return self.best.is_settled and all(len(self.all[c].ends) >= self._least for c in self._searched)

    def ask(self, room: int) -> list[tuple[int, Request]]:
        """The next points, at most so many; none if others must be known first, or if it is done."""
        if self.is_finishing or self.is_settled:
            cell = self.best_cell
            return [(cell, request) for request in self.all[cell].ask(room)]
        wanted: list[tuple[int, Request]] = []
        for cell in self._in_turn():
            if len(wanted) == room:
                break
            found = self.all[cell].ask(room - len(wanted))
            self._last = cell if found else self._last
            wanted += [(cell, request) for request in found]
        return wanted

    def _in_turn(self) -> list[int]:
        """The cells that are not done, from the one after the last that was asked; the best one at the end."""
        count, best = len(self.all), self.best_cell
        if count == 1:
            return [0]
        order = [(self._last + 1 + k) % count for k in range(count)]
        open_ = [cell for cell in order if cell in self._searched and len(self.all[cell].ends) < self._least]
        return open_ + [best] * (best not in open_)

    def tell(self, cell: int, request: Request, outputs: Floats) -> None:
        """Take the outputs at a point, empty if it failed."""
        if self._n_numbers is None and len(outputs):
            self._n_numbers = len(outputs)
            for one in self.all:
                one.loss = self._comparison.loss(len(outputs))
        self.all[cell].tell(request, outputs)

    def finish(self) -> None:
        """Begin no more searches: measure the slope at the best point."""
        self.is_finishing = True
        self.best.finish()


class FitRun(Steered):
    """Take a fit to its end, round by round; or point by point, where values come in any order.

    A store has ``n_recorded`` points, without those that measure the slope at the end of an earlier call; before these
    are known, no limit begins the end.
    """

    def __init__(self, searches: Cells, limits: Limits, *, is_asynchronous: bool, n_recorded: int) -> None:
        self.searches, self._is_asynchronous, self._n_recorded = searches, is_asynchronous, n_recorded
        self.nit = self.nfev = self.n_failed = 0
        self.best: list[float] = []  # value after every round
        self.counts: list[int] = []  # of simulations by then
        self.failure_kinds: Counter[str] = Counter()
        self._out: dict[int, tuple[int, Request]] = {}  # what is being simulated, by number of sending
        self._n_sent = 0
        self._status = Status.RUNNING
        self._why = ""
        super().__init__(limits)

    @property
    def value(self) -> float:
        """The best value so far."""
        return self.searches.value

    def _course(self) -> Steps:
        try:
            while True:
                batch = self._next()
                if batch is None and not self._out:
                    break
                answer: Answer | None = yield [] if batch is None else [batch]
                if answer is not None:
                    self._take(answer)
        except (KeyboardInterrupt, EngineDown, StopAll) as error:
            if not math.isfinite(self.value):
                raise
            self._status, self._why = status_of(error)
        if not math.isfinite(self.value):
            raise NoFiniteValue
        if self._status is Status.RUNNING:
            self._status = Status.CONVERGED if self.searches.is_settled else Status.MAXFEV
        rule = Rule.OWN if self._status is Status.CONVERGED else Rule.NONE
        status, nit, nfev, own = (np.array([number]) for number in (self._status, self.nit, self.nfev, rule))
        return Ends(status, nit, nfev, own, self.limits.deadline, self._why)

    def _next(self) -> Batch | None:
        """The next points; None if others must be known first, or if nothing is left to ask."""
        most = math.inf if self.limits.maxfev is None else self.limits.maxfev
        left = most - self._n_asked
        needed = 2 * self.searches.cube.n  # for the slope at the best point: set aside, if there is enough for a search
        reserve = needed if most > 3 * needed else 0
        if left <= reserve and math.isfinite(self.value):
            self._finish(Status.MAXFEV)
        deadline = self.limits.deadline
        if left <= 0 or (self.nfev > 0 and deadline is not None and time.monotonic() >= deadline):
            self._status = self._status or (Status.MAXFEV if left <= 0 else Status.TIME)
            return None
        room = 1 if self._is_asynchronous else self.searches.at_once
        requests = self.searches.ask(int(min(room, left)))
        if not requests:
            return None
        self._out |= dict(enumerate(requests, self._n_sent))
        self._n_sent += len(requests)
        points = np.array([self.searches.cube.coordinates(request.point, cell) for cell, request in requests])
        # With other limits the searches would go on from here: then the slope is measured again later.
        return Batch(points, True, deadline, is_beyond=self.searches.is_finishing)

    @property
    def _n_asked(self) -> int:
        """Points that were simulated, or are being."""
        return self.nfev + len(self._out)

    def _finish(self, why: Status) -> None:
        """Begin no more searches, if no more points are recorded: only the slope at the best one is left to measure."""
        if not self.searches.is_finishing and self._n_asked >= self._n_recorded:
            if not self.searches.is_settled:
                self._status = self._status or why
            self.searches.finish()

    def _take(self, answer: Answer) -> None:
        """Tell the searches what was simulated."""
        first = answer.number if self._is_asynchronous else self._n_sent - len(self._out)
        for number, row in enumerate(np.atleast_2d(answer.values.T).T, first):
            request = self._out.pop(number)
            is_known = math.isfinite(row[0])
            self.nfev += 1
            self.n_failed += not is_known
            self.searches.tell(*request, row[1:] if is_known else np.empty(0))
        self.failure_kinds.update(answer.failed.values())
        if answer.replayed:  # recorded values take no time of this call
            self.limits = self.limits.restarted()
        self.nit += 1
        self.best.append(self.value)
        self.counts.append(self.nfev)
        if self.n_failed == self.nfev >= _MOST_FAILURES:
            raise NoFiniteValue
        if answer.end is not None:
            raise answer.end
        if self.limits.target is not None and self.value <= self.limits.target:
            self._finish(Status.TARGET)
        if not self._is_asynchronous:
            self._out.clear()  # not simulated, because time was up


class _Spent(Exception):
    """There is no budget or no time left."""


class ProfileRun(Steered):
    """Walk along the profiles of some unknowns, two ways for each of the ``axes``, as far as the root ``reach``.

    ``solution`` is the best fit, from which the walks go.
    """

    def __init__(self, fit: Fit, axes: Sequence[int], reach: float, limits: Limits) -> None:
        self.solution: Solution = fit.solution
        self._axes, self._reach, self._precision = axes, reach, fit["_precision"]
        self.pool: Pool = fit.pool()
        self.n_known = len(self.pool)
        self.walks: list[Walk] = []
        self.nfev = self.n_failed = self.n_starts = 0
        super().__init__(limits)

    @property
    def simulated(self) -> Known:
        """The points of this run, with their cell and outputs."""
        new = zip(self.pool.points[self.n_known :], self.pool.outputs[self.n_known :], strict=True)
        return [(point, self.solution.cell, outputs) for point, outputs in new]

    @property
    def lower(self) -> float | None:
        """The best value, if that is a better fit than the one whose profiles these are."""
        best = self.pool.least
        return best if best < self.solution.around.value - _BETTER * self.solution.unit else None

    def _course(self) -> Steps:
        status, why = Status.CONVERGED, ""
        try:
            while not (yield from self._walk()):
                yield from self._settle()
        except _Spent as end:
            status = end.args[0]
        except (KeyboardInterrupt, EngineDown, StopAll) as error:
            status, why = status_of(error)
        found, nit, nfev, rule = (np.array([number]) for number in (status, self.n_starts, self.nfev, Rule.NONE))
        return Ends(found, nit, nfev, rule, self.limits.deadline, why)

    def _walk(self) -> Generator[list[Batch], Answer, bool]:
        """Take all walks to their ends; False if a better fit was found on the way."""
        self.n_starts += 1
        optimum = Optimum(self.pool, self.solution)
        self.walks = [Walk(optimum, axis, side, self._reach) for axis in self._axes for side in (-1, 1)]
        courses = {k: walk.course() for k, walk in enumerate(self.walks)}
        asked: dict[int, list[Floats]] = {}
        answers: dict[int, Any] = dict.fromkeys(courses)
        while True:
            for k, outputs in answers.items():
                try:
                    asked[k] = courses[k].send(outputs)
                except StopIteration:
                    asked.pop(k, None)
            if not asked:
                return True
            chosen = self._affordable(asked)
            found = yield from self._simulate([point for k in chosen for point in asked[k]])
            answers = {k: [found.pop(0) for _ in asked[k]] for k in chosen}
            if self.lower is not None and self.n_starts < _MOST_STARTS:
                return False

    def _affordable(self, asked: dict[int, list[Floats]]) -> list[int]:
        """The walks whose points may be simulated next; those that have come less far first."""
        left = math.inf if self.limits.maxfev is None else self.limits.maxfev - self.nfev
        chosen: list[int] = []
        for k in sorted(asked, key=lambda k: len(self.walks[k].knots)):
            if len(asked[k]) <= left:
                chosen.append(k)
                left -= len(asked[k])
        if not chosen:
            raise _Spent(Status.MAXFEV)
        return chosen

    def _simulate(self, points: list[Floats]) -> Simulating:
        """The outputs at points, empty where they fail or are not allowed; raise without room or time for all."""
        allowed = [point for point in points if self.pool.region.allows(point)]
        if self.limits.maxfev is not None and self.nfev + len(allowed) > self.limits.maxfev:
            raise _Spent(Status.MAXFEV)
        if self.limits.deadline is not None and time.monotonic() >= self.limits.deadline:
            raise _Spent(Status.TIME)
        found: list[Floats] = []
        if allowed:
            cube, cell = self.solution.cube, self.solution.cell
            answer = yield [Batch(cube.coordinates(np.array(allowed), cell), True, self.limits.deadline)]
            for point, row in zip(allowed, answer.values, strict=False):
                is_known = math.isfinite(row[0])
                self.pool.add(point, row[1:], self.solution.loss.value(row[1:]) if is_known else math.inf)
                self.nfev += 1
                self.n_failed += not is_known
                found.append(self.pool.outputs[-1])
            if answer.end is not None:
                raise answer.end
            if len(found) < len(allowed):
                raise _Spent(Status.TIME)
        return [found.pop(0) if self.pool.region.allows(point) else np.empty(0) for point in points]

    def _settle(self) -> Generator[list[Batch], Answer, None]:
        """Search from the best point, and measure the slope where that ends."""
        solution = self.solution
        known = zip(self.pool.points, self.pool.outputs, strict=True)
        warm = Warm(self._precision, solution.cell, lambda *_: False)
        found = Descents(
            solution.loss, self.pool.is_round, generator(0), known=known, region=self.pool.region, warm=warm
        )
        while not found.is_done:
            requests = found.ask(2 * len(solution.point))
            outputs = yield from self._simulate([request.point for request in requests])
            for request, own in zip(requests, outputs, strict=True):
                found.tell(request, own)
            if found.ends:
                found.finish()
        assert found.jacobian is not None
        point = found.pool.points[found.pool.best].copy()
        self.solution = replace(
            solution,
            point=point,
            edge=self.pool.region.normals(point),
            outputs=found.pool.outputs[found.pool.best],
            jacobian=found.jacobian,
            is_measured=True,
        )
