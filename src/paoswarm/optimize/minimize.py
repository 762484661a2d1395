"""`minimize`: one run from the user's function to a `Result`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from numpy.typing import ArrayLike

from paoswarm.algorithms.method import Method
from paoswarm.algorithms.pao import PAO
from paoswarm.checks import flag
from paoswarm.core.random import Seed, check_seed
from paoswarm.evaluation.call_options import CallOptions
from paoswarm.evaluation.calls import Objective
from paoswarm.evaluation.evaluator import Evaluator
from paoswarm.evaluation.recording import open_evaluator
from paoswarm.optimize.asynchronous import solve_asynchronously
from paoswarm.optimize.callback import read_callback
from paoswarm.optimize.history import Recorder
from paoswarm.optimize.loop import Ends, drive, naming_the_best, run
from paoswarm.optimize.one_at_a_time import GenerationByGeneration, OneAtATime, ParticleByParticle
from paoswarm.optimize.optimizer import Optimizer
from paoswarm.optimize.polish import finish, with_reserve
from paoswarm.optimize.result import Result
from paoswarm.optimize.run_description import describe_run
from paoswarm.optimize.stopping import Limits, Status
from paoswarm.progress_bar import ProgressBar
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
        Stop when the swarm has converged: the root mean square distance of the particles from the best point, in
        widths of the bounds, is below ``tol``. Zero: never. A method may decide otherwise.
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
        raise ValueError("polish=True would trust single noisy values: leave it out if reevaluate is used")
    check_seed(rng)  # a list would make a batch of an Optimizer
    store, rng, seed = _open_store(store, rng)
    start: dict[str, Any] = {"x0": x0, "f0": f0, "init": init, "reevaluate": reevaluate}
    make = _kind_of_optimizer(method, asynchronous)
    optimizer = make(bounds, method=method, n_particles=n_particles, rng=rng, **start)
    limits = limits.starting_with(optimizer.n_to_start)
    for_swarm = with_reserve(limits, len(optimizer.lower), optimizer.n_to_start) if polish else limits
    recorder, notify = Recorder(store_swarms), read_callback(callback)
    options = CallOptions(vectorized, workers, timeout, retries)
    journal = None
    if store is not None:
        start |= {"reevaluate": float(reevaluate), "asynchronous": bool(asynchronous)}
        described = describe_run(optimizer, limits, start, options, polish, seed)
        journal = Journal(store, described, fun)
    with (
        journal or nullcontext(),
        open_evaluator(fun, journal, options) as evaluate,
        ProgressBar(progress, for_swarm.evaluations(optimizer.n_to_start, optimizer.n_each)) as bar,
    ):
        evaluate.count = bar.count if progress else None

        def after_generation(optimizer: Optimizer) -> Status | None:
            _record(recorder, optimizer)
            bar.show(best=float(optimizer.best.value), failed=int(optimizer.n_failed) or None)
            return None if evaluate.replayed else notify(optimizer)

        if optimizer.swarm is not None:  # a run that is continued
            _record(recorder, optimizer)
        with naming_the_best(optimizer):
            ends = _solve(optimizer, evaluate, for_swarm, after_generation)
        result = optimizer.result_with(
            Status(int(ends.status)),
            for_swarm.progress(optimizer.nit, optimizer.nfev),
            history=recorder.history(),
            failures=evaluate.failures,
            failure_kinds=evaluate.kinds,
        )
        result.message += f" {ends.why}" if ends.why else ""
        if polish and _is_over(result.status, journal):
            if journal is not None:
                journal.polish()
            finish(result, evaluate, (optimizer.lower, optimizer.upper), limits, ends)
        if journal is not None:
            is_final = bool(result.success and ends.status != Status.TIME)
            journal.end(result.status.name, result.message, final=is_final)
    evaluate.warn()
    return result


def _open_store(store: Any, rng: Seed) -> tuple[Store | None, Seed, Any]:
    """The store, the seed that a run with it has, and that seed as JSON."""
    if store is None:
        return None, rng, None
    store = Store.of(store)
    return store, *store.seeded(rng)


def _kind_of_optimizer(method: Any, asynchronous: bool) -> type[Optimizer]:
    if not asynchronous:
        return Optimizer
    return ParticleByParticle if getattr(method, "moves_singly", False) else GenerationByGeneration


def _solve(
    optimizer: Optimizer, evaluate: Evaluator, limits: Limits, after_generation: Callable[[Optimizer], Status | None]
) -> Ends:
    if isinstance(optimizer, OneAtATime):
        return solve_asynchronously(optimizer, evaluate, limits, after_generation)
    return drive([run(optimizer, limits, after_generation)], evaluate)[0]


def _record(recorder: Recorder, optimizer: Optimizer) -> None:
    assert optimizer.swarm is not None
    recorder.record(optimizer.swarm, float(optimizer.best.value), float(optimizer.spread), optimizer.nfev)


def _is_over(status: Status, journal: Journal | None) -> bool:
    """Whether the swarm is done. A recorded run that its callback stopped can go on, so it is not."""
    return status not in (Status.INTERRUPTED, Status.CRASHED) and not (journal and status is Status.CALLBACK)
