"""Runs on a compiled engine, as `minimize` and `minimize_many` return them.

The engine moves all runs by many generations in one call. Between calls, clocks, callbacks, stores and interrupts have
their turn.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import OptimizeResult

from paoswarm._checks import flag, whole_number
from paoswarm._extras import ProgressBar
from paoswarm.algorithms.method import Method
from paoswarm.compiled import counter
from paoswarm.compiled.coordinates import check_space, of_coordinates
from paoswarm.compiled.engines import Compiled, Engine, bound, read_engine
from paoswarm.compiled.program import NotCompiled, Program, Rules, read_program
from paoswarm.compiled.search_plan import is_adaptive
from paoswarm.compiled.state import State
from paoswarm.core.arrays import Floats
from paoswarm.core.random import Seed, check_seed, generator
from paoswarm.core.swarm import Swarm
from paoswarm.evaluation.caller import End
from paoswarm.evaluation.calls import to_fingerprint, with_arguments
from paoswarm.evaluation.interrupts import interrupted_once, uninterrupted
from paoswarm.optimize import convergence
from paoswarm.optimize.adaptive_runs import NO_VALUE, check_adaptive, minimize_adaptively
from paoswarm.optimize.callback import Notify, read_callback
from paoswarm.optimize.compiled_result import intermediate, only_run, result_of
from paoswarm.optimize.first_swarm import FirstSwarm, design_name
from paoswarm.optimize.loop import Ends
from paoswarm.optimize.many_result import ManyResult, reasons
from paoswarm.optimize.polish import finish, finish_each, with_reserve
from paoswarm.optimize.read_input import read_method
from paoswarm.optimize.read_space import read_space
from paoswarm.optimize.result import Result
from paoswarm.optimize.run_description import describe_compiled_run
from paoswarm.optimize.stopping import Limits, Status
from paoswarm.optimize.stored_states import Standing, StoredStates
from paoswarm.optimize.swarm_size import read_size
from paoswarm.spaces.space import Space
from paoswarm.storage.journal import Journal
from paoswarm.storage.store import RecordedRun, Store

_CALL = 0.2  # seconds that a call of the engine may take: an interrupt waits so long
# What compiled engines do not have, and the values that say that it is not wanted.
_LACKING: dict[str, Any] = {
    "integrality": None,
    "f0": None,
    "vectorized": False,
    "workers": 1,
    "timeout": None,
    "reevaluate": False,
    "constraints": (),
    "asynchronous": False,
    "store_swarms": False,
}
_SUPPORTED = "A compiled engine takes bounds, a first swarm of points or by design, and limits."


class Wanted(NamedTuple):
    """What the user gave, as in `minimize_many`; ``runs`` is None for the one run of `minimize`."""

    fun: Callable[..., Any]
    args: Any
    bounds: Any
    method: Any
    n_particles: Any
    limits: tuple[Any, Any, Any, Any, Any, Any]  # in the order of `Limits`
    x0: Any
    init: Any
    callback: Callable[..., Any] | None
    progress: Any
    polish: Any
    rng: Seed
    store: Any
    runs: int | None = None


class _Direct:
    """Points straight to the engine, for polishing."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def until(self, deadline: float | None, x: Floats) -> tuple[Floats, End]:
        """The values of all points: compiled functions take no time worth a look at the clock."""
        return self._engine.evaluate(x), None


def run_on_engine(engine: Any, wanted: Wanted, **lacking: Any) -> ManyResult | None:
    """The runs on the engine that is asked for; None if that is NumPy.

    "auto" is NumPy where the compiled engine does not have everything that is wanted; ``lacking`` are the options that
    no compiled engine has.
    """
    compiled = read_engine(engine, wanted.fun)
    if compiled is None:
        return None
    try:
        refuse(**lacking)
        return minimize_compiled(compiled, wanted)
    except NotCompiled as lack:
        if engine == "auto":
            return None
        raise ValueError(str(lack)) from None


def seeds_of(rng: Seed, runs: int | None) -> tuple[counter.Words, list[np.random.SeedSequence]]:
    """Keys ``(runs, 2)`` and seeds of runs; of one run alone if ``runs`` is None."""
    root: Any = rng if isinstance(rng, np.random.SeedSequence) else generator(rng).bit_generator.seed_seq
    root = _copy(root)
    if runs is None:
        return counter.run_key(root)[None], [root]
    return counter.run_keys(root, runs), root.spawn(runs)


def _copy(seed: np.random.SeedSequence) -> np.random.SeedSequence:
    """The same seed, as it was before it had children."""
    return np.random.SeedSequence(seed.entropy, spawn_key=seed.spawn_key, pool_size=seed.pool_size)


