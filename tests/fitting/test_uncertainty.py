"""`uncertainty`: exact where the answer is known, certified where NIST knows it, and a warning where there is none."""

import pickle
import re
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar

import nist
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import t as student

import paoswarm as ps
from paoswarm.evaluate.calls import Detailed

CENTRE = np.array([1.0, -2.0, 3.0])
BESIDE = np.array([1.0, -1.0, 3.0])
HESSIAN = np.array([[4.0, 1.0, 0.0], [1.0, 3.0, 0.5], [0.0, 0.5, 2.0]])


def parabola(x):
    """A negative log likelihood whose errors are known."""
    return 0.5 * (x - CENTRE) @ HESSIAN @ (x - CENTRE) + 7


def likelihood(fun, x, **options):
    return ps.uncertainty(x, negative_log_likelihood=fun, **options)


def random_hessian(rng, d, condition):
    axes = np.linalg.qr(rng.standard_normal((d, d)))[0]
    return axes * np.geomspace(1, condition, d) @ axes.T


# Known answers


@pytest.mark.parametrize("d", [1, 2, 5])
@pytest.mark.parametrize("condition", [1, 1e4, 1e8])
def test_the_hessian_of_a_quadratic_is_exact(d, condition):
    rng = np.random.default_rng(d)
    centre, hessian = rng.standard_normal(d), random_hessian(rng, d, condition)
    fit = likelihood(lambda x: 0.5 * (x - centre) @ hessian @ (x - centre), centre)
    scale = np.sqrt(np.diag(hessian))
    assert_allclose(fit.hessian / np.outer(scale, scale), hessian / np.outer(scale, scale), atol=1e-8)
    assert_allclose(fit.covariance, np.linalg.inv(hessian), rtol=1e-6, atol=1e-8 / hessian.max())
    assert fit.warnings == fit.notes == ()


def test_linear_regression_has_the_textbook_errors():
    rng = np.random.default_rng(1)
    design = np.vander(np.linspace(0, 3, 20), 4)
    y = design @ [0.1, -1, 2, 5] + 0.3 * rng.standard_normal(20)
    best, (least,), _, _ = np.linalg.lstsq(design, y)
    variance = least / 16
    covariance = variance * np.linalg.inv(design.T @ design)

    def residuals(b):
        return y - design @ b

    fit = ps.uncertainty(best, n_data=20, sum_of_squares=lambda b: residuals(b) @ residuals(b))
    assert_allclose(fit.covariance, covariance, rtol=1e-7)
    assert_allclose(fit.standard_errors, np.sqrt(np.diag(covariance)), rtol=1e-7)
    assert_allclose(fit.hessian, 2 * design.T @ design, rtol=1e-7)
    assert_allclose(fit.variance, variance)
    assert (fit.n_data, fit.degrees_of_freedom) == (20, 16)
    low, high = fit.interval(0.9)
    assert_allclose((high - low) / 2, student.ppf(0.95, 16) * np.sqrt(np.diag(covariance)), rtol=1e-7)
    assert_allclose(fit.rises, 1, rtol=1e-6)
    assert fit.warnings == fit.notes == ()
    at = np.vander([0.5, 4.0], 4)
    values, errors = fit.predict(lambda b: at @ b)
    assert_allclose(values, at @ best)
    assert_allclose(errors, np.sqrt(np.diag(at @ covariance @ at.T)), rtol=1e-7)


def test_a_known_variance_makes_a_likelihood_of_a_sum_of_squares():
    squares = ps.uncertainty(CENTRE, sum_of_squares=lambda x: 2 * 0.25 * parabola(x), variance=0.25)
    assert_allclose(squares.covariance, np.linalg.inv(HESSIAN), rtol=1e-8)


