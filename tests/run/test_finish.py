import pickle
import re
import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from objectives import Recording, assert_same_run, noisy, rosenbrock, sphere, squared_distance
from scipy.optimize import OptimizeResult
from waiting import Clock

import paoswarm as ps

BOX = [(-2, 2), (-1, 3)]


def test_polishing_finishes_what_the_swarm_began():
    rough = ps.minimize(rosenbrock, BOX, method=ps.PAO(), n_particles=10, maxiter=10, rng=1)
    fine = ps.minimize(rosenbrock, BOX, method=ps.PAO(), n_particles=10, maxiter=10, polish=True, rng=1)
    assert fine.fun < 1e-8 < rough.fun
    assert_allclose(fine.x, [1.0, 1.0], atol=1e-3)
    assert_array_equal(fine.history.best, rough.history.best)


@pytest.mark.parametrize("vectorized", [False, True])
def test_polishing_is_counted(vectorized):
    fun = Recording(rosenbrock)
    result = ps.minimize(
        fun, BOX, method=ps.PAO(), n_particles=10, maxiter=10, polish=True, vectorized=vectorized, rng=1
    )
    spent = result.nfev - 110
    assert len(fun.points) == result.nfev
    assert spent > 0
    assert f"Polished with {spent} evaluations, from {result.history.best[-1]:.6g} to" in result.message
    assert result.fun == rosenbrock(result.x) == min(fun.values)


def test_polishing_does_not_depend_on_units():
    def small(x):
        return 2.0**-40 * (rosenbrock(x * 2.0**30) - 1.0)

    options = {"n_particles": 10, "maxiter": 10, "polish": True, "rng": 1}
    usual = ps.minimize(lambda x: rosenbrock(x) - 1.0, BOX, method=ps.PAO(), **options)
    other = ps.minimize(small, [(low * 2.0**-30, high * 2.0**-30) for low, high in BOX], method=ps.PAO(), **options)
    assert other.nfev == usual.nfev
    assert_array_equal(other.x * 2.0**30, usual.x)


def test_some_of_the_time_is_left_for_polishing(monkeypatch):
    clock = Clock(monkeypatch)

    def slow(x):
        clock.wait(1.0)
        return rosenbrock(x)

    result = ps.minimize(slow, BOX, method=ps.PAO(), n_particles=10, maxiter=None, time_limit=400, polish=True, rng=1)
    assert result.status is ps.results.Status.TIME
    assert "Polished with 0 evaluations" not in result.message


@pytest.mark.parametrize("left", [0, 1, 2, 5, 11])
def test_polishing_stays_within_the_budget_to_the_last_evaluation(left):
    fun = Recording(rosenbrock)
    result = ps.minimize(fun, BOX, method=ps.PAO(), n_particles=10, maxiter=4, maxfev=50 + left, polish=True, rng=1)
    assert fun.calls == result.nfev == 50 + left
    assert result.fun == min(fun.values)


def test_polishing_stays_in_the_box():
    fun = Recording(squared_distance([3.0, -4.0]))
    result = ps.minimize(fun, BOX, method=ps.PAO(), n_particles=10, maxiter=2, polish=True, rng=1)
    assert np.all((np.array(fun.points) >= [-2, -1]) & (np.array(fun.points) <= [2, 3]))
    assert_array_equal(result.x, [2.0, -1.0])


def test_polishing_never_makes_it_worse():
    for seed in range(5):
        plain, polished = (
            ps.minimize(noisy(sphere, 0.1, seed), BOX, method=ps.PAO(), n_particles=10, maxiter=5, polish=p, rng=seed)
            for p in (False, True)
        )
        assert polished.fun <= plain.fun


def test_polishing_survives_an_objective_that_fails_around_its_best_point():
    def edge(x):
        return np.nan if x[0] + x[1] > 1 else squared_distance([1.0, 1.0])(x)

    fun = Recording(edge)
    result = ps.minimize(fun, BOX, method=ps.PAO(), n_particles=10, maxiter=10, polish=True, rng=1)
    assert result.n_failed == np.isnan(fun.values).sum()
    assert result.fun == np.nanmin(fun.values) == edge(result.x)


