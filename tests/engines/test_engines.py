"""Compiled engines against NumPy: the same steps with the same noise, the same law with their own."""

import math
import warnings
from functools import cache

import numpy as np
import pytest
from jax_alone import need_jax
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
from paoswarm.engines import counter
from paoswarm.engines.program import read_program

LOWER, UPPER = np.array([-3.0, -1.0, 0.5]), np.array([2.0, 4.0, 1.5])
with warnings.catch_warnings(action="ignore", category=ps.errors.HyperparameterWarning):
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


class WithNumba:
    """The numba engine and what it draws."""

    name = "numba"

    def __init__(self):
        pytest.importorskip("numba", reason="numba is not installed")

    def engine(self, program, precision="double"):
        from paoswarm.engines.numba_engine import NumbaEngine

        return NumbaEngine(program, rippled, precision, threads=1)

    def words_and_normals(self, keys, generation, n, d, precision="single"):
        from paoswarm.engines import numba_noise

        found = np.empty((len(keys), 2, n * d), dtype=np.float32)
        words = np.empty((2, len(keys), n * d), dtype=np.uint32)
        for r, key in enumerate(keys):
            numba_noise.normals(key, generation, 0, *words[:, r], *found[r])
        return words, found.reshape(len(keys), 2, n, d).astype(float)

    def first_points(self, keys, n, lower, upper):
        from paoswarm.engines import numba_noise

        x = np.empty((len(keys), n, len(lower)))
        room = numba_noise.make_room(n, len(lower))
        numba_noise.first_points(keys, counter.half_bits(n), lower, upper, *room, x)
        return x


@cache
def drawn_by_jax(n, d, precision):
    """Words and deviates, compiled once: JAX would compile one operation after the other, in seconds."""
    import jax

    from paoswarm.engines import jax_noise

    dtype = np.float64 if precision == "double" else np.float32

    def drawn(keys, generation):
        mixed = jax_noise.generation_keys(keys, generation)
        return jax_noise.words(keys, generation, n * d), jax_noise.normals(keys, mixed, n, d, dtype)

    return jax.jit(drawn)


class WithJax:
    """The JAX engine and what it draws."""

    name = "jax"

    def __init__(self):
        need_jax()

    def engine(self, program, precision="double"):
        from paoswarm.engines.jax_engine import JaxEngine

        return JaxEngine(program, rippled_with_jax, precision)

    def words_and_normals(self, keys, generation, n, d, precision="single"):
        import jax

        with jax.enable_x64(True):
            words, deviates = drawn_by_jax(n, d, precision)(keys, np.uint32(generation))
        return np.asarray(words), np.stack(deviates, axis=1).astype(float)

    def first_points(self, keys, n, lower, upper):
        import jax

        from paoswarm.engines import jax_noise

        with jax.enable_x64(True):
            return np.asarray(jax_noise.first_points(keys, n, lower, upper))


@pytest.fixture(params=[WithNumba, pytest.param(WithJax, marks=pytest.mark.slow)], ids=["numba", "jax"])
def kind(request):
    """An engine. JAX compiles for seconds in every test, so its tests are slow ones; see `test_jax_in_short`."""
    return request.param()


def rippled_with_jax(x):
    import jax.numpy as jnp

    j = jnp.arange(len(x))
    value = ((x - 0.3 * j) ** 2 + 0.3 * jnp.sin(5 * x) * x[-1]).sum()
    return jnp.where(x[0] > 1.5, jnp.nan, value)


# Steps with dense noise and steps in single precision other than the default take seconds to compile.
EVERY_STEP = [
    pytest.param(name, *level, marks=[pytest.mark.slow] if is_slow else [])
    for name in METHODS
    for level in (("double", 1e-12), ("single", 1e-6))
    for is_slow in [name != "default" and (level[0] == "single" or name == "covariance")]
]


