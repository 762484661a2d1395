"""A polished run can be continued: with a larger budget the swarm goes on from where it was before polishing."""

import numpy as np
import pytest
from messages import about_the_end
from waiting import Clock

import paoswarm as ps
from paoswarm.store.identity import OtherRun
from paoswarm.store.watch import Progress

BOUNDS = [(-5, 5)] * 3
SMALL = {"method": ps.PAO(), "n_particles": 12, "rng": 3, "polish": True}


class Counted:
    """The Rosenbrock function in three dimensions; counts its calls."""

    def __init__(self):
        self.calls = 0

    def __call__(self, x):
        self.calls += 1
        return float((100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum())


@pytest.fixture
def store(tmp_path):
    return ps.Store(tmp_path / "run", fsync="never", trust=True)


def assert_same(one, other):
    assert (one.fun, one.nfev, one.nit) == (other.fun, other.nfev, other.nit)
    assert about_the_end(one) == about_the_end(other)
    assert np.array_equal(one.x, other.x)
    assert np.array_equal(one.swarm.position, other.swarm.position)


# The second pair ends within a generation: a part of it is recorded before the polishing.
@pytest.mark.parametrize(("first", "second"), [({"maxiter": 5}, {"maxiter": 9}), ({"maxfev": 300}, {"maxfev": 801})])
def test_a_polished_run_goes_on(store, first, second):
    fun = Counted()
    short = ps.minimize(fun, BOUNDS, store=store, **SMALL, **first)
    swarm_only = short.nfev - int(short.message.split("Polished with ")[1].split()[0])
    longer = ps.minimize(fun, BOUNDS, store=store, **SMALL, **second)
    assert_same(longer, ps.minimize(Counted(), BOUNDS, **SMALL, **second))
    assert fun.calls == short.nfev + longer.nfev - swarm_only  # nothing of the swarm was evaluated twice
    x, f = store.read()
    assert len(f) == longer.nfev
    assert len(np.unique(x, axis=0)) >= longer.nfev - 1  # polishing begins with the best point once more
    assert Progress(store.path).update().evaluations == longer.nfev
    again = ps.minimize(fun, BOUNDS, store=store, **SMALL, **second)
    assert_same(again, longer)
    assert fun.calls == short.nfev + longer.nfev - swarm_only


def test_it_can_be_continued_many_times_with_polishing_or_without(store):
    fun = Counted()
    ps.minimize(fun, BOUNDS, store=store, **SMALL, maxiter=3)
    for maxiter, polish in ((5, True), (7, False), (7, True), (9, True)):
        result = ps.resume(store, fun, maxiter=maxiter, polish=polish)
        assert_same(result, ps.minimize(Counted(), BOUNDS, **(SMALL | {"polish": polish}), maxiter=maxiter))


def test_interrupted_after_polishing_was_set_aside(store):
    ps.minimize(Counted(), BOUNDS, store=store, **SMALL, maxiter=3)
    stopped = ps.minimize(Counted(), BOUNDS, store=store, **SMALL, maxiter=9, callback=lambda intermediate_result: True)
    assert stopped.nit == 4
    fun = Counted()
    whole = ps.minimize(Counted(), BOUNDS, **SMALL, maxiter=9)
    assert_same(ps.minimize(fun, BOUNDS, store=store, **SMALL, maxiter=9), whole)
    assert fun.calls == whole.nfev - stopped.nfev


def test_asynchronous_runs_go_on_too(store):
    short = ps.minimize(Counted(), BOUNDS, store=store, **SMALL, maxfev=200, workers=ps.Workers(asynchronous=True))
    longer = ps.resume(store, Counted(), maxfev=600)
    assert longer.nfev > short.nfev
    assert_same(ps.resume(store, Counted()), longer)
    assert len(store.read()[1]) == longer.nfev


def test_a_shorter_run_cannot_be_polished_in_the_file_of_a_longer_one(store):
    longer = ps.minimize(Counted(), BOUNDS, store=store, **SMALL, maxiter=9)
    size = store.path.stat().st_size
    with pytest.raises(OtherRun, match="where this one starts polishing"):
        ps.minimize(Counted(), BOUNDS, store=store, **SMALL, maxiter=5)
    assert_same(ps.minimize(Counted(), BOUNDS, store=store, **SMALL, maxiter=9), longer)
    assert store.path.stat().st_size - size < 500  # records of opening and ending, but no evaluation


def test_a_polished_run_that_had_too_little_time_goes_on(store, monkeypatch):
    clock = Clock(monkeypatch)

    def slow(x):
        clock.wait(1.0)
        return Counted()(x)

    results = [ps.minimize(slow, BOUNDS, store=store, **SMALL, maxiter=12, time_limit=60) for _ in range(2)]
    assert [result.status for result in results] == [ps.results.Status.TIME] * 2
    assert results[1].nit > results[0].nit
    last = ps.minimize(Counted(), BOUNDS, store=store, **SMALL, maxiter=12)
    assert_same(last, ps.minimize(Counted(), BOUNDS, **SMALL, maxiter=12))
