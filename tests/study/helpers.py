"""Studies small enough to run in no time, problems made by hand, and comparisons to the last bit."""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

import paoswarm as ps
from paoswarm.problems import Problem


def small(**changes):
    """A study of eight cells, three runs of 48 evaluations each."""
    options = {
        "problems": ["sphere", "rastrigin-shifted"],
        "methods": {"PAO": ps.PAO(), "PSO": ps.classic.PSO()},
        "dims": [2, 3],
        "runs": 3,
        "population": 8,
        "generations": 5,
    }
    return ps.study.Study(**(options | changes))


def bowl(x):
    """Its minimum is 0, at 0.3 in every direction."""
    return ((x - 0.3) ** 2).sum(axis=-1)


def own_problem(function=bowl, name="bowl", minimum=0.0, half_width=1.0):
    """A function of the dimension that makes a problem, as a user would write one; it can be sent to workers."""
    return partial(_made, function, name, minimum, half_width)


def _made(function, name, minimum, half_width, dim):
    side = np.full(dim, half_width)
    return Problem(name, name.title(), -side, side, np.full(dim, 0.3), minimum, function)


class Counting:
    """An objective that keeps every point it was asked for."""

    def __init__(self, function=bowl):
        self.function, self.points = function, []

    def __call__(self, x):
        self.points.extend(np.array(x, ndmin=2))
        return self.function(x)


@dataclass(frozen=True)
class Moving:
    """A problem that is another one in every run: run r has its bowl at r/10, and its minimum is 100 r."""

    dim: int
    number: int | None = None  # of the run, where it is that of a run
    log: list | None = None  # of the numbers of all evaluated points

    name = "moving"
    title = "Moving bowl"
    instanced = True

    @property
    def bounds(self):
        return np.tile([-2.0, 2.0], (self.dim, 1))

    @property
    def minimum(self):
        return 100.0 * self.number if self.number is not None else -1e9  # whoever takes that one shows it

    def instance(self, run):
        return replace(self, number=run)

    def __call__(self, x):
        assert self.number is not None, "only instances are evaluated"
        if self.log is not None:
            self.log.extend([self.number] * len(np.atleast_2d(x)))
        return ((x - self.number / 10) ** 2).sum(axis=-1) + 100.0 * self.number


def random_search(fun, bounds, *, population, seed):
    """An adapter that asks for rows of points."""
    rng = np.random.default_rng(seed)
    while True:
        fun(rng.uniform(*bounds.T, size=(population, len(bounds))))


def assert_same_results(one, other):
    """Everything that is read from them is the same, the numbers to the last bit."""
    assert replace(one, traces={}) == replace(other, traces={})
    assert one.traces.keys() == other.traces.keys()
    for key, trace in one.traces.items():
        assert_same_trace(trace, other.traces[key])


def assert_same_trace(one, other):
    np.testing.assert_array_equal(one.evaluations, other.evaluations, strict=True)
    np.testing.assert_array_equal(one.error, other.error, strict=True)
