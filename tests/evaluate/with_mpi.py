"""Checks with MPI workers, run by test_clusters.py: ``mpiexec -n 3 python -m mpi4py.futures with_mpi.py``."""

import json
import warnings

from fault_functions import Faulty, assert_same, fault_points, run, serial, serial_with_nan, value

import paoswarm as ps


def main():
    from mpi4py.futures import MPIPoolExecutor

    warnings.simplefilter("ignore")

    def passed(name):
        print(json.dumps(name), flush=True)

    with MPIPoolExecutor() as executor:
        assert executor.num_workers == 2
        shift = 0.0
        for vectorized in (False, True):
            assert_same(run(lambda x: value(x) + shift, workers=executor, vectorized=vectorized), serial())
        passed("same result")
        for fault, kind in (("raises", "raised"), ("calls_sys_exit", "raised"), ("returns_nan", "returned NaN")):
            result = run(Faulty(fault, fault_points()), workers=executor)
            assert result.failure_kinds == {kind: 2}
            assert_same(result, serial_with_nan())
        passed("faults")
        result = run(Faulty("starts_program_that_hangs", fault_points()), workers=ps.Workers(executor, timeout=2.0))
        assert result.failure_kinds == {"timed out": 2}
        assert_same(result, serial_with_nan())
        result = run(Faulty("segfaults", fault_points()), workers=ps.Workers(executor, timeout=60))
        assert result.failure_kinds == {"died": 2}
        assert_same(result, serial_with_nan())
        passed("with a time limit")


if __name__ == "__main__":
    main()
