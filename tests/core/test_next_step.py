"""The next step of a swarm as one distribution: a mixture of all particles' laws, weighted by rank."""

import by_hand
import numpy as np
import pytest
from by_hand import moved, quadrature
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import kstest, norm

import paoswarm as ps
from paoswarm.core import swarm as kernels
from paoswarm.core import walls
from paoswarm.core.noise import Dense
from paoswarm.core.order import CAUTION, Repeats
from paoswarm.core.random import Draw

LOWER, UPPER = -1.0, 2.0
RULES = list(walls.WALLS)


def wide(swarm):
    return 4.0 + 0.0 * swarm.position


def next_step(swarm, rule="clip", noise_scale=wide, **others):
    return ps.laws.NextStep(ps.PAO(noise_scale=noise_scale, walls=rule, **others).step_law(swarm), swarm)


@pytest.mark.parametrize("noise_scale", [ps.noise.spread, ps.noise.covariance], ids=["spread", "covariance"])
@pytest.mark.parametrize("rule", RULES)
def test_the_next_positions_of_the_particles_are_distributed_as_stated(rule, noise_scale):
    swarm, method = by_hand.drawn(3, n=20, d=2), ps.PAO(walls=rule, noise_scale=noise_scale)
    law = ps.laws.NextStep(method.step_law(swarm), swarm)
    places = places_after_a_step(swarm, method, law, law.weights)
    for one in places:  # false alarms: 2 unknowns, 4 walls, 2 noise scales at 1e-4
        assert kstest(one, "uniform").pvalue > 1e-4


def test_particles_with_other_weights_would_be_noticed():
    swarm, method = by_hand.drawn(3, n=20, d=2), ps.PAO()
    law = ps.laws.NextStep(method.step_law(swarm), swarm)
    for one in places_after_a_step(swarm, method, law, np.full(20, 0.05)):
        assert kstest(one, "uniform").pvalue < 1e-4


def places_after_a_step(swarm, method, law, weights):
    """Move 1000 copies of a swarm; where one particle of each, drawn by weight, comes to lie in the law, (d, 1000)."""
    rng, size = np.random.default_rng(1), 1000
    copies = kernels.map_runs(lambda a: np.broadcast_to(a, (size, *a.shape)), swarm)
    moved_on = method.ask(copies, Draw(rng.spawn(size), (size,))).position
    x = moved_on[np.arange(size), rng.choice(swarm.n_particles, size=size, p=weights)]
    below, at = law.cdf(x - 1e-9), law.cdf(x + 1e-9)
    return (below + rng.random(x.shape) * (at - below)).T  # walls and the leader, which has no noise, are atoms


@pytest.fixture
def line():
    """Five particles on the line from -1 to 2, no two alike."""
    return moved(
        bests=[[-0.5], [1.5], [0.2], [1.9], [-0.9]],
        best_values=[5.0, 1.0, 3.0, 2.0, 4.0],
        positions=[[0.0], [1.0], [2.0], [1.7], [-1.0]],
        velocities=[[0.5], [-1.0], [0.1], [2.0], [-0.3]],
        values=[6.0, 6.0, 6.0, 6.0, 6.0],
        lower=[LOWER],
        upper=[UPPER],
    )


def ends(law):
    parts = law.components
    if parts.wall.is_bounded:  # on a circle, the box is counted from the point opposite the best one
        return float(parts.lower[0]), float(parts.upper[0])
    return (parts.mean - 10 * parts.sd).min(), (parts.mean + 10 * parts.sd).max()


def mass(law):
    """Points and probabilities of a one-dimensional law, atoms included."""
    x, w = quadrature(*ends(law), panels=60)
    p = w * np.exp(law.log_density(x[:, None]))
    atoms = np.array([LOWER, UPPER] if law.components.wall.has_atoms else [])
    return np.append(x, atoms), np.append(p, np.exp(law.log_density(atoms[:, None])))


