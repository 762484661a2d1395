"""The measurement of agreement knows the minima, and tells right claims from wrong ones."""

import pathlib
import sys

import numpy as np
import pytest

BENCHMARKS = str(pathlib.Path(__file__).parents[2] / "benchmarks")
sys.path.insert(0, BENCHMARKS)
try:
    import agreement
finally:
    sys.path.remove(BENCHMARKS)


@pytest.mark.parametrize("problems", [agreement.hierarchical, agreement.holes])
def test_no_point_is_below_the_minimum(problems):
    rng = np.random.default_rng(1)
    for one in problems(3, 2):
        values = one.fun(rng.random((20_000, 2)))
        assert one.minimum <= values.min() < one.minimum + 1.2


def test_a_hole_makes_a_false_claim_and_a_bowl_a_right_one():
    rows = {}
    for problem in (next(agreement.from_bbob(1, 2)), next(agreement.holes(1, 2))):
        row = agreement.run(problem, 1)
        assert row["is_claimed"]
        assert row["evaluations"] < 2000 * 2
        rows[problem.family] = row | {"family": problem.family}
    right, false = rows.values()
    assert right["gap"] <= right["near"]
    assert 1 <= right["hit"] < right["evaluations"]
    assert (false["gap"] > false["near"], false["hit"]) == (True, None)
    cost = f"{right['evaluations'] / right['hit']:.1f}"
    assert agreement.line("both", [right, false]) == f"| both | 2 | 2 | 1 | 0 | {cost} | {cost} |"
