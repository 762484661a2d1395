"""The slope at the best point: exact for parabolas, at walls and where points fail."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import paoswarm as ps
from paoswarm.least_squares.descent import Finish, Precision
from paoswarm.least_squares.likelihoods import Normal
from paoswarm.least_squares.loss import Group, Loss
from paoswarm.least_squares.pool import Pool

CURVES = np.array([[3.0, 0.0, 1.0], [0.0, 2.0, 0.0], [1.0, 0.0, 4.0]])  # second derivatives along the axes
SLOPES = np.array([[1.0, 2.0, 0.0], [0.0, 1.0, 1.0], [2.0, 0.0, 1.0]])
START = np.array([0.3, 0.5, 0.6])


def parabolas(x):
    """Four outputs that are parabolas along each axis; the last one is steep enough to fix the minimum."""
    d = x - START
    return np.append(SLOPES @ d + 0.5 * CURVES @ (d * d), 0.0)


def exact(x):
    return np.vstack([SLOPES + CURVES * (x - START), np.zeros(3)])


def finished(model, x, *, data=None, fails=lambda x: False, precision=None, is_round=None, known=None):
    """A finish from a point, and how many evaluations it took."""
    y = model(x)
    data = y.copy() if data is None else data
    loss = Loss(data, (Group("", slice(0, len(y)), Normal(0.1)),))
    pool = Pool(np.zeros(len(x), dtype=bool) if is_round is None else is_round)

    def add(x):
        outputs = np.empty(0) if fails(x) else model(x)
        return pool.add(x, outputs, loss.value(outputs) if len(outputs) else np.inf)

    one = Finish(pool, loss, add(x), np.zeros((len(y), len(x))) if known is None else known, precision or Precision())
    while points := one.ask():
        one.tell([add(point) for point in points])
    return one, len(pool) - 1


@pytest.mark.parametrize("place", [[0.3, 0.5, 0.6], [0.0, 1.0, 0.6], [1e-5, 1 - 1e-5, 1.0], [5e-5, 1 - 1.5e-4, 1e-4]])
def test_the_slope_of_parabolas_is_exact_inside_and_at_walls(place):
    x = np.array(place)
    asked = []

    def model(x):
        asked.append(x.copy())
        return parabolas(x)

    one, count = finished(model, x)
    assert_allclose(one.jacobian, exact(x), atol=1e-9)
    assert count == 6
    assert (np.array(asked) >= 0).all()
    assert (np.array(asked) <= 1).all()


def test_it_moves_while_a_step_promises_something():
    """Started beside the minimum, it ends there, with the slope there."""
    data = parabolas(np.array([0.33, 0.47, 0.6]))
    one, count = finished(parabolas, START, data=data)
    x = one.pool.points[one.centre]
    assert_allclose(x, [0.33, 0.47, 0.6], atol=1e-6)
    assert_allclose(one.jacobian, exact(x), atol=2e-4)
    assert count <= 4 * 7


def test_a_point_that_fails_leaves_one_difference():
    h = 1e-4
    one, _ = finished(parabolas, START, fails=lambda x: x[0] > 0.3 + h / 2)
    assert_allclose(one.jacobian[:, 0], exact(START)[:, 0] - np.append(CURVES[:, 0], 0) * h / 2, atol=1e-9)
    assert_allclose(one.jacobian[:, 1:], exact(START)[:, 1:], atol=1e-9)
    one, _ = finished(parabolas, START, fails=lambda x: x[1] < 0.5 - h / 2)
    assert_allclose(one.jacobian[:, 1], exact(START)[:, 1] + np.append(CURVES[:, 1], 0) * h / 2, atol=1e-9)


def test_where_both_points_fail_the_slope_of_the_search_stays():
    known = np.arange(12.0).reshape(4, 3)
    one, _ = finished(parabolas, START, fails=lambda x: x[2] != 0.6, known=known)
    assert_allclose(one.jacobian[:, 2], known[:, 2])
    assert_allclose(one.jacobian[:, :2], exact(START)[:, :2], atol=1e-9)
    known[0, 0] = -1
    assert one.jacobian[0, 0] != -1  # a copy


def test_differences_of_noisy_simulators_are_longer():
    asked = []

    def model(x):
        asked.append(x.copy())
        return parabolas(x)

    one, _ = finished(model, START, precision=Precision(1e-3, 0.01, 1e-6))
    assert_allclose(np.abs(np.array(asked[2:]) - START).max(axis=1), 0.01)
    assert_allclose(one.jacobian, exact(START), atol=1e-9)


def test_circles_have_no_walls():
    def model(x):
        return np.array([np.cos(2 * np.pi * x[0]), np.sin(2 * np.pi * x[0])])

    one, _ = finished(model, np.array([0.0]), is_round=np.array([True]))
    assert_allclose(one.jacobian[:, 0], [0, 2 * np.pi], atol=1e-5)
    assert min(point[0] for point in one.pool.points) < 0


@pytest.mark.parametrize("limit", range(16, 40, 3))
def test_a_limit_leaves_enough_for_the_slope(limit):
    """The last step may be missing, but the errors are those of slopes at the best point."""
    t = np.linspace(0.5, 6, 12)
    data = 3 * np.exp(-0.5 * t) + 0.01 * np.sin(9 * t)
    fit = ps.fit(lambda p: p["a"] * np.exp(-p["k"] * t), {"a": (0.5, 10), "k": (0.01, 3)}, data, rng=1, maxfev=limit)
    assert fit.nfev == limit or fit.success
    assert fit.solution.is_measured
