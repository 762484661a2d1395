"""Climbs to exact peaks, draws that stand out, and which modes of random posteriors the search finds."""

import math

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

import paoswarm as ps
from paoswarm.sampling.adapt import PriorDensity, adapt
from paoswarm.sampling.climbs import Mode, climb, merge
from paoswarm.sampling.proposals import DrawPool, make_ladder
from paoswarm.sampling.search import explore
from paoswarm.sampling.starts import Draws, badly_covered, behind_valleys, choose_starts, unexplained
from paoswarm.sampling.target import Target

RNG = np.random.default_rng(0)  # for swarms, which these posteriors do not need


class Normals:
    """A mixture of round normal laws in the box of half width one, and which of them is the highest at a point."""

    def __init__(self, weight, mean, sd):
        self.weight, self.mean, self.sd = map(np.asarray, (weight, mean, sd))
        self.dim = self.mean.shape[1]

    def log_parts(self, x):
        square = ((x[:, None] - self.mean) ** 2).sum(axis=2)
        return np.log(self.weight) - 0.5 * square / self.sd**2 - self.dim * np.log(self.sd * math.sqrt(2 * math.pi))

    def __call__(self, x):
        return logsumexp(self.log_parts(x), axis=1)

    def highest(self, x):
        return self.log_parts(np.atleast_2d(x)).argmax(axis=1)

    def mode(self, k):
        """The mode as a search finds it; heights include the prior's."""
        factor = self.sd[k] * np.eye(self.dim)
        return Mode(self.mean[k], factor, math.log(self.weight[k]) - self.dim * math.log(2), True, True)

    def target(self):
        return Target(self, [(-1, 1)] * self.dim)

    def drawn(self, n, seed):
        """Uniform draws and their heights."""
        z = np.random.default_rng(seed).uniform(-1, 1, (n, self.dim))
        return z, self(z) - self.dim * math.log(2)


def test_a_quadratic_peak_is_found_exactly():
    covariance = np.array([[1.0, 0.99], [0.99, 1.0]]) * 1e-6
    precision = np.linalg.inv(covariance)
    target = Target(lambda x: -0.5 * np.einsum("ni,ij,nj->n", x - 0.3, precision, x - 0.3), [(-1, 1)] * 2)
    modes, ends = climb(target, np.array([[-0.9, 0.8], [0.5, -0.5]]), 3000)
    assert [end.n_climbs for end in ends] == [1, 1]
    assert [mode.n_climbs for mode in modes] == [2]
    np.testing.assert_allclose(modes[0].z, 0.3, atol=1e-4)
    np.testing.assert_allclose(modes[0].factor @ modes[0].factor.T, covariance, rtol=1e-3)
    exact = 0.5 * np.linalg.slogdet(2 * math.pi * covariance)[1] - 2 * math.log(2)
    assert modes[0].log_mass == pytest.approx(exact, abs=1e-3)


def test_every_climb_counts_for_the_mode_where_it_ends():
    """So do climbs that were stopped as followers, and the climbs of two searches together."""
    at = np.array([[-0.5, 0.2], [0.5, -0.1]])
    target = Target(lambda x: logsumexp(-200 * ((x[:, None] - at) ** 2).sum(axis=2), axis=1), [(-1, 1)] * 2)
    starts = np.concatenate([at[0] + 0.02 * np.arange(-2, 3)[:, None], at[1] + 0.02 * np.arange(1, 3)[:, None]])
    found, ends = climb(target, starts, 3000)
    assert sum(end.n_climbs for end in ends) == 7
    np.testing.assert_allclose(sorted(mode.z.tolist() for mode in found), at, atol=0.02)
    assert sorted((mode.z[0] > 0, mode.n_climbs) for mode in found) == [(False, 5), (True, 2)]
    both = merge(found + climb(target, starts[3:], 3000).modes, None)
    assert sorted((mode.z[0] > 0, mode.n_climbs) for mode in both) == [(False, 7), (True, 4)]


