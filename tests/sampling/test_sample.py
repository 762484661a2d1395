"""`sample` from end to end: exact answers, exact repetition, exact budgets, odd likelihoods, interrupts."""

import importlib
import math
import pathlib
import re
import warnings

import numpy as np
import pytest
from scipy import stats
from scipy.special import i0, logsumexp

import paoswarm as ps
from paoswarm.sampling import assemble_posterior
from paoswarm.sampling.starts import known_points

BOX2 = [(-3, 3)] * 2


def bump(x):
    """The same bits for one point and for many: only elementwise operations."""
    a, b = x[..., 0] - 0.5, x[..., 1] + 0.25
    return -4 * (a * a) - 9 * (b * b)


BUMP_EVIDENCE = math.log(math.pi / 6 / 36)  # the box cuts off less than 1e-11


def check_moments(posterior, mean, covariance):
    """Means and variances within 4 of their own errors, by the delta method; false alarm 6e-5 for each of the 2d."""
    w, apart = posterior.weighted.weights[:, None], posterior.weighted.draws - mean
    square = np.diag(covariance)
    error = np.sqrt((w**2 * apart**2).sum(axis=0))
    assert (np.abs(posterior.mean() - mean) < 4 * error).all()
    assert (error < 0.1 * np.sqrt(square)).all()
    error = np.sqrt((w**2 * (apart**2 - square) ** 2).sum(axis=0))
    assert (np.abs(posterior.std() ** 2 - square) < 4 * error).all()
    assert (error < 0.2 * square).all()


def check_evidence(posterior, exact, largest=0.1):
    """Within 4 stated errors: false alarm 6e-5."""
    assert abs(posterior.log_evidence - exact) < 4 * posterior.log_evidence_error < 4 * largest


def test_a_normal_level_with_a_normal_prior():
    """y_i ~ N(m, 0.5^2), m ~ N(1, 2^2): posterior precision 1/4 + 5/0.25, y ~ N(1, 0.25 I + 4)."""
    y = np.array([1.2, 0.8, 1.9, 1.4, 2.2])
    posterior = ps.sample(
        lambda x: stats.norm.logpdf(y, x[:, :1], 0.5).sum(axis=1),
        {"level": stats.norm(1, 2)},
        vectorized=True,
        n_effective=1000,
        rng=1,
    )
    variance = 1 / (1 / 4 + 5 / 0.25)
    check_moments(posterior, [variance * (1 / 4 + y.sum() / 0.25)], [[variance]])
    exact = stats.multivariate_normal(np.ones(5), 0.25 * np.eye(5) + 4).logpdf(y)
    check_evidence(posterior, exact)
    assert posterior.names == ["level"]
    assert posterior.method == "importance"
    assert posterior.success
    assert posterior.message.startswith("No problem found. Modes that cover less than 3 % of the prior")
    with pytest.raises(AssertionError):  # the checks can fail
        check_evidence(posterior, exact + 0.5)
    with pytest.raises(AssertionError):
        check_moments(posterior, [variance * y.sum() / 0.25 - 0.2], [[variance]])


@pytest.mark.parametrize(
    "by_transform",
    [pytest.param(False, id="multivariate_normal"), pytest.param(True, id="transform", marks=pytest.mark.slow)],
)
def test_a_linear_model_with_a_correlated_prior(by_transform):
    """y = A x + e: posterior precision S^-1 + A^T A / s^2, y ~ N(A m, A S A^T + s^2 I)."""
    rng = np.random.default_rng(2)
    mean, s = np.array([1.0, -1.0, 0.5]), 0.4
    root = np.array([[1.0, 0.0, 0.0], [0.8, 0.6, 0.0], [-0.5, 0.3, 0.9]])
    prior_covariance = root @ root.T
    a = rng.normal(size=(6, 3))
    y = a @ mean + rng.normal(size=6)
    prior = stats.multivariate_normal(mean, prior_covariance)
    if by_transform:
        prior = (3, lambda u: mean + stats.norm.ppf(u) @ root.T)
    posterior = ps.sample(
        lambda x: stats.norm.logpdf(y, x @ a.T, s).sum(axis=1), prior, vectorized=True, n_effective=1000, rng=3
    )
    precision = np.linalg.inv(prior_covariance) + a.T @ a / s**2
    covariance = np.linalg.inv(precision)
    expected = covariance @ (np.linalg.solve(prior_covariance, mean) + a.T @ y / s**2)
    check_moments(posterior, expected, covariance)
    exact = stats.multivariate_normal(a @ mean, a @ prior_covariance @ a.T + s**2 * np.eye(6)).logpdf(y)
    check_evidence(posterior, exact)


def test_a_mixed_prior():
    """Independent parameters: uniform scale a in (0, 2) seen as e^a, and a normal one."""

    def log_likelihood(x):
        return x[:, 0] + stats.norm.logpdf(1.5, x[:, 1], 0.5)

    prior = {"a": (0, 2), "b": stats.norm(0, 1)}
    posterior = ps.sample(log_likelihood, prior, vectorized=True, n_effective=1000, rng=4)
    evidence = math.log(math.expm1(2) / 2) + stats.norm.logpdf(1.5, 0, math.sqrt(1.25))
    check_evidence(posterior, evidence)
    mean = (math.e**2 + 1) / math.expm1(2)  # of the density e^a on (0, 2)
    variance = (2 * math.e**2 - 2) / math.expm1(2) - mean**2
    check_moments(posterior, [mean, 1.2], np.diag([variance, 0.2]))


@pytest.fixture(scope="module")
def first():
    return ps.sample(bump, BOX2, n_effective=200, maxfev=1200, rng=5)


@pytest.mark.parametrize("other", [{}, {"vectorized": True}, {"workers": 2}, {"workers": map}], ids=str)
def test_the_seed_decides_however_the_likelihood_is_called(other, first):
    again = ps.sample(bump, BOX2, n_effective=200, maxfev=1200, rng=5, **other)
    np.testing.assert_array_equal(first.draws, again.draws)
    np.testing.assert_array_equal(first.weighted.log_weights, again.weighted.log_weights)
    assert first.log_evidence == again.log_evidence
    assert first.log_evidence_error == again.log_evidence_error
    assert first.n_evaluations == again.n_evaluations


def test_another_seed_gives_other_draws():
    a, b = (ps.sample(bump, BOX2, vectorized=True, maxfev=500, rng=seed) for seed in (5, 6))
    assert a.log_evidence != b.log_evidence


