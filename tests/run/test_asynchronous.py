"""Swarms in which every particle moves when its own value is there."""

import heapq
import itertools
import time
from collections import namedtuple
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from objectives import sphere
from scipy import stats
from waiting import Clock, interrupted_when

import paoswarm as ps
from paoswarm.evaluate.child import Answered
from paoswarm.evaluate.engines import WorkerPool
from paoswarm.evaluate.queue import Answer
from paoswarm.run.optimizer import Optimizer
from paoswarm.run.read_input import read_space
from paoswarm.run.run_state import RunState
from paoswarm.run.single_points import Particles
from paoswarm.store.log import StoreError

BOX = [(-5, 5)] * 3


class Clocked(WorkerPool):
    """Workers whose evaluations take simulated time, so that who is quickest is decided by a seed."""

    def __init__(self, fun, slots, seed=0, sigma=1.0):
        self._fun, self._slots, self._sigma = fun, slots, sigma
        self._chance = np.random.default_rng(seed)
        self._queue, self._order = [], itertools.count()
        self.clock = 0.0
        self.begun, self.ended, self.points = [], [], []

    @property
    def slots(self):
        return self._slots

    def submit(self, x, *, with_function=False):
        assert sum(not future.cancelled() for *_, future, _ in self._queue) < self._slots
        future = Future()
        self.begun.append(self.clock)
        end = self.clock + np.exp(self._sigma * self._chance.standard_normal())
        heapq.heappush(self._queue, (end, next(self._order), future, x))
        return future

    def wait(self, pending, timeout):
        if timeout == 0:
            return set()
        done = set()
        while not done or (self._queue and self._queue[0][0] == self.clock):  # all that end at this moment
            self.clock, _, future, x = heapq.heappop(self._queue)
            if not future.cancelled():
                self.ended.append(self.clock)
                self.points += list(x)
                future.set_result(Answered([float(self._fun(row)) for row in x], 1.0))
                done.add(future)
        return done

    @property
    def busy(self):
        """The share of the time, until the latest value, in which workers had something to do."""
        ends = sorted(self.ended) + [self.clock] * (len(self.begun) - len(self.ended))
        return (sum(ends) - sum(self.begun)) / (self.clock * self._slots)

    @property
    def idle_after_the_first(self):
        """Completions, between the first swarm and the last evaluation that was begun, after which nothing began."""
        inside = [end for end in self.ended if self.begun[63] < end <= self.begun[-1]]
        return len(set(inside) - set(self.begun))


def unquestioned(file):
    """A store whose values are not compared with the function, so that every call counts."""
    return ps.Store(file, fsync="never", trust=True)


def run(engine, **settings):
    settings = {
        "method": ps.PAO(),
        "n_particles": 16,
        "maxiter": 10,
        "rng": 1,
        "workers": ps.Workers(engine, asynchronous=True),
        **settings,
    }
    if "store" in settings:
        settings["store"] = unquestioned(settings["store"])
    return ps.minimize(sphere, BOX, **settings)


def assert_same(one, other):
    for name in ("x", "fun", "nfev", "nit", "status", "n_failed"):
        assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
    for name in ("position", "velocity", "value", "best_position", "best_value", "age"):
        assert_array_equal(getattr(one.swarm, name), getattr(other.swarm, name), err_msg=name)
    for name in ("best", "mean", "spread", "nfev"):
        assert_array_equal(getattr(one.history, name), getattr(other.history, name), err_msg=name)


def test_no_worker_waits_once_the_first_swarm_is_known():
    free, bound = Clocked(sphere, 8), Clocked(sphere, 8)
    run(free, n_particles=64, maxiter=5)
    run(bound, n_particles=64, maxiter=5, workers=bound)
    assert free.idle_after_the_first <= 7  # while the last tenth of the first swarm is on its way
    assert bound.idle_after_the_first > 20
    assert free.clock < bound.clock


def test_the_budget_is_exact_and_histories_go_by_generations():
    engine = Clocked(sphere, 4)
    result = run(engine)
    assert result.status is ps.results.Status.MAXITER
    assert_array_equal(result.history.nfev, 16 * np.arange(1, 12))
    assert (result.nit, result.nfev, len(engine.points)) == (10, 176, 176)
    assert result.fun == min(sphere(x) for x in engine.points)
    cut = Clocked(sphere, 4)
    result = run(cut, maxiter=None, maxfev=100)
    assert (result.status, result.nfev, len(cut.points)) == (ps.results.Status.MAXFEV, 100, 100)
    assert_array_equal(result.history.nfev, [16, 32, 48, 64, 80, 96, 100])


