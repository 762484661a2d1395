"""Plots show the numbers they claim to show, and leave matplotlib as they found it."""

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.patches import Ellipse
from numpy.testing import assert_allclose

import paoswarm as ps


def bowl(x):
    return ((x - [1.0, -0.5]) ** 2 * [1.0, 25.0]).sum(axis=-1)


@pytest.fixture(scope="module")
def result():
    return ps.minimize(bowl, [(-2, 3), (-3, 2)], n_particles=12, maxiter=8, vectorized=True, rng=1)


@pytest.fixture(autouse=True)
def _agg():
    plt.switch_backend("Agg")
    before = dict(matplotlib.rcParams)
    yield
    assert dict(matplotlib.rcParams) == before
    plt.close("all")


def test_convergence_draws_the_history_of_one_run(result):
    (line,) = ps.plot.convergence(result).lines
    assert_allclose(line.get_ydata(), result.history.best)


def test_convergence_draws_the_median_of_many_runs_on_the_given_axes():
    many = ps.minimize_many(bowl, [(-2, 3), (-3, 2)], runs=7, n_particles=12, maxiter=8, vectorized=True, rng=1)
    _, ax = plt.subplots()
    assert ps.plot.convergence({"PAO": many}, ax=ax) is ax
    assert_allclose(ax.lines[0].get_ydata(), np.median(many.history, axis=0))
    assert ax.get_yscale() == "log"
    assert "7 runs" in ax.get_legend().texts[0].get_text()


def test_convergence_to_negative_values_is_drawn_on_a_linear_axis():
    result = ps.minimize(lambda x: bowl(x) - 5, [(-2, 3), (-3, 2)], maxiter=5, vectorized=True, rng=1)
    assert ps.plot.convergence(result).get_yscale() == "linear"


def test_ellipses_are_two_sigma_of_the_next_position(result):
    ax = ps.plot.swarm(result, bowl, vectorized=True)
    law = result.method.step_law(result.swarm).position
    ellipses = [patch for patch in ax.patches if isinstance(patch, Ellipse)]
    assert len(ellipses) == 12
    for ellipse, mean, sd in zip(ellipses, law.mean, law.sd, strict=True):
        assert_allclose(ellipse.center, mean)
        assert_allclose(sorted([ellipse.width, ellipse.height]), sorted(4 * sd), atol=1e-12)
    assert ax.get_xlim() == (-2, 3)


def test_ellipses_of_dense_noise_are_turned():
    dense = ps.PAO(noise_scale=ps.noise.covariance)
    valley = ps.minimize(
        lambda x: (x[:, 0] - x[:, 1]) ** 2 + 1e-3 * (x[:, 0] + x[:, 1]) ** 2,
        [(-5, 5)] * 2,
        method=dense,
        maxiter=10,
        n_particles=40,
        vectorized=True,
        rng=1,
    )
    ellipses = [patch for patch in ps.plot.swarm(valley).patches if max(patch.width, patch.height) > 0]
    long_axis = [e.angle if e.width > e.height else e.angle + 90 for e in ellipses]
    assert_allclose(np.mod(long_axis, 180), 45, atol=8)


def test_the_band_of_an_element_is_its_exact_law():
    method = ps.PAO(damping=0.3, dt=0.5)
    ax = ps.plot.element(method, steps=4, scale=2.0)
    mean = ax.lines[1]
    exact = ps.transition(1.0, 0.3, 2.0, mean.get_xdata())
    assert_allclose(mean.get_ydata(), exact.A[:, 0, 0])
    band = ax.collections[0].get_paths()[0].vertices
    upper = exact.A[-1, 0, 0] + 4 * np.sqrt(exact.covariance[-1, 0, 0])
    assert_allclose(band[np.isclose(band[:, 0], 2.0), 1].max(), upper)


def test_a_batch_is_refused_by_the_swarm_plot():
    many = ps.minimize_many(bowl, [(-2, 3), (-3, 2)], runs=2, maxiter=1, vectorized=True, rng=1)
    with pytest.raises(ValueError, match="one swarm"):
        ps.plot.swarm(many.swarm)
    assert ps.plot.swarm(many.run(1)).get_xlabel() == "$x_{0}$"


def test_an_objective_that_fails_somewhere_is_drawn_where_it_does_not(result):
    def fragile(x):
        if x[0] > 2:
            raise ArithmeticError
        return np.nan if x[1] > 1 else float(bowl(x))

    ax = ps.plot.swarm(result, fragile, points=20)
    assert ax.collections


def test_an_adaptive_step_has_no_single_motion():
    with pytest.raises(ValueError, match="must be numbers or schedules"):
        ps.plot.element(ps.PAO(dt=ps.schedules.patient_step()))
