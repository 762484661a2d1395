"""Asynchronous runs of methods that learn by generations: a generation is what comes back next."""

import itertools
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from test_asynchronous import Clocked, unquestioned

import paoswarm as ps
from paoswarm.core import order
from paoswarm.core.random import Draw, generator
from paoswarm.core.swarm import Proposal
from paoswarm.evaluate.queue import Answer
from paoswarm.methods import moves
from paoswarm.methods.dense_learning import after_generation, rates
from paoswarm.methods.model_search import ModelSearch
from paoswarm.run.read_input import read_space
from paoswarm.run.run_state import RunState
from paoswarm.run.single_points import Generations

BOX = [(-2, 3)] * 3


def valley(x):
    return float(np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2))


def wells(x):
    return float(np.sum((x**2 - 1) ** 2 + 0.1 * x))


def solve(engine=None, fun=valley, **settings):
    workers = 1 if engine is None else ps.Workers(engine, asynchronous=True)
    return ps.minimize(fun, BOX, **{"workers": workers, "maxfev": 900, "rng": 1, **settings})


def assert_same_searches(one, other):
    for name in ("x", "fun", "nfev", "nit", "status", "n_failed"):
        assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
    assert_array_equal(one.swarm.position, other.swarm.position)
    assert_array_equal(one.history.best, other.history.best)
    assert_array_equal(one.history.nfev, other.history.nfev)
    assert repr(one.searches) == repr(other.searches)


class TestNobodyWaits:
    def test_sixteen_workers_are_busy_for_800_evaluations_and_in_generations_they_are_not(self):
        free, bound = Clocked(valley, 16), Clocked(valley, 16)
        solve(free, maxfev=800)
        solve(fun=valley, maxfev=800, workers=bound)
        assert free.busy >= 0.85
        assert bound.busy < 0.35
        assert free.clock < bound.clock / 3

    def test_a_target_is_reached_much_sooner_with_few_more_evaluations(self):
        clock, nfev, swarms = np.zeros(2), np.zeros(2), ps.AdaptivePAO(kinds=ps.AdaptivePAO.swarms)
        for seed in range(4):
            engines = Clocked(valley, 16, seed), Clocked(valley, 16, seed)
            for i, workers in enumerate((ps.Workers(engines[0], asynchronous=True), engines[1])):
                found = solve(workers=workers, method=swarms, target=1e-6, maxfev=20_000, rng=seed)
                assert found.status is ps.results.Status.TARGET
                clock[i] += engines[i].clock
                nfev[i] += found.nfev
        assert clock[0] < clock[1] / 2.5
        assert nfev[0] < 1.5 * nfev[1]

    def test_a_local_model_reaches_a_target_sooner_than_swarms_and_asks_for_no_point_twice(self):
        clock = {ps.AdaptivePAO.kinds: 0.0, ps.AdaptivePAO.swarms: 0.0}
        for kinds, seed in itertools.product(clock, range(4)):
            engine = Clocked(valley, 16, seed)
            workers = ps.Workers(engine, asynchronous=True)
            found = solve(workers=workers, method=ps.AdaptivePAO(kinds=kinds), target=1e-6, maxfev=20_000, rng=seed)
            assert found.status is ps.results.Status.TARGET
            clock[kinds] += engine.clock
            first = [tuple(x) for x in engine.points[:300]]
            assert len(set(first)) == len(first)
        assert clock[ps.AdaptivePAO.kinds] < 0.7 * clock[ps.AdaptivePAO.swarms]

    def test_generations_have_half_as_many_points_as_there_are_workers_unless_they_are_waited_for(self):
        def parallel(**settings):
            return solve(threads, **{"maxfev": 800, "target": 10.0, **settings}).method.parallel

        with ThreadPoolExecutor(8) as threads:
            assert parallel() == 4
            assert parallel(maxfev=200) == 2
            assert parallel(reevaluate=0.2) == 8
            assert parallel(constraints=lambda x: x[0]) == 8
            assert parallel(method=ps.AdaptivePAO(parallel=7)) == 7


