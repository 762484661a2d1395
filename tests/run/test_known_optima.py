import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from objectives import CENTRE, ackley, rastrigin, sphere, squared_distance

import paoswarm as ps

WIDE = [(-5.12, 5.12)] * 8


def test_scalar_objective_is_minimised_by_default_settings():
    result = ps.minimize(lambda x: float(sphere(x)), [(-4, 3), (-3, 5)], method=ps.PAO(), rng=1)
    assert_allclose(result.x, CENTRE[:2], atol=1e-12)
    assert result.fun < 1e-24


def test_shifted_sphere_in_eight_dimensions_is_as_good_as_the_theory_page_says():
    many = ps.minimize_many(sphere, WIDE, method=ps.PAO(), runs=40, vectorized=True, rng=1)
    assert many.fun.mean() < 1e-16  # measured 5e-18
    assert many.fun.mean() > 1e-20  # much better than the table would mean another algorithm


def test_sphere_at_the_centre_is_no_easier_than_the_shifted_one():
    # The mean of 40 final values has a relative error of 0.2; a factor of ten is eleven of them on the log scale.
    shifted = ps.minimize_many(sphere, WIDE, method=ps.PAO(), runs=40, vectorized=True, rng=1).fun.mean()
    centred = ps.minimize_many(
        squared_distance(np.zeros(8)), WIDE, method=ps.PAO(), runs=40, vectorized=True, rng=1
    ).fun.mean()
    assert 0.1 < shifted / centred < 10


def test_shifted_rastrigin_in_two_dimensions_is_solved_exactly():
    # Not one of 1200 runs failed in six seeds; two failures in 100 would be a different algorithm.
    many = ps.minimize_many(rastrigin, WIDE[:2], method=ps.PAO(), runs=100, vectorized=True, rng=1)
    assert np.mean(many.fun == 0) >= 0.98


def test_shifted_ackley_in_two_dimensions_is_solved_to_rounding_errors():
    many = ps.minimize_many(ackley, [(-32.768, 32.768)] * 2, method=ps.PAO(), runs=100, vectorized=True, rng=1)
    assert np.mean(many.fun < 1e-12) >= 0.98
    assert_allclose(np.median(many.x, axis=0), CENTRE[:2], atol=1e-12)


@pytest.mark.parametrize("walls", ["clip", "reflect"])
def test_optimum_on_a_wall_is_found(walls):
    many = ps.minimize_many(
        squared_distance([1.0, 0.2, -0.3, 0.5]),
        [(-1, 1)] * 4,
        runs=40,
        vectorized=True,
        method=ps.PAO(walls=walls),
        rng=1,
    )
    assert many.fun.max() < 1e-20


def test_optimum_in_a_corner_of_an_asymmetric_box_is_found_exactly():
    box, outside = [(-1, 1), (-2, 1), (-1, 0.5), (0, 1)], squared_distance([3.0, -3.0, 3.0, 3.0])
    many = ps.minimize_many(outside, box, method=ps.PAO(), runs=40, vectorized=True, rng=1)
    assert_array_equal(many.fun, outside(np.array([1.0, -2.0, 0.5, 1.0])))
    assert_allclose(many.x, np.tile([1.0, -2.0, 0.5, 1.0], (40, 1)), rtol=1e-15)


def test_optimum_in_a_corner_is_found_by_reflection_too():
    method = ps.PAO(walls="reflect")
    many = ps.minimize_many(
        squared_distance([3.0, -3.0]), [(-1, 1), (-2, 1)], runs=40, vectorized=True, method=method, rng=1
    )
    assert_allclose(many.x, np.tile([1.0, -2.0], (40, 1)), atol=1e-10)


@pytest.mark.parametrize("walls", ["clip", pytest.param("reflect", marks=pytest.mark.slow)])
def test_no_run_sticks_to_a_wall_that_is_one_percent_away_from_the_optimum(walls):
    # Restitution zero sticks in 6 % of runs: 150 runs without one would have a chance of 1e-4.
    optimum = np.full(8, 0.98)
    many = ps.minimize_many(
        squared_distance(optimum), [(-1, 1)] * 8, runs=150, vectorized=True, method=ps.PAO(walls=walls), rng=1
    )
    assert np.abs(many.x - optimum).max() < 1e-7


