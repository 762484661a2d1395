"""The nine formulas: values worked out by hand, their known optima, and the array API standard."""

import math

import array_api_strict as strict
import mpmath
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from paoswarm import problems
from paoswarm.problems import functions

PI = math.pi
ALL = [getattr(functions, name) for name in problems.names]


@pytest.fixture(params=ALL, ids=problems.names)
def function(request):
    return request.param


@pytest.fixture(params=problems.names)
def name(request):
    return request.param


@pytest.mark.parametrize(
    ("function", "point", "value"),
    [
        (functions.sphere, [2, -0.5], 4.25),
        (functions.sphere, [2, -0.5, 3], 13.25),
        (functions.ellipsoid, [2, -0.5], 4 + 2 * 0.25),
        (functions.ellipsoid, [2, -0.5, 3], 4 + 2 * 0.25 + 3 * 9),
        (functions.rotated_ellipsoid, [2, -0.5], 4 + (4 + 0.25)),
        (functions.rotated_ellipsoid, [2, -0.5, 3], 4 + (4 + 0.25) + (4 + 0.25 + 9)),
        (functions.power_sum, [2, -0.5], 4 + 0.125),
        (functions.power_sum, [2, -0.5, 3], 4 + 0.125 + 81),
        (functions.rosenbrock, [2, -0.5], 100 * 4.5**2 + 1),
        (functions.rosenbrock, [2, -0.5, 3], 100 * 4.5**2 + 1 + 100 * 2.75**2 + 1.5**2),
        (functions.griewank, [PI / 3, math.sqrt(2) * PI], 19 * PI**2 / 36000 + 0.5 + 1),
        (
            functions.griewank,
            [PI, -math.sqrt(2) * PI / 3, math.sqrt(3) * PI / 4],
            (1 + 2 / 9 + 3 / 16) * PI**2 / 4000 + math.sqrt(0.5) / 2 + 1,
        ),
        (functions.rastrigin, [2, -0.5], 4 + (0.25 + 10 + 10)),
        (functions.rastrigin, [2, -0.5, 0.25], 4 + (0.25 + 10 + 10) + (0.0625 + 10)),
        (functions.ackley, [2, 0.25], -20 * math.exp(-0.2 * math.sqrt(4.0625 / 2)) - math.exp(0.5) + 20 + math.e),
        (functions.ackley, [1, -0.5, 0.25], -20 * math.exp(-0.2 * math.sqrt(1.3125 / 3)) - 1 + 20 + math.e),
        (functions.schwefel, [PI**2 / 4, -9 * PI**2 / 4], 2 * 418.9828872724337 - 10 * PI**2 / 4),
        (
            functions.schwefel,
            [PI**2 / 4, -9 * PI**2 / 4, PI**2 / 36],
            3 * 418.9828872724337 - 10 * PI**2 / 4 - PI**2 / 72,
        ),
    ],
)
def test_worked_by_hand(function, point, value):
    assert_allclose(function(np.array(point, dtype=float)), value, rtol=1e-14)


def test_the_constants_of_schwefel_to_all_digits_of_a_double():
    with mpmath.workdps(40):
        s = mpmath.findroot(lambda s: mpmath.sin(s) + s / 2 * mpmath.cos(s), mpmath.sqrt(421))
        assert float(s**2) == functions.SCHWEFEL_OPTIMUM
        assert float(s**2 * mpmath.sin(s)) == functions.SCHWEFEL_PEAK
        # It is a peak, and nothing in the box is higher: between the zeros of sine one root each, on either side of 0.
        roots = [mpmath.findroot(lambda s: mpmath.tan(s) + s / 2, k * mpmath.pi - 1.5) for k in range(1, 8)]
        heights = [abs(r**2 * mpmath.sin(r)) * side for r in roots for side in (1, -1) if r**2 < 500]
        ends = [500 * mpmath.sin(mpmath.sqrt(500)) * side for side in (1, -1)]
        assert max(heights + ends) == pytest.approx(functions.SCHWEFEL_PEAK, rel=1e-15)


@pytest.mark.parametrize("dim", [2, 3, 8, 40])
def test_the_known_optimum_is_the_minimum_of_the_box(name, dim):
    problem = problems.get(name, dim)
    rounding = 2e-13 * dim if name == "schwefel" else 1e-15
    assert abs(problem(problem.optimum) - problem.minimum) <= rounding
    rng = np.random.default_rng(dim)
    anywhere = rng.uniform(problem.lower, problem.upper, (5000, dim))
    width = problem.upper - problem.lower
    near = problem.optimum + width * rng.normal(size=(5000, dim)) * 10.0 ** rng.uniform(-12, -1, (5000, 1))
    values = problem(np.concatenate([anywhere, np.clip(near, problem.lower, problem.upper)]))
    assert values.min() >= problem.minimum - rounding
    assert values[:5000].min() > problem.minimum  # which a random point does not hit


def test_schwefel_has_lower_values_outside_its_box():
    assert functions.schwefel(np.array([420.97, 5000.0])) < -1000


def test_rastrigin_is_exactly_zero_next_to_its_optimum():
    points = np.random.default_rng(1).uniform(-1e-9, 1e-9, (1000, 8))
    assert_array_equal(functions.rastrigin(points), 0)
    assert functions.rastrigin(np.array([1e-7, 0.0])) > 0


def test_ackley_leaves_the_rounding_of_its_textbook_form():
    assert 0 <= functions.ackley(np.zeros(8)) < 5e-16


def test_the_rotated_ellipsoid_is_the_ellipsoid_in_reverse():
    x = np.random.default_rng(2).normal(size=(100, 7))
    assert_allclose(functions.rotated_ellipsoid(x), functions.ellipsoid(x[:, ::-1]), rtol=1e-14)
    assert_allclose(functions.rotated_ellipsoid(x), np.cumsum(x * x, axis=-1).sum(axis=-1), rtol=1e-14)


SEPARABLE = {"sphere", "ellipsoid", "rotated_ellipsoid", "power_sum", "rastrigin", "schwefel"}


def test_which_functions_are_sums_over_single_unknowns(name):
    function = getattr(functions, name)
    x, y = np.array([0.3, -0.7]), np.array([-0.2, 0.45])
    mixed = function(np.array([x[0], y[1]])) + function(np.array([y[0], x[1]]))
    assert math.isclose(mixed, function(x) + function(y), rel_tol=1e-12) == (name in SEPARABLE)


@pytest.mark.parametrize("batch", [(), (0,), (1,), (7,), (3, 5)])
def test_any_batch_is_its_points_one_by_one_to_the_last_bit(function, batch):
    x = np.random.default_rng(3).uniform(-5, 5, (*batch, 6))
    values = function(x)
    assert values.shape == batch
    assert_array_equal(np.reshape(values, -1), np.array([function(row) for row in x.reshape(-1, 6)]))


def test_the_argument_is_left_alone(function):
    x = np.random.default_rng(4).uniform(-5, 5, (20, 4))
    before = x.copy()
    x.flags.writeable = False
    function(x)
    assert_array_equal(x, before)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_the_array_api_standard_is_enough(function, dtype):
    strict.set_array_api_strict_flags(api_version="2024.12")
    try:
        x = np.random.default_rng(5).uniform(-3, 3, (2, 4, 5)).astype(dtype)
        found = function(strict.asarray(x))
    finally:
        strict.reset_array_api_strict_flags()
    assert found.dtype == getattr(strict, dtype)
    assert_allclose(np.asarray(found), function(x), rtol=1e-12 if dtype == "float64" else 1e-5)
