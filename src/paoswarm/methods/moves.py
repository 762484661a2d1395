r"""How a method is moved: what it returns is checked, and walls and tolerance are applied for it.

Drivers, and methods over methods, call `begin`, `ask` and `tell` instead of the method's own.

Nearly no point satisfies an equality. If feasible points come first, a swarm gathers at the first ones that it finds
and cannot move along the equality any more. So with equalities it begins with a tolerance :math:`\epsilon` of the total
violation. Its points are compared by (C4), and after :math:`k` evaluations

.. math:: \epsilon_k = \epsilon_0\,\max(0,\ 1 - k / K)^{12}                             \tag{C5}

A fifth of the first swarm violates by less than :math:`\epsilon_0`. The method says how many evaluations :math:`K` are
(`Method.tolerant_for`). It does not depend on the limits of the run, so that a run can be continued with other ones.

What particles remember is ranked anew in every generation, because the tolerance has changed. For the method only:
whatever else looks at a swarm sees the scores (C2), so drivers keep the best point by the strict order.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from paoswarm.core import order, swarm
from paoswarm.core.arrays import Array, Floats
from paoswarm.core.attractors import RandomSource
from paoswarm.core.swarm import Proposal, Swarm, read_only
from paoswarm.methods.method import Method

# Spread of a swarm, in widths of the bounds, at which a method without a rule of its own has converged. As an accuracy
# it is what searches reach anyway, as far as rounding lets them.
TOL = 1e-12
_SMALL = 4096  # elements of a swarm
_MAKE_IT = "make the swarm with state.renewed, joined_by or reduced_to"
_WITHIN = 0.2  # share of the first swarm that is within the first tolerance
_POWER = 12
_UNKNOWN = math.nan, math.nan


def keeps_bests(method: Method) -> bool:
    """Whether every point is recorded as usual, so that the leader of the swarm is the best point of all."""
    return type(method).tell is Method.tell


def decides_its_end(method: Method) -> bool:
    """Whether the method has its own rule for when a run has converged."""
    return type(method).has_converged is not Method.has_converged


def joining(method: Method) -> Any:
    """The function that makes a generation of what is back, see `Method`; None if the method takes only whole ones."""
    return one_for_each if method.joined is None and method.moves_singly else method.joined


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
    if state.tolerance is None or method.applies_tolerance:
        begun = method.begin(state)
    else:
        begun = swarm.with_leader(method.begin(eased(state))._replace(best_value=state.best_value))
    return _checked_swarm(begun, method, "begin", state)


def ask(method: Method, state: Swarm, draw: RandomSource, progress: float) -> Proposal:
    """The points to evaluate next, walls applied; an error if the method returned nonsense."""
    if state.tolerance is not None and not method.applies_tolerance:
        state = eased(state)
    if not method.applies_walls:
        state = read_only(state)
    with np.errstate(under="ignore"):  # underflow is expected: a swarm contracts to a point
        proposal = method.ask(state, draw, progress)
    if method.applies_tolerance:  # its searches were asked in this way
        return proposal
    if not method.applies_walls:
        return _checked(proposal, method, state)
    if _may_be_lost(proposal.position) and not np.isfinite(proposal.position).all():
        raise ValueError(
            f"{type(method).__name__} produced NaN or infinite positions: the swarm diverges. Use less noise, more "
            "damping, or walls='clip'"
        )
    return proposal


def one_for_each(
    state: Swarm, latest: Proposal, came: Sequence[tuple[Proposal, int]], value: Floats
) -> tuple[Proposal, Floats]:
    """What came back as a generation with one point for each particle: its best one, or that where it is.

    Points of proposals for another number of particles are left out.
    """
    n = state.n_particles
    chosen = [(latest, i) for i in range(n)]
    position, velocity, values = state.position.copy(), state.velocity.copy(), state.value.copy()
    for k in order.ranked(value)[::-1].tolist():
        proposal, i = came[k]
        if len(proposal.position) == n:
            chosen[i] = came[k]
            position[i], velocity[i], values[i] = proposal.position[i], proposal.velocity[i], value[k]
    notes = latest.notes
    if notes is not None:
        kept = zip(*([part[i] for part in proposal.notes] for proposal, i in chosen), strict=True)
        notes = type(notes)(*map(np.array, kept))
    return Proposal(position, velocity, notes), values


def tell(
    method: Method, state: Swarm, proposal: Proposal, value: Array, evaluated: Array | None = None, tol: float = TOL
) -> Swarm:
    """The swarm after the objective was measured at a proposal; ``tol`` is the accuracy that the user wants."""
    if method.applies_tolerance:  # its searches are told in this way
        told: Swarm = cast(Any, method).tell(state, proposal, value, evaluated, tol)
        return told
    if state.tolerance is None or proposal.objective is None:
        after = method.tell(state, proposal, value, evaluated)
    else:
        after = _tolerant_tell(method, state, proposal, value, evaluated)
    return _checked_swarm(after, method, "tell", state)


def _checked_swarm(after: Swarm, method: Method, function: str, before: Swarm) -> Swarm:
    """A swarm that a user's function made; an error if it is none."""
    name = f"{type(method).__name__}.{function}"
    if not isinstance(after, Swarm):
        raise TypeError(f"{name} must return a Swarm, got {after!r}")
    particles = after.position.shape[:-1]
    if len(particles) > 1 and particles != before.value.shape:
        raise ValueError(
            f"{type(method).__name__} changes the size of its swarm, so it cannot take batches: set "
            "takes_batches = False"
        )
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