def test_errors_scale_with_the_units():
    scale = np.array([1e6, 1.0, 1e-9])
    fit = likelihood(lambda x: parabola(x / scale), CENTRE * scale)
    assert_allclose(fit.standard_errors, scale * np.sqrt(np.diag(np.linalg.inv(HESSIAN))), rtol=1e-8)
    assert_allclose(fit.condition_number, likelihood(parabola, CENTRE).condition_number, rtol=1e-6)


# NIST's certified errors

FEW = ["Chwirut2", "DanWood", "Misra1a", "Nelson"]


@pytest.mark.parametrize(
    "name", [name if name in FEW else pytest.param(name, marks=pytest.mark.slow) for name in nist.MODELS]
)
@pytest.mark.parametrize("away", [0.5, pytest.param(0.0, marks=pytest.mark.slow)])
def test_certified_errors(name, away):
    """Sums of squares give what all second derivatives give; NIST leaves some out."""
    data = nist.read(name)
    assert_allclose(data.squares(data.certified), data.sum_of_squares, rtol=1e-9)
    given = {"sum_of_squares": data.squares, "n_data": len(data.y)}
    direction = np.random.default_rng(3).standard_normal(len(data.certified))
    root = ps.uncertainty(data.certified, **given)._root
    start = data.certified + away * root @ direction / np.linalg.norm(direction)
    fit = ps.uncertainty(start, **given)
    assert_allclose(fit.standard_errors, data.errors_from_hessian(), rtol=5e-3)
    assert fit.warnings == ()
    assert_allclose((fit.x - data.certified) / data.errors, 0, atol=0.02)
    assert_allclose(fit.shift, (fit.x - start) / fit.standard_errors)
    assert_allclose(np.sqrt(fit.variance), np.sqrt(data.sum_of_squares / (len(data.y) - len(start))), rtol=1e-3)


def test_from_a_run_to_certified_errors():
    data = nist.read("Misra1a")
    result = ps.minimize(data.squares, [(50, 600), (1e-5, 2e-3)], maxfev=1500, polish=True, rng=1)
    fit = ps.uncertainty(result, sum_of_squares=data.squares, n_data=len(data.y), names=["b1", "b2"])
    assert_allclose(fit.standard_errors, data.errors_from_hessian(), rtol=0.01)
    assert_allclose(fit.x, data.certified, atol=0.02 * data.errors.max(), rtol=1e-3)
    assert "b1 and b2 -0.999" in str(fit)


# Negative controls


def test_a_clean_minimum_has_no_warning():
    fit = likelihood(parabola, CENTRE, bounds=[(-50, 50)] * 3)
    assert fit.warnings == fit.notes == ()
    assert_array_equal(fit.shift, 0)


def test_a_point_beside_the_minimum_is_moved_there_and_that_is_said():
    fit = likelihood(parabola, BESIDE)
    errors = np.sqrt(np.diag(np.linalg.inv(HESSIAN)))
    assert_allclose(fit.x, CENTRE, atol=1e-6)
    assert_allclose(fit.shift, [0, -1 / errors[1], 0], atol=1e-6)
    assert_allclose(fit.standard_errors, errors, rtol=1e-6)
    assert fit.warnings == ()
    assert "not quite the minimum" in fit.notes[0]
    stays = likelihood(parabola, BESIDE, refine=False)
    assert "the slope is not zero" in stays.warnings[0]
    assert_array_equal(stays.x, BESIDE)


def test_a_kink_is_noticed():
    fit = likelihood(lambda x: (x[0] - 1) ** 2 + 3 * abs(x[1] + 2), [1.0, -2.0])
    assert "has a kink" in fit.warnings[0]
    assert_allclose(fit.standard_errors[0], np.sqrt(0.5), rtol=1e-6)


@pytest.mark.parametrize("size", [0.01, 0.1, 1.0])
def test_noise_is_noticed_and_survived(size):
    """Noise as large as the rise at one standard error leaves errors right within 30 %: seeds are fixed."""
    rng = np.random.default_rng(4)
    fit = likelihood(lambda x: parabola(x) + size * rng.standard_normal(), CENTRE, bounds=[(-100, 100)] * 3)
    assert "noisy" in "".join(fit.warnings + fit.notes)
    assert_allclose(fit.standard_errors, np.sqrt(np.diag(np.linalg.inv(HESSIAN))), rtol=0.3)


