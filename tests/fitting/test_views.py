"""Plots of a fit show the numbers they claim to show, and leave matplotlib as they found it."""

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest
from numpy.testing import assert_allclose

import paoswarm as ps

TIME = np.linspace(0.0, 5.0, 20)


@pytest.fixture(autouse=True)
def _agg():
    plt.switch_backend("Agg")
    before = dict(matplotlib.rcParams)
    yield
    assert dict(matplotlib.rcParams) == before
    plt.close("all")


def decay(t, a, k):
    return a * np.exp(-k * t)


@pytest.fixture(scope="module")
def curve():
    data = decay(TIME, 5.0, 1.0) + 0.5 * np.random.default_rng(0).normal(size=20)
    shuffled = np.random.default_rng(1).permutation(20)
    space = {"a": (0.0, 10.0), "k": ps.Real(0.01, 10.0, log=True)}
    return ps.fit(decay, space, data[shuffled], xdata=TIME[shuffled], rng=1), data


def two(p):
    e = np.exp(-p["k"] * TIME)
    return {"light": e, "mass": np.stack([p["a"] * (1 - e), p["a"] * e], axis=1)}


@pytest.fixture(scope="module")
def outputs():
    rng = np.random.default_rng(2)
    truth = two({"k": 0.7, "a": 4.0})
    light = ps.Scaled(250 * truth["light"] + 40 + 8 * rng.normal(size=20), offset=True)
    mass = truth["mass"] + 0.2 * rng.normal(size=(20, 2))
    mass[3, 0] = np.nan
    space = {"a": (0.1, 50.0), "k": ps.Real(0.01, 30.0, log=True)}
    return ps.fit(two, space, {"light": light, "mass": mass}, sigma={"mass": 0.2}, rng=1)


def band_of(collection):
    """Lower and upper ends of a filled band, by ascending x."""
    path = collection.get_paths()[0].vertices
    x = np.unique(path[:, 0])
    return np.array([[path[path[:, 0] == one, 1].min() for one in x], [path[path[:, 0] == one, 1].max() for one in x]])


def test_a_curve_is_drawn_over_its_xdata_in_ascending_order(curve):
    fit, data = curve
    top, below = fit.plot()[0]
    line, dots = (one.get_xydata() for one in top.lines[:2])
    order = np.argsort(fit._call.given["xdata"])
    assert_allclose(line.T, [TIME, fit.predictions[order]])
    assert_allclose(dots.T, [TIME, data])
    deviation = fit.sigma[""]
    assert_allclose(below.lines[-1].get_ydata(), (data - fit.predictions[order]) / deviation)
    for collection, is_noisy in zip(top.collections[:2], (True, False), strict=True):
        assert_allclose(band_of(collection), [end[order] for end in fit.band(noise=is_noisy)])


def test_outputs_have_panels_in_the_units_of_their_data(outputs):
    axes = outputs.plot(x=TIME, level=0.5)
    assert axes.shape == (2, 2)
    light, mass = axes[:, 0]
    assert_allclose(light.lines[0].get_ydata(), outputs.predictions["light"])
    scale, offset = outputs.factors["light"]
    assert light.get_title() == f"light: {scale:.4g} * model + {offset:.4g}"
    assert_allclose(band_of(light.collections[1]), [end["light"] for end in outputs.band(0.5)])
    assert len(mass.containers) == 2
    for j, container in enumerate(mass.containers):
        data, _, (bars,) = container
        assert np.isnan(data.get_ydata()[3]) == (j == 0)  # the missing datum
        lengths = [np.ptp(segment[:, 1]) for segment in bars.get_segments() if len(segment)]
        assert_allclose(lengths[-1], 0.4)  # one standard deviation to each side
    assert not light.containers[0].has_yerr  # its noise is estimated


def test_residuals_alone_are_drawn_in_standard_deviations():
    data = decay(TIME, 5.0, 1.0) + 0.5 * np.random.default_rng(0).normal(size=20)
    fit = ps.fit(lambda x: decay(TIME, *x) - data, [(0, 10), (0, 10)], rng=1)
    ((ax,),) = fit.plot()
    assert_allclose(ax.lines[-1].get_ydata(), fit.residuals / fit.sigma[""])


def test_searches_are_sorted_and_the_course_is_the_history(curve):
    fit, _ = curve
    ends, course = fit.plot_searches()
    values = ends.lines[-1].get_ydata()
    assert_allclose(values, sorted(one.value for one in fit.searches))
    assert_allclose(course.lines[0].get_xydata().T, [fit.history.nfev, fit.history.best])
    n_best = fit.searches.places.count(1)
    assert f"at the best place ({n_best})" in [text.get_text() for text in ends.get_legend().texts]


def test_profiles_cross_the_threshold_at_the_ends_of_the_interval(curve):
    fit, _ = curve
    axes = fit.plot_profiles().ravel()
    profile = fit.profile()
    for ax, name, low, high, error in zip(axes, "ak", *profile.interval(), fit.standard_errors, strict=True):
        parabola, line, knots = ax.lines[:3]
        assert_allclose(knots.get_ydata(), profile[name].roots ** 2)
        x, rise = line.get_xydata().T
        inner = (x > low) & (x < high)
        assert (rise[inner] < profile.reach() ** 2 * 1.02).all()
        assert (rise[~inner] > profile.reach() ** 2 * 0.98).all()
        best = fit.best[name]
        at = best + error if name == "a" else best * np.exp(error / best)
        assert_allclose(np.interp(at, *parabola.get_xydata().T), 1, atol=0.02)


def test_what_cannot_be_drawn_is_said(curve, outputs):
    with pytest.raises(ValueError, match="x must be 20 numbers for output 'light'"):
        outputs.plot(x=TIME[:5])
    with pytest.raises(TypeError, match="plot_searches"):
        ps.plot.searches(curve[0])
    assert outputs.plot()[0, 1].get_xlabel() == "number"


def test_infinite_bands_are_not_drawn():
    def both(p):
        e = np.exp(-p["k"] * TIME)
        return {"light": p["a"] * e, "mass": p["a"] * TIME}

    data = both({"a": 3.0, "k": 0.7})
    data = {name: one + 0.1 * np.random.default_rng(0).normal(size=20) for name, one in data.items()}
    fit = ps.fit(both, {"a": (0.0, 10.0), "k": (0.01, 5.0)}, data, rng=1).refit(without=["light"])
    assert np.isinf(fit.band()[0]["light"][1:]).all()
    axes = fit.plot()
    axes[0, 0].figure.canvas.draw()
    assert np.abs(axes[0, 0].get_ylim()).max() < 10


def test_dates_are_places_and_unknown_outputs_are_refused(curve, outputs):
    days = np.datetime64("2024-01-01") + np.arange(20) * np.timedelta64(1, "D")
    axes = curve[0].plot(x=days)
    assert axes[0, 1].get_xlabel() == "x"
    assert (axes[0, 0].lines[0].get_xdata() == days).all()
    with pytest.raises(ValueError, match="x has 'zz', which is no output; choose from light, mass"):
        outputs.plot(x={"zz": TIME})
    with pytest.raises(ValueError, match="the only one has no name: give an array"):
        curve[0].plot(x={"zz": TIME})


def test_one_simulation_is_no_plural(curve):
    short = ps.fit(decay, {"a": (0.0, 10.0), "k": (0.01, 10.0)}, curve[1], xdata=TIME, rng=1, maxfev=1)
    assert "It took 1 simulation; " in str(short)
