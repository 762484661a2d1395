"""The JAX engine: any device that JAX knows, with an objective that it can trace.

The kernels of the core follow the array API standard, so they are traced as they are: the step and the walls are the
same code as with NumPy. This file adds random numbers, bests, ends of runs and the loop.

What makes it fast on a GPU is how often it reads and writes large arrays, and how many kernels it starts. So the bests
of the particles are brought up to date in the next step, which reads them anyway; until then a particle only knows that
its place is its best. And loops have a length that XLA knows: else the host would be asked in every generation.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, PartitionSpec

from paoswarm._checks import FOR_RESIDUALS
from paoswarm.core import order
from paoswarm.core import swarm as swarms
from paoswarm.core.arrays import Floats
from paoswarm.core.swarm import Swarm
from paoswarm.engines import counter, jax_noise
from paoswarm.engines.program import (
    BY_PATIENCE,
    BY_SPREAD,
    BY_VALUES,
    CONVERGED,
    FAILED,
    RUNNING,
    TARGET,
    Program,
    State,
)
from paoswarm.methods.pao_step import Coefficients, PAOStep

_LONGEST = 512  # generations in one call; the best values of so many are kept on the device
_AT_ONCE = 64  # generations of a loop whose length XLA knows
_SMALL = 2**22  # elements of all swarms; up to here, four generations are written out, to save launches of kernels


class DeviceRuns(NamedTuple):
    """All runs on the device, between two generations of a call. Arrays as in `State`, but for four."""

    x: Any
    v: Any
    best: Any  # (runs, n, d) as it was before the last generation
    is_new: Any  # (runs, n) whether the place of a particle is its best instead
    value: Any
    best_value: Any
    age: Any
    n_failed: Any  # (runs, n) failed evaluations in this call
    leader: Any  # (runs,) number of the particle with the best value
    leader_value: Any
    stale: Any
    nit: Any
    status: Any
    rule: Any


class _Compiled(NamedTuple):
    """The functions of the engine for a number of devices."""

    begin: Any
    many: Any  # moves on by a multiple of generations
    few: Any  # one by one


class _NoSource:
    """What attractors that are not random draw from."""


class JaxEngine:
    """DeviceRuns of a program with JAX.

    Parameters
    ----------
    program : Program
    fun : callable
        ``fun(x) -> scalar`` for a point ``x`` (d,), written with `jax.numpy`.
    precision : {"single", "double"}
        Of everything, the objective included. Global settings of JAX stay as they are.
    devices : int, optional
        How many devices share the runs, at most; all that JAX has if not given.
    """

    longest, at_once = _LONGEST, _AT_ONCE

    def __init__(
        self, program: Program, fun: Callable[..., Any], precision: str = "single", devices: int | None = None
    ) -> None:
        self._program = program
        self._precision = precision
        self._devices = jax.devices()[:devices]
        self._dtype = np.dtype(np.float64 if precision == "double" else np.float32)
        method = program.method
        self._step = PAOStep(method.hyperparameters, method.attractors, method.noise_scale, method.wall)
        self._fun = fun
        last = min(program.generations, 2**31 - 1)
        self._last, self._in_last = last, program.n_moved(last) if last < 2**31 - 1 else program.n_particles
        self._compiled: dict[int, _Compiled] = {}
        self._evaluate = evaluator(fun)
        self._check()

    def begin(self, keys: counter.Words, given: Floats | None = None) -> State:
        """The first swarms of runs with these keys, evaluated; ``given`` points (n, d) replace the design."""
        with self._exact:
            points = None if given is None else jnp.asarray(given, dtype=self._dtype)
            return self._counted(self._for_runs(len(keys)).begin(keys, points))

    def advance(self, state: State, keys: counter.Words, generation: int, count: int) -> tuple[State, Floats]:
        """Move on by ``count`` generations, the first of which has this number, or until runs end.

        Return where the runs stand and their best values after every generation ``(runs, count)``. The arrays of
        ``state`` are used up.
        """
        compiled = self._for_runs(len(keys))
        with self._exact:
            arrays, history = state._replace(nfev=None), np.empty((len(keys), count), dtype=self._dtype)
            few = count % _AT_ONCE
            for advance, done, number in ((compiled.many, 0, count - few), (compiled.few, count - few, few)):
                if number:
                    arrays, bests = advance(arrays, keys, np.int32(generation + done), np.int32(number))
                    history[:, done : done + number] = np.asarray(bests)[:, :number]
            return self._counted(arrays), history

    def _for_runs(self, runs: int) -> _Compiled:
        """The compiled functions for so many runs; as many devices share them as divide their number."""
        number = next(k for k in range(len(self._devices), 0, -1) if runs % k == 0)
        if number not in self._compiled:
            mesh = Mesh(np.array(self._devices[:number]), "runs")
            each, same = PartitionSpec("runs"), PartitionSpec()

            def shared(function: Any, *parts: Any, result: Any, **options: Any) -> Any:
                if number == 1:
                    return jax.jit(function, **options)

                def traced(*arguments: Any) -> Any:
                    with jax_noise.for_several_devices():
                        return function(*arguments)

                # DeviceRuns know nothing of each other, so devices need not either.
                mapped = jax.shard_map(traced, mesh=mesh, in_specs=parts, out_specs=result, check_vma=False)
                return jax.jit(mapped, **options)

            many, few = (
                shared(partial(self._advanced, at_once), each, each, same, same, result=(each, each), donate_argnums=0)
                for at_once in (_AT_ONCE, 1)
            )
            self._compiled[number] = _Compiled(shared(self._begun, each, same, result=each), many, few)
        return self._compiled[number]

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
            point = jax.ShapeDtypeStruct((self._program.n_dimensions,), np.float32)
            found = jax.eval_shape(lambda x: jnp.asarray(self._fun(x)), point)
            shape, dtype = found.shape, found.dtype
        except Exception as error:
            reason = (str(error).strip().splitlines() or [""])[0].rstrip(".")
            raise TypeError(
                f"JAX cannot trace {name}, which must take one point x (d,) and use jax.numpy: {reason}. "
                "Use engine='numpy' for a function that is not compiled"
            ) from error
        if shape != ():
            raise TypeError(
                f"{name} must take one point x (d,) and return a number, but it returns the shape {shape}; "
                f"{FOR_RESIDUALS}"
            )
        if jnp.issubdtype(dtype, jnp.complexfloating):
            raise TypeError(f"{name} must return a real number, but it returns {dtype}")

    def _measured(self, points: Any) -> Any:
        """The objective at points ``(runs, n, d)``; NaN where it failed, which -inf is too."""
        values = jax.vmap(jax.vmap(self._fun))(points)
        return jnp.where(values == -jnp.inf, jnp.nan, values).astype(self._dtype)

    def _box(self) -> tuple[Any, Any]:
        """The bounds ``(n, d)``; if all unknowns have the same, XLA need not read them."""
        p = self._program
        shape = p.n_particles, p.n_dimensions

        def everywhere(end: Floats) -> Any:
            alike = end[0] if (end == end[0]).all() else end
            return jnp.broadcast_to(jnp.asarray(alike, dtype=self._dtype), shape)

        return everywhere(p.lower), everywhere(p.upper)

    def _begun(self, keys: Any, given: Any) -> State:
        p = self._program
        if given is None:
            lower, upper = (jnp.asarray(end, dtype=self._dtype) for end in (p.lower, p.upper))
            points = jax_noise.first_points(keys, p.n_particles, lower, upper)
        else:
            points = jnp.broadcast_to(given, (len(keys), *given.shape))
        values = self._measured(points)
        best_value = order.failed_last(values)
        lowest, leader = _lowest(best_value)
        zero = jnp.zeros(len(keys), dtype=jnp.int32)
        runs = DeviceRuns(
            x=points,
            v=jnp.zeros_like(points),
            best=points,
            is_new=jnp.zeros(values.shape, dtype=bool),
            value=values,
            best_value=best_value,
            age=jnp.zeros_like(values),
            n_failed=jnp.isnan(values).astype(jnp.int32),
            leader=leader,
            leader_value=lowest,
            stale=zero,
            nit=zero,
            status=zero,
            rule=zero,
        )
        status, rule = self._ended(runs)
        return _closed(runs._replace(status=jnp.where(lowest == jnp.inf, FAILED, status), rule=rule), zero)

    def _advanced(self, at_once: int, state: State, keys: Any, generation: Any, count: Any) -> tuple[State, Any]:
        """Move on by ``count`` generations, a multiple of ``at_once``; also their best values ``(runs, longest)``."""
        history = jnp.zeros((_LONGEST if at_once > 1 else _AT_ONCE, len(keys)), dtype=self._dtype)
        table = jnp.asarray(self._program.coefficients, dtype=self._dtype)
        is_small = state.x.size <= _SMALL and self._devices[0].platform != "cpu"
        unroll = min(at_once, 4 if is_small else 1)

        def several(group: Any, carry: tuple[DeviceRuns, Any]) -> tuple[DeviceRuns, Any]:
            before = group * at_once
            mixed = jax_noise.generation_keys(keys, generation + before + jnp.arange(at_once))

            def once(i: Any, carry: tuple[DeviceRuns, Any]) -> tuple[DeviceRuns, Any]:
                runs, history = carry
                t = before + i
                runs = self._generation(runs, keys, mixed[i], generation + t, table)
                return runs, history.at[t].set(runs.leader_value)

            done: tuple[DeviceRuns, Any] = lax.fori_loop(0, at_once, once, carry, unroll=unroll)
            return done

        runs, history = lax.fori_loop(0, count // at_once, several, (_opened(state), history))
        if not self._program.rules.may_end:
            runs = _counted_later(runs, state.leader_value, history, count)
        return _closed(runs, state.n_failed), history.T

    def _generation(self, runs: DeviceRuns, keys: Any, mixed: Any, generation: Any, table: Any) -> DeviceRuns:
        """One generation of all runs that go on; ``mixed`` are their keys in it."""
        p = self._program
        n, r = p.n_particles, len(p.pulls)
        rows = table[jnp.minimum(generation, len(table)) - 1] if len(table) > 1 else table[0]
        columns = [rows[:, i : i + 1] if len(rows) > 1 else rows[0, i] for i in range(r + 7)]
        by = Coefficients(tuple(columns[:r]), *columns[r:])
        d1, d2 = jax_noise.normals(keys, mixed, n, p.n_dimensions, self._dtype)
        swarm = self._swarm(runs)
        proposal = self._step.moved_by(by, swarm, _NoSource(), d1, d2)  # type: ignore[arg-type]
        goes_on = runs.status == RUNNING
        value = self._measured(proposal.position)
        moved, position, velocity = goes_on[:, None], proposal.position, proposal.velocity
        if not self._all_move:
            moved = (jnp.arange(n) < self._n_moved(generation)) & moved
            position = jnp.where(moved[..., None], position, runs.x)
            velocity = jnp.where(moved[..., None], velocity, runs.v)
        is_new = moved & order.is_better(order.newcomer_score(value, None), runs.best_value)
        best_value = jnp.where(is_new, value, runs.best_value)
        lowest, leader = _lowest(best_value)
        after = runs._replace(
            x=position,
            v=velocity,
            best=swarm.best_position,
            is_new=is_new,
            value=jnp.where(moved, value, runs.value),
            best_value=best_value,
            age=jnp.where(is_new, 0, runs.age + moved),
            n_failed=runs.n_failed + (jnp.isnan(value) & moved),
            leader=leader,
            leader_value=lowest,
        )
        if not p.rules.may_end:
            return after
        stale = jnp.where(lowest < runs.leader_value, 0, runs.stale + 1)
        after = after._replace(stale=jnp.where(goes_on, stale, runs.stale), nit=runs.nit + goes_on)
        status, rule = self._ended(after)
        return after._replace(status=jnp.where(goes_on, status, runs.status), rule=jnp.where(goes_on, rule, runs.rule))

    @property
    def _all_move(self) -> bool:
        """Whether every particle of every run moves in every generation, which saves masks."""
        return not self._program.rules.may_end and self._in_last == self._program.n_particles

    def _n_moved(self, generation: Any) -> Any:
        """How many particles move in a generation: the last one may be cut short."""
        return jnp.where(generation < self._last, self._program.n_particles, self._in_last)

    def _ended(self, runs: DeviceRuns) -> tuple[Any, Any]:
        """What has ended runs, and by which rule they have converged; the first reason that holds counts."""
        rules, lowest = self._program.rules, runs.leader_value
        rule = jnp.zeros_like(runs.status)
        if rules.tol > 0:
            spread = swarms.spread(self._swarm(runs), self._program.method.wall.unroll)
            agree = runs.best_value.max(axis=-1) - lowest <= rules.same * jnp.abs(lowest)
            rule = jnp.where(runs.stale >= rules.patience, BY_PATIENCE, rule)
            rule = jnp.where((spread < rules.near) & agree, BY_VALUES, rule)
            rule = jnp.where(spread < rules.tol, BY_SPREAD, rule)
        status = jnp.full_like(runs.status, RUNNING)
        status = jnp.where(rule > 0, CONVERGED, status)
        return jnp.where(lowest <= rules.target, TARGET, status), rule

    def _swarm(self, runs: DeviceRuns) -> Swarm:
        """All swarms as the core knows them, with bests up to date."""
        lower, upper = self._box()
        first = runs.leader[:, None]
        x, best = (jnp.take_along_axis(points, first[..., None], axis=1) for points in (runs.x, runs.best))
        place = jnp.where(jnp.take_along_axis(runs.is_new, first, axis=1)[..., None], x, best)
        return Swarm(
            position=runs.x,
            velocity=runs.v,
            value=runs.value,
            best_position=jnp.where(runs.is_new[..., None], runs.x, runs.best),
            best_value=runs.best_value,
            age=runs.age,
            repeats=None,
            global_best=jnp.broadcast_to(place, runs.x.shape),
            global_value=runs.leader_value,
            lower=lower,
            upper=upper,
        )


def evaluator(fun: Callable[..., Any]) -> Callable[[Floats], Floats]:
    """The objective as a function of many points ``(m, d)``, in double precision."""
    compiled = jax.jit(jax.vmap(fun))

    def evaluate(points: Floats) -> Floats:
        with jax.enable_x64(True):
            values = np.array(compiled(jnp.asarray(points, dtype=np.float64)), dtype=float)
        return np.where(values == -np.inf, np.nan, values)

    return evaluate


def _lowest(value: Any) -> tuple[Any, Any]:
    """The lowest value of each run and which particle has it, of equals the first; in one pass."""

    def lower(a: tuple[Any, Any], b: tuple[Any, Any]) -> tuple[Any, Any]:
        is_first = (a[0] < b[0]) | ((a[0] == b[0]) & (a[1] < b[1]))
        return jnp.where(is_first, a[0], b[0]), jnp.where(is_first, a[1], b[1])

    number = lax.broadcasted_iota(jnp.int32, value.shape, 1)
    found: tuple[Any, Any] = lax.reduce((value, number), (value.dtype.type(np.inf), np.int32(2**31 - 1)), lower, (1,))
    return found


def _opened(state: State) -> DeviceRuns:
    """The runs of a state."""
    leader = _lowest(state.best_value)[1]
    is_new, failed = jnp.zeros(state.value.shape, dtype=bool), jnp.zeros(state.value.shape, dtype=jnp.int32)
    points, values = (state.x, state.v, state.best, is_new), (state.value, state.best_value, state.age, failed)
    return DeviceRuns(*points, *values, leader, state.leader_value, state.stale, state.nit, state.status, state.rule)


def _closed(runs: DeviceRuns, n_failed: Any) -> State:
    """Where runs stand, with bests up to date; ``n_failed`` evaluations had failed before."""
    best = jnp.where(runs.is_new[..., None], runs.x, runs.best)
    values = runs.value, runs.best_value, runs.age
    counts = runs.stale, runs.nit, None, n_failed + runs.n_failed.sum(axis=-1, dtype=jnp.int32)
    return State(runs.x, runs.v, best, *values, runs.leader_value, *counts, runs.status, runs.rule)


def _counted_later(runs: DeviceRuns, first: Any, history: Any, count: Any) -> DeviceRuns:
    """DeviceRuns that nothing could end, with what could be counted after the last of ``count`` generations."""
    t = jnp.arange(len(history))[:, None]
    is_better = (history < jnp.concatenate([first[None], history[:-1]])) & (t < count)
    last = jnp.where(is_better, t + 1, 0).max(axis=0)
    stale = jnp.where(last > 0, count - last, runs.stale + count)
    goes_on = runs.status == RUNNING
    return runs._replace(stale=jnp.where(goes_on, stale, runs.stale), nit=runs.nit + count * goes_on)
