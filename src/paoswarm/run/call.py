"""A call of `minimize` or `minimize_many`, read once: every error about what a user gives is raised here."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import OptimizeResult

from paoswarm._checks import flag, whole_number
from paoswarm._text import warn_user
from paoswarm.core import order
from paoswarm.core.random import Seed, check_seed, spawn
from paoswarm.core.swarm import Swarm, map_runs
from paoswarm.engines.engines import Compiled, Jax, Numba, read_engine
from paoswarm.evaluate.call_options import CallOptions, Workers
from paoswarm.evaluate.calls import Objective, with_arguments
from paoswarm.evaluate.constrained_function import ConstrainedFunction
from paoswarm.evaluate.constraints import ConstraintSet, without_functions
from paoswarm.methods import moves
from paoswarm.methods.method import Method, for_workers
from paoswarm.methods.searches import Searches
from paoswarm.run.first_swarm import choose_size, design_name
from paoswarm.run.many_result import ManyResult
from paoswarm.run.observers import Notify, read_callback
from paoswarm.run.read_input import check_share, read_method, read_space, read_start, trial_constraints
from paoswarm.run.result import Result
from paoswarm.run.run_state import RunState
from paoswarm.run.stopping import Limits, Status
from paoswarm.space.space import Space
from paoswarm.store.encoding import encode
from paoswarm.store.journal import Journal
from paoswarm.store.store import RecordedRun, Store

_ALONE = object()  # stands for the one run of `minimize`
_MOST_RUNS = 1_000_000  # already so many seeds take seconds and hundreds of megabytes
_ENOUGH = 100  # generations of a search: with 64 particles, Rosenbrock's function takes 70 (d = 5) to 190 (d = 10)
_FEW = 5  # generations; with fewer the search is hardly better than its first swarm


@dataclass(frozen=True)
class Call:
    """What a user has asked for, checked; the fields are the arguments of `minimize` and `minimize_many`.

    Attributes
    ----------
    fun, args
        The function as it was given, and its other arguments.
    objective : callable
        The same with its arguments and constraints, as evaluators call it.
    runs : int or None
        None for `minimize`.
    seeds : list
        Of each run.
    seed : object
        That of the call for the description in its store.
    chosen_size : bool
        Whether the user has chosen the size of the first swarm.
    engine : Compiled or None
        None for NumPy.
    may_fall_back : bool
        Whether NumPy takes over if the engine does not have all that is asked for.
    takes_single_points : bool
        Whether a run takes each value as soon as it is there.
    """

    fun: Objective
    args: tuple[Any, ...]
    objective: Objective
    space: Space
    method: Method
    n_particles: int
    chosen_size: bool
    limits: Limits
    x0: Any
    f0: Any
    init: Any
    reevaluate: float
    constraints: ConstraintSet | None
    options: CallOptions
    notify: Notify | None
    progress: bool
    polish: bool
    runs: int | None
    seeds: list[Any]
    rng: Any
    seed: Any
    store: Store | None
    engine: Compiled | None
    may_fall_back: bool
    takes_single_points: bool

    @property
    def n_runs(self) -> int:
        """How many runs there are."""
        return 1 if self.runs is None else self.runs

    @property
    def n_points(self) -> int | None:
        """How many points the space has, if each run recalls those that it has evaluated; None if it does not."""
        return None if self.reevaluate else self.space.size

    @property
    def takes_batches(self) -> bool:
        """Whether several runs are moved in one array."""
        is_uniform = not (isinstance(self.init, ManyResult) and type(self.init.swarm) is tuple)
        is_plain = self.constraints is None and self.n_points is None
        return self.runs is not None and bool(self.method.takes_batches) and is_uniform and is_plain

    @property
    def elements(self) -> int:
        """Particles times unknowns of one run."""
        init: Any = self.init.swarm if isinstance(self.init, OptimizeResult) and "swarm" in self.init else self.init
        n = self.n_particles
        if isinstance(init, Swarm):
            n = init.n_particles
        elif not isinstance(init, str):
            n = max(1, np.atleast_2d(np.asarray(init, dtype=object)).shape[0])
        return whole_number("n_particles", n, 2 if isinstance(init, str) else 1) * len(self.space.lower)

    def states(self, numbers: range) -> list[RunState]:
        """Where some of the runs start: one state for all of them, or one for each."""
        start: dict[str, Any] = {"n_particles": self.n_particles, "x0": self.x0, "f0": self.f0}
        start |= {"reevaluate": self.reevaluate, "constraints": self.constraints}
        if self.takes_batches:
            rng = [self.seeds[r] for r in numbers]
            return [RunState(self.space, self.method, init=_part_of(self.init, self.n_runs, numbers), rng=rng, **start)]
        inits = (self.init if self.runs is None else _one_of(self.init, r, self.runs) for r in numbers)
        return [
            RunState(self.space, self.method, init=init, rng=self.seeds[r], **start)
            for r, init in zip(numbers, inits, strict=True)
        ]

    def on_numpy(self) -> Call:
        """The same call without a compiled engine."""
        seeds = [self.rng] if self.runs is None else spawn(self.rng, self.runs)
        return replace(self, engine=None, seeds=seeds)

    def warn_if_few_generations(self, n_to_start: int, n_each: int) -> None:
        """Warn if the budget pays for a first swarm of the user's size and fewer than five generations."""
        maxfev = self.limits.maxfev
        if self.chosen_size and maxfev is not None and n_to_start and maxfev < n_to_start + _FEW * n_each:
            generations = (maxfev - n_to_start) / n_each
            warn_user(
                f"maxfev={maxfev} leaves {generations:.2g} generations of {n_each} evaluations after the first swarm: "
                "lower n_particles, or leave it out, then it is chosen from maxfev"
            )


