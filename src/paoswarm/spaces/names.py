"""Names of unknowns: which ones can be used, and what unknowns without names are called."""

from __future__ import annotations

import keyword
from collections.abc import Mapping
from typing import Any


def check_name(name: Any) -> None:
    """Raise if an unknown cannot have this name."""
    if not isinstance(name, str):
        raise TypeError(f"the name of a variable must be a string, got {name!r}; without names, give a list")
    if keyword.iskeyword(name):
        raise ValueError(f"the name {name!r} is a keyword of Python; write {name + '_'!r}")
    if not name.isidentifier():
        raise ValueError(f"the name {name!r} is not an identifier: use letters, digits and underscores, as in Python")


def text_by_name(values: Mapping[str, Any]) -> str:
    """A point in messages.

    Examples
    --------
    >>> text_by_name({"rate": 0.5, "kernel": "rbf"})
    "rate = 0.5, kernel = 'rbf'"
    """
    return ", ".join(f"{name} = {value!r}" for name, value in values.items())


def numbered(d: int) -> list[str]:
    """What ``d`` unknowns without names are called: in results, tables, commands and on plots.

    Examples
    --------
    >>> numbered(3)
    ['x0', 'x1', 'x2']
    """
    return [f"x{i}" for i in range(d)]
