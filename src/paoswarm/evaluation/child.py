"""A process that evaluates points for its parent and may be ended at any moment, with everything it has started.

Two ways to start one: as a process of `multiprocessing`, which inherits the function where the system can fork; and as
a new interpreter, which is sent the function. The second works where the first is not allowed: in threads, and in the
workers of other people's engines.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import numpy as np

from paoswarm.core.arrays import Floats
from paoswarm.evaluation.calls import DIED, TIMED_OUT, Failed, Objective, call_portably
from paoswarm.evaluation.pickling import load

_LOOK = 0.5  # seconds between two looks whether the other one still lives
# A new interpreter without work ends by itself after so many seconds, since its parent may never say goodbye; after
# half of that the parent no longer relies on it.
IDLE = 30.0
_READY = "ready"
_START = """
import json, sys
sys.path[:] = json.loads(sys.argv[2])
from paoswarm.evaluation.child import main
main()
"""


class Answered(NamedTuple):
    """Answers for some points, and the seconds that they took."""

    answers: list[float | Failed]
    seconds: float


def answered(fun: Objective, x: Floats, vectorized: bool) -> Answered:
    """Answers of a function that is called here, with the time they took."""
    started = time.perf_counter()
    answers = call_portably(fun, x, vectorized)
    return Answered(answers, time.perf_counter() - started)


class Unloadable(NamedTuple):
    """The function could not be loaded where it was to be called, and why."""

    reason: str


class Lost(RuntimeError):
    """Points were not evaluated, because the process that had them is gone."""


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Hold back an interrupt: what is started here must be known before it may be forgotten."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Child:
    """The parent's hold on a process that evaluates points, one request at a time.

    Attributes
    ----------
    connection : Connection
        Readable when there is something to `collect`.
    deadline : float or None
        When to `collect` at the latest, of ``time.monotonic``: then the process is ended.
    """

    def __init__(self, process: Any, connection: Connection) -> None:
        self._process = process
        self.connection = connection
        self.deadline: float | None = None
        self._request = 0  # its number comes back with the answer
        self._limit: float | None = None
        self._is_ready = self._is_gone = False
        self._used = time.monotonic()

    @classmethod
    def of_multiprocessing(cls, fun: Objective, blob: bytes | None, vectorized: bool) -> Child:
        """A child that inherits ``fun``, or is sent ``blob`` where there is one."""
        ours, theirs = multiprocessing.Pipe()
        what = (fun, None) if blob is None else (None, blob)
        # A daemon: should an interrupt come right here, nobody would ever end it, and the program could not end either.
        process = multiprocessing.Process(target=_serve, args=(theirs, *what, vectorized, os.getpid()), daemon=True)
        process.start()
        theirs.close()
        return cls(process, ours)

    @classmethod
    def of_new_interpreter(cls, blob: bytes, vectorized: bool) -> Child:
        """A child in an interpreter of its own."""
        ours, theirs = multiprocessing.Pipe()
        process = subprocess.Popen(
            [sys.executable, "-c", _START, str(theirs.fileno()), json.dumps(sys.path)],
            pass_fds=(theirs.fileno(),),
            stdin=subprocess.DEVNULL,
        )
        theirs.close()
        child = cls(process, ours)
        with suppress(OSError):
            ours.send((blob, vectorized, os.getpid()))
        return child

    @property
    def sentinel(self) -> Any:
        """What becomes readable when the process ends; of `multiprocessing` only."""
        return self._process.sentinel

    def send(self, x: Floats, limit: float | None) -> None:
        """Ask for the values at points; ``limit`` seconds at most once the function is there."""
        self._limit = limit
        self._used = time.monotonic()
        self.deadline = time.monotonic() + limit if limit is not None and self._is_ready else None
        with suppress(OSError):  # it is gone: `collect` says so
            self._request += 1
            self.connection.send((self._request, x))

    def collect(self) -> Answered | Unloadable | None:
        """The answer, if there is one; `Lost` if the process is gone; past the deadline it is ended."""
        try:
            if self.connection.poll():
                message = self.connection.recv()
                if message == _READY:
                    self._is_ready = True
                    self.deadline = None if self._limit is None else time.monotonic() + self._limit
                    return None
                self.deadline = None
                self._used = time.monotonic()
                if isinstance(message, Unloadable):
                    return message
                number, answer = message
                if number != self._request:  # an answer to something else must never pass for this one
                    raise EOFError
                return answer
        except (OSError, EOFError):
            raise Lost(self._end()) from None
        if self.deadline is not None and time.monotonic() >= self.deadline:
            self.kill()
            return Answered([Failed(f"{TIMED_OUT} after {self._limit:g} s")], self._limit or 0.0)
        if not self.is_alive:
            raise Lost(self._end())
        return None

    def call(self, x: Floats, limit: float | None) -> Answered | Unloadable:
        """`send`, and wait for the answer."""
        try:
            self.send(x, limit)
            while True:
                left = _LOOK if self.deadline is None else max(0.0, self.deadline - time.monotonic())
                self.connection.poll(min(left, _LOOK))
                answer = self.collect()
                if answer is not None:
                    return answer
        except Lost:
            raise
        except BaseException:  # its answer would come when something else is asked
            self.kill()
            raise

    @property
    def is_ready(self) -> bool:
        """Whether it has begun to serve."""
        return self._is_ready

    @property
    def is_fresh(self) -> bool:
        """Whether it may be given work: it runs, and has not been idle for long."""
        return self.is_alive and time.monotonic() - self._used < IDLE / 2

    @property
    def is_open(self) -> bool:
        """Whether it was not ended by its parent."""
        return not self._is_gone

    @property
    def is_alive(self) -> bool:
        """Whether the process runs."""
        if self._is_gone:
            return False
        return self._process.poll() is None if isinstance(self._process, subprocess.Popen) else self._process.is_alive()

    def strike(self) -> None:
        """End the process and all that it has started, without waiting for it."""
        with suppress(ProcessLookupError, PermissionError, AttributeError):  # there are no groups on Windows
            os.killpg(self._process.pid, signal.SIGKILL)  # it leads one of its own
        self._process.kill()  # it may not have come that far

    def kill(self) -> None:
        """End the process and all that it has started."""
        if self._is_gone:
            return
        self.strike()
        self._is_gone = True
        self.connection.close()
        if isinstance(self._process, subprocess.Popen):
            self._process.wait()
        else:
            self._process.join()
            self._process.close()

    def _end(self) -> str:
        """How it ended by itself, in words."""
        popen = isinstance(self._process, subprocess.Popen)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0) if popen else self._process.join(1.0)
        code = self._process.returncode if popen else self._process.exitcode
        self.kill()
        if code is None:
            return "closed its connection"
        if code >= 0:
            return f"exit status {code}"
        hint = ", out of memory?" if code == -signal.SIGKILL else ""
        return f"{signal.Signals(-code).name}{hint}"


def killed(reason: str, times: int) -> Failed:
    """The verdict on a point that has ended every process that was given it."""
    words = " ".join(reason.split())  # some engines are talkative
    words = words if len(words) <= 300 else words[:297] + "..."
    return Failed(f"{DIED} with its process{f' {times} times' if times > 1 else ''}: {words}")


def main() -> None:
    """A child in an interpreter of its own: the function comes over the connection."""
    connection = Connection(int(sys.argv[1]))
    blob, vectorized, parent = connection.recv()
    _serve(connection, None, blob, vectorized, parent, idle=IDLE)


def _serve(
    connection: Connection,
    fun: Objective | None,
    blob: bytes | None,
    vectorized: bool,
    parent: int,
    idle: float | None = None,
) -> None:
    """Answer requests until the parent is gone."""
    with suppress(OSError, AttributeError):  # a leader already; or on Windows
        os.setsid()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interrupt means
    with suppress(AttributeError):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # the parent was `uninterrupted`
    random.seed()  # a copy of the parent's state would be the same in all children
    np.random.seed()  # noqa: NPY002
    multiprocessing.current_process()._config["daemon"] = False  # type: ignore[attr-defined]  # may have children
    threading.Thread(target=_end_with_parent, args=(parent,), daemon=True).start()
    if fun is None:
        assert blob is not None
        try:
            fun = load(blob)
        except Exception as error:
            connection.send(Unloadable(f"{type(error).__name__}: {error}"))
            return
    with suppress(EOFError, OSError):
        connection.send(_READY)
        while connection.poll(idle):
            number, x = connection.recv()
            connection.send((number, answered(fun, x, vectorized)))


def _end_with_parent(parent: int) -> None:
    """Watch, and end the whole group when the parent is gone, however that came about."""
    known = multiprocessing.parent_process()
    is_direct = os.getppid() == parent  # not so with a fork server, or if the parent has died already
    while os.getppid() == parent if is_direct else known is not None and known.is_alive():
        time.sleep(_LOOK)
    with suppress(AttributeError):
        os.killpg(0, signal.SIGKILL)
    os._exit(1)
