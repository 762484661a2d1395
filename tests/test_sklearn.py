"""`PAOSearchCV` is an estimator of scikit-learn, and its candidates are those of `minimize`."""

import pickle
import warnings

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import stats

import paoswarm as ps

pytest.importorskip("sklearn", reason="scikit-learn is not installed")

import joblib
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.exceptions import FitFailedWarning
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import KFold, RandomizedSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from paoswarm.sklearn import PAOSearchCV

X, Y = np.zeros((6, 1)), np.zeros(6)
SPACE = {"a": ps.Real(-5, 5), "b": ps.Real(1e-3, 1e3, log=True)}


class Known(RegressorMixin, BaseEstimator):
    """An estimator whose score is a known function of its hyperparameters."""

    def __init__(self, a=0.0, b=1.0, kind="round", n=3, fails_above=np.inf):
        self.a, self.b, self.kind, self.n, self.fails_above = a, b, kind, n, fails_above

    def fit(self, X, y):
        if self.a > self.fails_above:
            raise ValueError("too large")
        self.fitted_ = True
        return self

    def predict(self, X):
        return np.zeros(len(X))

    def score(self, X, y):
        return -loss(self.get_params())


def loss(p):
    return (p["a"] - 1) ** 2 + np.log10(p["b"]) ** 2 + (str(p["kind"]) != "flat") + (p["n"] - 5) ** 2


def search(space=SPACE, estimator=None, **more):
    settings = {"n_iter": 30, "cv": 2, "random_state": 3} | more
    return PAOSearchCV(estimator or Known(), space, **settings).fit(X, Y)


SETTINGS = {"n_iter": 2, "cv": 2, "error_score": "raise", "random_state": 0}
REGRESSION = PAOSearchCV(Ridge(), {"alpha": ps.Real(0.1, 1.0, log=True)}, **SETTINGS)
CLASSIFICATION = PAOSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, **SETTINGS)


def expected(estimator):
    """What scikit-learn expects of its own searches."""
    return {
        "check_supervised_y_2d": "DataConversionWarning not caught",
        "check_requires_y_none": "Doesn't fail gracefully",
    }


@parametrize_with_checks([REGRESSION], expected_failed_checks=expected)
@pytest.mark.filterwarnings("ignore")  # the checks are made for estimators that warn
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks([CLASSIFICATION], expected_failed_checks=expected)
@pytest.mark.filterwarnings("ignore")
def test_scikit_learns_own_checks_of_classifiers(estimator, check):
    check(estimator)


@pytest.mark.parametrize("more", [{}, {"n": ps.Integer(1, 9)}])
def test_after_the_first_candidates_they_are_those_of_minimize(more):
    space = SPACE | more
    found = search(space)
    tried = found.cv_results_["params"]
    fixed = {name: value for name, value in Known().get_params().items() if name not in space}
    known = [loss({**fixed, **p}) for p in tried[:10]]
    rng = np.random.SeedSequence(3).spawn(2)[1]
    settings = {
        "method": ps.AdaptivePAO(kinds=ps.AdaptivePAO.swarms),
        "maxfev": 20,
        "rng": rng,
        "x0": (tried[:10], known),
    }
    result = ps.minimize(lambda p: loss({**fixed, **p}), space, n_particles=4 + int(3 * np.log(len(space))), **settings)
    assert len(tried) == 30
    for name in space:
        assert [one[name] for one in tried[10:]] == result.to_dataframe()[name].tolist()
    assert found.best_params_ == result.best
    assert found.best_score_ == pytest.approx(-result.fun, rel=1e-12)


def test_the_first_candidates_are_a_latin_hypercube():
    tried = search(n_initial=12).cv_results_["params"][:12]
    assert sorted(int((one["a"] + 5) / 10 * 12) for one in tried) == list(range(12))
    assert sorted(int((np.log10(one["b"]) + 3) / 6 * 12) for one in tried) == list(range(12))


def test_types_are_those_of_the_space():
    found = search({"a": 0.5, "b": stats.loguniform(1e-2, 1e2), "n": stats.randint(2, 9), "kind": ["round", "flat"]})
    kinds = {name: {type(one[name]) for one in found.cv_results_["params"]} for name in found.best_params_}
    assert kinds == {"a": {float}, "b": {float}, "n": {int}, "kind": {str}}
    numbers = {one["n"] for one in found.cv_results_["params"]}
    assert {2, 8} <= numbers <= set(range(2, 9))


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (stats.uniform(-5, 10), ps.Real(-5, 5)),
        (stats.loguniform(1, 5), ps.Real(1, 5, log=True)),
        (np.array([1.0, 2.0, 4.0]), ps.Choice([1.0, 2.0, 4.0])),
    ],
)
def test_what_randomized_search_takes_is_the_same_search_as_our_variables(theirs, ours):
    assert search({"a": theirs}).cv_results_["params"] == search({"a": ours}).cv_results_["params"]


def test_entries_of_lists_need_no_hash_and_may_be_equal():
    table = np.arange(2.0)
    entries = {"kind": [None, {0: 2}, "flat", table, "flat"], "n": [1, 1.0, True], "fails_above": [9.0]}
    found = search(entries, n_iter=60, method="RandomSearch", x0={"kind": {0: 2}, "n": 1.0, "fails_above": 9.0})
    tried = [(repr(one["kind"]), repr(one["n"])) for one in found.cv_results_["params"]]
    assert tried[0] == ("{0: 2}", "1.0")
    assert len(tried) == len(set(tried)) == 12
    assert set(tried) == {(repr(k), repr(n)) for k in (None, {0: 2}, "flat", table) for n in (1, 1.0, True)}
    assert found.best_params_["kind"] == "flat"
    with pytest.raises(ValueError, match="is an empty list"):
        search({"kind": [], "a": ps.Real(0, 1)})


