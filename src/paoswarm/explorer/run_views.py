"""Views of a stored run: pure functions of its points and losses.

Unknowns are on their scales, see `Unknowns`. A loss is a value that is better when lower, and
infinite where the evaluation failed. All rows count in every view; only the points that are drawn one by one are
thinned out.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
_MOST_ROWS = 8000  # points drawn one by one
_MOST_NUMBERS = 160_000  # coordinates sent for them
_MOST_TOP = 200  # best points that are always shown
_MOST_KINDS = 30
_MOST_FAILURES = 200
_LONGEST_MESSAGE = 500  # characters
_LONGEST_NAME = 80  # characters of a name, or of an entry
_MOST_STEPS = 1500  # of a line of best values

Rows = NDArray[np.int64]


class Box(NamedTuple):
    """The part of each axis that is drawn, and which unknowns are choices."""

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
    return np.flatnonzero(best < before)


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
    return why.get(row, "returned NaN")[:_LONGEST_MESSAGE]


def quantiles(loss: Floats) -> Floats:
    """Return the losses at 0, 1, ..., 100 % of those that did not fail: the scale of the colours."""
    finite: Any = loss[np.isfinite(loss)]
    return np.quantile(finite, np.linspace(0, 1, 101)) if len(finite) else np.zeros(0)


# The unknowns of a stored run as they are drawn. A file may hold anything: what makes no sense is left out.


class Unknowns(NamedTuple):
    """One entry for each unknown.

    On its *scale* an unknown has equal intervals where the page has: it is the logarithm, or the number itself.
    """

    names: list[str]
    lower: Floats
    upper: Floats
    is_log: NDArray[np.bool_]
    entries: list[list[str] | None]  # of a choice, as text; its number is the index

    @property
    def is_choice(self) -> NDArray[np.bool_]:
        """A mask of the unknowns that are choices."""
        return np.array([one is not None for one in self.entries], dtype=bool)

    def scaled(self, x: Floats) -> Floats:
        """Points on the scales of the unknowns; NaN where there is no logarithm."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(self.is_log, np.log10(np.where(self.is_log, x, 1.0)), x)

    def unscaled(self, s: Floats) -> Floats:
        """The inverse, inside the bounds."""
        return np.where(self.is_log, np.clip(10 ** np.where(self.is_log, s, 0.0), self.lower, self.upper), s)


def read_unknowns(problem: dict[str, Any], x: Floats) -> Unknowns:
    """The unknowns of the points ``(m, d)`` of a run; without recorded bounds, between the least and the largest."""
    d = x.shape[1]
    bounds, prior = problem.get("bounds"), problem.get("prior")
    ends = np.array([_ends(entry) for entry in _entries(bounds, d)]).reshape(d, 2)
    lower, upper = _box(ends, x)
    wants_log = [_settings(entry).get("log") is True for entry in _entries(bounds if bounds is not None else prior, d)]
    is_positive = (np.where(np.isfinite(x), x, np.inf) > 0).all(axis=0) & (lower > 0)
    entries = [_labels(entry) for entry in _entries(bounds, d)]
    return Unknowns(_names(problem, d), lower, upper, np.array(wants_log, dtype=bool) & is_positive, entries)


def _names(problem: dict[str, Any], d: int) -> list[str]:
    """Recorded names, or x0, x1, ..."""
    for names in (problem.get("names"), _keys(problem.get("bounds")), _keys(problem.get("prior"))):
        if isinstance(names, list) and len(names) == d and all(isinstance(name, str) for name in names):
            return [name[:_LONGEST_NAME] for name in names]
    return [f"x{i}" for i in range(d)]


def _box(ends: Floats, x: Floats) -> tuple[Floats, Floats]:
    """Bounds; where none are recorded, the range of the points."""
    finite = np.isfinite(x)
    low = np.where(finite, x, np.inf).min(axis=0, initial=np.inf)
    high = np.where(finite, x, -np.inf).max(axis=0, initial=-np.inf)
    is_known = ends[:, 0] < ends[:, 1]
    low, high = np.where(is_known, ends[:, 0], low), np.where(is_known, ends[:, 1], high)
    is_empty = ~(low < high)
    low = np.where(np.isfinite(low), low, 0.0)
    return np.where(is_empty, low - 0.5, low), np.where(is_empty, low + 0.5, high)


def _items(recorded: Any) -> list[list[Any]]:
    """The pairs of an encoded dict; none if it is no such thing."""
    items = recorded.get("items") if isinstance(recorded, dict) else None
    return [item for item in items if isinstance(item, list) and len(item) == 2] if isinstance(items, list) else []


def _keys(recorded: Any) -> list[Any]:
    return [item[0] for item in _items(recorded)]


def _entries(recorded: Any, d: int) -> list[Any]:
    """Return the record of each unknown; None where there is none."""
    found = [item[1] for item in _items(recorded)] if isinstance(recorded, dict) else recorded
    return found if isinstance(found, list) and len(found) == d else [None] * d


def _settings(entry: Any) -> dict[str, Any]:
    """The arguments of an encoded variable."""
    settings = entry.get("with") if isinstance(entry, dict) else None
    return settings if isinstance(settings, dict) else {}


def _labels(entry: Any) -> list[str] | None:
    """The entries of a choice as text; None if it is none."""
    entries = _settings(entry).get("entries")
    if not isinstance(entries, list) or not entries:
        return None
    return [_label(one)[:_LONGEST_NAME] for one in entries]


def _label(entry: Any) -> str:
    if isinstance(entry, dict) and isinstance(entry.get("own"), str):
        return entry["own"].rpartition(".")[2]  # a function or class, by its name
    return entry if isinstance(entry, str) else str(entry)


def _ends(entry: Any) -> tuple[float, float]:
    """The bounds of one unknown: of a pair, of a variable with low and high, or of a choice; NaN if unknown."""
    settings, labels = _settings(entry), _labels(entry)
    if labels is not None:
        return -0.5, len(labels) - 0.5  # half a unit more, so that the first and the last one are not on the frame
    pair = [settings.get("low"), settings.get("high")] if settings else entry
    if isinstance(pair, list) and len(pair) == 2 and all(isinstance(end, int | float) for end in pair):
        low, high = (float(end) for end in pair)
        if np.isfinite(low) and np.isfinite(high):
            return low, high
    return np.nan, np.nan
