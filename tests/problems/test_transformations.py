"""Problems, shifted and rotated: the same landscape elsewhere, with the optimum where it is said to be."""

import itertools
import json
import os
import pickle
import subprocess
import sys
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import paoswarm as ps
from paoswarm import problems
from paoswarm.problems import Problem


@pytest.fixture(params=problems.names)
def name(request):
    return request.param


def anywhere(problem, count=200, seed=1):
    return np.random.default_rng(seed).uniform(problem.lower, problem.upper, (count, problem.dim))


def variants(problem):
    return [problem, problem.shifted(2), problem.rotated(3), problem.shifted(2).rotated(3)]


def rounding(problem):
    return 1e-12 * problem.dim if problem.confined else 1e-15


# What a transformation means


def test_a_shift_moves_every_value_with_the_optimum(name):
    problem = problems.get(name, 5)
    shifted = problem.shifted(4)
    step = shifted.optimum - problem.optimum
    near = problem.optimum + (anywhere(problem) - problem.optimum) / 50
    assert_allclose(shifted(near + step), problem(near), rtol=1e-9, atol=1e-12)
    assert not np.allclose(shifted(near), problem(near), rtol=0.01)


def test_a_rotation_turns_every_value_about_the_optimum(name):
    problem = problems.get(name, 5)
    rotated = problem.rotated(4)
    turned = problem.optimum + (anywhere(problem) - problem.optimum) / 50 @ rotated.matrix
    near = problem.optimum + (turned - problem.optimum) @ rotated.matrix.T
    assert_allclose(rotated(near), problem(turned), rtol=1e-9, atol=1e-12)
    if name != "sphere":
        assert not np.allclose(rotated(near), problem(near), rtol=0.01)


def test_a_sphere_does_not_notice_a_rotation():
    sphere = problems.sphere(8)
    x = anywhere(sphere)
    assert_allclose(sphere.rotated(5)(x), sphere(x), rtol=1e-13)
    moved = sphere.shifted(2)
    assert_allclose(moved.rotated(5)(x), moved(x), rtol=1e-13)
    assert_allclose(moved(x), np.square(x - moved.optimum).sum(axis=-1), rtol=1e-13)


def test_an_ellipsoid_keeps_its_axes_but_not_their_directions():
    rotated = problems.ellipsoid(6).rotated(1)
    hessian = rotated.matrix @ np.diag(np.arange(1.0, 7)) @ rotated.matrix.T
    x = anywhere(rotated)
    assert_allclose(rotated(x), np.einsum("mi,ij,mj->m", x, hessian, x), rtol=1e-12)
    assert_allclose(np.linalg.eigvalsh(hessian), np.arange(1, 7), rtol=1e-12)
    assert np.abs(hessian - np.diag(np.diagonal(hessian))).max() > 0.5


def test_shift_and_rotation_commute(name):
    problem = problems.get(name, 5)
    one, other = problem.shifted(2).rotated(3), problem.rotated(3).shifted(2)
    assert (one.name, other.name) == (f"{name}-shifted2-rotated3", f"{name}-rotated3-shifted2")
    assert_array_equal(one(anywhere(problem)), other(anywhere(problem)))


def test_rotations_compose():
    once = problems.rastrigin(4).shifted().rotated(2)
    twice = once.rotated(3)
    second = problems.rastrigin(4).rotated(3).matrix
    x = anywhere(once)
    assert_allclose(twice(x), once(once.optimum + (x - once.optimum) @ second), rtol=1e-10)


@pytest.mark.parametrize("dim", [1, 2, 3, 8, 20])
def test_rotations_are_rotations(dim):
    for seed in range(20):
        matrix = problems.sphere(dim).rotated(seed).matrix
        assert_allclose(matrix @ matrix.T, np.eye(dim), atol=1e-14)
        assert np.linalg.det(matrix) == pytest.approx(1, abs=1e-12)


def test_rotations_are_uniform():
    # For the uniform law on 3-D rotations the trace has mean 0 and variance 1: over 400 seeds the mean exceeds 0.25,
    # five standard errors, with probability 6e-7; the fixed seeds make it never or always.
    traces = [np.trace(problems.sphere(3).rotated(seed).matrix) for seed in range(400)]
    assert abs(np.mean(traces)) < 0.25


