"""Adaptation and production: unbiased evidence, honest errors, hard problems, odd likelihoods, exact budgets."""

import math

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

from paoswarm.core.weights import log_mean_weight_error
from paoswarm.sampling.adapt import Frozen, _warn_of_cost, adapt
from paoswarm.sampling.densities import Blend, Mixture
from paoswarm.sampling.importance import produce
from paoswarm.sampling.proposals import DrawPool
from paoswarm.sampling.target import BudgetSpent, Interrupted, Target


def normal_mixture(weight, mean, sd):
    weight, mean, sd = map(np.asarray, (weight, mean, sd))
    d = mean.shape[1]

    def log_likelihood(x):
        square = ((x[:, None] - mean) ** 2).sum(axis=2)
        return logsumexp(np.log(weight) - 0.5 * square / sd**2 - d * np.log(sd * math.sqrt(2 * math.pi)), axis=1)

    return log_likelihood


def run(log_likelihood, prior, seed, maxfev=60_000, n_effective=2000):
    target = Target(log_likelihood, prior, maxfev)
    rng = np.random.default_rng(seed)
    frozen = adapt(target, rng, n_effective=n_effective)
    return target, frozen, produce(target, frozen, n_effective, rng)[0]


def tiny_ratios(seed, n_productions):
    """Z-hat / Z of productions of 20 draws from a proposal adapted with 80 evaluations.

    One attempt each, since setting a production aside because of its weights is a selection.
    """
    log_likelihood = normal_mixture([0.4, 0.6], [[-0.4, 0.0], [0.5, 0.2]], [0.25, 0.3])
    rng = np.random.default_rng([1, seed])
    target = Target(log_likelihood, [(-3, 3)] * 2, maxfev=80 + 20 * n_productions)
    frozen = adapt(Target(log_likelihood, [(-3, 3)] * 2, maxfev=80), rng, n_effective=20)
    frozen = frozen._replace(predicted_efficiency=1.0)
    made = [produce(target, frozen, 20, rng, attempts=1)[0].log_evidence for _ in range(n_productions)]
    return np.exp(np.array(made) + 2 * math.log(6))


@pytest.mark.parametrize(("runs", "each"), [(25, 10), pytest.param(1000, 1, marks=pytest.mark.slow)])
def test_evidence_is_unbiased_with_tiny_budgets(runs, each):
    """Mean of Z-hat over 250 productions (slow: 1000); |z| < 4: false alarm 6e-5 for a normal mean."""
    ratio = np.array([tiny_ratios(seed, each).mean() for seed in range(runs)])
    assert abs(ratio.mean() - 1) < 4 * ratio.std() / math.sqrt(runs)
    assert ratio.std() < 3  # the mean is known well enough for the test to mean something


def test_the_frozen_proposal_is_normalised():
    """E_q[p/q] = 1 for a known p, |z| < 4 (false alarm 6e-5)."""
    frozen = run(normal_mixture([1.0], [[0.3, -0.2]], [0.4]), [(-3, 3)] * 2, 2, n_effective=300)[1]
    z = frozen.proposal.sample(40_000, np.random.default_rng(3))
    p = Mixture(np.ones(1), np.array([[0.1, -0.07]]), 0.13 * np.eye(2)[None])
    ratio = np.exp(p.log_density(z) - frozen.proposal.log_density(z))
    assert abs(ratio.mean() - 1) < 4 * ratio.std() / math.sqrt(len(z))


def test_predicted_efficiency_is_that_of_production():
    _, frozen, made = run(normal_mixture([1.0], [[0.0] * 5], [1.0]), [(-10, 10)] * 5, 4)
    assert made.effective_size / len(made.draws) == pytest.approx(frozen.predicted_efficiency, rel=0.15)


def test_efficiency_of_the_posterior_itself_is_one():
    pool = DrawPool(1)
    rng = np.random.default_rng(5)
    law = Mixture(np.ones(1), np.zeros((1, 1)), np.ones((1, 1, 1)))
    z = rng.normal(size=(500, 1))
    pool.add(law, z, law.log_density(z), np.full(500, 7.0))
    assert pool.efficiency(law) == pytest.approx(1.0)


