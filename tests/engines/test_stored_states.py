"""Stores of compiled runs: a run that goes on from one is the run that never stopped, to the last bit."""

import base64
import contextlib
import io
import json
import os
import random
import signal
import threading
import time
import tracemalloc
import warnings
import zlib
from pathlib import Path

import numpy as np
import pytest
from jax_alone import need_jax
from reference import no_rules
from waiting import interrupted_when, until

import paoswarm as ps
from paoswarm.cli.commands import main
from paoswarm.engines import counter
from paoswarm.engines.program import State, read_program
from paoswarm.run import compiled_swarms
from paoswarm.store import states

BOX = [(-2.0, 3.0)] * 2
RUNS, PARTICLES = 4, 20


def rippled(x):
    return (x[0] - 0.1) ** 2 + 2 * (x[1] - 0.2) ** 2 + 0.3 * np.sin(9 * x[0]) ** 2


@pytest.fixture(scope="module")
def jitted():
    """The objective, compiled once."""
    return pytest.importorskip("numba", reason="numba is not installed").njit(rippled)


@pytest.fixture
def often(jitted, monkeypatch):
    """States are recorded after every call of the engine, and calls are short."""
    from paoswarm.engines import numba_engine

    monkeypatch.setattr(compiled_swarms, "_SECONDS", 0.0)
    monkeypatch.setattr(compiled_swarms, "_SHARE", np.inf)
    monkeypatch.setattr(numba_engine.NumbaEngine, "longest", 5)


def many(fun, store=None, **given):
    options = {"method": "PAO", "engine": ps.engines.Numba(threads=1), "rng": 3, "n_particles": PARTICLES}
    return ps.minimize_many(fun, BOX, **(options | {"runs": RUNS, "maxiter": 30} | given), store=store)


def assert_same(one, other):
    for name in ("x", "fun", "nit", "nfev", "n_failed", "status", "history"):
        np.testing.assert_array_equal(one[name], other[name], err_msg=name)
    assert list(one.message) == list(other.message)
    for ours, theirs in zip(one.swarm, other.swarm, strict=True):
        np.testing.assert_array_equal(ours, theirs)


LIMITS = {
    "more generations": ({"maxiter": 7}, {"maxiter": 45}),
    "a generation that was cut short": ({"maxfev": 107}, {"maxfev": 233}, {"maxfev": 519}),
    "until converged": ({"maxiter": 20}, {"maxiter": 400}),
    "with a target, which some runs reach early": ({"maxiter": 5, "target": 0.05}, {"maxiter": 60, "target": 0.05}),
    "with polishing at last": ({"maxfev": 107}, {"maxfev": 900, "polish": True}),
    "points of their own": ({"maxiter": 4, "init": "sobol"}, {"maxiter": 9, "init": "sobol"}),
    "a point of the user": ({"maxiter": 4, "x0": [0.0, 0.5]}, {"maxiter": 9, "x0": [0.0, 0.5]}),
}


@pytest.mark.parametrize("name", LIMITS)
def test_a_run_that_goes_on_is_the_run_that_never_stopped(jitted, tmp_path, name):
    steps, precision = LIMITS[name], "single" if name == "a generation that was cut short" else "double"
    file, engine = tmp_path / "run.paoswarm", ps.engines.Numba(precision, threads=1)
    for limits in steps:
        stored = many(jitted, file, engine=engine, **limits)
    assert_same(stored, many(jitted, engine=engine, **steps[-1]))
    size = file.stat().st_size
    assert_same(many(jitted, file, engine=engine, **steps[-1]), stored)
    assert file.stat().st_size == size  # a finished run records nothing more