# Where the optimum is


def test_the_optimum_of_a_shift_lies_in_the_middle_of_the_box(name):
    problem = problems.get(name, 8)
    places = np.array([problem.shifted(seed).optimum for seed in range(50)])
    share = (places - problem.lower) / (problem.upper - problem.lower)
    assert share.min() >= 0.1
    assert share.max() <= 0.9
    # All of the 80 % is used: 400 uniform numbers leave an outer sixteenth of it empty with probability 1e-11 each.
    assert share.min() < 0.15
    assert share.max() > 0.85
    assert len(np.unique(places)) == places.size


def test_a_rotation_leaves_the_optimum_where_it_is(name):
    problem = problems.get(name, 4)
    assert_array_equal(problem.rotated().optimum, problem.optimum)
    assert_array_equal(problem.shifted().rotated().optimum, problem.shifted().optimum)


@pytest.mark.parametrize("dim", [2, 8])
def test_the_optimum_is_global_in_the_box_and_beyond(name, dim):
    base = problems.get(name, dim)
    rng = np.random.default_rng(dim)
    for problem in [v for seed in range(8) for v in (base.shifted(seed), base.shifted(seed).rotated(seed))]:
        assert problem.minimum == 0
        assert_array_equal(problem.bounds, base.bounds)
        width = problem.upper - problem.lower
        near = problem.optimum + width * rng.normal(size=(500, dim)) * 10.0 ** rng.uniform(-9, -1, (500, 1))
        beyond = rng.uniform(problem.lower - 2 * width, problem.upper + 2 * width, (500, dim))
        values = problem(np.concatenate([anywhere(problem, 1000), near, beyond]))
        assert values.min() >= -rounding(problem)
        assert abs(problem(problem.optimum)) <= rounding(problem)


def test_without_its_continuation_schwefel_would_be_lower_elsewhere():
    schwefel = problems.schwefel(2).shifted(1)
    formula = replace(schwefel, confined=False)
    x = anywhere(schwefel, 20000)
    assert formula(x).min() < -100
    assert schwefel(x).min() > 0


def test_the_continuation_of_schwefel_is_the_squared_distance():
    schwefel = problems.schwefel(2)
    shifted = replace(schwefel, optimum=schwefel.optimum - 300.0, anchor=schwefel.optimum)
    inside, outside = np.array([-100.0, 200.0]), np.array([-100.0, 203.0])  # the formula's own 200 and 500, and 503
    assert_allclose(shifted(inside), schwefel([200.0, 500.0]), rtol=1e-12)
    assert_allclose(shifted(outside), schwefel([200.0, 500.0]) + 9, rtol=1e-12)
    assert_allclose(shifted([190.0, 210.0]), schwefel([490.0, 500.0]) + 100, rtol=1e-12)


def test_only_schwefel_is_confined():
    assert [p.name for p in problems.paper(3) if p.confined] == ["schwefel"]


# Seeds


def test_seed_function_and_dimension_each_change_the_problem():
    base = problems.rastrigin(4)
    places = [
        base.shifted(1).optimum,
        base.shifted(2).optimum,
        problems.sphere(4).shifted(1).optimum,  # the same box
        problems.rastrigin(5).shifted(1).optimum[:4],
        base.shifted(1).shifted(3).optimum,
    ]
    assert len({tuple(place) for place in places}) == len(places)
    turns = [base.rotated(1), base.rotated(2), problems.sphere(4).rotated(1)]
    assert len({tuple(turn.matrix.ravel()) for turn in turns}) == len(turns)


@pytest.mark.slow
def test_the_same_seed_is_the_same_problem_in_another_process():
    code = """
import json
from paoswarm import problems
p = problems.get("griewank-shifted3-rotated4", 6)
print(json.dumps([p.optimum.tolist(), p.matrix.tolist()]))
"""
    for salt in ("1", "2"):  # of Python's own hash
        run = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": salt},
        )
        problem = problems.griewank(6).shifted(3).rotated(4)
        assert json.loads(run.stdout) == [problem.optimum.tolist(), problem.matrix.tolist()]


