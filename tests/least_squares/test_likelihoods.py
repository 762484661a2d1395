"""Laws of the noise: densities of `scipy.stats`, slopes by differences, and estimates by brute force."""

import mpmath
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from scipy.integrate import quad
from scipy.optimize import minimize_scalar

from paoswarm.least_squares.likelihoods import BY_NAME, Huber, LogNormal, Normal, Poisson, StudentT, read_likelihood
from paoswarm.least_squares.loss import Group, Loss

MU = np.array([0.3, 1.0, 2.5, 7.0, 40.0])
DATA = np.array([0.5, 1.1, 2.0, 9.0, 33.0])
COUNTS = np.array([0.0, 1.0, 4.0, 7.0, 33.0])
SIGMAS = np.array([0.2, 0.5, 0.4, 2.0, 5.0])

KNOWN = {
    "normal": (Normal(0.7), DATA, lambda mu: stats.norm(mu, 0.7).logpdf(DATA)),
    "normal, each its own": (Normal(SIGMAS), DATA, lambda mu: stats.norm(mu, SIGMAS).logpdf(DATA)),
    "relative": (
        Normal(0.7, relative=0.2),
        DATA,
        lambda mu: stats.norm(mu, np.hypot(0.7, 0.2 * mu)).logpdf(DATA),
    ),
    "relative, each its own": (
        Normal(SIGMAS, relative=0.5),
        DATA,
        lambda mu: stats.norm(mu, np.hypot(SIGMAS, 0.5 * mu)).logpdf(DATA),
    ),
    "log-normal": (LogNormal(0.3), DATA, lambda mu: stats.lognorm(0.3, scale=mu).logpdf(DATA)),
    "log-normal, each its own": (LogNormal(SIGMAS), DATA, lambda mu: stats.lognorm(SIGMAS, scale=mu).logpdf(DATA)),
    "poisson": (Poisson(), COUNTS, lambda mu: stats.poisson(mu).logpmf(COUNTS)),
    "t": (StudentT(0.4, df=3), DATA, lambda mu: stats.t(3, mu, 0.4).logpdf(DATA)),
    "cauchy": (StudentT(SIGMAS, df=1), DATA, lambda mu: stats.cauchy(mu, SIGMAS).logpdf(DATA)),
}
UNKNOWN = {
    "normal": (Normal(), lambda mu, s: stats.norm(mu, s).logpdf(DATA)),
    "log-normal": (LogNormal(), lambda mu, s: stats.lognorm(s, scale=mu).logpdf(DATA)),
    "t": (StudentT(), lambda mu, s: stats.t(4, mu, s).logpdf(DATA)),
    "cauchy": (StudentT(df=1), lambda mu, s: stats.cauchy(mu, s).logpdf(DATA)),
    "half a degree": (StudentT(df=0.5), lambda mu, s: stats.t(0.5, mu, s).logpdf(DATA)),
    "huber": (Huber(), lambda mu, s: log_huber((mu - DATA) / s, 1.345) - np.log(s)),
    "huber, nearly Laplace": (Huber(k=0.05), lambda mu, s: log_huber((mu - DATA) / s, 0.05) - np.log(s)),
}


def log_huber(z, k):
    """Log density, with its area by quadrature."""

    def rho(z):
        return np.where(np.abs(z) <= k, z * z, 2 * k * np.abs(z) - k * k)

    area = 2 * (quad(lambda t: np.exp(-t * t / 2), 0, k)[0] + quad(lambda t: np.exp(-rho(t) / 2), k, np.inf)[0])
    return -0.5 * rho(z) - np.log(area)


def of_one_output(law, data):
    return Loss(data, (Group("", slice(0, len(data)), law),))


@pytest.mark.parametrize(("law", "data", "log_density"), KNOWN.values(), ids=KNOWN)
def test_squares_and_constants_are_minus_twice_the_log_likelihood(law, data, log_density):
    loss = of_one_output(law, data)
    assert_allclose(loss.minus_two_log_likelihood(MU), -2 * log_density(MU).sum(), rtol=1e-12)
    residuals = loss.around(MU).residuals
    assert_allclose(loss.value(MU), residuals @ residuals, rtol=1e-14)
    other = 1.2 * MU  # what the value leaves out does not depend on the prediction
    assert_allclose(loss.value(other) - loss.value(MU), -2 * (log_density(other) - log_density(MU)).sum(), rtol=1e-11)


