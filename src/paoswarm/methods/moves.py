"""How a method is moved: what it returns is checked, and walls and tolerance are applied for it.

Drivers, and methods over methods, call these functions instead of the method's own.
"""

from __future__ import annotations

import math

import numpy as np

from paoswarm.core.arrays import Array
from paoswarm.core.attractors import RandomSource
from paoswarm.core.swarm import Proposal, Swarm, read_only
from paoswarm.methods import tolerance
from paoswarm.methods.method import Method

_SMALL = 4096  # elements of a swarm
_MAKE_IT = "make the swarm with state.renewed, joined_by or reduced_to"


def keeps_bests(method: Method) -> bool:
    """Whether every point is recorded as usual, so that the leader of the swarm is the best point of all."""
    return type(method).tell is Method.tell


def decides_its_end(method: Method) -> bool:
    """Whether the method has its own rule for when a run has converged."""
    return type(method).has_converged is not Method.has_converged


def check(method: Method, shape: tuple[int, ...]) -> None:
    """Raise if the method cannot move a run that begins with a swarm of shape ``(*batch, n)``."""
    method.check_swarm(shape)
    if len(shape) > 1 and not method.takes_batches:
        raise ValueError(
            f"{method!r} moves one run at a time. Use minimize_many, or one Optimizer per run. If it can move a "
            "batch, set takes_batches = True"
        )


def begin(method: Method, state: Swarm) -> Swarm:
    """The first swarm with the memory that the method needs."""
    begun = method.begin(state) if method.applies_tolerance else tolerance.begin(method.begin, state)
    return _checked_swarm(begun, method, "begin", state)


def ask(method: Method, state: Swarm, draw: RandomSource, progress: float) -> Proposal:
    """The points to evaluate next, walls applied; an error if the method returned nonsense."""
    if state.tolerance is not None and not method.applies_tolerance:
        state = tolerance.eased(state)
    if not method.applies_walls:
        state = read_only(state)
    with np.errstate(under="ignore"):  # underflow is expected: a swarm contracts to a point
        proposal = method.ask(state, draw, progress)
    if not method.applies_walls:
        return _checked(proposal, method, state)
    if _may_be_lost(proposal.position) and not np.isfinite(proposal.position).all():
        raise ValueError(
            f"{type(method).__name__} produced NaN or infinite positions: the swarm diverges. Use less noise, more "
            "damping, or walls='clip'"
        )
    return proposal


def tell(method: Method, state: Swarm, proposal: Proposal, value: Array, evaluated: Array | None = None) -> Swarm:
    """The swarm after the objective was measured at a proposal."""
    if state.tolerance is None or method.applies_tolerance:
        after = method.tell(state, proposal, value, evaluated)
    else:
        after = tolerance.tell(method.tell, state, proposal, value, evaluated)
    return after if keeps_bests(method) else _checked_swarm(after, method, "tell", state)


def _checked_swarm(after: Swarm, method: Method, function: str, before: Swarm) -> Swarm:
    """A swarm that a user's function made; an error if it is none."""
    name = f"{type(method).__name__}.{function}"
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


def _checked(proposal: Proposal, method: Method, state: Swarm) -> Proposal:
    """What a user's method proposes, brought inside the bounds."""
    name, is_fixed = type(method).__name__, keeps_bests(method)
    if not isinstance(proposal, Proposal):
        raise TypeError(f"{name}.ask must return a Proposal(position, velocity), got {proposal!r}")
    position, velocity = (np.asarray(part, dtype=float) for part in proposal[:2])
    shape = state.position.shape
    if not is_fixed and position.ndim == len(shape):  # any number of points
        if position.shape[-2] == 0:
            raise ValueError(f"{name}.ask must return at least one point, got none")
        shape = (*shape[:-2], position.shape[-2], shape[-1])
    for part, array in (("position", position), ("velocity", velocity)):
        if array.shape != shape:
            hint = "; for another number of points it needs its own tell" if is_fixed else ""
            raise ValueError(f"{name}.ask returned a {part} of shape {array.shape}, not {shape}{hint}")
        if not np.isfinite(array).all():
            raise ValueError(f"{name}.ask returned a {part} with NaN or infinite numbers")
    wall = state.wall(method.wall)
    position, velocity = wall.apply(position, velocity, state.lower[:1], state.upper[:1])
    return proposal._replace(position=position, velocity=velocity)


def _may_be_lost(position: Array) -> bool:
    """Whether a position may be NaN or infinite: a finite sum is the fastest proof that none is.

    Small swarms take the sum of squares, which is one call. For large ones BLAS would start threads.
    """
    if type(position) is not np.ndarray:
        return False
    return not math.isfinite(np.vdot(position, position) if position.size < _SMALL else position.sum())
