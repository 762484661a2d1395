"""The step of the whole swarm against the paper's loop over particles and elements, and what must not change it."""

import pickle
import re
import warnings

import by_hand
import numpy as np
import pytest
from by_hand import Given, frozen
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.linalg import cholesky, expm

import paoswarm as ps
from paoswarm.core import attractors, walls
from paoswarm.core import swarm as kernels
from paoswarm.core.random import Draw


def naive_step(swarm, pulls, springs, nu, deviates, m, zeta, q, dt):
    """One particle and one element after the other; the equations of mathematics.md, sections 1 to 3."""
    n, d = swarm.position.shape
    m, zeta, q, dt = (np.broadcast_to(p, n) for p in (m, zeta, q, dt))
    springs = [np.broadcast_to(k, n) for k in springs]
    position, velocity = np.empty((n, d)), np.empty((n, d))
    for i in range(n):
        k = sum(spring[i] for spring in springs)
        omega = np.sqrt(k / m[i])
        F = np.array([[0, 1], [-(omega**2), -2 * zeta[i] * omega]])
        both = expm(np.block([[F, np.diag([0.0, 1.0])], [np.zeros((2, 2)), -F.T]]) * dt[i])
        A = both[:2, :2]
        H = cholesky(both[:2, 2:] @ A.T, lower=True)
        for j in range(d):
            a = sum(spring[i] * pull[i, j] for spring, pull in zip(springs, pulls, strict=True)) / k
            state = np.array([swarm.position[i, j] - a, swarm.velocity[i, j]])
            moved = A @ state + np.sqrt(q[i] * nu[i, j]) * H @ deviates[:, i, j]
            position[i, j], velocity[i, j] = moved[0] + a, moved[1]
    return position, velocity


CASES = {
    "defaults": {},
    "other numbers": {"mass": 2.0, "damping": 0.4, "stiffness": (0.7, 1.9), "noise": 2.3, "dt": 0.6},
    "critical": {"damping": 1.0, "noise": 4.0},
    "own steps": {"dt": np.linspace(0.1, 3.0, 7)},
    "own everything": {
        "mass": np.linspace(0.5, 2.0, 7),
        "damping": np.linspace(0.1, 0.9, 7),
        "stiffness": (np.linspace(1.0, 0.2, 7), 1.0),
        "noise": np.linspace(0.5, 4.0, 7),
        "dt": np.linspace(0.1, 3.0, 7),
    },
}


@pytest.mark.filterwarnings("ignore::paoswarm.errors.HyperparameterWarning")
@pytest.mark.parametrize("given", CASES.values(), ids=CASES)
def test_a_step_is_the_papers_loop(given):
    swarm = by_hand.drawn(1)
    deviates = np.random.default_rng(2).normal(size=(2, 7, 3))
    method = ps.PAO(walls="none", **given)
    step = method.ask(swarm, Given(normal=[deviates]))
    expected = naive_step(
        swarm,
        [swarm.best_position, swarm.global_best],
        method.stiffness,
        (swarm.best_position - swarm.global_best) ** 2,
        deviates,
        method.mass,
        method.damping,
        method.noise,
        method.dt,
    )
    assert_allclose(step[:2], expected, rtol=0, atol=1e-12)


def test_three_attractors_with_their_own_stiffness_are_the_papers_loop():
    swarm = by_hand.drawn(3)
    deviates = np.random.default_rng(4).normal(size=(2, 7, 3))
    pulls = (attractors.local_best, attractors.average_particle, lambda swarm: np.array([1.0, -0.5, 3.0]))
    springs = (0.5, np.linspace(0.1, 2.0, 7), 3.0)
    method = ps.PAO(attractors=pulls, stiffness=springs, noise=0.3, noise_scale=ps.noise.mean_to_best, walls="none")
    step = method.ask(swarm, Given(normal=[deviates]))
    mean = swarm.position.mean(axis=0)
    where = [swarm.best_position, np.tile(mean, (7, 1)), np.tile([1.0, -0.5, 3.0], (7, 1))]
    nu = np.full((7, 3), ((mean - swarm.global_best[0]) ** 2).sum())
    assert_allclose(step[:2], naive_step(swarm, where, springs, nu, deviates, 1.0, 0.2, 0.3, 1.0), rtol=0, atol=1e-12)


