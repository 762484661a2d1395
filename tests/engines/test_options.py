"""Options of compiled runs: args, polish, callbacks, first points, and the choice of an engine."""

import math

import numpy as np
import pytest
from jax_alone import need_jax

import paoswarm as ps
from paoswarm.engines.engines import to_compile
from paoswarm.run.read_input import read_space

numba = pytest.importorskip("numba", reason="numba is not installed")
from paoswarm.engines.numba_objective import objective  # noqa: E402

TIMES = np.linspace(0.0, 1.0, 12)
DATA = 2 * np.exp(-3 * TIMES)
BOX = [(0.0, 5.0)] * 2
HOW = {"method": "PAO", "engine": "numba", "n_particles": 20, "rng": 4}


@numba.njit
def misfit(x, times, data, weight):
    total = 0.0
    for i in range(len(times)):
        total += weight * (data[i] - x[0] * math.exp(-x[1] * times[i])) ** 2
    return total


@numba.njit
def bound(x):
    return misfit(x, TIMES, DATA, 2.0)


def test_args_are_bound_to_the_function():
    with_args = ps.minimize_many(misfit, BOX, runs=3, args=(TIMES, DATA, 2.0), **HOW)
    without = ps.minimize_many(bound, BOX, runs=3, **HOW)
    np.testing.assert_allclose(with_args.x, without.x, rtol=1e-9)  # a sum over constants may have another order
    np.testing.assert_allclose(with_args.history, without.history, rtol=1e-9, atol=1e-28)
    with pytest.raises(TypeError, match=r"args\[1\] is a dict, which numba cannot compile"):
        ps.minimize(misfit, BOX, args=(TIMES, {}, 2.0), **HOW)
    with pytest.raises(TypeError, match=r"args\[0\] is a list, which numba cannot compile"):
        ps.minimize(misfit, BOX, args=(list(TIMES), DATA, 2.0), **HOW)


@numba.njit
def bowl(x):
    return (x[0] - 2.0) ** 2 + 3 * (x[1] - 3.0) ** 2


@numba.njit
def overwriting(x):
    value = (x[0] - 2.0) ** 2 + 3 * (x[1] - 3.0) ** 2
    x[:] = 7.0
    return value


@numba.njit(numba.float64(numba.float64[::1]))
def with_signature(x):
    return (x[0] - 2.0) ** 2 + 3 * (x[1] - 3.0) ** 2


@pytest.mark.parametrize("fun", [overwriting, with_signature, lambda x: with_signature(x)])
def test_an_objective_that_may_overwrite_its_point_changes_nothing(fun):
    usual, other = (ps.minimize_many(one, BOX, runs=3, maxiter=12, tol=0, **HOW) for one in (bowl, fun))
    for name in ("x", "fun", "history"):  # the last digits depend on how the compiler orders the sum
        np.testing.assert_allclose(other[name], usual[name], rtol=1e-9, err_msg=name)
    np.testing.assert_allclose(other.swarm.position, usual.swarm.position, rtol=1e-9)


def test_polishing_ends_at_the_minimum_and_counts_its_evaluations():
    rough = ps.minimize_many(bound, BOX, runs=5, maxfev=260, tol=0, **HOW)
    polished = ps.minimize_many(bound, BOX, runs=5, maxfev=260, tol=0, polish=True, **HOW)
    np.testing.assert_allclose(polished.x, np.tile([2.0, 3.0], (5, 1)), atol=1e-4)
    assert (polished.fun < rough.fun).all()
    assert (polished.nfev <= 260).all()
    np.testing.assert_allclose([bound(x) for x in polished.x], polished.fun, rtol=1e-6)  # sums in another order
    assert all("for polishing" in text and "Polished with" in text for text in polished.message)
    single = ps.minimize(bound, BOX, polish=True, **HOW | {"engine": ps.engines.Numba("single")})
    np.testing.assert_allclose(single.x, [2.0, 3.0], atol=1e-5)
    assert single.success


@pytest.mark.parametrize("given", [{"init": "sobol"}, {"x0": [2.0, 2.0]}, {"init": "random"}], ids=str)
def test_first_points_differ_from_run_to_run_and_repeat_alone(given):
    many = ps.minimize_many(bound, BOX, runs=3, maxiter=5, **HOW, **given)
    alone = ps.minimize(bound, BOX, maxiter=5, **HOW | {"rng": many.seeds[1]}, **given)
    np.testing.assert_array_equal(many.x[1], alone.x)
    np.testing.assert_array_equal(many.history[1], alone.history.best)
    assert len(np.unique(many.history[:, 0])) > 1 or "x0" in given
    assert len(np.unique(many.history[:, 1])) == 3


def test_the_history_begins_with_the_first_swarm():
    many = ps.minimize_many(bound, BOX, runs=3, maxiter=30, **HOW)
    start = ps.minimize_many(bound, BOX, runs=3, maxiter=0, **HOW)
    np.testing.assert_array_equal(many.history[:, 0], start.fun)
    assert (many.history[:, 0] > many.history[:, -1]).all()


