"""Problems by name: what is understood, and what a misspelt name or dimension is told."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from paoswarm import problems

BOXES = {
    "sphere": 5.12,
    "ellipsoid": 5.12,
    "rotated_ellipsoid": 65.536,
    "power_sum": 1,
    "rosenbrock": 2.048,
    "griewank": 600,
    "rastrigin": 5.12,
    "ackley": 32.768,
    "schwefel": 500,
}


def test_the_nine_in_the_order_of_the_study():
    assert problems.names == tuple(BOXES)
    nine = problems.paper(8)
    assert [p.name for p in nine] == list(BOXES)
    assert len({p.title for p in nine}) == 9
    for problem, side in zip(nine, BOXES.values(), strict=True):
        assert_array_equal(problem.bounds, [[-side, side]] * 8)


@pytest.mark.parametrize("suffix", ["", "-shifted5", "-rotated2", "-shifted7-rotated2", "-rotated2-shifted7-rotated3"])
@pytest.mark.parametrize("name", problems.names)
def test_a_problem_is_found_by_its_own_name(name, suffix):
    problem = problems.get(name + suffix, 3)
    again = problems.get(problem.name, problem.dim)
    assert again.name == problem.name == name + suffix
    x = np.random.default_rng(1).uniform(problem.lower, problem.upper, (10, 3))
    assert_array_equal(again(x), problem(x))
    assert_array_equal(again.optimum, problem.optimum)


def test_a_suffix_is_the_method_of_that_name():
    x = np.random.default_rng(2).uniform(-5, 5, (10, 4))
    by_name, by_method = problems.get("rastrigin-shifted7-rotated2", 4), problems.rastrigin(4).shifted(7).rotated(2)
    assert_array_equal(by_name(x), by_method(x))
    assert by_name.title == "Rastrigin, shifted (seed 7), rotated (seed 2)"


def test_a_suffix_without_number_means_seed_one():
    assert problems.get("ackley-shifted-rotated", 2).name == "ackley-shifted1-rotated1"
    assert problems.get("ackley-shifted", 2).name == problems.ackley(2).shifted().name


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("Rastrigin", "rastrigin"),
        ("rastrign-shifted2", "rastrigin"),
        ("rosenbrok", "rosenbrock"),
        ("rotated-ellipsoid", "rotated_ellipsoid"),
        ("rastrigin-shifted2x", "rastrigin"),
    ],
)
def test_the_error_for_a_misspelt_name_suggests_one(name, meant):
    with pytest.raises(ValueError, match=f"unknown problem {name!r}; did you mean {meant}"):
        problems.get(name, 2)


@pytest.mark.parametrize("name", ["", "-shifted1", "levy", "rast-shifted1rigin", "bbob", "bbob-f", "bbob-f3-shifted1"])
def test_the_error_for_an_unknown_name_lists_the_known_ones(name):
    with pytest.raises(ValueError, match=", ".join(problems.names) + r".*bbob-f1 to bbob-f24"):
        problems.get(name, 2)


def test_a_name_is_text():
    with pytest.raises(TypeError, match="got 3"):
        problems.get(3, 2)


@pytest.mark.parametrize("dim", [0, -1, 2.5, "8", None, True, np.float64(2.5)])
@pytest.mark.parametrize("name", problems.names)
def test_a_dimension_is_a_whole_number(name, dim):
    for make in (getattr(problems, name), lambda dim: problems.get(name + "-shifted", dim)):
        with pytest.raises(ValueError, match=f"the dim of {name} must be .*[12], got"):
            make(dim)


@pytest.mark.parametrize("name", problems.names)
def test_one_unknown_is_enough_for_all_but_rosenbrock(name):
    if name == "rosenbrock":
        with pytest.raises(ValueError, match=r"the dim of rosenbrock must be .*2, got 1"):
            problems.get(name, 1)
    else:
        problem = problems.get(name + "-shifted-rotated", np.int64(1))
        assert abs(problem(problem.optimum)) < 1e-12
