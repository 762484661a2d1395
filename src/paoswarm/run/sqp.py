r"""Sequential quadratic programming: a local search for smooth problems with constraints.

A generator: it yields points that it wants evaluated and is sent rows of values and constraints. So it runs wherever a
run does, with workers and stores, and the points of a gradient are evaluated together.

In shares :math:`u` of the bounds, with inequalities :math:`h(u) \le 0` and equalities :math:`e(u) = 0`, each step is
the solution of

.. math:: \min_p\; g^T p + \tfrac12 p^T B p \quad\text{with}\quad
          h + J p \le 0,\; e + E p = 0,\; 0 \le u + p \le 1                            \tag{C3}

The gradients come from differences, :math:`B` is Powell's damped BFGS estimate of the Lagrangian's curvature. A step is
shortened until the value plus the penalised violations falls (Powell 1978, Kraft 1988: SLSQP). The quadratic programme
is solved as a least distance problem by non-negative least squares (Lawson and Hanson 1974, chapter 23).
"""

from __future__ import annotations

import math
from collections.abc import Generator
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import solve_triangular
from scipy.optimize import nnls

from paoswarm.core.arrays import Floats
from paoswarm.evaluate.constraints import ConstraintSet

_FORWARD, _CENTRAL = 1.5e-8, 1e-5  # steps of differences, in widths of the bounds
_MARGIN = 1e-9  # by which inequalities are kept, in units of their scales: rounding must not make the end infeasible
_ENOUGH = 0.1  # share of the promised decrease that a step must bring
_SHORTENINGS = 10
_CORRECTIONS = 4
_FIRST_STEP = 0.2  # widths of the bounds
_TINY_STEP = 1e-10  # widths of the bounds
_SLACK = 1e4  # weight of not meeting the linear constraints, if they contradict each other
_FAR = 1e10  # the largest violation that is told from larger ones, in units of the scales
_HOLDS = 1e-6  # a violation that is none, in units of the scales
_FLAT = 1e-7  # a promised decrease that is none, in units of the value
_HOPELESS = 10.0  # a search whose step promises less than a tenth of what it is behind will not catch up
_HOPELESS_FOR = 2  # steps
_SAME_PLACE = 3e-4  # widths of the bounds
_EPS = float(np.finfo(float).eps)


class Smooth(NamedTuple):
    """What the search needs to know about a problem."""

    constraints: ConstraintSet | None
    scales: Floats  # (k,) of the constraints
    unit: float  # a difference of values that matters
    lower: Floats  # (d,)
    upper: Floats
    free: Any  # numbers of the coordinates that move
    known: float = math.inf  # the best feasible value; a search that will not beat it ends early
    known_at: Floats | None = None  # where it is, if a local search ended there; one that comes there ends


class Ended(NamedTuple):
    """How a local search ended."""

    x: Floats  # the last point, feasible or not
    has_converged: bool  # no step promises a decrease, and the constraints hold
    is_hopeless: bool = False  # it approached a minimum that is worse than the best value known
    is_back: bool = False  # it approached the point that has it


Search = Generator[Floats, Floats, Ended]


class _Point(NamedTuple):
    """A point with value and constraints in the search's units; the value is infinite where it is unknown."""

    u: Floats
    f: float
    h: Floats  # inequalities, h <= 0
    e: Floats  # equalities, e = 0

    def violation(self, weight: Floats) -> float:
        m = len(self.h)
        return float(weight[:m] @ np.maximum(self.h, 0) + weight[m:] @ np.abs(self.e))

    @property
    def is_feasible(self) -> bool:
        return self.violation(np.ones(len(self.h) + len(self.e))) < _HOLDS


class _Slopes(NamedTuple):
    g: Floats  # (n,)
    J: Floats  # (m, n)
    E: Floats  # (l, n)


class _Step(NamedTuple):
    p: Floats
    multipliers: Floats  # (m + l,), of equalities with their sign
    unmet: float  # share of the violations that the step does not remove even to first order


def search(problem: Smooth, x: Floats, row: Floats) -> Search:
    """Search from ``x`` (d,), whose value and constraints are ``row`` (1 + k,)."""
    one = _Sqp(problem, x)
    point = one.judged(one.share(x), row)
    if not math.isfinite(point.f):  # the objective is not called before the constraints hold
        point = yield from one.descend(point, is_restoring=True)
        if not math.isfinite(point.f):
            return Ended(one.full(point.u), False)
    point = yield from one.descend(point)
    if not (one.is_back or one.is_behind(point)):  # worth more digits
        one.step = _CENTRAL
        point = yield from one.descend(point)
    return Ended(one.full(point.u), one.has_converged, one.is_hopeless, one.is_back)


