"""The only ways to make a swarm: start, record, remeasure, replace_worst; on swarms written out by hand."""

import by_hand
import numpy as np
import pytest
from by_hand import frozen
from numpy.testing import assert_allclose, assert_array_equal

from paoswarm.core.order import CAUTION, Repeats, score
from paoswarm.core.swarm import (
    Proposal,
    measured_once,
    record,
    remeasure,
    replace_worst,
    select,
    spread,
    start,
)

INF, NAN = np.inf, np.nan


@pytest.fixture
def three():
    """Three particles on a line at 0, 2, 3 with values 5, 4, failed."""
    return start(frozen([[0], [2], [3]]), frozen([5, 4, NAN]), frozen([-1]), frozen([9]))


def proposal(x, v=0.0):
    x = frozen(x)[..., None]
    return Proposal(x, np.full_like(x, v))


# start


def test_a_first_swarm_is_at_rest_at_its_own_bests(three):
    assert_array_equal(three.position, [[0], [2], [3]])
    assert_array_equal(three.best_position, three.position)
    assert_array_equal(three.velocity, np.zeros((3, 1)))
    assert_array_equal(three.value, [5, 4, INF])
    assert_array_equal(three.best_value, [5, 4, INF])
    assert_array_equal(three.global_best, [[2]] * 3)
    assert three.global_value == 4
    assert_array_equal(three.age, [0, 0, 0])
    assert three.repeats is None
    assert (three.n_particles, three.n_dimensions) == (3, 1)


def test_the_best_seeds_the_swarm_wherever_it_stands():
    for leader in range(3):
        values = np.full(3, 7.0)
        values[leader] = 1.0
        swarm = start(frozen([[0, 1], [2, 3], [4, 5]]), values, frozen([0, 0]), frozen([9, 8]))
        assert_array_equal(swarm.global_best, [[2 * leader, 2 * leader + 1]] * 3)
        assert_array_equal(swarm.upper, [[9, 8]] * 3)


def test_velocities_may_be_given():
    swarm = start(frozen([[0], [1]]), frozen([1, 2]), frozen([0]), frozen([1]), velocity=frozen([[3], [4]]))
    assert_array_equal(swarm.velocity, [[3], [4]])


def test_where_everything_failed_there_is_still_a_swarm():
    swarm = start(frozen([[0], [1]]), frozen([NAN, NAN]), frozen([0]), frozen([1]))
    assert_array_equal(swarm.best_value, [INF, INF])
    assert swarm.global_value == INF
    after = record(swarm, proposal([0.5, 0.6]), frozen([NAN, 3]))
    assert_array_equal(after.global_best, [[0.6], [0.6]])


# record


def test_record_keeps_the_better_point_and_ignores_nan(three):
    after = record(three, proposal([1, 1.5, 2.5], v=0.25), frozen([6, 3, NAN]))
    assert_array_equal(after.position, [[1], [1.5], [2.5]])
    assert_array_equal(after.velocity, [[0.25]] * 3)
    assert_array_equal(after.value, [6, 3, NAN])
    assert_array_equal(after.best_position, [[0], [1.5], [3]])
    assert_array_equal(after.best_value, [5, 3, INF])
    assert_array_equal(after.global_best, [[1.5]] * 3)
    assert after.global_value == 3
    assert_array_equal(after.age, [1, 0, 1])


def test_a_failed_particle_recovers_with_any_value(three):
    after = record(three, proposal([1, 1, 1]), frozen([9, 9, 1e300]))
    assert_array_equal(after.best_value, [5, 4, 1e300])
    assert_array_equal(after.best_position[2], [1])


def test_a_plateau_does_not_move_a_best(three):
    after = record(three, proposal([1, 1, 1]), frozen([5, 4, INF]))
    assert_array_equal(after.best_position, three.best_position)
    assert_array_equal(after.global_best, three.global_best)
    assert_array_equal(after.age, [1, 1, 1])


