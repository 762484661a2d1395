"""Objectives for JAX that use arrays of NumPy, in single and in double precision.

JAX remembers such an array with the precision in which it has met it first. When it meets the same array in the other
one, it fails to compile, or rounds. Engines need both: swarms move in single precision, and their best points are
evaluated again in double precision. So the function is traced in both, each trace gets copies of the arrays, and JAX is
told to forget: functions of ``jax.jit`` are then compiled again when they are next called. Such functions inside of the
objective, and their arrays, are no exception.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, jaxpr_as_fun


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
    owned = _with_copies(closed)
    jax.clear_caches()
    return owned, shape


def _with_copies(part: Any) -> Any:
    """A trace, or a parameter of an operation in it, with copies of all arrays of NumPy.

    Functions of ``jax.jit`` are operations that have traces, with constants of their own.
    """
    if isinstance(part, ClosedJaxpr):
        copies = [value if isinstance(value, jax.Array) else np.array(value) for value in part.consts]
        return ClosedJaxpr(_with_copies(part.jaxpr), copies)
    if isinstance(part, Jaxpr):
        steps = [one.replace(params={key: _with_copies(of) for key, of in one.params.items()}) for one in part.eqns]
        return part.replace(eqns=steps)
    if type(part) is tuple:  # the branches of jax.lax.cond
        return tuple(_with_copies(one) for one in part)
    return part


def _of_numpy(part: Any) -> list[Any]:
    """The constants of a trace, or of a parameter of an operation in it, that are not arrays of JAX."""
    if isinstance(part, ClosedJaxpr):
        return [value for value in part.consts if not isinstance(value, jax.Array)] + _of_numpy(part.jaxpr)
    if isinstance(part, Jaxpr):
        return [value for one in part.eqns for of in one.params.values() for value in _of_numpy(of)]
    if type(part) is tuple:
        return [value for one in part for value in _of_numpy(one)]
    return []
