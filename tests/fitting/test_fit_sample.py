"""Posteriors of fits are those of closed forms and quadrature; sampling starts from what the fit knows.

Moments are compared within 4.5 of their own standard errors, evidences within 4.5 of the stated ones: with independent
draws each comparison is wrong with a probability below 1e-5. Seeds are fixed.
"""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import integrate, stats
from scipy.special import gammaln

import paoswarm as ps
from paoswarm.least_squares.likelihoods import LogNormal, Normal
from paoswarm.least_squares.loss import Group, Loss
from paoswarm.least_squares.marginal import log_marginal_likelihoods

TIMES = np.linspace(0.5, 6.0, 12)
DESIGN = np.stack([np.ones(12), TIMES], axis=1)
LINE = {"level": (-20, 20), "slope": (-9, 9)}
WRONG = 4.5  # standard errors


def line(p):
    return p["level"] + p["slope"] * TIMES


STRAIGHT = line({"level": 3.0, "slope": 1.5}) + 0.3 * np.random.default_rng(0).normal(size=12)


class Counted:
    def __init__(self, simulate):
        self.simulate, self.calls = simulate, 0

    def __call__(self, p):
        self.calls += 1
        return self.simulate(p)


def assert_moments(posterior, mean, covariance, kurtosis=3.0):
    """Mean and covariance, with errors of normal draws; variances of others vary with their kurtosis."""
    n = posterior.weighted.effective_size
    sd = np.sqrt(np.diag(covariance))
    assert (np.abs(posterior.mean() - mean) < WRONG * sd / np.sqrt(n)).all()
    weights, draws = posterior.weighted.weights, posterior.weighted.draws
    off = draws - mean
    found = (weights[:, None] * off).T @ off / np.outer(sd, sd)
    assert (np.abs(found - covariance / np.outer(sd, sd)) < WRONG * np.sqrt((kurtosis - 1) / n)).all()


def assert_evidence(posterior, exact):
    assert abs(posterior.log_evidence - exact) < WRONG * posterior.log_evidence_error
    assert posterior.log_evidence_error < 0.02


def linear(weights=1.0):
    rows = DESIGN * np.broadcast_to(weights, 12)[:, None]
    covariance = np.linalg.inv(rows.T @ rows)
    best = covariance @ rows.T @ (weights * STRAIGHT)
    return best, covariance, float(((weights * (STRAIGHT - DESIGN @ best)) ** 2).sum())


def test_a_line_with_known_noise_has_its_normal_posterior():
    counted = Counted(line)
    sigma = np.geomspace(0.2, 0.8, 12)
    fit = ps.fit(counted, LINE, STRAIGHT, sigma=sigma, rng=1)
    best, covariance, chi_square = linear(1 / sigma)
    log_volume = 0.5 * np.linalg.slogdet(2 * np.pi * covariance)[1] - np.log(40 * 18)
    exact = -0.5 * chi_square - np.log(sigma * np.sqrt(2 * np.pi)).sum() + log_volume
    before = counted.calls
    posterior = fit.sample(rng=1)
    assert counted.calls - before == posterior.n_evaluations < 100
    assert posterior.success
    assert posterior.names == ["level", "slope"]
    assert_moments(posterior, best, covariance)
    assert_evidence(posterior, exact)


def test_a_line_with_unknown_noise_has_students_posterior():
    """The marginal over sigma is S^(-n/2), a t of n - 2 degrees of freedom with the covariance of the fit."""
    fit = ps.fit(line, LINE, STRAIGHT, rng=1)
    best, covariance, s = linear()
    nu, n = 10, 12
    assert_allclose(fit.covariance, covariance * s / nu, rtol=1e-6)
    posterior = fit.sample(n_effective=2000, rng=2)
    assert_moments(posterior, best, covariance * s / (nu - 2), kurtosis=3 + 6 / (nu - 4))
    log_peak = math.log(0.5) + gammaln(n / 2) - n / 2 * math.log(math.pi * s)
    log_shape = gammaln(nu / 2) - gammaln(n / 2) + math.log(nu * math.pi)
    log_volume = 0.5 * np.linalg.slogdet(covariance * s / nu)[1] + log_shape - math.log(40 * 18)
    assert_evidence(posterior, log_peak + log_volume)


