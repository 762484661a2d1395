"""The page docs/sampling_constants.md lists every constant of the search and of the adaptation, with its value."""

import ast
import importlib
import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "sampling_constants.md"
FILES = ["search", "climbs", "starts", "adapt"]
ORIGINS = ("derived", "literature", "measured", "chosen")


def in_the_code():
    """Values of all constants at the top level of the files, but for messages."""
    found = {}
    for file in FILES:
        module = importlib.import_module(f"paoswarm.sampling.{file}")
        for node in ast.parse(Path(module.__file__).read_text()).body:
            names = [target.id for target in getattr(node, "targets", []) if isinstance(target, ast.Name)]
            for name in filter(str.isupper, names):
                value = getattr(module, name)
                if not isinstance(value, str):
                    found[f"{file}.{name}"] = list(value) if isinstance(value, tuple) else [value]
    return found


def on_the_page():
    rows = [line.strip("|").split(" | ") for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    return {re.search(r"`(.+)`", cells[0])[1]: [cell.strip() for cell in cells[1:]] for cells in rows}


def test_the_page_lists_every_constant_and_no_other():
    assert sorted(on_the_page()) == sorted(in_the_code())


def test_the_values_on_the_page_are_those_of_the_code():
    rows = on_the_page()
    for name, values in in_the_code().items():
        assert [float(value) for value in rows[name][0].split(",")] == pytest.approx(values, rel=1e-5), name


def test_every_constant_has_a_meaning_an_origin_and_measured_effects():
    for name, (_, meaning, origin, half, double) in on_the_page().items():
        assert meaning, name
        assert origin.startswith(ORIGINS), name
        assert half, name
        assert double, name