class TestTheSameRun:
    """Where no value comes late, generations are those of a synchronous run, to the last bit."""

    METHODS = (
        ps.AdaptivePAO(),
        ps.MixedPAO(),
        ps.DensePAO(),
        ps.DensePAO(model=False),
        ps.ElementPAO(),
        ps.Portfolio([ps.classic.DE(), ps.PAO(), ps.classic.SADE()]),
    )

    @pytest.mark.parametrize("method", METHODS, ids=lambda method: type(method).__name__)
    @pytest.mark.parametrize("fun", [valley, wells])
    def test_with_one_worker(self, method, fun):
        limits = {"maxfev": None, "maxiter": 60 if isinstance(method, ps.Portfolio) else 150}
        assert_same_searches(solve(1, fun, method=method, **limits), solve(fun=fun, method=method, **limits))

    @pytest.mark.parametrize(
        "method",
        [ps.DensePAO(parallel=4), ps.AdaptivePAO(parallel=4, kinds=("local model", "growing dense", "small dense"))],
        ids=lambda method: type(method).__name__,
    )
    def test_with_as_many_workers_as_points_and_equal_times(self, method):
        alone = solve(fun=wells, method=method)
        assert_same_searches(solve(Clocked(wells, 4, sigma=0), wells, method=method), alone)
        other = solve(Clocked(wells, 4, sigma=1), wells, method=method)  # negative control
        assert (other.history.best[: len(alone.history.best)] != alone.history.best[: len(other.history.best)]).any()


class TestAccounts:
    @pytest.mark.parametrize("method", [None, ps.DensePAO(), ps.ElementPAO(), ps.Portfolio([ps.PAO(), ps.DensePAO()])])
    def test_every_evaluation_is_counted_once_and_the_budget_is_exact(self, method):
        for maxfev in (8, 9, 100, 777):
            engine = Clocked(wells, 5, seed=maxfev)
            found = solve(engine, wells, method=method or "AdaptivePAO", n_particles=8, maxfev=maxfev, tol=0)
            if found.status is ps.results.Status.CONVERGED:  # what was under way is given up
                assert found.nfev == len(engine.points) < maxfev == 777
                continue
            assert found.nfev == len(engine.points) == len(engine.begun) == maxfev
            assert found.fun == min(map(wells, engine.points))
            assert found.history.nfev[-1] == maxfev
            assert len(found.history) == found.nit + 1

    def test_no_search_has_more_evaluations_than_were_told(self):
        found = solve(Clocked(wells, 16), wells, maxfev=3000, tol=0)
        spent = sum(one.evaluations for one in found.searches) + sum(one.used for one in found.swarm.memory.lanes)
        assert len(found.searches) > 1
        # Late points of each search, at most twice a generation of 8 to 64 points, count for the run only.
        assert 0.9 * found.nfev < spent <= found.nfev

    def test_limits_of_generations_failures_targets_and_callbacks(self):
        def holey(x):
            return np.nan if x[0] > 1.5 else wells(x)

        engine = Clocked(holey, 6)
        found = solve(engine, maxiter=40, maxfev=None)
        assert (found.nit, found.status) == (40, ps.results.Status.MAXITER)
        assert found.n_failed == sum(x[0] > 1.5 for x in engine.points) > 3
        engine, seen = Clocked(valley, 6), []
        found = solve(engine, target=0.1)
        assert found.status is ps.results.Status.TARGET
        assert valley(engine.points[-1]) == found.fun <= 0.1 < min(map(valley, engine.points[:-1]))
        assert len(engine.begun) == found.nfev + 5
        found = solve(Clocked(valley, 6), callback=lambda intermediate_result: seen.append(1) or len(seen) == 7)
        assert (found.status, found.nit) == (ps.results.Status.CALLBACK, 6)

    def test_a_first_swarm_that_fails_is_an_error(self):
        with pytest.raises(ValueError, match="no finite value"):
            solve(Clocked(lambda x: np.nan, 6))

    def test_a_run_that_was_continued_goes_on_with_its_searches(self):
        first = solve(Clocked(wells, 6), wells, maxfev=1500, tol=0)
        more = solve(Clocked(wells, 6, seed=3), wells, init=first, maxfev=500, tol=0)
        assert more.fun <= first.fun
        assert tuple(more.searches[: len(first.searches)]) == tuple(first.searches)


