"""Views of a posterior: by name, bands, new data, and log densities of each datum.

Statistical comparisons are within 4.5 standard errors, so each is wrong with a probability below 1e-5; seeds are fixed.
"""

import math
import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import integrate, stats

import paoswarm as ps
from paoswarm.least_squares.loss import Group, Loss
from paoswarm.least_squares.marginal import draw_nuisances, log_marginal_likelihoods

WRONG = 4.5
TIMES = np.linspace(0.5, 6.0, 12)
STRAIGHT = 3.0 + 1.5 * TIMES + 0.3 * np.random.default_rng(0).normal(size=12)
PRIOR = {"slope": (-9, 9), "shift": 1.0, "level": (-20, 20)}


def line(p):
    return p["level"] + p["shift"] - 1 + p["slope"] * TIMES


@pytest.fixture(scope="module")
def drawn():
    return ps.sample(line, PRIOR, STRAIGHT, sigma=0.3, n_effective=1000, rng=1)


def test_draws_by_name(drawn):
    assert drawn.names == ["slope", "level"]
    assert_array_equal(drawn["level"], drawn.draws[:, 1])
    assert_array_equal(drawn[["level", "slope"]], drawn.draws[:, ::-1])
    with pytest.raises(ValueError, match="no parameter 'levle'; did you mean level"):
        drawn["levle"]
    with pytest.raises(TypeError, match="name of a parameter"):
        drawn[0]
    with pytest.raises(TypeError, match="cannot be iterated"):
        list(drawn)


def test_quantiles_of_several_shares_and_names(drawn):
    several = drawn.quantile([0.05, 0.5])
    assert several.shape == (2, 2)
    assert_array_equal(several[1], drawn.quantile(0.5))
    assert_array_equal(drawn.quantile([0.05, 0.5], "level"), several[:, 1])
    assert_array_equal(drawn.quantile(0.05, ["level"]), several[0, 1:])
    assert drawn.quantile(0.5, names="slope").shape == ()
    for wrong in (1.5, [0.1, -1], "half", [[0.5]]):
        with pytest.raises(ValueError, match="share must lie between 0 and 1"):
            drawn.quantile(wrong)


def test_functions_get_what_the_simulator_gets(drawn):
    again = drawn.predict(line, n=50, rng=3)
    assert_allclose(again, drawn.predict(n=50, rng=3), rtol=1e-6)  # emulated, from a line
    assert_array_equal(drawn.predict(lambda p: p["level"] * np.ones(3), n=50, rng=3)[:, 0], drawn.resample(50, 3)[:, 1])
    both = drawn.predict({"line": line, "level": lambda p: p["level"]}, n=50, rng=3)
    assert_array_equal(both["line"], again)
    by_dict = drawn.predict(lambda p: {"line": line(p), "level": p["level"]}, n=50, rng=3)
    assert_array_equal(by_dict["level"], both["level"])
    rows = drawn.predict(lambda p: {"level": p["level"] + p["shift"]}, n=50, rng=3, vectorized=True)
    assert_array_equal(rows["level"], both["level"] + 1)
    with pytest.raises(ValueError, match="vectorized=True the function must map"):
        drawn.predict(lambda p: 1.0, vectorized=True)
    with pytest.raises(TypeError, match="a function of the parameters"):
        drawn.predict([line])
    with pytest.raises(ValueError, match="add noise in the function"):
        drawn.predict(line, noise=True)


def test_functions_of_a_log_likelihood_have_names_too():
    posterior = ps.sample(lambda x: -0.5 * x["a"] ** 2, {"a": (-5, 5), "b": 2.0}, n_effective=100, rng=1)
    found = posterior.predict(lambda x: x["a"] + x["b"], n=20, rng=1)
    assert_array_equal(found, posterior.resample(20, 1)[:, 0] + 2)
    assert_array_equal(posterior.predict(lambda x: x[0] + 2, n=20, rng=1), found)
    in_list = ps.sample(lambda x: -0.5 * x[1] ** 2, [2.0, (-5, 5)], n_effective=100, rng=1)
    assert_array_equal(in_list.predict(lambda x: x, n=5)[:, 0], 2.0)
    for call in (posterior.predict, posterior.band):
        with pytest.raises(ValueError, match="function is needed: the posterior knows no data"):
            call()


