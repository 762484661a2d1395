"""The swarm as an object that is asked for points and told their values.

`minimize` and `minimize_many` are loops around it; use it directly when the evaluations happen elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from paoswarm._checks import FOR_RESIDUALS, explains_keywords, unmasked
from paoswarm.core import order
from paoswarm.core import swarm as swarms
from paoswarm.core.arrays import Floats
from paoswarm.core.blas import on_one_thread
from paoswarm.core.random import Seed
from paoswarm.evaluate.calls import NAN, Failed
from paoswarm.evaluate.failures import FailureLog
from paoswarm.methods.method import Method
from paoswarm.run.judge import FeasibleFirst
from paoswarm.run.many_result import Found, make_result
from paoswarm.run.observers import Recorder
from paoswarm.run.read_input import (
    check_share,
    read_method,
    read_points,
    read_space,
    read_start,
    read_values,
    trial_constraints,
)
from paoswarm.run.result import Result
from paoswarm.run.run import Ends
from paoswarm.run.run_state import RunState
from paoswarm.run.stopping import NO_LIMITS, Rule, Status

# Arguments of `minimize` that say how its loop ends or evaluates.
_OF_MINIMIZE = (
    *("maxiter", "maxfev", "target", "tol", "time_limit", "vectorized", "workers", "timeout", "retries"),
    *("args", "asynchronous", "callback", "progress", "polish", "store"),
)


class Optimizer(RunState):
    """Ask for points, tell their values.

    Parameters
    ----------
    bounds : sequence of (low, high), scipy.optimize.Bounds, or variables in a sequence or by name
        The unknowns, as in `minimize`. With names `ask` returns a list of dicts.
    method : Method, str or None
        None: `AdaptivePAO` or `MixedPAO`, as in `minimize`; with ``init=result`` the method of that result. Or `PAO`,
        `PSO`, `QPSO`, `DE`, `SADE`, your own. A name such as "DE" stands for a method with its default hyperparameters.
    n_particles : int or None
        Size of the first swarm. None: what the method says. Ignored if ``init`` is an array or a swarm,
        which bring their own.
    x0 : array (d,) or (m, d), or a pair (points, values), optional
        Points to be in the first swarm. Those whose values ``(m,)`` are given, and not NaN, are not evaluated again. If
        there are more of them than particles, the best are taken.
    init : str, array (n, d) or Swarm
        How the first swarm fills the bounds: ``latinhypercube``, ``sobol``, ``halton``, ``random``, your own points,
        or a swarm to go on with (``result.swarm``).
    reevaluate : float
        For noisy objectives: the share of the remembered bests, the best ones, that is measured again in each
        generation (0.2 is a good choice). `ask` then returns that many more rows, and best values are running means.
        With 0, the default method notices noise by itself, see `minimize`.
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
        method: Method | str | None = None,
        n_particles: int | None = None,
        x0: Any = None,
        init: Any = "latinhypercube",
        reevaluate: float = 0.0,
        constraints: Any = None,
        rng: Seed | Sequence[Seed] = None,
    ) -> None:
        space = read_space(bounds)
        limited = trial_constraints(constraints, space)
        points, values = read_start(x0)
        super().__init__(
            space,
            read_method(method, init, space, plain=limited is None and not check_share(reevaluate)),
            n_particles=n_particles,
            x0=points,
            f0=values,
            init=init,
            reevaluate=reevaluate,
            constraints=limited,
            rng=rng,
        )
        self._progress = 0.0
        self._recorder = Recorder(only_best=bool(self.batch))
        self._log = FailureLog()

    @on_one_thread
    def ask(self, progress: float = 0.0) -> Any:
        """The points to evaluate next, ``(*batch, m, d)``; the same ones until they are told.

        If the variables have names, a list of dicts instead.

        Schedules of hyperparameters depend on how far the run is: pass ``progress`` in [0, 1] if there are any.
        """
        if not 0 <= progress <= 1:
            raise ValueError(f"progress is the share of the run that is over, between 0 and 1, got {progress!r}")
        self._progress = progress
        points = self.points(progress)
        return points.copy() if self.space.is_plain else self.space.nested(self.space.rows(points).copy())

    @on_one_thread
    def tell(self, values: ArrayLike, constr: ArrayLike | None = None) -> None:
        """The objective at the points of the last `ask`, in its order; NaN where it failed. -inf has failed, too.

        With constraints, ``constr`` (m, k) are their numbers. They can be left out if all constraints are functions of
        the point. Values of points that violate one of them do not matter; give +inf if you did not evaluate them.
        """
        if self._pending is None:
            raise RuntimeError("tell needs the values of points that were asked for: call ask first")
        try:
            f = np.asarray(unmasked(values))
        except ValueError:  # rows of different lengths
            f = np.asarray(values, dtype=object)
        if f.dtype.kind not in "fiub":
            raise TypeError(f"tell needs real numbers, got {f.dtype}")
        shape = self._pending.shape[:-1]
        if f.shape != shape:
            more = f"; {FOR_RESIDUALS}" if f.ndim > 1 else ""
            raise ValueError(f"tell needs values of shape {shape}, one for each point asked for, got {f.shape}{more}")
        f = np.where(f == -np.inf, np.nan, f.astype(float))
        if self.judge.n_constraints:
            f = self.scored(self._pending, np.column_stack([f, self._told(constr, len(f))]))
        elif constr is not None:
            raise ValueError("constr needs the constraints to be known: Optimizer(bounds, constraints=...)")
        failed, asked = np.isnan(f), self._pending
        self.take(f)
        if failed.any():
            for kinds, count in zip(self.failure_kinds, np.atleast_1d(failed.sum(axis=-1)).tolist(), strict=True):
                kinds[NAN] += count
            points = self.space.rows(asked.reshape(-1, len(self.lower)))
            for point in points[failed.reshape(-1)]:
                self._log.add(point, Failed(NAN))
        self._recorder.record(self)

    def _told(self, constr: Any, m: int) -> Floats:
        """The numbers of the constraints at the points that were asked for, ``(m, k)``."""
        assert isinstance(self.judge, FeasibleFirst)
        assert self._pending is not None
        constraints = self.judge.constraints
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
        points = read_points("x", self._located("x", x), self.allowed)
        values = read_values("f", f, len(points))
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
        self.improve(np.broadcast_to(points, (*shape, points.shape[-1])), np.broadcast_to(values, shape))
        self.count_stale(old, generations=0)

    @property
    def result(self) -> Result:
        """The best so far, as `minimize` returns it."""
        if self.swarm is None:
            raise RuntimeError("no result yet: call ask, evaluate the points, then call tell")
        if self.batch:
            raise ValueError("this Optimizer holds several runs: use optimizer.best or optimizer.swarm")
        status, nit, nfev, rule = (np.asarray(int(n)) for n in (Status.RUNNING, self.nit, self.nfev, Rule.NONE))
        many, _ = make_result(
            [Found.of(self, self._recorder, Ends(status, nit, nfev, rule))],
            space=self.space,
            method=self.method,
            limits=NO_LIMITS,
            engine="numpy",
            seeds=[],
            failures=self._log.first,
        )
        many["histories"], many["progress"] = [self._recorder.history()], [self._progress]
        return many.run(0)
