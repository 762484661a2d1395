"""What a posterior says about itself, against numbers computed by hand."""

import math

import numpy as np
import pytest

from paoswarm.sampling.posterior import Posterior


def posterior(draws, weights, **more):
    facts = {
        "names": [f"x{i}" for i in range(np.shape(draws)[1])],
        "draws": np.asarray(draws, dtype=float),
        "log_weights": np.log(np.asarray(weights, dtype=float)),
        "log_evidence": -12.5,
        "log_evidence_error": 0.03,
        "n_evaluations": 400,
        "n_failed": 0,
        "method": "importance",
        "diagnostics": {"pareto_k": 0.2, "effective_size": 2.5},
    }
    return Posterior(**(facts | more))


@pytest.fixture
def four():
    """First values 0, 1, 2, 4 with weights 0.1, 0.2, 0.3, 0.4 (times 1e-200); the second is four minus the first."""
    return posterior([[4, 0], [0, 4], [2, 2], [1, 3]], np.array([0.4, 0.1, 0.3, 0.2]) * 1e-200)


def test_weights_sum_to_one_whatever_their_scale(four):
    np.testing.assert_allclose(four.weights, [0.4, 0.1, 0.3, 0.2], rtol=1e-12)
    assert four.weights.sum() == pytest.approx(1.0, abs=1e-15)
    assert four.effective_size == pytest.approx(1 / 0.3)
    huge = posterior([[0.0], [1.0]], [1.0, 3.0])
    shifted = posterior([[0.0], [1.0]], [1.0, 3.0], log_weights=huge.log_weights + 5000)
    np.testing.assert_allclose(shifted.weights, huge.weights)


def test_moments_by_hand(four):
    """Mean 1.6 + 0.6 + 0.2 = 2.4; mean square 6.4 + 1.2 + 0.2 = 7.8; variance 2.04; the second is four minus it."""
    np.testing.assert_allclose(four.mean(), [2.4, 1.6])
    np.testing.assert_allclose(four.covariance(), [[2.04, -2.04], [-2.04, 2.04]])
    np.testing.assert_allclose(four.std(), math.sqrt(2.04))


@pytest.mark.parametrize(
    ("share", "expected"),
    [(0, [0, 0]), (0.05, [0, 0]), (0.25, [1, 0]), (0.45, [2, 2]), (0.65, [4, 2]), (0.85, [4, 3]), (1, [4, 4])],
)
def test_quantiles_by_hand(four, share, expected):
    np.testing.assert_array_equal(four.quantile(share), expected)


def test_intervals_are_pairs_of_quantiles(four):
    low, high = four.interval(0.7)
    np.testing.assert_array_equal(low, four.quantile(0.15))
    np.testing.assert_array_equal(high, four.quantile(0.85))
    np.testing.assert_array_equal(low, [1, 0])


def test_intervals_of_many_draws_are_those_of_the_law():
    """The mass of a normal law up to its sample quantile is beta distributed: |z| < 4 in both ends, 1.3e-4."""
    n = 10_000
    x = np.random.default_rng(1).normal(3, 2, (n, 1))
    low, high = posterior(x, np.full(n, 1 / n)).interval(0.9)
    density = math.exp(-0.5 * 1.6449**2) / math.sqrt(2 * math.pi) / 2
    error = math.sqrt(0.05 * 0.95 / n) / density
    assert abs(low[0] - (3 - 2 * 1.6449)) < 4 * error
    assert abs(high[0] - (3 + 2 * 1.6449)) < 4 * error


@pytest.mark.parametrize("share", [-0.1, 1.1, math.nan])
def test_a_bad_share_is_refused(four, share):
    with pytest.raises(ValueError, match=f"share must lie between 0 and 1, got {share}"):
        four.quantile(share)


@pytest.mark.parametrize("level", [0, 1, -0.5, 95, math.nan])
def test_a_bad_level_is_refused(four, level):
    with pytest.raises(ValueError, match=f"level must lie between 0 and 1, got {level}"):
        four.interval(level)


def test_resampling_is_unbiased(four):
    """Counts of 2000 resamplings of 7: each mean count within 4 standard errors, 2.4e-4 for four of them."""
    counts = np.array([[(four.resample(7, seed)[:, 0] == x).sum() for x in (4, 0, 2, 1)] for seed in range(2000)])
    error = counts.std(axis=0) / math.sqrt(len(counts))
    assert (np.abs(counts.mean(axis=0) - 7 * four.weights) < 4 * error).all()
    assert (np.abs(counts - 7 * four.weights) < 1).all()  # systematic: no count is off by one or more


