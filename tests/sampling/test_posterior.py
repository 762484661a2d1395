"""What a posterior says about itself, against numbers computed by hand."""

import dataclasses
import math
import sys
from importlib.util import find_spec

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from paoswarm.sampling.posterior import Posterior
from paoswarm.sampling.weighted_draws import WeightedDraws


def posterior(draws, weights, log_likelihood=None, log_prior=None, **more):
    draws, log_weights = np.asarray(draws, dtype=float), np.log(np.asarray(weights, dtype=float))
    facts = {
        "names": [f"x{i}" for i in range(draws.shape[1])],
        "weighted": WeightedDraws(draws, log_weights, log_likelihood, log_prior),
        "log_evidence": -12.5,
        "log_evidence_error": 0.03,
        "n_evaluations": 400,
        "n_failed": 0,
        "method": "importance",
        "diagnostics": {"pareto_k": 0.2},
    }
    return Posterior(**(facts | more))


@pytest.fixture
def four():
    """First values 0, 1, 2, 4 with weights 0.1, 0.2, 0.3, 0.4 (times 1e-200); the second is four minus the first."""
    return posterior([[4, 0], [0, 4], [2, 2], [1, 3]], np.array([0.4, 0.1, 0.3, 0.2]) * 1e-200)


def test_weights_sum_to_one_whatever_their_scale(four):
    np.testing.assert_allclose(four.weighted.weights, [0.4, 0.1, 0.3, 0.2], rtol=1e-12)
    assert four.weighted.weights.sum() == pytest.approx(1.0, abs=1e-15)
    assert four.effective_size == pytest.approx(1 / 0.3)
    forgetful = dataclasses.replace(four, diagnostics={"effective_size": 2.5})  # by what moves failed to forget
    assert forgetful.effective_size == 2.5
    one = four.weighted
    shifted = WeightedDraws(one.draws, one.log_weights + 5000)
    np.testing.assert_allclose(shifted.weights, one.weights)


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
    with pytest.raises(ValueError, match=f"share .* got {share}"):
        four.quantile(share)


@pytest.mark.parametrize("level", [0, 1, -0.5, 95, math.nan])
def test_a_bad_level_is_refused(four, level):
    with pytest.raises(ValueError, match=f"level .* got {level}"):
        four.interval(level)


def test_resampling_is_unbiased(four):
    """Counts of 2000 resamplings of 7: each mean count within 4 standard errors, 2.4e-4 for four of them."""
    counts = np.array([[(four.resample(7, seed)[:, 0] == x).sum() for x in (4, 0, 2, 1)] for seed in range(2000)])
    error = counts.std(axis=0) / math.sqrt(len(counts))
    assert (np.abs(counts.mean(axis=0) - 7 * four.weighted.weights) < 4 * error).all()
    assert (np.abs(counts - 7 * four.weighted.weights) < 1).all()  # systematic: no count is off by one or more


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


def test_draws_have_equal_weight():
    """What any tool computes from them is right: mean and deviation within 4 standard errors, false alarm 2.5e-4.

    Without the weights, the deviation would be 1.5.
    """
    known = weighted()
    n = len(known.draws)
    assert n == int(known.effective_size)
    assert (np.abs(known.draws.mean(axis=0)) < 4 / math.sqrt(n)).all()
    assert (np.abs(known.draws.std(axis=0) - 1) < 4 / math.sqrt(2 * n)).all()
    assert (known.weighted.draws.std(axis=0) > 1.4).all()


def test_draws_say_how_many_of_them_differ(four):
    """Three systematic draws of weights 0.4, 0.3, 0.2, 0.1 take the first at least once and at most twice."""
    many = [dataclasses.replace(four, seed=seed) for seed in range(50)]
    assert {len(one.draws) for one in many} == {3}
    assert {one.n_distinct for one in many} == {len({tuple(x) for x in one.draws}) for one in many} == {2, 3}
    alone = posterior([[1.0], [2.0]], [1.0, 1e-12])
    np.testing.assert_array_equal(alone.draws, [[1.0], [1.0]])
    assert alone.n_distinct == 1


def test_draws_are_decided_by_the_seed(four):
    known = weighted(300)
    np.testing.assert_array_equal(known.draws, known.draws)
    np.testing.assert_array_equal(known.draws, dataclasses.replace(known).draws)
    assert (known.draws != dataclasses.replace(known, seed=1).draws).any()


