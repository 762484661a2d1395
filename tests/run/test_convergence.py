"""A run has converged when positions or values say so, whatever the minimum is worth; and a false end is found out."""

import numpy as np
import pytest
from messages import about_the_end
from numpy.testing import assert_array_equal
from objectives import Recording, noisy, rosenbrock, sphere, squared_distance

import paoswarm as ps
from paoswarm.run.beside import cost
from paoswarm.run.stopping import Rule, patience
from paoswarm.run.stopping import judge_convergence as judge

BOX2, BOX5 = [(-5, 5)] * 2, [(-5, 5)] * 5
Q = np.linalg.qr(np.random.default_rng(0).normal(size=(5, 5)))[0]
LONG = {"maxiter": None, "maxfev": 100_000, "vectorized": True, "rng": 1}


def offset(x):
    return ((x - 1.3) ** 2).sum(axis=-1) + 1


def ridge(x):
    """A narrow, oblique valley with a kink at its floor; the minimum is 0 at 1.3, and swarms contract elsewhere."""
    z = (x - 1.3) @ Q
    return z[..., 0] ** 2 + 100 * np.sqrt((z[..., 1:] ** 2).sum(axis=-1))


@pytest.mark.parametrize("above", [1.0, -3.0, 1e4])
def test_a_minimum_that_is_not_zero_ends_the_run(above):
    result = ps.minimize(lambda x: offset(x) - 1 + above, BOX2, method=ps.PAO(), **LONG)
    assert (result.status, result.success) == (ps.results.Status.CONVERGED, True)
    assert "Converged: the best values" in result.message
    assert result.nfev < 10_000
    assert result.fun == above


def test_up_to_its_end_the_run_is_the_one_without_a_tolerance():
    ended, whole = (
        ps.minimize(offset, BOX2, method=ps.PAO(), **{**LONG, "maxfev": 12_000}, tol=tol) for tol in (1e-12, 0)
    )
    assert ended.nit < whole.nit
    assert_array_equal(ended.history.best, whole.history.best[: ended.nit + 1])


def test_tol_zero_switches_every_rule_off():
    flat = ps.minimize(
        lambda x: np.full(len(x), 3.0), BOX2, method=ps.PAO(), vectorized=True, maxiter=100, tol=0, n_particles=5, rng=1
    )
    assert flat.nit == 100


def test_patience_ends_noisy_runs_and_plateaus_after_exactly_its_generations():
    for fun in (noisy(sphere, 0.1, 1), lambda x: np.zeros(len(x))):
        result = ps.minimize(fun, BOX2, method=ps.PAO(), vectorized=True, maxiter=2000, n_particles=20, rng=1)
        assert (result.status, result.success) == (ps.results.Status.CONVERGED, True)
        assert f"no better point in the last {patience(2)} generations" in result.message
        last = int(np.flatnonzero(np.diff(result.history.best) < 0).max(initial=-1)) + 1
        assert result.nit == last + patience(2)


def test_steps_of_a_rounded_function_are_no_convergence():
    # Early on all particles are on one step of the function. The lowest step has 1/7 of the box in each direction.
    result = ps.minimize(
        lambda x: np.floor(np.abs(x - 1.7)).sum(axis=1), BOX5, method=ps.PAO(), vectorized=True, maxiter=300, rng=1
    )
    assert result.fun == 0
    assert "no better point" in result.message


def test_the_rules_in_arrays_are_the_rules_one_by_one():
    optimizer = ps.Optimizer(BOX2, method=ps.PAO(), n_particles=8, rng=[1, 2, 3, 4])
    for _ in range(3):
        optimizer.tell(offset(optimizer.ask()))
    swarm = optimizer.swarm
    same = swarm._replace(
        best_value=np.where(np.arange(4)[:, None] == 1, swarm.global_value[:, None], swarm.best_value)
    )
    spread, stale = np.array([1e-13, 1e-5, 1e-5, 1e-2]), np.array([0, 0, 0, patience(2)])
    assert_array_equal(judge(same, spread, stale, 1e-12), [Rule.SPREAD, Rule.VALUES, Rule.NONE, Rule.PATIENCE])
    assert judge(same, np.full(4, 0.1), 0 * stale, 1e-12) is None
    same = same._replace(best_value=np.full((4, 8), np.inf), global_value=np.full(4, np.inf))
    assert not judge(same, spread, 0 * stale, 1e-14).any()


