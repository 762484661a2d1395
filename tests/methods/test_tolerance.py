"""The tolerance for violated constraints: laws of the order, of the schedule, and of swarms that have one."""

import math

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import paoswarm as ps
from paoswarm.core import order, swarm
from paoswarm.methods import moves
from paoswarm.methods.method import Method
from paoswarm.methods.moves import Tolerance

BOX = [(-2.0, 3.0)] * 3
CURVE = ps.Returned(2, lb=0.0, ub=0.0)  # two equalities: a curve in three dimensions
BEST = 0.432931342433859  # the smallest square on it, within the tolerance 1e-4
METHODS = [
    ps.PAO(),
    ps.classic.DE(),
    ps.classic.SADE(),
    ps.ElementPAO(),
    ps.DensePAO(),
    ps.AdaptivePAO(local=False),
    ps.MixedPAO(),
]


def square(x):
    x = np.atleast_2d(x)
    return (x**2).sum(axis=1), np.stack([x.sum(axis=1) - 1, x[:, 0] ** 2 - x[:, 1] - 0.2], axis=1)


def on_curve(method, maxfev, **more):
    how = {"constraints": CURVE, "vectorized": True, "rng": 1, **more}
    return ps.minimize(square, BOX, method=method, maxfev=maxfev, **how)


def strict(optimizer, x):
    value, numbers = square(x)
    judge = optimizer.judge
    return order.feasible_first(value, judge.total(judge.constraints.violations(numbers)))


def test_points_within_the_tolerance_are_compared_by_value_and_others_as_before():
    values, violations = np.array([-2.0, 0.0, 5.0, np.inf]), np.array([0.0, 1e-9, 0.5, 0.7, 3.0])
    f, v = (grid.ravel() for grid in np.meshgrid(values, violations))
    scores = order.feasible_first(f, v)
    assert_array_equal(order.tolerated(scores, f, 0.0), scores)
    eased = order.tolerated(scores, f, 0.6)
    is_eased = (v <= 0.6) & np.isfinite(f)
    assert_array_equal(eased[is_eased], f[is_eased])  # (C4)
    assert_array_equal(eased[~is_eased], scores[~is_eased])
    assert_array_equal(order.tolerated(scores, np.full(len(f), np.nan), 0.6), scores)  # no value, no tolerance
    failed = order.tolerated(np.array([np.nan, np.inf]), np.array([1.0, 1.0]), 1e300)
    assert_array_equal(failed, [np.nan, np.inf])


def test_the_tolerance_falls_from_its_first_value_to_zero():
    begun = Tolerance(first=3.0, length=200.0)
    now = [begun._replace(used=k).now for k in range(0, 301, 10)]
    assert now[0] == 3.0
    assert math.isclose(now[10], 3.0 / 2**12)  # (C5)
    assert (np.diff(now[:20]) < 0).all()
    assert now[20:] == [0.0] * 11


@pytest.mark.parametrize("violations", [[0, 0, 0, 1, 2], [np.nan] * 5], ids=["a fifth is feasible", "all failed"])
def test_a_first_swarm_that_needs_no_tolerance_has_none(violations):
    scores = order.feasible_first(np.ones(5), np.array(violations, dtype=float))
    first = swarm.start(np.arange(10.0).reshape(5, 2), scores, np.zeros(2), np.full(2, 9.0))
    assert moves.starting(first, 100.0, np.ones(5)) is first
    far = first._replace(best_value=order.feasible_first(np.ones(5), np.arange(1.0, 6.0)))
    assert math.isclose(moves.starting(far, 100.0, np.ones(5)).tolerance.first, 1.8)  # the control
    assert moves.starting(far, 100.0, None) is far  # no equalities
    noisy = far._replace(repeats=swarm.measured_once(far.best_value))
    assert moves.starting(noisy, 100.0, np.ones(5)) is noisy


@pytest.mark.parametrize("method", METHODS, ids=lambda method: type(method).__name__)
def test_only_the_method_sees_the_tolerance(method):
    optimizer = ps.Optimizer(BOX, method=method, constraints=CURVE, rng=3)
    best, has_preferred = np.inf, False
    for _ in range(25):
        x = optimizer.ask()
        optimizer.tell(*square(x))
        best = min(best, strict(optimizer, x).min())
        state = optimizer.swarm
        assert_array_equal(state.best_value, strict(optimizer, state.best_position))  # the scores (C2)
        assert state.global_value == state.best_value.min()
        assert optimizer.incumbent.value == best  # of all points, by the strict order
        if state.tolerance is not None:
            seen = moves.eased(state)
            has_preferred = has_preferred or seen.global_value < state.best_value.min()
    assert has_preferred  # it has followed an infeasible point with a better value


def test_inequalities_are_not_tolerated():
    optimizer = ps.Optimizer(BOX, constraints=ps.Returned(2, ub=-1.0), rng=3)
    for _ in range(5):
        optimizer.tell(*square(optimizer.ask()))
        assert optimizer.swarm.tolerance is None


@pytest.mark.parametrize("asynchronous", [False, True], ids=["in generations", "asynchronous"])
def test_swarms_alone_move_along_equalities_with_a_tolerance_and_not_without_it(asynchronous, monkeypatch):
    method = ps.AdaptivePAO(local=False, kinds=ps.AdaptivePAO.swarms)
    result = on_curve(method, 1500, workers=ps.Workers(asynchronous=asynchronous))
    assert result.feasible
    assert BEST - 1e-12 < result.fun < BEST + 1e-6
    monkeypatch.setattr(Method, "tolerant_for", lambda self, d, n: 0.0)
    monkeypatch.setattr(ps.DensePAO, "tolerant_for", lambda self, d, n: 0.0)
    assert on_curve(method, 1500, workers=ps.Workers(asynchronous=asynchronous)).fun > BEST + 0.1


HOW = [
    {"method": ps.AdaptivePAO(local=False)},
    {"method": ps.PAO(), "n_particles": 10, "workers": ps.Workers(asynchronous=True)},
    {"method": ps.Restarts(ps.ElementPAO())},
]


@pytest.mark.parametrize("how", HOW, ids=["searches", "one at a time", "element-wise"])
def test_a_resumed_run_is_the_same_while_something_is_tolerated(how, tmp_path):
    whole = on_curve(maxfev=300, **how)
    on_curve(maxfev=120, store=tmp_path / "run", **how)
    resumed = on_curve(maxfev=300, store=tmp_path / "run", **how)
    assert resumed.fun == whole.fun
    assert_array_equal(resumed.swarm.best_value, whole.swarm.best_value)


def test_many_runs_with_equalities_are_those_of_minimize():
    how = {"constraints": CURVE, "vectorized": True, "method": ps.classic.DE(), "maxfev": 600}
    many = ps.minimize_many(square, BOX, runs=2, rng=1, **how)
    for r in range(2):
        alone = ps.minimize(square, BOX, rng=many.seeds[r], **how)
        assert alone.fun == many.fun[r]
        assert many.run(r).swarm.tolerance == alone.swarm.tolerance is not None


def test_a_run_can_be_continued_while_something_is_tolerated(tmp_path):
    first = on_curve(ps.PAO(), 400, n_particles=20)
    assert first.swarm.tolerance is not None
    more = on_curve(ps.PAO(), 1500, init=first, store=tmp_path / "run")
    again = on_curve(ps.PAO(), 1500, init=first, store=tmp_path / "run")
    assert order.is_better(more.swarm.global_value, first.swarm.global_value)
    assert more.maxcv <= first.maxcv
    assert again.fun == more.fun