def test_jax_takes_a_state_from_the_memory_of_the_host():
    need_jax()
    from paoswarm.engines.jax_engine import JaxEngine

    keys = counter.run_keys(np.random.SeedSequence(6), 3)
    program = read_program(ps.PAO(), 10, -np.ones(2), np.ones(2), no_rules(), maxiter=6)
    engine = JaxEngine(program, lambda x: (x**4 - x).sum())
    whole, history = engine.advance(engine.begin(keys), keys, 1, 4)
    half, first = engine.advance(engine.begin(keys), keys, 1, 2)
    again, second = engine.advance(State(*map(np.array, half)), keys, 3, 2)
    np.testing.assert_array_equal(np.concatenate([first, second], axis=1), history)
    for ours, theirs in zip(again, whole, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["single", "double"])
def test_jax_goes_on_from_a_store(tmp_path, precision):
    jax = need_jax()

    @jax.jit
    def rippled_with_jax(x):
        return (x[0] - 0.1) ** 2 + 2 * (x[1] - 0.2) ** 2 + 0.3 * jax.numpy.sin(9 * x[0]) ** 2

    file, engine = tmp_path / "run.paoswarm", "auto" if precision == "single" else ps.engines.Jax("double")
    many(rippled_with_jax, file, engine=engine, maxfev=107)
    stored = many(rippled_with_jax, file, engine=engine, maxfev=433)
    assert_same(stored, many(rippled_with_jax, engine=ps.engines.Jax(precision), maxfev=433))
    assert stored.engine == "jax"


def test_minimize_says_what_came_from_the_store(jitted, tmp_path):
    options = {"method": "PAO", "engine": "numba", "n_particles": PARTICLES, "store": tmp_path / "run.paoswarm"}
    first = ps.minimize(jitted, BOX, maxiter=10, **options)  # its seed is drawn, recorded and used again
    longer = ps.minimize(jitted, BOX, maxiter=25, **options)
    assert longer.message.endswith(" Generations 0 to 10 came from the store.")
    np.testing.assert_array_equal(first.history.best, longer.history.best[:11])
    again = ps.resume(options["store"], jitted, maxiter=40)
    assert (again.engine, again.nit) == ("numba", 40)
    np.testing.assert_array_equal(longer.history.best, again.history.best[:26])


def test_a_file_that_was_cut_anywhere_leads_to_the_same_result(jitted, tmp_path, often):
    whole = tmp_path / "whole.paoswarm"
    expected = many(jitted, whole)
    data = whole.read_bytes()
    assert data.count(b'{"state":') == 6
    lines = np.cumsum([len(line) for line in data.splitlines(keepends=True)])
    file = ps.Store(tmp_path / "cut.paoswarm", fsync="never")
    for cut in (*lines[1:].tolist(), *random.Random(1).sample(range(len(data)), 12)):
        Path(file.path).write_bytes(data[:cut])
        assert_same(many(jitted, file), expected)


def last_generation(file):
    """That of the last complete state in a file; -1 if there is none."""
    lines = file.read_bytes().splitlines(keepends=True) if file.exists() else []
    states = [line for line in lines if line.startswith(b'{"state":') and line.endswith(b"\n")]
    return json.loads(states[-1])["state"]["generation"] if states else -1


def wait_for_a_state(child, file):
    """Wait until the file has a new state, or the child has ended."""
    before, how = last_generation(file), os.WEXITED | os.WNOHANG | os.WNOWAIT
    until(lambda: last_generation(file) > before or os.waitid(os.P_PID, child, how) is not None, 1e-3)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("large", [10**9, 0], ids=["appended", "replaced"])
def test_a_run_that_is_killed_loses_nothing_that_was_recorded(jitted, tmp_path, often, monkeypatch, large):
    monkeypatch.setattr(states, "LARGE", large)
    options = {"maxiter": 400, "tol": 0.0}
    expected, file = many(jitted, **options), tmp_path / "run.paoswarm"
    chance, generations = random.Random(2), [-1]
    for _ in range(5):
        child = os.fork()
        if child == 0:
            with contextlib.suppress(BaseException):
                many(jitted, file, callback=lambda x: time.sleep(2e-4), **options)
            os._exit(0)
        wait_for_a_state(child, file)
        time.sleep(chance.uniform(0.0, 0.03))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        generations.append(last_generation(file))
    assert generations == sorted(generations)
    assert generations[-1] > 0
    assert_same(many(jitted, file, **options), expected)


