"""Pages and modules whose package is not installed are not collected, nor are modules that import JAX.

JAX starts threads, after which processes must not be forked. Its tests run in a process of their own.
"""

import os
from importlib.util import find_spec

# Modules that need a package when they are imported, and pages whose code does.
NEEDED = {"optuna": ["src/paoswarm/optuna", "docs/optuna.md"], "ioh": ["docs/researchers.md"]}
MISSING = [package for package in NEEDED if find_spec(package) is None]
collect_ignore = [path for package in MISSING for path in NEEDED[package]]
IMPORT_JAX = ["cuda/engine", "jax_constants", "jax_engine", "jax_noise", "cuda/translate"]
if "PAOSWARM_TEST_JAX" not in os.environ:
    collect_ignore += [f"src/paoswarm/engines/{name}.py" for name in IMPORT_JAX]
    collect_ignore += [f"src/paoswarm/sampling/jax_{name}.py" for name in ("draws", "likelihood", "moves", "target")]


def pytest_report_header():
    """Say what is left out, and why."""
    return [f"not collected, because {package} is not installed: {', '.join(NEEDED[package])}" for package in MISSING]
