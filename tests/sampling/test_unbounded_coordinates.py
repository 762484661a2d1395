"""Coordinates without walls: densities stay normalised, and posteriors that lean against a wall are fitted there."""

import math

import numpy as np
import pytest
from scipy import integrate, stats

import paoswarm as ps
from paoswarm.sampling.densities import Mixture, Warped, choose_warped, to_line

LAW = Mixture(np.array([0.3, 0.7]), np.array([[-1.5], [0.8]]), np.array([[[0.4]], [[1.3]]]))
FIRST = np.array([True])


def test_the_density_integrates_to_one_between_the_walls():
    total, _ = integrate.quad(lambda z: math.exp(Warped(LAW, FIRST).log_density(np.array([[z]]))[0]), -1, 1, limit=200)
    assert total == pytest.approx(1.0, abs=1e-7)
    assert Warped(LAW, FIRST).log_density(np.array([[1.0], [-1.0], [1.5]])).tolist() == [-np.inf] * 3


def test_draws_follow_the_density():
    """Kolmogorov-Smirnov, p > 1e-4."""
    z = Warped(LAW, FIRST).sample(20_000, np.random.default_rng(1))[:, 0]
    cdf = stats.norm.cdf(stats.norm.ppf((1 + z) / 2)[:, None], LAW.mean[:, 0], LAW.factor[:, 0, 0]) @ LAW.weight
    assert stats.kstest(cdf, "uniform").pvalue > 1e-4
    assert stats.kstest(stats.norm.cdf(z), "uniform").pvalue < 1e-4  # the test can fail


def test_far_draws_count_as_drawn_outside_and_never_as_lying_on_a_wall():
    wide = Mixture(np.ones(1), np.zeros((1, 1)), np.full((1, 1, 1), 20.0), 4.0)
    z = Warped(wide, FIRST).sample(1000, np.random.default_rng(4))
    assert (np.abs(z) > 1).any()
    assert np.isfinite(Warped(wide, FIRST).log_density(z)).tolist() == (np.abs(z[:, 0]) < 1).tolist()
    assert not (np.abs(z) == 1).any()


def test_the_line_and_back_keeps_digits_near_both_walls():
    z = np.concatenate([-1 + np.geomspace(1e-15, 1, 40), 1 - np.geomspace(1e-15, 1, 40)])[:, None]
    back = stats.norm.cdf(to_line(z, FIRST)) - stats.norm.sf(to_line(z, FIRST))
    np.testing.assert_allclose(back, z, rtol=1e-13)
    free = np.array([[0.3, 5.0]])
    assert to_line(free, np.array([True, False]))[0, 1] == 5.0


def test_a_law_at_a_wall_and_a_flat_one_are_bent_and_a_narrow_one_is_not():
    rng = np.random.default_rng(2)
    n = 2000
    points = np.stack(
        [-1 + rng.exponential(0.05, n), rng.uniform(-1, 1, n), 0.2 + 0.05 * rng.standard_normal(n)], axis=1
    )
    assert choose_warped(points, np.ones(n), np.ones(3, dtype=bool)).tolist() == [True, True, False]
    assert not choose_warped(points, np.ones(n), np.zeros(3, dtype=bool)).any()


@pytest.mark.slow
def test_a_posterior_in_a_corner_of_the_box():
    """Five exponential laws, each against its wall: within four stated errors (false alarm 6e-5), at a fair price."""
    rate = 30.0
    posterior = ps.sample(
        lambda x: -rate * x.sum(axis=1), [(0, 1)] * 5, vectorized=True, n_effective=1000, maxfev=30_000, rng=3
    )
    truth = 5 * math.log((1 - math.exp(-rate)) / rate)
    assert abs(posterior.log_evidence - truth) < 4 * posterior.log_evidence_error < 0.2
    assert posterior.diagnostics["predicted_efficiency"] > 0.3  # normal laws in the box itself reach less than 0.1
    np.testing.assert_allclose(posterior.mean(), 1 / rate, rtol=0.2)
