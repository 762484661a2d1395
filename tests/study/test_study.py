"""A study's numbers depend on seed, problem and method alone; its budget is exact; wrong settings are named at once."""

import re
import zlib
from functools import partial

import numpy as np
import pytest
from changing_methods import Growing, Restarting
from helpers import (
    Counting,
    Moving,
    assert_same_results,
    assert_same_trace,
    bowl,
    own_problem,
    random_search,
    small,
)
from numpy.testing import assert_allclose, assert_array_equal

import paoswarm as ps
from paoswarm.problems import bbob
from paoswarm.study import presets
from paoswarm.study.adapters import SciPyDE
from paoswarm.study.cells import CellFailed
from paoswarm.study.results import Key
from paoswarm.study.study import trace_of

SWARMS = {
    "PAO": ps.PAO(),
    "PSO": ps.classic.PSO(),
    "QPSO": ps.classic.QPSO(),
    "DE": ps.classic.DE(),
    "SADE": ps.classic.SADE(),
}


def cell_of(study):
    (cell,) = study.cells()
    return cell


def seed_of(run, problem, dim, seed=1):
    """The documented seed of a run: of the study, the problem and the dimension, not of the method."""
    root = np.random.SeedSequence(seed, spawn_key=(zlib.crc32(problem.encode()), dim))
    return root.spawn(run + 1)[run]


# Seeds and company


def test_the_same_seed_is_the_same_study_and_another_seed_another(tmp_path):
    one, again, other = (small(seed=seed).run(tmp_path / name) for name, seed in (("a", 5), ("b", 5), ("c", 6)))
    assert_same_results(one, again)
    assert all((trace.error != other.traces[key].error).any() for key, trace in one.traces.items())


def test_worker_processes_change_nothing(tmp_path):
    methods = {**SWARMS, "random": random_search, "SciPy DE": SciPyDE()}
    study = small(problems=["ackley", own_problem(), Moving], methods=methods)
    assert_same_results(study.run(tmp_path / "1", workers=1), study.run(tmp_path / "2", workers=2))


def test_a_cell_does_not_depend_on_other_cells(tmp_path):
    together = small(problems=["sphere", "ackley"], methods=SWARMS).run(tmp_path / "all")
    for key in (Key("ackley", 3, "QPSO"), Key("sphere", 2, "SADE")):
        alone = small(problems=[key.problem], methods={key.method: SWARMS[key.method]}, dims=[key.dim])
        assert_same_trace(alone.run(tmp_path / key.method).traces[key], together.traces[key])


def test_the_order_of_methods_problems_and_dimensions_changes_no_number(tmp_path):
    forth = small().run(tmp_path / "forth")
    back = small(
        problems=["rastrigin-shifted", "sphere"], methods={"PSO": ps.classic.PSO(), "PAO": ps.PAO()}, dims=[3, 2]
    )
    there = back.run(tmp_path / "back")
    assert (there.problems, there.methods, there.dims) == (("rastrigin-shifted1", "sphere"), ("PSO", "PAO"), (3, 2))
    for key, trace in forth.traces.items():
        assert_same_trace(trace, there.traces[key])


def test_more_runs_begin_with_the_same_ones():
    few, many = (
        cell_of(small(problems=["ackley"], methods={"DE": ps.classic.DE()}, dims=[3], runs=n)).run() for n in (3, 7)
    )
    assert_array_equal(many.best[:3], few.best)


