"""The JAX engine: any device that JAX knows, with an objective that it can trace.

The kernels of the core follow the array API standard, so they are traced as they are: the step, the walls and the
record of bests are the same code as with NumPy. This file adds random numbers, ends of runs and the loop.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from paoswarm.algorithms.coefficients import Coefficients
from paoswarm.algorithms.pao_step import Step
from paoswarm.compiled import counter, jax_noise
from paoswarm.compiled.program import (
    BY_PATIENCE,
    BY_SPREAD,
    BY_VALUES,
    CONVERGED,
    FAILED,
    RUNNING,
    STAGNATED,
    TARGET,
    Program,
)
from paoswarm.compiled.state import State
from paoswarm.core import swarm as swarms
from paoswarm.core.arrays import Floats
from paoswarm.core.swarm import Swarm

_LONGEST = 128  # generations in one call; the best values of so many are kept on the device


class Runs(NamedTuple):
    """All runs on the device."""

    swarm: Swarm
    stale: Any
    nit: Any
    n_failed: Any
    status: Any
    rule: Any


class _NoSource:
    """What attractors that are not random draw from."""


class JaxEngine:
    """Runs of a program with JAX.

    Parameters
    ----------
    program : Program
    fun : callable
        ``fun(x) -> scalar`` for a point ``x`` (d,), written with `jax.numpy`.
    precision : {"single", "double"}
        Of everything, the objective included. Global settings of JAX stay as they are.
    """

    longest = _LONGEST

    def __init__(self, program: Program, fun: Callable[..., Any], precision: str = "single") -> None:
        self._program = program
        self._precision = precision
        self._dtype = np.dtype(np.float64 if precision == "double" else np.float32)
        method = program.method
        self._step = Step(method.hyperparameters, method.attractors, method.noise_scale, method.wall)
        self._fun = fun
        last = min(program.generations, 2**31 - 1)
        self._last, self._in_last = last, program.n_moved(last) if last < 2**31 - 1 else program.n_particles
        self._begin = jax.jit(self._begun)
        self._advance = jax.jit(self._advanced, donate_argnums=0)
        self._evaluate = evaluator(fun)
        self._check()

    def begin(self, keys: counter.Words, given: Floats | None = None) -> State:
        """The first swarms of runs with these keys, evaluated; ``given`` points (n, d) replace the design."""
        with self._exact:
            points = None if given is None else jnp.asarray(given, dtype=self._dtype)
            return self._counted(self._begin(jnp.asarray(keys), points))

    def advance(self, state: State, keys: counter.Words, generation: int, count: int) -> tuple[State, Floats]:
        """Move on by ``count`` generations, the first of which has this number, or until runs end.

        Return where the runs stand and their best values after every generation ``(runs, count)``. The arrays of
        ``state`` are used up.
        """
        with self._exact:
            state, history = self._advance(state._replace(nfev=None), jnp.asarray(keys), generation, count)
            return self._counted(state), np.asarray(history, dtype=float)[:, :count]

    def _counted(self, state: State) -> State:
        """The state with the evaluations of each run, which may be too many for the whole numbers of the device."""
        n = self._program.n_particles
        done = np.asarray(state.nit, dtype=np.int64) + 1
        return state._replace(nfev=np.minimum(n * done, self._program.evaluations))

    def evaluate(self, points: Floats) -> Floats:
        """The objective at points ``(m, d)``, in double precision."""
        return self._evaluate(points)

    @property
    def _exact(self) -> AbstractContextManager[Any]:
        return jax.enable_x64(self._precision == "double")

    def _check(self) -> None:
        """Raise if JAX cannot trace the objective, or if it does not return one number."""
        name = getattr(self._fun, "__name__", repr(self._fun))
        try:
            shape = jax.eval_shape(self._fun, jax.ShapeDtypeStruct((self._program.n_dimensions,), np.float32)).shape
        except Exception as error:
            reason = str(error).strip().splitlines()
            raise TypeError(
                f"JAX cannot trace {name}, which must take one point x (d,) and use jax.numpy: {(reason or [''])[0]} "
                "Use engine='numpy' for a function that is not compiled"
            ) from error
        if shape != ():
            raise TypeError(f"{name} must take one point x (d,) and return a number, but it returns the shape {shape}")

    def _measured(self, points: Any) -> Any:
        """The objective at points ``(runs, n, d)``; NaN where it failed, which -inf is too."""
        values = jax.vmap(jax.vmap(self._fun))(points)
        return jnp.where(values == -jnp.inf, jnp.nan, values).astype(self._dtype)

    def _box(self) -> tuple[Any, Any]:
        return jnp.asarray(self._program.lower, dtype=self._dtype), jnp.asarray(self._program.upper, dtype=self._dtype)

    def _begun(self, keys: Any, given: Any) -> State:
        p, (lower, upper) = self._program, self._box()
        if given is None:
            points = jax_noise.first_points(keys, p.n_particles, lower, upper)
        else:
            points = jnp.broadcast_to(given, (len(keys), *given.shape))
        values = self._measured(points)
        swarm = swarms.start(points, values, lower, upper)
        zero = jnp.zeros(len(keys), dtype=jnp.int32)
        failed = jnp.isnan(values).sum(axis=-1, dtype=jnp.int32)
        runs = Runs(swarm, zero, zero, failed, zero, zero)
        status, rule = self._ended(runs)
        status = jnp.where(swarm.global_value == jnp.inf, FAILED, status)
        return _state(runs._replace(status=status, rule=rule))

    def _advanced(self, state: State, keys: Any, generation: Any, count: Any) -> tuple[State, Any]:
        history = jnp.zeros((len(keys), _LONGEST), dtype=self._dtype)
        table = jnp.asarray(self._program.coefficients, dtype=self._dtype)

        def once(t: Any, carry: tuple[State, Any]) -> tuple[State, Any]:
            state, history = carry
            state = _state(self._generation(self._runs(state), keys, generation + t, table))
            return state, history.at[:, t].set(state.leader_value)

        done: tuple[State, Any] = lax.fori_loop(0, count, once, (state, history))
        return done

    def _generation(self, runs: Runs, keys: Any, generation: Any, table: Any) -> Runs:
        """One generation of all runs that go on."""
        p, swarm = self._program, runs.swarm
        n, r = p.n_particles, len(p.pulls)
        rows = table[jnp.minimum(generation, len(table)) - 1]
        columns = [rows[:, i : i + 1] if len(rows) > 1 else rows[0, i] for i in range(r + 7)]
        by = Coefficients(tuple(columns[:r]), *columns[r:])
        d1, d2 = jax_noise.normals(keys, generation, n, p.n_dimensions, self._dtype)
        proposal = self._step.moved_by(by, swarm, _NoSource(), d1, d2)  # type: ignore[arg-type]
        active = runs.status == RUNNING
        values = jnp.where(active[:, None], self._measured(proposal.position), jnp.nan)
        evaluated = None if self._all_move else (jnp.arange(n) < self._n_moved(generation)) & active[:, None]
        after = swarms.record(swarm, proposal, values, evaluated)
        is_better = after.global_value < swarm.global_value
        failed = jnp.isnan(values) & (active[:, None] if evaluated is None else evaluated)
        new = Runs(
            swarm=after,
            stale=jnp.where(is_better, 0, runs.stale + 1),
            nit=runs.nit + active,
            n_failed=runs.n_failed + failed.sum(axis=-1, dtype=jnp.int32),
            status=runs.status,
            rule=runs.rule,
        )
        status, rule = self._ended(new)
        return new._replace(
            stale=jnp.where(active, new.stale, runs.stale),
            status=jnp.where(active, status, runs.status),
            rule=jnp.where(active, rule, runs.rule),
        )

    @property
    def _all_move(self) -> bool:
        """Whether every particle of every run moves in every generation, which saves masks."""
        rules = self._program.rules
        may_end = rules.tol > 0 or rules.stagnation > 0 or rules.target > -np.inf
        return not may_end and self._in_last == self._program.n_particles

    def _n_moved(self, generation: Any) -> Any:
        """How many particles move in a generation: the last one may be cut short."""
        return jnp.where(generation < self._last, self._program.n_particles, self._in_last)

    def _ended(self, runs: Runs) -> tuple[Any, Any]:
        """What has ended runs, and by which rule they have converged; the first reason that holds counts."""
        rules, swarm = self._program.rules, runs.swarm
        rule = jnp.zeros_like(runs.status)
        if rules.tol > 0:
            spread = swarms.spread(swarm, self._program.method.wall.unroll)
            lowest = swarm.global_value
            agree = swarm.best_value.max(axis=-1) - lowest <= rules.same * jnp.abs(lowest)
            rule = jnp.where(runs.stale >= rules.patience, BY_PATIENCE, rule)
            rule = jnp.where((spread < rules.near) & agree, BY_VALUES, rule)
            rule = jnp.where(spread < rules.tol, BY_SPREAD, rule)
        status = jnp.full_like(runs.status, RUNNING)
        if rules.stagnation:
            status = jnp.where(runs.stale >= rules.stagnation, STAGNATED, status)
        status = jnp.where(rule > 0, CONVERGED, status)
        return jnp.where(swarm.global_value <= rules.target, TARGET, status), rule

    def _runs(self, state: State) -> Runs:
        """The runs of a state; leaders follow from the bests."""
        lower, upper = self._box()
        n = self._program.n_particles
        swarm = Swarm(
            position=state.x,
            velocity=state.v,
            value=state.value,
            best_position=state.best,
            best_value=state.best_value,
            age=state.age,
            repeats=None,
            global_best=state.best,
            global_value=state.leader_value,
            lower=jnp.repeat(lower[None], n, axis=0),
            upper=jnp.repeat(upper[None], n, axis=0),
        )
        return Runs(swarms.with_leader(swarm), state.stale, state.nit, state.n_failed, state.status, state.rule)


def evaluator(fun: Callable[..., Any]) -> Callable[[Floats], Floats]:
    """The objective as a function of many points ``(m, d)``, in double precision."""
    compiled = jax.jit(jax.vmap(fun))

    def evaluate(points: Floats) -> Floats:
        with jax.enable_x64(True):
            values = np.array(compiled(jnp.asarray(points, dtype=np.float64)), dtype=float)
        return np.where(values == -np.inf, np.nan, values)

    return evaluate


def _state(runs: Runs) -> State:
    swarm = runs.swarm
    return State(
        swarm.position,
        swarm.velocity,
        swarm.best_position,
        swarm.value,
        swarm.best_value,
        swarm.age,
        swarm.global_value,
        runs.stale,
        runs.nit,
        None,
        *runs[3:],
    )
