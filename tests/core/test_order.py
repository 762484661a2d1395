"""The one order of points: strict, failures last, doubt included; and everything that compares points follows it."""

import numpy as np
import pytest
from by_hand import frozen
from numpy.testing import assert_allclose, assert_array_equal

import paoswarm as ps
from paoswarm.core import order
from paoswarm.core.order import Repeats
from paoswarm.core.swarm import measured_once, record, replace_worst, start

INF, NAN = np.inf, np.nan


def test_only_a_strictly_smaller_score_is_better_and_nan_never_is():
    new = np.array([1.0, 2.0, 3.0, NAN, -INF, INF])
    assert_array_equal(order.is_better(new, np.full(6, 2.0)), [True, False, False, False, True, False])
    assert not order.is_better(1.0, NAN)


def test_failures_come_last_and_equals_keep_their_order():
    values = order.failed_last(np.array([[3.0, NAN, 1.0, 3.0, -INF], [NAN, NAN, INF, NAN, NAN]]))
    assert_array_equal(order.ranked(values), [[4, 2, 0, 3, 1], [0, 1, 2, 3, 4]])
    assert_array_equal(order.ranks(values), [[2, 4, 1, 3, 0], [0, 1, 2, 3, 4]])
    assert_array_equal(order.best(values), [4, 0])


def test_scores_are_means_plus_three_standard_errors():
    repeats = Repeats(np.array([4.0, 1.0, 0.0]), np.array(8.0), np.array(2.0))  # a standard deviation of 2
    value = np.array([1.0, 1.0, 1.0])
    assert_allclose(order.score(value, repeats), [1 + 3 * 2 / 2, 1 + 3 * 2, 1 + 3 * 2])
    assert_allclose(order.newcomer_score(value, repeats), 1 + 3 * 2)
    assert order.score(value, None) is value
    assert order.newcomer_score(value, None) is value


@pytest.fixture
def noisy():
    """Four particles whose means mislead: the second has the best mean, the third the best score."""
    swarm = start(frozen([[0.0], [1.0], [2.0], [3.0]]), frozen([5.0, 1.0, 1.5, 4.0]), frozen([-9]), frozen([9]))
    count = np.array([1.0, 1.0, 100.0, 100.0])
    return swarm._replace(repeats=Repeats(count, np.array(1.0), np.array(1.0)))


def test_neighbours_are_compared_by_score(noisy):
    ring = ps.attractors.NeighbourhoodBest("ring")
    assert_array_equal(ring(noisy, None)[:, 0], [1.0, 2.0, 2.0, 2.0])
    certain = noisy._replace(repeats=None)
    assert_array_equal(ring(certain, None)[:, 0], [1.0, 1.0, 1.0, 2.0])


def test_newcomers_must_beat_scores_not_means(noisy):
    x = np.zeros((4, 1))
    value = np.array([4.0, 0.5, -1.1, -1.6])  # scores of 7, 3.5, 1.9 and 1.4 against 8, 4, 1.8 and 4.3
    after = record(noisy, ps.Proposal(x, x), value)
    assert_array_equal(after.best_value, [4.0, 0.5, 1.5, -1.6])
    assert after.global_value == -1.6
    injected = replace_worst(noisy, np.array([[7.0]]), np.array([1.2]))  # its score of 4.2 beats only the first's 8
    assert_array_equal(injected.best_position[:, 0], [7.0, 1.0, 2.0, 3.0])


def test_the_weighted_average_follows_ranks():
    swarm = start(frozen([[0.0], [1.0], [2.0]]), frozen([2.0, NAN, 1.0]), frozen([-9]), frozen([9]))
    assert_allclose(ps.attractors.weighted_average_particle(swarm), [[(2 * 0.0 + 3 * 2.0) / 5]])


# Swarms that change their size


def some_swarm(noise=False):
    chance = np.random.default_rng(1)
    x, f = chance.uniform(-3, 3, (5, 2)), chance.standard_normal(5)
    swarm = start(x, f, np.array([-3.0, -3.0]), np.array([3.0, 4.0]), noisy=noise)
    moved = ps.Proposal(chance.uniform(-3, 3, (5, 2)), chance.standard_normal((5, 2)))
    return record(swarm, moved, chance.standard_normal(5))._replace(memory=("kept",))


@pytest.mark.parametrize("noise", [False, True])
def test_a_swarm_that_is_reduced_keeps_its_particles_and_has_its_own_leader(noise):
    swarm = some_swarm(noise)
    rest = np.array([i for i in range(5) if swarm.best_value[i] != swarm.global_value])
    fewer = swarm.reduced_to(rest)
    for name in ("position", "velocity", "value", "best_position", "best_value", "age"):
        assert_array_equal(getattr(fewer, name), getattr(swarm, name)[rest])
    assert fewer.lower.shape == fewer.upper.shape == fewer.global_best.shape == (4, 2)
    assert fewer.global_value == swarm.best_value[rest].min() > swarm.global_value
    assert fewer.memory == ("kept",)
    assert (fewer.repeats is None) == (not noise)


@pytest.mark.parametrize("noise", [False, True])
def test_a_swarm_that_is_joined_keeps_its_own_and_starts_the_others_at_rest(noise):
    swarm = some_swarm(noise)
    more = swarm.joined_by(np.array([[1.0, 2.0], [0.0, 0.5]]), np.array([NAN, -99.0]))
    assert more.n_particles == 7
    for name in ("position", "velocity", "value", "best_position", "best_value", "age"):
        assert_array_equal(getattr(more, name)[:5], getattr(swarm, name))
    assert_array_equal(more.velocity[5:], 0.0)
    assert_array_equal(more.best_value[5:], [INF, -99.0])
    assert more.global_value == -99.0
    assert_array_equal(more.global_best, np.tile([0.0, 0.5], (7, 1)))
    assert_array_equal(more.upper, np.tile([3.0, 4.0], (7, 1)))
    assert more.repeats is None or more.repeats.count.shape == (7,)
    assert_array_equal(more.reduced_to(np.arange(5)).best_position, swarm.best_position)  # and back
    assert swarm.joined_by(np.empty((0, 2)), np.empty(0)) is swarm


def test_a_swarm_that_is_renewed_has_forgotten_its_bests_but_not_its_memory():
    swarm = some_swarm(noise=True)
    new = swarm.renewed(np.array([[1.0, 2.0], [0.0, 0.5]]), np.array([7.0, 8.0]))
    fresh = start(new.position, np.array([7.0, 8.0]), swarm.lower[0], swarm.upper[0], noisy=True)
    for ours, theirs in zip(new[:6], fresh[:6], strict=True):
        assert_array_equal(ours, theirs)
    assert new.global_value == 7.0
    assert new.memory == ("kept",)
    assert new.repeats is not None
    assert_array_equal(new.repeats.count, measured_once(np.zeros(2)).count)
