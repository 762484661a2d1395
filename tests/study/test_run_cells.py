"""Studies that are killed, interrupted or fail: what is finished is kept, and going on ends with the same numbers."""

import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from helpers import assert_same_results, own_problem, random_search, small
from waiting import until

import paoswarm as ps
from paoswarm.study import read_study
from paoswarm.study.cells import CellFailed
from paoswarm.study.folder import publish
from paoswarm.study.results import CellFiles, Key

SCRIPT = """
import sys

import paoswarm as ps
from paoswarm.study.adapters import SciPyDE

study = ps.study.Study(
    problems=["sphere", "ackley-shifted", "rastrigin"],
    methods={"PAO": ps.PAO(), "DE": ps.classic.DE(), "SciPy DE": SciPyDE()},
    dims=[2, 3],
    runs=3,
    population=20,
    generations=60,
)

if __name__ == "__main__":
    results = study.run(sys.argv[1], workers=2)
    if len(sys.argv) > 2:
        from paoswarm.study.folder import publish

        publish(results, sys.argv[1])
"""
CELLS = 18  # of some 50 ms
PATIENCE = 600.0  # seconds for anything that should take one


class Process:
    """A study in a process of its own, started as a user would, whose children can be told from all other processes."""

    def __init__(self, *command):
        self._mark = f"STUDY_TEST={uuid.uuid4()}"
        name, _, value = self._mark.partition("=")
        self._running = subprocess.Popen(
            [str(part) for part in command],
            env={**os.environ, name: value},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,  # so that an interrupt can be sent to it and its workers, as a terminal does
        )

    def __enter__(self):
        return self

    def __exit__(self, *error):
        for pid in self.pids():
            os.kill(pid, signal.SIGKILL)
        self._running.communicate()

    def pids(self):
        """Of this process and all that come from it."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                marked = self._mark.encode() in (folder / "environ").read_bytes().split(b"\0")
                alive = (folder / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
            except OSError:  # it has ended meanwhile
                continue
            if marked and alive:
                found.append(int(folder.name))
        return found

    @property
    def ended(self):
        return self._running.poll() is not None

    def wait_until(self, condition):
        """True once the condition holds; False where the process ends before."""
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < deadline, "nothing happened"
            if self.ended:
                return False
            time.sleep(0.01)
        return True

    def kill(self):
        """Like a power cut, for the parent alone; the workers must notice by themselves."""
        self._running.kill()

    def interrupt(self):
        """Ctrl-C in a terminal."""
        os.killpg(self._running.pid, signal.SIGINT)

    def end(self):
        """Exit code, stdout and stderr."""
        out, err = self._running.communicate(timeout=PATIENCE)
        return self._running.returncode, out, err

    def assert_nobody_is_left(self, within=PATIENCE):
        deadline = time.monotonic() + within
        while self.pids():
            assert time.monotonic() < deadline, "a worker outlived its study"
            time.sleep(0.01)


needs_proc = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="processes are found through /proc")


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "my_study.py"
    path.write_text(SCRIPT)
    return path


def finished(folder):
    return sorted(folder.rglob("*.parquet"))


def stamps(folder):
    """When each finished cell was written, and as which file."""
    return {path: (path.stat().st_mtime_ns, path.stat().st_ino) for path in finished(folder)}


def contents(folder):
    """The errors in every file of a study, and everything else in its folder to the byte."""
    return {
        str(path.relative_to(folder)): pq.read_table(path).to_pydict()
        if path.suffix == ".parquet"
        else path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def killed(script, folder, moments, *publishing):
    """Start the study once for every moment, and kill it a little later; count the kills that came in time."""
    rng = np.random.default_rng(1)
    kills = 0
    for moment in moments:
        before = stamps(folder)
        with Process(sys.executable, script, folder, *publishing) as study:
            if study.wait_until(moment):
                time.sleep(rng.uniform(0, 0.06))
                study.kill()
                kills += 1
            study.assert_nobody_is_left()
        assert stamps(folder).items() >= before.items()  # finished cells are not run again
    return kills


@pytest.mark.slow
@needs_proc
def test_a_study_killed_at_any_moment_continues_with_the_same_numbers(script, tmp_path):
    """Killed while it is imported, before the first cell, during the first ones, in the middle, and at the last."""
    study = runpy.run_path(str(script))["study"]
    calm, wild = tmp_path / "calm", tmp_path / "wild"
    counts = (1, 8, CELLS - 1)
    moments = [
        lambda: True,
        lambda: (wild / "runs").exists(),
        *(lambda count=count: len(finished(wild)) >= count for count in counts),
    ]
    assert killed(script, wild, moments) >= len(moments) - 1  # it may have been too quick for the last
    before = stamps(wild)
    with Process(sys.executable, script, wild) as last:
        assert last.end() == (0, "", "")
    assert stamps(wild).items() >= before.items()
    assert len(finished(wild)) == CELLS
    results = study.run(wild)
    assert_same_results(results, study.run(calm))
    publish(results, wild)
    publish(study.run(calm), calm)
    assert contents(wild) == contents(calm)
    assert {"report.html", "tables/summary.csv", "figures/convergence-2d.png"} <= contents(wild).keys()


@needs_proc
@pytest.mark.slow
def test_a_study_killed_while_it_publishes_ends_the_same(script, tmp_path):
    calm, wild = tmp_path / "calm", tmp_path / "wild"
    moments = [
        *(lambda count=count: len(finished(wild)) >= count for count in range(1, CELLS + 1, 2)),
        *(lambda count=count: len(list(wild.glob("figures/*"))) >= count for count in (1, 2, 3, 4, 5)),
        lambda: list(wild.glob("tables/*")),
        lambda: list(wild.glob("*.html")),
    ]
    assert killed(script, wild, moments, "publish") >= len(moments) - 4
    for folder in (calm, wild):
        with Process(sys.executable, script, folder, "publish") as last:
            assert last.end() == (0, "", "")
    assert contents(wild) == contents(calm)


@needs_proc
def test_workers_end_with_a_parent_that_is_killed_while_they_are_busy(tmp_path):
    path = tmp_path / "busy.py"
    path.write_text(SCRIPT.replace("runs=3", "runs=10**4"))
    with Process(sys.executable, path, tmp_path / "out") as study:
        assert study.wait_until(lambda: len(study.pids()) == 3)
        time.sleep(0.3)
        study.kill()
        study.assert_nobody_is_left()
        assert finished(tmp_path / "out") == []


# Ctrl-C

TOML = """
problems = ["sphere", "ackley", "rastrigin"]
dims = [2, 5]
runs = 5
population = 40
generations = 400
[methods.PAO]
[methods.SADE]
[methods.DE]
"""


@needs_proc
@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_ctrl_c_ends_promptly_and_the_study_continues_from_finished_cells(workers, tmp_path):
    (tmp_path / "it.toml").write_text(TOML)
    folder = tmp_path / "out"
    command = [
        sys.executable,
        "-m",
        "paoswarm",
        "study",
        tmp_path / "it.toml",
        "--out",
        folder,
        "--workers",
        workers,
    ]
    kept = {}
    for more in (1, 3):
        count = len(kept) + more
        with Process(*command) as study:
            assert study.wait_until(lambda count=count: len(finished(folder)) >= count)
            time.sleep(0.03)  # into the middle of a cell
            study.interrupt()
            code, _, said = study.end()
            study.assert_nobody_is_left()
        assert code == 130
        assert said.strip().startswith("paoswarm: interrupted; finished cells are kept")
        assert said.strip().count("\n") == 0
        assert stamps(folder).items() >= kept.items()
        kept = stamps(folder)
        assert count <= len(kept) < 18
    study = read_study(tmp_path / "it.toml")
    assert_same_results(study.run(folder), study.run(tmp_path / "calm"))
    assert stamps(folder).items() >= kept.items()


class Interrupting:
    """An objective during whose n-th call the user presses Ctrl-C."""

    def __init__(self, call):
        self.calls_left = call

    def __call__(self, x):
        self.calls_left -= 1
        if self.calls_left == 0:
            signal.raise_signal(signal.SIGINT)
        return ((x - 0.3) ** 2).sum(axis=-1)


@pytest.mark.parametrize("method", [ps.PAO(), random_search], ids=["swarm", "adapter"])
@pytest.mark.parametrize("call", [2, 3, 4, 20])
def test_an_interrupt_in_the_middle_of_a_cell_discards_it(call, method, tmp_path):
    """Numbers of a cell that was cut short must never be taken for those of a finished one."""
    whole = small(problems=[own_problem()], methods={"it": method}, dims=[2], generations=40)
    cut = small(problems=[own_problem(Interrupting(call + 1))], methods={"it": method}, dims=[2], generations=40)
    with pytest.raises(KeyboardInterrupt):  # the first call is the study's own
        cut.run(tmp_path / "cut")
    assert finished(tmp_path / "cut") == []
    assert_same_results(whole.run(tmp_path / "cut"), whole.run(tmp_path / "calm"))


def test_an_interrupt_in_the_middle_of_an_instance_discards_the_cell(tmp_path):
    fun = Interrupting(30)

    class Instanced:
        name, title, minimum, instanced = "mine", "Mine", 0.0, True

        def __init__(self, dim):
            self.bounds = np.tile([-1.0, 1.0], (dim, 1))

        def instance(self, run):
            return self

        def __call__(self, x):
            return fun(x)

    with pytest.raises(KeyboardInterrupt):
        small(problems=[Instanced], methods={"it": ps.PAO()}, dims=[2], generations=40).run(tmp_path)
    assert finished(tmp_path) == []


def interrupted_in_a_worker(x):
    if multiprocessing.parent_process() is not None:
        signal.raise_signal(signal.SIGINT)
    return (x**2).sum(axis=-1)


def test_workers_leave_interrupts_to_their_parent(tmp_path):
    """A terminal sends Ctrl-C to all of them, and a swarm that sees it would end before its time."""
    study = small(problems=[own_problem(interrupted_in_a_worker)], dims=[2])
    try:
        results = study.run(tmp_path / "2", workers=2)
    except KeyboardInterrupt:
        pytest.fail("a worker passed an interrupt on")
    assert_same_results(results, study.run(tmp_path / "1"))


# Cells that fail


class Awkward(Exception):
    """An exception that cannot be sent from process to process."""

    def __init__(self, one, two):
        super().__init__(f"{one} and {two}")


def failing(fun, bounds, *, population, seed):
    fun(bounds[:, 0])
    raise RuntimeError("no luck")


def failing_awkwardly(fun, bounds, *, population, seed):
    raise Awkward("this", "that")


def idle(fun, bounds, *, population, seed):
    """Never asks for a value."""


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize(
    ("adapter", "reason"),
    [
        (failing, "RuntimeError: no luck"),
        (failing_awkwardly, "Awkward: this and that"),
        (idle, "without evaluating any point"),
    ],
)
def test_a_cell_that_fails_is_named_and_the_finished_ones_are_kept(adapter, reason, workers, tmp_path):
    methods = {"PAO": ps.PAO(), "PSO": ps.classic.PSO(), "DE": ps.classic.DE(), "the bad one": adapter}
    study = small(methods=methods, problems=["ackley"], dims=[3])
    with pytest.raises(CellFailed, match=f"the bad one on ackley in 3 dimensions failed: .*{reason}"):
        study.run(tmp_path, workers=workers)
    kept = stamps(tmp_path)
    assert CellFiles(tmp_path).path(Key("ackley", 3, "the bad one")) not in kept
    if workers == 1:
        assert len(kept) == 3
    mended = small(methods={**methods, "the bad one": random_search}, problems=["ackley"], dims=[3])
    assert len(mended.run(tmp_path).traces) == 4
    assert stamps(tmp_path).items() >= kept.items()


def test_with_workers_the_cells_that_were_finished_before_a_failure_are_kept(tmp_path):
    methods = {"PAO": ps.PAO(), "PSO": ps.classic.PSO(), "late": partial(fails_after_the_others, folder=tmp_path)}
    with pytest.raises(CellFailed, match="late on sphere in 2 dimensions failed: RuntimeError: too late"):
        small(methods=methods, problems=["sphere"], dims=[2]).run(tmp_path, workers=2)
    assert [path.stem for path in finished(tmp_path)] == ["PAO", "PSO"]


def fails_after_the_others(fun, bounds, *, population, seed, folder):
    until(lambda: len(finished(folder)) == 2)
    raise RuntimeError("too late")


def dying(fun, bounds, *, population, seed):
    os._exit(3)


def shot(fun, bounds, *, population, seed):
    os.kill(os.getpid(), signal.SIGKILL)  # as the kernel does when memory runs out


@pytest.mark.parametrize("adapter", [dying, shot])
def test_a_worker_that_dies_is_an_error_and_does_not_hang(adapter, tmp_path):
    methods = {"PAO": ps.PAO(), "PSO": ps.classic.PSO(), "bad": adapter}
    with pytest.raises(CellFailed, match=r"a worker process died.*again to continue"):
        small(methods=methods, problems=["ackley"], dims=[3]).run(tmp_path, workers=2)
    mended = small(methods={**methods, "bad": random_search}, problems=["ackley"], dims=[3])
    calm = mended.run(tmp_path / "calm")
    assert_same_results(mended.run(tmp_path), calm)


def raising(x):
    raise ZeroDivisionError("the objective is broken")


@pytest.mark.parametrize("workers", [1, 2])
def test_an_objective_that_always_fails_is_named(workers, tmp_path):
    with pytest.raises(CellFailed, match=r"on broken in 2 dimensions failed: .*the objective is broken"):
        small(problems=[own_problem(raising, name="broken")], dims=[2]).run(tmp_path, workers=workers)


def raising_on_the_right(x):
    if (x[..., 0] > 0.2).any():
        raise ZeroDivisionError("never on the right")
    return (x**2).sum(axis=-1)


def test_an_objective_may_fail_at_some_points(tmp_path):
    study = small(problems=[own_problem(raising_on_the_right, name="left")], methods={"PAO": ps.PAO()}, dims=[2])
    with pytest.warns(RuntimeWarning, match="the function raised an exception at .* points"):
        results = study.run(tmp_path)
    assert np.isfinite(results.final("left", 2, "PAO")).all()


def test_any_executor_gives_the_same_study(tmp_path):
    study = small()
    alone = study.run(tmp_path / "alone")
    with ThreadPoolExecutor(2) as threads:
        assert_same_results(study.run(tmp_path / "given", workers=threads), alone)
        assert threads.submit(int).result() == 0  # it is left open
    assert_same_results(study.run(tmp_path / "made", workers=lambda: ThreadPoolExecutor(2)), alone)
    with pytest.raises(TypeError, match="workers is a function that makes 4: it must make an executor"):
        study.run(tmp_path / "wrong", workers=lambda: 4)
    with pytest.raises(TypeError, match="workers must be"):
        study.run(tmp_path / "wrong", workers=map)


def test_a_finished_cell_is_read_once(tmp_path, monkeypatch):
    first = small(methods={"PAO": ps.PAO()}).run(tmp_path)
    reads, read = [], CellFiles.read
    monkeypatch.setattr(CellFiles, "read", lambda self, key, *rest: reads.append(key) or read(self, key, *rest))
    again = small(methods={"PAO": ps.PAO()}).run(tmp_path)
    assert sorted(reads) == sorted(first.traces)
    assert_same_results(first, again)


def test_the_error_names_what_cannot_be_sent_to_workers(tmp_path):
    study = small(problems=[lambda dim: ps.problems.sphere(dim)])
    assert len(study.run(tmp_path / "1").traces) == 4
    with pytest.raises((CellFailed, TypeError), match="workers"):
        study.run(tmp_path / "2", workers=2)
