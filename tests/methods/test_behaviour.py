"""What the hyperparameters mean: formulas, the motion itself, and the warnings with their numbers."""

import warnings

import numpy as np
import pytest
from by_hand import Given, frozen, moved
from numpy.testing import assert_allclose

import paoswarm as ps
from paoswarm.core import attractors
from paoswarm.methods import behaviour


def frozen_swarm(n, position):
    """Particles at rest on a line."""
    at = np.full((n, 1), position)
    return moved(at, np.zeros(n), at, np.zeros((n, 1)), np.ones(n), [-1e9], [1e9])


def still_attractor(swarm):
    return np.zeros(1)


def unit_noise(swarm):
    return 1.0


def test_the_defaults_are_those_of_the_page():
    method = ps.PAO()
    assert_allclose(method.natural_frequency, np.sqrt(2), rtol=1e-15)
    assert_allclose(method.phase, np.sqrt(2), rtol=1e-15)
    assert_allclose(method.stationary_spread, 0.665, atol=5e-4)
    assert method.regime == "underdamped"


@pytest.mark.filterwarnings("ignore::paoswarm.errors.HyperparameterWarning")
@pytest.mark.parametrize(
    ("m", "zeta", "k", "q", "dt"), [(1.0, 0.2, (1.0, 1.0), 1.0, 1.0), (2.0, 0.7, (0.3, 4.0), 5.0, 0.3)]
)
def test_the_numbers_are_their_formulas(m, zeta, k, q, dt):
    method = ps.PAO(mass=m, damping=zeta, stiffness=k, noise=q, dt=dt)
    omega = np.sqrt(sum(k) / m)
    assert_allclose(method.natural_frequency, omega, rtol=1e-14)
    assert_allclose(method.phase, omega * dt, rtol=1e-14)
    assert_allclose(method.period, 2 * np.pi / (omega * np.sqrt(1 - zeta**2) * dt), rtol=1e-14)
    assert_allclose(method.half_life, np.log(2) / (zeta * omega * dt), rtol=1e-14)
    assert_allclose(method.stationary_spread, np.sqrt(q / (4 * zeta * omega**3)), rtol=1e-14)


@pytest.mark.filterwarnings("ignore::paoswarm.errors.HyperparameterWarning")
@pytest.mark.parametrize(
    ("zeta", "regime"), [(0.0, "undamped"), (0.2, "underdamped"), (1.0, "critical"), (3.0, "overdamped")]
)
def test_the_regime_is_named(zeta, regime):
    assert ps.PAO(damping=zeta).regime == regime


@pytest.mark.filterwarnings("ignore::paoswarm.errors.HyperparameterWarning")
def test_what_does_not_swing_has_an_infinite_period_and_what_does_not_fade_an_infinite_half_life():
    assert ps.PAO(damping=1.0).period == ps.PAO(damping=3.0).period == np.inf
    assert ps.PAO(damping=0.0).half_life == ps.PAO(damping=0.0).stationary_spread == np.inf
    assert_allclose(ps.PAO(damping=0.0).period, 2 * np.pi / np.sqrt(2), rtol=1e-14)


@pytest.mark.filterwarnings("ignore::paoswarm.errors.HyperparameterWarning")
@pytest.mark.parametrize("zeta", [0.05, 0.4, 1.5, 6.0])
def test_after_a_half_life_the_motion_has_halved(zeta):
    method = ps.PAO(damping=zeta)
    # A whole swing later the motion is similar to itself; an overdamped one is so always, once its fast part has died.
    late, swing = 60 * method.half_life, method.period if zeta < 1 else method.half_life
    before, after = (ps.laws.transition(1.0, zeta, 2.0, t).A for t in (late, late + swing))
    assert_allclose(after, 0.5 ** (swing / method.half_life) * before, rtol=1e-9)


@pytest.mark.parametrize("dt", [0.3, 1.0, 4.0])
def test_simulated_particles_reach_the_stationary_spread(dt):
    n, rng = 20_000, np.random.default_rng(3)
    method = ps.PAO(attractors=still_attractor, stiffness=2.0, noise_scale=unit_noise, dt=dt, walls="none")
    swarm = frozen_swarm(n, 3.0)
    for _ in range(int(60 / dt)):
        step = method.ask(swarm, Given(normal=[rng.standard_normal((2, n, 1))]))
        swarm = swarm._replace(position=step.position, velocity=step.velocity)
    rho = method.stationary_spread
    # Variance and mean within five standard errors, three dt: false alarms 4e-6.
    assert abs(np.mean(swarm.position**2) / rho**2 - 1) < 5 * np.sqrt(2 / n)
    assert abs(np.mean(swarm.position)) < 5 * rho / np.sqrt(n)


