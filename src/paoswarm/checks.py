"""Checks of arguments, made before any work begins."""

from __future__ import annotations

import difflib
import math
import numbers
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray


def whole_number(name: str, given: Any, least: int, most: int | None = None) -> int:
    """Return ``given`` as an int from ``least`` to ``most``; 1e4 counts as a whole number."""
    is_whole = isinstance(given, numbers.Integral) or (isinstance(given, numbers.Real) and float(given).is_integer())
    if isinstance(given, bool) or not is_whole or given < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, got {given!r}")
    number = int(given)
    if most is not None and number > most:
        raise ValueError(f"{name} must be at most {most}, got {given!r}")
    return number


def real_number(name: str, given: Any, least: float, *, may_equal: bool) -> float:
    """Return ``given`` as a float above ``least``, or at it if ``may_equal``."""
    if isinstance(given, bool) or not isinstance(given, numbers.Real) or given != given:  # NaN
        raise ValueError(f"{name} must be a number, got {given!r}")
    try:
        number = float(given)
    except OverflowError:  # an int may be too large for a float
        number = -math.inf if given < least else math.inf
    if number < least or (number == least and not may_equal):
        raise ValueError(f"{name} must be {'at least' if may_equal else 'greater than'} {least:g}, got {given!r}")
    return number


def positive_number(name: str, given: Any) -> float:
    """Return ``given`` as a finite float above zero."""
    number: Any = given if isinstance(given, numbers.Real) and not isinstance(given, bool) else math.nan
    if not 0 < number < math.inf:
        raise ValueError(f"{name} must be a positive number, got {given!r}")
    return float(number)


def number_between(name: str, given: Any, least: float, most: float = math.inf) -> float:
    """Return ``given`` as a finite float from ``least`` to ``most``."""
    number = real_number(name, given, least, may_equal=True)
    if number > most or math.isinf(number):
        raise ValueError(f"{name} must be {'finite' if math.isinf(most) else f'at most {most:g}'}, got {given!r}")
    return number


def probability(name: str, given: Any) -> float:
    """Return ``given`` as a float strictly between 0 and 1."""
    number: Any = given if isinstance(given, numbers.Real) else math.nan
    if not 0 < number < 1:
        raise ValueError(f"{name} must be a number strictly between 0 and 1, got {given!r}")
    return float(number)


def flag(name: str, given: Any) -> bool:
    """Return ``given`` as a bool; anything but True and False is an error, since even ``"no"`` is truthy."""
    if not isinstance(given, bool | np.bool_):
        raise TypeError(f"{name} must be True or False, got {given!r}")
    return bool(given)


def unmasked(given: Any) -> Any:
    """Replace the masked elements of a masked array by NaN; return anything else unchanged."""
    return np.ma.filled(given.astype(float), np.nan) if isinstance(given, np.ma.MaskedArray) else given


def rounded(array: NDArray[Any]) -> NDArray[Any]:
    """Turn an array of Python's numbers into floats; return any other unchanged.

    NumPy makes such an array of whole numbers of 2**64 and more, and of fractions. Raises an OverflowError if one is
    too large for a float.

    Examples
    --------
    >>> rounded(np.asarray([2**64, 1]))
    array([1.84467441e+19, 1.00000000e+00])
    """
    if array.dtype.kind == "O" and all(isinstance(one, numbers.Real) for one in array.flat):
        return array.astype(float)
    return array


def has_nan(values: NDArray[np.float64]) -> bool:
    """Whether any value is NaN (`argmin` returns the first NaN)."""
    return values.size > 0 and math.isnan(values.item(values.argmin()))


def counted(count: int, what: str) -> str:
    """Return a number of things in words.

    Examples
    --------
    >>> counted(1, "point"), counted(2, "point")
    ('1 point', '2 points')
    """
    return f"{count} {what}{'s' * (count != 1)}"


def choices(name: str, known: Iterable[str]) -> str:
    """Return the end of an error message about an unknown name: the closest known name, and all of them.

    Examples
    --------
    >>> choices("psO", ["PAO", "PSO", "DE"])
    'did you mean PSO? Choose from PAO, PSO, DE'
    """
    by_lower_case = {one.lower(): one for one in known}
    close = difflib.get_close_matches(name.lower(), by_lower_case, n=1)
    hint = f"did you mean {by_lower_case[close[0]]}? Choose" if close else "choose"
    return f"{hint} from {', '.join(by_lower_case.values())}"
