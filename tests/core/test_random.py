"""Random numbers: standard normal, uniform, and the same for a run alone and in a batch. Every seed is fixed."""

import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy.stats import chi2, kstest, norm

from paoswarm.core.random import Draw, generator, spawn


def draw(seed=11):
    return Draw([np.random.default_rng(seed)], ())


def test_normal_deviates_are_standard_normal():
    z = draw(5).normal(2_000_000).astype(float)
    n = len(z)
    assert kstest(z[:500_000], "norm").pvalue > 1e-4
    # Raw moments 0, 1, 0, 3 and tails at five standard errors: with the above, false alarms 1e-4.
    for power, expected, variance in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)):
        assert abs((z**power).mean() - expected) < 5 * np.sqrt(variance / n)
    for tail in (2.0, 3.0, 4.0):
        p = 2 * norm.sf(tail)
        assert abs((np.abs(z) > tail).mean() - p) < 5 * np.sqrt(p / n)


BIT_GENERATORS = [np.random.PCG64, np.random.PCG64DXSM, np.random.Philox, np.random.SFC64, np.random.MT19937]


@pytest.mark.parametrize("bits", BIT_GENERATORS)
def test_any_generator_will_do(bits):
    source = Draw([np.random.Generator(bits(5))], ())
    # False alarms: 10 p-values at 1e-4, 0.1 %.
    assert kstest(source.normal(20_000), "norm").pvalue > 1e-4
    assert kstest(source.uniform(20_000), "uniform").pvalue > 1e-4


def test_small_draws_are_as_normal_as_large_ones():
    source = draw()
    z = np.concatenate([source.normal(2, 3, 1).ravel() for _ in range(5000)])
    assert kstest(z, "norm").pvalue > 1e-4  # false alarms 1e-4


def test_deviates_do_not_depend_on_each_other():
    source = draw(2)
    z = np.array([source.normal(2, 10) for _ in range(20_000)], dtype=float).reshape(-1, 20)
    n = len(z)
    limit = norm.isf(1e-7) / np.sqrt(n)
    # Correlations of z, z^2 and |z| between all places of a draw, the two halves of a pair among them, and with the
    # draw before. 3 (190 + 400) numbers, two-sided 2e-7 each: false alarms 4e-4.
    for part in (z, z**2, np.abs(z)):
        standard = (part - part.mean(axis=0)) / part.std(axis=0)
        within = standard.T @ standard / n
        assert np.abs(within[np.triu_indices(20, 1)]).max() < limit
        assert np.abs(standard[1:].T @ standard[:-1] / n).max() < limit


def test_the_two_halves_of_a_pair_are_a_round_cloud():
    source = draw(3)
    first, second = source.normal(2, 100_000).astype(float)
    squares, angle = first**2 + second**2, np.arctan2(second, first)
    assert kstest(squares, chi2(2).cdf).pvalue > 1e-4  # false alarms of the three: 3e-4
    assert kstest(angle / (2 * np.pi) + 0.5, "uniform").pvalue > 1e-4
    assert abs(np.corrcoef(squares, angle)[0, 1]) < 4 / np.sqrt(len(angle))


def test_streams_of_different_runs_are_independent():
    source = Draw([np.random.default_rng(s) for s in spawn(1, 2)], (2,))
    a, b = source.normal(100_000).astype(float)
    assert abs(np.corrcoef(a, b)[0, 1]) < 4 / np.sqrt(len(a))  # false alarms 6e-5


def test_uniform_deviates_are_uniform_below_one():
    u = draw().uniform(100_000)
    assert u.dtype == np.float64
    assert u.min() >= 0
    assert u.max() < 1
    assert kstest(u, "uniform").pvalue > 1e-4  # false alarms 1e-4


def test_the_largest_word_is_below_one_and_the_smallest_is_finite(monkeypatch):
    for word in (0, 2**64 - 1, 0xFFFFFFFF, 0xFFFFFFFF00000000):

        def always(sources, count, word=word):
            return np.full((len(sources), count), word, dtype=np.uint64)

        monkeypatch.setattr("paoswarm.core.random._words", always)
        assert 0 <= draw().uniform(1)[0] < 1
        assert np.isfinite(draw().normal(7)).all()
        assert np.abs(draw().normal(7)).max() < 6.8


