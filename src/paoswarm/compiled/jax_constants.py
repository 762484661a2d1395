"""Objectives for JAX that use arrays of NumPy, in single and in double precision.

JAX remembers such an array with the precision in which it has met it first. When it meets the same array in the other
one, it fails to compile, or rounds. Engines need both: swarms move in single precision, and their best points are
evaluated again in double precision. So the function is traced in both, each trace gets copies of the arrays, and JAX is
told to forget: functions of ``jax.jit`` are then compiled again when they are next called.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun


def with_own_constants(fun: Callable[..., Any], d: int) -> Callable[..., Any]:
    """The same function of a point ``x`` (d,), if it uses arrays of NumPy; any other as it is."""
    try:
        if not _of_numpy(jax.make_jaxpr(fun)(jax.ShapeDtypeStruct((d,), np.float32))):
            return fun
        traces = {np.dtype(kind): _traced(fun, d, kind) for kind in (np.float32, np.float64)}
    except Exception:  # the engine says why it cannot be traced
        return fun
    functions = {kind: jaxpr_as_fun(closed) for kind, (closed, _) in traces.items()}

    def objective(x: Any) -> Any:
        structure = jax.tree.structure(traces[x.dtype][1])
        return jax.tree.unflatten(structure, functions[x.dtype](x))

    objective.__name__ = getattr(fun, "__name__", repr(fun))  # for messages
    return objective


def _traced(fun: Callable[..., Any], d: int, kind: Any) -> tuple[ClosedJaxpr, Any]:
    """The trace of a function in single or in double precision with its own constants, and what it returns."""
    jax.clear_caches()
    with jax.enable_x64(kind is np.float64):
        closed, shape = jax.make_jaxpr(fun, return_shape=True)(jax.ShapeDtypeStruct((d,), kind))
    copies = [value if isinstance(value, jax.Array) else np.array(value) for value in closed.consts]
    jax.clear_caches()
    return ClosedJaxpr(closed.jaxpr, copies), shape


def _of_numpy(closed: Any) -> list[Any]:
    """The constants of a trace that are not arrays of JAX."""
    return [value for value in closed.consts if not isinstance(value, jax.Array)]
