"""One search that all workers of a study share. They do not talk to each other: they read the same trials.

The swarm moves in generations. Each point of a generation is a *row*, and a trial that evaluates it says so in its
attributes (`Seat`). When every row has been evaluated, the generation is closed: the swarm is told the values and asks
for the next points. Everything follows from the seed and from the values told. So a worker that joins, or starts again
tomorrow, rebuilds the swarm from the trials.

Two workers may close a generation at the same moment with different trials, or begin two searches. Then the trial with
the lower number is right, and the other worker builds its swarm again.

Two workers may also choose the same row at the same moment. So a worker reads the trials again after it has said which
row it evaluates, and chooses another one if there is another trial in it. The one that was later always sees the other.

If all rows are being evaluated, a worker gets an *extra* point, which the swarm might have asked for as well. A worker
may have died. So if as many extra points as rows have been evaluated, the missing rows count as failed.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution, distribution_to_json
from optuna.trial import FrozenTrial, TrialState

from paoswarm import Choice, Integer, Method, Optimizer, Real, Returned
from paoswarm.helpers import Variable
from paoswarm.optuna.study_trials import ATTRIBUTE, Seat, Seats, StudyTrials, constraints_of

Floats = NDArray[np.float64]
ATTEMPTS = 4  # to find a row that no other trial has taken at the same moment; the last one is an extra point
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")  # of functions; it differs between processes
_CLOSE = 1e-9  # relative difference of numbers that are the same, but for the last digits of another computer


def is_taken(seat: Seat, seats: Seats) -> bool:
    """Return whether another trial has the same seat."""
    return seat in seats.get(seat.generation, {}).values()


class SharedSearch:
    """A swarm as the trials of a study have moved it; those with ``known`` numbers are part of the first swarm."""

    def __init__(
        self, space: TrialSpace, method: Method, seed: int, known: list[int | None], trials: StudyTrials
    ) -> None:
        self.space, self.method, self.seed = space, method, seed
        self.told: list[list[int | None]] = [known]  # before each generation
        self._optimizer = self._begun([trials[number] for number in known if number is not None])
        self._rows = self._asked(self._optimizer)

    def _begun(self, trials: list[FrozenTrial]) -> Optimizer:
        """The swarm of the first generation, with complete trials as part of it."""
        points = [self.space.point(trial) for trial in trials]
        if not points or None in points:
            return _optimizer(self.space, self.method, self.seed)
        answers = np.stack([self.space.answer(trial) for trial in trials])
        if not self.space.constraints:
            optimizer = _optimizer(self.space, self.method, self.seed)
            optimizer.inject(points, answers[:, 0])  # type: ignore[arg-type]
            return optimizer
        optimizer = _optimizer(self.space, self.method, self.seed, x0=points, n_particles=len(points))
        optimizer.ask()
        optimizer.tell(answers[:, 0], answers[:, 1:])
        return optimizer

    def _asked(self, optimizer: Optimizer) -> list[dict[str, Any]]:
        """The parameters of the points that a swarm asks for."""
        return [self.space.params(point) for point in optimizer.ask()]

    @property
    def generation(self) -> int:
        """The number of the generation that is being evaluated."""
        return len(self.told) - 1

    def follow(self, seats: Seats, trials: StudyTrials) -> bool:
        """Catch up with the trials; False if others have told the swarm something else."""
        for generation, told in enumerate(self.told):
            others = seats.get(generation)
            if others and (self.seed, told) != next((one.seed, one.told) for one in others.values()):
                return False
        while True:
            after = seats.get(self.generation + 1)
            evaluated = next(iter(after.values())).told if after else self._evaluated(seats, trials)
            if evaluated is None:
                return True
            self._tell(evaluated, trials)

    def _evaluated(self, seats: Seats, trials: StudyTrials) -> list[int | None] | None:
        """The trials that have evaluated the rows of this generation; None if it is not complete."""
        finished = {n: seat for n, seat in seats.get(self.generation, {}).items() if trials[n].state.is_finished()}
        by_row: dict[int | None, int] = {}
        # A trial that failed may have been repeated in the same seat.
        for number in sorted(finished, key=lambda n: (trials[n].state != TrialState.COMPLETE, n)):
            by_row.setdefault(finished[number].row, number)
        told = [by_row.get(row) for row in range(len(self._rows))]
        n_extra = sum(seat.row is None for seat in finished.values())
        return told if None not in told or n_extra >= len(told) else None

    def _tell(self, told: list[int | None], trials: StudyTrials) -> None:
        """Close a generation."""
        nothing = np.full(1 + len(self.space.constraints), np.nan)
        answers, pruned = np.tile(nothing, (len(self._rows), 1)), []
        for row, number in enumerate(told[: len(self._rows)]):
            trial = None if number is None else trials[number]
            if trial is None or not self.space.is_at(trial, self._rows[row]):
                continue  # it has other parameters if the user has changed the function
            answers[row] = self.space.answer(trial)
            if trial.state == TrialState.PRUNED:
                pruned.append((row, self.space.last_report(trial)))
        # A pruned trial is no better than the complete ones beside it, whatever it had reported.
        complete = answers[:, 0][np.isfinite(answers[:, 0])]
        for row, value in pruned:
            answers[row, 0] = max(value, complete.max()) if len(complete) and not math.isnan(value) else math.nan
        self.told.append(told)
        if self._optimizer.swarm is None and not len(self.told[0]) and not np.isfinite(answers).all(axis=1).any():
            # No swarm can begin without a value: it asks for other first points.
            self._optimizer = _optimizer(self.space, self.method, [self.seed, self.generation])
        else:
            self._optimizer.tell(answers[:, 0], answers[:, 1:] if self.space.constraints else None)
        self._rows = self._asked(self._optimizer)

    def sit(self, number: int, seats: Seats, trials: StudyTrials, attempt: int = 0) -> tuple[Seat, dict[str, Any], int]:
        """A seat for the trial with this number, its parameters, and how many rows there were to choose from."""
        taken = {seat.row for seat in seats.get(self.generation, {}).values()}
        free = [row for row in range(len(self._rows)) if row not in taken]
        row = None
        if free and attempt == 0:
            # Others may be choosing at this moment: those before this trial take the rows before its own.
            row = free[sum(one.number < number and _is_choosing(one) for one in trials.open) % len(free)]
        elif free and attempt < ATTEMPTS - 1:  # by chance: the trial in the same row may have to choose again, too
            row = int(np.random.default_rng([self.seed, number, attempt]).choice(free))
        seat = Seat(self.space.key, self.seed, self.generation, row, self.told[-1])
        return seat, self._rows[row] if row is not None else self._extra(number), len(free)

    def _extra(self, number: int) -> dict[str, Any]:
        """Parameters that the swarm might have asked for as well; each number gives others."""
        rng = np.random.default_rng([self.seed, self.generation, number])
        init = "random" if self._optimizer.swarm is None else self._optimizer.result
        points = self._asked(_optimizer(self.space, self.method, rng, init=init))
        # A generation that does not depend on chance has no others: then anywhere.
        points = [point for point in points if point not in self._rows] or self._asked(
            _optimizer(self.space, self.method, rng, init="random")
        )
        return points[rng.integers(len(points))]


def _optimizer(space: TrialSpace, method: Method, rng: Any, **start: Any) -> Optimizer:
    limits = Returned(len(space.constraints)) if space.constraints else None
    return Optimizer(space.variables, method=method, constraints=limits, rng=rng, **start)


def known_trials(space: TrialSpace, method: Method, trials: StudyTrials) -> list[int | None]:
    """Numbers of the best complete trials with these parameters, as many as a first swarm has particles.

    With constraints, a whole swarm or none: the units of the violations come from it.
    """
    n_particles = _optimizer(space, method, 0).n_particles
    done = [trial for trial in trials if trial.state == TrialState.COMPLETE and space.point(trial) is not None]
    answers = {trial.number: space.answer(trial) for trial in done}
    numbers = [n for n in answers if np.isfinite(answers[n]).all()]
    numbers.sort(key=lambda n: (answers[n][1:].clip(0).sum(), answers[n][0]))
    if space.constraints and len(numbers) < n_particles:
        return []
    return [*numbers[:n_particles]]


def _is_choosing(trial: FrozenTrial) -> bool:
    """Return whether a trial has begun without any parameters so far."""
    return trial.state == TrialState.RUNNING and not trial.params and ATTRIBUTE not in trial.system_attrs


# Optuna's distributions as variables of a swarm, and trials as points with values


class TrialSpace:
    """The parameters that a search chooses, none with a single value only, and the constraints that it knows.

    ``sign`` is 1 if the study minimises, -1 if it maximises, and ``method`` a text that tells the method from others.
    All workers have the same ``key``, and another one for other parameters, constraints or methods.
    """

    def __init__(
        self, distributions: Mapping[str, BaseDistribution], constraints: tuple[str, ...], sign: float, method: str = ""
    ) -> None:
        self.distributions = dict(distributions)
        self.constraints = constraints
        self.sign = sign
        parts = [[name, distribution_to_json(one)] for name, one in self.distributions.items()]
        text = json.dumps([parts, constraints, sign, _ADDRESS.sub("", method)])
        self.key = hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def variables(self) -> dict[str, Variable]:
        """The parameters as the swarm's variables."""
        return {name: _variable(one) for name, one in self.distributions.items()}

    def params(self, point: Mapping[str, Any]) -> dict[str, Any]:
        """The parameters of a trial at a point of the swarm."""
        return {name: _param(one, point[name]) for name, one in self.distributions.items()}

    def point(self, trial: FrozenTrial) -> dict[str, Any] | None:
        """The parameters of a trial as a point of the swarm; None if it has not got all of them, within their range."""
        for name, one in self.distributions.items():
            if name not in trial.params or not _contains(one, trial.params[name]):
                return None
        return {name: _value(one, trial.params[name]) for name, one in self.distributions.items()}

    def is_at(self, trial: FrozenTrial, params: Mapping[str, Any]) -> bool:
        """Return whether the parameters that a trial has are these."""
        return all(_is_same(trial.params[name], value) for name, value in params.items() if name in trial.params)

    def answer(self, trial: FrozenTrial) -> Floats:
        """The value of a trial, to be minimised, and its constraints; NaN if it was pruned or has failed."""
        value = self.sign * _number(trial.value) if trial.state == TrialState.COMPLETE else math.nan
        numbers = constraints_of(trial)
        return np.array([value, *(_number(numbers.get(name)) for name in self.constraints)])

    def last_report(self, trial: FrozenTrial) -> float:
        """The last intermediate value of a trial, to be minimised; NaN if there is none."""
        reports = trial.intermediate_values
        return self.sign * _number(reports[max(reports)]) if reports else math.nan


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)


