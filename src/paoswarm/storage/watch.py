"""How a run is getting on, read from its store by another process."""

from __future__ import annotations

import math
import os
import platform
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from paoswarm.storage.log import Reader, Record
from paoswarm.storage.store import number


class Progress:
    """What the records of a store amount to so far; `update` reads those that have come since.

    Attributes
    ----------
    evaluations, failed : int
    best : float
        The lowest value, of a posterior the highest log likelihood; NaN before there is one.
    where : list of float
        Its point.
    expected : int or None
        Evaluations that the limits allow.
    rate : float
        Evaluations a second since the run was started or resumed last; NaN where nothing is known.
    ended : str or None
        How the run ended; None while it goes on.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._reader = Reader(path)
        self._sign = 1.0
        self._what = ""
        self._writer: dict[str, Any] = {}
        self._since, self._last, self._before = math.nan, math.nan, 0  # of the present call
        self.evaluations = self.failed = self._unpolished = 0
        self.best = math.nan
        self.where: list[float] = []
        self.expected: int | None = None
        self.ended: str | None = None

    def update(self) -> Progress:
        """Read on."""
        if self._reader.good == 0 and self._reader.header() is None:
            return self
        for record in self._reader.records():
            self._add(record)
        return self

    def _add(self, record: Record) -> None:
        if "f" in record:
            self._last = record["t"]
            for point, kept in zip(record["x"], record["f"], strict=True):
                value = number(kept)
                self.evaluations += 1
                self.failed += math.isnan(value)
                if self._sign * value < self._sign * self.best or (math.isnan(self.best) and not math.isnan(value)):
                    self.best, self.where = value, [number(element) for element in point]
        elif "run" in record:
            run = record["run"]
            self._sign = -1.0 if run["function"] == "sample" else 1.0
            self._what = f"{run['function']} {run['problem'].get('method', {}).get('paoswarm', '')}".rstrip()
            self.expected = run["limits"].get("expected")
        elif "limits" in record:
            self.expected = record["limits"].get("expected")
        elif "open" in record:
            self._writer, self.ended = record["open"], None
            self._since, self._before = record["open"]["t"], self.evaluations
        elif "polish" in record:
            self._unpolished = self.evaluations
        elif "aside" in record:  # the run went on from before its polishing
            self.evaluations = self._before = self._unpolished
        elif "end" in record:
            self.ended = record["end"]["message"]

    @property
    def rate(self) -> float:
        """Evaluations a second since the run was started or resumed last."""
        seconds = self._last - self._since
        return (self.evaluations - self._before) / seconds if seconds > 0 else math.nan

    @property
    def remaining(self) -> float:
        """Seconds that the limits leave at this rate; NaN where nothing is known."""
        return math.nan if self.expected is None else max(0, self.expected - self.evaluations) / self.rate

    @property
    def is_alive(self) -> bool | None:
        """Whether the process that writes is there; None where that cannot be known, on another machine."""
        if self._writer.get("host") != platform.node() or os.name != "posix":
            return None
        try:
            os.kill(self._writer["pid"], 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            pass
        return True

    def __str__(self) -> str:
        if not self._what:
            return f"{self._reader.path}: no run has begun"
        expected = self.expected or 0  # polishing is not among them
        share = f" of {expected} ({self.evaluations / expected:.1%})" if self.evaluations <= expected else ""
        lines = [
            f"{self._reader.path}: {self._what}",
            f"evaluations  {self.evaluations}{share}, {self.failed} failed"
            + (f", {self.rate:.3g} a second" if self.rate > 0 else ""),
            f"best         {self.best:.10g} at {np.array(self.where)}",
        ]
        if self.ended is not None:
            lines.append(f"ended        {self.ended}")
        elif self.is_alive is False:
            lines.append(f"stopped      process {self._writer['pid']} is gone; the same call goes on from here")
        elif self.remaining >= 0:
            lines.append(f"left         {_duration(self.remaining)} at most")
        return "\n".join(lines)


def watch(
    path: str | os.PathLike[str], *, once: bool = False, every: float = 1.0, show: Callable[[str], object] = print
) -> None:
    """Show how a run is getting on, until it has ended or its process is gone; ``once`` only as it stands."""
    progress, shown = Progress(path), ""
    while True:
        text = str(progress.update())
        if text != shown:
            show(text)
            shown = text
        if once or progress.ended is not None or progress.is_alive is False:
            return
        time.sleep(max(every, 0.05))


def _duration(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {seconds} s" if minutes else f"{seconds} s"
