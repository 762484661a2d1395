"""Fits whose unknowns must satisfy inequalities: against exact solutions, and no forbidden point is ever simulated."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import LinearConstraint, minimize

import paoswarm as ps

T = np.linspace(0.5, 6.0, 12)
SPACE = {"a": (0, 100), "k": ps.Real(0.01, 10, log=True), "c": (-5, 5)}
DATA = 10 * np.exp(-0.7 * T) + 2 + 0.1 * np.random.default_rng(0).standard_normal(12)


def decay(p):
    return p["a"] * np.exp(-p["k"] * T) + p["c"]


def least_squares_of(model, data, start, room):
    """The constrained least squares to many digits."""
    found = minimize(
        lambda x: ((model(x) - data) ** 2).sum(), start, constraints={"type": "ineq", "fun": room}, tol=1e-14
    )
    return found.x, found.fun


def only_where(allowed, model):
    def simulate(p):
        assert allowed(p), f"a forbidden point was simulated: {p}"
        return model(p)

    return simulate


@pytest.mark.parametrize("seed", range(4))
def test_the_best_allowed_point_is_found_on_the_edge_without_simulating_a_forbidden_one(seed):
    def beyond(p):
        return p["a"] + p["c"] - 11.5

    fit = ps.fit(only_where(lambda p: beyond(p) <= 0, decay), SPACE, DATA, constraints=beyond, rng=seed)
    x, value = least_squares_of(
        lambda x: x[0] * np.exp(-x[1] * T) + x[2], DATA, [9, 0.7, 2], lambda x: 11.5 - x[0] - x[2]
    )
    assert fit.success
    assert fit.feasible
    assert_allclose(fit.x, x, rtol=1e-4)
    assert fit.fun == pytest.approx(value, rel=1e-4)
    assert fit.constr[0] == pytest.approx(0, abs=1e-4)
    assert fit.nfev < 100
    assert any("the constraint holds with equality" in text.lower() for text in fit.remarks)


def test_a_constraint_that_does_not_bind_changes_no_result():
    free, limited = (
        ps.fit(decay, SPACE, DATA, rng=1),
        ps.fit(decay, SPACE, DATA, constraints=lambda p: p["c"] - 4, rng=1),
    )
    assert_allclose(limited.x, free.x, rtol=1e-5)
    assert_allclose(limited.standard_errors, free.standard_errors, rtol=1e-4)
    assert limited.remarks == free.remarks


@pytest.mark.parametrize("sigma", [None, 0.1])
def test_errors_along_an_edge_are_those_of_restricted_least_squares(sigma):
    """Linear model and constraint a'x <= b: C - C a (a'C a)^-1 a'C, with one unknown less."""
    rng = np.random.default_rng(3)
    design, normal = rng.normal(size=(20, 3)), np.array([1.0, -2.0, 0.5])
    data = design @ [1.0, 2.0, -1.0] + 0.1 * rng.normal(size=20)
    limit = -5.0  # normal @ truth is -3.5
    fit = ps.fit(
        lambda x: design @ x,
        [(-10, 10)] * 3,
        data,
        sigma=sigma,
        constraints=LinearConstraint(normal, -np.inf, limit),
        rng=1,
    )
    free = np.linalg.inv(design.T @ design)
    along = free @ normal
    best = free @ design.T @ data
    best -= along * (normal @ best - limit) / (normal @ along)
    left = 20 - 2
    variance = ((design @ best - data) ** 2).sum() / left if sigma is None else sigma**2
    assert_allclose(fit.x, best, atol=1e-4)
    assert fit.degrees_of_freedom == left
    assert_allclose(fit.covariance, variance * (free - np.outer(along, along) / (normal @ along)), rtol=1e-3, atol=1e-7)


