"""Sequential quadratic programming on problems with known minima."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import NonlinearConstraint

from paoswarm.evaluate.constraints import read_constraints
from paoswarm.run.sqp import Smooth, search


def run(fun, constraints, box, start, *, calls_outside=True):
    """The end of a search, the best feasible point, and the number of evaluations."""
    lower, upper = np.array(box, dtype=float).T
    given = read_constraints(constraints, [np.array(start, dtype=float)], False)
    best, count = (math.inf, None), 0

    def rows(points):
        nonlocal best, count
        count += len(points)
        answers = []
        for x in points:
            assert ((x >= lower) & (x <= upper)).all()
            numbers = np.concatenate([part.numbers(x, None) for part in given.parts])
            is_feasible = not given.violations(numbers).any()
            value = fun(x) if calls_outside or is_feasible else math.inf
            if is_feasible and value < best[0]:
                best = value, x
            answers.append([value, *numbers])
        return np.array(answers)

    problem = Smooth(given, np.ones(given.count), 1.0, lower, upper, np.arange(len(lower)))
    first = np.array(start, dtype=float)
    going = search(problem, first, rows(first[None])[0])
    points = next(going)
    while True:
        try:
            points = going.send(rows(points))
        except StopIteration as ended:
            return ended.value, best, count


def rosenbrock(x):
    return 100 * (x[1] - x[0] ** 2) ** 2 + (1 - x[0]) ** 2


def hock_schittkowski_71(x):
    return x[0] * x[3] * (x[0] + x[1] + x[2]) + x[2]


PROBLEMS = {
    "corner of a disc": (np.sum, lambda x: x @ x - 1, [(-2, 2)] * 3, [1.9, -1, 0.3], -math.sqrt(3)),
    "inside": (rosenbrock, lambda x: x @ x - 3, [(-1.5, 1.5)] * 2, [-1, 1], 0.0),
    "two curved constraints": (
        lambda x: (x[0] - 10) ** 3 + (x[1] - 20) ** 3,
        lambda x: [100 - (x[0] - 5) ** 2 - (x[1] - 5) ** 2, (x[0] - 6) ** 2 + (x[1] - 5) ** 2 - 82.81],
        [(13, 100), (0, 100)],
        [50, 50],
        -6961.81387558,
    ),
    "equality, bounds": (
        hock_schittkowski_71,
        [NonlinearConstraint(np.prod, 25, np.inf), NonlinearConstraint(lambda x: x @ x, 40, 40)],
        [(1, 5)] * 4,
        [1, 5, 5, 1],
        17.0140173,
    ),
}


@pytest.mark.parametrize("calls_outside", [True, False])
@pytest.mark.parametrize("name", PROBLEMS)
def test_known_minima_are_found_with_few_evaluations(name, calls_outside):
    fun, constraints, box, start, expected = PROBLEMS[name]
    end, best, count = run(fun, constraints, box, start, calls_outside=calls_outside)
    assert end.has_converged
    assert_allclose(best[0], expected, rtol=1e-5, atol=1e-9)
    assert_allclose(end.x, best[1], atol=1e-3)
    assert count < 400


@pytest.mark.parametrize("side", [1, -1])
def test_a_flat_direction_along_a_curved_constraint_is_followed_to_its_end(side):
    """The edge bends to either side of a tangent; along it the value changes a thousandth as much as across it."""

    def height(x):  # above the edge
        return x[1] - side * (np.sin(3 * x[0]) - 0.5 * x[2] ** 2)

    def fun(x):
        return height(x) + 1e-3 * ((x[0] - 2) ** 2 + (x[2] - 1) ** 2)

    end, best, count = run(fun, lambda x: -height(x), [(-5, 5)] * 3, [-3, 4, -2])
    assert end.has_converged
    assert_allclose(best[0], 0, atol=1e-6)
    assert_allclose(end.x, [2, side * (np.sin(6) - 0.5), 1], atol=1e-2)
    assert count < 400


def test_a_kink_is_no_minimum_that_is_claimed():
    def kinked(x):
        return abs(x[0] - 0.3) + abs(x[1] + 0.2 + x[0])

    end, _, count = run(kinked, lambda x: x[0] - 5, [(-1, 1)] * 2, [-0.5, 0.7])
    assert not end.has_converged
    assert count < 400


def test_contradicting_constraints_have_no_solution_that_is_claimed():
    end, best, _ = run(np.sum, lambda x: [x[0] - 0.2, 0.4 - x[0]], [(0, 1)] * 2, [0.9, 0.9])
    assert not end.has_converged
    assert best[1] is None
    assert 0.19 < end.x[0] < 0.41
