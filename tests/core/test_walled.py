"""The law of one position after a wall: density, distribution function and moments against quadrature."""

import numpy as np
import pytest
from by_hand import quadrature
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import kstest, norm

from paoswarm.core import walls
from paoswarm.core.walls import WalledNormal

LOWER, UPPER = -1.0, 2.0
LAWS = {
    "narrow": (0.3, 0.2),
    "at the wall": (1.9, 0.5),
    "wide": (0.3, 9.0),
    "outside": (-4.0, 1.5),
    "outside and wide": (7.5, 6.0),
    "just outside and thin": (2.1, 0.05),
}


def walled(rule, mean, sd):
    return WalledNormal(*map(np.asarray, (mean, sd)), walls.WALLS[rule], np.asarray(LOWER), np.asarray(UPPER))


@pytest.mark.parametrize("rule", walls.WALLS)
@pytest.mark.parametrize(("mean", "sd"), LAWS.values(), ids=LAWS)
class TestEveryLaw:
    def mass(self, law, a=None, b=None):
        """Nodes and probabilities of the continuous part on (a, b), and those of the atoms in it."""
        ends = (LOWER, UPPER) if law.wall.is_bounded else (law.mean - 12 * law.sd, law.mean + 12 * law.sd)
        a, b = ends[0] if a is None else a, ends[1] if b is None else b
        x, w = quadrature(a, b, panels=80)
        p = w * np.exp(law.log_density(x))
        atoms = [end for end in (LOWER, UPPER) if law.wall.has_atoms and a <= end <= b]
        return np.append(x, atoms), np.append(p, np.exp(law.log_density(np.array(atoms))))

    def test_the_density_integrates_to_one(self, rule, mean, sd):
        _, p = self.mass(walled(rule, mean, sd))
        assert_allclose(p.sum(), 1, rtol=0, atol=1e-13)

    def test_the_distribution_function_is_the_integral_of_the_density(self, rule, mean, sd):
        law = walled(rule, mean, sd)
        for x in (LOWER, -0.8, 0.0, 0.31, 1.5, 1.9995, UPPER):
            _, p = self.mass(law, b=x)
            assert_allclose(law.cdf(x), p.sum(), rtol=0, atol=1e-13)

    def test_the_moments_are_those_of_the_density(self, rule, mean, sd):
        law = walled(rule, mean, sd)
        x, p = self.mass(law)
        m, variance = law.moments()
        assert_allclose(m, p @ x, rtol=1e-13, atol=1e-13)
        assert_allclose(variance, p @ (x - p @ x) ** 2, rtol=1e-11, atol=1e-16)

    def test_draws_follow_the_distribution_function(self, rule, mean, sd):
        law = walled(rule, mean, sd)
        x = law.sample(np.random.default_rng(3), (4000,))
        # An atom is spread evenly over the height of its step, which makes the law uniform.
        below, at = law.cdf(np.nextafter(x, -np.inf)), law.cdf(x)
        u = below + np.random.default_rng(4).random(x.shape) * (at - below)
        assert kstest(u, "uniform").pvalue > 1e-4  # false alarms: 24 tests at 1e-4, 0.24 %

    def test_the_density_is_zero_outside_a_bounded_box(self, rule, mean, sd):
        law = walled(rule, mean, sd)
        if not law.wall.is_bounded:
            assert_allclose(law.log_density(np.array([-3.0, 4.0])), norm(mean, sd).logpdf([-3.0, 4.0]), rtol=1e-13)
            return
        assert_array_equal(law.log_density(np.array([LOWER - 1e-9, UPPER + 1e-9])), [-np.inf, -np.inf])
        assert_array_equal(law.cdf(np.array([LOWER - 1e-9, UPPER, UPPER + 1e-9])), [0, 1, 1])


def test_a_clipped_law_has_the_tail_on_the_wall():
    law = walled("clip", 1.9, 0.5)
    assert_allclose(np.exp(law.log_density(LOWER)), norm.cdf(-5.8), rtol=1e-12)
    assert_allclose(np.exp(law.log_density(UPPER)), norm.sf(0.2), rtol=1e-14)
    assert_allclose(law.log_density(1.0), norm(1.9, 0.5).logpdf(1.0), rtol=1e-14)


