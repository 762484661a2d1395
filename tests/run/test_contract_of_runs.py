"""What every way into a run has in common, whichever function and engine: one class of checks over all of them."""

import math
import re
from collections import Counter

import numpy as np
import pytest
from doors import BOX, DOORS, RUNS, Counted, bowl, compiled, cracked, need_engine
from numpy.testing import assert_array_equal
from waiting import Clock

import paoswarm as ps

# What is not yet as it should be: patterns of names of tests, and why these fail.
_COMPILED = "((many-)?numba(-PAO)?|jax-PAO)"
DRIFT = {
    rf"test_results_say_what_failed\[{_COMPILED}\]": "engines only count failed points",
    r"test_it_sees_the_run_as_it_is\[(many-)?numba\]": "the swarms of adaptive compiled runs are with their threads",
    r"test_an_interrupted_run_loses_nothing\[\d+-many-PAO\]": "a batch of runs drops a generation that was cut short",
}

SETTINGS = {"n_particles": 12, "rng": 5}
FIELDS = (
    *("x", "fun", "fun_error", "success", "status", "message", "nit", "nfev", "n_failed", "failures", "failure_kinds"),
    *("history", "evaluations", "swarm", "method", "engine", "progress"),
    *("best", "next_step", "searches", "agreement", "hint", "feasible", "constr", "constr_violation"),
    *("maxcv", "n_infeasible", "hardest"),
)


def of(doors, *, loops=True, lacking=None, interpreted=False):
    """The doors for which a check makes sense, as parameters with their names."""
    fit = [door for door in doors if door.is_loop or not loops]
    fit = [door for door in fit if lacking not in door.lacks and not (interpreted and door.is_compiled)]
    return pytest.mark.parametrize("door", [as_parameter(door) for door in fit])


def as_parameter(door):
    """JAX compiles for seconds in every call."""
    marks = [pytest.mark.slow] if door.engine == "jax" else []
    return pytest.param(door, id=door.name.replace(" ", "-"), marks=marks)


every_door = of(DOORS, loops=False)
every_loop = of(DOORS)
python_loop = of(DOORS, interpreted=True)


@pytest.fixture(autouse=True)
def _door_is_there(request):
    if "door" in request.fixturenames:
        need_engine(request.getfixturevalue("door"))
    for pattern, reason in DRIFT.items():
        if re.fullmatch(pattern, request.node.name):
            request.applymarker(pytest.mark.xfail(strict=True, reason=reason))


def objective(door, fun=bowl):
    return compiled(fun, door.engine) if door.is_compiled else fun


def run(door, fun=bowl, **options):
    return door(objective(door, fun), **(SETTINGS | options))


def assert_same_run(one, other):
    for name in ("x", "fun", "nit", "nfev", "n_failed", "success", "status"):
        assert_array_equal(one[name], other[name], err_msg=name)
    for mine, theirs in zip(swarms(one), swarms(other), strict=True):
        for name in ("position", "best_position", "best_value"):
            assert_array_equal(getattr(mine, name), getattr(theirs, name), err_msg=name)


def swarms(found):
    """Swarms that differ in size are a tuple."""
    return [found.swarm] if isinstance(found.swarm, ps.Swarm) else list(found.swarm)


