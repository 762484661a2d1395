"""The unknowns that ``--space`` or ``--bounds`` describe."""

from __future__ import annotations

import argparse
from typing import Any, NamedTuple

from paoswarm.cli.options import BOUND
from paoswarm.spaces.names import check_name, numbered
from paoswarm.spaces.space_file import RANGES, read_space
from paoswarm.spaces.variables import Real, Variable


class Unknowns(NamedTuple):
    """The variables as `minimize` or `sample` takes them, and what they are called in a command."""

    given: Any
    names: list[str]
    free: list[str]  # those that are not fixed


def read_unknowns(options: argparse.Namespace, *, prior: bool = False) -> Unknowns:
    """The variables of ``--space`` or ``--bounds``."""
    if options.space is None:
        entries = [_read_bound(text.strip()) for text in options.bounds]
        named = {name: variable for name, variable in entries if name}
        if len(named) < len(entries):
            if named:
                raise ValueError("--bounds: give names to all bounds or to none, and each name once")
            names = numbered(len(entries))
            return Unknowns([variable for _, variable in entries], names, names)
        return Unknowns(named, list(named), list(named))
    space = read_space(options.space, prior=prior)
    free = [name for name, one in space.items() if isinstance(one, Variable) or hasattr(one, "ppf")]
    if not free:
        raise ValueError(f"{options.space}: every variable is fixed, so nothing is left to search")
    return Unknowns(space, list(space), free)


def _read_bound(text: str) -> tuple[str, Any]:
    """Name and variable of an entry of ``--bounds``."""
    name, _, ends = text.rpartition("=")
    low, *rest = ends.split(",")
    kind = rest[1] if len(rest) == 2 else ""
    try:
        pair = float(low), float(rest[0])
        if len(rest) > 2 or (kind and kind not in RANGES):
            raise ValueError
    except (ValueError, IndexError):
        raise ValueError(f"--bounds: {text!r} must be {BOUND}, for example -5,5 or rate=1e-6,1e3,log") from None
    try:
        if name:
            check_name(name)
        return name, RANGES[kind](*pair) if kind else Real(*pair)
    except ValueError as error:
        raise ValueError(f"--bounds: {text}: {error}") from None