def test_the_same_order_of_arrivals_gives_the_same_run_and_another_one_does_not():
    assert_same(run(Clocked(sphere, 4, seed=1)), run(Clocked(sphere, 4, seed=1)))
    assert run(Clocked(sphere, 4, seed=1)).fun != run(Clocked(sphere, 4, seed=2)).fun


def test_an_asynchronous_swarm_finds_what_a_synchronous_one_finds():
    centre = np.array([1.0, -2.0, 3.0])  # not in the middle
    settings = {"n_particles": 30, "maxiter": 50, "rng": 1}
    for seed in range(2):
        engine = Clocked(lambda x: sphere(x - centre), 8, seed)
        assert (
            ps.minimize(sphere, BOX, method=ps.PAO(), workers=ps.Workers(engine, asynchronous=True), **settings).fun
            < 1e-6
        )


Job = namedtuple("Job", "number x")


class ByHand:
    """Particles that are asked and told by hand."""

    def __init__(self, **settings):
        self.state = RunState(read_space(BOX), **settings)
        self.particles = Particles(self.state)
        self.out = self.particles._out

    def ask_one(self, progress):
        x = self.particles.ask(progress)
        return None if x is None else Job(self.particles.n_asked - 1, x)

    def tell_one(self, number, value):
        self.particles.tell(Answer(np.array([value]), number=number))

    def __getattr__(self, name):
        return getattr(self.state, name)


class TestParticles:
    def swarm(self, n=10, **settings):
        return ByHand(**{"method": ps.PAO(), "n_particles": n, "rng": 1, **settings})

    def test_the_first_points_are_those_of_a_synchronous_run_and_nobody_moves_before_most_are_known(self):
        optimizer = self.swarm()
        jobs = [optimizer.ask_one(0.0) for _ in range(10)]
        assert_array_equal([job.x for job in jobs], ps.Optimizer(BOX, method=ps.PAO(), n_particles=10, rng=1).ask())
        for told, job in enumerate(jobs):
            assert (optimizer.ask_one(0.0) is None) == (told < 9)
            optimizer.tell_one(job.number, sphere(job.x))
        assert optimizer.nfev == 10

    def started(self, **settings):
        optimizer = self.swarm(**settings)
        for job in [optimizer.ask_one(0.0) for _ in range(10)]:
            optimizer.tell_one(job.number, sphere(job.x))
        return optimizer

    def test_the_particle_that_has_waited_longest_moves_and_has_one_evaluation_at_a_time(self):
        optimizer = self.started()
        before = optimizer.swarm.position
        jobs = [optimizer.ask_one(0.0) for _ in range(10)]
        assert optimizer.ask_one(0.0) is None  # everybody is out
        optimizer.tell_one(jobs[7].number, 1.0)
        optimizer.tell_one(jobs[2].number, 2.0)
        moved = (optimizer.swarm.position != before).any(axis=1)
        assert_array_equal(np.flatnonzero(moved), [2, 7])
        again = [optimizer.ask_one(0.0), optimizer.ask_one(0.0)]
        assert optimizer.ask_one(0.0) is None
        optimizer.tell_one(again[1].number, 3.0)
        assert optimizer.swarm.value[2] == 3.0  # 7 was told first, so it was asked first
        assert optimizer.swarm.value[7] == 1.0

    def test_a_move_starts_where_the_particle_is_and_follows_the_best_known_when_it_was_asked(self):
        still = ps.PAO(noise=0.0, attractors=(ps.attractors.global_best,), stiffness=2.0, walls="none")
        optimizer = self.started(method=still)
        leader = optimizer.swarm.global_best[0]
        early, late = optimizer.ask_one(0.0), optimizer.ask_one(0.0)
        A = ps.laws.transition(1.0, 0.2, 2.0, 1.0).A
        for i, job in enumerate((early, late)):
            expected = leader + A[0, 0] * (optimizer.swarm.position[i] - leader)
            np.testing.assert_allclose(job.x, expected, rtol=1e-12)
        optimizer.tell_one(late.number, -1.0)  # a new best, while the other is out
        third = optimizer.ask_one(0.0)
        expected = late.x + A[0, 0] * (optimizer.swarm.position[2] - late.x)
        np.testing.assert_allclose(third.x, expected, rtol=1e-12)
        optimizer.tell_one(early.number, 0.5)
        assert_array_equal(optimizer.swarm.position[0], early.x)
        np.testing.assert_allclose(optimizer.swarm.velocity[0], A[1, 0] * (_first()[0] - leader), rtol=1e-12)

    def test_moves_follow_the_exact_law_of_the_step(self):
        """Probability integral transforms of 1000 moves; a correct swarm fails with probability 1e-4."""
        method = ps.PAO(walls="none")
        optimizer = self.swarm(n=8, method=method)
        chance = np.random.default_rng(5)
        jobs = [optimizer.ask_one(0.0) for _ in range(8)]
        right, stale, before = [], [], {}
        while len(right) < 1000:
            job = jobs.pop(int(chance.integers(len(jobs))))
            optimizer.tell_one(job.number, float(chance.standard_normal()))  # never settles
            new = optimizer.ask_one(0.0)
            if new is None:
                continue
            jobs.append(new)
            i = optimizer.out[new.number].particle
            law = method.step_law(optimizer.swarm)
            scale = law.scale[i] * law.cholesky[0, 0]
            if i in before and (scale > 0).all():
                right.append(stats.norm.cdf((new.x - law.mean_position[i]) / scale)[0])
                stale.append(stats.norm.cdf((new.x - before[i]) / scale)[0])
            before[i] = law.mean_position[i]
        assert stats.kstest(right, "uniform").pvalue > 1e-4
        assert stats.kstest(stale, "uniform").pvalue < 1e-4  # as if its last value had not been told

    def test_bests_are_measured_again_in_their_share(self):
        chance = np.random.default_rng(3)
        optimizer = self.swarm(reevaluate=0.2)
        again = 0
        for _ in range(10 + 12 * 20):
            job = optimizer.ask_one(0.0)
            again += optimizer.out[job.number].again is not None
            optimizer.tell_one(job.number, float(sphere(job.x) + 0.1 * chance.standard_normal()))
        assert again == pytest.approx(2 * 20, abs=1)
        assert optimizer.nit == 20
        assert optimizer.swarm.repeats.freedom > 10
        assert 0.05 < optimizer.swarm.repeats.sd < 0.2


