"""`paoswarm fit`: the fits of the library, with data from a file; stores, tables, and mistakes in one line."""

import csv
import json
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

import paoswarm as ps
from paoswarm import cli

T = np.arange(1.0, 9.0)
MODEL = """
import numpy as np

T = np.arange(1.0, 9.0)

def decay(p):
    return p["a"] * np.exp(-p["k"] * T)

def curve(t, a, k):
    return {"y": a * np.exp(-k * t)}

def two(p):
    return {"y": decay(p), "light": np.exp(-p["k"] * T)}

def pull(p):
    return (p["a"] - 3) / 0.5

def failing(p):
    if p["a"] > 1:
        raise ValueError("too hot")
    return decay(p)
"""
SPACE = {"a": (0.5, 10), "k": ps.Real(0.01, 10, log=True)}
PROGRAM = """#!/bin/sh
awk -v a="$1" -v k="$2" 'BEGIN { print "t y"; for (t = 0; t < 9; t += 0.25) printf "%g %.15g\\n", t, a * exp(-k * t) }'
"""


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "model", raising=False)
    Path("model.py").write_text(MODEL)
    Path("space.toml").write_text("a = [0.5, 10]\nk = { log = [0.01, 10] }\n")
    Path("solve").write_text(PROGRAM)
    Path("solve").chmod(0o755)
    noise = 0.02 * np.sin(40 * T)
    light = 40 * np.exp(-0.5 * T) + 7 + 20 * noise
    rows = [[*row] for row in zip(T, 3 * np.exp(-0.5 * T) + noise, light, 0.02 + 0.001 * T, strict=True)]
    rows[4][2] = ""
    with Path("data.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["t", "y", "light", "sigma_y"], *rows])
    yield
    sys.modules.pop("model", None)


def column(name, file="data.csv"):
    with Path(file).open(newline="") as lines:
        return np.array([float(row[name] or "nan") for row in csv.DictReader(lines)])


def result_of(capsys, *arguments, code=0):
    assert cli.main([*map(str, arguments), "--json", "-"]) == code
    return json.loads(capsys.readouterr().out)


def model():
    import model

    return model


BASE = ["--space", "space.toml", "--data", "data.csv", "--seed", 1]


def assert_equal(found, fit):
    assert (found["best"], found["fun"], found["nfev"]) == (fit.best, fit.fun, fit.nfev)
    assert found["message"] == fit.message


def test_fit_is_the_library_s(capsys):
    found = result_of(
        capsys, "fit", "model.py:decay", *BASE, "--outputs", "y", "--estimates", "e.csv", "--predictions", "p.csv"
    )
    fit = ps.fit(lambda p: {"y": model().decay(p)}, SPACE, {"y": column("y")}, sigma=column("sigma_y"), rng=1)
    assert_equal(found, fit)
    low, high = fit.interval()
    assert found["estimates"]["k"] == {
        "estimate": fit.best["k"],
        "standard error": fit.standard_errors[1],
        "2.5 %": low[1],
        "97.5 %": high[1],
    }
    assert found["correlations"] == fit.correlations.tolist()
    assert found["chi_square"] == fit.chi_square
    assert found["remarks"] == list(fit.remarks)
    assert len(found["searches"]) == len(fit.searches)
    assert not {"method", "hint"} & set(found)
    outputs = found["outputs"]["y"]
    assert outputs["data"] == column("y").tolist()
    assert outputs["prediction"] == fit.predictions["y"].tolist()
    assert outputs["97.5 %"] == fit.band()[1]["y"].tolist()
    for name, values in outputs.items():
        assert_allclose(column(f"y {name}", "p.csv"), values, rtol=1e-15)
    assert column("standard error", "e.csv").tolist() == fit.standard_errors.tolist()
    assert column("correlation with a", "e.csv").tolist() == fit.correlations[:, 0].tolist()


def test_options_reach_fit(capsys):
    Path("space.toml").write_text(
        "a = [0.5, 10]\nk = { low = 0.01, high = 10, log = true, prior = { normal = [0.5, 1] } }"
    )
    options = ["--sigma", "y=0.3", "--likelihood", "light=huber", "--scale", "light", "--offset", "light"]
    options += ["--maxfev", 40, "--workers", 2, "--penalty", "model.py:pull", "--x", "t", "--outputs", "y", "light"]
    Path("model.py").write_text(MODEL + "\ndef both(t, a, k):\n    return two({'a': a, 'k': k})\n")
    found = result_of(capsys, "fit", "model.py:both", *BASE, *options, code=1)
    data = {"y": column("y"), "light": ps.Scaled(column("light"), offset=True)}
    how = {"sigma": {"y": 0.3}, "likelihood": {"light": "huber"}, "penalty": model().pull, "maxfev": 40}
    how |= {"priors": {"k": stats.norm(0.5, 1)}, "workers": 2, "rng": 1}
    assert_equal(found, ps.fit(model().two, SPACE, data, **how))
    assert found["factors"]["light"].keys() == {"scale", "offset"}


def test_columns_that_nothing_names_are_outputs(capsys):
    Path("data.csv").write_text("\n".join(line.rpartition(",")[0] for line in Path("data.csv").read_text().split()))
    Path("model.py").write_text(MODEL + "\ndef both(t, a, k):\n    return two({'a': a, 'k': k})\n")
    found = result_of(capsys, "fit", "model.py:both", *BASE, "--x", "t", "--scale", "light")
    fit = ps.fit(model().two, SPACE, {"y": column("y"), "light": ps.Scaled(column("light"))}, rng=1)
    assert_equal(found, fit)


def test_constraints_of_the_unknowns(capsys):
    Path("model.py").write_text(MODEL + "\n\ndef below(p):\n    return p['a'] - 2.5\n")
    base = ["model.py:decay", *BASE, "--outputs", "y", "--constraints", "model.py:below", "--store", "f.paoswarm"]
    found = result_of(capsys, "fit", *base, "--maxfev", 12, code=1)
    assert found["best"]["a"] <= 2.5
    found = result_of(capsys, "resume", "f.paoswarm", "--maxfev", 1000)
    how = {"sigma": column("sigma_y"), "constraints": model().below, "rng": 1}
    fit = ps.fit(model().decay, SPACE, column("y"), **how)
    assert (found["best"], found["nfev"]) == (fit.best, fit.nfev)


def test_a_function_of_places(capsys):
    found = result_of(capsys, "fit", "model.py:curve", *BASE, "--x", "t", "--outputs", "y", "--sigma", "sigma_y")
    how = {"xdata": T, "sigma": column("sigma_y"), "rng": 1}
    assert_equal(found, ps.fit(model().curve, SPACE, {"y": column("y")}, **how))


def test_a_program_and_a_pause(capsys):
    command = ["--command", "./solve {a} {k}", *BASE, "--x", "t", "--outputs", "y"]
    whole = result_of(capsys, "fit", *command)
    simulate = ps.Command("./solve {a} {k}", outputs=["y"], at={"t": T})
    fit = ps.fit(simulate, SPACE, {"y": column("y")}, sigma=column("sigma_y"), rng=1)
    assert_equal(whole, fit)
    result_of(capsys, "fit", *command, "--store", "f.paoswarm", "--maxfev", 12, code=1)
    again = result_of(capsys, "resume", "f.paoswarm", "--maxfev", 1000, "--predictions", "p.csv")
    assert (again["best"], again["fun"], again["nfev"]) == (whole["best"], whole["fun"], whole["nfev"])
    assert column("t", "p.csv").tolist() == T.tolist()
    assert column("y prediction", "p.csv").tolist() == whole["outputs"]["y"]["prediction"]
    other = result_of(capsys, "resume", "f.paoswarm", "--command", "./solve {a} {k}", "--trust")
    assert other["message"].endswith(f"All {fit.nfev} evaluations came from the store.")


def test_a_fit_of_python_goes_on_in_the_terminal(capsys):
    found = result_of(capsys, "fit", "model.py:decay", *BASE, "--outputs", "y", "--penalty", "model.py:pull")
    how = {"sigma": column("sigma_y"), "rng": 1, "store": "f.paoswarm"}
    ps.fit(model().decay, SPACE, column("y"), penalty=model().pull, maxfev=12, **how)
    options = ["--fun", "model.py:decay", "--penalty", "model.py:pull", "--maxfev", 1000]
    again = result_of(capsys, "resume", "f.paoswarm", *options)
    assert (again["best"], again["nfev"]) == (found["best"], found["nfev"])


def test_failures_are_shown(capsys):
    assert cli.main(["fit", "model.py:failing", *map(str, BASE), "--outputs", "y", "--maxfev", "60"]) == 1
    said = capsys.readouterr()
    assert "The first failed at a = " in said.out
    assert "raised ValueError: too hot" in said.out
    assert said.err == "paoswarm: ended without success (MAXFEV)\n"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--x", "time"], "--x: data.csv has no such column as 'time'; choose from t, y"),
        (["--outputs", "z"], "--outputs: data.csv has no such column as 'z'; choose from t, y, light, sigma_y"),
        (["--outputs", "y", "--scale", "light"], "--scale: data.csv has no such column as 'light'; choose from y"),
        (["--sigma", "wide"], "--sigma: 'wide' is neither a number nor a column; choose from"),
        (["--sigma", "z=3"], "--sigma z=3: there is no column 'z'"),
        (["--sigma", "light"], "light has no number in row 5, where y has a datum"),
        (["--sigma", "-1"], "sigma must be above zero"),
        (["--likelihood", "gauss"], "there is no likelihood 'gauss'"),
        (["--x", "light"], "the column 'light' of --x has an empty cell"),
        (["--data", "nothing.csv"], "nothing.csv: No such file or directory"),
        (["--data", "numbers.csv"], "numbers.csv needs names of its columns in the first line"),
        (["--data", "broken.csv"], "broken.csv, line 3: 'two' in column 'y' is not a number"),
        (["--predictions", "nowhere/p.csv"], "nowhere/p.csv cannot be written"),
        (["--penalty", "model.py:nothing"], "there is no 'nothing' in model"),
        (["--outputs", "y", "light"], "the model must return a dict with y, light"),
    ],
)
def test_a_mistake_is_one_line(options, said, capsys):
    Path("numbers.csv").write_text("1,2\n3,4\n")
    Path("broken.csv").write_text("t,y\n1,1\n2,two\n")
    assert cli.main(["fit", "model.py:decay", *map(str, BASE), *options]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert err.startswith("paoswarm: ")
    assert err.count("\n") == 1


def test_a_run_of_another_kind_has_no_tables_of_a_fit(capsys):
    ps.minimize(lambda x: float(x @ x), [(-1, 1)], maxfev=20, rng=1, store="m.paoswarm")
    for name in ("draws", "estimates", "predictions"):
        assert cli.main(["resume", "m.paoswarm", f"--{name}", f"{name}.csv"]) == 2
        assert f"m.paoswarm is a run of minimize, which has no {name}" in capsys.readouterr().err
