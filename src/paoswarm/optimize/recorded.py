"""Evaluation with a memory on disk: what is recorded is not evaluated again, what is evaluated is recorded first."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import OptimizeResult

from paoswarm.core.swarm import Swarm
from paoswarm.core.walled import Floats
from paoswarm.optimize.calls import Answers, Failed, Objective, sort_out
from paoswarm.optimize.evaluation import Evaluator
from paoswarm.optimize.initial import design_name
from paoswarm.optimize.optimizer import Optimizer
from paoswarm.optimize.problem import whole_number
from paoswarm.optimize.stopping import Limits
from paoswarm.storage.describe import encode
from paoswarm.storage.journal import Journal
from paoswarm.storage.store import Run


def open_evaluator(fun: Objective, journal: Journal | None, *, vectorized: bool, workers: Any) -> Evaluator:
    """An evaluator that uses the journal, where there is one."""
    if journal is None:
        return Evaluator(fun, vectorized=vectorized, workers=workers)
    return RecordedEvaluator(fun, journal, vectorized=vectorized, workers=workers)


def described(
    optimizer: Optimizer, limits: Limits, given: dict[str, Any], how: dict[str, Any], seed: dict[str, Any]
) -> Run:
    """A run of `minimize` as JSON.

    What decides on the points must stay as it is. Limits may change: whether they lead to another run, as they do where
    a schedule depends on them, shows when the recorded points are compared with those that are asked for.
    """
    problem = {
        "bounds": np.stack([optimizer.lower, optimizer.upper], axis=1).tolist(),
        "method": encode(optimizer.method),
        "n_particles": optimizer.n_particles,
        **{name: encode(_plain(value)) for name, value in given.items()},
        "rng": seed,
    }
    expected = [] if limits.maxfev is None else [limits.maxfev]
    if limits.maxiter is not None:
        expected.append(optimizer.n_to_start + limits.maxiter * (optimizer.n_particles + optimizer.n_again))
    kept = {name: encode(value) for name, value in limits._asdict().items() if name != "deadline"}
    polish = bool(how["polish"])
    return Run("minimize", problem, {**kept, "polish": polish, "expected": min(expected, default=None)}, calling(how))


def calling(how: dict[str, Any]) -> dict[str, Any]:
    """How the objective is called, as JSON; a map-like has to be given again."""
    workers = how["workers"]
    if not callable(workers) and workers != -1:
        workers = whole_number("workers", workers, 1)
    return {"vectorized": bool(how["vectorized"]), "workers": None if callable(workers) else workers}


def _plain(value: Any) -> Any:
    """Points as arrays, the name of a design as we spell it, a swarm or a number as it is."""
    if isinstance(value, str):
        return design_name(value)
    if value is None or isinstance(value, Swarm | int | float):
        return value
    return value.swarm if isinstance(value, OptimizeResult) else np.asarray(value, dtype=float)


class RecordedEvaluator(Evaluator):
    """Values from the journal of a run where it has them; others are on disk before anybody sees them.

    Points are recorded one at a time as they are finished; with ``workers``, those of one task or what a map-like gives
    out; with ``vectorized``, those of one call.
    """

    def __init__(self, fun: Objective, journal: Journal, *, vectorized: bool = False, workers: Any = 1) -> None:
        super().__init__(fun, vectorized=vectorized, workers=workers)
        self._journal = journal

    def explain_total_failure(self) -> ValueError:
        """The error for a first swarm without a single finite value, which would come again."""
        error = super().explain_total_failure()
        again = ValueError(f"{error}; {self._journal.path} has recorded that: remove it once fun is mended")
        again.__cause__ = error.__cause__
        return again

    def _values(self, x: Floats, deadline: float | None) -> tuple[Floats, bool]:
        values, known, reasons = self._journal.recall(x)
        failed = {row: Failed(why, raised=why.startswith("raised ")) for row, why in reasons.items()}
        missing = np.flatnonzero(~known)
        self.replayed = len(missing) == 0
        interrupted = False
        doubtful: list[tuple[int, Answers]] = []

        def keep(first: int, answers: Answers) -> None:
            some, wrong = sort_out(answers)
            if not self._checked and sum(why.wrong_form for why in wrong.values()) == len(some):
                doubtful.append((first, answers))  # perhaps of another function: wait for an answer of the right form
            else:
                record(first, some, wrong)

        def record(first: int, some: Floats, wrong: dict[int, Failed]) -> None:
            rows = missing[first : first + len(some)]
            self._journal.append(rows, x[rows], some, {row: why.reason for row, why in wrong.items()})
            values[rows], known[rows] = some, True
            failed.update({int(rows[row]): why for row, why in wrong.items()})

        if len(missing):
            interrupted = self._answers(x[missing], deadline, keep)[1]
            for first, answers in doubtful:
                if not known[missing].any() and (len(missing) > 1 or not self._journal.resumed):
                    self._count(x[missing[first:]], sort_out(answers)[1])  # raises
                record(first, *sort_out(answers))
            self._trust(x[missing])
        done = len(x) if known.all() else int(np.argmin(known))  # what comes after a gap is recorded, but not used yet
        self._count(x, {row: why for row, why in failed.items() if row < done})
        return values[:done], interrupted
