"""The text of exceptions and objects that are not ours: making it may fail, and it may be very long."""

from __future__ import annotations

from typing import Any

_MOST_CHARACTERS = 1000


def text_of(error: BaseException) -> str:
    """Return the text of an exception.

    Examples
    --------
    >>> text_of(ValueError("too hot"))
    'too hot'
    """
    return _shortened(str, error, "its text cannot be shown", _MOST_CHARACTERS)


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
    return _shortened(repr, thing, "it cannot be shown", most)


def _shortened(show: Any, thing: Any, instead: str, most: int) -> str:
    try:
        text: str = show(thing)
    except Exception as error:
        text = f"{instead}: {show.__name__}() raised {type(error).__name__}"
    return text if len(text) <= most else text[: most - 3] + "..."
