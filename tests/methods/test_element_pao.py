"""The element-wise adaptive swarm."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import paoswarm as ps
from paoswarm.core import order
from paoswarm.core.dynamics import exact_transition
from paoswarm.core.random import Draw
from paoswarm.methods import element_pao
from paoswarm.methods.element_pao import ElementMemory


def rastrigin(x):
    return (x**2 - 10 * np.cos(2 * np.pi * x) + 10).sum(axis=-1)


def begun(n=12, d=3, method=None, f=rastrigin):
    optimizer = ps.Optimizer([(-4, 5)] * d, method=method or ps.ElementPAO(), n_particles=n, rng=1)
    optimizer.tell(f(optimizer.ask()))
    return optimizer


def test_a_step_from_rest_is_a_difference_step_with_factor_one_minus_a11():
    """Without noise a particle whose elements all move ends at l + F (alpha - l)."""
    method = ps.ElementPAO(noise=0.0)
    swarm = begun(method=method).swarm
    swarm = swarm._replace(memory=swarm.memory._replace(rates=np.full(6, 5.0)))  # all elements move
    swarm = swarm._replace(lower=swarm.lower - 100, upper=swarm.upper + 100)
    x, _, trial, _ = method.ask(swarm, Draw([np.random.default_rng(4)], ()))
    law = ps.laws.transition(1.0, 0.2, 2.0, trial.step)
    pull = swarm.best_position + (x - swarm.best_position) / (1 - law.A[:, 0, 0, None])  # the attractors
    pool = swarm.best_position
    leaders = pool[np.argsort(swarm.best_value)[:2]]
    made = leaders[:, None, None] + pool[None, :, None] - pool[None, None, :]  # every leader + other - third
    distance = np.abs(made[:, :, :, None] - pull[None, None, None]).max(axis=-1)
    for i in range(len(x)):
        leader, other, third = np.unravel_index(np.argmin(distance[..., i]), distance.shape[:3])
        assert distance[leader, other, third, i] < 1e-9
        assert len({i, other, third}) == 3


def test_frozen_elements_stay_and_at_least_one_moves():
    method = ps.ElementPAO()
    swarm = begun(d=6).swarm
    swarm = swarm._replace(memory=swarm.memory._replace(rates=np.full(6, -5.0)))  # none would move
    moved = method.ask(swarm, Draw([np.random.default_rng(4)], ())).position != swarm.best_position
    assert_array_equal(moved.sum(axis=1), 1)


def test_beyond_a_bound_a_particle_lands_halfway():
    method = ps.ElementPAO()
    optimizer = begun(n=40, d=2, f=lambda x: x.sum(axis=1))
    for _ in range(20):
        swarm = optimizer.swarm
        x = optimizer.ask()
        assert ((x >= -4) & (x <= 5)).all()
        optimizer.tell(x.sum(axis=1))
    assert optimizer.best.value < -8 + 1e-3
    far = swarm._replace(lower=np.full_like(swarm.lower, 10.0), upper=np.full_like(swarm.upper, 20.0))
    landed = method.ask(far, Draw([np.random.default_rng(1)], ())).position
    moved = landed != swarm.best_position
    assert_allclose(landed[moved], (swarm.best_position[moved] + 10) / 2)


def test_it_learns_from_gains_alone():
    """The learnt step is the Lehmer mean of the successful ones, weighted by gain."""
    optimizer = begun()
    x = optimizer.ask()
    trial, before = optimizer._proposal.notes, optimizer.swarm
    values = rastrigin(x)
    optimizer.tell(values)
    gain = np.maximum(before.best_value - values, 0)
    assert (gain > 0).any()
    expected = (gain @ trial.step**2) / (gain @ trial.step)
    memory: ElementMemory = optimizer.swarm.memory
    assert_allclose(memory.steps, [expected, *[0.85] * 5])
    assert_array_equal(memory.replaced, before.best_position[gain > 0])


def test_the_swarm_shrinks_linearly_over_the_horizon():
    method = ps.ElementPAO(horizon=100)
    optimizer = begun(n=30, d=4, method=method)
    while optimizer.n_particles > 4:
        used = optimizer.nfev
        assert optimizer.n_particles == max(4, round(30 - 26 * used / 400)) or used == 30
        optimizer.tell(rastrigin(optimizer.ask()))
    assert 380 <= optimizer.nfev <= 440


def test_three_partners_are_different():
    swarm = begun(n=5, d=2).swarm
    uniform = np.random.default_rng(1).random((3, 5))
    uniform[1:] = np.nextafter(1, 0)
    for last in (0.0, 0.34, 0.67, np.nextafter(1, 0)):
        uniform[2] = last
        attractors = element_pao._attractors(
            swarm.best_position, order.ranked(swarm.best_value), swarm.best_position[:0], uniform
        )
        assert np.isfinite(attractors).all()


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_rastrigin_is_solved_and_the_search_ends(seed):
    result = ps.minimize(
        rastrigin, [(-4, 5)] * 5, method=ps.ElementPAO(), n_particles=25, maxiter=None, maxfev=20_000,
        vectorized=True, rng=seed,
    )  # fmt: skip
    assert result.fun < 1e-9
    assert result.status is ps.results.Status.CONVERGED
    assert result.nfev < 7000


def test_a_step_from_rest_is_the_exact_transition():
    steps = np.array([1e-9, 0.01, 0.3, 0.85, 1.33])
    law = exact_transition(np.full(5, 0.2), np.full(5, 2.0**0.5), steps)
    stays, shaken = element_pao.law_from_rest(steps)
    assert_array_equal(stays, law.A[:, 0, 0])
    assert_array_equal(shaken, law.cholesky[:, 0, 0])
