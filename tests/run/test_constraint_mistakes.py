"""What is said about mistakes with constraints and with what functions return, and what results say without any."""

import copy
import pickle

import numpy as np
import pytest
from scipy.optimize import LinearConstraint

import paoswarm as ps
from paoswarm.run.polish import summary

BOX = [(-1.0, 1.0)] * 2
NAMED = {"rate": ps.Real(1e-3, 1, log=True), "offset": (-1, 1)}


def sphere(x):
    return float(x[0] ** 2 + x[1] ** 2)


def spheres(x):
    return (x**2).sum(axis=1)


def test_results_without_constraints_are_feasible():
    one = ps.minimize(sphere, BOX, maxfev=40, rng=1)
    many = ps.minimize_many(spheres, BOX, runs=3, maxfev=40, vectorized=True, rng=1)
    for result in (one, pickle.loads(pickle.dumps(one)), copy.deepcopy(one), many.run(1)):
        assert (result.feasible, result.maxcv, result.constr, result.constr_violation) == (True, 0.0, [], [])
        assert (result.n_infeasible, result.hardest) == (0, "")
    assert many.feasible.tolist() == [True] * 3
    assert many.maxcv.tolist() == [0.0] * 3
    assert many.constr == [[], [], []]
    assert "feasible" not in one  # it is no news, so it is not shown
    with pytest.raises(AttributeError, match="nonsense"):
        _ = one.nonsense


@pytest.mark.parametrize("constraints", [(), lambda x: x[0] + 2, lambda x: x[0] - 2])
def test_a_callback_sees_whether_the_best_point_is_feasible(constraints):
    seen = []
    ps.minimize(
        sphere, BOX, constraints=constraints, maxfev=60, rng=1, callback=lambda intermediate_result: seen.append(
            (intermediate_result.feasible, intermediate_result.maxcv > 0))
    )  # fmt: skip
    is_possible = constraints == () or constraints(np.zeros(2)) <= 0
    assert set(seen) == {(is_possible, not is_possible)}


@pytest.mark.parametrize(
    ("fun", "how"),
    [
        (sphere, {"constraints": lambda x: np.nan}),
        (spheres, {"constraints": lambda x: np.full(len(x), np.nan), "vectorized": True}),
        (lambda x: (0.0, [np.nan]), {"constraints": ps.Returned(1, name="stress")}),
    ],
)
def test_a_constraint_that_is_never_a_number_is_not_blamed_on_the_objective(fun, how):
    with pytest.raises(ValueError, match=r"^the constraints could not be evaluated at any of the first") as error:
        ps.minimize(fun, BOX, rng=1, **how)
    assert "returned NaN; a constraint must return a number" in str(error.value)
    with pytest.raises(ValueError, match=r"^the function gave no finite value"):  # the objective fails, so it is named
        ps.minimize(lambda x: np.nan, BOX, constraints=lambda x: -1.0, rng=1)


def test_exceptions_in_a_constraint_are_told():
    def raises(x):
        return 1 / 0 if x[0] > 0.5 else x[1]

    with pytest.warns(RuntimeWarning, match="a constraint raised an exception at .* points.*ZeroDivisionError"):
        result = ps.minimize(sphere, BOX, constraints=raises, maxfev=100, rng=1)
    assert result.failure_kinds["constraint failed"] > 1


def test_one_exception_is_one_point():
    calls = []

    def once(x):
        calls.append(x)
        return 1 / 0 if len(calls) == 5 else sphere(x)

    with pytest.warns(RuntimeWarning, match="the function raised an exception at 1 point, which counts as"):
        ps.minimize(once, BOX, maxfev=30, rng=1)


@pytest.mark.parametrize("vectorized", [False, True])
def test_a_constraint_that_wants_args_is_told_that_it_gets_none(vectorized):
    with pytest.raises(ValueError, match="args are passed to fun alone"):
        ps.minimize(sphere, BOX, args=(1,), constraints=lambda x, a: x[0] - a, vectorized=vectorized)


def test_functions_of_names_that_are_not_there_are_told_the_names():
    with pytest.raises(ValueError, match="KeyError: 'rat'; it receives a dict of values with the names rate, offset"):
        ps.minimize(lambda p: p["rate"], NAMED, constraints=lambda p: p["rat"])
    with pytest.raises(ValueError, match="KeyError: 'rat'; it receives a dict of values with the names rate, offset"):
        ps.minimize(lambda p: p["rat"], NAMED)
    with pytest.raises(ValueError, match=r"write lambda p: fun\(\*\*p\)"):
        ps.minimize(lambda rate, offset: rate, NAMED)


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ((1.0, [2.0]), "constraints=ps.Returned"),
        (None, "perhaps a return statement is missing"),
        (np.ones(3), r"write ps\.fit\(fun, bounds\)"),
    ],
)
@pytest.mark.parametrize("constraints", [(), lambda x: -1.0])
def test_answers_that_are_no_number_come_with_advice(answer, says, constraints):
    with pytest.raises(TypeError, match=says):
        ps.minimize(lambda x: answer, BOX, constraints=constraints, rng=1)


