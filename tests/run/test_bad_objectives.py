import os
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from objectives import CENTRE, Recording, assert_same_run, sphere

import paoswarm as ps

BOX = [(-4, 5), (-6, 3)]
CORNER = np.array([0.5, -2.5])  # everything above it fails: a quarter of the box, with the optimum inside


def inside(x):
    return np.all(x > CORNER, axis=-1)


def run(fun, **changes):
    return ps.minimize(fun, BOX, method=ps.PAO(), **({"n_particles": 20, "maxiter": 25, "rng": 1} | changes))


# Answers of the wrong form


@pytest.mark.parametrize(
    ("answer", "shown"),
    [
        (None, r"None \(NoneType\)"),
        ("low", r"'low' \(str\)"),
        (1j, r"1j \(complex\)"),
        (np.complex128(1), r"\(complex128\)"),
        (np.array([1.0, 2.0]), r"an array of shape \(2,\) and type float64"),
        ([1.0, 2.0], r"\[1.0, 2.0\] \(list\)"),
        (np.array([]), r"an array of shape \(0,\) and type float64"),
        ({"loss": 1.0}, r"\{'loss': 1.0\} \(dict\)"),
        ((1.0, "aux"), r"\(1.0, 'aux'\) \(tuple\)"),
        (lambda: 1.0, r"\(function\)"),
    ],
)
@pytest.mark.parametrize("workers", [1, map])
def test_an_answer_that_is_no_number_stops_the_run_at_the_first_call(answer, shown, workers):
    calls = []

    def fun(x):
        calls.append(x)
        return answer

    with pytest.raises(
        TypeError, match=rf"fun must return one real number for a point, but returned .*{shown}.*; at x"
    ):
        run(fun, workers=workers)
    assert len(calls) == 1


@pytest.mark.parametrize("kind", [float, int, np.float32, np.float64, np.int16, np.array, bool])
def test_every_form_of_one_real_number_is_accepted(kind):
    expected = run(lambda x: float(kind(sphere(x))), maxiter=3)
    assert_same_run(run(lambda x: kind(sphere(x)), maxiter=3), expected)
    assert_same_run(run(lambda x: np.array([[kind(sphere(x))]]), maxiter=3), expected)


@pytest.mark.parametrize("kind", [list, tuple, np.float32, lambda v: v.astype(int)])
def test_every_form_of_many_real_numbers_is_accepted(kind):
    expected = run(lambda x: np.asarray(kind(sphere(x)), dtype=float), vectorized=True, maxiter=3)
    assert_same_run(run(lambda x: kind(sphere(x)), vectorized=True, maxiter=3), expected)


@pytest.mark.parametrize("kind", [lambda v: 2**70 + int(2**70 * v), lambda v: -int(2**70 * v), Fraction])
@pytest.mark.parametrize("workers", [1, map])
def test_numbers_that_only_python_can_hold_are_accepted(kind, workers):
    expected = run(lambda x: float(kind(float(sphere(x)))), maxiter=3)
    assert_same_run(run(lambda x: kind(float(sphere(x))), maxiter=3, workers=workers), expected)
    assert_same_run(run(lambda x: [kind(float(v)) for v in sphere(x)], vectorized=True, maxiter=3), expected)


@pytest.mark.parametrize(
    "answer",
    [
        lambda x: None,
        lambda x: sphere(x)[:-1],
        lambda x: np.append(sphere(x), 1.0),
        lambda x: sphere(x)[:, None],
        lambda x: sphere(x) + 0j,
        lambda x: ["a"] * len(x),
        lambda x: x,
    ],
    ids=["None", "one short", "one too many", "column", "complex", "strings", "points"],
)
def test_vectorised_answers_of_the_wrong_form_stop_the_run_at_the_first_call(answer):
    calls = []

    def fun(x):
        calls.append(x)
        return answer(x)

    with pytest.raises(TypeError, match=r"points of shape \(1, 2\).*shape \(1,\)"):
        run(fun, vectorized=True)
    assert len(calls) == 1