@pytest.mark.parametrize("progress", [0.0, 0.3, 1.0])
def test_a_scheduled_step_is_the_papers_loop_with_the_numbers_of_the_moment(progress):
    swarm = by_hand.drawn(5)
    deviates = np.random.default_rng(6).normal(size=(2, 7, 3))
    linear = ps.schedules.linear
    method = ps.PAO(
        mass=linear(1.0, 2.0),
        damping=linear(0.1, 0.3),
        stiffness=(linear(1.0, 2.0), 1.5),
        noise=lambda progress: 1.0 + 2 * progress,
        dt=ps.schedules.patient_step(0.5, growth=2.0, longest=3.0),
        walls="none",
    )
    aged = swarm._replace(age=frozen([0, 1, 2, 3, 4, 0, 9]))
    step = method.ask(aged, Given(normal=[deviates]), progress)
    expected = naive_step(
        swarm,
        [swarm.best_position, swarm.global_best],
        (1 + progress, 1.5),
        (swarm.best_position - swarm.global_best) ** 2,
        deviates,
        1 + progress,
        0.1 + 0.2 * progress,
        1 + 2 * progress,
        [0.5, 1.0, 2.0, 3.0, 3.0, 0.5, 3.0],
    )
    assert_allclose(step[:2], expected, rtol=0, atol=1e-12)


def test_the_noise_enters_by_its_square_root():
    """The paper prints q nu d with d ~ N(0, Sigma); four times the noise must double the displacement."""
    swarm, deviates = by_hand.drawn(7), np.random.default_rng(8).normal(size=(2, 7, 3))
    law = ps.PAO(walls="none").step_law(swarm)
    once = ps.PAO(walls="none").ask(swarm, Given(normal=[deviates]))
    with pytest.warns(ps.errors.HyperparameterWarning):
        four = ps.PAO(noise=4.0, walls="none").ask(swarm, Given(normal=[deviates]))
    assert_allclose(four.position - law.mean_position, 2 * (once.position - law.mean_position), atol=1e-13)
    assert_allclose(four.velocity - law.mean_velocity, 2 * (once.velocity - law.mean_velocity), atol=1e-13)


def test_a_larger_mass_explores_more():
    spreads = [float(ps.PAO(mass=m).stationary_spread) for m in (0.8, 1.0, 1.2)]
    assert spreads == sorted(spreads)


def test_walls_act_after_the_step(swarm):
    deviates = np.random.default_rng(9).normal(size=(2, 4, 2)) * 20
    free = ps.PAO(walls="none").ask(swarm, Given(normal=[deviates]))
    assert (free.position < swarm.lower).any()
    assert (free.position > swarm.upper).any()
    for rule, wall in walls.WALLS.items():
        if wall.unroll is not None:  # its springs go round the box
            continue
        step = ps.PAO(walls=rule).ask(swarm, Given(normal=[deviates]))
        assert_array_equal(step[:2], wall.apply(*free[:2], swarm.lower, swarm.upper))


def test_periodic_springs_take_the_short_way_round():
    """Turning the circle, seam and all, turns the step with it."""
    rng = np.random.default_rng(3)
    x, v = rng.uniform(0, 1, (6, 1)), rng.normal(size=(6, 1))
    deviates = rng.normal(size=(2, 6, 1))
    steps = []
    for turn in (0.0, 0.37):
        at = (x + turn) % 1.0
        swarm = kernels.start(at, np.arange(6.0), np.zeros(1), np.ones(1), velocity=v)
        steps.append(ps.PAO(walls="periodic").ask(swarm, Given(normal=[deviates])))
    apart = (steps[1].position - steps[0].position - 0.37 + 0.5) % 1.0 - 0.5
    assert_allclose(apart, 0, atol=1e-14)
    assert_allclose(steps[1].velocity, steps[0].velocity, atol=1e-14)


@pytest.mark.parametrize(
    "method",
    [
        ps.PAO(),
        ps.PAO(dt=np.linspace(0.5, 1.5, 7)),
        ps.PAO(dt=ps.schedules.patient_step()),
        ps.PAO(noise_scale=ps.noise.covariance, walls="reflect"),
        ps.PAO(noise_scale=ps.noise.mean_to_best, attractors=(attractors.DifferentialEvolution(),), stiffness=1.0),
    ],
    ids=["default", "own steps", "patient", "dense", "stochastic"],
)
def test_a_batch_of_runs_is_the_runs_one_by_one(method):
    batch = by_hand.drawn(10, batch=(3,))
    together = method.ask(batch, Draw([np.random.default_rng(r) for r in range(3)], (3,)))
    for r in range(3):
        alone = method.ask(by_hand.one_run(batch, r), Draw([np.random.default_rng(r)], ()))
        for whole, single in zip(together[:2], alone[:2], strict=True):
            assert_allclose(whole[r], single, rtol=0, atol=1e-12)


