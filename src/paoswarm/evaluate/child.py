"""A process that evaluates points for its parent. It can be killed at any time, with everything it has started.

There are two ways to start one:

- as a `multiprocessing` process, which inherits the function where the system can fork;
- as a new Python interpreter, which is sent the function. This works where forking is not safe or not allowed: in
  threads, and in the workers of an executor.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import pickle
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.util import register_after_fork
from typing import Any, NamedTuple

import numpy as np

from paoswarm._text import describe_error, shortened
from paoswarm.core.arrays import Floats
from paoswarm.evaluate.calls import DIED, TIMED_OUT, Failed, Objective, call_portably, load

_POLL_SECONDS = 0.5  # how often parent and child check that the other is alive
# A new interpreter without work exits after this many seconds, because its parent may never tell it to stop. The parent
# gives it no more work after half that time.
IDLE_SECONDS = 30.0
_EXIT_SECONDS = 1.0  # to wait for the exit code of a process that has closed its connection
_KILL_SECONDS = 10.0  # to wait for a killed process; one that waits for a broken disk does not end
_READY = "ready"
# In the answer for one point. A message that claims to be longer was not sent by `_serve`: the function has written to
# the connection, and the rest of it would never come.
_MOST_BYTES = 10_000
_serving = False  # whether this process is a child
_BOOTSTRAP = """
import json, sys
sys.path[:] = json.loads(sys.argv[2])
from paoswarm.evaluate.child import main
main()
"""


def is_child() -> bool:
    """Whether this process is a child, which its parent kills with its process group."""
    return _serving


class Answered(NamedTuple):
    """Answers for some points, and how many seconds they took."""

    answers: list[float | Failed]
    seconds: float


def evaluate_timed(fun: Objective, x: Floats, vectorized: bool) -> Answered:
    """Evaluate points in this process and measure the time."""
    started = time.perf_counter()
    answers = call_portably(fun, x, vectorized)
    return Answered(answers, time.perf_counter() - started)


class Unloadable(NamedTuple):
    """The function could not be loaded on the worker, for this reason."""

    reason: str

    @classmethod
    def because_of(cls, error: Exception) -> Unloadable:
        """Describe the exception that loading has raised."""
        return cls(describe_error(error))


class ProcessLost(RuntimeError):
    """The process that should evaluate the points is gone."""


class CannotStart(RuntimeError):
    """The system refuses to start a process: its limit of processes, open files or memory is reached."""


class Child:
    """The parent's handle on a process that evaluates points, one request at a time.

    Attributes
    ----------
    connection : Connection
        Readable when there is something to `collect`.
    deadline : float or None
        By when to call `collect`, on the clock ``time.monotonic``. It then kills the process.
    is_ready : bool
        Whether the function is loaded and requests are served.
    is_open : bool
        Whether its parent has not killed it.
    """

    def __init__(self, process: Any, connection: Connection) -> None:
        self._process = process
        self._pidfd = _open_pidfd(process.pid)
        self.connection = connection
        self.deadline: float | None = None
        self._request = 0  # number of the request; the answer carries it too
        self._limit: float | None = None
        self._most_bytes = _MOST_BYTES
        self.is_ready, self.is_open = False, True
        self._killing = threading.Lock()  # the thread that waits for an answer and the one that ends the run may kill
        self._last_used = time.monotonic()

    @classmethod
    def start_process(cls, fun: Objective, pickled: bytes | None, vectorized: bool) -> Child:
        """Start a `multiprocessing` process that inherits ``fun``, or is sent ``pickled`` if that is given."""
        what = (fun, None) if pickled is None else (None, pickled)

        def launch(theirs: Connection) -> Any:
            # A daemon: if an interrupt came right here, nobody would end the process and the program could not exit.
            arguments = (theirs, *what, vectorized, os.getpid())
            process = multiprocessing.Process(target=_serve, args=arguments, daemon=True)
            process.start()
            return process

        return cls._connected(launch)

    @classmethod
    def start_interpreter(cls, pickled: bytes, vectorized: bool, idle: float | None = IDLE_SECONDS) -> Child:
        """Start a new Python interpreter and send it the function. It exits after ``idle`` seconds without work."""

        def launch(theirs: Connection) -> Any:
            return subprocess.Popen(
                [sys.executable, "-c", _BOOTSTRAP, str(theirs.fileno()), json.dumps(sys.path)],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
            )

        child = cls._connected(launch)
        with suppress(OSError):
            child.connection.send((pickled, vectorized, os.getpid(), idle))
        return child

    @classmethod
    def _connected(cls, launch: Callable[[Connection], Any]) -> Child:
        """Start a process, which ``launch`` gives its end of a connection."""
        ends: tuple[Any, ...] = ()
        try:
            ours, theirs = ends = multiprocessing.Pipe()
            register_after_fork(ours, Connection.close)  # a function must not be able to write to other processes
            process = launch(theirs)
        except OSError as error:
            for end in ends:
                end.close()
            raise CannotStart(f"no process can be started: {error}") from error
        theirs.close()
        return cls(process, ours)

    @property
    def handles(self) -> list[Any]:
        """What to wait for: one of them becomes readable when `collect` has something to say."""
        end = getattr(self._process, "sentinel", None) if self._pidfd is None else self._pidfd
        return [self.connection] if end is None else [self.connection, end]

    def send(self, x: Floats, limit: float | None) -> None:
        """Ask for the values at points. ``limit`` is in seconds and starts once the function is loaded."""
        self._limit = limit
        self._most_bytes = _MOST_BYTES * (1 + len(x))
        self._last_used = time.monotonic()
        self.deadline = time.monotonic() + limit if limit is not None and self.is_ready else None
        with suppress(OSError):  # the process is gone: `collect` reports it
            self._request += 1
            self.connection.send((self._request, x))

    def collect(self) -> Answered | Unloadable | None:
        """Return the answer, or None if there is none yet.

        Raises `ProcessLost` if the process is gone. Kills the process if the deadline has passed.
        """
        if not self.is_open:
            raise ProcessLost("killed")
        try:
            if self.connection.poll():
                message = pickle.loads(self.connection.recv_bytes(self._most_bytes))
                if message == _READY:
                    self.is_ready = True
                    self.deadline = None if self._limit is None else time.monotonic() + self._limit
                    return None
                self.deadline = None
                self._last_used = time.monotonic()
                if isinstance(message, Unloadable):
                    return message
                number, answer = message
                if number != self._request:
                    raise ValueError("the answer to another request must not be taken for one to this")
                return answer
        except (EOFError, ConnectionError):
            raise ProcessLost(self._exit_reason(_EXIT_SECONDS)) from None
        except Exception:  # something else was written to the connection
            raise ProcessLost(self._exit_reason(0.0)) from None
        if self.deadline is not None and time.monotonic() >= self.deadline:
            self.kill()
            return Answered([Failed(f"{TIMED_OUT} after {self._limit:g} s")], self._limit or 0.0)
        if not self.is_alive:
            raise ProcessLost(self._exit_reason(0.0))
        return None

    def call(self, x: Floats, limit: float | None) -> Answered | Unloadable:
        """Send points and wait for the answer."""
        try:
            self.send(x, limit)
            while True:
                left = _POLL_SECONDS if self.deadline is None else max(0.0, self.deadline - time.monotonic())
                with suppress(OSError):  # closed, because another thread has killed the process
                    wait(self.handles, min(left, _POLL_SECONDS))
                answer = self.collect()
                if answer is not None:
                    return answer
        except ProcessLost:
            raise
        except BaseException:  # otherwise its answer would arrive during the next call
            self.kill()
            raise

    @property
    def is_fresh(self) -> bool:
        """Whether it can be given work: it is alive and has not been idle for long."""
        return self.is_alive and time.monotonic() - self._last_used < IDLE_SECONDS / 2

    @property
    def is_alive(self) -> bool:
        """Whether the process is running."""
        if not self.is_open:
            return False
        return self._process.poll() is None if isinstance(self._process, subprocess.Popen) else self._process.is_alive()

    def send_kill(self) -> None:
        """Kill the process and everything it has started, without waiting for the end."""
        if not self.is_open:
            return
        with suppress(ProcessLookupError, PermissionError, AttributeError):  # Windows has no process groups
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.kill()  # it may not have created its group yet

    def kill(self) -> None:
        """Kill the process and everything it has started, and wait for the end."""
        with self._killing:
            if not self.is_open:
                return
            self.send_kill()
            self._wait_for_end(_KILL_SECONDS)
            self.is_open = False
            self.connection.close()
            if self._pidfd is not None:
                os.close(self._pidfd)
                self._pidfd = None
            if not isinstance(self._process, subprocess.Popen):
                with suppress(ValueError):  # it still runs
                    self._process.close()

    def _wait_for_end(self, seconds: float) -> int | None:
        """Wait until the process has ended, and return its exit code; None if it goes on."""
        if (pidfd := self._pidfd) is not None:  # another thread may close it
            wait([pidfd], seconds)
            seconds = 0.0
        if isinstance(self._process, subprocess.Popen):
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(seconds)
            return self._process.returncode
        self._process.join(seconds)
        code: int | None = self._process.exitcode
        return code

    def _exit_reason(self, patience: float) -> str:
        """Describe how the process ended by itself, within so many seconds."""
        code = self._wait_for_end(patience)
        self.kill()
        if code is None:
            return "closed its connection, or wrote something else to it than an answer"
        if code >= 0:
            return f"exit status {code}"
        hint = ", out of memory?" if code == -signal.SIGKILL else ""
        return f"{signal.Signals(-code).name}{hint}"


def _open_pidfd(pid: int) -> int | None:
    """Return a file descriptor that becomes readable when the process ends; None if there is no such thing.

    The sentinel of `multiprocessing` is not enough: it is a pipe, which everything that the process has forked keeps
    open.
    """
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):  # not Linux, an old kernel, or no file descriptor is left
        return None


def died(reason: str, times: int) -> Failed:
    """Describe the failure of a point that ended its process ``times`` times."""
    words = shortened(" ".join(reason.split()), 300)  # some executors send long messages
    return Failed(f"{DIED} with its process{f' {times} times' if times > 1 else ''}: {words}")


def main() -> None:
    """Run a child in a new interpreter; the function arrives over the connection."""
    connection = Connection(int(sys.argv[1]))
    pickled, vectorized, parent, idle = connection.recv()
    _serve(connection, None, pickled, vectorized, parent, idle)


def _serve(
    connection: Connection,
    fun: Objective | None,
    pickled: bytes | None,
    vectorized: bool,
    parent: int,
    idle: float | None = None,
) -> None:
    """Answer requests until the parent is gone, or until there was none for ``idle`` seconds."""
    global _serving
    _serving = True
    with suppress(OSError, AttributeError):  # already the leader of a group, or Windows
        os.setsid()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interrupt means
    with suppress(AttributeError):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # blocked by `uninterrupted` in the parent
    random.seed()  # otherwise all children would share the parent's state
    np.random.seed()  # noqa: NPY002
    multiprocessing.current_process()._config["daemon"] = False  # type: ignore[attr-defined]  # may start processes
    with suppress(RuntimeError):  # no thread is left; then an evaluation that outlives the parent is finished
        threading.Thread(target=_end_with_parent, args=(parent,), daemon=True).start()
    if fun is None:
        assert pickled is not None
        try:
            fun = load(pickled)
        except Exception as error:
            connection.send(Unloadable.because_of(error))
            return
    with suppress(EOFError, OSError):
        connection.send(_READY)
        while connection.poll(idle):
            number, x = connection.recv()
            connection.send((number, evaluate_timed(fun, x, vectorized)))


def _end_with_parent(parent: int) -> None:
    """Watch the parent, and kill the whole process group when it is gone."""
    known = multiprocessing.parent_process()
    is_direct = os.getppid() == parent  # False with a fork server, or if the parent has already died
    while os.getppid() == parent if is_direct else known is not None and known.is_alive():
        time.sleep(_POLL_SECONDS)
    with suppress(AttributeError):
        os.killpg(0, signal.SIGKILL)
    os._exit(1)
