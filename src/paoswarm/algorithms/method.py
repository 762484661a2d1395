"""What every method has in common, PAO and the comparators alike: ask for points, tell their values.

A method of your own is a class with one function; the drivers do the rest:

>>> import paoswarm as ps
>>> class RandomSearch(ps.Method):
...     def ask(self, state, draw, progress=0.0):
...         box = state.upper - state.lower
...         return ps.Proposal(state.lower + box * draw.uniform(*box.shape), state.velocity)
>>> ps.minimize(lambda x: (x**2).sum(), [(-5, 5)] * 2, method=RandomSearch(), rng=1).nfev
10100

``state`` is a `Swarm`. ``draw.uniform(n, d)`` and ``draw.normal(n, d)`` are the source of chance: with them a run
depends on its seed alone, and is the same in a batch. Particles may leave the box: what ``walls`` says is done with
them. A method is shared by all runs, so it must not change: what a run has to remember is made by ``begin``, renewed
by ``tell`` and kept in ``state.memory``, a NamedTuple of arrays.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np

from paoswarm.algorithms.schedules import Adaptive, Hyperparameter
from paoswarm.core import bounds, swarm
from paoswarm.core.arrays import Array
from paoswarm.core.attractors import RandomSource
from paoswarm.core.swarm import Proposal, Swarm

_SMALL = 4096  # elements of a swarm


class Method(ABC):
    """A population that is moved by ``ask`` and remembers by ``tell``.

    Attributes
    ----------
    walls : {"clip", "reflect", "periodic", "none"}
        What happens to a particle that leaves the box.
    smallest_swarm : int
        How many particles it needs at least.
    has_law : bool
        Whether the density of its next step is known in closed form (``step_law``), and so the law of the optimum.
    moves_singly : bool
        Whether ``tell`` may be called for one particle at a time, as in asynchronous runs.
    applies_walls : bool
        Whether ``ask`` applies the walls itself; otherwise it is done for it.
    takes_batches : bool
        Whether it can move several runs at once, on a leading axis of all arrays; otherwise `minimize_many` and studies
        call it for each run alone. Every class says so for itself: it is not inherited.
    """

    walls: str = "clip"
    smallest_swarm: ClassVar[int] = 2
    has_law: ClassVar[bool] = False
    moves_singly: ClassVar[bool] = True
    applies_walls: ClassVar[bool] = False
    takes_batches: Any = False

    def __init_subclass__(cls, **others: Any) -> None:
        super().__init_subclass__(**others)
        cls.takes_batches = cls.__dict__.get("takes_batches", False)

    @property
    def wall(self) -> bounds.Wall:
        """The rule behind ``walls``."""
        return bounds.WALLS[self.walls]

    def check_swarm(self, shape: tuple[int, ...]) -> None:
        """Raise where the method cannot move a swarm of shape ``(*batch, n)``."""
        check_walls(self.walls)
        if shape[-1] < self.smallest_swarm:
            raise ValueError(f"{type(self).__name__} needs n_particles >= {self.smallest_swarm}, got {shape[-1]}")

    def begin(self, state: Swarm) -> Swarm:
        """A swarm that this method can move: with the memory it needs, which most methods do not."""
        return state

    @abstractmethod
    def ask(self, state: Swarm, draw: RandomSource, progress: float = 0.0) -> Proposal:
        """Where the particles want to go next; ``progress`` of the run in [0, 1]."""

    def propose(self, state: Swarm, draw: RandomSource, progress: float = 0.0) -> Proposal:
        """`ask`, with the walls applied where it has not done so; an error where it returned nonsense."""
        name = type(self).__name__
        if self.applies_walls:
            proposal = self.ask(state, draw, progress)
            if _may_be_lost(proposal.position) and not np.isfinite(proposal.position).all():
                raise ValueError(
                    f"{name} has led the swarm to positions that are NaN or infinite: with these hyperparameters it "
                    "does not contract, and no wall has held it, or they are too large for floating-point numbers"
                )
            return proposal
        proposal = self.ask(swarm.read_only(state), draw, progress)
        if not isinstance(proposal, Proposal):
            raise TypeError(f"{name}.ask must return a Proposal(position, velocity), got {proposal!r}")
        parts = {}
        for part in ("position", "velocity"):
            array = np.asarray(getattr(proposal, part), dtype=float)
            if array.shape != state.position.shape:
                raise ValueError(f"{name}.ask returned a {part} of shape {array.shape}, not {state.position.shape}")
            if not np.isfinite(array).all():
                raise ValueError(f"{name}.ask returned a {part} with NaN or infinite numbers")
            parts[part] = array
        position, velocity = self.wall.apply(parts["position"], parts["velocity"], state.lower, state.upper)
        return proposal._replace(position=position, velocity=velocity)

    def tell(self, state: Swarm, proposal: Proposal, value: Array, evaluated: Array | None = None) -> Swarm:
        """The swarm after the objective was measured at a proposal."""
        return swarm.record(state, proposal, value, evaluated)

    def unrolled(self, state: Swarm) -> Swarm:
        """Positions and bests as seen from the best point: behind periodic walls the short way round."""
        unroll = self.wall.unroll
        if unroll is None:
            return state
        box = state.global_best, state.lower, state.upper
        near, bests = (unroll(x, *box) for x in (state.position, state.best_position))
        return state._replace(position=near, best_position=bests)


def _may_be_lost(position: Array) -> bool:
    """Whether a position may be NaN or infinite: a sum is the fastest way to see that none is.

    Of a small swarm, that of the squares; for large ones BLAS would start threads, which wait for each other.
    """
    if type(position) is not np.ndarray:
        return False
    return not math.isfinite(np.vdot(position, position) if position.size < _SMALL else position.sum())


def check_walls(walls: Any) -> None:
    """Raise for the name of a wall rule that does not exist."""
    if not isinstance(walls, str) or walls not in bounds.WALLS:
        raise ValueError(f"walls must be one of {sorted(bounds.WALLS)}, got {walls!r}")


def check_parameter(name: str, parameter: Hyperparameter, low: float, high: float) -> None:
    """Raise where a number, or a function of progress, leaves ``[low, high]``."""
    if isinstance(parameter, Adaptive):
        raise TypeError(f"{name} must be a number or a function of progress in [0, 1]; only PAO takes Adaptive ones")
    try:
        tried = [parameter(step / 20) for step in range(21)] if callable(parameter) else [parameter]
    except Exception as error:
        raise TypeError(
            f"{name} as a function of progress in [0, 1] failed: {type(error).__name__}: {error}"
        ) from error
    for given in tried:
        number = np.asarray(given) if not isinstance(given, bool) else np.asarray(None)
        if number.dtype.kind not in "fiu" or number.ndim:
            raise TypeError(f"{name} must be a number or a function of progress in [0, 1], got {given!r}")
        if not (low <= number <= high and np.isfinite(number)):
            allowed = f"lie between {low:g} and {high:g}" if np.isfinite(high) else f"be finite and not below {low:g}"
            raise ValueError(f"{name} must {allowed}, got {given!r}")
