"""Check that a file holds the requested run, and name what differs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paoswarm.core.arrays import Floats
from paoswarm.storage.encoding import as_text
from paoswarm.storage.log import StoreError
from paoswarm.storage.store import Run


class OtherRun(StoreError):
    """The file holds another run; its evaluations were not changed."""


def same_bits(one: Floats, other: Floats) -> NDArray[np.bool_]:
    """Whether rows are equal to the last bit; all NaNs count as equal."""
    same = np.ascontiguousarray(one).view(np.uint64) == np.ascontiguousarray(other).view(np.uint64)
    return (same | (np.isnan(one) & np.isnan(other))).all(axis=1)


def check_same(path: Path, recorded: Run, now: Run) -> None:
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
    return text if len(text) <= 200 else text[:197] + "..."
