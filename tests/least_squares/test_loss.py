"""What a fit minimises: minus twice the log likelihood of all outputs, least over scales and offsets."""

import warnings
from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from scipy.optimize import minimize

import paoswarm as ps
from paoswarm.least_squares.likelihoods import Huber, LogNormal, Normal, Poisson, StudentT
from paoswarm.least_squares.loss import Group, Loss

X = np.linspace(0.1, 3, 12)
LAWS = {
    "known": Normal(0.3),
    "each its own": Normal(np.linspace(0.1, 0.6, 12)),
    "unknown": Normal(),
    "relative": Normal(0.2, relative=0.1),
    "log-normal": LogNormal(),
    "poisson": Poisson(),
    "t": StudentT(0.3, df=4),
    "t, unknown": StudentT(df=2),
    "huber": Huber(0.3),
    "huber, unknown": Huber(),
}


def made(law, seed=1):
    """Data that a law may have, and the model ``p -> outputs``."""
    rng = np.random.default_rng(seed)
    data = 5 * np.exp(-0.8 * X) + 2
    data = rng.poisson(4 * data).astype(float) if isinstance(law, Poisson) else data * np.exp(0.1 * rng.normal(size=12))
    return data, lambda p: np.exp(-p[0] * X) + p[1] * X + 0.3


def jacobian_of(model, p, h=1e-6):
    """The slope of a model."""
    return np.stack([(model(p + e) - model(p - e)) / (2 * h) for e in h * np.eye(len(p))], axis=1)


def gradient_of(fun, p, h=1e-5):
    """The gradient of a function, by differences of fourth order."""
    steps = h * np.eye(len(p))
    return np.array([(8 * (fun(p + e) - fun(p - e)) - fun(p + 2 * e) + fun(p - 2 * e)) / (12 * h) for e in steps])


def test_one_normal_output_of_unknown_size_is_the_sum_of_squares():
    data, model = made(Normal())
    loss = Loss(data, (Group("", slice(0, 12), Normal()),))
    y = model(np.array([0.5, 0.1]))
    assert_allclose(loss.value(y), ((y - data) ** 2).sum(), rtol=1e-13)
    assert_allclose(loss.around(y).residuals, y - data, rtol=1e-12)
    assert_allclose(loss.sigma(y), np.sqrt(np.mean((y - data) ** 2)))


@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
@pytest.mark.parametrize(("scale", "offset"), [(False, False), (True, False), (False, True), (True, True)])
def test_residuals_and_their_slope_give_the_gradient_of_the_value(law, scale, offset):
    """The slope after elimination of factors and sigma is the total derivative."""
    data, model = made(law)
    loss = Loss(data, (Group("", slice(0, 12), law, scale, offset),))
    p = np.array([0.6, 0.05])
    y = model(p)
    around = loss.around(y)
    assert loss.value(y) == around.value < np.inf
    if not loss.n_estimated:
        assert_allclose(around.residuals @ around.residuals, around.value)
    gradient = 2 * loss.slope(around, jacobian_of(model, p)).T @ around.residuals
    # Factors are iterated until the value moves by 1e-12 of itself, so they are known to about 1e-6.
    assert_allclose(gradient, gradient_of(lambda q: loss.value(model(q)), p), rtol=1e-5)


@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
@pytest.mark.parametrize(("scale", "offset"), [(True, False), (False, True), (True, True)])
def test_scale_and_offset_are_those_of_the_largest_likelihood(law, scale, offset):
    data, model = made(law)
    y = model(np.array([0.6, 0.05]))
    loss = Loss(data, (Group("", slice(0, 12), law, scale, offset),))
    plain = Loss(data, (Group("", slice(0, 12), law),))

    def against(theta):
        theta = list(theta)
        value = plain.minus_two_log_likelihood((theta.pop(0) if scale else 1.0) * y + (theta[0] if offset else 0.0))
        return value if np.isfinite(value) else 1e10

    starts = product(*[(2.0, 15.0)] * scale, *[(0.1, 4.0)] * offset)
    options = {"xatol": 1e-7, "fatol": 1e-10, "maxiter": 500}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        best = min((minimize(against, s, method="Nelder-Mead", options=options) for s in starts), key=lambda r: r.fun)
    assert loss.minus_two_log_likelihood(y) <= best.fun + 1e-8
    factor = loss.around(y).groups[0].factor
    assert_allclose([factor[0]] * scale + [factor[1]] * offset, best.x, rtol=1e-4)
    assert_allclose(loss.predicted(y), factor[0] * y + factor[1])


