"""Ctrl-C at chosen steps of a call: it is raised, or the result says that the run was interrupted. None is lost."""

import signal
import sys
import threading
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import pytest

import paoswarm as ps
from paoswarm.evaluate import interrupts
from paoswarm.evaluate.call_options import Workers
from paoswarm.evaluate.dispatch import Dispatcher
from paoswarm.evaluate.executors import open_engine

BOX = [(-5.0, 5.0)] * 2
LAST = 40  # of these steps each one is tried


@pytest.fixture(autouse=True)
def no_twins(monkeypatch):
    monkeypatch.setattr(interrupts, "_TWIN_SECONDS", 0.0)


def value(x):
    return float(((x - 1) ** 2).sum())


def curve(x):
    return x[0] * np.exp(-x[1] * np.arange(1.0, 5.0))


def log_likelihood(x):
    return -0.5 * ((x - 0.3) ** 2).sum(axis=1)


SMALL = {"method": ps.PAO(), "n_particles": 4, "maxiter": 2, "rng": 1}
DOORS = {
    "many": lambda store: ps.minimize_many(value, BOX, runs=3, store=store, **SMALL),
    "callback": lambda store: ps.minimize(value, BOX, callback=lambda x: None, store=store, **SMALL),
    "polished": lambda store: ps.minimize(value, BOX, polish=True, store=store, **SMALL),
    "asynchronous": lambda store: ps.minimize(value, BOX, workers=Workers(1, asynchronous=True), store=store, **SMALL),
    "default": lambda store: ps.minimize(value, BOX, maxfev=30, rng=1, store=store),
    "fit": lambda store: ps.fit(curve, [(0.1, 5.0)] * 2, curve([3.0, 0.5]) + 0.1, maxfev=40, rng=1, store=store),
    "sample": lambda store: ps.sample(
        log_likelihood, [(-1, 1)] * 2, n_effective=100, n_particles=100, maxfev=150, vectorized=True, rng=1, store=store
    ),
}


LONG = ("fit", "sample")
EVERY_DOOR = [pytest.param(door, marks=pytest.mark.slow) if door in LONG else door for door in DOORS]


def interrupted_at(step, call):
    """Make a call and interrupt it when it calls a function for the n-th time, or has; the outcome, and all steps."""
    count, outcome = 0, "nothing was heard"

    def look(frame, event, argument):
        nonlocal count
        if event in ("call", "c_return"):
            count += 1
            if count == step:
                signal.raise_signal(signal.SIGINT)

    sys.setprofile(look)
    try:
        result = call()
        sys.setprofile(None)
        if isinstance(result, ps.results.Posterior):
            is_told = result.method == "interrupted"
        else:
            is_told = (np.asarray(result.status) == ps.results.Status.INTERRUPTED).any()
        outcome = "told" if is_told else outcome
    except KeyboardInterrupt:
        outcome = "raised"
    finally:
        sys.setprofile(None)
    return outcome, count


def outcomes(call, n_tried=40):
    """What comes of interrupts at steps over the whole call, and at each of the last ones."""
    call()
    assert interrupted_at(0, call)[0] == "nothing was heard"
    _, total = interrupted_at(0, call)
    steps = {*range(1, total + 1, total // n_tried), *range(total - LAST, total + 1)}
    return {step: interrupted_at(step, call)[0] for step in sorted(steps)}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("door", EVERY_DOOR)
def test_no_interrupt_is_lost(door):
    found = outcomes(lambda: DOORS[door](None))
    assert set(found.values()) == {"raised", "told"}, found


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("door", EVERY_DOOR)
def test_no_interrupt_is_lost_while_a_finished_stored_run_is_repeated(door, tmp_path):
    """Nor does one leave the store locked: the next call can open it."""
    found = outcomes(lambda: DOORS[door](ps.Store(tmp_path / "run.paoswarm", fsync="never")))
    assert set(found.values()) == {"raised"}, found


def test_an_interrupt_that_comes_with_the_last_values_is_not_lost():
    with ThreadPoolExecutor(2) as pool:
        found = outcomes(lambda: ps.minimize(value, BOX, workers=pool, **SMALL), n_tried=150)
    assert set(found.values()) == {"raised", "told"}, found


def test_a_wait_for_an_executor_that_is_interrupted_holds_no_lock():
    """A worker that could not set its result would never end."""

    pending = []

    class Scripted(ThreadPoolExecutor):
        def submit(self, *arguments):
            pending.append(Future())
            return pending[-1]

    def is_free(future):
        setter = threading.Thread(target=future.set_result, args=(1,), daemon=True)
        setter.start()
        setter.join(5.0)
        return not setter.is_alive()

    with Scripted(1) as pool:
        engine = open_engine(pool, value, False, Workers(pool).retry_policy)

        def wait():
            dispatcher = Dispatcher(engine, 0)
            for number in range(2):
                dispatcher.send(number, np.zeros((1, 2)))
            with interrupts.interrupted_once():
                dispatcher.receive(0.001)
            return ps.results.Result(status=0)

        wait()  # what is imported is there now
        _, total = interrupted_at(0, wait)
        for step in range(1, total + 1):
            pending.clear()
            assert interrupted_at(step, wait)[0] == "raised", (step, total)
            assert all(is_free(future) for future in pending), step


def test_warnings_of_a_call_name_the_line_of_the_user():
    """And not that of a decorator."""
    with pytest.warns(RuntimeWarning) as seen:
        DOORS["sample"](None)
    assert {one.filename for one in seen} == {__file__}
