"""What a variable is, and all kinds: `Real`, `Periodic`, `Integer`, `Choice`.

A variable knows three languages:

- the user's *value*: 0.01, 3, "matern";
- its *number*: the value itself, or for a choice the index of the entry;
- the swarm's *coordinates*: ``decode`` makes numbers of them, ``encode`` is its inverse.
"""

from __future__ import annotations

import math
import numbers
import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paoswarm._checks import explains_arguments, flag
from paoswarm.core.arrays import Floats

_LARGEST = sys.float_info.max
WIDEST = 1e150  # squared distances must not overflow
_LARGEST_WHOLE = 2**50  # a half must not be lost beside it
NAMED = "names are the keys of a space, as in {'rate': ps.Real(0, 1)}"
_STEPPED = "for multiples of a step, write ps.Integer and multiply inside the function"


class Variable(ABC):
    """What all kinds of unknowns have in common.

    Attributes
    ----------
    is_round, is_whole, is_choice : bool
        What its coordinates are, see `paoswarm.core.walls`.
    """

    is_round = False
    is_whole = False
    is_choice = False

    @property
    @abstractmethod
    def box(self) -> tuple[list[float], list[float]]:
        """Lower and upper ends of its coordinates."""

    @abstractmethod
    def decode(self, z: Floats) -> Floats:
        """Numbers ``(m,)`` from coordinates ``(m, k)``."""

    @abstractmethod
    def encode(self, number: Floats) -> Floats:
        """Coordinates ``(m, k)`` of numbers ``(m,)``."""

    def value(self, number: float) -> Any:
        """The user's value."""
        return float(number)

    def values(self, number: Floats) -> NDArray[Any]:
        """The user's values ``(m,)``."""
        return number.copy()

    def number(self, value: Any) -> float:
        """The number of a user's value; raise a ValueError that says what is wrong with it."""
        if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Real):
            raise ValueError(f"is {value!r}, not a number")
        try:
            return self.checked(float(value))
        except OverflowError:
            raise ValueError(f"is {value!r}, too large for a floating-point number") from None

    @abstractmethod
    def checked(self, number: float) -> float:
        """The number; raise a ValueError if the variable cannot take it."""


@dataclass(frozen=True)
class _Range(Variable):
    low: float
    high: float

    def __post_init__(self) -> None:
        ends, given = (self.low, self.high), f"{type(self).__name__}({self.low!r}, {self.high!r})"
        is_number = [isinstance(end, numbers.Real) and not isinstance(end, bool | np.bool_) for end in ends]
        if not all(is_number) or not all(abs(end) <= _LARGEST for end in ends):
            raise ValueError(f"{given}: give two finite ends, the lower one first")
        if self.low > self.high:
            raise ValueError(f"{given}: the lower end is above the upper one (reversed?)")
        if self.low == self.high:
            raise ValueError(f"{given}: both ends are equal; write {self.low!r} to fix it")
        self._set(float(self.low), float(self.high))

    def _set(self, low: float, high: float) -> None:
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.low:g}, {self.high:g})"

    @property
    def box(self) -> tuple[list[float], list[float]]:
        """The ends."""
        return [self.low], [self.high]

    def checked(self, number: float) -> float:
        """The number, if it lies between the ends."""
        if not self.low <= number <= self.high:
            raise ValueError(f"is {number!r}, outside ({self.low:g}, {self.high:g})")
        return float(number)

    def _refuse_too_wide(self, instead: str) -> None:
        if self.high - self.low > WIDEST:
            raise ValueError(f"{self!r} is too wide, because squared distances would overflow; {instead}")