def test_an_interrupted_run_is_not_polished():
    calls = []

    def fun(x):
        calls.append(x)
        if len(calls) == 35:
            raise KeyboardInterrupt
        return rosenbrock(x)

    result = ps.minimize(fun, BOX, method=ps.PAO(), n_particles=10, polish=True, rng=1)
    assert (result.status, result.nfev, len(calls)) == (ps.results.Status.INTERRUPTED, 34, 35)


def test_a_run_is_silent_unless_asked(capfd):
    ps.minimize(sphere, BOX, method=ps.PAO(), maxiter=3, rng=1)
    ps.minimize_many(sphere, BOX, method=ps.PAO(), runs=2, maxiter=3, vectorized=True, rng=1)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("limits", [{"maxiter": 5}, {"maxiter": None, "maxfev": 57}])
def test_the_progress_bar_goes_to_stderr_only_and_changes_nothing(limits, capsys):
    pytest.importorskip("tqdm")
    shown = ps.minimize(sphere, BOX, method=ps.PAO(), n_particles=10, progress=True, rng=1, **limits)
    out, err = capsys.readouterr()
    assert out == ""
    assert "best=" in err
    assert "100%" in err
    assert_same_run(shown, ps.minimize(sphere, BOX, method=ps.PAO(), n_particles=10, rng=1, **limits))


def test_the_progress_bar_of_many_runs_reaches_its_end(capsys):
    pytest.importorskip("tqdm")
    ps.minimize_many(
        sphere, BOX, method=ps.PAO(), runs=7, n_particles=10, maxiter=5, vectorized=True, progress=True, rng=1
    )
    out, err = capsys.readouterr()
    assert out == ""
    assert "420/420" in err


def test_without_tqdm_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    fun = Recording(sphere)
    for solve in (ps.minimize, ps.minimize_many):
        with pytest.raises(ImportError, match=r"needs tqdm.*paoswarm\[progress\]"):
            solve(fun, BOX, progress=True)
    assert fun.calls == 0
    ps.minimize(sphere, BOX, method=ps.PAO(), maxiter=1)


def test_the_result_is_scipys_and_its_text_is_short():
    result = ps.minimize(sphere, [(-2, 2), (-3, 3)], method=ps.PAO(), maxiter=5, rng=1)
    assert isinstance(result, OptimizeResult)
    assert result["x"] is result.x
    text = repr(result)
    assert text == str(result)
    assert result.message in " ".join(text.split())  # broken into lines
    assert len(text.splitlines()) <= 11
    assert len(text) < 600
    for name in ("success", "fun", "x", "nit", "nfev"):
        assert f"{name}: " in text
    assert "swarm" not in text


def test_the_text_mentions_failures_and_errors():
    holey = ps.minimize(lambda x: np.nan if x[0] > 0 else sphere(x), BOX, method=ps.PAO(), maxiter=5, rng=1)
    assert f"n_failed: {holey.n_failed}" in repr(holey)
    assert "evaluations failed" in repr(holey)
    assert "fun_error: " in repr(ps.minimize(sphere, BOX, method=ps.PAO(), maxiter=5, reevaluate=0.2, rng=1))


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"reevaluate": 0.2},
        {"method": ps.PAO(noise_scale=ps.noise.covariance, walls="reflect")},
        {"method": ps.PAO(attractors=(ps.attractors.GaussianPoint(), ps.attractors.global_best))},
    ],
    ids=["default", "noisy", "dense", "stochastic"],
)
def test_a_result_survives_pickling(settings):
    result = ps.minimize(sphere, BOX, maxiter=5, rng=1, **{"method": ps.PAO(), **settings})
    loaded = pickle.loads(pickle.dumps(result))
    assert_same_run(loaded, result)
    assert repr(loaded) == repr(result)
    assert loaded.status is result.status
    assert_array_equal(loaded.next_step.interval(0.9), result.next_step.interval(0.9))
    again = [ps.minimize(sphere, BOX, method=ps.PAO(), init=r.swarm, maxiter=3, rng=2).x for r in (result, loaded)]
    assert_array_equal(*again)


def test_many_results_survive_pickling():
    many = ps.minimize_many(sphere, BOX, method=ps.PAO(), runs=3, n_particles=10, maxiter=3, vectorized=True, rng=1)
    loaded = pickle.loads(pickle.dumps(many))
    assert_array_equal(loaded.history, many.history)
    alone = ps.minimize(sphere, BOX, method=ps.PAO(), n_particles=10, maxiter=3, vectorized=True, rng=loaded.seeds[2])
    assert alone.fun == loaded.run(2).fun


