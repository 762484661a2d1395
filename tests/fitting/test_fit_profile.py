"""Profiles of fits: their intervals are those of the likelihood, and they tell unknowns that data do not determine."""

import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import brentq, least_squares, minimize_scalar
from scipy.stats import chi2, norm
from scipy.stats import t as student

import paoswarm as ps
from paoswarm.fitting.fit_profile import IDENTIFIABLE, PRACTICALLY_NOT, STRUCTURALLY_NOT, UNFINISHED

TIME = np.linspace(0.0, 5.0, 25)
CLOSE = 0.02  # of tau at the ends of an interval, and so of about half its length


def noisy(mean, sigma, seed=0):
    return mean + sigma * np.random.default_rng(seed).normal(size=np.shape(mean))


def decay(p):
    return p["a"] * np.exp(-p["k"] * TIME)


DECAY = {"a": (0.0, 10.0), "k": (0.0, 10.0)}


class Counted:
    """A simulator that counts its calls, and may interrupt one."""

    def __init__(self, simulate, interrupt_at=None):
        self.simulate, self.calls, self.interrupt_at = simulate, 0, interrupt_at

    def __call__(self, p):
        self.calls += 1
        if self.calls == self.interrupt_at:
            raise KeyboardInterrupt
        return self.simulate(p)


@pytest.mark.parametrize("sigma", [None, 0.3])
def test_of_a_linear_model_the_profile_interval_is_that_of_the_standard_errors(sigma):
    design = np.random.default_rng(1).normal(size=(20, 4))
    data = noisy(design @ [1.0, 2.0, 3.0, 4.0], 0.1)
    fit = ps.fit(lambda x: design @ x, [(-10, 10)] * 4, data, sigma=sigma, rng=1)
    profile = fit.profile()
    width = fit.interval()[1] - fit.interval()[0]
    assert np.abs((np.array(profile.interval()) - fit.interval()) / width).max() < 1e-6
    assert np.abs((np.array(profile.interval(0.5)) - fit.interval(0.5)) / width).max() < 1e-6
    assert set(profile.verdicts.values()) == {IDENTIFIABLE}
    assert profile.nfev == 4 * 2 * 4  # four points for each side, and nothing else
    assert profile.remarks == ()


def test_the_profile_of_a_decay_is_that_of_brute_force():
    data = noisy(decay({"a": 5.0, "k": 1.0}), 0.8)
    fit = ps.fit(decay, DECAY, data, rng=1)
    low, high = fit.profile().interval()
    q, unit = student.ppf(0.975, 23), fit.fun / 23

    def rise(k):  # the best factor is known in closed form
        e = np.exp(-k * TIME)
        return np.sqrt(max(((e * (e @ data) / (e @ e) - data) ** 2).sum() - fit.fun, 0.0) / unit) - q

    ends = brentq(rise, 0.1, fit.best["k"]), brentq(rise, fit.best["k"], 5.0)
    assert_allclose([low[1], high[1]], ends, atol=CLOSE / 2 * (ends[1] - ends[0]))
    assert fit.best["k"] - low[1] < 0.9 * (high[1] - fit.best["k"])  # not symmetric


def test_the_profile_of_a_poisson_mean_is_its_likelihood_interval():
    counts = np.array([2.0, 4.0, 1.0])
    fit = ps.fit(lambda p: np.full(3, p["mean"]), {"mean": (0.01, 50.0)}, counts, likelihood="poisson", rng=1)
    profile = fit.profile()

    def rise(mean):
        return 2 * (3 * mean - 7 * np.log(mean)) - 2 * (7 - 7 * np.log(7 / 3)) - chi2.ppf(0.95, 1)

    ends = brentq(rise, 0.1, 7 / 3), brentq(rise, 7 / 3, 30.0)
    assert_allclose(np.ravel(profile.interval()), ends, atol=CLOSE / 2 * (ends[1] - ends[0]))
    assert profile.nfev <= 10


