"""Variables without a range: one of several entries, and a value that is fixed."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paoswarm._checks import explains_arguments
from paoswarm.core.arrays import Floats
from paoswarm.spaces.variables import NAMED, Variable


@explains_arguments("ps.Choice([first, second, ...]), with one list of entries", name=NAMED)
@dataclass(frozen=True)
class Choice(Variable):
    """One of several entries without order: names, functions, any objects.

    No entry is nearer to another one than to the rest. If there is an order, `Integer` finds the best sooner.

    Parameters
    ----------
    entries : sequence
        Two or more different entries, which can be hashed. In a dict the function gets the entry. In a sequence it
        gets an array of numbers, with the index of the entry.

    Examples
    --------
    >>> import paoswarm as ps
    >>> cost = {"rbf": 2.0, "matern": 1.0, "periodic": 3.0}
    >>> space = {"kernel": ps.Choice(["rbf", "matern", "periodic"])}
    >>> ps.minimize(lambda p: cost[p["kernel"]], space, maxiter=20, rng=1).best
    {'kernel': 'matern'}
    """

    entries: tuple[Any, ...]

    def __init__(self, entries: Sequence[Any]) -> None:
        if isinstance(entries, str | bytes) or not hasattr(entries, "__iter__"):
            raise TypeError(f"Choice takes a list of entries, got {entries!r}")
        if isinstance(entries, set | frozenset):
            raise TypeError(
                f"Choice takes a list, because a set has no order and runs could not be repeated: {entries!r}"
            )
        found = tuple(entries)
        object.__setattr__(self, "entries", found)
        if len(found) < 2:
            raise ValueError(f"{self!r} has fewer than two entries: write the value itself to fix it")
        try:
            n_different = len(set(found))
        except TypeError:
            wrong = next(entry for entry in found if not _can_be_hashed(entry))
            raise TypeError(f"Choice: the entry {wrong!r} cannot be hashed; give a name or a tuple instead") from None
        if n_different < len(found):
            twice = next(entry for i, entry in enumerate(found) if entry in found[:i])
            raise ValueError(f"Choice: the entry {twice!r} is given twice (1, 1.0 and True are equal)")

    def __repr__(self) -> str:
        return f"Choice({list(self.entries)!r})"

    @property
    def is_pair(self) -> bool:
        """Two entries need one coordinate: they are as far apart in either direction."""
        return len(self.entries) == 2

    @property
    def is_whole(self) -> bool:  # type: ignore[override]
        """Whether there are two entries."""
        return self.is_pair

    @property
    def is_choice(self) -> bool:  # type: ignore[override]
        """Whether there are more than two entries."""
        return not self.is_pair

    @property
    def box(self) -> tuple[list[float], list[float]]:
        """One coordinate for each entry, or one for two entries."""
        n = len(self.entries)
        return ([-0.5], [1.5]) if self.is_pair else ([0.0] * n, [1.0] * n)

    def decode(self, z: Floats) -> Floats:
        """The index of the largest coordinate."""
        if self.is_pair:
            return np.clip(np.floor(z[:, 0] + 0.5), 0, 1)
        return np.argmax(z, axis=1).astype(float)

    def encode(self, number: Floats) -> Floats:
        """The corner of the entry."""
        index = np.asarray(number)[:, None]
        return index.astype(float) if self.is_pair else (np.arange(len(self.entries)) == index).astype(float)

    def value(self, number: float) -> Any:
        """The entry."""
        return self.entries[int(number)]

    def values(self, number: Floats) -> NDArray[Any]:
        """The entries."""
        found = np.empty(len(number), dtype=object)
        found[:] = [self.entries[i] for i in number.astype(int).tolist()]
        return found

    def index(self, value: Any) -> int | None:
        """The index of an entry; None if the value is none of them."""
        return self.entries.index(value) if _can_be_hashed(value) and value in self.entries else None

    def number(self, value: Any) -> float:
        """The index of an entry."""
        index = self.index(value)
        if index is not None:
            return float(index)
        raise ValueError(f"is {value!r}, which is none of {list(self.entries)!r}")

    def checked(self, number: float) -> float:
        """The index, if there is such an entry."""
        if number not in range(len(self.entries)):
            raise ValueError(f"is {number!r}, not the index of one of {len(self.entries)} entries")
        return number


@dataclass(frozen=True)
class Fixed(Variable):
    """A value that does not change; it has no coordinates."""

    fixed: Any

    def __repr__(self) -> str:
        return repr(self.fixed)

    @property
    def _number(self) -> float:
        is_number = isinstance(self.fixed, numbers.Real) and not isinstance(self.fixed, bool)
        return float(self.fixed) if is_number else 0.0

    @property
    def box(self) -> tuple[list[float], list[float]]:
        """Nothing."""
        return [], []

    def decode(self, z: Floats) -> Floats:
        """The value as a number; zero if it is none."""
        return np.full(len(z), self._number)

    def encode(self, number: Floats) -> Floats:
        """Nothing."""
        return np.empty((len(number), 0))

    def value(self, number: float) -> Any:
        """The value as it was given."""
        return self.fixed

    def values(self, number: Floats) -> Any:
        """The value as it was given, whatever the number of points."""
        return self.fixed

    def number(self, value: Any) -> float:
        """Its number, if it is the same value."""
        if value is not self.fixed and value != self.fixed:
            raise ValueError(f"is {value!r}, but it is fixed at {self.fixed!r}")
        return self._number

    def checked(self, number: float) -> float:
        """The number, if it is the fixed one."""
        if number != self._number:
            raise ValueError(f"is {number!r}, but it is fixed at {self.fixed!r}")
        return number


def _can_be_hashed(entry: Any) -> bool:
    try:
        hash(entry)
    except TypeError:
        return False
    return True
