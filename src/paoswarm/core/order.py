r"""Which of two points is better. Every comparison of objective values in the library goes through it.

Points are compared by their *score*, an array ``(*batch, n)``; a smaller score is better.

- Without noise the score is the value. A failed point (NaN) counts as +inf.
- With repeated measurements it is the mean plus three standard errors, so that a lucky value does not win.
- Only a strictly smaller score is better: on a plateau the older point stays.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from paoswarm.core.arrays import Array, namespace

# Standard errors added to a mean before points are compared. With fewer, the leader is often a newcomer on a lucky
# streak whose value is far too good to be true; benchmarks/quality.py compares with none.
CAUTION = 3.0


class Repeats(NamedTuple):
    """How often each best was measured, and how much the measurements differed."""

    count: Array  # (*batch, n) measurements behind each best; zero for the single draw for which it was chosen
    squares: Array  # (*batch,) sum of squared differences from the running means
    freedom: Array  # (*batch,) its degrees of freedom

    @property
    def sd(self) -> Array:
        """Standard deviation of one measurement, ``(*batch,)``; zero while nothing was measured twice."""
        xp = namespace(self.squares)
        return xp.sqrt(self.squares / xp.where(self.freedom > 0, self.freedom, 1.0))


def failed_last(value: Array) -> Array:
    """Values in which failed points (NaN) count as +inf."""
    xp = namespace(value)
    return xp.where(xp.isnan(value), xp.inf, value)


def score(value: Array, repeats: Repeats | None) -> Array:
    r"""Score of remembered bests, ``(*batch, n)``: :math:`\bar f_i + 3\,\hat\sigma/\sqrt{N_i}`.

    Without repeated measurements it is the value itself.
    """
    if repeats is None:
        return value
    xp = namespace(value)
    return value + CAUTION * repeats.sd[..., None] / xp.sqrt(xp.clip(repeats.count, 1.0, xp.inf))


def newcomer_score(value: Array, repeats: Repeats | None) -> Array:
    """Score of new points, each measured once, ``(*batch, n)``."""
    return value if repeats is None else value + CAUTION * repeats.sd[..., None]


def is_better(new: Array, old: Array) -> Array:
    """Whether a score beats another; false for NaN and for equal scores."""
    return new < old


def best(scores: Array) -> Array:
    """Index of the best along the last axis; the first of several equals."""
    if type(scores) is np.ndarray:  # the same with fewer calls
        return scores.argmin(axis=-1)
    return namespace(scores).argmin(scores, axis=-1)


def ranked(scores: Array) -> Array:
    """Indices from the best to the worst along the last axis; equals keep their order."""
    return namespace(scores).argsort(scores, axis=-1, stable=True)


def ranks(scores: Array) -> Array:
    """Rank of each along the last axis: zero for the best."""
    return namespace(scores).argsort(ranked(scores), axis=-1)
