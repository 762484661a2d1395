"""A call of `fit`, read once: every error about what a user gives is raised here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from paoswarm._checks import flag
from paoswarm.core.arrays import Floats
from paoswarm.core.random import Seed, check_seed
from paoswarm.evaluate.call_options import CallOptions, Workers
from paoswarm.evaluate.calls import Objective, to_fingerprint, with_arguments
from paoswarm.evaluate.comparison import Beliefs, Curve, DataComparison, Simulation, plain_data
from paoswarm.evaluate.constraints import ConstraintSet, without_functions
from paoswarm.fitting.cube import Cube
from paoswarm.least_squares.trust_region import Region
from paoswarm.run.observers import Notify, read_callback
from paoswarm.run.read_input import read_space, trial_constraints
from paoswarm.run.stopping import Limits
from paoswarm.space.space import Space
from paoswarm.store.encoding import encode
from paoswarm.store.store import RecordedRun, Store

BUDGET = 1000  # simulations for each unknown; the hardest of the benchmark's fits that are solved take 500
_INSTEAD = "give penalty=, which returns residuals, or express one unknown by the others"

Known = Sequence[tuple[Floats, int, Floats]]  # points of the cube, their cells and outputs


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


@dataclass(frozen=True)
class FitCall:
    """What a user has asked for, checked."""

    objective: Simulation  # as evaluators call it
    excess: Excess | None  # what constraints say
    regions: list[Region]  # where points may be in each cell of the cube
    space: Space
    cube: Cube
    comparison: DataComparison
    limits: Limits
    starts: list[tuple[Floats, int]]  # points of the cube, and their cells, where searches start first
    known: Known  # that were simulated before
    options: CallOptions
    notify: Notify | None
    progress: bool
    rng: Any
    seed: Any  # for the description in the store
    at_once: int  # how many points are simulated side by side
    store: Store | None
    given: dict[str, Any]

    def to_fingerprint(self) -> Any:
        """What decides the values besides the description: functions and expressions."""
        constraints = () if self.excess is None else (part.fun for part in self.excess.constraints.parts)
        return to_fingerprint(self.objective, *self.space.expressions, *constraints)

    def describe(self) -> RecordedRun:
        """The call as JSON, for its store."""
        problem = {"bounds": encode(self.space.description), "at_once": self.at_once, "rng": self.seed}
        own = ("penalty", "constraints", "x0")
        problem |= {name: encode(plain_data(value)) for name, value in self.given.items() if name not in own}
        problem["x0"] = encode(self.given["x0"])
        if "constraints" in self.given:
            problem["constraints"] = encode(without_functions(self.given["constraints"]))
        if "penalty" in self.given:  # by its name alone: that of its module depends on how the user's file is run
            problem["penalty"] = {"own": getattr(self.given["penalty"], "__name__", "penalty")}
        problem["asynchronous"] = bool(self.options.workers.asynchronous)
        kept = {name: encode(getattr(self.limits, name)) for name in ("maxfev", "target", "time_limit")}
        return RecordedRun("fit", problem, kept | {"expected": self.limits.maxfev}, self.options.described)


def read_fit(
    *,
    simulate: Objective,
    space: Any,
    xdata: Any,
    args: Any,
    penalty: Any,
    constraints: Any,
    x0: Any,
    maxfev: Any,
    target: Any,
    time_limit: Any,
    workers: Any,
    callback: Any,
    progress: Any,
    rng: Seed,
    store: Any,
    **given: Any,
) -> FitCall:
    """Read the arguments of a call; see `fit` for what they are."""
    if not callable(simulate):
        raise TypeError(f"simulate must be callable, got {simulate!r}")
    read = read_space(space)
    cube = Cube(read)
    excess, allowed = _read_constraints(constraints, cube)
    beliefs = Beliefs.read(given["priors"], penalty, read)
    comparison = DataComparison.read(given["data"], given["sigma"], given["likelihood"], beliefs)
    function = with_arguments(simulate if xdata is None else Curve(simulate, xdata), args)
    limits = Limits.read(None, maxfev, target, 0.0, time_limit, default=(None, BUDGET * cube.n))
    options = CallOptions(False, Workers.of(workers))
    check_seed(rng)
    rows, outputs = _read_x0(x0, read)
    given |= {"xdata": xdata, "x0": rows if outputs is None else (rows, outputs)}
    if penalty is not None:
        given["penalty"] = penalty
    if excess is not None:
        given["constraints"] = excess.constraints
    kept = None if store is None else Store.of(store)
    rng, seed = (rng, None) if kept is None else kept.seeded(rng)
    recorded = None if kept is None else kept.recorded("at_once")
    return FitCall(
        objective=Simulation(function, comparison),
        excess=excess,
        regions=allowed,
        space=read,
        cube=cube,
        comparison=comparison,
        limits=limits,
        starts=_read_starts(rows, read, cube, allowed) if outputs is None else [],
        known=[] if rows is None or outputs is None else _read_known(rows, outputs, comparison, read, cube, allowed),
        options=options,
        notify=read_callback(callback),
        progress=flag("progress", progress),
        rng=rng,
        seed=seed,
        at_once=recorded if isinstance(recorded, int) else options.workers.count,
        store=kept,
        given=given,
    )


def _read_x0(x0: Any, space: Space) -> tuple[Floats | None, Floats | None]:
    """Rows of the user's points, and their outputs if these are given, too."""
    is_pair = isinstance(x0, tuple) and len(x0) == 2
    if is_pair and isinstance(x0[1], Mapping) and not set(x0[1]) & set(space.labels()):
        raise TypeError(
            f"x0: outputs of points must be an array with a row for each point, not a dict with {list(x0[1])}: write "
            "those of one point one after the other in a row, in the order of data"
        )
    if not (is_pair and np.ndim(x0[1]) == 2):
        return (None if x0 is None else space.read("x0", x0)), None
    rows, outputs = space.read("x0", x0[0]), np.asarray(x0[1], dtype=float)
    if len(rows) != len(outputs):
        raise ValueError(f"x0 has {len(rows)} points, but outputs of {len(outputs)}")
    return rows, outputs