def refuse(**given: Any) -> None:
    """Raise if an option that compiled engines do not have differs from its default."""
    for name, value in given.items():
        default = _LACKING[name]
        value = tuple(value) if isinstance(value, list) else value
        if not (value is default or (isinstance(value, bool | int | float | tuple) and value == default)):
            raise NotCompiled(f"compiled engines do not have {name}; engine='numpy' has it. {_SUPPORTED}")


def minimize_compiled(engine: Compiled, wanted: Wanted) -> ManyResult:
    """Read what the user gave, and run it."""
    if not callable(wanted.fun):
        raise TypeError(f"fun must be callable, got {wanted.fun!r}")
    space = read_space(wanted.bounds)
    check_space(engine, space)
    if isinstance(wanted.init, OptimizeResult | Swarm):
        raise NotCompiled(
            "compiled engines cannot continue from an earlier result, engine='numpy' can. To start from its points, "
            "give init=result.swarm.best_position"
        )
    if not space.is_plain:  # rows of numbers, whatever form the points have
        x0 = None if wanted.x0 is None else space.read("x0", wanted.x0)
        init = wanted.init if isinstance(wanted.init, str) else space.read("init", wanted.init)
        wanted = wanted._replace(x0=x0, init=init)
    method = read_method(wanted.method, wanted.init, space)
    if is_adaptive(method):
        check_adaptive(engine, method, {"store": wanted.store is not None, "polish": bool(wanted.polish)})
    d = len(space.lower)
    limits = Limits.read(*wanted.limits, method.default_limits(d))
    flag("progress", wanted.progress)
    flag("polish", wanted.polish)
    check_seed(wanted.rng)
    store = None if wanted.store is None else Store.of(wanted.store)
    if store is not None and not engine.takes_states:
        raise NotCompiled("engine='cuda' does not have store: its swarms stay on the device. engine='jax' has it")
    rng, seed = (wanted.rng, None) if store is None else store.seeded(wanted.rng)
    keys, seeds = seeds_of(rng, wanted.runs)
    size = read_size(wanted.n_particles, method, d, limits, wanted.x0, None, store)
    box = space.lower, space.upper
    x0, init = (_coordinates(space, points) for points in (wanted.x0, wanted.init))
    first = FirstSwarm(box, whole_number("n_particles", size, 2), x0, None, init, box)
    n = first.n_particles
    given = _first_points(first, wanted, seeds)
    if given is not None and given.ndim > 2 and len(keys) > 1 and not engine.takes_states:
        raise NotCompiled(
            "engine='cuda' begins with a Latin hypercube, or with the points of init; engine='jax' has x0"
        )
    if is_adaptive(method):
        args = wanted.args if isinstance(wanted.args, tuple) else (wanted.args,)
        fun = of_coordinates(engine, bound(engine, wanted.fun, args), space)
        asked = wanted.callback, wanted.progress, wanted.runs is None
        return minimize_adaptively(engine, fun, space, method, n, limits, given, keys, seeds, *asked)
    described = None
    if store is not None:
        start = {"x0": wanted.x0, "init": wanted.init}
        described = describe_compiled_run(engine, space, method, n, start, limits, wanted.polish, seed, wanted.runs)
    return run_compiled(engine, wanted, space, method, n, limits, given, keys, seeds, store, described)


def _coordinates(space: Space, points: Any) -> Any:
    """Given points in the swarm's coordinates; the name of a design as it is."""
    return points if space.is_plain or points is None or isinstance(points, str) else space.coordinates(points)


def _first_points(first: FirstSwarm, wanted: Wanted, seeds: list[np.random.SeedSequence]) -> Floats | None:
    """The first points ``(n, d)`` of all runs or ``(runs, n, d)`` of each; None for the engine's own design."""
    if not isinstance(wanted.init, str):
        return first.points([generator(0)], ())
    if wanted.x0 is None and design_name(wanted.init) == "latinhypercube":
        return None
    return first.points([generator(_copy(seed)) for seed in seeds], (len(seeds),))


