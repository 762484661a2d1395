"""The problems of benchmarks/search.py are what they say, and its counting is right."""

from __future__ import annotations

import importlib
import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest
from scipy.optimize import minimize


@pytest.fixture
def bench(monkeypatch):
    """Import a module of the benchmarks."""
    monkeypatch.syspath_prepend(pathlib.Path(__file__).parents[1] / "benchmarks")
    return importlib.import_module


def _unit(problem):
    """The function over the unit cube, finite everywhere."""
    low, high = problem.bounds.T

    def function(u):
        x = low + np.clip(u, 0, 1) * (high - low)
        return float(np.nan_to_num(problem(x[None])[0], nan=1e30, posinf=1e30))

    return function, low, high


def _lowest(problem, rng):
    """The lowest value that chance and two local searches find: from the best chance point, and near the minimum."""
    function, low, high = _unit(problem)
    points = rng.random((300, len(low)))
    values = np.nan_to_num(problem(low + points * (high - low)), nan=1e30, posinf=1e30)
    near = np.clip((problem.minimisers[0] - low) / (high - low) + 1e-3 * rng.normal(size=len(low)), 0, 1)
    found = [values.min()]
    for start in (points[values.argmin()], near):
        end = minimize(function, start, method="L-BFGS-B", bounds=[(0, 1)] * len(low), options={"maxfun": 60})
        found.append(end.fun)
    return min(found)


def _faults(problem, rng):
    """What is wrong with the statements about a function."""
    tolerance = 1e-8 * max(1, abs(problem.minimum))
    low, high = problem.bounds.T
    places = problem.minimisers
    faults = []
    if not np.all((places >= low) & (places <= high)):
        faults.append("a minimiser is outside")
    if not np.allclose(problem(places), problem.minimum, rtol=0, atol=tolerance):
        faults.append(f"the minimum is {problem(places)}")
    if np.any(np.abs((places - low) / (high - low) - 0.5).max(axis=1) < 0.02):
        faults.append("a minimiser is at the centre")
    if _lowest(problem, rng) < problem.minimum - tolerance:
        faults.append("there is a lower value")
    return faults


def test_every_classic_function_has_its_minimum_where_it_says_and_not_at_the_centre(bench):
    classics = bench("classics").CLASSICS
    rng = np.random.default_rng(1)
    faults = {(one.name, one.dim): found for one in classics if (found := _faults(one, rng))}
    assert not faults
    assert len({one.name for one in classics}) > 150
    assert {one.dim for one in classics} >= {2, 3, 4, 5, 6, 8, 10}


def test_wrong_statements_are_noticed(bench):
    beale = next(one for one in bench("classics").CLASSICS if one.name == "beale")
    rng = np.random.default_rng(1)
    assert not _faults(beale, rng)
    assert _faults(beale._replace(minimum=-1e-3), rng) == ["the minimum is [0.]"]
    assert "there is a lower value" in _faults(beale._replace(minimum=1e-3), rng)
    assert "a minimiser is at the centre" in _faults(beale._replace(bounds=np.array([(2.0, 4.0), (0.0, 1.0)])), rng)
    assert "a minimiser is outside" in _faults(beale._replace(bounds=np.array([(-4.5, 2.0)] * 2)), rng)


def test_the_values_of_classic_functions_do_not_depend_on_their_company(bench):
    rng = np.random.default_rng(2)
    for one in bench("classics").CLASSICS:
        low, high = one.bounds.T
        x = rng.uniform(low, high, (5, one.dim))
        alone = np.concatenate([one(row[None]) for row in x])
        np.testing.assert_allclose(one(x), alone, rtol=1e-12, atol=1e-12, err_msg=one.name)


def test_the_halves_alternate_in_the_order_of_names(bench):
    classics = bench("classics")
    assert [(one.name, one.dim) for one in classics.CLASSICS] == sorted(
        (one.name, one.dim) for one in classics.CLASSICS
    )
    assert len(classics.TUNING) + len(classics.HELD_OUT) == len(classics.CLASSICS)
    assert not {id(one) for one in classics.TUNING} & {id(one) for one in classics.HELD_OUT}


def test_regressions_have_the_certified_residual_sum_of_squares(bench):
    regressions = bench("regressions")
    assert len(regressions.MODELS) == 10
    for name in regressions.MODELS:
        fit = regressions.read(name)
        assert fit(fit.certified[None])[0] == pytest.approx(fit.minimum, rel=1e-9)
        assert np.all((fit.bounds[:, 0] < fit.certified) & (fit.certified < fit.bounds[:, 1]))


def test_the_best_points_of_calibrations_are_minima(bench):
    rng = np.random.default_rng(3)
    for one in bench("calibrations").CALIBRATIONS:
        best = np.array(one.best)
        near = best * (1 + 1e-3 * rng.normal(size=(200, len(best))))
        assert one(near).min() > one.minimum
        assert np.all((one.bounds[:, 0] < best) & (best < one.bounds[:, 1]))