def test_a_likelihood_with_the_wrong_sign_is_noticed():
    def chi_square(x):
        return ((x - 0.2) ** 2).sum(axis=1) / 0.01

    with pytest.warns(RuntimeWarning, match="wrong sign"):
        posterior = ps.sample(chi_square, {"a": (-1, 1), "b": (-1, 1)}, vectorized=True, n_effective=200, rng=1)
    assert [remark.kind for remark in posterior.remarks] == ["shape"]
    assert "of a, b is pressed against" in posterior.message
    with pytest.warns(RuntimeWarning, match="wrong sign"), pytest.raises(ValueError, match="sign right"):
        ps.sample(chi_square, [(-1, 1), stats.norm(0, 3)], vectorized=True, rng=1)


def test_a_peak_that_only_happens_to_lie_in_the_last_percent_is_no_cause_for_doubt():
    posterior = ps.sample(
        lambda x: stats.norm.logpdf(x[:, 0], 1e-9, 1e-11), [(0, 1e-6)], vectorized=True, n_effective=300, rng=1
    )
    assert posterior.success


def test_a_density_of_scipy_is_a_vectorised_likelihood():
    """It makes a number, not an array, of a single row."""
    law = stats.multivariate_normal([0.3, -0.2], 0.01 * np.eye(2))
    posterior = ps.sample(law.logpdf, [(-1, 1)] * 2, vectorized=True, n_effective=300, rng=1)
    check_evidence(posterior, -2 * math.log(2))


def test_a_posterior_that_only_leans_on_a_wall_is_no_cause_for_doubt():
    posterior = ps.sample(lambda x: -20 * x[:, 0], [(0, 1)], vectorized=True, n_effective=500, rng=1)
    assert posterior.success
    assert posterior.log_evidence == pytest.approx(math.log((1 - math.exp(-20)) / 20), abs=5 * 0.05)


def test_a_prior_by_transform_has_no_digits_left_in_its_upper_tail_and_says_so():
    prior = (1, stats.norm.ppf)
    for there in (8.3, 9.0):
        beyond = stats.norm(there, 0.1)
        posterior = ps.sample(lambda x, beyond=beyond: beyond.logpdf(x[:, 0]), prior, vectorized=True, rng=1)
        assert math.isinf(posterior.log_evidence_error)
        assert "tail of the prior" in posterior.message
    below = ps.sample(lambda x: stats.norm.logpdf(x[:, 0], -there, 0.1), prior, vectorized=True, rng=1)
    exact = stats.norm.logpdf(there, 0, math.hypot(1, 0.1))
    assert abs(below.log_evidence - exact) < 4 * below.log_evidence_error < 0.1


def test_only_places_at_which_a_climb_has_arrived_are_called_modes():
    def two_peaks(x):
        return np.logaddexp(-50 * ((x - 0.5) ** 2).sum(axis=1), -50 * ((x + 0.5) ** 2).sum(axis=1))

    modes = ps.sample(two_peaks, BOX2, vectorized=True, n_effective=200, rng=1).diagnostics["modes"]
    np.testing.assert_allclose(modes[np.argsort(modes[:, 0])], [[-0.5, -0.5], [0.5, 0.5]], atol=0.05)


@pytest.mark.parametrize("prior", [[(-1, 1)] * 3, [stats.norm(0, 1)] * 3], ids=["box", "normal"])
@pytest.mark.parametrize("maxfev", [10, 11, 12, 13, 17, 29, 64, 150, 401, 1500])
def test_the_budget_is_never_exceeded_and_counts_are_true(maxfev, prior):
    calls = 0

    def log_likelihood(x):
        nonlocal calls
        calls += 1
        return -50 * float(x @ x)

    posterior = ps.sample(log_likelihood, prior, maxfev=maxfev, emulate=False, rng=7)
    assert posterior.n_evaluations == calls <= maxfev
    assert calls >= 0.8 * maxfev  # and it is put to use
    assert math.isfinite(posterior.log_evidence)
    if math.isinf(posterior.log_evidence_error):
        assert not posterior.success
        assert posterior.message != ""
    else:
        enough = posterior.diagnostics["effective_size"] > 1800
        assert (f"maxfev={maxfev} " in posterior.message) != enough
    if maxfev < 30:
        assert math.isinf(posterior.log_evidence_error)


@pytest.mark.parametrize(
    ("name", "value"),
    [("maxfev", 9), ("maxfev", 0), ("maxfev", 99.5), ("n_effective", 0), ("n_effective", 99), ("n_particles", 1)],
)
def test_a_number_out_of_range_is_refused_before_any_evaluation(name, value):
    calls = []
    with pytest.raises((TypeError, ValueError), match=f"{name} must be .*{value}"):
        ps.sample(lambda x: calls.append(x) or 0.0, BOX2, rng=1, **{name: value})
    assert not calls


