"""The law of dense swarms with many unknowns: what it is, and how it is learnt."""

import math
import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_allclose

import paoswarm as ps
from paoswarm.methods import low_rank, quadratic_model
from paoswarm.methods.dense_learning import (
    DenseLaw,
    draws,
    learn,
    longest,
    placed,
    rates,
    rates_of,
    variances,
    whitening,
)
from paoswarm.methods.low_rank import LowRankLaw, first_low_rank_law, low_rank_rates, projected, straightened


def taught(d, n, generations, rng, cost):
    """A law after generations that were ranked by a cost."""
    law = first_low_rank_law(rng.normal(size=d), 0.3)
    for _ in range(generations):
        x = draws(law, rng.normal(size=(n, d)))
        law = learn(law, rates_of(law, n), x[np.argsort(cost(x))])
    return law


def valley(x):
    """A turned ellipsoid."""
    turn = np.linalg.qr(np.random.default_rng(8).normal(size=(x.shape[1],) * 2))[0]
    return np.square(x @ turn) @ 10.0 ** (3 * np.linspace(0, 1, x.shape[1]))


@pytest.fixture(scope="module")
def law():
    return taught(12, 10, 40, np.random.default_rng(1), valley)


def covariance(law):
    """The covariance, written as a matrix (A18)."""
    inner = np.eye(len(law.centre)) + law.directions @ np.diag(law.stretches**2 - 1) @ law.directions.T
    return law.scale**2 * np.diag(law.lengths) @ inner @ np.diag(law.lengths)


def test_steps_have_the_covariance_of_the_law(law):
    assert law.stretches.max() > 1.5, "a round law would prove nothing"
    basis = np.eye(12)
    root = (draws(law, basis) - law.centre).T
    assert_allclose(root @ root.T, covariance(law), rtol=1e-12, atol=1e-15)
    assert_allclose(law.factor, root, rtol=1e-12, atol=1e-15)
    assert_allclose(law.scale**2 * variances(law), np.diag(covariance(law)), rtol=1e-12)
    assert_allclose(straightened(law, root.T / law.scale), basis, atol=1e-12)
    assert_allclose(law.directions.T @ law.directions, np.eye(4), atol=1e-12)
    assert_allclose(math.prod(law.lengths), 1, rtol=1e-12)


def test_the_longest_deviation_is_that_of_coordinates_and_directions(law):
    exact = math.sqrt(np.linalg.eigvalsh(covariance(law)).max())
    assert math.sqrt(np.diag(covariance(law)).max()) <= longest(law) <= exact * (1 + 1e-12)
    round_one = law._replace(lengths=np.ones(12))
    assert_allclose(longest(round_one), law.scale * law.stretches.max(), rtol=1e-12)


def test_coordinates_of_the_model_are_scaled_axes(law):
    u = np.random.default_rng(2).normal(size=12)
    x = placed(law, u)
    assert_allclose(quadratic_model.seen(x[None], law.centre, whitening(law))[0], u, rtol=1e-12)
    assert np.flatnonzero(np.abs(placed(law, np.eye(12)[3]) - law.centre) > 1e-15).tolist() == [3]


def full_update(law, by, x):
    """Hansen's update of the full covariance, as sums over particles; the steps are those of the law."""
    d, y = len(law.centre), (x - law.centre) / law.scale
    matrix = covariance(law) / law.scale**2
    mean = by.pulls @ y[: len(by.pulls)]
    c, mu = by.path_scale, by.effective
    inverse_root = np.linalg.inv(law.factor / law.scale)
    path_scale = (1 - c) * law.path_scale + np.sqrt(c * (2 - c) * mu) * inverse_root @ mean
    path = (1 - by.path) * law.path + np.sqrt(by.path * (2 - by.path) * mu) * mean
    weights = [w if w >= 0 else w * d / (y[i] @ np.linalg.solve(matrix, y[i])) for i, w in enumerate(by.weights)]
    after = (1 - by.rank_one - by.rank_many * by.weights.sum()) * matrix + by.rank_one * np.outer(path, path)
    after = after + by.rank_many * sum(w * np.outer(v, v) for w, v in zip(weights, y, strict=True))
    growth = by.path_scale / by.damping_scale * (np.linalg.norm(path_scale) / by.length - 1)
    return law.centre + law.scale * mean, law.scale**2 * np.exp(2 * growth) * after