def test_states_that_are_superseded_are_dropped_from_large_files(jitted, tmp_path, often, monkeypatch):
    monkeypatch.setattr(states, "LARGE", 0)
    file, seen = tmp_path / "run.paoswarm", []
    progress = ps.results.Progress(file)

    def look(intermediate_result):
        if file.exists():
            seen.append((progress.update().evaluations, progress.best))
            if len(seen) == 3:
                with pytest.raises(ps.errors.StoreInUse, match=f"process {os.getpid()}"):
                    many(jitted, file)

    result = many(jitted, file, callback=look)
    assert_same(result, many(jitted))
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert sum("state" in line for line in lines) == 1
    assert [line["i"] for line in lines if "i" in line] == [0, *range(8, 14)]  # what is not a state is kept
    assert sorted(seen) == sorted(seen, key=lambda pair: pair[0])
    assert seen[-1][0] == result.nfev.sum()
    assert os.listdir(tmp_path) == ["run.paoswarm"]
    assert_same(many(jitted, file, maxiter=50), many(jitted, maxiter=50))


@pytest.mark.parametrize("how", ["callback", "interrupt", "signal", "error"])
def test_runs_that_were_stopped_from_outside_go_on(jitted, tmp_path, how, often):
    file, calls = tmp_path / "run.paoswarm", []

    def stop(x):
        calls.append(x)
        is_time = len(calls) == 3
        if is_time and how == "interrupt":
            raise KeyboardInterrupt
        if is_time and how == "signal":
            os.kill(os.getpid(), signal.SIGINT)
        if is_time and how == "error":
            raise RuntimeError("of the callback")
        return is_time

    with pytest.raises(RuntimeError) if how == "error" else contextlib.nullcontext():
        stopped = many(jitted, file, callback=stop)
        assert set(stopped.status) == {
            ps.results.Status.CALLBACK if how == "callback" else ps.results.Status.INTERRUPTED
        }
        assert (stopped.nit == 10).all()
    assert_same(many(jitted, file), many(jitted))


@pytest.mark.parametrize("how", ["signal", "full"])
def test_a_state_that_could_not_be_recorded_at_once_is_recorded_again(jitted, tmp_path, how, often, monkeypatch):
    """Its pieces are then in the file twice, or an interrupt has come between them."""
    file, packed, calls = tmp_path / "run.paoswarm", states.packed, []

    def stopped(*parts):
        calls.append(parts)
        for record in packed(*parts):
            yield record
            if len(calls) == 3 and "piece" in record:
                calls.append(None)
                if how == "full":
                    raise OSError("no space left")
                os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(states, "packed", stopped)
    with pytest.raises(OSError, match="no space") if how == "full" else contextlib.nullcontext():
        result = many(jitted, file)
        assert set(result.status) == {ps.results.Status.INTERRUPTED}
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [line["state"]["generation"] for line in lines if "state" in line] == [5, 10, 15]
    assert_same(many(jitted, file), many(jitted))


def test_the_message_says_how_many_generations_came_from_the_store(jitted, tmp_path):
    options = {"method": "PAO", "engine": "numba", "rng": 1, "store": tmp_path / "run.paoswarm"}
    first, again = (ps.minimize(jitted, BOX, **options) for _ in range(2))
    assert again.message == f"{first.message} Generations 0 to {first.nit} came from the store."


