"""Asynchronous swarms against generations: evaluations in equal time, quality, and the bias towards quick points.

It takes about half an hour on one core; ``--only searches`` measures the default search alone. It runs `minimize`
itself; only the workers are simulated, with a clock that jumps from one completion to the next. Evaluation times are
log-normal with mean 1. Times are in units of the mean evaluation time. Errors are medians of log10 of the distance to
the minimum.
"""

from __future__ import annotations

import argparse
import heapq
import itertools
import warnings
from collections.abc import Callable, Collection
from concurrent.futures import Future
from typing import Any, NamedTuple

import numpy as np

import paoswarm as ps
from paoswarm.evaluate.child import Answered
from paoswarm.evaluate.engines import WorkerPool

Floats = np.ndarray
D = 10
WORKERS = 64
FLOOR = 1e-16


class SimulatedWorkers(WorkerPool):
    """Workers whose evaluations take simulated time."""

    def __init__(self, fun: Callable[[Floats], float], workers: int, duration: Callable[[Floats], float]) -> None:
        self._fun, self._workers, self._duration = fun, workers, duration
        self._queue: list[tuple[float, int, Future[Any], Floats]] = []
        self._numbers = itertools.count()
        self._started: dict[int, float] = {}
        self.clock = self.submitted = 0.0
        self.log: list[tuple[float, float, Floats]] = []  # when, value, where

    @property
    def slots(self) -> int:
        """The number of workers."""
        return self._workers

    def submit(self, x: Floats, *, with_function: bool = False) -> Future[Any]:
        """Schedule the completion on the simulated clock."""
        future: Future[Any] = Future()
        seconds = sum(self._duration(row) for row in x)
        self.submitted += seconds
        heapq.heappush(self._queue, (self.clock + seconds, next(self._numbers), future, x))
        return future

    def wait(self, pending: Collection[Future[Any]], timeout: float | None) -> set[Future[Any]]:
        """Advance the clock to the next completion and return it."""
        if timeout == 0:
            return set()
        self.clock, _, future, x = heapq.heappop(self._queue)
        values = [self._fun(row) for row in x]
        self.log += [(self.clock, value, row) for value, row in zip(values, x, strict=True)]
        future.set_result(Answered(list(values), 1.0))  # one second each, so that points are never sent together
        return {future}

    @property
    def busy(self) -> float:
        """The share of the time until the latest completion in which workers were busy."""
        ahead = sum(end - self.clock for end, _, _, _ in self._queue)
        return (self.submitted - ahead) / (self._workers * self.clock)


class Outcome(NamedTuple):
    """The outcome of one run."""

    log: list[tuple[float, float, Floats]]
    clock: float
    idle: float
    best: Floats

    def value_at(self, clock: float) -> float:
        """Return the best value found by a time."""
        return min((value for when, value, _ in self.log if when <= clock), default=np.inf)


def run(fun: Any, time: Any, seed: int, *, n: int, workers: int, evaluations: int, asynchronous: bool) -> Outcome:
    chance = np.random.default_rng([seed, 7])
    engine = SimulatedWorkers(fun, workers, lambda x: time(chance, x))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = ps.minimize(
            fun,
            [(-5.0, 5.0)] * D,
            method=ps.PAO(),
            n_particles=n,
            maxiter=None,
            maxfev=evaluations,
            tol=0,
            workers=ps.Workers(engine, asynchronous=asynchronous),
            rng=seed,
        )
    return Outcome(engine.log, engine.clock, 1 - engine.busy, result.x)


def lognormal(sigma: float) -> Callable[[np.random.Generator, Floats], float]:
    return lambda chance, x: float(np.exp(sigma * chance.standard_normal() - sigma**2 / 2))


def slow_half(chance: np.random.Generator, x: Floats) -> float:
    """Ten times longer on one side of the box."""
    return lognormal(0.5)(chance, x) * (10.0 if x[0] > 0 else 1.0)


CENTRE = np.random.default_rng(1).uniform(-3, 3, D)


def sphere(x: Floats) -> float:
    return float(((x - CENTRE) ** 2).sum())


