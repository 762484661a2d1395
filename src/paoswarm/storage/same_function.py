"""Check that recorded values belong to the function that is given now.

The fingerprint of the function says what has changed in its code and in the values it uses. It does not see the files
and programs that the function uses. So one recorded point, or two if the fingerprint differs, are evaluated again and
compared. A function that gives two different values at one point is noisy, and proves nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np

from paoswarm._text import warn_user
from paoswarm.core.arrays import Floats
from paoswarm.storage.captures import Fingerprint, fingerprint
from paoswarm.storage.log import logger
from paoswarm.storage.same_run import OtherRun
from paoswarm.storage.store import Contents

# Returns for each point its value, or why it failed, or None if that says nothing about the function.
Measure = Callable[[Floats], list[float | str | None]]
_RELATIVE = 1e-9  # difference of two values that another machine or another number of points at once may make
_SINGLE = 1e-4  # the same, if all values are computed in single precision
_ABSOLUTE = 1e-3  # part of these differences that is allowed in units of the median of the recorded values


class Evidence(Enum):
    """What repeated evaluations have shown."""

    SAME = "gave the recorded values again"
    NOISY = "gave other values, but the function is noisy"
    NONE = "could not be evaluated again"


class Function:
    """The objective, to be compared with the one whose values are recorded.

    Attributes
    ----------
    at_first : Fingerprint
        As it was when the call began.
    """

    def __init__(self, fun: Any) -> None:
        self._fun, self.at_first = fun, fingerprint(fun)

    @property
    def at_last(self) -> Fingerprint:
        """The fingerprint at this moment. A function may count its calls or keep values."""
        return fingerprint(self._fun)

    def confirm(
        self,
        path: Path,
        contents: Contents,
        measure: Measure,
        *,
        is_noisy: bool,
        is_repeated: bool,
        best_is_highest: bool,
    ) -> None:
        """Check that recorded values belong to the function.

        Raises `OtherRun` if recorded points have other values. Warns if something has changed all the same, since it
        may count at other points, except what the function changes itself. A run that is only repeated with an equal
        fingerprint needs no evaluation.
        """
        changes, is_sure = self._changes(contents)
        if is_repeated and is_sure and not changes:
            return
        numbers = [] if is_noisy else _points_to_repeat(contents, best_is_highest, 1 if is_sure and not changes else 2)
        evidence = Evidence.NONE
        if numbers:
            evidence = _compare_values(path, contents, numbers, measure, changes)
            logger.info("%s: recorded points %s %s", path, numbers, evidence.value)
            own = self.at_first.changes(self.at_last) if changes else []  # no sign of an edit
            changes = [name for name in changes if name not in own]
        if changes:
            points = (
                f"Evaluation {' and '.join(map(str, numbers))} {evidence.value}" if numbers else "Nothing was checked"
            )
            warn_user(
                f"the function has changed since its values in {path} were recorded: {_name_some(changes)}. {points}; "
                "the recorded values are used. To evaluate the new function from the start, choose another store or "
                "delete this one"
            )

    def _changes(self, contents: Contents) -> tuple[list[str], bool]:
        """Return which parts have changed, and whether nothing else can have changed.

        It may look as when the last call began, or, in the same process, as when it ended.
        """
        events = [event.get("open") or event.get("end") or {} for event in contents.events]
        kept = [(was, event) for event in events if (was := _read_fingerprint(event)) is not None]
        begun = [place for place, (_, event) in enumerate(kept) if "pid" in event]
        if not begun:
            return [], False
        latest = [was for was, _ in kept[begun[-1] :]]
        changes = min((was.changes(self.at_first) for was in latest), key=len)
        return changes, not self.at_first.unsure and any(was.python == self.at_first.python for was in latest)


def _read_fingerprint(event: Any) -> Fingerprint | None:
    """Return the fingerprint in a record of opening or ending; None if there is none."""
    kept = event.get("function") if isinstance(event, dict) else None
    if not isinstance(kept, dict) or not isinstance(kept.get("parts"), dict):
        return None
    unsure = kept.get("unsure")
    return Fingerprint(str(kept.get("python")), kept["parts"], unsure if isinstance(unsure, list) else [])


def _points_to_repeat(contents: Contents, best_is_highest: bool, count: int) -> list[int]:
    """Return the numbers of recorded points to evaluate again: the best one, and the worst one.

    They are as different as can be: a change of a penalty, say, does not show at the best. A worst value that occurs
    more than once may be a constant for impossible points; then the next one is taken.
    """
    finite = np.flatnonzero(contents.known & np.isfinite(contents.f))
    if not len(finite):
        return []
    values = contents.f[finite] * (-1.0 if best_is_highest else 1.0)
    best = int(np.argmin(values))
    different, places, counts = np.unique(values, return_index=True, return_counts=True)
    worst = [int(place) for place in places[(counts == 1) & (different > values[best])][-1:]]
    others = worst or [place for place in (0, 1) if place != best and place < len(finite)]
    return [int(finite[place]) for place in (best, *others)][:count]


def _compare_values(
    path: Path, contents: Contents, numbers: list[int], measure: Measure, changes: list[str]
) -> Evidence:
    """Evaluate recorded points again; raise `OtherRun` if the function is another one."""
    x, recorded = contents.x[numbers], contents.f[numbers].tolist()
    rounding = _Rounding(contents.f[contents.known & np.isfinite(contents.f)])
    values = measure(x)
    doubtful = [
        row
        for row, (was, now) in enumerate(zip(recorded, values, strict=True))
        if now is not None and not rounding.explains(was, now)
    ]
    if not doubtful:
        return Evidence.NONE if all(now is None for now in values) else Evidence.SAME
    for row, again in zip(doubtful, measure(x[doubtful]), strict=True):
        now = values[row]
        if again is not None and now is not None and rounding.explains(now, again):
            answer = now if isinstance(now, str) else f"returns {now!r}"
            reason = (
                f"changed since then: {_name_some(changes)}" if changes else "a file that it reads may have changed"
            )
            raise OtherRun(
                f"{path} holds values of another function: evaluation {numbers[row]} at x = {x[row]} was "
                f"{recorded[row]!r} there, but the function {answer} ({reason}). No evaluation was lost or added. "
                "Choose another store or delete this one; to use the recorded values all the same, pass "
                f"store=Store({str(path)!r}, trust=True)"
            )
    return Evidence.NOISY


def _name_some(changes: list[str]) -> str:
    """Return the names of changed parts as text; of many only the first."""
    shown = ", ".join(changes[:5])
    return f"{shown} and {len(changes) - 5} more" if len(changes) > 5 else shown


class _Rounding:
    """Differences that rounding makes, judged by the recorded values."""

    def __init__(self, recorded: Floats) -> None:
        with np.errstate(over="ignore"):
            is_single = (recorded.astype(np.float32) == recorded).all() and not (recorded == np.round(recorded)).all()
        self._relative = _SINGLE if is_single else _RELATIVE
        self._absolute = self._relative * _ABSOLUTE * float(np.median(np.abs(recorded)))

    def explains(self, one: float | str, other: float | str) -> bool:
        """Whether two answers are equal up to rounding; all failures are equal."""
        if isinstance(one, str) or isinstance(other, str):
            return isinstance(one, str) and isinstance(other, str)
        if not (math.isfinite(one) and math.isfinite(other)):
            return one == other
        return abs(one - other) <= self._relative * max(abs(one), abs(other)) + self._absolute
