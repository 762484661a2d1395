"""Every statistic on numbers small enough to work out by hand, the laws it obeys, and questions without an answer."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import bootstrap, chi2, norm, wilcoxon
from synthetic import study_of, synthetic, with_cell

from paoswarm.study import statistics as s
from paoswarm.study.results import Key, Trace

INF = np.inf


def one_cell(final):
    return study_of({"p": {"A": final}})


def rivals(**final):
    """One task, one list of final errors per method; the first method is the reference."""
    return study_of({"p": final})


def only(comparisons):
    (comparison,) = comparisons
    return comparison


def drawn(seed, runs, methods=("A", "B"), problems=("p",), spread=2.0):
    rng = np.random.default_rng(seed)
    return study_of({p: {m: 10 ** rng.normal(-3, spread, runs) for m in methods} for p in problems})


# Summaries


def test_a_summary_worked_by_hand():
    got = s.summary(one_cell([5.0, 1.0, 2.0, 10.0, 3.0, 4.0]), "p", 2, "A")
    # Sorted 1 2 3 4 5 10: the quantiles lie half way from the 1st to the 2nd, and from the 5th to the 6th.
    assert_allclose(got[:6], [25 / 6, 3.5, 1.5, 7.5, 1.0, 10.0], rtol=1e-14)


def test_intervals_hold_their_value_and_keep_their_promise():
    # The mean of 50 normal deviates (sd 2 about 10) lies in its 95 % interval in about 94 % of all samples, the median
    # likewise. Of 150, fewer than 134 (89 %) or more than 148 (99 %) have a chance below 1 % each.
    rng = np.random.default_rng(1)
    hits = np.zeros(2)
    for sample in rng.normal(10, 2, (150, 50)):
        got = s.summary(one_cell(sample), "p", 2, "A")
        for i, (value, (low, high)) in enumerate([(got.mean, got.mean_interval), (got.median, got.median_interval)]):
            assert low < value < high
            hits[i] += low <= 10 <= high
    assert (hits >= 134).all()
    assert (hits <= 148).all()


def test_the_interval_of_a_mean_is_that_of_the_normal_law_in_large_samples():
    sample = norm.ppf((np.arange(2000) + 0.5) / 2000) + 10
    low, high = s.summary(one_cell(sample), "p", 2, "A").mean_interval
    assert_allclose([low, high], 10 + norm.ppf([0.025, 0.975]) / np.sqrt(2000), atol=0.004)  # of a width of 0.09


def test_intervals_are_scipys_bca_intervals():
    sample = 10 ** np.random.default_rng(9).normal(0, 1, 30)  # skew, so that the correction shows
    got = s.summary(one_cell(sample), "p", 2, "A")
    for statistic, interval in ((np.mean, got.mean_interval), (np.median, got.median_interval)):
        bca, plain = (bootstrap((sample,), statistic, n_resamples=1999, method=m, rng=1) for m in ("BCa", "percentile"))
        assert_allclose(interval, bca.confidence_interval, rtol=1e-9)
        assert not np.allclose(interval, plain.confidence_interval, rtol=1e-2)


@pytest.mark.parametrize("scale", [1e-180, 1e-50, 1e90, 1e180])
def test_intervals_scale_with_the_errors(scale):
    sample = 10 ** np.random.default_rng(2).normal(0, 1, 30)
    here, there = (s.summary(one_cell(x), "p", 2, "A") for x in (sample, scale * sample))
    assert_allclose(np.array(there.mean_interval) / scale, here.mean_interval, rtol=1e-9)
    assert_allclose(np.array(there.median_interval) / scale, here.median_interval, rtol=1e-9)


def test_a_summary_is_the_same_every_time():
    study = drawn(3, 40)
    assert s.summary(study, "p", 2, "B") == s.summary(study, "p", 2, "B")


@pytest.mark.parametrize("value", [0.0, 3.0, 1e-300, INF])
@pytest.mark.parametrize("runs", [1, 2, 7])
def test_runs_that_end_alike_have_no_width(value, runs):
    got = s.summary(one_cell([value] * runs), "p", 2, "A")
    assert got[:6] == (value,) * 6
    assert got.mean_interval == got.median_interval == (value, value)


def test_failed_runs_make_a_mean_infinite_and_leave_a_median():
    got = s.summary(one_cell([INF, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0]), "p", 2, "A")
    assert got[:6] == (INF, 6.0, 2.0, 10.0, 1.0, INF)  # eleven runs: quantiles are the 2nd and the 10th
    assert 1 < got.mean_interval[0] < 10  # some resamples miss the failed run
    assert got.mean_interval[1] == INF
    assert 1 <= got.median_interval[0] < 6 < got.median_interval[1] <= 10


def test_a_quantile_next_to_a_failed_run_is_infinite():
    got = s.summary(one_cell([1.0, 2.0, 3.0, INF]), "p", 2, "A")
    assert_allclose(got[:6], [INF, 2.5, 1.3, INF, 1.0, INF])


@pytest.mark.parametrize(
    "sample", [[0.0] * 9 + [1.0], [0.0, 1.0], [1.0, INF], [0.0, INF, INF], [0.0] * 50 + [1e-3] * 5]
)
def test_many_equal_errors_still_have_an_interval(sample):
    got = s.summary(one_cell(sample), "p", 2, "A")
    for low, high in (got.mean_interval, got.median_interval):
        assert min(sample) <= low <= high <= max(sample)


# Bands


def test_a_band_is_the_summary_at_every_moment():
    study = synthetic(runs=13)
    cell = ("rastrigin", 5, "DE")
    band, error = s.band(study, *cell), study.trace(*cell).error
    assert_array_equal(band.evaluations, study.trace(*cell).evaluations)
    for g in range(error.shape[1]):
        at_g = s.summary(with_cell(study, *cell, error[:, [g]]), *cell)
        assert_allclose([band.mean[g], band.median[g], band.low[g], band.high[g]], at_g[:4], rtol=1e-14)


def test_a_band_with_failures_and_zeros():
    error = [[INF, INF, 1.0], [INF, 4.0, 0.0], [INF, 2.0, 0.0]]
    band = s.band(with_cell(synthetic(), "sphere", 2, "PAO", error), "sphere", 2, "PAO")
    assert_allclose(band.mean, [INF, INF, 1 / 3])
    assert_allclose(band.median, [INF, 4.0, 0.0])
    assert_allclose(band.low, [INF, 2.4, 0.0])
    assert_allclose(band.high, [INF, INF, 0.8])


# Holm


def test_holm_worked_by_hand():
    # Sorted 0.005 0.01 0.03 0.04, times 4 3 2 1: 0.02 0.03 0.06 0.04; the last may not fall below the third.
    assert_allclose(s.holm([0.01, 0.04, 0.03, 0.005]), [0.03, 0.06, 0.06, 0.02], rtol=1e-14)
    assert_allclose(s.holm([0.4, 0.5, 0.9]), [1.0, 1.0, 1.0])
    assert_allclose(s.holm([0.02, 0.02]), [0.04, 0.04])
    assert_allclose(s.holm([0.3]), [0.3])
    assert s.holm([]).shape == (0,)


@settings(deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=30), st.randoms())
def test_holm_never_decreases_p_and_does_not_depend_on_their_order(p, random):
    p = np.array(p)
    corrected = s.holm(p)
    assert (corrected >= p).all()
    assert (corrected <= np.minimum(1, p.size * p)).all()  # never worse than Bonferroni
    assert (np.diff(corrected[np.argsort(p)]) >= 0).all()
    shuffled = list(range(p.size))
    random.shuffle(shuffled)
    assert_array_equal(s.holm(p[shuffled]), corrected[shuffled])


def test_holm_rejects_what_the_step_down_procedure_rejects():
    rng = np.random.default_rng(5)
    for _ in range(50):
        p = rng.beta(0.3, 3, 12)
        rejected = np.zeros(12, dtype=bool)
        for step, i in enumerate(np.argsort(p)):
            if p[i] > 0.05 / (12 - step):
                break
            rejected[i] = True
        assert_array_equal(s.holm(p) <= 0.05, rejected)


# Comparisons


def test_a_comparison_worked_by_hand():
    # Differences in decades: 1 2 3 4 5 -6. Rank sums 15 and 6; 14 of the 64 sign patterns have a sum of 6 or less.
    study = rivals(A=[1e-3] * 6, B=[1e-2, 1e-1, 1.0, 10.0, 100.0, 1e-9])
    got = only(s.compare(study, ("A", "B")))
    assert got[:3] == ("p", 2, "B")
    assert_allclose([got.decades, got.p, got.p_holm], [2.5, 28 / 64, 28 / 64])
    assert got.verdict == "not significant"
    # Six of six: 2 of 64.
    got = only(s.compare(rivals(A=[1e-3] * 6, B=[1e-2, 1e-1, 1.0, 10.0, 100.0, 1e3]), ("A", "B")))
    assert (got.decades, got.p, got.verdict) == (3.5, 2 / 64, "better")


def test_p_is_scipys_on_the_differences_of_logarithms():
    study = drawn(6, 100, methods=("A", "B", "C"))
    for got in s.compare(study, ("A", "B", "C")):
        difference = np.log10(study.final("p", 2, got.method)) - np.log10(study.final("p", 2, "A"))
        assert_allclose(got.p, wilcoxon(difference).pvalue, rtol=1e-12)
        assert_allclose(got.decades, np.median(difference), atol=1e-9)


def test_holm_is_over_all_tasks_and_methods_of_the_group():
    study = drawn(7, 12, methods=("A", "B", "C", "D"), problems=("p", "q"))
    for group in (("A", "B", "C", "D"), ("B", "A")):
        found = s.compare(study, group)
        assert len(found) == 2 * (len(group) - 1)
        assert [c.p_holm for c in found] == s.holm([c.p for c in found]).tolist()
    small, large = (only(c for c in s.compare(study, g) if c[:3] == ("p", 2, "B")) for g in ("AB", "ABCD"))
    assert small.p == large.p
    assert small.p_holm < large.p_holm


def test_the_verdict_is_at_the_corrected_level():
    better, alike = 10.0 ** np.arange(1, 7), 10.0 ** (np.arange(1, 7) * [1, -1, -1, 1, 1, -1])
    few = rivals(A=np.ones(6), B=better)  # p = 1/32
    many = rivals(A=np.ones(6), B=better, C=alike)  # 1/16 after Holm
    assert only(s.compare(few, "AB")).verdict == "better"
    assert only(s.compare(few, "AB", level=0.03)).verdict == "not significant"
    assert s.compare(many, "ABC")[0].verdict == "not significant"
    assert s.compare(many, "ABC", level=1 / 16)[0].verdict == "better"


OPPOSITE = {"better": "worse", "worse": "better", "not significant": "not significant"}


@pytest.mark.parametrize("seed", range(6))
def test_swapping_the_roles_flips_the_sign_and_the_verdict(seed):
    study = drawn(seed, 30)
    study = with_cell(study, "p", 2, "B", study.trace("p", 2, "B").error * 10.0 ** (seed - 3), [1])
    there = only(s.compare(study, ("A", "B")))
    back = only(s.compare(replace(study, reference="B"), ("A", "B")))
    assert (back.method, back.decades, back.p, back.verdict) == ("A", -there.decades, there.p, OPPOSITE[there.verdict])


def test_the_verdicts_of_that_test_are_all_there():
    found = set()
    for seed in range(6):
        study = drawn(seed, 30)
        study = with_cell(study, "p", 2, "B", study.trace("p", 2, "B").error * 10.0 ** (seed - 3), [1])
        found.add(only(s.compare(study, ("A", "B"))).verdict)
    assert found == set(OPPOSITE)


@settings(deadline=None, max_examples=40)
@given(st.floats(-20, 20), st.integers(0, 1000))
def test_a_common_factor_changes_nothing(decades, seed):
    study = drawn(seed, 20)
    moved = replace(study, traces={k: Trace(t.evaluations, t.error * 10.0**decades) for k, t in study.traces.items()})
    here, there = (only(s.compare(x, ("A", "B"))) for x in (study, moved))
    assert_allclose(there.decades, here.decades, atol=3e-9)
    assert there.p == here.p
    assert there.verdict == here.verdict


def test_a_factor_on_one_method_alone_does_change_it():
    study = drawn(1, 30, spread=0.3)
    moved = with_cell(study, "p", 2, "B", study.trace("p", 2, "B").error * 10, [1])
    here, there = (only(s.compare(x, ("A", "B"))) for x in (study, moved))
    assert_allclose(there.decades, here.decades + 1, atol=1e-8)
    assert there.p < 1e-6 < here.p


def test_pairs_are_pairs():
    # Runs that differ far more among each other than between the methods: only the pairing sees the difference.
    difficulty = 10 ** np.random.default_rng(8).normal(0, 5, 30)
    study = rivals(A=difficulty, B=1.5 * difficulty)
    assert only(s.compare(study, ("A", "B"))).verdict == "better"
    shuffled = rivals(A=difficulty, B=1.5 * np.roll(difficulty, 7))
    assert only(s.compare(shuffled, ("A", "B"))).verdict == "not significant"


@pytest.mark.slow
def test_methods_that_are_alike_are_not_told_apart():
    # 200 studies of 5 tasks and 4 rivals from one law: at level 0.05 no more than 5 % have any verdict, so more than 21
    # (binomial, 99.9 %) would be a false alarm of less than 1 in 1000. Without Holm about half of them would have one.
    alarms = uncorrected = 0
    for seed in range(200):
        found = s.compare(drawn(1000 + seed, 25, methods="ABCDE", problems="pqrst"), "ABCDE")
        alarms += any(c.verdict != "not significant" for c in found)
        uncorrected += any(c.p <= 0.05 for c in found)
    assert alarms <= 21
    assert uncorrected > 80


def test_two_zeros_are_equal_and_zero_beats_anything_above_the_floor():
    zeros = rivals(A=[0.0] * 8, B=[0.0, 1e-60, 1e-300, 9e-51, 0.0, 0.0, 1e-50, 0.0])
    got = only(s.compare(zeros, ("A", "B")))
    assert got[3:] == (0.0, 1.0, 1.0, "not significant")
    ahead = only(s.compare(rivals(A=[0.0] * 8, B=[1e-10] * 8), ("A", "B")))
    assert_allclose(ahead.decades, 40.0)
    assert ahead.verdict == "better"


def test_two_failures_are_equal_and_a_failure_loses():
    failures = only(s.compare(rivals(A=[INF] * 8, B=[INF] * 7 + [1e80]), ("A", "B")))
    assert failures[3:] == (0.0, 1.0, 1.0, "not significant")
    lost = only(s.compare(rivals(A=[INF] * 8, B=[1.0] * 8), ("A", "B")))
    assert lost.decades == -50.0
    assert lost.verdict == "worse"
    mixed = only(s.compare(rivals(A=[INF, 1.0] * 4, B=[1.0, INF] * 4), ("A", "B")))
    assert mixed[3:] == (0.0, 1.0, 1.0, "not significant")


def test_rounding_is_no_difference():
    minimum = 0.9949590570932898
    for other in (minimum * (1 + 1e-14), minimum * (1 - 1e-14)):
        got = only(s.compare(rivals(A=np.full(30, minimum), B=np.full(30, other)), ("A", "B")))
        assert got[3:] == (0.0, 1.0, 1.0, "not significant")
        assert str(got.decades) == "0.0"  # and not "-0.0", which a report would print


def test_few_differences_among_many_zeros_are_tested_exactly():
    # Five differences, all one way: 2 of 32. The normal approximation would say 0.043.
    got = only(s.compare(rivals(A=[1.0] * 30, B=[1.0] * 25 + [2.0, 3.0, 4.0, 5.0, 6.0]), ("A", "B")))
    assert (got.decades, got.p, got.verdict) == (0.0, 2 / 32, "not significant")


def test_many_zeros_do_not_hide_a_clear_difference():
    got = only(s.compare(rivals(A=[1.0] * 30, B=[1.0] * 18 + list(range(2, 14))), ("A", "B")))
    assert (got.decades, got.verdict) == (0.0, "better")


def test_where_ranks_and_median_disagree_there_is_no_verdict():
    # 16 small steps for the reference, 14 large ones against it: the ranks say worse, the median better.
    decades = np.concatenate([np.linspace(0.01, 0.02, 16), -np.linspace(5, 6, 14)])
    got = only(s.compare(rivals(A=np.ones(30), B=10**decades), ("A", "B")))
    assert got.p <= 0.05
    assert got.decades > 0
    assert wilcoxon(decades, alternative="less").pvalue < 0.05
    assert got.verdict == "not significant"


def test_one_run_proves_nothing():
    got = only(s.compare(rivals(A=[1.0], B=[1e30]), ("A", "B")))
    assert (got.decades, got.p, got.verdict) == (30.0, 1.0, "not significant")


def test_the_reference_alone_is_compared_with_nobody():
    assert s.compare(one_cell([1.0, 2.0]), ("A",)) == []


@pytest.mark.parametrize("runs", [3, 7, 12, 100])
def test_equal_errors_are_ties_whatever_the_number_of_runs(runs):
    study = rivals(A=np.full(10, 1e-8), B=np.full(runs, 1e-8))
    assert s.wins(study, ("A", "B")) == {"A": [("p", 2)], "B": [("p", 2)]}


def test_of_unequal_numbers_of_runs_the_first_are_pairs():
    many, few = np.arange(1.0, 31.0), 10 * np.arange(1.0, 9.0)
    found = only(s.compare(rivals(A=many, B=few), ("A", "B")))
    assert found == only(s.compare(rivals(A=many[:8], B=few), ("A", "B")))
    assert found.p == 2 / 2**8


@pytest.mark.parametrize("function", [s.compare, s.average_ranks, s.wins])
def test_an_unknown_method_is_named(function):
    with pytest.raises(ValueError, match=r"no method 'Alll'.*\['A', 'B'\]"):
        function(drawn(1, 3), ("A", "Alll"))


# Ranks


def test_ranks_with_ties_worked_by_hand():
    medians = {
        "p": {"A": [1.0, 2.0, 9.0], "B": [3.0], "C": [4.0]},  # 1 2 3
        "q": {"A": [5.0], "B": [1.0], "C": [1.0]},  # 3 1.5 1.5
        "r": {"A": [0.0], "B": [1e-60], "C": [1e-40]},  # 1.5 1.5 3
    }
    got = s.average_ranks(study_of(medians), ("A", "B", "C"))
    assert_allclose([got.average[m] for m in "ABC"], [5.5 / 3, 5 / 3, 7.5 / 3], rtol=1e-14)
    # Rank sums 5.5, 5 and 7.5 about 6: 12 / (3 * 3 * 4) * 3.5 = 7/6, over the correction for two ties, 1 - 12 / 72.
    assert_allclose(got.p, chi2.sf(7 / 6 / (5 / 6), 2), rtol=1e-12)


def test_ranks_of_some_dimensions_and_of_a_part_of_the_methods():
    study = synthetic()
    groups = s.average_ranks(study, ("DE", "PAO"), dims=(5,)).average
    medians = {m: [np.median(study.final(p, 5, m)) for p in study.problems] for m in ("DE", "PAO")}
    de_first = np.mean(np.less(medians["DE"], medians["PAO"]))
    assert list(groups) == ["DE", "PAO"]
    assert_allclose(groups["DE"], 2 - de_first)
    assert s.average_ranks(study, study.methods).average != s.average_ranks(study, study.methods, dims=(2,)).average


def test_average_ranks_add_up():
    study = synthetic(problems=tuple("abcdefg"), methods=tuple("ABCDE"))
    assert_allclose(sum(s.average_ranks(study, study.methods).average.values()), 15)


def test_friedman_detects_differences_and_only_those():
    tasks = [f"p{i}" for i in range(12)]
    ordered = study_of({p: {"A": [1.0 + i], "B": [2.0 + i], "C": [3.0 + i]} for i, p in enumerate(tasks)})
    got = s.average_ranks(ordered, ("A", "B", "C"))
    assert got.average == {"A": 1.0, "B": 2.0, "C": 3.0}
    assert_allclose(got.p, chi2.sf(24, 2), rtol=1e-10)
    turned = {p: dict(zip("ABC", np.roll([1.0, 2.0, 3.0], i)[:, None], strict=True)) for i, p in enumerate(tasks)}
    assert_allclose(s.average_ranks(study_of(turned), "ABC").p, 1.0)


def test_cases_without_a_friedman_test():
    assert np.isnan(s.average_ranks(drawn(1, 3, problems="pqr"), ("A", "B")).p)
    assert np.isnan(s.average_ranks(drawn(1, 3, methods="ABC"), "ABC").p)
    alike = study_of({p: {m: [v] for m in "ABC"} for p, v in (("p", 0.0), ("q", INF))})
    assert s.average_ranks(alike, "ABC") == ({"A": 2.0, "B": 2.0, "C": 2.0}, 1.0)
    assert s.average_ranks(one_cell([1.0]), ("A",)).average == {"A": 1.0}


# Wins


def test_wins_with_ties_worked_by_hand():
    study = study_of(
        {
            "p": {"A": [1.0, 3.0], "B": [2.0, 2.0], "C": [0.0, 5.0]},  # means 2 2 2.5
            "q": {"A": [1.0, 1.0], "B": [0.0, INF], "C": [0.5, 0.5]},
            "r": {"A": [0.0, 0.0], "B": [1e-60, 0.0], "C": [1e-40, 0.0]},
            "s": {"A": [INF, 0.0], "B": [INF, 1.0], "C": [INF, INF]},
        }
    )
    assert s.wins(study, ("A", "B", "C")) == {"A": [("p", 2), ("r", 2)], "B": [("p", 2), ("r", 2)], "C": [("q", 2)]}
    assert s.wins(study, ("A", "B"))["A"] == [("p", 2), ("q", 2), ("r", 2)]


# Running times


HAND = [
    [100.0, 10.0, 1.0, 0.5],
    [INF, 50.0, 50.0, 0.0],
    [9.0, 9.0, 9.0, 9.0],
]


def timed(error=HAND, evaluations=(10, 20, 30, 40), dims=(2,)):
    study = synthetic(problems=("p",), dims=dims, methods=("A",), runs=1)
    for dim in dims:
        study = with_cell(study, "p", dim, "A", error, evaluations)
    return study


def test_runtimes_worked_by_hand():
    got = s.runtimes(timed(), "p", 2, "A", [100.0, 50.0, 9.0, 1.0, 0.1, 0.0])
    assert_array_equal(
        got,
        [
            [10, 20, 30, 30, INF, INF],
            [20, 20, 40, 40, 40, 40],
            [10, 10, 10, INF, INF, INF],
        ],
    )


def test_runtimes_are_those_of_a_plain_search():
    study = synthetic(runs=6)
    trace = study.trace("sphere", 2, "PAO")
    got = s.runtimes(study, "sphere", 2, "PAO")
    for r, run in enumerate(trace.error):
        for t, target in enumerate(s.TARGETS):
            assert got[r, t] == next((e for e, v in zip(trace.evaluations, run, strict=True) if v <= target), INF)


def test_the_targets_are_those_of_coco():
    assert len(s.TARGETS) == 51
    assert_allclose(s.TARGETS[[0, 5, 50]], [1e2, 1e1, 1e-8])
    assert_allclose(np.diff(np.log10(s.TARGETS)), -0.2)


def test_expected_running_time_worked_by_hand():
    # Target 1: reached after 30 and 40, the third run spends its 40 in vain.
    assert s.success(timed(), "p", 2, "A", 1.0) == (2 / 3, 110 / 2)
    assert s.success(timed(), "p", 2, "A", 0.0) == (1 / 3, 120.0)
    assert s.success(timed(), "p", 2, "A", 100.0) == (1.0, 40 / 3)
    assert s.success(timed([[INF, INF], [3.0, 2.0]], (1, 2)), "p", 2, "A", 1.0) == (0.0, INF)


def test_expected_running_time_is_that_of_restarts():
    # Restarting costs the budget with probability 1 - q and the time of a successful run in the end.
    study = synthetic(runs=40)
    for target in (1.0, 1e-3, 1e-6):
        got = s.success(study, "rosenbrock", 2, "PSO", target)
        needed = s.runtimes(study, "rosenbrock", 2, "PSO", [target])
        assert_allclose(got.ert, needed[np.isfinite(needed)].mean() + (1 - got.rate) / got.rate * 200)


# Runtime distributions


def test_an_ecdf_worked_by_hand():
    # Targets 50 and 1: runs solve them after 20 30, 20 40, 10 and never; divided by two unknowns.
    got = s.ecdf(timed(), "A", targets=[50.0, 1.0])
    assert_allclose(got.evaluations, [5, 10, 15, 20])
    assert_allclose(got.share, np.array([1, 3, 4, 5]) / 6, rtol=1e-14)


def test_a_short_budget_is_not_extrapolated():
    # In 10 dimensions the budget is 4 per unknown, in 2 it is 20. Kaplan-Meier would drop the 10-dimensional pairs
    # after 4, and end at more than the 10 of 12 that were solved.
    got = s.ecdf(timed(dims=(2, 10)), "A", targets=[50.0, 1.0])
    assert_allclose(got.evaluations, [1, 2, 3, 4, 5, 10, 15, 20])
    assert_allclose(got.share, np.array([1, 3, 4, 5, 6, 8, 9, 10]) / 12, rtol=1e-14)


def test_an_ecdf_of_some_problems_and_dimensions():
    study = synthetic()
    whole = s.ecdf(study, "DE", dims=(5,), problems=("sphere", "rastrigin"))
    parts = [s.runtimes(study, p, 5, "DE") / 5 for p in ("sphere", "rastrigin")]
    for when, share in zip(*whole, strict=True):
        assert_allclose(share, np.mean(np.array(parts) <= when), rtol=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_an_ecdf_climbs_to_the_share_of_all_pairs_solved(seed):
    study = synthetic(seed=seed)
    for method in study.methods:
        got = s.ecdf(study, method)
        assert (np.diff(got.evaluations) > 0).all()
        assert (np.diff(got.share) >= -1e-15).all()
        assert 0 <= got.share[0] <= got.share[-1] <= 1
        solved = [np.isfinite(s.runtimes(study, *task, method)).mean() for task in study.tasks()]
        assert_allclose(got.share[-1], np.mean(solved), rtol=1e-12)
        assert got.evaluations[-1] == 200 / min(study.dims)  # the largest budget per unknown


def test_an_ecdf_of_all_and_of_nothing():
    assert_array_equal(s.ecdf(timed([[0.0]], (8,)), "A"), [[4.0], [1.0]])
    assert_array_equal(s.ecdf(timed([[INF]], (8,)), "A"), [[4.0], [0.0]])


# The whole


@pytest.mark.parametrize("runs", [1, 2, 5])
@pytest.mark.parametrize("value", [0.0, INF, 1e200, 5e-324])
def test_a_study_of_one_value_is_summarised_without_warnings(runs, value):
    study = synthetic(runs=runs)
    study = replace(
        study, traces={k: Trace(t.evaluations, np.full_like(t.error, value)) for k, t in study.traces.items()}
    )
    assert {c.verdict for c in s.compare(study, study.methods)} == {"not significant"}
    assert set(s.average_ranks(study, study.methods).average.values()) == {2.0}
    for key in study.traces:
        assert s.summary(study, *key).median == value
        assert (s.band(study, *key).median == value).all()
        assert s.success(study, *key, 1.0) == ((1.0, 10.0) if value < 1 else (0.0, INF))
    assert all(len(tasks) == (0 if value == INF else 6) for tasks in s.wins(study, study.methods).values())


def test_nothing_is_written_into_the_results():
    study = synthetic(runs=5)
    for trace in study.traces.values():
        trace.error.flags.writeable = trace.evaluations.flags.writeable = False
    for key in study.traces:
        s.summary(study, *key)
        s.band(study, *key)
        s.success(study, *key, 1e-3)
    s.compare(study, study.methods)
    s.average_ranks(study, study.methods)
    s.wins(study, study.methods)
    s.ecdf(study, "PAO")
    assert set(study.traces) == {Key(p, d, m) for p in study.problems for d in study.dims for m in study.methods}