class TestStore:
    def forbidden(self, x):
        raise AssertionError("everything is recorded")

    @pytest.mark.parametrize(
        ("method", "more"),
        [("AdaptivePAO", {}), ("AdaptivePAO", {"target": 0.1}), ("DensePAO", {}), ("MixedPAO", {"maxfev": 401})],
        ids=str,
    )
    def test_a_run_is_repeated_in_the_recorded_order(self, method, more, tmp_path):
        store = unquestioned(tmp_path / "run")
        live = solve(Clocked(wells, 6, seed=3), wells, method=method, store=store, **more)
        again = solve(1, self.forbidden, method=method, store=store, **more)
        assert_same_searches(again, live)
        assert_same_searches(solve(Clocked(wells, 6, seed=3), wells, method=method, **more), live)
        other = solve(Clocked(wells, 6, seed=4), wells, method=method, **more)  # another order is another run
        assert (other.x != live.x).any()

    def test_a_log_that_was_cut_anywhere_goes_on_with_other_workers(self, tmp_path):
        file = tmp_path / "run"
        solve(Clocked(wells, 6), wells, store=unquestioned(file))
        lines = file.read_bytes().splitlines(keepends=True)
        for cut in (4, 13, 401):
            file.write_bytes(b"".join(lines[:cut]) + lines[cut][:20])  # the last line is torn
            known = {tuple(x) for x in ps.Store(file).read()[0]}
            engine = Clocked(wells, 3, seed=cut)
            found = solve(engine, wells, store=unquestioned(file))
            assert not known & {tuple(x) for x in engine.points}
            assert (found.nfev, len(known) + len(engine.points)) == (900, 900)
            assert found.method.parallel == 3
            assert_same_searches(ps.resume(unquestioned(file), self.forbidden, workers=1), found)

    def test_other_limits_go_on_with_a_finished_run(self, tmp_path):
        store = unquestioned(tmp_path / "run")
        live = solve(Clocked(wells, 6), wells, store=store)
        engine = Clocked(wells, 4)
        longer = ps.resume(store, wells, workers=engine, maxfev=1300)
        assert (longer.nfev, len(engine.points)) == (1300, 400)
        n = len(live.history) - 1  # the last generation was cut short
        assert_array_equal(longer.history.best[:n], live.history.best[:n])


class ByHand:
    """Points that are asked and told by hand."""

    def __init__(self, method, **settings):
        self.state = RunState(read_space(BOX), method=method, rng=1, **settings)
        self.points = Generations(self.state)

    def ask(self, count):
        asked = []
        for _ in range(count):
            self.points.settle()
            x = self.points.ask(0.0)
            asked.append(None if x is None else (self.points.n_asked - 1, x))
        return asked

    def tell(self, job, value=None):
        number, x = job
        return self.points.tell(Answer(np.array([wells(x) if value is None else value]), number=number))


