"""An unbiased estimate of the likelihood gives the posterior and evidence of the exact one.

Comparisons within 4.5 standard errors: each is wrong with a probability below 1e-5; seeds are fixed.
"""

import math

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import stats

import paoswarm as ps
from paoswarm.sampling.target import Target
from paoswarm.sampling.tempered import tempered

WRONG = 4.5
SEEN = np.array([0.3, 1.1, -0.2])
DESIGN = np.stack([np.ones(3), np.arange(3.0)], axis=1)
NOISE, HIDDEN = 0.5, 0.7
PRIOR = {"level": stats.norm(0, 2), "slope": stats.norm(0, 1)}


class Estimate:
    """The likelihood averaged over a few draws of a hidden effect on each datum."""

    def __init__(self, draws):
        self.rng, self.draws, self.calls = np.random.default_rng(1), draws, 0

    def __call__(self, x):
        self.calls += 1
        hidden = self.rng.normal(0, HIDDEN, (self.draws, 3))
        z = (SEEN - DESIGN @ x - hidden) / NOISE
        with np.errstate(divide="ignore"):
            densities = np.exp(-0.5 * z**2).mean(axis=0) / (NOISE * math.sqrt(2 * math.pi))
            return float(np.log(densities).sum())


def test_the_posterior_is_that_of_the_exact_likelihood():
    covariance = DESIGN @ np.diag([4.0, 1.0]) @ DESIGN.T + (NOISE**2 + HIDDEN**2) * np.eye(3)
    exact = stats.multivariate_normal(np.zeros(3), covariance).logpdf(SEEN)
    gain = np.diag([4.0, 1.0]) @ DESIGN.T @ np.linalg.inv(covariance)
    spread = np.diag([4.0, 1.0]) - gain @ DESIGN @ np.diag([4.0, 1.0])
    estimate = Estimate(5)
    at_best = [estimate(gain @ SEEN) for _ in range(2000)]
    assert np.std(at_best) > 0.5  # no small noise
    posterior = ps.sample(estimate, PRIOR, unbiased=True, n_effective=1000, rng=1)
    assert abs(posterior.log_evidence - exact) < WRONG * posterior.log_evidence_error < 0.2
    errors = np.sqrt(np.diag(spread) / 1000)
    assert (np.abs(posterior.mean() - gain @ SEEN) < WRONG * errors).all()
    kurtosis = 3
    assert (np.abs(posterior.std() ** 2 / np.diag(spread) - 1) < WRONG * math.sqrt((kurtosis - 1) / 1000)).all()
    # The mean of the logarithms, which is biased, is told apart.
    alone = stats.multivariate_normal(DESIGN @ gain @ SEEN, (NOISE**2 + HIDDEN**2) * np.eye(3)).logpdf(SEEN)
    assert np.mean(at_best) < alone - WRONG * np.std(at_best) / math.sqrt(2000)


def test_without_the_word_no_error_is_stated():
    with pytest.warns(RuntimeWarning, match="unbiased=True"):
        posterior = ps.sample(Estimate(5), PRIOR, n_effective=100, rng=1)
    assert math.isinf(posterior.log_evidence_error)


def test_moves_are_right_too():
    """A normal law with log-normal noise of mean one, which states keep until they move."""
    rng = np.random.default_rng(0)

    def log_likelihood(x):
        noise = rng.normal(size=len(x)) - 0.5
        return -0.5 * ((x - 0.5) ** 2).sum(axis=1) / 0.49 - 2 * math.log(0.7 * math.sqrt(2 * math.pi)) + noise

    target = Target(log_likelihood, [(-5.0, 5.0)] * 2)
    plan = tempered(target, rng).plan
    result = tempered(target, rng, plan)
    assert abs(result.log_evidence + 2 * math.log(10)) < WRONG * result.log_evidence_error < 0.6


def test_a_stored_run_of_estimates_is_repeated(tmp_path):
    about = {"unbiased": True, "n_effective": 100, "store": ps.Store(tmp_path / "run.paoswarm", fsync="never")}
    estimate = Estimate(5)
    first = ps.sample(estimate, PRIOR, rng=1, **about)
    before = estimate.calls
    assert_array_equal(ps.sample(estimate, PRIOR, rng=1, **about).draws, first.draws)
    assert estimate.calls == before


def test_it_is_for_log_likelihoods():
    with pytest.raises(ValueError, match="unbiased=True is for a log likelihood"):
        ps.sample(lambda p: DESIGN @ p, [(-1, 1)] * 2, SEEN, sigma=1.0, unbiased=True)
