"""Every fault of an evaluation is reported with the right kind, and the run goes on to its planned end."""

import os
import random
import signal
import threading
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest
from fault_functions import (
    FAULTS,
    KINDS,
    OTHER_FAULTS,
    SMALL,
    Faulty,
    Killer,
    WaitsToBeKilled,
    assert_same,
    child_processes,
    clock_ticks,
    extra_attempts,
    fault_points,
    notes_in,
    run,
    serial,
    serial_with_nan,
    undisturbed_points,
    value,
)
from survival import assert_survives, executor_factory, needs_fork, slow

import paoswarm as ps

pytestmark = needs_fork


@pytest.mark.parametrize("fault", FAULTS)
def test_own_processes_survive(fault):
    limit = 1.0 if KINDS[fault] == "timed out" else None
    result = assert_survives(fault, workers=ps.Workers(2, timeout=limit))
    details = {
        "raises": ["raised", "ArithmeticError: solver diverged"],
        "returns_nan": ["returned NaN"],
        "returns_text": ["one real number", "'low' (str)"],
        "calls_sys_exit": ["raised", "sys.exit(4)"],
        "calls_os_exit": ["died", "2 times", "exit status 3"],
        "segfaults": ["died", "2 times", "SIGSEGV"],
        "kills_itself": ["died", "2 times", "SIGKILL, out of memory?"],
        "hangs": ["timed out", "1 s"],
        "starts_program_that_hangs": ["timed out", "1 s"],
        "leaves_a_process_behind_and_kills_itself": ["died", "2 times", "SIGKILL"],
        "raises_what_cannot_be_shown": ["raised", "Unspeakable", "cannot be shown"],
        "returns_what_cannot_be_shown": ["one real number", "cannot be shown", "Unspeakable"],
    }
    (reason,) = {failure.reason for failure in result.failures}
    assert all(detail in reason for detail in details[fault])


QUICK = ("raises_a_long_text", "closes_all_files", "writes_to_all_files", "returns_twice")


@pytest.mark.parametrize("fault", [fault if fault in QUICK else slow(fault) for fault in OTHER_FAULTS])
def test_own_processes_survive_other_faults(fault):
    result = assert_survives(fault, workers=ps.Workers(2, timeout=2.0 if KINDS[fault] == "timed out" else None))
    assert all(len(failure.reason) < 2000 for failure in result.failures)


def test_processes_that_are_left_behind_are_noticed_on_systems_that_do_not_tell(monkeypatch):
    def refuse(pid):
        raise OSError("not supported")

    monkeypatch.setattr(os, "pidfd_open", refuse, raising=False)
    monkeypatch.setattr("paoswarm.evaluate.engines.POLL_SECONDS", 0.02)
    assert_survives("leaves_a_process_behind_and_kills_itself", workers=2)


@pytest.mark.parametrize("fault", [slow("calls_sys_exit"), "segfaults"])
def test_one_worker_with_a_time_limit_is_a_process_too(fault):
    assert_survives(fault, workers=ps.Workers(timeout=60))


@pytest.mark.parametrize("fault", ["raises", slow("returns_nan"), slow("returns_text"), "calls_sys_exit"])
def test_threads_survive_faults_that_are_no_crash(fault):
    assert_survives(fault, workers=partial(ThreadPoolExecutor, 2))


@pytest.mark.parametrize(
    "fault", [slow("raises"), slow("returns_text"), slow("calls_sys_exit"), "calls_os_exit", slow("kills_itself")]
)
def test_process_pools_that_can_be_replaced_survive(fault):
    assert_survives(fault, workers=partial(ProcessPoolExecutor, 2))


