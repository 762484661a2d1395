"""Numbers that users give, checked before work begins."""

from __future__ import annotations

import math
import numbers
from typing import Any

import numpy as np
from numpy.typing import NDArray


def whole_number(name: str, given: Any, least: int) -> int:
    """``given`` as an int of at least ``least``."""
    if isinstance(given, bool) or not isinstance(given, numbers.Integral) or given < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, got {given!r}")
    return int(given)


def real_number(name: str, given: Any, least: float, *, may_equal: bool) -> float:
    """``given`` as a float above (or at) ``least``."""
    if isinstance(given, bool) or not isinstance(given, numbers.Real) or given != given:  # NaN
        raise ValueError(f"{name} must be a number, got {given!r}")
    try:
        number = float(given)
    except OverflowError:  # whole numbers may be too large for a float
        number = -math.inf if given < least else math.inf
    if number < least or (number == least and not may_equal):
        raise ValueError(f"{name} must be {'at least' if may_equal else 'greater than'} {least:g}, got {given!r}")
    return number


def number_between(name: str, given: Any, least: float, most: float = math.inf) -> float:
    """``given`` as a finite float within both ends."""
    number = real_number(name, given, least, may_equal=True)
    if number > most or math.isinf(number):
        raise ValueError(f"{name} must be {'finite' if math.isinf(most) else f'at most {most:g}'}, got {given!r}")
    return number


def flag(name: str, given: Any) -> bool:
    """``given`` as True or False: any text would be true, even ``"no"``."""
    if not isinstance(given, bool | np.bool_):
        raise TypeError(f"{name} must be True or False, got {given!r}")
    return bool(given)


def unmasked(given: Any) -> Any:
    """A masked element is a value that is not there: NaN."""
    return np.ma.filled(given.astype(float), np.nan) if isinstance(given, np.ma.MaskedArray) else given


def has_nan(values: NDArray[np.float64]) -> bool:
    """Whether any value is NaN; NumPy then takes it for the smallest."""
    return values.size > 0 and math.isnan(values.item(values.argmin()))
