"""The target counts, maps coordinates exactly, and never evaluates where the prior is zero."""

import math

import numpy as np
import pytest
from scipy import stats

from paoswarm.sampling.target import BudgetSpent, Target


def record(calls):
    def log_likelihood(x):
        calls.append(x.copy())
        return -0.5 * (x**2).sum(axis=1)

    return log_likelihood


def test_a_box_is_scaled_and_flat():
    target = Target(record([]), [(0, 4), (-1, 1)])
    z = np.array([[-1.0, 1.0], [0.5, 0.0], [1.0001, 0.0]])
    assert target.is_box
    np.testing.assert_allclose(target.parameters(z[:2]), [[0, 1], [3, 0]], atol=1e-15)
    np.testing.assert_allclose(target.coordinates([[3, 0]]), z[1:2])
    np.testing.assert_allclose(target.log_prior(z), [-2 * math.log(2), -2 * math.log(2), -np.inf])


def test_rounding_does_not_leave_the_box():
    low, high = 0.1, 0.7
    target = Target(record([]), [(low, high)])
    x = target.parameters(np.array([[-1.0], [1.0]]))
    assert (x >= low).all()
    assert (x <= high).all()


def test_other_priors_become_standard_normal():
    laws = [stats.norm(2, 3), stats.halfcauchy(0, 5), stats.uniform(1, 2)]
    target = Target(record([]), laws)
    z = np.array([[-8.0, 8.0, 0.3], [1.0, -1.0, 4.0]])
    x = target.parameters(z)
    np.testing.assert_allclose(x[:, 0], 2 + 3 * z[:, 0], rtol=1e-12)
    np.testing.assert_allclose(target.coordinates(x), z, rtol=1e-9)
    np.testing.assert_allclose(target.log_prior(z), stats.norm.logpdf(z).sum(axis=1))


def test_uniform_laws_of_scipy_make_a_box():
    assert Target(record([]), [stats.uniform(1, 2), (0, 1)]).is_box
    assert not Target(record([]), [stats.norm(), (0, 1)]).is_box


def test_every_row_evaluated_is_counted_and_no_other():
    calls = []
    target = Target(record(calls), [(-1, 1)] * 2)
    z = np.array([[0.0, 0.0], [2.0, 0.0], [0.5, 0.5]])
    values = target.log_likelihood(z)
    assert [len(x) for x in calls] == [2]
    assert target.n_evaluations == 2
    np.testing.assert_allclose(values, [0, -np.inf, -0.25])
    target.log_likelihood(z[1:2])
    assert len(calls) == 1


def test_nan_is_zero_likelihood_and_counted():
    target = Target(lambda x: np.where(x[:, 0] > 0, np.nan, -1.0), [(-1, 1)])
    np.testing.assert_array_equal(target.log_likelihood(np.array([[0.5], [-0.5]])), [-np.inf, -1])
    assert (target.n_failed, target.n_evaluations) == (1, 2)


def test_an_infinite_likelihood_is_refused_by_name():
    target = Target(lambda x: np.where(x[:, 0] > 0, np.inf, -1.0), [(-4, 4)])
    with pytest.raises(ValueError, match=r"\+inf at \[2\.\]"):
        target.log_likelihood(np.array([[0.5], [-0.5]]))


def test_the_budget_is_exact():
    calls = []
    target = Target(record(calls), [(-1, 1)], maxfev=3)
    target.log_likelihood(np.zeros((2, 1)))
    assert target.n_left == 1
    with pytest.raises(BudgetSpent, match="maxfev=3 leaves 1"):
        target.log_likelihood(np.zeros((2, 1)))
    assert (len(calls), target.n_evaluations) == (1, 2)
    target.log_likelihood(np.array([[0.0], [5.0]]))  # the second lies outside and costs nothing
    assert target.n_left == 0


def test_the_users_function_may_overwrite_its_argument():
    def spoil(x):
        x[:] = 7.0
        return np.zeros(len(x))

    z = np.array([[0.25]])
    Target(spoil, [(-1, 1)]).log_likelihood(z)
    assert z[0, 0] == 0.25


@pytest.mark.parametrize(
    ("prior", "error", "message"),
    [
        ([], ValueError, "empty"),
        ([(1, 0)], ValueError, r"prior 'x0' is \(1\.0, 0\.0\)"),
        ([(0, 1), (0, np.inf)], ValueError, r"prior 'x1'"),
        (["normal"], TypeError, "frozen distribution"),
    ],
)
def test_a_wrong_prior_is_named(prior, error, message):
    with pytest.raises(error, match=message):
        Target(record([]), prior)


def test_a_likelihood_of_the_wrong_shape_is_refused():
    with pytest.raises(ValueError, match=r"\(2, 1\) for 2 points"):
        Target(lambda x: x, [(-1, 1)]).log_likelihood(np.zeros((2, 1)))