@pytest.mark.parametrize("n", [4, 5, 6, 7, 20])
def test_a_function_written_for_one_point_per_column_is_told_so(n):
    fun = Recording(lambda x: ((x - CENTRE[:5, None]) ** 2).sum(axis=0))
    with pytest.raises(TypeError, match=r"written for shape \(5, 1\)"):
        ps.minimize(fun, [(-4, 4)] * 5, method=ps.PAO(), vectorized=True, n_particles=n, rng=1)
    assert fun.calls == 1


@pytest.mark.parametrize("n", [3, 4, 20])
def test_a_function_of_columns_is_no_match_for_one_unknown_either(n):
    with pytest.raises(TypeError, match=r"must return real numbers"):
        ps.minimize(lambda x: (x[0] - 1) ** 2, [(-4, 4)], method=ps.PAO(), vectorized=True, n_particles=n, rng=1)


@pytest.mark.parametrize("n", [7, 8, 20])
def test_a_function_that_unpacks_columns_is_told_so(n):
    def fun(x):
        return sum((x[i] - CENTRE[i]) ** 2 for i in range(5))

    with pytest.raises(TypeError, match="one point per column"):
        ps.minimize(fun, [(-4, 4)] * 5, method=ps.PAO(), vectorized=True, n_particles=n, rng=1)


def test_a_function_of_one_point_that_is_called_vectorised_is_told_so():
    fun = Recording(lambda x: float(np.sum((x - CENTRE[:2]) ** 2)))
    with pytest.raises(TypeError, match=r"single point.*vectorized=True"):
        run(fun, vectorized=True)
    assert fun.calls == 2  # one number is right for one row


def test_a_wrong_form_later_in_the_run_is_a_failed_point():
    calls = []

    def fun(x):
        calls.append(x)
        return None if len(calls) > 20 and inside(x) else sphere(x)

    result = run(fun)
    assert result.n_failed == sum(inside(x) for x in calls[20:]) > 0
    assert "fun must return one real number for a point, but returned None" in result.failures[0].reason


# Points that fail


def returns_nan(x):
    return np.where(inside(x), np.nan, sphere(x))


def returns_inf(x):
    return np.where(inside(x), np.inf, sphere(x))


def raises(x):
    if np.any(inside(x)):
        raise ArithmeticError("solver diverged")
    return sphere(x)


def test_nan_points_are_counted_listed_and_never_the_optimum():
    fun = Recording(returns_nan)
    result = run(fun)
    failed = [x for x in fun.points if inside(x)]
    assert result.n_failed == len(failed) > 10
    assert_array_equal([f.x for f in result.failures], failed[:10])
    assert {f.reason for f in result.failures} == {"returned NaN"}
    assert result.message.endswith(f" {len(failed)} of {result.nfev} evaluations failed ({len(failed)} returned NaN).")
    assert result.fun == np.nanmin(fun.values) == sphere(result.x)
    assert not inside(result.x)
    assert np.all(np.isfinite(result.history.best))


def test_the_best_point_outside_the_failing_quarter_is_found():
    # The optimum is 0.4 from one edge of the quarter and 0.8 from the other.
    many = ps.minimize_many(returns_nan, BOX, method=ps.PAO(), runs=20, vectorized=True, rng=1)
    np.testing.assert_allclose(many.fun, 0.4**2, rtol=1e-4)
    assert not inside(many.x).any()


@pytest.mark.parametrize("vectorized", [False, True])
def test_nan_inf_and_exceptions_lead_to_the_same_run(vectorized):
    nan, inf = run(returns_nan, vectorized=vectorized), run(returns_inf, vectorized=vectorized)
    with pytest.warns(RuntimeWarning, match="the function raised an exception at") as caught:
        raised = run(raises, vectorized=vectorized)
    assert len(caught) == 1
    assert (nan.n_failed, inf.n_failed) == (raised.n_failed, 0)
    assert nan.n_failed > 10
    for other in (nan, inf):
        assert_array_equal(other.history.best, raised.history.best)
        assert_array_equal(other.swarm.best_position, raised.swarm.best_position)
    assert inf.failures == []


