"""How the numba engine compiles its loops."""

from __future__ import annotations

from typing import Any

import numba
from numba.core.compiler import Compiler


class Apart(Compiler):
    """Compile functions whose arrays do not overlap.

    If arrays may overlap, LLVM gives up on vector instructions in loops that write one and read several. So a function
    compiled like this must not get the same memory twice.
    """

    makes_arrays = True

    def __init__(
        self, typingctx: Any, targetctx: Any, library: Any, args: Any, return_type: Any, flags: Any, locals: Any
    ) -> None:
        flags.noalias, flags.nrt = True, self.makes_arrays
        super().__init__(typingctx, targetctx, library, args, return_type, flags, locals)


class Loops(Apart):
    """Compile functions whose arrays do not overlap, and which make no arrays.

    If arrays could be made, every slice would count references. That takes as long as computing with some tens of
    elements, and longer if another thread counts them as well.
    """

    makes_arrays = False


# Kept on disk. A product and a sum may be one instruction; nothing else may change what is computed.
OPTIONS: dict[str, Any] = {"cache": True, "error_model": "numpy", "fastmath": {"contract"}}
LOOPS = OPTIONS | {"pipeline_class": Loops}
loops = numba.njit(nogil=True, **LOOPS)
making_arrays = numba.njit(nogil=True, **OPTIONS)
