"""The swarm as an object that is asked for points and told their values.

`minimize` and `minimize_many` are loops around it; use it directly when the evaluations happen elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import OptimizeResult

from paoswarm._checks import explains_keywords, unmasked
from paoswarm.algorithms.method import Method
from paoswarm.algorithms.mover import Mover
from paoswarm.core import order
from paoswarm.core import swarm as swarms
from paoswarm.core.arrays import Floats
from paoswarm.core.random import Seed
from paoswarm.core.swarm import Swarm
from paoswarm.evaluation.constraints import ConstraintSet
from paoswarm.optimize import read_input
from paoswarm.optimize.feasibility import Feasibility
from paoswarm.optimize.first_swarm import FirstSwarm
from paoswarm.optimize.history import Recorder
from paoswarm.optimize.judged_course import JudgedCourse
from paoswarm.optimize.local_searches import LocalSearches
from paoswarm.optimize.read_problem import trial_constraints
from paoswarm.optimize.read_space import read_space
from paoswarm.optimize.result import Result
from paoswarm.optimize.stopping import Status
from paoswarm.optimize.swarm_size import choose_size

# Arguments of `minimize` that say how its loop ends or evaluates.
_OF_MINIMIZE = (
    *("maxiter", "maxfev", "target", "tol", "stagnation", "time_limit", "vectorized", "workers", "timeout", "retries"),
    *("args", "asynchronous", "callback", "progress", "polish", "store_swarms", "store"),
)


class Optimizer(JudgedCourse):
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
        space = read_space(bounds, integrality)
        super().__init__(space, read_input.read_method(method, init, space), reevaluate, rng)
        if not self.space.is_identity and not self.method.wall.is_bounded:
            raise ValueError("walls='none' goes with plain bounds only: other variables end at theirs")
        x0, init = self._located("x0", x0), self._located("init", init)
        self._progress = 0.0
        self.feasibility = self._read_constraints(constraints, f0, init)
        self._recorder = Recorder(store_swarms=False, is_constrained=self.feasibility is not None)
        if self.feasibility is not None and self.method.searches_locally and not self._is_noisy:
            self.local = LocalSearches(self.feasibility, self.lower, self.upper, self.space.axes)
        earlier: Any = None
        if isinstance(init, OptimizeResult) and "swarm" in init:
            earlier, init = init, init.swarm
            if not self.batch and np.ndim(earlier.get("fun", 0.0)):
                raise ValueError("init holds several runs; to continue one of them, give init=many.run(r)")
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

    @property
    def result(self) -> Result:
        """The best so far, as `minimize` returns it."""
        if self.swarm is None:
            raise RuntimeError("no result yet: call ask, evaluate the points, then call tell")
        return self.result_with(
            Status.RUNNING, Status.RUNNING.message, self._progress, history=self._recorder.history()
        )