@pytest.mark.parametrize("shape", [(2, 50, 8), (2, 5, 3), (100, 100), (3, 3, 3)])
def test_run_r_alone_is_run_r_in_a_batch(shape):
    seeds = spawn(7, 4)
    batch = Draw([generator(s) for s in seeds], (4,))
    alone = [Draw([generator(s)], ()) for s in seeds]
    for _ in range(9000 // np.prod(shape) + 2):  # beyond one stock of deviates, kinds and shapes interleaved
        for kind, size in (("normal", shape), ("uniform", shape), ("normal", shape[1:]), ("uniform", (1,))):
            together = getattr(batch, kind)(*size)
            assert together.shape == (4, *size)
            for r in range(4):
                assert_array_equal(together[r], getattr(alone[r], kind)(*size))


def test_deviates_that_are_drawn_ahead_take_no_more_memory_than_those_that_were_used():
    """Searches whose swarms grow ask for hundreds of shapes, most of them a few times."""
    one = draw()
    tracemalloc.start()
    try:
        used = sum(8 * one.normal(n, 5).size for n in range(50, 450) for _ in range(3))
        kept = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert kept < used


def test_no_deviate_is_handed_out_twice():
    source = draw()
    seen = np.concatenate([source.normal(*shape).ravel() for _ in range(300) for shape in ((4, 5), (20,), (5, 4))])
    assert len(np.unique(seen)) > 0.995 * len(seen)  # single precision: a few of 18 000 agree by chance


def test_the_number_of_streams_must_fill_the_batch():
    with pytest.raises(ValueError, match=r"\(3,\) .* got 2"):
        Draw([np.random.default_rng(1)] * 2, (3,))


def test_the_same_seed_gives_the_same_stream():
    for seed in (5, np.int64(5), np.random.SeedSequence(5), np.random.default_rng(5)):
        assert_array_equal(generator(seed).random(3), np.random.default_rng(5).random(3))
    assert generator(None).random() != generator(None).random()


def test_a_generator_is_used_as_it_is():
    rng = np.random.default_rng(5)
    assert generator(rng) is rng


def test_a_seed_sequence_is_not_consumed():
    seed = np.random.SeedSequence(5)
    first = [generator(s).random() for s in spawn(seed, 3)]
    seed.spawn(2)
    assert [generator(s).random() for s in spawn(seed, 3)] == first
    assert seed.n_children_spawned == 2
    assert generator(seed).random() == generator(seed).random()


def test_a_child_of_a_seed_sequence_is_another_seed():
    mother = np.random.SeedSequence(5)
    one, two = mother.spawn(2)
    numbers = {generator(s).random() for s in (mother, one, two)} | {generator(s).random() for s in spawn(one, 2)}
    assert len(numbers) == 5


def test_run_r_has_the_same_seed_in_a_larger_batch():
    assert [s.spawn_key for s in spawn(3, 2)] == [s.spawn_key for s in spawn(3, 5)][:2]


@pytest.mark.parametrize("bad", ["1", 1.5, [1, 2], np.random.RandomState(1)])
def test_a_bad_seed_is_refused(bad):
    with pytest.raises(TypeError, match=f"rng must be .* got {type(bad).__name__}"):
        generator(bad)


def test_numpys_global_state_is_left_alone():
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    generator(None)
    draw().normal(10)
    assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002


def test_a_generator_set_up_by_key_can_be_spawned_from():
    seeds = spawn(np.random.Generator(np.random.Philox(key=1)), 3)
    words = {tuple(seed.generate_state(2)) for seed in seeds}
    assert len(words) == 3


@pytest.mark.parametrize("kind", ["normal", "uniform"])
def test_a_single_deviate_of_a_single_run_is_a_number(kind):
    assert getattr(Draw([np.random.default_rng(1)], ()), kind)().shape == ()