class Tolerance(NamedTuple):
    """The tolerance of one swarm."""

    first: float
    length: float  # evaluations until it is zero
    used: int = 0  # evaluations of the search
    known: Mapping[bytes, tuple[float, float]] = {}  # objective and score (C2) of the bests, by position

    @property
    def now(self) -> float:
        """The tolerance (C5)."""
        return self.first * max(0.0, 1 - self.used / self.length) ** _POWER


def starting(state: Swarm, length: float, objective: Floats | None) -> Swarm:
    """The first swarm of a search with its tolerance, for so many evaluations; unchanged if it has none.

    It has none without equalities (``objective`` is None), if a fifth of the points is feasible, or if the objective is
    noisy.
    """
    if objective is None or state.repeats is not None or length <= 0:
        return state
    violation = order.violation(state.best_value)
    violation = violation[np.isfinite(violation)]
    first = float(np.quantile(violation, _WITHIN)) if len(violation) else 0.0
    if first == 0:
        return state
    known = _pairs(state.best_position, objective, state.best_value)
    return state._replace(tolerance=Tolerance(first, length, known=known))


def eased(state: Swarm) -> Swarm:
    """The swarm with a tolerance as its method sees it: its bests compared by (C4)."""
    tolerance: Tolerance = state.tolerance
    objective = _column(state.best_position, tolerance.known, 0)
    scores = order.tolerated(state.best_value, objective, tolerance.now)
    return swarm.with_leader(state._replace(best_value=scores))


def _tolerant_tell(method: Method, state: Swarm, proposal: Proposal, value: Array, evaluated: Array | None) -> Swarm:
    """The swarm after a method's ``tell``, which compares by (C4); its bests have their scores (C2) again."""
    tolerance: Tolerance = state.tolerance
    objective: Any = proposal.objective
    after = method.tell(eased(state), proposal, order.tolerated(value, objective, tolerance.now), evaluated)
    seen = {**tolerance.known, **_pairs(state.snapped(proposal.position), objective, value)}
    count = value.shape[-1] if evaluated is None else int(evaluated.sum())
    kept = {key: seen[key] for key in _keys(after.best_position) if key in seen}
    tolerance = tolerance._replace(used=tolerance.used + count, known=kept)
    strict = _column(after.best_position, seen, 1)
    at_position = _column(after.snapped(after.position), seen, 1)
    return swarm.with_leader(
        after._replace(
            best_value=np.where(np.isnan(strict), after.best_value, strict),
            value=np.where(np.isnan(at_position), after.value, at_position),
            tolerance=tolerance if tolerance.now > 0 else None,
        )
    )


def _keys(points: Floats) -> Iterable[bytes]:
    return (point.tobytes() for point in points)


def _pairs(points: Floats, objective: Floats, scores: Floats) -> dict[bytes, tuple[float, float]]:
    """The objective and the score of each point."""
    return dict(zip(_keys(points), zip(objective.tolist(), scores.tolist(), strict=True), strict=True))


def _column(points: Floats, known: Mapping[bytes, tuple[float, float]], which: int) -> Floats:
    """The objectives or the scores of points, the first or the second of each pair; NaN where it is unknown."""
    return np.array([known.get(key, _UNKNOWN)[which] for key in _keys(points)])