def test_densities_belong_to_the_draws():
    known = weighted(300)
    half = stats.norm(0, math.sqrt(2)).logpdf(known.draws).sum(axis=1)
    np.testing.assert_allclose(known.log_likelihood, half)
    np.testing.assert_allclose(known.log_prior, half)
    unknown = weighted(300, log_likelihood=None, log_prior=None)
    assert unknown.log_likelihood is None
    assert unknown.log_prior is None


def test_a_dataframe_has_the_draws_and_names():
    pytest.importorskip("pandas")
    known = weighted(300, names=["rate", "shift"])
    frame = known.to_dataframe()
    assert list(frame.columns) == ["rate", "shift"]
    np.testing.assert_array_equal(frame.to_numpy(), known.draws)
    everything = known.to_dataframe(weighted=True)
    assert list(everything.columns) == ["rate", "shift", "weight"]
    np.testing.assert_allclose(everything["weight"] @ everything[["rate", "shift"]], known.mean())
    with pytest.raises(ValueError, match="'weight'"):
        weighted(300, names=["weight", "height"]).to_dataframe(weighted=True)


def test_without_pandas_the_error_says_what_to_install(four, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"to_dataframe needs pandas.*paoswarm\[dataframe\]"):
        four.to_dataframe()


def test_predictions_are_of_resampled_parameters(four):
    found = four.predict(lambda x: [x[0], x[0] * x[1], 1.0], 60, rng=5)
    x = four.resample(60, 5)
    np.testing.assert_array_equal(found, np.stack([x[:, 0], x[:, 0] * x[:, 1], np.ones(60)], axis=1))
    assert four.predict(lambda x: x[0] + x[1], rng=5).shape == (1000,)


def test_predictions_of_all_parameters_at_once_are_those_one_by_one(four):
    one = four.predict(lambda x: [x[0], x[1] ** 2], 60, rng=5)
    np.testing.assert_array_equal(
        four.predict(lambda x: np.stack([x[:, 0], x[:, 1] ** 2], axis=1), 60, rng=5, vectorized=True), one
    )
    with pytest.raises(ValueError, match=r"\(60, 2\) to \(60, ...\).* \(2, 60\)"):
        four.predict(np.transpose, 60, vectorized=True)


@pytest.mark.parametrize("n", [0, -1, 2.5, True])
def test_a_bad_number_of_draws_is_refused(four, n):
    for call in (four.resample, four.to_datatree, lambda n: four.predict(np.sum, n)):
        with pytest.raises(ValueError, match=f"n must be .* got {n}"):
            call(n)


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


needs_arviz = pytest.mark.skipif(find_spec("arviz_base") is None, reason="arviz-base is not installed")


def weighted(n=4000, seed=1, **more):
    """Draws from N(0, 1.5^2 I) weighted to the posterior N(0, I) of the prior N(0, 2 I) and a normal likelihood."""
    x = np.random.default_rng(seed).normal(0, 1.5, (n, 2))
    log_prior = stats.norm(0, math.sqrt(2)).logpdf(x).sum(axis=1)
    log_likelihood = stats.norm(0, math.sqrt(2)).logpdf(x).sum(axis=1)
    log_weights = log_prior + log_likelihood - stats.norm(0, 1.5).logpdf(x).sum(axis=1)
    return posterior(x, np.exp(log_weights), **({"log_likelihood": log_likelihood, "log_prior": log_prior} | more))


@needs_arviz
def test_datatree(four):
    halves = {"halves": (-12.4, -12.6), "stages": [{"beta": 1.0}], "modes": np.array([[4.0, 0.0], [1.0, 3.0]])}
    named = posterior(
        four.weighted.draws,
        four.weighted.weights,
        names=["rate", "shift"],
        n_failed=3,
        diagnostics=four.diagnostics | halves,
        success=False,
        message="look",
    )
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
        "success": 0,
        "message": "look",
        "pareto_k": 0.2,
        "halves": [-12.4, -12.6],
    }
    assert {name: tree.attrs[name] for name in expected} == expected
    assert not {"modes", "stages"} & set(tree.attrs)
    assert tree["posterior"].attrs["inference_library_version"]
    assert float(tree["modes"]["position"].sel(parameter="shift", mode=1)) == 3


@needs_arviz
def test_datatree_holds_the_draws():
    known = weighted(300)
    tree = known.to_datatree()
    np.testing.assert_array_equal(np.stack([tree["posterior"][name][0] for name in known.names], axis=1), known.draws)
    np.testing.assert_array_equal(tree["sample_stats"]["log_lik"][0], known.log_likelihood)