def test_a_normal_prior_is_a_datum():
    prior = stats.norm(1.6, 0.05)
    fit = ps.fit(line, LINE, STRAIGHT, sigma=0.3, priors={"slope": prior}, rng=1)
    rows = np.vstack([DESIGN / 0.3, [0.0, 1 / 0.05]])
    covariance = np.linalg.inv(rows.T @ rows)
    best = covariance @ rows.T @ np.append(STRAIGHT / 0.3, 1.6 / 0.05)
    posterior = fit.sample(rng=3)
    assert_moments(posterior, best, covariance)
    drawn = posterior.weighted
    own = stats.norm(0, 0.3).logpdf(DESIGN @ drawn.draws.T - STRAIGHT[:, None]).sum(axis=0)
    near = own > own.max() - 20  # emulated: a quadratic function, of which the emulator's trend is one
    assert_allclose(drawn.log_likelihood[near], own[near], rtol=1e-6, atol=1e-6)
    assert_allclose(drawn.log_prior, prior.logpdf(drawn.draws[:, 1]) - math.log(40), rtol=1e-9)
    predicted = stats.multivariate_normal(DESIGN @ [0, 1.6], 0.09 * np.eye(12) + 0.0025 * np.outer(TIMES, TIMES))
    flat = np.array([integrate.quad(lambda a: math.exp(predicted.logpdf(STRAIGHT - a) + 20), *ends)[0] / 40
                     for ends in [(1, 5)]]).sum()  # fmt: skip
    assert_evidence(posterior, math.log(flat) - 20)


def test_logarithmic_unknowns_and_laws_of_counts_agree_with_quadrature():
    """One unknown, so the whole posterior is an integral: uniform in the logarithm, and cut off by a bound."""
    counts = np.array([2, 0, 1, 3, 1, 2])
    for ends in [(0.01, 100.0), (1.2, 100.0)]:
        fit = ps.fit(lambda p: np.full(6, p["mean"]), {"mean": ps.Real(*ends, log=True)}, counts,
                     likelihood="poisson", rng=1)  # fmt: skip
        posterior = fit.sample(n_effective=2000, rng=4)

        def density(u, power=0):
            return math.exp(stats.poisson(math.exp(u)).logpmf(counts).sum() + power * u)

        low, high = np.log(ends)
        zero, one, two = (integrate.quad(density, low, min(high, 3), (k,), epsabs=1e-14)[0] for k in range(3))
        assert_evidence(posterior, math.log(zero / (high - low)))
        mean = one / zero
        assert_moments(posterior, np.array([mean]), np.array([[two / zero - mean**2]]), kurtosis=9)


def test_two_places_are_both_drawn_from():
    def square(p):
        return p["root"] ** 2 * TIMES + p["level"]

    space = {"root": (-3, 3), "level": (-20, 20)}
    fit = ps.fit(square, space, STRAIGHT, sigma=0.3, x0=[{"root": 1.0, "level": 0}, {"root": -1.0, "level": 0}], rng=1)
    posterior = fit.sample(n_effective=2000, rng=5)
    share = posterior.weighted.weights[posterior.weighted.draws[:, 0] < 0].sum()
    assert abs(share - 0.5) < WRONG * 0.5 / math.sqrt(posterior.weighted.effective_size)
    assert posterior.n_evaluations < 300


def test_unknowns_that_are_not_determined_fill_their_bounds():
    fit = ps.fit(lambda p: line(p) + 0 * p["nothing"], LINE | {"nothing": (2, 5)}, STRAIGHT, sigma=0.3, rng=1)
    posterior = fit.sample(n_effective=2000, rng=6)
    mean, sd = posterior.mean()[2], posterior.std()[2]
    assert abs(mean - 3.5) < WRONG * math.sqrt(0.75 / 2000)
    assert_allclose(sd, math.sqrt(0.75), rtol=0.06)
    assert_evidence(
        posterior, ps.fit(line, LINE, STRAIGHT, sigma=0.3, rng=1).sample(n_effective=8000, rng=1).log_evidence
    )


