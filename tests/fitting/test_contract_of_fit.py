"""What a fit has in common with every other run, however its points are simulated: limits, stores, failures, errors."""

import math
import pickle
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import stats
from waiting import Clock

import paoswarm as ps

T = np.linspace(0.5, 6.0, 12)
SPACE = {"height": (0, 100), "rate": ps.Real(0.01, 10, log=True), "floor": (-5, 5)}
TRUTH = {"height": 10.0, "rate": 0.7, "floor": 2.0}
NOISE = 0.1 * np.random.default_rng(0).standard_normal(12)

WAYS = {
    "alone": {},
    "three at once": {"workers": ps.Workers(ThreadPoolExecutor(3))},
    "asynchronous": {"workers": ps.Workers(ThreadPoolExecutor(3), asynchronous=True)},
    "map": {"workers": map},
}
every_way = pytest.mark.parametrize("how", [pytest.param(how, id=name) for name, how in WAYS.items()])
one_at_a_time = pytest.mark.parametrize("how", [pytest.param(WAYS[name], id=name) for name in ("alone", "map")])


def decay(p):
    return p["height"] * np.exp(-p["rate"] * T) + p["floor"]


DATA = decay(TRUTH) + NOISE


class Counted:
    """A simulator that counts its calls and keeps their values."""

    def __init__(self, simulate=decay, at_call=None):
        self.simulate, self.at_call = simulate, at_call
        self.calls, self.values = 0, []

    def __call__(self, p):
        self.calls += 1
        if self.at_call is not None:
            self.at_call(self.calls)
        answer = self.simulate(p)
        self.values.append(float(((answer - DATA) ** 2).sum()))
        return answer


def cracked(p):
    """Fails in three ways in a good part of the space."""
    if p["height"] > 70:
        raise ArithmeticError("no solution")
    if p["rate"] > 5:
        return np.full(12, math.nan)
    return decay(p)


def fit(simulate=decay, how=(), **options):
    return ps.fit(simulate, SPACE, DATA, **({"rng": 3} | dict(how) | options))


def assert_same_fit(one, other):
    for name in ("x", "fun", "nfev", "n_failed", "status"):
        assert_array_equal(one[name], other[name], err_msg=name)
    assert_array_equal(one.jacobian, other.jacobian)
    assert str(one.searches) == str(other.searches)


class TestLimits:
    @every_way
    def test_it_converges_to_the_least_squares(self, how):
        found = fit(how=how)
        assert (found.status, found.success) == (ps.results.Status.CONVERGED, True)
        exact = np.linalg.lstsq(np.column_stack([np.exp(-found.best["rate"] * T), np.ones(12)]), DATA)[1]
        assert found.fun == pytest.approx(float(exact[0]), rel=1e-6)

    @every_way
    @pytest.mark.parametrize("maxfev", [1, 7, 30])
    def test_simulations_are_counted_exactly(self, how, maxfev):
        simulate = Counted()
        found = fit(simulate, how, maxfev=maxfev)
        assert (found.nfev, simulate.calls) == (maxfev, maxfev)
        assert (found.status, found.success) == (ps.results.Status.MAXFEV, False)
        assert f"maxfev={maxfev}" in found.message
        assert found.fun == pytest.approx(min(simulate.values), rel=1e-12)

    def test_a_target_ends_the_searches(self):
        found = fit(target=5.0)
        assert (found.status, found.success) == (ps.results.Status.TARGET, True)
        assert found.fun <= 5.0
        assert "target=5.0" in found.message

    @one_at_a_time
    def test_a_time_limit_finishes_what_is_under_way(self, how, monkeypatch):
        clock = Clock(monkeypatch)
        simulate = Counted(at_call=lambda number: clock.wait(1.0))
        found = fit(simulate, how, time_limit=10.5)
        assert found.status == ps.results.Status.TIME
        assert found.nfev == simulate.calls == 11

    def test_a_store_does_not_remember_the_clock(self, monkeypatch, tmp_path):
        file = tmp_path / "fit.paoswarm"
        clock = Clock(monkeypatch)
        simulate = Counted(at_call=lambda number: clock.wait(1.0))
        fit(simulate, time_limit=10.5, store=file)
        found = fit(simulate, store=file, time_limit=1000.5)
        assert found.status == ps.results.Status.CONVERGED
        assert_same_fit(found, fit(time_limit=1000.5))


