"""The quadratic model behind dense swarms."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from paoswarm.methods import quadratic_model
from paoswarm.methods.dense_learning import first_law
from paoswarm.methods.quadratic_model import Trust, after_test, is_due, is_trusted, minimum, predict, untested


def law_with(rng, d):
    """A law with some covariance, centred somewhere."""
    axes, _ = np.linalg.qr(rng.normal(size=(d, d)))
    return first_law(rng.normal(size=d), 0.3)._replace(axes=axes, lengths=rng.uniform(0.5, 2, d))


@pytest.mark.parametrize("d", [1, 2, 5, 8])
def test_a_quadratic_is_reproduced_and_its_minimum_found(d):
    rng = np.random.default_rng(d)
    law = law_with(rng, d)
    root = 0.3 * rng.normal(size=(d, d)) + 2 * np.eye(d)
    lowest = law.centre + 0.1 * rng.normal(size=d)

    def f(x):
        return np.square((x - lowest) @ root).sum(axis=1) - 7

    x = law.centre + rng.normal(size=(quadratic_model.points_for(quadratic_model.n_coefficients(d)) + 5, d))
    model = quadratic_model.fit(law, x, f(x))
    new = law.centre + rng.normal(size=(20, d))
    assert_allclose(predict(model, new), f(new), rtol=1e-6, atol=1e-6)
    assert_allclose(minimum(model, law), lowest, atol=1e-5)


def test_few_points_determine_squares_only_and_very_few_nothing():
    rng, d = np.random.default_rng(1), 4
    law = first_law(np.zeros(d), 1.0)
    enough = quadratic_model.points_for(1 + 2 * d)
    x = rng.normal(size=(enough, d))
    weights, lowest = np.array([1.0, 3.0, 0.5, 2.0]), np.array([0.3, -0.2, 0.1, 0.4])
    f = (np.square(x - lowest) * weights).sum(axis=1)
    assert_allclose(minimum(quadratic_model.fit(law, x, f), law), lowest, atol=1e-6)
    assert not len(quadratic_model.fit(law, x[:-1], f[:-1]).coefficients)


def test_the_minimum_stays_within_the_data_and_follows_the_slope_of_a_plane():
    rng, d = np.random.default_rng(2), 3
    law = first_law(np.zeros(d), 1.0)
    x = rng.normal(size=(40, d))
    slope = np.array([1.0, -2.0, 0.5])
    model = quadratic_model.fit(law, x, x @ slope)
    expected = -slope / np.linalg.norm(slope) * model.radius
    assert_allclose(minimum(model, law), expected, rtol=1e-5)
    assert model.radius <= np.sqrt(np.square(x).sum(axis=1).max())


def test_the_step_to_the_edge_of_the_data_is_the_lowest_point_there():
    """Against a search over the circle, for a bowl that is much steeper one way."""
    slope, curvature, radius = np.array([3.0, 1.0]), np.array([10.0, 0.1]), 0.7
    angle = np.linspace(0, 2 * np.pi, 200_001)
    circle = radius * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    best = circle[np.argmin(circle @ slope + 0.5 * np.square(circle) @ curvature)]
    assert_allclose(quadratic_model.shortened_newton(slope, curvature, radius), best, atol=1e-4)


def test_a_saddle_sends_the_scout_downhill():
    rng = np.random.default_rng(3)
    law = first_law(np.array([0.5, 0.5]), 1.0)
    x = law.centre + 0.2 * rng.normal(size=(40, 2))
    f = x[:, 0] ** 2 - x[:, 1] ** 2
    model = quadratic_model.fit(law, x, f)
    assert predict(model, minimum(model, law)[None])[0] < law.centre[0] ** 2 - law.centre[1] ** 2


def test_a_plateau_has_no_model():
    x = np.random.default_rng(4).normal(size=(40, 2))
    assert not len(quadratic_model.fit(first_law(np.zeros(2), 1.0), x, np.ones(40)).coefficients)


def test_trust_follows_the_order_of_values_and_is_lost_by_a_wrong_one():
    measured = np.arange(6.0)
    trust = Trust()
    assert not is_trusted(trust)
    trust = after_test(trust, np.exp(measured), measured)  # the order is right, the values are not
    assert is_trusted(trust)
    assert trust.period == 1
    for period in (2, 4, 8, 8):
        trust = after_test(trust, -measured, measured)
        assert not is_trusted(trust)
        assert trust.period == period
    waited = 0
    while not is_due(trust):
        trust, waited = untested(trust), waited + 1
    assert waited == 7


def test_ties_and_failures_are_no_agreement():
    predicted = np.arange(6.0)
    assert not is_trusted(after_test(Trust(), predicted, np.zeros(6)))
    assert not is_trusted(after_test(Trust(), predicted, np.full(6, np.inf)))