@pytest.mark.parametrize(("name", "precision", "tolerance"), EVERY_STEP)
def test_every_step_is_that_of_numpy(kind, name, precision, tolerance):
    method, n, generations = METHODS[name], 12, 5
    keys = counter.run_keys(np.random.SeedSequence(6), 3)
    program = read_program(method, n, LOWER, UPPER, no_rules(), maxiter=generations)
    engine = kind.engine(program, precision)
    state = engine.begin(keys)
    normals = lambda t: kind.words_and_normals(keys, t, n, 3, precision)[1]  # noqa: E731
    swarms = reference(method, rippled_rows, n, LOWER, UPPER, keys, generations, normals)
    width = UPPER - LOWER
    before = np.inf
    for t, expected in enumerate(swarms):
        pairs = ((state.x, expected.position), (state.v, expected.velocity), (state.best, expected.best_position))
        for ours, theirs in pairs:
            np.testing.assert_allclose(np.asarray(ours) / width, theirs / width, atol=30 * tolerance, rtol=0)
        is_clear = ~np.isclose(expected.value, before, rtol=0, atol=100 * tolerance)  # one at rest may seem to improve
        np.testing.assert_array_equal(np.asarray(state.age)[is_clear] == 0, expected.age[is_clear] == 0)
        before = expected.best_value
        np.testing.assert_array_equal(np.isfinite(np.asarray(state.value)), np.isfinite(expected.value))
        state, _ = engine.advance(state, keys, t + 1, 1)


def test_deviates_and_first_swarms_are_those_of_the_counter(kind):
    keys = counter.run_keys(np.random.SeedSequence(2), 3)
    n, d = 17, 5
    words, normals = kind.words_and_normals(keys, 9, n, d)
    np.testing.assert_array_equal(words, counter.words(keys, 9, n * d))
    np.testing.assert_allclose(normals, counter.normals(keys, 9, n, d), atol=2e-6)
    box = -np.ones(d), np.ones(d)
    np.testing.assert_allclose(
        kind.first_points(keys, n, *box), counter.first_points(keys, n, *box), rtol=0, atol=1e-15
    )


def bowl(x):
    return (x[0] - 0.1) ** 2 + 2 * (x[1] - 0.2) ** 2 + 1


BOX = [(-2.0, 3.0)] * 2


ENGINES = {"numba": ps.engines.Numba(), "jax": ps.engines.Jax("double")}


def many(engine, fun=bowl, **options):
    engine = ENGINES.get(engine, engine)
    return ps.minimize_many(fun, BOX, **({"method": "PAO", "engine": engine, "rng": 3, "n_particles": 20} | options))


def test_a_run_is_the_same_alone_and_in_company(kind):
    engines = (ps.engines.Numba(threads=3), ps.engines.Numba(threads=1)) if kind.name == "numba" else ("jax", "jax")
    together, fewer = many(engines[0], runs=9), many(engines[1], runs=4)
    np.testing.assert_array_equal(together.x[:4], fewer.x)
    np.testing.assert_array_equal(together.nfev[:4], fewer.nfev)
    alone = ps.minimize(bowl, BOX, method="PAO", engine=ENGINES[kind.name], rng=together.seeds[2], n_particles=20)
    assert alone.fun == together.fun[2]
    np.testing.assert_array_equal(alone.x, together.x[2])
    np.testing.assert_array_equal(alone.history.best, together.run(2).history.best)


def test_runs_end_by_the_same_rules_as_with_numpy(kind):
    """The distribution of generations and of how runs ended; two tests with a false-alarm rate of 1e-3."""
    ours = many(kind.name, runs=300)
    theirs = many("numpy", lambda x: bowl(x.T), runs=300, vectorized=True)
    assert stats.ks_2samp(ours.nit, theirs.nit).pvalue > 1e-3
    assert set(ours.status) == set(theirs.status) == {ps.results.Status.CONVERGED}
    table = [
        [np.sum(np.char.startswith(one.message, start)) for start in ("Converged: no", "Converged: the")]
        for one in (ours, theirs)
    ]
    assert stats.fisher_exact(table).pvalue > 1e-3


