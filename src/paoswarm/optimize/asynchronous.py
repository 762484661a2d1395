"""The loop behind ``minimize(..., asynchronous=True)``: no worker waits for another."""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray

from paoswarm._text import warn_user
from paoswarm.evaluation.engines import EngineDown
from paoswarm.evaluation.evaluator import Evaluator
from paoswarm.evaluation.known_points import KnownPoints
from paoswarm.evaluation.recalling import RecallingStream
from paoswarm.evaluation.stream import Stream
from paoswarm.optimize.convergence import Rule
from paoswarm.optimize.exchange import status_of
from paoswarm.optimize.look_around import is_worth_it
from paoswarm.optimize.loop import AfterGeneration, Ends, drive, rule_of
from paoswarm.optimize.one_at_a_time import OneAtATime
from paoswarm.optimize.side_searches import look_around
from paoswarm.optimize.stopping import Limits, Status


def solve_asynchronously(
    optimizer: OneAtATime,
    evaluate: Evaluator,
    limits: Limits,
    after_generation: AfterGeneration,
    known: KnownPoints | None = None,
) -> Ends:
    """Run to the end.

    The clock is checked after every value, and so is the target if particles move one at a time; other limits are
    checked after every generation. When time is up, the points that are being evaluated are waited for; when the target
    is reached, they are not. Points that are ``known`` are not evaluated.
    """
    stream = evaluate.stream() if known is None else RecallingStream(evaluate.stream(), known)
    if stream.slots is not None and stream.slots > optimizer.n_particles:
        warn_user(
            f"{optimizer.n_particles} particles cannot keep {stream.slots} workers busy, since each has one evaluation "
            "at a time: raise n_particles"
        )
    why = ""
    try:
        status, limits = _run(optimizer, stream, limits, evaluate, after_generation, known)
        if not optimizer.is_complete and status in (Status.TIME, Status.MAXFEV, Status.TARGET):
            optimizer.cut_short()
            after_generation(optimizer)
            status = _reached(optimizer, limits, known) or status
    except (KeyboardInterrupt, EngineDown) as error:
        is_cut = not optimizer.is_complete
        if is_cut:
            optimizer.cut_short()
        if optimizer.swarm is None or optimizer.incumbent.value == np.inf:
            raise
        if is_cut:
            after_generation(optimizer)
        status, why = status_of(error)
    if optimizer.incumbent.value == np.inf:
        raise evaluate.explain_total_failure()
    stream.close()
    rule = _converged(optimizer, limits, known)
    rule = np.asarray(Rule.NONE) if rule is None else rule
    if status is Status.CONVERGED and is_worth_it(rule, limits.tol):
        try:
            seen = drive(look_around(optimizer, limits, np.asarray(True)), evaluate, known)
            status, why = Status(int(seen.status)), seen.why
        except (KeyboardInterrupt, EngineDown) as error:
            status, why = status_of(error)
    nit, nfev = np.asarray(optimizer.nit), np.asarray(optimizer.nfev)
    return Ends(np.asarray(status), nit, nfev, rule, limits.deadline, why)


def _run(
    optimizer: OneAtATime,
    stream: Stream | RecallingStream,
    limits: Limits,
    evaluate: Evaluator,
    after_generation: AfterGeneration,
    known: KnownPoints | None,
) -> tuple[Status, Limits]:
    """Send and receive points until something ends the run; the limits with the clock as it was last started."""
    if (
        optimizer.n_to_start == 0 and (status := _reached(optimizer, limits, known)) is not None
    ):  # a run that is continued
        return status, limits
    while True:
        late = limits.deadline is not None and optimizer.nfev > 0 and time.monotonic() >= limits.deadline
        while stream.room > 0 and (stream.is_replaying or not late):
            if not optimizer.may_ask(limits) and not stream.is_replaying:
                break
            job = optimizer.ask_one(limits.progress(optimizer.generations, optimizer.nfev))
            if job is None:
                break
            stream.send(job.number, evaluate.rows(job.x))
        if stream.in_hand == 0:
            return Status.TIME, limits
        arrived = stream.receive(limits.deadline)
        if arrived is None:
            continue
        is_generation = optimizer.tell_one(*arrived)
        if stream.is_replaying:  # recorded values take no time of this call
            limits = limits.restarted()
        if is_generation:
            if optimizer.incumbent.value == np.inf:
                raise evaluate.explain_total_failure()
            wish = after_generation(optimizer)
            status = _reached(optimizer, limits, known) or wish
            if status is not None:
                return status, limits
        elif optimizer.swarm is not None and limits.is_hit(optimizer.incumbent):
            return Status.TARGET, limits
        elif limits.maxfev is not None and optimizer.nfev >= limits.maxfev:
            return Status.MAXFEV, limits


def _converged(optimizer: OneAtATime, limits: Limits, known: KnownPoints | None) -> NDArray[np.int64] | None:
    rule = rule_of(known)
    return np.asarray(rule) if rule else optimizer.has_converged(limits.tol)


def _reached(optimizer: OneAtATime, limits: Limits, known: KnownPoints | None) -> Status | None:
    """The limit that holds now, if any but the clock: when time is up, points under way are waited for."""
    converged = _converged(optimizer, limits, known)
    timeless = limits._replace(deadline=None)
    reached = timeless.reached(optimizer.incumbent, converged, optimizer.nit, optimizer.nfev, optimizer.stale)
    return None if reached is None else Status(int(reached))