class TestLimits:
    @every_loop
    def test_evaluations_are_exact(self, door):
        for maxfev in (12, 29, 60):
            for one in door.results(run(door, maxfev=maxfev, tol=0)):
                assert (one.nfev, one.status, one.success) == (maxfev, ps.results.Status.MAXFEV, False)
                assert f"maxfev={maxfev}" in one.message

    @python_loop
    def test_evaluations_are_calls(self, door):
        fun = Counted()
        found = run(door, fun, maxfev=29, tol=0)
        assert fun.calls == 29 * (door.runs or 1) == np.sum(found.nfev)

    @every_loop
    def test_generations_are_exact(self, door):
        for maxiter in (0, 3):
            for one in door.results(run(door, maxiter=maxiter, tol=0)):
                assert (one.nit, one.status) == (maxiter, ps.results.Status.MAXITER)
                assert len(one.history.best) == maxiter + 1
                assert f"maxiter={maxiter}" in one.message

    @every_loop
    def test_a_target_ends_the_run_at_once(self, door):
        for one in door.results(run(door, target=-0.9, maxfev=2000)):
            assert (one.status, one.success) == (ps.results.Status.TARGET, True)
            assert one.fun <= -0.9
            assert (one.history.best[:-1] > -0.9).all()
            assert "target=-0.9" in one.message

    @python_loop
    def test_a_time_limit_finishes_the_points_that_are_being_evaluated(self, door, monkeypatch):
        clock = Clock(monkeypatch)
        fun = Counted(at_call=lambda number: clock.wait(1.0))
        found = run(door, fun, time_limit=49.5)
        assert set(np.ravel(found.status)) == {ps.results.Status.TIME}
        assert fun.calls == np.sum(found.nfev)
        assert fun.calls == 50 if door.runs is None else 50 <= fun.calls <= 72  # many runs end with a generation
        assert "time_limit=49.5" in door.results(found)[0].message

    @of([door for door in DOORS if door.is_compiled])
    def test_a_time_limit_ends_compiled_runs(self, door, monkeypatch):
        run(door, maxiter=1)  # compiling takes no time of the run
        Clock(monkeypatch, step=1.0)
        for one in door.results(run(door, time_limit=30.0, tol=0)):
            assert one.status == ps.results.Status.TIME
            assert one.nfev >= SETTINGS["n_particles"]

    @every_loop
    def test_a_run_that_has_converged_says_so(self, door):
        for one in door.results(run(door, maxfev=20_000)):
            assert (one.status, one.success) == (ps.results.Status.CONVERGED, True)
            assert one.fun == pytest.approx(-1, abs=1e-9)
            assert one.x == pytest.approx([0.3, -0.2], abs=1e-4)


class TestCallback:
    @every_loop
    def test_it_sees_the_run_as_it_is(self, door):
        seen = []

        def look(intermediate_result):
            seen.append(intermediate_result)

        found = run(door, maxiter=6, tol=0, callback=look)
        for before, after in zip(seen, seen[1:], strict=False):
            assert np.all(before.nit < after.nit)
            assert np.all(before.nfev < after.nfev)
            assert np.all(before.fun >= after.fun)
        last = seen[-1]
        assert_array_equal(last.x, found.x)
        assert_array_equal(last.fun, found.fun)
        assert np.all(last.nfev <= found.nfev)
        assert isinstance(found.history.best if door.runs is None else found.history, np.ndarray)
        assert {"x", "fun", "nit", "nfev", "n_failed", "swarm"} <= set(last)

    @of([door for door in DOORS if not door.is_compiled])
    def test_it_is_called_after_the_first_swarm_and_every_generation(self, door):
        seen = []
        run(door, maxiter=6, tol=0, callback=lambda intermediate_result: seen.append(np.max(intermediate_result.nit)))
        assert seen == list(range(7))

    @every_loop
    def test_it_gets_the_best_point_if_its_parameter_has_another_name(self, door):
        points = []
        found = run(door, maxiter=6, tol=0, callback=lambda x: points.append(np.array(x)))
        assert points[-1].shape == found.x.shape
        assert_array_equal(points[-1], found.x)

    @every_loop
    @pytest.mark.parametrize("how", ["StopIteration", "True"])
    def test_it_can_stop_the_run(self, door, how):
        seen = []

        def stop(intermediate_result):
            seen.append(intermediate_result)
            if how == "StopIteration":
                raise StopIteration
            return True

        found = run(door, maxfev=10**6, tol=0, callback=stop)
        assert len(seen) == 1
        if not door.is_compiled:  # threads go on until they see the wish
            assert_array_equal(found.nfev, seen[0].nfev)
            assert_array_equal(found.x, seen[0].x)
        assert np.all(found.fun <= seen[0].fun)
        for one in door.results(found):
            assert (one.status, one.success) == (ps.results.Status.CALLBACK, True)

    @every_loop
    def test_it_changes_nothing(self, door):
        assert_same_run(run(door, maxiter=6), run(door, maxiter=6, callback=lambda x: None))

    @every_loop
    def test_its_errors_are_the_users(self, door):
        def fails(x):
            raise LookupError("mine")

        with pytest.raises(LookupError, match="mine"):
            run(door, maxiter=6, callback=fails)


