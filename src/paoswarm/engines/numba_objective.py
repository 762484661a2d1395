"""The user's objective for numba: compiled into a loop over points."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

import numba
import numpy as np
from numba import types

from paoswarm._checks import FOR_RESIDUALS
from paoswarm.core.arrays import Floats
from paoswarm.engines.numba_options import Apart

# Sums may be taken in any order, so that they become vector instructions. NaN and infinities keep their meaning.
FASTMATH = {"contract", "reassoc", "nsz", "arcp"}
_POINT = types.Array(types.float64, 1, "C")
_CONSTANT_POINT = types.Array(types.float64, 1, "C", readonly=True)
_SIGNATURE = types.void(types.CPointer(types.float64), types.int64, types.CPointer(types.float64))


_KEPT: WeakKeyDictionary[Any, dict[int, Objective]] = WeakKeyDictionary()


def objective(fun: Callable[..., Any], d: int) -> Objective:
    """The compiled objective, kept from call to call for functions of `numba.njit`.

    For them it is known that globals are constants. Of a plain function they may have changed since the last call.
    """
    if not hasattr(fun, "py_func"):
        return Objective(fun, d)
    known = _KEPT.setdefault(fun, {})
    if d not in known:
        known[d] = Objective(fun, d)
    return known[d]


class Objective:
    """An objective of ``d`` unknowns as a pointer to compiled code.

    The code is a loop over points. The number of unknowns is a constant in it, so that loops over unknowns are
    unrolled. A point where the objective raises an error has failed. An objective that writes to its point gets a copy.

    Attributes
    ----------
    pointer : compiled code ``(points, m, values) -> None``
    """

    def __init__(self, fun: Callable[..., Any], d: int) -> None:
        python = getattr(fun, "py_func", fun)
        fastmath = getattr(fun, "targetoptions", {}).get("fastmath", FASTMATH)
        options = {"error_model": "numpy", "fastmath": fastmath}
        one, writes = _compiled(python, getattr(fun, "__name__", repr(fun)), options)

        def measure(points: Any, m: int, values: Any) -> None:
            rows, found = numba.carray(points, (m, d)), numba.carray(values, (m,))
            own = np.empty(d) if writes else rows[0]  # one for all points: what an error leaves behind is not freed
            for i in range(m):
                if writes:
                    own[:] = rows[i]
                try:
                    value = one(own if writes else rows[i])
                except Exception:
                    value = math.nan
                found[i] = math.nan if value == -math.inf else value

        self._d = d
        self.pointer = numba.cfunc(_SIGNATURE, pipeline_class=Apart, **options)(measure)

    def __call__(self, points: Floats) -> Floats:
        """The values at points ``(m, d)``."""
        rows = np.ascontiguousarray(points, dtype=float)
        values = np.empty(len(rows))
        call = self.pointer.ctypes
        first, _, last = call.argtypes
        call(rows.ctypes.data_as(first), len(rows), values.ctypes.data_as(last))
        return values


def _compiled(python: Any, name: str, options: dict[str, Any]) -> tuple[Any, bool]:
    """The compiled function of one point, and whether it may write to the point."""
    if not inspect.isfunction(python):
        raise TypeError(
            f"numba compiles functions of one point, and {name} is a {type(python).__name__}; write a function, and "
            "give its data as args= or as arrays from outside of it"
        )
    try:
        return numba.njit(types.float64(_CONSTANT_POINT), forceinline=True, **options)(python), False
    except Exception:  # it may write to its point, or call a compiled function that could
        pass
    try:
        return numba.njit(types.float64(_POINT), forceinline=True, **options)(python), True
    except Exception as error:  # of numba, or of Python where numba looks something up
        raise TypeError(
            f"numba cannot compile {name}, which must be a function of one point x (d,) that returns a number: "
            f"{_reason(error)}. Use engine='numpy' for a function that is not compiled; {FOR_RESIDUALS}"
        ) from error


def _reason(error: Exception) -> str:
    """Why numba cannot compile a function, in one line of its many, which are coloured if colorama is installed."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", str(error))
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("Failed in nopython")]
    reason = re.sub(r" for '.*', defined at .*", "", lines[0] if lines else type(error).__name__).strip(" .:")
    where = re.search(r'^File ".*", line (\d+)', text, flags=re.MULTILINE)
    reason = reason if where is None else f"{reason} (line {where[1]} of its file)"
    return reason + _advice(text)


def _advice(text: str) -> str:
    """What to do about an error of numba; usually empty."""
    helper = re.search(r"Untyped global name '(\w+)': Cannot determine Numba type of <class 'function'>", text)
    if helper is not None:
        return f"; decorate {helper[1]} with numba.njit"
    if re.search(r"getitem\(array\(float64, 1d, C\), (Uni)?Tuple", text):
        return "; it gets one point, not many"
    if "Signature mismatch" in text or "Cannot bind" in text:
        return "; all its arguments but x must be in args"
    return ""
