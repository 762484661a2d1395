"""The evaluations of one run, recorded as they are made and recalled when the run is repeated.

A run is a function of its description and of the values of the objective, in the order in which they were asked for. So
the values are all that has to be kept: to resume is to run again from the beginning with recorded values in place of
calls, and then to go on. Every recalled point must be the one that is asked for, to the last bit.

Records after the header, see `paoswarm.storage.log`: ``i, t, x, f, why`` for evaluated points (numbers in the order of
asking, seconds since 1970, points, values with null for failures, and their reasons by row); of an asynchronous run
``asked`` as well, how many points had been asked for, since its course depends on who was quickest; ``open`` when a
process begins to write; ``limits`` when they were changed; ``end`` when a call has ended.
"""

from __future__ import annotations

import math
import os
import platform
import time
import warnings
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from paoswarm.core.arrays import Floats
from paoswarm.storage.fingerprint import objective_checksum
from paoswarm.storage.log import Log, Record, logger
from paoswarm.storage.same_run import OtherRun, check_same, same_bits
from paoswarm.storage.store import Contents, Run, Store, latest


class Recalled(NamedTuple):
    """What is known of a batch of points; values are NaN where nothing is."""

    values: Floats
    known: NDArray[np.bool_]
    why: dict[int, str]  # by row, of those that failed


class Completion(NamedTuple):
    """An evaluation of an asynchronous run."""

    number: int  # in the order of asking
    asked: int  # how many had been asked for when it arrived
    value: float
    why: str | None  # it failed


