import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from objectives import Recording, assert_same_swarm, sphere
from waiting import Clock

import paoswarm as ps

BOX = [(-4, 5), (-6, 3)]


@settings(max_examples=80, deadline=None, derandomize=True)
@given(n=st.integers(2, 9), beyond=st.integers(0, 40), share=st.sampled_from([0.0, 0.1, 0.5, 1.0]))
def test_maxfev_is_spent_to_the_last_evaluation(n, beyond, share):
    fun = Recording(sphere)
    result = ps.minimize(
        fun, BOX, method=ps.PAO(), n_particles=n, maxiter=None, maxfev=n + beyond, reevaluate=share, tol=0, rng=1
    )
    assert fun.calls == result.nfev == result.history.nfev[-1] == n + beyond
    assert result.status is ps.results.Status.MAXFEV
    assert "maxfev" in result.message
    again = max(1, round(share * n)) if share else 0
    assert result.nit == -(-beyond // (n + again))


def test_maxfev_holds_for_each_of_many_runs():
    fun = Recording(sphere)
    many = ps.minimize_many(
        fun, BOX, method=ps.PAO(), runs=5, n_particles=6, maxiter=None, maxfev=29, reevaluate=0.3, tol=0, rng=1
    )
    assert_array_equal(many.nfev, 29)
    assert fun.calls == 5 * 29


def test_a_generation_that_is_cut_moves_only_the_particles_it_could_pay_for():
    common = {"n_particles": 8, "tol": 0, "rng": 1}
    before, after = (ps.minimize(sphere, BOX, method=ps.PAO(), maxiter=k, **common).swarm for k in (3, 4))
    cut = ps.minimize(sphere, BOX, method=ps.PAO(), maxiter=None, maxfev=4 * 8 + 3, **common).swarm
    for name in ("position", "velocity", "value", "best_position", "best_value"):
        assert_array_equal(getattr(cut, name)[:3], getattr(after, name)[:3])
        assert_array_equal(getattr(cut, name)[3:], getattr(before, name)[3:])


def test_a_cut_inside_the_repeated_measurements_keeps_those_that_were_made():
    fun = Recording(sphere)
    result = ps.minimize(
        fun, BOX, method=ps.PAO(), n_particles=10, maxiter=None, maxfev=10 + 10 + 2, reevaluate=0.5, rng=1
    )
    assert result.nit == 1
    assert fun.calls == result.nfev == 22
    first_bests = np.argsort(fun.values[:10])[:2]
    assert_array_equal(fun.points[20:], np.array(fun.points)[first_bests])


def test_the_shorter_run_is_the_beginning_of_the_longer_one():
    short, long = (ps.minimize(sphere, BOX, method=ps.PAO(), n_particles=8, maxiter=k, rng=1) for k in (5, 9))
    assert_array_equal(long.history.best[:6], short.history.best)


def test_maxiter_zero_evaluates_the_first_swarm_only():
    fun = Recording(sphere)
    result = ps.minimize(fun, BOX, method=ps.PAO(), n_particles=9, maxiter=0, rng=1)
    assert (fun.calls, result.nit, result.nfev, len(result.history)) == (9, 0, 9, 1)
    assert result.fun == min(fun.values)
    assert result.status is ps.results.Status.MAXITER


def test_too_small_a_budget_is_refused_before_the_first_evaluation():
    fun = Recording(sphere)
    for solve in (ps.minimize, ps.minimize_many):
        with pytest.raises(ValueError, match=r"maxfev=9 is too small .* 10 evaluations"):
            solve(fun, BOX, n_particles=10, maxfev=9)
    assert fun.calls == 0


def test_known_values_lower_the_price_of_the_first_swarm():
    x0 = [(0.0, 0.0), (1.0, 1.0)]
    result = ps.minimize(
        sphere, BOX, method=ps.PAO(), n_particles=10, maxfev=8, x0=(x0, [sphere(np.array(x)) for x in x0]), rng=1
    )
    assert result.nfev == 8


def test_a_run_without_any_limit_has_that_of_its_method():
    swarm = ps.minimize(sphere, BOX, method=ps.PAO(), n_particles=5, tol=0, rng=1)
    assert (swarm.nit, swarm.status) == (100, ps.results.Status.MAXITER)
    search = ps.minimize(sphere, BOX, method=ps.Restarts(ps.classic.PSO()), n_particles=50, tol=0, rng=1)
    assert (search.nfev, search.status) == (10_000 * len(BOX), ps.results.Status.MAXFEV)
    timed = ps.minimize(sphere, BOX, method=ps.PAO(), n_particles=5, tol=0, time_limit=0.2, rng=1)
    assert timed.status is ps.results.Status.TIME
    assert timed.nit > 100


def test_target_ends_the_run_in_the_generation_that_reaches_it():
    result = ps.minimize(sphere, BOX, method=ps.PAO(), n_particles=10, maxiter=500, target=1e-6, rng=1)
    assert result.status is ps.results.Status.TARGET
    assert "target" in result.message
    assert result.history.best[-1] <= 1e-6 < result.history.best[-2]


def test_a_value_equal_to_the_target_reaches_it():
    best = ps.minimize(sphere, BOX, method=ps.PAO(), n_particles=10, maxiter=9, rng=1).history.best
    result = ps.minimize(sphere, BOX, method=ps.PAO(), n_particles=10, maxiter=500, target=best[6], rng=1)
    assert result.nit == np.flatnonzero(best == best[6])[0] > 0


def test_a_target_that_the_first_swarm_meets_costs_one_generation():
    result = ps.minimize(sphere, BOX, method=ps.PAO(), n_particles=10, target=1e9, rng=1)
    assert (result.status, result.nit, result.nfev) == (ps.results.Status.TARGET, 0, 10)


def test_an_unreachable_target_is_no_reason_to_stop():
    assert (
        ps.minimize(sphere, BOX, method=ps.PAO(), n_particles=10, maxiter=5, target=-1.0, rng=1).status
        is ps.results.Status.MAXITER
    )


def test_collapse_ends_the_run_when_the_spread_falls_below_tol():
    result = ps.minimize(sphere, BOX, method=ps.PAO(), n_particles=20, maxiter=500, tol=1e-5, rng=1)
    assert result.status is ps.results.Status.CONVERGED
    assert "below tol" in result.message
    assert result.history.spread[-1] < 1e-5 <= result.history.spread[-2]
    swarm = result.swarm
    apart = (swarm.position - result.x) / np.array([9, 9])
    assert result.history.spread[-1] == pytest.approx(np.sqrt(np.mean(apart**2)), rel=1e-12)


def test_tol_zero_never_ends_a_run():
    result = ps.minimize(sphere, BOX, method=ps.PAO(), n_particles=5, maxiter=600, tol=0, vectorized=True, rng=1)
    assert result.nit == 600
    assert result.history.spread[-1] < 1e-15


@pytest.fixture
def slow(monkeypatch):
    """A function of which each call takes a second."""
    clock = Clock(monkeypatch)

    def fun(x):
        clock.wait(1.0)
        return sphere(x)

    return fun


def test_time_limit_ends_the_run_after_the_point_that_is_being_evaluated(slow):
    fun = Recording(slow)
    result = ps.minimize(fun, BOX, method=ps.PAO(), n_particles=10, maxiter=None, time_limit=24.5, rng=1)
    assert result.status is ps.results.Status.TIME
    assert "time_limit=24.5" in result.message
    assert fun.calls == result.nfev == 25
    assert result.fun == min(fun.values)


def test_time_limit_finishes_a_generation_that_is_evaluated_in_one_call(slow):
    result = ps.minimize(
        slow, BOX, method=ps.PAO(), n_particles=5, maxiter=None, time_limit=4.5, vectorized=True, rng=1
    )
    assert (result.status, result.nfev) == (ps.results.Status.TIME, 5 * (result.nit + 1))
    assert 3 <= result.nit <= 4  # the first call may be two, as a check


def test_time_limit_holds_for_many_runs_together(slow):
    many = ps.minimize_many(slow, BOX, method=ps.PAO(), runs=300, maxiter=None, time_limit=4.5, vectorized=True, rng=1)
    assert set(many.status) == {ps.results.Status.TIME}
    assert many.nit.max() <= 5


def test_of_several_reasons_the_first_in_the_order_of_status_is_given():
    common = {"n_particles": 5, "maxiter": 0, "maxfev": 5, "rng": 1}
    assert ps.minimize(sphere, BOX, method=ps.PAO(), **common).status is ps.results.Status.MAXFEV
    assert ps.minimize(sphere, BOX, method=ps.PAO(), tol=1e9, **common).status is ps.results.Status.CONVERGED
    assert ps.minimize(sphere, BOX, method=ps.PAO(), tol=1e9, target=1e9, **common).status is ps.results.Status.TARGET


def test_success_means_that_something_was_achieved():
    achieved = {"TARGET", "CONVERGED", "CALLBACK"}
    assert {status.name for status in ps.results.Status if status.is_success} == achieved
    assert len({s.message for s in ps.results.Status}) == len(ps.results.Status)
    small = {"n_particles": 5, "rng": 1}
    ends = [{"maxiter": 3}, {"maxfev": 17}, {"maxiter": None, "time_limit": 1e-9}]
    assert not any(ps.minimize(sphere, BOX, method=ps.PAO(), **small, **end).success for end in ends)
    good = [{"target": 1e9}, {"tol": 1e9}, {"callback": lambda x: True}]
    assert all(ps.minimize(sphere, BOX, method=ps.PAO(), **small, **end).success for end in good)
    many = ps.minimize_many(sphere, BOX, method=ps.PAO(), runs=9, maxiter=5, target=0.1, **small)
    assert_array_equal(many.success, many.fun <= 0.1)
    assert 0 < many.success.sum() < 9


@pytest.mark.parametrize(
    ("limits", "expected"),
    [({"maxiter": 4}, [0, 0.25, 0.5, 0.75, 1]), ({"maxiter": None, "maxfev": 20}, [0.25, 0.5, 0.75, 1])],
)
def test_schedules_see_the_share_of_the_budget_that_is_spent(limits, expected):
    seen = []

    def dt(progress):
        seen.append(progress)
        return 1.0

    method = ps.PAO(dt=dt)
    seen.clear()
    result = ps.minimize(sphere, BOX, method=method, n_particles=5, rng=1, **limits)
    assert seen == expected[:-1]
    assert result.next_step is result.next_step is not None
    assert seen == expected  # it is made once, for the end of the run


class Interrupted(Recording):
    """Someone presses Ctrl-C during call number `at`."""

    def __init__(self, fun, at):
        super().__init__(fun)
        self.at = at

    def __call__(self, x):
        if self.calls + 1 == self.at:
            raise KeyboardInterrupt
        return super().__call__(x)


@pytest.mark.parametrize("at", [11, 12, 20, 37, 41, 45])
def test_an_interrupt_keeps_every_point_that_was_finished(at):
    fun = Interrupted(sphere, at)
    result = ps.minimize(fun, BOX, method=ps.PAO(), n_particles=10, maxiter=50, rng=1)
    assert (result.status, result.success) == (ps.results.Status.INTERRUPTED, False)
    assert "Interrupted" in result.message
    assert result.nfev == fun.calls == at - 1 == result.history.nfev[-1]
    assert result.fun == min(fun.values) == sphere(result.x)
    assert len(result.history) == result.nit + 1


@pytest.mark.parametrize("at", [12, 20, 37, 45])
def test_an_interrupted_run_is_the_run_that_could_pay_for_as_many_points(at):
    result = ps.minimize(Interrupted(sphere, at), BOX, method=ps.PAO(), n_particles=10, maxiter=50, rng=1)
    paid = ps.minimize(sphere, BOX, method=ps.PAO(), n_particles=10, maxiter=None, maxfev=at - 1, rng=1)
    assert_same_swarm(result.swarm, paid.swarm)


def test_an_interrupt_of_a_vectorised_call_keeps_the_finished_generations():
    result = ps.minimize(
        Interrupted(sphere, 5), BOX, method=ps.PAO(), n_particles=10, maxiter=50, vectorized=True, rng=1
    )
    assert (result.status, result.nit, result.nfev) == (ps.results.Status.INTERRUPTED, 2, 30)
    assert_same_swarm(
        result.swarm, ps.minimize(sphere, BOX, method=ps.PAO(), n_particles=10, maxiter=2, vectorized=True, rng=1).swarm
    )


def test_an_interrupted_run_can_be_continued():
    first = ps.minimize(Interrupted(sphere, 35), BOX, method=ps.PAO(), n_particles=10, maxiter=50, rng=1)
    rest = ps.minimize(sphere, BOX, method=ps.PAO(), init=first.swarm, maxiter=50, rng=1)
    assert rest.history.best[0] == first.fun
    assert rest.fun < 1e-3 * first.fun


def test_an_interrupt_in_the_first_swarm_keeps_the_points_that_are_done():
    fun = Recording(Interrupted(sphere, 5))
    result = ps.minimize(fun, BOX, method=ps.PAO(), n_particles=10, rng=1)
    assert (result.status, result.nfev, result.nit) == (ps.results.Status.INTERRUPTED, 4, 0)
    assert result.fun == min(sphere(x) for x in fun.points[:4])
    more = ps.minimize(sphere, BOX, init=result, maxiter=50, rng=1)
    assert more.fun < result.fun


def test_an_interrupt_before_there_is_anything_to_return_goes_through():
    with pytest.raises(KeyboardInterrupt):
        ps.minimize(Interrupted(sphere, 1), BOX, method=ps.PAO(), n_particles=10, rng=1)


def test_a_time_limit_holds_in_the_first_swarm_too(slow):
    result = ps.minimize(slow, BOX, method=ps.PAO(), n_particles=500, time_limit=4.5, rng=1)
    assert (result.status, result.nfev) == (ps.results.Status.TIME, 5)


def test_an_interrupt_of_many_runs_keeps_those_that_had_ended():
    target = {"runs": 6, "n_particles": 10, "maxiter": 200, "target": 1e-3, "rng": 1}
    full = ps.minimize_many(sphere, BOX, method=ps.PAO(), **target)
    cut = ps.minimize_many(Interrupted(sphere, int(full.nfev.sum())), BOX, method=ps.PAO(), **target)
    ended = cut.status == ps.results.Status.TARGET
    assert 0 < ended.sum() < 6
    assert_array_equal(cut.x[ended], full.x[ended])
    assert set(cut.status[~ended]) == {ps.results.Status.INTERRUPTED}
    assert_array_equal(cut.success, ended)
    for r in np.flatnonzero(~ended):
        assert cut.fun[r] == full.history[r, cut.nit[r]]