def test_pool_weights_are_the_balance_heuristic():
    pool, rng = DrawPool(1), np.random.default_rng(6)
    laws = [Mixture(np.ones(1), np.full((1, 1), a), np.ones((1, 1, 1))) for a in (0.0, 2.0)]
    for law, n in zip(laws, (3, 5), strict=True):
        z = law.sample(n, rng)
        pool.add(law, z, -np.abs(z[:, 0]), z[:, 0])
    mixed = 3 * np.exp(laws[0].log_density(pool.z)) + 5 * np.exp(laws[1].log_density(pool.z))
    expected = -np.abs(pool.z[:, 0]) + 0.5 * pool.z[:, 0] - np.log(mixed)
    np.testing.assert_allclose(pool.log_weight(0.5), expected)


def test_draws_outside_the_prior_count_in_the_pool_without_being_kept():
    pool = DrawPool(1)
    law = Mixture(np.ones(1), np.zeros((1, 1)), np.ones((1, 1, 1)))
    z = np.array([[0.0], [0.5]])
    pool.add(law, z, np.array([0.0, -np.inf]), np.array([0.0, -np.inf]))
    np.testing.assert_allclose(pool.log_weight(1.0), -math.log(2) - law.log_density(z[:1]))


@pytest.mark.parametrize(("promised", "widened"), [(1.5, 1.0), (3.0, 3.0), (40.0, 5.0)])
def test_weights_that_are_less_even_than_predicted_widen_the_error(promised, widened):
    """A proposal that is twice as wide as the posterior, and a prediction that is so many times too good."""
    target = Target(lambda x: stats.norm.logpdf(x, 0, 0.1).sum(axis=1), [(-1, 1)] * 2)
    wide = Mixture(np.ones(1), np.zeros((1, 2)), 0.2 * np.eye(2)[None])
    efficiency = (0.5 * math.sqrt(2 - 0.25)) ** 2  # of each element: E[w]^2 / E[w^2]
    frozen = Frozen(Blend(np.ones(1), (wide,)), promised * efficiency, DrawPool(2), wide, [], "", True, {})
    made, _ = produce(target, frozen, round(2000 * promised), np.random.default_rng(1), attempts=1)
    assert made.effective_size / len(made.draws) == pytest.approx(efficiency, rel=0.1)
    assert made.widened == pytest.approx(widened, rel=0.1)
    assert made.error == pytest.approx(made.widened * log_mean_weight_error(made.log_weights))
    assert abs(made.log_evidence + 2 * math.log(2)) < 4 * made.error


@pytest.mark.parametrize("n_known", [0, 5, 200])
def test_an_interrupt_passes_through_a_production_that_has_hardly_begun(n_known):
    def log_likelihood(x):
        raise Interrupted(stats.norm.logpdf(x[:n_known], 0, 0.1).sum(axis=1))

    target = Target(log_likelihood, [(-1, 1)] * 2)
    wide = Mixture(np.ones(1), np.zeros((1, 2)), 0.2 * np.eye(2)[None])
    frozen = Frozen(Blend(np.ones(1), (wide,)), 0.4, DrawPool(2), wide, [], "", True, {})
    if n_known < 20:
        with pytest.raises(Interrupted):
            produce(target, frozen, 1000, np.random.default_rng(1))
    else:
        made, _ = produce(target, frozen, 1000, np.random.default_rng(1))
        assert np.isfinite(made.log_likelihood).sum() == n_known  # draws outside the box come free
        assert abs(made.log_evidence + 2 * math.log(2)) < 4 * made.error < 0.5
    assert target.n_evaluations == n_known


