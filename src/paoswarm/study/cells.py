"""One cell of a study, all runs of one method on one problem in one dimension; and how cells are run.

Cells that are not on disk yet run in this process or in workers.
"""

from __future__ import annotations

import dataclasses
import math
import multiprocessing
import multiprocessing.connection
import os
import pickle
import signal
import threading
import warnings
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor, as_completed
from typing import Any

import numpy as np

from paoswarm import AdaptivePAO, Method, minimize, minimize_many
from paoswarm.helpers import ProgressBar, describe
from paoswarm.problems import Problem, get
from paoswarm.results import Status
from paoswarm.study.adapters import Adapter, CountedObjective
from paoswarm.study.results import CellFiles, CellRuns, DamagedFile, Floats, Key

ProblemSource = str | Callable[[int], Any]  # a name, or a function of the dimension


@dataclasses.dataclass(frozen=True)
class Cell:
    """All settings that determine the numbers of a cell. It is sent to worker processes."""

    key: Key
    source: ProblemSource
    method: Method | Adapter
    runs: int
    population: int
    budget: int
    init: str
    seed: int
    precision: float = 0.0

    def problem(self) -> Any:
        """Return the problem. It is made in the worker, because some problems cannot be pickled."""
        return make_problem(self.source, self.key.dim)

    def description(self, version: str) -> dict[str, Any]:
        """Return the settings by name. Stored runs are reused only if all of them are equal."""
        ends_when_solved = self.precision > 0 and not (self._makes_all_runs_at_once(self.problem()))
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
            **({"precision": self.precision} if ends_when_solved else {}),
        }

    def run(self) -> CellRuns:
        """Return all runs. Their seeds depend on the problem and dimension only, so all methods get the same seeds."""
        problem = self.problem()
        if not self._stays_inside():
            problem = _Boxed(problem)
        entropy = np.random.SeedSequence(self.seed, spawn_key=(zlib.crc32(self.key.problem.encode()), self.key.dim))
        if self._makes_all_runs_at_once(problem):
            many = minimize_many(problem, problem.bounds, runs=self.runs, rng=entropy, **self._options())
            if len(many.fun) < self.runs or (many.status == Status.INTERRUPTED).any():
                raise KeyboardInterrupt  # an incomplete cell is discarded
            return self._checked(CellRuns(self._axis(), many.history, np.full(self.runs, problem.minimum)))
        instances = [problem.instance(run) for run in range(self.runs)]
        run_one = self._swarm_run if isinstance(self.method, Method) else self._foreign_run
        best = np.stack([run_one(*one) for one in zip(instances, entropy.spawn(self.runs), strict=True)])
        return self._checked(CellRuns(self._axis(), best, np.array([one.minimum for one in instances])))

    def _checked(self, runs: CellRuns) -> CellRuns:
        """Raise if a run has found a value below the stated minimum, which must then be wrong."""
        below = runs.best[:, -1] < runs.minimum - 1e-9 * np.maximum(1.0, np.abs(runs.minimum))
        if below.any():
            run = int(np.argmax(below))
            raise ValueError(
                f"run {run} found {runs.best[run, -1]:.9g}, below the stated minimum {runs.minimum[run]:.9g} of the "
                "problem; correct the minimum"
            )
        return runs

    def _makes_all_runs_at_once(self, problem: Any) -> bool:
        return isinstance(self.method, Method) and self._has_equal_generations() and not problem.instanced

    def _is_ours(self) -> bool:
        return type(self.method).__module__.startswith("paoswarm.")

    def _stays_inside(self) -> bool:
        """Return whether the method is one of ours and never leaves the box."""
        method = self.method
        return self._is_ours() and isinstance(method, Method) and method.wall.is_bounded

    def _has_equal_generations(self) -> bool:
        """Return whether every generation takes ``population`` evaluations and the method does not decide its end."""
        kind = type(self.method)
        decides_its_end = kind.has_converged is not Method.has_converged  # type: ignore[union-attr]
        return not decides_its_end and (self._is_ours() or kind.tell is Method.tell)  # type: ignore[union-attr]

    def _axis(self) -> np.ndarray:
        """The evaluations after which the best value is kept: after every ``population``, and at the end."""
        steps = math.ceil(self.budget / self.population)
        return np.minimum(self.population * np.arange(1, steps + 1), self.budget)

    def _options(self) -> dict[str, Any]:
        """Return arguments of `minimize` with which it spends the whole budget, even after convergence."""
        n_particles = None if isinstance(self.method, AdaptivePAO) else self.population  # its searches have many sizes
        options: dict[str, Any] = {"method": self.method, "n_particles": n_particles, "init": self.init}
        options |= {"tol": 0.0, "vectorized": True}
        if not self._has_equal_generations():
            return {**options, "maxiter": None, "maxfev": self.budget}
        generations = math.ceil(self.budget / self.population) - 1
        maxfev = self.budget if self.budget % self.population else None  # the last generation is not a whole one
        return {**options, "maxiter": generations, "maxfev": maxfev}

    def _swarm_run(self, problem: Any, seed: np.random.SeedSequence) -> Floats:
        """Best values at the points of the axis. If the run ended early, its last best value is repeated."""
        result = minimize(problem, problem.bounds, rng=seed, target=self._target(problem), **self._options())
        if result.status == Status.INTERRUPTED:
            raise KeyboardInterrupt
        last = np.searchsorted(result.history.nfev, self._axis(), side="right") - 1
        best: Floats = result.history.best[last]
        return best

    def _foreign_run(self, problem: Any, seed: np.random.SeedSequence) -> Floats:
        counted = CountedObjective(problem, self.budget, self.population, self._target(problem))
        number = int(seed.generate_state(1)[0])
        counted.exhaust(self.method, problem.bounds, population=self.population, seed=number)  # type: ignore[arg-type]
        return counted.trace()[1]

    def _target(self, problem: Any) -> float | None:
        """Return the value at which the problem is solved, or None if runs spend their whole budget."""
        return float(problem.minimum + self.precision) if self.precision > 0 else None


