"""The one loop behind `minimize` and `minimize_many`: ask, evaluate, tell, until every run has ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from paoswarm.core.swarm import Swarm
from paoswarm.evaluation.engines import EngineDown
from paoswarm.evaluation.evaluator import End, Evaluator
from paoswarm.optimize.optimizer import Optimizer
from paoswarm.optimize.stopping import Limits, Status
from paoswarm.storage.log import logger


class Ends(NamedTuple):
    """How each run of a batch ended."""

    status: NDArray[np.int64]
    nit: NDArray[np.int64]
    nfev: NDArray[np.int64]
    deadline: float | None  # what is left of the time
    why: str = ""  # the workers do not answer any more


def solve(
    optimizer: Optimizer,
    evaluate: Evaluator,
    limits: Limits,
    after_generation: Callable[[Optimizer, Any], Status | None],
) -> Ends:
    """Run a batch to its end.

    ``after_generation(optimizer, spread)`` may return a status that ends all runs. A finished run is frozen and costs
    no more evaluations. An interrupt ends the runs that are still going; nothing that was told is lost.
    """
    status, nit, nfev = (np.zeros(optimizer.batch, dtype=np.int64) for _ in range(3))
    stale: Any = np.zeros(optimizer.batch, dtype=np.int64)
    why = ""
    active: NDArray[np.bool_] | None = None  # a mask only once some runs have ended
    last: Swarm | None = None  # the generation before
    started = optimizer.swarm is not None  # a run that is continued may have reached its limits already
    try:
        while True:
            outcome = _Outcome(moved=False) if started else _generation(optimizer, evaluate, limits, active)
            started = False
            if evaluate.replayed:  # what was recorded earlier takes no time of this call
                limits = limits.restarted()
            swarm = optimizer.swarm
            assert swarm is not None
            if limits.stagnation is not None:
                stale = np.where(improved(swarm, last), 0, stale + outcome.moved)
                last = swarm
            done = optimizer.nit
            spread = optimizer.spread if limits.tol > 0 else None
            reached = limits.reached(swarm, spread, done - outcome.is_late, optimizer.nfev, stale)
            wish = after_generation(optimizer, spread) if outcome.moved else None
            if outcome.end is not None:
                wish, why = crashed(outcome.end)
            if reached is None and wish is None:
                continue
            going = status == 0
            for reason in (reached, wish):
                if reason is not None:
                    status = np.where(status == 0, reason, status)
            nit, nfev = np.where(going, done, nit), np.where(going, optimizer.nfev, nfev)
            if status.all():
                return Ends(status, nit, nfev, limits.deadline, why)
            active = status == 0
    except (KeyboardInterrupt, EngineDown) as error:
        if optimizer.swarm is None:
            raise
        going = status == 0
        nit, nfev = np.where(going, optimizer.nit, nit), np.where(going, optimizer.nfev, nfev)
        end, why = crashed(error)
        return Ends(np.where(going, end, status), nit, nfev, limits.deadline, why)


@contextmanager
def telling_the_best(optimizer: Optimizer) -> Iterator[None]:
    """An error that ends a run for good (in an attractor of the user's, say) is told with the best so far."""
    try:
        yield
    except Exception as error:
        swarm = optimizer.swarm
        if swarm is not None and optimizer.nfev and np.isfinite(swarm.global_value):
            best = f"{swarm.global_value} at x = {swarm.global_best[0].tolist()}"
            error.add_note(f"The best of the {optimizer.nfev} evaluations that were made: {best}")
        raise


def crashed(error: BaseException) -> tuple[Status, str]:
    """What an interrupt, or workers that do not answer, mean for a run that has something to show."""
    if not isinstance(error, EngineDown):
        return Status.INTERRUPTED, ""
    logger.error("%s", error)
    return Status.CRASHED, str(error)


def improved(swarm: Swarm, last: Swarm | None) -> Any:
    """Whether each run has a better best than a generation ago; of a noisy objective, whether it has another leader."""
    if last is None:
        return np.asarray(True)
    if swarm.repeats is None:
        return swarm.global_value < last.global_value
    return (swarm.global_best != last.global_best).any(axis=(-2, -1))


class _Outcome(NamedTuple):
    """Whether a generation was told, what has ended it, and whether time was up before it was complete."""

    moved: bool
    end: End = None
    is_late: bool = False


def _generation(
    optimizer: Optimizer, evaluate: Evaluator, limits: Limits, active: NDArray[np.bool_] | None
) -> _Outcome:
    """Ask, evaluate and tell once; whatever was evaluated when time ran out or an interrupt came is told."""
    x = optimizer.points(limits.progress(optimizer.nit, optimizer.nfev))
    m, d = x.shape[-2:]
    k = m if limits.maxfev is None else min(m, limits.maxfev - optimizer.nfev)
    rows = x[..., :k, :] if active is None else x[active, :k, :]
    end: End = None
    is_late = False
    if optimizer.batch:
        values = evaluate(rows.reshape(-1, d)).reshape(rows.shape[:-1])
    else:  # a single run may stop between two points
        values, end = evaluate.until(limits.deadline, rows)
        is_late, k = len(values) < k and end is None, len(values)
        if k == 0 and optimizer.swarm is not None:
            return _Outcome(moved=False, end=end)
    if optimizer.swarm is None and not optimizer.knows_a_value and not (values < np.inf).any():
        if end is not None:  # nothing is known yet
            raise end
        raise evaluate.explain_total_failure()
    if k == m and active is None:
        optimizer.take(values)
    else:
        f = np.full((*optimizer.batch, m), np.nan)
        f[(..., slice(k)) if active is None else (active, slice(k))] = values
        optimizer.take(f, k, active)
    return _Outcome(moved=True, end=end, is_late=is_late)
