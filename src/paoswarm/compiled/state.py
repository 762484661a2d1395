"""Where many runs stand between two calls of a compiled engine."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from paoswarm.compiled.program import RUNNING, Program


class State(NamedTuple):
    """All swarms of a program, with the runs on the first axis. An engine may hold the arrays on its device.

    Attributes
    ----------
    x, v, best : arrays (runs, n, d)
        Positions, velocities and the best points of the particles.
    value, best_value, age : arrays (runs, n)
        As in `Swarm`; of a failed point NaN.
    leader_value : array (runs,)
        The best value of each run.
    stale, nit, nfev, n_failed : arrays of int (runs,)
        Generations without a better point, generations, evaluations, failed ones.
    status, rule : arrays of int (runs,)
        What has ended a run; zero while it goes on.
    """

    x: Any
    v: Any
    best: Any
    value: Any
    best_value: Any
    age: Any
    leader_value: Any
    stale: Any
    nit: Any
    nfev: Any
    n_failed: Any
    status: Any
    rule: Any

    @property
    def is_over(self) -> bool:
        """Whether all runs have ended."""
        return bool((np.asarray(self.status) != RUNNING).all())


def empty_state(program: Program, runs: int, dtype: Any) -> State:
    """Arrays for a number of runs, before their first points are chosen."""
    n, d = program.n_particles, program.n_dimensions
    points = [np.zeros((runs, n, d), dtype=dtype) for _ in range(3)]
    values = [np.full((runs, n), np.inf, dtype=dtype) for _ in range(2)]
    counts = [np.zeros(runs, dtype=np.int64) for _ in range(6)]
    age, leader_value = np.zeros((runs, n), dtype=dtype), np.full(runs, np.inf, dtype=dtype)
    return State._make([*points, *values, age, leader_value, *counts])
