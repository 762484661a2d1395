r"""What the points of a run are compared by, their values or feasibility first, and the best of them.

The violations :math:`v_i` of different constraints have different units, so each is measured in units of a scale
:math:`s_i`, the median of its violations in the first swarm:

.. math:: V(x) = \sum_i \frac{v_i(x)}{s_i}                                               \tag{C1}

The scales never change after that, or remembered points could not be compared with new ones. The order itself is
`paoswarm.core.order.feasible_first`.

The best point of a run, its *incumbent*, belongs to the driver, so that a method may forget it without losing it.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import OptimizeResult

from paoswarm._checks import counted
from paoswarm.core import order
from paoswarm.core import swarm as swarms
from paoswarm.core.arrays import Floats
from paoswarm.core.swarm import Swarm
from paoswarm.evaluate.constraints import ConstraintSet
from paoswarm.methods import moves
from paoswarm.methods.method import Method
from paoswarm.space.space import Space

_REMEMBERED = 5000  # latest points whose constraints are kept, for runs with repeated measurements


class JudgedPoint(NamedTuple):
    """A point with its value, the numbers of its constraints, and its score."""

    x: Floats
    value: float
    numbers: Floats
    score: float


class Judge:
    """Points are compared by their values."""

    is_tolerant = False  # whether swarms begin with a tolerance for violated constraints
    n_constraints = 0

    def scores(self, x: Floats, answers: Any) -> Any:
        """What points ``x`` (m, d) are compared by, from what the function has answered there."""
        return answers

    def tolerant(self, first: Swarm, method: Method) -> Swarm:
        """The first swarm, with a tolerance for violated constraints if there are equalities."""
        return first

    def objective(self, x: Floats, *, is_all: bool = True) -> Floats | None:
        """The objective at points that were judged lately; None if it is what they are compared by."""
        return None

    def remeasured(self, swarm: Swarm, index: Any, scores: Floats) -> Swarm:
        """The swarm after bests were measured again, those with these numbers."""
        with np.errstate(over="ignore"):  # values beyond 1e150 have infinite squares
            return swarms.remeasure(swarm, index, scores)

    def resumes(self, earlier: Any, space: Space, score: float) -> bool:
        """Take over what an earlier result says; whether its best point can be compared with new ones."""
        return True

    def shown(self, score: Any) -> Any:
        """The values that go with the scores of best points; +inf while none is feasible."""
        return score

    def value(self, score: float) -> float:
        """The value of the best point, which has this score."""
        return score

    def fields(self, x: Floats, score: Any) -> dict[str, Any]:
        """What a result says about constraints at its point."""
        return {}

    def sentence(self, x: Floats, score: float) -> str:
        """What a message says if no feasible point was found; else empty."""
        return ""


class FeasibleFirst(Judge):
    """Feasible points come first, then the smallest violation: the constraints of one run, and what was seen of them.

    Attributes
    ----------
    constraints : ConstraintSet
    scales : array (k,) or None
        Units of the violations; None before the first points.
    best : Judged or None
        The best point so far.
    n_points, n_infeasible : int
        How many points were judged, and how many of them were infeasible.
    n_violations : array (k,)
        How many of these violated each constraint.
    """

    def __init__(self, constraints: ConstraintSet, scales: Floats | None = None, *, remembers: bool = False) -> None:
        self.constraints = constraints
        self.n_constraints = constraints.count
        self.is_tolerant = bool(constraints.is_equality.any())  # nearly no point satisfies an equality
        self.scales = scales
        self.best: JudgedPoint | None = None
        self.n_points = self.n_infeasible = 0
        self.n_violations = np.zeros(constraints.count, dtype=np.int64)
        self._remembers = remembers
        self._unit: float | None = None
        self._rows: dict[bytes, Floats] = {}
        self._latest: dict[bytes, float] = {}  # the objective at points that no swarm was told of yet

    def scores(self, x: Floats, rows: Floats) -> Floats:
        """Scores ``(m,)`` of points ``x`` (m, d) with ``rows`` (m, 1 + k) of values and constraints; NaN if failed."""
        values, numbers = rows[:, 0], rows[:, 1:]
        # A constraint that is not known has failed. Where the objective was not called, those that it returns are not.
        values = np.where(np.isfinite(values) & np.isnan(numbers).any(axis=1), np.nan, values)
        violations = self.constraints.violations(numbers)
        if self.scales is None and len(rows):
            self.scales = self._scales_of(violations, numbers)
        if self._unit is None:
            known = values[np.isfinite(values)]
            apart = float(np.median(known) - known.min()) if len(known) > 1 else 0.0
            self._unit = apart if apart > 0 else None
        scores = order.feasible_first(values, np.where(np.isnan(values), np.nan, self.total(violations)))
        if self.is_tolerant:
            self._latest |= {point.tobytes(): value for point, value in zip(x, values.tolist(), strict=True)}
        self._count(violations, ~np.isnan(values))
        if len(rows):
            self._keep_best(x, rows, scores)
        return scores

    def tolerant(self, first: Swarm, method: Method) -> Swarm:
        """The first swarm with its tolerance."""
        if not self.is_tolerant:
            return first
        length = method.tolerant_for(first.n_dimensions, first.n_particles)
        return moves.starting(first, length, self.objective(first.best_position))

    def remeasured(self, swarm: Swarm, index: Any, scores: Floats) -> Swarm:
        """A point that has ever been infeasible is infeasible, and has no noise."""
        was, now = order.is_feasible(swarm.best_value[index]), order.is_feasible(scores)
        with np.errstate(over="ignore"):
            after = swarms.remeasure(swarm, index, np.where(was & now, scores, np.nan))
        lost = was & ~now & ~np.isnan(scores)
        if not lost.any():
            return after
        values = after.best_value.copy()
        values[index[lost]] = scores[lost]
        return swarms.with_leader(after._replace(best_value=values))

    def resumes(self, earlier: Any, space: Space, score: float) -> bool:
        """Take over the best point of an earlier result with its numbers."""
        found = reported(earlier)
        if earlier.feasible:
            score = min(score, float(found.score))
        x = space.coordinates(found.x)
        self.best = JudgedPoint(x, float(earlier.fun), np.concatenate(earlier.constr), score)
        return bool(earlier.feasible)

    def shown(self, score: Any) -> Any:
        """The value of the best point; +inf while no point is feasible."""
        return np.float64(score) if order.is_feasible(score) else np.float64(np.inf)

    def objective(self, x: Floats, *, is_all: bool = True) -> Floats:
        """The objective at points ``x`` (m, d) that were judged lately; NaN if it is not known.

        Then they are forgotten; with ``is_all`` all other ones are, too.
        """
        found = np.array([self._latest.pop(point.tobytes(), math.nan) for point in x])
        if is_all:
            self._latest = {}
        return found

    @property
    def unit(self) -> float:
        """A difference of values that matters."""
        return 1.0 if self._unit is None else self._unit

    def total(self, violations: Floats) -> Floats:
        """Total violations (C1) of violations ``(..., k)``."""
        assert self.scales is not None
        total: Floats = (violations / self.scales).sum(axis=-1)
        return total

    def _scales_of(self, violations: Floats, numbers: Floats) -> Floats:
        """The median of the violations of each constraint; if there are none, of its distance from a limit."""
        scales = np.ones(violations.shape[-1])
        limits = np.where(np.isfinite(self.constraints.lb), self.constraints.lb, self.constraints.ub)
        for i in range(len(scales)):
            found = violations[:, i][violations[:, i] > 0]
            if not len(found):
                found = np.abs(numbers[:, i] - limits[i])
            found = found[np.isfinite(found) & (found > 0)]
            scales[i] = np.median(found) if len(found) else 1.0
        return scales

    def _count(self, violations: Floats, is_known: Any) -> None:
        is_violated = (violations > 0) & is_known[:, None]
        self.n_points += int(is_known.sum())
        self.n_infeasible += int(is_violated.any(axis=-1).sum())
        self.n_violations += is_violated.sum(axis=0)

    def _keep_best(self, x: Floats, rows: Floats, scores: Floats) -> None:
        known = order.failed_last(scores)
        first = int(order.best(known))
        if self.best is None or order.is_better(known[first], self.best.score):
            self.best = JudgedPoint(x[first].copy(), float(rows[first, 0]), rows[first, 1:].copy(), float(known[first]))
        if self._remembers:
            self._rows |= {point.tobytes(): row for point, row in zip(x, rows, strict=True)}
            for old in list(self._rows)[: max(0, len(self._rows) - _REMEMBERED)]:
                del self._rows[old]

    def at(self, x: Floats) -> Floats:
        """The numbers of the constraints at the best point of the run, which is at ``x``."""
        assert self.best is not None
        row = self._rows.get(x.tobytes())
        return self.best.numbers if row is None else row[1:]

    def fields(self, x: Floats, score: Any) -> dict[str, Any]:
        """What a result says about the constraints at its point, with SciPy's names."""
        assert self.best is not None
        numbers = self.at(x)
        excess = self.constraints.excess(numbers)
        return {
            "feasible": bool(order.is_feasible(score)),
            "constr": self.constraints.split(numbers),
            "constr_violation": self.constraints.split(excess),
            "maxcv": float(excess.max()),
            "n_infeasible": self.n_infeasible,
            "hardest": self.hardest,
            "constraint_scales": self.scales,
            "constraints": self.constraints,
        }

    def value(self, score: float) -> float:
        """The value of the best point, which has this score: of an infeasible one, what the objective gave there.

        NaN if the objective was not called there.
        """
        if order.is_feasible(score) or self.best is None:
            return score
        return self.best.value if math.isfinite(self.best.value) else math.nan

    @property
    def hardest(self) -> str:
        """The constraint that most points have violated; empty if none was."""
        if not self.n_violations.any():
            return ""
        return self.constraints.labels[int(np.argmax(self.n_violations))]

    def sentence(self, x: Floats, score: float) -> str:
        """What a message says if no feasible point was found; else empty."""
        if order.is_feasible(score):
            return ""
        violations = self.constraints.violations(self.at(x))
        assert self.scales is not None
        worst = int(np.argmax(violations / self.scales))
        label, others = self.constraints.labels[worst], int((violations > 0).sum()) - 1
        said = f"No feasible point was found: at the best one, {label} is violated by {violations[worst]:.3g}"
        said += f", and so {'is' if others == 1 else 'are'} {counted(others, 'other')}" if others else ""
        if self.hardest != label:
            share = self.n_violations.max() / max(1, self.n_points)
            said += f"; most points, {100 * share:.0f} %, violate {self.hardest}"
        return f"{said}."


