"""Objectives that commit one fault each: raise, return NaN or text, exit, crash, hang, or wait to be killed.

Also what tests need to check the outcome: comparison of runs, notes that workers leave in files, and a list of the
processes that are still alive.
"""

import faulthandler
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import suppress
from functools import cache
from pathlib import Path

import numpy as np
from numpy.testing import assert_array_equal

import paoswarm as ps

BOX = [(-4.0, 5.0)] * 2
SMALL = {"n_particles": 8, "maxiter": 3, "rng": 1}


def value(x):
    """A quadratic without faults. It uses sums and products only: the same bits for one point and for many."""
    a, b = x[..., 0], x[..., 1]
    return (a - 1) * (a - 1) + (b + 2) * (b + 2) + 0.3 * a * b


def run(fun=value, **changes):
    return ps.minimize(fun, BOX, method=ps.PAO(), **(SMALL | changes))


def assert_same(one, other):
    """The same run, bit for bit. The same points failed, but perhaps for other reasons."""
    for name in ("x", "fun", "status", "nit", "nfev", "n_failed"):
        assert_array_equal(one[name], other[name], err_msg=name)
    for name in ("best", "mean", "spread", "nfev"):
        assert_array_equal(getattr(one.history, name), getattr(other.history, name), err_msg=name)
    for name in ("position", "velocity", "best_position", "best_value"):
        assert_array_equal(getattr(one.swarm, name), getattr(other.swarm, name), err_msg=name)
    assert_array_equal([f.x for f in one.failures], [f.x for f in other.failures])


@cache
def serial(**changes):
    """The run in one process, without faults."""
    return run(**changes)


@cache
def undisturbed_points():
    """First coordinates of the points of `serial`, in the order of evaluation."""
    seen = []
    run(lambda x: (seen.append(float(x[0])), value(x))[1])
    return tuple(seen)


# Faults


def raises():
    raise ArithmeticError("solver diverged")


def returns_nan():
    return np.nan


def returns_text():
    return "low"


def calls_sys_exit():
    sys.exit(4)


def calls_os_exit():
    os._exit(3)


def segfaults():
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    faulthandler.disable()  # otherwise pytest's handler prints a trace
    os.kill(os.getpid(), signal.SIGSEGV)


def kills_itself():
    os.kill(os.getpid(), signal.SIGKILL)


def hangs():
    time.sleep(1000)


def starts_program_that_hangs():
    subprocess.run(["sleep", "1000"], check=False)


def leaves_a_process_behind_and_kills_itself():
    """The child that it forks keeps everything open that was open here."""
    if os.fork() == 0:
        time.sleep(1000)
        os._exit(0)
    os.kill(os.getpid(), signal.SIGKILL)


class Unspeakable(Exception):
    """Neither its text nor its representation can be had."""

    def __str__(self):
        raise RuntimeError("no text")

    __repr__ = __str__


def raises_what_cannot_be_shown():
    raise Unspeakable


def returns_what_cannot_be_shown():
    return Unspeakable()


def raises_a_long_text():
    raise ValueError("x" * 10_000_000)


def returns_a_huge_object():
    return "x" * 10_000_000


def returns_what_cannot_be_pickled():
    return threading.Lock()


def closes_all_files():
    os.closerange(3, 1000)
    return 0.0


def writes_to_all_files(words=b"WARNING: step size is small"):
    """Sends something else in place of an answer; the first four bytes are taken for its length."""
    for number in map(int, os.listdir("/proc/self/fd")):
        with suppress(OSError):
            if number > 2 and os.readlink(f"/proc/self/fd/{number}").startswith("socket:"):
                os.write(number, words)
    time.sleep(0.05)
    return 0.0


def writes_short_words_to_all_files():
    return writes_to_all_files(b"\0\0\0\5no pickle")


def returns_twice():
    """Two processes return from the call, so that there are two answers."""
    if os.fork() == 0:
        time.sleep(0.05)
    return np.nan


def stops_itself():
    os.kill(os.getpid(), signal.SIGSTOP)


def exits_with_success():
    os._exit(0)


def is_ended_by_an_alarm():
    signal.setitimer(signal.ITIMER_REAL, 0.01)
    time.sleep(1000)


def changes_everything_around_it():
    """No fault: what it changes concerns only its own process."""
    os.chdir("/")
    os.environ.clear()
    print("\0 garbage \n" * 100)
    sys.stdout = sys.stderr = None
    threading.Thread(target=sys.exit).start()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    return np.nan


KIND_OF_FAILURE = {
    raises: "raised",
    returns_nan: "returned NaN",
    returns_text: "not a real number",
    calls_sys_exit: "raised",
    calls_os_exit: "died",
    segfaults: "died",
    kills_itself: "died",
    hangs: "timed out",
    starts_program_that_hangs: "timed out",
    leaves_a_process_behind_and_kills_itself: "died",
    raises_what_cannot_be_shown: "raised",
    returns_what_cannot_be_shown: "not a real number",
}
# Faults that are the same for every kind of worker; one kind is tested.
KIND_OF_OTHER_FAILURE = {
    raises_a_long_text: "raised",
    returns_a_huge_object: "not a real number",
    returns_what_cannot_be_pickled: "not a real number",
    closes_all_files: "died",
    writes_to_all_files: "died",
    writes_short_words_to_all_files: "died",
    returns_twice: "returned NaN",
    stops_itself: "timed out",
    exits_with_success: "died",
    is_ended_by_an_alarm: "died",
    changes_everything_around_it: "returned NaN",
}
FAULTS = {fault.__name__: fault for fault in KIND_OF_FAILURE}
OTHER_FAULTS = {fault.__name__: fault for fault in KIND_OF_OTHER_FAILURE}
KINDS = {fault.__name__: kind for fault, kind in (KIND_OF_FAILURE | KIND_OF_OTHER_FAILURE).items()}


