"""The CUDA engine against NumPy, on a machine with a GPU; elsewhere these tests are skipped.

What the kernels share with the CPU, the translated objective, is tested everywhere: see ``test_translate.py``.
"""

import numpy as np
import pytest
from reference import no_rules, reference
from scipy import stats

import paoswarm as ps
from paoswarm.engines import counter
from paoswarm.engines.program import read_program

LOWER, UPPER = np.array([-3.0, -1.0, 0.5]), np.array([2.0, 4.0, 1.5])


def has_gpu():
    try:
        import cupy

        return cupy.cuda.runtime.getDeviceCount() > 0
    except Exception:
        return False


pytestmark = pytest.mark.skipif(not has_gpu(), reason="no CUDA device")


def bowls(x):
    import jax.numpy as jnp

    j = jnp.arange(len(x))
    value = ((x - 0.3 * j) ** 2 + 0.3 * jnp.sin(5 * x) * x[-1]).sum()
    return jnp.where(x[0] > 1.5, jnp.nan, value)


def bowls_rows(x):
    j = np.arange(x.shape[-1])
    values = ((x - 0.3 * j) ** 2 + 0.3 * np.sin(5 * x) * x[..., -1:]).sum(axis=-1)
    return np.where(x[..., 0] > 1.5, np.nan, values)


# Particles, unknowns, kernels, and what a block has of it: runs or particles.
LAYOUTS = [
    (12, 3, "resident", 1),
    (12, 3, "resident", 2),
    (100, 3, "resident", 3),
    (1024, 3, "resident", 1),
    (40, 20, "resident", 2),
    (250, 30, "together", 7),
    (1500, 3, "together", 300),
    (1500, 3, "streaming", 8),
    (70, 4, "streaming", 64),
]


