"""What may happen to an evaluation: exact verdicts, and the run goes on to its planned end."""

import multiprocessing
import os
import random
import signal
import threading
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial

import numpy as np
import pytest
from fault_functions import (
    FAULTS,
    KINDS,
    SMALL,
    Faulty,
    Innocent,
    Killer,
    assert_same,
    attempts_beyond_need,
    family,
    marks,
    notes_in,
    now,
    run,
    serial,
    serial_with_nan,
    value,
)

import paoswarm as ps

pytestmark = pytest.mark.skipif(multiprocessing.get_start_method() != "fork", reason="needs fork")


slow = partial(pytest.param, marks=pytest.mark.slow)


def assert_survived(fault, **settings):
    """Both marked points fail in their own way, and all else is as if they had returned NaN."""
    warned = KINDS[fault] == "raised"
    with pytest.warns(RuntimeWarning, match="fun raised an exception at 2 points") if warned else nullcontext():
        result = run(Faulty(fault, marks()), **settings)
    assert result.failure_kinds == Counter({KINDS[fault]: 2})
    assert_same(result, serial_with_nan())
    assert result.status is ps.Status.MAXITER
    assert result.success
    return result


@pytest.mark.parametrize("fault", FAULTS)
def test_own_processes_survive(fault):
    limit = 1.0 if KINDS[fault] == "timed out" else None
    result = assert_survived(fault, workers=2, timeout=limit)
    expected = {
        "raises": "raised ArithmeticError: solver diverged",
        "nan": "returned NaN",
        "type": "fun must return one real number for a point, but returned 'low' (str)",
        "sys.exit": "raised RuntimeError: fun called sys.exit(4)",
        "_exit": "died with its process 2 times: exit status 3",
        "segfault": "died with its process 2 times: SIGSEGV",
        "killed": "died with its process 2 times: SIGKILL, out of memory?",
        "hang": "timed out after 1 s",
        "grandchild": "timed out after 1 s",
    }
    assert {failure.reason for failure in result.failures} == {expected[fault]}


@pytest.mark.parametrize("fault", [slow("sys.exit"), "segfault"])
def test_one_worker_with_a_time_limit_is_a_process_as_well(fault):
    assert_survived(fault, workers=1, timeout=60)


@pytest.mark.parametrize("fault", ["raises", slow("nan"), slow("type"), "sys.exit"])
def test_threads_survive_what_is_no_crash(fault):
    assert_survived(fault, workers=partial(ThreadPoolExecutor, 2))


@pytest.mark.parametrize("fault", [slow("raises"), slow("type"), slow("sys.exit"), "_exit", slow("killed")])
def test_pools_that_can_be_replaced_survive(fault):
    assert_survived(fault, workers=partial(ProcessPoolExecutor, 2))


@pytest.mark.slow
def test_threads_with_a_time_limit_end_what_hangs():
    """A new interpreter each: one for the point that hangs, one for those after it."""
    settings = {"n_particles": 3, "maxiter": 0}
    hangs = ps.Optimizer([(-4.0, 5.0)] * 2, n_particles=3, rng=1).ask()[1, 0]
    result = run(Faulty("grandchild", [hangs]), workers=partial(ThreadPoolExecutor, 1), timeout=1.0, **settings)
    assert result.failure_kinds == {"timed out": 1}
    assert_same(result, run(Faulty("nan", [hangs]), **settings))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "fault"),
    [("threads", fault) for fault in FAULTS]
    + [(kind, fault) for kind in ("fork", "spawn", "loky") for fault in ("sys.exit", "segfault", "grandchild")],
)
def test_executors_with_a_time_limit_survive(fault, kind):
    # Time for the process to be started does not count: the limit begins when the function is there.
    assert_survived(fault, workers=factory(kind), timeout=2.0 if KINDS[fault] == "timed out" else 60)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "fault"),
    [("fork", "nan"), ("fork", "segfault")]
    + [(kind, fault) for kind in ("spawn", "loky") for fault in ("raises", "sys.exit", "_exit", "killed")],
)
def test_executors_that_can_be_replaced_survive(fault, kind):
    assert_survived(fault, workers=factory(kind))


