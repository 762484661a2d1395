"""A run that test_ends.py kills or interrupts from outside.

``python driver.py FOLDER WORKERS TIMEOUT``: every evaluation notes its process and that of the `sleep` it has started.
"""

import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial

import paoswarm as ps

WORKERS = {
    "processes": 2,
    "threads": partial(ThreadPoolExecutor, 2),
    "pools": partial(ProcessPoolExecutor, 2),
}


class Busy:
    """Notes its process; from the second generation on, it never returns."""

    def __init__(self, folder):
        self.folder = folder

    def __call__(self, x):
        import os

        import fault_functions

        fault_functions.note(f"{self.folder}/evaluations", "1")
        if len(fault_functions.notes_in(f"{self.folder}/evaluations")) > 8:
            sleeping = subprocess.Popen(["sleep", "1000"])
            fault_functions.note(f"{self.folder}/pids", f"{os.getpid()}\n{sleeping.pid}")
            sleeping.wait()
        return float(fault_functions.value(x))


def main(folder, workers, timeout):
    result = ps.minimize(
        Busy(folder),
        [(-4.0, 5.0)] * 2,
        method=ps.PAO(),
        workers=ps.Workers(WORKERS[workers], timeout=None if timeout == "None" else float(timeout)),
        n_particles=8,
        maxiter=3,
        rng=1,
    )
    print(result.status.name, result.nfev, float(result.fun).hex(), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