@pytest.mark.parametrize("workers", [2, map])
@pytest.mark.parametrize("vectorized", [False, True])
def test_failures_are_counted_alike_by_all_workers(workers, vectorized):
    with pytest.warns(RuntimeWarning, match="solver diverged"):
        alone = run(raises)
    with pytest.warns(RuntimeWarning, match="solver diverged"):
        result = run(raises, workers=workers, vectorized=vectorized)
    assert_same_run(result, alone)
    assert [f.reason for f in result.failures] == ["raised ArithmeticError: solver diverged"] * 10


def test_survived_exceptions_give_one_warning_that_names_the_first_point():
    fun = Recording(raises)
    with pytest.warns(RuntimeWarning) as caught:
        result = run(fun)
    first = next(x for x in fun.points if inside(x))
    assert len(caught) == 1
    assert str(caught[0].message) == (
        f"the function raised an exception at {result.n_failed} points, which count as +inf; first at x = {first}: "
        "raised ArithmeticError: solver diverged"
    )
    assert caught[0].filename == __file__  # it points at the user's line


def test_the_warning_comes_once_for_many_runs():
    with pytest.warns(RuntimeWarning) as caught:
        many = ps.minimize_many(raises, BOX, method=ps.PAO(), runs=3, n_particles=20, maxiter=5, vectorized=True, rng=1)
    assert len(caught) == 1
    assert f"at {many.n_failed.sum()} points" in str(caught[0].message)


def test_one_good_point_is_enough():
    good = np.array([1.0, 1.0])

    def fun(x):
        return 5.0 if np.array_equal(x, good) else np.nan

    result = run(fun, x0=good)
    assert_array_equal(result.x, good)
    assert result.fun == 5.0


@pytest.mark.parametrize("vectorized", [False, True])
def test_an_objective_that_always_raises_is_an_error_with_the_original_as_its_cause(vectorized):
    calls = []

    def fun(x):
        calls.append(x)
        raise ArithmeticError("no licence")

    with pytest.raises(
        ValueError, match=r"no finite value at any of the first.*raised ArithmeticError: no licence"
    ) as caught:
        run(fun, vectorized=vectorized)
    assert isinstance(caught.value.__cause__, ArithmeticError)
    assert len(calls) <= 21


@pytest.mark.parametrize(("value", "text"), [(np.nan, "at x = .* returned NaN"), (np.inf, "all were \\+inf")])
@pytest.mark.parametrize("solve", [ps.minimize, ps.minimize_many])
def test_an_objective_without_any_finite_value_is_an_error_after_the_first_swarm(value, text, solve):
    fun = Recording(lambda x: value)
    with pytest.raises(ValueError, match=f"no finite value .*{text}"):
        solve(fun, BOX, n_particles=20, rng=1, **({"runs": 1} if solve is ps.minimize_many else {}))
    assert fun.calls == 20


def test_total_failure_is_reported_across_processes():
    with pytest.raises(ValueError, match="raised ZeroDivisionError"):
        run(always_divides_by_zero, workers=2)


def always_divides_by_zero(x):
    return 1 / 0


def test_a_known_finite_value_saves_a_first_swarm_that_fails():
    result = run(lambda x: np.nan, x0=([1.0, 1.0], 3.0))
    assert (result.fun, result.n_failed) == (3.0, result.nfev)


def test_a_run_that_begins_to_fail_keeps_what_it_had():
    calls = []

    def fun(x):
        calls.append(sphere(x))
        return calls[-1] if len(calls) <= 60 else np.nan

    result = run(fun)
    assert result.fun == min(calls[:60])
    assert result.n_failed == result.nfev - 60


def test_repeated_measurements_that_fail_are_left_out_of_the_means():
    seen = set()

    def fun(x):
        known = x.tobytes() in seen
        seen.add(x.tobytes())
        return np.nan if known else sphere(x)

    result = run(fun, reevaluate=0.2)
    assert result.fun == sphere(result.x)
    assert result.n_failed >= 25 * 4


# Objectives that misbehave otherwise