def test_a_scale_of_log_normal_data_is_the_mean_ratio():
    data, model = made(LogNormal())
    y = model(np.array([0.6, 0.05]))
    loss = Loss(data, (Group("", slice(0, 12), LogNormal(0.2), has_scale=True),))
    assert_allclose(loss.around(y).groups[0].factor[0], np.exp(np.mean(np.log(data / y))), rtol=1e-12)


def test_units_of_scaled_data_do_not_matter():
    data, model = made(Normal())
    y = model(np.array([0.6, 0.05]))
    values = [
        Loss(k * data + b, (Group("", slice(0, 12), Normal(0.3 * k), True, True),)).value(y)
        for k, b in ((1.0, 0.0), (1e-9, 3e-9), (1e9, -7e9))
    ]
    assert_allclose(values, values[0], rtol=1e-9)


@pytest.mark.parametrize("law", [LogNormal(0.3), Poisson()], ids=repr)
def test_an_offset_is_found_where_plain_least_squares_would_make_predictions_negative(law):
    data = np.array([1.0, 1.0, 2.0, 1.0, 40.0])
    mu = np.array([0.5, 30.0, 60.0, 20.0, 10.0])
    for scale, offset in ((True, False), (False, True), (True, True)):
        around = Loss(data, (Group("", slice(0, 5), law, scale, offset),)).around(mu)
        assert np.isfinite(around.value)
        assert (around.groups[0].factor[0] * mu + around.groups[0].factor[1] > 0).all()


def test_outputs_that_no_factor_can_fit_have_no_value():
    loss = Loss(np.array([1.0, 2.0]), (Group("", slice(0, 2), Normal(), True, True),))
    for bad in ([np.nan, 1.0], [np.inf, 1.0], [1e200, 1e300]):
        assert loss.value(np.array(bad)) == np.inf or bad == [1e200, 1e300]
    poisson = Loss(np.array([1.0, 2.0]), (Group("", slice(0, 2), Poisson(), True),))
    assert poisson.value(np.array([-1.0, 1.0])) == np.inf
    assert poisson.value(np.array([0.0, 0.0])) == np.inf


# Several outputs


def several():
    rng = np.random.default_rng(5)
    data = np.concatenate([rng.normal(3, 1, 6), rng.poisson(5, 4), np.exp(rng.normal(0, 0.3, 5)), rng.normal(9, 2, 7)])
    groups = (
        Group("a", slice(0, 6), Normal(), True, True),
        Group("b", slice(6, 10), Poisson()),
        Group("c", slice(10, 15), LogNormal()),
        Group("d", slice(15, 22), Normal(0.5)),
    )
    return data, groups


def slopes_and_outputs(m):
    rng = np.random.default_rng(6)
    slopes = 0.1 * rng.normal(size=(m, 3))
    return slopes, np.abs(rng.normal(5, 1, m))


def test_the_value_grows_with_minus_twice_the_log_likelihood():
    data, groups = several()
    loss = Loss(data, groups, n_beliefs=2)
    slopes, y = slopes_and_outputs(24)
    assert (loss.n_estimated, loss.n_sigmas, loss.n_factors) == (11, 2, 2)

    def whole(y):
        return loss.minus_two_log_likelihood(y) + y[22:] @ y[22:]

    y[:22] = data + 0.02 * (y[:22] - data)
    other = y + 0.02 * slopes @ [1.0, -2.0, 0.5]
    assert_allclose(11 * np.log(loss.value(other) / loss.value(y)), whole(other) - whole(y), rtol=1e-9)
    around = loss.around(y)
    gradient = 2 * loss.slope(around, slopes).T @ around.residuals
    assert_allclose(gradient, gradient_of(lambda p: loss.value(y + slopes @ p), np.zeros(3)), rtol=1e-6)


