"""A Dask cluster as workers."""

import logging
import os
import subprocess
import sys
import threading
from collections import Counter

import pytest
from fault_functions import (
    FAULTS,
    KINDS,
    Killer,
    WaitsToBeKilled,
    assert_same,
    becomes_true,
    child_processes,
    note,
    notes_in,
    run,
    serial,
    undisturbed_points,
    value,
)
from survival import assert_survives
from test_travel import Noted

import paoswarm as ps

# Dask leaves the sockets and event loops of killed workers to the garbage collector.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
distributed = None


@pytest.fixture(scope="module", autouse=True)
def _import_dask():
    """Not before: the import takes a second, and every run of other tests collects this file."""
    global distributed
    distributed = pytest.importorskip("distributed")


@pytest.fixture
def tolerated():
    """Workers of the cluster are restarted when they die, and keep their child processes for half a minute."""
    return lambda command: "multiprocessing.spawn" in command or "paoswarm.evaluate.child" in command


@pytest.fixture(scope="module")
def here():
    """A cluster of two threads in this process."""
    with distributed.Client(
        processes=False,
        n_workers=1,
        threads_per_worker=2,
        dashboard_address="127.0.0.1:0",
        silence_logs=logging.CRITICAL,
    ) as client:
        yield client


def cluster(**options):
    return distributed.LocalCluster(
        host="127.0.0.1", dashboard_address="127.0.0.1:0", silence_logs=logging.CRITICAL, processes=True, **options
    )


@pytest.fixture(scope="module")
def client():
    before = set(child_processes())
    with cluster(n_workers=2, threads_per_worker=1) as local, distributed.Client(local) as client:
        yield client
    assert becomes_true(lambda: set(child_processes()) <= before)


# In this process


@pytest.mark.parametrize("vectorized", [False, True])
def test_a_cluster_in_this_process_gives_the_same_result(here, vectorized):
    assert_same(run(workers=here, vectorized=vectorized), serial())


def test_nothing_is_pickled_within_this_process(here, tmp_path):
    lock = threading.Lock()
    assert_same(run(lambda x: lock.locked() + float(value(x)), workers=here), serial())
    assert_same(run(Noted(tmp_path), workers=here), serial())
    assert notes_in(tmp_path / "dumped") == []


@pytest.mark.parametrize("fault", ["raises", "returns_nan", "returns_text", "calls_sys_exit"])
def test_a_cluster_in_this_process_survives(here, fault):
    assert_survives(fault, workers=here)


def test_a_point_that_is_measured_twice_is_evaluated_twice(here, tmp_path):
    """By default Dask runs two equal calls only once."""
    settings = {"reevaluate": 0.25, "maxiter": 4}
    run(Noted(tmp_path), **settings)
    once = len(notes_in(tmp_path / "called"))
    assert_same(run(Noted(tmp_path), workers=here, **settings), run(**settings))
    assert len(notes_in(tmp_path / "called")) == 2 * once


def test_many_runs_and_samples_take_a_client(here):
    settings = {"n_particles": 8, "maxiter": 2, "runs": 2, "rng": 1}
    many = ps.minimize_many(value, [(-4.0, 5.0)] * 2, method=ps.PAO(), workers=here, **settings)
    assert many.fun.tolist() == ps.minimize_many(value, [(-4.0, 5.0)] * 2, method=ps.PAO(), **settings).fun.tolist()


def test_a_client_without_workers_is_refused():
    with (
        distributed.LocalCluster(
            n_workers=0, processes=False, dashboard_address="127.0.0.1:0", silence_logs=logging.CRITICAL
        ) as empty,
        distributed.Client(empty) as client,
    ):
        with pytest.raises(ValueError, match="Dask Client without workers"):
            run(workers=client)
        client.close()
        with pytest.raises(ValueError, match=r"Dask Client .* closed"):
            run(workers=client)


# In other processes


@pytest.mark.parametrize("timeout", [None, 60])
@pytest.mark.parametrize("vectorized", [False, True])
def test_a_cluster_gives_the_same_result(client, vectorized, timeout):
    shift = 0.0
    assert_same(
        run(lambda x: value(x) + shift, workers=ps.Workers(client, timeout=timeout), vectorized=vectorized), serial()
    )


def test_an_executor_of_a_client_gives_the_same_result(client):
    assert_same(run(workers=client.get_executor(pure=False)), serial())


