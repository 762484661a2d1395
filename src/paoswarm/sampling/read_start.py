"""Read `start=`: points near modes that the user already knows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.optimize import OptimizeResult

from paoswarm.core.arrays import Floats
from paoswarm.sampling.starts import spread_out
from paoswarm.spaces.choices import Fixed
from paoswarm.spaces.space import Space

_REMEMBERED = 32  # best points of a swarm to start from, spread out


def is_search(start: Any) -> bool:
    """Whether it is an optimisation result, or a list of results."""
    several = isinstance(start, list | tuple) and any(isinstance(one, OptimizeResult) for one in start)
    return several or isinstance(start, OptimizeResult)


def known_points(start: Any, names: list[str]) -> Floats | None:
    """Points near modes ``(m, d)``; for a result of `minimize`, its best point and the best points of its particles."""
    if start is None:
        return None
    if is_search(start) and not isinstance(start, OptimizeResult):
        return np.concatenate([points for one in start if (points := known_points(one, names)) is not None])
    if isinstance(start, OptimizeResult) and "swarm" in start:
        swarms = start.swarm if type(start.swarm) is tuple else (start.swarm,)  # runs may differ in size
        value = np.concatenate([swarm.best_value.reshape(-1) for swarm in swarms])
        best = np.concatenate([swarm.best_position.reshape(-1, swarm.n_dimensions) for swarm in swarms])
        best = best[np.isfinite(value)]
        chosen = spread_out(best, -value[np.isfinite(value)], _REMEMBERED)
        if "space" not in start:
            return np.concatenate([np.atleast_2d(start.x), best[chosen]])
        return _parameters(start.space, np.concatenate([np.atleast_2d(start.x), start.space.rows(best[chosen])]), names)
    if isinstance(start, Mapping) and not isinstance(start, OptimizeResult):
        if set(start) != set(names):
            raise ValueError(f"start must name every parameter of the prior, {names}, got {list(start)}")
        try:
            start = np.stack(np.broadcast_arrays(*(start[name] for name in names)), axis=-1)
        except ValueError:
            raise ValueError(f"start must have the same number of values for every parameter, got {start}") from None
    try:
        points = np.atleast_2d(np.asarray(start, dtype=float))
    except (TypeError, ValueError):
        points = np.empty(())
    if points.ndim != 2 or points.size == 0:
        raise TypeError(
            "start must be a result of minimize or minimize_many, points of shape (m, d), or a dict of values by name, "
            f"got {start!r}"
        )
    return points


def _parameters(space: Space, rows: Floats, names: list[str]) -> Floats:
    """The parameters of a prior among the variables of a space: by name, or those that are not fixed."""
    if space.names is None:
        return rows[:, [not isinstance(one, Fixed) for one in space.variables]]
    if missing := [name for name in names if name not in space.names]:
        raise ValueError(f"start: the result has no variable {missing[0]!r}, which the prior has")
    return rows[:, [space.names.index(name) for name in names]]
