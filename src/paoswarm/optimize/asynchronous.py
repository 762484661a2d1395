"""The loop behind ``minimize(..., asynchronous=True)``: no worker waits for another."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from paoswarm.core.swarm import Swarm
from paoswarm.evaluation.engines import EngineDown
from paoswarm.evaluation.stream import Stream
from paoswarm.optimize.loop import Ends, crashed, improved
from paoswarm.optimize.optimizer import Optimizer
from paoswarm.optimize.steady import SteadySwarm
from paoswarm.optimize.stopping import Limits, Status


def solve_asynchronously(
    optimizer: Optimizer,
    stream: Stream,
    limits: Limits,
    after_generation: Callable[[Optimizer, Any], Status | None],
    explain_failure: Callable[[], Exception],
) -> Ends:
    """Run to the end. A generation is as many evaluations as there are particles (and bests to measure again).

    The target and the clock are looked at after every value, other limits after every generation. When time is up, what
    is being evaluated is waited for; when the target is reached, it is not.
    """
    size = optimizer.n_particles + optimizer.n_again
    budget = limits.evaluations(optimizer.n_to_start, size)
    boundary = optimizer.n_to_start or size  # evaluations after which a generation is complete
    if stream.slots is not None and stream.slots > optimizer.n_particles:
        warnings.warn(
            f"{optimizer.n_particles} particles cannot keep {stream.slots} workers busy, since each has one evaluation "
            "at a time: raise n_particles",
            RuntimeWarning,
            stacklevel=3,
        )
    swarm = SteadySwarm(optimizer)
    status: Status | None = None
    why = ""
    stale, last = 0, None
    try:
        while status is None:
            late = limits.deadline is not None and optimizer.nfev > 0 and time.monotonic() >= limits.deadline
            while not late and stream.room > 0 and (budget is None or swarm.n_asked < budget):
                job = swarm.ask(limits.progress(swarm.generations, optimizer.nfev))
                if job is None:
                    break
                stream.send(*job)
            if stream.in_hand == 0:
                after_generation(optimizer, None)  # an incomplete one
                status = Status.TIME if late else Status.MAXFEV
            for number, value in stream.receive(None if late else limits.deadline):
                swarm.tell(number, value)
                if stream.is_replaying:  # what was recorded earlier takes no time of this call
                    limits = limits.restarted()
                if limits.is_hit(_of(optimizer)):
                    status = Status.TARGET
                if optimizer.nfev == boundary:
                    boundary += size
                    now = _of(optimizer)
                    if now.global_value == np.inf:
                        raise explain_failure()
                    stale, last = (0 if improved(now, last) else stale + 1), now
                    spread = optimizer.spread
                    wish = after_generation(optimizer, spread)
                    reached = limits.reached(now, spread, optimizer.nit, optimizer.nfev, np.asarray(stale))
                    status = wish if reached is None else Status(int(reached))
                if status is not None:
                    break
    except (KeyboardInterrupt, EngineDown) as error:
        if _of(optimizer).global_value == np.inf:
            raise
        status, why = crashed(error)
    if _of(optimizer).global_value == np.inf:
        raise explain_failure()
    return Ends(np.asarray(status), np.asarray(optimizer.nit), np.asarray(optimizer.nfev), limits.deadline, why)


def _of(optimizer: Optimizer) -> Swarm:
    assert optimizer.swarm is not None
    return optimizer.swarm
