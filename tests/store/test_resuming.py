"""Runs with a store: the same call again continues, with the result of a run that never stopped."""

import contextlib
import copy
import json
import logging
import multiprocessing
import time
import warnings
from functools import partial

import numpy as np
import pytest
from messages import about_the_end
from numpy.testing import assert_array_equal
from scipy import stats
from waiting import Clock, interrupted_when

import paoswarm as ps
from paoswarm.store.identity import OtherRun
from paoswarm.store.log import Reader, StoreError, decode, encode

BOUNDS = [(-5, 5)] * 3
SMALL = {"method": ps.PAO(), "n_particles": 12, "maxiter": 8, "rng": 3}


def bumpy(x):
    return float(((x - 1) ** 2).sum() - 3 * np.cos(4 * x).sum())


def failing(x):
    """Raises, returns NaN or returns text at some points, but not at the first."""
    if x[0] > 3.5:
        raise ValueError("too far")
    return float("nan") if x[1] > 3.5 else "nonsense" if x[2] > 4 else bumpy(x)


def many(x):
    return ((x - 1) ** 2).sum(axis=1) - 3 * np.cos(4 * x).sum(axis=1)


def forbidden(x):
    raise AssertionError("everything is recorded: no call is needed")


class Interrupted:
    """Counts its calls, and raises ``error`` after ``after`` of them."""

    def __init__(self, fun, after=10**9, error=KeyboardInterrupt):
        self.fun, self.after, self.error, self.calls = fun, after, error, 0

    def __call__(self, x):
        if self.calls == self.after:
            raise self.error
        self.calls += 1
        return self.fun(x)


@pytest.fixture
def store(tmp_path):
    """A store whose values are not questioned, so that every call of the function counts."""
    return ps.Store(tmp_path / "run.paoswarm", fsync="never", trust=True)


def assert_same(one, other):
    """Bit for bit."""
    assert about_the_end(one) == about_the_end(other)
    for name in ("x", "fun", "fun_error", "status", "nit", "nfev", "n_failed"):
        assert_array_equal(one.get(name), other.get(name), err_msg=name)
    for name in ("best", "mean", "spread", "nfev"):
        assert_array_equal(getattr(one.history, name), getattr(other.history, name), err_msg=name)
    assert_array_equal(one.swarm.position, other.swarm.position)
    assert [(f.x.tolist(), f.reason) for f in one.failures] == [(f.x.tolist(), f.reason) for f in other.failures]


@pytest.fixture(autouse=True)
def _expected_warnings():
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="the function raised an exception")
        yield


CALLS = {
    "plain": {},
    "failing": {"fun": failing},
    "vectorised": {"fun": many, "vectorized": True},
    "a map": {"workers": map},
    "polished": {"polish": True},
    "by evaluations": {"maxfev": 80, "maxiter": None, "polish": True},
    "noisy": {"reevaluate": 0.3},
    "scheduled": {"method": ps.PAO(damping=ps.schedules.linear(0.15, 0.25))},
    "other method": {"method": ps.classic.SADE()},
    "points": {"x0": ([[1.0, 2.0, 3.0], [0.5, 0.5, 0.5]], [7.0, np.nan])},
    "first swarm": {"init": np.linspace(-4, 4, 36).reshape(12, 3)},
    "unbounded": {"method": ps.PAO(walls="none")},
    "a generator": {"rng": np.random.default_rng(4)},
}


@pytest.mark.parametrize("name", CALLS)
def test_a_run_with_a_store_is_the_run_without_and_is_repeated_without_calls(store, name):
    options = SMALL | {"fun": bumpy} | CALLS[name]

    def run(**others):
        return ps.minimize(bounds=BOUNDS, **copy.deepcopy(options) | others)  # a generator moves on

    plain = run()
    assert_same(run(store=store), plain)
    written = store.path.read_bytes()
    assert_same(run(store=store, fun=forbidden), plain)
    assert_same(ps.resume(store, forbidden), plain)
    assert store.path.read_bytes() == written  # repeating a finished run records nothing