def test_the_solver_of_calibrations_has_order_four(bench):
    solve = bench("calibrations").solve
    errors = [abs(solve(lambda y: -y, np.ones((1, 1)), 1 / n, n, 1)[-1, 0, 0] - np.exp(-1)) for n in (8, 16)]
    assert errors[0] / errors[1] == pytest.approx(16, rel=0.1)


class _Slope:
    """f(x) = x_1, with NaN beyond 5."""

    bounds, minimum = np.array([(-1.0, 9.0)] * 2), 1.0

    def __call__(self, x):
        return np.where(x[:, 0] > 5, np.nan, x[:, 0])


def test_targets_are_counted_at_the_evaluation_that_reaches_them(bench):
    f = bench("counted").Counted(_Slope(), 10, [2.0, 1.0, 0.1])
    values = f(np.array([[4.0, 0], [6.0, 0], [2.5, 0]]))
    np.testing.assert_array_equal(values, [4, 1e30, 2.5])
    assert f.hits == [3]
    f(np.array([[1.5, 0]]))
    assert (f.hits, f.left, f.excess) == ([3, 4], 6, 0.5)
    with pytest.raises(bench("searchers").Done):
        f(np.full((7, 2), 3.0))
    assert f.evaluations == 10


def test_l_shade_stays_in_the_bounds_and_finds_the_minimum(bench):
    seen = []

    def sphere(x):
        seen.append(x.copy())
        return ((x - 0.9) ** 2).sum(axis=1)

    bench("lshade").minimise(sphere, [(-1, 1)] * 3, 6000, np.random.default_rng(4))
    x = np.concatenate(seen)
    assert np.all(np.abs(x) <= 1)
    assert ((x - 0.9) ** 2).sum(axis=1).min() < 1e-10
    assert (len(seen[0]), len(seen[-1])) == (54, 4)
    assert 6000 <= len(x) < 6004


def test_targets_of_bbob_are_counted_up_to_a_number_of_evaluations_for_each_unknown(bench):
    tables, sets = bench("search_tables"), bench("search_sets")
    case = sets.bbob_cases([2], [101], [7], [2000])[0]
    row = {"hits": [2] * 17 + [20] * 17 + [2000] * 17}  # 1, 10 and 1000 evaluations for each unknown
    runs = {200: [(case, row)], 2000: [(case, row)]}

    def share(name, mark, functions=(7,)):
        return list(tables._reached(runs, name, mark, functions).values())

    assert share("ours", 5) == pytest.approx([100 / 3])
    assert share("ours", 10) == share("L-SHADE", 200) == pytest.approx([200 / 3])
    assert share("ours", 2000) == share("L-SHADE", 2000) == [100]
    assert share("L-SHADE", 10) == []  # it was told 200, and did not hurry
    assert share("ours", 5, functions=(8,)) == []


def test_means_and_differences_have_standard_errors_over_problems(bench):
    cell = bench("search_tables")._cell
    first = {("1", 2, 101): 40, ("1", 2, 102): 60, ("2", 2, 101): 10, ("2", 2, 102): 10}  # 50 and 10
    other = {("1", 2, 101): 50, ("2", 2, 101): 12}
    assert cell(first, first) == "30.0 ± 20.0"
    assert cell(other, first) == "31.0 ± 19.0 (+6.0 ± 4.0)"  # on the instance that both have: 10 and 2
    assert cell({}, first) == "-"
    assert cell(other, {}) == "31.0 ± 19.0 (-)"


def test_the_best_is_bold_by_what_it_has_in_common_with_the_first(bench):
    compared = bench("search_tables")._compared
    first = {("1", 2, 101): 40, ("2", 2, 101): 60}
    easier = {("1", 2, 101): 36, ("2", 2, 101): 60, ("1", 2, 102): 100}  # 64, but less than the first on 101
    worse = {("1", 2, 101): 20, ("2", 2, 101): 20}
    assert compared([first, worse, easier, {}]) == ["**50.0**", "20.0", "64.0", "-", "+2.0 ± 2.0"]
    assert compared([easier, first]) == ["64.0", "**50.0**", "-2.0 ± 2.0"]
    assert compared([{}, first]) == ["-", "50.0", "-"]


def test_a_longer_run_of_bbob_serves_unless_the_search_was_told_its_budget(bench):
    sets, search = bench("search_sets"), bench("search")
    short, long = sets.bbob_cases([3], [101], [7], [200, 2000])
    known = {long.key("BiteOpt"): {"hits": [1]}, long.key("L-SHADE"): {"hits": [2]}}
    assert (short.run("BiteOpt", known), long.run("BiteOpt", known)) == ({"hits": [1]}, {"hits": [1]})
    assert (short.run("L-SHADE", known), long.run("L-SHADE", known)) == (None, {"hits": [2]})
    assert long.run("BiteOpt", {short.key("BiteOpt"): {}}) is None
    wanted = {
        name: [search.is_wanted(case, name, {200, 2000}) for case in (short, long)]
        for name in ("BiteOpt", "L-SHADE", "lq-CMA-ES")
    }
    assert wanted == {"BiteOpt": [False, True], "L-SHADE": [True, True], "lq-CMA-ES": [True, False]}