@pytest.mark.parametrize("maxfev", [None, 45])  # six populations; or five and five points more
@pytest.mark.parametrize("method", SWARMS.values(), ids=SWARMS)
def test_a_run_is_a_call_of_minimize_with_the_documented_seed(method, maxfev):
    budget = {"evaluations_per_unknown": maxfev and maxfev // 3}
    study = small(problems=["rastrigin-shifted"], methods={"it": method}, dims=[3], seed=9, init="sobol", **budget)
    runs = cell_of(study).run()
    problem = ps.problems.get("rastrigin-shifted", 3)
    for r in range(3):
        alone = ps.minimize(
            problem,
            problem.bounds,
            method=method,
            n_particles=8,
            init="sobol",
            maxiter=5,
            maxfev=maxfev,
            tol=0,
            rng=seed_of(r, "rastrigin-shifted1", 3, seed=9),
        )
        assert_array_equal(runs.best[r], alone.history.best)
        assert_array_equal(runs.evaluations, alone.history.nfev)
    assert len(set(runs.best[:, -1])) == 3


def test_all_methods_start_from_the_same_first_population(tmp_path):
    study = small(methods={**SWARMS, "random": random_search})
    results = study.run(tmp_path)
    for problem, dim in results.tasks():
        first = {name: tuple(results.trace(problem, dim, name).error[:, 0]) for name in study.methods}
        assert len({first[name] for name in SWARMS}) == 1
        assert first["random"] != first["PAO"]
        ends = {tuple(results.final(problem, dim, name)) for name in SWARMS}
        assert len(ends) == len(SWARMS)


def test_all_adapters_get_the_same_seeds_one_for_each_run():
    def note(seen, fun, bounds, *, population, seed):
        seen.append(seed)
        fun(bounds[:, 0])

    one, other = [], []
    for cell in small(
        problems=["sphere"], dims=[2], methods={"a": partial(note, one), "b": partial(note, other)}
    ).cells():
        cell.run()
    assert one == other
    assert len(set(one)) == 3


# Budgets


@pytest.mark.parametrize(
    ("options", "budget", "evaluations"),
    [
        ({"generations": 0}, 8, [8]),
        ({"generations": 3}, 32, [8, 16, 24, 32]),
        ({"evaluations_per_unknown": 8}, 24, [8, 16, 24]),
        ({"evaluations_per_unknown": 9}, 27, [8, 16, 24, 27]),
        ({"evaluations_per_unknown": 5}, 15, [8, 15]),
        ({"evaluations_per_unknown": 3, "generations": 50}, 9, [8, 9]),
    ],
)
@pytest.mark.parametrize("method", [*SWARMS.values(), random_search, SciPyDE()], ids=[*SWARMS, "random", "SciPy DE"])
def test_every_run_spends_its_whole_budget_and_nothing_more(method, options, budget, evaluations):
    fun, log = Counting(), []
    for problem in (own_problem(fun), partial(Moving, log=log)):
        study = small(problems=[problem], methods={"it": method}, dims=[3], **options)
        assert study.budget(3) == budget
        runs = cell_of(study).run()
        assert_array_equal(runs.evaluations, evaluations)
        assert runs.best.shape == (3, len(evaluations))
    assert len(fun.points) == 3 * budget
    assert [log.count(run) for run in range(3)] == [budget] * 3


@pytest.mark.parametrize("method", [Growing(), Restarting()], ids=lambda method: type(method).__name__)
@pytest.mark.parametrize("budget", [203, 200])
def test_a_method_that_changes_its_size_spends_exactly_the_budget(method, budget):
    fun, log = Counting(), []
    axis = np.minimum(20 * np.arange(1, -(-budget // 20) + 1), budget)
    study = {"methods": {"it": method}, "dims": [1], "population": 20, "evaluations_per_unknown": budget}
    runs = cell_of(small(problems=[own_problem(fun)], **study)).run()
    assert len(fun.points) == 3 * budget
    assert_array_equal(runs.evaluations, axis)
    for r in range(3):
        best = np.minimum.accumulate(bowl(np.array(fun.points[r * budget : (r + 1) * budget])))
        assert (runs.best[r] >= best[axis - 1]).all()  # on the axis, the last completed generation counts
        assert runs.best[r, -1] == best[-1]
        assert (np.diff(runs.best[r]) <= 0).all()
    runs = cell_of(small(problems=[partial(Moving, log=log)], **study)).run()
    assert_array_equal(runs.evaluations, axis)
    assert [log.count(run) for run in range(3)] == [budget] * 3


@pytest.mark.parametrize("problem", [own_problem(), Moving], ids=["plain", "instanced"])
def test_a_method_that_ends_early_keeps_its_best_value_to_the_end_of_the_budget(problem):
    study = {"methods": {"it": Restarting(most_restarts=1)}, "dims": [1], "evaluations_per_unknown": 400}
    runs = cell_of(small(problems=[problem], **study)).run()
    assert_array_equal(runs.evaluations, 8 * np.arange(1, 51))
    assert runs.best.shape == (3, 50)
    assert (runs.best[:, 20:] == runs.best[:, 20:21]).all()  # all are over by then
    assert (runs.best[:, 0] > runs.best[:, 20]).all()


def test_the_best_values_kept_are_those_that_were_measured():
    """A negative control of the counts: the last, cut generation counts too."""
    fun = Counting()
    study = small(problems=[own_problem(fun)], methods={"PAO": ps.PAO()}, dims=[3], runs=1, evaluations_per_unknown=9)
    runs = cell_of(study).run()
    best = np.minimum.accumulate(bowl(np.array(fun.points)))
    assert_array_equal(runs.best[0], best[[7, 15, 23, 26]])


def test_a_converged_swarm_continues():
    """The default tolerance of minimize would end it; a study compares equal budgets."""
    fun = Counting()
    cell_of(small(problems=[own_problem(fun)], methods={"PAO": ps.PAO()}, dims=[1], generations=400)).run()
    assert len(fun.points) == 3 * 8 * 401


# Errors


def test_errors_are_never_negative_and_never_increase(tmp_path):
    results = small(problems=["schwefel", "ackley", Moving], methods={**SWARMS, "random": random_search}).run(tmp_path)
    for trace in results.traces.values():
        assert (trace.error >= 0).all()
        assert (np.diff(trace.error, axis=1) <= 0).all()
        assert (np.diff(trace.evaluations) > 0).all()


def test_a_value_below_the_minimum_by_rounding_is_an_error_of_zero(tmp_path):
    above = own_problem(minimum=1e-10)
    results = small(problems=[above], methods={"PAO": ps.PAO()}, dims=[1], generations=60).run(tmp_path)
    assert_array_equal(results.final("bowl", 1, "PAO"), 0.0)
    runs = cell_of(small(problems=[above], methods={"PAO": ps.PAO()}, dims=[1], generations=60)).run()
    assert (runs.best[:, -1] < 1e-10).all()
    assert_array_equal(trace_of(runs).error, np.maximum(runs.best - 1e-10, 0))


def test_a_stated_minimum_that_is_too_high_is_an_error(tmp_path):
    study = small(problems=[own_problem(minimum=1e-3)], methods={"PAO": ps.PAO()}, dims=[1], generations=40)
    with pytest.raises(CellFailed, match=r"below the stated minimum 0\.001"):
        study.run(tmp_path)


def objective(x):
    return (x**2).sum()


def test_an_objective_in_place_of_a_problem_is_named():
    with pytest.raises(TypeError, match=r"objective\(2\) failed .*function of the dimension.* not an objective"):
        small(problems=[objective], dims=[2])


class Leaving(ps.Method):
    """Looks outside the box, where the optimum of this problem is."""

    walls = "none"

    def ask(self, state, draw, progress=0.0):
        return ps.Proposal(np.zeros_like(state.position), state.velocity)


def leaving(fun, bounds, *, population, seed):
    fun(bounds.mean(axis=1))
    while True:
        fun(np.zeros((population, len(bounds))))


@pytest.mark.parametrize("method", [Leaving(), leaving], ids=["method", "adapter"])
def test_points_outside_the_box_do_not_count(method, tmp_path):
    def away(dim):
        return ps.problems.Problem("away", "Away", np.ones(dim), 2 * np.ones(dim), np.ones(dim), 0.0, bowl)

    results = small(problems=[away], methods={"it": method}, dims=[2]).run(tmp_path)
    assert (results.final("away", 2, "it") > 0.1).all()


def test_points_that_fail_count_and_are_never_the_best(tmp_path):
    def half(x):
        return np.where(x[..., 0] > 0, np.nan, bowl(x))

    results = small(problems=[own_problem(half)], methods={"PAO": ps.PAO(), "random": random_search}).run(tmp_path)
    for trace in results.traces.values():
        assert np.isfinite(trace.final).all()
        assert (trace.final >= 0.09).all()  # the best of the better half is 0.3 away


def test_a_run_without_a_finite_value_has_an_infinite_error(tmp_path):
    results = small(
        problems=[own_problem(lambda x: np.full(x.shape[:-1], np.nan))], methods={"random": random_search}
    ).run(tmp_path)
    for trace in results.traces.values():
        assert_array_equal(trace.error, np.inf)


# What users bring along


@pytest.mark.parametrize("method", [ps.PAO(), random_search], ids=["swarm", "adapter"])
def test_run_r_of_an_instanced_problem_has_instance_r_with_its_own_minimum(method, tmp_path):
    study = small(problems=[Moving], methods={"it": method}, dims=[2], runs=5)
    runs = cell_of(study).run()
    assert_array_equal(runs.minimum, [0, 100, 200, 300, 400])
    assert (runs.best[:, -1] >= runs.minimum).all()
    assert (runs.best[:, -1] < runs.minimum + 8.0).all()
    assert_array_equal(study.run(tmp_path).final("moving", 2, "it"), runs.best[:, -1] - runs.minimum)


def test_the_instances_are_minimised_with_the_seed_of_their_run():
    runs = cell_of(small(problems=[Moving], methods={"DE": ps.classic.DE()}, dims=[2])).run()
    for r in range(3):
        one = Moving(2).instance(r)
        seed = seed_of(r, "moving", 2)
        alone = ps.minimize(
            one, one.bounds, method=ps.classic.DE(), n_particles=8, init="random", maxiter=5, tol=0, rng=seed
        )
        assert_array_equal(runs.best[r], alone.history.best)


def test_a_custom_problem(tmp_path):
    results = small(problems=[own_problem(), own_problem(name="other")]).run(tmp_path)
    assert results.problems == ("bowl", "other")
    assert results.titles == {"bowl": "Bowl", "other": "Other"}
    assert (results.final("bowl", 2, "PAO") != results.final("other", 2, "PAO")).any()  # other seeds
    assert (results.final("bowl", 2, "PAO") < 0.1).all()


class Uniform(ps.Method):
    """A method of a user's own: it asks for random points."""

    def ask(self, state, draw, progress=0.0):
        box = state.upper - state.lower
        return ps.Proposal(state.lower + box * draw.uniform(*box.shape), state.velocity)


def test_a_custom_method(tmp_path):
    results = small(methods={"PAO": ps.PAO(), "uniform": Uniform()}, generations=20).run(tmp_path)
    assert re.fullmatch(r"Uniform#[0-9a-f]{8}", results.descriptions["uniform"])
    for problem, dim in results.tasks():
        one, other = (results.trace(problem, dim, name).error for name in ("PAO", "uniform"))
        assert_array_equal(one[:, 0], other[:, 0])
        assert np.median(one[:, -1]) < np.median(other[:, -1])


def test_results_say_what_was_run(tmp_path):
    study = small(title="Two", reference="PSO", groups={"Both": ["PAO", "PSO"], "One": ["PSO"]}, seed=4)
    results = study.run(tmp_path)
    assert (results.title, results.reference, results.methods) == ("Two", "PSO", ("PAO", "PSO"))
    assert results.groups == {"Both": ("PAO", "PSO"), "One": ("PSO",)}
    assert (results.problems, results.dims) == (("sphere", "rastrigin-shifted1"), (2, 3))
    assert list(results.traces) == [Key(p, d, m) for d in (2, 3) for p in results.problems for m in ("PAO", "PSO")]
    assert "inertia=" in results.descriptions["PSO"]
    assert results.facts["Runs"].startswith("3 of each")
    assert results.facts["Budget"] == "48 evaluations per run, in populations of 8"
    assert results.facts["First population"] == "random, seed 4"
    facts = small(evaluations_per_unknown=7).run(tmp_path / "other").facts
    assert facts["Budget"] == "14 in 2-D, 21 in 3-D evaluations per run, in populations of 8"


def test_the_first_method_is_the_reference_and_all_are_one_group():
    study = small()
    assert study.reference == "PAO"
    assert study.groups == {"All methods": ("PAO", "PSO")}


def test_a_bar_counts_the_cells(tmp_path, capsys):
    small(dims=[2]).run(tmp_path, progress=True)
    said = capsys.readouterr().err
    assert "4/4" in said
    assert "PSO on rastrigin-shifted1 2-D" in said
    small(dims=[2]).run(tmp_path)
    assert capsys.readouterr() == ("", "")


# Presets


def test_the_paper_study_is_that_of_the_paper():
    study = presets.paper()
    assert (study.runs, study.population, study.generations, study.dims) == (100, 100, 100, (2, 8))
    assert study.problems == ps.problems.names
    assert [study.budget(dim) for dim in study.dims] == [10_100, 10_100]
    assert study.init == "random"
    assert list(study.groups) == [presets.PEERS, presets.PAPER, presets.LITERATURE]
    assert all(study.methods[name] == type(study.methods[name]).paper() for name in study.groups[presets.PAPER])
    rivals = study.groups[presets.LITERATURE][1:]
    assert all(study.methods[name] == type(study.methods[name])() for name in rivals)
    assert presets.paper(runs=3, dims=[2]).runs == 3


def test_the_paper_study_has_the_searches_of_today_with_the_same_budget():
    study = presets.paper()
    assert study.groups[presets.PEERS] == ("PAO", "AdaptivePAO", "SciPy DE", "CMA-ES")
    assert study.methods["AdaptivePAO"] == ps.AdaptivePAO()
    assert {cell.budget for cell in study.cells()} == {10_100}
    few = min(study.runs_of(name) for name in study.methods)
    tests = 18 * 3  # of the group
    assert 2 / 2**few * tests < 0.05 < 2 / 2 ** (few - 1) * tests  # the fewest runs that can be significant
    assert {study.runs_of(name) for name in study.groups[presets.PAPER]} == {100}
    assert {presets.paper(runs=5).runs_of(name) for name in study.methods} == {5}


# Precision, and methods with fewer runs


class Halving:
    """An adapter that halves its distance to the minimum of the bowl again and again."""

    def __call__(self, fun, bounds, *, population, seed):
        distance = 1.0
        while True:
            fun(np.full(len(bounds), 0.3 + distance))
            distance /= 2


def test_an_adapter_ends_when_the_problem_is_solved_and_all_errors_are_at_least_the_precision(tmp_path):
    fun = Counting()
    options = {"dims": [1], "runs": 1, "population": 2, "generations": 20, "methods": {"halving": Halving()}}
    study = small(problems=[own_problem(fun, half_width=2.0)], **options, precision=1e-3)
    trace = study.run(tmp_path).trace("bowl", 1, "halving")
    errors = 4.0 ** -np.arange(6)  # 4^-5 is the first below 1e-3
    assert_allclose(bowl(np.array(fun.points)[3:]), errors, rtol=1e-9)  # three points are those of the checksum
    assert_allclose(trace.error[0], [errors[1], errors[3], *[1e-3] * 19], rtol=1e-9)
    assert trace.final[0] == 1e-3
    assert "count as 0.001" in study.run(tmp_path).facts["Precision"]


def test_a_search_ends_when_the_problem_is_solved_but_swarms_in_a_batch_do_not():
    fun = Counting()
    options = {"problems": [own_problem(fun)], "dims": [2], "runs": 1, "generations": 200, "precision": 1e-3}
    cell_of(small(**options, methods={"it": ps.AdaptivePAO()})).run()
    assert bowl(np.array(fun.points)).min() <= 1e-3
    assert len(fun.points) < 201 * 8 / 4
    fun.points.clear()
    cell_of(small(**options, methods={"it": ps.PAO()})).run()
    assert len(fun.points) == 201 * 8


def test_the_precision_belongs_to_a_cell_only_if_it_changes_its_runs():
    for method, matters in ((ps.PAO(), False), (ps.AdaptivePAO(), True), (SciPyDE(), True)):
        plain, rough = (
            cell_of(small(problems=["sphere"], dims=[2], methods={"it": method}, precision=p)) for p in (0.0, 1e-3)
        )
        assert (plain.description("1") != rough.description("1")) is matters


def test_the_adaptive_search_chooses_its_own_size():
    study = small(problems=["sphere"], dims=[2], methods={"it": ps.AdaptivePAO()}, population=40, runs=1)
    (best,) = cell_of(study).run().best
    problem = ps.problems.get("sphere", 2)
    options = {"tol": 0.0, "vectorized": True, "init": "random", "maxfev": 240, "rng": seed_of(0, "sphere", 2)}
    assert ps.minimize(problem, problem.bounds, **options).fun == best[-1]
    assert ps.minimize(problem, problem.bounds, n_particles=40, **options).fun != best[-1]


def test_fewer_runs_are_the_first_runs(tmp_path):
    results = small(runs=5, fewer_runs={"PSO": 3}).run(tmp_path / "fewer")
    whole = small(runs=5).run(tmp_path / "whole")
    assert len(results.final("sphere", 2, "PAO")) == 5
    assert_array_equal(results.final("sphere", 2, "PSO"), whole.final("sphere", 2, "PSO")[:3])
    assert results.facts["Runs"].endswith("; 3 of PSO")
    assert small(runs=2, fewer_runs={"PSO": 3}).runs_of("PSO") == 2


def test_the_bbob_study_has_coco_s_budget_and_its_peers_on_request():
    pytest.importorskip("cocoex", reason="cocoex (coco-experiment) is not installed")
    study = presets.bbob()
    assert len(study.problems) == 24
    assert study.runs == 15
    assert [study.budget(dim) for dim in study.dims] == [2000, 5000, 10_000]
    assert set(presets.bbob(peers=True).methods) - set(study.methods) == {"SciPy DE", "CMA-ES"}


def test_a_bbob_study_runs_with_its_instances(tmp_path):
    pytest.importorskip("cocoex", reason="cocoex (coco-experiment) is not installed")
    study = presets.bbob([2], problems=["bbob-f1", "bbob-f15"], runs=3, evaluations_per_unknown=60)
    one, other = study.run(tmp_path / "1"), study.run(tmp_path / "2", workers=2)
    assert_same_results(one, other)
    minima = [bbob.bbob(15, 2).instance(run).minimum for run in range(3)]
    cell = next(cell for cell in study.cells() if cell.key == Key("bbob-f15", 2, "PAO"))
    assert_array_equal(cell.run().minimum, minima)


# Bad input: the message names the key, and comes before the first evaluation


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"runs": 0}, "runs must be .* got 0"),
        ({"runs": 2.5}, "runs must be .* got 2.5"),
        ({"runs": True}, "runs must be .* got True"),
        ({"population": 1}, "population must be .* got 1"),
        ({"population": "many"}, "population must be .* got 'many'"),
        ({"generations": -1}, "generations must be .* got -1"),
        ({"generations": None}, "generations must be .* got None"),
        ({"seed": -1}, "seed must be .* got -1"),
        ({"seed": 1.5}, "seed must be .* got 1.5"),
        ({"evaluations_per_unknown": 0}, "evaluations_per_unknown must be .* got 0"),
        (
            {"evaluations_per_unknown": 3},
            "evaluations_per_unknown = 3 .*2 dimensions.*population of 8",
        ),
        ({"dims": []}, r"dims must be a list.* got \[\]"),
        ({"dims": 2}, "dims must be a list.* got 2"),
        ({"dims": [0]}, "dims must be .* got 0"),
        ({"dims": [2, 2.5]}, "dims must be .* got 2.5"),
        ({"dims": [2, 3, 2]}, r"dims has an entry twice: \[2, 3, 2\]"),
        ({"dims": [2, np.int64(2)]}, "dims has an entry twice"),
        ({"problems": []}, r"problems must be a list.* got \[\]"),
        ({"problems": "sphere"}, "problems must be a list.* got 'sphere'"),
        ({"problems": ["sphere", "sphere"]}, "problems has an entry twice"),
        ({"problems": ["ackley-shifted", "ackley-shifted1"]}, r"problems: names must differ, got \['ackley-shifted1'"),
        (
            {"problems": [own_problem(), own_problem(minimum=-1.0)]},
            r"problems: names must differ, got \['bowl', 'bowl'\]",
        ),
        ({"problems": ["rosenbrock"], "dims": [1]}, "dim of rosenbrock must be .*2"),
        ({"problems": ["sphere", 5]}, "problems.*5"),
        ({"problems": [ps.problems.sphere(2)]}, "problems"),
        ({"methods": {}}, "methods must be a dict.* got {}"),
        ({"methods": [ps.PAO()]}, r"methods must be a dict.* got \[PAO"),
        ({"methods": {"": ps.PAO()}}, "methods: a name must be .*, got ''"),
        ({"methods": {1: ps.PAO()}}, "methods: a name must be .*, got 1"),
        ({"methods": {"PAO": ps.PAO}}, r"methods: 'PAO' must be a method.* got <class"),
        ({"methods": {"de": SciPyDE}}, r"methods: 'de' must be a method.* got <class"),
        ({"methods": {"it": "PAO"}}, r"methods: 'it' must be a method.* got 'PAO'"),
        (
            {"methods": {"PAO": ps.PAO(), "mine": ps.classic.DE()}, "population": 3},
            "methods: 'mine' with population = 3: DE .*4, got 3",
        ),
        ({"reference": "DE"}, r"reference must be one of the methods \['PAO', 'PSO'\], got 'DE'"),
        ({"reference": ["PAO"]}, "reference must be one of the methods"),
        ({"groups": {"few": ["PAO", "DE"]}}, "groups: 'few': 'DE' is not among the methods"),
        ({"groups": {"few": ["PSO"]}}, "groups: 'few': the reference 'PAO' is missing"),
        ({"groups": {"few": "PAO"}}, "groups: 'few'.*'PAO'"),
        ({"groups": {"few": 5}}, "groups: 'few'"),
        ({"groups": ["PAO"]}, "groups"),
        ({"init": "grid"}, "latinhypercube, sobol"),
        ({"init": 5}, "latinhypercube, sobol"),
    ],
)
def test_a_wrong_setting_is_named_with_its_value(changes, text):
    with pytest.raises((TypeError, ValueError), match=text):
        small(**changes)


