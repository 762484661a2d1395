"""`PAOSearchCV`: hyperparameters of scikit-learn's estimators, beside its own ``RandomizedSearchCV``."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from sklearn.exceptions import FitFailedWarning
from sklearn.model_selection._search import BaseSearchCV
from sklearn.utils import check_random_state

from paoswarm.algorithms.adaptive_pao import AdaptivePAO
from paoswarm.algorithms.method import Method
from paoswarm.algorithms.pao import PAO
from paoswarm.checks import whole_number
from paoswarm.optimize.optimizer import Optimizer
from paoswarm.optimize.read_input import read_method
from paoswarm.optimize.read_space import read_space
from paoswarm.optimize.swarm_size import choose_size
from paoswarm.spaces.choices import Choice, Fixed
from paoswarm.spaces.space import Space
from paoswarm.spaces.variables import Integer, Real, Variable

_NOTHING_NEW = 5000  # known candidates in a row after which the search ends


class PAOSearchCV(BaseSearchCV):  # type: ignore[misc]
    """Search of hyperparameters by a swarm, with cross-validation.

    It takes the place of scikit-learn's ``RandomizedSearchCV``: the same arguments, attributes and ``cv_results_``. The
    candidates come in generations, and each generation learns from the scores of the ones before.

    Parameters
    ----------
    estimator : estimator object
        The estimator whose hyperparameters are searched.
    param_distributions : dict
        By name of the hyperparameter: a variable (`Real`, `Integer`, `Choice`, `Periodic`), or what
        ``RandomizedSearchCV`` takes: a list of entries, which is a `Choice`, or ``uniform``, ``loguniform`` and
        ``randint`` of `scipy.stats`, of which the ends count. Numbers, strings and None are fixed.
    n_iter : int
        Number of candidates. None is tried twice; in a space without continuous variables there are fewer if no more
        are found.
    method : Method, str or None
        None: `AdaptivePAO`, or `PAO` if there is a `Choice`; both make good use of 50 to 250 candidates. Otherwise as
        in `paoswarm.minimize`.
    n_particles : int or None
        Candidates of the first generation. None: the method chooses.
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
    rbf 0.98
    """

    def __init__(
        self,
        estimator: Any,
        param_distributions: Mapping[str, Any],
        *,
        n_iter: int = 50,
        method: Any = None,
        n_particles: int | None = None,
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
        self.n_particles = n_particles
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
        optimizer = self._make_optimizer(n_iter)
        splits = _SameSplits(self._checked_cv_orig)
        known: dict[tuple[Any, ...], float] = {}
        n_tried, n_recalled, are_recorded = 0, 0, False
        while n_tried < n_iter and n_recalled < _NOTHING_NEW and len(known) != optimizer.space.size:
            points = optimizer.ask(n_tried / n_iter)
            keys = [_key(optimizer.space, point) for point in points]
            new = {key: point for key, point in zip(keys, points, strict=True) if key not in known}
            tried = dict(list(new.items())[: n_iter - n_tried])
            n_tried, n_recalled = n_tried + len(tried), 0 if tried else n_recalled + len(points)
            if tried:
                try:
                    results = evaluate_candidates(list(tried.values()), cv=splits)
                    scores = self._scores(results)[-len(tried) :]
                    are_recorded = True
                except ValueError as error:  # all fits have failed
                    if self.error_score == "raise" or not are_recorded:
                        raise
                    warnings.warn(str(error), FitFailedWarning, stacklevel=2)
                    scores = np.full(len(tried), np.nan)
                known |= dict(zip(tried, scores.tolist(), strict=True))
            if len(tried) == len(new):
                optimizer.tell([-known[key] for key in keys])

    def _make_optimizer(self, n_iter: int) -> Optimizer:
        if not isinstance(self.param_distributions, Mapping):
            raise TypeError(f"param_distributions must be a dict, got {self.param_distributions!r}")
        space = read_space({name: _read_entry(name, entry) for name, entry in self.param_distributions.items()})
        method = read_method(self.method or _for_few_candidates(space))
        x0 = None if self.x0 is None else space.read("x0", self.x0)
        n_particles = self.n_particles or choose_size(method, len(space.lower), n_iter, None, x0, None)
        is_seed = isinstance(self.random_state, int | np.integer)
        seed = self.random_state if is_seed else check_random_state(self.random_state).randint(2**31 - 1)
        return Optimizer(space, method=method, n_particles=n_particles, x0=x0, rng=int(seed))

    def _scores(self, results: Mapping[str, Any]) -> Any:
        """The scores that are maximised."""
        for metric in ("score", self.refit):
            if f"mean_test_{metric}" in results:
                return results[f"mean_test_{metric}"]
        names = [name.removeprefix("mean_test_") for name in results if name.startswith("mean_test_")]
        raise TypeError(f"there are several metrics: give refit=, the name of the one to maximise; {names}")


def _for_few_candidates(space: Space) -> Method:
    """`MixedPAO`, the default of `minimize`, would need half of them for its first swarm.

    Along choices, the cloud of `AdaptivePAO` contracts before it has seen them all.
    """
    return PAO() if any(isinstance(one, Choice) for one in space.variables) else AdaptivePAO()


class _SameSplits:
    """The splits of a cross-validator, drawn once: scores on other splits could not be compared."""

    def __init__(self, cv: Any) -> None:
        self._cv = cv
        self._splits: list[Any] = []

    def split(self, x: Any, y: Any = None, **more: Any) -> list[Any]:
        """Pairs of indices."""
        self._splits = self._splits or list(self._cv.split(x, y, **more))
        return self._splits


def _key(space: Space, point: Mapping[str, Any]) -> tuple[Any, ...]:
    """What tells a candidate from others."""
    return tuple(
        value for value, one in zip(point.values(), space.variables, strict=True) if not isinstance(one, Fixed)
    )


def _read_entry(name: str, entry: Any) -> Any:
    """A variable of ours from what scikit-learn's searches take."""
    if isinstance(entry, Variable):
        return entry
    if isinstance(entry, list | np.ndarray):
        entries = list(entry) if isinstance(entry, list) else entry.tolist()
        return Choice(entries) if len(entries) != 1 else Fixed(entries[0])
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
