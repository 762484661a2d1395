"""The profiles of a fit as a run: all walks side by side, and a better fit if one is found on the way."""

from __future__ import annotations

import math
import time
from collections.abc import Generator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from paoswarm.core.arrays import Floats
from paoswarm.core.random import generator
from paoswarm.evaluate.engines import EngineDown
from paoswarm.evaluate.queue import Answer, Batch
from paoswarm.fitting.profile_walk import Optimum, Walk
from paoswarm.fitting.solution import Solution
from paoswarm.least_squares.descents import Descents, Warm
from paoswarm.least_squares.pool import Pool
from paoswarm.run.run import Ends, Steered, Steps, StopAll, status_of
from paoswarm.run.stopping import Limits, Rule, Status

if TYPE_CHECKING:
    from paoswarm.fitting.fit_call import Known
    from paoswarm.fitting.fit_result import Fit

_BETTER = 0.05  # units: a fit that is so much better is another one; it would change tau = 2 by a hundredth
_MOST_STARTS = 4  # of profiles, each from a better fit than the last

Simulating = Generator[list[Batch], Answer, list[Floats]]


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
