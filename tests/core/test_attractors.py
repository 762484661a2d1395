"""Who pulls: every attractor on a swarm written out by hand, and what must not change it."""

from itertools import permutations

import by_hand
import numpy as np
import pytest
from by_hand import Given
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import ndtr
from scipy.stats import binomtest, chisquare, kstest

import paoswarm as ps
from paoswarm.core import attractors
from paoswarm.core.attractors import DifferentialEvolution, GaussianPoint, NeighbourhoodBest, is_random
from paoswarm.core.differences import partners
from paoswarm.core.random import Draw

PLAIN = [
    attractors.global_best,
    attractors.local_best,
    attractors.average_local_best,
    attractors.average_particle,
    attractors.weighted_average_particle,
]
RANDOM = [
    DifferentialEvolution(),
    GaussianPoint(),
    NeighbourhoodBest("ring", 2),
    NeighbourhoodBest("von neumann"),
    NeighbourhoodBest("random", 3),
]


def pulled(attractor, swarm, seeds=(1,)):
    """Its points for every particle; chance comes from one seeded stream per run."""
    if not is_random(attractor):
        return np.broadcast_to(attractor(swarm), swarm.position.shape)
    draw = Draw([np.random.default_rng(seed) for seed in seeds], swarm.position.shape[:-2])
    return np.broadcast_to(attractor(swarm, draw), swarm.position.shape)


@pytest.mark.parametrize("attractor", PLAIN + RANDOM, ids=lambda a: getattr(a, "__name__", repr(a)))
class TestEveryAttractor:
    def test_a_batch_is_the_runs_one_by_one(self, attractor):
        batch = by_hand.drawn(2, n=9, batch=(3,))
        together = pulled(attractor, batch, seeds=(5, 6, 7))
        for r in range(3):
            assert_allclose(together[r], pulled(attractor, by_hand.one_run(batch, r), seeds=(5 + r,)), rtol=1e-13)

    def test_it_moves_with_the_coordinates(self, attractor):
        swarm = by_hand.drawn(3, n=9)
        scale, shift = np.array([2.0, -1.5, 0.1]), np.array([1.0, 40.0, -3.0])
        mapped = by_hand.mapped(swarm, points=lambda x: scale * x + shift)
        expected = scale * pulled(attractor, swarm) + shift
        if isinstance(attractor, GaussianPoint):  # its width is a distance, which a mirror leaves positive
            mapped = by_hand.mapped(swarm, points=lambda x: np.abs(scale) * x + shift)
            expected = np.abs(scale) * pulled(attractor, swarm) + shift
        assert_allclose(pulled(attractor, mapped), expected, rtol=1e-12, atol=1e-12)

    @pytest.mark.parametrize("change", [lambda f: f + 1e4, lambda f: 7 * f, np.exp, np.arctan])
    def test_only_the_order_of_values_matters(self, attractor, change):
        swarm = by_hand.drawn(4, n=9)
        assert_array_equal(pulled(attractor, by_hand.mapped(swarm, values=change)), pulled(attractor, swarm))

    def test_a_swarm_at_one_point_stays_there(self, attractor):
        point = [[0.5, 1.5]] * 5
        swarm = by_hand.moved(point, range(5), point, np.ones((5, 2)), [9.0] * 5, [-1.0, -1.0], [2.0, 2.0])
        assert_allclose(pulled(attractor, swarm), point, rtol=1e-15)


# By hand


def test_the_global_best_is_the_best_of_the_bests(swarm):
    assert_array_equal(pulled(attractors.global_best, swarm), [[1, 2]] * 4)


def test_the_local_best_is_each_particles_own(swarm):
    assert_array_equal(pulled(attractors.local_best, swarm), by_hand.BESTS)


def test_the_average_local_best_leaves_out_a_particle_that_never_succeeded(swarm):
    assert_allclose(pulled(attractors.average_local_best, swarm), [[1, 1 / 3]] * 4, rtol=1e-15)


def test_the_average_particle_counts_everyone(swarm):
    assert_allclose(pulled(attractors.average_particle, swarm), [[1, 0.5]] * 4, rtol=1e-15)