def test_results_with_failures_survive_pickling():
    result = ps.minimize(lambda x: np.nan if x[0] > 0 else sphere(x), BOX, method=ps.PAO(), maxiter=5, rng=1)
    loaded = pickle.loads(pickle.dumps(result))
    assert [f.reason for f in loaded.failures] == ["returned NaN"] * 10


def test_the_law_of_the_next_step_belongs_to_the_final_swarm():
    result = ps.minimize(sphere, [(-4, 5), (-6, 3)], method=ps.PAO(), n_particles=30, maxiter=15, rng=1)
    lower, upper = result.next_step.interval(0.95)
    assert np.all((lower <= result.x) & (result.x <= upper))
    draws = result.next_step.sample(4000, rng=1)
    # Means of 4000 draws in two coordinates: at 4 standard errors a false alarm in 8000 seeds.
    assert np.all(np.abs(draws.mean(axis=0) - result.next_step.mean) < 4 * result.next_step.std / np.sqrt(4000))


def test_the_text_promises_no_confidence_and_has_digits_that_people_read():
    space = {"a": (-4, 5), "b": (-6, 3)}
    result = ps.minimize(lambda p: (p["a"] - 1 / 3) ** 2 + (p["b"] + 2 / 3) ** 2 + 1 / 7, space, maxfev=200, rng=1)
    text = repr(result).partition("success:")[2]
    for promise in ("confidence", "+-", "optimum"):
        assert promise not in text
    assert max(len(digits) for digits in re.findall(r"[0-9]+", text)) <= 10
    assert f"fun: {result.fun:.10g}" in text
    assert f"'a': {result.best['a']:.10g}" in text


def valley(x):
    return (100 * (x[:, 1:] - x[:, :-1] ** 2) ** 2 + (1 - x[:, :-1]) ** 2).sum(axis=-1)


def test_after_polishing_there_is_no_next_step():
    """The swarm has not seen the polished point, which lies outside its cloud."""
    settings = {"vectorized": True, "maxiter": 100, "rng": 1}
    plain, polished = (
        ps.minimize(valley, [(-5, 5)] * 5, method=ps.PAO(), polish=polish, **settings) for polish in (False, True)
    )
    assert (np.abs(plain.next_step.cdf(polished.x) - 0.5) > 0.475).all()  # outside the central 95 %
    assert polished.next_step is None
    assert "next_step" not in repr(polished)
    assert pickle.loads(pickle.dumps(polished)).next_step is None
    assert_array_equal(polished.step_law().mean_position, plain.step_law().mean_position)  # the swarm still has its own


def test_in_a_narrow_valley_the_minimum_lies_outside_the_spread_of_the_particles():
    """Why the law is no confidence interval: particles agree long before they arrive."""
    many = ps.minimize_many(valley, [(-5, 5)] * 5, method=ps.PAO(), runs=20, vectorized=True, rng=1)
    below = np.array([many.run(r).next_step.cdf(np.ones(5)) for r in range(20)])
    assert np.mean(np.abs(below - 0.5) < 0.475) < 0.1  # of the coordinates inside the central 95 %


def test_an_interrupt_during_polishing_keeps_the_best_so_far():
    calls = []

    def fun(x):
        calls.append(x)
        if len(calls) == 10 * 11 + 5:
            raise KeyboardInterrupt
        return rosenbrock(x)

    result = ps.minimize(fun, BOX, method=ps.PAO(), n_particles=10, maxiter=10, polish=True, rng=1)
    assert result.nfev == 10 * 11 + 4
    assert result.fun == min(rosenbrock(x) for x in calls)
    assert (result.status, result.success) == (ps.results.Status.INTERRUPTED, False)
    assert "Interrupted" in result.message


@pytest.mark.parametrize("edge", [1 / 3, 0.3, 1.0, 0.7])
def test_polishing_on_the_edge_of_what_works_begins_where_the_swarm_ended(edge):
    def cliff(x):  # falls towards the edge, behind which there is nothing; NaN would pass for the best of all
        return np.inf if (x > edge).any() else float(np.maximum(0.0, 3 - x).sum())

    fun = Recording(cliff)
    result = ps.minimize(fun, [(-2, 4.1)] * 2, method=ps.PAO(), rng=0, maxiter=100, tol=0, polish=True)
    assert np.isfinite(fun.points).all()
    assert result.fun == cliff(result.x) == min(fun.values)
    assert result.fun >= 2 * (3 - edge) - 1e-12


