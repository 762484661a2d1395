"""`minimize`: one run from the user's function to a `Result`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from numpy.typing import ArrayLike
from scipy.optimize import OptimizeResult

from paoswarm._checks import explains_keywords, flag
from paoswarm._extras import ProgressBar
from paoswarm.algorithms.method import Method
from paoswarm.core.random import Seed, check_seed
from paoswarm.core.swarm import Swarm
from paoswarm.evaluation.call_options import CallOptions
from paoswarm.evaluation.calls import Objective, to_fingerprint, with_arguments
from paoswarm.evaluation.constrained_function import ConstrainedFunction
from paoswarm.evaluation.evaluator import Evaluator
from paoswarm.evaluation.known_points import KnownPoints
from paoswarm.evaluation.recording import open_evaluator
from paoswarm.evaluation.residuals import as_objective
from paoswarm.optimize.asynchronous import solve_asynchronously
from paoswarm.optimize.callback import read_callback, so_far
from paoswarm.optimize.compiled_runs import Wanted, run_on_engine
from paoswarm.optimize.convergence import Rule
from paoswarm.optimize.history import Recorder
from paoswarm.optimize.loop import Ends, drive, naming_the_best, run
from paoswarm.optimize.one_at_a_time import GenerationByGeneration, OneAtATime, ParticleByParticle
from paoswarm.optimize.optimizer import Optimizer
from paoswarm.optimize.polish import finish, finish_constrained, with_reserve
from paoswarm.optimize.read_input import read_method
from paoswarm.optimize.read_problem import trial_constraints
from paoswarm.optimize.read_space import read_space
from paoswarm.optimize.result import Result
from paoswarm.optimize.run_description import describe_run
from paoswarm.optimize.stopping import Limits, Status
from paoswarm.optimize.swarm_size import for_workers, read_size, warn_if_few_generations
from paoswarm.optimize.why_ended import explain
from paoswarm.spaces.evaluations import Evaluations
from paoswarm.storage.journal import Journal
from paoswarm.storage.store import Store


@explains_keywords()
def minimize(
    fun: Objective,
    bounds: Any,
    *,
    integrality: ArrayLike | None = None,
    method: Method | str | None = None,
    args: Any = (),
    n_particles: int | None = None,
    maxiter: float | None = None,
    maxfev: float | None = None,
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
    constraints: Any = (),
    callback: Callable[..., Any] | None = None,
    progress: bool = False,
    polish: bool = False,
    store_swarms: bool = False,
    rng: Seed = None,
    store: Any = None,
    engine: Any = "numpy",
) -> Result:
    """Find the minimum of a black-box function within bounds.

    Parameters
    ----------
    fun : callable
        ``fun(x) -> float`` for one point ``x`` of shape ``(d,)``. With ``vectorized=True``, ``(m, d) -> (m,)``: rows
        are points.
    bounds : sequence of (low, high), (d, 2) array, scipy.optimize.Bounds, or variables in a sequence or by name
        The unknowns. Either finite bounds, one pair for each. Or variables: `Real` (perhaps logarithmic), `Integer`,
        `Choice`, `Periodic`, pairs, and numbers or strings that are fixed. In a dict they have names: then ``fun``
        gets a dict of values by name (with ``vectorized=True`` of arrays ``(m,)``), and results speak in names. In a
        sequence ``fun`` gets an array, with the index of the entry for a `Choice`. Or ``lmfit.Parameters``: then
        ``fun`` gets ``Parameters``, and may return residuals, whose sum of squares is minimised.
    integrality : array (d,) of bool, optional
        With plain bounds: which unknowns are whole numbers, as in SciPy.
    method : Method, str or None
        None: `AdaptivePAO`, searches that start again until they agree, or `MixedPAO` if a variable is an `Integer` or
        a `Choice`; with ``init=result`` the method of that result.
        Or a single swarm and its hyperparameters: `PAO`, `PSO`, `QPSO`, `DE`, `SADE`; any of them started again,
        ``Restarts(DE())``; or your own `Method`. A name such as "DE" stands for a method with its defaults.
    args : tuple
        More arguments of ``fun``, which is called as ``fun(x, *args)``. A value that is no tuple is one argument.
    n_particles : int or None
        Size of the first swarm. None: the method chooses. `AdaptivePAO` begins with about ``4 + 3 ln d``. Single swarms
        have 100, or with ``maxfev`` about 0.65 times its square root, from 6 to 100. If ``init`` holds points or a
        swarm, their number is used instead. A number that leaves fewer than five generations is a warning.
    maxiter : int or None
        Most generations after the first swarm. If you give neither ``maxiter`` nor ``maxfev`` nor ``time_limit``, the
        method has a limit of its own: 10,000 evaluations for each unknown, or for single swarms 100 generations.
    maxfev : int or None
        Most evaluations; 1e4 is a whole number too. It is exact: the last generation is cut short if necessary.
    target : float or None
        Stop when the best value is at or below it.
    tol : float
        Stop when the run has converged. `AdaptivePAO` and other methods that start again have converged when
        independent searches agree (``result.agreement``); they do not use the value of ``tol``. A single swarm has
        converged when

        - the root mean square distance of the particles from the best point is below ``tol`` widths of the bounds;
        - or the best values of all particles are equal but for rounding;
        - or there was no better point for ``20 (1 + d)`` generations.

        Zero switches all of this off. Your own method may have its own rule. A few evaluations around the end of a
        single swarm show whether it is a minimum; if not, ``status`` is `Status.STALLED`. They are part of ``maxfev``.
    stagnation : int or None
        Stop after this many generations without a better point.
    time_limit : float or None
        Stop after this many seconds. Points that are being evaluated are finished; with ``vectorized=True`` the
        generation is. Schedules do not follow the time, because it would make runs impossible to repeat.
    x0 : array (d,) or (m, d), optional
        Points to include in the first swarm.
    f0 : array (m,), optional
        Their values (a warm start). These points are not evaluated again, except where the value is NaN.
    init : str, array (n, d), Result or Swarm
        The first swarm: ``latinhypercube``, ``sobol``, ``halton``, ``random``; your own points; or the ``result`` of an
        earlier run, which is continued without evaluating its points again. (``result.swarm`` works too, but may
        lack the best point, after polishing or a restart.)
    vectorized : bool
        Whether ``fun`` takes many points at once, which is much faster.
    workers : int, Executor, Dask Client, function that makes one, or map-like
        What evaluates points. The result does not depend on it, but for `AdaptivePAO` and other methods with a
        parameter ``parallel``: their swarms are sized for the number of workers, see there.

        - a number of processes; -1 means one per core;
        - anything with the interface of `concurrent.futures.Executor`: threads, loky, MPI, `RayExecutor`;
        - a Dask ``Client``;
        - a function without arguments that makes one of these, so that a broken one can be replaced;
        - a callable like the builtin ``map``.
    timeout : float or None
        Seconds that one evaluation may take. After that it is killed, with all processes it has started, and counts as
        failed. Points are then evaluated one by one in a process that can be killed, even with ``vectorized=True``.
    retries : int
        How often to evaluate a point again if its process crashed, ran out of memory or was killed. After that the
        point counts as failed, and the run goes on.
    asynchronous : bool
        Let every particle move as soon as its own value is known, so that no worker waits for another. Use it if
        evaluations take seconds or more and not all the same time, with at least twice as many particles as workers.
        The result depends on the order in which values arrive; a ``store`` records that order and repeats it. Methods
        that learn by generations (`AdaptivePAO`, `SADE`, most of your own) still complete each generation first.
    reevaluate : float
        For noisy objectives: the share of the remembered bests to measure again in each generation, for example 0.2.
        Best values become running means, and points are compared by mean plus three standard errors.
    constraints : constraint or list of constraints
        What a point must satisfy besides its bounds:

        - `scipy.optimize.LinearConstraint`, `scipy.optimize.NonlinearConstraint`, or SciPy's older dictionaries;
        - a function ``g``: x is allowed where ``g(x) <= 0``, or where it returns True;
        - `Constraint`, the same with limits, a tolerance and a name;
        - `Returned`, for numbers that ``fun`` returns together with its value.

        Functions of the point are called first, without ``args``. ``fun`` is not called where an inequality among them
        fails. A feasible point is
        better than an infeasible one; of two infeasible ones the one with the smaller total violation is better. With
        equalities, swarms begin with a tolerance that shrinks to zero. The
        result is feasible if any evaluated point was. Points at which ``fun`` is not called count in ``nfev``.
    callback : callable, optional
        Called after every generation as ``callback(intermediate_result)``, with ``x, fun, nit, nfev, swarm``
        (read-only). If its parameter has another name, it receives the best point ``x`` alone. Raise StopIteration or
        return True to stop the run.
    progress : bool
        Show a progress bar (needs tqdm).
    polish : bool
        Finish with a local search from the best point: L-BFGS-B, or sequential quadratic programming if there are
        constraints. Use it if the function is smooth and not noisy. Up to ``50 (d + 1)`` evaluations of ``maxfev`` and
        a tenth of ``time_limit`` are set aside for it.
    store_swarms : bool
        Keep the swarm of every generation in ``history.swarms``. It takes memory.
    rng : int, Generator, SeedSequence or None
        Seed. The same seed and method give the same result, and with ``method=result.method`` with any ``workers``.
    store : path or Store, optional
        A file that keeps every evaluation as soon as it is made. Call again with the same arguments to go on after a
        kill, an interrupt or an end: the result is that of a run that never stopped. For a finished run the result is
        returned without calling ``fun``. If ``fun`` or the data it uses have changed, that is an error, see `Store`.
        Repeated generations do not call ``callback`` and do not count in ``time_limit``. See also `resume`.
    engine : {"numpy", "numba", "jax", "cuda", "auto"} or an engine
        As in `minimize_many`: a compiled engine moves a single `PAO` swarm with the objective inside, and "numba" also
        runs adaptive searches.

    Returns
    -------
    Result
        An ``OptimizeResult`` with ``x, fun, success, status, message, nit, nfev, n_failed, failures, history, swarm,
        method`` and ``next_step``: how far apart the particles still are (None for methods whose steps have no closed
        form, and after polishing).

    Notes
    -----
    A point has failed if ``fun`` raises, returns NaN, -inf or no real number, takes longer than ``timeout``, or kills
    its worker. It counts as +inf and in ``n_failed``, and the run goes on. If every point of the first swarm fails,
    that is an error. It comes after three calls if they all raise the same exception and that shows a mistake in the
    code, such as a `NameError`. An interrupt (Ctrl-C) returns the best point so far; every finished evaluation counts.

    Examples
    --------
    >>> import numpy as np
    >>> import paoswarm as ps
    >>> def rastrigin(x):
    ...     return (x**2 - 10 * np.cos(2 * np.pi * x) + 10).sum(axis=-1)
    >>> result = ps.minimize(rastrigin, [(-5, 6), (-4, 7)], vectorized=True, rng=1)
    >>> bool(result.fun < 1e-9), result.success
    (True, True)
    >>> one_swarm = ps.minimize(rastrigin, [(-4, 5)] * 2, method="PAO", maxiter=500, vectorized=True, rng=1)
    >>> print(one_swarm.message)
    Converged: no better point in the last 60 generations.
    """
    when_to_end = (maxiter, maxfev, target, tol, stagnation, time_limit)
    wanted = Wanted(
        fun, args, bounds, method, n_particles, when_to_end, x0, init, callback, progress, polish, rng, store
    )
    compiled = run_on_engine(
        engine, wanted, integrality=integrality, f0=f0, vectorized=vectorized, workers=workers, timeout=timeout,
        reevaluate=reevaluate, constraints=constraints, asynchronous=asynchronous, store_swarms=store_swarms,
    )  # fmt: skip
    if compiled is not None:
        return compiled.run(0)
    fun = with_arguments(fun, args)
    space = read_space(bounds, integrality)
    fun = as_objective(fun, space, vectorized)
    method = read_method(method, init, space)
    d = len(space.lower)
    default = method.default_limits(d)
    limits = Limits.read(maxiter, maxfev, target, tol, stagnation, time_limit, default)
    switches = {"asynchronous": asynchronous, "polish": polish, "progress": progress, "store_swarms": store_swarms}
    for name, given in switches.items():
        flag(name, given)
    if polish and space.axes is not None and not space.axes.is_continuous.any():
        raise ValueError("polish=True needs a continuous variable: a local search cannot move the others")
    if polish and reevaluate:
        raise ValueError("polish=True cannot be used with reevaluate: the local search does not handle noise")
    limited = trial_constraints(constraints, space, bool(vectorized))
    if limited is not None:
        fun = ConstrainedFunction(fun, limited, bool(vectorized))
    check_seed(rng)  # a list would make a batch of an Optimizer
    store, rng, seed = _open_store(store, rng)
    if not space.is_plain:  # rows of numbers, whatever form the points have
        x0 = space.guess if x0 is None and f0 is None and isinstance(init, str) else x0
        x0 = None if x0 is None else space.read("x0", x0)
        init = init if isinstance(init, str | Swarm | OptimizeResult) else space.read("init", init)
    method = for_workers(method, workers, limits.maxfev, store)
    start: dict[str, Any] = {"x0": x0, "f0": f0, "init": init, "reevaluate": reevaluate}
    make = _kind_of_optimizer(method, asynchronous)
    size = read_size(n_particles, method, d, limits, x0, f0, store)
    optimizer = make(space, method=method, n_particles=size, rng=rng, constraints=limited, **start)
    limits = limits.starting_with(optimizer.n_to_start)
    if n_particles is not None or not isinstance(init, str):
        warn_if_few_generations(limits.maxfev, optimizer.n_to_start, optimizer.n_each)
    for_swarm = with_reserve(limits, len(optimizer.lower), optimizer.n_to_start) if polish else limits
    recorder = Recorder(store_swarms, is_constrained=limited is not None)
    notify = read_callback(callback, so_far)
    options = CallOptions(vectorized, workers, timeout, retries)
    journal = None
    if store is not None:
        start |= {"reevaluate": float(reevaluate), "asynchronous": bool(asynchronous)}
        if limited is not None:
            start["constraints"] = limited
        described = describe_run(optimizer, limits, start, options, polish, seed)
        journal = Journal(store, described, to_fingerprint(fun))
    n_constraints = 0 if limited is None else limited.count
    with (
        journal or nullcontext(),
        open_evaluator(fun, journal, options, space=space, n_constraints=n_constraints) as evaluate,
        ProgressBar(progress, optimizer.expected_evaluations(for_swarm)) as bar,
    ):
        evaluate.count = bar.count if progress else None
        evaluate.kept = Evaluations()
        known = None if space.size is None or reevaluate else KnownPoints(space.size)

        def after_generation(optimizer: Optimizer) -> Status | None:
            _record(recorder, optimizer)
            if bar.is_shown:
                bar.show(best=optimizer.best_value, failed=int(optimizer.n_failed) or None)
            return None if evaluate.replayed else notify(optimizer)

        if optimizer.swarm is not None:  # a run that is continued
            _record(recorder, optimizer)
        with naming_the_best(optimizer):
            ends = _solve(optimizer, evaluate, for_swarm, after_generation, known)
        status, history = Status(int(ends.status)), recorder.history()
        value = optimizer.best_value
        why = explain(status, Rule(int(ends.rule)), for_swarm, history.best, value, d, method, optimizer.agreement)
        result = optimizer.result_with(
            status,
            why,
            for_swarm.progress(optimizer.nit, optimizer.nfev),
            history=history,
            failures=evaluate.failures,
            failure_kinds=evaluate.kinds,
            evaluations=evaluate.kept,
            **({} if known is None else {"n_recalled": optimizer.n_recalled}),
        )
        result.message += f" {ends.why}" if ends.why else ""
        if polish and _is_over(result.status, journal):
            evaluate.go_beyond()
            if limited is None:
                finish(result, evaluate, space, limits, ends, why)
            else:
                finish_constrained(result, evaluate, optimizer, limits, ends, why)
        if journal is not None:
            is_final = result.status > 0 and ends.status != Status.TIME
            journal.end(result.status.name, result.message, final=bool(is_final))
            result.message += journal.origin(result.nfev)
    evaluate.warn()
    return result


def _open_store(store: Any, rng: Seed) -> tuple[Store | None, Seed, Any]:
    """The store, the seed that a run with it has, and that seed as JSON."""
    if store is None:
        return None, rng, None
    store = Store.of(store)
    return store, *store.seeded(rng)


def _kind_of_optimizer(method: Method, asynchronous: bool) -> type[Optimizer]:
    if not asynchronous:
        return Optimizer
    return ParticleByParticle if method.moves_singly else GenerationByGeneration


def _solve(
    optimizer: Optimizer,
    evaluate: Evaluator,
    limits: Limits,
    after_generation: Callable[[Optimizer], Status | None],
    known: KnownPoints | None,
) -> Ends:
    if isinstance(optimizer, OneAtATime):
        return solve_asynchronously(optimizer, evaluate, limits, after_generation, known)
    return drive(run(optimizer, limits, after_generation), evaluate, known)


def _record(recorder: Recorder, optimizer: Optimizer) -> None:
    assert optimizer.swarm is not None
    recorder.record(optimizer.swarm, float(optimizer.incumbent.value), float(optimizer.spread), optimizer.nfev)


def _is_over(status: Status, journal: Journal | None) -> bool:
    """Whether the swarm is done. A recorded run that its callback stopped can go on, so it is not."""
    return status not in (Status.INTERRUPTED, Status.CRASHED) and not (journal and status is Status.CALLBACK)