@pytest.mark.parametrize("after", [0, 1, 2, 5, 12, 13, 40, 107])
@pytest.mark.parametrize("name", ["failing", "polished", "noisy", "points", "by evaluations"])
def test_an_interrupted_run_goes_on_with_the_point_at_which_it_stopped(store, name, after):
    options = SMALL | {"fun": bumpy} | CALLS[name]
    plain = ps.minimize(bounds=BOUNDS, **options)
    fun = Interrupted(options["fun"], after)
    try:
        ps.minimize(bounds=BOUNDS, store=store, **{**options, "fun": fun})
    except KeyboardInterrupt:
        assert after <= 1
    rest = Interrupted(options["fun"])
    assert_same(ps.minimize(bounds=BOUNDS, store=store, **{**options, "fun": rest}), plain)
    assert fun.calls + rest.calls == plain.nfev


def test_a_vectorised_function_sees_the_batches_of_an_undisturbed_run(store):
    seen = {False: [], True: []}

    def noted(x, stop):
        seen[stop].append(x.shape)
        if stop and len(seen[True]) == 4:
            raise KeyboardInterrupt
        return many(x)

    ps.minimize(partial(noted, stop=False), BOUNDS, vectorized=True, **SMALL)
    ps.minimize(partial(noted, stop=True), BOUNDS, vectorized=True, store=store, **SMALL)
    ps.minimize(partial(noted, stop=True), BOUNDS, vectorized=True, store=store, **SMALL)
    assert seen[True][:3] + seen[True][4:] == seen[False]


def slow_first(x, flag):
    """One point, given by its first coordinate, does not end; the others are quick."""
    if x[0] == flag:
        time.sleep(1000)
    return bumpy(x)


@pytest.mark.skipif(multiprocessing.get_start_method() != "fork", reason="needs fork")
def test_workers_results_are_kept_as_they_arrive(store):
    first = ps.Optimizer(BOUNDS, n_particles=12, rng=3).ask()
    fun = partial(slow_first, flag=first[1, 0])
    with interrupted_when(lambda: store.path.exists() and store.path.read_bytes().count(b'"f"') >= 11):
        result = ps.minimize(fun, BOUNDS, workers=2, store=store, **SMALL)
    assert (result.status, result.nfev) == (ps.results.Status.INTERRUPTED, 1)  # up to the slow one
    x, _ = store.read()
    assert len(x) == 11  # all but the slow one
    rest = Interrupted(bumpy)
    assert_same(ps.minimize(rest, BOUNDS, store=store, **SMALL), ps.minimize(bumpy, BOUNDS, **SMALL))
    assert rest.calls == 12 * 9 - 11


def test_with_one_worker_more_time_means_the_same_run(store, monkeypatch):
    clock = Clock(monkeypatch)

    def slow(x):
        clock.wait(1.0)
        return bumpy(x)

    calls = 0
    plain = ps.minimize(bumpy, BOUNDS, **SMALL)
    for _ in range(20):
        fun = Interrupted(slow)
        result = ps.minimize(fun, BOUNDS, time_limit=20.5, store=store, **SMALL)
        calls += fun.calls
        if fun.calls == 0:
            break
    assert_same(result, plain)
    assert calls == plain.nfev


def test_a_drawn_seed_is_recorded_and_used_again(store):
    options = SMALL | {"rng": None}
    first = ps.minimize(bumpy, BOUNDS, store=store, **options)
    assert_same(ps.minimize(forbidden, BOUNDS, store=store, **options), first)
    assert_same(ps.resume(store, forbidden), first)


@pytest.mark.parametrize("kind", ["PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64"])
def test_generators_of_every_kind_are_recorded(store, kind):
    def fresh():
        source = np.random.Generator(getattr(np.random, kind)(7))
        source.random(3, dtype=np.float32)
        return source

    first = ps.minimize(bumpy, BOUNDS, store=store, **SMALL | {"rng": fresh()})
    assert_same(first, ps.minimize(bumpy, BOUNDS, **SMALL | {"rng": fresh()}))
    assert_same(ps.resume(store, forbidden), first)


@pytest.mark.parametrize("limits", [{"maxiter": 20}, {"maxiter": None, "maxfev": 150}, {"maxiter": 3}, {"tol": 0.3}])
def test_other_limits_continue_a_run_without_schedules(store, limits):
    ps.minimize(bumpy, BOUNDS, store=store, **SMALL)
    rest = Interrupted(bumpy)
    result = ps.resume(store, rest, **limits)
    assert_same(result, ps.minimize(bumpy, BOUNDS, **SMALL | limits))
    assert rest.calls == max(0, result.nfev - 12 * 9)
    assert_same(ps.resume(store, forbidden), result) if rest.calls else None  # the file knows the new limits


