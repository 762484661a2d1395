"""Kill a run many times, start it again each time, and check after every kill that nothing was lost.

``python killing.py FOLDER MODE KILLS ...`` is run by test_killing.py. A process that has imported everything forks
children. Each makes the same call with the same store and is killed with SIGKILL: at a random moment, or at the k-th
call to the system with which a store writes, before it or when half of the bytes are written. The objective notes each
point in a file before it starts.

- A single worker asks for a point only after the one before is safe. So all points but the last one started are
  *acknowledged*: they must be in the store and must not be evaluated again.
- With workers and vectorised calls, a generation may be in progress.
- An asynchronous run depends on the order in which values arrive. There the store is the truth, and the same call must
  repeat it without a single evaluation.
- A compiled run keeps its state, and evaluates what comes after it again.

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
from paoswarm.cli.commands import INTERRUPTED, WITHOUT_SUCCESS
from paoswarm.cli.commands import main as command_line
from paoswarm.store import states
from paoswarm.store.log import Reader

PARTICLES = 12
BOUNDS = [(-5.0, 5.0)] * 3
# The others evaluate one or two recorded points again at each start.
TRUSTING = ("rows", "many", "workers", "asynchronous", "fit-asynchronous")
COMPILED = ("compiled", "compiled-large")
MOST_CALLS = 12  # to the system by a child before it is killed; a record makes two


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
    if mode in COMPILED:
        return compiled(seed, store, is_large=mode == "compiled-large")
    if mode.startswith("program"):
        return program(mode, seed, notes, store)
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
        "polish": mode != "many",
        "vectorized": mode == "vectorized",
        "workers": ps.Workers(count, asynchronous=mode == "asynchronous"),
    }
    if mode == "many":
        return ps.minimize_many(noted, BOUNDS, runs=3, rng=seed, store=store, **how)
    return ps.minimize(noted, BOUNDS, rng=seed, store=store, **how)


def rippled(x):
    return (x[0] - 0.1) ** 2 + 2 * (x[1] - 0.2) ** 2 + 0.3 * np.sin(9 * x[2]) ** 2


def compiled(seed, store, is_large):
    """Runs on numba, whose state is recorded after every fifth generation; `LARGE` files are replaced each time."""
    import numba

    from paoswarm.engines import numba_engine
    from paoswarm.run import compiled_swarms

    global rippled
    rippled = rippled if hasattr(rippled, "py_func") else numba.njit(rippled)
    numba_engine.NumbaEngine.longest = 5
    compiled_swarms._SECONDS, compiled_swarms._SHARE = 0.0, np.inf
    states.LARGE = 0 if is_large else 2**26
    how = {"method": "PAO", "engine": ps.engines.Numba(threads=1), "n_particles": PARTICLES, "polish": True}
    return ps.minimize_many(rippled, BOUNDS, runs=4, maxiter=120, tol=0.0, rng=seed, store=store, **how)


SCRIPT = """#!/bin/sh
echo "$1 $2" >> "$NOTES"
exec awk -v a="$1" -v b="$2" 'BEGIN { printf "%.17g\\n", (a - 1) ^ 2 + (b + 2) ^ 2 + 0.3 * a * b }'
"""


def program(mode, seed, notes, store):
    """What ``paoswarm minimize --command`` writes as JSON; the program itself notes its points."""
    folder = Path(notes).absolute().parent
    script, found = folder / "model.sh", Path(f"{notes}.json")
    if not script.exists():
        script.write_text(SCRIPT)
        script.chmod(0o755)
    os.environ["NOTES"] = notes
    words = ["minimize", "--command", f"{script} {{a}} {{b}}", "--bounds", "a=-5,5", "b=-5,5"]
    words += ["--method", "PAO", "--particles", 8, "--maxiter", 4, "--seed", seed, "--json", found]
    words += ["--workers", 2] if mode == "program-workers" else []
    words += [] if store is None else ["--store", store.path]
    with contextlib.redirect_stdout(None):
        code = command_line([str(word) for word in words])
    if code == INTERRUPTED:
        raise KeyboardInterrupt
    assert code in (0, WITHOUT_SUCCESS)
    return json.loads(found.read_text())


def digest(result):
    """A checksum of everything in a result."""
    if type(result) is dict:  # of a program
        kept = {name: value for name, value in result.items() if name not in ("store", "message", "seconds")}
        return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()
    if isinstance(result, ps.results.ManyResult):
        parts = [result.x, result.fun, result.nit, result.nfev, result.n_failed, result.status, result.history]
        return hashlib.sha256(b"".join(np.ascontiguousarray(part).tobytes() for part in parts)).hexdigest()
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


def die_at(k, is_torn):
    """Kill this process at so many calls to the system by which a store is written, some of them half done."""
    left = k

    def counted(name):
        function = getattr(os, name)

        def replacement(*arguments, **options):
            nonlocal left
            left -= 1
            if left == 0:
                if name == "write" and is_torn:
                    function(arguments[0], arguments[1][: len(arguments[1]) // 2])
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*arguments, **options)

        setattr(os, name, replacement)

    for name in ("write", "fsync", "ftruncate", "replace"):
        counted(name)


def wait_for(pid):
    """Wait for the end of a process; its exit status, None if it was killed."""
    status = os.waitpid(pid, 0)[1]
    return os.WEXITSTATUS(status) if os.WIFEXITED(status) else None


def run_and_kill(mode, seed, notes, store, rng):
    """Run in a child process and kill it. Returns its process group and whether it had finished."""
    at_call, k, is_torn = rng.random() < 0.5, rng.randint(1, MOST_CALLS), rng.random() < 0.5
    pid = os.fork()
    if pid == 0:
        os.setsid()
        if at_call:
            die_at(k, is_torn)
        try:
            Path(store + ".digest").write_text(digest(call(mode, seed, notes, store)))
            os._exit(0)
        except BaseException as error:
            print(f"the child failed: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
            os._exit(3)
    if not at_call:
        time.sleep(rng.expovariate(1 / 0.08))
        os.kill(pid, signal.SIGKILL)
    status = wait_for(pid)
    assert status in (0, None)
    return pid, status == 0


def kill_group(group):
    """Kill the workers of a killed run, which may still be alive."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def started_in(notes):
    """The points whose evaluation was started, in that order."""
    return Path(notes).read_text().splitlines() if os.path.exists(notes) else []


