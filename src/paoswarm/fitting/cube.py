"""The unit cube of the continuous unknowns, and the combinations of the others."""

from __future__ import annotations

from itertools import product

import numpy as np
from numpy.typing import NDArray

from paoswarm.core.arrays import Floats
from paoswarm.space.space import Space

MOST_CELLS = 64  # combinations that are searched one by one


class Cube:
    """The map between the unit cube, with a cell for each combination of whole numbers and choices, and a space.

    Parameters
    ----------
    space : Space

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

    def place(self, rows: Floats) -> tuple[Floats, NDArray[np.intp]]:
        """Points ``(m, n)`` of the cube, and the cells ``(m,)``, of the user's numbers ``(m, d)``."""
        z = self.space.coordinates(rows)
        held = np.where(self._free, 0.0, z)
        cells = np.argmin(np.abs(held[:, None] - self.cells).max(axis=2), axis=1)
        return np.clip((z[:, self._free] - self.low) / self.width, 0.0, 1.0), cells
