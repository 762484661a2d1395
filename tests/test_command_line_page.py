"""Every command on the page "Command line" runs, in the order of the page, and prints what the page shows."""

import contextlib
import io
import json
import os
import re
import shlex
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

from paoswarm import cli

PAGE = Path(__file__).parents[1] / "docs" / "command_line.md"
BLOCK = re.compile(r"^```(\S+|\{code-block\} \S+\n:caption: \S+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"\$ ((?:[^\n]*\\\n)*[^\n]*)\n(.*)", re.DOTALL)
NUMBER = re.compile(r"-?\d+\.?\d*(?:e[-+]?\d+)?")


def run(line):
    """What a command prints on either stream."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        name, *arguments = shlex.split(line.replace("\\\n", ""))
        assert name == "paoswarm"
        code = cli.main(arguments)
    assert code in (0, 1), said.getvalue()
    return said.getvalue()


def assert_alike(shown, said):
    """The words are the same, and numbers differ by a few percent at most; times, and an ellipsis, are anything."""
    shown, said = (re.sub(r"in \S+ s\b|\S+ per second", "TIME", " ".join(text.split())) for text in (shown, said))
    pattern = re.escape(NUMBER.sub("#", shown)).replace(r"\.\.\.", ".*")
    assert re.fullmatch(pattern, NUMBER.sub("#", said)), said
    if "..." not in shown:
        numbers = ([float(number) for number in NUMBER.findall(text)] for text in (shown, said))
        np.testing.assert_allclose(*numbers, rtol=0.1, atol=1e-6, err_msg=said)


@pytest.fixture
def no_model():
    """Other tests import a module of this name, too."""
    sys.modules.pop("model", None)
    yield
    sys.modules.pop("model", None)


@pytest.mark.usefixtures("no_model")
def test_the_page_does_what_it_shows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    count = 0
    for kind, body in BLOCK.findall(PAGE.read_text(encoding="utf-8")):
        if "caption" in kind:
            file = tmp_path / kind.rpartition(" ")[2]
            file.write_text(body)
            file.chmod(0o755)
        elif kind == "console":
            command, shown = COMMAND.fullmatch(body).groups()
            assert_alike(shown, run(command))
            count += 1
    assert count >= 8
    best = json.loads((tmp_path / "best.json").read_text())
    np.testing.assert_allclose(best["best"], [0.5**0.5] * 2, rtol=1e-6)
    draws = np.loadtxt(tmp_path / "draws.csv", delimiter=",", skiprows=1)
    assert draws.shape[1] == 2
    assert not list(Path(tempfile.gettempdir()).glob(f"paoswarm-*-{os.getpid()}-*"))


def test_a_page_that_shows_something_else_is_noticed():
    with pytest.raises(AssertionError):
        assert_alike("value 1.0\n", "value 2.0\n")
    with pytest.raises(AssertionError):
        assert_alike("value 1.0\n", "worth 1.0\n")
    assert_alike("a 1 in 3 s\n...\nend", "a 1 in 4.5 s\nmore\nend\n")
