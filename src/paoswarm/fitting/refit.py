"""A fit again with other data, weights, laws of the noise or beliefs, from the outputs that it has kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from paoswarm._checks import flag
from paoswarm.core.arrays import Floats
from paoswarm.core.random import check_seed
from paoswarm.evaluate.call_options import CallOptions, Workers
from paoswarm.fitting.beliefs import Beliefs
from paoswarm.fitting.comparison import Comparison, Simulation
from paoswarm.fitting.fit_call import FitCall, budget_of
from paoswarm.fitting.solve_fit import solve_fit
from paoswarm.least_squares.descent import Precision
from paoswarm.least_squares.descents import Warm
from paoswarm.run.observers import read_callback
from paoswarm.run.stopping import Limits, Status

if TYPE_CHECKING:
    from paoswarm.fitting.fit_result import Fit
    from paoswarm.fitting.solution import Solution

_STILL = 3e-3  # standard errors: a step that gains less than one of this length is not taken
_BENT = 0.05  # share of the change of outputs: slopes then differ by about twice as much

Known = Sequence[tuple[Floats, int, Floats]]


def refit(
    fit: Fit,
    changes: dict[str, Any],
    *,
    search: bool,
    maxfev: float | None,
    time_limit: float | None,
    workers: Any,
    callback: Any,
    progress: bool,
    rng: Any,
) -> Fit:
    """Fit again; see `Fit.refit`. ``changes`` are the arguments of the call that are new."""
    old: FitCall = fit["_call"]
    given = old.given | {name: one for name, one in changes.items() if one is not ...}
    if (given["data"] is None) != (old.given["data"] is None):
        raise ValueError("data: the simulator returns residuals, or predictions; refit cannot change that, call ps.fit")
    check_seed(rng)
    options = CallOptions(False, old.options.workers if workers is None else Workers.of(workers))
    nothing_new = maxfev is not None and maxfev == 0
    limits = Limits.read(None, 1 if nothing_new else maxfev, None, 0.0, time_limit, (None, budget_of(old.cube)))
    comparison, known, rows = _translated(fit, old, given)
    call = replace(
        old,
        objective=Simulation(old.objective.simulate, comparison),
        comparison=comparison,
        limits=limits._replace(maxfev=0) if nothing_new else limits,
        starts=[],
        options=options,
        notify=read_callback(callback),
        progress=flag("progress", progress),
        rng=rng,
        seed=None,
        at_once=options.workers.count,
        store=None,
        given=given,
    )
    found = solve_fit(call, known, None if flag("search", search) else _warm(fit, comparison, rows))
    count = f"{len(known)} known and {found.nfev} new simulations."
    if nothing_new:
        found.message = f"This is the best of {count}"
    elif not search and found.status == Status.CONVERGED:
        found.message = f"Converged near the best of {count} Other minima were not looked for."
    else:
        found.message += f" There were {count}"
    return found


def _translated(fit: Fit, old: FitCall, given: dict[str, Any]) -> tuple[Comparison, Known, NDArray[np.intp]]:
    """What outputs are compared with now, all simulations in the form of that, and which of the old outputs it has."""
    are_same = all(given.get(name) is old.given.get(name) for name in ("priors", "penalty"))
    before = old.comparison
    beliefs = before.beliefs if are_same else Beliefs.read(given["priors"], given.get("penalty"), old.space)
    comparison = Comparison.read(given["data"], given["sigma"], given["likelihood"], beliefs, given.get("without"))
    m = max(len(outputs) for _, _, outputs in fit["_known"]) - before.beliefs.count
    rows = np.arange(m)
    if before.outputs is not None and comparison.outputs is not None:
        rows = comparison.outputs.rows_in(before.outputs)
    known = []
    for point, cell, outputs in fit["_known"]:
        if len(outputs):
            own = outputs[m:] if are_same else beliefs.residuals(old.space.given(old.cube.row(point, cell)))
            outputs = np.concatenate([outputs[rows], own])
        known.append((point, cell, outputs))
    comparison.loss(len(rows) + beliefs.count)  # raises if no data are left
    return comparison, known, rows


def _warm(fit: Fit, comparison: Comparison, rows: NDArray[np.intp]) -> Warm:
    """What is known of the best point of a fit.

    The slopes there count as known within one standard error, where the errors of the fit itself rely on them, and as
    far as they predict the outputs.
    """
    solution: Solution = fit.solution

    def is_near(point: Floats, outputs: Floats) -> bool:
        apart = point - solution.point
        apart = np.where(solution.cube.is_round, apart - np.rint(apart), apart)
        moved = solution.jacobian[rows] @ apart
        pair = np.zeros((len(outputs), 2))
        pair[: len(rows)] = np.stack([moved, outputs[: len(rows)] - solution.outputs[rows] - moved], axis=1)
        loss = comparison.loss(len(outputs))
        straight, bent = np.linalg.norm(loss.slope(loss.around(outputs), pair), axis=0)
        far = float(np.linalg.norm(solution.slope @ apart))
        return solution.is_measured and (far**2 <= solution.unit or bool(bent <= _BENT * straight))

    precision: Precision = fit["_precision"]
    value = solution.around.value
    if value > 0 and solution.unit > 0:
        precision = precision._replace(tol=max(precision.tol, _STILL**2 * solution.unit / value))
    return Warm(precision, solution.cell, is_near)