def test_a_saddle_and_a_maximum_are_noticed():
    saddle = likelihood(lambda x: x[0] ** 2 - x[1] ** 2, [0.0, 0.0], bounds=[(-1, 1)] * 2)
    assert re.search(r"not a minimum: changing x1 by .* lowers", saddle.warnings[0])
    assert_allclose(saddle.standard_errors, [np.sqrt(0.5), np.nan])
    assert "wrong sign" in likelihood(lambda x: -parabola(x), CENTRE, bounds=[(-9, 9)] * 3).warnings[0]


def test_an_unknown_on_its_bound_is_fixed():
    def fun(x):
        return (x[0] + 1) ** 2 + 3 * (x[1] - 0.2 * x[0]) ** 2

    fit = likelihood(fun, [0.0, 0.0], bounds=[(0, 2), (-5, 5)], names=["a", "b"])
    assert "a lies on its lower bound" in fit.notes[0]
    assert_allclose(fit.standard_errors, [np.nan, 1 / np.sqrt(6)])
    assert_array_equal(fit.free, [False, True])
    assert "on its bound" in str(fit)
    _, error = fit.predict(lambda x: 2 * x[1] + x[0])
    assert_allclose(error, 2 / np.sqrt(6))
    inside = likelihood(fun, [1.0, 0.0], bounds=[(0, 2), (-5, 5)])  # Newton steps end on the bound
    assert_array_equal(inside.x[0], 0)
    assert_allclose(inside.standard_errors, fit.standard_errors)


def test_points_stay_inside_the_bounds():
    seen = []

    def fun(x):
        seen.append(x)
        return (x[0] - 0.01) ** 2 + (x[1] - 3 * x[0]) ** 2

    fit = likelihood(fun, [0.01, 0.03], bounds=[(0, 1), (0, 1)])
    assert (np.array(seen) >= 0).all()
    assert (np.array(seen) <= 1).all()
    assert_allclose(fit.standard_errors, np.sqrt([0.5, 5]), rtol=1e-6)
    assert any("standard errors from its lower bound" in note for note in fit.notes)


def test_unknowns_that_the_data_do_not_determine_are_named():
    fit = likelihood(lambda x: 9 * (x[0] + x[1] - 1) ** 2 + x[2] ** 2, [0.5, 0.5, 0.0], bounds=[(-1, 1)] * 3)
    assert re.search(r"changing x0 by \S+, x1 by \S+ together changes nothing", fit.warnings[0])
    assert_allclose(fit.standard_errors, [np.inf, np.inf, np.sqrt(0.5)])
    without = likelihood(lambda x: x[0] ** 2, [0.0, 0.5], bounds=[(-1, 1)] * 2)
    assert without.warnings == ("x1 has no effect on the function.",)
    assert_allclose(without.standard_errors, [np.sqrt(0.5), np.inf])


def test_a_function_that_is_no_parabola_is_noted():
    fit = likelihood(lambda x: 0.2 * (np.exp(x[0]) - x[0]) + x[1] ** 2, [0.0, 0.0])
    assert "no parabola" in fit.notes[0]
    assert "x0" in fit.notes[0]
    assert "x1" not in fit.notes[0]


# Profile intervals


def test_the_profile_of_a_parabola_is_its_interval():
    fit = likelihood(parabola, CENTRE, profile=0.9)
    assert_allclose(fit.profile.T, fit.interval(0.9), rtol=1e-8)
    assert "90 % profile interval" in str(fit)


