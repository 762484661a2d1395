"""Objectives as users have them, solved by the default search: noise, steps, failures, bounds, scales, tiny budgets."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import differential_evolution

import paoswarm as ps

ADAPTIVE = ps.AdaptivePAO()


def bowl(x):
    return np.square(x - 0.3).sum(axis=-1)


def rosenbrock(x):
    return (100 * (x[..., 1:] - x[..., :-1] ** 2) ** 2 + (1 - x[..., :-1]) ** 2).sum(axis=-1)


def solve(f, bounds, **options):
    return ps.minimize(f, bounds, **({"method": ADAPTIVE, "vectorized": True, "rng": 1} | options))


def test_a_minimum_in_a_corner_or_on_a_face_is_reached_to_the_last_bit():
    corner = solve(lambda x: x.sum(axis=1), [(-5, 5)] * 3)
    assert corner.success
    assert_array_equal(corner.x, [-5.0] * 3)
    face = solve(lambda x: np.square(x[:, 0] - 7) + bowl(x[:, 1:]), [(-5, 5)] * 3)
    assert face.success
    assert face.x[0] == 5.0
    assert_allclose(face.x[1:], 0.3, atol=1e-6)


@pytest.mark.parametrize(
    ("fails", "minimiser"),
    [
        (lambda x: x[:, 0] < 0, [0.3, 0.3, 0.3]),
        (lambda x: x[:, 0] < 0.5, [0.5, 0.3, 0.3]),
        (lambda x: x.sum(axis=1) < 2, [2 / 3] * 3),
    ],
    ids=["elsewhere", "at a face", "at an oblique edge"],
)
def test_a_minimum_beside_a_failing_half_is_found(fails, minimiser):
    result = solve(lambda x: np.where(fails(x), np.nan, bowl(x)), [(-5, 5)] * 3, maxfev=2500)
    assert result.n_failed > 10
    assert_allclose(result.x, minimiser, atol=1e-2)
    assert "failed" in result.message


def test_units_of_the_unknowns_and_of_the_values_change_nothing():
    """Powers of two, so that nothing is rounded: the same run, whatever a unit is."""
    units = 2.0 ** np.array([-20, 0, 20])
    plain = solve(rosenbrock, [(-2, 3)] * 3, maxfev=1500, tol=0)
    scaled = solve(
        lambda x: 2.0**30 * rosenbrock(x / units), np.array([(-2, 3)] * 3) * units[:, None], maxfev=1500, tol=0
    )
    assert_array_equal(scaled.x / units, plain.x)
    assert scaled.fun == 2.0**30 * plain.fun
    assert [one.evaluations for one in scaled.searches] == [one.evaluations for one in plain.searches]


@pytest.mark.parametrize("unit", [2.0**-990, 2.0**700], ids=["1e-298", "1e210"])
def test_tiny_and_huge_values_are_ordinary(unit):
    """The warnings of overflow and underflow would fail the test."""
    result = solve(lambda x: unit * bowl(x), [(-5, 5)] * 3)
    assert result.success
    assert_allclose(result.x, 0.3, atol=1e-5)


@pytest.mark.parametrize("offset", [1e10, -1e10])
def test_an_offset_that_swallows_most_digits_is_no_obstacle(offset):
    """Values are known to 1e-6, so positions to 1e-3."""
    result = solve(lambda x: offset + bowl(x), [(-5, 5)] * 3)
    assert result.success
    assert_allclose(result.x, 0.3, atol=5e-3)
    assert result.nfev < 3000


def test_steps_and_rounded_values_are_descended():
    assert solve(lambda x: np.floor(bowl(x)), [(-5, 5)] * 3, maxfev=1000).fun == 0
    assert solve(lambda x: np.floor(2 * np.abs(x)).sum(axis=1), [(-5, 5)] * 4, maxfev=3000).fun == 0
    assert solve(lambda x: np.round(bowl(x), 6), [(-5, 5)] * 3).success


def test_a_well_in_a_plateau_is_found_although_the_first_search_ends_flat():
    """The well is 3 % of the box. Searches that end on the plateau do not confirm it."""

    def well(x):
        return np.where(bowl(x) < 4, bowl(x) - 4, 0.0)

    assert solve(well, [(-5, 5)] * 3, maxfev=6000, target=-3.999).fun <= -3.999
    plateau = solve(lambda x: np.zeros(len(x)), [(-5, 5)] * 3, maxfev=2500)
    assert not plateau.success
    n = plateau.agreement.n_searches
    assert plateau.message.startswith(f"Stopped at maxfev=2500. Not confirmed: 1 of {n} independent searches ended at")


def test_a_ring_of_equal_minima_is_confirmed_by_its_value():
    result = solve(lambda x: np.square(np.hypot(x[:, 0], x[:, 1]) - 3), [(-5, 5)] * 2)
    assert result.success
    assert_allclose(np.hypot(*result.x), 3, atol=1e-6)
    assert "the minimum is not unique" in result.message


def test_noise_leaves_an_answer_as_good_as_the_noise_allows():
    rng = np.random.default_rng(0)

    def noisy(x):
        return bowl(x) + 0.1 * rng.normal(size=len(x))

    lucky = solve(noisy, [(-5, 5)] * 2, maxfev=2000, method=ps.PAO())
    noticed = solve(noisy, [(-5, 5)] * 2, maxfev=2000)
    measured = solve(noisy, [(-5, 5)] * 2, maxfev=2000, reevaluate=0.2)
    assert bowl(lucky.x) < 0.3
    assert lucky.fun < -0.15  # the best of many noisy values is too good
    for one in (noticed, measured):
        assert bowl(one.x) < 0.1
        assert abs(one.fun - bowl(one.x)) < 4 * one.fun_error + 0.05


@pytest.mark.parametrize("d", [1, 2, 10])
def test_thirty_evaluations_are_spent_better_than_by_the_peer(d):
    """Geometric means over eight seeds of the excess, with the same budget for SciPy's differential evolution."""

    def excess(run):
        return np.exp(np.mean([np.log(run(seed) + 1e-12) for seed in range(8)]))

    def peer(seed):
        values = []

        def counted(x):
            if len(values) < 30:
                values.append(bowl(x))
            return bowl(x)

        differential_evolution(counted, [(-5, 5)] * d, maxiter=1, polish=False, popsize=max(5, 15 // d), rng=seed)
        return min(values)

    ours = excess(lambda seed: solve(bowl, [(-5, 5)] * d, maxfev=30, rng=seed).fun)
    assert ours < excess(peer)


@pytest.mark.parametrize(("d", "budget"), [(1, 200), (50, 1000), (100, 1000)])
def test_few_and_many_unknowns(d, budget):
    """The first swarm is 9 for each unknown above the minimum."""
    assert solve(bowl, [(-5, 5)] * d, maxfev=budget).fun < (1e-6 if d == 1 else 3) * d
