"""Kill a run many times, start it again each time, and check after every kill that nothing was lost.

``python killing.py FOLDER MODE KILLS ...`` is run by test_killing.py. A process that has imported everything forks
children. Each makes the same call with the same store and is killed with SIGKILL at a random moment. The objective
notes each point in a file before it starts.

- A single worker asks for a point only after the one before is safe. So all points but the last one started are
  *acknowledged*: they must be in the store and must not be evaluated again.
- With workers and vectorised calls, a generation may be in progress.
- An asynchronous run depends on the order in which values arrive. There the store is the truth, and the same call must
  repeat it without a single evaluation.

A line of JSON per mode reports the counts.
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
from paoswarm.store.log import Reader

PARTICLES = 12
BOUNDS = [(-5.0, 5.0)] * 3
TRUSTING = (
    "rows",
    "workers",
    "asynchronous",
    "fit-asynchronous",
)  # the others evaluate one or two recorded points again at each start


def value(x):
    if x[0] > 4:
        raise ValueError("too far")
    return float("nan") if x[1] > 4.5 else float(((x - 1) ** 2).sum() - 3 * np.cos(4 * x).sum())


def many(x):
    return ((x - 1) ** 2).sum(axis=1) - 3 * np.cos(4 * x).sum(axis=1)


TIMES = np.arange(1.0, 9.0)
DATA = {"fast": 3 * np.exp(-0.5 * TIMES) + 0.1 * np.sin(9 * TIMES), "slow": ps.Scaled(np.exp(-0.1 * TIMES))}


def curves(x):
    if x[0] > 4:
        raise ValueError("too far")
    return {"fast": x[0] * np.exp(-x[1] * TIMES), "slow": np.exp(-(x[2] ** 2) * TIMES)}


def log_likelihood(x):
    return -0.5 * ((x - 0.3) ** 2).sum(axis=1) / 0.01


class Noted:
    """The objective; every call is noted in a file before it starts."""

    def __init__(self, fun, path, pause):
        self.fun, self.path, self.pause = fun, path, pause

    def __call__(self, x):
        with open(self.path, "ab", buffering=0) as file:  # in one write: a kill cannot undo it
            file.write(np.ascontiguousarray(x).tobytes().hex().encode() + b"\n")
        time.sleep(self.pause)
        return self.fun(x)


def call(mode, seed, notes, store=None):
    """The run: the same call, whatever happened before."""
    if store is not None:
        store = ps.Store(store, trust=mode in TRUSTING)
    pause = 2e-3 if mode in ("workers", "asynchronous", "vectorized") else 1e-3
    if mode == "sample":
        noted = Noted(log_likelihood, notes, pause)
        return ps.sample(noted, [(-1, 1)] * 2, n_effective=200, n_particles=400, vectorized=True, rng=seed, store=store)
    if mode.startswith("fit"):
        bounds = [(0.1, 5.0)] * 3
        workers = ps.Workers(1 if mode == "fit" else 2, asynchronous=mode == "fit-asynchronous")
        return ps.fit(Noted(curves, notes, pause), bounds, DATA, workers=workers, maxfev=150, rng=seed, store=store)
    noted = Noted(many if mode == "vectorized" else value, notes, pause)
    count = 2 if mode in ("workers", "asynchronous") else 1
    how = {
        "method": ps.PAO(),
        "n_particles": PARTICLES,
        "maxiter": 15,
        "polish": True,
        "vectorized": mode == "vectorized",
        "workers": ps.Workers(count, asynchronous=mode == "asynchronous"),
    }
    return ps.minimize(noted, BOUNDS, rng=seed, store=store, **how)


def digest(result):
    """A checksum of everything in a result."""
    if isinstance(result, ps.results.Posterior):
        parts = [result.draws, result.weighted.draws, result.weighted.log_weights]
        parts += [result.log_evidence, result.n_evaluations]
    elif isinstance(result, ps.results.Fit):
        parts = [result.x, result.fun, result.nfev, result.n_failed, result.history.best, result.covariance]
        parts += [result.jacobian, result.predictions["slow"], [one.value for one in result.searches]]
    else:
        history = result.history
        parts = [result.x, result.fun, history.best, history.mean, history.spread, history.nfev, result.n_failed]
        parts += [result.swarm.position, result.swarm.velocity, result.swarm.best_value, len(result.failures)]
        parts += [failure.x for failure in result.failures]
        parts.append(np.frombuffer(" ".join(f.reason for f in result.failures).encode() + b" " * 8, dtype=np.uint8))
    return hashlib.sha256(b"".join(np.ascontiguousarray(part).tobytes() for part in parts)).hexdigest()


def run_and_kill(mode, seed, notes, store, after):
    """Run in a child process and kill it after some seconds. Returns its process group and whether it had finished."""
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


def kill_group(group):
    """Kill the workers of a killed run, which may still be alive."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def started_in(notes):
    """The points whose evaluation was started, in that order."""
    return Path(notes).read_text().splitlines() if os.path.exists(notes) else []


