"""The reference of compiled engines: NumPy's own step and record, with the deviates that the engine draws."""

import numpy as np

from paoswarm.core import swarm as swarms
from paoswarm.engines import counter
from paoswarm.engines.program import Rules


class Numbers:
    """A source of random numbers that gives the deviates of a run in its generations, one after another."""

    def __init__(self, normals):
        self._normals, self._generation = normals, 0

    def normal(self, two, n, d, single=False):
        self._generation += 1
        return self._normals(self._generation)


def no_rules(**given):
    return Rules(**({"target": -np.inf, "tol": 0.0, "patience": 10**6, "near": 1e-4, "same": 1e-14} | given))


def reference(method, fun, n, lower, upper, keys, generations, normals):
    """Yield the swarms of runs with these keys after every generation, the first swarm included.

    ``normals(t)`` are the deviates ``(runs, 2, n, d)`` of generation ``t``.
    """
    x = counter.first_points(keys, n, lower, upper)
    state = swarms.start(x, fun(x), lower, upper)
    yield state
    step, numbers = method.step, Numbers(normals)
    for t in range(generations):
        proposal = step(state, numbers, t / generations)
        state = method.tell(state, proposal, fun(proposal.position))
        yield state
