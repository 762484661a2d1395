"""The searches of a fit, side by side in every combination of whole numbers and choices.

Most fits have one cell. With more, each is searched until two searches have ended there, and the best one until its
searches agree. So the claim of a fit is that of its best cell.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from paoswarm.core.arrays import Floats
from paoswarm.fitting.cube import Cube
from paoswarm.least_squares.descents import Descents, Request, Warm
from paoswarm.least_squares.loss import Loss
from paoswarm.least_squares.trust_region import Region
from paoswarm.methods.agreement import Agreement

_LEAST = 2  # searches that must have ended in a cell that is not the best


class CellRequest(NamedTuple):
    """A point to simulate."""

    cell: int
    request: Request


class Cells:
    """Searches in all cells of a cube.

    Parameters
    ----------
    cube : Cube
    loss_of : callable
        What is minimised, for vectors of so many numbers.
    n_numbers : int or None
        How many numbers a simulation gives; None until one has.
    series_of : callable
        Rows of the data whose order may mean something, for vectors of so many numbers.
    rng : Generator
    at_once : int
        How many points are simulated side by side.
    starts : sequence of (array (n,), int)
        Points, and their cells, where searches start first.
    known : sequence of (array (n,), int, array (m,))
        Points, cells and outputs of earlier simulations.
    regions : sequence of Region or None
        Where points may be in each cell; None: everywhere.
    warm : Warm, optional
        Then each cell that has known points is searched from the best one, and no more.
    """

    def __init__(
        self,
        cube: Cube,
        loss_of: Callable[[int], Loss],
        n_numbers: int | None,
        series_of: Callable[[int], Sequence[NDArray[np.intp]]],
        rng: np.random.Generator,
        at_once: int = 1,
        *,
        starts: Sequence[tuple[Floats, int]] = (),
        known: Sequence[tuple[Floats, int, Floats]] = (),
        regions: Sequence[Region] | None = None,
        warm: Warm | None = None,
    ) -> None:
        self.cube, self.at_once = cube, at_once
        self._loss_of, self._series_of, self._n_numbers = loss_of, series_of, n_numbers
        count = len(cube.cells)
        self.all = [
            Descents(
                loss_of(n_numbers or 0),
                cube.is_round,
                own,
                at_once,
                starts=[point for point, cell in starts if cell == c],
                known=[(point, outputs) for point, cell, outputs in known if cell == c],
                series=None if n_numbers is None else series_of(n_numbers),
                region=None if regions is None else regions[c],
                warm=warm if warm is None or warm.cell == c else warm._replace(is_near=lambda *_: False),
            )
            for c, own in enumerate([rng] if count == 1 else rng.spawn(count))
        ]
        self._least = _LEAST if warm is None else 1
        self._searched = [c for c, one in enumerate(self.all) if warm is None or math.isfinite(self._value_of(one))]
        self._last = -1  # the cell that was asked last
        self.is_finishing = False  # whether no search may begin

    @property
    def best_cell(self) -> int:
        """The cell of the best point."""
        return int(np.argmin([self._value_of(one) for one in self.all]))

    @property
    def best(self) -> Descents:
        """The searches there."""
        return self.all[self.best_cell]

    @property
    def value(self) -> float:
        """The best value; infinite before the first simulation that does not fail."""
        return self._value_of(self.best)

    @property
    def agreement(self) -> Agreement:
        """How the searches of the best cell agree."""
        return self.best.agreement

    @property
    def is_settled(self) -> bool:
        """Whether searches agree in the best cell, and enough have ended in the others."""
        return self.best.is_settled and all(len(self.all[c].ends) >= self._least for c in self._searched)

    @property
    def n_to_finish(self) -> int:
        """Simulations that measure the slope at the best point."""
        return 2 * self.cube.n

    def coordinates(self, request: CellRequest) -> Floats:
        """Where a request is in the space."""
        return self.cube.coordinates(request.request.point, request.cell)

    def ask(self, room: int) -> list[CellRequest]:
        """The next points, at most so many; none if others must be known first, or if it is done."""
        if self.is_finishing or self.is_settled:
            cell = self.best_cell
            return [CellRequest(cell, request) for request in self.all[cell].ask(room)]
        wanted: list[CellRequest] = []
        for cell in self._in_turn():
            if len(wanted) == room:
                break
            found = self.all[cell].ask(room - len(wanted))
            self._last = cell if found else self._last
            wanted += [CellRequest(cell, request) for request in found]
        return wanted

    def _in_turn(self) -> list[int]:
        """The cells that are not done, from the one after the last that was asked; the best one at the end."""
        count, best = len(self.all), self.best_cell
        if count == 1:
            return [0]
        order = [(self._last + 1 + k) % count for k in range(count)]
        open_ = [cell for cell in order if cell in self._searched and len(self.all[cell].ends) < self._least]
        return open_ + [best] * (best not in open_)

    def tell(self, request: CellRequest, outputs: Floats) -> None:
        """Take the outputs at a point, empty if it failed."""
        if self._n_numbers is None and len(outputs):
            self._n_numbers = len(outputs)
            for one in self.all:
                one.loss = self._loss_of(len(outputs))
        self.all[request.cell].tell(request.request, outputs)

    def finish(self) -> None:
        """Begin no more searches: measure the slope at the best point."""
        self.is_finishing = True
        self.best.finish()

    @staticmethod
    def _value_of(one: Descents) -> float:
        values = one.pool.values
        return float(values.min()) if len(values) else math.inf
