"""Objectives of variables as functions of the swarm's coordinates, inside the compiled code.

A variable with ``log=True`` is the exponential of its coordinate, and a fixed one has no coordinate. With JAX the
function may get its values by name.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from paoswarm._extras import need
from paoswarm.compiled.engines import Compiled, Numba, jitted
from paoswarm.compiled.program import NotCompiled
from paoswarm.spaces.space import Fixed, Space
from paoswarm.spaces.variables import Real


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


def of_coordinates(engine: Compiled, fun: Callable[..., Any], space: Space) -> Callable[..., Any]:
    """The user's function of a point as a function of its coordinates."""
    if space.is_plain:
        return fun
    made = _for_numba(fun, space) if isinstance(engine, Numba) else _for_jax(fun, space)
    made.__name__ = getattr(fun, "__name__", repr(fun))  # for messages
    return made


def _for_numba(fun: Callable[..., Any], space: Space) -> Callable[..., Any]:
    inner, d = jitted(fun), len(space.variables)
    place = np.cumsum([not isinstance(one, Fixed) for one in space.variables]) - 1
    is_fixed = np.array([isinstance(one, Fixed) for one in space.variables])
    is_log = np.array([isinstance(one, Real) and one.log for one in space.variables])
    at_lower, at_upper = (space.rows(end[None])[0] for end in (space.lower, space.upper))  # fixed values in both
    lower, upper = space.lower, space.upper

    def at_coordinates(z: Any) -> Any:
        x = np.empty(d)
        for i in range(d):
            k = place[i]
            if is_fixed[i] or (is_log[i] and z[k] <= lower[k]):
                x[i] = at_lower[i]
            elif is_log[i] and z[k] >= upper[k]:
                x[i] = at_upper[i]
            elif is_log[i]:
                x[i] = min(max(math.exp(z[k]), at_lower[i]), at_upper[i])
            else:
                x[i] = z[k]
        return inner(x)

    return at_coordinates


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
