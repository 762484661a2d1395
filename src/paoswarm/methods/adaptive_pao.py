"""The adaptive search: large and small dense swarms and element-wise swarms, started again and again."""

from __future__ import annotations

from dataclasses import dataclass, replace

from paoswarm._checks import flag, real_number
from paoswarm.core.arrays import Floats
from paoswarm.methods.agreement import KNOWN, Search
from paoswarm.methods.dense_pao import DensePAO
from paoswarm.methods.element_pao import ElementPAO
from paoswarm.methods.method import check_parallel
from paoswarm.methods.restarts import Growing
from paoswarm.methods.searches import Searches, Series
from paoswarm.methods.sharing import Start

LARGE = 0  # number of the series whose swarms grow
NARROWEST = 2.0  # powers of ten by which the first cloud of a small search may be narrower


@dataclass(frozen=True)
class Small:
    """Dense swarms of chance sizes and widths, no larger than the latest of the growing ones, and not much longer.

    It is the second regime of BIPOP-CMA-ES (Hansen 2009).
    """

    method: DensePAO

    def following(self, own: tuple[Search, ...], past: tuple[Search, ...], d: int, uniform: Floats) -> Start:
        """The next search."""
        large = [one for one in past if one.series == LARGE]
        smallest = self.method.default_particles(d)
        ratio = max(1.0, large[-1].n_particles / smallest)
        method = replace(self.method, spread=self.method.spread * 10 ** (-NARROWEST * float(uniform[0])))
        n_particles = int(smallest * ratio ** float(uniform[1] ** 2))
        whole = [one for one in large if one.ending != KNOWN]  # the first one is
        return Start(method, n_particles, most=2.0 * whole[-1].evaluations, kind="small dense")


@dataclass(frozen=True)
class Shrinking:
    """Element-wise swarms; size and horizon double from search to search."""

    def following(self, own: tuple[Search, ...], past: tuple[Search, ...], d: int, uniform: Floats) -> Start:
        """The next search."""
        times = 2 ** len(own)
        method = ElementPAO(horizon=ElementPAO.horizon * times)
        return Start(method, times * method.default_particles(d), kind="element-wise")


@dataclass(frozen=True)
class AdaptivePAO(Searches):
    r"""Several kinds of adaptive swarms that take turns and start again: the search for problems nobody knows.

    - Dense swarms (`DensePAO`) that double their size from search to search: valleys of any shape, then many minima.
    - Small dense swarms of chance sizes: many quick attempts.
    - Element-wise swarms (`ElementPAO`): unknowns that act independently, regular patterns of minima.

    The first dense search is not interrupted. Then evaluations are shared 4 : 2 : 1 by the values that the latest
    searches of each kind have reached.

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
        that keeps more workers busy. None: as many as `minimize` has workers, at most a hundredth of ``maxfev``; in
        `minimize_many` and `Optimizer` one. A run depends on this number. ``result.method`` holds it, and
        ``parallel=1`` makes runs independent of the workers.

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

    growth: float = 2.0
    model: bool = True
    local: bool = True
    parallel: int | None = None

    def __post_init__(self) -> None:
        real_number("growth", self.growth, 1.0, may_equal=True)
        flag("model", self.model)
        check_parallel(self.parallel)
        flag("local", self.local)

    @property
    def searches_locally(self) -> bool:
        """Whether local searches help to solve problems with constraints."""
        return self.local

    @property
    def series(self) -> tuple[Series, ...]:
        """Growing dense swarms, small dense ones, element-wise ones."""
        dense = DensePAO(model=self.model)
        return Growing(dense, self.growth, kind="growing dense"), Small(dense), Shrinking()