def _read_known(
    rows: Floats, outputs: Floats, comparison: DataComparison, space: Space, cube: Cube, allowed: list[Region]
) -> Known:
    """Points that were simulated before, with the present residuals of priors and penalty; those not allowed are left.

    A store has earlier ones of these, after the outputs.
    """
    beliefs, m = comparison.beliefs, outputs.shape[1]
    if comparison.outputs is not None:
        m = len(comparison.outputs.data)
        if outputs.shape[1] < m:
            raise ValueError(f"x0 has {outputs.shape[1]} outputs for each point, but data has {m} numbers")
    elif beliefs.count:
        raise ValueError("x0 with outputs needs data: which of them are residuals of priors is not known")
    points, cells = cube.place(rows)
    known = []
    for row, point, cell, own in zip(rows, points, cells.tolist(), outputs, strict=True):
        if allowed[cell].allows(point):
            has_failed = bool(np.isnan(own).all())
            more = np.empty(0) if has_failed else beliefs.residuals(space.given(row))
            known.append((point, cell, np.empty(0) if has_failed else np.concatenate([own[:m], more])))
    return known


def _read_starts(x0: Floats | None, space: Space, cube: Cube, allowed: list[Region]) -> list[tuple[Floats, int]]:
    """Where searches start first: what the user says, or what the variables bring with them."""
    rows = space.guess if x0 is None else x0
    if rows is None:
        return []
    outside = ((space.coordinates(rows) < space.lower) | (space.coordinates(rows) > space.upper)).any(axis=1)
    if outside.any():
        raise ValueError(f"x0 is outside the bounds: {space.text(rows[int(np.argmax(outside))])}")
    points, cells = cube.place(rows)
    for point, cell in zip(points, cells.tolist(), strict=True):
        if not allowed[cell].allows(point):
            raise ValueError(f"x0 violates the constraints: {space.text(cube.row(point, cell))}")
    return list(zip(points, cells.tolist(), strict=True))


def _read_constraints(given: Any, cube: Cube) -> tuple[Excess | None, list[Region]]:
    """The constraints of a fit, and where points may be, cell by cell; cells without such a point leave the cube."""
    constraints = trial_constraints(given, cube.space)
    if constraints is None:
        return None, [Region(None, cube.n) for _ in cube.cells]
    if constraints.n_returned:
        raise ValueError(f"ps.Returned is for minimize; in a fit, for limits of what is simulated, {_INSTEAD}")
    if constraints.is_equality.any():
        label = constraints.labels[int(np.argmax(constraints.is_equality))]
        raise ValueError(f"{label} is an equality, and a fit takes only inequalities: {_INSTEAD}")
    excess = Excess(constraints, cube)
    found = [Region(partial(excess, cell=c), cube.n) for c in range(len(cube.cells))]
    is_open = np.array([not one.is_empty for one in found])
    if not is_open.any():
        names = ", ".join(dict.fromkeys(excess.labels))
        raise ValueError(f"no point of the space was found that satisfies the constraints ({names})")
    if not is_open.all():
        cube.cells = cube.cells[is_open]
        found = [Region(partial(excess, cell=c), cube.n) for c in range(len(cube.cells))]
    return excess, found
