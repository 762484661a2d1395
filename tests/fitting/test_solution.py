"""What slopes at the best point say: textbook covariances, certified errors, larger models."""

import nist
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

import paoswarm as ps
from paoswarm.least_squares.likelihoods import Huber, LogNormal, Normal, Poisson, StudentT

X = np.linspace(0, 2, 15)
DESIGN = np.stack([np.ones(15), X, X**2], axis=1)
BOX = {"a": (-20, 20), "b": (-20, 20), "c": (-20, 20)}
NOISE = np.random.default_rng(1).normal(size=15)
LINE = DESIGN @ [2.0, -1.0, 3.0]


def model(p):
    return DESIGN @ list(p.values())


# Known covariances


def test_a_linear_model_has_the_covariance_of_textbooks():
    data = LINE + 0.3 * NOISE
    fit = ps.fit(model, BOX, data, rng=1)
    best, (least,), _, _ = np.linalg.lstsq(DESIGN, data)
    covariance = least / 12 * np.linalg.inv(DESIGN.T @ DESIGN)
    assert_allclose(fit.x, best, rtol=1e-6)
    assert_allclose(fit.fun, least, rtol=1e-10)
    assert_allclose(fit.covariance, covariance, rtol=1e-6)
    errors = np.sqrt(np.diag(covariance))
    assert_allclose(fit.standard_errors, errors, rtol=1e-6)
    assert_allclose(fit.correlations, covariance / np.outer(errors, errors), rtol=1e-6)
    assert_allclose(fit.jacobian, DESIGN, atol=1e-8)
    assert_allclose(fit.sigma[""], np.sqrt(least / 12))
    assert fit.degrees_of_freedom == 12
    reach = stats.t(12).ppf(0.95) * np.sqrt(np.diag(DESIGN @ covariance @ DESIGN.T))
    low, high = fit.band(0.9)
    assert_allclose(high - fit.predictions, reach, rtol=1e-6)
    assert_allclose(fit.predictions - low, reach, rtol=1e-6)
    low, high = fit.band(0.9, noise=True)
    wide = stats.t(12).ppf(0.95) * np.sqrt(np.diag(DESIGN @ covariance @ DESIGN.T) + least / 12)
    assert_allclose((high - low) / 2, wide, rtol=1e-6)
    assert_allclose(fit.interval(0.9)[1] - fit.x, stats.t(12).ppf(0.95) * fit.standard_errors, rtol=1e-6)


def test_known_sigmas_are_weights():
    sigma = np.geomspace(0.1, 1, 15)
    data = LINE + sigma * NOISE
    fit = ps.fit(model, BOX, data, sigma=sigma, rng=1)
    information = (DESIGN / sigma[:, None] ** 2).T @ DESIGN
    assert_allclose(fit.x, np.linalg.solve(information, (DESIGN / sigma[:, None] ** 2).T @ data), rtol=1e-5)
    assert_allclose(fit.covariance, np.linalg.inv(information), rtol=1e-6)
    assert_allclose(fit.chi_square, (((fit.predictions - data) / sigma) ** 2).sum())
    assert_allclose((fit.interval(0.9)[1] - fit.x), stats.norm.ppf(0.95) * fit.standard_errors, rtol=1e-6)


def test_counts_have_the_covariance_of_a_generalised_linear_model():
    data = np.random.default_rng(2).poisson(np.exp(0.5 + 0.8 * X)).astype(float)
    fit = ps.fit(lambda p: np.exp(p["a"] + p["b"] * X), {"a": (-3, 3), "b": (-3, 3)}, data, likelihood="poisson", rng=1)
    mu, design = fit.predictions, DESIGN[:, :2]
    assert_allclose(design.T @ (data - mu), 0, atol=1e-3)  # the equations of the maximum
    assert_allclose(fit.covariance, np.linalg.inv((design * mu[:, None]).T @ design), rtol=1e-4)
    assert_allclose(fit.log_likelihood, stats.poisson(mu).logpmf(data).sum(), rtol=1e-10)


