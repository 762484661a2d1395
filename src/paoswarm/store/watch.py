"""Show the progress of a run, read from its store by another process."""

from __future__ import annotations

import math
import os
import platform
from typing import Any

import numpy as np

from paoswarm.core import order
from paoswarm.space.space import Space
from paoswarm.store.log import Reader, Record
from paoswarm.store.records import (
    ConstraintLimits,
    check_evaluations,
    check_event,
    check_header,
    decode_number,
    largest_excess,
    recorded_limits,
)
from paoswarm.store.store import recorded_space


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
    ended : str or None
        How the run ended; None while it is running.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._reader = Reader(path)
        self._sign = 1.0
        self._space: Space | None = None
        self._title = ""
        self._writer: dict[str, Any] = {}
        # Of the current call: when it started, when it last recorded a value, and the evaluations before it.
        self._started, self._last_recorded, self._evaluations_before = math.nan, math.nan, 0
        self.evaluations = self.failed = self._evaluations_before_polishing = 0
        self.best = math.nan
        self.where: list[float] = []
        self.expected: int | None = None
        self._limits: ConstraintLimits = ()  # of the constraints
        self._has_states = False  # the run is on a compiled engine: not all of its evaluations are recorded
        self.ended: str | None = None

    def update(self) -> Progress:
        """Read the new records."""
        if self._reader.good_bytes == 0 and self._reader.header() is None:
            return self
        for record in self._reader.records():
            try:
                self.add(record)
            except (ValueError, TypeError, OverflowError) as error:
                raise self._reader.damaged(str(error)) from error
        return self

    def add(self, record: Record) -> None:
        """Count one record; raise a ValueError, TypeError or OverflowError if it makes no sense."""
        if "f" in record:
            self._add_evaluations(record)
            return
        check_header(record) if "run" in record else check_event(record)
        if "run" in record:
            self._begin(record["run"])
        elif "limits" in record:
            self.expected = record["limits"].get("expected")
        elif "open" in record:
            self._writer, self.ended = record["open"], None
            self._started, self._evaluations_before = record["open"]["t"], self.evaluations
        elif "state" in record:
            state = record["state"]
            self.evaluations, self.failed, self._last_recorded = state["evaluations"], state["failed"], state["t"]
        elif "polish" in record:
            self._evaluations_before_polishing = self.evaluations
        elif "aside" in record:  # the run continues from before its polishing
            self.evaluations = self._evaluations_before = self._evaluations_before_polishing
        elif "end" in record:
            self.ended = record["end"]["message"]

    def _add_evaluations(self, record: Record) -> None:
        check_evaluations(record)
        self._last_recorded = record["t"]
        for point, encoded, is_allowed in zip(record["x"], record["f"], self._allowed(record), strict=True):
            value = decode_number(encoded)
            if not self._has_states:
                self.evaluations += 1
                self.failed += math.isnan(value)
            is_first = math.isnan(self.best) and not math.isnan(value)
            if is_allowed and (is_first or order.is_better(self._sign * value, self._sign * self.best)):
                self.best, self.where = value, [decode_number(element) for element in point]

    def _begin(self, run: dict[str, Any]) -> None:
        """Note what a header says of its run."""
        self.evaluations = self.failed = 0  # the file may have been replaced by a shorter one
        self._has_states = "engine" in run["problem"]
        self._sign = -1.0 if run["function"] == "sample" else 1.0
        method = run["problem"].get("method")
        self._title = f"{run['function']} {method.get('paoswarm', '') if isinstance(method, dict) else ''}".rstrip()
        self.expected = run["limits"].get("expected")
        self._limits = recorded_limits(run["problem"].get("constraints"))
        self._space = recorded_space(run["problem"].get("bounds"))

    def _allowed(self, record: Record) -> list[bool]:
        """Which of the points of a record satisfy the constraints of the run."""
        if "c" not in record or not self._limits:
            return [True] * len(record["f"])
        numbers = np.array([[decode_number(number) for number in row] for row in record["c"]])
        allowed: list[bool] = (largest_excess(numbers, self._limits, within_tolerance=True) == 0).tolist()
        return allowed

    @property
    def rate(self) -> float:
        """Evaluations per second since the run was last started or resumed."""
        seconds = self._last_recorded - self._started
        return (self.evaluations - self._evaluations_before) / seconds if seconds > 0 else math.nan

    @property
    def remaining(self) -> float:
        """Seconds until the limits are reached at this rate; NaN if unknown."""
        is_known = self.expected is not None and self.rate > 0
        return max(0, (self.expected or 0) - self.evaluations) / self.rate if is_known else math.nan

    @property
    def is_alive(self) -> bool | None:
        """Whether the process that writes is alive; None if it runs on another machine."""
        return is_running(self._writer["pid"]) if self._writer.get("host") == platform.node() else None

    def _place(self) -> str:
        """The point with the best value, by name if the variables have names."""
        where = np.array(self.where)
        is_named = self._space is not None and self._space.names is not None and len(where)
        return self._space.text(where) if self._space is not None and is_named else str(where)

    def __str__(self) -> str:
        if not self._title:
            return f"{self._reader.path}: no run has started"
        expected = self.expected or 0  # without polishing
        share = f" of {expected} ({self.evaluations / expected:.1%})" if self.evaluations <= expected else ""
        lines = [
            f"{self._reader.path}: {self._title}",
            f"evaluations  {self.evaluations}{share}, {self.failed} failed"
            + (f", {self.rate:.3g} per second" if self.rate > 0 else ""),
            f"best         {self.best:.10g} at {self._place()}",
        ]
        if self.ended is not None:
            lines.append(f"ended        {self.ended}")
        elif self.is_alive is False:
            lines.append(f"stopped      process {self._writer['pid']} is gone; the same call continues from here")
        elif 0 <= self.remaining < math.inf:
            lines.append(f"left         {_duration(self.remaining)} at most")
        return "\n".join(lines)


def _duration(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {seconds} s" if minutes else f"{seconds} s"
