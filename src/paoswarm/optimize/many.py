"""`minimize_many`: independent runs side by side."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import OptimizeResult

from paoswarm._checks import explains_keywords, flag, whole_number
from paoswarm._extras import ProgressBar
from paoswarm.algorithms.method import Method
from paoswarm.core.random import Seed, spawn
from paoswarm.core.swarm import Swarm
from paoswarm.evaluation.call_options import CallOptions
from paoswarm.evaluation.calls import Objective, to_fingerprint, with_arguments
from paoswarm.evaluation.constrained_function import ConstrainedFunction
from paoswarm.evaluation.engines import EngineDown
from paoswarm.evaluation.evaluator import Evaluator
from paoswarm.evaluation.recording import open_evaluator
from paoswarm.evaluation.residuals import as_objective
from paoswarm.optimize import read_input
from paoswarm.optimize.block import Block, intermediate
from paoswarm.optimize.callback import read_callback
from paoswarm.optimize.compiled_runs import Wanted, run_on_engine
from paoswarm.optimize.loop import Ends
from paoswarm.optimize.many_result import ManyResult, gather
from paoswarm.optimize.many_starts import differ_in_size, elements, make_optimizers
from paoswarm.optimize.optimizer import Optimizer
from paoswarm.optimize.polish import finish, finish_constrained, finish_each, with_reserve
from paoswarm.optimize.read_problem import trial_constraints
from paoswarm.optimize.read_space import read_space
from paoswarm.optimize.result import Result
from paoswarm.optimize.run_description import describe_run
from paoswarm.optimize.stopping import Limits, Status
from paoswarm.optimize.swarm_size import read_size, warn_if_few_generations
from paoswarm.spaces.space import Space
from paoswarm.storage.journal import Journal
from paoswarm.storage.store import Store

# Elements (runs x particles x unknowns) moved at once: enough to make the cost of the calls small, not more than the
# caches of a core can hold (measured: 100 runs of 800 elements each are fastest in two blocks).
_BLOCK = 40_000
_MOST_RUNS = 1_000_000  # already so many seeds take seconds and hundreds of megabytes


@explains_keywords(
    asynchronous="use minimize, which has it",
    store_swarms="use minimize, which has it",
    n_runs="use runs=",
    restarts="use runs=",
    n_restarts="use runs=",
)
def minimize_many(
    fun: Objective,
    bounds: Any,
    *,
    runs: int = 100,
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
    reevaluate: float = 0.0,
    constraints: Any = (),
    callback: Callable[..., Any] | None = None,
    progress: bool = False,
    polish: bool = False,
    rng: Seed = None,
    store: Any = None,
    engine: Any = "numpy",
) -> ManyResult:
    """Many independent runs of `minimize` at once.

    It takes the parameters of `minimize`, except ``asynchronous`` and ``store_swarms``. Limits hold for each run;
    ``time_limit`` holds for all together and is checked after every generation.
    A run whose whole first swarm fails ends there with ``fun`` infinite; it is an error only if all do. With
    ``vectorized=True`` the points of many runs go to ``fun`` in one call of shape ``(m, d)``.

    Parameters
    ----------
    fun, bounds, integrality, method, args, n_particles, maxiter, maxfev, target, tol, stagnation, time_limit, x0, f0,
    init, vectorized, workers, timeout, retries, reevaluate, constraints, progress, rng
        As in `minimize`.
    runs : int
        How many runs; at most a million in one call.
    callback : callable, optional
        Called after every generation of all runs as ``callback(intermediate_result)``, with the arrays ``x, fun, nit,
        nfev, n_failed`` over runs, and their ``swarm``. If its parameter has another name, it receives the best points
        ``(runs, d)`` alone. Raise StopIteration or return True to stop all runs.
    polish : bool
        Finish each run with a local search, one after another.
    store : path or Store, optional
        One file that keeps the evaluations of all runs; as in `minimize`, the same call goes on after a kill.
    engine : {"numpy", "numba", "jax", "cuda", "auto"} or an engine
        What moves the swarms. A compiled engine runs whole generations of a single `PAO` swarm with the objective
        inside: ``fun`` takes one point and must be a function that it can compile. "numba" also runs the default
        search, `DensePAO`, `ElementPAO` and their restarts. `paoswarm.compiled.Numba` and `Jax` set precision and
        threads. Random numbers are others than those of "numpy", with the same law.

        "auto" takes numba for a function of ``numba.njit`` and JAX (or CUDA, if there is a GPU) for one of ``jax.jit``,
        if the engine has all that you ask for, and otherwise NumPy. ``result.engine`` says which one ran.

    Returns
    -------
    ManyResult
        Arrays with the runs on the first axis, ``seeds``, and ``run(r)`` for one run alone.
        ``minimize(fun, bounds, method=many.method, rng=many.seeds[r])`` repeats run ``r`` exactly.

    Examples
    --------
    >>> import paoswarm as ps
    >>> def sphere(x):
    ...     return (x**2).sum(axis=-1)
    >>> many = ps.minimize_many(sphere, [(-5, 5)] * 2, runs=8, vectorized=True, maxiter=40, rng=1)
    >>> many.x.shape, many.history.shape
    ((8, 2), (8, 41))
    >>> alone = ps.minimize(sphere, [(-5, 5)] * 2, vectorized=True, maxiter=40, rng=many.seeds[3])
    >>> bool(alone.fun == many.fun[3])
    True
    """
    runs = whole_number("runs", runs, 1, _MOST_RUNS)
    when_to_end = (maxiter, maxfev, target, tol, stagnation, time_limit)
    wanted = Wanted(
        fun, args, bounds, method, n_particles, when_to_end, x0, init, callback, progress, polish, rng, store, runs
    )
    compiled = run_on_engine(
        engine, wanted, integrality=integrality, f0=f0, vectorized=vectorized, workers=workers, timeout=timeout,
        reevaluate=reevaluate, constraints=constraints,
    )  # fmt: skip
    if compiled is not None:
        return compiled
    fun = with_arguments(fun, args)
    space = read_space(bounds, integrality)
    fun = as_objective(fun, space, vectorized)
    method = read_input.read_method(method, init, space).for_workers(1)
    d = len(space.lower)
    default = method.default_limits(d)
    limits = Limits.read(maxiter, maxfev, target, tol, stagnation, time_limit, default)
    flag("progress", progress)
    if flag("polish", polish) and space.axes is not None and not space.axes.is_continuous.any():
        raise ValueError("polish=True needs a continuous variable: a local search cannot move the others")
    if polish and reevaluate:
        raise ValueError("polish=True cannot be used with reevaluate: the local search does not handle noise")
    given = trial_constraints(constraints, space, bool(vectorized))
    if given is not None:
        fun = ConstrainedFunction(fun, given, bool(vectorized))
    store = None if store is None else Store.of(store)
    rng, seed = (rng, None) if store is None else store.seeded(rng)
    seeds = spawn(rng, runs)
    if not space.is_plain:  # rows of numbers, whatever form the points have
        x0 = space.guess if x0 is None and f0 is None and isinstance(init, str) else x0
        x0 = None if x0 is None else space.read("x0", x0)
        init = init if isinstance(init, str | Swarm | OptimizeResult) else space.read("init", init)
    size = read_size(n_particles, method, d, limits, x0, f0, store)
    start: dict[str, Any] = {"x0": x0, "f0": f0, "reevaluate": reevaluate}
    how = {"method": method, "n_particles": size, "constraints": given, **start}
    n_points = None if reevaluate else space.size  # if there are only so many, each run recalls those that it knows
    takes_batches = bool(method.takes_batches) and not differ_in_size(init) and given is None and n_points is None
    template = make_optimizers(space, how, init, seeds, range(1), takes_batches)[0]
    limits = limits.starting_with(template.n_to_start)
    if n_particles is not None or not isinstance(init, str):
        warn_if_few_generations(limits.maxfev, template.n_to_start, template.n_each)
    for_swarms = with_reserve(limits, d, template.n_to_start) if polish else limits
    n_each = template.expected_evaluations(for_swarms)
    options, notify = CallOptions(vectorized, workers, timeout, retries), read_callback(callback, intermediate)
    journal = None
    if store is not None:
        start |= {"init": init, "reevaluate": float(reevaluate)}
        if given is not None:
            start["constraints"] = given
        described = describe_run(template, limits, start, options, polish, seed, runs)
        journal = Journal(store, described, to_fingerprint(fun))
    blocks: list[Block] = []
    started = 0
    n_constraints = 0 if given is None else given.count
    with (
        journal or nullcontext(),
        open_evaluator(fun, journal, options, space=space, n_constraints=n_constraints) as evaluate,
        ProgressBar(progress) as bar,
    ):
        evaluate.count = bar.count if progress else None
        n_together = None
        if takes_batches and callback is None:  # a callback sees all runs
            n_together = _block_size(elements(size, d, init), evaluate, limits)
        bar.expect(None if n_each is None else runs * n_each)
        while started < runs:
            numbers = range(started, min(runs, started + (n_together or runs)))
            optimizers = make_optimizers(space, how, init, seeds, numbers, takes_batches)
            block = Block(optimizers, numbers, runs, blocks, bar, n_points)
            try:
                block.run(for_swarms, evaluate, notify, is_stored=journal is not None)
            except (KeyboardInterrupt, EngineDown):
                if not blocks:
                    raise
                break  # nothing is known about these runs, but the earlier ones are done
            blocks.append(block)
            started += len(numbers)
            if n_each is not None:
                bar.catch_up(started * n_each)
            if block.is_cut_short:
                break
        ends = [ends for block in blocks for ends in block.ends]
        many, why = gather(
            [optimizer for block in blocks for optimizer in block.optimizers],
            [best for block in blocks for best in block.best],
            ends,
            for_swarms,
            seeds[:started],
            evaluate.failures,
        )
        if n_points is not None:
            many["n_recalled"] = np.array([one.n_recalled for block in blocks for one in block.optimizers])
        if polish:
            if journal is not None:
                journal.go_on_after(runs * int(many.nfev.max()))  # above all numbers of the swarms
                journal.polish()
            optimizers = [optimizer for block in blocks for optimizer in block.optimizers]
            constrained = None if given is None else optimizers
            _polish_each(many, why, evaluate, space, limits, ends, constrained, is_stored=journal is not None)
        if journal is not None:
            is_final = started == runs and bool(((many.status > 0) & (many.status != Status.TIME)).all())
            reasons = [Status(code) for code in sorted(set(many.status.tolist()))]
            sentences = [f"{int(np.sum(many.status == reason))} x {reason.message}" for reason in reasons]
            journal.end(" ".join(reason.name for reason in reasons), " ".join(sentences), final=is_final)
    evaluate.warn()
    return many


def _polish_each(
    many: ManyResult,
    why: list[str],
    evaluate: Evaluator,
    space: Space,
    limits: Limits,
    ends: list[Ends],
    constrained: list[Optimizer] | None,
    *,
    is_stored: bool,
) -> None:
    """Polish the runs that are over, one after another."""
    deadlines = [one.deadline for one in ends if one.deadline is not None]
    clock = ends[0]._replace(deadline=max(deadlines, default=None))

    def finish_one(result: Result, r: int) -> None:
        if constrained is None:
            finish(result, evaluate, space, limits, clock, why[r])
        else:
            finish_constrained(result, evaluate, constrained[r], limits, clock, why[r])

    more = () if constrained is None else ("feasible", "constr", "constr_violation", "maxcv", "n_infeasible")
    finish_each(many, finish_one, is_stored=is_stored, more=more)


def _block_size(elements: int, evaluate: Evaluator, limits: Limits) -> int | None:
    """Runs per block; None for all at once, if the evaluations or a common clock matter more than the cache."""
    if evaluate.is_parallel or limits.time_limit is not None:
        return None
    return max(1, _BLOCK // elements)