@pytest.mark.parametrize("name", ["Misra1a", "Chwirut2", "DanWood", "Nelson", "Roszman1", "Kirby2", "Hahn1", "Thurber"])
def test_certified_regressions_of_nist(name):
    one = nist.read(name)
    box = [tuple(sorted((0.5 * b, 1.5 * b))) for b in one.certified]
    names = [f"b{k}" for k in range(len(box))]
    simulate = nist.MODELS[name]
    fit = ps.fit(
        lambda p: simulate(np.array(list(p.values())), one.x, np),
        dict(zip(names, box, strict=True)),
        one.y,
        x0=dict(zip(names, one.certified * 1.02, strict=True)),
        rng=1,
        maxfev=60 * len(box),
    )
    assert_allclose(fit.fun, one.sum_of_squares, rtol=1e-8)
    assert_allclose((fit.x - one.certified) / one.errors, 0, atol=1e-3)
    assert_allclose(fit.standard_errors, one.errors, rtol=1e-3)
    assert_allclose(fit.sigma[""], np.sqrt(one.sum_of_squares / (len(one.y) - len(box))), rtol=1e-6)


# Laws of the noise


@pytest.mark.parametrize(
    ("law", "log_density"),
    [
        (StudentT(2.0, df=4), lambda y, mu: stats.t(4, mu, 2.0).logpdf(y)),
        (StudentT(0.5, df=2), lambda y, mu: stats.t(2, mu, 0.5).logpdf(y)),
        (Normal(0.5), lambda y, mu: stats.norm(mu, 0.5).logpdf(y)),
        (Normal(0.5, relative=0.4), lambda y, mu: stats.norm(mu, np.hypot(0.5, 0.4 * mu)).logpdf(y)),
        (Huber(0.7, k=1.0), lambda y, mu: -0.5 * Huber(0.7, k=1.0).rho((mu - y) / 0.7)[0]),
        (LogNormal(0.3), lambda y, mu: stats.lognorm(0.3, scale=mu).logpdf(np.maximum(y, 1e-9))),
    ],
    ids=lambda one: repr(one) if hasattr(one, "scored") else "",
)
def test_information_is_the_mean_squared_score(law, log_density):
    mu, h = 3.0, 1e-4
    y = np.linspace(1e-3 if isinstance(law, LogNormal) else -300, 300, 2_000_001)
    score = (log_density(y, mu + h) - log_density(y, mu - h)) / (2 * h)
    density = np.exp(log_density(y, mu))
    expected = np.sum(score**2 * density) / np.sum(density)
    point = np.array([mu])
    assert_allclose(law.information(point, law.scored(point, point).sigma), expected, rtol=2e-3)


def test_information_of_counts():
    counts = np.arange(200)
    density = stats.poisson(3.0).pmf(counts)
    expected = ((counts / 3.0 - 1) ** 2 * density).sum()
    assert_allclose(Poisson().information(np.array([3.0]), np.array([1.0])), expected)


@pytest.mark.parametrize("law", [StudentT(0.5, df=4), StudentT(df=4)], ids=["known", "unknown"])
def test_errors_with_outliers_are_those_that_occur(law):
    """The mean of 400 data, made 25 times: its deviations are as large as the errors say (chi-square, 1e-3)."""
    rng = np.random.default_rng(3)
    z = []
    for _ in range(25):
        data = 0.5 * rng.standard_t(4, 400)
        fit = ps.fit(lambda p: np.full(400, p["a"]), {"a": (-2, 2)}, data, likelihood=law, rng=1)
        assert_allclose(fit.standard_errors, fit.sigma.get("", 0.5) / np.sqrt(400 * 5 / 7), rtol=1e-6)
        z.append(fit.x[0] / fit.standard_errors[0])
    low, high = stats.chi2(25).ppf([5e-4, 1 - 5e-4])
    assert low < np.square(z).sum() < high


# Factors, several outputs, beliefs


