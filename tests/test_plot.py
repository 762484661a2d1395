"""Plots show the numbers they claim to show, and leave matplotlib as they found it."""

import sys

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
    return ps.minimize(bowl, [(-2, 3), (-3, 2)], method=ps.PAO(), n_particles=12, maxiter=8, vectorized=True, rng=1)


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
    many = ps.minimize_many(
        bowl, [(-2, 3), (-3, 2)], method=ps.PAO(), runs=7, n_particles=12, maxiter=8, vectorized=True, rng=1
    )
    _, ax = plt.subplots()
    assert ps.plot.convergence({"PAO": many}, ax=ax) is ax
    assert_allclose(ax.lines[0].get_ydata(), np.median(many.history, axis=0))
    assert ax.get_yscale() == "log"
    assert "7 runs" in ax.get_legend().texts[0].get_text()


def test_convergence_to_negative_values_is_drawn_on_a_linear_axis():
    result = ps.minimize(lambda x: bowl(x) - 5, [(-2, 3), (-3, 2)], method=ps.PAO(), maxiter=5, vectorized=True, rng=1)
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
    exact = ps.laws.transition(1.0, 0.3, 2.0, mean.get_xdata())
    assert_allclose(mean.get_ydata(), exact.A[:, 0, 0])
    band = ax.collections[0].get_paths()[0].vertices
    upper = exact.A[-1, 0, 0] + 4 * np.sqrt(exact.covariance[-1, 0, 0])
    assert_allclose(band[np.isclose(band[:, 0], 2.0), 1].max(), upper)


def two_wells(x):
    return ((x**2 - 1) ** 2).sum(axis=-1) + 0.1 * x.sum(axis=-1)


@pytest.fixture(scope="module")
def restarted():
    method = ps.Restarts(ps.DensePAO(model=False), growth=1.0)
    settings = {"maxfev": 20_000, "tol": 0.0, "vectorized": True, "rng": 3}
    return ps.minimize(two_wells, [(-2, 2)] * 4, method=method, **settings)


def test_every_search_is_a_bar_in_the_row_of_its_place(restarted):
    ax = ps.plot.searches(restarted)
    found = restarted.searches
    ax.figure.draw_without_rendering()
    bars = {(patch.get_x(), patch.get_width()): patch for patch in ax.patches if patch.get_height() < 0.9}
    assert len(bars) == len(found) > 12
    labels = [label.get_text() for label in ax.get_yticklabels()]
    assert labels[0] == f"{restarted.fun:.4g}"
    assert ax.get_yticklabels()[0].get_fontweight() == "bold"
    ticks = ax.get_yticks()
    for one, place in zip(found, found.places, strict=True):
        bar = bars[one.began, one.ended - one.began]
        assert (bar.get_alpha() == 1) == (one.ending == "converged")
        if 0 < place <= 10:  # searches of this method follow each other, so rows have one track
            assert_allclose(bar.get_y() + bar.get_height() / 2, ticks[place - 1])
            assert float(labels[place - 1]) <= one.value + 1e-3 * abs(one.value)


def test_many_places_share_the_last_row(restarted):
    n = max(restarted.searches.places)
    ax = ps.plot.searches(restarted)
    labels = [label.get_text() for label in ax.get_yticklabels()]
    assert n > 10
    assert len(labels) == 11
    assert labels[-1].startswith(f"{n - 10} places")


def test_searches_side_by_side_do_not_cover_each_other():
    method = ps.Portfolio([ps.DensePAO(), ps.ElementPAO(horizon=50)])
    run = ps.minimize(bowl, [(-2, 3), (-3, 2)], method=method, maxfev=3000, tol=0.0, vectorized=True, rng=1)
    boxes = [patch.get_extents() for patch in ps.plot.searches(run).patches if patch.get_height() < 0.9]
    assert len(boxes) == len(run.searches) > 4
    shared = [a.intersection(a, b) for i, a in enumerate(boxes) for b in boxes[:i]]
    assert all(one is None or one.width * one.height < 1e-6 for one in shared)
    names = [text.get_text() for text in ps.plot.searches(run).get_legend().texts]
    assert names[:2] == ["DensePAO", "ElementPAO"]


def test_runs_without_searches_are_refused(result):
    with pytest.raises(ValueError, match=r"no search of this run has ended.*PAO"):
        ps.plot.searches(result)
    with pytest.raises(TypeError, match="takes the result of minimize"):
        ps.plot.searches([result])


def test_a_run_of_several_searches_shows_the_swarm_of_the_best_point(restarted):
    ax = ps.plot.swarm(restarted)
    leading = restarted.method.report(restarted.swarm).swarm
    (star,) = (line for line in ax.lines if line.get_label() == "global best")
    assert_allclose([star.get_xdata()[0], star.get_ydata()[0]], restarted.x[:2])
    assert len([patch for patch in ax.patches if isinstance(patch, Ellipse)]) == leading.n_particles


def test_a_batch_is_refused_by_the_swarm_plot():
    many = ps.minimize_many(bowl, [(-2, 3), (-3, 2)], method=ps.PAO(), runs=2, maxiter=1, vectorized=True, rng=1)
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


def posterior(d, n=1500):
    """Weighted draws from N(k, 1) in coordinate k, each with a correlation of 1/2 to the first; weights are known."""
    rng = np.random.default_rng(3)
    x = rng.standard_normal((n, d)) + rng.standard_normal((n, 1))
    return ps.results.Posterior(
        names=[f"parameter_{k}" for k in range(d)],
        weighted=ps.results.WeightedDraws(x / np.sqrt(2) + np.arange(d), np.log(rng.uniform(0.5, 1.5, n))),
        log_evidence=0.0,
        log_evidence_error=0.1,
        n_evaluations=n,
        n_failed=0,
        method="importance",
        diagnostics={},
    )


