"""Values in the place of ``{name}`` or ``{name:format}``, in the words of a command and in templates of input files.

Other braces stay as they are: input files of many simulators are full of them.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Collection, Mapping
from typing import Any

from paoswarm._checks import choices

_PLACE = re.compile(r"(?<!\$)\{([^\W\d]\w*)(?::([^{}\n]*))?\}")  # not ${name}, which is the shell's
_CLOSED = re.compile(r"""\\.|'[^']*'|"(?:\\.|\$(?!\()|[^"\\`$])*\"""", re.DOTALL)  # escapes and quotes that have ended
_OPEN = re.compile(r"""['"`\\]|<<""")  # what may follow is not an argument of its own


def names_in(text: str) -> list[str]:
    """The names in braces, each once.

    Examples
    --------
    >>> names_in("./simulate {rate} --order={order:d} {rate} {}")
    ['rate', 'order']
    """
    return list(dict.fromkeys(name for name, _ in _PLACE.findall(text)))


def check_names(text: str, known: Collection[str]) -> None:
    """Raise a TypeError if a name in braces is not a variable."""
    for name in names_in(text):
        if name not in known:
            raise TypeError(f"the command has {{{name}}}, but there is no such variable; {choices(name, known)}")


def _as_it_is(value: str, before: str) -> str:
    return value


def filled(text: str, values: Mapping[str, Any], quote: Callable[[str, str], str] = _as_it_is) -> str:
    """The text with values; names that are none of them stay as they are.

    A number is written so that it is read back to the last bit, unless there is a format. ``quote`` is called with each
    value and the text before it.

    Examples
    --------
    >>> filled("rate {rate:.2e} of {gain}, { 1 }", {"rate": 0.1, "gain": 1 / 3})
    'rate 1.00e-01 of 0.3333333333333333, { 1 }'
    """

    def value(match: re.Match[str]) -> str:
        name, form = match.groups()
        if name not in values:
            return match[0]
        try:
            return quote(format(values[name], form or ""), text[: match.start()])
        except (TypeError, ValueError) as error:
            raise TypeError(f"{match[0]} cannot show {values[name]!r}: {error}") from None

    return _PLACE.sub(value, text)


def quoted_for_shell(value: str, before: str) -> str:
    """A value in a line of shell. Raise a ValueError if the quotes around it would end those that it needs itself.

    Examples
    --------
    >>> quoted_for_shell("a b", "./simulate ")
    "'a b'"
    >>> quoted_for_shell("0.5", "awk 'BEGIN { print ")
    '0.5'
    """
    quoted = shlex.quote(value)
    if quoted != value and _OPEN.search(_CLOSED.sub("", before)):
        raise ValueError("it is quoted already; write it without quotes around it")
    return quoted