class TestStore:
    @of(DOORS, lacking="store")
    def test_a_second_call_returns_the_same_bits(self, door, tmp_path):
        file = tmp_path / "run.paoswarm"
        first = run(door, maxfev=200, store=file)
        before = file.read_bytes()
        second = run(door, maxfev=200, store=file)
        assert_same_run(first, second)
        assert_same_run(first, run(door, maxfev=200))
        assert file.read_bytes() == before

    @python_loop
    def test_a_second_call_does_not_call_the_function(self, door, tmp_path):
        fun = Counted()
        run(door, fun, maxfev=100, tol=0, store=tmp_path / "run.paoswarm")
        calls = fun.calls
        run(door, fun, maxfev=100, tol=0, store=tmp_path / "run.paoswarm")
        assert fun.calls == calls == 100 * (door.runs or 1)

    @of(DOORS, lacking="store")
    def test_a_run_goes_on_as_if_it_had_never_stopped(self, door, tmp_path):
        file = tmp_path / "run.paoswarm"
        run(door, maxfev=40, tol=0, store=file)
        assert_same_run(run(door, maxfev=150, tol=0, store=file), run(door, maxfev=150, tol=0))

    @of(DOORS, lacking="store")
    def test_the_store_of_another_run_is_refused(self, door, tmp_path):
        file = tmp_path / "run.paoswarm"
        run(door, maxfev=40, store=file)
        before = file.read_bytes()
        with pytest.raises(ps.errors.OtherRun, match=r"rng = 5, but this one has rng = 6"):
            run(door, maxfev=40, store=file, rng=6)
        assert file.read_bytes() == before

    @of([door for door in DOORS if "store" in door.lacks])
    def test_a_door_without_store_says_so(self, door, tmp_path):
        with pytest.raises(ValueError, match="do not have store"):
            run(door, store=tmp_path / "run.paoswarm")
        assert not (tmp_path / "run.paoswarm").exists()


def uninterrupted(call):
    """What a call returns; an interrupt that comes out of it is a failure of the test and not its end."""
    try:
        return call()
    except KeyboardInterrupt:
        pytest.fail("the interrupt came through")


class TestInterrupt:
    @python_loop
    @pytest.mark.parametrize("k", [2, 12, 13, 40])
    def test_an_interrupted_run_loses_nothing(self, door, k):
        k += (door.runs or 0) * SETTINGS["n_particles"]  # of many runs, each has its first swarm

        def interrupt(number):
            if number == k:
                raise KeyboardInterrupt

        fun = Counted(at_call=interrupt)
        found = uninterrupted(lambda: run(door, fun, maxfev=500, tol=0))
        assert set(np.ravel(found.status)) == {ps.results.Status.INTERRUPTED}
        assert not np.any(found.success)
        assert fun.calls == k
        assert np.sum(found.nfev) == k - 1
        assert np.min(found.fun) == min(fun.values)
        assert_array_equal(np.atleast_2d(found.x)[np.argmin(found.fun)], fun.points[int(np.argmin(fun.values))])

    @python_loop
    def test_an_interrupted_run_goes_on_from_its_store(self, door, tmp_path):
        def interrupt(number):
            if number == 40:
                raise KeyboardInterrupt

        file = tmp_path / "run.paoswarm"
        fun = Counted(at_call=interrupt)
        uninterrupted(lambda: run(door, fun, maxfev=150, tol=0, store=file))
        assert fun.calls == 40
        found = run(door, fun, maxfev=150, tol=0, store=file)
        assert_same_run(found, run(door, maxfev=150, tol=0))
        assert 0 <= len(fun.values) - np.sum(found.nfev) <= 1  # one point may be measured again, as a check

    @every_loop
    def test_an_interrupt_between_generations_ends_the_run(self, door):
        def interrupt(intermediate_result):
            raise KeyboardInterrupt

        found = uninterrupted(lambda: run(door, maxfev=10**6, tol=0, callback=interrupt))
        assert set(np.ravel(found.status)) == {ps.results.Status.INTERRUPTED}
        assert np.isfinite(found.fun).all()


def troubled(x):
    """Every way to fail that needs no worker."""
    if x[0] > 1.5:
        raise ArithmeticError("no solution")
    return cracked(x)


