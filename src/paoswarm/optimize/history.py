"""What a run looked like, generation by generation."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from paoswarm.core import order
from paoswarm.core.arrays import Floats
from paoswarm.core.swarm import Swarm


@dataclass
class History:
    """One entry per generation, the first swarm included.

    Attributes
    ----------
    best : array
        Best value so far; with ``reevaluate`` a mean, which may rise.
    mean : array
        Mean of the finite values of the present swarm.
    spread : array
        Root mean square distance of the particles from the best, in widths of the bounds.
    nfev : array
        Evaluations so far.
    violation : array
        With constraints: the total violation of the best point, zero once one is feasible. Until then ``best`` is +inf.
    swarms : list of Swarm
        Whole swarms; empty unless ``store_swarms=True``.
    """

    best: Floats = field(default_factory=lambda: np.empty(0))
    mean: Floats = field(default_factory=lambda: np.empty(0))
    spread: Floats = field(default_factory=lambda: np.empty(0))
    nfev: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    swarms: list[Swarm] = field(default_factory=list)
    violation: Floats = field(default_factory=lambda: np.empty(0))

    def __len__(self) -> int:
        return len(self.best)


class Recorder:
    """Collects the history of one run, a few numbers a generation."""

    def __init__(self, store_swarms: bool, *, is_constrained: bool = False) -> None:
        self._is_constrained = is_constrained
        self._violations: list[float] = []
        self._rows: list[tuple[float, float, float, int]] = []
        self._swarms: list[Swarm] = []
        self._store_swarms = store_swarms

    def record(self, swarm: Swarm, best: float, spread: float, nfev: int) -> None:
        """Add a generation."""
        values = swarm.value.tolist()  # plain numbers: infinite sums raise no warnings
        if self._is_constrained:
            values = [value if order.is_feasible(value) else math.inf for value in values]
            self._violations.append(float(order.violation(np.float64(best))))
            best = best if order.is_feasible(best) else math.inf
        mean = sum(values) / len(values)
        if not math.isfinite(mean):
            finite = [value for value in values if math.isfinite(value)]
            mean = sum(finite) / len(finite) if finite else math.inf
        self._rows.append((best, mean, spread, nfev))
        if self._store_swarms:
            self._swarms.append(swarm)

    def history(self) -> History:
        """Everything so far, as arrays."""
        columns = list(zip(*self._rows, strict=True)) or [(), (), (), ()]
        best, mean, spread, nfev = (np.asarray(column) for column in columns)
        return History(
            best, mean, spread, nfev.astype(np.int64), list(self._swarms), np.array(self._violations, dtype=float)
        )
