"""A refit is the fit that would have been made with the other data, for a few simulations or none."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

import paoswarm as ps

TIMES = np.linspace(0.5, 6.0, 12)
SPACE = {"limit": (5, 50), "rate": ps.Real(0.05, 5, log=True)}
DESIGN = np.stack([np.ones(12), TIMES], axis=1)
LINE = {"level": (-20, 20), "slope": (-9, 9)}


class Counted:
    """A simulator that counts its calls."""

    def __init__(self, simulate):
        self.simulate, self.calls = simulate, 0

    def __call__(self, p):
        self.calls += 1
        return self.simulate(p)


def curve(p):
    return p["limit"] * (1 - np.exp(-p["rate"] * TIMES))


def line(p):
    return p["level"] + p["slope"] * TIMES


def measured(simulate, truth, seed=5, noise=0.3):
    return simulate(truth) + noise * np.random.default_rng(seed).normal(size=12)


CURVE = measured(curve, {"limit": 16.0, "rate": 0.5})
STRAIGHT = measured(line, {"level": 3.0, "slope": 1.5})


@pytest.fixture(scope="module")
def curved():
    return ps.fit(curve, SPACE, CURVE, rng=1)


@pytest.fixture(scope="module")
def straight():
    return ps.fit(line, LINE, STRAIGHT, sigma=0.3, rng=1)


def assert_same_fit(one, other, rtol=5e-3):
    assert_allclose(one.fun, other.fun, rtol=1e-6)
    assert (np.abs(one.x - other.x) <= 1e-2 * other.standard_errors).all()
    assert_allclose(one.standard_errors, other.standard_errors, rtol=rtol)
    assert one.degrees_of_freedom == other.degrees_of_freedom
    assert_allclose(one.bic, other.bic, rtol=1e-4)


def without(values, *rows):
    found = values.copy()
    found[list(rows)] = np.nan
    return found


def test_leaving_out_each_datum_of_a_line_is_the_closed_form(straight):
    hat = np.diag(DESIGN @ np.linalg.inv(DESIGN.T @ DESIGN) @ DESIGN.T)
    each = [straight.refit(without=[i]) for i in range(12)]
    found = [one.predictions[i] - STRAIGHT[i] for i, one in enumerate(each)]
    assert_allclose(found, straight.residuals / (1 - hat), atol=1e-5)
    assert max(one.nfev for one in each) <= 3  # the slope from the pool is not exact
    for i, one in enumerate(each):
        kept = np.delete(DESIGN, i, axis=0) / 0.3
        assert_allclose(one.covariance, np.linalg.inv(kept.T @ kept), rtol=1e-6)


def test_leaving_out_each_datum_of_a_curve_is_the_fit_without_it(curved):
    counted = Counted(curve)
    fit = ps.fit(counted, SPACE, CURVE, rng=1)
    before = counted.calls
    for i in range(12):
        assert_same_fit(fit.refit(without=[i]), ps.fit(curve, SPACE, without(CURVE, i), rng=1))
    assert counted.calls - before <= 12 * 5
    assert "known and" in fit.refit(without=[3]).message


def test_without_takes_what_indexes_the_data_and_they_come_back(curved):
    rows = [2, 7, 8]
    mask = np.isin(np.arange(12), rows)
    found = curved.refit(without=rows)
    for given in (tuple(rows), np.array(rows), mask, mask.tolist(), np.array(rows) - 12):
        assert_array_equal(curved.refit(without=given).x, found.x)
    assert_array_equal(curved.refit(without=slice(3, 9, 2)).x, curved.refit(without=[3, 5, 7]).x)
    assert_array_equal(curved.refit(without=[]).x, curved.x)
    assert np.isfinite(found.predictions).all()
    assert_array_equal(np.isnan(found.residuals), mask)
    assert_same_fit(found.refit(without=None), curved)
    assert_same_fit(found.refit(sigma=0.3), ps.fit(curve, SPACE, without(CURVE, *rows), sigma=0.3, rng=1))


def test_other_weights_move_no_optimum_and_cost_nothing(curved):
    found = curved.refit(sigma=0.6)
    assert found.nfev == 0
    assert_array_equal(found.x, curved.x)
    assert_allclose(found.fun, curved.fun / 0.36, rtol=1e-12)
    assert_allclose(found.standard_errors * np.sqrt(curved.fun / 10) / 0.6, curved.standard_errors, rtol=1e-4)


@pytest.mark.parametrize(
    "how",
    [
        {"sigma": np.geomspace(0.2, 1.0, 12)},
        {"likelihood": "student-t"},
        {"likelihood": "lognormal", "sigma": 0.1},
        {"data": measured(curve, {"limit": 17.0, "rate": 0.45}, seed=6)},
        {"data": ps.Scaled(2.5 * CURVE), "priors": {"limit": stats.norm(16, 0.1)}},
        {"penalty": lambda p: [(p["limit"] - 15) / 0.1, (p["rate"] - 0.5) / 0.1], "sigma": 0.3},
    ],
    ids=lambda how: " ".join(how),
)
def test_a_refit_is_the_fit(curved, how):
    found, fresh = curved.refit(**how), ps.fit(curve, SPACE, **({"data": CURVE, "rng": 2} | how))
    assert_same_fit(found, fresh, rtol=0.02)
    assert found.nfev < fresh.nfev / 2


def test_no_new_simulation_with_a_budget_of_none(straight):
    weights = np.geomspace(0.2, 2.0, 12)
    found = straight.refit(sigma=weights, maxfev=0)
    assert found.nfev == 0
    assert_array_equal(found.x, min(straight["_known"], key=lambda one: np.sum(
        ((one[2] - STRAIGHT) / weights) ** 2))[0] * [40, 18] + [-20, -9])  # fmt: skip
    scaled = DESIGN / weights[:, None]
    assert_allclose(found.covariance, np.linalg.inv(scaled.T @ scaled), rtol=1e-5)
    assert "0 new simulations" in found.message
    exact = np.linalg.lstsq(scaled, STRAIGHT / weights)[0]
    far = np.linalg.norm(scaled @ (exact - found.x))  # in standard errors
    assert far > 0.3
    assert f"about {far:.2g} standard errors away" in found.remarks[0]
    assert "standard errors away" not in " ".join(straight.refit(sigma=weights).remarks)


def test_beliefs_are_computed_anew_at_all_known_points(straight):
    """A normal prior on a line is a datum more: the closed form."""
    rows = np.concatenate([DESIGN / 0.3, [[0.0, 1 / 0.05]]])
    target = np.append(STRAIGHT / 0.3, 2.0 / 0.05)
    found = straight.refit(priors={"slope": stats.norm(2.0, 0.05)})
    assert_allclose(found.x, np.linalg.lstsq(rows, target)[0], rtol=1e-6)
    assert_allclose(found.covariance, np.linalg.inv(rows.T @ rows), rtol=1e-6)
    assert_allclose(found.refit(priors=None).x, straight.x, rtol=1e-6)


TWO = {"a": CURVE[:6], "b": CURVE[6:] / 2}


def both(p):
    whole = curve(p)
    return {"a": whole[:6], "b": whole[6:] / 2}


def test_outputs_of_a_dict_are_left_out_by_name():
    fit = ps.fit(both, SPACE, TWO, sigma={"a": 0.3, "b": 0.15}, rng=1)
    alone = ps.fit(lambda p: both(p)["a"], SPACE, TWO["a"], sigma=0.3, rng=1)
    for given in ("b", ["b"], {"b": slice(None)}, {"b": np.ones(6, dtype=bool)}):
        found = fit.refit(without=given)
        assert_same_fit(found, alone)
        assert_allclose(found.predictions["b"], both(found.best)["b"], rtol=1e-9)
    assert_same_fit(fit.refit(data={"a": TWO["a"]}, sigma=0.3), alone)
    part = fit.refit(without={"a": [0], "b": [1, 2]})
    kept = {"a": without(TWO["a"], 0), "b": without(TWO["b"], 1, 2)}
    assert_same_fit(part, ps.fit(both, SPACE, kept, sigma={"a": 0.3, "b": 0.15}, rng=1))
    swapped = fit.refit(data={"b": TWO["b"], "a": TWO["a"]})
    assert swapped.nfev == 0
    assert_array_equal(swapped.x, fit.x)


def test_residual_functions_leave_out_residuals():
    fit = ps.fit(lambda p: curve(p) - CURVE, SPACE, rng=1)
    assert_same_fit(fit.refit(without=[4, 5]), ps.fit(curve, SPACE, without(CURVE, 4, 5), rng=1))
    with pytest.raises(ValueError, match="without leaves no data"):
        fit.refit(without=slice(None))
    with pytest.raises(ValueError, match=r"call ps\.fit"):
        fit.refit(data=CURVE)


def test_another_combination_may_win():
    def power(p):
        return p["factor"] * TIMES ** p["order"]

    data = power({"factor": 2.0, "order": 2}) + 0.05 * np.random.default_rng(1).normal(size=12)
    data[-3:] = 2.05 * TIMES[-3:] ** 3 / 4 + [0.2, -0.3, 0.2]  # these three alone ask for another order
    space = {"factor": (0.1, 10), "order": ps.Integer(1, 4)}
    fit = ps.fit(power, space, data, rng=1)
    for rows in (np.arange(9, 12), np.arange(9)):
        fresh = ps.fit(power, space, without(data, *rows), rng=1)
        found = fit.refit(without=rows)
        assert found.best["order"] == fresh.best["order"]
        assert_same_fit(found, fresh)
        assert found.nfev < fresh.nfev / 2


def test_a_refit_may_search_the_whole_space(curved):
    found = curved.refit(sigma=0.4, search=True, rng=3)
    assert found.agreement.is_settled
    assert found.nfev > 0
    assert f"{len(curved['_known'])} known" in found.message


@pytest.mark.filterwarnings("ignore:the function raised")
def test_points_that_have_failed_stay_failed():
    def fragile(p):
        if p["rate"] > 1.0:
            raise ArithmeticError("no solution")
        return curve(p)

    fit = ps.fit(fragile, SPACE, CURVE, rng=1)
    assert fit.n_failed > 0
    assert_same_fit(fit.refit(without=[2]), ps.fit(curve, SPACE, without(CURVE, 2), rng=1))


def test_limits_and_callbacks_are_those_of_every_run(curved):
    seen = []
    found = curved.refit(likelihood="huber", maxfev=2, callback=lambda intermediate_result: seen.append(1))
    assert found.nfev == 2
    assert len(seen) == 2
    assert not found.success
    with pytest.raises(ValueError, match="maxfev"):
        curved.refit(maxfev=-1)


@pytest.mark.parametrize(
    ("how", "text"),
    [
        ({"without": [12]}, r"without=\[12\] must be a mask or indices of the model"),
        ({"without": np.ones(5, dtype=bool)}, "must be a mask or indices"),
        ({"without": [0.5]}, "must be a mask or indices"),
        ({"without": np.ones(12, dtype=bool)}, "without leaves no data"),
        ({"data": CURVE[:5]}, r"have shape \(5,\), but in the fit they were of shape \(12,\)"),
        ({"data": {"b": CURVE}}, "in the fit they were not there"),
        ({"likelihood": "gamma"}, "there is no likelihood 'gamma'"),
    ],
)
def test_what_cannot_be_is_refused(curved, how, text):
    with pytest.raises(ValueError, match=text):
        curved.refit(**how)


def test_names_that_are_not_there_are_refused():
    fit = ps.fit(both, SPACE, TWO, rng=1)
    with pytest.raises(ValueError, match="no data of an output 'c'"):
        fit.refit(without="c")


def test_unknown_arguments_come_with_advice(curved):
    with pytest.raises(TypeError, match="likelihood='student-t'"):
        curved.refit(loss="huber")
    with pytest.raises(TypeError, match="use n_effective="):
        curved.sample(n_samples=500)


def two_outputs(p):
    return {"u": curve(p), "v": p["limit"] * TIMES}


BOTH = {"u": CURVE, "v": 16.0 * TIMES}


def test_what_was_given_for_outputs_that_are_gone_is_left_out():
    given = {"sigma": {"u": 0.3, "v": 0.2}, "likelihood": {"v": "huber"}}
    fit = ps.fit(two_outputs, SPACE, BOTH, **given, rng=1)
    alone = fit.refit(data={"u": CURVE})
    assert_same_fit(alone, ps.fit(lambda p: {"u": curve(p)}, SPACE, {"u": CURVE}, sigma=0.3, rng=1), rtol=0.02)
    for which in ("v", ["v"], {"v": [0]}):
        assert_allclose(fit.refit(without=which).refit(data={"u": CURVE}).fun, alone.fun)
    with pytest.raises(ValueError, match="sigma: there are no data of an output 'v'"):
        fit.refit(data={"u": CURVE}, sigma=given["sigma"])


def test_what_is_new_for_an_output_leaves_the_others_as_they_were():
    fit = ps.fit(two_outputs, SPACE, BOTH, sigma=0.3, likelihood={"v": "student-t"}, rng=1)
    found = fit.refit(likelihood={"u": "huber"}, sigma={"u": 0.2})
    same = fit.refit(likelihood={"u": "huber", "v": "student-t"}, sigma={"u": 0.2, "v": 0.3})
    assert found.fun == same.fun
