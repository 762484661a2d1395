"""`minimize_many`: independent runs side by side."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import Bounds, OptimizeResult

from paoswarm.algorithms.method import Method
from paoswarm.algorithms.pao import PAO
from paoswarm.checks import flag, whole_number
from paoswarm.core.arrays import Floats
from paoswarm.core.random import Seed, spawn
from paoswarm.core.swarm import Swarm, map_runs
from paoswarm.evaluation.call_options import CallOptions
from paoswarm.evaluation.calls import Objective, with_arguments
from paoswarm.evaluation.engines import EngineDown
from paoswarm.evaluation.evaluator import Evaluator
from paoswarm.keywords import explains_keywords
from paoswarm.optimize import read_input
from paoswarm.optimize.loop import Ends, drive, drive_together, run
from paoswarm.optimize.many_result import ManyResult, gather
from paoswarm.optimize.optimizer import Optimizer
from paoswarm.optimize.result import Result
from paoswarm.optimize.stopping import Limits, Status
from paoswarm.optimize.swarm_size import read_size, warn_if_few_generations
from paoswarm.progress_bar import ProgressBar

# Elements (runs x particles x unknowns) moved at once: enough to make the cost of the calls small, not more than the
# caches of a core can hold (measured: 100 runs of 800 elements each are fastest in two blocks).
_BLOCK = 40_000


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
    method: Method | str = PAO(),  # noqa: B008 (immutable)
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
    progress: bool = False,
    rng: Seed = None,
) -> ManyResult:
    """Many independent runs of `minimize` at once.

    It takes the parameters of `minimize`, except ``asynchronous``, ``callback``, ``polish``, ``store_swarms`` and
    ``store``. Limits hold for each run; ``time_limit`` holds for all together and is checked after every generation.
    A run whose whole first swarm fails ends there with ``fun`` infinite; it is an error only if all do. With
    ``vectorized=True`` the points of many runs go to ``fun`` in one call of shape ``(m, d)``.

    Parameters
    ----------
    fun, bounds, method, args, n_particles, maxiter, maxfev, target, tol, stagnation, time_limit, x0, f0, init,
    vectorized, workers, timeout, retries, reevaluate, progress, rng
        As in `minimize`.
    runs : int
        How many runs.

    Returns
    -------
    ManyResult
        Arrays with the runs on the first axis, ``seeds``, and ``run(r)`` for one run alone.
        ``minimize(fun, bounds, rng=many.seeds[r])`` repeats run ``r`` exactly.

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
    fun = with_arguments(fun, args)
    method, box = read_input.read_method(method), Bounds(*read_input.read_bounds(bounds))
    default = method.default_limits(len(box.lb))
    limits = Limits.read(maxiter, maxfev, target, tol, stagnation, time_limit, default)
    flag("progress", progress)
    seeds = spawn(rng, runs)
    size = read_size(n_particles, method, len(box.lb), limits, x0, f0, None)
    start = {"method": method, "n_particles": size, "x0": x0, "f0": f0, "reevaluate": reevaluate}
    takes_batches = bool(method.takes_batches) and not _differ_in_size(init)
    blocks: list[_Block] = []
    started = 0
    with Evaluator(fun, CallOptions(vectorized, workers, timeout, retries)) as evaluate, ProgressBar(progress) as bar:
        evaluate.count = bar.count if progress else None
        n_together = _block_size(_elements(size, box, init), evaluate, limits) if takes_batches else None
        while started < runs:
            numbers = range(started, min(runs, started + (n_together or runs)))
            optimizers = _make_optimizers(box, start, init, seeds, numbers, takes_batches)
            limits = limits.starting_with(optimizers[0].n_to_start)
            if not started and (n_particles is not None or not isinstance(init, str)):
                warn_if_few_generations(limits.maxfev, optimizers[0].n_to_start, optimizers[0].n_each)
            n_each = limits.evaluations(optimizers[0].n_to_start, optimizers[0].n_each)
            bar.expect(None if n_each is None else runs * n_each)
            block = _Block(optimizers, blocks, bar)
            try:
                block.run(limits, evaluate)
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
    evaluate.warn()
    return gather(
        [optimizer for block in blocks for optimizer in block.optimizers],
        [best for block in blocks for best in block.best],
        [ends for block in blocks for ends in block.ends],
        limits,
        seeds[:started],
        evaluate.failures,
    )