def test_per_particle_numbers_have_per_particle_characters():
    method = ps.PAO(damping=np.array([0.2, 0.3]), dt=np.array([1.0, 2.0]))
    assert_allclose(method.phase, np.sqrt(2) * np.array([1.0, 2.0]), rtol=1e-14)
    alone = [ps.PAO(damping=z, dt=t).half_life for z, t in ((0.2, 1.0), (0.3, 2.0))]
    assert_allclose(method.half_life, alone, rtol=1e-14)
    assert ps.PAO(damping=np.array([0.2, 0.3])).regime == "underdamped"


@pytest.mark.parametrize("damping", [0.15, 0.3, 0.9])
@pytest.mark.parametrize("phase", [0.8, 1.4, 3.0])
@pytest.mark.parametrize(("mass", "dt"), [(1.0, 1.0), (3.0, 0.25)])
def test_a_swarm_from_its_behaviour_behaves_so(damping, phase, mass, dt):
    method = ps.PAO.from_behaviour(damping=damping, phase=phase, spread=0.6, mass=mass, dt=dt, shares=(3.0, 1.0))
    assert_allclose([method.damping, method.phase, method.stationary_spread], [damping, phase, 0.6], rtol=1e-14)
    assert_allclose(method.stiffness[0], 3 * method.stiffness[1], rtol=1e-14)
    assert (method.mass, method.dt) == (mass, dt)


def test_behaviour_is_all_that_counts():
    """Mass, dt and units of time drop out: the law of a step depends on damping, phase and spread alone."""
    swarm = frozen_swarm(3, 2.0)
    laws = [
        ps.PAO.from_behaviour(
            mass=m, dt=dt, shares=(1.0,), attractors=(still_attractor,), noise_scale=unit_noise, walls="none"
        ).step_law(swarm)
        for m, dt in ((1.0, 1.0), (5.0, 0.2))
    ]
    assert_allclose(laws[0].mean_position, laws[1].mean_position, rtol=1e-13)
    assert_allclose(laws[0].position.sd, laws[1].position.sd, rtol=1e-13)


def test_the_defaults_of_from_behaviour_are_the_defaults():
    method = ps.PAO.from_behaviour()
    assert_allclose([*method.stiffness, method.noise], [1.0, 1.0, 1.0], rtol=2e-3)


@pytest.mark.parametrize("name", ["damping", "phase", "spread", "dt"])
@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan, np.inf, "1"])
def test_a_bad_behaviour_is_named(name, bad):
    with pytest.raises(ValueError, match=f"^{name} must be a positive number"):
        ps.PAO.from_behaviour(**{name: bad})


# Warnings


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"damping": 0.7}, "spread is 0.355: .* stagnate"),
        ({"noise": 0.1}, "spread is 0.21: .* stagnate"),
        ({"noise": 0.0}, "spread is 0: .* stagnate"),
        ({"noise": 20.0}, "spread is 2.97: .* does not contract"),
        ({"damping": 0.0}, "spread is inf: .* does not contract"),
        ({"damping": 0.1}, "spread is 0.94: .* contracts slowly"),
        ({"damping": ps.schedules.linear(0.2, 0.01)}, "spread is 2.97: .* does not contract"),
    ],
)
def test_an_unhealthy_choice_is_told_with_its_number(given, message):
    with pytest.warns(ps.errors.HyperparameterWarning, match=message):
        ps.PAO(**given)


def test_the_warning_points_at_the_users_line():
    with pytest.warns(ps.errors.HyperparameterWarning) as caught:
        ps.PAO(damping=0.7)
    assert caught[0].filename == __file__


def warnings_of(*choices):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for given in choices:
            ps.PAO(**given)
    return caught


def test_healthy_choices_are_silent():
    ending_well = {"damping": ps.schedules.linear(0.7, 0.2)}  # what counts is how a run ends
    assert warnings_of({}, {"damping": 0.15}, {"damping": 0.3}, {"dt": 2.0}, ending_well) == []


def test_limits_measured_for_the_defaults_are_not_applied_to_others():
    others = (attractors.local_best, attractors.average_particle)
    scattered = {"noise": 20.0}
    assert len(warnings_of(scattered, {"damping": 0.7})) == 2
    assert (
        warnings_of({**scattered, "noise_scale": ps.noise.mean_to_best}, {"damping": 0.7, "attractors": others}) == []
    )