@explains_arguments("ps.Real(low, high)", name=NAMED, prior="for a logarithmic range give log=True", step=_STEPPED)
@dataclass(frozen=True)
class Real(_Range):
    """A number between two ends; with ``log=True`` the search sees its logarithm.

    Use ``log=True`` if you would step through the range by factors: rates, tolerances, regularisation strengths. In
    `sample` it is a log-uniform prior.

    Parameters
    ----------
    low, high : float
        The ends.
    log : bool
        Whether to search the logarithm. Both ends must then be above zero.

    Examples
    --------
    >>> import math
    >>> import paoswarm as ps
    >>> space = {"rate": ps.Real(1e-6, 1e3, log=True)}
    >>> result = ps.minimize(lambda p: (math.log10(p["rate"]) + 2) ** 2, space, maxiter=50, rng=1)
    >>> print(f"{result.best['rate']:.4f}")
    0.0100
    """

    log: bool = False

    def __post_init__(self) -> None:
        flag("log", self.log)
        super().__post_init__()
        if self.log and self.low <= 0:
            raise ValueError(f"{self!r}: a logarithm needs ends above zero; give the smallest value that makes sense")
        if not self.log:
            self._refuse_too_wide("choose another unit, or log=True")

    def __repr__(self) -> str:
        return f"Real({self.low:g}, {self.high:g}{', log=True' if self.log else ''})"

    @property
    def box(self) -> tuple[list[float], list[float]]:
        """The ends, or their logarithms."""
        ends = (math.log(self.low), math.log(self.high)) if self.log else (self.low, self.high)
        return [ends[0]], [ends[1]]

    def decode(self, z: Floats) -> Floats:
        """The coordinate, or its exponential; no farther than the ends."""
        x = np.ascontiguousarray(z[:, 0])  # the exponential of a strided array may have other last bits
        if not self.log:
            return x
        (low,), (high,) = self.box
        inside = np.clip(np.exp(x), self.low, self.high)
        return np.where(x <= low, self.low, np.where(x >= high, self.high, inside))  # the ends are exact

    def encode(self, number: Floats) -> Floats:
        """The number or its logarithm."""
        x = np.ascontiguousarray(number)
        (low,), (high,) = self.box
        return np.clip(np.log(x) if self.log else x, low, high)[:, None]


@explains_arguments("ps.Periodic(low, high)", name=NAMED)
@dataclass(frozen=True)
class Periodic(_Range):
    """A number on a circle, for an angle, a phase or a time of day: both ends are the same point.

    The function must be the same at both ends; it is called with values between them. As an entry of the prior in
    `sample` it is uniform on the circle. (If your prior is not, add the logarithm of its density to the log
    likelihood.)

    Parameters
    ----------
    low, high : float
        The ends, which are the same point; ``high - low`` is the period.

    Examples
    --------
    >>> import numpy as np
    >>> import paoswarm as ps
    >>> space = {"amplitude": (0, 10), "phase": ps.Periodic(0, 2 * np.pi)}
    """

    is_round = True

    def __post_init__(self) -> None:
        super().__post_init__()
        self._refuse_too_wide("choose another unit")

    def decode(self, z: Floats) -> Floats:
        """The coordinate, wrapped."""
        x: Floats = z[:, 0]
        wrapped = np.clip(self.low + np.remainder(x - self.low, self.high - self.low), self.low, self.high)
        return np.where((x < self.low) | (x > self.high), wrapped, x)

    def encode(self, number: Floats) -> Floats:
        """The number, wrapped."""
        return self.decode(number[:, None])[:, None]

    def checked(self, number: float) -> float:
        """Any finite number: it is wrapped."""
        if not math.isfinite(number):
            raise ValueError(f"is {number!r}, which is no place on a circle")
        return number


