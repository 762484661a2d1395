"""Record the evaluations of a run, and recall them when the run is repeated.

A run is determined by its description and by the values of the objective, in the order in which it asks for them. So
only the values are recorded. To resume a run is to repeat it from the start with recorded values in place of calls, and
then to continue. Every recalled point must equal the recorded one, to the last bit.

Records after the header (see `paoswarm.store.log`):

- ``i, t, x, f, why`` for evaluated points: their numbers in the order of asking, the time in seconds since 1970, the
  points, the values (null if failed), and the reasons of failures by row. An asynchronous run also has ``asked``, the
  number of points it had asked for by then, because its course depends on the order in which values arrive. If some of
  these were known and not evaluated, ``recalled`` says how many.
  With constraints there is also ``c``, their numbers for each point; a value is infinite where a constraint failed
  before the objective was called. Of a fit, or of draws with data, there is ``y``, the outputs of the model; not where
  all points failed.
- ``open`` when a process starts to write, ``limits`` when they have changed, ``end`` when a call has ended. The first
  holds the fingerprint of the function, and the last one too if the function has changed what it uses.
- ``polish`` when polishing starts, and ``aside`` when it is set aside because the run continues. Both hold the number
  of the first evaluation.
- ``piece`` and ``state`` hold the state of runs whose evaluations are too many to be recorded, see
  `paoswarm.store.states`. Of such a run only a few points of the first swarm are recorded, by which a changed
  function is recognised, and the best point at every state.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from paoswarm._text import describe_error
from paoswarm.core.arrays import Floats
from paoswarm.store import states
from paoswarm.store.identity import (
    Measure,
    OtherRun,
    RecordedFunction,
    check_same,
    same_bits,
    versions,
    what_differs,
)
from paoswarm.store.log import Log, Record, logger
from paoswarm.store.records import encode_numbers
from paoswarm.store.states import Saved
from paoswarm.store.store import Contents, RecordedRun, Store

_ROWS = 100_000  # most points of one record, so that lines do not grow without limit


class Completion(NamedTuple):
    """An evaluation of an asynchronous run."""

    number: int  # in the order of asking
    asked: int  # how many points had been asked for when the value arrived
    value: float
    why: str | None  # reason of the failure, if it failed
    details: Floats | None = None  # numbers of the constraints, or outputs, if there are any


class Journal:
    """The record of a run in progress; a context manager.

    Parameters
    ----------
    store : Store
    run : RecordedRun
        Description of the run. A file with another problem is an error. Other limits are allowed, as long as they lead
        to the recorded points.
    fun : callable, optional
        The objective. `confirm` checks that the recorded values are its own.

    Attributes
    ----------
    path : Path
        The file.
    n_recalled : int
        Recorded evaluations that were given out again.
    limits, limits_of_call : dict
        The limits that were recorded last, and those of this call.
    """

    def __init__(self, store: Store, run: RecordedRun, fun: Any = None) -> None:
        self._function = None if fun is None else RecordedFunction(fun)
        self._is_trusted = store.trust or fun is None
        self._origin = store.origin
        self.n_recalled = 0
        self._log = Log(store.path, fsync=store.fsync == "always")
        self.path = self._log.path
        try:
            self._load(run)
        except BaseException:
            self._log.close()
            raise

    def _load(self, run: RecordedRun) -> None:
        log, header = self._log, self._log.header
        if header is not None:
            check_same(log.path, RecordedRun(**header["run"]), run)
        contents = self._contents = Contents.empty() if header is None else Contents.read(log.reader)
        log.recover()
        self._next = 0  # number of the next point, if points come in the order of their numbers
        self._numbers = np.zeros(0, dtype=np.int64)  # of the current batch of points
        self._missing = 0  # points of the current batch that are not recorded yet
        marks = [event for event in contents.events if "polish" in event or "aside" in event]
        # The first evaluation of polishing: in the file, and in this call.
        self._recorded_polish_start: int | None = marks[-1].get("polish") if marks else None
        self._polish_start: int | None = None
        self._is_open = False  # whether this call has recorded that it writes
        self._saved_columns = 0  # of the history of states, in the file
        self._is_incomplete = False  # whether the latest state could not be written to its end
        self._run = run
        if header is None:
            header = {"versions": versions(), "run": run._asdict()}
            log.start(header)
            logger.info("%s: new run of %s", log.path, run.function)
        else:
            count = int(contents.known.sum())
            logger.info("%s: %s resumed after %d evaluation%s", log.path, run.function, count, "s" * (count != 1))
        self._recorded_versions: dict[str, str] = header["versions"]
        # Limits: those that were recorded last, and those of this call.
        self.limits = RecordedRun(**header["run"]).with_latest_limits(contents.events).limits
        self.limits_of_call = run.limits
        if (self._is_trusted or not self.resumed) and not self._is_finished:
            self._record_opening()

    @property
    def resumed(self) -> bool:
        """Whether the file held evaluations when it was opened."""
        return bool(self._contents.known.any())

    @property
    def _is_finished(self) -> bool:
        """Whether the file holds a run that has ended by the present limits."""
        events = self._contents.events
        return bool(events and events[-1].get("end", {}).get("final"))

    def origin(self, total: int) -> str:
        """Return a sentence, after a space, about how many of all evaluations came from the file; empty if none."""
        share = f"All {total}" if self.n_recalled == total else f"{self.n_recalled} of {total}"
        return f" {share} evaluations came from the store." if self.n_recalled else ""

    def confirm(self, measure: Measure) -> None:
        """Check that the recorded values belong to the function; nothing is recorded before.

        Raises `OtherRun` if recorded points that are evaluated again have other values.
        """
        if self._is_trusted or not self.resumed:
            return
        assert self._function is not None
        self._function.confirm(
            self.path,
            self._contents,
            measure,
            is_noisy=any(self._run.problem.get(name) for name in ("reevaluate", "unbiased")),
            is_repeated=self._is_finished and self.limits == self.limits_of_call,
            best_is_highest=self._run.function == "sample",
        )
        if not self._is_finished:
            self._record_opening()

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and self._is_open:
            with suppress(OSError):
                self.end("ERROR", describe_error(error).rstrip(": "), final=False)
        self._log.close()

    def recall(
        self, x: Floats, numbers: NDArray[np.int64] | None = None
    ) -> tuple[Floats, NDArray[np.bool_], dict[int, str], Floats | None]:
        """Return the recorded values of the next points ``(m, d)``; raise `OtherRun` if other points are recorded.

        Points come in the order of their numbers, unless ``numbers`` (m,) says which ones these are: the evaluations of
        many runs are counted run by run. Values are NaN where nothing is recorded. With them come which are recorded,
        reasons of failures by row, and numbers of constraints or outputs ``(m, k)``, if there are any.
        """
        in_order = numbers is None
        if numbers is None:
            numbers = self._next + np.arange(len(x))
            self._next += len(x)
        else:
            self.set_polishing_aside(int(numbers.max(initial=-1)))
        self._numbers = numbers
        while (differs := self._difference(x, in_order)) is not None:
            row, number, what = differs
            if not (in_order and self.set_polishing_aside(number)):
                self._raise_other_run(int(numbers[row]), x[row], what)
        contents, rows = self._contents, np.flatnonzero(self._is_recorded(numbers))
        known, values = np.zeros(len(x), dtype=bool), np.full(len(x), np.nan)
        known[rows], values[rows] = True, contents.f[numbers[rows]]
        details = None
        if contents.details is not None:
            details = np.full((len(x), contents.details.shape[1]), np.nan)
            details[rows] = contents.details[numbers[rows]]
        failed = np.flatnonzero(known & np.isnan(values)).tolist()
        self._missing = len(x) - len(rows)
        self.n_recalled += len(rows)
        return values, known, {row: contents.reason(int(numbers[row])) for row in failed}, details

    def _is_recorded(self, numbers: NDArray[np.int64]) -> NDArray[np.bool_]:
        known = self._contents.known
        is_recorded = numbers < len(known)
        is_recorded[is_recorded] = known[numbers[is_recorded]]
        return is_recorded

    def _difference(self, x: Floats, in_order: bool) -> tuple[int, int, str] | None:
        """The first row where the file has another point or none, but later ones; the number that tells, and why."""
        contents, numbers, known = self._contents, self._numbers, self._is_recorded(self._numbers)
        if in_order and not known.all() and len(contents.known) > self._next:
            # Set aside if the time limit ended the run within this generation.
            later = self._next + int(np.argmax(contents.known[self._next :]))
            return int(np.argmin(known)), later, "is missing"
        rows = np.flatnonzero(known)
        other = rows[~same_bits(contents.x[numbers[rows]], x[rows])] if len(rows) else rows
        if not len(other):
            return None
        return int(other[0]), int(numbers[other[0]]), f"was at x = {contents.x[numbers[other[0]]]}"

    def polish(self, number: int | None = None) -> None:
        """Mark the evaluations from here on as polishing; they are set aside if the run continues later.

        ``number`` is that of the next point, if points do not come in the order of their numbers.
        """
        if self._polish_start is None:  # else it has begun, with a look around the end of the swarm
            self._polish_start = self._next if number is None else number

    @property
    def goes_on(self) -> bool:
        """Whether further generations are recorded at this point of the run, and not the end of the swarm."""
        start = self._recorded_polish_start
        return bool(self._contents.known[self._next :].any()) and (start is None or start > self._next)

    @property
    def n_before_polishing(self) -> int:
        """Above all numbers of recorded evaluations, without polishing."""
        start = self._recorded_polish_start
        return len(self._contents.known) if start is None else start

    def set_polishing_aside(self, number: int) -> bool:
        """Set recorded polishing aside if evaluation ``number`` is part of it; return whether it was."""
        start = self._recorded_polish_start
        if start is None or number < start:
            return False
        self._record_opening()
        self._log.append({"aside": start})
        self._contents = self._contents.before(start)
        self._recorded_polish_start = None
        return True

    def append(
        self, rows: NDArray[np.int64], x: Floats, values: Floats, why: dict[int, str], details: Floats | None = None
    ) -> None:
        """Record some rows of the last recalled batch; they are safe once this returns.

        ``why`` holds the reasons of failures, by position in ``rows``.
        """
        for first in range(0, len(rows), _ROWS):
            part = slice(first, first + _ROWS)
            reasons = {row - first: reason for row, reason in why.items() if first <= row < first + _ROWS}
            more = self._detailed(None if details is None else details[part])
            self._record(self._numbers[rows[part]].tolist(), x[part], values[part], reasons, more)
        self._missing -= len(rows)

    def _detailed(self, details: Floats | None) -> Record:
        """What a record says about points besides their values; nothing of a simulator where all points failed."""
        if details is None or (self._run.has_outputs and np.isnan(details).all()):
            return {}
        return {"y" if self._run.has_outputs else "c": encode_numbers(details)}

    def _announce(self) -> None:
        """Record who writes, and new limits, before anything else."""
        self._record_opening()
        if self.limits != self.limits_of_call:
            self._log.append({"limits": self.limits_of_call})
            self.limits = self.limits_of_call

    def _record(self, index: list[int], x: Floats, values: Floats, why: dict[int, str], more: Record) -> None:
        self._announce()
        if self._polish_start is not None and self._polish_start != self._recorded_polish_start:
            self._log.append({"polish": self._polish_start})
            self._recorded_polish_start = self._polish_start
        contiguous = index == list(range(index[0], index[0] + len(index)))
        record: Record = {"i": index[0] if contiguous else index, "t": round(time.time(), 3)}
        record |= {"x": encode_numbers(x), "f": encode_numbers(values), **more}
        if why:
            record["why"] = {str(row): reason for row, reason in why.items()}
            for row, reason in why.items():
                logger.warning("%s: evaluation %d at x = %s %s", self.path, index[row], x[row], reason)
        self._log.append(record)

    def completions(self) -> list[Completion]:
        """Return the recorded evaluations of an asynchronous run, in the order in which they arrived."""
        found, f, details = [], self._contents.f, self._contents.details
        for i, asked in zip(self._contents.order.tolist(), self._contents.asked.tolist(), strict=True):
            if asked >= 0:
                why = self._contents.reason(i) if np.isnan(f[i]) else None
                found.append(Completion(i, asked, float(f[i]), why, None if details is None else details[i]))
        return found

    def go_on_after(self, asked: int) -> None:
        """Recall points in order again, after an asynchronous run or many runs, whose numbers are below ``asked``."""
        self._next = asked

    def check(self, number: int, x: Floats) -> bool:
        """Raise `OtherRun` if another point is recorded under this number; return whether polishing was set aside."""
        self._numbers = np.array([number])
        if (differs := self._difference(x[None], in_order=False)) is None:
            return False
        if not self.set_polishing_aside(number):
            self._raise_other_run(number, x, differs[2])
        return True

    def complete(self, found: Completion, x: Floats, recalled: int = 0) -> None:
        """Record an evaluation of an asynchronous run; it is safe once this returns."""
        details = None if found.details is None else found.details[None]
        more: Record = {"asked": found.asked, **self._detailed(details)}
        more |= {"recalled": recalled} if recalled else {}
        self._record(
            [found.number], x[None], np.array([found.value]), {} if found.why is None else {0: found.why}, more
        )

    def restore(self, shapes: Mapping[str, tuple[int, ...]], check: Callable[[states.Arrays], None]) -> Saved | None:
        """Return the latest recorded state, with arrays of these shapes; None if there is none.

        Raises `DamagedStore` if it makes no sense; ``check`` raises a ValueError then.
        """
        saved = states.latest(self.path, shapes, check)
        self._saved_columns = 0 if saved is None else saved.history.shape[1]
        return saved

    def record_points(self, x: Floats, values: Floats) -> None:
        """Record points ``(m, d)`` and their values, as the next evaluations."""
        first = max(self._next, len(self._contents.known))
        self._next = first + len(x)
        self._record(list(range(first, self._next)), x, values, {}, {})

    def save(self, generation: int, arrays: Mapping[str, Any], history: Floats, evaluations: int, failed: int) -> None:
        """Record a state; it is safe once this returns. ``history`` is that of all generations."""
        if self._is_incomplete:
            self._is_open = False  # announced again, by which readers know that the pieces before belong to no state
        self._announce()
        counts = {"generation": generation, "evaluations": evaluations, "failed": failed, "t": round(time.time(), 3)}
        is_large = self._log.size > states.LARGE
        if not (is_large and self._log.replace(states.BEGINNINGS, states.packed(arrays, history, counts))):
            self._is_incomplete = True
            for record in states.packed(arrays, history[:, self._saved_columns :], counts):
                self._log.append(record)
            self._is_incomplete = False
        self._saved_columns = history.shape[1]

    def end(self, status: str, message: str, *, final: bool) -> None:
        """Record how the call has ended. ``final`` says that the same call again would change nothing.

        A last generation that was cut short is never final.
        """
        logger.info("%s: %s", self.path, message)
        if self._is_open:  # repeating a finished run records nothing
            how: Record = {"status": status, "message": message, "final": final and not self._missing}
            if self._function is not None and (now := self._function.at_last) != self._function.at_first:
                how["function"] = now._asdict()
            self._log.append({"end": {**how, "t": round(time.time(), 3)}})
            self._is_open = False

    def _record_opening(self) -> None:
        """Record which process is writing, once."""
        if not self._is_open:
            who: Record = {"pid": os.getpid(), "host": platform.node(), "t": round(time.time(), 3)}
            if self._function is not None:
                who["function"] = self._function.at_first._asdict()
            if self._origin is not None:
                who["origin"] = dict(self._origin)
            self._log.append({"open": who})
            self._is_open = True

    def _raise_other_run(self, number: int, x: Floats, what: str) -> NoReturn:
        changed = ["the recorded run continues where this one starts polishing"]
        if self._polish_start is None:
            changed = what_differs(self.limits, self.limits_of_call, self._recorded_versions)
        old = f"Store({str(self.path)!r})"
        use = f"use x, f = {old}.read() and x0=(x[f < inf], f[f < inf])"
        if self._run.function == "fit":
            use = f"use old = {old} and x0=(old.read()[0], old.outputs())"
        raise OtherRun(
            f"{self.path} holds another run: evaluation {number} {what} there, but this run asks for x = {x} "
            f"({'; '.join(changed) or 'something has changed that the description of the run does not show'}). "
            "No evaluation was lost or added. Choose another store; to start the new run from the recorded values, "
            + use
        )
