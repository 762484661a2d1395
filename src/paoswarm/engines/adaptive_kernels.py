"""The kernels of the adaptive search for numba: the functions of `paoswarm.methods`, compiled as they are.

A kernel is a function of arrays and named tuples that is written in the part of NumPy that numba has. `compiled` takes
its text and gives it compiled functions in place of the ones that it calls. A few of these are written again below:

- `ranked`, `median` and `smallest`: numba's sort takes several times as long to compile.
- `least_squares`: loops that compute half of a symmetric product take half as long as BLAS does for all of it, and do
  not depend on its threads.

Eigenvectors are those of LAPACK: Jacobi's method takes longer from ten unknowns on.
"""

from __future__ import annotations

import math
from types import FunctionType, ModuleType
from typing import Any

import numba
import numpy as np

from paoswarm.core import order
from paoswarm.methods import agreement as agreement_of_searches
from paoswarm.methods import dense_learning, element_pao, quadratic_model

KERNELS = agreement_of_searches, dense_learning, element_pao, quadratic_model, order
_PART = 8  # numbers that are sorted by insertion

_compiled = numba.njit(nogil=True, cache=True, error_model="numpy")
# Sums may be taken in any order, so that they become vector instructions.
_in_any_order = numba.njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract", "reassoc"})


@_in_any_order
def dot(a, b):
    """The scalar product of two vectors."""
    total = 0.0
    for i in range(len(a)):
        total += a[i] * b[i]
    return total


@_in_any_order
def gram(rows, product):
    """Fill the lower triangle of ``product`` (c, c) with ``rows @ rows.T``; rows are (c, m).

    Eight sums at a time, so that each number that is read is used several times, and eight rows again and again, so
    that they stay in the cache.
    """
    c, m = rows.shape
    whole = c - c % 4
    for begin in range(0, whole, 8):
        for a in range(begin, whole, 4):
            x, y, z, u = rows[a], rows[a + 1], rows[a + 2], rows[a + 3]
            for b in range(begin, min(a + 4, begin + 8), 2):
                v, w = rows[b], rows[b + 1]
                xv, xw, yv, yw, zv, zw, uv, uw = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
                for k in range(m):
                    xv += x[k] * v[k]
                    xw += x[k] * w[k]
                    yv += y[k] * v[k]
                    yw += y[k] * w[k]
                    zv += z[k] * v[k]
                    zw += z[k] * w[k]
                    uv += u[k] * v[k]
                    uw += u[k] * w[k]
                product[a, b], product[a, b + 1], product[a + 1, b], product[a + 1, b + 1] = xv, xw, yv, yw
                product[a + 2, b], product[a + 2, b + 1], product[a + 3, b], product[a + 3, b + 1] = zv, zw, uv, uw
    for a in range(whole, c):
        for b in range(a + 1):
            product[a, b] = dot(rows[a], rows[b])


@_in_any_order
def solve_positive(matrix, b):
    """Solve ``matrix @ x = b`` in place of ``b``; False if the matrix is not positive definite.

    Only the lower triangle of the matrix is read. It is overwritten by its Cholesky factor, four rows at a time.
    """
    c = len(b)
    for begin in range(0, c, 4):
        end = min(begin + 4, c)
        if end == begin + 4:
            _four_rows(matrix, begin)
        else:
            for i in range(begin, end):
                for j in range(begin):
                    matrix[i, j] = (matrix[i, j] - dot(matrix[i, :j], matrix[j, :j])) / matrix[j, j]
        for i in range(begin, end):
            for j in range(begin, i + 1):
                rest = matrix[i, j] - dot(matrix[i, :j], matrix[j, :j])
                if i > j:
                    matrix[i, j] = rest / matrix[j, j]
                elif rest > 0 and rest < np.inf:
                    matrix[i, i] = math.sqrt(rest)
                else:
                    return False
    for i in range(c):
        b[i] = (b[i] - dot(matrix[i, :i], b[:i])) / matrix[i, i]
    for i in range(c - 1, -1, -1):
        b[i] /= matrix[i, i]
        for k in range(i):
            b[k] -= b[i] * matrix[i, k]
    return True