def test_other_limits_are_another_run_where_schedules_depend_on_them(store):
    method = ps.PAO(damping=ps.schedules.linear(0.15, 0.25))
    ps.minimize(bumpy, BOUNDS, store=store, **SMALL | {"method": method})
    evaluations = store.read()[0]
    with pytest.raises(OtherRun, match=r"maxiter was 8 and is now 9.*schedules"):
        ps.resume(store, forbidden, maxiter=9)
    assert_array_equal(store.read()[0], evaluations)
    assert ps.resume(store, forbidden).nit == 8


OTHERS = {
    "bounds": {"bounds": [(-5, 5), (-5, 5), (-5, 6)]},
    "bounds ": {"bounds": [(-5, 5)] * 2},
    "method.damping": {"method": ps.PAO(damping=0.3)},
    "method": {"method": ps.classic.PSO()},
    "n_particles": {"n_particles": 13},
    "rng": {"rng": 4},
    "x0": {"x0": [1.0, 1.0, 1.0]},
    "init": {"init": "sobol"},
    "reevaluate": {"reevaluate": 0.1},
}


@pytest.mark.parametrize("name", OTHERS)
def test_a_store_of_another_problem_is_refused_by_name(store, name):
    ps.minimize(bumpy, BOUNDS, store=store, **SMALL)
    written = store.path.read_bytes()
    with pytest.raises(OtherRun, match=f"run with {name.strip()} = .* {name.strip()} = "):
        ps.minimize(forbidden, **{"bounds": BOUNDS, "store": store, **SMALL} | OTHERS[name])
    assert store.path.read_bytes() == written


def test_minimize_refuses_the_store_of_sample(store):
    ps.sample(lambda x: -abs(x).sum(), [(-9, 9)] * 2, n_effective=100, n_particles=200, maxfev=900, rng=1, store=store)
    with pytest.raises(OtherRun, match="a run of sample, not of minimize"):
        ps.minimize(forbidden, BOUNDS, store=store)


def test_bad_input_leaves_no_file(store):
    with pytest.raises(ValueError, match="maxfev"):
        ps.minimize(bumpy, BOUNDS, maxfev=3, store=store)
    with pytest.raises(ValueError, match="bounds"):
        ps.minimize(bumpy, [(1, 0)], store=store)
    with pytest.raises(ValueError, match="workers must be"):
        ps.minimize(bumpy, BOUNDS, workers=0, store=store)
    assert not store.path.exists()


def test_a_method_with_a_function_of_the_user_must_be_passed_again(store):
    method = ps.PAO(dt=lambda progress: 1.0 + progress)
    first = ps.minimize(bumpy, BOUNDS, store=store, **SMALL | {"method": method})
    with pytest.raises(TypeError, match=r"method cannot be rebuilt .*resume\(..., method=...\)"):
        ps.resume(store, forbidden)
    assert_same(ps.resume(store, forbidden, method=method), first)


def test_a_swarm_to_start_from_must_be_passed_again(store):
    start = ps.minimize(bumpy, BOUNDS, **SMALL)
    first = ps.minimize(bumpy, BOUNDS, init=start.swarm, store=store, **SMALL)
    with pytest.raises(TypeError, match="init cannot be rebuilt"):
        ps.resume(store, forbidden)
    assert_same(ps.resume(store, forbidden, init=start), first)
    with pytest.raises(OtherRun, match=r"init\.swarm"):
        ps.resume(store, forbidden, init=first)


def test_callbacks_see_only_generations_that_are_new(store):
    def stop_at_four(intermediate_result):
        seen.append(intermediate_result.nit)
        return intermediate_result.nit == 4

    seen = []
    options = SMALL | {"polish": True, "callback": stop_at_four, "store": store}
    assert ps.minimize(bumpy, BOUNDS, **options).status == ps.results.Status.CALLBACK
    assert seen == [0, 1, 2, 3, 4]
    result = ps.minimize(bumpy, BOUNDS, **options)
    assert seen == [0, 1, 2, 3, 4, 5, 6, 7, 8]
    assert_same(result, ps.minimize(bumpy, BOUNDS, polish=True, **SMALL))


def test_the_error_for_a_first_swarm_that_fails_altogether_names_the_store(store):
    for fun in (lambda x: 1 / 0, forbidden):
        with pytest.raises(ValueError, match=r"ZeroDivisionError.*run\.paoswarm"):
            ps.minimize(fun, BOUNDS, store=store, **SMALL)


