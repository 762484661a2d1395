"""Watching a run from another process, and resuming it from the command line."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

import paoswarm as ps
from paoswarm import cli
from paoswarm.store import log
from paoswarm.store.watch import Progress

BOUNDS = [(-5, 5)] * 2
OBJECTIVE = """
import time
def sphere(x):
    return float((x**2).sum())
def slow(x):
    time.sleep(0.01)
    return sphere(x)
class box:
    inside = staticmethod(sphere)
"""


def sphere(x):
    return float("nan") if x[0] > 4 else float((x**2).sum())


@pytest.fixture
def store(tmp_path, monkeypatch):
    (tmp_path / "objective.py").write_text(OBJECTIVE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path.copy())
    monkeypatch.delitem(sys.modules, "objective", raising=False)
    return ps.Store("run.paoswarm", fsync="never")


def test_progress_counts_what_the_result_counts(store):
    result = ps.minimize(sphere, BOUNDS, method=ps.PAO(), n_particles=10, maxiter=6, rng=2, store=store)
    progress = Progress(store.path).update()
    assert (progress.evaluations, progress.failed, progress.expected) == (result.nfev, result.n_failed, 70)
    assert progress.best == result.fun
    assert progress.where == result.x.tolist()
    assert progress.ended == result.message
    assert progress.remaining == 0


def test_progress_is_read_while_the_run_goes_on(store):
    progress = None
    seen = []

    def look(x):
        nonlocal progress
        progress = progress or Progress(store.path)
        progress.update()
        seen.append((progress.evaluations, progress.ended, progress.is_alive, str(progress)))
        time.sleep(0.002)

    ps.minimize(sphere, BOUNDS, method=ps.PAO(), n_particles=10, maxiter=6, rng=2, callback=look, store=store)
    assert [count for count, *_ in seen] == [10, 20, 30, 40, 50, 60, 70]
    assert all(ended is None and alive for _, ended, alive, _ in seen)
    assert "per second" in seen[-1][-1]
    assert "left" in seen[-2][-1]


def test_for_a_posterior_the_highest_likelihood_is_the_best(store):
    ps.sample(lambda x: -abs(x).sum(), [(-9, 9)] * 2, n_effective=100, n_particles=200, maxfev=900, rng=1, store=store)
    progress = Progress(store.path).update()
    assert progress.best == store.read()[1].max()
    assert progress.evaluations <= progress.expected == 900


def test_a_run_whose_process_is_gone_is_shown_as_stopped(store, tmp_path, capsys):
    code = "import os, objective, paoswarm as ps\n"
    code += "def die(x):\n    os._exit(1)\n"
    code += "run = {'method': 'PAO', 'n_particles': 10, 'rng': 1, 'store': 'run.paoswarm'}\n"
    code += "ps.minimize(objective.sphere, [(-5, 5)] * 2, callback=die, **run)"
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=False)
    assert cli.main(["watch", str(store.path)]) == 0
    shown = capsys.readouterr().out
    assert "10 of 1010 (1.0%), 0 failed" in shown
    assert "is gone" in shown


def test_watch_follows_another_process_to_its_end(store, tmp_path, capsys):
    code = "import objective, paoswarm as ps\n"
    code += "run = {'method': 'PAO', 'n_particles': 10, 'rng': 1, 'store': 'run.paoswarm'}\n"
    code += "ps.minimize(objective.slow, [(-5, 5)] * 2, maxiter=4, **run)"
    with subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path) as run:
        while not (tmp_path / "run.paoswarm").exists():
            assert run.poll() is None
            time.sleep(0.01)
        assert cli.main(["watch", "run.paoswarm", "--every", "0.05"]) == 0
        assert run.wait() == 0
    shown = capsys.readouterr().out
    assert shown.splitlines()[-1].startswith("ended ")
    assert shown.count("evaluations ") > 2


def test_before_a_run_has_started_there_is_nothing_to_show(store, capsys):
    assert cli.main(["watch", "run.paoswarm", "--once"]) == 2
    assert "No such file" in capsys.readouterr().err
    open(store.path, "w").close()
    assert cli.main(["watch", "run.paoswarm", "--once"]) == 0
    assert "no run" in capsys.readouterr().out


def test_the_command_resume_continues_a_run(store, capsys):
    options = {"method": ps.PAO(), "n_particles": 10, "rng": 1}
    ps.minimize(sphere, BOUNDS, maxiter=3, store=store, **options)
    resumed = ["resume", "run.paoswarm", "--trust", "--fun"]  # theirs has the same values, but other code
    assert cli.main([*resumed, "objective:sphere", "--maxiter", "9"]) == 1  # without success
    whole = ps.minimize(sphere, BOUNDS, maxiter=9, **options)
    said = capsys.readouterr()
    assert f"\nvalue        {whole.fun:.10g}\n" in said.out
    assert "40 of 100 evaluations came from the store." in " ".join(said.out.split())
    assert said.err == "paoswarm: ended without success (MAXITER)\n"
    assert cli.main([*resumed, "objective:box.inside", "--maxfev", "105"]) == 1
    assert len(store.read()[1]) == 100


@pytest.mark.parametrize(
    ("fun", "message"),
    [
        ("objective", "package.module:function"),
        ("objective:cube", "there is no 'cube'"),
        ("nowhere_at_all:f", "No module named"),
    ],
)
def test_mistakes_give_an_error_of_one_line(store, capsys, fun, message):
    ps.minimize(sphere, BOUNDS, method=ps.PAO(), maxiter=3, store=store, rng=1)
    assert cli.main(["resume", "run.paoswarm", "--fun", fun]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_another_function_is_an_error_of_one_line(store, tmp_path, capsys):
    ps.minimize(sphere, BOUNDS, method=ps.PAO(), maxiter=3, store=store, rng=1)
    (tmp_path / "objective.py").write_text("def cube(x):\n    return float((abs(x)**3).sum())\n")
    assert cli.main(["resume", "run.paoswarm", "--fun", "objective:cube"]) == 2
    error = capsys.readouterr().err
    assert "values of another function" in error
    assert error.count("\n") == 1


def test_names_and_messages_of_a_file_cannot_control_the_terminal(store, capsys):
    wild = "\x1b]0;title\x07\x1b[2J\x9b\u202e"
    ps.minimize(sphere, BOUNDS, method="PAO", n_particles=5, maxiter=1, rng=1, store=store)
    header, *records = map(log.decode, Path(store.path).read_bytes().splitlines(keepends=True))
    header["run"]["problem"]["method"]["paoswarm"] = f"PAO{wild}"
    records[-1]["end"]["message"] = f"done{wild}"
    Path(store.path).write_bytes(b"".join(map(log.encode, [header, *records])))
    assert cli.main(["watch", str(store.path), "--once"]) == 0
    assert cli.main(["resume", str(store.path), "--fun", "objective.py:sphere"]) == 2
    assert cli.main(["resume", wild]) == 2
    said = "".join(capsys.readouterr())
    assert said.count("\\x1b[2J") >= 3
    assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(said)
