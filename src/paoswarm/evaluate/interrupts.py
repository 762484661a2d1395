"""What Ctrl-C may interrupt: not the start of a process, and not the end of a run that it has already interrupted."""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

_SAME_SECONDS = 1.0  # after an interrupt, in which others are taken for the same one
_TWIN_SECONDS = 0.05  # after an interrupt, before which a run does not return: two signals often come together


@contextmanager
def uninterrupted(*, blocked_in_children: bool = True) -> Iterator[None]:
    """Delay Ctrl-C until the block is done, so that every process that was started is also recorded.

    Blocking the signal is not enough: it then goes to another thread of this process (NumPy has some), and Python
    raises in the main thread all the same. But blocking is inherited by the processes that are started here; our own
    are prepared for it, programs of others are not.
    """
    came: list[int] = []
    handler = _handler_of_this_thread()
    if handler is not None:
        signal.signal(signal.SIGINT, lambda number, frame: came.append(number))
    can_block = blocked_in_children and hasattr(signal, "pthread_sigmask")
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT}) if can_block else set()
    try:
        yield
    finally:
        if can_block:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        if handler is not None:
            signal.signal(signal.SIGINT, handler)
            if came:
                handler(came[0], None)


@contextmanager
def interrupted_once() -> Iterator[None]:
    """Ignore Ctrl-C for a second after one that has raised in the block, so that the result can be made and returned.

    Later ones raise again. The block does not end before a second signal that was sent at the same moment has come: a
    terminal and a parent process may both send one.
    """
    handler = _handler_of_this_thread()
    if handler is None:
        yield
        return
    raised_at = -math.inf

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal raised_at
        if time.monotonic() < raised_at + _SAME_SECONDS:
            return
        try:
            handler(number, frame)
        except BaseException:
            raised_at = time.monotonic()
            raise

    signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        time.sleep(max(0.0, raised_at + _TWIN_SECONDS - time.monotonic()))
        signal.signal(signal.SIGINT, handler)


def _handler_of_this_thread() -> Callable[[int, FrameType | None], Any] | None:
    """Return the handler of Ctrl-C; None if it is ignored, not Python's, or does not concern this thread."""
    if threading.current_thread() is not threading.main_thread():
        return None
    handler = signal.getsignal(signal.SIGINT)
    return handler if callable(handler) else None