@pytest.mark.parametrize("seed", [-1, 1.5, "1", None, True])
def test_a_seed_is_a_whole_number(seed):
    for how in (problems.sphere(2).shifted, problems.sphere(2).rotated):
        with pytest.raises(ValueError, match="seed must be"):
            how(seed)


# A problem as an object


def test_a_problem_is_something_to_minimise(name):
    for problem in variants(problems.get(name, 2)):
        result = ps.minimize(problem, problem.bounds, method=ps.PAO(), vectorized=True, maxiter=3, rng=1)
        again = ps.minimize(problem, problem.bounds, method=ps.PAO(), maxiter=3, rng=1)
        assert result.fun == again.fun == problem(result.x)


def test_a_problem_is_the_same_after_pickling(name):
    for problem in variants(problems.get(name, 3)):
        copy = pickle.loads(pickle.dumps(problem))
        assert (copy.name, copy.title, copy.minimum, copy.dim) == (problem.name, problem.title, 0.0, 3)
        assert_array_equal(copy(anywhere(problem)), problem(anywhere(problem)))


@pytest.mark.parametrize("dim", [2, 8, 20])
def test_the_value_of_a_point_does_not_depend_on_the_others(name, dim):
    batches = [(), (0,), (1,), (9,), (2, 5)]
    for problem, batch in itertools.product(variants(problems.get(name, dim)), batches):
        x = np.random.default_rng(3).uniform(problem.lower, problem.upper, (*batch, dim))
        values = problem(x)
        assert np.shape(values) == batch
        assert_array_equal(np.reshape(values, -1), np.array([problem(row) for row in x.reshape(-1, dim)]))


def test_the_argument_is_left_alone(name):
    for problem in variants(problems.get(name, 4)):
        x = 3 * anywhere(problem)  # also outside the box
        before = x.copy()
        problem(x)
        assert_array_equal(x, before)


def test_points_may_be_lists_and_whole_numbers():
    assert problems.ellipsoid(2)([3, 1]) == 11
    assert_array_equal(problems.power_sum(2)([[2, 0], [0, -3]]), [4, 27])


@pytest.mark.parametrize("x", [1.0, [1.0], [1.0, 2.0, 3.0], [[1.0], [2.0]]])
def test_points_of_another_dimension_are_an_error(x):
    with pytest.raises(ValueError, match=r"sphere takes points of shape \(\.\.\., 2\), got shape"):
        problems.sphere(2)(x)


def test_the_box_and_the_run():
    problem = problems.rosenbrock(3)
    assert_array_equal(problem.bounds, [[-2.048, 2.048]] * 3)
    assert_array_equal(problem.optimum, [1, 1, 1])
    assert not problem.instanced
    assert problem.instance(7) is problem


def test_a_problem_cannot_be_changed():
    problem = problems.sphere(2)
    with pytest.raises(ValueError, match="read-only"):
        problem.shifted().optimum[0] = 0.0
    with pytest.raises(FrozenInstanceError):
        problem.minimum = 1.0
    problem.bounds[0] = 0.0  # a copy
    assert_array_equal(problem.bounds, [[-5.12, 5.12]] * 2)


def bowl(x):
    return np.sum(np.square(x - 0.5), axis=-1)


def test_a_custom_problem():
    own = Problem("my-bowl", "My bowl", [0, -1], [1, 1], [0.5, 0.5], 0.0, bowl)
    moved = own.shifted(2).rotated()
    assert moved.name == "my-bowl-shifted2-rotated1"
    assert moved(moved.optimum) == 0
    with pytest.raises(ValueError, match=r"optimum \(1,\)"):
        Problem("bad", "Bad", [0, 0], [1, 1], [0.5], 0.0, bowl)
    with pytest.raises(ValueError, match="optimum must lie in the box"):
        Problem("bad", "Bad", [0, 0], [1, 1], [0.5, 2.0], 0.0, bowl)
    single = Problem("single", "For one point", [0, -1], [1, 1], [0.5, 0.5], 0.0, lambda x: float(np.sum(x**2)))
    for problem in (single, single.shifted(), single.rotated()):
        with pytest.raises(ValueError, match=r"the function of single.* \(m, 2\)"):
            problem(np.zeros((5, 2)))