def main(mode, kills, folder):
    rng = random.Random(5)
    warnings.simplefilter("ignore")
    dead = finished = repeated = seed = 0
    while dead < kills or not finished:
        seed += 1
        notes, store = f"{folder}/{mode}-{seed}.notes", f"{folder}/{mode}-{seed}.paoswarm"
        truth = digest(call(mode, seed, notes + ".undisturbed"))
        undisturbed = len(started_in(notes + ".undisturbed"))
        deaths_here, known, groups = 0, {}, []
        while True:
            after = rng.expovariate(1 / 0.08)
            begun_before = len(started_in(notes))
            if dead < kills:
                group, ended = run_and_kill(mode, seed, notes, store, after)
                groups.append(group)
            else:
                ended = True
                Path(store + ".digest").write_text(digest(call(mode, seed, notes, store)))
            for group in groups if ended else groups[:-1]:  # workers of an earlier run must not hold the lock
                kill_group(group)
            groups = groups[-1:]
            begun = started_in(notes)
            if os.path.exists(store) and os.path.getsize(store):
                x, f = ps.Store(store).read() if Reader(store).header() else (np.empty((0, 3)), np.empty(0))
                now = dict(zip([row.tobytes().hex() for row in x], f.tolist(), strict=True))
                for key, old in known.items():  # recorded values stay
                    assert now[key] == old or (np.isnan(now[key]) and np.isnan(old))
                if mode == "rows":  # every point but the last one started was acknowledged
                    for key in begun[begun_before:][:-1]:
                        assert key in now, "an acknowledged evaluation was lost"
                known = now
            if ended:
                break
            dead += 1
            deaths_here += 1
        finished += 1
        if mode.endswith("asynchronous"):
            truth = digest(call(mode, seed, notes + ".repeated", store))
            assert started_in(notes + ".repeated") == [], "an evaluation was repeated"
            undisturbed = len(ps.Store(store).read()[1])
        assert Path(store + ".digest").read_text() == truth, "the result differs from that of an undisturbed run"
        again = len(started_in(notes)) - undisturbed
        # Polishing asks for a point and its neighbours at once, and cheap points travel together.
        in_flight = {"workers": PARTICLES, "asynchronous": len(BOUNDS) + 1, "fit-workers": 2, "fit-asynchronous": 2}
        checks = 0 if mode in TRUSTING else 2 * (deaths_here + 1)  # the first point of a start is called by itself
        assert 0 <= again <= in_flight.get(mode, 1) * deaths_here + checks, (again, deaths_here)
        repeated += again
    print(json.dumps({"kills": dead, "runs": finished, "repeated": repeated}))


if __name__ == "__main__":
    for mode, kills in zip(sys.argv[2::2], sys.argv[3::2], strict=True):
        main(mode, int(kills), sys.argv[1])
