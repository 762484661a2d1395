"""Where all variables are discrete, no run evaluates a point twice, however it is driven, and stores repeat it."""

import math
from collections import Counter
from contextlib import suppress

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import paoswarm as ps
from paoswarm.evaluate.queue import KnownPoints
from paoswarm.store.watch import GrowingStore

SPACE = {name: ps.Integer(12, 60) for name in "abcd"}
SMALL = {"a": ps.Integer(12, 14), "b": ps.Choice([12, 13, 16]), "c": 40, "d": 53}
TEETH = {"a": ps.Integer(12, 30), "b": ps.Integer(12, 24), "c": ps.Choice([40, 43, 49]), "d": 53}
METHODS = [ps.PAO(), ps.MixedPAO(), ps.classic.DE()]


class Gears:
    """The gear train; it notes its calls and may stop the run after some of them."""

    def __init__(self, most=math.inf):
        self.calls, self._most = [], most

    def __call__(self, p):
        if len(self.calls) >= self._most:
            raise KeyboardInterrupt
        self.calls.append(tuple(p.values()))
        return (1 / 6.931 - p["a"] * p["b"] / (p["c"] * p["d"])) ** 2


def name_of(method):
    return type(method).__name__


@pytest.mark.parametrize("method", METHODS, ids=name_of)
def test_an_asynchronous_run_evaluates_no_point_twice(method):
    fun = Gears()
    result = ps.minimize(fun, SPACE, method=method, workers=ps.Workers(asynchronous=True), maxfev=600, rng=1)
    assert len(fun.calls) == len(set(fun.calls)) == result.nfev <= 600
    assert result.n_recalled > 0
    complete = ps.minimize(
        Gears(), SMALL, method=method, workers=ps.Workers(asynchronous=True), tol=0, maxfev=10_000, rng=1
    )
    assert (complete.nfev, complete.message) == (9, "Converged: every point of the space was evaluated.")


@pytest.mark.parametrize("method", [ps.MixedPAO(), ps.classic.SADE()], ids=name_of)
def test_by_generations_a_run_with_one_asynchronous_worker_is_the_same_as_any_other(method):
    assert not method.moves_singly
    how = {"method": method, "maxfev": 300, "rng": 2}
    plain, other = (
        ps.minimize(Gears(), SPACE, **how),
        ps.minimize(Gears(), SPACE, workers=ps.Workers(asynchronous=True), **how),
    )
    assert_array_equal(other.x, plain.x)
    assert (other.fun, other.nfev, other.n_recalled) == (plain.fun, plain.nfev, plain.n_recalled)


def test_a_limit_of_generations_counts_recalled_points():
    """Nine points, so nearly all evaluations are recalled; the run still ends after its generations."""
    result = ps.minimize(
        Gears(), SMALL, method=ps.PAO(), n_particles=6, workers=ps.Workers(asynchronous=True), maxiter=1, tol=0, rng=1
    )
    assert result.nit == 1
    assert result.nfev + result.n_recalled == 12


@pytest.mark.parametrize("method", METHODS, ids=name_of)
def test_each_of_many_runs_recalls_its_own_points_and_is_the_run_alone(method):
    fun = Gears()
    many = ps.minimize_many(fun, SPACE, method=method, runs=3, maxfev=300, rng=1)
    assert (many.n_recalled > 0).all()
    assert len(fun.calls) == many.nfev.sum()
    for r in range(3):
        own = Gears()
        alone = ps.minimize(own, SPACE, method=many.method, maxfev=300, rng=many.seeds[r])
        assert len(set(own.calls)) == len(own.calls) == many.nfev[r] == alone.nfev
        assert many.run(r).n_recalled == alone.n_recalled
        assert_array_equal(many.x[r], alone.x)
        assert many.message[r] == alone.message
    complete = ps.minimize_many(Gears(), SMALL, runs=2, tol=0, maxfev=10_000, rng=1)
    assert complete.nfev.tolist() == [9, 9]
    assert set(complete.message) == {"Converged: every point of the space was evaluated."}