def recorded_in(store):
    """The points in a store and their values."""
    if not os.path.exists(store) or not os.path.getsize(store) or Reader(store).header() is None:
        return {}
    x, f = ps.Store(store).read()
    return dict(zip([row.tobytes().hex() for row in x], f.tolist(), strict=True))


def kill_until_it_ends(mode, seed, notes, store, kills, rng):
    """Run and kill, as often as wanted at most, and let it end. Returns the number of kills."""
    dead, known, groups, ended = 0, {}, [], False
    while not ended:
        begun_before = len(started_in(notes))
        if dead < kills:
            group, ended = run_and_kill(mode, seed, notes, store, rng)
            groups.append(group)
        else:
            ended = True
            Path(store + ".digest").write_text(digest(call(mode, seed, notes, store)))
        for group in groups if ended else groups[:-1]:  # workers of an earlier run must not hold the lock
            kill_group(group)
        groups = groups[-1:]
        now = recorded_in(store)
        for key, old in known.items():  # recorded values stay
            assert now[key] == old or (np.isnan(now[key]) and np.isnan(old))
        if mode == "rows":  # every point but the last one started was acknowledged
            for key in started_in(notes)[begun_before:][:-1]:
                assert key in now, "an acknowledged evaluation was lost"
        known = now
        dead += not ended
    return dead


def main(mode, kills, folder):
    rng = random.Random(5)
    warnings.simplefilter("ignore")
    dead = finished = repeated = seed = 0
    # Polishing asks for a point and its neighbours at once, and cheap points travel together.
    in_flight = {"workers": PARTICLES, "asynchronous": len(BOUNDS) + 1, "program-workers": 2}
    in_flight |= {"fit-workers": 2, "fit-asynchronous": 2}
    while dead < kills or not finished:
        seed += 1
        notes, store = f"{folder}/{mode}-{seed}.notes", f"{folder}/{mode}-{seed}.paoswarm"
        truth = digest(call(mode, seed, notes + ".undisturbed"))
        undisturbed = len(started_in(notes + ".undisturbed"))
        deaths = kill_until_it_ends(mode, seed, notes, store, kills - dead, rng)
        dead += deaths
        finished += 1
        if mode.endswith("asynchronous"):
            truth = digest(call(mode, seed, notes + ".repeated", store))
            assert started_in(notes + ".repeated") == [], "an evaluation was repeated"
            undisturbed = len(ps.Store(store).read()[1])
        assert Path(store + ".digest").read_text() == truth, "the result differs from that of an undisturbed run"
        again = len(started_in(notes)) - undisturbed
        checks = 0 if mode in TRUSTING else 2 * (deaths + 1)  # the first point of a start is called by itself
        assert 0 <= again <= in_flight.get(mode, 1) * deaths + checks, (again, deaths)
        repeated += again
    print(json.dumps({"kills": dead, "runs": finished, "repeated": repeated}), flush=True)


if __name__ == "__main__":
    for mode, kills in zip(sys.argv[2::2], sys.argv[3::2], strict=True):
        main(mode, int(kills), sys.argv[1])