@pytest.mark.parametrize("rule", ["clip", "reflect", "periodic", "none"])
class TestEquivariance:
    def step(self, swarm, rule, **given):
        deviates = np.random.default_rng(11).normal(size=(2, 7, 3))
        return ps.PAO(walls=rule, **given).ask(swarm, Given(normal=[deviates]))

    def test_a_shifted_problem_is_solved_by_the_shifted_swarm(self, rule):
        swarm, shift = by_hand.drawn(12), np.array([10.0, -0.7, 300.0])
        step, moved = self.step(swarm, rule), self.step(by_hand.mapped(swarm, points=lambda x: x + shift), rule)
        assert_allclose(moved.position, step.position + shift, rtol=0, atol=1e-11)
        assert_allclose(moved.velocity, step.velocity, rtol=0, atol=1e-11)

    def test_every_unknown_may_have_its_own_unit(self, rule):
        swarm, scale = by_hand.drawn(12), np.array([1e3, 0.02, 7.0])
        scaled = by_hand.mapped(swarm, points=lambda x: scale * x, vectors=lambda v: scale * v)
        step, moved = self.step(swarm, rule), self.step(scaled, rule)
        assert_allclose(moved.position / scale, step.position, rtol=0, atol=1e-12)
        assert_allclose(moved.velocity / scale, step.velocity, rtol=0, atol=1e-12)

    def test_the_noise_of_the_papers_text_does_not_respect_units(self, rule):
        swarm, scale = by_hand.drawn(12), np.array([1e3, 0.02, 7.0])
        scaled = by_hand.mapped(swarm, points=lambda x: scale * x, vectors=lambda v: scale * v)
        step = self.step(swarm, rule, noise_scale=ps.noise.mean_to_best)
        moved = self.step(scaled, rule, noise_scale=ps.noise.mean_to_best)
        assert np.abs(moved.position / scale - step.position).max() > 0.1

    def test_only_the_order_of_values_matters(self, rule):
        swarm = by_hand.drawn(12)
        assert_array_equal(self.step(by_hand.mapped(swarm, values=np.exp), rule)[:2], self.step(swarm, rule)[:2])


def test_dense_noise_moves_with_every_affine_map():
    swarm = by_hand.drawn(13, n=9)
    matrix = np.array([[2.0, 0.5, 0.0], [-1.0, 1.0, 0.3], [0.2, 0.0, 0.7]])
    mapped = by_hand.mapped(swarm, points=lambda x: x @ matrix.T, vectors=lambda v: v @ matrix.T)
    method = ps.PAO(noise_scale=ps.noise.covariance, walls="none")
    before, after = method.step_law(swarm), method.step_law(mapped)
    assert_allclose(after.mean_position, before.mean_position @ matrix.T, atol=1e-12)
    assert_allclose(after.mean_velocity, before.mean_velocity @ matrix.T, atol=1e-12)
    assert_allclose(after.factor @ after.factor.mT, matrix @ (before.factor @ before.factor.mT) @ matrix.T, atol=1e-10)


def test_a_step_leaves_the_swarm_and_the_attractors_alone(swarm):
    remembered = frozen(by_hand.BESTS)

    def elsewhere(swarm):
        return remembered  # read-only: writing into it raises

    before = pickle.dumps(swarm)
    for pulls in ((elsewhere,), (elsewhere, elsewhere)):
        method = ps.PAO(attractors=pulls, stiffness=(1.0,) * len(pulls))
        method.ask(swarm, Draw([np.random.default_rng(1)], ()))
        method.step_law(swarm)
    assert pickle.dumps(swarm) == before


def test_tell_records_what_was_measured(swarm):
    method = ps.PAO()
    step = method.ask(swarm, Draw([np.random.default_rng(1)], ()))
    after = method.tell(swarm, step, frozen([0.5, 9, 9, 9]), np.array([True, True, False, True]))
    assert_array_equal(after.global_best, [step.position[0]] * 4)
    assert_array_equal(after.position[2], swarm.position[2])