class TestLatePoints:
    def test_a_search_begins_when_nine_tenths_of_its_first_swarm_are_known_and_late_points_are_kept(self):
        run = ByHand(ps.AdaptivePAO(), n_particles=10)
        jobs = run.ask(10)
        for job in jobs[:8]:
            run.tell(job)
            assert run.ask(1) == [None]
        run.tell(jobs[8])
        assert run.state.nit == 0
        (new,) = run.ask(1)
        lane = run.state.swarm.memory.lanes[0]
        assert lane.value == min(wells(x) for _, x in jobs[:9])
        assert np.isinf(run.state.swarm.value).sum() == 1
        assert not run.tell(jobs[9], -5.0)
        assert run.state.incumbent.value == -5.0
        assert_array_equal(run.state.incumbent.x, jobs[9][1])
        assert run.state.swarm.memory.lanes[0].value == lane.value
        assert run.tell(new) is False
        assert run.state.nfev == 11

    def test_points_of_a_search_that_has_ended_count_for_the_best_of_the_run_only(self):
        run = ByHand(ps.Restarts(ps.DensePAO(model=False)), n_particles=6)
        out = run.ask(6)
        while not run.state.swarm.memory.searches:  # on a plateau a search ends soon
            run.tell(out.pop(0), 1.0)
            out += [job for job in run.ask(12 - len(out)) if job is not None]
        assert len(out) > 3
        for job in out[:-1]:
            if run.points._out[job[0]][0].search == 0:
                run.tell(job, 0.5)
        ended = run.state.swarm.memory
        assert run.state.incumbent.value == 0.5
        assert [one.value for one in ended.searches] == [1.0]
        assert ended.tallies[0].spent == ended.searches[0].evaluations < run.state.nfev

    def test_no_more_than_twice_a_generation_is_under_way(self):
        run = ByHand(ps.DensePAO(model=False), n_particles=6)
        jobs = run.ask(6)
        for job in jobs:
            run.tell(job)
        assert [job is None for job in run.ask(13)] == [False] * 12 + [True]

    @pytest.mark.parametrize("seed", [0, 3, 5])
    def test_every_search_begins_once_whatever_moves_meanwhile(self, seed):
        """Sixteen points are under way and come back in any order; hills make searches begin and end."""
        chance, out, beginnings = np.random.default_rng(seed), [], {}
        run = ByHand(ps.AdaptivePAO(kinds=ps.AdaptivePAO.swarms, parallel=8), n_particles=16)
        for _ in range(4000):
            out += [job for job in run.ask(16 - len(out)) if job is not None]
            number, x = out.pop(int(chance.integers(len(out)) ** 1.5) % len(out))
            part = run.points._out[number][0]
            if part.start is not None:
                assert beginnings.setdefault(part.search, part) is part
            run.tell((number, x), float(np.sum(x**2 - 10 * np.cos(2 * np.pi * x))))
        sharing = run.state.swarm.memory
        assert len(sharing.lanes) + len(sharing.searches) == sharing.n_begun == len(beginnings) > 3


class Whole(ps.Method):
    """Learns from nothing but its own generations."""

    def ask(self, state, draw, progress=0.0):
        x = state.lower + (state.upper - state.lower) * draw.uniform(*state.position.shape)
        return Proposal(x, np.zeros_like(x), notes=x.copy())

    def tell(self, state, proposal, value, evaluated=None):
        assert_array_equal(proposal.position, proposal.notes)
        assert_array_equal(value, [wells(x) for x in proposal.notes])
        return super().tell(state, proposal, value, evaluated)

    def has_converged(self, state, spread, tol):
        return state.age.min() > 1


def test_a_kind_of_search_that_takes_no_such_generations_waits_for_whole_ones():
    for seed in range(3):
        method = ps.AdaptivePAO(kinds=(Whole(), "small dense"))
        found = solve(Clocked(wells, 7, seed), wells, method=method, n_particles=10, tol=0)
        assert found.nfev == 900
        assert "Whole" in [one.kind for one in found.searches]


