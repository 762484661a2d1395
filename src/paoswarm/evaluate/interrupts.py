"""When Ctrl-C ends a run: while it waits for values, and not while it computes.

An exception that comes at any moment would be lost in a compiler or in a callback, would leave swarms half moved, or
would free arrays that threads of others still write to. So a run notes the interrupt, and raises it where it asks for
values or waits for them.
"""

from __future__ import annotations

import math
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from types import FrameType, TracebackType
from typing import Any, ParamSpec, TypeVar

_SAME_SECONDS = 1.0  # after an interrupt, in which others are taken for the same one
_TWIN_SECONDS = 0.05  # after an interrupt, before which a run does not return: two signals often come together

Handler = Callable[[int, FrameType | None], Any]
P = ParamSpec("P")
R = TypeVar("R")


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


class Gate:
    """Where Ctrl-C ends a run: ``with interruptible():`` around a call of the user's function, or a wait.

    One that came before is raised when the gate opens. One that was raised while it was open is raised again if the
    block ends without it: the user's function, or a compiler within it, may have swallowed it.
    """

    __slots__ = ("_is_open", "_is_raised", "handler", "is_noted", "latest")

    def __init__(self, handler: Handler | None = None) -> None:
        self.handler = handler
        self._is_open = self._is_raised = False
        self.is_noted = False  # one has come, and was not raised
        self.latest = -math.inf  # when one came

    def __enter__(self) -> None:
        self._is_raised, self._is_open = False, True  # before the look: one may come right after it
        if self.is_noted:
            self.check()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_open = False
        if self._is_raised:
            self.is_noted = not isinstance(error, KeyboardInterrupt)
        if self.is_noted:
            self.check()

    def check(self) -> None:
        """Raise an interrupt that has come."""
        self._is_open = False
        if self.is_noted:
            self.is_noted = False
            self._pass_on(signal.SIGINT, None)

    def note(self) -> None:
        """Raise an interrupt later that was raised where it could not end anything."""
        self.is_noted = self.handler is not None

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Raise where the gate is open, and a second time anywhere; otherwise note it."""
        before, now = self.latest, time.monotonic()
        if now < before + _SAME_SECONDS:
            return
        self.latest = now
        if self._is_open or before > -math.inf:
            self._is_raised, self._is_open, self.is_noted = self._is_open, False, False
            self._pass_on(number, frame)
            self._is_open, self._is_raised = self._is_raised, False  # a handler of the user, which does not raise
        else:
            self.is_noted = True

    def _pass_on(self, number: int, frame: FrameType | None) -> None:
        assert self.handler is not None
        self.handler(number, frame)
        self.latest = -math.inf  # it has not raised, so nothing was interrupted


class _Here(threading.local):
    gate = Gate()  # of the run in this thread; by default one that nothing comes to


_here = _Here()


def interruptible() -> Gate:
    """The gate of the run in this thread."""
    return _here.gate


def _leave_to_the_parent() -> None:
    """In a forked process: an interrupt of the run is no interrupt of its workers."""
    _here.gate = Gate()
    while isinstance(gate := getattr(signal.getsignal(signal.SIGINT), "__self__", None), Gate):
        signal.signal(signal.SIGINT, gate.handler)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_to_the_parent)


@contextmanager
def interrupted_once() -> Iterator[None]:
    """Let Ctrl-C end the run in the block where it waits for values, and ignore more of them for a second.

    So the result can be made and returned. Later ones raise at once. One that comes too late to end anything is raised
    after the block. The block does not end before a second signal that was sent at the same moment has come: a terminal
    and a parent process may both send one.
    """
    handler = _handler_of_this_thread()
    if handler is None:
        yield
        return
    outer, gate = _here.gate, Gate(handler)
    _here.gate = gate
    signal.signal(signal.SIGINT, gate.handle)
    try:
        yield
    finally:
        time.sleep(max(0.0, gate.latest + _TWIN_SECONDS - time.monotonic()))
        signal.signal(signal.SIGINT, handler)
        _here.gate = outer
        gate.check()


def delays_interrupts(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function that evaluates, so that Ctrl-C ends it as in `interrupted_once`."""

    @wraps(function)
    def delaying(*args: P.args, **kwargs: P.kwargs) -> R:
        with interrupted_once():
            return function(*args, **kwargs)

    return delaying


def _handler_of_this_thread() -> Handler | None:
    """Return the handler of Ctrl-C; None if it is ignored, not Python's, or does not concern this thread."""
    if threading.current_thread() is not threading.main_thread():
        return None
    handler = signal.getsignal(signal.SIGINT)
    return handler if callable(handler) else None