def test_two_half_steps_have_the_law_of_one_whole_step():
    """The motion is exact: with frozen attractors the step size leaves no trace."""
    swarm = by_hand.drawn(14)
    frozen_pull = (attractors.local_best, attractors.global_best)
    whole = ps.PAO(attractors=frozen_pull, walls="none").step_law(swarm)
    half = ps.PAO(attractors=frozen_pull, dt=0.5, walls="none")
    first = half.step_law(swarm)
    second = half.step_law(swarm._replace(position=first.mean_position, velocity=first.mean_velocity))
    assert_allclose(second.mean_position, whole.mean_position, rtol=0, atol=1e-13)
    assert_allclose(second.mean_velocity, whole.mean_velocity, rtol=0, atol=1e-13)
    A = ps.laws.transition(1.0, 0.2, 2.0, 0.5).A
    assert_allclose(A @ first.covariance @ A.T + first.covariance, whole.covariance, rtol=0, atol=1e-12)


def test_a_method_survives_pickling_and_comparison():
    method = ps.PAO(damping=0.25, attractors=(attractors.GaussianPoint(), attractors.NeighbourhoodBest()))
    assert pickle.loads(pickle.dumps(method)) == method
    assert method != ps.PAO(damping=0.25)


# Errors


@pytest.mark.parametrize("name", ["mass", "damping", "noise", "dt"])
@pytest.mark.parametrize("bad", [-1.0, np.nan, np.inf, [1.0, -2.0], lambda progress: -progress - 1])
def test_a_bad_hyperparameter_is_named(name, bad):
    with pytest.raises(ValueError, match=f"^{name} must be"):
        ps.PAO(**{name: bad})


@pytest.mark.parametrize("name", ["mass", "damping", "noise", "dt"])
@pytest.mark.parametrize("bad", ["heavy", "0.2", None, True, {}, 1j, np.ones(0)])
def test_a_hyperparameter_that_is_no_number_is_named(name, bad):
    with pytest.raises(TypeError, match=f"^{name} must be a number, an array or a function of progress"):
        ps.PAO(**{name: bad})


def test_mass_must_not_vanish():
    with pytest.raises(ValueError, match=r"^mass must be positive and finite, got 0"):
        ps.PAO(mass=0.0)


@pytest.mark.parametrize("bad", [(1.0, -1.0), (1.0, np.nan), (1.0, lambda progress: 0.5 - progress)])
def test_a_bad_spring_is_named(bad):
    with pytest.raises(ValueError, match=r"^stiffness\[1\] must be"):
        ps.PAO(stiffness=bad)


def test_one_spring_may_be_slack_but_not_all():
    slack = ps.PAO(stiffness=(0.0, 2.0), attractors=(attractors.local_best, attractors.average_particle))
    alone = ps.PAO(stiffness=2.0, attractors=attractors.average_particle)
    swarm = by_hand.drawn(15)
    assert_array_equal(slack.step_law(swarm).mean_position, alone.step_law(swarm).mean_position)
    for springs in ((0.0, 0.0), (0.0, ps.schedules.linear(1.0, 0.0))):
        with pytest.raises(ValueError, match="stiffness is zero for every attractor"):
            ps.PAO(stiffness=springs)


@pytest.mark.parametrize("springs", [(1.0,), (1.0, 1.0, 1.0), ()])
def test_every_attractor_needs_a_spring(springs):
    with pytest.raises(ValueError, match=r"one entry per attractor: there are 2 attractors"):
        ps.PAO(stiffness=springs)


def test_one_stiffness_is_that_of_every_attractor():
    assert ps.PAO(stiffness=0.7) == ps.PAO(stiffness=(0.7, 0.7))


def test_a_class_of_attractors_is_not_an_attractor():
    with pytest.raises(TypeError, match=r"write NeighbourhoodBest\(\)"):
        ps.PAO(attractors=(attractors.local_best, attractors.NeighbourhoodBest))


def test_a_function_of_the_swarm_is_told_where_it_belongs():
    with pytest.raises(TypeError, match=r"schedules\.Adaptive"):
        ps.PAO(dt=lambda swarm: swarm.age)


