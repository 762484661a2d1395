"""The best point of a run. It belongs to the driver, so that a method may forget it without losing it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from paoswarm.core import order
from paoswarm.core.arrays import Floats
from paoswarm.core.swarm import Swarm


class Incumbent(NamedTuple):
    """The best point that each run has evaluated so far.

    Attributes
    ----------
    x : array (*batch, d)
    value : array (*batch,)
        Its value; with repeated measurements their mean.
    score : array (*batch,)
        What it is compared by, see `paoswarm.core.order`.
    error : array (*batch,) or None
        Standard error of the mean; NaN while the noise is unknown, None without repeated measurements.
    """

    x: Floats
    value: Any
    score: Any
    error: Any = None


def leader_of(swarm: Swarm) -> Incumbent:
    """The best of the bests that a swarm remembers."""
    x, repeats = swarm.global_best[..., 0, :].copy(), swarm.repeats
    if repeats is None:
        return Incumbent(x, swarm.global_value, swarm.global_value)
    scores = order.score(swarm.best_value, repeats)
    row = order.best(scores)
    if np.ndim(row) == 0:  # the same for one run, with fewer calls
        count, score = repeats.count[row], scores[row]
    else:
        count, score = (np.take_along_axis(array, row[..., None], axis=-1)[..., 0] for array in (repeats.count, scores))
    error = np.where(repeats.freedom > 0, repeats.sd / np.sqrt(np.maximum(1.0, count)), np.nan)
    return Incumbent(x, swarm.global_value, score, error)


def reported(result: Any) -> Incumbent:
    """The best point of an earlier result, of one run or of several."""
    value = np.asarray(result.fun, dtype=float)
    error = result.get("fun_error")
    error = np.full(value.shape, np.nan) if error is None else np.asarray(error, dtype=float)
    return Incumbent(np.array(result.x, dtype=float), value, value + order.CAUTION * np.nan_to_num(error), error)


def best_of(x: Floats, values: Floats) -> Incumbent:
    """The best of points ``x`` (*batch, m, d); NaN where one failed or was left out."""
    values = order.failed_last(values)
    row = order.best(values)[..., None]
    value = np.take_along_axis(values, row, axis=-1)[..., 0]
    return Incumbent(np.take_along_axis(x, row[..., None], axis=-2)[..., 0, :], value, value)


def better_of(old: Incumbent, new: Incumbent) -> Incumbent:
    """The better point of each run; the old one if they are equal."""
    is_better = np.asarray(order.is_better(new.score, old.score))
    if is_better.all():
        return new
    return old if not is_better.any() else _chosen(is_better, new, old)


def with_measurements(best: Incumbent, swarm: Swarm) -> Incumbent:
    """The best after a swarm with repeated measurements has moved.

    While the swarm remembers the point, its mean is the swarm's, and may have become worse. If the swarm has forgotten
    it, as after a restart, what was known about it still counts.
    """
    leader = leader_of(swarm)
    is_remembered = (swarm.best_position == best.x[..., None, :]).all(axis=-1).any(axis=-1)
    is_replaced = is_remembered | order.is_better(leader.score, best.score)
    return leader if is_replaced.all() else _chosen(is_replaced, leader, best)


def _chosen(is_new: Any, new: Incumbent, old: Incumbent) -> Incumbent:
    """Run by run, the new one where the mask is true."""
    pairs = zip(new[1:], old[1:], strict=True)
    numbers = (None if theirs is None else np.where(is_new, ours, theirs) for ours, theirs in pairs)
    return Incumbent(np.where(is_new[..., None], new.x, old.x), *numbers)
