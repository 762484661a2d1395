"""The problems of benchmarks/search.py are what they say, and its counting is right."""

from __future__ import annotations

import importlib
import pathlib

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


def test_bbob_is_scored_at_smaller_budgets_from_the_same_run(bench):
    score = bench("search_tables")._score
    at_once = {"hits": [2] * 51}  # one evaluation for each of two unknowns
    assert score([at_once], 2, 100) == "100.0 / 100.0"
    late = {"hits": [2] * 17 + [20] * 17 + [2000] * 17}  # 1, 10 and 1000 evaluations for each unknown
    assert score([late], 2, 100) == "66.7 / 50.0"  # a third at once, a third halfway
    assert score([late], 2, 10_000) == "100.0 / 66.7"  # (1 + 3/4 + 1/4) / 3


def test_tables_take_the_seeds_whose_runs_are_complete(bench, capsys):
    cases = bench("search_sets").nist_cases([1, 2])
    solved = {case.key("ours"): {"hits": [case.dim * 5]} for case in cases}
    del solved[cases[-1].key("ours")]  # the second seed lacks a run
    solved[cases[0].key("ours")]["hits"] = []
    bench("search_tables").print_tables("nist", cases, ["ours", "absent"], solved)
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1].startswith("| ours | 90.0 | 0.0 (-) | 100.0 (5) |")
    assert lines[-1].endswith("| 1 | 0 |")
    assert not any("absent" in line for line in lines)


def test_keys_of_bbob_have_no_set_in_front(bench):
    sets = bench("search_sets")
    case = sets.bbob_cases([3], [101], [7], 10_000)[0]
    assert (case.key("BiteOpt"), case.budget, case.seed) == ("BiteOpt|7|3|101|10000", 30_000, 101_007)
    paper = sets.paper_cases([4])[0]
    assert (paper.key("BiteOpt"), paper.budget, paper.seed) == ("paper:BiteOpt|sphere|8|4|10100", 10_100, 4)