@pytest.mark.parametrize("k", [0.1, 1.345, 4.0])
def test_hubers_density_integrates_to_one(k):
    loss = of_one_output(Huber(0.4, k=k), DATA)
    expected = -2 * (log_huber((MU - DATA) / 0.4, k) - np.log(0.4)).sum()
    assert_allclose(loss.minus_two_log_likelihood(MU), expected, rtol=1e-8)


@pytest.mark.parametrize(("law", "log_density"), UNKNOWN.values(), ids=UNKNOWN)
def test_an_unknown_sigma_is_where_the_likelihood_is_largest(law, log_density):
    loss = of_one_output(law, DATA)

    def against(log_sigma):
        return -2 * log_density(MU, np.exp(log_sigma)).sum()

    found = minimize_scalar(against, bracket=(-1, 1), tol=1e-12)
    assert_allclose(loss.minus_two_log_likelihood(MU), found.fun, rtol=1e-11)
    assert_allclose(loss.sigma(MU), np.exp(found.x), rtol=1e-5)
    other = MU**0.9  # N ln f is minus twice the log likelihood, but for a constant
    change = loss.minus_two_log_likelihood(other) - loss.minus_two_log_likelihood(MU)
    assert_allclose(len(DATA) * np.log(loss.value(other) / loss.value(MU)), change, rtol=1e-10)


@pytest.mark.parametrize("law", [Normal(), LogNormal(), StudentT(), StudentT(df=0.5), StudentT(df=0.1), Huber()])
def test_the_estimate_of_sigma_is_a_stationary_point(law):
    rng = np.random.default_rng(1)
    for size in (1e-100, 1e-3, 1.0, 1e6):
        apart = size * rng.standard_t(2, 50)
        sigma = law._estimated(apart)
        z = apart / sigma
        assert_allclose(np.mean(z * law.rho(z)[1]), 1, rtol=1e-8)


def test_sigma_of_outputs_that_hit_all_data_is_tiny_but_not_zero():
    for law in (Normal(), LogNormal(), StudentT(), Huber()):
        around = of_one_output(law, DATA).around(DATA.copy())
        assert 0 < around.value < 1e-250
        assert_array_equal(around.residuals, 0)


