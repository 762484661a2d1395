import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from objectives import CENTRE, Recording, noisy, sphere
from scipy.stats import binomtest

import paoswarm as ps

BOX = [(-5, 5)] * 4
TIME = np.linspace(0, 10, 40)


def decay(p):
    return p[..., 0, None] * np.exp(-p[..., 1, None] * TIME) + p[..., 2, None]


DATA = decay(np.array([3.0, 0.45, 0.7]))


def misfit(p):
    return ((decay(p) - DATA) ** 2).mean(axis=-1)


def stochastic_simulation(seed):
    rng = np.random.default_rng(seed)
    return lambda p: ((decay(p) + 0.5 * rng.standard_normal((*p.shape[:-1], len(TIME))) - DATA) ** 2).mean(axis=-1)


@pytest.mark.parametrize(
    ("measure", "truth", "bounds", "maxfev"),
    [
        (lambda seed: noisy(sphere, 1.0, seed), sphere, BOX, 5000),
        pytest.param(stochastic_simulation, misfit, [(0.5, 6), (0.05, 2), (-2, 2)], 3000, marks=pytest.mark.slow),
    ],
    ids=["sphere", "calibration"],
)
def test_measuring_the_bests_again_finds_truly_better_points_for_the_same_money(measure, truth, bounds, maxfev):
    budget = {"runs": 120, "n_particles": 50, "maxiter": None, "maxfev": maxfev, "tol": 0, "vectorized": True, "rng": 1}
    without = ps.minimize_many(measure(1), bounds, method=ps.PAO(), **budget)
    again = ps.minimize_many(measure(2), bounds, method=ps.PAO(), reevaluate=0.2, **budget)
    assert_array_equal(without.nfev, again.nfev)
    # Measured: it wins in 0.83 of pairs, and the median excess is a third. At that rate one seed in 1e5 would fail;
    # without any effect one in 1e5 would pass.
    wins = int(np.sum(truth(again.x) < truth(without.x)))
    assert binomtest(wins, 120, alternative="greater").pvalue < 1e-5
    assert np.median(truth(again.x)) < 0.6 * np.median(truth(without.x))


def test_every_repeated_measurement_is_counted():
    fun = Recording(noisy(sphere, 1.0, 1))
    result = ps.minimize(fun, BOX, method=ps.PAO(), n_particles=10, maxiter=7, reevaluate=0.3, rng=1)
    assert fun.calls == result.nfev == 10 + 7 * 13


@pytest.mark.parametrize(("share", "again"), [(0.01, 1), (0.2, 2), (0.25, 2), (0.5, 5), (1.0, 10)])
def test_the_best_share_of_the_bests_is_measured_again(share, again):
    optimizer = ps.Optimizer(BOX, method=ps.PAO(), n_particles=10, reevaluate=share, rng=1)
    assert optimizer.ask().shape == (10, 4)
    optimizer.tell(sphere(optimizer.ask()))
    bests = optimizer.swarm.best_position[np.argsort(optimizer.swarm.best_value)]
    assert_array_equal(optimizer.ask()[10:], bests[:again])


def test_a_best_value_is_the_mean_of_its_measurements_with_its_standard_error():
    optimizer = ps.Optimizer(BOX, method=ps.PAO(), n_particles=3, reevaluate=0.3, rng=1)
    first = optimizer.ask()
    optimizer.tell([5.0, 1.0, 3.0])
    assert_array_equal(optimizer.ask()[3], first[1])
    optimizer.tell([9.0, 9.0, 9.0, 2.0])  # nothing is known of the noise: the draw that chose the point is forgotten
    assert (optimizer.result.fun, optimizer.result.fun_error) == (2.0, None)
    optimizer.ask()
    optimizer.tell([9.0, 9.0, 9.0, 1.0])
    result = optimizer.result
    # mean 1.5, variance of one measurement (0.5^2 + 0.5^2) / 1
    assert (result.fun, result.fun_error) == (1.5, pytest.approx(0.5))
    assert_array_equal(result.x, first[1])
    assert_array_equal(result.swarm.repeats.count, [0, 2, 0])
    optimizer.ask()
    optimizer.tell([9.0, 9.0, 9.0, 3.0])
    # mean 2, variance (0 + (1 - 2)^2 + (3 - 2)^2) / 2
    assert optimizer.result.fun == pytest.approx(2.0)
    assert optimizer.result.fun_error == pytest.approx(1 / np.sqrt(3))


def test_a_new_point_must_win_by_more_than_the_noise():
    optimizer = ps.Optimizer(BOX, method=ps.PAO(), n_particles=3, reevaluate=0.3, rng=1)
    optimizer.ask()
    optimizer.tell([5.0, 1.0, 3.0])
    for again in (2.0, 1.0):
        optimizer.ask()
        optimizer.tell([9.0, 9.0, 9.0, again])
    # The leader's third measurement is 1.5: the noise is 0.5, its score 1.5 + 3 * 0.5 / sqrt(3) = 2.37, and that
    # of a point measured once 1.2 + 3 * 0.5 = 2.7. One more, and they are 2.11 and 0.8 + 1.22 = 2.02.
    optimizer.ask()
    optimizer.tell([9.0, 1.2, 9.0, 1.5])
    assert optimizer.result.fun == 1.5
    optimizer.ask()
    optimizer.tell([9.0, 0.8, 9.0, 1.5])
    assert optimizer.result.fun == 0.8


