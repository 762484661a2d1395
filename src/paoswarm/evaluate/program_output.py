r"""Read a value or a table from what a program has written, or from a file: CSV, columns apart by spaces, or JSON."""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from paoswarm._checks import choices, counted, of_kind
from paoswarm._text import shortened
from paoswarm.core.arrays import Floats

_DIGITS = r"(?:\d*\.\d+[-+]\d{3}|(?:\d+\.?\d*|\.\d+)(?:[eEdD][-+]?\d+)?)"  # Fortran writes 1.0D-3 and 0.1-103
_NUMBER = re.compile(rf"(?<![\w.+-])[-+]?(?:{_DIGITS}|inf(?:inity)?|nan)(?!\w|\.\d)", re.IGNORECASE)
_MOST = 300  # characters of output in a message
_MISSING = {"", "na", "n/a", "null", "none", "-"}
_BESIDE = 1e-6  # of the range: a place so far outside counts as its end, because programs add up time steps


class CommandFailed(RuntimeError):
    """A program ended with an error, or did not write a value."""


class WrongOutput(CommandFailed):
    """There is no such program, or its output has another form: what is the same at ten points, is so at all."""


def read_value(text: str, pattern: str | None, where: str) -> float:
    r"""The last number of the last line that is not empty; or that of a pattern, where it matches last.

    A pattern finds its first group; without a group, the first number behind it in the same line.

    Examples
    --------
    >>> read_value("step 3\ncost: -1.5D-2 \n\n", None, "the output")
    -0.015
    >>> read_value("cost = 7 (after 3 steps)\ndone", "cost", "the output")
    7.0
    >>> read_value("it cost 7 EUR", r"(\d+) EUR", "the output")
    7.0
    """
    if pattern is None:
        lines = [line for line in text.splitlines() if line.strip()]
        if not lines:
            raise CommandFailed(f"{where} is empty, so there is no value")
        numbers = _NUMBER.findall(lines[-1])
        if not numbers:
            raise CommandFailed(
                f"the last line of {where} has no number: {tail(lines[-1])!r}; give a pattern if it is in another line"
            )
        return number_of(numbers[-1])
    found = _last_match(text, pattern, where)
    if found.re.groups:
        part = (found[1] or "").strip()
    else:
        line = text[found.end() :].partition("\n")[0]
        after = _NUMBER.search(line)
        part = after[0] if after is not None else line
    try:
        return number_of(part)
    except ValueError:
        raise CommandFailed(f"the pattern {pattern!r} found {tail(part)!r} in {where}, not a number") from None


def _last_match(text: str, pattern: str, where: str) -> re.Match[str]:
    found = list(re.finditer(pattern, text, flags=re.MULTILINE))
    if not found:
        raise CommandFailed(f"the pattern {pattern!r} is not in {where}, which ends with {tail(text)!r}")
    return found[-1]


def tail(text: str) -> str:
    """The end of an output in one line, without what could control a terminal."""
    printable = "".join(character if character.isprintable() else " " for character in text[-4 * _MOST :])
    words = " ".join(printable.split())
    return words if len(words) <= _MOST else "..." + words[3 - _MOST :]


def check_pattern(pattern: str) -> None:
    """Raise a ValueError if it is no regular expression."""
    of_kind("a pattern", pattern, str, "a regular expression as text")
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"pattern {shortened(pattern, 80)!r} is not a regular expression: {error}") from None


def number_of(text: str) -> float:
    """A number as C, Python or Fortran writes it; raises a ValueError for anything else."""
    return float(re.sub(r"[dD](?=[-+]?[0-9])|(?<=[0-9.])(?=[-+][0-9]{3}$)", "e", text))


class Table(NamedTuple):
    """Columns by name; without a header the names are ``0``, ``1``, ..."""

    columns: dict[str, Floats]
    has_names: bool


def read_table(text: str, where: str) -> Table:
    r"""The columns of a table; an empty cell is NaN. Lines that start with ``#`` do not count.

    The first line may hold names. So may a line with ``#`` before the rows, as NumPy and gnuplot write it. JSON is an
    object of lists, or a list of objects.

    Examples
    --------
    >>> read_table("time,x\n1,2.5\n2,\n", "the file").columns
    {'time': array([1., 2.]), 'x': array([2.5, nan])}
    >>> read_table("# t v\n0.0 1\n0.5 1D-1", "the output").columns
    {'t': array([0. , 0.5]), 'v': array([1. , 0.1])}
    >>> read_table('{"x": [1, null]}', "the output").columns
    {'x': array([ 1., nan])}
    """
    if re.match(r"\s*(\[\s*)?\{", text):
        return Table(_of_json(text, where), True)
    every = text.splitlines()
    lines = [(number, line) for number, line in enumerate(every, 1) if line.strip()[:1] not in ("", "#", "%")]
    if not lines:
        raise ValueError(f"{where} is empty, so there is no table")
    begin, first = lines[0]
    separator = next((one for one in ",;\t" if one in first), None)
    rows = [(number, _cells(line, separator)) for number, line in lines]
    count = len(rows[0][1])
    begins_with_names = None in map(_number, rows[0][1])  # a text among the cells: these are names
    found = rows.pop(0)[1] if begins_with_names else _names_above(every[: begin - 1], separator, count)
    names = found or [str(j) for j in range(count)]
    if len(set(names)) < count or "" in names:
        raise ValueError(f"{where}: every column needs a name of its own, got {', '.join(names)}")
    if not rows:
        raise ValueError(f"{where} has a line of names, but no rows")
    values = np.array([_row(cells, names, f"{where}, line {number}") for number, cells in rows])
    return Table(dict(zip(names, values.T.copy(), strict=True)), bool(found))


