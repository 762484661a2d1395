"""What pyproject.toml says, whatever else says it says the same: the version, the oldest Python, the extras."""

import re
import tomllib
from importlib.metadata import metadata
from pathlib import Path

import missing_extras
import pytest

import paoswarm as ps
from paoswarm.cli.info import gathered

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_the_installed_package_has_the_version_of_the_source():
    assert ps.__version__ == PROJECT["version"]
    assert metadata("paoswarm")["Version"] == PROJECT["version"]


@pytest.mark.parametrize(
    ("page", "where"), [("CITATION.cff", r"^version: (\S+)$"), ("CHANGELOG.md", r"^## (\d+\.\d+\S*) - ")]
)
def test_pages_state_the_version_of_the_source(page, where):
    stated = re.findall(where, (ROOT / page).read_text(), re.MULTILINE)
    assert stated[:1] == [PROJECT["version"]]


def test_the_version_is_no_second_time_in_the_code():
    literal = re.compile(r"""__version__\s*=|["']""" + re.escape(PROJECT["version"]) + r"""["']""")
    assert literal.search(f'__version__ = "{PROJECT["version"]}"')  # the check would see it
    assert [p.name for p in (ROOT / "src").rglob("*.py") if literal.search(p.read_text())] == []


def test_classifiers_begin_with_the_oldest_python_and_have_no_gap():
    named = [
        c.rpartition(" ")[2] for c in PROJECT["classifiers"] if c.startswith("Programming Language :: Python :: 3.")
    ]
    oldest = PROJECT["requires-python"].removeprefix(">=")
    assert oldest == named[0]
    assert [int(v.partition(".")[2]) for v in named] == list(range(11, 11 + len(named)))


def test_our_dependencies_have_no_upper_bounds():
    assert [d for d in PROJECT["dependencies"] if re.search(r"<|==|~=", d)] == []


def test_the_error_for_every_missing_extra_is_checked_by_make_dist():
    assert missing_extras.USES.keys() | missing_extras.BROUGHT_ALONG == gathered()["extras"].keys()
