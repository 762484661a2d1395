"""Runs are logged by the observers of COCO and IOH as they happen: every point, once, in order."""

import json

import numpy as np
import pytest

import paoswarm as ps

cocoex = pytest.importorskip("cocoex", reason="the extra bbob is not installed")


def small(suite="bbob", dims="2", functions="1", instances="1"):
    return cocoex.Suite(suite, "", f"dimensions: {dims} function_indices: {functions} instance_indices: {instances}")


def runs_of(folder):
    """Evaluations and final gaps by (function, dimension, instance), from COCO's info files."""
    found = {}
    for path in folder.glob("*.info"):
        lines = path.read_text().splitlines()
        for head, data in zip(lines[0::3], lines[2::3], strict=True):
            keys = dict(part.strip().split(" = ", 1) for part in head.split(","))
            for run in data.split(", ")[1:]:
                instance, rest = run.split(":")
                evaluations, gap = rest.split("|")
                found[int(keys["funcId"]), int(keys["DIM"]), int(instance)] = int(evaluations), float(gap)
    return found


def first_evaluation_of_each_improvement(folder):
    (path,) = folder.rglob("*.dat")
    rows = [line.split() for line in path.read_text().splitlines() if not line.startswith("%")]
    return [(int(row[0]), float(row[2])) for row in rows]


def test_the_log_of_coco_is_the_run(tmp_path, capfd):
    folder = ps.study.run_coco(small(functions="8"), budget_multiplier=30, out=tmp_path / "data", rng=5)
    assert folder == tmp_path / "data" / "AdaptivePAO"
    assert capfd.readouterr().out == ""
    assert runs_of(folder)[8, 2, 1][0] == 60
    values = []
    problem = ps.problems.bbob.bbob(8, 2, [1]).instance(0)

    def noted(x):
        values.append(float(problem(x)) - problem.minimum)
        return float(problem(x))

    seed = np.random.SeedSequence(5).spawn(1)[0].spawn(1)[0]
    ps.minimize(noted, problem.bounds, maxfev=60, tol=0.0, rng=seed)
    for evaluation, gap in first_evaluation_of_each_improvement(folder):
        assert gap == pytest.approx(min(values[:evaluation]), rel=1e-6, abs=1e-8)


def test_a_run_ends_at_coco_s_final_target(tmp_path):
    evaluations, gap = runs_of(ps.study.run_coco(small(), budget_multiplier=5000, out=tmp_path))[1, 2, 1]
    assert gap <= 1e-8
    assert evaluations < 500


def test_a_method_that_converges_is_started_again(tmp_path):
    method = ps.DensePAO()
    folder = ps.study.run_coco(
        small(functions="24"), method, budget_multiplier=1000, out=tmp_path, name="my dense", rng=1
    )
    assert folder.name == "my_dense"
    assert runs_of(folder)[24, 2, 1][0] == 2000
    alone = ps.minimize(ps.problems.bbob.bbob(24, 2, [1]).instance(0), [(-5, 5)] * 2, method=method, maxfev=2000, rng=1)
    assert alone.nfev < 1000


def test_batches_make_the_runs_of_the_whole_experiment(tmp_path):
    whole = runs_of(
        ps.study.run_coco(small(instances="1-3"), ps.classic.DE(), budget_multiplier=20, out=tmp_path / "a")
    )
    parts = {}
    for i in range(2):
        part = ps.study.run_coco(
            small(instances="1-3"), ps.classic.DE(), budget_multiplier=20, out=tmp_path / "b", batch=(i, 2)
        )
        assert part.name == f"DE_batch00{i}of2"
        parts |= runs_of(part)
    assert parts == whole
    assert len(whole) == 3


def test_whole_numbers_and_constraints_of_coco(tmp_path):
    suite = small("bbob-mixint", dims="5")
    assert runs_of(ps.study.run_coco(suite, budget_multiplier=20, out=tmp_path))[1, 5, 1][0] == 100
    evaluations, gap = runs_of(ps.study.run_coco(small("bbob-constrained"), budget_multiplier=100, out=tmp_path))[
        1, 2, 1
    ]
    assert gap < 1e-5
    assert evaluations <= 200