@pytest.mark.parametrize("bad", [None, np.nan, "a", -np.inf, 1j])
def test_what_a_function_of_the_user_returned_is_refused_by_its_name(swarm, bad):
    def crooked(swarm):
        return bad

    methods = {"attractor": ps.PAO(attractors=(crooked,), stiffness=1.0), "noise scale": ps.PAO(noise_scale=crooked)}
    for kind, method in methods.items():
        with pytest.raises(ValueError, match=f"the {kind} crooked returned"):
            method.step_law(swarm)


def test_an_error_on_the_way_is_told_with_the_best_so_far():
    def sometimes(swarm):
        return swarm.best_position if swarm.age.max() < 3 else np.full_like(swarm.position, np.nan)

    values = []

    def fun(x):
        values.append(float(x @ x))
        return values[-1]

    method = ps.PAO(attractors=(sometimes, ps.attractors.global_best))
    with pytest.raises(ValueError, match="the attractor sometimes returned NaN") as info:
        ps.minimize(fun, [(-1, 1)] * 2, method=method, n_particles=8, rng=1)
    assert len(values) >= 8 * 4
    (note,) = info.value.__notes__
    assert note.startswith(f"The best of the {len(values)} evaluations before this error: {min(values)} at x = [")


def test_a_swarm_that_nothing_holds_is_an_error_before_the_function_sees_it():
    """Without walls, on a slope, with a spread above one: it grows without end."""
    seen = []

    def slope(x):
        seen.append(np.abs(x).max())
        return x.sum(axis=-1)

    with pytest.warns(ps.errors.HyperparameterWarning, match="does not contract"):
        method = ps.PAO(walls="none", noise=1000.0)
    with (
        np.errstate(all="ignore"),
        pytest.raises(ValueError, match="PAO produced NaN or infinite positions"),
    ):
        ps.minimize(slope, [(-1, 1)] * 2, method=method, n_particles=20, maxiter=10_000, vectorized=True, rng=1)
    assert np.isfinite(seen).all()
    assert max(seen) > 1e100


def test_a_negative_noise_scale_is_refused_by_its_name(swarm):
    def negative(swarm):
        return -(swarm.position**2)

    with pytest.raises(ValueError, match="negative returned"):
        ps.PAO(noise_scale=negative).step_law(swarm)


def test_a_covariance_of_the_wrong_size_is_refused(swarm):
    def small(swarm):
        return ps.noise.Dense(np.eye(1))

    with pytest.raises(ValueError, match=r"small returned a covariance of shape \(1, 1\)"):
        ps.PAO(noise_scale=small).step_law(swarm)


@pytest.mark.parametrize(
    ("covariance", "strength", "message"),
    [
        ([[1, 2], [2, 1]], None, "returned a matrix that is not a covariance: it has the eigenvalue -1"),
        ([[1, 0], [0, -1e-3]], None, "returned a matrix that is not a covariance: it has the eigenvalue -0.001"),
        ([[1, 0.9], [0, 1]], None, "returned a covariance that is not symmetric"),
        ([[1, np.nan], [np.nan, 1]], None, "returned a covariance with NaN"),
        (np.eye(2), [1.0, 2.0, 3.0], r"returned a strength of \[1.0, 2.0, 3.0\]; it must broadcast to the particles'"),
        (np.eye(2), -1.0, "returned a strength with NaN, infinite or negative"),
    ],
)
def test_what_is_no_covariance_is_refused(covariance, strength, message):
    def mine(swarm):
        return ps.noise.Dense(covariance, strength)

    fun, calls = lambda x: float(x @ x), []
    with pytest.raises(ValueError, match=f"mine {message}"):
        ps.minimize(lambda x: calls.append(x) or fun(x), [(-1, 1)] * 2, method=ps.PAO(noise_scale=mine), rng=1)
    assert np.isfinite(calls).all()


@pytest.mark.parametrize(
    "covariance", [[[1, 1], [1, 1]], np.zeros((2, 2)), [[1e-300, 0], [0, 1]], [[4, 2], [2, 1 - 1e-12]]]
)
def test_covariances_may_be_singular_and_lists(covariance):
    method = ps.PAO(noise_scale=lambda swarm: ps.noise.Dense(covariance, 2.0))
    assert ps.minimize(lambda x: float(x @ x), [(-1, 1)] * 2, method=method, maxiter=5, rng=1).fun < 1