def test_a_budget_too_small_for_the_search_is_said_with_the_least_that_makes_sense():
    with pytest.warns(RuntimeWarning, match=r"maxfev=300 .* 2 parameters .* 900 evaluations") as caught:
        posterior = ps.sample(bump, BOX2, vectorized=True, maxfev=300, emulate=False, rng=1)
    assert [one.filename for one in caught] == [__file__]
    assert not posterior.diagnostics["search_settled"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        posterior = ps.sample(bump, BOX2, vectorized=True, maxfev=900, rng=1)  # the advice is enough
        ps.sample(bump, BOX2, vectorized=True, maxfev=300, rng=1)  # with an emulator it is
    assert posterior.diagnostics["search_settled"]


def half(x, bad):
    """The bump of `bump` with its left half cut off through the peak."""
    if x[0] < 0.5:
        if bad is None:
            raise ArithmeticError(f"no answer at {x[0]:.3f}")
        return bad
    return bump(x)


def test_a_likelihood_of_zero_in_a_region():
    posterior = ps.sample(lambda x: half(x, -np.inf), BOX2, n_effective=300, maxfev=900, rng=8)
    assert (posterior.weighted.draws[:, 0] >= 0.5).all()
    assert posterior.n_failed == 0


def test_nan_counts_as_likelihood_zero():
    nans = 0

    def log_likelihood(x):
        nonlocal nans
        value = half(x, np.nan)
        nans += math.isnan(value)
        return value

    posterior = ps.sample(log_likelihood, BOX2, n_effective=300, maxfev=4000, rng=8)  # and no warning
    check_evidence(posterior, BUMP_EVIDENCE - math.log(2))
    assert posterior.n_failed == nans > 0


def test_exceptions_count_as_likelihood_zero_with_one_warning():
    raised = 0

    def log_likelihood(x):
        nonlocal raised
        raised += x[0] < 0.5
        return half(x, None)

    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        posterior = ps.sample(log_likelihood, BOX2, n_effective=300, maxfev=900, rng=8)
    assert [w.category for w in seen] == [RuntimeWarning]
    assert f"at {raised} points" in str(seen[0].message)
    assert "ArithmeticError: no answer at" in str(seen[0].message)
    assert posterior.n_failed == raised


def test_the_three_kinds_of_nothing_give_the_same_draws():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        a, b, c = (
            ps.sample(lambda x, bad=bad: half(x, bad), BOX2, maxfev=700, rng=9) for bad in (-np.inf, np.nan, None)
        )
    np.testing.assert_array_equal(a.draws, b.draws)
    np.testing.assert_array_equal(a.draws, c.draws)
    assert a.log_evidence == b.log_evidence == c.log_evidence


@pytest.mark.parametrize("bad", [-np.inf, np.nan])
def test_nothing_everywhere_is_an_error(bad):
    with pytest.raises(ValueError, match=r"at all 2000 draws .*start="):
        ps.sample(lambda x: bad, BOX2, rng=10)


def test_nothing_at_known_points_either_is_an_error_at_once():
    rows = []

    def nowhere(x):
        rows.append(len(x))
        return np.full(len(x), -np.inf)

    with pytest.raises(ValueError, match=r"at all 2000 draws .*no climb from start="):
        ps.sample(nowhere, BOX2, start=[0.5, 0.5], vectorized=True, rng=10)
    assert sum(rows) < 2100


@pytest.mark.parametrize("vectorized", [False, True])
def test_an_infinite_likelihood_is_an_error_that_names_the_point(vectorized):
    bad = []

    def log_likelihood(x):
        x = np.atleast_2d(x)
        value = np.where(x[:, 0] > 2.9, np.inf, bump(x))
        bad.extend(x[np.isinf(value)])
        return value if vectorized else value[0]

    with pytest.raises(ValueError, match=r"\+inf at .*must be at most") as caught:
        ps.sample(log_likelihood, BOX2, vectorized=vectorized, rng=11)
    assert str(bad[0]) in str(caught.value)


@pytest.mark.parametrize(
    "log_likelihood",
    [
        lambda x: 1e308 * (1 - 0.1 * (x**2).sum()),
        lambda x: 1e308 - 50 * (x**2).sum(),
        lambda x: 1e308 if x[0] > 0 else -1e308,
        lambda x: 1e101 + 0 * x[0],
    ],
)
def test_log_likelihoods_that_would_overflow_are_an_error_that_names_the_point(log_likelihood, capfd):
    with pytest.raises(ValueError, match=r"log_likelihood is \+.* at \[.*at most 1e\+100"):
        ps.sample(log_likelihood, [(-1, 1)] * 2, rng=1)
    assert capfd.readouterr() == ("", "")  # LAPACK prints by itself


def test_log_likelihoods_near_the_largest_that_are_allowed_do_no_harm(capfd):
    posterior = ps.sample(lambda x: 9e99 * (1 - 0.1 * (x**2).sum()), [(-1, 1)] * 2, rng=1, maxfev=2000)
    assert not posterior.success
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("fun", "vectorized", "message"),
    [
        (lambda x: -np.sum(x**2), True, "leave out vectorized=True"),
        (lambda x: -(x[0] ** 2) - x[1] ** 2, True, "real numbers of shape"),
        (lambda x: -(np.atleast_2d(x) ** 2), False, "must return one real number"),
        (lambda x: "much", False, "must return one real number"),
    ],
    ids=["sum flagged", "indexed flagged", "rows unflagged", "text"],
)
def test_an_answer_of_the_wrong_form_is_an_error_at_once(fun, vectorized, message):
    calls = []

    def log_likelihood(x):
        calls.append(x)
        return fun(x)

    with pytest.raises(TypeError, match=message):
        ps.sample(log_likelihood, BOX2, vectorized=vectorized, rng=12)
    assert len(calls) <= 2


def test_a_likelihood_for_many_points_that_is_not_flagged_is_an_error():
    with pytest.raises(ValueError, match=r"first 3 calls.*IndexError.*vectorized=True"):
        ps.sample(lambda x: -(x[:, 0] ** 2), BOX2, rng=12)


def test_a_likelihood_that_always_raises_is_an_error_that_says_why():
    def log_likelihood(x):
        raise NameError("name 'sgima' is not defined")

    with pytest.raises(ValueError, match=r"first 3 calls.*NameError: name 'sgima'"):
        ps.sample(log_likelihood, BOX2, rng=12)


def test_the_likelihood_may_overwrite_its_argument():
    def spoil(x):
        value = bump(x)
        x[...] = np.nan
        return value

    clean, spoiled = (ps.sample(f, BOX2, vectorized=True, maxfev=800, rng=13) for f in (bump, spoil))
    np.testing.assert_array_equal(clean.draws, spoiled.draws)
    assert clean.log_evidence == spoiled.log_evidence


def test_what_the_caller_gave_is_left_alone():
    start = np.array([[0.4, 0.0]])
    prior = {"b": (-3, 3), "a": stats.norm(0, 1)}
    posterior = ps.sample(bump, prior, start=start, vectorized=True, maxfev=800, rng=14)
    np.testing.assert_array_equal(start, [[0.4, 0.0]])
    assert list(prior) == posterior.names == ["b", "a"]


WIDE_AND_NEEDLE = [(-10, 10)] * 2
NEEDLE = np.array([8.0, 7.0])


def needle(x):
    """N(0, I) and, with the same mass, N((8, 7), 0.01^2 I): about 1e-4 of the box leads to it."""
    square = np.stack([(x**2).sum(axis=-1), ((x - NEEDLE) ** 2).sum(axis=-1) / 1e-4])
    return logsumexp(-0.5 * square.T - np.log(2 * math.pi) - [0, math.log(1e-4)], axis=-1)


