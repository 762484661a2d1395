"""Sentences say what the numbers say, of winners and losers alike, in good grammar."""

from dataclasses import replace

import numpy as np
import pytest
from synthetic import study_of

from paoswarm.study.sentences import findings, listed, short

RUNS = 20
SPREAD = 1 + 1e-3 * np.arange(RUNS)  # no two runs alike


def study(final, **options):
    """``final[problem][method]`` is the level about which the runs of a cell end."""
    cells = {problem: {m: level * SPREAD for m, level in methods.items()} for problem, methods in final.items()}
    return study_of(cells, **options)


MIXED = {"sphere": {"PAO": 1e-4, "PSO": 1e-1}, "ackley": {"PAO": 1e-2, "PSO": 1e-4}}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.234e-8, "1.23e-8"),
        (0.0, "0"),
        (np.inf, "∞"),
        (-np.inf, "−∞"),
        (np.nan, "–"),
        (250.0, "2.50e2"),
        (1.0, "1.00e0"),
    ],
)
def test_short_numbers(value, text):
    assert short(value) == text


def test_listing():
    assert [listed("abc"[:n]) for n in range(4)] == ["", "a", "a and b", "a, b and c"]


def test_a_win_and_a_loss_are_both_told():
    wins, loses, tests, ranks = findings(study(MIXED))
    assert wins == "PAO has the smallest mean error of 2 methods on 1 of 2 tasks."
    assert loses == "It loses 1 task; the margin in decades is in brackets. To PSO: Ackley in 2 dimensions (2.0)."
    assert tests.startswith("In 2 paired comparisons")
    assert "PAO is significantly better in 1, significantly worse in 1, and not significantly different in 0" in tests
    assert tests.endswith("It is better than PSO on 1 task. It is worse than PSO on 1 task.")
    assert ranks.endswith("rank of 1.50 among 2 methods, the best, shared with PSO.")


def test_the_other_method_tells_the_opposite():
    wins, loses, tests, _ = findings(study(MIXED, reference="PSO"))
    assert wins == "PSO has the smallest mean error of 2 methods on 1 of 2 tasks."
    assert loses.endswith("To PAO: Sphere in 2 dimensions (3.0).")
    assert tests.endswith("It is better than PAO on 1 task. It is worse than PAO on 1 task.")


def test_a_winner_of_everything_has_no_losses():
    final = {p: {"PAO": 1e-9, "PSO": 1e-2, "DE": 1e-3} for p in ("sphere", "ackley", "schwefel")}
    wins, tests, ranks = findings(study(final))
    assert wins == "PAO has the smallest mean error of 3 methods on all 3 tasks."
    assert "better in 6, significantly worse in 0" in tests
    assert tests.endswith("It is better than PSO on 3 tasks and DE on 3.")
    # Three tasks that all rank alike: chi-square 6 with 2 degrees of freedom, p = exp(-3).
    assert "rank of 1.00 among 3 methods, the best, followed by DE (2.00)." in ranks
    assert ranks.endswith(f"Friedman’s test finds that the methods differ (p = {short(np.exp(-3))}).")


def test_a_loser_of_everything_says_so():
    final = {p: {"PAO": 1e-2, "PSO": 1e-3, "DE": 1e-9} for p in ("sphere", "ackley", "schwefel")}
    wins, loses, tests, ranks = findings(study(final))
    assert wins == "PAO has the smallest mean error of 3 methods on 0 of 3 tasks."
    assert loses.startswith("It loses 3 tasks")
    assert loses.endswith(
        "To DE: Sphere in 2 dimensions (7.0), Ackley in 2 dimensions (7.0) and Schwefel in 2 dimensions (7.0)."
    )
    assert "better in 0, significantly worse in 6" in tests
    assert "It is better" not in tests
    assert "rank of 3.00 among 3 methods, behind DE (1.00) and PSO (2.00)." in ranks


def test_dimensions_are_told_apart():
    wins, _, ranks = findings(study({"sphere": {"PAO": 1e-4, "PSO": 1e-1}}, dims=(1, 10)))
    assert wins.endswith("on all 2 tasks (1 in 1 dimension and 1 in 10 dimensions).")
    assert "(1.00 in 1 dimension and 1.00 in 10 dimensions)" in ranks