def test_limits_are_exact(kind):
    assert (many(kind.name, runs=3, maxfev=107).nfev == 107).all()
    assert set(many(kind.name, runs=3, maxfev=107, tol=0).status) == {ps.results.Status.MAXFEV}
    by_generations = many(kind.name, runs=3, maxiter=7, tol=0)
    assert set(by_generations.status) == {ps.results.Status.MAXITER}
    assert (by_generations.nit == 7).all()
    assert by_generations.history.shape == (3, 8)
    hit = many(kind.name, runs=5, target=1.01)
    assert set(hit.status) == {ps.results.Status.TARGET}
    assert (hit.fun <= 1.01).all()
    assert (hit.history[np.arange(5), hit.nit - 1] > 1.01).all()  # one generation earlier it was not


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
        ({"method": None, "engine": "jax"}, "give method='PAO'"),
        ({"method": "DE"}, "DE needs engine='numpy'"),
        ({"vectorized": True}, "do not have vectorized; engine='numpy' has it"),
        ({"init": ps.minimize(sum, [(0, 1)] * 2, maxfev=50)}, "cannot continue from an earlier result"),
        ({"constraints": lambda x: x[0]}, "do not have constraints"),
        ({"engine": "nump"}, "did you mean numpy"),
        ({"method": ps.PAO(dt=ps.schedules.patient_step())}, "follow the swarm"),
        ({"method": ps.PAO(attractors=(local_best, NeighbourhoodBest("random")))}, "attractor NeighbourhoodBest"),
    ],
)
def test_what_the_engine_lacks_is_said_before_anything_is_evaluated(options, message):
    with pytest.raises(ValueError, match=message):
        many(**({"engine": "numba"} | options))


def test_an_objective_that_cannot_be_compiled_is_named(kind):
    with pytest.raises(TypeError, match=r"(numba cannot compile|JAX cannot trace) hopeless"):
        many(kind.name, hopeless)


def hopeless(x):
    return open(str(x)).read()


def test_an_objective_that_fails_everywhere_is_an_error(kind):
    with pytest.raises(ValueError, match="every point of the first swarm"):
        many(kind.name, lambda x: 0 * x[0] + math.nan)


def test_an_objective_is_kept_only_if_its_globals_are_constants():
    numba = pytest.importorskip("numba", reason="numba is not installed")
    from paoswarm.engines.numba_objective import objective

    jitted = numba.njit(bowl)
    assert objective(jitted, 2).pointer is objective(jitted, 2).pointer
    assert objective(jitted, 2).pointer is not objective(jitted, 3).pointer
    place = 0.5
    for place in (0.5, 1.5):
        assert abs(many("numba", lambda x: (x[0] - place) ** 2 + x[1] ** 2, runs=1).x[0, 0] - place) < 1e-3  # noqa: B023


def test_jax_in_short():
    """One program through the JAX engine in both precisions; the slow tests have the others."""
    kind, method, n = WithJax(), ps.PAO(), 12
    keys = counter.run_keys(np.random.SeedSequence(6), 3)
    program = read_program(method, n, LOWER, UPPER, no_rules(), maxiter=3)
    normals = lambda t: kind.words_and_normals(keys, t, n, 3, "double")[1]  # noqa: E731
    *_, expected = reference(method, rippled_rows, n, LOWER, UPPER, keys, 3, normals)
    for precision, tolerance in (("double", 3e-11), ("single", 3e-5)):
        engine = kind.engine(program, precision)
        state, history = engine.advance(engine.begin(keys), keys, 1, 3)
        np.testing.assert_allclose(np.asarray(state.x), expected.position, atol=tolerance)
        np.testing.assert_allclose(history[:, -1], expected.global_value, atol=tolerance)


def nan_outside(x):
    return math.nan if x[0] > 0.5 else (x[0] - 0.1) ** 2 + x[1] ** 2


def error_outside(x):
    if x[0] > 0.5:
        raise ValueError("outside of the model")
    return (x[0] - 0.1) ** 2 + x[1] ** 2


def error_with_a_number(x):
    if x[0] > 0.5:
        raise ValueError("outside of the model", x[0])
    return (x[0] - 0.1) ** 2 + x[1] ** 2


@pytest.mark.parametrize("fun", [error_outside, error_with_a_number])
def test_a_point_where_a_compiled_objective_raises_an_error_has_failed(fun, capfd):
    numba = pytest.importorskip("numba", reason="numba is not installed")
    engine, fun = ps.engines.Numba(threads=2), numba.njit(fun)
    failing, expected = many(engine, fun, runs=4, maxiter=20), many(engine, nan_outside, runs=4, maxiter=20)
    np.testing.assert_array_equal(failing.n_failed, expected.n_failed)
    assert (failing.n_failed > 0).all()
    np.testing.assert_array_equal(failing.history, expected.history)
    assert capfd.readouterr().err == ""  # numba prints errors that nobody catches
    with pytest.raises(ValueError, match="every point of the first swarm"):
        ps.minimize_many(fun, [(1.0, 2.0)] * 2, method="PAO", engine=engine, rng=1)


