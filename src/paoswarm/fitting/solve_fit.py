"""A fit from its call to its result."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext

from paoswarm._extras import ProgressBar
from paoswarm.core.arrays import Floats
from paoswarm.core.random import generator
from paoswarm.evaluate.queue import PointQueue, Queue
from paoswarm.evaluate.recording import open_evaluator
from paoswarm.fitting.cells import Cells
from paoswarm.fitting.fit_call import FitCall
from paoswarm.fitting.fit_result import Fit, fit_so_far, make_fit
from paoswarm.fitting.fit_run import FitRun
from paoswarm.least_squares.descents import Warm
from paoswarm.run.run import drive
from paoswarm.run.stopping import Status
from paoswarm.store.journal import Journal


def solve_fit(call: FitCall, known: Sequence[tuple[Floats, int, Floats]] = (), warm: Warm | None = None) -> Fit:
    """Take a fit to its end.

    ``known`` are points that were simulated before, with their cells and outputs. With ``warm`` it goes on from the
    best one only.
    """
    comparison, known = call.comparison, known or call.known
    n_numbers = comparison.n_numbers or next((len(outputs) for _, _, outputs in known if len(outputs)), None)
    limits = call.limits.restarted()
    journal = None if call.store is None else Journal(call.store, call.describe(), call.to_fingerprint())
    searches = Cells(
        call.cube,
        comparison.loss,
        n_numbers,
        comparison.series,
        generator(call.rng),
        call.at_once,
        starts=call.starts,
        known=known,
        regions=call.regions,
        warm=warm,
    )
    with (
        journal or nullcontext(),
        open_evaluator(call.objective, journal, call.options, space=call.space, n_details=n_numbers) as evaluate,
        ProgressBar(call.progress, call.limits.maxfev) as bar,
    ):
        evaluate.count = bar.count if call.progress else None
        has_moved = False

        def observe(run: FitRun) -> None:
            nonlocal has_moved
            has_moved = True
            bar.show(best=run.value, failed=run.n_failed or None)

        def after_round() -> bool:
            nonlocal has_moved
            is_new, has_moved = has_moved, False
            notify = call.notify
            return notify is not None and is_new and not evaluate.replayed and notify(lambda: fit_so_far(call, run))

        is_asynchronous = bool(call.options.workers.asynchronous)
        queue: Queue = PointQueue(evaluate) if is_asynchronous else Queue(evaluate)
        n_recorded = 0 if journal is None else journal.n_before_polishing
        run = FitRun(searches, limits, observe, is_asynchronous=is_asynchronous, n_recorded=n_recorded)
        try:
            drive([run], queue, after_round)
        finally:
            queue.close()
        fit = make_fit(call, run, evaluate)
        if journal is not None:
            _end(journal, fit)
    evaluate.warn("a failure")
    return fit


def _end(journal: Journal, fit: Fit) -> None:
    is_final = fit.status > 0 and fit.status != Status.TIME
    journal.end(Status(fit.status).name, fit.message, final=bool(is_final))
    fit.message += journal.origin(int(fit.nfev))