@needs_arviz
def test_every_group_of_a_datatree_can_be_saved(tmp_path):
    """SciPy writes files of one group, and takes booleans, too; h5netcdf, which writes whole trees, refuses them."""
    from xarray import load_dataset

    diagnostics = {"search_settled": True, "halves": (-1.0, -2.0), "modes": np.zeros((1, 2)), "stages": [{"beta": 1.0}]}
    tree = weighted(300, diagnostics=diagnostics).to_datatree(observed_data={"y": [1.0, 2.0]})
    for node in tree.subtree:
        path = tmp_path / "group.nc"
        node.to_dataset(inherit=False).to_netcdf(path, engine="scipy")
        assert load_dataset(path, engine="scipy").attrs.keys() == node.attrs.keys()
    assert [type(tree.attrs[name]) for name in ("search_settled", "success")] == [int, int]


@needs_arviz
def test_the_statistics_of_a_draw_are_those_at_the_draw():
    """Computed again from the parameters alone."""
    tree = weighted().to_datatree(rng=8)
    x = np.stack([tree["posterior"][name].values for name in ("x0", "x1")], axis=-1)
    half = stats.norm(0, math.sqrt(2)).logpdf(x).sum(axis=-1)
    found = tree["sample_stats"]
    np.testing.assert_allclose(found["lp"], 2 * half, rtol=1e-12)
    np.testing.assert_allclose(found["log_prior"], half, rtol=1e-12)
    np.testing.assert_allclose(found["log_lik"], half, rtol=1e-12)
    proposal = stats.norm(0, 1.5).logpdf(x).sum(axis=-1)
    np.testing.assert_allclose(np.ptp(found["log_weight"].values - (2 * half - proposal)), 0, atol=1e-12)
    assert (found["log_weight"] < 0).all()


@needs_arviz
def test_what_is_not_known_is_left_out(four):
    assert set(four.to_datatree()["sample_stats"].data_vars) == {"log_weight"}
    half = weighted(log_prior=None).to_datatree()
    assert set(half["sample_stats"].data_vars) == {"log_weight", "log_lik"}
    assert "modes" not in half


@needs_arviz
def test_moments_of_datatrees_are_the_weighted_ones():
    """Means over 40 resamplings, of x, y, x^2, y^2 and xy, within 4 standard errors: false alarm 3e-4."""
    known = weighted(500)

    def moments(x, y):
        return np.stack([x, y, x * x, y * y, x * y])

    exact = moments(*known.weighted.draws.T) @ known.weighted.weights
    groups = [known.to_datatree(int(known.effective_size), seed)["posterior"] for seed in range(40)]
    found = np.array([moments(g["x0"].values[0], g["x1"].values[0]).mean(axis=1) for g in groups])
    error = found.std(axis=0, ddof=1) / math.sqrt(len(found))
    assert (np.abs(found.mean(axis=0) - exact) < 4 * error).all()
    unweighted = moments(*known.weighted.draws.T).mean(axis=1)
    assert (np.abs(unweighted - exact) > 8 * error).any()  # the test can fail


def test_resampled_draws_are_worth_their_number():
    """Over 120 posteriors the mean's variance times n is that of the law, up to a third; 4 standard errors: 6e-5."""
    runs = [weighted(150, seed) for seed in range(120)]
    n = [int(run.effective_size) for run in runs]
    scaled = [
        run.resample(m, seed).mean(axis=0)[0] * math.sqrt(m) for seed, (run, m) in enumerate(zip(runs, n, strict=True))
    ]
    assert 1 - 4 * math.sqrt(2 / 120) < np.var(scaled) < 1.33 * (1 + 4 * math.sqrt(2 / 120))


@needs_arviz
def test_predictions_and_data_go_along(four):
    tree = four.to_datatree(
        50,
        rng=9,
        posterior_predictive={"y": lambda x: x[:, :1] * np.arange(3)},
        log_likelihood={"y": lambda x: -(x[:, :1] ** 2) * np.arange(3)},
        observed_data={"y": [1.0, 2.0, 3.0]},
        vectorized=True,
    )
    x = tree["posterior"]["x0"].values
    np.testing.assert_array_equal(tree["posterior_predictive"]["y"], x[..., None] * np.arange(3))
    np.testing.assert_array_equal(tree["log_likelihood"]["y"], -(x[..., None] ** 2) * np.arange(3))
    np.testing.assert_array_equal(tree["observed_data"]["y"], [1, 2, 3])
    assert tree["posterior_predictive"]["y"].dims[2:] == tree["observed_data"]["y"].dims


