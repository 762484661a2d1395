"""Ctrl-C may come at any moment, and twice."""

import os
import signal
import threading
import time
from contextlib import suppress

import numpy as np
import pytest
from fault_functions import note, notes_in, run, value
from survival import needs_fork, slow
from waiting import Clock

import paoswarm as ps
from paoswarm.evaluate.interrupts import interrupted_once, interruptible, uninterrupted
from paoswarm.sampling.starts import nearest_of


def interrupt_this_process():
    os.kill(os.getpid(), signal.SIGINT)


@pytest.fixture(autouse=True)
def handler_is_restored():
    before = signal.getsignal(signal.SIGINT)
    yield
    assert signal.getsignal(signal.SIGINT) is before


def test_an_interrupt_is_delayed_until_the_block_is_done_even_if_another_thread_receives_it():
    """NumPy's threads do not block the signal, so the system gives it to one of them."""
    ends = threading.Event()
    other = threading.Thread(target=ends.wait)
    other.start()
    steps = []

    def work():
        with uninterrupted():
            interrupt_this_process()
            time.sleep(0.02)
            steps.append("done")

    try:
        with pytest.raises(KeyboardInterrupt):
            work()
    finally:
        ends.set()
        other.join()
    assert steps == ["done"]


def test_delays_can_be_nested_and_do_not_hide_errors():
    def work():
        with uninterrupted():
            with uninterrupted():
                interrupt_this_process()
            raise ValueError("of the block")

    with pytest.raises(KeyboardInterrupt) as caught:
        work()
    assert isinstance(caught.value.__context__, ValueError)


def test_a_handler_of_the_user_is_called_when_the_block_is_done():
    called = []
    before = signal.signal(signal.SIGINT, lambda *arguments: called.append(arguments))
    try:
        with uninterrupted():
            interrupt_this_process()
            assert called == []
        assert called == [(signal.SIGINT, None)]
        with interrupted_once():
            with interruptible():
                interrupt_this_process()
                interrupt_this_process()
            assert len(called) == 3  # it has not raised, so nothing was interrupted
            interrupt_this_process()
            assert len(called) == 3
        assert len(called) == 4
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_run_is_interrupted_where_it_waits_for_values_and_not_while_it_computes():
    steps = []

    def evaluate():
        with interruptible():
            steps.append("evaluated")

    with interrupted_once():
        interrupt_this_process()
        steps.append("computed")
        with pytest.raises(KeyboardInterrupt):
            evaluate()
        evaluate()
    assert steps == ["computed", "evaluated"]


def test_an_interrupt_that_the_function_swallows_is_raised_after_it():
    """As compilers do, which Python calls back."""
    steps = []

    def evaluate():
        with interruptible():
            with suppress(KeyboardInterrupt):
                interrupt_this_process()
            steps.append("went on")

    with interrupted_once(), pytest.raises(KeyboardInterrupt):
        evaluate()
    assert steps == ["went on"]


def test_an_interrupt_that_comes_too_late_to_end_anything_is_raised_after_the_run():
    steps = []

    def run_to_the_end():
        with interrupted_once():
            interrupt_this_process()
            steps.append("the result")

    with pytest.raises(KeyboardInterrupt):
        run_to_the_end()
    assert steps == ["the result"]


def test_a_run_within_an_objective_hands_its_interrupt_on():
    steps = []

    def objective():
        with interruptible():
            with interrupted_once(), suppress(KeyboardInterrupt), interruptible():
                interrupt_this_process()
            steps.append("the inner run has returned")

    with interrupted_once():
        with pytest.raises(KeyboardInterrupt):
            objective()
        with interruptible():
            steps.append("the outer run makes its result")
    assert steps == ["the inner run has returned", "the outer run makes its result"]


def test_a_second_interrupt_right_after_the_first_is_ignored_and_a_later_one_is_not(monkeypatch):
    clock = Clock(monkeypatch)
    with interrupted_once():
        interrupt_this_process()
        with pytest.raises(KeyboardInterrupt):
            interruptible().check()
        interrupt_this_process()
        clock.wait(1.1)
        with pytest.raises(KeyboardInterrupt):  # at once, also where nothing is evaluated
            interrupt_this_process()
        monkeypatch.setattr(time, "sleep", lambda seconds: interrupt_this_process())  # when the block is done


def test_the_threads_of_a_neighbour_search_end_before_an_interrupt_is_raised(monkeypatch):
    """They write to an array that the exception would free."""
    steps = []

    class Tree:
        def __init__(self, points):
            pass

        def query(self, at, k, workers):
            interrupt_this_process()
            steps.append("searched")
            return None, np.zeros((len(at), len(k)), dtype=int)

    monkeypatch.setattr("paoswarm.sampling.starts.KDTree", Tree)
    with pytest.raises(KeyboardInterrupt):
        nearest_of(np.zeros((4, 2)), np.zeros((3, 2)), 2)
    assert steps == ["searched"]


@needs_fork
def test_an_interrupt_of_a_run_is_none_of_the_processes_that_it_forks(tmp_path):
    before = signal.getsignal(signal.SIGINT)
    with suppress(KeyboardInterrupt), interrupted_once():
        interrupt_this_process()
        pid = os.fork()
        if pid == 0:
            with interruptible():
                os._exit(0 if signal.getsignal(signal.SIGINT) is before else 1)
            os._exit(2)
        assert os.waitpid(pid, 0)[1] == 0


def test_in_other_threads_nothing_is_changed():
    before, seen = signal.getsignal(signal.SIGINT), []

    def look():
        with interrupted_once(), uninterrupted():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert seen == [before]


@needs_fork
@pytest.mark.parametrize(
    ("gap", "asynchronous", "is_stored"),
    [
        (0.0003, False, False),
        (0.003, True, False),
        (0.003, False, True),
        *(slow(gap, kind, False) for gap in (0.0, 0.001, 0.01) for kind in (False, True)),
    ],
)
def test_two_interrupts_within_milliseconds_return_the_best_so_far(tmp_path, gap, asynchronous, is_stored):
    def slow_value(x):
        note(tmp_path / "notes", "1")
        time.sleep(0.002)
        return float(value(x))

    def interrupt_twice():
        while len(notes_in(tmp_path / "notes")) < 40:
            time.sleep(0.001)
        interrupt_this_process()
        time.sleep(gap)
        interrupt_this_process()

    thread = threading.Thread(target=interrupt_twice)
    thread.start()
    store = ps.Store(tmp_path / "run.paoswarm", fsync="never") if is_stored else None
    result = run(slow_value, workers=ps.Workers(2, asynchronous=asynchronous), maxiter=1000, store=store)
    thread.join()
    assert result.status is ps.results.Status.INTERRUPTED
    assert result.nfev >= 16
    assert result.fun == float(value(result.x))
