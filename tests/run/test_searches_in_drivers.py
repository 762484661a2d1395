"""`AdaptivePAO` in every driver: workers, stores, asynchronous runs, warm starts, and what a result says about it."""

import pickle
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from test_asynchronous import unquestioned

import paoswarm as ps

BOX = [(-2.0, 2.0)] * 3


def bowl(x):
    return float(np.square(x - 0.3).sum())


def two_wells(x):
    return float(((x**2 - 1) ** 2).sum() + 0.1 * x.sum())


def rows(f):
    return lambda x: np.array([f(row) for row in x])


def solve(f=two_wells, **options):
    given = {"method": "AdaptivePAO", "maxfev": 900, "tol": 0.0, "rng": 1} | options
    return ps.minimize(f, BOX, **given)


def assert_same(one, other):
    assert_array_equal(one.x, other.x)
    assert_array_equal(one.history.best, other.history.best)
    assert_array_equal(one.history.nfev, other.history.nfev)
    assert_array_equal([search.value for search in one.searches], [search.value for search in other.searches])


class TestWorkers:
    def test_the_number_of_workers_is_part_of_the_method_and_the_method_repeats_the_run(self):
        with ThreadPoolExecutor(6) as workers:
            found = solve(workers=workers)
        assert found.method == ps.AdaptivePAO(parallel=6)
        assert_same(solve(method=found.method), found)  # by one worker
        assert solve().method.parallel == 1
        assert not np.array_equal(solve().x, found.x)

    @pytest.mark.parametrize(("workers", "parallel"), [(map, 1), (partial(ThreadPoolExecutor, 4), 1), (2, 2)], ids=str)
    def test_what_is_not_known_counts_as_one_worker(self, workers, parallel):
        assert solve(bowl, maxfev=200, workers=workers).method.parallel == parallel

    def test_a_hundred_generations_fit_into_the_budget(self):
        with ThreadPoolExecutor(64) as workers:
            assert solve(maxfev=900, workers=workers).method.parallel == 9
            assert solve(maxfev=50, workers=workers).method.parallel == 1
            assert solve(method=ps.AdaptivePAO(parallel=5), workers=workers).method.parallel == 5
            assert solve(method=ps.DensePAO(), workers=workers).method.parallel == 9
            assert solve(method="DE", n_particles=10, workers=workers).method == ps.classic.DE()

    def test_a_stored_run_goes_on_with_other_workers(self, tmp_path):
        with ThreadPoolExecutor(6) as workers:
            solve(maxfev=600, workers=workers, store=unquestioned(tmp_path / "run"))
        longer = solve(maxfev=900, store=unquestioned(tmp_path / "run"))
        assert longer.method.parallel == 6
        assert_same(longer, solve(method=ps.AdaptivePAO(parallel=6)))
        assert_same(ps.resume(unquestioned(tmp_path / "run"), two_wells), longer)

    def test_runs_side_by_side_are_for_one_worker_each(self):
        with ThreadPoolExecutor(4) as workers:
            many = ps.minimize_many(two_wells, BOX, runs=2, method="AdaptivePAO", maxfev=400, workers=workers, rng=3)
            assert many.method.parallel == 1
            alone = ps.minimize(two_wells, BOX, method=many.method, maxfev=400, workers=workers, rng=many.seeds[1])
        assert_array_equal(alone.x, many.x[1])
        assert repr(many.run(1).searches) == repr(alone.searches)
        with pytest.raises(ValueError, match=r"ask one of them, many.run\(r\).searches"):
            _ = many.searches