@pytest.mark.parametrize("sigma", [0.2, None])
def test_factors_count_as_unknowns_of_the_larger_model(sigma):
    data = 7 * np.exp(-0.9 * X) + 2 + 0.2 * NOISE
    space = {"rate": (0.1, 5.0)}
    scaled = ps.Scaled(data, offset=True)
    small = ps.fit(lambda p: np.exp(-p["rate"] * X), space, scaled, sigma=sigma, rng=1)
    large = ps.fit(
        lambda p: p["scale"] * np.exp(-p["rate"] * X) + p["offset"],
        space | {"scale": (0.1, 30.0), "offset": (-10.0, 10.0)},
        data,
        sigma=sigma,
        rng=1,
    )
    assert_allclose(small.fun, large.fun, rtol=1e-7)
    assert_allclose(np.r_[small.x, small.factors[""]], large.x, atol=2e-4 * large.standard_errors.min())
    assert_allclose(small.standard_errors, large.standard_errors[:1], rtol=1e-3)
    assert small.degrees_of_freedom == large.degrees_of_freedom == 12
    for one, other in zip(small.band(noise=True) + small.band(), large.band(noise=True) + large.band(), strict=True):
        assert_allclose(one, other, rtol=1e-3)
    for name in ("aic", "bic", "log_likelihood", "chi_square"):
        assert_allclose(getattr(small, name), getattr(large, name), rtol=1e-6)


def test_outputs_with_their_own_unknown_sigma():
    """Weighted by the estimated sigmas, corrected for the unknowns."""
    data = {"a": LINE + 0.2 * NOISE, "b": LINE[:9] + 3 * NOISE[6:]}
    fit = ps.fit(lambda p: {"a": model(p), "b": model(p)[:9]}, BOX, data, rng=1)
    sizes = {name: np.sqrt(np.mean((fit.predictions[name] - data[name]) ** 2)) for name in data}
    weights = np.r_[np.full(15, sizes["a"] ** -2), np.full(9, sizes["b"] ** -2)]
    design = np.concatenate([DESIGN, DESIGN[:9]])
    information = (design * weights[:, None]).T @ design
    assert_allclose(fit.covariance, 24 / 21 * np.linalg.inv(information), rtol=1e-5)
    assert_allclose(design.T @ (weights * (design @ fit.x - np.concatenate(list(data.values())))), 0, atol=0.05)
    for name, size in sizes.items():
        assert_allclose(fit.sigma[name], size * np.sqrt(24 / 21))
        logs = stats.norm(fit.predictions[name], size).logpdf(data[name]).sum()
        sizes[name] = logs
    assert_allclose(fit.log_likelihood, sum(sizes.values()))
    assert_allclose(fit.aic, 2 * 5 - 2 * fit.log_likelihood)
    assert_allclose(fit.bic, 5 * np.log(24) - 2 * fit.log_likelihood)


def test_a_normal_prior_is_one_more_datum():
    data = LINE + 0.3 * NOISE
    fit = ps.fit(model, BOX, data, sigma=0.3, priors={"c": stats.norm(2.0, 0.05)}, rng=1)
    design = np.concatenate([DESIGN / 0.3, [[0, 0, 20.0]]])
    target = np.append(data / 0.3, 40.0)
    assert_allclose(fit.x, np.linalg.lstsq(design, target)[0], rtol=1e-5)
    assert_allclose(fit.covariance, np.linalg.inv(design.T @ design), rtol=1e-6)
    assert fit.degrees_of_freedom == 13
    assert_allclose(fit.fun, np.square(design @ fit.x - target).sum(), rtol=1e-8)


# What the data do not say


def test_an_unknown_on_its_bound_is_taken_as_fixed():
    data = LINE + 0.3 * NOISE
    fit = ps.fit(model, BOX | {"c": (5.0, 20.0)}, data, rng=1)
    best, (least,), _, _ = np.linalg.lstsq(DESIGN[:, :2], data - 5 * X**2)
    assert fit.best["c"] == 5.0
    assert_allclose(fit.x[:2], best, rtol=1e-4)
    assert np.isnan(fit.standard_errors[2])
    assert fit.degrees_of_freedom == 13
    covariance = least / 13 * np.linalg.inv(DESIGN[:, :2].T @ DESIGN[:, :2])
    assert_allclose(fit.standard_errors[:2], np.sqrt(np.diag(covariance)), rtol=1e-5)
    assert any("c lies on its lower bound" in remark for remark in fit.remarks)


