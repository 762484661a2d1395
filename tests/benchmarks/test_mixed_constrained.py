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
    import mixed_tables
    from coco_suites import coco
    from constrained_problem import ConstrainedProblem, stacked
    from mixed_searchers import CAPS, OURS, SEARCHES, Joint, version_of
    from mixed_sets import CHOICES, FIGURES, SETS, problems
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
    for settings in SETS.values():
        assert set(settings["searches"]) <= set(SEARCHES)


def runs_of(search, name, dim, instance, hits):
    """A run of each problem that reached its targets after ``hits(number of the problem)`` evaluations."""
    return {
        (key := f"{search}|{label}"): {
            "key": key, "hits": hits(number), "solved": None, "feasible": 1, "microseconds": 1.0, "evaluations": 9
        }
        for number, (label, _) in enumerate(problems(name, dim, instance))
    }  # fmt: skip


def test_the_error_of_a_mean_is_that_of_instances_drawn_for_given_functions():
    rng = np.random.default_rng(1)
    difficulty = rng.random(24)  # of the functions: no part of the error
    drawn = difficulty + 0.1 * rng.standard_normal((4000, 3, 24))  # 4000 times three instances
    means, errors = np.transpose([mixed_tables.mean_and_error(scores) for scores in drawn])
    assert np.sqrt(np.mean(errors**2)) == pytest.approx(means.std(), rel=0.06)  # five standard deviations
    assert means.std() == pytest.approx(0.1 / np.sqrt(3 * 24), rel=0.06)
    assert np.isnan(mixed_tables.mean_and_error(drawn[0, :1])[1])  # one instance has no error


def test_searches_are_compared_on_complete_instances_that_both_have():
    known = runs_of(OURS, "bbob-mixint", 5, 4, lambda _: [5] * 15) | runs_of(OURS, "bbob-mixint", 5, 5, lambda _: [])
    known |= runs_of("pycma", "bbob-mixint", 5, 4, lambda number: [5] * 15 if number % 2 else [])
    broken = runs_of("pycma", "bbob-mixint", 5, 5, lambda _: [])
    known |= dict(list(broken.items())[:-1])  # one run is missing
    ours, other = (mixed_tables.complete_runs(known, "bbob-mixint", 5, search) for search in (OURS, "pycma"))
    assert (list(ours), list(other)) == ([4, 5], [4])
    both, ahead, _ = mixed_tables.ahead_by("bbob-mixint", ours, other)
    assert (both, ahead) == ([4], 0.5)
    row = next(line for line in mixed_tables.tables(known)["short"].splitlines() if "integers" in line)
    assert row == "| integers, COCO, 5 variables | 1.000 | 0.500 pycma | +0.500 | 1 |"


def test_a_capped_search_is_compared_at_its_cap():
    (capped, cap), *_ = CAPS.items()
    late = 5 * cap + 1  # one evaluation later than a capped search could
    ours = {4: list(runs_of(OURS, "bbob-mixint", 5, 4, lambda _: [5] * 5 + [late] * 10).values())}
    other = {4: list(runs_of(capped, "bbob-mixint", 5, 4, lambda _: [5] * 5).values())}
    assert mixed_tables.ahead_by("bbob-mixint", ours, other, cap)[1] == 0
    assert mixed_tables.ahead_by("bbob-mixint", ours, other)[1] == pytest.approx(2 / 3)


def test_with_again_runs_of_other_versions_are_replaced_and_only_those(tmp_path, monkeypatch):
    path = tmp_path / "runs.jsonl"
    ran = []
    monkeypatch.setattr(mixed_constrained, "_one_run", lambda *_: ran.append(1) or {"version": version_of("random")})
    measure = mixed_constrained.measure
    measure("exponentials", ["random"], [4], [4, 5], path)
    measure("exponentials", ["random"], [4], [4, 5], path)  # nothing is missing
    assert len(ran) == 2
    lines = path.read_text().splitlines()
    path.write_text(lines[0].replace(version_of("random"), "older") + "\n" + lines[1] + "\n")
    measure("exponentials", ["random"], [4], [4, 5], path)
    assert len(ran) == 2
    measure("exponentials", ["random"], [4], [4, 5], path, again=True)
    assert len(ran) == 3
    assert sorted(path.read_text().splitlines()) == sorted(lines)


def test_instances_of_choices_and_of_figures_are_apart():
    assert not set(CHOICES) & set(FIGURES)
    for path, instances in ((mixed_constrained.RESULTS, FIGURES), (mixed_constrained.RESULTS_OF_CHOICES, CHOICES)):
        assert {int(key.split("|")[-1]) for key in mixed_constrained.read(path)} <= set(instances)


def test_runs_of_ours_are_of_one_version():
    runs = mixed_constrained.read(mixed_constrained.RESULTS)
    assert len({row["version"] for key, row in runs.items() if key.startswith(f"{OURS}|")}) == 1


def test_the_tables_of_the_page_are_those_of_the_runs():
    runs = mixed_constrained.read(mixed_constrained.RESULTS)
    made = mixed_tables.tables(runs)
    page = (mixed_constrained.PAGES.parent / "mixed_constrained.md").read_text()
    for name, text in made.items():
        assert (mixed_constrained.PAGES / f"{name}.inc").read_text() == text, "the tables are old"
        assert f"{{include}} mixed_constrained/{name}.inc" in page
    some = next(row for key, row in runs.items() if key.startswith(f"{OURS}|bbob-mixint") and row["hits"])
    some["hits"].pop()  # one target less is seen in the table
    assert mixed_tables.tables(runs)["bbob-mixint"] != made["bbob-mixint"]
