"""Adaptive runs on the numba engine: the same searches as with NumPy, limits, ends and results."""

import math

import numpy as np
import pytest
from scipy import stats

import paoswarm as ps
from paoswarm.engines import counter
from paoswarm.engines.search_plan import read_plan
from paoswarm.methods import agreement
from paoswarm.methods.quadratic_model import n_coefficients, points_for

numba = pytest.importorskip("numba", reason="numba is not installed")
from adaptive_reference import reference  # noqa: E402

from paoswarm.engines import adaptive_engine, adaptive_state  # noqa: E402
from paoswarm.engines.adaptive_state import ENDINGS  # noqa: E402
from paoswarm.engines.numba_objective import objective  # noqa: E402


@numba.njit(fastmath={"contract"})
def rosenbrock(x):
    total = 0.0
    for j in range(len(x) - 1):
        total += 100 * (x[j + 1] - x[j] ** 2) ** 2 + (1 - x[j]) ** 2
    return total


@numba.njit
def rastrigin(x):
    total = 0.0
    for j in range(len(x)):
        total += x[j] ** 2 - 10 * math.cos(2 * math.pi * x[j]) + 10
    return total


@numba.njit
def broken(x):
    """A bowl that fails in a corner, and whose minimum is on a bound."""
    return math.nan if x[0] > 1.0 and x[1] > 1.0 else (x[0] + 3) ** 2 + 4 * (x[1] - 0.3 * x[0]) ** 2


def rows(fun):
    return lambda x: np.array([fun(point) for point in x])


BOX = [(-2.0, 3.0)] * 2
SWARMS = ps.AdaptivePAO(kinds=ps.AdaptivePAO.swarms)


def side_by_side(method, fun, d, n, seed, generations):
    """Move a run in both ways; yield NumPy's swarm and the engine's run after each generation."""
    lower, upper = np.full(d, -2.0), np.full(d, 3.0)
    plan = read_plan(method, d)
    key = counter.run_keys(np.random.SeedSequence(seed), 1)[0]
    limits = adaptive_engine.AdaptiveLimits(10**9, 10**9, -math.inf, False, plan.is_single)
    run = adaptive_state.new_run(plan.series, d, n, n_coefficients(d), points_for(n_coefficients(d)))
    own, nfev = objective(fun, d), 0
    for _, (state, m) in zip(range(generations), reference(method, rows(fun), n, lower, upper, key), strict=False):
        run = adaptive_state.with_room(run)
        before = int(run.facts[0]["n_history"])
        adaptive_engine.advance(own.pointer, own.data, lower, upper, limits, key, np.empty((0, d)), n, run, 1)
        if run.facts[0]["n_history"] == before:  # it wanted more room
            run = adaptive_state.with_room(run)
            adaptive_engine.advance(own.pointer, own.data, lower, upper, limits, key, np.empty((0, d)), n, run, 1)
        nfev += m
        assert run.facts[0]["nfev"] == nfev
        yield state, run
        if run.facts[0]["status"]:
            assert method.has_converged(state, 1.0, 0.0)
            return


@pytest.mark.parametrize(
    ("method", "fun", "generations"),
    [
        (ps.DensePAO(model=False), rosenbrock, 80),
        (ps.DensePAO(), rosenbrock, 80),
        (ps.DensePAO(spread=0.5, model=False), broken, 60),
        (ps.ElementPAO(), rastrigin, 80),
    ],
)
def test_a_swarm_moves_as_with_numpy(method, fun, generations):
    d = 2 if fun is broken else 3
    n = method.default_particles(d)
    for state, run in side_by_side(method, fun, d, n, 4, generations):
        own = run.lanes.own[0]
        size = own["n"]
        assert size == state.n_particles
        close = {"rtol": 0, "atol": 1e-6}
        np.testing.assert_allclose(run.lanes.points[0, adaptive_state.POSITION, :size], state.position, **close)
        np.testing.assert_allclose(run.lanes.points[0, adaptive_state.BEST, :size], state.best_position, **close)
        np.testing.assert_array_equal(run.lanes.numbers[0, adaptive_state.AGE, :size], state.age)


@pytest.mark.parametrize(
    ("method", "d", "generations"),
    [
        (SWARMS, 3, 900),
        pytest.param(ps.AdaptivePAO(model=False, kinds=ps.AdaptivePAO.swarms), 2, 500, marks=pytest.mark.slow),
        (ps.Restarts(ps.DensePAO(), growth=1.5), 4, 500),
    ],
)
def test_searches_follow_each_other_as_with_numpy(method, d, generations):
    """Sizes, evaluations, ends and agreement of all searches are the same, and so is whose turn it is."""
    n = method.default_particles(d)
    for state, run in side_by_side(method, rosenbrock, d, n, 2, generations):
        facts, sharing = run.facts[0], state.memory
        assert facts["n_ended"] == len(sharing.searches)
        found = [int(facts[name]) for name in agreement.Agreement._fields[:6]]
        assert found == list(sharing.agreement[:6])
        assert sharing.agreed().is_best is not bool(facts["is_undercut"])
    assert len(sharing.searches) >= 4
    for one, theirs in zip(run.searches, sharing.searches, strict=False):
        same = ("series", "n_particles", "evaluations", "began", "ended", "place")
        assert [one[name] for name in same] == [getattr(theirs, name) for name in same]
        assert ENDINGS[one["ending"]] == theirs.ending


