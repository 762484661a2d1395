"""Constraints of a fit: functions of the unknowns that keep its searches away from some points."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from paoswarm.core.arrays import Floats
from paoswarm.evaluate.constraints import ConstraintSet
from paoswarm.fitting.cube import Cube
from paoswarm.least_squares.region import Region
from paoswarm.run.read_input import trial_constraints
from paoswarm.space.space import Space

_INSTEAD = "give penalty=, which returns residuals, or express one unknown by the others"


@dataclass(frozen=True, eq=False)
class Excess:
    """How far constraints are beyond their limits at points of the cube."""

    constraints: ConstraintSet
    cube: Cube

    def __call__(self, point: Floats, cell: int) -> Floats:
        """Numbers ``(k,)``, none of which may be above zero; NaN where a function raises."""
        numbers = self.constraints.at(self.cube.space.given(self.cube.row(point, cell)))
        tol = self.constraints.tol
        beyond = np.concatenate([self.constraints.lb - numbers - tol, numbers - self.constraints.ub - tol])
        return beyond[self._is_finite]

    def on_edge(self, region: Region, point: Floats) -> tuple[str, ...]:
        """The names of those that hold with equality at a point."""
        return tuple(name for name, is_on in zip(self.labels, region.is_on_edge(point), strict=True) if is_on)

    def fields(self, point: Floats, cell: int) -> dict[str, Any]:
        """What a result says about constraints at its point, with SciPy's names."""
        numbers = self.constraints.at(self.cube.space.given(self.cube.row(point, cell)))
        excess = self.constraints.excess(numbers)
        return {
            "feasible": True,
            "constr": self.constraints.split(numbers),
            "constr_violation": self.constraints.split(excess),
            "maxcv": float(excess.max()),
            "n_infeasible": 0,  # such points are not simulated
        }

    @property
    def _is_finite(self) -> Any:
        return np.isfinite(np.concatenate([self.constraints.lb, self.constraints.ub]))

    @property
    def labels(self) -> list[str]:
        """The names of the numbers."""
        return [label for label, used in zip(self.constraints.labels * 2, self._is_finite, strict=True) if used]


def read_fit_constraints(given: Any, space: Space) -> ConstraintSet | None:
    """The constraints of a fit, checked; None if there are none."""
    constraints = trial_constraints(given, space)
    if constraints is None:
        return None
    if constraints.n_returned:
        raise ValueError(f"ps.Returned is for minimize; in a fit, for limits of what is simulated, {_INSTEAD}")
    if constraints.is_equality.any():
        label = constraints.labels[int(np.argmax(constraints.is_equality))]
        raise ValueError(f"{label} is an equality, and a fit takes only inequalities: {_INSTEAD}")
    return constraints


def regions(excess: Excess | None, cube: Cube) -> list[Region]:
    """Where points may be, cell by cell; cells without such a point are left out of the cube."""
    if excess is None:
        return [Region(None, cube.n) for _ in cube.cells]
    found = [Region(partial(excess, cell=c), cube.n) for c in range(len(cube.cells))]
    is_open = np.array([not one.is_empty for one in found])
    if not is_open.any():
        names = ", ".join(dict.fromkeys(excess.labels))
        raise ValueError(f"no point of the space was found that satisfies the constraints ({names})")
    if is_open.all():
        return found
    cube.cells = cube.cells[is_open]
    return regions(excess, cube)
