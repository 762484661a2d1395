"""When a run ends, and why: every reason is a status whose label is the message."""

from __future__ import annotations

import math
import time
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from paoswarm.checks import real_number, whole_number
from paoswarm.core.swarm import Swarm, score


class Status(IntEnum):
    """Why a run ended. Positive: as planned. Negative: before its time."""

    RUNNING = 0
    TARGET = 1
    COLLAPSED = 2
    STAGNATED = 3
    MAXFEV = 4
    MAXITER = 5
    TIME = 6
    CALLBACK = -1
    INTERRUPTED = -2
    CRASHED = -3
    FAILED = -4

    @property
    def message(self) -> str:
        """The reason as a sentence."""
        return _MESSAGES[self]


_MESSAGES = {
    Status.RUNNING: "The run has not ended.",
    Status.TARGET: "The target value was reached.",
    Status.COLLAPSED: "The swarm has collapsed: its spread fell below tol.",
    Status.STAGNATED: "The best value has not improved for the allowed number of generations.",
    Status.MAXFEV: "The allowed number of evaluations is used up.",
    Status.MAXITER: "The allowed number of generations is used up.",
    Status.TIME: "The time limit was reached.",
    Status.CALLBACK: "The callback asked to stop.",
    Status.INTERRUPTED: "The run was interrupted; this is the best so far.",
    Status.CRASHED: "The workers do not answer any more; this is the best so far.",
    Status.FAILED: "Every point of the first swarm failed.",
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

    @classmethod
    def read(
        cls,
        maxiter: int | None,
        maxfev: int | None,
        target: float | None,
        tol: float,
        stagnation: int | None,
        time_limit: float | None,
    ) -> Limits:
        """The user's limits, checked."""
        if maxiter is None and maxfev is None and time_limit is None:
            raise ValueError("nothing would end this run for sure: give maxiter, maxfev or time_limit")
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

    def starting_with(self, needed: int) -> Limits:
        """The same limits with the clock running, for a first swarm that costs ``needed`` evaluations."""
        if self.maxfev is not None and self.maxfev < needed:
            raise ValueError(
                f"maxfev={self.maxfev} does not pay for the first swarm, which needs {needed} evaluations: "
                "raise maxfev or lower n_particles"
            )
        return self.restarted()

    def restarted(self) -> Limits:
        """The same limits with the clock set back."""
        return self if self.time_limit is None else self._replace(deadline=time.monotonic() + self.time_limit)

    def evaluations(self, first: int, each: int) -> int | None:
        """How many evaluations there can be, where the first swarm takes ``first`` and a generation ``each``."""
        all_ = [] if self.maxfev is None else [self.maxfev]
        if self.maxiter is not None:
            all_.append(first + self.maxiter * each)
        return min(all_, default=None)

    def is_hit(self, swarm: Swarm) -> Any:
        """Whether the target is reached, by each run."""
        if self.target is None:
            return np.asarray(False)
        value = swarm.global_value
        if swarm.repeats is not None:  # a lucky value does not count: the mean must be that good, doubt included
            cautious = score(swarm.best_value, swarm.repeats).min(axis=-1)
            value = np.where(swarm.repeats.freedom > 0, cautious, np.inf)
        return value <= self.target

    def progress(self, nit: float, nfev: int) -> float:
        """How much of the budget is spent, in [0, 1]; schedules run on it. Time is left out: it cannot be repeated."""
        by_iterations = nit / self.maxiter if self.maxiter else 0.0
        by_evaluations = nfev / self.maxfev if self.maxfev else 0.0
        return min(1.0, max(by_iterations, by_evaluations))

    def reached(self, swarm: Swarm, spread: Any, nit: int, nfev: int, stale: Any) -> NDArray[np.int64] | None:
        """A `Status` for every run of the batch, the first that holds in the order of `Status`; None if all go on.

        ``spread`` is the swarms' spread, needed where ``tol`` is positive; ``stale`` the generations since a run last
        improved.
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
            reasons.append((stale >= self.stagnation, Status.STAGNATED))
        if self.tol > 0:
            reasons.append((spread < self.tol, Status.COLLAPSED))
        if self.target is not None:
            reasons.append((self.is_hit(swarm), Status.TARGET))
        if nit == 0:  # nothing is known of a run whose first swarm has failed
            reasons.append((swarm.global_value == np.inf, Status.FAILED))
        for holds, reason in reasons:
            if holds.any():
                status = np.where(holds, reason, Status.RUNNING if status is None else status)
        return None if status is None else np.broadcast_to(status, swarm.global_value.shape)
