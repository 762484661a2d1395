"""Check that a file holds the requested run, and that its values belong to the function that is given now.

The description of the run must be the same. The fingerprint of the function says what has changed in its code and in
the values it uses. It does not see the files and programs that the function uses. So one recorded point, or two if the
fingerprint differs, are evaluated again and compared. A function that gives two different values at one point is noisy,
and proves nothing.
"""

from __future__ import annotations

import json
import math
import platform
from collections.abc import Callable
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paoswarm._text import shortened, warn_user
from paoswarm.core.arrays import Floats
from paoswarm.store.encoding import as_text
from paoswarm.store.fingerprint import Fingerprint, fingerprint
from paoswarm.store.log import StoreError, logger
from paoswarm.store.store import Contents, RecordedRun

# Returns for each point its value, or why it failed, or None if that says nothing about the function.
Measure = Callable[[Floats], list[float | str | None]]
_RELATIVE = 1e-9  # difference of two values that another machine or another number of points at once may make
_SINGLE = 1e-4  # the same, if all values are computed in single precision
_ABSOLUTE = 1e-3  # part of these differences that is allowed in units of the median of the recorded values


class OtherRun(StoreError):
    """The file holds another run; its evaluations were not changed."""


def same_bits(one: Floats, other: Floats) -> NDArray[np.bool_]:
    """Whether rows are equal to the last bit; all NaNs count as equal."""
    same = np.ascontiguousarray(one).view(np.uint64) == np.ascontiguousarray(other).view(np.uint64)
    return (same | (np.isnan(one) & np.isnan(other))).all(axis=1)


def check_same(path: Path, recorded: RecordedRun, now: RecordedRun) -> None:
    """Raise `OtherRun` if the file belongs to another problem, and name what differs."""
    if recorded.function != now.function:
        raise OtherRun(f"{path} holds a run of {recorded.function}, not of {now.function}; choose another store")
    if recorded.problem.get("engine") != now.problem.get("engine"):
        was, wanted = (_engine(run.problem.get("engine")) for run in (recorded, now))
        raise OtherRun(f"{path} holds a run with engine={was}, not with engine={wanted}; choose another store")
    if recorded.problem != now.problem:
        name, was, wanted = _difference("", recorded.problem, now.problem)
        raise OtherRun(
            f"{path} holds a run with {name} = {_short(was)}, but this one has {name} = {_short(wanted)}; "
            "it was not changed, choose another store"
        )


def what_differs(limits: dict[str, Any], limits_now: dict[str, Any], recorded_versions: dict[str, str]) -> list[str]:
    """Return sentences about limits and versions that differ."""
    return [
        f"{name} was {was!r} and is now {limits_now.get(name)!r}, and schedules may depend on it"
        for name, was in limits.items()
        if was != limits_now.get(name) and name != "expected"
    ] + [
        f"it was recorded with {name} {was}, and this is {name} {versions().get(name)}"
        for name, was in recorded_versions.items()
        if was != versions().get(name)
    ]


@cache
def versions() -> dict[str, str]:
    """Return the versions on which the numbers of a run may depend."""
    return {"paoswarm": version("paoswarm"), "numpy": np.__version__, "python": platform.python_version()}


def _engine(encoded: Any) -> str:
    """An engine as the user would write it."""
    return "'numpy'" if encoded is None else as_text(encoded)


def _difference(name: str, was: Any, now: Any) -> tuple[str, Any, Any]:
    """Return the name of the first detail that differs, and both values."""
    if _is_of_the_user(was) and _is_of_the_user(now):
        if [key for key, _ in was["items"]] != [key for key, _ in now["items"]]:
            return name.lstrip("."), was, now
        was, now = dict(was["items"]), dict(now["items"])
    if isinstance(was, dict) and isinstance(now, dict) and (not name or was.keys() == now.keys()):
        for key in {**was, **now}:
            if was.get(key) != now.get(key):
                inner = name if key in ("with", "paoswarm", "own", "array", "entropy") else f"{name}.{key}"
                return _difference(inner, was.get(key), now.get(key))
    return name.lstrip("."), was, now


def _is_of_the_user(value: Any) -> bool:
    """Whether a value is a dict of the user, such as a space."""
    return isinstance(value, dict) and value.keys() == {"items"}


def _short(value: Any) -> str:
    if _is_of_the_user(value):
        text = f"{{{', '.join(str(key) for key, _ in value['items'])}}}"
    elif isinstance(value, list) and value and all(_is_of_the_user(one) for one in value):  # constraints
        text = f"[{', '.join(str(dict(one['items']).get('label')) for one in value)}]"
    else:
        text = "None" if value is None else json.dumps(value)
    return shortened(text, 200)


class RecordedFunction:
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
        evidence = "Nothing was checked"
        if numbers:
            found = _compare_values(path, contents, numbers, measure, changes)
            evidence = f"Evaluation {' and '.join(map(str, numbers))} {found}"
            logger.info("%s: recorded points %s %s", path, numbers, found)
            own = self.at_first.changes(self.at_last) if changes else []  # no sign of an edit
            changes = [name for name in changes if name not in own]
        if changes:
            warn_user(
                f"the function has changed since its values in {path} were recorded: {_name_some(changes)}. {evidence}"
                "; the recorded values are used. To evaluate the new function from the start, choose another store or "
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


def _compare_values(path: Path, contents: Contents, numbers: list[int], measure: Measure, changes: list[str]) -> str:
    """Evaluate recorded points again and say what they gave; raise `OtherRun` if the function is another one."""
    x, recorded = contents.x[numbers], contents.f[numbers].tolist()
    is_same = _rounding(contents.f[contents.known & np.isfinite(contents.f)])
    values = measure(x)
    doubtful = [
        row
        for row, (was, now) in enumerate(zip(recorded, values, strict=True))
        if now is not None and not is_same(was, now)
    ]
    if not doubtful:
        none_was = all(now is None for now in values)
        return "could not be evaluated again" if none_was else "gave the recorded values again"
    for row, again in zip(doubtful, measure(x[doubtful]), strict=True):
        now = values[row]
        if again is not None and now is not None and is_same(now, again):
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
    return "gave other values, but the function is noisy"


def _name_some(changes: list[str]) -> str:
    """Return the names of changed parts as text; of many only the first."""
    shown = ", ".join(changes[:5])
    return f"{shown} and {len(changes) - 5} more" if len(changes) > 5 else shown


def _rounding(recorded: Floats) -> Callable[[float | str, float | str], bool]:
    """Whether two answers are equal up to rounding, judged by the recorded values; all failures are equal."""
    with np.errstate(over="ignore"):
        is_single = (recorded.astype(np.float32) == recorded).all() and not (recorded == np.round(recorded)).all()
    relative = _SINGLE if is_single else _RELATIVE
    absolute = relative * _ABSOLUTE * float(np.median(np.abs(recorded)))

    def explains(one: float | str, other: float | str) -> bool:
        if isinstance(one, str) or isinstance(other, str):
            return isinstance(one, str) and isinstance(other, str)
        if not (math.isfinite(one) and math.isfinite(other)):
            return one == other
        return abs(one - other) <= relative * max(abs(one), abs(other)) + absolute

    return explains
