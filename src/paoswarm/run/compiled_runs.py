"""The runs of a call on a compiled engine, which moves them by many generations in one call.

Between calls, clocks, callbacks, stores and interrupts have their turn.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from contextlib import nullcontext
from typing import Any

import numpy as np
from scipy.optimize import OptimizeResult

from paoswarm._extras import ProgressBar, need
from paoswarm.core.arrays import Floats
from paoswarm.core.random import generator
from paoswarm.core.swarm import Swarm
from paoswarm.engines import counter
from paoswarm.engines.engines import Compiled, CompiledEngine, Numba, bound, check_space, of_coordinates
from paoswarm.engines.program import NotCompiled, Program, Rules, State, read_program
from paoswarm.engines.search_plan import is_adaptive
from paoswarm.evaluate.caller import End
from paoswarm.evaluate.calls import NAN, to_fingerprint, with_arguments
from paoswarm.evaluate.interrupts import interrupted_once, uninterrupted
from paoswarm.run import stopping
from paoswarm.run.call import Call
from paoswarm.run.compiled_result import found_of, intermediate
from paoswarm.run.drive import drive
from paoswarm.run.first_swarm import FirstSwarm, design_name
from paoswarm.run.many_result import Found, ManyResult, make_result, so_far
from paoswarm.run.polish import polish_each, with_reserve
from paoswarm.run.run import Ends, status_of
from paoswarm.run.run_description import describe_run
from paoswarm.run.stopping import Limits, Status
from paoswarm.run.stored_states import Standing, StoredStates
from paoswarm.store.journal import Journal

NO_VALUE = (
    "the objective raised an error, or was NaN or infinite, at every point of the first swarm of every run. To see "
    "why, call it at one point in Python: it gets one point x (d,), not many"
)
_CALL = 0.2  # seconds that a call of the engine may take: an interrupt waits so long
_SUPPORTED = "A compiled engine takes bounds, a first swarm of points or by design, and limits."


class CompiledRuns(ABC):
    """All runs of a call inside an engine: for the loop they are one run, and the queue that evaluates it.

    Attributes
    ----------
    limits : Limits
    is_new : bool
        Whether there is something that a callback has not seen.
    stopped : Status or None
        What ended the runs from outside.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.ends: Ends | None = None
        self.is_new = False
        self.stopped: Status | None = None

    @property
    def room(self) -> float:
        """How many points could be sent beside those inside."""
        return 0

    @property
    @abstractmethod
    def is_over(self) -> bool:
        """Whether all runs have ended."""

    @abstractmethod
    def advance(self) -> None:
        """Move the runs on for a moment."""

    @abstractmethod
    def found(self) -> list[Found]:
        """What all runs have found."""

    @abstractmethod
    def so_far(self) -> list[Found]:
        """The same for a callback."""

    def send(self, *sent: Any) -> list[Any]:
        """Note whether the runs have ended."""
        if self.limits.deadline is not None and time.monotonic() >= self.limits.deadline:
            self.stopped = self.stopped or Status.TIME
        if self.is_over or self.stopped is not None:
            self.close()
        return []

    def throw(self, error: BaseException) -> list[Any]:
        """End the runs from outside."""
        self.stopped, _ = status_of(error)
        self.close()
        return []

    def close(self) -> None:
        """Note that no run moves any more."""
        nothing = np.zeros(0, dtype=np.int64)
        self.ends = Ends(nothing, nothing, nothing, nothing)  # what runs have found says how they ended

    def keep(self) -> None:  # noqa: B027 (most have no store)
        """Record where the runs stand, if there is a store."""

    def receive(self, deadline: float | None) -> list[tuple[int, Any]]:
        """Move the runs on; what they want is evaluated inside."""
        self.advance()
        return [(0, None)]

    def explain_total_failure(self) -> ValueError:
        """The error for first swarms without a single finite value."""
        return ValueError(NO_VALUE)


def solve_compiled(call: Call, engine: Compiled) -> ManyResult:
    """Take all runs of a call to their ends."""
    _refuse(call, engine)
    space, d = call.space, len(call.space.lower)
    keys, seeds = _seeds_of(call.rng, call.runs)
    box = space.lower, space.upper
    n, given = _first_points(call, engine, seeds)
    limits = call.limits.starting_with(n)
    for_swarms = with_reserve(limits, d, n) if call.polish else limits
    fun = of_coordinates(engine, bound(engine, call.fun, call.args), space)
    call.warn_if_few_generations(n, n)
    journal: Journal | None = None
    runs: CompiledRuns
    if is_adaptive(call.method):
        check_adaptive(engine, call)
        from paoswarm.run.adaptive_runs import AdaptiveSearches  # needs numba

        budget = for_swarms.maxfev
        runs = AdaptiveSearches(engine, fun, call, n, for_swarms, given, keys)
    else:
        budget = for_swarms.evaluations(n, n)
        program = read_program(
            call.method, n, *box, _rules(limits, d), maxiter=limits.maxiter, maxfev=for_swarms.maxfev
        )
        if call.store is not None:
            described = describe_run(call, n, limits, limits.evaluations(n, n))
            journal = Journal(call.store, described, to_fingerprint(with_arguments(call.fun, call.args)))
        runs = SwarmsOnEngine(engine.make(program, fun), program, call, for_swarms, keys, given, journal)
    with (
        journal or nullcontext(),
        interrupted_once(),
        ProgressBar(call.progress, None if budget is None else len(keys) * budget) as bar,
    ):
        try:
            drive([runs], runs, lambda: _after_round(runs, call, bar))
        finally:
            runs.keep()
        found = runs.found()
        many, why = make_result(
            found,
            space=space,
            method=call.method,
            limits=for_swarms,
            engine=type(engine).__name__.lower(),
            seeds=seeds[: sum(len(one.fun) for one in found)],
            failures=[],
        )
        if call.polish and isinstance(runs, SwarmsOnEngine):
            inside = _Inside(runs.engine)
            polish_each(many, why, inside, space, limits, for_swarms.deadline, is_stored=journal is not None)
        if journal is not None:
            _end(journal, many)
    if isinstance(runs, SwarmsOnEngine) and runs.came_from is not None and call.runs is None:
        many.message[0] += f" Generations 0 to {min(runs.came_from, int(many.nit[0]))} came from the store."
    return many


