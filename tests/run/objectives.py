"""Objectives with known optima, all shifted, and the comparison of whole runs."""

import numpy as np
from numpy.testing import assert_array_equal

CENTRE = np.array([1.3, -2.1, 0.4, 2.7, -3.3, 0.9, -0.6, 1.8])


def sphere(x):
    """Optimum 0 at the first elements of `CENTRE`; any number of points."""
    return ((x - CENTRE[: np.shape(x)[-1]]) ** 2).sum(axis=-1)


def rastrigin(x):
    z = x - CENTRE[: np.shape(x)[-1]]
    return (z**2 - 10 * np.cos(2 * np.pi * z) + 10).sum(axis=-1)


def ackley(x):
    z = x - CENTRE[: np.shape(x)[-1]]
    radius, waves = np.sqrt((z**2).mean(axis=-1)), np.cos(2 * np.pi * z).mean(axis=-1)
    return 20 + np.e - 20 * np.exp(-0.2 * radius) - np.exp(waves)


def rosenbrock(x):
    a, b = x[..., :-1], x[..., 1:]
    return (100 * (b - a**2) ** 2 + (1 - a) ** 2).sum(axis=-1)


def squared_distance(centre):
    return lambda x: ((x - np.asarray(centre)) ** 2).sum(axis=-1)


def noisy(fun, sd, seed):
    """The same function, measured with Gaussian errors."""
    rng = np.random.default_rng(seed)
    return lambda x: fun(x) + sd * rng.standard_normal(np.shape(x)[:-1])


class Recording:
    """An objective that remembers every point it was given, and the values it returned."""

    def __init__(self, fun):
        self.fun = fun
        self.points = []
        self.values = []
        self.calls = 0

    def __call__(self, x):
        self.calls += 1
        self.points.extend(np.array(x, ndmin=2))
        value = self.fun(x)
        self.values.extend(np.atleast_1d(value))
        return value


class NoisyByVisit:
    """Noise that depends on the point and on how often it was visited: no matter in what order or company."""

    def __init__(self, fun, sd):
        self.fun, self.sd = fun, sd
        self.visits = {}

    def __call__(self, x):
        visit = self.visits[x.tobytes()] = self.visits.get(x.tobytes(), 0) + 1
        rng = np.random.default_rng([visit, *x.view(np.uint64).tolist()])
        return self.fun(x) + self.sd * rng.standard_normal()


def assert_same_swarm(one, other):
    for name in one._fields:
        if name != "repeats":
            assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
    assert (one.repeats is None) == (other.repeats is None)
    for mine, theirs in zip(one.repeats or (), other.repeats or (), strict=True):
        assert_array_equal(mine, theirs)


def assert_same_run(one, other):
    """Bit for bit."""
    for name in ("x", "fun", "fun_error", "status", "message", "nit", "nfev", "n_failed"):
        assert_array_equal(one.get(name), other.get(name), err_msg=name)
    for name in ("best", "mean", "spread", "nfev"):
        assert_array_equal(getattr(one.history, name), getattr(other.history, name), err_msg=name)
    assert_same_swarm(one.swarm, other.swarm)
