"""What compiled runs have come to, as `minimize` and `minimize_many` return it."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from paoswarm.core.arrays import Floats
from paoswarm.core.swarm import Swarm
from paoswarm.core.walls import Wall
from paoswarm.engines.engines import CompiledEngine
from paoswarm.engines.program import Program, State
from paoswarm.evaluate.calls import NAN
from paoswarm.run.look_around import cost, is_worth_it, look
from paoswarm.run.many_result import Found
from paoswarm.run.read_input import Box
from paoswarm.run.stopping import Limits, Status
from paoswarm.run.stored_states import Standing
from paoswarm.space.space import Space


class Places(NamedTuple):
    """The best points of all runs."""

    x: Floats  # (runs, d)
    fun: Floats  # (runs,)


def found_of(
    engine: CompiledEngine,
    program: Program,
    space: Space,
    wall: Wall,
    standing: Standing,
    ended: Status | None,
    limits: Limits,
) -> Found:
    """All runs where they stand."""
    state, d = standing.state, program.n_dimensions
    status, nfev = np.array(state.status), np.array(state.nfev)
    if ended is not None:
        status[status == Status.RUNNING] = ended
    spent = limits.maxfev is not None and nfev >= limits.maxfev
    status[status == Status.RUNNING] = Status.MAXITER
    status[(status == Status.MAXITER) & spent] = Status.MAXFEV
    places = _best_places(engine, state)
    n_failed = np.array(state.n_failed)
    allowed = (space.lower, space.upper) if wall.is_bounded else (np.full(d, -np.inf), np.full(d, np.inf))
    if np.asarray(state.x).dtype == float:  # rounding would look like a better point
        places = _look_around(engine, places, status, nfev, n_failed, np.asarray(state.rule), limits, space, allowed)
    return Found(
        x=space.rows(places.x),
        fun=places.fun,
        nit=np.array(state.nit),
        nfev=nfev,
        n_failed=n_failed,
        swarm=_swarm(state, program.lower, program.upper),
        status=status,
        rule=np.asarray(state.rule),
        failure_kinds=[Counter({NAN: count}) if count else Counter() for count in n_failed.tolist()],
        best=np.concatenate(standing.columns, axis=1)[:, : int(np.max(state.nit)) + 1],
    )


def _best_places(engine: CompiledEngine, state: State) -> Places:
    """The best points of all runs; what was found in single precision is evaluated again."""
    leader = np.argmin(np.asarray(state.best_value), axis=-1)
    points = np.take_along_axis(np.asarray(state.best), leader[:, None, None], axis=1)[:, 0, :]
    x = points.astype(float)
    value = np.array(state.leader_value, dtype=float)
    return Places(x, value if points.dtype == x.dtype else np.where(value < np.inf, engine.evaluate(x), value))


def _look_around(
    engine: CompiledEngine,
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
    """All swarms as the rest of the library knows them; what particles share is there once, in views."""
    best, best_value = np.asarray(state.best, dtype=float), np.asarray(state.best_value, dtype=float)
    leader = np.take_along_axis(best, np.argmin(best_value, axis=-1)[:, None, None], axis=1)
    return Swarm(
        position=np.asarray(state.x, dtype=float),
        velocity=np.asarray(state.v, dtype=float),
        value=np.asarray(state.value, dtype=float),
        best_position=best,
        best_value=best_value,
        age=np.asarray(state.age, dtype=float),
        repeats=None,
        global_best=np.broadcast_to(leader, best.shape),
        global_value=best_value.min(axis=-1),
        lower=np.broadcast_to(lower, best.shape[1:]),
        upper=np.broadcast_to(upper, best.shape[1:]),
    )


def intermediate(state: State, space: Space) -> Found:
    """What a callback gets to see of all runs, in copies: engines may change the arrays of a state."""
    state = State(*map(np.array, state))
    swarm = _swarm(state, space.lower, space.upper)
    x = space.rows(swarm.global_best[:, 0, :])
    return Found(x, swarm.global_value, state.nit, state.nfev, state.n_failed, swarm)
