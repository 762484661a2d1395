"""The function is sent once to each worker, and not at all to threads and forked processes."""

import os
import pickle
import threading
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest
from fault_functions import assert_same, note, notes_in, run, serial, value
from survival import executor_factory, needs_fork

import paoswarm as ps
from paoswarm.evaluate import worker


class Noted:
    """`value`; files note which processes pickle, load and call it."""

    def __init__(self, folder, pause=0.0):
        self.folder, self.pause = str(folder), pause

    def __getstate__(self):
        note(f"{self.folder}/dumped", str(os.getpid()))
        return vars(self).copy()

    def __setstate__(self, state):
        vars(self).update(state)
        time.sleep(self.pause)
        note(f"{self.folder}/loaded", str(os.getpid()))

    def __call__(self, x):
        note(f"{self.folder}/called", str(os.getpid()))
        return float(value(x))


def assert_loaded_once_by_each_of(most, folder):
    loaded = Counter(notes_in(folder / "loaded"))
    assert 1 <= len(loaded) <= most
    assert set(loaded.values()) == {1}
    assert set(loaded) == set(notes_in(folder / "called"))  # only processes that call it have loaded it
    assert str(os.getpid()) not in loaded
    assert notes_in(folder / "dumped") == [str(os.getpid())]


@needs_fork
@pytest.mark.parametrize(
    ("workers", "timeout"),
    [(2, None), (2, 60), (partial(ThreadPoolExecutor, 2), None), (partial(ProcessPoolExecutor, 2), None), (map, None)],
    ids=["processes", "with limit", "threads", "forked pool", "map"],
)
def test_threads_and_forked_processes_are_not_sent_the_function(tmp_path, workers, timeout):
    assert_same(run(Noted(tmp_path), workers=ps.Workers(workers, timeout=timeout)), serial())
    assert notes_in(tmp_path / "dumped") == notes_in(tmp_path / "loaded") == []
    assert len(notes_in(tmp_path / "called")) == serial().nfev


@needs_fork
def test_a_pool_that_is_already_running_is_sent_it_once_for_each_process(tmp_path):
    with ProcessPoolExecutor(2) as pool:
        list(pool.map(time.sleep, [0.05] * 4))
        assert_same(run(Noted(tmp_path), workers=pool), serial())
    assert_loaded_once_by_each_of(2, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("timeout", [None, 60])
@pytest.mark.parametrize("kind", ["spawn", "forkserver", "loky"])
def test_other_processes_are_sent_it_once_each(tmp_path, kind, timeout):
    assert_same(run(Noted(tmp_path), workers=ps.Workers(executor_factory(kind), timeout=timeout)), serial())
    assert_loaded_once_by_each_of(2, tmp_path)


@pytest.mark.slow
def test_threads_with_a_time_limit_have_a_process_each_that_loads_it_once(tmp_path):
    assert_same(run(Noted(tmp_path), workers=ps.Workers(partial(ThreadPoolExecutor, 2), timeout=60)), serial())
    assert_loaded_once_by_each_of(2, tmp_path)


# On the worker


X = np.array([[1.0, 2.0], [0.0, -1.0]])
POLICY = worker.RetryPolicy(None, 1)


@pytest.fixture
def key():
    yield "a key of the tests"
    worker.forget("a key of the tests")


def test_a_worker_asks_for_a_function_that_it_does_not_know_and_keeps_it(tmp_path, key):
    blob = pickle.dumps(Noted(tmp_path))
    assert worker.evaluate(worker.Task(key, X, False, POLICY, None)) == worker.NeedsFunction()
    for sent in (blob, None, blob, None):
        answered = worker.evaluate(worker.Task(key, X, False, POLICY, sent))
        assert answered.answers == value(X).tolist()
        assert answered.seconds > 0
    assert len(notes_in(tmp_path / "loaded")) == 1
    worker.forget(key)
    assert worker.evaluate(worker.Task(key, X, False, POLICY, None)) == worker.NeedsFunction()


def test_what_cannot_be_loaded_is_no_exception_on_the_worker(key):
    answer = worker.evaluate(worker.Task(key, X, False, POLICY, b"no pickle"))
    assert isinstance(answer, worker.Unloadable)
    assert answer.reason.startswith("UnpicklingError")


def test_two_threads_of_a_worker_load_it_once(tmp_path, key):
    """As on a Dask worker, whose threads start at the same time."""
    blob = pickle.dumps(Noted(tmp_path, pause=0.2))
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(worker.evaluate, [worker.Task(key, X, False, POLICY, blob)] * 2))
    assert len(notes_in(tmp_path / "loaded")) == 1


def test_many_runs_at_once_in_threads_do_not_disturb_each_other():
    """Five runs that are all under way when the last one starts. Their functions cannot be pickled."""
    all_there = threading.Barrier(5)

    def one(number):
        lock, first = threading.Lock(), threading.Event()

        def fun(x):
            with lock:
                if not first.is_set():
                    first.set()
                    all_there.wait()
                return float(value(x))

        return run(fun, workers=partial(ThreadPoolExecutor, 1))

    with ThreadPoolExecutor(5) as pool:
        for result in pool.map(one, range(5)):
            assert_same(result, serial())
