"""`minimize`: one run."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from paoswarm.algorithms.method import Method
from paoswarm.algorithms.pao import PAO
from paoswarm.checks import flag
from paoswarm.core.random import Seed, check_seed
from paoswarm.core.swarm import read_only
from paoswarm.evaluation.call_options import CallOptions
from paoswarm.evaluation.calls import Objective
from paoswarm.evaluation.evaluator import Evaluator
from paoswarm.evaluation.recording import open_evaluator
from paoswarm.optimize import read_input
from paoswarm.optimize.asynchronous import solve_asynchronously
from paoswarm.optimize.loop import crashed, solve, telling_the_best
from paoswarm.optimize.optimizer import Optimizer
from paoswarm.optimize.polish import ASIDE, ASIDE_TIME
from paoswarm.optimize.polish import polish as polish_best
from paoswarm.optimize.progress import open_bar
from paoswarm.optimize.result import Recorder, Result, current_result, describe
from paoswarm.optimize.run_description import describe_run
from paoswarm.optimize.stopping import Limits, Status
from paoswarm.storage.journal import Journal
from paoswarm.storage.store import Store


def minimize(
    fun: Objective,
    bounds: Any,
    *,
    method: Method = PAO(),  # noqa: B008 (immutable)
    n_particles: int = 100,
    maxiter: int | None = 100,
    maxfev: int | None = None,
    target: float | None = None,
    tol: float = 1e-12,
    stagnation: int | None = None,
    time_limit: float | None = None,
    x0: ArrayLike | None = None,
    f0: ArrayLike | None = None,
    init: Any = "latinhypercube",
    vectorized: bool = False,
    workers: Any = 1,
    timeout: float | None = None,
    retries: int = 1,
    asynchronous: bool = False,
    reevaluate: float = 0.0,
    callback: Callable[..., Any] | None = None,
    progress: bool = False,
    polish: bool = False,
    store_swarms: bool = False,
    rng: Seed = None,
    store: Any = None,
) -> Result:
    """Find the minimum of a black-box function in a box.

    Parameters
    ----------
    fun : callable
        ``fun(x) -> float`` with ``x`` of shape ``(d,)``; with ``vectorized=True``, ``(m, d) -> (m,)``, rows are points.
    bounds : sequence of (low, high), (d, 2) array or scipy.optimize.Bounds
        The box; all ends finite.
    method : Method
        The swarm and its hyperparameters: `PAO`, or for comparison `PSO`, `QPSO`, `DE`, `SADE`, or your own `Method`.
    n_particles : int
        Size of the swarm; points or a swarm given as ``init`` bring their own number.
    maxiter : int or None
        Generations after the first swarm. None: no such limit; then ``maxfev`` or ``time_limit`` is needed.
    maxfev : int or None
        Evaluations, exactly: the last generation is cut short where necessary. ``maxiter`` holds as well; give
        ``maxiter=None`` if evaluations alone shall decide.
    target : float or None
        Stop when the best value is at or below it.
    tol : float
        Stop when the swarm has collapsed: the root mean square distance of the particles from the best point, in
        widths of the box, is below ``tol``. Zero: never.
    stagnation : int or None
        Stop after so many generations without improvement of the best value.
    time_limit : float or None
        Seconds. Points that are being evaluated are finished (with ``vectorized``, the generation).
        Schedules follow ``maxiter`` and ``maxfev`` only, since time cannot be repeated.
    x0 : array (d,) or (m, d), optional
        Points to be in the first swarm.
    f0 : array (m,), optional
        Their values (a warm start): these points are not evaluated again, but for those whose value is NaN.
    init : str, array (n, d), Result or Swarm
        ``latinhypercube``, ``sobol``, ``halton``, ``random``; your own points; or the ``result`` of an earlier run,
        which is then continued without evaluating its points again (``result.swarm`` too, but what polishing has found
        is not in it).
    vectorized : bool
        Whether ``fun`` takes many points at once. Much faster where it can.
    workers : int, Executor, Dask Client, function that makes one, or map-like
        Processes to evaluate with (-1: one per core); or anything with the interface of
        `concurrent.futures.Executor`: threads, loky, MPI, `RayExecutor`; a Dask ``Client``; a function without
        arguments that makes one of these, so that a broken one can be replaced; or a callable like the builtin ``map``.
        The result does not depend on it.
    timeout : float or None
        Seconds that one evaluation may take. Then it is ended, with all processes that it has started, and has failed.
        Points are evaluated one by one for that, in a process that can be ended, also with ``vectorized``.
    retries : int
        How often a point is evaluated again that was lost with its process, because it crashed, ran out of memory or
        was killed. After that it has failed, and the run goes on.
    asynchronous : bool
        Let every particle move as soon as its own value is there, instead of in generations: no worker waits for
        another. For evaluations that take seconds or more, and not all the same time. ``n_particles`` should be twice
        the number of workers or more. The result depends on who was quickest; a ``store`` records that, and repeats it.
    reevaluate : float
        For noisy objectives: the share of the remembered bests that is measured again in each generation, 0.2 for
        example. Best values become running means, and points are compared by mean plus three standard errors.
    callback : callable, optional
        Called after every generation: ``callback(intermediate_result)`` with that parameter name, holding
        ``x, fun, nit, nfev, swarm`` (read-only); any other parameter name receives ``x`` alone. Raising StopIteration
        or returning True ends the run.
    progress : bool
        Show a progress bar (needs tqdm).
    polish : bool
        Finish with a local search (L-BFGS-B) from the best point: worth it wherever the function is smooth. Of
        ``maxfev`` up to ``50 (d + 1)`` evaluations are set aside for it, of ``time_limit`` a tenth. Not for noisy
        functions.
    store_swarms : bool
        Keep every generation's swarm in ``history.swarms``. Off by default: it takes memory.
    rng : int, Generator, SeedSequence or None
        Seed. The same seed gives the same result with any ``workers``.
    store : path or Store, optional
        A file that keeps every evaluation as soon as it is made. The same call again goes on where an earlier one was
        killed, interrupted or ended, with the result of a run that never stopped; of a finished run it returns the
        result without calling ``fun``. ``callback`` is not called for generations that are only repeated, and
        ``time_limit`` does not count them. See `resume`, and `Store` for the choice between safety and speed.

    Returns
    -------
    Result
        An ``OptimizeResult`` with ``x, fun, success, status, message, nit, nfev, n_failed, failures, history, swarm,
        method`` and ``optimum``, the distribution of where the optimum may be (None for methods without a closed-form
        step).

    Notes
    -----
    A point where ``fun`` raises, returns NaN or something that is not a real number, takes longer than ``timeout`` or
    ends its worker counts as +inf; it is counted in ``n_failed`` and the run goes on. If the whole first swarm fails,
    that is an error. An interrupt (Ctrl-C) ends the run and returns the best so far, with every point that was
    finished; only one that comes in the moment when the swarm itself is moved may cost the generation in progress.

    Examples
    --------
    >>> import numpy as np
    >>> import paoswarm as ps
    >>> def rastrigin(x):
    ...     return (x**2 - 10 * np.cos(2 * np.pi * x) + 10).sum(axis=-1)
    >>> result = ps.minimize(rastrigin, [(-5.12, 5.12)] * 2, vectorized=True, rng=1)
    >>> bool(result.fun < 1e-9)
    True
    >>> result.message
    'The allowed number of generations is used up.'
    """
    limits = Limits.read(maxiter, maxfev, target, tol, stagnation, time_limit)
    switches = {"asynchronous": asynchronous, "polish": polish, "progress": progress, "store_swarms": store_swarms}
    for name, given in switches.items():
        flag(name, given)
    if polish and reevaluate:
        raise ValueError("polish=True would trust single noisy values: leave it out where reevaluate is used")
    check_seed(rng)  # a list would make a batch of an Optimizer
    seed: Any = None
    if store is not None:
        store = Store.of(store)
        rng, seed = store.seeded(rng)
    optimizer = Optimizer(
        bounds,
        method=method,
        n_particles=n_particles,
        x0=x0,
        f0=f0,
        init=init,
        reevaluate=reevaluate,
        rng=rng,
    )
    if asynchronous and not optimizer.method.moves_singly:
        raise ValueError(f"{type(method).__name__} learns by generations: it cannot be asynchronous")
    wanted = limits = limits.starting_with(optimizer.n_to_start)
    if polish and limits.maxfev is not None:  # set some evaluations aside
        aside = min(ASIDE * (len(optimizer.lower) + 1), max(0, limits.maxfev - optimizer.n_to_start) // 4)
        limits = limits._replace(maxfev=limits.maxfev - aside)
    if polish and limits.time_limit is not None:
        limits = limits._replace(time_limit=(1 - ASIDE_TIME) * limits.time_limit).restarted()
    notify = _reader_of(callback)
    recorder = Recorder(store_swarms)
    if optimizer.swarm is not None:  # a run that is continued
        recorder.record(optimizer.swarm, float(optimizer.spread), 0)
    calling = CallOptions(vectorized, workers, timeout, retries)
    journal = None
    if store is not None:
        start = {"x0": x0, "f0": f0, "init": init, "reevaluate": float(reevaluate)}
        start |= {"asynchronous": bool(asynchronous)}
        journal = Journal(store, describe_run(optimizer, wanted, start, calling, polish, seed), fun)
    with (
        journal or nullcontext(),
        open_evaluator(fun, journal, calling) as evaluate,
        open_bar(progress) as bar,
    ):
        if progress:
            evaluate.count = bar.count
            bar.expect(limits.evaluations(optimizer.n_to_start, optimizer.n_particles + optimizer.n_again))

        def after_generation(optimizer: Optimizer, spread: Any) -> Status | None:
            assert optimizer.swarm is not None
            known = optimizer.spread if spread is None else spread
            recorder.record(optimizer.swarm, float(known), optimizer.nfev)
            bar.say(optimizer)
            return None if evaluate.replayed else notify(optimizer)

        with telling_the_best(optimizer):
            if asynchronous:
                failure = evaluate.explain_total_failure
                stream = evaluate.stream(journal)
                ends = solve_asynchronously(optimizer, stream, limits, after_generation, failure)
                stream.close()
            else:
                ends = solve(optimizer, evaluate, limits, after_generation)
        ended = Status(int(ends.status))
        result = current_result(
            optimizer,
            ended,
            limits.progress(optimizer.nit, optimizer.nfev),
            history=recorder.history(),
            failures=evaluate.failures,
            failure_kinds=evaluate.kinds,
        )
        result.message += f" {ends.why}" if ends.why else ""
        stopped = (Status.INTERRUPTED, Status.CRASHED, *((Status.CALLBACK,) if journal else ()))
        if polish and ended not in stopped:  # a recorded run that was told to stop can go on: it is not finished yet
            deadline = None if ends.deadline is None else ends.deadline + ASIDE_TIME * (wanted.time_limit or 0.0)
            if journal is not None:
                journal.polish()
            _polish(result, evaluate, (optimizer.lower, optimizer.upper), maxfev, deadline)
        if journal is not None:
            final = result.success and ended is not Status.TIME
            journal.end(result.status.name, result.message, final=final)
    evaluate.warn()
    return result


def _polish(
    result: Result, evaluate: Evaluator, box: read_input.Box, maxfev: int | None, deadline: float | None
) -> None:
    budget = None if maxfev is None else maxfev - result.nfev
    before, bests = result.fun, result.swarm.best_value
    scale = float(np.median(bests[np.isfinite(bests)])) - before if np.isfinite(before) else 0.0
    scale = scale if scale > 0 else abs(before) or 1.0  # all bests are the same
    found = polish_best(evaluate, result.x, before, scale, box, budget, deadline)
    result.x, result.fun = found.x, found.fun
    result.nfev += found.spent
    result.n_failed += found.failed
    why = ""
    if found.end is not None:
        result.status, why = crashed(found.end)
        result.success = False
    message = describe(result.status, result.n_failed, result.nfev, result.failure_kinds) + (f" {why}" if why else "")
    result.message = f"{message} Polished with {found.spent} evaluations, from {before:.6g} to {result.fun:.6g}."


def _reader_of(callback: Callable[..., Any] | None) -> Callable[[Optimizer], Status | None]:
    """SciPy's contract: by the name of its parameter a callback asks for the whole result or for ``x`` alone."""
    if callback is None:
        return lambda optimizer: None
    if not callable(callback):
        raise TypeError(f"callback must be callable, got {callback!r}")
    try:
        signature = inspect.signature(callback)
    except (TypeError, ValueError):  # a builtin without signature
        signature = inspect.signature(lambda x: None)
    wants_result = "intermediate_result" in signature.parameters
    try:
        signature.bind(intermediate_result=None) if wants_result else signature.bind(None)
    except TypeError as error:
        needed = "callback must take one argument: intermediate_result, or by any other name the best point"
        raise TypeError(f"{needed}; {callback!r} does not ({error})") from None

    def notify(optimizer: Optimizer) -> Status | None:
        assert optimizer.swarm is not None
        swarm = read_only(optimizer.swarm)
        try:
            if wants_result:
                wish = callback(
                    intermediate_result=Result(
                        x=swarm.global_best[0].copy(),
                        fun=float(swarm.global_value),
                        nit=optimizer.nit,
                        nfev=optimizer.nfev,
                        n_failed=int(optimizer.n_failed),
                        swarm=swarm,
                    )
                )
            else:
                wish = callback(swarm.global_best[0].copy())
        except StopIteration:
            return Status.CALLBACK
        return Status.CALLBACK if wish is True or (isinstance(wish, np.bool_) and bool(wish)) else None

    return notify
