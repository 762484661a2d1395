"""Work on very many rows: in parts that stay in the cache, and by several threads, because NumPy lets others run."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from paoswarm.core.arrays import Floats

_PART = 2**15  # rows
_MANY = 2**20  # rows from which on threads pay
_THREADS = 8  # at most


def map_rows(function: Callable[[Floats], Floats], z: Floats, kept: NDArray[np.bool_]) -> Floats:
    """Apply a function that maps rows one by one, ``(m, d) -> (m, d)``, to those that are kept.

    It must be safe to call it in several threads.
    """
    edges = [*range(0, len(z), _PART), len(z)]
    parts = [slice(*pair) for pair in pairwise(edges)]
    places = np.concatenate([[0], np.cumsum([np.count_nonzero(kept[part]) for part in parts])]).astype(int).tolist()
    x = np.empty((places[-1], z.shape[1]))

    def work(number: int) -> None:
        rows = z[parts[number]]
        chosen = kept[parts[number]]
        x[places[number] : places[number + 1]] = function(rows if chosen.all() else rows[chosen])

    threads = min(_THREADS, os.cpu_count() or 1)
    if len(z) < _MANY or threads == 1:
        for number in range(len(parts)):
            work(number)
    else:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(work, range(len(parts))))
    return x
