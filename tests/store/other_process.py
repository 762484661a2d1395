"""Code run in other processes, where sets have another order."""

import os
import subprocess
import sys


def outputs_with_other_hashes(code):
    """What the code prints with different seeds of Python's hashes."""
    return {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