def test_one_task_is_the_only_one():
    assert findings(study({"sphere": {"PAO": 1, "PSO": 2}}))[0].endswith("on the only task.")
    assert findings(study({"sphere": {"PAO": 2, "PSO": 1}}))[0].endswith("on 0 of 1 task.")


def test_shared_wins_are_said_to_be_shared():
    zeros = {"sphere": {"PAO": 0, "PSO": 0}, "ackley": {"PAO": 1e-2, "PSO": 1e-4}}
    assert findings(study(zeros))[0].endswith("on 1 of 2 tasks; this win is shared with another method.")
    more = {**zeros, "schwefel": {"PAO": 1e-4, "PSO": 1}}
    assert findings(study(more))[0].endswith("on 2 of 3 tasks; 1 of these wins is shared with another method.")


def test_a_loss_to_two_winners_names_both():
    text = findings(study({"sphere": {"PAO": 1e-4, "PSO": 0, "DE": 0}}))
    assert "To PSO and DE: Sphere in 2 dimensions (the winner’s mean is zero)." in text[1]


def test_tiny_and_infinite_margins_are_words():
    final = {"sphere": {"PAO": 1.01, "PSO": 1.0}, "ackley": {"PAO": np.inf, "PSO": 1.0}}
    loses = findings(study(final))[1]
    assert "Ackley in 2 dimensions (its own mean is infinite) and Sphere in 2 dimensions (less than 0.1)" in loses


def test_a_task_that_nobody_solves_is_neither_won_nor_lost():
    final = {"sphere": {"PAO": np.inf, "PSO": np.inf}, "ackley": {"PAO": 1.0, "PSO": 2.0}}
    wins, nobody, *_ = findings(study(final))
    assert wins.endswith("on 1 of 2 tasks.")
    assert nobody == "On 1 task no method has a finite mean error."


def test_many_losses_are_cut_short_at_the_widest():
    final = {f"f{i}": {"PAO": 10.0 ** (-i / 2), "PSO": 1e-20} for i in range(15)}
    loses = findings(study(final))[1]
    assert loses.startswith("It loses 15 tasks;")
    assert "F0 in 2 dimensions (20.0), F1 in 2 dimensions (19.5)" in loses
    assert "F11 in 2 dimensions (14.5). And 3 more tasks" in loses
    assert "F12" not in loses


def test_a_mean_ruined_by_one_run_is_pointed_out():
    typical, ruined = np.full(RUNS, 1e-3), np.full(RUNS, 1e-6)
    ruined[0] = 1e3
    cells = {"sphere": {"PAO": typical * SPREAD, "PSO": ruined * SPREAD}}
    text = " ".join(findings(study_of(cells)))
    assert "smallest mean error of 2 methods on the only task" in text
    assert "disagree on 1 task: PAO has the smallest mean" in text
    assert text.count("Sphere in 2 dimensions (PSO)") == 1
    assert "disagree" not in " ".join(findings(study(MIXED)))


def test_no_difference_is_no_claim():
    same = {"sphere": {"PAO": np.ones(RUNS), "PSO": np.ones(RUNS)}}
    tests = findings(study_of(same))[1]
    assert "better in 0, significantly worse in 0, and not significantly different in 1" in tests
    assert "It is" not in tests


def test_several_groups_are_named_and_one_is_not():
    results = study({"sphere": {"PAO": 1, "PSO": 2, "DE": 0.1}})
    assert findings(results)[0].startswith("PAO has")
    split = replace(results, groups={"Swarms": ("PAO", "PSO"), "Evolution": ("PAO", "DE"), "Alone": ("PAO",)})
    text = findings(split)
    assert text[0] == "In the group “Swarms”, PAO has the smallest mean error of 2 methods on the only task."
    assert "In the group “Evolution”, PAO has the smallest mean error of 2 methods on 0 of 1 task." in text
    assert text[-1].startswith("In the group “Alone”, PAO is the only method")