@pytest.mark.slow
def test_threads_with_a_time_limit_end_what_hangs():
    """Two interpreters are started: one until the point that hangs, one for the points after it."""
    settings = {"n_particles": 3, "maxiter": 0}
    hangs = ps.Optimizer([(-4.0, 5.0)] * 2, method=ps.PAO(), n_particles=3, rng=1).ask()[1, 0]
    result = run(
        Faulty("starts_program_that_hangs", [hangs]),
        workers=ps.Workers(partial(ThreadPoolExecutor, 1), timeout=1.0),
        **settings,
    )
    assert result.failure_kinds == {"timed out": 1}
    assert_same(result, run(Faulty("returns_nan", [hangs]), **settings))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "fault"),
    [("threads", fault) for fault in FAULTS if fault != "kills_itself"]  # that is in test_contract_of_workers.py
    + [
        (kind, fault)
        for kind in ("fork", "spawn", "loky")
        for fault in ("calls_sys_exit", "segfaults", "starts_program_that_hangs")
    ],
)
def test_executors_with_a_time_limit_survive(fault, kind):
    # Starting the process does not count: the limit starts when the function is loaded.
    assert_survives(
        fault, workers=ps.Workers(executor_factory(kind), timeout=2.0 if KINDS[fault] == "timed out" else 60)
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "fault"),
    [("fork", "returns_nan"), ("fork", "segfaults")]
    + [
        (kind, fault)
        for kind in ("spawn", "loky")
        for fault in ("raises", "calls_sys_exit", "calls_os_exit", "kills_itself")
    ],
)
def test_executors_that_can_be_replaced_survive(fault, kind):
    assert_survives(fault, workers=executor_factory(kind))


@pytest.mark.slow
def test_many_runs_survive(tmp_path):
    notes = tmp_path / "notes"
    settings = {**SMALL, "runs": 2}
    points = np.concatenate([r.position for r in (_first_swarms(settings))])
    fun = Faulty("calls_os_exit", [points[3, 0], points[11, 0]], notes)
    many = ps.minimize_many(fun, [(-4.0, 5.0)] * 2, method=ps.PAO(), workers=ps.Workers(2, retries=2), **settings)
    plain = ps.minimize_many(Faulty("returns_nan", fun.points), [(-4.0, 5.0)] * 2, method=ps.PAO(), **settings)
    assert many.n_failed.tolist() == [1, 1]
    np.testing.assert_array_equal(many.history, plain.history)
    attempts = Counter(line.split()[0] for line in notes_in(notes))
    assert [attempts[float(point).hex()] for point in fun.points] == [3, 3]


def _first_swarms(settings):
    many = ps.minimize_many(value, [(-4.0, 5.0)] * 2, method=ps.PAO(), **settings | {"maxiter": 0})
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
    for fault, limit in (("calls_os_exit", None), ("hangs", 2.0)):
        posterior = ps.sample(
            lambda x, fault=fault: FAULTS[fault]() if x[0] == bad else log_likelihood(x),
            [(-1, 1)] * 2,
            workers=ps.Workers(2, timeout=limit, retries=0),
            **settings,
        )
        np.testing.assert_array_equal(posterior.weighted.draws, calm.weighted.draws)
        assert posterior.log_evidence == calm.log_evidence
    assert plain.n_evaluations > 0


# Attempts


@pytest.mark.parametrize("retries", [slow(0), 1, slow(3)])
def test_a_point_that_kills_its_worker_is_tried_as_often_as_allowed(retries, tmp_path):
    notes = tmp_path / "notes"
    assert_same(
        run(Faulty("calls_os_exit", fault_points(), notes), workers=ps.Workers(2, retries=retries, timeout=60)),
        serial_with_nan(),
    )
    # Each task holds one point, so no other point is lost with it.
    extra = extra_attempts(notes)
    assert {point: extra.pop(point, 0) for point in fault_points()} == dict.fromkeys(fault_points(), retries)
    assert set(extra.values()) <= {1}  # points that were evaluated again to test the workers
    assert len(extra) <= 2


@pytest.mark.parametrize("retries", [slow(0), 1, slow(3)])
def test_when_a_task_of_many_points_dies_only_the_guilty_one_fails(retries, tmp_path):
    notes = tmp_path / "notes"
    result = run(Faulty("calls_os_exit", fault_points(), notes), workers=ps.Workers(2, retries=retries))
    assert_same(result, serial_with_nan())
    assert [failure.x[0] for failure in result.failures] == list(fault_points())
    extra = extra_attempts(notes)
    # In the first swarm every task holds one point. Later, cheap points travel together: the guilty one has one attempt
    # in company before its own.
    assert [extra.pop(point, 0) for point in fault_points()] == [retries, retries + 1]
    assert set(extra.values()) == {1}
    assert 1 <= len(extra) < SMALL["n_particles"] // 2


