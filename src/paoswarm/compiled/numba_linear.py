"""Linear algebra for the adaptive search with numba: sums of products, and positive definite systems.

Written as loops, because they call no library: whatever threads a BLAS has, a run gives the same numbers. Up to ten
unknowns they take as long as BLAS and LAPACK. Eigenvectors are those of LAPACK, which is faster from five unknowns on.
"""

from __future__ import annotations

import math

import numba
import numpy as np

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


@numba.njit(nogil=True, cache=True, error_model="numpy")
def ranked(scores):
    """Indices from the best to the worst; equals keep their order, as in `paoswarm.core.order`."""
    n = len(scores)
    if n > 40:  # beyond it, sorting by insertion takes longer
        return np.argsort(scores, kind="mergesort")
    found = np.empty(n, dtype=np.int64)
    for i in range(n):
        place = i
        while place > 0 and scores[i] < scores[found[place - 1]]:
            found[place] = found[place - 1]
            place -= 1
        found[place] = i
    return found
