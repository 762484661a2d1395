"""`minimize_many`: independent runs side by side on the batch axis."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import OptimizeResult

from paoswarm.algorithms.method import Method
from paoswarm.algorithms.pao import PAO
from paoswarm.checks import flag, whole_number
from paoswarm.core.arrays import Floats
from paoswarm.core.random import Seed, spawn
from paoswarm.core.swarm import Swarm, map_runs
from paoswarm.evaluation.call_options import CallOptions
from paoswarm.evaluation.calls import Objective
from paoswarm.evaluation.engines import EngineDown
from paoswarm.evaluation.evaluator import Evaluator, Failure
from paoswarm.optimize import read_input
from paoswarm.optimize.loop import Ends, solve
from paoswarm.optimize.optimizer import Optimizer
from paoswarm.optimize.progress import open_bar
from paoswarm.optimize.result import History, Result, describe, optimum_law, standard_error
from paoswarm.optimize.stopping import Limits, Status

# Elements (runs x particles x unknowns) moved at once: enough to make the cost of the calls small, not more than a
# core's caches can follow (measured: 100 runs of 800 elements each are fastest in two blocks).
_BLOCK = 40_000
_MANY_GENERATIONS = 100_000  # a limit that nobody means to reach: histories end with the longest run then


class ManyResult(Result):
    """What `minimize_many` returns; every array has the runs on its first axis.

    Attributes
    ----------
    x : array (runs, d)
    fun : array (runs,)
    history : array (runs, maxiter + 1)
        Best value after every generation; a run that ended early keeps its last one. (As long as the longest run only,
        where ``maxiter`` is None or 100,000 and more.)
    success, status, nit, nfev, n_failed : arrays (runs,)
    message : list of str
    swarm : Swarm
        All swarms, with a leading axis.
    seeds : list of numpy.random.SeedSequence
        ``minimize(..., rng=many.seeds[r])`` repeats run ``r``.
    failures : list of Failure
        The first ten failed points of all runs.
    """

    seeds: list[np.random.SeedSequence]

    def __repr__(self) -> str:
        best = int(np.argmin(self.fun))
        how: Any = "linear" if np.isfinite(self.fun).all() else "nearest"  # between one and infinity there is nothing
        low, middle, high = np.quantile(self.fun, [0.1, 0.5, 0.9], method=how)
        reasons = [Status(code) for code in sorted(set(self.status.tolist()), key=abs)]
        lines = [
            f"{len(self.fun)} runs, {int(self.nfev.sum())} evaluations, {int(self.n_failed.sum())} of them failed",
            f"fun: best {self.fun[best]:.6g}, median {middle:.6g}, 10 % to 90 % {low:.6g} to {high:.6g}",
            f"best run {best}: x = {self.x[best]}",
            *(f"{int(np.sum(self.status == reason))} x {reason.message}" for reason in reasons),
        ]
        return "\n".join(lines)

    __str__ = __repr__

    def run(self, r: int) -> Result:
        """Run ``r`` alone, with its own swarm and ``optimum``; of its history the best values are kept."""
        swarm = map_runs(lambda array: array[r], self.swarm)
        status = Status(int(self.status[r]))
        return Result(
            x=self.x[r],
            fun=float(self.fun[r]),
            fun_error=standard_error(swarm),
            success=bool(self.success[r]),
            status=status,
            message=self.message[r],
            nit=int(self.nit[r]),
            nfev=int(self.nfev[r]),
            n_failed=int(self.n_failed[r]),
            swarm=swarm,
            method=self.method,
            progress=float(self.progress[r]),
            history=History(best=self.history[r, : self.nit[r] + 1]),
            optimum=optimum_law(self.method, swarm, float(self.progress[r])),
            failures=self.failures,
        )


def minimize_many(
    fun: Objective,
    bounds: Any,
    *,
    runs: int = 100,
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
    reevaluate: float = 0.0,
    progress: bool = False,
    rng: Seed = None,
) -> ManyResult:
    """Many independent runs of `minimize` at once.

    Parameters are those of `minimize`, but for ``asynchronous``, ``callback``, ``polish``, ``store_swarms`` and
    ``store``; limits hold for each run (``time_limit`` for all together, looked at after
    every generation). A run whose whole first swarm fails ends there with ``fun`` infinite; only if all do, it is an
    error. With ``vectorized=True`` the points of many runs go to ``fun`` in one call of shape ``(m, d)``.

    Parameters
    ----------
    fun, bounds, method, n_particles, maxiter, maxfev, target, tol, stagnation, time_limit, x0, f0, init, vectorized,
    workers, timeout, retries, reevaluate, progress, rng
        As in `minimize`.
    runs : int
        How many runs.

    Returns
    -------
    ManyResult
        ``x`` (runs, d), ``fun`` (runs,), ``history`` (runs, maxiter + 1) of best values (a run that ended early keeps
        its last one), ``nit, nfev, n_failed, status, success`` (runs,), ``message`` (list), ``swarm`` with a leading
        axis, ``seeds``, and ``run(r)`` for one run alone. ``minimize(fun, bounds, rng=many.seeds[r])`` repeats run
        ``r`` exactly.

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
    runs = whole_number("runs", runs, 1)
    limits = Limits.read(maxiter, maxfev, target, tol, stagnation, time_limit)
    flag("progress", progress)
    if isinstance(init, OptimizeResult) and "swarm" in init:
        init = init.swarm
    seeds = spawn(rng, runs)
    blocks: list[_Block] = []
    started = 0
    with (
        Evaluator(fun, CallOptions(vectorized, workers, timeout, retries)) as evaluate,
        open_bar(progress) as bar,
    ):
        size = _block_size(_elements(n_particles, bounds, init), evaluate, limits) or runs
        while started < runs:
            optimizer = Optimizer(
                bounds,
                method=method,
                n_particles=n_particles,
                x0=x0,
                f0=f0,
                init=_part_of(init, runs, slice(started, started + size)),
                reevaluate=reevaluate,
                rng=seeds[started : started + size],
            )
            limits = limits.starting_with(optimizer.n_to_start)
            block = _Block(optimizer)
            each = limits.evaluations(optimizer.n_to_start, optimizer.n_particles + optimizer.n_again)
            if progress and not blocks:
                evaluate.count = bar.count
                bar.expect(None if each is None else runs * each)
            if optimizer.swarm is not None:  # runs that are continued
                block.record()

            def after_generation(optimizer: Optimizer, spread: Any, block: _Block = block) -> None:
                block.record()
                bar.say(optimizer)

            try:
                block.ends = solve(optimizer, evaluate, limits, after_generation)
            except (KeyboardInterrupt, EngineDown):
                if not blocks:
                    raise
                break  # nothing is known of these runs, but the earlier ones are done
            blocks.append(block)
            started += len(block.ends.status)
            if each is not None:
                bar.finish(started * each)
            if np.isin(block.ends.status, [Status.INTERRUPTED, Status.CRASHED]).any():
                break
    evaluate.warn()
    return _gather(blocks, limits, seeds[:started], evaluate.failures)


