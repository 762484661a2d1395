"""What the workers are given to do here, whom they leave behind, and the comparison of runs."""

import contextlib
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
    """Sums and products only: the same bits for one point and for many."""
    a, b = x[..., 0], x[..., 1]
    return (a - 1) * (a - 1) + (b + 2) * (b + 2) + 0.3 * a * b


def run(fun=value, **changes):
    return ps.minimize(fun, BOX, **(SMALL | changes))


def assert_same(one, other):
    """The same run, bit for bit; how points failed may differ, but not which."""
    for name in ("x", "fun", "status", "nit", "nfev", "n_failed"):
        assert_array_equal(one[name], other[name], err_msg=name)
    for name in ("best", "mean", "spread", "nfev"):
        assert_array_equal(getattr(one.history, name), getattr(other.history, name), err_msg=name)
    for name in ("position", "velocity", "best_position", "best_value"):
        assert_array_equal(getattr(one.swarm, name), getattr(other.swarm, name), err_msg=name)
    assert_array_equal([f.x for f in one.failures], [f.x for f in other.failures])


@cache
def serial(**changes):
    return run(**changes)


# Faults


def _segfault():
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    faulthandler.disable()  # pytest's would tell about it
    os.kill(os.getpid(), signal.SIGSEGV)


def _raise():
    raise ArithmeticError("solver diverged")


def _nothing():
    return "low"


def _hang_in_grandchild():
    subprocess.run(["sleep", "1000"], check=False)


FAULTS = {
    "raises": _raise,
    "nan": lambda: np.nan,
    "type": _nothing,
    "sys.exit": lambda: sys.exit(4),
    "_exit": lambda: os._exit(3),
    "segfault": _segfault,
    "killed": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "hang": lambda: time.sleep(1000),
    "grandchild": _hang_in_grandchild,
}
KINDS = {
    "raises": "raised",
    "nan": "returned NaN",
    "type": "no number",
    "sys.exit": "raised",
    "_exit": "died",
    "segfault": "died",
    "killed": "died",
    "hang": "timed out",
    "grandchild": "timed out",
}


class Faulty:
    """`value`, but at some points, known by their first coordinate, something else happens; each attempt is noted."""

    def __init__(self, fault, marks, notes=None):
        self.fault, self.marks, self.notes = fault, tuple(marks), notes

    def __call__(self, x):
        if self.notes is not None:
            note(self.notes, f"{float(x[0]).hex()} {float(x[1]).hex()}")
        if x[0] in self.marks:
            return FAULTS[self.fault]()
        return float(value(x))


@cache
def marks():
    """A point of the first swarm and one of the next generation of a run that fails at both."""
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
    """What every run with `Faulty` at `marks` must be."""
    result = run(Faulty("nan", marks()))
    assert result.n_failed == 2
    return result


# Notes


def attempts_beyond_need(notes):
    """Of every point that was evaluated more often than in the undisturbed run: how much more often."""
    with tempfile.TemporaryDirectory() as folder:
        run(Faulty("nan", marks(), f"{folder}/notes"))
        needed = Counter(notes_in(f"{folder}/notes"))
    return {float.fromhex(point.split()[0]): times for point, times in (Counter(notes_in(notes)) - needed).items()}


def note(path, words):
    """A line in a file, in one write; and its number, from one."""
    with open(path, "ab", buffering=0) as file:
        file.write(words.encode() + b"\n")
        end = file.tell()
    return Path(path).read_bytes()[:end].count(b"\n")


def notes_in(path):
    return Path(path).read_text().splitlines() if os.path.exists(path) else []


class Innocent:
    """`value`, but the first attempt at each of some points says who it is and waits to be killed.

    ``whom`` is "me", or "parent" where the evaluation has a process of its own below the worker.
    """

    def __init__(self, folder, marks, whom="me", times=1):
        self.folder, self.marks, self.whom, self.times = str(folder), tuple(marks), whom, times

    def __call__(self, x):
        if x[0] in self.marks:
            path = os.path.join(self.folder, float(x[0]).hex())
            note(path, str(os.getpid() if self.whom == "me" else os.getppid()))
            if len(notes_in(path)) <= self.times:
                time.sleep(1000)
        return float(value(x))


class Killer(threading.Thread):
    """Kills whoever says in the folder of an `Innocent` that he waits for it."""

    def __init__(self, innocent):
        super().__init__(daemon=True)
        self.innocent, self.killed, self._ends = innocent, 0, threading.Event()

    def run(self):
        done = {}
        while not self._ends.wait(0.01):
            for path in Path(self.innocent.folder).glob("*0x*"):
                whom = notes_in(path)[done.get(path, 0) : self.innocent.times]
                for pid in whom:
                    with contextlib.suppress(ProcessLookupError):  # gone with the pool that another has broken
                        os.kill(int(pid), signal.SIGKILL)
                    self.killed += 1
                done[path] = done.get(path, 0) + len(whom)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *error):
        self._ends.set()
        self.join()


# Who is there


def now():
    """In the units in which the system says when a process was started."""
    return int(time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK"))


def family(since=0, mark=None):
    """Living processes that descend from this one, or were started with a mark in their surroundings, by command."""
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
                if "resource_tracker" not in command and "forkserver" not in command:
                    mine[pid] = command
    return mine


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def soon(holds, seconds=10.0):
    """Whether something comes true in time."""
    until = time.monotonic() + seconds
    while not holds() and time.monotonic() < until:
        time.sleep(0.01)
    return holds()