def test_known_outputs_add_up():
    data, groups = several()
    known = tuple(group for group in groups if not group.law.estimates_sigma)
    moved = (known[0]._replace(rows=slice(0, 4)), known[1]._replace(rows=slice(4, 11)))
    rows = np.r_[6:10, 15:22]
    _, y = slopes_and_outputs(11)
    loss = Loss(data[rows], moved)
    expected = -2 * stats.poisson(y[:4]).logpmf(data[6:10]).sum() - 2 * stats.norm(y[4:], 0.5).logpdf(data[15:]).sum()
    assert_allclose(loss.minus_two_log_likelihood(y), expected, rtol=1e-12)


def test_a_part_is_the_loss_of_the_data_that_are_kept():
    data, groups = several()
    loss = Loss(data, groups, n_beliefs=2)
    slopes, y = slopes_and_outputs(24)
    rows = np.array([0, 2, 3, 5, 7, 8, 15, 16, 21])  # nothing of "c"
    part = loss.part(rows)
    own = (
        Group("a", slice(0, 4), Normal(), True, True),
        Group("b", slice(4, 6), Poisson()),
        Group("d", slice(6, 9), Normal(0.5)),
    )
    alone = Loss(data[rows], own, n_beliefs=2)
    kept = np.r_[rows, 22, 23]
    assert part.value(y) == alone.value(y[kept])
    around = part.around(y)
    assert_array_equal(around.residuals, alone.around(y[kept]).residuals)
    assert_array_equal(part.slope(around, slopes), alone.slope(around, slopes[kept]))
    own_sigma = Loss(data, (Group("", slice(0, 22), Normal(np.arange(1.0, 23.0))),)).part(rows)
    assert_allclose(own_sigma.value(y[:22]), (((y[:22] - data) / np.arange(1.0, 23.0))[rows] ** 2).sum())


def test_values_that_are_too_large_are_infinite_without_a_warning():
    loss = Loss(np.zeros(3), (Group("", slice(0, 2), Normal()), Group("b", slice(2, 3), Normal(1e-3))))
    assert loss.value(np.array([1.0, 1.0, 1e160])) == np.inf
    assert loss.value(np.array([1e200, 1.0, 0.0])) == np.inf
    assert Loss(np.zeros(2), (Group("", slice(0, 2), Normal(1.0)),)).value(np.array([1e200, 0.0])) == np.inf


def test_scaled_wants_something_unknown():
    with pytest.raises(ValueError, match="leaves nothing unknown"):
        ps.Scaled([1.0], scale=False)


def test_far_from_the_best_point_the_value_goes_on_along_its_tangent():
    """Else a narrow prior, or another output of known noise, would make most of a box infinite."""
    data = np.array([1.0, 2.0, 4.0, 3.0])
    loss = Loss(data, (Group("", slice(0, 4), Normal()),), n_beliefs=1)
    beliefs = np.concatenate([np.linspace(0, 20, 81), np.geomspace(30, 1e6, 20)])
    around = [loss.around(np.append(data + 0.5, belief)) for belief in beliefs]
    values = np.array([one.value for one in around])
    assert np.isfinite(values).all()
    assert (np.diff(values) > 0).all()
    near = beliefs**2 / 4 + np.log(0.25) < np.log(np.var(data)) + 3
    assert_allclose(values[near], 4 * np.exp(np.log(0.25) + beliefs[near] ** 2 / 4), rtol=1e-12)
    assert 3 < near.sum() < 60
    step = 1e-6  # the sum of squares of the residuals changes like the value, everywhere
    for one, belief in zip(around, beliefs, strict=True):
        change = loss.value(np.append(data + 0.5, belief + step)) - one.value
        assert_allclose(change, one.root**2 * ((belief + step) ** 2 - belief**2), rtol=1e-3, atol=1e-9 * one.value)


def test_a_sum_of_squares_is_one_however_large():
    loss = Loss(np.array([1.0, 2.0]), (Group("", slice(0, 2), Normal()),))
    assert_allclose(loss.value(np.array([1e100, 0.0])), 1e200)