class _Sqp:
    def __init__(self, problem: Smooth, x: Floats) -> None:
        self.problem, self.x = problem, x
        self.low = problem.lower[problem.free]
        self.width = problem.upper[problem.free] - self.low
        self.known_u = None if problem.known_at is None else self.share(problem.known_at)
        self.step = _FORWARD
        self.has_converged = self.is_hopeless = self.is_back = False
        self.is_restoring = False  # whether only the violations count
        self.n_behind = 0  # steps in succession that promised too little
        self.known = problem.known / problem.unit
        k = problem.constraints
        self.equal = np.zeros(0, dtype=bool) if k is None else k.lb == k.ub
        n_below = 0 if k is None else int((~self.equal & np.isfinite(k.lb)).sum())
        n_above = 0 if k is None else int((~self.equal & np.isfinite(k.ub)).sum())
        self.n_unequal, self.n_equal = n_below + n_above, int(self.equal.sum())

    def is_behind(self, at: _Point, by: float = 0.0) -> bool:
        """Whether a point is worse than the best value known, by more than rounding and by more than given."""
        return at.f - self.known > max(by, _FLAT * max(1.0, abs(self.known)))

    def share(self, x: Floats) -> Floats:
        return np.clip((x[self.problem.free] - self.low) / self.width, 0, 1)

    def full(self, u: Floats) -> Floats:
        """Coordinates ``(..., d)`` of shares ``(..., n)``."""
        x = np.broadcast_to(self.x, (*u.shape[:-1], len(self.x))).copy()
        x[..., self.problem.free] = np.clip(self.low + u * self.width, self.low, self.low + self.width)
        return x

    def judged(self, u: Floats, row: Floats) -> _Point:
        f = float(row[0]) / self.problem.unit
        k = self.problem.constraints
        if k is None:
            return _Point(u, f if math.isfinite(f) else math.inf, np.empty(0), np.empty(0))
        with np.errstate(invalid="ignore"):
            below, above = (k.lb - row[1:]) / self.problem.scales, (row[1:] - k.ub) / self.problem.scales
        h = np.concatenate([below[~self.equal & np.isfinite(k.lb)], above[~self.equal & np.isfinite(k.ub)]]) + _MARGIN
        f = f if math.isfinite(f) else math.inf
        h, e = (np.clip(np.nan_to_num(part), -_FAR, _FAR) for part in (h, above[self.equal]))  # unknown: met
        return _Point(u, f, h, e)

    def _look(self, us: Floats) -> Generator[Floats, Floats, list[_Point]]:
        rows = yield self.full(us)
        return [self.judged(u, row) for u, row in zip(us, rows.reshape(len(us), -1), strict=True)]

    def slopes(self, at: _Point) -> Generator[Floats, Floats, _Slopes]:
        """Gradients by differences; toward the inside where the other side is out of bounds or was not evaluated."""
        n, step = len(at.u), self.step
        if step == _CENTRAL:
            both = np.concatenate([at.u + step * np.eye(n), at.u - step * np.eye(n)])
            near = yield from self._look(np.clip(both, 0, 1))
            right, left = near[:n], near[n:]
        else:
            side = np.where(at.u + step <= 1, step, -step)
            right = yield from self._look(at.u + np.diag(side))
            left = [at] * n
            lost = [i for i in range(n) if not math.isfinite(right[i].f) and math.isfinite(at.f)]
            if lost:
                others = yield from self._look(np.clip(at.u - np.diag(side)[lost], 0, 1))
                for i, other in zip(lost, others, strict=True):
                    left[i] = other
        g, J, E = np.zeros(n), np.zeros((len(at.h), n)), np.zeros((len(at.e), n))
        for i in range(n):
            apart = right[i].u[i] - left[i].u[i]
            if apart == 0:
                continue
            J[:, i], E[:, i] = (right[i].h - left[i].h) / apart, (right[i].e - left[i].e) / apart
            ends = [one for one in (right[i], left[i]) if math.isfinite(one.f)]
            if len(ends) == 2:
                g[i] = (ends[0].f - ends[1].f) / apart
            elif len(ends) == 1 and math.isfinite(at.f) and ends[0].u[i] != at.u[i]:
                g[i] = (ends[0].f - at.f) / (ends[0].u[i] - at.u[i])
        return _Slopes(np.nan_to_num(g), np.nan_to_num(J), np.nan_to_num(E))

    def descend(self, at: _Point, is_restoring: bool = False) -> Generator[Floats, Floats, _Point]:
        """Steps until none brings a decrease; to restore feasibility, until the objective has a value."""
        self.is_restoring, self.has_converged, self.n_behind = is_restoring, False, 0
        at = at._replace(f=self._objective(at))
        slopes = yield from self._slopes_of_merit(at)
        weight = np.zeros(self.n_unequal + self.n_equal)
        B, is_fresh = _first_curvature(slopes), True
        for _ in range(100 * (len(at.u) + 1)):
            if self.known_u is not None and np.abs(at.u - self.known_u).max() < _SAME_PLACE:
                self.is_back = self.has_converged = True
                return at
            step = _quadratic_step(B, slopes, at)
            if step is None:
                return at
            weight = self._next_weight(weight, step)
            promised = float(slopes.g @ step.p) - (1 - step.unmet) * at.violation(weight)
            if -promised <= max(1e-13, 4 * _EPS * abs(at.f)) or np.abs(step.p).max() < _TINY_STEP:
                self.has_converged = at.is_feasible
                return at
            self.is_hopeless = self._stays_behind(at, promised)
            if self.is_hopeless:
                return at
            after = yield from self._along(at, slopes, step, weight, promised)
            if after is None:
                if is_fresh:
                    is_flat = -promised <= _FLAT * max(1.0, abs(at.f))  # all that differences can show
                    self.has_converged = is_flat and at.is_feasible
                    return at
                B, is_fresh = _first_curvature(slopes), True  # what was learnt may be wrong
                continue
            if is_restoring and math.isfinite(after.f):
                return after
            after = after._replace(f=self._objective(after))
            new = yield from self._slopes_of_merit(after)
            if not is_restoring:
                B = _updated(B, at, after, slopes, new, step.multipliers, is_fresh)
                is_fresh = False
            at, slopes = after, new
        return at

    def _objective(self, at: _Point) -> float:
        """The value that counts: while feasibility is restored, none does."""
        return 0.0 if self.is_restoring else at.f

    def _slopes_of_merit(self, at: _Point) -> Generator[Floats, Floats, _Slopes]:
        slopes = yield from self.slopes(at)
        return slopes._replace(g=np.zeros(len(at.u))) if self.is_restoring else slopes

    def _next_weight(self, weight: Floats, step: _Step) -> Floats:
        """The weights of violations beside the value, from those before and the multipliers of a step."""
        if self.is_restoring:
            return np.ones_like(weight)
        if step.unmet > 0:  # its multipliers say only that the constraints come first
            return np.maximum(weight, 1.0)
        size = np.abs(step.multipliers)
        return np.maximum(size, (weight + size) / 2)

    def _stays_behind(self, at: _Point, promised: float) -> bool:
        """Whether several steps in succession have promised too little to reach the best value known."""
        is_there = not self.is_restoring and at.is_feasible
        self.n_behind = self.n_behind + 1 if is_there and self.is_behind(at, -_HOPELESS * promised) else 0
        return self.n_behind >= _HOPELESS_FOR

    def _along(
        self, at: _Point, slopes: _Slopes, step: _Step, weight: Floats, promised: float
    ) -> Generator[Floats, Floats, _Point | None]:
        """The next point along a step, shortened as often as necessary; None if none is better."""
        merit = at.f + at.violation(weight)
        length, p = 1.0, step.p
        for _ in range(_SHORTENINGS):
            (there,) = yield from self._look(np.clip(at.u + length * p, 0, 1)[None])
            goal = merit + _ENOUGH * length * promised
            if self._merit(there, weight) <= goal:
                return there
            bent = yield from self._bent(there, slopes, step, goal, weight)
            if bent is not None:
                return bent
            rise = self._merit(there, weight) - merit
            bowl = 2 * (rise - length * promised)
            shorter = -promised * length / bowl if math.isfinite(bowl) and bowl > 0 else 0.5
            length *= min(0.5, max(0.1, shorter))
        return None

    def _bent(
        self, there: _Point, slopes: _Slopes, step: _Step, goal: float, weight: Floats
    ) -> Generator[Floats, Floats, _Point | None]:
        """The end of a step brought back to the constraints along which it goes, if its merit then reaches a goal.

        Curved constraints bend away from the step, to either side. Without this, steps along them are cut to a small
        part of their length if the value changes little along the constraint and much across it.
        """
        last = math.inf
        for _ in range(_CORRECTIONS):
            bent, off = _corrected(there, slopes, step)
            if bent is None or (math.isfinite(there.f) and off > last / 2):  # the slopes are too different here
                return None
            last = off
            (there,) = yield from self._look(bent[None])
            if self._merit(there, weight) <= goal:
                return there
        return None

    def _merit(self, at: _Point, weight: Floats) -> float:
        return self._objective(at) + at.violation(weight)


