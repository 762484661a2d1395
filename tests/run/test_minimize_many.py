import numpy as np
import pytest
from numpy.testing import assert_array_equal
from objectives import Recording, noisy, sphere

import paoswarm as ps
from paoswarm.run import solve as many_module

BOX = [(-4, 5), (-6, 3), (-2, 2)]


def test_every_array_has_the_runs_on_its_first_axis():
    many = ps.minimize_many(sphere, BOX, method=ps.PAO(), runs=5, n_particles=7, maxiter=9, vectorized=True, rng=1)
    assert many.x.shape == (5, 3)
    assert many.history.shape == (5, 10)
    assert many.swarm.position.shape == (5, 7, 3)
    for name in ("fun", "success", "status", "nit", "nfev", "n_failed"):
        assert many[name].shape == (5,)
    assert len(many.message) == len(many.seeds) == 5
    assert_array_equal(many.fun, sphere(many.x))
    assert_array_equal(many.fun, many.history[:, -1])


def test_runs_are_independent():
    many = ps.minimize_many(sphere, BOX, method=ps.PAO(), runs=30, n_particles=7, maxiter=5, vectorized=True, rng=1)
    assert len(set(many.fun)) == 30
    # Correlation of final values of neighbouring runs: 4 standard errors, a false alarm in 16000.
    log = np.log(
        ps.minimize_many(sphere, BOX, method=ps.PAO(), runs=400, n_particles=7, maxiter=5, vectorized=True, rng=1).fun
    )
    assert abs(np.corrcoef(log[:-1], log[1:])[0, 1]) < 4 / np.sqrt(399)


ENDS = {
    "target": ({"target": 1e-3}, ps.results.Status.TARGET),
    "tol": ({"tol": 1e-2}, ps.results.Status.CONVERGED),
}


@pytest.mark.parametrize("end", ENDS)
def test_a_run_that_has_ended_costs_no_more_evaluations_and_keeps_its_last_value(end):
    limit, reason = ENDS[end]
    fun = Recording(sphere)
    many = ps.minimize_many(
        fun, BOX, method=ps.PAO(), runs=12, n_particles=10, maxiter=300, vectorized=True, rng=1, **limit
    )
    assert set(many.status) == {reason}
    assert len(set(many.nit)) > 3
    assert_array_equal(many.nfev, 10 * (many.nit + 1))
    assert len(fun.points) == many.nfev.sum()
    assert many.history.shape == (12, 301)
    assert np.all(np.diff(many.history, axis=1) <= 0)
    for r in range(12):
        assert_array_equal(many.history[r, many.nit[r] :], many.fun[r])
    if end == "target":
        last = many.history[np.arange(12), many.nit - 1]
        assert np.all((many.fun <= 1e-3) & (last > 1e-3))


@pytest.mark.parametrize("reevaluate", [0.0, 0.3])
@pytest.mark.parametrize("block", [1, 100, 250, 10**9])
def test_results_do_not_depend_on_how_runs_are_put_into_blocks(block, reevaluate, monkeypatch):
    settings = {"runs": 7, "n_particles": 10, "maxiter": 40, "target": 0.01, "reevaluate": reevaluate}
    usual = ps.minimize_many(sphere, BOX, method=ps.PAO(), vectorized=True, rng=1, **settings)
    assert len(set(usual.nit)) > 1
    monkeypatch.setattr(many_module, "_BLOCK", block)
    other = ps.minimize_many(sphere, BOX, method=ps.PAO(), vectorized=True, rng=1, **settings)
    for name in ("x", "fun", "history", "status", "nit", "nfev", "n_failed"):
        assert_array_equal(other[name], usual[name], err_msg=name)
    for mine, theirs in zip(other.swarm[:6], usual.swarm[:6], strict=True):
        assert_array_equal(mine, theirs)


