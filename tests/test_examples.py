"""Every example runs, the code of the README too, and the demo prints and draws what it found."""

import pathlib
import re
import runpy

import matplotlib.pyplot as plt
import numpy as np
import pytest
from numpy.testing import assert_allclose

EXAMPLES = pathlib.Path(__file__).parents[1] / "examples"


@pytest.fixture(autouse=True)
def _draw_nowhere(monkeypatch, tmp_path):
    plt.switch_backend("Agg")
    monkeypatch.chdir(tmp_path)
    yield
    plt.close("all")


@pytest.mark.slow  # the documentation's gallery runs them all, and is part of `make test`
@pytest.mark.parametrize("script", sorted(EXAMPLES.glob("plot_*.py")), ids=lambda path: path.stem)
def test_a_gallery_script_runs_and_draws(script, monkeypatch):
    monkeypatch.setattr(plt, "show", lambda: None)
    runpy.run_path(str(script), run_name="__main__")
    assert plt.get_fignums()


def test_the_code_of_the_readme_runs_and_prints_what_the_readme_shows(capsys):
    readme = (EXAMPLES.parent / "README.md").read_text(encoding="utf-8")
    code, shown = (re.search(rf"```{kind}\n(.*?)```", readme, flags=re.DOTALL)[1] for kind in ("python", "text"))
    exec(compile(code, "README.md", "exec"), {})
    printed = capsys.readouterr().out
    number = re.compile(r"\d+(?:\.\d+)?")
    assert number.sub("#", printed) == number.sub("#", shown)
    measured, promised = (np.array(number.findall(text), dtype=float) for text in (printed, shown))
    assert_allclose(measured, promised, rtol=0.2)  # the last digits and the counts may depend on the machine
    assert pathlib.Path("flu.paoswarm").is_file()


def test_the_demo_finds_the_minimum_prints_it_and_plots_it(capsys):
    runpy.run_path(str(EXAMPLES / "demo.py"), run_name="__main__")
    said = capsys.readouterr().out
    assert "200500 evaluations" in said
    assert "Best value" in said
    assert said.count("+-") == 8
    for line in said.splitlines():
        if line.strip().startswith("x["):
            best, deviation, truth = (float(line.split()[k]) for k in (1, 3, 4))
            assert abs(best - truth) < 1e-5
            assert deviation < 1e-5
    assert pathlib.Path("demo/convergence.png").read_bytes().startswith(b"\x89PNG")