def run_compiled(
    engine: Compiled,
    wanted: Wanted,
    space: Space,
    method: Method,
    n_particles: int,
    limits: Limits,
    given: Floats | None,
    keys: counter.Words,
    seeds: list[np.random.SeedSequence],
    store: Store | None,
    described: RecordedRun | None,
) -> ManyResult:
    """All runs from their first swarms, or from where they stand in the store, to their ends."""
    d = len(space.lower)
    limits = limits.starting_with(n_particles)
    for_swarms = with_reserve(limits, d, n_particles) if wanted.polish else limits
    rules = Rules(
        target=-np.inf if limits.target is None else limits.target,
        tol=limits.tol,
        patience=convergence.patience(d),
        stagnation=limits.stagnation or 0,
        near=convergence.NEAR,
        same=convergence.SAME,
    )
    program = read_program(
        method, n_particles, space.lower, space.upper, rules, maxiter=limits.maxiter, maxfev=for_swarms.maxfev
    )
    args = wanted.args if isinstance(wanted.args, tuple) else (wanted.args,)
    made = engine.make(program, of_coordinates(engine, bound(engine, wanted.fun, args), space))

    def so_far(state: State) -> Result:
        all_runs = intermediate(state, space)
        return all_runs if wanted.runs is not None else only_run(all_runs)

    notify = read_callback(wanted.callback, so_far)
    budget = for_swarms.evaluations(n_particles, n_particles)
    journal = None
    if store is not None and described is not None:
        journal = Journal(store, described, to_fingerprint(with_arguments(wanted.fun, args)))
    with (
        journal or nullcontext(),
        interrupted_once(),
        ProgressBar(wanted.progress, None if budget is None else len(keys) * budget) as bar,
    ):
        states = None if journal is None else StoredStates(journal, made, program, space)
        standing = None if states is None else states.restore(len(keys))
        came_from = None if standing is None else standing.generation
        if standing is None:
            standing = _begun(made, keys, given)
            if states is not None:
                states.begin(standing)
        standing, ended = _advance(
            made, standing, keys, program, for_swarms, notify, bar, states, is_new=came_from is None
        )
        many = result_of(made, program, space, method, standing, ended, for_swarms, seeds)
        if wanted.polish:
            why = reasons(many, np.asarray(standing.state.rule), for_swarms)
            clock = Ends(many.status, many.nit, many.nfev, many.status, for_swarms.deadline)
            finish_each(
                many,
                lambda result, r: finish(result, _Direct(made), space, limits, clock, why[r]),
                is_stored=journal is not None,
            )
        if journal is not None:
            _end(journal, many)
    if came_from is not None and wanted.runs is None:
        many.message[0] += f" Generations 0 to {min(came_from, int(many.nit[0]))} came from the store."
    return many


def _begun(engine: Engine, keys: counter.Words, given: Floats | None) -> Standing:
    """The first swarms of all runs, evaluated."""
    if given is None or given.ndim == 2:
        state = engine.begin(keys, given)
    else:  # points of their own for each run
        alone = [engine.begin(keys[r : r + 1], given[r]) for r in range(len(keys))]
        state = alone[0]
        if len(alone) > 1:
            state = State(*(np.concatenate([np.asarray(part) for part in parts]) for parts in zip(*alone, strict=True)))
    if (np.asarray(state.status) == Status.FAILED).all():
        raise ValueError(NO_VALUE)
    first = np.array(state.leader_value, dtype=float)[:, None]  # a copy: engines may change the arrays of a state
    return Standing(0, state, [first])


def _advance(
    engine: Engine,
    standing: Standing,
    keys: counter.Words,
    program: Program,
    limits: Limits,
    notify: Notify[State],
    bar: ProgressBar,
    states: StoredStates | None,
    *,
    is_new: bool,
) -> tuple[Standing, Status | None]:
    """Move all runs to their ends in calls of a fraction of a second; what stopped them from outside, if anything."""
    done, state, columns = standing
    few, last = engine.at_once, program.generations
    count = few
    complete = last if states is None else states.last_complete
    ended: Status | None = None
    try:
        ended = notify(state) if is_new else None
        while ended is None and done < last and not state.is_over:
            count = min(count, (complete if done < complete else last) - done, engine.longest)
            began = time.monotonic()
            with uninterrupted(blocked_in_children=False):  # an interrupted call would leave runs at different places
                state, history = engine.advance(state, keys, done + 1, count)
                columns.append(np.asarray(history, dtype=float))
                done += count
            seconds = time.monotonic() - began
            count = max(1, min(2 * count, int(count * _CALL / max(seconds, 1e-9))))
            count = count // few * few or count
            if states is not None:
                states.keep(Standing(done, state, columns), is_last=done == complete)
            if bar.is_shown:
                bar.catch_up(int(np.sum(state.nfev)))
                bar.show(best=float(np.min(state.leader_value)))
            ended = notify(state)
            if limits.deadline is not None and time.monotonic() >= limits.deadline:
                ended = ended or Status.TIME
    except KeyboardInterrupt:
        ended = Status.INTERRUPTED
    finally:
        if states is not None:
            states.keep(Standing(done, state, columns), is_last=True)
    return Standing(done, state, columns), ended


def _end(journal: Journal, many: ManyResult) -> None:
    """Record how the runs have ended."""
    found = [Status(code) for code in sorted(set(many.status.tolist()))]
    sentences = [f"{int(np.sum(many.status == one))} x {one.message}" for one in found]
    message = " ".join(sentences) if len(many.message) > 1 else many.message[0]
    is_final = bool(((many.status > 0) & (many.status != Status.TIME)).all())
    journal.end(" ".join(one.name for one in found), message, final=is_final)
