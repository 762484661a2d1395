"""A likelihood, or a wrong sign, is pointed out; a log likelihood is never doubted."""

import warnings

import numpy as np
import pytest
from scipy import stats

import paoswarm as ps
from paoswarm.sampling.read_prior import read_prior
from paoswarm.sampling.target import warn_of_wrong_scale


def normal(d, sd):
    return lambda x: stats.norm(0.3, sd).logpdf(x).sum(axis=1)


def coin(x):
    """Seven heads in ten throws."""
    return 7 * np.log(x[:, 0]) + 3 * np.log(1 - x[:, 0])


def two_peaks(x):
    return np.logaddexp(*(-0.5 * ((x - c) ** 2).sum(axis=1) / 0.01 for c in (-0.5, 0.5)))


def signal(x):
    """A log likelihood ratio: zero where there is no signal, positive where it is."""
    return 300 * np.exp(-0.5 * ((x - 0.3) ** 2).sum(axis=1) / 0.1)


RIGHT = {
    "normal": (normal(1, 0.1), [(-1, 1)]),
    "normal in five dimensions": (normal(5, 0.1), [(-1, 1)] * 5),
    "wide normal": (normal(2, 2.0), [(-1, 1)] * 2),
    "normal prior": (normal(3, 0.1), [stats.norm(0, 1)] * 3),
    "coin": (coin, [(0, 1)]),
    "two peaks": (two_peaks, [(-1, 1)] * 2),
    "constant": (lambda x: np.zeros(len(x)), [(-1, 1)] * 2),
    "linear": (lambda x: 50 * x[:, 0], [(0, 1)]),
    "corners": (lambda x: 5 * (x**2).sum(axis=1) - 100, [(-1, 1)] * 2),
    "signal": (signal, [(-1, 1)]),
    "positive": (lambda x: 5000 + normal(2, 0.1)(x), [(-1, 1)] * 2),
    "mostly failed": (lambda x: np.where(x[:, 0] > 0.97, normal(2, 0.1)(x), np.nan), [(-1, 1)] * 2),
}


def warned(function, prior, n=1000):
    law = read_prior(prior)
    z = law.draw(n * law.dim, np.random.default_rng(1))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_of_wrong_scale(z, function(law.parameters(z)))
    return " ".join(str(one.message) for one in caught)


@pytest.mark.parametrize("name", RIGHT)
def test_a_log_likelihood_is_not_doubted(name):
    assert warned(*RIGHT[name]) == ""


@pytest.mark.parametrize("name", ["normal", "normal in five dimensions", "normal prior", "coin", "two peaks"])
def test_a_likelihood_is_pointed_out(name):
    function, prior = RIGHT[name]
    assert "looks like a likelihood" in warned(lambda x: np.exp(function(x)), prior)


@pytest.mark.parametrize("name", ["normal", "normal in five dimensions", "normal prior"])
def test_a_wrong_sign_is_pointed_out(name):
    function, prior = RIGHT[name]
    assert "wrong sign" in warned(lambda x: -function(x), prior)


def test_a_few_values_are_not_judged():
    function, prior = RIGHT["normal"]
    assert warned(lambda x: np.exp(function(x)), prior, 40) == ""


def test_sample_points_it_out_where_it_was_called():
    with pytest.warns(RuntimeWarning, match="wrong sign") as caught:
        ps.sample(lambda x: -normal(1, 0.1)(x), [(-1, 1)], vectorized=True, n_effective=100, n_particles=200, rng=1)
    assert [one.filename for one in caught if "wrong sign" in str(one.message)] == [__file__]
