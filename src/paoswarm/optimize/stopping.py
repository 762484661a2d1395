"""When a run ends, and why: every reason is a status with a message."""

from __future__ import annotations

import math
import time
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from paoswarm._checks import real_number, whole_number
from paoswarm.core import order
from paoswarm.optimize.incumbent import Incumbent


class Status(IntEnum):
    """Why a run ended. Positive: by a rule or limit. Negative: from outside, or because nothing could be done."""

    RUNNING = 0
    TARGET = 1
    CONVERGED = 2
    STAGNATED = 3
    MAXFEV = 4
    MAXITER = 5
    TIME = 6
    STALLED = 7
    CALLBACK = -1
    INTERRUPTED = -2
    CRASHED = -3
    FAILED = -4

    @property
    def message(self) -> str:
        """The reason as a sentence; with the limits of a run, see `Limits.message`."""
        return _MESSAGES[self]

    @property
    def is_success(self) -> bool:
        """Whether something was achieved: the run converged, or met the user's own target, stagnation or callback."""
        return self in SUCCESSES


SUCCESSES = (Status.TARGET, Status.CONVERGED, Status.STAGNATED, Status.CALLBACK)
_MESSAGES = {
    Status.RUNNING: "The run has not ended.",
    Status.TARGET: "Reached the target.",
    Status.CONVERGED: "Converged.",
    Status.STAGNATED: "Stopped: the best value no longer improved.",
    Status.MAXFEV: "Stopped at the limit of evaluations.",
    Status.MAXITER: "Stopped at the limit of generations.",
    Status.TIME: "Stopped at the time limit.",
    Status.STALLED: "Stopped moving at a point that is no minimum.",
    Status.CALLBACK: "Stopped by the callback.",
    Status.INTERRUPTED: "Interrupted; this is the best so far.",
    Status.CRASHED: "The workers no longer answer; this is the best so far.",
    Status.FAILED: "The objective failed at every point of the first swarm.",
}


class Limits(NamedTuple):
    """Everything that may end a run; None means no limit."""

    maxiter: int | None
    maxfev: int | None
    target: float | None
    tol: float
    stagnation: int | None
    time_limit: float | None
    deadline: float | None = None  # of time.monotonic
    # What was taken off the user's limits for polishing: evaluations, and seconds.
    aside: int = 0
    time_aside: float = 0.0

    @classmethod
    def read(
        cls,
        maxiter: float | None,
        maxfev: float | None,
        target: float | None,
        tol: float,
        stagnation: int | None,
        time_limit: float | None,
        default: tuple[int | None, int | None],
    ) -> Limits:
        """The user's limits, checked; ``default`` are those of generations and evaluations if none is given."""
        if maxiter is None and maxfev is None and time_limit is None:
            maxiter, maxfev = default
        if time_limit is not None:
            time_limit = real_number("time_limit", time_limit, 0.0, may_equal=False)
        return cls(
            maxiter=None if maxiter is None else whole_number("maxiter", maxiter, 0),
            maxfev=None if maxfev is None else whole_number("maxfev", maxfev, 1),
            target=None if target is None else real_number("target", target, -math.inf, may_equal=True),
            tol=real_number("tol", tol, 0.0, may_equal=True),
            stagnation=None if stagnation is None else whole_number("stagnation", stagnation, 1),
            time_limit=time_limit,
        )

    def message(self, status: Status) -> str:
        """Why a run ended, with the limit that decided."""
        part, part_of_time = "", ""
        if self.aside and self.maxfev is not None:
            part = f", of which {self.aside} {'is' if self.aside == 1 else 'are'} for polishing"
        if self.time_aside:
            part_of_time = f", of which {self.time_aside:.3g} s are for polishing"
        sentences = {
            Status.TARGET: f"Reached target={self.target}.",
            Status.STAGNATED: f"Stopped at stagnation={self.stagnation} generations without a better point.",
            Status.MAXFEV: f"Stopped at maxfev={(self.maxfev or 0) + self.aside}{part}.",
            Status.MAXITER: f"Stopped at maxiter={self.maxiter}.",
            Status.TIME: f"Stopped at time_limit={(self.time_limit or 0) + self.time_aside:.10g} s{part_of_time}.",
        }
        return sentences.get(status, status.message)

    def starting_with(self, needed: int) -> Limits:
        """The same limits with the clock started, for a first swarm that takes ``needed`` evaluations."""
        if self.maxfev is not None and self.maxfev < needed:
            raise ValueError(
                f"maxfev={self.maxfev} is too small for the first swarm, which needs {needed} evaluations: "
                "raise maxfev or lower n_particles"
            )
        return self.restarted()

    def restarted(self) -> Limits:
        """The same limits with the clock started again."""
        return self if self.time_limit is None else self._replace(deadline=time.monotonic() + self.time_limit)

    def evaluations(self, first: int, each: int) -> int | None:
        """The most evaluations of a run whose first swarm takes ``first`` and whose generations take ``each``."""
        by_generations = [] if self.maxiter is None else [first + self.maxiter * each]
        by_evaluations = [] if self.maxfev is None else [self.maxfev]
        return min(by_generations + by_evaluations, default=None)

    def is_hit(self, best: Incumbent) -> Any:
        """Whether each run has reached the target.

        With repeated measurements a lucky value does not count: the score must reach it, and the noise be known.
        """
        if self.target is None:
            return np.asarray(False)
        score = best.score if best.error is None else np.where(np.isnan(best.error), np.inf, best.score)
        return np.asarray(~order.is_better(self.target, score))

    def progress(self, nit: float, nfev: int) -> float:
        """The share of the budget that is spent, in [0, 1]; schedules follow it. Time does not count: it varies."""
        by_iterations = nit / self.maxiter if self.maxiter else 0.0
        by_evaluations = nfev / self.maxfev if self.maxfev else 0.0
        return min(1.0, max(by_iterations, by_evaluations))

    def reached(self, best: Incumbent, converged: Any, nit: int, nfev: int, stale: Any) -> NDArray[np.int64] | None:
        """A `Status` for every run of the batch, the first that holds in the order of `Status`; None if all go on.

        ``converged`` holds a `Rule` for each run, None if none has converged; ``stale`` counts generations without a
        better point.
        """
        status: Any = None
        if self.maxfev is not None and nfev >= self.maxfev:
            status = Status.MAXFEV
        elif self.maxiter is not None and nit >= self.maxiter:
            status = Status.MAXITER
        elif self.deadline is not None and time.monotonic() >= self.deadline:
            status = Status.TIME
        reasons: list[tuple[Any, Status]] = []
        if self.stagnation is not None:
            reasons.append((np.asarray(stale >= self.stagnation), Status.STAGNATED))
        if converged is not None:
            reasons.append((converged != 0, Status.CONVERGED))
        if self.target is not None:
            reasons.append((self.is_hit(best), Status.TARGET))
        if nit == 0:  # nothing is known about a run whose first swarm has failed
            reasons.append((best.value == np.inf, Status.FAILED))
        for holds, reason in reasons:
            if holds.any():
                status = np.where(holds, reason, Status.RUNNING if status is None else status)
        return None if status is None else np.broadcast_to(status, best.value.shape)
