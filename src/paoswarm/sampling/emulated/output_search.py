"""Searches for modes by all outputs: those of a fit, with the prior as further residuals."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from paoswarm.core.arrays import Floats
from paoswarm.least_squares.descent import CONVERGED, KNOWN, Descent, Precision
from paoswarm.least_squares.descents import Descents
from paoswarm.least_squares.loss import Loss
from paoswarm.least_squares.pool import Pool
from paoswarm.sampling.adapt import PriorDensity
from paoswarm.sampling.climbs import distance
from paoswarm.sampling.emulated.number_search import ENOUGH, ClimbEnd, FoundEnds, factor_of
from paoswarm.sampling.emulated.simulations import Simulations

_REACH = 5.0  # |z| up to which coordinates with a normal prior are searched
_LOWEST = 7.0  # log height, and one more for each unknown, by which a known point that matters may be lower
_SURPRISING = 3.0  # log height by which it exceeds the laws around the ends
_MOST_ENDS = 20
_TWICE = 2  # searches that have ended at the top


class _Searches(Descents):
    """Searches that go on after they agree, until there were enough: the second mode may attract as many."""

    has_enough: Callable[[], bool] = staticmethod(lambda: True)

    @property
    def is_settled(self) -> bool:
        """Whether they agree, and were enough."""
        return super().is_settled and self.has_enough()


class OutputSearch:
    """Gauss-Newton searches in the cube of the prior's coordinates."""

    def __init__(self, known: Simulations, at_once: int, rng: np.random.Generator) -> None:
        model = known.model
        assert model is not None
        self._known = known
        self._flat = PriorDensity(known.target).bounded
        self._reach = np.where(self._flat, 1.0, _REACH)
        circle = known.target.circle
        is_round = np.zeros(known.target.dim, dtype=bool) if circle is None else np.isfinite(circle.width)
        loss = model.loss
        self._loss = Loss(loss.data, loss.groups, loss.n_beliefs + int(np.count_nonzero(~self._flat)))
        n = len(known)
        self.searches = _Searches(
            self._loss,
            is_round,
            rng,
            at_once,
            series=model.series,
            known=[(self._point(z), self._vector(i)) for i, z in enumerate(known.z[:n])],
        )
        self._at_once = at_once
        self._rows = list(range(n))  # of the simulations, by number in the pool of the searches

    def run(self, soft: int, most: int) -> FoundEnds:
        """Search until enough ends agree, after ``soft`` simulations any; the last ones measure the slope there."""
        target, searches = self._known.target, self.searches
        soft_end, end = target.n_evaluations + soft, target.n_evaluations + most
        searches.has_enough = lambda: len(searches.ends) >= ENOUGH or target.n_evaluations >= soft_end
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
        searches = self.searches
        if not math.isfinite(searches.pool.least):
            return FoundEnds([], 0, is_sure=False)
        jacobian = searches.jacobian
        jacobian = searches.rough_jacobian if jacobian is None else jacobian
        precision = searches.precision or Precision()
        ends = ends_at(self._known, self._rows, searches.pool, self._loss, precision, self._reach, jacobian)
        ends[0] = ends[0]._replace(n_climbs=max(searches.agreement.n_here, 1))
        why = ""
        if searches.contradiction:  # a posterior of such data is doubtful, whichever of the three is true
            why = (
                "The residuals of the best fit are no noise: a better one was missed, or the model or its errors are "
                "wrong; raise maxfev"
            )
        is_sure = searches.agreement.is_settled or searches.agreement.n_here >= _TWICE
        return FoundEnds(ends, sum(one.state in (CONVERGED, KNOWN) for one in searches.ends), is_sure, why)


def ends_at(
    known: Simulations,
    rows: Sequence[int],
    pool: Pool,
    loss: Loss,
    precision: Precision,
    reach: Floats,
    jacobian: Floats | None,
) -> list[ClimbEnd]:
    """The best point of a pool, and points that are higher than normal laws around the ends would have it.

    ``rows`` are the simulations of the pool's points, ``reach`` half the widths of its cube, and ``jacobian`` is the
    slope of the outputs at the best point.
    """
    is_flat = PriorDensity(known.target).bounded

    def end(number: int, jacobian: Floats | None) -> ClimbEnd:
        factor = factor_of(_precision(loss, pool.outputs[number], jacobian, reach), is_flat)
        return ClimbEnd.at(known, rows[number], factor, is_determined=True)._replace(n_climbs=0)

    ends = [end(pool.best, jacobian)]
    heights = known.height[rows]
    lowest = heights[pool.best] - _LOWEST - known.target.dim
    for number in np.argsort(-heights, kind="stable").tolist():
        if not heights[number] > lowest or len(ends) == _MOST_ENDS:
            break
        z = known.z[rows[number]][None]
        laws = [known.height[one.row] - distance(z, *one.frame, known.target.circle)[0] ** 2 / 2 for one in ends]
        if heights[number] > max(laws) + _SURPRISING:
            ends.append(end(number, Descent(0, pool, number, loss, precision).jacobian))
    return ends


def _precision(loss: Loss, outputs: Floats, jacobian: Floats | None, reach: Floats) -> Floats:
    """The curvature of the log posterior where outputs are linear."""
    d = len(reach)
    if jacobian is None:
        return np.zeros((d, d))
    around = loss.around(outputs)
    slope = loss.slope(around, jacobian) / (2 * reach)
    m = loss.n_data + loss.n_beliefs
    unit = around.root**2 * m / max(m - d, 1) if loss.n_estimated else 1.0
    found: Floats = slope.T @ slope / unit if unit > 0 else np.zeros((d, d))
    return found
