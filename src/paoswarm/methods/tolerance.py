r"""A tolerance for violated constraints that shrinks to zero while a swarm searches.

Nearly no point satisfies an equality. If feasible points come first, a swarm gathers at the first ones that it finds
and cannot move along the equality any more. So with equalities it begins with a tolerance :math:`\epsilon` of the total
violation. Its points are compared by (C4), and after :math:`k` evaluations

.. math:: \epsilon_k = \epsilon_0\,\max(0,\ 1 - k / K)^{12}                             \tag{C5}

A fifth of the first swarm violates by less than :math:`\epsilon_0`. The method says how many evaluations :math:`K` are
(`Method.tolerant_for`). It does not depend on the limits of the run, so that a run can be continued with other ones.

What particles remember is ranked anew in every generation, because the tolerance has changed. For the method only:
whatever else looks at a swarm sees the scores (C2), so drivers keep the best point by the strict order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import numpy as np

from paoswarm.core import order, swarm
from paoswarm.core.arrays import Array, Floats
from paoswarm.core.swarm import Proposal, Swarm

_WITHIN = 0.2  # share of the first swarm that is within the first tolerance
_POWER = 12

Tell = Callable[[Swarm, Proposal, Array, Array | None], Swarm]
_UNKNOWN = math.nan, math.nan


class Tolerance(NamedTuple):
    """The tolerance of one swarm."""

    first: float
    length: float  # evaluations until it is zero
    used: int = 0  # evaluations of the search
    known: Mapping[bytes, tuple[float, float]] = {}  # objective and score (C2) of the bests, by position

    @property
    def now(self) -> float:
        """The tolerance (C5)."""
        return self.first * max(0.0, 1 - self.used / self.length) ** _POWER


def starting(state: Swarm, length: float, objective: Floats | None) -> Swarm:
    """The first swarm of a search with its tolerance, for so many evaluations; unchanged if it has none.

    It has none without equalities (``objective`` is None), if a fifth of the points is feasible, or if the objective is
    noisy.
    """
    if objective is None or state.repeats is not None or length <= 0:
        return state
    violation = order.violation(state.best_value)
    violation = violation[np.isfinite(violation)]
    first = float(np.quantile(violation, _WITHIN)) if len(violation) else 0.0
    if first == 0:
        return state
    known = _pairs(state.best_position, objective, state.best_value)
    return state._replace(tolerance=Tolerance(first, length, known=known))


def begin(begun: Callable[[Swarm], Swarm], state: Swarm) -> Swarm:
    """The first swarm after a method's ``begin``, which compares by (C4)."""
    if state.tolerance is None:
        return begun(state)
    return swarm.with_leader(begun(eased(state))._replace(best_value=state.best_value))


def eased(state: Swarm) -> Swarm:
    """The swarm as its method sees it: its bests compared by (C4)."""
    tolerance: Tolerance | None = state.tolerance
    if tolerance is None:
        return state
    objective = _column(state.best_position, tolerance.known, 0)
    scores = order.tolerated(state.best_value, objective, tolerance.now)
    return swarm.with_leader(state._replace(best_value=scores))


def tell(told: Tell, state: Swarm, proposal: Proposal, value: Array, evaluated: Array | None = None) -> Swarm:
    """The swarm after a method's ``tell``, which compares by (C4); its bests have their scores (C2) again."""
    tolerance: Tolerance | None = state.tolerance
    objective = proposal.objective
    if tolerance is None or objective is None:
        return told(state, proposal, value, evaluated)
    after = told(eased(state), proposal, order.tolerated(value, objective, tolerance.now), evaluated)
    seen = {**tolerance.known, **_pairs(state.snapped(proposal.position), objective, value)}
    count = value.shape[-1] if evaluated is None else int(evaluated.sum())
    kept = {key: seen[key] for key in _keys(after.best_position) if key in seen}
    tolerance = tolerance._replace(used=tolerance.used + count, known=kept)
    strict = _column(after.best_position, seen, 1)
    at_position = _column(after.snapped(after.position), seen, 1)
    return swarm.with_leader(
        after._replace(
            best_value=np.where(np.isnan(strict), after.best_value, strict),
            value=np.where(np.isnan(at_position), after.value, at_position),
            tolerance=tolerance if tolerance.now > 0 else None,
        )
    )


def _keys(points: Floats) -> Iterable[bytes]:
    return (point.tobytes() for point in points)


def _pairs(points: Floats, objective: Floats, scores: Floats) -> dict[bytes, tuple[float, float]]:
    """The objective and the score of each point."""
    return dict(zip(_keys(points), zip(objective.tolist(), scores.tolist(), strict=True), strict=True))


def _column(points: Floats, known: Mapping[bytes, tuple[float, float]], which: int) -> Floats:
    """The objectives or the scores of points, the first or the second of each pair; NaN where it is unknown."""
    return np.array([known.get(key, _UNKNOWN)[which] for key in _keys(points)])
