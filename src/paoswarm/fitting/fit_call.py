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
from paoswarm.run.callback import Notify, read_callback
from paoswarm.run.read_space import read_space
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
        own = ("penalty", "constraints")
        problem |= {name: encode(_plain(value)) for name, value in self.given.items() if name not in own}
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
    rows = None if x0 is None else read.read("x0", x0)
    given = {"data": data, "sigma": sigma, "likelihood": likelihood, "xdata": xdata, "priors": priors, "x0": rows}
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
        starts=_read_starts(rows, read, cube, allowed),
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
