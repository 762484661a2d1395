"""What a stored run may start: all of it is named before, and nothing of somebody else runs without a yes."""

import io
import os
import sys
from pathlib import Path

import pytest

import paoswarm as ps
from paoswarm import cli

pytestmark = pytest.mark.skipif(os.name != "posix", reason="programs here are shell scripts")

MODEL = """
from pathlib import Path
Path({mark!r}).touch()

def cost(x):
    return float((x**2).sum())

def allowed(x):
    return -x[0] - 9
"""


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setattr(sys, "path", list(sys.path))
    written(Path("model.py"), MODEL.format(mark=str(tmp_path / "imported")))
    written(Path("simulate"), f"#!/bin/sh\ntouch {tmp_path / 'started'}\necho $1\n")
    yield
    forget()


def forget():
    for name in ("model", "other", "own"):
        sys.modules.pop(name, None)


def written(path, text):
    path.write_text(text)
    path.chmod(0o755)
    return path


def started(*arguments):
    """A run of the command line, stopped; what it has imported is forgotten."""
    limits = ["--maxfev", "12", "--seed", "1", "--particles", "6", "--method", "PAO", "--store", "run"]
    assert cli.main(["minimize", *arguments, *limits]) == 1
    forget()
    for mark in ("imported", "started"):
        Path("..", mark).unlink(missing_ok=True)


def made_by_another(origin):
    """A stored run whose origin is anything that somebody has written there."""
    store = ps.Store("run", origin={"folder": str(Path.cwd()), **origin})
    ps.minimize(lambda x: float((x**2).sum()), [(-5, 5)], method="PAO", n_particles=6, maxfev=12, rng=1, store=store)


def resumed(capsys, *more, code):
    capsys.readouterr()
    assert cli.main(["resume", "run", "--maxfev", "18", *more]) == code
    return capsys.readouterr().err


def ran():
    return Path("../imported").exists() or Path("../started").exists()


def refused(capsys, why):
    """It does not run outside of a terminal, and the reason is told; with --trust it does."""
    said = resumed(capsys, code=2)
    assert why in said.splitlines()[-1]
    assert "--trust" in said
    assert not ran()
    return said


FUNCTION, PROGRAM = ["model.py:cost", "--bounds", "-5,5"], ["--command", "./simulate {a}", "--bounds", "a=0,1"]


@pytest.mark.parametrize("what", [FUNCTION, ["model:cost", *FUNCTION[1:]], PROGRAM])
def test_one_s_own_run_goes_on_in_its_folder(what, capsys):
    started(*what)
    said = resumed(capsys, code=1)
    assert said.startswith("paoswarm: run goes on with --")
    assert f" in {Path.cwd()}\n" in said
    assert ran()


def test_a_script_of_python_in_the_folder_is_a_program_of_it(capsys):
    written(Path("simulate.py"), "import sys; print(sys.argv[1])")
    started("--command", "python3 simulate.py {a}", *PROGRAM[2:])
    assert "18 evaluations" not in resumed(capsys, code=1)
    written(Path("simulate.py"), "import sys; print(1)")
    refused(capsys, "file simulate.py has changed")


def test_everything_is_named_with_its_folder(capsys):
    Path("case").mkdir()
    written(Path("case.in"), "{x0}")
    options = ["--folder", "case", "--template", "case.in", "--keep", "kept", "--value-from", "out"]
    command = ["--command", "cp case out", "--bounds", "1,2", *options]
    started(*command, "--constraints", "model.py:allowed")
    said = refused(capsys, "cp is not a file of this folder").splitlines()[0]
    assert said == (
        "paoswarm: run goes on with --command 'cp case out' --folder case --template case.in --value-from out "
        f"--keep kept --constraints model.py:allowed in {Path.cwd()}"
    )


def test_another_folder_s_file_is_not_taken_for_one_s_own(capsys, monkeypatch, tmp_path):
    started(*FUNCTION)
    (tmp_path / "there").mkdir()
    Path("run").rename(tmp_path / "there" / "run")
    written(tmp_path / "there" / "model.py", "def cost(x):\n    return 0.0\n")
    monkeypatch.chdir(tmp_path / "there")
    refused(capsys, "that is not the current folder")
    assert resumed(capsys, "--trust", code=1).startswith("paoswarm: run goes on with --fun model.py:cost in ")
    assert ran()


