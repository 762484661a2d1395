"""Dense searches of noisy objectives: the width they keep, the answer, and how noise is noticed."""

import math

import numpy as np
import pytest
from scipy.stats import binomtest, kstest

import paoswarm as ps
from paoswarm.methods import averaging
from paoswarm.methods.averaging import Averaging, Contraction
from paoswarm.methods.dense_learning import first_law, longest

BOX = [(-5, 5)] * 5


def sphere(x):
    return np.square(x - 1.3).sum(axis=-1)


def rosenbrock(x):
    return (100 * (x[..., 1:] - x[..., :-1] ** 2) ** 2 + (1 - x[..., :-1]) ** 2).sum(axis=-1)


def noisy(fun, seed, sd=1.0):
    rng = np.random.default_rng(seed)
    return lambda x: fun(x) + sd * rng.normal(size=len(x))


def solve(fun, seed, maxfev=3000, bounds=BOX, **options):
    return ps.minimize(fun, bounds, vectorized=True, maxfev=maxfev, tol=0, rng=seed, **options)


def narrowing(fun, seed, method, **options):
    """A run that is not started again."""
    return solve(fun, seed, method=ps.Restarts(method, growth=1.0), **options)


def test_the_answer_is_the_mean_of_the_centres_with_weights_that_grow_as_the_third_power():
    rng = np.random.default_rng(1)
    centres = rng.normal(size=(60, 3))
    known = Averaging(centres[0], repeated=np.ones(40), apart=np.ones(40))
    for centre in centres[1:]:
        known = averaging.with_centre(known, centre)
    k = np.arange(1, 61)
    weights = (k) * (k + 1) * (k + 2)  # of (A21) with eta = 3
    np.testing.assert_allclose(known.x, weights @ centres / weights.sum(), rtol=1e-12)


def test_while_the_slope_is_visible_the_answer_is_the_latest_centre():
    known = Averaging(np.zeros(2), generations=9, repeated=np.ones(40), apart=np.full(40, 20.0))
    after = averaging.with_centre(known, np.ones(2))
    assert after.generations == 1
    np.testing.assert_array_equal(after.x, 1.0)


def test_a_law_becomes_no_narrower_where_noise_hides_the_slope():
    before = first_law(np.full(3, 0.5), 0.1)
    law = before._replace(scale=0.05, covariance=0.25 * np.eye(3))
    hidden = Averaging(before.centre, repeated=np.ones(40), apart=np.ones(40))
    after = averaging.widened(hidden, law, before)
    assert math.isclose(after.scale**2 * np.trace(after.covariance) / 3, (1.05 * 0.1) ** 2)
    visible = hidden._replace(apart=np.full(40, 2.1))
    assert averaging.widened(visible, law, before) is law
    assert averaging.widened(Averaging(before.centre), law, before) is law  # nothing is known about the noise
    wide = first_law(np.full(3, 0.5), 0.3)
    assert averaging.widened(hidden, wide, wide).scale == 0.3


def test_the_mean_of_the_measurements_and_its_error_are_those_of_the_weights():
    """By the definition of a variance, for deviates of a known law; a false alarm in one of a thousand seeds."""
    z = []
    for seed in range(300):
        rng = np.random.default_rng(seed)
        swarm = ps.results.Swarm if hasattr(ps.results, "Swarm") else None
        known = Averaging(np.zeros(2), generations=2, value=float(rng.normal()), variance=1.0)
        state = None
        for _ in range(20):
            known = _measured(known, float(rng.normal()), state, swarm)
            known = known._replace(generations=known.generations + 1)
        z.append(known.value / math.sqrt(known.variance))
    assert kstest(z, "norm").pvalue > 1e-3


def _measured(known, value, state, _):
    class Plain:
        """As much of a swarm as is asked for."""

        @staticmethod
        def snapped(x):
            return x

    return averaging.with_trial(known, Plain(), np.zeros(2), value)._replace(shown=None)


@pytest.mark.parametrize("law", ["normal", "cauchy", "bernoulli"])
def test_a_visible_slope_is_told_from_noise_of_any_law(law):
    """Both medians are of the same law if there is no signal: their ratio is above 2 once in a thousand times."""
    draw = {
        "normal": lambda rng, n: rng.normal(size=n),
        "cauchy": lambda rng, n: rng.standard_cauchy(n),
        "bernoulli": lambda rng, n: rng.normal(size=n) + 1e3 * (rng.uniform(size=n) < 0.2),
    }[law]
    seen = []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        known = averaging.with_particles(Averaging(np.zeros(2)), draw(rng, 80))
        seen.append(known._replace(repeated=averaging._differences(draw(rng, 80))).has_signal(2.0))
    assert np.mean(seen) < 0.05
    rng = np.random.default_rng(1)
    known = averaging.with_particles(Averaging(np.zeros(2)), 20 * rng.normal(size=80) + draw(rng, 80))
    assert known._replace(repeated=averaging._differences(draw(rng, 80))).has_signal(2.0)