@pytest.mark.parametrize("workers", [1, 2, map])
@pytest.mark.parametrize("vectorized", [False, True])
def test_an_objective_may_overwrite_its_argument(vectorized, workers):
    settings = {"vectorized": vectorized, "maxiter": 5}
    assert_same_run(run(overwrites_its_argument, workers=workers, **settings), run(sphere, **settings))


def overwrites_its_argument(x):
    value = sphere(x)
    x[...] = 1e9
    return value


def test_an_objective_that_keeps_and_changes_its_arguments_later_does_no_harm():
    kept = []

    def fun(x):
        for old in kept:
            old[...] = 0.0
        kept.append(x)
        return sphere(x)

    assert_same_run(run(fun, vectorized=True), run(sphere, vectorized=True))


def test_what_the_objective_receives_is_a_writeable_array_of_floats():
    shapes = set()

    def fun(x):
        assert type(x) is np.ndarray
        assert x.dtype == np.float64
        assert x.flags.writeable
        shapes.add(x.shape)
        return sphere(x)

    run(fun, maxiter=2)
    assert shapes == {(2,)}


def test_vectorised_calls_are_one_per_generation_after_the_first_point():
    sizes = []

    def fun(x):
        sizes.append(len(x))
        return sphere(x)

    run(fun, vectorized=True, maxiter=3)
    assert sizes == [1, 19, 20, 20, 20]


def test_a_map_that_returns_too_few_values_is_refused():
    with pytest.raises(ValueError, match="workers returned 0 values for 1 points"):
        run(sphere, workers=lambda fun, points: [])


def test_systemexit_is_not_swallowed():
    def fun(x):
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        run(fun)


@pytest.mark.parametrize("n", [3, 4, 5])
def test_indexing_columns_is_found_out_even_where_the_points_form_a_square(n):
    with pytest.raises((TypeError, ValueError), match=r"is it written for shape|one point per row"):
        ps.minimize(
            lambda x: (x[0] - 0.1) ** 2 + (x[1] - 0.2) ** 2,
            [(-1, 1)] * 2,
            method=ps.PAO(),
            vectorized=True,
            n_particles=n,
        )


def test_columns_of_one_unknown_are_found_out_as_soon_as_there_are_two_points():
    with pytest.raises(TypeError, match=r"real numbers of shape \(2,\)"):
        ps.minimize(lambda x: (x**2).sum(axis=0), [(-1, 1)], method=ps.PAO(), vectorized=True, n_particles=2, maxiter=5)


def test_a_function_that_returns_its_own_buffer_each_time_does_no_harm():
    buffer = np.empty(20)

    def fun(x):
        buffer[: len(x)] = sphere(x)
        return buffer[: len(x)]

    settings = {"n_particles": 20, "maxiter": 4, "vectorized": True, "rng": 1}
    kept = []
    for f in (fun, sphere):
        swarms = []
        keep = lambda intermediate_result: swarms.append(intermediate_result.swarm)  # noqa: B023, E731
        ps.minimize(f, [(-5, 5)] * 2, method=ps.PAO(), callback=keep, **settings)
        kept.append(swarms)
    for a, b in zip(*kept, strict=True):
        assert_array_equal(a.value, b.value)


@pytest.mark.parametrize("extreme", [np.finfo(float).max, -np.finfo(float).max])
def test_extreme_values_are_survived_in_silence(extreme):
    def fun(x):
        return -extreme if x[0] < -4 else extreme if x[0] < 0 else float(sphere(x))

    result = ps.minimize(fun, [(-5, 5)] * 2, method=ps.PAO(), n_particles=30, maxiter=3, rng=1)
    assert result.fun == -abs(extreme)


def test_an_objective_of_rows_that_was_not_called_vectorised_is_told_so():
    with pytest.raises(ValueError, match="add vectorized=True"):
        ps.minimize(lambda x: x[:, 0] ** 2, [(-1, 1)] * 2, method=ps.PAO())


