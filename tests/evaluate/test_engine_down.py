"""When all workers are dead, the run ends soon with a clear message, and no value is lost."""

import os
import subprocess
import sys
import threading
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial

import pytest
from fault_functions import Faulty, assert_same, note, notes_in, run, serial, value
from survival import needs_fork, slow

import paoswarm as ps

pytestmark = needs_fork


def always_dies(x):
    os._exit(3)


class DiesAfter:
    """`value` for the first evaluations (counted in a file); then every worker dies."""

    def __init__(self, notes, healthy):
        self.notes, self.healthy = str(notes), healthy

    def __call__(self, x):
        if note(self.notes, "1") > self.healthy:
            os._exit(3)
        return float(value(x))


@pytest.mark.parametrize(
    ("workers", "timeout"), [(2, None), slow(2, 60), slow(1, 60), slow(partial(ProcessPoolExecutor, 2), None)], ids=str
)
def test_an_objective_that_always_kills_its_worker_is_an_error_at_once(workers, timeout):
    reason = ".*exit status 3" if isinstance(workers, int) else ""  # a pool does not tell how its workers died
    with pytest.raises(ps.errors.EngineDown, match=rf"4[89] times in a row{reason}") as caught:
        run(always_dies, workers=ps.Workers(workers, timeout=timeout), n_particles=50)
    assert isinstance(caught.value, RuntimeError)


def test_a_pool_of_the_user_cannot_be_replaced():
    with (
        ProcessPoolExecutor(2) as pool,
        pytest.raises(ps.errors.EngineDown, match="workers=lambda: ProcessPoolExecutor"),
    ):
        run(always_dies, workers=pool)


MANY = {"n_particles": 40}  # enough losses in one generation to conclude that the engine is down


@pytest.mark.parametrize("workers", [2, slow(partial(ProcessPoolExecutor, 2))], ids=["processes", "pools"])
def test_workers_that_die_later_end_the_run_with_the_best_so_far(tmp_path, workers):
    result = run(
        DiesAfter(tmp_path / "notes", 83), workers=ps.Workers(workers, timeout=60 if workers == 2 else None), **MANY
    )
    assert result.status is ps.results.Status.CRASHED
    assert not result.success
    assert "times in a row" in result.message
    assert 80 <= result.nfev <= 83  # the answered points before the first lost one
    assert result.fun == float(value(result.x)) <= serial(**MANY).history.best[1]
    assert result.n_failed == 0


def test_an_executor_that_is_closed_in_the_middle_ends_the_run_with_the_best_so_far():
    pool = ThreadPoolExecutor(1)

    def close(intermediate_result):
        if intermediate_result.nit == 1:
            pool.shutdown()

    result = run(workers=pool, callback=close)
    assert result.status is ps.results.Status.CRASHED
    assert result.fun == serial().history.best[1]


class SilentCluster:
    """In place of a Dask client: it does the first tasks; then its connection is closed, and the others stay pending.

    That is what a client does when its scheduler has died and could not be reached again.
    """

    def __init__(self, healthy):
        self.status, self._left = "running", healthy

    def get_executor(self, pure):
        return self

    def nthreads(self, callback_timeout):
        if self._left == 0:
            raise OSError("in <TCP>: Stream is closed")
        return {"worker": 1}

    def submit(self, function, *arguments):
        future = Future()
        if self._left:
            self._left -= 1
            future.set_result(function(*arguments))
        else:
            threading.Timer(0.02, setattr, (self, "status", "closed")).start()
        return future


SilentCluster.__module__ = "distributed.client"


def test_a_scheduler_that_dies_ends_the_run_with_the_best_so_far(monkeypatch):
    pytest.importorskip("dask")
    monkeypatch.setattr("paoswarm.evaluate.executors.POLL_SECONDS", 0.05)
    result = run(workers=SilentCluster(9))  # eight points one by one, then eight together
    assert result.status is ps.results.Status.CRASHED
    assert result.fun == serial().history.best[1]
    assert "scheduler" in result.message
    with pytest.raises(ps.errors.EngineDown, match="scheduler"):
        run(workers=SilentCluster(0))


@pytest.mark.slow
def test_work_that_is_cancelled_by_somebody_else_ends_the_run_with_the_best_so_far():
    """The pool is shared: our tasks wait behind another one when the pool is shut down."""
    pool, started, goes_on = ThreadPoolExecutor(1), threading.Event(), threading.Event()

    def close(intermediate_result):
        if intermediate_result.nit == 1:
            pool.submit(lambda: (started.set(), goes_on.wait()))
            started.wait()
            threading.Timer(0.2, pool.shutdown, kwargs={"wait": False, "cancel_futures": True}).start()

    try:
        result = run(workers=pool, callback=close)
    finally:
        goes_on.set()
        pool.shutdown()
    assert result.status is ps.results.Status.CRASHED
    assert result.fun == serial().history.best[1]


@pytest.mark.parametrize("retries", [1, slow(3)])
def test_a_run_whose_workers_died_goes_on_with_a_healthy_function(tmp_path, retries):
    store = ps.Store(tmp_path / "run.paoswarm", trust=True)  # every call counts
    broken = DiesAfter(tmp_path / "notes", 83)
    crashed = run(broken, workers=ps.Workers(2, retries=retries, timeout=60), store=store, **MANY)
    assert crashed.status is ps.results.Status.CRASHED
    again = Faulty("returns_nan", (), tmp_path / "again")
    assert_same(run(again, workers=ps.Workers(2, retries=retries, timeout=60), store=store, **MANY), serial(**MANY))
    assert len(notes_in(again.notes)) == serial(**MANY).nfev - 83  # recorded values are not evaluated again


@pytest.mark.slow
def test_a_crash_in_the_first_swarm_can_be_resumed_too(tmp_path):
    store = ps.Store(tmp_path / "run.paoswarm", trust=True)  # every call counts
    crashed = run(DiesAfter(tmp_path / "notes", 5), workers=ps.Workers(2, timeout=60), store=store, **MANY)
    assert crashed.status is ps.results.Status.CRASHED
    assert 1 <= crashed.nfev <= 5
    again = Faulty("returns_nan", (), tmp_path / "again")
    assert_same(run(again, workers=ps.Workers(2, timeout=60), store=store, **MANY), serial(**MANY))


UNGUARDED = """
import multiprocessing
import paoswarm as ps

if multiprocessing.current_process().name == "MainProcess":
    multiprocessing.set_start_method("spawn")

def sphere(x):
    return float((x**2).sum())

ps.minimize(sphere, [(-1, 1)] * 2, workers=2, n_particles=10, maxiter=2, rng=1)
"""


@pytest.mark.slow
def test_a_script_without_a_main_guard_is_told_to_add_one(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(UNGUARDED)
    ended = subprocess.run([sys.executable, script], capture_output=True, text=True)
    assert ended.returncode == 1
    last = ended.stderr.strip().splitlines()[-1]
    assert last.startswith("paoswarm.evaluate.engines.EngineDown: worker processes")
    assert 'if __name__ == "__main__":' in last