def test_if_all_directions_but_one_are_kept_the_update_is_the_full_one():
    """Five unknowns have four directions and a last one, whose length is the unit."""
    rng, d, n = np.random.default_rng(3), 5, 9
    law = first_low_rank_law(rng.normal(size=d), 0.7)
    for _ in range(6):
        x = draws(law, rng.normal(size=(n, d)))
        after = learn(law, rates_of(law, n), x)
        centre, expected = full_update(law, rates_of(law, n), x)
        assert_allclose(after.centre, centre, rtol=1e-12)
        assert_allclose(covariance(after), expected, rtol=1e-9, atol=1e-12 * np.trace(expected))
        law = after
    assert law.stretches.max() > 1.05


def test_the_variances_of_coordinates_are_those_of_the_full_update(law):
    """However few directions are kept; the negative control keeps the directions and not the variances."""
    x = draws(law, np.random.default_rng(4).normal(size=(10, 12)))
    after = learn(law, rates_of(law, 10), x)
    _, expected = full_update(law, rates_of(law, 10), x)
    assert_allclose(np.diag(covariance(after)), np.diag(expected), rtol=1e-10)
    assert np.abs(np.diag(covariance(after._replace(lengths=law.lengths))) / np.diag(expected) - 1).max() > 1e-3


@pytest.mark.parametrize(("d", "radius"), [(12, 12**0.5), (50, 50**0.5), (51, 50**0.5), (800, 50**0.5)])
def test_the_first_cloud_does_not_grow_with_the_unknowns(d, radius):
    """The root of the mean squared distance of its points from the centre."""
    law = first_low_rank_law(np.zeros(d), 0.2)
    assert_allclose(math.sqrt(np.square(law.factor).sum()), 0.2 * radius, rtol=1e-12)


def test_a_matrix_of_this_form_is_its_own_projection():
    rng, d = np.random.default_rng(5), 9
    directions = np.linalg.qr(rng.normal(size=(d, 4)))[0]
    amounts = np.array([0.3, 2.0, 5.0, 40.0])
    for columns, w in [(directions, amounts), (np.hstack((directions, directions)), np.tile(amounts / 2, 2))]:
        lengths, found, stretches = projected(0.8, columns, w, 4)
        scaled = lengths[:, None] * (np.eye(d) + (found * (stretches**2 - 1)) @ found.T) * lengths
        assert_allclose(scaled, 0.8 * np.eye(d) + (directions * amounts) @ directions.T, rtol=1e-12, atol=1e-12)
        assert_allclose(stretches, np.sqrt(1 + amounts / 0.8), rtol=1e-12)


def test_units_and_order_of_the_unknowns_change_nothing():
    """Scaled, mirrored and exchanged axes: the law that is learnt is scaled, mirrored and exchanged."""
    d, n = 8, 9
    rng = np.random.default_rng(6)
    order, factor = rng.permutation(d), rng.choice([-1.0, 1.0], d) * 10 ** rng.uniform(-3, 3, d)
    one = first_low_rank_law(np.zeros(d), 0.5)
    size = math.exp(np.log(np.abs(factor)).mean())
    other = one._replace(scale=0.5 * size, lengths=np.abs(factor) / size)
    for _ in range(10):
        x = draws(one, rng.normal(size=(n, d)))
        one = learn(one, rates_of(one, n), x)
        other = learn(other, rates_of(other, n), x[:, order] * factor)
    turned = covariance(one)[np.ix_(order, order)] * np.outer(factor, factor)
    assert_allclose(
        covariance(other) / np.outer(factor, factor), turned / np.outer(factor, factor), rtol=1e-7, atol=1e-9
    )