def test_a_climb_that_was_given_up_does_not_swallow_a_peak():
    """Nor does it have more mass. Another given-up climb, or another climb to the peak, is not a new mode."""
    given_up = Mode(np.zeros(2), 0.3 * np.eye(2), 0.0)
    peak = Mode(np.full(2, 0.1), 0.01 * np.eye(2), -1.0, True, True)
    modes = merge([given_up, peak, given_up, peak], None)
    assert [(mode.is_peak, mode.n_climbs, mode.log_mass) for mode in modes] == [(False, 2, -1.0), (True, 2, -1.0)]
    wide = peak._replace(factor=given_up.factor, log_mass=30.0)
    assert len(merge([wide, given_up], None)) == 1
    assert len(merge([wide, wide._replace(z=given_up.z)], None)) == 1
    assert len(merge([wide, peak._replace(z=given_up.z, log_mass=20.0)], None)) == 2  # a narrow peak on a wide one


def test_mode_search_keeps_to_its_budget():
    target = Target(lambda x: -np.sum((x - 0.2) ** 4, axis=1) * 1e5, [(-1, 1)] * 3)
    ends = climb(target, np.random.default_rng(7).uniform(-1, 1, (9, 3)), 100).ends
    assert target.n_evaluations <= 100
    assert sum(end.n_climbs for end in ends) < 9


def test_a_point_that_exceeds_the_trend_is_chosen():
    z = np.random.default_rng(8).uniform(-1, 1, (2000, 4))
    value = -100 * ((z - 0.5) ** 2).sum(axis=1)
    hidden = int(np.argmin(value))
    value[hidden] += 60.0
    assert hidden in choose_starts(Draws(z, value), 6)
    assert hidden not in choose_starts(Draws(z, np.where(np.arange(2000) == hidden, value - 60, value)), 6)


def test_an_exactly_quadratic_likelihood_leaves_no_trend_to_exceed():
    z = np.linspace(-1, 1, 101)[:, None]
    with np.errstate(all="raise"):
        assert len(choose_starts(Draws(z, -0.5 * z[:, 0] ** 2), 4)) == 4


THREE = Normals([0.3, 0.3, 0.4], [[-0.6] * 4, [0.1, 0.0, -0.1, 0.3], [0.5] * 4], [0.03, 0.06, 0.15])


@pytest.mark.parametrize("hidden", [0, 1, 2])
def test_draws_of_a_mode_that_is_not_known_are_strange(hidden):
    """No others are, unless most draws belong to that mode. If all modes are known, no draw is strange."""
    z, value = THREE.drawn(4000, 1)
    modes = [THREE.mode(k) for k in range(3)]
    n_hidden = int((THREE.highest(z) == hidden).sum())
    some, is_strange = unexplained(Draws(z, value), modes[:hidden] + modes[hidden + 1 :], 48, None)
    is_hidden = THREE.highest(z[some[is_strange]]) == hidden
    assert is_hidden.all() or n_hidden > 2000
    assert is_hidden.sum() >= min(8, n_hidden - 1) > 0
    assert not unexplained(Draws(z, value), modes, 48, None)[1].any()


def test_heights_that_do_not_fall_like_a_parabola_are_not_strange():
    """Student's tails, eight decades wide, are not strange; a draw that stands out of them is."""
    z = np.random.default_rng(2).uniform(-1, 1, (4000, 4))
    value = -4 * np.log1p(1e8 * (z**2).sum(axis=1))
    top = [Mode(np.zeros(4), math.sqrt(1 / 8e8) * np.eye(4), 0.5 * 4 * math.log(2 * math.pi / 8e8), True, True)]
    assert not unexplained(Draws(z, value), top, 48, None)[1].any()
    odd = int(np.argmin(value))
    some, is_strange = unexplained(Draws(z, np.where(np.arange(4000) == odd, value + 20, value)), top, 48, None)
    assert some[is_strange].tolist() == [odd]


