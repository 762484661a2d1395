"""Counting and scoring in the benchmark with integers and constraints."""

import pathlib
import sys

import numpy as np
import pytest
from numpy.testing import assert_array_equal

BENCHMARKS = str(pathlib.Path(__file__).parents[2] / "benchmarks")
sys.path.insert(0, BENCHMARKS)
try:
    import mixed_constrained
    from coco_suites import coco
    from constrained_problem import ConstrainedProblem, stacked
    from mixed_searchers import SEARCHES, Joint
    from searchers import Done
finally:
    sys.path.remove(BENCHMARKS)


def slope(budget=10, **options):
    """Minimise a + b where a + b >= 1: the minimum is 1, and infeasible values are lower."""
    problem = ConstrainedProblem("slope", [(0, 1)] * 2, stacked(lambda a, b: (a + b, [1 - a - b], [])), 1.0, [0.5, 0.5])
    return mixed_constrained.Counted(problem, budget, **options)


def test_only_feasible_points_reach_targets():
    f = slope()
    f(np.array([[0.1, 0.1], [0.5, 0.499999999]]))
    assert f.hits == []
    assert f.first_feasible is None
    with pytest.raises(Done):  # nothing is left to reach
        f(np.array([[0.1, 0.1], [0.5, 0.5]]))
    assert f.hits == [4] * len(mixed_constrained.TARGETS)
    assert (f.first_feasible, f.solved, f.best, f.evaluations) == (4, 4, 1.0, 4)


def test_targets_are_multiples_of_the_spread_of_random_values():
    f = slope()
    gap = 0.9 * f.gaps[4]
    f(np.array([[1.0, 1.0], [0.5, 0.5 + gap]]))
    reached_at_once = int((f.gaps >= 1).sum())
    assert f.hits == [1] * reached_at_once + [2] * (5 - reached_at_once)


def test_a_search_gets_its_budget_and_not_one_evaluation_more():
    f = slope(budget=10)
    f(np.full((9, 2), 0.1))
    with pytest.raises(Done):
        f(np.full((5, 2), 0.1))
    assert f.evaluations == 10
    with pytest.raises(Done):
        f(np.full((1, 2), 0.1))
    assert f.evaluations == 10


def test_objective_and_constraints_of_a_point_are_one_evaluation():
    f = slope()
    joint = Joint(f)
    x = np.array([0.2, 0.3])
    assert joint(x)[1] == 0.5
    assert joint(x)[0] == 0.5
    assert f.evaluations == 1
    joint(x + 0.1)
    joint(x)  # only the last point is remembered: evaluating an older one again counts
    assert f.evaluations == 3


def test_integers_are_rounded_and_logarithms_undone():
    seen = []

    def evaluate(x):
        seen.append(x)
        return x[:, 0], np.empty((len(x), 0)), np.empty((len(x), 0))

    kinds = {"integrality": [1, 0], "logarithmic": [0, 1]}
    f = mixed_constrained.Counted(
        ConstrainedProblem("both", [(0, 9), (1e-3, 1e3)], evaluate, -1.0, [0, 1], **kinds), 10
    )
    np.testing.assert_allclose(f.bounds, [(0, 9), (-3, 3)])
    f(np.array([[2.5, -2.0], [2.4, 2.0]]))
    np.testing.assert_allclose(seen[-1], [[3, 0.01], [2, 100]])


@pytest.mark.parametrize(("suite", "dim"), [("bbob-mixint", 5), ("bbob-constrained", 2)])
def test_no_feasible_point_of_cocos_problems_is_better_than_the_best_point(suite, dim):
    pytest.importorskip("cocoex")
    rng = np.random.default_rng(1)
    for function in (1, 8, 24):
        problem = coco(suite, function, dim, 1)
        assert problem.is_feasible(problem.best_point)
        assert problem.fun(problem.best_point)[0] == problem.best_value
        anywhere, nearby = rng.uniform(*problem.bounds.T, (200, dim)), rng.normal(0, 1e-3, (200, dim))
        x = np.concatenate([anywhere, problem.best_point + nearby])
        assert np.all(problem.fun(x)[problem.is_feasible(x)] >= problem.best_value)
        if suite == "bbob-constrained":  # the constraints matter: without them there are better points
            assert np.any(problem.fun(x) < problem.best_value)
        else:
            assert_array_equal(problem.fun(x), problem.fun(problem.rounded(x)))


def test_every_search_of_a_set_exists():
    for settings in mixed_constrained.SETS.values():
        assert set(settings["searches"]) <= set(SEARCHES)