@pytest.mark.parametrize(("n", "d"), [(16, 60), (21, 320), (64, 80), (2, 51)])
def test_constants_follow_the_count_of_numbers_to_learn(n, d):
    by, full = low_rank_rates(n, d, 4), rates(n, d)
    assert_allclose(by.rank_one / full.rank_one, (d + 2) / 6)
    assert_allclose(by.rank_many / full.rank_many, (d + 2) / 6)
    assert by.rank_one + by.rank_many < 1
    # The update keeps the covariance positive: a negative weight takes at most d units of squared length.
    taken = -by.weights[by.weights < 0].sum() * by.rank_many * d
    assert taken <= 1 - by.rank_one - by.rank_many + 1e-12


def test_the_law_of_a_sphere_stays_round():
    """The directions are the longest ones that chance offers; the values keep them short."""
    law = taught(60, 16, 1000, np.random.default_rng(7), lambda x: np.square(x).sum(axis=1))
    assert law.lengths.max() / law.lengths.min() < 2
    assert law.stretches.max() < 2


def test_the_long_axis_of_a_turned_valley_becomes_a_direction():
    d = 60
    axis = np.linalg.qr(np.random.default_rng(9).normal(size=(d, 1)))[0][:, 0]
    law = taught(
        d, 16, 800, np.random.default_rng(10), lambda x: 1e6 * np.square(x).sum(1) - (1e6 - 1) * (x @ axis) ** 2
    )
    along = axis @ covariance(law) @ axis
    across = (np.trace(covariance(law)) - along) / (d - 1)
    assert along > 100**2 * across


def test_positions_that_have_overflowed_end_the_search(law):
    with np.errstate(invalid="ignore", over="ignore"):
        after = learn(law, rates_of(law, 10), np.full((10, 12), 1e300))
    assert after.is_singular
    assert np.isfinite(after.lengths).all()


def test_no_array_has_the_size_of_a_covariance():
    d, n = 3000, 28
    law = taught(d, n, 2, np.random.default_rng(11), lambda x: np.square(x).sum(axis=1))
    normal = np.random.default_rng(12).normal(size=(n, d))
    tracemalloc.start()
    learn(law, rates_of(law, n), draws(law, normal))
    whitening(law), longest(law), placed(law, normal[0])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.2 * 8 * d * d


@pytest.mark.parametrize(("d", "kind"), [(low_rank.MANY, DenseLaw), (low_rank.MANY + 1, LowRankLaw)])
def test_the_count_of_unknowns_chooses_the_law(d, kind):
    optimizer = ps.Optimizer([(-1, 1)] * d, method=ps.DensePAO(), n_particles=16, rng=1)
    for _ in range(3):
        optimizer.tell(np.square(optimizer.ask()).sum(axis=1))
    law = optimizer.swarm.memory.law
    assert isinstance(law, kind)
    factor = optimizer.method.step_law(optimizer.swarm).factor[0]
    assert_allclose(factor, 2 * law.factor, rtol=1e-12)  # in units of the bounds


def test_independent_unknowns_are_solved_with_few_evaluations():
    """An ellipsoid with 80 unknowns: the model has squares only, in the unknowns' own axes; measured 14 for each."""
    scales = 10.0 ** (6 * np.linspace(0, 1, 80))
    result = ps.minimize(
        lambda x: np.square(x - 0.3) @ scales, [(-5, 5)] * 80, method=ps.DensePAO(), target=1e-8, maxfev=25 * 80,
        vectorized=True, rng=1,
    )  # fmt: skip
    assert result.fun <= 1e-8


def test_compiled_engines_refuse_many_unknowns():
    with pytest.raises(ValueError, match=r"up to 50 unknowns, got 51; use engine='numpy'"):
        ps.minimize(lambda x: x[0] ** 2, [(-1, 1)] * 51, engine="numba", maxfev=100)