def test_a_valley_on_the_way_to_the_known_mode_is_seen():
    """It is seen from a start close to another mode, and not from a start on the slope of the known one."""
    target = THREE.target()
    starts = np.array([[-0.6, -0.55, -0.6, -0.65], [0.9, 0.2, 0.5, 0.6]])
    apart = behind_valleys(target, Draws(starts, target.height(starts)), [THREE.mode(1), THREE.mode(2)])
    assert apart.tolist() == [True, False]


# 35 % of 7000 draws lie in the basin of the last mode, but none of the highest or of those that exceed the trend does.
OVERSHADOWED = Normals(
    [0.066, 0.133, 0.359, 0.227, 0.215],
    [
        [-0.20, -0.46, -0.40, -0.42, 0.71, 0.27, -0.75],
        [-0.44, 0.25, -0.30, -0.56, 0.13, 0.31, -0.13],
        [0.10, -0.50, 0.11, -0.33, 0.34, -0.79, -0.52],
        [-0.37, -0.65, -0.49, 0.28, 0.62, -0.65, 0.63],
        [-0.24, -0.36, 0.30, -0.54, 0.13, -0.42, -0.47],
    ],
    [0.0114, 0.013, 0.0111, 0.0286, 0.0223],
)


def test_a_wide_basin_is_found_though_no_first_climb_starts_in_it():
    z, value = OVERSHADOWED.drawn(7000, 6)
    owner = OVERSHADOWED.highest(z)
    assert (owner == 4).mean() > 0.3
    assert not (owner[choose_starts(Draws(z, value), 192)[:16]] == 4).any()
    modes, incomplete, _ = explore(OVERSHADOWED.target(), Draws(z, value), np.empty((0, 7)), 15_000, RNG)
    assert incomplete == ""
    in_basins = np.bincount(owner, minlength=5)
    assert sorted(OVERSHADOWED.highest(np.array([mode.z for mode in modes]))) == np.flatnonzero(in_basins).tolist()


@pytest.mark.parametrize("seed", [3, 9])
def test_climbs_that_are_given_up_beside_a_peak_are_no_ridge(seed):
    """Student's tails delay two climbs to the wide mode, and no first climb starts in the basin of the other.

    That one holds 90 % of the mass. It is found when the draws are examined.
    """
    narrow = stats.multivariate_t([0, -2, -3, -4, -1, -1], 0.03**2 * np.eye(6), df=3)
    wide = stats.multivariate_t([0, 0, -2.4, 3.3, 3.7, 3.9], np.diag([0.25, 0.3, 0.33, 0.5, 0.8, 1.0]) ** 2, df=3)
    target = Target(
        lambda x: np.logaddexp(math.log(0.9) + narrow.logpdf(x), math.log(0.1) + wide.logpdf(x)), [stats.norm(0, 3)] * 6
    )
    z = target.prior.draw(6000, np.random.default_rng(seed))
    modes, _, _ = explore(target, Draws(z, target.height(z)), np.empty((0, 6)), 15_000, RNG)
    at = target.parameters(np.array([mode.z for mode in modes if mode.is_peak]))
    np.testing.assert_allclose(at[np.argsort(at[:, 5])], np.stack([narrow.loc, wide.loc]), atol=0.2)