def _refuse(call: Call, engine: Compiled) -> None:
    """Raise if the call asks for something that compiled engines do not have."""
    workers = call.options.workers
    asked = {
        "values of x0": call.f0 is not None,
        "vectorized": call.options.vectorized,
        "workers": not (isinstance(workers.workers, int) and workers.workers == 1),
        "timeout": workers.timeout is not None,
        "reevaluate": bool(call.reevaluate),
        "constraints": call.constraints is not None,
        "asynchronous": workers.asynchronous,
    }
    for name, is_asked in asked.items():
        if is_asked:
            raise NotCompiled(f"compiled engines do not have {name}; engine='numpy' has it. {_SUPPORTED}")
    check_space(engine, call.space)
    if isinstance(call.init, OptimizeResult | Swarm):
        raise NotCompiled(
            "compiled engines cannot continue from an earlier result, engine='numpy' can. To start from its points, "
            "give init=result.swarm.best_position"
        )
    if call.store is not None and not engine.takes_states:
        raise NotCompiled("engine='cuda' does not have store: its swarms stay on the device. engine='jax' has it")


def check_adaptive(engine: Compiled, call: Call) -> None:
    """Raise unless the engine can run adaptive searches with all that is asked for."""
    if not isinstance(engine, Numba):
        raise NotCompiled(
            f"engine='{type(engine).__name__.lower()}' moves single PAO swarms: give method='PAO'. "
            f"{type(call.method).__name__} needs engine='numba' or engine='numpy'"
        )
    if engine.precision != "double":
        raise NotCompiled("adaptive searches are in double precision: use ps.engines.Numba(), or method='PAO'")
    for name, is_asked in {"store": call.store is not None, "polish": call.polish}.items():
        if is_asked:
            raise NotCompiled(f"adaptive searches on numba do not have {name}; engine='numpy' has it")
    need("numba", extra="numba", user="engine='numba'")


def _seeds_of(rng: Any, runs: int | None) -> tuple[counter.Words, list[np.random.SeedSequence]]:
    """Keys ``(runs, 2)`` and seeds of runs; of one run alone if ``runs`` is None."""
    root: Any = rng if isinstance(rng, np.random.SeedSequence) else generator(rng).bit_generator.seed_seq
    root = _copy(root)
    if runs is None:
        return counter.run_key(root)[None], [root]
    return counter.run_keys(root, runs), root.spawn(runs)


def _copy(seed: np.random.SeedSequence) -> np.random.SeedSequence:
    """The same seed, as it was before it had children."""
    return np.random.SeedSequence(seed.entropy, spawn_key=seed.spawn_key, pool_size=seed.pool_size)


def _first_points(call: Call, engine: Compiled, seeds: list[np.random.SeedSequence]) -> tuple[int, Floats | None]:
    """How many particles each run has, and the first points ``(n, d)`` of all runs or ``(runs, n, d)`` of each.

    None stands for the engine's own design.
    """
    space = call.space
    box = space.lower, space.upper
    x0, init = (
        points if space.is_plain or points is None or isinstance(points, str) else space.coordinates(points)
        for points in (call.x0, call.init)
    )
    first = FirstSwarm(box, call.n_particles, x0, None, init, box)
    if not isinstance(init, str):
        return first.n_particles, first.points([generator(0)], ())
    if x0 is None and design_name(init) == "latinhypercube":
        return first.n_particles, None
    if len(seeds) > 1 and not engine.takes_states:
        raise NotCompiled(
            "engine='cuda' begins with a Latin hypercube, or with the points of init; engine='jax' has x0"
        )
    return first.n_particles, first.points([generator(_copy(seed)) for seed in seeds], (len(seeds),))


