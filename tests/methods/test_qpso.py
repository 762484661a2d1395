"""The jump of quantum-behaved particle swarm optimisation against its formula, by hand and in a plain loop."""

import math

import by_hand
import numpy as np
import pytest
from by_hand import Given, frozen
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import binomtest, kstest

import paoswarm as ps
from paoswarm.core.random import Draw


def loop(swarm, beta, phi1, phi2, u, plus):
    """x <- (phi1 p + phi2 g) / (phi1 + phi2) +- beta |mean of p - x| ln(1/u); one element after the other."""
    n, d = swarm.position.shape
    position = np.empty((n, d))
    for j in range(d):
        mean = sum(swarm.best_position[:, j]) / n
        for i in range(n):
            own, best = swarm.best_position[i, j], swarm.global_best[0, j]
            centre = (phi1[i, j] * own + phi2[i, j] * best) / (phi1[i, j] + phi2[i, j])
            reach = beta * abs(mean - swarm.position[i, j]) * math.log(1 / u[i, j])
            position[i, j] = centre + reach if plus[i, j] else centre - reach
    return position


def given(phi1, phi2, u, side):
    """A source of these deviates on (0, 1]; it hands out one minus them, on [0, 1)."""
    return Given(uniform=[1.0 - np.array([phi1, phi2, u, side])])


def test_a_jump_worked_out_by_hand():
    """Two particles in the box (-10, 10) x (-20, 20); the second leads."""
    swarm = by_hand.moved(
        bests=[(1.0, 2.0), (3.0, -1.0)],
        best_values=[5.0, 4.0],
        positions=[(0.0, 4.0), (3.5, 1.0)],
        velocities=[(0.0, 0.0), (0.0, 0.0)],
        values=[9.0, 9.0],
        lower=[-10.0, -20.0],
        upper=[10.0, 20.0],
    )
    half, e = 0.5, math.exp(-1)
    step = ps.classic.QPSO(contraction=0.5).ask(
        swarm,
        given(
            phi1=[(0.25, 0.5), (0.125, 1.0)],
            phi2=[(0.75, 0.5), (0.5, 0.25)],
            u=[(e, half), (1.0, e * e)],
            side=[(0.75, 0.25), (0.9, 0.1)],
        ),
    )
    # The mean of the bests is (2, 0.5). Particle 0: (0.25 + 0.75 3) / 1 + 0.5 |2 - 0| 1 = 2.5 + 1
    #                                                (2 - 1) / 2 - 0.5 |0.5 - 4| ln 2 = 0.5 - 1.75 ln 2
    # Particle 1: both bests are one point, (3, -1); 3 + 0, and -1 - 0.5 |0.5 - 1| 2 = -1.5
    assert_allclose(step.position, [(3.5, 0.5 - 1.75 * math.log(2)), (3.0, -1.5)], rtol=1e-14)
    assert_array_equal(step.velocity, 0)


@pytest.mark.parametrize("progress", [0.0, 0.3, 1.0])
def test_a_jump_agrees_with_the_loop(progress):
    swarm, draws = by_hand.drawn(1), np.random.default_rng(2).random((4, 7, 3))
    step = ps.classic.QPSO(walls="none").ask(swarm, Given(uniform=[draws]), progress)
    phi1, phi2, u, side = 1 - draws
    assert 0 < (side > 0.5).sum() < 21
    assert_allclose(step.position, loop(swarm, 1 - 0.5 * progress, phi1, phi2, u, side > 0.5), rtol=0, atol=1e-12)


def test_a_batch_has_a_mean_best_for_each_run():
    swarm, draws = by_hand.drawn(3, batch=(2,)), np.random.default_rng(4).random((2, 4, 7, 3))
    step = ps.classic.QPSO(contraction=0.8, walls="none").ask(swarm, Given(uniform=[draws]))
    for r in range(2):
        phi1, phi2, u, side = 1 - draws[r]
        alone = loop(by_hand.one_run(swarm, r), 0.8, phi1, phi2, u, side > 0.5)
        assert_allclose(step.position[r], alone, rtol=0, atol=1e-12)


def test_the_mean_best_leaves_out_particles_that_never_succeeded(swarm):
    """The fourth particle of `by_hand.swarm` never did; the others' bests are (0, 0), (1, 2), (2, -1)."""
    step = ps.classic.QPSO(contraction=1.0, walls="none").ask(
        swarm, given(np.ones((4, 2)), np.ones((4, 2)), np.full((4, 2), math.exp(-1)), np.ones((4, 2)))
    )
    centre = (swarm.best_position + swarm.global_best) / 2
    assert_allclose(step.position, centre + abs(np.array([1, 1 / 3]) - swarm.position), rtol=1e-14)


def test_deviates_at_the_ends_give_finite_points():
    swarm = by_hand.drawn(5)
    for end in (0.0, np.nextafter(1.0, 0.0)):
        step = ps.classic.QPSO(walls="none").ask(swarm, Given(uniform=[np.full((4, 7, 3), end)]))
        assert np.all(np.isfinite(step.position))


def test_the_law_of_a_jump():
    """With both bests at g a jump has a random sign and an exponentially distributed length."""
    n = 4000
    bests = np.zeros((n, 1))
    swarm = by_hand.moved(bests, np.zeros(n), bests + 3.0, bests, np.ones(n), [-1e3], [1e3])
    step = ps.classic.QPSO(contraction=0.5).ask(swarm, Draw([np.random.default_rng(6)], ()))
    jump = step.position[:, 0]
    assert kstest(abs(jump) / 1.5, "expon").pvalue > 1e-4  # false alarms 1e-4
    assert binomtest(int((jump > 0).sum()), n).pvalue > 1e-4  # false alarms 1e-4
    assert kstest(abs(jump[jump > 0]) / 1.5, "expon").pvalue > 1e-4  # sign and length are independent


def test_the_published_contraction_falls_from_one_to_a_half():
    for method in (ps.classic.QPSO(), ps.classic.QPSO.paper()):
        assert [method.contraction(progress) for progress in (0.0, 0.5, 1.0)] == [1.0, 0.75, 0.5]
        assert method.walls == "clip"


def test_walls_act_after_the_jump(swarm):
    draws = np.random.default_rng(7).random((4, 4, 2))
    wide = ps.classic.QPSO(contraction=20.0, walls="none").ask(swarm, Given(uniform=[draws]))
    for walls in ("clip", "reflect"):
        method = ps.classic.QPSO(contraction=20.0, walls=walls)
        step = method.ask(swarm, Given(uniform=[draws]))
        assert not np.array_equal(wide.position, step.position)
        assert_array_equal(step.position, method.wall.apply(*wide[:2], swarm.lower, swarm.upper)[0])


@pytest.mark.parametrize("wrong", [-0.1, np.nan, math.inf, lambda progress: 0.5 - progress])
def test_a_number_out_of_range_is_refused(wrong):
    with pytest.raises(ValueError, match="contraction must"):
        ps.classic.QPSO(contraction=wrong)


@pytest.mark.parametrize("wrong", ["fast", None, frozen([0.5, 0.5]), ps.schedules.patient_step()])
def test_a_value_that_is_not_a_number_is_refused(wrong):
    with pytest.raises(TypeError, match="contraction must be a number"):
        ps.classic.QPSO(contraction=wrong)