def test_unknowns_that_the_data_do_not_determine():
    data = LINE + 0.3 * NOISE

    def redundant(p):
        return DESIGN @ [p["a"] * p["b"], p["c"], 3.0] + 0 * p["d"]

    space = {"a": (0.5, 4), "b": (0.5, 4), "c": (-20, 20), "d": (0, 1)}
    fit = ps.fit(redundant, space, data, rng=1)
    assert np.isinf(fit.standard_errors[[0, 1, 3]]).all()
    design = DESIGN[:, :2]
    least = np.linalg.lstsq(design, data - 3 * X**2)[1][0]
    assert fit.degrees_of_freedom == 13  # the product and c
    assert_allclose(fit.standard_errors[2], np.sqrt(least / 13 * np.linalg.inv(design.T @ design)[1, 1]), rtol=1e-4)
    said = " ".join(fit.remarks)
    assert "d has no effect on the outputs" in said
    assert "a" in said
    assert "b" in said
    assert np.isfinite(fit.band()[0]).all()


def test_nothing_is_said_of_slopes_that_were_not_measured():
    """Three simulations know no slope: no unknown is called undetermined."""
    fit = ps.fit(model, BOX, LINE + 0.3 * NOISE, maxfev=3, rng=1)
    assert np.isnan(fit.standard_errors).all()
    assert fit.degrees_of_freedom == 12
    assert fit.remarks[1:] == (
        "The slopes at the best point were not measured: standard errors need more simulations.",
    )
    assert "not determined" not in str(fit)
    assert np.isnan(fit.band()[0]).all()


def test_bands_are_infinite_where_predictions_are_not_determined():
    """Without u nothing is known of b: only its first datum does not depend on it."""
    line = {"u": 3 + 2 * X + 0.1 * NOISE, "v": 3 + 0.1 * NOISE}
    x = X * (X < 1)

    def both(p):
        return {"u": p["a"] * np.exp(-p["b"] * x), "v": p["a"] * np.linspace(1, 2, 15)}

    fit = ps.fit(both, {"a": (0, 10), "b": (0.01, 5)}, line, rng=1).refit(without=["u"])
    slope = np.linspace(1, 2, 15)
    a = line["v"] @ slope / (slope @ slope)
    error = np.sqrt(((line["v"] - a * slope) ** 2).sum() / 14 / (slope @ slope))
    low, high = fit.band()
    assert_allclose(fit.standard_errors, [error, np.inf], rtol=1e-5)
    assert (low["u"][x > 0] == -np.inf).all()
    assert (high["u"][x > 0] == np.inf).all()
    assert_allclose((high["u"] - low["u"])[x == 0], 2 * stats.t(14).ppf(0.975) * error, rtol=1e-4)
    assert_allclose(high["v"] - low["v"], 2 * stats.t(14).ppf(0.975) * error * slope, rtol=1e-4)


@pytest.mark.parametrize("seed", [1, 4, 5])
def test_no_effect_has_precedence_over_the_bound(seed):
    t = np.linspace(0, 5, 12)
    data = 3 * np.exp(-0.7 * t) + 0.1 * np.random.default_rng(0).normal(size=12)
    space = {"a": (0, 10), "k": (0.01, 5), "z": (1, 2)}
    fit = ps.fit(lambda p: p["a"] * np.exp(-p["k"] * t) + 0 * p["z"], space, data, rng=seed)
    assert fit.x[2] in (1, 2)
    assert fit.standard_errors[2] == np.inf
    assert fit.remarks == ("z has no effect on the outputs.",)


def test_more_unknowns_than_data():
    """Three data determine three directions of four unknowns."""
    design = np.vander([0.0, 1.0, 2.0], 4)
    space = dict.fromkeys("abcd", (-20, 20))
    fit = ps.fit(lambda p: design @ list(p.values()), space, np.array([1.0, 2.0, 4.0]), sigma=0.1, rng=1)
    assert fit.degrees_of_freedom == 0
    assert np.isinf(fit.standard_errors[:3]).all()
    assert_allclose(fit.standard_errors[3], 0.1, rtol=1e-6)
    low, high = fit.band()
    assert_allclose(high - low, 2 * stats.norm.ppf(0.975) * 0.1, rtol=1e-6)
    assert any("do not determine all unknowns" in remark for remark in fit.remarks)


@pytest.mark.parametrize("log", [False, True])
def test_a_rate_that_is_a_product_is_not_determined(log):
    data = 7 * np.exp(-0.9 * X) + 0.2 * NOISE
    space = {name: ps.Real(0.01, 10, log=log) for name in ("a", "b")}
    fit = ps.fit(lambda p: 7 * np.exp(-p["a"] * p["b"] * X), space, data, rng=1)
    assert np.isinf(fit.standard_errors).all()
    assert_allclose(fit.best["a"] * fit.best["b"], 0.9, rtol=0.05)


