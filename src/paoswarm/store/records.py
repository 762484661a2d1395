"""What the entries of records mean, and checks that a checksum cannot make.

A file with right checksums may still hold nonsense. All checks raise a ValueError; readers turn it into `DamagedStore`.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable
from typing import Any

import numpy as np

from paoswarm.core.arrays import Floats
from paoswarm.store import encoding

_DEEPEST = 40  # levels of nesting; a method within a method within ... has fewer
_LARGEST = 2**63  # of whole numbers, except seeds
_ROOM = 20_000_000  # numbers that may be missing between recorded points, because workers have not finished them

ConstraintLimits = tuple[dict[str, Floats], ...]  # of each constraint: lb, ub, tol


def recorded_limits(encoded: Any) -> ConstraintLimits:
    """Return the limits of the constraints in a header; raise a ValueError if they make no sense."""
    try:
        parts: ConstraintLimits = tuple(encoding.decode(encoded or []))
        for part in parts:
            _ = part["lb"] + part["ub"] + part["tol"]
    except Exception as error:
        raise ValueError("the constraints make no sense") from error
    return parts


def largest_excess(numbers: Floats, limits: ConstraintLimits, *, within_tolerance: bool = False) -> Floats:
    """Return how far the worst number of each row ``(m, k)`` is beyond its limits; NaN counts as zero.

    With ``within_tolerance`` it is zero for numbers that are allowed.
    """
    low, high, tol = (np.concatenate([part[name] for part in limits]) for name in ("lb", "ub", "tol"))
    excess = np.fmax(np.fmax(low - numbers, numbers - high), 0.0)
    worst: Floats = np.where(within_tolerance & (excess <= tol), 0.0, excess).max(axis=1)
    return worst


def encode_numbers(numbers: Floats) -> Any:
    """Return nested lists for JSON, with null for NaN and a string for infinity."""
    if np.isfinite(numbers).all():
        return numbers.tolist()
    if numbers.ndim > 1:
        return [encode_numbers(row) for row in numbers]
    return [n if math.isfinite(n) else None if math.isnan(n) else str(n) for n in numbers.tolist()]


def decode_number(encoded: Any) -> float:
    """Return a number from JSON, where null stands for NaN and a string for infinity."""
    return math.nan if encoded is None else float(encoded)


def decode_numbers(encoded: list[Any]) -> array[float]:
    """Decode many numbers; fast if all of them are finite."""
    try:
        return array("d", encoded)
    except TypeError:
        return array("d", map(decode_number, encoded))


def check_header(record: dict[str, Any]) -> None:
    """Check that a header describes a run."""
    run = record.get("run")
    if not isinstance(record.get("versions"), dict) or not isinstance(run, dict):
        raise ValueError("the description of the run is missing")
    kinds = {"function": str, "problem": dict, "limits": dict, "how": dict}
    if run.keys() != kinds.keys() or not all(isinstance(run[name], kind) for name, kind in kinds.items()):
        raise ValueError("the description of the run is incomplete")
    _check_nesting(record)
    _check_limits(run["limits"])


def check_event(record: dict[str, Any]) -> None:
    """Check a record that holds no evaluations."""
    _check_nesting(record)
    for name in ("open", "end", "limits", "state"):
        if name in record and not isinstance(record[name], dict):
            raise ValueError(f"{name} holds no entries")
    for name, is_right, otherwise in _ENTRIES:
        if name in record and not is_right(record[name]):
            raise ValueError(otherwise)
    if "limits" in record:
        _check_limits(record["limits"])


def check_evaluations(record: dict[str, Any]) -> None:
    """Check the form of a record of evaluations: as many numbers and points as values, and all points of one length."""
    first, x, f = record.get("i"), record.get("x"), record.get("f")
    if not isinstance(x, list) or not isinstance(f, list) or not _is_time(record.get("t")):
        raise ValueError("points, values or the time are missing")
    last = _last_number(first, len(f))
    if len(x) != len(f) or not f:
        raise ValueError("the numbers of points and values differ")
    _check_rows(x, len(f), "points")
    for name in ("c", "y"):
        if name in record:
            _check_rows(record[name], len(f), "the numbers of constraints or outputs")
    _check_asked(record, last)
    why = record.get("why", {})
    if not isinstance(why, dict) or not all(row.isdecimal() and len(row) < 10 and int(row) < len(f) for row in why):
        raise ValueError("a reason belongs to no point")


def _last_number(first: Any, count: int) -> int:
    """The highest number of a record's evaluations, from the number of the first of them or from a list of all."""
    numbers = first if isinstance(first, list) else [first]
    if not numbers or not all(map(is_count, numbers)):
        raise ValueError("the number of an evaluation is no whole number")
    if isinstance(first, list) and len(first) != count:
        raise ValueError("the numbers of points and values differ")
    return int(max(numbers))