def laid_out(monkeypatch, kind, share, n, d):
    """Have the engine use these kernels."""
    from paoswarm.engines.cuda import engine as cuda_engine
    from paoswarm.engines.cuda.plan import Plan, in_shared

    threads = -(-share * n // 32) * 32 if kind == "resident" else 256
    kept = {"resident": in_shared(d, threads) * d * threads, "together": share * ((d | 1) + 2 * d)}
    plan = Plan(kind, threads, share, 4 * kept.get(kind, share * (d | 1)))
    monkeypatch.setattr(cuda_engine, "plan_for", lambda *_: plan)


@pytest.mark.parametrize(("n", "d", "layout", "share"), LAYOUTS)
@pytest.mark.parametrize("tol", [0.0, 1e-9])
def test_every_step_is_that_of_numpy(monkeypatch, n, d, layout, share, tol):
    """One generation at a time, from NumPy's own swarm: errors do not add up."""
    from paoswarm.engines.cuda.engine import CudaEngine

    laid_out(monkeypatch, layout, share, n, d)
    lower, upper = np.resize(LOWER, d), np.resize(UPPER, d)
    method, generations = ps.PAO(dt=lambda progress: 1 + 0.2 * progress), 4
    keys = counter.run_keys(np.random.SeedSequence(6), 3)
    program = read_program(method, n, lower, upper, no_rules(tol=tol), maxiter=generations)
    engine = CudaEngine(program, bowls)
    state = engine.begin(keys)
    normals = lambda t: counter.normals(keys, t, n, d)  # noqa: E731
    width = upper - lower
    for t, expected in enumerate(reference(method, bowls_rows, n, lower, upper, keys, generations, normals)):
        pairs = ((state.x, expected.position), (state.v, expected.velocity), (state.best, expected.best_position))
        for ours, theirs in pairs:
            apart = np.abs(np.asarray(ours) / width - theirs / width)
            assert np.quantile(apart, 0.99) < 2e-5
        np.testing.assert_allclose(np.asarray(state.leader_value), expected.global_value, rtol=1e-4, atol=1e-4)
        assert (np.asarray(state.nit) == t).all()
        assert (np.isfinite(np.asarray(state.value)) == np.isfinite(expected.value)).mean() > 0.999
        if t < generations:
            state, history = engine.advance(state, keys, t + 1, 1)
            np.testing.assert_array_equal(history[:, 0], np.asarray(state.leader_value))


def test_first_swarms_are_those_of_the_counter():
    from paoswarm.engines.cuda.engine import CudaEngine

    for n in (17, 100, 3000):
        keys = counter.run_keys(np.random.SeedSequence(2), 2)
        program = read_program(ps.PAO(), n, LOWER, UPPER, no_rules(), maxiter=3)
        x = np.asarray(CudaEngine(program, bowls).begin(keys).x)
        np.testing.assert_allclose(x, counter.first_points(keys, n, LOWER, UPPER), atol=2e-6)


def rastrigin(x):
    import jax.numpy as jnp

    return jnp.sum(x * x - 10 * jnp.cos(2 * jnp.pi * x) + 10)


@pytest.mark.parametrize("n", [30, 1200])
def test_many_runs_end_as_with_numpy(n):
    """Final values and generations of 1000 runs against NumPy's; four tests, each with a false-alarm rate of 1e-3."""
    runs, box = (1000 if n == 30 else 60), [(-5, 4)] * 3
    options = {"method": "PAO", "n_particles": n, "runs": runs, "rng": 1, "maxiter": 60, "tol": 0}
    ours = ps.minimize_many(rastrigin, box, engine="cuda", **options)
    rows = lambda x: (x * x - 10 * np.cos(2 * np.pi * x) + 10).sum(axis=-1)  # noqa: E731
    theirs = ps.minimize_many(rows, box, vectorized=True, **options)
    assert stats.ks_2samp(ours.fun.round(4), theirs.fun.round(4)).pvalue > 1e-3
    assert stats.ks_2samp(ours.history[:, 20].round(4), theirs.history[:, 20].round(4)).pvalue > 1e-3
    np.testing.assert_allclose(ours.fun, rows(ours.x), rtol=1e-12)  # evaluated again in double precision


@pytest.mark.parametrize(
    ("n", "layout", "share"), [(30, "resident", 2), (1200, "together", 50), (1200, "streaming", 8)]
)
def test_limits_are_exact_and_runs_are_the_same_in_any_company(monkeypatch, n, layout, share):
    laid_out(monkeypatch, layout, share, n, 3)
    box = [(-5, 4)] * 3
    options = {"method": "PAO", "engine": "cuda", "rng": 1}
    limited = ps.minimize_many(rastrigin, box, runs=3, n_particles=n, maxfev=5 * n + 7, tol=0, **options)
    assert (limited.nfev == 5 * n + 7).all()
    assert set(limited.status) == {ps.results.Status.MAXFEV}
    hit = ps.minimize_many(rastrigin, box, runs=3, n_particles=n, target=2.0, maxiter=300, **options)
    assert set(hit.status) == {ps.results.Status.TARGET}
    alone = ps.minimize(rastrigin, box, method="PAO", engine="cuda", n_particles=n, target=2.0, maxiter=300,
                        rng=hit.seeds[1])  # fmt: skip
    np.testing.assert_array_equal(alone.x, hit.x[1])
    ended = ps.minimize_many(rastrigin, box, runs=3, n_particles=n, maxiter=3000, tol=1e-5, **options)
    assert set(ended.status) == {ps.results.Status.CONVERGED}


def test_an_objective_that_cannot_be_translated_falls_back_to_jax_and_says_so():
    import jax.numpy as jnp

    with pytest.warns(RuntimeWarning, match="operation sort"):
        found = ps.minimize_many(
            lambda x: jnp.sort(x * x)[-1], [(-1, 2)] * 2, method="PAO", engine="cuda", runs=3, rng=1
        )
    assert (found.fun < 1e-3).all()