NUISANCES = [
    (Normal(), False, False),
    (Normal(), True, False),
    (Normal(), True, True),
    (Normal(0.4), True, True),
    (Normal(np.array([0.3, 0.4, 0.5, 0.3, 0.4, 0.6])), False, True),
    (LogNormal(), False, False),
]


@pytest.mark.parametrize(("law", "has_scale", "has_offset"), NUISANCES)
def test_nuisances_are_integrated_out(law, has_scale, has_offset):
    """F11 against an integral over a grid of the logarithm of sigma, the scale and the offset."""
    mu = np.array([1.0, 2.0, 4.0, 3.0, 5.0, 2.5])
    data = 2.0 * mu + 1.0 + np.array([0.3, -0.4, 0.1, 0.5, -0.3, -0.2])
    y = mu if has_scale or has_offset else data * 1.1
    loss = Loss(data, (Group("", slice(0, 6), law, has_scale, has_offset),))

    def log_density(log_sigma, a, b):
        sigma = np.exp(log_sigma) if law.estimates_sigma else law.sigma
        predicted = a * y + b
        if isinstance(law, LogNormal):
            return stats.norm.logpdf(np.log(data), np.log(predicted), sigma).sum(axis=-1) - np.log(data).sum()
        return stats.norm.logpdf(data, predicted, sigma).sum(axis=-1)

    axes = [np.linspace(-3.5, 2.5, 49) if law.estimates_sigma else np.zeros(1),
            np.linspace(-3, 7, 161) if has_scale else np.ones(1),
            np.linspace(-17, 19, 161) if has_offset else np.zeros(1)]  # fmt: skip
    grid = np.meshgrid(*axes, indexing="ij")
    values = log_density(*(one.ravel()[:, None] for one in grid))
    steps = np.prod([one[1] - one[0] if len(one) > 1 else 1.0 for one in axes])
    exact = np.log(np.exp(values - values.max()).sum() * steps) + values.max()
    assert_allclose(log_marginal_likelihoods(loss, y[None])[0], exact, atol=2e-3)


def test_it_takes_a_fraction_of_the_simulations_of_sampling_from_nothing():
    def curve(p):
        return p["limit"] * (1 - np.exp(-p["rate"] * TIMES))

    data = curve({"limit": 16.0, "rate": 0.5}) + 0.3 * np.random.default_rng(0).normal(size=12)
    space = {"limit": (5, 50), "rate": ps.Real(0.05, 5, log=True)}
    counted = Counted(curve)
    mine = ps.fit(counted, space, data, sigma=0.3, rng=1).sample(n_effective=500, rng=1)
    known = counted.calls
    theirs = ps.sample(lambda p: stats.norm(0, 0.3).logpdf(counted(p) - data).sum(), space, n_effective=500, rng=1)
    assert counted.calls - known > 20 * known
    assert_allclose(mine.mean(), theirs.mean(), atol=WRONG * np.sqrt(2 / 500) * theirs.std().max())
    both = math.hypot(mine.log_evidence_error, theirs.log_evidence_error)
    assert abs(mine.log_evidence - theirs.log_evidence) < WRONG * both


def test_the_budget_is_never_exceeded_and_workers_change_nothing_but_the_order():
    fit = ps.fit(line, LINE, STRAIGHT, sigma=0.3, rng=1)
    short = fit.sample(maxfev=15, rng=1)
    assert short.n_evaluations == 15
    assert not short.success
    assert "raise maxfev" in short.message
    assert_allclose(fit.sample(n_effective=200, rng=1).draws, fit.sample(n_effective=200, rng=1, workers=map).draws)
    with pytest.raises(ValueError, match="at least 100"):
        fit.sample(n_effective=10)


def test_what_the_fit_did_not_find_out_is_said():
    fit = ps.fit(line, LINE, STRAIGHT, sigma=0.3, maxfev=12, rng=1)
    assert not fit.success
    posterior = fit.sample(n_effective=200, rng=1)
    assert not posterior.success
    assert "there may be others" in posterior.message
    assert "cannot be ruled out" in posterior.message


