"""A stored run seen from outside while it goes on: its evaluations, and its progress."""

from __future__ import annotations

import math
import os
import platform
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paoswarm._text import printable
from paoswarm.core.arrays import Floats
from paoswarm.space.space import Space
from paoswarm.store.log import Reader, Record, StoreError, open_regular
from paoswarm.store.records import ConstraintLimits, check_event, check_header, largest_excess, recorded_limits
from paoswarm.store.store import Rows, recorded_space

Whole = NDArray[np.int64]

_BEGINNING = 4096  # bytes that hold the time at which the run was started


def is_running(pid: int) -> bool | None:
    """Whether there is a process of this number on this machine; None if the system does not tell."""
    if os.name != "posix":
        return None
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        pass
    return True


class GrowingStore:
    """The evaluations of a run so far, in the order in which values arrived; the file may be growing.

    Attributes
    ----------
    path : Path
    epoch : int
        Grows when rows were taken away: the file was replaced, or its polishing was set aside.
    header : dict
        The description of the run; empty before it has started.
    number, asked, record : array (m,)
        Number of each evaluation in the order of asking; how many points had been sent by then (-1 if unknown);
        the record in which it was written.
    time, x, f : arrays (m,), (m, d), (m,)
        When it was recorded, the point, and its value; NaN where it failed.
    why : dict
        Reasons of failures, by row.
    details : array (m, k)
        Numbers of constraints, or the outputs of a fit.
    events : list
        All other records, each with the number of rows before it.
    progress : Progress
    trouble : str
        Why the file cannot be read any further; empty if it can.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.epoch = 0
        self.trouble = ""
        self.progress = Progress(self)
        self._reader = Reader(self.path)
        self._beginning = b""  # of the file: tells another file of the same name
        self._start()
        self.read()

    def _start(self) -> None:
        self.header: Record = {}
        self.limits: ConstraintLimits = ()
        self.space: Space | None = None
        self.events: list[tuple[int, Record]] = []
        self._rows = Rows()
        self._show()

    def _show(self) -> None:
        rows = self._rows
        self.number: Whole = np.array(rows.number, dtype=np.int64)
        self.asked: Whole = np.array(rows.asked, dtype=np.int64) - np.array(rows.recalled, dtype=np.int64)
        self.record: Whole = np.array(rows.record, dtype=np.int64)
        self.time, self.f = np.array(rows.time), np.array(rows.f)
        self.x: Floats = np.array(rows.x).reshape(len(self.f), rows.d)
        self.details: Floats = np.array(rows.details).reshape(len(self.f), rows.k)
        by_number = np.argsort(self.number)
        places = by_number[np.searchsorted(self.number, list(rows.why), sorter=by_number)]
        self.why = dict(zip(places.tolist(), rows.why.values(), strict=True))

    @property
    def run(self) -> dict[str, Any]:
        """The description of the run: function, problem, limits, how."""
        return self.header.get("run", {"function": "", "problem": {}, "limits": {}, "how": {}})

    @property
    def sign(self) -> float:
        """1 if low values are good, -1 for `sample`, whose values are log likelihoods."""
        return -1.0 if self.run["function"] == "sample" else 1.0

    @property
    def outputs(self) -> Floats:
        """The outputs ``(k,)`` of a fit at its best point; empty if there are none."""
        is_fit = self.run["function"] == "fit" and self.details.size and not np.isnan(self.f).all()
        return self.details[np.nanargmin(self.f)] if is_fit else np.zeros(0)

    def update(self) -> None:
        """Read what was added since the last time. A file that is gone or damaged is kept as far as it was read."""
        try:
            self.read()
            self.trouble = ""
        except OSError as error:
            self.trouble = f"{self.path}: {error.strerror or error}"
        except StoreError as error:
            self.trouble = str(error)

    def read(self) -> None:
        """The same; raise if the file cannot be read."""
        with open_regular(self.path) as file:
            beginning = file.read(_BEGINNING)
            size = os.fstat(file.fileno()).st_size
        if not beginning.startswith(self._beginning) or size < self._reader.good_bytes:
            self._reader = Reader(self.path)
            self._start()
            self.epoch += 1
        self._beginning = beginning[: self._reader.good_bytes]  # an unfinished record may be cut off
        if not self.header and self._reader.header() is None:
            self.progress.look(self)
            return  # no run has started
        try:
            for record in self._reader.records():
                self._add(record)
        except StoreError:
            raise
        except (ValueError, TypeError, OverflowError, MemoryError) as error:
            raise self._reader.damaged(str(error) or type(error).__name__) from error
        finally:
            self._show()
            self.progress.look(self)

    def _add(self, record: Record) -> None:
        if "f" in record:
            self._rows.add(record)
        elif "run" in record:
            check_header(record)
            if self.header:  # another file has taken the place
                self._start()
                self.epoch += 1
            self.header = record
            self.limits = recorded_limits(record["run"]["problem"].get("constraints"))
            self.space = recorded_space(record["run"]["problem"].get("bounds"))
        else:
            check_event(record)
            if "aside" in record:  # the polishing was set aside when the run went on
                kept = self._rows.forget(record["aside"])
                self.events = [(int(np.searchsorted(kept, rows)), event) for rows, event in self.events]
                self.epoch += 1
            else:
                self.events.append((len(self._rows.f), record))


class Progress:
    """Progress of a run, from the records in its store; `update` reads the new ones.

    Attributes
    ----------
    evaluations, failed : int
    best : float
        The lowest value, or for `sample` the highest log likelihood; NaN before the first value.
    where : list of float
        The point with the best value.
    expected : int or None
        Number of evaluations that the limits allow.
    rate : float
        Evaluations per second since the run was last started or resumed; NaN if unknown.
    remaining : float
        Seconds until the limits are reached at this rate; NaN if unknown.
    ended : str or None
        How the run ended; None while it is running.
    is_alive : bool or None
        Whether the process that writes is alive; None if it runs on another machine.
    """

    def __init__(self, store: str | os.PathLike[str] | GrowingStore) -> None:
        self._given = store

    def update(self) -> Progress:
        """Read the new records."""
        if isinstance(self._given, GrowingStore):
            self._given.read()
        else:
            self._given = GrowingStore(self._given)
        self.look(self._given)
        return self

    def look(self, store: GrowingStore) -> None:
        """Sum up what was read."""
        begun, opened = _latest(store, "open")
        writer = opened.get("open", {})
        self.evaluations, self.failed, last = _counts(store, len(store.events), len(store.f))
        before = _counts(store, begun, store.events[begun][0])[0] if opened else 0
        seconds = last - writer.get("t", math.nan)
        self.rate = (self.evaluations - before) / seconds if seconds > 0 else math.nan
        self.best, self.where = math.nan, list[float]()
        values = store.sign * store.f
        if store.limits and store.details.size:
            is_beyond = largest_excess(store.details, store.limits, within_tolerance=True) > 0
            values = np.where(is_beyond, np.nan, values)
        if not np.isnan(values).all():
            row = int(np.nanargmin(values))
            self.best, self.where = float(store.f[row]), store.x[row].tolist()
        limits = _latest(store, "limits")[1].get("limits", store.run["limits"])
        self.expected: int | None = limits.get("expected")
        is_known = self.expected is not None and self.rate > 0
        self.remaining = max(0, (self.expected or 0) - self.evaluations) / self.rate if is_known else math.nan
        self.ended: str | None = _latest(store, "open", "end")[1].get("end", {}).get("message")
        self.is_alive = is_running(writer["pid"]) if writer.get("host") == platform.node() else None
        self._shown = self._described(store, writer.get("pid")) if store.header else "no run has started"

    def __str__(self) -> str:
        path = self._given.path if isinstance(self._given, GrowingStore) else self._given
        return printable(f"{path}: {self._shown}")  # names and messages in a file may be anything

    def _described(self, store: GrowingStore, writer: Any) -> str:
        method, row = store.run["problem"].get("method"), np.array(self.where)
        name = method.get("paoswarm", "") if isinstance(method, dict) else ""
        place = str(row) if store.space is None or store.space.names is None or not len(row) else store.space.text(row)
        expected = self.expected or 0  # without polishing
        share = f" of {expected} ({self.evaluations / expected:.1%})" if self.evaluations <= expected else ""
        speed = f", {self.rate:.3g} per second" if self.rate > 0 else ""
        lines = [
            f"{store.run['function']} {name}".rstrip(),
            f"evaluations  {self.evaluations}{share}, {self.failed} failed{speed}",
            f"best         {self.best:.10g} at {place}",
        ]
        if self.ended is not None:
            lines.append(f"ended        {self.ended}")
        elif self.is_alive is False:
            lines.append(f"stopped      process {writer} is gone; the same call continues from here")
        elif 0 <= self.remaining < math.inf:
            lines.append(f"left         {_duration(self.remaining)} at most")
        return "\n".join(lines)


def _latest(store: GrowingStore, *names: str) -> tuple[int, Record]:
    """The latest event with one of these names, and its place among all; an empty one if there is none."""
    found = [(i, event) for i, (_, event) in enumerate(store.events) if not event.keys().isdisjoint(names)]
    return found[-1] if found else (0, {})


def _counts(store: GrowingStore, n_events: int, n_rows: int) -> tuple[int, int, float]:
    """How many evaluations there were, how many of them failed, and when the last one was recorded.

    Of a run on a compiled engine not all are recorded, but its states count them.
    """
    values, times = store.f[:n_rows], store.time[:n_rows]
    if "engine" not in store.run["problem"]:
        return len(values), int(np.isnan(values).sum()), float(times[-1]) if len(times) else math.nan
    states = [event["state"] for _, event in store.events[:n_events] if "state" in event]
    return (states[-1]["evaluations"], states[-1]["failed"], states[-1]["t"]) if states else (0, 0, math.nan)


def _duration(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {seconds} s" if minutes else f"{seconds} s"
