"""The best point of a run: the best of all that was evaluated; with noise, by what was measured."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from paoswarm.core import swarm as swarms
from paoswarm.core.swarm import Proposal
from paoswarm.run.judge import Incumbent, best_of, better_of, leader_of, with_measurements

LOW, HIGH = np.full(2, -9.0), np.full(2, 9.0)


def of(x, value):
    return Incumbent(np.asarray(x, dtype=float), np.asarray(value, dtype=float), np.asarray(value, dtype=float))


def test_a_better_point_replaces_it_and_an_equal_one_does_not():
    best = of([1, 2], 3.0)
    x = np.arange(6.0).reshape(3, 2)
    assert better_of(best, best_of(x, np.array([3.0, np.nan, 4.0]))) is best
    assert better_of(best, best_of(x, np.array([np.nan, np.nan, np.inf]))) is best
    new = better_of(best, best_of(x, np.array([2.5, 1.0, 1.0])))
    assert (new.value, new.score) == (1.0, 1.0)
    assert_array_equal(new.x, [2.0, 3.0])  # the first of equals
    x[:] = 0.0
    assert_array_equal(new.x, [2.0, 3.0])  # a copy


def test_each_run_of_a_batch_has_its_own():
    best = of(np.zeros((3, 2)), [1.0, 1.0, 1.0])
    x = np.arange(12.0).reshape(3, 2, 2)
    new = better_of(best, best_of(x, np.array([[np.nan, 0.5], [2.0, 1.0], [-1.0, 0.0]])))
    assert_array_equal(new.value, [0.5, 1.0, -1.0])
    assert_array_equal(new.x, [[2, 3], [0, 0], [8, 9]])
    assert better_of(best, best_of(x, np.full((3, 2), 5.0))) is best


@pytest.fixture
def noisy():
    """Two particles, measured again until the noise is known."""
    swarm = swarms.start(np.array([[1.0, 1.0], [2.0, 2.0]]), np.array([1.0, 2.0]), LOW, HIGH, noisy=True)
    for value in ([1.1, 2.1], [0.9, 1.9], [1.0, 2.0]):
        swarm = swarms.remeasure(swarm, np.array([0, 1]), np.array(value))
    return swarm


def test_the_leader_comes_with_its_score_and_standard_error(noisy):
    best = leader_of(noisy)
    assert_array_equal(best.x, [1.0, 1.0])
    assert best.value == noisy.best_value[0]
    assert_allclose(best.error, noisy.repeats.sd / np.sqrt(noisy.repeats.count[0]))
    assert_allclose(best.score, best.value + 3 * best.error)
    unknown = swarms.start(noisy.position, noisy.best_value, LOW, HIGH, noisy=True)
    assert np.isnan(leader_of(unknown).error)


def test_a_point_that_the_swarm_remembers_has_the_mean_of_the_swarm(noisy):
    best = leader_of(noisy)
    worse = swarms.remeasure(noisy, np.array([0]), np.array([9.0]))
    assert_array_equal(with_measurements(best, worse).x, [2.0, 2.0])  # its mean has become worse than the other's


def test_a_point_that_the_swarm_has_forgotten_counts_by_its_score(noisy):
    best = leader_of(noisy)
    elsewhere = noisy.renewed(np.array([[3.0, 3.0], [4.0, 4.0]]), np.array([best.value + 0.5, 7.0]))
    kept = with_measurements(best, elsewhere)
    assert_array_equal(kept.x, best.x)
    assert kept.value == best.value
    for below, expected in ((2.9, best.x), (3.1, [5.0, 5.0])):  # one measurement counts with three deviations
        lower = elsewhere.renewed(np.array([[5.0, 5.0]]), np.array([best.score - below * noisy.repeats.sd]))
        assert_array_equal(with_measurements(best, lower).x, expected)


def test_runs_of_a_noisy_batch_are_judged_one_by_one(noisy):
    two = swarms.map_runs(lambda *arrays: np.stack(arrays), noisy, noisy)
    best = leader_of(two)
    moved = np.array([[[3.0, 3.0], [4.0, 4.0]]] * 2)
    after = swarms.record(two, Proposal(moved, 0 * moved), np.array([[9.0, 9.0], [-9.0, 9.0]]))
    new = with_measurements(best, after)
    assert_array_equal(new.x, [[1.0, 1.0], [3.0, 3.0]])
    assert_array_equal(new.value, [best.value[0], -9.0])
