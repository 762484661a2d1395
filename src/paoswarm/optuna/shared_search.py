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

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from optuna.trial import FrozenTrial, TrialState

from paoswarm import Method, Optimizer, Returned
from paoswarm.helpers import Draw
from paoswarm.optuna.trial_space import Floats, TrialSpace

ATTRIBUTE = "paoswarm:seat"
ATTEMPTS = 4  # to find a row that no other trial has taken at the same moment; the last one is an extra point


class Seat(NamedTuple):
    """The point of a search that a trial evaluates."""

    search: str  # key of its space
    seed: int
    generation: int
    row: int | None  # None for an extra point
    told: list[int | None]  # trials whose values the swarm was told before this generation; None for a missing row


Seats = dict[int, dict[int, Seat]]  # generation -> number of the trial -> its seat


def read_seats(trials: Iterable[FrozenTrial], key: str) -> Seats:
    """The seats of all trials in the search with this key that agree on what it has been told so far."""
    found: Seats = {}
    for trial in trials:  # the lowest number comes first
        if ATTRIBUTE not in trial.system_attrs or trial.system_attrs[ATTRIBUTE][0] != key:
            continue
        seat = Seat(*trial.system_attrs[ATTRIBUTE])
        own = found.setdefault(seat.generation, {})
        if not own or (seat.seed, seat.told) == next((one.seed, one.told) for one in own.values()):
            own[trial.number] = seat
    return found


def is_taken(seat: Seat, number: int, trials: Mapping[int, FrozenTrial]) -> bool:
    """Return whether another trial than the one with this number has the same seat."""
    return any(n != number and one.system_attrs.get(ATTRIBUTE) == list(seat) for n, one in trials.items())


class SharedSearch:
    """A swarm as the trials of a study have moved it.

    Parameters
    ----------
    space : TrialSpace
    method : Method
    seed : int
    known : list of int
        Numbers of the trials that are part of the first swarm.
    trials : dict of int to FrozenTrial
        All trials of the study.
    """

    def __init__(
        self,
        space: TrialSpace,
        method: Method,
        seed: int,
        known: list[int | None],
        trials: Mapping[int, FrozenTrial],
    ) -> None:
        self.space = space
        self.seed = seed
        self.told: list[list[int | None]] = [known]  # before each generation
        self._swarm = _TrialSwarm(space, method, seed)
        self._swarm.add_known([trials[number] for number in known if number is not None])
        self._rows = self._swarm.next_rows()

    @property
    def generation(self) -> int:
        """The number of the generation that is being evaluated."""
        return len(self.told) - 1

    def follow(self, seats: Seats, trials: Mapping[int, FrozenTrial]) -> bool:
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

    def _evaluated(self, seats: Seats, trials: Mapping[int, FrozenTrial]) -> list[int | None] | None:
        """The trials that have evaluated the rows of this generation; None if it is not complete."""
        finished = {n: seat for n, seat in seats.get(self.generation, {}).items() if trials[n].state.is_finished()}
        by_row: dict[int | None, int] = {}
        # A trial that failed may have been repeated in the same seat.
        for number in sorted(finished, key=lambda n: (trials[n].state != TrialState.COMPLETE, n)):
            by_row.setdefault(finished[number].row, number)
        told = [by_row.get(row) for row in range(len(self._rows))]
        n_extra = sum(seat.row is None for seat in finished.values())
        return told if None not in told or n_extra >= len(told) else None

    def _tell(self, told: list[int | None], trials: Mapping[int, FrozenTrial]) -> None:
        """Close a generation."""
        nothing = np.full(1 + len(self.space.constraints), np.nan)
        answers, pruned = np.tile(nothing, (len(self._rows), 1)), []
        for row, number in enumerate(told[: len(self._rows)]):
            trial = None if number is None else trials.get(number)
            if trial is None or not self.space.is_at(trial, self._rows[row]):
                continue  # it has other parameters if the user has changed the function
            answers[row] = self.space.answer(trial)
            if trial.state == TrialState.PRUNED:
                pruned.append((row, self.space.last_report(trial)))
        # A pruned trial is no better than the complete ones beside it, whatever it had reported.
        complete = answers[:, 0][np.isfinite(answers[:, 0])]
        for row, value in pruned:
            answers[row, 0] = max(value, complete.max()) if len(complete) and not math.isnan(value) else math.nan
        self._swarm.tell_answers(answers)
        self.told.append(told)
        self._rows = self._swarm.next_rows()

    def sit(
        self, number: int, seats: Seats, others: Mapping[int, FrozenTrial], attempt: int = 0
    ) -> tuple[Seat, dict[str, Any], int]:
        """A seat for the trial with this number, its parameters, and how many rows there were to choose from."""
        taken = {seat.row for seat in seats.get(self.generation, {}).values()}
        free = [row for row in range(len(self._rows)) if row not in taken]
        row = None
        if free and attempt == 0:
            # Others may be choosing at this moment: those before this trial take the rows before its own.
            row = free[sum(n < number and _is_choosing(one) for n, one in others.items()) % len(free)]
        elif free and attempt < ATTEMPTS - 1:  # by chance: the trial in the same row may have to choose again, too
            row = int(np.random.default_rng([self.seed, number, attempt]).choice(free))
        seat = Seat(self.space.key, self.seed, self.generation, row, self.told[-1])
        return seat, self._rows[row] if row is not None else self._swarm.extra(number), len(free)


