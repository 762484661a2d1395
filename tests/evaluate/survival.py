"""What several test modules share: marks, executors of every kind, and the check that a run survives a fault."""

import multiprocessing
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial

import pytest
from fault_functions import KINDS, Faulty, assert_same, fault_points, run, serial_with_nan

import paoswarm as ps

needs_fork = pytest.mark.skipif(multiprocessing.get_start_method() != "fork", reason="needs fork")
slow = partial(pytest.param, marks=pytest.mark.slow)


def executor_factory(kind):
    """A function that makes an executor with two workers: "threads", "loky", or a start method of processes."""
    if kind == "threads":
        return partial(ThreadPoolExecutor, 2)
    if kind == "loky":
        return partial(pytest.importorskip("loky").get_reusable_executor, 2)
    return partial(ProcessPoolExecutor, 2, mp_context=multiprocessing.get_context(kind))


def assert_survives(fault, **settings):
    """Both faulty points fail with the right kind, and all else is as if they had returned NaN."""
    warned = KINDS[fault] == "raised"
    with pytest.warns(RuntimeWarning, match="raised .* 2 points") if warned else nullcontext():
        result = run(Faulty(fault, fault_points()), **settings)
    assert result.failure_kinds == Counter({KINDS[fault]: 2})
    assert_same(result, serial_with_nan())
    assert result.status is ps.results.Status.MAXITER
    return result