def test_the_weighted_average_weighs_by_rank_and_failures_weigh_nothing(swarm):
    # Values 4, 1.5, 2.5, NaN weigh 2, 4, 3, 0.
    assert_allclose(pulled(attractors.weighted_average_particle, swarm), [[14.5 / 9, 0.5 / 9]] * 4, rtol=1e-15)


@pytest.mark.parametrize("failed", [np.inf, np.nan])
def test_where_a_failed_point_lies_does_not_matter(swarm, failed):
    values = by_hand.frozen([4.0, 1.5, 2.5, failed])
    for x in (-1e6, 1e6):
        position = by_hand.frozen([*by_hand.POSITIONS[:3], (x, x)])
        there = swarm._replace(position=position, value=values)
        average = pulled(attractors.weighted_average_particle, there)
        assert_allclose(average, [[14.5 / 9, 0.5 / 9]] * 4, rtol=1e-15)


# Differential evolution


def test_differential_evolution_worked_by_hand(swarm):
    others = [[0.0, 0.0, 0.0], [0.4, 0.6, 0.0], [0.9, 0.0, 0.0], [0.99, 0.99, 0.0]]
    # r1, r2, r3: 1 2 3 for particle 0; 2 3 0 for 1; 3 0 1 for 2; 2 1 0 for 3.
    forced = [[0.0], [0.7], [0.0], [0.7]]  # element 0, 1, 0, 1
    crossing = [[0.9, 0.9], [0.1, 0.9], [0.9, 0.1], [0.9, 0.9]]  # below 0.3 the donor is taken
    points = DifferentialEvolution(factor=0.5, crossover=0.3)(swarm, Given(uniform=[others, forced, crossing]))
    donors = [[1 + 0.5 * 2.5, 0], [2 - 0.25, -1 + 1.5], [-0.5 - 0.5, 3 - 1], [-0.5, -1 + 1]]
    assert_allclose(points, [[donors[0][0], 0.0], donors[1], donors[2], [-0.5, donors[3][1]]], rtol=1e-15)


def test_differential_evolution_draws_every_ordered_triple_of_others_equally_often():
    n, copies = 5, 4000
    uniform = np.random.default_rng(3).random((copies, n, 3))
    r1, r2, r3 = partners(uniform)
    for i in range(n):
        others = [j for j in range(n) if j != i]
        found = np.stack([r1[:, i], r2[:, i], r3[:, i]], axis=-1)
        triples, counts = np.unique(found, axis=0, return_counts=True)
        assert_array_equal(triples, sorted(permutations(others, 3)))
        assert chisquare(counts).pvalue > 1e-4  # false alarms: 5 particles at 1e-4, 0.05 %


def test_differential_evolution_needs_the_last_bit_of_its_deviates():
    almost_one = np.full((4, 3), 1 - 2.0**-53)
    r = partners(almost_one)
    assert_array_equal(np.stack(r, axis=-1), [[3, 2, 1], [3, 2, 0], [3, 1, 0], [2, 1, 0]])