def factory(kind):
    if kind == "threads":
        return partial(ThreadPoolExecutor, 2)
    if kind == "loky":
        return partial(pytest.importorskip("loky").get_reusable_executor, 2)
    return partial(ProcessPoolExecutor, 2, mp_context=multiprocessing.get_context(kind))


@pytest.mark.slow
def test_many_runs_survive(tmp_path):
    notes = tmp_path / "notes"
    settings = {**SMALL, "runs": 2}
    points = np.concatenate([r.position for r in (_first_swarms(settings))])
    fun = Faulty("_exit", [points[3, 0], points[11, 0]], notes)
    many = ps.minimize_many(fun, [(-4.0, 5.0)] * 2, workers=2, retries=2, **settings)
    plain = ps.minimize_many(Faulty("nan", fun.marks), [(-4.0, 5.0)] * 2, **settings)
    assert many.n_failed.tolist() == [1, 1]
    np.testing.assert_array_equal(many.history, plain.history)
    attempts = Counter(line.split()[0] for line in notes_in(notes))
    assert [attempts[float(mark).hex()] for mark in fun.marks] == [3, 3]


def _first_swarms(settings):
    many = ps.minimize_many(value, [(-4.0, 5.0)] * 2, **settings | {"maxiter": 0})
    return [many.run(r).swarm for r in range(settings["runs"])]


@pytest.mark.slow
def test_samples_survive():
    def log_likelihood(x):
        return -0.5 * float(((x - 0.2) ** 2).sum()) / 0.04

    settings = {"n_effective": 100, "n_particles": 50, "maxfev": 400, "rng": 1}
    seen = []
    plain = ps.sample(lambda x: (seen.append(x[0]), log_likelihood(x))[1], [(-1, 1)] * 2, **settings)
    bad = seen[3]
    calm = ps.sample(lambda x: np.nan if x[0] == bad else log_likelihood(x), [(-1, 1)] * 2, **settings)
    for fault, limit in (("_exit", None), ("hang", 2.0)):
        posterior = ps.sample(
            lambda x, fault=fault: FAULTS[fault]() if x[0] == bad else log_likelihood(x),
            [(-1, 1)] * 2,
            workers=2,
            timeout=limit,
            retries=0,
            **settings,
        )
        np.testing.assert_array_equal(posterior.draws, calm.draws)
        assert posterior.log_evidence == calm.log_evidence
    assert plain.n_evaluations > 0


# Attempts


@pytest.mark.parametrize("retries", [slow(0), 1, slow(3)])
def test_a_poison_point_has_its_own_attempts_and_no_more(retries, tmp_path):
    notes = tmp_path / "notes"
    assert_same(run(Faulty("_exit", marks(), notes), workers=2, retries=retries, timeout=60), serial_with_nan())
    # One point in a task: nobody else is evaluated again.
    beyond = attempts_beyond_need(notes)
    assert {mark: beyond.pop(mark, 0) for mark in marks()} == dict.fromkeys(marks(), retries)
    assert set(beyond.values()) <= {1}  # others are asked once more where nobody else is left to show that all is well
    assert len(beyond) <= 2


@pytest.mark.parametrize("retries", [slow(0), 1, slow(3)])
def test_when_a_task_of_many_points_dies_only_the_guilty_one_fails(retries, tmp_path):
    notes = tmp_path / "notes"
    result = run(Faulty("_exit", marks(), notes), workers=2, retries=retries)
    assert_same(result, serial_with_nan())
    assert [failure.x[0] for failure in result.failures] == list(marks())
    again = attempts_beyond_need(notes)
    # Of the first swarm nothing is known, and every point goes alone; later cheap points travel together: the guilty
    # one has one attempt in company before its own.
    assert [again.pop(mark, 0) for mark in marks()] == [retries, retries + 1]
    assert set(again.values()) == {1}
    assert 1 <= len(again) < SMALL["n_particles"] // 2


