"""The joint law of position and velocity after one step: quadrature, simulation, and laws that must be rejected."""

import by_hand
import numpy as np
import pytest
from by_hand import Given, frozen, quadrature
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import binomtest, kstest, multivariate_normal

import paoswarm as ps
from paoswarm.core import swarm as kernels
from paoswarm.core import walls
from paoswarm.core.noise import Dense
from paoswarm.core.random import Draw

LOWER, UPPER = -1.0, 2.0
LAWS = {  # mean position, mean velocity, scale
    "narrow": (0.3, 0.5, 0.4),
    "at the wall": (1.9, -0.4, 1.1),
    "wide": (0.3, 1.0, 20.0),
    "outside": (-4.0, -1.5, 3.0),
    "outside and wide": (7.5, 2.0, 12.0),
}


def element(rule, mean_position, mean_velocity, scale):
    """The law of a single element of a single particle; its H has a strong correlation."""
    mean_position, mean_velocity, scale = (np.full((1, 1), m) for m in (mean_position, mean_velocity, scale))
    cholesky = ps.laws.transition(1.0, 0.2, 2.0, 0.8).cholesky
    wall, lower, upper = walls.WALLS[rule], np.full(1, LOWER), np.full(1, UPPER)
    return ps.laws.StepLaw(mean_position, mean_velocity, scale, cholesky, None, wall, lower, upper)


def density(law, x, v):
    """Of a single element, over broadcast arrays of positions and velocities."""
    x, v = np.broadcast_arrays(x, v)
    return np.exp(law.log_density(x[..., None, None], v[..., None, None])[..., 0])


def reach(law):
    """A velocity, and a distance from the mean position, that the law does not exceed."""
    sd = np.sqrt(law.covariance[0, 0, [0, 1], [0, 1]])
    return 9 * sd[0], np.abs(law.mean_velocity).max() + 9 * sd[1]