def rosenbrock(x: Floats) -> float:
    z = 0.4 * (x - CENTRE) + 1
    return float((100 * (z[1:] - z[:-1] ** 2) ** 2 + (1 - z[:-1]) ** 2).sum())


def rastrigin(x: Floats) -> float:
    z = x - CENTRE
    return float((z**2 - 10 * np.cos(2 * np.pi * z) + 10).sum())


def ackley(x: Floats) -> float:
    z = x - CENTRE
    return float(-20 * np.exp(-0.2 * np.sqrt((z**2).mean())) - np.exp(np.cos(2 * np.pi * z).mean()) + 20 + np.e)


SLOW, FAST = np.full(D, 1.0), np.full(D, 1.0)
SLOW[0], FAST[0] = 2.5, -2.5


def two_equal(x: Floats) -> float:
    return float(min(((x - SLOW) ** 2).sum(), ((x - FAST) ** 2).sum()))


def deeper_where_slow(x: Floats) -> float:
    return float(min(((x - SLOW) ** 2).sum(), ((x - FAST) ** 2).sum() + 3))


def log_error(values: list[float]) -> float:
    return float(np.median(np.log10(np.maximum(values, FLOOR))))


def throughput(seeds: int) -> None:
    print(f"\nevaluations in equal time, asynchronous / synchronous ({WORKERS} workers; idle share if synchronous)")
    sizes = (64, 128, 256)
    print(f"{'sigma':>7}" + "".join(f"{f'n = {n}':>18}" for n in sizes))
    for sigma in (0.0, 0.25, 0.5, 1.0, 1.5):
        cells = []
        for n in sizes:
            times, idle = [], []
            for asynchronous in (False, True):
                many = [
                    run(
                        sphere, lognormal(sigma), s, n=n, workers=WORKERS, evaluations=44 * n, asynchronous=asynchronous
                    )
                    for s in range(seeds)
                ]
                times.append(
                    np.mean([one.log[40 * n - 1][0] for one in many])
                )  # before the end, when workers run out of work
                idle.append(np.mean([one.idle for one in many]))
            cells.append(f"{times[0] / times[1]:>10.2f} ({idle[0]:>4.0%})")
        print(f"{sigma:>7}" + "".join(f"{cell:>18}" for cell in cells))


def quality(seeds: int) -> None:
    print(f"\nlog10 of the error, {D} dimensions, {WORKERS} workers, median of {seeds} runs:")
    print("at the time of 20 synchronous generations, and after 40 generations' evaluations")
    print(f"{'':>22}{'equal time':>24}{'equal evaluations':>24}")
    print(f"{'n':>4} {'sigma':>5} {'':>11}" + f"{'sync':>12}{'async':>12}" * 2)
    for n, sigma, fun in itertools.product((64, 128), (0.5, 1.0), (sphere, rosenbrock, rastrigin, ackley)):
        time = lognormal(sigma)
        sync, free, sync40, free40 = [], [], [], []
        for seed in range(seeds):
            waiting = run(fun, time, seed, n=n, workers=WORKERS, evaluations=40 * n, asynchronous=False)
            until = waiting.log[20 * n - 1][0]
            enough = max(40 * n, int(1.1 * WORKERS * until))
            moving = run(fun, time, seed, n=n, workers=WORKERS, evaluations=enough, asynchronous=True)
            sync.append(waiting.value_at(until))
            free.append(moving.value_at(until))
            sync40.append(min(value for _, value, _ in waiting.log))
            free40.append(min(value for _, value, _ in moving.log[: 40 * n]))
        numbers = "".join(f"{log_error(v):>12.2f}" for v in (sync, free, sync40, free40))
        print(f"{n:>4} {sigma:>5} {fun.__name__:>11}{numbers}", flush=True)