class TestJoined:
    def test_a_local_model_learns_from_what_is_back_and_judges_its_latest_promise(self):
        method, draw = ModelSearch(parallel=4), Draw([generator(3)], ())
        state = self.swarm(method)
        while not state.memory.is_designed or len(state.memory.f) < 20:
            whole = moves.ask(method, state, draw, 0.0)
            state = moves.tell(method, state, whole, np.array([valley(x) for x in whole.position]))
        old = moves.ask(method, state, draw, 0.0)
        value = np.array([valley(x) for x in old.position])
        alone, values = method.joined(state, old, [(old, i) for i in (2, 0, 3, 1)], value[[2, 0, 3, 1]])
        now = moves.tell(method, state, alone, values)
        whole = moves.tell(method, state, old, value)
        assert now.memory.region.radius == whole.memory.region.radius
        assert_array_equal(now.memory.region.centre, whole.memory.region.centre)
        new = moves.ask(method, now, draw, 0.0)
        without, _ = method.joined(now, new, [(old, 3), (new, 1)], np.zeros(2))
        assert np.isnan(without.notes.promise)
        late, values = method.joined(now, new, [(new, 2), (old, 0), (new, 1)], np.arange(3.0))
        assert (late.notes.promise, late.notes.known) == (old.notes.promise, state.memory.region.value)
        assert_array_equal(values, [1, 0, 2])
        assert_array_equal(late.position, [old.position[0], new.position[2], new.position[1]])
        assert late.notes.memory is new.notes.memory

    def swarm(self, method, n=8):
        state = RunState(read_space(BOX), method=method, n_particles=n, rng=1)
        state.points()
        state.take(np.array([wells(x) for x in state.points()]))
        return state.swarm

    def test_a_dense_swarm_learns_from_points_of_several_laws_as_if_it_had_drawn_them(self):
        method, draw = ps.DensePAO(model=False), Draw([generator(3)], ())
        first = self.swarm(method)
        old = moves.ask(method, first, draw, 0.0)
        value = np.array([wells(x) for x in old.position])
        now = moves.tell(method, first, old, value)
        new = moves.ask(method, now, draw, 0.0)
        late = moves.ask(method, first, draw, 0.0)  # from the first law
        came = [(late, 5), (late, 2), *((new, i) for i in range(6))]
        x = np.array([proposal.notes.x[i] for proposal, i in came])
        value = np.array([wells(proposal.position[i]) for proposal, i in came])
        memory = now.memory
        outside = x - np.clip(x, 0, 1)
        expected, _ = after_generation(memory.law, rates(8, 3), memory.progress, x, value, outside)
        told = moves.tell(method, now, *method.joined(now, new, came, value)).memory.law
        for name in ("centre", "scale", "covariance", "path", "path_scale"):
            assert_array_equal(getattr(told, name), getattr(expected, name))
        whole = moves.tell(method, now, new, np.array([wells(x) for x in new.position])).memory.law
        assert (whole.centre != told.centre).any()

    def test_a_particle_takes_the_best_of_its_points_or_stays(self):
        method, draw = ps.ElementPAO(), Draw([generator(3)], ())
        now = self.swarm(method)
        early, new = (moves.ask(method, now, draw, 0.0) for _ in range(2))
        smaller = Proposal(early.position[:7], early.velocity[:7], notes=early.notes)
        came = [(early, 1), (new, 1), (early, 4), (new, 6), (smaller, 2)]
        value = np.array([0.5, 0.25, np.nan, -9.0, -99.0])
        joined, values = moves.one_for_each(now, new, came, value)
        assert_array_equal(joined.position[[1, 4, 6]], [new.position[1], early.position[4], new.position[6]])
        assert_array_equal(values[[1, 4, 6]], [0.25, np.nan, -9.0])
        assert_array_equal(joined.notes.step[[1, 4, 6]], [new.notes.step[1], early.notes.step[4], new.notes.step[6]])
        others = [0, 2, 3, 5, 7]
        assert_array_equal(joined.position[others], now.position[others])
        assert_array_equal(values[others], now.value[others])
        after = moves.tell(method, now, joined, values)
        assert order.best(after.best_value) == 6
        assert_array_equal(after.best_value[others], now.best_value[others])
