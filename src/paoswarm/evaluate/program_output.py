"""Read a value from what a program has written."""

from __future__ import annotations

import re

from paoswarm._text import shortened

_DIGITS = r"(?:\d*\.\d+[-+]\d{3}|(?:\d+\.?\d*|\.\d+)(?:[eEdD][-+]?\d+)?)"  # Fortran writes 1.0D-3 and 0.1-103
_NUMBER = re.compile(rf"(?<![\w.+-])[-+]?(?:{_DIGITS}|inf(?:inity)?|nan)(?!\w|\.\d)", re.IGNORECASE)
_MOST = 300  # characters of output in a message


class CommandFailed(RuntimeError):
    """A program ended with an error, or did not write a value."""


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
    found = list(re.finditer(pattern, text, flags=re.MULTILINE))
    if not found:
        raise CommandFailed(f"the pattern {pattern!r} is not in {where}, which ends with {tail(text)!r}")
    if found[-1].re.groups:
        part = (found[-1][1] or "").strip()
    else:
        line = text[found[-1].end() :].partition("\n")[0]
        after = _NUMBER.search(line)
        part = after[0] if after is not None else line
    try:
        return number_of(part)
    except ValueError:
        raise CommandFailed(f"the pattern {pattern!r} found {tail(part)!r} in {where}, not a number") from None


def tail(text: str) -> str:
    """The end of an output in one line, without what could control a terminal."""
    printable = "".join(character if character.isprintable() else " " for character in text[-4 * _MOST :])
    words = " ".join(printable.split())
    return words if len(words) <= _MOST else "..." + words[3 - _MOST :]


def check_pattern(pattern: str) -> None:
    """Raise a ValueError if it is no regular expression."""
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"pattern {shortened(pattern, 80)!r} is not a regular expression: {error}") from None


def number_of(text: str) -> float:
    """A number as C, Python or Fortran writes it; raises a ValueError for anything else."""
    return float(re.sub(r"[dD](?=[-+]?[0-9])|(?<=[0-9.])(?=[-+][0-9]{3}$)", "e", text))