class TestFailures:
    @every_door
    def test_failed_points_count_and_the_run_goes_on(self, door):
        for one in door.results(run(door, cracked, maxiter=8, tol=0)):
            assert 0 < one.n_failed < one.nfev
            assert math.isfinite(one.fun)
            assert np.isfinite(one.x).all()

    @every_loop
    def test_results_say_what_failed(self, door):
        found = run(door, cracked, maxiter=8, tol=0)
        for one in door.results(found):
            assert one.failure_kinds.total() == one.n_failed
            assert set(one.failure_kinds) <= {"returned NaN", "returned -inf"}
        assert 0 < len(found.failures) <= 10
        for failure in found.failures:
            value = cracked(failure.x)
            assert failure.reason.startswith("returned NaN" if np.isnan(value) else "returned -inf")

    @python_loop
    def test_every_failure_is_counted_by_its_kind(self, door):
        calls = Counter()

        def counted(x):
            kind = "raised"
            try:
                value = troubled(x)
                kind = "returned NaN" if np.isnan(value) else "returned -inf" if value == -np.inf else "fine"
            finally:
                calls[kind] += 1
            return value

        with pytest.warns(RuntimeWarning, match="raised an exception"):
            found = run(door, counted, maxiter=8, tol=0)
        fine = calls.pop("fine")
        assert sum((one.failure_kinds for one in door.results(found)), Counter()) == calls
        assert np.sum(found.n_failed) == calls.total()
        assert np.sum(found.nfev) == calls.total() + fine
        raised = [failure for failure in found.failures if "no solution" in failure.reason]
        assert raised
        assert all(failure.x[0] > 1.5 for failure in raised)

    @every_loop
    def test_the_message_says_how_many(self, door):
        for one in door.results(run(door, cracked, maxiter=8, tol=0)):
            assert f"{one.n_failed} of {one.nfev} evaluations failed" in one.message
            assert door.runs or all(f"{count} {kind}" in one.message for kind, count in one.failure_kinds.items())

    @every_loop
    def test_a_function_that_always_fails_is_an_error(self, door):
        with pytest.raises(ValueError, match=r"of the first (swarm|points)"):
            run(door, hopeless, maxiter=8)


def hopeless(x):
    return 0 * x[0] + math.nan


class TestResult:
    @every_door
    def test_the_fields_are_the_same(self, door):
        for one in door.results(run(door, maxiter=4, tol=0)):
            assert isinstance(one, ps.results.Result)
            assert set(one) == set(run(DOORS[0], maxiter=4, tol=0))
            assert [name for name in FIELDS if not hasattr(one, name)] == []

    @of(DOORS, loops=False, interpreted=True)
    def test_named_variables_add_the_same_fields(self, door):
        def fun(named):
            return bowl([named["a"], named["b"]])

        box = {"a": (-1, 2), "b": (-2, 1)}
        for one in door.results(run(door, fun, bounds=box, maxiter=4)):
            assert set(one) == set(run(DOORS[0], fun, bounds=box, maxiter=4))
            assert set(one.best) == {"a", "b"}

    @every_door
    def test_the_fields_have_the_same_types(self, door):
        for one in door.results(run(door, cracked, maxiter=4, tol=0)):
            assert (one.x.shape, one.x.dtype) == ((2,), np.dtype(float))
            assert type(one.fun) is float
            assert type(one.success) is bool
            assert type(one.status) is ps.results.Status
            assert type(one.message) is str
            assert (type(one.nit), type(one.nfev), type(one.n_failed)) == (int, int, int)
            assert type(one.progress) is float
            assert isinstance(one.history, ps.results.History)
            assert isinstance(one.swarm, ps.Swarm)
            assert isinstance(one.method, ps.Method)
            assert one.engine == door.engine
            assert isinstance(one.failures, list)
            assert isinstance(one.failure_kinds, Counter)

    @every_door
    def test_the_best_point_is_the_best_of_the_history(self, door):
        for one in door.results(run(door, maxiter=4, tol=0)):
            assert one.fun == one.history.best[-1]
            assert one.fun == pytest.approx(bowl(one.x), rel=1e-6)
            assert (np.diff(one.history.best) <= 0).all()
            assert len(one.history.best) == one.nit + 1

    @every_door
    def test_it_prints(self, door):
        found = run(door, maxiter=4, tol=0)
        assert str(found)
        assert all(str(one) for one in door.results(found))

    @every_door
    def test_the_same_seed_is_the_same_run(self, door):
        assert_same_run(run(door, maxiter=4), run(door, maxiter=4))

    @of([door for door in DOORS if door.runs])
    def test_each_run_is_that_of_minimize(self, door):
        kind = "minimize" if door.engine == "numpy" else ""
        alone = next(one for one in DOORS if one.name == door.name.replace("many", kind).strip())
        found = run(door, maxiter=4)
        for r, one in enumerate(door.results(found)):
            assert_same_run(run(alone, maxiter=4, rng=found.seeds[r]), one)