@pytest.mark.parametrize("rule", RULES)
class TestOneDimension:
    def test_the_density_integrates_to_one(self, line, rule):
        assert_allclose(mass(next_step(line, rule))[1].sum(), 1, rtol=0, atol=1e-12)

    def test_the_moments_are_those_of_the_density(self, line, rule):
        law = next_step(line, rule)
        x, p = mass(law)
        assert_allclose(law.mean, [p @ x], rtol=1e-11)
        assert_allclose(law.covariance, [[p @ (x - p @ x) ** 2]], rtol=1e-11)
        assert_allclose(law.std, np.sqrt(law.covariance[0]), rtol=1e-15)

    def test_the_distribution_function_is_the_integral_of_the_density(self, line, rule):
        law = next_step(line, rule)
        for cut in (0.1, 0.7, 1.3):
            nodes, w = quadrature(ends(law)[0], cut, panels=60)
            atom = np.exp(law.log_density([LOWER])) if law.components.wall.has_atoms else 0.0
            assert_allclose(law.cdf([cut]), w @ np.exp(law.log_density(nodes[:, None])) + atom, rtol=0, atol=1e-12)

    def test_the_quantile_inverts_the_distribution_function(self, line, rule):
        law = next_step(line, rule)
        for p in (1e-6, 0.01, 0.3, 0.5, 0.8, 0.999):
            x = law.quantile(p)
            assert law.cdf(x) >= p
            assert law.cdf(np.nextafter(x, -np.inf) - 1e-14) < p
            if LOWER < x < UPPER:
                assert_allclose(law.cdf(x), p, rtol=0, atol=1e-14)

    def test_draws_follow_the_distribution_function(self, line, rule):
        law = next_step(line, rule)
        x = law.sample(4000, rng=5)
        below, at = law.cdf(np.nextafter(x, -np.inf)), law.cdf(x)
        u = below + np.random.default_rng(6).random(x.shape) * (at - below)  # an atom is spread over its step
        assert kstest(u[:, 0], "uniform").pvalue > 1e-4  # false alarms: 4 rules at 1e-4


@pytest.mark.parametrize("rule", RULES)
class TestTwoDimensions:
    def test_the_density_integrates_to_one(self, swarm, rule):
        law = next_step(swarm, rule)
        lower, upper = (np.asarray(end) for end in (by_hand.LOWER, by_hand.UPPER))
        if not law.components.wall.is_bounded:
            lower, upper = lower - 20, upper + 20
        axes = []
        for a, b in zip(lower, upper, strict=True):
            x, w = quadrature(a, b, panels=20)
            atoms = [a, b] if law.components.wall.has_atoms else []  # an atom is a node of weight one
            axes.append((np.append(x, atoms), np.append(w, np.ones(len(atoms)))))
        (x, wx), (y, wy) = axes
        grid = np.stack(np.meshgrid(x, y, indexing="ij"), axis=-1)
        assert_allclose(wx @ np.exp(law.log_density(grid)) @ wy, 1, rtol=0, atol=1e-11)

    def test_draws_have_its_mean_and_covariance(self, swarm, rule):
        law, size = next_step(swarm, rule), 100_000
        x = law.sample(size, rng=7)
        # Five standard errors, 2 + 4 numbers, 4 rules: false alarms 1.4e-5.
        assert (np.abs(x.mean(axis=0) - law.mean) < 5 * law.std / np.sqrt(size)).all()
        apart = (x - law.mean) / law.std
        products = apart[:, :, None] * apart[:, None, :]
        error = products.mean(axis=0) - law.covariance / np.outer(law.std, law.std)
        assert (np.abs(error) < 5 * products.std(axis=0) / np.sqrt(size)).all()

    def test_intervals_are_nested_and_hold_their_probability(self, swarm, rule):
        law, x = next_step(swarm, rule), next_step(swarm, rule).sample(20_000, rng=8)
        inner = law.quantile(0.5), law.quantile(0.5)
        for level in (0.1, 0.5, 0.9, 0.99):
            low, high = law.interval(level)
            assert (low <= inner[0]).all()
            assert (high >= inner[1]).all()
            held = ((x >= low) & (x <= high)).mean(axis=0)
            assert (held > level - 5 * np.sqrt(level * (1 - level) / 20_000)).all()  # 32 at five sigma: 1e-5
            inner = low, high


