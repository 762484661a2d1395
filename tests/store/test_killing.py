"""SIGKILL at random moments: nothing acknowledged is lost, nothing finished is repeated, the result is the same."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


def kill(folder, *modes):
    """Run killing.py, which fails if something was lost, and return its counts."""
    script = Path(__file__).with_name("killing.py")
    done = subprocess.run(
        [sys.executable, script, folder, *map(str, modes)], capture_output=True, text=True, check=False, timeout=1500
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_killed_run_loses_nothing_and_ends_with_the_same_bits(tmp_path):
    counted = kill(tmp_path, "rows", 6, "workers", 3, "fit", 3)
    assert [one["kills"] for one in counted] == [6, 3, 3]


@pytest.mark.slow
@pytest.mark.timeout(1600)
@pytest.mark.parametrize(
    ("mode", "kills"),
    [
        *[("rows", 300), ("workers", 100), ("asynchronous", 100), ("vectorized", 100), ("sample", 100)],
        *[("fit", 200), ("fit-workers", 100), ("fit-asynchronous", 100)],
    ],
)
def test_a_run_that_is_killed_hundreds_of_times(tmp_path, mode, kills):
    (counted,) = kill(tmp_path, mode, kills)
    assert counted["kills"] == kills
    if mode == "rows":
        assert counted["repeated"] <= kills
