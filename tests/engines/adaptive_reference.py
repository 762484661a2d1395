"""The reference of adaptive runs: NumPy's own searches, fed with the random numbers of the counter."""

import numpy as np

from paoswarm.core import swarm as swarms
from paoswarm.engines import counter, numba_noise
from paoswarm.methods.dense_pao import DensePAO
from paoswarm.methods.searches import Searches
from paoswarm.methods.sharing import laid_open


def engine_normals(key, generation, n, d):
    """The normal deviates of a search as the engine draws them, rounded to single precision."""
    pairs = -(-n * d // 2)
    words, found = np.empty((2, pairs), dtype=np.uint32), np.empty((2, pairs), dtype=np.float32)
    numba_noise.normals(key, 4 * generation, 0, *words, *found)
    return found.reshape(-1)[: n * d].reshape(n, d).astype(float)


class Numbers:
    """A source of random numbers for the searches of one run, which gives what the contract (E3 to E5) says."""

    def __init__(self, key):
        self._key = key
        self._generations = {}
        self._queue = []

    def expect(self, search, lane, d):
        """The next part belongs to this search; ``lane`` is None if it begins."""
        own = counter.search_key(self._key, search)
        if lane is None:
            self._queue = [("uniform", counter.chances(own)), ("hypercube", own)]
            return
        if isinstance(lane.start.method, DensePAO):
            if lane.swarm.memory.open is not None:
                self._queue = []
                return
            t = self._next(search)
            self._queue = [("normal", engine_normals(own, t, lane.swarm.n_particles, d))]
            return
        n, t = lane.swarm.n_particles, self._next(search)
        of = counter.particle_numbers(own, t, n)
        self._queue = [
            ("uniform", of["period"]),
            ("normal", of["rate"]),
            ("uniform", of["steps"]),
            ("uniform", np.stack([of["leader"], of["other"], of["third"]])),
            ("normal", engine_normals(own, t, n, d)),
            ("uniform", counter.search_uniforms(own, t, n, d)),
            ("uniform", of["always"]),
        ]

    def _next(self, search):
        self._generations[search] = self._generations.get(search, 0) + 1
        return self._generations[search]

    def normal(self, *shape):
        return self._take("normal", shape)

    def uniform(self, *shape):
        if self._queue[0][0] == "hypercube":  # first what is sorted to make the slices
            own = self._queue.pop(0)[1]
            d, n = shape
            points = counter.first_points(own, n, np.zeros(d), np.ones(d))
            slices = np.floor(points * n).astype(int)
            order = np.empty((d, n))
            np.put_along_axis(order, slices.T, np.arange(n)[None] / n, axis=1)
            self._queue = [("uniform", points * n - slices)]
            return order
        return self._take("uniform", shape)

    def _take(self, kind, shape):
        expected, numbers = self._queue.pop(0)
        assert (expected, numbers.shape) == (kind, shape)
        return numbers


def reference(method, fun, n, lower, upper, key):
    """Yield the swarm of a run after every generation, the first included, with the number of points evaluated."""
    numbers, d = Numbers(key), len(lower)
    x = counter.first_points(counter.search_key(key, 0), n, lower, upper)
    state = method.begin(swarms.start(x, fun(x), lower, upper))
    yield state, n
    while True:
        if isinstance(method, Searches):
            sharing = laid_open(state)
            _, lane = sharing.turn()
            numbers.expect(sharing.n_begun if lane is None else lane.search, lane, d)
        else:
            numbers.expect(0, _Alone(method, state), d)
        proposal = method.ask(state, numbers)
        state = method.tell(state, proposal, fun(proposal.position))
        yield state, len(proposal.position)


class _Alone:
    """A single swarm, as a lane."""

    def __init__(self, method, swarm):
        self.start, self.swarm = self, swarm
        self.method = method
