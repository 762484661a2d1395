"""``args``: more arguments of the objective, as in SciPy."""

import pickle
from functools import partial

import numpy as np
import pytest

import paoswarm as ps
from paoswarm.evaluate.calls import with_arguments

BOX = [(-5.0, 5.0)] * 2
SMALL = {"n_particles": 10, "maxiter": 8, "rng": 1}


def around(x, centre, scale=1.0):
    return scale * ((x - centre) ** 2).sum(axis=-1)


def closure(x):
    return around(x, 2.0, 3.0)


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"vectorized": True},
        {"workers": 2},
        {"workers": ps.Workers(asynchronous=True)},
        {"workers": ps.Workers(timeout=60)},
    ],
)
def test_args_follow_the_point(more):
    given = ps.minimize(around, BOX, method=ps.PAO(), args=(2.0, 3.0), **SMALL, **more)
    bound = ps.minimize(closure, BOX, method=ps.PAO(), **SMALL, **more)
    assert given.fun == bound.fun
    assert np.array_equal(given.x, bound.x)


def test_args_in_many_runs():
    given = ps.minimize_many(around, BOX, method=ps.PAO(), runs=3, args=(2.0, 3.0), vectorized=True, **SMALL)
    assert np.array_equal(
        given.fun, ps.minimize_many(closure, BOX, method=ps.PAO(), runs=3, vectorized=True, **SMALL).fun
    )


@pytest.mark.parametrize("single", [2.0, np.array([2.0, 1.0]), [2.0, 1.0]])
def test_a_value_that_is_no_tuple_is_one_argument(single):
    as_tuple = ps.minimize(around, BOX, method=ps.PAO(), args=(np.asarray(single),), **SMALL)
    assert ps.minimize(around, BOX, method=ps.PAO(), args=single, **SMALL).fun == as_tuple.fun


def test_args_go_after_the_point_of_a_partial():
    fun = with_arguments(partial(lambda a, x, b: (a, x, b), "a"), ("b",))
    assert fun("x") == ("a", "x", "b")
    assert pickle.loads(pickle.dumps(with_arguments(around, (1.0,))))(np.ones(2)) == 0.0


def test_a_store_notices_other_args(tmp_path):
    store = ps.Store(tmp_path / "run.paoswarm", fsync="never")
    result = ps.minimize(around, BOX, method=ps.PAO(), args=(2.0,), store=store, **SMALL)
    assert ps.minimize(around, BOX, method=ps.PAO(), args=(2.0,), store=store, **SMALL).fun == result.fun
    resumed = ps.resume(store, around, args=(2.0,), maxiter=12)
    assert resumed.nfev == 130
    with pytest.raises(ps.errors.OtherRun, match="another function"):
        ps.minimize(around, BOX, method=ps.PAO(), args=(3.0,), store=store, n_particles=10, maxiter=12, rng=1)
