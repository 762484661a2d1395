"""The state of a swarm, and the only ways to make one: start, record, remeasure, replace_worst.

A swarm is created from evaluated points, so its bests are always seeded; there is no empty swarm. All
arrays are ``(*batch, n, d)`` or ``(*batch, n)``: a batch of independent runs is the same code.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from paoswarm.core import fused
from paoswarm.core.arrays import Array, namespace

# Standard errors added to a mean before bests are compared. With fewer the leader is often a newcomer on a lucky
# streak, whose value is far too good to be true; benchmarks/quality.py compares with none.
CAUTION = 3.0


# Noise standard deviations by which the draw that chose a point must have been too good to be forgotten.
FLUKE = 5.0


class Repeats(NamedTuple):
    """How often each best was measured, and how much the measurements differed."""

    count: Array  # (*batch, n), measurements behind each best; zero for a single draw, the one it was chosen for
    squares: Array  # (*batch,), sum of squared differences from the running means
    freedom: Array  # (*batch,), its degrees of freedom

    @property
    def sd(self) -> Array:
        """Standard deviation of one measurement, ``(*batch,)``; zero while nothing was measured twice."""
        xp = namespace(self.squares)
        return xp.sqrt(self.squares / xp.where(self.freedom > 0, self.freedom, 1.0))


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
        What repeated measurements tell about a noisy objective; None where nothing is measured twice.
    global_best, global_value : arrays (..., n, d), (...)
        The best of the bests, the same row for every particle.
    lower, upper : array (n, d)
        The box, the same row for every particle. (Arithmetic on equal shapes is faster than on ``(d,)``.)
    memory : NamedTuple of arrays, or None
        What else a method has learnt; every array has the batch axes first.
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

    @property
    def n_particles(self) -> int:
        """Number of particles."""
        return int(self.position.shape[-2])

    @property
    def n_dimensions(self) -> int:
        """Number of unknowns."""
        return int(self.position.shape[-1])


class Proposal(NamedTuple):
    """Where the particles want to go: ``position`` is to be evaluated. ``notes`` are the method's own."""

    position: Array
    velocity: Array
    notes: Any = None


def start(
    position: Array,
    value: Array,
    lower: Array,
    upper: Array,
    velocity: Array | None = None,
    noisy: bool = False,
) -> Swarm:
    """The first swarm from evaluated points in the box ``lower, upper`` (d,); at rest unless velocities are given.

    NaN counts as +inf.
    """
    xp = namespace(position)
    value = _nan_to_inf(value)
    leader, leader_value = _best_of(position, value, None)
    n = position.shape[-2]
    return Swarm(
        position=position,
        velocity=xp.zeros_like(position) if velocity is None else velocity,
        value=value,
        best_position=position,
        best_value=value,
        age=xp.zeros_like(value),
        repeats=measured_once(value) if noisy else None,
        global_best=leader,
        global_value=leader_value,
        lower=xp.repeat(lower[None, :], n, axis=0),
        upper=xp.repeat(upper[None, :], n, axis=0),
    )


def measured_once(value: Array) -> Repeats:
    """Nothing is known of the noise yet."""
    xp = namespace(value)
    nothing = xp.zeros_like(value[..., 0])
    return Repeats(xp.zeros_like(value), nothing, nothing)


def record(swarm: Swarm, proposal: Proposal, value: Array, evaluated: Array | None = None) -> Swarm:
    """The swarm after the objective was measured at a proposal.

    Only strict improvement moves a best: a plateau does not, and neither does NaN. Where the objective's noise is
    known, a new point must win by its `score`, so that a lucky draw does not. Particles that are not ``evaluated``
    (the budget ended inside this generation) stay where they were.
    """
    repeats = swarm.repeats
    if repeats is None and evaluated is None:
        kept = fused.record(swarm, proposal.position, value)
        if kept is not None:
            return _recorded(swarm, proposal, value, None, *kept)
    xp = namespace(value)
    if repeats is None:
        better = value < swarm.best_value
    else:
        better = value + CAUTION * repeats.sd[..., None] < score(swarm.best_value, repeats)
    if evaluated is not None:
        value = xp.where(evaluated, value, swarm.value)
        better = evaluated & better
        proposal = Proposal(
            xp.where(evaluated[..., None], proposal.position, swarm.position),
            xp.where(evaluated[..., None], proposal.velocity, swarm.velocity),
        )
    if repeats is not None:
        repeats = repeats._replace(count=xp.where(better, 0.0, repeats.count))
    best_position = xp.where(better[..., None], proposal.position, swarm.best_position)
    best_value = xp.where(better, value, swarm.best_value)
    grown = swarm.age + (1.0 if evaluated is None else xp.astype(evaluated, swarm.age.dtype))
    age = xp.where(better, 0.0, grown)
    leader, leader_value = _best_of(best_position, best_value, repeats)
    return _recorded(swarm, proposal, value, repeats, best_position, best_value, age, leader, leader_value)


def _recorded(
    swarm: Swarm,
    proposal: Proposal,
    value: Array,
    repeats: Repeats | None,
    best_position: Array,
    best_value: Array,
    age: Array,
    leader: Array,
    leader_value: Array,
) -> Swarm:
    return Swarm(
        proposal.position,
        proposal.velocity,
        value,
        best_position,
        best_value,
        age,
        repeats,
        leader,
        leader_value,
        swarm.lower,
        swarm.upper,
        swarm.memory,
    )