def _first():
    return ps.Optimizer(BOX, method=ps.PAO(), n_particles=10, rng=1).ask()


@pytest.mark.parametrize(
    "method",
    [ps.PAO(), ps.classic.PSO(), ps.classic.DE(), ps.classic.QPSO(), ps.classic.RandomSearch()],
    ids=lambda m: m.__class__.__name__,
)
def test_every_method_but_one_moves_its_particles_one_by_one(method):
    assert run(Clocked(sphere, 4), method=method).nfev == 176


def test_a_method_that_learns_by_generations_is_the_same_whoever_is_quickest():
    """The next generation begins when the last one is complete, so the order within it does not matter."""
    settings = {"n_particles": 16, "rng": 1, "method": ps.classic.SADE()}
    alone = ps.minimize(sphere, BOX, maxiter=10, **settings)
    for seed in range(3):
        assert_same(run(Clocked(sphere, 4, seed=seed), method=ps.classic.SADE()), alone)
    cut = run(Clocked(sphere, 4, seed=7), method=ps.classic.SADE(), maxiter=None, maxfev=100)
    assert_same(cut, ps.minimize(sphere, BOX, maxiter=None, maxfev=100, **settings))


def test_a_map_like_cannot_be_asynchronous():
    with pytest.raises(ValueError, match="asynchronous=True needs processes or an executor"):
        run(map)


def test_more_workers_than_particles_are_worth_a_warning():
    with pytest.warns(RuntimeWarning, match="16 particles cannot keep 17 workers busy"):
        assert run(Clocked(sphere, 17)).nfev == 176


def test_a_target_ends_the_run_at_once_and_others_are_not_waited_for():
    engine = Clocked(sphere, 4)
    result = run(engine, target=0.5, maxiter=100)
    assert result.status is ps.results.Status.TARGET
    assert sphere(engine.points[-1]) == result.fun <= 0.5 < min(sphere(x) for x in engine.points[:-1])
    assert len(engine.begun) == result.nfev + 3


