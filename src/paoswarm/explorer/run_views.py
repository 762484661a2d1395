"""What a stored run looks like from several sides: pure functions of its points and losses.

Unknowns are on their scales, see `paoswarm.explorer.unknowns`. A loss is a value that is better when lower, and
infinite where the evaluation failed. All rows count in every view; only the points that are drawn one by one are
thinned out.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from paoswarm.core import order
from paoswarm.core.arrays import Floats

_MOST_ROWS = 8000  # points drawn one by one
_MOST_NUMBERS = 160_000  # coordinates sent for them
_MOST_TOP = 200  # best points that are always shown
_MOST_KINDS = 30
_MOST_FAILURES = 200
_MOST_CHARACTERS = 500  # of a message
_MOST_STEPS = 1500  # of a line of best values

Rows = NDArray[np.int64]


class Box(NamedTuple):
    """Where unknowns are drawn, on their scales, and which of them are choices."""

    lower: Floats
    upper: Floats
    is_choice: NDArray[np.bool_]


def stride_for(total: int, dim: int) -> int:
    """Return the power of two such that every stride-th row is few enough to be drawn.

    A power of two, so that rows once shown can be thinned out further without asking again.

    Examples
    --------
    >>> stride_for(8000, 2), stride_for(8001, 2), stride_for(100_000, 2)
    (1, 2, 16)
    """
    most = min(_MOST_ROWS, _MOST_NUMBERS // (dim + 4)) or 1
    stride = 1
    while total > most * stride:
        stride *= 2
    return stride


def improvements(loss: Floats) -> Rows:
    """Return the rows that were better than all rows before them, in order.

    Examples
    --------
    >>> improvements(np.array([np.inf, 3.0, 4.0, 3.0, 2.0]))
    array([1, 4])
    """
    if not len(loss):
        return np.zeros(0, dtype=np.int64)
    best = np.minimum.accumulate(loss)
    before = np.concatenate([[np.inf], best[:-1]])
    return np.flatnonzero(order.is_better(best, before))


def thinned(rows: Rows) -> Rows:
    """Return the rows of a line, at most a fixed number of them; the first and the last one are kept."""
    if len(rows) <= _MOST_STEPS:
        return rows
    return rows[np.unique(np.linspace(0, len(rows) - 1, _MOST_STEPS).round().astype(np.int64))]


def top_rows(loss: Floats) -> Rows:
    """Return the rows with the lowest losses, the best first."""
    good = np.flatnonzero(np.isfinite(loss))
    if len(good) > _MOST_TOP:
        good = good[np.argpartition(loss[good], _MOST_TOP)[:_MOST_TOP]]
    return good[np.argsort(loss[good], kind="stable")]


def threshold(loss: Floats, share: float) -> float:
    """Return the loss of the worst evaluation among the best ``share``, of those that did not fail."""
    finite = loss[np.isfinite(loss)]
    if not len(finite):
        return np.inf
    place = max(1, int(np.ceil(share * len(finite)))) - 1
    return float(np.partition(finite, place)[place])


def profiles(x: Floats, loss: Floats, box: Box, bins: int = 48) -> Floats:
    """Return the lowest loss in each of equal intervals of each unknown, ``(d, bins)``; NaN where there is none."""
    place = _places(x, box.lower, box.upper, bins)
    lowest = np.full((x.shape[1], bins + 1), np.inf)
    for j, row in enumerate(lowest):
        np.minimum.at(row, place[:, j], loss)
        row[:bins] = row[_holders(box, j, bins)]
    return np.where(np.isfinite(lowest), lowest, np.nan)[:, :bins]


def pair_map(x: Floats, loss: Floats, box: Box, bins: int = 36) -> Floats:
    """Return the lowest loss in each cell of a plane of two unknowns, ``(bins, bins)``, the second one upwards."""
    place = _places(x, box.lower, box.upper, bins)
    lowest = np.full((bins + 1, bins + 1), np.inf)
    np.minimum.at(lowest, (place[:, 1], place[:, 0]), loss)
    lowest = lowest[np.ix_(_holders(box, 1, bins), _holders(box, 0, bins))]
    return np.where(np.isfinite(lowest), lowest, np.nan)


def _holders(box: Box, j: int, bins: int) -> Rows:
    """Return the interval whose points count in each interval: itself, or that of the entry of a choice around it."""
    if not box.is_choice[j]:
        return np.arange(bins)
    lower, upper = box.lower[j], box.upper[j]
    middle = lower + (np.arange(bins) + 0.5) * ((upper - lower) / bins)
    return _places(np.clip(np.round(middle), lower, upper), lower, upper, bins)


def _places(x: Floats, lower: Floats, upper: Floats, bins: int) -> Rows:
    """Return the number of the interval of each coordinate; those outside have the number ``bins``."""
    share = (x - lower) * (bins / (upper - lower))
    is_inside = (x >= lower) & (x <= upper)
    return np.minimum(np.where(is_inside, share, bins), np.where(is_inside, bins - 1, bins)).astype(np.int64)


def window(x: Floats, box: Box) -> Box:
    """Return the part of the box that shows some points: their range with some room, inside the bounds."""
    if not len(x):
        return box
    lower, upper = box.lower, box.upper
    low, high = x.min(axis=0), x.max(axis=0)
    room = np.maximum(0.25 * (high - low), 1e-3 * (upper - lower))
    room = np.where(box.is_choice, 0.5, room)
    low, high = np.clip(low - room, lower, upper), np.clip(high + room, lower, upper)
    is_empty = ~(low < high)  # all of them outside
    return box._replace(lower=np.where(is_empty, lower, low), upper=np.where(is_empty, upper, high))


def failures(loss_is_nan: NDArray[np.bool_], why: dict[int, str]) -> tuple[Rows, list[tuple[str, int, str]]]:
    """Return the latest failed rows, the newest first, and the kinds of failures, the most frequent first.

    A kind is a message without its numbers; it comes with its count and one message as an example.
    """
    rows = np.flatnonzero(loss_is_nan)
    counts: Counter[str] = Counter()
    example: dict[str, str] = {}
    for row in rows.tolist():
        message = message_of(why, row)
        kind = re.sub(r"[-+]?\d[\d.]*(?:e[-+]?\d+)?", "#", message)
        counts[kind] += 1
        example.setdefault(kind, message)
    kinds = [(kind, count, example[kind]) for kind, count in counts.most_common(_MOST_KINDS)]
    return rows[::-1][:_MOST_FAILURES], kinds


def message_of(why: dict[int, str], row: int) -> str:
    """Return why a row failed."""
    return why.get(row, "returned NaN")[:_MOST_CHARACTERS]


def quantiles(loss: Floats) -> Floats:
    """Return the losses at 0, 1, ..., 100 % of those that did not fail: the scale of the colours."""
    finite: Any = loss[np.isfinite(loss)]
    return np.quantile(finite, np.linspace(0, 1, 101)) if len(finite) else np.zeros(0)