def test_age_counts_generations_without_improvement(three):
    for values in ([6, 3, NAN], [6, 3, NAN], [4, 6, NAN]):
        three = record(three, proposal([1, 1, 1]), frozen(values))
    assert_array_equal(three.age, [0, 2, 3])


def test_a_particle_that_was_not_evaluated_stays_where_it_was(three):
    moved = record(three, proposal([1, 1.5, 2.5], v=0.5), frozen([6, 7, 2]))
    after = record(moved, proposal([7, 7, 7], v=9), frozen([1, 0, NAN]), np.array([True, False, False]))
    assert_array_equal(after.position, [[7], [1.5], [2.5]])
    assert_array_equal(after.velocity, [[9], [0.5], [0.5]])
    assert_array_equal(after.value, [1, 7, 2])
    assert_array_equal(after.best_value, [1, 4, 2])
    assert_array_equal(after.best_position, [[7], [2], [2.5]])
    assert_array_equal(after.global_best, [[7]] * 3)


def test_a_batch_is_the_runs_one_by_one():
    batch = by_hand.drawn(1, batch=(2, 3))
    rng = np.random.default_rng(2)
    step, values = Proposal(*rng.normal(size=(2, 2, 3, 7, 3))), rng.normal(size=(2, 3, 7))
    after = record(batch, step, values)
    for r in np.ndindex(2, 3):
        alone = record(by_hand.one_run(batch, r), Proposal(step.position[r], step.velocity[r]), values[r])
        for name in ("position", "best_position", "best_value", "age", "global_best", "global_value"):
            assert_array_equal(getattr(after, name)[r], getattr(alone, name))
        assert_array_equal(spread(after)[r], spread(alone))


# Noisy objectives


def noisy(best_values, count, squares, freedom):
    n = len(best_values)
    swarm = start(frozen(np.arange(n))[:, None], frozen(best_values), frozen([0]), frozen([9]), noisy=True)
    return swarm._replace(repeats=Repeats(frozen(count), frozen(squares), frozen(freedom)))


def test_nothing_is_known_of_the_noise_at_first():
    swarm = start(frozen([[0], [1]]), frozen([3, 4]), frozen([0]), frozen([1]), noisy=True)
    assert swarm.repeats.sd == 0
    assert_array_equal(swarm.repeats.count, [0, 0])  # the draw it was chosen for is no fair sample
    assert_array_equal(score(swarm.best_value, swarm.repeats), [3, 4])


def test_the_score_is_the_mean_plus_some_standard_errors():
    swarm = noisy([3, 4, 5], count=[1, 4, 16], squares=18, freedom=2)  # sd 3
    errors = np.array([3, 1.5, 0.75])
    assert_allclose(score(swarm.best_value, swarm.repeats), [3, 4, 5] + CAUTION * errors, rtol=1e-15)
    assert_array_equal(score(swarm.best_value, None), [3, 4, 5])


def test_a_lucky_draw_is_not_accepted_where_the_noise_is_known():
    swarm = noisy([3, 4, 5], count=[1, 4, 16], squares=18, freedom=2)  # sd 3
    limits = [3, 4, 5] + CAUTION * (np.array([3, 1.5, 0.75]) - 3)  # a new point was measured once
    values = frozen(limits + np.array([0.01, 0.01, -0.01]))
    after = record(swarm, proposal([6, 7, 8]), values)
    assert values[1] < 4  # a plain comparison would have taken it
    assert_array_equal(after.best_value, [3, 4, values[2]])
    assert_array_equal(after.best_position, [[0], [1], [8]])
    assert_array_equal(after.repeats.count, [1, 4, 0])
    assert_array_equal(after.global_best, [[8]] * 3)