def test_the_weights_are_logarithms_of_ranks(line):
    raw = np.log(5.5) - np.log([5, 1, 3, 2, 4])  # all of a swarm of five
    assert_allclose(next_step(line).weights, raw / raw.sum(), rtol=1e-15)


def test_only_the_better_half_of_a_large_swarm_has_weight():
    swarm = by_hand.drawn(2, n=20)
    rank = np.argsort(np.argsort(swarm.best_value)) + 1
    raw = np.maximum(np.log(10.5) - np.log(rank), 0)
    assert_allclose(next_step(swarm).weights, raw / raw.sum(), rtol=1e-14)


def test_the_mixture_is_the_weighted_sum_of_the_particles_laws(line):
    law = next_step(line, "none")
    parts = law.components
    each = norm(parts.mean[:, 0], parts.sd[:, 0]).pdf(0.4)
    assert_allclose(np.exp(law.log_density([0.4])), law.weights @ each, rtol=1e-13)
    assert_allclose(law.mean, law.weights @ parts.mean, rtol=1e-14)


def test_particles_without_weight_do_not_count_in_the_density():
    law = next_step(by_hand.drawn(2, n=20), "none")
    parts, x = law.components, np.array([0.4, -0.3, 1.0])
    assert (law.weights == 0).sum() == 10
    each = norm(parts.mean, parts.sd).pdf(x).prod(axis=-1)
    density = law.log_density(x)
    assert isinstance(density, float)
    assert_allclose(np.exp(density), law.weights @ each, rtol=1e-12)
    assert law.log_density(x + 1e200) == -np.inf


@pytest.mark.parametrize("change", [lambda f: f + 1e3, lambda f: 5 * f, np.exp, np.arctan, lambda f: f**3])
def test_the_weights_do_not_change_under_monotone_transformations(line, change):
    assert_array_equal(next_step(by_hand.mapped(line, values=change)).weights, next_step(line).weights)


def test_the_weights_follow_the_cautious_score_where_the_noise_is_known(line):
    often, once = 1e12, 1.0
    repeats = Repeats(*map(by_hand.frozen, ([often, once, often, often, often], (2.5 / CAUTION) ** 2, 1.0)))
    noisy = line._replace(repeats=repeats)  # scores 5, 1 + 2.5, 3, 2, 4: the lucky leader falls to rank 3
    raw = np.log(5.5) - np.log([5, 3, 2, 1, 4])
    assert_allclose(next_step(noisy).weights, raw / raw.sum(), rtol=1e-15)


def test_one_particle_is_its_own_law():
    swarm = moved([[0.5]], [1.0], [[0.7]], [[0.1]], [2.0], [LOWER], [UPPER])
    assert_array_equal(next_step(swarm).weights, [1.0])


def test_a_clipped_swarm_at_the_wall_has_an_atom_there(line):
    law = next_step(line)
    parts = law.components
    on_the_wall = law.weights @ norm.sf(UPPER, parts.mean[:, 0], parts.sd[:, 0])
    assert on_the_wall > 0.1
    assert_allclose(np.exp(law.log_density([UPPER])), on_the_wall, rtol=1e-12)
    assert_array_equal(law.quantile(1 - 0.5 * on_the_wall), [UPPER])
    assert_allclose(1 - law.cdf(np.nextafter([UPPER], 0)), on_the_wall, rtol=1e-9)
    below = float(law.cdf([LOWER])[0])
    assert_array_equal(law.quantile(0.5 * below), [LOWER])


