"""Interrupt a run many times, as by Ctrl-C: no interrupt is lost, and no evaluation.

``python interrupting.py FOLDER MODE INTERRUPTS ...`` is run by test_killing.py. Children make a call of `killing.call`
again and again. Each is sent SIGINT at a random moment, every third one twice. It must end, with all processes that it
has started. The last child of a store is left alone, and its result is that of an undisturbed run.

A line of JSON per mode reports the counts.
"""

import contextlib
import importlib
import json
import os
import random
import signal
import sys
import time
import warnings

import numpy as np
from killing import BOUNDS, call, digest, started_in, wait_for

import paoswarm as ps
from paoswarm.results import Status

LOST = 90.0  # seconds without an answer
IN_A_ROW = 6  # interrupts of one store
AFTER = {"compiling": 0.7, "compiling-adaptive": 2.0, "sample-wide": 1.0, "swallowing": 0.3}  # mean seconds


def compiling(seed, engine_method):
    """A run on numba with an objective that was never compiled before; it takes a second or more."""
    method = {} if engine_method is None else {"method": engine_method}
    return ps.minimize(
        lambda x: (x[0] - 1) ** 2 + abs(x[1]), BOUNDS[:2], engine="numba", maxfev=10**9, tol=0.0, rng=seed, **method
    )


def swallowing(seed, notes, store):
    """An objective that swallows every exception, as programs with a bare ``except`` do."""

    def fun(x):
        try:
            time.sleep(1e-3)
        except BaseException:
            return 0.0
        return float((x**2).sum())

    return ps.minimize(fun, BOUNDS, method=ps.PAO(), maxfev=10**9, tol=0.0, rng=seed)


def wide(seed):
    """Many unknowns, whose draws are compared with their neighbours in threads."""

    def log_likelihood(x):
        return -0.5 * (x**2).sum(axis=1) / 0.01

    return ps.sample(log_likelihood, [(-1, 1)] * 12, n_effective=10**5, vectorized=True, rng=seed)


def made(mode, seed, notes, store):
    """The result of a call; these modes have no store."""
    if mode.startswith("compiling"):
        return compiling(seed, "PAO" if mode == "compiling" else None)
    if mode == "swallowing":
        return swallowing(seed, notes, store)
    return wide(seed) if mode == "sample-wide" else call(mode, seed, notes, store)


def is_interrupted(result):
    if isinstance(result, ps.results.Posterior):
        return result.method == "interrupted"
    return bool((np.asarray(result.status) == Status.INTERRUPTED).any())


def run_until_interrupted(mode, seed, notes, store, ready):
    """In a child: a run that has ended is repeated, so an interrupt that is lost shows."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        os.write(ready, b"1")
        while not is_interrupted(made(mode, seed, notes, store)):
            pass
    except KeyboardInterrupt:
        pass
    except BaseException as error:
        print(f"the child failed: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
        os._exit(3)
    os._exit(0)


def interrupt(mode, seed, notes, store, rng):
    """Run in a child and interrupt it; the seconds until it has ended."""
    is_ready, ready = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.setsid()
        run_until_interrupted(mode, seed, notes, store, ready)
    os.read(is_ready, 1)
    os.close(is_ready)
    os.close(ready)
    time.sleep(rng.expovariate(1 / AFTER.get(mode, 0.08)))
    began = time.monotonic()
    os.kill(pid, signal.SIGINT)
    if rng.random() < 1 / 3:
        time.sleep(rng.choice([0.0, 0.001, 0.02]))
        os.kill(pid, signal.SIGINT)
    signal.setitimer(signal.ITIMER_REAL, LOST)
    try:
        status = wait_for(pid)
    except TimeoutError:
        os.killpg(pid, signal.SIGKILL)
        raise AssertionError(f"{mode}: an interrupt was lost") from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    assert status == 0, (mode, status)
    seconds = time.monotonic() - began
    with contextlib.suppress(ProcessLookupError):
        while True:  # workers end with their run
            os.killpg(pid, 0)
            time.sleep(0.01)
    return seconds


def main(mode, interrupts, folder):
    rng, done, slowest, seed = random.Random(7), 0, 0.0, 0
    warnings.simplefilter("ignore")
    has_store = mode not in AFTER
    if mode.startswith("compiling"):  # or the import would be interrupted
        importlib.import_module("paoswarm.run.compiled_swarms")
        importlib.import_module("paoswarm.engines.adaptive_engine")
    while done < interrupts:
        seed += 1
        notes, store = f"{folder}/{mode}-{seed}.notes", f"{folder}/{mode}-{seed}.paoswarm"
        for _ in range(min(IN_A_ROW, interrupts - done)):
            slowest = max(slowest, interrupt(mode, seed, notes, store if has_store else None, rng))
            done += 1
        if not has_store:
            continue
        result = digest(call(mode, seed, notes, store))
        if mode.endswith("asynchronous"):
            assert digest(call(mode, seed, notes + ".repeated", store)) == result
            assert started_in(notes + ".repeated") == [], "an evaluation was lost"
        else:
            truth = digest(call(mode, seed, notes + ".undisturbed"))
            assert result == truth, f"{mode}: the result differs from that of an undisturbed run"
    print(json.dumps({"interrupts": done, "stores": seed, "slowest": round(slowest, 2)}), flush=True)


def late(number, frame):
    raise TimeoutError


if __name__ == "__main__":
    signal.signal(signal.SIGALRM, late)
    for mode, interrupts in zip(sys.argv[2::2], sys.argv[3::2], strict=True):
        main(mode, int(interrupts), sys.argv[1])
