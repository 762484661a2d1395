"""The swarm as an object that is asked for points and told their values.

`minimize` and `minimize_many` are loops around it; use it directly when the evaluations happen elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import OptimizeResult

from paoswarm.algorithms.method import Method
from paoswarm.algorithms.pao import PAO
from paoswarm.algorithms.run_by_run import RunByRun
from paoswarm.checks import has_nan, real_number, unmasked
from paoswarm.core import swarm as swarms
from paoswarm.core.arrays import Floats
from paoswarm.core.random import Draw, Seed, generator
from paoswarm.core.swarm import Proposal, Swarm
from paoswarm.optimize import read_input
from paoswarm.optimize.first_swarm import FirstSwarm
from paoswarm.optimize.result import Recorder, Result, current_result
from paoswarm.optimize.stopping import Status

_POINTS = ("position", "velocity", "best_position")  # of a swarm: one row for each particle


class Optimizer:
    """Ask for points, tell their values.

    Parameters
    ----------
    bounds : sequence of (low, high) or scipy.optimize.Bounds
        The box, finite.
    method : Method
        The swarm and its hyperparameters: `PAO`, or `PSO`, `QPSO`, `DE`, `SADE`, or your own.
    n_particles : int
        Size of the swarm; ignored when ``init`` is an array or a swarm, which bring their own.
    x0 : array (d,) or (m, d), optional
        Points to be in the first swarm.
    f0 : array (m,), optional
        Their values: these points are not evaluated again. Of more points than particles the best are taken. Points
        whose value is given as NaN are evaluated.
    init : str, array (n, d) or Swarm
        How the first swarm fills the box: ``latinhypercube``, ``sobol``, ``halton``, ``random``, your own points,
        or a swarm to go on with (``result.swarm``).
    reevaluate : float
        For noisy objectives: the share of the remembered bests, the best ones, that is measured again in each
        generation (0.2 is a good choice). `ask` then returns so many more rows, and best values are running means.
    rng : int, Generator, SeedSequence, None, or a list of them
        Seed. A list makes a batch: independent runs with a leading axis on every array.

    Examples
    --------
    >>> import paoswarm as ps
    >>> optimizer = ps.Optimizer([(-5, 5), (-5, 5)], n_particles=20, rng=1)
    >>> for _ in range(60):
    ...     x = optimizer.ask()  # (20, 2)
    ...     optimizer.tell((x**2).sum(axis=1))
    >>> bool(optimizer.result.fun < 1e-6)
    True
    """

    def __init__(
        self,
        bounds: Any,
        *,
        method: Method | None = None,
        n_particles: int = 100,
        x0: ArrayLike | None = None,
        f0: ArrayLike | None = None,
        init: Any = "latinhypercube",
        reevaluate: float = 0.0,
        rng: Seed | Sequence[Seed] = None,
    ) -> None:
        self.method = PAO() if method is None else method
        if not isinstance(self.method, Method):
            raise TypeError(f"method must be a paoswarm method such as PAO(), got {method!r}")
        self.lower, self.upper = read_input.read_bounds(bounds)
        seeds = [rng] if rng is None or not isinstance(rng, Sequence) else list(rng)
        self.batch: tuple[int, ...] = (len(seeds),) if isinstance(rng, Sequence) else ()
        is_told_apart = self.batch and not self.method.takes_batches
        self._moved_by = RunByRun(self.method) if is_told_apart else self.method
        self._draw = Draw([generator(seed) for seed in seeds], self.batch)
        self.nit = 0
        self._progress = 0.0
        self.nfev = 0  # of every run that is still going
        self.n_failed: Any = np.zeros(self.batch, dtype=np.int64)
        self.swarm: Swarm | None = None
        self._recorder = Recorder(store_swarms=False)
        self._pending: Floats | None = None  # what was asked for and is not told yet
        self._proposal: Proposal | None = None
        self._again: Any = None  # indices of the bests that are measured again
        self._asked_again: Floats = np.empty(0)  # where they were
        share = real_number("reevaluate", reevaluate, 0.0, may_equal=True)
        if share > 1:
            raise ValueError(f"reevaluate is a share of the swarm between 0 and 1, got {reevaluate!r}")
        polished: Any = None
        if isinstance(init, OptimizeResult) and "swarm" in init:
            polished, init = init, init.swarm
        self._first: FirstSwarm | None = None
        if isinstance(init, Swarm):
            if x0 is not None or f0 is not None:
                raise ValueError("x0 and f0 do not go with init=swarm; use Optimizer.inject to add points to a swarm")
            self.swarm = self._adopt(init, noisy=share > 0)
            if polished is not None and not self.batch and polished.fun < init.global_value:  # what polishing found
                self.swarm = swarms.replace_worst(self.swarm, np.asarray([polished.x]), np.asarray([polished.fun]))
            self.n_particles = init.n_particles
        else:
            self._first = FirstSwarm((self.lower, self.upper), n_particles, x0, f0, init, self._allowed)
            self.n_particles = self._first.n_particles
        self.n_again = max(1, round(share * self.n_particles)) if share > 0 else 0  # bests measured again
        self.method.check_swarm((*self.batch, self.n_particles))
        if self._first is not None and self._first.n_unknown == 0:  # every value is known already
            self._first.points(self._draw.generators, self.batch)
            first = self._first.swarm(np.empty((*self.batch, 0)), self.batch, noisy=self.n_again > 0)
            self.swarm = self._moved_by.begin(first)

    def _adopt(self, swarm: Swarm, noisy: bool) -> Swarm:
        shape = (*self.batch, swarm.n_particles, len(self.lower))
        if swarm.position.shape != shape:
            raise ValueError(f"init is a swarm of shape {swarm.position.shape}, but this problem needs {shape}")
        for name in ("position", "best_position", "velocity", "value", "best_value", "age"):
            array, expected = getattr(swarm, name), shape if name in _POINTS else shape[:-1]
            if np.asarray(array).dtype.kind not in "fiu":
                raise TypeError(f"init is a swarm whose {name} is no array of real numbers, got {array!r}")
            if np.shape(array) != expected:
                raise ValueError(f"init is a swarm whose {name} has shape {np.shape(array)}, not {expected}")
            if name == "best_value" and np.isnan(array).any():
                raise ValueError("init is a swarm with a best_value that is NaN: a best that failed is +inf")
            if name in _POINTS and not np.isfinite(array).all():
                raise ValueError(f"init is a swarm whose {name} is NaN or infinite")
        for name in ("position", "best_position"):
            array = getattr(swarm, name)
            if self.method.wall.is_bounded and ((array < self.lower) | (array > self.upper)).any():
                raise ValueError(f"init is a swarm whose {name} lies outside the bounds")
        n = swarm.n_particles
        if noisy and swarm.repeats is None:
            swarm = swarm._replace(repeats=swarms.measured_once(swarm.best_value))
        boxed = swarm._replace(lower=np.tile(self.lower, (n, 1)), upper=np.tile(self.upper, (n, 1)))
        return self._moved_by.begin(swarms.with_leader(boxed))

    def ask(self, progress: float = 0.0) -> Floats:
        """The points to evaluate next, ``(*batch, m, d)``; the same ones until they are told.

        Schedules of hyperparameters need to know how far the run is: pass ``progress`` in [0, 1] if there are any.
        """
        if not 0 <= progress <= 1:
            raise ValueError(f"progress is the share of the run that is over, between 0 and 1, got {progress!r}")
        return self.points(progress).copy()

    def points(self, progress: float = 0.0) -> Floats:
        """`ask` without the copy, for drivers."""
        self._progress = progress
        if self._pending is None:
            if self.swarm is None:
                assert self._first is not None
                self._pending = self._first.points(self._draw.generators, self.batch)
                if self._pending.shape[-2] == 0:  # known values have filled it
                    try:
                        self.take(np.empty((*self.batch, 0)))
                    except ValueError:
                        self._pending = None  # others may be injected
                        raise
                    return self.points(progress)
            else:
                self._pending = self._next_points(progress)
        return self._pending

    def tell(self, values: ArrayLike) -> None:
        """The objective at the points of the last `ask`, in its order; NaN where it failed."""
        if self._pending is None:
            raise RuntimeError("tell needs the values of points that were asked for: call ask first")
        f = np.asarray(unmasked(values))
        if f.dtype.kind not in "fiub":
            raise TypeError(f"tell needs real numbers, got {f.dtype}")
        asked = self._pending.shape[:-1]
        if f.shape != asked:
            raise ValueError(f"tell needs values of shape {asked}, one for each point asked for, got {f.shape}")
        self.take(f.astype(float))
        if not self.batch:
            assert self.swarm is not None
            self._recorder.record(self.swarm, float(self.spread), self.nfev)

    def take(self, f: Floats, measured: int | None = None, active: NDArray[np.bool_] | None = None) -> None:
        """`tell` without questions, for drivers.

        Only the first ``measured`` values are real when the budget ended inside a generation; the others' particles
        stay. Only ``active`` runs of a batch move on.
        """
        assert self._pending is not None
        n = self.n_particles
        m = f.shape[-1] if measured is None else measured
        before = self.swarm
        first: Swarm | None = None
        if before is None:  # may raise; then nothing has changed
            assert self._first is not None
            first = self._first.swarm(f, self.batch, noisy=self.n_again > 0)
        self.nfev += m
        if has_nan(f):
            failed = np.isnan(f[..., :m])
            self.n_failed = self.n_failed + failed.sum(axis=-1) * (1 if active is None else active)
        self._pending = None
        if before is None:
            assert first is not None
            self.swarm = self._moved_by.begin(first)
            return
        assert self._proposal is not None
        evaluated = None if m >= n else np.broadcast_to(np.arange(n) < m, (*self.batch, n))
        again = before
        if m > n:  # first what is remembered, so that the new points meet the better estimate
            index = self._again[..., : m - n]
            now = np.take_along_axis(before.best_position, index[..., None], axis=-2)
            asked = self._asked_again[..., : m - n, :]
            same = (now == asked).all(axis=-1)  # a best that was replaced meanwhile (inject) was not measured
            with np.errstate(over="ignore"):  # values beyond 1e150 have infinite squares
                again = swarms.remeasure(before, index, np.where(same, f[..., n:m], np.nan))
        after = self._moved_by.tell(again, self._proposal, f[..., :n], evaluated)
        self.swarm = after if active is None else swarms.select(active, after, before)
        self.nit += 1

    def begin_unevaluated(self) -> int:
        """For drivers that tell one value at a time: the first swarm before its values are known, which count as +inf.

        Returns how many are unknown, those of the last particles; zero for a run that is continued.
        """
        unknown = self.n_to_start
        if self.swarm is None:
            assert self._first is not None
            self._first.points(self._draw.generators, self.batch)
            first = self._first.swarm(np.full(unknown, np.inf), self.batch, noisy=self.n_again > 0, may_fail=True)
            self.swarm = self._moved_by.begin(first)
        return unknown

    def propose(self, progress: float) -> Proposal:
        """Where all particles would go now; for drivers that move them one at a time."""
        assert self.swarm is not None
        self._progress = progress
        return self._moved_by.propose(self.swarm, self._draw, progress)

    def adopt(self, swarm: Swarm, failed: bool) -> None:
        """The swarm after one more evaluation, of such drivers."""
        self.swarm = swarm
        self.nfev += 1
        self.n_failed = self.n_failed + failed

    def inject(self, x: ArrayLike, f: ArrayLike) -> None:
        """Points evaluated elsewhere, with their values.

        Before the first swarm they are part of it. Later each one takes the place of a worst remembered best, if it
        is better. They are not counted in ``nfev``.
        """
        points = read_input.read_points("x", x, self._allowed)
        values = read_input.read_values("f", f, len(points))
        if self.swarm is None:
            if self._pending is not None:
                raise RuntimeError("the first swarm has been asked for: tell its values before injecting points")
            assert self._first is not None
            self._first.add(points, values)
            return
        order = np.argsort(values, kind="stable")[: self.n_particles]
        self.swarm = swarms.replace_worst(self.swarm, points[order], values[order])

    @property
    def _allowed(self) -> read_input.Box:
        """Where points may lie: without walls the box is only where the search begins."""
        if self.method.wall.is_bounded:
            return self.lower, self.upper
        anywhere = np.full(len(self.lower), np.finfo(float).max)
        return -anywhere, anywhere

    @property
    def spread(self) -> Floats:
        """Root mean square distance of the particles from the best, in widths of the box; of each run."""
        assert self.swarm is not None
        with np.errstate(under="ignore"):
            return swarms.spread(self.swarm, self.method.wall.unroll)

    @property
    def n_to_start(self) -> int:
        """How many points the first swarm still needs evaluated."""
        return 0 if self.swarm is not None or self._first is None else self._first.n_unknown

    @property
    def knows_a_value(self) -> bool:
        """Whether a finite value was brought along."""
        return self.swarm is not None or (self._first is not None and self._first.has_value)

    @property
    def result(self) -> Result:
        """The best so far, as `minimize` returns it."""
        if self.swarm is None:
            raise RuntimeError("there is no result before the first swarm has been told")
        return current_result(self, Status.RUNNING, self._progress, history=self._recorder.history())

    def _next_points(self, progress: float) -> Floats:
        assert self.swarm is not None
        with np.errstate(under="ignore"):  # a swarm that collapses gets there, whatever the user has set
            self._proposal = self._moved_by.propose(self.swarm, self._draw, progress)
        if not self.n_again:
            return self._proposal.position
        order = np.argsort(self.swarm.best_value, axis=-1, kind="stable")
        self._again = order[..., : self.n_again]
        self._asked_again = np.take_along_axis(self.swarm.best_position, self._again[..., None], axis=-2)
        return np.concatenate([self._proposal.position, self._asked_again], axis=-2)