def test_an_interrupt_waits_for_the_end_of_a_call(jitted, tmp_path):
    """Otherwise some runs would be further than others, and the recorded state would be that of no generation."""
    file = tmp_path / "run.paoswarm"
    options = {"runs": 64, "maxiter": 10**6, "tol": 0.0, "engine": ps.engines.Numba(threads=2)}
    is_under_way = threading.Event()
    with interrupted_when(is_under_way.is_set):
        stopped = many(jitted, file, callback=lambda x: is_under_way.set(), **options)
    assert set(stopped.status) == {ps.results.Status.INTERRUPTED}
    reached = int(stopped.nit[0])
    assert (stopped.nit == reached).all()
    assert stopped.history.shape == (64, reached + 1)
    assert_same(
        many(jitted, file, **options | {"maxiter": reached + 5}), many(jitted, **options | {"maxiter": reached + 5})
    )


OTHERS = {
    "seed": ({"rng": 4}, "rng = 3, but this one has rng = 4"),
    "size": ({"n_particles": 21}, "n_particles = 20, but"),
    "method": ({"method": ps.PAO(damping=0.3)}, "method.damping = 0.2, but"),
    "runs": ({"runs": 5}, "runs = 4, but"),
    "tol": ({"tol": 1e-3}, "tol = 1e-12, but"),
    "target": ({"target": 0.5}, "target = None, but"),
    "precision": ({"engine": ps.engines.Numba("single")}, "holds a run with engine=Numba.precision='double'"),
    "engine": ({"engine": "numpy"}, r"engine=Numba\(.*\), not with engine='numpy'"),
    "fewer generations": ({"maxiter": 3}, "holds 8 generations, and these limits allow 3"),
}


@pytest.mark.parametrize(("given", "message"), OTHERS.values(), ids=OTHERS)
def test_another_run_is_refused_and_the_file_stays(jitted, tmp_path, given, message):
    file = tmp_path / "run.paoswarm"
    many(jitted, file, maxiter=8)
    before = file.read_bytes()
    with pytest.raises(ps.errors.OtherRun, match=message):
        many(jitted, file, **given)
    assert file.read_bytes() == before
    with pytest.raises(ps.errors.OtherRun, match="bounds = "):
        ps.minimize_many(jitted, [(-2.0, 4.0)] * 2, runs=RUNS, method="PAO", engine="numba", rng=3, store=file)


def test_schedules_need_the_same_limits(jitted, tmp_path):
    file = tmp_path / "run.paoswarm"
    slowing = ps.PAO(dt=ps.schedules.linear(1.2, 0.8))
    stopped = many(jitted, file, method=slowing, callback=lambda x: True)
    assert set(stopped.status) == {ps.results.Status.CALLBACK}
    with pytest.raises(ps.errors.OtherRun, match="maxiter=30, but this call has maxiter=60: the method has schedules"):
        many(jitted, file, method=slowing, maxiter=60)
    with pytest.raises(ps.errors.OtherRun, match="schedules"):
        many(jitted, file, method=slowing, maxiter=None, time_limit=1)
    assert_same(many(jitted, file, method=slowing), many(jitted, method=slowing))


def test_another_function_is_refused_and_a_changed_one_is_named(jitted, tmp_path):
    numba = pytest.importorskip("numba")
    file, offset = tmp_path / "run.paoswarm", 1.0
    many(jitted, file, maxiter=8)
    other = numba.njit(lambda x: rippled_code(x) + offset)
    with pytest.raises(ps.errors.OtherRun, match="values of another function: evaluation"):
        many(other, file)
    same = numba.njit(lambda x: rippled_code(x) + 0.0)
    with pytest.warns(RuntimeWarning, match="the function has changed .* gave the recorded values again"):
        assert_same(many(same, file), many(jitted))
    trusted = many(other, ps.Store(file, trust=True), maxiter=40)
    assert (trusted.nit == 40).all()


try:
    import numba

    rippled_code = numba.njit(rippled)
except ImportError:
    pass


