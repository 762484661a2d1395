"""Priors and penalties as residuals: differences of log densities, modes, and the most probable point."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from scipy.optimize import minimize_scalar

import paoswarm as ps
from paoswarm.evaluate.comparison import Belief, Beliefs
from paoswarm.run.read_input import read_space

LAWS = {
    "normal": (stats.norm(1.0, 0.3), 1.0),
    "log-normal": (stats.lognorm(0.5, scale=2.0), 2 * np.exp(-0.25)),
    "wide log-normal": (stats.lognorm(3.0), np.exp(-9.0)),
    "gamma": (stats.gamma(3.0, scale=0.5), 1.0),
    "beta": (stats.beta(2.0, 5.0, scale=3.0), 0.6),
    "Cauchy": (stats.cauchy(2.0, 1e-3), 2.0),
    "t": (stats.t(3, 1.5, 0.2), 1.5),
    "exponential": (stats.expon(scale=2.0), 0.0),
    "truncated normal": (stats.truncnorm(-1, 3, loc=1.0, scale=0.5), 1.0),
    "newer normal": (stats.Normal(mu=1.0, sigma=0.3), 1.0),
    "newer gamma": (stats.make_distribution(stats.gamma)(a=3.0), 2.0),
}


@pytest.mark.parametrize(("law", "mode"), LAWS.values(), ids=LAWS)
def test_residuals_are_differences_of_log_densities(law, mode):
    prior = Belief.of("x", law, 0.0, 1e5)
    at = np.array([0.5 * mode + 1e-3, mode + 1e-3, 0.55, 1.7, 2.5])
    squares = np.array([prior.residual(x) for x in at]) ** 2
    assert_allclose(squares, 2 * (law.logpdf(mode) - law.logpdf(at)), rtol=1e-6, atol=1e-8)
    assert [np.sign(prior.residual(x)) for x in at] == np.sign(at - mode).tolist()
    if not isinstance(law, stats.Normal) and getattr(getattr(law, "dist", None), "name", "") != "norm":
        assert_allclose(prior.mode, mode, rtol=1e-5, atol=1e-5)


def test_a_mode_outside_the_bounds_is_the_nearest_bound():
    law = stats.gamma(3.0, scale=0.5)
    prior = Belief.of("x", law, 2.0, 5.0)
    assert prior.mode == 2.0
    assert prior.residual(2.0) == 0
    assert_allclose(prior.residual(4.0) ** 2, 2 * (law.logpdf(2.0) - law.logpdf(4.0)))
    far = Belief.of("x", law, 100.0, 200.0)
    assert far.mode == 100.0


def test_the_higher_of_two_modes_is_found():
    class Mixture(stats.rv_continuous):
        def _pdf(self, x):
            return 0.5 * stats.norm(0.0, 1.0).pdf(x) + 0.5 * stats.norm(8.0, 0.1).pdf(x)

        def _ppf(self, q):
            grid = np.linspace(-8, 10, 20001)
            return np.interp(q, 0.5 * stats.norm(0.0, 1.0).cdf(grid) + 0.5 * stats.norm(8.0, 0.1).cdf(grid), grid)

    assert_allclose(Belief.of("x", Mixture()(), -10, 10).mode, 8.0, atol=1e-4)


def test_a_uniform_prior_changes_nothing_inside_and_forbids_what_is_outside():
    prior = Belief.of("x", stats.uniform(1.0, 2.0), 0.0, 10.0)
    assert [prior.residual(x) for x in (1.2, 2.9)] == [0, 0]
    assert abs(prior.residual(3.5)) == np.inf


def test_the_best_point_is_the_most_probable_one():
    rng = np.random.default_rng(1)
    data = 2.0 + rng.normal(size=5)
    law = stats.gamma(3.0, scale=0.5)
    for space in ({"x": (0.1, 10)}, {"x": ps.Real(0.1, 10, log=True)}):
        fit = ps.fit(lambda p: np.full(5, p["x"]), space, data, sigma=1.0, priors={"x": law}, rng=1)
        best = minimize_scalar(
            lambda x: ((x - data) ** 2).sum() / 2 - law.logpdf(x), bounds=(0.1, 10), method="bounded"
        )
        assert_allclose(fit.best["x"], best.x, rtol=1e-4)
        expected = ((best.x - data) ** 2).sum() + 2 * (law.logpdf(1.0) - law.logpdf(best.x))
        assert_allclose(fit.fun, expected, rtol=1e-6)
        assert_allclose(fit.chi_square, ((fit.best["x"] - data) ** 2).sum())  # of the data alone


def test_penalties_are_residuals():
    space = read_space({"x": (0, 1), "y": (0, 1), "n": 3})
    one = Beliefs.read(None, lambda p: p["x"] - p["y"], space)
    assert one.count == 1
    assert_allclose(one.residuals({"x": 0.7, "y": 0.2, "n": 3}), [0.5])
    both = Beliefs.read({"y": stats.norm(0.5, 0.1)}, lambda p: np.array([p["x"], 2.0]), space)
    assert both.count == 3
    assert_allclose(both.residuals({"x": 0.7, "y": 0.2, "n": 3}), [-3, 0.7, 2])
    assert Beliefs.read(None, None, space).count == 0
    assert_array_equal(
        pickle.loads(pickle.dumps(Beliefs.read({"y": stats.expon()}, None, space))).residuals({"y": 0.0}), [0]
    )


def test_priors_of_spaces_without_names_go_by_number():
    space = read_space([(0, 1), (0, 2)])
    one = Beliefs.read({1: stats.norm(1.0, 0.5)}, None, space)
    assert_allclose(one.residuals(np.array([0.3, 2.0])), [2])


@pytest.mark.parametrize(
    ("priors", "penalty", "error", "said"),
    [
        ({"z": stats.norm()}, None, ValueError, "no unknown 'z'"),
        ({"n": stats.norm()}, None, ValueError, "only numbers between two bounds can have a prior"),
        ({"x": 3.0}, None, TypeError, "prior of 'x' must be a frozen distribution"),
        ({"x": stats.norm}, None, TypeError, r"such as scipy\.stats\.norm\(0, 1\), got"),
        ({"x": stats.gamma}, None, TypeError, r"such as scipy\.stats\.gamma\(\.\.\.\), got"),
        ({"x": stats.poisson(3)}, None, TypeError, "prior of 'x' must be a frozen distribution"),
        ({"x": stats.uniform(5, 1)}, None, ValueError, "no finite density within its bounds"),
        ([stats.norm()], None, TypeError, "priors must be a dict"),
        (None, 3, TypeError, "penalty must be a function"),
        (None, lambda p: "a", TypeError, "penalty must return real numbers"),
        (None, lambda p: np.ones((2, 2)), TypeError, "penalty must return real numbers"),
    ],
)
def test_wrong_beliefs(priors, penalty, error, said):
    with pytest.raises(error, match=said):
        Beliefs.read(priors, penalty, read_space({"x": (0, 1), "n": ps.Integer(0, 3)}))


@pytest.mark.filterwarnings("ignore:the function returned NaN")
def test_nothing_is_simulated_where_a_belief_is_not_finite():
    seen = []

    def simulate(p):
        seen.append(p["x"])
        return [p["x"]] * 3

    data = [0.7, 0.8, 0.9]
    with pytest.raises(ValueError, match="the penalty is not finite"):
        ps.fit(simulate, {"x": (0, 1)}, data, penalty=lambda p: np.nan, rng=1)
    assert not seen
    fit = ps.fit(simulate, {"x": (0, 1)}, data, penalty=lambda p: 0.0 if p["x"] > 0.5 else np.nan, x0=[[0.1]], rng=1)
    assert fit.n_failed > 0
    assert min(seen) > 0.5
    assert len(seen) == fit.nfev - fit.n_failed
