"""Swarms written out by hand, deviates that are given instead of drawn, and quadrature.

All arrays are read-only: a kernel that writes into its input fails.
"""

import numpy as np

from paoswarm.core import swarm as kernels

LOWER, UPPER = (-1.0, -2.0), (3.0, 4.0)
BESTS = ((0.0, 0.0), (1.0, 2.0), (2.0, -1.0), (-0.5, 3.0))  # particle 1 leads, particle 3 never succeeded
BEST_VALUES = (3.0, 1.0, 2.0, np.nan)
POSITIONS = ((0.5, 0.5), (1.5, 1.0), (2.5, -1.5), (-0.5, 2.0))
VELOCITIES = ((1.0, -1.0), (0.0, 0.5), (-2.0, 0.25), (3.0, 1.5))
VALUES = (4.0, 1.5, 2.5, np.nan)


def swarm():
    return moved(BESTS, BEST_VALUES, POSITIONS, VELOCITIES, VALUES, LOWER, UPPER)


def moved(bests, best_values, positions, velocities, values, lower, upper, noisy=False):
    """A swarm that started at its bests and then moved on to worse points."""
    first = kernels.start(frozen(bests), frozen(best_values), frozen(lower), frozen(upper), noisy=noisy)
    return kernels.record(first, kernels.Proposal(frozen(positions), frozen(velocities)), frozen(values))


def drawn(seed, n=7, d=3, batch=()):
    """A swarm without any symmetry in the box (-2, 5)^d."""
    rng = np.random.default_rng(seed)
    bests, positions = rng.uniform(-2, 5, (2, *batch, n, d))
    velocities = rng.normal(size=(*batch, n, d))
    best_values = rng.normal(size=(*batch, n))
    return moved(bests, best_values, positions, velocities, best_values + 1, [-2.0] * d, [5.0] * d)


def one_run(swarm, r):
    """Run ``r`` of a batch, alone."""
    return kernels.map_runs(lambda a: a[r], swarm)


def mapped(swarm, points=lambda x: x, vectors=lambda v: v, values=lambda f: f):
    """The same swarm in other coordinates, or with another objective."""
    return swarm._replace(
        position=points(swarm.position),
        velocity=vectors(swarm.velocity),
        best_position=points(swarm.best_position),
        global_best=points(swarm.global_best),
        lower=points(swarm.lower),
        upper=points(swarm.upper),
        value=values(swarm.value),
        best_value=values(swarm.best_value),
        global_value=values(swarm.global_value),
    )


def frozen(numbers):
    array = np.array(numbers, dtype=float)
    array.flags.writeable = False
    return array


class Given:
    """A source of chance that hands out given arrays in order."""

    def __init__(self, normal=(), uniform=()):
        self._normal, self._uniform = list(normal), list(uniform)

    def normal(self, *shape, single=False):
        return self._next(self._normal, shape)

    def uniform(self, *shape):
        return self._next(self._uniform, shape)

    def _next(self, stock, shape):
        array = np.asarray(stock.pop(0), dtype=float)
        assert array.shape[array.ndim - len(shape) :] == shape
        return array


_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)


def quadrature(a, b, panels=20):
    """Nodes and weights of composite Gauss-Legendre quadrature on (a, b); ends may be arrays, the nodes come last."""
    a, b = (np.asarray(end, dtype=float)[..., None, None] for end in (a, b))
    width = (b - a) / panels
    nodes = a + width * (np.arange(panels)[:, None] + 0.5 + 0.5 * _NODES)
    weights = np.broadcast_to(0.5 * width * _WEIGHTS, nodes.shape)
    return nodes.reshape(*nodes.shape[:-2], -1), weights.reshape(*nodes.shape[:-2], -1)