def gaussian_on_decay(p):
    return p["a"] * np.exp(-p["k"] * TIME) + p["b"] * np.exp(-(((TIME - p["m"]) / p["s"]) ** 2))


def two_decays(p):
    return p["a"] * np.exp(-p["k"] * TIME) + p["b"] * np.exp(-p["l"] * TIME)


RATE = ps.Real(0.01, 30.0, log=True)
MODELS = {
    "saturation": (
        lambda p: p["v"] * TIME / (p["h"] + TIME),
        {"v": ps.Real(0.1, 1000.0, log=True), "h": ps.Real(0.01, 1000.0, log=True)},
        {"v": 10.0, "h": 3.0},
        0.4,
        10,
    ),
    "peak": (
        gaussian_on_decay,
        {"a": (0.0, 10.0), "k": (0.0, 3.0), "b": (0.0, 10.0), "m": (0.0, 5.0), "s": (0.1, 3.0)},
        {"a": 5.0, "k": 0.5, "b": 3.0, "m": 3.0, "s": 0.5},
        0.15,
        8,
    ),
    "two decays": (
        two_decays,
        {"a": (0.0, 10.0), "k": RATE, "b": (0.0, 10.0), "l": RATE},
        {"a": 5.0, "k": 3.0, "b": 2.0, "l": 0.3},
        0.07,
        15,
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_at_its_ends_the_best_of_the_others_has_risen_to_the_quantile(name):
    model, space, truth, sigma, most = MODELS[name]
    data = noisy(model(truth), sigma)
    fit = ps.fit(model, space, data, rng=1)
    profile = fit.profile()
    left = len(data) - len(space)
    for i, (unknown, curve) in enumerate(profile.items()):
        others = [other for other in space if other != unknown]
        for end, k in zip(np.array(profile.interval())[:, i], (0, -1), strict=True):
            assert np.isfinite(end)

            def residuals(z, held=unknown, at=end, names=others):
                return model({held: at, **dict(zip(names, z, strict=True))}) - data

            start = [curve.unknowns[other][k] for other in others]
            best = 2 * least_squares(residuals, start, x_scale="jac", xtol=1e-13, ftol=1e-13, gtol=1e-13).cost
            root = np.sqrt((best - fit.fun) / (fit.fun / left))
            assert_allclose(root, student.ppf(0.975, left), rtol=CLOSE)
    assert set(profile.verdicts.values()) == {IDENTIFIABLE}
    assert profile.nfev <= most * 2 * len(space)


def test_an_interval_does_not_depend_on_how_the_unknown_is_written():
    data = noisy(decay({"a": 5.0, "k": 1.0}), 0.8)
    plain = ps.fit(decay, DECAY, data, rng=1).profile("k")
    logarithmic = ps.fit(decay, DECAY | {"k": ps.Real(0.01, 10.0, log=True)}, data, rng=1).profile("k")
    ends = np.ravel(plain.interval())
    assert_allclose(np.ravel(logarithmic.interval()), ends, atol=CLOSE * np.ptp(ends))


def test_a_scaled_output_has_the_profiles_of_the_model_with_that_factor():
    data = noisy(decay({"a": 5.0, "k": 1.0}), 0.3)
    whole = ps.fit(decay, DECAY, data, rng=1).profile("k")
    scaled = ps.fit(lambda p: np.exp(-p["k"] * TIME), {"k": (0.0, 10.0)}, ps.Scaled(data), rng=1).profile()
    ends = np.ravel(whole.interval())
    assert_allclose(np.ravel(scaled.interval()), ends, atol=CLOSE * np.ptp(ends))


def test_a_prior_counts_as_data():
    data = noisy(np.full(4, 2.0), 1.0)
    fit = ps.fit(
        lambda p: np.full(4, p["x"]), {"x": (-20.0, 20.0)}, data, sigma=1.0, priors={"x": norm(0.0, 0.5)}, rng=1
    )
    precision = 4 + 1 / 0.25
    centre, reach = data.sum() / precision, norm.ppf(0.975) / np.sqrt(precision)
    assert_allclose(np.ravel(fit.profile().interval()), [centre - reach, centre + reach], atol=1e-6)


def test_a_product_is_determined_but_not_its_factors():
    data = noisy(6 * np.exp(-TIME), 0.1)
    space = {"a": (0.1, 10.0), "b": (0.1, 10.0), "k": (0.1, 5.0)}
    profile = ps.fit(lambda p: p["a"] * p["b"] * np.exp(-p["k"] * TIME), space, data, sigma=0.1, rng=1).profile()
    assert profile.verdicts == {"a": STRUCTURALLY_NOT, "b": STRUCTURALLY_NOT, "k": IDENTIFIABLE}
    curve = profile["a"]
    is_flat = np.abs(curve.roots) < 0.05
    assert np.ptp(curve.values[is_flat]) > 8  # it was followed along the valley
    product = (curve.unknowns["a"] * curve.unknowns["b"])[is_flat]
    assert_allclose(product, product[0], rtol=0.01)
    assert any("b can make up for any change of it" in text for text in profile.remarks)
    assert profile.nfev < 400


def test_an_unknown_without_effect_is_structurally_undetermined():
    data = noisy(decay({"a": 5.0, "k": 1.0}), 0.1)
    profile = ps.fit(decay, DECAY | {"idle": (0.0, 1.0)}, data, sigma=0.1, rng=1).profile("idle")
    assert profile.verdicts == {"idle": STRUCTURALLY_NOT}
    assert_allclose(np.ravel(profile.interval()), [0, 1])
    assert any("do not depend on it" in text for text in profile.remarks)


def test_a_rate_that_is_too_fast_has_a_lower_end_only():
    rise = lambda p: p["a"] * (1 - np.exp(-p["k"] * TIME))  # noqa: E731
    data = noisy(rise({"a": 5.0, "k": 30.0}), 0.3)
    data[0] = 0
    space = {"a": (0.1, 10.0), "k": ps.Real(0.1, 1000.0, log=True)}
    profile = ps.fit(rise, space, data, sigma=0.3, rng=1).profile()
    assert profile.verdicts == {"a": IDENTIFIABLE, "k": PRACTICALLY_NOT}
    low, high = profile["k"].interval(profile.reach())
    assert 5 < low < 30
    assert high == pytest.approx(1000)
    assert any("upper bound" in text for text in profile.remarks)


def test_a_periodic_unknown_may_pass_its_seam():
    wave = lambda p: np.sin(TIME + p["phase"])  # noqa: E731
    data = noisy(np.sin(TIME - 0.02), 0.2)
    around_zero = ps.fit(wave, {"phase": (-1.0, 1.0)}, data, rng=1).profile()
    round_ = ps.fit(wave, {"phase": ps.Periodic(0.0, 2 * np.pi)}, data, rng=1).profile()
    shift = np.array(round_.interval()) - around_zero.interval()
    assert_allclose(shift, 2 * np.pi * np.rint(shift / (2 * np.pi)), atol=1e-3)
    assert round_.verdicts == {"phase": IDENTIFIABLE}


def test_a_constraint_bounds_the_others_along_a_profile():
    data = noisy(decay({"a": 5.0, "k": 1.0}), 0.8)
    limit = 4.5
    constraint = ps.Constraint(lambda p: p["a"] * p["k"], ub=limit)
    fit = ps.fit(decay, DECAY, data, sigma=0.8, constraints=constraint, rng=1)
    assert fit.best["a"] * fit.best["k"] == pytest.approx(limit, abs=1e-4)
    low, high = np.array(fit.profile("k").interval())[:, 0]

    def value(k):
        e = np.exp(-k * TIME)
        a = min((e @ data) / (e @ e), limit / k)
        return ((a * e - data) ** 2).sum() / 0.64

    best = minimize_scalar(value, bounds=(0.3, 2.0), method="bounded", options={"xatol": 1e-9})

    def rise(k):
        return np.sqrt(max(value(k) - best.fun, 0.0)) - norm.ppf(0.975)

    ends = brentq(rise, 0.1, best.x), brentq(rise, best.x, 5.0)
    assert_allclose([low, high], ends, atol=CLOSE * (ends[1] - ends[0]))


def test_failing_simulations_end_a_side_and_nothing_else():
    data = noisy(decay({"a": 5.0, "k": 1.0}), 0.8)

    def fails_beyond(p):
        if p["k"] > 1.15:
            raise ValueError("diverged")
        return decay(p)

    with pytest.warns(RuntimeWarning, match="diverged"):
        fit = ps.fit(fails_beyond, DECAY, data, rng=1)
    with pytest.warns(RuntimeWarning, match="diverged"):
        profile = fit.profile()
    whole = ps.fit(decay, DECAY, data, rng=1).profile()
    low, high = np.array(profile.interval()).T[1]
    assert_allclose(low, whole.interval()[0][1], atol=0.01)
    assert np.isnan(high)
    assert profile.verdicts["k"] == UNFINISHED
    assert 1.12 < profile["k"].values[-1] <= 1.15
    assert any("fail" in text for text in profile.remarks)
    assert profile.n_failed > 0


def test_a_better_fit_is_found_on_the_way():
    def two_valleys(p):
        x = p["x"]
        return np.array([x**2 - 1, 0.3 * (x - 1.0)])

    fit = ps.fit(two_valleys, {"x": (-2.0, 2.0)}, np.zeros(2), sigma=1.0, x0={"x": -1.0}, maxfev=8, rng=1)
    assert fit.best["x"] < 0  # negative control: the fit is in the wrong valley
    profile = fit.profile()
    assert profile.better["x"] == pytest.approx(1, abs=1e-4)
    assert profile.fun == pytest.approx(0, abs=1e-6) or profile.fun < fit.fun
    assert profile["x"].estimate == pytest.approx(1, abs=1e-4)
    assert "better fit" in profile.remarks[0]
    cut = fit.profile(maxfev=profile.nfev // 4)
    assert cut.better is not None or "lower value" in cut.remarks[0]


def test_budget_and_interrupts_leave_what_was_found():
    data = noisy(gaussian_on_decay(MODELS["peak"][2]), 0.15)
    counted = Counted(gaussian_on_decay)
    fit = ps.fit(counted, MODELS["peak"][1], data, rng=1)
    before = counted.calls
    some = fit.profile(maxfev=25)
    assert some.nfev == counted.calls - before <= 25
    assert UNFINISHED in some.verdicts.values()
    assert "maxfev=25" in some.message
    counted.interrupt_at = counted.calls + 20
    interrupted = fit.profile()
    assert interrupted.nfev == 19
    assert interrupted.status == -2
    assert all(len(curve.values) > 1 for curve in interrupted.values())
    assert set(fit.profile().verdicts.values()) == {IDENTIFIABLE}


def test_workers_change_nothing():
    data = noisy(decay({"a": 5.0, "k": 1.0}), 0.8)
    fit = ps.fit(decay, DECAY, data, rng=1)
    alone = fit.profile()
    with ThreadPoolExecutor(2) as pool:
        together = fit.profile(workers=pool)
    assert np.array_equal(alone.interval(), together.interval())
    assert alone.nfev == together.nfev


def test_a_profile_knows_what_was_simulated_and_can_be_kept():
    data = noisy(decay({"a": 5.0, "k": 1.0}), 0.8)
    fit = ps.fit(decay, DECAY, data, rng=1)
    n_known = len(fit["_known"])
    profile = fit.profile()
    assert len(fit["_known"]) == n_known + profile.nfev
    copy = pickle.loads(pickle.dumps(profile))
    assert str(copy) == str(profile)
    assert np.array_equal(copy.interval(0.8), profile.interval(0.8))
    inner, outer = np.array(profile.interval(0.8)), np.array(profile.interval())
    assert (outer[0] < inner[0]).all()
    assert (inner[1] < outer[1]).all()


def test_noise_of_the_simulator_widens_no_interval():
    rng = np.random.default_rng(5)
    data = noisy(decay({"a": 5.0, "k": 1.0}), 0.8)
    fit = ps.fit(lambda p: decay(p) + 1e-4 * rng.normal(size=25), DECAY, data, rng=1)
    exact = np.array(ps.fit(decay, DECAY, data, rng=1).profile().interval())
    assert_allclose(fit.profile().interval(), exact, atol=0.03 * np.ptp(exact, axis=0).min())


def test_what_is_wrong_is_said_before_anything_is_simulated():
    counted = Counted(decay)
    fit = ps.fit(counted, DECAY, noisy(decay({"a": 5.0, "k": 1.0}), 0.8), rng=1)
    before = counted.calls
    with pytest.raises(ValueError, match="no continuous unknown 'rate'"):
        fit.profile("rate")
    with pytest.raises(ValueError, match="level"):
        fit.profile(level=95)
    assert counted.calls == before
    with pytest.raises(ValueError, match="reach to a level"):
        fit.profile("k", level=0.5).interval(0.9)
    perfect = ps.fit(decay, DECAY, decay({"a": 5.0, "k": 1.0}), rng=1)
    with pytest.raises(ValueError, match="all residuals are zero: give sigma"):
        perfect.profile()


@pytest.mark.parametrize("seed", [8, 17, 107, 183])
def test_a_profile_that_grows_flat_is_followed_until_it_is_clear_where_it_ends(seed):
    dose = np.array([0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0] * 2)
    simulate = lambda p: p["most"] * dose / (p["half"] + dose)  # noqa: E731
    data = noisy(simulate({"most": 30.0, "half": 10.0}), 1.2, seed)
    space = {"most": (0.1, 10000.0), "half": (0.1, 10000.0)}
    profile = ps.fit(simulate, space, data, x0={"most": 30.0, "half": 10.0}, rng=1).profile()
    assert np.isfinite(profile.interval()).all()
    line = ((dose @ data) / (dose @ dose) * dose - data) @ ((dose @ data) / (dose @ dose) * dose - data)
    limit = np.sqrt((line - profile.fun) / (profile.fun / 14))  # the root where both unknowns are infinite
    assert (PRACTICALLY_NOT in profile.verdicts.values()) == (limit < profile.reach())
    assert profile.nfev < 100


def test_an_end_that_the_bound_of_another_unknown_makes_has_a_remark():
    x = np.array([0.01, 0.02, 0.03, 0.04])
    y = np.array([0.0198, 0.0394, 0.0580, 0.0772]) + 0.001 * np.array([0.3, -1, 0.5, 0.4])
    space = {"v": ps.Real(0.01, 1e7, log=True), "km": ps.Real(1e-3, 1e3, log=True)}
    profile = ps.fit(lambda p: p["v"] * x / (p["km"] + x), space, y, sigma=0.001, rng=1).profile()
    assert any("The upper end of the interval of v" in one and "km" in one for one in profile.remarks)


def test_a_profile_needs_a_name_and_takes_each_once():
    x = np.linspace(0.0, 1.0, 6)
    fit = ps.fit(lambda p: p["a"] + p["b"] * x, {"a": (-5, 5), "b": (-5, 5)}, 1 + x, sigma=0.1, rng=1)
    with pytest.raises(ValueError, match="names must have one unknown at least"):
        fit.profile([])
    assert fit.profile(["a", "a"]).names == ("a",)