def test_a_tuple_from_a_vectorised_function_comes_with_advice():
    with pytest.raises(TypeError, match=r"constraints=ps\.Returned"):
        ps.minimize(lambda x: (x[:, 0], x[:, :1]), BOX, vectorized=True, rng=1)


def test_a_callback_that_expects_the_result_is_told_how_to_get_it():
    with pytest.raises(AttributeError) as error:
        ps.minimize(sphere, BOX, callback=lambda result: result.fun, maxfev=50, rng=1)
    assert "intermediate_result" in error.value.__notes__[0]

    def has_a_bug(intermediate_result):
        return intermediate_result.nonsense

    with pytest.raises(AttributeError) as error:
        ps.minimize(sphere, BOX, callback=has_a_bug, maxfev=50, rng=1)
    assert not any("Rename" in note for note in getattr(error.value, "__notes__", []))


def test_numbers_agree_with_their_nouns():
    with pytest.raises(TypeError, match="takes 1 point, one per row"):
        ps.minimize(spheres, BOX, vectorized=True, constraints=lambda x: np.zeros((3, 3)))
    with pytest.raises(TypeError, match="the 1 number of"):
        ps.minimize(sphere, BOX, constraints=ps.Returned(1), rng=1)


def test_linear_constraints_see_whole_and_fixed_numbers():
    def fun(p):
        raise AssertionError("it must not be called")

    between = LinearConstraint([[1, 0]], 0.2, 0.8)
    with pytest.raises(ValueError, match="holds nowhere in the bounds"):
        ps.minimize(fun, {"n": ps.Integer(0, 3), "b": (0, 1)}, constraints=between)
    with pytest.raises(ValueError, match="holds nowhere in the bounds"):
        ps.minimize(fun, {"a": (-1, 1), "b": 1.0}, constraints=LinearConstraint([[1, 1]], 3, 4))
    with pytest.raises(ValueError, match="needs numbers, but b is fixed at 'text'"):
        ps.minimize(fun, {"a": (-1, 1), "b": "text"}, constraints=LinearConstraint([[1, 1]], 0, 1))
    possible = LinearConstraint([[1, 1]], 0.2, 0.8)
    assert ps.Optimizer({"n": ps.Integer(0, 3), "b": (0, 1)}, constraints=possible).ask()  # n = 0 and any b between


def test_in_ask_and_tell_a_constraint_that_fails_makes_the_point_fail():
    def fails(x):
        if x[0] > 0.5:
            raise ArithmeticError
        return np.nan if x[0] < -0.5 else -1.0

    optimizer = ps.Optimizer(BOX, constraints=fails, method="PAO", n_particles=30, rng=1)
    x = optimizer.ask()
    optimizer.tell(spheres(x) - 10 * np.abs(x[:, 0]))  # best where the constraint fails
    assert optimizer.result.n_failed == (np.abs(x[:, 0]) > 0.5).sum()
    assert abs(optimizer.result.x[0]) <= 0.5
    optimizer.ask()
    with pytest.raises(ValueError, match=r"constr of shape \(30, 1\), a row for each point, got \(2, 2\)"):
        optimizer.tell(np.zeros(30), constr=np.zeros((2, 2)))


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        (2.0, 1.5, "from 2 to 1.5."),
        (1.0, 1.0, "which found no better point."),
        (1.0, 1.0 - 3e-9, "which lowered 1 by 3e-09."),
        (np.nan, 1.5, "from an infeasible point to 1.5."),
        (np.nan, np.nan, "which found no feasible point."),
    ],
)
def test_polishing_says_what_it_has_changed(before, after, says):
    assert summary(7, before, after) == f"Polished with 7 evaluations, {says}"
    assert summary(1, before, after).startswith("Polished with 1 evaluation,")


def test_a_polished_run_without_a_feasible_point_says_so():
    result = ps.minimize(sphere, BOX, constraints=lambda x: x[0] ** 2 + 1, maxfev=300, polish=True, rng=1)
    assert not result.feasible
    assert result.message.endswith("which found no feasible point.")


def test_the_limit_in_a_message_is_the_one_given():
    result = ps.minimize(lambda x: np.sin(30 * x).sum() + sphere(x), BOX, maxfev=700, polish=True, rng=1)
    assert result.message.startswith("Stopped at maxfev=700, of which 150 are for polishing")
    late = ps.minimize(lambda x: np.sin(30 * x).sum(), BOX, time_limit=0.5, tol=0, polish=True, method="PAO", rng=1)
    assert late.message.startswith("Stopped at time_limit=0.5 s, of which 0.05 s are for polishing")
