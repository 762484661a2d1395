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
from paoswarm.optimize.one_at_a_time import OneAtATime
from paoswarm.optimize.optimizer import Optimizer
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
    stale, last = 0, optimizer.swarm
    status = None if last is None else _reached(optimizer, limits, stale)  # a run that is continued
    swarm = OneAtATime(optimizer)
    why = ""
    try:
        while status is None:
            late = limits.deadline is not None and optimizer.nfev > 0 and time.monotonic() >= limits.deadline
            spent = budget is not None and swarm.n_asked >= budget
            while stream.room > 0 and (stream.is_replaying or not (late or spent)):
                job = swarm.ask(limits.progress(swarm.generations, optimizer.nfev))
                if job is None:
                    break
                stream.send(*job)
                spent = budget is not None and swarm.n_asked >= budget
            if stream.in_hand == 0:
                status = Status.TIME
                break
            arrived = stream.receive(limits.deadline)
            if arrived is None:
                continue
            swarm.tell(*arrived)
            if stream.is_replaying:  # what was recorded earlier takes no time of this call
                limits = limits.restarted()
            if optimizer.nfev == boundary:
                boundary += size
                now = _of(optimizer)
                if now.global_value == np.inf:
                    raise explain_failure()
                stale, last = (0 if improved(now, last) else stale + 1), now
                wish = after_generation(optimizer, optimizer.spread)
                status = _reached(optimizer, limits, stale) or wish
            elif limits.is_hit(_of(optimizer)):
                status = Status.TARGET
            elif budget is not None and optimizer.nfev >= budget:
                status = Status.MAXFEV
        if status in (Status.TIME, Status.MAXFEV, Status.TARGET) and optimizer.nfev not in (0, boundary - size):
            optimizer.nit += 1  # a generation that is not complete
            after_generation(optimizer, None)
    except (KeyboardInterrupt, EngineDown) as error:
        if _of(optimizer).global_value == np.inf:
            raise
        status, why = crashed(error)
    if _of(optimizer).global_value == np.inf:
        raise explain_failure()
    return Ends(np.asarray(status), np.asarray(optimizer.nit), np.asarray(optimizer.nfev), limits.deadline, why)


def _reached(optimizer: Optimizer, limits: Limits, stale: int) -> Status | None:
    """The limit that holds now, if any but the clock: what is being evaluated when time is up is waited for."""
    timeless = limits._replace(deadline=None)
    reached = timeless.reached(_of(optimizer), optimizer.spread, optimizer.nit, optimizer.nfev, np.asarray(stale))
    return None if reached is None else Status(int(reached))


def _of(optimizer: Optimizer) -> Swarm:
    assert optimizer.swarm is not None
    return optimizer.swarm