@pytest.mark.slow
def test_a_peak_that_the_first_climbs_miss_is_climbed_when_a_draw_comes_upon_it():
    """The frequency of a sine in noise: dozens of peaks, the one that matters in a hundredth of the box.

    Two seeds agree to within four errors of their difference (false alarm 6e-5) and know the frequency.
    """
    rng = np.random.default_rng(1)
    t = np.sort(rng.uniform(0, 10, 30))
    y = 1.5 * np.sin(2 * np.pi * 3.3 * t + 1) + 0.7 * rng.standard_normal(30)

    def log_likelihood(x):
        return stats.norm.logpdf(y, x[:, :1] * np.sin(2 * np.pi * x[:, 1:2] * t + x[:, 2:3]) + x[:, 3:], 0.7).sum(
            axis=1
        )

    box = [(0, 5), (0, 10), (0, 2 * np.pi), (-5, 5)]
    first, second = (run(log_likelihood, box, seed, maxfev=40_000, n_effective=500)[2] for seed in (0, 1))
    assert abs(first.log_evidence - second.log_evidence) < 4 * math.hypot(first.error, second.error) < 0.3
    frequency = 5 + 5 * np.average(first.draws[:, 1], weights=np.exp(first.log_weights - first.log_weights.max()))
    assert frequency == pytest.approx(3.3, abs=0.02)


@pytest.mark.parametrize("maxfev", [2, 7, 60, 500, 3000])
def test_the_budget_is_never_exceeded_and_counts_are_true(maxfev):
    rows = 0

    def log_likelihood(x):
        nonlocal rows
        rows += len(x)
        return -50 * (x**2).sum(axis=1)

    target, _, made = run(log_likelihood, [(-1, 1)] * 3, 9, maxfev=maxfev)
    assert target.n_evaluations == rows <= maxfev
    assert len(made.draws) == len(made.log_weights)


def test_a_budget_without_room_for_production_is_an_error():
    with pytest.raises(BudgetSpent, match="maxfev=1"):
        run(lambda x: -(x**2).sum(axis=1), [(-1, 1)], 9, maxfev=1)


def test_one_parameter():
    _, _, made = run(lambda x: stats.norm.logpdf(x[:, 0], 2, 0.01), [(-10, 10)], 10)
    assert abs(made.log_evidence + math.log(20)) < 4 * made.error < 0.1


def test_a_flat_likelihood_gives_the_prior_back():
    _, _, made = run(lambda x: np.full(len(x), -3.0), [(0, 1)] * 3, 11)
    assert abs(made.log_evidence + 3) < 4 * made.error < 0.1


@pytest.mark.slow  # in short: test_sample.py::test_a_normal_level_with_a_normal_prior
def test_priors_without_bounds():
    """Conjugate: x ~ N(0, 2^2), y | x ~ N(x, 1): y ~ N(0, 5)."""
    y = np.array([1.5, -3.0, 0.2])
    _, _, made = run(lambda x: stats.norm.logpdf(y, x, 1).sum(axis=1), [stats.norm(0, 2)] * 3, 12)
    exact = stats.norm.logpdf(y, 0, math.sqrt(5)).sum()
    assert abs(made.log_evidence - exact) < 4 * made.error < 0.1


@pytest.mark.slow  # in short: test_sample.py::test_nan_counts_as_likelihood_zero
@pytest.mark.parametrize("bad", [np.nan, -np.inf, -1.7e308])
def test_half_of_the_peak_cut_off(bad):
    """Half a normal: Z is halved, and the wall through the peak does no harm."""

    def log_likelihood(x):
        return np.where(x[:, 0] < 0, bad, stats.norm.logpdf(x, 0, 0.5).sum(axis=1))

    target, _, made = run(log_likelihood, [(-5, 5)] * 2, 13)
    assert abs(made.log_evidence - (math.log(0.5) - 2 * math.log(10))) < 4 * made.error < 0.1
    assert (target.n_failed > 0) == math.isnan(bad)


def test_a_likelihood_that_is_zero_everywhere_is_an_error():
    with pytest.raises(ValueError, match=r"at all 1000 draws.*start="):
        run(lambda x: np.full(len(x), -np.inf), [(-1, 1)], 14)