@pytest.mark.parametrize("retries", [0, slow(2)])
def test_a_point_that_breaks_pools_has_its_own_attempts_and_two_in_company(retries, tmp_path):
    notes = tmp_path / "notes"
    result = run(
        Faulty("_exit", marks()[:1], notes), workers=partial(ProcessPoolExecutor, 2), retries=retries, maxiter=0
    )
    assert result.failure_kinds == {"died": 1}
    assert attempts_beyond_need(notes)[marks()[0]] == 2 + retries


# Innocents


@pytest.mark.parametrize("timeout", [None, 60])
def test_a_worker_that_is_killed_from_outside_costs_nothing(tmp_path, timeout):
    seen = _points_of_the_undisturbed_run()
    innocent = Innocent(tmp_path, [seen[0], seen[3], seen[7], seen[20]])
    with Killer(innocent) as killer:
        result = run(innocent, workers=2, timeout=timeout)
    assert killer.killed == 4
    assert result.failure_kinds == {}
    assert_same(result, serial())


def test_without_retries_whoever_is_killed_has_failed(tmp_path):
    innocent = Innocent(tmp_path, marks())
    with Killer(innocent) as killer:
        result = run(innocent, workers=2, timeout=60, retries=0)
    assert killer.killed == 2
    assert result.failure_kinds == {"died": 2}
    assert_same(result, serial_with_nan())


@pytest.mark.slow
def test_retries_are_for_those_who_are_killed_several_times(tmp_path):
    innocent = Innocent(tmp_path, marks(), times=3)
    with Killer(innocent) as killer:
        assert_same(run(innocent, workers=2, timeout=60, retries=3), serial())
    assert killer.killed == 6


def test_a_pool_that_is_broken_from_outside_is_replaced(tmp_path):
    seen = _points_of_the_undisturbed_run()
    innocent = Innocent(tmp_path, [seen[1], seen[20]])
    with Killer(innocent) as killer:
        result = run(innocent, workers=partial(ProcessPoolExecutor, 2))
    assert killer.killed == 2
    assert_same(result, serial())


@pytest.mark.slow
@pytest.mark.parametrize(("timeout", "whom"), [(None, "me"), (60, "me"), (60, "parent")])
@pytest.mark.parametrize("kind", ["threads", "fork", "spawn", "loky"])
def test_executors_lose_nothing_when_workers_are_killed_from_outside(tmp_path, kind, timeout, whom):
    if kind == "threads" and (timeout, whom) != (60, "me"):
        pytest.skip("that would kill the tests")
    if kind == "fork" and any("Dask" in thread.name for thread in threading.enumerate()):
        pytest.skip("Dask has left threads in this process, and a pool that forks among threads may hang")
    seen = _points_of_the_undisturbed_run()
    innocent = Innocent(tmp_path, [seen[0], seen[3], seen[20]], whom)
    with Killer(innocent) as killer:
        result = run(innocent, workers=factory(kind), timeout=timeout)
    assert killer.killed == 3
    assert result.failure_kinds == {}
    assert_same(result, serial())


@pytest.mark.slow
def test_many_kills_at_any_moment_cost_nothing(tmp_path):
    """Not where the victim waits for it: whoever is there is shot at, every few milliseconds."""
    expected = run(n_particles=20, maxiter=40)
    ends, shots, began = threading.Event(), 0, now()

    def shoot():
        nonlocal shots
        rng = random.Random(3)
        while not ends.wait(rng.expovariate(1 / 0.05)):
            for pid in sorted(family(began))[:1]:
                os.kill(pid, signal.SIGKILL)
                shots += 1

    shooter = threading.Thread(target=shoot)
    shooter.start()
    try:
        result = run(
            lambda x: (time.sleep(0.002), float(value(x)))[1], workers=2, retries=50, n_particles=20, maxiter=40
        )
    finally:
        ends.set()
        shooter.join()
    assert shots > 10
    assert_same(result, expected)


def _points_of_the_undisturbed_run():
    seen = []
    run(lambda x: (seen.append(float(x[0])), value(x))[1])
    return seen