BAD = {
    "workers text": {"workers": "a"},
    "workers none": {"workers": 0},
    "vectorized text": {"vectorized": "yes"},
    "reevaluate too much": {"reevaluate": 2.0},
    "maxfev none": {"maxfev": 0},
    "maxfev text": {"maxfev": "a"},
    "maxfev fraction": {"maxfev": 10.5},
    "maxfev too small": {"maxfev": 3},
    "maxiter negative": {"maxiter": -1},
    "target NaN": {"target": math.nan},
    "target text": {"target": "low"},
    "tol negative": {"tol": -1.0},
    "time_limit none": {"time_limit": 0.0},
    "n_particles one": {"n_particles": 1},
    "n_particles text": {"n_particles": "a"},
    "bounds reversed": {"bounds": [(2.0, -1.0), (-2.0, 1.0)]},
    "bounds infinite": {"bounds": [(-1.0, math.inf), (-2.0, 1.0)]},
    "bounds text": {"bounds": "wide"},
    "x0 outside": {"x0": [5.0, 0.0]},
    "x0 too long": {"x0": [0.0, 0.0, 0.0]},
    "init unknown": {"init": "nonsense"},
    "init outside": {"init": np.full((6, 2), 9.0)},
    "method unknown": {"method": "nonsense"},
    "method no method": {"method": 3},
    "rng text": {"rng": "a"},
    "callback number": {"callback": 5},
    "callback of two": {"callback": lambda x, y: None},
    "constraints number": {"constraints": 5},
    "progress text": {"progress": "yes"},
    "polish text": {"polish": "yes"},
    "store number": {"store": 5},
    "engine unknown": {"engine": "fortran"},
    "no function": {"fun": 5},
}
_OF_OPTIMIZER = ("reevaluate", "n_particles", "bounds", "x0", "init", "method", "rng", "constraints")


def is_read_by(door, given):
    """Whether these arguments get there: the loop around an `Optimizer` is the user's, and SciPy reads some itself."""
    if door.name == "SciPy":
        return {"bounds", "x0", "fun"}.isdisjoint(given)
    return door.is_loop or set(given) <= set(_OF_OPTIMIZER)


def error_of(door, given):
    """The type and the text of the error."""
    options = SETTINGS | given
    fun = options.pop("fun", objective(door))
    with pytest.raises((TypeError, ValueError)) as caught:
        door(fun, **options)
    return type(caught.value), str(caught.value)


class TestBadArguments:
    @every_door
    @pytest.mark.parametrize("name", BAD)
    def test_the_error_is_the_same_everywhere(self, door, name):
        given = BAD[name]
        if not is_read_by(door, given):
            return
        kind, text = error_of(door, given)
        expected_kind, expected = error_of(DOORS[0], given)
        assert kind is expected_kind
        assert text.replace("minimize_many", "minimize") == expected

    @python_loop
    @pytest.mark.parametrize("name", [name for name in BAD if "fun" not in BAD[name]])
    def test_it_comes_before_the_first_evaluation(self, door, name):
        if not is_read_by(door, BAD[name]):
            return
        fun = Counted()
        with pytest.raises((TypeError, ValueError)):
            door(fun, **(SETTINGS | BAD[name]))
        assert fun.calls == 0

    @every_loop
    def test_few_generations_are_a_warning(self, door):
        with pytest.warns(RuntimeWarning, match="maxfev=40 leaves"):
            run(door, n_particles=20, maxfev=40)


def test_the_doors_have_their_names():
    assert len({door.name for door in DOORS}) == len(DOORS)
    assert RUNS > 1
    assert len(BOX) == 2