class TestNoticing:
    def test_a_cloud_that_contracts_while_values_do_not_is_strange(self):
        watch = Contraction()
        for width in (0.2, 0.1, 0.05, 0.03):
            watch = watch.after(1.0, width)
            assert not watch.is_strange
        assert watch.after(0.8, 0.03).after(1.2, 0.02).is_strange

    @pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
    def test_values_that_fall_with_the_width_are_not(self, power):
        watch = Contraction()
        for width in 0.9 ** np.arange(200):
            watch = watch.after(width**power, width)
            assert not watch.is_strange

    def test_nor_are_equal_values(self):
        watch = Contraction()
        for width in 0.5 ** np.arange(20):
            watch = watch.after(0.0, width)
            assert not watch.is_strange

    def test_smooth_functions_cost_nothing_more(self):
        seen = []

        def watched(x):
            seen.extend(map(bytes, np.ascontiguousarray(x)))
            return rosenbrock(x)

        result = solve(watched, 1, maxfev=2000)
        assert result.fun < 1e-9
        assert len(set(seen)) == len(seen) == result.nfev

    def test_a_rugged_function_costs_a_point_for_some_searches_and_keeps_its_course(self, monkeypatch):
        def rastrigin(x):
            return (x**2 - 10 * np.cos(2 * np.pi * x) + 10).sum(axis=-1)

        def points():
            seen = []
            result = solve(lambda x: (seen.extend(map(bytes, np.ascontiguousarray(x))), rastrigin(x))[1], 3, 2500)
            return seen, result

        seen, result = points()
        assert result.fun_error is None
        assert 1 <= len(seen) - len(set(seen)) <= len(result.searches) + 2
        monkeypatch.setattr(averaging, "_NARROWER", math.inf)
        without, _ = points()
        assert len(set(without)) == len(without)
        assert list(dict.fromkeys(seen)) == without[: len(set(seen))]

    def test_noise_is_noticed_and_said(self):
        result = solve(noisy(sphere, 1), 1)
        assert "Noise was noticed after" in result.message
        assert result.fun_error > 0

    def test_runs_that_notice_it_and_those_that_do_not_have_one_result(self):
        def sometimes(x):
            return np.where(np.random.default_rng(len(seen)).uniform() < 2, rosenbrock(x), 0) + add()

        seen = []

        def add():
            seen.append(1)
            return 0.0

        many = ps.minimize_many(sometimes, BOX[:2], runs=2, vectorized=True, maxfev=300, rng=1)
        assert many.fun_error is None
        rng = np.random.default_rng(2)
        many = ps.minimize_many(
            lambda x: sphere(x) + rng.normal(size=len(x)), BOX[:3], runs=3, vectorized=True, maxfev=900, rng=1
        )
        errors = np.full(3, np.nan) if many.fun_error is None else many.fun_error
        assert errors.shape == (3,)
        for r in range(3):
            assert (many.run(r).fun_error is None) == bool(np.isnan(errors[r]))

    def test_a_noisy_end_is_not_polished(self):
        result = solve(noisy(sphere, 1), 1, polish=True)
        assert "Noise was noticed" in result.message
        assert "Polished" not in result.message


@pytest.mark.parametrize(("fun", "most"), [(sphere, 0.15), (rosenbrock, 2.5)])
def test_the_true_value_of_the_answer_is_better_than_that_of_the_luckiest_point(fun, most):
    """Measured: medians 0.04 and 1.2; it wins 0.9 of the pairs, so 8 of 12 are missed once in a thousand seeds."""
    averaged = [fun(solve(noisy(fun, seed), seed, reevaluate=0.2).x) for seed in range(12)]
    lucky = [fun(solve(noisy(fun, seed), seed, method=ps.ElementPAO()).x) for seed in range(12)]
    assert np.median(averaged) < most
    assert binomtest(int(np.sum(np.less(averaged, lucky))), 12, alternative="greater").pvalue < 0.2


def test_the_stated_value_is_right_within_its_error():
    """Of 20 answers, at most one in three misses by more than two errors; it would be one in twenty for a fixed point."""
    misses = []
    for seed in range(20):
        result = narrowing(noisy(sphere, seed), seed, ps.DensePAO(), reevaluate=0.2, maxfev=2000)
        misses.append((result.fun - sphere(result.x)) / result.fun_error)
    assert np.mean(np.abs(misses) < 2) > 2 / 3
    assert abs(np.median(misses)) < 1.5


def test_the_cloud_stays_as_wide_as_noise_demands_and_contracts_without_it():
    def width(fun):
        result = solve(fun, 1, method=ps.DensePAO(model=False), reevaluate=0.2, maxfev=2500)
        return longest(result.swarm.memory.law)

    assert width(noisy(sphere, 1)) > 0.01
    assert width(sphere) < 1e-4


def test_a_function_without_noise_is_solved_although_it_is_said_to_be_noisy():
    result = solve(rosenbrock, 1, reevaluate=0.2, maxfev=3000, bounds=BOX[:3])
    assert result.fun < 1e-9
    assert result.fun == rosenbrock(result.x)


def test_the_answer_was_evaluated():
    seen = set()

    def watched(x):
        seen.update(map(bytes, np.ascontiguousarray(x)))
        return noisy_sphere(x)

    noisy_sphere = noisy(sphere, 4)
    result = solve(watched, 4, reevaluate=0.2, maxfev=1500)
    assert bytes(np.ascontiguousarray(result.x)) in seen
