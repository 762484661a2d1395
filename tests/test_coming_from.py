"""The other library's side of every page "Coming from" runs too, wherever that library is installed."""

import pathlib
import re

import numpy as np
import pytest

PAGES = sorted((pathlib.Path(__file__).parents[1] / "docs" / "coming_from").glob("*.md"))
NEEDS = {
    "scipy": ["scipy"],
    "pycma": ["cma"],
    "pymoo": ["pymoo"],
    "pyswarms": ["pyswarms"],
    "optuna": ["optuna"],
    "lmfit": ["lmfit"],
    "pypesto": ["pypesto"],
    "samplers": ["emcee", "dynesty"],
}


def foreign_code(page):
    """The blocks of a page that are no doctests, as one script."""
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    return "\n".join(block for block in blocks if not block.startswith(">>>"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
@pytest.mark.filterwarnings("ignore")  # what other libraries warn of is not our subject
def test_the_other_side_runs(page, monkeypatch, tmp_path, capsys):
    for package in NEEDS[page.stem]:
        pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)  # pyswarms writes a log file
    code = foreign_code(page)
    assert not re.search(r"\bpaoswarm\b|\bps\.", code)
    state = np.random.get_state()  # noqa: NPY002
    try:
        exec(compile(code, page.name, "exec"), {})
    finally:
        np.random.set_state(state)  # noqa: NPY002
    assert capsys.readouterr().out.strip()


def test_every_page_is_run():
    assert [page.stem for page in PAGES] == sorted(NEEDS)
