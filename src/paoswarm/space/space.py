"""The map between the user's variables and the coordinates of a swarm.

It is applied once on the way to the objective and once into everything that is shown. Between the two there are
*rows*: arrays ``(m, d)`` with one number for each variable, in the order given; of a choice the index of the entry.
"""

from __future__ import annotations

import itertools
import math
import numbers
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from paoswarm._checks import choices, unmasked
from paoswarm.core.arrays import Floats
from paoswarm.core.walls import Axes
from paoswarm.space.names import numbered, text_by_name
from paoswarm.space.variables import Choice, Real, Variable


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


class Space:
    """Variables, and the box in which the swarm moves.

    Parameters
    ----------
    variables : sequence of Variable
    names : sequence of str, optional
        If the user gave a dict.

    Attributes
    ----------
    lower, upper : array (k,)
        The bounds of the swarm's coordinates.
    axes : Axes or None
        Which of these are round, whole or choices.
    is_identity : bool
        Whether rows and coordinates are the same.
    takes_rows : bool
        Whether functions can get several points at once.
    expressions : tuple of (str, str)
        Names and expressions of what follows from the variables, for the user's functions.
    """

    takes_rows = True
    expressions: tuple[tuple[str, str], ...] = ()

    def __init__(self, variables: Sequence[Variable], names: Sequence[str] | None = None) -> None:
        self.variables = tuple(variables)
        self.names = None if names is None else tuple(names)
        boxes = [one.box for one in self.variables]
        self._sizes = [len(low) for low, _ in boxes]
        self.lower = np.array([end for low, _ in boxes for end in low], dtype=float)
        self.upper = np.array([end for _, high in boxes for end in high], dtype=float)
        if len(self.lower) == 0:
            raise ValueError("every variable is fixed: one number or text fixes it, (low, high) is a range")
        self.axes = self._read_axes()
        self.is_identity = all(isinstance(one, Real) and not one.log for one in self.variables)
        self._kept: dict[int, tuple[Floats, Floats]] = {}  # by variable: coordinates in order, and their numbers

    def _read_axes(self) -> Axes | None:
        ends = np.cumsum([0, *self._sizes]).tolist()
        spans = list(zip(self.variables, ends[:-1], ends[1:], strict=True))
        groups = tuple((first, last) for one, first, last in spans if one.is_choice)
        is_round = np.repeat([one.is_round for one in self.variables], self._sizes)
        is_whole = np.repeat([one.is_whole for one in self.variables], self._sizes)
        return Axes(is_round, is_whole, groups) if groups or is_round.any() or is_whole.any() else None

    @property
    def guess(self) -> Floats | None:
        """A row ``(1, d)`` to begin with, if the user's variables bring one."""
        return None

    @property
    def is_plain(self) -> bool:
        """Whether there is nothing to map: the user's points are arrays of the swarm's coordinates."""
        return self.is_identity and self.names is None

    @property
    def size(self) -> int | None:
        """How many different points there are; None if a variable is continuous."""
        if self.axes is None or self.axes.is_continuous.any():
            return None
        return math.prod(map(len, self._numbers()))

    def every_point(self) -> Floats:
        """The coordinates ``(size, k)`` of all points of a space of whole numbers and choices."""
        return self.coordinates(np.array(list(itertools.product(*self._numbers())), dtype=float))

    def _numbers(self) -> list[Sequence[float]]:
        """What the numbers of each discrete variable may be."""
        return [
            [one.number(one.fixed)]
            if isinstance(one, Fixed)
            else range(len(one.entries))
            if isinstance(one, Choice)
            else range(math.ceil(one.box[0][0]), math.floor(one.box[1][0]) + 1)
            for one in self.variables
        ]

    def labels(self) -> list[str]:
        """What the variables are called."""
        return list(self.names) if self.names is not None else numbered(len(self.variables))

    def coordinate_labels(self) -> list[str]:
        """What the variable of each coordinate is called."""
        return [label for label, size in zip(self.labels(), self._sizes, strict=True) for _ in range(size)]

    def axis_label(self, k: int) -> str:
        """What a coordinate is called in a plot: ``ln rate``, or the entry of a choice."""
        i = int(np.searchsorted(np.cumsum(self._sizes), k, side="right"))
        one, label = self.variables[i], self.labels()[i]
        if isinstance(one, Real) and one.log:
            return f"ln {label}"
        return (
            f"{label}: {one.entries[k - sum(self._sizes[:i])]}" if isinstance(one, Choice) and one.is_choice else label
        )

    def rows(self, z: Floats) -> Floats:
        """Rows ``(..., d)`` of coordinates ``(..., k)``."""
        if self.is_identity:
            return z
        flat = z.reshape(-1, z.shape[-1])
        parts = np.split(flat, np.cumsum(self._sizes)[:-1], axis=1)
        columns = [one.decode(part) for one, part in zip(self.variables, parts, strict=True)]
        for i, (known, exact) in self._kept.items():
            at = np.searchsorted(known[:-1], parts[i][:, 0])
            columns[i] = np.where(known[at] == parts[i][:, 0], exact[at], columns[i])
        return np.stack(columns, axis=-1).reshape(*z.shape[:-1], len(columns))

    def coordinates(self, rows: Floats) -> Floats:
        """Coordinates ``(..., k)`` of rows ``(..., d)``."""
        if self.is_identity:
            return rows
        flat = rows.reshape(-1, rows.shape[-1])
        columns = [one.encode(flat[:, i]) for i, one in enumerate(self.variables)]
        return np.concatenate(columns, axis=1).reshape(*rows.shape[:-1], len(self.lower))

    def keep(self, rows: Floats) -> Floats:
        """Coordinates ``(..., k)`` of rows ``(..., d)``, which `rows` will give back to the last bit.

        The exponential of a logarithm is another number in its last bits. So those of the user are remembered. (If two
        have the same logarithm, the first.)
        """
        z = self.coordinates(rows)
        is_other, first = self.rows(z) != rows, np.cumsum([0, *self._sizes])
        for i, one in enumerate(self.variables):
            if isinstance(one, Real) and one.log and is_other[..., i].any():
                known, exact = self._kept.get(i, (np.empty(0), np.empty(0)))
                known, at = np.unique(np.concatenate([known, z[is_other[..., i], first[i]]]), return_index=True)
                self._kept[i] = known, np.concatenate([exact, rows[is_other[..., i], i]])[at]
        return z

    def point(self, row: Floats) -> Any:
        """One row as the user's values: by name, or as a list."""
        values = [one.value(number) for one, number in zip(self.variables, row.tolist(), strict=True)]
        return values if self.names is None else dict(zip(self.names, values, strict=True))

    def plain(self, row: Floats) -> Any:
        """The same for people to read."""
        return self.point(row)

    def given(self, rows: Floats) -> Any:
        """Rows ``(d,)`` or ``(m, d)`` as the user's function gets them: by name, or unchanged."""
        if self.names is None:
            return rows
        if rows.ndim == 1:
            return self.point(rows)
        return {
            name: one.values(rows[:, i]) for i, (name, one) in enumerate(zip(self.names, self.variables, strict=True))
        }

    def nested(self, rows: Floats) -> Any:
        """Rows ``(..., m, d)`` as lists of points by name; unchanged without names."""
        if self.names is None:
            return rows
        return self.point(rows) if rows.ndim == 1 else [self.nested(part) for part in rows]

    def text(self, row: Floats) -> str:
        """One row as text for messages."""
        return f"x = {row}" if self.names is None else text_by_name(self.plain(row))

    def function(self, fun: Callable[..., Any]) -> Callable[..., Any]:
        """The user's function as one of rows."""
        return fun if self.names is None or not callable(fun) else FunctionOfValues(fun, self)

    def read(self, what: str, given: Any) -> Floats:
        """Rows ``(m, d)`` from points that the user gives: a dict, a list of dicts, or an array of rows."""
        if isinstance(given, Mapping):
            return self._from_columns(what, given)
        if isinstance(given, Sequence) and given and all(isinstance(one, Mapping) for one in given):
            return np.concatenate([self._from_columns(what, one) for one in given])
        d = len(self.variables)
        try:
            rows = np.array(unmasked(given), dtype=float, ndmin=2)
        except (TypeError, ValueError, OverflowError):
            rows = np.empty((0, 0))
        if rows.ndim != 2 or rows.shape[1] != d or len(rows) == 0:
            by_name = "" if self.names is None else "a dict with the names of the space, a list of these, or "
            raise ValueError(
                f"{what} must be {by_name}numbers of shape ({d},) or (m, {d}), one for each variable; got {given!r}"
            )
        for i, one in enumerate(self.variables):
            for number in rows[:, i].tolist():
                self._tell(what, i, one.checked, number)
        return self.rows(self.keep(rows))

    def _from_columns(self, what: str, given: Mapping[str, Any]) -> Floats:
        """Rows from values by name, each one value or several."""
        if self.names is None:
            raise ValueError(f"{what} is a dict, but the variables have no names; give numbers, one for each variable")
        for name in given:
            if name not in self.names:
                raise ValueError(f"{what}: there is no variable {name!r}; {choices(str(name), self.names)}")
        columns = []
        for i, (name, one) in enumerate(zip(self.names, self.variables, strict=True)):
            if name not in given and not isinstance(one, Fixed):
                raise ValueError(f"{what}: the value of {name!r} is missing")
            values = _listed(one, given.get(name, one.value(0.0)))
            columns.append([self._tell(what, i, one.number, value) for value in values])
        m = max(map(len, columns))
        if any(len(column) not in (1, m) for column in columns):
            lengths = {name: len(column) for name, column in zip(self.names, columns, strict=True)}
            raise ValueError(f"{what}: give one value for each name, or equally many for all; got {lengths}")
        rows = np.array([column * m if len(column) == 1 else column for column in columns], dtype=float).T
        return self.rows(self.keep(rows))

    def _tell(self, what: str, i: int, check: Callable[[Any], float], value: Any) -> float:
        """Check a value, and name its variable in the error."""
        try:
            return check(value)
        except ValueError as error:
            raise ValueError(f"{what}: the value of {self.labels()[i]} {error}") from None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Space) and (self.variables, self.names) == (other.variables, other.names)

    def __hash__(self) -> int:
        return hash((self.variables, self.names))

    def __repr__(self) -> str:
        parts = zip(self.labels(), self.variables, strict=True)
        return f"Space({', '.join(f'{label}: {one!r}' for label, one in parts)})"

    @property
    def description(self) -> Any:
        """The variables as the user may give them again: a dict or a tuple."""
        entries = [one.fixed if isinstance(one, Fixed) else one for one in self.variables]
        return tuple(entries) if self.names is None else dict(zip(self.names, entries, strict=True))


@dataclass(frozen=True)
class FunctionOfValues:
    """A user's function of values by name as one of rows. It can be sent between processes."""

    fun: Callable[..., Any]
    space: Space

    def __call__(self, rows: Floats) -> Any:
        """Return the value at a row, or the values at several."""
        return self.fun(self.space.given(rows))


def _listed(variable: Variable, values: Any) -> list[Any]:
    """The values of a variable, of which the user gives one or several."""
    is_one = isinstance(values, str | numbers.Number) or isinstance(variable, Fixed)
    is_one = is_one or (isinstance(variable, Choice) and variable.index(values) is not None)
    return [values] if is_one or np.ndim(_plain(values)) == 0 else list(values)


def _plain(values: Any) -> Any:
    try:
        return np.asarray(values)
    except ValueError:
        return np.asarray(values, dtype=object)
