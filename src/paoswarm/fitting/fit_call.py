"""A call of `fit`, read once: every error about what a user gives is raised here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from paoswarm._checks import flag, rounded, unmasked
from paoswarm.core.arrays import Floats
from paoswarm.core.random import Seed, check_seed
from paoswarm.evaluate.call_options import CallOptions, Workers
from paoswarm.evaluate.calls import Objective, to_fingerprint, with_arguments
from paoswarm.evaluate.constraints import without_functions
from paoswarm.fitting.beliefs import Beliefs
from paoswarm.fitting.comparison import Comparison, Curve, Simulation
from paoswarm.fitting.cube import Cube
from paoswarm.fitting.fit_constraints import Excess, read_fit_constraints, regions
from paoswarm.least_squares.loss import Scaled
from paoswarm.least_squares.region import Region
from paoswarm.run.observers import Notify, read_callback
from paoswarm.run.read_input import read_space
from paoswarm.run.stopping import Limits
from paoswarm.space.space import Space
from paoswarm.store.encoding import encode
from paoswarm.store.store import RecordedRun, Store

_BUDGET = 1000  # simulations for each unknown; the hardest of the benchmark's fits that are solved take 500


@dataclass(frozen=True)
class FitCall:
    """What a user has asked for, checked.

    Attributes
    ----------
    objective : Simulation
        As evaluators call it.
    excess, regions : Excess or None, list of Region
        What constraints say, and where points may be in each cell of the cube.
    starts : list of (array (n,), int)
        Points of the cube, and their cells, where searches start first.
    known : list of (array (n,), int, array (m,))
        Points that were simulated before, their cells and outputs.
    at_once : int
        How many points are simulated side by side.
    seed : object
        That of the call for the description in its store.
    """

    objective: Simulation
    excess: Excess | None
    regions: list[Region]
    space: Space
    cube: Cube
    comparison: Comparison
    limits: Limits
    starts: list[tuple[Floats, int]]
    known: list[tuple[Floats, int, Floats]]
    options: CallOptions
    notify: Notify | None
    progress: bool
    rng: Any
    seed: Any
    at_once: int
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
        problem |= {name: encode(_plain(value)) for name, value in self.given.items() if name not in own}
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
    data: Any,
    sigma: Any,
    likelihood: Any,
    xdata: Any,
    args: Any,
    priors: Any,
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
) -> FitCall:
    """Read the arguments of a call; see `fit` for what they are."""
    if not callable(simulate):
        raise TypeError(f"simulate must be callable, got {simulate!r}")
    read = read_space(space)
    cube = Cube(read)
    limited = read_fit_constraints(constraints, read)
    excess = None if limited is None else Excess(limited, cube)
    allowed = regions(excess, cube)
    comparison = Comparison.read(data, sigma, likelihood, Beliefs.read(priors, penalty, read))
    function = with_arguments(simulate if xdata is None else Curve(simulate, xdata), args)
    limits = Limits.read(None, maxfev, target, 0.0, time_limit, default=(None, budget_of(cube)))
    options = CallOptions(False, Workers.of(workers))
    check_seed(rng)
    rows, outputs = _read_x0(x0, read)
    given = {"data": data, "sigma": sigma, "likelihood": likelihood, "xdata": xdata, "priors": priors}
    given["x0"] = rows if outputs is None else (rows, outputs)
    if penalty is not None:
        given["penalty"] = penalty
    if limited is not None:
        given["constraints"] = limited
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


def budget_of(cube: Cube) -> int:
    """The most simulations, unless the user says otherwise."""
    return _BUDGET * cube.n


def _read_x0(x0: Any, space: Space) -> tuple[Floats | None, Floats | None]:
    """Rows of the user's points, and their outputs if these are given, too."""
    if not (isinstance(x0, tuple) and len(x0) == 2 and np.ndim(x0[1]) == 2):
        return (None if x0 is None else space.read("x0", x0)), None
    rows, outputs = space.read("x0", x0[0]), np.asarray(x0[1], dtype=float)
    if len(rows) != len(outputs):
        raise ValueError(f"x0 has {len(rows)} points, but outputs of {len(outputs)}")
    return rows, outputs


def _read_known(
    rows: Floats, outputs: Floats, comparison: Comparison, space: Space, cube: Cube, allowed: list[Region]
) -> list[tuple[Floats, int, Floats]]:
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


def _plain(given: Any) -> Any:
    """An argument without the user's own containers, so that what is equal has the same description."""
    if isinstance(given, Mapping):
        return {name: _plain(one) for name, one in given.items()}
    if isinstance(given, Scaled):
        return replace(given, data=_plain(given.data))
    if hasattr(given, "dist") or not hasattr(given, "__len__"):  # a distribution; a number, a law
        return given
    array = rounded(np.asarray(unmasked(given)))
    return given if array.ndim == 0 or array.dtype.kind not in "fiub" else array
