"""Order and linear algebra for the adaptive search with numba: ranks, sums of products, positive definite systems.

Written as loops, which take about as long as BLAS and LAPACK here and do not depend on the threads of a library.
Eigenvectors are those of LAPACK: Jacobi's method takes longer from ten unknowns on.
"""

from __future__ import annotations

import math

import numba
import numpy as np

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