@pytest.mark.parametrize("side", [1, -1])
def test_a_curved_edge_is_followed_on_either_side(side):
    """Inside of a disc, and outside of it."""
    centre, data = np.array([0.2, -0.3]), np.array([1.5, 1.0]) if side > 0 else np.array([0.6, 0.1])

    def beyond(x):
        return side * (((x - centre) ** 2).sum() - 1.0)

    fit = ps.fit(
        only_where(lambda x: beyond(x) <= 0, lambda x: x), [(-3, 3)] * 2, data, sigma=1.0, constraints=beyond, rng=1
    )
    exact = centre + (data - centre) / np.linalg.norm(data - centre)
    assert_allclose(fit.x, exact, atol=2e-3)
    assert fit.fun == pytest.approx(((exact - data) ** 2).sum(), rel=1e-3)


def test_a_way_into_a_narrow_region_is_found():
    """A millionth of the space is allowed."""
    fit = ps.fit(
        only_where(lambda p: abs(p["a"] - 2 * p["c"] - 0.5) <= 1e-3 and abs(p["k"] - 0.7) <= 1e-3, decay),
        SPACE,
        DATA,
        constraints=[
            ps.Constraint(lambda p: p["a"] - 2 * p["c"], lb=0.4995, ub=0.5005),
            ps.Constraint(lambda p: p["k"], lb=0.6995, ub=0.7005),
        ],
        rng=2,
    )
    assert fit.feasible
    assert fit.best["a"] == pytest.approx(2 * fit.best["c"] + 0.5, abs=1e-3)


def test_a_condition_that_is_true_or_false_is_kept():
    def allowed(p):
        return p["a"] + p["c"] <= 11.5

    fit = ps.fit(only_where(allowed, decay), SPACE, DATA, constraints=allowed, maxfev=300, rng=1)
    assert allowed(fit.best)
    assert fit.fun < 0.2  # 0.0948 at the edge


def test_choices_without_an_allowed_point_are_not_searched():
    space = {"k": (0.01, 5), "kind": ps.Choice(["first", "second", "third"])}
    kinds = set()

    def simulate(p):
        kinds.add(p["kind"])
        return np.exp(-p["k"] * T) if p["kind"] == "third" else 1 / (1 + p["k"] * T)

    data = 1 / (1 + 0.5 * T)
    fit = ps.fit(simulate, space, data, constraints=lambda p: p["kind"] != "first", rng=1)
    assert kinds == {"second", "third"}
    assert fit.best == {"k": pytest.approx(0.5, rel=1e-4), "kind": "second"}


def test_stores_know_constraints(tmp_path):
    def beyond(p):
        return p["a"] + p["c"] - 11.5

    def further(p):
        return p["a"] + p["c"] - 11.6

    file = tmp_path / "fit.paoswarm"
    whole = ps.fit(decay, SPACE, DATA, constraints=beyond, rng=1)
    ps.fit(decay, SPACE, DATA, constraints=beyond, rng=1, maxfev=12, store=file)
    with pytest.raises(TypeError, match="constraints are not stored; pass them again"):
        ps.resume(file, decay)
    with pytest.raises(ps.errors.OtherRun):
        ps.resume(file, decay, constraints=[beyond, further])
    assert_allclose(ps.resume(file, decay, constraints=beyond, maxfev=3000).x, whole.x, rtol=0)


@pytest.mark.parametrize(
    ("constraints", "kind", "said"),
    [
        (lambda p: p["a"] + 1, ValueError, "no point of the space was found"),
        (ps.Constraint(lambda p: p["a"], lb=3, ub=3, name="mass"), ValueError, "mass is an equality.*penalty="),
        (ps.Returned(1), ValueError, "ps.Returned is for minimize.*penalty="),
        (5, TypeError, "constraints must be"),
    ],
)
def test_mistakes_are_errors_before_anything_is_simulated(constraints, kind, said):
    with pytest.raises(kind, match=said):
        ps.fit(lambda p: pytest.fail("it was simulated"), SPACE, DATA, constraints=constraints)


def test_a_start_that_is_not_allowed_is_an_error():
    with pytest.raises(ValueError, match="x0 violates the constraints"):
        ps.fit(decay, SPACE, DATA, constraints=lambda p: p["a"] - 5, x0={"a": 6, "k": 1, "c": 0})
