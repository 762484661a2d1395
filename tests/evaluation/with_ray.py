"""Runs on a Ray cluster of this machine. Not a test itself: Ray listens to the network, so this wants one of its own.

``python with_ray.py FOLDER``: a line of JSON for every law that holds.
"""

import json
import os
import sys
import warnings
from pathlib import Path

import pytest
from fault_functions import (
    FAULTS,
    KINDS,
    Faulty,
    Innocent,
    Killer,
    assert_same,
    marks,
    run,
    serial,
    serial_with_nan,
    value,
)
from test_travel import Noted, notes_in

import paoswarm as ps


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

    def law(name):
        print(json.dumps(name), flush=True)

    try:
        executor = ps.RayExecutor()
        assert executor.slots == 2
        assert_same(run(workers=executor), serial())
        shift = 0.0
        for vectorized in (False, True):
            assert_same(run(lambda x: value(x) + shift, workers=ps.RayExecutor, vectorized=vectorized), serial())
        law("same result")
        assert_same(run(workers=executor, timeout=60), serial())
        law("same result with a time limit")

        noted = Path(folder, "noted")
        noted.mkdir()
        assert_same(run(Noted(noted), workers=executor), serial())
        loaded = notes_in(noted / "loaded")
        assert 1 <= len(loaded) == len(set(loaded)), loaded
        assert notes_in(noted / "dumped") == [str(os.getpid())]
        law("the function travels once")

        for fault in FAULTS:
            hangs = KINDS[fault] == "timed out"
            for timeout in (2.0,) if hangs else (60,) if fault in ("nan", "type") else (None, 60):
                fun = Faulty(fault, marks())
                result = run(fun, workers=ps.RayExecutor(max_retries=1), timeout=timeout)
                assert result.failure_kinds == {KINDS[fault]: 2}, (fault, timeout, result.failure_kinds)
                assert_same(result, serial_with_nan())
        law("faults")

        seen = []
        run(lambda x: (seen.append(float(x[0])), value(x))[1])
        for timeout, whom in ((None, "me"), (60, "me"), (60, "parent")):
            place = Path(folder, f"{timeout}{whom}")
            place.mkdir()
            innocent = Innocent(place, [seen[0], seen[3], seen[20]], whom)
            with Killer(innocent) as killer:
                result = run(innocent, workers=executor, timeout=timeout)
            assert killer.killed == 3
            assert result.n_failed == 0, (timeout, whom, result.failures)
            assert_same(result, serial())
        law("innocents")

        executor.shutdown()
        with pytest.raises(ValueError, match=r"takes no work \(cannot schedule new futures"):
            run(workers=executor)
        law("a closed one is refused")
    finally:
        ray.shutdown()


if __name__ == "__main__":
    main(sys.argv[1])