@pytest.mark.slow  # in short: test_sample.py::test_a_known_mode_is_not_missed
def test_start_points_lead_to_a_mode_that_draws_cannot_find():
    needle = normal_mixture([1.0, 1.0], [[0.0] * 6, [8.0] * 6], [1.0, 1e-3])
    target = Target(needle, [(-10, 10)] * 6, 60_000)
    rng = np.random.default_rng(15)
    frozen = adapt(target, rng, n_effective=1000, known=target.coordinates([[8.001] * 6]))
    made, _ = produce(target, frozen, 1000, rng)
    assert abs(made.log_evidence - (math.log(2) - 6 * math.log(20))) < 4 * made.error < 0.1


def test_runs_repeat_with_the_seed():
    problem = normal_mixture([1.0], [[0.0] * 2], [0.5]), [(-5, 5)] * 2, 16, 1200
    assert run(*problem, n_effective=200)[2].log_evidence == run(*problem, n_effective=200)[2].log_evidence


def test_an_error_that_cannot_be_trusted_is_withheld():
    """A budget that never reaches the peak: whatever comes out, it does not come with a small error."""
    _, _, made = run(normal_mixture([1.0], [[3.3] * 8], [0.01]), [(-10, 10)] * 8, 17, maxfev=150)
    assert math.isinf(made.error)
    assert made.message


def spike(d):
    return normal_mixture([0.9, 0.1], [[0.0] * d] * 2, [0.1, 1.0]), [(-10, 10)] * d, -d * math.log(20)


def narrow(d):
    return normal_mixture([1 / 3, 2 / 3], [[-4.0] * d, [4.0] * d], [0.3, 1.0]), [(-10, 10)] * d, -d * math.log(20)


@pytest.mark.parametrize(
    "problem", [spike(5), pytest.param(narrow(10), marks=pytest.mark.slow)], ids=["spike5", "narrow10"]
)
def test_mass_in_a_small_volume_is_found(problem):
    log_likelihood, prior, exact = problem
    target, _, made = run(log_likelihood, prior, 18)
    assert abs(made.log_evidence - exact) < 3 * made.error < 0.1
    assert target.n_evaluations < 25_000


@pytest.mark.slow
@pytest.mark.parametrize("problem", [spike(5), narrow(10)], ids=["spike5", "narrow10"])
def test_stated_errors_are_the_errors(problem):
    """Over 20 seeds: none beyond 4, and a mean square ratio that chance exceeds with probability below 1e-4."""
    log_likelihood, prior, exact = problem
    made = [run(log_likelihood, prior, [19, seed])[2] for seed in range(20)]
    ratio = np.array([(m.log_evidence - exact) / m.error for m in made])
    assert np.abs(ratio).max() < 4
    assert (ratio**2).sum() < stats.chi2(20).isf(1e-4)


@pytest.mark.slow
def test_curved_posterior():
    def log_likelihood(x):
        bent = x[:, 1] + 0.03 * (x[:, 0] ** 2 - 100)
        return (
            -0.5 * ((x[:, 0] / 10) ** 2 + bent**2 + (x[:, 2:] ** 2).sum(axis=1))
            - 5 * math.log(2 * math.pi)
            - math.log(10)
        )

    prior = [(-40, 40), (-60, 20)] + [(-10, 10)] * 8
    exact = math.log1p(-6.4e-5) - math.log(80) * 2 - 8 * math.log(20)
    for seed in range(3):
        _, _, made = run(log_likelihood, prior, [20, seed])
        assert abs(made.log_evidence - exact) < 4 * made.error < 0.3


def test_a_run_that_will_take_long_says_so_early(recwarn):
    slow = {"beta": 1.0, "expected": 0.01, "efficiency": 0.002, "evaluations": 40_000}
    with pytest.warns(RuntimeWarning, match=r"after 40000 evaluations .* one effective draw in 500: .*deviates"):
        _warn_of_cost(slow, 2000)
    with pytest.warns(RuntimeWarning, match="hardly any effective draw"):
        _warn_of_cost(slow | {"beta": 0.3}, 2000)
    recwarn.clear()
    _warn_of_cost(slow | {"efficiency": 0.1, "expected": 0.1}, 2000)
    assert not recwarn
