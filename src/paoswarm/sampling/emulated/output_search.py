"""Searches for modes by all outputs: those of a fit, with the prior as further residuals."""

from __future__ import annotations

import math

import numpy as np

from paoswarm.core.arrays import Floats
from paoswarm.least_squares.descent import Descent, Precision
from paoswarm.least_squares.descents import Descents
from paoswarm.least_squares.loss import Loss
from paoswarm.sampling.adapt import PriorDensity
from paoswarm.sampling.climbs import distance
from paoswarm.sampling.emulated.emulator import Frame
from paoswarm.sampling.emulated.searches import End, FoundEnds, factor_of
from paoswarm.sampling.emulated.simulations import OutputModel, Simulations

_REACH = 5.0  # |z| up to which coordinates with a normal prior are searched
_LOWEST = 7.0  # log height, and one more for each unknown, by which a known point that matters may be lower
_SURPRISING = 3.0  # log height by which it exceeds the laws around the ends
_MOST_ENDS = 20


class OutputSearch:
    """Gauss-Newton searches in the cube of the prior's coordinates."""

    def __init__(self, known: Simulations, model: OutputModel, at_once: int, rng: np.random.Generator) -> None:
        self._known = known
        self._flat = PriorDensity(known.target).bounded
        self._reach = np.where(self._flat, 1.0, _REACH)
        circle = known.target.circle
        is_round = np.zeros(known.target.dim, dtype=bool) if circle is None else np.isfinite(circle.width)
        self._loss = Loss(model.loss.data, model.loss.groups, int(np.count_nonzero(~self._flat)))
        n = len(known)
        self.searches = Descents(
            self._loss,
            is_round,
            rng,
            at_once,
            series=model.series,
            known=[(self._point(z), self._vector(i)) for i, z in enumerate(known.z[:n])],
        )
        self._at_once = at_once
        self._rows = list(range(n))  # of the simulations, by number in the pool of the searches

    def run(self, budget: int) -> FoundEnds:
        """Search until the ends agree, with at most so many simulations; the last ones measure the slope at the top."""
        target, searches = self._known.target, self.searches
        end = target.n_evaluations + budget
        slope = 2 * target.dim
        while True:
            room = end - target.n_evaluations
            if room <= slope:
                searches.finish()
            requests = searches.ask(min(self._at_once, room))
            if not requests:
                return self._found()
            first = len(self._known)
            self._known.evaluate(np.array([self._place(request.point) for request in requests]))
            for row, request in enumerate(requests, first):
                self._rows.append(row)
                searches.tell(request, self._vector(row))

    def _place(self, point: Floats) -> Floats:
        """The sampler's coordinates of a point of the cube."""
        return np.asarray(self._known.target.inside(((2 * point - 1) * self._reach)[None])[0])

    def _point(self, z: Floats) -> Floats:
        return np.clip((z / self._reach + 1) / 2, 0.0, 1.0)

    def _vector(self, row: int) -> Floats:
        """Outputs and, of coordinates with a normal prior, residuals; empty if the simulation failed."""
        if not self._known.worked[row]:
            return np.empty(0)
        return np.concatenate([self._known.outputs[row], self._known.z[row][~self._flat]])

    def _found(self) -> FoundEnds:
        """The top, and known points that are higher than normal laws around the ends would have it."""
        searches, known = self.searches, self._known
        pool = searches.pool
        if not math.isfinite(pool.least):
            return FoundEnds([], 0, is_sure=False)
        n, d = pool.best, known.target.dim
        jacobian = searches.jacobian
        ends = [self._end(n, searches.rough_jacobian if jacobian is None else jacobian)]
        heights = known.height[self._rows]
        for number in np.argsort(-heights, kind="stable").tolist():
            if not heights[number] > heights[n] - _LOWEST - d or len(ends) == _MOST_ENDS:
                break
            z = known.z[self._rows[number]][None]
            expected = max(
                known.height[one.row] - distance(z, *one.frame, known.target.circle)[0] ** 2 / 2 for one in ends
            )
            if heights[number] > expected + _SURPRISING:
                rough = Descent(0, pool, number, self._loss, searches.precision or Precision())
                ends.append(self._end(number, rough.jacobian))
        n_climbs = sum(one.state != "cut short" for one in searches.ends)
        ends[0] = ends[0]._replace(n_climbs=max(searches.agreement.n_here, 1))
        why = ""
        if searches.contradiction and not searches.is_settled:
            why = (
                "The residuals of the best fit are no noise: a better one was missed, or the model or its errors are "
                "wrong; raise maxfev"
            )
        return FoundEnds(ends, n_climbs, searches.agreement.is_settled, why)

    def _end(self, number: int, jacobian: Floats | None) -> End:
        """A place with the covariance of a linear model there."""
        searches, d = self.searches, self._known.target.dim
        precision = np.zeros((d, d))
        if jacobian is not None:
            around = self._loss.around(searches.pool.outputs[number])
            slope = self._loss.slope(around, jacobian)
            slope = slope / (2 * self._reach)
            m = self._loss.n_data + self._loss.n_beliefs
            left = max(m - d, 1)
            unit = around.root**2 * m / left if self._loss.n_estimated else 1.0
            if unit > 0:
                precision = slope.T @ slope / unit
        row = self._rows[number]
        return End(row, Frame(self._known.z[row], factor_of(precision, self._flat)), True)