def test_sums_keep_their_order_if_the_user_says_so():
    def rounding_error(x):
        total, lost = 0.0, 0.0
        for i in range(100):
            term = x[0] * i - lost
            new = total + term
            lost = (new - total) - term
            total = new
        return abs(lost)

    strict, free = (
        ps.minimize_many(numba.njit(**how)(rounding_error), BOX, runs=1, maxiter=1, tol=0, **HOW).swarm.value
        for how in ({"fastmath": False}, {})
    )
    assert strict.any()
    assert not free.any()  # the compiler takes it for zero


def test_what_a_callback_has_seen_stays_as_it_was():
    seen = []

    def look(intermediate_result):
        swarm = intermediate_result.swarm
        seen.append((swarm, [np.array(part) for part in swarm if part is not None]))

    ps.minimize_many(bound, BOX, runs=2, callback=look, maxiter=100, tol=0, **HOW)
    assert len(seen) > 2
    for swarm, before in seen:
        for now, then in zip((part for part in swarm if part is not None), before, strict=True):
            np.testing.assert_array_equal(now, then)


def test_the_callback_of_minimize_sees_one_run():
    seen = []
    ps.minimize(bound, BOX, callback=lambda intermediate_result: seen.append(intermediate_result), **HOW)
    ps.minimize(bound, BOX, callback=lambda x: seen.append(x), **HOW)
    assert (seen[0].x.shape, seen[0].nit, seen[0].nfev, seen[0].swarm.position.shape) == ((2,), 0, 20, (20, 2))
    assert isinstance(seen[0].fun, float)
    assert seen[-1].shape == (2,)


def test_auto_takes_the_engine_of_the_function_if_it_has_everything():
    def engine(fun=bound, **given):
        options = {"method": "PAO", "maxiter": 2, "n_particles": 10, "rng": 1} | given
        return ps.minimize(fun, BOX, engine="auto", **options).engine

    assert engine() == "numba"
    assert engine(bound.py_func) == "numpy"
    again = ps.Restarts(ps.PAO())
    for lacking in (
        {"method": "DE"},
        {"method": again},
        {"constraints": lambda x: x[0] - 4},
        {"workers": ps.Workers(timeout=100)},
    ):
        assert engine(**lacking) == "numpy"
    many = ps.minimize_many(bound, BOX, runs=2, method="PAO", engine="auto", rng=1)
    assert many.engine == many.run(1).engine == "numba"
    assert repr(many).startswith("2 runs on engine='numba', ")
    assert ps.minimize(bound.py_func, BOX, maxfev=30).engine == "numpy"


@pytest.mark.slow
def test_auto_takes_jax_for_a_function_of_jit():
    jax = need_jax()
    jitted = jax.jit(lambda x: ((x - 1) ** 2).sum())
    assert ps.minimize(jitted, BOX, method="PAO", maxiter=2, engine="auto").engine in ("jax", "cuda")
    assert ps.minimize(lambda x: ((x - 1) ** 2).sum(), BOX, method="PAO", maxiter=2, engine="auto").engine == "numpy"


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["single", "double"])
def test_jax_takes_data_of_numpy_in_both_precisions(precision):
    """JAX remembers an array of NumPy with the precision in which it has met it first."""
    jax = need_jax()
    jnp = jax.numpy

    def misfit_with_jax(x, times, data):
        return jnp.sum((data - x[0] * jnp.exp(-x[1] * times)) ** 2)

    how = HOW | {"engine": ps.engines.Jax(precision), "polish": True}
    by_args = ps.minimize(misfit_with_jax, BOX, args=(TIMES, DATA), **how)
    by_closure = ps.minimize(lambda x: misfit_with_jax(x, TIMES, DATA), BOX, **how)
    by_jit = ps.minimize(jax.jit(lambda x: misfit_with_jax(x, TIMES, DATA)), BOX, **how)
    for found in (by_args, by_closure, by_jit):
        np.testing.assert_allclose(found.x, [2.0, 3.0], atol=1e-5)
        expected = ((DATA - found.x[0] * np.exp(-found.x[1] * TIMES)) ** 2).sum()
        np.testing.assert_allclose(found.fun, expected, rtol=1e-6, atol=1e-25)  # data in double precision
    assert jnp.asarray(TIMES).dtype == np.float32  # the arrays of the user are as they were


@pytest.mark.parametrize(
    ("fun", "message"),
    [
        (lambda x: x, r"No conversion from array\(float64, 1d, C\) to float64 \(line \d+ of its file\)"),
        (lambda x, y: x[0], "function takes 2 arguments; all its arguments but x must be in args"),
        (lambda x: x[:, 0].sum(), "it gets one point, not many"),
        (lambda x: shifts(x, 1), "decorate shifts with numba.njit"),
        (lambda x: undefined_name(x), "name 'undefined_name' is not defined"),  # noqa: F821
        (lambda x: HOW["rng"], "Untyped global name 'HOW'"),
        (abs, "compiles functions of one point, and abs is a builtin_function_or_method"),
        (3, "fun must be callable, got 3"),
    ],
)
def test_what_numba_cannot_compile_is_said_in_one_line(fun, message):
    with pytest.raises(TypeError, match=message) as error:
        ps.minimize(fun, BOX, **HOW)
    assert "\n" not in str(error.value)


