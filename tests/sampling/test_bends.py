"""Bends and necks: the triangular map, its fit, and proposals that use it."""

import math

import numpy as np
import pytest
from scipy import stats

import paoswarm as ps
from paoswarm.sampling.bends import Bent, fit_bends
from paoswarm.sampling.densities import Mixture, fit


def bananas(n, rng, pairs=3):
    first = rng.standard_normal((n, pairs))
    return np.stack([first, first**2 - 2 + 0.2 * rng.standard_normal((n, pairs))], axis=2).reshape(n, -1)


def neck(n, rng, d=5):
    v = rng.normal(0, 2, (n, 1))
    return np.concatenate([v, np.exp(v / 2) * rng.standard_normal((n, d - 1))], axis=1)


def normal(n, rng, d=5):
    return rng.standard_normal((n, d)) @ rng.standard_normal((d, d))


def standard(d):
    return Mixture(np.ones(1), np.zeros((1, d)), np.eye(d)[None])


@pytest.mark.parametrize("drawn", [bananas, neck])
def test_the_map_is_a_bijection_with_its_determinant(drawn):
    z = drawn(1000, np.random.default_rng(1))
    bends = fit_bends(z, np.ones(len(z)))
    some = np.concatenate([z[:20], 3 * z[:20]])  # beyond the points as well
    y, log_det = bends.straightened(some)
    np.testing.assert_allclose(bends.bent(y), some, rtol=1e-9, atol=1e-9)
    step = 1e-5 * np.eye(z.shape[1])
    slopes = [(bends.straightened(some + s)[0] - bends.straightened(some - s)[0]) / 2e-5 for s in step]
    determinant = np.linalg.slogdet(np.stack(slopes, axis=2))
    assert (determinant[0] > 0).all()
    np.testing.assert_allclose(determinant[1], log_det, atol=1e-4)


def log_density_of_bananas(z):
    first, second = z[:, ::2], z[:, 1::2]
    return (stats.norm.logpdf(first) + stats.norm.logpdf(second, first**2 - 2, 0.2)).sum(axis=1)


def log_density_of_neck(z):
    return stats.norm.logpdf(z[:, 0], 0, 2) + stats.norm.logpdf(z[:, 1:], 0, np.exp(z[:, :1] / 2)).sum(axis=1)


@pytest.mark.parametrize(("drawn", "log_density"), [(bananas, log_density_of_bananas), (neck, log_density_of_neck)])
def test_one_normal_law_fits_straightened_points(drawn, log_density):
    """The information that it loses on fresh points: hardly any; without the map, more than one unit."""
    rng = np.random.default_rng(2)
    train, test = drawn(2000, rng), drawn(5000, rng)
    bends = fit_bends(train, np.ones(len(train)))
    bent = Bent(fit(bends.straightened(train)[0], np.ones(len(train)), 1, rng), bends)
    assert (log_density(test) - bent.log_density(test)).mean() < 0.1
    assert (log_density(test) - fit(train, np.ones(len(train)), 1, rng).log_density(test)).mean() > 1


@pytest.mark.parametrize("drawn", [bananas, neck])
def test_draws_and_density_belong_together(drawn):
    """E_q[p/q] = 1 for a known p, a normal law in straightened coordinates. |z| < 4: false alarm below 1e-4."""
    rng = np.random.default_rng(3)
    z = drawn(1000, rng)
    bends, d = fit_bends(z, np.ones(len(z))), z.shape[1]
    p, q = Bent(standard(d), bends), Bent(standard(d).widened(1.2, 5.0), bends)
    drawn_z = q.sample(20_000, rng)
    ratio = np.exp(p.log_density(drawn_z) - q.log_density(drawn_z))
    assert abs(ratio.mean() - 1) < 4 * ratio.std() / math.sqrt(len(ratio))
    y, _ = bends.straightened(drawn_z)
    wrong = np.exp(standard(d).log_density(y) - q.log_density(drawn_z))  # control: without the determinant
    assert abs(wrong.mean() - 1) > 4 * wrong.std() / math.sqrt(len(wrong))


def test_normal_points_have_no_bends():
    """By design fewer than one set in 10,000 has any."""
    for seed in range(20):
        assert fit_bends(normal(1000, np.random.default_rng(seed)), np.ones(1000)) is None


def test_the_leading_parameters_are_those_that_bend_the_others():
    rng = np.random.default_rng(4)
    led = {term[1] for row in fit_bends(bananas(2000, rng), np.ones(2000)).rows for term in row.location}
    assert led - {-1} == {0, 2, 4}
    led = {term[1] for row in fit_bends(neck(2000, rng), np.ones(2000)).rows for term in row.log_scale}
    assert led == {0}


def test_points_that_count_twice_are_two_points():
    z = neck(500, np.random.default_rng(5))
    once = fit_bends(np.concatenate([z, z]), np.ones(1000))
    y, log_det = once.straightened(z)
    assert np.isfinite(y).all()
    assert np.isfinite(log_det).all()


@pytest.mark.slow
def test_five_bent_pairs_in_ten_dimensions():
    """A mixture of normal laws has an efficiency of 5e-6 here. |z| < 4: false alarm below 1e-4."""
    posterior = ps.sample(log_density_of_bananas, [(-7, 7)] * 10, vectorized=True, n_effective=500, rng=1)
    inside = 5 * math.log(stats.norm.cdf(3) - stats.norm.cdf(-3))  # the box cuts what lies above x^2 - 2 = 7
    assert posterior.success
    assert abs(posterior.log_evidence + 10 * math.log(14) - inside) < 4 * posterior.log_evidence_error
    assert posterior.log_evidence_error < 0.05