LAWS = [Normal(0.7), Normal(SIGMAS, relative=0.3), LogNormal(0.3), Poisson(), StudentT(0.4, df=3), Huber(0.4), Huber(9)]


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_slopes_are_those_of_the_residuals(law):
    data = COUNTS if isinstance(law, Poisson) else DATA
    h = 1e-6 * MU
    up, down = law.scored(MU + h, data).residuals, law.scored(MU - h, data).residuals
    assert_allclose(law.scored(MU, data).slopes, (up - down) / (2 * h), rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_residuals_and_slopes_are_smooth_at_the_data(law):
    """Roots of a deviance cancel next to the datum."""
    data = np.array([4.0, 4.0, 4.0, 4.0, 4.0])
    mu = data * (1 + np.array([-1e-3, -1e-6, 0.0, 1e-10, 1e-4]))
    scored = law.scored(mu, data)
    near = law.scored(data * (1 + 1e-5), data).slopes
    assert_allclose(scored.slopes, near, rtol=3e-3)
    if not getattr(law, "relative", 0):
        assert_array_equal(np.sign(scored.residuals[0]), np.sign(mu - data))
        assert_allclose(scored.residuals[0], near[0] * (mu - data), rtol=3e-3, atol=1e-15)


def test_poissons_residuals_have_all_digits_wherever_the_prediction_is():
    data = np.array([3.0, 1e3, 1e6])
    for apart in (1e-12, 1e-8, 0.9e-4, 1.1e-4, 1e-3, 0.3):
        mu = data * (1 + apart)
        with mpmath.workdps(60):
            exact = [
                float(mpmath.sqrt(2 * (mpmath.mpf(m) - n + n * mpmath.log(mpmath.mpf(n) / mpmath.mpf(m)))))
                for m, n in zip(mu.tolist(), data.tolist(), strict=True)
            ]
        scored = Poisson().scored(mu, data)
        assert_allclose(scored.residuals[0], exact, rtol=1e-6)
        assert_allclose(scored.slopes[0] * scored.residuals[0], (mu - data) / mu, rtol=1e-6)  # half the slope of rho


def test_the_residual_of_growing_noise_is_smooth_where_the_prediction_is_zero():
    law = Normal(2.0, relative=0.3)
    mu = np.array([-1.0, -1e-5, -1e-12, 0.0, 1e-12, 1e-5, 1.0])
    scored = law.scored(mu, np.zeros(7))
    exact = [float(mpmath.sign(m) * mpmath.sqrt(mpmath.log1p((mpmath.mpf(0.15) * m) ** 2))) for m in mu.tolist()]
    assert_allclose(scored.residuals[1], exact, rtol=1e-12)
    h = 1e-6
    differences = [
        (b - a) / (2 * h) for a, b in (law.scored(np.array([m - h, m + h]), np.zeros(2)).residuals[1] for m in mu)
    ]
    assert_allclose(scored.slopes[1], differences, rtol=1e-6)


def test_no_counts_and_predictions_that_a_law_does_not_allow():
    zero = Poisson().scored(np.array([2.0, 1e-300]), np.zeros(2))
    assert_allclose(zero.residuals[0] ** 2, [4.0, 2e-300])  # -2 log exp(-mu)
    assert_allclose(zero.slopes[0][0], 0.5)  # of sqrt(2 mu) at 2
    for law, data in ((Poisson(), COUNTS), (LogNormal(0.3), DATA), (LogNormal(), DATA)):
        for bad in (0.0, -1.0, np.nan, np.inf):
            mu = MU.copy()
            mu[2] = bad
            around = of_one_output(law, data).around(mu)
            assert around.value == np.inf


@pytest.mark.parametrize("law", [Normal(), StudentT(), Huber()], ids=repr)
def test_one_datum(law):
    def against(log_z):
        return law.rho(np.exp([log_z]))[0][0] - 2 * log_z

    z = np.exp(minimize_scalar(against, bracket=(-1, 1), tol=1e-12).x)
    assert_allclose(of_one_output(law, np.array([3.0])).sigma(np.array([5.0])), 2 / z, rtol=1e-5)


@pytest.mark.parametrize(
    ("wrong", "error", "said"),
    [
        (lambda: Normal(0.0), ValueError, "sigma must be above zero"),
        (lambda: Normal(np.array([1.0, np.nan])), ValueError, "sigma must be above zero"),
        (lambda: Normal("1"), ValueError, "sigma must be above zero"),
        (lambda: Normal(relative=0.1), ValueError, "needs sigma"),
        (lambda: Normal(1.0, relative=-0.1), ValueError, "relative"),
        (lambda: StudentT(df=0), ValueError, "df"),
        (lambda: Huber(k=-1), ValueError, "k"),
        (lambda: Normal(1.0).with_sigma(2.0), ValueError, "has a sigma already"),
        (lambda: Poisson().with_sigma(2.0), ValueError, "Poisson has no sigma"),
        (lambda: Poisson().check(np.array([1.0, 2.5])), ValueError, "got 2.5"),
        (lambda: Poisson().check(np.array([-1.0])), ValueError, "got -1"),
        (lambda: LogNormal().check(np.array([1.0, 0.0])), ValueError, "must be above zero, got 0"),
        (lambda: read_likelihood("gaussian"), ValueError, "normal"),
        (lambda: read_likelihood(Normal), TypeError, "or its name"),
    ],
)
def test_errors(wrong, error, said):
    with pytest.raises(error, match=said):
        wrong()


def test_names_and_parts():
    assert [type(read_likelihood(name)) for name in BY_NAME] == list(BY_NAME.values())
    assert read_likelihood(own := Huber(2.0)) is own
    rows = np.array([0, 3])
    assert_array_equal(Normal(SIGMAS).part(rows).sigma, SIGMAS[rows])
    assert StudentT(0.4, df=3).part(rows) == StudentT(0.4, df=3)
    assert Normal().estimates_sigma
    assert not Normal(1.0).estimates_sigma
    assert not Poisson().estimates_sigma
