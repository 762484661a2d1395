"""The description of a run of `minimize` or `minimize_many` in its store."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy.optimize import OptimizeResult

from paoswarm.algorithms.method import Method
from paoswarm.compiled.engines import Compiled, Jax, Numba
from paoswarm.core import order
from paoswarm.core.swarm import Swarm
from paoswarm.evaluation.call_options import CallOptions
from paoswarm.evaluation.constraints import ConstraintSet, without_functions
from paoswarm.optimize.first_swarm import design_name
from paoswarm.optimize.optimizer import Optimizer
from paoswarm.optimize.stopping import Limits
from paoswarm.spaces.space import Space
from paoswarm.storage.encoding import encode
from paoswarm.storage.store import RecordedRun

_OF_THE_CALL = ("deadline", "aside", "time_aside")  # they follow from the others


def describe_run(
    optimizer: Optimizer,
    limits: Limits,
    given: dict[str, Any],
    options: CallOptions,
    polish: bool,
    seed: Any,
    runs: int | None = None,
) -> RecordedRun:
    """A run of `minimize`, or ``runs`` of `minimize_many`, as JSON.

    Everything in ``problem`` decides which points are asked for and must stay the same. Limits may change. If they lead
    to other points, because a schedule depends on them, that shows when the recorded points are compared.
    """
    problem = {
        "bounds": _bounds(optimizer.space),
        "method": encode(optimizer.method),
        "n_particles": optimizer.n_particles,
        **{name: encode(_plain(value)) for name, value in given.items()},
        "rng": seed,
    }
    expected = optimizer.expected_evaluations(limits)
    if runs is not None:
        problem["runs"] = runs
        expected = None if expected is None else runs * expected
    kept = {name: encode(value) for name, value in limits._asdict().items() if name not in _OF_THE_CALL}
    kept |= {"polish": bool(polish), "expected": expected}
    return RecordedRun("minimize" if runs is None else "minimize_many", problem, kept, options.described)


def describe_compiled_run(
    engine: Compiled,
    space: Space,
    method: Method,
    n_particles: int,
    given: dict[str, Any],
    limits: Limits,
    polish: bool,
    seed: Any,
    runs: int | None,
) -> RecordedRun:
    """The same for runs on a compiled engine, which go on from their state.

    What ends a run before its budget does is part of the problem: a run that has ended by it cannot go on.
    """
    if isinstance(engine, Numba):  # threads and devices change no result
        engine = replace(engine, threads=None)
    elif isinstance(engine, Jax):
        engine = replace(engine, devices=None)
    kept = {name: encode(value) for name, value in limits._asdict().items() if name not in _OF_THE_CALL}
    problem = {
        "engine": encode(engine),
        "bounds": _bounds(space),
        "method": encode(method),
        "n_particles": n_particles,
        **{name: encode(_plain(value)) for name, value in given.items()},
        **{name: kept.pop(name) for name in ("target", "tol", "stagnation")},
        "rng": seed,
    }
    expected = limits.evaluations(n_particles, n_particles)
    if runs is not None:
        problem["runs"] = runs
        expected = None if expected is None else runs * expected
    kept |= {"polish": bool(polish), "expected": expected}
    return RecordedRun("minimize" if runs is None else "minimize_many", problem, kept, {})


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