def test_bands_are_quantiles_of_predictions(drawn):
    grid = np.linspace(0, 10, 5)
    low, high = drawn.band(0.9, lambda p: p["level"] + p["slope"] * grid, n=400, rng=2)
    values = drawn.predict(lambda p: p["level"] + p["slope"] * grid, n=400, rng=2)
    assert_array_equal([low, high], np.quantile(values, [0.05, 0.95], axis=0))
    low, high = drawn.band(n=4000)
    design = np.stack([TIMES, np.ones(12)], axis=1)
    covariance = 0.09 * np.linalg.inv(design.T @ design)
    width = 2 * 1.96 * np.sqrt(np.einsum("ij,jk,ik->i", design, covariance, design))
    assert_allclose(high - low, width, rtol=0.15)  # 1000 effective draws: 2.5 % of an end is known to 7 %
    low, high = drawn.band(noise=True, n=4000)
    assert_allclose(high - low, np.sqrt(width**2 + (2 * 1.96 * 0.3) ** 2), rtol=0.12)
    assert drawn.band(0.5, {"level": lambda p: p["level"]})[0]["level"].shape == ()
    with pytest.raises(ValueError, match="level must be a number strictly between"):
        drawn.band(95)


def test_predictions_have_the_form_of_the_data_and_take_no_simulation():
    calls = []

    def simulate(p):
        calls.append(p)
        return {"straight": line(p | {"shift": 1.0}), "count": np.exp(p["slope"]) * np.ones((2, 2))}

    data = {"straight": np.where(TIMES > 4, np.nan, STRAIGHT), "count": np.full((2, 2), 4)}
    posterior = ps.sample(simulate, {"slope": (0.5, 2.5), "level": (0, 6)}, data, sigma={"straight": 0.3},
                          likelihood={"straight": "normal", "count": "poisson"}, n_effective=200, rng=1)  # fmt: skip
    n = len(calls)
    new = posterior.predict(n=30, noise=True)
    assert {name: one.shape for name, one in new.items()} == {"straight": (30, 12), "count": (30, 2, 2)}
    assert_array_equal(new["count"], np.rint(new["count"]))
    each = posterior.simulated.log_densities(posterior._rows, np.random.default_rng(0))
    assert {name: one.shape[1:] for name, one in each.items()} == {"straight": (8,), "count": (2, 2)}
    total = each["straight"].sum(axis=1) + each["count"].sum(axis=(1, 2))
    assert_allclose(total, posterior.log_likelihood, rtol=1e-9)
    assert len(calls) == n
    again = pickle.loads(pickle.dumps(ps.sample(line, PRIOR, STRAIGHT, n_effective=100, rng=1)))
    assert again.predict(n=3).shape == (3, 12)


def test_a_fit_s_posterior_predicts_too():
    fit = ps.fit(line, {"slope": (-9, 9), "shift": 1.0, "level": ps.Real(1, 9, log=True)}, STRAIGHT,
                 priors={"slope": stats.norm(1.5, 1)}, rng=1)  # fmt: skip
    posterior = fit.sample(n_effective=200, rng=1)
    assert_allclose(posterior.predict(n=20, rng=1), posterior.predict(line, n=20, rng=1), rtol=1e-3)  # emulated
    low, high = posterior.band(0.95, n=4000, noise=True)
    theirs = fit.band(0.95, noise=True)
    assert_allclose(high - low, theirs[1] - theirs[0], rtol=0.35)  # 200 draws


def test_periodic_parameters_have_their_outputs():
    angles = np.linspace(0, 2, 7)
    posterior = ps.sample(lambda p: np.cos(angles + p["phase"]), {"phase": ps.Periodic(0, 2 * math.pi)},
                          np.cos(angles), sigma=0.3, n_effective=200, rng=1)  # fmt: skip
    draws = posterior.weighted.draws
    assert min(draws.min(), 2 * math.pi - draws.max()) < 0  # beyond an end
    near = np.cos(draws[:, 0]) > 0.8
    assert_allclose(posterior.simulated.outputs[near], np.cos(angles + draws[near]), atol=2e-3)  # emulated


LAWS = [
    ps.likelihoods.Normal(0.5),
    ps.likelihoods.Normal(0.5, relative=0.2),
    ps.likelihoods.LogNormal(0.5),
    ps.likelihoods.Poisson(),
    ps.likelihoods.StudentT(0.5, df=5),
    ps.likelihoods.Huber(0.5, k=1.0),
]


@pytest.mark.parametrize("law", LAWS, ids=lambda law: type(law).__name__)
def test_new_data_have_the_density_of_their_law(law):
    """Kolmogorov's test against the integral of the density; a false alarm has a probability of 1e-5."""
    mu = np.full((1, 4000), 3.0)
    drawn = np.sort(law.draw(mu, np.random.default_rng(1))[0])
    if isinstance(law, ps.likelihoods.Poisson):
        counts = np.bincount(drawn.astype(int), minlength=13)[:13]
        expected = 4000 * np.exp(law.log_densities(np.full((1, 13), 3.0), np.arange(13.0))[0])
        assert stats.chi2(13).sf(((counts - expected) ** 2 / expected).sum()) > 1e-5
        return
    grid = np.linspace(1e-9 if isinstance(law, ps.likelihoods.LogNormal) else -40, 60, 40_001)
    density = np.exp(law.log_densities(np.full((1, len(grid)), 3.0), grid)[0])
    below = integrate.cumulative_simpson(density, x=grid, initial=0)
    assert_allclose(below[-1], 1, atol=1e-3)  # normalised
    apart = np.abs(np.interp(drawn, grid, below) - (np.arange(4000) + 0.5) / 4000).max()
    assert stats.kstwo(4000).sf(apart) > 1e-5