def score(best_value: Array, repeats: Repeats | None) -> Array:
    r"""What bests are compared by, ``(*batch, n)``: :math:`\bar f_i + 3\,\hat\sigma/\sqrt{N_i}`.

    The running mean plus three standard errors; without repeated measurements it is the value itself.
    """
    if repeats is None:
        return best_value
    xp = namespace(best_value)
    return best_value + CAUTION * repeats.sd[..., None] / xp.sqrt(xp.clip(repeats.count, 1.0, xp.inf))


def remeasure(swarm: Swarm, index: Array, value: Array) -> Swarm:
    """The swarm after some remembered bests were measured again: running means, noise estimate, leader chosen anew.

    ``index`` and ``value`` have shape ``(*batch, r)``; no particle appears twice. A failed measurement is left out.
    The draw for which a point was chosen is no fair sample: it is not counted in the estimate of the noise, and when
    the second draw shows it to be a fluke, more than `FLUKE` standard deviations too good, it is forgotten.
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
    """The swarm after points ``(m, d)`` from elsewhere, best first, were offered to its worst particles."""
    xp = namespace(swarm.value)
    m = value.shape[0]
    from_worst = swarm.n_particles - 1 - xp.argsort(xp.argsort(swarm.best_value, axis=-1), axis=-1)
    offered = xp.clip(from_worst, 0, m - 1)
    flat = xp.reshape(offered, (-1,))
    new_value = xp.reshape(xp.take(_nan_to_inf(value), flat, axis=0), offered.shape)
    new_position = xp.reshape(xp.take(position, flat, axis=0), swarm.best_position.shape)
    better = (from_worst < m) & (new_value < swarm.best_value)
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
    """Root mean square distance of the particles from the global best, in widths of the box; ``(*batch,)``.

    ``unroll`` of periodic walls makes it the distance the short way round.
    """
    xp = namespace(swarm.position)
    *batch, n, d = swarm.position.shape
    position = swarm.position
    if unroll is not None:
        position = unroll(position, swarm.global_best, swarm.lower, swarm.upper)
    apart = position - swarm.global_best
    apart /= swarm.upper - swarm.lower
    if not batch and xp is np:  # the same with fewer calls
        return np.sqrt(np.vdot(apart, apart) / (n * d))
    apart = xp.reshape(apart, (*batch, n * d))
    return xp.sqrt(xp.vecdot(apart, apart) / (n * d))


def select(keep_new: Array, new: Swarm, old: Swarm) -> Swarm:
    """Run by run, ``new`` where the mask ``(*batch,)`` is true and ``old`` elsewhere."""
    xp = namespace(new.value)

    def choose(a: Array, b: Array) -> Array:
        return xp.where(xp.reshape(keep_new, keep_new.shape + (1,) * (a.ndim - keep_new.ndim)), a, b)

    return map_runs(choose, new, old)


def map_runs(function: Callable[..., Array], first: Swarm, *others: Swarm) -> Swarm:
    """Apply a function to every array of one or more swarms that has the batch axis."""

    def apply(name: str) -> Any:
        parts = [getattr(one, name) for one in (first, *others)]
        if isinstance(parts[0], tuple):  # of arrays
            return type(parts[0])(*(function(*arrays) for arrays in zip(*parts, strict=True)))
        return None if parts[0] is None else function(*parts)

    return first._replace(**{name: apply(name) for name in Swarm._fields if name not in ("lower", "upper")})


def read_only(swarm: Swarm) -> Swarm:
    """The same swarm through views that cannot be written to, for code that is not ours."""

    def locked(array: Array) -> Array:
        if not isinstance(array, np.ndarray):  # a number, or of a library whose arrays never change
            return array
        view = array.view()
        view.flags.writeable = False
        return view

    return map_runs(locked, swarm)._replace(lower=locked(swarm.lower), upper=locked(swarm.upper))


def _nan_to_inf(value: Array) -> Array:
    xp = namespace(value)
    return xp.where(xp.isnan(value), xp.inf, value)


def with_leader(swarm: Swarm) -> Swarm:
    """The same swarm with the best of its bests as the leader."""
    leader, value = _best_of(swarm.best_position, swarm.best_value, swarm.repeats)
    return swarm._replace(global_best=leader, global_value=value)


def _best_of(position: Array, value: Array, repeats: Repeats | None) -> tuple[Array, Array]:
    """The point with the smallest score, repeated for every particle, and its value."""
    xp = namespace(value)
    *batch, n, d = position.shape
    measure = score(value, repeats)
    if not batch and xp is np:  # the same with fewer calls
        first = measure.argmin()
        return position[first : first + 1].repeat(n, axis=0), value[first]
    leader = xp.argmin(measure, axis=-1)
    # One flat index per run: several times faster than take_along_axis.
    flat = xp.reshape(leader, (-1,)) + n * xp.arange(math.prod(batch))
    leading = xp.take(xp.reshape(position, (-1, d)), flat, axis=0)
    leading_value = xp.take(xp.reshape(value, (-1,)), flat, axis=0)
    return xp.repeat(xp.reshape(leading, (*batch, 1, d)), n, axis=-2), xp.reshape(leading_value, tuple(batch))
