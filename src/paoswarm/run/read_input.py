"""Reading what users give: bounds, variables, methods, points, swarms, constraints, all before the first evaluation."""

from __future__ import annotations

import numbers
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import Bounds, LinearConstraint, OptimizeResult, linprog

from paoswarm._checks import real_number, rounded, unmasked
from paoswarm.core.arrays import Floats
from paoswarm.core.swarm import Swarm
from paoswarm.evaluate.constraints import ConstraintPart, ConstraintSet, Linear, read_constraints
from paoswarm.methods.adaptive_pao import AdaptivePAO, MixedPAO
from paoswarm.methods.method import Method
from paoswarm.methods.model_search import MOST_UNKNOWNS
from paoswarm.methods.registry import method_named
from paoswarm.space.lmfit_parameters import ParametersSpace, are_parameters
from paoswarm.space.names import check_name
from paoswarm.space.space import Fixed, Space
from paoswarm.space.variables import Choice, Integer, Periodic, Real, Variable

Box = tuple[Floats, Floats]
_WIDEST = 1e150


def read_method(method: Any, init: Any = None, space: Space | None = None, *, plain: bool = True) -> Method:
    """The method that a user gives, as an object or by its name; for None that of the run continued, or the default.

    Searches by a local model are for ``plain`` problems: without constraints, for which there is sequential quadratic
    programming, without noise, evaluated by NumPy, with few unknowns.
    """
    if method is None:
        earlier = init.get("method") if isinstance(init, OptimizeResult) else None
        if isinstance(earlier, Method):
            return earlier
        is_continuous = space is None or space.axes is None or bool(space.axes.is_continuous.all())
        if not is_continuous:
            return MixedPAO()
        has_few = space is None or len(space.lower) <= MOST_UNKNOWNS
        return AdaptivePAO() if plain and has_few else AdaptivePAO(kinds=AdaptivePAO.swarms)
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


def check_share(reevaluate: Any) -> float:
    """The share of bests that is measured again, if it is one."""
    share = real_number("reevaluate", reevaluate, 0.0, may_equal=True)
    if share > 1:
        raise ValueError(f"reevaluate is a share of the swarm between 0 and 1, got {reevaluate!r}")
    return share


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


_VARIABLE_FORM = (
    "give a pair (low, high), ps.Real, ps.Integer, ps.Choice, ps.Periodic, or a number or a string to fix it"
)
_UNORDERED = "a set has no order: for a range write a pair (low, high), for one of several entries ps.Choice([...])"


def read_space(bounds: Any) -> Space:
    """The space from bounds, a dict of variables, or a sequence of variables; see `minimize`."""
    if isinstance(bounds, Space):
        return bounds
    if are_parameters(bounds):
        return ParametersSpace(bounds)
    if isinstance(bounds, Mapping):
        return _named(bounds)
    if isinstance(bounds, Variable):
        raise TypeError(f"bounds is one variable, {bounds!r}; write [{bounds!r}], or a dict with its name")
    bounds = list(bounds) if isinstance(bounds, Iterator) else bounds
    if isinstance(bounds, Sequence) and not isinstance(bounds, str) and _is_mixed(bounds):
        return Space([read_variable(f"bounds[{i}]", entry) for i, entry in enumerate(bounds)])
    lower, upper = read_bounds(bounds)
    return Space([Real(low, high) for low, high in zip(lower.tolist(), upper.tolist(), strict=True)])


def read_variable(what: str, entry: Any) -> Variable:
    """One variable; ``what`` names it in errors."""
    if isinstance(entry, Variable):
        return entry
    if isinstance(entry, str | numbers.Real | np.bool_):
        if isinstance(entry, numbers.Real) and not np.isfinite(float(entry)):
            raise ValueError(f"{what} is fixed at {entry!r}, which is not finite")
        return Fixed(entry)
    if isinstance(entry, set | frozenset):
        raise TypeError(f"{what} is {entry!r}; {_UNORDERED}")
    if not isinstance(entry, Sequence | np.ndarray) or len(entry) < 2:
        raise TypeError(f"{what} is {entry!r}; {_VARIABLE_FORM}")
    return _range(what, entry)


def _range(what: str, entry: Any) -> Real:
    """A number between two ends, from a sequence that should hold these."""
    if len(entry) == 2 and any(end is None for end in entry):
        raise TypeError(f"{what} is {entry!r}; both ends must be finite numbers")
    if len(entry) > 2 or not all(isinstance(end, numbers.Real) and not isinstance(end, bool) for end in entry):
        raise TypeError(
            f"{what} is {entry!r}; for a range write a pair (low, high), for one of several entries "
            f"ps.Choice({list(entry)!r})"
        )
    low, high = entry
    try:
        return Real(float(low), float(high))
    except ValueError as error:
        raise ValueError(f"{what}: {error}") from None


def _named(space: Mapping[Any, Any]) -> Space:
    if not space:
        raise ValueError("the space is empty: give at least one variable")
    for name in space:
        check_name(name)
    variables = [read_variable(repr(name), entry) for name, entry in space.items()]
    return Space(variables, list(space))