@pytest.mark.parametrize("answer", [None, 1j, "failed"])
def test_a_simulator_that_answers_nonsense_in_part_of_the_box_is_survived(answer):
    result = ps.minimize(
        lambda x: answer if x[0] > 2 else float(sphere(x)), [(-5, 5)] * 2, rng=3, method=ps.PAO(), init=_some_outside()
    )
    assert result.n_failed > 0
    assert result.fun < 1e-6


def _some_outside():
    points = np.random.default_rng(1).uniform(-5, 1, (20, 2))
    points[5:9, 0] = 3.0  # not the first: that one shows whether the function is of the right form
    return points


def test_a_late_exception_after_many_nans_is_still_only_a_warning():
    calls = []

    def fun(x):
        calls.append(x)
        if len(calls) % 50 == 0:
            raise ArithmeticError("late")
        return np.nan if 1 < len(calls) < 15 else float(sphere(x))

    with pytest.warns(RuntimeWarning, match="ArithmeticError: late"):
        result = ps.minimize(fun, [(-5, 5)] * 2, method=ps.PAO(), n_particles=20, maxiter=10, rng=1)
    assert result.fun < 1.0


def test_a_number_too_large_for_a_float_is_a_failed_point():
    result = ps.minimize(
        lambda x: 10**400 if x[0] > 0 else float(sphere(x)), [(-5, 5)] * 2, rng=1, method=ps.PAO(), init=_negative()
    )
    assert result.n_failed > 0
    assert result.x[0] <= 0


@pytest.mark.parametrize("digits", [400, 10_000])
def test_a_first_value_too_large_for_a_float_is_an_error(digits):
    """Python does not print whole numbers of more than 4300 digits."""
    with pytest.raises(TypeError, match=r"one real number for a point, but returned .*\(int\)"):
        run(lambda x: -(10**digits))


def _negative():
    return np.random.default_rng(1).uniform(-5, -1, (20, 2))


def dies_in_the_third_generation(x):
    if x[0] > 4.5:
        os._exit(3)
    return float(sphere(x))


def always_dies(x):
    os._exit(3)


def test_workers_that_die_do_not_end_the_run():
    start = np.random.default_rng(2).uniform(-5, 0, (8, 2))
    method = ps.PAO(attractors=(lambda s: np.full(2, 5.0),), stiffness=1.0)  # everyone walks into the trap
    result = ps.minimize(
        dies_in_the_third_generation, [(-5, 5)] * 2, init=start, method=method, workers=2, maxiter=8, rng=1
    )
    assert result.status is ps.results.Status.MAXITER
    assert result.n_failed == result.failure_kinds["died"] > 8  # whole generations, at the end
    assert result.fun == min(sphere(result.swarm.best_position))


@pytest.mark.slow  # tests/evaluate/test_engine_down.py has the same law
def test_a_worker_that_dies_at_once_is_an_error_that_says_so():
    with pytest.raises(RuntimeError, match=r"4[89] times in a row.*exit status 3"):
        ps.minimize(always_dies, [(-5, 5)] * 2, method=ps.PAO(), workers=2)


def test_one_unlucky_run_does_not_end_the_others():
    def fun(x):
        return np.where(x[:, 0] > -4, np.nan, sphere(x))

    many = ps.minimize_many(
        fun, [(-5, 5)] * 2, method=ps.PAO(), runs=40, n_particles=4, maxiter=5, init="random", vectorized=True, rng=1
    )
    failed = many.status == ps.results.Status.FAILED
    assert 0 < failed.sum() < 40
    assert np.isinf(many.fun[failed]).all()
    assert np.isfinite(many.fun[~failed]).all()
    assert (many.nfev[failed] == 4).all()
    assert many.run(int(np.flatnonzero(failed)[0])).message.startswith("The objective failed at every point")
    with pytest.raises(ValueError, match="no finite value"):
        ps.minimize_many(lambda x: np.full(len(x), np.nan), [(-5, 5)] * 2, method=ps.PAO(), runs=3, vectorized=True)