@pytest.mark.parametrize("crossover", [0.0, 0.2, 0.9, 1.0])
def test_the_crossover_is_the_share_of_donor_elements(crossover):
    swarm, copies = by_hand.drawn(8, n=6, d=5), 2000
    share = np.zeros(5)
    rng = np.random.default_rng(9)
    for _ in range(copies // 6):
        taken = DifferentialEvolution(crossover=crossover)(swarm, Draw([rng], ())) != swarm.best_position
        assert (taken.sum(axis=-1) >= 1).all()
        share += taken.sum(axis=0)
    expected = crossover + (1 - crossover) / 5  # one element is forced
    for count in share:
        assert binomtest(int(count), copies // 6 * 6, expected).pvalue > 1e-5  # false alarms: 20 at 1e-5, 0.02 %


def test_differential_evolution_needs_four_particles():
    with pytest.raises(ValueError, match="at least 4 particles, got 3"):
        DifferentialEvolution()(by_hand.drawn(1, n=3), Draw([np.random.default_rng(1)], ()))


# Gaussian points


def test_a_gaussian_point_worked_by_hand(swarm):
    phi = [[0.5, 0.5], [0.1, 0.2], [0.0, 1.0], [1.0, 0.0]]
    deviates = [[1.0, -1.0], [2.0, 3.0], [0.5, 0.5], [0.0, 1.0]]
    points = GaussianPoint(width=2.0)(swarm, Given(normal=[deviates], uniform=[phi]))
    # The mean local best is (1, 1/3), so the widths are 2 |mean - l|.
    centres = np.array([[0.5, 1.0], [1.0, 2.0], [1.0, -1.0], [-0.5, 2.0]])
    widths = 2 * np.array([[1, 1 / 3], [0, 5 / 3], [1, 4 / 3], [1.5, 8 / 3]])
    assert_allclose(points, centres + widths * deviates, rtol=1e-14)


def test_a_gaussian_point_has_the_law_it_says(swarm):
    rng, copies = np.random.default_rng(4), 4000
    given = Given(uniform=[rng.random((copies, 4, 2))], normal=[rng.standard_normal((copies, 4, 2))])
    points = GaussianPoint()(swarm, given)
    # Particle 2, element 0: centre uniform between 2 and 1, sd 1. Element 1: between -1 and 2, sd 4/3.
    for j, (a, b, sd) in enumerate(((1, 2, 1), (-1, 2, 4 / 3))):
        x, w = by_hand.quadrature(a, b)
        cdf = (w / (b - a)) @ ndtr((points[:, 2, j] - x[:, None]) / sd)
        assert kstest(cdf, "uniform").pvalue > 1e-4  # false alarms: 2 at 1e-4


# Neighbourhoods


def neighbours_of(swarm, **kind):
    return pulled(NeighbourhoodBest(**kind), swarm)[:, 0]


@pytest.fixture
def row():
    """Nine particles whose best position is their number."""
    bests = np.arange(9.0)[:, None]
    values = [5.0, 7.0, 6.0, 8.0, 0.0, 9.0, 3.0, 4.0, 2.0]
    return by_hand.moved(bests, values, bests, np.zeros((9, 1)), [99.0] * 9, [0.0], [9.0])


def test_a_ring_looks_to_both_sides(row):
    assert_array_equal(neighbours_of(row, topology="ring", size=1), [8, 0, 2, 4, 4, 4, 6, 8, 8])
    assert_array_equal(neighbours_of(row, topology="ring", size=2), [8, 8, 4, 4, 4, 4, 4, 8, 8])


def test_a_wide_ring_is_the_whole_swarm(row):
    for size in (4, 5, 20):
        assert_array_equal(neighbours_of(row, topology="ring", size=size), [4] * 9)
    assert not (neighbours_of(row, topology="ring", size=3) == 4).all()


def test_a_von_neumann_grid_looks_in_four_directions(row):
    # 0 1 2 / 3 4 5 / 6 7 8, rows joined end to end.
    assert_array_equal(neighbours_of(row, topology="von neumann"), [8, 4, 8, 4, 4, 4, 6, 4, 8])


@pytest.mark.parametrize("n", [1, 2, 3, 5, 9, 12, 17, 40])
def test_neighbours_know_each_other(n):
    for table in (attractors.ring(n, 1), attractors.ring(n, 3), attractors.von_neumann(n)):
        knows = np.zeros((n, n), dtype=bool)
        np.put_along_axis(knows, table, True, axis=1)
        assert_array_equal(knows, knows.T)
        assert knows.diagonal().all()


def test_a_grid_gives_everyone_four_neighbours():
    for n in (9, 12, 17, 40):
        assert {len(set(row)) for row in attractors.von_neumann(n).tolist()} == {5}


def test_random_informants_are_those_drawn(row):
    drawn = np.array([[3, 5], [4, 0], [8, 6], [3, 3], [0, 1], [6, 2], [5, 5], [7, 8], [1, 2]])
    best = NeighbourhoodBest("random", 2)(row, Given(uniform=[(drawn + 0.5) / 9]))[:, 0]
    assert_array_equal(best, [0, 4, 8, 3, 4, 6, 6, 8, 8])


def test_random_informants_are_drawn_alike():
    values = np.arange(6.0)
    swarm = by_hand.moved(values[:, None], values, values[:, None], np.zeros((6, 1)), values + 1, [0.0], [6.0])
    draw = Draw([np.random.default_rng(6)], ())
    hits = sum(int(NeighbourhoodBest("random", 1)(swarm, draw)[5, 0] == 0) for _ in range(3000))
    assert binomtest(hits, 3000, 1 / 6).pvalue > 1e-4  # false alarms 1e-4


def test_a_neighbourhood_prefers_success_to_failure(row):
    failing = row._replace(best_value=np.array([np.inf] * 8 + [1.0]))
    assert_array_equal(neighbours_of(failing, topology="ring", size=1)[[7, 8, 0]], [8, 8, 8])


@pytest.mark.parametrize(
    ("kind", "message"), [({"topology": "star"}, "topology must be"), ({"size": 0}, "size must be")]
)
def test_an_unknown_neighbourhood_is_refused(kind, message):
    with pytest.raises(ValueError, match=message):
        NeighbourhoodBest(**kind)


# Your own


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: attractors.NeighbourhoodBest("ring", 1.5), "size must be a whole number of at least 1, got 1.5"),
        (lambda: attractors.NeighbourhoodBest("random", "2"), "size must be a whole number of at least 1, got '2'"),
        (lambda: attractors.GaussianPoint(np.nan), "width must be a number, got nan"),
        (lambda: attractors.GaussianPoint("a"), "width must be a number, got 'a'"),
        (lambda: attractors.GaussianPoint(-1), "width must be at least 0, got -1"),
        (lambda: attractors.DifferentialEvolution(factor=np.inf), "factor must be finite, got inf"),
        (lambda: attractors.DifferentialEvolution(crossover=1.1), "crossover must be at most 1, got 1.1"),
    ],
)
def test_a_bad_parameter_of_an_attractor_is_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_your_own_attractor_takes_the_swarm_or_the_swarm_and_a_source_of_chance(swarm):
    class Method:
        def pull(self, swarm):
            return swarm.global_best

    assert not is_random(lambda swarm: swarm.global_best)
    assert not is_random(lambda swarm, weight=0.5: swarm.global_best)
    assert not is_random(Method().pull)
    assert is_random(lambda swarm, draw: swarm.global_best)
    assert is_random(GaussianPoint())
    for wrong in (lambda: 0, lambda swarm, draw, more: 0):
        with pytest.raises(TypeError, match="an attractor is a function of the swarm"):
            is_random(wrong)


