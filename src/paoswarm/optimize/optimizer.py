"""The swarm as an object that is asked for points and told their values.

`minimize` and `minimize_many` are loops around it; use it directly when the evaluations happen elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import OptimizeResult

from paoswarm.algorithms import tolerance
from paoswarm.algorithms.agreement import Agreement
from paoswarm.algorithms.method import Method
from paoswarm.algorithms.mover import Mover
from paoswarm.checks import has_nan, real_number, unmasked
from paoswarm.core import order
from paoswarm.core import swarm as swarms
from paoswarm.core.arrays import Floats
from paoswarm.core.random import Draw, Seed, generator
from paoswarm.core.swarm import Proposal, Swarm
from paoswarm.evaluation.constraints import ConstraintSet
from paoswarm.keywords import explains_keywords
from paoswarm.optimize import read_input
from paoswarm.optimize.convergence import Rule, judge
from paoswarm.optimize.feasibility import Feasibility, Judged
from paoswarm.optimize.first_swarm import FirstSwarm
from paoswarm.optimize.history import Recorder
from paoswarm.optimize.incumbent import Incumbent, best_of, better_of, leader_of, reported, with_measurements
from paoswarm.optimize.local_searches import LocalSearches, Start
from paoswarm.optimize.read_problem import trial_constraints
from paoswarm.optimize.read_space import read_space
from paoswarm.optimize.result import Result, combined_agreement, message_of, standard_error
from paoswarm.optimize.stopping import Limits, Status
from paoswarm.optimize.swarm_size import choose_size

# Arguments of `minimize` that say how its loop ends or evaluates.
_OF_MINIMIZE = (
    *("maxiter", "maxfev", "target", "tol", "stagnation", "time_limit", "vectorized", "workers", "timeout", "retries"),
    *("args", "asynchronous", "callback", "progress", "polish", "store_swarms", "store"),
)


class Optimizer:
    """Ask for points, tell their values.

    Parameters
    ----------
    bounds : sequence of (low, high), scipy.optimize.Bounds, or variables in a sequence or by name
        The unknowns, as in `minimize`. With names `ask` returns a list of dicts.
    integrality : array (d,) of bool, optional
        With plain bounds: which unknowns are whole numbers.
    method : Method, str or None
        None: `AdaptivePAO` or `MixedPAO`, as in `minimize`; with ``init=result`` the method of that result. Or `PAO`,
        `PSO`, `QPSO`, `DE`, `SADE`, your own. A name such as "DE" stands for a method with its default hyperparameters.
    n_particles : int or None
        Size of the first swarm. None: what the method says. Ignored if ``init`` is an array or a swarm,
        which bring their own.
    x0 : array (d,) or (m, d), optional
        Points to be in the first swarm.
    f0 : array (m,), optional
        Their values: these points are not evaluated again. If there are more points than particles, the best are
        taken. Points whose value is NaN are evaluated.
    init : str, array (n, d) or Swarm
        How the first swarm fills the bounds: ``latinhypercube``, ``sobol``, ``halton``, ``random``, your own points,
        or a swarm to go on with (``result.swarm``).
    reevaluate : float
        For noisy objectives: the share of the remembered bests, the best ones, that is measured again in each
        generation (0.2 is a good choice). `ask` then returns that many more rows, and best values are running means.
    constraints : optional
        As in `minimize`. The numbers that they give are told to `tell`, which works them out if it can.
    rng : int, Generator, SeedSequence, None, or a list of them
        Seed. A list makes a batch: independent runs with a leading axis on every array.

    Examples
    --------
    >>> import paoswarm as ps
    >>> optimizer = ps.Optimizer([(-5, 5), (-5, 5)], rng=1)
    >>> for _ in range(60):
    ...     x = optimizer.ask()  # (m, 2): as many points as the method wants
    ...     optimizer.tell((x**2).sum(axis=1))
    >>> bool(optimizer.result.fun < 1e-6)
    True
    """

    @explains_keywords(**dict.fromkeys(_OF_MINIMIZE, "the loop is yours, so it is an argument of minimize only"))
    def __init__(
        self,
        bounds: Any,
        *,
        integrality: ArrayLike | None = None,
        method: Method | str | None = None,
        n_particles: int | None = None,
        x0: ArrayLike | None = None,
        f0: ArrayLike | None = None,
        init: Any = "latinhypercube",
        reevaluate: float = 0.0,
        constraints: Any = None,
        rng: Seed | Sequence[Seed] = None,
    ) -> None:
        self.space = read_space(bounds, integrality)
        self.method = read_input.read_method(method, init, self.space)
        self.lower, self.upper = self.space.lower, self.space.upper
        if not self.space.is_identity and not self.method.wall.is_bounded:
            raise ValueError("walls='none' goes with plain bounds only: other variables end at theirs")
        x0, init = self._located("x0", x0), self._located("init", init)
        is_batch = isinstance(rng, Sequence) and not isinstance(rng, str | bytes)
        seeds: list[Any] = list(cast(Sequence[Seed], rng)) if is_batch else [rng]
        if not seeds:
            raise ValueError("rng is an empty list: give one seed, or one for each run of a batch")
        self.batch: tuple[int, ...] = (len(seeds),) if is_batch else ()
        self._draw = Draw([generator(seed) for seed in seeds], self.batch)
        self._share = real_number("reevaluate", reevaluate, 0.0, may_equal=True)
        if self._share > 1:
            raise ValueError(f"reevaluate is a share of the swarm between 0 and 1, got {reevaluate!r}")
        self.nit = 0
        self.nfev = 0  # of every run that is still going
        self.n_recalled = 0  # points that were not evaluated, because their values were known
        self.n_failed: Any = np.zeros(self.batch, dtype=np.int64)
        self.swarm: Swarm | None = None
        # Generations since the best point last improved.
        self.stale: Any = np.zeros(self.batch, dtype=np.int64) if self.batch else 0
        self.moved: NDArray[np.bool_] | None = None  # the runs of a batch that moved last; None for all
        self._best: Incumbent | None = None
        self._progress = 0.0
        self._pending: Floats | None = None  # what was asked for and is not told yet
        self._proposal: Proposal | None = None
        self._again: Any = None  # numbers of the bests that are measured again
        self._spread: tuple[Swarm, Floats] | None = None  # of the swarm beside it
        self.feasibility = self._read_constraints(constraints, f0, init)
        self._recorder = Recorder(store_swarms=False, is_constrained=self.feasibility is not None)
        self.local: LocalSearches | None = None
        if self.feasibility is not None and self.method.searches_locally and not self._is_noisy:
            self.local = LocalSearches(self.feasibility, self.lower, self.upper, self.space.axes)
        earlier: Any = None
        if isinstance(init, OptimizeResult) and "swarm" in init:
            earlier, init = init, init.swarm
            if not self.batch and np.ndim(earlier.get("fun", 0.0)):
                raise ValueError("init holds several runs; to continue one of them, give init=many.run(r)")
        self._first: FirstSwarm | None = None
        self._leads: bool  # with repeated measurements: whether the swarm's leader is always the best point
        if isinstance(init, Swarm):
            if x0 is not None or f0 is not None:
                raise ValueError("x0 and f0 do not go with init=swarm; use Optimizer.inject to add points to a swarm")
            self._mover = Mover(self.method, (*self.batch, init.n_particles))
            self._leads = self._mover.keeps_bests
            self._continue(init, earlier)
        else:
            if n_particles is None:
                n_particles = choose_size(self.method, len(self.lower), None, None, x0, f0)
            self._first = FirstSwarm((self.lower, self.upper), n_particles, x0, f0, init, self.allowed, self.space.axes)
            self._mover = Mover(self.method, (*self.batch, self._first.n_particles))
            self._leads = self._mover.keeps_bests
            if self._first.n_unknown == 0:  # every value is known already
                self._first.points(self._draw.generators, self.batch)
                self._begin(np.empty((*self.batch, 0)))

    def _read_constraints(self, constraints: Any, f0: Any, init: Any) -> Feasibility | None:
        given = constraints if isinstance(constraints, ConstraintSet) else trial_constraints(constraints, self.space)
        if given is None:
            return None
        if self.batch:
            raise ValueError("a batch of runs has no constraints: use minimize_many, or one Optimizer for each run")
        if f0 is not None:
            raise ValueError("f0 does not go with constraints, because their numbers at these points are not known")
        scales = None
        if isinstance(init, Swarm | OptimizeResult):
            scales = init.get("constraint_scales") if isinstance(init, OptimizeResult) else None
            if scales is None or len(scales) != given.count:
                raise ValueError("init must be the result of a run with the same constraints, not a swarm alone")
        return Feasibility(given, scales, remembers=self._is_noisy)

    def scored(self, x: Floats, answers: Any) -> Any:
        """What points ``(m, d)`` are compared by: their values, or with constraints the score of each row."""
        return answers if self.feasibility is None else self.feasibility.scores(self._snapped(x), answers)

    def _snapped(self, x: Floats) -> Floats:
        axes = self.space.axes
        return x if axes is None else axes.snapped(x, self.lower, self.upper)

    @property
    def best_value(self) -> float:
        """The value of the best point of a single run; +inf while no point is feasible."""
        value = float(self.incumbent.value)
        return value if self.feasibility is None or order.is_feasible(value) else np.inf

    @property
    def shown_value(self) -> Any:
        """The value of the best point of each run; +inf while no point is feasible."""
        return self.incumbent.value if self.feasibility is None else np.float64(self.best_value)

    def _continue(self, swarm: Swarm, earlier: Any) -> None:
        """Go on with a swarm, and with the best point of the result that it comes from."""
        is_bounded = self.method.wall.is_bounded
        if earlier is not None and earlier.get("space", self.space) != self.space:
            raise ValueError(f"init is a result of another space: {earlier.space!r}, not {self.space!r}")
        swarm = read_input.read_swarm(swarm, self.batch, (self.lower, self.upper), is_bounded=is_bounded)
        swarm = swarm._replace(axes=self.space.axes)
        if self._is_noisy and swarm.repeats is None:
            swarm = swarm._replace(repeats=swarms.measured_once(swarm.best_value))
        swarm = self._mover.begin(swarms.with_leader(swarm))
        self.swarm, self._best = swarm, leader_of(swarm)
        if earlier is None or "fun" not in earlier:
            return
        found = reported(earlier)
        if self.feasibility is not None:
            numbers = np.concatenate(earlier.constr)
            x, score = self.space.coordinates(found.x), float(self._best.score)
            if earlier.feasible:
                score = min(score, float(found.score))
            self.feasibility.best = Judged(x, float(earlier.fun), numbers, score)
            if not earlier.feasible:
                return
        if not self.space.is_identity:
            found = found._replace(x=self.space.keep(found.x))
        low, high = self.allowed
        is_inside = ((found.x >= low) & (found.x <= high)).all(axis=-1)
        found = found._replace(score=np.where(is_inside, found.score, np.inf))
        best = better_of(self._best, found._replace(error=found.error if self._best.error is not None else None))
        if self._mover.keeps_bests and not self.batch and best is not self._best:  # found by polishing
            swarm = swarms.replace_worst(swarm, found.x[None], found.value[None])
        self._leads = self._leads and best is self._best
        self.swarm, self._best = swarm, best

    def _begin(self, f: Floats, may_fail: bool = False) -> None:
        """Make the first swarm from its values ``(*batch, m)``."""
        assert self._first is not None
        first = self._first.swarm(f, self.batch, noisy=self._is_noisy, may_fail=may_fail)
        self.swarm = self._mover.begin(self._tolerant(first))
        self._best = leader_of(first)

    def _tolerant(self, first: Swarm) -> Swarm:
        """The first swarm with a tolerance for violated constraints."""
        if self.feasibility is None or not self.feasibility.is_tolerant:
            return first
        length = self.method.tolerant_for(first.n_dimensions, first.n_particles)
        return tolerance.starting(first, length, self.feasibility.objective(first.best_position))

    def _located(self, what: str, points: Any) -> Any:
        """Points of the user in the swarm's coordinates; anything else unchanged."""
        is_other = points is None or isinstance(points, str | Swarm | OptimizeResult)
        if self.space.is_plain or is_other:
            return points
        return self.space.coordinates(self.space.read(what, points))

    def ask(self, progress: float = 0.0) -> Any:
        """The points to evaluate next, ``(*batch, m, d)``; the same ones until they are told.

        If the variables have names, a list of dicts instead.

        Schedules of hyperparameters depend on how far the run is: pass ``progress`` in [0, 1] if there are any.
        """
        if not 0 <= progress <= 1:
            raise ValueError(f"progress is the share of the run that is over, between 0 and 1, got {progress!r}")
        points = self.points(progress)
        return points.copy() if self.space.is_plain else self.space.nested(self.space.rows(points).copy())

    def points(self, progress: float = 0.0) -> Floats:
        """`ask` for drivers: in the swarm's coordinates, and without a copy."""
        self._progress = progress
        if self._pending is None:
            self._pending = self._first_points() if self.swarm is None else self._next_points(progress)
        return self._pending

    def _first_points(self) -> Floats:
        assert self._first is not None
        points = self._first.points(self._draw.generators, self.batch)
        if points.shape[-2] > 0:
            return points
        self._begin(np.empty((*self.batch, 0)))  # known values have filled it
        return self._next_points(self._progress)

    def _next_points(self, progress: float) -> Floats:
        """The points of a proposal, then the bests that are measured again."""
        assert self.swarm is not None
        self._proposal = self._mover.ask(self.swarm, self._draw, progress)
        if not self.n_again:
            return self._proposal.position
        # By their means, not their scores: a low mean of few measurements is the one to check.
        self._again = order.ranked(self.swarm.best_value)[..., : self.n_again]
        again = np.take_along_axis(self.swarm.best_position, self._again[..., None], axis=-2)
        return np.concatenate([self._proposal.position, again], axis=-2)

    def tell(self, values: ArrayLike, constr: ArrayLike | None = None) -> None:
        """The objective at the points of the last `ask`, in its order; NaN where it failed. -inf has failed, too.

        With constraints, ``constr`` (m, k) are their numbers. They can be left out if all constraints are functions of
        the point. Values of points that violate one of them do not matter; give +inf if you did not evaluate them.
        """
        if self._pending is None:
            raise RuntimeError("tell needs the values of points that were asked for: call ask first")
        f = np.asarray(unmasked(values))
        if f.dtype.kind not in "fiub":
            raise TypeError(f"tell needs real numbers, got {f.dtype}")
        asked = self._pending.shape[:-1]
        if f.shape != asked:
            raise ValueError(f"tell needs values of shape {asked}, one for each point asked for, got {f.shape}")
        f = np.where(f == -np.inf, np.nan, f.astype(float))
        if self.feasibility is not None:
            f = self.scored(self._pending, np.column_stack([f, self._told(constr, len(f))]))
        elif constr is not None:
            raise ValueError("constr needs the constraints to be known: Optimizer(bounds, constraints=...)")
        self.take(f)
        if not self.batch:
            assert self.swarm is not None
            self._recorder.record(self.swarm, float(self.incumbent.value), float(self.spread), self.nfev)

    def _told(self, constr: Any, m: int) -> Floats:
        """The numbers of the constraints at the points that were asked for, ``(m, k)``."""
        assert self.feasibility is not None
        assert self._pending is not None
        constraints = self.feasibility.constraints
        if constr is None and not constraints.n_returned:
            return np.stack([constraints.at(self.space.given(row)) for row in self.space.rows(self._pending)])
        shape = (m, constraints.count)
        numbers = np.empty(0) if constr is None else np.array(unmasked(constr), dtype=float)
        numbers = numbers[:, None] if numbers.shape == (m,) else numbers
        if numbers.shape != shape:
            raise ValueError(f"tell needs constr of shape {shape}, a row for each point, got {np.shape(constr)}")
        return numbers

    def take(
        self, f: Floats, measured: int | None = None, active: NDArray[np.bool_] | None = None, may_fail: bool = False
    ) -> None:
        """`tell` without questions, for drivers.

        Only the first ``measured`` values are real if the budget ended inside a generation; the others are NaN. Only
        ``active`` runs of a batch move on. With ``may_fail`` a first swarm without a finite value is not an error.
        """
        assert self._pending is not None
        x, before = self._pending, self.swarm
        m = f.shape[-1] if measured is None else measured
        if before is None:  # may raise; then nothing has changed
            self._begin(f, may_fail)
        self._pending = None
        self.moved = active
        self.nfev += m
        if has_nan(f):
            failed = np.isnan(f[..., :m])
            self.n_failed = self.n_failed + failed.sum(axis=-1) * (1 if active is None else active)
        if before is not None:
            self._move_on(before, x, f, None if m == f.shape[-1] else np.arange(f.shape[-1]) < m, active)

    def _move_on(
        self,
        before: Swarm,
        x: Floats,
        f: Floats,
        evaluated: NDArray[np.bool_] | None,
        active: NDArray[np.bool_] | None,
    ) -> None:
        """The next swarm and the best point, from the values of a proposal and of the bests measured again.

        ``evaluated`` (m,) tells which points were evaluated; None if all were. The values of the others are NaN.
        """
        assert self._proposal is not None
        assert self._best is not None
        new = self._proposal.position.shape[-2]
        swarm, old = before, self._best
        if f.shape[-1] > new:  # first what is remembered, so that the new points meet the better estimate
            swarm = self._remeasured(before, x[..., new:, :], f[..., new:])
            if not self._leads:  # the next swarm may have forgotten it
                self._best = with_measurements(old, swarm)
            x, f = x[..., :new, :], f[..., :new]
        if evaluated is not None:
            evaluated = None if evaluated[:new].all() else np.broadcast_to(evaluated[:new], (*self.batch, new))
        if before.repeats is None and not self._mover.keeps_bests:  # before a user's code sees the values
            self._improve(x, f)
        proposal = self._proposal
        if self.feasibility is not None and self.feasibility.is_tolerant:
            proposal = proposal._replace(objective=self.feasibility.objective(self._snapped(x)))
        after = self._mover.tell(swarm, proposal, f, evaluated)
        if self.batch and after.n_particles != before.n_particles:
            name = type(self.method).__name__
            raise ValueError(
                f"{name} changes the size of its swarm, so it cannot take batches: set takes_batches = False"
            )
        self.swarm = after if active is None else swarms.select(active, after, before)
        if before.repeats is not None or self._mover.keeps_bests:
            self._improve(x, f)
        self._count_stale(old)
        self.nit += 1

    def _remeasured(self, swarm: Swarm, asked: Floats, f: Floats) -> Swarm:
        """The swarm after bests were measured again; one that was replaced meanwhile (`inject`) was not."""
        now = np.take_along_axis(swarm.best_position, self._again[..., None], axis=-2)
        same = (now == asked).all(axis=-1)
        if self.feasibility is not None:
            return self._remeasured_in_order(swarm, self._again, np.where(same, f, np.nan))
        with np.errstate(over="ignore"):  # values beyond 1e150 have infinite squares
            return swarms.remeasure(swarm, self._again, np.where(same, f, np.nan))

    def _remeasured_in_order(self, swarm: Swarm, index: Any, scores: Floats) -> Swarm:
        """The same with constraints: a point that has ever been infeasible is infeasible, and has no noise."""
        was, now = order.is_feasible(swarm.best_value[index]), order.is_feasible(scores)
        after = swarms.remeasure(swarm, index, np.where(was & now, scores, np.nan))
        lost = was & ~now & ~np.isnan(scores)
        if not lost.any():
            return after
        values = after.best_value.copy()
        values[index[lost]] = scores[lost]
        return swarms.with_leader(after._replace(best_value=values))

    def _improve(self, x: Floats, f: Floats) -> None:
        """The best point after these were evaluated."""
        assert self.swarm is not None
        assert self._best is not None
        if self.swarm.repeats is not None:
            self._best = leader_of(self.swarm) if self._leads else with_measurements(self._best, self.swarm)
        elif not self._mover.keeps_bests or self.feasibility is not None:  # a tolerant swarm may prefer another
            self._best = better_of(self._best, best_of(self.swarm.snapped(x), f))
        else:  # the swarm's leader is the best of all
            is_better = order.is_better(self.swarm.global_value, self._best.value)
            if self.batch:
                self._best = better_of(self._best, leader_of(self.swarm)) if is_better.any() else self._best
            elif is_better:
                self._best = leader_of(self.swarm)

    def _count_stale(self, old: Incumbent, generations: int = 1) -> None:
        """Count the generations without improvement: with noise, without another best point."""
        new = self._best
        assert new is not None
        if new is old:
            self.stale = self.stale + generations
            return
        improved = order.is_better(new.value, old.value) if new.error is None else (new.x != old.x).any(axis=-1)
        stale = self.stale + generations
        self.stale = np.where(improved, 0, stale) if self.batch else 0 if improved else stale

    def inject(self, x: ArrayLike, f: ArrayLike) -> None:
        """Points evaluated elsewhere, with their values.

        Before the first swarm they are part of it. Later each one replaces one of the worst remembered bests, if it is
        better. They are not counted in ``nfev``.
        """
        points = read_input.read_points("x", self._located("x", x), self.allowed)
        values = read_input.read_values("f", f, len(points))
        if self.swarm is None:
            if self._pending is not None:
                raise RuntimeError("the first swarm has been asked for: tell its values before injecting points")
            assert self._first is not None
            self._first.add(points, values)
            return
        best_first = order.ranked(order.failed_last(values))[: self.n_particles]
        points, values = points[best_first], order.failed_last(values)[best_first]
        self.swarm = swarms.replace_worst(self.swarm, points, values)
        old, shape = self.incumbent, (*self.batch, len(values))
        self._improve(np.broadcast_to(points, (*shape, points.shape[-1])), np.broadcast_to(values, shape))
        self._count_stale(old, generations=0)

    def take_extra(self, x: Floats, f: Floats, runs: NDArray[np.bool_], measured: int) -> None:
        """The best points after others were evaluated beside the swarms of some runs: ``x`` (k, m, d), ``f`` (k, m)."""
        points = np.zeros((*self.batch, *x.shape[1:]))
        values = np.full(points.shape[:-1], np.inf)
        points[runs], values[runs] = x, f
        assert self.swarm is not None
        self._best = better_of(self.incumbent, best_of(self.swarm.snapped(points), values))
        self.n_failed = self.n_failed + np.isnan(values).sum(axis=-1)
        if not self.batch:  # otherwise the other runs go on
            self.nfev += measured

    @property
    def best(self) -> Incumbent:
        """The best point so far, of each run; of a choice the index of the entry."""
        best = self.incumbent
        return best if self.space.is_identity else best._replace(x=self.space.rows(best.x))

    @property
    def incumbent(self) -> Incumbent:
        """The same in the swarm's coordinates, for drivers."""
        if self._best is None:
            raise RuntimeError("no best point yet: call ask, evaluate the points, then call tell")
        return self._best

    @property
    def n_particles(self) -> int:
        """How many particles there are now."""
        if self.swarm is not None:
            return self.swarm.n_particles
        assert self._first is not None
        return self._first.n_particles

    @property
    def n_again(self) -> int:
        """How many bests are measured again in a generation."""
        return max(1, round(self._share * self.n_particles)) if self._share else 0

    @property
    def n_each(self) -> int:
        """How many points a generation takes, if the method asks for one for each particle."""
        return self.n_particles + self.n_again

    def expected_evaluations(self, limits: Limits) -> int | None:
        """The most evaluations of a run; None if unknown, because the method may ask for any number of points."""
        if not (self._mover.keeps_bests or self.method.takes_batches):
            return limits.maxfev
        return limits.evaluations(self.n_to_start, self.n_each)

    @property
    def n_to_start(self) -> int:
        """How many points the first swarm still needs evaluated."""
        return 0 if self.swarm is not None or self._first is None else self._first.n_unknown

    @property
    def knows_a_value(self) -> bool:
        """Whether a finite value was brought along."""
        return self.swarm is not None or (self._first is not None and self._first.has_value)

    @property
    def spread(self) -> Floats:
        """Root mean square distance of the particles from the swarm's best, in widths of the bounds; of each run."""
        assert self.swarm is not None
        if self._spread is None or self._spread[0] is not self.swarm:
            with np.errstate(under="ignore"):
                self._spread = self.swarm, swarms.spread(self.swarm, self.method.wall.unroll)
        return self._spread[1]

    def local_start(self) -> Start:
        """Where the next local search begins."""
        assert self.local is not None
        return self.local.start(self._draw)

    def has_converged(self, tol: float) -> NDArray[np.int64] | None:
        """The `Rule` by which each run has converged; None if none has, or if nothing would end them."""
        assert self.swarm is not None
        if self.local is not None and self.local.found and tol > 0:
            agreed = self.agreement
            return np.asarray(Rule.OWN if agreed is not None and agreed.is_settled else Rule.NONE)
        if self._mover.decides_its_end:
            is_done = np.asarray(self._mover.has_converged(self.swarm, self.spread, tol))
            return np.where(is_done, Rule.OWN, Rule.NONE)
        return judge(self.swarm, self.spread, self.stale, tol) if tol > 0 else None

    @property
    def agreement(self) -> Agreement | None:
        """How the independent searches of a run agree; None if its method does not start again."""
        if self.swarm is None:
            return None
        if self.local is None or not self.local.found:
            return self.method.agreement(self.swarm)
        return combined_agreement(self.method, self.swarm, self.local.found)

    @property
    def result(self) -> Result:
        """The best so far, as `minimize` returns it."""
        if self.swarm is None:
            raise RuntimeError("no result yet: call ask, evaluate the points, then call tell")
        return self.result_with(
            Status.RUNNING, Status.RUNNING.message, self._progress, history=self._recorder.history()
        )

    def result_with(self, status: Status, why: str, progress: float, **more: Any) -> Result:
        """The best so far, for drivers that know the status, why it ended, and more."""
        if self.batch:
            raise ValueError("this Optimizer holds several runs: use optimizer.best or optimizer.swarm")
        assert self.swarm is not None
        n_failed = int(self.n_failed)
        value, x = float(self.incumbent.value), self.incumbent.x
        if self.feasibility is not None:
            more |= self.feasibility.fields(x, value)
            more["local_searches"] = () if self.local is None else self.local.found
            why = self.explained(why)
            value = self.feasibility.value(value)
        return Result(
            x=self.best.x.copy(),
            fun=value,
            fun_error=standard_error(self.incumbent.error),
            success=status.is_success and more.get("feasible", True),
            status=status,
            message=message_of(why, n_failed, self.nfev, more.get("failure_kinds")),
            nit=self.nit,
            nfev=self.nfev,
            n_failed=n_failed,
            swarm=self.swarm,
            method=self.method,
            progress=progress,
            **self.shown,
            **more,
        )

    def explained(self, why: str) -> str:
        """Why a run ended, and before it that no point is feasible if so."""
        if self.feasibility is None:
            return why
        said = self.feasibility.sentence(self.incumbent.x, float(self.incumbent.value))
        return " ".join(filter(None, [said, why]))

    @property
    def shown(self) -> dict[str, Any]:
        """The space as a field of results; nothing for plain bounds."""
        return {} if self.space.is_plain else {"space": self.space}

    @property
    def _is_noisy(self) -> bool:
        return self._share > 0

    @property
    def allowed(self) -> read_input.Box:
        """Where points may lie: without walls the bounds are only where the search begins."""
        if self.method.wall.is_bounded:
            return self.lower, self.upper
        anywhere = np.full(len(self.lower), np.finfo(float).max)
        return -anywhere, anywhere