@pytest.mark.parametrize(("what", "file"), [(FUNCTION, "model.py"), (PROGRAM, "simulate")])
def test_a_changed_file_is_noticed_before_it_runs(what, file, capsys):
    started(*what)
    written(Path(file), Path(file).read_text() + "\n# more\n")
    refused(capsys, f"{file} has changed since it was recorded")
    resumed(capsys, "--trust", code=1)
    assert ran()


def test_a_shell_is_asked_about(capsys):
    started(*PROGRAM, "--shell")
    refused(capsys, "a shell runs it")


@pytest.mark.parametrize(
    ("origin", "why"),
    [
        ({"function": "os:system"}, "os is not a file of this folder"),
        ({"function": "../other.py:cost"}, "../other.py is not a file"),
        ({"function": "link.py:cost"}, "link.py is not a file"),
        ({"function": "model.py:cost"}, "model.py has changed"),  # it may be any script of the user
        ({"function": "model.py:cost", "constraints": ["../other.py:g"]}, "../other.py is not a file"),
        ({"function": "model.py:cost", "method": "subprocess:run"}, "subprocess is not a file"),
        ({"command": {"command": "sh -c 'touch ../started; echo 1' {x0}"}}, "sh is not a file"),
        ({"command": {"command": "simulate {x0}"}}, "simulate is not a file"),
        ({"command": {"command": "python3 -c 1 {x0}"}}, "-c is not a file"),
        ({"command": {"command": "../evil {x0}"}}, "../evil is not a file"),
        ({"command": {"command": "./simulate {x0}"}}, "command, the reading of its value, file ./simulate has changed"),
        ({"command": {"command": "./simulate {x0}", "keep": "../kept"}}, "../kept is not a file"),
        ({"command": {"command": "./simulate {x0}", "folder": ".."}}, ".. is not a file"),
        ({"command": {"command": "./simulate {x0}", "templates": ["/etc/passwd"]}}, "/etc/passwd is not a file"),
        ({"command": {"command": "./simulate {x0}", "templates": ["/dev/zero"]}}, "/dev/zero is not a file"),
        ({"command": {"command": "./simulate {x0}"}, "folder": "/nowhere/at/all"}, "has changed"),
        ({"function": "model.py:cost", "folder": "/"}, "that is not the current folder"),
    ],
)
def test_a_file_of_somebody_else_starts_nothing(origin, why, capsys, tmp_path):
    mark = str(tmp_path / "imported")
    written(tmp_path / "other.py", MODEL.format(mark=mark))
    written(tmp_path / "evil", f"#!/bin/sh\ntouch {mark}\necho 1\n")
    Path("link.py").symlink_to(tmp_path / "other.py")
    made_by_another(origin)
    refused(capsys, why)
    assert not Path("../kept").exists()


class Terminal(io.StringIO):
    """What a user types."""

    def isatty(self):
        return True


def test_a_terminal_is_asked(capsys, monkeypatch):
    started(*PROGRAM, "--shell")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    for answer in ("n\n", "\n", ""):
        monkeypatch.setattr(sys, "stdin", Terminal(answer))
        said = resumed(capsys, "--quiet", code=2)
        assert "a shell runs it. Run it? [y/N] " in said
        assert "nothing was run" in said
        assert not ran()
    monkeypatch.setattr(sys, "stdin", Terminal("y\n"))
    resumed(capsys, "--quiet", code=1)
    assert ran()


def test_what_the_user_states_is_not_asked_about(capsys):
    made_by_another({"function": "os:system", "constraints": ["os:system"]})
    resumed(capsys, "--fun", "model.py:cost", "--trust", code=1)
    assert ran()
    Path("run").unlink()
    written(Path("own.py"), Path("model.py").read_text())
    started(*FUNCTION, "--constraints", "own.py:allowed")
    written(Path("own.py"), Path("own.py").read_text() + "\n# more\n")
    refused(capsys, "own.py has changed")
    resumed(capsys, "--constraints", "own.py:allowed", code=1)
    assert ran()


def test_names_cannot_control_the_terminal_nor_add_lines(capsys):
    made_by_another({"function": "x\x1b[2J\n\u202ey.py:f"})
    said = resumed(capsys, code=2)
    assert said.count("\n") == 2
    assert not {"\x1b", "\u202e"} & set(said)