def test_a_reflected_law_at_the_wall_is_doubled():
    law = walled("reflect", 1.9, 0.1)
    assert_allclose(np.exp(law.log_density(UPPER)), 2 * norm(1.9, 0.1).pdf(2.0), rtol=1e-13)


def test_a_very_wide_reflected_or_wrapped_law_is_uniform():
    for rule in ("reflect", "periodic"):
        law = walled(rule, 5.0, 30.0)
        assert_allclose(np.exp(law.log_density(np.linspace(LOWER, UPPER, 7))), 1 / 3, rtol=1e-13)
        assert_allclose(law.moments(), (0.5, 9 / 12), rtol=1e-12)


@pytest.mark.parametrize(("rule", "where"), [("clip", 2.0), ("reflect", -0.5), ("periodic", -0.5), ("none", 5.5)])
def test_a_position_without_noise_is_an_atom_where_the_rule_puts_it(rule, where):
    law = walled(rule, 5.5, 0.0)
    assert_array_equal(law.log_density(np.array([where, np.nextafter(where, 9)])), [0.0, -np.inf])
    assert_array_equal(law.cdf(np.array([np.nextafter(where, -9), where])), [0.0, 1.0])
    assert_array_equal(law.moments(), (where, 0.0))
    assert_array_equal(law.sample(np.random.default_rng(1), (3,)), [where] * 3)


def test_elements_do_not_disturb_each_other():
    """A wide element makes the sum over images longer; the others must not notice."""
    means, sds = np.array([0.3, 1.9, -4.0, 0.5]), np.array([9.0, 0.5, 1.5, 0.0])
    lower, upper = np.array([-1.0, -3.0, -1.0, 0.0]), np.array([2.0, 2.5, 0.5, 1.0])
    x = np.array([1.2, 2.0, 0.1, 0.5])
    for rule in walls.WALLS.values():
        together = WalledNormal(means, sds, rule, lower, upper)
        for j in range(4):
            alone = WalledNormal(means[j], sds[j], rule, lower[j], upper[j])
            assert_allclose(together.log_density(x)[j], alone.log_density(x[j]), rtol=1e-14)
            assert_allclose(together.cdf(x)[j], alone.cdf(x[j]), rtol=1e-14)
            assert_allclose([m[j] for m in together.moments()], alone.moments(), rtol=1e-12, atol=1e-15)


def test_the_variance_of_a_clipped_law_is_positive_however_far_outside_its_mean_lies():
    mean = np.linspace(-30, -5, 200)
    law = WalledNormal(mean, np.ones(200), walls.clip, np.zeros(200), np.full(200, 10.0))
    inside, variance = law.moments()
    assert (inside > 0).all()
    assert (variance > 0).all()
    assert (np.diff(variance) > 0).all()


@pytest.mark.parametrize("rule", [walls.reflect, walls.periodic], ids=lambda wall: wall.name)
def test_a_law_far_wider_than_the_box_is_uniform_and_costs_no_more(rule):
    law = WalledNormal(np.array([0.3, 1e6]), np.array([1e9, 12.0]), rule, np.zeros(2), np.ones(2))
    assert len(law.tame().images()) < 200
    assert_allclose(law.log_density(np.array([0.1, 0.7])), 0, atol=1e-12)
    assert_allclose(law.cdf(np.array([0.1, 0.7])), [0.1, 0.7], atol=1e-12)
    mean, variance = law.moments()
    assert_allclose(mean, 0.5, rtol=1e-11)
    assert_allclose(variance, 1 / 12, rtol=1e-11)


@pytest.mark.parametrize("rule", [walls.reflect, walls.periodic], ids=lambda wall: wall.name)
def test_a_mean_many_boxes_away_makes_the_law_of_its_image(rule):
    far = np.array([7.3, -11.4, 1e3 + 0.25])
    image = rule.apply(far, np.zeros(3), np.zeros(3), np.ones(3))[0]
    x = np.array([0.2, 0.9, 0.6])
    laws = [WalledNormal(mean, np.full(3, 0.3), rule, np.zeros(3), np.ones(3)) for mean in (far, image)]
    assert_allclose(laws[0].log_density(x), laws[1].log_density(x), rtol=1e-9)
    assert_allclose(laws[0].cdf(x), laws[1].cdf(x), rtol=1e-9)
