"""`Restarts` and `Portfolio`: start a method again when it has converged; let several methods share a run."""

from __future__ import annotations

from dataclasses import dataclass

from paoswarm._checks import real_number
from paoswarm.core.arrays import Floats
from paoswarm.methods.agreement import Search
from paoswarm.methods.method import Method, check_parallel
from paoswarm.methods.searches import Searches, Series
from paoswarm.methods.sharing import Start


@dataclass(frozen=True)
class Growing:
    """The same method again and again, with more particles each time."""

    method: Method
    growth: float = 2.0
    kind: str = ""

    def following(self, own: tuple[Search, ...], past: tuple[Search, ...], d: int, uniform: Floats) -> Start:
        """The next search."""
        first = own[0].n_particles if own else self.method.default_particles(d)
        n_particles = max(int(first * self.growth ** len(own)), self.method.smallest_swarm)
        return Start(self.method, n_particles, kind=self.kind)


@dataclass(frozen=True)
class Restarts(Searches):
    """Start a method again whenever it has converged, with more particles each time.

    Parameters
    ----------
    method : Method
        Any method: `PAO`, `DE`, `DensePAO`, your own.
    growth : float
        Factor of the number of particles from search to search; 1 keeps it.
    parallel : int or None
        How many points are evaluated at once; see `AdaptivePAO`.

    Examples
    --------
    >>> import paoswarm as ps
    >>> def two_wells(x):
    ...     return ((x**2 - 1) ** 2).sum(axis=1) + 0.1 * x.sum(axis=1)
    >>> method = ps.Restarts(ps.DensePAO())
    >>> result = ps.minimize(two_wells, [(-2, 2)] * 3, method=method, vectorized=True, rng=1)
    >>> [round(float(x), 2) for x in result.x]
    [-1.01, -1.01, -1.01]
    """

    method: Method
    growth: float = 2.0
    parallel: int | None = None

    def __post_init__(self) -> None:
        check_method(self.method)
        real_number("growth", self.growth, 1.0, may_equal=True)
        check_parallel(self.parallel)

    @property
    def series(self) -> tuple[Series, ...]:
        """One series."""
        return (Growing(self.method, self.growth),)


@dataclass(frozen=True)
class Portfolio(Searches):
    """Let several methods share the evaluations of a run; each is started again when it has converged.

    Methods whose latest search has reached better values get more evaluations: shares are halved from rank to rank.

    Parameters
    ----------
    methods : sequence of Method
        The first one begins, and its first search is not interrupted.
    growth : float
        Factor of the number of particles from search to search of the same method.
    parallel : int or None
        How many points are evaluated at once; see `AdaptivePAO`.
    """

    methods: tuple[Method, ...]
    growth: float = 2.0
    parallel: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "methods", tuple(self.methods))
        for method in self.methods:
            check_method(method)
        if not self.methods:
            raise ValueError("methods is empty: give at least one")
        real_number("growth", self.growth, 1.0, may_equal=True)
        check_parallel(self.parallel)

    @property
    def series(self) -> tuple[Series, ...]:
        """One series for each method."""
        return tuple(Growing(method, self.growth) for method in self.methods)


def check_method(method: object) -> None:
    """Raise unless it is a method."""
    if not isinstance(method, Method):
        raise TypeError(f"give a Method, PAO() for example, got {method!r}")
