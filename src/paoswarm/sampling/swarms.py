"""PAO looks for modes where climbs do not suffice: on ground with so many peaks that each climb ends at another."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from paoswarm.core.arrays import Floats
from paoswarm.optimize.optimizer import Optimizer
from paoswarm.sampling.target import Target

SWARMS = 8  # that know nothing of each other
_PARTICLES = 20
STEPS = 50
_REMEMBERED = 5  # bests of each swarm, with which a last one begins


def swarms_cost(steps: int) -> int:
    """Likelihood evaluations of so many steps of every swarm."""
    return steps * SWARMS * (_PARTICLES + _REMEMBERED)


def best_of_swarms(target: Target, z: Floats, value: Floats, n_max: int, rng: np.random.Generator) -> Floats:
    """The highest places that swarms come to, ``(SWARMS + 1, d)``, with at most ``n_max`` likelihood evaluations.

    All but the last are independent: each sets out from the highest of its own share of the draws ``z``, which have
    heights ``value``; as many as there are swarms must be finite. The last begins with the best that the others know.
    """
    steps = min(STEPS, n_max // swarms_cost(1))
    box = np.stack([z.min(axis=0), z.max(axis=0)], axis=1)
    *sources, last = rng.spawn(SWARMS + 1)
    known = np.flatnonzero(np.isfinite(value))
    shares = [known[i::SWARMS] for i in range(SWARMS)]
    firsts = [share[np.argsort(-value[share], kind="stable")[:_PARTICLES]] for share in shares]
    apart = [
        Optimizer(box, n_particles=_PARTICLES, x0=z[first], f0=-value[first], rng=source)
        for first, source in zip(firsts, sources, strict=True)
    ]
    _move(target, apart, steps)
    points, values = zip(*map(_remembered, apart), strict=True)
    n = SWARMS * _REMEMBERED
    together = Optimizer(box, n_particles=n, x0=np.concatenate(points), f0=np.concatenate(values), rng=last)
    _move(target, [together], steps)
    return np.stack([swarm.result.x for swarm in (*apart, together)])


def _move(target: Target, swarms: Sequence[Optimizer], steps: int) -> None:
    for _ in range(steps):
        asked = [swarm.ask() for swarm in swarms]
        told = np.split(-target.height(np.concatenate(asked)), np.cumsum([len(points) for points in asked])[:-1])
        for swarm, values in zip(swarms, told, strict=True):
            swarm.tell(values)


def _remembered(optimizer: Optimizer) -> tuple[Floats, Floats]:
    """The best places that a swarm has been to, and their values."""
    found = optimizer.result.swarm
    best = np.argsort(found.best_value, kind="stable")[:_REMEMBERED]
    return found.best_position[best], found.best_value[best]