def test_block_size_shows_in_the_size_of_the_calls(monkeypatch):
    sizes = []

    def fun(x):
        sizes.append(len(x))
        return sphere(x)

    monkeypatch.setattr(many_module, "_BLOCK", 2 * 10 * 3)  # two runs
    ps.minimize_many(fun, BOX, method=ps.PAO(), runs=5, n_particles=10, maxiter=1, vectorized=True, rng=1)
    assert sizes == [1, 19, 20, 20, 20, 10, 10]


def test_one_run_of_many_has_its_own_swarm_history_and_law():
    many = ps.minimize_many(
        sphere, BOX, method=ps.PAO(), runs=6, n_particles=30, maxiter=30, target=1e-2, vectorized=True, rng=1
    )
    for r in range(6):
        run = many.run(r)
        assert_array_equal(run.x, many.x[r])
        assert len(run.history) == run.nit + 1 == many.nit[r] + 1
        assert run.swarm.position.shape == (30, 3)
        assert run.status is ps.results.Status(many.status[r])
        lower, upper = run.next_step.interval(0.99)
        assert np.all((lower <= run.x) & (run.x <= upper))
    with pytest.raises(IndexError):
        many.run(6)


def test_one_run_of_many_equals_the_law_of_the_run_alone():
    many = ps.minimize_many(sphere, BOX, method=ps.PAO(), runs=3, n_particles=30, maxiter=10, vectorized=True, rng=1)
    alone = ps.minimize(sphere, BOX, method=ps.PAO(), n_particles=30, maxiter=10, vectorized=True, rng=many.seeds[1])
    assert_array_equal(many.run(1).next_step.mean, alone.next_step.mean)
    assert_array_equal(many.run(1).next_step.covariance, alone.next_step.covariance)


def test_failures_are_counted_for_each_run():
    def holey(x):
        return np.where(x[..., 0] > 2, np.nan, sphere(x))

    fun = Recording(holey)
    many = ps.minimize_many(
        fun, BOX, method=ps.PAO(), runs=5, n_particles=10, maxiter=4, target=0.5, vectorized=True, rng=1
    )
    assert many.n_failed.sum() == np.isnan(fun.values).sum() > 0
    for r in range(5):
        failed = f"{many.n_failed[r]} of {many.nfev[r]} evaluations failed"
        assert (failed in many.message[r]) == (many.n_failed[r] > 0)


def test_without_a_limit_on_generations_the_history_ends_with_the_last_run():
    many = ps.minimize_many(
        sphere, BOX, method=ps.PAO(), runs=4, n_particles=10, maxiter=None, maxfev=85, vectorized=True, rng=1
    )
    assert many.history.shape == (4, 9)
    assert_array_equal(many.nfev, 85)


def test_starting_points_are_given_to_every_run():
    fun = Recording(sphere)
    many = ps.minimize_many(
        fun, BOX, method=ps.PAO(), runs=3, n_particles=5, maxiter=0, x0=([1.0, 1.0, 1.0], -7.0), rng=1
    )
    assert_array_equal(many.fun, -7.0)
    assert fun.calls == 3 * 4


def test_repeated_measurements_are_made_in_every_run():
    many = ps.minimize_many(
        noisy(sphere, 0.5, 1), BOX, method=ps.PAO(), runs=3, n_particles=10, maxiter=6, reevaluate=0.5, rng=1
    )
    assert_array_equal(many.nfev, 10 + 6 * 15)
    assert np.all(many.swarm.repeats.freedom > 5)
    assert np.all(np.abs(many.swarm.repeats.sd - 0.5) < 0.3)


def test_the_text_of_many_runs_is_short():
    many = ps.minimize_many(sphere, BOX, method=ps.PAO(), runs=3, n_particles=10, maxiter=3, vectorized=True, rng=1)
    assert len(repr(many).splitlines()) < 20