def test_profiles_do_not_depend_on_how_the_unknowns_are_written():
    """The ends for a logarithm are the logarithms of the ends, up to a hundredth of its standard error."""
    fit = likelihood(lambda x: parabola(np.log(x)), np.exp(CENTRE), profile=0.95, bounds=[(1e-3, 1e3)] * 3)
    plain = likelihood(parabola, CENTRE)
    ends = (np.log(fit.profile).T - plain.interval(0.95)) / plain.standard_errors
    assert_allclose(ends, 0, atol=0.015)
    assert "use the profile intervals" in fit.notes[-1]


def test_a_profile_ends_at_a_bound():
    fit = likelihood(parabola, CENTRE, profile=0.95, bounds=[(0.5, 9), (-9, 9), (-9, 9)])
    assert fit.profile[0, 0] == 0.5
    assert_allclose(fit.profile[0, 1], fit.interval()[1][0], rtol=0.01)


def test_a_lower_minimum_that_a_profile_finds_is_said():
    fit = likelihood(lambda x: 2 * (1 - np.cos(3 * x[0])) - 0.4 * x[0], [0.0], profile=0.999, bounds=[(-9, 9)])
    assert "there is a better minimum" in fit.warnings[-1]


# How the function is called


def shifted(x, centre, factor):
    return factor * 0.5 * (x - centre) @ HESSIAN @ (x - centre)


def test_any_workers_give_the_same():
    plain = likelihood(shifted, CENTRE, args=(CENTRE, 2.0))
    rows = likelihood(
        lambda x: 2 * np.einsum("ki,ij,kj->k", x - CENTRE, HESSIAN, x - CENTRE) / 2, CENTRE, vectorized=True
    )
    assert_allclose(rows.covariance, plain.covariance, rtol=1e-9)
    with ThreadPoolExecutor(2) as threads:
        for workers in (2, map, threads):
            fit = likelihood(shifted, CENTRE, args=(CENTRE, 2.0), workers=workers)
            assert_array_equal(fit.covariance, plain.covariance)
            assert fit.n_evaluations == plain.n_evaluations


def test_a_detailed_value_travels_whole():
    value = pickle.loads(pickle.dumps(Detailed(2.0, np.arange(3.0))))
    assert value == 2.0
    assert_array_equal(value.details, [0, 1, 2])


def test_failed_points_shorten_the_steps():
    def fun(x):
        if x[0] < 0.9:
            raise RuntimeError("the mesh is broken")
        return parabola(x)

    fit = likelihood(fun, CENTRE)
    assert fit.n_failed > 0
    assert_allclose(fit.covariance, np.linalg.inv(HESSIAN), rtol=1e-6)
    assert f"{fit.n_failed} of them failed" in str(fit)
    with pytest.raises(ValueError, match=r"failed at points next to the minimum.*the mesh is broken"):
        likelihood(fun, [0.90001, -2.0, 3.0], refine=False)


def test_it_takes_few_evaluations():
    d = 6
    fit = likelihood(lambda x: (x**2).sum(), np.zeros(d))
    assert fit.n_evaluations <= 3 * d * d + 10 * d + 5


# What is said


def test_the_table_and_the_notebook():
    fit = likelihood(parabola, CENTRE, names=["a", "b<", "c"])
    lines = str(fit).splitlines()
    assert lines[0] == "Negative log likelihood 7"
    assert lines[1].split() == ["estimate", "std.", "error", "95", "%", "interval"]
    assert lines[2].split() == ["a", "1.00", "0.52", "-0.03", "to", "2.03"]
    assert "b&lt;" in fit._repr_html_()
    assert "0.52" in fit._repr_html_()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "give one function"),
        (
            {"negative_log_likelihood": parabola, "sum_of_squares": parabola},
            "sum_of_squares and negative_log_likelihood",
        ),
        ({"fun": parabola}, "say what it is"),
        ({"sum_of_squares": parabola}, "needs n_data="),
        ({"sum_of_squares": parabola, "n_data": 3}, "3 data cannot give"),
        ({"sum_of_squares": lambda x: -1.0, "n_data": 9}, "cannot be negative"),
        ({"negative_log_likelihood": parabola, "n_data": 9}, "neither n_data nor variance"),
        ({"negative_log_likelihood": 3}, "must be callable"),
        ({"negative_log_likelihood": parabola, "names": ["a"]}, "names must be 3 strings"),
        ({"negative_log_likelihood": parabola, "bounds": [(0, 1)]}, "bounds are for 1 unknowns"),
        ({"negative_log_likelihood": parabola, "bounds": [(0, 1)] * 3}, r"x\[1\] is -2.0, outside its bounds"),
        ({"negative_log_likelihood": lambda x: np.nan}, "no finite value at the given point"),
        ({"residuals": parabola}, r"ps.fit\(residuals, space"),
    ],
)
def test_bad_input_is_explained(given, message):
    with pytest.raises((TypeError, ValueError), match=message):
        ps.uncertainty(CENTRE, **given)