@pytest.mark.parametrize("rule", RULES)
def test_a_collapsed_swarm_is_as_narrow_as_its_numbers(rule):
    point = [[0.3, 1e-3]] * 6
    swarm = moved(point, [1.0] * 6, point, np.zeros((6, 2)), [2.0] * 6, [-1.0, -1.0], [2.0, 1.0])
    law = next_step(swarm, rule, noise_scale=ps.noise.spread)
    assert_allclose(law.mean, point[0], rtol=1e-12)
    assert (law.std > 0).all()
    assert (law.std < 1e-14).all()
    low, high = law.interval(0.99)
    assert ((low < law.mean) & (law.mean < high)).all()
    assert_allclose(law.cdf(law.mean), 0.5, atol=0.1)
    assert np.isfinite(law.log_density(point[0]))
    assert_allclose(law.sample(5, rng=1), point[:5], atol=1e-13)


def test_a_swarm_collapsed_on_the_wall_stays_in_the_box():
    corner = [[2.0, -1.0]] * 4
    swarm = moved(corner, [1.0] * 4, corner, np.zeros((4, 2)), [2.0] * 4, [-1.0, -1.0], [2.0, 1.0])
    law = next_step(swarm, noise_scale=ps.noise.spread)
    assert_allclose(law.mean, corner[0], atol=1e-14)
    low, high = law.interval(0.95)
    assert low[0] <= high[0] == 2.0
    assert high[1] >= low[1] == -1.0


def test_dense_noise_correlates_the_unknowns(swarm):
    shape = np.array([[2.0, 0.9], [0.9, 0.6]])
    law = next_step(swarm, "none", noise_scale=lambda s: Dense(shape, np.array([0.5, 1.0, 2.0, 3.0])))
    sigma = ps.laws.transition(1.0, 0.2, 2.0, 1.0).covariance[0, 0]
    apart = law.components.mean - law.mean
    within = sigma * shape * (law.weights @ [0.5, 1.0, 2.0, 3.0])
    assert_allclose(law.covariance, within + apart.T @ (law.weights[:, None] * apart), rtol=1e-12)
    (x, wx), (y, wy) = (quadrature(m - 9 * s, m + 9 * s, 20) for m, s in zip(law.mean, law.std, strict=True))
    grid = np.stack(np.meshgrid(x, y, indexing="ij"), axis=-1)
    assert_allclose(wx @ np.exp(law.log_density(grid)) @ wy, 1, rtol=0, atol=1e-9)
    draws = law.sample(100_000, rng=2)
    scale = np.outer(law.std, law.std)
    assert_allclose(np.cov(draws.T) / scale, law.covariance / scale, atol=0.03)  # six standard errors


@pytest.mark.parametrize("p", [0.0, 1.0, -0.1, 1.5, np.nan, 10**400, "0.5"])
def test_a_probability_outside_zero_and_one_is_refused(line, p):
    with pytest.raises(ValueError, match=r"^p must .* between 0 and 1"):
        next_step(line).quantile(p)
    with pytest.raises(ValueError, match=r"^level must .* between 0 and 1"):
        next_step(line).interval(p)


def test_draws_repeat_with_the_seed(line):
    law = next_step(line)
    assert_array_equal(law.sample(9, rng=3), law.sample(9, rng=np.random.default_rng(3)))
    assert not np.array_equal(law.sample(9, rng=3), law.sample(9, rng=4))


def test_particles_that_have_only_failed_have_no_weight():
    value = np.full(10, np.inf)
    value[3] = 1.0
    position = np.random.default_rng(0).normal(size=(10, 1))
    swarm = kernels.start(position, value, np.full(1, -3.0), np.full(1, 3.0))
    assert ps.laws.NextStep(ps.PAO().step_law(swarm), swarm).weights[3] == 1


