"""The data of an objective at run time: ``args`` in memory, from which compiled code takes them.

Constants would be a part of the code: other data would be another program, compiled anew, and numba frees no code.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numba
import numpy as np
from numba import types
from numba.core import cgutils
from numba.core.registry import cpu_target
from numba.extending import intrinsic

_OWNED = types.Array, types.UnicodeType  # whose memory Python owns: compiled code is lent it


def type_of(value: Any, name: str) -> Any:
    """The type of an argument to numba; arrays cannot be written to, as several threads read them."""
    try:
        kind = numba.typeof(value)
    except ValueError:
        kind = None
    if kind is None or not _is_data(kind):
        raise TypeError(
            f"{name} is a {type(value).__name__}, which numba cannot compile; give numbers, arrays, or tuples of them"
        )
    return _constant(kind)


class RunTimeData:
    """Arguments in memory, which lives as long as this object.

    Attributes
    ----------
    address : int
    """

    def __init__(self, args: tuple[Any, ...]) -> None:
        context = _context()
        size = context.get_abi_sizeof(context.get_data_type(numba.typeof(args)))
        self._kept = args, np.zeros(1 + size // 16, dtype=complex)  # aligned for every type
        self.address: int = self._kept[1].ctypes.data
        _put(self.address, args)


@cache
def reader(kind: Any) -> Callable[[int], Any]:
    """Compiled code that takes arguments of this type, a tuple, from their address."""

    @intrinsic
    def read(typingctx, address):
        def made(context, builder, signature, arguments):
            return context.unpack_value(builder, kind, _pointer(context, builder, kind, arguments[0]))

        return kind(address), made

    found: Callable[[int], Any] = read
    return found


@numba.njit  # not kept on disk: other programs could not read the index if there are types of the user in it
def _put(address, args):
    _write(address, args)


@intrinsic
def _write(typingctx, address, args):
    def made(context, builder, signature, arguments):
        kind, lent = args, _lent(context, builder, args, arguments[1])
        context.pack_value(builder, kind, lent, _pointer(context, builder, kind, arguments[0]))
        return context.get_dummy_value()

    return types.void(address, args), made


def _pointer(context: Any, builder: Any, kind: Any, address: Any) -> Any:
    return builder.inttoptr(address, context.get_data_type(kind).as_pointer())


def _lent(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    """A value without references to the owners of its memory, so that nobody counts them."""
    if isinstance(kind, types.BaseTuple):
        for i, part in enumerate(kind):
            own = _lent(context, builder, part, builder.extract_value(value, i))
            value = builder.insert_value(value, own, i)
    elif isinstance(kind, _OWNED):
        whole = cgutils.create_struct_proxy(kind)(context, builder, value=value)
        for owner in ("meminfo", "parent"):
            setattr(whole, owner, cgutils.get_null_value(getattr(whole, owner).type))
        value = whole._getvalue()
    return value


def _context() -> Any:
    context = cpu_target.target_context
    context.refresh()  # numba registers types when they are needed
    return context


def _is_data(kind: Any) -> bool:
    if isinstance(kind, types.BaseTuple):
        return all(map(_is_data, kind))
    return isinstance(kind, _OWNED) or not _context().data_model_manager[kind].contains_nrt_meminfo()


def _constant(kind: Any) -> Any:
    if isinstance(kind, types.Array):
        return kind.copy(readonly=True)
    if isinstance(kind, types.NamedTuple | types.NamedUniTuple):
        return types.NamedTuple([*map(_constant, kind)], kind.instance_class)
    return types.Tuple([*map(_constant, kind)]) if isinstance(kind, types.BaseTuple) else kind