def _after_round(runs: CompiledRuns, call: Call, bar: ProgressBar) -> bool:
    """Show how far the runs are, and call the callback; whether it wants to stop."""
    if not runs.is_new:
        return False
    if bar.is_shown:
        found = runs.so_far()
        bar.catch_up(int(sum(one.nfev.sum() for one in found)))
        bar.show(best=min(float(one.fun.min()) for one in found))
    if call.notify is None:
        return False
    runs.is_new = False
    many = so_far(runs.so_far(), call.space)
    return call.notify(lambda: many if call.runs is not None else many.run(0))


def _rules(limits: Limits, d: int) -> Rules:
    return Rules(
        target=-np.inf if limits.target is None else limits.target,
        tol=limits.tol,
        patience=stopping.patience(d),
        near=stopping.NEAR,
        same=stopping.SAME,
    )


class SwarmsOnEngine(CompiledRuns):
    """Single swarms, one for each run, in one state that the engine moves; it may be kept in a store."""

    def __init__(
        self,
        engine: CompiledEngine,
        program: Program,
        call: Call,
        limits: Limits,
        keys: counter.Words,
        given: Floats | None,
        journal: Journal | None,
    ) -> None:
        super().__init__(limits)
        self.engine, self._program, self._call, self._keys, self._given = engine, program, call, keys, given
        self._states = None if journal is None else StoredStates(journal, engine, program, call.space)
        self._standing: Standing | None = None
        self.came_from: int | None = None  # the generation that the store held
        self._count = engine.at_once  # generations of the next call

    @property
    def is_over(self) -> bool:
        """Whether all runs have ended."""
        return self._standing is not None and (
            self._standing.generation >= self._program.generations or self._standing.state.is_over
        )

    def advance(self) -> None:
        """Make the first swarms, or move all runs in a call of a fraction of a second."""
        if self._standing is None:
            self._begin()
            return
        done, state, columns = self._standing
        few, last = self.engine.at_once, self._program.generations
        complete = last if self._states is None else self._states.last_complete
        count = min(self._count, (complete if done < complete else last) - done, self.engine.longest)
        began = time.monotonic()
        with uninterrupted(blocked_in_children=False):  # an interrupted call would leave runs at different places
            state, history = self.engine.advance(state, self._keys, done + 1, count)
            self._standing = Standing(done + count, state, [*columns, np.asarray(history, dtype=float)])
        seconds = time.monotonic() - began
        count = max(1, min(2 * count, int(count * _CALL / max(seconds, 1e-9))))
        self._count = count // few * few or count
        self.is_new = True
        if self._states is not None:
            self._states.keep(self._standing, is_last=self._standing.generation == complete)

    def _begin(self) -> None:
        """The first swarms of all runs, evaluated, or where the runs stand in the store."""
        self._standing = None if self._states is None else self._states.restore(len(self._keys))
        if self._standing is not None:
            self.came_from = self._standing.generation
            return
        keys, given = self._keys, self._given
        if given is None or given.ndim == 2:
            state = self.engine.begin(keys, given)
        else:  # points of their own for each run
            alone = [self.engine.begin(keys[r : r + 1], given[r]) for r in range(len(keys))]
            state = alone[0]
            if len(alone) > 1:
                parts = zip(*alone, strict=True)
                state = State(*(np.concatenate([np.asarray(part) for part in one]) for one in parts))
        if (np.asarray(state.status) == Status.FAILED).all():
            raise self.explain_total_failure()
        first = np.array(state.leader_value, dtype=float)[:, None]  # a copy: engines may change the arrays of a state
        self._standing = Standing(0, state, [first])
        self.is_new = True
        if self._states is not None:
            self._states.begin(self._standing)

    def close(self) -> None:
        """Note that no run moves any more; raise if none has begun."""
        if self._standing is None:
            raise KeyboardInterrupt
        super().close()

    def keep(self) -> None:
        """Record where the runs stand, whatever has ended them."""
        if self._states is not None and self._standing is not None:
            self._states.keep(self._standing, is_last=True)

    def so_far(self) -> list[Found]:
        """What a callback gets to see of all runs."""
        assert self._standing is not None
        return [intermediate(self._standing.state, self._call.space)]

    def found(self) -> list[Found]:
        """All runs where they stand."""
        assert self._standing is not None
        space, wall = self._call.space, self._call.method.wall
        return [found_of(self.engine, self._program, space, wall, self._standing, self.stopped, self.limits)]


class _Inside:
    """Points straight to the engine, for polishing."""

    def __init__(self, engine: CompiledEngine) -> None:
        self._engine = engine
        self.failed: dict[int, str] = {}

    def until(self, deadline: float | None, x: Floats) -> tuple[Floats, End]:
        """The values of all points: compiled functions take no time worth a look at the clock."""
        values = self._engine.evaluate(x)
        self.failed = dict.fromkeys(np.flatnonzero(np.isnan(values)).tolist(), NAN)
        return values, None


def _end(journal: Journal, many: ManyResult) -> None:
    """Record how the runs have ended."""
    found = [Status(code) for code in sorted(set(many.status.tolist()))]
    sentences = [f"{int(np.sum(many.status == one))} x {one.message}" for one in found]
    message = " ".join(sentences) if len(many.message) > 1 else many.message[0]
    is_final = bool(((many.status > 0) & (many.status != Status.TIME)).all())
    journal.end(" ".join(one.name for one in found), message, final=is_final)
