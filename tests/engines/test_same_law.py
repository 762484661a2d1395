"""Final values of compiled runs have the distribution that they have with NumPy, whose random numbers are others."""

import math
from functools import cache

import numpy as np
import pytest
from jax_alone import need_jax
from scipy import stats

import paoswarm as ps

RUNS = 1500
ALARM = 1e-3  # false-alarm rate of each comparison
BOX = [(-4.12, 5.12)] * 3


def rastrigin(x):
    total = 0.0
    for j in range(len(x)):
        total += x[j] ** 2 - 10 * math.cos(2 * math.pi * x[j]) + 10
    return total


def rastrigin_rows(x):
    return (x**2 - 10 * np.cos(2 * np.pi * x) + 10).sum(axis=-1)


def rastrigin_with_jax(x):
    import jax.numpy as jnp

    return jnp.sum(x * x - 10 * jnp.cos(2 * jnp.pi * x) + 10)


# Few generations: values are spread out, and show how swarms move. Many: most runs have ended in a local minimum.
@pytest.fixture(params=[12, 50], ids=["few generations", "many generations"])
def maxiter(request):
    """Generations of each run."""
    return request.param


def many(fun, maxiter, method=None, **options):
    how = {"runs": RUNS, "n_particles": 12, "tol": 0.0, "maxiter": maxiter, "method": method or ps.PAO()}
    return ps.minimize_many(fun, BOX, **how, **options)


@cache
def with_numpy(maxiter):
    return many(rastrigin_rows, maxiter, vectorized=True, rng=1)


def assert_same_law(ours, maxiter):
    """Compare the best values, and one coordinate of the best points: two tests with the rate ``ALARM``.

    They are rounded: in local minima, single and double precision differ in the last digits of the same value.
    """
    theirs = with_numpy(maxiter)
    assert stats.ks_2samp(ours.fun.round(3), theirs.fun.round(3)).pvalue > ALARM
    assert stats.ks_2samp(ours.x[:, 0].round(3), theirs.x[:, 0].round(3)).pvalue > ALARM


@pytest.fixture(scope="module")
def jitted():
    """The objective, compiled once."""
    return pytest.importorskip("numba", reason="numba is not installed").njit(rastrigin)


@pytest.mark.parametrize("precision", ["double", "single"])
def test_numba_has_the_same_law(jitted, precision, maxiter):
    assert_same_law(many(jitted, maxiter, engine=ps.engines.Numba(precision), rng=2), maxiter)


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["double", "single"])
def test_jax_has_the_same_law(precision, maxiter):
    need_jax()
    assert_same_law(many(rastrigin_with_jax, maxiter, engine=ps.engines.Jax(precision), rng=2), maxiter)


def test_a_swarm_with_other_damping_would_be_noticed(jitted):
    others = many(jitted, 12, ps.PAO(damping=0.3), engine="numba", rng=2)
    assert stats.ks_2samp(others.fun.round(3), with_numpy(12).fun.round(3)).pvalue < 1e-5