def test_the_leader_is_the_most_reliable_and_not_the_luckiest():
    swarm = noisy([3, 4, 5], count=[1, 4, 16], squares=18, freedom=2)
    after = record(swarm, proposal([6, 7, 8]), frozen([99, 99, 99]))
    assert_array_equal(after.global_best, [[2]] * 3)
    assert after.global_value == 5


def test_remeasuring_gives_the_running_mean_and_the_pooled_variance():
    rng = np.random.default_rng(4)
    swarm = start(frozen([[0], [1], [2]]), frozen(rng.normal(size=3)), frozen([0]), frozen([9]), noisy=True)
    seen = [[], [], []]  # while nothing is known of the noise, the draw that chose a point is forgotten
    for index in ([0, 2], [2, 0], [2, 1], [2, 0]):
        values = rng.normal(size=2)
        for i, f in zip(index, values, strict=True):
            if i == 1:  # by then something is known, and the first draw of this one was no fluke
                seen[i].append(swarm.best_value[i])
            seen[i].append(f)
        swarm = remeasure(swarm, np.array(index), values)
    assert_allclose(swarm.best_value, [np.mean(s) for s in seen], rtol=1e-13)
    assert_array_equal(swarm.repeats.count, [3, 2, 4])
    fair = [seen[0], seen[2]]
    assert swarm.repeats.freedom == 2 + 3
    pooled = sum(np.sum((s - np.mean(s)) ** 2) for s in fair) / 5
    assert_allclose(swarm.repeats.sd, np.sqrt(pooled), rtol=1e-13)
    scores = [np.mean(s) + CAUTION * np.sqrt(pooled / len(s)) for s in seen]
    assert_array_equal(swarm.global_best, [[np.argmin(scores)]] * 3)
    assert_allclose(swarm.global_value, np.mean(seen[int(np.argmin(scores))]), rtol=1e-13)


def test_a_fluke_is_forgotten_when_it_is_measured_again_and_a_fair_draw_is_kept():
    swarm = noisy([-1000, 4, 5], count=[0, 0, 16], squares=18, freedom=2)  # sd 3
    after = remeasure(swarm, np.array([0, 1]), frozen([6, 6]))
    assert_array_equal(after.best_value, [6, 5, 5])
    assert_array_equal(after.repeats.count, [1, 2, 16])
    assert after.repeats.sd == 3  # neither draw was a fair sample
    assert_array_equal(after.global_best, [[2]] * 3)


@pytest.mark.parametrize("failed", [NAN, INF])
def test_a_failed_measurement_is_left_out(failed):
    swarm = noisy([1, 2, 5], count=[3, 3, 1], squares=18, freedom=2)
    after = remeasure(swarm, np.array([0, 1]), frozen([failed, 6]))
    assert_array_equal(after.best_value, [1, 3, 5])
    assert_array_equal(after.repeats.count, [3, 4, 1])
    assert after.repeats.freedom == 3
    assert_allclose(after.repeats.squares, 18 + 4**2 * 3 / 4, rtol=1e-15)


def test_a_best_that_has_only_failed_stays_failed():
    swarm = start(frozen([[0], [1]]), frozen([1, NAN]), frozen([0]), frozen([9]), noisy=True)
    after = remeasure(swarm, np.array([1]), frozen([7]))
    assert_array_equal(after.best_value, [1, INF])


def test_remeasuring_a_batch_is_remeasuring_its_runs():
    rng = np.random.default_rng(5)
    batch = by_hand.drawn(6, batch=(3,))
    batch = batch._replace(repeats=measured_once(batch.best_value))
    index, values = np.array([[0, 3], [5, 1], [2, 6]]), rng.normal(size=(3, 2))
    after = remeasure(batch, index, values)
    for r in range(3):
        alone = remeasure(by_hand.one_run(batch, r), index[r], values[r])
        assert_allclose(after.best_value[r], alone.best_value, rtol=1e-15)
        assert_allclose([part[r] for part in after.repeats[1:]], alone.repeats[1:], rtol=1e-15)
        assert_array_equal(after.global_best[r], alone.global_best)