def test_a_swarm_that_contracts_where_there_is_no_minimum_is_no_success():
    fun = Recording(ridge)
    result = ps.minimize(fun, BOX5, method=ps.PAO(), vectorized=True, maxiter=400, rng=0)
    assert (result.status, result.success) == (ps.results.Status.STALLED, False)
    assert "no minimum" in result.message
    assert "noise.covariance" in result.hint
    assert result.history.best[-1] == pytest.approx(7.08, abs=0.01)
    assert result.fun == min(fun.values) == ridge(result.x) < result.history.best[-1]
    assert result.nfev == len(fun.values) == result.history.nfev[-1] + cost(5)
    better = ps.minimize(
        ridge, BOX5, vectorized=True, maxiter=400, rng=0, method=ps.PAO(noise_scale=ps.noise.covariance)
    )
    assert better.fun < 1e-6


def test_many_runs_end_like_each_run_alone():
    settings = {"vectorized": True, "maxiter": 250, "n_particles": 40}
    many = ps.minimize_many(ridge, BOX5, method=ps.PAO(), runs=5, rng=1, **settings)
    assert (many.status == ps.results.Status.STALLED).any()
    for r in range(5):
        alone = ps.minimize(ridge, BOX5, method=ps.PAO(), rng=many.seeds[r], **settings)
        assert (alone.fun, alone.nfev, alone.status) == (many.fun[r], many.nfev[r], many.status[r])
        assert (alone.message, alone.success) == (many.message[r], many.success[r])
        assert_array_equal(alone.x, many.x[r])


def test_asynchronous_runs_converge_and_are_examined_too():
    settings = {"n_particles": 10, "maxiter": 250, "rng": 1, "workers": ps.Workers(asynchronous=True)}
    fun = Recording(lambda x: float(offset(x)))
    good = ps.minimize(fun, BOX2, method=ps.PAO(), **settings)
    assert (good.status, good.nfev) == (ps.results.Status.CONVERGED, len(fun.values))
    bad = ps.minimize(lambda x: float(ridge(x)), BOX5, method=ps.PAO(), **settings)
    assert (bad.status, bad.success) == (ps.results.Status.STALLED, False)


@pytest.mark.parametrize("beyond", [0, 1, cost(2) - 1, cost(2), 50])
def test_the_look_around_stays_within_the_budget(beyond):
    free = ps.minimize(offset, BOX2, method=ps.PAO(), n_particles=100, **LONG)
    fun = Recording(offset)
    maxfev = free.nfev - cost(2) + beyond
    result = ps.minimize(fun, BOX2, method=ps.PAO(), n_particles=100, **{**LONG, "maxfev": maxfev})
    assert result.nfev == len(fun.values) == free.nfev - (0 if beyond >= cost(2) else cost(2)) <= maxfev
    assert result.status is ps.results.Status.CONVERGED


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_stored_run_that_has_converged_is_final_and_can_go_on(tmp_path, asynchronous):
    fun = Recording(lambda x: float(offset(x)))
    common = {"n_particles": 6, "rng": 1, "workers": ps.Workers(asynchronous=asynchronous), "maxiter": 120}
    stored = {**common, "store": ps.Store(tmp_path / "run", fsync="never")}
    first, plain = (
        ps.minimize(fun, BOX2, method=ps.PAO(), **stored),
        ps.minimize(lambda x: float(offset(x)), BOX2, method=ps.PAO(), **common),
    )
    calls = fun.calls
    again = ps.minimize(fun, BOX2, method=ps.PAO(), **stored)
    assert first.status is ps.results.Status.CONVERGED
    assert (first.fun, first.nfev, first.message) == (again.fun, again.nfev, about_the_end(again))
    assert (first.fun, first.nfev, first.message) == (plain.fun, plain.nfev, plain.message)
    assert fun.calls == calls == first.nfev
    longer = ps.minimize(fun, BOX2, method=ps.PAO(), tol=0, **stored)
    assert longer.nfev == 6 * 121
    assert_array_equal(longer.x, ps.minimize(lambda x: float(offset(x)), BOX2, method=ps.PAO(), tol=0, **common).x)


