r"""Which of two points is better. Every comparison of objective values in the library goes through it.

Points are compared by their *score*, an array ``(*batch, n)``; a smaller score is better.

- Without noise the score is the value. A failed point (NaN) counts as +inf.
- With repeated measurements it is the mean plus three standard errors, so that a lucky value does not win.
- Only a strictly smaller score is better: on a plateau the older point stays.
- With constraints, a feasible point is better than an infeasible one; feasible points are compared by value, infeasible
  ones by their total violation :math:`V`. The score holds both in one number, so other modules need no constraints:

.. math:: s = f \text{ if } V = 0, \qquad s = 10^{250}\,V \text{ if } V > 0             \tag{C2}

  A product keeps all digits of small violations; a large constant plus the violation would not.
- While a swarm tolerates violations up to :math:`\epsilon`, see `paoswarm.methods.moves`, it compares by

.. math:: s = f \text{ if } V \le \epsilon, \qquad s = 10^{250}\,V \text{ if } V > \epsilon   \tag{C4}
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from paoswarm.core.arrays import Array, namespace

# Standard errors added to a mean before points are compared. With fewer, the leader is often a newcomer on a lucky
# streak whose value is far too good to be true; benchmarks/quality.py compares with none.
CAUTION = 3.0


# Scores of infeasible points are this many times their violation, which is kept within the limits below.
_INFEASIBLE = 1e250
_LEAST_VIOLATION, _MOST_VIOLATION = 1e-30, 1e50
FIRST_INFEASIBLE = _INFEASIBLE * _LEAST_VIOLATION  # no objective has such values


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


def feasible_first(value: Array, violation: Array) -> Array:
    """Scores (C2) of points with these values and total violations, zero where feasible.

    A failed point (NaN in either) keeps the score NaN. The value of an infeasible point does not matter.
    """
    xp = namespace(violation)
    infeasible = _INFEASIBLE * xp.clip(violation, _LEAST_VIOLATION, _MOST_VIOLATION)
    scores = xp.where(violation > 0, infeasible, xp.where(value < xp.inf, xp.clip(value, -xp.inf, 1e219), value))
    return xp.where(xp.isnan(violation), xp.nan, scores)


def is_feasible(scores: Array) -> Array:
    """Whether scores are values of feasible points; false for failed points, too."""
    return scores < FIRST_INFEASIBLE


def violation(scores: Array) -> Array:
    """The total violation behind scores: zero for feasible points, +inf for failed ones."""
    xp = namespace(scores)
    return xp.where(is_feasible(scores), 0.0, xp.where(xp.isfinite(scores), scores / _INFEASIBLE, xp.inf))


def tolerated(scores: Array, objective: Array, tolerance: float) -> Array:
    """Scores (C4) of points from their scores (C2) and the values of the objective, whether they are feasible or not.

    A point without a value (NaN or infinite) keeps its score. With the tolerance zero all do.
    """
    xp = namespace(scores)
    is_eased = ~is_feasible(scores) & (violation(scores) <= tolerance) & xp.isfinite(objective)
    return xp.where(is_eased, xp.clip(objective, -xp.inf, 1e219), scores)


def levelled(scores: Array) -> Array:
    """Scores in the same order with infeasible points just above the feasible ones, where differences matter.

    Without infeasible points, and without feasible ones, they are unchanged.
    """
    feasible = is_feasible(scores)
    if bool(feasible.all()) or not bool(feasible.any()):
        return scores
    xp = namespace(scores)
    values = scores[feasible]
    top, bottom = xp.max(values), xp.min(values)
    step = (top - bottom) / len(values) + xp.abs(top) * 1e-9 + 1e-300
    above = ranks(scores) - (len(values) - 1)
    return xp.where(feasible, scores, xp.where(xp.isfinite(scores), top + step * above, scores))
