"""The sampler that Optuna's studies call."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.samplers import BaseSampler, TPESampler
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, TrialState

from paoswarm import AdaptivePAO, Method
from paoswarm.helpers import flag, of_kind, whole_number
from paoswarm.optuna.shared_search import ATTEMPTS, SharedSearch, TrialSpace, is_taken, known_trials
from paoswarm.optuna.study_trials import ATTRIBUTE, Seat, Seats, StudyTrials


class PAOSampler(BaseSampler):
    """A sampler for Optuna: the parameters of every trial are a point of a swarm.

    Numbers that are suggested in every trial with the same range belong to the swarm: float or int, on a log scale or
    with steps. The first trial shows which they are. All others, categories and the parameters of one branch of the
    objective, are chosen by ``independent_sampler``.

    Any number of threads, processes and machines may work on one storage. Each of them rebuilds the swarm from the
    trials.

    Parameters
    ----------
    seed : int, optional
        With one worker, the same seed gives the same trials. With several, leave it out, or give each its own: the
        first trial of each worker depends on its seed alone.
    method : Method, optional
        The search. None: the swarms of `AdaptivePAO`. Tell it how many workers there are if they are many:
        ``paoswarm.AdaptivePAO(kinds=paoswarm.AdaptivePAO.swarms, parallel=16)``.
        Workers with different methods have different swarms.
    categories_in_swarm : bool
        Whether categories belong to the swarm as well. With a few hundred trials it is better if the independent
        sampler chooses them.
    independent_sampler : optuna.samplers.BaseSampler, optional
        The sampler of everything that does not belong to the swarm. None: ``TPESampler``.
    constraints_func : callable, optional
        ``constraints_func(trial)`` is called after every trial and returns numbers that must not be above zero. Or call
        ``trial.set_constraint`` in the objective (Optuna 5).

    Notes
    -----
    - Failed trials count as failed evaluations, so the swarm leaves regions where the objective fails. (Most samplers
      ignore them.)
    - A pruned trial counts with its last reported value, but is never better than the complete trials of its
      generation. If it has reported nothing, it has failed.
    - Trials of other samplers, enqueued trials and those of earlier spaces are part of the first swarm.
    - If all points of a generation are being evaluated, other workers get extra points, from which the swarm does not
      learn.

    Examples
    --------
    >>> import optuna
    >>> from paoswarm.optuna import PAOSampler
    >>> optuna.logging.set_verbosity(optuna.logging.ERROR)
    >>> def objective(trial):
    ...     x = trial.suggest_float("x", -10, 10)
    ...     rate = trial.suggest_float("rate", 1e-5, 1, log=True)
    ...     return (x - 2) ** 2 + (np.log10(rate) + 3) ** 2
    >>> study = optuna.create_study(sampler=PAOSampler(seed=1))
    >>> study.optimize(objective, n_trials=100)
    >>> bool(study.best_value < 1e-3)
    True
    """

    def __init__(
        self,
        *,
        seed: int | None = None,
        method: Method | None = None,
        categories_in_swarm: bool = False,
        independent_sampler: BaseSampler | None = None,
        constraints_func: Callable[[FrozenTrial], Sequence[float]] | None = None,
    ) -> None:
        if method is not None and not isinstance(method, Method):
            raise TypeError(f"method must be a method such as paoswarm.AdaptivePAO(), got {method!r}")
        given = np.random.default_rng().integers(2**31) if seed is None else seed
        self._seed = whole_number("seed", given, 0)
        self._method = AdaptivePAO(kinds=AdaptivePAO.swarms) if method is None else method
        self._has_categories = flag("categories_in_swarm", categories_in_swarm)
        if independent_sampler is not None:
            of_kind("independent_sampler", independent_sampler, BaseSampler, "a sampler of Optuna")
        if constraints_func is not None:
            of_kind("constraints_func", constraints_func, Callable, "a function of a trial")
        self._independent = TPESampler(seed=seed) if independent_sampler is None else independent_sampler
        self._constraints_func = constraints_func
        self._forget()

    def _forget(self) -> None:
        # By object: other storages may have a study of the same name, and a deleted one may have had the same number.
        self._trials: WeakKeyDictionary[Study, StudyTrials] = WeakKeyDictionary()
        self._searches: WeakKeyDictionary[Study, dict[tuple[str, int], SharedSearch]] = WeakKeyDictionary()
        self._lock = threading.RLock()  # threads of one process share the sampler

    def __getstate__(self) -> dict[str, Any]:
        own = ("_trials", "_searches", "_lock")
        return {name: value for name, value in self.__dict__.items() if name not in own}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._forget()

    def reseed_rng(self) -> None:
        """Give the independent sampler another seed; workers that share a swarm share its seed."""
        self._independent.reseed_rng()

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """The parameters of the swarm: those that all complete trials have, with more than one value."""
        with self._lock:
            common = self._read(study).common
        refused = () if self._has_categories else (CategoricalDistribution,)
        return {name: one for name, one in common.items() if not one.single() and not isinstance(one, refused)}

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """The parameters of a trial that belong to the swarm."""
        _check_single_objective(study)
        fixed = trial.system_attrs.get("fixed_params", {})  # of an enqueued trial
        if not search_space or any(name in fixed for name in search_space):
            return {}
        with self._lock:
            trials = self._read(study)
            for attempt in range(ATTEMPTS):
                seat, params, may_clash = self._sit_down(study, trial, search_space, trials, attempt)
                if not may_clash or not is_taken(seat, self._read(study).seats(seat.search, trial.number)):
                    break
        return params

    def _read(self, study: Study) -> StudyTrials:
        return self._trials.setdefault(study, StudyTrials()).read(study)

    def _sit_down(
        self,
        study: Study,
        trial: FrozenTrial,
        search_space: dict[str, BaseDistribution],
        trials: StudyTrials,
        attempt: int,
    ) -> tuple[Seat, dict[str, Any], bool]:
        """The seat of a trial, which is recorded; its parameters; and whether another trial may have taken it."""
        sign = -1.0 if study.direction == StudyDirection.MAXIMIZE else 1.0
        space = TrialSpace(search_space, tuple(sorted(trials.constraints)), sign, repr(self._method))
        seats = trials.seats(space.key, trial.number)
        searches = self._searches.setdefault(study, {})  # by space and first trial
        search = self._search(searches, space, seats, trials)
        seat, params, n_free = search.sit(trial.number, seats, trials, attempt)
        study._storage.set_trial_system_attr(trial._trial_id, ATTRIBUTE, list(seat))
        if not seats:
            searches[space.key, trial.number] = search
        # Whoever comes next leaves the first free row to this trial, if there is another one.
        is_alone = not any(one.state == TrialState.RUNNING and one.number != trial.number for one in trials.open)
        return seat, params, seat.row is not None and not (is_alone and n_free > 1)

    def _search(
        self,
        searches: dict[tuple[str, int], SharedSearch],
        space: TrialSpace,
        seats: Seats,
        trials: StudyTrials,
    ) -> SharedSearch:
        """The search in this space after all that the trials say; a new one if there is none."""
        if not seats:
            known = known_trials(space, self._method, trials)
            return SharedSearch(space, self._method, self._seed, known, trials)
        number, first = next(iter(seats[0].items()))
        search = searches.get((space.key, number))
        if search is None or not search.follow(seats, trials):
            search = SharedSearch(space, self._method, first.seed, first.told, trials)
            search.follow(seats, trials)
            searches[space.key, number] = search
        return search

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """A parameter that does not belong to the swarm."""
        _check_single_objective(study)
        return self._independent.sample_independent(study, trial, param_name, param_distribution)

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        """Tell the independent sampler."""
        self._independent.before_trial(study, trial)

    def after_trial(self, study: Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None) -> None:
        """Work out the constraints, and tell the independent sampler."""
        if self._constraints_func is not None and state in (TrialState.COMPLETE, TrialState.PRUNED):
            numbers = [float(number) for number in self._constraints_func(trial)]
            if np.isnan(numbers).any():
                raise ValueError(f"constraints_func must return numbers, got {numbers} for trial {trial.number}")
            study._storage.set_trial_system_attr(trial._trial_id, "constraints", numbers)
        self._independent.after_trial(study, trial, state, values)


def _check_single_objective(study: Study) -> None:
    if len(study.directions) > 1:
        raise ValueError(
            f"PAOSampler searches for one value, but the study has {len(study.directions)}; use NSGAIISampler"
        )