class _Block:
    """Some runs that are moved together, and their history of best values."""

    def __init__(self, optimizer: Optimizer) -> None:
        self.optimizer = optimizer
        self.best: list[Floats] = []
        self.ends: Ends | None = None

    def record(self) -> None:
        assert self.optimizer.swarm is not None
        self.best.append(self.optimizer.swarm.global_value)


def _elements(n_particles: int, bounds: Any, init: Any) -> int:
    """Particles times unknowns of one run."""
    if isinstance(init, Swarm):
        n_particles = init.n_particles
    elif not isinstance(init, str):
        n_particles = max(1, np.atleast_2d(np.asarray(init, dtype=object)).shape[0])
    least = 2 if isinstance(init, str) else 1
    return whole_number("n_particles", n_particles, least) * len(read_input.read_bounds(bounds)[0])


def _part_of(init: Any, runs: int, part: slice) -> Any:
    """Of the swarms to continue, those of one block."""
    if not isinstance(init, Swarm):
        return init
    if init.position.ndim != 3 or len(init.position) != runs:
        raise ValueError(f"init holds swarms of shape {init.position.shape}; {runs} runs need ({runs}, n, d)")
    return map_runs(lambda array: array[part], init)


def _block_size(elements: int, evaluate: Evaluator, limits: Limits) -> int | None:
    """Runs per block; None for all at once, where the evaluations or a common clock matter more than the cache."""
    if evaluate.is_parallel or limits.time_limit is not None:
        return None
    return max(1, _BLOCK // elements)


def _gather(
    blocks: list[_Block], limits: Limits, seeds: list[np.random.SeedSequence], failures: list[Failure]
) -> ManyResult:
    """One result from all blocks; histories are continued with their last value to a common length."""
    length = max(len(block.best) for block in blocks)
    if limits.maxiter is not None and limits.maxiter < _MANY_GENERATIONS:
        length = max(length, limits.maxiter + 1)
    histories = []
    for block in blocks:
        best = np.stack(block.best, axis=-1)
        histories.append(np.pad(best, ((0, 0), (0, length - best.shape[-1])), mode="edge"))
    states = [block.optimizer.swarm for block in blocks if block.optimizer.swarm is not None]
    swarm = map_runs(lambda *arrays: np.concatenate(arrays), *states)
    ends = [(block.ends.status, block.ends.nit, block.ends.nfev) for block in blocks if block.ends]
    status, nit, nfev = (np.concatenate(column) for column in zip(*ends, strict=True))
    n_failed = np.concatenate([block.optimizer.n_failed for block in blocks])
    counts = zip(status.tolist(), n_failed.tolist(), nfev.tolist(), strict=True)
    return ManyResult(
        x=swarm.global_best[:, 0].copy(),
        fun=swarm.global_value,
        success=status > 0,
        status=status,
        message=[describe(Status(s), failed, all_) for s, failed, all_ in counts],
        nit=nit,
        nfev=nfev,
        n_failed=n_failed,
        history=np.concatenate(histories),
        swarm=swarm,
        method=blocks[0].optimizer.method,
        progress=np.array([limits.progress(i, e) for i, e in zip(nit.tolist(), nfev.tolist(), strict=True)]),
        seeds=seeds,
        failures=failures,
    )