@needs_arviz
def test_a_function_that_overwrites_its_parameters_does_no_harm(four):
    def careless(x):
        x *= 0
        return x

    tree = four.to_datatree(50, rng=9, posterior_predictive={"y": careless}, vectorized=True)
    np.testing.assert_array_equal(tree["posterior"]["x0"], four.to_datatree(50, rng=9)["posterior"]["x0"])


@needs_arviz
@pytest.mark.parametrize("name", ["chain", "draw"])
def test_names_that_arviz_needs_are_refused(four, name):
    with pytest.raises(ValueError, match=f"dimension '{name}'"):
        posterior(four.weighted.draws, four.weighted.weights, names=["a", name]).to_datatree()


def test_without_arviz_the_error_says_what_to_install(four, monkeypatch):
    monkeypatch.setitem(sys.modules, "arviz_base", None)
    with pytest.raises(ImportError, match=r"paoswarm\[posterior\]"):
        four.to_datatree()


def test_arviz_finds_the_draws_independent():
    """The bulk ESS of 2000 independent draws has an error of 4 %: a quarter is six of them."""
    azstats = pytest.importorskip("arviz_stats", reason="arviz-stats is not installed")
    known = weighted()
    tree = known.to_datatree(2000, rng=10)
    table = azstats.summary(tree, round_to="none")
    assert list(table.index) == ["x0", "x1"]
    assert (table["ess_bulk"].astype(float) > 1500).all()
    assert (table["ess_bulk"].astype(float) < 2500).all()
    assert table["r_hat"].astype(float).isna().all()  # one chain: nothing to compare
    np.testing.assert_allclose(table["mean"].astype(float), known.mean(), atol=4 / math.sqrt(2000))


def test_text_names_every_parameter_and_number(four):
    named = posterior(four.weighted.draws, four.weighted.weights, names=["rate", "s"], n_failed=3, message="look here")
    lines = str(named).splitlines()
    assert (
        lines[0]
        == "log evidence -12.500 +- 0.03; 3 effective draws from 400 evaluations, 3 of them failed (importance)"
    )
    assert lines[1] == "  rate  2.4 +- 1.4   95 % 0.0 to 4.0"
    assert lines[2] == "  s     1.6 +- 1.4   95 % 0.0 to 4.0"
    assert lines[3:] == ["look here"]


def test_text_says_what_the_search_for_modes_has_found(four):
    none, one, two = (
        str(posterior(four.weighted.draws, four.weighted.weights, diagnostics={"climbs": climbs}, message="last"))
        for climbs in ([], [16], [14, 2])
    )
    assert none.splitlines()[-2:] == ["  no climb reached a mode", "last"]
    assert one.splitlines()[-2:] == ["  1 mode found by 16 climbs", "last"]
    assert two.splitlines()[-2:] == ["  2 modes found by 16 climbs", "last"]


def test_text_without_an_error_says_so(four):
    text = str(posterior(four.weighted.draws, four.weighted.weights, log_evidence_error=math.inf))
    assert "no standard error" in text
    assert "failed" not in text
    assert "inf" not in text


def test_a_bayes_factor_passes_on_what_is_wrong(four):
    poor = dataclasses.replace(four, log_evidence_error=math.inf, success=False, message="too few draws")
    verdict = dataclasses.replace(four, message="as ever").compare(poor)
    assert verdict.message == "too few draws"
    assert str(verdict) == "log Bayes factor 0.000, error and probability not stated: too few draws"


def test_quantiles_and_covariance_of_very_many_draws_are_those_of_sorting_them_all(monkeypatch):
    rng = np.random.default_rng(1)
    draws, log_weights = rng.standard_normal((20_000, 2)) ** 3, rng.normal(size=20_000)
    few = WeightedDraws(draws, log_weights)
    shares = (0.0, 1e-5, 0.025, 0.5, 0.975, 0.9999, 1.0)
    expected = [few.quantile(share) for share in shares]
    covariance = few.covariance()
    monkeypatch.setattr("paoswarm.sampling.weighted_draws._PART", 1000)
    monkeypatch.setattr("paoswarm.sampling.weighted_draws._SOME", 200)
    many = WeightedDraws(draws, log_weights)
    for share, quantile in zip(shares, expected, strict=True):
        assert_array_equal(many.quantile(share), quantile)
    assert_allclose(many.covariance(), covariance, rtol=1e-12)
    assert (np.abs(many.quantile(0.5) - many.quantile(0.51)) > 0).all()
