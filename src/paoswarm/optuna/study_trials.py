"""The trials of a study as a sampler has read them: what is finished is looked at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from optuna import Study
from optuna.distributions import BaseDistribution
from optuna.trial import FrozenTrial, TrialState

ATTRIBUTE = "paoswarm:seat"
_CONSTRAINTS = "constraints"  # attributes of trials under which Optuna keeps their constraints


class Seat(NamedTuple):
    """The point of a search that a trial evaluates."""

    search: str  # key of its space
    seed: int
    generation: int
    row: int | None  # None for an extra point
    told: list[int | None]  # trials whose values the swarm was told before this generation; None for a missing row


Seats = dict[int, dict[int, Seat]]  # generation -> number of the trial -> its seat


class StudyTrials:
    """All trials of a study by their numbers. Finished trials do not change, so only the others are read again.

    Attributes
    ----------
    open : list of FrozenTrial
        Those that have not finished.
    constraints : set of str
        The names of all constraints that trials have set.
    common : dict of distributions, by name
        The parameters that all complete trials have.
    """

    def __init__(self) -> None:
        self.open: list[FrozenTrial] = []
        self.constraints: set[str] = set()
        self.common: dict[str, BaseDistribution] = {}
        self._all: list[FrozenTrial] = []
        self._has_complete = False
        self._finished: dict[str, Seats] = {}  # by search: all seats of finished trials
        self._agreed: dict[str, Seats] = {}  # the same without those that do not agree with the first one

    def read(self, study: Study) -> StudyTrials:
        """Read what is new."""
        pending = [one.number for one in self.open]
        pending += range(len(self._all), len(all_now := study.get_trials(deepcopy=False)))
        self._all, self.open = all_now, []
        for number in pending:
            trial = all_now[number]
            self.constraints |= constraints_of(trial).keys()
            if trial.state.is_finished():
                self._finish(trial)
            else:
                self.open.append(trial)
        return self

    def _finish(self, trial: FrozenTrial) -> None:
        if trial.state == TrialState.COMPLETE:
            own = trial.distributions
            known = self.common if self._has_complete else own
            self.common = {name: known[name] for name in sorted(known) if own.get(name) == known[name]}
            self._has_complete = True
        if (seat := _seat_of(trial)) is not None:
            generation = self._finished.setdefault(seat.search, {}).setdefault(seat.generation, {})
            generation[trial.number] = seat
            self._agreed.setdefault(seat.search, {})[seat.generation] = _agreeing(generation)

    def __getitem__(self, number: int) -> FrozenTrial:
        return self._all[number]

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[FrozenTrial]:
        return iter(self._all)

    def seats(self, search: str, without: int) -> Seats:
        """The seats in a search that agree on what it has been told, of all trials but one."""
        found, finished = dict(self._agreed.get(search, {})), self._finished.get(search, {})
        running: Seats = {}
        for trial in self.open:
            seat = _seat_of(trial)
            if seat is not None and seat.search == search and trial.number != without:
                running.setdefault(seat.generation, {})[trial.number] = seat
        for generation, own in running.items():
            found[generation] = _agreeing(finished.get(generation, {}) | own)
        return found


def _seat_of(trial: FrozenTrial) -> Seat | None:
    own: Any = trial.system_attrs.get(ATTRIBUTE)
    return None if own is None else Seat(*own)


def _agreeing(seats: dict[int, Seat]) -> dict[int, Seat]:
    """The seats, by number, with the seed and the told trials of the first one."""
    numbers = sorted(seats)
    first = seats[numbers[0]]
    return {n: seats[n] for n in numbers if (seats[n].seed, seats[n].told) == (first.seed, first.told)}


def constraints_of(trial: FrozenTrial) -> dict[str, float]:
    """The constraints of a trial, by name or by number; see ``optuna.trial.Trial.set_constraint``."""
    listed = trial.system_attrs.get(_CONSTRAINTS) or ()
    found = {str(i): number for i, number in enumerate(listed)}
    prefix = f"{_CONSTRAINTS}:"
    return found | {k.removeprefix(prefix): v for k, v in trial.system_attrs.items() if k.startswith(prefix)}