def test_another_key_is_another_run():
    """A control for the tests above."""
    runs = [
        [int(run.facts[0]["nfev"]) for _, run in side_by_side(SWARMS, rosenbrock, 3, 7, seed, 120)] for seed in (1, 2)
    ]
    assert runs[0] != runs[1]


def many(fun=rosenbrock, engine="numba", **options):
    return ps.minimize_many(fun, BOX, engine=engine, **({"runs": 6, "rng": 3, "method": SWARMS} | options))


def test_a_run_is_the_same_alone_in_company_and_with_any_threads():
    together, fewer = many(engine=ps.engines.Numba(threads=3)), many(engine=ps.engines.Numba(threads=1), runs=2)
    np.testing.assert_array_equal(together.x[:2], fewer.x)
    np.testing.assert_array_equal(together.nfev[:2], fewer.nfev)
    alone = ps.minimize(rosenbrock, BOX, engine="numba", rng=together.seeds[4])
    assert (alone.fun, alone.nfev, alone.message) == (together.fun[4], together.nfev[4], together.message[4])
    np.testing.assert_array_equal(alone.history.best, together.run(4).history.best)
    sliced = many(callback=lambda intermediate_result: None)  # runs take turns in short slices
    np.testing.assert_array_equal(together.x, sliced.x)


def test_limits_are_exact():
    assert (many(maxfev=107, tol=0).nfev == 107).all()
    assert set(many(maxfev=107, tol=0).status) == {ps.results.Status.MAXFEV}
    by_generations = many(maxiter=7)
    assert set(by_generations.status) == {ps.results.Status.MAXITER}
    assert (by_generations.nit == 7).all()
    hit = many(target=1e-3)
    assert set(hit.status) == {ps.results.Status.TARGET}
    assert (hit.fun <= 1e-3).all()
    assert (hit.history[np.arange(6), hit.nit - 1] > 1e-3).all()  # one generation earlier it was not
    timed = many(time_limit=0.3, tol=0)
    assert set(timed.status) == {ps.results.Status.TIME}
    assert len(timed.fun) == 6


@numba.njit
def slow(x):
    total = 0.0
    for i in range(1_500_000):
        total += math.sin(i * x[0]) ** 2
    return total + x[1] ** 2


def test_a_time_limit_leaves_out_no_run():
    timed = many(slow, time_limit=1e-3, runs=10, n_particles=4)
    assert len(timed.fun) == len(timed.seeds) == 10
    assert set(timed.status) == {ps.results.Status.TIME}
    assert timed.nfev.min() >= 4
    np.testing.assert_allclose([slow(x) for x in timed.x], timed.fun, rtol=1e-9)


def test_a_callback_sees_all_runs_and_can_stop_them():
    seen = []

    def stop(intermediate_result):
        seen.append(intermediate_result)
        return len(seen) == 2

    stopped = many(callback=stop, tol=0, maxfev=10**9)
    assert set(stopped.status) == {ps.results.Status.CALLBACK}
    assert seen[0].x.shape == (6, 2)
    assert (seen[0].nfev < stopped.nfev).all()


def test_an_interrupt_keeps_what_was_found():
    def interrupt(intermediate_result):
        raise KeyboardInterrupt

    stopped = many(callback=interrupt, tol=0, maxfev=10**9)
    assert set(stopped.status) == {ps.results.Status.INTERRUPTED}
    assert np.isfinite(stopped.fun).all()


def test_failed_points_count_and_a_run_that_fails_everywhere_is_an_error():
    result = many(broken)
    assert (result.n_failed > 0).all()
    np.testing.assert_allclose(result.x, [[-2, -0.6]] * 6, atol=1e-5)
    assert "evaluations failed" in result.message[0]
    with pytest.raises(ValueError, match="every point of the first swarm"):
        many(lambda x: 0 * x[0] + math.nan)


def test_results_are_those_of_the_library_and_can_be_continued():
    result = ps.minimize(rosenbrock, BOX, engine="numba", rng=1)
    assert result.success
    assert result.message == f"Converged: {result.agreement}"
    assert result.agreement == agreement.agreement(result.searches)
    assert sum(one.evaluations for one in result.searches) <= result.nfev
    assert result.searches[0].kind == "growing dense"
    np.testing.assert_allclose(result.next_step.mean, 1.0, atol=1e-3)
    assert result.method == ps.AdaptivePAO(parallel=1, kinds=ps.AdaptivePAO.swarms)
    on = ps.minimize(lambda x: rosenbrock(x), BOX, init=result, tol=0, maxfev=200)
    assert on.fun <= result.fun
    assert len(on.searches) >= len(result.searches)


