"""Runs on a compiled engine, as `minimize` and `minimize_many` return them.

The engine moves all runs by many generations in one call. Between calls, clocks, callbacks and interrupts have their
turn.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from paoswarm.algorithms.method import Method
from paoswarm.checks import flag, whole_number
from paoswarm.compiled import counter
from paoswarm.compiled.engines import Compiled, Engine
from paoswarm.compiled.program import Rules, read_program
from paoswarm.compiled.search_plan import is_adaptive
from paoswarm.compiled.state import State
from paoswarm.core.arrays import Floats
from paoswarm.core.random import Seed, generator
from paoswarm.core.swarm import Swarm
from paoswarm.optimize import convergence
from paoswarm.optimize.adaptive_runs import minimize_adaptively
from paoswarm.optimize.callback import Notify, read_callback
from paoswarm.optimize.first_swarm import FirstSwarm
from paoswarm.optimize.look_around import cost, is_worth_it, look
from paoswarm.optimize.many_result import ManyResult, with_messages
from paoswarm.optimize.read_input import Box, read_method
from paoswarm.optimize.read_space import read_space
from paoswarm.optimize.stopping import Limits, Status
from paoswarm.optimize.swarm_size import read_size
from paoswarm.progress_bar import ProgressBar
from paoswarm.spaces.space import Space

_FIRST_CALL = 16  # generations
_CALL = 0.2  # seconds that a call of the engine may take: an interrupt waits so long
# What compiled engines do not have, and the values that say that it is not wanted.
_LACKING: dict[str, Any] = {
    "args": (),
    "integrality": None,
    "f0": None,
    "vectorized": False,
    "workers": 1,
    "timeout": None,
    "reevaluate": False,
    "constraints": (),
    "polish": False,
    "store": None,
    "asynchronous": False,
    "store_swarms": False,
}
_SUPPORTED = "A compiled engine takes a box of plain bounds, a first swarm of points or by design, and limits."


class Places(NamedTuple):
    """The best points of all runs."""

    x: Floats  # (runs, d)
    fun: Floats  # (runs,)


def seeds_of(rng: Seed, runs: int | None) -> tuple[counter.Words, list[np.random.SeedSequence]]:
    """Keys ``(runs, 2)`` and seeds of runs; of one run alone if ``runs`` is None."""
    root: Any = rng if isinstance(rng, np.random.SeedSequence) else generator(rng).bit_generator.seed_seq
    root = np.random.SeedSequence(root.entropy, spawn_key=root.spawn_key, pool_size=root.pool_size)
    if runs is None:
        return counter.run_key(root)[None], [root]
    return counter.run_keys(root, runs), root.spawn(runs)


def refuse(**given: Any) -> None:
    """Raise if an option that compiled engines do not have differs from its default."""
    for name, value in given.items():
        default = _LACKING[name]
        if not (value is default or (isinstance(value, bool | int | float | tuple) and value == default)):
            raise ValueError(f"compiled engines do not have {name}; engine='numpy' has it. {_SUPPORTED}")


def minimize_compiled(
    engine: Compiled,
    fun: Callable[..., Any],
    bounds: Any,
    method: Any,
    n_particles: Any,
    limited: tuple[Any, Any, Any, Any, Any, Any],
    x0: Any,
    init: Any,
    keys: counter.Words,
    seeds: list[np.random.SeedSequence],
    callback: Callable[..., Any] | None,
    progress: bool,
) -> ManyResult:
    """Read what the user gave, and run it; ``limited`` are the limits in the order of `Limits`."""
    space = read_space(bounds)
    if not space.is_plain:
        raise ValueError(f"compiled engines do not have {space!r}; engine='numpy' has it. {_SUPPORTED}")
    method = read_method(method, init, space)
    d = len(space.lower)
    if is_adaptive(method):
        return minimize_adaptively(
            engine, fun, space, method, n_particles, limited, x0, init, keys, seeds, callback, progress
        )
    limits = Limits.read(*limited, method.default_limits(d))
    size = whole_number("n_particles", read_size(n_particles, method, d, limits, x0, None, None), 2)
    first = FirstSwarm((space.lower, space.upper), size, x0, None, init, (space.lower, space.upper))
    given = None
    if x0 is not None or init != "latinhypercube":
        given = first.points([generator(seeds[0])], ())
    return run_compiled(
        engine, fun, space, method, first.n_particles, limits, given, keys, seeds, callback, flag("progress", progress)
    )


def run_compiled(
    engine: Compiled,
    fun: Callable[..., Any],
    space: Space,
    method: Method,
    n_particles: int,
    limits: Limits,
    given: Floats | None,
    keys: counter.Words,
    seeds: list[np.random.SeedSequence],
    callback: Callable[..., Any] | None,
    progress: bool,
) -> ManyResult:
    """All runs from their first swarms to their ends."""
    d = len(space.lower)
    rules = Rules(
        target=-np.inf if limits.target is None else limits.target,
        tol=limits.tol,
        patience=convergence.patience(d),
        stagnation=limits.stagnation or 0,
        near=convergence.NEAR,
        same=convergence.SAME,
    )
    program = read_program(
        method, n_particles, space.lower, space.upper, rules, maxiter=limits.maxiter, maxfev=limits.maxfev
    )
    limits = limits.starting_with(n_particles)
    made = engine.make(program, fun)

    def so_far(state: State) -> ManyResult:
        return _intermediate(state, program.lower, program.upper)

    notify = read_callback(callback, so_far)
    budget = limits.evaluations(n_particles, n_particles)
    with ProgressBar(progress, None if budget is None else len(keys) * budget) as bar:
        state = made.begin(keys, given)
        if (np.asarray(state.status) == Status.FAILED).all():
            raise ValueError("the objective is NaN or infinite at every point of the first swarm of every run")
        history, state, ended = _advance(made, state, keys, program.generations, limits, notify, bar)
    status, nfev = np.array(state.status), np.array(state.nfev)
    if ended is not None:
        status[status == Status.RUNNING] = ended
    spent = limits.maxfev is not None and nfev >= limits.maxfev
    status[status == Status.RUNNING] = Status.MAXITER
    status[(status == Status.MAXITER) & spent] = Status.MAXFEV
    places = _best_places(made, state)
    n_failed = np.array(state.n_failed)
    allowed = (space.lower, space.upper) if method.wall.is_bounded else (np.full(d, -np.inf), np.full(d, np.inf))
    if np.asarray(state.x).dtype == float:  # rounding would look like a better point
        places = _look_around(made, places, status, nfev, n_failed, np.asarray(state.rule), limits, space, allowed)
    return with_messages(
        ManyResult(
            x=places.x,
            fun=places.fun,
            fun_error=None,
            status=status,
            nit=np.array(state.nit),
            nfev=nfev,
            n_failed=n_failed,
            history=history,
            swarm=_swarm(state, program.lower, program.upper),
            method=method,
            seeds=seeds,
            failures=[],
        ),
        np.asarray(state.rule),
        limits,
    )


def _advance(
    engine: Engine,
    state: State,
    keys: counter.Words,
    generations: int,
    limits: Limits,
    notify: Notify[State],
    bar: ProgressBar,
) -> tuple[Floats, State, Status | None]:
    """Move all runs to their ends in calls of a fraction of a second; what stopped them from outside, if anything."""
    columns = [np.asarray(state.leader_value, dtype=float)[:, None]]
    done, count = 0, _FIRST_CALL
    ended: Status | None = notify(state)
    try:
        while ended is None and done < generations and not state.is_over:
            count = min(count, generations - done, engine.longest)
            began = time.monotonic()
            state, history = engine.advance(state, keys, done + 1, count)
            columns.append(np.asarray(history, dtype=float))
            done += count
            seconds = time.monotonic() - began
            count = max(1, min(2 * count, int(count * _CALL / max(seconds, 1e-9))))
            if bar.is_shown:
                bar.catch_up(int(np.sum(state.nfev)))
                bar.show(best=float(np.min(state.leader_value)))
            ended = notify(state)
            if limits.deadline is not None and time.monotonic() >= limits.deadline:
                ended = ended or Status.TIME
    except KeyboardInterrupt:
        ended = Status.INTERRUPTED
    nit = int(np.max(state.nit))
    return np.concatenate(columns, axis=1)[:, : nit + 1], state, ended


def _best_places(engine: Engine, state: State) -> Places:
    """The best points of all runs; what was found in single precision is evaluated again."""
    leader = np.argmin(np.asarray(state.best_value), axis=-1)
    points = np.take_along_axis(np.asarray(state.best), leader[:, None, None], axis=1)[:, 0, :]
    x = points.astype(float)
    value = np.asarray(state.leader_value, dtype=float)
    return Places(x, value if points.dtype == x.dtype else np.where(value < np.inf, engine.evaluate(x), value))


def _look_around(
    engine: Engine,
    places: Places,
    status: NDArray[np.int64],
    nfev: NDArray[np.int64],
    n_failed: NDArray[np.int64],
    rule: NDArray[np.int64],
    limits: Limits,
    space: Space,
    allowed: Box,
) -> Places:
    """Look whether runs that have converged are at a minimum; statuses and counts are changed in place."""
    x, fun = places.x.copy(), places.fun.copy()
    d = x.shape[-1]
    runs = (status == Status.CONVERGED) & is_worth_it(rule, limits.tol)
    if limits.maxfev is not None:
        runs &= limits.maxfev - nfev >= cost(d)
    if not runs.any():
        return places
    looking = look(x[runs], fun[runs], space.upper - space.lower, allowed)
    points: Any = next(looking)
    while True:
        values = engine.evaluate(points.reshape(-1, d)).reshape(points.shape[:-1])
        nfev[runs] += values.shape[-1]
        n_failed[runs] += np.isnan(values).sum(axis=-1)
        known = np.where(np.isnan(values), np.inf, values)
        winner = known.argmin(axis=-1)
        lowest = known.min(axis=-1)
        is_better = lowest < fun[runs]
        best = np.take_along_axis(points, winner[:, None, None], axis=1)[:, 0, :]
        x[runs], fun[runs] = np.where(is_better[:, None], best, x[runs]), np.where(is_better, lowest, fun[runs])
        try:
            points = looking.send(values)
        except StopIteration as seen:
            status[runs] = np.where(seen.value, Status.STALLED, Status.CONVERGED)
            return Places(x, fun)


def _swarm(state: State, lower: Floats, upper: Floats) -> Swarm:
    """All swarms as the rest of the library knows them."""
    best, best_value = np.asarray(state.best, dtype=float), np.asarray(state.best_value, dtype=float)
    n = best.shape[1]
    leader = np.take_along_axis(best, np.argmin(best_value, axis=-1)[:, None, None], axis=1)
    return Swarm(
        position=np.asarray(state.x, dtype=float),
        velocity=np.asarray(state.v, dtype=float),
        value=np.asarray(state.value, dtype=float),
        best_position=best,
        best_value=best_value,
        age=np.asarray(state.age, dtype=float),
        repeats=None,
        global_best=np.repeat(leader, n, axis=1),
        global_value=best_value.min(axis=-1),
        lower=np.repeat(lower[None], n, axis=0),
        upper=np.repeat(upper[None], n, axis=0),
    )


def _intermediate(state: State, lower: Floats, upper: Floats) -> ManyResult:
    """What a callback gets to see of all runs."""
    swarm = _swarm(state, lower, upper)
    return ManyResult(
        x=swarm.global_best[:, 0, :],
        fun=swarm.global_value,
        nit=np.array(state.nit),
        nfev=np.array(state.nfev),
        n_failed=np.array(state.n_failed),
        swarm=swarm,
    )