@pytest.mark.parametrize("precision", ["double", "single"])
@pytest.mark.parametrize(("n", "d"), [(201, 7), (45, 31)])
def test_swarms_of_several_blocks_are_those_of_numpy(n, d, precision):
    """The usual step takes 512 elements at a time; blocks here begin in the middle of a particle, the last is short."""
    kind, generations = WithNumba(), 3
    lower, upper = np.linspace(-2, -1, d), np.linspace(1, 3, d)
    keys = counter.run_keys(np.random.SeedSequence(5), 2)
    budget = (generations + 1) * n - 31  # the last generation moves some of the particles
    program = read_program(ps.PAO(), n, lower, upper, no_rules(), maxfev=budget)
    engine = kind.engine(program, precision)
    state, history = engine.advance(engine.begin(keys), keys, 1, generations)
    normals = lambda t: kind.words_and_normals(keys, t, n, d)[1]  # noqa: E731
    *_, before, expected = reference(ps.PAO(), rippled_rows, n, lower, upper, keys, generations, normals)
    tolerance = 1e-11 if precision == "double" else 2e-5
    np.testing.assert_allclose(state.x[:, :-31], expected.position[:, :-31], rtol=0, atol=tolerance)
    np.testing.assert_allclose(state.x[:, -31:], before.position[:, -31:], rtol=0, atol=tolerance)
    np.testing.assert_allclose(history[:, -2], before.global_value, rtol=0, atol=tolerance)
    assert (state.nfev == budget).all()


@pytest.mark.parametrize("walls", ["clip", "periodic"])
def test_a_swarm_has_converged_as_soon_as_its_spread_is_below_the_tolerance(walls):
    """With 200 particles, the spread is summed in several blocks, and only as far as it matters."""
    kind, n, tol, width = WithNumba(), 200, 0.03, UPPER - LOWER
    keys = counter.run_keys(np.random.SeedSequence(8), 3)
    rules = no_rules(tol=tol, near=0.0)
    engine = kind.engine(read_program(ps.PAO(walls=walls), n, LOWER, UPPER, rules, maxiter=100))
    state, has_converged = engine.begin(keys), np.zeros(3, dtype=bool)
    for t in range(60):
        leader = np.take_along_axis(state.best, state.best_value.argmin(axis=1)[:, None, None], axis=1)
        apart = (state.x - leader) / width
        apart -= np.rint(apart) if walls == "periodic" else 0
        has_converged |= np.sqrt((apart**2).mean(axis=(1, 2))) < tol
        np.testing.assert_array_equal(state.status == ps.results.Status.CONVERGED, has_converged)
        state, _ = engine.advance(state, keys, t + 1, 1)
    assert has_converged.all()
    assert state.nit.min() > 5


def test_deviates_of_extreme_words():
    """The smallest and the largest distances from the origin; a logarithm that is not below zero would give NaN."""
    pytest.importorskip("numba", reason="numba is not installed")
    from paoswarm.engines.numba_noise import _radius

    words = np.array([0, 1, 2, 3, *range(2**32 - 600, 2**32)], dtype=np.uint32)
    u = (words >> np.uint32(1)).astype(np.float32) * np.float32(2.0**-31) + np.float32(2.0**-32)
    expected = np.sqrt(-2 * np.log(u.astype(float)))
    np.testing.assert_allclose([_radius(word) for word in words], expected, rtol=1e-6, atol=0)


def test_jax_shares_runs_among_devices():
    """Two devices (here parts of one processor) give what one gives, but for rounding; three runs are given to one."""
    if len(need_jax().devices()) < 2:
        pytest.skip("JAX has one device; set XLA_FLAGS=--xla_force_host_platform_device_count=2")
    from paoswarm.engines.jax_engine import JaxEngine

    program = read_program(ps.PAO(), 9, LOWER, UPPER, no_rules(), maxiter=70)
    keys = counter.run_keys(np.random.SeedSequence(6), 4)
    ends = {}
    for devices in (1, None):
        engine = JaxEngine(program, rippled_with_jax, "double", devices)
        ends[devices], _ = engine.advance(engine.begin(keys), keys, 1, 66)  # many at once, then two
    assert len(ends[1].x.devices()) == 1
    assert len(ends[None].x.devices()) == 2
    for alone, shared in zip(ends[1], ends[None], strict=True):
        np.testing.assert_allclose(np.asarray(alone), np.asarray(shared), atol=1e-9)
    assert len(engine.begin(keys[:3]).x.devices()) == 1
