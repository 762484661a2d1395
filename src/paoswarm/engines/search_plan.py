"""Adaptive searches as numbers: how the searches of a method follow each other, for a compiled engine.

What cannot be written in this way is refused here, with the name of the engine that has it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from paoswarm.engines.program import NotCompiled
from paoswarm.methods.adaptive_pao import AdaptivePAO, Shrinking, Small
from paoswarm.methods.dense_pao import DensePAO
from paoswarm.methods.element_pao import ElementPAO
from paoswarm.methods.low_rank import MANY, has_many
from paoswarm.methods.method import Method
from paoswarm.methods.searches import Growing, Portfolio, Restarts
from paoswarm.methods.sharing import Start

GROWING, SMALL, SHRINKING = range(3)  # how the searches of a series follow each other
SERIES = np.dtype(
    [
        *((name, np.int64) for name in ("rule", "is_dense", "has_model", "smallest", "least", "large", "waits_for")),
        *((name, np.float64) for name in ("growth", "spread", "horizon", "noise", "share")),
    ]
)
_SINGLE, _OVER_OTHERS = (DensePAO, ElementPAO), (AdaptivePAO, Restarts, Portfolio)


class SearchPlan(NamedTuple):
    """The searches of a method.

    Attributes
    ----------
    method : Method
    is_single : bool
        Whether there is one search only, which is not started again.
    kinds : tuple of Growing, Small or Shrinking
        The series, as the method describes them.
    series : array (k,) of `SERIES`
        The same as numbers.
    """

    method: Method
    is_single: bool
    kinds: tuple[Any, ...]
    series: Any

    def start(self, series: int, n_particles: int, spread: float, horizon: float, most: float) -> Start:
        """The description of a search with these numbers, as `AdaptivePAO` gives it."""
        kind = self.kinds[series]
        if isinstance(kind, Shrinking):
            return Start(ElementPAO(horizon=round(horizon)), n_particles, kind="element-wise")
        if isinstance(kind, Small):
            return Start(replace(kind.method, spread=spread), n_particles, most, kind="small dense")
        return Start(kind.method, n_particles, kind=kind.kind)

    def kind(self, series: int) -> str:
        """What sort of searches a series has, for people."""
        start = self.start(series, 0, 1.0, 1.0, 0.0)
        return start.kind or type(start.method).__name__


def is_adaptive(method: Method) -> bool:
    """Whether a method is an adaptive search."""
    return type(method) in (*_SINGLE, *_OVER_OTHERS)


def read_plan(method: Method, d: int) -> SearchPlan:
    """The plan of an adaptive search for ``d`` unknowns; an error that says why if it cannot be one."""
    parallel = getattr(method, "parallel", None)
    if parallel is not None and parallel > 1:
        raise NotCompiled(f"engine='numba' evaluates one point at a time; parallel={parallel} needs engine='numpy'")
    if isinstance(method, _SINGLE):
        kinds: tuple[Any, ...] = (Growing(method),)
    else:
        assert isinstance(method, _OVER_OTHERS)
        if isinstance(method, AdaptivePAO) and method.kinds != AdaptivePAO.swarms:
            raise NotCompiled(
                "compiled engines have no searches but our swarms: use AdaptivePAO(kinds=AdaptivePAO.swarms), "
                "or engine='numpy'"
            )
        kinds = method.series
    rows = [_numbers(kind, d) for kind in kinds]
    return SearchPlan(method, isinstance(method, _SINGLE), kinds, np.array(rows, dtype=SERIES))


def _numbers(kind: Any, d: int) -> tuple[float, ...]:
    """One series as numbers, in the order of `SERIES`."""
    large, waits_for = kind.waits_for
    if isinstance(kind, Shrinking):
        first = kind.following((), (), d, np.zeros(2))
        method: Any = first.method
        sizes = first.n_particles, method.smallest_swarm, large, waits_for
        return SHRINKING, 0, 0, *sizes, 1.0, 0.0, method.horizon, method.noise, kind.share
    method = kind.method
    if type(method) not in _SINGLE:
        raise NotCompiled(
            f"compiled engines start DensePAO and ElementPAO again; {type(method).__name__} needs engine='numpy'"
        )
    rule, growth = (SMALL, 1.0) if isinstance(kind, Small) else (GROWING, kind.growth)
    sizes = method.default_particles(d), method.smallest_swarm, large, waits_for
    if isinstance(method, DensePAO):
        if has_many(d):
            raise NotCompiled(
                f"engine='numba' has dense swarms for up to {MANY} unknowns, got {d}; use engine='numpy', whose dense "
                "swarms have a law for many unknowns"
            )
        return rule, 1, int(method.model), *sizes, growth, method.spread, 0.0, 0.0, kind.share
    return rule, 0, 0, *sizes, growth, 0.0, float(method.horizon), method.noise, kind.share
