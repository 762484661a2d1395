"""Where each of many runs starts: one optimiser for a batch of runs, or one for each."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import OptimizeResult

from paoswarm._checks import whole_number
from paoswarm.core.swarm import Swarm, map_runs
from paoswarm.optimize.many_result import ManyResult
from paoswarm.optimize.optimizer import Optimizer
from paoswarm.optimize.result import Result


def make_optimizers(
    bounds: Any,
    start: dict[str, Any],
    init: Any,
    seeds: list[np.random.SeedSequence],
    numbers: range,
    takes_batches: bool,
) -> list[Optimizer]:
    """One optimiser for some runs, or one for each if the method moves one run at a time."""
    if takes_batches:
        rng = [seeds[r] for r in numbers]
        return [Optimizer(bounds, init=_part_of(init, len(seeds), numbers), rng=rng, **start)]
    return [Optimizer(bounds, init=_one_of(init, r, len(seeds)), rng=seeds[r], **start) for r in numbers]


def elements(n_particles: int, n_unknowns: int, init: Any) -> int:
    """Particles times unknowns of one run."""
    if isinstance(init, OptimizeResult) and "swarm" in init:
        init = init.swarm
    if isinstance(init, Swarm):
        n_particles = init.n_particles
    elif not isinstance(init, str):
        n_particles = max(1, np.atleast_2d(np.asarray(init, dtype=object)).shape[0])
    least = 2 if isinstance(init, str) else 1
    return whole_number("n_particles", n_particles, least) * n_unknowns


def _part_of(init: Any, runs: int, numbers: range) -> Any:
    """The start of some runs: their own, if there are results or swarms to continue."""
    part = slice(numbers.start, numbers.stop)
    if isinstance(init, OptimizeResult) and "swarm" in init:
        error = init.get("fun_error")
        swarm = _part_of(init.swarm, runs, numbers)
        return Result(
            swarm=swarm, x=init.x[part], fun=init.fun[part], fun_error=error if error is None else error[part]
        )
    if not isinstance(init, Swarm):
        return init
    if init.position.ndim != 3 or len(init.position) != runs:
        raise ValueError(f"init holds swarms of shape {init.position.shape}; {runs} runs need ({runs}, n, d)")
    return map_runs(lambda array: array[part], init)


def _one_of(init: Any, r: int, runs: int) -> Any:
    """The start of one run: its own, if there are results or swarms to continue."""
    if isinstance(init, ManyResult):
        if len(init.fun) != runs:
            raise ValueError(f"init holds {len(init.fun)} runs; give runs={len(init.fun)} to continue them, got {runs}")
        return init.run(r)
    if isinstance(init, Swarm):
        return map_runs(lambda array: array[0], _part_of(init, runs, range(r, r + 1)))
    return init


def differ_in_size(init: Any) -> bool:
    """Whether there are swarms to continue that do not fit into one array."""
    return isinstance(init, ManyResult) and type(init.swarm) is tuple
