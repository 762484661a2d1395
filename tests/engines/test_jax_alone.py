"""The tests that need JAX, in a process of their own."""

import os
import pathlib
import subprocess
import sys
from importlib.util import find_spec

import pytest
from jax_alone import SETTING

HERE = pathlib.Path(__file__).parent


@pytest.mark.skipif(find_spec("jax") is None, reason="JAX is not installed")
@pytest.mark.skipif(SETTING in os.environ, reason="this is that process")
@pytest.mark.timeout(1800)  # for all of them together; in that process each has its own limit
@pytest.mark.parametrize("speed", ["not slow", pytest.param("slow", marks=pytest.mark.slow)])
def test_the_engine_and_the_translator(speed):
    options = ["-q", "-n", "0", "-p", "no:cacheprovider", "-m", speed, "-k", "jax or translate or translated"]
    contract = HERE.parent / "run" / "test_contract_of_runs.py"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, str(HERE), str(contract)],
        env=os.environ | {SETTING: "1", "XLA_FLAGS": "--xla_force_host_platform_device_count=2"},
        capture_output=True,
        text=True,
        check=False,
        cwd=HERE.parents[1],
    )
    assert done.returncode == 0, done.stdout[-4000:]
    assert " passed" in done.stdout
