"""The numba engine for adaptive runs: one run is one program, with the objective inside.

The objective comes in as a pointer to compiled code. So `advance` is compiled once, and kept on disk until the text of
a kernel changes. It moves a run on by some generations: a run can be looked at, and stopped, between calls. As many
threads as there are cores share the runs.
"""

from __future__ import annotations

import math
import threading
import time
import zlib
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numba
import numpy as np

from paoswarm._extras import cores
from paoswarm.core.arrays import Floats
from paoswarm.core.blas import on_one_thread
from paoswarm.engines import adaptive_kernels, adaptive_searches, adaptive_state, adaptive_swarms, numba_noise
from paoswarm.engines.adaptive_kernels import inner, once
from paoswarm.engines.adaptive_searches import charge, follow, is_settled, is_undercut, judge, turn
from paoswarm.engines.adaptive_state import (
    AGE,
    ASKED,
    BEST,
    BEST_VALUE,
    DRAWN,
    POSITION,
    VALUE,
    AdaptiveRun,
    copy,
    is_full,
    new_run,
    with_room,
)
from paoswarm.engines.adaptive_swarms import (
    ask_dense,
    ask_element,
    begin_dense,
    begin_element,
    end_of_dense,
    is_element_over,
    tell_dense,
    tell_element,
)
from paoswarm.engines.counter import Words
from paoswarm.engines.engines import ForNumba
from paoswarm.engines.numba_objective import objective
from paoswarm.engines.program import CONVERGED, FAILED, RUNNING, TARGET
from paoswarm.engines.search_plan import SearchPlan
from paoswarm.methods.quadratic_model import n_coefficients, points_for

MAXFEV, MAXITER = 4, 5  # as in `Status`
BY_ITS_OWN_RULE = 4  # as in `Rule`
_U32 = np.uint32
_UNIT = 2.0**-32


class AdaptiveLimits(NamedTuple):
    """What ends a run; zero or infinity for what does not."""

    maxfev: int
    maxiter: int
    target: float
    may_agree: bool  # whether it ends when its searches agree
    is_single: bool  # one search that is not started again
    tol: float = 0.0  # the accuracy at which searches end


class Room(NamedTuple):
    """Space for one generation."""

    words: Any  # (2, n d)
    deviates: Any  # (2, n d) in single precision
    normal: Any  # (n, d)
    uniform: Any  # (n, d)
    points: Any  # (n, d)
    values: Any  # (n,)


def _kept_for(sources: int) -> Any:
    """`advance`, kept on disk: numba knows its code again by the variables of its closure, not by what it calls."""

    @numba.njit(nogil=True, cache=True, error_model="numpy")
    def advance(fun, data, low, high, limits, key, given, n_first, run, generations):
        """Move a run on by so many generations, or to its end, or until it wants more room (`with_room`).

        ``given`` are the first points (n, d); if there are none, the first ``n_first`` are a Latin hypercube.
        """
        lanes, facts, width = run.lanes, run.facts[0], high - low
        room = _room(lanes.numbers.shape[2], len(low))
        for _ in range(generations):
            if not sources or facts.status != RUNNING or is_full(run):
                break
            k = turn(run)
            is_new, is_first = not lanes.own[k].is_used, facts.n_begun == 0
            left = limits.maxfev - facts.nfev
            if is_new:
                own_key = search_key(key, facts.n_begun)
                n_asked = follow(run, k, len(low), _chances(own_key), n_first)
                m = min(n_asked, left)
                if m > len(room.values):
                    facts.wanted = max(m, 2 * len(room.values))
                    break
                lanes.own[k].is_used = 1
                facts.n_begun += 1
                if is_first and len(given):
                    for i in range(m):
                        copy(given[i], room.points[i])
                else:
                    first_points(own_key, n_asked, low, high, room.points[:m])
            else:
                n_asked = ask(lanes, k, search_key(key, lanes.own[k].search), low, high, room)
                m = min(n_asked, left)
            points, values = room.points[:m], room.values[:m]
            fun(points.ctypes, m, values.ctypes, data)
            _count(run, points, values, is_first)
            if m == n_asked:
                charge(run, k, points, values)
                if is_new:
                    begin(lanes, k, points, values, low, high)
                else:
                    tell(lanes, k, points, values, room)
                    if not limits.is_single:
                        judge(run, k, width, limits.tol)
            _see_whether_it_ends(run, k, width, limits)

    return advance


