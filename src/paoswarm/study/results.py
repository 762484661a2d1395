"""The results of a study: the error of each run against evaluations, for every problem, dimension and method.

Statistics, figures and the report use these results only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from paoswarm.problems import split_name

Floats = NDArray[np.float64]
Task = tuple[str, int]  # problem and dimension


class Key(NamedTuple):
    """One cell of a study."""

    problem: str
    dim: int
    method: str


class CellRuns(NamedTuple):
    """The runs of a cell: the best value so far of each run against evaluations."""

    evaluations: NDArray[np.int64]  # (g,)
    best: Floats  # (runs, g)
    minimum: Floats  # (runs,) known minimum of the problem of each run


class Trace(NamedTuple):
    """The error of the runs of one cell against evaluations."""

    evaluations: NDArray[np.int64]  # (g,) evaluations so far
    error: Floats  # (runs, g) best value so far minus the known minimum; inf until the first finite value

    @property
    def final(self) -> Floats:
        """The final error of each run, ``(runs,)``."""
        return self.error[:, -1]


@dataclass(frozen=True)
class Results:
    """The finished cells of a study.

    Attributes
    ----------
    title : str
    reference : str
        The method that the others are compared with; one of ``methods``.
    problems, dims, methods : tuples
        In the order of the study. Every combination is in ``traces``.
    groups : mapping of str to tuple of str
        Sets of methods that are compared with each other. Each contains the reference.
    titles : mapping of str to str
        Readable names of the problems.
    descriptions : mapping of str to str
        Each method with its hyperparameters, in one line.
    facts : mapping of str to str
        Further settings for the reader: runs, population, seed, versions.
    traces : mapping of Key to Trace
    precision : float
        No error is below it; one that equals it means that the run has solved the problem.
    """

    title: str
    reference: str
    problems: tuple[str, ...]
    dims: tuple[int, ...]
    methods: tuple[str, ...]
    groups: Mapping[str, tuple[str, ...]]
    titles: Mapping[str, str]
    descriptions: Mapping[str, str]
    traces: Mapping[Key, Trace]
    facts: Mapping[str, str] = field(default_factory=dict)
    precision: float = 0.0

    def trace(self, problem: str, dim: int, method: str) -> Trace:
        """Return the runs of one cell."""
        key = Key(self._name(problem), dim, method)
        if key not in self.traces:
            raise ValueError(
                f"no runs of {method!r} on {problem!r} in {dim} dimensions; choose from the methods "
                f"{', '.join(self.methods)}, the problems {', '.join(self.problems)} and the dimensions {self.dims}"
            )
        return self.traces[key]

    def _name(self, problem: str) -> str:
        """Return the full name of a problem, with the seeds that may be left out."""
        base, changes = split_name(problem)
        return problem if problem in self.problems else "-".join([base, *(f"{how}{seed}" for how, seed in changes)])

    def final(self, problem: str, dim: int, method: str) -> Floats:
        """Return the final errors of one cell, ``(runs,)``."""
        return self.trace(problem, dim, method).final

    def tasks(self, dims: Sequence[int] | None = None) -> Iterator[Task]:
        """Iterate over every problem in every dimension."""
        for dim in self.dims if dims is None else dims:
            for problem in self.problems:
                yield problem, dim
