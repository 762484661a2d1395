"""Where processes cannot be started: limits of the system are reached, or the caller is a daemon."""

import errno
import multiprocessing
import os
import resource
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import pytest
from fault_functions import Faulty, assert_same, fault_points, note, run, serial, serial_with_nan, value
from survival import needs_fork

import paoswarm as ps

pytestmark = needs_fork


@contextmanager
def few_files(highest):
    """The system gives no numbers of open files from this one on."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


class RefusesToFork:
    """In place of `os.fork`: what the system says when a user has too many processes. (root may have any number.)"""

    def __init__(self, allowed):
        self.allowed, self.fork = allowed, os.fork

    def __call__(self):
        if self.allowed == 0:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        self.allowed -= 1
        return self.fork()


class DiesAfter:
    """`value` for the first evaluations (counted in a file); then every worker dies."""

    def __init__(self, notes, healthy):
        self.notes, self.healthy = str(notes), healthy

    def __call__(self, x):
        if note(self.notes, "1") > self.healthy:
            os._exit(3)
        return float(value(x))


def test_a_run_goes_on_with_as_many_workers_as_files_can_be_opened_for():
    used = max(int(number) for number in os.listdir("/proc/self/fd"))
    with ExitStack() as files, few_files(used + 10):
        while (number := os.dup(2)) < used:  # fill the gaps
            files.callback(os.close, number)
        os.close(number)
        assert_same(run(workers=8), serial())


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_run_goes_on_with_as_many_workers_as_can_be_forked(monkeypatch, caplog, asynchronous):
    monkeypatch.setattr(os, "fork", RefusesToFork(2))
    result = run(workers=ps.Workers(8, asynchronous=asynchronous), n_particles=16)
    assert result.status is ps.results.Status.MAXITER
    assert result.failure_kinds == {}
    assert "goes on with workers: 2" in caplog.text


def test_a_worker_that_cannot_be_replaced_is_missed_and_nothing_else(monkeypatch):
    monkeypatch.setattr(os, "fork", RefusesToFork(5))  # four die, two for each point
    assert_same(run(Faulty("calls_os_exit", fault_points()), workers=ps.Workers(2, timeout=60)), serial_with_nan())


def test_after_a_refusal_more_workers_are_started_as_soon_as_it_is_possible(monkeypatch, tmp_path):
    monkeypatch.setattr("paoswarm.evaluate.engines._START_PAUSE", 0.0)
    limited = RefusesToFork(1)
    monkeypatch.setattr(os, "fork", limited)

    def allow(intermediate_result):
        limited.allowed = 1

    run(
        lambda x: (note(tmp_path / str(os.getpid()), "1"), float(value(x)))[1],
        workers=ps.Workers(2, timeout=60),
        callback=allow,
    )
    assert len(list(tmp_path.iterdir())) == 2


def test_if_no_worker_can_be_started_the_run_ends_with_the_best_so_far(monkeypatch, tmp_path):
    monkeypatch.setattr(os, "fork", RefusesToFork(2))
    result = run(DiesAfter(tmp_path / "notes", 17), workers=ps.Workers(2, timeout=60))
    assert result.status is ps.results.Status.CRASHED
    assert 16 <= result.nfev <= 17
    assert result.fun == float(value(result.x))
    assert "ulimit -u" in result.message


def test_if_no_file_can_be_opened_the_run_ends_with_the_best_so_far(tmp_path):
    store = ps.Store(tmp_path / "run.paoswarm", trust=True)
    with ExitStack() as limits:

        def use_up(intermediate_result):
            if intermediate_result.nit == 2:
                limits.enter_context(few_files(6))  # and these are in use

        result = run(DiesAfter(tmp_path / "notes", 27), workers=ps.Workers(2, timeout=60), callback=use_up, store=store)
    assert result.status is ps.results.Status.CRASHED
    assert 24 <= result.nfev <= 27
    assert "ulimit -n" in result.message
    assert_same(run(store=store), serial())


def test_if_the_first_worker_cannot_be_started_it_is_an_error(monkeypatch):
    monkeypatch.setattr(os, "fork", RefusesToFork(0))
    with pytest.raises(ps.errors.EngineDown, match=r"no process can be started.*fewer workers"):
        run(workers=2)


def test_executors_whose_workers_cannot_start_a_process_do_not_blame_the_points(monkeypatch):
    """With a time limit, a thread starts an interpreter."""
    refusal = OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    def refuse(*arguments, **options):
        raise refusal

    monkeypatch.setattr("paoswarm.evaluate.child.subprocess.Popen", refuse)
    with ThreadPoolExecutor(2) as pool, pytest.raises(ps.errors.EngineDown, match=r"no process can be started"):
        run(workers=ps.Workers(pool, timeout=60))


# Daemons


def outcome(workers):
    """What a run in a daemon returns, without what depends on it."""
    result = run(workers=ps.Workers(workers, timeout=60))
    return result.fun, result.nfev, result.failure_kinds


def answer(connection):
    try:
        connection.send(outcome(1))
    except BaseException as error:
        connection.send(repr(error))


def test_a_daemon_can_have_workers():
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.Process(target=answer, args=(theirs,), daemon=True)
    process.start()
    try:
        assert ours.poll(60)
        assert ours.recv() == (serial().fun, serial().nfev, {})
    finally:
        process.kill()
        process.join()


SCRIPT = """
import multiprocessing
import paoswarm as ps

LEVEL = 2.0

def level():
    return LEVEL

def f(x):
    return float((x**2).sum()) + level()

def fun(_):
    return ps.minimize(f, [(-5, 5)] * 2, maxfev=12, rng=1, workers=2).fun

if __name__ == "__main__":
    for how in ("spawn", "forkserver"):
        with multiprocessing.get_context(how).Pool(1) as pool:
            print(pool.map(fun, [0])[0] == fun(0))
"""


def test_a_spawned_daemon_sends_the_functions_of_its_script(tmp_path):
    pytest.importorskip("cloudpickle")
    (tmp_path / "script.py").write_text(SCRIPT)
    done = subprocess.run([sys.executable, tmp_path / "script.py"], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["True", "True"], done.stderr


@pytest.mark.slow
def test_a_process_of_a_pool_can_have_workers():
    with multiprocessing.Pool(1) as pool:
        assert pool.apply(outcome, (2,)) == (serial().fun, serial().nfev, {})


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")
def test_a_dask_task_can_have_workers():
    distributed = pytest.importorskip("distributed")
    options = {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0", "silence_logs": 50}
    with (
        distributed.LocalCluster(n_workers=1, threads_per_worker=1, processes=True, **options) as cluster,
        distributed.Client(cluster) as client,
    ):
        assert client.submit(outcome, 2).result(60) == (serial().fun, serial().nfev, {})