def test_polishing_lets_the_function_raise_as_before():
    def sensitive(x):
        return float(np.nansum(np.sqrt(x - 0.5)))

    with np.errstate(invalid="raise"), pytest.warns(RuntimeWarning, match="the function raised"):
        result = ps.minimize(sensitive, [(0, 4)] * 2, method=ps.PAO(), rng=1, maxiter=10, polish=True)
    assert (result.x >= 0.5).all()
    assert result.fun == sensitive(result.x)


def test_polishing_asks_for_a_point_and_its_neighbours_at_once():
    asked = []

    def many(x):
        asked.append(len(x))
        return ((x - 0.3) ** 2 * [1, 5, 9]).sum(axis=1)

    result = ps.minimize(
        many, [(-1, 1)] * 3, method=ps.PAO(), n_particles=10, maxiter=3, polish=True, vectorized=True, rng=1
    )
    polishing = asked[-asked[::-1].index(10) :]
    assert polishing[0] == 3  # the value of the swarm's best point is known
    assert set(polishing[1:]) == {4}
    assert result.fun < 1e-12


def test_a_run_goes_on_from_what_polishing_found():
    polished = ps.minimize(rosenbrock, BOX, method=ps.PAO(), n_particles=10, maxiter=10, polish=True, rng=1)
    further = ps.minimize(rosenbrock, BOX, init=polished, maxiter=1, rng=2)
    assert further.fun <= polished.fun < polished.swarm.global_value


@pytest.mark.parametrize(
    "dt",
    [
        ps.schedules.patient_step(),
        ps.schedules.linear(1.0, 0.5),
        ps.schedules.geometric(1.0, 0.5),
        ps.schedules.piecewise((0, 1.0), (1, 0.7)),
    ],
)
def test_a_result_with_a_schedule_pickles(dt):
    result = ps.minimize(sphere, BOX, method=ps.PAO(dt=dt), n_particles=10, maxiter=3, rng=1)
    loaded = pickle.loads(pickle.dumps(result))
    assert_array_equal(loaded.swarm.position, result.swarm.position)
    assert loaded.method == result.method


def test_polishing_has_its_share_of_the_budget():
    settings = {"n_particles": 10, "maxiter": None, "maxfev": 400, "rng": 1}
    fine = ps.minimize(rosenbrock, BOX, method=ps.PAO(), polish=True, **settings)
    assert fine.nfev <= 400
    assert fine.fun < ps.minimize(rosenbrock, BOX, method=ps.PAO(), **settings).fun


def test_noise_is_not_polished():
    with pytest.raises(ValueError, match=r"polish=True .*reevaluate"):
        ps.minimize(noisy(sphere, 1.0, 1), BOX, method=ps.PAO(), polish=True, reevaluate=0.2)


def test_an_optimizer_that_is_told_keeps_its_history():
    optimizer = ps.Optimizer(BOX, method=ps.PAO(), n_particles=8, rng=1)
    for _ in range(4):
        optimizer.tell([rosenbrock(x) for x in optimizer.ask()])
    history = optimizer.result.history
    assert_array_equal(history.nfev, [8, 16, 24, 32])
    assert history.best[-1] == optimizer.result.fun


def test_values_that_are_refused_at_the_start_can_be_told_again():
    optimizer = ps.Optimizer(BOX, method=ps.PAO(), n_particles=8, rng=1)
    first = optimizer.ask()
    with pytest.raises(ValueError, match="no finite value"):
        optimizer.tell(np.full(8, np.nan))
    assert_array_equal(optimizer.ask(), first)
    assert optimizer.nfev == optimizer.n_failed == 0
    optimizer.tell([rosenbrock(x) for x in first])
    assert optimizer.nfev == 8


def test_a_callback_of_two_arguments_is_refused_before_the_first_evaluation():
    fun = Recording(rosenbrock)
    with pytest.raises(TypeError, match="one argument"):
        ps.minimize(fun, BOX, method=ps.PAO(), callback=lambda xk, convergence: None)
    assert fun.calls == 0


def test_a_negative_seed_is_named():
    with pytest.raises(ValueError, match="rng must not be negative"):
        ps.minimize(rosenbrock, BOX, method=ps.PAO(), rng=-1)
