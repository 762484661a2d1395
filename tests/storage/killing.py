"""Kill a run again and again, start it again, and check after every death that nothing was lost. Not a test itself.

``python killing.py FOLDER MODE KILLS ...``: a process that has imported everything forks children, each of which makes
the same call with the same store, and kills them with SIGKILL at random moments. The objective notes each point in a
file of its own before it begins. One worker asks for a point only after the one before is safe, so of every life all
points but the last one begun are *acknowledged*: these must be in the store, and never be asked for again. With workers
and vectorised calls a generation may be in flight. An asynchronous run depends on who was quickest: there the store is
the truth, and the same call must repeat it without a single evaluation. A line of JSON tells what was counted.
"""

import contextlib
import hashlib
import json
import os
import random
import signal
import sys
import time
import warnings
from pathlib import Path

import numpy as np

import paoswarm as ps
from paoswarm.storage.log import Reader

PARTICLES = 12
BOUNDS = [(-5.0, 5.0)] * 3


def value(x):
    if x[0] > 4:
        raise ValueError("too far")
    return float("nan") if x[1] > 4.5 else float(((x - 1) ** 2).sum() - 3 * np.cos(4 * x).sum())


def many(x):
    return ((x - 1) ** 2).sum(axis=1) - 3 * np.cos(4 * x).sum(axis=1)


def log_likelihood(x):
    return -0.5 * ((x - 0.3) ** 2).sum(axis=1) / 0.01


class Noted:
    """The objective, with a file in which it says what it is doing."""

    def __init__(self, fun, path, pause):
        self.fun, self.path, self.pause = fun, path, pause

    def __call__(self, x):
        with open(self.path, "ab", buffering=0) as file:  # one write, which a kill cannot take back
            file.write(np.ascontiguousarray(x).tobytes().hex().encode() + b"\n")
        time.sleep(self.pause)
        return self.fun(x)


def call(mode, seed, notes, store=None):
    """The run: the same call, whatever happened before."""
    pause = 2e-3 if mode in ("workers", "asynchronous", "vectorized") else 1e-3
    if mode == "sample":
        noted = Noted(log_likelihood, notes, pause)
        return ps.sample(noted, [(-1, 1)] * 2, n_effective=200, n_particles=400, vectorized=True, rng=seed, store=store)
    noted = Noted(many if mode == "vectorized" else value, notes, pause)
    how = {"workers": 2} if mode in ("workers", "asynchronous") else {"vectorized": mode == "vectorized"}
    how |= {"n_particles": PARTICLES, "maxiter": 15, "polish": True, "asynchronous": mode == "asynchronous"}
    return ps.minimize(noted, BOUNDS, rng=seed, store=store, **how)


def digest(result):
    """Of everything in a result, to the last bit."""
    if isinstance(result, ps.Posterior):
        parts = [result.draws, result.log_weights, result.log_evidence, result.n_evaluations]
    else:
        history = result.history
        parts = [result.x, result.fun, history.best, history.mean, history.spread, history.nfev, result.n_failed]
        parts += [result.swarm.position, result.swarm.velocity, result.swarm.best_value, len(result.failures)]
        parts += [failure.x for failure in result.failures]
        parts.append(np.frombuffer(" ".join(f.reason for f in result.failures).encode() + b" " * 8, dtype=np.uint8))
    return hashlib.sha256(b"".join(np.ascontiguousarray(part).tobytes() for part in parts)).hexdigest()


def live_and_die(mode, seed, notes, store, after):
    """One life; its process group, and whether it ended by itself."""
    pid = os.fork()
    if pid == 0:
        os.setsid()
        try:
            Path(store + ".digest").write_text(digest(call(mode, seed, notes, store)))
            os._exit(0)
        except BaseException as error:
            print(f"the child failed: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
            os._exit(3)
    time.sleep(after)
    os.kill(pid, signal.SIGKILL)
    status = os.waitpid(pid, 0)[1]
    if os.WIFEXITED(status):
        assert os.WEXITSTATUS(status) == 0, status
        return pid, True
    return pid, False


def bury(group):
    """Workers of a killed run live on until somebody ends them."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def begun_in(notes):
    """Points that were begun, in the order of time."""
    return Path(notes).read_text().splitlines() if os.path.exists(notes) else []


def main(mode, kills, folder):
    rng = random.Random(5)
    warnings.simplefilter("ignore")
    dead = finished = repeated = seed = 0
    while dead < kills or not finished:
        seed += 1
        notes, store = f"{folder}/{mode}-{seed}.notes", f"{folder}/{mode}-{seed}.paoswarm"
        truth = digest(call(mode, seed, notes + ".undisturbed"))
        undisturbed = len(begun_in(notes + ".undisturbed"))
        deaths_here, known, groups = 0, {}, []
        while True:
            after = rng.expovariate(1 / 0.08)
            begun_before = len(begun_in(notes))
            if dead < kills:
                group, ended = live_and_die(mode, seed, notes, store, after)
                groups.append(group)
            else:
                ended = True
                Path(store + ".digest").write_text(digest(call(mode, seed, notes, store)))
            for group in groups if ended else groups[:-1]:  # the orphans of the life before must not hold its lock
                bury(group)
            groups = groups[-1:]
            begun = begun_in(notes)
            if os.path.exists(store) and os.path.getsize(store):
                x, f = ps.Store(store).read() if Reader(store).header() else (np.empty((0, 3)), np.empty(0))
                now = dict(zip([row.tobytes().hex() for row in x], f.tolist(), strict=True))
                for key, old in known.items():  # what was there stays there
                    assert now[key] == old or (np.isnan(now[key]) and np.isnan(old))
                if mode == "rows":  # every point but the last one begun was acknowledged
                    for key in begun[begun_before:][:-1]:
                        assert key in now, "an acknowledged evaluation was lost"
                known = now
            if ended:
                break
            dead += 1
            deaths_here += 1
        finished += 1
        if mode == "asynchronous":
            truth = digest(call(mode, seed, notes + ".repeated", store))
            assert begun_in(notes + ".repeated") == [], "an evaluation was repeated"
            undisturbed = len(ps.Store(store).read()[1])
        assert Path(store + ".digest").read_text() == truth, "the result differs from that of an undisturbed run"
        again = len(begun_in(notes)) - undisturbed
        # Polishing asks for a point and its neighbours at once, and cheap points travel together.
        in_flight = {"workers": PARTICLES, "asynchronous": len(BOUNDS) + 1}.get(mode, 1)
        assert 0 <= again <= in_flight * deaths_here, (again, deaths_here)
        repeated += again
    print(json.dumps({"kills": dead, "runs": finished, "repeated": repeated}))


if __name__ == "__main__":
    for mode, kills in zip(sys.argv[2::2], sys.argv[3::2], strict=True):
        main(mode, int(kills), sys.argv[1])
