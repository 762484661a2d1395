"""Independent PAO swarms that look for the heaviest of many peaks, where every climb ends at another peak."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from paoswarm.algorithms.pao import PAO
from paoswarm.core import order
from paoswarm.core.arrays import Floats
from paoswarm.optimize.optimizer import Optimizer
from paoswarm.sampling.climbs import climb, climb_cost
from paoswarm.sampling.modes import Mode
from paoswarm.sampling.starts import Draws
from paoswarm.sampling.target import Target

SWARMS = 8  # independent swarms
_PARTICLES = 20  # particles of a swarm
_STEPS = 50  # steps of a swarm, at most
_STEPS_AT_LEAST = 10  # steps below which swarms are not worth their cost
_REMEMBERED = 5  # best points of each swarm with which the last swarm begins


def send_swarms(target: Target, draws: Draws, n_max: int, rng: np.random.Generator) -> tuple[list[Mode], list[Mode]]:
    """Modes to which climbs from the ends of independent swarms lead, and from the end of a last swarm.

    The last swarm begins with the best points of the others. At most ``n_max`` likelihood evaluations are spent.
    """
    per_climb = climb_cost(target.dim)
    best = best_of_swarms(target, draws, n_max - (SWARMS + 1) * per_climb, rng)
    apart = climb(target, best[:SWARMS], SWARMS * per_climb).modes
    return apart, climb(target, best[SWARMS:], per_climb).modes


def least_cost(dim: int) -> int:
    """Likelihood evaluations of the shortest `send_swarms` that is worth it."""
    return _moves_cost(_STEPS_AT_LEAST) + (SWARMS + 1) * climb_cost(dim)


def full_cost(dim: int) -> int:
    """Likelihood evaluations of the longest `send_swarms`."""
    return _moves_cost(_STEPS) + (SWARMS + 1) * climb_cost(dim)


def _moves_cost(n_steps: int) -> int:
    return n_steps * SWARMS * (_PARTICLES + _REMEMBERED)


def best_of_swarms(target: Target, draws: Draws, n_max: int, rng: np.random.Generator) -> Floats:
    """The highest points that swarms find, ``(SWARMS + 1, d)``, with at most ``n_max`` likelihood evaluations.

    All but the last are independent: each begins with the highest of its own share of the draws. At least as many draws
    as there are swarms must be finite. The last swarm begins with the best points of the others.
    """
    n_steps = min(_STEPS, n_max // _moves_cost(1))
    box = np.stack([draws.z.min(axis=0), draws.z.max(axis=0)], axis=1)
    *sources, last = rng.spawn(SWARMS + 1)
    finite = np.flatnonzero(np.isfinite(draws.height))
    shares = [finite[i::SWARMS] for i in range(SWARMS)]
    firsts = [share[np.argsort(-draws.height[share], kind="stable")[:_PARTICLES]] for share in shares]
    apart = [
        Optimizer(box, method=PAO(), n_particles=_PARTICLES, x0=draws.z[first], f0=-draws.height[first], rng=source)
        for first, source in zip(firsts, sources, strict=True)
    ]
    _move(target, apart, n_steps)
    points, values = zip(*map(_remembered, apart), strict=True)
    n = SWARMS * _REMEMBERED
    together = Optimizer(
        box, method=PAO(), n_particles=n, x0=np.concatenate(points), f0=np.concatenate(values), rng=last
    )
    _move(target, [together], n_steps)
    return np.stack([swarm.result.x for swarm in (*apart, together)])


def _move(target: Target, swarms: Sequence[Optimizer], n_steps: int) -> None:
    """Move all swarms, with one call of the likelihood per step."""
    for _ in range(n_steps):
        asked = [swarm.ask() for swarm in swarms]
        told = np.split(-target.height(np.concatenate(asked)), np.cumsum([len(points) for points in asked])[:-1])
        for swarm, values in zip(swarms, told, strict=True):
            swarm.tell(values)


def _remembered(optimizer: Optimizer) -> tuple[Floats, Floats]:
    """The best points that a swarm has found, and their values."""
    found = optimizer.result.swarm
    best = order.ranked(found.best_value)[:_REMEMBERED]
    return found.best_position[best], found.best_value[best]