@numba.njit
def scaled(x, unit):
    return math.log(x[0] / unit) ** 2 + (x[1] - x[2]) ** 2


def test_arguments_and_variables_work_as_with_other_runs():
    variables = [ps.Real(1e-3, 1e3, log=True), (-2.0, 3.0), 0.5]
    result = ps.minimize(scaled, variables, args=(2.0,), engine="numba", rng=1)
    np.testing.assert_allclose(result.best, [2.0, 0.5, 0.5], atol=1e-6)
    np.testing.assert_allclose(result.searches[0].x, [2.0, 0.5, 0.5], atol=1e-3)
    assert result.engine == "numba"


def test_what_the_page_on_compiled_engines_shows():
    searched = ps.minimize_many(rastrigin, [(-4, 5)] * 3, runs=50, engine="numba", target=1e-8, rng=1)
    assert searched.success.sum() == 50
    one = ps.minimize(rastrigin, [(-4, 5)] * 3, engine="numba", rng=4)
    assert one.searches[0].kind == "growing dense"
    assert one.agreement.n_searches >= 3


def test_auto_takes_numba_for_the_default_search_of_a_compiled_function():
    assert ps.minimize(rosenbrock, BOX, engine="auto", maxfev=30).engine == "numba"


def test_the_callback_of_minimize_sees_one_run():
    seen = []
    options = {"tol": 0, "time_limit": 0.3, "engine": "numba", "rng": 1}
    ps.minimize(rosenbrock, BOX, callback=lambda intermediate_result: seen.append(intermediate_result), **options)
    assert (seen[0].x.shape, isinstance(seen[0].fun, float)) == ((2,), True)


def test_given_points_are_in_the_first_swarm():
    at = [1.0, 1.0]
    assert (many(x0=at, maxfev=10, tol=0).fun == 0).all()
    points = np.random.default_rng(1).uniform(-2, 3, (12, 2))
    assert many(init=points, maxiter=0).fun == pytest.approx(min(map(rosenbrock, points)), rel=1e-12)
    designs = many(init="sobol", maxiter=0)
    assert len(set(designs.fun)) == 6  # each run has its own


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"engine": "jax"}, "engine='jax' moves single PAO swarms"),
        ({"engine": ps.engines.Numba("single")}, "double precision"),
        ({"method": ps.AdaptivePAO(parallel=4, kinds=ps.AdaptivePAO.swarms)}, "parallel=4 needs engine='numpy'"),
        ({"method": ps.AdaptivePAO()}, r"use AdaptivePAO\(kinds=AdaptivePAO.swarms\), or engine='numpy'"),
        ({"method": ps.Restarts(ps.PAO())}, "PAO needs engine='numpy'"),
        ({"constraints": lambda x: x[0]}, "do not have constraints"),
        ({"store": "x.paoswarm"}, "do not have store"),
        ({"polish": True}, "do not have polish"),
        ({"n_particles": 1}, "n_particles"),
    ],
)
def test_what_the_engine_lacks_is_said_before_anything_is_evaluated(options, message):
    with pytest.raises(ValueError, match=message):
        many(**options)


@pytest.mark.slow
@pytest.mark.parametrize(("fun", "target"), [(rosenbrock, 1e-8), (rastrigin, 1e-8), (broken, 1.0 + 1e-6)])
def test_evaluations_to_the_target_have_the_same_law_as_with_numpy(fun, target):
    """Kolmogorov-Smirnov, with a false-alarm rate of 1e-3 for each function."""
    ours = many(fun, runs=150, target=target, rng=11)
    theirs = many(fun, "numpy", runs=150, target=target, rng=12)
    assert (ours.fun <= target).mean() == pytest.approx((theirs.fun <= target).mean(), abs=0.05)
    assert stats.ks_2samp(ours.nfev, theirs.nfev).pvalue > 1e-3
    larger = many(fun, runs=150, target=target, rng=11, n_particles=18)  # a control
    assert stats.ks_2samp(larger.nfev, theirs.nfev).pvalue < 1e-3


def test_tol_is_the_accuracy_of_searches():
    counts = []
    for tol in (1e-12, 1e-8, 1e-4, 1e-2):
        found = many(tol=tol, maxfev=20_000)
        counts.append(found.nfev.mean())
        assert found.success.all()
        assert (found.fun < max(tol, 1e-10) * 1e3).all()
    assert counts == sorted(counts, reverse=True)
    assert counts[-1] < 0.6 * counts[0]