def _check_asked(record: dict[str, Any], last: int) -> None:
    """Check how many points a run without generations had asked for and recalled."""
    if "asked" in record and not (is_count(record["asked"]) and record["asked"] > last):
        raise ValueError("an evaluation is recorded before the run asked for it")
    if "recalled" in record and not (is_count(record["recalled"]) and record["recalled"] < record.get("asked", 0)):
        raise ValueError("more points were recalled than the run asked for")


def check_size(n: int, d: int, recorded: int) -> None:
    """Check that the highest number of an evaluation fits the number of those that are recorded."""
    if n * d > 1000 * recorded * d + _ROOM:
        raise ValueError(f"evaluation {n - 1} is recorded, but only {recorded} altogether")


def _check_rows(rows: Any, count: int, what: str) -> None:
    is_list = isinstance(rows, list) and len(rows) == count and all(isinstance(row, list) for row in rows)
    if not is_list or len(set(map(len, rows))) != 1 or not rows[0]:
        raise ValueError(f"{what} are no lists of equal length, one for each value")


def is_count(value: Any) -> bool:
    """Whether this is a whole number from zero on."""
    return type(value) is int and 0 <= value < _LARGEST


def _is_time(value: Any) -> bool:
    """Whether this is a time in seconds."""
    return type(value) in (int, float) and abs(value) < 1e15 and math.isfinite(value)


# What the entries of an event must hold, and the error otherwise.
_ENTRIES: tuple[tuple[str, Callable[[Any], bool], str], ...] = (
    (
        "open",
        lambda who: is_count(who.get("pid")) and _is_time(who.get("t")),
        "the process that writes has no number or no time",
    ),
    ("end", lambda end: isinstance(end.get("message"), str), "an end has no message"),
    (
        "state",
        lambda state: all(is_count(state.get(name)) for name in ("generation", "evaluations", "failed")),
        "a state has no counts",
    ),
    (
        "state",
        lambda state: _is_time(state.get("t")) and isinstance(state.get("arrays"), dict),
        "a state has no time or no arrays",
    ),
    ("polish", is_count, "polish is not the number of an evaluation"),
    ("aside", is_count, "aside is not the number of an evaluation"),
)


def _check_limits(limits: dict[str, Any]) -> None:
    expected = limits.get("expected")
    if expected is not None and not is_count(expected):
        raise ValueError("the expected number of evaluations is no whole number")


def _check_nesting(record: dict[str, Any]) -> None:
    """Check depth and numbers without recursion. Seeds may have any number of digits."""
    parts: list[tuple[Any, int]] = [(record, 0)]
    while parts:
        part, depth = parts.pop()
        if depth > _DEEPEST:
            raise ValueError("it is nested too deeply")
        if isinstance(part, dict):
            parts += [(value, depth + 1) for name, value in part.items() if name != "rng"]
        elif isinstance(part, list):
            parts += [(value, depth + 1) for value in part]
        elif isinstance(part, int) and abs(part) >= _LARGEST:
            raise ValueError("a number is too large")