def _make_optimizers(
    bounds: Any,
    start: dict[str, Any],
    init: Any,
    seeds: list[np.random.SeedSequence],
    numbers: range,
    takes_batches: bool,
) -> list[Optimizer]:
    """One optimiser for some runs, or one for each if the method moves one run at a time."""
    if takes_batches:
        rng = [seeds[r] for r in numbers]
        return [Optimizer(bounds, init=_part_of(init, len(seeds), numbers), rng=rng, **start)]
    return [Optimizer(bounds, init=_one_of(init, r, len(seeds)), rng=seeds[r], **start) for r in numbers]


class _Block:
    """Some runs that are evaluated together, and their history of best values."""

    def __init__(self, optimizers: list[Optimizer], earlier: list[_Block], bar: ProgressBar) -> None:
        self.optimizers = optimizers
        self.ends: list[Ends] = []
        self.best: list[list[Floats]] = [[] for _ in optimizers]  # after every generation
        self._bar = bar
        self._best_before = min((block.lowest for block in earlier), default=np.inf)
        self._failed_before = sum(block.n_failed for block in earlier)

    @property
    def lowest(self) -> float:
        """The best value of all runs."""
        known = [one.best.value.min() for one in self.optimizers if one.swarm is not None]
        return float(min(known, default=np.inf))

    @property
    def n_failed(self) -> int:
        """Failed evaluations of all runs."""
        return int(sum(one.n_failed.sum() for one in self.optimizers))

    @property
    def is_cut_short(self) -> bool:
        """Whether an interrupt or the loss of the workers ended a run."""
        return any(np.isin(ends.status, [Status.INTERRUPTED, Status.CRASHED]).any() for ends in self.ends)

    def run(self, limits: Limits, evaluate: Evaluator) -> None:
        """Run all to their ends."""
        may_fail = len(self.optimizers) > 1  # one run may fail as long as others do not
        runs = []
        for optimizer, best in zip(self.optimizers, self.best, strict=True):
            if optimizer.swarm is not None:  # a run that is continued
                best.append(optimizer.best.value)

            def after_generation(optimizer: Optimizer, best: list[Floats] = best) -> None:
                best.append(optimizer.best.value)
                if self._bar.is_shown:
                    failed = self._failed_before + self.n_failed
                    self._bar.show(best=min(self._best_before, self.lowest), failed=failed or None)

            runs.append(run(optimizer, limits, after_generation, may_fail=may_fail))
        self.ends = drive_together(runs, evaluate) if may_fail else [drive(runs[0], evaluate)]
        if all((ends.status == Status.FAILED).all() for ends in self.ends):
            raise evaluate.explain_total_failure()


def _elements(n_particles: int, bounds: Any, init: Any) -> int:
    """Particles times unknowns of one run."""
    if isinstance(init, OptimizeResult) and "swarm" in init:
        init = init.swarm
    if isinstance(init, Swarm):
        n_particles = init.n_particles
    elif not isinstance(init, str):
        n_particles = max(1, np.atleast_2d(np.asarray(init, dtype=object)).shape[0])
    least = 2 if isinstance(init, str) else 1
    return whole_number("n_particles", n_particles, least) * len(read_input.read_bounds(bounds)[0])


def _part_of(init: Any, runs: int, numbers: range) -> Any:
    """The start of some runs: their own, if there are results or swarms to continue."""
    part = slice(numbers.start, numbers.stop)
    if isinstance(init, OptimizeResult) and "swarm" in init:
        error = init.get("fun_error")
        swarm = _part_of(init.swarm, runs, numbers)
        return Result(
            swarm=swarm, x=init.x[part], fun=init.fun[part], fun_error=error if error is None else error[part]
        )
    if not isinstance(init, Swarm):
        return init
    if init.position.ndim != 3 or len(init.position) != runs:
        raise ValueError(f"init holds swarms of shape {init.position.shape}; {runs} runs need ({runs}, n, d)")
    return map_runs(lambda array: array[part], init)


def _one_of(init: Any, r: int, runs: int) -> Any:
    """The start of one run: its own, if there are results or swarms to continue."""
    if isinstance(init, ManyResult):
        if len(init.fun) != runs:
            raise ValueError(f"init holds {len(init.fun)} runs; give runs={len(init.fun)} to continue them, got {runs}")
        return init.run(r)
    if isinstance(init, Swarm):
        return map_runs(lambda array: array[0], _part_of(init, runs, range(r, r + 1)))
    return init


def _differ_in_size(init: Any) -> bool:
    """Whether there are swarms to continue that do not fit into one array."""
    return isinstance(init, ManyResult) and type(init.swarm) is tuple


def _block_size(elements: int, evaluate: Evaluator, limits: Limits) -> int | None:
    """Runs per block; None for all at once, if the evaluations or a common clock matter more than the cache."""
    if evaluate.is_parallel or limits.time_limit is not None:
        return None
    return max(1, _BLOCK // elements)