def test_a_mode_that_no_draw_came_near_is_missed_and_the_chance_of_that_is_stated():
    """Half of the evidence is missing (0.69), and the stated error is small: this is why ``unseen`` exists."""
    posterior = ps.sample(needle, WIDE_AND_NEEDLE, n_particles=50, vectorized=True, n_effective=1000, rng=15)
    check_evidence(posterior, -2 * math.log(20))
    assert posterior.diagnostics["unseen"] == 30 / 50
    assert len(posterior.diagnostics["modes"]) == 1
    assert "less than 60 % of the prior cannot be ruled out" in posterior.message


@pytest.mark.parametrize("kind", [pytest.param("result", marks=pytest.mark.slow), "point"])
def test_a_known_mode_is_not_missed(kind):
    start = NEEDLE + 0.02
    if kind == "result":
        start = ps.minimize(lambda x: -needle(x), [(6, 10)] * 2, method=ps.PAO(), vectorized=True, maxiter=60, rng=16)
        assert np.abs(start.x - NEEDLE).max() < 0.01
    posterior = ps.sample(needle, WIDE_AND_NEEDLE, n_particles=50, start=start, vectorized=True, rng=15)
    check_evidence(posterior, math.log(2) - 2 * math.log(20))
    weighted = posterior.weighted
    near = weighted.weights[np.linalg.norm(weighted.draws - NEEDLE, axis=1) < 0.1].sum()
    assert near == pytest.approx(0.5, abs=4 * 0.5 / math.sqrt(posterior.effective_size))  # 6e-5
    distance = np.linalg.norm(posterior.diagnostics["modes"] - NEEDLE, axis=1)
    assert distance.min() < 1e-3


def test_a_known_mode_is_climbed_even_with_a_small_budget():
    """A quarter of it pays for two climbs, and no other way leads to the needle."""
    for seed in range(2):
        posterior = ps.sample(
            needle, WIDE_AND_NEEDLE, start=NEEDLE + 0.02, maxfev=500, vectorized=True, emulate=False, rng=seed
        )
        distance = np.linalg.norm(posterior.diagnostics["modes"] - NEEDLE, axis=1)
        assert distance.min() < 1e-3
        assert not posterior.success


def test_a_known_point_is_looked_at_however_small_the_budget():
    """No draw has a likelihood, and no climb fits."""

    def log_likelihood(x):
        inside = np.abs(x - 0.5).max(axis=1) < 0.001
        return np.where(inside, -((x - 0.5) ** 2).sum(axis=1) / 1e-8, -np.inf)

    posterior = ps.sample(log_likelihood, [(0, 1)] * 2, start=[0.5001, 0.5], vectorized=True, maxfev=200, rng=1)
    assert posterior.log_evidence == pytest.approx(math.log(math.pi * 1e-8), abs=5 * 0.06)


OTHER = np.array([-7.0, 8.0])


def two_needles(x):
    """A third of the mass each: N(0, I), and two needles of standard deviation 0.01."""
    square = np.stack([(x**2).sum(axis=-1), *(((x - at) ** 2).sum(axis=-1) / 1e-4 for at in (NEEDLE, OTHER))])
    return logsumexp(-0.5 * square.T - np.log(2 * math.pi) - np.log([1, 1e-4, 1e-4]), axis=-1)


def search_from_both():
    """A result whose swarm remembers both needles, one of them in its worse half."""
    points = np.concatenate([np.tile(NEEDLE, (20, 1)), np.tile(OTHER, (20, 1)) + 0.003])
    return ps.minimize(lambda x: -two_needles(x), WIDE_AND_NEEDLE, init=points, maxiter=0, vectorized=True, rng=1)


def test_a_start_may_be_points_by_name_or_several_results():
    """What they mean; that all known points are climbed from is the next test."""
    by_name = {"x1": [NEEDLE[1], OTHER[1]], "x0": [NEEDLE[0], OTHER[0]]}
    np.testing.assert_array_equal(known_points(by_name, ["x0", "x1"]), [NEEDLE, OTHER])
    found = search_from_both()
    alone = known_points(found, ["x0", "x1"])
    np.testing.assert_array_equal(known_points([found, found], ["x0", "x1"]), np.concatenate([alone, alone]))


@pytest.mark.parametrize("start", [[NEEDLE] * 20 + [OTHER], search_from_both], ids=["many points", "result"])
def test_everything_that_is_known_is_climbed_from(start):
    start = start() if callable(start) else start
    posterior = ps.sample(two_needles, WIDE_AND_NEEDLE, n_particles=50, start=start, vectorized=True, rng=15)
    check_evidence(posterior, math.log(3) - 2 * math.log(20))
    climbs = dict(
        zip(map(tuple, np.round(posterior.diagnostics["modes"])), posterior.diagnostics["climbs"], strict=True)
    )
    assert climbs[tuple(NEEDLE)] == climbs[tuple(OTHER)] == 0  # nobody found them but those who knew
    assert climbs[0, 0] >= 9


def test_a_search_may_have_looked_on_walls_and_outside_the_prior():
    """Its points there are moved inside or left out; those that a user gives must lie in the prior, or on its end."""

    def log_likelihood(x):
        return stats.norm.logpdf(x, [1, 2], [0.2, 0.3]).sum(axis=-1)

    prior = {"a": (0, 10), "b": stats.truncnorm(-2, 2, 2, 2)}  # b from -2 to 6
    found = ps.minimize(
        lambda x: -log_likelihood(x), [(0, 20), (-9, 9)], method=ps.PAO(), n_particles=60, maxiter=1, rng=2
    )
    bests = found.swarm.best_position
    assert ((bests < [0, -2]) | (bests > [10, 6])).any()
    found.swarm.best_position[:3, 0] = 0.0
    exact = math.log(stats.norm.pdf(2, 2, math.hypot(2, 0.3)) / (2 * stats.norm.cdf(2) - 1) / 10)
    for start in (found, [[0.0, 2.0], [0.0, 6.0], [10.0, -2.0]]):
        check_evidence(ps.sample(log_likelihood, prior, start=start, vectorized=True, n_effective=300, rng=1), exact)
    with pytest.raises(ValueError, match="outside the prior"):
        ps.sample(log_likelihood, prior, start=[11.0, 2.0])


@pytest.mark.slow
def test_many_known_points_cost_no_more_than_a_search():
    points = np.random.default_rng(1).uniform(-3, 3, (3000, 2))
    posterior = ps.sample(bump, BOX2, start=points, vectorized=True, n_effective=200, rng=1)
    alone = ps.sample(bump, BOX2, vectorized=True, n_effective=200, rng=1)
    assert posterior.n_evaluations < alone.n_evaluations + 16_500


