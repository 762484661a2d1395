"""Workers, limits and functions that cannot work are refused, and the message says why."""

import sys
import threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest
from fault_functions import BOX, assert_same, run, serial, value
from survival import needs_fork

import paoswarm as ps


def never(x):
    raise AssertionError("nothing may be evaluated")


@pytest.mark.parametrize("solve", [ps.minimize, partial(ps.minimize_many, runs=2), ps.sample])
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"timeout": 0}, "timeout .*got 0"),
        ({"timeout": -1.0}, "timeout .*got -1.0"),
        ({"timeout": np.nan}, "timeout .*got nan"),
        ({"timeout": "1"}, "timeout .*got '1'"),
        ({"timeout": True}, "timeout .*got True"),
        ({"retries": -1}, "retries .*at least 0, got -1"),
        ({"retries": 1.5}, "retries .*whole number.*got 1.5"),
        ({"retries": None}, "retries .*whole number.*got None"),
        ({"workers": 0}, "workers must be .*got 0"),
        ({"workers": -2}, "workers must be .*got -2"),
        ({"workers": 1.5}, "workers must be .*got 1.5"),
        ({"workers": "2"}, "workers must be .*got '2'"),
        ({"workers": True}, "workers must be .*got True"),
        ({"workers": map, "timeout": 1.0}, "timeout .*map-like"),
    ],
    ids=str,
)
def test_bad_settings_are_refused_before_anything_is_evaluated(solve, changes, message):
    with pytest.raises(ValueError, match=message):
        solve(never, BOX, workers=ps.Workers(**changes))


@pytest.mark.parametrize("make", [partial(ThreadPoolExecutor, 1), partial(ProcessPoolExecutor, 1)])
def test_a_closed_executor_is_refused(make):
    pool = make()
    pool.shutdown()
    with pytest.raises(ValueError, match=r"executor .*\(cannot schedule.*make a new one"):
        run(never, workers=pool)


@needs_fork
@pytest.mark.parametrize("timeout", [np.inf, 1e7], ids=["for ever", "four months"])
def test_any_length_of_time_may_be_given(timeout):
    assert_same(run(workers=ps.Workers(2, timeout=timeout)), serial())


@needs_fork
@pytest.mark.parametrize("time_limit", [np.inf, 1e7], ids=["for ever", "four months"])
def test_any_length_of_time_may_be_given_for_a_run(time_limit):
    assert_same(run(time_limit=time_limit), serial())
    assert_same(run(workers=2, time_limit=time_limit), serial())


# Functions that cannot be sent


@pytest.fixture(scope="module")
def warm():
    """A pool whose process has started: it cannot inherit the function."""
    with ProcessPoolExecutor(1) as pool:
        pool.submit(abs, 1).result()
        yield pool


@needs_fork
def test_what_cannot_be_pickled_is_named(warm):
    lock = threading.Lock()
    with pytest.raises(TypeError, match=r"the function cannot be sent .*'lock'"):
        run(lambda x: lock.locked() + value(x), workers=warm)
    assert_same(run(workers=warm), serial())  # the pool still works


@needs_fork
def test_what_an_object_holds_is_named(warm):
    class Model:
        def __init__(self):
            self.scale, self.handle = 1.0, threading.Lock()

        def loss(self, x):
            return self.scale * value(x)

        __call__ = loss

    with pytest.raises(TypeError, match=r"uses 'handle', .*inside fun.*ThreadPoolExecutor"):
        run(Model(), workers=warm)
    with pytest.raises(TypeError, match="uses 'self', 'handle',"):
        run(Model().loss, workers=warm)


@needs_fork
def test_without_cloudpickle_a_closure_is_refused_with_advice(warm, monkeypatch):
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    with pytest.raises(TypeError, match=r"install cloudpickle.*top level of a module"):
        run(lambda x: float(value(x)), workers=warm)
    assert_same(run(workers=warm), serial())


@needs_fork
def test_the_error_names_a_module_that_is_missing_on_the_workers(warm, tmp_path, monkeypatch):
    (tmp_path / "only_here.py").write_text("def fun(x):\n    return float(x[0])\n")
    monkeypatch.syspath_prepend(tmp_path)
    import only_here

    with pytest.raises(ps.errors.EngineDown, match=r"cannot be loaded .*ModuleNotFoundError: .*only_here"):
        run(only_here.fun, workers=warm)
    monkeypatch.delitem(sys.modules, "only_here")


# Ray


@pytest.mark.slow  # importing Ray takes a second
def test_ray_has_to_be_connected_first():
    pytest.importorskip("ray", exc_type=ImportError)
    with pytest.raises(ValueError, match=r"no connection .*ray\.init\(\)"):
        ps.RayExecutor()


def test_ray_has_to_be_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ImportError, match=r"pip install 'paoswarm\[ray\]'"):
        ps.RayExecutor()


def test_a_map_like_may_say_how_many_points_it_takes_at_once():
    class Team:
        slots = 6

        def __call__(self, fun, points):
            return map(fun, points)

    assert ps.Workers(Team()).count == 6
    assert ps.Workers(map).count == ps.Workers(lambda: None).count == 1
