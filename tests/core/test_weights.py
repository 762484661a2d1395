"""Weights: identities by hand, properties of resampling, and tails of known shape."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from paoswarm.core.weights import (
    effective_size,
    log_mean_weight_error,
    log_sum_exp,
    next_temperature,
    normalise,
    pareto_k,
    systematic,
)


class TestSums:
    def test_by_hand_and_far_from_zero(self):
        a = np.log([1.0, 2.0, 5.0])
        assert_allclose(log_sum_exp(a), math.log(8))
        assert isinstance(log_sum_exp(a), float)
        assert_allclose(log_sum_exp(a + 5000), 5000 + math.log(8), rtol=1e-15)
        assert_allclose(log_sum_exp(a - 5000), -5000 + math.log(8), rtol=1e-15)

    def test_zeros_do_not_count(self):
        rows = np.array([[0.0, -np.inf], [-np.inf, -np.inf]])
        assert_array_equal(log_sum_exp(rows, axis=1), [0.0, -np.inf])

    def test_normalised_weights_forget_their_scale(self):
        assert_allclose(normalise(np.log([1.0, 3.0]) - 900), [0.25, 0.75])

    @pytest.mark.parametrize("log_w", [[-np.inf, -np.inf], [np.nan, 0.0], [np.inf, 0.0]])
    def test_weights_that_cannot_be_normalised_are_refused(self, log_w):
        with pytest.raises(ValueError, match="largest log weight"):
            normalise(np.array(log_w))


class TestEffectiveSize:
    def test_by_hand(self):
        assert_allclose(effective_size(np.log([1.0, 1.0, 2.0])), 16 / 6)
        assert_allclose(effective_size(np.zeros(7)), 7)
        assert_allclose(effective_size(np.array([0.0, -np.inf, -np.inf])), 1)
        assert effective_size(np.full(3, -np.inf)) == 0

    def test_the_error_is_that_of_a_mean(self):
        w = np.random.default_rng(1).gamma(2.0, size=50)
        assert_allclose(log_mean_weight_error(np.log(w) + 77), w.std(ddof=1) / math.sqrt(50) / w.mean())

    @pytest.mark.parametrize("log_w", [[0.0], [-np.inf, -np.inf]])
    def test_no_error_without_two_weights(self, log_w):
        assert log_mean_weight_error(np.array(log_w)) == math.inf


class TestNextTemperature:
    @pytest.mark.parametrize("scale", [1e-3, 1.0, 1e4, 1e12])
    @pytest.mark.parametrize("weighted", [False, True])
    def test_leaves_exactly_the_share_that_was_wanted(self, scale, weighted):
        rng = np.random.default_rng(2)
        log_l = -scale * rng.gamma(2.0, size=400)
        log_w = rng.normal(size=400) if weighted else np.zeros(400)
        for beta, share in ((0.0, 0.5), (0.3, 0.9)):
            above = next_temperature(log_l, log_w, beta, share)
            left = effective_size(log_w + (above - beta) * log_l) / effective_size(log_w)
            if above < 1:
                # next to beta = 0.3 a rise of 1e-12 has only four digits
                assert_allclose(left, share, rtol=1e-9 if scale < 1e5 or beta == 0 else 1e-3)
            else:
                assert left >= share

    def test_points_without_likelihood_do_not_stop_the_rise(self):
        log_l = np.concatenate([np.full(900, -np.inf), -np.random.default_rng(3).gamma(2.0, size=100) * 50])
        above = next_temperature(log_l, np.zeros(1000), 0.0, 0.5)
        assert_allclose(effective_size(above * log_l), 50, rtol=1e-9)

    def test_equal_likelihoods_go_to_the_end_at_once(self):
        assert next_temperature(np.full(10, -3.0), np.zeros(10), 0.2, 0.99) == 1.0

    def test_always_rises(self):
        log_l = np.array([0.0, -1e300, -2e300])
        assert next_temperature(log_l, np.zeros(3), 0.5, 0.99) > 0.5


class TestSystematic:
    def test_minimal_every_time(self):
        rng = np.random.default_rng(4)
        for n in (1, 3, 10, 64):
            w = rng.gamma(0.5, size=9)
            count = np.bincount(systematic(w, n, rng), minlength=9)
            wanted = n * w / w.sum()
            assert (count >= np.floor(wanted)).all()
            assert (count <= np.ceil(wanted)).all()
            assert count.sum() == n

    def test_unbiased(self):
        # Eight z-scores of 4000 draws each: |z| > 4.5 has the false-alarm rate 8 * 7e-6 = 5e-5.
        rng = np.random.default_rng(5)
        w = np.array([0.05, 0.3, 0.0, 0.15, 0.01, 0.29, 0.1, 0.1])
        counts = np.stack([np.bincount(systematic(w, 5, rng), minlength=8) for _ in range(4000)])
        assert (counts[:, 2] == 0).all()
        spread = np.maximum(counts.std(axis=0), 1e-9) / math.sqrt(4000)
        assert (np.abs(counts.mean(axis=0) - 5 * w) < 4.5 * spread + 1e-12).all()

    def test_equal_weights_keep_every_point(self):
        rng = np.random.default_rng(6)
        for n in (7, 49, 10_000):
            assert_array_equal(systematic(np.ones(n), n, rng), np.arange(n))

    def test_zero_weights_at_the_ends_are_never_drawn(self):
        class Edge:
            def __init__(self, u):
                self.u = u

            def random(self):
                return self.u

        for u in (0.0, np.nextafter(1.0, 0.0)):
            drawn = systematic(np.array([0.0, 0.3, 0.7, 0.0]), 3, Edge(u))
            assert set(drawn) <= {1, 2}


class TestParetoK:
    @pytest.mark.parametrize("k", [-0.3, 0.1, 0.3, 0.5, 0.7, 1.0, 1.5])
    def test_known_tails(self, k):
        # The tail above any threshold keeps its shape. 40 estimates of standard deviation about 0.1: their mean is good
        # to 0.016, and the weak prior pulls it towards 0.5 by at most 4 %.
        rng = np.random.default_rng(7)
        found = [pareto_k(np.log(((1 - rng.random(5000)) ** -k - 1) / k)) for _ in range(40)]
        assert abs(np.mean(found) - k) < 0.04 * abs(k - 0.5) + 0.08

    def test_the_scale_of_the_weights_does_not_matter(self):
        log_w = np.random.default_rng(8).normal(size=1000)
        assert_allclose(pareto_k(log_w + 800), pareto_k(log_w), rtol=1e-10)

    def test_the_rare_huge_weight_is_seen(self):
        rng = np.random.default_rng(9)
        z = 3 * rng.normal(size=4000)
        narrow, wide = -0.5 * (z / 3) ** 2 + 0.5 * z**2, -0.5 * z**2 + 0.5 * (z / 3) ** 2
        assert pareto_k(narrow) > 0.7  # the proposal N(0, 1) for the target N(0, 9), seen where the target is
        assert pareto_k(wide) < 0.5

    def test_tails_that_cannot_be_fitted(self):
        assert pareto_k(np.zeros(1000)) == -math.inf  # equal weights have no tail
        assert pareto_k(np.zeros(10)) == math.inf
        assert pareto_k(np.full(1000, -np.inf)) == math.inf
        alone = np.full(1000, -np.inf)
        alone[3] = 0.0
        assert pareto_k(alone) == math.inf
