"""The random numbers of compiled engines: published vectors, independence of place, and their laws."""

import numpy as np
import pytest
from scipy import stats

from paoswarm.engines import counter

KEY = counter.run_key(np.random.SeedSequence(7))


@pytest.mark.parametrize(
    ("low", "high", "key", "expected"),
    [  # the known answers that come with Random123
        (0x00000000, 0x00000000, 0x00000000, (0xFF1DAE59, 0x6CD10DF2)),
        (0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF, (0x2C3F628B, 0xAB4FD7AD)),
        (0x243F6A88, 0x85A308D3, 0x13198A2E, (0xDD7CE038, 0xF62A4C12)),
    ],
)
def test_philox_has_its_published_answers(low, high, key, expected):
    found = counter.philox(*(np.array([word], dtype=np.uint32) for word in (low, high, key)))
    assert tuple(int(word[0]) for word in found) == expected


def test_a_child_of_a_seed_has_the_same_key_alone_and_among_its_siblings():
    seed = np.random.SeedSequence(5)
    together = counter.run_keys(seed, 20)
    alone = [counter.run_key(child) for child in np.random.SeedSequence(5).spawn(20)]
    np.testing.assert_array_equal(together, alone)
    assert len(np.unique(together, axis=0)) == 20


def test_deviates_do_not_depend_on_other_runs_or_on_more_particles():
    keys = counter.run_keys(np.random.SeedSequence(1), 3)
    together = counter.normals(keys, 4, 10, 3)
    np.testing.assert_array_equal(together[1], counter.normals(keys[1], 4, 10, 3))
    np.testing.assert_array_equal(together[..., :6, :], counter.normals(keys, 4, 6, 3))
    assert (together != counter.normals(keys, 5, 10, 3)).all()


def test_deviates_are_normal_and_independent():
    """Eight tests at 1e-4: a false alarm in about one of a thousand seeds."""
    keys = counter.run_keys(np.random.SeedSequence(3), 40)
    tables = np.stack([counter.normals(keys, t, 50, 10) for t in range(1, 11)])  # 10 generations, 40 runs
    d1, d2 = tables[:, :, 0].ravel(), tables[:, :, 1].ravel()
    assert all(stats.kstest(part, "norm").pvalue > 1e-4 for part in (d1, d2))
    limit = stats.norm.isf(0.5e-4) / np.sqrt(d1.size)
    assert abs(np.mean(d1 * d2)) < limit
    for axis in (0, 1, 3, 4):  # neighbours in generation, run, particle and unknown
        first, second = np.moveaxis(tables, axis, 0)[:-1], np.moveaxis(tables, axis, 0)[1:]
        assert abs(np.mean(first * second)) < stats.norm.isf(0.5e-4) / np.sqrt(first.size)
    assert abs(np.mean(d1**2 * d2**2) - 1) < stats.norm.isf(0.5e-4) * np.sqrt(8 / d1.size)


@pytest.mark.parametrize("n", [2, 3, 7, 16, 17, 100, 1000])
def test_the_first_swarm_has_one_particle_in_every_stratum(n):
    lower, upper = np.array([-1.0, 0.0, 10.0]), np.array([1.0, 5.0, 30.0])
    keys = counter.run_keys(np.random.SeedSequence(2), 4)
    x = counter.first_points(keys, n, lower, upper)
    strata = np.floor((x - lower) / (upper - lower) * n).astype(int)
    np.testing.assert_array_equal(np.sort(strata, axis=-2), np.broadcast_to(np.arange(n)[:, None], x.shape))
    if n >= 16:  # and the permutations differ between unknowns and runs
        assert len({tuple(column) for column in np.moveaxis(strata, -2, -1).reshape(-1, n)}) == 12


def test_permutations_are_uniform():
    """Where each of five numbers goes, over 3000 keys; chi-square with a false-alarm rate of 1e-4."""
    keys = counter.run_keys(np.random.SeedSequence(9), 3000)
    places = counter.permuted(np.arange(5, dtype=np.uint32)[:, None], 5, keys[:, 0], keys[:, 1])
    counts = np.stack([np.bincount(row, minlength=5) for row in places])
    assert stats.chisquare(counts.ravel(), ddof=8).pvalue > 1e-4
    orders = {tuple(column) for column in places.T}
    assert len(orders) == 120
