"""Tempered sequential Monte Carlo: unbiased with a plan, honest about its error, exact about its budget."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from paoswarm.core.weights import normalise
from paoswarm.sampling.moves import RHO
from paoswarm.sampling.target import Target
from paoswarm.sampling.tempered import tempered


def normal(d=2, sd=0.7, box=5.0):
    """A normal likelihood in a box that holds all of it: the log evidence is minus the log volume."""

    def log_likelihood(x):
        return -0.5 * ((x - 0.5) ** 2).sum(axis=1) / sd**2 - d * math.log(sd * math.sqrt(2 * math.pi))

    return log_likelihood, [(-box, box)] * d, -d * math.log(2 * box)


def half_forbidden(d=2):
    """The same, where everything on the left of the mode is impossible: half the evidence."""
    log_likelihood, prior, log_evidence = normal(d)
    return (
        lambda x: np.where(x[:, 0] > 0.5, log_likelihood(x), -np.inf),
        prior,
        log_evidence - math.log(2),
    )


def two_modes(d=3):
    def log_likelihood(x):
        near = [-0.5 * ((x - m) ** 2).sum(axis=1) / 0.25 for m in (-2.0, 2.0)]
        return np.logaddexp(*near) - math.log(2) - d * math.log(0.5 * math.sqrt(2 * math.pi))

    return log_likelihood, [(-6.0, 6.0)] * d, -d * math.log(12)


PROBLEMS = {"normal": normal, "half forbidden": half_forbidden, "two modes": two_modes}
SMALL = {"chains": 32, "steps": 8, "swarms": 8}


@pytest.mark.slow
@pytest.mark.parametrize(
    "problem",
    [two_modes, *(pytest.param(problem, marks=pytest.mark.slow) for problem in (normal, half_forbidden))],
)
def test_a_frozen_plan_is_unbiased_however_small_the_swarm(problem):
    # The mean over 200 runs of Zhat / Z, by z-score: |z| > 4.5 has the false-alarm rate 7e-6 in each of three problems.
    log_likelihood, prior, log_evidence = problem()
    rng = np.random.default_rng(1)
    plan = tempered(Target(log_likelihood, prior), rng).plan
    runs = [tempered(Target(log_likelihood, prior), rng, plan, chains=16, steps=4, swarms=4) for _ in range(200)]
    ratio = np.exp([run.log_evidence - log_evidence for run in runs])
    assert abs(z_score(ratio - 1)) < 4.5
    # The same test is sharp enough to see a bias of a quarter.
    assert z_score(1.25 * ratio - 1) > 4.5


def z_score(x):
    return x.mean() / (x.std(ddof=1) / math.sqrt(len(x)))


@pytest.mark.parametrize(
    "problem", [two_modes, half_forbidden, pytest.param(normal, marks=pytest.mark.slow)], ids=lambda one: one.__name__
)
def test_the_draws_are_the_posterior(problem):
    log_likelihood, prior, log_evidence = problem()
    rng = np.random.default_rng(2)
    target = Target(log_likelihood, prior)
    first = tempered(target, rng)
    result = tempered(target, rng, first.plan)
    assert result.complete
    assert abs(result.log_evidence - log_evidence) < 5 * result.log_evidence_error < 0.6
    x, w = target.parameters(result.draws), normalise(result.log_weights)
    assert (target.log_prior(result.draws) > -np.inf).all()
    if problem is two_modes:
        assert abs(w @ (x[:, 0] > 0) - 0.5) < 0.15
        assert_allclose(w @ np.abs(x), np.full(3, 2.0), atol=0.15)
    else:
        first_mean = 0.5 if problem is normal else 0.5 + 0.7 * math.sqrt(2 / math.pi)
        assert_allclose(w @ x, [first_mean, 0.5], atol=0.15)


@pytest.mark.slow
@pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS)
def test_the_stated_error_is_the_error(problem):
    # The rms over 60 seeds of error / stated error is 1 with a standard deviation of about 0.1.
    log_likelihood, prior, log_evidence = problem()
    ratios = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        plan = tempered(Target(log_likelihood, prior), rng).plan
        result = tempered(Target(log_likelihood, prior), rng, plan)
        ratios.append((result.log_evidence - log_evidence) / result.log_evidence_error)
    assert 0.6 < np.sqrt(np.mean(np.square(ratios))) < 1.4


class TestPlans:
    def test_temperatures_rise_to_one_and_chances_sum_to_one(self):
        log_likelihood, prior, _ = normal(4)
        plan = tempered(Target(log_likelihood, prior), np.random.default_rng(3), **SMALL).plan
        betas = [0.0] + [stage.beta for stage in plan]
        assert (np.diff(betas) > 0).all()
        assert betas[-1] == 1.0
        assert len(plan) > 2
        for stage in plan:
            assert stage.chances.shape == RHO.shape
            assert_allclose(stage.chances.sum(), 1)
            assert (stage.chances > 0).all()

    def test_a_pass_with_a_plan_keeps_to_it(self):
        log_likelihood, prior, _ = normal()
        first = tempered(Target(log_likelihood, prior), np.random.default_rng(4), **SMALL)
        second = tempered(Target(log_likelihood, prior), np.random.default_rng(5), first.plan, **SMALL)
        assert second.plan is first.plan
        assert_allclose(np.logaddexp.reduce(second.log_weights), second.log_evidence)
        assert_array_equal(second.diagnostics["beta"], [stage.beta for stage in first.plan])
        assert not np.array_equal(second.draws, first.draws)

    def test_the_first_rise_leaves_the_wanted_share(self, monkeypatch):
        log_likelihood, prior, _ = normal(2)
        for share in (0.3, 0.7):
            monkeypatch.setattr("paoswarm.sampling.tempered._SHARE", share)
            result = tempered(Target(log_likelihood, prior), np.random.default_rng(6), **SMALL)
            assert_allclose(result.diagnostics["effective_share"][:-1], share, rtol=1e-6)

    def test_the_same_seed_gives_the_same_run(self):
        log_likelihood, prior, _ = normal()
        a, b = (tempered(Target(log_likelihood, prior), np.random.default_rng(7), **SMALL) for _ in range(2))
        assert_array_equal(a.draws, b.draws)
        assert a.log_evidence == b.log_evidence


class TestBudget:
    def cost(self, plan, chains):
        return chains * (8 + len(plan) * 7)

    def test_every_call_is_counted(self):
        log_likelihood, prior, _ = normal()
        rows = []

        def counting(x):
            rows.append(len(x))
            return log_likelihood(x)

        target = Target(counting, prior)
        first = tempered(target, np.random.default_rng(8), **SMALL)
        assert target.n_evaluations == sum(rows) <= self.cost(first.plan, 32)

    @pytest.mark.parametrize("maxfev", [256, 257, 500, 900])
    def test_a_first_pass_stops_in_time_and_returns_what_is_there(self, maxfev):
        log_likelihood, prior, log_evidence = normal()
        target = Target(log_likelihood, prior, maxfev)
        result = tempered(target, np.random.default_rng(9), **SMALL)
        assert target.n_evaluations <= maxfev
        assert not result.complete
        assert result.log_evidence_error == math.inf
        assert np.isfinite(result.log_weights).all()
        assert_allclose(np.logaddexp.reduce(result.log_weights), result.log_evidence)
        assert abs(result.log_evidence - log_evidence) < 2

    def test_a_pass_with_a_plan_shrinks_to_the_budget_beforehand(self):
        log_likelihood, prior, _ = normal()
        plan = tempered(Target(log_likelihood, prior), np.random.default_rng(10), **SMALL).plan
        target = Target(log_likelihood, prior, maxfev=self.cost(plan, 24) - 1)
        result = tempered(target, np.random.default_rng(11), plan, **SMALL)
        assert result.complete
        assert result.diagnostics["chains"] == 16
        assert target.n_evaluations <= target.maxfev

    def test_a_budget_too_small_to_begin_is_refused_before_the_first_call(self):
        log_likelihood, prior, _ = normal()
        target = Target(log_likelihood, prior, maxfev=255)
        with pytest.raises(ValueError, match=r"256 likelihood evaluations .* leaves 255"):
            tempered(target, np.random.default_rng(12), **SMALL)
        assert target.n_evaluations == 0

    def test_an_interrupted_plan_is_refused(self):
        log_likelihood, prior, _ = normal()
        plan = tempered(Target(log_likelihood, prior, 500), np.random.default_rng(21), **SMALL).plan
        with pytest.raises(ValueError, match="plan ends at beta"):
            tempered(Target(log_likelihood, prior), np.random.default_rng(22), plan)

    def test_too_few_swarms_for_an_error_are_refused(self):
        log_likelihood, prior, _ = normal()
        with pytest.raises(ValueError, match="swarms must be at least 4"):
            tempered(Target(log_likelihood, prior), np.random.default_rng(13), swarms=3)

    def test_the_callback_can_end_it(self):
        log_likelihood, prior, _ = normal(4)
        seen = []

        def stop(beta, log_evidence):
            seen.append((beta, log_evidence))
            return len(seen) == 2

        result = tempered(Target(log_likelihood, prior), np.random.default_rng(14), callback=stop, **SMALL)
        assert len(seen) == len(result.plan) == 2
        assert not result.complete
        assert seen[0][0] < seen[1][0] == result.plan[-1].beta < 1


class TestExtremes:
    def test_equal_likelihoods(self):
        target = Target(lambda x: np.full(len(x), -3.25), [(0.0, 1.0)] * 2)
        first = tempered(target, np.random.default_rng(15), **SMALL)
        result = tempered(target, np.random.default_rng(16), first.plan, **SMALL)
        assert len(first.plan) == 1
        assert_allclose(result.log_evidence, -3.25, rtol=1e-13)
        assert result.log_evidence_error < 1e-6

    def test_one_dimension(self):
        log_likelihood, prior, log_evidence = normal(1, sd=1e-3)
        target = Target(log_likelihood, prior)
        rng = np.random.default_rng(17)
        result = tempered(target, rng, tempered(target, rng).plan)
        assert abs(result.log_evidence - log_evidence) < 5 * result.log_evidence_error < 0.8

    def test_a_single_chain(self):
        log_likelihood, prior, log_evidence = normal(1)
        target = Target(log_likelihood, prior)
        rng = np.random.default_rng(23)
        result = tempered(target, rng, tempered(target, rng, chains=1, steps=300).plan, chains=1)
        assert result.complete
        assert result.diagnostics["chains"] == 8  # one in each swarm
        assert abs(result.log_evidence - log_evidence) < 1

    def test_no_likelihood_anywhere(self):
        target = Target(lambda x: np.full(len(x), -np.inf), [(0.0, 1.0)])
        result = tempered(target, np.random.default_rng(18), **SMALL)
        assert result.log_evidence == -math.inf
        assert not result.complete
        assert result.plan == ()
        assert len(result.draws) == 0

    def test_swarms_that_find_nothing_count_as_zero(self):
        # One prior draw in fifty has a likelihood: swarms of 32 often have none, and their zero belongs to the mean.
        target = Target(lambda x: np.where(x[:, 0] < 0.02, 0.0, -np.inf), [(0.0, 1.0)])
        rng = np.random.default_rng(19)
        result = tempered(target, rng, tempered(target, rng).plan, **SMALL)
        zeros = np.sum(result.diagnostics["swarm_log_evidence"] == -np.inf)
        assert 0 < zeros < 8
        assert np.isfinite(result.log_evidence)
        assert result.log_evidence_error > 0.2

    def test_unbounded_priors(self):
        from scipy.stats import norm

        # Normal prior and normal likelihood: the evidence is a normal density.
        target = Target(lambda x: norm.logpdf(x[:, 0], 2.0, 0.5), [norm(0, 1)])
        rng = np.random.default_rng(20)
        result = tempered(target, rng, tempered(target, rng).plan)
        assert abs(result.log_evidence - norm.logpdf(2.0, 0, math.sqrt(1.25))) < 5 * result.log_evidence_error < 0.5
