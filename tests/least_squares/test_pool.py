"""Points of a fit: distances on circles, walls, and neighbours."""

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal

from paoswarm.least_squares.pool import Pool

ROUND = np.array([True, False])


def filled(points, values=None):
    pool = Pool(ROUND)
    for k, point in enumerate(points):
        value = 0.0 if values is None else values[k]
        outputs = np.array([value]) if np.isfinite(value) else np.empty(0)
        assert pool.add(np.array(point), outputs, value) == k
    return pool


def test_the_short_way_round_a_circle():
    pool = filled([])
    centre = np.array([0.95, 0.95])
    apart = pool.apart(np.array([[0.05, 0.05], [0.46, 0.95], [0.94, 1.0], [1.05, 0.9]]), centre)
    assert_allclose(apart, [[0.1, -0.9], [-0.49, 0.0], [-0.01, 0.05], [0.1, -0.05]], atol=1e-15)


def test_walls_and_circles():
    pool = filled([])
    point = np.array([0.2, 0.3])
    low, high = pool.room(point)
    assert_allclose(low, [-0.5, -0.3])
    assert_allclose(high, [0.5, 0.7])
    assert_allclose(pool.inside(np.array([1.25, 1.25])), [0.25, 1.0])
    assert_allclose(pool.inside(np.array([-0.25, -0.25])), [0.75, 0.0])
    for step in (low, high):  # where a step may lead is the same point as inside
        assert_allclose(pool.apart(pool.inside(point + step), point)[1], step[1])


def test_neighbours_are_the_nearest_usable_points():
    points = [[0.99, 0.5], [0.01, 0.5], [0.99, 0.52], [0.5, 0.5], [0.99, 0.5 + 1e-8], [0.98, 0.5]]
    values = [1.0, 1.0, 1.0, 1.0, 1.0, np.inf]
    pool = filled(points, values)
    found, apart = pool.near(0, 10)
    assert_array_equal(found, [1, 2, 3])  # not itself, nor its double, nor what failed
    assert_allclose(apart, [[0.02, 0], [0, 0.02], [-0.49, 0]], atol=1e-12)
    found, _ = pool.near(0, 2)
    assert_array_equal(np.sort(found), [1, 2])


def test_any_number_of_points():
    rng = np.random.default_rng(1)
    points, values = rng.random((300, 2)), rng.random(300)
    pool = filled(points.tolist(), values.tolist())
    assert len(pool) == 300
    assert_array_equal(pool.points, points)
    assert_array_equal(pool.values, values)
