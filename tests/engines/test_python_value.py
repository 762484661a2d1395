"""A best value that compiled code computes otherwise than Python is named."""

import math
import warnings

import numpy as np
import pytest

import paoswarm as ps

numba = pytest.importorskip("numba", reason="numba is not installed")
HOW = {"method": "PAO", "engine": "numba", "n_particles": 10, "maxiter": 5, "rng": 4}
BOX = [(1.0, 5.0)] * 2


def divides_by_zero(x):
    return x[0] + 1 // int(x[1] * 0)


def overflows(x):
    a = int(x[0])
    for _ in range(100):
        a = a * 7
    return float(a)


def reads_beyond(x, table):
    return (x[0] - 2) ** 2 + 0.0 * table[len(table) + 3]


def divides_floats(x):
    return 1 / (1 + 1 / (float(x[0]) * 0.0))


@pytest.mark.parametrize(
    ("fun", "args", "message"),
    [
        (divides_by_zero, (), "in Python it raises ZeroDivisionError"),
        (overflows, (), r"in Python it returns \d\.\d+e\+8\d\."),
        (reads_beyond, (np.ones(3),), "in Python it raises IndexError"),
        (divides_floats, (), "in Python it raises ZeroDivisionError"),
    ],
)
def test_a_value_that_differs_in_python_is_named(fun, args, message):
    for run in (ps.minimize, lambda *given, **how: ps.minimize_many(*given, runs=2, **how)):
        with pytest.warns(RuntimeWarning, match=message):
            run(fun, BOX, args=args, **HOW)


def cancels(x):
    total = 0.0
    for i in range(50):
        total += (x[0] - 3.0) ** 2 * (i + 1.0) + 1e8 * x[1] - 1e8 * x[1]
    return total


def noisy(x):
    return x[0] + np.random.normal()  # noqa: NPY002 - numba has no other


def fails_beside(x):
    return math.sqrt(x[0] - 2.0) if x[0] >= 2.0 else math.nan


@pytest.mark.parametrize("fun", [cancels, noisy, fails_beside, numba.njit(cancels)])
def test_rounding_randomness_and_failures_are_no_difference(fun):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ps.minimize_many(fun, BOX, runs=2, **HOW | {"maxiter": 200})
        ps.minimize(fun, [ps.Real(1.0, 5.0, log=True), 2.0], **HOW)


def test_searches_of_the_default_kind_are_compared_too():
    with pytest.warns(RuntimeWarning, match="in Python it raises ZeroDivisionError"):
        ps.minimize(divides_by_zero, BOX, engine="numba", maxfev=60, rng=1)