def bias(seeds: int) -> None:
    n = 64
    print(f"\nhalf of the box takes ten times longer; {n} particles, {seeds} runs, 40 generations' evaluations:")
    print("share of the first 10 n evaluations there, and of runs that end there; asynchronous by particles per worker")
    print(f"{'':>18}{'synchronous':>16}" + "".join(f"{r:>16}" for r in (1, 2, 4, 8)))
    for fun in (two_equal, deeper_where_slow):
        cells = []
        for ratio in (0, 1, 2, 4, 8):
            runs = [
                run(
                    fun,
                    slow_half,
                    seed,
                    n=n,
                    workers=n // (ratio or 1),
                    evaluations=40 * n,
                    asynchronous=ratio > 0,
                )
                for seed in range(seeds)
            ]
            share = np.mean([x[0] > 0 for one in runs for _, _, x in one.log[: 10 * n]])
            cells.append(f"{share:.2f}, {np.mean([one.best[0] > 0 for one in runs]):.2f}")
        print(f"{fun.__name__:>18}" + "".join(f"{cell:>16}" for cell in cells), flush=True)


def plain_rosenbrock(x: Floats) -> float:
    return float((100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum())


def plain_rastrigin(x: Floats) -> float:
    return float((x**2 - 10 * np.cos(2 * np.pi * x) + 10).sum())


PROBLEMS = (
    ("Rosenbrock", plain_rosenbrock, 3, (-2.0, 2.0)),
    ("Rosenbrock", plain_rosenbrock, 5, (-2.0, 2.0)),
    ("Rosenbrock", plain_rosenbrock, 10, (-2.0, 2.0)),
    ("Rastrigin", plain_rastrigin, 3, (-4.0, 5.0)),
    ("sphere", lambda x: float(((x - 0.3) ** 2).sum()), 10, (-5.0, 5.0)),
)


def search(
    fun: Any, bounds: Any, time: Any, seed: int, *, workers: int, asynchronous: bool, **limits: Any
) -> tuple[SimulatedWorkers, Any]:
    """One run of the default search."""
    chance = np.random.default_rng([seed, 7])
    engine = SimulatedWorkers(fun, workers, lambda x: time(chance, x))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        workers = ps.Workers(engine, asynchronous=asynchronous)
        found = ps.minimize(fun, bounds, rng=seed, workers=workers, **limits)
    return engine, found


def searches(seeds: int) -> None:
    print(f"\nthe default search, sigma = 1, until 1e-6, medians of {seeds} runs: in generations -> asynchronous")
    print(f"{'':>14} {'workers':>8}{'time':>18}{'evaluations':>20}{'busy':>16}")
    for workers, (name, fun, d, bounds) in itertools.product((8, 16), PROBLEMS):
        cells = []
        for asynchronous in (False, True):
            runs = [
                search(
                    fun,
                    [bounds] * d,
                    lognormal(1.0),
                    seed,
                    workers=workers,
                    asynchronous=asynchronous,
                    target=1e-6,
                    maxfev=50_000,
                )
                for seed in range(seeds)
            ]
            cells.append(np.median([(one.clock, found.nfev, one.busy) for one, found in runs], axis=0))
        (time, nfev, busy), (time_now, nfev_now, busy_now) = cells
        numbers = f"{time:>8.0f} -> {time_now:<6.0f}{nfev:>10.0f} -> {nfev_now:<6.0f}{busy:>8.2f} -> {busy_now:.2f}"
        print(f"{name:>11} {d:>2} {workers:>8}{numbers}", flush=True)
    print(f"\nshare of runs that end in the half that takes ten times longer (d = {D}, 16 workers, 3000 evaluations)")
    for fun in (two_equal, deeper_where_slow):
        shares = []
        for asynchronous in (False, True):
            runs = [
                search(fun, [(-5.0, 5.0)] * D, slow_half, seed, workers=16, asynchronous=asynchronous, maxfev=3000)
                for seed in range(4 * seeds)
            ]
            shares.append(np.mean([found.x[0] > 0 for _, found in runs]))
        print(f"{fun.__name__:>18}: in generations {shares[0]:.2f}, asynchronous {shares[1]:.2f}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=15, help="runs per cell in the table of quality")
    parser.add_argument("--only", choices=["searches", "swarms"], help="the default search, or single swarms")
    given = parser.parse_args()
    seeds = given.seeds
    if given.only != "swarms":
        searches(seeds)
    if given.only != "searches":
        throughput(max(1, seeds // 4))
        bias(4 * seeds)
        quality(seeds)
