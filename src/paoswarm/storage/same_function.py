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

from paoswarm.core.arrays import Floats
from paoswarm.storage.captures import CODE, Fingerprint
from paoswarm.storage.same_run import OtherRun
from paoswarm.storage.store import Contents

# Returns for each point its value, or why it failed, or None if that says nothing about the function.
Measure = Callable[[Floats], list[float | str | None]]
_RELATIVE = 1e-9  # difference of two values that another machine or another number of points at once may make
_ABSOLUTE = 1e-12  # the same, in units of the median of the recorded values


class Evidence(Enum):
    """What repeated evaluations have shown."""

    SAME = "gave the recorded values again"
    NOISY = "gave other values, but the function is noisy"
    NONE = "could not be evaluated again"


def read_fingerprint(event: Any) -> Fingerprint | None:
    """Return the fingerprint in a record of opening or ending; None if there is none."""
    kept = event.get("function") if isinstance(event, dict) else None
    if not isinstance(kept, dict) or not isinstance(kept.get("parts"), dict):
        return None
    unsure = kept.get("unsure")
    return Fingerprint(str(kept.get("python")), kept["parts"], unsure if isinstance(unsure, list) else [])


def points_to_repeat(contents: Contents, highest: bool, count: int) -> list[int]:
    """Return the numbers of recorded points to evaluate again: the best one, and the first one that is another."""
    finite = np.flatnonzero(contents.known & np.isfinite(contents.f))
    if not len(finite):
        return []
    values = contents.f[finite]
    best = int(finite[np.argmax(values) if highest else np.argmin(values)])
    others = [int(number) for number in finite[:2] if number != best]
    return [best, *others][:count]


def compare_values(
    path: Path, contents: Contents, numbers: list[int], measure: Measure, changes: list[str]
) -> Evidence:
    """Evaluate recorded points again; raise `OtherRun` if the function is another one."""
    x, recorded = contents.x[numbers], contents.f[numbers].tolist()
    scale = float(np.median(np.abs(contents.f[contents.known & np.isfinite(contents.f)])))
    values = measure(x)
    doubtful = [
        row
        for row, (was, now) in enumerate(zip(recorded, values, strict=True))
        if now is not None and not _agree(was, now, scale)
    ]
    if not doubtful:
        return Evidence.NONE if all(now is None for now in values) else Evidence.SAME
    for row, again in zip(doubtful, measure(x[doubtful]), strict=True):
        now = values[row]
        if again is not None and now is not None and _agree(now, again, scale):
            answer = now if isinstance(now, str) else f"returns {now!r}"
            reason = f"changed since then: {name_some(changes)}" if changes else "a file that it reads may have changed"
            raise OtherRun(
                f"{path} holds values of another function: evaluation {numbers[row]} at x = {x[row]} was "
                f"{recorded[row]!r} there, but the function {answer} ({reason}). No evaluation was lost or added. "
                "Choose another store or delete this one; to use the recorded values all the same, pass "
                f"store=Store({str(path)!r}, trust=True)"
            )
    return Evidence.NOISY


def changed_code(changes: list[str]) -> list[str]:
    """Return those of the changed parts that are code."""
    return [name for name in changes if name.startswith(CODE)]


def name_some(changes: list[str]) -> str:
    """Return the names of changed parts as text; of many only the first."""
    shown = ", ".join(changes[:5])
    return f"{shown} and {len(changes) - 5} more" if len(changes) > 5 else shown


def _agree(one: float | str, other: float | str, scale: float) -> bool:
    """Whether two answers are equal up to rounding; all failures are equal."""
    if isinstance(one, str) or isinstance(other, str):
        return isinstance(one, str) and isinstance(other, str)
    if not (math.isfinite(one) and math.isfinite(other)):
        return one == other
    return abs(one - other) <= _RELATIVE * max(abs(one), abs(other)) + _ABSOLUTE * scale