def test_what_else_a_file_is_asked(jitted, tmp_path, capsys):
    file = tmp_path / "run.paoswarm"
    result = many(jitted, file)
    x, f = ps.Store(file).read()
    assert x.shape == (9, 2)
    np.testing.assert_array_equal(f[-1], result.fun.min())
    text = str(ps.results.Progress(file).update())
    assert f"evaluations  {result.nfev.sum()} of {RUNS * 31 * PARTICLES}" in text
    assert "minimize_many PAO" in text
    assert "ended        4 x Stopped at the limit of generations." in text
    (tmp_path / "model.py").write_text(
        "import numpy as np\ndef rippled(x):\n"
        "    return (x[0] - 0.1) ** 2 + 2 * (x[1] - 0.2) ** 2 + 0.3 * np.sin(9 * x[0]) ** 2\n"
    )
    with warnings.catch_warnings(action="ignore"), contextlib.redirect_stdout(io.StringIO()) as said:
        assert main(["resume", str(file), "--fun", f"{tmp_path}/model.py:rippled", "--maxiter", "40"]) in (0, 1)
    assert "4 runs on engine='numba'" in said.getvalue()
    assert main(["resume", str(file), "--fun", f"{tmp_path}/model.py:rippled", "--workers", "2"]) == 2
    assert "compiled engines do not have workers" in capsys.readouterr().err


def test_a_crafted_state_is_damage(jitted, tmp_path):
    from paoswarm.store.log import decode, encode

    whole = tmp_path / "whole.paoswarm"
    many(jitted, whole, maxiter=8)
    lines = whole.read_bytes().splitlines(keepends=True)
    place = next(i for i, line in enumerate(lines) if line.startswith(b'{"state":'))
    for i, (change, message) in enumerate(
        [
            (lambda state: state.update(generation=5), "does not fit the number of generations"),
            (lambda state: state["arrays"].update(x=["<f8", [4, 20, 3]]), "does not fit the run"),
            (lambda state: state.update(history=["<f8", [5, 9]]), "does not fit the number of generations"),
            (lambda state: state["arrays"].update(x=["<f4", [4, 20, 2]]), "more data than the arrays hold"),
            (lambda state: state.update(history=["<f4", [4, 9]]), "more data than the arrays hold"),
            (lambda state: state["arrays"].update(x=["|O", [4, 20, 2]]), "x has no type"),
            (lambda state: state["arrays"].update(y=state["arrays"].pop("x")), "does not fit the run"),
            (lambda state: state.pop("failed"), "a state has no counts"),
        ]
    ):
        record = decode(lines[place])
        change(record["state"])
        file = tmp_path / f"{i}.paoswarm"
        file.write_bytes(b"".join([*lines[:place], encode(record), *lines[place + 1 :]]))
        with pytest.raises(ps.errors.DamagedStore, match=message):
            many(jitted, file)


NONSENSE = {
    "status": ("status", 77, None, "ended for no known reason"),
    "rule": ("rule", -5, None, "ended for no known reason"),
    "generations": ("nit", -5, None, "a count is negative"),
    "best value": ("best_value", np.nan, None, "a best value is NaN"),
    "type of values": ("best_value", 0, "<f4", "best_value has the type float32"),
    "type of counts": ("nit", 0, "<f8", "nit has the type float64"),
}


@pytest.mark.parametrize("what", NONSENSE)
def test_arrays_that_are_not_those_of_the_runs_are_damage(jitted, tmp_path, what):
    from paoswarm.store.log import decode, encode

    file = tmp_path / "run.paoswarm"
    many(jitted, file, maxiter=8)
    lines = file.read_bytes().splitlines(keepends=True)
    place = next(i for i, line in enumerate(lines) if line.startswith(b'{"state":'))
    state = decode(lines[place])["state"]
    shapes = {name: tuple(shape) for name, (_, shape) in state["arrays"].items()}
    saved = states.latest(file, shapes, lambda arrays: None)
    name, value, kind, message = NONSENSE[what]
    wrong = np.full(shapes[name], value, dtype=kind or saved.arrays[name].dtype)
    counts = {name: state[name] for name in ("generation", "evaluations", "failed", "t")}
    crafted = states.packed(saved.arrays | {name: wrong}, saved.history, counts)
    first = next(i for i, line in enumerate(lines) if line.startswith(b'{"piece":'))
    file.write_bytes(b"".join([*lines[:first], *map(encode, crafted), *lines[place + 1 :]]))
    with pytest.raises(ps.errors.DamagedStore, match=f"a recorded state makes no sense .*{message}"):
        many(jitted, file)


