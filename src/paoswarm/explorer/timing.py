"""When values arrived, and what that tells about the time of an evaluation and the use of the workers.

A store records when a value was written, not when its evaluation began. So:

- With one worker, an evaluation took the time since the value before it, the work of the method included.
- In an asynchronous run, ``asked`` tells after which arrival a point was sent. So the time of every evaluation and the
  number of points under way are known.
- With several workers that wait for each other, only a limit is known: the mean time is at most the number of workers
  divided by the rate.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from paoswarm.helpers import GrowingStore

_BINS = 60


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


def gaps(store: GrowingStore) -> NDArray[np.float64]:
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


def durations(store: GrowingStore, gap: NDArray[np.float64]) -> tuple[NDArray[np.float64], str]:
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


def in_flight(store: GrowingStore) -> NDArray[np.float64]:
    """Return how many points were under way before each arrival of an asynchronous run; empty if unknown."""
    if not len(store.asked) or (store.asked < 0).any():
        return np.zeros(0)
    under_way: NDArray[np.float64] = (store.asked - np.arange(len(store.asked))).astype(float)
    return under_way


def describe(store: GrowingStore) -> dict[str, Any]:
    """Return rates, durations and the use of the workers, ready to be drawn."""
    gap = gaps(store)
    elapsed = np.cumsum(gap)
    total = float(elapsed[-1]) if len(elapsed) else 0.0
    edges = np.linspace(0.0, total or 1.0, _BINS + 1)
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