@pytest.mark.parametrize("seed", range(4))
def test_a_narrow_mode_whose_tails_fill_the_box_is_found(seed):
    """Nearly all draws lie in its tails, but not the highest, nor those that exceed what is explained."""
    at = np.array(
        [[-0.16, 0.23, -0.53, 0.06, -0.26], [-0.22, 0.15, -0.16, -0.15, -0.12], [0.1, -0.52, -0.62, -0.1, 0.66]]
    )
    laws = [stats.multivariate_normal(mean, 0.0055 * np.eye(5)) for mean in at[:2]]
    laws.append(stats.multivariate_t(at[2], 0.0147**2 * np.eye(5), df=10))
    weight = [0.66, 0.21, 0.13]
    target = Target(
        lambda x: logsumexp([math.log(w) + law.logpdf(x) for w, law in zip(weight, laws, strict=True)], axis=0),
        [(-1, 1)] * 5,
    )
    z = target.prior.draw(5000, np.random.default_rng(seed))
    modes, incomplete, _ = explore(target, Draws(z, target.height(z)), np.empty((0, 5)), 15_000, RNG)
    assert incomplete == ""
    tops = target.parameters(np.array([mode.z for mode in modes]))
    np.testing.assert_allclose(tops[np.argsort(tops[:, 0])], at[[1, 0, 2]], atol=0.03)


def test_a_wide_basin_is_found_though_no_draw_of_it_stands_out():
    """Two long modes cross the box at an angle. The first climbs find one; the other has most of the draws."""
    at = np.array([[-0.4, -0.4, -0.6, -0.1, 0.2, -0.7], [0.2, -0.5, 0.1, -0.4, -0.1, -0.7]])
    rng = np.random.default_rng([9, 214])
    rng.uniform(size=13)
    axes = np.linalg.qr(rng.standard_normal((2, 6, 6)))[0]
    scale = np.linalg.inv(axes * 0.15 * 10 ** rng.uniform(-0.5, 0.5, (2, 1, 6)))

    def log_parts(x):
        away = np.einsum("kij,nkj->nki", scale, x[:, None] - at)
        return np.linalg.slogdet(scale)[1] - 0.5 * (away**2).sum(axis=2)

    target = Target(lambda x: logsumexp(log_parts(x), axis=1), [(-1, 1)] * 6)
    z = target.prior.draw(6000, np.random.default_rng(1))
    value = target.height(z)
    owner = log_parts(target.parameters(z)).argmax(axis=1)
    assert (owner == 1).mean() > 0.7
    assert not (owner[choose_starts(Draws(z, value), 192)[:16]] == 1).any()
    modes, _, _ = explore(target, Draws(z, value), np.empty((0, 6)), 15_000, RNG)
    tops = target.parameters(np.array([mode.z for mode in modes]))
    np.testing.assert_allclose(tops[np.argsort(tops[:, 0])], at, atol=0.05)


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 6))])
def test_climbs_to_light_modes_do_not_end_the_search(seed):
    """Most climbs end in two modes with 1 % of the mass each; 4 % of the draws lie in another basin."""
    at = np.array(
        [[-0.35, 0.17, 0, -0.15], [0.02, 0.09, -0.03, -0.18], [-0.23, 0.31, 0.27, 0.6], [-0.69, -0.23, -0.36, -0.31]]
    )
    sd = np.array(
        [
            [0.009, 0.014, 0.012, 0.012],
            [0.008, 0.016, 0.04, 0.009],
            [0.07, 0.007, 0.046, 0.017],
            [0.013, 0.041, 0.018, 0.011],
        ]
    )
    constant = np.log([0.153, 0.011, 0.006, 0.83]) - np.log(sd).sum(axis=1)
    target = Target(
        lambda x: logsumexp(constant - 0.5 * (((x[:, None] - at) / sd) ** 2).sum(axis=2), axis=1), [(-1, 1)] * 4
    )
    z = target.prior.draw(4000, np.random.default_rng(seed))
    modes, incomplete, _ = explore(target, Draws(z, target.height(z)), np.empty((0, 4)), 15_000, RNG)
    tops = target.parameters(np.array([mode.z for mode in modes]))
    assert incomplete == ""
    assert [np.abs(tops - place).max(axis=1).min() < 0.02 for place in at] == [True] * 4


