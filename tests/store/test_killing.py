"""SIGKILL and Ctrl-C at any moment: nothing is lost, nothing that is finished is repeated, the result is the same."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


def counts_of(script, folder, *modes):
    """Run a script that fails if something was lost, and return its counts."""
    if any(mode.startswith("compil") for mode in map(str, modes)) and importlib.util.find_spec("numba") is None:
        pytest.skip("numba is not installed")
    script = Path(__file__).with_name(script)
    done = subprocess.run(
        [sys.executable, script, folder, *map(str, modes)], capture_output=True, text=True, check=False, timeout=1500
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_killed_run_loses_nothing_and_ends_with_the_same_bits(tmp_path):
    counted = counts_of("killing.py", tmp_path, "rows", 6, "workers", 3, "fit", 3, "program", 3)
    assert [one["kills"] for one in counted] == [6, 3, 3, 3]


def test_no_interrupt_is_lost_and_no_evaluation(tmp_path):
    """Also of an objective that swallows exceptions, as compilers do that Python calls back."""
    counted = counts_of("interrupting.py", tmp_path, "rows", 4, "workers", 2, "swallowing", 1)
    assert [one["interrupts"] for one in counted] == [4, 2, 1]


@pytest.mark.slow
@pytest.mark.timeout(1600)
@pytest.mark.parametrize(
    ("mode", "kills"),
    [
        *[("rows", 300), ("many", 100), ("workers", 100), ("asynchronous", 100), ("vectorized", 100), ("sample", 100)],
        *[("fit", 200), ("fit-workers", 100), ("fit-asynchronous", 100), ("compiled", 100), ("compiled-large", 100)],
        *[("program", 50), ("program-workers", 50)],
    ],
)
def test_a_run_that_is_killed_hundreds_of_times(tmp_path, mode, kills):
    (counted,) = counts_of("killing.py", tmp_path, mode, kills)
    assert counted["kills"] == kills
    if mode == "rows":
        assert counted["repeated"] <= kills


@pytest.mark.slow
@pytest.mark.timeout(1600)
@pytest.mark.parametrize(
    ("mode", "interrupts"),
    [
        *[("rows", 60), ("many", 50), ("vectorized", 50), ("workers", 50), ("asynchronous", 50), ("sample", 40)],
        *[("fit", 40), ("fit-asynchronous", 30), ("compiled", 40), ("program", 30), ("program-workers", 20)],
        *[("compiling", 25), ("compiling-adaptive", 8), ("swallowing", 7), ("sample-wide", 10)],
    ],
)
def test_a_run_that_is_interrupted_again_and_again(tmp_path, mode, interrupts):
    (counted,) = counts_of("interrupting.py", tmp_path, mode, interrupts)
    assert counted["interrupts"] == interrupts
