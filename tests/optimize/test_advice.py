"""Hints: where the swarm shows that another setting would serve better, and nowhere else."""

import numpy as np
import pytest
from objectives import rosenbrock, sphere

import paoswarm as ps
from paoswarm.optimize.advice import is_in_a_valley

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
    few = ps.minimize(sphere, [(-1, 1)] * 6, n_particles=35, maxiter=5, method=COVARIANCE, rng=1)
    assert "n_particles=42" in few.hint
    assert ps.minimize(sphere, [(-1, 1)] * 6, n_particles=36, maxiter=5, method=COVARIANCE, rng=1).hint == ""


def test_other_methods_and_collapsed_or_failed_swarms_get_no_advice():
    assert ps.minimize(rosenbrock, BOX, n_particles=40, maxiter=40, method=ps.PSO(), rng=1).hint == ""
    swarm = ps.minimize(rosenbrock, BOX, n_particles=40, maxiter=40, rng=1).swarm
    assert not is_in_a_valley(swarm._replace(best_position=np.repeat(swarm.best_position[:1], 40, axis=0)))
    assert not is_in_a_valley(swarm._replace(best_value=np.full(40, np.inf)))