@pytest.mark.slow
def test_the_density_of_dense_noise_integrates_to_one():
    x = np.random.default_rng(0).normal(size=(12, 2))
    swarm = kernels.start(x, (x**2).sum(-1), np.full(2, -3.0), np.full(2, 3.0))
    # `Dense` without strength gives the leader noise too; without noise, its mass would be missing from the integral.
    law = ps.PAO(noise_scale=lambda s: ps.noise.Dense(ps.noise.covariance(s).covariance), walls="none").step_law(swarm)
    axis = np.linspace(-12, 12, 801)
    grid = np.stack(np.meshgrid(axis, axis), axis=-1)
    total = np.exp(ps.laws.NextStep(law, swarm).log_density(grid)).sum() * (axis[1] - axis[0]) ** 2
    assert abs(total - 1) < 1e-6


def test_the_next_step_of_covariance_noise_has_a_density_and_draws_that_follow_its_covariance():
    x = np.random.default_rng(0).normal(size=(40, 2)) @ np.array([[1.0, 0.9], [0.0, 0.2]])
    swarm = kernels.start(x, (x**2).sum(-1), np.full(2, -9.0), np.full(2, 9.0))
    law = ps.laws.NextStep(ps.PAO(noise_scale=ps.noise.covariance, walls="none").step_law(swarm), swarm)
    assert np.isfinite(law.log_density(x)).all()
    # 40000 draws: the relative standard error of a variance is below 1 %; 5 % is beyond 5 sigma.
    draws = law.sample(40_000, rng=1)
    assert_allclose(np.cov(draws.T), law.covariance, rtol=0.05)


def test_on_a_circle_the_seam_does_not_show():
    """Turned by any angle, the law is the same law turned."""
    rng = np.random.default_rng(2)
    x, v = rng.normal(0.2, 0.05, (30, 1)), rng.normal(0, 0.01, (30, 1))
    laws = []
    for turn in (0.0, 0.8):  # across the seam
        swarm = kernels.start((x + turn) % 1.0, ((x - 0.2) ** 2)[:, 0], np.zeros(1), np.ones(1), velocity=v)
        laws.append(ps.laws.NextStep(ps.PAO(walls="periodic").step_law(swarm), swarm))
    assert_allclose(laws[1].std, laws[0].std, rtol=1e-9)
    assert laws[0].std < 0.1
    assert_allclose((laws[1].mean - laws[0].mean - 0.8 + 0.5) % 1.0, 0.5, atol=1e-12)
    lower, upper = laws[1].interval(0.95)
    assert upper - lower < 0.3
    draws = laws[1].sample(500, rng=1)
    assert_allclose(laws[1].log_density(draws), laws[1].log_density(draws % 1.0), rtol=1e-9)


def test_the_covariance_of_dense_noise_at_a_wall_is_a_covariance():
    x = 0.95 + 0.04 * np.random.default_rng(0).normal(size=(40, 2)) @ np.array([[1.0, 0.98], [0.0, 0.2]])
    x = np.clip(x, 0, 1)
    swarm = kernels.start(x, ((x - 0.97) ** 2).sum(-1), np.zeros(2), np.ones(2))
    law = ps.laws.NextStep(ps.PAO(noise_scale=ps.noise.covariance).step_law(swarm), swarm)
    assert (np.linalg.eigvalsh(law.covariance) > 0).all()
    assert abs(law.covariance[0, 1]) <= law.std[0] * law.std[1]


def test_without_any_noise_left_the_next_step_of_dense_noise_still_has_a_density():
    x = np.random.default_rng(0).normal(size=(20, 2))
    swarm = kernels.start(x, (x**2).sum(-1), np.full(2, -9.0), np.full(2, 9.0))
    method = ps.PAO(noise_scale=ps.noise.covariance, noise=0.0, walls="none")
    law = method.step_law(swarm)
    assert_array_equal(law.log_density(law.mean_position, law.mean_velocity), np.zeros(20))
    assert np.isfinite(ps.laws.NextStep(law, swarm).log_density(law.mean_position[0]))