def _first_curvature(slopes: _Slopes) -> Floats:
    """A round bowl whose minimum is at most `_FIRST_STEP` away."""
    return np.eye(len(slopes.g)) * max(1e-3, float(np.sqrt(slopes.g @ slopes.g)) / _FIRST_STEP)


def _quadratic_step(B: Floats, slopes: _Slopes, at: _Point) -> _Step | None:
    """The step (C3); if the linear constraints contradict each other, one that meets them as far as possible."""
    found = _least_distance(B, slopes, at, with_slack=False)
    return found if found is not None else _least_distance(B, slopes, at, with_slack=True)


def _least_distance(B: Floats, slopes: _Slopes, at: _Point, *, with_slack: bool) -> _Step | None:
    n, m, e = len(at.u), len(at.h), len(at.e)
    J, E, eye = slopes.J, slopes.E, np.eye(n)
    rows = [J, E, -E, eye, -eye]
    limits = np.concatenate([-at.h, -at.e, at.e, 1 - at.u, at.u])
    g = slopes.g
    if with_slack:  # one more unknown: the share of the violations that remains
        columns = [-np.maximum(at.h, 0), -at.e, at.e, np.zeros(n), np.zeros(n)]
        rows = [np.concatenate([part, column[:, None]], axis=1) for part, column in zip(rows, columns, strict=True)]
        last = np.zeros((2, n + 1))
        last[:, n] = 1, -1
        rows.append(last)
        limits = np.concatenate([limits, [1, 0]])
        heavy = _SLACK * max(1.0, float(np.abs(np.diagonal(B)).max()))
        B = np.block([[B, np.zeros((n, 1))], [np.zeros((1, n)), np.full((1, 1), heavy)]])
        g = np.append(g, 0.0)
    try:
        L = np.linalg.cholesky(B)
        q = solve_triangular(L, g, lower=True)
        M = solve_triangular(L, np.concatenate(rows).T, lower=True).T
        A, c = -M, -(limits + M @ q)
        size = np.sqrt(np.square(A).sum(axis=1))
        size = np.where(size > 0, size, 1.0)
        far = max(1.0, float(np.abs(c / size).max()))  # so that the distance is of order one
        stacked = np.concatenate([A / size[:, None], (c / size / far)[:, None]], axis=1).T
        goal = np.zeros(len(stacked))
        goal[-1] = 1.0
        z, _ = nnls(stacked, goal, maxiter=30 * stacked.shape[1])
    except (np.linalg.LinAlgError, RuntimeError, ValueError):
        return None
    rest = stacked @ z - goal
    if -rest[-1] < 1e-12:  # no point satisfies all
        return None
    y = -rest[:-1] / rest[-1] * far
    multipliers = z / -rest[-1] / size * far
    p = solve_triangular(L.T, y - q, lower=False)
    unmet = float(np.clip(p[n], 0, 1)) if with_slack else 0.0
    p = np.clip(p[:n], -at.u, 1 - at.u)
    if not np.isfinite(p).all():
        return None
    both = np.concatenate([multipliers[:m], multipliers[m : m + e] - multipliers[m + e : m + 2 * e]])
    return _Step(p, both, unmet)


