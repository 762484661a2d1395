"""How many particles a run begins with, and for how many workers its method is."""

from __future__ import annotations

from typing import Any

import numpy as np

from paoswarm._text import warn_user
from paoswarm.algorithms.method import Method
from paoswarm.evaluation.executors import count_workers
from paoswarm.optimize.stopping import Limits
from paoswarm.storage.store import Store

_ENOUGH = 100  # generations of a search: with 64 particles, Rosenbrock's function takes 70 (d = 5) to 190 (d = 10)
_FEW = 5  # generations; with fewer the search is hardly better than its first swarm


def choose_size(method: Method, n_unknowns: int, maxfev: int | None, maxiter: int | None, x0: Any, f0: Any) -> int:
    """The number of particles if the user gives none: what the method says, and room for all of ``x0``."""
    n_given = 0 if x0 is None or f0 is not None else len(np.atleast_2d(np.asarray(x0, dtype=object)))
    return max(n_given, method.default_particles(n_unknowns, maxfev, maxiter))


def read_size(
    n_particles: Any, method: Method, n_unknowns: int, limits: Limits, x0: Any, f0: Any, store: Store | None
) -> Any:
    """What the user gives; else what the store has recorded, since limits may change; else a choice."""
    if n_particles is not None:
        return n_particles
    recorded = None if store is None else store.recorded("n_particles")
    return recorded or choose_size(method, n_unknowns, limits.maxfev, limits.maxiter, x0, f0)


def for_workers(method: Method, workers: Any, maxfev: int | None, store: Store | None) -> Method:
    """The method for as many points at once as the store has recorded, or else as there are workers.

    But a search needs generations: at least a hundred must fit into ``maxfev``.
    """
    recorded = None if store is None else store.recorded("method")
    settings = recorded.get("with") if isinstance(recorded, dict) else None
    count = settings.get("parallel") if isinstance(settings, dict) else None
    if not isinstance(count, int):
        count = count_workers(workers)
        count = count if maxfev is None else min(count, max(1, maxfev // _ENOUGH))
    return method.for_workers(count)


def warn_if_few_generations(maxfev: int | None, n_to_start: int, n_each: int) -> None:
    """Warn if the budget pays for a first swarm and fewer than five generations."""
    if maxfev is not None and n_to_start and maxfev < n_to_start + _FEW * n_each:
        generations = (maxfev - n_to_start) / n_each
        warn_user(
            f"maxfev={maxfev} leaves {generations:.2g} generations of {n_each} evaluations after the first swarm: "
            "lower n_particles, or leave it out, then it is chosen from maxfev"
        )