def test_periodic_walls_solve_a_problem_on_the_circle():
    def on_the_circle(x):
        return (1 - np.cos(x - np.array([2.0, -2.0]))).sum(axis=-1)

    method = ps.PAO(walls="periodic")
    many = ps.minimize_many(on_the_circle, [(-np.pi, np.pi)] * 2, runs=40, vectorized=True, method=method, rng=1)
    assert_allclose(many.x, np.tile([2.0, -2.0], (40, 1)), atol=1e-7)


def test_without_walls_the_swarm_may_find_an_optimum_outside_the_box():
    free = ps.minimize(squared_distance([3.0, 3.0]), [(-1, 1)] * 2, vectorized=True, method=ps.PAO(walls="none"), rng=1)
    boxed = ps.minimize(squared_distance([3.0, 3.0]), [(-1, 1)] * 2, method=ps.PAO(), vectorized=True, rng=1)
    assert_allclose(free.x, [3.0, 3.0], atol=1e-6)
    assert_array_equal(boxed.x, [1.0, 1.0])


def test_boxes_of_very_different_widths_are_searched_alike():
    lower, width = np.array([-10.0, 1e-6, -100.0]), np.array([1e4, 1e-5, 3.0])
    optimum = lower + np.array([0.3, 0.2, 0.9]) * width
    many = ps.minimize_many(
        lambda x: (((x - optimum) / width) ** 2).sum(axis=-1),
        np.column_stack([lower, lower + width]),
        method=ps.PAO(),
        runs=40,
        vectorized=True,
        rng=1,
    )
    assert many.fun.max() < 1e-18


def test_units_do_not_matter():
    # Powers of two scale floating-point numbers exactly, so the whole run scales, bit for bit.
    scale, offset = np.array([2.0**20, 2.0**-30, 0.25]), np.array([0.1, 0.7, -0.4])
    plain = ps.minimize(squared_distance(offset), [(-1, 1), (-2, 3), (-1, 0)], method=ps.PAO(), vectorized=True, rng=1)
    scaled = ps.minimize(
        lambda x: 8 * squared_distance(offset)(x / scale),
        np.array([(-1, 1), (-2, 3), (-1, 0)]) * scale[:, None],
        method=ps.PAO(),
        vectorized=True,
        rng=1,
    )
    assert_array_equal(scaled.x, plain.x * scale)
    assert_array_equal(scaled.history.best, 8 * plain.history.best)


def test_one_unknown_and_two_particles_are_enough_to_run():
    result = ps.minimize(squared_distance([0.3]), [(-1, 2)], method=ps.PAO(), n_particles=2, vectorized=True, rng=1)
    assert result.fun == (result.x[0] - 0.3) ** 2


def test_periodic_walls_have_no_seam():
    """Turning the circle does not make the problem harder: the share of good runs is the same at the seam."""

    def found(angle):
        many = ps.minimize_many(
            lambda x: (1 - np.cos(x - angle)).sum(axis=-1),
            [(-np.pi, np.pi)] * 3,
            runs=60,
            n_particles=40,
            method=ps.PAO(walls="periodic"),
            vectorized=True,
            rng=1,
        )
        return np.mean(many.fun < 1e-6)

    assert found(0.0) == found(np.pi) == 1.0


def test_a_swarm_on_the_seam_of_a_circle_collapses_like_any_other():
    settings = {"n_particles": 30, "maxiter": 400, "tol": 1e-8, "method": ps.PAO(walls="periodic"), "vectorized": True}
    for angle in (0.0, np.pi):
        box = [(-np.pi, np.pi)] * 2
        result = ps.minimize(lambda x, a=angle: (1 - np.cos(x - a)).sum(axis=-1), box, rng=1, **settings)
        assert result.status is ps.results.Status.CONVERGED
        assert (result.next_step.std < 1e-6).all()
