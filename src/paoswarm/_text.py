"""Text for people: of errors and objects that are not ours, warnings, values for JSON, and tables for notebooks."""

from __future__ import annotations

import math
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterable, Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

_PACKAGE = str(Path(__file__).parent)
_MOST_CHARACTERS = 1000
_MOST_DECIMALS = 8  # of a printed number; smaller ones have an exponent
MOST_ROWS = 12  # of a table with a row for each parameter
# Colours come from the notebook, so tables are readable on light and on dark backgrounds.
_LINE = "border:0;border-bottom:1px solid rgba(128,128,128,.35);padding:.1em .8em .1em 0;background:none;color:inherit"


def warn_user(message: str, category: type[Warning] = RuntimeWarning) -> None:
    """Warn with the place of the call that led into the package."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def text_of(error: BaseException) -> str:
    """Return the text of an exception.

    Examples
    --------
    >>> text_of(ValueError("too hot"))
    'too hot'
    """
    return _shown(str, error, "its text cannot be shown", _MOST_CHARACTERS)


def describe_error(error: BaseException) -> str:
    """Return the type and the text of an exception.

    Examples
    --------
    >>> describe_error(ValueError("too hot"))
    'ValueError: too hot'
    """
    return f"{type(error).__name__}: {text_of(error)}"


def repr_of(thing: Any, most: int) -> str:
    """Return the ``repr`` of an object, with at most this many characters."""
    return _shown(repr, thing, "it cannot be shown", most)


def paragraph(text: str, first: str = "", rest: str = "") -> list[str]:
    """A sentence or several in lines that fit a terminal and a page; with what lines begin with."""
    return textwrap.wrap(
        text, 88, initial_indent=first, subsequent_indent=rest, break_long_words=False, break_on_hyphens=False
    )


def printable(text: str) -> str:
    r"""A text with escapes in place of what could control a terminal; lines stay.

    Examples
    --------
    >>> printable("clear\x1b[2J")
    'clear\\x1b[2J'
    """
    return "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in text)


def shortened(text: str, most: int) -> str:
    """Return at most this many characters of a text.

    Examples
    --------
    >>> shortened("a long story", 9)
    'a long...'
    """
    return text if len(text) <= most else text[: most - 3] + "..."


def rounded(number: float, error: float) -> str:
    """Return a number with the digits that two digits of its standard error support.

    Examples
    --------
    >>> rounded(3.14159, 0.012)
    '3.142'
    """
    if not (0 < error < math.inf and math.isfinite(number)):
        return f"{number:.6g}"
    size = math.floor(math.log10(error))
    if 0 <= 1 - size <= _MOST_DECIMALS:
        return f"{number:.{1 - size}f}"
    digits = 2 + max(0, math.floor(math.log10(abs(number))) - size) if number else 1
    return f"{number:#.{min(digits, 15)}g}".rstrip(".")


def _shown(show: Any, thing: Any, instead: str, most: int) -> str:
    try:
        text: str = show(thing)
    except Exception as error:
        text = f"{instead}: {show.__name__}() raised {type(error).__name__}"
    return shortened(text, most)


def plain(thing: Any, *, array: Callable[[Any], Any], not_finite: Callable[[float], Any]) -> Any:
    """Return a value as JSON can hold it. ``array`` says what arrays become, ``not_finite`` NaN and infinities.

    What JSON does not know becomes its text.

    Examples
    --------
    >>> plain({"x": np.float64(1), "f": [math.inf]}, array=list, not_finite=str)
    {'x': 1.0, 'f': ['inf']}
    """

    def inside(part: Any) -> Any:
        if isinstance(part, dict):
            return {str(key): inside(value) for key, value in part.items()}
        if isinstance(part, np.ndarray):
            return array(part)
        if isinstance(part, list | tuple):
            return [inside(one) for one in part]
        if isinstance(part, bool | np.bool_):
            return bool(part)
        if isinstance(part, int | np.integer):
            return int(part)
        if isinstance(part, float | np.floating):
            return float(part) if math.isfinite(part) else not_finite(float(part))
        return part if part is None or isinstance(part, str) else str(part)

    return inside(thing)


def block(title: str, *parts: str) -> str:
    """A titled block of HTML; the title is text, the parts come from `table` and `remark`."""
    return f'<div style="font-size:.95em"><div style="font-weight:600">{_escaped(title)}</div>{"".join(parts)}</div>'


def remark(text: str) -> str:
    """A paragraph; empty for no text."""
    return f'<p style="margin:.4em 0;max-width:60em">{_escaped(text)}</p>' if text else ""


def table(rows: Iterable[Sequence[Any]], header: Sequence[str] = ()) -> str:
    """A table whose first column holds labels, and whose other columns hold numbers or text."""
    head = "".join(_cell("th", name, "right" if i else "left") for i, name in enumerate(header))
    side = "right" if header else "left"
    body = "".join(
        "<tr>" + _cell("th", label, "left") + "".join(_cell("td", value, side) for value in values) + "</tr>"
        for label, *values in rows
    )
    return (
        '<table style="border-collapse:collapse;margin:.4em 0;background:none;color:inherit;font-size:inherit">'
        + (f"<thead><tr>{head}</tr></thead>" if header else "")
        + f"<tbody>{body}</tbody></table>"
    )


def first_rows(rows: Sequence[Sequence[Any]], what: str) -> tuple[list[Sequence[Any]], str]:
    """The first rows of a long table, and a remark on how many more there are."""
    if len(rows) <= MOST_ROWS:
        return list(rows), ""
    return list(rows[: MOST_ROWS - 2]), remark(f"... and {len(rows) - MOST_ROWS + 2} more {what}")


def _cell(kind: str, value: Any, side: str) -> str:
    weight = "600" if kind == "th" else "400"
    return f'<{kind} style="{_LINE};text-align:{side};font-weight:{weight}">{_escaped(value)}</{kind}>'


def _escaped(value: Any) -> str:
    return escape(str(value))