# Points from elsewhere


def test_points_from_elsewhere_replace_the_worst_if_they_are_better(swarm):
    # Bests 3, 1, 2, failed: the worst is 3, then 0, then 2.
    after = replace_worst(swarm, frozen([[0.1, 0.1], [0.2, 0.2], [0.3, 0.3]]), frozen([0.5, 2.5, 2.5]))
    assert_array_equal(after.best_value, [2.5, 1, 2, 0.5])
    assert_array_equal(after.best_position, [[0.2, 0.2], [1, 2], [2, -1], [0.1, 0.1]])
    assert_array_equal(after.global_best, [[0.1, 0.1]] * 4)
    assert after.global_value == 0.5
    assert_array_equal(after.age, [0, 1, 1, 0])
    assert_array_equal(after.position, swarm.position)


def test_a_failed_or_equal_point_from_elsewhere_replaces_nobody(swarm):
    after = replace_worst(swarm, frozen([[0.1, 0.1], [0.2, 0.2]]), frozen([NAN, 3.0]))
    assert_array_equal(after.best_value, swarm.best_value)
    assert_array_equal(after.best_position, swarm.best_position)


def test_more_points_than_particles_are_too_many_for_some(swarm):
    points = np.arange(12.0).reshape(6, 2)
    after = replace_worst(swarm, points, frozen([-6, -5, -4, -3, -2, -1]))
    assert_array_equal(after.best_value, [-5, -3, -4, -6])


def test_a_replaced_best_has_not_been_measured_again(swarm):
    repeats = Repeats(frozen([5, 6, 7, 8]), frozen(0), frozen(1))
    after = replace_worst(swarm._replace(repeats=repeats), frozen([[0.1, 0.1]]), frozen([0.5]))
    assert_array_equal(after.repeats.count, [5, 6, 7, 0])


def test_points_are_offered_to_every_run_of_a_batch():
    batch = by_hand.drawn(8, batch=(3,))
    points, values = np.ones((2, 3)), frozen([-9, -8])
    after = replace_worst(batch, points, values)
    for r in range(3):
        alone = replace_worst(by_hand.one_run(batch, r), points, values)
        assert_array_equal(after.best_position[r], alone.best_position)
        assert_array_equal(after.global_value[r], alone.global_value)


# Summaries


def test_the_spread_is_the_root_mean_square_distance_in_box_widths(swarm):
    # From (1, 2) in widths (4, 6): (-1/8, -1/4), (1/8, -1/6), (3/8, -7/12), (-3/8, 0).
    squares = [1 / 64, 1 / 16, 1 / 64, 1 / 36, 9 / 64, 49 / 144, 9 / 64, 0]
    assert_allclose(spread(swarm), np.sqrt(sum(squares) / 8), rtol=1e-14)


def test_select_freezes_finished_runs():
    old, new = by_hand.drawn(1, batch=(3,)), by_hand.drawn(2, batch=(3,))
    old, new = (s._replace(repeats=measured_once(s.value)) for s in (old, new))
    new = remeasure(new, np.zeros((3, 1), dtype=int), np.ones((3, 1)))
    mixed = select(np.array([True, False, True]), new, old)
    for r, source in enumerate((new, old, new)):
        for name in ("position", "velocity", "value", "best_position", "best_value", "age", "global_best"):
            assert_array_equal(getattr(mixed, name)[r], getattr(source, name)[r])
        for part, whole in zip(mixed.repeats, source.repeats, strict=True):
            assert_array_equal(part[r], whole[r])
    assert mixed.lower is new.lower


def test_select_works_without_a_batch():
    old, new = by_hand.drawn(1), by_hand.drawn(2)
    assert_array_equal(select(np.array(True), new, old).position, new.position)
    assert_array_equal(select(np.array(False), new, old).global_value, old.global_value)
