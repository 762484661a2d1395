"""Order and linear algebra for the adaptive search with numba: ranks, sums of products, positive definite systems.

Written as loops, because they call no library: whatever threads a BLAS has, a run gives the same numbers. Up to ten
unknowns they take as long as BLAS and LAPACK. Eigenvectors are those of LAPACK, which is faster from five unknowns on.
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

    Four sums at a time, because each number that is read is then used twice.
    """
    c, m = rows.shape
    for a in range(0, c - 1, 2):
        x, y = rows[a], rows[a + 1]
        for b in range(0, a + 1, 2):
            v, w = rows[b], rows[b + 1]
            xv, xw, yv, yw = 0.0, 0.0, 0.0, 0.0
            for k in range(m):
                xv += x[k] * v[k]
                xw += x[k] * w[k]
                yv += y[k] * v[k]
                yw += y[k] * w[k]
            product[a, b], product[a, b + 1], product[a + 1, b], product[a + 1, b + 1] = xv, xw, yv, yw
    if c % 2:
        for b in range(c):
            product[c - 1, b] = dot(rows[c - 1], rows[b])


@_in_any_order
def solve_positive(matrix, b):
    """Solve ``matrix @ x = b`` in place of ``b``; False if the matrix is not positive definite.

    Only the lower triangle of the matrix is read. It is overwritten by its Cholesky factor.
    """
    c = len(b)
    for i in range(c):
        row = matrix[i]
        for j in range(i):
            other, total = matrix[j], 0.0
            for k in range(j):
                total += row[k] * other[k]
            row[j] = (row[j] - total) / other[j]
        total = 0.0
        for k in range(i):
            total += row[k] * row[k]
        rest = row[i] - total
        if not rest > 0 or rest == np.inf:
            return False
        row[i] = math.sqrt(rest)
    for i in range(c):
        total = 0.0
        for k in range(i):
            total += matrix[i, k] * b[k]
        b[i] = (b[i] - total) / matrix[i, i]
    for i in range(c - 1, -1, -1):
        b[i] /= matrix[i, i]
        for k in range(i):
            b[k] -= b[i] * matrix[i, k]
    return True


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
