"""The searches for problems that nobody knows: several kinds of swarms take turns and start again.

`AdaptivePAO` is for numbers, `MixedPAO` for spaces with whole numbers and choices. Both take further kinds of searches.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from paoswarm._checks import choices, flag, real_number
from paoswarm.core import noise
from paoswarm.core.arrays import Array, Floats
from paoswarm.core.swarm import Swarm
from paoswarm.methods import moves
from paoswarm.methods.agreement import KNOWN, Search
from paoswarm.methods.dense_pao import DensePAO
from paoswarm.methods.element_pao import ElementPAO
from paoswarm.methods.method import Method, check_parallel
from paoswarm.methods.model_search import ModelSearch
from paoswarm.methods.pao import PAO
from paoswarm.methods.searches import Growing, Searches, Series
from paoswarm.methods.sharing import Start

LOCAL, DENSE, SMALL = "local model", "growing dense", "small dense"
NARROWEST = 2.0  # powers of ten by which the first cloud of a small search may be narrower
_FEWEST, _PER_UNKNOWN = 20, 6  # particles; covariance noise needs a few for each coordinate
_PATIENCE = 60  # generations in which no particle has improved its best
_HORIZON = 1000.0  # evaluations for each unknown of the first search by a user's method
_LONGEST = 300.0  # evaluations of the first search for each coordinate: later, element-wise swarms gain more

Kind = str | Method


@dataclass(frozen=True)
class Local:
    """Searches by quadratic models, each from other points."""

    share: float = 0.25
    waits_for: tuple[int, int] = (0, 0)

    def following(self, own: tuple[Search, ...], past: tuple[Search, ...], d: int, uniform: Floats) -> Start:
        """The next search."""
        method = ModelSearch()
        return Start(method, method.default_particles(d), most=150.0 * d, kind=LOCAL)


@dataclass(frozen=True)
class Small:
    """Dense swarms of chance sizes and widths, no larger than the latest of the first series, and not much longer.

    It is the second regime of BIPOP-CMA-ES (Hansen 2009). In the first series they are of the smallest size, and
    as long as they need.
    """

    method: DensePAO
    large: int  # number of the first series
    share: float = 1.0
    waits_for: tuple[int, int] = (0, 0)

    def following(self, own: tuple[Search, ...], past: tuple[Search, ...], d: int, uniform: Floats) -> Start:
        """The next search."""
        large = [one for one in past if one.series == self.large]
        smallest = self.method.default_particles(d)
        ratio = max(1.0, large[-1].n_particles / smallest) if large else 1.0
        method = replace(self.method, spread=self.method.spread * 10 ** (-NARROWEST * float(uniform[0])))
        n_particles = int(smallest * ratio ** float(uniform[1] ** 2))
        whole = [one.evaluations for one in large if one.ending != KNOWN]  # the first one is
        return Start(method, n_particles, most=2.0 * whole[-1] if whole else math.inf, kind=SMALL)


@dataclass(frozen=True)
class Shrinking:
    """Element-wise swarms; size and horizon double from search to search."""

    share: float = 1.0
    waits_for: tuple[int, int] = (0, 0)

    def following(self, own: tuple[Search, ...], past: tuple[Search, ...], d: int, uniform: Floats) -> Start:
        """The next search."""
        times = 2 ** len(own)
        method = ElementPAO(horizon=ElementPAO.horizon * times)
        return Start(method, times * method.default_particles(d), kind="element-wise")


class Contracting(PAO):
    """A swarm with covariance noise that ends when no particle makes progress: its bests may share a whole number."""

    applies_walls = True
    joined = staticmethod(moves.one_for_each)

    def has_converged(self, state: Swarm, spread: Array, tol: float) -> Array:
        """Whether the swarm is a point, or has stopped improving."""
        return np.asarray((spread < tol) | (state.age.min(axis=-1) >= _PATIENCE))

    def tolerant_for(self, n_unknowns: int, n_particles: int) -> float:
        """40 generations: four fifths of the first search."""
        return 40.0 * n_particles


_CONTRACTING = Contracting(noise_scale=noise.covariance)


@dataclass(frozen=True)
class Lengthening:
    """Swarms with covariance noise, all of the same size; each may last twice as long as the one before."""

    share: float = 1.0
    waits_for: tuple[int, int] = (0, 0)

    def following(self, own: tuple[Search, ...], past: tuple[Search, ...], d: int, uniform: Floats) -> Start:
        """The next search."""
        most = _LONGEST * d * 2.0 ** len(own)
        return Start(_CONTRACTING, max(_FEWEST, _PER_UNKNOWN * d), most=most, kind="covariance")


def check_kinds(kinds: Any, ours: tuple[Kind, ...]) -> tuple[Kind, ...]:
    """The kinds of searches as a tuple; an error unless each is one of ``ours`` or a method."""
    kinds = (kinds,) if isinstance(kinds, Kind) else kinds
    if not isinstance(kinds, tuple | list) or not kinds:
        raise TypeError(f"kinds must be one or more methods or names of searches, got {kinds!r}")
    for kind in kinds:
        if isinstance(kind, str) and kind not in ours:
            raise ValueError(f"unknown kind of search {kind!r}; {choices(kind, map(str, ours))}")
        if not isinstance(kind, Kind):
            hint = f"; write {kind.__name__}()" if isinstance(kind, type) and issubclass(kind, Method) else ""
            raise TypeError(f"kinds must be methods, PAO() for example, or names of searches, got {kind!r}{hint}")
    return tuple(kinds)


def series_of(kinds: tuple[Kind, ...], ours: Mapping[str, Series], growth: float = 2.0) -> tuple[Series, ...]:
    """A series for each kind of search: one of ``ours``, or the user's method."""
    return tuple(ours[one] if isinstance(one, str) else Growing(one, growth, longest=_HORIZON) for one in kinds)