def test_what_cannot_be_is_said(tmp_path):
    with pytest.raises(ValueError, match="COCO has no suite 'bob'; it has bbob,"):
        ps.study.run_coco("bob", out=tmp_path)
    with pytest.raises(ValueError, match="2 objectives; only one can be minimised"):
        ps.study.run_coco(small("bbob-biobj"), out=tmp_path)
    with pytest.raises(ValueError, match=r"batch must be \(i, n\) with 0 <= i < n, got \(2, 2\)"):
        ps.study.run_coco(small(), out=tmp_path, batch=(2, 2))
    with pytest.raises(ValueError, match="budget_multiplier"):
        ps.study.run_coco(small(), out=tmp_path, budget_multiplier=0)


@pytest.fixture
def ioh():
    return pytest.importorskip("ioh", reason="the extra ioh is not installed")


def test_the_log_of_ioh_is_the_run(tmp_path, ioh):
    problems = [ioh.get_problem(8, instance, 2) for instance in (1, 2)]
    folder = ps.study.run_ioh(problems, ps.classic.DE(), budget_multiplier=20, runs=3, out=tmp_path, rng=5)
    (scenario,) = json.loads(next(folder.glob("*.json")).read_text())["scenarios"]
    assert [run["instance"] for run in scenario["runs"]] == [1, 1, 1, 2, 2, 2]
    assert {run["evals"] for run in scenario["runs"]} == {40}
    seeds = np.random.SeedSequence(5).spawn(6)
    for seed, run in zip(seeds, scenario["runs"], strict=True):
        problem = ioh.get_problem(8, run["instance"], 2)
        result = ps.minimize(problem, [(-5, 5)] * 2, method="DE", maxfev=40, rng=seed.spawn(1)[0])
        assert run["best"]["y"] == pytest.approx(result.fun - problem.optimum.y, rel=1e-6)


def test_problems_of_ioh_that_are_maximised_have_whole_numbers_or_the_same_id(tmp_path, ioh):
    one_max = ioh.get_problem(1, 1, 8, ioh.ProblemClass.PBO)
    folder = ps.study.run_ioh(one_max, budget_multiplier=200, runs=1, out=tmp_path)
    found = json.loads(next(folder.glob("*.json")).read_text())
    (run,) = found["scenarios"][0]["runs"]
    assert found["maximization"]
    assert run["best"]["y"] == 8
    assert run["evals"] < 1600
    with pytest.raises(ValueError, match="Sphere and OneMax both have the id 1"):
        ps.study.run_ioh([ioh.get_problem(1, 1, 2), one_max], out=tmp_path)


def test_a_function_of_ones_own_is_logged_by_ioh(tmp_path, ioh):
    own = ioh.wrap_problem(lambda x: sum((v - 1) ** 2 for v in x), name="own", dimension=2, lb=-3, ub=3)
    folder = ps.study.run_ioh(own, budget_multiplier=50, runs=1, out=tmp_path, store_positions=True)
    lines = next(folder.rglob("*.dat")).read_text().splitlines()
    assert lines[0].split() == ["evaluations", "raw_y", "x0", "x1"]
    last = [float(number) for number in lines[-1].split()]
    assert last[1] == pytest.approx((last[2] - 1) ** 2 + (last[3] - 1) ** 2, abs=1e-6)


@pytest.mark.slow
def test_cocopp_reads_the_data(tmp_path, monkeypatch):
    cocopp = pytest.importorskip("cocopp", reason="cocopp is not installed")
    monkeypatch.chdir(tmp_path)
    folder = ps.study.run_coco(small(functions="1-24", instances="1-2"), budget_multiplier=20, out=tmp_path)
    data = cocopp.load(str(folder))
    assert len(data) == 24
    assert {tuple(one.instancenumbers) for one in data} == {(1, 2)}