@pytest.mark.parametrize("timeout", [None, 60])
def test_each_worker_is_sent_the_function_once(client, tmp_path, timeout):
    assert_same(run(Noted(tmp_path), workers=ps.Workers(client, timeout=timeout)), serial())
    loaded = Counter(notes_in(tmp_path / "loaded"))
    assert 1 <= len(loaded) <= 2
    assert set(loaded.values()) == {1}
    assert notes_in(tmp_path / "dumped") == [str(os.getpid())]


@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault != "kills_itself"])
def test_a_cluster_with_a_time_limit_survives(client, fault):
    assert_survives(fault, workers=ps.Workers(client, timeout=2.0 if KINDS[fault] == "timed out" else 60))


@pytest.mark.parametrize("fault", ["raises", "returns_text", "calls_sys_exit", "calls_os_exit", "segfaults"])
def test_a_cluster_survives(client, fault):
    assert_survives(fault, workers=client)


@pytest.mark.parametrize(("timeout", "victim"), [(None, "itself"), (60, "parent")])
def test_a_worker_that_is_killed_from_outside_costs_nothing(client, tmp_path, timeout, victim):
    points = undisturbed_points()
    fun = WaitsToBeKilled(tmp_path, [points[0], points[3], points[20]], victim)
    with Killer(fun) as killer:
        result = run(fun, workers=ps.Workers(client, timeout=timeout))
    assert killer.killed == 3
    assert result.failure_kinds == {}
    assert_same(result, serial())


def test_a_client_that_is_closed_in_the_middle_ends_the_run_with_the_best_so_far(tmp_path):
    with cluster(n_workers=1, threads_per_worker=1) as local:
        client = distributed.Client(local)

        def fun(x):
            import time

            note(tmp_path / "notes", "1")
            time.sleep(0.1)
            return float(value(x))

        def close():
            becomes_true(lambda: len(notes_in(tmp_path / "notes")) > 12)
            client.close()

        thread = threading.Thread(target=close)
        thread.start()
        try:
            result = run(fun, workers=client)
        finally:
            thread.join()
    assert result.status is ps.results.Status.CRASHED
    assert result.fun == serial().history.best[0]


@pytest.mark.parametrize("timeout", [None, 60])
@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_scheduler_that_is_killed_ends_the_run_with_the_best_so_far(tmp_path, timeout, asynchronous):
    """Its client tries to connect again for as long as its timeout says, and is then closed."""
    command = [sys.executable, "-m", "dask"]
    same_path = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "env": same_path}
    file = str(tmp_path / "scheduler.json")
    where = ["--scheduler-file", file, "--host", "127.0.0.1", "--no-dashboard"]
    scheduler = subprocess.Popen([*command, "scheduler", *where, "--port", "0"], **quiet)
    worker = subprocess.Popen([*command, "worker", *where, "--nthreads", "1", "--no-nanny"], **quiet)

    def kill():
        assert becomes_true(lambda: len(notes_in(tmp_path / "notes")) > 12)
        scheduler.kill()

    def fun(x):
        import time

        note(tmp_path / "notes", "1")
        time.sleep(0.1)
        return float(value(x))

    killer = threading.Thread(target=kill)
    try:
        assert becomes_true(lambda: os.path.exists(file))
        with distributed.Client(scheduler_file=file, timeout=5) as client:
            client.wait_for_workers(1)
            killer.start()
            result = run(fun, workers=ps.Workers(client, timeout=timeout, asynchronous=asynchronous))
            killer.join()
    finally:
        for process in (scheduler, worker):
            process.kill()
            process.wait()
    assert result.status is ps.results.Status.CRASHED
    assert "scheduler" in result.message
    assert result.nfev >= 8
    assert result.fun == float(value(result.x))


def test_a_worker_with_many_threads_loads_the_function_once(tmp_path):
    with cluster(n_workers=1, threads_per_worker=4) as local, distributed.Client(local) as client:
        assert_same(run(Noted(tmp_path), workers=client), serial())
        assert len(notes_in(tmp_path / "called")) == serial().nfev


def test_workers_that_come_and_go_cost_nothing(tmp_path):
    """The cluster is scaled up and down while the run is going."""
    with cluster(n_workers=1, threads_per_worker=1) as local, distributed.Client(local) as client:
        sizes = iter([2, 1, 2])

        def scale(intermediate_result):
            local.scale(next(sizes, 1))

        assert_same(run(workers=client, callback=scale), serial())
