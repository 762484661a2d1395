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

from paoswarm.helpers import GrowingStore

Floats = NDArray[np.float64]
_MOST_ROWS = 8000  # points drawn one by one
_MOST_NUMBERS = 160_000  # coordinates sent for them
_MOST_TOP = 200  # best points that are always shown
_MOST_KINDS = 30
_MOST_FAILURES = 200
_LONGEST_MESSAGE = 500  # characters
_LONGEST_NAME = 80  # characters of a name, or of an entry
_MOST_STEPS = 1500  # of a line of best values
_TIMES = 60  # intervals of the time

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
    bounds_names, bounds = _listed(problem.get("bounds"), d)
    prior_names, prior = _listed(problem.get("prior"), d)
    names = [f"x{i}" for i in range(d)]
    for given in (prior_names, bounds_names, problem.get("names")):
        if isinstance(given, list) and len(given) == d and all(isinstance(name, str) for name in given):
            names = [name[:_LONGEST_NAME] for name in given]
    lower, upper = _box(np.array([_ends(entry) for entry in bounds]).reshape(d, 2), x)
    wants_log = [
        _settings(entry).get("log") is True for entry in (bounds if problem.get("bounds") is not None else prior)
    ]
    is_positive = (np.where(np.isfinite(x), x, np.inf) > 0).all(axis=0) & (lower > 0)
    is_log = np.array(wants_log, dtype=bool) & is_positive
    return Unknowns(names, lower, upper, is_log, [_labels(entry) for entry in bounds])


def _listed(recorded: Any, d: int) -> tuple[list[Any], list[Any]]:
    """The names in recorded bounds or a prior, and the record of each unknown; None where there is none."""
    names, entries = [], recorded
    if isinstance(recorded, dict) and isinstance(items := recorded.get("items"), list):
        pairs = [item for item in items if isinstance(item, list) and len(item) == 2]
        names, entries = [name for name, _ in pairs], [entry for _, entry in pairs]
    return names, entries if isinstance(entries, list) and len(entries) == d else [None] * d


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


def _settings(entry: Any) -> dict[str, Any]:
    """The arguments of an encoded variable."""
    settings = entry.get("with") if isinstance(entry, dict) else None
    return settings if isinstance(settings, dict) else {}


def _labels(entry: Any) -> list[str] | None:
    """The entries of a choice as text; None if it is none."""
    entries = _settings(entry).get("entries")
    if not isinstance(entries, list) or not entries:
        return None
    # A function or class is shown by its name.
    texts = [
        str(one["own"]).rpartition(".")[2] if isinstance(one, dict) and "own" in one else str(one) for one in entries
    ]
    return [text[:_LONGEST_NAME] for text in texts]


def _ends(entry: Any) -> tuple[float, float]:
    """The bounds of one unknown: of a pair, of a variable with low and high, or of a choice; NaN if unknown."""
    settings, labels = _settings(entry), _labels(entry)
    if labels is not None:
        return -0.5, len(labels) - 0.5  # half a unit more, so that the first and the last one are not on the frame
    pair: Any = [settings.get("low"), settings.get("high")] if settings else entry
    is_pair = isinstance(pair, list) and len(pair) == 2 and all(isinstance(end, int | float) for end in pair)
    return (float(pair[0]), float(pair[1])) if is_pair and np.isfinite(pair).all() else (np.nan, np.nan)


# When values arrived, and what that tells about the time of an evaluation and the use of the workers.
#
# A store records when a value was written, not when its evaluation began. So:
# - With one worker, an evaluation took the time since the value before it, the work of the method included.
# - In an asynchronous run, ``asked`` tells after which arrival a point was sent. So the time of every evaluation and
#   the number of points under way are known.
# - With several workers that wait for each other, only a limit is known: the mean time is at most the number of workers
#   divided by the rate.


class Session(NamedTuple):
    """One process that wrote to the file."""

    row: int  # evaluations before it
    start: float
    pid: int
    host: str
    end: float  # NaN if it did not say that it ended
    message: str


