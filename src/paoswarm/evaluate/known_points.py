"""Points that were evaluated before: where all variables are discrete, a run meets them again and again."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any, NamedTuple

import numpy as np

from paoswarm.core.arrays import Floats

_ATTEMPTS = 3  # evaluations of a point that fails: the first failures may have other reasons than the point
_NOTHING_NEW = 5000  # known points in a row after which a run has seen all that its method finds


class Recalled(NamedTuple):
    """Rows that a run may have, and which of them are new."""

    keys: list[bytes]
    new: list[int]  # numbers of the rows to evaluate, each point once


class KnownPoints:
    """The values of all rows of a run so far. One that failed is evaluated again, up to three times.

    Every run has its own, also of many runs with the same function: it must not depend on its company.

    Parameters
    ----------
    n_all : int
        How many different rows there are.

    Attributes
    ----------
    n_recalled : int
        Rows of the latest call whose values were known.
    """

    def __init__(self, n_all: int) -> None:
        self._values: dict[bytes, Any] = {}  # a number, or a list with constraints
        self._n_failures: Counter[bytes] = Counter()
        self._n_all = n_all
        self._in_a_row = 0
        self.n_recalled = 0

    @property
    def is_complete(self) -> bool:
        """Whether every row there is has a value, or is known to fail."""
        return len(self._values) >= self._n_all

    @property
    def is_exhausted(self) -> bool:
        """Whether the run cannot be expected to find new rows."""
        return self.is_complete or self._in_a_row >= _NOTHING_NEW

    def recall(self, rows: Floats, most: int | None = None) -> Recalled:
        """Which of the rows ``(m, d)`` are new.

        Only ``most`` of them may be evaluated. With the last of these the run ends, so the rows after it are left out.
        """
        keys = [row.tobytes() for row in rows + 0.0]  # -0.0 is 0.0
        new: dict[bytes, int] = {}
        for i, key in enumerate(keys):
            if key not in self._values:
                new.setdefault(key, i)
        numbers = list(new.values())
        if most is None or len(numbers) < most:
            return Recalled(keys, numbers)
        return Recalled(keys[: numbers[most - 1] + 1], numbers[:most])

    def values(self, asked: Recalled, measured: Floats) -> Floats:
        """Values of all rows, given those of the new ones.

        There may be fewer of these, if time is up. Then the values of the first rows are returned, up to the gap.
        """
        keys, new = asked
        found = dict(zip((keys[i] for i in new), measured.tolist(), strict=False))
        for key, value in found.items():
            has_failed = math.isnan(np.ravel(value)[0])
            self._n_failures[key] += has_failed
            if not has_failed or self._n_failures[key] == _ATTEMPTS:
                self._values[key] = value
        here = [self._values.get(key, found.get(key)) for key in keys]
        done = here.index(None) if None in here else len(here)
        evaluated = [i for i in new if i < done]
        self.n_recalled = done - len(evaluated)
        self._in_a_row = done - 1 - evaluated[-1] if evaluated else self._in_a_row + done
        return np.array(here[:done], dtype=float)
