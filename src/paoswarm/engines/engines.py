"""Which engine runs the generations: a name or a description, and the objective in the form that it compiles."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from paoswarm._checks import choices, whole_number
from paoswarm._extras import need
from paoswarm._text import warn_user
from paoswarm.core.arrays import Floats
from paoswarm.engines.counter import Words
from paoswarm.engines.program import NotCompiled, Program, State
from paoswarm.space.space import Fixed, Space
from paoswarm.space.variables import Real

PRECISIONS = ("double", "single")
NAMES = ("numpy", "numba", "jax", "cuda", "auto")


class CompiledEngine(Protocol):
    """Runs a program. It may hold its arrays wherever it likes, as long as NumPy can read them.

    Attributes
    ----------
    longest : int
        Generations in one call, at most.
    at_once : int
        Calls with a multiple of so many generations are the fastest.
    """

    longest: int
    at_once: int

    def begin(self, keys: Words, given: Floats | None = None) -> State:
        """The first swarms of runs with these keys, evaluated; ``given`` points (n, d) replace the design."""

    def advance(self, state: State, keys: Words, generation: int, count: int) -> tuple[State, Floats]:
        """Move on by ``count`` generations, the first of which has this number, or until runs end.

        Return where the runs stand, and their best values after every generation ``(runs, count)``.
        """

    def evaluate(self, points: Floats) -> Floats:
        """The objective at points ``(m, d)``, in double precision if the engine has it."""


@dataclass(frozen=True)
class Numba:
    """Swarms on the cores of this machine, with an objective that numba compiles.

    Parameters
    ----------
    precision : {"double", "single"}
        Of the swarms; the objective always sees double precision.
    threads : int, optional
        One per core if not given. The result does not depend on it.

    Examples
    --------
    >>> import paoswarm as ps
    >>> ps.engines.Numba(threads=2)
    Numba(precision='double', threads=2)
    """

    precision: str = "double"
    threads: int | None = None
    takes_states: ClassVar[bool] = True  # of arrays in the memory of the host, such as a store keeps

    def __post_init__(self) -> None:
        _check_precision(self.precision)
        if self.threads is not None:
            object.__setattr__(self, "threads", whole_number("threads", self.threads, 1))

    def make(self, program: Program, fun: Callable[..., Any] | ForNumba) -> CompiledEngine:
        """The engine for a program and an objective."""
        need("numba", extra="numba", user="engine='numba'")
        from paoswarm.engines.numba_engine import NumbaEngine

        return NumbaEngine(program, fun, self.precision, self.threads)


@dataclass(frozen=True)
class Jax:
    """Swarms on the devices that JAX uses, with an objective that JAX can trace.

    Parameters
    ----------
    precision : {"single", "double"}, optional
        Of swarms and objective: by default single. Of the log likelihood of `sample`: by default double. Global
        settings of JAX stay as they are.
    devices : int, optional
        How many devices share the runs, at most; all of them if not given. Each gets the same number of runs, so only
        as many take part as divide the number of runs. The result does not depend on it. `sample` uses one device.

    Examples
    --------
    >>> import paoswarm as ps
    >>> ps.engines.Jax(precision="double")
    Jax(precision='double', devices=None)
    """

    precision: str | None = None
    devices: int | None = None
    takes_states: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _check_precision(self.precision or "single")
        if self.devices is not None:
            object.__setattr__(self, "devices", whole_number("devices", self.devices, 1))

    def make(self, program: Program, fun: Callable[..., Any]) -> CompiledEngine:
        """The engine for a program and an objective."""
        need("jax", extra="jax", user="engine='jax'")
        from paoswarm.engines.jax_constants import with_own_constants
        from paoswarm.engines.jax_engine import JaxEngine

        precision = self.precision or "single"
        return JaxEngine(program, with_own_constants(fun, program.n_dimensions), precision, self.devices)


@dataclass(frozen=True)
class Cuda:
    """Swarms in CUDA kernels of our own, in single precision, with an objective that JAX can trace.

    The objective is translated into the kernels. If it cannot be, or if the swarm is not of the default kind, the JAX
    engine takes its place and a warning says why. The returned points are evaluated again in double precision.
    """

    takes_states: ClassVar[bool] = False  # swarms stay on the device

    def make(self, program: Program, fun: Callable[..., Any]) -> CompiledEngine:
        """The engine for a program and an objective."""
        need("cupy", extra="cuda", user="engine='cuda'")
        need("jax", extra="cuda", user="engine='cuda'")
        from paoswarm.engines.cuda.engine import CudaEngine, usable
        from paoswarm.engines.cuda.translate import CannotTranslate
        from paoswarm.engines.jax_constants import with_own_constants
        from paoswarm.engines.jax_engine import JaxEngine

        fun = with_own_constants(fun, program.n_dimensions)
        why = usable(program)
        try:
            if not why:
                return CudaEngine(program, fun)
        except CannotTranslate as error:
            why = f"the objective cannot be translated: {error}"
        warn_user(f"engine='cuda' is replaced by engine='jax', because {why}")
        return JaxEngine(program, fun)


def _check_precision(precision: str) -> None:
    if precision not in PRECISIONS:
        raise ValueError(f"precision must be 'double' or 'single', got {precision!r}")


Compiled = Numba | Jax | Cuda


def read_engine(engine: Any, fun: Any) -> Compiled | None:
    """The description of a compiled engine; None for NumPy."""
    if isinstance(engine, Compiled):
        return engine
    if not isinstance(engine, str):
        raise TypeError(f"engine must be one of {', '.join(NAMES)}, or ps.engines.Numba(...), got {engine!r}")
    if engine not in NAMES:
        raise ValueError(f"unknown engine {engine!r}; {choices(engine, NAMES)}")
    if engine == "auto":
        return _engine_of(fun)
    return {"numpy": None, "numba": Numba(), "jax": Jax(), "cuda": Cuda()}[engine]


def _engine_of(fun: Any) -> Compiled | None:
    """The engine for a function that the user has compiled; None if it is not compiled."""
    numba, jax = sys.modules.get("numba"), sys.modules.get("jax")
    if numba is not None and isinstance(fun, numba.core.dispatcher.Dispatcher):
        return Numba()
    if jax is None or not isinstance(fun, type(jax.jit(abs))):
        return None
    if jax.config.jax_enable_x64:
        return Jax("double")
    return Cuda() if jax.default_backend() == "gpu" and find_spec("cupy") is not None else Jax()


class ForNumba(NamedTuple):
    """A function for numba, with everything that may differ between calls: data, which is no part of the program."""

    fun: Callable[..., Any]
    args: tuple[Any, ...] = ()  # after the point
    variables: Variables | None = None  # if the point is not made of the coordinates themselves


class Variables(NamedTuple):
    """How the variables (n,) of a point follow from its coordinates (d,)."""

    place: Any  # (n,), which coordinate
    is_fixed: Any  # (n,)
    is_log: Any  # (n,)
    at_lower: Any  # (n,), the values at the bounds; fixed values are in both
    at_upper: Any
    lower: Any  # (d,), the bounds of the coordinates
    upper: Any


def to_compile(engine: Compiled, fun: Callable[..., Any], args: tuple[Any, ...], space: Space) -> Any:
    """The user's function ``fun(x, *args)`` of a point in the form that the engine compiles."""
    if isinstance(engine, Numba):
        return ForNumba(fun, args, None if space.is_plain else _variables(space))
    of_point = (lambda x: fun(x, *args)) if args else fun
    made = of_point if space.is_plain else _for_jax(of_point, space)
    if made is not fun:
        made.__name__ = getattr(fun, "__name__", repr(fun))  # for messages
    return made


