"""Residuals that are no noise: false alarms at the stated rate, and alarms where a model is wrong.

Every statistical check has a fixed seed. Bounds on rates are those of a binomial distribution at 1e-4.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from paoswarm.least_squares.ends import CORRELATED, IMPROBABLE, Contradiction, contradiction, correlation
from paoswarm.least_squares.likelihoods import Huber, LogNormal, Normal, Poisson, StudentT
from paoswarm.least_squares.loss import Group, Loss

LEVEL = 1e-4


def most(n, rate):
    """A count that is exceeded with a probability of `LEVEL`."""
    return stats.binom(n, rate).ppf(1 - LEVEL)


def verdict(law, data, mu, n_unknowns=0, *, n_beliefs=0, scale=False):
    m = len(data)
    loss = Loss(data, (Group("", slice(0, m), law, scale),), n_beliefs)
    return contradiction(loss.around(mu), loss, [np.arange(m)], n_unknowns)


@pytest.mark.parametrize("m", [8, 30, 200])
def test_z_of_noise_is_about_standard_normal(m):
    rng = np.random.default_rng(m)
    z = np.array([correlation(rng.normal(size=m), [np.arange(m)]) for _ in range(4000)])
    assert abs(z.mean()) < 4 / np.sqrt(4000)
    assert z.var() < 1 + 4 * np.sqrt(2 / 4000)
    assert (np.abs(z) > CORRELATED).sum() <= most(4000, 2 * stats.norm.sf(CORRELATED))
    if m == 200:
        assert stats.kstest(z, "norm").pvalue > LEVEL


def test_series_are_joined_and_missing_data_left_out():
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=12), rng.normal(size=9)
    gap = np.concatenate([a[:5], [np.nan], a[5:], b])
    z = correlation(gap, [np.arange(13), np.arange(13, 22)])
    expected = np.sqrt(21) * (a[1:] @ a[:-1] + b[1:] @ b[:-1]) / (a @ a + b @ b)
    assert_allclose(z, expected)
    assert correlation(a[:7], [np.arange(7)]) == 0  # too short to say anything
    assert correlation(np.zeros(20), [np.arange(20)]) == 0


def test_waves_are_noticed():
    rng = np.random.default_rng(2)
    x = np.arange(60.0)
    wave = np.sin(x / 5) + 0.5 * rng.normal(size=60)
    assert verdict(Normal(), wave, np.zeros(60)).correlation > CORRELATED
    assert verdict(Normal(), (-1) ** x, np.zeros(60)).correlation < -CORRELATED
    assert bool(Contradiction(correlation=-4.0))
    assert not Contradiction()


@pytest.mark.parametrize("scale", [False, True])
@pytest.mark.parametrize("n_beliefs", [0, 5])
def test_chi_square_of_a_fitted_line_is_uniform(scale, n_beliefs):
    """Unknowns and factors take degrees of freedom, beliefs give some."""
    rng = np.random.default_rng(3)
    m, n = 25, 3
    design = np.vander(np.linspace(-1, 1, m), n)
    beliefs = rng.normal(size=(n_beliefs, n))
    found = []
    for _ in range(600):
        noise = 0.2 * rng.normal(size=m)
        mu = 10 + design @ [1.0, 2.0, 3.0]
        whole = np.concatenate([design / 0.2, beliefs])
        if scale:
            whole = np.concatenate([whole, np.r_[mu / 0.2, np.zeros(n_beliefs)][:, None]], axis=1)
        target = np.concatenate([noise / 0.2, rng.normal(size=n_beliefs)])
        fitted = whole @ np.linalg.lstsq(whole, target)[0]
        y = np.concatenate([mu + 0.2 * fitted[:m], (fitted - target)[m:]])
        found.append(verdict(Normal(0.2), mu + noise, y, n, n_beliefs=n_beliefs, scale=scale).probability)
    assert stats.kstest(found, "uniform").pvalue > LEVEL
    assert (np.array(found) < IMPROBABLE).sum() <= most(600, IMPROBABLE)


@pytest.mark.parametrize(
    ("law", "drawn"),
    [
        (Poisson(), lambda rng, mu: rng.poisson(mu).astype(float)),
        (StudentT(0.5, df=3), lambda rng, mu: mu + 0.5 * rng.standard_t(3, len(mu))),
        (Huber(0.5), lambda rng, mu: mu + 0.5 * rng.standard_t(6, len(mu))),
        (Normal(0.5, relative=0.3), lambda rng, mu: mu + np.hypot(0.5, 0.3 * mu) * rng.normal(size=len(mu))),
        (LogNormal(0.3), lambda rng, mu: mu * np.exp(0.3 * rng.normal(size=len(mu)))),
        (StudentT(), lambda rng, mu: mu + 0.5 * rng.standard_t(4, len(mu))),
    ],
    ids=lambda one: repr(one) if hasattr(one, "scored") else "",
)
def test_noise_of_any_law_does_not_contradict_it(law, drawn):
    rng = np.random.default_rng(4)
    mu = np.linspace(0.5, 3, 400)
    alarms = sum(bool(verdict(law, drawn(rng, mu), mu)) for _ in range(300))
    assert alarms <= most(300, 2 * stats.norm.sf(CORRELATED) + IMPROBABLE)


def test_a_chi_square_that_is_too_large_is_noticed():
    rng = np.random.default_rng(5)
    data = 1.6 * rng.normal(size=100)
    assert verdict(Normal(1.0), data, np.zeros(100)).probability < IMPROBABLE
    assert verdict(Normal(), data, np.zeros(100)).probability == 1
    assert verdict(Normal(1.0), data[:3], np.zeros(3), 3).probability == 1
    expected = stats.chi2(98).sf((data**2).sum())
    assert_allclose(verdict(Normal(1.0), data, np.zeros(100), 2).probability, expected)
