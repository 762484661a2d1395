"""Hints: where the swarm shows that another setting would serve better, and nowhere else."""

import numpy as np
import pytest
from objectives import rosenbrock, sphere

import paoswarm as ps
from paoswarm.optimize.hints import is_in_a_valley

BOX = [(-2, 2), (-1, 3)]
COVARIANCE = ps.PAO(noise_scale=ps.noise.covariance)


@pytest.mark.parametrize("seed", range(5))
def test_a_swarm_in_a_narrow_valley_says_so_and_the_advice_is_good(seed):
    lost = ps.minimize(rosenbrock, BOX, n_particles=40, maxiter=40, rng=seed)
    assert "noise.covariance" in lost.hint
    assert lost.hint in str(lost)
    found = ps.minimize(rosenbrock, BOX, n_particles=40, maxiter=40, rng=seed, method=COVARIANCE)
    assert found.fun < lost.fun
    assert found.hint == ""


@pytest.mark.parametrize("name", ["sphere", "rastrigin-rotated1", "ackley", "schwefel", "ellipsoid"])
@pytest.mark.parametrize("dim", [2, 8])
def test_nothing_is_advised_where_there_is_no_valley(name, dim):
    problem = ps.problems.get(name, dim)
    result = ps.minimize(problem, problem.bounds, vectorized=True, rng=1)
    assert result.hint == ""
    assert "hint" not in str(result)


def test_a_valley_is_one_in_any_units():
    swarm = ps.minimize(rosenbrock, BOX, n_particles=40, maxiter=40, rng=1).swarm
    assert is_in_a_valley(swarm)
    assert is_in_a_valley(swarm._replace(best_position=swarm.best_position * [1e-9, 1e9] + [0, 5e8]))
    shuffled = swarm.best_position.copy()
    np.random.default_rng(1).shuffle(shuffled[:, 0])  # the same spreads, no correlation
    assert not is_in_a_valley(swarm._replace(best_position=shuffled))


def test_a_run_that_was_polished_or_has_arrived_needs_no_advice():
    assert ps.minimize(rosenbrock, BOX, n_particles=40, maxiter=40, rng=1, polish=True).hint == ""
    assert (
        ps.minimize(lambda x: (x[0] - x[1]) ** 2 * 1e6 + 1.0, BOX, n_particles=40, maxiter=300, tol=0, rng=1).hint == ""
    )


def test_covariances_of_few_particles_are_advised_against():
    few = ps.minimize(sphere, [(-5, 5)] * 6, n_particles=35, maxiter=5, method=COVARIANCE, rng=1)
    assert "n_particles=42" in few.hint
    assert ps.minimize(sphere, [(-5, 5)] * 6, n_particles=36, maxiter=5, method=COVARIANCE, rng=1).hint == ""


def test_other_methods_and_collapsed_or_failed_swarms_get_no_advice():
    assert ps.minimize(rosenbrock, BOX, n_particles=40, maxiter=40, method=ps.PSO(), rng=1).hint == ""
    swarm = ps.minimize(rosenbrock, BOX, n_particles=40, maxiter=40, rng=1).swarm
    assert not is_in_a_valley(swarm._replace(best_position=np.repeat(swarm.best_position[:1], 40, axis=0)))
    assert not is_in_a_valley(swarm._replace(best_value=np.full(40, np.inf)))


@pytest.mark.parametrize("method", [ps.PAO(), ps.PSO(), COVARIANCE])
def test_unknowns_on_their_bounds_are_named(method):
    def beyond(x):  # wants x[0] and x[2] outside of the box
        return (x[0] - 3.0) ** 2 + (x[1] - 0.3) ** 2 + (x[2] + 2.0) ** 2

    result = ps.minimize(beyond, [(-1, 1)] * 3, n_particles=40, maxiter=60, method=method, rng=1)
    assert result.x[[0, 2]] == pytest.approx([1.0, -1.0], abs=1e-6)
    assert result.hint.startswith("x[0], x[2] lie on their bounds")
    assert ps.minimize(beyond, [(-1, 1)] * 3, n_particles=40, maxiter=0, x0=[1, 1, -1], method=method, rng=1).hint == ""
    assert ps.minimize(beyond, [(-4, 4)] * 3, n_particles=40, maxiter=60, method=method, rng=1).hint == ""
    alone = ps.minimize(beyond, [(-4, 4), (-4, 4), (-1, 1)], n_particles=40, maxiter=60, method=method, rng=1)
    assert alone.hint.startswith("x[2] lies on its bound")


def test_many_unknowns_on_their_bounds_are_counted():
    hint = ps.minimize(lambda x: x.sum(), [(0, 1)] * 9, rng=1, polish=True).hint
    assert hint.startswith("x[0], x[1], x[2], x[3], x[4] and 4 more lie on their bounds")


def test_a_circle_has_no_bounds():
    on_the_seam = ps.minimize(lambda x: abs(x[0]), [(0, 1)], x0=[[0.0]], method=ps.PAO(walls="periodic"), rng=1)
    assert on_the_seam.x == 0.0
    assert on_the_seam.hint == ""
    assert ps.minimize(lambda x: x[0] ** 2, [(1, 2)], method=ps.PAO(walls="none"), rng=1).hint == ""  # it can leave


def test_minus_infinity_is_no_minimum_to_be_proud_of():
    result = ps.minimize(lambda x: -np.inf if x[0] > 0.9 else x[0], [(-1, 1)] * 2, n_particles=30, maxiter=5, rng=1)
    assert np.isfinite(result.fun)
    assert "minimise its negative" in result.hint
    assert "minimise its negative" in str(result)
