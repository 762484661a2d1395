"""Imports go one way, and importing the package has no side effects."""

import ast
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

import paoswarm

ROOT = Path(paoswarm.__file__).parent
# Each may import itself and what stands before it.
LAYERS = [
    "_checks",
    "_text",
    "_extras",
    "core",
    "laws",
    "space",
    "methods",
    "least_squares",
    "classic",
    "engines",
    "store",
    "evaluate",
    "errors",
    "run",
    "sampling",
    "fitting",
    "helpers",
    "results",
    "sklearn",
    "resume_run",
]
LAYERS += ["problems", "plot", "study", "explorer", "optuna", "cli", "__main__"]
SATELLITES = ("study", "explorer", "cli", "optuna", "sklearn")


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
    may_use_all = layer_of(module) in SATELLITES  # by its public names, see below
    above = {m for m in found if (m == "paoswarm" and not may_use_all) or LAYERS.index(layer_of(m) or LAYERS[0]) > own}
    return sorted(above)


MODULES = sorted(".".join(("paoswarm", *p.relative_to(ROOT).with_suffix("").parts)) for p in ROOT.rglob("*.py"))


def test_a_layer_imports_only_downwards():
    paths = {module: ROOT.joinpath(*module.split(".")[1:]).with_suffix(".py") for module in MODULES if layer_of(module)}
    upwards = {module: climbs(path.read_text(), module) for module, path in paths.items()}
    assert {module: found for module, found in upwards.items() if found} == {}


def test_every_module_belongs_to_a_layer():
    assert [m for m in MODULES if not layer_of(m)] == ["paoswarm.__init__"]


@pytest.mark.parametrize(
    "line",
    [
        "import paoswarm.methods.pao",
        "from paoswarm.run import minimize",
        "from ..methods import pao",
        "from paoswarm import methods",
        "import paoswarm as ps",
        "def f():\n    from paoswarm.methods.pao import PAO",
    ],
)
def test_an_import_upwards_is_noticed(line):
    assert climbs(line, "paoswarm.core.swarm")


def test_the_design_names_every_package_and_no_other():
    tree = (
        (ROOT.parents[1] / "DESIGN.md").read_text().split("```")[1].partition("tests/")[0].partition("paoswarm/\n")[2]
    )
    named = {name.removesuffix(".py").strip("/") for name in re.findall(r"\b_?\w+(?:\.py|/(?=\s))", tree)}
    assert named == {name for name in LAYERS if name != "__main__"}


def trees(rooms):
    """The modules of packages, parsed."""
    for room in rooms:
        for path in sorted((ROOT / room).rglob("*.py") if (ROOT / room).is_dir() else [ROOT / f"{room}.py"]):
            module = ".".join(("paoswarm", *path.relative_to(ROOT).with_suffix("").parts))
            yield module.removesuffix(".__init__"), ast.parse(path.read_text(encoding="utf-8"))


def is_public(module, name):
    """Whether a program may import the name from the module: from paoswarm itself, or from one of its namespaces."""
    space = paoswarm if module == "paoswarm" else getattr(paoswarm, module.partition(".")[2], None)
    if module == "paoswarm.helpers":
        space = importlib.import_module(module)
    return name in getattr(space, "__all__", ())


def private_uses(room, tree):
    """Imports of a satellite that are neither its own nor public."""
    own = f"paoswarm.{room}"
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith("paoswarm."))
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "paoswarm":
            if f"{node.module}.".startswith(f"{own}."):
                continue
            yield from (f"{node.module}.{a.name}" for a in node.names if not is_public(node.module, a.name))


@pytest.mark.parametrize("room", SATELLITES)
def test_satellites_use_public_names_only(room):
    assert {module: found for module, tree in trees([room]) if (found := list(private_uses(room, tree)))} == {}


@pytest.mark.parametrize(
    "line",
    [
        "from paoswarm.core.swarm import Swarm",
        "from paoswarm._checks import flag",
        "from paoswarm.run import minimize",
        "import paoswarm.core",
        "from paoswarm import core",
        "from paoswarm.results import np",
    ],
)
def test_a_private_use_is_noticed(line):
    assert list(private_uses("study", ast.parse(line)))


def private_names(tree):
    """Private names of our modules that a module takes from another one."""
    ours = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "paoswarm":
            ours |= {alias.asname or alias.name for alias in node.names if alias.name.islower()}
            yield from (a.name for a in node.names if a.name.startswith("_") and a.name[1:2] != "_" and node.level == 0)
    for node in ast.walk(tree):
        of_ours = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in ours
        if of_ours and node.attr.startswith("_") and not node.attr.startswith("__"):
            yield f"{node.value.id}.{node.attr}"


@pytest.mark.parametrize(
    "code", ["from paoswarm.core.swarm import _recorded", "from paoswarm.core import swarm\nswarm._recorded"]
)
def test_a_private_name_is_noticed(code):
    assert list(private_names(ast.parse(code)))


def test_no_module_uses_the_private_names_of_another():
    uses = {module: list(private_names(tree)) for module, tree in trees(LAYERS)}
    assert {module: found for module, found in uses.items() if found} == {}


FRESH = """
import sys

def assert_missing(names, after):
    loaded = [name for name in sys.modules for room in names.split() if f"{name}.".startswith(f"{room}.")]
    assert not loaded, (after, loaded)

import paoswarm as ps
assert_missing("numpy scipy", "the package")
assert not [name for name in sys.modules if name.startswith("paoswarm.")]

import warnings
import numpy as np
warnings.simplefilter("error")
before = np.random.get_state()[1].tolist()
ps.minimize(lambda x: (x**2).sum(), [(-1, 1)] * 2, maxfev=100)
heavy = "matplotlib scipy.stats pyarrow plotly jinja2 cma cocoex ioh optuna pandas jax xarray lmfit sklearn"
heavy += " tqdm numba cupy scipy.integrate scipy.interpolate scipy.ndimage scipy.signal"
rooms = " ".join(f"paoswarm.{room}" for room in "fits sampling sklearn plot study explorer optuna cli".split())
assert_missing(heavy + " paoswarm.problems " + rooms, "a run")

import paoswarm.problems
assert_missing(heavy + " " + rooms, "the problems")

import paoswarm.study.report
assert_missing("jinja2 plotly matplotlib", "reports")

from paoswarm.study import figures, publish
assert ps.study.figures is figures and callable(publish) and callable(ps.study.read_study)
assert ps.study.statistics.holm([0.01, 0.02]).tolist() == [0.02, 0.02]
try:
    ps.no_such_name
except AttributeError as error:
    assert "no_such_name" in str(error)
else:
    raise AssertionError

assert all(hasattr(ps, name) for name in ps.__all__)
assert np.random.get_state()[1].tolist() == before, "the global random state has changed"
"""


def test_a_fresh_interpreter_imports_what_is_used_and_nothing_else():
    """Half of the start is the import of SciPy, and its statistics alone would double that."""
    done = subprocess.run([sys.executable, "-c", FRESH], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