class Incumbent(NamedTuple):
    """The best point that each run has evaluated so far.

    Attributes
    ----------
    x : array (*batch, d)
    value : array (*batch,)
        Its value; with repeated measurements their mean.
    score : array (*batch,)
        What it is compared by, see `paoswarm.core.order`.
    error : array (*batch,) or None
        Standard error of the mean; NaN while the noise is unknown, None without repeated measurements.
    """

    x: Floats
    value: Any
    score: Any
    error: Any = None


def leader_of(swarm: Swarm) -> Incumbent:
    """The best of the bests that a swarm remembers."""
    x, repeats = swarm.global_best[..., 0, :].copy(), swarm.repeats
    if repeats is None:
        return Incumbent(x, swarm.global_value, swarm.global_value)
    scores = order.score(swarm.best_value, repeats)
    row = order.best(scores)
    if np.ndim(row) == 0:  # the same for one run, with fewer calls
        count, score = repeats.count[row], scores[row]
    else:
        count, score = (np.take_along_axis(array, row[..., None], axis=-1)[..., 0] for array in (repeats.count, scores))
    error = np.where(repeats.freedom > 0, repeats.sd / np.sqrt(np.maximum(1.0, count)), np.nan)
    return Incumbent(x, swarm.global_value, score, error)


def reported(result: Any) -> Incumbent:
    """The best point of an earlier result, of one run or of several."""
    value = np.asarray(result.fun, dtype=float)
    error = result.get("fun_error")
    error = np.full(value.shape, np.nan) if error is None else np.asarray(error, dtype=float)
    return Incumbent(np.array(result.x, dtype=float), value, value + order.CAUTION * np.nan_to_num(error), error)