class _Boxed:
    """A problem that is infinite outside its box, for methods that may leave it."""

    def __init__(self, problem: Any) -> None:
        self._problem = problem
        self.instanced, self.bounds, self.minimum = problem.instanced, problem.bounds, problem.minimum
        self._lower, self._upper = np.asarray(problem.bounds, dtype=float).T

    def instance(self, run: int) -> _Boxed:
        return _Boxed(self._problem.instance(run))

    def __call__(self, x: Any) -> Any:
        inside = ((x >= self._lower) & (x <= self._upper)).all(axis=-1)
        return np.where(inside, self._problem(np.clip(x, self._lower, self._upper)), np.inf)


def make_problem(source: ProblemSource, dim: int) -> Any:
    """Return a problem from its name or from a function of the dimension."""
    if isinstance(source, str):
        return get(source, dim)
    if not callable(source) or isinstance(source, Problem):
        raise TypeError(f"problems must be names, or functions of the dimension that return a Problem; got {source!r}")
    name = getattr(source, "__qualname__", repr(source))
    try:
        made = source(dim)
    except Exception as error:
        raise TypeError(
            f"problems: {name}({dim}) failed ({type(error).__name__}: {error}); pass a function of the dimension that "
            "returns a paoswarm.problems.Problem, not an objective"
        ) from error
    if not all(hasattr(made, needed) for needed in ("name", "title", "bounds", "minimum", "instance", "instanced")):
        raise TypeError(f"problems: {name}({dim}) must return a paoswarm.problems.Problem, got {made!r}")
    return made


def probe(problem: Any, runs: int) -> str:
    """Return a checksum of the values at three points, which shows whether a problem has changed since its runs."""
    text = []
    for one in [problem.instance(run) for run in range(runs)] if problem.instanced else [problem]:
        low, high = np.asarray(one.bounds, dtype=float).T
        points = low + (high - low) * np.random.default_rng(0).random((3, len(low)))
        try:
            values = [f"{value:.9g}" for value in (*one(points), one.minimum)]
        except Exception as error:  # the runs will raise it again
            values = [type(error).__name__]
        text += [*values, *(f"{end:.9g}" for end in (*low, *high))]
    return f"{zlib.crc32(' '.join(text).encode()):08x}"


class CellFailed(RuntimeError):
    """A cell could not be run. All finished cells are kept."""