def _steps(one: Any) -> int | None:
    """The number of equal steps of a range; None for a category, on a log scale, and without steps."""
    if isinstance(one, CategoricalDistribution) or one.step is None or one.log:
        return None
    return round((one.high - one.low) / one.step)


def _variable(one: Any) -> Variable:
    if isinstance(one, CategoricalDistribution):
        return Choice(range(len(one.choices)))  # by number: entries may be equal, as 1 and True are
    if (steps := _steps(one)) is not None:
        return Integer(0, steps)
    # Half a unit more at both ends, so that the first and the last whole number are as likely as others.
    room = 0.5 if isinstance(one, IntDistribution) else 0.0
    return Real(one.low - room, one.high + room, log=one.log)


def _param(one: Any, value: Any) -> Any:
    if isinstance(one, CategoricalDistribution):
        return one.choices[value]
    if _steps(one) is not None:
        value = one.low + value * one.step
    if isinstance(one, IntDistribution):
        value = round(value)
    return type(one.low)(min(max(value, one.low), one.high))


def _value(one: Any, param: Any) -> Any:
    if isinstance(one, CategoricalDistribution):
        return int(one.to_internal_repr(param))
    if (steps := _steps(one)) is not None:
        return min(max(round((param - one.low) / one.step), 0), steps)
    return float(param)


def _contains(one: Any, param: Any) -> bool:
    if isinstance(one, CategoricalDistribution):
        return any(param is choice or param == choice for choice in one.choices)
    return isinstance(param, int | float) and one.low <= param <= one.high


def _is_same(param: Any, other: Any) -> bool:
    if isinstance(param, float) and isinstance(other, float):
        return math.isclose(param, other, rel_tol=_CLOSE, abs_tol=_CLOSE)
    return bool(param == other)
