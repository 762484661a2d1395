"""Hyperparameters that change during a run."""

import math

import by_hand
import numpy as np
import pytest
from by_hand import frozen
from numpy.testing import assert_allclose, assert_array_equal

import paoswarm as ps
from paoswarm.methods.schedules import Adaptive, evaluate, geometric, linear, patient_step, piecewise


def test_a_linear_schedule_is_a_straight_line():
    schedule = linear(3.0, 1.0)
    assert_allclose([schedule(p) for p in (0.0, 0.25, 0.5, 1.0)], [3.0, 2.5, 2.0, 1.0], rtol=1e-15)


def test_a_geometric_schedule_falls_by_equal_factors():
    schedule = geometric(8.0, 0.5)
    assert_allclose([schedule(p) for p in (0.0, 0.25, 0.5, 0.75, 1.0)], [8.0, 4.0, 2.0, 1.0, 0.5], rtol=1e-14)


def test_a_piecewise_schedule_joins_its_knots_and_is_constant_outside():
    schedule = piecewise((0.2, 1.0), (0.5, 0.4), (0.9, 2.0))
    found = [schedule(p) for p in (0.0, 0.2, 0.3, 0.5, 0.7, 0.9, 1.0)]
    assert_allclose(found, [1.0, 1.0, 0.8, 0.4, 1.2, 2.0, 2.0], rtol=1e-14)
    assert isinstance(schedule(0.3), float)


def test_two_knots_at_one_place_make_a_jump():
    schedule = piecewise((0.0, 1.0), (0.5, 1.0), (0.5, 3.0), (1.0, 3.0))
    assert_allclose([schedule(0.5 - 1e-9), schedule(0.5 + 1e-9)], [1.0, 3.0], rtol=1e-12)


def test_one_knot_is_a_constant():
    assert [piecewise((0.5, 2.0))(p) for p in (0.0, 0.5, 1.0)] == [2.0] * 3


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: piecewise(), r"piecewise .* pairs"),
        (lambda: piecewise((0.0, 1.0, 2.0)), r"piecewise .* pairs"),
        (lambda: piecewise((0.5, 1.0), (0.2, 1.0)), "ascending"),
        (lambda: geometric(1.0, 0.0), "geometric .* positive"),
        (lambda: geometric(-1.0, 2.0), "geometric .* positive"),
        (lambda: patient_step(dt=0.0), "dt must .* 0, got 0.0"),
        (lambda: patient_step(longest=-1.0), "longest must .* 0, got -1.0"),
        (lambda: patient_step(growth=1.0), "growth must .* 1, got 1.0"),
    ],
)
def test_a_bad_schedule_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_patient_step_grows_with_age_up_to_the_longest(swarm):
    aged = swarm._replace(age=frozen([0, 1, 3, 50]))
    dt = patient_step(dt=0.5, growth=2.0, longest=5.0).of_swarm(aged)
    assert_allclose(dt, [0.5, 1.0, 4.0, 5.0], rtol=1e-14)


def test_a_patient_step_is_never_shorter_than_dt(swarm):
    aged = swarm._replace(age=frozen([0, 1, 3, 50]))
    assert_array_equal(patient_step(dt=2.0, longest=1.0).of_swarm(aged), [2.0] * 4)


def test_the_longest_patient_step_is_a_natural_period(swarm):
    old = swarm._replace(age=frozen([1e6] * 4))
    assert_allclose(patient_step().of_swarm(old) * ps.PAO().natural_frequency, 2 * math.pi, rtol=1e-14)


def test_a_patient_step_is_taken_by_the_swarm(swarm):
    aged = swarm._replace(age=frozen([0, 1, 3, 50]))
    adaptive = ps.PAO(dt=patient_step(0.5, 2.0, 5.0)).step_law(aged)
    given = ps.PAO(dt=np.array([0.5, 1.0, 4.0, 5.0])).step_law(aged)
    assert_allclose(adaptive.mean_position, given.mean_position, rtol=0, atol=1e-12)
    assert_allclose(adaptive.covariance, given.covariance, rtol=1e-12, atol=1e-15)


