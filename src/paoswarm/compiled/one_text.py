"""The kernels of the adaptive search for numba: the functions of `paoswarm.algorithms`, compiled as they are.

A kernel is a function of arrays and named tuples that is written in the part of NumPy that numba has. `compiled` takes
its text and gives it compiled functions in place of the ones that it calls. A few of these are written again below:

- `ranked`, `median` and `smallest`: numba's sort takes several times as long to compile.
- `least_squares`: twice as fast as the text of NumPy, and LAPACK with threads of its own would wait for itself.
"""

from __future__ import annotations

import math
from types import FunctionType, ModuleType
from typing import Any

import numba
import numpy as np

from paoswarm.algorithms import dense_learning, dense_progress, element_pao, quadratic_model
from paoswarm.compiled.numba_linear import dot, gram, ranked, solve_positive
from paoswarm.compiled.numba_linear import median as quick_median
from paoswarm.compiled.numba_linear import smallest as quick_smallest
from paoswarm.core import order

# Without wrappers for Python they compile in half the time. Only compiled functions may call them.
INNER: dict[str, Any] = {
    "nogil": True,
    "error_model": "numpy",
    "fastmath": {"contract"},
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
}
inner = numba.njit(**INNER)


def compiled(module: ModuleType, names: str, **instead: Any) -> Any:
    """A module of the compiled functions of these names; ``instead`` are other globals for them."""
    made = ModuleType(module.__name__)
    vars(made).update({**vars(module), **instead})
    for name in names.split():
        function = getattr(module, name)
        function = getattr(function, "__wrapped__", function)  # compiled code does not keep results
        setattr(made, name, inner(FunctionType(function.__code__, vars(made), name, function.__defaults__)))
    return made


@inner
def _levelled(scores):
    """Compiled runs have no constraints."""
    return scores


@inner
def least_squares(rows, values):
    """Coefficients of a fit; see `quadratic_model.least_squares`."""
    m, c = rows.shape
    weighted, target, right = np.empty((c, m)), np.empty(m), np.empty(c)
    for i in range(m):
        root = math.sqrt(1 + (quadratic_model.LEAST_WEIGHT - 1) * i / (m - 1))
        target[i] = root * values[i]
        for a in range(c):
            weighted[a, i] = root * rows[i, a]
    normal = np.empty((c, c))
    gram(weighted, normal)
    trace = 0.0
    for a in range(c):
        trace += normal[a, a]
        right[a] = dot(weighted[a], target)
    for a in range(c):
        normal[a, a] += quadratic_model.RIDGE * trace / c
    if not solve_positive(normal, right):
        return np.empty(0)
    for a in range(c):
        if not math.isfinite(right[a]):
            return np.empty(0)
    return right


@inner
def _squared_lengths(u):
    lengths = np.empty(len(u))
    for i in range(len(u)):
        lengths[i] = dot(u[i], u[i])
    return lengths


order_of = compiled(order, "is_feasible")
law = compiled(dense_learning, "rates first_law draws longest whitening _decomposed learn")
model = compiled(
    quadratic_model,
    "points_for n_coefficients generations_between_fits pairs features predict shortened_newton minimum fit "
    "is_trusted is_due untested after_test",
    whitening=law.whitening,
    ranked=ranked,
    least_squares=least_squares,
    squared_lengths=_squared_lengths,
    smallest=quick_smallest,
)
progress = compiled(
    dense_progress,
    "first_progress asked_of completed window _nearest _stagnates after_generation end_of",
    learn=law.learn,
    longest=law.longest,
    median=quick_median,
    ranked=ranked,
    levelled=_levelled,
    is_feasible=order_of.is_feasible,
)
element = compiled(
    element_pao,
    "first_memory _integers _positive _attractors _propagated law_from_rest proposed brought_inside _lehmer learnt "
    "size shortened is_over",
    is_feasible=order_of.is_feasible,
)
