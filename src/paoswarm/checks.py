"""Numbers that users give, checked before work begins."""

from __future__ import annotations

import math
import numbers
from typing import Any

import numpy as np

from paoswarm.core.walled import Floats


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


def unmasked(given: Any) -> Any:
    """A masked element is a value that is not there: NaN."""
    return np.ma.filled(given.astype(float), np.nan) if isinstance(given, np.ma.MaskedArray) else given


def has_nan(values: Floats) -> bool:
    """Whether any value is NaN; NumPy then takes it for the smallest."""
    return values.size > 0 and math.isnan(values.item(values.argmin()))
