import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from objectives import Recording

import paoswarm as ps


@st.composite
def problems(draw):
    d = draw(st.integers(1, 4))
    numbers = st.floats(-1e3, 1e3, allow_nan=False)
    lower = np.array(draw(st.lists(numbers, min_size=d, max_size=d)))
    width = np.array(draw(st.lists(st.floats(1e-3, 1e3), min_size=d, max_size=d)))
    place = np.array(draw(st.lists(st.floats(-0.5, 1.5), min_size=d, max_size=d)))  # the optimum may lie outside
    return lower, lower + width, lower + place * width


@settings(max_examples=80, deadline=None, derandomize=True)
@given(
    problem=problems(),
    n=st.integers(2, 9),
    maxiter=st.integers(0, 6),
    beyond=st.one_of(st.none(), st.integers(0, 50)),
    walls=st.sampled_from(["clip", "reflect", "periodic", "none"]),
    share=st.sampled_from([0.0, 0.3]),
    seed=st.integers(0, 2**32),
)
def test_every_run_keeps_the_promises_of_its_result(problem, n, maxiter, beyond, walls, share, seed):
    lower, upper, optimum = problem
    fun = Recording(lambda x: float((((x - optimum) / (upper - lower)) ** 2).sum()))
    result = ps.minimize(
        fun,
        np.column_stack([lower, upper]),
        method=ps.PAO(walls=walls),
        n_particles=n,
        maxiter=maxiter,
        maxfev=None if beyond is None else n + beyond,
        reevaluate=share,
        tol=0,
        rng=seed,
    )
    points, values = np.array(fun.points), np.array(fun.values)
    if walls != "none":
        assert np.all((points >= lower) & (points <= upper))
    assert result.nfev == fun.calls == result.history.nfev[-1]
    assert result.nfev <= n + maxiter * (n + max(1, round(share * n)) * (share > 0))
    assert beyond is None or result.nfev <= n + beyond
    assert result.fun == fun.fun(result.x) == values.min()
    assert_array_equal(result.history.best, np.minimum.accumulate(values)[result.history.nfev - 1])
    assert len(result.history) == result.nit + 1 <= maxiter + 1
    assert result.n_failed == 0
    assert not result.success  # the budget ran out
    swarm = result.swarm
    assert_array_equal(swarm.best_value, [fun.fun(x) for x in swarm.best_position])
    assert_array_equal(swarm.global_best, np.tile(result.x, (n, 1)))
    assert np.all(swarm.best_value <= swarm.value)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(problem=problems(), n=st.integers(2, 9), holes=st.integers(1, 7), seed=st.integers(0, 2**32))
def test_failures_at_pseudo_random_points_are_counted_and_never_best(problem, n, holes, seed):
    lower, upper, optimum = problem

    def fun(x):
        fails = int.from_bytes(x.tobytes(), "little") % 8 < holes
        return np.nan if fails else float((((x - optimum) / (upper - lower)) ** 2).sum())

    fun = Recording(fun)
    # One point that works, known from elsewhere, so that there is a run at all.
    result = ps.minimize(
        fun,
        np.column_stack([lower, upper]),
        method=ps.PAO(),
        n_particles=n,
        maxiter=5,
        x0=(lower, 1e9),
        tol=0,
        rng=seed,
    )
    values = np.array(fun.values)
    assert result.n_failed == np.isnan(values).sum()
    assert result.fun == min([1e9, *values[np.isfinite(values)]])
    assert len(result.failures) == min(10, result.n_failed)
