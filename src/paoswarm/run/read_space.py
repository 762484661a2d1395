"""Reading a search space: bounds as in SciPy, or variables by name or in a sequence."""

from __future__ import annotations

import numbers
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from paoswarm.run.read_input import read_bounds
from paoswarm.space.lmfit_parameters import ParametersSpace, are_parameters
from paoswarm.space.names import check_name
from paoswarm.space.space import Fixed, Space
from paoswarm.space.variables import Real, Variable

_FORM = "give a pair (low, high), ps.Real, ps.Integer, ps.Choice, ps.Periodic, or a number or a string to fix it"
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
        raise TypeError(f"{what} is {entry!r}; {_FORM}")
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