def test_an_unknown_that_a_factor_takes_up_has_no_effect():
    data = 7 * np.exp(-0.9 * X) + 0.2 * NOISE
    fit = ps.fit(
        lambda p: p["size"] * np.exp(-p["rate"] * X), {"size": (0.1, 5), "rate": (0.1, 5)}, ps.Scaled(data), rng=1
    )
    plain = ps.fit(lambda p: p["size"] * np.exp(-p["rate"] * X), {"size": (0.1, 30), "rate": (0.1, 5)}, data, rng=1)
    assert np.isinf(fit.standard_errors[0])
    assert fit.degrees_of_freedom == plain.degrees_of_freedom == 13
    # The best point may be one of the differences along the size, a ten-thousandth of its box away.
    assert_allclose(fit.standard_errors[1], plain.standard_errors[1], rtol=5e-3)
    assert_allclose(fit.band()[0], plain.band()[0], rtol=5e-3)


def test_logarithmic_unknowns_have_symmetric_errors_of_their_logarithm():
    data = 7 * np.exp(-0.9 * X) + 0.2 * NOISE
    space = {"size": ps.Real(0.1, 100, log=True), "rate": ps.Real(0.01, 10, log=True)}
    log = ps.fit(lambda p: p["size"] * np.exp(-p["rate"] * X), space, data, rng=1)
    plain = ps.fit(lambda p: p["size"] * np.exp(-p["rate"] * X), {"size": (0.1, 100), "rate": (0.01, 10)}, data, rng=1)
    assert_allclose(log.x, plain.x, rtol=1e-5)
    assert_allclose(log.covariance, plain.covariance, rtol=1e-4)
    assert_allclose(log.jacobian, plain.jacobian, rtol=1e-4, atol=1e-6)
    low, high = log.interval()
    assert_allclose(low * high, log.x**2)


def test_too_few_data_for_an_unknown_sigma():
    fit = ps.fit(lambda p: DESIGN[:3] @ list(p.values()), BOX, LINE[:3], rng=1)
    assert fit.degrees_of_freedom == 0
    assert np.isnan(fit.standard_errors).all()
    assert any("too few" in remark for remark in fit.remarks)


def test_bands_of_relative_noise_are_those_of_the_logarithm():
    """y = a x with log-normal noise is ln y = ln a + ln x + e: a mean, whose bands are known."""
    rng = np.random.default_rng(4)
    x = np.linspace(1.0, 3.0, 15)
    data = 2.0 * x * np.exp(0.3 * rng.standard_normal(15))
    fit = ps.fit(lambda p: p["a"] * x, {"a": ps.Real(0.1, 10, log=True)}, data, likelihood="lognormal", rng=1)
    logs = np.log(data / x)
    s, t = logs.std(ddof=1), stats.t.ppf(0.975, 14)
    for noise, error in ((False, s / np.sqrt(15)), (True, s * np.sqrt(1 + 1 / 15))):
        for end, sign in zip(fit.band(noise=noise), (-1, 1), strict=True):
            assert_allclose(end, x * np.exp(logs.mean() + sign * t * error), rtol=1e-3)


def test_bands_of_counts_end_at_zero():
    counts = np.array([0.0, 1, 0, 2, 1, 0, 0, 1])
    fit = ps.fit(lambda p: np.full(8, p["rate"]), {"rate": (0.01, 10)}, counts, likelihood="poisson", rng=1)
    low, high = fit.band(noise=True)
    assert (low == 0).all()
    assert (high > counts.mean()).all()


def test_one_standard_error_is_no_plural():
    fit = ps.fit(lambda p: p["a"] * np.ones(4), {"a": (0, 9)}, np.full(4, 1.0), sigma=2.0, rng=1)
    assert any("a is 1 standard error from its lower bound" in one for one in fit.remarks)


def test_one_datum_is_no_plural():
    fit = ps.fit(lambda p: p["a"] * np.ones(1), {"a": (0, 9)}, np.array([1.0]), rng=1)
    assert any("1 datum is too few" in one for one in fit.remarks)
