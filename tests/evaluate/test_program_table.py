"""Tables of programs: every common form gives the same numbers, and what is wrong with one is said."""

import json
import re

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import paoswarm as ps
from paoswarm.evaluate.program_output import Columns, CommandFailed, read_table

TIME, X = [0.0, 0.5, 1e-3 + 1], [1.0, np.nan, -2.5e-7]
FORMS = {
    "CSV": "time,x\n0,1\n0.5,\n1.001,-2.5e-7\n",
    "CSV with quotes and spaces": '"time", "x"\n 0.0 , 1\n 0.5 , NA\n\n 1.001 , -2.5E-07\n',
    "semicolons": "time;x\n0;1.0\n0.5;nan\n1.001;-2.5e-7\n",
    "tabs": "time\tx\n0\t1\n0.5\t\n1.001\t-2.5e-7",
    "spaces": "  time     x\n  0.0   1.0\n  0.5   nan\r\n  1.001  -0.25D-06\n",
    "a header as NumPy writes it": "# time x\n0 1\n0.5 nan\n1.001 -2.5e-7\n",
    "comments": "# by solver 3.1\n% time, x\n0,1\n0.5,\n# half\n1.001,-2.5e-7\n",
    "JSON": json.dumps({"time": TIME, "x": [1, None, -2.5e-7]}),
    "JSON of rows": '[{"time": 0, "x": 1}, {"time": 0.5}, {"time": 1.001, "x": -2.5e-7}]',
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_holds_the_same_table(form):
    table = read_table(FORMS[form], "the file")
    assert table.has_names
    assert list(table.columns) == ["time", "x"]
    assert_allclose(table.columns["time"], TIME, rtol=1e-15)
    assert_allclose(table.columns["x"], X, rtol=1e-15)


def test_names_may_begin_with_brackets():
    assert list(read_table("[A],[B]\n1,2\n", "it").columns) == ["[A]", "[B]"]


def test_a_table_without_names_has_the_places_first():
    text = "0 1\n0.5 3\n"
    assert not read_table(text, "it").has_names
    assert Columns(["x"], {"time": [0.25]}).read(text, None, "it")["x"].tolist() == [2.0]
    assert Columns(["a", "b"], {}).read(text, None, "it")["b"].tolist() == [1.0, 3.0]
    with pytest.raises(CommandFailed, match=r"it has 2 columns without names; .* must be time, x, y"):
        Columns(["x", "y"], {"time": [0.25]}).read(text, None, "it")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the file is empty"),
        ("# only this\n", "the file is empty"),
        ("time,x\n", "has a line of names, but no rows"),
        ("time,x\n1,2\n1,2,3\n", "line 3 has 3 cells, but the table has 2 columns"),
        ("time,x\n1,2\n\n2,1.5 m\n", "line 4: '1.5 m' in column 'x' is not a number"),
        ("x,x\n1,2\n", "every column needs a name of its own, got x, x"),
        ("time,\n1,2\n", "every column needs a name of its own"),
        ("{'x': 1}", "not valid JSON"),
        ('{"x": ["a"]}', "'x' holds something that is not a number"),
        ("[{}]", "must be an object of lists"),
        ("{}", "must be an object of lists"),
    ],
)
def test_what_is_wrong_is_said(text, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        read_table(text, "the file")


def test_outputs_are_straight_between_rows():
    own = np.linspace(0, 2, 21)
    text = json.dumps({"t": own.tolist(), "x": (3 * own - 1).tolist(), "y": (own**2).tolist()})
    places = [0, 0.05, 1.0, 1.99, 2 + 1e-7]  # a program that adds up time steps misses its end by a little
    found = Columns(["y", "x"], {"t": places}).read(text, None, "it")
    assert list(found) == ["y", "x"]
    assert_allclose(found["x"], 3 * np.minimum(places, 2) - 1, rtol=1e-12)
    assert_allclose(found["y"], np.interp(places, own, own**2), rtol=1e-14)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("t,x\n0,1\n1,2\n", "has t from 0 to 1, but there are data at 1.5"),
        ("t,x\n0.2,1\n3,2\n", "has t from 0.2 to 3, but there are data at 0"),
        ("t,x\n0,1\n0,1\n2,3\n", "the column 't' must increase"),
        ("t,x\n0,1\n,1\n2,3\n", "the column 't' must increase"),
        ("t,y\n0,1\n", "has no column 'x'; choose from t, y"),
        (
            "starting\nERROR in line 3\n",
            "has 4 cells, but the table has 1 column; it ends with 'starting ERROR in line 3'",
        ),
    ],
)
def test_a_program_without_its_outputs_has_failed(text, said):
    with pytest.raises(CommandFailed, match=re.escape(said)):
        Columns(["x"], {"t": [0.0, 1.5]}).read(text, None, "its output")