def sessions(store: GrowingStore) -> list[Session]:
    """Return the processes that wrote to the file, in order."""
    found: list[Session] = []
    for row, event in store.events:
        if "open" in event:
            who = event["open"]
            found.append(Session(row, float(who["t"]), who["pid"], str(who.get("host", "")), np.nan, ""))
        elif "end" in event and found:
            moment = event["end"].get("t")
            end = float(moment) if isinstance(moment, int | float) else np.nan
            found[-1] = found[-1]._replace(end=end, message=str(event["end"]["message"]))
    return found


def gaps(store: GrowingStore) -> Floats:
    """Return the seconds between each record and the one before it or the start of its process, for each row.

    Rows of one record have their share of its gap, so the gaps sum up to the time in which the run was active.
    """
    if not len(store.time):
        return np.zeros(0)
    before = np.concatenate([[store.time[0]], store.time[:-1]])
    for session in sessions(store):
        if session.row < len(before):
            before[session.row] = session.start
    first = np.concatenate([[True], store.record[1:] != store.record[:-1]])
    group = np.cumsum(first) - 1
    size = np.bincount(group)
    return (np.maximum(store.time - before, 0.0)[first] / size)[group]


def durations(store: GrowingStore, gap: Floats) -> tuple[Floats, str]:
    """Return how long evaluations took in seconds, and how that is known; empty if it is not."""
    workers = store.run["how"].get("workers")
    if len(store.asked) and (store.asked >= 0).any():
        rows = np.flatnonzero(store.asked >= 0)
        time, asked, number = store.time[rows], store.asked[rows], store.number[rows]
        opened = np.full(len(store.time), -np.inf)
        for session in sessions(store):
            opened[session.row :] = session.start
        sent_after = np.searchsorted(asked, number, side="right") - 1  # the arrival that made room for the point
        sent = np.where(sent_after >= 0, time[np.maximum(sent_after, 0)], -np.inf)
        sent = np.maximum(sent, opened[rows])
        known = np.isfinite(sent)
        return np.maximum(time - sent, 0.0)[known], "from the moment when the point was sent to a worker"
    if workers == 1:
        return gap, "between two recorded values, the work of the method included"
    return np.zeros(0), ""


def in_flight(store: GrowingStore) -> Floats:
    """Return how many points were under way before each arrival of an asynchronous run; empty if unknown."""
    if not len(store.asked) or (store.asked < 0).any():
        return np.zeros(0)
    return np.asarray(store.asked - np.arange(len(store.asked)), dtype=float)


def timing(store: GrowingStore) -> dict[str, Any]:
    """Return rates, durations and the use of the workers, ready to be drawn."""
    gap = gaps(store)
    elapsed = np.cumsum(gap)
    total = float(elapsed[-1]) if len(elapsed) else 0.0
    edges = np.linspace(0.0, total or 1.0, _TIMES + 1)
    count, _ = np.histogram(elapsed, edges)
    took, how = durations(store, gap)
    workers = store.run["how"].get("workers")
    answer: dict[str, Any] = {
        "active": total,
        "edges": edges,
        "rate": count / np.diff(edges),
        "workers": workers,
        "how": how,
        "durations": np.quantile(took, [0.0, 0.1, 0.5, 0.9, 1.0]) if len(took) else np.zeros(0),
        "histogram": {},
        "use": np.nan,
        "limit": np.nan,
        "flight": np.zeros(0),
    }
    positive = took[took > 0]
    if len(positive) > 1 and positive.min() < positive.max():
        widths = np.geomspace(positive.min(), positive.max(), 41)
        widths[0], widths[-1] = positive.min(), positive.max()
        answer["histogram"] = {"edges": widths, "count": np.histogram(positive, widths)[0]}
    flying = in_flight(store)
    if len(flying) and total > 0:
        weighted = np.histogram(elapsed, edges, weights=flying * gap)[0]
        spent = np.histogram(elapsed, edges, weights=gap)[0]
        answer["flight"] = weighted / np.where(spent > 0, spent, 1.0)
        if isinstance(workers, int) and workers > 0:
            answer["use"] = float((flying * gap).sum() / (workers * total))
    elif isinstance(workers, int) and workers > 1 and len(gap):
        answer["limit"] = workers * total / len(gap)
    return answer
