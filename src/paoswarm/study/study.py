"""`Study`: the methods, problems, dimensions, runs and budget of a benchmark."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any

import numpy as np

from paoswarm import Method, Optimizer
from paoswarm.helpers import cores, describe, number_between, whole_number
from paoswarm.study.adapters import Adapter
from paoswarm.study.cells import Cell, ProblemSource, finish, make_problem
from paoswarm.study.results import CellFiles, CellRuns, Key, Results, Trace


@dataclass(frozen=True)
class Study:
    """A benchmark study.

    Parameters
    ----------
    problems : sequence of str or functions
        Names, or functions of the dimension that return a `paoswarm.problems.Problem`. Names are those of
        `paoswarm.problems.names`, with suffixes such as ``rastrigin-shifted``, or ``bbob-f15``.
    methods : dict of str to Method or adapter
        The methods to compare, by name. For optimisers of other libraries see `paoswarm.study.adapters`.
    dims : sequence of int
    runs : int
        Independent runs of each method on each problem. Run r has the same seed for all methods, so that runs can be
        compared in pairs.
    population : int
        Number of particles.
    generations : int
        Generations after the first swarm. The budget is ``population * (generations + 1)`` evaluations.
    evaluations_per_unknown : int, optional
        Replaces ``generations``: the budget is this number times the dimension.
    precision : float
        Errors below it count as equal to it: the run has solved the problem. Runs of adapters, and runs that
        `minimize` makes one at a time, end there. Default: 0, all digits count.
    fewer_runs : dict of str to int
        Runs of methods that have fewer than ``runs``, by name, for optimisers that take long. They are paired with the
        first runs of the others.
    init : str
        Design of the first swarm, as in `minimize`. `AdaptivePAO` draws fewer points.
    seed : int
    title : str
    reference : str, optional
        The method that the others are compared with. Default: the first.
    groups : dict of str to sequences of method names, optional
        Sets of methods that are compared with each other. Each must contain the reference. Default: one group of all
        methods.

    Examples
    --------
    >>> import paoswarm as ps
    >>> study = ps.study.Study(
    ...     problems=["sphere", "rastrigin-shifted"],
    ...     methods={"PAO": ps.PAO(), "PSO": ps.classic.PSO()},
    ...     dims=[2],
    ...     runs=20,
    ...     generations=50,
    ... )
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     results = study.run(folder)
    >>> results.final("sphere", 2, "PAO").shape
    (20,)
    """

    problems: Sequence[ProblemSource]
    methods: Mapping[str, Method | Adapter]
    dims: Sequence[int] = (2, 8)
    runs: int = 100
    population: int = 100
    generations: int = 100
    evaluations_per_unknown: int | None = None
    precision: float = 0.0
    fewer_runs: Mapping[str, int] = field(default_factory=dict)
    init: str = "random"
    seed: int = 1
    title: str = "Benchmark study"
    reference: str | None = None
    groups: Mapping[str, Sequence[str]] | None = None
    _names: tuple[str, ...] = field(init=False, repr=False)
    _titles: dict[str, str] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        put = object.__setattr__.__get__(self)
        for name, least in (("runs", 1), ("population", 2), ("generations", 0), ("seed", 0)):
            put(name, whole_number(name, getattr(self, name), least))
        if self.evaluations_per_unknown is not None:
            put("evaluations_per_unknown", whole_number("evaluations_per_unknown", self.evaluations_per_unknown, 1))
        put("precision", number_between("precision", self.precision, 0.0))
        Optimizer([(0.0, 1.0)], init=str(self.init))  # raises for an unknown name
        put("init", "".join(filter(str.isalpha, self.init)).lower())  # as it may be spelled
        put("dims", tuple(_listed("dims", [whole_number("dims", dim, 1) for dim in _listed("dims", self.dims)])))
        put("problems", tuple(_listed("problems", self.problems)))
        _check_methods(self.methods, self.population)
        _check_fewer_runs(self.fewer_runs, self.methods)
        for dim in self.dims:
            if self.budget(dim) < self.population:
                raise ValueError(
                    f"evaluations_per_unknown = {self.evaluations_per_unknown} gives {self.budget(dim)} evaluations in "
                    f"{dim} dimensions, less than one population of {self.population}; increase it"
                )
        made, *_ = [[make_problem(source, dim) for source in self.problems] for dim in self.dims]  # in all dimensions
        names = tuple(problem.name for problem in made)
        if len(set(names)) < len(names):
            raise ValueError(f"problems: names must differ, got {list(names)}")
        put("_names", names)
        put("_titles", {problem.name: problem.title for problem in made})
        reference = next(iter(self.methods)) if self.reference is None else self.reference
        if not isinstance(reference, str) or reference not in self.methods:
            raise ValueError(f"reference must be one of the methods {list(self.methods)}, got {reference!r}")
        put("reference", reference)
        put("groups", _read_groups(self.groups, self.methods, reference))

    def budget(self, dim: int) -> int:
        """Return the evaluations of each run."""
        if self.evaluations_per_unknown is not None:
            return self.evaluations_per_unknown * dim
        return self.population * (self.generations + 1)

    def runs_of(self, method: str) -> int:
        """Return the runs of one method on each problem."""
        return min(self.runs, self.fewer_runs.get(method, self.runs))

    def cells(self) -> list[Cell]:
        """Return one cell for every problem, dimension and method."""
        same: dict[str, Any] = {name: getattr(self, name) for name in ("population", "init", "seed", "precision")}
        return [
            Cell(Key(problem, dim, name), source, method, runs=self.runs_of(name), budget=self.budget(dim), **same)
            for dim in self.dims
            for problem, source in zip(self._names, self.problems, strict=True)
            for name, method in self.methods.items()
        ]

    def run(self, folder: str | os.PathLike[str], *, workers: Any = 1, progress: bool = False) -> Results:
        """Run all cells that are not in the folder yet, and return the results.

        Every finished cell is written to a Parquet file at once. If the study is interrupted or killed, run it again
        with the same folder: it continues where it was and gives the same numbers.

        Parameters
        ----------
        folder : path
            Where the runs are stored. If it holds runs with other settings, an error is raised and they are kept.
        workers : int, Executor, Dask Client, or function that makes one
            Number of processes (-1: one per core), or what else `minimize` accepts except a map-like. Each cell is one
            task. With processes, a script needs ``if __name__ == "__main__":``.
        progress : bool
            Show a progress bar with the remaining time (needs tqdm).
        """
        if not (hasattr(workers, "submit") or callable(workers)):
            workers = cores() if workers == -1 else whole_number("workers", workers, 1)
        done = finish(self.cells(), CellFiles(folder), version("paoswarm"), workers=workers, progress=progress)
        assert self.reference is not None
        assert self.groups is not None
        return Results(
            title=self.title,
            reference=self.reference,
            problems=self._names,
            dims=tuple(self.dims),
            methods=tuple(self.methods),
            groups={name: tuple(members) for name, members in self.groups.items()},
            titles=self._titles,
            descriptions={name: describe(method) for name, method in self.methods.items()},
            traces={key: trace_of(runs, self.precision) for key, runs in done.items()},
            facts=self._facts(),
            precision=self.precision,
        )

    def _facts(self) -> dict[str, str]:
        by_dim = ", ".join(f"{self.budget(dim)} in {dim}-D" for dim in self.dims)
        each = by_dim if len({self.budget(dim) for dim in self.dims}) > 1 else str(self.budget(self.dims[0]))
        fewer: dict[int, list[str]] = {}
        for name in self.methods:
            if self.runs_of(name) < self.runs:
                fewer.setdefault(self.runs_of(name), []).append(name)
        but = "".join(f"; {runs} of {', '.join(names)}" for runs, names in fewer.items())
        smallest = f"{self.precision:g}".replace("e-0", "e-")
        solved = {"Precision": f"errors below {smallest} count as {smallest}: the problem is solved"}
        return {
            "Runs": f"{self.runs} of each method on each problem, with the same seeds for all methods{but}",
            "Budget": f"{each} evaluations per run, in populations of {self.population}",
            **(solved if self.precision else {}),
            "First population": f"{self.init}, seed {self.seed}",
            "Software": f"paoswarm {version('paoswarm')}, NumPy {np.__version__}",
        }


def trace_of(runs: CellRuns, precision: float = 0.0) -> Trace:
    """Return the errors of stored runs, at least ``precision``. By rounding, a best value may be below the minimum."""
    return Trace(runs.evaluations, np.maximum(runs.best - runs.minimum[:, None], precision))


def _listed(name: str, given: Any) -> list[Any]:
    if isinstance(given, str) or not isinstance(given, Sequence) or len(given) == 0:
        raise ValueError(f"{name} must be a list of at least one entry, got {given!r}")
    if len(set(map(repr, given))) < len(given):
        raise ValueError(f"{name} has an entry twice: {list(given)!r}")
    return list(given)


def _check_methods(methods: Any, population: int) -> None:
    """Raise if something is no method, or cannot have this population."""
    if not isinstance(methods, Mapping) or not methods:
        raise ValueError(f"methods must be a dict of at least one method by name, got {methods!r}")
    for name, method in methods.items():
        if not isinstance(name, str) or not name.strip():
            raise ValueError(f"methods: a name must be a non-empty string, got {name!r}")
        if isinstance(method, type) or not (isinstance(method, Method) or callable(method)):
            raise TypeError(f"methods: {name!r} must be a method such as PAO() or an adapter, got {method!r}")
        if isinstance(method, Method):
            try:
                method.check_swarm((population,))
            except ValueError as error:
                raise ValueError(f"methods: {name!r} with population = {population}: {error}") from error


def _check_fewer_runs(fewer_runs: Any, methods: Mapping[str, Any]) -> None:
    if not isinstance(fewer_runs, Mapping):
        raise ValueError(f"fewer_runs must be a dict of numbers by method, got {fewer_runs!r}")
    for name, runs in fewer_runs.items():
        if name not in methods:
            raise ValueError(f"fewer_runs: {name!r} is not among the methods {list(methods)}")
        whole_number(f"fewer_runs: {name!r}", runs, 1)


def _read_groups(groups: Any, methods: Mapping[str, Any], reference: str) -> dict[str, tuple[str, ...]]:
    """Return the groups of methods; raise if one lacks the reference or has a method that the study lacks."""
    groups = {"All methods": tuple(methods)} if groups is None else groups
    if not isinstance(groups, Mapping) or not groups:
        raise ValueError(f"groups must be a dict of lists of methods by name, got {groups!r}")
    for name, members in groups.items():
        if isinstance(members, str) or not isinstance(members, Sequence):
            raise ValueError(f"groups: {name!r} must be a list of methods, got {members!r}")
        unknown = [member for member in members if member not in methods]
        if unknown or reference not in members:
            what = f"{unknown[0]!r} is not among the methods" if unknown else f"the reference {reference!r} is missing"
            raise ValueError(f"groups: {name!r}: {what} {list(methods)}")
    return {name: tuple(members) for name, members in groups.items()}