def test_many_runs_can_be_continued_in_several_blocks(monkeypatch):
    monkeypatch.setattr(many_module, "_BLOCK", 60)  # two runs at a time
    settings = {"method": ps.PAO(), "n_particles": 10, "vectorized": True, "rng": 1}
    first = ps.minimize_many(sphere, BOX, runs=5, maxiter=4, **settings)
    more = ps.minimize_many(sphere, BOX, runs=5, maxiter=10, init=first.swarm, **settings)
    assert_array_equal(more.history[:, 0], first.fun)
    assert np.all(more.fun < first.fun)
    assert_array_equal(more.nfev, 100)
    with pytest.raises(ValueError, match="3 runs need"):
        ps.minimize_many(sphere, BOX, runs=3, init=first.swarm, **settings)


def test_an_interrupt_keeps_the_blocks_that_are_done(monkeypatch):
    monkeypatch.setattr(many_module, "_BLOCK", 60)
    calls = []

    def fun(x):
        calls.append(len(x))
        if len(calls) == 8:  # the first swarm of the second block
            raise KeyboardInterrupt
        return sphere(x)

    many = ps.minimize_many(fun, BOX, method=ps.PAO(), runs=6, n_particles=10, maxiter=5, vectorized=True, rng=1)
    complete = ps.minimize_many(sphere, BOX, method=ps.PAO(), runs=6, n_particles=10, maxiter=5, vectorized=True, rng=1)
    assert_array_equal(many.fun, complete.fun[:2])
    assert len(many.seeds) == 2


def test_one_run_of_many_knows_its_standard_error():
    many = ps.minimize_many(
        noisy(sphere, 0.5, 1), BOX, method=ps.PAO(), runs=2, n_particles=20, maxiter=20, reevaluate=0.5, rng=1
    )
    assert 0 < many.run(1).fun_error < 1


@pytest.mark.parametrize("n", [0, 2.5, "a"])
def test_a_wrong_number_of_particles_is_named(n):
    with pytest.raises(ValueError, match="n_particles must be a whole number"):
        ps.minimize_many(sphere, BOX, method=ps.PAO(), runs=2, n_particles=n)


def test_the_law_of_one_run_is_taken_where_its_schedules_stood():
    method = ps.PAO(noise=ps.schedules.linear(1.2, 0.7))
    settings = {"method": method, "n_particles": 20, "maxiter": 50, "target": 0.1, "vectorized": True}
    many = ps.minimize_many(sphere, BOX, runs=4, rng=1, **settings)
    for r in range(4):
        alone = ps.minimize(sphere, BOX, rng=many.seeds[r], **settings)
        assert 0 < alone.progress < 1
        assert_array_equal(many.run(r).next_step.std, alone.next_step.std)
        assert_array_equal(many.run(r).step_law().scale, alone.step_law().scale)


def test_a_limit_that_nobody_means_to_reach_takes_no_memory():
    many = ps.minimize_many(
        sphere, BOX, method=ps.PAO(), runs=3, n_particles=10, maxiter=10**13, maxfev=105, vectorized=True, rng=1
    )
    assert many.history.shape == (3, 11)
    assert (many.nfev == 105).all()


def test_failed_runs_do_not_spoil_the_summary():
    def often(x):  # the first swarms of most runs fail altogether
        return np.where(np.abs(x).max(axis=1) < 0.6, 1.0, np.inf)

    many = ps.minimize_many(
        often, [(-2, 2), (-1, 3)], method=ps.PAO(), runs=8, n_particles=3, maxiter=1, vectorized=True, rng=1
    )
    assert 0 < np.isinf(many.fun).sum() < 8
    assert "nan" not in str(many)


def test_a_run_that_failed_from_the_start_is_told_nothing_about_more_evaluations():
    many = ps.minimize_many(lambda x: x[1] ** 2 if x[0] < -4 else np.nan, [(-5, 5)] * 2, runs=4, maxfev=50, rng=1)
    failed = [
        text for text, status in zip(many.message, many.status, strict=True) if status == ps.results.Status.FAILED
    ]
    assert 0 < len(failed) < 4
    for text in failed:
        assert text.startswith("The objective failed at every point of the first swarm. 5 of 5 evaluations failed")