@explains_arguments("ps.Integer(low, high)", name=NAMED, step=_STEPPED)
@dataclass(frozen=True)
class Integer(_Range):
    """A whole number from ``low`` to ``high``, both included.

    Parameters
    ----------
    low, high : float
        The smallest and the largest. Ends that are not whole are moved inwards.

    Examples
    --------
    >>> import paoswarm as ps
    >>> result = ps.minimize(lambda p: (p["order"] - 2.8) ** 2, {"order": ps.Integer(1, 8)}, maxiter=20, rng=1)
    >>> result.best
    {'order': 3}
    """

    low: int
    high: int
    is_whole = True

    def __post_init__(self) -> None:
        given = self.low, self.high  # as floats they may have lost digits
        super().__post_init__()
        low, high = math.ceil(given[0]), math.floor(given[1])
        self._set(*given)
        if low > high:
            raise ValueError(f"{self!r} contains no whole number")
        if low == high:
            raise ValueError(f"{self!r} contains only one whole number: write {low} to fix it")
        if max(-low, high) > _LARGEST_WHOLE:
            raise ValueError(f"{self!r}: whole numbers must lie between -2**50 and 2**50; use Real, and round it")
        self._set(low, high)

    def __repr__(self) -> str:
        return f"Integer({self.low}, {self.high})"

    @property
    def box(self) -> tuple[list[float], list[float]]:
        """Half a unit outside the ends, so that these are as wide as the others."""
        return [self.low - 0.5], [self.high + 0.5]

    def decode(self, z: Floats) -> Floats:
        """The nearest whole number."""
        return np.clip(np.floor(z[:, 0] + 0.5), self.low, self.high)

    def encode(self, number: Floats) -> Floats:
        """The number."""
        return np.asarray(number, dtype=float)[:, None]

    def value(self, number: float) -> int:
        """An int."""
        return int(number)

    def values(self, number: Floats) -> NDArray[Any]:
        """Whole numbers."""
        return number.astype(np.int64)

    def checked(self, number: float) -> float:
        """The number, if it is whole and lies between the ends."""
        if not float(number).is_integer():
            raise ValueError(f"is {number!r}, not a whole number")
        return super().checked(int(number))


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
        if isinstance(entries, str | bytes) or not np.iterable(entries):
            raise TypeError(f"Choice takes a list of entries, got {entries!r}")
        if isinstance(entries, set | frozenset):
            raise TypeError(
                f"Choice takes a list, because a set has no order and runs could not be repeated: {entries!r}"
            )
        found = tuple(entries)
        object.__setattr__(self, "entries", found)
        if len(found) < 2:
            raise ValueError(f"{self!r} has fewer than two entries: write the value itself to fix it")
        seen: set[Any] = set()
        for entry in found:
            if not _can_be_hashed(entry):
                raise TypeError(f"Choice: the entry {entry!r} cannot be hashed; give a name or a tuple instead")
            if entry in seen:
                raise ValueError(f"Choice: the entry {entry!r} is given twice (1, 1.0 and True are equal)")
            seen.add(entry)

    def __repr__(self) -> str:
        return f"Choice({list(self.entries)!r})"

    @property
    def is_whole(self) -> bool:  # type: ignore[override]
        """One coordinate is enough for two entries, 0 or 1."""
        return len(self.entries) == 2

    @property
    def is_choice(self) -> bool:  # type: ignore[override]
        """A coordinate for each entry."""
        return len(self.entries) > 2

    @property
    def box(self) -> tuple[list[float], list[float]]:
        """One coordinate for each entry, or one for two entries."""
        n = len(self.entries)
        return ([-0.5], [1.5]) if self.is_whole else ([0.0] * n, [1.0] * n)

    def decode(self, z: Floats) -> Floats:
        """The index of the largest coordinate."""
        if self.is_whole:
            return np.clip(np.floor(z[:, 0] + 0.5), 0, 1)
        return np.argmax(z, axis=1).astype(float)

    def encode(self, number: Floats) -> Floats:
        """The corner of the entry."""
        index = np.asarray(number)[:, None]
        return index.astype(float) if self.is_whole else (np.arange(len(self.entries)) == index).astype(float)

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


def _can_be_hashed(entry: Any) -> bool:
    try:
        hash(entry)
    except TypeError:
        return False
    return True
