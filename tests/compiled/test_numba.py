"""The numba engine against NumPy: the same steps with the same noise, the same law with its own."""

import math
import warnings

import numpy as np
import pytest
from reference import no_rules, reference
from scipy import stats

import paoswarm as ps
from paoswarm.core.attractors import (
    NeighbourhoodBest,
    average_local_best,
    average_particle,
    global_best,
    local_best,
    weighted_average_particle,
)
from paoswarm.compiled import counter
from paoswarm.compiled.program import read_program

pytest.importorskip("numba", reason="numba is not installed")
from paoswarm.compiled import numba_engine, numba_noise  # noqa: E402

LOWER, UPPER = np.array([-3.0, -1.0, 0.5]), np.array([2.0, 4.0, 1.5])
with warnings.catch_warnings(action="ignore", category=ps.HyperparameterWarning):
    METHODS = {
        "default": ps.PAO(),
        "reflect": ps.PAO(walls="reflect"),
        "periodic": ps.PAO(walls="periodic"),
        "none": ps.PAO(walls="none"),
        "mean to best": ps.PAO(noise_scale=ps.noise.mean_to_best, noise=0.05),
        "covariance": ps.PAO(noise_scale=ps.noise.covariance),
        "schedule": ps.PAO(damping=ps.schedules.linear(0.1, 0.3), dt=lambda progress: 1.3 - 0.5 * progress),
        "per particle": ps.PAO(mass=np.linspace(0.5, 2, 12), stiffness=(np.linspace(0.2, 1, 12), 1.0)),
        "ring": ps.PAO(attractors=(local_best, NeighbourhoodBest("ring", 2))),
        "grid": ps.PAO(attractors=(local_best, NeighbourhoodBest("von neumann"), global_best), stiffness=(0.5, 1, 0.5)),
        "averages": ps.PAO(
            attractors=(local_best, average_local_best, average_particle, weighted_average_particle), stiffness=0.5
        ),
    }


def rippled(x):
    """A function of one point that fails in a corner of the box."""
    if x[0] > 1.5:
        return math.nan
    total = 0.0
    for j in range(len(x)):
        total += (x[j] - 0.3 * j) ** 2 + 0.3 * math.sin(5 * x[j]) * x[len(x) - 1]
    return total


def rippled_rows(x):
    j = np.arange(x.shape[-1])
    values = ((x - 0.3 * j) ** 2 + 0.3 * np.sin(5 * x) * x[..., -1:]).sum(axis=-1)
    return np.where(x[..., 0] > 1.5, np.nan, values)


def drawn(keys, generation, n, d):
    """The deviates that the engine draws."""
    found = np.empty((len(keys), 2, n * d), dtype=np.float32)
    words = [np.empty(n * d, dtype=np.uint32) for _ in range(2)]
    for key, (d1, d2) in zip(keys, found, strict=True):
        numba_noise.normals(key, generation, *words, d1, d2)
    return found.reshape(len(keys), 2, n, d).astype(float)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize(("precision", "tolerance"), [("double", 1e-12), ("single", 1e-6)])
def test_every_step_is_that_of_numpy(name, precision, tolerance):
    method, n, generations = METHODS[name], 12, 5
    keys = counter.run_keys(np.random.SeedSequence(6), 3)
    program = read_program(method, n, LOWER, UPPER, no_rules(), maxiter=generations)
    engine = numba_engine.NumbaEngine(program, rippled, precision, threads=1)
    state = engine.begin(keys)
    swarms = reference(method, rippled_rows, n, LOWER, UPPER, keys, generations, lambda t: drawn(keys, t, n, 3))
    width = UPPER - LOWER
    for t, expected in enumerate(swarms):
        for ours, theirs in (
            (state.x, expected.position),
            (state.v, expected.velocity),
            (state.best, expected.best_position),
        ):
            np.testing.assert_allclose(ours / width, theirs / width, atol=30 * tolerance, rtol=0)
        np.testing.assert_array_equal(state.age, expected.age)
        np.testing.assert_array_equal(np.isfinite(state.value), np.isfinite(expected.value))
        state, _ = engine.advance(state, keys, t + 1, 1)


def test_deviates_and_first_swarms_are_those_of_the_counter():
    keys = counter.run_keys(np.random.SeedSequence(2), 3)
    n, d = 17, 5
    words = [np.empty(n * d, dtype=np.uint32) for _ in range(2)]
    deviates = [np.empty(n * d, dtype=np.float32) for _ in range(2)]
    for key in keys:
        numba_noise.normals(key, 9, *words, *deviates)
        np.testing.assert_array_equal(words, counter.words(key, 9, n * d))
        np.testing.assert_allclose(deviates, counter.normals(key, 9, n, d).reshape(2, -1), atol=2e-6)
        x = np.empty((n, d))
        numba_noise.first_points(key, counter.half_bits(n), -np.ones(d), np.ones(d), x)
        np.testing.assert_array_equal(x, counter.first_points(key, n, -np.ones(d), np.ones(d)))


