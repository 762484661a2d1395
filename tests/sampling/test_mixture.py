"""Mixtures: density, draws, weighted fits."""

import math

import numpy as np
import pytest
from scipy import stats

from paoswarm.sampling.densities import Blend, Mixture, fit

FACTOR = np.array([[[1.0, 0.0], [0.5, 0.7]], [[0.3, 0.0], [-0.2, 2.0]]])
MEAN = np.array([[0.0, 1.0], [4.0, -2.0]])
WEIGHT = np.array([0.3, 0.7])


def reference(z, freedom):
    total = 0.0
    for w, a, factor in zip(WEIGHT, MEAN, FACTOR, strict=True):
        law = stats.multivariate_t(a, factor @ factor.T, df=freedom)
        total = total + w * law.pdf(z)
    return np.log(total)


@pytest.mark.parametrize("freedom", [math.inf, 3.0])
def test_density_is_scipys(freedom):
    z = np.random.default_rng(1).normal(size=(50, 2)) * 3
    mixture = Mixture(WEIGHT, MEAN, FACTOR, freedom)
    np.testing.assert_allclose(mixture.log_density(z), reference(z, freedom), rtol=1e-10)
    np.testing.assert_allclose(np.exp(mixture.log_parts(z)).sum(axis=1), np.exp(mixture.log_density(z)))


def test_large_batches_are_cut_into_blocks_without_a_seam(monkeypatch):
    z = np.random.default_rng(2).normal(size=(101, 2))
    mixture = Mixture(WEIGHT, MEAN, FACTOR)
    whole = mixture.log_density(z)
    monkeypatch.setattr("paoswarm.sampling.densities._CHUNK", 40)
    np.testing.assert_allclose(mixture.log_density(z), whole, rtol=1e-13)


@pytest.mark.parametrize("stratified", [False, True])
def test_the_mean_of_p_over_q_is_one(stratified):
    """E_q[p/q] = 1 for a known p: draws and density belong together. |z| < 4: false alarm below 1e-4 per case."""
    rng = np.random.default_rng(3)
    wide = Mixture(WEIGHT, MEAN, 1.5 * FACTOR, 4.0)
    blend = Blend(np.array([0.6, 0.4]), (wide, Mixture(np.ones(1), MEAN[:1], 3 * FACTOR[:1])))
    p = Mixture(WEIGHT, MEAN, FACTOR)
    for q in (wide, blend):
        z = q.sample(40_000, rng, stratified)
        ratio = np.exp(p.log_density(z) - q.log_density(z))
        assert abs(ratio.mean() - 1) < 4 * ratio.std() / math.sqrt(len(z))
        wrong = np.exp(p.log_density(z) - q.log_density(z + 0.3))  # control: a density of other draws is noticed
        assert abs(wrong.mean() - 1) > 4 * wrong.std() / math.sqrt(len(z))


def test_stratified_draws_take_each_components_share():
    far = Mixture(np.array([0.25, 0.75]), np.array([[-50.0], [50.0]]), np.ones((2, 1, 1)))
    z = far.sample(1000, np.random.default_rng(4), stratified=True)
    assert (z < 0).sum() == 250


def test_a_weighted_fit_of_one_component_is_the_weighted_moments():
    rng = np.random.default_rng(5)
    points, weights = rng.normal(size=(4000, 3)), rng.random(4000)
    mixture = fit(points, weights, 1, rng)
    share = weights / weights.sum()
    mean = share @ points
    covariance = (points - mean).T @ ((points - mean) * share[:, None])
    np.testing.assert_allclose(mixture.mean[0], mean, atol=1e-12)
    np.testing.assert_allclose(mixture.factor[0] @ mixture.factor[0].T, covariance, rtol=1e-6, atol=1e-9)


def test_points_of_weight_zero_do_not_exist():
    points = np.random.default_rng(6).normal(size=(300, 2))
    weights = np.where(np.arange(300) < 200, 1.0, 0.0)
    with_zeros = fit(points, weights, 2, np.random.default_rng(7))
    without = fit(points[:200], weights[:200], 2, np.random.default_rng(7))
    np.testing.assert_array_equal(with_zeros.mean, without.mean)


def test_narrow_and_wide_clusters_are_told_apart():
    rng = np.random.default_rng(8)
    truth = Mixture(
        np.array([1 / 3, 2 / 3]), np.array([[-4.0] * 10, [4.0] * 10]), np.stack([0.3 * np.eye(10), np.eye(10)])
    )
    mixture = fit(truth.sample(2000, rng), np.ones(2000), 2, rng)
    order = np.argsort(mixture.mean[:, 0])
    np.testing.assert_allclose(mixture.weight[order], [1 / 3, 2 / 3], atol=0.05)
    sd = np.sqrt(np.einsum("kij,kij->ki", mixture.factor, mixture.factor))[order]
    np.testing.assert_allclose(sd / np.array([[0.3], [1.0]]), 1, atol=0.15)


def test_concentric_scales_are_told_apart():
    rng = np.random.default_rng(9)
    truth = Mixture(np.array([0.7, 0.3]), np.zeros((2, 5)), np.stack([0.1 * np.eye(5), np.eye(5)]))
    mixture = fit(truth.sample(3000, rng), np.ones(3000), 2, rng)
    size = np.sort(np.linalg.det(mixture.factor) ** (1 / 5))
    np.testing.assert_allclose(size, [0.1, 1.0], rtol=0.15)


def test_a_heavy_tail_is_fitted_by_the_scale_not_the_variance():
    rng = np.random.default_rng(10)
    truth = Mixture(np.ones(1), np.zeros((1, 2)), np.eye(2)[None], 3.0)
    points = truth.sample(20_000, rng)
    student = fit(points, np.ones(len(points)), 1, rng, freedom=3.0)
    np.testing.assert_allclose(student.factor[0] @ student.factor[0].T, np.eye(2), atol=0.06)


@pytest.mark.parametrize("d", [1, 3])
def test_identical_points_give_a_proper_law(d):
    mixture = fit(np.ones((50, d)), np.ones(50), 3, np.random.default_rng(11))
    assert np.isfinite(mixture.log_density(np.ones((1, d)))).all()


def test_scales_that_differ_by_eight_decades_are_fitted_each():
    rng = np.random.default_rng(8)
    points = rng.standard_normal((2000, 2)) * [1.0, 1e-8]
    found = fit(points, np.ones(2000), 1, rng)
    np.testing.assert_allclose(found.factor[0].diagonal(), points.std(axis=0), rtol=0.01)