def test_functions_of_ones_own_cannot_write_into_the_swarm():
    def greedy(swarm):
        pull = swarm.best_position
        pull *= 0.5
        return pull

    class Method(ps.Method):
        def ask(self, state, draw, progress=0.0):
            position = state.position
            position += 0.1
            return ps.Proposal(position, state.velocity)

    for method in (ps.PAO(attractors=(greedy,), stiffness=1.0), ps.PAO(noise_scale=greedy), Method()):
        with pytest.raises(ValueError, match="read-only"):
            ps.minimize(lambda x: float(x @ x), [(-1, 1)] * 2, method=method, rng=1)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"attractors": ()}, ValueError, "attractors is empty"),
        ({"attractors": (1.0, 2.0)}, TypeError, "attractors must be functions of the swarm, got 1.0"),
        ({"attractors": (lambda: 0, lambda: 0)}, TypeError, "an attractor is a function of the swarm"),
        ({"attractors": "global_best"}, TypeError, "got 'global_best': write attractors.global_best"),
        ({"attractors": (ps.attractors.global_best,)}, ValueError, r"stiffness is \(1.0, 1.0\) \(the default\)"),
        ({"mass": 1e220}, ValueError, "make a step that is too large for floating-point numbers"),
        ({"noise_scale": 1.0}, TypeError, "noise_scale must be a function of the swarm, got 1.0"),
        ({"walls": "bounce"}, ValueError, "walls must be one of .* got 'bounce'"),
        ({"walls": None}, ValueError, "walls must be one of .* got None"),
    ],
)
def test_other_bad_choices_are_named(given, error, message):
    with pytest.raises(error, match=message):
        ps.PAO(**given)


ANY = st.one_of(st.floats(), st.floats(1e-3, 1e3), st.sampled_from([0.0, 1e-300, 1e300]))
HYPERPARAMETERS = {"mass": ANY, "damping": ANY, "noise": ANY, "dt": ANY, "stiffness": st.tuples(ANY, ANY)}
REFUSAL = r"(mass|damping|noise|dt|stiffness).* (must (be|pull)|needs)|too large for floating-point numbers"


@settings(max_examples=80, deadline=None, derandomize=True)
@given(given=st.fixed_dictionaries(HYPERPARAMETERS), walls=st.sampled_from(["clip", "reflect"]))
def test_any_hyperparameters_are_refused_or_move_a_swarm_within_its_box(given, walls):
    """What is refused names a hyperparameter, or says that the numbers are too large; NaN is never evaluated."""
    seen, refused = [], REFUSAL

    def fun(x):
        seen.append(x)
        return float(((x - 1) ** 2).sum())

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore", ps.errors.HyperparameterWarning)
        try:
            ps.minimize(fun, [(-1, 3), (-1, 3)], method=ps.PAO(**given, walls=walls), n_particles=5, maxiter=4, rng=1)
        except ValueError as error:
            refused = str(error)
    assert refused is REFUSAL or re.search(REFUSAL, refused)
    assert (np.abs(np.array(seen) - 1) <= 2).all()


def test_a_swarm_that_is_stuck_in_tar_is_only_warned_of():
    with pytest.warns(ps.errors.HyperparameterWarning, match="stagnate"):
        method = ps.PAO(damping=1e100)
    result = ps.minimize(lambda x: float(x @ x), [(-1, 1)] * 2, method=method, n_particles=9, maxiter=3, rng=1)
    assert result.n_failed == 0


def test_an_array_of_stiffness_is_one_number_per_attractor():
    assert ps.PAO(stiffness=np.array([0.5, 1.5])) == ps.PAO(stiffness=(0.5, 1.5))


def test_single_precision_of_a_users_attractor_does_not_spread():
    def coarse(swarm):
        return swarm.best_position.astype(np.float32)

    method = ps.PAO(attractors=(coarse, attractors.global_best))
    assert method.ask(by_hand.drawn(1), Draw([np.random.default_rng(1)], ())).position.dtype == np.float64


@pytest.mark.parametrize("strength", [-1.0, np.nan])
def test_a_strength_of_dense_noise_that_is_none_is_refused(swarm, strength):
    def crooked(swarm):
        return ps.noise.Dense(np.eye(2), np.full(4, strength))

    with pytest.raises(ValueError, match="crooked returned"):
        ps.PAO(noise_scale=crooked).step_law(swarm)
