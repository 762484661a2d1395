"""Noise scales on the swarm of `by_hand`, and under changes of coordinates."""

import by_hand
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import paoswarm as ps
from paoswarm.core.noise import Dense, correlate, covariance, mean_to_best, spread, square_root


def variances(nu, swarm):
    """Any noise scale as covariances ``(*batch, n, d, d)``."""
    if isinstance(nu, Dense):
        return nu.strength[..., None, None] * nu.covariance[..., None, :, :]
    return np.broadcast_to(nu, swarm.position.shape)[..., None] * np.eye(swarm.n_dimensions)


@pytest.mark.parametrize("scale", [spread, mean_to_best, covariance])
class TestEveryScale:
    def test_a_batch_is_the_runs_one_by_one(self, scale):
        batch = by_hand.drawn(2, batch=(3,))
        together = variances(scale(batch), batch)
        for r in range(3):
            run = by_hand.one_run(batch, r)
            assert_allclose(together[r], variances(scale(run), run), rtol=1e-11, atol=1e-13)

    def test_a_shift_of_the_problem_changes_nothing(self, scale):
        swarm = by_hand.drawn(3)
        shifted = by_hand.mapped(swarm, points=lambda x: x + np.array([3.0, -1.0, 0.5]))
        assert_allclose(variances(scale(shifted), shifted), variances(scale(swarm), swarm), rtol=1e-11, atol=1e-12)

    def test_a_change_of_units_enters_squared(self, scale):
        swarm = by_hand.drawn(3)
        scaled = by_hand.mapped(swarm, points=lambda x: 3 * x)
        assert_allclose(variances(scale(scaled), scaled), 9 * variances(scale(swarm), swarm), rtol=1e-11, atol=1e-12)

    def test_only_the_order_of_values_matters(self, scale):
        swarm = by_hand.drawn(3)
        other = by_hand.mapped(swarm, values=lambda f: np.exp(f) - 40)
        assert_array_equal(variances(scale(other), other), variances(scale(swarm), swarm))

    def test_a_swarm_at_one_point_has_no_noise(self, scale):
        point = [[0.5, 1.5]] * 5
        swarm = by_hand.moved(point, range(5), point, np.ones((5, 2)), [9.0] * 5, [-1.0, -1.0], [2.0, 2.0])
        assert_array_equal(variances(scale(swarm), swarm), np.zeros((5, 2, 2)))

    def test_it_is_never_negative(self, scale):
        swarm = by_hand.drawn(4, n=5, d=3)
        assert np.linalg.eigvalsh(variances(scale(swarm), swarm)).min() > -1e-12


def test_spread_is_the_squared_distance_of_local_and_global_best(swarm):
    assert_array_equal(spread(swarm), [[1, 4], [0, 0], [1, 9], [2.25, 1]])


def test_mean_to_best_is_one_number_for_the_swarm(swarm):
    # The average particle is (1, 0.5), the global best (1, 2).
    assert_allclose(np.broadcast_to(mean_to_best(swarm), (4, 2)), 2.25, rtol=1e-15)


def test_covariance_worked_by_hand(swarm):
    # e = (-1, -2), (0, 0), (1, -3), (-1.5, 1); determinant of C 3.328125; factor 1.2 + 2.5 * 2 / 4.
    noise = covariance(swarm)
    assert_allclose(noise.covariance, [[1.0625, -0.625], [-0.625, 3.5]], rtol=1e-15)
    by_cramer = np.array([10.25, 0.0, 9.3125, 7.0625]) / 3.328125  # c22 x^2 - 2 c12 x y + c11 y^2
    assert_allclose(noise.strength, 2.45 * by_cramer / 2, rtol=1e-13)


def test_the_mean_distance_in_the_clouds_own_shape_is_one():
    swarm = by_hand.drawn(6, n=11, d=3)
    assert_allclose(covariance(swarm).strength.mean(), 1.2 + 2.5 * 3 / 11, rtol=1e-12)


