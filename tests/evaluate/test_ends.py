"""Time limits, interrupts and killed parents: runs end soon, no value is lost, and no process is left behind."""

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
from fault_functions import Faulty, assert_same, becomes_true, is_alive, note, notes_in, run, serial, value
from survival import needs_fork, slow

import paoswarm as ps

pytestmark = needs_fork


class SlowAfter:
    """`value`, quick for the first evaluations (counted in a file) and slow afterwards."""

    def __init__(self, notes, quick, seconds, pause=0.0):
        self.notes, self.quick, self.seconds, self.pause = str(notes), quick, seconds, pause

    def __call__(self, x):
        number = note(self.notes, str(os.getpid()))
        time.sleep(self.pause if number <= self.quick else self.seconds)
        return float(value(x))


@pytest.mark.parametrize(
    "workers",
    [2, slow(partial(ThreadPoolExecutor, 2)), slow(partial(ProcessPoolExecutor, 2))],
    ids=["2", "threads", "pools"],
)
def test_a_time_limit_ends_a_run_within_a_generation(tmp_path, workers):
    """Points take so long that each is a task of its own. After the tenth, each worker has time for one more."""
    store = ps.Store(tmp_path / "run.paoswarm", trust=True)  # every call counts
    late = SlowAfter(tmp_path / "notes", 10, 0.3, pause=0.06)
    result = run(late, workers=workers, time_limit=0.5, store=store)
    assert result.status is ps.results.Status.TIME
    x, _ = store.read()
    assert 1 <= result.nfev <= len(x) <= 12
    assert len(x) == len(notes_in(late.notes))  # all started evaluations were finished and recorded
    again = Faulty("returns_nan", (), tmp_path / "again")
    assert_same(run(again, workers=workers, store=store), serial())
    assert len(notes_in(again.notes)) == serial().nfev - len(x)


def test_a_time_limit_does_not_cut_the_first_point_short(tmp_path):
    result = run(SlowAfter(tmp_path / "notes", 0, 0.2), workers=2, time_limit=0.01)
    assert result.status is ps.results.Status.TIME
    assert result.nfev in (2, 3)  # a third one begins if the second is done before the first


# Interrupts


def interrupted(fun, notes, after, **settings):
    """A run that is interrupted shortly after ``after`` evaluations have started."""

    def interrupt():
        assert becomes_true(lambda: len(notes_in(notes)) >= after)
        time.sleep(0.1)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        return run(fun, **settings)  # it does not wait for evaluations, which take a thousand seconds
    finally:
        thread.join()


@pytest.mark.parametrize("timeout", [None, 60])
def test_an_interrupt_ends_own_processes_in_the_middle_of_their_work(tmp_path, timeout):
    fun = SlowAfter(tmp_path / "notes", 16, 1000)
    store = ps.Store(tmp_path / "run.paoswarm", trust=True)  # every call counts
    result = interrupted(fun, fun.notes, 18, workers=ps.Workers(2, timeout=timeout), store=store)
    assert result.status is ps.results.Status.INTERRUPTED
    assert result.nfev == 16
    assert result.fun == serial().history.best[1]
    assert not any(is_alive(pid) for pid in notes_in(fun.notes))  # at once, not soon
    assert_same(run(store=store), serial())


def test_an_interrupt_does_not_wait_for_threads(tmp_path):
    goes_on = threading.Event()

    def fun(x):
        number = note(tmp_path / "notes", "1")
        time.sleep(0.06)  # so long that every point is a task of its own: a started task is finished
        if number > 16:
            goes_on.wait()
        return float(value(x))

    with ThreadPoolExecutor(2) as pool:
        result = interrupted(fun, tmp_path / "notes", 18, workers=pool)
        assert len(notes_in(tmp_path / "notes")) == 18  # two are still running
        goes_on.set()
    assert len(notes_in(tmp_path / "notes")) == 18  # and nothing new was started
    assert result.status is ps.results.Status.INTERRUPTED
    assert result.fun == serial().history.best[1]


@pytest.mark.slow
def test_an_interrupt_ends_a_pool_that_was_made_here(tmp_path):
    fun = SlowAfter(tmp_path / "notes", 16, 1000)
    result = interrupted(fun, fun.notes, 18, workers=partial(ProcessPoolExecutor, 2))
    assert (result.status, result.nfev) == (ps.results.Status.INTERRUPTED, 16)
    assert becomes_true(lambda: not any(is_alive(pid) for pid in set(notes_in(fun.notes))))


def test_an_interrupt_in_the_first_swarm_returns_the_values_so_far(tmp_path):
    fun = SlowAfter(tmp_path / "notes", 4, 1000)
    result = interrupted(fun, fun.notes, 6, workers=2)
    assert result.status is ps.results.Status.INTERRUPTED
    assert 1 <= result.nfev <= 4  # up to the first point that is missing
    assert not any(is_alive(pid) for pid in notes_in(fun.notes))


# Parents that are killed


def start(folder, workers, timeout):
    """Start the run of driver.py in a process of its own and wait until its second generation is running."""
    script = Path(__file__).with_name("driver.py")
    process = subprocess.Popen(
        [sys.executable, script, folder, workers, str(timeout)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # an interrupt goes to it alone
    )
    busy = becomes_true(lambda: len(notes_in(folder / "pids")) == 4)
    if not busy:
        process.kill()
    assert busy, process.communicate()
    return process, [int(pid) for pid in notes_in(folder / "pids")]


def kill_and_close(process):
    process.kill()
    process.wait()
    process.stdout.close()
    process.stderr.close()


def assert_killed_with_its_parent(folder, workers, timeout):
    process, pids = start(folder, workers, timeout)
    assert all(map(is_alive, pids))  # two workers, and what they have started
    kill_and_close(process)
    gone = becomes_true(lambda: not any(map(is_alive, pids)))
    for pid in filter(is_alive, pids):
        os.kill(pid, signal.SIGKILL)
    assert gone


def test_own_processes_end_with_a_parent_that_is_killed_and_so_does_what_they_have_started(tmp_path):
    assert_killed_with_its_parent(tmp_path, "processes", None)


@pytest.mark.slow
@pytest.mark.parametrize(("workers", "timeout"), [("processes", 60), ("threads", 60)])
def test_with_a_time_limit_no_process_outlives_a_parent_that_is_killed(tmp_path, workers, timeout):
    assert_killed_with_its_parent(tmp_path, workers, timeout)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("workers", "timeout"),
    [
        ("processes", None),
        ("processes", 60),
        ("threads", 60),
        ("pools", 60),
    ],
)
def test_an_interrupt_from_the_keyboard_ends_all_in_the_group(tmp_path, workers, timeout):
    """The terminal sends the signal to the whole group. Workers ignore it; their parent decides."""
    process, pids = start(tmp_path, workers, timeout)
    os.killpg(process.pid, signal.SIGINT)
    try:
        out, err = process.communicate()
    finally:
        kill_and_close(process)
    assert out.split() == ["INTERRUPTED", "8", serial().history.best[0].hex()], err
    assert becomes_true(lambda: not any(map(is_alive, pids)))
