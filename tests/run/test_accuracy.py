"""`tol` as the accuracy of searches that start again."""

import numpy as np
import pytest

import paoswarm as ps


def sphere(x):
    return ((x - 0.7) ** 2).sum(axis=-1)


def ellipsoid(x):
    return (10.0 ** (2 * np.arange(x.shape[-1])) * (x - 0.7) ** 2).sum(axis=-1)


def rosenbrock(x):
    return (100 * (x[..., 1:] - x[..., :-1] ** 2) ** 2 + (1 - x[..., :-1]) ** 2).sum(axis=-1)


def corner(x):
    return np.abs(x - 0.3).sum(axis=-1) + 5


FUNCTIONS = {sphere: 0.0, ellipsoid: 0.0, rosenbrock: 0.0, corner: 5.0}  # and the least value
BOX = [(-3, 3)] * 3
TOLS = (1e-12, 1e-8, 1e-4, 1e-2)
each_function = pytest.mark.parametrize("fun", FUNCTIONS)


def fall_of(fun):
    """From the median in the bounds to the minimum."""
    return np.median(fun(np.random.default_rng(0).uniform(-3, 3, size=(10_000, 3)))) - FUNCTIONS[fun]


def solved(fun, tol, seeds=range(20), **how):
    return [ps.minimize(fun, BOX, tol=tol, vectorized=True, rng=seed, **how) for seed in seeds]


@each_function
def test_a_lower_accuracy_takes_fewer_evaluations(fun):
    """But where a quadratic model is right, it finds the last digits at once."""
    method = ps.AdaptivePAO(kinds=ps.AdaptivePAO.swarms)
    counts = [np.median([one.nfev for one in solved(fun, tol, range(9), method=method)]) for tol in TOLS]
    assert all(after <= 1.1 * before for before, after in zip(counts, counts[1:], strict=False))
    assert counts[-1] < (1.01 if fun is sphere else 0.8) * counts[0]


@each_function
@pytest.mark.parametrize("tol", TOLS[1:])
def test_values_are_as_accurate_as_asked_for_and_claims_are_right(fun, tol):
    found = solved(fun, tol)
    off = np.array([one.fun for one in found]) - FUNCTIONS[fun]
    assert np.sum(off <= tol * fall_of(fun)) >= 19
    assert all(one.success and one.message.startswith(f"Converged within tol={tol:g}: ") for one in found)
    assert np.mean([one.agreement.is_unique for one in found]) > 0.7  # seldom "at different points"


def test_the_default_is_all_the_digits_that_there_are():
    usual, exact = ps.minimize(sphere, BOX, vectorized=True, rng=1), solved(sphere, 1e-12, [1])[0]
    finer = solved(sphere, 1e-14, [1])[0]
    assert usual.nfev == exact.nfev == finer.nfev
    assert usual.message.startswith("Converged: ")


@pytest.mark.parametrize(
    ("method", "fun"),
    [(ps.Restarts(ps.DensePAO()), corner), (ps.Restarts(ps.classic.DE()), sphere), (ps.MixedPAO(), sphere)],
)
def test_other_methods_that_start_again_end_earlier_too(method, fun):
    fine, coarse = (solved(fun, tol, [1], method=method)[0] for tol in (1e-12, 1e-3))
    assert coarse.nfev < 0.7 * fine.nfev
    assert coarse.fun - FUNCTIONS[fun] <= 1e-3 * fall_of(fun)


def test_a_few_outliers_do_not_make_it_coarser():
    plain = solved(sphere, 1e-4, [1])[0]
    spiked = solved(lambda x: np.where(x[:, 0] > 2.7, 1e30, sphere(x)), 1e-4, [1])[0]
    assert spiked.fun < 1e-4 * fall_of(sphere)
    assert spiked.nfev > 0.5 * plain.nfev


def test_asynchronous_particles_and_many_runs_have_it():
    how = {"method": ps.AdaptivePAO(kinds=ps.AdaptivePAO.swarms), "vectorized": True}
    many = [ps.minimize_many(corner, BOX, runs=3, tol=tol, rng=1, **how) for tol in (1e-12, 1e-3)]
    assert many[1].nfev.max() < 0.7 * many[0].nfev.min()
    alone = ps.minimize(corner, BOX, tol=1e-3, rng=many[1].seeds[1], **how)
    assert alone.nfev == many[1].nfev[1]


def test_searches_with_constraints_and_equalities_end_at_a_feasible_point():
    for constraint in (lambda x: x[0] - 0.2, {"type": "eq", "fun": lambda x: x[0] - x[1]}):
        method = ps.AdaptivePAO(local=False, kinds=ps.AdaptivePAO.swarms)
        fine, coarse = (
            ps.minimize(lambda x: float(sphere(x)), BOX, method=method, constraints=constraint, tol=tol, rng=1)
            for tol in (1e-12, 1e-3)
        )
        assert coarse.feasible
        assert coarse.nfev <= fine.nfev  # hardly ever less with equalities: no whole swarm satisfies them
        assert coarse.fun - fine.fun < 1e-3 * fall_of(sphere)
