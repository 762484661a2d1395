"""Ray and MPI as workers. Each script runs in processes of its own."""

import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]  # Ray takes seconds to replace a worker


def passed_checks(command, **options):
    """Run a script and return the names of the checks that passed; fail if the script fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=890, **options)
    assert done.returncode == 0, (done.stdout[-1000:], done.stderr[-3000:])
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith('"')]


def test_ray(tmp_path_factory):
    if importlib.util.find_spec("ray") is None:
        pytest.skip("Ray is not installed")
    # Ray listens on all addresses, so it runs in a network namespace that has only the loopback.
    alone = ["unshare", "-n", "--", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
    if shutil.which("unshare") is None or subprocess.run([*alone, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no network namespaces here")
    folder = Path("/tmp") / f"r{tmp_path_factory.getbasetemp().stat().st_ino}"  # paths of sockets must be short
    folder.mkdir()
    try:
        assert passed_checks([*alone, sys.executable, HERE / "with_ray.py", folder]) == [
            "same result",
            "same result with a time limit",
            "the function is sent once",
            "faults",
            "workers killed from outside",
            "the point of a frozen worker is evaluated elsewhere",
            "a closed executor is refused",
        ]
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def test_mpi():
    if importlib.util.find_spec("mpi4py") is None or shutil.which("mpiexec") is None:
        pytest.skip("mpi4py or mpiexec is not installed")
    version = subprocess.run(["mpiexec", "--version"], capture_output=True, text=True, check=True).stdout
    loopback = ["--mca", "btl", "self,vader", "--mca", "oob_tcp_if_include", "lo"]
    of_open_mpi = ["--allow-run-as-root", "--oversubscribe", *loopback] if "Open MPI" in version else []
    command = ["mpiexec", *of_open_mpi, "-n", "3", sys.executable, "-m", "mpi4py.futures", HERE / "with_mpi.py"]
    assert passed_checks(command, cwd=HERE) == ["same result", "faults", "with a time limit"]
