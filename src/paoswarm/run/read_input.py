"""Reading what users give: bounds, starting points, values, swarms, each checked before the first evaluation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import Bounds, OptimizeResult

from paoswarm._checks import rounded, unmasked
from paoswarm.core.arrays import Floats
from paoswarm.core.swarm import Swarm
from paoswarm.methods.adaptive_pao import AdaptivePAO, MixedPAO
from paoswarm.methods.method import Method
from paoswarm.methods.registry import method_named
from paoswarm.space.space import Space

Box = tuple[Floats, Floats]
_WIDEST = 1e150


def read_method(method: Any, init: Any = None, space: Space | None = None) -> Method:
    """The method that a user gives, as an object or by its name; for None that of the run continued, or the default."""
    if method is None:
        earlier = init.get("method") if isinstance(init, OptimizeResult) else None
        if isinstance(earlier, Method):
            return earlier
        is_continuous = space is None or space.axes is None or bool(space.axes.is_continuous.all())
        return AdaptivePAO() if is_continuous else MixedPAO()
    if isinstance(method, str):
        return method_named(method)
    if not isinstance(method, Method):
        hint = f"; write {method.__name__}()" if isinstance(method, type) and issubclass(method, Method) else ""
        raise TypeError(f"method must be a paoswarm method such as ps.PAO(), or its name, got {method!r}{hint}")
    return method


_FORM = "bounds must be a sequence of (low, high) pairs, one per unknown, or a scipy.optimize.Bounds"
_TWO_ARRAYS = "; two arrays of ends go into scipy.optimize.Bounds(low, high) or list(zip(low, high))"


def read_bounds(bounds: Any) -> Box:
    """Lower and upper ends from ``[(low, high), ...]``, a ``(d, 2)`` array or ``scipy.optimize.Bounds``."""
    if isinstance(bounds, Bounds):
        ends = np.broadcast_arrays(np.atleast_1d(bounds.lb), np.atleast_1d(bounds.ub))
        if ends[0].ndim != 1 or ends[0].size == 0:
            raise ValueError(f"{_FORM}; got {bounds!r}")
    else:
        ends = _read_pairs(list(bounds) if isinstance(bounds, Iterator) else bounds).T
    lower, upper = (np.array(end, dtype=float) for end in ends)
    hint = _TWO_ARRAYS if len(lower) == 2 and (lower == upper).all() else ""
    for i, (low, high) in enumerate(zip(lower, upper, strict=True)):
        if mistake := _mistake(low, high, i, hint):
            raise ValueError(f"bounds[{i}] is ({low}, {high}): {mistake}")
    return lower, upper


def _read_pairs(bounds: Any) -> Any:
    """An array ``(d, 2)`` from pairs (low, high)."""
    try:
        pairs = rounded(np.asarray(unmasked(bounds)))
    except (ValueError, OverflowError):  # pairs of different lengths, or too large for a float
        raise ValueError(f"{_FORM}; got {bounds!r}") from None
    if pairs.dtype.kind not in "fiu":
        raise ValueError(f"{_FORM}, all of them numbers; got {bounds!r}")
    if pairs.ndim != 2 or pairs.shape[1] != 2 or len(pairs) == 0:
        hint = "; for one unknown write [(low, high)]" if pairs.shape == (2,) else ""
        hint = _TWO_ARRAYS if pairs.ndim == 2 and pairs.shape[0] == 2 else hint
        raise ValueError(f"{_FORM}; got an array of shape {pairs.shape}{hint}")
    return pairs


def _mistake(low: float, high: float, i: int, hint: str) -> str:
    """What is wrong with two ends; empty if nothing is."""
    if np.isnan(low) or np.isnan(high):
        return "a bound cannot be NaN"
    if np.isinf(low) or np.isinf(high):
        return (
            "both ends must be finite, because the first swarm fills the bounds; give the widest range that makes sense"
        )
    if low > high:
        return "the lower end is above the upper one (reversed?)"
    if low == high:
        return f"both ends are equal: drop x[{i}] from the unknowns and set it inside your function{hint}"
    if float(high) - float(low) > _WIDEST:
        return "too wide, because squared distances would overflow; choose another unit, or search the logarithm"
    return ""


def read_points(name: str, points: ArrayLike, box: Box) -> Floats:
    """Points ``(m, d)`` inside the box from one point ``(d,)`` or several."""
    d = len(box[0])
    try:
        array = np.array(unmasked(points), dtype=float, ndmin=2)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name} must be numbers of shape ({d},) or (m, {d}), got {points!r}") from None
    if array.ndim != 2 or array.shape[1] != d or len(array) == 0:
        raise ValueError(f"{name} must have shape ({d},) or (m, {d}) for {d} unknowns, got {np.shape(points)}")
    outside = ~((array >= box[0]) & (array <= box[1]))  # NaN counts as outside
    if outside.any():
        row, column = np.argwhere(outside)[0]
        raise ValueError(
            f"{name} must lie inside the bounds: element {column} of point {row} is {array[row, column]}, "
            f"bounds ({box[0][column]}, {box[1][column]})"
        )
    return array


def read_values(name: str, values: ArrayLike, count: int) -> Floats:
    """``count`` known values; NaN means failed, and so does -inf, which is made NaN."""
    try:
        array = np.array(unmasked(values), dtype=float, ndmin=1)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name} must be {count} real numbers, got {values!r}") from None
    if array.shape != (count,):
        raise ValueError(f"{name} must hold one value for each of the {count} points, got shape {np.shape(values)}")
    return np.where(array == -np.inf, np.nan, array)


def read_swarm(swarm: Swarm, batch: tuple[int, ...], box: Box, *, is_bounded: bool) -> Swarm:
    """A swarm to go on with, in these bounds; raise if it does not fit the problem."""
    lower, upper = box
    n = swarm.n_particles
    shape = (*batch, n, len(lower))
    if swarm.position.shape != shape:
        raise ValueError(f"init is a swarm of shape {swarm.position.shape}, but this problem needs {shape}")
    for name in ("position", "best_position", "velocity", "value", "best_value", "age"):
        is_point = name in ("position", "velocity", "best_position")  # one row for each particle
        array, expected = getattr(swarm, name), shape if is_point else shape[:-1]
        if np.asarray(array).dtype.kind not in "fiu":
            raise TypeError(f"init is a swarm whose {name} is not an array of real numbers, got {array!r}")
        if np.shape(array) != expected:
            raise ValueError(f"init is a swarm whose {name} has shape {np.shape(array)}, not {expected}")
        if name == "best_value" and np.isnan(array).any():
            raise ValueError("init: best_value is NaN; use +inf for a failed point")
        if is_point and not np.isfinite(array).all():
            raise ValueError(f"init is a swarm whose {name} is NaN or infinite")
        if is_bounded and is_point and name != "velocity" and ((array < lower) | (array > upper)).any():
            raise ValueError(f"init is a swarm whose {name} lies outside the bounds")
    return swarm._replace(lower=np.tile(lower, (n, 1)), upper=np.tile(upper, (n, 1)))


def read_start(x0: Any) -> tuple[Any, Any]:
    """The points of ``x0``, and their values if it is a pair of both."""
    if not (isinstance(x0, tuple) and len(x0) == 2 and _depth(x0[0]) == _depth(x0[1]) + 1):
        return x0, None
    points, values = x0
    return (points, values) if _depth(values) else ([points], [values])


def _depth(given: Any) -> int:
    """How often one can go into an array or nested sequences; a point by name is one level."""
    if hasattr(given, "ndim"):
        return int(given.ndim)
    if isinstance(given, Mapping):
        return 1
    if not isinstance(given, Sequence) or isinstance(given, str):
        return 0
    return 1 + (_depth(given[0]) if len(given) else 1)
