"""The measurement of agreement follows every search of a run from its first swarm to its end."""

import pathlib
import sys

import pytest

BENCHMARKS = str(pathlib.Path(__file__).parents[2] / "benchmarks")
sys.path.insert(0, BENCHMARKS)
try:
    import agreement
finally:
    sys.path.remove(BENCHMARKS)


@pytest.mark.parametrize("number", [3, 21])
def test_every_search_of_a_run_is_recorded(number):
    problem = next(one for one in agreement.PROBLEMS["bbob"]() if one.family == f"f{number}")
    row = agreement.run(problem, 1, most=4000)
    searches = row["searches"]
    assert {one["series"] for one in searches} == {0, 1, 2}
    assert sum(one["evaluations"] for one in searches) <= row["evaluations"]
    assert [one["at"] for one in searches] == sorted(one["at"] for one in searches)
    assert all(one["value"] <= one["first"][0] <= one["first"][1] for one in searches)
    assert not searches[0]["contracted"]
    assert any(one["contracted"] for one in searches)
    for one in searches:
        assert all(used <= one["evaluations"] for used, _, _ in one["contracted"].values())
