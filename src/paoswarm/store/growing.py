"""A stored run in memory, in the order in which values arrived; the file may be growing."""

from __future__ import annotations

import math
import os
from array import array
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paoswarm.core.arrays import Floats
from paoswarm.store.log import Reader, Record, StoreError, open_regular
from paoswarm.store.records import check_size, decode_numbers
from paoswarm.store.watch import Progress

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
    outputs : array (k,)
        Those of a fit at its best point; empty if there are none.
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
        self.outputs: Floats = np.zeros(0)
        self._best = math.inf  # the value at the outputs
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
            values = decode_numbers(record["f"])
            f += values
            if "y" in record and np.nanmin(values) < self._best:
                best = int(np.nanargmin(values))
                self._best, self.outputs = values[best], np.array(decode_numbers(record["y"][best]))
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
