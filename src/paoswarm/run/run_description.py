"""The description of a call of `minimize` or `minimize_many` in its store."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy.optimize import OptimizeResult

from paoswarm.core import order
from paoswarm.core.swarm import Swarm
from paoswarm.engines.engines import Compiled, Jax, Numba
from paoswarm.evaluate.constraints import ConstraintSet, without_functions
from paoswarm.run.call import Call
from paoswarm.run.first_swarm import design_name
from paoswarm.run.stopping import Limits
from paoswarm.space.space import Space
from paoswarm.store.encoding import encode
from paoswarm.store.store import RecordedRun

_OF_THE_CALL = ("deadline", "aside", "time_aside")  # they follow from the others


def describe_run(call: Call, n_particles: int, limits: Limits, expected: int | None) -> RecordedRun:
    """The runs of a call as JSON; ``expected`` are the most evaluations of one of them.

    Everything in ``problem`` decides which points are asked for and must stay the same. Limits may change. If they lead
    to other points, because a schedule depends on them, that shows when the recorded points are compared. Runs on a
    compiled engine go on from their state: what ends one of them before its budget does is part of the problem, because
    it cannot go on.
    """
    kept = {name: encode(value) for name, value in limits._asdict().items() if name not in _OF_THE_CALL}
    given: dict[str, Any] = {"x0": call.x0, "init": call.init}
    problem = {"bounds": _bounds(call.space), "method": encode(call.method), "n_particles": n_particles}
    if call.engine is None:
        given |= {"f0": call.f0, "reevaluate": float(call.reevaluate)}
        if call.runs is None:
            given["asynchronous"] = bool(call.options.workers.asynchronous)
        if call.constraints is not None:
            given["constraints"] = call.constraints
    else:
        problem |= {"engine": encode(_without_resources(call.engine))}
        problem |= {name: kept.pop(name) for name in ("target", "tol")}
    problem |= {name: encode(_plain(value)) for name, value in given.items()} | {"rng": call.seed}
    if call.runs is not None:
        problem["runs"] = call.runs
    kept |= {"polish": bool(call.polish), "expected": None if expected is None else call.n_runs * expected}
    how = call.options.described if call.engine is None else {}
    return RecordedRun("minimize" if call.runs is None else "minimize_many", problem, kept, how)


def _without_resources(engine: Compiled) -> Compiled:
    """An engine without threads and devices, which change no result."""
    if isinstance(engine, Numba):
        return replace(engine, threads=None)
    return replace(engine, devices=None) if isinstance(engine, Jax) else engine


def _bounds(space: Space) -> Any:
    """Pairs of ends, or the variables of a space."""
    if space.is_plain:
        return np.stack([space.lower, space.upper], axis=1).tolist()
    return encode(space.description)


def _plain(value: Any) -> Any:
    """Points as arrays, a design by its own name, a swarm or a number as it is."""
    if isinstance(value, ConstraintSet):
        return without_functions(value)
    if isinstance(value, str):
        return design_name(value)
    if value is None or isinstance(value, Swarm | int | float):
        return value
    if isinstance(value, OptimizeResult):
        if np.ndim(value.get("fun", 0.0)):  # many runs
            return (value.swarm, np.asarray(value.x), np.asarray(value.fun))
        knows_more = "fun" in value and order.is_better(value.fun, value.swarm.global_value)  # by polishing, a restart
        return (value.swarm, np.asarray(value.x), value.fun) if knows_more else value.swarm
    return np.asarray(value, dtype=float)