class Journal:
    """The record of a run that is going on; a context manager.

    Parameters
    ----------
    store : Store
    run : Run
        What is to be run. A file that holds another problem is an error; other limits are not, as long as they lead to
        the points that were recorded.
    fun : callable, optional
        The objective. If its code has changed since values were recorded, that is a warning: it may be the same.
    """

    def __init__(self, store: Store, run: Run, fun: Any = None) -> None:
        self._code = objective_checksum(fun)
        self._log = Log(store.path, fsync=store.fsync == "always")
        try:
            self._load(run)
        except BaseException:
            self._log.close()
            raise

    def _load(self, run: Run) -> None:
        log, header = self._log, self._log.header
        if header is None:
            kept = Contents.empty()
        else:
            check_same(log.path, Run(**header["run"]), run)
            kept = Contents.of(log.reader)
        log.recover()
        self._kept = kept
        self._first = self._position = 0  # evaluations asked for before the present batch, and with it
        self._missing = 0  # points of the present batch that are not recorded yet
        marks = [event for event in kept.events if "polish" in event or "aside" in event]
        self._polished_from: int | None = marks[-1].get("polish") if marks else None  # recorded evaluations of it
        self._polishing_from: int | None = None  # of this call
        self._announced = False
        self._run, self._versions = run, _versions()
        if header is None:
            header = {"versions": self._versions, "run": run._asdict()}
            log.start(header)
            logger.info("%s: a new run of %s", log.path, run.function)
        else:
            logger.info("%s: %s goes on after %d evaluations", log.path, run.function, kept.known.sum())
        self._made_with: dict[str, str] = header["versions"]
        self._limits = latest(Run(**header["run"]), kept.events).limits
        if self.resumed:
            self._compare_code()
        if not (kept.events and kept.events[-1].get("end", {}).get("final")):
            self._announce()

    @property
    def path(self) -> Path:
        """The file."""
        return self._log.path

    @property
    def resumed(self) -> bool:
        """Whether there was something to recall."""
        return bool(self._kept.known.any())

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and self._announced:
            with suppress(OSError):
                self.end("ERROR", f"{type(error).__name__}: {error}".rstrip(": "), final=False)
        self._log.close()

    def recall(self, x: Floats) -> Recalled:
        """What is recorded of the next points ``(m, d)`` of the run; `OtherRun` where other points are recorded."""
        first, last = self._first, self._position = self._position, self._position + len(x)
        kept = self._kept
        known, values = np.zeros(len(x), dtype=bool), np.full(len(x), np.nan)
        known[: len(kept.known[first:last])] = kept.known[first:last]
        if not known.all() and len(kept.known) > last:
            row = int(np.argmin(known))
            if self._makes_way(last + int(np.argmax(kept.known[last:]))):  # time had run out inside this generation
                return self._recall_again(x)
            self._refuse(first + row, x[row], "is missing")
        rows = np.flatnonzero(known)
        self._missing = len(x) - len(rows)
        if len(rows):
            there = kept.x[first + rows]
            if there.tobytes() != x[rows].tobytes():
                same = same_bits(there, x[rows])
                if not same.all():
                    row = int(rows[np.argmin(same)])
                    if self._makes_way(first + row):
                        return self._recall_again(x)
                    self._refuse(first + row, x[row], f"was at x = {kept.x[first + row]}")
            values[rows] = kept.f[first + rows]
        failed = np.flatnonzero(known & np.isnan(values)).tolist()
        return Recalled(values, known, {row: kept.why.get(first + row, "returned NaN") for row in failed})

    def polish(self) -> None:
        """What is asked for from here on is polishing: it makes way where the run itself goes on."""
        self._polishing_from = self._position

    def _makes_way(self, number: int) -> bool:
        """Whether what is recorded under a number is polishing, which is set aside then."""
        start = self._polished_from
        if start is None or number < start:
            return False
        self._announce()
        self._log.append({"aside": start})
        kept = self._kept
        self._kept = kept._replace(
            x=kept.x[:start],
            f=kept.f[:start],
            known=kept.known[:start],
            why={i: reason for i, reason in kept.why.items() if i < start},
            order=kept.order[kept.order < start],
        )
        self._polished_from = None
        return True

    def _recall_again(self, x: Floats) -> Recalled:
        self._position = self._first
        return self.recall(x)

    def append(self, rows: NDArray[np.int64], x: Floats, values: Floats, why: dict[int, str]) -> None:
        """Record some rows of the batch that was recalled last; they are safe once this returns.

        ``rows`` are their numbers in that batch, ``why`` the reasons of those that failed, by their place in ``rows``.
        """
        self._record((self._first + rows).tolist(), x, values, why, {})
        self._missing -= len(rows)

    def _record(self, index: list[int], x: Floats, values: Floats, why: dict[int, str], more: Record) -> None:
        self._announce()
        if self._limits != self._run.limits:
            self._log.append({"limits": self._run.limits})
            self._limits = self._run.limits
        if self._polishing_from is not None and self._polishing_from != self._polished_from:
            self._log.append({"polish": self._polishing_from})
            self._polished_from = self._polishing_from
        contiguous = index[-1] - index[0] == len(index) - 1
        record: Record = {"i": index[0] if contiguous else index, "t": round(time.time(), 3)}
        record |= {"x": _numbers(x), "f": _numbers(values), **more}
        if why:
            record["why"] = {str(row): reason for row, reason in why.items()}
            for row, reason in why.items():
                logger.warning("%s: evaluation %d at x = %s %s", self.path, index[row], x[row], reason)
        self._log.append(record)

    def completions(self) -> list[Completion]:
        """What is recorded of an asynchronous run, in the order in which it arrived."""
        kept = self._kept
        return [
            Completion(i, asked, float(kept.f[i]), kept.why.get(i, "returned NaN") if np.isnan(kept.f[i]) else None)
            for i in kept.order.tolist()
            if (asked := kept.asked.get(i)) is not None
        ]

    def go_on_after(self, asked: int) -> None:
        """What is recalled next comes after so many points of an asynchronous run."""
        self._position = asked

    def check(self, number: int, x: Floats) -> None:
        """Raise `OtherRun` where another point is recorded under this number."""
        kept = self._kept
        is_known = number < len(kept.known) and kept.known[number]
        if is_known and not same_bits(kept.x[number : number + 1], x[None])[0] and not self._makes_way(number):
            self._refuse(number, x, f"was at x = {kept.x[number]}")

    def complete(self, number: int, asked: int, x: Floats, value: float, why: str | None) -> None:
        """Record an evaluation of an asynchronous run; it is safe once this returns."""
        self._record([number], x[None], np.array([value]), {} if why is None else {0: why}, {"asked": asked})

    def end(self, status: str, message: str, *, final: bool) -> None:
        """Record how the call has ended; ``final`` where the same call again would change nothing.

        It would where the last generation was cut short, even if that was the last one.
        """
        logger.info("%s: %s", self.path, message)
        if self._announced:  # a finished run that was looked at again leaves no trace
            how = {"status": status, "message": message, "final": final and not self._missing}
            self._log.append({"end": {**how, "t": round(time.time(), 3)}})
            self._announced = False

    def _compare_code(self) -> None:
        """Warn where the objective was edited; the same source is other code to another Python."""
        codes = [event["open"].get("code", "") for event in self._kept.events if "open" in event]
        was, now = codes[-1] if codes else "", self._code
        if was and now and was != now and was.partition(":")[0] == now.partition(":")[0]:
            warnings.warn(
                f"the code of the function has changed since its values in {self.path} were recorded; they are used "
                "as they are: choose another store, or delete this one, to evaluate the new function from the start",
                RuntimeWarning,
                stacklevel=5,
            )

    def _announce(self) -> None:
        """Say who is writing, for others to see."""
        if not self._announced:
            who = {"pid": os.getpid(), "host": platform.node(), "t": round(time.time(), 3), "code": self._code}
            self._log.append({"open": who})
            self._announced = True

    def _refuse(self, number: int, x: Floats, what: str) -> NoReturn:
        changed = [
            f"{name} was {was!r} and is {self._run.limits.get(name)!r}, on which its schedules may depend"
            for name, was in self._limits.items()
            if was != self._run.limits.get(name) and name != "expected"
        ]
        changed += [
            f"it was made with {name} {was}, this is {self._versions.get(name)}"
            for name, was in self._made_with.items()
            if was != self._versions.get(name)
        ]
        if self._polishing_from is not None:
            changed = ["the recorded run goes on where this one is polished"]
        reason = "; ".join(changed) or "something that the description of a run does not show has changed"
        raise OtherRun(
            f"{self.path} holds another run: evaluation {number} {what} there, but this run asks for x = {x}; "
            f"{reason}; no evaluation was lost or added: choose another store, where a new run can begin with what is "
            f"known: x, f = Store({str(self.path)!r}).read(), then x0=x[f < inf], f0=f[f < inf]"
        )


def _numbers(numbers: Floats) -> Any:
    """Nested lists for JSON, which has neither NaN (null) nor infinity (a string)."""
    if np.isfinite(numbers).all():
        return numbers.tolist()
    if numbers.ndim > 1:
        return [_numbers(row) for row in numbers]
    return [n if math.isfinite(n) else None if math.isnan(n) else str(n) for n in numbers.tolist()]


@cache
def _versions() -> dict[str, str]:
    return {"paoswarm": version("paoswarm"), "numpy": np.__version__, "python": platform.python_version()}
