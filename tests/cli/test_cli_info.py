"""`paoswarm info` and `--help`: what they say, and that they import nothing large."""

import json
import subprocess
import sys

import pytest

import paoswarm as ps
from paoswarm import cli
from paoswarm.cli.commands import COMMANDS


def test_info_is_complete(capsys):
    assert cli.main(["info", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["versions"]["paoswarm"] == ps.__version__
    assert found["cores"] >= 1
    assert "threads" in found["workers"]
    assert found["extras"]["dataframe"].keys() == {"pandas"}
    assert found["extras"]["study"].keys() >= found["extras"]["plot"].keys()  # it includes that one
    assert "dev" not in found["extras"]
    assert cli.main(["info"]) == 0
    said = capsys.readouterr().out
    assert said.splitlines()[0].split() == ["paoswarm", ps.__version__]
    assert "\nextras\n" in said


def test_info_names_what_is_missing_and_how_to_install_it(capsys, monkeypatch):
    monkeypatch.setattr("paoswarm.cli.info._version", lambda package: None if package == "tqdm" else "1.0")
    assert cli.main(["info"]) == 0
    said = capsys.readouterr().out
    lines = [" ".join(line.split()) for line in said.splitlines()]
    assert "progress missing: tqdm (pip install 'paoswarm[progress]')" in lines


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_examples(command, capsys):
    with pytest.raises(SystemExit, match="0"):
        cli.main([command, "--help"])
    said = capsys.readouterr().out
    assert f"usage: paoswarm {command}" in said
    assert f"paoswarm {command}" in said.partition("examples:")[2]


def test_help_lists_all_commands_and_exit_codes(capsys):
    with pytest.raises(SystemExit, match="0"):
        cli.main(["--help"])
    said = capsys.readouterr().out
    assert all(f"    {command} " in said for command in COMMANDS)
    assert "130  interrupted" in said


def test_help_and_info_import_nothing_large():
    code = """
import sys
from paoswarm.cli import main
from paoswarm.cli.commands import COMMANDS
for arguments in (["info"], *([command, "--help"] for command in COMMANDS)):
    try:
        main(arguments)
    except SystemExit:
        pass
heavy = sorted(name for name in ("numpy", "scipy", "paoswarm.run.minimize", "tqdm") if name in sys.modules)
assert not heavy, heavy
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
