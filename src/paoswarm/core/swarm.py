"""The state of a swarm, and the only ways to make one.

- `start` makes the first swarm from evaluated points, so its bests are always known: there is no empty swarm.
- `record` and `remeasure` add what was measured; `replace_worst` takes in points from elsewhere.
- `Swarm.renewed`, `Swarm.joined_by` and `Swarm.reduced_to` change the number of particles.

All arrays are ``(*batch, n, d)`` or ``(*batch, n)``: a batch of independent runs is the same code.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from paoswarm.core import order
from paoswarm.core.arrays import Array, namespace
from paoswarm.core.order import Repeats, failed_last, score
from paoswarm.core.walls import Axes, Wall

# A first measurement is forgotten if the second one shows that it was too good by this many standard deviations.
FLUKE = 5.0


class Swarm(NamedTuple):
    """Everything the next step needs, and nothing else.

    Attributes
    ----------
    position, velocity : array (..., n, d)
    value : array (..., n)
        Objective at ``position``; NaN or ``inf`` where it failed.
    best_position, best_value : arrays (..., n, d), (..., n)
        The best point each particle has seen. With re-evaluation the value is a running mean.
    age : array (..., n)
        Generations since the particle last improved its best.
    repeats : Repeats or None
        Repeated measurements of a noisy objective; None where nothing is measured twice.
    global_best, global_value : arrays (..., n, d), (...)
        The best of the bests, the same row for every particle.
    lower, upper : array (n, d)
        The bounds, the same row for every particle. (Arithmetic on equal shapes is faster than on ``(d,)``.)
    memory : NamedTuple of arrays, or None
        Anything else a method has learnt. A method that moves batches of runs keeps arrays with the batch axes first;
        any other method may keep what it likes.
    axes : Axes or None
        Which coordinates are round, whole or choices; None if all are plain numbers.
    tolerance : Tolerance or None
        How far constraints may be violated for now, see `paoswarm.methods.moves`; None if not at all.
    """

    position: Array
    velocity: Array
    value: Array
    best_position: Array
    best_value: Array
    age: Array
    repeats: Repeats | None
    global_best: Array
    global_value: Array
    lower: Array
    upper: Array
    memory: Any = None
    axes: Axes | None = None
    tolerance: Any = None

    @property
    def n_particles(self) -> int:
        """Number of particles."""
        return int(self.position.shape[-2])

    @property
    def n_dimensions(self) -> int:
        """Number of unknowns."""
        return int(self.position.shape[-1])

    def renewed(self, position: Array, value: Array, velocity: Array | None = None) -> Swarm:
        """A new swarm of evaluated points in the same bounds, as after a restart.

        The memory is kept, and so is what is known about the noise of the objective.
        """
        new = start(position, value, self.lower[0, :], self.upper[0, :], velocity, axes=self.axes)
        repeats = self.repeats
        if repeats is not None:
            repeats = repeats._replace(count=namespace(value).zeros_like(new.value))
        return new._replace(memory=self.memory, repeats=repeats)

    def joined_by(self, position: Array, value: Array, velocity: Array | None = None) -> Swarm:
        """The swarm with evaluated points ``(..., m, d)`` as further particles, at rest unless velocities are given."""
        if value.shape[-1] == 0:
            return self
        xp, new = namespace(self.position), self.renewed(position, value, velocity)
        return _by_particle(lambda axis, old, more: xp.concat([old, more], axis=axis), self, new)

    def reduced_to(self, index: Array) -> Swarm:
        """The swarm with some of its particles only, by number ``(m,)``."""
        xp = namespace(self.position)
        return _by_particle(lambda axis, array: xp.take(array, index, axis=axis), self)

    def snapped(self, x: Array) -> Array:
        """Points at the whole numbers and choices that they stand for."""
        return x if self.axes is None else self.axes.snapped(x, self.lower[0, :], self.upper[0, :])

    def wall(self, rule: Wall) -> Wall:
        """What happens to particles that leave these bounds, if the method has this rule."""
        return rule if self.axes is None else self.axes.wall(rule)


def _by_particle(function: Callable[..., Array], *swarms: Any) -> Swarm:
    """Apply a function of an axis and arrays to every array of one or more swarms that has an axis of particles."""
    points, numbers = ("position", "velocity", "best_position", "lower", "upper"), ("value", "best_value", "age")
    first = swarms[0]
    parts = {name: function(-2, *(getattr(one, name) for one in swarms)) for name in points}
    parts |= {name: function(-1, *(getattr(one, name) for one in swarms)) for name in numbers}
    if first.repeats is not None:
        parts["repeats"] = first.repeats._replace(count=function(-1, *(one.repeats.count for one in swarms)))
    return with_leader(first._replace(**parts))


class Proposal(NamedTuple):
    """Points ``position`` (..., m, d) to evaluate, with velocities; ``notes`` are for the method that made them.

    Most methods propose one point for each particle, in the order of the particles. With equalities the driver adds
    the values of the ``objective`` (..., m), at infeasible points as well; NaN or infinite where it has none.
    """

    position: Array
    velocity: Array
    notes: Any = None
    objective: Array | None = None


def start(
    position: Array,
    value: Array,
    lower: Array,
    upper: Array,
    velocity: Array | None = None,
    noisy: bool = False,
    axes: Axes | None = None,
) -> Swarm:
    """The first swarm from evaluated points in the bounds ``lower, upper`` (d,); at rest unless velocities are given.

    NaN counts as +inf.
    """
    xp = namespace(position)
    value = failed_last(value)
    bests = position if axes is None else axes.snapped(position, lower, upper)
    leader, leader_value = _best_of(bests, value, None)
    n = position.shape[-2]
    return Swarm(
        position=position,
        velocity=xp.zeros_like(position) if velocity is None else velocity,
        value=value,
        best_position=bests,
        best_value=value,
        age=xp.zeros_like(value),
        repeats=measured_once(value) if noisy else None,
        global_best=leader,
        global_value=leader_value,
        lower=xp.repeat(lower[None, :], n, axis=0),
        upper=xp.repeat(upper[None, :], n, axis=0),
        axes=axes,
    )


def measured_once(value: Array) -> Repeats:
    """The repeats of points of which each was measured once: nothing is known about the noise yet."""
    xp = namespace(value)
    nothing = xp.zeros_like(value[..., 0])
    return Repeats(xp.zeros_like(value), nothing, nothing)


def record(swarm: Swarm, proposal: Proposal, value: Array, evaluated: Array | None = None) -> Swarm:
    """The swarm after the objective was measured at a proposal with one point for each particle.

    A best moves only if the new point is better in the sense of `paoswarm.core.order`. Particles that were not
    ``evaluated`` (the budget ended inside this generation) stay where they were.
    """
    repeats = swarm.repeats
    xp = namespace(value)
    better = order.is_better(order.newcomer_score(value, repeats), score(swarm.best_value, repeats))
    if evaluated is not None:
        value = xp.where(evaluated, value, swarm.value)
        better = evaluated & better
        proposal = Proposal(
            xp.where(evaluated[..., None], proposal.position, swarm.position),
            xp.where(evaluated[..., None], proposal.velocity, swarm.velocity),
        )
    if repeats is not None:
        repeats = repeats._replace(count=xp.where(better, 0.0, repeats.count))
    best_position = xp.where(better[..., None], swarm.snapped(proposal.position), swarm.best_position)
    best_value = xp.where(better, value, swarm.best_value)
    grown = swarm.age + (1.0 if evaluated is None else xp.astype(evaluated, swarm.age.dtype))
    age = xp.where(better, 0.0, grown)
    leader, leader_value = _best_of(best_position, best_value, repeats)
    return swarm._replace(
        position=proposal.position,
        velocity=proposal.velocity,
        value=value,
        best_position=best_position,
        best_value=best_value,
        age=age,
        repeats=repeats,
        global_best=leader,
        global_value=leader_value,
    )


def remeasure(swarm: Swarm, index: Array, value: Array) -> Swarm:
    """The swarm after some remembered bests were measured again: new means, noise estimate and leader.

    ``index`` and ``value`` have shape ``(*batch, r)``; no particle appears twice. A failed measurement is left out.
    The measurement for which a point was chosen is biased. It does not count in the estimate of the noise. If the
    second measurement shows that it was too good by more than `FLUKE` standard deviations, it is forgotten.
    """
    xp = namespace(value)
    repeats = swarm.repeats
    assert repeats is not None
    before = xp.take_along_axis(swarm.best_value, index, axis=-1)
    count = xp.take_along_axis(repeats.count, index, axis=-1)
    ok = xp.isfinite(value) & xp.isfinite(before)
    value, before = xp.where(ok, value, 0.0), xp.where(ok, before, 0.0)
    change = value - before
    unknown = (repeats.freedom == 0)[..., None]
    forget = (count == 0) & (unknown | (change > FLUKE * repeats.sd[..., None]))
    new_count = xp.where(count > 0, count + 1, 2 - xp.astype(forget, count.dtype))
    mean = xp.where(forget, value, before + change / new_count)
    fair = xp.astype(ok & (count > 0), value.dtype)
    particles = xp.arange(swarm.n_particles)
    hit = (index[..., None] == particles) & ok[..., None]  # (*batch, r, n)

    def put(into: Array, what: Array) -> Array:
        chosen = xp.sum(xp.where(hit, what[..., None], 0.0), axis=-2)
        return xp.where(xp.any(hit, axis=-2), chosen, into)

    repeats = Repeats(
        count=put(repeats.count, new_count),
        squares=repeats.squares + xp.sum(fair * change * change * (1 - 1 / new_count), axis=-1),
        freedom=repeats.freedom + xp.sum(fair, axis=-1),
    )
    return with_leader(swarm._replace(best_value=put(swarm.best_value, mean), repeats=repeats))


def replace_worst(swarm: Swarm, position: Array, value: Array) -> Swarm:
    """The swarm after its worst particles were offered points ``(m, d)`` from elsewhere, best first."""
    xp = namespace(swarm.value)
    m = value.shape[0]
    standing = score(swarm.best_value, swarm.repeats)
    from_worst = swarm.n_particles - 1 - order.ranks(standing)
    offered = xp.clip(from_worst, 0, m - 1)
    flat = xp.reshape(offered, (-1,))
    new_value = xp.reshape(xp.take(failed_last(value), flat, axis=0), offered.shape)
    new_position = xp.reshape(xp.take(position, flat, axis=0), swarm.best_position.shape)
    better = (from_worst < m) & order.is_better(order.newcomer_score(new_value, swarm.repeats), standing)
    repeats = swarm.repeats
    if repeats is not None:
        repeats = repeats._replace(count=xp.where(better, 0.0, repeats.count))
    return with_leader(
        swarm._replace(
            best_position=xp.where(better[..., None], new_position, swarm.best_position),
            best_value=xp.where(better, new_value, swarm.best_value),
            age=xp.where(better, 0.0, swarm.age),
            repeats=repeats,
        )
    )


def spread(swarm: Swarm, unroll: Callable[..., Array] | None = None) -> Array:
    """Root mean square distance of the particles from the global best, in widths of the bounds; ``(*batch,)``.

    With ``unroll`` of periodic walls, and along round coordinates, it is measured the short way round.
    """
    *batch, n, d = swarm.position.shape
    position = swarm.position
    if swarm.axes is not None:
        position = swarm.axes.unrolled(position, swarm.global_best, swarm.upper - swarm.lower)
    if unroll is not None:
        position = unroll(position, swarm.global_best, swarm.lower, swarm.upper)
    apart = position - swarm.global_best
    apart /= swarm.upper - swarm.lower
    if not batch and type(apart) is np.ndarray:  # the same with fewer calls
        return np.float64(math.sqrt(np.vdot(apart, apart) / (n * d)))
    xp = namespace(apart)
    apart = xp.reshape(apart, (*batch, n * d))
    return xp.sqrt(xp.vecdot(apart, apart) / (n * d))


def unrolled(swarm: Swarm, wall: Wall) -> Swarm:
    """Positions and bests as seen from the best point: behind periodic walls, the short way round."""
    wall = swarm.wall(wall)
    if wall.unroll is None:
        return swarm
    box = swarm.global_best, swarm.lower, swarm.upper
    near, bests = (wall.unroll(x, *box) for x in (swarm.position, swarm.best_position))
    return swarm._replace(position=near, best_position=bests)


def select(keep_new: Array, new: Swarm, old: Swarm) -> Swarm:
    """Run by run, ``new`` where the mask ``(*batch,)`` is true and ``old`` elsewhere."""
    xp = namespace(new.value)

    def choose(a: Array, b: Array) -> Array:
        return xp.where(xp.reshape(keep_new, keep_new.shape + (1,) * (a.ndim - keep_new.ndim)), a, b)

    return map_runs(choose, new, old)


_SHARED = ("lower", "upper", "axes", "tolerance")  # what has no batch axis


def map_runs(function: Callable[..., Array], first: Swarm, *others: Swarm) -> Swarm:
    """Apply a function to every array of one or more swarms that has the batch axis."""

    def apply(name: str) -> Any:
        parts = [getattr(one, name) for one in (first, *others)]
        if name not in ("repeats", "memory"):
            return function(*parts)
        if not hasattr(parts[0], "_fields"):  # nothing, or a memory that only its method understands
            return parts[0]
        return type(parts[0])(*(function(*arrays) for arrays in zip(*parts, strict=True)))

    return first._replace(**{name: apply(name) for name in Swarm._fields if name not in _SHARED})


def read_only(swarm: Swarm) -> Swarm:
    """The same swarm through read-only views, for users' functions."""

    def locked(array: Array) -> Array:
        if not isinstance(array, np.ndarray):  # a number, or an array of a library whose arrays never change
            return array
        view = array.view()
        view.flags.writeable = False
        return view

    return map_runs(locked, swarm)._replace(lower=locked(swarm.lower), upper=locked(swarm.upper))


def with_leader(swarm: Swarm) -> Swarm:
    """The same swarm with the best of its bests as the leader."""
    leader, value = _best_of(swarm.best_position, swarm.best_value, swarm.repeats)
    return swarm._replace(global_best=leader, global_value=value)


def _best_of(position: Array, value: Array, repeats: Repeats | None) -> tuple[Array, Array]:
    """The point with the smallest score, repeated for every particle, and its value."""
    *batch, n, d = position.shape
    leader = order.best(score(value, repeats))
    if not batch and type(value) is np.ndarray:  # the same with fewer calls
        return position[leader : leader + 1].repeat(n, axis=0), value[leader]
    xp = namespace(value)
    # One flat index per run: several times faster than take_along_axis.
    flat = xp.reshape(leader, (-1,)) + n * xp.arange(math.prod(batch))
    leading = xp.take(xp.reshape(position, (-1, d)), flat, axis=0)
    leading_value = xp.take(xp.reshape(value, (-1,)), flat, axis=0)
    return xp.repeat(xp.reshape(leading, (*batch, 1, d)), n, axis=-2), xp.reshape(leading_value, tuple(batch))