def test_a_callback_is_called_after_every_generation_and_may_stop():
    seen = []

    def callback(intermediate_result):
        seen.append(intermediate_result.nfev)
        return len(seen) == 4

    result = run(Clocked(sphere, 4), callback=callback)
    assert result.status is ps.results.Status.CALLBACK
    assert seen == [16, 32, 48, 64] == result.history.nfev.tolist()


def test_failed_points_are_counted_and_the_run_goes_on():
    def holey(x):
        return np.nan if x[0] > 2 else sphere(x)

    engine = Clocked(holey, 4)
    result = run(engine)
    failed = sum(x[0] > 2 for x in engine.points)
    assert result.n_failed == failed > 3
    assert dict(result.failure_kinds) == {"returned NaN": failed}
    assert result.x[0] <= 2


def test_a_first_swarm_that_fails_is_an_error_and_one_that_almost_fails_is_none():
    with pytest.raises(ValueError, match=r"no finite value .* at x = "):
        run(Clocked(lambda x: np.nan, 4))
    least = _first_of_run()[:, 0].min()
    result = run(Clocked(lambda x: np.nan if x[0] > least else sphere(x), 4), maxiter=3)
    assert result.nfev == 64
    assert result.x[0] <= least


def _first_of_run():
    return Optimizer(BOX, method=ps.PAO(), n_particles=16, rng=1).ask()


def test_a_run_that_was_continued_does_not_evaluate_its_points_again():
    first = run(Clocked(sphere, 4))
    engine = Clocked(sphere, 4)
    more = run(engine, init=first.swarm, maxiter=5)
    assert (more.nfev, len(engine.points)) == (80, 80)
    assert more.fun <= first.fun
    known = {tuple(x) for x in first.swarm.position}
    assert not known & {tuple(x) for x in engine.points}


def test_known_values_are_used_and_not_evaluated():
    x0 = np.array([[1.0, 1, 1], [2, 2, 2]])
    engine = Clocked(sphere, 4)
    result = run(engine, x0=(x0, [-5.0, 4.0]), maxiter=2)
    assert result.nfev == 14 + 2 * 16
    assert result.fun == -5.0
    assert_array_equal(result.x, x0[0])


class TestStore:
    """The order of arrivals is part of the record."""

    def forbidden(self, x):
        raise AssertionError("everything is recorded")

    @pytest.fixture
    def file(self, tmp_path):
        return tmp_path / "run.paoswarm"

    @pytest.mark.parametrize("seed", [1, 2])
    @pytest.mark.parametrize("more", [{}, {"reevaluate": 0.25}, {"maxfev": 93}, {"target": 0.5}], ids=str)
    def test_a_finished_run_is_repeated_to_the_last_bit_without_evaluations(self, seed, more, file):
        live = run(Clocked(sphere, 4, seed), store=file, **more)
        again = ps.minimize(
            self.forbidden,
            BOX,
            method=ps.PAO(),
            n_particles=16,
            maxiter=10,
            rng=1,
            workers=ps.Workers(asynchronous=True),
            store=unquestioned(file),
            **more,
        )
        assert_same(again, live)
        assert_same(run(Clocked(sphere, 4, seed), **more), live)  # the store changes nothing

    def test_a_log_that_was_cut_anywhere_goes_on_and_repeats_nothing(self, file):
        run(Clocked(sphere, 4, seed=1), store=file)
        lines = file.read_bytes().splitlines(keepends=True)
        assert len(lines) > 176
        for cut in (3, 10, 18, 40, 111):
            file.write_bytes(b"".join(lines[:cut]) + lines[cut][:20])  # the last line is torn
            known = {tuple(x) for x in ps.Store(file).read()[0]}
            engine = Clocked(sphere, 3, seed=cut)
            result = run(engine, store=file)
            assert not known & {tuple(x) for x in engine.points}
            assert (result.nfev, len(known) + len(engine.points)) == (176, 176)
            replayed = ps.resume(unquestioned(file), self.forbidden, workers=1)
            assert_same(replayed, result)

    def test_other_limits_go_on_with_a_finished_run(self, file):
        run(Clocked(sphere, 4), store=file)
        engine = Clocked(sphere, 4)
        longer = ps.resume(unquestioned(file), sphere, workers=engine, maxiter=20)
        assert (longer.nfev, len(engine.points)) == (16 * 21, 160)

    @pytest.mark.parametrize(("limit", "nfev", "status"), [("maxfev", 53, "MAXFEV"), ("maxiter", 64, "MAXITER")])
    def test_lower_limits_end_the_repetition_earlier(self, limit, nfev, status, file):
        live = run(Clocked(sphere, 4), store=file)
        lowered = {"maxfev": {"maxfev": 53}, "maxiter": {"maxiter": 3}}[limit]
        short = ps.resume(unquestioned(file), self.forbidden, workers=1, **lowered)
        assert (short.nfev, short.status.name) == (nfev, status)
        assert_array_equal(short.history.best[:3], live.history.best[:3])

    def test_the_callback_is_not_called_for_what_is_repeated(self, file):
        run(Clocked(sphere, 4), store=file)
        seen = []
        run(Clocked(sphere, 4), store=file, maxiter=12, callback=lambda x: seen.append(x))
        assert len(seen) == 2

    def test_a_synchronous_run_is_another_run(self, file):
        run(Clocked(sphere, 4), store=file)
        with pytest.raises(StoreError, match="asynchronous = true, but this one has asynchronous = false"):
            run(Clocked(sphere, 4), store=file, workers=1)