def test_a_frozen_attractor_is_where_the_mean_goes(swarm):
    centre = np.array([0.4, 1.7])
    method = ps.PAO(attractors=(lambda swarm: centre,), stiffness=1.0, dt=1e3, noise_scale=lambda s: 0.0)
    assert_allclose(method.step_law(swarm).mean_position, [centre] * 4, rtol=1e-12)


def test_an_attractor_with_chance_draws_from_the_given_source(swarm):
    def anywhere(swarm, draw):
        return swarm.lower + draw.uniform(4, 2) * (swarm.upper - swarm.lower)

    method = ps.PAO(attractors=(anywhere,), stiffness=1.0, dt=1e3, noise_scale=lambda s: 0.0)
    uniform = np.arange(8).reshape(4, 2) / 8
    step = method.ask(swarm, Given(uniform=[uniform], normal=[np.ones((2, 4, 2))]))
    assert_allclose(step.position, [-1, -2] + uniform * [4, 6], rtol=1e-12, atol=1e-12)


def test_a_wrong_shape_is_an_error_that_names_the_function(swarm):
    def crooked(swarm):
        return np.zeros((3, 2))

    for wrong in ({"attractors": (crooked,), "stiffness": 1.0}, {"noise_scale": crooked}):
        with pytest.raises(
            ValueError,
            match=r"crooked returned shape \(3, 2\).*\(4, 2\)",
        ):
            ps.PAO(**wrong).step_law(swarm)


@pytest.mark.parametrize("average", [attractors.average_local_best, attractors.weighted_average_particle])
def test_where_all_have_failed_an_average_is_that_of_all(average):
    swarm = by_hand.drawn(1)
    failed = swarm._replace(value=np.full_like(swarm.value, np.nan), best_value=np.full_like(swarm.value, np.inf))
    expected = swarm.best_position if average is attractors.average_local_best else swarm.position
    assert_allclose(average(failed)[0], expected.mean(axis=0), rtol=1e-13)
