"""One cell of a study: all runs of one method on one problem in one dimension."""

from __future__ import annotations

import dataclasses
import inspect
import math
import zlib
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from paoswarm.algorithms.method import Method
from paoswarm.algorithms.schedules import Lines
from paoswarm.core.random import spawn
from paoswarm.optimize.many import minimize_many
from paoswarm.optimize.minimize import minimize
from paoswarm.optimize.stopping import Status
from paoswarm.problems import Problem, get
from paoswarm.study.adapters import Adapter, CountedObjective
from paoswarm.study.results import Floats, Key

ProblemSource = str | Callable[[int], Any]  # a name, or a function of the dimension


class Runs(NamedTuple):
    """What is kept of a cell: the best value of every run over its evaluations."""

    evaluations: np.ndarray  # (g,)
    best: Floats  # (runs, g)
    minimum: Floats  # (runs,) known smallest value of the problem that each run had


@dataclasses.dataclass(frozen=True)
class Cell:
    """Everything that decides the numbers of a cell; it travels to worker processes."""

    key: Key
    source: ProblemSource
    method: Method | Adapter
    runs: int
    population: int
    budget: int
    init: str
    seed: int

    def problem(self) -> Any:
        """The problem; made where it is needed, since not every one can be sent."""
        return make_problem(self.source, self.key.dim)

    def description(self, version: str) -> dict[str, Any]:
        """What must be the same for stored runs to be used again, by name."""
        return {
            "version": version,
            "problem": self.key.problem,
            "dim": self.key.dim,
            "probe": probe(self.problem(), self.runs),
            "method": self.key.method,
            "hyperparameters": describe(self.method),
            "runs": self.runs,
            "population": self.population,
            "budget": self.budget,
            "init": self.init,
            "seed": self.seed,
        }

    def run(self) -> Runs:
        """All runs. The seeds depend on the problem and the dimension only: every method gets the same ones."""
        problem = self.problem()
        entropy = np.random.SeedSequence(self.seed, spawn_key=(zlib.crc32(self.key.problem.encode()), self.key.dim))
        if isinstance(self.method, Method) and not problem.instanced:
            many = minimize_many(problem, problem.bounds, runs=self.runs, rng=entropy, **self._options())
            if len(many.fun) < self.runs or (many.status == Status.INTERRUPTED).any():
                raise KeyboardInterrupt  # a cell is finished or nothing
            evaluations = np.minimum(self.population * np.arange(1, many.history.shape[1] + 1), self.budget)
            return Runs(evaluations, many.history, np.full(self.runs, problem.minimum))
        instances = [problem.instance(run) for run in range(self.runs)]
        run_one = self._swarm_run if isinstance(self.method, Method) else self._foreign_run
        rows = [run_one(one, seed) for one, seed in zip(instances, spawn(entropy, self.runs), strict=True)]
        return Runs(rows[0][0], np.stack([best for _, best in rows]), np.array([one.minimum for one in instances]))

    def _options(self) -> dict[str, Any]:
        """Of `minimize`: the whole budget is spent, whatever the swarm does."""
        options = {"method": self.method, "n_particles": self.population, "init": self.init}
        generations = math.ceil(self.budget / self.population) - 1
        cut = self.budget if self.budget % self.population else None
        return {**options, "maxiter": generations, "maxfev": cut, "tol": 0.0, "vectorized": True}

    def _swarm_run(self, problem: Any, seed: np.random.SeedSequence) -> tuple[np.ndarray, Floats]:
        result = minimize(problem, problem.bounds, rng=seed, **self._options())
        if result.status == Status.INTERRUPTED:
            raise KeyboardInterrupt
        return result.history.nfev, result.history.best

    def _foreign_run(self, problem: Any, seed: np.random.SeedSequence) -> tuple[np.ndarray, Floats]:
        counted = CountedObjective(problem, self.budget, self.population)
        number = int(seed.generate_state(1)[0])
        counted.exhaust(self.method, problem.bounds, population=self.population, seed=number)  # type: ignore[arg-type]
        return counted.trace()


def make_problem(source: ProblemSource, dim: int) -> Any:
    """A problem from its name or from a function of the dimension."""
    if isinstance(source, str):
        return get(source, dim)
    if not callable(source) or isinstance(source, Problem):
        raise TypeError(f"problems: must be names or functions of the dimension that return a Problem, got {source!r}")
    made = source(dim)
    if not all(hasattr(made, needed) for needed in ("name", "title", "bounds", "minimum", "instance", "instanced")):
        name = getattr(source, "__qualname__", repr(source))
        raise TypeError(f"problems: {name}({dim}) must return a paoswarm.problems.Problem, got {made!r}")
    return made


def probe(problem: Any, runs: int) -> str:
    """A checksum of values at three points of the box: a problem that was changed since its runs were stored shows."""
    text = []
    for one in [problem.instance(run) for run in range(runs)] if problem.instanced else [problem]:
        low, high = np.asarray(one.bounds, dtype=float).T
        points = low + (high - low) * np.random.default_rng(0).random((3, len(low)))
        try:
            values = [f"{value:.9g}" for value in (*one(points), one.minimum)]
        except Exception as error:  # the runs will tell
            values = [type(error).__name__]
        text += [*values, *(f"{end:.9g}" for end in (*low, *high))]
    return f"{zlib.crc32(' '.join(text).encode()):08x}"


def describe(thing: Any) -> str:
    """A method with all its hyperparameters, functions by their names; the same text for the same behaviour."""
    if dataclasses.is_dataclass(thing) and not isinstance(thing, type | Lines):
        fields = [field.name for field in dataclasses.fields(thing) if field.init]
        return f"{type(thing).__name__}({', '.join(f'{name}={describe(getattr(thing, name))}' for name in fields)})"
    if isinstance(thing, tuple | list):
        return f"({', '.join(describe(entry) for entry in thing)})"
    if isinstance(thing, np.ndarray):
        return f"array(shape={thing.shape}, crc={zlib.crc32(np.ascontiguousarray(thing).tobytes()):08x})"
    if isinstance(thing, partial):
        return f"partial({describe(thing.func)}, {describe(thing.args)}, {describe(sorted(thing.keywords.items()))})"
    if inspect.ismethod(thing):
        return f"{describe(thing.__self__)}.{thing.__name__}"
    if inspect.isfunction(thing) or inspect.isclass(thing) or inspect.isbuiltin(thing):
        module = "" if (thing.__module__ or "").startswith("paoswarm.") else f"{thing.__module__}."
        return module + thing.__qualname__ + (_inside(thing) if "<" in thing.__qualname__ else "")
    if " at 0x" in repr(thing):  # an address would differ from run to run
        inside = sorted(getattr(thing, "__dict__", {}).items())
        return f"{type(thing).__qualname__}({', '.join(f'{name}={describe(value)}' for name, value in inside)})"
    return repr(thing)


def _inside(function: Any) -> str:
    """Functions without a name of their own are told apart by what they do."""
    code = getattr(function, "__code__", None)
    if code is None:
        return ""
    bound = [cell.cell_contents for cell in function.__closure__ or ()]
    constants = [constant for constant in code.co_consts if not inspect.iscode(constant)]
    what = describe([constants, list(code.co_names), list(function.__defaults__ or ()), bound])
    return f"#{zlib.crc32(code.co_code + what.encode()):08x}"
