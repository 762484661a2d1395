"""`paoswarm minimize`, `sample` and `resume`: the results of the library, exit codes, and mistakes in one line."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import paoswarm as ps
from paoswarm import cli

MODEL = """
import time
import numpy as np
import paoswarm as ps

DATA = np.array([1.2, 0.8, 1.9, 1.4])
method = ps.PAO(dt=0.9)
in_disc = ps.Constraint(lambda p: p["a"] ** 2 + p["b"] ** 2, ub=1.0, name="disc")

def cost(p):
    return (p["a"] - 1) ** 2 + (p["b"] - 2) ** 2

def sphere(x):
    return float((x**2).sum())

def rows(x):
    return (x**2).sum(axis=1)

def slow(x):
    time.sleep(0.02)
    return float((x**2).sum())

def failing(p):
    if p["a"] > 0:
        raise ValueError("too hot")
    return p["a"] ** 2

def log_likelihood(p):
    return -0.5 * ((DATA[:, None] - p["level"]) ** 2).sum(axis=0) / 0.25
"""
SPACE = "a = [-5, 5]\nb = { low = -5, high = 5 }\nkind = 'fixed'\n"


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in ("model", "broken", "json_", "leaves"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    Path("model.py").write_text(MODEL)
    Path("space.toml").write_text(SPACE)
    yield
    sys.modules.pop("model", None)


def run(capsys, *arguments, code):
    assert cli.main([str(argument) for argument in arguments]) == code
    return capsys.readouterr()


def result_of(capsys, *arguments, code):
    return json.loads(run(capsys, *arguments, "--json", "-", code=code).out)


# The results of the library


def test_minimize_is_the_library_s(capsys):
    found = result_of(capsys, "minimize", "model.py:cost", "--space", "space.toml", "--seed", 1, "--maxfev", 60, code=1)
    space = {"a": (-5, 5), "b": (-5, 5), "kind": "fixed"}
    direct = ps.minimize(lambda p: (p["a"] - 1) ** 2 + (p["b"] - 2) ** 2, space, rng=1, maxfev=60)
    assert (found["best"], found["fun"], found["nfev"]) == (direct.best, direct.fun, 60)
    assert (found["status"], found["message"], found["success"]) == ("MAXFEV", direct.message, False)


def test_options_reach_minimize(capsys):
    base = ["minimize", "model:sphere", "--bounds", "-5,5", " -4,6", "--seed", 3, "--maxfev", 90]
    options = ["--method", "de", "--particles", 30, "--tol", 0, "--polish"]
    found = result_of(capsys, *base, *options, code=0)
    sphere = {"bounds": [(-5, 5), (-4, 6)], "rng": 3, "maxfev": 90}
    direct = ps.minimize(lambda x: float((x**2).sum()), method="DE", n_particles=30, tol=0, polish=True, **sphere)
    assert (found["best"], found["nfev"], found["method"]) == (direct.x.tolist(), direct.nfev, repr(direct.method))
    rows = ["minimize", "model:rows", *base[2:], *options, "--vectorized"]
    assert result_of(capsys, *rows, code=0)["best"] == found["best"]


def test_a_method_and_constraints_of_one_s_own(capsys):
    base = ["minimize", "model.py:cost", "--space", "space.toml", "--seed", 1]
    own = result_of(capsys, *base, "--method", "model.py:method", "--maxiter", 3, code=1)
    assert own["method"].startswith("PAO(")
    assert "dt=0.9" in own["method"]
    found = result_of(capsys, *base, "--constraints", "model.py:in_disc", "--maxfev", 300, "--target", 1.53, code=0)
    assert found["feasible"] is True
    np.testing.assert_allclose(found["fun"], (5**0.5 - 1) ** 2, rtol=1e-2)


def test_bounds_have_kinds():
    from paoswarm.cli.options import _read_bound

    texts = ["rate=1e-6,1e3,log", "order=1,8,integer", "phase=0,360,periodic", "-5,5", "x=-.5,-.1"]
    variables = [_read_bound(text) for text in texts]
    kinds = [ps.Real(1e-6, 1e3, log=True), ps.Integer(1, 8), ps.Periodic(0, 360), ps.Real(-5, 5), ps.Real(-0.5, -0.1)]
    assert [variable for _, variable in variables] == kinds
    assert [name for name, _ in variables] == ["rate", "order", "phase", "", "x"]


def test_failures_are_counted_and_the_first_is_shown(capsys):
    said = run(capsys, "minimize", "model.py:failing", "--bounds", "a=-5,5", "--seed", 1, "--maxfev", 60, code=1)
    assert "the first at a = " in said.out
    assert "raised ValueError: too hot" in said.out
    found = result_of(capsys, "minimize", "model.py:failing", "--bounds", "a=-5,5", "--seed", 1, "--maxfev", 60, code=1)
    assert found["n_failed"] == found["failure_kinds"]["raised"] > 0
    assert found["failures"][0]["at"]["a"] > 0


@pytest.mark.parametrize("command", ["minimize", "sample"])
def test_a_program_that_always_fails_is_told_in_its_own_words_with_the_names(command, capsys):
    options = ["--command", "sh -c 'exit 3' {rate}", "--bounds", "rate=1,2", "--seed", "1", "--maxfev", "1000"]
    assert cli.main([command, *options]) == 2
    error = capsys.readouterr().err
    assert re.search(r"the first, at rate = 1\.\d+, raised an error: exit status 3$", error.strip())


def test_resume_says_how_many_evaluations_a_limit_includes(capsys):
    assert cli.main(["minimize", "model.py:sphere", "--bounds", "-5,5", "--maxfev", "30", "--store", "run"]) == 1
    for fewer in ("3", "29"):
        assert cli.main(["resume", "run", "--maxfev", fewer]) == 2
        assert f"holds 30 evaluations already, which --maxfev {fewer} includes" in capsys.readouterr().err
    assert cli.main(["resume", "run", "--maxfev", "30"]) == 1
    assert cli.main(["resume", "run", "--maxfev", "31"]) == 1


def test_sample_is_the_library_s(capsys):
    Path("prior.toml").write_text("level = { prior = { normal = [0, 10] } }\ngain = 3.0\n")
    base = ["sample", "model.py:log_likelihood", "--space", "prior.toml", "--vectorized", "--seed", 1]
    found = result_of(capsys, *base, "--n-effective", 300, "--draws", "draws.npz", code=0)
    data = np.array([1.2, 0.8, 1.9, 1.4])
    precision = 0.01 + len(data) / 0.25
    np.testing.assert_allclose(found["parameters"]["level"]["mean"], data.sum() / 0.25 / precision, atol=0.05)
    np.testing.assert_allclose(found["parameters"]["level"]["sd"], precision**-0.5, rtol=0.15)
    with np.load("draws.npz") as kept:
        assert kept["names"].tolist() == ["level"]
        assert len(kept["draws"]) == len(kept["log_likelihood"])
        np.testing.assert_allclose(kept["draws"].mean(), found["parameters"]["level"]["mean"], atol=0.05)


def test_json_on_stdout_is_alone_whatever_functions_print():
    Path("talks.py").write_text("print('hello')\ndef f(x):\n    print('at', x)\n    return float((x**2).sum())\n")
    command = ["minimize", "talks.py:f", "--bounds", "-5,5", "--maxfev", 20, "--seed", 1, "--workers", 2, "--json", "-"]
    process = start(*command)
    out, err = process.communicate()
    assert process.returncode == 1
    assert json.loads(out)["nfev"] == 20
    assert "hello\n" in err
    assert err.count("[") == 20


# Stored runs


def test_resume_finds_the_function_its_constraints_and_its_method(capsys, monkeypatch, tmp_path):
    options = ["--constraints", "model.py:in_disc", "--method", "model.py:method", "--seed", 1, "--particles", 12]
    base = ["minimize", "model.py:cost", "--space", "space.toml", *options]
    run(capsys, *base, "--store", "run.paoswarm", "--maxfev", 150, code=1)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    longer = result_of(capsys, "resume", tmp_path / "run.paoswarm", "--maxfev", 250, "--trust", code=1)
    monkeypatch.chdir(tmp_path)
    whole = result_of(capsys, *base, "--maxfev", 250, code=1)
    assert (longer["best"], longer["fun"], longer["nfev"]) == (whole["best"], whole["fun"], 250)


def test_resume_finds_the_program_and_says_so(capsys, tmp_path):
    Path("add").write_text("#!/bin/sh\necho $1 0$2\n")
    Path("add").chmod(0o755)
    base = ["minimize", "--command", "./add {a} {b:.9f}", "--bounds", "a=1,2", "b=1,2", "--seed", 1]
    run(capsys, *base, "--store", "run.paoswarm", "--maxfev", 20, code=1)
    said = run(capsys, "resume", "run.paoswarm", "--maxfev", 30, "--json", "more.json", code=1)
    assert said.err.startswith(f"paoswarm: run.paoswarm goes on with --command './add {{a}} {{b:.9f}}' in {tmp_path}\n")
    whole = result_of(capsys, *base, "--maxfev", 30, code=1)
    more = json.loads(Path("more.json").read_text())
    assert (more["best"], more["fun"]) == (whole["best"], whole["fun"])


def test_limits_on_what_a_program_writes_are_constraints(capsys):
    limits = ["--limit", "mass>=2", "--limit", "heat (.*) units <= 7", "--particles", 20]
    command = ["--command", "echo mass {n} heat {m} units cost {n} {m}", "--bounds", "n=1,9", "m=1,9,integer"]
    factor = ["--factor", -1, "--pattern", "cost \\S+ (.*)", "--seed", 1]
    said = run(capsys, "minimize", *command, *factor, *limits, "--maxfev", 60, "--store", "run.paoswarm", code=1)
    assert "\nfeasible     yes\n" in said.out
    assert "\n  m          7\n" in said.out
    found = result_of(capsys, "resume", "run.paoswarm", "--maxfev", 70, "--trust", code=1)
    assert (found["fun"], found["best"]["m"], found["feasible"]) == (-7, 7, True)


def test_a_project_that_has_moved_goes_on(capsys, monkeypatch, tmp_path):
    Path("here").mkdir()
    monkeypatch.chdir("here")
    Path("simulate").write_text("#!/bin/sh\necho $1\n")
    Path("simulate").chmod(0o755)
    command = ["--command", "./simulate {a}", "--bounds", "a=1,2", "--seed", 1, "--particles", 5]
    run(capsys, "minimize", *command, "--maxfev", 20, "--store", "run.paoswarm", code=1)
    (tmp_path / "here").rename(tmp_path / "there")
    monkeypatch.chdir(tmp_path / "there")
    said = run(capsys, "resume", "run.paoswarm", "--maxfev", 30, code=1)
    assert "20 of 30 evaluations came from the store" in " ".join(said.out.split())
    assert "has changed" not in said.err


def test_a_run_of_python_must_be_told_its_function(capsys):
    ps.minimize(lambda x: float((x**2).sum()), [(-5, 5)], maxfev=20, rng=1, store="run.paoswarm")
    assert "give it: --fun FILE.py:FUNCTION or --command" in run(capsys, "resume", "run.paoswarm", code=2).err
    run(capsys, "resume", "run.paoswarm", "--fun", "model.py:sphere", "--trust", "--maxfev", 30, code=1)
    run(capsys, "resume", "run.paoswarm", "--maxfev", 40, code=1)  # now it knows


def test_a_crafted_origin_is_refused(capsys):
    def origin(kept):
        store = ps.Store("run.paoswarm", origin=kept)
        Path("run.paoswarm").unlink(missing_ok=True)
        ps.minimize(lambda x: float((x**2).sum()), [(-5, 5)], maxfev=20, rng=1, store=store)

    here = {"folder": "."}
    both = {"function": "a:b", "command": {"command": "ls"}}
    lists = {"function": "a:b", "constraints": [1]}
    for kept in ({"function": 3, **here}, {"command": "rm", **here}, {**both, **here}, {**lists, **here}, lists):
        origin(kept)
        assert "does not say which function" in run(capsys, "resume", "run.paoswarm", code=2).err
    origin({"folder": ".", "command": {"command": "ls", "more": 1}})
    assert "the command cannot be rebuilt" in run(capsys, "resume", "run.paoswarm", "--trust", code=2).err


def start(*arguments):
    command = [sys.executable, "-m", "paoswarm", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for_evaluations(store, count, process):
    while not (Path(store).exists() and Path(store).read_bytes().count(b"\n") > count):
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_a_run_that_is_interrupted_terminated_and_killed_ends_with_the_same_bits(capsys):
    base = ["minimize", "model.py:slow", "--bounds", "-5,5", "-5,5", "--maxfev", 60, "--seed", 1]
    first = start(*base, "--store", "run.paoswarm")
    wait_for_evaluations("run.paoswarm", 15, first)
    first.send_signal(signal.SIGTERM)
    out, err = first.communicate()
    assert first.returncode == 130
    assert out.startswith("Interrupted; this is the best so far.")
    assert err == ("paoswarm: interrupted; the evaluations are kept. To go on: paoswarm resume run.paoswarm\n")
    second = start("resume", "run.paoswarm")
    wait_for_evaluations("run.paoswarm", 35, second)
    second.kill()
    second.communicate()
    last = result_of(capsys, "resume", "run.paoswarm", code=1)
    whole = result_of(capsys, *base, code=1)
    assert [last[name] for name in ("best", "fun", "nfev", "nit")] == [
        whole[name] for name in ("best", "fun", "nfev", "nit")
    ]


def test_an_interrupt_without_a_store_says_what_to_do(capsys, monkeypatch):
    Path("leaves.py").write_text(
        "import signal\ncount = 0\n"
        "def f(x):\n    global count\n    count += 1\n"
        "    if count == 30: signal.raise_signal(signal.SIGINT)\n    return float((x**2).sum())\n"
    )
    said = run(capsys, "minimize", "leaves.py:f", "--bounds", "-5,5", "--seed", 1, code=130)
    assert said.out.startswith("Interrupted; this is the best so far.")
    assert "give --store FILE" in said.err


# Mistakes


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--bounds", "0,1"], "give either a function, as FILE.py:FUNCTION, or --command"),
        (["model.py:cost", "--command", "ls", "--bounds", "a=0,1"], "give either a function"),
        (["model.py:none", "--bounds", "0,1"], "model.py:none: there is no 'none' in model"),
        (["model.py:DATA", "--bounds", "0,1"], "model.py:DATA is not a function, but ndarray"),
        (["nothing.py:f", "--bounds", "0,1"], "nothing.py: there is no such file"),
        (
            ["nowhere_at_all:f", "--bounds", "0,1"],
            "No module named 'nowhere_at_all'; for a file write FILE.py:FUNCTION",
        ),
        (["model.py", "--bounds", "0,1"], "must be FILE.py:FUNCTION"),
        (
            ["broken.py:f", "--bounds", "0,1"],
            "broken.py cannot be imported: NameError: name 'nme' is not defined (broken",
        ),
        (["json.py:f", "--bounds", "0,1"], "another module is called json, too; rename the file"),
        (["model.py:cost", "--bounds", "a=0"], "must be [NAME=]LOW,HIGH"),
        (["model.py:cost", "--bounds", "a=0,1,cubic"], "must be [NAME=]LOW,HIGH"),
        (["model.py:cost", "--bounds", "a=5,1"], "--bounds: a=5,1: "),
        (["model.py:cost", "--bounds", "a=0,1", "2,3"], "give names to all bounds or to none"),
        (["model.py:cost", "--bounds", "a=0,1", "a=2,3"], "each name once"),
        (["model.py:cost", "--space", "nowhere.toml"], "nowhere.toml: No such file"),
        (["model.py:cost", "--bounds", "a=0,1", "--method", "DEE"], "unknown method 'DEE'; did you mean DE?"),
        (["model.py:cost", "--bounds", "a=0,1", "--maxfev", "0"], "maxfev must be"),
        (["model.py:cost", "--bounds", "a=0,1", "--pattern", "x"], "--pattern is an option of an external program"),
        (["model.py:cost", "--bounds", "a=0,1", "--json", "no/where.json"], "no/where.json cannot be written"),
        (["model.py:cost", "--bounds", "a=0,1", "--store", "model.py"], "model.py"),
        (["--command", "echo {b}", "--bounds", "a=0,1"], "the command has {b}, but there is no such variable"),
        (["--command", "echo 1", "--bounds", "a=0,1"], "a has no effect: write {a} in the command"),
        (["--command", "./none {a}", "--bounds", "a=0,1"], "there is no program ./none"),
        (["--command", "echo {a}", "--bounds", "a=0,1", "--limit", "x<2"], "must be REGEX<=NUMBER"),
        (["model.py:cost", "--bounds", "a=0,1", "--limit", "x<=2"], "--limit is an option of an external program"),
        (["--command", "echo {a}", "--bounds", "a=0,1", "--vectorized"], "--vectorized is for functions"),
        (["model.py:cost", "--bounds", "a=0,1", "--maxfev", "few"], "--maxfev: invalid float value: 'few'; see"),
        (["model.py:cost"], "one of the arguments --space --bounds is required; see paoswarm minimize --help"),
    ],
)
def test_a_mistake_is_named_before_anything_runs(arguments, message, capsys):
    Path("broken.py").write_text("x = 1\ny = nme\n")
    Path("json.py").write_text("def f(x):\n    return 1.0\n")
    before = Path("model.py").read_text()
    try:
        code = cli.main(["minimize", *arguments])
    except SystemExit as ended:  # of argparse
        code = ended.code
    said = capsys.readouterr().err
    assert code == 2
    assert message in said
    assert said.count("\n") == 1
    assert said.startswith("paoswarm: ")
    assert Path("model.py").read_text() == before


def test_an_interrupt_before_the_run_is_named(capsys, monkeypatch):
    def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.setattr("paoswarm.cli.info.run_info", interrupted)
    assert cli.main(["info"]) == 130
    assert capsys.readouterr().err.strip() == "paoswarm: interrupted"


def test_draws_need_a_known_ending(capsys):
    said = run(capsys, "sample", "model.py:log_likelihood", "--bounds", "level=0,1", "--draws", "x.txt", code=2)
    assert "--draws must end in .csv or .npz" in said.err


def test_errors_of_others_are_not_hidden(monkeypatch):
    def boom(*_, **__):
        raise RuntimeError("a bug")

    monkeypatch.setattr("paoswarm.minimize", boom)
    with pytest.raises(RuntimeError, match="a bug"):
        cli.main(["minimize", "model.py:cost", "--bounds", "a=0,1"])


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_a_closed_terminal_ends_a_run_like_an_interrupt_unless_it_is_ignored():
    base = ["minimize", "model.py:slow", "--bounds", "-5,5", "-5,5", "--seed", 1, "--store"]
    closed = start(*base, "closed", "--maxfev", 2000)
    wait_for_evaluations("closed", 15, closed)
    closed.send_signal(signal.SIGHUP)
    out, err = closed.communicate()
    assert (closed.returncode, out[:12]) == (130, "Interrupted;")
    assert "To go on: paoswarm resume closed" in err
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as `nohup` does
    try:
        ignoring = start(*base, "ignoring", "--maxfev", 60)
    finally:
        signal.signal(signal.SIGHUP, before)
    wait_for_evaluations("ignoring", 15, ignoring)
    ignoring.send_signal(signal.SIGHUP)
    ignoring.communicate()
    assert ignoring.returncode == 1
    assert len(ps.Store("ignoring").read()[1]) == 60
