"""Where there is no datum, a fit is what it would be without these outputs, and it predicts them."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import paoswarm as ps
from paoswarm.least_squares.likelihoods import LogNormal, Normal, Poisson, StudentT
from paoswarm.least_squares.loss import Group, Loss

TIMES = np.linspace(0.5, 6.0, 12)
SPACE = {"limit": (5, 50), "rate": ps.Real(0.05, 5, log=True)}
SEEN = np.array([1, 1, 0, 1, 1, 1, 0, 1, 1, 0, 0, 0], dtype=bool)


def curve(p, times=TIMES):
    return p["limit"] * (1 - np.exp(-p["rate"] * times))


def data(seed=3):
    return curve({"limit": 16.0, "rate": 0.5}) + 0.3 * np.random.default_rng(seed).normal(size=12)


@pytest.mark.parametrize("how", [{}, {"sigma": 0.3}, {"sigma": np.linspace(0.2, 0.5, 12)}, {"likelihood": "student-t"}])
def test_missing_data_count_for_nothing_and_are_predicted(how):
    measured = data()
    whole = ps.fit(curve, SPACE, np.where(SEEN, measured, np.nan), rng=1, **how)
    own = {name: given[SEEN] if np.ndim(given) else given for name, given in how.items()}
    part = ps.fit(lambda p: curve(p, TIMES[SEEN]), SPACE, measured[SEEN], rng=1, **own)
    assert whole.nfev == part.nfev
    assert_allclose(whole.x, part.x, rtol=1e-12)
    assert_allclose(whole.covariance, part.covariance, rtol=1e-9)
    for attribute in ("fun", "degrees_of_freedom", "log_likelihood", "bic", "chi_square"):
        assert_allclose(getattr(whole, attribute), getattr(part, attribute), rtol=1e-12)
    assert_allclose(whole.predictions, curve(whole.best), rtol=1e-12)
    assert_allclose(whole.residuals[SEEN], part.residuals, rtol=1e-9, atol=1e-12)
    assert np.isnan(whole.residuals[~SEEN]).all()
    low, high = whole.band()
    assert_allclose((high - low)[SEEN], np.subtract(*part.band()[::-1]), rtol=1e-6)
    slope = np.stack([1 - np.exp(-whole.x[1] * TIMES), whole.x[0] * TIMES * np.exp(-whole.x[1] * TIMES)], axis=1)
    assert_allclose(whole.jacobian, slope, rtol=1e-4, atol=1e-6)


def test_scaled_data_are_predicted_in_their_unit():
    def exact(p):
        return np.exp(-p["rate"] * TIMES)

    measured = np.where(SEEN, 250 * np.exp(-0.7 * TIMES) + 40, np.nan)
    fit = ps.fit(exact, {"rate": (0.1, 5)}, ps.Scaled(measured, offset=True), sigma=1.0, rng=1)
    assert_allclose(fit.predictions, 250 * np.exp(-0.7 * TIMES) + 40, rtol=1e-6)
    # The errors of rate, scale and offset together, by the textbook.
    columns = np.stack([-250 * TIMES * np.exp(-0.7 * TIMES), np.exp(-0.7 * TIMES), np.ones(12)], axis=1)
    covariance = np.linalg.inv(columns[SEEN].T @ columns[SEEN])
    expected = np.sqrt(np.einsum("ij,jk,ik->i", columns, covariance, columns))
    low, high = fit.band(0.95)
    assert_allclose((high - low) / 2 / 1.959963984540054, expected, rtol=1e-4)


def test_a_simulator_may_fail_where_there_is_no_datum():
    def broken(p):
        return np.where(SEEN, curve(p), [np.nan, np.inf] * 6)

    fit = ps.fit(broken, SPACE, np.where(SEEN, data(), np.nan), rng=1)
    assert fit.n_failed == 0
    assert np.isnan(fit.predictions[~SEEN]).all()
    assert np.isfinite(fit.standard_errors).all()


@pytest.mark.parametrize("law", [Normal(0.5), Normal(0.5, relative=0.1), LogNormal(0.2), StudentT(0.4), Poisson()])
def test_the_noise_is_known_where_there_is_no_datum(law):
    values = np.array([3.0, np.nan, 7.0, 2.0])
    mu = np.array([2.5, 4.0, 6.0, 3.0])
    found = Loss(values, (Group("", slice(0, 4), law),)).sigma(mu)
    whole = Loss(np.array([3.0, 5.0, 7.0, 2.0]), (Group("", slice(0, 4), law),)).sigma(mu)
    assert_allclose(found, whole, rtol=1e-12)


def test_an_output_without_data_counts_for_nothing():
    given = np.array([1.0, 2.0, np.nan, np.nan])
    groups = (Group("a", slice(0, 2), Normal()), Group("b", slice(2, 4), Normal(), True))
    loss, alone = Loss(given, groups), Loss(given[:2], groups[:1])
    y = np.array([1.5, 1.8, 3.0, 4.0])
    assert loss.value(y) == alone.value(y[:2])
    assert (loss.n_data, loss.n_factors, loss.n_sigmas) == (2, 0, 1)
    assert np.isnan(loss.predicted(y)[2:]).all()  # the factor is not known


def test_a_function_that_returns_one_number_is_for_minimize():
    with pytest.raises(TypeError, match=r"use ps\.minimize for a function that returns one number"):
        ps.fit(lambda p: float(((curve(p) - data()) ** 2).sum()), SPACE, rng=1)
