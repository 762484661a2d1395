"""HTML for results in notebooks: a title, small tables and remarks, with everything escaped.

Colours come from the notebook, so the tables are readable on light and on dark backgrounds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

MOST_ROWS = 12  # of a table with a row for each parameter

_LINE = "border:0;border-bottom:1px solid rgba(128,128,128,.35);padding:.1em .8em .1em 0;background:none;color:inherit"


def block(title: str, *parts: str) -> str:
    """A titled block of HTML; the title is text, the parts come from `table` and `remark`."""
    return f'<div style="font-size:.95em"><div style="font-weight:600">{_text(title)}</div>{"".join(parts)}</div>'


def remark(text: str) -> str:
    """A paragraph; empty for no text."""
    return f'<p style="margin:.4em 0;max-width:60em">{_text(text)}</p>' if text else ""


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


def shortened(rows: Sequence[Sequence[Any]], what: str) -> tuple[list[Sequence[Any]], str]:
    """The first rows of a long table, and a remark on how many more there are."""
    if len(rows) <= MOST_ROWS:
        return list(rows), ""
    return list(rows[: MOST_ROWS - 2]), remark(f"... and {len(rows) - MOST_ROWS + 2} more {what}")


def _cell(kind: str, value: Any, side: str) -> str:
    weight = "600" if kind == "th" else "400"
    return f'<{kind} style="{_LINE};text-align:{side};font-weight:{weight}">{_text(value)}</{kind}>'


def _text(value: Any) -> str:
    return escape(str(value))