def best_of(x: Floats, values: Floats) -> Incumbent:
    """The best of points ``x`` (*batch, m, d); NaN where one failed or was left out."""
    values = order.failed_last(values)
    row = order.best(values)[..., None]
    value = np.take_along_axis(values, row, axis=-1)[..., 0]
    return Incumbent(np.take_along_axis(x, row[..., None], axis=-2)[..., 0, :], value, value)


def better_of(old: Incumbent, new: Incumbent) -> Incumbent:
    """The better point of each run; the old one if they are equal."""
    is_better = np.asarray(order.is_better(new.score, old.score))
    if is_better.all():
        return new
    return old if not is_better.any() else _chosen(is_better, new, old)


def with_measurements(best: Incumbent, swarm: Swarm) -> Incumbent:
    """The best after a swarm with repeated measurements has moved.

    While the swarm remembers the point, its mean is the swarm's, and may have become worse. If the swarm has forgotten
    it, as after a restart, what was known about it still counts.
    """
    leader = leader_of(swarm)
    is_remembered = (swarm.best_position == best.x[..., None, :]).all(axis=-1).any(axis=-1)
    is_replaced = is_remembered | order.is_better(leader.score, best.score)
    return leader if is_replaced.all() else _chosen(is_replaced, leader, best)


def _chosen(is_new: Any, new: Incumbent, old: Incumbent) -> Incumbent:
    """Run by run, the new one where the mask is true."""
    pairs = zip(new[1:], old[1:], strict=True)
    numbers = (None if theirs is None else np.where(is_new, ours, theirs) for ours, theirs in pairs)
    return Incumbent(np.where(is_new[..., None], new.x, old.x), *numbers)


def judge_for(constraints: ConstraintSet | None, f0: Any, init: Any, is_batch: bool, *, remembers: bool) -> Judge:
    """What the points of a run are compared by, whose first points are ``init``; an error if it cannot be."""
    if constraints is None:
        return Judge()
    if is_batch:
        raise ValueError("a batch of runs has no constraints: use minimize_many, or one Optimizer for each run")
    if f0 is not None:
        raise ValueError("values of x0 do not go with constraints, because their numbers at these points are not known")
    scales = None
    if isinstance(init, Swarm | OptimizeResult):
        scales = init.get("constraint_scales") if isinstance(init, OptimizeResult) else None
        if scales is None or len(scales) != constraints.count:
            raise ValueError("init must be the result of a run with the same constraints, not a swarm alone")
    return FeasibleFirst(constraints, scales, remembers=remembers)
