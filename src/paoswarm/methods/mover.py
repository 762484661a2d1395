"""How a method is moved: prepared once for a run, checked at every step.

A `Method` is a description. A `Mover` is made from it for a first swarm of some shape. Drivers know only movers, so
that a method may be moved by other code than its own.
"""

from __future__ import annotations

import math

import numpy as np

from paoswarm.core.arrays import Array
from paoswarm.core.attractors import RandomSource
from paoswarm.core.swarm import Proposal, Swarm, read_only
from paoswarm.methods import pao_step, tolerance
from paoswarm.methods.method import Method

_SMALL = 4096  # elements of a swarm
_MAKE_IT = "make the swarm with state.renewed, joined_by or reduced_to"


def mover_of(method: Method, shape: tuple[int, ...]) -> Mover:
    """What moves a run by a method, whose first swarm has the shape ``(*batch, n)``."""
    mover: Mover = (method.mover or Mover)(method, shape)
    return mover


class Mover:
    """A method made ready to move a run that begins with a swarm of shape ``(*batch, n)``.

    Attributes
    ----------
    method : Method
    decides_its_end : bool
        Whether the method has its own rule for when a run has converged.
    keeps_bests : bool
        Whether every evaluated point is recorded as usual, so that the leader of the swarm is the best point of all.
    tol : float
        The accuracy that the user wants; drivers set it, and methods over methods use it.
    """

    tol = 1e-12

    def __init__(self, method: Method, shape: tuple[int, ...]) -> None:
        method.check_swarm(shape)
        if len(shape) > 1 and not method.takes_batches:
            raise ValueError(
                f"{method!r} moves one run at a time. Use minimize_many, or one Optimizer per run. If it can move a "
                "batch, set takes_batches = True"
            )
        self.method = method
        self.has_converged = method.has_converged
        self.decides_its_end = type(method).has_converged is not Method.has_converged
        self.keeps_bests = type(method).tell is Method.tell
        self._is_tolerant = not method.applies_tolerance
        self._applies_walls = method.applies_walls
        self._step = method.prepare()
        self._may_underflow = not isinstance(self._step, pao_step.PAOStep)  # which sees to it itself

    def begin(self, state: Swarm) -> Swarm:
        """The first swarm with the memory that the method needs."""
        if self._is_tolerant:
            return self._swarm(tolerance.begin(self.method.begin, state), "begin", state)
        return self._swarm(self.method.begin(state), "begin", state)

    def ask(self, state: Swarm, draw: RandomSource, progress: float) -> Proposal:
        """The points to evaluate next, walls applied; an error if the method returned nonsense."""
        if state.tolerance is not None and self._is_tolerant:
            state = tolerance.eased(state)
        if not self._applies_walls:
            state = read_only(state)
        if self._may_underflow:
            with np.errstate(under="ignore"):  # a swarm may contract as far as numbers go
                proposal = self._step(state, draw, progress)
        else:
            proposal = self._step(state, draw, progress)
        if not self._applies_walls:
            return self._checked(state, proposal)
        if _may_be_lost(proposal.position) and not np.isfinite(proposal.position).all():
            raise ValueError(
                f"{type(self.method).__name__} produced NaN or infinite positions: the swarm diverges. Use less "
                "noise, more damping, or walls='clip'"
            )
        return proposal

    def tell(self, state: Swarm, proposal: Proposal, value: Array, evaluated: Array | None = None) -> Swarm:
        """The swarm after the objective was measured at a proposal."""
        if state.tolerance is not None and self._is_tolerant:
            after = tolerance.tell(self.method.tell, state, proposal, value, evaluated)
        else:
            after = self.method.tell(state, proposal, value, evaluated)
        return after if self.keeps_bests else self._swarm(after, "tell", state)

    def _swarm(self, after: Swarm, function: str, before: Swarm) -> Swarm:
        """A swarm that a user's function made; an error if it is none."""
        name = f"{type(self.method).__name__}.{function}"
        if not isinstance(after, Swarm):
            raise TypeError(f"{name} must return a Swarm, got {after!r}")
        particles = after.position.shape[:-1]
        if particles[-1] == 0 or not after.value.shape == after.best_value.shape == after.age.shape == particles:
            raise ValueError(
                f"{name} returned a swarm with no particles, or with different numbers of points and values; {_MAKE_IT}"
            )
        if (after.repeats is None) != (before.repeats is None):
            raise ValueError(f"{name} dropped state.repeats; {_MAKE_IT}")
        return after

    def _checked(self, state: Swarm, proposal: Proposal) -> Proposal:
        """What a user's method proposes, brought inside the bounds."""
        name = type(self.method).__name__
        if not isinstance(proposal, Proposal):
            raise TypeError(f"{name}.ask must return a Proposal(position, velocity), got {proposal!r}")
        position, velocity = (np.asarray(part, dtype=float) for part in proposal[:2])
        shape = state.position.shape
        if not self.keeps_bests and position.ndim == len(shape):  # any number of points
            if position.shape[-2] == 0:
                raise ValueError(f"{name}.ask must return at least one point, got none")
            shape = (*shape[:-2], position.shape[-2], shape[-1])
        for part, array in (("position", position), ("velocity", velocity)):
            if array.shape != shape:
                hint = "" if not self.keeps_bests else "; for another number of points it needs its own tell"
                raise ValueError(f"{name}.ask returned a {part} of shape {array.shape}, not {shape}{hint}")
            if not np.isfinite(array).all():
                raise ValueError(f"{name}.ask returned a {part} with NaN or infinite numbers")
        wall = state.wall(self.method.wall)
        position, velocity = wall.apply(position, velocity, state.lower[:1], state.upper[:1])
        return proposal._replace(position=position, velocity=velocity)


def _may_be_lost(position: Array) -> bool:
    """Whether a position may be NaN or infinite: a finite sum is the fastest proof that none is.

    Small swarms take the sum of squares, which is one call. For large ones BLAS would start threads.
    """
    if type(position) is not np.ndarray:
        return False
    return not math.isfinite(np.vdot(position, position) if position.size < _SMALL else position.sum())
