"""The sdist and the wheel: complete, nothing else in them, and they work where nothing else is installed.

`make dist` gives the folder with the packages in PAOSWARM_DIST. Without it they are built here.
"""

import email
import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


def do(*command, cwd=None, **environment):
    """Run a command that sees nothing of this checkout; return its exit code and all that it printed."""
    clean = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "MYPYPATH")}
    done = subprocess.run(
        [str(part) for part in command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        cwd=cwd or ROOT.parent,
        env={**clean, **environment},
    )
    return done.returncode, done.stdout


@pytest.fixture(scope="module")
def sdist(tmp_path_factory):
    if "PAOSWARM_DIST" in os.environ:
        return next((ROOT / os.environ["PAOSWARM_DIST"]).glob("*.tar.gz"))
    folder = tmp_path_factory.mktemp("sdist")
    copy = folder / "copy"  # building leaves files behind
    shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".*", "build", "dist", "*.egg-info", "__pycache__"))
    tools = folder / "tools"
    assert do(sys.executable, "-m", "venv", tools)[0] == 0
    python = program(tools, "python")
    code, said = do(python, "-m", "pip", "install", "build")
    assert code == 0, said
    code, said = do(python, "-m", "build", "--sdist", "--outdir", folder, copy)
    assert code == 0, said
    return next(folder.glob("*.tar.gz"))


@pytest.fixture(scope="module")
def wheel(sdist, tmp_path_factory):
    """The wheel that is built from the sdist."""
    if "PAOSWARM_DIST" in os.environ:
        return next((ROOT / os.environ["PAOSWARM_DIST"]).glob("*.whl"))
    folder = tmp_path_factory.mktemp("wheel")
    code, said = do(sys.executable, "-m", "pip", "wheel", "--no-deps", "-w", folder, sdist)
    assert code == 0, said
    return next(folder.glob("*.whl"))


def program(venv, name):
    return venv / ("Scripts" if os.name == "nt" else "bin") / name


@pytest.fixture(scope="module")
def empty(wheel, tmp_path_factory):
    """An environment with the wheel and its dependencies, and nothing else."""
    return installed(wheel, sys.executable, tmp_path_factory.mktemp("empty") / "venv")


def installed(wheel, python, venv):
    assert do(python, "-m", "venv", venv)[0] == 0
    code, said = do(program(venv, "python"), "-m", "pip", "install", wheel)
    assert code == 0, said
    return venv


def in_the_source():
    """Every file that the wheel must hold."""
    files = {p for p in (ROOT / "src" / "paoswarm").rglob("*") if p.is_file() and "__pycache__" not in p.parts}
    return {p.relative_to(ROOT / "src").as_posix() for p in files}


def test_the_wheel_holds_the_package_and_nothing_else(wheel):
    held = {name for name in zipfile.ZipFile(wheel).namelist() if not name.endswith("/")}
    about = {name for name in held if name.startswith(f"paoswarm-{VERSION}.dist-info/")}
    assert held - about == in_the_source()
    assert {"METADATA", "RECORD", "WHEEL", "entry_points.txt", "LICENSE"} <= {Path(name).name for name in about}
    assert {"paoswarm/py.typed", "paoswarm/explorer/static/index.html"} <= held
    assert "paoswarm/study/templates/report.html.j2" in held


def test_the_wheel_is_for_every_platform(wheel):
    about = zipfile.ZipFile(wheel).read(f"paoswarm-{VERSION}.dist-info/WHEEL").decode()
    assert email.message_from_string(about).get_all("Tag") == ["py3-none-any"]
    assert wheel.name == f"paoswarm-{VERSION}-py3-none-any.whl"


def test_the_sdist_holds_what_git_does(sdist):
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("this is no git checkout")
    with tarfile.open(sdist) as archive:
        held = {m.name.partition("/")[2] for m in archive.getmembers() if m.isfile()}
    made = {name for name in held if name in ("PKG-INFO", "setup.cfg") or ".egg-info/" in name}
    ours = {name for name in listed.stdout.split("\0") if name and not name.startswith(".")}
    assert held - made == ours


def check_installed(venv):
    """Use everything once, as a user would."""
    code, said = do(program(venv, "paoswarm"), "info")
    assert code == 0, said
    code, said = do(program(venv, "python"), "-W", "error", HERE / "consumer.py")
    assert code == 0, said


def test_it_works_without_extras(empty):
    check_installed(empty)
    code, said = do(program(empty, "python"), "-m", "pip", "list", "--format=freeze")
    assert code == 0
    assert {line.partition("==")[0] for line in said.splitlines()} & {"numpy", "scipy", "matplotlib"} == {
        "numpy",
        "scipy",
    }


def test_errors_name_missing_extras(empty):
    code, said = do(program(empty, "python"), HERE / "missing_extras.py")
    assert code == 0, said


@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13", "3.14"])
def test_the_wheel_works_with_every_python_that_is_here(version, wheel, tmp_path):
    python = shutil.which(f"python{version}")
    if python is None or do(python, "-c", "")[0] != 0:
        pytest.skip(f"there is no Python {version} here")
    check_installed(installed(wheel, python, tmp_path / "venv"))


def test_users_can_check_their_types(empty, tmp_path):
    pytest.importorskip("mypy", reason="mypy is not installed")
    right, wrong = tmp_path / "right.py", tmp_path / "wrong.py"
    right.write_text((HERE / "consumer.py").read_text())
    wrong.write_text(
        "import paoswarm as ps\n"
        "ps.minimise\n"  # there is no such name
        "ps.minimize(3.0, [(0, 1)])\n"  # no function
        "ps.minimize(lambda x: 0.0, [(0, 1)], maxiter='many')\n"
        "ps.sample(lambda x: 0.0, [(0, 1)]).mean().append(1)\n"
    )
    command = sys.executable, "-m", "mypy", "--strict", "--python-executable", program(empty, "python")
    code, said = do(*command, right, cwd=tmp_path)
    assert code == 0, said
    code, said = do(*command, wrong, cwd=tmp_path)
    assert code == 1
    assert [line.split(":")[1] for line in said.splitlines() if ": error:" in line] == ["2", "3", "4", "5"], said