def read_call(
    *,
    fun: Objective,
    bounds: Any,
    method: Any,
    args: Any,
    n_particles: Any,
    x0: Any,
    init: Any,
    reevaluate: Any,
    constraints: Any,
    callback: Any,
    progress: Any,
    polish: Any,
    rng: Seed,
    store: Any,
    engine: Any,
    vectorized: Any,
    workers: Any,
    runs: Any = _ALONE,
    **limits: Any,
) -> Call:
    """Read the arguments of a call; see `minimize` for what they are."""
    if not callable(fun):
        raise TypeError(f"fun must be callable, got {fun!r}")
    runs = None if runs is _ALONE else whole_number("runs", runs, 1, _MOST_RUNS)
    compiled = read_engine(engine, fun)
    space = read_space(bounds)
    objective = with_arguments(fun, args)
    if flag("vectorized", vectorized) and not space.takes_rows:
        raise ValueError("lmfit.Parameters hold one point: leave out vectorized=True")
    limited = trial_constraints(constraints, space, flag("vectorized", vectorized))
    workers = Workers.of(workers) if runs is None else Workers.of_batches(workers)
    check_share(reevaluate)
    is_plain = compiled is None and limited is None and not reevaluate
    method = read_method(method, init, space, plain=is_plain)
    d = len(space.lower)
    read = Limits.read(**limits, default=method.default_limits(d))
    options = CallOptions(vectorized, workers)
    flag("progress", progress)
    _check_polish(polish, space, reevaluate)
    if limited is not None:
        objective = ConstrainedFunction(objective, limited, vectorized)
    notify = read_callback(callback)
    check_seed(rng)  # a list would make a batch of a state
    store = None if store is None else Store.of(store)
    rng, seed = (rng, None) if store is None else store.seeded(rng)
    x0, f0, init = _read_points(space, *read_start(x0), init)
    takes_single = _takes_single_points(method, workers, limited, reevaluate)
    # Single points: twice as many are under way as a generation has. With generations twice as large, searches took as
    # long or longer (benchmarks/asynchronous.py).
    at_once = math.ceil(workers.count / 2) if takes_single else workers.count
    method = _for_workers(method, at_once, read.maxfev, store) if runs is None else for_workers(method, 1)
    return Call(
        fun=fun,
        args=args if isinstance(args, tuple) else (args,),
        objective=objective,
        space=space,
        method=method,
        n_particles=_read_size(n_particles, method, space, read, x0, f0, store),
        chosen_size=n_particles is not None or not isinstance(init, str),
        limits=read,
        x0=x0,
        f0=f0,
        init=init,
        reevaluate=reevaluate,
        constraints=limited,
        options=options,
        notify=notify,
        progress=progress,
        polish=polish,
        runs=runs,
        seeds=[rng] if runs is None else spawn(rng, runs) if compiled is None else [],
        rng=rng,
        seed=seed,
        store=store,
        engine=compiled,
        may_fall_back=engine == "auto",
        takes_single_points=takes_single,
    )


def _check_polish(polish: Any, space: Space, reevaluate: Any) -> None:
    """Raise if a local search is asked for where it cannot be made."""
    if not flag("polish", polish):
        return
    if space.axes is not None and not space.axes.is_continuous.any():
        raise ValueError("polish=True needs a continuous variable: a local search cannot move the others")
    if reevaluate:
        raise ValueError("polish=True cannot be used with reevaluate: the local search does not handle noise")


def _read_points(space: Space, x0: Any, f0: Any, init: Any) -> tuple[Any, Any, Any]:
    """The user's first points as rows of numbers, whatever form they have."""
    if space.is_plain:
        return x0, f0, init
    x0 = space.guess if x0 is None and f0 is None and isinstance(init, str) else x0
    x0 = None if x0 is None else space.read("x0", x0)
    return x0, f0, init if isinstance(init, str | Swarm | OptimizeResult) else space.read("init", init)