@pytest.mark.parametrize("stated", [None, [4, 2**25]])
def test_no_more_is_unpacked_than_the_arrays_of_the_run_hold(jitted, tmp_path, stated):
    from paoswarm.store.log import decode, encode

    whole = tmp_path / "whole.paoswarm"
    many(jitted, whole, maxiter=8)
    lines = whole.read_bytes().splitlines(keepends=True)
    place = next(i for i, line in enumerate(lines) if line.startswith(b'{"state":'))
    state = decode(lines[place])
    if stated is not None:
        state["state"]["arrays"]["x"] = ["<f8", stated]
    zeros = base64.b64encode(zlib.compress(bytes(2**26), 9)).decode()
    bombs = [encode({"piece": name, "data": zeros}) for name in ("arrays", "history") for _ in range(2)]
    whole.write_bytes(b"".join([*lines[:place], *bombs, encode(state), *lines[place + 1 :]]))
    tracemalloc.start()
    with pytest.raises(ps.errors.DamagedStore, match="more data than the arrays" if stated is None else "fit the run"):
        many(jitted, whole, maxiter=9)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2e7, peak


def drafts(folder):
    return [name for name in os.listdir(folder) if name.endswith(".tmp")]


@pytest.mark.skipif(os.name != "posix", reason="there a file is never replaced")
@pytest.mark.parametrize("how", ["a link", "a file", "a long name"])
def test_a_file_that_cannot_be_replaced_is_appended_to(jitted, tmp_path, often, monkeypatch, how):
    """A draft takes the place of no other file, and follows no link."""
    monkeypatch.setattr(states, "LARGE", 0)
    file, victim = tmp_path / ("x" * 251 if how == "a long name" else "run"), tmp_path / "victim"
    victim.write_text("precious")
    if how == "a link":
        (tmp_path / ".run.tmp").symlink_to(victim)
    elif how == "a file":
        (tmp_path / ".run.tmp").write_text("precious, too")
    assert_same(many(jitted, file, maxiter=15), many(jitted, maxiter=15))
    assert_same(many(jitted, file), many(jitted))
    assert sum(line.startswith(b'{"state":') for line in file.read_bytes().splitlines()) == 6
    assert victim.read_text() == "precious"
    assert not file.is_symlink()
    if how != "a long name":
        assert (tmp_path / ".run.tmp").read_text().startswith("precious")


def test_a_draft_that_a_killed_process_has_left_is_removed(jitted, tmp_path):
    file = tmp_path / "run"
    expected = many(jitted, file)
    for left in (file.read_bytes()[:1000], b""):
        (tmp_path / ".run.tmp").write_bytes(left)
        assert_same(many(jitted, file), expected)
        assert drafts(tmp_path) == []


def test_arrays_in_several_pieces(jitted, tmp_path, monkeypatch):
    monkeypatch.setattr(states, "_PIECE", 1000)
    file = tmp_path / "run.paoswarm"
    many(jitted, file, maxiter=8)
    assert file.read_bytes().count(b'{"piece":"arrays"') > 3
    assert_same(many(jitted, file), many(jitted))


def test_cuda_has_no_store(tmp_path):
    with pytest.raises(ValueError, match="engine='cuda' does not have store"):
        many(rippled, tmp_path / "run.paoswarm", engine="cuda")
    assert not Path(tmp_path / "run.paoswarm").exists()
