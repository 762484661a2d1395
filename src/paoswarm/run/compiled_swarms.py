"""Single swarms on a compiled engine: their generations, what a store keeps of them, and what they have found."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any, NamedTuple

import numpy as np

from paoswarm.core.arrays import Floats
from paoswarm.core.swarm import Swarm
from paoswarm.engines.counter import Words
from paoswarm.engines.engines import CompiledEngine
from paoswarm.engines.program import Program, State, empty_state
from paoswarm.evaluate.calls import NAN
from paoswarm.methods.schedules import is_constant
from paoswarm.run.beside import cost, is_worth_it, look
from paoswarm.run.call import Call
from paoswarm.run.compiled_runs import CompiledRuns
from paoswarm.run.many_result import Found
from paoswarm.run.stopping import Limits, Rule, Status
from paoswarm.store.identity import OtherRun
from paoswarm.store.journal import Journal
from paoswarm.store.states import Arrays

_CALL = 0.2  # seconds that a call of the engine may take: an interrupt waits so long
_SECONDS = 5.0  # between two records in a store, at least
_SHARE = 0.05  # of the time that may be spent on them
_CHECKED = 8  # points of the first swarm by which a changed function is recognised


class WhereRunsStand(NamedTuple):
    """Where runs stand after a generation."""

    generation: int
    state: State
    columns: list[Floats]  # their best values after every generation: parts (runs, k) of the history


class SwarmsOnEngine(CompiledRuns):
    """Single swarms, one for each run, in one state that the engine moves; it may be kept in a store."""

    def __init__(
        self,
        engine: CompiledEngine,
        program: Program,
        call: Call,
        limits: Limits,
        keys: Words,
        given: Floats | None,
        journal: Journal | None,
    ) -> None:
        super().__init__(limits)
        self.engine, self._program, self._call, self._keys, self._given = engine, program, call, keys, given
        self._states = None if journal is None else StoredStates(journal, engine, program, call)
        self._standing: WhereRunsStand | None = None
        self._count = engine.at_once  # generations of the next call

    @property
    def is_over(self) -> bool:
        """Whether all runs have ended."""
        return self._standing is not None and (
            self._standing.generation >= self._program.generations or self._standing.state.is_over
        )

    def advance(self) -> None:
        """Make the first swarms, or move all runs in a call of a fraction of a second."""
        if self._standing is None:
            self._begin()
            return
        done, state, columns = self._standing
        few, last = self.engine.at_once, self._program.generations
        complete = last if self._states is None else self._states.last_complete
        count = min(self._count, (complete if done < complete else last) - done, self.engine.longest)
        began = time.monotonic()
        state, history = self.engine.advance(state, self._keys, done + 1, count)
        self._standing = WhereRunsStand(done + count, state, [*columns, np.asarray(history, dtype=float)])
        seconds = time.monotonic() - began
        count = max(1, min(2 * count, int(count * _CALL / max(seconds, 1e-9))))
        self._count = count // few * few or count
        self.is_new = True
        if self._states is not None:
            self._states.keep(self._standing, is_last=self._standing.generation == complete)

    def _begin(self) -> None:
        """The first swarms of all runs, evaluated, or where the runs stand in the store."""
        self._standing = None if self._states is None else self._states.restore(len(self._keys))
        if self._standing is not None:
            self.came_from = self._standing.generation
            return
        keys, given = self._keys, self._given
        if given is None or given.ndim == 2:
            state = self.engine.begin(keys, given)
        else:  # points of their own for each run
            alone = [self.engine.begin(keys[r : r + 1], given[r]) for r in range(len(keys))]
            state = alone[0]  # of one run, it may be on a device
            if len(alone) > 1:
                parts = zip(*alone, strict=True)
                state = State(*(np.concatenate([np.asarray(part) for part in one]) for one in parts))
        if (np.asarray(state.status) == Status.FAILED).all():
            raise self.explain_total_failure()
        first = np.array(state.leader_value, dtype=float)[:, None]  # a copy: engines may change the arrays of a state
        self._standing = WhereRunsStand(0, state, [first])
        self.is_new = True
        if self._states is not None:
            self._states.begin(state)

    def evaluate(self, points: Floats) -> Floats:
        """The compiled objective at points ``(m, d)``."""
        return self.engine.evaluate(points)

    def close(self) -> None:
        """Raise if no run has begun."""
        if self._standing is None:
            raise KeyboardInterrupt

    def keep(self) -> None:
        """Record where the runs stand, whatever has ended them."""
        if self._states is not None and self._standing is not None:
            self._states.keep(self._standing, is_last=True)

    def so_far(self) -> list[Found]:
        """What a callback gets to see of all runs, in copies: engines may change the arrays of a state."""
        assert self._standing is not None
        state = State(*map(np.array, self._standing.state))
        swarm = self._swarm(state)
        x = self._call.space.rows(swarm.global_best[:, 0, :])
        return [Found(x, swarm.global_value, state.nit, state.nfev, state.n_failed, swarm)]

    def found(self) -> list[Found]:
        """All runs where they stand; of those that have converged, whether they are at a minimum."""
        assert self._standing is not None
        _, state, columns = self._standing
        status, nfev, n_failed = np.array(state.status), np.array(state.nfev), np.array(state.n_failed)
        if self.stopped is not None:
            status[status == Status.RUNNING] = self.stopped
        spent = self.limits.maxfev is not None and nfev >= self.limits.maxfev
        status[status == Status.RUNNING] = Status.MAXITER
        status[(status == Status.MAXITER) & spent] = Status.MAXFEV
        leader = np.argmin(np.asarray(state.best_value), axis=-1)
        x: Any = np.take_along_axis(np.asarray(state.best), leader[:, None, None], axis=1)[:, 0, :].astype(float)
        fun = np.array(state.leader_value, dtype=float)
        if np.asarray(state.x).dtype == float:  # rounding would look like a better point
            self._look_around(x, fun, status, nfev, n_failed, np.asarray(state.rule))
        else:  # what was found in single precision is evaluated again
            fun = np.where(fun < np.inf, self.engine.evaluate(x), fun)
        found = Found(
            x=self._call.space.rows(x),
            fun=fun,
            nit=np.array(state.nit),
            nfev=nfev,
            n_failed=n_failed,
            swarm=self._swarm(state),
            status=status,
            rule=np.asarray(state.rule),
            failure_kinds=[Counter({NAN: count}) if count else Counter() for count in n_failed.tolist()],
            best=np.concatenate(columns, axis=1)[:, : int(np.max(state.nit)) + 1],
        )
        return [found]

    def _look_around(self, x: Any, fun: Any, status: Any, nfev: Any, n_failed: Any, rule: Any) -> None:
        """Look whether runs that have converged are at a minimum; all but ``rule`` is changed in place."""
        space, limits, d = self._call.space, self.limits, x.shape[-1]
        runs = (status == Status.CONVERGED) & is_worth_it(rule, limits.tol)
        if limits.maxfev is not None:
            runs &= limits.maxfev - nfev >= cost(d)
        if not runs.any():
            return
        far = 0.0 if self._call.method.wall.is_bounded else np.inf
        looking = look(x[runs], fun[runs], space.upper - space.lower, (space.lower - far, space.upper + far))
        points: Any = next(looking)
        while True:
            values = self.engine.evaluate(points.reshape(-1, d)).reshape(points.shape[:-1])
            nfev[runs] += values.shape[-1]
            n_failed[runs] += np.isnan(values).sum(axis=-1)
            known = np.where(np.isnan(values), np.inf, values)
            winner, lowest = known.argmin(axis=-1), known.min(axis=-1)
            is_better = lowest < fun[runs]
            best = np.take_along_axis(points, winner[:, None, None], axis=1)[:, 0, :]
            x[runs], fun[runs] = np.where(is_better[:, None], best, x[runs]), np.where(is_better, lowest, fun[runs])
            try:
                points = looking.send(values)
            except StopIteration as seen:
                status[runs] = np.where(seen.value, Status.STALLED, Status.CONVERGED)
                return

    def _swarm(self, state: State) -> Swarm:
        """All swarms as the rest of the library knows them; what particles share is there once, in views."""
        position, velocity, value, best, best_value, age = (
            np.asarray(part, dtype=float)
            for part in (state.x, state.v, state.value, state.best, state.best_value, state.age)
        )
        leader = np.take_along_axis(best, np.argmin(best_value, axis=-1)[:, None, None], axis=1)
        return Swarm(
            position=position,
            velocity=velocity,
            value=value,
            best_position=best,
            best_value=best_value,
            age=age,
            repeats=None,
            global_best=np.broadcast_to(leader, best.shape),
            global_value=best_value.min(axis=-1),
            lower=np.broadcast_to(self._program.lower, best.shape[1:]),
            upper=np.broadcast_to(self._program.upper, best.shape[1:]),
        )


class StoredStates:
    """Records where runs on an engine stand, and how they go on from it."""

    def __init__(self, journal: Journal, engine: CompiledEngine, program: Program, call: Call) -> None:
        self._journal, self._engine, self._program, self._space = journal, engine, program, call.space
        self._dtype = np.float32 if getattr(call.engine, "precision", "double") == "single" else np.float64
        self._generation = -1  # that was recorded last
        self._due = time.monotonic() + _SECONDS

    def restore(self, runs: int) -> WhereRunsStand | None:
        """Where the recorded runs stand; None if nothing is recorded yet.

        Raises `OtherRun` if the function has changed, or if these limits lead to other runs.
        """
        self._journal.confirm(self._measure)
        saved = self._journal.restore(self._shapes(runs), self._check)
        if saved is None:
            return None
        state = State(**saved.arrays)
        self._check_limits(int(np.max(state.nit)))
        self._generation = saved.generation
        return WhereRunsStand(saved.generation, state, [saved.history])

    def begin(self, state: State) -> None:
        """Record some points of the first swarm, unless it has been done."""
        if not self._journal.resumed:
            self._record(np.asarray(state.x[0], dtype=float)[:_CHECKED])

    @property
    def last_complete(self) -> int:
        """The last generation in which all particles move. The one after it would be another with larger limits."""
        p = self._program
        return p.generations if p.n_moved(p.generations) == p.n_particles else p.generations - 1

    def keep(self, standing: WhereRunsStand, *, is_last: bool) -> None:
        """Record where runs stand, if there was no record for some seconds, or if this is the last occasion."""
        is_new = self._generation < standing.generation <= self.last_complete
        if not is_new or not (is_last or time.monotonic() >= self._due):
            return
        began = time.monotonic()
        arrays = {name: np.asarray(array) for name, array in standing.state._asdict().items()}
        run = int(np.argmin(arrays["leader_value"]))
        self._record(arrays["best"][run, [int(np.argmin(arrays["best_value"][run]))]].astype(float))
        standing.columns[:] = [np.concatenate(standing.columns, axis=1)]
        counts = int(arrays["nfev"].sum()), int(arrays["n_failed"].sum())
        self._journal.save(standing.generation, arrays, standing.columns[0], *counts)
        self._generation = standing.generation
        now = time.monotonic()
        self._due = now + max(_SECONDS, (now - began) / _SHARE)

    def _record(self, points: Floats) -> None:
        self._journal.record_points(self._space.rows(points), self._engine.evaluate(points))

    def _measure(self, points: Floats) -> list[float | str | None]:
        """Values for the comparison with recorded ones."""
        values = self._engine.evaluate(self._space.coordinates(points)).tolist()
        return ["returned NaN" if value != value else value for value in values]

    def _shapes(self, runs: int) -> dict[str, tuple[int, ...]]:
        """The shapes of the arrays of a state."""
        n, d = self._program.n_particles, self._program.n_dimensions
        shapes: dict[str, tuple[int, ...]] = {"x": (runs, n, d), "v": (runs, n, d), "best": (runs, n, d)}
        shapes |= dict.fromkeys(("value", "best_value", "age"), (runs, n))
        return {name: shapes.get(name, (runs,)) for name in State._fields}

    def _check(self, arrays: Arrays) -> None:
        """Raise a ValueError if arrays of the right shapes are not those of these runs."""
        wanted, found = empty_state(self._program, 0, self._dtype), State(**arrays)
        for name, array in arrays.items():
            kind = getattr(wanted, name).dtype
            is_like_it = array.dtype.kind == kind.kind and array.dtype != np.float32  # values may be more precise
            if array.dtype != kind and not is_like_it:
                raise ValueError(f"{name} has the type {array.dtype}")
        if not (np.isin(found.status, list(Status)).all() and np.isin(found.rule, list(Rule)).all()):
            raise ValueError("a run has ended for no known reason")
        if min(array.min() for array in (found.stale, found.nit, found.nfev, found.n_failed)) < 0:
            raise ValueError("a count is negative")
        if np.isnan(found.best_value).any():
            raise ValueError("a best value is NaN")

    def _check_limits(self, nit: int) -> None:
        """Raise if the recorded runs are longer than these limits allow, or if schedules depend on other limits."""
        path, recorded = self._journal.path, self._journal.limits
        if nit > self.last_complete:
            raise OtherRun(
                f"{path} holds {nit} generations, and these limits allow {self.last_complete}. Runs on a compiled "
                "engine cannot go back: give larger limits, or choose another store"
            )
        now = self._journal.limits_of_call
        changed = [name for name in ("maxiter", "maxfev", "polish") if recorded.get(name) != now.get(name)]
        is_scheduled = not all(map(is_constant, self._program.method.hyperparameters))
        if changed and is_scheduled:
            name = changed[0]
            raise OtherRun(
                f"{path} holds runs with {name}={recorded.get(name)}, but this call has {name}={now.get(name)}: the "
                "method has schedules that depend on it, so these are other runs. Choose another store"
            )