@pytest.mark.parametrize("many", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_what_is_known_does_not_end_the_search(many):
    """Twenty points at the wide one of two modes: the other is found all the same."""

    def log_likelihood(x):
        wide, slim = stats.norm.logpdf(x, 4, 1).sum(axis=1), stats.norm.logpdf(x, -4, 0.5).sum(axis=1)
        return np.logaddexp(wide, slim)

    box = [(-10, 10)] * 3
    start = np.full((20, 3), 4.0)
    if many:
        start = ps.minimize_many(
            lambda x: -log_likelihood(x), [(0, 10)] * 3, method=ps.PAO(), runs=20, vectorized=True, rng=1
        )
    posterior = ps.sample(log_likelihood, box, start=start, vectorized=True, n_effective=500, rng=1)
    assert len(posterior.diagnostics["modes"]) == 2
    check_evidence(posterior, math.log(2) - 3 * math.log(20))
    assert posterior.success


@pytest.mark.parametrize(
    ("start", "error", "message"),
    [
        ({"x0": 1.0}, ValueError, r"start must name every parameter.*\['x0', 'x1'\], got \['x0'\]"),
        ({"x0": 1.0, "x1": 2.0, "y": 1.0}, ValueError, r"got \['x0', 'x1', 'y'\]"),
        ("there", TypeError, "start must be a result .*got 'there'"),
        ([[1.0], [2.0, 3.0]], TypeError, "start must be a result"),
        (np.ones((2, 2, 2)), TypeError, "start must be a result"),
        ([], TypeError, "start must be a result"),
        ({"x0": [1.0, 2.0, 3.0], "x1": [1.0, 2.0]}, ValueError, "start must have the same number of values"),
    ],
)
def test_a_start_that_is_none_is_refused(start, error, message):
    with pytest.raises(error, match=message):
        ps.sample(lambda x: pytest.fail("called"), WIDE_AND_NEEDLE, start=start)


def test_climbs_that_the_budget_cut_short_do_not_count():
    """Two equal modes, and a budget for a few climbs: that they may not have been enough is said."""

    def log_likelihood(x):
        return np.logaddexp(stats.norm.logpdf(x, -3, 0.5).sum(axis=1), stats.norm.logpdf(x, 3, 0.5).sum(axis=1))

    posteriors = [
        ps.sample(
            log_likelihood, [(-10, 10)] * 6, vectorized=True, maxfev=1500, n_effective=100, emulate=False, rng=seed
        )
        for seed in range(2)
    ]
    for posterior in posteriors:
        assert posterior.diagnostics["climbs"].sum() < 9.2
        assert not posterior.diagnostics["search_settled"]
        assert "too few climbs" in posterior.message


def interrupting(at):
    """The bump until the call number `at`, and the list of calls."""
    calls = []

    def log_likelihood(x):
        calls.append(x)
        if len(calls) == at:
            raise KeyboardInterrupt
        return bump(x)

    return log_likelihood, calls


@pytest.fixture(scope="module")
def whole():
    """The run that is going to be interrupted."""
    return ps.sample(bump, BOX2, vectorized=True, n_effective=500, rng=17)


def test_an_interrupt_before_anything_is_known_is_passed_on_and_says_where_the_values_are(tmp_path):
    with pytest.raises(KeyboardInterrupt, match=r"after 299 evaluations.*posterior$"):
        ps.sample(interrupting(300)[0], BOX2, rng=17)
    with pytest.raises(KeyboardInterrupt, match=r"stored in .*kept.*repeat the call"):
        ps.sample(interrupting(300)[0], BOX2, rng=17, store=tmp_path / "kept")


@pytest.mark.parametrize("at", [2001, 2500, 4000, -640], ids=["first climb", "climbs", "later", "early production"])
def test_an_interrupt_keeps_what_is_known_and_states_no_error(at, whole):
    log_likelihood, calls = interrupting(at % (whole.n_evaluations + 1))
    posterior = ps.sample(log_likelihood, BOX2, n_effective=500, rng=17)
    assert math.isinf(posterior.log_evidence_error)
    assert posterior.message.startswith("Interrupted")
    assert posterior.n_evaluations in (len(calls), len(calls) - 1)  # whether or not the last one counts
    assert "no standard error" in str(posterior)
    assert posterior.weighted.weights.sum() == pytest.approx(1.0)
    assert abs(posterior.log_evidence - BUMP_EVIDENCE) < 0.5  # rough, but not another number
    np.testing.assert_allclose(posterior.mean(), [0.5, -0.25], atol=0.15)


@pytest.mark.parametrize("before_the_end", [pytest.param(1, marks=pytest.mark.slow), 300])
def test_an_interrupted_production_is_worth_its_draws(before_the_end, whole, tmp_path):
    """They are independent of the moment of the interrupt, so their evidence has an error. Four of them: 6e-5."""
    log_likelihood, _ = interrupting(whole.n_evaluations - before_the_end + 1)
    posterior = ps.sample(log_likelihood, BOX2, n_effective=500, rng=17, store=tmp_path / "kept")
    assert posterior.method == "interrupted"
    assert re.match(r"Interrupted: .*\d+ of 500 effective draws", posterior.message)
    assert posterior.n_evaluations == whole.n_evaluations - before_the_end
    check_evidence(posterior, BUMP_EVIDENCE)
    n = len(posterior.weighted.draws)
    np.testing.assert_allclose(posterior.weighted.draws, whole.weighted.draws[:n], rtol=1e-12)
    assert n >= len(whole.weighted.draws) - before_the_end - 5
    goes_on = ps.Store(tmp_path / "kept", trust=True)  # with a function that is not interrupted
    again = ps.sample(bump, BOX2, n_effective=500, rng=17, store=goes_on)
    assert again.method == "importance"
    assert again.log_evidence == pytest.approx(whole.log_evidence, abs=1e-12)


@pytest.mark.parametrize("vectorized", [False, True])
def test_a_likelihood_that_never_works_is_given_up_soon(vectorized):
    calls = []

    def broken(x):
        calls.append(len(x))
        return undefined_name  # noqa: F821

    with pytest.raises(ValueError, match=r"first 3 calls(.|\n)*undefined_name"):
        ps.sample(broken, [(0, 1)] * 8, vectorized=vectorized, rng=1)
    assert len(calls) <= 101 + vectorized


def test_a_likelihood_that_works_once_in_a_hundred_times_is_not_given_up():
    """It raises but in a ninth of the box, which holds the posterior."""

    def fragile(x):
        if (x > -1).any():
            raise ArithmeticError
        return bump(x[None] + 2)[0]

    with pytest.warns(RuntimeWarning, match="raised an exception"):
        posterior = ps.sample(fragile, BOX2, maxfev=1500, rng=1)
    assert posterior.n_failed > 100


def test_an_exception_that_is_no_interrupt_of_the_run_is_not_taken_for_one():
    def log_likelihood(x):
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        ps.sample(log_likelihood, BOX2, rng=17)


def test_the_callback_sees_every_stage():
    seen = []
    posterior = ps.sample(
        bump, BOX2, vectorized=True, n_effective=300, rng=18, callback=lambda stage: seen.append(dict(stage))
    )
    assert seen == posterior.diagnostics["stages"]
    assert len(seen) >= 2
    counts = [stage["evaluations"] for stage in seen]
    assert counts == sorted(counts)
    assert counts[-1] < posterior.n_evaluations
    assert seen[-1]["beta"] == 1.0
    assert all(0 <= stage["beta"] <= 1 for stage in seen)
    assert 1 < seen[0]["effective"] < seen[-1]["effective"] < counts[-1]
    silent = ps.sample(bump, BOX2, vectorized=True, n_effective=300, rng=18)
    assert silent.log_evidence == posterior.log_evidence


def test_a_callback_may_end_the_run_by_raising():
    def stop(stage):
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        ps.sample(bump, BOX2, vectorized=True, callback=stop, rng=18)


def test_the_progress_bar_writes_to_stderr_and_changes_nothing(capsys):
    pytest.importorskip("tqdm", reason="tqdm is not installed")
    quiet = ps.sample(bump, BOX2, vectorized=True, n_effective=200, maxfev=2500, rng=19)
    assert capsys.readouterr() == ("", "")
    shown = ps.sample(bump, BOX2, vectorized=True, n_effective=200, maxfev=2500, rng=19, progress=True)
    out, err = capsys.readouterr()
    assert out == ""
    assert "beta=1" in err
    assert "efficiency=" in err
    assert "effective=" in err
    assert "/2500" in err
    assert shown.log_evidence == quiet.log_evidence


def test_named_parameters_come_in_the_priors_order():
    prior = {"slope": (-3, 3), "offset": (-3, 3)}
    posterior = ps.sample(bump, prior, vectorized=True, n_effective=500, rng=20)
    assert posterior.names == ["slope", "offset"]
    check_moments(posterior, [0.5, -0.25], np.diag([1 / 8, 1 / 18]))
    assert str(posterior).splitlines()[1].startswith("  slope   0.")
    assert str(posterior).splitlines()[2].startswith("  offset  -0.")


def normal_mixture(weight, mean, sd):
    d = len(mean[0])

    def log_likelihood(x):
        square = ((x[:, None] - np.array(mean)) ** 2).sum(axis=2) / np.square(sd)
        return logsumexp(np.log(weight) - 0.5 * square - d * np.log(np.array(sd) * math.sqrt(2 * math.pi)), axis=1)

    return log_likelihood, [(-10, 10)] * d, -d * math.log(20)


NARROW10 = normal_mixture([1 / 3, 2 / 3], [[-4.0] * 10, [4.0] * 10], [0.3, 1.0])
SPIKE5 = normal_mixture([0.9, 0.1], [[0.0] * 5] * 2, [0.1, 1.0])


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("problem", [NARROW10, SPIKE5], ids=["narrow10", "spike5"])
def test_mass_in_a_small_volume_is_found(problem, seed):
    """False alarm 6e-5 each, 4e-4 in all."""
    log_likelihood, prior, exact = problem
    posterior = ps.sample(log_likelihood, prior, vectorized=True, maxfev=60_000, rng=21 + seed)
    assert posterior.n_evaluations <= 60_000
    check_evidence(posterior, exact, 0.05)


def decay_ranks(believed, runs=100):
    """Share of the posterior below the true parameters of `runs` data sets of an exponential decay, (runs, 2).

    The data have noise 0.1; `believed` is what the likelihood takes it for.
    """
    t = np.linspace(0, 3, 8)
    prior = {"height": (0.5, 2.0), "rate": stats.gamma(4, scale=0.25)}
    ranks = []
    for run in range(runs):
        rng = np.random.default_rng([22, run])
        true = np.array([rng.uniform(0.5, 2.0), prior["rate"].rvs(random_state=rng)])
        data = true[0] * np.exp(-true[1] * t) + rng.normal(0, 0.1, len(t))

        def log_likelihood(x, data=data):
            curve = x[:, :1] * np.exp(-x[:, 1:] * t)
            return -0.5 * ((data - curve) ** 2).sum(axis=1) / believed**2

        posterior = ps.sample(log_likelihood, prior, vectorized=True, n_effective=500, n_particles=500, rng=rng)
        ranks.append(posterior.weighted.weights @ (posterior.weighted.draws < true))
    return np.array(ranks)


def chi_square(ranks, bins=10):
    """P values of the hypothesis that the ranks of each parameter are uniform."""
    return [stats.chisquare(np.histogram(column, bins, (0, 1))[0]).pvalue for column in ranks.T]


@pytest.mark.slow
def test_simulation_based_calibration():
    """Uniform ranks: p > 5e-5 for both parameters, false alarm 1e-4. Half the noise must be noticed."""
    assert min(chi_square(decay_ranks(0.1))) > 5e-5
    assert min(chi_square(decay_ranks(0.05))) < 5e-5


# Moves instead of importance sampling


def narrow(x):
    return -0.5 * (x**2).sum(axis=1) / 0.1**2


def test_a_tempered_swarm_may_take_over(monkeypatch):
    """Forced: importance sampling is cheaper here. Four stated errors of eight swarms are exceeded once in 200 runs."""
    monkeypatch.setattr(assemble_posterior, "_should_move", lambda *_: True)
    posterior = ps.sample(narrow, [(-1, 1)] * 2, vectorized=True, rng=3)
    truth = np.log(2 * np.pi * 0.1**2) - 2 * np.log(2)
    assert posterior.method == "tempered"
    assert abs(posterior.log_evidence - truth) < 4 * posterior.log_evidence_error < 1.0
    np.testing.assert_allclose(posterior.std(), 0.1, rtol=0.1)


@pytest.mark.parametrize("maxfev", [10_500, pytest.param(13_000, marks=pytest.mark.slow), 22_000])
def test_a_budget_too_small_for_the_second_pass_returns_the_first(maxfev, monkeypatch):
    monkeypatch.setattr(assemble_posterior, "_should_move", lambda *_: True)
    monkeypatch.setattr(assemble_posterior, "_WORTH_MOVING", 0)
    posterior = ps.sample(lambda x: narrow(10 * x), [(-1, 1)] * 2, vectorized=True, maxfev=maxfev, rng=1)
    assert posterior.n_evaluations <= maxfev
    assert np.isinf(posterior.log_evidence_error) == ("raise maxfev" in posterior.message)


# What is known of the draws, whichever way they came


@pytest.mark.parametrize(
    ("laws", "moves"), [([stats.uniform(-1, 2)] * 2, False), ([stats.norm(0, 2), stats.gamma(2)], True)]
)
def test_log_likelihood_and_log_prior_are_those_of_the_draws(laws, moves, monkeypatch):
    monkeypatch.setattr(assemble_posterior, "_should_move", lambda *_: moves)
    limit = {} if moves else {"maxfev": 2000}
    posterior = ps.sample(narrow, laws, vectorized=True, n_effective=200, rng=4, **limit)
    assert posterior.method == ("tempered" if moves else "importance")
    np.testing.assert_allclose(posterior.log_likelihood, narrow(posterior.draws), rtol=1e-6, atol=1e-9)
    expected = sum(law.logpdf(column) for law, column in zip(laws, posterior.draws.T, strict=True))
    np.testing.assert_allclose(posterior.log_prior, expected, rtol=1e-9)
    weighted = posterior.weighted
    np.testing.assert_allclose(weighted.log_likelihood, narrow(weighted.draws), rtol=1e-6, atol=1e-9)
    expected = sum(law.logpdf(column) for law, column in zip(laws, weighted.draws.T, strict=True))
    np.testing.assert_allclose(weighted.log_prior, expected, rtol=1e-9)


# Periodic parameters


@pytest.mark.parametrize(("other", "moves"), [((-5, 5), True), (stats.norm(0, 5), False)])
def test_a_peak_across_the_seam_of_a_circle_is_one_peak(other, moves, monkeypatch):
    """Evidence by a Bessel function; four stated errors: false alarm 6e-5, once in 200 after moves."""
    monkeypatch.setattr(assemble_posterior, "_should_move", lambda *_: moves)

    def log_likelihood(x):
        return 6 * np.cos(x[:, 0] - 0.1) + stats.norm.logpdf(x[:, 1], 1, 0.3)

    prior = {"phase": ps.Periodic(0, 2 * np.pi), "level": other}
    posterior = ps.sample(log_likelihood, prior, vectorized=True, n_effective=500, rng=5)
    level = -np.log(10) if isinstance(other, tuple) else stats.norm.logpdf(1, 0, math.hypot(5, 0.3))
    truth = np.log(i0(6)) + level
    assert abs(posterior.log_evidence - truth) < 4 * posterior.log_evidence_error < 0.3
    assert len(posterior.diagnostics["modes"]) == 1
    assert posterior.mean()[0] == pytest.approx(0.1, abs=0.1)  # half of the draws lie beyond the seam
    assert posterior.std()[0] == pytest.approx(0.428, abs=0.08)


def test_a_small_budget_is_enough_for_a_climb():
    posterior = ps.sample(narrow, [(-1, 1)] * 2, vectorized=True, maxfev=300, rng=1)
    assert len(posterior.diagnostics["modes"]) == 1


@pytest.mark.parametrize(("dim", "seed"), [(3, 11), (4, 24)])
@pytest.mark.slow
def test_of_many_equal_modes_none_is_lost(dim, seed):
    """Signs do not matter, so there are 2^d peaks; the seeds are those of unlucky starts."""

    def log_likelihood(x):
        return stats.norm.logpdf(x**2, 1, 0.05).sum(axis=1)

    one_axis = np.linspace(-3, 3, 200_001)
    exact = dim * math.log(np.exp(stats.norm.logpdf(one_axis**2, 1, 0.05)).mean())
    posterior = ps.sample(log_likelihood, [(-3, 3)] * dim, vectorized=True, n_effective=1000, rng=seed)
    assert len(posterior.diagnostics["modes"]) == 2**dim
    assert abs(posterior.log_evidence - exact) < 4 * posterior.log_evidence_error < 0.1


@pytest.mark.slow
def test_a_search_that_still_finds_modes_says_so():
    """A lattice of 400 equal peaks: no search of this size sees them all."""

    def log_likelihood(x):
        return 30 * np.cos(20 * np.pi * x).sum(axis=1)

    posterior = ps.sample(log_likelihood, [(-1, 1)] * 2, vectorized=True, n_effective=200, maxfev=20_000, rng=6)
    assert not posterior.diagnostics["search_settled"]
    assert not posterior.success
    assert "too few climbs" in posterior.message
    assert "cannot be ruled out" not in posterior.message  # that would promise too much
    settled = ps.sample(narrow, [(-1, 1)] * 2, vectorized=True, n_effective=200, rng=6)
    assert settled.diagnostics["search_settled"]
    assert settled.success


# Far from the prior, and many modes


def far_peak(x):
    return stats.norm.logpdf(x, 50, 0.1).sum(axis=1)


@pytest.mark.parametrize("d", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_a_normal_prior_keeps_its_digits_fifty_deviations_out(d):
    """Exact evidence; four stated errors, false alarm 6e-5."""
    prior = [stats.norm(0, 1)] if d == 1 else stats.multivariate_normal(np.zeros(2), np.eye(2))
    posterior = ps.sample(far_peak, prior, vectorized=True, n_effective=500, rng=1)
    truth = d * stats.norm(0, math.hypot(1, 0.1)).logpdf(50)
    assert abs(posterior.log_evidence - truth) < 4 * posterior.log_evidence_error < 0.2
    assert posterior.success


def test_a_posterior_beyond_the_quantiles_of_its_prior_has_no_error():
    def log_likelihood(x):
        return -0.5 * ((np.log(x[:, 0]) - 46) / 0.1) ** 2

    posterior = ps.sample(log_likelihood, [stats.lognorm(1)], vectorized=True, n_effective=200, rng=1)
    assert math.isinf(posterior.log_evidence_error)
    assert "choose a wider prior" in posterior.message


def test_start_points_outside_the_prior_are_an_error_before_the_first_evaluation():
    with pytest.raises(ValueError, match=r"50.*outside the prior"):
        ps.sample(lambda x: pytest.fail("called"), [(0, 1)], start=[[50.0]])


def test_a_mode_that_is_found_late_and_covered_is_a_remark_but_no_doubt():
    """A narrow mode with half of the mass, which no first climb starts in; a stage of the adaptation hits it.

    Four stated errors, false alarm 6e-5.
    """
    centre, sd = np.array([[-0.5] * 3, [0.55] * 3]), np.array([0.15, 0.012])

    def log_likelihood(x):
        return logsumexp(-0.5 * ((x[:, None] - centre) ** 2).sum(axis=2) / sd**2 - 3 * np.log(sd), axis=1)

    posterior = ps.sample(log_likelihood, [(-1, 1)] * 3, vectorized=True, n_effective=300, n_particles=100, rng=6)
    assert len(posterior.diagnostics["modes"]) == 2
    assert not posterior.diagnostics["search_settled"]
    assert posterior.success
    assert "found late" in posterior.message
    truth = math.log(2 * (2 * math.pi) ** 1.5 / 8)
    assert abs(posterior.log_evidence - truth) < 4 * posterior.log_evidence_error


@pytest.mark.slow  # in short: test_climbs_that_the_budget_cut_short_do_not_count
def test_a_budget_that_ends_the_search_is_said_to():
    """40 narrow peaks and a search of a few climbs: what is missing, the message says."""
    centre = np.random.default_rng(5).uniform(-0.9, 0.9, (40, 3))

    def log_likelihood(x):
        return logsumexp(-0.5 * ((x[:, None] - centre) ** 2).sum(axis=-1) / 0.02**2, axis=1)

    posterior = ps.sample(log_likelihood, [(-1, 1)] * 3, vectorized=True, n_effective=200, maxfev=5000, rng=3)
    assert not posterior.diagnostics["search_settled"]
    assert "may be missing" in posterior.message


def test_weights_that_are_almost_alike_are_no_reason_for_alarm():
    """Many ties make k large here, although no weight is more than twice the mean."""
    posterior = ps.sample(
        lambda x: stats.norm.logpdf(x[:, 0], 30, 0.1), [stats.norm(0, 1)], vectorized=True, n_effective=2000, rng=2
    )
    assert posterior.diagnostics["pareto_k"] > 0.7
    assert posterior.method == "importance"
    truth = stats.norm(0, math.hypot(1, 0.1)).logpdf(30)
    assert abs(posterior.log_evidence - truth) < 4 * posterior.log_evidence_error < 0.1


def test_draws_after_moves_are_worth_a_positive_number_however_narrow_the_peak(monkeypatch):
    monkeypatch.setattr(assemble_posterior, "_should_move", lambda *_: True)
    posterior = ps.sample(lambda x: narrow(1e8 * (x - 0.85)), [(0, 1)] * 2, vectorized=True, n_effective=200, rng=2)
    assert posterior.success
    assert 100 < posterior.effective_size < len(posterior.weighted.draws)


class Shaken:
    """A 2-D normal likelihood, evidence 2 pi 0.04 / 100, with noise that depends on how often it was called."""

    def __init__(self, sd):
        self.sd, self.rng = sd, np.random.default_rng(3)

    def __call__(self, x):
        return -0.5 * (((x - [1.0, -2.0]) / 0.2) ** 2).sum(axis=-1) + self.sd * self.rng.normal(size=len(x))


WIDE = {"a": (-5, 5), "b": (-5, 5)}
EVIDENCE = np.log(2 * np.pi * 0.04 / 100)


def test_a_noisy_likelihood_is_noticed_and_no_error_is_stated():
    with pytest.warns(RuntimeWarning, match="log_likelihood is noisy: at x = ") as caught:
        posterior = ps.sample(Shaken(1.0), WIDE, vectorized=True, n_effective=2000, maxfev=15_000, rng=1)
    assert caught[0].filename == __file__
    assert posterior.log_evidence_error == np.inf
    assert posterior.message.startswith("log_likelihood is noisy")
    assert posterior.diagnostics["noise"] > 0.1
    # The reason: exp of normal noise has the mean exp(1/2), and the evidence takes it for likelihood.
    assert posterior.log_evidence - EVIDENCE == pytest.approx(0.5, abs=0.15)


@pytest.mark.parametrize("sd", [pytest.param(0.0, marks=pytest.mark.slow), 1e-3])
def test_rounding_is_no_noise(sd, recwarn):
    posterior = ps.sample(Shaken(sd), WIDE, vectorized=True, n_effective=500, rng=1)
    assert not recwarn.list
    assert posterior.success
    assert posterior.diagnostics["noise"] == pytest.approx(0.0, abs=10 * sd)
    assert abs(posterior.log_evidence - EVIDENCE) < 4 * posterior.log_evidence_error


def test_a_point_that_fails_now_and_then_is_not_called_noisy():
    fails = iter([False] * 2000 + [True] * 3 + [False] * 100_000)

    def flaky(x):
        return -0.5 * float(((x - [1.0, -2.0]) / 0.2) @ ((x - [1.0, -2.0]) / 0.2)) if not next(fails) else np.nan

    posterior = ps.sample(flaky, WIDE, n_effective=200, rng=1)
    assert posterior.n_failed == 3  # the second values of the three best of 2000 first draws
    assert posterior.diagnostics["noise"] == 0.0
    assert posterior.success


@pytest.mark.slow
@pytest.mark.parametrize("name", ["narrow10", "spike5", "thurber", "misra1a"])
def test_the_hard_ones_come_out_right_within_sixty_thousand_evaluations(name, monkeypatch):
    """Of ten seeds nine at least, each within three stated errors of at most 0.03; the benchmark has other seeds."""
    monkeypatch.syspath_prepend(pathlib.Path(__file__).parents[2] / "benchmarks")
    problem = importlib.import_module("posterior_problems").load(name)
    right = 0
    for seed in range(100, 110):
        found = ps.sample(problem.log_likelihood, problem.prior, vectorized=True, maxfev=60_000, rng=seed)
        assert found.n_evaluations <= 60_000
        right += abs(found.log_evidence - problem.log_evidence) < 3 * found.log_evidence_error < 0.09
    assert right >= 9
