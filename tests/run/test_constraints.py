"""Constraints from the user's form to the result."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import LinearConstraint, NonlinearConstraint

import paoswarm as ps

BOX = [(-2.0, 2.0)] * 2
BEST = -np.sqrt(2)  # of the sum in the unit disc
METHODS = [
    ps.PAO(),
    ps.classic.PSO(),
    ps.classic.DE(),
    ps.classic.SADE(),
    ps.DensePAO(),
    ps.ElementPAO(),
    ps.AdaptivePAO(),
]


def total(x):
    return float(x[0] + x[1])


def radius(x):
    return x[0] ** 2 + x[1] ** 2


def outside(x):
    return radius(x) - 1


def both(x):
    return total(x), [radius(x)]


class Calls:
    """A function that notes where it was called."""

    def __init__(self, fun):
        self.fun, self.points = fun, []

    def __call__(self, x):
        self.points.append(np.array(x))
        return self.fun(x)


IN_DISC = [
    outside,
    lambda x: radius(x) <= 1,
    NonlinearConstraint(radius, -np.inf, 1),
    ps.Constraint(radius, ub=1),
    {"type": "ineq", "fun": lambda x, limit: limit - radius(x), "args": (1.0,)},
]


@pytest.mark.parametrize("constraint", IN_DISC)
def test_every_form_of_a_constraint_means_the_same(constraint):
    how = {"n_particles": 10, "maxiter": 20, "method": "PAO", "rng": 1}
    expected = ps.minimize(total, BOX, constraints=outside, **how)
    result = ps.minimize(total, BOX, constraints=constraint, **how)
    assert result.feasible
    assert radius(result.x) <= 1
    if constraint is not IN_DISC[1]:  # true or false has no size
        assert_allclose(result.x, expected.x, rtol=1e-12)


@pytest.mark.parametrize("method", METHODS, ids=lambda method: type(method).__name__)
def test_the_objective_is_not_called_where_a_constraint_fails_and_the_result_is_feasible(method):
    fun = Calls(total)
    result = ps.minimize(fun, BOX, constraints=outside, method=method, maxfev=600, rng=1)
    assert result.feasible
    assert outside(result.x) <= 0
    assert result.maxcv == 0
    assert result.fun == total(result.x) == min(map(total, fun.points))
    assert all(outside(x) <= 0 for x in fun.points)
    assert len(fun.points) == result.nfev - result.n_infeasible < result.nfev
    assert_allclose(result.fun, BEST, atol=0.05)


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("vectorized", [False, True])
def test_constraints_that_the_objective_returns(asynchronous, vectorized):
    def many(x):
        return x.sum(axis=1), (x**2).sum(axis=1, keepdims=True)

    fun = Calls(many if vectorized else both)
    limit = ps.Returned(1, ub=1.0, name="radius")
    how = {
        "vectorized": vectorized,
        "workers": ps.Workers(asynchronous=asynchronous),
        "n_particles": 10,
        "maxfev": 400,
        "method": "PAO",
    }
    result = ps.minimize(fun, BOX, constraints=limit, rng=1, **how)
    assert sum(map(len, fun.points)) == (400 if vectorized else 800)
    assert result.feasible
    assert_allclose(result.constr[0], radius(result.x))
    assert result.constr[0] <= 1
    assert result.hardest == "radius"
    assert_allclose(result.fun, BEST, atol=0.1)


def test_an_inactive_constraint_does_not_change_where_the_minimum_is():
    result = ps.minimize(radius, BOX, constraints=outside, method=ps.AdaptivePAO(), maxfev=2000, rng=1)
    assert result.fun < 1e-9
    assert result.success


def test_without_constraints_nothing_changes():
    how = {"n_particles": 10, "maxiter": 15, "rng": 1, "method": "PAO"}
    plain = ps.minimize(total, BOX, **how)
    for nothing in ((), None, []):
        result = ps.minimize(total, BOX, constraints=nothing, **how)
        assert_array_equal(result.x, plain.x)
        assert "feasible" not in result
    assert len(plain.history.violation) == 0
    always = ps.minimize(total, BOX, constraints=lambda x: -1.0, **how)
    assert_array_equal(always.x, plain.x)  # one that always holds leads to the same points
    assert_array_equal(always.history.best, plain.history.best)


@pytest.mark.filterwarnings("ignore:the function was busy")  # on a machine with other work, sending takes long
@pytest.mark.parametrize("workers", [1, 2])
def test_smooth_problems_are_solved_to_many_digits_by_local_searches(workers):
    result = ps.minimize(both, BOX, constraints=ps.Returned(1, ub=1.0), method=ps.AdaptivePAO(), workers=workers, rng=1)
    assert result.success
    assert result.agreement.is_settled
    assert abs(result.fun - BEST) < 1e-8
    assert result.constr[0] <= 1
    assert result.nfev < 1000
    alone = ps.AdaptivePAO(local=False)  # the control: the swarm alone needs more for less
    swarm = ps.minimize(both, BOX, constraints=ps.Returned(1, ub=1.0), method=alone, maxfev=result.nfev, rng=1)
    assert swarm.fun - BEST > result.fun - BEST


@pytest.mark.slow  # ten thousand evaluations
def test_searches_that_return_to_a_kink_where_one_got_stuck_do_not_end_the_run():
    centre, weights = np.array([0.3, -0.7, 0.1, 0.9, -0.2]), 10.0 ** np.linspace(0, 2, 5)
    turn = np.linalg.qr(np.random.default_rng(3).normal(size=(5, 5)))[0]

    def kinked(x):
        return weights @ np.abs(turn @ (x - centre))

    result = ps.minimize(kinked, [(-5, 5)] * 5, constraints=lambda x: np.sum(x - centre), maxfev=10_000, rng=1)
    assert 0 <= result.fun < 1e-8


def test_equalities_hold_within_their_tolerance():
    def product(x):
        return -float(np.prod(x))

    line = LinearConstraint([[1.0, 2.0, 3.0]], 6.0, 6.0)
    result = ps.minimize(product, [(0, 6)] * 3, constraints=line, method=ps.AdaptivePAO(), maxfev=3000, rng=1)
    assert result.feasible
    assert result.maxcv <= 1e-4
    assert_allclose(result.fun, -8 / 6, rtol=1e-3)  # x = (2, 1, 2 / 3)
    strict = ps.Constraint(lambda x: x[0] + 2 * x[1] + 3 * x[2], 6.0, 6.0, tol=1e-7)
    result = ps.minimize(product, [(0, 6)] * 3, constraints=strict, method=ps.AdaptivePAO(), maxfev=3000, rng=1)
    assert result.maxcv <= 1e-7


def test_a_run_without_a_feasible_point_says_so_and_shows_the_least_violating_one():
    impossible = [outside, ps.Constraint(lambda x: 1 + x[0] ** 2, ub=0.5, name="never")]
    result = ps.minimize(total, BOX, constraints=impossible, n_particles=20, maxiter=60, rng=1)
    assert not result.feasible
    assert not result.success
    assert "No feasible point was found: at the best one, never is violated by 0.5" in result.message
    assert np.isnan(result.fun)
    assert_allclose(result.x[0], 0.0, atol=0.1)
    assert_allclose(result.maxcv, 0.5, atol=0.01)
    assert (result.history.best == np.inf).all()
    assert result.history.violation[-1] > 0


def test_a_constraint_that_raises_or_is_nan_counts_as_failed():
    def picky(x):
        if x[0] > 1:
            raise ArithmeticError("too far")
        return np.nan if x[1] > 1 else outside(x)

    fun = Calls(total)
    with pytest.warns(RuntimeWarning, match="a constraint raised an exception at .* ArithmeticError: too far"):
        result = ps.minimize(fun, BOX, constraints=picky, n_particles=20, maxiter=20, rng=1)
    assert result.failure_kinds["constraint failed"] == result.n_failed > 0
    assert {reason.split(": ")[1] for _, reason in result.failures} <= {
        "the constraint raised ArithmeticError",
        "the constraint returned NaN",
    }
    assert all(max(x) <= 1 for x in fun.points)


def test_constraints_see_values_by_name():
    seen = []

    def limit(x):
        seen.append(x)
        return x["load"] * (2 if x["kind"] == "b" else 1) - 6

    space = {"load": ps.Real(1, 100, log=True), "kind": ps.Choice(["a", "b"]), "n": ps.Integer(1, 5)}
    result = ps.minimize(lambda x: -x["load"] - x["n"], space, constraints=limit, maxfev=2000, n_particles=30, rng=1)
    assert set(seen[0]) == {"load", "kind", "n"}
    assert result.feasible
    assert result.best["kind"] == "a"
    assert_allclose(result.fun, -11, atol=1e-3)


@pytest.mark.parametrize(
    ("constraints", "error", "says"),
    [
        (3, TypeError, "constraints must be"),
        ([outside, "x < 1"], TypeError, "got 'x < 1'"),
        (ps.Constraint(outside, lb=1, ub=0), ValueError, "no number is between lb=1 and ub=0"),
        (ps.Constraint(outside, tol=-1), ValueError, "tol must be"),
        (ps.Constraint(outside, lb=np.nan), ValueError, "not NaN"),
        (NonlinearConstraint(lambda x: x, [0, 0, 0], 1), TypeError, "must return 3 numbers"),
        (LinearConstraint([[1, 1, 1]], 0, 1), ValueError, "needs 2 columns"),
        (LinearConstraint([[1, 1]], 5, 6), ValueError, "the constraint holds nowhere in the bounds"),
        (
            [LinearConstraint([[1, 1]], 1, 2), outside, LinearConstraint([[1, 0], [1, 1]], [-1, -2], [1, 0])],
            ValueError,
            r"contradict each other in the bounds: constraints\[0\], row 1 of constraints\[2\]",
        ),
        (lambda x: "no", TypeError, "must return real numbers"),
        (lambda x: 1 / 0, ValueError, "raised an exception at 3 points"),
        ({"type": "le", "fun": outside}, ValueError, "needs 'type'"),
        ([ps.Returned(1), ps.Returned(2)], ValueError, "more than one ps.Returned"),
        (ps.Returned(0), ValueError, "whole number"),
        (ps.Returned(3, ub=[1, 2]), ValueError, "needs 3 limits"),
    ],
)
def test_wrong_constraints_are_errors_before_the_first_evaluation(constraints, error, says):
    fun = Calls(total)
    with pytest.raises(error, match=says):
        ps.minimize(fun, BOX, constraints=constraints, maxfev=100)
    assert not fun.points


@pytest.mark.parametrize("answer", [1.0, (1.0, [1.0, 2.0, 3.0]), (1.0,), [1.0, None]])
def test_an_objective_that_returns_other_constraints_than_it_should_is_an_error(answer):
    with pytest.raises(TypeError, match=r"fun must return \(value, numbers\)"):
        ps.minimize(lambda x: answer, BOX, constraints=ps.Returned(2), maxfev=100)


@pytest.mark.parametrize(
    ("fun", "how"),
    [
        (total, {"method": ps.AdaptivePAO()}),
        (both, {"method": ps.AdaptivePAO()}),
        (both, {"n_particles": 10, "polish": True}),
        (total, {"n_particles": 10, "workers": ps.Workers(asynchronous=True)}),
        (both, {"n_particles": 10, "reevaluate": 0.2}),
    ],
    ids=[
        "local searches",
        "local searches, returned",
        "polished, returned",
        "asynchronous",
        "measured again, returned",
    ],
)
def test_a_resumed_run_is_the_same_as_one_that_never_stopped(fun, how, tmp_path):
    constraints = outside if fun is total else ps.Returned(1, ub=1.0)
    whole = ps.minimize(fun, BOX, constraints=constraints, maxfev=300, rng=1, **how)
    file = tmp_path / "run"
    ps.minimize(fun, BOX, constraints=constraints, maxfev=130, rng=1, store=file, **how)
    counted = Calls(fun)
    resumed = ps.resume(ps.Store(file, trust=True), counted, maxfev=300, constraints=constraints)
    assert resumed.fun == whole.fun
    assert_array_equal(resumed.x, whole.x)
    assert_array_equal(resumed.constr[0], whole.constr[0])
    assert resumed.nfev == whole.nfev
    assert 0 < len(counted.points) <= 200
    x, f = ps.Store(file).read()
    numbers = ps.Store(file).constraints()
    assert_allclose(numbers[:, 0], [radius(row) - (fun is total) for row in x])
    assert np.isinf(f).sum() == (resumed.n_infeasible if fun is total else 0)


def test_a_store_with_other_constraints_is_refused(tmp_path):
    ps.minimize(total, BOX, constraints=outside, n_particles=10, maxfev=50, rng=1, store=tmp_path / "run")
    for other in (ps.Constraint(outside, ub=1.0), (), [outside, outside]):
        with pytest.raises(ps.errors.OtherRun, match="constraints"):
            ps.minimize(total, BOX, constraints=other, n_particles=10, maxfev=50, rng=1, store=tmp_path / "run")
    with pytest.raises(TypeError, match="pass them again"):
        ps.resume(tmp_path / "run", total)


@pytest.mark.parametrize("method", [ps.PAO(), ps.AdaptivePAO()], ids=["PAO", "AdaptivePAO"])
def test_many_runs_with_constraints_are_those_of_minimize(method):
    how = {"constraints": outside, "maxfev": 200, "method": method}
    many = ps.minimize_many(total, BOX, runs=3, rng=1, **how)
    assert many.feasible.all()
    for r in range(3):
        alone = ps.minimize(total, BOX, rng=many.seeds[r], **how)
        assert alone.fun == many.fun[r]
        assert_array_equal(alone.constr[0], many.run(r).constr[0])


def test_ask_and_tell_with_constraints():
    seen = ps.Optimizer(BOX, constraints=outside, n_particles=10, rng=1)
    told = ps.Optimizer(BOX, constraints=ps.Returned(1), n_particles=10, rng=1)
    for _ in range(20):
        x = seen.ask()
        assert_array_equal(told.ask(), x)
        seen.tell(x.sum(axis=1))
        told.tell(x.sum(axis=1), [[outside(row)] for row in x])
    assert seen.result.fun == told.result.fun == total(seen.result.x)
    assert seen.result.feasible
    told.ask()
    with pytest.raises(ValueError, match=r"constr of shape \(10, 1\)"):
        told.tell(np.zeros(10))


def test_a_run_with_constraints_can_be_continued():
    first = ps.minimize(total, BOX, constraints=outside, n_particles=20, maxiter=10, method="PAO", rng=1)
    more = ps.minimize(total, BOX, constraints=outside, init=first, maxiter=30, rng=2)
    assert more.feasible
    assert BEST <= more.fun < first.fun
    with pytest.raises(ValueError, match="result of a run with the same constraints"):
        ps.minimize(total, BOX, constraints=outside, init=first.swarm, maxiter=30, rng=2)
    with pytest.raises(ValueError, match="values of x0 do not go with constraints"):
        ps.minimize(total, BOX, constraints=outside, x0=([[0, 0]], [0]), maxiter=3)


def test_tables_of_evaluations_show_the_violations(tmp_path):
    how = {"n_particles": 10, "maxfev": 60, "method": "PAO", "rng": 1}
    result = ps.minimize(both, BOX, constraints=ps.Returned(1, ub=1.0), store=tmp_path / "run", **how)
    for table in (result.to_dataframe(), ps.Store(tmp_path / "run").to_dataframe()):
        assert len(table) == result.nfev
        x = table[["x0", "x1"]].to_numpy()
        assert_allclose(table["violation"], np.maximum((x**2).sum(axis=1) - 1, 0))
        assert table["value"][table["violation"] == 0].min() == result.fun
    progress = ps.results.Progress(tmp_path / "run").update()
    assert progress.best == result.fun  # although infeasible points have smaller values
    assert table["value"].min() < result.fun


def test_noisy_values_do_not_hide_constraints():
    rng = np.random.default_rng(1)

    def noisy(x):
        return total(x) + 0.1 * rng.normal()

    result = ps.minimize(noisy, BOX, constraints=outside, reevaluate=0.2, n_particles=20, maxfev=3000, rng=1)
    assert result.feasible
    assert outside(result.x) <= 0
    assert 0 < result.fun_error < 0.1
    assert_allclose(total(result.x), BEST, atol=0.1)


@pytest.mark.parametrize("tol", [1e-4, 1e-10])
def test_an_equality_is_met_within_its_tolerance_whether_it_is_a_function_or_returned(tol):
    """The objective is called where only an equality fails; otherwise a thin shell would hide its slope."""
    circle = ps.Constraint(radius, 1, 1, tol=tol)
    for fun, constraint in ((total, circle), (both, ps.Returned(1, 1, 1, tol=tol))):
        result = ps.minimize(fun, BOX, constraints=constraint, maxfev=2000, rng=1)
        assert result.success
        assert result.maxcv <= tol
        assert_allclose(result.fun, BEST, atol=2 * tol + 1e-12)
    fun = Calls(total)
    ps.minimize(fun, BOX, constraints=[circle, lambda x: x[0] - x[1]], maxfev=300, rng=1)
    assert all(x[0] <= x[1] for x in fun.points)
    assert any(abs(radius(x) - 1) > tol for x in fun.points)


def test_a_polished_point_is_not_confirmed_by_that():
    def rastrigin(x):
        return float((x**2 - 10 * np.cos(2 * np.pi * x) + 10).sum())

    result = ps.minimize(rastrigin, [(-5, 6)] * 5, maxfev=600, polish=True, rng=1)
    assert result.fun > 1
    assert not result.success
    one_swarm = ps.minimize(rastrigin, [(-5, 6)] * 5, method="PAO", maxfev=600, polish=True, rng=1)
    assert one_swarm.success  # it claims a local minimum only


def test_wrong_forms_are_told_as_they_are():
    with pytest.raises(TypeError, match=r"the constraint takes 5 points, .* but returned .* \(float\)"):
        ps.minimize(lambda x: x.sum(1), BOX, constraints=lambda x: float((x**2).sum()), vectorized=True, rng=1)
    with pytest.raises(TypeError, match=r"returned \(1.0, \[1.0\]\) \(tuple\)"):
        ps.minimize(lambda x: (1.0, [1.0]), BOX, constraints=ps.Returned(2))
    space = {"a": (-2, 2), "kind": ps.Choice(["u", "v"])}
    with pytest.raises(ValueError, match="kind is a Choice; write the constraint as a function"):
        ps.minimize(lambda p: p["a"], space, constraints=LinearConstraint([[1, 1]], 1, 1))


def test_many_runs_say_how_many_are_feasible():
    many = ps.minimize_many(total, BOX, constraints=lambda x: x[0] ** 2 + 1, runs=2, maxfev=60, rng=1)
    assert "0 of 2 runs found a feasible point" in str(many)


def test_errors_of_a_constrained_fit_come_with_a_warning():
    result = ps.minimize(lambda x: float(((x - 1) ** 2).sum()), BOX, constraints=outside, maxfev=500, rng=1)
    fit = ps.uncertainty(result, negative_log_likelihood=lambda x: 20 * float(((x - 1) ** 2).sum()))
    assert_array_equal(fit.x, result.x)  # not the minimum outside
    assert any("constraints" in text for text in fit.warnings)


def test_a_store_of_another_space_names_the_variable(tmp_path):
    space = {"a": (-2, 2), "order": ps.Integer(1, 8), "gain": 3.0}
    file = tmp_path / "run.paoswarm"
    ps.minimize(lambda p: p["a"] + p["order"], space, maxfev=60, rng=1, store=file)
    for name, other in {"gain": 4.0, "order": ps.Integer(1, 9)}.items():
        with pytest.raises(ps.errors.OtherRun, match=f"bounds.{name}"):
            ps.minimize(lambda p: p["a"] + p["order"], space | {name: other}, maxfev=60, rng=1, store=file)
    renamed = {"b": (-2, 2), "order": ps.Integer(1, 8), "gain": 3.0}
    with pytest.raises(
        ps.errors.OtherRun, match=r"bounds = {a, order, gain}, but this one has bounds = {b, order, gain}"
    ):
        ps.minimize(lambda p: p["b"] + p["order"], renamed, maxfev=60, rng=1, store=file)
    limit = ps.Constraint(lambda p: p["a"], name="limit")
    with pytest.raises(ps.errors.OtherRun, match=r"constraints = None, but this one has constraints = \[limit\]"):
        ps.minimize(lambda p: p["a"] + p["order"], space, maxfev=60, rng=1, store=file, constraints=limit)
