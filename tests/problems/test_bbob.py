"""The bbob suite: the same numbers as COCO's own interface, the right minimum, and errors before the library dies."""

import multiprocessing
import pickle
import sys
from importlib.util import find_spec

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import paoswarm as ps
from paoswarm import problems
from paoswarm.problems.bbob import DIMS, TITLES, Bbob, bbob, suite

needs_coco = pytest.mark.skipif(find_spec("cocoex") is None, reason="cocoex (coco-experiment) is not installed")


def points(dim, count=10, seed=1):
    return np.random.default_rng(seed).uniform(-5, 5, (count, dim))


@needs_coco
@pytest.mark.parametrize("dim", [2, 5, 20])
def test_the_values_are_those_of_coco(dim):
    import cocoex

    official = cocoex.Suite("bbob", "instances: 1-15", f"dimensions: {dim}")
    for problem in suite([dim]):
        for run in (0, 4, 14):
            theirs = official.get_problem_by_function_dimension_instance(problem.number, dim, run + 1)
            instance = problem.instance(run)
            assert_array_equal(instance(points(dim)), [theirs(row) for row in points(dim)])
            for box in (problem.bounds, instance.bounds):
                assert_array_equal(box, np.stack([theirs.lower_bounds, theirs.upper_bounds], axis=-1))


@needs_coco
@pytest.mark.parametrize("dim", DIMS)
def test_the_minimum_is_the_value_at_the_optimum_and_nothing_is_lower(dim):
    rng = np.random.default_rng(dim)
    for problem in suite([dim]):
        for run in range(15):
            instance = problem.instance(run)
            assert_allclose(instance(instance.optimum), instance.minimum, rtol=0, atol=1e-10)
            assert (np.abs(instance.optimum) <= 5).all()
            near = instance.optimum + rng.normal(size=(20, dim)) * 10.0 ** rng.uniform(-6, 0, (20, 1))
            values = instance(np.concatenate([points(dim, 20, run), np.clip(near, -5, 5)]))
            assert values.min() >= instance.minimum - 1e-10


@needs_coco
def test_runs_take_the_instances_in_turn():
    problem = bbob(15, 5, instances=[3, 7])
    assert problem.instanced
    assert [problem.instance(run).name for run in range(3)] == ["bbob-f15-i3", "bbob-f15-i7", "bbob-f15-i3"]
    optima = [tuple(bbob(15, 5).instance(run).optimum) for run in range(16)]
    assert len(set(optima[:15])) == 15
    assert optima[15] == optima[0]


@needs_coco
def test_the_problem_itself_is_its_first_instance():
    problem = bbob(8, 3, instances=[4, 5])
    first = problem.instance(0)
    assert_array_equal(problem(points(3)), first(points(3)))
    assert_array_equal(problem.optimum, first.optimum)
    assert problem.minimum == first.minimum
    assert_array_equal(problem.bounds, [[-5, 5]] * 3)
    assert (problem.name, problem.title, problem.dim) == ("bbob-f8", "f8 Rosenbrock", 3)
    result = ps.minimize(problem, problem.bounds, method=ps.PAO(), vectorized=True, maxiter=3, rng=1)
    assert result.fun == problem(result.x) > problem.minimum


@needs_coco
def test_a_problem_is_found_by_its_name():
    assert problems.get("bbob-f15", 5) == bbob(15, 5)
    assert problems.get("bbob-f15", 5).title == "f15 Rastrigin"


def test_every_function_has_a_title_of_its_own():
    assert len(set(TITLES)) == 24


@needs_coco
def test_the_suite_is_every_function_in_every_dimension():
    assert [(p.number, p.dim) for p in suite([2, 5], functions=[1, 24])] == [(1, 2), (24, 2), (1, 5), (24, 5)]
    assert [p.number for p in suite([10])] == list(range(1, 25))


@needs_coco
@pytest.mark.parametrize("batch", [(), (0,), (1,), (2, 3)])
def test_any_batch_is_its_points_one_by_one(batch):
    problem = bbob(10, 3).instance(1)
    x = np.random.default_rng(2).uniform(-5, 5, (*batch, 3))
    values = problem(x)
    assert np.shape(values) == batch
    assert_array_equal(np.reshape(values, -1), np.array([problem(row) for row in x.reshape(-1, 3)]))


@needs_coco
def test_the_layout_of_memory_does_not_matter_and_the_argument_is_left_alone():
    problem = bbob(10, 5).instance(1)
    x = points(5, 20)
    before = x.copy()
    x.flags.writeable = False
    values = problem(x)
    assert_array_equal(problem(np.asfortranarray(x)), values)
    assert_array_equal(problem(x[::3]), values[::3])
    assert_array_equal(x, before)


@needs_coco
def test_points_of_another_dimension_are_an_error():
    # Handed to the library they would make it read beyond the array.
    for x in (np.zeros(3), np.zeros((4, 3)), np.zeros((5, 1)), np.zeros((2, 10))):
        with pytest.raises(ValueError, match="takes points of shape"):
            bbob(1, 5)(x)


def values_of(problem, x):
    return problem(x)


@needs_coco
def test_problems_can_be_sent_to_other_processes():
    descriptor = bbob(21, 5, instances=[2, 9])
    assert pickle.loads(pickle.dumps(descriptor)) == descriptor
    instance = descriptor.instance(1)
    with multiprocessing.get_context("spawn").Pool(1) as pool:  # nothing is inherited
        assert_array_equal(pool.apply(values_of, (descriptor, points(5))), descriptor(points(5)))
        assert_array_equal(pool.apply(values_of, (instance, points(5))), instance(points(5)))


@needs_coco
def test_an_instance_can_be_shifted_and_rotated_too():
    base = bbob(3, 5).instance(0)
    moved = base.shifted(1).rotated(2)
    assert_allclose(moved(moved.optimum), base.minimum, atol=1e-10)


@needs_coco
def test_nothing_is_printed_or_written(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    for problem in suite([2, 40]):
        problem.instance(1)(points(problem.dim))
    assert capfd.readouterr() == ("", "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [0, 25, -1, 1.5, "3", True])
def test_a_function_that_does_not_exist(number):
    with pytest.raises(ValueError, match=r"bbob function.*got"):
        Bbob(number, 5, (1,))


@pytest.mark.parametrize("dim", [1, 4, 8, 41])
def test_a_dimension_that_the_suite_does_not_have(dim):
    with pytest.raises(ValueError, match=f"2, 3, 5, 10, 20, 40 in the bbob suite, got {dim}"):
        Bbob(1, dim, (1,))


@pytest.mark.parametrize("dim", [0, 2.5, "5"])
def test_a_dimension_that_is_none(dim):
    with pytest.raises(ValueError, match="dim must be"):
        Bbob(1, dim, (1,))


@pytest.mark.parametrize("instances", [(), (0,), (1, -2), (1.5,), (2**31,)])
def test_instances_that_do_not_exist(instances):
    with pytest.raises(ValueError, match=r"bbob (problem|instance).*got"):
        Bbob(1, 5, instances)


@needs_coco
def test_a_number_out_of_range_in_a_name():
    with pytest.raises(ValueError, match="numbered from 1 to 24, got 25"):
        problems.get("bbob-f25", 5)


def test_without_the_library_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "cocoex", None)
    with pytest.raises(ImportError, match=r"needs cocoex.*paoswarm\[bbob\]"):
        problems.get("bbob-f1", 2)