def _corrected(there: _Point, slopes: _Slopes, step: _Step) -> tuple[Floats | None, float]:
    """Where the constraints are met again that a step follows or has violated, and how far they were off.

    A little farther if the objective is not called there, since an approximation from outside would never end.
    """
    chosen, farther = there.h > 0, 1.1
    if math.isfinite(there.f):
        chosen, farther = chosen | (step.multipliers[: len(there.h)] > 0), 1.0
    rows = np.concatenate([slopes.J[chosen], slopes.E])
    off = np.concatenate([farther * there.h[chosen], there.e])
    if not len(off) or not np.isfinite(off).all():
        return None, 0.0
    back = np.linalg.lstsq(rows, -off, rcond=1e-10)[0]
    if not np.isfinite(back).all() or np.abs(back).max() >= 1:
        return None, 0.0
    return np.clip(there.u + back, 0, 1), float(np.abs(off).max())


def _updated(
    B: Floats, at: _Point, after: _Point, old: _Slopes, new: _Slopes, multipliers: Floats, is_fresh: bool
) -> Floats:
    """Powell's damped BFGS update with the change of the Lagrangian's gradient."""
    s = after.u - at.u
    m = len(at.h)

    def gradient(slopes: _Slopes) -> Floats:
        total: Floats = slopes.g + multipliers[:m] @ slopes.J + multipliers[m:] @ slopes.E
        return total

    y = gradient(new) - gradient(old)
    if is_fresh:  # the size of the first estimate from the first change
        along = float(s @ y)
        if along > 0:
            B = np.eye(len(s)) * min(1e8, max(1e-8, float(y @ y) / along))
    Bs = B @ s
    curved, along = float(s @ Bs), float(s @ y)
    if curved <= 0 or not math.isfinite(along):
        return np.eye(len(s))
    if along < 0.2 * curved:
        share = 0.8 * curved / (curved - along)
        y = share * y + (1 - share) * Bs
        along = float(s @ y)
    B = B - np.outer(Bs, Bs) / curved + np.outer(y, y) / along
    return (B + B.T) / 2 if np.isfinite(B).all() else np.eye(len(s))