def velocities(law, panels=60):
    """Nodes for velocities: finer close to zero, where a clipping wall returns a tenth."""
    _, far = reach(law)
    parts = [
        quadrature(a, b, panels // 4) for a, b in ((-far, -far / 10), (-far / 10, 0), (0, far / 10), (far / 10, far))
    ]
    return tuple(np.concatenate(both) for both in zip(*parts, strict=True))


@pytest.mark.parametrize("rule", walls.WALLS)
@pytest.mark.parametrize("numbers", LAWS.values(), ids=LAWS)
class TestEveryRule:
    def test_the_joint_density_integrates_to_one(self, rule, numbers):
        law = element(rule, *numbers)
        far, _ = reach(law)
        ends = (LOWER, UPPER) if law.wall.is_bounded else (law.mean_position[0, 0] - far, law.mean_position[0, 0] + far)
        (x, wx), (v, wv) = quadrature(*ends, panels=10), velocities(law)
        total = wx @ density(law, x[:, None], v) @ wv
        if law.wall.has_atoms:
            total += wv @ density(law, LOWER, v) + wv @ density(law, UPPER, v)
        assert_allclose(total, 1, rtol=0, atol=1e-12)

    def test_without_the_velocity_it_is_the_density_of_the_position(self, rule, numbers):
        law = element(rule, *numbers)
        v, wv = velocities(law)
        x = np.array([LOWER, -0.99, -0.2, 0.3, 1.5, 1.99, UPPER])
        marginal = density(law, x[:, None], v) @ wv
        assert_allclose(marginal, np.exp(law.log_density_position(x[:, None, None])[:, 0]), rtol=1e-9, atol=1e-13)

    def test_its_own_draws_follow_it(self, rule, numbers):
        law = element(rule, *numbers)
        x, v = (part[:, 0, 0] for part in law.sample(np.random.default_rng(8), (1000,)))
        # False alarms of the whole class: 20 laws with at most 4 p-values each at 1e-4, 0.8 %.
        assert min(p_values(law, x, v)) > 1e-4


def p_values(law, x, v):
    """Tests of points (x, v) against the law of one element: the position's, and the velocity's given the position.

    Together they determine the joint law. Atoms are counted; the continuous part is compared by Kolmogorov-Smirnov.
    """
    tests = []
    position = law.position
    low, high = 0.0, 1.0
    if law.wall.has_atoms:
        low, above = (float(np.exp(position.log_density(np.asarray(end))[0, 0])) for end in (LOWER, UPPER))
        high = 1 - above
        tests = [binomtest(int((x == end).sum()), len(x), p).pvalue for end, p in ((LOWER, low), (UPPER, above))]
    inside = (x > LOWER) & (x < UPPER) if law.wall.has_atoms else np.full(x.shape, True)
    if inside.sum() > 50:
        u = (position.cdf(x[inside][:, None, None])[:, 0, 0] - low) / (high - low)
        tests.append(kstest(u, "uniform").pvalue)
    _, far = reach(law)
    starts = np.where(inside | (v < 0), -far, 0.0)  # on the lower wall the density begins at v = 0
    nodes, weights = quadrature(starts, v, panels=12 if law.wall.has_atoms else 4)  # p-values to 1e-7
    below = (weights * density(law, x[:, None], nodes)).sum(axis=-1)
    whole = np.exp(law.log_density_position(x[:, None, None])[:, 0])
    return [*tests, kstest(below / whole, "uniform").pvalue]


# The step of a whole swarm, simulated. All noise is wide enough to meet the walls.


def shaken(swarm):
    return np.array([[0.5, 30.0], [2.0, 4.0], [40.0, 0.1], [8.0, 1.0]])


def simulated(method, swarm, copies, seed):
    """Positions and velocities ``(copies, n, d)`` of independent steps from the same swarm."""
    batch = ps.Swarm(
        *(
            np.broadcast_to(part, (copies, *np.shape(part)))
            if name not in ("repeats", "lower", "upper", "axes")
            else part
            for name, part in zip(ps.Swarm._fields, swarm, strict=True)
        )
    )
    deviates = np.random.default_rng(seed).standard_normal((copies, 2, *swarm.position.shape))
    return method.ask(batch, Given(normal=[deviates]))


def one_element(law, i, j):
    return law._replace(
        mean_position=law.mean_position[i : i + 1, j : j + 1],
        mean_velocity=law.mean_velocity[i : i + 1, j : j + 1],
        scale=law.scale[i : i + 1, j : j + 1],
        lower=law.lower[j : j + 1],
        upper=law.upper[j : j + 1],
    )


@pytest.fixture
def square(swarm):
    """The swarm of `by_hand` in the box (-1, 2)^2."""
    return swarm._replace(lower=np.full((4, 2), LOWER), upper=np.full((4, 2), UPPER))


@pytest.mark.parametrize("rule", walls.WALLS)
@pytest.mark.parametrize("copies", [1000, pytest.param(20_000, marks=pytest.mark.slow)])
def test_simulated_steps_follow_the_law(square, rule, copies):
    method = ps.PAO(noise_scale=shaken, noise=1.5, dt=0.7, walls=rule)
    law, steps = method.step_law(square), simulated(method, square, copies, seed=21)
    for i in range(4):
        for j in range(2):
            found = p_values(one_element(law, i, j), steps.position[:, i, j], steps.velocity[:, i, j])
            assert min(found) > 1e-5, (i, j)  # false alarms: 8 cases, 8 elements, at most 4 p-values: 0.26 %


@pytest.mark.parametrize(
    ("done", "claimed"),
    [
        (walls.reflect, walls.periodic),
        (walls.periodic, walls.reflect),
        (walls.clip, walls.reflect),
        (walls.reflect, walls.reflect._replace(images=walls.none.images)),
        (walls.periodic, walls.periodic._replace(images=walls.none.images)),
        (walls.reflect, walls.none),
    ],
    ids=["reflect-periodic", "periodic-reflect", "clip-reflect", "reflect-no images", "periodic-no images", "no wall"],
)
def test_a_wrong_law_is_rejected(square, done, claimed):
    method = ps.PAO(noise_scale=shaken, noise=1.5, dt=0.7, walls=done.name)
    law, steps = method.step_law(square), simulated(method, square, 2000, seed=21)
    wrong = one_element(law, 3, 0)._replace(wall=claimed)
    assert min(p_values(wrong, steps.position[:, 3, 0], steps.velocity[:, 3, 0])) < 1e-9


def test_a_law_with_the_wrong_restitution_is_rejected(square, monkeypatch):
    method = ps.PAO(noise_scale=shaken, noise=1.5, dt=0.7)
    steps = simulated(method, square, 2000, seed=21)
    monkeypatch.setattr("paoswarm.core.laws.RESTITUTION", 0.2)
    law = one_element(method.step_law(square), 3, 0)
    assert min(p_values(law, steps.position[:, 3, 0], steps.velocity[:, 3, 0])) < 1e-9


@pytest.mark.parametrize("rule", walls.WALLS)
def test_an_element_without_noise_is_an_atom_where_ask_puts_it(swarm, rule):
    swarm = swarm._replace(velocity=frozen([[1, -1], [9.0, -14.0], [-2, 0.25], [3, 1.5]]))  # the leader flies out
    method = ps.PAO(walls=rule)
    law, step = method.step_law(swarm), method.ask(swarm, Draw([np.random.default_rng(1)], ()))
    assert_array_equal(law.scale[1], [0, 0])
    assert law.log_density(step.position, step.velocity)[1] == 0
    assert law.log_density_position(step.position)[1] == 0
    assert np.isfinite(law.log_density(step.position, step.velocity)).all()
    for part in range(2):
        beside = [a.copy() for a in step[:2]]
        beside[part][1, 0] = np.nextafter(beside[part][1, 0], 0)
        assert law.log_density(*beside)[1] == -np.inf


def test_without_time_every_element_is_an_atom(swarm):
    with pytest.warns(ps.errors.HyperparameterWarning, match="dt is 0"):
        method = ps.PAO(dt=0.0)
    assert_array_equal(method.step_law(swarm).log_density(swarm.position, swarm.velocity), np.zeros(4))


def test_a_particles_log_density_is_the_sum_over_its_elements(square):
    law = ps.PAO(noise_scale=shaken).step_law(square)
    x, v = square.best_position, square.velocity
    x = np.clip(x, LOWER, UPPER)
    each = [
        [one_element(law, i, j).log_density(x[i, j].reshape(1, 1), v[i, j].reshape(1, 1))[0] for j in (0, 1)]
        for i in range(4)
    ]
    assert_allclose(law.log_density(x, v), np.sum(each, axis=1), rtol=1e-13)


def test_the_covariance_before_the_walls_is_that_of_the_transition(square):
    law = ps.PAO(noise_scale=shaken, noise=1.5, dt=0.7, mass=2.0).step_law(square)
    sigma = ps.laws.transition(2.0, 0.2, 2.0, 0.7).covariance
    assert_allclose(law.covariance, 1.5 * shaken(square)[..., None, None] * sigma, rtol=1e-14)


def test_particles_with_their_own_step_have_their_own_law(square):
    dt = np.array([0.1, 0.7, 1.3, 2.9])
    together = ps.PAO(noise_scale=shaken, dt=dt, walls="reflect").step_law(square)
    x, v = np.clip(square.position, LOWER, UPPER), square.velocity
    for i, step in enumerate(dt):
        alone = ps.PAO(noise_scale=shaken, dt=step, walls="reflect").step_law(square)
        assert_allclose(together.log_density(x, v)[i], alone.log_density(x, v)[i], rtol=1e-12)
        assert_allclose(together.covariance[i], alone.covariance[i], rtol=1e-13)


def test_a_batch_of_laws_is_the_laws_one_by_one():
    batch = by_hand.drawn(5, batch=(3,))
    method = ps.PAO(walls="reflect")
    together = method.step_law(batch)
    x, v, *_ = method.ask(batch, Draw([np.random.default_rng(r) for r in range(3)], (3,)))
    for r in range(3):
        alone = method.step_law(by_hand.one_run(batch, r))
        assert_allclose(together.log_density(x, v)[r, 1:], alone.log_density(x[r], v[r])[1:], rtol=1e-10)


# Dense noise

SHAPE = np.array([[2.0, 0.6], [0.6, 0.5]])
STRENGTH = np.array([0.5, 1.0, 2.0, 3.0])


@pytest.mark.parametrize("dt", [0.9, np.array([0.2, 0.9, 1.7, 3.0])], ids=["one step", "own steps"])
@pytest.mark.parametrize("strength", [None, STRENGTH], ids=["alike", "own strength"])
def test_dense_noise_is_a_kronecker_product(swarm, strength, dt):
    law = ps.PAO(noise_scale=lambda s: Dense(SHAPE, strength), noise=1.3, dt=dt, walls="none").step_law(swarm)
    x, v = swarm.position + 0.3, swarm.velocity - 0.2
    mean = np.concatenate([law.mean_position, law.mean_velocity], axis=-1)
    for i in range(4):
        sigma = ps.laws.transition(1.0, 0.2, 2.0, np.broadcast_to(dt, 4)[i]).covariance
        covariance = 1.3 * np.kron(sigma, SHAPE * (1 if strength is None else strength[i]))
        expected = multivariate_normal(mean[i], covariance).logpdf([*x[i], *v[i]])
        assert_allclose(law.log_density(x, v)[i], expected, rtol=1e-11)
        expected = multivariate_normal(mean[i, :2], covariance[:2, :2]).logpdf(x[i])
        assert_allclose(law.log_density_position(x)[i], expected, rtol=1e-11)
        assert_allclose(law.position.sd[i], np.sqrt(np.diag(covariance)[:2]), rtol=1e-12)


def test_dense_noise_that_is_diagonal_is_element_wise_noise(swarm):
    dense = ps.PAO(noise_scale=lambda s: Dense(np.diag([2.0, 0.5])), walls="none").step_law(swarm)
    plain = ps.PAO(noise_scale=lambda s: np.array([2.0, 0.5]), walls="none").step_law(swarm)
    x, v = swarm.position + 0.3, swarm.velocity - 0.2
    assert_allclose(dense.log_density(x, v), plain.log_density(x, v), rtol=1e-13)
    assert_allclose(dense.covariance, plain.covariance, rtol=1e-13)


def test_simulated_dense_steps_have_the_covariance_of_the_law(swarm):
    copies = 20000
    method = ps.PAO(noise_scale=lambda s: Dense(SHAPE, STRENGTH), walls="none")
    law, steps = method.step_law(swarm), simulated_dense(swarm, copies)
    whole = np.concatenate([steps.position - law.mean_position, steps.velocity - law.mean_velocity], axis=-1)
    own = np.concatenate(law.sample(np.random.default_rng(6), (copies,)), axis=-1)
    own = own - np.concatenate([law.mean_position, law.mean_velocity], axis=-1)
    sigma = ps.laws.transition(1.0, 0.2, 2.0, 1.0).covariance
    for i in range(4):
        exact = STRENGTH[i] * np.kron(sigma, SHAPE)
        scale = np.sqrt(np.outer(np.diag(exact), np.diag(exact)))
        for drawn in (whole[:, i], own[:, i]):
            error = (drawn.T @ drawn / copies - exact) / scale
            assert np.abs(error).max() < 5 * np.sqrt(2 / copies)  # 80 entries at five sigma: false alarms 5e-5


def simulated_dense(swarm, copies):
    def shape(batch):
        return Dense(np.broadcast_to(SHAPE, (copies, 2, 2)), np.broadcast_to(STRENGTH, (copies, 4)))

    return simulated(ps.PAO(noise_scale=shape, walls="none"), swarm, copies, seed=5)


@pytest.mark.parametrize("rule", ["clip", "reflect", "periodic"])
def test_dense_noise_has_no_joint_density_behind_walls(swarm, rule):
    law = ps.PAO(noise_scale=lambda s: Dense(SHAPE), walls=rule).step_law(swarm)
    for ask in (
        lambda: law.log_density(swarm.position, swarm.velocity),
        lambda: law.log_density_position(swarm.position),
    ):
        with pytest.raises(ValueError, match=f"walls='{rule}' .* density"):
            ask()
    assert np.isfinite(law.position.log_density(swarm.position)).all()


def test_singular_dense_noise_has_no_density(swarm):
    law = ps.PAO(noise_scale=lambda s: Dense(np.ones((2, 2))), walls="none").step_law(swarm)
    with pytest.raises(ValueError, match="singular"):
        law.log_density(swarm.position, swarm.velocity)


def test_a_particle_without_dense_noise_is_an_atom_and_the_others_have_a_density():
    swarm = by_hand.drawn(3)
    law = ps.PAO(noise_scale=ps.noise.covariance, walls="none").step_law(swarm)
    still = ~law.factor.any(axis=(-1, -2))
    assert still.sum() == 1  # the leader
    position, velocity = law.sample(np.random.default_rng(1))
    density = law.log_density(position, velocity)
    assert density[still] == 0
    assert np.isfinite(density).all()
    assert law.log_density(position + 1e-9, velocity)[still] == -np.inf


@pytest.mark.parametrize("rule", ["reflect", "periodic"])
def test_the_joint_density_is_continuous_where_a_law_becomes_wide_and_integrates_to_one(rule):
    swarm = kernels.start(np.array([[0.3], [0.8]]), np.array([1.0, 0.0]), np.zeros(1), np.ones(1))
    h11 = ps.laws.transition(1.0, 0.2, 2.0, 1.0).cholesky[0, 0]
    at = np.array([[0.4], [0.4]]), np.array([[3.0], [-2.0]])
    values = []
    for widths in (7.99, 8.01, 50.0):
        law = ps.PAO(noise_scale=lambda s, w=widths: (w / h11) ** 2, walls=rule).step_law(swarm)
        values.append(law.log_density(*at))
        reach = 12 * np.sqrt(law.covariance[0, 0, 1, 1])
        v, w = quadrature(-reach, reach, panels=40)
        points = np.full((len(v), 2, 1), 0.3), np.broadcast_to(v[:, None, None], (len(v), 2, 1))
        # Uniform in the position, so that any of its values will do.
        assert_allclose(w @ np.exp(law.log_density(*points)), 1, rtol=1e-6)
    assert_allclose(values[0], values[1], atol=0.02)


def test_a_mean_many_boxes_away_has_the_joint_law_of_its_image():
    moved_far = kernels.start(np.array([[0.3], [0.8]]), np.array([1.0, 0.0]), np.zeros(1), np.ones(1))
    for velocity in (37.0, -52.0):
        swarm = moved_far._replace(velocity=np.full((2, 1), velocity))
        law = ps.PAO(noise_scale=lambda s: 0.3, walls="reflect").step_law(swarm)
        x, v = law.sample(3, size=200)
        simulated = law.log_density(x, v)
        assert np.isfinite(simulated).all()
        # The mean of -log density is the entropy, the same for every mean that is far from the walls' images.
        assert abs(simulated.mean() - law.log_density(*law.sample(4, size=200)).mean()) < 1.0


@pytest.mark.parametrize("noise_scale", [ps.noise.spread, ps.noise.covariance])
def test_the_covariance_of_the_next_position_is_that_of_its_draws(swarm, noise_scale):
    # 20 000 draws: a relative standard error of 1 % of the variances; the test allows 5 of them.
    law = ps.PAO(noise_scale=noise_scale, walls="none").step_law(swarm)
    draws, _ = law.sample(rng=1, size=20_000)
    apart = draws - law.mean_position
    found = np.einsum("sij,sik->ijk", apart, apart) / len(draws)
    widths = np.sqrt(np.diagonal(law.position_covariance, axis1=-2, axis2=-1))
    assert_allclose(found, law.position_covariance, atol=0.05 * (widths[:, :, None] * widths[:, None, :]).max())
    assert_allclose(np.diagonal(law.position_covariance, axis1=-2, axis2=-1), law.position.sd**2)
