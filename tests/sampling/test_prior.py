"""Priors as users write them: what is read, coordinates that are inverse to parameters, and clear refusals."""

import json
import math

import numpy as np
import pytest
from scipy import stats

import paoswarm as ps
from paoswarm.sampling.read_prior import read_prior
from paoswarm.sampling.target import Target
from paoswarm.space.variables import Periodic
from paoswarm.store.encoding import decode, encode

MEAN = np.array([1.0, -2.0, 0.5])
COVARIANCE = np.array([[1.0, 0.6, -0.3], [0.6, 2.0, 0.2], [-0.3, 0.2, 0.5]])


def banana(u):
    """A correlated law as a transform of uniform deviates: x ~ N(0, 1), y | x ~ N(x^2, 1)."""
    z = stats.norm.ppf(u)
    return np.stack([z[:, 0], z[:, 0] ** 2 + z[:, 1]], axis=1)


PRIORS = {
    "pairs": [(0, 2), (-3, -1)],
    "uniform": [stats.uniform(0, 2), stats.uniform(-3, 2)],
    "frozen": [stats.norm(1, 2), stats.gamma(3, scale=2)],
    "mixed": {"a": (2, 6), "b": stats.norm(0, 3), "c": stats.uniform(-1, 3)},
    "correlated": stats.multivariate_normal(MEAN, COVARIANCE),
    "circles": {"phase": Periodic(-1, 5), "size": (2, 6), "hour": Periodic(0, 24)},
    "a circle among others": {"size": stats.norm(3, 2), "hour": Periodic(0, 24), "rate": stats.gamma(3)},
    "student": stats.multivariate_t(MEAN, COVARIANCE, df=2.5),
    "shares": (["a", "b"], stats.dirichlet([0.7, 2.0, 3.5])),
    "kernels": stats.gaussian_kde(
        np.random.default_rng(0).normal(size=(2, 30)) * [[1.0], [9.0]], weights=np.linspace(1, 3, 30)
    ),
    "blocks": {
        "size": (2, 6),
        "hour": Periodic(0, 24),
        ("u", "v", "w"): stats.multivariate_normal(MEAN, COVARIANCE),
        "fixed": 3.0,
        ("s", "t"): stats.dirichlet([1, 2, 3]),
        "rate": stats.gamma(3),
    },
    "newer": [stats.Normal(mu=1, sigma=2), stats.Uniform(a=1, b=4), stats.make_distribution(stats.gamma)(a=3)],
}


@pytest.mark.parametrize("prior", PRIORS.values(), ids=PRIORS)
def test_coordinates_and_parameters_are_inverse(prior):
    law = read_prior(prior)
    z = law.draw(200, np.random.default_rng(1))
    np.testing.assert_allclose(law.coordinates(law.parameters(z)), z, rtol=1e-9, atol=1e-9)


def test_tails_keep_their_digits():
    """At z = 12 the distribution function is one to the last bit; its complement is not."""
    law = read_prior([stats.norm(0, 1), stats.expon()])
    z = np.array([[12.0, 12.0], [-12.0, -12.0]])
    np.testing.assert_allclose(law.parameters(z)[:, 0], [12.0, -12.0], rtol=1e-12)
    np.testing.assert_allclose(law.coordinates(law.parameters(z)), z, rtol=1e-9)


@pytest.mark.parametrize("kind", ["frozen", "mixed", "circles", "a circle among others"])
def test_draws_follow_each_law(kind):
    """Kolmogorov-Smirnov at p > 1e-4 for each parameter: false alarm below 3e-4."""
    prior = PRIORS[kind]
    law = read_prior(prior)
    x = law.parameters(law.draw(4000, np.random.default_rng(2)))
    entries = list(prior.values()) if isinstance(prior, dict) else prior
    for column, entry in zip(x.T, entries, strict=True):
        ends = (entry.low, entry.high) if isinstance(entry, Periodic) else entry
        known = stats.uniform(ends[0], ends[1] - ends[0]) if isinstance(ends, tuple) else entry
        assert stats.kstest(column, known.cdf).pvalue > 1e-4
        shifted = column + 0.2 * known.std()
        assert stats.kstest(shifted, known.cdf).pvalue < 1e-4  # the test can fail


