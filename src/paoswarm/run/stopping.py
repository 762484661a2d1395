"""When a run ends, and why: limits, rules of convergence, and the sentence that says so.

Convergence is judged on positions, on values with rounding in mind, and on patience. Positions alone do not do. If the
minimum is not zero, values near it are equal after rounding: no particle improves any more, the bests freeze, and the
swarm keeps a spread of 1e-10 to 1e-8 box widths. Under noise, on plateaus, and in a swarm that is split over several
minima, it stays wider still. ``benchmarks/ends.py`` measures how often these rules stop too early and how often they do
not stop a run that is done.
"""

from __future__ import annotations

import math
import time
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from paoswarm._checks import real_number, whole_number
from paoswarm.core import order
from paoswarm.core.arrays import Floats
from paoswarm.core.swarm import Swarm
from paoswarm.methods.agreement import Agreement
from paoswarm.methods.moves import TOL
from paoswarm.run.judge import Incumbent


class Status(IntEnum):
    """Why a run ended. Positive: by a rule or limit. Negative: from outside, or because nothing could be done."""

    RUNNING = 0
    TARGET = 1
    CONVERGED = 2
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
        """Whether something was achieved: the run converged, or met the user's own target or callback."""
        return self in SUCCESSES


SUCCESSES = (Status.TARGET, Status.CONVERGED, Status.CALLBACK)
_MESSAGES = {
    Status.RUNNING: "The run has not ended.",
    Status.TARGET: "Reached the target.",
    Status.CONVERGED: "Converged.",
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

    def reached(self, best: Incumbent, converged: Any, nit: int, nfev: int) -> NDArray[np.int64] | None:
        """A `Status` for every run of the batch, the first that holds in the order of `Status`; None if all go on.

        ``converged`` holds a `Rule` for each run, None if none has converged.
        """
        status: Any = None
        if self.maxfev is not None and nfev >= self.maxfev:
            status = Status.MAXFEV
        elif self.maxiter is not None and nit >= self.maxiter:
            status = Status.MAXITER
        elif self.deadline is not None and time.monotonic() >= self.deadline:
            status = Status.TIME
        reasons: list[tuple[Any, Status]] = []
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


NO_LIMITS = Limits(None, None, None, 0.0, None)

# Bests that differ by less, relative to the best value, are equal but for rounding. A sum of squares over a few
# thousand data is not more accurate.
SAME = 1e-14
# Box widths. All particles of a wider swarm may have the same value because they are on one step of a rounded function.
NEAR = 1e-4
_PATIENCE = 20  # generations without a better point, for each unknown and one more


class Rule(IntEnum):
    """Which rule ended a run."""

    NONE = 0
    SPREAD = 1
    VALUES = 2
    PATIENCE = 3
    OWN = 4  # of the method
    COMPLETE = 5  # every point there is was evaluated
    NOTHING_NEW = 6  # no new points are found


def patience(n_unknowns: int) -> int:
    """Generations without a better point after which a run has converged."""
    return _PATIENCE * (1 + n_unknowns)


def judge_convergence(swarm: Swarm, spread: Floats, stale: Any, tol: float) -> NDArray[np.int64] | None:
    """The `Rule` by which each run has converged; None if no run has.

    ``spread`` is that of the particles, in widths of the bounds; ``stale`` counts generations without a better point.
    """
    is_near = spread < max(tol, NEAR)
    is_stale = np.asarray(stale >= patience(swarm.n_dimensions))
    if not is_near.any() and not is_stale.any():
        return None
    rule = np.where(is_stale, Rule.PATIENCE, Rule.NONE)
    if swarm.repeats is None:  # means of measurements agree by chance
        rule = np.where((spread < NEAR) & _agree(swarm), Rule.VALUES, rule)
    return np.where(spread < tol, Rule.SPREAD, rule)


def _agree(swarm: Swarm) -> Any:
    """Whether the best values of all particles are the same but for rounding."""
    best = swarm.global_value
    with np.errstate(invalid="ignore", over="ignore"):  # infinities
        return swarm.best_value.max(axis=-1) - best <= SAME * np.abs(best)


_BACK = 10  # generations over which progress is told
_OUT_OF_BUDGET = (Status.MAXFEV, Status.MAXITER, Status.TIME)
_REGARDLESS = (Status.TARGET, Status.CALLBACK, Status.FAILED)  # then it does not matter whether searches agree


def explain(
    status: Status,
    rule: Rule,
    limits: Limits,
    best: Floats,
    value: float,
    n_unknowns: int,
    method: object,
    agreement: Agreement | None = None,
) -> str:
    """The sentences for a run with these ``best`` values after its generations, and a final ``value``."""
    why = limits.message(status)
    if status in _REGARDLESS or rule in (Rule.COMPLETE, Rule.NOTHING_NEW):
        agreement = None
    if status is Status.CONVERGED and agreement is not None:
        within = f" within tol={limits.tol:g}" if limits.tol > TOL else ""
        return f"{f'Converged{within}' if agreement.is_feasible else 'Stopped'}: {agreement}"
    if status is Status.CONVERGED:
        why = {
            Rule.NONE: "Converged.",
            Rule.SPREAD: f"Converged: the swarm's spread is below tol={limits.tol:g}.",
            Rule.VALUES: "Converged: the best values of all particles are equal to rounding.",
            Rule.PATIENCE: f"Converged: no better point in the last {patience(n_unknowns)} generations.",
            Rule.COMPLETE: "Converged: every point of the space was evaluated.",
            Rule.NOTHING_NEW: "Converged: the swarm finds no points that were not evaluated before.",
            Rule.OWN: f"Converged, by the rule of {type(method).__name__}.",
        }[rule]
    elif status is Status.STALLED and len(best):
        why = f"{status.message[:-1]}: a point near it has {value:.6g} instead of {best[-1]:.6g}."
    elif status in _OUT_OF_BUDGET and not (agreement is not None and (agreement.n_searches or method is None)):
        why = f"{why[:-1]}{_progress(best)}."
    return why if agreement is None else f"{why} {agreement}"


def _progress(best: Floats) -> str:
    """How the best value has changed over the last generations; empty if there are none."""
    back = min(_BACK, len(best) - 1)
    if back < 1 or not math.isfinite(best[-1]):
        return ""
    over = f"over the last {back} generations" if back > 1 else "in the last generation"
    before, now = float(best[-1 - back]), float(best[-1])
    if now == before:
        return f"; the best value did not change {over}"
    share = (before - now) / abs(before) if before and math.isfinite(before) else math.inf
    if 0 < share < 0.5:
        return f"; the best value fell by {100 * share:.2g} % {over}"
    return f"; the best value {'fell' if now < before else 'rose'} from {before:.3g} to {now:.3g} {over}"
