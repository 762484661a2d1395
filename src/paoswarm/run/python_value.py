"""What the objective returns in Python at the best point of compiled runs.

Whole numbers of compiled code have 64 bits and wrap round, a division of them by zero gives some number, and indices
are not checked. Such a value may be lower than every true one, and it is then the minimum.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from paoswarm._text import describe_error, warn_user
from paoswarm.core.arrays import Floats
from paoswarm.run.call import Call

_SLOWEST = 0.01  # seconds of compiled code, for which Python takes a second or so
_STEP = 1e-7  # of the widths: what this changes, rounding may change
_ROUNDING = 1e-6  # of the value


def compare_with_python(call: Call, evaluate: Callable[[Floats], Floats], x: Floats, value: float) -> None:
    """Warn if the objective has another value in Python at a point than compiled code has found."""
    space = call.space
    z, step = space.coordinates(x), _STEP * (space.upper - space.lower)
    began = time.perf_counter()
    found = evaluate(np.clip([z, z, z - step, z + step], space.lower, space.upper))
    if time.perf_counter() - began > len(found) * _SLOWEST:
        return
    try:
        with np.errstate(all="ignore"):
            own = float(getattr(call.fun, "py_func", call.fun)(x.copy(), *call.args))
    except (ArithmeticError, LookupError, ValueError) as error:
        returns = f"it raises {describe_error(error)}"
    except Exception:  # it can only be compiled
        return
    else:
        changes = np.abs(found - value)
        rounding = np.max(changes, initial=_ROUNDING * max(abs(own), abs(value)), where=np.isfinite(changes))
        is_random = found[0] != found[1]
        if is_random or abs(own - value) <= rounding:
            return
        returns = f"it returns {own:.6g}"
    warn_user(
        f"compiled by numba, the objective is {value:.6g} at the best point, but in Python {returns}. Compiled whole "
        "numbers wrap round, their division by zero gives some number, and indices are not checked: compute with "
        "floating-point numbers, check indices, or take engine='numpy'"
    )
