"""What every method has in common, PAO and the comparators alike: ask for points, tell their values.

A method of your own is a class with one function; the drivers do the rest:

>>> import paoswarm as ps
>>> class RandomSearch(ps.Method):
...     def ask(self, state, draw, progress=0.0):
...         box = state.upper - state.lower
...         return ps.Proposal(state.lower + box * draw.uniform(*box.shape), state.velocity)
>>> ps.minimize(lambda x: (x**2).sum(), [(-5, 5)] * 2, method=RandomSearch(), maxiter=20, rng=1).nfev
2100

- ``state`` is a `Swarm`. ``draw.uniform(n, d)`` and ``draw.normal(n, d)`` are the source of chance: a run that uses
  them depends on its seed alone.
- A method is a description that all runs share, so it must not change. What a run has to remember is made by
  ``begin``, renewed by ``tell`` and kept in ``state.memory``.
- The best point of a run belongs to the driver: a method may forget it without losing it. (With ``reevaluate`` it is
  the best of the points that the swarm has remembered, since single measurements are not trusted.)
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import is_dataclass, replace
from typing import Any, ClassVar, NamedTuple, TypeVar, cast

import numpy as np

from paoswarm._checks import whole_number
from paoswarm.core import swarm
from paoswarm.core.arrays import Array, Floats
from paoswarm.core.attractors import RandomSource
from paoswarm.core.swarm import Proposal, Swarm
from paoswarm.core.walls import WALLS, Wall
from paoswarm.methods.agreement import Agreement, Search
from paoswarm.methods.schedules import Adaptive, Hyperparameter

MOST_PARTICLES, FEWEST_PARTICLES = 100, 6  # in a swarm whose size the user does not choose
_TRIED = 21  # values of progress at which a schedule is looked at


class Standing(NamedTuple):
    """Where one search of several stands."""

    lowest: float  # the best value that its swarm holds
    apart: float  # how far the values of the swarm are apart
    centre: Floats  # of the swarm, in widths of the bounds
    reach: float  # how far it reaches from there, likewise
    is_over: bool
    has_arrived: bool = True  # if not, its end says nothing about minima


class Report(NamedTuple):
    """What a run tells about its searches; a method that does not start again has none."""

    method: Method  # of the search that has found the best point
    swarm: Swarm  # of that search
    searches: tuple[Search, ...] = ()  # that have ended, in order
    agreement: Agreement | None = None  # among them


class Method(ABC):
    """Description of a population that is moved by ``ask`` and remembers by ``tell``.

    Only ``ask`` must be written. ``standing`` is for methods that are searches of `AdaptivePAO`, `Restarts` and
    `Portfolio`, ``report`` for methods that consist of searches; you need neither.

    Attributes
    ----------
    walls : {"clip", "reflect", "periodic", "none"}
        What happens to a particle that leaves the bounds.
    smallest_swarm : int
        The least number of particles.
    takes_batches : bool
        Whether the method can move several runs at once, on a leading axis of all arrays. Otherwise `minimize_many`
        and studies move each run by itself. A method that takes batches must not change the size of its swarm.
    moves_singly : bool
        Whether ``tell`` may be called for one particle at a time, as in asynchronous runs. Otherwise these wait for
        whole generations.
    applies_walls : bool
        Whether ``ask`` applies the walls itself. Otherwise this is done for it.
    joined : callable or None
        ``joined(state, latest, came, value) -> (proposal, value)``, if ``tell`` may take as a generation whatever is
        back: ``came`` are proposals and rows of them, some of earlier proposals than the ``latest``. Otherwise
        asynchronous runs wait for whole generations, unless the method ``moves_singly``.
    step_law : callable or None
        ``step_law(state, progress, rng) -> StepLaw``, if the density of the next step is known in closed form.

    A class says itself whether it ``takes_batches``, ``moves_singly`` and ``applies_walls``; these are not inherited.
    A dataclass with a field ``parallel`` that is None gets the number of points that are evaluated at once there.
    """

    walls: str = "clip"
    smallest_swarm: Any = 2
    takes_batches: Any = False
    moves_singly: ClassVar[bool] = False
    applies_walls: ClassVar[bool] = False
    applies_tolerance: ClassVar[bool] = False  # of constraints, and its ``tell`` is told the accuracy ``tol`` as well
    takes_noise: ClassVar[bool] = True  # else no search of it begins once the objective turns out to be noisy
    joined: Any = None
    step_law: Any = None

    def __init_subclass__(cls, **others: Any) -> None:
        super().__init_subclass__(**others)
        for flag in ("takes_batches", "moves_singly", "applies_walls"):
            setattr(cls, flag, cls.__dict__.get(flag, False))

    def check_swarm(self, shape: tuple[int, ...]) -> None:
        """Raise if the method cannot move a swarm of shape ``(*batch, n)``."""
        check_walls(self.walls)
        if shape[-1] < self.smallest_swarm:
            raise ValueError(f"{type(self).__name__} needs n_particles >= {self.smallest_swarm}, got {shape[-1]}")

    def default_particles(self, n_unknowns: int, maxfev: int | None = None, maxiter: int | None = None) -> int:
        """How many particles a run has if the user does not say: 100, or fewer for a small budget.

        With ``maxfev`` it is 0.65 times its square root, from 6 to 100: a small budget is better spent on generations
        than on particles (measured for `PAO` in 2 to 20 dimensions; the dimension hardly mattered). But there are
        enough for ``maxiter`` generations to use the budget.
        """
        if maxfev is None:
            return MOST_PARTICLES
        wanted = round(0.65 * math.sqrt(maxfev))
        if maxiter is not None:
            wanted = max(wanted, math.ceil(maxfev / (maxiter + 1)))
        return min(MOST_PARTICLES, max(wanted, FEWEST_PARTICLES, self.smallest_swarm))

    def default_limits(self, n_unknowns: int) -> tuple[int | None, int | None]:
        """Generations and evaluations after which a run ends if the user gives no limit."""
        return 100, None

    def begin(self, state: Swarm) -> Swarm:
        """The first swarm with the memory that this method needs; most need none."""
        return state

    @abstractmethod
    def ask(self, state: Swarm, draw: RandomSource, progress: float = 0.0) -> Proposal:
        """Return the points to evaluate next; ``progress`` of the run is in [0, 1].

        If it is not one point for each particle, ``tell`` must be your own too; it makes the next swarm with
        ``state.renewed``, ``state.joined_by`` or ``state.reduced_to``.
        """

    def tell(self, state: Swarm, proposal: Proposal, value: Array, evaluated: Array | None = None) -> Swarm:
        """Return the swarm after the objective was measured at a proposal.

        ``value`` (..., m) is NaN where a point failed; do not write to it. ``evaluated`` (..., m) is false for points
        that the budget did not pay for; None if all were evaluated.
        """
        return swarm.record(state, proposal, value, evaluated)

    def has_converged(self, state: Swarm, spread: Array, tol: float) -> Array:
        """Whether each run is done: by default, if the ``spread`` of its swarm is below ``tol``.

        Drivers add rules about values and patience if a method does not replace this function, see `minimize`.
        A method that starts again when its swarm has converged returns False, or true when it will not do so again.
        """
        return spread < tol

    def tolerant_for(self, n_unknowns: int, n_particles: int) -> float:
        """Evaluations in which the tolerance for violated constraints shrinks to zero: 80 generations."""
        return 80.0 * n_particles

    def standing(self, state: Swarm, tol: float) -> Standing:
        """Where the search with this swarm stands among others."""
        values = state.best_value
        lowest, reach = float(values.min()), swarm.spread(state, self.wall.unroll)
        apart = float(values.max()) - lowest if math.isfinite(lowest) else math.inf
        centre = (state.global_best[0] - state.lower[0]) / (state.upper[0] - state.lower[0])
        return Standing(lowest, apart, centre, float(reach), bool(self.has_converged(state, reach, tol)))

    def report(self, state: Swarm) -> Report:
        """The searches of a run, if it consists of searches."""
        return Report(self, state)

    def suspects_noise(self, state: Swarm) -> bool:
        """Whether the best point should be measured again, because values behave as if they were noisy."""
        return False

    def checked_for_noise(self, state: Swarm, is_noisy: bool) -> Swarm:
        """The swarm after that; if the second value was another one, from now on bests are measured repeatedly."""
        if not is_noisy:
            return state
        return swarm.with_leader(state._replace(repeats=swarm.measured_once(state.best_value)))

    def answering(self, state: Swarm) -> Swarm | None:
        """With repeated measurements, the swarm whose leader is the answer; None for the best point remembered."""
        return None

    @property
    def wall(self) -> Wall:
        """The rule named by ``walls``."""
        return WALLS[self.walls]

    def unrolled(self, state: Swarm) -> Swarm:
        """Positions and bests as seen from the best point: behind periodic walls, the short way round."""
        return swarm.unrolled(state, self.wall)


M = TypeVar("M", bound=Method)


def for_workers(method: M, count: int) -> M:
    """The method for a run with so many workers: its ``parallel``, if it has one, unless it says this number itself."""
    if not is_dataclass(method) or getattr(method, "parallel", 0) is not None:
        return method
    return cast(M, replace(cast(Any, method), parallel=count))


def in_rounds(count: int, parallel: int | None) -> int:
    """The next number of points that keeps ``parallel`` workers busy to the end: a multiple of it."""
    return count if parallel is None else -(-count // parallel) * parallel


def check_method(method: object) -> None:
    """Raise unless it is a method."""
    if not isinstance(method, Method):
        raise TypeError(f"give a Method, PAO() for example, got {method!r}")


def check_parallel(parallel: Any) -> None:
    """Raise unless it is a number of points that are evaluated at once, or None."""
    if parallel is not None:
        whole_number("parallel", parallel, 1)


def check_walls(walls: Any) -> None:
    """Raise if no wall rule has this name."""
    if not isinstance(walls, str) or walls not in WALLS:
        raise ValueError(f"walls must be one of {sorted(WALLS)}, got {walls!r}")


class HyperparameterWarning(UserWarning):
    """A choice of hyperparameters that is legal but will disappoint."""


def check_hyperparameter(
    name: str,
    parameter: Hyperparameter,
    low: float = 0.0,
    high: float = math.inf,
    *,
    may_equal: bool = True,
    may_differ: bool = False,
) -> None:
    """Raise unless a number, or every value of a function of progress, is finite and in ``[low, high]``.

    ``may_equal=False`` excludes ``low`` itself. With ``may_differ`` the number may be an array, one for each particle,
    and the function one of the swarm, `Adaptive`.
    """
    kinds = "a number, an array or a function of progress" if may_differ else "a number or a function of progress"
    if isinstance(parameter, Adaptive):
        if may_differ:
            return  # its values show during the run
        raise TypeError(f"{name} must be {kinds} in [0, 1]; only PAO takes Adaptive ones")
    try:
        tried = [parameter(i / (_TRIED - 1)) for i in range(_TRIED)] if callable(parameter) else [parameter]
    except Exception as error:
        hint = "; a function of the swarm goes into ps.schedules.Adaptive(...)" if may_differ else ""
        raise TypeError(
            f"{name} as a function of progress in [0, 1] failed: {type(error).__name__}: {error}{hint}"
        ) from error
    for given in tried:
        try:
            numbers = np.asarray(None if isinstance(given, bool) else given)
        except ValueError:  # rows of different lengths
            numbers = np.asarray(None)
        if not _is_numeric(numbers, may_differ):
            raise TypeError(f"{name} must be {kinds}, got {given!r}")
        is_high_enough = numbers >= low if may_equal else numbers > low
        if not np.all(np.isfinite(numbers) & is_high_enough & (numbers <= high)):
            raise ValueError(f"{name} must {_allowed(low, high, may_equal)}, got {given!r}")


def _is_numeric(values: Any, may_differ: bool) -> bool:
    """Whether an array holds a real number, or several if these may differ between particles."""
    return values.dtype.kind in "fiu" and values.size > 0 and (may_differ or not values.ndim)


def _allowed(low: float, high: float, may_equal: bool) -> str:
    if math.isfinite(high):
        return f"lie between {low:g} and {high:g}"
    return f"be {'zero or positive' if may_equal else 'positive'} and finite"
