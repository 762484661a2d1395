"""All evaluations of a run, as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from paoswarm.core.arrays import Floats
from paoswarm.extras import need
from paoswarm.spaces.space import Space

_MOST = 20_000_000  # numbers that are kept in memory


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
    if space is None:
        columns: dict[str, Any] = {f"x{i}": rows[:, i] for i in range(rows.shape[1])}
    else:
        names = space.names or [f"x{i}" for i in range(len(space.variables))]
        columns = {
            name: one.values(rows[:, i]) for i, (name, one) in enumerate(zip(names, space.variables, strict=True))
        }
    extra: dict[str, Any] = {"value": values, "failed": np.isnan(values)}
    if violations is not None:
        extra["violation"] = violations
    if reasons is not None:
        extra["reason"] = [reasons.get(i, "") for i in range(len(values))]
    if times is not None:
        extra["time"] = pandas.to_datetime(np.asarray(times), unit="s", utc=True)
    if clash := [name for name in extra if name in columns]:
        raise ValueError(f"the table needs the column {clash[0]!r}; give that variable another name")
    return pandas.DataFrame({**columns, **extra}, index=range(len(values)))
