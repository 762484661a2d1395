"""Where a run stands: its swarm, its best point and its counts, and how values move it on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import OptimizeResult

from paoswarm.core import order
from paoswarm.core import swarm as swarms
from paoswarm.core.arrays import Floats
from paoswarm.core.random import Draw, Seed, generator
from paoswarm.core.swarm import Proposal, Swarm
from paoswarm.evaluate.constraints import ConstraintSet
from paoswarm.methods import moves
from paoswarm.methods.adaptive_pao import AdaptivePAO
from paoswarm.methods.agreement import Agreement
from paoswarm.methods.method import Method
from paoswarm.methods.moves import TOL
from paoswarm.run.beside import LocalSearches
from paoswarm.run.first_swarm import FirstSwarm, choose_size
from paoswarm.run.judge import (
    FeasibleFirst,
    Incumbent,
    best_of,
    better_of,
    judge_for,
    leader_of,
    reported,
    with_measurements,
)
from paoswarm.run.read_input import Box, check_share, read_swarm
from paoswarm.run.result import combined_agreement
from paoswarm.run.stopping import Limits, Rule, judge_convergence
from paoswarm.space.space import Space

_NOTICED = 0.2  # share of the bests that is measured again if the run has noticed by itself that values are noisy


class RunState:
    """One run, or a batch of runs, from the first swarm on. Arguments are those of `Optimizer`, read.

    Attributes
    ----------
    swarm : Swarm or None
        None before the first values.
    nit, nfev, n_recalled : int
        Generations; evaluations of every run that is still going; points that were not evaluated, because their values
        were known.
    failure_kinds : list of Counter
        How many points of each run have failed in which way.
    stale : int or array
        Generations since the best point last improved.
    incumbent : Incumbent or None
        The best point so far, in the swarm's coordinates; None before the first values.
    tol : float
        The accuracy that the user wants.
    remark : str
        What a message says about the noise that the run has noticed.
    judge : Judge
        What points are compared by.
    local : LocalSearches or None
        The local searches beside the swarm, if there are constraints.
    """

    def __init__(
        self,
        space: Space,
        method: Method,
        *,
        n_particles: int | None = None,
        x0: Any = None,
        f0: Any = None,
        init: Any = "latinhypercube",
        reevaluate: float = 0.0,
        constraints: ConstraintSet | None = None,
        rng: Seed | Sequence[Seed] = None,
    ) -> None:
        self.space, self.method = space, method
        self.lower, self.upper = space.lower, space.upper
        is_batch = isinstance(rng, Sequence) and not isinstance(rng, str | bytes)
        seeds: list[Any] = list(cast(Sequence[Seed], rng)) if is_batch else [rng]
        if not seeds:
            raise ValueError("rng is an empty list: give one seed, or one for each run of a batch")
        self.batch: tuple[int, ...] = (len(seeds),) if is_batch else ()
        self.draw = Draw([generator(seed) for seed in seeds], self.batch)
        self._share = check_share(reevaluate)
        self._is_noisy = self._share > 0
        if not space.is_identity and not method.wall.is_bounded:
            raise ValueError("walls='none' goes with plain bounds only: other variables end at theirs")
        self.swarm: Swarm | None = None
        self.nit = self.nfev = self.n_recalled = 0
        self.failure_kinds: list[Counter[str]] = [Counter() for _ in seeds]
        self.stale: Any = np.zeros(self.batch, dtype=np.int64) if self.batch else 0
        self.incumbent: Any = None
        self._pending: Floats | None = None  # what was asked for and is not told yet
        self._proposal: Proposal | None = None
        self._again: Any = None  # numbers of the bests that are measured again
        self._spread: tuple[Swarm, Floats] | None = None  # of the swarm beside it
        self._first: FirstSwarm | None = None
        self.tol = TOL  # the accuracy that the user wants
        self.remark = ""
        self.judge = judge_for(constraints, f0, init, bool(self.batch), remembers=self._is_noisy)
        self.local: LocalSearches | None = None
        searches_locally = isinstance(method, AdaptivePAO) and method.local and not self._is_noisy
        if isinstance(self.judge, FeasibleFirst) and searches_locally:
            self.local = LocalSearches(self.judge, self.lower, self.upper, space.axes)
        self._start(n_particles, self._located("x0", x0), f0, self._located("init", init))

    def _start(self, n_particles: int | None, x0: Any, f0: Any, init: Any) -> None:
        """The first swarm, or an earlier one to go on with."""
        earlier: Any = None
        if isinstance(init, OptimizeResult) and "swarm" in init:
            earlier, init = init, init.swarm
            if not self.batch and np.ndim(earlier.get("fun", 0.0)):
                raise ValueError("init holds several runs; to continue one of them, give init=many.run(r)")
        if isinstance(init, Swarm):
            if x0 is not None or f0 is not None:
                raise ValueError("x0 does not go with init=swarm; use Optimizer.inject to add points to a swarm")
            n_particles = init.n_particles
        else:
            if n_particles is None:
                n_particles = choose_size(self.method, self.space, None, None, x0, f0)
            size = self.space.size
            if isinstance(init, str) and x0 is None and size is not None and size <= n_particles:
                init = np.resize(self.space.every_point(), (n_particles, len(self.lower)))
            box = self.lower, self.upper
            self._first = FirstSwarm(box, n_particles, x0, f0, init, self.allowed, self.space.axes)
            n_particles = self._first.n_particles
        moves.check(self.method, (*self.batch, n_particles))
        self._keeps_bests = moves.keeps_bests(self.method)
        self._leads = self._keeps_bests  # with repeats: whether the swarm's leader is always the best point
        if self._first is None:
            self._continue(init, earlier)
        elif self._first.n_unknown == 0:  # every value is known already
            self.first_points()
            self.begin(np.empty((*self.batch, 0)))

    def _located(self, what: str, points: Any) -> Any:
        """Points of the user in the swarm's coordinates; anything else unchanged."""
        is_other = points is None or isinstance(points, str | Swarm | OptimizeResult)
        if self.space.is_plain or is_other:
            return points
        return self.space.coordinates(self.space.read(what, points))

    def _continue(self, swarm: Swarm, earlier: Any) -> None:
        """Go on with a swarm, and with the best point of the result that it comes from."""
        is_bounded = self.method.wall.is_bounded
        if earlier is not None and earlier.get("space", self.space) != self.space:
            raise ValueError(f"init is a result of another space: {earlier.space!r}, not {self.space!r}")
        swarm = read_swarm(swarm, self.batch, (self.lower, self.upper), is_bounded=is_bounded)
        swarm = swarm._replace(axes=self.space.axes)
        if self._is_noisy and swarm.repeats is None:
            swarm = swarm._replace(repeats=swarms.measured_once(swarm.best_value))
        swarm = moves.begin(self.method, swarms.with_leader(swarm))
        self.swarm, self.incumbent = swarm, leader_of(swarm)
        if earlier is None or "fun" not in earlier:
            return
        found = reported(earlier)
        if not self.judge.resumes(earlier, self.space, float(self.incumbent.score) if not self.batch else 0.0):
            return
        if not self.space.is_identity:
            found = found._replace(x=self.space.keep(found.x))
        low, high = self.allowed
        is_inside = ((found.x >= low) & (found.x <= high)).all(axis=-1)
        found = found._replace(score=np.where(is_inside, found.score, np.inf))
        best = better_of(
            self.incumbent, found._replace(error=found.error if self.incumbent.error is not None else None)
        )
        if self._keeps_bests and not self.batch and best is not self.incumbent:  # found by polishing
            swarm = swarms.replace_worst(swarm, found.x[None], found.value[None])
        self._leads = self._leads and best is self.incumbent
        self.swarm, self.incumbent = swarm, best

    def points(self, progress: float = 0.0) -> Floats:
        """The points to evaluate next ``(*batch, m, d)``, in the swarm's coordinates; the same until they are told."""
        if self._pending is not None:
            return self._pending
        if self.swarm is None:
            points = self.first_points()
            if points.shape[-2] > 0:
                self._pending = points
                return points
            self.begin(np.empty((*self.batch, 0)))  # known values have filled it
        assert self.swarm is not None
        self._proposal = moves.ask(self.method, self.swarm, self.draw, progress)
        self._pending = self._proposal.position
        count = self.n_again or self._is_to_check(self.swarm)
        if count:  # by their means, not their scores: a low mean of few measurements is the one to check
            self._again = order.ranked(self.swarm.best_value)[..., :count]
            again = np.take_along_axis(self.swarm.best_position, self._again[..., None], axis=-2)
            self._pending = np.concatenate([self._pending, again], axis=-2)
        return self._pending

    def _is_to_check(self, swarm: Swarm) -> bool:
        """Whether the best point is measured again, once, to see whether the objective is noisy."""
        may_notice = not self.batch and not self.judge.n_constraints
        return may_notice and self.method.suspects_noise(swarm)

    def _check(self, before: float, again: float) -> None:
        """What two values of one point say about noise."""
        assert self.swarm is not None
        is_noisy = before != again and not np.isnan(again)
        if is_noisy:
            self._is_noisy, self._share = True, _NOTICED
            self.remark = f"Noise was noticed after {self.nfev} evaluations: {before:.6g} became {again:.6g}."
        self.swarm = self.method.checked_for_noise(self.swarm, is_noisy)

    def first_points(self) -> Floats:
        """The points of the first swarm that are not known yet."""
        assert self._first is not None
        return self._first.points(self.draw.generators, self.batch)

    def begin(self, f: Floats, may_fail: bool = False) -> None:
        """Make the first swarm from its values ``(*batch, m)``."""
        assert self._first is not None
        first = self._first.swarm(f, self.batch, noisy=self._is_noisy, may_fail=may_fail)
        self.swarm = moves.begin(self.method, self.judge.tolerant(first, self.method))
        self.incumbent = leader_of(first)

    def take(
        self, f: Floats, measured: int | None = None, active: NDArray[np.bool_] | None = None, may_fail: bool = False
    ) -> None:
        """The values of the points that were asked for.

        Only the first ``measured`` values are real if the budget ended inside a generation; the others are NaN. Only
        ``active`` runs of a batch move on. With ``may_fail`` a first swarm without a finite value is not an error.
        """
        assert self._pending is not None
        x, before = self._pending, self.swarm
        m = f.shape[-1] if measured is None else measured
        if before is None:  # may raise; then nothing has changed
            self.begin(f, may_fail)
        self._pending = None
        self.nfev += m
        if before is None:
            return
        proposal, swarm, old = self._proposal, before, self.incumbent
        assert proposal is not None
        new = proposal.position.shape[-2]
        evaluated = None if m >= new else np.broadcast_to(np.arange(new) < m, (*self.batch, new))
        check = None
        if f.shape[-1] > new and not self._share:
            check = float(before.best_value[self._again[0]]), float(f[new])
            f = f[:new]
        elif f.shape[-1] > new:  # first what is remembered, so that the new points meet the better estimate
            now = np.take_along_axis(before.best_position, self._again[..., None], axis=-2)
            same = (now == x[..., new:, :]).all(axis=-1)  # one that was replaced meanwhile (`inject`) was not measured
            swarm = self.judge.remeasured(before, self._again, np.where(same, f[..., new:], np.nan))
            if not self._leads:  # the next swarm may have forgotten it
                self.incumbent = with_measurements(old, swarm)
            f = f[..., :new]
        x = x[..., :new, :]
        is_first = before.repeats is None and not self._keeps_bests
        if is_first:  # before a user's code sees the values
            self.improve(x, f)
        if self.judge.is_tolerant:
            proposal = proposal._replace(objective=self.judge.objective(self.snapped(x)))
        after = moves.tell(self.method, swarm, proposal, f, evaluated, self.tol)
        self.swarm = after if active is None else swarms.select(active, after, before)
        if check is not None and m > new:
            self._check(*check)
        if not is_first or self._is_noisy:
            self.improve(x, f)
        self.count_stale(old)
        self.nit += 1

    def improve(self, x: Floats, f: Floats) -> None:
        """The best point after these were evaluated."""
        assert self.swarm is not None
        if self.swarm.repeats is not None:
            answer = self.method.answering(self.swarm)
            if answer is not None or self._leads:
                self.incumbent = leader_of(self.swarm if answer is None else answer)
            else:
                self.incumbent = with_measurements(self.incumbent, self.swarm)
        elif not self._keeps_bests or self.judge.is_tolerant:  # a tolerant swarm may prefer another
            self.incumbent = better_of(self.incumbent, best_of(self.swarm.snapped(x), f))
        else:  # the swarm's leader is the best of all
            is_better = order.is_better(self.swarm.global_value, self.incumbent.value)
            if self.batch:
                self.incumbent = better_of(self.incumbent, leader_of(self.swarm)) if is_better.any() else self.incumbent
            elif is_better:
                self.incumbent = leader_of(self.swarm)

    def count_stale(self, old: Incumbent, generations: int = 1) -> None:
        """Count the generations without improvement: with noise, without another best point."""
        new, stale = self.incumbent, self.stale + generations
        if new is old:
            self.stale = stale
            return
        improved = order.is_better(new.value, old.value) if new.error is None else (new.x != old.x).any(axis=-1)
        self.stale = np.where(improved, 0, stale) if self.batch else 0 if improved else stale

    def take_extra(self, x: Floats, f: Floats, runs: NDArray[np.bool_], measured: int, recalled: int = 0) -> None:
        """The best points after others were evaluated beside the swarms of some runs: ``x`` (k, m, d), ``f`` (k, m)."""
        points = np.zeros((*self.batch, *x.shape[1:]))
        values = np.full(points.shape[:-1], np.inf)
        points[runs], values[runs] = x, f
        assert self.swarm is not None
        self.incumbent = better_of(self.incumbent, best_of(self.swarm.snapped(points), values))
        self.n_recalled += recalled
        if not self.batch:  # otherwise the other runs go on
            self.nfev += measured - recalled

    def note_failures(self, failed: Mapping[int, str], runs: Any) -> None:
        """Count failed points: their kinds by row, and the run of each row."""
        for row, kind in failed.items():
            self.failure_kinds[runs[row]][kind] += 1

    @property
    def n_failed(self) -> NDArray[np.int64]:
        """How many evaluations of each run have failed; a point that was recalled was not evaluated."""
        return np.array([kinds.total() for kinds in self.failure_kinds]).reshape(self.batch)

    def scored(self, x: Floats, answers: Any) -> Any:
        """What points ``(m, d)`` are compared by: their values, or with constraints the score of each row."""
        return self.judge.scores(self.snapped(x), answers)

    def snapped(self, x: Floats) -> Floats:
        """Points with whole numbers and choices as the function sees them."""
        axes = self.space.axes
        return x if axes is None else axes.snapped(x, self.lower, self.upper)

    @property
    def best(self) -> Incumbent:
        """The best point so far, of each run; of a choice the index of the entry."""
        best: Incumbent | None = self.incumbent
        if best is None:
            raise RuntimeError("no best point yet: call ask, evaluate the points, then call tell")
        return best if self.space.is_identity else best._replace(x=self.space.rows(best.x))

    @property
    def shown_value(self) -> Any:
        """The value of the best point of each run; +inf while no point is feasible."""
        return self.judge.shown(self.incumbent.value)

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

    @property
    def allowed(self) -> Box:
        """Where points may lie: without walls the bounds are only where the search begins."""
        if self.method.wall.is_bounded:
            return self.lower, self.upper
        anywhere = np.full(len(self.lower), np.finfo(float).max)
        return -anywhere, anywhere

    def expected_evaluations(self, limits: Limits) -> int | None:
        """The most evaluations of a run; None if unknown, because the method may ask for any number of points."""
        if not (self._keeps_bests or self.method.takes_batches):
            return limits.maxfev
        return limits.evaluations(self.n_to_start, self.n_particles + self.n_again)

    def has_converged(self, tol: float) -> NDArray[np.int64] | None:
        """The `Rule` by which each run has converged; None if none has, or if nothing would end them."""
        assert self.swarm is not None
        if self.local is not None and self.local.found and tol > 0:
            agreed = self.agreement
            return np.asarray(Rule.OWN if agreed is not None and agreed.is_settled else Rule.NONE)
        if moves.decides_its_end(self.method):
            is_done = np.asarray(self.method.has_converged(self.swarm, self.spread, tol))
            return np.where(is_done, Rule.OWN, Rule.NONE)
        return judge_convergence(self.swarm, self.spread, self.stale, tol) if tol > 0 else None

    @property
    def agreement(self) -> Agreement | None:
        """How the independent searches of a run agree; None if its method does not start again."""
        if self.swarm is None:
            return None
        return combined_agreement(self.method, self.swarm, () if self.local is None else self.local.found)

    @property
    def constrained_fields(self) -> dict[str, Any]:
        """What a result says about constraints, if there are any."""
        fields = self.judge.fields(self.incumbent.x, self.incumbent.value)
        return fields | {"local_searches": () if self.local is None else self.local.found}
