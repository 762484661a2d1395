"""Reading constraints for a space: their functions are tried at a few points, and contradictions are noticed."""

from __future__ import annotations

import numbers
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import LinearConstraint, linprog

from paoswarm.core.arrays import Floats
from paoswarm.evaluate.constraints import ConstraintPart, ConstraintSet, Linear, read_constraints
from paoswarm.space.space import Fixed, Space
from paoswarm.space.variables import Choice, Integer, Periodic, Real, Variable

_TRIALS = 3  # points at which the functions of constraints are called before the run
_MOST_ROWS = 300  # linear constraints for which a contradiction is traced to the few that cause it


def trial_constraints(given: Any, space: Space, vectorized: bool = False) -> ConstraintSet | None:
    """The constraints that a user gives, checked before the first evaluation; None if there are none."""
    if isinstance(given, ConstraintSet):
        return given
    shares = np.random.default_rng(0).uniform(size=(_TRIALS, len(space.lower)))
    shares[0] = 0.5
    rows = space.rows(space.lower + shares * (space.upper - space.lower))
    _check_choices(given, space)
    trials = [space.given(row[None]) if vectorized else space.given(row) for row in rows]
    constraints = read_constraints(given, trials, vectorized)
    if constraints is not None:
        _check_linear(constraints, space)
    return constraints


def _check_choices(given: Any, space: Space) -> None:
    """Raise if a linear constraint stands beside a choice, a text or an expression, which have no number."""
    several = given if isinstance(given, list | tuple) else [given]
    if not any(isinstance(one, LinearConstraint) for one in several):
        return
    for label, one in zip(space.labels(), space.variables, strict=True):
        if isinstance(one, Choice) or (isinstance(one, Fixed) and not isinstance(one.fixed, numbers.Real)):
            kind = f"fixed at {one.fixed!r}" if isinstance(one, Fixed) else "a Choice"
            raise ValueError(
                f"a LinearConstraint needs numbers, but {label} is {kind}; write the constraint as a function"
            )
    if space.expressions:
        raise ValueError(
            f"a LinearConstraint has a column for each variable, but {space.expressions[0][0]} is an expression; write "
            "the constraint as a function"
        )


def _check_linear(constraints: ConstraintSet, space: Space) -> None:
    """Raise if linear constraints have another number of columns, or contradict each other or the bounds."""
    d = len(space.variables)
    parts = [(part, part.fun.matrix) for part in constraints.parts if isinstance(part.fun, Linear)]
    if not parts:
        return
    for part, matrix in parts:
        if matrix.shape[1] != d:
            raise ValueError(
                f"{part.label}: the matrix of a LinearConstraint needs {d} columns, one for each variable, got shape "
                f"{matrix.shape}"
            )
    labels = [label for part, _ in parts for label in _row_labels(part)]
    rows = np.concatenate([matrix for _, matrix in parts])
    lb, ub = (np.concatenate(ends) for ends in zip(*((p.lb - p.tol, p.ub + p.tol) for p, _ in parts), strict=True))
    needed = _contradiction(rows, lb, ub, [_Ends.of(one) for one in space.variables])
    names = ", ".join(labels[row] for row in needed)
    if len(needed) == 1:
        raise ValueError(f"{names} holds nowhere in the bounds: no point is feasible")
    if needed:
        raise ValueError(f"these linear constraints contradict each other in the bounds: {names}")


def _row_labels(part: ConstraintPart) -> list[str]:
    return [part.label] if len(part.lb) == 1 else [f"row {i} of {part.label}" for i in range(len(part.lb))]


def _contradiction(rows: Floats, lb: Floats, ub: Floats, ends: list[_Ends]) -> list[int]:
    """Which rows contradict each other or the bounds: as few as possible, or all if they are many; else none."""
    every = np.arange(len(rows))
    if _has_point(rows, lb, ub, ends, every):
        return []
    needed: list[int] = every.tolist()
    if len(rows) <= _MOST_ROWS:  # drop what is not needed for the contradiction
        for row in every:
            others = [one for one in needed if one != row]
            if not _has_point(rows, lb, ub, ends, np.array(others, dtype=int)):
                needed = others
    return needed


class _Ends(NamedTuple):
    low: float
    high: float
    is_whole: bool

    @classmethod
    def of(cls, one: Variable) -> _Ends:
        """Where a variable may lie."""
        if isinstance(one, Fixed):
            return cls(float(one.fixed), float(one.fixed), False)
        assert isinstance(one, Real | Periodic | Integer)
        return cls(one.low, one.high, one.is_whole)


def _has_point(rows: Floats, lb: Floats, ub: Floats, ends: list[_Ends], which: Any) -> bool:
    above, below = which[np.isfinite(ub[which])], which[np.isfinite(lb[which])]
    if len(above) + len(below) == 0:
        return True
    found = linprog(
        np.zeros(rows.shape[1]),
        A_ub=np.concatenate([rows[above], -rows[below]]),
        b_ub=np.concatenate([ub[above], -lb[below]]),
        bounds=[(low, high) for low, high, _ in ends],
        integrality=[1 if is_whole else 0 for _, _, is_whole in ends],
    )
    return int(found.status) != 2  # infeasible