def test_a_corner_shows_every_pair_once_and_names_it():
    known = posterior(3)
    axes = known.plot(truth={"parameter_1": 1.25})
    assert axes.shape == (3, 3)
    assert [ax.get_xlabel() for ax in axes[-1]] == known.names
    assert [ax.get_ylabel() for ax in axes[:, 0]] == ["", *known.names[1:]]
    assert not any(axes[i, j].axison for i in range(3) for j in range(i + 1, 3))
    for i, (mean, std) in enumerate(zip(known.mean(), known.std(), strict=True)):
        shown_mean, shown_std = map(float, axes[i, i].get_title().split("±"))
        assert_allclose([shown_mean, shown_std], [mean, std], atol=0.06)  # two digits of the deviation
        ends = [line.get_xdata()[0] for line in axes[i, i].lines if line.get_linestyle() == "--"]
        assert_allclose(sorted(ends), np.array(known.interval(0.95))[:, i])
        for j in range(i):
            assert axes[i, j].get_xlim() == axes[j, j].get_xlim()
            assert axes[i, j].get_ylim() == axes[i, i].get_xlim()
    red = {
        (i, j): [
            (list(line.get_xdata()), list(line.get_ydata())) for line in axes[i, j].lines if line.get_color() == "C3"
        ]
        for i in range(3)
        for j in range(i + 1)
    }
    upright, level = ([1.25, 1.25], [0, 1]), ([0, 1], [1.25, 1.25])
    assert red == {(0, 0): [], (1, 0): [level], (1, 1): [upright], (2, 0): [], (2, 1): [upright], (2, 2): []}


def test_contours_hold_the_shares_they_claim():
    """Of the draws shown, 50 % and 95 %; a smoothed density is wider, by a few per cent."""
    axes = ps.plot.corner(posterior(2, 2000))
    dots, contour = axes[1, 0].collections
    held = sorted(path.contains_points(dots.get_offsets()).mean() for path in contour.get_paths())
    assert 0.48 < held[0] < 0.6
    assert 0.94 < held[1] < 0.985


def test_labels_do_not_meet():
    axes = ps.plot.corner(posterior(4))
    axes[0, 0].figure.draw_without_rendering()
    for row in (axes[-1], axes[1:, 0]):
        texts = [ax.xaxis.label if row is axes[-1] else ax.yaxis.label for ax in row]
        boxes = [text.get_window_extent() for text in texts]
        assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])
    titles = [axes[i, i].title.get_window_extent() for i in range(4)]
    assert not any(a.overlaps(b) for i, a in enumerate(titles) for b in titles[:i])


def test_a_corner_of_chosen_parameters_keeps_their_order():
    known = posterior(12)
    axes = known.plot(names=["parameter_11", "parameter_2"], truth=[11.5, np.nan])
    assert [ax.get_xlabel() for ax in axes[-1]] == ["parameter_11", "parameter_2"]
    assert float(axes[0, 0].get_title().split("±")[0]) == pytest.approx(11, abs=0.2)
    dots, _ = axes[1, 0].collections
    assert_allclose(dots.get_offsets().mean(axis=0), [11, 2], atol=0.2)
    assert [line.get_xdata()[0] for line in axes[1, 0].lines] == [11.5]
    far = known.plot(names=["parameter_11", "parameter_2"], truth={"parameter_2": 30.0})
    assert far[1, 0].get_ylim()[1] > 30
    assert far[1, 1].get_xlim()[1] > 30
    assert ps.plot.corner(known, names="parameter_3").shape == (1, 1)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({}, "11 parameters are too many for one picture; choose up to 10 by names=, of 'parameter_0'"),
        ({"names": ["rate"]}, "no parameter 'rate'; choose from parameter_0, "),
        ({"names": ["parameter_1"] * 2}, "one or more different parameters"),
        ({"names": []}, "one or more different parameters"),
        ({"names": ["parameter_1"], "truth": [1, 2]}, r"one number for each of \['parameter_1'\], got shape \(2,\)"),
        ({"names": ["parameter_1"], "truth": {"rate": 1}}, "truth: there is no parameter 'rate'"),
    ],
)
def test_a_corner_that_cannot_be_drawn_is_refused(more, message):
    with pytest.raises(ValueError, match=message):
        ps.plot.corner(posterior(11), **more)


def test_too_few_draws_make_no_corner():
    with pytest.raises(ValueError, match="effective draws are too few to draw densities"):
        ps.plot.corner(posterior(2, 5))


def test_without_matplotlib_a_corner_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"paoswarm\[plot\]"):
        posterior(2).plot()


def test_an_objective_that_fails_everywhere_is_an_error(result):
    with pytest.raises(ValueError, match=r"no finite value .* at x = .* raised"):
        ps.plot.swarm(result, lambda x: 1 / 0)
    with pytest.raises(ValueError, match="dims must be two of the unknowns 0 to"):
        ps.plot.swarm(result, dims=(0, 7))


def test_the_error_names_what_cannot_be_drawn(result):
    with pytest.raises(TypeError, match="takes a result, or a dict"):
        ps.plot.convergence([result, result])
    with pytest.raises(TypeError, match=r"needs a PAO.* got PSO"):
        ps.plot.element(ps.classic.PSO())
    with pytest.raises(ValueError, match=r"steps must be .* got -3"):
        ps.plot.element(steps=-3)
