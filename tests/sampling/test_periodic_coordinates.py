"""Densities on circles: what is drawn has the density that is stated, seam and all."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from scipy.special import ive

from paoswarm.core.weights import log_mean
from paoswarm.sampling.densities import Blend, Circle, Mixture, Wrapped
from paoswarm.sampling.target import Target
from paoswarm.space.variables import Periodic

CIRCLE = Circle.of(np.array([2.0, np.inf]))
NO_IMAGES = CIRCLE._replace(shifts=np.zeros((1, 2)))
NEAR_SEAM = Mixture(
    np.array([0.7, 0.3]), np.array([[0.8, 0.5], [-0.3, 0.0]]), 0.6 * np.stack([np.eye(2)] * 2), freedom=4.0
)
N = 40_000


def von_mises(z):
    """Log density of a von Mises law with its mode at 0.9 of the circle [-1, 1), times a normal law around z^2."""
    on_circle = 2 * (np.cos(np.pi * (z[:, 0] - 0.9)) - 1) - math.log(2 * ive(0, 2))
    inside = np.abs(z[:, 0]) <= 1
    return np.where(inside, on_circle + stats.norm.logpdf(z[:, 1], z[:, 0] ** 2), -np.inf)


def mean_weight(density, seed):
    """The mean of p/q for draws from q, and its standard error."""
    z = density.sample(N, np.random.default_rng(seed))
    with np.errstate(over="ignore"):
        weight = np.exp(von_mises(z) - density.log_density(z))
    return weight.mean(), weight.std() / math.sqrt(N)


def test_the_mean_weight_is_one():
    """|z| < 4: false alarm 6e-5. One draw in ninety is on a turn without images; it counts as zero."""
    mean, error = mean_weight(Wrapped(NEAR_SEAM, CIRCLE), 1)
    assert error < 0.01
    assert abs(mean - 1) < 4 * error


def test_control_without_images_the_mean_weight_is_not_one():
    mean, error = mean_weight(Wrapped(NEAR_SEAM, NO_IMAGES), 1)
    assert abs(mean - 1) > 8 * error


def test_control_without_wrapping_mass_is_not_lost_but_weights_are_worse():
    """A box knows of no seam: still right, at the price of draws beyond it."""
    z = NEAR_SEAM.sample(N, np.random.default_rng(2))
    weight = np.exp(von_mises(z) - NEAR_SEAM.log_density(z))
    assert abs(weight.mean() - 1) < 4 * weight.std() / math.sqrt(N)
    assert weight.std() > 1.3 * mean_weight(Wrapped(NEAR_SEAM, CIRCLE), 2)[1] * math.sqrt(N)


@pytest.mark.parametrize(("freedom", "scale"), [(1.0, 0.5), (3.0, 1.0), (math.inf, 0.2), (math.inf, 2.0)])
def test_the_density_integrates_to_the_probability_of_the_known_turns(freedom, scale):
    centre = 0.7
    one = Mixture(np.ones(1), np.array([[centre]]), np.array([[[scale]]]), freedom)
    wrapped = Wrapped(one, Circle.of(np.array([2.0])))
    node, weight = np.polynomial.legendre.leggauss(200)
    law = stats.norm(centre, scale) if math.isinf(freedom) else stats.t(freedom, centre, scale)
    known = law.cdf(3) - law.cdf(-3)
    assert_allclose(weight @ np.exp(wrapped.log_density(node[:, None])), known, rtol=1e-10)
    z = wrapped.sample(N, np.random.default_rng(3))[:, 0]
    outside = int((np.abs(z) > 1).sum())
    assert stats.binomtest(outside, N, 1 - known).pvalue > 1e-4 if known < 1 else outside == 0


def test_draws_have_the_density_arc_by_arc():
    """Counts in eight arcs of one circle, chi-squared at p > 1e-4; half a turn aside they do not fit."""
    wrapped = Wrapped(NEAR_SEAM, CIRCLE)
    z = wrapped.sample(N, np.random.default_rng(4))
    x = np.linspace(-1, 1, 161)[:-1] + 1 / 160
    y = np.linspace(-30, 30, 601)
    grid = np.stack(np.meshgrid(x, y, indexing="ij"), axis=-1).reshape(-1, 2)
    share = np.exp(wrapped.log_density(grid)).reshape(8, -1).sum(axis=1)
    counts = np.histogram(z[:, 0], np.linspace(-1, 1, 9))[0]
    assert stats.chisquare(counts, share / share.sum() * counts.sum()).pvalue > 1e-4
    assert stats.chisquare(np.roll(counts, 4), share / share.sum() * counts.sum()).pvalue < 1e-8


def test_two_circles_have_nine_images():
    """The density of independent coordinates is the product of theirs."""
    both = Mixture(np.ones(1), np.array([[0.9, -0.8]]), np.diag([0.5, 0.9])[None], math.inf)
    z = np.random.default_rng(5).uniform(-1, 1, (50, 2))
    alone = [
        Wrapped(
            Mixture(np.ones(1), both.mean[:, [i]], both.factor[:, i : i + 1, i : i + 1]), Circle.of(np.array([2.0]))
        )
        for i in (0, 1)
    ]
    expected = sum(one.log_density(z[:, [i]]) for i, one in enumerate(alone))
    assert_allclose(Wrapped(both, Circle.of(np.array([2.0, 2.0]))).log_density(z), expected, rtol=1e-12)


def test_nearest_takes_any_turn_and_wrap_only_those_with_images():
    y = np.array([[0.9, 7.0], [1.1, 7.0], [-1.3, 7.0], [3.5, 7.0], [-6.2, -np.inf]])
    assert_allclose(CIRCLE.nearest(y), [[0.9, 7], [-0.9, 7], [0.7, 7], [-0.5, 7], [-0.2, -np.inf]])
    assert_array_equal(CIRCLE.has_image(y), [True, True, True, False, False])
    assert_array_equal(np.isnan(CIRCLE.wrap(y)).all(axis=1), [False, False, False, True, True])


def test_a_blend_with_the_prior_weighs_draws_off_the_circle_as_zero():
    """The evidence of a von Mises likelihood, |z| < 4: 6e-5; no weight is NaN, no lost draw is evaluated."""
    asked = []

    def log_likelihood(x):
        asked.append(x)
        return 2 * np.cos(x[:, 0] - 6.0) - 0.5 * x[:, 1] ** 2

    target = Target(log_likelihood, {"phase": Periodic(0, 2 * np.pi), "level": stats.norm(0, 1)})
    assert_array_equal(target.prior.circle.width, CIRCLE.width)

    class Prior:
        log_density = staticmethod(target.log_prior)

        @staticmethod
        def sample(n, rng, stratified=False):
            return target.draw_prior(n, rng)

    blend = Blend(np.array([0.9, 0.1]), (Wrapped(NEAR_SEAM, CIRCLE), Prior()))
    z = blend.sample(N, np.random.default_rng(6))
    log_w = target.log_prior(z) + target.log_likelihood(z) - blend.log_density(z)
    assert not np.isnan(log_w).any()
    off = np.abs(z[:, 0]) > 1
    assert off.sum() > 100
    assert (log_w[off] == -np.inf).all()
    assert sum(map(len, asked)) == N - off.sum()
    exact = math.log(ive(0, 2)) + 2 - 0.5 * math.log(2)
    w = np.exp(log_w - log_mean(log_w))
    assert abs(log_mean(log_w) - exact) < 4 * w.std() / math.sqrt(N)