@pytest.mark.parametrize("drive", ["many", "one by one", "asynchronous"])
@pytest.mark.parametrize("method", [ps.PAO(), ps.MixedPAO()], ids=name_of)
def test_a_resumed_run_has_the_same_bits_and_calls_nothing_twice(drive, method, tmp_path):
    how = {"method": method, "maxfev": 250, "rng": 1}
    solve = ps.minimize_many if drive == "many" else ps.minimize
    how |= {"runs": 3} if drive == "many" else {"workers": ps.Workers(asynchronous=drive == "asynchronous")}
    expected = solve(Gears(), SPACE, **how)
    store, calls = ps.Store(tmp_path / "run.paoswarm", fsync="never", trust=True), []
    for most in (60, 101, math.inf):
        fun = Gears(most)
        with suppress(KeyboardInterrupt):  # it may come before anything is known
            result = solve(fun, SPACE, store=store, **how)
        calls += fun.calls
    assert_array_equal(result.x, expected.x)
    assert_array_equal(result.fun, expected.fun)
    assert_array_equal(result.nfev, expected.nfev)
    assert_array_equal(result.n_recalled, expected.n_recalled)
    assert len(calls) == np.sum(expected.nfev)
    silent = Gears(0)
    again = solve(silent, SPACE, store=store, **how)
    assert silent.calls == []
    assert_array_equal(again.x, expected.x)


@pytest.mark.parametrize("drive", ["many", "one by one", "asynchronous"])
@pytest.mark.parametrize("method", METHODS, ids=name_of)
def test_resumed_with_a_larger_limit_a_run_is_as_if_it_had_been_given_that_from_the_start(drive, method, tmp_path):
    how = {"method": method, "n_particles": 12, "maxiter": None, "rng": 1}
    solve = ps.minimize_many if drive == "many" else ps.minimize
    how |= {"runs": 2} if drive == "many" else {"workers": ps.Workers(asynchronous=drive == "asynchronous")}
    expected = solve(Gears(), TEETH, maxfev=150, **how)
    store, calls = ps.Store(tmp_path / "run.paoswarm", fsync="never", trust=True), []
    for maxfev in (43, 80, 81, 150):
        fun = Gears()
        result = solve(fun, TEETH, store=store, maxfev=maxfev, **how)
        calls += fun.calls
        assert np.sum(result.nfev) == len(calls)
        assert (np.asarray(result.nfev) <= maxfev).all()
    for name in ("x", "fun", "nfev", "nit", "n_recalled", "status"):
        assert_array_equal(result[name], expected[name], err_msg=name)
    if drive != "many":
        assert_array_equal(result.swarm.position, expected.swarm.position)
        assert_array_equal(result.history.best, expected.history.best)
    assert np.sum(result.n_recalled) > 0
    with pytest.raises(ps.errors.OtherRun):  # negative control: another run is noticed
        solve(Gears(), TEETH, store=store, maxfev=160, **(how | {"rng": 2}))


def test_a_run_uses_its_limit_to_the_last_evaluation_and_ends_with_it():
    """Wherever that is in a generation: recalled points neither cost evaluations nor cut a generation."""
    longer = Gears()
    how = {"method": ps.PAO(), "n_particles": 12, "tol": 0, "maxiter": None, "rng": 1}
    ps.minimize(longer, TEETH, maxfev=80, **how)
    for maxfev in range(40, 64):
        fun = Gears()
        result = ps.minimize(fun, TEETH, maxfev=maxfev, **how)
        assert result.nfev == maxfev
        assert result.status == 4
        assert fun.calls == longer.calls[:maxfev]


def test_a_run_that_depended_on_which_worker_was_quickest_is_repeated(tmp_path):
    how = {"method": ps.PAO(), "n_particles": 8, "maxfev": 120, "workers": ps.Workers(2, asynchronous=True), "rng": 1}
    store = ps.Store(tmp_path / "run.paoswarm", fsync="never", trust=True)
    first = ps.minimize(Gears(), {**SPACE, "c": 40, "d": 53}, store=store, **how)
    again = ps.minimize(Gears(0), {**SPACE, "c": 40, "d": 53}, store=store, **how)
    assert_array_equal(again.swarm.position, first.swarm.position)
    assert_array_equal(again.history.best, first.history.best)
    assert (again.nfev, again.n_recalled) == (first.nfev, first.n_recalled)
    assert first.n_recalled > 0
    seen = GrowingStore(store.path)
    seen.update()
    sent = seen.asked[seen.asked >= 0]
    under_way = sent - np.arange(len(sent))
    assert 1 <= under_way.min() <= under_way.max() <= 2  # two workers, whatever was recalled