class TestCallback:
    @every_way
    def test_it_sees_the_fit_as_it_is(self, how):
        seen = []
        found = fit(how=how, callback=lambda intermediate_result: seen.append(intermediate_result) or None)
        assert [one.nfev for one in seen] == sorted({one.nfev for one in seen})
        assert (np.diff([one.fun for one in seen]) <= 0).all()
        assert seen[-1].fun == found.fun
        assert seen[-1].best == found.best

    @every_way
    def test_it_can_stop_the_fit(self, how):
        found = fit(how=how, callback=lambda x: True)
        assert (found.status, found.success) == (ps.results.Status.CALLBACK, True)
        assert found.nfev <= 4
        assert math.isfinite(found.fun)

    def test_it_changes_nothing(self):
        assert_same_fit(fit(callback=lambda x: None), fit())

    def test_its_errors_are_the_users(self):
        def fails(x):
            raise LookupError("mine")

        with pytest.raises(LookupError, match="mine"):
            fit(callback=fails)


class TestStore:
    @every_way
    def test_a_second_call_simulates_nothing_and_returns_the_same_bits(self, how, tmp_path):
        file = tmp_path / "fit.paoswarm"
        simulate = Counted()
        first = fit(simulate, how, store=file)
        before, calls = file.read_bytes(), simulate.calls
        second = fit(simulate, how, store=file)
        assert_same_fit(first, second)
        assert_array_equal(first.predictions, second.predictions)
        assert (file.read_bytes(), simulate.calls) == (before, calls)
        assert calls == first.nfev

    @one_at_a_time
    @pytest.mark.parametrize("k", [1, 5, 20])
    def test_an_interrupted_fit_loses_nothing_and_goes_on_with_the_same_bits(self, how, k, tmp_path):
        def interrupt(number):
            if number == k + 1:
                raise KeyboardInterrupt

        file = tmp_path / "fit.paoswarm"
        simulate = Counted(at_call=interrupt)
        try:
            found = fit(simulate, how, store=file)
        except KeyboardInterrupt:
            pytest.fail("the interrupt came through")
        assert found.status == ps.results.Status.INTERRUPTED
        assert found.nfev == k
        assert found.fun == pytest.approx(min(simulate.values), rel=1e-12)
        assert_same_fit(fit(simulate, how, store=file), fit(how=how))

    def test_outputs_of_failed_points_are_kept_as_failures(self, tmp_path):
        file = tmp_path / "fit.paoswarm"
        with pytest.warns(RuntimeWarning, match="raised an exception"):
            first = fit(cracked, store=file)
        with pytest.warns(RuntimeWarning, match="raised an exception"):
            again = fit(cracked, store=file)
        assert_same_fit(first, again)
        assert first.failure_kinds == again.failure_kinds

    def test_other_data_are_another_fit(self, tmp_path):
        file = tmp_path / "fit.paoswarm"
        fit(store=file, maxfev=10)
        before = file.read_bytes()
        with pytest.raises(ps.errors.OtherRun, match="sigma"):
            fit(store=file, maxfev=10, sigma=0.1)
        with pytest.raises(ps.errors.OtherRun, match="data"):
            ps.fit(decay, SPACE, DATA + 1.0, rng=3, maxfev=10, store=file)
        with pytest.raises(ps.errors.OtherRun):
            ps.minimize(lambda p: float((decay(p) ** 2).sum()), SPACE, rng=3, maxfev=10, store=file)
        assert file.read_bytes() == before


class TestFailures:
    @every_way
    def test_failures_are_counted_and_end_nothing(self, how):
        calls = Counter()

        def counted(p):
            kind = "raised" if p["height"] > 70 else "returned NaN" if p["rate"] > 5 else ""
            calls[kind] += 1
            return cracked(p)

        with pytest.warns(RuntimeWarning, match="the function raised an exception at"):
            found = fit(counted, how)
        calls.pop("")
        assert found.failure_kinds == calls
        assert found.n_failed == calls.total() > 0
        assert found.success
        assert f"{found.n_failed} of {found.nfev} evaluations failed" in found.message
        assert found.fun == pytest.approx(fit().fun, rel=1e-6)

    @every_way
    def test_a_simulator_that_always_fails_is_an_error_with_its_reason(self, how):
        with pytest.raises(ValueError, match=r"no finite value.*12 of 12 outputs are not finite"):
            fit(lambda p: np.full(12, math.nan), how)

    @every_way
    def test_a_mistake_in_the_code_is_said_after_a_few_calls(self, how):
        simulate = Counted(lambda p: undefined_name)  # noqa: F821
        with pytest.raises(ValueError, match="undefined_name") as caught:
            fit(simulate, how)
        assert simulate.calls <= 6
        if not how:
            assert isinstance(caught.value.__cause__, NameError)

    @every_way
    @pytest.mark.parametrize(
        ("answer", "said"),
        [(np.zeros(3), r"shape \(3,\), but its data have shape \(12,\)"), ("ten", "must be real numbers")],
    )
    def test_outputs_of_a_wrong_form_are_an_error_at_once(self, how, answer, said):
        with pytest.raises(TypeError, match=said):
            fit(lambda p: answer, how)