@pytest.mark.parametrize("stretch", [1.0, 1e6])
def test_covariance_moves_with_every_affine_map(stretch):
    swarm = by_hand.drawn(7, n=9, d=3)
    matrix = np.array([[2.0, 0.5, 0.0], [-1.0, 1.0, 0.3], [0.2, 0.0, 0.7]]) * np.array([[1.0], [1.0], [stretch]])
    mapped = by_hand.mapped(swarm, points=lambda x: x @ matrix.T + 1.0)
    before, after = covariance(swarm), covariance(mapped)
    expected = matrix @ before.covariance @ matrix.T
    scale = np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
    assert_allclose(after.covariance / scale, expected / scale, rtol=0, atol=1e-12)
    assert_allclose(after.strength, before.strength, rtol=1e-8, atol=1e-12)


def test_spread_does_not_move_with_a_rotation():
    swarm = by_hand.drawn(7, n=9, d=2)
    turn = np.array([[0.8, -0.6], [0.6, 0.8]])
    turned = variances(spread(by_hand.mapped(swarm, points=lambda x: x @ turn.T)), swarm)
    assert np.abs(turned - turn @ variances(spread(swarm), swarm) @ turn.T).max() > 1


def test_bests_in_a_plane_make_noise_in_that_plane():
    rng = np.random.default_rng(1)
    plane, across = rng.normal(size=(2, 3)), np.array([1.0, -2.0, 0.5])
    plane = plane - np.outer(plane @ across, across) / (across @ across)
    bests = rng.normal(size=(8, 2)) @ plane
    swarm = by_hand.moved(bests, range(8), bests, np.zeros((8, 3)), [9.0] * 8, [-9.0] * 3, [9.0] * 3)
    noise = covariance(swarm)
    assert np.isfinite(noise.strength).all()
    assert_allclose(noise.strength.mean(), (1.2 + 2.5 * 3 / 8) * 2 / 3, rtol=1e-6)  # two directions of three
    shaken = correlate(square_root(noise.covariance), rng.normal(size=(50, 3)))
    assert np.abs(shaken @ across).max() < 1e-6 * np.abs(shaken).max()


def test_a_callable_of_the_swarm_is_a_noise_scale(swarm):
    def tenth_of_the_box(swarm):
        return (0.1 * (swarm.upper - swarm.lower)) ** 2

    law = ps.PAO(noise_scale=tenth_of_the_box).step_law(swarm)
    assert_allclose(law.scale, [[0.4, 0.6]] * 4, rtol=1e-14)


def test_a_noise_scale_may_be_a_single_number(swarm):
    law = ps.PAO(noise_scale=lambda swarm: 0.25).step_law(swarm)
    assert_array_equal(law.scale, np.full((4, 2), 0.5))


@pytest.mark.parametrize(
    "matrix",
    [
        [[2.0, 0.6], [0.6, 0.5]],
        [[1.0, 1.0], [1.0, 1.0]],
        [[4.0, 0.0], [0.0, 0.0]],
        [[0.0, 0.0], [0.0, 0.0]],
        [[1.0, 0.999999e-8], [0.999999e-8, 1e-16]],
        [[1e-300, 0.0], [0.0, 1e300]],
    ],
    ids=["regular", "singular", "one element", "nothing", "badly scaled", "extreme"],
)
def test_the_square_root_gives_the_matrix_back(matrix):
    matrix = np.array(matrix)
    root = square_root(matrix)
    size = np.sqrt(np.diag(matrix))
    assert (np.abs(root @ root.T - matrix) <= 1e-14 * np.outer(size, size)).all()


def test_square_roots_come_in_batches():
    rng = np.random.default_rng(2)
    factors = rng.normal(size=(4, 5, 3, 2))  # of rank two
    matrices = factors @ factors.mT
    roots = square_root(matrices)
    assert_allclose(roots @ roots.mT, matrices, atol=1e-13)
    deviates = rng.normal(size=(4, 5, 3))
    assert_allclose(correlate(roots, deviates)[2, 3], roots[2, 3] @ deviates[2, 3], rtol=1e-13)