def test_masked_values_are_failures():
    def one(x):
        return np.ma.masked if x[0] > 0 else 5 + x[0] ** 2

    def many(x):
        return np.ma.masked_where(x[:, 0] > 0, 5 + x[:, 0] ** 2)

    alone = ps.minimize(one, [(-5, 5)] * 2, method=ps.PAO(), n_particles=20, maxiter=5, rng=1)
    together = ps.minimize(many, [(-5, 5)] * 2, method=ps.PAO(), n_particles=20, maxiter=5, rng=1, vectorized=True)
    for result in (alone, together):
        assert result.fun >= 5
        assert result.x[0] <= 0
        assert result.n_failed > 0
    assert alone.fun == together.fun
    told = ps.Optimizer([(-5, 5)] * 2, method=ps.PAO(), n_particles=20, rng=1)
    told.tell(np.ma.masked_less(many(told.ask()).filled(1e9), 20))
    assert told.result.fun >= 20
    with pytest.raises(ValueError, match="NaN"):
        ps.minimize(one, np.ma.masked_equal([[-5.0, 5.0], [-9.0, 5.0]], -9.0), method=ps.PAO())
    warm = ps.minimize(
        one,
        [(-5, 5)] * 2,
        method=ps.PAO(),
        x0=([[-1, 0], [-2, 0]], np.ma.array([-100.0, 9.0], mask=[1, 0])),
        maxiter=0,
    )
    assert warm.fun > 5


def test_numbers_of_every_width_are_limits(tmp_path, recwarn):
    narrow = {
        "tol": np.float32(1e-6),
        "target": np.float16(-1),
        "time_limit": np.float32(60),
        "reevaluate": np.float32(0.5),
    }
    result = ps.minimize(
        lambda x: float(x @ x),
        [(-1, 1)] * 2,
        method=ps.PAO(),
        n_particles=8,
        maxiter=2,
        rng=1,
        store=tmp_path / "a",
        **narrow,
    )
    assert ps.resume(tmp_path / "a", lambda x: 0.0, maxiter=2).fun == result.fun
    assert not [w for w in recwarn.list if "overflow" in str(w.message)]
    huge = ps.minimize(
        lambda x: float(x @ x), [(-1, 1)], method=ps.PAO(), n_particles=8, maxiter=2, time_limit=10**400, rng=1
    )
    assert huge.nit == 2


def test_a_user_who_wants_to_hear_of_underflow_does_not_hear_of_ours():
    with np.errstate(all="raise"):
        result = ps.minimize(
            lambda x: float(np.abs(x - 1).sum()),
            [(-5, 5)] * 2,
            method=ps.PAO(),
            n_particles=20,
            maxiter=800,
            tol=0,
            rng=1,
        )
        assert np.isfinite(result.next_step.mean).all()
        assert np.isfinite(result.next_step.covariance).all()
        lower, upper = result.next_step.interval(0.9)
        assert (lower <= upper).all()
    assert result.fun < 1e-12


def test_injected_failures_do_not_lock_an_optimiser():
    optimizer = ps.Optimizer([(-5, 5)] * 2, method=ps.PAO(), n_particles=3, rng=1)
    optimizer.inject([[0, 0], [1, 1], [2, 2]], [np.inf] * 3)
    for _ in range(2):
        with pytest.raises(ValueError, match="no finite value"):
            optimizer.ask()
    optimizer.inject([[3, 3]], [7.0])
    assert optimizer.ask().shape == (3, 2)
    assert optimizer.result.fun == 7.0


@pytest.mark.parametrize("how", [{}, {"workers": 2}, {"vectorized": True}])
def test_residuals_are_refused_by_every_door_with_the_line_to_write(how):
    def residuals(x):
        return np.concatenate([x, x, x], axis=-1)

    for run in (ps.minimize, partial(ps.minimize_many, runs=2)):
        with pytest.raises(TypeError, match=r"write ps\.fit\(fun, bounds\)"):
            run(residuals, BOX, rng=1, **how)
    optimizer = ps.Optimizer(BOX, rng=1)
    with pytest.raises(ValueError, match=r"write ps\.fit\(fun, bounds\)"):
        optimizer.tell(residuals(optimizer.ask()))