def _sources() -> int:
    """A number that changes with the text of any function inside `advance`."""
    compiled = adaptive_kernels, adaptive_searches, adaptive_state, adaptive_swarms, numba_noise
    texts = (Path(str(module.__file__)).read_bytes() for module in (*compiled, *adaptive_kernels.KERNELS))
    return 1 + zlib.crc32(b"".join(texts))


advance = _kept_for(_sources())


@once
def _room(n, d):
    size = n * d
    return Room(
        np.empty((2, size), dtype=np.uint32), np.empty((2, size), dtype=np.float32), np.empty((n, d)),
        np.empty((n, d)), np.empty((n, d)), np.empty(n),
    )  # fmt: skip


@inner
def search_key(key, search):
    """The key of a search (E4)."""
    own = np.empty(2, dtype=np.uint32)
    own[0] = key[0]
    own[1] = numba_noise.hashed(_U32(key[1] ^ numba_noise.hashed(_U32(search + 1))))
    return own


@inner
def _chances(key):
    """Two uniform numbers that say how a search begins."""
    a, b = numba_noise.philox(_U32(0), key[0], numba_noise.generation_key(key, 1))
    return a * _UNIT, b * _UNIT


@inner
def first_points(key, n, low, high, points):
    """The first of ``n`` points of a Latin hypercube (E3), as many as ``points`` has rows."""
    half = 1
    while 4**half < n:
        half += 1
    words, numbers = np.empty((2, n * len(low)), dtype=np.uint32), np.empty((2, n), dtype=np.uint32)
    whole, keys = np.empty((1, n, len(low))), np.empty((1, 2), dtype=np.uint32)
    copy(key, keys[0])
    cipher = np.empty(4**half, dtype=np.uint32)
    numba_noise.first_points(keys, half, low, high, words[0], words[1], numbers[0], numbers[1], cipher, whole)
    for i in range(len(points)):
        copy(whole[0, i], points[i])


@once
def begin(lanes, k, points, values, low, high):
    """Make the first swarm of a search from evaluated points."""
    own, numbers = lanes.own[k], lanes.numbers[k]
    own.n, own.n_first, own.is_open = len(values), len(values), 0
    for i in range(own.n):
        value = np.inf if math.isnan(values[i]) else values[i]
        numbers[VALUE, i], numbers[BEST_VALUE, i], numbers[AGE, i] = value, value, 0
        copy(points[i], lanes.points[k, POSITION, i])
        copy(points[i], lanes.points[k, BEST, i])
    if own.is_dense:
        begin_dense(lanes, k, low, high)
    else:
        begin_element(lanes, k)


@once
def ask(lanes, k, key, low, high, room):
    """Fill the first points of the room with those that a search wants evaluated; return how many."""
    own = lanes.own[k]
    if not own.is_open:
        normal, uniform = room.normal[: own.n], room.uniform[: own.n]
        own.drawn_generations += 1
        word = 4 * own.drawn_generations
        _draw_normals(key, word, room, normal)
        if own.is_dense:
            ask_dense(lanes, k, normal)
        else:
            _draw_uniforms(key, word + 1, uniform)
            ask_element(lanes, k, key, low, high, normal, uniform)
    for i in range(own.n_asked):
        x = lanes.points[k, DRAWN, int(lanes.numbers[k, ASKED, i])]
        for j in range(len(low)):
            place = low[j] + x[j] * (high[j] - low[j]) if own.is_dense else x[j]
            room.points[i, j] = min(max(place, low[j]), high[j])
    return own.n_asked