@dataclass(frozen=True)
class AdaptivePAO(Searches):
    r"""Several kinds of searches that take turns and start again: the search for problems nobody knows.

    - Searches by a local quadratic model, the first one before any swarm: smooth functions and small budgets. Calls
      without ``method`` leave them out with constraints, noise (``reevaluate``) or a compiled engine.
    - Dense swarms (`DensePAO`) that treble their size from search to search: valleys of any shape, then many minima.
    - Small dense swarms of chance sizes: many quick attempts.
    - Element-wise swarms (`ElementPAO`): unknowns that act independently, regular patterns of minima.

    The first local search and the first dense one are not interrupted, and element-wise swarms wait for the second
    dense one. Then evaluations are shared by the values that the latest searches of each kind have reached: each kind
    gets twice as many as the next worse one, local models a quarter of that.

    Parameters
    ----------
    growth : float
        Factor of the number of particles from one growing dense search to the next.
    model : bool
        Whether dense swarms use a quadratic model; see `DensePAO`.
    local : bool
        Whether problems with constraints are also searched by sequential quadratic programming, from the best points
        and from random ones. It takes at most three quarters of the evaluations, and a tenth if it finds nothing.
    parallel : int or None
        How many points are evaluated at once. Sizes of swarms are multiples of it, and searches move side by side if
        that keeps more workers busy. None: as many as `minimize` has workers, half as many if they are asynchronous,
        at most a hundredth of ``maxfev``; in `minimize_many` and `Optimizer` one. A run depends on this number.
        ``result.method`` holds it, and ``parallel=1`` makes runs independent of the workers.
    kinds : sequence of str and Method
        The kinds of searches, the first one begins: ``AdaptivePAO.swarms`` are all but the local model. A method of
        yours, `PAO` with your attractors or noise for example, is a further kind:
        ``kinds=(*AdaptivePAO.kinds, method)``. Its searches end when the method has converged. The first one takes at
        most 1000 evaluations for each unknown; after one that was cut short, the next one may last twice as long.

    Examples
    --------
    >>> import numpy as np
    >>> import paoswarm as ps
    >>> def rastrigin(x):
    ...     return (x**2 - 10 * np.cos(2 * np.pi * x) + 10).sum(axis=-1)
    >>> result = ps.minimize(rastrigin, [(-4, 5)] * 5, method=ps.AdaptivePAO(), target=1e-8, vectorized=True, rng=1)
    >>> bool(result.fun <= 1e-8)
    True
    """

    growth: float = 3.0
    model: bool = True
    local: bool = True
    parallel: int | None = None
    kinds: tuple[Kind, ...] = (LOCAL, DENSE, SMALL, "element-wise")
    swarms: ClassVar[tuple[Kind, ...]] = (DENSE, SMALL, "element-wise")

    def __post_init__(self) -> None:
        real_number("growth", self.growth, 1.0, may_equal=True)
        flag("model", self.model)
        check_parallel(self.parallel)
        flag("local", self.local)
        object.__setattr__(self, "kinds", check_kinds(self.kinds, AdaptivePAO.kinds))

    @property
    def series(self) -> tuple[Series, ...]:
        """How the searches of each kind follow each other."""
        dense = DensePAO(model=self.model)
        is_growing = DENSE in self.kinds
        large = self.kinds.index(DENSE) if is_growing else 0
        once, twice = (large, int(is_growing)), (large, 2 * is_growing)
        ours: dict[str, Series] = {
            LOCAL: Local(waits_for=once),
            DENSE: Growing(dense, self.growth, kind=DENSE),
            SMALL: Small(dense, large, waits_for=once),
            "element-wise": Shrinking(waits_for=twice),
        }
        return series_of(self.kinds, ours, self.growth)


@dataclass(frozen=True)
class MixedPAO(Searches):
    """Swarms that take turns and start again, for spaces with whole numbers and choices.

    - `PAO` with covariance noise: the bests that it remembers lie on whole numbers, and their differences carry it
      from one to the next. This is quick in the beginning. The first search is cut short after 300 evaluations for
      each coordinate, and each one after it may last twice as long.
    - Element-wise swarms (`ElementPAO`) that double their size and horizon: one variable may change alone.

    It is the default if a variable is an `Integer` or a `Choice`. Dense swarms, which `AdaptivePAO` begins with, lose
    their spread along whole numbers.

    Parameters
    ----------
    parallel : int or None
        How many points are evaluated at once, as in `AdaptivePAO`.
    kinds : sequence of str and Method
        The kinds of searches, as in `AdaptivePAO`.

    Examples
    --------
    >>> import paoswarm as ps
    >>> space = {"order": ps.Integer(1, 40), "width": (0, 5)}
    >>> result = ps.minimize(lambda p: (p["order"] - 7 * p["width"]) ** 2 + (p["width"] - 2) ** 2, space, rng=1)
    >>> result.best["order"], round(result.best["width"], 6), type(result.method).__name__
    (14, 2.0, 'MixedPAO')
    """

    parallel: int | None = None
    kinds: tuple[Kind, ...] = ("covariance", "element-wise")

    def __post_init__(self) -> None:
        check_parallel(self.parallel)
        object.__setattr__(self, "kinds", check_kinds(self.kinds, MixedPAO.kinds))

    @property
    def series(self) -> tuple[Series, ...]:
        """How the searches of each kind follow each other."""
        return series_of(self.kinds, {"covariance": Lengthening(), "element-wise": Shrinking()})
