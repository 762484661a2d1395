"""The continuous unknowns of a space: as the unit cube of a fit, and as what is fitted while the others stay.

Errors are taken in the coordinate that the search sees, of a logarithmic variable in its logarithm. There the function
is more nearly a parabola, and no interval contains a number below zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paoswarm.core.arrays import Floats
from paoswarm.evaluate.calls import Objective
from paoswarm.space.space import Space
from paoswarm.space.variables import Periodic, Real

MOST_CELLS = 64  # combinations that are searched one by one


class Cube:
    """The map between the unit cube, with a cell for each combination of whole numbers and choices, and a space.

    Attributes
    ----------
    is_round : array of bool (n,)
        Which axes of the cube are circles.
    cells : array (c, k)
        Coordinates of the space for each combination; those of continuous unknowns are zero.
    """

    def __init__(self, space: Space) -> None:
        self.space = space
        axes = space.axes
        self._free = np.ones(len(space.lower), dtype=bool) if axes is None else axes.is_continuous
        if not self._free.any():
            raise ValueError("a fit needs a continuous unknown; for whole numbers and choices alone use minimize")
        self.is_round = np.zeros(self.n, dtype=bool) if axes is None else axes.is_round[self._free]
        self.low, self.width = space.lower[self._free], (space.upper - space.lower)[self._free]
        self.cells = self._read_cells()

    @property
    def n(self) -> int:
        """How many continuous unknowns there are."""
        return int(self._free.sum())

    def _read_cells(self) -> Floats:
        axes, lower, upper = self.space.axes, self.space.lower, self.space.upper
        if axes is None:
            return np.zeros((1, len(lower)))
        wholes = [
            [[(int(k), value)] for value in np.arange(lower[k] + 0.5, upper[k], 1.0)]
            for k in np.flatnonzero(axes.is_whole)
        ]
        corners = [[[(k, float(k == one)) for k in range(*ends)] for one in range(*ends)] for ends in axes.choices]
        parts = wholes + corners
        count = int(np.prod([float(len(part)) for part in parts]))
        if count > MOST_CELLS:
            raise ValueError(
                f"whole numbers and choices have {count} combinations; fit searches each of them, and at most "
                f"{MOST_CELLS}: fix some, or use minimize with the sum of squares"
            )
        cells = np.zeros((count, len(lower)))
        for cell, combination in zip(cells, product(*parts), strict=True):
            for k, value in (pair for part in combination for pair in part):
                cell[k] = value
        return cells

    def coordinates(self, points: Floats, cell: int = 0) -> Floats:
        """Coordinates ``(..., k)`` of points ``(..., n)`` of the cube in a cell."""
        z = np.broadcast_to(self.cells[cell], (*points.shape[:-1], self.cells.shape[1])).copy()
        z[..., self._free] = self.low + points * self.width
        return z

    def row(self, point: Floats, cell: int = 0) -> Floats:
        """The user's numbers ``(d,)`` at a point."""
        return self.space.rows(self.coordinates(point[None], cell))[0]

    def variables(self, point: Floats, cell: int) -> FittedVariables:
        """The continuous unknowns around a point."""
        return FittedVariables(self.space, self.row(point, cell))

    def place(self, rows: Floats) -> tuple[Floats, NDArray[np.intp]]:
        """Points ``(m, n)`` of the cube, and the cells ``(m,)``, of the user's numbers ``(m, d)``."""
        z = self.space.coordinates(rows)
        held = np.where(self._free, 0.0, z)
        cells = np.argmin(np.abs(held[:, None] - self.cells).max(axis=2), axis=1)
        return np.clip((z[:, self._free] - self.low) / self.width, 0.0, 1.0), cells


@dataclass(frozen=True)
class FittedVariables:
    """The continuous variables of a space, which are fitted, and the point at which the others stay."""

    space: Space
    row: Floats  # (d,), the whole point

    @cached_property
    def fitted(self) -> list[Real | Periodic]:
        """The variables."""
        return [one for one in self.space.variables if isinstance(one, Real | Periodic)]

    @cached_property
    def is_fitted(self) -> NDArray[np.bool_]:
        """Whether each variable is continuous."""
        return np.array([isinstance(one, Real | Periodic) for one in self.space.variables])

    @cached_property
    def is_log(self) -> NDArray[np.bool_]:
        """Whether each of the fitted variables is logarithmic."""
        return np.array([isinstance(one, Real) and one.log for one in self.fitted])

    @property
    def x(self) -> Floats:
        """The fitted numbers."""
        return self.row[self.is_fitted]

    @property
    def names(self) -> tuple[str, ...]:
        """What they are called."""
        return tuple(np.array(self.space.labels())[self.is_fitted].tolist())

    @property
    def held(self) -> dict[str, Any]:
        """The values of the other variables."""
        every = zip(self.space.labels(), self.space.variables, self.row.tolist(), self.is_fitted, strict=True)
        return {label: one.value(number) for label, one, number, fitted in every if not fitted}

    def coordinates(self, x: Floats) -> Floats:
        """Fitted numbers as coordinates: the logarithms of those that are logarithmic."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(self.is_log, np.log(np.maximum(x, 0.0)), x)

    def numbers(self, u: Floats) -> Floats:
        """Fitted numbers ``(..., k)`` of coordinates."""
        with np.errstate(over="ignore"):
            return np.where(self.is_log, np.exp(np.where(self.is_log, u, 0.0)), u)

    def point(self, u: Floats) -> Any:
        """What the user's function gets for coordinates ``(k,)`` or ``(m, k)``: the whole point."""
        return self.given(self.numbers(u))

    def given(self, x: Floats) -> Any:
        """The same for fitted numbers."""
        rows = np.tile(self.row, (*x.shape[:-1], 1)) if x.ndim > 1 else self.row.copy()
        rows[..., self.is_fitted] = x
        return self.space.given(rows)

    def call(self, fun: Objective, u: Floats, *args: Any) -> Any:
        """What the user's function returns at coordinates ``(k,)`` or ``(m, k)``."""
        return fun(self.point(u), *args)