def bowl(x):
    total = 0.0
    for j in range(len(x)):
        total += (j + 1) * (x[j] - 0.1 * (j + 1)) ** 2 + 0.5
    return total


BOX = [(-2.0, 3.0)] * 2


def many(fun=bowl, **options):
    return ps.minimize_many(fun, BOX, **({"method": "PAO", "engine": "numba", "rng": 3, "n_particles": 20} | options))


def test_a_run_is_the_same_alone_and_in_company_and_on_any_number_of_threads():
    together = many(runs=9, engine=ps.compiled.Numba(threads=3))
    fewer = many(runs=4, engine=ps.compiled.Numba(threads=1))
    np.testing.assert_array_equal(together.x[:4], fewer.x)
    np.testing.assert_array_equal(together.nfev[:4], fewer.nfev)
    alone = ps.minimize(bowl, BOX, method="PAO", engine="numba", rng=together.seeds[2], n_particles=20)
    assert alone.fun == together.fun[2]
    np.testing.assert_array_equal(alone.x, together.x[2])
    np.testing.assert_array_equal(alone.history.best, together.run(2).history.best)


def test_runs_end_by_the_same_rules_as_with_numpy():
    """The distribution of generations and of how runs ended; two tests with a false-alarm rate of 1e-3."""
    rows = lambda x: ((np.arange(2) + 1) * (x - 0.1 * (np.arange(2) + 1)) ** 2 + 0.5).sum(axis=-1)  # noqa: E731
    ours, theirs = many(runs=300), many(rows, runs=300, engine="numpy", vectorized=True)
    assert stats.ks_2samp(ours.nit, theirs.nit).pvalue > 1e-3
    assert set(ours.status) == set(theirs.status) == {ps.Status.CONVERGED}
    table = [
        [np.sum(np.char.startswith(one.message, start)) for start in ("Converged: no", "Converged: the")]
        for one in (ours, theirs)
    ]
    assert stats.fisher_exact(table).pvalue > 1e-3


def test_limits_are_exact():
    assert (many(runs=3, maxfev=107).nfev == 107).all()
    assert set(many(runs=3, maxfev=107, tol=0).status) == {ps.Status.MAXFEV}
    by_generations = many(runs=3, maxiter=7, tol=0)
    assert set(by_generations.status) == {ps.Status.MAXITER}
    assert (by_generations.nit == 7).all()
    assert by_generations.history.shape == (3, 8)
    hit = many(runs=5, target=1.01)
    assert set(hit.status) == {ps.Status.TARGET}
    assert (hit.fun <= 1.01).all()
    assert (hit.history[np.arange(5), hit.nit - 1] > 1.01).all()  # one generation earlier it was not
    stagnant = many(lambda x: 1.0, runs=2, stagnation=4)
    assert set(stagnant.status) == {ps.Status.STAGNATED}
    assert (stagnant.nit == 4).all()


def test_schedules_follow_the_same_progress_as_with_numpy():
    """With a schedule of maxfev alone and of both limits: the table holds the coefficients at the right progress."""
    method = ps.PAO(dt=lambda progress: 1.0 + 0.2 * progress)
    for limits in ({"maxiter": 10}, {"maxfev": 105}, {"maxiter": 10, "maxfev": 105}):
        program = read_program(method, 10, LOWER, UPPER, no_rules(), **limits)
        t = 4  # generations done before the step
        maxiter, maxfev = limits.get("maxiter"), limits.get("maxfev")
        progress = max(t / maxiter if maxiter else 0, 10 * (t + 1) / maxfev if maxfev else 0)
        still = read_program(method.at(progress), 10, LOWER, UPPER, no_rules(), **limits)
        np.testing.assert_allclose(program.coefficients_of(t + 1), still.coefficients_of(1), rtol=1e-14)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": None}, "give method='PAO'"),
        ({"method": "DE"}, "DE needs engine='numpy'"),
        ({"vectorized": True}, "do not have vectorized; engine='numpy' has it"),
        ({"store": "x.paoswarm"}, "do not have store"),
        ({"constraints": lambda x: x[0]}, "do not have constraints"),
        ({"engine": "nump"}, "did you mean numpy"),
        ({"method": ps.PAO(dt=ps.schedules.patient_step())}, "follow the swarm"),
        ({"method": ps.PAO(attractors=(local_best, NeighbourhoodBest("random")))}, "attractor NeighbourhoodBest"),
    ],
)
def test_what_the_engine_lacks_is_said_before_anything_is_evaluated(options, message):
    with pytest.raises(ValueError, match=message):
        many(**options)


def test_an_objective_that_cannot_be_compiled_is_named():
    with pytest.raises(TypeError, match=r"numba cannot compile hopeless"):
        many(hopeless)


def hopeless(x):
    return open(str(x)).read()


def test_an_objective_that_fails_everywhere_is_an_error():
    with pytest.raises(ValueError, match="every point of the first swarm"):
        many(lambda x: math.nan)
