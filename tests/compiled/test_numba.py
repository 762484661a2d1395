"""The numba engine against NumPy: the same steps with the same noise, the same law with its own."""

import math

import numpy as np
import pytest
from reference import no_rules, reference
from scipy import stats

import paoswarm as ps
from paoswarm.attractors import (
    NeighbourhoodBest,
    average_local_best,
    average_particle,
    global_best,
    local_best,
    weighted_average_particle,
)
from paoswarm.compiled import counter
from paoswarm.compiled.program import read_program

numba_engine = pytest.importorskip("paoswarm.compiled.numba_engine", reason="numba is not installed")

LOWER, UPPER = np.array([-3.0, -1.0, 0.5]), np.array([2.0, 4.0, 1.5])
METHODS = {
    "default": ps.PAO(),
    "reflect": ps.PAO(walls="reflect"),
    "periodic": ps.PAO(walls="periodic"),
    "none": ps.PAO(walls="none"),
    "mean to best": ps.PAO(noise_scale=ps.noise.mean_to_best, noise=0.05),
    "covariance": ps.PAO(noise_scale=ps.noise.covariance),
    "schedule": ps.PAO(damping=ps.schedules.linear(0.1, 0.6), dt=lambda progress: 1.5 - progress),
    "per particle": ps.PAO(mass=np.linspace(0.5, 2, 12), stiffness=(np.linspace(0.2, 1, 12), 1.0)),
    "ring": ps.PAO(attractors=(local_best, NeighbourhoodBest("ring", 2))),
    "grid": ps.PAO(attractors=(local_best, NeighbourhoodBest("von neumann"), global_best), stiffness=(1, 2, 0.5)),
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


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize(("precision", "tolerance"), [("double", 1e-12), ("single", 1e-6)])
def test_every_step_is_that_of_numpy(name, precision, tolerance):
    """From the same swarm and with the same deviates, up to the rounding of the deviates themselves."""
    method, n, generations = METHODS[name], 12, 5
    keys = counter.run_keys(np.random.SeedSequence(4), 3)
    program = read_program(method, n, LOWER, UPPER, no_rules(), maxiter=generations)
    engine = numba_engine.NumbaEngine(program, rippled, precision, threads=1, deviates=lambda *where: counter.normals(*where))
    state = engine.begin(keys)
    swarms = reference(method, rippled_rows, n, LOWER, UPPER, keys, generations, generations)
    width = UPPER - LOWER
    for t, expected in enumerate(swarms):
        for ours, theirs in ((state.x, expected.position), (state.v, expected.velocity), (state.best, expected.best_position)):
            np.testing.assert_allclose(ours / width, theirs / width, atol=30 * tolerance, rtol=0)
        np.testing.assert_array_equal(state.age, expected.age)
        np.testing.assert_array_equal(np.isnan(state.value), np.isnan(expected.value))
        state, _ = engine.advance(state, keys, t + 1, 1)


def test_deviates_and_first_swarms_are_those_of_the_counter():
    from paoswarm.compiled import numba_noise

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