@pytest.mark.parametrize("retries", [0, slow(2)])
def test_a_point_that_breaks_pools_has_its_own_attempts_and_two_in_company(retries, tmp_path):
    notes = tmp_path / "notes"
    result = run(
        Faulty("calls_os_exit", fault_points()[:1], notes),
        workers=ps.Workers(partial(ProcessPoolExecutor, 2), retries=retries),
        maxiter=0,
    )
    assert result.failure_kinds == {"died": 1}
    assert extra_attempts(notes)[fault_points()[0]] == 2 + retries


# Workers that are killed from outside


@pytest.mark.parametrize("timeout", [None, 60])
def test_a_worker_that_is_killed_from_outside_costs_nothing(tmp_path, timeout):
    points = undisturbed_points()
    fun = WaitsToBeKilled(tmp_path, [points[0], points[3], points[7], points[20]])
    with Killer(fun) as killer:
        result = run(fun, workers=ps.Workers(2, timeout=timeout))
    assert killer.killed == 4
    assert result.failure_kinds == {}
    assert_same(result, serial())


def test_without_retries_a_point_whose_worker_is_killed_has_failed(tmp_path):
    fun = WaitsToBeKilled(tmp_path, fault_points())
    with Killer(fun) as killer:
        result = run(fun, workers=ps.Workers(2, timeout=60, retries=0))
    assert killer.killed == 2
    assert result.failure_kinds == {"died": 2}
    assert_same(result, serial_with_nan())


@pytest.mark.slow
def test_a_point_may_lose_its_worker_as_often_as_there_are_retries(tmp_path):
    fun = WaitsToBeKilled(tmp_path, fault_points(), times=3)
    with Killer(fun) as killer:
        assert_same(run(fun, workers=ps.Workers(2, timeout=60, retries=3)), serial())
    assert killer.killed == 6


def test_a_pool_that_is_broken_from_outside_is_replaced(tmp_path):
    points = undisturbed_points()
    fun = WaitsToBeKilled(tmp_path, [points[1], points[20]])
    with Killer(fun) as killer:
        result = run(fun, workers=partial(ProcessPoolExecutor, 2))
    assert killer.killed == 2
    assert_same(result, serial())


@pytest.mark.slow
@pytest.mark.parametrize(("timeout", "victim"), [(None, "itself"), (60, "parent")])
@pytest.mark.parametrize("kind", ["fork", "spawn", "loky"])
def test_executors_lose_nothing_when_workers_are_killed_from_outside(tmp_path, kind, timeout, victim):
    """With a time limit the process of an evaluation is killed in test_contract_of_workers.py."""
    if kind == "fork" and any("Dask" in thread.name for thread in threading.enumerate()):
        pytest.skip("Dask has left threads in this process, and a pool that forks among threads may hang")
    points = undisturbed_points()
    fun = WaitsToBeKilled(tmp_path, [points[0], points[3], points[20]], victim)
    with Killer(fun) as killer:
        result = run(fun, workers=ps.Workers(executor_factory(kind), timeout=timeout))
    assert killer.killed == 3
    assert result.failure_kinds == {}
    assert_same(result, serial())


@pytest.mark.slow
def test_many_kills_at_any_moment_cost_nothing(tmp_path):
    """Kill any worker at any moment, every few milliseconds."""
    expected = run(n_particles=20, maxiter=40)
    ends, kills, began = threading.Event(), 0, clock_ticks()

    def kill():
        nonlocal kills
        rng = random.Random(3)
        while not ends.wait(rng.expovariate(1 / 0.05)):
            for pid in sorted(child_processes(began))[:1]:
                os.kill(pid, signal.SIGKILL)
                kills += 1

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        result = run(
            lambda x: (time.sleep(0.002), float(value(x)))[1],
            workers=ps.Workers(2, retries=50),
            n_particles=20,
            maxiter=40,
        )
    finally:
        ends.set()
        killer.join()
    assert kills > 10
    assert_same(result, expected)
