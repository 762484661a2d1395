"""All evaluations of a run, as a table or as a dataset."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from paoswarm._extras import need
from paoswarm.core.arrays import Floats
from paoswarm.space.names import numbered
from paoswarm.space.space import Space

_MOST = 5_000_000  # numbers that are kept in memory


class Evaluations:
    """Points and values in the order of evaluation; kept in memory as long as there are not too many."""

    def __init__(self) -> None:
        self._rows: list[Floats] = []
        self._values: list[Floats] = []
        self._size = 0

    def add(self, rows: Floats, values: Floats) -> None:
        """Add evaluated points ``(m, d)``; there may be more rows than values."""
        self._size += rows.size
        if self._size <= _MOST:
            self._rows.append(rows[: len(values)])
            self._values.append(values)
        elif self._rows:
            self._rows, self._values = [], []

    @property
    def is_complete(self) -> bool:
        """Whether none was dropped."""
        return self._size <= _MOST

    @property
    def points(self) -> tuple[Floats, Floats]:
        """All points ``(m, d)`` and values ``(m,)``; with constraints rows ``(m, 1 + k)`` of values and numbers."""
        if not self._rows:
            return np.empty((0, 0)), np.empty(0)
        return np.concatenate(self._rows), np.concatenate(self._values)


def table(
    space: Space | None,
    rows: Floats,
    values: Floats,
    reasons: Mapping[int, str] | None = None,
    times: Sequence[float] | None = None,
    violations: Floats | None = None,
) -> Any:
    """A ``pandas.DataFrame`` with a column for each variable, ``value``, ``failed``, and what else is known."""
    pandas = need("pandas", extra="dataframe", user="to_dataframe")
    extra: dict[str, Any] = {"value": values, "failed": np.isnan(values)}
    if violations is not None:
        extra["violation"] = violations
    if reasons is not None:
        extra["reason"] = [reasons.get(i, "") for i in range(len(values))]
    if times is not None:
        extra["time"] = pandas.to_datetime(np.asarray(times), unit="s", utc=True)
    return pandas.DataFrame({**columns_of(space, rows, extra), **extra}, index=range(len(values)))


def dataset(
    space: Space | None,
    rows: Floats,
    extra: Mapping[str, tuple[Any, ...]],
    coords: Mapping[str, Any],
    attrs: Mapping[str, Any],
) -> Any:
    """An ``xarray.Dataset`` of rows along the first of ``coords``, and what else is known about them."""
    xarray = need("xarray", extra="xarray", user="to_xarray")
    along, m = next(iter(coords)), len(rows)
    columns = columns_of(space, rows, [*extra, *coords])
    plain = {name: (along, np.broadcast_to(column, (m,))) for name, column in columns.items()}
    for name, (_, column) in plain.items():
        if all(isinstance(one, str) for one in column.tolist()):  # files can keep arrays of strings, but no objects
            plain[name] = along, column.astype(str)
    return xarray.Dataset({**plain, **extra}, coords=coords, attrs=attrs)


def columns_of(space: Space | None, rows: Floats, taken: Iterable[str]) -> dict[str, Any]:
    """A column for each variable in its own type; those that are fixed have one value."""
    if space is None:
        columns: dict[str, Any] = dict(zip(numbered(rows.shape[1]), rows.T, strict=True))
    else:
        pairs = zip(space.labels(), space.variables, strict=True)
        columns = {name: one.values(rows[:, i]) for i, (name, one) in enumerate(pairs)}
    if clash := [name for name in taken if name in columns]:
        raise ValueError(f"the table needs the column {clash[0]!r}; give that variable another name")
    return columns
