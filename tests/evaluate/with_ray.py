"""Checks on a local Ray cluster, run by test_clusters.py in a network of its own, because Ray listens on all addresses.

``python with_ray.py FOLDER`` prints a line of JSON for every check that passes.
"""

import json
import os
import signal
import sys
import warnings
from pathlib import Path

import pytest
from fault_functions import (
    FAULTS,
    KINDS,
    Faulty,
    Killer,
    WaitsToBeKilled,
    assert_same,
    fault_points,
    run,
    serial,
    serial_with_nan,
    undisturbed_points,
    value,
)
from test_contract_of_workers import LIMIT, Freezes, TestClock, leaping
from test_travel import Noted, notes_in

import paoswarm as ps
from paoswarm.evaluate import caller, dispatch

# Ray hears of the death of a worker by the end of its connection, which a process that it leaves behind keeps open.
WITH_A_LIMIT = ("returns_nan", "returns_text", "leaves_a_process_behind_and_kills_itself")


def frozen_elsewhere(folder, executor):
    """As in the contract of workers: the clock leaps when only the point of the frozen worker is waited for."""
    clock = TestClock()
    caller.Dispatcher, dispatch._LOOK_SECONDS = clock.made, 0.05
    fun = Freezes(Path(folder), [undisturbed_points()[3]])
    try:
        with leaping(clock, lambda: len(notes_in(fun.notes)) == 1 == clock.dispatcher.in_hand, 1000.0):
            result = run(fun, workers=ps.Workers(executor, timeout=LIMIT))
    finally:
        for line in notes_in(fun.notes):
            os.kill(int(line.split()[1]), signal.SIGKILL)
    assert len(notes_in(fun.notes)) == 1
    assert_same(result, serial())


def main(folder):
    import ray

    warnings.simplefilter("ignore")
    options = {"env_vars": {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}}
    ray.init(
        num_cpus=2,
        include_dashboard=False,
        object_store_memory=80_000_000,
        log_to_driver=False,
        logging_level="error",
        _node_ip_address="127.0.0.1",
        _temp_dir=f"{folder}/ray",
        runtime_env=options,
    )

    def passed(name):
        print(json.dumps(name), flush=True)

    try:
        executor = ps.RayExecutor()
        assert executor.slots == 2
        assert_same(run(workers=executor), serial())
        shift = 0.0
        for vectorized in (False, True):
            assert_same(run(lambda x: value(x) + shift, workers=ps.RayExecutor, vectorized=vectorized), serial())
        passed("same result")
        assert_same(run(workers=ps.Workers(executor, timeout=60)), serial())
        passed("same result with a time limit")

        noted = Path(folder, "noted")
        noted.mkdir()
        assert_same(run(Noted(noted), workers=executor), serial())
        loaded = notes_in(noted / "loaded")
        assert 1 <= len(loaded) == len(set(loaded)), loaded
        assert notes_in(noted / "dumped") == [str(os.getpid())]
        passed("the function is sent once")

        for fault in (*FAULTS, "stops_itself"):
            hangs = KINDS[fault] == "timed out"
            for timeout in (2.0,) if hangs else (60,) if fault in WITH_A_LIMIT else (None, 60):
                fun = Faulty(fault, fault_points())
                result = run(fun, workers=ps.Workers(ps.RayExecutor(max_retries=1), timeout=timeout))
                assert result.failure_kinds == {KINDS[fault]: 2}, (fault, timeout, result.failure_kinds)
                assert_same(result, serial_with_nan())
        passed("faults")

        points = undisturbed_points()
        for timeout, victim in ((None, "itself"), (60, "itself"), (60, "parent")):
            place = Path(folder, f"{timeout}{victim}")
            place.mkdir()
            fun = WaitsToBeKilled(place, [points[0], points[3], points[20]], victim)
            with Killer(fun) as killer:
                result = run(fun, workers=ps.Workers(executor, timeout=timeout))
            assert killer.killed == 3
            assert result.n_failed == 0, (timeout, victim, result.failures)
            assert_same(result, serial())
        passed("workers killed from outside")

        frozen_elsewhere(folder, executor)
        passed("the point of a frozen worker is evaluated elsewhere")

        executor.shutdown()
        with pytest.raises(ValueError, match="cannot schedule new futures"):
            run(workers=executor)
        passed("a closed executor is refused")
    finally:
        ray.shutdown()


if __name__ == "__main__":
    main(sys.argv[1])