def known_trials(space: TrialSpace, method: Method, trials: Mapping[int, FrozenTrial]) -> list[int | None]:
    """Numbers of the best complete trials with these parameters, as many as a first swarm has particles.

    With constraints, a whole swarm or none: the units of the violations come from it.
    """
    n_particles = _TrialSwarm(space, method, 0).n_particles
    done = [trial for trial in trials.values() if trial.state == TrialState.COMPLETE and space.point(trial) is not None]
    answers = {trial.number: space.answer(trial) for trial in done}
    numbers = [n for n in answers if np.isfinite(answers[n]).all()]
    numbers.sort(key=lambda n: (answers[n][1:].clip(0).sum(), answers[n][0]))
    if space.constraints and len(numbers) < n_particles:
        return []
    return [*numbers[:n_particles]]


def _is_choosing(trial: FrozenTrial) -> bool:
    """Return whether a trial has begun without any parameters so far."""
    return trial.state == TrialState.RUNNING and not trial.params and ATTRIBUTE not in trial.system_attrs


class _TrialSwarm(Optimizer):
    """An optimiser that speaks of parameters and trials."""

    def __init__(self, space: TrialSpace, method: Method, seed: int) -> None:
        limits = Returned(len(space.constraints)) if space.constraints else None
        super().__init__(space.variables, method=method, constraints=limits, rng=seed)
        self._trial_space = space
        self._seed = seed

    def add_known(self, trials: list[FrozenTrial]) -> None:
        """Make complete trials part of the first swarm."""
        points = [self._trial_space.point(trial) for trial in trials]
        if not trials or None in points:
            return
        answers = np.stack([self._trial_space.answer(trial) for trial in trials])
        z = self.space.coordinates(self.space.read("known trials", points))
        assert self._first is not None
        self._first.add(z, np.asarray(self.scored(z, answers if self.judge.n_constraints else answers[:, 0])))

    def next_rows(self) -> list[dict[str, Any]]:
        """The parameters of the next generation."""
        return self._params(self.points())

    def tell_answers(self, answers: Floats) -> None:
        """The values and constraints of the generation."""
        assert self._pending is not None
        values = answers[:, 0]
        values[values == -math.inf] = math.nan
        f = self.scored(self._pending, answers if self.judge.n_constraints else values)
        self.take(f, may_fail=True)

    def extra(self, number: int) -> dict[str, Any]:
        """Parameters that the swarm might have asked for as well; each number gives others."""
        rng = np.random.default_rng([self._seed, self.nit, number])
        if self.swarm is None:
            z = self.lower + rng.random((1, len(self.lower))) * (self.upper - self.lower)
            return self._params(z)[0]
        z = self.mover.ask(self.swarm, Draw([rng], ()), 0.0).position
        z = z[~(z[:, None] == self.points()).all(axis=-1).any(axis=-1)]
        if not len(z):  # this generation does not depend on chance: somewhere between two points of the swarm
            one, other = rng.choice(self.swarm.best_position, 2, replace=False)
            z = (one + rng.random() * (other - one))[None]
        z = rng.choice(z)[None]
        return self._params(z)[0]

    def _params(self, z: Floats) -> list[dict[str, Any]]:
        return [self._trial_space.params(point) for point in self.space.nested(self.space.rows(z))]
