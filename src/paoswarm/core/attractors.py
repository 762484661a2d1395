"""Attractors: the points that pull the particles, one small function each.

An attractor is a function of the swarm. It returns points that broadcast to ``(*batch, n, d)``. A random one takes a
second argument and draws ``draw.uniform(*shape)`` or ``draw.normal(*shape)`` from it. You can write your own:

>>> import paoswarm as ps
>>> def halfway_home(swarm):
...     return 0.5 * (swarm.best_position + swarm.global_best)
>>> method = ps.PAO(attractors=(ps.attractors.local_best, halfway_home), stiffness=(1.0, 0.5))

Your own function sees one run at a time, unless it has the attribute ``takes_batches = True``.

Averages (`average_particle`, `average_local_best`, `weighted_average_particle`) start at the centre of the bounds and
can favour an optimum that lies there. Judge them on shifted problems.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from paoswarm._checks import number_between, whole_number
from paoswarm.core.arrays import Array, namespace
from paoswarm.core.differences import STRATEGIES, crossover, partners, rows
from paoswarm.core.order import best, ranks, score
from paoswarm.core.swarm import Swarm


class RandomSource(Protocol):
    """What a random attractor draws from: arrays of shape ``(*batch, *shape)``."""

    def normal(self, *shape: int, single: bool = False) -> Array:
        """Standard normal deviates; ``single``: in single precision where that is cheaper."""

    def uniform(self, *shape: int) -> Array:
        """Uniform deviates on [0, 1)."""


Attractor = Callable[..., Array]


def is_random(attractor: Attractor) -> bool:
    """Whether an attractor takes a source of random numbers as its second argument."""
    if attractor is local_best or attractor is global_best:  # signatures take longer than a step of a small swarm
        return False
    if isinstance(attractor, type):
        raise TypeError(f"{attractor.__name__} is a class of attractors: write {attractor.__name__}() to make one")
    try:
        parameters = inspect.signature(attractor).parameters.values()
    except (TypeError, ValueError):  # some builtins have no signature
        return False
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    needed = [p for p in parameters if p.kind in positional and p.default is inspect.Parameter.empty]
    if len(needed) not in (1, 2):
        raise TypeError(
            f"an attractor is a function of the swarm, or of (swarm, draw); {attractor!r} needs {len(needed)} arguments"
        )
    return len(needed) == 2


def global_best(swarm: Swarm) -> Array:
    """The best point of the whole swarm."""
    return swarm.global_best


def local_best(swarm: Swarm) -> Array:
    """The best point that each particle has seen."""
    return swarm.best_position


def average_local_best(swarm: Swarm) -> Array:
    """The mean of the local bests that have a finite value."""
    xp = namespace(swarm.position)
    return _average(swarm.best_position, xp.astype(xp.isfinite(swarm.best_value), swarm.position.dtype))


def average_particle(swarm: Swarm) -> Array:
    """The mean of the particles' present positions."""
    xp = namespace(swarm.position)
    return xp.mean(swarm.position, axis=-2, keepdims=True)


def weighted_average_particle(swarm: Swarm) -> Array:
    r"""The mean of the present positions, weighted by rank: the best of n weighs n, the worst 1, a failed one 0.

    Ranks do not change under any increasing transformation of the objective.
    """
    xp = namespace(swarm.position)
    weight = xp.astype(swarm.n_particles - ranks(swarm.value), swarm.position.dtype)
    return _average(swarm.position, xp.where(xp.isfinite(swarm.value), weight, 0.0))


@dataclass(frozen=True)
class DifferentialEvolution:
    r"""Points of differential evolution, ``rand/1/bin`` (Storn and Price 1997), built from the local bests.

    :math:`l_{r_1} + F (l_{r_2} - l_{r_3})` with three distinct other particles; each element is taken from it with
    probability ``crossover`` (one at least), otherwise from the particle's own best.
    """

    factor: float = 0.5
    crossover: float = 0.9
    smallest_swarm: ClassVar[int] = 4

    def __post_init__(self) -> None:
        number_between("factor", self.factor, 0.0)
        number_between("crossover", self.crossover, 0.0, 1.0)

    def __call__(self, swarm: Swarm, draw: RandomSource) -> Array:
        """The points of this generation."""
        n, d = swarm.n_particles, swarm.n_dimensions
        if n < self.smallest_swarm:
            raise ValueError(f"differential evolution needs at least {self.smallest_swarm} particles, got {n}")
        best = swarm.best_position
        others = (rows(best, r) for r in partners(draw.uniform(n, 3)))
        donor = STRATEGIES["rand/1"].mutant(best, swarm.global_best, self.factor, *others)
        forced = draw.uniform(n, 1)
        return crossover(donor, best, self.crossover, draw.uniform(n, d), forced)


