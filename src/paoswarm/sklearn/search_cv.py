"""`PAOSearchCV`: hyperparameters of scikit-learn's estimators, beside its own ``RandomizedSearchCV``."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from itertools import compress
from typing import Any

import numpy as np
from sklearn.exceptions import FitFailedWarning
from sklearn.model_selection._search import BaseSearchCV
from sklearn.utils import check_random_state

from paoswarm import PAO, AdaptivePAO, Choice, Integer, Method, Optimizer, Real
from paoswarm.helpers import Fixed, Variable, whole_number

_NOTHING_NEW = 5000  # known candidates in a row after which the search ends
# Scores are often alike in most of the space: a swarm that starts there would learn nothing from its first generations.
_INITIAL_SHARE = 3


class PAOSearchCV(BaseSearchCV):  # type: ignore[misc]
    """Search of hyperparameters by a swarm, with cross-validation.

    It takes the place of scikit-learn's ``RandomizedSearchCV``: the same arguments, attributes and ``cv_results_``. The
    first candidates are spread over the space. The others come in generations, and each generation learns from the
    scores of the ones before.

    Parameters
    ----------
    estimator : estimator object
        The estimator whose hyperparameters are searched.
    param_distributions : dict
        By name of the hyperparameter: a variable (`Real`, `Integer`, `Choice`, `Periodic`), or what
        ``RandomizedSearchCV`` takes: a list of any entries, which is a `Choice`, or ``uniform``, ``loguniform`` and
        ``randint`` of `scipy.stats`, of which the ends count. Numbers, strings and None are fixed.
    n_iter : int
        Number of candidates. Each one is tried once. In a space without continuous variables there are fewer if no
        more are found.
    method : Method, str or None
        None: the swarms of `AdaptivePAO`, or `PAO` if there is a `Choice`; both make good use of 50 to 250 candidates.
        Otherwise as in `paoswarm.minimize`.
    n_initial : int or None
        Candidates that are spread over the space before the swarm starts from the best of them. None: a third.
    x0 : dict or list of dicts, optional
        Candidates to try first, such as the best of an earlier search.
    scoring, n_jobs, refit, cv, verbose, pre_dispatch, error_score, return_train_score
        As in ``RandomizedSearchCV``. With several metrics, ``refit`` names the one that is maximised. The candidates do
        not depend on ``n_jobs``. Splits are drawn once, so that all candidates see the same ones.
    random_state : int, RandomState instance or None
        Seed of the search.

    Notes
    -----
    A candidate whose fit fails has the score ``error_score``. If that is NaN, it counts as worse than all others. If
    all fits of a later generation fail, scikit-learn drops them: they are not in ``cv_results_``, and a
    ``FitFailedWarning`` says so.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.svm import SVC
    >>> import paoswarm as ps
    >>> from paoswarm.sklearn import PAOSearchCV
    >>> space = {"C": ps.Real(1e-3, 1e3, log=True), "kernel": ["rbf", "sigmoid"]}
    >>> search = PAOSearchCV(SVC(), space, n_iter=20, cv=3, random_state=1).fit(*load_iris(return_X_y=True))
    >>> print(f"{search.best_params_['kernel']} {search.best_score_:.2f}")
    rbf 0.97
    """

    def __init__(
        self,
        estimator: Any,
        param_distributions: Mapping[str, Any],
        *,
        n_iter: int = 50,
        method: Any = None,
        n_initial: int | None = None,
        x0: Any = None,
        scoring: Any = None,
        n_jobs: int | None = None,
        refit: Any = True,
        cv: Any = None,
        verbose: int = 0,
        pre_dispatch: Any = "2*n_jobs",
        random_state: Any = None,
        error_score: Any = np.nan,
        return_train_score: bool = False,
    ) -> None:
        self.param_distributions = param_distributions
        self.n_iter = n_iter
        self.method = method
        self.n_initial = n_initial
        self.x0 = x0
        self.random_state = random_state
        super().__init__(
            estimator=estimator,
            scoring=scoring,
            n_jobs=n_jobs,
            refit=refit,
            cv=cv,
            verbose=verbose,
            pre_dispatch=pre_dispatch,
            error_score=error_score,
            return_train_score=return_train_score,
        )

    def _run_search(self, evaluate_candidates: Callable[..., Mapping[str, Any]]) -> None:
        n_iter = whole_number("n_iter", self.n_iter, 1)
        if isinstance(self.scoring, list | tuple | set | dict) and not isinstance(self.refit, str):
            raise ValueError(f"there are several metrics: give refit=, the name of the one to maximise; {self.scoring}")
        if not isinstance(self.param_distributions, Mapping):
            raise TypeError(f"param_distributions must be a dict, got {self.param_distributions!r}")
        variables = {name: _read_entry(name, entry) for name, entry in self.param_distributions.items()}
        method = self.method or _for_few_candidates(variables)
        is_seed = isinstance(self.random_state, int | np.integer)
        given = self.random_state if is_seed else check_random_state(self.random_state).randint(2**31 - 1)
        first_seed, seed = np.random.SeedSequence(int(given)).spawn(2)  # of the first candidates, and of the swarm
        n_given = 0 if self.x0 is None else 1 if isinstance(self.x0, Mapping) else len(self.x0)
        n_initial = n_iter // _INITIAL_SHARE if self.n_initial is None else whole_number("n_initial", self.n_initial, 2)
        spread = Optimizer(variables, n_particles=max(2, n_given, min(n_initial, n_iter)), x0=self.x0, rng=first_seed)
        first = spread.ask()
        trials = _Trials(self, spread.space, evaluate_candidates, n_iter)
        losses = np.array(trials.losses(first))
        if trials.is_over:
            return
        known = np.isfinite(losses)
        start = (list(compress(first, known)), losses[known]) if known.any() else None
        method = Optimizer(variables, method=method).method  # of a name, too
        n_particles = method.default_particles(len(spread.lower), n_iter, None)
        optimizer = Optimizer(variables, method=method, n_particles=n_particles, x0=start, rng=seed)
        while not trials.is_over:
            losses = np.array(trials.losses(optimizer.ask(trials.share)))
            if not trials.is_over:
                optimizer.tell(losses)

    def _maximised(self, results: Mapping[str, Any]) -> Any:
        """The scores that are maximised, of all candidates."""
        for metric in ("score", self.refit):
            if f"mean_test_{metric}" in results:
                return results[f"mean_test_{metric}"]
        names = [name.removeprefix("mean_test_") for name in results if name.startswith("mean_test_")]
        raise TypeError(f"there are several metrics: give refit=, the name of the one to maximise; {names}")


class _Trials:
    """The candidates so far, and how many more there may be."""

    def __init__(self, search: PAOSearchCV, space: Any, evaluate: Callable[..., Mapping[str, Any]], most: int) -> None:
        self._search, self._space, self._evaluate, self._most = search, space, evaluate, most
        self._splits = _SameSplits(search._checked_cv_orig)
        self._known: dict[tuple[float, ...], float] = {}
        self._n_recalled = 0  # in a row
        self._are_recorded = False

    @property
    def share(self) -> float:
        """The share of the candidates that have been evaluated."""
        return len(self._known) / self._most

    @property
    def is_over(self) -> bool:
        """True if all wanted candidates were evaluated, or no new ones can be expected."""
        n = len(self._known)
        return n >= self._most or n == self._space.size or self._n_recalled >= _NOTHING_NEW

    def losses(self, points: list[dict[str, Any]]) -> list[float]:
        """Return negative scores, which the swarm minimises; NaN where a score is missing."""
        keys = [_key(self._space, point) for point in points]
        new = {key: point for key, point in zip(keys, points, strict=True) if key not in self._known}
        tried = dict(list(new.items())[: self._most - len(self._known)])
        self._n_recalled = 0 if tried else self._n_recalled + len(points)
        if tried:
            self._known |= dict(zip(tried, self._scores(list(tried.values())), strict=True))
        return [-self._known.get(key, math.nan) for key in keys]

    def _scores(self, candidates: list[dict[str, Any]]) -> list[float]:
        try:
            results = self._evaluate(candidates, cv=self._splits)
        except ValueError as error:  # all fits have failed
            if self._search.error_score == "raise" or not self._are_recorded:
                raise
            warnings.warn(str(error), FitFailedWarning, stacklevel=2)
            return [math.nan] * len(candidates)
        self._are_recorded = True
        scores: list[float] = self._search._maximised(results)[-len(candidates) :].tolist()
        return scores


def _for_few_candidates(variables: Mapping[str, Any]) -> Method:
    """`MixedPAO`, the default of `minimize`, would need half of them for its first swarm.

    Along choices, the cloud of `AdaptivePAO` contracts before it has seen them all. Scores are noisy, so no search
    is by local models.
    """
    has_choices = any(isinstance(one, Choice) for one in variables.values())
    return PAO() if has_choices else AdaptivePAO(kinds=AdaptivePAO.swarms)


class _SameSplits:
    """The splits of a cross-validator, drawn once: scores on other splits could not be compared."""

    def __init__(self, cv: Any) -> None:
        self._cv = cv
        self._splits: list[Any] = []

    def split(self, x: Any, y: Any = None, **more: Any) -> list[Any]:
        """Pairs of indices."""
        self._splits = self._splits or list(self._cv.split(x, y, **more))
        return self._splits


class _Listed(Choice):
    """A list as scikit-learn takes it: its entries need no hash, and 1 and 1.0 are two of them."""

    def __init__(self, entries: list[Any]) -> None:
        object.__setattr__(self, "entries", tuple(entries))

    def index(self, value: Any) -> int | None:
        """The index of an entry: of the same type if there is one."""
        equal = [i for i, entry in enumerate(self.entries) if _are_equal(entry, value)]
        return next((i for i in equal if type(self.entries[i]) is type(value)), equal[0] if equal else None)


def _are_equal(one: Any, other: Any) -> bool:
    try:
        return one is other or bool(one == other)
    except (TypeError, ValueError):  # arrays and tables have no single answer
        return False


def _key(space: Any, point: Mapping[str, Any]) -> tuple[float, ...]:
    """Return the numbers that identify a candidate."""
    pairs = zip(point.values(), space.variables, strict=True)
    return tuple(one.number(value) for value, one in pairs if not isinstance(one, Fixed))


def _read_entry(name: str, entry: Any) -> Any:
    """A variable of ours from what scikit-learn's searches take."""
    if isinstance(entry, Variable):
        return entry
    if isinstance(entry, list | np.ndarray):
        entries = list(entry) if isinstance(entry, list) else entry.tolist()
        if not entries:
            raise ValueError(f"param_distributions[{name!r}] is an empty list: give at least one entry")
        different: list[Any] = []
        for one in entries:
            if not any(type(one) is type(other) and _are_equal(one, other) for other in different):
                different.append(one)
        return _Listed(different) if len(different) != 1 else Fixed(different[0])
    family = getattr(getattr(entry, "dist", None), "name", None)
    if family in ("uniform", "loguniform", "reciprocal"):
        low, high = map(float, entry.support())
        return Real(low, high, log=family != "uniform")
    if family == "randint":
        return Integer(*map(int, entry.support()))
    if hasattr(entry, "rvs"):
        raise TypeError(
            f"{name!r}: of distributions only uniform, loguniform and randint have ends that say where to search; "
            "write ps.Real(low, high) or ps.Integer(low, high)"
        )
    if isinstance(entry, tuple):
        raise TypeError(f"{name!r} is {entry!r}: write ps.Real(low, high) for a range, or a list for entries")
    return Fixed(entry)
