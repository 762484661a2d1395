"""Steps within a box and a radius: bounded least squares of SciPy, and the conditions of a minimum."""

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import lsq_linear

from paoswarm.least_squares.trust_region import LinearModel, bounded_step


def problems(count, seed):
    """Random residuals, slopes, walls around a point of the cube (often on them), and radii."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        n = rng.integers(1, 11)
        m = max(1, n + rng.integers(-2, 6))
        slope = rng.normal(size=(m, n)) * 10 ** rng.uniform(-4, 1, n)
        if rng.random() < 0.5:
            slope = slope @ np.linalg.qr(rng.normal(size=(n, n)))[0]
        if rng.random() < 0.2:
            slope[:, rng.integers(n)] = 0  # an unknown without effect
        x = rng.random(n)
        x[rng.random(n) < 0.2] = 0.0
        x[rng.random(n) < 0.1] = 1.0
        yield slope, rng.normal(size=m) * 10 ** rng.uniform(-3, 1), -x, 1 - x, 10 ** rng.uniform(-3, 0.5)


def test_a_linear_model_is_the_sum_of_squares():
    for slope, residuals, low, high, _ in problems(50, 1):
        linear = LinearModel.of(residuals, slope)
        step = low + 0.3 * (high - low)
        assert_allclose(
            linear.gain(step), residuals @ residuals - ((residuals + slope @ step) ** 2).sum(), rtol=1e-9, atol=1e-9
        )
        assert_allclose(linear.gradient, slope.T @ residuals, atol=1e-10)


def test_without_a_radius_it_is_bounded_least_squares():
    for slope, residuals, low, high, _ in problems(150, 2):
        linear = LinearModel.of(residuals, slope)
        step = bounded_step(linear, low, high, 100.0)
        assert (step >= low).all()
        assert (step <= high).all()
        there = lsq_linear(slope, -residuals, (low, high), method="bvls", tol=1e-14).x
        assert linear.gain(step) >= linear.gain(there) * (1 - 1e-9)


def test_a_step_meets_the_conditions_of_a_minimum():
    """Along free axes the force is a multiple of the step; on walls it pushes outside. The problem is convex."""
    n_bent = n_walled = 0
    for slope, residuals, low, high, radius in problems(400, 3):
        linear = LinearModel.of(residuals, slope)
        step = bounded_step(linear, low, high, radius)
        length = np.linalg.norm(step)
        assert (step >= low).all()
        assert (step <= high).all()
        assert length <= radius * (1 + 1e-8)
        assert linear.gain(step) >= 0
        force = slope.T @ (residuals + slope @ step)
        free = (step > low) & (step < high)
        multiplier = 0.0
        if length > radius * (1 - 1e-6) and free.any():
            multiplier = max(0.0, -(force[free] @ step[free]) / (step[free] @ step[free] + 1e-300))
            n_bent += 1
        n_walled += not free.all()
        force += multiplier * step
        outside = np.where(free, np.abs(force), np.where(step <= low, -force, force))
        assert outside.max() <= 1e-6 * np.linalg.norm(slope.T @ residuals)
    assert n_bent > 150
    assert n_walled > 150


def test_rotations_of_the_data_and_more_data_do_not_matter():
    rng = np.random.default_rng(4)
    slope, residuals = rng.normal(size=(30, 5)), 3 * rng.normal(size=30)
    low, high = np.full(5, -0.4), np.full(5, 0.6)
    rotation = np.linalg.qr(rng.normal(size=(30, 30)))[0]
    padded = np.zeros((100_000, 5)), np.zeros(100_000)
    padded[0][::3334], padded[1][::3334] = slope, residuals
    for radius in (0.1, 0.3, 2.0):
        step = bounded_step(LinearModel.of(residuals, slope), low, high, radius)
        assert_allclose(
            bounded_step(LinearModel.of(rotation @ residuals, rotation @ slope), low, high, radius), step, atol=1e-9
        )
        assert_allclose(bounded_step(LinearModel.of(padded[1], padded[0]), low, high, radius), step, atol=1e-9)


def test_work_is_linear_in_the_number_of_data():
    """What is kept of the data has the size of the unknowns."""
    rng = np.random.default_rng(5)
    linear = LinearModel.of(rng.normal(size=100_000), rng.normal(size=(100_000, 4)))
    assert linear.factor.shape == (5, 4)


def test_unknowns_without_effect_stay_where_they_are():
    slope = np.array([[1.0, 0.0], [2.0, 0.0]])
    step = bounded_step(LinearModel.of(np.array([1.0, 2.0]), slope), np.full(2, -5.0), np.full(2, 5.0), 3.0)
    assert_allclose(step, [-1, 0], atol=1e-12)
    nothing = bounded_step(LinearModel.of(np.ones(2), np.zeros((2, 2))), np.full(2, -5.0), np.full(2, 5.0), 3.0)
    assert_array_equal(nothing, 0)