def test_when_time_is_up_what_is_being_evaluated_is_finished_and_nothing_new_is_begun(tmp_path, monkeypatch):
    begun, ended, clock = [], [], Clock(monkeypatch)

    def slow(x):
        begun.append(clock.seconds)
        clock.wait(0.05)
        ended.append(clock.seconds)
        return float(sphere(x))

    with ThreadPoolExecutor(4) as threads:
        start = clock.seconds
        result = ps.minimize(
            slow,
            BOX,
            method=ps.PAO(),
            n_particles=16,
            maxiter=None,
            time_limit=0.5,
            workers=ps.Workers(threads, asynchronous=True),
            rng=1,
            store=tmp_path / "store",
        )
    assert result.status is ps.results.Status.TIME
    assert result.nfev == len(begun) == len(ended) == len(ps.Store(tmp_path / "store").read()[1])
    assert 0.5 <= clock.seconds - start <= 0.5 + 17 * 0.05  # every particle was evaluated once more at most


def test_real_workers_of_every_kind(tmp_path):
    for workers in (1, 2, lambda: ThreadPoolExecutor(3)):
        assert run(workers).nfev == 176


def test_an_interrupt_returns_the_best_so_far(tmp_path):
    def slow(x):
        time.sleep(0.01)
        return float(sphere(x))

    store = tmp_path / "store"
    settings = {"method": ps.PAO(), "n_particles": 16, "maxfev": 10**6, "rng": 1, "store": store}
    with interrupted_when(lambda: store.exists() and store.read_bytes().count(b"\n") > 40):
        result = ps.minimize(slow, BOX, workers=ps.Workers(2, asynchronous=True), **settings)
    assert result.status is ps.results.Status.INTERRUPTED
    _, f = ps.Store(store).read()
    assert 16 < result.nfev <= len(f) <= result.nfev + 2  # what has just arrived is recorded, and told next time
    assert result.fun >= f.min()
    assert np.sort(f)[2] >= result.fun


def test_polishing_afterwards_is_recorded_like_the_rest(tmp_path):
    def valley(x):
        return float((x[0] - 1) ** 2 + 10 * (x[1] + 2) ** 2 + (x[2] - x[0]) ** 2)

    settings = {"n_particles": 16, "target": 3.0, "polish": True, "rng": 1}
    store = unquestioned(tmp_path / "store")
    clocked = ps.Workers(Clocked(valley, 4), asynchronous=True)
    live = ps.minimize(valley, BOX, method=ps.PAO(), workers=clocked, store=store, **settings)
    assert live.fun < 1e-6
    assert "Polished" in live.message

    def forbidden(x):
        raise AssertionError("everything is recorded")

    again = ps.minimize(forbidden, BOX, method=ps.PAO(), workers=ps.Workers(asynchronous=True), store=store, **settings)
    assert_same(again, live)


@pytest.mark.parametrize("target", [20.0, 0.5])
def test_the_history_ends_with_what_reached_the_target(target):
    result = ps.minimize(
        lambda x: float(x @ x),
        [(-5, 5)] * 2,
        method=ps.PAO(),
        n_particles=10,
        target=target,
        workers=ps.Workers(asynchronous=True),
        rng=1,
    )
    assert result.status is ps.results.Status.TARGET
    assert result.history.best[-1] == result.fun <= target
    assert result.history.nfev[-1] == result.nfev