# Words


def test_the_summary_tells_every_number():
    text = str(ps.PAO())
    for number in ("1.414", "0.6648", "0.2", "underdamped", "local_best", "global_best", "spread", "clip"):
        assert number in text
    assert ps.PAO().summary() == text


def test_the_summary_of_a_schedule_tells_both_ends():
    text = str(ps.PAO(dt=ps.schedules.linear(1.0, 2.0)))
    assert "1.414 to 2.828" in text


def test_the_character_of_a_schedule_is_that_of_the_moment():
    method = ps.PAO(dt=ps.schedules.linear(1.0, 2.0))
    for progress in (0.0, 0.25, 1.0):
        assert_allclose(method.behaviour(progress).phase, np.sqrt(2) * (1 + progress), rtol=1e-14)
    assert ps.PAO().at(0.5) == ps.PAO()


def test_an_adaptive_hyperparameter_has_no_fixed_character():
    method = ps.PAO(dt=ps.schedules.patient_step())
    with pytest.raises(ValueError, match="adaptive"):
        method.phase
    assert "adaptive" in str(method)


def test_repr_can_be_read_back():
    method = ps.PAO(damping=0.25, stiffness=2.0, attractors=(attractors.GaussianPoint(),))
    names = {**vars(attractors), **vars(ps.noise), "PAO": ps.PAO}
    assert eval(repr(method), names) == method
    assert eval(repr(ps.PAO()), names) == ps.PAO()


def test_hyperparameters_are_frozen():
    with pytest.raises(AttributeError):
        ps.PAO().damping = frozen(0.5)


def test_describing_a_schedule_does_not_warn():
    method = ps.PAO(damping=ps.schedules.linear(0.7, 0.2))
    assert "0.7 to 0.2" in str(method)
    assert method.at(1.0).damping == 0.2


def test_an_unhealthy_schedule_warns_once_and_points_at_the_caller():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ps.PAO(damping=ps.schedules.linear(0.2, 0.7))
    assert [warning.filename for warning in caught] == [__file__]


def test_without_noise_the_spread_is_zero_even_without_damping():
    with pytest.warns(ps.errors.HyperparameterWarning, match="spread is 0"):
        assert ps.PAO(noise=0.0, damping=0.0).stationary_spread == 0


def test_methods_are_equal_when_all_their_parts_are():
    assert ps.PAO(dt=np.ones(3)) == ps.PAO(dt=np.ones(3))
    assert hash(ps.PAO(dt=np.ones(3))) == hash(ps.PAO(dt=np.ones(3)))
    assert ps.PAO(dt=np.ones(3)) != ps.PAO(dt=np.ones(4))
    assert ps.PAO() != ps.PAO(walls="reflect")


def test_an_array_that_does_not_fit_the_particles_is_named():
    with pytest.raises(ValueError, match=r"dt has shape \(5,\)"):
        ps.Optimizer([(-1, 1)], n_particles=12, method=ps.PAO(dt=np.ones(5)))


@pytest.mark.parametrize("damping", [0.0, 0.2, 1 - 1e-9, 1.0, 1 + 1e-9, 2.0, 1e8])
def test_poles_are_the_roots_of_the_spring(damping):
    with behaviour.without_warnings():
        method = ps.PAO(damping=damping, mass=3.0, stiffness=(0.5, 2.0), noise=0.3)
    omega, poles = method.natural_frequency, behaviour.poles(method)
    assert_allclose(poles.sum(), -2 * damping * omega, rtol=1e-14, atol=1e-15)
    assert_allclose(poles.prod(), omega**2, rtol=1e-14)  # fails if the slow root is a difference of large numbers
    assert_allclose(max(poles.real), -np.log(2) / method.half_life if damping else 0.0, rtol=1e-13)


def test_the_free_response_tends_to_the_stationary_law():
    method = ps.PAO(noise=1.3)
    mean, sd = behaviour.free_response(method, [0.0, 500.0], start=2.0, scale=3.0)
    assert_allclose(mean, [2, 0], atol=1e-12)
    assert_allclose(sd, [0, 3 * method.stationary_spread], rtol=1e-12)


def test_without_warnings_is_quiet_inside_only():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with behaviour.without_warnings():
            method = ps.PAO(damping=0.7)
        (concern,) = behaviour.concerns(method)
        with pytest.raises(ps.errors.HyperparameterWarning, match=concern[:30]):
            ps.PAO(damping=0.7)
