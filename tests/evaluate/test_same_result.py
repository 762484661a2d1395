"""The result does not depend on the workers: the same bits with everything that `workers` may be."""

import multiprocessing
import threading
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest
from fault_functions import BOX, SMALL, assert_same, run, serial, value
from numpy.testing import assert_array_equal
from survival import executor_factory, needs_fork

import paoswarm as ps

pytestmark = needs_fork


def with_executor(make, timeout=None, **options):
    with make() as executor:
        return run(workers=ps.Workers(executor, timeout=timeout), **options)


class AtOnce:
    """An executor that has only `submit` and does not tell its number of slots."""

    def submit(self, fn, /, *args, **kwargs):
        future = Future()
        future.set_result(fn(*args, **kwargs))
        return future


@pytest.mark.parametrize("vectorized", [False, True])
@pytest.mark.parametrize(
    "workers",
    [
        2,
        3,
        partial(ThreadPoolExecutor, 2),
        lambda: ProcessPoolExecutor(2),
        ThreadPoolExecutor,
        map,
        lambda fun, points: list(map(fun, points)),
        AtOnce(),
    ],
    ids=["2", "3", "partial", "lambda", "class", "map", "map-like", "submit"],
)
def test_the_result_does_not_depend_on_workers(workers, vectorized):
    assert_same(run(workers=workers, vectorized=vectorized), serial())


@pytest.mark.parametrize("make", [partial(ThreadPoolExecutor, 3), partial(ProcessPoolExecutor, 2)])
def test_an_executor_of_the_user_is_used_and_left_open(make):
    with make() as executor:
        assert_same(run(workers=executor), serial())
        assert_same(run(workers=executor, vectorized=True), serial())
        assert executor.submit(abs, -3).result() == 3


@pytest.mark.parametrize("vectorized", [False, True])
def test_a_time_limit_for_points_changes_nothing_where_all_are_quick(vectorized):
    for workers in (1, 2):
        result = run(workers=ps.Workers(workers, timeout=60), vectorized=vectorized)
        assert_same(result, serial())
        assert result.failure_kinds == {}


def test_another_function_gives_another_result():
    """Otherwise the comparisons would prove nothing."""
    with pytest.raises(AssertionError):
        assert_same(run(lambda x: value(x) + 1e-13, workers=2), serial())


def test_what_cannot_be_pickled_is_not_pickled_with_threads_and_forked_processes():
    lock = threading.Lock()

    def fun(x):
        with lock:
            return float(value(x))

    for workers in (2, partial(ThreadPoolExecutor, 2), partial(ProcessPoolExecutor, 2)):
        assert_same(run(fun, workers=workers), serial())
    assert_same(run(fun, workers=ps.Workers(2, timeout=60)), serial())


def test_a_closure_is_sent_to_processes_that_were_there_before():
    pytest.importorskip("cloudpickle")
    shift = 0.0
    with ProcessPoolExecutor(1) as pool:
        pool.submit(abs, 1).result()  # the process starts now, before the function exists
        assert_same(run(lambda x: float(value(x)) + shift, workers=pool), serial())


def test_all_settings_together():
    settings = {"reevaluate": 0.25, "polish": False, "maxfev": 27, "maxiter": None}
    one, other = run(**settings), run(workers=2, **settings)
    assert_same(one, other)
    assert one.nfev == 27
    assert_same(run(workers=partial(ThreadPoolExecutor, 2), **settings), one)
    polished = run(polish=True)
    assert_same(run(polish=True, workers=2), polished)
    assert polished.nfev > serial().nfev


def test_many_runs_are_the_same_runs():
    settings = {**SMALL, "runs": 3}
    plain = ps.minimize_many(value, BOX, method=ps.PAO(), **settings)
    for changes in ({"workers": ps.Workers(2, timeout=60, retries=3)}, {"workers": partial(ThreadPoolExecutor, 2)}):
        many = ps.minimize_many(value, BOX, method=ps.PAO(), **settings, **changes)
        for name in ("x", "fun", "nfev", "history", "n_failed"):
            assert_array_equal(many[name], plain[name], err_msg=name)


def log_likelihood(x):
    a, b = x[..., 0] - 0.2, x[..., 1] + 0.1
    return -0.5 * (a * a + b * b) / 0.04


@pytest.mark.slow
def test_samples_are_the_same_samples():
    settings = {"n_effective": 100, "n_particles": 50, "maxfev": 400, "rng": 1, "vectorized": True}
    plain = ps.sample(log_likelihood, [(-1, 1)] * 2, **settings)
    for changes in ({"workers": ps.Workers(2, retries=0)}, {"workers": partial(ThreadPoolExecutor, 2)}):
        other = ps.sample(log_likelihood, [(-1, 1)] * 2, **settings, **changes)
        assert_array_equal(other.weighted.draws, plain.weighted.draws)
        assert_array_equal(other.weighted.log_weights, plain.weighted.log_weights)
        assert (other.log_evidence, other.n_evaluations) == (plain.log_evidence, plain.n_evaluations)


@pytest.mark.slow
def test_samples_are_the_same_samples_with_a_time_limit_for_points():
    settings = {"n_effective": 100, "n_particles": 100, "rng": 1}
    plain = ps.sample(log_likelihood, [(-1, 1)] * 2, **settings)
    other = ps.sample(log_likelihood, [(-1, 1)] * 2, workers=ps.Workers(2, timeout=60, retries=2), **settings)
    assert_array_equal(other.weighted.draws, plain.weighted.draws)
    assert other.n_evaluations == plain.n_evaluations


@pytest.mark.slow
@pytest.mark.parametrize("vectorized", [False, True])
@pytest.mark.parametrize("timeout", [None, 60])
def test_loky_gives_the_same_result(vectorized, timeout):
    loky = pytest.importorskip("loky")
    pytest.importorskip("cloudpickle")
    shift = 0.0

    def fun(x):
        return value(x) + shift

    reusable = executor_factory("loky")
    assert_same(run(fun, workers=ps.Workers(reusable, timeout=timeout), vectorized=vectorized), serial())
    assert_same(run(fun, workers=ps.Workers(reusable(), timeout=timeout), vectorized=vectorized), serial())
    loky.get_reusable_executor(2).shutdown(kill_workers=True)


@pytest.mark.slow
@pytest.mark.parametrize("vectorized", [False, True])
@pytest.mark.parametrize("timeout", [None, 60])
@pytest.mark.parametrize("kind", ["fork", "spawn", "forkserver", "threads"])
def test_pools_of_every_kind_give_the_same_result(kind, timeout, vectorized):
    make = executor_factory(kind)
    assert_same(run(workers=ps.Workers(make, timeout=timeout), vectorized=vectorized), serial())
    assert_same(with_executor(make, timeout, vectorized=vectorized), serial())


@pytest.mark.slow
def test_processes_that_are_spawned_give_the_same_result(tmp_path):
    """Where the system cannot fork, `multiprocessing` spawns the worker processes."""
    before = multiprocessing.get_start_method()
    multiprocessing.set_start_method("spawn", force=True)
    try:
        assert_same(run(workers=2), serial())
        assert_same(run(workers=ps.Workers(2, timeout=60)), serial())
        lock = threading.Lock()
        with pytest.raises(TypeError, match=r"the function cannot be sent .*'lock'"):
            run(lambda x: lock.locked() + value(x), workers=2)
    finally:
        multiprocessing.set_start_method(before, force=True)


def test_values_are_not_rounded_on_the_way():
    odd = np.nextafter(1.0, 2.0)
    assert run(lambda x: odd if x[0] > 0 else 2.0, workers=2).fun == odd