@dataclass(frozen=True)
class GaussianPoint:
    r"""Gaussian stochastic attractors (Sun et al. 2011).

    Points are drawn from :math:`N(p, |\bar l - l|^2)`. The centre :math:`p = \varphi l + (1 - \varphi) g` is a random
    point between local and global best. The standard deviation is the distance of the local best from the mean local
    best, times ``width``.
    """

    width: float = 1.0

    def __post_init__(self) -> None:
        number_between("width", self.width, 0.0)

    def __call__(self, swarm: Swarm, draw: RandomSource) -> Array:
        """The points of this generation."""
        xp = namespace(swarm.position)
        n, d = swarm.n_particles, swarm.n_dimensions
        phi = draw.uniform(n, d)
        centre = phi * swarm.best_position + (1 - phi) * swarm.global_best
        sd = self.width * xp.abs(average_local_best(swarm) - swarm.best_position)
        return centre + sd * draw.normal(n, d)


@dataclass(frozen=True)
class NeighbourhoodBest:
    """The best local best among a particle's neighbours, itself included.

    Parameters
    ----------
    topology : {"ring", "von neumann", "random"}
        ``ring``: ``size`` particles to either side. ``von neumann``: the four neighbours on a grid that wraps around.
        ``random``: ``size`` informants drawn anew each generation.
    size : int
        Used by ``ring`` and ``random``.
    """

    topology: str = "ring"
    size: int = 1

    def __post_init__(self) -> None:
        if self.topology not in ("ring", "von neumann", "random"):
            raise ValueError(f"topology must be 'ring', 'von neumann' or 'random', got {self.topology!r}")
        object.__setattr__(self, "size", whole_number("size", self.size, 1))

    def __call__(self, swarm: Swarm, draw: RandomSource) -> Array:
        """The best neighbour of each particle."""
        xp = namespace(swarm.position)
        n = swarm.n_particles
        itself = xp.arange(n)[:, None]
        if self.topology == "random":
            others = xp.astype(draw.uniform(n, self.size) * n, xp.int64)
            neighbours = xp.concat([others, xp.broadcast_to(itself, (*others.shape[:-1], 1))], axis=-1)
        else:
            offsets = ring(n, self.size) if self.topology == "ring" else von_neumann(n)
            neighbours = xp.broadcast_to(xp.asarray(offsets), (*swarm.value.shape[:-1], *offsets.shape))
        flat = xp.reshape(neighbours, (*neighbours.shape[:-2], -1))
        scores = xp.take_along_axis(score(swarm.best_value, swarm.repeats), flat, axis=-1)
        winner = best(xp.reshape(scores, neighbours.shape))[..., None]
        winner = xp.take_along_axis(neighbours, winner, axis=-1)
        return xp.take_along_axis(swarm.best_position, winner, axis=-2)


def ring(n: int, size: int = 1) -> Any:
    """Neighbours on a ring, ``(n, 2 size + 1)`` indices."""
    return (np.arange(n)[:, None] + np.arange(-size, size + 1)) % n


def von_neumann(n: int) -> Any:
    """Neighbours on a wrapped grid, as square as ``n`` allows, ``(n, 5)`` indices.

    The last row may be short. Vertical neighbours are then counted along the ring of all particles, so that every
    particle has four neighbours and the relation is mutual.
    """
    columns = math.isqrt(n)
    return (np.arange(n)[:, None] + np.asarray([0, -1, 1, -columns, columns])) % n


def _average(position: Array, weight: Array) -> Array:
    xp = namespace(position)
    total = xp.sum(weight, axis=-1, keepdims=True)
    share = xp.where(
        total > 0, weight / xp.where(total > 0, total, 1.0), 1 / weight.shape[-1]
    )  # if all failed, all weigh the same
    return xp.sum(share[..., None] * position, axis=-2, keepdims=True)
