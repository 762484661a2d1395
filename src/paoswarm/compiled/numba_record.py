"""The record of what a swarm has seen, for numba: bests, ages and failed points, without branches on values.

Whether a particle improves is close to random. A processor that guesses wrong loses more time than copying takes.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numba
import numpy as np
from numba import types

from paoswarm.compiled.numba_options import OPTIONS, Apart, inner_loops

_LONG = 8  # unknowns from which one loop over all elements is faster than one over points


@inner_loops
def compare(values, best_values, ages, marks):
    """Record values (m,), and return how many are NaN.

    ``marks`` become -1, which is all bits set, for the better ones and 0 for the others.
    """
    n_failed = 0
    for p in range(len(values)):
        value, before, age = values[p], best_values[p], ages[p] + 1.0
        is_better = value < before
        best_values[p] = value if is_better else before
        ages[p] = 0.0 if is_better else age
        marks[p] = -1 if is_better else 0
        n_failed += 1 if value != value else 0
    return n_failed


@inner_loops
def lowest(values):
    """The number of the first particle with the lowest value."""
    first, least = 0, values[0]
    for p in range(1, len(values)):
        if values[p] < least:
            first, least = p, values[p]
    return first


@cache
def keeper(d: int, dtype: Any) -> Any:
    """Compiled code ``(marks, m, places, bests)`` that copies the marked ones of m points (m, d) of this type.

    The number of unknowns is a constant in it: then LLVM makes vectors of short points, and divides by it quickly.
    """
    bits = np.int32 if dtype == np.float32 else np.int64

    def keep(marks, m, places, bests):
        mark = numba.carray(marks, (m,), np.int64)
        new, old = numba.carray(places, (m * d,), bits), numba.carray(bests, (m * d,), bits)
        if d < _LONG:
            for p in range(m):
                mask = bits(mark[p])
                for e in range(p * d, (p + 1) * d):
                    old[e] ^= (old[e] ^ new[e]) & mask
        else:
            for e in range(m * d):
                old[e] ^= (old[e] ^ new[e]) & bits(mark[np.uint32(e) // np.uint32(d)])

    pointers = types.voidptr, types.int64, types.voidptr, types.voidptr
    return numba.cfunc(types.void(*pointers), pipeline_class=Apart, **OPTIONS)(keep)
