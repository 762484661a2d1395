"""Numbers as their bits, and back, inside of compiled code."""

from __future__ import annotations

from typing import Any

from numba import types
from numba.extending import intrinsic


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
