"""JAX in tests: only in a process of its own, because processes must not be forked once it has been imported."""

import os

import pytest

SETTING = "PAOSWARM_TEST_JAX"


def need_jax():
    """Return JAX, or skip: in the process of the other tests, and where it is not installed."""
    if SETTING not in os.environ:
        pytest.skip(f"runs in a process of its own, see test_jax_alone.py; or set {SETTING}=1", allow_module_level=True)
    return pytest.importorskip("jax", reason="JAX is not installed")