def test_a_draw_above_the_top_of_a_wide_mode_is_climbed_from():
    """This is a narrow peak on the slope of a wide one, hit by a single draw. If both are known, no climb starts."""
    both = Normals([0.5, 0.5], [[0.0] * 4, [0.1] * 4], [0.2, 0.01])
    target = both.target()
    pool = DrawPool(4)
    z = np.concatenate([target.prior.draw(2000, np.random.default_rng(3)), both.mean[1:] + 0.005])
    pool.add(PriorDensity(target), z, target.log_prior(z), target.log_likelihood(z))
    wide, narrow = both.mode(0), both.mode(1)
    starts = badly_covered(target, pool, make_ladder([wide], target), [wide])
    np.testing.assert_array_equal(starts, z[-1:])
    assert len(badly_covered(target, pool, make_ladder([wide], target), [wide, narrow])) == 0


def test_weights_are_right_if_there_are_more_first_draws_than_are_kept():
    """The pool's weights sum to one, the integral of the prior; the standard error is 0.01."""
    target = Target(lambda x: -50 * (x**2).sum(axis=1), [(-1, 1)] * 2)
    frozen = adapt(target, np.random.default_rng(4), n_effective=100, n_prior=40_000)
    assert frozen.diagnostics["unseen"] == 30 / 40_000
    assert len(frozen.pool.z) < 20_000
    assert np.exp(logsumexp(frozen.pool.log_weight(0.0))) == pytest.approx(1, abs=0.04)


@pytest.mark.slow
def test_a_basin_that_draws_have_hit_is_not_missed():
    """Thirty random posteriors. If ten draws are expected in a basin, none hits it in 5e-5 of cases: all are found.

    A third of all modes have fewer than one expected draw, and most of those are missed.
    """
    n_missed = n_small = 0
    for seed in range(30):
        rng = np.random.default_rng([5, seed])
        d, k = rng.integers(2, 8), rng.integers(2, 6)
        posed = Normals(
            rng.dirichlet(np.full(k, 3.0)), rng.uniform(-0.8, 0.8, (k, d)), 10 ** rng.uniform(-2.3, -0.7, k)
        )
        posterior = ps.sample(posed, [(-1, 1)] * d, vectorized=True, n_effective=500, rng=seed)
        basin = np.bincount(posed.highest(rng.uniform(-1, 1, (200_000, d))), minlength=k) / 200_000
        expected = basin * 30 / posterior.diagnostics["unseen"]
        found = (
            np.bincount(posed.highest(posterior.weighted.draws), posterior.weighted.weights, minlength=k)
            > 0.2 * posed.weight
        )
        matters = posed.weight > 0.05
        assert found[matters & (expected > 10)].all(), seed
        n_small += int((matters & (expected < 1)).sum())
        n_missed += int((matters & (expected < 1) & ~found).sum())
    assert n_small > 20
    assert n_missed > n_small / 2


@pytest.mark.slow
def test_more_first_draws_find_narrower_modes():
    """Basins of 1e-5 and 1.5e-4 of the box: 8000 draws hit neither or one, 500,000 miss one in 0.7 % of runs."""
    posed = Normals([0.3, 0.3, 0.4], [[-0.5] * 8, [0.0] * 8, [0.5] * 8], [0.2 / 12, 0.5 / 12, 1.5 / 12])
    box = [(-1, 1)] * 8
    posterior = ps.sample(posed, box, vectorized=True, rng=6)
    assert posterior.log_evidence < -8 * math.log(2) - 0.3
    assert posterior.diagnostics["unseen"] == 30 / 8000
    assert "0.38 % of the prior" in posterior.message
    for seed in range(3):
        posterior = ps.sample(posed, box, n_particles=500_000, vectorized=True, rng=seed)
        inside = 1 - 0.4 * 8 * 3.2e-5  # of the widest mode, four standard deviations from the wall
        error = posterior.log_evidence - (math.log(inside) - 8 * math.log(2))
        assert abs(error) < 4 * posterior.log_evidence_error < 0.1