def test_runs_of_other_versions_are_dropped_whatever_their_limit_and_only_those(bench, tmp_path, monkeypatch):
    sets, search = bench("search_sets"), bench("search")
    monkeypatch.setattr(search, "version_of", lambda name: "new")
    cases = sets.bbob_cases([3], [101, 102], [7], [200, 10_000])
    rows = [(case.key(name), one) for case in cases for name, one in (("ours", "old"), ("other", "old"))]
    rows.append((sets.bbob_cases([3], [101], [7], [2000])[0].key("ours"), "new"))
    path = tmp_path / "runs.jsonl"
    path.write_text("".join(json.dumps({"key": key, "version": one}) + "\n" for key, one in rows))
    before = path.read_text().splitlines()
    search.forget(sets.bbob_cases([3], [101], [7], [200]), ["ours"], path)
    gone = {"ours|7|3|101|200", "ours|7|3|101|10000"}
    assert path.read_text().splitlines() == [
        line for (key, _), line in zip(rows, before, strict=True) if key not in gone
    ]
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", ["L-BFGS-B, restarted", "COBYQA, restarted"])
def test_local_peers_stay_in_the_bounds_start_again_and_spend_their_budget(bench, name):
    class Wells:
        """Two wells in each coordinate; the lower one is at 7."""

        bounds, minimum, seen = np.array([(-1.0, 9.0)] * 2), 0.0, np.empty((0, 2))

        def __call__(self, x):
            self.seen = np.concatenate([self.seen, x])
            return np.minimum((x - 7) ** 2, (x - 1) ** 2 + 1).sum(axis=1)

    problem = Wells()
    f = bench("counted").Counted(problem, 600, [1e-8, -1.0])
    assert bench("searchers").run(name, f, seed=1) == ""
    assert f.evaluations == len(problem.seen) == 600
    assert len(f.hits) == 1
    assert np.all((problem.seen >= -1) & (problem.seen <= 9))
    wells = [np.linalg.norm(problem.seen - [a, b], axis=1).min() < 1e-4 for a in (1, 7) for b in (1, 7)]
    assert sum(wells) > 1


def test_a_run_says_its_commit_and_the_package_of_a_peer(bench, monkeypatch):
    search = bench("search")
    assert search.version_of("COBYQA, restarted").startswith(search.version_of("L-SHADE") + ", scipy ")
    search.version_of.cache_clear()
    monkeypatch.setenv("PATH", "")  # no git
    assert search.version_of("L-SHADE").startswith("paoswarm ")


def test_tables_take_the_seeds_whose_runs_are_complete(bench, capsys):
    cases = bench("search_sets").nist_cases([1, 2])
    solved = {case.key("ours"): {"hits": [case.dim * 5], "version": "abc"} for case in cases}
    del solved[cases[-1].key("ours")]  # the second seed lacks a run
    solved[cases[0].key("ours")] |= {"hits": [], "version": "def"}
    bench("search_tables").print_tables("nist", cases, ["ours", "absent"], solved)
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1].startswith("| ours | 90.0 ± 10.0 | 0.0 (-) | 100.0 (5) |")
    assert lines[-1].endswith("| 1 | 0 | abc; def |")
    assert not any("absent" in line for line in lines)


def test_keys_of_bbob_have_no_set_in_front(bench):
    sets = bench("search_sets")
    case = sets.bbob_cases([3], [101], [7], [10_000])[0]
    assert (case.key("BiteOpt"), case.budget, case.seed) == ("BiteOpt|7|3|101|10000", 30_000, 101_007)
    paper = sets.paper_cases([4])[0]
    assert (paper.key("BiteOpt"), paper.budget, paper.seed) == ("paper:BiteOpt|sphere|8|4|10100", 10_100, 4)


def test_the_tables_of_the_pages_are_those_of_the_stored_runs(tmp_path):
    root = pathlib.Path(__file__).parents[1]
    subprocess.run([sys.executable, root / "benchmarks/search.py", "tables", "--pages", tmp_path], check=True)
    made = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert set(made) == {"bbob.inc", "classic.inc", "nist.inc", "ode.inc", "paper.inc", "searches_short.inc"}
    page = (root / "docs/how_good.md").read_text()
    for name, text in made.items():
        assert (root / "docs/how_good" / name).read_text() == text, "run `python benchmarks/search.py tables`"
        assert f"{{include}} how_good/{name}" in page