def test_a_point_that_is_none_is_explained():
    with pytest.raises(ValueError, match=r"result.run\(i\)"):
        likelihood(parabola, np.zeros((4, 3)))
    with pytest.raises(TypeError, match="a point of shape"):
        likelihood(parabola, "x")


class TestSpaces:
    """The continuous variables of a space are fitted; the others keep the values of the result."""

    space: ClassVar = {
        "size": (0, 10), "rate": ps.Real(1e-3, 1e3, log=True), "order": ps.Integer(1, 3), "gain": 2.0,
    }  # fmt: skip
    time = np.linspace(0.0, 4.0, 30)
    data = 3 * np.exp(-0.7 * time) + 0.02 * np.sin(40 * time)

    def residuals(self, p):
        return self.data - p["gain"] / 2 * p["size"] * np.exp(-((p["rate"] * self.time) ** p["order"]))

    def test_the_errors_are_those_of_the_same_fit_without_a_space(self):
        result = ps.minimize(lambda p: float((self.residuals(p) ** 2).sum()), self.space, maxfev=1500, rng=1)
        assert result.best["order"] == 1
        given = {"sum_of_squares": lambda p: float((self.residuals(p) ** 2).sum()), "n_data": 30}
        named = ps.uncertainty(result, **given)
        plain = ps.uncertainty(
            [result.x[0], np.log(result.x[1])],
            sum_of_squares=lambda x: ((self.data - x[0] * np.exp(-(np.exp(x[1]) * self.time))) ** 2).sum(),
            n_data=30,
        )
        assert named.names == ("size", "rate")
        assert ps.uncertainty(result, names=["a", "b"], **given).names == ("a", "b")
        assert_allclose(named.standard_errors, plain.standard_errors * [1.0, named.x[1]], rtol=1e-4)
        assert_allclose(named.correlations, plain.correlations, rtol=1e-4)
        assert named.degrees_of_freedom == plain.degrees_of_freedom == 28

    def test_a_vectorized_function_gets_arrays_by_name(self):
        result = ps.minimize(lambda p: float((self.residuals(p) ** 2).sum()), self.space, maxfev=1500, rng=1)

        def rows(p):
            assert p["gain"] == 2.0
            points = [
                {**p, "size": size, "rate": rate, "order": 1} for size, rate in zip(p["size"], p["rate"], strict=True)
            ]
            return np.array([(self.residuals(point) ** 2).sum() for point in points])

        many = ps.uncertainty(result, sum_of_squares=rows, n_data=30, vectorized=True)
        one = ps.uncertainty(result, sum_of_squares=lambda p: float((self.residuals(p) ** 2).sum()), n_data=30)
        assert_allclose(many.standard_errors, one.standard_errors, rtol=1e-6)

    def test_without_a_continuous_variable_there_is_nothing_to_tell(self):
        result = ps.minimize(lambda p: float(p["n"] ** 2), {"n": ps.Integer(-3, 5)}, rng=1)
        with pytest.raises(ValueError, match="no variable of the space is continuous"):
            ps.uncertainty(result, sum_of_squares=lambda p: float(p["n"] ** 2), n_data=9)
