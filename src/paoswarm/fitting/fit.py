"""`fit`: find the unknowns of a simulator from its outputs; and once more, with other data, noise or beliefs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paoswarm._checks import explains_keywords, flag
from paoswarm._extras import ProgressBar
from paoswarm.core.arrays import Floats
from paoswarm.core.random import Seed, check_seed
from paoswarm.evaluate.call_options import CallOptions, Workers
from paoswarm.evaluate.calls import Objective
from paoswarm.evaluate.comparison import Beliefs, DataComparison, Simulation
from paoswarm.evaluate.evaluator import Evaluator
from paoswarm.evaluate.interrupts import delays_interrupts
from paoswarm.evaluate.queue import PointQueue, Queue
from paoswarm.fitting.fit_call import BUDGET, FitCall, Known, read_fit
from paoswarm.fitting.fit_result import Fit
from paoswarm.fitting.fit_run import Cells, FitRun
from paoswarm.fitting.solution import Solution
from paoswarm.least_squares.descent import Precision
from paoswarm.least_squares.descents import Warm
from paoswarm.methods.agreement import Search
from paoswarm.run.many_result import Found, make_result
from paoswarm.run.observers import History, read_callback
from paoswarm.run.result import Result
from paoswarm.run.run import Ends, drive
from paoswarm.run.stopping import Limits, Status
from paoswarm.space.evaluations import Evaluations
from paoswarm.store.journal import Journal

_STILL = 3e-3  # standard errors: a step that gains less than one of this length is not taken
_BENT = 0.05  # share of the change of outputs: slopes then differ by about twice as much


@explains_keywords(
    vectorized="fit simulates one point at a time; use workers= for several at once",
    residuals="give the function of residuals first and leave out data",
    loss="choose a law of the noise, such as likelihood='student-t' for outliers",
    absolute_sigma="sigma= is absolute; leave it out if it is unknown",
    ydata="use data=",
    method="searches are Gauss-Newton's; use minimize for another method",
    bounds="the second argument is the space",
    p0="use x0=",
)
def fit(
    simulate: Objective,
    space: Any,
    data: Any = None,
    *,
    sigma: Any = None,
    likelihood: Any = "normal",
    xdata: Any = None,
    args: Any = (),
    priors: Any = None,
    penalty: Callable[..., Any] | None = None,
    constraints: Any = (),
    x0: Any = None,
    maxfev: float | None = None,
    target: float | None = None,
    time_limit: float | None = None,
    workers: Any = 1,
    callback: Callable[..., Any] | None = None,
    progress: bool = False,
    rng: Seed = None,
    store: Any = None,
) -> Fit:
    r"""Fit a simulator to data: find its unknowns, and say how sure they are.

    Independent Gauss-Newton searches learn the slopes of all outputs from the points that were simulated, without
    derivatives, and start again until they agree. That takes about a tenth of the simulations that `minimize` needs
    for the sum of squares. Simulations that fail shrink a step and end no search.

    Parameters
    ----------
    simulate : callable
        ``simulate(p)`` returns predictions in the form of the data: an array, or a dict of arrays. ``p`` is a dict if
        the space is one, else an array. Without data it returns residuals ``(m,)``, or a dict of these.
    space : dict, sequence, or lmfit.Parameters
        The unknowns and their bounds, as in `minimize`: pairs ``(low, high)``, ``Real(low, high, log=True)``,
        `Periodic`, numbers that are fixed. Of `Integer` and `Choice` each of up to 64 combinations is searched.
    data : array, dict of arrays, or Scaled, optional
        What the simulator should return. NaN is a missing datum: there the result has predictions, with bands.
        `Scaled` data have an unknown factor or offset.
    sigma : number, array or dict, optional
        Standard deviation of the data. None: one unknown number for each output, which is estimated.
    likelihood : str, Likelihood or dict
        The law of the noise, or one for each output: "normal", "lognormal", "poisson", "student-t", "huber", or an
        object of ``paoswarm.likelihoods``.
    xdata : array, optional
        Then the simulator is called as ``simulate(xdata, *values)``, as by `scipy.optimize.curve_fit`.
    args : tuple
        More arguments of the simulator.
    priors : dict, optional
        Frozen `scipy.stats` distributions by name of the unknown.
    penalty : callable, optional
        ``penalty(p) -> array`` of further residuals with unit variance. It should be quick.
    constraints : constraint or list of constraints
        Inequalities, as in `minimize`, of the unknowns. Points that violate one are not simulated.
    x0 : point or points, or (points, outputs), optional
        Where the first searches start. Or points that were simulated before, with their outputs: they are not simulated
        again. Those of a store are ``(store.read()[0], store.outputs())``; the data may be others.
    maxfev : int or None
        Most simulations; by default 1000 for each unknown, or none if there is a time limit.
    target, time_limit, workers, callback, progress, rng, store
        As in `minimize`. With ``workers=8`` eight points are simulated at once. A store also keeps all outputs.

    Returns
    -------
    Fit
        Print it for a table. ``best``, ``standard_errors``, ``correlations``, ``predictions``, ``band()``,
        ``profile()``, ``refit()``, ``sample()``, ``plot()``; ``remarks`` says what to doubt.

    Notes
    -----
    What is minimised is the sum of squares if there is one output with normal noise of unknown size, chi-square if
    ``sigma`` is known, and else equation (F2), which grows with minus twice the log likelihood. The theory is in
    :doc:`/least_squares`.

    Examples
    --------
    >>> import numpy as np
    >>> import paoswarm as ps
    >>> t = np.arange(1.0, 7.0)
    >>> measured = np.array([8.1, 10.6, 13.0, 13.9, 15.1, 15.4])
    >>> def simulate(p):
    ...     return p["limit"] * (1 - np.exp(-p["rate"] * t))
    >>> fit = ps.fit(simulate, {"limit": (1, 100), "rate": ps.Real(0.01, 10, log=True)}, measured, rng=1)
    >>> print(fit)  # doctest: +ELLIPSIS
    Converged: 3 of 3 independent searches ended at this point. A better minimum that is as
    easy to find was missed with a probability below 3 %. Not covered: one that attracts
    less than 21 % of the searches, such as a narrow hole.
    Sum of squares 1.26018 of 6 data with 4 degrees of freedom
    Standard deviation of a datum 0.5613, estimated
             estimate  std. error  95 % interval
      limit     15.46        0.48  14.12 to 16.80
      rate      0.640       0.066  0.480 to 0.853
    AIC 13.6643, BIC 13.0395
    It took ... simulations; 3 searches have ended.
    """
    return solve_fit(read_fit(**locals()))


@delays_interrupts
def solve_fit(call: FitCall, known: Known = (), warm: Warm | None = None) -> Fit:
    """Take a fit to its end.

    ``known`` are points that were simulated before, with their cells and outputs. With ``warm`` it goes on from the
    best one only.
    """
    comparison, known = call.comparison, known or call.known
    n_numbers = comparison.n_numbers or next((len(outputs) for _, _, outputs in known if len(outputs)), None)
    limits = call.limits.restarted()
    journal = None if call.store is None else Journal(call.store, call.describe(), call.to_fingerprint())
    searches = Cells(call, n_numbers, known, warm)
    with (
        journal or nullcontext(),
        Evaluator(call.objective, call.options, journal, space=call.space, n_details=n_numbers) as evaluate,
        ProgressBar(call.progress, call.limits.maxfev) as bar,
    ):
        evaluate.count = bar.count if call.progress else None
        n_seen = 0  # rounds

        def after_round() -> bool:
            nonlocal n_seen
            is_new, n_seen = run.nit > n_seen and math.isfinite(run.value), run.nit
            if is_new:
                bar.show(best=run.value, failed=run.n_failed or None)
            notify = call.notify
            return notify is not None and is_new and not evaluate.replayed and notify(lambda: fit_so_far(call, run))

        is_asynchronous = bool(call.options.workers.asynchronous)
        queue: Queue = PointQueue(evaluate) if is_asynchronous else Queue(evaluate)
        n_recorded = 0 if journal is None else journal.n_before_polishing
        run = FitRun(searches, limits, is_asynchronous=is_asynchronous, n_recorded=n_recorded)
        try:
            drive([run], queue, after_round)
        finally:
            queue.close()
        fit = make_fit(call, run, evaluate)
        if journal is not None:
            is_final = fit.status > 0 and fit.status != Status.TIME
            journal.end(Status(fit.status).name, fit.message, final=bool(is_final))
            fit.message += journal.origin(int(fit.nfev))
    evaluate.warn("a failure")
    return fit


def fit_so_far(call: FitCall, run: FitRun) -> Result:
    """What a callback sees."""
    best = run.searches.best
    x = call.cube.row(best.pool.points[best.pool.best], run.searches.best_cell)
    fields = {"x": x, "fun": run.value, "nit": run.nit, "nfev": run.nfev, "n_failed": run.n_failed}
    return Result(**fields, **({} if call.space.is_plain else {"space": call.space}))


def make_fit(call: FitCall, run: FitRun, evaluate: Evaluator) -> Fit:
    """The result of a fit that has ended."""
    ends: Ends | None = run.ends
    assert ends is not None
    cells, cell = run.searches, run.searches.best_cell
    best = cells.best
    point, outputs = best.pool.points[best.pool.best], best.pool.outputs[best.pool.best]
    found = Found(
        x=call.cube.row(point, cell)[None],
        fun=np.array([run.value]),
        nit=ends.nit,
        nfev=ends.nfev,
        n_failed=np.array([run.n_failed]),
        swarm=None,
        status=ends.status,
        rule=ends.rule,
        best=np.array([run.best]),
        agreements=[best.agreement],
        last_words=[ends.why],
        failure_kinds=[run.failure_kinds],
    )
    many, _ = make_result(
        [found],
        space=call.space,
        method=None,
        limits=run.limits,
        engine="numpy",
        seeds=[],
        failures=evaluate.log.first,
        evaluations=_evaluations(call, run),
    )
    measured, rough = best.jacobian, best.rough_jacobian
    slope = measured if measured is not None else rough
    solution = Solution(
        cube=call.cube,
        comparison=call.comparison,
        point=point.copy(),
        cell=cell,
        outputs=outputs,
        jacobian=np.zeros((len(outputs), cells.cube.n)) if slope is None else slope,
        is_measured=measured is not None,
        noise=0.0 if best.precision is None else best.precision.relative,
        counts=(run.nfev, run.n_failed),
        edge=best.pool.region.normals(point),
        edge_names=() if call.excess is None else call.excess.on_edge(best.pool.region, point),
    )
    fit = Fit(**many.run(0))
    fit.history = History(best=np.array(run.best), nfev=np.array(run.counts, dtype=np.int64))
    fit["solution"], fit["_agreement"], fit["_searches"] = solution, best.agreement, _searches(call, run)
    if call.excess is not None:
        fit.update(call.excess.fields(point, cell))
    fit["_call"], fit["_known"], fit["_precision"] = call, _known(run), best.precision or Precision()
    return fit


def _known(run: FitRun) -> Known:
    """All points that were simulated, with their cells and outputs."""
    pools = enumerate(one.pool for one in run.searches.all)
    return [
        (point, cell, outputs) for cell, pool in pools for point, outputs in zip(pool.points, pool.outputs, strict=True)
    ]


def _searches(call: FitCall, run: FitRun) -> tuple[Search, ...]:
    """How all searches have ended, in the coordinates of the space."""
    found = []
    for cell, end in ((cell, end) for cell, one in enumerate(run.searches.all) for end in one.ends):
        x = call.cube.coordinates(end.x, cell)
        found.append(Search(0, 1, end.spent, x, end.value, end.state, end.first_value, "Gauss-Newton"))
    return tuple(found)


def _evaluations(call: FitCall, run: FitRun) -> Evaluations:
    """All simulated points and values, cell by cell."""
    kept = Evaluations()
    for cell, one in enumerate(run.searches.all):
        if len(one.pool):
            values = np.where(np.isfinite(one.pool.values), one.pool.values, np.nan)
            kept.add(call.space.rows(call.cube.coordinates(one.pool.points, cell)), values)
    return kept


def refit(
    fit: Fit,
    *,
    search: bool,
    maxfev: float | None,
    time_limit: float | None,
    workers: Any,
    callback: Any,
    progress: bool,
    rng: Any,
    **changes: Any,
) -> Fit:
    """Fit again; see `Fit.refit`. ``changes`` are arguments of the call; ``...`` says that one is not new."""
    old: FitCall = fit["_call"]
    given = old.given | {name: one for name, one in changes.items() if one is not ...}
    if isinstance(given["data"], Mapping):
        given |= _by_output(old.given, changes, given["data"])
    if (given["data"] is None) != (old.given["data"] is None):
        raise ValueError("data: the simulator returns residuals, or predictions; refit cannot change that, call ps.fit")
    check_seed(rng)
    options = old.options if workers is None else CallOptions(False, Workers.of(workers))
    nothing_new = maxfev is not None and maxfev == 0
    limits = Limits.read(None, 1 if nothing_new else maxfev, None, 0.0, time_limit, (None, BUDGET * old.cube.n))
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


def _by_output(old: dict[str, Any], changes: dict[str, Any], outputs: Mapping[str, Any]) -> dict[str, Any]:
    """What is given for each output: of those that remain as it was, unless it is new."""
    found: dict[str, Any] = {}
    for name in ("sigma", "likelihood", "without"):
        before, new = old.get(name), changes[name]
        if new is ... and name == "without" and before is not None and not isinstance(before, Mapping):
            found[name] = [one for one in ([before] if isinstance(before, str) else before) if one in outputs]
        elif new is ... and isinstance(before, Mapping):
            found[name] = {output: one for output, one in before.items() if output in outputs}
        elif name != "without" and isinstance(new, Mapping):
            before = before if isinstance(before, Mapping) else dict.fromkeys(outputs, before)
            found[name] = {output: one for output, one in before.items() if output in outputs} | dict(new)
    return found


def _translated(fit: Fit, old: FitCall, given: dict[str, Any]) -> tuple[DataComparison, Known, NDArray[np.intp]]:
    """What outputs are compared with now, all simulations in the form of that, and which of the old outputs it has."""
    are_same = all(given.get(name) is old.given.get(name) for name in ("priors", "penalty"))
    before = old.comparison
    beliefs = before.beliefs if are_same else Beliefs.read(given["priors"], given.get("penalty"), old.space)
    comparison = DataComparison.read(given["data"], given["sigma"], given["likelihood"], beliefs, given.get("without"))
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


def _warm(fit: Fit, comparison: DataComparison, rows: NDArray[np.intp]) -> Warm:
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