def _is_mixed(bounds: Sequence[Any]) -> bool:
    """Whether a sequence holds variables, fixed numbers beside pairs, or entries that are no bounds."""
    if any(isinstance(entry, Variable | set | frozenset | Mapping) or _has_words(entry) for entry in bounds):
        return True
    is_fixed = [isinstance(entry, numbers.Real) for entry in bounds]
    return any(is_fixed) and not all(is_fixed)


def _has_words(entry: Any) -> bool:
    """Whether an entry is or holds something that is no number, such as the ends (0, None)."""
    if isinstance(entry, list | tuple):
        return any(one is None or isinstance(one, str) for one in entry)
    return entry is None or isinstance(entry, str)


_TRIALS = 3  # points at which the functions of constraints are called before the run
_MOST_ROWS = 300  # linear constraints for which a contradiction is traced to the few that cause it


def trial_constraints(given: Any, space: Space, vectorized: bool = False) -> ConstraintSet | None:
    """The constraints that a user gives, checked before the first evaluation; None if there are none."""
    if isinstance(given, ConstraintSet):
        return given
    if space.is_plain and (given is None or (isinstance(given, list | tuple) and not given)):
        return None
    shares = np.random.default_rng(0).uniform(size=(_TRIALS, len(space.lower)))
    shares[0] = 0.5
    rows = space.rows(space.lower + shares * (space.upper - space.lower))
    _check_choices(given, space)
    trials = [space.given(row[None]) if vectorized else space.given(row) for row in rows]
    constraints = read_constraints(given, trials, vectorized)
    if constraints is not None:
        _check_linear(constraints, space)
    return constraints


def _check_choices(given: Any, space: Space) -> None:
    """Raise if a linear constraint stands beside a choice, a text or an expression, which have no number."""
    several = given if isinstance(given, list | tuple) else [given]
    if not any(isinstance(one, LinearConstraint) for one in several):
        return
    for label, one in zip(space.labels(), space.variables, strict=True):
        if isinstance(one, Choice) or (isinstance(one, Fixed) and not isinstance(one.fixed, numbers.Real)):
            kind = f"fixed at {one.fixed!r}" if isinstance(one, Fixed) else "a Choice"
            raise ValueError(
                f"a LinearConstraint needs numbers, but {label} is {kind}; write the constraint as a function"
            )
    if space.expressions:
        raise ValueError(
            f"a LinearConstraint has a column for each variable, but {space.expressions[0][0]} is an expression; write "
            "the constraint as a function"
        )


def _check_linear(constraints: ConstraintSet, space: Space) -> None:
    """Raise if linear constraints have another number of columns, or contradict each other or the bounds."""
    d = len(space.variables)
    parts = [(part, part.fun.matrix) for part in constraints.parts if isinstance(part.fun, Linear)]
    if not parts:
        return
    for part, matrix in parts:
        if matrix.shape[1] != d:
            raise ValueError(
                f"{part.label}: the matrix of a LinearConstraint needs {d} columns, one for each variable, got shape "
                f"{matrix.shape}"
            )
    labels = [label for part, _ in parts for label in _row_labels(part)]
    rows = np.concatenate([matrix for _, matrix in parts])
    lb, ub = (np.concatenate(ends) for ends in zip(*((p.lb - p.tol, p.ub + p.tol) for p, _ in parts), strict=True))
    needed = _contradiction(rows, lb, ub, [_ends(one) for one in space.variables])
    names = ", ".join(labels[row] for row in needed)
    if len(needed) == 1:
        raise ValueError(f"{names} holds nowhere in the bounds: no point is feasible")
    if needed:
        raise ValueError(f"these linear constraints contradict each other in the bounds: {names}")


def _row_labels(part: ConstraintPart) -> list[str]:
    return [part.label] if len(part.lb) == 1 else [f"row {i} of {part.label}" for i in range(len(part.lb))]


def _contradiction(rows: Floats, lb: Floats, ub: Floats, ends: list[tuple[float, float, bool]]) -> list[int]:
    """Which rows contradict each other or the bounds: as few as possible, or all if they are many; else none."""
    every = np.arange(len(rows))
    if _has_point(rows, lb, ub, ends, every):
        return []
    needed: list[int] = every.tolist()
    if len(rows) <= _MOST_ROWS:  # drop what is not needed for the contradiction
        for row in every:
            others = [one for one in needed if one != row]
            if not _has_point(rows, lb, ub, ends, np.array(others, dtype=int)):
                needed = others
    return needed


def _ends(one: Variable) -> tuple[float, float, bool]:
    """Where a variable may lie, and whether it is whole."""
    if isinstance(one, Fixed):
        return float(one.fixed), float(one.fixed), False
    assert isinstance(one, Real | Periodic | Integer)
    return one.low, one.high, one.is_whole


def _has_point(rows: Floats, lb: Floats, ub: Floats, ends: list[tuple[float, float, bool]], which: Any) -> bool:
    above, below = which[np.isfinite(ub[which])], which[np.isfinite(lb[which])]
    if len(above) + len(below) == 0:
        return True
    found = linprog(
        np.zeros(rows.shape[1]),
        A_ub=np.concatenate([rows[above], -rows[below]]),
        b_ub=np.concatenate([ub[above], -lb[below]]),
        bounds=[(low, high) for low, high, _ in ends],
        integrality=[1 if is_whole else 0 for _, _, is_whole in ends],
    )
    return int(found.status) != 2  # infeasible
