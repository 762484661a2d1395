"""Errors of logarithmic unknowns, of points by name, and what is said about variables that are not fitted."""

import math
import pickle

import nist
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm

import paoswarm as ps
from paoswarm.fitting.derivatives import known_directions
from paoswarm.run.result import Result

M, S = math.log(0.02), 0.7  # a rate that is known to a factor of two
SPACE = {"rate": ps.Real(1e-6, 1e3, log=True), "offset": (-5, 5), "order": ps.Integer(1, 4), "gain": 2.0}
BEST = {"rate": math.exp(M), "offset": 1.0, "order": 3, "gain": 2.0}


def bell(p):
    """Normal in the logarithm of the rate and in the offset, with correlation one half."""
    z = np.array([(math.log(p["rate"]) - M) / S, (p["offset"] - 1.0) / 0.1])
    return 0.5 * z @ np.linalg.inv([[1, 0.5], [0.5, 1]]) @ z


@pytest.fixture(scope="module")
def fit():
    return ps.uncertainty(BEST, negative_log_likelihood=bell, bounds=SPACE, profile=0.9)


def test_a_logarithmic_unknown_has_the_interval_of_its_logarithm(fit):
    q = norm.ppf(0.95)
    low, high = fit.interval(0.9)
    assert_allclose([low[0], high[0]], np.exp([M - q * S, M + q * S]), rtol=1e-6)
    assert_allclose([low[1], high[1]], [1 - q * 0.1, 1 + q * 0.1], rtol=1e-6)
    assert_allclose(fit.profile, np.transpose([low, high]), rtol=0.01)
    assert fit.is_log.tolist() == [True, False]
    assert fit.interval(0.999999)[0][0] > 0


def test_errors_correlations_and_second_derivatives_are_those_of_the_users_number(fit):
    rate = BEST["rate"]
    assert_allclose(fit.standard_errors, [S * rate, 0.1], rtol=1e-6)
    assert_allclose(fit.correlations[0, 1], 0.5, rtol=1e-6)
    scale = np.array([S * rate, 0.1])
    covariance = np.array([[1, 0.5], [0.5, 1]]) * np.outer(scale, scale)
    assert_allclose(fit.covariance, covariance, rtol=1e-6)
    assert_allclose(fit.hessian, np.linalg.inv(covariance), rtol=1e-6)


def test_the_logarithm_is_the_only_difference(fit):
    """A fit of the number itself has the same errors, but for the parabola, and a symmetric interval below zero."""
    plain = ps.uncertainty({**BEST, "order": 3}, negative_log_likelihood=lambda p: bell({**BEST, **p}))
    rate = plain.names.index("rate")
    assert_allclose(plain.standard_errors[rate], fit.standard_errors[0], rtol=0.01)
    assert plain.interval(0.95)[0][rate] < 0
    assert fit.interval(0.95)[0][0] > 0


def test_variables_that_are_not_fitted_are_shown(fit):
    assert fit.held == {"order": 3, "gain": 2.0}
    assert fit.names == ("rate", "offset")
    lines = str(fit).splitlines()
    assert [line.split() for line in lines if "held" in line] == [["order", "3", "held"], ["gain", "2", "held"]]
    assert "held" in fit._repr_html_()


def test_predictions_get_what_the_function_gets(fit):
    seen = []

    def model(p):
        seen.append(p)
        return p["gain"] * p["rate"] ** 2

    value, error = fit.predict(model)
    assert all(list(p) == list(SPACE) and p["order"] == 3 for p in seen)
    assert_allclose(value, 2 * BEST["rate"] ** 2, rtol=1e-12)
    assert_allclose(error / value, 2 * S, rtol=0.01)  # a power multiplies the relative error


@pytest.mark.parametrize("start", ["result", "dict", "list"])
def test_a_result_a_point_by_name_and_a_list_of_variables_are_the_same_fit(start, fit):
    if start == "result":
        given = ps.minimize(bell, SPACE, x0=BEST, maxfev=40, rng=1)
        found = ps.uncertainty(given, negative_log_likelihood=bell)
    elif start == "dict":
        found = ps.uncertainty(BEST, negative_log_likelihood=bell, bounds=SPACE)
    else:
        variables = list(SPACE.values())
        by_name = lambda x: bell(dict(zip(SPACE, x, strict=True)))  # noqa: E731
        found = ps.uncertainty(list(BEST.values()), negative_log_likelihood=by_name, bounds=variables)
    assert_allclose(found.standard_errors, fit.standard_errors, rtol=1e-6)
    assert_allclose(found.interval(), fit.interval(), rtol=1e-6)