@pytest.mark.parametrize("recorded", [0, 20])
def test_a_function_that_returns_the_wrong_form_adds_nothing_to_a_store(store, recorded):
    if recorded:
        ps.minimize(Interrupted(bumpy, recorded), BOUNDS, store=store, **SMALL)
    for wrong in ({"fun": lambda x: x}, {"fun": lambda x: x, "vectorized": True}):
        with pytest.raises(TypeError, match="must return"):
            ps.minimize(bounds=BOUNDS, store=store, **SMALL, **wrong)
        assert len(store.read()[1]) == recorded
    assert_same(ps.minimize(bumpy, BOUNDS, store=store, **SMALL), ps.minimize(bumpy, BOUNDS, **SMALL))


def test_sample_continues_and_ends_with_the_same_bits(store):
    prior = {"level": stats.norm(0, 2), "phase": ps.Periodic(0, 6)}
    options = {"n_effective": 100, "n_particles": 100, "maxfev": 1000, "rng": 1, "vectorized": True}

    def log_likelihood(x):
        return -0.5 * ((x - [1, 2]) ** 2 / [0.04, 0.09]).sum(axis=1)

    plain = ps.sample(log_likelihood, prior, **options)
    calls = 0
    for after in (3, 10**6):
        fun = Interrupted(log_likelihood, after)
        with contextlib.suppress(KeyboardInterrupt):
            posterior = ps.sample(fun, prior, store=store, **options)
        calls += fun.calls
    again = ps.resume(store, forbidden)
    for one in (posterior, again):
        for name in ("draws", "log_evidence", "log_evidence_error", "n_evaluations"):
            assert_array_equal(getattr(one, name), getattr(plain, name), err_msg=name)
        assert_array_equal(one.weighted.log_weights, plain.weighted.log_weights)
    assert len(store.read()[1]) == plain.n_evaluations
    assert calls < 10**4


def test_logging_tells_of_start_resumption_failures_and_end(store, caplog):
    caplog.set_level(logging.INFO, "paoswarm")
    ps.minimize(Interrupted(failing, 60), BOUNDS, store=store, **SMALL)
    result = ps.minimize(failing, BOUNDS, store=store, **SMALL)
    text = caplog.text
    assert "new run of minimize" in text
    assert "60 evaluations" in text
    assert "raised ValueError: too far" in text
    assert about_the_end(result) in text
    failed = sum(record.levelno == logging.WARNING for record in caplog.records)
    assert failed == ps.minimize(failing, BOUNDS, **SMALL).n_failed


def test_nothing_is_printed(store, capfd):
    ps.minimize(failing, BOUNDS, store=store, **SMALL)
    assert capfd.readouterr() == ("", "")


def test_another_version_is_named_where_points_differ(store):
    ps.minimize(bumpy, BOUNDS, store=store, **SMALL)
    lines = store.path.read_bytes().splitlines(keepends=True)
    header, point = decode(lines[0]), decode(lines[7])
    header["versions"]["numpy"] = "1.0"
    point["x"][0][0] = np.nextafter(point["x"][0][0], 9.0)
    lines[0], lines[7] = encode(header), encode(point)
    store.path.write_bytes(b"".join(lines))
    with pytest.raises(OtherRun, match=r"evaluation 5 was at x = .*numpy 1\.0") as error:
        ps.minimize(forbidden, BOUNDS, store=store, **SMALL)
    # What the message recommends: a new run begins with the best of what is known.
    assert f"x, f = Store({str(store.path)!r}).read()" in str(error.value)
    assert "x0=(x[f < inf], f[f < inf])" in str(error.value)
    x, f = store.read()
    f[::2] = np.nan  # as if these had failed
    again = ps.minimize(forbidden, BOUNDS, x0=(x[f < np.inf], f[f < np.inf]), **(SMALL | {"maxiter": 0}))
    assert again.nfev == 0
    assert again.fun == np.nanmin(f)


def test_a_run_that_stops_with_an_error_says_so_in_its_file(store):
    def stop(x):
        raise RuntimeError("the callback broke")

    with pytest.raises(RuntimeError, match="broke"):
        ps.minimize(bumpy, BOUNDS, callback=stop, store=store, **SMALL)
    end = list(Reader(store.path).records())[-1]["end"]
    assert (end["status"], end["message"], end["final"]) == ("ERROR", "RuntimeError: the callback broke", False)
    assert json.dumps(end)
    assert issubclass(OtherRun, StoreError)