class TestResult:
    def test_it_has_the_fields_of_every_result(self):
        found = fit()
        other = ps.minimize(lambda p: float(((decay(p) - DATA) ** 2).sum()), SPACE, maxfev=60, rng=1)
        assert set(other) - set(found) == {"swarm"}
        assert isinstance(found, ps.results.Result)
        assert found.method is None
        values = found.evaluations.points[1]
        assert len(values) == found.nfev
        assert found.history.best[-1] == found.fun == np.nanmin(values)

    def test_it_survives_pickling(self):
        found = fit()
        again = pickle.loads(pickle.dumps(found))
        assert_same_fit(found, again)
        assert str(again) == str(found)

    def test_processes_simulate_as_the_same_process_would_with_as_many_at_once(self):
        threads = fit(workers=ps.Workers(ThreadPoolExecutor(2)))
        assert_same_fit(fit(workers=2), threads)


BAD = {
    "simulate": ({"simulate": 5}, TypeError, "must be callable"),
    "sigma negative": ({"sigma": -1.0}, ValueError, "above zero"),
    "sigma of another length": ({"sigma": [1.0, 2.0]}, ValueError, r"shape \(2,\)"),
    "unknown likelihood": ({"likelihood": "cauchy"}, ValueError, "choose from normal"),
    "data that no count can be": ({"likelihood": "poisson"}, ValueError, "whole numbers"),
    "x0 outside": ({"x0": {"height": 500, "rate": 1, "floor": 0}}, ValueError, "outside"),
    "no simulations": ({"maxfev": 0}, ValueError, "at least 1"),
    "no workers": ({"workers": 0}, ValueError, "at least 1"),
    "rng": ({"rng": "a"}, TypeError, "rng must be"),
    "prior of another name": ({"priors": {"hight": None}}, ValueError, "did you mean|height"),
    "prior that is none": ({"priors": {"height": 3.0}}, TypeError, "scipy.stats"),
    "time_limit": ({"time_limit": 0}, ValueError, "greater than 0"),
    "store": ({"store": 5}, TypeError, "name of a file"),
    "argument of SciPy": ({"loss": "huber"}, TypeError, "likelihood="),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_arguments_are_errors_before_anything_is_simulated(name):
    given, kind, said = BAD[name]
    simulate = Counted()
    with pytest.raises(kind, match=said):
        ps.fit(*(given.pop("simulate", simulate), SPACE, DATA), **({"rng": 1} | given))
    assert simulate.calls == 0


def test_a_sigma_is_not_estimated_from_one_datum():
    def simulate(p):
        return {"u": p["a"] * np.arange(4.0), "total": [p["a"], 1.0]}

    data, space = {"u": np.arange(4.0) + 0.1, "total": [1.0, np.nan]}, {"a": (0, 5)}
    with pytest.raises(ValueError, match=r"total has one datum, .*: give sigma=\{'total': \.\.\.\}"):
        ps.fit(simulate, space, data)
    with pytest.raises(ValueError, match="data has one datum"):
        ps.fit(lambda p: p["a"], space, 1.0, priors={"a": stats.norm(2, 1)})
    assert ps.fit(simulate, space, data, sigma={"total": 0.1}, rng=1).success
    assert ps.fit(lambda p: p["a"], space, 1.0, rng=1).success


def test_messages_say_what_to_write_instead():
    rows = np.zeros((2, 3))
    with pytest.raises(TypeError, match=r"write data=\{'u': ps\.Scaled\(\.\.\.\), 'v': ps\.Scaled\(\.\.\.\)\}"):
        ps.fit(lambda p: {}, SPACE, ps.Scaled({"u": T, "v": T}))
    with pytest.raises(ValueError, match="divide them by their own standard deviations"):
        ps.fit(lambda p: {"u": T}, SPACE, sigma={"u": 0.1})
    with pytest.raises(TypeError, match=r"not a dict with \['u'\]: write those of one point one after the other"):
        ps.fit(lambda p: {"u": T}, SPACE, {"u": T}, x0=(rows, {"u": np.zeros((2, 12))}))
    with pytest.raises(ValueError, match=r"write Normal\(0\.01, relative=0\.05\)"):
        ps.likelihoods.Normal(relative=0.05)