def test_numbers_by_name_without_bounds_are_unknowns():
    def nll(p):
        assert p["text"] == "kept"
        return 0.5 * ((p["a"] - 1e3) / 3) ** 2 + 0.5 * ((p["b"] - 2) / 4) ** 2

    found = ps.uncertainty({"a": 1000, "text": "kept", "b": 2.0}, negative_log_likelihood=nll)
    assert found.names == ("a", "b")
    assert_allclose(found.standard_errors, [3, 4], rtol=1e-6)
    assert found.held == {"text": "kept"}
    array = ps.uncertainty([1000, 2.0], negative_log_likelihood=lambda x: nll({"a": x[0], "text": "kept", "b": x[1]}))
    assert_array_equal(found.standard_errors, array.standard_errors)


def test_directions_of_logarithms_are_named_as_such():
    product = {"a": ps.Real(0.01, 100, log=True), "b": ps.Real(0.01, 100, log=True)}
    found = ps.uncertainty(
        {"a": 2.0, "b": 3.0}, negative_log_likelihood=lambda p: 50 * math.log(p["a"] * p["b"] / 6) ** 2, bounds=product
    )
    assert np.isinf(found.standard_errors).all()
    assert "changing ln a by" in found.warnings[0]


def test_it_can_be_pickled(fit):
    again = pickle.loads(pickle.dumps(fit))
    assert_array_equal(again.interval(), fit.interval())
    assert again.predict(lambda p: p["rate"])[0] == pytest.approx(BEST["rate"])


@pytest.mark.parametrize(
    ("point", "bounds", "says"),
    [
        ({"rate": 0.1}, SPACE, "the point: the value of 'offset' is missing"),
        ({**BEST, "rates": 1.0}, SPACE, "no variable 'rates'; did you mean rate"),
        ({**BEST, "rate": 1e9}, SPACE, "rate is .*outside"),
        ({"rate": math.nan}, None, "'rate' is nan; the point must be finite"),
        ({"name": "x"}, None, "no number whose error could be told"),
        ({"rate": 1.0}, [(0, 2)], "bounds must be a dict with the same names"),
        ({5: 1.0}, None, "must be a string, got 5"),
    ],
)
def test_points_by_name_that_do_not_fit_are_refused(point, bounds, says):
    with pytest.raises((ValueError, TypeError), match=says):
        ps.uncertainty(point, negative_log_likelihood=bell, bounds=bounds)


def test_points_that_the_run_has_evaluated_save_evaluations_and_change_nothing():
    data = nist.read("Kirby2")
    box = [(value - 20 * error, value + 20 * error) for value, error in zip(data.certified, data.errors, strict=True)]
    swarms = ps.AdaptivePAO(kinds=ps.AdaptivePAO.swarms)  # a local search leaves fewer points around the minimum
    run = ps.minimize(lambda b: float(data.squares(b)), box, method=swarms, maxfev=1500, polish=True, rng=2)
    alone = Result(**{name: field for name, field in run.items() if name != "evaluations"})
    how = {"sum_of_squares": data.squares, "n_data": len(data.y)}
    known, unknown = ps.uncertainty(run, **how), ps.uncertainty(alone, **how)
    assert known.n_evaluations < 0.6 * unknown.n_evaluations
    assert_allclose(known.standard_errors, unknown.standard_errors, rtol=1e-4)
    assert known.warnings == unknown.warnings == ()
    # another function than that of the run: its points say nothing
    how["sum_of_squares"] = lambda b: data.squares(b) / 4
    assert ps.uncertainty(run, **how).n_evaluations == ps.uncertainty(alone, **how).n_evaluations


@pytest.mark.parametrize("d", [1, 2, 4])
def test_directions_of_a_parabola_are_exact(d):
    rng = np.random.default_rng(d)
    root = np.linalg.qr(rng.standard_normal((d, d)))[0] * np.geomspace(1e-3, 1e3, d)
    x, z = rng.standard_normal(d), 0.2 * rng.standard_normal((400, d))
    basis = known_directions(x + z @ root.T, 7 + 3 * (z**2).sum(axis=1), x, 7.0, 3.0)
    assert_allclose(basis @ basis.T, root @ root.T, rtol=1e-5, atol=1e-8 * np.abs(root @ root.T).max())


@pytest.mark.parametrize(
    "values", [lambda z: -(z[:, 0] ** 2) + z[:, 1] ** 2, lambda z: z[:, 0] ** 2, lambda z: z[:, 0]]
)
def test_no_directions_are_known_where_there_is_no_minimum(values):
    z = 0.2 * np.random.default_rng(1).standard_normal((400, 2))
    assert known_directions(z, values(z), np.zeros(2), 0.0, 1.0) is None
    assert known_directions(z[:5], (z[:5] ** 2).sum(axis=1), np.zeros(2), 0.0, 1.0) is None  # too few


def test_unknowns_on_their_bounds_in_a_narrow_valley_do_not_loop():
    data = nist.read("Lanczos3")
    box = [(value - 20 * error, value + 20 * error) for value, error in zip(data.certified, data.errors, strict=True)]
    start = data.certified + data.errors * [20.0, 19.39, -15.175, -13.331, 4.886, -6.523]
    found = ps.uncertainty(start, sum_of_squares=data.squares, n_data=len(data.y), bounds=box)
    assert not found.free[0]
