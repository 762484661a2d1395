"""A stored run in memory, in the order in which values arrived; the file may be growing."""

from __future__ import annotations

import os
from array import array
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paoswarm.core.arrays import Floats
from paoswarm.spaces.names import numbered
from paoswarm.storage.log import Reader, Record, StoreError, open_regular
from paoswarm.storage.store import decode_numbers
from paoswarm.storage.validate import check_size
from paoswarm.storage.watch import Progress

Whole = NDArray[np.int64]

_BEGINNING = 4096  # bytes that hold the time at which the run was started


class GrowingStore:
    """The evaluations of a run so far.

    Attributes
    ----------
    path : Path
    epoch : int
        Grows when rows were taken away: the file was replaced, or its polishing was set aside.
    header : dict
        The description of the run; empty before it has started.
    number, asked, record : array (m,)
        Number of each evaluation in the order of asking; how many points had been asked for by then (-1 if unknown);
        the record in which it was written.
    time, x, f : arrays (m,), (m, d), (m,)
        When it was recorded, the point, and its value; NaN where it failed.
    why : dict
        Reasons of failures, by row.
    events : list
        All other records, each with the number of rows before it.
    progress : Progress
    trouble : str
        Why the file cannot be read any further; empty if it can.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.epoch = 0
        self._start()
        if self._reader.header() is not None:  # raises if it is no store
            self.update()
        if self.trouble:
            raise StoreError(self.trouble)

    def _start(self) -> None:
        self._reader = Reader(self.path)
        self.progress = Progress(self.path)
        self.header: Record = {}
        self.trouble = ""
        self.why: dict[int, str] = {}
        self.events: list[tuple[int, Record]] = []
        self.number: Whole = np.zeros(0, dtype=np.int64)
        self.asked: Whole = np.zeros(0, dtype=np.int64)
        self.record: Whole = np.zeros(0, dtype=np.int64)
        self.time: Floats = np.zeros(0)
        self.f: Floats = np.zeros(0)
        self.x: Floats = np.zeros((0, 0))
        self._records = 0
        self._beginning = b""  # of the file: tells another file of the same name

    @property
    def run(self) -> dict[str, Any]:
        """The description of the run: function, problem, limits, how."""
        return self.header.get("run", {"function": "", "problem": {}, "limits": {}, "how": {}})

    @property
    def sign(self) -> float:
        """1 if low values are good, -1 for `sample`, whose values are log likelihoods."""
        return -1.0 if self.run["function"] == "sample" else 1.0

    def update(self) -> None:
        """Read what was added since the last time. A file that is gone or damaged is kept as far as it was read."""
        try:
            with open_regular(self.path) as file:
                beginning = file.read(_BEGINNING)
                size = os.fstat(file.fileno()).st_size
            if not beginning.startswith(self._beginning) or size < self._reader.good_bytes:
                self._start()
                self.epoch += 1
            self._beginning = beginning[: self._reader.good_bytes]  # an unfinished record may be cut off
            if not self.header and self._reader.header() is None:
                return  # no run has started
            self._read()
            self.trouble = ""
        except OSError as error:
            self.trouble = f"{self.path}: {error.strerror or error}"
        except StoreError as error:
            self.trouble = str(error)

    def _read(self) -> None:
        new: list[Record] = []
        rows = len(self.f)
        try:
            for record in self._reader.records():
                self.progress.add(record)  # checks it
                if "f" in record:
                    new.append(record)
                    rows += len(record["f"])
                elif "aside" in record:
                    self._append(new)
                    new = []
                    self._drop_from(record["aside"])
                    rows = len(self.f)
                elif "run" in record:
                    self.header = record
                else:
                    self.events.append((rows, record))
        except (ValueError, TypeError, OverflowError) as error:
            if isinstance(error, StoreError):
                raise
            raise self._reader.damaged(str(error)) from error
        finally:
            self._append(new)

    def _append(self, records: list[Record]) -> None:
        """Add the rows of records of evaluations."""
        if not records:
            return
        number: list[int] = []
        asked: list[int] = []
        belongs: list[int] = []
        time: list[float] = []
        f, x = array("d"), array("d")
        d = self.x.shape[1] or len(records[0]["x"][0])
        for record in records:
            if len(record["x"][0]) != d:
                raise self._reader.damaged("a point has another number of coordinates")
            m, first = len(record["f"]), record["i"]
            for row, reason in record.get("why", {}).items():
                self.why[len(self.f) + len(f) + int(row)] = str(reason)
            number += first if isinstance(first, list) else range(first, first + m)
            asked += [record.get("asked", -1) - record.get("recalled", 0)] * m  # those that were sent
            belongs += [self._records] * m
            self._records += 1
            time += [float(record["t"])] * m
            f += decode_numbers(record["f"])
            x += decode_numbers(list(chain.from_iterable(record["x"])))
        check_size(1 + max(number), d, len(self.f) + len(f))
        self.number = np.concatenate([self.number, np.array(number, dtype=np.int64)])
        self.asked = np.concatenate([self.asked, np.array(asked, dtype=np.int64)])
        self.record = np.concatenate([self.record, np.array(belongs, dtype=np.int64)])
        self.time = np.concatenate([self.time, time])
        self.f = np.concatenate([self.f, f])
        self.x = np.concatenate([self.x.reshape(-1, d), np.reshape(x, (len(f), d))])

    def _drop_from(self, number: int) -> None:
        """Take away the polishing, which was set aside when the run went on."""
        kept = np.flatnonzero(self.number < number)
        if len(kept) == len(self.number):
            return
        new_row = {int(old): new for new, old in enumerate(kept)}
        self.why = {new_row[row]: reason for row, reason in self.why.items() if row in new_row}
        self.events = [(int(np.searchsorted(kept, rows)), event) for rows, event in self.events]
        for name in ("number", "asked", "record", "time", "f", "x"):
            setattr(self, name, getattr(self, name)[kept])
        self.epoch += 1

    def names(self) -> list[str]:
        """Return the names of the unknowns: recorded ones, or x0, x1, ..."""
        d, problem = self.x.shape[1], self.run["problem"]
        for names in (problem.get("names"), _keys(problem.get("bounds")), _keys(problem.get("prior"))):
            if isinstance(names, list) and len(names) == d and all(isinstance(name, str) for name in names):
                return [name[:80] for name in names]
        return numbered(d)

    def bounds(self) -> tuple[Floats, Floats]:
        """Return the bounds of the unknowns; where none are recorded, the range of the points."""
        d = self.x.shape[1]
        recorded = self.run["problem"].get("bounds")
        entries = [item[1] for item in _items(recorded)] if isinstance(recorded, dict) else recorded
        ends = [_ends(entry) for entry in entries] if isinstance(entries, list) and len(entries) == d else []
        box = np.array(ends or [(np.nan, np.nan)] * d).reshape(d, 2)
        finite = np.isfinite(self.x)
        low = np.where(finite, self.x, np.inf).min(axis=0, initial=np.inf)
        high = np.where(finite, self.x, -np.inf).max(axis=0, initial=-np.inf)
        is_known = box[:, 0] < box[:, 1]
        low, high = np.where(is_known, box[:, 0], low), np.where(is_known, box[:, 1], high)
        is_empty = ~(low < high)
        low = np.where(np.isfinite(low), low, 0.0)
        return np.where(is_empty, low - 0.5, low), np.where(is_empty, low + 0.5, high)


def _items(recorded: Any) -> list[list[Any]]:
    """Return the pairs of an encoded dict; none if it is no such thing."""
    items = recorded.get("items") if isinstance(recorded, dict) else None
    return [item for item in items if isinstance(item, list) and len(item) == 2] if isinstance(items, list) else []


def _keys(recorded: Any) -> list[Any]:
    return [item[0] for item in _items(recorded)]


def _ends(entry: Any) -> tuple[float, float]:
    """Return the bounds of one unknown: of a pair, of a variable with low and high, or of a choice; NaN if unknown."""
    if isinstance(entry, dict) and isinstance(entry.get("with"), dict):
        settings = entry["with"]
        choices = settings.get("entries")
        entry = [0, len(choices) - 1] if isinstance(choices, list) else [settings.get("low"), settings.get("high")]
    if isinstance(entry, list) and len(entry) == 2 and all(isinstance(end, int | float) for end in entry):
        low, high = (float(end) for end in entry)
        if np.isfinite(low) and np.isfinite(high):
            return low, high
    return np.nan, np.nan
