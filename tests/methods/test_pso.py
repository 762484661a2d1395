"""The step of particle swarm optimisation against its formula, worked out by hand and in a plain loop."""

import math

import by_hand
import numpy as np
import pytest
from by_hand import Given, frozen
from numpy.testing import assert_allclose, assert_array_equal

import paoswarm as ps
from paoswarm.core import swarm as kernels


def loop(swarm, w, c1, c2, chance):
    """v <- w v + c1 r1 (p - x) + c2 r2 (g - x), x <- x + v; one particle and one element after the other."""
    n, d = swarm.position.shape
    position, velocity = np.empty((n, d)), np.empty((n, d))
    for i in range(n):
        for j in range(d):
            x, v = swarm.position[i, j], swarm.velocity[i, j]
            own, leader = swarm.best_position[i, j], swarm.global_best[0, j]
            velocity[i, j] = w * v + c1 * chance[0, i, j] * (own - x) + c2 * chance[1, i, j] * (leader - x)
            position[i, j] = x + velocity[i, j]
    return position, velocity


def test_a_step_worked_out_by_hand():
    """Two particles in the box (-10, 10) x (-20, 20); the second leads."""
    swarm = by_hand.moved(
        bests=[(1.0, 2.0), (3.0, -1.0)],
        best_values=[5.0, 4.0],
        positions=[(0.0, 4.0), (3.5, 1.0)],
        velocities=[(2.0, -1.0), (0.0, 0.5)],
        values=[9.0, 9.0],
        lower=[-10.0, -20.0],
        upper=[10.0, 20.0],
    )
    chance = frozen([[(0.5, 0.25), (0.0, 1.0)], [(0.1, 0.5), (0.8, 0.25)]])
    step = ps.classic.PSO(inertia=0.5, local=2.0, social=4.0).ask(swarm, Given(uniform=[chance]))
    # Particle 0: 0.5 (2) + 2 (0.5) (1 - 0) + 4 (0.1) (3 - 0) = 1 + 1 + 1.2
    #             0.5 (-1) + 2 (0.25) (2 - 4) + 4 (0.5) (-1 - 4) = -0.5 - 1 - 10
    # Particle 1: 0.5 (0) + 2 (0) (3 - 3.5) + 4 (0.8) (3 - 3.5) = -1.6
    #             0.5 (0.5) + 2 (1) (-1 - 1) + 4 (0.25) (-1 - 1) = 0.25 - 4 - 2
    assert_allclose(step.velocity, [(3.2, -11.5), (-1.6, -5.75)], rtol=1e-15)
    assert_allclose(step.position, [(3.2, -7.5), (1.9, -4.75)], rtol=1e-15)


@pytest.mark.parametrize("progress", [0.0, 0.25, 1.0])
def test_a_step_with_schedules_agrees_with_the_loop(progress):
    swarm, chance = by_hand.drawn(1), np.random.default_rng(2).random((2, 7, 3))
    method = ps.classic.PSO(
        inertia=ps.schedules.linear(0.9, 0.1), local=lambda progress: 2 - progress, social=1.7, walls="none"
    )
    step = method.ask(swarm, Given(uniform=[chance]), progress)
    expected = loop(swarm, 0.9 - 0.8 * progress, 2 - progress, 1.7, chance)
    assert_allclose(step[:2], expected, rtol=0, atol=1e-13)


def test_deviates_are_drawn_for_every_element_and_both_pulls():
    swarm = by_hand.drawn(3, batch=(2,))
    chance = np.random.default_rng(4).random((2, 2, 7, 3))
    step = ps.classic.PSO(walls="none").ask(swarm, Given(uniform=[chance]))
    for r in range(2):
        expected = loop(by_hand.one_run(swarm, r), 0.7298, 1.49618, 1.49618, chance[r])
        assert_allclose([step.position[r], step.velocity[r]], expected, rtol=0, atol=1e-13)


def test_the_values_of_the_study():
    method = ps.classic.PSO.paper()
    assert [method.inertia(progress) for progress in (0.0, 0.5, 1.0)] == pytest.approx([0.9, 0.5, 0.1], rel=1e-15)
    assert (method.local, method.social, method.walls) == (0.1, 0.1, "clip")


def test_the_defaults_are_clerc_and_kennedys_constriction():
    """chi = 2 / |2 - phi - sqrt(phi^2 - 4 phi)| with phi = 4.1; accelerations chi phi / 2."""
    phi = 4.1
    chi = 2 / abs(2 - phi - math.sqrt(phi * phi - 4 * phi))
    assert ps.classic.PSO().inertia == pytest.approx(chi, abs=5e-5)
    assert ps.classic.PSO().local == ps.classic.PSO().social == pytest.approx(chi * phi / 2, abs=5e-5)


def test_particles_start_at_rest_and_the_first_step_has_no_inertia():
    first = kernels.start(*map(frozen, ([(0.0, 1.0), (2.0, -1.0)], [1.0, 0.0], [-5.0, -5.0], [5.0, 5.0])))
    chance = frozen(np.full((2, 2, 2), 0.5))
    heavy, light = (ps.classic.PSO(inertia=w).ask(first, Given(uniform=[chance])) for w in (0.9, 0.0))
    assert_array_equal(heavy.position, light.position)
    assert_array_equal(heavy.position[1], (2.0, -1.0))  # the leader is where both pulls end


@pytest.mark.parametrize("walls", ["clip", "reflect"])
def test_walls_act_after_the_step(swarm, walls):
    fast = swarm._replace(velocity=20 * swarm.velocity)
    chance = np.full((2, 4, 2), 0.5)
    free = ps.classic.PSO(walls="none").ask(fast, Given(uniform=[chance]))
    method = ps.classic.PSO(walls=walls)
    step = method.ask(fast, Given(uniform=[chance]))
    assert not np.array_equal(free.position, step.position)
    assert_array_equal(step[:2], method.wall.apply(*free[:2], swarm.lower, swarm.upper))


def test_tell_remembers_the_velocity_for_the_next_step(swarm):
    method = ps.classic.PSO(walls="none")
    chance = np.random.default_rng(5).random((2, 2, 4, 2))
    step = method.ask(swarm, Given(uniform=[chance[0]]))
    after = method.tell(swarm, step, frozen([0.5, 9.0, 9.0, 9.0]))
    second = method.ask(after, Given(uniform=[chance[1]]))
    assert_array_equal(after.global_best, [step.position[0]] * 4)
    assert_allclose(second[:2], loop(after, 0.7298, 1.49618, 1.49618, chance[1]), rtol=0, atol=1e-13)


@pytest.mark.parametrize("name", ["inertia", "local", "social"])
@pytest.mark.parametrize("wrong", [-0.1, np.nan, math.inf, lambda progress: 0.5 - progress])
def test_a_number_out_of_range_is_refused(name, wrong):
    with pytest.raises(ValueError, match=f"{name} must"):
        ps.classic.PSO(**{name: wrong})


@pytest.mark.parametrize(
    "wrong", ["fast", None, True, [0.5, 0.5], 1j, ps.schedules.patient_step(), lambda progress: ""]
)
def test_a_value_that_is_not_a_number_is_refused(wrong):
    with pytest.raises(TypeError, match="inertia must be a number"):
        ps.classic.PSO(inertia=wrong)