def test_a_batch_has_a_step_for_every_particle_of_every_run():
    batch = by_hand.drawn(1, batch=(2,))
    batch = batch._replace(age=frozen(np.arange(14).reshape(2, 7) % 5))
    method = ps.PAO(dt=patient_step(0.5, 1.3))
    together = method.step_law(batch)
    for r in range(2):
        alone = method.step_law(by_hand.one_run(batch, r))
        assert_allclose(together.mean_position[r], alone.mean_position, rtol=0, atol=1e-12)
        assert_allclose(together.covariance[r], alone.covariance, rtol=1e-12, atol=1e-15)


def test_any_hyperparameter_may_be_a_number_a_schedule_or_adaptive(swarm):
    assert evaluate(0.3, 0.5, None) == 0.3
    assert evaluate(lambda progress: 2 * progress, 0.5, None) == 1.0
    assert evaluate(Adaptive(lambda swarm: swarm.n_particles), 0.5, swarm) == 4
    with pytest.raises(ValueError, match="adaptive hyperparameter needs a swarm"):
        evaluate(Adaptive(lambda swarm: 1.0), 0.5, None)


@pytest.mark.parametrize("bad", [-1.0, np.nan, np.inf])
def test_an_adaptive_number_that_goes_astray_is_named(swarm, bad):
    with pytest.raises(ValueError, match=r"^dt .* during the run"):
        ps.PAO(dt=Adaptive(lambda swarm: bad)).step_law(swarm)


def test_adaptive_functions_of_the_wrong_shape_are_named():
    def three(swarm):
        return np.ones(3)

    with pytest.raises(ValueError, match=r"three returned .*\(3,\).*\(15,\)"):
        ps.minimize(
            lambda x: x @ x, [(-1, 1)] * 3, n_particles=15, method=ps.PAO(dt=ps.schedules.Adaptive(three)), rng=1
        )
    with pytest.raises(TypeError, match=r"Adaptive .* function of the swarm, got 3"):
        ps.schedules.Adaptive(3)


@pytest.mark.parametrize("progress", [3, -0.1, float("nan")])
def test_progress_is_a_share(progress):
    with pytest.raises(ValueError, match=r"progress .* got"):
        ps.Optimizer([(-1, 1)], method=ps.PAO(), rng=1).ask(progress)


def test_what_a_schedule_does_on_the_way_is_printed():
    dip = ps.PAO(noise=ps.schedules.piecewise((0, 1.0), (0.5, 0.05), (1, 1.0)))
    assert "noise 1 to 1 (0.05 to 1 in between)" in str(dip)
    assert f"0.6648 to 0.6648 ({dip.at(0.5).stationary_spread:.4g} to 0.6648 in between)" in str(dip)
    assert "in between" not in str(ps.PAO(dt=ps.schedules.linear(1, 2)))


def test_behaviour_is_given_in_full_or_not_at_all():
    with pytest.raises(ValueError, match=r"shares .* 2"):
        ps.PAO.from_behaviour(shares=(1, 2, 1))
    with pytest.raises(ValueError, match=r"noise .*phase"):
        ps.PAO.from_behaviour(noise=1.0)
    alone = ps.PAO.from_behaviour(attractors=ps.attractors.global_best, shares=(1,), phase=1.2)
    assert alone.phase == pytest.approx(1.2)


def test_adaptive_functions_cannot_write_into_the_swarm():
    def vandal(swarm):
        swarm.position[:] = 0.0
        return 1.0

    with pytest.raises(ValueError, match="read-only"):
        ps.minimize(lambda x: x @ x, [(-1, 1)] * 2, method=ps.PAO(dt=ps.schedules.Adaptive(vandal)), rng=1)
