"""What every kind of worker must survive: killed, out of memory, frozen, all gone, and a scheduler that is frozen.

Processes and pools that are all gone are in test_engine_down.py, a scheduler that is killed in test_dask.py, Ray and
MPI in test_clusters.py.

The clock by which answers are overdue is moved by the test, once the workers are frozen.
"""

import importlib.util
import logging
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from contextlib import ExitStack, contextmanager, suppress

import pytest
from fault_functions import (
    Faulty,
    Killer,
    WaitsToBeKilled,
    assert_same,
    becomes_true,
    child_processes,
    fault_points,
    note,
    notes_in,
    run,
    serial,
    serial_with_nan,
    undisturbed_points,
    value,
)
from survival import executor_factory, needs_fork

import paoswarm as ps
from paoswarm.evaluate import caller, dispatch

pytestmark = [
    needs_fork,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore:no value for"),
    # They are replaced while the run goes on.
    pytest.mark.filterwarnings("ignore:A worker stopped while some jobs were given to the executor"),
]
KINDS = ["processes", "threads", "fork", "spawn", "loky", "dask", "ray", "mpi"]
SEPARATE = {"ray": "ray", "mpi": "mpi4py"}  # with_ray.py and with_mpi.py run in processes of their own
LIMIT = 60.0  # seconds, by the clock of the test


@pytest.fixture
def tolerated():
    """Workers keep their child processes for half a minute."""
    return lambda command: "multiprocessing" in command or "paoswarm.evaluate.child" in command or "loky" in command


@pytest.fixture(scope="module", params=KINDS)  # one kind after the other: Dask leaves threads
def kind(request):
    if request.param in SEPARATE:
        module = SEPARATE[request.param]
        is_there = importlib.util.find_spec(module) is not None
        pytest.skip("has processes of its own: test_clusters.py" if is_there else f"{module} is not installed")
    if request.param == "fork" and any("Dask" in thread.name for thread in threading.enumerate()):
        pytest.skip("Dask has left threads in this process, and a pool that forks among threads may hang")
    return request.param