@pytest.mark.filterwarnings("ignore:the function raised")
def test_failures_penalties_constraints_and_whole_numbers():
    def fragile(p):
        if p["slope"] > 1.5:
            raise ArithmeticError("no solution")
        return line(p) + p["shift"]

    fit = ps.fit(
        fragile,
        LINE | {"shift": ps.Integer(0, 2)},
        STRAIGHT,
        sigma=0.3,
        penalty=lambda p: (p["level"] + p["shift"] - 3.0) / 0.05,
        constraints=lambda p: p["slope"] - 1.45,
        rng=1,
    )
    posterior = fit.sample(n_effective=400, rng=1)
    assert posterior.names == ["level", "slope"]
    assert (posterior.weighted.draws[:, 1] <= 1.45).all()
    middles = 1 + 0.45 * (np.arange(400) + 0.5) / 400
    level, slope = np.meshgrid(np.linspace(2, 4, 801), middles, indexing="ij")
    fall = (STRAIGHT - level[..., None] - slope[..., None] * TIMES) ** 2 / 0.09
    weights = np.exp(-0.5 * (fall.sum(axis=-1) + ((level - 3) / 0.05) ** 2))
    mean = (weights * level).sum() / weights.sum(), (weights * slope).sum() / weights.sum()
    found = posterior.mean() + np.array([fit.best["shift"], 0])
    assert (np.abs(found - mean) < WRONG * posterior.std() / math.sqrt(posterior.effective_size)).all()


def test_circles_are_wrapped():
    def wave(p):
        return np.sin(TIMES * 1.3 + p["phase"])

    data = wave({"phase": 0.05}) + 0.3 * np.random.default_rng(2).normal(size=12)
    fit = ps.fit(wave, {"phase": ps.Periodic(0, 2 * np.pi)}, data, sigma=0.3, rng=1)
    posterior = fit.sample(n_effective=1000, rng=1)

    def density(a, power=0):
        return a**power * math.exp(stats.norm(0, 0.3).logpdf(wave({"phase": a}) - data).sum() - 5)

    zero, one, two = (integrate.quad(density, -np.pi, np.pi, (k,), points=[0.0])[0] for k in range(3))
    mean = one / zero
    turns = np.round((posterior.mean() - mean) / (2 * np.pi)) * 2 * np.pi
    assert_moments(posterior, mean + turns, np.array([[two / zero - mean**2]]))


class Patience:
    """How many more simulations there may be before somebody interrupts."""

    left = math.inf


def watched(p):
    Patience.left -= 1
    if Patience.left < 0:
        raise KeyboardInterrupt
    return line(p)


@pytest.mark.filterwarnings("ignore:the function")
def test_draws_that_are_stored_go_on_with_the_same_bits(tmp_path, monkeypatch):
    monkeypatch.setattr(Patience, "left", math.inf)
    file = tmp_path / "draws.paoswarm"
    fit = ps.fit(watched, LINE | {"held": 3.0}, STRAIGHT, sigma=0.3, rng=1)
    whole = fit.sample(n_effective=200, rng=1)
    Patience.left = 12  # too early for a posterior
    with pytest.raises(KeyboardInterrupt, match="repeat the call to continue"):
        fit.sample(n_effective=200, rng=1, store=file)
    Patience.left = math.inf
    again = fit.sample(n_effective=200, rng=1, store=file)
    assert_allclose(again.draws, whole.draws, rtol=0)
    assert again.log_evidence == whole.log_evidence
    Patience.left = 10  # for a comparison; all others are known
    assert fit.sample(n_effective=200, rng=1, store=file).log_evidence == whole.log_evidence
    with pytest.raises(ps.errors.StoreError, match=r"repeat fit\.sample"):
        ps.resume(file, watched)


def test_the_workers_of_an_asynchronous_fit_draw_whole_batches():
    fit = ps.fit(line, LINE, STRAIGHT, rng=1, workers=ps.Workers(2, asynchronous=True))
    posterior = fit.sample(n_effective=100, rng=1)
    assert_array_equal(posterior.weighted.draws, fit.sample(n_effective=100, workers=1, rng=1).weighted.draws)
    with pytest.raises(ValueError, match="asynchronous=True is for minimize and fit"):
        fit.sample(n_effective=100, workers=ps.Workers(2, asynchronous=True))