def overwrites(x):
    x[0] = 10 ** x[0]
    return (x[0] - 2) ** 2 + x[1] ** 2


def shifts(x, by):
    x -= by
    return (x * x).sum()


@pytest.mark.parametrize("precision", ["single", "double"])
def test_a_function_may_write_to_its_point(precision):
    how = HOW | {"engine": ps.engines.Numba(precision)}
    first, second = ps.minimize(overwrites, BOX, **how), ps.minimize(shifts, BOX, args=(0.5,), **how)
    np.testing.assert_allclose(first.x, [math.log10(2), 0], atol=1e-4)
    np.testing.assert_allclose(second.x, [0.5, 0.5], atol=1e-4)


def decay(x):
    return (math.log(x[0]) + 2) ** 2 + (x[1] - x[2]) ** 2


SPACE = [ps.Real(1e-3, 10.0, log=True), (0.0, 5.0), 1.5]


def test_logarithmic_and_fixed_variables_are_those_of_a_function_that_takes_exponentials(tmp_path):
    file = tmp_path / "run.paoswarm"
    ps.minimize_many(decay, SPACE, runs=3, maxiter=5, x0=[0.5, 2.0, 1.5], store=file, **HOW)
    ours = ps.resume(file, decay, maxiter=30)
    theirs = ps.minimize_many(
        lambda z: (math.log(math.exp(z[0])) + 2) ** 2 + (z[1] - 1.5) ** 2,
        [(math.log(1e-3), math.log(10.0)), (0.0, 5.0)],
        runs=3,
        maxiter=30,
        x0=[math.log(0.5), 2.0],
        **HOW,
    )
    np.testing.assert_allclose(ours.history, theirs.history, rtol=1e-9)  # the compiler rounds otherwise
    values = np.stack([np.exp(theirs.x[:, 0]), theirs.x[:, 1], np.full(3, 1.5)], axis=1)
    np.testing.assert_allclose(ours.x, values, rtol=1e-9)
    np.testing.assert_allclose([decay(x) for x in ours.x], ours.fun, rtol=1e-9)
    assert (ps.Store(file).read()[0][:, 2] == 1.5).all()


def test_the_ends_of_logarithmic_variables_are_exact():
    ends = np.array([[math.log(1e-3), 0.25], [math.log(10.0), 5.0]])
    for i, expected in enumerate(([1e-3, 10.0], [0.25, 5.0], [1.5, 1.5])):
        fun = to_compile(ps.engines.Numba(), numba.njit(lambda x, i: x[i]), (i,), read_space(SPACE))
        np.testing.assert_array_equal(objective(fun, 2)(ends), expected)


@pytest.mark.parametrize(
    ("space", "message"),
    [
        ({"a": (0, 1)}, "its variables have no names"),
        ([ps.Integer(0, 4), (0, 1)], r"do not have Integer\(0, 4\), the variable x0"),
        ([(0, 1), ps.Periodic(0, 1)], r"do not have Periodic\(.*, the variable x1"),
    ],
)
def test_other_variables_are_refused_by_name(space, message):
    with pytest.raises(ValueError, match=message):
        ps.minimize(bound, space, **HOW)


@pytest.mark.slow
def test_jax_takes_variables_by_name():
    need_jax()
    import jax.numpy as jnp

    space = {"rate": ps.Real(1e-3, 10.0, log=True), "place": (0.0, 5.0), "centre": 1.5, "kind": "square"}

    def by_name(p):
        assert p["kind"] == "square"
        return (jnp.log(p["rate"]) + 2) ** 2 + (p["place"] - p["centre"]) ** 2

    found = ps.minimize(by_name, space, **HOW | {"engine": ps.engines.Jax("double")})
    assert found.best["kind"] == "square"
    assert abs(found.best["rate"] - math.exp(-2)) < 1e-6


def test_an_empty_list_of_constraints_is_none():
    assert ps.minimize(bound, BOX, constraints=[], maxiter=2, **HOW).engine == "numba"


def test_an_objective_that_raises_errors_everywhere_is_said_to():
    with pytest.raises(ValueError, match="raised an error, or was NaN or infinite, at every point"):
        ps.minimize(lambda x: np.sum(np.reshape(x, (1, 2)), axis=len(x))[0], BOX, **HOW)


def test_jax_refuses_complex_values():
    need_jax()
    with pytest.raises(TypeError, match="must return a real number, but it returns complex64"):
        ps.minimize(lambda x: 1j * x[0], BOX, **HOW | {"engine": "jax"})
