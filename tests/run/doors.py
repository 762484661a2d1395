"""The ways into a run: every function and engine that searches for a minimum, as functions with the same arguments."""

import os
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
import pytest
import scipy.optimize

import paoswarm as ps

BOX = [(-1.0, 2.0), (-2.0, 1.0)]
RUNS = 3
_OF_SCIPY = ("args", "bounds", "callback", "constraints", "tol", "x0")  # what SciPy's function takes itself


class Door(NamedTuple):
    """One way in: ``call(fun, **options)`` returns a `Result` or, for several runs, a `ManyResult`."""

    name: str
    call: Callable[..., Any]
    engine: str = "numpy"
    runs: int | None = None  # None for the functions that make one run
    lacks: tuple[str, ...] = ()

    def __call__(self, fun, **options):
        return self.call(fun, **options)

    def results(self, found):
        """Each run alone."""
        return [found] if self.runs is None else [found.run(r) for r in range(self.runs)]

    @property
    def is_compiled(self):
        return self.engine != "numpy"

    @property
    def is_loop(self):
        """Whether the function evaluates points itself, with limits of its own."""
        return self.call is not asked_and_told


def asked_and_told(fun, bounds=BOX, maxiter=8, tol=0, **options):
    """A loop around an `Optimizer`, as users write it, which ends after so many generations."""
    optimizer = ps.Optimizer(bounds, **options)
    for _ in range(maxiter + 1):
        optimizer.tell([_value(fun, x) for x in optimizer.ask()])
    return optimizer.result


def _value(fun, x):
    try:
        return fun(x)
    except ArithmeticError:
        return np.nan


def by_scipy(fun, bounds=BOX, x0=(0.0, 0.0), **options):
    """SciPy's function with the library as its method."""
    for_scipy = {name: options.pop(name) for name in _OF_SCIPY if name in options}
    with_settings = ps.scipy_method(**options)
    return scipy.optimize.minimize(fun, x0, bounds=bounds, method=with_settings, **for_scipy)


def _one(**fixed):
    return lambda fun, bounds=BOX, **options: ps.minimize(fun, bounds, **(fixed | options))


def _many(**fixed):
    return lambda fun, bounds=BOX, **options: ps.minimize_many(fun, bounds, **({"runs": RUNS} | fixed | options))


NO_STORE = ("store",)
DOORS = [
    Door("minimize", _one()),
    Door("minimize PAO", _one(method="PAO")),
    Door("asynchronous", _one(workers=ps.Workers(asynchronous=True))),
    Door("asynchronous PAO", _one(workers=ps.Workers(asynchronous=True), method="PAO")),
    Door("many", _many(), runs=RUNS),
    Door("many PAO", _many(method="PAO"), runs=RUNS),
    Door("ask and tell", asked_and_told),
    Door("SciPy", by_scipy),
    Door("numba", _one(engine="numba"), "numba", lacks=NO_STORE),
    Door("numba PAO", _one(engine="numba", method="PAO"), "numba"),
    Door("many numba", _many(engine="numba"), "numba", runs=RUNS, lacks=NO_STORE),
    Door("many numba PAO", _many(engine="numba", method="PAO"), "numba", runs=RUNS),
    Door("jax PAO", _one(engine=ps.engines.Jax("double"), method="PAO"), "jax"),
]


def need_engine(door):
    """Skip where the engine is not installed; JAX runs in a process of its own, see `tests/engines/jax_alone.py`."""
    if door.engine == "jax" and "PAOSWARM_TEST_JAX" not in os.environ:
        pytest.skip("JAX runs in a process of its own, see tests/engines/test_jax_alone.py")
    if door.is_compiled and find_spec(door.engine) is None:
        pytest.skip(f"{door.engine} is not installed")


def bowl(x):
    """One minimum, at (0.3, -0.2), of value -1."""
    return (x[0] - 0.3) ** 2 + 2 * (x[1] + 0.2) ** 2 - 1


def cracked(x):
    """The same with corners where it is NaN or -inf."""
    if x[0] > 1.0 and x[1] < -1.0:
        return np.nan
    if x[0] < 0.0 and x[1] > 0.5:
        return -np.inf
    return (x[0] - 0.3) ** 2 + 2 * (x[1] + 0.2) ** 2 - 1


def cracked_in_jax(x):
    import jax.numpy as jnp

    value = jnp.where((x[0] > 1.0) & (x[1] < -1.0), jnp.nan, bowl(x))
    return jnp.where((x[0] < 0.0) & (x[1] > 0.5), -jnp.inf, value)


@cache
def compiled(fun, engine):
    """The function as an engine wants it, compiled once for all tests."""
    if engine == "numba":
        import numba

        return numba.njit(fun)
    return cracked_in_jax if fun is cracked else fun


class Counted:
    """An objective that keeps its points and values, and calls ``at_call(number)`` before each."""

    def __init__(self, fun=bowl, at_call=lambda number: None):
        self.fun, self.at_call, self.points, self.values, self.calls = fun, at_call, [], [], 0

    def __call__(self, x):
        self.calls += 1
        self.at_call(self.calls)
        value = self.fun(x)
        self.points.append(np.array(x))
        self.values.append(value)
        return value
