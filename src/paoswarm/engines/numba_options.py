"""How the numba engine compiles its functions, and numbers as their bits."""

from __future__ import annotations

from typing import Any

import numba
from numba import types
from numba.core.compiler import Compiler
from numba.extending import intrinsic


class _WithFlags(Compiler):  # type: ignore[misc]
    """Compile with flags that decorators do not have. Functions would take over those of their callers."""

    arrays_overlap: bool
    makes_arrays: bool

    def __init__(
        self, typingctx: Any, targetctx: Any, library: Any, args: Any, return_type: Any, flags: Any, locals: Any
    ) -> None:
        flags.noalias, flags.nrt = not self.arrays_overlap, self.makes_arrays
        super().__init__(typingctx, targetctx, library, args, return_type, flags, locals)


class Usual(_WithFlags):
    """Arguments may overlap."""

    arrays_overlap, makes_arrays = True, True


class Apart(_WithFlags):
    """Arguments do not overlap: the caller must not give the same memory twice.

    If arrays may overlap, LLVM gives up on vector instructions in loops that write one and read several.
    """

    arrays_overlap, makes_arrays = False, True


class Loops(_WithFlags):
    """Arguments do not overlap, and no arrays are made.

    Where arrays can be made, every slice counts references. That takes as long as computing with some tens of elements,
    and longer if another thread counts them as well.
    """

    arrays_overlap, makes_arrays = False, False


# Kept on disk. A product and a sum may be one instruction; nothing else may change what is computed.
OPTIONS: dict[str, Any] = {"cache": True, "error_model": "numpy", "fastmath": {"contract"}}
LOOPS = OPTIONS | {"pipeline_class": Loops}
# Functions that only compiled ones call. Code that translates Python's objects would take half the time to compile.
INNER = LOOPS | {"nogil": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
loops = numba.njit(nogil=True, **LOOPS)
inner_loops = numba.njit(**INNER)
making_arrays = numba.njit(**(INNER | {"pipeline_class": Usual}))


def _cast(source: Any, target: Any) -> Any:
    """A function that takes the bits of one type as those of another of the same size."""

    @intrinsic
    def cast(typingctx, number):  # type: ignore[no-untyped-def]
        def made(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            return builder.bitcast(arguments[0], context.get_value_type(target))

        return target(source), made

    return cast


bits_of_double, double_of_bits = _cast(types.float64, types.int64), _cast(types.int64, types.float64)
bits_of_single, single_of_bits = _cast(types.float32, types.int32), _cast(types.int32, types.float32)
