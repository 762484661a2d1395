"""A mistake in the code of the objective is shown after a few calls; a simulator that fails at points is not hurt."""

import functools
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import paoswarm as ps

BOX = [(-5.0, 5.0)] * 2


class Counted:
    """A function that counts its calls, and does something else at the first ones."""

    def __init__(self, first, n_first=10**9):
        self.calls, self.first, self.n_first = 0, first, n_first

    def __call__(self, x):
        self.calls += 1
        return self.first(x) if self.calls <= self.n_first else (x**2).sum(axis=-1)


def misspelt(x):
    return (x**2).sun()


def undefined(x):
    return numpy.sum(x)  # noqa: F821


def needs_more(x, factor):
    return factor * (x**2).sum()


def for_rows(x):
    return (x[:, 0] ** 2).sum()


def imports(x):
    import there_is_no_such_module  # noqa: F401


def no_result(x):
    return {}["loss"]


def no_object(x):
    return None.loss


def diverged(x):
    raise ArithmeticError("diverged")


WAYS = {
    "alone": {},
    "vectorised": {"vectorized": True},
    "map": {"workers": map},
    "asynchronous": {"workers": ps.Workers(asynchronous=True)},
}


@pytest.mark.parametrize("how", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("fun", [misspelt, undefined, needs_more, imports])
def test_a_mistake_is_shown_after_three_calls(fun, how):
    counted = Counted(fun)
    with pytest.raises(ValueError, match="same exception at its first 3 calls") as caught:
        ps.minimize(counted, BOX, method=ps.PAO(), rng=1, **how)
    assert counted.calls == (4 if how == {"vectorized": True} else 3)  # a call for all points, then one at a time
    if "workers" not in how:
        assert isinstance(caught.value.__cause__, NameError | AttributeError | TypeError | ImportError)


def test_advice_comes_with_it():
    with pytest.raises(ValueError, match="args="):
        ps.minimize(needs_more, BOX, method=ps.PAO(), rng=1)
    with pytest.raises(ValueError, match="vectorized=True"):
        ps.minimize(for_rows, BOX, method=ps.PAO(), rng=1)


def test_a_mistake_is_shown_early_in_many_runs():
    for vectorized in (False, True):
        counted = Counted(misspelt)
        with pytest.raises(ValueError, match="first 3 calls"):
            ps.minimize_many(counted, BOX, method=ps.PAO(), runs=5, vectorized=vectorized, rng=1)
        assert counted.calls <= 4


@pytest.mark.parametrize(("asynchronous", "vectorized"), [(False, False), (True, False), (False, True)])
def test_a_mistake_is_shown_early_by_workers(asynchronous, vectorized):
    def solve(fun, workers):
        workers = ps.Workers(workers, asynchronous=asynchronous)
        ps.minimize(fun, BOX, method=ps.PAO(), workers=workers, vectorized=vectorized, rng=1)

    counted = Counted(misspelt)
    with ThreadPoolExecutor(2) as pool, pytest.raises(ValueError, match="first 3 calls"):
        solve(counted, pool)
    assert counted.calls <= 8  # those that were under way
    with pytest.raises(ValueError, match=r"first 3 calls.*AttributeError"):
        solve(misspelt, 2)


@pytest.mark.parametrize("fun", [no_result, no_object])
def test_what_may_be_a_missing_result_has_ten_calls(fun):
    counted = Counted(fun)
    with pytest.raises(ValueError, match="first 10 calls"):
        ps.minimize(counted, BOX, method=ps.PAO(), rng=1)
    assert counted.calls == 10
    with pytest.warns(RuntimeWarning, match="at 9 points"):
        assert ps.minimize(Counted(fun, 9), BOX, method=ps.PAO(), rng=1, maxiter=3).n_failed == 9


@pytest.mark.parametrize("how", [{}, {"workers": ps.Workers(asynchronous=True)}, {"vectorized": True}])
def test_a_simulator_that_fails_at_its_first_points_is_not_hurt(how):
    with pytest.warns(RuntimeWarning, match="ArithmeticError"):
        result = ps.minimize(Counted(diverged, 50), BOX, method=ps.PAO(), rng=1, n_particles=60, maxiter=3, **how)
    assert np.isfinite(result.fun)
    counted = Counted(diverged)
    with pytest.raises(ValueError, match="no finite value at any of the first points"):
        ps.minimize(counted, BOX, method=ps.PAO(), rng=1, n_particles=20, **how)
    assert counted.calls >= 20


@pytest.mark.parametrize("how", [{}, {"workers": ps.Workers(asynchronous=True)}, {"vectorized": True}])
def test_two_mistakes_and_then_a_value_are_two_failures(how):
    with pytest.warns(RuntimeWarning, match="at 2 points"):
        result = ps.minimize(
            Counted(misspelt, 3 if "vectorized" in how else 2),
            BOX,
            method=ps.PAO(),
            rng=1,
            n_particles=10,
            maxiter=3,
            **how,
        )
    assert result.n_failed == 2


def test_different_messages_are_different_failures():
    def fun(x):
        raise TypeError(f"cannot handle {x}")

    counted = Counted(fun, 15)
    with pytest.warns(RuntimeWarning, match="at 15 points"):
        ps.minimize(counted, BOX, method=ps.PAO(), rng=1, n_particles=20, maxiter=2)


@pytest.mark.parametrize("how", [{}, {"workers": ps.Workers(asynchronous=True)}, {"vectorized": True}])
def test_a_store_does_not_keep_the_mistakes(how, tmp_path):
    store = ps.Store(tmp_path / "run.paoswarm", fsync="never")
    settings = {"n_particles": 10, "maxiter": 4, "rng": 1, "store": store} | how
    with pytest.raises(ValueError, match="has not recorded"):
        ps.minimize(misspelt, BOX, method=ps.PAO(), **settings)
    result = ps.minimize(
        Counted(None, 0), BOX, method=ps.PAO(), **settings
    )  # the mended function goes on with the same file
    assert result.n_failed == 0
    with pytest.raises(ValueError, match="first 3 calls"):  # a mistake that comes with an edit of the function
        ps.minimize(misspelt, BOX, method=ps.PAO(), **settings | {"maxiter": 8})
    longer = ps.minimize(Counted(None, 0), BOX, method=ps.PAO(), **settings | {"maxiter": 8})
    assert (longer.n_failed, longer.nit) == (0, 8)


@pytest.mark.parametrize("how", [{}, {"workers": ps.Workers(asynchronous=True)}, {"vectorized": True}])
def test_a_store_keeps_failures_that_were_no_mistakes(how, tmp_path):
    store = ps.Store(tmp_path / "run.paoswarm", fsync="never", trust=True)
    settings = {"n_particles": 10, "maxiter": 4, "rng": 1, "store": store} | how
    with pytest.warns(RuntimeWarning, match="at 2 points"):
        first = ps.minimize(Counted(misspelt, 3 if "vectorized" in how else 2), BOX, method=ps.PAO(), **settings)
    with pytest.warns(RuntimeWarning, match="at 2 points"):
        again = ps.minimize(Counted(None, 0), BOX, method=ps.PAO(), **settings)
    assert again.fun == first.fun
    assert again.n_failed == first.n_failed == 2


def test_sample_stops_early_too():
    counted = Counted(undefined)
    with pytest.raises(ValueError, match=r"first 3 calls.*NameError"):
        ps.sample(counted, {"a": (0, 1)}, rng=1)
    assert counted.calls == 3


# Minus infinity


def unbounded(x):
    with np.errstate(divide="ignore"):
        return np.log(np.maximum(0.0, np.abs(x).sum(axis=-1) - 1.0))


@pytest.mark.parametrize("how", WAYS.values(), ids=WAYS)
def test_minus_infinity_is_a_failure(how):
    result = ps.minimize(unbounded, BOX, method=ps.PAO(), n_particles=20, maxiter=30, rng=1, **how)
    assert np.isfinite(result.fun)
    assert result.failure_kinds["returned -inf"] == result.n_failed > 0
    assert "returned -inf" in result.message
    assert "log likelihood" in result.hint


def test_minus_infinity_reaches_no_target():
    result = ps.minimize(unbounded, BOX, method=ps.PAO(), n_particles=20, maxiter=10, target=-1e300, rng=1)
    assert result.status is not ps.results.Status.TARGET


def test_minus_infinity_is_a_failure_in_many_runs_in_a_store_and_in_polishing(tmp_path):
    many = ps.minimize_many(unbounded, BOX, method=ps.PAO(), runs=3, n_particles=20, maxiter=30, vectorized=True, rng=1)
    assert np.isfinite(many.fun).all()
    assert (many.n_failed > 0).all()
    store = ps.Store(tmp_path / "run.paoswarm", fsync="never")
    call = functools.partial(ps.minimize, unbounded, BOX, n_particles=20, maxiter=30, polish=True, rng=1, store=store)
    result = call()
    assert np.isfinite(result.fun)
    assert call().failure_kinds == result.failure_kinds
    assert np.isnan(store.read()[1]).sum() == result.n_failed


def test_minus_infinity_that_is_told_or_known_is_a_failure():
    optimizer = ps.Optimizer(BOX, method=ps.PAO(), n_particles=10, rng=1)
    values = (optimizer.ask() ** 2).sum(axis=1)
    values[3] = -np.inf
    optimizer.tell(values)
    assert (np.isfinite(optimizer.result.fun), optimizer.result.n_failed) == (True, 1)
    optimizer.inject([[0.0, 0.0]], [-np.inf])
    assert np.isfinite(optimizer.result.fun)
    known = ps.minimize(
        lambda x: (x**2).sum(), BOX, method=ps.PAO(), x0=([1.0, 1.0], -np.inf), n_particles=10, maxiter=1, rng=1
    )
    assert np.isfinite(known.fun)


def test_an_objective_that_is_always_minus_infinite_is_an_error():
    with pytest.raises(ValueError, match="returned -inf"):
        ps.minimize(lambda x: -np.inf, BOX, method=ps.PAO(), n_particles=10, rng=1)