@pytest.mark.parametrize(("has_scale", "has_offset"), [(False, False), (True, False), (True, True)])
def test_nuisances_are_drawn_from_their_posterior(has_scale, has_offset):
    """Mean and variance of the drawn sigma, and of predictions, by importance weights on a grid of the nuisances."""
    rng = np.random.default_rng(0)
    mu = np.array([1.0, 2.0, 4.0, 3.0, 5.0, 2.5, 3.5, 1.5])
    data = 2 * mu * has_scale + mu * (not has_scale) + has_offset + 0.3 * rng.normal(size=8)
    loss = Loss(data, (Group("", slice(0, 8), ps.likelihoods.Normal(), has_scale, has_offset),))
    n = 4000
    predicted, (law,) = draw_nuisances(loss, np.tile(mu, (n, 1)), rng)
    design = (
        np.stack([mu] * has_scale + [np.ones(8)] * has_offset, axis=1) if has_scale or has_offset else np.zeros((8, 0))
    )
    base = np.zeros(8) if has_scale else mu
    theta = np.linalg.lstsq(design, data - base)[0]
    s, nu = ((data - base - design @ theta) ** 2).sum(), 8 - design.shape[1]
    variance = law.sigma[:, 0] ** 2
    assert stats.kstest(s / variance, stats.chi2(nu).cdf).pvalue > 1e-5
    unit = design @ np.linalg.inv(design.T @ design) @ design.T if design.shape[1] else np.zeros((8, 8))
    expected = s / (nu - 2) * np.diag(unit)
    assert_allclose(predicted.mean(axis=0), base + design @ theta, atol=WRONG * np.sqrt(expected.max() / n) + 1e-12)
    assert_allclose(predicted.var(axis=0), expected, rtol=0.25, atol=1e-12)
    # p(data | y) = p(data | sigma, factors) p(sigma, factors) / p(sigma, factors | data): the same for each draw.
    flat = np.log(np.sqrt(variance))  # minus the log of the prior of sigma
    density = stats.norm(predicted, law.sigma).logpdf(data).sum(axis=1) - flat
    own = stats.chi2(nu).logpdf(s / variance) + np.log(2 * s / variance**1.5)
    if design.shape[1]:
        away = np.linalg.lstsq(design, (predicted - base).T)[0].T - theta
        precision = design.T @ design
        own += 0.5 * np.linalg.slogdet(precision / (2 * np.pi))[1] - design.shape[1] * flat
        own -= 0.5 * np.einsum("ki,ij,kj->k", away, precision, away) / variance
    assert_allclose(density - own, log_marginal_likelihoods(loss, mu[None])[0], rtol=1e-8)


def test_arviz_gets_the_log_likelihood_of_each_datum(drawn):
    arviz = pytest.importorskip("arviz_base")
    assert arviz is not None
    tree = drawn.to_datatree()
    assert tree["log_likelihood"]["data"].shape == (1, len(drawn.draws), 12)
    assert tree["posterior_predictive"]["data"].shape == (1, len(drawn.draws), 12)
    assert_array_equal(tree["observed_data"]["data"], STRAIGHT)
    assert_allclose(tree["log_likelihood"]["data"].sum("data_dim_0")[0], drawn.log_likelihood, rtol=1e-9)
    own = drawn.to_datatree(log_likelihood={"mine": lambda p: np.zeros(2)})
    assert list(own["log_likelihood"].data_vars) == ["mine"]


def test_waic_of_a_line_is_that_of_a_closed_form(drawn):
    """The expected log density of each datum, from the draws of the tree, against normal integrals."""
    pytest.importorskip("arviz_base")
    each = drawn.to_datatree()["log_likelihood"]["data"].values[0]
    design = np.stack([TIMES, np.ones(12)], axis=1)
    covariance = 0.09 * np.linalg.inv(design.T @ design)
    best = np.linalg.lstsq(design, STRAIGHT)[0]
    spread = np.einsum("ij,jk,ik->i", design, covariance, design)
    exact = stats.norm(design @ best, np.sqrt(0.09 + spread)).logpdf(STRAIGHT)
    found = np.log(np.exp(each).mean(axis=0))
    error = np.exp(each).std(axis=0) / np.exp(exact) / math.sqrt(len(each))
    assert (np.abs(found - exact) < WRONG * error).all()
