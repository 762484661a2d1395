"""Imports go one way, and importing the package has no side effects."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import paoswarm

ROOT = Path(paoswarm.__file__).parent
# Each may import itself and what stands before it.
LAYERS = [
    "checks",
    "keywords",
    "warn_user",
    "error_text",
    "plain_json",
    "extras",
    "progress_bar",
    "notebook",
    "core",
    "spaces",
    "algorithms",
    "compiled",
    "storage",
    "evaluation",
    "optimize",
    "fits",
    "sampling",
    "sklearn",
    "resume_run",
]
LAYERS += ["problems", "plot", "study", "explorer", "optuna", "cli", "__main__"]


def layer_of(module):
    """The layer of ``paoswarm.core.swarm``; None for the package itself and for other packages."""
    parts = module.split(".")
    return parts[1] if parts[0] == "paoswarm" and len(parts) > 1 and parts[1] in LAYERS else None


def imported(source, package):
    """Every module named by an import anywhere in the source."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package.rsplit(".", node.level - 1)[0] if node.level else ""
            module = ".".join(filter(None, [base, node.module]))
            yield module
            yield from (f"{module}.{alias.name}" for alias in node.names)


def climbs(source, module):
    """The imports of a module that lead to a layer above its own, or to the package itself."""
    own = LAYERS.index(layer_of(module))
    found = set(imported(source, module.rpartition(".")[0]))
    return sorted(m for m in found if m == "paoswarm" or (layer_of(m) and LAYERS.index(layer_of(m)) > own))


MODULES = sorted(".".join(("paoswarm", *p.relative_to(ROOT).with_suffix("").parts)) for p in ROOT.rglob("*.py"))


@pytest.mark.parametrize("module", [m for m in MODULES if layer_of(m)])
def test_a_layer_imports_only_downwards(module):
    source = ROOT.joinpath(*module.split(".")[1:]).with_suffix(".py").read_text()
    assert climbs(source, module) == []


def test_every_module_belongs_to_a_layer():
    assert [m for m in MODULES if not layer_of(m)] == ["paoswarm.__init__"]


@pytest.mark.parametrize(
    "line",
    [
        "import paoswarm.algorithms.pao",
        "from paoswarm.optimize import minimize",
        "from ..algorithms import pao",
        "from paoswarm import algorithms",
        "import paoswarm as ps",
        "def f():\n    from paoswarm.algorithms.pao import PAO",
    ],
)
def test_an_import_upwards_is_noticed(line):
    assert climbs(line, "paoswarm.core.swarm")


def test_the_design_names_every_module_and_no_other():
    tree = (ROOT.parents[1] / "DESIGN.md").read_text().split("```")[1]
    named = set(re.findall(r"\b\w+\.py\b", tree))
    assert named == {p.name for p in ROOT.rglob("*.py") if p.name != "__init__.py" and p.parent.name != "problems"}


def test_importing_the_package_is_light_and_leaves_no_trace():
    code = """
import sys, warnings
import numpy as np
warnings.simplefilter("error")
before = np.random.get_state()[1].tolist()
import paoswarm
heavy = "matplotlib scipy.stats pyarrow plotly jinja2 cma cocoex ioh optuna pandas jax xarray lmfit sklearn"
heavy += " tqdm numba cupy"
heavy = heavy.split()
heavy = [m for m in heavy if m in sys.modules]
assert not heavy, heavy
assert np.random.get_state()[1].tolist() == before
assert all(hasattr(paoswarm, name) for name in paoswarm.__all__)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_run_loads_only_the_rooms_that_it_needs():
    """Half of the start is the import of SciPy, and its statistics alone would double that."""
    code = """
import sys
import paoswarm as ps
assert not [name for name in sys.modules if name.startswith(("paoswarm.", "numpy", "scipy"))]
ps.minimize(lambda x: (x**2).sum(), [(-1, 1)] * 2, maxfev=100)
rooms = {".".join(name.split(".")[:2]) for name in sys.modules if name.startswith(("paoswarm.", "scipy."))}
unneeded = {f"paoswarm.{room}" for room in "fits sampling sklearn problems plot study explorer optuna cli".split()}
unneeded |= {f"scipy.{room}" for room in "stats integrate interpolate ndimage signal".split()}
assert not rooms & unneeded, rooms & unneeded
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