def test_the_error_for_an_unknown_problem_lists_the_known_ones():
    with pytest.raises(ValueError, match="unknown problem 'rastrigen'; did you mean rastrigin") as caught:
        small(problems=["rastrigen"])
    assert all(name in str(caught.value) for name in ps.problems.names)


@pytest.mark.parametrize("made", [None, 3.0, bowl])
def test_a_function_that_makes_no_problem_is_named(made):
    def maker(dim):
        return made

    with pytest.raises(TypeError, match=r"problems: .*maker\(2\) must return a paoswarm.problems.Problem, got "):
        small(problems=[maker])


def test_the_error_names_what_a_problem_lacks():
    class Bare:
        name, bounds, minimum = "bare", np.array([[0.0, 1.0]]), 0.0

        def __init__(self, dim): ...

        def instance(self, run):
            return self

    with pytest.raises(TypeError, match=r"problems: .*Bare.* must return a paoswarm.problems.Problem"):
        small(problems=[Bare])


@pytest.mark.parametrize("workers", [0, -2, 1.5, "two"])
def test_the_number_of_workers_must_be_whole(workers, tmp_path):
    with pytest.raises(ValueError, match=r"workers must be .* got "):
        small().run(tmp_path, workers=workers)
    assert not list(tmp_path.iterdir())


def test_misspelt_options_are_refused():
    with pytest.raises(TypeError, match="generation"):
        small(generation=5)