def _variables(space: Space) -> Variables:
    is_fixed = np.array([isinstance(one, Fixed) for one in space.variables])
    is_log = np.array([isinstance(one, Real) and one.log for one in space.variables])
    at_lower, at_upper = (space.rows(end[None])[0] for end in (space.lower, space.upper))
    return Variables(np.cumsum(~is_fixed) - 1, is_fixed, is_log, at_lower, at_upper, space.lower, space.upper)


def name_of(engine: CompiledEngine) -> str:
    """The name of an engine that was made: another than the one asked for may have taken its place."""
    return type(engine).__name__.removesuffix("Engine").lower()


def check_space(engine: Compiled, space: Space) -> None:
    """Raise if the engine does not have these variables."""
    if type(space) is not Space:
        raise NotCompiled("compiled engines do not have lmfit.Parameters; engine='numpy' has them")
    for label, one in zip(space.labels(), space.variables, strict=True):
        if not isinstance(one, Real | Fixed):
            raise NotCompiled(
                f"compiled engines do not have {one!r}, the variable {label}; engine='numpy' has it. They take bounds, "
                "ps.Real and fixed values"
            )
    if space.names is not None and isinstance(engine, Numba):
        raise NotCompiled(
            "a function for numba gets an array, so its variables have no names: give them as a list, or use "
            "engine='jax' or 'numpy'"
        )


def _for_jax(fun: Callable[..., Any], space: Space) -> Callable[..., Any]:
    jnp = need("jax", extra="jax", user="engine='jax'").numpy

    def at_coordinates(z: Any) -> Any:
        values: list[Any] = []
        k = 0
        for one in space.variables:
            if isinstance(one, Fixed):
                values.append(one.fixed if space.names is not None else one.decode(np.zeros((1, 0)))[0])
                continue
            assert isinstance(one, Real)
            value = jnp.clip(jnp.exp(z[k]), one.low, one.high) if one.log else z[k]
            if one.log:  # the ends are exact
                value = jnp.where(z[k] <= space.lower[k], one.low, jnp.where(z[k] >= space.upper[k], one.high, value))
            values.append(value)
            k += 1
        if space.names is not None:
            return fun(dict(zip(space.names, values, strict=True)))
        return fun(jnp.stack([jnp.asarray(value, dtype=z.dtype) for value in values]))

    return at_coordinates