def finish(cells: list[Cell], files: CellFiles, version: str, *, workers: Any, progress: bool) -> dict[Key, CellRuns]:
    """Return all cells of a study: read from disk where possible, run and written otherwise."""
    files.open()
    descriptions = {cell.key: cell.description(version) for cell in cells}
    stored = {cell.key: _read(files, cell.key, descriptions[cell.key]) for cell in cells}
    missing = [cell for cell in cells if stored[cell.key] is None]
    with ProgressBar(progress, len(cells), unit="cell", done=len(cells) - len(missing)) as bar:
        for key in _run(missing, files, descriptions, workers):
            bar.show(note=f"{key.method} on {key.problem} {key.dim}-D")
            bar.count()
    now = {key: found or files.read(key, descriptions[key]) for key, found in stored.items()}
    return {key: runs for key, runs in now.items() if runs is not None}  # all of them


def _read(files: CellFiles, key: Key, description: dict[str, Any]) -> CellRuns | None:
    try:
        return files.read(key, description)
    except DamagedFile as damage:
        warnings.warn(f"{damage}; running its cell again", RuntimeWarning, stacklevel=4)
        return None


def _run(cells: list[Cell], files: CellFiles, descriptions: dict[Key, Any], workers: Any) -> Iterator[Key]:
    """Run and write cells, and yield the key of each when it is done."""
    if (isinstance(workers, int) and workers == 1) or len(cells) <= 1:
        for cell in cells:
            files.write(cell.key, descriptions[cell.key], _attempt(cell))
            yield cell.key
        return
    executor, is_ours = _opened(workers, cells)
    tasks: dict[Any, Cell] = {}
    try:
        pool = executor.get_executor(pure=False) if hasattr(executor, "get_executor") else executor
        tasks |= {pool.submit(_attempt, cell): cell for cell in cells}
        for task in as_completed(tasks):
            key = tasks[task].key
            files.write(key, descriptions[key], task.result())
            yield key
    except BrokenExecutor as error:
        raise CellFailed("a worker process died; finished cells are kept, run the study again to continue") from error
    finally:  # also on Ctrl-C: running cells are dropped, finished ones are on disk
        for task in tasks:
            task.cancel()
        if is_ours:
            _close(executor)


def _opened(workers: Any, cells: list[Cell]) -> tuple[Any, bool]:
    """Return an executor or a Dask client, and whether it was made here."""
    if isinstance(workers, int):
        _check_portable(cells)
        return ProcessPoolExecutor(min(workers, len(cells)), initializer=_prepare_worker), True
    if hasattr(workers, "submit") and not isinstance(workers, type):
        return workers, False
    try:
        made = workers()
    except TypeError as error:
        raise TypeError(
            f"workers must be a number, an executor, a Dask Client, or a function without arguments that makes one; "
            f"{workers!r} failed: {error}"
        ) from error
    if not hasattr(made, "submit"):
        raise TypeError(f"workers is a function that makes {made!r}: it must make an executor or a Dask Client")
    return made, True


def _close(executor: Any) -> None:
    """End an executor or a Dask client without waiting for running cells."""
    if hasattr(executor, "get_executor"):
        executor.close()
        return
    processes = list((getattr(executor, "_processes", None) or {}).values())
    executor.shutdown(wait=False, cancel_futures=True)
    for process in processes:
        process.terminate()


def _check_portable(cells: list[Cell]) -> None:
    """Raise before the first run if something cannot be sent to worker processes."""
    for cell in cells:
        parts = {f"problem {cell.key.problem!r}": cell.source, f"method {cell.key.method!r}": cell.method}
        for what, thing in parts.items():
            try:
                pickle.dumps(thing)
            except Exception as error:
                raise TypeError(
                    f"{what} cannot be sent to worker processes ({error}); define it at the top level of a module, "
                    "or use workers=1"
                ) from error


def _attempt(cell: Cell) -> CellRuns:
    try:
        return cell.run()
    except Exception as error:
        problem, dim, method = cell.key
        raise CellFailed(
            f"{method} on {problem} in {dim} dimensions failed: {type(error).__name__}: {error}; "
            "finished cells are kept"
        ) from error


def _prepare_worker() -> None:
    """Make a worker ignore Ctrl-C, which its parent handles, and exit when the parent dies."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_exit_after, args=(parent.sentinel,), daemon=True).start()


def _exit_after(sentinel: Any) -> None:
    multiprocessing.connection.wait([sentinel])
    os._exit(1)