@_in_any_order
def _four_rows(matrix, begin):
    """The Cholesky factor in four rows, in all columns before them."""
    v, w, x, y = matrix[begin], matrix[begin + 1], matrix[begin + 2], matrix[begin + 3]
    for j in range(begin):
        other = matrix[j]
        in_v, in_w, in_x, in_y = 0.0, 0.0, 0.0, 0.0
        for k in range(j):
            in_v += v[k] * other[k]
            in_w += w[k] * other[k]
            in_x += x[k] * other[k]
            in_y += y[k] * other[k]
        v[j] = (v[j] - in_v) / other[j]
        w[j] = (w[j] - in_w) / other[j]
        x[j] = (x[j] - in_x) / other[j]
        y[j] = (y[j] - in_y) / other[j]


@_compiled
def ranked(scores):
    """Indices from the best to the worst; equals keep their order, as in `paoswarm.core.order`.

    Parts of eight are sorted by insertion, and merged two by two.
    """
    n = len(scores)
    found, merged = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    for i in range(n):
        place = i
        while place % _PART and scores[i] < scores[found[place - 1]]:
            found[place] = found[place - 1]
            place -= 1
        found[place] = i
    size = _PART
    while size < n:
        for begin in range(0, n, 2 * size):
            middle, end = min(begin + size, n), min(begin + 2 * size, n)
            a, b = begin, middle
            for place in range(begin, end):
                if b == end or (a < middle and not scores[found[b]] < scores[found[a]]):
                    merged[place] = found[a]
                    a += 1
                else:
                    merged[place] = found[b]
                    b += 1
        found, merged = merged, found
        size *= 2
    return found


@_compiled
def median(values):
    """The median."""
    ranking = ranked(values)
    middle = len(values) // 2
    if len(values) % 2:
        return values[ranking[middle]]
    return (values[ranking[middle - 1]] + values[ranking[middle]]) / 2


@_compiled
def smallest(values, count):
    """Indices of the ``count`` smallest values, in any order: Hoare's selection."""
    index = np.arange(len(values))
    first, last = 0, len(values) - 1
    while first < last:
        pivot = values[index[(first + last) // 2]]
        i, j = first, last
        while i <= j:
            while values[index[i]] < pivot:
                i += 1
            while pivot < values[index[j]]:
                j -= 1
            if i <= j:
                index[i], index[j] = index[j], index[i]
                i += 1
                j -= 1
        if count - 1 <= j:
            last = j
        elif count - 1 >= i:
            first = i
        else:
            break
    return index[:count]


# Without wrappers for Python they compile in half the time. Only compiled functions may call them.
inner = numba.njit(
    nogil=True, error_model="numpy", fastmath={"contract"}, no_cpython_wrapper=True, no_cfunc_wrapper=True
)
# What is called at one place becomes a part of its caller: else LLVM would optimise it again at every level.
once = numba.njit(inline="always", nogil=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)


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
law = compiled(dense_learning, "rates first_law draws longest variances whitening placed _decomposed followed learn")
model = compiled(
    quadratic_model,
    "points_for n_coefficients generations_between_fits pairs features seen predict shortened_newton minimum fit "
    "is_trusted is_due untested after_test",
    whitening=law.whitening,
    placed=law.placed,
    ranked=ranked,
    least_squares=least_squares,
    squared_lengths=_squared_lengths,
    smallest=smallest,
)
progress = compiled(
    dense_learning,
    "typical first_progress asked_of completed is_rounding window _nearest _stagnates _are_equal _is_found_again "
    "after_generation end_of",
    learn=law.learn,
    longest=law.longest,
    variances=law.variances,
    median=median,
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
agreement = compiled(
    agreement_of_searches,
    "near fall is_same_value is_undercut counted",
    median=median,
    is_feasible=order_of.is_feasible,
)