@pytest.fixture
def workers(kind):
    """Two workers of a kind."""
    if kind == "processes":
        yield 2
    elif kind == "dask":
        distributed = pytest.importorskip("distributed")
        where = {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0", "silence_logs": logging.CRITICAL}
        before = set(child_processes())
        with (
            distributed.LocalCluster(n_workers=2, threads_per_worker=1, **where) as cluster,
            distributed.Client(cluster) as client,
        ):
            yield client
        assert becomes_true(lambda: set(child_processes()) <= before)
    else:
        yield executor_factory(kind)


class TestClock:
    """The clock of a dispatcher; it leaps when the test says so."""

    __test__ = False
    ahead, dispatcher = 0.0, None

    def made(self, engine, retries):
        self.dispatcher = dispatch.Dispatcher(engine, retries, clock=self)
        return self.dispatcher

    def __call__(self):
        return time.monotonic() + self.ahead


@pytest.fixture
def clock(monkeypatch):
    clock = TestClock()
    monkeypatch.setattr(caller, "Dispatcher", clock.made)
    monkeypatch.setattr(dispatch, "_LOOK_SECONDS", 0.05)
    return clock


class Freezes:
    """`value`, but the first evaluations of some points stop their worker, and note it."""

    def __init__(self, folder, points):
        self.notes, self.points = str(folder / "frozen"), tuple(points)

    def __call__(self, x):
        if x[0] in self.points:
            worker = os.getppid()  # evaluations with a time limit have a process of their own below it
            if notes_in(self.notes).count(f"{float(x[0]).hex()} {worker}") == len(notes_in(self.notes)) == 0:
                note(self.notes, f"{float(x[0]).hex()} {worker}")
                os.kill(worker, signal.SIGSTOP)
                time.sleep(1000)
        return float(value(x))


@contextmanager
def leaping(clock, holds, seconds, *, again=False):
    """Move the clock as soon as something holds, once or again and again."""
    is_over = threading.Event()

    def leap():
        assert becomes_true(holds)
        clock.ahead += seconds
        while again and not is_over.wait(0.5):
            clock.ahead += seconds

    thread = threading.Thread(target=leap)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def test_a_killed_worker_costs_nothing(workers, kind, tmp_path):
    fun = WaitsToBeKilled(tmp_path, [undisturbed_points()[n] for n in (0, 3, 20)])
    with Killer(fun) as killer:
        result = run(fun, workers=ps.Workers(workers, timeout=LIMIT))
    assert killer.killed == 3
    assert result.failure_kinds == {}
    assert_same(result, serial())


def test_a_point_that_is_out_of_memory_each_time_has_failed_and_no_other(workers):
    """The system then sends SIGKILL."""
    result = run(Faulty("kills_itself", fault_points()), workers=ps.Workers(workers, timeout=LIMIT))
    assert result.failure_kinds == {"died": 2}
    assert_same(result, serial_with_nan())


def test_an_evaluation_that_is_frozen_has_timed_out(workers):
    result = run(Faulty("stops_itself", fault_points()), workers=ps.Workers(workers, timeout=2.0))
    assert result.failure_kinds == {"timed out": 2}
    assert_same(result, serial_with_nan())


def test_the_point_of_a_frozen_worker_is_evaluated_elsewhere(workers, kind, tmp_path, clock):
    if kind in ("processes", "threads"):
        pytest.skip("the worker is this process")
    fun = Freezes(tmp_path, [undisturbed_points()[3]])

    def only_this_one_is_waited_for():  # the other worker is idle
        return len(notes_in(fun.notes)) == 1 == clock.dispatcher.in_hand

    try:
        with leaping(clock, only_this_one_is_waited_for, 1000.0):
            result = run(fun, workers=ps.Workers(workers, timeout=LIMIT))
    finally:
        for line in notes_in(fun.notes):
            with suppress(ProcessLookupError):
                os.kill(int(line.split()[1]), signal.SIGKILL)
    assert len(notes_in(fun.notes)) == 1
    assert_same(result, serial())


def said_in(seen):
    return [str(one.message) for one in seen if str(one.message).startswith("no value for")]


@pytest.mark.parametrize(
    ("fault", "timeout"), [("scheduler frozen", LIMIT), ("scheduler frozen", None), ("workers gone", LIMIT)]
)
def test_a_cluster_that_says_nothing(tmp_path, clock, fault, timeout):
    """With a time limit the run ends with the best so far; without one it waits, and a warning says for what."""
    distributed = pytest.importorskip("distributed")
    file = str(tmp_path / "scheduler.json")
    where = ["--scheduler-file", file, "--host", "127.0.0.1", "--no-dashboard"]
    same_path = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "env": same_path}
    command = [sys.executable, "-m", "dask"]

    def fun(x):
        if note(tmp_path / "notes", "1") == 12:
            while os.path.exists(tmp_path / "runs"):
                time.sleep(0.01)
        return float(value(x))

    (tmp_path / "runs").touch()

    def is_frozen():
        if len(notes_in(tmp_path / "notes")) < 12:
            return False
        scheduler.send_signal(signal.SIGSTOP) if fault == "scheduler frozen" else worker.kill()
        (tmp_path / "runs").unlink(missing_ok=True)
        return True

    def thaw():
        scheduler.send_signal(signal.SIGCONT)

    with ExitStack() as at_end:
        scheduler = subprocess.Popen([*command, "scheduler", *where, "--port", "0"], **quiet)
        worker = subprocess.Popen([*command, "worker", *where, "--nthreads", "1", "--no-nanny"], **quiet)
        for process in (scheduler, worker):
            at_end.callback(process.wait)
            at_end.callback(process.kill)
        assert becomes_true(lambda: os.path.exists(file))
        client = at_end.enter_context(distributed.Client(scheduler_file=file, timeout=60))
        client.wait_for_workers(1)
        at_end.callback(thaw)
        if timeout is None:
            with warnings.catch_warnings(record=True) as seen, leaping(clock, is_frozen, 100.0):
                warnings.simplefilter("always")
                stop = threading.Thread(target=lambda: becomes_true(lambda: bool(said_in(seen))) and thaw())
                stop.start()
                result = run(fun, workers=client)
                stop.join()
            assert "the run waits for 1 task" in said_in(seen)[0]
            assert_same(result, serial())
        else:
            with leaping(clock, is_frozen, 1000.0, again=True):
                result = run(fun, workers=ps.Workers(client, timeout=timeout))
            assert result.status is ps.results.Status.CRASHED
            assert "frozen" in result.message
            assert result.fun == float(value(result.x))
