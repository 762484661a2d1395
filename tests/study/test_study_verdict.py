"""The first sentences of a report say who is ahead, whether it is chance, and where the reference loses."""

from dataclasses import replace

import numpy as np
import pytest
from synthetic import study_of

from paoswarm.study.sentences import standings, verdict

RUNS = 20
SPREAD = 1 + 1e-3 * np.arange(RUNS)  # no two runs alike
TASKS = ("sphere", "ackley", "schwefel")


def study(final, **options):
    """``final[problem][method]`` is the level about which the runs of a cell end."""
    return study_of({p: {m: level * SPREAD for m, level in cells.items()} for p, cells in final.items()}, **options)


def same(**levels):
    """The same levels on three tasks."""
    return dict.fromkeys(TASKS, levels)


def test_a_reference_that_is_last_is_said_to_be_last():
    ahead, tests, loses = verdict(study(same(PAO=1e-2, PSO=1e-5, DE=1e-3)))
    assert ahead == (
        "Of 3 methods on 3 tasks, PSO ranks first (average rank 1.00, 0\u00a0% of runs solved), DE 2nd "
        "(2.00, 0\u00a0%), and PAO 3rd (3.00, 0\u00a0%)."
    )
    assert tests == (
        "In paired runs, PSO is significantly better than DE on 3 tasks and worse on 0; PAO is significantly better "
        "than PSO on 0 tasks and worse on 3 (Wilcoxon’s test at 5\u00a0%, with Holm’s correction)."
    )
    assert loses == (
        "At least one method is significantly better than PAO on 3 of 3 tasks, most clearly on Sphere in 2 dimensions "
        "(3.0 decades behind PSO), Ackley in 2 dimensions (3.0 decades behind PSO) and Schwefel in 2 dimensions (3.0 "
        "decades behind PSO); PAO is significantly better than all others on 0."
    )


def test_a_reference_that_wins_everything_is_said_to_win():
    ahead, tests, loses = verdict(study(same(PAO=1e-9, PSO=1e-2, DE=1e-3)))
    assert ahead == (
        "Of 3 methods on 3 tasks, PAO ranks first (average rank 1.00, 100\u00a0% of runs solved), DE 2nd "
        "(2.00, 0\u00a0%)."
    )
    assert tests.startswith("In paired runs, PAO is significantly better than DE on 3 tasks and worse on 0 (")
    assert loses == (
        "No method is significantly better than PAO on any task; PAO is significantly better than all others on 3."
    )


def test_another_reference_of_the_same_data_is_judged_by_the_same_ranks():
    results = study(same(PAO=1e-5, PSO=1e-2, DE=1e-3))
    ahead, _, loses = verdict(replace(results, reference="PSO"))
    assert "PAO ranks first" in ahead
    assert ahead.endswith(", DE 2nd (2.00, 0\u00a0%), and PSO 3rd (3.00, 0\u00a0%).")
    assert "better than PSO on 3 of 3 tasks" in loses


def test_chance_is_no_win():
    rng = np.random.default_rng(3)
    cells = {p: {m: rng.lognormal(size=RUNS) for m in ("PAO", "PSO")} for p in TASKS}
    _, tests, loses = verdict(study_of(cells))
    assert "not significantly different from" in tests
    assert loses.startswith("No method is significantly better than PAO on any task; PAO is significantly better than")
    assert loses.endswith("on 0.")


def test_equal_methods_share_the_first_place():
    ahead, tests, _ = verdict(study(same(PAO=1e-5, PSO=1e-5)))
    assert ahead.startswith("Of 2 methods on 3 tasks, PAO and PSO share the first place (average rank 1.50, 0")
    assert "PAO is not significantly different from PSO on any task" in tests


def test_ties_behind_the_first_place_are_told_with_the_reference():
    ahead = verdict(study(same(PSO=1e-3, PAO=1e-3, DE=1e-9, QPSO=1.0), reference="PAO"))[0]
    assert ahead == (
        "Of 4 methods on 3 tasks, DE ranks first (average rank 1.00, 100\u00a0% of runs solved), PAO and PSO share the "
        "2nd place (2.50, 0\u00a0%)."
    )
    ahead = verdict(study(same(PSO=1e-3, PAO=1e-3, DE=1e-9, QPSO=1e-5), reference="PAO"))[0]
    assert ahead.endswith("QPSO 2nd (2.00, 0\u00a0%), and PAO and PSO share the 3rd place (3.50, 0\u00a0%).")


def test_methods_that_share_a_place_may_have_solved_different_shares():
    final = {"sphere": {"PAO": 1e-9, "PSO": 1.0}, "ackley": {"PAO": 1.0, "PSO": 0.1}}
    ahead = verdict(study(final))[0]
    assert "PAO and PSO share the first place (average rank 1.50, 50\u00a0% and 0\u00a0% of runs solved)" in ahead


@pytest.mark.parametrize("factor", [1.0, 1.01])
def test_a_loss_without_a_margin_is_no_negative_number(factor):
    """Most runs are equal or nearly so; the others are clearly behind."""
    better = SPREAD.copy()
    better[12:] /= 1e3
    cells = {p: {"PAO": factor * SPREAD, "PSO": better} for p in TASKS}
    loses = verdict(study_of(cells))[2]
    assert "better than PAO on 3 of 3 tasks" in loses
    assert "Sphere in 2 dimensions (less than 0.1 decades behind PSO)" in loses
    assert "-0.0" not in loses


def test_the_widest_losses_are_named_first_with_the_method_that_is_furthest_ahead():
    final = {
        "sphere": {"PAO": 1e-3, "PSO": 1e-4, "DE": 1e-9},
        "ackley": {"PAO": 1e-3, "PSO": 1e-12, "DE": 1e-4},
        "schwefel": {"PAO": 1e-3, "PSO": 1.0, "DE": 10.0},
    }
    loses = verdict(study(final))[2]
    assert "on 2 of 3 tasks, most clearly on Ackley in 2 dimensions (9.0 decades behind PSO) and Sphere" in loses
    assert "Sphere in 2 dimensions (6.0 decades behind DE)" in loses
    assert loses.endswith("better than all others on 1.")


def test_a_method_alone_is_compared_with_nobody():
    assert verdict(study({"sphere": {"PAO": 1.0}})) == ["PAO is the only method: there is nothing to compare it with."]


def test_standings_count_solved_runs_of_every_task():
    half = np.where(np.arange(RUNS) % 2, 1e-9, 1.0)
    cells = {"sphere": {"PAO": half, "PSO": np.ones(RUNS)}, "ackley": {"PAO": np.full(RUNS, 1e-8), "PSO": half[:6]}}
    found = {row.method: row for row in standings(study_of(cells))}
    assert found["PAO"].solved == pytest.approx(0.75)
    assert found["PSO"].solved == pytest.approx(0.25)
    assert [row.method for row in standings(study_of(cells))] == ["PAO", "PSO"]