def test_draws_have_the_mean_and_covariance_of_a_correlated_prior():
    """Each entry within 4 standard errors; nine distinct entries: false alarm 6e-4."""
    law = read_prior(stats.multivariate_normal(MEAN, COVARIANCE))
    n = 20_000
    x = law.parameters(law.draw(n, np.random.default_rng(3)))
    variance = np.diag(COVARIANCE)
    assert (np.abs(x.mean(axis=0) - MEAN) < 4 * np.sqrt(variance / n)).all()
    error = np.sqrt((np.outer(variance, variance) + COVARIANCE**2) / n)  # of a normal law's sample covariance
    assert (np.abs(np.cov(x.T) - COVARIANCE) < 4 * error).all()


def test_a_transform_is_the_law_it_describes():
    law = read_prior((2, banana))
    z = law.draw(50, np.random.default_rng(4))
    np.testing.assert_allclose(law.parameters(z)[:, 0], z[:, 0], rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(law.parameters(z)[:, 1], z[:, 0] ** 2 + z[:, 1], rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("prior", [*PRIORS.values(), (2, banana)], ids=[*PRIORS, "transform"])
def test_the_density_of_the_coordinates_is_normalised(prior):
    """E[p/q] = 1 with draws from a wider q, |z| < 4: false alarm 6e-5 each."""
    law = read_prior(prior)
    rng = np.random.default_rng(5)
    wide = stats.uniform(-1.5, 3.0) if law.is_box else stats.norm(0, 1.5)
    z = wide.rvs((20_000, law.dim), random_state=rng)
    ratio = np.exp(law.log_density(z) - wide.logpdf(z).sum(axis=1))
    assert abs(ratio.mean() - 1) < 4 * ratio.std() / math.sqrt(len(z))


@pytest.mark.parametrize("prior", PRIORS.values(), ids=PRIORS)
def test_the_density_of_the_parameters_is_that_of_the_coordinates_over_the_volume(prior):
    """d log x / d log z by central differences, for laws that are products and for a linear map."""
    law = read_prior(prior)
    z = 0.9 * law.draw(20, np.random.default_rng(6))
    h = 1e-5
    steps = [(law.parameters(z + h * e) - law.parameters(z - h * e)) / (2 * h) for e in np.eye(law.dim)]
    volume = np.linalg.slogdet(np.stack(steps, axis=1))[1]
    expected = law.log_density(z) - volume
    np.testing.assert_allclose(law.parameter_log_density(law.parameters(z)), expected, rtol=1e-7, atol=1e-7)


def test_a_density_that_is_not_known_is_not_stated():
    class Bare:
        """A law with no more than is asked for."""

        def __getattr__(self, name):
            if name in {"cdf", "sf", "ppf", "isf", "support"}:
                return getattr(stats.norm(), name)
            raise AttributeError(name)

    assert read_prior((2, banana)).parameter_log_density(np.zeros((1, 2))) is None
    assert read_prior([Bare()]).parameter_log_density(np.zeros((1, 1))) is None


def banana_density(x):
    return stats.norm.logpdf(x[:, 0]) + stats.norm.logpdf(x[:, 1], x[:, 0] ** 2)


def test_a_transform_may_come_with_names_and_its_density():
    """E[1/p] over draws is the area where it is positive; here, of q/p with a normal q, it is one. |z| < 4: 6e-5."""
    law = read_prior((["bend", "height"], banana, banana_density))
    assert law.names == ["bend", "height"]
    x = law.parameters(law.draw(20_000, np.random.default_rng(3)))
    q = stats.multivariate_normal([0.5, 0.5], 0.05 * np.eye(2))
    ratio = np.exp(q.logpdf(x) - law.parameter_log_density(x))
    assert abs(ratio.mean() - 1) < 4 * ratio.std() / math.sqrt(len(x))
    posterior = ps.sample(
        lambda x: -0.5 * (x**2).sum(axis=1), (["a", "b"], banana, banana_density), vectorized=True, rng=1
    )
    np.testing.assert_allclose(posterior.log_prior, banana_density(posterior.draws))
    assert posterior.names == ["a", "b"]


def test_a_density_of_scipy_may_go_with_a_transform_and_none_can_write_into_the_draws():
    def spoil(x):
        x[:] = 0
        return np.zeros(len(x))

    for density in (stats.multivariate_normal([0, 0]).logpdf, spoil):
        law = read_prior((2, stats.norm.ppf, density))
        x = law.parameters(law.draw(3, np.random.default_rng(1)))
        before = x.copy()
        assert law.parameter_log_density(x).shape == (3,)
        assert law.parameter_log_density(x[:1]).shape == (1,)
        np.testing.assert_array_equal(x, before)


def test_a_correlated_prior_may_have_names():
    law = stats.multivariate_normal(MEAN, COVARIANCE)
    named, plain = read_prior((["u", "v", "w"], law)), read_prior(law)
    assert (named.names, plain.names) == (["u", "v", "w"], ["x0", "x1", "x2"])
    z = plain.draw(5, np.random.default_rng(1))
    np.testing.assert_array_equal(named.parameters(z), plain.parameters(z))


def test_outside_its_box_a_prior_is_zero():
    assert read_prior([(0, 1), (0, 1)]).parameter_log_density(np.array([[0.5, 1.1]])) == -np.inf
    assert read_prior([(0, 1), stats.norm()]).parameter_log_density(np.array([[1.1, 0.0]])) == -np.inf


def test_on_a_circle_the_turn_does_not_matter():
    for kind in ("circles", "a circle among others"):
        law = read_prior(PRIORS[kind])
        z = law.draw(50, np.random.default_rng(7))
        turned = z + 2 * (law.circle.width == 2) * np.random.default_rng(8).integers(-5, 6, z.shape)
        np.testing.assert_allclose(law.inside(turned), z, atol=1e-12)
        np.testing.assert_allclose(law.parameters(turned), law.parameters(z), atol=1e-10)
        x = law.parameters(z)
        later = x + 24 * np.array([name == "hour" for name in law.names])
        np.testing.assert_allclose(law.coordinates(later), z, atol=1e-10)
        np.testing.assert_allclose(law.parameter_log_density(later), law.parameter_log_density(x))


def test_which_coordinates_are_periodic():
    circles, other = (read_prior(PRIORS[kind]) for kind in ("circles", "a circle among others"))
    assert circles.is_box
    assert not other.is_box
    np.testing.assert_array_equal(circles.circle.width, [2, np.inf, 2])
    np.testing.assert_array_equal(other.circle.width, [np.inf, 2, np.inf])
    assert all(read_prior(PRIORS[kind]).circle is None for kind in ("pairs", "frozen", "mixed", "correlated"))
    np.testing.assert_array_equal(circles.inside(np.array([[1.5, 1.5, -1.5]])), [[-0.5, 1.0, 0.5]])
    np.testing.assert_array_equal(other.inside(np.array([[50.0, 1.5, 50.0]])), [[50.0, -0.5, 37.0]])


@pytest.mark.parametrize("kind", ["circles", "a circle among others"])
def test_gathered_parameters_are_the_same_points_on_the_side_of_the_mean(kind):
    """Hours around midnight: 23 and 1 are two hours apart, not twenty-two."""
    law = read_prior(PRIORS[kind])
    hour = law.names.index("hour")
    x = law.parameters(law.draw(200, np.random.default_rng(9)))
    x[:, hour] = np.random.default_rng(10).normal(23.5, 1.0, 200) % 24
    weights = np.full(200, 1 / 200)
    found = law.gathered(x, weights)
    np.testing.assert_allclose(law.coordinates(found), law.coordinates(x), atol=1e-10)
    assert np.ptp(x[:, hour]) > 20  # as they came
    assert np.ptp(found[:, hour]) < 8
    assert abs((found[:, hour].mean() - 23.5 + 12) % 24 - 12) < 0.4
    lines = law.circle.width == np.inf
    np.testing.assert_array_equal(found[:, lines], x[:, lines])
    assert read_prior(PRIORS["mixed"]).gathered(x, weights) is x


def test_a_frozen_uniform_law_equals_a_pair_to_the_bit():
    def log_likelihood(x):
        return -((x[:, 0] - 1) ** 2) - (x[:, 1] + 2) ** 2

    pair, frozen = (
        ps.sample(log_likelihood, PRIORS[kind], vectorized=True, maxfev=600, rng=6) for kind in ("pairs", "uniform")
    )
    np.testing.assert_array_equal(pair.draws, frozen.draws)
    assert pair.log_evidence == frozen.log_evidence


def test_names_keep_their_order():
    assert read_prior({"zeta": (0, 1), "alpha": stats.norm(), "mu": (0, 1)}).names == ["zeta", "alpha", "mu"]
    assert read_prior([(0, 1)] * 3).names == ["x0", "x1", "x2"]
    assert read_prior(stats.multivariate_normal(MEAN, COVARIANCE)).names == ["x0", "x1", "x2"]
    x = read_prior({"big": (100, 101), "small": (0, 1)}).parameters(np.zeros((1, 2)))
    np.testing.assert_array_equal(x, [[100.5, 0.5]])


@pytest.mark.parametrize(
    ("prior", "error", "message"),
    [
        ([], ValueError, "prior is empty"),
        ({}, ValueError, "prior is empty"),
        ("uniform", TypeError, "got 'uniform'"),
        (["ab"], TypeError, "'x0' is 'ab'"),
        (None, TypeError, "got None"),
        (stats.norm(0, 1), TypeError, "must be a dict or list"),
        ((0, 1), TypeError, "'x0' is 0; give a frozen distribution or a pair"),
        ([(0, 1, 2)], TypeError, r"\(0, 1, 2\)"),
        ({"rate": stats.poisson(3)}, ValueError, "'rate' is discrete"),
        ({"k": (0, np.inf)}, ValueError, r"'k' is \(0.0, inf\).*finite ends"),
        ({"k": (np.nan, 1)}, ValueError, "finite ends"),
        ({"k": (2, 1)}, ValueError, r"\(2.0, 1.0\).*the lower one first"),
        ({"k": (1, 1)}, ValueError, "the lower one first"),
        ({"k": stats.norm(0, -1)}, ValueError, "'k' must be one proper distribution"),
        ({"k": stats.norm([0, 1], 1)}, ValueError, "'k' must be one proper distribution"),
        (stats.multivariate_normal([0, 0], [[1, 1], [1, 1]], allow_singular=True), ValueError, "not positive definite"),
        ({f"a{i}": Periodic(0, 1) for i in range(7)}, ValueError, "no more than 6 parameters may be Periodic"),
        (Periodic(0, 1), TypeError, r"dict or list .* got Periodic\("),
        ((0, banana), ValueError, "number of parameters, transform"),
        ((True, banana), ValueError, "number of parameters, transform"),
        ((["a", "a"], banana), ValueError, "names must differ"),
        (([], banana), ValueError, "names or their number"),
        ((["a"], stats.multivariate_normal([0, 0])), ValueError, r"1 names, \['a'\], for 2 parameters"),
        ((2, banana, 1.0), TypeError, "log density must be a function of parameters"),
        ((2, banana, lambda x: x), ValueError, r"log density must map .* returned \(2, 2\)"),
        ([stats.dirichlet([1, 2])], TypeError, "'x0' is a multivariate distribution.*give .names, transform."),
        (stats.multinomial(3, [0.5, 0.5]), TypeError, "prior must be a dict or list"),
        ((["a", "b"], stats.dirichlet([1, 2])), ValueError, "2 shares has 1 parameters.*leave out 'b'"),
        ({("a", "b"): stats.norm(0, 1)}, TypeError, r"\('a', 'b'\) must be a multivariate distribution"),
        ({("a", "b"): stats.multivariate_t([0, 0, 0])}, ValueError, "2 names.*for 3 parameters"),
        ({("a", "b"): banana, "a": (0, 1)}, ValueError, "names must differ"),
        (stats.multivariate_t([0, 0], [[1, 1], [1, 1]], allow_singular=True), ValueError, "not positive definite"),
        ([stats.Normal(mu=[0, 1])], ValueError, "one proper distribution.*array"),
        *([({"n": stats.Binomial(n=3, p=0.5)}, ValueError, "'n' is discrete")] if hasattr(stats, "Binomial") else []),
    ],
)
def test_a_wrong_prior_is_refused_before_any_evaluation(prior, error, message):
    calls = []
    with pytest.raises(error, match=message):
        ps.sample(lambda x: calls.append(x) or 0.0, prior, rng=7)
    assert not calls


def test_a_transform_of_the_wrong_shape_is_refused():
    with pytest.raises(ValueError, match=r"transform must map \(3, 2\) .* \(3, 1\)"):
        ps.sample(lambda x: 0.0, (2, lambda u: u[:, :1]), maxfev=100, rng=8)


def split(u):
    """As one writes it for dynesty."""
    return np.array([10 * u[0] - 5, stats.norm.ppf(u[1])])


def overwriting(u):
    """It returns an array of the right shape for any number of rows, with most of them unchanged."""
    x = u.copy()
    x[0], x[1] = 10 * x[0] - 5, 2 * x[1]
    return x


@pytest.mark.parametrize("transform", [split, overwriting])
def test_a_transform_of_one_vector_is_recognised(transform):
    with pytest.raises(ValueError, match=r"one vector .* lambda u: np.array\(\[transform\(row\) for row in u\]\)"):
        read_prior((2, transform))
    law = read_prior((2, lambda u: np.array([transform(row) for row in u])))  # as the message advises
    np.testing.assert_allclose(law.parameters(np.zeros((5, 2)))[:, 0], 0)


def test_a_transform_that_mixes_rows_is_refused():
    with pytest.raises(ValueError, match="every row by itself"):
        read_prior((2, lambda u: u - u.mean(axis=0)))


def test_an_error_in_a_transform_is_passed_on():
    with pytest.raises(ZeroDivisionError):
        read_prior((2, lambda u: u / (1 // 0)))


@pytest.mark.parametrize(
    ("family", "advice"),
    [(stats.norm, r"stats\.norm\(loc, scale\)"), (stats.gamma, r"stats\.gamma\(a, loc, scale\)")],
    ids=["norm", "gamma"],
)
def test_a_distribution_without_parameters_is_refused(family, advice):
    with pytest.raises(TypeError, match=f"'rate' is scipy.stats.{family.name} without parameters; write {advice}"):
        read_prior({"rate": family})


def test_a_histogram_has_all_its_parameters():
    law = read_prior({"rate": stats.rv_histogram(np.histogram([1.0, 2.0, 2.5, 4.0]), density=True)})
    assert law.parameters(np.zeros((1, 1))) == pytest.approx(2.25, abs=0.5)


@pytest.mark.parametrize(
    ("prior", "advice"),
    [
        (stats.norm(0, 1), r"write \[distribution\]"),
        (stats.multivariate_normal, "with its parameters"),
        (np.sin, r"write \(number, transform\)"),
    ],
    ids=["distribution", "family", "transform"],
)
def test_a_prior_that_stands_alone_gets_advice(prior, advice):
    with pytest.raises(TypeError, match=advice):
        read_prior(prior)


def test_a_transform_is_given_deviates_inside_the_unit_interval():
    """The sampler's heavy tails go beyond z = 8.3, where the distribution function rounds to one."""
    seen = []

    def transform(u):
        seen.append(u)
        return u

    read_prior((2, transform)).parameters(np.array([[0.0, 9.0], [-40.0, 40.0]]))
    assert len(seen[-1]) == 2
    assert (seen[-1] > 0).all()
    assert (seen[-1] < 1).all()


@pytest.mark.parametrize(
    ("prior", "start", "message"),
    [
        ((2, banana), [[0.0, 0.0]], "a transform cannot be inverted"),
        ([(0, 1)] * 2, [[0.1, 0.2, 0.3]], "3 parameters, the prior has 2"),
    ],
    ids=["transform", "three for two"],
)
def test_a_wrong_start_is_refused_before_any_evaluation(prior, start, message):
    calls = []
    with pytest.raises(ValueError, match=message):
        ps.sample(lambda x: calls.append(x) or 0.0, prior, start=start, maxfev=100, rng=9)
    assert not calls


@pytest.mark.parametrize(
    ("ends", "message"),
    [
        ((1, 1), "both ends are equal"),
        ((2, 1), "the lower end is above the upper one"),
        ((0, np.inf), "two finite ends, the lower one first"),
        ((np.nan, 1), "two finite ends, the lower one first"),
    ],
)
def test_a_circle_needs_two_ends(ends, message):
    with pytest.raises(ValueError, match=rf"Periodic\(.*{message}"):
        Periodic(*ends)


# Ends of the support

SCALES = [
    stats.halfnorm(scale=3),
    stats.halfcauchy(),
    stats.gamma(0.1),
    stats.expon(scale=1e-5),
    stats.truncnorm(0, np.inf, scale=2),
    stats.uniform(0, 10),
    stats.lognorm(1),
]


@pytest.mark.parametrize("law", SCALES, ids=lambda law: law.dist.name)
def test_a_scale_is_never_zero_however_far_in_the_tail(law):
    """Its inverse, squared, is finite, so that a normal likelihood has a value everywhere."""
    z = np.linspace(-37, 37, 400)[:, None]
    x = read_prior([law, stats.norm(0, 1)]).parameters(np.tile(z, 2))[:, 0]
    with np.errstate(divide="raise", over="raise"):
        assert np.isfinite((1 / x) ** 2).all()
    assert (np.diff(x) >= 0).all()
    usual = np.abs(z[:, 0]) < 5
    np.testing.assert_allclose(x[usual], law.ppf(stats.norm.cdf(z[usual, 0])), rtol=1e-6)


@pytest.mark.parametrize("ends", [(0, 10), (0, 1e-200), (-1, 0), (1e6, 1e6 + 1), (-3, 5)])
def test_a_box_is_never_left_and_its_ends_are_not_met(ends):
    x = read_prior([ends]).parameters(np.array([[-1.0], [-1 + 1e-16], [0.0], [1.0]]))[:, 0]
    assert ends[0] < x.min() < x.max() < ends[1]
    np.testing.assert_allclose(x[[0, -1]], ends, rtol=1e-12, atol=1e-15 * (ends[1] - ends[0]))


def test_a_share_is_never_zero_or_one():
    law = read_prior([stats.beta(0.5, 0.5), stats.norm(0, 1)])
    x = law.parameters(np.array([[-37.0, 0.0], [-9.0, 0.0], [9.0, 0.0], [37.0, 0.0]]))[:, 0]
    assert (x > 0).all()
    assert (x < 1).all()


@pytest.mark.parametrize(
    "prior",
    [{"mean": stats.norm(0, 5), "sd": stats.halfnorm(scale=3)}, {"mean": (-20, 20), "sd": (0, 10)}],
    ids=["half-normal", "box"],
)
def test_a_likelihood_that_divides_by_the_scale_never_warns(prior):
    data = np.random.default_rng(1).normal(1, 0.5, 20)

    def log_likelihood(x):
        assert (x[:, 1] > 0).all()
        return -0.5 * (((data - x[:, :1]) / x[:, 1:]) ** 2).sum(axis=1) - len(data) * np.log(x[:, 1])

    with np.errstate(divide="raise", invalid="raise"):
        ps.sample(log_likelihood, prior, vectorized=True, maxfev=600, rng=4)


JOINT = ("student", "shares", "kernels", "blocks")


@pytest.mark.parametrize("kind", [*JOINT, "correlated"])
def test_joint_priors_are_rebuilt_from_a_store(kind):
    again = read_prior(decode(json.loads(json.dumps(encode(PRIORS[kind])))))
    z = again.draw(20, np.random.default_rng(0))
    assert again.names == read_prior(PRIORS[kind]).names
    np.testing.assert_allclose(again.parameters(z), read_prior(PRIORS[kind]).parameters(z), rtol=1e-12)


def test_a_store_tells_newer_laws_apart():
    assert encode(stats.Normal(mu=0.0)) != encode(stats.Normal(mu=1.0))
    assert encode(stats.Normal(mu=1.0)) == encode(stats.Normal(mu=1.0))


@pytest.mark.parametrize("kind", ["student", "kernels"])
def test_joint_priors_keep_their_digits_in_tails(kind):
    law = read_prior(PRIORS[kind])
    z = np.array([[9.0, -9.0, 7.0][: law.dim], [-12.0, 10.0, 5.0][: law.dim], [0.0] * law.dim])
    np.testing.assert_allclose(law.coordinates(law.parameters(z)), z, rtol=1e-8, atol=1e-8)


def test_points_outside_a_joint_prior_are_refused():
    target = Target(lambda x: np.zeros(len(x)), (["a", "b"], stats.dirichlet([1, 2, 3])))
    assert target.coordinates([[0.2, 0.3]]).shape == (1, 2)
    for outside in ([0.7, 0.4], [-0.1, 0.5]):
        with pytest.raises(ValueError, match="lies outside the prior"):
            target.coordinates([outside])
        assert target.prior.parameter_log_density(np.array([outside]))[0] == -np.inf


def test_a_student_law_without_end_is_normal():
    law = read_prior(stats.multivariate_t(MEAN, COVARIANCE, df=np.inf))
    z = np.random.default_rng(0).normal(size=(5, 3))
    np.testing.assert_array_equal(law.parameters(z), read_prior(PRIORS["correlated"]).parameters(z))


def test_blocks_by_names_in_a_posterior():
    """Shares of three parts seen in a noisy sum, beside a gain: moments by sums over a grid, within 4.5 errors."""
    seen, prior = np.array([0.9, 2.1]), {("a", "b"): stats.dirichlet([2, 1, 1]), "gain": (0.5, 1.5)}

    def simulate(p):
        c = 1 - p["a"] - p["b"]
        return p["gain"] * np.array([p["a"] + 2 * p["b"] + 3 * c, 1 + p["a"]])

    posterior = ps.sample(simulate, prior, seen, sigma=0.3, n_effective=1000, rng=1)
    assert posterior.names == ["a", "b", "gain"]
    axis = (np.arange(60) + 0.5) / 60
    a, b, gain = (one.ravel() for one in np.meshgrid(axis, axis, 0.5 + axis, indexing="ij"))
    inside = a + b < 1 - 1e-9
    a, b, gain = a[inside], b[inside], gain[inside]
    mean = gain * np.array([a + 2 * b + 3 * (1 - a - b), 1 + a])
    weights = stats.norm(mean, 0.3).pdf(seen[:, None]).prod(axis=0) * stats.dirichlet([2, 1, 1]).pdf(np.array([a, b]))
    exact = np.array([weights @ one for one in (a, b, gain)]) / weights.sum()
    assert (np.abs(posterior.mean() - exact) < 4.5 * posterior.std() / math.sqrt(1000) + 2e-3).all()
