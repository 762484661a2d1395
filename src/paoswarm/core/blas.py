"""Our own small linear algebra on one thread.

OpenBLAS starts threads for matrices of a few dozen rows, where they gain little, and lets them wait in a busy loop.
Where other processes need the other cores, a search with 20 unknowns then takes ten to forty times the CPU time.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from functools import cache, wraps
from threading import Lock
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

_NAMES = [(begin, end) for begin in ("scipy_openblas", "openblas") for end in ("64_", "_64", "")]


def on_one_thread(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function that calls BLAS or LAPACK, and no function of the user.

    The number of threads belongs to the process: what other threads of Python compute meanwhile is limited as well.
    """

    @wraps(function)
    def alone(*args: P.args, **kwargs: P.kwargs) -> R:
        ONE_THREAD.enter()
        try:
            return function(*args, **kwargs)
        finally:
            ONE_THREAD.leave()

    return alone


class OneThread:
    """One thread while any function of ours is inside, then as many as before; 3 us for both."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._inside = 0
        self._before: list[tuple[Any, int]] = []  # what sets the number of threads, and that number

    def enter(self) -> None:
        """One thread from here on."""
        with self._lock:
            self._inside += 1
            if self._inside == 1:
                self._before = [(put, number) for get, put in libraries() if (number := get()) > 1]
                for put, _ in self._before:
                    put(1)

    def leave(self) -> None:
        """As many threads as before, unless others are inside."""
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                for put, number in self._before:
                    put(number)

    def after_fork(self) -> None:
        """In a new process nothing is inside: what was is in threads that do not exist there."""
        self._lock = Lock()
        if self._inside:
            self._inside = 1
            self.leave()


ONE_THREAD = OneThread()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=ONE_THREAD.after_fork)


@cache
def libraries() -> list[tuple[Any, Any]]:
    """How the OpenBLAS of NumPy and that of SciPy get and set their numbers of threads; empty where there is none."""
    from numpy.linalg import _umath_linalg
    from scipy.linalg import cython_blas

    found = {}
    for module in (_umath_linalg, cython_blas):
        try:  # names are looked up in all libraries on which the module depends
            library: Any = ctypes.CDLL(module.__file__)
        except OSError:
            continue
        for begin, end in _NAMES:
            get, put = (getattr(library, f"{begin}_{verb}_num_threads{end}", None) for verb in ("get", "set"))
            if get is not None and put is not None:
                found[ctypes.cast(get, ctypes.c_void_p).value] = get, put  # both may have the same
                break
    return list(found.values())