def test_resampled_rows_are_whole_and_in_random_order(four):
    x = four.resample(400, 2)
    np.testing.assert_array_equal(x.sum(axis=1), 4)
    position = np.arange(400)
    for value in (0.0, 4.0):  # a count's mean place, |z| < 4: 1.3e-4 for both
        place = position[x[:, 0] == value]
        error = 400 / math.sqrt(12 * len(place))
        assert abs(place.mean() - 199.5) < 4 * error


def test_resampling_repeats_with_the_seed(four):
    np.testing.assert_array_equal(four.resample(50, 3), four.resample(50, 3))
    assert (four.resample(50, 3) != four.resample(50, 4)).any()


def test_predictions_are_of_resampled_parameters(four):
    found = four.predict(lambda x: [x[0], x[0] * x[1], 1.0], 60, rng=5)
    x = four.resample(60, 5)
    np.testing.assert_array_equal(found, np.stack([x[:, 0], x[:, 0] * x[:, 1], np.ones(60)], axis=1))
    assert four.predict(lambda x: x[0] + x[1], rng=5).shape == (1000,)


def test_comparison_by_hand(four):
    """Odds of e^2 to one; errors 0.03 and 0.04 make 0.05."""
    other = posterior([[1.0]], [1.0], log_evidence=-14.5, log_evidence_error=0.04)
    found = four.compare(other)
    assert found.log_bayes_factor == pytest.approx(2.0)
    assert found.error == pytest.approx(0.05)
    assert found.probability == pytest.approx(math.e**2 / (1 + math.e**2))
    assert "2.000 +- 0.05" in str(found)


@pytest.mark.parametrize("difference", [0.3, 30.0, 1e3, 1e6])
def test_comparison_is_antisymmetric_and_does_not_overflow(difference):
    a = posterior([[1.0]], [1.0], log_evidence=difference)
    b = posterior([[1.0]], [1.0], log_evidence=0.0)
    there, back = a.compare(b), b.compare(a)
    assert there.log_bayes_factor == -back.log_bayes_factor == difference
    assert there.error == back.error
    assert there.probability + back.probability == pytest.approx(1.0, abs=1e-15)
    assert 0 <= back.probability < 0.5 < there.probability <= 1


def test_an_unknown_error_stays_unknown_in_a_comparison(four):
    assert four.compare(posterior([[1.0]], [1.0], log_evidence_error=math.inf)).error == math.inf


def test_datatree(four):
    pytest.importorskip("arviz_base", reason="arviz-base is not installed")
    named = posterior(four.draws, four.weights, names=["rate", "shift"], n_failed=3)
    tree = named.to_datatree(250, rng=6)
    group = tree["posterior"]
    assert set(group.data_vars) == {"rate", "shift"}
    np.testing.assert_array_equal(group["rate"].values, named.resample(250, 6)[None, :, 0])
    np.testing.assert_array_equal(group["shift"].values, named.resample(250, 6)[None, :, 1])
    expected = {
        "inference_library": "paoswarm",
        "method": "importance",
        "log_evidence": -12.5,
        "log_evidence_error": 0.03,
        "n_evaluations": 400,
        "n_failed": 3,
        "pareto_k": 0.2,
        "effective_size": 2.5,
    }
    assert {name: tree.attrs[name] for name in expected} == expected


def test_datatree_has_as_many_draws_as_they_are_worth(four):
    pytest.importorskip("arviz_base", reason="arviz-base is not installed")
    assert four.to_datatree(rng=7)["posterior"].sizes["draw"] == int(1 / 0.3)


def test_text_names_every_parameter_and_number(four):
    named = posterior(four.draws, four.weights, names=["rate", "s"], n_failed=3, message="look here")
    lines = str(named).splitlines()
    assert (
        lines[0]
        == "log evidence -12.5000 +- 0.03; 3 effective draws from 400 evaluations, 3 of them failed (importance)"
    )
    assert lines[1] == "  rate  2.4 +- 1.4   95 % 0 to 4"
    assert lines[2] == "  s     1.6 +- 1.4   95 % 0 to 4"
    assert lines[3:] == ["look here"]


def test_text_without_an_error_says_so(four):
    text = str(posterior(four.draws, four.weights, log_evidence_error=math.inf))
    assert "error not stated" in text
    assert "failed" not in text
    assert "inf" not in text