class TestStarts:
    def test_given_points_are_in_the_first_search(self):
        asked = []

        def f(x):
            asked.append(x.copy())
            return bowl(x)

        found = solve(f, x0=[0.3, 0.3, 0.3], maxfev=30)
        assert_array_equal(asked[0], [0.3, 0.3, 0.3])
        assert found.fun == 0
        first, *_ = (*found.searches, *found.swarm.memory.lanes)
        assert first.value == 0
        asked.clear()
        known = solve(f, x0=([[0.3, 0.3, 0.3], [1, 1, 1]], [0.0, bowl(np.ones(3))]), maxfev=60)
        assert known.fun == 0
        assert not any((x == 0.3).all() for x in asked)

    def test_a_continued_run_keeps_its_searches_and_its_best_point(self):
        first = solve(rows(two_wells), maxfev=1500, vectorized=True)
        n = len(first.searches)
        assert n >= 2
        more = solve(rows(two_wells), init=first, maxfev=3000, rng=2, vectorized=True)
        assert tuple(map(id, more.searches[:n])) == tuple(map(id, first.searches))
        assert len(more.searches) > n
        assert more.fun <= first.fun
        assert more.nfev == 3000

    def test_a_continued_run_may_have_other_workers(self):
        first = solve(maxfev=700)
        more = solve(method=ps.AdaptivePAO(parallel=16), init=first, maxfev=2000, rng=2)
        assert more.fun <= first.fun
        begun_later = [one for one in (*more.searches, *more.swarm.memory.lanes) if one.began >= 700]
        assert begun_later
        assert all(one.n_particles % 16 == 0 for one in begun_later)

    def test_ask_and_tell_gives_the_same_run(self):
        optimizer = ps.Optimizer(BOX, method="AdaptivePAO", rng=1)
        while optimizer.nfev < 900:
            optimizer.tell([two_wells(x) for x in optimizer.ask()])
        whole = solve(maxfev=optimizer.nfev)
        assert_array_equal(optimizer.result.x, whole.x)
        assert optimizer.result.searches.summary == whole.searches.summary
        optimizer.inject([-np.ones(3)], [-5.0])
        assert optimizer.result.fun == -5

    @pytest.mark.parametrize("method", ["AdaptivePAO", "DensePAO", "ElementPAO", "DE"])
    def test_an_optimiser_that_was_saved_goes_on_as_if_nothing_had_happened(self, method):
        optimizer = ps.Optimizer(BOX, method=method, n_particles=12, rng=1)
        for _ in range(5):
            optimizer.tell(rows(two_wells)(optimizer.ask()))
        points = optimizer.ask()
        loaded = pickle.loads(pickle.dumps(optimizer))
        for one in (optimizer, loaded):
            one.tell(rows(two_wells)(points))
        assert_array_equal(loaded.ask(), optimizer.ask())

    def test_polishing_and_callbacks(self):
        seen = []
        polished = solve(bowl, maxfev=300, polish=True, callback=lambda intermediate_result: seen.append(1))
        assert polished.fun < 1e-12
        assert polished.next_step is None
        assert len(seen) == polished.nit + 1
        stopped = solve(bowl, callback=lambda intermediate_result: intermediate_result.nfev > 100)
        assert stopped.status is ps.results.Status.CALLBACK

    def test_searches_of_noisy_functions_report_means(self):
        """The lowest of many measurements would be three standard deviations too good."""
        rng = np.random.default_rng(1)

        def noisy(x):
            return bowl(x) + 0.1 * rng.standard_normal()

        found = solve(noisy, reevaluate=0.2, maxfev=2500)
        assert found.searches
        values = np.array([one.value for one in found.searches])
        assert (values > -0.2).all()
        assert found.fun > -0.1


@pytest.fixture(scope="module")
def found():
    return ps.minimize(rows(two_wells), BOX, method="AdaptivePAO", maxfev=6000, tol=0.0, vectorized=True, rng=1)


class TestWhatIsSaid:
    def test_places_are_numbered_by_value(self, found):
        table = found.searches
        assert len(table.places) == len(table) > 3
        best = [one.value for one, place in zip(table, table.places, strict=True) if place == 1]
        assert min(best) == found.fun
        assert len(best) == found.agreement.n_here
        reached = {place if one.ending != "hopeless" else -1 for one, place in zip(table, table.places, strict=True)}
        assert len(reached - {0}) == found.agreement.n_places  # hopeless ones are one place together
        assert len(reached - {0, -1}) <= max(table.places)
        for one, place in zip(table, table.places, strict=True):
            assert (place == 0) == (one.ending == "cut short")

    def test_the_text_has_a_row_for_each_search_with_its_kind(self, found):
        lines = str(found.searches).splitlines()
        assert len(lines) == len(found.searches) + 1
        for line, one in zip(lines[1:], found.searches, strict=True):
            assert one.kind in ps.AdaptivePAO.kinds
            assert all(text in line for text in (one.kind, f" {one.evaluations} ", f"{one.value:.6g}", one.ending))
        assert found.searches._repr_html_().count("<tr>") == len(lines)
        assert repr(copy(found.searches)) == repr(found.searches)

    def test_the_result_says_in_two_lines_what_was_done(self, found):
        first, second = found.searches.summary.splitlines()
        assert first.startswith(f"{len(found.searches)} in ")
        assert f"{found.agreement.n_here} ended at " in second
        assert all(line in str(found) for line in (first, second))
        assert first in found._repr_html_()
        assert "searches" not in str(ps.minimize(bowl, BOX, maxiter=3, rng=1))
        assert solve(maxfev=30).searches.summary == ""

    def test_searches_that_were_cut_short_are_not_said_to_have_ended(self):
        space = {"n": ps.Integer(1, 10), "x": (0, 1)}
        found = ps.minimize(lambda p: (p["n"] - 3.3) ** 2 + (p["x"] - 0.5) ** 2, space, maxfev=1000, rng=1)
        assert [one.ending for one in found.searches] == ["cut short"]
        assert found.searches.summary.endswith("none converged: 1 cut short")
        assert "no search has converged yet" in found.message

    def test_times_of_searches_add_up(self, found):
        """Evaluations of a search lie between its first and its last one."""
        ends = [one.ended for one in found.searches]
        assert ends == sorted(ends)
        assert all(one.ended - one.began >= one.evaluations for one in found.searches)
        assert found.searches[0].began == 0
        assert found.searches[0].ended == found.searches[0].evaluations  # it is not interrupted