def test_a_recorded_run_that_went_on_is_not_looked_around(tmp_path):
    common = {"n_particles": 6, "rng": 1, "maxiter": 120}
    common["store"] = ps.Store(tmp_path / "run", fsync="never", trust=True)
    fun = Recording(lambda x: float(offset(x)))
    longer = ps.minimize(fun, BOX2, method=ps.PAO(), tol=0, **common)
    shorter = ps.minimize(fun, BOX2, method=ps.PAO(), **common)
    assert shorter.status is ps.results.Status.CONVERGED
    assert shorter.nfev == 6 * (shorter.nit + 1) < longer.nfev == fun.calls


def test_a_stored_run_whose_budget_has_ended_is_final(tmp_path):
    store, fun = ps.Store(tmp_path / "run", fsync="never"), Recording(sphere)
    settings = {"n_particles": 10, "maxiter": 3, "rng": 1, "store": store}
    assert not ps.minimize(fun, BOX2, method=ps.PAO(), **settings).success
    before = (tmp_path / "run").read_bytes()
    ps.minimize(fun, BOX2, method=ps.PAO(), **settings)
    assert (tmp_path / "run").read_bytes() == before
    assert fun.calls == 40


def test_an_interrupt_during_the_look_around_keeps_what_is_known():
    whole = ps.minimize(lambda x: float(offset(x)), BOX2, method=ps.PAO(), n_particles=10, maxiter=300, rng=1)

    def interrupted(x):
        if len(calls.values) == whole.nfev - 3:
            raise KeyboardInterrupt
        return float(offset(x))

    calls = Recording(interrupted)
    result = ps.minimize(calls, BOX2, method=ps.PAO(), n_particles=10, maxiter=300, rng=1)
    assert (result.status, result.success) == (ps.results.Status.INTERRUPTED, False)
    assert result.nfev == whole.nfev - 3


def test_failures_around_the_end_are_counted_and_prove_nothing():
    def narrow(x):  # fails on one side of its minimum
        return float("nan") if x[0] < 0.3 else float(squared_distance([0.3, 0.3])(x)) + 1

    result = ps.minimize(narrow, [(-1, 1)] * 2, method=ps.PAO(), n_particles=20, maxiter=300, rng=1)
    assert result.status is ps.results.Status.CONVERGED
    assert result.n_failed == sum(result.failure_kinds.values())


def test_a_coarse_tolerance_of_the_users_own_is_a_success():
    for tol in (1e-2, 1e-4, 1e-6):
        assert ps.minimize(
            rosenbrock, BOX2, method=ps.PAO(), n_particles=30, maxiter=2000, tol=tol, vectorized=True, rng=1
        ).success


def test_messages_state_facts():
    slow = ps.minimize(lambda x: 10 + sphere(x), BOX5, method=ps.PAO(), maxiter=12, n_particles=20, rng=1)
    share = 1 - slow.history.best[-1] / slow.history.best[-11]
    assert slow.message == (
        f"Stopped at maxiter=12; the best value fell by {100 * share:.2g} % over the last 10 generations."
    )
    first = ps.minimize(sphere, BOX2, method=ps.PAO(), maxiter=0, rng=1)
    assert first.message == "Stopped at maxiter=0."
    flat = ps.minimize(lambda x: 3.0, BOX2, method=ps.PAO(), n_particles=100, maxfev=150, rng=1)
    assert flat.message == "Stopped at maxfev=150; the best value did not change in the last generation."
    fast = ps.minimize(sphere, BOX2, method=ps.PAO(), maxiter=30, rng=1)
    assert "the best value fell from" in fast.message


def test_a_polished_run_is_a_success_if_the_local_search_converges():
    polished = ps.minimize(rosenbrock, BOX2, method=ps.PAO(), maxiter=20, rng=1, polish=True)
    assert (polished.status, polished.success) == (ps.results.Status.MAXITER, True)
    assert "Stopped at maxiter=20; the best value" in polished.message
    assert "Polished with" in polished.message
    cut = ps.minimize(rosenbrock, BOX2, method=ps.PAO(), maxfev=130, rng=1, polish=True)
    assert not cut.success