class Faulty:
    """`value`, but some points, given by their first coordinates, commit a fault. Every attempt is noted in a file."""

    def __init__(self, fault, points, notes=None):
        self.fault, self.points, self.notes = fault, tuple(points), notes

    def __call__(self, x):
        if self.notes is not None:
            note(self.notes, f"{float(x[0]).hex()} {float(x[1]).hex()}")
        if x[0] in self.points:
            return (FAULTS | OTHER_FAULTS)[self.fault]()
        return float(value(x))


@cache
def fault_points():
    """First coordinates of two points: one of the first swarm, and one of the generation after it."""
    guilty = []
    for number in (2, SMALL["n_particles"] + 5):
        seen = []

        def fun(x, seen=seen):
            seen.append(float(x[0]))
            return np.nan if x[0] in guilty else float(value(x))

        run(fun)
        guilty.append(seen[number])
    return tuple(guilty)


@cache
def serial_with_nan():
    """The run that every other run with `Faulty` at `fault_points` must equal."""
    result = run(Faulty("returns_nan", fault_points()))
    assert result.n_failed == 2
    return result


class WaitsToBeKilled:
    """`value`, but the first attempts at some points note a process and wait for a `Killer` to kill it.

    ``victim`` is "itself", or "parent" where the evaluation has a process of its own below the worker.
    """

    def __init__(self, folder, points, victim="itself", times=1):
        self.folder, self.points, self.victim, self.times = str(folder), tuple(points), victim, times

    def __call__(self, x):
        if x[0] in self.points:
            path = os.path.join(self.folder, float(x[0]).hex())
            note(path, str(os.getpid() if self.victim == "itself" else os.getppid()))
            if len(notes_in(path)) <= self.times:
                time.sleep(1000)
        return float(value(x))


class Killer(threading.Thread):
    """Kills the processes that a `WaitsToBeKilled` has noted."""

    def __init__(self, fun):
        super().__init__(daemon=True)
        self.fun, self.killed, self._ends = fun, 0, threading.Event()

    def run(self):
        done = {}
        while not self._ends.wait(0.01):
            for path in Path(self.fun.folder).glob("*0x*"):
                pids = notes_in(path)[done.get(path, 0) : self.fun.times]
                for pid in pids:
                    with suppress(ProcessLookupError):  # gone with a pool that another death has broken
                        os.kill(int(pid), signal.SIGKILL)
                    self.killed += 1
                done[path] = done.get(path, 0) + len(pids)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *error):
        self._ends.set()
        self.join()


# Notes


def note(path, words):
    """Append a line to a file in one write; return its number, counted from one."""
    with open(path, "ab", buffering=0) as file:
        file.write(words.encode() + b"\n")
        end = file.tell()
    return Path(path).read_bytes()[:end].count(b"\n")


def notes_in(path):
    return Path(path).read_text().splitlines() if os.path.exists(path) else []


def extra_attempts(notes):
    """By first coordinate, how much more often a point was evaluated than in the run without lost workers."""
    with tempfile.TemporaryDirectory() as folder:
        run(Faulty("returns_nan", fault_points(), f"{folder}/notes"))
        needed = Counter(notes_in(f"{folder}/notes"))
    return {float.fromhex(point.split()[0]): times for point, times in (Counter(notes_in(notes)) - needed).items()}


# Processes


def clock_ticks():
    """The time now, in the units in which the system tells when a process was started."""
    return int(time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK"))


def child_processes(since=0, mark=None):
    """Living processes that descend from this one or have a variable named ``mark`` in their environment.

    By process id, their command lines.
    """
    parents, young = {}, []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with suppress(OSError, IndexError, ValueError):  # gone in the meantime
                fields = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()
                parents[int(entry)] = int(fields[1])
                if fields[0] not in "ZX" and int(fields[19]) >= since:
                    young.append(int(entry))
    mine = {}
    for pid in young:
        above = pid
        while above in parents and above != os.getpid():
            above = parents[above]
        with suppress(OSError):
            marked = mark is not None and mark.encode() in Path(f"/proc/{pid}/environ").read_bytes()
            if pid != os.getpid() and (marked or above == os.getpid()):
                command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                if not any(one in command for one in ("resource_tracker", "forkserver", "paoswarm-watcher")):
                    mine[pid] = command
    return mine


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def becomes_true(holds, seconds=300.0):
    """Whether a condition becomes true in time."""
    until = time.monotonic() + seconds
    while not holds() and time.monotonic() < until:
        time.sleep(0.01)
    return holds()