def test_a_pattern_finds_the_table_among_other_output():
    text = "solver 3.1\nRESULTS (first try)\nt x\n0 9\n\nRESULTS\nt x\n0 1\n1 3\n\nfinished in 2 s\n"
    assert Columns(["x"], {"t": [0.5]}).read(text, "^RESULTS", "it")["x"].tolist() == [2.0]
    with pytest.raises(CommandFailed, match="the pattern 'none' is not in it"):
        Columns(["x"], {}).read(text, "none", "it")


def test_a_command_returns_arrays_and_its_settings_are_checked(tmp_path):
    (tmp_path / "solve").write_text("#!/bin/sh\nprintf 't x y\\n0 %s 1\\n2 %s 3\\n' $1 $1 > out.txt\n")
    (tmp_path / "solve").chmod(0o755)
    how = {"value_from": "out.txt", "cwd": tmp_path}
    command = ps.Command("./solve {k}", outputs=["y", "x"], at={"t": np.array([1])}, **how)
    found = command({"k": 4})
    assert {name: values.tolist() for name, values in found.items()} == {"y": [2.0], "x": [4.0]}
    assert json.loads(json.dumps(command.settings)) == command.settings
    assert ps.Command(**command.settings)({"k": 4})["y"].tolist() == [2.0]
    assert_array_equal(ps.Command("./solve {k}", outputs="x", **how)({"k": 4}), [4.0, 4.0])
    parts = [ps.Command("./solve {k}", outputs="x", at={"t": [at]}, **how).fingerprint_parts() for at in (1, 2)]
    assert parts[0] != parts[1]
    for wrong in ({"at": {"t": [1]}}, {"outputs": []}, {"outputs": "x", "factor": 2.0}, {"outputs": "x", "also": "y"}):
        with pytest.raises(ValueError, match="outputs="):
            ps.Command("./solve {k}", **wrong, **how)


TABLE = "echo t,x; echo 0,{k}; echo 2,{k}"


@pytest.mark.parametrize(
    ("program", "outputs", "at", "said"),
    [
        (TABLE, "w", 1, "its output has no column 'w'"),
        (TABLE, "x", 9, "its output has t from 0 to 2, but there are data at 9"),
        ("true {k}", "x", 1, "its output is empty, so there is no table"),
        ("echo cost: {k}", "x", 1, "has a line of names, but no rows; it ends with 'cost: "),
        ("echo {k} 1 1", "x", 1, "its output has 3 columns without names"),
        ("no-such-program {k}", "x", 1, "exit status 127"),
    ],
)
@pytest.mark.parametrize("how", [{}, {"keep": "runs"}, {"workers": ps.Workers(2, asynchronous=True)}])
def test_an_output_of_another_form_ends_a_fit_after_ten_runs(program, outputs, at, said, how, tmp_path):
    how = dict(how)
    workers, log = how.pop("workers", 1), tmp_path / "log"
    simulate = ps.Command(f"echo >> {log}; {program}", outputs=outputs, at={"t": [at]}, shell=True, cwd=tmp_path, **how)
    with pytest.raises(ValueError, match="no finite value at any of the first points.*" + re.escape(said)):
        ps.fit(simulate, {"k": (0, 1)}, [1.0], sigma=1, workers=workers, rng=1)
    assert 10 <= len(log.read_text().splitlines()) <= 10 + 3 * (workers != 1)  # those that were under way


@pytest.mark.parametrize("program", ["echo diverged {k} >&2; exit 1", "echo t,x; echo 0,nan; echo 2,nan"])
def test_what_may_be_the_point_s_own_failure_does_not_end_a_fit_early(program, tmp_path):
    log = tmp_path / "log"
    simulate = ps.Command(f"echo {{k}} >> {log}; {program}", outputs="x", at={"t": [1]}, shell=True)
    with pytest.raises(ValueError, match="no finite value at any of the first points"):
        ps.fit(simulate, {"k": (0, 1)}, [1.0], sigma=1, rng=1)
    assert len(log.read_text().splitlines()) == 100
