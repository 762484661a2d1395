"""What a compiled engine runs: a swarm and its limits as numbers and names.

A `Program` is made once from a method, a box and limits. An engine reads the names when it compiles, and the numbers
when it runs. What cannot be written as a program is refused here, with the name of the engine that has it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from paoswarm.core import attractors, noise
from paoswarm.core.arrays import Floats
from paoswarm.methods import schedules
from paoswarm.methods.method import Method
from paoswarm.methods.pao import PAO
from paoswarm.methods.pao_step import coefficients

# What a run has come to, in the order in which reasons count; the numbers are those of `Status` and `Rule`.
RUNNING, TARGET, CONVERGED = range(3)
FAILED = -4
BY_SPREAD, BY_VALUES, BY_PATIENCE = 1, 2, 3

_PULLS = {
    attractors.local_best: "local_best",
    attractors.global_best: "global_best",
    attractors.average_local_best: "average_local_best",
    attractors.average_particle: "average_particle",
    attractors.weighted_average_particle: "weighted_average_particle",
}
_NO_LIMIT = 2**60  # evaluations
_SCALES = {noise.spread: "spread", noise.mean_to_best: "mean_to_best", noise.covariance: "covariance"}


class NotCompiled(ValueError):
    """Something that a compiled engine does not have; engine='numpy' has it."""


class Pull(NamedTuple):
    """An attractor by its name; of ``neighbourhood_best`` with the neighbours ``(n, m)`` of every particle."""

    name: str
    neighbours: NDArray[np.int64] | None = None


class Rules(NamedTuple):
    """What ends a run before its budget does, as in `paoswarm.run.stopping`.

    With ``tol`` zero nothing counts as converged.
    """

    target: float  # -inf if there is none
    tol: float
    patience: int  # generations without a better point, after which a run has converged
    near: float  # widths of the bounds, within which equal values mean that a swarm has converged
    same: float  # relative difference of values that are equal but for rounding

    @property
    def may_end(self) -> bool:
        """Whether a run can end before its budget does."""
        return self.tol > 0 or self.target > -np.inf


class Program(NamedTuple):
    """A swarm of ``n_particles`` in a box, and when it ends.

    Attributes
    ----------
    method : PAO
        The swarm as it was given, for engines that can call its functions.
    n_particles : int
    lower, upper : arrays (d,)
    pulls : tuple of Pull
    noise_scale : {"spread", "mean_to_best", "covariance"}
    walls : {"clip", "reflect", "periodic", "none"}
    coefficients : array (generations or 1, n or 1, r + 7)
        For each step: the weights of the r attractors, then a11, a12, a21, a22, h11, h21, h22 of equation (12).
    evaluations : int
        The budget of a run, the first swarm included. The last generation moves only as many particles as it allows.
    rules : Rules
    """

    method: PAO
    n_particles: int
    lower: Floats
    upper: Floats
    pulls: tuple[Pull, ...]
    noise_scale: str
    walls: str
    coefficients: Floats
    evaluations: int
    rules: Rules

    @property
    def n_dimensions(self) -> int:
        """Number of unknowns."""
        return len(self.lower)

    @property
    def generations(self) -> int:
        """Generations after the first swarm, the last of which may be incomplete."""
        return -(-(self.evaluations - self.n_particles) // self.n_particles)

    @property
    def is_usual(self) -> bool:
        """Whether the swarm is pulled and shaken as by default, for which engines have their fastest code."""
        names = [pull.name for pull in self.pulls]
        return names == ["local_best", "global_best"] and self.noise_scale == "spread" and self.walls == "clip"

    def n_moved(self, generation: int) -> int:
        """How many particles are moved in a generation, counted from one."""
        return min(self.n_particles, self.evaluations - generation * self.n_particles)

    def coefficients_of(self, generation: int) -> Floats:
        """The coefficients ``(n or 1, r + 7)`` of the step that leads to a generation, counted from one."""
        row: Floats = self.coefficients[min(generation, len(self.coefficients)) - 1]
        return row


def read_program(
    method: Method,
    n: int,
    lower: Floats,
    upper: Floats,
    rules: Rules,
    maxiter: int | None = None,
    maxfev: int | None = None,
) -> Program:
    """Turn a method into a program; an error that says why if it cannot be one."""
    if type(method) is not PAO:
        raise NotCompiled(
            f"compiled engines move PAO swarms; {type(method).__name__} needs engine='numpy' (or give method=ps.PAO())"
        )
    method.check_swarm((n,))
    by_generations = _NO_LIMIT if maxiter is None else n * (maxiter + 1)
    evaluations = min(by_generations, _NO_LIMIT if maxfev is None else maxfev)
    return Program(
        method=method,
        n_particles=n,
        lower=lower,
        upper=upper,
        pulls=tuple(_pull(one, n) for one in method.attractors),
        noise_scale=_named(_SCALES, method.noise_scale, "noise scale"),
        walls=method.walls,
        coefficients=_table(method, n, evaluations, maxiter, maxfev),
        evaluations=evaluations,
        rules=rules,
    )


def _pull(attractor: Any, n: int) -> Pull:
    if isinstance(attractor, attractors.NeighbourhoodBest) and attractor.topology != "random":
        is_ring = attractor.topology == "ring"
        return Pull("neighbourhood_best", attractors.ring(n, attractor.size) if is_ring else attractors.von_neumann(n))
    return Pull(_named(_PULLS, attractor, "attractor"))


def _named(names: dict[Any, str], function: Any, what: str) -> str:
    try:
        return names[function]
    except (KeyError, TypeError):
        name = getattr(function, "__name__", repr(function))
        raise NotCompiled(f"compiled engines do not have the {what} {name}; engine='numpy' has it") from None


def _table(method: PAO, n: int, evaluations: int, maxiter: int | None, maxfev: int | None) -> Floats:
    """The coefficients of every step, ``(generations or 1, n or 1, r + 7)``; one if they stay the same."""
    hyperparameters = method.hyperparameters
    if any(isinstance(h, schedules.Adaptive) for h in hyperparameters):
        raise NotCompiled("compiled engines do not have hyperparameters that follow the swarm; engine='numpy' has them")
    if all(map(schedules.is_constant, hyperparameters)) or (maxiter is None and maxfev is None):
        return _rows(hyperparameters, 0.0)[None]
    steps = np.arange(max(-(-(evaluations - n) // n), 1))  # each sees the progress before it
    progress = np.maximum(steps / maxiter if maxiter else 0.0, (steps + 1) * n / maxfev if maxfev else 0.0)
    return np.stack([_rows(hyperparameters, float(share)) for share in np.minimum(progress, 1.0)])


def _rows(hyperparameters: tuple[Any, ...], progress: float) -> Floats:
    weights, *entries = coefficients(*(schedules.evaluate(h, progress, None) for h in hyperparameters))
    columns = [np.atleast_1d(np.squeeze(part)) for part in (*weights, *entries)]
    return np.stack(np.broadcast_arrays(*columns), axis=-1)


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
