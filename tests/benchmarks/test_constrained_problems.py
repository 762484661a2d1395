"""The problems of the benchmarks with integers and constraints have the best values that they state."""

import pathlib
import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize

BENCHMARKS = str(pathlib.Path(__file__).parents[2] / "benchmarks")
sys.path.insert(0, BENCHMARKS)
try:
    from cec2006 import CEC2006
    from designs import DESIGNS
    from exponentials import exponentials
finally:
    sys.path.remove(BENCHMARKS)

PROBLEMS = [*DESIGNS.values(), *CEC2006.values(), *(exponentials(terms, 1) for terms in (2, 3, 4))]
each_problem = pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.name)


@each_problem
def test_the_best_point_is_feasible_and_has_the_best_value(problem):
    x = problem.best_point
    assert np.all((problem.bounds[:, 0] <= x) & (x <= problem.bounds[:, 1]))
    assert_array_equal(x[problem.integrality] % 1, 0)
    assert problem.is_feasible(x)
    assert np.all(np.abs(problem.equalities(x)) < 1e-8)
    assert_allclose(problem.fun(x)[0], problem.best_value, rtol=2e-10)


@each_problem
def test_a_point_has_the_same_values_alone_and_in_company(problem):
    rng = np.random.default_rng(1)
    x = rng.uniform(*problem.bounds.T, (20, problem.dim))
    together = problem.evaluate(problem.rounded(x))
    for part, alone in zip(
        together, zip(*map(problem.evaluate, problem.rounded(x)[:, None]), strict=True), strict=True
    ):
        assert_array_equal(part, np.concatenate(alone))
        assert np.all(np.isfinite(part))


@each_problem
def test_a_local_search_from_near_the_best_point_finds_nothing_better(problem):
    """The best value is a local minimum, and the constraints that hold it are the ones of the source."""
    free = ~problem.integrality
    if not free.any():
        return
    width = np.maximum(np.abs(problem.best_point), 1e-3 * np.ptp(problem.bounds, axis=1))[free]

    def whole(u):
        x = problem.best_point.copy()
        x[free] = np.clip(u * width, *problem.bounds[free].T)
        return x

    def scaled(function):
        """The function over the size of its slopes, so that equations in millions count as much as those in units."""
        u, steps = problem.best_point[free] / width, 1e-3 * np.eye(free.sum())
        slope = np.max([np.abs(function(u + s) - function(u - s)) for s in steps], axis=0) / 2e-3
        return lambda u: function(u) / np.maximum(slope, 1e-9)

    value = scaled(lambda u: problem.fun(whole(u)))
    g = scaled(lambda u: -problem.inequalities(whole(u))[0])
    h = scaled(lambda u: problem.equalities(whole(u))[0])
    constraints = [{"type": "ineq", "fun": g}] * (len(g(np.ones(len(width)))) > 0)
    constraints += [{"type": "eq", "fun": h}] * (len(h(np.ones(len(width)))) > 0)
    best = problem.best_point[free] / width
    rng = np.random.default_rng(2)
    for size in (0, 1e-4):
        start = best + size * rng.standard_normal(len(best))
        found = minimize(lambda u: value(u)[0], start, bounds=problem.bounds[free] / width[:, None],
                         constraints=constraints, method="SLSQP", options={"ftol": 1e-12, "maxiter": 100})  # fmt: skip
        x = whole(found.x)
        violation = np.concatenate([problem.inequalities(x)[0], np.abs(problem.equalities(x)[0]), [0]]).max()
        if violation < 1e-7:
            assert problem.fun(x)[0] > problem.best_value - 1e-5 * max(1e-12, abs(problem.best_value))


def test_no_gear_train_is_better_than_the_best_known():
    teeth = np.arange(12, 61)
    products = np.unique(teeth[:, None] * teeth)
    values = (1 / 6.931 - products[:, None] / products) ** 2
    assert values.min() == DESIGNS["gear train"].best_value


def test_no_pressure_vessel_is_better_than_the_best_known():
    """For given thicknesses the cost depends on the radius alone: the length follows from the volume."""
    problem = DESIGNS["pressure vessel"]
    shell, head, radius = np.meshgrid(np.arange(1, 31), np.arange(1, 31), np.linspace(10, 100, 451), indexing="ij")
    length = np.clip((1_296_000 - 4 / 3 * np.pi * radius**3) / (np.pi * radius**2), 10, 200) + 1e-9
    x = np.stack([shell, head, radius, length], axis=-1).reshape(-1, 4)
    values, g, _ = problem.evaluate(x)
    best = values[np.all(g <= 0, axis=1)].min()
    assert problem.best_value <= best < 1.002 * problem.best_value


def test_the_residuals_of_the_sums_of_exponentials_are_noise():
    """Sums of squares are near the number of data less that of unknowns: within four standard deviations."""
    for terms in (2, 3, 4):
        for instance in range(1, 7):
            freedom = 60 - 2 * terms
            assert abs(exponentials(terms, instance).best_value - freedom) < 4 * np.sqrt(2 * freedom)
