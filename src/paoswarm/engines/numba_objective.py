"""The user's objective for numba: compiled into a loop over points."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from hashlib import blake2b
from types import CellType, CodeType, ModuleType, NoneType
from typing import Any

import numba
import numpy as np
from numba import types

from paoswarm._checks import FOR_RESIDUALS
from paoswarm.core.arrays import Floats
from paoswarm.engines import numba_data
from paoswarm.engines.engines import ForNumba
from paoswarm.engines.numba_options import Apart

# Sums may be taken in any order, so that they become vector instructions. NaN and infinities keep their meaning.
FASTMATH = {"contract", "reassoc", "nsz", "arcp"}
_POINT = types.Array(types.float64, 1, "C")
_CONSTANT_POINT = types.Array(types.float64, 1, "C", readonly=True)
_SIGNATURE = types.void(types.CPointer(types.float64), types.int64, types.CPointer(types.float64), types.int64)
_KEPT = 128  # programs: more than one session writes
_PLAIN = (NoneType, bool, int, float, complex, str, bytes, np.generic)


def objective(fun: Callable[..., Any] | ForNumba, d: int) -> Objective:
    """The compiled objective of ``d`` unknowns. Its program is kept for other calls and other data."""
    python, args, variables = fun if isinstance(fun, ForNumba) else ForNumba(fun)
    kinds = [numba_data.type_of(value, f"args[{i}]") for i, value in enumerate(args)]
    kind = types.Tuple([types.Tuple(kinds), numba_data.type_of(variables, "variables")])
    return Objective(_program(_Source(python), kind, d), (args, variables))


class Objective:
    """An objective and its data.

    Attributes
    ----------
    pointer : compiled code ``(points, m, values, data) -> None``
    data : int
        The address of the data, which live as long as this object.
    """

    def __init__(self, pointer: Any, args: tuple[Any, ...]) -> None:
        self.pointer, self._data = pointer, numba_data.RunTimeData(args)
        self.data = self._data.address

    def __call__(self, points: Floats) -> Floats:
        """The values at points ``(m, d)``."""
        rows = np.ascontiguousarray(points, dtype=float)
        values = np.empty(len(rows))
        call = self.pointer.ctypes
        first, _, last, _ = call.argtypes
        call(rows.ctypes.data_as(first), len(rows), values.ctypes.data_as(last), self.data)
        return values


class _Source:
    """A function, equal to another if its program is: the same code, and the same constants from outside of it.

    A function of `numba.njit` is itself alone: its globals are constants. Those of a plain function may have changed.
    """

    def __init__(self, fun: Any) -> None:
        self.python = getattr(fun, "py_func", fun)
        self.name = getattr(fun, "__name__", repr(fun))
        if not inspect.isfunction(self.python):
            raise TypeError(
                f"numba compiles functions of one point, and {self.name} is a {type(self.python).__name__}; write a "
                "function, and give its data as args= or as arrays from outside of it"
            )
        self.fastmath = getattr(fun, "targetoptions", {}).get("fastmath", FASTMATH)
        self._key = (fun,) if fun is not self.python else (fun.__code__, *_constants(fun))

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Source) and self._key == other._key


def _constants(fun: Any) -> Iterator[Any]:
    """What a function uses from outside of it, in a form that can be compared."""
    names = frozenset(name for code in _with_nested(fun.__code__) for name in code.co_names)
    for cell in fun.__closure__ or ():
        yield object() if cell == CellType() else _comparable(cell.cell_contents, names)
    for name in sorted(names & fun.__globals__.keys()):
        yield name, _comparable(fun.__globals__[name], names)


def _with_nested(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _with_nested(constant)


def _comparable(value: Any, names: frozenset[str]) -> Any:
    """A constant, of a module those with these names; what may have changed unseen is equal to nothing."""
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        return value.dtype.str, value.shape, blake2b(value.tobytes()).digest()
    if isinstance(value, tuple):
        return type(value), *(_comparable(part, names) for part in value)
    if isinstance(value, ModuleType):
        used = sorted(names & vars(value).keys())
        return value.__name__, *(_comparable(vars(value)[name], names - {name}) for name in used)
    if isinstance(value, _PLAIN):
        return type(value), repr(value)
    return value if callable(value) else object()


@lru_cache(maxsize=_KEPT)
def _program(source: _Source, kind: Any, d: int) -> Any:
    """A function as a pointer to compiled code, with data of this type.

    The code is a loop over points (d,). The number of unknowns is a constant in it, so that loops over unknowns are
    unrolled. A point where the function raises an error has failed. A function that writes to its point gets a copy.
    """
    options = {"error_model": "numpy", "fastmath": source.fastmath}
    (kinds, variables), read = kind, numba_data.reader(kind)
    one, writes = _compiled(source, kinds, options)
    has_variables = variables is not types.none
    is_own = writes or has_variables

    def measure(points: Any, m: int, values: Any, data: int) -> None:
        rows, found = numba.carray(points, (m, d)), numba.carray(values, (m,))
        args, variables = read(data)
        n = len(variables.place) if has_variables else d
        own = np.empty(n) if is_own else rows[0]  # one for all points: what an error leaves behind is not freed
        for i in range(m):
            if has_variables:
                _decode(rows[i], variables, own)
            elif is_own:
                own[:] = rows[i]
            given = (own if is_own else rows[i],) + args  # noqa: RUF005 - numba cannot unpack in a call that may raise
            try:
                value = one(*given)
            except Exception:
                value = math.nan
            found[i] = math.nan if value == -math.inf else value

    return numba.cfunc(_SIGNATURE, pipeline_class=Apart, **options)(measure)


@numba.njit(cache=True)
def _decode(z, variables, x):
    """The variables at coordinates ``z``."""
    for i in range(len(x)):
        k, low, high = variables.place[i], variables.at_lower[i], variables.at_upper[i]
        if variables.is_fixed[i]:
            x[i] = low
        elif not variables.is_log[i]:
            x[i] = z[k]
        elif z[k] <= variables.lower[k]:
            x[i] = low
        else:
            x[i] = high if z[k] >= variables.upper[k] else min(max(math.exp(z[k]), low), high)


def _compiled(source: _Source, kinds: Any, options: dict[str, Any]) -> tuple[Any, bool]:
    """The compiled function of one point, and whether it may write to the point."""
    try:
        return numba.njit(types.float64(_CONSTANT_POINT, *kinds), forceinline=True, **options)(source.python), False
    except Exception:  # it may write to its point, or call a compiled function that could
        pass
    try:
        return numba.njit(types.float64(_POINT, *kinds), forceinline=True, **options)(source.python), True
    except Exception as error:  # of numba, or of Python where numba looks something up
        raise TypeError(
            f"numba cannot compile {source.name}, which must be a function of one point x (d,) that returns a number: "
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
