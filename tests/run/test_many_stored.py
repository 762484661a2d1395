"""`minimize_many` with a store, with polishing and with a callback."""

import multiprocessing
import os
import signal

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import paoswarm as ps
from paoswarm.store.watch import Progress

BOX = [(-5.0, 5.0)] * 2
CENTRE = np.array([1.3, -0.7])


class OwnMethod(ps.classic.RandomSearch):
    """Moves one run at a time."""


METHODS = [ps.PAO(), ps.classic.PSO(inertia=ps.schedules.linear(0.9, 0.4)), OwnMethod()]


def bumpy(x):
    return ((x - CENTRE) ** 2).sum(axis=-1) + 0.3 * np.cos(7 * x).sum(axis=-1)


def call(fun=bumpy, **changes):
    settings = {"method": ps.PAO(), "runs": 5, "n_particles": 8, "maxiter": 6, "vectorized": True, "rng": 3}
    return ps.minimize_many(fun, BOX, **settings | changes)


class Interrupting:
    """Interrupts at a call, and counts the points of the others."""

    def __init__(self, at):
        self.at, self.calls, self.points = at, 0, 0

    def __call__(self, x):
        self.calls += 1
        if self.calls == self.at:
            raise KeyboardInterrupt
        self.points += 1 if x.ndim == 1 else len(x)
        return bumpy(x)


def assert_same(one, other):
    for name in ("x", "fun", "nit", "nfev", "n_failed", "status", "success", "history"):
        assert_array_equal(one[name], other[name], err_msg=name)
    assert one.message == other.message
    assert_array_equal(one.run(0).swarm.position, other.run(0).swarm.position)


@pytest.fixture
def store(tmp_path):
    return ps.Store(tmp_path / "many.paoswarm", fsync="never", trust=True)


# Stores


@pytest.mark.parametrize("method", METHODS, ids=["batches", "schedule", "one run at a time"])
@pytest.mark.parametrize("vectorized", [True, False])
def test_interrupted_runs_go_on_to_the_same_bits(store, method, vectorized):
    how = {"method": method, "vectorized": vectorized}
    plain = call(**how)
    points = []
    for at in (4, 5, 3, 10**9) if vectorized else (53, 70, 1, 10**9):
        fun = Interrupting(at)
        try:
            many = call(fun, store=store, **how)
        except KeyboardInterrupt:
            many = None  # too early for a result
        points.append(fun.points)
    assert_same(many, plain)
    lost = 8 * 5 if vectorized else 0  # a call that is interrupted
    assert sum(points) <= plain.nfev.sum() + lost
    assert_same(call(Interrupting(1), store=store, **how), plain)  # without another call
    assert len(store.read()[1]) == plain.nfev.sum()


def test_runs_that_end_at_different_times_are_repeated(store):
    how = {"maxiter": 30, "target": -0.2}
    plain = call(**how)
    assert len(set(plain.nit.tolist())) > 1
    call(Interrupting(7), store=store, **how)
    assert_same(call(store=store, **how), plain)


@pytest.mark.parametrize(
    ("short", "longer"),
    [({"maxiter": 3}, {"maxiter": 7}), ({"maxfev": 45}, {"maxfev": 91})],
)
def test_limits_may_grow(store, short, longer):
    call(**{"maxiter": 9} | short, store=store)
    fun = Interrupting(10**9)
    many = call(fun, **{"maxiter": 9} | longer, store=store)
    plain = call(**{"maxiter": 9} | longer)
    assert_same(many, plain)
    assert fun.points < plain.nfev.sum()


def test_the_number_of_runs_at_once_does_not_matter(store, monkeypatch):
    plain = call()
    call(Interrupting(5), store=store)
    monkeypatch.setattr("paoswarm.run.solve._BLOCK", 2 * 8 * 2)  # two runs at once
    assert_same(call(store=store), plain)


def test_workers_record_the_same_runs(store):
    call(Interrupting(60), store=store, vectorized=False)
    assert_same(call(store=store, vectorized=False, workers=2), call())


def test_failures_are_recorded(store):
    def failing(x):
        return np.where(x[:, 0] > 2, np.nan, bumpy(x))

    plain = call(failing)
    assert plain.n_failed.sum() > 0
    call(failing, store=store)
    assert_same(call(Interrupting(1), store=store), plain)


def test_the_seed_is_kept(store):
    first = call(store=store, rng=None)
    assert_array_equal(call(store=store, rng=None).fun, first.fun)


def test_other_runs_are_refused(store):
    call(store=store)
    for change in ({"runs": 6}, {"rng": 4}, {"n_particles": 9}):
        with pytest.raises(ps.errors.OtherRun, match="holds a run with"):
            call(store=store, **change)
    with pytest.raises(ps.errors.OtherRun, match="minimize_many"):
        ps.minimize(bumpy, BOX, method=ps.PAO(), store=store, rng=3)


def test_continued_runs_have_stores_too(store):
    first = call()
    plain = call(init=first, maxiter=4)
    call(Interrupting(3), init=first, maxiter=4, store=store)
    assert_same(call(init=first, maxiter=4, store=store), plain)