def _read_size(
    n_particles: Any, method: Method, space: Space, limits: Limits, x0: Any, f0: Any, store: Store | None
) -> Any:
    """What the user gives; else what the store has recorded, since limits may change; else a choice."""
    if n_particles is not None:
        return n_particles
    recorded = None if store is None else store.recorded("n_particles")
    return recorded or choose_size(method, space, limits.maxfev, limits.maxiter, x0, f0)


def _takes_single_points(
    method: Method, workers: Workers, constraints: ConstraintSet | None, reevaluate: float
) -> bool:
    """Whether a run takes each value as soon as it is there, and does not wait for whole generations.

    It waits if its method learns from nothing else. Repeated measurements, and what is done for constraints, belong to
    generations, too.
    """
    if not workers.asynchronous or method.moves_singly:
        return bool(workers.asynchronous)
    joins = isinstance(method, Searches) or moves.joining(method) is not None
    return joins and constraints is None and not reevaluate


def _for_workers(method: Method, at_once: int, maxfev: int | None, store: Store | None) -> Method:
    """The method for as many points at once as the store has recorded, or else as there are.

    But a search needs generations: at least a hundred must fit into ``maxfev``.
    """
    recorded = None if store is None else store.recorded("method")
    settings = recorded.get("with") if isinstance(recorded, dict) else None
    count = settings.get("parallel") if isinstance(settings, dict) else None
    if not isinstance(count, int):
        count = at_once if maxfev is None else min(at_once, max(1, maxfev // _ENOUGH))
    return for_workers(method, count)


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


_OF_THE_CALL = ("deadline", "aside", "time_aside")  # they follow from the others


def describe_run(call: Call, n_particles: int, limits: Limits, expected: int | None) -> RecordedRun:
    """The runs of a call as JSON; ``expected`` are the most evaluations of one of them.

    Everything in ``problem`` decides which points are asked for and must stay the same. Limits may change. If they lead
    to other points, because a schedule depends on them, that shows when the recorded points are compared. Runs on a
    compiled engine go on from their state: what ends one of them before its budget does is part of the problem, because
    it cannot go on.
    """
    kept = {name: encode(value) for name, value in limits._asdict().items() if name not in _OF_THE_CALL}
    given: dict[str, Any] = {"x0": call.x0, "init": call.init}
    space = call.space
    bounds = np.stack([space.lower, space.upper], axis=1).tolist() if space.is_plain else encode(space.description)
    problem = {"bounds": bounds, "method": encode(call.method), "n_particles": n_particles}
    if call.engine is None:
        given |= {"f0": call.f0, "reevaluate": float(call.reevaluate)}
        if call.runs is None:
            given["asynchronous"] = bool(call.options.workers.asynchronous)
        if call.constraints is not None:
            given["constraints"] = call.constraints
    else:
        problem |= {"engine": encode(_without_resources(call.engine))}
        problem |= {name: kept.pop(name) for name in ("target", "tol")}
    # What users give comes before the method, which may depend on it: the first difference is the one that is named.
    problem = {name: encode(_plain(value)) for name, value in given.items()} | problem | {"rng": call.seed}
    if call.runs is not None:
        problem["runs"] = call.runs
    kept |= {"polish": bool(call.polish), "expected": None if expected is None else call.n_runs * expected}
    how = call.options.described if call.engine is None else {}
    return RecordedRun("minimize" if call.runs is None else "minimize_many", problem, kept, how)


def _without_resources(engine: Compiled) -> Compiled:
    """An engine without threads and devices, which change no result."""
    if isinstance(engine, Numba):
        return replace(engine, threads=None)
    return replace(engine, devices=None) if isinstance(engine, Jax) else engine


def _plain(value: Any) -> Any:
    """Points as arrays, a design by its own name, a swarm or a number as it is."""
    if isinstance(value, ConstraintSet):
        return without_functions(value)
    if isinstance(value, str):
        return design_name(value)
    if value is None or isinstance(value, Swarm | int | float):
        return value
    if isinstance(value, OptimizeResult):
        if np.ndim(value.get("fun", 0.0)):  # many runs
            return (value.swarm, np.asarray(value.x), np.asarray(value.fun))
        knows_more = "fun" in value and order.is_better(value.fun, value.swarm.global_value)  # by polishing, a restart
        return (value.swarm, np.asarray(value.x), value.fun) if knows_more else value.swarm
    return np.asarray(value, dtype=float)


def record_end(call: Call, journal: Journal, many: ManyResult) -> None:
    """Record how the runs have ended."""
    is_final = len(many.status) == call.n_runs and bool(((many.status > 0) & (many.status != Status.TIME)).all())
    reasons = [Status(code) for code in sorted(set(many.status.tolist()))]
    sentences = [f"{int(np.sum(many.status == reason))} x {reason.message}" for reason in reasons]
    message = many.message[0] if call.runs is None else " ".join(sentences)
    journal.end(" ".join(reason.name for reason in reasons), message, final=is_final)