def test_with_constraints_points_are_recalled_too():
    fun = Gears()
    how = {"constraints": lambda p: p["a"] - p["b"], "maxfev": 200, "rng": 1}
    many = ps.minimize_many(fun, SPACE, runs=2, **how)
    alone = ps.minimize(Gears(), SPACE, method=many.method, **(how | {"rng": many.seeds[1]}))
    assert_array_equal(many.x[1], alone.x)
    assert (many.nfev[1], many.n_recalled[1]) == (alone.nfev, alone.n_recalled)
    assert many.feasible.all()
    later = ps.minimize(Gears(), SPACE, workers=ps.Workers(asynchronous=True), **how)
    assert later.feasible
    assert later.best["a"] <= later.best["b"]


@pytest.mark.filterwarnings("ignore:the function raised an exception")
@pytest.mark.parametrize("drive", ["alone", "many", "asynchronous"])
def test_a_point_that_always_fails_is_evaluated_three_times(drive):
    """Every evaluation that failed is counted once, also where a generation has the point several times."""
    calls = Counter()

    def half(p):
        calls[p["k"]] += 1
        if p["k"] > 2:
            raise ValueError("too large")
        return float(p["k"])

    space, how = {"k": ps.Integer(0, 5)}, {"rng": 1}
    if drive == "many":
        result = ps.minimize_many(half, space, runs=1, **how).run(0)
    elif drive == "alone":
        result = ps.minimize(half, space, **how)
    else:
        result = ps.minimize(half, space, method=ps.PAO(), workers=ps.Workers(asynchronous=True), tol=0, **how)
    n_failed = sum(calls[k] for k in (3, 4, 5))
    assert (result.nfev, result.n_failed, result.failure_kinds["raised"]) == (3 + n_failed, n_failed, n_failed)
    assert max(calls.values()) <= 3
    assert max(calls[k] for k in (0, 1, 2)) == 1
    assert f"{n_failed} of {3 + n_failed} evaluations failed ({n_failed} raised)." in result.message
    if drive != "asynchronous":
        assert n_failed == 9
        assert result.message.startswith("Converged: every point of the space was evaluated.")


def test_a_point_that_failed_for_another_reason_is_evaluated_again():
    failed = set()

    def flaky(p):
        if p["k"] > 2 and p["k"] not in failed:
            failed.add(p["k"])
            return math.nan
        return float(-p["k"])

    result = ps.minimize(flaky, {"k": ps.Integer(0, 5)}, rng=1, tol=0)
    assert (result.best["k"], result.n_failed, result.nfev) == (5, 3, 9)


def test_failed_points_are_not_kept():
    known = KnownPoints(10)
    rows = np.array([[1.0], [2.0], [1.0]])
    asked = known.recall(rows)
    assert asked.new == [0, 1]
    assert_array_equal(known.values(asked, np.array([np.nan, 5.0])), [np.nan, 5.0, np.nan])
    assert known.n_recalled == 1
    assert known.recall(rows).new == [0]
    limited = known.recall(np.array([[2.0], [3.0], [2.0], [4.0], [2.0]]), most=1)
    assert (len(limited.keys), limited.new) == (2, [1])  # the run ends with that row
    cut = known.recall(np.array([[2.0], [3.0], [2.0]]))
    assert_array_equal(known.values(cut, np.empty(0)), [5.0])  # time was up: nothing after the gap
    assert known.n_recalled == 1


def entry(p):
    return (p["entry"] - 30) ** 2 + p.get("x", 0.0)


@pytest.mark.parametrize("maxfev", [7, 60, 400])
@pytest.mark.parametrize("more", [{}, {"x": (0.0, 1.0)}], ids=["entries", "with a number"])
def test_a_budget_below_six_points_for_each_entry_is_enough(maxfev, more):
    found = ps.minimize(entry, {"entry": ps.Choice(list(range(100)))} | more, maxfev=maxfev, rng=1)
    assert found.nfev == (maxfev if more else min(maxfev, 100))
    assert found.nit > 0 or not more