def lucky_once(sd, seed, luck=-10.0):
    """A noisy sphere whose 30th measurement is far better than anything true."""
    rng = np.random.default_rng(seed)
    calls = []

    def fun(x):
        calls.append(x.copy())
        return luck if len(calls) == 30 else sphere(x) + sd * rng.standard_normal()

    return fun, calls


def test_a_lucky_measurement_wins_only_where_nothing_is_measured_twice():
    believed, checked = [], []
    for seed in range(10):
        fun, calls = lucky_once(1.0, seed)
        result = ps.minimize(fun, BOX[:2], method=ps.PAO(), n_particles=20, maxiter=60, tol=0, rng=seed)
        assert result.fun == -10.0
        assert_array_equal(result.x, calls[29])
        believed.append(sphere(result.x))
        fun, _ = lucky_once(1.0, seed)
        result = ps.minimize(fun, BOX[:2], method=ps.PAO(), n_particles=20, maxiter=60, tol=0, reevaluate=0.2, rng=seed)
        assert result.fun > -5.0
        checked.append(sphere(result.x))
    # In 200 measured runs the true value at the returned point was 0.07 in the median and never above 0.43.
    assert max(checked) < 1.0
    assert np.median(believed) > 1.0


@pytest.mark.parametrize("luck", [-1e3, -1e9])
def test_not_even_an_absurd_measurement_is_believed_twice(luck):
    for seed in range(5):
        fun, _ = lucky_once(1.0, seed, luck)
        result = ps.minimize(fun, BOX[:2], method=ps.PAO(), n_particles=20, maxiter=60, tol=0, reevaluate=0.2, rng=seed)
        assert result.fun > -5.0
        assert sphere(result.x) < 2.0


def test_an_injected_point_does_not_inherit_a_measurement_of_the_one_it_replaced():
    optimizer = ps.Optimizer(BOX[:2], method=ps.PAO(), n_particles=4, reevaluate=1.0, rng=1)
    optimizer.tell(sphere(optimizer.ask()))
    points = optimizer.ask()
    optimizer.inject([CENTRE[:2]], [0.0])
    optimizer.tell(sphere(points) + 1.0)
    assert optimizer.result.fun == 0.0


def test_an_objective_without_noise_is_still_solved_when_measured_again():
    many = ps.minimize_many(sphere, BOX, method=ps.PAO(), runs=20, vectorized=True, reevaluate=0.2, rng=1)
    assert many.fun.max() < 1e-20
    result = ps.minimize(sphere, BOX, method=ps.PAO(), vectorized=True, reevaluate=0.2, rng=1)
    assert result.fun == sphere(result.x)
    assert result.fun_error == 0.0


def test_without_repeated_measurements_no_error_is_claimed():
    assert ps.minimize(noisy(sphere, 1.0, 1), BOX, method=ps.PAO(), maxiter=5, vectorized=True, rng=1).fun_error is None


def test_the_reported_error_is_of_the_size_of_the_true_one():
    errors, misses, blind = [], [], []
    for seed in range(20):
        common = {"n_particles": 50, "maxiter": 80, "vectorized": True, "tol": 0, "rng": seed}
        result = ps.minimize(noisy(sphere, 3.0, seed), BOX, method=ps.PAO(), reevaluate=0.2, **common)
        assert 3.0 < result.swarm.repeats.sd < 4.5  # the first, lucky measurements make it look larger
        errors.append(result.fun_error)
        misses.append(abs(result.fun - sphere(result.x)))
        plain = ps.minimize(noisy(sphere, 3.0, seed), BOX, method=ps.PAO(), **common)
        blind.append(abs(plain.fun - sphere(plain.x)))
    # The reported value is that of a winner, so it is low by about two standard errors, never by five.
    assert np.all(np.array(misses) < 5 * np.array(errors))
    assert np.median(misses) < 0.6 * np.median(blind)


def test_the_particles_surround_the_minimum_of_a_noisy_sphere_while_they_still_move():
    # Measured coverage per coordinate 0.94 to 0.96 with a standard error of 0.02: 0.85 is a false alarm in 1e4 seeds.
    # Without re-evaluation it falls to 0.62 after 100 generations: the law describes disagreement, not an error.
    many = ps.minimize_many(
        noisy(sphere, 1.0, 20),
        BOX,
        method=ps.PAO(),
        runs=50,
        n_particles=50,
        maxiter=20,
        reevaluate=0.2,
        vectorized=True,
        tol=0,
        rng=1,
    )
    lower, upper = np.array([many.run(r).next_step.interval(0.95) for r in range(50)]).transpose(1, 0, 2)
    covered = (lower <= CENTRE[:4]) & (CENTRE[:4] <= upper)
    assert covered.mean() > 0.85
    assert np.median(upper - lower) < 1.5  # of a box 10 wide
    assert_allclose(np.mean([many.run(r).next_step.mean for r in range(50)], axis=0), CENTRE[:4], atol=0.2)


def test_a_target_is_reached_by_means_and_not_by_luck():
    reached = 0
    for seed in range(5):
        result = ps.minimize(
            noisy(sphere, 1.0, seed),
            BOX,
            method=ps.PAO(),
            n_particles=50,
            maxiter=100,
            target=0.5,
            reevaluate=0.2,
            vectorized=True,
            rng=1,
        )
        if result.status is ps.results.Status.TARGET:
            reached += 1
            assert sphere(result.x) < 1.0
    assert reached == 5
