"""One cell of a study: all runs of one method on one problem in one dimension."""

from __future__ import annotations

import dataclasses
import inspect
import math
import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from paoswarm.algorithms.method import Method
from paoswarm.algorithms.schedules import Lines
from paoswarm.core.random import spawn
from paoswarm.optimize.many import minimize_many
from paoswarm.optimize.minimize import minimize
from paoswarm.problems import get
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
            "probe": probe(self.problem()),
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
        history = minimize(problem, problem.bounds, rng=seed, **self._options()).history
        return history.nfev, history.best

    def _foreign_run(self, problem: Any, seed: np.random.SeedSequence) -> tuple[np.ndarray, Floats]:
        counted = CountedObjective(problem, self.budget, self.population)
        number = int(seed.generate_state(1)[0])
        counted.exhaust(self.method, problem.bounds, population=self.population, seed=number)  # type: ignore[arg-type]
        return counted.trace()


def make_problem(source: ProblemSource, dim: int) -> Any:
    """A problem from its name or from a function of the dimension."""
    if isinstance(source, str):
        return get(source, dim)
    made = source(dim)
    for needed in ("name", "bounds", "minimum", "instance"):
        if not hasattr(made, needed):
            raise TypeError(
                f"problems: {describe(source)}({dim}) must return a paoswarm.problems.Problem, got {made!r}"
            )
    return made


def probe(problem: Any) -> str:
    """Values at three points of the box: a problem that was changed since its runs were stored shows here."""
    one = problem.instance(0)
    low, high = np.asarray(one.bounds, dtype=float).T
    points = low + (high - low) * np.random.default_rng(0).random((3, len(low)))
    return " ".join(f"{value:.9g}" for value in one(points))


def describe(thing: Any) -> str:
    """A method with all its hyperparameters, functions by their names; the same text for the same behaviour."""
    if dataclasses.is_dataclass(thing) and not isinstance(thing, type | Lines):
        fields = [field.name for field in dataclasses.fields(thing) if field.init]
        return f"{type(thing).__name__}({', '.join(f'{name}={describe(getattr(thing, name))}' for name in fields)})"
    if isinstance(thing, tuple | list):
        return f"({', '.join(describe(entry) for entry in thing)})"
    if isinstance(thing, np.ndarray):
        return f"array(shape={thing.shape}, crc={zlib.crc32(np.ascontiguousarray(thing).tobytes()):08x})"
    if inspect.isfunction(thing) or inspect.isclass(thing) or inspect.isbuiltin(thing):
        module = "" if thing.__module__.startswith("paoswarm.") else thing.__module__ + "."
        return module + thing.__qualname__
    if " at 0x" in repr(thing):  # an address would differ from run to run
        return f"{type(thing).__qualname__}({', '.join(f'{k}={describe(v)}' for k, v in sorted(vars(thing).items()))})"
    return repr(thing)