def test_resume_and_watch_know_many_runs(store):
    call(store=store)
    assert_same(ps.resume(store, bumpy, maxiter=9), call(maxiter=9))
    progress = Progress(store.path).update()
    assert (progress.evaluations, progress.expected) == (400, 400)
    assert "minimize_many PAO" in str(progress)


class Killed:
    """`bumpy`; call number 150 kills its process."""

    calls = 0

    def __call__(self, x):
        self.calls += 1
        if self.calls == 150:
            os.kill(os.getpid(), signal.SIGKILL)
        return bumpy(x)


@pytest.mark.skipif(multiprocessing.get_start_method() != "fork", reason="needs fork")
def test_killed_runs_go_on_to_the_same_bits(store):
    child = multiprocessing.Process(
        target=call, args=(Killed(),), kwargs={"vectorized": False, "polish": True, "store": store}
    )
    child.start()
    child.join()
    recorded = len(store.read()[1])
    assert recorded == 149
    fun = Interrupting(10**9)
    many = call(fun, vectorized=False, polish=True, store=store)
    plain = call(vectorized=False, polish=True)
    assert_same(many, plain)
    assert fun.points == plain.nfev.sum() - recorded


# Polishing


@pytest.mark.parametrize("method", [ps.PAO(), OwnMethod()])
def test_every_run_is_polished_as_it_would_be_alone(method):
    many = call(polish=True, method=method)
    for r in range(5):
        alone = ps.minimize(
            bumpy, BOX, n_particles=8, maxiter=6, vectorized=True, polish=True, method=method, rng=many.seeds[r]
        )
        assert_array_equal(many.x[r], alone.x)
        assert (many.fun[r], many.nfev[r], many.message[r]) == (alone.fun, alone.nfev, alone.message)
    assert (many.fun < call(method=method).fun).all()


def test_polishing_stays_within_the_budget():
    many = call(polish=True, maxfev=100, maxiter=None)
    assert (many.nfev <= 100).all()
    assert (many.nfev > 70).all()


def test_polished_runs_may_go_on(store):
    polished = call(polish=True, store=store)
    assert_same(call(Interrupting(1), polish=True, store=store), polished)
    assert_same(call(polish=True, maxiter=9, store=store), call(polish=True, maxiter=9))
    assert_same(call(Interrupting(1), polish=True, maxiter=9, store=store), call(polish=True, maxiter=9))


@pytest.mark.parametrize("at", [9, 12, 30])
def test_interrupted_polishing_goes_on(store, at):
    plain = call(polish=True)
    broken = call(Interrupting(at), polish=True, store=store)
    assert not broken.success.all()
    assert_same(call(polish=True, store=store), plain)


def test_polish_does_not_go_with_noise():
    with pytest.raises(ValueError, match="reevaluate"):
        call(polish=True, reevaluate=0.2)


# Callbacks


@pytest.mark.parametrize("method", [ps.PAO(), OwnMethod()])
def test_a_callback_sees_all_runs(method):
    seen = []
    many = call(callback=lambda intermediate_result: seen.append(intermediate_result), method=method)
    assert len(seen) == 7  # after the first swarm, too
    assert_array_equal(np.stack([one.fun for one in seen], axis=1), many.history)
    last = seen[-1]
    for name in ("x", "fun", "nit", "nfev", "n_failed"):
        assert_array_equal(last[name], many[name])
    assert last.swarm.position.shape == (5, 8, 2)
    assert "5 runs" in str(last)


def test_a_callback_sees_where_ended_runs_stand():
    seen = []
    many = call(callback=lambda intermediate_result: seen.append(intermediate_result), target=-0.2, maxiter=30)
    assert_array_equal(seen[-1].nit, many.nit)
    assert_array_equal(seen[-1].nfev, many.nfev)


def test_a_callback_for_points_gets_those_of_all_runs():
    shapes = []
    call(callback=lambda x: shapes.append(x.shape))
    assert shapes == [(5, 2)] * 7


@pytest.mark.parametrize("method", [ps.PAO(), OwnMethod()])
@pytest.mark.parametrize("how", ["StopIteration", "True"])
def test_a_callback_stops_all_runs(method, how):
    def stop(intermediate_result):
        if intermediate_result.nit.max() == 3:
            if how == "StopIteration":
                raise StopIteration
            return True
        return None

    many = call(callback=stop, method=method)
    assert set(many.status.tolist()) == {ps.results.Status.CALLBACK}
    assert_array_equal(many.nit, 3)
    assert_array_equal(many.nfev, 32)
    assert_array_equal(many.fun, call(method=method, maxiter=3).fun)


def test_a_callback_is_not_called_for_repeated_generations(store):
    seen = []
    call(Interrupting(6), store=store)
    call(store=store, callback=lambda intermediate_result: seen.append(int(intermediate_result.nit[0])))
    assert seen == [4, 5, 6]


def test_a_stopped_run_with_a_store_goes_on(store):
    def stop(intermediate_result):
        return bool(intermediate_result.nit[0] == 2)

    assert (call(callback=stop, polish=True, store=store).nit == 2).all()
    assert_same(call(polish=True, store=store), call(polish=True))
