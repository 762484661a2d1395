"""Our linear algebra has one thread, and everything else as many as before."""

import os
import threading

import numpy as np
import pytest

import paoswarm as ps
from paoswarm.core.blas import libraries, on_one_thread


def threads():
    return [get() for get, _ in libraries()]


inside = on_one_thread(threads)


@pytest.fixture(autouse=True)
def three():
    """Three threads, whatever the environment says."""
    before = threads()
    for _, put in libraries():
        put(3)
    yield [3] * len(before)
    for (_, put), number in zip(libraries(), before, strict=True):
        put(number)


def test_the_libraries_of_numpy_and_scipy_are_found():
    built = np.show_config(mode="dicts")["Build Dependencies"]["blas"]["name"]
    assert len(libraries()) == 2 * ("openblas" in built)


def test_it_is_one_inside_and_as_before_outside(three):
    assert inside() == [1] * len(three)
    assert threads() == three

    @on_one_thread
    def nested():
        return inside(), threads()

    assert nested() == (inside(), inside())
    assert threads() == three


def test_an_exception_ends_it(three):
    with pytest.raises(ZeroDivisionError):
        on_one_thread(lambda: 1 / 0)()
    assert threads() == three


def test_threads_that_overlap_end_it_together(three):
    first_is_in, second_is_out = threading.Event(), threading.Event()
    seen = []

    @on_one_thread
    def first():
        first_is_in.set()
        second_is_out.wait()
        seen.append(threads())

    one = threading.Thread(target=first)
    one.start()
    first_is_in.wait()
    inside()  # it does not end what the other one needs
    second_is_out.set()
    one.join()
    assert seen == [[1] * len(three)]
    assert threads() == three


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_process_that_is_forked_inside_has_as_many_as_before(three):
    @on_one_thread
    def forked():
        child = os.fork()
        if child == 0:
            os._exit(threads() == three and inside() == [1] * len(three) and threads() == three)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    assert forked() == 1
    assert threads() == three


@pytest.mark.parametrize("constraints", [None, lambda x: x[0] - x[1]])
def test_the_users_function_has_as_many_as_before(constraints, three):
    def bowl(x):
        assert threads() == three
        return float((x**2).sum())

    ps.minimize(bowl, [(-1, 2)] * 3, constraints=constraints, maxfev=500, rng=1)