def test_a_small_space_is_searched_once():
    found = search({"kind": ["round", "flat"], "n": ps.Integer(3, 6), "b": [1.0]}, n_iter=100)
    tried = [tuple(one.values()) for one in found.cv_results_["params"]]
    assert len(tried) == len(set(tried)) == 8
    assert found.best_params_ == {"kind": "flat", "n": 5, "b": 1.0}


def test_the_scores_are_those_of_cross_validation_and_refit_works():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 3))
    y = x @ [1.0, 2.0, 0.0] + rng.normal(size=40)
    model = make_pipeline(StandardScaler(), Ridge())
    found = PAOSearchCV(model, {"ridge__alpha": ps.Real(1e-3, 1e3, log=True)}, n_iter=12, cv=3, random_state=0).fit(
        x, y
    )
    best = clone(model).set_params(**found.best_params_)
    assert found.best_score_ == cross_val_score(best, x, y, cv=3).mean()
    assert_array_equal(found.predict(x), best.fit(x, y).predict(x))
    theirs = RandomizedSearchCV(model, {"ridge__alpha": stats.loguniform(1e-3, 1e3)}, n_iter=12, cv=3).fit(x, y)
    assert found.cv_results_.keys() == theirs.cv_results_.keys()


def test_random_splits_are_the_same_for_all_generations():
    found = search(cv=KFold(2, shuffle=True), estimator=SplitDependent())
    assert len(set(found.cv_results_["split0_test_score"])) == 1


class SplitDependent(Known):
    """Its score is a fingerprint of the split, whatever the hyperparameters."""

    def score(self, X, y):
        return float(np.asarray(X)[:, 0] @ np.arange(len(X)))


def test_the_seed_decides_and_the_number_of_jobs_does_not():
    first = search().cv_results_["params"]
    with joblib.parallel_config(backend="threading"):
        assert search(n_jobs=2).cv_results_["params"] == first
    assert search(random_state=4).cv_results_["params"] != first
    states = [search(random_state=np.random.RandomState(1)).cv_results_["params"] for _ in range(2)]
    assert states[0] == states[1]
    search(random_state=None)


def test_first_candidates_are_tried_first():
    known = [{"a": 4.5, "b": 10.0}, {"a": -4.5, "b": 0.1}]
    tried = search(x0=known, n_iter=2).cv_results_["params"]
    assert [pytest.approx(one) for one in known] == tried


@pytest.mark.filterwarnings("ignore:One or more of the test scores are non-finite")
def test_failed_fits_do_not_end_the_search():
    with pytest.warns(FitFailedWarning):
        found = search(estimator=Known(fails_above=2.0))
    assert np.isnan(found.cv_results_["mean_test_score"]).any()
    assert found.best_params_["a"] <= 2
    with pytest.raises(ValueError, match="too large"):
        search(estimator=Known(fails_above=2.0), error_score="raise")
    with pytest.raises(ValueError, match="All the"):
        search(estimator=Known(fails_above=-9))


class FailsLater(Known):
    """Works for the first generation only."""

    calls = 0

    def fit(self, X, y):
        FailsLater.calls += 1
        if 16 < FailsLater.calls <= 28:
            raise ValueError("no licence")
        return super().fit(X, y)


def test_a_generation_that_fails_as_a_whole_does_not_cost_the_others():
    FailsLater.calls = 0
    with pytest.warns(FitFailedWarning, match="All the 12 fits failed"):
        found = search(estimator=FailsLater(), n_iter=32, method="RandomSearch", n_initial=8)
    assert len(found.cv_results_["params"]) == 26


def test_of_several_metrics_the_one_of_refit_is_maximised():
    scoring = {"good": lambda model, X, y: model.score(X, y), "bad": lambda model, X, y: -model.score(X, y)}
    best, worst = (search(scoring=scoring, refit=name) for name in scoring)
    assert best.best_params_ == search().best_params_
    assert loss({**Known().get_params(), **worst.best_params_}) > loss({**Known().get_params(), **best.best_params_})
    assert "mean_test_bad" in best.cv_results_
    both = search(scoring=lambda model, X, y: {"good": model.score(X, y), "other": 0.0}, refit="good")
    assert both.best_params_ == best.best_params_
    with pytest.raises(ValueError, match="several metrics: give refit="):
        search(scoring=scoring, refit=False)


def test_it_is_cloned_configured_and_pickled_as_any_estimator():
    made = PAOSearchCV(Known(), SPACE, n_iter=12, cv=2, random_state=3)
    copied = clone(made)
    assert copied.get_params()["n_iter"] == 12
    copied.set_params(n_iter=20, estimator__kind="flat")
    assert (copied.n_iter, copied.estimator.kind, made.estimator.kind) == (20, "flat", "round")
    fitted = pickle.loads(pickle.dumps(made.fit(X, Y)))
    assert fitted.best_params_ == made.best_params_
    assert "PAOSearchCV" in repr(made)


@pytest.mark.parametrize(
    ("space", "text"),
    [
        ({"a": stats.norm(0, 1)}, "only uniform, loguniform and randint"),
        ({"a": (0, 1)}, r"write ps.Real\(low, high\) for a range, or a list"),
        ({"a": 1.0}, "every variable is fixed"),
        ([{"a": [1, 2]}], "must be a dict"),
    ],
)
def test_spaces_that_cannot_be_searched_are_refused(space, text):
    with pytest.raises((TypeError, ValueError), match=text):
        search(space)


def test_nothing_is_said_if_nothing_is_wrong():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for n_iter in (1, 2, 7):
            assert len(search(n_iter=n_iter).cv_results_["params"]) == n_iter
