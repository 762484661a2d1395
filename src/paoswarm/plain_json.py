"""Values without NumPy's types, for JSON."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np


def plain(thing: Any, *, array: Callable[[Any], Any], not_finite: Callable[[float], Any]) -> Any:
    """Return a value as JSON can hold it. ``array`` says what arrays become, ``not_finite`` NaN and infinities.

    What JSON does not know becomes its text.

    Examples
    --------
    >>> plain({"x": np.float64(1), "f": [math.inf]}, array=list, not_finite=str)
    {'x': 1.0, 'f': ['inf']}
    """

    def inside(part: Any) -> Any:
        if isinstance(part, dict):
            return {str(key): inside(value) for key, value in part.items()}
        if isinstance(part, np.ndarray):
            return array(part)
        if isinstance(part, list | tuple):
            return [inside(one) for one in part]
        if isinstance(part, bool | np.bool_):
            return bool(part)
        if isinstance(part, int | np.integer):
            return int(part)
        if isinstance(part, float | np.floating):
            return float(part) if math.isfinite(part) else not_finite(float(part))
        return part if part is None or isinstance(part, str) else str(part)

    return inside(thing)
