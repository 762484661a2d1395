"""The operators of differential evolution (Storn and Price 1997): partners, mutants, crossover.

Strategies are named as in the literature, ``base/number of differences``. ``x`` is the individual, ``b`` the best of
all, and ``r1, r2, ...`` are other individuals, all different.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from paoswarm.core.arrays import Array, namespace


class Strategy(NamedTuple):
    """How a mutant is made."""

    n_partners: int
    mutant: Callable[..., Array]  # function of x, b, F and the partners


STRATEGIES = {
    "rand/1": Strategy(3, lambda x, b, F, r1, r2, r3: r1 + F * (r2 - r3)),
    "rand/2": Strategy(5, lambda x, b, F, r1, r2, r3, r4, r5: r1 + F * (r2 - r3 + r4 - r5)),
    "best/1": Strategy(2, lambda x, b, F, r1, r2: b + F * (r1 - r2)),
    "best/2": Strategy(4, lambda x, b, F, r1, r2, r3, r4: b + F * (r1 - r2 + r3 - r4)),
    "current-to-best/1": Strategy(2, lambda x, b, F, r1, r2: x + F * (b - x + r1 - r2)),
    "current-to-best/2": Strategy(4, lambda x, b, F, r1, r2, r3, r4: x + F * (b - x + r1 - r2 + r3 - r4)),
}


def partners(uniform: Array) -> list[Array]:
    """Choose k different others for each of n individuals, from deviates ``(*batch, n, k)``.

    Returns k arrays of indices ``(*batch, n)``. The i-th partner is drawn from the n - i individuals that are left: a
    number below n - i, shifted past each index already taken, in ascending order. Every choice is equally likely.
    """
    xp = namespace(uniform)
    n, k = uniform.shape[-2:]
    taken = [xp.broadcast_to(xp.arange(n), uniform.shape[:-1])]  # ascending
    drawn = []
    for i in range(k):
        other = xp.astype(uniform[..., i] * (n - 1 - i), xp.int64)
        for lower in taken:
            other = xp.where(other >= lower, other + 1, other)
        drawn.append(other)
        taken = _insert(taken, other, xp)
    return drawn


def _insert(ascending: list[Array], new: Array, xp: Any) -> list[Array]:
    """Insert ``new`` into a sorted list of arrays, element-wise."""
    longer = []
    for entry in ascending:
        longer.append(xp.minimum(entry, new))
        new = xp.maximum(entry, new)
    return [*longer, new]


def rows(points: Array, index: Array) -> Array:
    """Return the rows ``index`` (*batch, n) of ``points`` (*batch, n, d), run by run; faster than take_along_axis."""
    xp = namespace(points)
    *batch, n, d = points.shape
    if not batch:
        return xp.take(points, index, axis=0)
    first = xp.reshape(n * xp.arange(math.prod(batch)), (*batch, 1))  # first row of each run in the flattened table
    return xp.reshape(xp.take(xp.reshape(points, (-1, d)), xp.reshape(index + first, (-1,)), axis=0), points.shape)


def crossover(donor: Array, parent: Array, rate: Any, chance: Array, forced: Array) -> Array:
    """Binomial crossover: each element comes from the donor with probability ``rate``, and at least one always does.

    ``chance`` (*batch, n, d) and ``forced`` (*batch, n, 1) are uniform deviates.
    """
    xp = namespace(donor)
    d = donor.shape[-1]
    always = xp.astype(forced * d, xp.int64) == xp.arange(d)
    return xp.where((chance < rate) | always, donor, parent)