def _names_above(comments: list[str], separator: str | None, count: int) -> list[str]:
    """The cells of the last comment above the rows that has one for every column; none if there is no such comment."""
    bare = [comment.lstrip("#% \t") for comment in comments[::-1]]
    read = (_cells(comment, one) for comment in bare for one in (separator, None))
    return next((found for found in read if len(found) == count), [])


def _cells(line: str, separator: str | None) -> list[str]:
    cells = line.split() if separator is None else next(csv.reader([line], delimiter=separator, skipinitialspace=True))
    return [cell.strip() for cell in cells]


def _number(cell: str) -> float | None:
    """The number in a cell, NaN if it is empty; None if it is a text."""
    if cell.lower() in _MISSING:
        return math.nan
    try:
        return number_of(cell)
    except ValueError:
        return None


def _row(cells: list[str], names: Sequence[str], where: str) -> list[float]:
    if len(cells) != len(names):
        raise ValueError(
            f"{where} has {counted(len(cells), 'cell')}, but the table has {counted(len(names), 'column')}"
        )
    row = []
    for name, cell in zip(names, cells, strict=True):
        number = _number(cell)
        if number is None:
            raise ValueError(f"{where}: {shortened(cell, 80)!r} in column {name!r} is not a number")
        row.append(number)
    return row


def _of_json(text: str, where: str) -> dict[str, Floats]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{where} is not valid JSON: {error}") from None
    if isinstance(found, list) and found and all(isinstance(one, dict) for one in found):
        found = {name: [one.get(name) for one in found] for name in found[0]}
    if not isinstance(found, dict) or not found:
        raise ValueError(f'{where} must be an object of lists, {{"x": [1, 2]}}, or a list of objects')
    columns = {}
    for name, values in found.items():
        try:
            columns[str(name)] = np.atleast_1d(np.array(values, dtype=float))
        except (TypeError, ValueError):
            raise ValueError(f"{where}: {name!r} holds something that is not a number") from None
    return columns


class Columns(NamedTuple):
    """Which columns of a program's table are its outputs, and where.

    Attributes
    ----------
    names : list of str
    at : mapping
        The name of the column of places, and the places at which outputs are wanted; empty for all rows as they are.
    """

    names: list[str]
    at: Mapping[str, list[float]]

    def read(self, text: str, pattern: str | None, where: str) -> dict[str, Floats]:
        """The outputs in what a program has written; `CommandFailed` if they are not there."""
        if pattern is not None:
            text = _behind(text, pattern, where)
        try:
            table = read_table(text, where)
        except ValueError as error:
            kind = CommandFailed if str(error).startswith(f"{where}, line ") else WrongOutput
            raise kind(f"{error}; it ends with {tail(text)!r}" if text.strip() else str(error)) from None
        columns = table.columns if table.has_names else self._named(table.columns, where)
        found = {name: _column(columns, name, where) for name in self.names}
        for name, places in self.at.items():
            own = _column(columns, name, where)
            found = {output: _at(own, values, np.array(places), name, where) for output, values in found.items()}
        return found

    def _named(self, columns: dict[str, Floats], where: str) -> dict[str, Floats]:
        """Columns without names: the places, then the outputs."""
        names = [*self.at, *self.names]
        if len(names) != len(columns):
            raise WrongOutput(
                f"{where} has {counted(len(columns), 'column')} without names; without a line of names they must be "
                f"{', '.join(names)}"
            )
        return dict(zip(names, columns.values(), strict=True))


def _behind(text: str, pattern: str, where: str) -> str:
    """The lines after the one where a pattern matches last, up to an empty one."""
    rest = text[_last_match(text, pattern, where).end() :].partition("\n")[2]
    return re.split(r"\n[ \t]*\r?\n", rest.strip("\r\n"), maxsplit=1)[0]


def _column(columns: Mapping[str, Floats], name: str, where: str) -> Floats:
    if name not in columns:
        raise WrongOutput(f"{where} has no column {name!r}; {choices(name, list(columns))}")
    return columns[name]


def _at(own: Floats, values: Floats, places: Floats, name: str, where: str) -> Floats:
    """Values at some places, on straight lines between those of the table."""
    if len(own) != len(values) or not (np.diff(own) > 0).all():
        raise CommandFailed(f"{where}: the column {name!r} must increase from row to row")
    room = _BESIDE * (own[-1] - own[0])
    if places.min() < own[0] - room or places.max() > own[-1] + room:
        outside = places.max() if places.max() > own[-1] + room else places.min()
        raise WrongOutput(f"{where} has {name} from {own[0]:g} to {own[-1]:g}, but there are data at {outside:g}")
    return np.interp(places, own, values)
