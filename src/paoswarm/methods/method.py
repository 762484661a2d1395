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
- Particles may leave the bounds: the rule named by ``walls`` brings them back.
- A method is a description that all runs share, so it must not change. What a run has to remember is made by
  ``begin``, renewed by ``tell`` and kept in ``state.memory``.
- ``ask`` may propose any number of points. If it is not one for each particle, ``tell`` must be your own too; it
  makes the next swarm with ``state.renewed``, ``state.joined_by`` or ``state.reduced_to``.
- ``has_converged`` decides when a run is done; a method that starts again instead returns False.
- ``default_particles`` is the size of the first swarm if the user does not give ``n_particles``.

The best point of a run belongs to the driver: a method may forget it without losing it. (With ``reevaluate`` it is the
best of the points that the swarm has remembered, since single measurements are not trusted.)
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

from paoswarm._checks import whole_number
from paoswarm.core import swarm
from paoswarm.core.arrays import Array
from paoswarm.core.attractors import RandomSource
from paoswarm.core.swarm import Proposal, Swarm
from paoswarm.core.walls import WALLS, Wall
from paoswarm.methods.agreement import Agreement, Search

MOST_PARTICLES, FEWEST_PARTICLES = 100, 6  # in a swarm whose size the user does not choose
Step = Callable[[Swarm, RandomSource, float], Proposal]  # what moves a swarm: `Method.ask`, or something faster


def in_rounds(count: int, parallel: int | None) -> int:
    """The next number of points that keeps ``parallel`` workers busy to the end: a multiple of it."""
    return count if parallel is None else -(-count // parallel) * parallel


class Method(ABC):
    """Description of a population that is moved by ``ask`` and remembers by ``tell``.

    Attributes
    ----------
    walls : {"clip", "reflect", "periodic", "none"}
        What happens to a particle that leaves the bounds.
    smallest_swarm : int
        The least number of particles.
    has_law : bool
        Whether the density of the next step is known in closed form (``step_law``).
    moves_singly : bool
        Whether ``tell`` may be called for one particle at a time, as in asynchronous runs. Otherwise these wait for
        whole generations.
    applies_walls : bool
        Whether ``ask`` applies the walls itself.
    applies_tolerance : bool
        Whether ``ask`` and ``tell`` apply the tolerance for violated constraints themselves, as methods over methods.
    takes_batches : bool
        Whether the method can move several runs at once, on a leading axis of all arrays. Otherwise `minimize_many`
        and studies move each run by itself. A method that takes batches must not change the size of its swarm.

    searches_locally : bool
        Whether local searches between generations help to solve problems with constraints.

    mover : type or None
        What moves swarms by this method, if it is not a plain `Mover`: for methods over methods.

    A subclass inherits none of the last three if it replaces the functions that they describe: ``takes_batches`` must
    always be stated anew, ``moves_singly`` with an own ``tell``, ``applies_walls`` with an own ``ask``.
    """

    mover: ClassVar[Any] = None
    walls: str = "clip"
    smallest_swarm: ClassVar[int] = 2
    has_law: ClassVar[bool] = False
    moves_singly: ClassVar[bool] = False
    applies_walls: ClassVar[bool] = False
    applies_tolerance: ClassVar[bool] = False
    takes_batches: Any = False
    searches_locally: Any = False

    def __init_subclass__(cls, **others: Any) -> None:
        super().__init_subclass__(**others)
        own = cls.__dict__
        cls.takes_batches = own.get("takes_batches", False)
        cls.moves_singly = own.get("moves_singly", cls.moves_singly and "tell" not in own)
        cls.applies_walls = own.get("applies_walls", cls.applies_walls and "ask" not in own)

    @property
    def wall(self) -> Wall:
        """The rule named by ``walls``."""
        return WALLS[self.walls]

    def check_swarm(self, shape: tuple[int, ...]) -> None:
        """Raise if the method cannot move a swarm of shape ``(*batch, n)``."""
        check_walls(self.walls)
        if shape[-1] < self.smallest_swarm:
            raise ValueError(f"{type(self).__name__} needs n_particles >= {self.smallest_swarm}, got {shape[-1]}")

    def default_particles(self, n_unknowns: int, maxfev: int | None = None, maxiter: int | None = None) -> int:
        """How many particles a run has if the user does not say: 100, or fewer for a small budget.

        With ``maxfev`` it is 0.65 times its square root, from 6 to 100: a small budget is better spent on generations
        than on particles (measured for `PAO` in 2 to 20 dimensions; the dimension hardly mattered). But there are
        enough for ``maxiter`` generations to use the budget. A method that knows better has its own function.
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

    def tolerant_for(self, n_unknowns: int, n_particles: int) -> float:
        """Evaluations in which the tolerance for violated constraints shrinks to zero: 80 generations."""
        return 80.0 * n_particles

    def outlook(self, state: Swarm) -> tuple[float, float]:
        """The best value that a swarm holds and how far its values are apart, to tell whether it is hopeless."""
        values = state.best_value
        lowest = float(values.min())
        return lowest, float(values.max()) - lowest if math.isfinite(lowest) else math.inf

    def for_workers(self, count: int) -> Method:
        """The method for a run with so many workers; most do not depend on it."""
        return self

    def whereabouts(self, state: Swarm) -> tuple[Array, float]:
        """The centre of a swarm and how far it reaches, in widths of the bounds."""
        best = (state.global_best[0] - state.lower[0]) / (state.upper[0] - state.lower[0])
        return best, float(swarm.spread(state, self.wall.unroll))

    def begin(self, state: Swarm) -> Swarm:
        """The first swarm with the memory that this method needs; most need none."""
        return state

    @abstractmethod
    def ask(self, state: Swarm, draw: RandomSource, progress: float = 0.0) -> Proposal:
        """Return the points to evaluate next; ``progress`` of the run is in [0, 1]."""

    def prepare(self) -> Step:
        """Return a function that does what `ask` does, with everything worked out that stays the same in a run."""
        return self.ask

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

    def leading(self, state: Swarm) -> tuple[Method, Swarm]:
        """The method and the swarm to which the best point of a run belongs: other ones for methods over methods."""
        return self, state

    def has_given_up(self, state: Swarm) -> bool:
        """Whether a swarm that has converged has not arrived anywhere: then its end says nothing about minima."""
        return False

    def agreement(self, state: Swarm) -> Agreement | None:
        """How the independent searches of a run agree; None for a method that does not start again."""
        return None

    def finished_searches(self, state: Swarm) -> tuple[Search, ...]:
        """The searches of a run that have ended; empty for a method that does not start again."""
        return ()

    def unrolled(self, state: Swarm) -> Swarm:
        """Positions and bests as seen from the best point: behind periodic walls, the short way round."""
        return swarm.unrolled(state, self.wall)


def check_parallel(parallel: Any) -> None:
    """Raise unless it is a number of points that are evaluated at once, or None."""
    if parallel is not None:
        whole_number("parallel", parallel, 1)


def check_walls(walls: Any) -> None:
    """Raise if no wall rule has this name."""
    if not isinstance(walls, str) or walls not in WALLS:
        raise ValueError(f"walls must be one of {sorted(WALLS)}, got {walls!r}")
