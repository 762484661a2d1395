"""Which engine draws and weighs: NumPy, or JAX on a device."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike

from paoswarm._extras import need
from paoswarm.compiled.engines import Jax, Numba, read_engine
from paoswarm.core.arrays import Floats
from paoswarm.sampling.prior import Prior
from paoswarm.sampling.target import Target
from paoswarm.spaces.lmfit_parameters import OfParameters

if TYPE_CHECKING:
    from paoswarm.sampling.jax_likelihood import JaxLikelihood

# What JAX does not have, and the values that say that it is not wanted.
_LACKING: dict[str, Any] = {"vectorized": False, "workers": 1, "timeout": None, "store": None}


def read_traced(engine: Any, fun: Any, dim: int, **options: Any) -> JaxLikelihood | None:
    """The log likelihood made ready for JAX; None for NumPy. Raise if the engine, or an option for it, is unknown."""
    described = read_engine(engine, getattr(fun, "fun", fun))
    if engine == "auto" and described is not None:  # a function that was compiled with JAX, or with numba
        described = None if isinstance(described, Numba) else Jax()
    if described is None:
        return None
    if not isinstance(described, Jax):
        raise ValueError(f"sample has engine='numpy' and engine='jax', got {engine!r}")
    for name, default in _LACKING.items():
        if not (options[name] is default or (isinstance(options[name], bool | int) and options[name] == default)):
            if engine == "auto":
                return None
            raise ValueError(
                f"sample does not have {name} with engine='jax', which evaluates all draws of a batch at once; "
                "engine='numpy' has it"
            )
    if isinstance(fun, OfParameters):
        raise ValueError("JAX cannot trace functions of lmfit.Parameters; use engine='numpy'")
    need("jax", extra="jax", user="engine='jax'")
    from paoswarm.sampling.jax_likelihood import JaxLikelihood

    return JaxLikelihood(fun, dim, described.precision or "double")


def make_target(
    log_likelihood: Callable[[Floats], ArrayLike],
    prior: Prior,
    maxfev: int | None,
    traced: JaxLikelihood | None,
    count: Callable[[int], None] | None,
) -> Target:
    """The target for an engine; ``log_likelihood`` evaluates batches on the host's side."""
    if traced is None:
        return Target(log_likelihood, prior, maxfev)
    from paoswarm.sampling.jax_target import JaxTarget

    return JaxTarget(log_likelihood, prior, maxfev, traced, count)