@inner
def _draw_normals(key, word, room, normal):
    """Normal deviates: the first of all pairs, then the second (E5)."""
    n, d = normal.shape
    pairs = (n * d + 1) // 2
    first, second = room.deviates[0, :pairs], room.deviates[1, :pairs]
    numba_noise.normals(key, word, 0, room.words[0, :pairs], room.words[1, :pairs], first, second)
    for i in range(n):
        for j in range(d):
            e = i * d + j
            normal[i, j] = first[e] if e < pairs else second[e - pairs]


@inner
def _draw_uniforms(key, word, uniform):
    """Uniform deviates in the same order."""
    n, d = uniform.shape
    pairs = (n * d + 1) // 2
    mixed = numba_noise.generation_key(key, word)
    for e in range(pairs):
        a, b = numba_noise.philox(_U32(e), key[0], mixed)
        uniform[e // d, e % d] = a * _UNIT
        if e + pairs < n * d:
            uniform[(e + pairs) // d, (e + pairs) % d] = b * _UNIT


@once
def tell(lanes, k, points, values, room):
    """The search after its points were evaluated."""
    own = lanes.own[k]
    if own.is_dense:
        tell_dense(lanes, k, points, values)
    else:
        tell_element(lanes, k, points, values)


@once
def _count(run, points, values, is_first):
    """The best point, the counts and the history after points were evaluated."""
    facts = run.facts[0]
    if is_first:
        copy(points[0], run.x)
    else:
        facts.nit += 1
    facts.nfev += len(values)
    for i in range(len(values)):
        if values[i] < facts.value:
            facts.value = values[i]
            copy(points[i], run.x)
        elif math.isnan(values[i]):
            facts.n_failed += 1
    run.history[facts.n_history] = facts.value
    facts.n_history += 1


@once
def _see_whether_it_ends(run, k, width, limits):
    """What ends the run, if anything; the first reason that holds counts, in the order of `Status`."""
    facts = run.facts[0]
    if limits.is_single:
        is_dense = run.lanes.own[k].is_dense
        stands = end_of_dense(run.lanes, k) if is_dense else is_element_over(run.lanes, k, width)
        has_converged = stands != 0
    else:
        facts.is_undercut = is_settled(facts) and is_undercut(run)
        has_converged = limits.may_agree and is_settled(facts) and not facts.is_undercut
    facts.rule = BY_ITS_OWN_RULE if has_converged else 0
    if facts.nit == 0 and facts.value == np.inf:
        facts.status = FAILED
    elif facts.value <= limits.target:
        facts.status = TARGET
    elif has_converged:
        facts.status = CONVERGED
    elif facts.nfev >= limits.maxfev:
        facts.status = MAXFEV
    elif facts.nit >= limits.maxiter:
        facts.status = MAXITER


_SLICE = 0.05  # seconds that a slice may take: an interrupt waits so long
_LONGEST, _LONGEST_SHARED = 100_000, 64  # generations of a slice, at most; if runs move on side by side
_NO_LIMIT = 2**60


class RunReport(NamedTuple):
    """Where a run stood after a slice. The arrays of a run change while it moves on, so this is a copy."""

    x: Floats
    value: float
    nit: int
    nfev: int
    n_failed: int


class AdaptiveRuns:
    """Many adaptive runs. A run depends on its key and its first points alone, not on slices or threads.

    Parameters
    ----------
    plan : SearchPlan
    fun : callable
        ``fun(x) -> float`` for a point ``x`` (d,), compiled with `numba.njit` or such that it can be.
    lower, upper : arrays (d,)
    n_particles : int
        Size of the first swarm.
    limits : AdaptiveLimits
    keys : array (runs, 2)
    given : array (runs, n, d)
        The first points of the runs; with ``n = 0`` they are a Latin hypercube.
    is_side_by_side : bool
        Whether all runs move on together. Otherwise each is finished before another begins, which takes less memory.
    threads : int, optional
        One per core if not given.
    """

    def __init__(
        self,
        plan: SearchPlan,
        fun: Callable[..., Any] | ForNumba,
        lower: Floats,
        upper: Floats,
        n_particles: int,
        limits: AdaptiveLimits,
        keys: Words,
        given: Floats,
        is_side_by_side: bool,
        threads: int | None = None,
    ) -> None:
        d = len(lower)
        self._sizes = d, n_particles, n_coefficients(d), points_for(n_coefficients(d))
        self._plan, self._keys, self._given = plan, keys, given
        self._fun = objective(fun, d)
        self._problem = self._fun.pointer, self._fun.data, lower, upper, limits
        self._is_side_by_side = is_side_by_side
        self._threads = min(threads or cores(), len(keys))
        self._waiting = deque(range(len(keys)))
        self._lock = threading.Lock()
        self._is_stopped = False
        self._advance(self._new(), 0, 0)  # compile before any clock starts
        self.states: dict[int, AdaptiveRun] = {}  # of the runs that have begun and not ended
        self.reports: dict[int, RunReport] = {}  # of the runs that have begun

    def start(self, ended: Callable[[int, AdaptiveRun], None]) -> tuple[ThreadPoolExecutor, list[Future[None]]]:
        """Let the threads work; ``ended`` is called by them with each run that has ended, which is then forgotten."""
        pool = ThreadPoolExecutor(self._threads, thread_name_prefix="paoswarm")
        return pool, [pool.submit(self._work, ended) for _ in range(self._threads)]

    def evaluate(self, points: Floats) -> Floats:
        """The objective at points ``(m, d)``."""
        return self._fun(points)

    def stop(self) -> None:
        """Ask the threads to end after their slices."""
        self._is_stopped = True

    def begin_others(self) -> None:
        """Evaluate the first swarms of runs that have not begun, after the threads have ended."""
        for r in range(len(self._keys)):
            if r not in self.reports:
                run = self._new()
                self._advance(run, r, 1)
                self.reports[r], self.states[r] = _report(run), run

    def _work(self, ended: Callable[[int, AdaptiveRun], None]) -> None:
        generations = 1
        while not self._is_stopped:
            with self._lock:
                if not self._waiting:
                    return
                r = self._waiting.popleft()
            run = self.states.get(r) or self._new()
            began = time.monotonic()
            self._advance(run, r, generations)
            seconds = time.monotonic() - began
            self.reports[r] = _report(run)
            if run.facts[0]["status"] != RUNNING:
                self.states.pop(r, None)
                ended(r, run)
                continue
            self.states[r] = with_room(run)
            with self._lock:
                if self._is_side_by_side:
                    self._waiting.append(r)
                else:
                    self._waiting.appendleft(r)
            longest = _LONGEST_SHARED if self._is_side_by_side else _LONGEST
            wanted = min(2 * generations, longest, int(generations * _SLICE / max(seconds, 1e-9)))
            generations = max(1, wanted)

    def _new(self) -> AdaptiveRun:
        return new_run(self._plan.series, *self._sizes)

    @on_one_thread
    def _advance(self, run: AdaptiveRun, r: int, generations: int) -> None:
        advance(*self._problem, self._keys[r], self._given[r], self._sizes[1], run, generations)


def _report(run: AdaptiveRun) -> RunReport:
    facts = run.facts[0]
    counts = (int(facts[name]) for name in ("nit", "nfev", "n_failed"))
    return RunReport(run.x.copy(), float(facts["value"]), *counts)


def limits_of(
    plan: SearchPlan, maxfev: int | None, maxiter: int | None, target: float | None, tol: float
) -> AdaptiveLimits:
    """Limits of runs as numbers."""
    return AdaptiveLimits(
        maxfev=_NO_LIMIT if maxfev is None else maxfev,
        maxiter=_NO_LIMIT if maxiter is None else maxiter,
        target=-math.inf if target is None else float(target),
        may_agree=tol > 0,
        is_single=plan.is_single,
        tol=tol,
    )
